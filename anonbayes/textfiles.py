"""Reading delimited text files with errors that name the file and the place."""

from __future__ import annotations

import csv
from pathlib import Path

import pandas as pd

from anonbayes.errors import TableError

__all__ = ["read_csv_text"]


def read_csv_text(path: str | Path, *, sep: str = ";", header: bool = True) -> pd.DataFrame:
    """Read a UTF-8 delimited file with every cell as text: nothing is guessed or dropped.

    Empty cells stay the empty text; short or long lines, a wrong encoding, duplicate column
    names and files without rows are errors.
    """
    file = Path(path)
    try:
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
    except FileNotFoundError:
        raise TableError(f"There is no file {str(file)!r}.") from None
    except IsADirectoryError:
        raise TableError(f"{str(file)!r} is a directory, not a file.") from None
    except UnicodeDecodeError as error:
        raise TableError(
            f"{str(file)!r} is not UTF-8 text (byte {error.start}); save it as UTF-8 first."
        ) from None
    except pd.errors.EmptyDataError:
        raise TableError(f"{str(file)!r} is empty.") from None
    except (pd.errors.ParserError, csv.Error) as error:
        raise TableError(f"{str(file)!r} is not a table separated by {sep!r}: {error}.") from None
    if not header:
        return frame
    names = frame.iloc[0].tolist()
    check_names(names, str(file))
    body = frame.iloc[1:].reset_index(drop=True)
    body.columns = pd.Index(names)
    if body.empty:
        raise TableError(f"{str(file)!r} has a header but no rows.")
    return body


def check_names(names: list[str], where: str) -> None:
    """Raise `TableError` when a column name is empty or stands twice."""
    for i, name in enumerate(names):
        if name in names[:i]:
            raise TableError(f"{where}: column {name!r} stands twice; rename one of them.")
        if name is None or name != name or name == "":
            raise TableError(f"{where}: column {i + 1} has no name.")
