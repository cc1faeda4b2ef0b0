"""Regions of a box that get the same answer to a query: volumes, enclosing balls, parts.

Bins of the answer are given by their inner edges; region ``i`` holds the secrets whose answer lies
in bin ``i``. Slabs of linear queries are exact in any dimension. Other queries are treated in one
coordinate, exactly, and in two, by quadrature of exact chord lengths.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import ndimage
from scipy.optimize import elementwise

from anonbayes.arrays import Codes, Floats
from anonbayes.errors import ChannelError
from anonbayes.nonstochastic.geometry import Box, LinearQuery, Query, query_extremes, supported_ball

__all__ = [
    "MAX_CORNER_DIMENSION",
    "Segments",
    "connected_parts",
    "corner_radius",
    "enclosing_balls",
    "log_slab_measures",
    "region_volumes",
    "rough_volumes",
    "segments",
    "slab_corners",
]


# -------------------------------------------------------------------------------------------------
# Slabs of a box, ``edge_i <= weights @ x < edge_(i+1)``: exact volumes and exact corners.
#
# Floats are rational numbers, so the inclusion-exclusion formula for the volume below a hyperplane
# is evaluated in integers: no cancellation, whatever the dimension or however thin the slab.

MAX_CORNER_DIMENSION = 10
"""Beyond it the corners of a slab are too many to list."""
MAX_TERMS = 2**16
"""Longest sum over corners that is evaluated for each edge."""


def log_slab_measures(query: LinearQuery, box: Box, edges: Floats) -> Floats:
    """Log-volumes of the slabs between consecutive `edges`; the outer edges count as infinite.

    With ``x`` scaled to the unit cube and all weights ``a_i`` positive, the part of the cube below
    ``t`` has volume ``sum_v (-1)^|v| (t - a @ v)_+^n / (n! prod a)`` over the corners ``v``. Equal
    weights are grouped, so the mean of ``n`` numbers costs ``n + 1`` terms, not ``2^n``.
    """
    start, sizes = _standard_form(query, box)
    if math.prod(count + 1 for count in Counter(sizes).values()) > MAX_TERMS:
        raise ChannelError(
            f"{len(set(sizes))} coordinates with different weights: the exact volume sums over "
            "more corners than can be listed. Give equal weights, or at most 16 coordinates."
        )
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
    parts = [corners[(values >= lower - slack) & (values <= upper + slack)]]
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
            parts.append(points)
    return np.concatenate(parts)


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


# -------------------------------------------------------------------------------------------------
# Where a line parallel to an axis passes from region to region.
#
# Turning points and crossings are found on a grid and then to rounding, so lengths inside a region
# are exact as long as a query has at most one turning point per step of the grid.

_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class Segments:
    """Pieces of lines, each inside one region."""

    line: Codes
    region: Codes
    start: Floats
    stop: Floats

    def lengths(self, n_lines: int, n_regions: int) -> Floats:
        """Length of each line inside each region, shape ``(n_lines, n_regions)``."""
        where = self.line * n_regions + self.region
        flat = np.bincount(where, self.stop - self.start, minlength=n_lines * n_regions)
        return np.asarray(flat, dtype=float).reshape(n_lines, n_regions)


def segments(
    query: Query, inner: Floats, box: Box, axis: int, base: Floats, *, steps: int = 64
) -> Segments:
    """Cut lines along `axis` at the borders of the regions."""

    def values(line: Codes, position: Floats) -> Floats:
        points = base[line]
        points[:, axis] = position
        return np.asarray(query(points), dtype=float)

    n_lines = len(base)
    grid = np.linspace(box.lower[axis], box.upper[axis], steps + 1)
    line, position = np.repeat(np.arange(n_lines), steps + 1), np.tile(grid, n_lines)
    answer = values(line, position)
    if len(inner):
        turns, turn = _turning_points(values, answer.reshape(n_lines, -1), grid)
        line, position = np.concatenate([line, turns]), np.concatenate([position, turn])
        order = np.lexsort((position, line))
        line, position = line[order], position[order]
        answer = np.concatenate([answer, values(turns, turn)])[order]
    crossed, crossing = _crossings(values, inner, line, position, answer)
    ends = np.repeat(np.arange(n_lines), 2), np.tile(grid[[0, -1]], n_lines)
    line, cut = np.concatenate([crossed, ends[0]]), np.concatenate([crossing, ends[1]])
    order = np.lexsort((cut, line))
    line, cut = line[order], cut[order]
    piece = np.flatnonzero((line[1:] == line[:-1]) & (cut[1:] > cut[:-1]))
    line, start, stop = line[piece], cut[piece], cut[piece + 1]
    middle = values(line, (start + stop) / 2)
    return Segments(line, np.searchsorted(inner, middle, side="right"), start, stop)


def _turning_points(
    values: Callable[[Codes, Floats], Floats], answer: Floats, grid: Floats
) -> tuple[Codes, Floats]:
    """Lines and positions of least and greatest answers near grid points, by golden sections.

    The first and the last step, which no grid point halves, are searched both ways.
    """
    before, after = answer[:, 1:-1] - answer[:, :-2], answer[:, 2:] - answer[:, 1:-1]
    line, at = np.nonzero(before * after <= 0)
    sign = np.sign(after - before)[line, at]
    every = np.arange(len(answer))
    last = len(grid) - 2
    line = np.concatenate([line, np.tile(every, 4)])
    left = grid[np.concatenate([at, np.repeat([0, 0, last, last], len(every))])]
    right = grid[np.concatenate([at + 2, np.repeat([1, 1, last + 1, last + 1], len(every))])]
    sign = np.concatenate([sign, np.repeat([1.0, -1.0, 1.0, -1.0], len(every))])
    inner, outer = right - _GOLDEN * (right - left), left + _GOLDEN * (right - left)
    f_inner, f_outer = sign * values(line, inner), sign * values(line, outer)
    for _ in range(40):
        smaller = f_inner < f_outer
        left, right = np.where(smaller, left, inner), np.where(smaller, outer, right)
        step = _GOLDEN * (right - left)
        probe = np.where(smaller, right - step, left + step)
        f_probe = sign * values(line, probe)
        inner, outer = np.where(smaller, probe, outer), np.where(smaller, inner, probe)
        f_inner, f_outer = np.where(smaller, f_probe, f_outer), np.where(smaller, f_inner, f_probe)
    return line, np.where(f_inner < f_outer, inner, outer)


def _crossings(
    values: Callable[[Codes, Floats], Floats],
    edges: Floats,
    line: Codes,
    position: Floats,
    answer: Floats,
) -> tuple[Codes, Floats]:
    """Lines and positions at which the answer passes an edge between two bins."""
    bins = np.searchsorted(edges, answer, side="right")
    step = np.flatnonzero((line[1:] == line[:-1]) & (bins[1:] != bins[:-1]))
    if len(step) == 0:
        return np.empty(0, dtype=np.intp), np.empty(0)
    first = np.minimum(bins[step], bins[step + 1])
    count = np.abs(bins[step + 1] - bins[step])
    which = np.repeat(step, count)
    edge = edges[np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())]
    # An answer on an edge belongs to the upper bin; a jump is found as surely as a crossing.
    roots = elementwise.find_root(
        lambda x, line, edge: values(line, x) - edge,
        (position[which], position[which + 1]),
        args=(line[which], edge),
    )
    return line[which], np.asarray(roots.x)


# -------------------------------------------------------------------------------------------------
# Volumes of regions: exact on a line, adaptive quadrature of exact chord lengths in a plane.

_MAX_ELEMENTS = 4_000_000


def _lobatto(n: int) -> tuple[Floats, Floats]:
    """Nodes and weights of the Gauss-Lobatto rule on [-1, 1]; its nodes include both ends."""
    legendre = np.polynomial.Legendre.basis(n - 1)
    nodes = np.concatenate([[-1.0], np.sort(legendre.deriv().roots().real), [1.0]])
    return nodes, 2 / (n * (n - 1) * legendre(nodes) ** 2)


# Rules without nodes at the ends do not see a border that turns just inside an interval.
_NODES, _WEIGHTS = _lobatto(10)
# A second rule on six of the nodes, exact to degree five: both agree only on smooth chords.
_SOME = np.array([0, 2, 4, 5, 7, 9])
_CHECK = np.zeros(10)
_CHECK[_SOME] = np.linalg.solve(
    np.vander(_NODES[_SOME], increasing=True).T, [2, 0, 2 / 3, 0, 2 / 5, 0]
)


def region_volumes(
    query: Query, inner: Floats, box: Box, *, tolerance: float = 1e-10
) -> tuple[Floats, Floats, str]:
    """Volume of each region, its error, and the method.

    Parameters
    ----------
    tolerance : float
        Wanted error relative to the volume of the box (two coordinates).

    Returns
    -------
    volumes, errors : arrays, one entry per bin
        ``errors`` estimates the quadrature error; it is zero when exact.
    method : {"exact", "quadrature"}
    """
    n = len(inner) + 1
    if box.dimension == 1:
        cut = segments(query, inner, box, 0, np.zeros((1, 1)), steps=2048)
        return cut.lengths(1, n)[0], np.zeros(n), "exact"
    return *_adaptive(query, inner, box, tolerance, _graded_ends(query, box)), "quadrature"


def rough_volumes(query: Query, inner: Floats, box: Box) -> Floats:
    """Volumes of very many regions, by a fixed rule without error control.

    Errors are below a thousandth of the box: enough to choose edges by, not to report.
    """
    if box.dimension == 1:
        return region_volumes(query, inner, box)[0]
    unit = np.stack([(np.arange(1024) + 0.5) / 1024, np.zeros(1024)], axis=1)
    return _lengths(query, inner, box, box.at(unit)).mean(axis=0) * float(box.widths[0])


def _lengths(query: Query, inner: Floats, box: Box, base: Floats) -> Floats:
    """Chord lengths along the second axis, in portions that bound the memory."""
    n = len(inner) + 1
    portion = max(1, _MAX_ELEMENTS // max(n, 64))
    return np.concatenate(
        [
            segments(query, inner, box, 1, part).lengths(len(part), n)
            for part in np.array_split(base, max(1, -(-len(base) // portion)))
        ]
    )


def _graded_ends(query: Query, box: Box) -> Floats:
    """Choose the first intervals: even, and ever closer around the extremes of the query."""
    low, high = box.lower[0], box.upper[0]
    centres = [low, high, *(float(point[0]) for _, point in query_extremes(query, box))]
    steps = (high - low) * 2.0 ** -np.arange(4, 24, 2)
    around = np.add.outer(centres, np.concatenate([-steps, [0.0], steps])).ravel()
    ends = np.unique(np.concatenate([np.linspace(low, high, 17), around]))
    ends = ends[(ends >= low) & (ends <= high)]
    return ends[np.concatenate([[True], np.diff(ends) > 1e-9 * (high - low)])]


def _adaptive(
    query: Query, inner: Floats, box: Box, tolerance: float, ends: Floats
) -> tuple[Floats, Floats]:
    """Volumes and their errors, by Gauss-Lobatto on intervals that are halved as needed.

    All intervals of one generation are evaluated in one call. An interval is left alone when
    halving it changes no volume by more than the tolerance, or a millionth of a small volume; near
    a vertical tangent of a border the change shrinks like the power 3/2 of the width, so the depth
    stays small. Small regions hide next to the extremes of a query: the first intervals shrink
    towards them.
    """

    def integrate(left: Floats, right: Floats) -> tuple[Floats, Floats]:
        half = (right - left) / 2
        nodes = (left + right)[:, None] / 2 + half[:, None] * _NODES
        base = np.stack([nodes.ravel(), np.zeros(nodes.size)], axis=1)
        chords = _lengths(query, inner, box, base).reshape(len(left), len(_NODES), -1)
        rules = np.stack([_WEIGHTS, _WEIGHTS - _CHECK])
        volume, doubt = np.einsum("rg,igc,i->ric", rules, chords, half)
        return volume, np.abs(doubt)

    left, right = ends[:-1], ends[1:]
    whole, _ = integrate(left, right)
    volumes, errors = np.zeros(len(inner) + 1), np.zeros(len(inner) + 1)
    for _ in range(48):
        middle = (left + right) / 2
        halves, doubt = integrate(np.concatenate([left, middle]), np.concatenate([middle, right]))
        first, second = halves[: len(left)], halves[len(left) :]
        change = np.abs(first + second - whole)
        change = np.maximum(change, 0.05 * (doubt[: len(left)] + doubt[len(left) :]))
        so_far = volumes + first.sum(axis=0) + second.sum(axis=0)
        allowed = np.minimum(tolerance * box.volume, 1e-6 * so_far) / 16
        done = np.all(change <= np.maximum(allowed, 1e-15 * box.volume), axis=1)
        volumes += (first + second)[done].sum(axis=0)
        errors += change[done].sum(axis=0)
        if done.all():
            return volumes, errors
        go = ~done
        left, right = (
            np.concatenate([left[go], middle[go]]),
            np.concatenate([middle[go], right[go]]),
        )
        whole = np.concatenate([first[go], second[go]])
    return volumes + whole.sum(axis=0), errors + np.abs(whole).sum(axis=0)


# -------------------------------------------------------------------------------------------------
# Outlines of regions: smallest enclosing balls and connected parts.


def enclosing_balls(
    query: Query, inner: Floats, box: Box, *, lines: int = 129
) -> dict[int, tuple[Floats, float]]:
    """Centre and radius of the smallest ball around each region that lines meet.

    One coordinate: exact. Two: the points where lines in both directions enter and leave a region,
    with further lines ever closer to the points that hold the ball, until rounding.
    """
    n, spacing = box.dimension, 1 / (lines - 1)
    unit = np.repeat(np.linspace(0, 1, lines if n == 2 else 1)[:, None], n, axis=1)
    points, owner = _outline(query, inner, box, box.at(unit), steps=64 if n == 2 else 2048)
    clouds = {region: points[owner == region] for region in np.unique(owner).tolist()}
    held = {region: supported_ball(cloud) for region, cloud in clouds.items()}
    for _ in range(12 if n == 2 else 0):
        clouds = {region: clouds[region][ball[2]] for region, ball in held.items()}
        offsets = spacing * np.linspace(-1, 1, 9)[:, None] * box.widths
        near = np.concatenate(list(clouds.values()))[:, None, :] + offsets
        near = np.clip(near.reshape(-1, n), box.lower, box.upper)
        points, owner = _outline(query, inner, box, near)
        for region in clouds:
            clouds[region] = np.concatenate([clouds[region], points[owner == region]])
            held[region] = supported_ball(clouds[region])
        spacing /= 4
    return {region: (centre, radius) for region, (centre, radius, _) in held.items()}


def _outline(
    query: Query, inner: Floats, box: Box, base: Floats, *, steps: int = 64
) -> tuple[Floats, Codes]:
    """End points of the pieces of all lines through `base`, and their regions."""
    points, owners = [], []
    for axis in range(box.dimension):
        cut = segments(query, inner, box, axis, base, steps=steps)
        for position in (cut.start, cut.stop):
            ends = base[cut.line]
            ends[:, axis] = position
            points.append(ends)
            owners.append(cut.region)
    return np.concatenate(points), np.concatenate(owners)


def connected_parts(query: Query, inner: Floats, box: Box, *, resolution: int = 513) -> Codes:
    """Count the connected parts of each region, seen on a grid.

    Parts that come closer to each other than a step of the grid may be seen as one, and parts
    thinner than a step may be missed or seen as several.
    """
    axis = np.linspace(0, 1, resolution if box.dimension == 2 else 16 * resolution)
    grid = np.stack(np.meshgrid(*[axis] * box.dimension, indexing="ij"), axis=-1)
    owner = np.searchsorted(inner, query(box.at(grid)), side="right")
    touching = np.ones((3,) * box.dimension)
    return np.array(
        [ndimage.label(owner == i, structure=touching)[1] for i in range(len(inner) + 1)],
        dtype=np.intp,
    )
