"""The budget that a count allows, and the rules that need no reports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.arrays import Floats, Mask, read_number, read_numbers, read_whole
from anonbayes.domains import Domain
from anonbayes.errors import AnonbayesError
from anonbayes.formats import Table, number
from anonbayes.notions.ldp import check_epsilon, sensitive_mask
from anonbayes.notions.selective import value_array

MOST_USERS = 10**15
MOST_SHOWN = 20


@dataclass(frozen=True, eq=False, repr=False)
class Budgets:
    """A budget for each value, and what it rests on.

    Attributes
    ----------
    domain : Domain
        The values.
    epsilon : ndarray, shape (K,)
        Their budgets, in domain order; infinite where no protection is needed.
    n : int
        Number of users.
    gamma : float
        The bound on the probability of identifying a report's sender, times ``n``.
    method : str
        The rule.
    at_least : ndarray, shape (K,)
        The number of users of each value that the rule counts on.
    sensitive : ndarray of bool, shape (K,)
        Values whose budget is capped, whatever their number of users.
    alpha : float or None
        The rule's error probability, for rules that have one.
    level : float or None
        For these rules, the probability for each value that fewer users have it than are counted
        on.
    """

    domain: Domain
    epsilon: Floats
    n: int
    gamma: float
    method: str
    at_least: Floats = field(repr=False)
    sensitive: Mask = field(repr=False)
    alpha: float | None = None
    level: float | None = None

    @property
    def bound(self) -> float:
        """``gamma/n``, the largest accepted probability of identifying a report's sender."""
        return self.gamma / self.n

    def exceeded(self, counts: object) -> Mask:
        """Mask of the values whose budget is larger than their true count allows (OneID (7)).

        Parameters
        ----------
        counts : mapping, pandas.Series or array-like
            Number of users with each value, 0 if omitted. A value that nobody has cannot identify a
            sender.

        Examples
        --------
        >>> domain = Domain("x", ["a", "b"])
        >>> from_prior(domain, 100, 10, {"a": 5}).exceeded([4, 96]).tolist()
        [True, False]
        """
        held = value_array("counts", counts, self.domain, default=0.0)
        allowed = reidentification_budget(held, self.n, self.gamma)
        return (held > 0) & (self.epsilon > allowed)

    def to_series(self) -> pd.Series:
        """Return the budgets as a series over the values."""
        index = pd.Index(self.domain.values, name=self.domain.name)
        return pd.Series(self.epsilon, index=index, name="epsilon")

    def summary(self) -> pd.DataFrame:
        """Return one row per value: budget, users counted on, sensitive or not.

        Examples
        --------
        >>> domain = Domain("place", ["clinic", "park", "station"])
        >>> tuned = from_prior(domain, 1000, 10, {"station": 100}, sensitive=["clinic"])
        >>> tuned.summary().round(3).reset_index()
             place  epsilon  at_least  sensitive
        0   clinic    1.000       0.0       True
        1     park    2.303       0.0      False
        2  station      inf     100.0      False
        """
        frame = self.to_series().to_frame()
        frame["at_least"], frame["sensitive"] = self.at_least, self.sensitive
        return frame

    def __len__(self) -> int:
        return len(self.domain)

    def __repr__(self) -> str:
        infinite = int(np.isposinf(self.epsilon).sum())
        return (
            f"Budgets({self.domain.name!r}, {self.method}, {len(self)} values from "
            f"{self.epsilon.min():.4g} to {self.epsilon.max():.4g}, {infinite} infinite, "
            f"{int(self.sensitive.sum())} capped, bound {self.gamma:g}/{self.n})"
        )

    def _repr_html_(self) -> str:
        infinite = int(np.isposinf(self.epsilon).sum())
        capped = int(self.sensitive.sum())
        facts = [
            ["rule", self.method.replace("_", " ")],
            ["largest probability to identify a sender", f"{self.gamma:g} in {self.n:,}"],
            ["values", f"{len(self):,}, of which {infinite:,} without noise, {capped:,} capped"],
        ]
        head = [self.domain.name, "budget (epsilon)", "users counted on", ""]
        order = np.argsort(-self.epsilon, kind="stable")[:MOST_SHOWN]
        rows = [
            [
                str(self.domain.values[i]),
                "∞" if np.isposinf(self.epsilon[i]) else number(float(self.epsilon[i])),
                f"{float(self.at_least[i]):,.0f}",
                "sensitive, capped" if self.sensitive[i] else "",
            ]
            for i in order.tolist()
        ]
        if len(self) > MOST_SHOWN:
            rows.append([f"... and {len(self) - MOST_SHOWN:,} more"])
        both = (
            Table(["", ""], facts, "Budgets", frozenset({1})),
            Table(head, rows, "", frozenset({3})),
        )
        return f"<div>{''.join(table.to_html() for table in both)}</div>"


def reidentification_budget(counts: npt.ArrayLike, n: int, gamma: float) -> Floats:
    """Largest budget for a value that `counts` of `n` users have (OneID (7)).

    ``log(gamma (n - c) / (n - gamma c))``, infinite from ``c = n/gamma`` on: then the value itself
    identifies nobody with more than ``gamma/n``.

    Examples
    --------
    >>> reidentification_budget([0, 100, 3302], 330_159, 100).round(6).tolist()
    [4.60517, 4.635624, inf]
    """
    check_bound(n, gamma)
    held = read_numbers("counts", counts)
    if not ((held >= 0) & (held <= n)).all():
        raise AnonbayesError(f"counts must be between 0 and n={n:g}, not {held.ravel()[0]:g}, ...")
    rest = n - gamma * held
    enough = rest <= 0
    with np.errstate(divide="ignore"):
        finite = np.log(gamma) + np.log((n - held) / np.where(enough, 1.0, rest))
    # With gamma = 1, rounding must not make it negative.
    return np.where(enough, np.inf, np.maximum(finite, 0.0))


