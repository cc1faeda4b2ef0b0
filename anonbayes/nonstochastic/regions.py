"""Regions that a quantized query leaves possible."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy import ndimage
from scipy.stats import qmc

from anonbayes.arrays import Codes, Floats
from anonbayes.nonstochastic.geometry import Box, LinearQuery, Query, query_extremes, supported_ball

__all__ = [
    "MAX_CORNER_DIMENSION",
    "Ball",
    "Cells",
    "Segments",
    "cell_volumes",
    "connected_parts",
    "corner_radius",
    "enclosing_balls",
    "log_slab_measures",
    "n_terms",
    "rough_volumes",
    "segments",
    "slab_corners",
]


# -------------------------------------------------------------------------------------------------
# Cells of one or several quantized queries along lines parallel to an axis of a box.
#
# A cell is a combination of bins, one per query. Where a line passes from cell to cell is found by
# root finding, so lengths inside a cell are exact up to rounding as long as a query has at most one
# turning point per step of the starting grid. Areas and volumes integrate these lengths
# (`volumes`), and the points of change outline the cells.

_GOLDEN = (5**0.5 - 1) / 2


@dataclass(frozen=True)
class Cells:
    """Product partition of a box by the bins of several scalar queries."""

    queries: Sequence[Query]
    inner_edges: Sequence[Floats]

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of bins of each query."""
        return tuple(len(edges) + 1 for edges in self.inner_edges)

    @property
    def size(self) -> int:
        """Number of combinations of bins."""
        return int(np.prod(self.shape))

    def of(self, points: Floats) -> Codes:
        """Flat cell number of each point (last axis = coordinates)."""
        bins = [
            np.searchsorted(edges, query(points), side="right")
            for query, edges in zip(self.queries, self.inner_edges, strict=True)
        ]
        return np.ravel_multi_index(tuple(np.atleast_1d(b) for b in bins), self.shape)

    def blocks(self, bins: int = 12) -> Iterator[tuple[Cells, Codes, Codes]]:
        """Coarser partitions that keep at most `bins` neighbouring bins of each query apart.

        Lines are refined where some border bends, so looking at all borders at once makes every
        border pay for all others. Yields the coarser cells, the numbers in them of the cells that
        are kept as they are, and the numbers of the same cells here.
        """
        starts = [range(0, n, bins) for n in self.shape]
        for first in itertools.product(*starts):
            edges, inner, outer = [], [], []
            for start, n, own in zip(first, self.shape, self.inner_edges, strict=True):
                kept = np.arange(start, min(start + bins, n))
                edges.append(own[max(start - 1, 0) : start + bins])
                inner.append(kept - max(start - 1, 0))
                outer.append(kept)
            coarse = Cells(self.queries, edges)
            yield (
                coarse,
                np.ravel_multi_index(np.ix_(*inner), coarse.shape).ravel(),
                np.ravel_multi_index(np.ix_(*outer), self.shape).ravel(),
            )


@dataclass(frozen=True)
class Segments:
    """Pieces of lines, each inside one cell."""

    line: Codes
    cell: Codes
    start: Floats
    stop: Floats

    def lengths(self, n_lines: int, n_cells: int) -> Floats:
        """Length of each line inside each cell, shape ``(n_lines, n_cells)``."""
        where = self.line * n_cells + self.cell
        flat = np.bincount(where, self.stop - self.start, minlength=n_lines * n_cells)
        return np.asarray(flat, dtype=float).reshape(n_lines, n_cells)


def segments(cells: Cells, box: Box, axis: int, base: Floats, *, steps: int = 64) -> Segments:
    """Cut lines along `axis` at the borders of the cells.

    Parameters
    ----------
    base : array, shape (n_lines, n)
        One point of each line; its coordinate on `axis` is ignored.
    steps : int
        Number of steps of the grid on which turning points and crossings are looked for.
    """
    n_lines = len(base)
    low, high = box.lower[axis], box.upper[axis]
    grid = np.linspace(low, high, steps + 1)
    line_parts = [np.repeat(np.arange(n_lines), 2)]
    cut_parts = [np.tile([low, high], n_lines)]
    for query, edges in zip(cells.queries, cells.inner_edges, strict=True):
        if len(edges) == 0:
            continue
        line, cut = _crossings(_along(query, axis, base), edges, n_lines, grid)
        line_parts.append(line)
        cut_parts.append(cut)
    line, cut = np.concatenate(line_parts), np.concatenate(cut_parts)
    order = np.lexsort((cut, line))
    line, cut = line[order], cut[order]
    piece = np.flatnonzero((line[1:] == line[:-1]) & (cut[1:] > cut[:-1]))
    line, start, stop = line[piece], cut[piece], cut[piece + 1]
    middle = base[line].copy()
    middle[:, axis] = (start + stop) / 2
    return Segments(line, cells.of(middle), start, stop)


