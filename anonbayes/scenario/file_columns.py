"""Reading columns of the files that scenarios name."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from anonbayes.domains import numbers_of
from anonbayes.errors import AnonbayesError, TableError, nearest, one_of
from anonbayes.io.text import read_csv_text
from anonbayes.risk.assessment import ROW

__all__ = ["MISSING", "filled", "read_named", "read_people", "settle_missing", "with_numbers"]
MISSING = ("error", "category", "drop")
"""What an empty cell of a table in clear can mean."""
LABEL = "missing"


def read_named(file: Path, columns: dict[str, str], *, sep: str) -> pd.DataFrame:
    r"""Read a file and return the columns that keys of the scenario name, as texts.

    Parameters
    ----------
    file : path
        Delimited UTF-8 file with a header line.
    columns : dict of str to str
        Column by key of the scenario, for messages.
    sep : str
        Separator.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.csv"
    >>> _ = file.write_text("x;y\n1;2\n")
    >>> read_named(file, {"reports.column": "y"}, sep=";")["y"].tolist()
    ['2']
    """
    frame = read_csv_text(file, sep=sep)
    for key, column in columns.items():
        if column not in frame.columns:
            raise AnonbayesError(
                f"{key} = {column!r} is no column of {file.name!r}. "
                f"{nearest(column, frame.columns)}"
            )
    return frame[list(columns.values())]


def read_people(
    file: Path, *, sep: str, missing: str = "error", option: str = "missing"
) -> pd.DataFrame:
    r"""Read a table in clear; columns that spell numbers become numbers.

    Rows keep the number that they have in the file.

    Parameters
    ----------
    file : path
        Delimited UTF-8 file with a header line.
    sep : str
        Separator.
    missing : {"error", "category", "drop"}
        What empty cells mean: a mistake, a value of their own, or that their rows are left out.
    option : str
        What the user calls `missing`, for messages.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "a.csv"
    >>> _ = file.write_text("age;ill\n30;flu\n;cold\n")
    >>> read_people(file, sep=";", missing="category")["age"].tolist()
    [30, 'missing']
    """
    one_of(option, missing, MISSING)
    frame = read_csv_text(file, sep=sep)
    return with_numbers(settle_missing(frame, file, missing=missing, option=option), missing)


def settle_missing(
    frame: pd.DataFrame,
    file: Path,
    *,
    missing: str,
    option: str,
    people: pd.Series | None = None,
) -> pd.DataFrame:
    """Give empty cells of a frame of texts their meaning; see `read_people`.

    Parameters
    ----------
    frame : pandas.DataFrame
        Labelled by numbers of rows.
    file, missing, option
        As in `read_people`.
    people : pandas.Series, optional
        How many rows of the file each stands for, 1 by default.
    """
    if missing == "category":
        return frame.replace("", LABEL)
    if missing == "drop":
        whole = (frame != "").all(axis=1)
        if whole.all():
            return frame
        if not whole.any():
            raise TableError(f"{str(file)!r}: every row has an empty cell, so none is left.")
        return frame[whole].rename_axis(ROW)
    choices = " or ".join(repr(choice) for choice in MISSING[1:])
    for name in frame.columns:
        filled(frame[name], advice=f"Or say what they mean: {option} = {choices}.", people=people)
    return frame


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


def with_numbers(frame: pd.DataFrame, missing: str = "error") -> pd.DataFrame:
    """Return a frame of texts in which columns that spell numbers are numbers.

    Codes such as 007 stay texts, and so does the label of cells that are `missing` by category.

    Examples
    --------
    >>> frame = with_numbers(pd.DataFrame({"age": ["30", "41"], "zip": ["04104", "1"]}))
    >>> int(frame["age"].sum()), frame["zip"].tolist()
    (71, ['04104', '1'])
    """
    out, beside = frame.copy(), LABEL if missing == "category" else None
    for name in frame.columns:
        texts = [text for text in frame[name].unique().tolist() if text != beside]
        numbers = numbers_of(texts)
        if numbers is not None:
            meaning: dict[str, object] = dict(zip(texts, numbers, strict=True))
            if beside is not None:
                meaning[beside] = beside
            out[name] = frame[name].map(meaning)
    return out
