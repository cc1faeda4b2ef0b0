"""Tables of distinct lines, and how a table looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.arrays import Ints
from anonbayes.domains import object_array
from anonbayes.errors import TableError
from anonbayes.tables.groups import distinct_rows, tally

if TYPE_CHECKING:
    from anonbayes.tables.table import ReleasedTable

__all__ = [
    "counted_frame",
    "describe",
    "expanded",
    "first_rows",
    "frame_of_rows",
    "html",
    "line",
    "overview",
    "reduced",
]


# -------------------------------------------------------------------------------------------------
# Lines of a table: rows, or distinct records that stand for several; and how they are shown.

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


# -------------------------------------------------------------------------------------------------
# How a released table looks in a console and in a notebook.


def line(table: ReleasedTable) -> str:
    """One line for `repr`."""
    suppressed = f" + {_counted(table.n_suppressed, 'suppressed row')}" * bool(table.n_suppressed)
    return (
        f"ReleasedTable({table.scheme}, {_counted(table.n_rows, 'row')}, "
        f"{_counted(table.n_groups, 'group')}{suppressed}, "
        f"k={table.k}, l={table.l}, sensitive={table.sensitive!r}, "
        f"attributes={list(table.attributes)})"
    )


def _counted(n: int, noun: str) -> str:
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def overview(table: ReleasedTable) -> pd.Series:
    """Figures of the table as a whole: rows, groups, sizes, diversity."""
    sizes = table.group_sizes
    figures: dict[str, object] = {
        "scheme": table.scheme,
        "rows": table.n_rows,
        **({} if table.weights is None else {"distinct records": table.n_lines}),
        "suppressed rows": table.n_suppressed,
        "groups": table.n_groups,
        "smallest group (k)": table.k,
        "median group": float(sizes.median()) if table.n_groups else 0.0,
        "average group": round(float(sizes.mean()), 2) if table.n_groups else 0.0,
        "largest group": int(sizes.max()) if table.n_groups else 0,
        "fewest sensitive values in a group (l)": table.l,
        "sensitive values": len(table.secret.domain),
        "nested cells": "yes" if table.is_nested else "no",
    }
    return pd.Series(figures, name=table.sensitive)


def describe(table: ReleasedTable) -> pd.DataFrame:
    """One line per attribute, the sensitive one last."""
    rows = {}
    for name, column in (*table.columns.items(), (table.sensitive, table.secret)):
        evidence = column.evidence
        used = table.tally(column.codes, len(evidence))
        size = len(evidence.domain)
        rows[name] = {
            "role": "sensitive" if name == table.sensitive else "nonsensitive",
            "values": size,
            "distinct cells": int((used > 0).sum()),
            "evidence": "sets" if evidence.is_hard else "channel",
            "average values per cell": round(float(used @ evidence.sizes) / table.n_rows, 2),
            "shown in clear": round(float(used @ (evidence.sizes == 1)) / table.n_rows, 4),
        }
    return pd.DataFrame.from_dict(rows, orient="index")


def html(table: ReleasedTable, rows: int = 6) -> str:
    """Overview, attributes and the first rows, every label escaped."""
    head = table.head(rows).map(str).to_html(escape=True, border=0)
    figures = overview(table).to_frame("").to_html(escape=True, border=0, header=False)
    note = (
        "<p>Lines of a vertical table are not linked: values and secrets of a group are listed "
        "side by side, not person by person.</p>"
        if table.scheme == "vertical"
        else ""
    )
    return (
        f"<div><p><b>ReleasedTable</b>, sensitive: <code>{escape(table.sensitive)}</code></p>"
        f"{figures}{describe(table).to_html(escape=True, border=0)}{head}{note}</div>"
    )
