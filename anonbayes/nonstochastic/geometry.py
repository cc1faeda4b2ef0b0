"""Boxes of possible secrets, queries, regions with the same answer, and cuts that hide most.

The bins of the answer are given by their edges; region ``i`` contains the secrets whose answer lies
in bin ``i``. Slabs of linear queries are exact in any dimension. Other queries are supported in one
or two dimensions, by contours of the query on a grid.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from contourpy import FillType, contour_generator

from anonbayes.arrays import Codes, Floats, read_number, read_numbers
from anonbayes.channels.coarsening import SLACK, check_gamma
from anonbayes.errors import ChannelError, DomainError

# -------------------------------------------------------------------------------------------------
# Boxes of possible secrets, and the queries asked about them.

Query = Callable[[Floats], Floats]
"""A query takes secrets as the last axis, shape ``(..., n)``, and returns answers ``(...)``."""


@dataclass(frozen=True, init=False)
class Box:
    """Product of closed intervals: the range of a continuous secret.

    Parameters
    ----------
    lower, upper : array_like of float
        Ends of the interval of each coordinate.

    Examples
    --------
    >>> Box([0, 0], [1, 3]).volume
    3.0
    >>> Box.cube(100, 250, 2)
    Box(lower=(100.0, 100.0), upper=(250.0, 250.0))
    """

    lower: tuple[float, ...]
    upper: tuple[float, ...]

    def __init__(self, lower: npt.ArrayLike, upper: npt.ArrayLike) -> None:
        low = np.atleast_1d(read_numbers("lower", lower, error=DomainError))
        high = np.atleast_1d(read_numbers("upper", upper, error=DomainError))
        if low.ndim != 1 or low.shape != high.shape or low.size == 0:
            raise DomainError(
                f"A box needs two lists of ends of equal length, got shapes {low.shape} and "
                f"{high.shape}."
            )
        for i, (a, b) in enumerate(zip(low, high, strict=True)):
            if not (math.isfinite(a) and math.isfinite(b) and a < b):
                raise DomainError(
                    f"Coordinate {i} of the box has ends {a:g} and {b:g}; the lower end must be "
                    "finite and below the upper one."
                )
        object.__setattr__(self, "lower", tuple(low.tolist()))
        object.__setattr__(self, "upper", tuple(high.tolist()))

    @classmethod
    def cube(cls, lower: float, upper: float, dimension: int) -> Box:
        """Box with the same interval in each of `dimension` coordinates."""
        return cls([lower] * dimension, [upper] * dimension)

    @property
    def dimension(self) -> int:
        """Number of coordinates."""
        return len(self.lower)

    @cached_property
    def widths(self) -> Floats:
        """Length of each interval."""
        return np.subtract(self.upper, self.lower)

    @property
    def volume(self) -> float:
        """Lebesgue measure; infinite if it exceeds the largest float."""
        with np.errstate(over="ignore"):
            return float(np.prod(self.widths))

    @property
    def log_measure(self) -> float:
        """Entropy ``h0`` of a secret that can be anywhere in the box."""
        return float(np.log(self.widths).sum())

    def contains(self, points: npt.ArrayLike) -> npt.NDArray[np.bool_]:
        """Whether each point, along the last axis, lies in the box."""
        x = np.asarray(points, dtype=float)
        inside = (x >= self.lower) & (x <= self.upper)
        return np.asarray(inside.all(axis=-1))

    def at(self, unit: npt.ArrayLike) -> Floats:
        """Points of the box at the relative positions `unit`, each coordinate in [0, 1]."""
        return np.asarray(self.lower + np.asarray(unit, dtype=float) * self.widths)


@dataclass(frozen=True, init=False)
class LinearQuery:
    """Weighted sum of the coordinates, ``weights @ x + offset``.

    Volumes, ranges and enclosing balls of its regions are exact, in rational arithmetic.

    Parameters
    ----------
    weights : array_like of float
        One weight per coordinate.
    offset : float
        Constant that is added.

    Examples
    --------
    >>> LinearQuery.mean(2)(np.array([[1.0, 3.0], [0.0, 0.0]])).tolist()
    [2.0, 0.0]
    """

    weights: tuple[float, ...]
    offset: float

    def __init__(self, weights: npt.ArrayLike, offset: float = 0.0) -> None:
        w = np.atleast_1d(read_numbers("weights", weights, error=ChannelError))
        given = read_number("offset", offset, error=ChannelError)
        if w.ndim != 1 or w.size == 0 or not np.isfinite([*w, given]).all():
            raise ChannelError("A linear query needs a list of finite weights and a finite offset.")
        object.__setattr__(self, "weights", tuple(w.tolist()))
        object.__setattr__(self, "offset", given)

    @classmethod
    def mean(cls, dimension: int) -> LinearQuery:
        """Return the mean of `dimension` numbers as a query."""
        return cls([1 / dimension] * dimension)

    def __call__(self, x: npt.ArrayLike) -> Floats:
        """Answers for points along the last axis of `x`."""
        return np.asarray(np.asarray(x, dtype=float) @ np.asarray(self.weights) + self.offset)

    def range(self, box: Box) -> tuple[float, float]:
        """Smallest and largest answer on `box`."""
        ends = np.asarray(self.weights) * np.stack([box.lower, box.upper])
        low, high = ends.min(axis=0), ends.max(axis=0)
        return math.fsum(low) + self.offset, math.fsum(high) + self.offset


def as_query(query: Query | npt.ArrayLike, box: Box) -> Query:
    """Check that `query` can be evaluated on `box`; a list of weights becomes a linear query."""
    if not callable(query):
        query = LinearQuery(query)
    if isinstance(query, LinearQuery):
        if len(query.weights) != box.dimension:
            raise ChannelError(
                f"The query has {len(query.weights)} weights, the box {box.dimension} coordinates."
            )
        return query
    if box.dimension > 2:
        raise ChannelError(
            f"A query that is not linear can have one or two coordinates, but the box has "
            f"{box.dimension}. Use a LinearQuery, or a list of weights."
        )
    probe = box.at(np.linspace(0.25, 0.75, 6)[:, None] * np.ones(box.dimension)).reshape(3, 2, -1)
    answers = np.asarray(query(probe))
    if answers.shape != (3, 2):
        raise ChannelError(
            f"The query maps an array of shape {probe.shape} to shape {answers.shape}; it must "
            "work along the last axis and return one number per point, as in "
            "lambda x: x[..., 0]**2 + 2 * x[..., 1]**2."
        )
    if not np.all(np.isfinite(answers.astype(float))):
        raise ChannelError("The query gives values that are not finite inside the box.")
    return query


def query_range(query: Query, box: Box) -> tuple[float, float]:
    """Smallest and largest answer of `query` on `box`.

    Exact for a `LinearQuery`. Otherwise the best of a grid, improved by bounded quasi-Newton steps:
    good for well-behaved queries, not a proof.
    """
    if isinstance(query, LinearQuery):
        return query.range(box)
    from scipy.optimize import minimize  # which takes long to load

    n = box.dimension
    axis = np.linspace(0, 1, 4097 if n == 1 else 129)
    unit = np.stack(np.meshgrid(*[axis] * n, indexing="ij"), axis=-1).reshape(-1, n)
    values = np.asarray(query(box.at(unit)), dtype=float)
    ends = []
    for sign in (1.0, -1.0):
        starts = np.argsort(sign * values, kind="stable")[:4]
        nearby = [
            minimize(
                lambda u, sign=sign: sign * float(query(box.at(u))),
                unit[start],
                method="L-BFGS-B",
                bounds=[(0.0, 1.0)] * n,
            ).fun
            for start in starts
        ]
        ends.append(sign * float(min(sign * values[starts[0]], *nearby)))
    return ends[0], ends[1]


# -------------------------------------------------------------------------------------------------
# Smallest enclosing ball of a set of points.


def smallest_enclosing_ball(points: npt.ArrayLike) -> tuple[Floats, float]:
    """Centre and radius of the smallest ball that contains all points.

    It gives the best guess of an adversary who knows that the secret is one of the points: name the
    centre, and be wrong by at most the radius.

    The ball of a few support points is enlarged by the farthest point outside until there is none.
    Each step solves the small problem exactly (Welzl's recursion), so the radius increases strictly
    and the search ends at the optimum.

    Examples
    --------
    >>> centre, radius = smallest_enclosing_ball([[0, 0], [2, 0], [1, 0.5]])
    >>> centre.tolist(), radius
    ([1.0, 0.0], 1.0)
    """
    x = np.atleast_1d(read_numbers("points", points, error=ChannelError))
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or x.size == 0 or not np.isfinite(x).all():
        raise ChannelError(f"Give at least one finite point, in an array (m, n), not {x.shape}.")
    origin, scale = x.mean(axis=0), float(np.abs(x - x.mean(axis=0)).max())
    if scale == 0:
        return x[0].copy(), 0.0
    y = (x - origin) / scale
    support = [int(np.argmax(np.linalg.norm(y, axis=1)))]
    centre, radius = y[support[0]], 0.0
    while True:
        distance = np.linalg.norm(y - centre, axis=1)
        farthest = int(np.argmax(distance))
        if distance[farthest] <= radius * (1 + 1e-13) + 1e-14 or farthest in support:
            return origin + scale * centre, scale * max(radius, float(distance[farthest]))
        support, centre, radius = _welzl(y, [*support, farthest], [])


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


# -------------------------------------------------------------------------------------------------
# Slabs of a box, ``edge_i <= weights @ x < edge_(i+1)``: exact volumes and exact corners.
# Slabs of a box, ``edge_i <= weights @ x < edge_(i+1)``: exact volumes and exact corners.
#
# Floats are rational numbers, so the inclusion-exclusion formula for the volume below a hyperplane
# is evaluated in integers, without cancellation in any dimension and for arbitrarily thin slabs.

MAX_CORNER_DIMENSION = 10
"""Largest dimension in which the corners of a slab are listed."""
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
            f"{len(set(sizes))} coordinates have different weights: the exact volume is a sum over "
            "too many corners. Use equal weights, or at most 16 coordinates."
        )
    if not sizes:  # a constant query: everything is in the slab of the constant
        where = int(np.searchsorted(edges[1:-1], float(start), side="right"))
        shares = [Fraction(int(i == where)) for i in range(len(edges) - 1)]
    else:
        below = [_slab_below(Fraction(float(t)) - start, sizes) for t in edges[1:-1]]
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

    The slab of answers within `depth` of an extreme one is the simplex with vertices at the corner
    and at distance ``depth/|weight_i|`` along each edge, if these fit into the box and no weight is
    zero; otherwise None. For equal weights the ball is known in any dimension.
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


def _slab_below(t: Fraction, sizes: list[Fraction]) -> Fraction:
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
# Regions of any other query, from its contours on a grid; one coordinate is a strip of a plane.

STEPS = {1: 16384, 2: 1024}
"""Steps of the grid along each axis, by the number of coordinates."""


class Outline(NamedTuple):
    """A region as represented on the grid."""

    volume: float
    points: Floats
    """Points of its border."""


def values_on_grid(query: Query, box: Box, steps: int) -> tuple[list[Floats], Floats]:
    """Answers on an even grid, second axis first; a single coordinate gets a second one."""
    axes = [np.linspace(a, b, steps + 1) for a, b in zip(box.lower, box.upper, strict=True)]
    points = np.stack(np.meshgrid(*axes), axis=-1)
    values = np.asarray(query(points), dtype=float)
    if box.dimension == 1:
        return [axes[0], np.array([0.0, 1.0])], np.tile(values, (2, 1))
    return axes, values


def outlines(query: Query, inner: Floats, box: Box, *, steps: int | None = None) -> list[Outline]:
    """Outline of each region between the `inner` edges; empty if it contains no grid point.

    An answer on an edge belongs to the upper bin, so contours are computed for the negative query.
    """
    axes, values = values_on_grid(query, box, steps or STEPS[box.dimension])
    lines: Any = contour_generator(axes[0], axes[1], -values, fill_type=FillType.OuterOffset)
    low, high = float(values.min()), float(values.max())
    room = 1.0 + high - low
    edges = np.concatenate([[min(low, *inner) - room], inner, [max(high, *inner) + room]])
    reached = np.bincount(np.searchsorted(inner, values.ravel(), "right"), minlength=len(edges) - 1)
    out = []
    for i, (lower, upper) in enumerate(itertools.pairwise(edges)):
        if not reached[i]:
            out.append(Outline(0.0, np.empty((0, box.dimension))))
            continue
        polygons, offsets = lines.filled(-upper, -lower)
        area = 0.0
        for points, starts in zip(polygons, offsets, strict=True):
            for a, b in itertools.pairwise(starts):  # the border, then holes the other way round
                x, y = points[a:b].T
                area += 0.5 * float(x[:-1] @ y[1:] - x[1:] @ y[:-1])
        border = np.concatenate(polygons)[:, : box.dimension]
        out.append(Outline(abs(area), border))
    return out


def region_volumes(query: Query, inner: Floats, box: Box) -> tuple[Floats, Floats]:
    """Volume of each region and its error, which decreases with the square of the grid's step."""
    steps = STEPS[box.dimension]
    coarse, fine = (
        np.array([outline.volume for outline in outlines(query, inner, box, steps=n)])
        for n in (steps // 2, steps)
    )
    better = np.maximum(fine + (fine - coarse) / 3, 0.0)
    return better, np.abs(better - fine)


# -------------------------------------------------------------------------------------------------
# Where to cut the answers so that the smallest region is as large as possible.
#
# Quantize Thm. IV.3, (16b), with ``w = 2/gamma`` the widest bin that keeps the quality. If a region
# holds a smaller answer than a region to its left does, equal parts of the two can be exchanged
# without leaving either window of width ``w``. So regions that are contiguous in the answer lose
# nothing, and dynamic programming finds the best.


def largest_smallest_edges(
    share_below: Callable[[Floats], Floats],
    lower: float,
    upper: float,
    gamma: float,
    *,
    resolution: int = 512,
) -> Floats:
    """Edges of bins no wider than ``2/gamma`` whose smallest share is as large as possible.

    `share_below` returns the share of secrets whose answer is below each value. There are
    `resolution` candidate positions for an edge; later passes refine the best ones.
    """
    check_gamma(gamma)
    width = 2 / gamma
    if width * (1 + SLACK) >= upper - lower:
        return np.array([lower, upper])
    # Bins of full width counted from either end: where a tight solution has its edges.
    chain = width * np.arange(1, math.ceil((upper - lower) / width))
    places = np.concatenate(
        [np.linspace(lower, upper, resolution + 1), lower + chain, upper - chain]
    )
    places = np.unique(places[(places >= lower) & (places <= upper)])
    reach = np.searchsorted(places, places[1:] - width * (1 + SLACK), side="left")
    edges = places[_backtrack(share_below(places), reach)]
    spacing = (upper - lower) / resolution
    least = np.diff(share_below(edges)).min()
    while spacing > 1e-10 * (upper - lower):
        nearby = _zoom(edges, share_below, width, spacing)
        gain = np.diff(share_below(nearby)).min() - least
        if gain > 0:
            edges, least = nearby, least + gain
        if gain <= 1e-3 * least * spacing / (upper - lower):
            spacing /= 4
    return edges


def _backtrack(shares: Floats, reach: Codes) -> Codes:
    """Cuts ``0 = c_0 < ... < c_q = n`` that maximise the least ``shares[c_i] - shares[c_(i-1)]``.

    A block that ends before cut ``j`` may start at cut ``reach[j-1]`` or later; blocks are few.
    """
    n = len(shares) - 1
    best, count = np.full(n + 1, -np.inf), np.zeros(n + 1, dtype=np.intp)
    origin = np.zeros(n + 1, dtype=np.intp)
    best[0] = np.inf
    for j in range(1, n + 1):
        first = reach[j - 1]
        smallest = np.minimum(best[first:j], shares[j] - shares[first:j])
        good = np.flatnonzero(smallest >= smallest.max() - 1e-12 * shares[-1])
        pick = first + int(good[np.argmin(count[first:j][good])])
        best[j], count[j], origin[j] = smallest[pick - first], count[pick] + 1, pick
    cuts = [n]
    while cuts[-1] > 0:
        cuts.append(int(origin[cuts[-1]]))
    return np.asarray(cuts[::-1], dtype=np.intp)


def _zoom(
    edges: Floats, share_below: Callable[[Floats], Floats], width: float, spacing: float
) -> Floats:
    """Improve the inner edges on a finer grid around each of them, all at once."""
    offsets = spacing * np.linspace(-1, 1, 17)
    layers = np.clip(edges[1:-1, None] + offsets, edges[0], edges[-1])
    layers = np.concatenate([np.full((1, 17), edges[0]), layers, np.full((1, 17), edges[-1])])
    shares = np.asarray(share_below(layers.ravel())).reshape(layers.shape)
    best, origin = np.full(17, np.inf), []
    for k in range(1, len(layers)):
        gap = layers[k][None, :] - layers[k - 1][:, None]
        gain = np.minimum(best[:, None], shares[k][None, :] - shares[k - 1][:, None])
        gain[(gap > width * (1 + SLACK)) | (gap <= 0)] = -np.inf
        # Column 8 is the present edge: it wins ties, so the edges do not drift.
        gain[8] += 1e-15
        origin.append(np.argmax(gain, axis=0))
        best = gain.max(axis=0)
    if not np.isfinite(best.max()):
        return edges
    path = [int(np.argmax(best))]
    for back in origin[::-1]:
        path.append(int(back[path[-1]]))
    return layers[np.arange(len(layers)), path[::-1]]
