"""Threats by sensitive value or by any other column."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from anonbayes.errors import TableError, nearest
from anonbayes.release.statistics import tally

if TYPE_CHECKING:
    from anonbayes.risk.assessment import RiskAssessment

__all__ = ["breakdown"]


def breakdown(
    risk: RiskAssessment,
    by: str | Iterable[Any] | None,
    *,
    bins: int | Sequence[float] | None = None,
) -> pd.DataFrame:
    """See `RiskAssessment.breakdown`.

    Returns
    -------
    pandas.DataFrame
        Per class: number of rows; shares ``GT_A, GT_L, GT_RW`` of its rows that are threatened;
        ``RGT_A``; mean levels ``p_A, p_L``; ``max_Ti`` and ``doubled`` (share of its rows with Ti
        of at least 2) among its rows threatened by the attacker.
    """
    rows = risk.rows
    key = _key(risk, by)
    if bins is not None:
        if not pd.api.types.is_numeric_dtype(key):
            raise TableError(f"bins= needs a numeric column; {key.name!r} is not.")
        key = pd.Series(pd.cut(key, bins, include_lowest=True), index=key.index, name=key.name)
    codes, classes = pd.factorize(key, sort=_sortable(key), use_na_sentinel=False)
    people = risk.people.to_numpy()
    n = tally(codes, people, len(classes))

    def mean(column: str) -> Any:
        values = rows[column].to_numpy(dtype=float)
        known = ~np.isnan(values)
        with np.errstate(invalid="ignore"):
            return np.bincount(codes[known], values[known] * people[known], len(classes)) / tally(
                codes[known], people[known], len(classes)
            )

    hit = rows["threatened_A"].to_numpy(dtype=float)
    ratio = rows["Ti"].to_numpy(dtype=float)
    most = np.full(len(classes), np.nan)
    np.fmax.at(most, codes[hit > 0], ratio[hit > 0])
    out = {
        "rows": n,
        "GT_A": mean("threatened_A"),
        "GT_L": mean("threatened_L"),
        "GT_RW": mean("threatened_RW"),
        "p_A": mean("p_A"),
        "p_L": mean("p_L"),
        "max_Ti": most,
        "doubled": np.bincount(codes, np.where(ratio >= 2, hit * people, 0.0), len(classes)) / n,
    }
    frame = pd.DataFrame(out, index=pd.Index(classes, name=key.name))
    frame.insert(4, "RGT_A", np.maximum(0.0, frame["GT_A"] - frame["GT_L"]))
    return frame


def _key(risk: RiskAssessment, by: str | Iterable[Any] | None) -> pd.Series:
    if by is None:
        return risk.rows["secret"].rename(risk.post.table.sensitive)
    if isinstance(by, str):
        if by not in risk.cleartext.columns:
            raise TableError(
                f"The cleartext has no column {by!r}. {nearest(by, risk.cleartext.columns)}"
            )
        return risk.cleartext[by]
    values = by.to_numpy() if isinstance(by, pd.Series) else list(by)
    if len(values) != len(risk.rows):
        raise TableError(f"by= has {len(values)} labels for {len(risk.rows)} rows.")
    name = by.name if isinstance(by, pd.Series) else None
    return pd.Series(values, index=risk.rows.index, name=name)


def _sortable(key: pd.Series) -> bool:
    return isinstance(key.dtype, pd.CategoricalDtype) or key.map(type).nunique() == 1
