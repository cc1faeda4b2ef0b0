"""Metropolis draws of a group given the parameters: swap, permutation, sequential (MODEL 1.4).

The target of a group is ``f(g | pi) = prod_l w(l, sigma(l))`` with
``w(l, m) = prod_a pi_a|s_l(r_ma)``. Each proposal comes with the function that gives its log
acceptance ratio; the sweeps call it, and the tests build whole transition matrices from it. All
take the logs of the parameters, flat.

* swap, Groups V-B: exchange the items of two slots; symmetric.
* permutation, Groups V-B: a uniformly random order of the group; symmetric.
* sequential, Groups Appendix B: fill the slots one after the other from the items that are left.
  The draw depends on the order in which slots are filled, so it is a proposal; the ratio of
  the normalisers, ``nu(g | pi) / nu(g^h | pi)``, makes it exact. A fresh random order is used
  each time.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from anonbayes.arrays import Floats, Ints
from anonbayes.inference.vertical.block import shuffle, widest_group
from anonbayes.inference.vertical.group_layout import Arrays


@njit(cache=True, nogil=True, forceinline=True)
def pair_log_weight(arrays: Arrays, log_pi: Floats, slot: int, item: int) -> float:
    """``log w(slot, item) = sum_a log pi_a|s(r_a)``."""
    cells, strides = arrays.cells, arrays.strides
    s = arrays.secrets[slot]
    total = 0.0
    for a in range(len(strides)):
        total += log_pi[cells[item, a] + s * strides[a]]
    return total


@njit(cache=True, nogil=True, forceinline=True)
def swap_log_ratio(arrays: Arrays, log_pi: Floats, assignment: Ints, one: int, other: int) -> float:
    """Log acceptance ratio of exchanging the items of two slots."""
    cells, strides, secrets = arrays.cells, arrays.strides, arrays.secrets
    s, t = secrets[one], secrets[other]
    if s == t:
        return 0.0
    i, j = assignment[one], assignment[other]
    total = 0.0
    for a in range(len(strides)):
        ci, cj, k = cells[i, a], cells[j, a], strides[a]
        if ci != cj:
            total += log_pi[cj + s * k] + log_pi[ci + t * k]
            total -= log_pi[ci + s * k] + log_pi[cj + t * k]
    return total


@njit(cache=True, nogil=True, forceinline=True)
def order_log_ratio(
    arrays: Arrays, log_pi: Floats, assignment: Ints, lo: int, proposed: Ints, n: int
) -> float:
    """Log acceptance ratio of giving the slots from `lo` on the items `proposed`."""
    total = 0.0
    for x in range(n):
        new, old = proposed[x], assignment[lo + x]
        if new != old:
            total += pair_log_weight(arrays, log_pi, lo + x, new)
            total -= pair_log_weight(arrays, log_pi, lo + x, old)
    return total


@njit(cache=True, nogil=True, forceinline=True)
def log_normaliser(
    arrays: Arrays, log_pi: Floats, lo: int, filling: Ints, taken: Ints, n: int, logs: Floats
) -> float:
    """``log nu(g | pi)``: product over slots, as filled, of the weight of the items left.

    Parameters
    ----------
    filling
        Order in which the slots (counted from `lo`) are filled.
    taken
        Item that each slot takes.
    logs
        Room for `n` numbers.
    """
    total = 0.0
    for x in range(n):
        top = -np.inf
        for y in range(x, n):
            logs[y] = pair_log_weight(arrays, log_pi, lo + filling[x], taken[filling[y]])
            top = max(top, logs[y])
        mass = 0.0
        for y in range(x, n):
            mass += np.exp(logs[y] - top)
        total += top + np.log(mass)
    return total


@njit(cache=True, nogil=True, forceinline=True)
def propose_sequential(
    arrays: Arrays,
    log_pi: Floats,
    lo: int,
    filling: Ints,
    left: Ints,
    proposed: Ints,
    n: int,
    logs: Floats,
    rng: np.random.Generator,
) -> float:
    """Fill the slots in the order `filling` with the items `left`; return ``log nu`` of it."""
    total = 0.0
    for x in range(n):
        slot = lo + filling[x]
        top = -np.inf
        for y in range(n - x):
            logs[y] = pair_log_weight(arrays, log_pi, slot, left[y])
            top = max(top, logs[y])
        mass = 0.0
        for y in range(n - x):
            logs[y] = np.exp(logs[y] - top)
            mass += logs[y]
        total += top + np.log(mass)
        target = rng.random() * mass
        chosen = -1
        for y in range(n - x):
            if logs[y] > 0.0:
                chosen = y
                target -= logs[y]
                if target < 0.0:
                    break
        proposed[filling[x]] = left[chosen]
        left[chosen] = left[n - x - 1]
    return total


@njit(cache=True, nogil=True, forceinline=True)
def sequential_log_ratio(log_nu_proposed: float, log_nu_current: float) -> float:
    """Log acceptance ratio of the sequential proposal, ``nu(g | pi) / nu(g^h | pi)``.

    The proposal's density is ``f(g | pi) / nu(g | pi)`` and the target ``f(g | pi)``: only the
    normalisers are left in the ratio.
    """
    return log_nu_proposed - log_nu_current


@njit(cache=True, nogil=True)
def swap_sweep(
    arrays: Arrays, log_pi: Floats, assignment: Ints, share: float, rng: np.random.Generator
) -> tuple[int, int]:
    """Propose ``max(1, round(share * n))`` swaps in every group of ``n`` rows.

    Returns
    -------
    tried, accepted
        Number of proposals and of those accepted.
    """
    offsets = arrays.offsets
    tried, accepted = 0, 0
    for g in range(len(offsets) - 1):
        lo, n = offsets[g], offsets[g + 1] - offsets[g]
        if n < 2:
            continue
        for _ in range(max(1, round(share * n))):
            x = int(rng.random() * n)
            y = int(rng.random() * (n - 1))
            one, other = lo + x, lo + y + (y >= x)
            tried += 1
            ratio = swap_log_ratio(arrays, log_pi, assignment, one, other)
            if ratio >= 0.0 or np.log(1.0 - rng.random()) < ratio:
                accepted += 1
                assignment[one], assignment[other] = assignment[other], assignment[one]
    return tried, accepted


@njit(cache=True, nogil=True)
def permute_sweep(
    arrays: Arrays, log_pi: Floats, assignment: Ints, rng: np.random.Generator
) -> tuple[int, int]:
    """Propose one uniformly random order in every group; return (tried, accepted)."""
    offsets = arrays.offsets
    proposed = np.empty(widest_group(offsets), dtype=np.int64)
    tried, accepted = 0, 0
    for g in range(len(offsets) - 1):
        lo, n = offsets[g], offsets[g + 1] - offsets[g]
        if n < 2:
            continue
        for x in range(n):
            proposed[x] = assignment[lo + x]
        shuffle(proposed, n, rng)
        tried += 1
        ratio = order_log_ratio(arrays, log_pi, assignment, lo, proposed, n)
        if ratio >= 0.0 or np.log(1.0 - rng.random()) < ratio:
            accepted += 1
            for x in range(n):
                assignment[lo + x] = proposed[x]
    return tried, accepted


@njit(cache=True, nogil=True)
def sequential_sweep(
    arrays: Arrays, log_pi: Floats, assignment: Ints, rng: np.random.Generator
) -> tuple[int, int]:
    """Propose one sequential filling in every group; return (tried, accepted)."""
    offsets = arrays.offsets
    widest = widest_group(offsets)
    filling = np.empty(widest, dtype=np.int64)
    current = np.empty(widest, dtype=np.int64)
    left = np.empty(widest, dtype=np.int64)
    proposed = np.empty(widest, dtype=np.int64)
    logs = np.empty(widest)
    tried, accepted = 0, 0
    for g in range(len(offsets) - 1):
        lo, n = offsets[g], offsets[g + 1] - offsets[g]
        if n < 2:
            continue
        for x in range(n):
            filling[x] = x
            current[x] = left[x] = assignment[lo + x]
        shuffle(filling, n, rng)
        tried += 1
        new = propose_sequential(arrays, log_pi, lo, filling, left, proposed, n, logs, rng)
        old = log_normaliser(arrays, log_pi, lo, filling, current, n, logs)
        ratio = sequential_log_ratio(new, old)
        if ratio >= 0.0 or np.log(1.0 - rng.random()) < ratio:
            accepted += 1
            for x in range(n):
                assignment[lo + x] = proposed[x]
    return tried, accepted
