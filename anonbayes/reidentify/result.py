"""Results of attacks, and who can be named."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Floats, Ints
from anonbayes.domains import Domain
from anonbayes.errors import AnonbayesError

__all__ = ["Attack", "Population", "Rate", "check_senders", "rate"]


# -------------------------------------------------------------------------------------------------
# The users as an attacker sees them: who holds what.


@dataclass(frozen=True, eq=False)
class Population:
    """All users with their true values, sorted by value when needed."""

    domain: Domain
    codes: Ints

    @classmethod
    def of(cls, domain: Domain, values: Iterable[object]) -> Population:
        """Read the users' true values."""
        column: Any = values
        codes = domain.encode(column).astype(np.int64)
        if len(codes) == 0:
            raise AnonbayesError("There are no users to name.")
        return cls(domain, codes)

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def counts(self) -> Ints:
        """Number of holders of each value."""
        return np.bincount(self.codes, minlength=len(self.domain)).astype(np.int64)

    @cached_property
    def _by_value(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.codes, kind="stable")
        return order, np.concatenate([[0], np.cumsum(self.counts)])

    def holder(self, value: Ints, place: Ints) -> Ints:
        """User at a place among the holders of a value."""
        order, start = self._by_value
        return order[start[value] + place]


# -------------------------------------------------------------------------------------------------
# What an attack found, and how often it was right.


@dataclass(frozen=True, eq=False)
class Attack:
    """An attacker's answer to each report.

    Attributes
    ----------
    method : str
        The attack.
    guess : ndarray of int
        The user who is named as sender of each report.
    senders : ndarray of int
        The users who really sent them.
    success : ndarray of float
        Probability that the right user is named. An attacker names a random one of several users
        who look alike; averaging these probabilities, instead of counting lucky guesses, makes
        rates of one in a million measurable.
    """

    method: str
    guess: Ints = field(repr=False)
    senders: Ints = field(repr=False)
    success: Floats = field(repr=False)

    def __len__(self) -> int:
        return len(self.guess)


@dataclass(frozen=True)
class Rate:
    """Share of reports whose sender was named.

    Attributes
    ----------
    share : float
        The re-identification rate.
    n : int
        Number of reports.
    standard_error : float
        Of the rate, over reports.
    bound : float or None
        The largest accepted rate, ``gamma/n``.
    """

    share: float
    n: int
    standard_error: float
    bound: float | None = None

    @property
    def within_bound(self) -> bool:
        """Whether the rate is at most the bound."""
        if self.bound is None:
            raise AnonbayesError("This rate was not measured against a bound; give bound=.")
        return self.share <= self.bound

    def __str__(self) -> str:
        text = f"{self.share:.4g} +- {self.standard_error:.1g} of {self.n} reports"
        return text if self.bound is None else f"{text} (at most {self.bound:.4g} accepted)"


def rate(
    attack: Attack | npt.ArrayLike,
    truth: npt.ArrayLike | None = None,
    *,
    where: npt.ArrayLike | None = None,
    bound: float | None = None,
) -> Rate:
    """Re-identification rate: the share of reports whose sender is named.

    Parameters
    ----------
    attack : Attack or array-like
        An attack, or the users that any other attacker named.
    truth : array-like, optional
        The right users, when `attack` is an array of guesses.
    where : array-like of bool, optional
        Count these reports only, for example those of outliers.

        OneID Theorem 1 bounds what any single report tells, hence the rate over all users. It does
        not bound the rate over senders who were picked by their value, as outliers are: where a few
        values hold most users, that rate can exceed ``gamma/n`` although no report is better than
        that, and no rule for the budgets prevents it. `expected_budget_attack` computes it for
        counts that are thought likely; budgets tuned to a smaller ``gamma`` lower it.
    bound : float, optional
        The largest accepted rate, for example ``budgets.bound``.

    Examples
    --------
    >>> import anonbayes as ab
    >>> print(ab.reidentify.rate([3, 1, 2, 2], truth=[3, 1, 2, 0], bound=0.5))
    0.75 +- 0.2 of 4 reports (at most 0.5 accepted)
    """
    if isinstance(attack, Attack):
        if truth is not None:
            raise AnonbayesError("An Attack knows the truth; leave `truth` out.")
        success = attack.success
    else:
        if truth is None:
            raise AnonbayesError("Give the right users as truth=.")
        guesses, right = _array("attack", attack), _array("truth", truth)
        if guesses.shape != right.shape or guesses.ndim != 1:
            raise AnonbayesError(f"{guesses.shape} guesses for {right.shape} reports.")
        success = (guesses == right).astype(float)
    if where is not None:
        mask = _array("where", where)
        if mask.dtype != bool or mask.shape != success.shape:
            raise AnonbayesError(f"`where` must be a mask of the {len(success)} reports.")
        success = success[mask]
    if len(success) == 0:
        raise AnonbayesError("There are no reports of which to take the rate.")
    share = float(success.mean())
    error = float(success.std() / np.sqrt(len(success)))
    return Rate(share, len(success), error, bound)


def _array(argument: str, given: npt.ArrayLike) -> npt.NDArray[Any]:
    try:
        return np.asarray(given)
    except ValueError as error:
        raise AnonbayesError(f"{argument} must be a plain list: {error}.") from None


def check_senders(senders: npt.ArrayLike | None, n_reports: int, n_users: int) -> Ints:
    """Users who sent the reports: by default user ``i`` sent report ``i``."""
    if senders is None:
        if n_reports != n_users:
            raise AnonbayesError(
                f"{n_reports} reports of {n_users} users: say with senders= who sent each."
            )
        return np.arange(n_users)
    sent = _array("senders", senders)
    known = sent.dtype.kind in "iu" and sent.shape == (n_reports,)
    if not known or (len(sent) and not 0 <= sent.min() <= sent.max() < n_users):
        raise AnonbayesError(
            f"senders must name one of the {n_users} users for each of the {n_reports} reports."
        )
    return sent.astype(np.int64)
