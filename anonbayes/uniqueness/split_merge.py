"""Split and merge whole classes, which would take thousands of sweeps row by row.

Two rows are picked at random. If they belong to the same class, a split is proposed: each of them
founds a class, the other rows of the old class are assigned to one of the two in turn, with
probabilities that reflect their fit, and are then reassigned a few times. Otherwise, a merger of
their classes is proposed (Dahl 2005; Jain and Neal 2004). The shares of values and the weights of
the classes are integrated out.

References
----------
.. [1] D. B. Dahl (2005). Sequentially-allocated merge-split sampler for conjugate and nonconjugate
   Dirichlet process mixture models. University of Wisconsin, Madison.
.. [2] S. Jain, R. M. Neal (2004). A split-merge Markov chain Monte Carlo procedure for the
   Dirichlet process mixture model. J. Computational and Graphical Statistics 13, 158-182.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from numba import njit

from anonbayes.arrays import Floats, Ints
from anonbayes.uniqueness.mixture import SampleRecords

ATTEMPTS = 2
"""Pairs of rows picked in each sweep."""
SCANS = 4
"""Scans over the rows of a split; the last is the proposal to accept or reject."""


@njit(cache=True, nogil=True)
def split_or_merge(
    records: SampleRecords,
    shares: Floats,
    margin: Floats,
    kappa: Floats,
    concentration: float,
    in_class: Floats,
    rows_in: Ints,
    mass_in: Floats,
    seats: npt.NDArray[np.int32],
    rng: np.random.Generator,
) -> None:
    """Split and merge classes in place; every row must have a seat and a mass of one."""
    n_rows = len(seats)
    if n_rows < 2:
        return
    record_of = np.repeat(np.arange(len(records.rows)), records.rows)
    before, done = seats.copy(), 0
    for _ in range(ATTEMPTS):
        done += _attempt(
            records, shares, margin, kappa, concentration, in_class, seats, record_of, rng
        )
    if done == 0:
        return
    for r in range(n_rows):
        old, new = before[r], seats[r]
        if old != new:
            for g in records.path[record_of[r]]:
                rows_in[g, old] -= 1
                rows_in[g, new] += 1
                mass_in[g, old] -= 1.0
                mass_in[g, new] += 1.0


@njit(cache=True, nogil=True)
def _attempt(
    records: SampleRecords,
    shares: Floats,
    margin: Floats,
    kappa: Floats,
    concentration: float,
    in_class: Floats,
    seats: npt.NDArray[np.int32],
    record_of: Ints,
    rng: np.random.Generator,
) -> int:
    """Propose to split the class of two rows or to merge their classes; return 1 if accepted."""
    n_rows = len(seats)
    i, j = rng.integers(0, n_rows), rng.integers(0, n_rows - 1)
    j += j >= i
    one, two = seats[i], seats[j]
    split, each_class = one == two, concentration / len(in_class)
    free = np.flatnonzero(in_class == 0.0)
    if split:
        if len(free) == 0:
            return 0
        two = np.int32(free[rng.integers(0, len(free))])
    members = np.flatnonzero((seats == one) | (seats == two))
    rng.shuffle(members)
    fixed = np.zeros(len(members))  # log odds by coarse cells, whose shares are given
    for t in range(len(members)):
        for g in records.path[record_of[members[t]]]:
            if records.way_start[g] == records.way_start[g + 1]:
                fixed[t] += math.log(max(shares[g, two], 1e-300))
                fixed[t] -= math.log(max(shares[g, one], 1e-300))
    # mass of the parts in each of the two classes, and in both together
    parts, whole = np.empty((3, len(margin))), np.empty((3, len(records.pool)))
    for k in range(len(records.pool)):
        whole[:, k] = kappa[records.pool[k]]
        for s in range(records.slot_start[k], records.slot_start[k + 1]):
            parts[:, s] = kappa[records.pool[k]] * margin[s]
    size, side_of = np.zeros(2), np.full(len(members), -1)
    for t in range(len(members)):
        r = members[t]
        path = records.path[record_of[r]]
        _put(records, path, 1.0, parts[2], whole[2])
        if r == i or r == j:
            side_of[t] = int(r == j)
            size[side_of[t]] += 1.0
            _put(records, path, 1.0, parts[side_of[t]], whole[side_of[t]])
    log_ratio = math.log(len(free) + (not split))  # choice of the free class
    for scan in range(SCANS):  # the first seats everybody, the last is the proposal
        last = scan == SCANS - 1
        for t in range(len(members)):
            r = members[t]
            if r == i or r == j:
                continue
            path = records.path[record_of[r]]
            if scan > 0:
                old = side_of[t]
                size[old] -= 1.0
                _put(records, path, -1.0, parts[old], whole[old])
            odds = fixed[t] + math.log((each_class + size[1]) / (each_class + size[0]))
            odds += _log_odds(records, path, parts, whole)
            chance = 1.0 / (1.0 + math.exp(min(-odds, 700.0)))  # of the second class
            to = int(seats[r] == two) if last and not split else int(rng.random() < chance)
            side_of[t] = to
            size[to] += 1.0
            _put(records, path, 1.0, parts[to], whole[to])
            if last:
                log_ratio += fixed[t] * to
                log_ratio -= math.log(max(chance if to == 1 else 1.0 - chance, 1e-300))
    for side in range(3):
        gain = _log_marginal(records, margin, kappa, parts[side], whole[side])
        log_ratio += gain if side < 2 else -gain
    for t in range(len(members)):
        if members[t] == j:
            log_ratio += fixed[t]
    log_ratio += math.lgamma(each_class + size[0]) + math.lgamma(each_class + size[1])
    log_ratio -= math.lgamma(each_class + size[0] + size[1]) + math.lgamma(each_class)
    if not rng.standard_exponential() > (-log_ratio if split else log_ratio):
        return 0
    in_class[one], in_class[two] = size[0], size[1]
    if not split:
        in_class[one], in_class[two] = size[0] + size[1], 0.0
    for t in range(len(members)):
        seats[members[t]] = two if split and side_of[t] == 1 else one
    return 1


@njit(cache=True, nogil=True)
def _put(
    records: SampleRecords, path: npt.NDArray[np.int32], mass: float, parts: Floats, whole: Floats
) -> None:
    """Add a row to a class, or remove it if `mass` is negative."""
    for g in path:
        for q in range(records.way_start[g], records.way_start[g + 1]):
            s, k = records.way_slots[q], records.way_splits[q]
            parts[s] = max(parts[s] + mass, 1e-300)
            whole[k] = max(whole[k] + mass, 1e-300)


@njit(cache=True, nogil=True)
def _log_odds(
    records: SampleRecords,
    path: npt.NDArray[np.int32],
    parts: Floats,
    whole: Floats,
) -> float:
    """Log odds of a row's cells given the rows of the second class, against the first."""
    ratio, total = 1.0, 0.0
    for g in path:
        for q in range(records.way_start[g], records.way_start[g + 1]):
            s, k = records.way_slots[q], records.way_splits[q]
            ratio *= parts[1, s] * whole[0, k] / (parts[0, s] * whole[1, k])
            if not 1e-100 < ratio < 1e100:
                total += math.log(max(ratio, 1e-300))
                ratio = 1.0
    return total + math.log(ratio)


@njit(cache=True, nogil=True)
def _log_marginal(
    records: SampleRecords, margin: Floats, kappa: Floats, parts: Floats, whole: Floats
) -> float:
    """Log-likelihood of the rows of a class, up to a constant."""
    total = 0.0
    for k in range(len(records.pool)):
        own = kappa[records.pool[k]]
        if whole[k] > own:
            total -= math.lgamma(whole[k]) - math.lgamma(own)
            for s in range(records.slot_start[k], records.slot_start[k + 1]):
                if parts[s] > own * margin[s]:
                    total += math.lgamma(parts[s]) - math.lgamma(own * margin[s])
    return total
