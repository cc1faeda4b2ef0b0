"""Local differential privacy, and the audit that every notion shares.

A notion bounds the ratio ``Q(y|x) / Q(y|x')`` for pairs of values. All notions in this package
have bounds of the form ``log ratio <= row[x] + column[x']`` (`Bound`): LDP, OSLDP and OneID have
one bound, MinID has two. An audit needs a channel's `Ratios`: the largest log ratio of a pair as
``own[x] + other[x']``, for all reports together or report by report, so that the worst of the
``K^2`` pairs is found in ``O(K)`` without listing them. No channel is imported here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Floats, Ints, Mask, read_number, read_numbers
from anonbayes.domains import Domain, check_domain
from anonbayes.errors import AnonbayesError, ChannelError
from anonbayes.formats import Table, number

# Ratios are products of a few rounded numbers, so an excess below this is rounding, not leakage.
TOLERANCE = 1e-9
# Tolerance for the sums of a matrix's rows.
ROW_SUM = 1e-6


class Description(str):
    """A report described in words, such as "a set with x", if it is too long to be shown."""

    __slots__ = ()


def _sentence_start(report: object) -> str:
    if isinstance(report, Description):
        return report[0].upper() + report[1:]
    return f"The report {number(report, 4) if isinstance(report, float) else repr(report)}"


class Witness(NamedTuple):
    """Pair of values, and the report that distinguishes them best."""

    value: object
    other: object
    report: object


@dataclass(frozen=True)
class Audit:
    """Outcome of checking a privacy notion on a channel's exact probabilities.

    Attributes
    ----------
    notion : Notion
        The notion that was checked.
    holds : bool
        Whether the channel satisfies it.
    worst_ratio : float
        ``Q(y|x) / Q(y|x')`` for the pair that comes closest to its limit, or exceeds it most.
    limit : float
        The largest ratio that the notion allows for that pair.
    witness : Witness or None
        That pair ``(value, other)`` and a report with this ratio; None if there is no pair to
        compare (a domain with one value, or no restricted report).
    reason : str
        What is violated, in words; empty if the notion holds.
    """

    notion: Notion
    holds: bool
    worst_ratio: float
    limit: float
    witness: Witness | None
    reason: str = ""

    def __bool__(self) -> bool:
        return self.holds

    def _repr_html_(self) -> str:
        times = number(self.worst_ratio)
        rows = []
        if self.witness is not None:
            report, value, other = self.witness.report, self.witness.value, self.witness.other
            rows.append(["worst case", f"{times} times as likely from {value} as from {other}"])
            rows.append(["report", str(report)])
        else:
            rows.append(["worst case", f"{times} times as likely from one value as from another"])
        rows.append(["allowed", f"{number(self.limit)} times"])
        if self.reason:
            rows.append(["why", self.reason])
        verdict = "✓ {} holds" if self.holds else "✗ {} is violated"
        table = Table(["", ""], rows, verdict.format(self.notion), frozenset({1}))
        return f"<div>{table.to_html()}</div>"

    def __str__(self) -> str:
        verdict = "holds" if self.holds else "violated"
        if self.witness is None:
            return f"{self.notion}: {verdict}. {self.reason}".rstrip()
        value, other, report = self.witness
        compared = f"{number(self.worst_ratio, 4)} times as likely from {value!r} as from {other!r}"
        if np.isposinf(self.worst_ratio):
            compared = f"possible from {value!r} and impossible from {other!r}"
        return (
            f"{self.notion}: {verdict}. {_sentence_start(report)} is {compared} "
            f"(at most {number(self.limit, 4)} times allowed). {self.reason}"
        ).rstrip()


class Bound(NamedTuple):
    """``log Q(y|x) - log Q(y|x') <= row[x] + column[x']`` for all ``x != x'`` and all ``y``."""

    row: Floats
    column: Floats


class Ratios(NamedTuple):
    """Largest log ratios over some reports: ``own[x] + other[x']`` for ``x != x'``.

    Parts are infinite if a report excludes a value. `report` returns a pair's report with the
    largest ratio; `proof` marks values proved by the reports left out; the ratio of `alike` values
    is 1.
    """

    own: Floats
    other: Floats
    report: Callable[[int, int], object]
    proof: Mask | None = None
    alike: Ints | None = None


@runtime_checkable
class Audited(Protocol):
    """The part of a channel that an audit needs."""

    @property
    def domain(self) -> Domain:
        """The values that people may have."""
        ...

    def ratios(self, *, protected: bool = False) -> Iterable[Ratios]:
        """Largest log ratios, over all reports or over those that prove no value."""
        ...


class Notion(ABC):
    """Privacy notion that bounds the ratio of each pair of values."""

    @abstractmethod
    def bounds(self, domain: Domain) -> Sequence[Bound]:
        """Bounds on the log ratios; the notion holds if all of them do."""

    def audit(self, channel: Audited) -> Audit:
        """Check the notion on a channel's exact probabilities."""
        if not isinstance(channel, Audited):
            raise AnonbayesError(
                f"A {type(channel).__name__} is not a channel; to audit a matrix, use "
                "MatrixChannel(domain, matrix)."
            )
        return self._worst_of(channel.domain, channel.ratios())

    def __add__(self, other: Self) -> Self:
        """Sequential composition, for notions that have one."""
        return NotImplemented

    def _worst_of(self, domain: Domain, ratios: Iterable[Ratios]) -> Audit:
        """Audit of the pair with the largest excess over its limit."""
        bounds = self.bounds(domain)
        worst, worst_excess = Audit(self, True, 1.0, 1.0, None), -np.inf
        for some in ratios:
            for bound in bounds:
                pair = _worst_pair(
                    _minus(some.own, bound.row), _minus(some.other, bound.column), some.alike
                )
                if pair is None or pair[2] <= worst_excess:
                    continue
                x, z, worst_excess = pair
                # The tightest of several bounds counts, also where an infinite ratio exceeds all.
                limit = min(float(each.row[x] + each.column[z]) for each in bounds)
                holds = worst_excess <= TOLERANCE * max(1.0, abs(limit))
                factor = _exp(worst_excess)
                excess = f"The ratio exceeds its limit by a factor of {number(factor, 4)}."
                if np.isposinf(factor):
                    excess = "A report excludes a value, which no budget allows."
                worst = Audit(
                    self,
                    holds,
                    _exp(float(some.own[x] + some.other[z])),
                    _exp(limit),
                    Witness(domain.values[x], domain.values[z], some.report(x, z)),
                    "" if holds else excess,
                )
        return worst


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

    def __add__(self, other: Self) -> Self:
        """Sequential composition adds the budgets."""
        if not isinstance(other, LDP):
            return NotImplemented
        return type(self)(self.epsilon + other.epsilon)


def check_epsilon(epsilon: object, argument: str = "epsilon") -> float:
    """Return the budget as a float; raise `AnonbayesError` unless it is finite and at least 0."""
    number = read_number(argument, epsilon)
    if not np.isfinite(number) or number < 0:
        raise AnonbayesError(
            f"{argument}={epsilon!r} is not a privacy budget; give a finite number of at least 0 "
            "(values that need no protection can be released without a channel)."
        )
    return number


def sensitive_mask(domain: Domain, sensitive: Iterable[object]) -> Mask:
    """Mask of the sensitive values, given as a list of values or as a Boolean mask.

    Raises `DomainError` for a value outside the domain.
    """
    check_domain(domain)
    array: npt.NDArray[Any] = sensitive if isinstance(sensitive, np.ndarray) else np.empty(0)
    if isinstance(sensitive, str) or not isinstance(sensitive, Iterable) or array.ndim == 0:
        what = "one text" if isinstance(sensitive, str) else "not a list"
        raise AnonbayesError(
            f"sensitive={sensitive!r} is {what}; give the sensitive values as a list."
        )
    is_mask = array.dtype == bool and array.shape == (len(domain),)
    if is_mask and not isinstance(domain.values[0], bool):
        return array
    if sensitive is domain.values:
        return np.ones(len(domain), dtype=bool)
    mask = np.zeros(len(domain), dtype=bool)
    mask[[domain.index(value) for value in sensitive]] = True
    return mask


def check_matrix(matrix: npt.ArrayLike, domain: Domain | None = None) -> Floats:
    """Return ``Q`` as an array; raise `ChannelError` unless each row is a distribution."""
    q = read_numbers("A channel's matrix", matrix, error=ChannelError)
    if q.ndim != 2 or q.size == 0 or (domain is not None and len(q) != len(domain)):
        of = "" if domain is None else f", {len(domain)} for {domain.name!r}"
        raise ChannelError(f"A channel's matrix has one row per value{of}, not shape {q.shape}.")
    totals = q.sum(axis=1)
    wrong, off = ~((q >= 0) & (q <= 1 + ROW_SUM)), np.abs(totals - 1.0) > ROW_SUM
    if wrong.any() or off.any():
        x, y = np.argwhere(wrong)[0].tolist() if wrong.any() else (int(np.argmax(off)), 0)
        row = f"Row {x}" if domain is None else f"The row of {domain.values[x]!r}"
        cell = f"has {q[x, y]:g} in column {y}, which is not a probability"
        what = cell if wrong.any() else f"sums to {totals[x]:.9g}, not to 1"
        raise ChannelError(f"{row} of the channel's matrix {what}.")
    return q


def matrix_ratios(
    q: Floats, reports: Sequence[object], *, protected: bool = False
) -> Iterator[Ratios]:
    """Log ratios of each report, except for those that prove a value if `protected`.

    ``log Q(y|x) - row[x] - log Q(y|x') - column[x']`` separates, so an audit reads each only once.
    """
    possible = q > 0
    kept = possible.any(axis=0)
    if protected:
        proves = possible.sum(axis=0) == 1
        kept &= ~proves
        telling = possible & proves
        first, zero = np.argmax(telling, axis=1), np.zeros(len(q))
        yield Ratios(zero, zero, lambda x, _other: reports[first[x]], telling.any(axis=1))
    with np.errstate(divide="ignore"):
        log_q = np.log(q)
    for y in np.flatnonzero(kept):
        yield Ratios(log_q[:, y], -log_q[:, y], lambda _x, _other, y=y: reports[y])  # type: ignore[misc]


def largest_ratio(own: Floats, other: Floats, alike: Ints | None = None) -> float:
    """Largest ``own[x] + other[x']`` over ``x != x'``: the LDP budget; 0 for a single value."""
    pair = _worst_pair(own, other, alike)
    return 0.0 if pair is None else pair[2]


def _worst_pair(
    row: Floats, column: Floats, alike: Ints | None = None
) -> tuple[int, int, float] | None:
    """Maximise ``row[x] + column[z]`` over different values, using the two largest of each.

    None if no two values differ.
    """
    group = np.arange(len(row)) if alike is None else alike
    pairs = [(x, z) for x in _two(row, group) for z in _two(column, group) if group[x] != group[z]]
    if not pairs:
        return None
    scores = [_plus(row[x], column[z]) for x, z in pairs]
    best = int(np.argmax(scores))
    return *pairs[best], scores[best]


def _two(scores: Floats, group: Ints) -> list[int]:
    """Positions of the largest score, and of the largest one in another group."""
    first = int(np.argmax(scores))
    others = np.flatnonzero(group != group[first])
    return [first, int(others[np.argmax(scores[others])])] if len(others) else [first]


def _plus(left: float, right: float) -> float:
    """Sum in which minus infinity (an unlimited pair, an impossible report) always wins."""
    return -np.inf if np.isneginf(left) or np.isneginf(right) else float(left + right)


def _minus(left: Floats, limit: Floats) -> Floats:
    """Excess over a limit; none if the limit is infinite or the ratio zero."""
    unlimited = np.isposinf(limit) | np.isneginf(left)
    return np.where(unlimited, -np.inf, left - np.where(unlimited, 0.0, limit))


def _exp(number: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.exp(number))
