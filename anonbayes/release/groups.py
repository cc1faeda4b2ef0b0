"""Groups: which rows of a released table cannot be told apart."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from anonbayes.domains import Domain, factorize, is_missing, object_array, plain, sorted_values
from anonbayes.errors import TableError
from anonbayes.release.columns import Column

__all__ = [
    "derived_groups",
    "distinct_rows",
    "given_groups",
    "matched_groups",
    "rows_by_group",
    "suppressed_rows",
]


def distinct_rows(
    columns: Sequence[npt.NDArray[Any]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Distinct rows of several code columns.

    Returns
    -------
    inverse, first, count
        For each row its distinct row, numbered by first appearance; the first row of each; and
        how often it occurs.

    Examples
    --------
    >>> import numpy as np
    >>> inverse, first, count = distinct_rows([np.array([1, 0, 1]), np.array([2, 2, 2])])
    >>> inverse.tolist(), first.tolist(), count.tolist()
    ([0, 1, 0], [0, 1], [2, 1])
    """
    key = np.zeros(len(columns[0]), dtype=np.int64)
    size = 1
    for column in columns:
        radix = int(column.max(initial=0)) + 1
        if size > 2**62 // radix:  # the mixed-radix number would overflow: compress it first
            key, distinct = pd.factorize(key)
            size = len(distinct)
        key = key * radix + column
        size *= radix
    inverse, distinct = pd.factorize(key)
    count = np.bincount(inverse, minlength=len(distinct))
    first = np.empty(len(distinct), dtype=np.int64)
    first[inverse[::-1]] = np.arange(len(inverse))[::-1]
    return inverse, first, count


def suppressed_rows(
    frame: pd.DataFrame, columns: Mapping[str, Column], unknown: Collection[str]
) -> npt.NDArray[np.bool_]:
    """Mark the rows that show ``*`` in every nonsensitive column.

    In the columns `unknown` a missing cell shows as little as a star.
    """
    rows = np.arange(len(frame))
    for name, column in columns.items():
        if "*" in column.domain or not column.evidence.is_hard:
            rows = rows[:0]
        whole = column.evidence.sizes == len(column.domain)
        rows = rows[whole[column.codes[rows]]]
        cells = frame[name].iloc[rows]
        starred = [
            (isinstance(cell, str) and cell.strip() == "*")
            or (name in unknown and is_missing(cell))
            for cell in cells
        ]
        rows = rows[np.array(starred, dtype=bool)]
    hidden = np.zeros(len(frame), dtype=bool)
    hidden[rows] = True
    return hidden


def derived_groups(
    codes: Sequence[npt.NDArray[Any]], hidden: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int32], pd.Index]:
    """Groups of rows with equal cells, numbered by first appearance; -1 for suppressed rows."""
    inverse, first, _ = distinct_rows([column[~hidden] for column in codes])
    groups = np.full(len(hidden), -1, dtype=np.int32)
    groups[~hidden] = inverse
    return groups, pd.RangeIndex(len(first), name="group")


def given_groups(
    series: pd.Series, name: str, hidden: npt.NDArray[np.bool_] | None = None
) -> tuple[npt.NDArray[np.int32], pd.Index]:
    """Groups as named by a column; only a suppressed row may go without a name."""
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in "iu" and np.can_cast(dtype, np.int64):
        # Millions of numbered groups are not worth a Python object each.
        codes, numbers = _numbered(series.to_numpy(dtype=np.int64))
        return codes, pd.Index(numbers, name=name)
    inverse, distinct = factorize(series, where=f"The group column {name!r}")
    missing = np.array([is_missing(label) for label in distinct], dtype=bool)
    gaps = missing[inverse]
    bad = gaps if hidden is None else gaps & ~hidden
    if bad.any():
        raise TableError(
            f"Column {name!r}, row {series.index[int(bad.argmax())]}: the group is missing."
        )
    named = [plain(label) for label, gone in zip(distinct, missing, strict=True) if not gone]
    if len({type(label) for label in named}) > 1:
        Domain(name, named)  # refuses 1 and "1"
    ordered = sorted_values(named)
    place = {label: i for i, label in enumerate(ordered)}
    lookup = np.full(len(distinct), -1, dtype=np.int32)
    lookup[~missing] = [place[label] for label in named]
    return lookup[inverse], pd.Index(object_array(ordered), name=name).infer_objects()


def _numbered(
    numbers: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int64]]:
    """Codes of whole numbers, in ascending order, and the distinct numbers."""
    least, most = int(numbers.min()), int(numbers.max())
    if most - least > 4 * len(numbers):
        codes, distinct = pd.factorize(numbers, sort=True)
        return codes.astype(np.int32), distinct
    # Numbers without large gaps are ticked off; a hash table of millions would miss every cache.
    shown = np.zeros(most - least + 1, dtype=bool)
    shown[numbers - least] = True
    code = np.cumsum(shown, dtype=np.int32) - np.int32(1)
    return code[numbers - least], np.flatnonzero(shown) + least


def rows_by_group(codes: npt.NDArray[np.int32], n_groups: int) -> npt.NDArray[np.int64]:
    """Rows sorted by group, in their order inside each: counted, not compared.

    Examples
    --------
    >>> rows_by_group(np.array([1, 0, 1, 0], dtype=np.int32), 2).tolist()
    [1, 3, 0, 2]
    """
    n = len(codes)
    shape = (n, n_groups)
    rows = sparse.csr_array((np.ones(n, dtype=bool), codes, np.arange(n + 1)), shape=shape)
    return rows.tocsc().indices.astype(np.int64)


def matched_groups(
    items: pd.Series, slots: pd.Series, name: str
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], pd.Index]:
    """Group codes of both parts on one set of labels, after checking that their sizes agree."""
    codes, labels = given_groups(pd.concat([items, slots]), name)
    item_codes, slot_codes = codes[: len(items)], codes[len(items) :]
    sizes = [np.bincount(c, minlength=len(labels)) for c in (item_codes, slot_codes)]
    wrong = np.flatnonzero(sizes[0] != sizes[1])
    if len(wrong):
        g = int(wrong[0])
        raise TableError(
            f"Group {plain(labels[g])!r} has {sizes[0][g]} rows in the quasi-identifier table and "
            f"{sizes[1][g]} in the sensitive table ({len(wrong)} groups differ); both parts of a "
            "group must have the same number of rows."
        )
    return item_codes, slot_codes, labels