def _along(query: Query, axis: int, base: Floats) -> Callable[[Codes, Floats], Floats]:
    """Return the query as a function of the line number and the position on the line."""

    def values(line: Codes, position: Floats) -> Floats:
        points = base[line].copy()
        points[..., axis] = position
        return np.asarray(query(points), dtype=float)

    return values


def _crossings(
    values: Callable[[Codes, Floats], Floats], edges: Floats, n_lines: int, grid: Floats
) -> tuple[Codes, Floats]:
    """Lines and positions at which the answer passes an edge between two bins."""
    line = np.repeat(np.arange(n_lines), len(grid))
    nodes = _Nodes.at(values, line, np.tile(grid, n_lines), grid)
    nodes = nodes.merged(_folds(values, nodes, grid))
    nodes = nodes.merged(_turning_points(values, nodes))
    line, position, answer = nodes.line, nodes.position, nodes.answer

    bins = np.searchsorted(edges, answer, side="right")
    step = np.flatnonzero((line[1:] == line[:-1]) & (bins[1:] != bins[:-1]))
    first = np.minimum(bins[step], bins[step + 1])
    count = np.abs(bins[step + 1] - bins[step])
    which = np.repeat(step, count)
    edge = edges[np.repeat(first - np.cumsum(count) + count, count) + np.arange(count.sum())]
    ends = (position[which], position[which + 1], answer[which] - edge, answer[which + 1] - edge)
    return line[which], _roots(lambda i, x: values(line[which[i]], x) - edge[i], *ends)


def _roots(
    excess: Callable[[Codes, Floats], Floats], a: Floats, b: Floats, f_a: Floats, f_b: Floats
) -> Floats:
    """Where `excess` changes between negative and not negative, for many brackets at once.

    Chandrupatla's method: inverse quadratic steps where they can be trusted, bisection elsewhere,
    so a jump is found as surely as a smooth crossing.
    """
    root = np.empty_like(a)
    active, scale = np.arange(len(a)), np.abs(b - a)
    t = np.full(len(a), 0.5)
    for _ in range(200):
        if active.size == 0:
            break
        x = a + t * (b - a)
        f_x = excess(active, x)
        same = (f_x >= 0) == (f_a >= 0)
        c, f_c = np.where(same, a, b), np.where(same, f_a, f_b)
        b, f_b = np.where(same, b, a), np.where(same, f_b, f_a)
        a, f_a = x, f_x
        closest = np.where(np.abs(f_a) < np.abs(f_b), a, b)
        root[active] = closest
        gap, limit = np.abs(b - a), 2e-16 * np.maximum(np.abs(closest), scale)
        go = (gap > 2 * limit) & (f_a != 0)
        active, a, b, c, scale = active[go], a[go], b[go], c[go], scale[go]
        f_a, f_b, f_c, least = f_a[go], f_b[go], f_c[go], limit[go] / gap[go]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            xi, phi = (a - b) / (c - b), (f_a - f_b) / (f_c - f_b)
            quadratic = f_a / (f_b - f_a) * f_c / (f_b - f_c) + (c - a) / (b - a) * f_a / (
                f_c - f_a
            ) * f_b / (f_c - f_b)
            trusted = (phi**2 < xi) & ((1 - phi) ** 2 < 1 - xi) & np.isfinite(quadratic)
        t = np.clip(np.where(trusted, quadratic, 0.5), least, 1 - least)
    return root


@dataclass(frozen=True)
class _Nodes:
    """Points on lines, ascending on each, with the answer and its slope there."""

    line: Codes
    position: Floats
    answer: Floats
    slope: Floats

    @classmethod
    def at(
        cls,
        values: Callable[[Codes, Floats], Floats],
        line: Codes,
        position: Floats,
        grid: Floats,
    ) -> _Nodes:
        answer = values(line, position)
        nudge = 1e-6 * (grid[1] - grid[0])
        nudges = np.where(position + nudge <= grid[-1], nudge, -nudge)  # stay inside the box
        return cls(line, position, answer, (values(line, position + nudges) - answer) / nudges)

    def merged(self, other: _Nodes) -> _Nodes:
        if len(other.line) == 0:
            return self
        line = np.concatenate([self.line, other.line])
        position = np.concatenate([self.position, other.position])
        order = np.lexsort((position, line))
        return _Nodes(
            line[order],
            position[order],
            np.concatenate([self.answer, other.answer])[order],
            np.concatenate([self.slope, other.slope])[order],
        )


