"""Sums of Kullback-Leibler terms that keep their digits when they are tiny.

``D(q||r) = sum r phi(q/r - 1)`` with ``phi(d) = (1+d) ln(1+d) - d >= 0``: as every term is
positive, bits of the order of 1e-7 do not drown in the entropies of the two distributions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, vectorize

from anonbayes.arrays import Floats

__all__ = ["LOG2E", "divergence_terms", "excess"]


LOG2E = math.log2(math.e)


@njit(cache=True)
def _phi(d: Any) -> Any:
    if abs(d) < 1e-3:
        return d * d * (1 / 2 - d * (1 / 6 - d * (1 / 12 - d * (1 / 20 - d / 30))))
    return -d if d <= -1.0 else (1.0 + d) * math.log1p(d) - d


@vectorize(cache=True)
def _excess(d: Any) -> Any:
    return _phi(d)


@vectorize(cache=True)
def _terms(q: Any, r: Any) -> Any:
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
