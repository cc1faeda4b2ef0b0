"""Kernels of cross-fitting: sums over groups, given the lifts of the other folds (MODEL 1.9).

A `Stretch` is what a thread or a worker of a cluster knows of a table: successive groups, and the
fold of each. Given the scores of the folds it answers with sums; nothing else need travel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from anonbayes.arrays import Floats, Ints, starts_of
from anonbayes.cluster import Tasks
from anonbayes.inference.vertical.block import (
    Lattice,
    direct_marginals,
    group_marginals,
    lattice,
    marginal_space,
    widest_group,
)
from anonbayes.inference.vertical.group_layout import Arrays, VerticalLayout

SAFE_SCORE = 300.0
"""Products of exponentials are numbers up to this sum of logs, and so are their ratios."""

LARGE_SWEEPS, BELIEF_SWEEPS = 15, 150
"""Sweeps over the pieces of a group that is too large for the recursion: in EM, and for beliefs."""


@njit(cache=True, nogil=True)
def products_are_safe(arrays: Arrays, score: Floats) -> bool:
    """Tell whether no product of one exponential per attribute, or of its inverse, is too small."""
    stop, total = len(score), 0.0
    for a in range(len(arrays.strides) - 1, -1, -1):
        start = arrays.starts[a]
        total += np.abs(score[start:stop]).max()
        stop = start
    return total < SAFE_SCORE


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

    `score` has weighted log lifts: the weight of a pairing is the exponential of their sum.
    """
    cells, strides, secrets = arrays.cells, arrays.strides, arrays.secrets
    offsets = arrays.offsets
    space = marginal_space(lattice.block, widest_group(offsets[first : last + 1]))
    safe, factor = products_are_safe(arrays, score), np.exp(score)
    for g in range(first, last):
        if fold[g] == left_out:
            continue
        lo = offsets[g]
        n = offsets[g + 1] - lo
        for x in range(n):
            s = secrets[lo + x]
            for m in range(n):
                total, product = 0.0, 1.0
                if safe:
                    for a in range(len(strides)):
                        product *= factor[cells[lo + m, a] + s * strides[a]]
                else:
                    for a in range(len(strides)):
                        total += score[cells[lo + m, a] + s * strides[a]]
                space.weight[x, m] = product if safe else total
        if safe:
            direct_marginals(lattice, space, n, LARGE_SWEEPS, rng)
        else:
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

    Sets `group_score`, the log likelihood of each group; adds to `residual`, its gradient by the
    score, expected rows given the group's sensitive values minus those under ``p(s | r)``; to
    `owner`, unless of length 0, ``P(item belongs to value)``. Without `owner` large groups go by
    Bethe, as scores do, where value and gradient belong together.
    """
    cells, strides, secrets = arrays.cells, arrays.strides, arrays.secrets
    offsets, links, ranks = arrays.offsets, arrays.links, arrays.ranks
    space = marginal_space(lattice.block, widest_group(offsets[first : last + 1]))
    safe, factor, share = products_are_safe(arrays, score), np.exp(score), np.exp(base)
    level, chance = np.empty(len(base)), np.empty(len(base))
    for g in range(first, last):
        if fold[g] != mine:
            continue
        lo = offsets[g]
        n = offsets[g + 1] - lo
        for m in range(n):
            mass = 0.0
            if safe:
                for s in range(len(base)):
                    product = share[s]
                    for a in range(len(strides)):
                        product *= factor[cells[lo + m, a] + s * strides[a]]
                    chance[s] = product
                    mass += product
            else:
                for s in range(len(base)):
                    level[s] = base[s]
                    for a in range(len(strides)):
                        level[s] += score[cells[lo + m, a] + s * strides[a]]
                top = level.max()
                for s in range(len(base)):
                    chance[s] = np.exp(level[s] - top)
                    mass += chance[s]
                level -= top + np.log(mass)
            for s in range(len(base)):
                chance[s] /= mass
                for a in range(len(strides)):
                    residual[cells[lo + m, a] + s * strides[a]] -= chance[s]
            for x in range(n):
                s = secrets[lo + x]
                space.weight[x, m] = chance[s] if safe else level[s]
        sweeps = BELIEF_SWEEPS if len(owner) else 0
        if safe:
            group_score[g] = direct_marginals(lattice, space, n, sweeps, rng)
        else:
            group_score[g] = group_marginals(lattice, space, n, sweeps, rng)
        for x in range(n):
            s = secrets[lo + x]
            for m in range(n):
                p = space.marginal[x, m]
                for a in range(len(strides)):
                    residual[cells[lo + m, a] + s * strides[a]] += p
                if len(owner):
                    owner[links[lo + m] + ranks[lo + x]] += p


# -------------------------------------------------------------------------------------------------
# Stretches of a table, and workers of a cluster that hold them.


def rows_by_fold(layout: VerticalLayout, fold: Ints) -> Floats:
    """Rows with each sensitive value in each fold, shape ``(folds, S)``."""
    own = np.zeros((int(fold.max(initial=0)) + 1, layout.n_secrets))
    np.add.at(own, (fold[layout.groups], layout.secrets), 1.0)
    return own


class Stretch(NamedTuple):
    """Successive groups of a table, their folds, and what their sums need.

    Threads work on one of the `blocks`, between cuts, at a time. Generators are made of the numbers
    of groups in the table, the first of which is `shift`. `block` is the size of the lattice.
    """

    arrays: Arrays
    fold: Ints
    blocks: list[int]
    shift: int
    block: int
    base: Floats
    folds: int
    n_cells: int

    def jobs(self) -> list[tuple[int, int, int]]:
        """Fold, first and last group of every job: those of a fold stand together."""
        pairs = list(zip(self.blocks[:-1], self.blocks[1:], strict=True))
        return [(f, *pair) for f in range(self.folds) for pair in pairs]

    def _generator(self, fold: int, first: int, last: int) -> np.random.Generator:
        return np.random.default_rng((fold, first + self.shift, last + self.shift))

    def expect(self, job: tuple[int, int, int], score: Floats) -> Floats:
        """E-step of one job: expected counts of its groups that are not in the fold."""
        f, first, last = job
        counts = np.zeros(self.n_cells)
        training_counts(
            self.arrays, lattice(self.block), score[f], self.fold, f, first, last, counts,
            self._generator(*job),
        )  # fmt: skip
        return counts

    def judge(
        self, job: tuple[int, int, int], score: Floats, group_score: Floats, owner: Floats
    ) -> Floats:
        """Residual of one job's left-out groups; their scores, and owners, are set."""
        f, first, last = job
        residual = np.zeros(self.n_cells)
        held_out(
            self.arrays, lattice(self.block), score[f], self.base, self.fold, f, first, last,
            residual, group_score, owner, self._generator(*job),
        )  # fmt: skip
        return residual

    def add(self, parts: Iterator[Floats]) -> Floats:
        """Sums by fold, shape ``(folds, n_cells)``, in the order of `jobs`."""
        total = np.zeros((self.folds, self.n_cells))
        for (f, *_), part in zip(self.jobs(), parts, strict=True):
            total[f] += part
        return total


