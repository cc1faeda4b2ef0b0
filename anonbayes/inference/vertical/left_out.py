"""Kernels of cross-fitting: sums over groups, given the lifts of the other folds (MODEL 1.9).

A `Stretch` is the part of a table that a thread or a worker of a cluster holds: successive groups
with their folds. Given the scores of the folds, it returns sums; nothing else has to be sent.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from anonbayes.arrays import Floats, Ints, starts_of
from anonbayes.cluster import Tasks
from anonbayes.inference.vertical.block import (
    Lattice,
    Space,
    group_marginals,
    lattice,
    marginal_space,
    widest_group,
)
from anonbayes.inference.vertical.group_layout import Arrays, VerticalLayout
from anonbayes.inference.vertical.lanes import lane_marginals, lane_space

SAFE_SCORE = 300.0
"""Up to this absolute sum of logs, products of exponentials and their ratios are finite."""

LARGE_SWEEPS, BELIEF_SWEEPS = 15, 150
"""Sweeps over the pieces of a group too large for the recursion: in EM, and for beliefs."""


VECTOR = 16
"""Numbers that compiled loops process at a time; any remaining ones follow one by one."""

GROUPS_AT_ONCE = 16
"""Left-out groups of one size that are judged side by side."""


@njit(cache=True, nogil=True)
def products_are_safe(arrays: Arrays, score: Floats) -> bool:
    """Whether no product of one exponential per attribute, nor its inverse, underflows."""
    for f in range(len(score)):
        stop, total = score.shape[1], 0.0
        for a in range(len(arrays.strides) - 1, -1, -1):
            start = arrays.starts[a]
            total += np.abs(score[f, start:stop]).max()
            stop = start
        if total >= SAFE_SCORE:
            return False
    return True


@njit(cache=True, nogil=True)
def training_counts(
    arrays: Arrays,
    lattice: Lattice,
    score: Floats,
    fold: Ints,
    first: int,
    last: int,
    rng: np.random.Generator,
) -> Floats:
    """E-step of a block of groups: for each fold, expected counts of the groups not in it.

    `score` (folds, n_cells) holds weighted log lifts; the weight of a pairing is the exponential of
    their sum. Folds are lanes.
    """
    cells, strides, secrets = arrays.cells, arrays.strides, arrays.secrets
    offsets, folds, block = arrays.offsets, len(score), lattice.block
    spare = marginal_space(block, widest_group(offsets[first : last + 1]))
    room = lane_space(block, folds)
    safe = products_are_safe(arrays, score)
    factor = np.ascontiguousarray((np.exp(score) if safe else score).T)
    weight, marginal = room.weight, room.marginal
    counts = np.zeros(factor.shape)
    for g in range(first, last):
        lo = offsets[g]
        n = offsets[g + 1] - lo
        if n > block:
            _count_large(arrays, lattice, spare, score, fold[g], lo, n, counts, rng)
            continue
        for x in range(n):
            s = secrets[lo + x]
            for m in range(n):
                pair = x * block + m
                for f in range(folds):
                    weight[pair, f] = factor[cells[lo + m, 0] + s * strides[0], f]
                for a in range(1, len(strides)):
                    cell = cells[lo + m, a] + s * strides[a]
                    if safe:
                        for f in range(folds):
                            weight[pair, f] *= factor[cell, f]
                    else:
                        for f in range(folds):
                            weight[pair, f] += factor[cell, f]
        lane_marginals(lattice, room, n, folds, safe, False, spare, rng)
        for x in range(n):
            s = secrets[lo + x]
            for m in range(n):
                pair = x * block + m
                marginal[pair, fold[g]] = 0.0
                for a in range(len(strides)):
                    cell = cells[lo + m, a] + s * strides[a]
                    for f in range(folds):
                        counts[cell, f] += marginal[pair, f]
    return counts.T.copy()


@njit(cache=True, nogil=True)
def _count_large(
    arrays: Arrays,
    lattice: Lattice,
    space: Space,
    score: Floats,
    own: int,
    lo: int,
    n: int,
    counts: Floats,
    rng: np.random.Generator,
) -> None:
    """Add the expected counts of a group too large for the recursion, fold by fold."""
    cells, strides, secrets = arrays.cells, arrays.strides, arrays.secrets
    for f in range(len(score)):
        if f == own:
            continue
        for x in range(n):
            s = secrets[lo + x]
            for m in range(n):
                total = 0.0
                for a in range(len(strides)):
                    total += score[f, cells[lo + m, a] + s * strides[a]]
                space.weight[x, m] = total
        group_marginals(lattice, space, n, LARGE_SWEEPS, rng)
        for x in range(n):
            s = secrets[lo + x]
            for m in range(n):
                for a in range(len(strides)):
                    cell = cells[lo + m, a] + s * strides[a]
                    counts[cell, f] += space.marginal[x, m]


@njit(cache=True, nogil=True)
def _turned(arrays: Arrays, flat: Floats, width: int) -> Floats:
    """Flat cells of each fold with sensitive values last, so that each category is contiguous."""
    folds, n_cells = flat.shape
    secrets = n_cells // arrays.strides.sum()
    out = np.zeros((folds * (n_cells // secrets), width))
    row = 0
    for f in range(folds):
        for a in range(len(arrays.strides)):
            for k in range(arrays.strides[a]):
                for s in range(secrets):
                    out[row, s] = flat[f, arrays.starts[a] + s * arrays.strides[a] + k]
                row += 1
    return out


@njit(cache=True, nogil=True)
def held_out(
    arrays: Arrays,
    lattice: Lattice,
    score: Floats,
    base: Floats,
    fold: Ints,
    first: int,
    last: int,
    group_score: Floats,
    owner: Floats,
    rng: np.random.Generator,
) -> Floats:
    """Judge a block of groups, each with the lifts learned from the other folds.

    Sets `group_score`, the log-likelihood of each group; returns its gradient in the score, fold by
    fold, which is the expected rows given the group's sensitive values minus those under
    ``p(s | r)``. Adds ``P(item belongs to value)`` to `owner` unless it has length 0. In that case,
    large groups use Bethe's approximation, as scores do, so that value and gradient are consistent.
    Groups of one size are lanes.
    """
    offsets, block, values = arrays.offsets, lattice.block, len(base)
    widest = widest_group(offsets[first : last + 1])
    spare, room = marginal_space(block, widest), lane_space(block, GROUPS_AT_ONCE)
    safe = products_are_safe(arrays, score)
    width = (values + VECTOR - 1) // VECTOR * VECTOR
    factor = _turned(arrays, np.exp(score) if safe else score, width)
    prior = np.full(width, 0.0 if safe else -np.inf)
    prior[:values] = np.exp(base) if safe else base
    rows, shift, row = len(factor) // len(score), np.empty(len(arrays.strides), dtype=np.int64), 0
    for a in range(len(shift)):  # from a cell to its category's row
        shift[a] = row - arrays.starts[a]
        row += arrays.strides[a]
    chance, minus = np.empty((max(block, widest), len(prior))), np.zeros(factor.shape)
    weight, marginal = room.weight, room.marginal
    residual, chosen = np.zeros(score.shape), np.empty(GROUPS_AT_ONCE, dtype=np.int64)
    for n in range(1, widest + 1):
        held = 0
        for g in range(first, last + 1):
            if g < last and offsets[g + 1] - offsets[g] == n:
                if safe:
                    _chances(arrays, shift + fold[g] * rows, factor, prior, g, chance, minus)
                else:
                    _log_chances(arrays, shift + fold[g] * rows, factor, prior, g, chance, minus)
                if n > block:
                    _judge_large(
                        arrays, lattice, spare, chance, safe, fold[g], g, n, residual, group_score,
                        owner, rng,
                    )  # fmt: skip
                    continue
                for x in range(n):
                    s = arrays.secrets[offsets[g] + x]
                    for m in range(n):
                        weight[x * block + m, held] = chance[m, s]
                chosen[held] = g
                held += 1
            if held == GROUPS_AT_ONCE or (g == last and held > 0):
                lane_marginals(lattice, room, n, held, safe, True, spare, rng)
                for lane in range(held):
                    h = chosen[lane]
                    group_score[h] = room.value[lane]
                    for x in range(n):
                        for m in range(n):
                            p = marginal[x * block + m, lane]
                            _credit(arrays, fold[h], offsets[h], x, m, p, residual, owner)
                held = 0
    row = 0
    for f in range(len(score)):
        for a in range(len(shift)):
            for k in range(arrays.strides[a]):
                for s in range(values):
                    residual[f, arrays.starts[a] + s * arrays.strides[a] + k] -= minus[row, s]
                row += 1
    return residual


@njit(cache=True, nogil=True)
def _chances(
    arrays: Arrays, shift: Ints, factor: Floats, prior: Floats, g: int, chance: Floats,
    minus: Floats,
) -> None:  # fmt: skip
    """Set ``p(s | r)`` of the items of a group, and add it to the rows of their categories."""
    lo, values = arrays.offsets[g], len(prior)
    for m in range(arrays.offsets[g + 1] - lo):
        for s in range(values):
            chance[m, s] = prior[s]
        for a in range(len(shift)):
            row = shift[a] + arrays.cells[lo + m, a]
            for s in range(values):
                chance[m, s] *= factor[row, s]
        mass = 0.0
        for s in range(values):
            mass += chance[m, s]
        mass = 1.0 / mass
        for s in range(values):
            chance[m, s] *= mass
        for a in range(len(shift)):
            row = shift[a] + arrays.cells[lo + m, a]
            for s in range(values):
                minus[row, s] += chance[m, s]


@njit(cache=True, nogil=True)
def _log_chances(
    arrays: Arrays, shift: Ints, factor: Floats, prior: Floats, g: int, chance: Floats,
    minus: Floats,
) -> None:  # fmt: skip
    """Do the work of `_chances` in logs; set ``log p(s | r)``."""
    lo, values = arrays.offsets[g], len(prior)
    for m in range(arrays.offsets[g + 1] - lo):
        for s in range(values):
            chance[m, s] = prior[s]
        for a in range(len(shift)):
            row = shift[a] + arrays.cells[lo + m, a]
            for s in range(values):
                chance[m, s] += factor[row, s]
        top, mass = chance[m].max(), 0.0
        for s in range(values):
            mass += np.exp(chance[m, s] - top)
        level = top + np.log(mass)
        for s in range(values):
            chance[m, s] -= level
        share = np.exp(chance[m])
        for a in range(len(shift)):
            row = shift[a] + arrays.cells[lo + m, a]
            for s in range(values):
                minus[row, s] += share[s]


@njit(cache=True, nogil=True, forceinline=True)
def _credit(
    arrays: Arrays,
    own: int,
    lo: int,
    x: int,
    m: int,
    p: float,
    residual: Floats,
    owner: Floats,
) -> None:
    """Count item `m` of a group as owned by slot `x` with probability `p`."""
    s = arrays.secrets[lo + x]
    for a in range(len(arrays.strides)):
        residual[own, arrays.cells[lo + m, a] + s * arrays.strides[a]] += p
    if len(owner):
        owner[arrays.links[lo + m] + arrays.ranks[lo + x]] += p


@njit(cache=True, nogil=True)
def _judge_large(
    arrays: Arrays,
    lattice: Lattice,
    space: Space,
    chance: Floats,
    safe: bool,
    own: int,
    g: int,
    n: int,
    residual: Floats,
    group_score: Floats,
    owner: Floats,
    rng: np.random.Generator,
) -> None:
    """Judge a group too large for the recursion."""
    lo = arrays.offsets[g]
    for x in range(n):
        s = arrays.secrets[lo + x]
        for m in range(n):
            space.weight[x, m] = np.log(chance[m, s]) if safe else chance[m, s]
    sweeps = BELIEF_SWEEPS if len(owner) else 0
    group_score[g] = group_marginals(lattice, space, n, sweeps, rng)
    for x in range(n):
        for m in range(n):
            _credit(arrays, own, lo, x, m, space.marginal[x, m], residual, owner)


# -------------------------------------------------------------------------------------------------
# Stretches of a table, and the workers of a cluster that hold them.


def rows_by_fold(
    secrets: NDArray[np.integer], offsets: Ints, fold: Ints, shape: tuple[int, int]
) -> Floats:
    """Rows with each sensitive value in each fold, shape ``(folds, S)``."""
    own = np.zeros(shape)
    np.add.at(own, (np.repeat(fold, np.diff(offsets)), secrets), 1.0)
    return own


class Stretch(NamedTuple):
    """Successive groups of a table, their folds, and everything needed for their sums.

    A thread works on one of the `blocks` (between cuts) at a time. Generators are seeded by the
    numbers of groups in the whole table, in which the first group has number `shift`. `block` is
    the size of the lattice.
    """

    arrays: Arrays
    fold: Ints
    blocks: list[int]
    shift: int
    block: int
    base: Floats
    n_cells: int

    @property
    def jobs(self) -> list[tuple[int, int]]:
        """First and last group of every job."""
        return list(itertools.pairwise(self.blocks))

    def _generator(self, first: int, last: int) -> np.random.Generator:
        return np.random.default_rng((first + self.shift, last + self.shift))

    def expect(self, job: tuple[int, int], score: Floats) -> Floats:
        """E-step of one job: for each fold, expected counts of its groups that are not in it."""
        steps, rng = lattice(self.block), self._generator(*job)
        return training_counts(self.arrays, steps, score, self.fold, *job, rng)

    def judge(
        self, job: tuple[int, int], score: Floats, group_score: Floats, owner: Floats,
        only: int | None = None,
    ) -> Floats:  # fmt: skip
        """Residual of the groups of one job, fold by fold; sets their scores and owners."""
        arrays, steps, rng = self.arrays, lattice(self.block), self._generator(*job)
        if only is not None:
            arrays = _one_attribute(arrays, only, *arrays.offsets[[*job]])
        return held_out(arrays, steps, score, self.base, self.fold, *job, group_score, owner, rng)


def sum_in_order(arrays: Iterable[Floats]) -> Floats:
    """Add up arrays in the given order."""
    parts = iter(arrays)
    total = np.copy(next(parts))
    for part in parts:
        total += part
    return total


def _one_attribute(arrays: Arrays, a: int, first: int, last: int) -> Arrays:
    """Arrays that kernels read, for one attribute in some rows."""
    cells = np.empty((len(arrays.cells), 1), dtype=np.uint32)  # the other rows are never read
    cells[first:last, 0] = arrays.cells[first:last, a] - np.uint32(arrays.starts[a])
    starts = arrays.starts[a : a + 2] - arrays.starts[a]
    return arrays._replace(cells=cells, strides=arrays.strides[a : a + 1], starts=starts)


class Packed(NamedTuple):
    """A stretch in the form that is sent: codes in as few bytes as possible, and no indices."""

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
    shared = (layout.sizes, layout.n_secrets, one.block, one.base, one.n_cells)
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
    return sum_in_order(stretch.expect(job, score) for job in stretch.jobs)


def _judge(
    _: Any, stretch: Stretch, score: Floats, each: bool, owned: bool, only: int | None
) -> tuple[Floats, Floats, Floats]:
    scores = np.empty(len(stretch.fold))
    owner = np.zeros(int(stretch.arrays.links[-1]) if owned else 0)
    jobs = stretch.jobs
    residual = sum_in_order(stretch.judge(job, score, scores, owner, only) for job in jobs)
    return scores if each else scores.sum()[None], residual, owner


class Workers:
    """Stretches of a table on the workers of a Dask cluster; the numbers are those of one machine.

    Groups are sent once, and again if a worker dies; scores go out and sums come back. Transfers of
    the workers `before` are included in the counts.
    """

    def __init__(self, tasks: Tasks, held: list[Any], before: Workers | None = None) -> None:
        self.tasks, self.held = tasks, held
        self.traffic: Counter[str] = Counter() if before is None else before.traffic

    @property
    def rounds(self) -> int:
        """Rounds of tasks so far."""
        return self.traffic["rounds"]

    @property
    def sent(self) -> int:
        """Bytes of scores sent."""
        return self.traffic["sent"]

    @property
    def received(self) -> int:
        """Bytes of sums received."""
        return self.traffic["received"]

    def count(self, score: Floats) -> Floats:
        """Expected counts of all stretches."""
        return self.add(_count, score)

    def add(
        self, function: Callable[..., Floats], score: Floats, given: Sequence[tuple[Any, ...]] = ()
    ) -> Floats:
        """Sum of a function over the stretches, each with its own arguments."""
        return sum_in_order(self._round(function, score, given or [()] * len(self.held)))

    def judge(
        self, score: Floats, *, each: bool = False, owner: Floats | None = None,
        only: int | None = None,
    ) -> tuple[Floats, Floats]:  # fmt: skip
        """Scores of the stretches (or of `each` group) and the residual; fills in `owner`."""
        total, scores, owned = np.zeros_like(score), [], []
        wanted = each, owner is not None, only
        for part in self._round(_judge, score, [wanted] * len(self.held)):
            scores.append(part[0])
            total += part[1]
            owned.append(part[2])
        if owner is not None:
            owner[:] = np.concatenate(owned)
        return np.concatenate(scores), total

    def _round(
        self, function: Callable[..., Any], score: Floats, given: Sequence[tuple[Any, ...]]
    ) -> Iterator[Any]:
        """Return one answer per stretch in order; early answers are held back."""
        self.traffic["rounds"] += 1
        name = f"round {self.rounds}"
        sent = self.tasks.hold(f"scores {self.rounds}", _score, score)
        for i, (held, own) in enumerate(zip(self.held, given, strict=True)):
            self.tasks.submit(f"{name} groups {i}", function, held, sent, *own)
        self.traffic["sent"] += score.nbytes
        early: dict[str, Any] = {}
        for i in range(len(self.held)):
            wanted = f"{name} groups {i}"
            while wanted not in early:
                ended, found = self.tasks.collect()
                parts = found if isinstance(found, tuple) else (found,)
                self.traffic["received"] += sum(part.nbytes for part in parts)
                early[ended] = found
            yield early.pop(wanted)
