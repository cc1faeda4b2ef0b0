"""Groups shared out over threads, which is exact: given the parameters they are independent.

``p(t | pi, t*)`` is a product over groups (MODEL 1.4), so a sweep given the parameters may move all
groups at the same time; one sum of counts per sweep brings them together. Large tables are cut into
shards by their size alone, never by the number of threads, and every shard draws from a generator
of its own that the chain's generator seeds. So the draws depend on the seed and on nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np

from anonbayes.arrays import Ints

from .layout import Arrays, VerticalLayout, count_cells

__all__ = ["SHARD_ROWS", "Shards", "Threads"]

SHARD_ROWS = 50_000
"""Rows of a shard, about: five milliseconds of work, against 0.1 for handing it to a thread."""

T = TypeVar("T")


class Shards:
    """Stretches of whole groups of a table; tables below two of them are one stretch.

    Parameters
    ----------
    layout : VerticalLayout
        The table.
    threads : int
        Shards that are worked on at the same time.

    Examples
    --------
    >>> layout = VerticalLayout([[0], [1], [1], [0]], [0, 1, 0, 1], [0, 2, 4], [2], 2)
    >>> shards = Shards(layout)
    >>> len(shards), shards.counts(np.arange(4))
    (1, array([1, 1, 1, 1]))
    """

    def __init__(self, layout: VerticalLayout, threads: int = 1) -> None:
        self.layout = layout
        self._threads = Threads(threads)
        arrays = layout.arrays
        n = max(1, min(layout.n_rows // SHARD_ROWS, layout.n_groups))
        # Whole groups, as equal in rows as groups allow.
        wanted = np.linspace(0, layout.n_rows, n + 1)
        self._groups = np.unique(np.searchsorted(arrays.offsets, wanted))
        self._parts = [
            arrays._replace(offsets=arrays.offsets[a : b + 1])
            for a, b in zip(self._groups[:-1], self._groups[1:], strict=True)
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
        """Return the counts ``delta`` of an assignment: the sum of those of the shards."""
        if len(self) == 1:
            return self.layout.counts(assignment)

        def count(part: Arrays) -> Ints:
            rows = slice(part.offsets[0], part.offsets[-1])
            of_shard = part._replace(secrets=part.secrets[rows])
            return count_cells(of_shard, assignment[rows], self.layout.n_cells)

        found = self._threads.run(lambda i: count(self._parts[i]), range(len(self)))
        return np.sum(found, axis=0)


class Threads:
    """A few threads that share out independent jobs; the kernels they call release the lock."""

    def __init__(self, n: int) -> None:
        self.n = n
        self._pool: ThreadPoolExecutor | None = None
        self._process = -1

    def run(self, job: Callable[[int], T], numbers: Sequence[int]) -> list[T]:
        """Run ``job(i)`` for each number, in any order; results in theirs."""
        if self.n == 1:
            return [job(i) for i in numbers]
        if self._pool is None or self._process != os.getpid():  # threads do not survive a fork
            self._pool, self._process = ThreadPoolExecutor(self.n), os.getpid()
        return list(self._pool.map(job, numbers))

    def __getstate__(self) -> dict[str, Any]:
        return {"n": self.n, "_pool": None, "_process": -1}