class Packed(NamedTuple):
    """A stretch as it travels: codes in as few bytes as they need, and no indices."""

    items: Ints
    secrets: Ints
    sizes: Ints
    fold: Ints
    blocks: list[int]
    shift: int


def _small(codes: Ints) -> Ints:
    return codes.astype(np.min_scalar_type(int(codes.max(initial=0))))


def _unpack(shared: tuple[Any, ...], packed: Packed) -> Stretch:
    sizes, n_secrets, *rest = shared
    bounds = starts_of(packed.sizes)
    layout = VerticalLayout(packed.items, packed.secrets, bounds, sizes, n_secrets)
    fold = packed.fold.astype(np.int64)
    return Stretch(layout.arrays, fold, packed.blocks, packed.shift, *rest)


def spread(client: Any, layout: VerticalLayout, stretches: list[Stretch]) -> Workers:
    """Send the stretches of a table to the workers of a cluster."""
    one = stretches[0]
    shared = (layout.sizes, layout.n_secrets, one.block, one.base, one.folds, one.n_cells)
    tasks, held = Tasks(client, shared, label="cross-fit"), []
    for i, stretch in enumerate(stretches):
        first, last = stretch.blocks[0], stretch.blocks[-1]
        part = layout.part(first, last)
        packed = Packed(
            part.items, _small(part.secrets), _small(part.group_sizes),
            _small(stretch.fold[first:last]), [g - first for g in stretch.blocks], first,
        )  # fmt: skip
        held.append(tasks.hold(f"groups {i}", _unpack, packed))
    return Workers(tasks, held)


