"""Re-identification risks as users of ARX know them, beside the threats to secrets.

The prosecutor knows that the victim is in the table, the journalist does not, the marketer wants to
find as many people as possible. All three count rows that look alike; none looks at the secrets.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.errors import AnonbayesError
from anonbayes.inference.beliefs.attacker import candidate_rows
from anonbayes.inference.beliefs.victims import Victims
from anonbayes.release.build import distinct_rows
from anonbayes.release.statistics import tally
from anonbayes.release.table import ReleasedTable
from anonbayes.risk.truth import clear_release, read_attributes

if TYPE_CHECKING:
    from anonbayes.risk.assessment import RiskAssessment

__all__ = ["ReidentificationRisk", "reidentification_risk", "syntactic_risks"]


@dataclass(frozen=True, eq=False)
class ReidentificationRisk:
    """Risk of naming the row of a person, by attacker model.

    Attributes
    ----------
    table : pandas.DataFrame
        For ``prosecutor``, ``journalist`` and ``marketer``: ``highest`` risk of a row, ``average``
        (the expected share of rows that are named right), ``at_risk`` (share of rows above
        `threshold`). The marketer has an average only.
    rows : pandas.DataFrame
        Risk of each released line that is not suppressed, by its position; the lines of a reduced
        table stand for ``weight`` rows each.
    threshold : float
        Highest acceptable risk.
    suppressed : int
        Rows left out: they show nothing but their secret.
    """

    table: pd.DataFrame
    rows: pd.DataFrame
    threshold: float
    suppressed: int


def reidentification_risk(
    table: ReleasedTable,
    *,
    population: pd.DataFrame | None = None,
    threshold: float = 0.2,
) -> ReidentificationRisk:
    """Prosecutor, journalist and marketer risk of a released table.

    Rows that show the same cells form a class. With f rows of a class in the table and F people in
    the population who would look like it: prosecutor ``1/f``, journalist ``1/F``, marketer the
    average of ``1/F`` over rows.

    Parameters
    ----------
    table : ReleasedTable
        The release. Of a vertical table, whose tuples are published in clear, the tuples count.
    population : pandas.DataFrame, optional
        The attributes of everybody among whom the people of the table were drawn. Without it the
        table is taken to be the population, and the journalist is a prosecutor.
    threshold : float
        Highest acceptable risk of a row; 0.2 is a common choice.

    Examples
    --------
    >>> import anonbayes as ab
    >>> found = reidentification_risk(ab.datasets.load("table1_recoded"))
    >>> found.table.loc["prosecutor"].tolist()
    [0.5, 0.5, 1.0]
    """
    if not 0 < threshold <= 1:
        raise AnonbayesError(f"threshold={threshold!r} must lie above 0 and be at most 1.")
    shown = np.flatnonzero(table.group_codes >= 0)
    if not len(shown):
        raise AnonbayesError("Every row is suppressed; nobody can be re-identified.")
    columns = [column.codes[shown] for column in table.columns.values()]
    inverse, first, _ = distinct_rows(columns)
    weight = None if table.weights is None else table.weights[shown]
    count = tally(inverse, weight, len(first))
    prosecutor = 1.0 / count[inverse]
    journalist = prosecutor
    if population is not None:
        people = _people_per_class(table, shown[first], population)
        # The sample is part of the population, whatever the given frame says.
        journalist = 1.0 / np.maximum(people, count)[inverse]
    lines = {
        "prosecutor": _line(prosecutor, threshold, weight),
        "journalist": _line(journalist, threshold, weight),
        "marketer": _line(journalist, threshold, weight) | {"highest": np.nan, "at_risk": np.nan},
    }
    rows = pd.DataFrame(
        {"class_size": count[inverse], "prosecutor": prosecutor, "journalist": journalist},
        index=pd.Index(shown, name="row"),
    )
    if weight is not None:
        rows["weight"] = weight
    frame = pd.DataFrame.from_dict(lines, orient="index").rename_axis("attacker")
    return ReidentificationRisk(frame, rows, threshold, table.n_suppressed)


def syntactic_risks(
    risk: RiskAssessment, *, population: pd.DataFrame | None = None, threshold: float = 0.2
) -> pd.DataFrame:
    """Both ways of looking side by side: whose row is found, and whose secret is guessed.

    Where cells overlap, a person may fit rows of several classes, which the usual prosecutor does
    not see; a line of its own counts all rows that a person could own. The averages of random
    worlds, learner and attacker are the shares of rows guessed right.

    Examples
    --------
    >>> import anonbayes as ab
    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> found = syntactic_risks(post.assess(ab.datasets.load("table1")))
    >>> found.loc[["prosecutor", "random worlds"], "average"].tolist()
    [0.5, 0.5]
    """
    found = reidentification_risk(risk.post.table, population=population, threshold=threshold)
    lines = found.table
    lines.insert(0, "finds", "the row of a person")
    people = risk.people.to_numpy()
    linked = _line(1.0 / risk.rows["candidates"].to_numpy(float), threshold, people)
    ours = {"prosecutor, overlaps counted": {"finds": "the row of a person", **linked}}
    for name, key in (("random worlds", "RW"), ("learner", "L"), ("attacker", "A")):
        level = risk.rows[f"p_{key}"].to_numpy(float)
        at_stake = ~np.isnan(level)
        found_line = _line(level[at_stake], threshold, people[at_stake])
        ours[name] = {"finds": risk.gain.text, **found_line}
        ours[name]["average"] = float(risk.summary[f"GT_{key}"])
    return pd.concat([lines, pd.DataFrame.from_dict(ours, orient="index")]).rename_axis("attacker")


def _line(
    values: npt.NDArray[np.float64], threshold: float, weight: npt.NDArray[np.int64] | None
) -> dict[str, float]:
    """Highest and average risk, and the share at risk, of lines that stand for several rows."""

    def mean(numbers: npt.NDArray[Any]) -> float:
        return float(np.average(numbers, weights=weight)) if len(numbers) else 0.0

    return {
        "highest": float(values.max(initial=0.0)),
        "average": mean(values),
        "at_risk": mean(values > threshold),
    }


def _people_per_class(
    table: ReleasedTable, rows: npt.NDArray[np.int64], population: pd.DataFrame
) -> npt.NDArray[np.int64]:
    """Number of people of the population that fit the cells of each given row."""
    codes = read_attributes(table, population, what="population")
    secret = np.zeros(len(population), dtype=np.int64)
    everybody = clear_release(table, codes, secret)
    cells = np.stack([c.codes[rows].astype(np.int64) for c in table.columns.values()], axis=1)
    evidence = tuple(c.evidence.matrix for c in table.columns.values())
    return candidate_rows(everybody, Victims(cells, evidence, np.arange(len(rows)), None))
