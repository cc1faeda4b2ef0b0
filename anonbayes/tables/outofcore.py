"""Counting rows with DuckDB, out of core."""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from anonbayes.errors import AnonbayesError, TableError
from anonbayes.io.text import blocks, read_csv_names, read_csv_parts
from anonbayes.tables.build import FrameLike
from anonbayes.tables.partitions import categories, count_in_order
from anonbayes.tables.sources import (
    PRESENT,
    ROWS_PER_PART,
    Counted,
    Reading,
    TableFiles,
    frame_of,
    joined,
    no_damage,
    only_presence,
    open_parquet,
    parquet_module,
    read_columns,
    reading,
)

__all__ = [
    "ColumnFrame",
    "as_parquet",
    "count_with_duckdb",
    "duckdb_module",
    "open_columns",
    "open_duckdb",
]


# -------------------------------------------------------------------------------------------------
# DuckDB: distinct rows of files larger than memory, on one machine.
#
# Nothing is guessed, nothing is loaded from a network, and temporary files go when the work ends.

RESERVED = frozenset({"file_row_number", "file_index"})
"""Names that DuckDB gives to the places of rows."""
CHUNK = 500_000
_LONE_CR = re.compile(rb"\r[^\n]")
SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",
}
"""No extension is installed or loaded, so that nothing reaches for a network."""


def count_with_duckdb(
    files: TableFiles,
    *,
    memory_limit: str | None = None,
    temp_directory: str | Path | None = None,
    progressbar: bool = True,
) -> Counted:
    """Distinct rows of parquet or delimited files, by one ``GROUP BY`` that spills to disk.

    Parameters
    ----------
    files : TableFiles
        The table.
    memory_limit : str, optional
        What DuckDB may use, such as ``"4GB"``; by default 80 % of the machine's memory.
    temp_directory : path, optional
        Where temporary files go; they are deleted when the table is read.
    progressbar : bool
        Whether to show progress on a terminal.
    """
    with open_duckdb(memory_limit, temp_directory) as (con, folder):
        parts = as_parquet(files, con, folder, progressbar=progressbar)
        kept = np.flatnonzero(parts.lengths)
        if not len(kept):
            raise TableError(f"{str(files.paths[0])!r} has no rows.")
        fields = parts.fields()
        if fields is None or RESERVED & set(files.names):
            return count_in_order(parts, progressbar=progressbar)
        query = _counting_query([parts.paths[i] for i in kept], parts.names)
        try:
            found = _run(con, lambda: con.sql(query).to_arrow_table(), "counting rows", progressbar)
        except duckdb_module().Error as error:
            raise _explained(error, parts, memory_limit) from None
        first = found.column("first").to_numpy()
        return Counted(
            _frame(found, fields, parts),
            found.column("n").to_numpy().astype(np.int64),
            kept[first // ROWS_PER_PART] * ROWS_PER_PART + first % ROWS_PER_PART,
        )


def as_parquet(
    files: TableFiles, con: Any, folder: Path, *, progressbar: bool = True
) -> TableFiles:
    """Delimited files as temporary parquet files, every cell a text; parquet files as they are.

    Without a connection to DuckDB the text is read as pandas does, a chunk at a time.
    """
    if files.kind == "parquet":
        return files
    out = []
    for i, path in enumerate(files.paths):
        target = folder / f"{i}.parquet"
        if (
            con is None
            or _is_doubtful(path, files.sep)
            or not _copied(con, path, files, target, progressbar)
        ):
            # Reads what DuckDB refuses, as pandas does, or says what is wrong with it.
            _copy_in_chunks(path, files, target)
        out.append(target)
        if not open_parquet(target).metadata.num_rows:
            raise TableError(f"{str(path)!r} has a header but no rows.")
    return replace(files, paths=tuple(out), kind="parquet")


def duckdb_module() -> Any:
    """Return ``duckdb``, or raise an error that says how to get it."""
    try:
        import duckdb
    except ImportError:
        raise TableError(
            "engine='duckdb' needs duckdb; install it with: pip install 'anonbayes[big]'"
        ) from None
    return duckdb


@contextmanager
def open_duckdb(
    memory_limit: str | None = None, temp_directory: str | Path | None = None
) -> Iterator[tuple[Any, Path]]:
    """Connect to a database in memory, with a folder for temporary files that goes with it."""
    duckdb = duckdb_module()
    if temp_directory is not None and not Path(temp_directory).is_dir():
        raise AnonbayesError(f"temp_directory={str(temp_directory)!r} is no directory.")
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
                f"memory_limit={memory_limit!r} cannot be read ({str(error).splitlines()[0]}); "
                "write it as '4GB' or '500MB'."
            ) from None
        try:
            con.execute("SET enable_progress_bar_print = false")  # `reading` does
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
        f"FROM read_parquet([{listed}], file_row_number = true)) GROUP BY {keys} ORDER BY first"
    )


