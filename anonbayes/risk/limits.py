"""What is acceptable, and whether an assessment keeps to it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from anonbayes.errors import AnonbayesError
from anonbayes.formats import number, share, standard_error

if TYPE_CHECKING:
    from anonbayes.risk.assessment import RiskAssessment

__all__ = ["LimitCheck", "check_limit_values", "check_limits"]
WORDS = {
    "max_Ti": ("The largest relative threat", False),
    "GT_A": ("The share of threatened people", True),
    "RGT_A": ("The cost of being in the table", True),
}
"""How a measure is called, and whether it is a share of people."""


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
        what, is_share = WORDS[self.measure]
        show = share if is_share else number
        if math.isnan(self.found):
            return f"{what} is not defined, as nobody is threatened; the limit is kept."
        verb = "exceeds" if self.exceeded else "keeps"
        doubt = ""
        if self.close and self.standard_error > 0:
            error = standard_error(self.standard_error, of_share=is_share)
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


def check_limit_values(
    *,
    max_relative_threat: float | None = None,
    max_threatened: float | None = None,
    max_cost: float | None = None,
) -> None:
    """Refuse limits that no assessment could be compared with, before anything expensive."""
    if max_relative_threat is not None and not max_relative_threat > 0:
        raise AnonbayesError(
            f"max_relative_threat={max_relative_threat!r} must be a positive factor, such as 2."
        )
    for name, limit in (("max_threatened", max_threatened), ("max_cost", max_cost)):
        if limit is not None and not 0 <= limit <= 1:
            raise AnonbayesError(f"{name}={limit!r} must be a share of people between 0 and 1.")


def check_limits(
    risk: RiskAssessment,
    *,
    max_relative_threat: float | None = None,
    max_threatened: float | None = None,
    max_cost: float | None = None,
) -> tuple[LimitCheck, ...]:
    """Compare an assessment with the largest acceptable threats.

    Parameters
    ----------
    risk : RiskAssessment
        The assessment.
    max_relative_threat : float, optional
        Largest acceptable relative threat of anybody, compared with ``max_Ti``.
    max_threatened : float, optional
        Largest acceptable share of threatened people, compared with ``GT_A``.
    max_cost : float, optional
        Largest acceptable cost of being in the table, compared with ``RGT_A``: the share of people
        whom the attacker guesses right beyond those whom a learner does, who knows the release but
        not that they are in it.

    Examples
    --------
    >>> import anonbayes as ab
    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> risk = post.assess(ab.datasets.load("table1"))
    >>> checks = check_limits(risk, max_relative_threat=1.2, max_threatened=1, max_cost=0.05)
    >>> [check.exceeded for check in checks]
    [True, False, True]
    """
    check_limit_values(
        max_relative_threat=max_relative_threat, max_threatened=max_threatened, max_cost=max_cost
    )
    wanted = (
        ("max_relative_threat", "max_Ti", max_relative_threat),
        ("max_threatened", "GT_A", max_threatened),
        ("max_cost", "RGT_A", max_cost),
    )
    return tuple(
        LimitCheck(
            name, measure, limit, float(risk.summary[measure]), float(risk.standard_errors[measure])
        )
        for name, measure, limit in wanted
        if limit is not None
    )
