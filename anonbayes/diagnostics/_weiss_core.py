"""Homogeneity tests for categorical chains, on plain arrays.

A series is one scalar variable, a segment is a whole chain or a piece of one. Each series is
recoded on the fly to the categories it visits, so that counters stay as small as its own alphabet,
whatever the codes.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

WEISS, HANGARTNER, BILLINGSLEY, DAR, MC = range(5)


@njit(cache=True)
def _recode(codes: np.ndarray, local: np.ndarray, seen: np.ndarray) -> int:
    """Overwrite `codes` (segment, draw) by ranks of first visit; return the number of categories.

    `local` maps a code to its rank and holds -1 elsewhere, before and after the call.
    """
    m = 0
    for segment in range(codes.shape[0]):
        for t in range(codes.shape[1]):
            code = codes[segment, t]
            if local[code] < 0:
                local[code] = m
                seen[m] = code
                m += 1
            codes[segment, t] = local[code]
    for j in range(m):
        local[seen[j]] = -1
    return m


@njit(cache=True)
def count_categories(codes: np.ndarray, m: int) -> np.ndarray:
    """Return how often each segment is in each category, (segment, category)."""
    counts = np.zeros((codes.shape[0], m), np.int64)
    for segment in range(codes.shape[0]):
        for t in range(codes.shape[1]):
            counts[segment, codes[segment, t]] += 1
    return counts


@njit(cache=True)
def count_transitions(codes: np.ndarray, m: int) -> np.ndarray:
    """Return how often each segment steps from one category to another, (segment, from, to)."""
    counts = np.zeros((codes.shape[0], m, m), np.int64)
    for segment in range(codes.shape[0]):
        for t in range(1, codes.shape[1]):
            counts[segment, codes[segment, t - 1], codes[segment, t]] += 1
    return counts


@njit(cache=True)
def chi_square(counts: np.ndarray, length: int) -> float:
    """Pearson's homogeneity statistic, ``T sum_l sum_j (p_jl - p_j)^2 / p_j``."""
    d, m = counts.shape
    total = 0.0
    for j in range(m):
        pooled = counts[:, j].sum() / (d * length)
        if pooled > 0.0:
            for segment in range(d):
                total += (counts[segment, j] / length - pooled) ** 2 / pooled
    return length * total


@njit(cache=True)
def count_moves(codes: np.ndarray) -> int:
    """Return how many steps of all segments lead to another category."""
    moves = 0
    for segment in range(codes.shape[0]):
        for t in range(1, codes.shape[1]):
            moves += codes[segment, t] != codes[segment, t - 1]
    return moves


@njit(cache=True)
def persistence(counts: np.ndarray, length: int, moves: int) -> float:
    """Estimate phi of a DAR(1) chain from all segments together (Deonovic & Smith 2017).

    ``1 + 1/T - (1 - sum_j P_stay(j)) / (1 - sum_j p_j^2)``, at least 0. Where this reaches 1 the
    variance factor ``(1 + phi) / (1 - phi)`` has no finite value; it is then set to `T`, its limit
    for a segment of `T` draws that does not move: such a segment counts as one draw.
    """
    d = counts.shape[0]
    evenness = 1.0
    for j in range(counts.shape[1]):
        evenness -= (counts[:, j].sum() / (d * length)) ** 2
    phi = 1.0 + 1.0 / length - moves / (d * (length - 1)) / evenness
    if phi >= 1.0:
        phi = (length - 1.0) / (length + 1.0)
    return max(phi, 0.0)


@njit(cache=True)
def billingsley(transitions: np.ndarray) -> tuple[float, int]:
    """Billingsley's statistic for equal transition matrices, and its degrees of freedom.

    A category counts in the segments that leave it, with the successors it has in any of them:
    ``sum over categories of (segments - 1) (successors - 1)`` degrees of freedom.
    """
    d, m, _ = transitions.shape
    statistic, dof = 0.0, 0
    for j in range(m):
        leaving = 0
        total = 0
        for segment in range(d):
            here = transitions[segment, j].sum()
            leaving += here > 0
            total += here
        if total == 0:
            continue
        successors = 0
        for k in range(m):
            pooled = transitions[:, j, k].sum() / total
            if pooled == 0.0:
                continue
            successors += 1
            for segment in range(d):
                here = transitions[segment, j].sum()
                if here > 0:
                    share = transitions[segment, j, k] / here
                    statistic += here * (share - pooled) ** 2 / pooled
        dof += (leaving - 1) * (successors - 1)
    return statistic, dof


@njit(cache=True)
def _pick(rng: np.random.Generator, cumulative: np.ndarray) -> int:
    """Draw an index by cumulative weights whose last entry is at least 1."""
    u = rng.random()
    j = 0
    while u >= cumulative[j]:
        j += 1
    return j


