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

__all__ = ["Limit", "check_limit_values", "check_limits"]


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


def check_limits(risk: RiskAssessment, **limits: float | None) -> tuple[Limit, ...]:
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
        Limit(
            name,
            LIMITS[name].name,
            limit,
            float(risk.summary[LIMITS[name].name]),
            float(risk.standard_errors[LIMITS[name].name]),
        )
        for name, limit in limits.items()
        if limit is not None
    )
