"""Groups of a vertical table as plain arrays."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import njit
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array
from scipy.special import gammaln

from anonbayes.arrays import Floats, Ints, starts_of
from anonbayes.errors import ModelError, TableError
from anonbayes.tables.table import ReleasedTable

# -------------------------------------------------------------------------------------------------
# A vertical table as plain arrays: everything that the samplers need.
#
# Rows are sorted by group. The nonsensitive tuples (*items*, the rows of the published
# quasi-identifier table) and the sensitive values (*slots*, the rows of the published sensitive
# table) of a group are both known; which slot owns which item is not. A state of the samplers is an
# `assignment`: ``assignment[j]`` is the row of `items` that slot ``j`` owns, a permutation inside
# each group.


class Arrays(NamedTuple):
    """The arrays of a layout that the compiled kernels read.

    For item ``i`` and sensitive value ``s``, the parameter of attribute ``a`` is at position
    ``cells[i, a] + s * strides[a]``; for slot ``j`` of its group, the ownership probability is at
    ``links[i] + ranks[j]``. Indices are unsigned, so that kernels need not handle negative ones.
    """

    cells: NDArray[np.uint32]
    strides: NDArray[np.uint32]
    starts: Ints
    secrets: NDArray[np.uint32]
    offsets: Ints
    links: Ints
    ranks: Ints
    repeats: NDArray[np.bool_]


class CellShape:
    """Shape of the flat parameters of a table, given by ``sizes`` and ``n_secrets``."""

    sizes: Ints
    n_secrets: int

    @property
    def n_attributes(self) -> int:
        """Number of nonsensitive attributes ``A``."""
        return len(self.sizes)

    @cached_property
    def starts(self) -> Ints:
        """Start of each attribute's block in the flat parameter array, and the end of the last."""
        return starts_of(self.n_secrets * self.sizes)

    @property
    def n_cells(self) -> int:
        """Length of the flat parameter array, ``S * sum(K_a)``."""
        return int(self.starts[-1])

    def flatten(self, parts: Sequence[ArrayLike]) -> Floats:
        """Join arrays of shape ``(S, K_a)``, one per attribute, into the flat array."""
        return np.concatenate([np.asarray(p, dtype=float).ravel() for p in parts])

    def split(self, flat: NDArray) -> list[NDArray]:
        """Cut a flat array (last axis) into views of shape ``(..., S, K_a)``."""
        ends = self.starts
        return [
            flat[..., ends[a] : ends[a + 1]].reshape(*flat.shape[:-1], self.n_secrets, k)
            for a, k in enumerate(self.sizes)
        ]

    def check_prior(self, alpha: ArrayLike, beta: ArrayLike) -> tuple[Floats, Floats]:
        """Return `alpha` with shape (S,) and flat `beta`; scalars are broadcast.

        `beta` is a scalar or a flat array in the layout of the parameters.
        """
        spread = []
        for name, value, length in (("alpha", alpha, self.n_secrets), ("beta", beta, self.n_cells)):
            array = np.asarray(value, dtype=float)
            if array.ndim and array.shape != (length,):
                raise ModelError(
                    f"{name} has shape {array.shape}; expected a scalar or ({length},)."
                )
            if not np.all(np.isfinite(array) & (array > 0)):
                raise ModelError(f"{name} must be positive and finite (a proper Dirichlet prior).")
            spread.append(np.array(np.broadcast_to(array, (length,))))
        return spread[0], spread[1]


