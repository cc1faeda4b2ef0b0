"""Fisher information of reports about the distribution of the true values, without a K x K matrix.

A report of a channel ``Q`` has information ``I(p)[v, v] = sum_y (vQ)(y)^2 / (pQ)(y)`` about the
distribution ``p`` in each direction ``v`` with ``sum v = 0``. Where values look alike, as all
sensitive ones do, the matrix is known by two numbers for each class of them: the information along
differences within the class, and along a common change of the whole class.

Randomized response: the reports are multinomial, so that the matrix is diagonal,
``gain^2 / (miss + gain p)``.

Bits, with ``T`` the raised bits among the protected values (those with ``miss > 0``), ``B(T)`` its
probability when all of them are noise, ``w = hit/miss`` and ``z = (1-hit)/(1-miss)``:

    P(T and no proof) = B(T) (z + (w - z) p(T)),    P(bit k is a proof) = hit_k p_k,

so that ``I[v, v] = sum_k hit_k v_k^2 / p_k + sum_T B(T) (w - z)^2 v(T)^2 / (z + (w - z) p(T))``.
If ``p`` is constant on the protected values, or Dirichlet with one parameter for all of them, then
``p(T)`` depends on the number ``t`` of ones only. What is left is one sum over ``t``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from anonbayes.arrays import Floats
from anonbayes.errors import ChannelError

__all__ = [
    "Information",
    "Kinds",
    "bits",
    "dirichlet",
    "drawn",
    "fixed",
    "inverse_mean",
    "response",
]


# ``law(floor, gain, weight)``: ``1 / (floor + gain p(T))``, or its mean over a prior of ``p``, for
# a set ``T`` of that weight, its probability or the sum of its Dirichlet parameters.
Law = Callable[[npt.ArrayLike, npt.ArrayLike, Floats], Floats]

# Terms of the continued fraction at most: enough for 14 digits up to gain/floor of 40,000.
MAX_TERMS = 4000


class Kinds(NamedTuple):
    """Values that look alike: the channel's probabilities, the weight of each value, the number."""

    hit: Floats
    miss: Floats
    weight: Floats
    size: Floats

    @classmethod
    def of(cls, hit: Floats, miss: Floats, weight: Floats) -> Kinds:
        """Sort values with these numbers into kinds."""
        rows = np.stack([hit, miss, weight], axis=1)
        alike, size = np.unique(rows, axis=0, return_counts=True)
        return cls(alike[:, 0], alike[:, 1], alike[:, 2], size.astype(float))


