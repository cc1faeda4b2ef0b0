"""The three questions of the Article 29 Working Party on anonymisation, answered by measures.

Opinion 05/2014 (WP216) asks of a technique: is it still possible to single out an individual, to
link records relating to an individual, and to infer information concerning an individual?
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from anonbayes.risk.syntactic import reidentification_risk

if TYPE_CHECKING:
    from anonbayes.risk.assessment import RiskAssessment

__all__ = ["Answer", "wp29"]


@dataclass(frozen=True)
class Answer:
    """One question and what the measures say.

    Attributes
    ----------
    name : str
        Singling out, linkability or inference.
    question : str
        The question, in the package's words.
    figures : mapping of str to float
        Measures that bear on it, by what they say.
    finding : str
        The answer in a sentence.
    """

    name: str
    question: str
    figures: Mapping[str, float]
    finding: str


def wp29(risk: RiskAssessment, *, certain: float = 0.9) -> tuple[Answer, Answer, Answer]:
    """Answer the three questions for one release.

    Parameters
    ----------
    risk : RiskAssessment
        The assessment.
    certain : float
        Belief from which on a right guess counts as knowledge.

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
    figures = {"people who fit one released row only": float(alone)}
    if table.n_groups:
        found = reidentification_risk(table)
        unique = int((found.rows["class_size"] == 1).sum())
        figures["released rows like no other"] = float(unique)
        figures["smallest group (k)"] = float(table.k)
    if alone:
        everybody = f"{int(risk.summary['rows']):,}"
        finding = f"{alone:,} of {everybody} people fit exactly one row of the release."
        if table.scheme == "vertical":
            finding += " Their row can be found; whose secret it goes with is what the groups hide."
    else:
        least = int(risk.rows["candidates"].min())
        finding = f"Nobody: everyone fits at least {least:,} rows of the release."
    return Answer(
        "singling out",
        "Can the row of a person be isolated in the release?",
        figures,
        finding,
    )


def _linkability(risk: RiskAssessment) -> Answer:
    linked = 1.0 / risk.rows["candidates"].to_numpy(float)
    average = float(np.average(linked, weights=risk.people))
    figures = {
        "expected share of people linked to their row": average,
        "highest probability of a link": float(linked.max()),
    }
    if risk.post.table.n_groups:
        found = reidentification_risk(risk.post.table)
        figures["marketer risk"] = float(found.table["average"]["marketer"])
    return Answer(
        "linkability",
        "Can a person's row be linked with what another source says about the person?",
        figures,
        f"Somebody who holds the nonsensitive values of all people would link {average:.1%} "
        "of them to their rows, choosing at random among the rows that fit.",
    )


def _inference(risk: RiskAssessment, certain: float) -> Answer:
    s, rows = risk.summary, risk.rows
    sure = int(risk.people[(rows["p_A"] >= certain) & (rows["threatened_A"] > 0)].sum())
    surer = int(risk.people[(rows["p_L"] >= certain) & (rows["threatened_L"] > 0)].sum())
    figures = {
        "share guessed right by the attacker (GT_A)": float(s["GT_A"]),
        "share guessed right by the learner (GT_L)": float(s["GT_L"]),
        "largest relative threat (max_Ti)": float(s["max_Ti"]),
        f"people guessed right with belief {certain:g} or more, attacker": float(sure),
        f"people guessed right with belief {certain:g} or more, learner": float(surer),
    }
    if risk.leakage is not None:
        figures["people in groups with one secret"] = float(risk.leakage.exposed)
    most = "" if np.isnan(s["max_Ti"]) else f", at most {s['max_Ti']:.3g} times as surely"
    return Answer(
        "inference",
        "Can a person's secret be inferred, more surely than that of anybody outside the table?",
        figures,
        f"From the population alone {s['GT_L']:.1%} of the secrets are guessed right; knowing that "
        f"somebody is in the table, {s['GT_A']:.1%}{most}. {sure:,} are then guessed right with "
        f"belief {certain:g} or more.",
    )
