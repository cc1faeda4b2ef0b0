"""Construction of released tables: time and memory against the number of rows.

Goals: a million rows with eight attributes in less than 10 s, in less than 200 MB.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Mapping

import numpy as np
import pandas as pd

from anonbayes import Hierarchy, ReleasedTable

SECONDS, MEGABYTES = 10.0, 200.0
SIZES = (10_000, 100_000, 1_000_000)

HIERARCHIES = {
    "age": Hierarchy.from_intervals(range(17, 91), 5, 10, 20),
    "postcode": Hierarchy.from_prefix([f"{i:05d}" for i in range(10_000, 15_000, 5)]),
}


def made_up(n: int, *, seed: int = 1) -> pd.DataFrame:
    """Locally recoded table: two columns at mixed levels of a hierarchy, six in clear or sets."""
    rng = np.random.default_rng(seed)
    columns: dict[str, np.ndarray] = {}
    for name, tree in HIERARCHIES.items():
        leaf = rng.integers(len(tree.leaves), size=n)
        level = rng.integers(1, tree.depth - 1, size=n)
        words = np.array([[str(v) for v in tree.leaves], *tree.levels], dtype=object)
        columns[name] = words[level, leaf]
    for i, size in enumerate((2, 5, 7, 16, 41, 9)):
        values = [f"v{j}" for j in range(size)] + ["*", "{v0, v1}"]
        columns[f"attribute{i}"] = np.array(values, dtype=object)[rng.integers(size + 2, size=n)]
    columns["diagnosis"] = np.array([f"d{j}" for j in range(14)], dtype=object)[
        rng.integers(14, size=n)
    ]
    return pd.DataFrame(columns)


def kept_bytes(table: ReleasedTable) -> int:
    """Bytes of the arrays that a table keeps, its counts included."""
    columns = [*table.columns.values(), table.secret]
    arrays = [c.codes for c in columns] + [table.group_codes]
    matrices = [c.evidence.matrix for c in columns] + [*table.counts.values()]
    return sum(a.nbytes for a in arrays) + sum(
        m.data.nbytes + m.indices.nbytes + m.indptr.nbytes for m in matrices
    )


def measure(n: int) -> Mapping[str, float]:
    """Seconds without, and peak megabytes with, the memory tracer."""

    def build() -> ReleasedTable:
        table = ReleasedTable.horizontal(frame, "diagnosis", hierarchies=HIERARCHIES)
        assert len(table.counts) == 8
        return table

    frame = made_up(n)
    start = time.perf_counter()
    table = build()
    seconds = time.perf_counter() - start
    del table
    tracemalloc.start()
    table = build()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {
        "seconds": seconds,
        "microseconds per row": seconds / n * 1e6,
        "table MB": kept_bytes(table) / 1e6,
        "peak MB while building": peak / 1e6,
    }


def main(*, short: bool = False) -> None:
    """Print one line per size."""
    sizes = SIZES[:2] if short else SIZES
    results = pd.DataFrame({f"{n:,} rows": measure(n) for n in sizes}).T
    print(results.round(2).to_string())
    seconds, megabytes = results["seconds"].iloc[-1], results["table MB"].iloc[-1]
    print(
        f"goals at a million rows: {SECONDS:g} s, {MEGABYTES:g} MB; largest here: "
        f"{seconds:.2f} s, {megabytes:.1f} MB"
    )
