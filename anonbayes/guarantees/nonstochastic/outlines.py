"""Outlines of the cells of quantized queries: smallest enclosing balls and connected parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import ndimage
from scipy.stats import qmc

from anonbayes.arrays import Codes, Floats
from anonbayes.guarantees.nonstochastic.balls import supported_ball
from anonbayes.guarantees.nonstochastic.boxes import Box
from anonbayes.guarantees.nonstochastic.lines import Cells, segments

__all__ = ["Ball", "connected_parts", "enclosing_balls"]


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
