"""The finding in plain words, and the questions of officers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from anonbayes.formats import Table, count, label_of, number, ratio, share, standard_error
from anonbayes.reporting.sections import lines_table
from anonbayes.risk.measures import PRESETS
from anonbayes.risk.syntactic import Answer, highest_risk, reidentification_risk

if TYPE_CHECKING:
    from anonbayes.diagnostics import DiagnosticReport
    from anonbayes.inference.posterior import Posterior
    from anonbayes.nonstochastic.relations import GroupLeakage
    from anonbayes.risk.assessment import RiskAssessment
    from anonbayes.risk.measures import Limit


# -------------------------------------------------------------------------------------------------
# The verdict in plain words: who is threatened, how much more, how surely, and is it reliable.

CERTAIN = 0.9
"""Belief from which on a right guess counts as knowledge."""


@dataclass(frozen=True)
class Point:
    """One question of the reader, a figure that answers it, and the sentences around it."""

    question: str
    figure: str
    sentences: tuple[str, ...]
    tone: str = "plain"


@dataclass(frozen=True)
class Verdict:
    """What stands on top of the page."""

    headline: str
    points: tuple[Point, ...]
    warnings: tuple[str, ...]


def verdict(
    post: Posterior,
    risk: RiskAssessment | None,
    diagnostics: DiagnosticReport,
    leakage: GroupLeakage | None,
    limits: Sequence[Limit] = (),
) -> Verdict:
    """Put the finding into words."""
    warnings = list(_warnings(risk, diagnostics, limits))
    if risk is None:
        return Verdict(
            _headline_without(post),
            (*_release_points(post, leakage), _trust(diagnostics)),
            tuple(warnings),
        )
    points = (_cost(risk), _who(risk), _how_certain(risk), _trust(diagnostics))
    return Verdict(risk.headline, points, tuple(warnings))


def _warnings(
    risk: RiskAssessment | None, diagnostics: DiagnosticReport, limits: Sequence[Limit]
) -> Iterator[str]:
    if not diagnostics.passed:
        yield f"Do not rely on the numbers below yet: {diagnostics.reason}"
    if risk is not None and risk.belief_scores.below_random_worlds:
        yield risk.belief_scores.below_text
    yield from (check.text for check in limits if check.exceeded)
    if risk is not None:
        if risk.leakage is not None and not risk.leakage.is_private:
            who = count(risk.leakage.exposed, "person is in a group", "people are in groups")
            show = "shows" if risk.leakage.exposed == 1 else "show"
            yield (
                f"{who} that {show} a single sensitive value. For anybody known to be in such a "
                "group, that value is certain."
            )
        yield from risk.remarks


def _who(risk: RiskAssessment) -> Point:
    s = risk.summary
    sentences = [
        f"An attacker who knows that a person is in the table guesses {risk.gain.text} right for "
        f"{count(s['threatened'])} of {count(s['rows'], 'person', 'people')}."
    ]
    classes = risk.breakdown()
    if len(classes) > 1 and s["threatened"] > 0:
        value, often, people = _first(classes, "GT_A", "rows")
        sentences.append(
            f"People with {value} are affected most: {share(often)} of {count(people)}."
        )
    return Point("Who is threatened?", share(s["GT_A"]), tuple(sentences))


def _cost(risk: RiskAssessment) -> Point:
    s = risk.summary
    n = int(s["rows"])
    question = "What does being in the table cost?"
    points = share(abs(s["RGT_A"])).removesuffix("%")
    about = (
        "A learner, who knows only what the release says about the population, guesses "
        f"{share(s['GT_L'])} of the secrets right; knowing that a person is in the table "
        f"{'adds' if s['RGT_A'] >= 0 else 'costs'} "
        f"{points} percentage points."
    )
    if not np.isfinite(s["max_Ti"]):
        return Point(question, "Nothing", (about,))
    classes = risk.breakdown()
    value, cost, attacker, learner = _first(classes, "RGT_A", "GT_A", "GT_L")
    most = (
        f" People with {value} pay most: {share(attacker)} of their secrets are guessed right "
        f"instead of {share(learner)}."
    )
    twice = round(s["doubled"] * n)
    whom = (
        f"{count(twice, 'person is', 'people are')} threatened at least twice as much as "
        "outsiders, that is, the attacker is at least twice as sure of the secret as the learner."
        if twice
        else "Nobody is threatened at least twice as much as outsiders: the attacker is never "
        "twice as sure as the learner of a secret that it guesses right."
    )
    ratios = (
        f"{whom} The factor is at most {number(s['Ti_q50'])} for half of the threatened, "
        f"at most {number(s['Ti_q95'])} for 95% of them, and {number(s['max_Ti'])} at its largest."
    )
    caution = risk.cautions.get("max_Ti", "")
    if risk.belief_scores.below_random_worlds:
        ratios, caution = "The relative threats cannot be relied on; see the warning above.", ""
    return Point(
        question,
        f"{points} points" if s["RGT_A"] > 0 else "Nothing on average",
        (
            about + (most if cost > 0 and len(classes) > 1 else ""),
            ratios,
            *([f"Take these factors with care. {caution}"] if caution else []),
        ),
    )


def _first(classes: pd.DataFrame, *columns: str) -> tuple[Any, ...]:
    """Label and figures of the class with the largest value of the first column."""
    line = classes.sort_values(columns[0], ascending=False, kind="stable")[list(columns)].iloc[0]
    return (label_of(line.name), *(float(x) for x in line))


def _how_certain(risk: RiskAssessment) -> Point:
    rows = risk.threatened
    level = rows["p_A"].to_numpy(float)
    right = (risk.rows["threatened_A"] > 0) & (risk.rows["p_A"] >= CERTAIN)
    sure = int(risk.people[right].sum())
    highest = float(level.max()) if len(level) else 0.0
    figure = f"At most {share(highest)}" if len(level) else "Nobody"
    certain: tuple[str, ...] = ()
    if risk.leakage is not None and risk.leakage.exposed:
        figure = "For certain"
        whose = count(
            risk.leakage.exposed,
            "person, whose group shows",
            "people, whose groups show",
        )
        alone = (
            "no guess is right"
            if not len(level)
            else "some right guesses are just as certain"
            if highest > 1 - 1e-9
            else f"the attacker is at most {share(highest)} sure of a secret guessed right"
        )
        certain = (
            f"Somebody who also knows the groups is certain about {whose} a single value. From "
            f"attributes alone, {alone}.",
        )
    return Point(
        "How sure is the attacker?",
        figure,
        (
            *certain,
            f"The attacker is at least {CERTAIN:.0%} sure of the true secret of "
            f"{count(sure, 'person', 'people')}."
            if sure
            else f"There is nobody whose secret the attacker is at least {CERTAIN:.0%} sure of.",
            _believed(risk),
            _simulation_error(risk),
        ),
    )


def _believed(risk: RiskAssessment) -> str:
    scores = risk.belief_scores
    if "A" in scores.cautions or scores.below_random_worlds:
        return scores.worst_bin("A")
    points = share(round(float(risk.summary["ece_A"]), 9)).removesuffix("%")
    return (
        "The attacker's beliefs are well calibrated: best guesses are right about as often as "
        f"stated (calibration error {points} points)."
    )


def _simulation_error(risk: RiskAssessment) -> str:
    share_error = float(risk.standard_errors["GT_A"])
    ratio_error = float(risk.standard_errors["max_Ti"])
    if share_error == 0 and risk.post.method == "crossfit":
        return (
            "Nothing about these threats was simulated. Beliefs about a person are fitted to the "
            "other folds (parts) of the table; another choice of folds would change them slightly."
        )
    if share_error == 0 and not risk.post.simulated:
        return (
            "These threats are exact under the model and its prior: nothing about them was "
            "simulated."
        )
    if np.isnan(share_error):
        return "There are too few draws to tell how much uncertainty simulation adds."
    largest = "" if np.isnan(ratio_error) else f", {number(ratio_error)} for the largest factor"
    return (
        "Simulation adds a standard error: "
        f"{standard_error(share_error, of_share=True).removeprefix('± ')} for the share of "
        f"threatened people{largest}."
    )


def _trust(diagnostics: DiagnosticReport) -> Point:
    figure, tone = {
        "passed": ("Yes", "good"),
        "failed": ("No", "bad"),
        "not assessed": ("Not known", "bad"),
    }[diagnostics.verdict]
    if diagnostics.passed and any(check.status == "caution" for check in diagnostics.checks):
        figure = "Yes, with caution"
    reason = diagnostics.reason[:1].upper() + diagnostics.reason[1:]
    return Point("Can the computation be trusted?", figure, (reason,), tone)


def _headline_without(post: Posterior) -> str:
    table = post.table
    return (
        f"{count(table.n_rows, 'row')} in {count(table.n_groups, 'group')}, the smallest of "
        f"{count(table.k)}: what this release teaches, and what its groups reveal."
    )


def _release_points(post: Posterior, leakage: GroupLeakage | None) -> Iterator[Point]:
    table = post.table
    hidden = f", {count(table.n_suppressed)} suppressed" if table.n_suppressed else ""
    yield Point(
        "What was released?",
        f"k = {table.k}, l = {table.l}",
        (
            f"{count(table.n_rows, 'row')}{hidden} in {count(table.n_groups, 'group')}. The "
            f"smallest has {count(table.k, 'row')}; the least diverse shows "
            f"{count(table.l, 'sensitive value')}.",
        ),
    )
    if leakage is not None:
        exposed = leakage.exposed
        yield Point(
            "Whose secret is certain?",
            count(exposed, "person", "people") if exposed else "Nobody's",
            (
                f"{count(len(leakage.homogeneous), 'group shows', 'groups show')} a single "
                f"value of {table.sensitive}. For anybody known to be in such a group, that "
                "value is certain.",
            ),
            "bad" if exposed else "good",
        )
    yield Point(
        "Who is threatened?",
        "Needs the cleartext",
        (
            "To say who is threatened, the attacker's guesses must be compared with the truth. "
            "Whoever holds the cleartext can do that; this page shows what the release alone "
            "can tell.",
        ),
    )


# -------------------------------------------------------------------------------------------------
# The page for data protection officers: three questions, and the risks that ARX users know.

ATTACKERS = {
    "prosecutor": "Knows that the person is in the table and looks for the row: 1 / rows that "
    "look alike.",
    "journalist": "Does not know whether the person is in the table: 1 / people in the population "
    "who look alike. Without a population table, the same as the prosecutor.",
    "marketer": "Wants as many matches as possible: expected share of rows matched correctly.",
    "prosecutor, overlaps counted": "The prosecutor, if cells of different rows overlap, so that "
    "the person's row could be any of them.",
    "random worlds": "Considers every compatible table equally likely, and guesses the secret.",
    "learner": "Knows the population as the release describes it, but not that the person is in "
    "the table.",
    "attacker": "Knows what the learner knows, and that the person is in the table.",
}
MAPPING = (
    ("Singling out", "prosecutor: highest risk, k", "people who match exactly one released row"),
    ("Linkability", "marketer: average risk", "expected share of people linked to their row"),
    (
        "Inference",
        "none: ARX's attackers look for the row only",
        "GT_A against GT_L, relative threat Ti, groups with a single secret",
    ),
)
CLAUSES = (
    (
        "WP29 Opinion 05/2014: singling out, linkability, inference",
        "the three answers above, each with its figures",
    ),
    (
        "ISO/IEC 27559:2022, 7.2.4 Attribute types",
        "Model: the sensitive column, and the attributes that the attacker is assumed to know",
    ),
    (
        "ISO/IEC 27559:2022, 7.3.2 Maximum or average risk",
        "Risks by attacker: the largest probability for one person, and the share of people found "
        "or guessed right",
    ),
    (
        "ISO/IEC 27559:2022, 7.3.3 Population or sample-based attack",
        "Risks by attacker: the prosecutor and the attacker know who is in the table, the "
        "journalist and the learner do not",
    ),
    (
        "ISO/IEC 27559:2022, 8.2.2 Quantifying identifiability",
        "Measures, Certainty, and Risks by attacker",
    ),
    (
        "ISO/IEC 27559:2022, 8.2.3 Adversarial testing",
        "Verdict and Threatened rows: an attack on every person, compared with the cleartext",
    ),
    (
        "ISO/IEC 27559:2022, 8.3.4 Re-evaluation",
        "Repeat it: the command, the seed and the versions; anonbayes compare sets another "
        "release beside this one",
    ),
    (
        "EMA policy 0070, anonymisation report: the three criteria of the Opinion or the risk of "
        "re-identification, and data utility",
        "the three answers and the published thresholds above; Measures: Usefulness",
    ),
    (
        "Not answered by this report",
        "who gets access to the data and under which controls (ISO/IEC 27559, clauses 6 and 9), "
        "direct identifiers, free text",
    ),
)
THRESHOLD = 0.2


@dataclass(frozen=True)
class OfficersPage:
    """Everything on the page: answers with their figures, and tables."""

    answers: tuple[tuple[Answer, Table | None], ...]
    risks: Table | None
    mapping: Table
    clauses: Table
    presets: Table
    threshold: str
    has_cleartext: bool


def officers_page(post: Posterior, risk: RiskAssessment | None) -> OfficersPage:
    """Answer the three questions of WP29 Opinion 05/2014 as far as the data allow."""
    answers = _without(post) if risk is None else risk.wp29()
    questions = ["Question of the Opinion", "Nearest risk of ARX", "Measure of this report"]
    clauses = ["Clause", "Where this report answers it"]
    return OfficersPage(
        tuple((answer, _figures(answer)) for answer in answers),
        _risks(post, risk),
        Table(questions, MAPPING, "How the questions map to measures", frozenset({1, 2})),
        Table(clauses, CLAUSES, "Clauses to answer, and where this report does", frozenset({1})),
        _presets(post),
        f"{THRESHOLD:.0%}",
        risk is not None,
    )


def _presets(post: Posterior) -> Table:
    """Named thresholds, and whether the prosecutor's highest risk meets them."""
    found = highest_risk(post.table)
    rows = [
        [name, share(preset.threshold), share(found),
         "exceeded" if found > preset.threshold else "kept", preset.about, preset.source]
        for name, preset in PRESETS.items()
    ]  # fmt: skip
    head = ["Preset", "Threshold", "Highest risk", "Finding", "Who asks for it", "Source"]
    return Table(head, rows, "Named thresholds of the highest risk", frozenset({3, 4, 5}))


