"""Smallest enclosing ball of a set of points."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Floats
from anonbayes.errors import ChannelError

__all__ = ["smallest_enclosing_ball", "supported_ball"]


def smallest_enclosing_ball(points: npt.ArrayLike) -> tuple[Floats, float]:
    """Centre and radius of the smallest ball that contains all points.

    This is the best that an adversary can do who knows that the secret is one of the points: name
    the centre, and be wrong by at most the radius.

    Grows the ball of a few support points by the farthest point outside until none is left; each
    step solves the small problem exactly (Welzl's recursion), so the radius rises strictly and the
    search ends at the optimum.

    Examples
    --------
    >>> centre, radius = smallest_enclosing_ball([[0, 0], [2, 0], [1, 0.5]])
    >>> centre.tolist(), radius
    ([1.0, 0.0], 1.0)
    """
    centre, radius, _ = supported_ball(np.asarray(points, dtype=float))
    return centre, radius


def supported_ball(x: Floats) -> tuple[Floats, float, list[int]]:
    """Centre, radius, and the few points that hold the smallest enclosing ball."""
    if x.ndim != 2 or len(x) == 0:
        raise ChannelError(f"An enclosing ball needs points of shape (m, n), got {x.shape}.")
    origin, scale = x.mean(axis=0), float(np.abs(x - x.mean(axis=0)).max())
    if scale == 0:
        return x[0].copy(), 0.0, [0]
    y = (x - origin) / scale
    support = [int(np.argmax(np.linalg.norm(y, axis=1)))]
    centre, radius = y[support[0]], 0.0
    while True:
        distance = np.linalg.norm(y - centre, axis=1)
        farthest = int(np.argmax(distance))
        if distance[farthest] <= radius * (1 + 1e-13) + 1e-14 or farthest in support:
            radius = scale * max(radius, float(distance[farthest]))
            return origin + scale * centre, radius, support
        inside, centre, radius = _welzl(y, [*support, farthest], [])
        support = inside


def _welzl(y: Floats, free: list[int], on: list[int]) -> tuple[list[int], Floats, float]:
    """Smallest ball of the points `free` and `on` that has the points `on` on its surface."""
    if not free or len(on) == y.shape[1] + 1:
        centre, radius = _circumball(y[on]) if on else (y[free[0]], -1.0)
        return on, centre, radius
    *rest, point = free
    if rest or on:
        support, centre, radius = _welzl(y, rest, on)
        if np.linalg.norm(y[point] - centre) <= radius * (1 + 1e-13) + 1e-14:
            return support, centre, radius
    return _welzl(y, rest, [*on, point])


def _circumball(p: Floats) -> tuple[Floats, float]:
    """Smallest ball with all (affinely independent) points on its surface."""
    edges = p[1:] - p[0]
    if len(edges) == 0:
        return p[0], 0.0
    gram = edges @ edges.T
    weights = np.linalg.lstsq(2 * gram, np.diag(gram), rcond=None)[0]
    offset = weights @ edges
    return p[0] + offset, float(np.linalg.norm(offset))