@dataclass(frozen=True, eq=False)
class VerticalLayout(CellShape):
    """A vertical release in the form that samplers use: codes, sorted by group."""

    items: Ints  # codes of the nonsensitive tuples, (N, A)
    secrets: Ints  # codes of the sensitive values, (N,)
    offsets: Ints  # group g has the rows offsets[g] to offsets[g + 1] - 1
    sizes: Ints  # number of categories of each attribute
    n_secrets: int

    def __init__(
        self,
        items: ArrayLike,
        secrets: ArrayLike,
        offsets: ArrayLike,
        sizes: ArrayLike,
        n_secrets: int,
    ) -> None:
        def plain(name: str, value: ArrayLike, ndim: int) -> Ints:
            array = np.ascontiguousarray(value)
            if array.ndim != ndim or not np.issubdtype(array.dtype, np.integer):
                raise TableError(
                    f"{name} must be an integer array with {ndim} dimension(s), "
                    f"not {array.dtype} with {array.ndim}."
                )
            return array if ndim == 2 else array.astype(np.int64)

        fields = {
            "items": plain("items", items, 2),
            "secrets": plain("secrets", secrets, 1),
            "offsets": plain("offsets", offsets, 1),
            "sizes": plain("sizes", sizes, 1),
            "n_secrets": int(n_secrets),
        }
        for name, value in fields.items():
            object.__setattr__(self, name, value)
        self._check()
        # This is the largest array; for most tables, one or two bytes per number are enough.
        small = np.min_scalar_type(-int(self.sizes.max(initial=1)))
        object.__setattr__(self, "items", self.items.astype(small))

    def _check(self) -> None:
        n = len(self.secrets)
        if n == 0:
            raise TableError("The table has no rows, so there is nothing to infer.")
        if len(self.items) != n:
            raise TableError(
                f"{len(self.items)} nonsensitive tuples for {n} sensitive values; "
                "every group must have equally many of both."
            )
        bounds = self.offsets
        if len(bounds) < 2 or bounds[0] != 0 or bounds[-1] != n or np.any(np.diff(bounds) < 1):
            raise TableError(f"offsets must increase strictly from 0 to {n}, the number of rows.")
        if self.items.shape[1] != len(self.sizes):
            raise TableError(
                f"items has {self.items.shape[1]} attributes, sizes has {len(self.sizes)}."
            )
        # Check the extremes first: marking every cell takes a large array that is seldom needed.
        if self.items.min(initial=0) < 0 or (self.items.max(axis=0) >= self.sizes).any():
            bad = (self.items < 0) | (self.items >= self.sizes)
            row, a = map(int, np.argwhere(bad)[0])
            raise TableError(
                f"items[{row}, {a}] = {self.items[row, a]} is not a code of attribute {a}, "
                f"whose codes are 0 to {self.sizes[a] - 1}."
            )
        bad = (self.secrets < 0) | (self.secrets >= self.n_secrets)
        if bad.any():
            row = int(np.argmax(bad))
            raise TableError(
                f"secrets[{row}] = {self.secrets[row]} is not a code of the sensitive attribute, "
                f"whose codes are 0 to {self.n_secrets - 1}."
            )

    # ------------------------------------------------------------------ shape
    @property
    def n_rows(self) -> int:
        """Number of rows ``N``."""
        return len(self.secrets)

    @property
    def n_groups(self) -> int:
        """Number of groups."""
        return len(self.offsets) - 1

    @cached_property
    def group_sizes(self) -> Ints:
        """Number of rows of each group."""
        return np.diff(self.offsets)

    @cached_property
    def groups(self) -> Ints:
        """Group of each row."""
        return np.repeat(np.arange(self.n_groups), self.group_sizes)

    @cached_property
    def secret_counts(self) -> Ints:
        """Rows of each sensitive value, ``gamma`` of MODEL 1.4; equal in all cleartext tables."""
        return np.bincount(self.secrets, minlength=self.n_secrets)

    @cached_property
    def _distinct(self) -> tuple[Ints, Ints, Ints]:
        """Distinct sensitive values of each group, where they start, and the rank of each slot."""
        return distinct_inside(self.secrets, self.offsets, self.n_secrets)

    @cached_property
    def arrays(self) -> Arrays:
        """The layout in the form that the compiled kernels read."""
        _, first, ranks = self._distinct
        width = np.diff(first)
        return Arrays(
            cells=np.add(self.items, self.starts[:-1], dtype=np.uint32, casting="unsafe"),
            strides=self.sizes.astype(np.uint32),
            starts=self.starts,
            secrets=self.secrets.astype(np.uint32),
            offsets=self.offsets,
            links=starts_of(width[self.groups]),
            ranks=ranks,
            repeats=width < self.group_sizes,
        )

    def part(self, first: int, last: int) -> VerticalLayout:
        """The groups from `first` to `last` (exclusive) as a separate table."""
        bounds = self.offsets[first : last + 1]
        rows = slice(bounds[0], bounds[-1])
        return VerticalLayout(
            self.items[rows], self.secrets[rows], bounds - bounds[0], self.sizes, self.n_secrets
        )

    def every(self, step: int, first: int = 0) -> VerticalLayout:
        """Every `step`-th group from `first` on, as a separate table."""
        sizes = self.group_sizes[first::step]
        rows = np.repeat(self.offsets[first:-1:step] - starts_of(sizes)[:-1], sizes)
        rows += np.arange(len(rows))
        return VerticalLayout(
            self.items[rows], self.secrets[rows], starts_of(sizes), self.sizes, self.n_secrets
        )

    # ------------------------------------------------------------------ states
    def random_assignment(self, rng: np.random.Generator) -> Ints:
        """Draw an initial assignment: every group permuted uniformly at random."""
        return np.lexsort((rng.random(self.n_rows), self.groups))

    def check_assignment(self, assignment: ArrayLike) -> Ints:
        """Return `assignment` as int64; fail if it is not a permutation inside each group."""
        found = np.asarray(assignment, dtype=np.int64)
        if found.shape != (self.n_rows,):
            raise ModelError(
                f"assignment has shape {found.shape}; expected one item per row, ({self.n_rows},)."
            )
        inside = (found >= 0) & (found < self.n_rows)
        inside &= self.groups[np.where(inside, found, 0)] == self.groups
        twice = np.bincount(found[inside], minlength=self.n_rows) > 1
        if not inside.all() or twice.any():
            row = int(np.argmin(inside)) if not inside.all() else int(np.argmax(twice[found]))
            raise ModelError(
                f"assignment[{row}] = {found[row]} is not a permutation inside group "
                f"{self.groups[row]} (rows {self.offsets[self.groups[row]]} to "
                f"{self.offsets[self.groups[row] + 1] - 1})."
            )
        return found

    def counts(self, assignment: Ints) -> Ints:
        """Return the counts ``delta`` of an assignment, flat."""
        return count_cells(self.arrays, assignment, self.n_cells)

    # ------------------------------------------------------------------ parameters
    @property
    def margins(self) -> list[Floats]:
        """Shares of each attribute's categories among all items."""
        return [
            np.bincount(self.items[:, a], minlength=k) / self.n_rows
            for a, k in enumerate(self.sizes)
        ]

    def energy(self, assignment: Ints, beta: Floats) -> float:
        """Log of the collapsed posterior, up to a constant; ``E`` of MODEL 1.4."""
        return float(gammaln(beta + self.counts(assignment)).sum())

    # ------------------------------------------------------------------ ownership
    def ownership(self, data: NDArray) -> csr_array:
        """Ownership probabilities as a sparse matrix ``(N, S)``: ``P(item i belongs to value s)``.

        `data` holds averages of the values that the kernels accumulate. Summed over the items that
        equal a victim's tuple, they are the attacker's belief (MODEL 1.5).
        """
        values, first, _ = self._distinct
        links = self.arrays.links
        shift = np.repeat(first[self.groups] - links[:-1], np.diff(links))
        columns = values[np.arange(self.n_links) + shift]
        return csr_array((data, columns, links), shape=(self.n_rows, self.n_secrets))

    @property
    def n_links(self) -> int:
        """Number of (item, sensitive value of its group) pairs."""
        return int(self.arrays.links[-1])


