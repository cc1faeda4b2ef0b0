"""Distinct rows part by part: one after the other, or as Dask tasks on a cluster.

A part is a run of row groups of a parquet file, a delimited file, or a partition of a Dask
dataframe. Its rows are counted where it is read; only distinct rows travel, and they are merged a
few parts at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from anonbayes.errors import TableError
from anonbayes.io.text import read_csv_parts
from anonbayes.tables.sources import (
    Counted,
    TableFiles,
    count_frame,
    frame_of,
    merge,
    no_damage,
    only_presence,
    open_parquet,
    place_key,
    reading,
)

__all__ = [
    "Part",
    "categories",
    "count_in_order",
    "count_partitions",
    "count_with_dask",
    "parts_of",
]
ROWS = 1_000_000
"""Rows of a task, about."""
BATCH = 250_000
"""Rows in memory at a time."""
FAN_IN = 8
"""Counted parts that are merged at a time."""


@dataclass(frozen=True)
class Part:
    """Some row groups of a parquet file, or a whole delimited file.

    Parameters
    ----------
    files : TableFiles
        The table.
    number : int
        Which of its files.
    groups : range or None
        Row groups; None for a delimited file.
    start : int
        Number of the first row in the file.
    """

    files: TableFiles
    number: int
    groups: range | None
    start: int


def parts_of(files: TableFiles) -> list[Part]:
    """Cut a table into parts of about a million rows."""
    if files.kind == "csv":
        return [Part(files, i, None, 0) for i in range(len(files.paths))]
    files.fields()  # refuses files that do not go together
    found = []
    for i, path in enumerate(files.paths):
        metadata = open_parquet(path).metadata
        first = start = row = 0
        for group in range(metadata.num_row_groups):
            row += metadata.row_group(group).num_rows
            if row - start >= ROWS or group == metadata.num_row_groups - 1:
                if row > start:
                    found.append(Part(files, i, range(first, group + 1), start))
                first, start = group + 1, row
    return found


def count_part(part: Part) -> Counted:
    """Distinct rows of one part, a batch at a time."""
    # Texts arrive as codes into a dictionary, which is faster to count than the texts.
    texts = [] if part.groups is None else _text_columns(part)
    found: Counted | None = None
    for frame, start in _batches(part, texts):
        counted = count_frame(frame, place_key(part.number, start, len(frame)))
        clear = counted.frame.assign(**{n: counted.frame[n].astype(object) for n in texts})
        counted = replace(counted, frame=clear)
        found = counted if found is None else merge([found, counted])
    assert found is not None
    return found


def count_in_order(files: TableFiles, *, progressbar: bool = True) -> Counted:
    """Distinct rows of files, one part after the other in this process."""
    parts, found = parts_of(files), []
    with reading("counting rows", progressbar=progressbar) as done:
        for i, part in enumerate(parts):
            found.append(count_part(part))
            if len(found) == FAN_IN:
                found = [merge(found)]
            done((i + 1) / len(parts))
    if not found:
        raise TableError(f"{str(files.paths[0])!r} has no rows.")
    return merge(found)


def count_with_dask(files: TableFiles, *, client: Any = None, progressbar: bool = True) -> Counted:
    """Distinct rows of files that every worker of a cluster can read."""
    parts = parts_of(files)
    if not parts:
        raise TableError(f"{str(files.paths[0])!r} has no rows.")
    return _tree(count_part, parts, client, progressbar)


def count_partitions(
    frame: Any, names: Sequence[str], *, client: Any = None, progressbar: bool = True
) -> Counted:
    """Distinct rows of a Dask dataframe; partitions are counted where they are."""
    numbered = list(enumerate(frame[list(names)].to_delayed()))
    found = _tree(_count_partition, numbered, client, progressbar)
    if not len(found.rows):
        raise TableError("The Dask dataframe has no rows.")
    return found


def categories(files: TableFiles, name: str) -> Any:
    """Categories of a column that was written as categorical, unseen ones included, in order."""
    import pyarrow as pa

    chunks: list[Any] = []
    for path in files.paths:
        for batch in open_parquet(path).iter_batches(columns=[name], batch_size=BATCH):
            chunk = batch.column(0).dictionary
            if not chunks or not chunk.equals(chunks[-1]):
                chunks.append(chunk)
    return pa.chunked_array(chunks).unique()


# -- parts ------------------------------------------------------------------------------------


def _batches(part: Part, texts: list[str]) -> Iterator[tuple[pd.DataFrame, int]]:
    files, path = part.files, part.files.paths[part.number]
    if part.groups is None:
        for frame in read_csv_parts(path, sep=files.sep, rows=BATCH):
            cells = only_presence(frame[list(files.names)], files.presence)
            yield cells, int(frame.index[0]) if len(frame) else 0
        return
    file, start = open_parquet(path, read_dictionary=texts), part.start
    names, groups = list(files.names), list(part.groups)
    batches = file.iter_batches(BATCH, row_groups=groups, columns=names)
    while True:
        with no_damage(path):
            batch = next(batches, None)
        if batch is None:
            return
        yield frame_of(batch)[names], start
        start += len(batch)


def _text_columns(part: Part) -> list[str]:
    import pyarrow.types as types

    schema = open_parquet(part.files.paths[part.number]).schema_arrow
    kinds = {name: schema.field(name).type for name in part.files.names}
    return [n for n, kind in kinds.items() if types.is_string(kind) or types.is_large_string(kind)]


def _count_partition(numbered: tuple[int, pd.DataFrame]) -> Counted:
    number, frame = numbered
    return count_frame(frame.reset_index(drop=True), place_key(number, 0, len(frame)))


# -- tasks ------------------------------------------------------------------------------------


def _tree(
    count: Callable[[Any], Counted], parts: Sequence[Any], client: Any, progressbar: bool
) -> Counted:
    """Count parts and merge the results, as tasks of a Dask scheduler.

    A worker that dies takes only counts along; the scheduler counts those parts again.
    """
    dask = dask_module()
    leaves = [dask.delayed(count, pure=False)(part) for part in parts]
    cluster = _current_client() if client is None else client
    with reading("counting rows", progressbar=progressbar) as done:
        if cluster is None:
            return _here(dask, leaves, done)
        level = cluster.compute(leaves)
        waiting = list(level)
        while len(level) > 1:
            level = [
                cluster.submit(merge, level[i : i + FAN_IN], pure=False)
                for i in range(0, len(level), FAN_IN)
            ]
        while not level[0].done():
            done(sum(future.done() for future in waiting) / len(waiting))
            time.sleep(0.05)
        found: Counted = level[0].result()
    return found


def _here(dask: Any, level: list[Any], done: Callable[[float], None]) -> Counted:
    """Run the tasks with Dask's own scheduler of this process."""
    finished, leaves = 0, len(level)
    while len(level) > 1:
        level = [
            dask.delayed(merge, pure=False)(level[i : i + FAN_IN])
            for i in range(0, len(level), FAN_IN)
        ]

    def after(*_: Any) -> None:
        nonlocal finished
        finished += 1
        done(min(finished / leaves, 1.0))

    with dask.callbacks.Callback(posttask=after):
        found: Counted = level[0].compute()
    return found


def _current_client() -> Any:
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError):
        return None


def dask_module() -> Any:
    """Return ``dask``, or raise an error that says how to get it."""
    try:
        import dask
        import dask.callbacks
    except ImportError:
        raise TableError(
            "engine='dask' needs dask; install it with: pip install 'anonbayes[big]'"
        ) from None
    return dask
