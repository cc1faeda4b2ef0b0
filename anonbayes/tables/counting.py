"""Distinct rows of tables larger than memory: with DuckDB on one machine, Dask on a cluster."""

from __future__ import annotations

import itertools
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pandas as pd

from anonbayes.cluster import reachable, result_of, wait_until
from anonbayes.errors import AnonbayesError, TableError
from anonbayes.io.text import read_csv_parts
from anonbayes.tables.sources import (
    ROWS_PER_PART,
    Counted,
    FrameLike,
    TableFiles,
    all_rows,
    count_frame,
    frame_of,
    joined,
    merge,
    no_damage,
    open_parquet,
    parquet_module,
    place_key,
    read_columns,
    reading,
)

if TYPE_CHECKING:
    import dask.dataframe as dd
    import pyarrow
    from distributed import Client
    from duckdb import DuckDBPyConnection

P = TypeVar("P")

# -------------------------------------------------------------------------------------------------
# DuckDB: distinct rows of files larger than memory, on one machine.
#
# Column types are not guessed, nothing is loaded over a network, and temporary files are deleted.

RESERVED = frozenset({"file_row_number", "file_index"})
"""DuckDB's names for the positions of rows."""
SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
}
"""Settings that keep DuckDB from installing or loading extensions over the network."""


