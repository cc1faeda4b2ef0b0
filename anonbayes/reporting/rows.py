"""Rows of threatened people: by number only, or with their values when asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from anonbayes.reporting.formats import Table, ratio
from anonbayes.risk.assessment import ROW

if TYPE_CHECKING:
    from anonbayes.risk.assessment import RiskAssessment

__all__ = ["RowTable", "by_number", "row_contributions", "row_table"]

NUMBERS = (
    ("Ti", "Relative threat", "ratio", "How many times surer the attacker is than the learner"),
    ("p_A", "Attacker", "share", "The attacker's belief in the true secret"),
    ("p_L", "Learner", "share", "Belief of somebody who only learned about the population"),
    ("p_RW", "Random worlds", "share", "Belief when all compatible tables are equally likely"),
    ("candidates", "Candidates", "count", "Number of released rows that the person could be"),
    ("weight", "People", "count", "Number of people that the row stands for"),
    ("se_Ti", "Error of the threat", "number", "Standard error of the relative threat"),
)


@dataclass(frozen=True)
class RowTable:
    """What the interactive table shows.

    Attributes
    ----------
    columns : tuple of dict
        ``name``, ``label``, ``kind`` (row, text, share, ratio, count, number) and ``title``.
    rows : list of lists
        Plain numbers and texts, the largest relative threat first.
    total : int
        Number of threatened rows, shown here or not.
    """

    columns: tuple[dict[str, str], ...]
    rows: list[list[Any]]
    total: int

    def to_dict(self) -> dict[str, Any]:
        """Return what the page's script reads."""
        return {"columns": list(self.columns), "rows": self.rows}


def by_number(risk: RiskAssessment) -> RiskAssessment:
    """Return the same assessment with rows numbered from 0 in the order of the cleartext.

    Labels of the cleartext's index may be names or identifiers of people, unless they are known to
    be numbers of rows.
    """
    if _numbers_rows(risk.rows.index):
        return risk
    return replace(
        risk,
        rows=risk.rows.reset_index(drop=True),
        cleartext=risk.cleartext.reset_index(drop=True),
    )


def row_table(
    risk: RiskAssessment, *, labels: pd.Index | None = None, most: int = 5000
) -> RowTable:
    """Return threatened rows, the largest relative threat first.

    Parameters
    ----------
    risk : RiskAssessment
        Numbered by `by_number`.
    labels : pandas.Index, optional
        Labels of the cleartext's rows. With them the values of people are shown as well.
    most : int
        Largest number of rows.

    Examples
    --------
    >>> import anonbayes as ab
    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> risk = post.assess(ab.datasets.load("table1"))
    >>> [c["name"] for c in row_table(risk).columns]
    ['row', 'Ti', 'p_A', 'p_L', 'p_RW', 'candidates', 'se_Ti']
    >>> row_table(risk, labels=risk.rows.index).columns[-1]["name"]
    'ZIP'
    """
    found = risk.threatened
    total = len(found)
    found = found.head(most)
    drawn = bool((found["se_Ti"] > 0).any())
    numbers = [c for c in NUMBERS if c[0] in found and (c[0] != "se_Ti" or drawn)]
    columns = [_column("row", "Row", "row", "Number of the row in the cleartext, from 0")]
    columns += [_column(*c) for c in numbers]
    cells: list[list[Any]] = [found.index.tolist()]
    cells += [[_plain(v) for v in found[name]] for name, *_ in numbers]
    if labels is not None:
        table = risk.post.table
        if not (isinstance(labels, pd.RangeIndex) or _numbers_rows(labels)):
            columns.append(_column("label", "Label", "text", "Label of the row in the cleartext"))
            cells.append([str(label) for label in labels[found.index]])
        columns.append(_column("secret", table.sensitive, "text", "The true sensitive value"))
        columns.append(_column("guess", "Guess", "text", "What the attacker guesses"))
        cells += [[str(v) for v in found[name]] for name in ("secret", "guess")]
        for name in table.attributes:
            columns.append(_column(name, name, "text", f"The person's {name}"))
            cells.append([str(v) for v in risk.cleartext[name].loc[found.index]])
    return RowTable(tuple(columns), [list(row) for row in zip(*cells, strict=True)], total)


def row_contributions(risk: RiskAssessment, *, top: int = 10) -> Table | None:
    """Return, for the most threatened rows, the factor that knowing each attribute adds.

    None where nobody is threatened.
    """
    chosen = risk.threatened.index[:top]
    if not len(chosen):
        return None
    factor = np.exp2(risk.contributions(chosen)["adds_log2_Ti"]).unstack("attribute")
    attributes = list(risk.post.table.attributes)
    ordered = factor.loc[chosen, attributes]
    rows = [
        [str(label), ratio(float(risk.rows["Ti"].loc[label])), *(ratio(float(v)) for v in line)]
        for label, line in zip(ordered.index, ordered.to_numpy(float), strict=True)
    ]
    return Table(
        ["Row", "Relative threat", *attributes],
        rows,
        "Factor by which knowing an attribute changes the relative threat of a row",
    )


def _numbers_rows(index: pd.Index) -> bool:
    return bool(index.name == ROW and pd.api.types.is_integer_dtype(index.dtype))


def _column(name: str, label: str, kind: str, title: str) -> dict[str, str]:
    return {"name": name, "label": label, "kind": kind, "title": title}


def _plain(value: float) -> float | int | None:
    """Six digits are plenty; JSON knows no NaN."""
    if isinstance(value, int | np.integer):
        return int(value)
    return None if math.isnan(value) else float(f"{value:.6g}")