def _folds(values: Callable[[Codes, Floats], Floats], nodes: _Nodes, grid: Floats) -> _Nodes:
    """More nodes in steps whose end slopes agree, yet which may hold two turning points.

    The cubic through both ends with slopes ``a`` and ``b`` turns inside the step if its mean slope
    ``d`` has ``3 d < a + b - sqrt(a b)`` (all taken as rising); leaving out the root is safer.
    """
    a, b = nodes.slope[:-1], nodes.slope[1:]
    width = np.diff(nodes.position)
    same = (nodes.line[1:] == nodes.line[:-1]) & (a * b > 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.diff(nodes.answer) / width
    near = same & (3 * mean * np.sign(a) < np.abs(a) + np.abs(b))
    step = np.flatnonzero(near)
    parts = np.arange(1, 16) / 16
    position = (nodes.position[step, None] + width[step, None] * parts).ravel()
    return _Nodes.at(values, np.repeat(nodes.line[step], len(parts)), position, grid)


def _turning_points(values: Callable[[Codes, Floats], Floats], nodes: _Nodes) -> _Nodes:
    """Least and greatest answers in the steps whose ends slope differently: golden sections."""
    turns = (nodes.line[1:] == nodes.line[:-1]) & (nodes.slope[:-1] * nodes.slope[1:] < 0)
    at = np.flatnonzero(turns)
    which, sign = nodes.line[at], -np.sign(nodes.slope[at])
    left, right = nodes.position[at], nodes.position[at + 1]
    inner, outer = right - _GOLDEN * (right - left), left + _GOLDEN * (right - left)
    f_inner, f_outer = sign * values(which, inner), sign * values(which, outer)
    for _ in range(40):
        smaller = f_inner < f_outer
        left, right = np.where(smaller, left, inner), np.where(smaller, outer, right)
        step = _GOLDEN * (right - left)
        probe = np.where(smaller, right - step, left + step)
        f_probe = sign * values(which, probe)
        inner, outer = np.where(smaller, probe, outer), np.where(smaller, inner, probe)
        f_inner, f_outer = np.where(smaller, f_probe, f_outer), np.where(smaller, f_inner, f_probe)
    best = np.where(f_inner < f_outer, inner, outer)
    return _Nodes(which, best, sign * np.minimum(f_inner, f_outer), np.zeros(len(which)))


# -------------------------------------------------------------------------------------------------
# Slabs of a box, ``edge_i <= weights @ x < edge_(i+1)``: exact volumes and exact corners.
#
# Floats are rational numbers, so the inclusion-exclusion formula for the volume below a hyperplane
# is evaluated in integers: no cancellation, whatever the dimension or however thin the slab.

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


# -------------------------------------------------------------------------------------------------
# Volumes of the cells of quantized queries on a box.
#
# One coordinate: exact, from the points of change. Two: adaptive quadrature of exact chord lengths.
# More: randomized quasi-Monte Carlo over all coordinates but the last, again of exact chord
# lengths, with a standard error from independent scrambles.

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


def cell_volumes(
    cells: Cells,
    box: Box,
    *,
    tolerance: float = 1e-10,
    n_lines: int = 8192,
    seed: int | np.random.Generator | None = 0,
) -> tuple[Floats, Floats, str]:
    """Volume of each cell, its error, and the method.

    Parameters
    ----------
    tolerance : float
        Wanted error relative to the volume of the box (two coordinates).
    n_lines : int
        Number of lines (three coordinates or more), spread over 16 scrambles.

    Returns
    -------
    volumes, errors : arrays, shape (cells.size,)
        ``errors`` estimates the quadrature error or is a standard error; it is zero when exact.
    method : {"exact", "quadrature", "quasi-Monte Carlo"}
    """
    if box.dimension == 1:
        cut = segments(cells, box, 0, np.zeros((1, 1)), steps=2048)
        return cut.lengths(1, cells.size)[0], np.zeros(cells.size), "exact"
    if box.dimension == 2:
        volumes, errors = np.zeros(cells.size), np.zeros(cells.size)
        ends = _graded_ends(cells, box)
        for block, inside, codes in cells.blocks():
            volumes[codes], errors[codes] = _adaptive(block, box, tolerance, ends, inside)
        return volumes, errors, "quadrature"
    return (
        *_quasi_monte_carlo(cells, box, n_lines, np.random.default_rng(seed)),
        "quasi-Monte Carlo",
    )


def rough_volumes(cells: Cells, box: Box) -> Floats:
    """Volumes of very many cells, by a fixed rule without error control.

    Errors are below a thousandth of the box: enough to choose edges by, not to report.
    """
    n = box.dimension
    if n == 1:
        return cell_volumes(cells, box)[0]
    unit = np.zeros((1024 if n == 2 else 4096, n))
    if n == 2:
        unit[:, 0] = (np.arange(len(unit)) + 0.5) / len(unit)
    else:
        unit[:, :-1] = qmc.Sobol(n - 1, seed=np.random.default_rng(0)).random(len(unit))
    return _lengths(cells, box, box.at(unit)).mean(axis=0) * (box.volume / box.widths[-1])


def _lengths(cells: Cells, box: Box, base: Floats) -> Floats:
    """Chord lengths along the last axis, in portions that bound the memory."""
    portion = max(1, _MAX_ELEMENTS // max(cells.size, 64))
    parts = [
        segments(cells, box, box.dimension - 1, part).lengths(len(part), cells.size)
        for part in np.array_split(base, max(1, -(-len(base) // portion)))
    ]
    return np.concatenate(parts)


def _graded_ends(cells: Cells, box: Box) -> Floats:
    """Choose the first intervals: even, and ever closer around the extremes of each query."""
    low, high = box.lower[0], box.upper[0]
    centres = [low, high]
    for query in cells.queries:
        centres.extend(float(point[0]) for _, point in query_extremes(query, box))
    steps = (high - low) * 2.0 ** -np.arange(4, 24, 2)
    around = np.add.outer(centres, np.concatenate([-steps, [0.0], steps])).ravel()
    ends = np.unique(np.concatenate([np.linspace(low, high, 17), around]))
    ends = ends[(ends >= low) & (ends <= high)]
    return ends[np.concatenate([[True], np.diff(ends) > 1e-9 * (high - low)])]


def _adaptive(
    cells: Cells, box: Box, tolerance: float, ends: Floats, wanted: npt.NDArray[np.intp]
) -> tuple[Floats, Floats]:
    """Volumes of the `wanted` cells, by Gauss-Lobatto on intervals that are halved as needed.

    All intervals of one generation are evaluated in one call. An interval is left alone when
    halving it changes no volume by more than the tolerance, or a millionth of a small volume; near
    a vertical tangent of a border the change shrinks like the power 3/2 of the width, so the depth
    stays small. Small cells hide next to the extremes of a query: the first intervals shrink
    towards them.
    """

    def integrate(left: Floats, right: Floats) -> tuple[Floats, Floats]:
        half = (right - left) / 2
        nodes = (left + right)[:, None] / 2 + half[:, None] * _NODES
        base = np.stack([nodes.ravel(), np.zeros(nodes.size)], axis=1)
        chords = _lengths(cells, box, base)[:, wanted].reshape(len(left), len(_NODES), -1)
        rules = np.stack([_WEIGHTS, _WEIGHTS - _CHECK])
        volume, doubt = np.einsum("rg,igc,i->ric", rules, chords, half)
        return volume, np.abs(doubt)

    left, right = ends[:-1], ends[1:]
    whole, _ = integrate(left, right)
    volumes, errors = np.zeros(len(wanted)), np.zeros(len(wanted))
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


def _quasi_monte_carlo(
    cells: Cells, box: Box, n_lines: int, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    n, scrambles = box.dimension, 16
    power = max(2, round(np.log2(max(n_lines / scrambles, 4))))
    estimates = []
    for stream in rng.spawn(scrambles):
        unit = np.zeros((2**power, n))
        unit[:, :-1] = qmc.Sobol(n - 1, seed=stream).random_base2(power)
        estimates.append(_lengths(cells, box, box.at(unit)).mean(axis=0))
    shares = np.asarray(estimates) * (box.volume / box.widths[-1])
    return shares.mean(axis=0), shares.std(axis=0, ddof=1) / np.sqrt(scrambles)


# -------------------------------------------------------------------------------------------------
# Outlines of the cells of quantized queries: smallest enclosing balls and connected parts.


@dataclass(frozen=True)
class Ball:
    """Smallest ball around the secrets that give one answer.

    Attributes
    ----------
    centre : tuple of float
        The estimate with the smallest worst-case error.
    radius : float
        That error; NaN where it was not computed.
    consistent : bool
        Whether the centre could itself be the secret. If not (the region is hollow or in several
        parts), an adversary bound to consistent estimates (Quantize Assumption II.1) errs by more.
    """

    centre: tuple[float, ...]
    radius: float
    consistent: bool


def enclosing_balls(
    cells: Cells, box: Box, wanted: Codes, *, lines: int = 129, seed: int = 0
) -> dict[int, tuple[Floats, float]]:
    """Centre and radius of the smallest ball around each of the `wanted` cells.

    One coordinate: exact. Two: the points where lines in both directions enter and leave a cell,
    with further lines ever closer to the points that hold the ball, until rounding. More: points
    on random lines in all directions, an estimate from below. Cells not met are left out.
    """
    if box.dimension == 1:
        cloud = _ends(cells, box, [(0, np.zeros((1, 1)))], steps=2048)
        return {c: (b[0], b[1]) for c in wanted.tolist() if (b := _ball(cloud, c)) is not None}
    bundle = []
    for axis, rng in enumerate(np.random.default_rng(seed).spawn(box.dimension)):
        if box.dimension == 2:
            unit = np.repeat(np.linspace(0, 1, lines)[:, None], 2, axis=1)
        else:
            unit = qmc.Sobol(box.dimension, seed=rng).random_base2(int(np.log2(lines * 16)))
        bundle.append((axis, box.at(unit)))
    found = {}
    for block, inside, codes in cells.blocks():
        chosen = np.isin(codes, wanted)
        here = _refined_balls(block, box, inside[chosen], bundle, spacing=1 / (lines - 1))
        names = dict(zip(inside[chosen].tolist(), codes[chosen].tolist(), strict=True))
        found.update({names[c]: ball for c, ball in here.items()})
    return found


def _refined_balls(
    cells: Cells,
    box: Box,
    wanted: Codes,
    bundle: list[tuple[int, Floats]],
    *,
    spacing: float,
) -> dict[int, tuple[Floats, float]]:
    n = box.dimension
    cloud = _ends(cells, box, bundle)
    found = {c: b for c in wanted.tolist() if (b := _ball(cloud, c)) is not None}
    for _ in range(12 if n == 2 else 4):
        if not found:
            break
        offsets = spacing * np.linspace(-1, 1, 9)[:, None] * box.widths
        held = np.concatenate([support for _, _, support in found.values()])
        near = np.clip((held[:, None, :] + offsets).reshape(-1, n), box.lower, box.upper)
        points, owner = _ends(cells, box, [(axis, near) for axis in range(n)])
        for c, (_, _, support) in found.items():
            both = np.concatenate([support, points[owner == c]])
            centre, radius, holding = supported_ball(both)
            found[c] = (centre, radius, both[holding])
        spacing /= 4
    return {c: (centre, radius) for c, (centre, radius, _) in found.items()}


def _ends(
    cells: Cells, box: Box, bundle: list[tuple[int, Floats]], steps: int = 64
) -> tuple[Floats, Codes]:
    """End points of all segments of lines given as (axis, base points), and their cells."""
    points, owners = [], []
    for axis, base in bundle:
        cut = segments(cells, box, axis, base, steps=steps)
        for position in (cut.start, cut.stop):
            ends = base[cut.line].copy()
            ends[:, axis] = position
            points.append(ends)
            owners.append(cut.cell)
    return np.concatenate(points), np.concatenate(owners)


def _ball(cloud: tuple[Floats, Codes], cell: int) -> tuple[Floats, float, Floats] | None:
    points = cloud[0][cloud[1] == cell]
    if len(points) == 0:
        return None
    centre, radius, support = supported_ball(points)
    return centre, radius, points[support]


def connected_parts(cells: Cells, box: Box, *, resolution: int = 513) -> Codes | None:
    """Count the connected parts of each cell, seen on a grid; None above two coordinates.

    Parts that come closer to each other than a step of the grid may be seen as one, and parts
    thinner than a step may be missed or seen as several.
    """
    if box.dimension > 2:
        return None
    axis = np.linspace(0, 1, resolution if box.dimension == 2 else 16 * resolution)
    grid = np.stack(np.meshgrid(*[axis] * box.dimension, indexing="ij"), axis=-1)
    owner = cells.of(box.at(grid))
    touching = np.ones((3,) * box.dimension)
    return np.array(
        [ndimage.label(owner == c, structure=touching)[1] for c in range(cells.size)], dtype=np.intp
    )