def _score(_: Any, score: Floats) -> Floats:
    return score


def _count(_: Any, stretch: Stretch, score: Floats) -> Floats:
    return stretch.add(stretch.expect(job, score) for job in stretch.jobs())


def _judge(
    _: Any, stretch: Stretch, score: Floats, each: bool, owned: bool
) -> tuple[Floats, Floats, Floats]:
    scores = np.empty(len(stretch.fold))
    owner = np.zeros(int(stretch.arrays.links[-1]) if owned else 0)
    residual = stretch.add(stretch.judge(job, score, scores, owner) for job in stretch.jobs())
    return scores if each else scores.sum()[None], residual, owner


class Workers:
    """Stretches of a table on the workers of a Dask cluster; numbers are those of one machine.

    Groups are there once, and again on the successor of a worker that dies; scores go there and
    sums come back: `rounds` so far, with `sent` and `received` bytes.
    """

    def __init__(self, tasks: Tasks, held: list[Any]) -> None:
        self.tasks, self.held = tasks, held
        self.rounds = self.sent = self.received = 0

    def count(self, score: Floats) -> Floats:
        """Expected counts of all stretches."""
        return self.add(_count, score)

    def add(
        self, function: Callable[..., Floats], score: Floats, given: Sequence[tuple[Any, ...]] = ()
    ) -> Floats:
        """Sum of what a function says of the stretches, each with what is given of its own."""
        answers = self._round(function, score, given or [()] * len(self.held))
        total = np.copy(next(answers))
        for part in answers:
            total += part
        return total

    def judge(
        self, score: Floats, *, each: bool = False, owner: Floats | None = None
    ) -> tuple[Floats, Floats]:
        """Scores of the stretches, or of `each` group, and the residual; fills `owner`."""
        total, scores, owned = np.zeros_like(score), [], []
        for part in self._round(_judge, score, [(each, owner is not None)] * len(self.held)):
            scores.append(part[0])
            total += part[1]
            owned.append(part[2])
        if owner is not None:
            owner[:] = np.concatenate(owned)
        return np.concatenate(scores), total

    def _round(
        self, function: Callable[..., Any], score: Floats, given: Sequence[tuple[Any, ...]]
    ) -> Iterator[Any]:
        """One answer per stretch, in their order; those that are early wait here."""
        self.rounds += 1
        name = f"round {self.rounds}"
        sent = self.tasks.hold(f"scores {self.rounds}", _score, score)
        for i, (held, own) in enumerate(zip(self.held, given, strict=True)):
            self.tasks.submit(f"{name} groups {i}", function, held, sent, *own)
        self.sent += score.nbytes
        early: dict[str, Any] = {}
        for i in range(len(self.held)):
            wanted = f"{name} groups {i}"
            while wanted not in early:
                ended, found = self.tasks.collect()
                parts = found if isinstance(found, tuple) else (found,)
                self.received += sum(part.nbytes for part in parts)
                early[ended] = found
            yield early.pop(wanted)