class Information(NamedTuple):
    """Symmetric matrix over classes of values that look alike.

    Attributes
    ----------
    size : ndarray, shape (classes,)
        Number of values in each class.
    within : ndarray, shape (classes,)
        Its eigenvalue for differences between values of the class.
    common : ndarray, shape (classes,)
        Its eigenvalue for a change that all values of the class share.
    """

    size: Floats
    within: Floats
    common: Floats

    def plus(self, other: Information, times: float = 1.0) -> Information:
        """Sum with `other` (same classes), this one taken `times`."""
        return Information(
            self.size, times * self.within + other.within, times * self.common + other.common
        )

    def variances(self) -> Floats:
        """Diagonal of the inverse on directions that sum to zero, one entry per class.

        The inverse of ``M`` on these directions is ``M^-1 - M^-1 1 1' M^-1 / (1' M^-1 1)``.
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            inside = np.where(self.size > 1, (1 - 1 / self.size) / self.within, 0.0)
            shared = 1.0 / self.common
        total = float(self.size @ shared)
        return np.maximum(inside + shared / self.size - shared**2 / total, 0.0)

    def inverse_trace(self) -> float:
        """Trace of the inverse on directions that sum to zero.

        Examples
        --------
        Four values, identity matrix: three directions.

        >>> Information(np.array([3.0, 1.0]), np.ones(2), np.ones(2)).inverse_trace()
        3.0
        """
        return float(self.size @ self.variances())


def fixed(floor: npt.ArrayLike, gain: npt.ArrayLike, weight: Floats) -> Floats:
    """Law of a known distribution: the weights are its probabilities."""
    with np.errstate(divide="ignore"):
        return 1.0 / (np.asarray(floor) + np.asarray(gain) * weight)


def drawn(total: float, *, terms: int = MAX_TERMS) -> Law:
    """Law of a Dirichlet distribution: a share with weight ``a`` is ``Beta(a, total - a)``."""

    def reciprocal(floor: npt.ArrayLike, gain: npt.ArrayLike, weight: Floats) -> Floats:
        return inverse_mean(floor, gain, weight, np.maximum(total - weight, 0.0), terms=terms)

    return reciprocal


def response(kinds: Kinds, law: Law) -> Information:
    """Information of a report of the randomized-response family."""
    gain = kinds.hit - kinds.miss
    diagonal = gain**2 * law(kinds.miss, gain, kinds.weight)
    return Information(kinds.size, diagonal, diagonal)


def bits(kinds: Kinds, law: Law) -> Information:
    """Information of a bit report, with at most one kind of protected values (``miss > 0``).

    Raise `ChannelError` when there are several, since their raised bits then count differently.
    """
    protected = kinds.miss > 0
    lowered = (1 - kinds.hit) / (1 - kinds.miss)
    probabilities = np.stack([kinds.hit, kinds.miss])[:, protected]
    if np.ptp(lowered) > 1e-12 or len(np.unique(probabilities, axis=1).T) > 1:
        raise ChannelError(
            "The information of bit reports is known where all protected bits have the same "
            "probabilities, and a report without a proof says the same of every value; not here."
        )
    if protected.sum() > 1:
        raise ChannelError(
            "The information of bit reports is known for distributions and priors that treat all "
            "protected values alike; give them the same number."
        )
    within = kinds.hit * law(0.0, 1.0, kinds.weight)
    common = within.copy()
    for i in np.flatnonzero(protected):
        within[i], common[i] = _raised(
            kinds.hit[i], kinds.miss[i], int(kinds.size[i]), kinds.weight[i], law
        )
    return Information(kinds.size, within, common)


def _raised(hit: float, miss: float, number: int, weight: float, law: Law) -> tuple[float, float]:
    """Information of the raised bits of `number` protected values, within and common."""
    middle, spread = number * miss, np.sqrt(number * miss * (1 - miss))
    # Numbers of ones further out have a probability below 1e-30.
    first, last = int(middle - 12 * spread - 40), int(middle + 12 * spread + 40)
    ones = np.arange(max(first, 1), min(last, number) + 1, dtype=float)
    lowered = (1 - hit) / (1 - miss)
    gain = hit / miss - lowered
    share = gain**2 * stats.binom.pmf(ones, number, miss) * law(lowered, gain, ones * weight)
    # Mean of v(T)^2 over the sets of t values: v sums to zero, or v is constant.
    within = float(share @ (ones * (number - ones))) / (number * max(number - 1, 1))
    return within, float(share @ ones**2) / number


def dirichlet(alpha: Floats, size: Floats) -> Information:
    """Information of a Dirichlet prior, one parameter (above 2) per class.

    The score is ``(alpha_k - 1)/p_k``; its covariance is diagonal,
    ``(alpha_0 - 1)(alpha_0 - 2)/(alpha_k - 2)``, up to a constant that directions with sum zero do
    not see.

    Examples
    --------
    >>> dirichlet(np.array([3.0]), np.array([2.0])).within.tolist()
    [20.0]
    """
    if not (np.isfinite(alpha) & (alpha > 2)).all():
        bad = int(np.flatnonzero(~(np.isfinite(alpha) & (alpha > 2)))[0])
        raise ChannelError(
            f"alpha[{bad}] = {alpha[bad]:g}: the bound needs a prior that vanishes smoothly at the "
            "edges; give Dirichlet parameters above 2."
        )
    total = float(alpha @ size)
    diagonal = (total - 1) * (total - 2) / (alpha - 2)
    return Information(size, diagonal, diagonal)


def inverse_mean(
    floor: npt.ArrayLike,
    gain: npt.ArrayLike,
    a: npt.ArrayLike,
    b: npt.ArrayLike,
    *,
    terms: int = MAX_TERMS,
) -> Floats:
    """Mean of ``1 / (floor + gain B)`` for ``B ~ Beta(a, b)``, ``a > 1``; never too small.

    It is ``2F1(1, a; a+b; -gain/floor) / floor``. The convergents of Gauss's continued fraction
    enclose it; the upper one is returned, so that information is never understated, however few
    `terms` there are.

    Examples
    --------
    >>> round(float(inverse_mean(1.0, 3.0, 1.0, 1.0)), 9)  # log(4) / 3
    0.46209812
    """
    low, slope, a, b = np.broadcast_arrays(
        *(np.asarray(x, dtype=float) for x in (floor, gain, a, b))
    )
    total = a + b
    with np.errstate(divide="ignore", invalid="ignore"):
        # Without the floor: exact when there is none, and always an upper bound.
        bare = np.where(a > 1, (total - 1) / ((a - 1) * slope), np.inf)
        x = np.where(low > 0, slope / low, 0.0)
    # Convergents by the forward recurrence: upper[0]/upper[1] and lower[0]/lower[1].
    upper, lower = np.stack([np.ones_like(x)] * 2), np.stack([np.ones_like(x), 1 + a / total * x])
    for m in range(terms // 2):
        if np.all(upper[0] * lower[1] <= lower[0] * upper[1] * (1 + 1e-14)):
            break
        even = (m + 1) * (b + m) / ((total + 2 * m) * (total + 2 * m + 1))
        odd = (a + m + 1) * (total + m) / ((total + 2 * m + 1) * (total + 2 * m + 2))
        upper = (lower + even * x * upper) / lower[1]
        lower = (upper + odd * x * lower / lower[1]) / upper[1]
        upper = upper / upper[1]
    with np.errstate(divide="ignore"):
        return np.minimum(np.where(low > 0, upper[0] / (upper[1] * low), np.inf), bare)
