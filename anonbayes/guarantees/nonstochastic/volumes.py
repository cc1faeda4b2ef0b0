"""Volumes of the cells of quantized queries on a box.

One coordinate: exact, from the points of change. Two: adaptive quadrature of exact chord lengths.
More: randomized quasi-Monte Carlo over all coordinates but the last, again of exact chord lengths,
with a standard error from independent scrambles.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import qmc

from anonbayes.arrays import Floats
from anonbayes.guarantees.nonstochastic.boxes import Box, query_extremes
from anonbayes.guarantees.nonstochastic.lines import Cells, segments

__all__ = ["cell_volumes", "rough_volumes"]


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
