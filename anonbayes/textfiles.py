"""Reading delimited text files with errors that name the file and the place."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from anonbayes.errors import TableError

__all__ = ["check_names", "read_csv_text"]

BLOCK, NEWLINE = 1 << 20, b"\n"


def read_csv_text(path: str | Path, *, sep: str = ";", header: bool = True) -> pd.DataFrame:
    """Read a UTF-8 delimited file with every cell as text: nothing is guessed or dropped.

    Empty cells stay the empty text and blank lines are skipped; short or long lines, a wrong
    encoding, duplicate column names and files without rows are errors.
    """
    file = Path(path)
    if not isinstance(sep, str) or len(sep) != 1:
        raise TableError(f"sep={sep!r} must be a single character, for example ';' or ','.")
    try:
        _refuse_zeros(file)
        frame = pd.read_csv(
            file,
            sep=sep,
            header=None,
            dtype=str,
            keep_default_na=False,
            na_filter=False,
            encoding="utf-8-sig",
            skip_blank_lines=True,
        )
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
    if (frame.iloc[:, -1] == "").any():  # pandas fills short lines with empty cells
        _check_lengths(file, sep, frame.shape[1])
    if not header:
        return frame
    names = frame.iloc[0].tolist()
    check_names(names, str(file))
    body = frame.iloc[1:].reset_index(drop=True)
    body.columns = pd.Index(names)
    if body.empty:
        raise TableError(f"{str(file)!r} has a header but no rows.")
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


def _refuse_zeros(file: Path) -> None:
    """Raise `TableError` if the file has zero bytes, at which pandas ends a cell in silence."""
    line = 1
    with file.open("rb") as blocks:
        while block := blocks.read(BLOCK):
            place = block.find(0)
            if place >= 0:
                raise TableError(
                    f"{str(file)!r}, line {line + block[:place].count(NEWLINE)}: a zero byte, "
                    "which no text has; the file is damaged or not UTF-8 text. Get a fresh copy, "
                    "or save it as UTF-8."
                )
            line += block.count(NEWLINE)


def _bad_line(file: Path) -> int:
    data = file.read_bytes()
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return data.count(b"\n", 0, error.start) + 1
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
