"""The files of a table: which they are, and which columns and how many rows they have."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from glob import glob, has_magic
from pathlib import Path
from typing import Any

import pandas as pd

from anonbayes.errors import TableError
from anonbayes.textfiles import check_names, read_csv_names

__all__ = [
    "PRESENT",
    "Source",
    "TableFiles",
    "find_files",
    "frame_of",
    "no_damage",
    "only_presence",
    "open_parquet",
    "parquet_module",
    "read_columns",
]

Source = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
PARQUET = (".parquet", ".pq")
PRESENT = "x"
"""Stands for any filled cell of a column of which only that counts."""


@dataclass(frozen=True)
class TableFiles:
    """Files with the same columns, read one after the other as one table.

    Parameters
    ----------
    paths : tuple of Path
        The files.
    kind : {"parquet", "csv"}
        What they are.
    names : tuple of str
        Columns to read, in the order of the first file.
    sep : str
        Separator of a delimited text.
    presence : frozenset of str
        Columns of a delimited text of which only counts whether a cell is empty; see
        `only_presence`. Millions of identifiers are then no millions of distinct rows.
    """

    paths: tuple[Path, ...]
    kind: str
    names: tuple[str, ...]
    sep: str = ";"
    presence: frozenset[str] = frozenset()

    @cached_property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(path.stat().st_size for path in self.paths)

    @cached_property
    def lengths(self) -> tuple[int, ...]:
        """Number of rows of each parquet file, from its own directory."""
        return tuple(open_parquet(path).metadata.num_rows for path in self.paths)

    def __str__(self) -> str:
        more = f" and {len(self.paths) - 1} more" if len(self.paths) > 1 else ""
        return f"{str(self.paths[0])!r}{more}"

    def place(self, part: int, row: int) -> str:
        """Name a row in a message."""
        return f"{row} of {str(self.paths[part])!r}"

    def fields(self) -> list[Any] | None:
        """Arrow fields of the columns of parquet files, after a check that all files agree.

        Files without rows may have any types. None when a column is empty throughout a file, and
        has no type there: the parts must then be read one by one.
        """
        schemas = [open_parquet(path).schema_arrow for path in self.paths]
        filled = [i for i, n in enumerate(self.lengths) if n] or [0]
        want = schemas[filled[0]]
        alike = True
        for i in filled[1:]:
            for name in self.names:
                a, b = (_plain_type(schema.field(name).type) for schema in (want, schemas[i]))
                if a == b:
                    continue
                if "null" not in (a, b):
                    raise TableError(
                        f"Column {name!r} holds {a} in {str(self.paths[filled[0]])!r} and {b} in "
                        f"{str(self.paths[i])!r}; write all parts with the same types."
                    )
                alike = False
        return [want.field(name) for name in self.names] if alike else None


def find_files(source: Source, *, sep: str = ";", kind: str | None = None) -> TableFiles:
    """Find the files that are meant: one, a list, a pattern such as ``part-*.parquet``, a folder.

    Parameters
    ----------
    source : path, pattern, or several of them
        In a folder, the parquet files in it are meant. Patterns and folders are read in
        alphabetical order.
    sep : str
        Separator of a delimited text.
    kind : {"parquet", "csv"}, optional
        What the files must be; by default it is seen from their beginning.
    """
    several = [source] if isinstance(source, str | os.PathLike) else list(source)
    paths = tuple(path for item in several for path in _paths(item))
    if not paths:
        raise TableError("No file is named; give a path, a pattern, or a list of them.")
    kinds = [_kind(path) if kind is None else kind for path in paths]
    if len(set(kinds)) > 1:
        odd = kinds.index(next(k for k in kinds if k != kinds[0]))
        raise TableError(
            f"{str(paths[0])!r} is {kinds[0]} and {str(paths[odd])!r} is {kinds[odd]}; read files "
            "of one kind at a time."
        )
    names = [_names(path, kinds[0], sep) for path in paths]
    check_names(names[0], str(paths[0]))
    for path, found in zip(paths[1:], names[1:], strict=True):
        if set(found) != set(names[0]) or len(found) != len(names[0]):
            odd_name = next(iter(set(found) ^ set(names[0])))
            has, lacks = (path, paths[0]) if odd_name in found else (paths[0], path)
            raise TableError(
                f"Column {odd_name!r} is in {str(has)!r} but not in {str(lacks)!r}; all files of a "
                "table must have the same columns."
            )
    return TableFiles(paths, kinds[0], tuple(names[0]), sep)


def parquet_module() -> Any:
    """``pyarrow.parquet``, or an error that says how to get it."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise TableError(
            "Parquet files are read with pyarrow; install it with: pip install 'anonbayes[big]'"
        ) from None
    return pyarrow.parquet


