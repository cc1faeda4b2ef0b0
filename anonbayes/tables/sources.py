"""The files of a table, and the distinct rows in its parts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from glob import glob, has_magic
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np
import pandas as pd
from pandas.api.types import union_categoricals
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

from anonbayes.arrays import Ints
from anonbayes.errors import TableError
from anonbayes.figures import can_show_bars
from anonbayes.io.text import (
    PARQUET,
    check_names,
    is_binary,
    read_csv_names,
    read_csv_text,
    separator,
)
from anonbayes.tables.evidence import factorize_cells
from anonbayes.tables.groups import distinct_rows, tally

if TYPE_CHECKING:
    import pyarrow

# -------------------------------------------------------------------------------------------------
# Progress of long reads, on a terminal only.


@contextmanager
def reading(label: str, *, progressbar: bool) -> Iterator[Callable[[float], None]]:
    """Show a progress bar while a block runs; the block reports the share that is done."""
    console = Console(stderr=True)
    shown = console.is_terminal or (console.is_jupyter and can_show_bars())
    hidden = not (progressbar and shown)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=console, disable=hidden, transient=True
    ) as progress:
        task = progress.add_task(label, total=1.0)
        yield lambda share: progress.update(task, completed=share)


# -------------------------------------------------------------------------------------------------
# Counting rows: the distinct rows of frames in one or more parts.

ROWS_PER_PART = 2**40
"""Position of a row: the number of its file or partition times this, plus its row number there."""


@dataclass(frozen=True, eq=False)
class Counted:
    """Distinct rows in order of appearance."""

    frame: pd.DataFrame
    rows: Ints  # number of rows of each
    first: Ints  # position of its first appearance; see `ROWS_PER_PART`

    def labelled(self, name: Callable[[int, int], str]) -> pd.DataFrame:
        """Return the frame, indexed by a description of where each row is."""
        part, row = np.divmod(self.first, ROWS_PER_PART)
        pairs = zip(part.tolist(), row.tolist(), strict=True)
        return self.frame.set_axis(pd.Index([name(p, r) for p, r in pairs], dtype=object), axis=0)


def place_key(part: int, start: int, length: int) -> Ints:
    """Positions of consecutive rows of a part."""
    return np.arange(start, start + length, dtype=np.int64) + part * ROWS_PER_PART


def count_frame(frame: pd.DataFrame, first: Ints, rows: Ints | None = None) -> Counted:
    """Return the distinct rows of a frame."""
    if not len(frame):
        return Counted(frame, np.zeros(0, dtype=np.int64), first)
    codes = [_codes(frame[name], str(name)) for name in frame.columns]
    inverse, where, _ = distinct_rows(codes)
    distinct = frame.iloc[where].reset_index(drop=True)
    return Counted(distinct, tally(inverse, rows, len(where)), first[where])


def merge(parts: Sequence[Counted]) -> Counted:
    """Return the distinct rows of several parts, given in the order of their rows."""
    filled = [part for part in parts if len(part.rows)] or list(parts[:1])
    if len(filled) == 1:
        return filled[0]
    names = filled[0].frame.columns
    frame = pd.DataFrame({name: joined([p.frame[name] for p in filled]) for name in names})
    return count_frame(
        frame, np.concatenate([p.first for p in filled]), np.concatenate([p.rows for p in filled])
    )


def _codes(series: pd.Series, name: str) -> Ints:
    if isinstance(series.dtype, pd.CategoricalDtype):
        return series.cat.codes.to_numpy().astype(np.int64) + 1
    return factorize_cells(series, name)[0]


def joined(columns: list[pd.Series]) -> pd.Series:
    """Concatenate the parts of a column; if their types differ, cells are kept as they are."""
    kinds = {column.dtype for column in columns}
    if len(kinds) == 1 or all(isinstance(k, np.dtype) and k.kind in "iuf" for k in kinds):
        return pd.concat(columns, ignore_index=True)
    if all(isinstance(k, pd.CategoricalDtype) and not k.ordered for k in kinds):
        return pd.Series(union_categoricals(columns))
    cells: list[object] = [cell for column in columns for cell in column.astype(object)]
    return pd.Series(np.fromiter(cells, dtype=object, count=len(cells)))


# -------------------------------------------------------------------------------------------------
# The files of a table, their columns and their numbers of rows.

Source = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]


class TextFormat(TypedDict):
    """Format of delimited text."""

    sep: str
    encoding: str
    decimal: str


class FrameLike:
    """Base of stand-ins for a data frame, with ``columns``, ``frame[name]`` and a size."""


@dataclass(frozen=True)
class TableFiles:
    """Files with the same columns, read one after the other as one table."""

    paths: tuple[Path, ...]
    kind: str  # parquet, csv, or other: Excel, SPSS, Stata
    names: tuple[str, ...]
    sep: str = ";"
    encoding: str = "utf-8"
    decimal: str = "."

    @property
    def is_plain(self) -> bool:
        """Whether engines other than pandas can read them."""
        plain_text = self.encoding == "utf-8" and self.decimal == "."
        return self.kind == "parquet" or (self.kind == "csv" and plain_text)

    @cached_property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(path.stat().st_size for path in self.paths)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Number of rows of each parquet file, from its metadata."""
        return tuple(open_parquet(path).metadata.num_rows for path in self.paths)

    def __str__(self) -> str:
        more = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        return f"{str(self.paths[0])!r}{more}"

    def place(self, part: int, row: int) -> str:
        """Describe where a row is, for messages."""
        return f"{row} of {str(self.paths[part])!r}"

    def fields(self) -> list[pyarrow.Field]:
        """Arrow fields of the columns of parquet files, after checking that all files agree.

        Types are not compared where a file has no rows or the column is entirely empty.
        """
        schemas = {p: open_parquet(p).schema_arrow for p in self.paths}
        filled = [p for p, n in zip(self.paths, self.lengths, strict=True) if n] or self.paths[:1]
        out = []
        for name in self.names:
            first, want = filled[0], schemas[filled[0]].field(name)
            for path in filled[1:]:
                field = schemas[path].field(name)
                a, b = _plain_type(want.type), _plain_type(field.type)
                if a == "null":
                    first, want = path, field
                elif b not in (a, "null"):
                    raise TableError(
                        f"Column {name!r} has type {a} in {str(first)!r} and {b} in {str(path)!r}; "
                        "write all parts with the same types."
                    )
            out.append(want)
        return out


