"""Risks by counting rows, and the three questions of the Article 29 Working Party (WP29)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from anonbayes.arrays import Floats, Ints, Mask
from anonbayes.beliefs.attacker import candidate_rows
from anonbayes.beliefs.victims import Victims
from anonbayes.errors import AnonbayesError
from anonbayes.formats import count, times
from anonbayes.risk.people import clear_release, read_attributes
from anonbayes.tables.groups import distinct_rows, tally
from anonbayes.tables.table import ReleasedTable

if TYPE_CHECKING:
    from anonbayes.risk.assessment import RiskAssessment


# -------------------------------------------------------------------------------------------------
# Re-identification risks as in ARX, in addition to the threats to secrets.
#
# The prosecutor knows that the victim is in the table, the journalist does not, and the marketer
# wants to find as many people as possible. All three count rows that look alike, not secrets.


@dataclass(frozen=True, eq=False)
class ReidentificationRisk:
    """Risk that a person's row is identified, by attacker model.

    Attributes
    ----------
    table : pandas.DataFrame
        For ``prosecutor``, ``journalist`` and ``marketer``: the ``highest`` risk of a row, the
        ``average`` risk (the expected share of rows identified correctly), and ``at_risk`` (share
        of rows above `threshold`). The marketer only has an average.
    rows : pandas.DataFrame
        Risk of each released line that is not suppressed, by its position; a line of a reduced
        table stands for ``weight`` rows.
    threshold : float
        Highest acceptable risk.
    suppressed : int
        Number of suppressed rows, which are left out.
    """

    table: pd.DataFrame
    rows: pd.DataFrame
    threshold: float
    suppressed: int


def reidentification_risk(
    table: ReleasedTable, *, population: pd.DataFrame | None = None, threshold: float = 0.2
) -> ReidentificationRisk:
    """Compute prosecutor, journalist and marketer risk of a released table.

    Rows with the same cells form a class. If f rows of the table and F people of the population
    belong to it, the prosecutor risk is ``1/f``, the journalist risk ``1/F``, and the marketer risk
    the average of ``1/F`` over rows.

    Parameters
    ----------
    table : ReleasedTable
        The release. For a vertical table, the tuples published in clear count.
    population : pandas.DataFrame, optional
        Attributes of the population from which the people in the table were drawn. By default the
        table is the population, and the journalist risk equals the prosecutor risk.
    threshold : float
        Highest acceptable risk of a row; 0.2 is a common choice.

    Examples
    --------
    >>> import anonbayes as ab
    >>> found = reidentification_risk(ab.datasets.load("table1_recoded"))
    >>> found.table.loc["prosecutor"].tolist()
    [0.5, 0.5, 1.0]
    """
    if not isinstance(table, ReleasedTable):
        raise AnonbayesError(
            f"reidentification_risk needs a ReleasedTable, not {type(table).__name__}."
        )
    if not 0 < threshold <= 1:
        raise AnonbayesError(f"threshold={threshold!r} must be above 0 and at most 1.")
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
        # The sample is part of the population, even if the given frame lacks it.
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


def highest_risk(table: ReleasedTable) -> float:
    """Return the highest prosecutor risk; 0 if every row is suppressed."""
    if not (table.group_codes >= 0).any():
        return 0.0
    return float(reidentification_risk(table).table["highest"]["prosecutor"])


def privacy_models(
    table: ReleasedTable, *, population: pd.DataFrame | None = None
) -> dict[str, float]:
    """Compute the parameters of further privacy models that a release satisfies.

    ``entropy_l`` is the least exponential of the entropy of a group; the others are the least c of
    recursive (c, 2)-diversity, the t of t-closeness (by the distance of ordered numbers, else total
    variation), and with a `population` delta-presence: the shares of those who match a group that
    are in the table.
    """
    if not table.secrets_known:
        raise AnonbayesError("The sensitive values are randomized, so no group shows them.")
    if not table.n_groups:
        raise AnonbayesError("Every row is suppressed, so there is no group.")
    shown = table.group_codes >= 0
    people = np.ones(len(shown)) if table.weights is None else table.weights.astype(float)
    counts = np.zeros((table.n_groups, len(table.secret.domain)))
    secret = table.secret.evidence.matrix.indices[table.secret.codes]
    np.add.at(counts, (table.group_codes[shown], secret[shown]), people[shown])
    shares = counts / counts.sum(axis=1, keepdims=True)
    logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0)
    entropy = -(shares * logs).sum(axis=1)
    most = counts.max(axis=1)
    others = counts.sum(axis=1) - most
    ratio = np.divide(most, others, out=np.full(len(most), np.inf), where=others > 0)
    apart = shares - table.secret_counts / table.n_rows
    if table.secret.domain.is_numeric:
        order = np.argsort(table.secret.domain.numbers, kind="stable")
        steps = max(len(order) - 1, 1)
        distance = np.abs(np.cumsum(apart[:, order], axis=1)).sum(axis=1) / steps
    else:
        distance = np.abs(apart).sum(axis=1) / 2
    models = {
        "entropy_l": float(np.exp(entropy.min())),
        "recursive_c": float(ratio.max()),
        "t": float(distance.max()),
    }
    if population is not None:
        found = reidentification_risk(table, population=population).rows
        present = (found["class_size"] * found["journalist"]).clip(upper=1.0)
        models |= {"delta_low": float(present.min()), "delta_high": float(present.max())}
    return models


def syntactic_risks(
    risk: RiskAssessment, *, population: pd.DataFrame | None = None, threshold: float = 0.2
) -> pd.DataFrame:
    """Compare whose row can be found with whose secret can be guessed.

    If cells overlap, a person may match rows of several classes, which the usual prosecutor risk
    ignores; a separate line counts all rows that match a person.
    """
    table = risk.post.table
    if population is None and threshold == risk.reidentification.threshold:
        lines = risk.reidentification.table.copy()
    else:
        lines = reidentification_risk(table, population=population, threshold=threshold).table
    lines.insert(0, "finds", "the row of a person")
    people = risk.people.to_numpy()
    linked = _line(1.0 / risk.rows["candidates"].to_numpy(float), threshold, people)
    ours = {"prosecutor, overlaps counted": {"finds": "the row of a person", **linked}}
    for name, key in (("random worlds", "RW"), ("learner", "L"), ("attacker", "A")):
        level = risk.rows[f"p_{key}"].to_numpy(float)
        at_stake = ~np.isnan(level)
        line = _line(level[at_stake], threshold, people[at_stake])
        ours[name] = {"finds": risk.gain.text, **line}
        ours[name]["average"] = float(risk.summary[f"GT_{key}"])
    return pd.concat([lines, pd.DataFrame.from_dict(ours, orient="index")]).rename_axis("attacker")


def _line(values: Floats, threshold: float, weight: Ints | None) -> dict[str, float]:
    """Highest and average risk, and the share at risk, of lines that may stand for several rows."""

    def mean(numbers: Floats | Mask) -> float:
        return float(np.average(numbers, weights=weight)) if len(numbers) else 0.0

    return {
        "highest": float(values.max(initial=0.0)),
        "average": mean(values),
        "at_risk": mean(values > threshold),
    }


def _people_per_class(table: ReleasedTable, rows: Ints, population: pd.DataFrame) -> Ints:
    """Number of people of the population that match the cells of each given row."""
    codes = read_attributes(table, population, what="population")
    secret = np.zeros(len(population), dtype=np.int64)
    everybody = clear_release(table, codes, secret)
    cells = np.stack([c.codes[rows].astype(np.int64) for c in table.columns.values()], axis=1)
    evidence = tuple(c.evidence.matrix for c in table.columns.values())
    return candidate_rows(everybody, Victims(cells, evidence, np.arange(len(rows)), None))


# -------------------------------------------------------------------------------------------------
# The three questions of the Article 29 Working Party on anonymisation, answered with measures.
#
# Opinion 05/2014 (WP216) asks of a technique: is it still possible to single out an individual, to
# link records relating to an individual, and to infer information concerning an individual?


QUESTIONS = {
    "singling out": "Can the row of a person be isolated in the release?",
    "linkability": "Can a person's row be linked with what another source says about the person?",
    "inference": "Can a person's secret be inferred with more certainty than that of somebody who "
    "is not in the table?",
}


@dataclass(frozen=True)
class Answer:
    """What the measures say about one of the `QUESTIONS`, with figures by description."""

    name: str
    finding: str
    figures: Mapping[str, float] = field(default_factory=dict)

    @property
    def question(self) -> str:
        """The question, in the package's words."""
        return QUESTIONS[self.name]


