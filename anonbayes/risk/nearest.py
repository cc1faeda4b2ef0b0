"""Kullback-Leibler divergence of two samples on a line, by nearest neighbours.

The estimator of Wang, Kulkarni and Verdú (2009). Around each point of the first sample a radius is
chosen that holds at least `k` points of each sample. With ``l`` points of the first sample within
it, the farthest at ``rho``, and ``m`` of the second, the farthest at ``nu``,

    D = mean( ln nu - ln rho + psi(l) - psi(m) ) + ln( n2 / (n1 - 1) ).

After sorting, all radii and counts are found by a walk along the two arrays: ``O(n log n)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from scipy import special

from anonbayes.arrays import Floats

__all__ = ["log_ratios"]


def log_ratios(first: Floats, second: Floats, k: int = 1) -> Floats:
    """Log density ratio, in nats, at each point of `first`; their mean estimates the divergence.

    Where ties bring a distance down to zero, both samples are counted within the same radius, and
    the ratio is that of the two shares. So discrete scores give the divergence of their
    frequencies.

    Parameters
    ----------
    first, second : ndarray
        Ascending; at least ``k + 1`` and `k` points.
    k : int
        Neighbours that both samples must have within the radius.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> first, second = np.sort(rng.normal(1, 1, 20_000)), np.sort(rng.normal(0, 1, 20_000))
    >>> round(float(log_ratios(first, second, k=5).mean()), 1)  # 0.5 in truth
    0.5
    """
    own, other, rho, nu = _neighbours(first, second, k)
    tied = (rho == 0) | (nu == 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        spread = np.where(tied, 0.0, np.log(nu) - np.log(rho))
    # Counts at an atom are binomial and have no point on their border.
    shares = np.where(
        tied, np.log(own) - np.log(other), special.digamma(own) - special.digamma(other)
    )
    return np.asarray(spread + shares + np.log(len(second) / (len(first) - 1)))


@njit(cache=True)
def _widen(points: Any, x: Any, left: Any, right: Any, count: Any) -> Any:
    """Distance of the `count`-th nearest point, walking outwards from positions left < right."""
    distance = 0.0
    for _ in range(count):
        below = x - points[left] if left >= 0 else np.inf
        above = points[right] - x if right < len(points) else np.inf
        if below <= above:
            distance = below
            left -= 1
        else:
            distance = above
            right += 1
    return distance


@njit(cache=True)
def _within(points: Any, x: Any, radius: Any) -> Any:
    """Bounds of the positions whose points lie within the radius, found from differences.

    Comparing ``|points - x| <= radius``, as `_widen` does, not ``points <= x + radius``, which
    rounds differently and would lose the farthest point.
    """
    low, high = 0, np.searchsorted(points, x, side="left")
    while low < high:
        middle = (low + high) // 2
        if x - points[middle] <= radius:
            high = middle
        else:
            low = middle + 1
    first = low
    low, high = np.searchsorted(points, x, side="right"), len(points)
    while low < high:
        middle = (low + high) // 2
        if points[middle] - x <= radius:
            low = middle + 1
        else:
            high = middle
    return first, low


@njit(cache=True)
def _neighbours(first: Any, second: Any, k: Any) -> Any:
    n = len(first)
    own, other = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    rho, nu = np.empty(n), np.empty(n)
    place = 0
    for i in range(n):
        x = first[i]
        while place < len(second) and second[place] < x:
            place += 1
        radius = max(_widen(first, x, i - 1, i + 1, k), _widen(second, x, place - 1, place, k))
        start, stop = _within(first, x, radius)
        own[i] = stop - start - 1
        rho[i] = max(x - first[start], first[stop - 1] - x)
        start, stop = _within(second, x, radius)
        other[i] = stop - start
        nu[i] = max(x - second[start], second[stop - 1] - x)
    return own, other, rho, nu
