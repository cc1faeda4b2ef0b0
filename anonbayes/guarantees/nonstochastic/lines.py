"""Cells of one or several quantized queries along lines parallel to an axis of a box.

A cell is a combination of bins, one per query. Where a line passes from cell to cell is found by
root finding, so lengths inside a cell are exact up to rounding as long as a query has at most one
turning point per step of the starting grid. Areas and volumes integrate these lengths
(`volumes`), and the points of change outline the cells.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from anonbayes.arrays import Codes, Floats
from anonbayes.guarantees.nonstochastic.boxes import Box, Query

__all__ = ["Cells", "Segments", "segments"]


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