def wp29(risk: RiskAssessment, *, certain: float = 0.9) -> tuple[Answer, Answer, Answer]:
    """Answer the three questions of WP29 for one release.

    Parameters
    ----------
    risk : RiskAssessment
        The assessment.
    certain : float
        Belief from which a right guess counts as knowledge.

    Examples
    --------
    >>> import anonbayes as ab
    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> [answer.name for answer in wp29(post.assess(ab.datasets.load("table1")))]
    ['singling out', 'linkability', 'inference']
    """
    return _singling_out(risk), _linkability(risk), _inference(risk, certain)


def _singling_out(risk: RiskAssessment) -> Answer:
    table = risk.post.table
    alone = int(risk.people[risk.rows["candidates"] == 1].sum())
    figures = {"people who match exactly one released row": float(alone)}
    if table.n_groups:
        unique = int((risk.reidentification.rows["class_size"] == 1).sum())
        figures["released rows that are unique"] = float(unique)
        figures["smallest group (k)"] = float(table.k)
    if alone:
        everybody = f"{int(risk.summary['rows']):,}"
        finding = f"{alone:,} of {everybody} people match exactly one row of the release."
        if table.scheme == "vertical":
            finding += " Their row can be found; its secret is hidden among those of its group."
    else:
        least = int(risk.rows["candidates"].min())
        finding = f"No: everyone matches at least {least:,} rows of the release."
    return Answer("singling out", finding, figures)