def worst_case(
    domain: Domain, n: int, gamma: float, *, sensitive: Iterable[object] = (), cap: float = 1.0
) -> Budgets:
    """Budgets if nothing is known: ``log gamma`` for every value (OneID (9)).

    Parameters
    ----------
    domain : Domain
        The values.
    n : int
        Number of users.
    gamma : float
        No report may identify its sender with a probability above ``gamma/n``;
        ``1 <= gamma <= n``.
    sensitive : iterable
        Values that are sensitive in themselves, or a mask over the domain.
    cap : float
        Largest budget of a sensitive value.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("place", ["clinic", "park", "station"])
    >>> ab.budgets.worst_case(domain, n=1000, gamma=10, sensitive=["clinic"]).epsilon.round(4)
    array([1.    , 2.3026, 2.3026])
    """
    return make_budgets(
        domain, n, gamma, "worst case", np.zeros(len(domain)), sensitive=sensitive, cap=cap
    )


def from_prior(
    domain: Domain,
    n: int,
    gamma: float,
    at_least: object,
    *,
    sensitive: Iterable[object] = (),
    cap: float = 1.0,
) -> Budgets:
    """Budgets from known lower bounds on the number of users per value (OneID (10)).

    Parameters
    ----------
    domain, n, gamma, sensitive, cap
        As in `worst_case`.
    at_least : mapping, pandas.Series, array-like or float
        At least this many users have the value; values omitted from a mapping count as 0. With 1
        for all values, only the sender herself is counted on (MODEL 3).

    Examples
    --------
    Two million users, and Tokyo has a tenth of them at the very least (OneID Sec. IV-F):

    >>> import anonbayes as ab
    >>> domain = ab.Domain("prefecture", ["Tokyo", "Tottori"])
    >>> ab.budgets.from_prior(domain, 2_000_000, 100, {"Tokyo": 100_000}).epsilon.round(4)
    array([   inf, 4.6052])
    """
    check_bound(n, gamma)
    lower = value_array("at_least", at_least, domain, default=0.0)
    check_counts("at_least", lower, domain, n)
    return make_budgets(domain, n, gamma, "prior", lower, sensitive=sensitive, cap=cap)


def from_counts(
    domain: Domain,
    gamma: float,
    counts: object,
    *,
    sensitive: Iterable[object] = (),
    cap: float = 1.0,
) -> Budgets:
    """Budgets from the true number of users of each value (OneID (7)): the largest allowed.

    Parameters
    ----------
    domain, gamma, sensitive, cap
        As in `worst_case`.
    counts : mapping, pandas.Series or array-like
        Number of users with each value; they sum to the number of users.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("place", ["clinic", "park", "station"])
    >>> ab.budgets.from_counts(domain, 10, [1, 49, 950]).epsilon.round(4)
    array([2.3116, 2.9257,    inf])
    """
    held = value_array("counts", counts, domain, default=0.0)
    n = float(held.sum())
    if not np.isfinite(n) or n < 1:
        raise AnonbayesError(f"counts sum to {n:g}; give the counts of at least one user.")
    check_counts("counts", held, domain, n)
    parts = np.flatnonzero(held != np.round(held))
    if len(parts):
        raise AnonbayesError(
            f"counts of {domain.values[parts[0]]!r} is {held[parts[0]]:g}, but must be an integer "
            "number of users (shares times the number of users, rounded down)."
        )
    return make_budgets(domain, round(n), gamma, "counts", held, sensitive=sensitive, cap=cap)


def check_bound(n: float, gamma: float) -> None:
    """Raise `AnonbayesError` unless n is a whole number from 1 and ``1 <= gamma <= n``."""
    if read_whole("n", n, least=1) > MOST_USERS:
        raise AnonbayesError(f"n={n:.3g} is more users than there can be.")
    if not 1 <= read_number("gamma", gamma) <= n:
        raise AnonbayesError(
            f"gamma={gamma!r} must be between 1 (senders can only be guessed) and n={n:g} (no "
            "protection): reports identify their sender with at most gamma/n."
        )


def check_counts(argument: str, counts: Floats, domain: Domain, n: float) -> None:
    """Raise `AnonbayesError` for a count that is negative, missing or above `n`."""
    bad = np.flatnonzero(~((counts >= 0) & (counts <= n)))
    if len(bad):
        i = int(bad[0])
        raise AnonbayesError(
            f"{argument} of {domain.values[i]!r} is {counts[i]:g}, but must be a number of users "
            f"between 0 and n={n:g}."
        )


def make_budgets(
    domain: Domain,
    n: int,
    gamma: float,
    method: str,
    at_least: Floats,
    *,
    sensitive: Iterable[object],
    cap: float,
    epsilon: Floats | None = None,
    alpha: float | None = None,
    level: float | None = None,
) -> Budgets:
    """Build budgets for lower bounds on the counts, capped for sensitive values."""
    tuned = reidentification_budget(at_least, n, gamma) if epsilon is None else epsilon
    mask = sensitive_mask(domain, sensitive)
    limit = check_epsilon(cap, "cap")
    return Budgets(
        domain,
        np.where(mask, np.minimum(tuned, limit), tuned),
        int(n),
        float(gamma),
        method,
        at_least,
        mask,
        alpha,
        level,
    )
