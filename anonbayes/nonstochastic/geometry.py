"""Boxes of possible secrets, queries about them, and the cuts of answers that hide most."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from scipy import optimize

from anonbayes.arrays import Codes, Floats, read_number, read_numbers
from anonbayes.channels.coarsening import SLACK, check_gamma
from anonbayes.errors import ChannelError, DomainError

__all__ = [
    "Box",
    "LinearQuery",
    "Query",
    "as_query",
    "largest_smallest_edges",
    "query_extremes",
    "query_range",
    "smallest_enclosing_ball",
    "supported_ball",
]


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
        """Lebesgue measure; infinite when it exceeds the largest float."""
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
        """Mean of `dimension` numbers."""
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
    """Check that `query` answers about points of `box`; a list of weights is a linear query."""
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
            f"A query that is not linear is treated in one or two coordinates; the box has "
            f"{box.dimension}. Give a LinearQuery, or a list of weights."
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
    (low, _), (high, _) = query_extremes(query, box)
    return low, high


def query_extremes(query: Query, box: Box) -> tuple[tuple[float, Floats], tuple[float, Floats]]:
    """Smallest and largest answer that a search finds, each with a point that gives it."""
    n = box.dimension
    axis = np.linspace(0, 1, 4097 if n == 1 else 129)
    unit = np.stack(np.meshgrid(*[axis] * n, indexing="ij"), axis=-1).reshape(-1, n)
    values = np.asarray(query(box.at(unit)), dtype=float)
    low, at_low = _least(lambda u: float(query(box.at(u))), unit, values)
    high, at_high = _least(lambda u: -float(query(box.at(u))), unit, -values)
    return (low, box.at(at_low)), (-high, box.at(at_high))


def _least(
    objective: Callable[[Floats], float], unit: Floats, values: Floats
) -> tuple[float, Floats]:
    order = np.argsort(values, kind="stable")[:4]
    best, where = float(values[order[0]]), unit[order[0]]
    for start in order:
        nearby = optimize.minimize(
            objective, unit[start], method="L-BFGS-B", bounds=[(0.0, 1.0)] * unit.shape[1]
        )
        if nearby.fun < best:
            best, where = float(nearby.fun), nearby.x
    return best, where


# -------------------------------------------------------------------------------------------------
# Smallest enclosing ball of a set of points.


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
    centre, radius, _ = supported_ball(_read_points(points))
    return centre, radius


def _read_points(points: npt.ArrayLike) -> Floats:
    """Points as rows of a matrix; a plain list of numbers are points on a line."""
    x = np.atleast_1d(read_numbers("points", points, error=ChannelError))
    x = x[:, None] if x.ndim == 1 else x
    if x.ndim != 2 or x.size == 0 or not np.isfinite(x).all():
        raise ChannelError(f"Give finite points of shape (m, n), at least one; got {x.shape}.")
    return x


def supported_ball(x: Floats) -> tuple[Floats, float, list[int]]:
    """Centre, radius, and the few points that hold the smallest enclosing ball."""
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

    Parameters
    ----------
    share_below : callable
        Share of the secrets whose answer is below each given value; vectorised.
    resolution : int
        Number of places for an edge in the first pass; later passes zoom in on the best ones.

    Examples
    --------
    Uniform shares, width at most 0.4: three equal bins.

    >>> largest_smallest_edges(lambda v: v, 0.0, 1.0, gamma=5).round(6).tolist()
    [0.0, 0.333333, 0.666667, 1.0]
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
    edges = _best_chain(places, share_below(places), width)
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

    A block that ends before cut ``j`` may start at cut ``reach[j-1]`` or later. Among equally good
    solutions the one with the fewest blocks is taken.
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


def _best_chain(places: Floats, shares: Floats, width: float) -> Floats:
    reach = np.searchsorted(places, places[1:] - width * (1 + SLACK), side="left")
    return places[_backtrack(shares, reach)]


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