def _linkability(risk: RiskAssessment) -> Answer:
    linked = 1.0 / risk.rows["candidates"].to_numpy(float)
    average = float(np.average(linked, weights=risk.people))
    figures = {
        "expected share of people linked to their row": average,
        "highest probability of a link": float(linked.max()),
    }
    if risk.post.table.n_groups:
        marketer = risk.reidentification.table["average"]["marketer"]
        figures["marketer risk (overlaps ignored)"] = float(marketer)
    return Answer(
        "linkability",
        f"Somebody who has the nonsensitive values of all people would link {average:.1%} "
        "of them to their rows by choosing at random among the matching rows.",
        figures,
    )


def _inference(risk: RiskAssessment, certain: float) -> Answer:
    s, rows = risk.summary, risk.rows
    sure = int(risk.people[(rows["p_A"] >= certain) & (rows["threatened_A"] > 0)].sum())
    surer = int(risk.people[(rows["p_L"] >= certain) & (rows["threatened_L"] > 0)].sum())
    whose = "Nobody's secret is"
    if sure:
        whose = f"The secret{'' if sure == 1 else 's'} of {count(sure, 'person is', 'people are')}"
    doubt = ", unreliable" if risk.belief_scores.below_random_worlds else ""
    figures = {
        "share guessed right by the attacker (GT_A)": float(s["GT_A"]),
        "share guessed right by the learner (GT_L)": float(s["GT_L"]),
        f"largest relative threat (max_Ti){doubt}": float(s["max_Ti"]),
        f"people guessed right with belief {certain:g} or more, attacker": float(sure),
        f"people guessed right with belief {certain:g} or more, learner": float(surer),
    }
    if risk.leakage is not None:
        figures["people in groups with one secret"] = float(risk.leakage.exposed)
    told = not (doubt or np.isnan(s["max_Ti"]))
    most = f"; the attacker is at most {times(s['max_Ti'])} as sure of it" if told else ""
    return Answer(
        "inference",
        f"From the population alone {s['GT_L']:.1%} of the secrets are guessed right; knowing that "
        f"somebody is in the table, {s['GT_A']:.1%}{most}. {whose} guessed right with a belief of "
        f"{certain:.0%} or more.",
        figures,
    )
