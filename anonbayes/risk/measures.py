"""The measures of an assessment, each declared once, and limits on them.

Summaries, reports, limits, comparisons, JSON and the documentation read `MEASURES`. To add a
measure, add an entry; see "Add a measure" in the recipes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from anonbayes.arrays import Floats, Ints, read_number
from anonbayes.errors import AnonbayesError, nearest
from anonbayes.formats import count, number, ratio, share, standard_error
from anonbayes.risk.faithfulness import Faithfulness
from anonbayes.risk.threats import (
    Replicates,
    Threats,
    calibration_error,
    log_loss,
    weighted_quantiles,
    weighted_skewness,
)

if TYPE_CHECKING:
    from anonbayes.risk.assessment import RiskAssessment
    from anonbayes.tables.table import ReleasedTable

NOISY = 0.02
"""Standard error above which ETV, whose terms are unbounded, is not reported."""
QUANTILES = (0.5, 0.75, 0.9, 0.95, 0.99)
THREAT, RELATIVE, CALIBRATION, USEFULNESS, ERRORS = GROUPS = (
    "Threat to people",
    "Relative threat",
    "Can stated certainty be believed?",
    "Usefulness",
    "Errors of the probabilities",
)
"""Headings of the measures in reports, in order."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Everything from which a measure can be computed.

    `threats` are by belief (``A`` attacker, ``L`` learner, ``RW`` random worlds, ``I`` ideal);
    `people` is the number of people of each pair; `baseline` is the share guessed right from the
    frequencies of the secrets alone.
    """

    threats: Threats
    people: Ints
    faithfulness: Faithfulness
    baseline: float

    @cached_property
    def n(self) -> int:
        """Number of people."""
        return int(self.people.sum())

    def mean(self, values: Floats) -> float:
        """Average a number per pair over people."""
        return float(values @ self.people) / self.n

    def guessed(self, belief: str) -> float:
        """Share of the people who are threatened under a belief."""
        return self.mean(self.threats[belief].threatened)

    def log_loss(self, belief: str) -> float:
        """Mean of ``-log max(p(truth), 1e-4)``."""
        return self.mean(log_loss(self.threats[belief].truth))

    def absolute_error(self, belief: str) -> float:
        """``sum_j sum_s |1[s_j = s] - p(s | r_j)|``: twice what is missing at the truth."""
        return float((2.0 * (1.0 - self.threats[belief].secret)) @ self.people)

    @cached_property
    def ratio(self) -> Floats:
        """``Ti = p_A(s | r) / p_L(s | r)`` of every pair (Groups (16))."""
        return np.asarray(self.threats["A"].level / self.threats["L"].level)

    @cached_property
    def _hit(self) -> tuple[Floats, Floats]:
        """Ti of the pairs that the attacker threatens, and the number of people of each."""
        threatened = self.threats["A"].threatened
        hit = threatened > 0
        return self.ratio[hit], (threatened * self.people)[hit]

    @property
    def threatened(self) -> float:
        """Number of threatened people; ties count in part."""
        return float(self._hit[1].sum())

    @property
    def largest_ratio(self) -> float:
        """Largest Ti of any threatened person."""
        return float(self._hit[0].max()) if len(self._hit[0]) else np.nan

    @cached_property
    def quantiles(self) -> dict[float, float]:
        """Quantiles of Ti among threatened people."""
        return dict(zip(QUANTILES, weighted_quantiles(*self._hit, QUANTILES), strict=True))

    def at_least(self, factor: float) -> float:
        """Share of the people who are threatened with at least this Ti."""
        values, weight = self._hit
        return float(weight[values >= factor].sum()) / self.n

    def calibration_error(self, belief: str) -> float:
        """Mean gap between the belief in the best guess and how often it is right."""
        return calibration_error(self.threats[belief], self.people)

    @property
    def surest(self) -> float:
        """Largest belief of the attacker in the truth about anybody."""
        return float(self.threats["A"].truth.max())

    @property
    def usable_etv(self) -> tuple[float, float]:
        """Empirical total variation and its error; NaN if it is too noisy."""
        found = self.faithfulness
        if found.etv_error > NOISY:
            return np.nan, np.nan
        return found.etv, found.etv_error

    @property
    def skewness(self) -> float:
        """Skewness of log2 Ti among threatened people."""
        return weighted_skewness(np.log2(self._hit[0]), self._hit[1])


@dataclass(frozen=True)
class Measure:
    """One measure of a release."""

    name: str  # as in RiskAssessment.summary
    title: str  # a few words for a heading
    kind: str  # how it is shown: share, count, factor, nats, number
    group: str  # heading in the report, one of GROUPS
    sentence: str  # what it means
    of: Callable[[Evaluation], float]
    beliefs: str = ""  # letters of the beliefs it depends on; A and L are simulated
    stated: bool = False  # depends on probabilities: an overconfident belief misleads
    error: Callable[[Evaluation], float] | None = None  # if replicates do not give it
    limit: str | None = None  # name of the setting for its largest acceptable value
    subject: str = ""  # of a sentence about the limit; by default "The " and the title
    is_threat: bool = False  # can be used to compare releases: smaller is better

    def show(self, value: float) -> str:
        """Format a value for people."""
        show = {"share": share, "count": count, "factor": ratio}.get(self.kind, number)
        return show(value)

    def show_error(self, error: float) -> str:
        """Format a standard error for people."""
        return standard_error(error, of_share=self.kind == "share")

    def range(self, people: float) -> tuple[float, float]:
        """Return the smallest and the largest possible value."""
        least = -np.inf if self.name in ("skewness", "log_loss_gain") else 0.0
        return least, {"share": 1.0, "count": people}.get(self.kind, np.inf)

    def check_limit(self, limit: float) -> None:
        """Raise `AnonbayesError` for a limit with which the measure cannot be compared."""
        read_number(str(self.limit), limit)
        if self.kind == "share" and not 0 <= limit <= 1:
            raise AnonbayesError(
                f"{self.limit}={limit!r} must be a share of the people, between 0 and 1."
            )
        if self.kind == "factor" and not limit > 0:
            raise AnonbayesError(f"{self.limit}={limit!r} must be a positive factor, such as 2.")
        if self.kind in ("nats", "number") and not limit >= 0:
            raise AnonbayesError(f"{self.limit}={limit!r} must be a number of at least 0.")


def _quantile(q: float, title: str, part: str) -> Measure:
    sentence = f"{part} of the threatened people have a relative threat of at most this."
    return Measure(
        f"Ti_q{round(100 * q)}", title, "factor", RELATIVE, sentence, lambda e: e.quantiles[q],
        "AL", stated=True, is_threat=q >= 0.95,
        subject=f"The {q:.0%} quantile of the relative threat",
    )  # fmt: skip


# fmt: off
MEASURES: dict[str, Measure] = {m.name: m for m in (
    Measure("GT_A", "Threatened by an attacker", "share", THREAT,
            "Share of the people whose secret is guessed right by an attacker who knows that they "
            "are in the table.",
            lambda e: e.guessed("A"), "A", limit="max_threatened",
            subject="The share of threatened people", is_threat=True),
    Measure("GT_L", "Guessed from the population", "share", THREAT,
            "Share of the people whose secret is guessed right by somebody who only learned about "
            "the population.",
            lambda e: e.guessed("L"), "L"),
    Measure("GT_RW", "Threatened under random worlds", "share", THREAT,
            "Share guessed right by an attacker to whom all compatible tables are equally likely.",
            lambda e: e.guessed("RW")),
    Measure("RGT_A", "Cost of being in the table", "share", THREAT,
            "How much more often the attacker is right than the learner: what being in the table "
            "costs.",
            lambda e: max(0.0, e.guessed("A") - e.guessed("L")), "AL", limit="max_cost",
            is_threat=True),
    Measure("RF", "Relative faithfulness", "share", USEFULNESS,
            "1 if the release teaches as much about the population as the cleartext, 0 if it "
            "teaches nothing.",
            lambda e: e.faithfulness.rf, error=lambda e: e.faithfulness.tv_error),
    Measure("ETV", "Empirical total variation", "share", USEFULNESS,
            "Distance between what the cleartext and the release teach, as in Groups (21); not "
            "reported if the estimate is too noisy (use RF instead).",
            lambda e: e.usable_etv[0], error=lambda e: e.usable_etv[1]),
    Measure("ABS_A", "Absolute error, attacker", "number", ERRORS,
            "Sum over people and values of the error of the attacker's probabilities.",
            lambda e: e.absolute_error("A"), "A"),
    Measure("ABS_L", "Absolute error, learner", "number", ERRORS,
            "The same for the learner's probabilities.",
            lambda e: e.absolute_error("L"), "L"),
    Measure("ABS_RW", "Absolute error, random worlds", "number", ERRORS,
            "The same when all compatible tables are equally likely.",
            lambda e: e.absolute_error("RW")),
    Measure("baseline", "Baseline accuracy", "share", USEFULNESS,
            "Share guessed right by always naming the most frequent value.",
            lambda e: e.baseline),
    Measure("ideal", "Ideal accuracy", "share", USEFULNESS,
            "Share guessed right from a model of the population learned from the cleartext.",
            lambda e: e.guessed("I")),
    Measure("max_Ti", "Largest relative threat", "factor", RELATIVE,
            "How many times as sure of a correctly guessed secret the attacker is as the learner, "
            "at most.",
            lambda e: e.largest_ratio, "AL", stated=True, limit="max_relative_threat",
            is_threat=True),
    Measure("max_p_A", "Highest certainty", "share", THREAT,
            "The attacker's highest belief in anybody's true secret.",
            lambda e: e.surest, "A", stated=True, limit="max_belief",
            subject="The attacker's highest belief in a true secret"),
    _quantile(0.5, "Median relative threat", "Half"),
    _quantile(0.75, "75% quantile", "Three quarters"),
    _quantile(0.9, "90% quantile", "90%"),
    _quantile(0.95, "95% quantile", "95%"),
    _quantile(0.99, "99% quantile", "99%"),
    Measure("doubled", "At least doubled", "share", RELATIVE,
            "Share of the people who are threatened with a relative threat of 2 or more.",
            lambda e: e.at_least(2.0), "AL", stated=True, limit="max_doubled",
            subject="The share of people with a relative threat of 2 or more", is_threat=True),
    Measure("skewness", "Skewness", "number", RELATIVE,
            "Asymmetry of log2 of the relative threat: positive if a few people are threatened "
            "much more than the rest.",
            lambda e: e.skewness, "AL", stated=True),
    Measure("log_loss_A", "Log loss, attacker", "nats", CALIBRATION,
            "Mean surprise of the attacker at the true secrets, in nats: the smaller, the better "
            "the attacker knows them.",
            lambda e: e.log_loss("A"), "A"),
    Measure("log_loss_L", "Log loss, learner", "nats", CALIBRATION,
            "The same for the learner, who only knows the population.",
            lambda e: e.log_loss("L"), "L"),
    Measure("log_loss_RW", "Log loss, random worlds", "nats", CALIBRATION,
            "The same when all compatible tables are equally likely. An attacker with a larger log "
            "loss is not credible.",
            lambda e: e.log_loss("RW")),
    Measure("log_loss_gain", "What being in the table teaches", "nats", CALIBRATION,
            "Log loss of the learner minus that of the attacker: what the attacker learns on "
            "average about a person's secret from knowing that the person is in the table. "
            "Negative if that knowledge misleads.",
            lambda e: e.log_loss("L") - e.log_loss("A"), "AL", limit="max_log_loss_gain",
            subject="What being in the table teaches about a secret (nats)", is_threat=True),
    Measure("ece_A", "Calibration error, attacker", "share", CALIBRATION,
            "Mean gap between how sure the attacker is of a best guess and how often it is right.",
            lambda e: e.calibration_error("A"), "A"),
    Measure("ece_L", "Calibration error, learner", "share", CALIBRATION,
            "The same for the learner.",
            lambda e: e.calibration_error("L"), "L"),
    Measure("threatened", "Threatened people", "count", THREAT,
            "Number of people whose secret the attacker guesses right.",
            lambda e: e.threatened, "A"),
    Measure("rows", "People", "count", THREAT,
            "Number of people in the cleartext.",
            lambda e: float(e.n)),
)}
# fmt: on
"""All measures, in the order of summaries."""

LIMITS: dict[str, Measure] = {m.limit: m for m in MEASURES.values() if m.limit is not None}
"""Measures on which a limit can be set, by the name of the setting."""


def evaluate(
    evaluation: Evaluation, replicates: Replicates, measures: Mapping[str, Measure] = MEASURES
) -> tuple[pd.Series, pd.Series]:
    """Compute every measure and its simulation error."""
    value = {name: float(measure.of(evaluation)) for name, measure in measures.items()}
    error = dict.fromkeys(measures, 0.0)
    drawn = [m for m in measures.values() if m.beliefs]
    error |= {m.name: m.error(evaluation) for m in measures.values() if m.error is not None}
    error |= {m.name: replicates.otherwise for m in drawn}
    if replicates.threats:
        again = [replace(evaluation, threats=evaluation.threats | t) for t in replicates.threats]
        values = np.array([[measure.of(e) for measure in drawn] for e in again])
        errors = replicates.error(values).tolist()
        error |= {m.name: e for m, e in zip(drawn, errors, strict=True)}
    return (
        pd.Series(value, name="measure", dtype=float),
        pd.Series(error, name="standard error", dtype=float),
    )


def measure_table() -> str:
    """Return all measures as a Markdown table, which docs/risk-json.md shows."""
    lines = ["| name | what | limit |", "|---|---|---|"]
    for m in MEASURES.values():
        limit = f"`{m.limit}`" if m.limit else ""
        lines.append(f"| `{m.name}` | {m.title}. {m.sentence} | {limit} |")
    return "\n".join(lines) + "\n"


# -------------------------------------------------------------------------------------------------
# Limits, and whether an assessment keeps them.

HIGHEST = "The highest risk of re-identification"


@dataclass(frozen=True)
class Limit:
    """A limit and the value compared with it.

    Attributes
    ----------
    name : str
        Name of the setting.
    measure : str
        The measure, such as one of ``RiskAssessment.summary``.
    limit, found, standard_error : float
        The limit, the value of the measure, and its Monte-Carlo error.
    least : bool
        Whether the limit is a smallest instead of a largest acceptable value.

    Examples
    --------
    >>> Limit("max_error", "error", 0.1, found=0.2).text
    'error is 0.2, above the limit of 0.1.'
    >>> Limit("require_convergence", "converged", 1, found=0, least=True).text
    'The chains have not converged.'
    >>> Limit("min_error", "error", 0.1, found=0.2, least=True).exceeded
    False
    """

    name: str
    measure: str
    limit: float
    found: float
    standard_error: float = 0.0
    least: bool = False

    @property
    def exceeded(self) -> bool:
        """Whether the limit is violated; an undefined value (NaN) keeps it."""
        return self.found < self.limit if self.least else self.found > self.limit

    @property
    def close(self) -> bool:
        """Whether simulation error could reverse the comparison (two standard errors)."""
        return abs(self.found - self.limit) <= 2 * self.standard_error

    @property
    def text(self) -> str:
        """The comparison in a sentence."""
        if self.measure == "converged":
            return f"The chains have {'not ' if self.exceeded else ''}converged."
        if self.measure == "acceptable":
            kept = count(self.found, "release keeps", "releases keep")
            return f"{kept if self.found else 'No release keeps'} all limits."
        if self.measure == HIGHEST:
            return f"{HIGHEST} is {share(self.found)}, {self._beside} of {share(self.limit)}."
        if self.measure not in MEASURES:
            return f"{self.measure} is {self.found:.4g}, {self._beside} of {self.limit:g}."
        measure = MEASURES[self.measure]
        what = measure.subject or f"The {measure.title[0].lower()}{measure.title[1:]}"
        show = share if measure.kind == "share" else number
        if math.isnan(self.found):
            return f"{what} is undefined because nobody is threatened; the limit is kept."
        doubt = ""
        if self.close and self.standard_error > 0:
            error = measure.show_error(self.standard_error)
            doubt = f" The simulation error ({error}) could reverse this: use more draws."
        return f"{what} is {show(self.found)}, {self._beside} of {show(self.limit)}.{doubt}"

    @property
    def _beside(self) -> str:
        """How the measure compares with the limit, in words."""
        if self.least:
            return "below the required minimum" if self.exceeded else "meeting the required minimum"
        return "above the limit" if self.exceeded else "within the limit"

    def to_dict(self) -> dict[str, object]:
        """Return plain types for JSON."""
        return {
            "name": self.name,
            "measure": self.measure,
            "limit": self.limit,
            "found": self.found if math.isfinite(self.found) else None,
            "exceeded": self.exceeded,
        }


@dataclass(frozen=True)
class Preset:
    """A published threshold for the risk of re-identification."""

    threshold: float
    about: str
    source: str


PRESETS: Mapping[str, Preset] = {
    "ema_0070": Preset(
        0.09,
        "European Medicines Agency, policy 0070: clinical reports made public",
        "EMA/90915/2016, External guidance on the implementation of policy 0070, chapter 3; the "
        "figure, for the maximum risk, as reported by Kniola, PhUSE 2016, paper DH09",
    ),
    "health_canada": Preset(
        0.09,
        "Health Canada: public release of clinical information",
        "Health Canada, Public Release of Clinical Information: guidance document (12 March 2019); "
        "the figure as commonly quoted, the document itself was not at hand",
    ),
    "cell_size_11": Preset(
        1 / 11,
        "US Medicare and Medicaid: no count of 1 to 10 people is published",
        "CMS cell size suppression policy (hhs.gov/guidance/document/cms-cell-suppression-policy); "
        "written for tables of counts",
    ),
    "group_of_5": Preset(
        0.2,
        "Groups of at least 5: the rule of thumb that data custodians have long used",
        "El Emam, Guide to the De-Identification of Personal Health Information (2013), "
        "chapter Cell Size Precedents",
    ),
    "group_of_20": Preset(
        0.05,
        "Groups of at least 20: public files of patient data in Canada and the US",
        "El Emam, Guide to the De-Identification of Personal Health Information (2013), "
        "chapter Cell Size Precedents",
    ),
}
"""Named thresholds, each with its source."""


def check_preset(table: ReleasedTable, name: str) -> Limit:
    """Compare the highest prosecutor risk in a release with a named threshold."""
    from anonbayes.risk.syntactic import highest_risk

    if name not in PRESETS:
        raise AnonbayesError(f"preset {name!r} is not valid. {nearest(name, PRESETS)}")
    return Limit(f"preset.{name}", HIGHEST, PRESETS[name].threshold, highest_risk(table))


def check_measure_limits(limits: Mapping[str, float], *, what: str) -> None:
    """Check the names of limited measures before anything expensive."""
    for name in limits:
        if name not in MEASURES:
            raise AnonbayesError(f"{what}: {name!r} is not a measure. {nearest(name, MEASURES)}")


def check_limit_values(**limits: float | None) -> None:
    """Check the values of limits before anything expensive."""
    for name, limit in limits.items():
        if name not in LIMITS:
            raise AnonbayesError(
                f"{name!r} is not a limit of an assessment. {nearest(name, LIMITS)}"
            )
        if limit is not None:
            LIMITS[name].check_limit(limit)


def check_limits(
    risk: RiskAssessment,
    *,
    at_most: Mapping[str, float] | None = None,
    at_least: Mapping[str, float] | None = None,
    **limits: float | None,
) -> tuple[Limit, ...]:
    """Compare an assessment with limits on its measures.

    Parameters
    ----------
    risk : RiskAssessment
        The assessment.
    at_most, at_least : mapping of str to float, optional
        Largest and smallest acceptable values, by measure of ``risk.summary``, such as
        ``{"Ti_q95": 2.0}``.
    **limits : float, optional
        Largest acceptable values by the names in `LIMITS`, such as ``max_cost`` for ``RGT_A`` and
        ``max_doubled`` for ``doubled``. None sets no limit.

    Examples
    --------
    >>> import anonbayes as ab
    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> risk = post.assess(ab.datasets.load("table1"))
    >>> checks = check_limits(risk, max_relative_threat=1.2, max_threatened=1, max_cost=0.05)
    >>> [check.exceeded for check in checks]
    [True, False, True]
    >>> check_limits(risk, at_least={"RF": 0.99})[0].exceeded
    True
    """
    check_limit_values(**limits)
    check_measure_limits(at_most or {}, what="at_most")
    check_measure_limits(at_least or {}, what="at_least")

    def compared(name: str, measure: str, limit: float, least: bool = False) -> Limit:
        value, error = float(risk.summary[measure]), float(risk.standard_errors[measure])
        return Limit(name, measure, limit, value, error, least)

    return (
        *(compared(n, LIMITS[n].name, x) for n, x in limits.items() if x is not None),
        *(compared(f"at_most.{n}", n, x) for n, x in (at_most or {}).items()),
        *(compared(f"at_least.{n}", n, x, True) for n, x in (at_least or {}).items()),
    )


if __name__ == "__main__":  # python -m anonbayes.risk.measures docs/risk-json.md
    import sys
    from pathlib import Path

    from anonbayes.io.files import write_text

    page = Path(sys.argv[1])
    start = page.read_text(encoding="utf-8").split("| name | what | limit |")[0]
    write_text(page, start + measure_table())
