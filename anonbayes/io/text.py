"""Reading delimited text files with errors that name the file and the place."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from anonbayes.errors import AnonbayesError, TableError, nearest

__all__ = [
    "ROW",
    "blocks",
    "check_names",
    "column_of",
    "filled",
    "parse_values",
    "read_columns",
    "read_csv_names",
    "read_csv_parts",
    "read_csv_text",
]
# Every cell is text: nothing is guessed or dropped.
_AS_TEXT: dict[str, Any] = {
    "header": None,
    "dtype": str,
    "keep_default_na": False,
    "na_filter": False,
    "encoding": "utf-8-sig",
    "skip_blank_lines": True,
}
_BROKEN_END = re.compile(rb"\r[ \t]")
ROW = "row"
"""Name of an index of whole numbers that are no identifiers but numbers of rows: reports show them.

Other labels of a cleartext may be names of people."""


def read_csv_text(path: str | Path, *, sep: str = ";", header: bool = True) -> pd.DataFrame:
    """Read a UTF-8 delimited file with every cell as text: nothing is guessed or dropped.

    Empty cells stay the empty text and blank lines are skipped; short or long lines, a wrong
    encoding, duplicate column names and files without rows are errors.
    """
    if not isinstance(path, str | Path):
        raise TableError(f"{path!r} is no file: give its path.")
    file = Path(path)
    with _clear_errors(file, sep):
        _check_bytes(file)
        frame = pd.read_csv(file, sep=sep, **_AS_TEXT)
    if (frame.iloc[:, -1] == "").any():  # pandas fills short lines with empty cells
        _check_lengths(file, sep, frame.shape[1])
    if not header:
        return frame
    body = _named(frame, frame.iloc[0].tolist(), file, skip=1)
    if body.empty:
        raise TableError(f"{str(file)!r} has a header but no rows.")
    return body


def read_csv_parts(path: str | Path, *, sep: str = ";", rows: int) -> Iterator[pd.DataFrame]:
    """Read a file with a header as `read_csv_text` does, so many rows at a time.

    The index numbers the rows from 0 through all parts. The last part may have no rows.
    """
    file = Path(path)
    names: list[str] = []
    seen, checked = 0, False
    with _clear_errors(file, sep):
        _check_bytes(file)
    with _clear_errors(file, sep), pd.read_csv(file, sep=sep, chunksize=rows, **_AS_TEXT) as parts:
        for part in parts:
            if not checked and (part.iloc[:, -1] == "").any():
                _check_lengths(file, sep, part.shape[1])
                checked = True
            first = not names
            names = names or part.iloc[0].tolist()
            body = _named(part, names, file, skip=int(first))
            body.index = pd.RangeIndex(seen, seen + len(body))
            seen += len(body)
            yield body
    if not seen:
        raise TableError(f"{str(file)!r} has a header but no rows.")


def read_csv_names(path: str | Path, *, sep: str = ";") -> list[str]:
    """Column names of a file, from its first line."""
    file = Path(path)
    with _clear_errors(file, sep):
        names: list[str] = pd.read_csv(file, sep=sep, nrows=1, **_AS_TEXT).iloc[0].tolist()
    check_names(names, str(file))
    return names


@contextmanager
def _clear_errors(file: Path, sep: str) -> Iterator[None]:
    if not isinstance(sep, str) or len(sep) != 1:
        raise TableError(f"sep={sep!r} must be a single character, for example ';' or ','.")
    try:
        yield
    except TableError:
        raise
    except FileNotFoundError:
        raise TableError(f"There is no file {str(file)!r}.") from None
    except OSError as error:
        raise TableError(f"{str(file)!r} cannot be read: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise TableError(
            f"{str(file)!r} is not UTF-8 text (line {_bad_line(file)}); save it as UTF-8 first."
        ) from None
    except pd.errors.EmptyDataError:
        raise TableError(f"{str(file)!r} is empty.") from None
    except (pd.errors.ParserError, ValueError) as error:
        reason = str(error).removeprefix("Error tokenizing data. C error: ").strip().rstrip(".")
        raise TableError(f"{str(file)!r} is not a table separated by {sep!r}: {reason}.") from None


def _named(frame: pd.DataFrame, names: list[str], file: Path, *, skip: int) -> pd.DataFrame:
    check_names(names, str(file))
    body = frame.iloc[skip:].reset_index(drop=True)
    body.columns = pd.Index(names)
    return body


def check_names(names: Sequence[str], where: str) -> None:
    """Raise `TableError` when a column name is no text, is empty, or stands twice."""
    seen: set[str] = set()
    for i, name in enumerate(names, start=1):
        if not isinstance(name, str):
            raise TableError(f"{where}: column name {name!r} is not text; rename it.")
        if not name.strip():
            raise TableError(f"{where}: column {i} has no name.")
        if name in seen:
            raise TableError(f"{where}: column {name!r} stands twice; rename one of them.")
        seen.add(name)


def _check_bytes(file: Path) -> None:
    """Refuse bytes of which pandas makes something else in silence.

    At a zero byte it ends the cell; of a lone carriage return before a blank it makes thousands of
    rows.
    """
    lines = 0
    for block in blocks(file):
        if (zero := block.find(0)) >= 0:
            line = lines + block.count(b"\n", 0, zero) + 1
            raise TableError(
                f"{str(file)!r}, line {line}: a zero byte, which no text has; the file is damaged "
                "or not UTF-8 text. Get a fresh copy, or save it as UTF-8."
            )
        if b"\r" in block and (found := _BROKEN_END.search(block)):
            line = lines + block.count(b"\n", 0, found.start()) + 1
            raise TableError(
                f"{str(file)!r}, line {line}: a carriage return stands before a blank; save the "
                "file with usual line ends."
            )
        lines += block.count(b"\n") - block.endswith(b"\n")


def blocks(file: Path, size: int = 2**24) -> Iterator[bytes]:
    """Bytes of a file; each block begins with the last byte of the one before."""
    with file.open("rb") as opened:
        last = b""
        while block := opened.read(size):
            yield last + block
            last = block[-1:]


def _bad_line(file: Path) -> int:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                line.decode("utf-8")
            except UnicodeDecodeError:
                return number
    return 1


def _check_lengths(file: Path, sep: str, width: int) -> None:
    with file.open(encoding="utf-8-sig", newline="") as lines:
        reader = csv.reader(lines, delimiter=sep)
        for cells in reader:
            if len(cells) < width and "".join(cells).strip():
                raise TableError(
                    f"{str(file)!r}, line {reader.line_num}: {len(cells)} cells where "
                    f"{width} are expected."
                )


# -------------------------------------------------------------------------------------------------
# Columns that a user names.


def read_columns(file: Path, columns: Mapping[str, str], *, sep: str) -> pd.DataFrame:
    r"""Read a file and return the columns that options, or keys, name, as texts.

    Parameters
    ----------
    file : path
        Delimited UTF-8 file with a header line.
    columns : mapping of str to str
        Column by what names it, for messages.
    sep : str
        Separator.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.csv"
    >>> _ = file.write_text("x;y\n1;2\n")
    >>> read_columns(file, {"--column": "y"}, sep=";")["y"].tolist()
    ['2']
    """
    frame = read_csv_text(file, sep=sep)
    for name, column in columns.items():
        column_of(frame, column, file=file, name=name)
    return frame[list(columns.values())]


def column_of(frame: pd.DataFrame, column: str, *, file: Path, name: str) -> pd.Series:
    """Return a column of a file; raise `TableError` with the nearest name if there is none."""
    if column not in frame.columns:
        equals = " " if name.startswith("--") else " = "
        raise TableError(
            f"{name}{equals}{column!r} is no column of {file.name!r}. "
            f"{nearest(column, frame.columns)}"
        )
    return frame[column]


def filled(column: pd.Series, *, advice: str = "", people: pd.Series | None = None) -> pd.Series:
    """Return the column; raise `TableError` when a cell of it is empty.

    The error names the label of the first, and counts those like it, of which each may stand for
    several `people`.

    Examples
    --------
    >>> filled(pd.Series(["a", ""], name="x"))
    Traceback (most recent call last):
    ...
    anonbayes.errors.TableError: Column 'x', row 1: the cell is empty (rows like it: 1). Fill it.
    """
    empty = (column == "").to_numpy()
    if empty.any():
        n = int(empty.sum() if people is None else people[empty].sum())
        row = column.index[int(empty.argmax())]
        raise TableError(
            f"Column {column.name!r}, row {row}: the cell is empty (rows like it: {n}). Fill it. "
            f"{advice}".rstrip()
        )
    return column


# -------------------------------------------------------------------------------------------------
# Lists of values in one text: ``a,b,c``, ``0-99``, or ``@file``.

RANGE = re.compile(r"(-?\d+)-(-?\d+)")


def parse_values(text: str, *, option: str = "--values") -> Sequence[str | int]:
    """Return the values that a text lists.

    Parameters
    ----------
    text : str
        Values between commas; two whole numbers with a hyphen between them, both included; or the
        name of a UTF-8 file with one value per line after an ``@``.
    option : str
        Whose text it is, for messages.

    Examples
    --------
    >>> parse_values("flu, cold"), parse_values("18-20")
    (['flu', 'cold'], range(18, 21))
    """
    if text.startswith("@"):
        values = _lines(Path(text[1:]), option)
    elif ends := RANGE.fullmatch(text.strip()):
        low, high = int(ends[1]), int(ends[2])
        if low > high:
            raise AnonbayesError(f"{option} {text!r}: the first number is larger than the second.")
        return range(low, high + 1)
    else:
        values = [value.strip() for value in text.split(",")]
    if "" in values:
        raise AnonbayesError(f"{option} {text!r} has an empty value.")
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise AnonbayesError(f"{option} {text!r} has {value!r} twice.")
        seen.add(value)
    return values


def _lines(file: Path, option: str) -> list[str]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise AnonbayesError(f"{option} @{file} cannot be read: {error}.") from None
    return [line.strip() for line in text.splitlines() if line.strip()]
