"""What all of PIE stands on: divergences that keep their digits, and results that are numbers."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, vectorize

from anonbayes.arrays import Floats

__all__ = ["LOG2E", "Number", "divergence_terms", "excess"]


# -------------------------------------------------------------------------------------------------
# Sums of Kullback-Leibler terms that keep their digits when they are tiny.
#
# ``D(q||r) = sum r phi(q/r - 1)`` with ``phi(d) = (1+d) ln(1+d) - d >= 0``: as every term is
# positive, bits of the order of 1e-7 do not drown in the entropies of the two distributions.

LOG2E = math.log2(math.e)


@njit(cache=True)
def _phi(d: float) -> float:
    if abs(d) < 1e-3:
        return d * d * (1 / 2 - d * (1 / 6 - d * (1 / 12 - d * (1 / 20 - d / 30))))
    return -d if d <= -1.0 else (1.0 + d) * math.log1p(d) - d


@vectorize(cache=True)
def _excess(d: float) -> float:
    return _phi(d)


@vectorize(cache=True)
def _terms(q: float, r: float) -> float:
    return r * _phi((q - r) / r) * LOG2E if r > 0.0 else 0.0


def excess(deviation: npt.ArrayLike) -> Floats:
    """``(1+d) ln(1+d) - d`` for ``d >= -1``, by its series near zero.

    Examples
    --------
    >>> excess([-1.0, 0.0, 1.0]).round(6).tolist(), f"{float(excess(1e-12)):.3g}"
    ([1.0, 0.0, 0.386294], '5e-25')
    """
    return _excess(np.asarray(deviation, dtype=float))


def divergence_terms(q: npt.ArrayLike, r: npt.ArrayLike) -> Floats:
    """Terms of ``D(q||r)`` in bits; they are positive, and sum to it when both sum to one.

    Where ``r`` is zero so must ``q`` be.

    Examples
    --------
    >>> round(float(divergence_terms([0.5, 0.5], [0.25, 0.75]).sum()), 6)
    0.207519
    """
    return _terms(np.asarray(q, dtype=float), np.asarray(r, dtype=float))


# -------------------------------------------------------------------------------------------------
# Results that can be used as the number they are about.


class Number:
    """Result that stands for a number: ``float()``, formats, comparisons and sums work on it.

    Two results are equal when their numbers are.
    """

    def __float__(self) -> float:
        raise NotImplementedError

    def __format__(self, spec: str) -> str:
        return format(float(self), spec) if spec else str(self)

    def __eq__(self, other: object) -> bool:
        return float(self) == float(other) if isinstance(other, Real) else NotImplemented

    def __hash__(self) -> int:
        return hash(float(self))

    def __lt__(self, other: Any) -> bool:
        return float(self) < other

    def __le__(self, other: Any) -> bool:
        return float(self) <= other

    def __gt__(self, other: Any) -> bool:
        return float(self) > other

    def __ge__(self, other: Any) -> bool:
        return float(self) >= other

    def __add__(self, other: Any) -> Any:
        return float(self) + other

    def __sub__(self, other: Any) -> Any:
        return float(self) - other

    def __rsub__(self, other: Any) -> Any:
        return other - float(self)

    def __mul__(self, other: Any) -> Any:
        return float(self) * other

    def __truediv__(self, other: Any) -> Any:
        return float(self) / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / float(self)

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> float:
        return -float(self)

    def __abs__(self) -> float:
        return abs(float(self))

    def __round__(self, digits: int | None = None) -> float:
        return round(float(self), digits)


Real.register(Number)
