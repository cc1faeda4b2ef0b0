"""The page for data protection officers: three questions, and the risks that ARX users know."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from anonbayes.reporting.formats import Table, count, ratio, share
from anonbayes.risk.syntactic import reidentification_risk

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior
    from anonbayes.risk.assessment import RiskAssessment

__all__ = ["OfficersPage", "Question", "officers_page"]

ATTACKERS = {
    "prosecutor": "Knows that the person is in the table and looks for the row: 1 / class size.",
    "journalist": "Does not know whether the person is in the table: 1 / people like this in the "
    "population. Without a population table the same as the prosecutor.",
    "marketer": "Wants as many matches as possible: expected share of rows matched right.",
    "prosecutor, overlaps counted": "The prosecutor, when cells of different rows overlap and a "
    "person could be any of them.",
    "random worlds": "Holds every compatible table for equally likely and guesses the secret.",
    "learner": "Knows the population as the release describes it, not that the person is in it.",
    "attacker": "The learner who also knows that the person is in the table.",
}
MAPPING = (
    ("Singling out", "prosecutor: highest risk, k", "people who fit one released row only"),
    ("Linkability", "marketer: average risk", "expected share of people linked to their row"),
    (
        "Inference",
        "none: risks of ARX's attackers end at the row",
        "GT_A against GT_L, relative threat Ti, groups with one secret",
    ),
)
THRESHOLD = 0.2


@dataclass(frozen=True)
class Question:
    """One of the three questions, the answer, and the figures behind it."""

    name: str
    question: str
    finding: str
    figures: Table | None


@dataclass(frozen=True)
class OfficersPage:
    """Everything on the page."""

    questions: tuple[Question, ...]
    risks: Table | None
    mapping: Table
    threshold: str
    has_cleartext: bool


def officers_page(post: Posterior, risk: RiskAssessment | None) -> OfficersPage:
    """Answer the three questions of WP29 Opinion 05/2014 as far as the data allow.

    Examples
    --------
    >>> import anonbayes as ab
    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> page = officers_page(post, post.assess(ab.datasets.load("table1")))
    >>> [q.name for q in page.questions]
    ['singling out', 'linkability', 'inference']
    """
    mapping = Table(
        ["Question of the Opinion", "Nearest risk of ARX", "Measure of this report"],
        MAPPING,
        "How the questions map to measures",
        frozenset({1, 2}),
    )
    questions = tuple(_without(post) if risk is None else _answers(risk))
    return OfficersPage(
        questions, _risks(post, risk), mapping, f"{THRESHOLD:.0%}", risk is not None
    )


def _answers(risk: RiskAssessment) -> Iterator[Question]:
    for answer in risk.wp29():
        rows = [[name, _figure(name, value)] for name, value in answer.figures.items()]
        yield Question(
            answer.name,
            answer.question,
            answer.finding,
            Table(["Figure", "Value"], rows, f"Figures on {answer.name}"),
        )


def _figure(name: str, value: float) -> str:
    if math.isnan(value):
        return "–"
    if "relative threat" in name:
        return ratio(value)
    if name.startswith(("people", "released rows", "smallest")):
        return count(value)
    return share(value)


def _without(post: Posterior) -> Iterator[Question]:
    """Answers from the release alone."""
    table = post.table
    if table.n_groups:
        found = reidentification_risk(table, threshold=THRESHOLD)
        alone = int((found.rows["class_size"] == 1).sum())
        yield Question(
            "singling out",
            "Can the row of a person be isolated in the release?",
            f"{count(alone, 'released row looks', 'released rows look')} like no other; the "
            f"smallest group has {count(table.k, 'row')}.",
            None,
        )
        average = float(found.table["average"]["marketer"])
        yield Question(
            "linkability",
            "Can a person's row be linked with what another source says about the person?",
            f"Somebody who holds the nonsensitive values of everybody in the table would link at "
            f"most {share(average)} of the rows shown, choosing at random within each class.",
            None,
        )
    yield Question(
        "inference",
        "Can a person's secret be inferred, more surely than that of anybody outside the table?",
        "This takes the cleartext: assess the release with it to learn who is threatened.",
        None,
    )


def _risks(post: Posterior, risk: RiskAssessment | None) -> Table | None:
    if not post.table.n_groups:
        return None
    if risk is None:
        found = reidentification_risk(post.table, threshold=THRESHOLD).table
        found.insert(0, "finds", "the row of a person")
    else:
        found = risk.syntactic(threshold=THRESHOLD)
    rows = [
        [
            str(name),
            str(line["finds"]),
            *(share(float(line[key])) for key in ("highest", "average", "at_risk")),
            ATTACKERS.get(str(name), ""),
        ]
        for name, line in found.iterrows()
    ]
    head = ["Attacker", "Finds", "Highest", "Average", f"Above {THRESHOLD:.0%}", "Who this is"]
    return Table(head, rows, "Risks by attacker", frozenset({1, 5}))
