"""Reading columns of the files that scenarios name."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from anonbayes.domains import numbers_of
from anonbayes.errors import AnonbayesError, nearest
from anonbayes.textfiles import read_csv_text

__all__ = ["read_named", "with_numbers"]


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


def with_numbers(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame of texts in which columns that spell numbers are numbers.

    Codes such as 007 stay texts.

    Examples
    --------
    >>> frame = with_numbers(pd.DataFrame({"age": ["30", "41"], "zip": ["04104", "1"]}))
    >>> int(frame["age"].sum()), frame["zip"].tolist()
    (71, ['04104', '1'])
    """
    out = frame.copy()
    for name in frame.columns:
        texts = frame[name].unique().tolist()
        numbers = numbers_of(texts)
        if numbers is not None:
            out[name] = frame[name].map(dict(zip(texts, numbers, strict=True)))
    return out