@njit(cache=True)
def _jumps(transition: np.ndarray) -> np.ndarray:
    """Return cumulative probabilities of the next *other* category, one row per category."""
    m = transition.shape[0]
    cumulative = np.ones((m, m))
    for j in range(m):
        leaving = 1.0 - transition[j, j]
        total, last = 0.0, 0
        for k in range(m):
            if k != j and transition[j, k] > 0.0:
                total += transition[j, k] / leaving
                last = k
            cumulative[j, k] = total
        cumulative[j, last:] = 1.0  # rounding must not make a draw fall off the end
    return cumulative


@njit(cache=True)
def bootstrap(
    rng: np.random.Generator,
    shares: np.ndarray,
    transition: np.ndarray,
    shape: tuple[int, int],
    observed: float,
    simulations: int,
) -> tuple[float, float]:
    """Return the p-value of `observed` among chi-squares of simulated chains, and their mean.

    Every simulation runs ``shape[0]`` Markov chains of ``shape[1]`` draws from starts by `shares`.
    The time spent in a category is geometric, so the work grows with the number of moves, not of
    draws. The observed value counts as one of the simulated, so the p-value is never zero.
    """
    d, length = shape
    starts = np.cumsum(shares)
    starts[-1] = 1.0
    jumps = _jumps(transition)
    stay = np.diag(transition)
    scale = np.zeros(stay.size)
    for j in range(stay.size):
        if 0.0 < stay[j] < 1.0:
            scale[j] = 1.0 / math.log(stay[j])
    counts = np.zeros((d, shares.size), np.int64)
    as_large = 0
    total = 0.0
    for _ in range(simulations):
        counts[:] = 0
        for segment in range(d):
            state = _pick(rng, starts)
            left = length
            while True:
                run = left
                if stay[state] < 1.0:
                    run = 1 + int(min(math.log(1.0 - rng.random()) * scale[state], float(left)))
                if run >= left:
                    counts[segment, state] += left
                    break
                counts[segment, state] += run
                left -= run
                state = _pick(rng, jumps[state])
        value = chi_square(counts, length)
        total += value
        as_large += value >= observed * (1.0 - 1e-12)
    return (1.0 + as_large) / (1.0 + simulations), total / simulations


@njit(cache=True)
def pooled_transition(transitions: np.ndarray) -> np.ndarray:
    """Return the transition matrix of all segments together; a category never left stays put."""
    m = transitions.shape[1]
    matrix = np.zeros((m, m))
    for j in range(m):
        total = transitions[:, j].sum()
        if total == 0:
            matrix[j, j] = 1.0
        else:
            for k in range(m):
                matrix[j, k] = transitions[:, j, k].sum() / total
    return matrix


@njit(cache=True)
def dar_transition(shares: np.ndarray, phi: float) -> np.ndarray:
    """Return the transition matrix of a DAR(1) chain: stay with phi, else draw from `shares`."""
    m = shares.size
    matrix = np.empty((m, m))
    for j in range(m):
        for k in range(m):
            matrix[j, k] = (1.0 - phi) * shares[k] + (phi if j == k else 0.0)
    return matrix


@njit(cache=True)
def weiss_kernel(codes: np.ndarray, n_codes: int, method: int) -> np.ndarray:
    """Test every series of `codes` (series, segment, draw), which is recoded in place.

    Returns
    -------
    array (5, series)
        Statistic, degrees of freedom, phi, number of categories, number of moves.
    """
    n_series, d, length = codes.shape
    out = np.zeros((5, n_series))
    local = np.full(n_codes, -1, np.int64)
    seen = np.empty(n_codes, np.int64)
    for i in range(n_series):
        series = codes[i]
        m = _recode(series, local, seen)
        moves = count_moves(series)
        out[3, i] = m
        out[4, i] = moves
        if m == 1:  # nothing to compare: the statistic is 0 on 0 degrees of freedom
            out[2, i] = np.nan
            continue
        counts = count_categories(series, m)
        phi = persistence(counts, length, moves)
        out[2, i] = phi
        if method == BILLINGSLEY:
            out[0, i], out[1, i] = billingsley(count_transitions(series, m))
        else:
            out[0, i] = chi_square(counts, length)
            out[1, i] = (m - 1) * (d - 1)
            if method == WEISS:
                out[0, i] *= (1.0 - phi) / (1.0 + phi)
    return out


@njit(cache=True)
def bootstrap_kernel(
    codes: np.ndarray, table: np.ndarray, method: int, simulations: int, rng: np.random.Generator
) -> np.ndarray:
    """Return p-values and mean simulated statistics (2, series), from what `weiss_kernel` left."""
    n_series, d, length = codes.shape
    out = np.full((2, n_series), np.nan)
    for i in range(n_series):
        m = int(table[3, i])
        if m == 1:
            out[1, i] = 0.0
            continue
        shares = count_categories(codes[i], m).sum(axis=0) / (d * length)
        if method == DAR:
            matrix = dar_transition(shares, table[2, i])
        else:
            matrix = pooled_transition(count_transitions(codes[i], m))
        out[0, i], out[1, i] = bootstrap(rng, shares, matrix, (d, length), table[0, i], simulations)
    return out