def find_files(
    source: Source,
    *,
    sep: str = ";",
    kind: str | None = None,
    encoding: str = "utf-8",
    decimal: str = ".",
) -> TableFiles:
    """Find the files of a source: one, several, a pattern, or the parquet files of a folder."""
    several = [source] if isinstance(source, str | os.PathLike) else list(source)
    paths = tuple(path for item in several for path in _paths(item))
    if not paths:
        raise TableError("No file was given; pass a path, a pattern, or a list of them.")
    kinds = [_kind(path) if kind is None else kind for path in paths]
    if len(set(kinds)) > 1:
        odd = kinds.index(next(k for k in kinds if k != kinds[0]))
        raise TableError(
            f"{str(paths[0])!r} is {kinds[0]} and {str(paths[odd])!r} is {kinds[odd]}; read files "
            "of one kind at a time."
        )
    if kinds[0] == "csv":
        sep = separator(paths[0], sep, encoding=encoding)
    names = [_names(path, kinds[0], sep, encoding) for path in paths]
    check_names(names[0], str(paths[0]))
    for path, own in zip(paths[1:], names[1:], strict=True):
        if set(own) != set(names[0]) or len(own) != len(names[0]):
            odd_name = next(iter(set(own) ^ set(names[0])))
            has, lacks = (path, paths[0]) if odd_name in own else (paths[0], path)
            raise TableError(
                f"Column {odd_name!r} is in {str(has)!r} but not in {str(lacks)!r}; all files of a "
                "table must have the same columns."
            )
    return TableFiles(paths, kinds[0], tuple(names[0]), sep, encoding=encoding, decimal=decimal)


