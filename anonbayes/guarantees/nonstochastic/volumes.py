"""Volumes of the cells of quantized queries on a box.

One coordinate: exact, from the points of change. Two: adaptive quadrature of exact chord lengths.
More: randomized quasi-Monte Carlo over all coordinates but the last, again of exact chord lengths,
with a standard error from independent scrambles.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import qmc

from anonbayes.guarantees.nonstochastic.boxes import Box
from anonbayes.guarantees.nonstochastic.lines import Cells, segments

__all__ = ["cell_volumes", "rough_volumes"]

Floats = npt.NDArray[np.float64]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(10)
_MAX_ELEMENTS = 4_000_000


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
        ``errors`` bounds the quadrature error or is a standard error; it is zero when exact.
    method : {"exact", "quadrature", "quasi-Monte Carlo"}
    """
    if box.dimension == 1:
        cut = segments(cells, box, 0, np.zeros((1, 1)), steps=2048)
        return cut.lengths(1, cells.size)[0], np.zeros(cells.size), "exact"
    if box.dimension == 2:
        return (*_adaptive(cells, box, tolerance), "quadrature")
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


def _adaptive(cells: Cells, box: Box, tolerance: float) -> tuple[Floats, Floats]:
    """Gauss-Legendre on intervals that are halved until both halves agree with the whole.

    All intervals of one generation are evaluated in one call. An interval is left alone when the
    change brought by halving it is below the tolerance; near a vertical tangent of a border the
    change shrinks like the power 3/2 of the width, so the depth stays small.
    """

    def integrate(left: Floats, right: Floats) -> Floats:
        half = (right - left) / 2
        nodes = (left + right)[:, None] / 2 + half[:, None] * _NODES
        base = np.stack([nodes.ravel(), np.zeros(nodes.size)], axis=1)
        chords = _lengths(cells, box, base).reshape(len(left), len(_NODES), cells.size)
        return np.einsum("g,igc,i->ic", _WEIGHTS, chords, half)

    allowed = tolerance * box.volume / 16
    ends = np.linspace(box.lower[0], box.upper[0], 9)
    left, right = ends[:-1], ends[1:]
    whole = integrate(left, right)
    volumes, errors = np.zeros(cells.size), np.zeros(cells.size)
    for _ in range(48):
        middle = (left + right) / 2
        halves = integrate(np.concatenate([left, middle]), np.concatenate([middle, right]))
        first, second = halves[: len(left)], halves[len(left) :]
        change = np.abs(first + second - whole)
        done = change.max(axis=1) <= allowed
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
