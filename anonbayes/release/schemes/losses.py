"""What a recoding loses: the quantities that the search over levels minimises.

Every loss comes with a lower bound that never falls on the way up the lattice, because suppressed
rows make the loss itself rise and fall. The bound is the loss that the same levels would have if
no row were suppressed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from anonbayes.errors import one_of
from anonbayes.release.schemes.levels import Levels

__all__ = ["LOSSES", "Groups", "Loss", "make_loss"]

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

LOSSES = ("loss", "mean_loss", "entropy", "precision", "discernibility")


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups at one node of the lattice.

    Parameters
    ----------
    sizes : numpy.ndarray
        Rows of each group.
    kept : numpy.ndarray
        Whether a group satisfies k and l; the rows of the others are suppressed.
    dropped : numpy.ndarray
        Suppressed rows of each record.
    """

    sizes: Floats
    kept: npt.NDArray[np.bool_]
    dropped: Floats

    @property
    def suppressed(self) -> int:
        """Number of suppressed rows."""
        return int(self.dropped.sum())


class Loss(Protocol):
    """A loss over the records of one search."""

    def floor(self) -> Floats:
        """Lower bound of the loss at every node, known before any node is looked at."""

    def at(self, node: Sequence[int], groups: Groups) -> tuple[float, float]:
        """Loss at a node, and a lower bound for this node and every node above it."""

    def mixed(self, heights: Sequence[Codes], sizes: Floats) -> float:
        """Loss when every record has levels of its own and groups have these sizes.

        Records on the top level everywhere are the suppressed ones, and are in no group.
        """


class SeparableLoss:
    """Loss that adds up a cost per row and attribute, scaled to [0, 1] for each attribute.

    A value costs ``costs[a][level, value]``; a suppressed row costs as much as on the top level.
    An attribute's loss is 0 when all its values are shown in clear and 1 at the top.

    Parameters
    ----------
    costs : sequence of numpy.ndarray
        One array (levels, values) per attribute, growing with the level.
    records : sequence of numpy.ndarray
        Value code of each record, one array per attribute.
    weights : numpy.ndarray
        Rows of each record.
    geometric : bool
        Aggregate as ``prod(1 + loss_a)^(1/A) - 1``, as ARX does, instead of the arithmetic mean.
    """

    def __init__(
        self,
        costs: Sequence[Floats],
        records: Sequence[Codes],
        weights: Floats,
        *,
        geometric: bool,
    ) -> None:
        self._geometric = geometric
        self._weights = weights
        self._costs = [cost[:, codes] for cost, codes in zip(costs, records, strict=True)]
        self._totals = [cost @ weights for cost in self._costs]

    def _scaled(self, attribute: int, total: Floats | float) -> Floats:
        low, high = self._totals[attribute][0], self._totals[attribute][-1]
        share = (
            (np.asarray(total) - low) / (high - low) if high > low else np.zeros(np.shape(total))
        )
        return np.log1p(np.clip(share, 0.0, 1.0)) if self._geometric else share

    def _mean(self, total: Floats | np.float64) -> Floats | np.float64:
        mean = total / len(self._costs)
        return np.expm1(mean) if self._geometric else mean

    def floor(self) -> Floats:
        """Loss of every node without suppression."""
        scaled = [self._scaled(a, total) for a, total in enumerate(self._totals)]
        grids = np.meshgrid(*scaled, indexing="ij", sparse=True)
        return np.asarray(self._mean(np.sum(np.broadcast_arrays(*grids), axis=0)))

    def at(self, node: Sequence[int], groups: Groups) -> tuple[float, float]:
        """Loss at a node, and the loss without suppression."""
        shown = [self._totals[a][h] for a, h in enumerate(node)]
        hidden = [
            (cost[-1] - cost[h]) @ groups.dropped for cost, h in zip(self._costs, node, strict=True)
        ]
        scaled = [self._scaled(a, t) for a, t in enumerate(shown)]
        lost = [self._scaled(a, t + s) for a, (t, s) in enumerate(zip(shown, hidden, strict=True))]
        return float(self._mean(np.sum(lost))), float(self._mean(np.sum(scaled)))

    def mixed(self, heights: Sequence[Codes], sizes: Floats) -> float:
        """Loss when every record has levels of its own."""
        lost = [
            self._scaled(a, cost[h, np.arange(len(h))] @ self._weights)
            for a, (cost, h) in enumerate(zip(self._costs, heights, strict=True))
        ]
        return float(self._mean(np.sum(lost)))


class Discernibility:
    """Sum over rows of the number of rows that look alike; suppressed rows look like all rows.

    Bayardo & Agrawal (2005); ARX calls it Discernability.
    """

    def __init__(self, shape: Sequence[int], weights: Floats) -> None:
        self._shape = tuple(shape)
        self._rows = float(weights.sum())

    def floor(self) -> Floats:
        """Every row looks like itself at least."""
        return np.full(self._shape, self._rows)

    def at(self, node: Sequence[int], groups: Groups) -> tuple[float, float]:
        """Loss at a node, and the sum of squared group sizes, which only grows by merging."""
        squares = groups.sizes**2
        seen = groups.sizes[~groups.kept].sum() * self._rows + squares[groups.kept].sum()
        return float(seen), float(squares.sum())

    def mixed(self, heights: Sequence[Codes], sizes: Floats) -> float:
        """Loss of groups of these sizes; rows in none of them are suppressed."""
        return float((sizes**2).sum() + (self._rows - sizes.sum()) * self._rows)


def make_loss(
    name: str, levels: Sequence[Levels], records: Sequence[Codes], weights: Floats
) -> Loss:
    """Build the loss of that name over records (distinct rows with their multiplicities)."""
    one_of("loss", name, LOSSES)
    if name == "discernibility":
        return Discernibility([len(level) for level in levels], weights)
    if name == "entropy":
        costs = [_entropy_cost(v, r, weights) for v, r in zip(levels, records, strict=True)]
    elif name == "precision":
        costs = [_height_cost(v) for v in levels]
    else:
        costs = [v.sizes() / len(v.domain) for v in levels]
    return SeparableLoss(costs, records, weights, geometric=name == "loss")


def _height_cost(levels: Levels) -> Floats:
    top = max(levels.numbers[-1], 1)
    height = np.asarray(levels.numbers, dtype=float) / top
    return np.repeat(height[:, None], len(levels.domain), axis=1)


def _entropy_cost(levels: Levels, codes: Codes, weights: Floats) -> Floats:
    """Bits by which a cell is less surprising than the value: ``log2(rows of cell / of value)``."""
    rows = np.bincount(codes, weights=weights, minlength=len(levels.domain))
    in_cell = np.vstack([np.bincount(cells, weights=rows)[cells] for cells in levels.cells])
    seen = rows > 0
    return np.log2(in_cell, where=seen, out=np.zeros_like(in_cell)) - np.log2(
        rows, where=seen, out=np.zeros_like(rows)
    )
