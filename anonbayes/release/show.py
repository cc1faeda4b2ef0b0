"""How a released table looks in a console and in a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import pandas as pd

if TYPE_CHECKING:
    from anonbayes.release.table import ReleasedTable

__all__ = ["describe", "html", "line", "overview"]


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
