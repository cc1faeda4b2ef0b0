"""Utility-optimized local differential privacy and its one-sided relaxation.

`compose` (ULDP Prop. 1), `integrate` (Prop. 12) and `post_process` (Prop. 11) compute what follows
from a guarantee.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Mask, read_numbers
from anonbayes.domains import Domain
from anonbayes.errors import AnonbayesError
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

__all__ = ["HLLDP", "OSLDP", "ULDP", "compose", "integrate", "post_process"]


@dataclass(frozen=True, init=False)
class SensitiveNotion(Notion):
    """Notion that protects the values of a sensitive set."""

    sensitive: frozenset[Any]
    epsilon: float

    def __init__(self, sensitive: Iterable[Any], epsilon: float) -> None:
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
        """Which values of the domain are sensitive."""
        return sensitive_mask(domain, self.sensitive)

    def __add__(self, other: SensitiveNotion) -> SensitiveNotion:
        """Sequential composition adds the budgets of one sensitive set (ULDP Prop. 1)."""
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
        """`epsilon` for sensitive values, nothing for the others."""
        row = np.where(self.mask(domain), self.epsilon, np.inf)
        return [Bound(row, np.zeros(len(domain)))]


HLLDP = OSLDP


@dataclass(frozen=True, init=False, repr=False)
class ULDP(SensitiveNotion):
    """Utility-optimized LDP: full LDP on protected reports, proof on all others (ULDP Def. 2).

    The reports fall into protected ones, on which ``Q(y|x) <= exp(epsilon) Q(y|x')`` for all
    values, and invertible ones, each of which comes from a single value, not a sensitive one.
    A report that several values can produce cannot be invertible; the audit takes all others
    that stem from a non-sensitive value as invertible, the choice that makes the notion easiest
    to satisfy.

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
        """Check that no report proves a sensitive value, and LDP on all that prove none.

        Examples
        --------
        Mangat's scheme is ULDP with epsilon = ln(1/p) (ULDP Sec. 3.1):

        >>> from anonbayes.notions.ldp import audit_matrix
        >>> domain, p = Domain("cheated", ["yes", "no"]), 0.25
        >>> audit = audit_matrix(ULDP(["yes"], np.log(4)), domain, [[1, 0], [p, 1 - p]], "yn")
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


def compose(*notions: Notion) -> Notion:
    """Guarantee of releasing the same value through several channels (ULDP Prop. 1).

    Parameters
    ----------
    *notions : Notion
        The guarantees of the single releases, all of one kind (LDP, ULDP or OSLDP with one
        sensitive set, OneID, MinID); later channels may depend on earlier reports.

    Returns
    -------
    Notion
        With the summed budgets. For ULDP, a pair of reports is protected when both are.

    Examples
    --------
    >>> compose(LDP(0.5), LDP(0.25))
    LDP(epsilon=0.75)
    """
    if not notions:
        raise AnonbayesError("Give at least one guarantee to compose.")
    first, *rest = notions
    total: Any = first
    for notion in rest:
        if not isinstance(total, Notion) or type(total) is not type(notion):
            raise AnonbayesError(
                f"{total} and {notion} do not compose into one notion; use `integrate` for ULDP "
                "with LDP."
            )
        total = cast(Any, total) + notion
    return total


def integrate(first: ULDP, second: LDP) -> LDP:
    """Guarantee on one collector's protected reports combined with another's (ULDP Prop. 12).

    Returns
    -------
    LDP
        It holds for all pairs ``(y_A, y_B)`` with ``y_A`` protected, hence for whoever holds a
        sensitive value, whose reports to the first collector are always protected.

    Examples
    --------
    >>> integrate(ULDP(["HIV"], 1.0), LDP(0.5))
    LDP(epsilon=1.5)
    """
    if not isinstance(first, ULDP) or not isinstance(second, LDP):
        raise AnonbayesError(f"Data integration combines ULDP with LDP, got {first} and {second}.")
    return LDP(first.epsilon + second.epsilon)


def post_process(
    notion: ULDP, kernel: npt.ArrayLike, protected_in: npt.ArrayLike, protected_out: npt.ArrayLike
) -> ULDP | OSLDP:
    """Guarantee after post-processing the reports by a randomized map (ULDP Def. 5, Prop. 11).

    Parameters
    ----------
    notion : ULDP
        Guarantee of the reports.
    kernel : array-like, shape (number of reports, number of results)
        Probability of each result given each report.
    protected_in, protected_out : array-like of bool
        Which reports, and which results, count as protected.

    Returns
    -------
    ULDP or OSLDP
        The same ULDP when the map preserves data types: no protected result from an invertible
        report, and each invertible result from exactly one report, an invertible one. Else the
        one-sided guarantee, which ULDP implies (Prop. 13) and which every map preserves.

    Examples
    --------
    Merging two protected reports keeps ULDP; merging a protected and an invertible one does not:

    >>> before = ULDP(["HIV"], 1.0)
    >>> merge_protected = [[1, 0], [1, 0], [0, 1]]
    >>> post_process(before, merge_protected, [True, True, False], [True, False])
    ULDP(['HIV'], epsilon=1.0)
    >>> post_process(before, [[1, 0], [0, 1], [1, 0]], [True, True, False], [True, True])
    OSLDP(['HIV'], epsilon=1.0)
    """
    q = read_numbers("kernel", kernel)
    before = read_numbers("protected_in", protected_in).reshape(-1) != 0
    after = read_numbers("protected_out", protected_out).reshape(-1) != 0
    if q.shape != (len(before), len(after)):
        raise AnonbayesError(
            f"The kernel has shape {q.shape}, but there are {len(before)} reports and "
            f"{len(after)} results."
        )
    if not (q >= 0).all() or not np.allclose(q.sum(axis=1), 1.0):
        raise AnonbayesError("Every row of the kernel must be a distribution over the results.")
    possible = q > 0
    mixed = possible[np.ix_(~before, after)].any()
    sources = possible[:, ~after]
    invertible = (sources.sum(axis=0) == 1) & ~sources[before].any(axis=0)
    if not mixed and invertible.all():
        return notion
    return OSLDP(notion.sensitive, notion.epsilon)