def layout_of(table: ReleasedTable) -> VerticalLayout:
    """Plain-array layout of a vertical table, as required by samplers and step methods.

    Examples
    --------
    >>> import anonbayes as ab
    >>> import pandas as pd
    >>> qit = pd.DataFrame({"Nat": ["J", "M"], "gid": [1, 1]})
    >>> st = pd.DataFrame({"gid": [1, 1], "Dis": ["Flu", "Heart"]})
    >>> table = ab.ReleasedTable.vertical(qit, st, group="gid", sensitive="Dis")
    >>> layout_of(table).n_groups
    1
    """
    if table.scheme != "vertical":
        raise ModelError(
            "Only vertical tables have this layout; use ReleasedTable.vertical or read_anatomy."
        )
    sizes = table.group_sizes.to_numpy()
    return VerticalLayout(
        items=np.stack([c.codes for c in table.columns.values()], axis=1),
        secrets=table.secret_codes,
        offsets=starts_of(sizes),
        sizes=np.array([len(c.domain) for c in table.columns.values()]),
        n_secrets=len(table.secret.domain),
    )


@njit(cache=True, nogil=True)
def count_cells(arrays: Arrays, assignment: Ints, n_cells: int) -> Ints:
    """Count (sensitive value, category) pairs of an assignment, flat."""
    counts = np.zeros(n_cells, dtype=np.int64)
    cells, strides, secrets = arrays.cells, arrays.strides, arrays.secrets
    for j in range(len(secrets)):
        i, s = assignment[j], secrets[j]
        for a in range(len(strides)):
            counts[cells[i, a] + s * strides[a]] += 1
    return counts


