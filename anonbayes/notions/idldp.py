"""Input-discriminative LDP: a budget for each value, infinite ones included.

The pair budget ``r(eps_x, eps_x')`` bounds ``log Q(y|x)/Q(y|x')`` (OneID Def. 2). OneID-LDP takes
``eps_x``, MinID-LDP the smaller of the two. High-low LDP is OneID-LDP with one finite budget for
the sensitive values and infinite ones for the rest (`anonbayes.notions.uldp.HLLDP`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Floats
from anonbayes.domains import Domain, is_series
from anonbayes.errors import AnonbayesError, nearest
from anonbayes.notions.ldp import Bound, Notion, sensitive_mask

__all__ = ["MinID", "OneID", "budget_array", "chosen_mask", "value_array"]


class InputDiscriminative(Notion):
    """Notion with one budget per value.

    Parameters
    ----------
    budgets : float, array-like, mapping, pandas.Series or Budgets
        One for all values, one for each in domain order, or a mapping by value; ``math.inf`` for a
        value that needs no protection.
    """

    name = ""

    def __init__(self, budgets: Any) -> None:
        self.budgets = budgets

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
        One for all values, one for each in domain order, or a mapping by value; ``math.inf`` for a
        value that needs no protection.

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

    def __add__(self, other: OneID) -> OneID:
        """Sequential composition adds the budgets (OneID Prop. 2)."""
        return OneID(_sum(self, other)) if isinstance(other, OneID) else NotImplemented


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
        """``eps_x`` and ``eps_x'``; the smaller one decides."""
        epsilon, zero = self.epsilon(domain), np.zeros(len(domain))
        return [Bound(epsilon, zero), Bound(zero, epsilon)]

    def __add__(self, other: MinID) -> MinID:
        """Sequential composition: budgets add, since ``min + min <= min of the sums``."""
        return MinID(_sum(self, other)) if isinstance(other, MinID) else NotImplemented


def budget_array(budgets: Any, domain: Domain) -> Floats:
    """Return the budget of each value in domain order; raise `AnonbayesError` for an invalid one.

    Examples
    --------
    >>> budget_array({"a": 1, "b": float("inf")}, Domain("x", ["a", "b"])).tolist()
    [1.0, inf]
    """
    plain = _plain(budgets)
    if plain is not budgets and budgets.domain != domain:
        raise AnonbayesError(
            f"These budgets were tuned for {budgets.domain!r}, not for {domain!r}."
        )
    array = value_array("budgets", plain, domain)
    bad = np.flatnonzero(~(array >= 0))
    if len(bad):
        i = int(bad[0])
        raise AnonbayesError(
            f"The budget of {domain.values[i]!r} is {array[i]!r}; budgets are numbers >= 0, or "
            "infinite for values that need no protection."
        )
    return array


def value_array(
    argument: str, numbers: Any, domain: Domain, *, default: float | None = None
) -> Floats:
    """One number for each value, from a number, an array in domain order, or a mapping.

    With a `default`, a mapping may leave values out.
    """
    if isinstance(numbers, Mapping) or is_series(numbers):
        codes = [domain.index(value) for value in numbers.keys()]
        array = np.full(len(domain), np.nan if default is None else float(default))
        for code, (value, number) in zip(codes, numbers.items(), strict=True):
            try:
                array[code] = number
            except (TypeError, ValueError):
                raise AnonbayesError(
                    f"{argument}: {number!r}, given for {value!r}, is not a number."
                ) from None
        missing = np.setdiff1d(np.arange(len(domain)), codes)
        if default is None and len(missing):
            gone = domain.values[int(missing[0])]
            more = f" and {len(missing) - 1} more values" if len(missing) > 1 else ""
            raise AnonbayesError(
                f"{argument} has no entry for {gone!r}{more} of {domain.name!r}. "
                f"{nearest(gone, numbers.keys())}"
            )
        return array
    try:
        array = np.asarray(numbers, dtype=float)
    except (TypeError, ValueError):
        hint = " For a posterior call budgets.from_posterior." if hasattr(numbers, "draws") else ""
        raise AnonbayesError(
            f"{argument}={numbers!r} does not give a number for each value.{hint}"
        ) from None
    if array.ndim == 0:
        return np.full(len(domain), float(array))
    if array.shape != (len(domain),):
        raise AnonbayesError(
            f"{argument} must be one number, or one for each of the {len(domain)} values of "
            f"{domain.name!r}; got shape {array.shape}."
        )
    return array.copy()


def chosen_mask(domain: Domain, chosen: Any) -> npt.NDArray[np.bool_]:
    """Mask of chosen values, given as the values or, for large domains, as the mask itself.

    Examples
    --------
    >>> domain = Domain("x", ["a", "b", "c"])
    >>> chosen_mask(domain, ["c"]).tolist(), chosen_mask(domain, np.array([1, 0, 0]) > 0).tolist()
    ([False, False, True], [True, False, False])
    """
    if isinstance(chosen, np.ndarray) and chosen.dtype == bool and chosen.shape == (len(domain),):
        return chosen
    return sensitive_mask(domain, chosen)


def _plain(budgets: Any) -> Any:
    """The numbers of a `Budgets`; anything else as it is (a series may have a label "epsilon")."""
    if isinstance(budgets, Mapping) or is_series(budgets) or not hasattr(budgets, "epsilon"):
        return budgets
    return budgets.epsilon


def _numbers(budgets: Any) -> Floats:
    plain = _plain(budgets)
    return np.asarray(list(plain.values()) if isinstance(plain, Mapping) else plain, dtype=float)


def _sum(first: InputDiscriminative, second: InputDiscriminative) -> Any:
    one, two = _plain(first.budgets), _plain(second.budgets)
    keyed = [isinstance(b, Mapping) or is_series(b) for b in (one, two)]
    if not any(keyed):
        return np.asarray(one, dtype=float) + np.asarray(two, dtype=float)
    if not all(keyed) or set(one.keys()) != set(two.keys()):
        raise AnonbayesError(
            "Budgets given by value compose only with budgets for the same values."
        )
    return {value: float(one[value]) + float(two[value]) for value in one.keys()}
