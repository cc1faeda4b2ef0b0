"""Sums of Kullback-Leibler terms that keep their digits when they are tiny.

``D(q||r) = sum r phi(q/r - 1)`` with ``phi(d) = (1+d) ln(1+d) - d >= 0``: as every term is
positive, bits of the order of 1e-7 do not drown in the entropies of the two distributions.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["LOG2E", "divergence_terms", "excess"]

Array = npt.NDArray[np.float64]

LOG2E = float(np.log2(np.e))


def excess(deviation: npt.ArrayLike) -> Array:
    """``(1+d) ln(1+d) - d`` for ``d >= -1``, by its series near zero.

    Examples
    --------
    >>> excess([-1.0, 0.0, 1.0]).round(6).tolist(), f"{float(excess(1e-12)):.3g}"
    ([1.0, 0.0, 0.386294], '5e-25')
    """
    d = np.asarray(deviation, dtype=float)
    near = np.where(np.abs(d) < 1e-3, d, 0.0)
    series = near**2 * (1 / 2 - near * (1 / 6 - near * (1 / 12 - near * (1 / 20 - near / 30))))
    with np.errstate(divide="ignore", invalid="ignore"):
        direct = np.where(d > -1, (1 + d) * np.log1p(d), 0.0) - d
    return np.where(np.abs(d) < 1e-3, series, direct)


def divergence_terms(q: npt.ArrayLike, r: npt.ArrayLike) -> Array:
    """Terms of ``D(q||r)`` in bits; they are positive, and sum to it when both sum to one.

    Where ``r`` is zero so must ``q`` be.

    Examples
    --------
    >>> round(float(divergence_terms([0.5, 0.5], [0.25, 0.75]).sum()), 6)
    0.207519
    """
    first, second = np.broadcast_arrays(np.asarray(q, dtype=float), np.asarray(r, dtype=float))
    ratio = np.divide(first - second, second, out=np.zeros(first.shape), where=second > 0)
    return LOG2E * second * excess(ratio)
