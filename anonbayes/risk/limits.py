"""What is acceptable, and whether an assessment keeps to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anonbayes.errors import AnonbayesError, nearest
from anonbayes.formats import number, share
from anonbayes.risk.measures import LIMITS, MEASURES

if TYPE_CHECKING:
    from anonbayes.risk.assessment import RiskAssessment

__all__ = ["LimitCheck", "check_limit_values", "check_limits"]


@dataclass(frozen=True)
class LimitCheck:
    """One limit and what was found.

    Attributes
    ----------
    name : str
        Name of the setting.
    measure : str
        The measure that is compared, as in ``RiskAssessment.summary``.
    limit, found, standard_error : float
        Largest acceptable value, the measure, and its Monte-Carlo error.
    """

    name: str
    measure: str
    limit: float
    found: float
    standard_error: float

    @property
    def exceeded(self) -> bool:
        """Whether the measure lies above the limit; a measure of nobody (NaN) does not."""
        return self.found > self.limit

    @property
    def close(self) -> bool:
        """Whether simulation error alone could turn the answer (two standard errors)."""
        return abs(self.found - self.limit) <= 2 * self.standard_error

    @property
    def text(self) -> str:
        """The comparison in a sentence."""
        measure = MEASURES[self.measure]
        what = measure.subject or f"The {measure.title[0].lower()}{measure.title[1:]}"
        show = share if measure.kind == "share" else number
        if math.isnan(self.found):
            return f"{what} is not defined, as nobody is threatened; the limit is kept."
        verb = "exceeds" if self.exceeded else "keeps"
        doubt = ""
        if self.close and self.standard_error > 0:
            error = measure.show_error(self.standard_error)
            doubt = f" The simulation error ({error}) could turn this: take more draws."
        return f"{what} is {show(self.found)} and {verb} the limit of {show(self.limit)}.{doubt}"

    def to_dict(self) -> dict[str, Any]:
        """Return plain types for JSON."""
        return {
            "name": self.name,
            "measure": self.measure,
            "limit": self.limit,
            "found": None if math.isnan(self.found) else self.found,
            "exceeded": self.exceeded,
        }


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
            raise AnonbayesError(f"{name!r} is no limit of an assessment. {nearest(name, LIMITS)}")
        if limit is not None:
            LIMITS[name].check_limit(limit)


def check_limits(risk: RiskAssessment, **limits: float | None) -> tuple[LimitCheck, ...]:
    """Compare an assessment with the largest acceptable values of its measures.

    Parameters
    ----------
    risk : RiskAssessment
        The assessment.
    **limits : float, optional
        ``max_relative_threat``, compared with ``max_Ti``, the largest relative threat of anybody;
        ``max_threatened``, with ``GT_A``, the share of threatened people; ``max_cost``, with
        ``RGT_A``, the share of people whom the attacker guesses right beyond those whom a learner
        does; ``max_doubled``, with ``doubled``, the share of people threatened with a relative
        threat of 2 or more; ``max_log_loss_gain``, with ``log_loss_gain``, what being in the table
        teaches about a secret, in nats. None sets no limit.

    Examples
    --------
    >>> import anonbayes as ab
    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> risk = post.assess(ab.datasets.load("table1"))
    >>> checks = check_limits(risk, max_relative_threat=1.2, max_threatened=1, max_cost=0.05)
    >>> [check.exceeded for check in checks]
    [True, False, True]
    """
    check_limit_values(**limits)
    return tuple(
        LimitCheck(
            name,
            LIMITS[name].name,
            limit,
            float(risk.summary[LIMITS[name].name]),
            float(risk.standard_errors[LIMITS[name].name]),
        )
        for name, limit in limits.items()
        if limit is not None
    )