def _paths(item: str | os.PathLike[str]) -> list[Path]:
    path = Path(item)
    if path.is_dir():
        found = sorted(p for p in path.iterdir() if p.suffix in PARQUET)
        if not found:
            raise TableError(f"The folder {str(path)!r} has no parquet file.")
        return found
    if path.exists() or not has_magic(os.fspath(item)):
        if not path.exists():
            raise TableError(f"There is no file {str(path)!r}.")
        return [path]
    found = sorted(Path(p) for p in glob(os.fspath(item), recursive=True))
    if not found:
        raise TableError(f"No file fits the pattern {os.fspath(item)!r}.")
    return found


def _kind(path: Path) -> str:
    try:
        with path.open("rb") as file:
            begins = file.read(4)
    except OSError as error:
        raise TableError(f"{str(path)!r} cannot be read: {error.strerror or error}.") from None
    return "parquet" if begins == b"PAR1" or path.suffix in PARQUET else "csv"


def _names(path: Path, kind: str, sep: str) -> list[str]:
    if kind == "csv":
        return read_csv_names(path, sep=sep)
    with no_damage(path):
        schema = open_parquet(path).schema_arrow
        about = schema.pandas_metadata or {}
        # A frame's index, which pandas writes along, is no column of the table.
        index = {n for n in about.get("index_columns", []) if type(n) is str}
        return [name for name in schema.names if name not in index]


def open_parquet(path: Path, **how: Any) -> Any:
    """Open a parquet file, or say that it is none."""
    module = parquet_module()
    with no_damage(path, "is no readable parquet file"):
        # Checksums are verified where the program that wrote the file has stored them.
        return module.ParquetFile(path, page_checksum_verification=True, **how)


def read_columns(path: Path, names: Iterable[str]) -> pd.DataFrame:
    """Columns of a parquet file, with the same cells whatever program wrote it."""
    wanted, file = list(names), open_parquet(path)
    with no_damage(path):
        return frame_of(file.read(columns=wanted))[wanted]


def only_presence(frame: pd.DataFrame, names: Iterable[str]) -> pd.DataFrame:
    """Replace the filled cells of some columns by `PRESENT`; empty ones stay the empty text.

    Examples
    --------
    >>> only_presence(pd.DataFrame({"name": ["Ann", ""], "sex": ["f", "m"]}), ["name"])["name"].tolist()
    ['x', '']
    """  # noqa: E501
    return frame.assign(**{name: frame[name].where(frame[name] == "", PRESENT) for name in names})


def frame_of(table: Any) -> pd.DataFrame:
    """Data frame of an Arrow table."""
    return pd.DataFrame(table.to_pandas(ignore_metadata=True))


@contextmanager
def no_damage(path: Path, finding: str = "is damaged") -> Iterator[None]:
    """Turn what goes wrong while a parquet file is read into an error that names it."""
    parquet_module()  # or how to get it
    import pyarrow

    try:
        yield
    except TableError:
        raise
    except (pyarrow.ArrowException, OSError, ValueError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise TableError(f"{str(path)!r} {finding}: {reason}.") from None


def _plain_type(kind: Any) -> str:
    """Type of the values, whether they are stored through a dictionary or not."""
    import pyarrow.types as types

    plain = str(kind.value_type if types.is_dictionary(kind) else kind)
    return "string" if plain == "large_string" else plain