@njit(cache=True, nogil=True)
def distinct_inside(values: Ints, offsets: Ints, size: int) -> tuple[Ints, Ints, Ints]:
    """Distinct codes (below `size`) of each group in ascending order, in linear time.

    Returns the codes of all groups, one group after another; the start of each group's codes, with
    the end last; and for each row, the position of its code among those of its group.
    """
    n = len(values)
    distinct = np.empty(n, dtype=np.int64)
    first = np.zeros(len(offsets), dtype=np.int64)
    ranks = np.empty(n, dtype=np.int64)
    group_of = np.full(size, -1, dtype=np.int64)
    rank_of = np.empty(size, dtype=np.int64)
    stop = 0
    for g in range(len(offsets) - 1):
        start = stop
        for row in range(offsets[g], offsets[g + 1]):
            value = values[row]
            if group_of[value] == g:
                continue
            group_of[value] = g
            j = stop
            while j > start and distinct[j - 1] > value:
                distinct[j] = distinct[j - 1]
                j -= 1
            distinct[j] = value
            stop += 1
        for j in range(start, stop):
            rank_of[distinct[j]] = j - start
        for row in range(offsets[g], offsets[g + 1]):
            ranks[row] = rank_of[values[row]]
        first[g + 1] = stop
    return distinct[:stop].copy(), first, ranks


# -------------------------------------------------------------------------------------------------
# Groups distributed over threads, which is exact, since they are independent given the parameters.
#
# ``p(t | pi, t*)`` is a product over groups (MODEL 1.4), so a sweep given the parameters may move
# all groups at the same time, followed by a single sum of counts. Large tables are cut into shards
# by their size alone, regardless of the number of threads, and every shard has its own generator,
# seeded by that of the chain. So the draws depend only on the seed.

SHARD_ROWS = 50_000
"""Approximate rows of a shard: five milliseconds of work, where handing it over takes 0.1."""

T = TypeVar("T")


def shard_cuts(offsets: Ints) -> list[int]:
    """Boundaries of the shards, the end included, with as equal numbers of rows as possible."""
    rows, groups = int(offsets[-1]), len(offsets) - 1
    n = max(1, min(rows // SHARD_ROWS, groups))
    cuts: list[int] = np.unique(np.searchsorted(offsets, np.linspace(0, rows, n + 1))).tolist()
    return cuts


class Shards:
    """Stretches of whole groups of a table, processed by `threads` at the same time."""

    def __init__(self, layout: VerticalLayout, threads: int = 1) -> None:
        self.layout = layout
        self._threads = Threads(threads)
        arrays = layout.arrays
        self._parts = [
            arrays._replace(offsets=arrays.offsets[a : b + 1])
            for a, b in itertools.pairwise(shard_cuts(arrays.offsets))
        ]

    def __len__(self) -> int:
        return len(self._parts)

    def sweep(
        self, kernel: Callable[[Arrays, np.random.Generator], T], rng: np.random.Generator
    ) -> list[T]:
        """Run ``kernel(arrays, generator)`` on each shard; a single one uses `rng` itself."""
        if len(self) == 1:
            return [kernel(self._parts[0], rng)]
        seeds = rng.integers(2**64, size=(len(self), 2), dtype=np.uint64).tolist()
        return self._threads.run(
            lambda i: kernel(self._parts[i], np.random.default_rng(seeds[i])), range(len(self))
        )

    def counts(self, assignment: Ints) -> Ints:
        """Return the counts ``delta`` of an assignment, summed over the shards."""
        if len(self) == 1:
            return self.layout.counts(assignment)

        def count(part: Arrays) -> Ints:
            rows = slice(part.offsets[0], part.offsets[-1])
            of_shard = part._replace(secrets=part.secrets[rows])
            return count_cells(of_shard, assignment[rows], self.layout.n_cells)

        found = self._threads.run(lambda i: count(self._parts[i]), range(len(self)))
        return np.sum(found, axis=0)


class Threads:
    """Threads for independent jobs; the kernels that they call release the lock."""

    def __init__(self, n: int) -> None:
        self.n = n
        self._pool: ThreadPoolExecutor | None = None
        self._process = -1

    def run(self, job: Callable[[int], T], numbers: Sequence[int]) -> list[T]:
        """Run ``job(i)`` for each number in any order; return the results in the given order."""
        return list(self.each(job, numbers))

    def each(self, job: Callable[[int], T], numbers: Sequence[int]) -> Iterator[T]:
        """Yield the results of `run` one by one, so that not all need be kept in memory."""
        if self.n == 1:
            return map(job, numbers)
        if self._pool is None or self._process != os.getpid():  # threads do not survive a fork
            self._pool, self._process = ThreadPoolExecutor(self.n), os.getpid()
        return self._pool.map(job, numbers)

    def __getstate__(self) -> dict[str, Any]:
        return {"n": self.n, "_pool": None, "_process": -1}