def _copying_query(path: Path, files: TableFiles, target: Path) -> str:
    """Every column is declared as text, and nothing stands for a missing cell."""
    own = read_csv_names(path, sep=files.sep)
    columns = ", ".join(f"c{i}: 'VARCHAR'" for i in range(len(own)))
    shown = {n: f"coalesce(c{own.index(n)}, '')" for n in files.names}
    for n in files.presence:
        shown[n] = f"CASE WHEN {shown[n]} = '' THEN '' ELSE {_text(PRESENT)} END"
    cells = ", ".join(f"{cell} AS {_name(n)}" for n, cell in shown.items())
    return (
        f"COPY (SELECT {cells} FROM read_csv({_text(str(path))}, delim = {_text(files.sep)}, "
        f"quote = '\"', escape = '\"', header = true, auto_detect = false, "
        f"columns = {{{columns}}}, nullstr = '\x01\x02', comment = '', null_padding = false, "
        f"strict_mode = true, ignore_errors = false)) TO {_text(str(target))} (FORMAT parquet)"
    )


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _run(con: Any, work: Callable[[], Any], label: str, progressbar: bool) -> Any:
    """Run a query in a thread of its own, so that progress is shown and Ctrl-C works."""
    outcome: dict[str, Any] = {}

    def target() -> None:
        try:
            outcome["found"] = work()
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
    return outcome["found"]


# -- delimited text ---------------------------------------------------------------------------


def _is_doubtful(path: Path, sep: str) -> bool:
    """Whether a file has what DuckDB and pandas read differently.

    These are NUL, blanks beside a quote (DuckDB takes a quote after blanks for the beginning of a
    quoted cell, over the ends of lines), and a lone CR.
    """
    blanks = [blank for blank in (b" ", b"\t") if blank != sep.encode()]
    doubtful = [b"\x00", *(b'"' + blank for blank in blanks), *(blank + b'"' for blank in blanks)]
    if path.stat().st_size < 2:
        return True
    start = True
    for block in blocks(path):
        if (start and block[:1] in b"\r\n") or any(text in block for text in doubtful):
            return True
        if b"\r" in block and _LONE_CR.search(block):
            return True
        start = False
    return False


def _copied(con: Any, path: Path, files: TableFiles, target: Path, progressbar: bool) -> bool:
    query = _copying_query(path, files, target)
    try:
        _run(con, lambda: con.execute(query), f"reading {path.name}", progressbar)
    except duckdb_module().Error:
        return False
    return True


def _copy_in_chunks(path: Path, files: TableFiles, target: Path) -> None:
    import pyarrow

    schema = pyarrow.schema([(name, pyarrow.string()) for name in files.names])
    with parquet_module().ParquetWriter(target, schema) as writer:
        for part in read_csv_parts(path, sep=files.sep, rows=CHUNK):
            cells = only_presence(part[list(files.names)], files.presence)
            writer.write_table(pyarrow.Table.from_pandas(cells, schema, preserve_index=False))


# -- results ----------------------------------------------------------------------------------


def _frame(found: Any, fields: Sequence[Any], parts: TableFiles) -> pd.DataFrame:
    """Distinct rows with the types that pandas would have given to the columns of the file."""
    import pyarrow as pa

    columns = []
    for i, field in enumerate(fields):
        column = found.column(f"c{i}").combine_chunks()
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
    """Say which file is damaged, or that memory did not suffice."""
    duckdb = duckdb_module()
    if isinstance(error, duckdb.OutOfMemoryException):
        return TableError(
            f"The distinct rows do not fit into memory_limit={memory_limit!r}: raise it, or leave "
            f"out columns that tell too many rows apart ({str(error).splitlines()[0]})."
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
# Tables that are read one column at a time, because all columns at once would not fit.


class ColumnFrame(FrameLike):
    """What `ReleasedTable.vertical` needs of a data frame, with columns that are read when asked.

    Parameters
    ----------
    files : TableFiles
        Parquet files.
    """

    def __init__(self, files: TableFiles) -> None:
        files.fields()  # refuses files that do not go together
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
        """Return all columns at once."""
        return pd.DataFrame({name: self[name] for name in self.columns})


@contextmanager
def open_columns(
    reading: Reading,
    memory_limit: str | None,
    temp_directory: str | Path | None,
    *,
    progressbar: bool = True,
) -> Iterator[Any]:
    """Open a source as a data frame, or as a `ColumnFrame` where the engine says so.

    Delimited files are turned into temporary parquet files, which go when the block ends.
    """
    if reading.engine == "pandas":
        yield reading.rows()[0]
    elif reading.engine == "duckdb":
        with open_duckdb(memory_limit, temp_directory) as (con, folder):
            yield ColumnFrame(as_parquet(reading.source, con, folder, progressbar=progressbar))
    else:
        with tempfile.TemporaryDirectory(prefix="anonbayes-", dir=temp_directory) as folder:
            yield ColumnFrame(as_parquet(reading.source, None, Path(folder)))
