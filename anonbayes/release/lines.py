"""Lines of a table: rows, or distinct records that stand for several; and how they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.arrays import Ints
from anonbayes.domains import object_array
from anonbayes.errors import TableError
from anonbayes.release.groups import distinct_rows
from anonbayes.release.statistics import tally

if TYPE_CHECKING:
    from anonbayes.release.table import ReleasedTable

__all__ = ["counted_frame", "expanded", "first_rows", "frame_of_rows", "reduced"]

MOST_ROWS = 10_000_000
"""Longest frame into which a reduced table is unfolded without being asked to."""


def reduced(table: ReleasedTable) -> ReleasedTable:
    """See `ReleasedTable.reduced`."""
    if table.scheme == "vertical":
        return table
    columns = [c.codes for c in table.columns.values()]
    groups = table.group_codes.astype(np.int64) + 1
    inverse, first, _ = distinct_rows([*columns, table.secret.codes, groups])
    if len(first) == table.n_lines:
        return table
    return _take(table, first, tally(inverse, table.weights, len(first)))


def expanded(table: ReleasedTable) -> ReleasedTable:
    """See `ReleasedTable.expanded`."""
    if table.weights is None:
        return table
    return _take(table, np.repeat(np.arange(table.n_lines), table.weights), None)


def frame_of_rows(table: ReleasedTable) -> pd.DataFrame:
    """One line per row; see `ReleasedTable.to_frame`."""
    if table.weights is None:
        return _shown(table, slice(None))
    if table.n_rows > MOST_ROWS:
        raise TableError(
            f"A frame of {table.n_rows:,} rows is too large; take the {table.n_lines:,} distinct "
            "records with to_frame(weights='rows') or, if memory allows, expanded().to_frame()."
        )
    return _shown(table, np.repeat(np.arange(table.n_lines), table.weights))


def counted_frame(table: ReleasedTable, name: str) -> pd.DataFrame:
    """One line per distinct record, with its number of rows in a column `name`."""
    if table.scheme == "vertical":
        raise TableError("A vertical table cannot be counted by records: its lines are not linked.")
    if name in (*table.attributes, table.sensitive, table.group_name):
        raise TableError(f"The table has a column {name!r}; choose another name for weights=.")
    small = reduced(table)
    rows = np.ones(small.n_lines, dtype=np.int64) if small.weights is None else small.weights
    return _shown(small, slice(None)).assign(**{name: rows})


def first_rows(table: ReleasedTable, rows: int) -> pd.DataFrame:
    """First lines of `frame_of_rows`, without building the rest."""
    if table.weights is None:
        return _shown(table, slice(rows))
    repeated = np.minimum(table.weights[:rows], rows)
    return _shown(table, np.repeat(np.arange(len(repeated)), repeated)[:rows])


def _take(table: ReleasedTable, lines: Ints, weights: Ints | None) -> ReleasedTable:
    return replace(
        table,
        columns={name: c.take(lines) for name, c in table.columns.items()},
        secret=table.secret.take(lines),
        group_codes=table.group_codes[lines],
        weights=weights,
    )


def _shown(table: ReleasedTable, lines: slice | Ints) -> pd.DataFrame:
    groups = table.group_codes[lines]
    hidden = groups < 0
    data: dict[str, pd.Series] = {}
    for name, column in table.columns.items():
        labels, codes = column.evidence.labels, column.codes[lines]
        if hidden.any():
            codes = np.where(hidden, len(labels), codes)
            labels = (*labels, "*")
        data[name] = _spread(labels, codes)
    data[table.sensitive] = _spread(table.secret.evidence.labels, table.secret.codes[lines])
    if table.group_name is not None:
        names = [*table.group_labels, None] if hidden.any() else [*table.group_labels]
        data[table.group_name] = _spread(names, groups)
    return pd.DataFrame(data)


def _spread(labels: Sequence[Any], codes: npt.NDArray[Any]) -> pd.Series:
    """Label of each row, in the type that the labels have in common."""
    typed = pd.Series(object_array(labels), dtype=object).infer_objects()
    return pd.Series(typed.array.take(codes))