def count_with_duckdb(
    files: TableFiles,
    *,
    memory_limit: str | None = None,
    temp_directory: str | os.PathLike[str] | None = None,
    progressbar: bool = True,
) -> Counted:
    """Count the distinct rows of parquet or delimited files; spills to disk if necessary."""
    with open_duckdb(memory_limit, temp_directory) as (con, folder):
        parts = as_parquet(files, folder)
        kept = np.flatnonzero(parts.lengths)
        if not len(kept):
            raise TableError(f"{str(files.paths[0])!r} has no rows.")
        fields = parts.fields()
        if RESERVED & set(files.names):
            return count_frame(*all_rows(parts))
        query = _counting_query([parts.paths[i] for i in kept], parts.names)
        try:
            rows = _run(con, lambda: con.sql(query).to_arrow_table(), "counting rows", progressbar)
        except duckdb_module().Error as error:
            raise _explained(error, parts, memory_limit) from None
        first = rows.column("first").to_numpy()
        return Counted(
            _frame(rows, fields, parts),
            rows.column("n").to_numpy().astype(np.int64),
            kept[first // ROWS_PER_PART] * ROWS_PER_PART + first % ROWS_PER_PART,
        )


def as_parquet(files: TableFiles, folder: Path) -> TableFiles:
    """Convert delimited files to temporary parquet files of texts; return parquet files as is."""
    if files.kind == "parquet":
        return files
    import pyarrow

    schema = pyarrow.schema([(name, pyarrow.string()) for name in files.names])
    targets = tuple(folder / f"{i}.parquet" for i in range(len(files.paths)))
    for path, target in zip(files.paths, targets, strict=True):
        with parquet_module().ParquetWriter(target, schema) as writer:
            for part in read_csv_parts(path, sep=files.sep, rows=BATCH):
                cells = part[list(files.names)]
                writer.write_table(pyarrow.Table.from_pandas(cells, schema, preserve_index=False))
    return replace(files, paths=targets, kind="parquet")


def duckdb_module() -> Any:
    """Import DuckDB, or raise an error that says how to install it."""
    try:
        import duckdb
    except ImportError:
        raise TableError(
            "engine='duckdb' needs duckdb; install it with: pip install 'anonbayes[big]'"
        ) from None
    return duckdb


@contextmanager
def open_duckdb(
    memory_limit: str | None = None, temp_directory: str | os.PathLike[str] | None = None
) -> Iterator[tuple[DuckDBPyConnection, Path]]:
    """Connect to an in-memory database, with a temporary folder that is deleted on exit."""
    duckdb = duckdb_module()
    if temp_directory is not None and not Path(temp_directory).is_dir():
        raise AnonbayesError(f"temp_directory={str(temp_directory)!r} is not a directory.")
    with tempfile.TemporaryDirectory(prefix="anonbayes-", dir=temp_directory) as name:
        settings = {**SETTINGS, "temp_directory": str(Path(name) / "spilled")}
        if memory_limit is not None:
            settings["memory_limit"] = str(memory_limit)
        try:
            con = duckdb.connect(":memory:", config=settings)
        except duckdb.Error as error:
            if memory_limit is None:
                raise
            raise AnonbayesError(
                f"memory_limit={memory_limit!r} is not a size ({str(error).splitlines()[0]}); "
                "write '4GB' or '500MB', for example."
            ) from None
        try:
            con.execute("SET enable_progress_bar_print = false")  # `reading` shows progress
            con.execute("SET enable_progress_bar = true")
            yield con, Path(name)
        finally:
            con.close()


# -- queries ----------------------------------------------------------------------------------


def _counting_query(paths: Sequence[Path], names: Sequence[str]) -> str:
    shown = ", ".join(f"{_name(name)} AS c{i}" for i, name in enumerate(names))
    keys = ", ".join(f"c{i}" for i in range(len(names)))
    listed = ", ".join(_text(str(path)) for path in paths)
    return (
        f"SELECT {keys}, count(*) AS n, min(place) AS first FROM (SELECT {shown}, "
        f"file_index::BIGINT * {ROWS_PER_PART} + file_row_number AS place "
        f"FROM read_parquet([{listed}], file_row_number = true, union_by_name = true)) "
        f"GROUP BY {keys} ORDER BY first"
    )


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _run(
    con: DuckDBPyConnection, work: Callable[[], pyarrow.Table], label: str, progressbar: bool
) -> pyarrow.Table:
    """Run a query in its own thread, so that progress is shown and Ctrl-C works."""
    outcome: dict[str, Any] = {}

    def target() -> None:
        try:
            outcome["result"] = work()
        except BaseException as error:
            outcome["error"] = error

    thread = threading.Thread(target=target, daemon=True)
    with reading(label, progressbar=progressbar) as done:
        thread.start()
        try:
            while thread.is_alive():
                thread.join(0.1)
                done(max(con.query_progress(), 0.0) / 100.0)
        except BaseException:
            con.interrupt()
            thread.join()
            raise
    if "error" in outcome:
        raise outcome["error"]
    return outcome["result"]


# -- results ----------------------------------------------------------------------------------


def _frame(rows: pyarrow.Table, fields: Sequence[pyarrow.Field], parts: TableFiles) -> pd.DataFrame:
    """Convert distinct rows to the column types that pandas would have read from the file."""
    import pyarrow as pa

    columns = []
    for i, field in enumerate(fields):
        column = rows.column(f"c{i}").combine_chunks()
        if pa.types.is_dictionary(field.type):
            column = column.cast(field.type.value_type)
            column = pa.DictionaryArray.from_arrays(
                pa.compute.index_in(column, categories(parts, field.name)),
                categories(parts, field.name),
                ordered=field.type.ordered,
            )
        else:
            column = column.cast(field.type)
        columns.append(column)
    return frame_of(pa.table(columns, names=[f.name for f in fields]))


def _explained(error: Exception, parts: TableFiles, memory_limit: str | None) -> TableError:
    """Return an error that names the damaged file, or says that memory was too small."""
    duckdb = duckdb_module()
    if isinstance(error, duckdb.OutOfMemoryException):
        return TableError(
            f"The distinct rows do not fit into memory_limit={memory_limit!r}: raise it, or drop "
            f"columns with very many values ({str(error).splitlines()[0]})."
        )
    for path in parts.paths:
        file = open_parquet(path)
        try:
            with no_damage(path):
                for group in range(file.num_row_groups):
                    file.read_row_group(group, columns=list(parts.names))
        except TableError as damage:
            return damage
    return TableError(f"DuckDB cannot read {str(parts.paths[0])!r}: {str(error).splitlines()[0]}")


# -------------------------------------------------------------------------------------------------
# Tables that are read column by column, because all columns at once would not fit into memory.


class ColumnFrame(FrameLike):
    """Stand-in for a data frame in `ReleasedTable.vertical` that reads columns when needed."""

    def __init__(self, files: TableFiles) -> None:
        files.fields()  # refuses files with different columns
        self.files = files
        self.columns = pd.Index(files.names)
        self._replaced: dict[str, pd.Series] = {}

    def __len__(self) -> int:
        return sum(self.files.lengths)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return len(self), len(self.columns)

    @property
    def empty(self) -> bool:
        """Whether there are no rows."""
        return not len(self)

    def __getitem__(self, name: str) -> pd.Series:
        if name in self._replaced:
            return self._replaced[name]
        filled = [p for p, n in zip(self.files.paths, self.files.lengths, strict=True) if n]
        return joined([read_columns(path, [name])[name] for path in filled])

    def __setitem__(self, name: str, column: pd.Series) -> None:
        self._replaced[name] = column

    def to_frame(self) -> pd.DataFrame:
        """Return all columns as a data frame."""
        return pd.DataFrame({name: self[name] for name in self.columns})


@contextmanager
def open_columns(
    files: TableFiles,
    engine: str,
    memory_limit: str | None,
    temp_directory: str | os.PathLike[str] | None,
) -> Iterator[Any]:
    """Open a source as a data frame, or as a `ColumnFrame` if the engine is DuckDB.

    Delimited files are converted to temporary parquet files, which are deleted on exit.
    """
    if engine == "pandas":
        yield all_rows(files)[0]
        return
    with open_duckdb(memory_limit, temp_directory) as (_, folder):
        yield ColumnFrame(as_parquet(files, folder))


# -------------------------------------------------------------------------------------------------
# Dask: a part is a run of row groups of a parquet file, a delimited file, or a partition of a Dask
# dataframe. Its rows are counted where it is read; only distinct rows are sent, and merged a few
# parts at a time.

ROWS = 1_000_000
"""Approximate number of rows of a task."""
BATCH = 250_000
"""Number of rows held in memory at a time."""
FAN_IN = 8
"""Number of counted parts merged at a time."""


@dataclass(frozen=True)
class Part:
    """Row groups of a parquet file, or a whole delimited file."""

    files: TableFiles
    number: int
    groups: range | None
    start: int


def parts_of(files: TableFiles) -> list[Part]:
    """Split a table into parts of about a million rows."""
    if files.kind == "csv":
        return [Part(files, i, None, 0) for i in range(len(files.paths))]
    files.fields()  # refuses files with different columns
    parts = []
    for i, path in enumerate(files.paths):
        metadata = open_parquet(path).metadata
        first = start = row = 0
        for group in range(metadata.num_row_groups):
            row += metadata.row_group(group).num_rows
            if row - start >= ROWS or group == metadata.num_row_groups - 1:
                if row > start:
                    parts.append(Part(files, i, range(first, group + 1), start))
                first, start = group + 1, row
    return parts


def count_part(part: Part) -> Counted:
    """Count the distinct rows of one part, batch by batch."""
    # Texts are read as dictionary codes, which are faster to count than the texts.
    texts = [] if part.groups is None else _text_columns(part)
    counted: list[Counted] = []
    for frame, start in _batches(part, texts):
        new = count_frame(frame, place_key(part.number, start, len(frame)))
        clear = new.frame.assign(**{n: new.frame[n].astype(object) for n in texts})
        counted = [merge([*counted, replace(new, frame=clear)])]
    return counted[0]


def count_with_dask(
    files: TableFiles, *, client: Client | None = None, progressbar: bool = True
) -> Counted:
    """Count the distinct rows of files that every worker of a cluster can read."""
    parts = parts_of(files)
    if not parts:
        raise TableError(f"{str(files.paths[0])!r} has no rows.")
    return _tree(count_part, parts, client, progressbar)


def count_partitions(
    frame: dd.DataFrame,
    names: Sequence[str],
    *,
    client: Client | None = None,
    progressbar: bool = True,
) -> Counted:
    """Count the distinct rows of a Dask dataframe where its partitions are."""
    numbered = list(enumerate(frame[list(names)].to_delayed()))
    counted = _tree(_count_partition, numbered, client, progressbar)
    if not len(counted.rows):
        raise TableError("The Dask dataframe has no rows.")
    return counted


def categories(files: TableFiles, name: str) -> pyarrow.Array:
    """Return the categories, in order, of a column written as categorical, unused ones included."""
    import pyarrow as pa

    chunks: list[pyarrow.Array] = []
    for path in files.paths:
        for batch in open_parquet(path).iter_batches(columns=[name], batch_size=BATCH):
            chunk = getattr(batch.column(0), "dictionary", None)
            if chunk is None:  # the column is empty in this file
                continue
            if not chunks or not chunk.equals(chunks[-1]):
                chunks.append(chunk)
    return pa.chunked_array(chunks).unique()


# -- parts ------------------------------------------------------------------------------------


def _batches(part: Part, texts: list[str]) -> Iterator[tuple[pd.DataFrame, int]]:
    files, path = part.files, part.files.paths[part.number]
    if part.groups is None:
        for frame in read_csv_parts(path, sep=files.sep, rows=BATCH):
            yield frame[list(files.names)], int(frame.index[0]) if len(frame) else 0
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
    count: Callable[[P], Counted], parts: Sequence[P], client: Client | None, progressbar: bool
) -> Counted:
    """Count parts and merge the results in a tree of Dask tasks.

    If a worker dies, only counts are lost; the scheduler counts those parts again.
    """
    dask = dask_module()
    cluster = _current_client() if client is None else client
    leaves = [dask.delayed(count, pure=False)(part) for part in parts]
    level = leaves = leaves if cluster is None else cluster.compute(leaves)
    while level is leaves or len(level) > 1:
        level = [
            dask.delayed(merge, pure=False)(level[i : i + FAN_IN])
            for i in range(0, len(level), FAN_IN)
        ]
    with reading("counting rows", progressbar=progressbar) as done:
        if cluster is None:
            ended = itertools.count(1)
            after = dask.callbacks.Callback(
                posttask=lambda *_: done(min(next(ended) / len(leaves), 1.0))
            )
            with after:
                whole: Counted = level[0].compute()
            return whole
        what = "counting rows"
        with reachable(what):
            future = cluster.compute(level[0])
            wait_until(
                future.done,
                cluster,
                what,
                meanwhile=lambda: done(sum(leaf.done() for leaf in leaves) / len(leaves)),
            )
        whole = result_of(future, what)
    return whole


def _current_client() -> Client | None:
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError):
        return None


def dask_module() -> Any:
    """Import Dask, or raise an error that says how to install it."""
    try:
        import dask
        import dask.callbacks
    except ImportError:
        raise TableError(
            "engine='dask' needs dask; install it with: pip install 'anonbayes[big]'"
        ) from None
    return dask
