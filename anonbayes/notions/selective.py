"""Notions that protect some values more than others.

Utility-optimized LDP protects a sensitive set, and lets reports either prove or protect everything
else; its one-sided relaxation only bounds what reports reveal about sensitive values.
Input-discriminative LDP has a budget for each value, possibly infinite: the pair budget
``r(eps_x, eps_x')`` bounds ``log Q(y|x)/Q(y|x')`` (OneID Def. 2), which is ``eps_x`` for OneID-LDP
and the smaller of the two for MinID-LDP. High-low LDP is OneID-LDP with one finite budget for the
sensitive values and infinite ones for the rest, which is the one-sided relaxation (`HLLDP`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np

from anonbayes.arrays import Floats, Mask, read_number, read_numbers
from anonbayes.domains import Domain, check_domain, is_series
from anonbayes.errors import AnonbayesError, nearest
from anonbayes.notions.ldp import (
    LDP,
    Audit,
    Audited,
    Bound,
    Notion,
    Witness,
    check_epsilon,
    sensitive_mask,
)


@dataclass(frozen=True, init=False)
class SensitiveNotion(Notion):
    """Notion that protects the values of a sensitive set."""

    sensitive: frozenset[object]
    epsilon: float

    def __init__(self, sensitive: Iterable[object], epsilon: float) -> None:
        if isinstance(sensitive, str):
            raise AnonbayesError(
                f"sensitive={sensitive!r} is one text; give the sensitive values as a list."
            )
        try:
            object.__setattr__(self, "sensitive", frozenset(sensitive))
        except TypeError:
            raise AnonbayesError(
                f"sensitive={sensitive!r}: give the sensitive values as a list."
            ) from None
        object.__setattr__(self, "epsilon", check_epsilon(epsilon))

    def mask(self, domain: Domain) -> Mask:
        """Mask of the sensitive values of the domain."""
        return sensitive_mask(domain, self.sensitive)

    def __add__(self, other: Self) -> Self:
        """Sequential composition adds the budgets for the same sensitive set (ULDP Prop. 1)."""
        if type(other) is not type(self):
            return NotImplemented
        if self.sensitive != other.sensitive:
            raise AnonbayesError(
                f"{self} and {other} protect different sensitive sets; restate both for the values "
                "they have in common, then compose them."
            )
        return type(self)(self.sensitive, self.epsilon + other.epsilon)

    def __repr__(self) -> str:
        shown = ", ".join(sorted(map(repr, self.sensitive))[:3])
        dots = ", ..." if len(self.sensitive) > 3 else ""
        return f"{type(self).__name__}([{shown}{dots}], epsilon={self.epsilon})"


@dataclass(frozen=True, init=False, repr=False)
class OSLDP(SensitiveNotion):
    """One-sided LDP: ``Q(y|x) <= exp(epsilon) Q(y|x')`` for sensitive ``x`` (ULDP Def. 6).

    The same bound is known as high-low LDP (`HLLDP`, OneID Def. 4).

    Parameters
    ----------
    sensitive : iterable
        The sensitive values.
    epsilon : float
        Their budget.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("diagnosis", ["HIV", "flu", "cold"])
    >>> channel = ab.UtilityOptimizedRR(domain, epsilon=1.0, sensitive=["HIV"])
    >>> channel.satisfies(ab.OSLDP(["HIV"], 1.0)).holds
    True
    """

    def bounds(self, domain: Domain) -> Sequence[Bound]:
        """`epsilon` for sensitive values, no bound for the others."""
        row = np.where(self.mask(domain), self.epsilon, np.inf)
        return [Bound(row, np.zeros(len(domain)))]


HLLDP = OSLDP


@dataclass(frozen=True, init=False, repr=False)
class ULDP(SensitiveNotion):
    """Utility-optimized LDP: LDP on protected reports, proof by all others (ULDP Def. 2).

    Reports are either protected, which means ``Q(y|x) <= exp(epsilon) Q(y|x')`` for all values, or
    invertible, which means that each comes from a single, non-sensitive value. A report that
    several values can produce cannot be invertible; the audit treats all others that come from a
    non-sensitive value as invertible, the choice under which the notion is easiest to satisfy.

    Parameters
    ----------
    sensitive : iterable
        The sensitive values. The set may be empty (no protection) or contain all values (LDP).
    epsilon : float
        The budget on protected reports.

    Examples
    --------
    >>> import anonbayes as ab
    >>> twice = ab.ULDP(["HIV"], 0.5) + ab.ULDP(["HIV"], 0.5)
    >>> twice.epsilon
    1.0
    """

    def bounds(self, domain: Domain) -> Sequence[Bound]:
        """One bound on protected reports, `epsilon` for every pair."""
        return LDP(self.epsilon).bounds(domain)

    def audit(self, channel: Audited) -> Audit:
        """Check that no report proves a sensitive value, and LDP on all reports that prove none.

        Examples
        --------
        Mangat's scheme is ULDP with epsilon = ln(1/p) (ULDP Sec. 3.1):

        >>> import anonbayes as ab
        >>> mangat = ab.MatrixChannel(ab.Domain("cheated", ["yes", "no"]), [[1, 0], [0.25, 0.75]])
        >>> audit = mangat.satisfies(ab.ULDP(["yes"], np.log(4)))
        >>> audit.holds, round(audit.worst_ratio, 9)
        (True, 4.0)
        """
        domain, ratios = channel.domain, list(channel.ratios(protected=True))
        for some in ratios:
            if (
                some.proof is not None
                and (some.proof & self.mask(domain)).any()
                and len(domain) > 1
            ):
                x = int(np.argmax(some.proof & self.mask(domain)))
                z = 0 if x else 1
                return Audit(
                    self,
                    False,
                    np.inf,
                    float(np.exp(self.epsilon)),
                    Witness(domain.values[x], domain.values[z], some.report(x, z)),
                    f"A report proves the sensitive value {domain.values[x]!r}.",
                )
        return self._worst_of(domain, ratios)


class InputDiscriminative(Notion):
    """Notion with one budget per value."""

    name = ""

    def __init__(self, budgets: object) -> None:
        self.budgets = budgets
        if _numbers(budgets).size == 0:
            raise AnonbayesError(f"{self.name} needs at least one budget.")

    def epsilon(self, domain: Domain) -> Floats:
        """Budget of each value, in domain order."""
        return budget_array(self.budgets, domain)

    def __repr__(self) -> str:
        numbers = _numbers(self.budgets)
        if numbers.size == 1:
            return f"{self.name}({numbers.item():g})"
        return (
            f"{self.name}({numbers.size} budgets, {numbers.min():.4g} to {numbers.max():.4g}, "
            f"{int(np.isposinf(numbers).sum())} infinite)"
        )


class OneID(InputDiscriminative):
    """OneID-LDP: ``Q(y|x) <= exp(eps_x) Q(y|x')`` for all ``x'`` and ``y`` (OneID Def. 5).

    Parameters
    ----------
    budgets : float, array-like, mapping, pandas.Series or Budgets
        One budget for all values, one for each in domain order, or a mapping by value;
        ``math.inf`` for values that need no protection.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("place", ["clinic", "park", "station"])
    >>> budgets = {"clinic": 1.0, "park": 4.6, "station": float("inf")}
    >>> channel = ab.InputDiscriminativeUE.optimal(domain, budgets)
    >>> channel.satisfies(ab.OneID(budgets)).holds, channel.satisfies(ab.MinID(budgets)).holds
    (True, False)
    >>> twice = ab.OneID(budgets) + ab.OneID(budgets)
    >>> twice.epsilon(domain).tolist()
    [2.0, 9.2, inf]
    """

    name = "OneID"

    def bounds(self, domain: Domain) -> Sequence[Bound]:
        """``eps_x`` for every other value."""
        return [Bound(self.epsilon(domain), np.zeros(len(domain)))]

    def __add__(self, other: Self) -> Self:
        """Sequential composition adds the budgets (OneID Prop. 2)."""
        return type(self)(_sum(self, other)) if isinstance(other, OneID) else NotImplemented


class MinID(InputDiscriminative):
    """MinID-LDP: ``Q(y|x) <= exp(min(eps_x, eps_x')) Q(y|x')`` (OneID Def. 3).

    Parameters
    ----------
    budgets : float, array-like, mapping, pandas.Series or Budgets
        As in `OneID`.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("place", ["clinic", "park", "station"])
    >>> channel = ab.InputDiscriminativeUE.optimal(domain, [1.0, 4.6, 4.6], notion="minid")
    >>> channel.satisfies(ab.MinID([1.0, 4.6, 4.6])).holds
    True
    """

    name = "MinID"

    def bounds(self, domain: Domain) -> Sequence[Bound]:
        """``eps_x`` and ``eps_x'``; the smaller one applies."""
        epsilon, zero = self.epsilon(domain), np.zeros(len(domain))
        return [Bound(epsilon, zero), Bound(zero, epsilon)]

    def __add__(self, other: Self) -> Self:
        """Sequential composition: budgets add, since ``min + min <= min of the sums``."""
        return type(self)(_sum(self, other)) if isinstance(other, MinID) else NotImplemented


def budget_array(budgets: object, domain: Domain) -> Floats:
    """Budget of each value in domain order; raise `AnonbayesError` for an invalid one."""
    check_domain(domain)
    plain = _plain(budgets)
    if plain is not budgets and isinstance(budgets, Tuned) and budgets.domain != domain:
        raise AnonbayesError(
            f"These budgets were tuned for {budgets.domain!r}, not for {domain!r}."
        )
    array = value_array("budgets", plain, domain)
    bad = np.flatnonzero(~(array >= 0))
    if len(bad):
        i = int(bad[0])
        raise AnonbayesError(
            f"The budget of {domain.values[i]!r} is {array[i]!r}; budgets must be at least 0, or "
            "infinite for values that need no protection."
        )
    return array


def value_array(
    argument: str, numbers: object, domain: Domain, *, default: float | None = None
) -> Floats:
    """Return a number for each value, from a number, an array in domain order, or a mapping.

    With a `default`, a mapping may omit values.
    """
    if isinstance(numbers, Mapping) or is_series(numbers):
        codes = [domain.index(value) for value in numbers.keys()]
        array = np.full(len(domain), np.nan if default is None else float(default))
        for code, (value, number) in zip(codes, numbers.items(), strict=True):
            array[code] = read_number(f"{argument} of {value!r}", number)
        missing = np.setdiff1d(np.arange(len(domain)), codes)
        if default is None and len(missing):
            gone = domain.values[int(missing[0])]
            more = f" and {len(missing) - 1} more values" if len(missing) > 1 else ""
            raise AnonbayesError(
                f"{argument} has no entry for {gone!r}{more} of {domain.name!r}. "
                f"{nearest(gone, numbers.keys())}"
            )
        return array
    array = read_numbers(argument, numbers)
    if array.ndim == 0:
        return np.full(len(domain), float(array))
    if array.shape != (len(domain),):
        raise AnonbayesError(
            f"{argument} must be one number, or one for each of the {len(domain)} values of "
            f"{domain.name!r}, not an array of shape {array.shape}."
        )
    return array


@runtime_checkable
class Tuned(Protocol):
    """Budgets with their domain, as made by `anonbayes.budgets`."""

    domain: Domain
    epsilon: Floats


def _plain(budgets: object) -> Any:
    """The numbers of tuned budgets; anything else unchanged (a series may have such labels)."""
    return budgets.epsilon if isinstance(budgets, Tuned) and not is_series(budgets) else budgets


def _numbers(budgets: object) -> Floats:
    plain = _plain(budgets)
    return read_numbers("budgets", list(plain.values()) if isinstance(plain, Mapping) else plain)


def _sum(first: InputDiscriminative, second: InputDiscriminative) -> Any:
    one, two = _plain(first.budgets), _plain(second.budgets)
    keyed = [isinstance(b, Mapping) or is_series(b) for b in (one, two)]
    if not any(keyed):
        return _numbers(first.budgets) + _numbers(second.budgets)
    if not all(keyed) or set(one.keys()) != set(two.keys()):
        raise AnonbayesError(
            "Budgets given by value can only be composed with budgets for the same values."
        )
    return {value: float(one[value]) + float(two[value]) for value in one.keys()}
