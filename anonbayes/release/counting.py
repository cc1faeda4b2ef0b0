"""Counting rows: the distinct rows of frames, however many parts they come in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from pandas.api.types import union_categoricals

from anonbayes.release.columns import factorize_cells
from anonbayes.release.groups import distinct_rows
from anonbayes.release.statistics import tally

__all__ = ["ROWS_PER_PART", "Counted", "count_frame", "joined", "merge", "place_key"]

ROWS_PER_PART = 2**40
"""Place of a row: number of its part (file, partition) times this, plus its number in the part."""


@dataclass(frozen=True, eq=False)
class Counted:
    """Distinct rows in order of appearance.

    Parameters
    ----------
    frame : pandas.DataFrame
        The distinct rows, cells as they were read.
    rows : numpy.ndarray
        How many rows show each.
    first : numpy.ndarray
        Where each appeared first; see `ROWS_PER_PART`.
    """

    frame: pd.DataFrame
    rows: npt.NDArray[np.int64]
    first: npt.NDArray[np.int64]

    def labelled(self, name: Callable[[int, int], str]) -> pd.DataFrame:
        """Return the frame with the place of each row, in words, as its index."""
        part, row = np.divmod(self.first, ROWS_PER_PART)
        pairs = zip(part.tolist(), row.tolist(), strict=True)
        return self.frame.set_axis(pd.Index([name(p, r) for p, r in pairs], dtype=object), axis=0)


def place_key(part: int, start: int, length: int) -> npt.NDArray[np.int64]:
    """Places of consecutive rows of a part."""
    return np.arange(start, start + length, dtype=np.int64) + part * ROWS_PER_PART


def count_frame(
    frame: pd.DataFrame,
    first: npt.NDArray[np.int64],
    rows: npt.NDArray[np.int64] | None = None,
) -> Counted:
    """Distinct rows of a frame.

    Parameters
    ----------
    frame : pandas.DataFrame
        Any cells that a released table may have.
    first : numpy.ndarray
        Place of each row, ascending.
    rows : numpy.ndarray, optional
        How many rows each stands for, 1 by default.

    Examples
    --------
    >>> frame = pd.DataFrame({"Nat": ["M", "J", "M"], "Dis": ["Flu", "Flu", "Flu"]})
    >>> found = count_frame(frame, place_key(0, 0, 3))
    >>> found.frame["Nat"].tolist(), found.rows.tolist(), found.first.tolist()
    (['M', 'J'], [2, 1], [0, 1])
    """
    if not len(frame):
        return Counted(frame, np.zeros(0, dtype=np.int64), first)
    codes = [_codes(frame[name], str(name)) for name in frame.columns]
    inverse, where, _ = distinct_rows(codes)
    found = frame.iloc[where].reset_index(drop=True)
    return Counted(found, tally(inverse, rows, len(where)), first[where])


def merge(parts: Sequence[Counted]) -> Counted:
    """Distinct rows of several parts, given in the order of their rows."""
    filled = [part for part in parts if len(part.rows)] or list(parts[:1])
    if len(filled) == 1:
        return filled[0]
    names = filled[0].frame.columns
    frame = pd.DataFrame({name: joined([p.frame[name] for p in filled]) for name in names})
    return count_frame(
        frame,
        np.concatenate([p.first for p in filled]),
        np.concatenate([p.rows for p in filled]),
    )


def _codes(series: pd.Series, name: str) -> npt.NDArray[np.int64]:
    if isinstance(series.dtype, pd.CategoricalDtype):
        return series.cat.codes.to_numpy().astype(np.int64) + 1
    return factorize_cells(series, name)[0]


def joined(columns: list[pd.Series]) -> pd.Series:
    """One column from parts; where their types differ, the cells are kept as they are."""
    kinds = {column.dtype for column in columns}
    if len(kinds) == 1 or all(isinstance(k, np.dtype) and k.kind in "iuf" for k in kinds):
        return pd.concat(columns, ignore_index=True)
    if all(isinstance(k, pd.CategoricalDtype) and not k.ordered for k in kinds):
        return pd.Series(union_categoricals(columns))
    cells: list[Any] = [cell for column in columns for cell in column.astype(object)]
    return pd.Series(np.fromiter(cells, dtype=object, count=len(cells)))
