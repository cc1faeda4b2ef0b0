"""What is acceptable, and whether an assessment keeps to it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anonbayes.errors import AnonbayesError, nearest
from anonbayes.formats import count, number, share
from anonbayes.risk.measures import LIMITS, MEASURES

if TYPE_CHECKING:
    from anonbayes.risk.assessment import RiskAssessment
    from anonbayes.tables.table import ReleasedTable

__all__ = [
    "PRESETS",
    "Limit",
    "Preset",
    "check_limit_values",
    "check_limits",
    "check_measure_limits",
    "check_preset",
]


HIGHEST = "The highest risk of re-identification"


@dataclass(frozen=True)
class Limit:
    """One limit and what was found.

    Attributes
    ----------
    name : str
        Name of the setting.
    measure : str
        The measure that is compared, such as one of ``RiskAssessment.summary``.
    limit, found, standard_error : float
        Largest acceptable value, the measure, and its Monte-Carlo error.
    least : bool
        Whether the limit is the smallest acceptable value rather than the largest.

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
        """Whether the limit is not kept; what is not defined (NaN) keeps it."""
        return self.found < self.limit if self.least else self.found > self.limit

    @property
    def close(self) -> bool:
        """Whether simulation error alone could turn the answer (two standard errors)."""
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
            return f"{what} is not defined, as nobody is threatened; the limit is kept."
        doubt = ""
        if self.close and self.standard_error > 0:
            error = measure.show_error(self.standard_error)
            doubt = f" The simulation error ({error}) could turn this: take more draws."
        return f"{what} is {show(self.found)}, {self._beside} of {show(self.limit)}.{doubt}"

    @property
    def _beside(self) -> str:
        """Where the measure lies, in words."""
        if self.least:
            return "below the required minimum" if self.exceeded else "meeting the required minimum"
        return "above the limit" if self.exceeded else "within the limit"

    def to_dict(self) -> dict[str, Any]:
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
    """A threshold of the risk of re-identification that somebody has published.

    Attributes
    ----------
    threshold : float
        Largest acceptable risk of anybody: 1 over the smallest group.
    about : str
        Who asks for it, and when.
    source : str
        Where it is written.
    """

    threshold: float
    about: str
    source: str


PRESETS: Mapping[str, Preset] = {
    "ema_0070": Preset(
        0.09,
        "EMA policy 0070: clinical reports published for everybody",
        "EMA/90915/2016, External guidance on the implementation of policy 0070, chapter 3; the "
        "figure as quoted in secondary literature, not checked against the document",
    ),
    "health_canada": Preset(
        0.09,
        "Health Canada: public release of clinical information",
        "Public Release of Clinical Information: guidance document (12 March 2019)",
    ),
    "cell_size_11": Preset(
        1 / 11,
        "US Medicare and Medicaid: no cell of 1 to 10 people is published",
        "CMS cell size suppression policy (ResDAC, 26 January 2024); written for tables of counts",
    ),
    "group_of_5": Preset(
        0.2,
        "Groups of at least 5: the rule that custodians of data have long used",
        "El Emam, Guide to the De-Identification of Personal Health Information (2013), "
        "chapter Cell Size Precedents",
    ),
    "group_of_20": Preset(
        0.05,
        "Groups of at least 20: public files of patients in Canada and the US",
        "El Emam, Guide to the De-Identification of Personal Health Information (2013), "
        "chapter Cell Size Precedents",
    ),
}
"""Named thresholds, each with its source."""


def check_preset(table: ReleasedTable, name: str) -> Limit:
    """Compare the highest risk of re-identification in a release with a named threshold.

    Examples
    --------
    >>> import anonbayes as ab
    >>> check_preset(ab.datasets.load("clinic_local"), "ema_0070").text
    'The highest risk of re-identification is 25.0%, above the limit of 9.0%.'
    """
    if name not in PRESETS:
        raise AnonbayesError(f"preset {name!r} is not known. {nearest(name, PRESETS)}")
    risk = 1 / table.k if table.n_groups else 0.0
    return Limit(f"preset.{name}", HIGHEST, PRESETS[name].threshold, risk)


def check_measure_limits(limits: Mapping[str, float], *, what: str) -> None:
    """Refuse limits on measures that do not exist, before anything expensive.

    Examples
    --------
    >>> check_measure_limits({"Ti_q59": 2.0}, what="at_most")
    Traceback (most recent call last):
    anonbayes.errors.AnonbayesError: at_most: 'Ti_q59' is not a measure. ...
    """
    for name in limits:
        if name not in MEASURES:
            raise AnonbayesError(f"{what}: {name!r} is not a measure. {nearest(name, MEASURES)}")


def check_limit_values(**limits: float | None) -> None:
    """Refuse limits that no assessment could be compared with, before anything expensive.

    Examples
    --------
    >>> check_limit_values(max_threatened=1.5)
    Traceback (most recent call last):
    anonbayes.errors.AnonbayesError: max_threatened=1.5 must be a share of people between 0 and 1.
    """
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
    """Compare an assessment with the acceptable values of its measures.

    Parameters
    ----------
    risk : RiskAssessment
        The assessment.
    at_most, at_least : mapping of str to float, optional
        Largest and smallest acceptable value of any measure of ``risk.summary``, such as
        ``{"Ti_q95": 2.0}``.
    **limits : float, optional
        ``max_relative_threat``, compared with ``max_Ti``, the largest relative threat of anybody;
        ``max_threatened``, with ``GT_A``, the share of threatened people; ``max_cost``, with
        ``RGT_A``, the share of people whom the attacker guesses right beyond those whom a learner
        does; ``max_doubled``, with ``doubled``, the share of people threatened with a relative
        threat of 2 or more; ``max_log_loss_gain``, with ``log_loss_gain``, what being in the table
        teaches about a secret, in nats; ``max_belief``, with ``max_p_A``, the attacker's highest
        belief in anybody's true secret. None sets no limit.

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
