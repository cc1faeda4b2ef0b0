"""The verdict in plain words: who is threatened, how much more, how surely, and is it reliable."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from anonbayes.reporting.formats import count, number, share, standard_error, times

if TYPE_CHECKING:
    from anonbayes.diagnostics import DiagnosticReport
    from anonbayes.guarantees.nonstochastic import GroupLeakage
    from anonbayes.inference.posterior import Posterior
    from anonbayes.reporting.limits import LimitCheck
    from anonbayes.risk.assessment import RiskAssessment

__all__ = ["Point", "Verdict", "verdict"]

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
    """What stands on top of the page.

    Attributes
    ----------
    headline : str
        The finding in a sentence.
    points : tuple of Point
        Question by question.
    warnings : tuple of str
        What a reader must know before believing the rest.
    """

    headline: str
    points: tuple[Point, ...]
    warnings: tuple[str, ...]


def verdict(
    post: Posterior,
    risk: RiskAssessment | None,
    diagnostics: DiagnosticReport,
    leakage: GroupLeakage | None,
    limits: Sequence[LimitCheck] = (),
) -> Verdict:
    """Put the finding into words.

    Examples
    --------
    >>> import anonbayes as ab
    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> risk = post.assess(ab.datasets.load("table1"))
    >>> [p.question for p in verdict(post, risk, ab.diagnose(post), risk.leakage).points][:2]
    ['Who is threatened?', 'How much more than anybody else?']
    """
    warnings = list(_warnings(risk, diagnostics, limits))
    if risk is None:
        return Verdict(
            _headline_without(post),
            (*_release_points(post, leakage), _trust(diagnostics)),
            tuple(warnings),
        )
    points = (_who(risk), _how_much_more(risk), _how_certain(risk), _trust(diagnostics))
    return Verdict(_headline(risk), points, tuple(warnings))


def _warnings(
    risk: RiskAssessment | None, diagnostics: DiagnosticReport, limits: Sequence[LimitCheck]
) -> Iterator[str]:
    if not diagnostics.passed:
        yield f"The numbers below cannot be relied upon yet: {diagnostics.reason}"
    yield from (check.text for check in limits if check.exceeded)
    if risk is not None:
        if risk.leakage is not None and not risk.leakage.is_private:
            who = count(risk.leakage.exposed, "person is", "people are")
            yield f"{who} in groups that show a single sensitive value: it is revealed for sure."
        yield from risk.remarks


def _headline(risk: RiskAssessment) -> str:
    s = risk.summary
    n = int(s["rows"])
    if round(s["threatened"]) == 0:
        return f"None of {count(n, 'person', 'people')} is threatened."
    are = "is" if round(s["threatened"]) == 1 else "are"
    return (
        f"{count(s['threatened'])} of {count(n, 'person', 'people')} {are} threatened, "
        f"{count(s['doubled'] * n)} of them at least twice as much as people outside the table."
    )


def _who(risk: RiskAssessment) -> Point:
    s = risk.summary
    sentences = [
        f"An attacker who knows that somebody is in the table guesses {risk.gain.text} right for "
        f"{count(s['threatened'], 'person', 'people')} of {count(s['rows'])}."
    ]
    classes = risk.breakdown()
    if len(classes) > 1 and s["threatened"] > 0:
        value, often, people = _first(classes, "GT_A", "rows")
        sentences.append(
            f"Most often with {value}: {share(often)} of its {count(people, 'person', 'people')}."
        )
    return Point("Who is threatened?", share(s["GT_A"]), tuple(sentences))


def _how_much_more(risk: RiskAssessment) -> Point:
    s = risk.summary
    n = int(s["rows"])
    question = "How much more than anybody else?"
    about = (
        f"Whoever only learned about the general population guesses {share(s['GT_L'])} right; "
        f"being in the table adds {number(100 * s['RGT_A'], 2)} percentage points."
    )
    if not np.isfinite(s["max_Ti"]):
        return Point(question, "Nothing", (about,))
    classes = risk.breakdown()
    value, cost, attacker, learner = _first(classes, "RGT_A", "GT_A", "GT_L")
    most = f" Most with {value}: {share(attacker)} instead of {share(learner)}."
    return Point(
        question,
        f"Up to {times(s['max_Ti'])}",
        (
            about + (most if cost > 0 and len(classes) > 1 else ""),
            f"Half of the threatened face at most {times(s['Ti_q50'])} the belief of the "
            f"population model, 95% at most {times(s['Ti_q95'])}; "
            f"{count(s['doubled'] * n, 'person faces', 'people face')} 2 times or more.",
        ),
    )


def _first(classes: pd.DataFrame, *columns: str) -> tuple[Any, ...]:
    """Label and figures of the class with the largest value of the first column."""
    line = classes.sort_values(columns[0], ascending=False, kind="stable")[list(columns)].iloc[0]
    return (str(line.name), *(float(x) for x in line))


def _how_certain(risk: RiskAssessment) -> Point:
    rows = risk.threatened
    level = rows["p_A"].to_numpy(float)
    right = (risk.rows["threatened_A"] > 0) & (risk.rows["p_A"] >= CERTAIN)
    sure = int(risk.people[right].sum())
    highest = float(level.max()) if len(level) else 0.0
    return Point(
        "How surely?",
        f"At most {share(highest)}" if len(level) else "Nobody",
        (
            f"The attacker is at least {CERTAIN:.0%} sure of the right secret of "
            f"{count(sure, 'person', 'people') if sure else 'nobody'}.",
            _simulation_error(risk),
        ),
    )


def _simulation_error(risk: RiskAssessment) -> str:
    share_error = float(risk.standard_errors["GT_A"])
    ratio_error = float(risk.standard_errors["max_Ti"])
    if share_error == 0 and risk.post.method == "exact":
        return (
            "These threats are exact under the model and its prior: nothing about them was "
            "simulated."
        )
    if np.isnan(share_error):
        return "Too few draws to say how much simulation adds to the uncertainty."
    largest = "" if np.isnan(ratio_error) else f", of the largest factor {number(ratio_error)}"
    return (
        "Simulation adds a standard error: of the share of threatened people "
        f"{standard_error(share_error, of_share=True).removeprefix('± ')}{largest}."
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
        f"{count(table.k)}: what this release teaches, and what its groups give away."
    )


def _release_points(post: Posterior, leakage: GroupLeakage | None) -> Iterator[Point]:
    table = post.table
    hidden = f", {count(table.n_suppressed)} suppressed" if table.n_suppressed else ""
    yield Point(
        "What was released?",
        f"k = {table.k}, l = {table.l}",
        (
            f"{count(table.n_rows, 'row')}{hidden} in {count(table.n_groups, 'group')}. In the "
            f"smallest, {count(table.k, 'person shares', 'people share')} the same cells; the "
            f"least diverse shows {count(table.l, 'sensitive value')}.",
        ),
    )
    if leakage is not None:
        exposed = leakage.exposed
        yield Point(
            "Whose secret is plain to see?",
            count(exposed, "person", "people") if exposed else "Nobody's",
            (
                f"{count(len(leakage.homogeneous), 'group shows', 'groups show')} a single "
                f"sensitive value of {table.sensitive}; who is known to be in one has no secret "
                "left.",
            ),
            "bad" if exposed else "good",
        )
    yield Point(
        "Who is threatened?",
        "Needs the cleartext",
        (
            "Threats to single people compare an attacker's guess with the truth. Whoever holds "
            "the cleartext can assess it; this page shows all that the release alone can tell.",
        ),
    )
