"""Cells of several linear queries are polytopes: their volumes and corners, exactly."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.spatial import ConvexHull, HalfspaceIntersection

from anonbayes.arrays import Floats
from anonbayes.guarantees.nonstochastic.boxes import Box, LinearQuery

__all__ = ["MAX_HULL_DIMENSION", "Polytope", "linear_cells", "log_ball_volume"]


MAX_HULL_DIMENSION = 6
"""Beyond it convex hulls of slabs of a box become slow."""


@dataclass(frozen=True)
class Polytope:
    """Part of a box in which several linear queries each fall into one bin.

    Attributes
    ----------
    bins : tuple of int
        Bin of each query.
    log_volume : float
        Logarithm of the volume; above six coordinates that of the largest inscribed ball, a lower
        bound.
    corners : array or None
        Vertices, up to six coordinates.
    """

    bins: tuple[int, ...]
    log_volume: float
    corners: Floats | None


def linear_cells(queries: list[LinearQuery], inner_edges: list[Floats], box: Box) -> list[Polytope]:
    """All combinations of bins that some open set of secrets gives, in order of the bins.

    A combination is possible if a ball fits into it, which a linear program decides; one that
    extends an impossible combination of the first queries is never tried.
    """
    possible: list[tuple[int, ...]] = [()]
    balls: dict[tuple[int, ...], tuple[Floats, float]] = {}
    for n_used, edges in enumerate(inner_edges, start=1):
        longer = []
        for bins, b in itertools.product(possible, range(len(edges) + 1)):
            candidate = (*bins, b)
            ball = _inscribed_ball(*_halfspaces(queries[:n_used], inner_edges, candidate), box)
            if ball is not None:
                longer.append(candidate)
                balls[candidate] = ball
        possible = longer
    return [_polytope(queries, inner_edges, bins, box, *balls[bins]) for bins in possible]


def log_ball_volume(radius: float, dimension: int) -> float:
    """Log-volume of a ball.

    Examples
    --------
    >>> round(math.exp(log_ball_volume(1.0, 2)), 6)
    3.141593
    """
    half = dimension / 2
    return half * math.log(math.pi) - math.lgamma(half + 1) + dimension * math.log(radius)


def _halfspaces(
    queries: list[LinearQuery], inner_edges: list[Floats], bins: tuple[int, ...]
) -> tuple[Floats, Floats]:
    """Rows ``a``, ``b`` of the conditions ``a @ x <= b`` that the bins put on the secret."""
    rows, limits = [], []
    for query, edges, b in zip(queries, inner_edges, bins, strict=False):
        weights = np.asarray(query.weights)
        if b < len(edges):
            rows.append(weights)
            limits.append(edges[b] - query.offset)
        if b > 0:
            rows.append(-weights)
            limits.append(query.offset - edges[b - 1])
    n = len(queries[0].weights)
    return np.array(rows).reshape(-1, n), np.array(limits)


def _inscribed_ball(rows: Floats, limits: Floats, box: Box) -> tuple[Floats, float] | None:
    """Centre and radius of a largest ball inside the cell, None if there is no room for one.

    In coordinates scaled to the unit cube, so that the radius is relative.
    """
    n = box.dimension
    scaled = rows * box.widths
    rest = limits - rows @ np.asarray(box.lower)
    norms = np.linalg.norm(scaled, axis=1)
    identity, ones = np.eye(n), np.ones((n, 1))
    conditions = np.concatenate(
        [
            np.concatenate([scaled, norms[:, None]], axis=1),
            np.concatenate([identity, ones], axis=1),
            np.concatenate([-identity, ones], axis=1),
        ]
    )
    bounds = np.concatenate([rest, np.ones(n), np.zeros(n)])
    found = linprog(
        np.concatenate([np.zeros(n), [-1.0]]),
        A_ub=conditions,
        b_ub=bounds,
        bounds=[(None, None)] * n + [(0, None)],
        method="highs",
    )
    if found.status != 0 or found.x[-1] < 1e-9:
        return None
    return found.x[:-1], float(found.x[-1])


def _polytope(
    queries: list[LinearQuery],
    inner_edges: list[Floats],
    bins: tuple[int, ...],
    box: Box,
    centre: Floats,
    radius: float,
) -> Polytope:
    n = box.dimension
    if n > MAX_HULL_DIMENSION:
        return Polytope(bins, log_ball_volume(radius, n) + box.log_measure, None)
    rows, limits = _halfspaces(queries, inner_edges, bins)
    scaled, rest = rows * box.widths, limits - rows @ np.asarray(box.lower)
    identity = np.eye(n)
    conditions = np.concatenate(
        [
            np.concatenate([scaled, -rest[:, None]], axis=1),
            np.concatenate([identity, -np.ones((n, 1))], axis=1),
            np.concatenate([-identity, np.zeros((n, 1))], axis=1),
        ]
    )
    if n == 1:
        limits_1d = -conditions[:, 1] / conditions[:, 0]
        low = limits_1d[conditions[:, 0] < 0].max()
        high = limits_1d[conditions[:, 0] > 0].min()
        corners = np.array([[low], [high]])
        return Polytope(bins, math.log(high - low) + box.log_measure, box.at(corners))
    corners = HalfspaceIntersection(conditions, centre).intersections
    hull = ConvexHull(corners)
    return Polytope(bins, math.log(hull.volume) + box.log_measure, box.at(corners[hull.vertices]))
