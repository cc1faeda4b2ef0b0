"""Slabs of a box, ``edge_i <= weights @ x < edge_(i+1)``: exact volumes and exact corners.

Floats are rational numbers, so the inclusion-exclusion formula for the volume below a hyperplane
is evaluated in integers: no cancellation, whatever the dimension or however thin the slab.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np

from anonbayes.arrays import Floats
from anonbayes.guarantees.nonstochastic.boxes import Box, LinearQuery

__all__ = ["MAX_CORNER_DIMENSION", "corner_radius", "log_slab_measures", "n_terms", "slab_corners"]

MAX_CORNER_DIMENSION = 10
"""Beyond it the corners of a slab are too many to list."""


def n_terms(query: LinearQuery, box: Box) -> int:
    """Count the terms of the inclusion-exclusion sum: its cost per edge."""
    _, sizes = _standard_form(query, box)
    return math.prod(count + 1 for count in Counter(sizes).values())


def log_slab_measures(query: LinearQuery, box: Box, edges: Floats) -> Floats:
    """Log-volumes of the slabs between consecutive `edges`; the outer edges count as infinite.

    With ``x`` scaled to the unit cube and all weights ``a_i`` positive, the part of the cube below
    ``t`` has volume ``sum_v (-1)^|v| (t - a @ v)_+^n / (n! prod a)`` over the corners ``v``. Equal
    weights are grouped, so the mean of ``n`` numbers costs ``n + 1`` terms, not ``2^n``.
    """
    start, sizes = _standard_form(query, box)
    if not sizes:  # a constant query: everything lies in the slab that holds the constant
        where = int(np.searchsorted(edges[1:-1], float(start), side="right"))
        shares = [Fraction(int(i == where)) for i in range(len(edges) - 1)]
    else:
        below = [_share_below(Fraction(float(t)) - start, sizes) for t in edges[1:-1]]
        steps = [Fraction(0), *below, Fraction(1)]
        shares = [b - a for a, b in itertools.pairwise(steps)]
    return np.array([_log(share) + box.log_measure for share in shares])


def slab_corners(query: LinearQuery, box: Box, lower: float, upper: float) -> Floats:
    """Vertices of the polytope ``{x in box: lower <= query(x) <= upper}``; may be empty.

    Every vertex is a corner of the box or lies where an edge of the box meets one of the planes.
    """
    n = box.dimension
    bits = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    corners = np.where(bits, box.upper, box.lower)
    values = query(corners)
    slack = 1e-12 * max(1.0, float(np.abs(values).max()))
    found = [corners[(values >= lower - slack) & (values <= upper + slack)]]
    for i in range(n):
        low = np.flatnonzero(bits[:, i] == 0)
        high = low + (1 << i)
        for plane in (lower, upper):
            rise = values[high] - values[low]
            with np.errstate(divide="ignore", invalid="ignore"):
                t = (plane - values[low]) / rise
            on = np.isfinite(t) & (t > 0) & (t < 1)
            points = corners[low[on]].copy()
            points[:, i] += t[on] * box.widths[i]
            found.append(points)
    return np.concatenate(found)


def corner_radius(query: LinearQuery, box: Box, depth: float) -> tuple[float, Floats] | None:
    """Radius and centre (relative to the corner) of the ball around a corner simplex of a box.

    The slab of the answers within `depth` of an extreme one is the simplex with vertices at the
    corner and at distance ``depth/|weight_i|`` along each edge, as long as these fit the box and no
    weight is zero; None otherwise. For equal weights the ball is known in any dimension.
    """
    weights = np.abs(query.weights)
    if np.any(weights == 0) or np.ptp(weights) > 1e-12 * weights.max():
        return None
    legs = depth / weights
    if np.any(legs > box.widths * (1 + 1e-12)):
        return None
    n, leg = box.dimension, float(legs[0])
    if n == 1:
        return leg / 2, np.full(1, leg / 2)
    return leg * math.sqrt((n - 1) / n), np.full(n, leg / n)


def _standard_form(query: LinearQuery, box: Box) -> tuple[Fraction, list[Fraction]]:
    """Smallest answer, and the rise of the answer along each coordinate that matters."""
    start, sizes = Fraction(query.offset), []
    for weight, low, high in zip(query.weights, box.lower, box.upper, strict=True):
        a, b, w = Fraction(low), Fraction(high), Fraction(weight)
        start += w * (a if w > 0 else b)
        if w:
            sizes.append(abs(w) * (b - a))
    return start, sizes


def _share_below(t: Fraction, sizes: list[Fraction]) -> Fraction:
    if t <= 0:
        return Fraction(0)
    if t >= sum(sizes):
        return Fraction(1)
    scale = math.lcm(t.denominator, *(a.denominator for a in sizes))
    level, n = int(t * scale), len(sizes)
    groups = [(int(a * scale), count) for a, count in Counter(sizes).items()]
    total = 0
    for picks in itertools.product(*(range(count + 1) for _, count in groups)):
        rest = level - sum(k * a for k, (a, _) in zip(picks, groups, strict=True))
        if rest > 0:
            ways = math.prod(math.comb(c, k) for k, (_, c) in zip(picks, groups, strict=True))
            total += (-1) ** sum(picks) * ways * rest**n
    return Fraction(total, math.factorial(n) * math.prod(a**count for a, count in groups))


def _log(share: Fraction) -> float:
    if share <= 0:
        return -math.inf
    return math.log(share.numerator) - math.log(share.denominator)
