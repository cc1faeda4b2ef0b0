"""Local differential privacy, and the audit that every notion shares.

A notion bounds the ratio ``Q(y|x) / Q(y|x')`` for pairs of values. All pairwise notions of this
package have bounds of one form, ``log ratio <= row[x] + column[x']`` (`Bound`): LDP, OSLDP,
OneID with one bound, MinID with two. On the channels' side the largest log ratio of a pair is
``U[x] + W[x']`` whenever the channel is *pure* (`anonbayes.channels.pure`), so the worst of the
``K^2`` pairs is found in ``O(K)`` without writing any of them down.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Floats
from anonbayes.domains import Domain
from anonbayes.errors import AnonbayesError

__all__ = ["LDP", "Audit", "Bound", "Notion", "Witness", "audit_matrix", "audit_ratios"]
# Ratios are products of a few rounded numbers: an excess below this is rounding, not leakage.
TOLERANCE = 1e-9


class Witness(NamedTuple):
    """Pair of values, and the report that tells them apart best."""

    value: Any
    other: Any
    report: Any


@dataclass(frozen=True)
class Audit:
    """Outcome of checking a privacy notion on a channel's exact probabilities.

    Attributes
    ----------
    notion : Notion
        What was checked.
    holds : bool
        Whether the channel satisfies it.
    worst_ratio : float
        ``Q(y|x) / Q(y|x')`` for the pair that comes closest to its limit, or exceeds it most.
    limit : float
        The largest ratio that the notion allows for that pair.
    witness : Witness or None
        That pair ``(value, other)`` and a report with this ratio; None when there is no pair
        to compare (a domain of one value, or no restricted report).
    reason : str
        What is violated, in words; empty when the notion holds.
    """

    notion: Notion
    holds: bool
    worst_ratio: float
    limit: float
    witness: Witness | None
    reason: str = ""

    def __bool__(self) -> bool:
        return self.holds

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "violated"
        if self.witness is None:
            return f"{self.notion}: {verdict}. {self.reason}".rstrip()
        return (
            f"{self.notion}: {verdict}. Report {self.witness.report!r} is "
            f"{self.worst_ratio:.6g} times as likely from {self.witness.value!r} as from "
            f"{self.witness.other!r} (at most {self.limit:.6g} allowed). {self.reason}"
        ).rstrip()


class Bound(NamedTuple):
    """``log Q(y|x) - log Q(y|x') <= row[x] + column[x']`` for all ``x != x'`` and all ``y``."""

    row: Floats
    column: Floats


class Notion(ABC):
    """Privacy notion that bounds the ratio of each pair of values."""

    @abstractmethod
    def bounds(self, domain: Domain) -> Sequence[Bound]:
        """Bounds on the log ratios; the notion holds when all of them do."""


@dataclass(frozen=True)
class LDP(Notion):
    """Local differential privacy: ``Q(y|x) <= exp(epsilon) Q(y|x')`` (ULDP Def. 1).

    Parameters
    ----------
    epsilon : float
        The budget, finite and not negative.

    Examples
    --------
    >>> import anonbayes as ab
    >>> channel = ab.RandomizedResponse(ab.Domain("answer", ["yes", "no", "?"]), epsilon=1.0)
    >>> channel.satisfies(ab.LDP(1.0)).holds, channel.satisfies(ab.LDP(0.9)).holds
    (True, False)
    >>> (ab.LDP(1.0) + ab.LDP(0.5)).epsilon
    1.5
    """

    epsilon: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", check_epsilon(self.epsilon))

    def bounds(self, domain: Domain) -> Sequence[Bound]:
        """One bound, `epsilon` for every pair."""
        return [Bound(np.full(len(domain), self.epsilon), np.zeros(len(domain)))]

    def __add__(self, other: LDP) -> LDP:
        """Sequential composition adds the budgets."""
        if not isinstance(other, LDP):
            return NotImplemented
        return LDP(self.epsilon + other.epsilon)


def check_epsilon(epsilon: Any, argument: str = "epsilon") -> float:
    """Return the budget as a float; raise `AnonbayesError` unless it is finite and at least 0."""
    try:
        number = float(epsilon)
    except (TypeError, ValueError):
        raise AnonbayesError(f"{argument}={epsilon!r} is not a number.") from None
    if not np.isfinite(number) or number < 0:
        raise AnonbayesError(
            f"{argument}={epsilon!r} is not a privacy budget; give a finite number >= 0 "
            "(a value that needs no protection is released without a channel)."
        )
    return number


def sensitive_mask(domain: Domain, sensitive: Iterable[object]) -> npt.NDArray[np.bool_]:
    """Boolean mask of the sensitive values; raise `DomainError` for one outside the domain."""
    if isinstance(sensitive, str) or not isinstance(sensitive, Iterable):
        what = "one text" if isinstance(sensitive, str) else "no list"
        raise AnonbayesError(
            f"sensitive={sensitive!r} is {what}; give the sensitive values as a list."
        )
    if sensitive is domain.values:
        return np.ones(len(domain), dtype=bool)
    mask = np.zeros(len(domain), dtype=bool)
    mask[[domain.index(value) for value in sensitive]] = True
    return mask


def audit_ratios(
    notion: Notion,
    domain: Domain,
    own: Floats,
    other: Floats,
    report: Callable[[int, int], Any],
) -> Audit:
    """Audit a channel whose largest log ratio of a pair ``x != x'`` is ``own[x] + other[x']``.

    Parameters
    ----------
    notion : Notion
        The notion to check.
    domain : Domain
        The values.
    own, other : ndarray of shape (K,)
        The two parts of the largest log ratio; infinite where a report excludes a value.
    report : callable
        ``report(x, x')`` gives the report with the largest ratio, for the witness.
    """
    bounds = notion.bounds(domain)
    return _worst_of(notion, domain, bounds, ((own, other, bound, report) for bound in bounds))


def audit_matrix(
    notion: Notion, domain: Domain, matrix: npt.ArrayLike, reports: Sequence[Any]
) -> Audit:
    """Audit a channel given by its matrix ``Q`` of shape (K, number of reports).

    ``max over x, x'`` of ``log Q(y|x) - row[x] - log Q(y|x') - column[x']`` separates, so the
    cost is that of reading the matrix.

    Examples
    --------
    >>> yes_no = Domain("answer", ["yes", "no"])
    >>> audit = audit_matrix(LDP(1.0), yes_no, [[0.75, 0.25], [0.25, 0.75]], ["yes", "no"])
    >>> audit.holds, round(audit.worst_ratio, 9)
    (False, 3.0)
    """
    q = np.asarray(matrix, dtype=float)
    with np.errstate(divide="ignore"):
        log_q = np.log(q)
    bounds = notion.bounds(domain)
    return _worst_of(
        notion,
        domain,
        bounds,
        (
            (log_q[:, y], -log_q[:, y], bound, partial(_same_report, reports[y]))
            for bound in bounds
            for y in np.flatnonzero(q.max(axis=0) > 0)
        ),
    )


def _same_report(report: Any, x: int, other: int) -> Any:
    return report


def largest_ratio(own: Floats, other: Floats) -> float:
    """Largest ``own[x] + other[x']`` over ``x != x'``: the LDP budget; 0 for a single value."""
    return 0.0 if len(own) == 1 else _worst_pair(own, other)[2]


Candidate = tuple[Floats, Floats, Bound, Callable[[int, int], Any]]


def _worst_of(
    notion: Notion, domain: Domain, bounds: Sequence[Bound], candidates: Iterable[Candidate]
) -> Audit:
    """Audit of the pair with the largest excess over its limit, among all candidates."""
    if len(domain) == 1:
        return Audit(notion, True, 1.0, 1.0, None)
    worst, worst_excess = Audit(notion, True, 1.0, 1.0, None), -np.inf
    for own, other, bound, report in candidates:
        row, column = _minus(own, bound.row), _minus(other, bound.column)
        x, z, excess = _worst_pair(row, column)
        if excess > worst_excess:
            worst_excess = excess
            log_ratio = float(own[x] + other[z])
            # Of several bounds the tightest counts, also where an infinite ratio exceeds them all.
            limit = min(float(each.row[x] + each.column[z]) for each in bounds)
            holds = excess <= TOLERANCE * max(1.0, abs(limit))
            worst = Audit(
                notion,
                holds,
                _exp(log_ratio),
                _exp(limit),
                Witness(domain.values[x], domain.values[z], report(x, z)),
                "" if holds else f"The ratio exceeds its limit by a factor {_exp(excess):.6g}.",
            )
    return worst


def _worst_pair(row: Floats, column: Floats) -> tuple[int, int, float]:
    """Maximise ``row[x] + column[z]`` over ``x != z``: the two largest of each are enough."""
    best_row = np.argsort(-row, kind="stable")[:2]
    best_column = np.argsort(-column, kind="stable")[:2]
    pairs = [(int(x), int(z)) for x in best_row for z in best_column if x != z]
    scores = [_plus(row[x], column[z]) for x, z in pairs]
    best = int(np.argmax(scores))
    return *pairs[best], scores[best]


def _plus(left: float, right: float) -> float:
    """Sum in which minus infinity (an unlimited pair, an impossible report) always wins."""
    return -np.inf if np.isneginf(left) or np.isneginf(right) else float(left + right)


def _minus(left: Floats, limit: Floats) -> Floats:
    """Excess over a limit; an infinite limit, or a ratio of zero, leaves none."""
    unlimited = np.isposinf(limit) | np.isneginf(left)
    return np.where(unlimited, -np.inf, left - np.where(unlimited, 0.0, limit))


def _exp(number: Any) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(number))