def all_rows(files: TableFiles) -> tuple[pd.DataFrame, Ints]:
    """Read all rows of the files into memory, and the position of each."""
    names = list(files.names)
    if files.kind != "parquet":
        frames = [
            read_csv_text(path, sep=files.sep, encoding=files.encoding, decimal=files.decimal)
            for path in files.paths
        ]
        frames = [frame[names] for frame in frames]
    else:
        files.fields()  # refuses files with different columns
        frames = [read_columns(path, names) for path in files.paths]
    first = [place_key(i, 0, len(frame)) for i, frame in enumerate(frames)]
    filled = [frame for frame in frames if len(frame)] or frames[:1]
    if len(filled) == 1:
        return filled[0], np.concatenate(first)
    columns = {name: joined([frame[name] for frame in filled]) for name in names}
    return pd.DataFrame(columns), np.concatenate(first)


def parquet_module() -> Any:
    """Import ``pyarrow.parquet``, or raise an error that says how to install it."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise TableError(
            "Parquet files need pyarrow; install it with: pip install 'anonbayes[big]'"
        ) from None
    return pyarrow.parquet


def _paths(item: str | os.PathLike[str]) -> list[Path]:
    path = Path(item)
    if path.is_dir():
        inside = sorted(p for p in path.iterdir() if p.suffix in PARQUET)
        if not inside:
            raise TableError(f"The folder {str(path)!r} contains no parquet file.")
        return inside
    if path.exists() or not has_magic(os.fspath(item)):
        if not path.exists():
            raise TableError(f"There is no file {str(path)!r}.")
        return [path]
    fitting = sorted(Path(p) for p in glob(os.fspath(item), recursive=True))
    if not fitting:
        raise TableError(f"No file matches the pattern {os.fspath(item)!r}.")
    return fitting


def _kind(path: Path) -> str:
    try:
        with path.open("rb") as file:
            begins = file.read(4)
    except OSError as error:
        raise TableError(f"{str(path)!r} cannot be read: {error.strerror or error}.") from None
    if begins == b"PAR1" or path.suffix in PARQUET:
        return "parquet"
    return "other" if is_binary(path) else "csv"


def _names(path: Path, kind: str, sep: str, encoding: str) -> list[str]:
    if kind != "parquet":
        return read_csv_names(path, sep=sep, encoding=encoding)
    with no_damage(path):
        schema = open_parquet(path).schema_arrow
        about = schema.pandas_metadata or {}
        # The index of a frame, which pandas also writes, is not a column of the table.
        index = {n for n in about.get("index_columns", []) if type(n) is str}
        return [name for name in schema.names if name not in index]


def open_parquet(path: Path, **how: Any) -> Any:
    """Open a parquet file, or raise an error that it is not one."""
    module = parquet_module()
    with no_damage(path, "is not a readable parquet file"):
        # Checksums are verified if the program that wrote the file stored them.
        return module.ParquetFile(path, page_checksum_verification=True, **how)


def read_columns(path: Path, names: Iterable[str]) -> pd.DataFrame:
    """Read columns of a parquet file, with equal cells whatever program wrote it."""
    wanted, file = list(names), open_parquet(path)
    with no_damage(path):
        return frame_of(file.read(columns=wanted))[wanted]


def frame_of(table: pyarrow.Table) -> pd.DataFrame:
    """Convert an Arrow table to a data frame."""
    return pd.DataFrame(table.to_pandas(ignore_metadata=True))


@contextmanager
def no_damage(path: Path, finding: str = "is damaged") -> Iterator[None]:
    """Turn errors while reading a parquet file into one that names it."""
    parquet_module()  # raises an error if it is not installed
    import pyarrow

    try:
        yield
    except TableError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise TableError(f"{str(path)!r} {finding}: {reason}.") from None


def _plain_type(kind: pyarrow.DataType) -> str:
    """Type of the values, whether or not they are dictionary-encoded."""
    import pyarrow.types as types

    plain = str(kind.value_type if types.is_dictionary(kind) else kind)
    return "string" if plain == "large_string" else plain
