"""How often a rule may count on users who are not there, derived from the bound it has to keep.

Budgets that are tuned to numbers of users ``k(x) <= c(x)`` keep every report at ``gamma/n`` (OneID
Theorem 1). Reports of a first group give such numbers up to an error. With an error of at most
``level`` for each value, and budgets tuned to ``target = gamma - n level`` in place of ``gamma``,

* a user's report names her with ``target/n`` at most, unless the number of her value is wrong; then
  with one at most. Over the first group's reports that is at most ``target/n + level = gamma/n``;
* no number is wrong, and no report of anybody exceeds the bound, but with a probability of at most
  ``level`` times the number of values that could be wrong.

So ``level = alpha min(1/number, (gamma - 1)/n)`` makes the first at most ``gamma/n`` for every
single user, and the second happen with probability ``1 - alpha``. It costs at most the share
`alpha` of ``gamma``. A posterior is conditioned on the reports, so there the same holds with the
number of values that are counted on, and these alone pay.
"""

from __future__ import annotations

from typing import NamedTuple

from anonbayes.errors import AnonbayesError

__all__ = ["COVERAGES", "Allowance", "allow_errors", "check_alpha"]

COVERAGES = ("simultaneous", "pointwise")


class Allowance(NamedTuple):
    """Largest probability of a wrong number, for each value, and the gamma to tune to."""

    level: float
    target: float


def allow_errors(alpha: float, n: int, gamma: float, number: int) -> Allowance:
    """Error level of each of `number` values that keeps the bound ``gamma/n`` in expectation.

    Examples
    --------
    Of 330,159 users and 61,098 values, the number of values is what counts; of 75,128 users and
    3 values, the expectation:

    >>> level, target = allow_errors(0.05, 330_159, 100, 61_098)
    >>> f"{level:.3g}", round(target, 3)
    ('8.18e-07', 99.73)
    >>> level, target = allow_errors(0.05, 75_128, 100, 3)
    >>> f"{level:.3g}", round(target, 3)
    ('6.59e-05', 95.05)
    """
    level = alpha * min(1.0 / max(number, 1), (gamma - 1.0) / n)
    return Allowance(level, max(gamma - n * level, 1.0))


def check_alpha(alpha: float) -> None:
    """Raise `AnonbayesError` unless alpha lies between 0 and 1."""
    if not 0 < alpha < 1:
        raise AnonbayesError(
            f"alpha={alpha!r} must lie between 0 and 1; alpha -> 0 is the worst case rule."
        )