def _figures(answer: Answer) -> Table | None:
    rows = [[name, _figure(name, value)] for name, value in answer.figures.items()]
    return Table(["Figure", "Value"], rows, f"Figures on {answer.name}") if rows else None


def _figure(name: str, value: float) -> str:
    if math.isnan(value):
        return "–"
    if "relative threat" in name:
        return ratio(value)
    if name.startswith(("people", "released rows", "smallest")):
        return count(value)
    return share(value)


def _without(post: Posterior) -> Iterator[Answer]:
    """Answers from the release alone."""
    table = post.table
    if table.n_groups:
        found = reidentification_risk(table, threshold=THRESHOLD)
        alone = int((found.rows["class_size"] == 1).sum())
        yield Answer(
            "singling out",
            f"{count(alone, 'released row looks', 'released rows look')} like no other; the "
            f"smallest group has {count(table.k, 'row')}.",
        )
        average = float(found.table["average"]["marketer"])
        yield Answer(
            "linkability",
            "Somebody who knows the attributes of everybody in the table and chooses at random "
            f"among rows that look alike would link at most {share(average)} of the rows shown.",
        )
    yield Answer(
        "inference",
        "This needs the cleartext: assess the release with it to learn who is threatened.",
    )


def _risks(post: Posterior, risk: RiskAssessment | None) -> Table | None:
    if not post.table.n_groups:
        return None
    if risk is None:
        found = reidentification_risk(post.table, threshold=THRESHOLD).table
        found.insert(0, "finds", "the row of a person")
    else:
        found = risk.syntactic(threshold=THRESHOLD)
    return lines_table(
        found.assign(who=[ATTACKERS.get(str(name), "") for name in found.index]),
        "Attacker",
        {
            "finds": ("Finds", str),
            "highest": ("Largest probability for one person", share),
            "average": ("Share of people found or guessed right", share),
            "at_risk": (f"Above {THRESHOLD:.0%}", share),
            "who": ("Who this is", str),
        },
        "Risks by attacker",
    )
