"""Kernels of cross-fitting: sums over groups, given the lifts of the other folds (MODEL 1.9)."""

from __future__ import annotations

import numpy as np
from numba import njit

from anonbayes.arrays import Floats, Ints
from anonbayes.inference.vertical.block import (
    Lattice,
    group_marginals,
    marginal_space,
    widest_group,
)
from anonbayes.inference.vertical.group_layout import Arrays

__all__ = ["held_out", "training_counts"]

LARGE_SWEEPS, BELIEF_SWEEPS = 15, 150
"""Sweeps over the pieces of a group that is too large for the recursion: in EM, and for beliefs."""


@njit(cache=True, nogil=True)
def training_counts(
    arrays: Arrays,
    lattice: Lattice,
    score: Floats,
    fold: Ints,
    left_out: int,
    first: int,
    last: int,
    counts: Floats,
    rng: np.random.Generator,
) -> None:
    """E-step of a block of groups: add expected counts of those not in fold `left_out`.

    Parameters
    ----------
    score
        Weighted log lifts, flat; the weight of a pairing is the exponential of their sum.
    counts
        Expected number of rows by attribute, sensitive value and category, flat.
    """
    cells, strides, secrets = arrays.cells, arrays.strides, arrays.secrets
    offsets = arrays.offsets
    space = marginal_space(lattice.block, widest_group(offsets[first : last + 1]))
    for g in range(first, last):
        if fold[g] == left_out:
            continue
        lo = offsets[g]
        n = offsets[g + 1] - lo
        weight = space.weight
        for x in range(n):
            s = secrets[lo + x]
            for m in range(n):
                total = 0.0
                for a in range(len(strides)):
                    total += score[cells[lo + m, a] + s * strides[a]]
                weight[x, m] = total
        group_marginals(lattice, space, n, LARGE_SWEEPS, rng)
        for x in range(n):
            s = secrets[lo + x]
            for m in range(n):
                p = space.marginal[x, m]
                for a in range(len(strides)):
                    counts[cells[lo + m, a] + s * strides[a]] += p


@njit(cache=True, nogil=True)
def held_out(
    arrays: Arrays,
    lattice: Lattice,
    score: Floats,
    base: Floats,
    fold: Ints,
    mine: int,
    first: int,
    last: int,
    residual: Floats,
    group_score: Floats,
    owner: Floats,
    rng: np.random.Generator,
) -> None:
    """Judge the groups of fold `mine` in a block, with the lifts that the other folds gave.

    Parameters
    ----------
    score, base
        Weighted log lifts, flat, and ``log pi_S``.
    residual
        Adds, cell by cell, expected rows given the group's sensitive values minus expected rows
        under ``p(s | r)``: the gradient of the log likelihood by the score.
    group_score
        Set to the log likelihood of each group.
    owner
        Adds ``P(item belongs to value)`` at ``links[item] + ranks[slot]``, unless of length 0.
    rng
        Cuts large groups into pieces for `owner`. Their scores, and the residual without `owner`,
        are those of Bethe, where value and gradient belong together.
    """
    cells, strides, secrets = arrays.cells, arrays.strides, arrays.secrets
    offsets, links, ranks = arrays.offsets, arrays.links, arrays.ranks
    space = marginal_space(lattice.block, widest_group(offsets[first : last + 1]))
    level = np.empty(len(base))
    for g in range(first, last):
        if fold[g] != mine:
            continue
        lo = offsets[g]
        n = offsets[g + 1] - lo
        for m in range(n):
            top = -np.inf
            for s in range(len(base)):
                total = base[s]
                for a in range(len(strides)):
                    total += score[cells[lo + m, a] + s * strides[a]]
                level[s] = total
                top = max(top, total)
            mass = 0.0
            for s in range(len(base)):
                mass += np.exp(level[s] - top)
            norm = top + np.log(mass)
            for s in range(len(base)):
                level[s] -= norm
                p = np.exp(level[s])
                for a in range(len(strides)):
                    residual[cells[lo + m, a] + s * strides[a]] -= p
            for x in range(n):
                space.weight[x, m] = level[secrets[lo + x]]
        sweeps = BELIEF_SWEEPS if len(owner) else 0
        group_score[g] = group_marginals(lattice, space, n, sweeps, rng)
        for x in range(n):
            s = secrets[lo + x]
            for m in range(n):
                p = space.marginal[x, m]
                for a in range(len(strides)):
                    residual[cells[lo + m, a] + s * strides[a]] += p
                if len(owner):
                    owner[links[lo + m] + ranks[lo + x]] += p
