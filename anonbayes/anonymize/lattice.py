"""The loss of a recoding, and the optimal search over the lattice of generalization levels."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anonbayes.anonymize.cleartext import Levels
from anonbayes.arrays import Floats, Ints, Mask
from anonbayes.errors import one_of

# -------------------------------------------------------------------------------------------------
# The loss of a recoding, which the search over levels minimises.
#
# Because of suppressed rows, the loss is not monotone in the lattice, so the search needs bounds.
# The loss of the same levels without suppression is one, and it never decreases upwards. Another
# holds downwards: a row that is suppressed at a node is suppressed at every node below it.

LOSSES = ("loss", "mean_loss", "entropy", "precision", "discernibility")


@dataclass(frozen=True, eq=False)
class Groups:
    """Groups at one node of the lattice."""

    sizes: Floats
    kept: Mask  # groups that satisfy k and l; the others are suppressed
    dropped: Floats  # number of suppressed rows of each record

    @property
    def suppressed(self) -> int:
        """Number of suppressed rows."""
        return int(self.dropped.sum())


class SeparableLoss:
    """Loss that is a sum of costs per row and attribute, scaled to [0, 1] for each attribute.

    A value costs ``costs[a][level, value]``; a suppressed row costs as much as on the top level.
    """

    def __init__(
        self, costs: Sequence[Floats], records: Sequence[Ints], weights: Floats, *, geometric: bool
    ) -> None:
        self._geometric = geometric
        self._costs, self._records, self._weights = costs, records, weights
        self._climbs = [cost[-1] - cost for cost in costs]
        self._totals = self._by_level(weights, costs)

    def _by_level(self, rows: Floats, costs: Sequence[Floats]) -> list[Floats]:
        """Cost of these rows of the records on each level, one array per attribute."""
        # Rows are first counted by value, because domains are small and records many.
        return [
            cost @ np.bincount(codes, weights=rows, minlength=cost.shape[1])
            for cost, codes in zip(costs, self._records, strict=True)
        ]

    def _extra(self, groups: Groups) -> list[Floats]:
        """Additional cost of suppression on each level, one array per attribute."""
        return self._by_level(groups.dropped, self._climbs)

    def _scaled(self, attribute: int, total: Floats | float) -> Floats:
        low, high = self._totals[attribute][0], self._totals[attribute][-1]
        share = (
            (np.asarray(total) - low) / (high - low) if high > low else np.zeros(np.shape(total))
        )
        return np.log1p(np.clip(share, 0.0, 1.0)) if self._geometric else share

    def _mean(self, total: Floats | np.float64) -> Floats | np.float64:
        mean = total / len(self._costs)
        return np.expm1(mean) if self._geometric else mean

    def _lattice(self, totals: Sequence[Floats]) -> Floats:
        """Loss of every combination of levels, from the attributes' totals by level."""
        scaled = [self._scaled(a, total) for a, total in enumerate(totals)]
        return np.asarray(self._mean(functools.reduce(np.add.outer, scaled)))

    def floor(self) -> Floats:
        """Loss of every node without suppression."""
        return self._lattice(self._totals)

    def below(self, node: Sequence[int], groups: Groups) -> Floats:
        """Loss of the nodes up to this one if exactly the rows suppressed here were suppressed."""
        return self._lattice(
            [
                (total + extra)[: h + 1]
                for total, extra, h in zip(self._totals, self._extra(groups), node, strict=True)
            ]
        )

    def at(self, node: Sequence[int], groups: Groups) -> tuple[float, float]:
        """Loss at a node, and the loss without suppression."""
        shown = [total[h] for total, h in zip(self._totals, node, strict=True)]
        extra = [total[h] for total, h in zip(self._extra(groups), node, strict=True)]
        bound = [self._scaled(a, t) for a, t in enumerate(shown)]
        lost = [self._scaled(a, t + s) for a, (t, s) in enumerate(zip(shown, extra, strict=True))]
        return float(self._mean(np.sum(lost))), float(self._mean(np.sum(bound)))

    def mixed(self, heights: Sequence[Ints], sizes: Floats) -> float:
        """Loss if every record has its own levels."""
        lost = [
            self._scaled(a, float((cost[h, codes] * self._weights).sum()))
            for a, (cost, codes, h) in enumerate(
                zip(self._costs, self._records, heights, strict=True)
            )
        ]
        return float(self._mean(np.sum(lost)))


class Discernibility:
    """Sum over rows of the number of rows that look the same; suppressed rows count all rows.

    Bayardo & Agrawal (2005); ARX calls it Discernability.
    """

    def __init__(self, shape: Sequence[int], weights: Floats) -> None:
        self._shape = tuple(shape)
        self._rows = float(weights.sum())

    def floor(self) -> Floats:
        """Lower bound: every row looks the same as itself."""
        return np.full(self._shape, self._rows)

    def at(self, node: Sequence[int], groups: Groups) -> tuple[float, float]:
        """Loss at a node, and the sum of squared group sizes, which can only grow by merging."""
        squares = groups.sizes**2
        seen = groups.sizes[~groups.kept].sum() * self._rows + squares[groups.kept].sum()
        return float(seen), float(squares.sum())

    def below(self, node: Sequence[int], groups: Groups) -> Floats:
        """Lower bound: suppressed rows count all rows, every other row at least itself."""
        dropped = groups.dropped.sum()
        return np.asarray(dropped * self._rows + self._rows - dropped)

    def mixed(self, heights: Sequence[Ints], sizes: Floats) -> float:
        """Loss of groups of these sizes; all other rows are suppressed."""
        return float((sizes**2).sum() + (self._rows - sizes.sum()) * self._rows)


Loss = SeparableLoss | Discernibility


def make_loss(
    name: str, levels: Sequence[Levels], records: Sequence[Ints], weights: Floats
) -> Loss:
    """Create the loss with a given name for records (distinct rows with multiplicities)."""
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


def _entropy_cost(levels: Levels, codes: Ints, weights: Floats) -> Floats:
    """Bits that a cell hides: ``log2(rows of the cell / rows of the value)``."""
    rows = np.bincount(codes, weights=weights, minlength=len(levels.domain))
    in_cell = np.vstack([np.bincount(cells, weights=rows)[cells] for cells in levels.cells])
    seen = rows > 0
    return np.log2(in_cell, where=seen, out=np.zeros_like(in_cell)) - np.log2(
        rows, where=seen, out=np.zeros_like(rows)
    )


# -------------------------------------------------------------------------------------------------
# The search. A node gives, for each attribute, the level on which it is shown.
#
# Merging groups only adds rows and sensitive values, so a row whose group satisfies k and distinct
# l still does so further up: the number of suppressed rows never increases upwards. So with a limit
# on suppressed rows,
#
# * every node below one that violates the limit violates it;
# * every node above one that satisfies the limit satisfies it,
#
# which is used for *predictive tagging* (OLA, Emam et al. 2009; Flash, Kohlmayer et al. 2012). A
# tag is a slice of an array with one axis per attribute. Nodes whose lower bound exceeds the best
# loss so far are skipped, and every checked node raises the bounds above and below it. These rules
# skip only nodes that cannot be optimal.

Node = tuple[int, ...]
UNKNOWN, FAILS, HOLDS = 0, 1, 2


@dataclass(frozen=True)
class NodeCheck:
    """Result of checking one node."""

    suppressed: int
    loss: float
    above: float  # lower bound of the loss here and at every node above
    below: Callable[[], Floats]  # lower bounds of the loss at the nodes below


@dataclass(frozen=True)
class BestNode:
    """The best node of a search, and how many nodes were checked."""

    node: Node
    check: NodeCheck
    checked: int


class Search:
    """Find the node with the least loss among those that suppress at most `limit` rows.

    `floor` bounds the loss of each node from below; `check` is expensive. Ties are resolved by
    fewer suppressed rows, then a lower sum of levels, then lower levels of earlier attributes. The
    top of the lattice, which shows nothing, is not a candidate: the result is None if only it
    satisfies the limit.
    """

    def __init__(self, floor: Floats, check: Callable[[Node], NodeCheck], limit: int) -> None:
        self.bound = floor.copy()
        self.check = check
        self.limit = limit
        self.top: Node = tuple(n - 1 for n in floor.shape)
        self.status = np.zeros(floor.shape, dtype=np.int8)
        self.status[self.top] = HOLDS
        self.done = np.zeros(floor.shape, dtype=bool)
        self.done[self.top] = True
        self.best: BestNode | None = None
        self.checked = 0

    def run(self) -> BestNode | None:
        """Check nodes, the most promising first, until no other can be better."""
        for node in self._in_order():
            if self._hopeless(node):
                continue
            if self.status[node] == UNKNOWN:
                self._bisect(self._path(node))
            if self.status[node] == HOLDS and not self._hopeless(node):
                self._look(node)
        return None if self.best is None else replace(self.best, checked=self.checked)

    def _in_order(self) -> list[Node]:
        """Order nodes by their bounds, and equal bounds from the bottom of the lattice."""
        height = np.indices(self.bound.shape).sum(axis=0)
        order = np.lexsort((height.ravel(), self.bound.ravel()))
        return list(
            zip(*(a.tolist() for a in np.unravel_index(order, self.bound.shape)), strict=True)
        )

    def _hopeless(self, node: Node) -> bool:
        if self.done[node] or self.status[node] == FAILS:
            return True
        # Ties are not decided by the loss alone, so a node with an equal bound is still checked.
        return self.best is not None and bool(
            self.bound[node] > self.best.check.loss * (1 + 1e-12) + 1e-15
        )

    def _path(self, node: Node) -> list[Node]:
        """Return a path upwards from a node over untagged nodes, always to the least bound."""
        path = [node]
        while True:
            above = [
                up
                for a in range(len(node))
                if (up := (*node[:a], node[a] + 1, *node[a + 1 :]))[a] <= self.top[a]
                and self.status[up] == UNKNOWN
            ]
            if not above:
                return path
            node = min(above, key=lambda up: self.bound[up])
            path.append(node)

    def _bisect(self, path: list[Node]) -> None:
        """Find where on a path nodes start to satisfy the limit; tag the consequences."""
        low, high = 0, len(path)
        while low < high:
            middle = (low + high) // 2
            if self._look(path[middle]):
                high = middle
            else:
                low = middle + 1

    def _look(self, node: Node) -> bool:
        seen = self.check(node)
        self.checked += 1
        self.done[node] = True
        above = tuple(slice(h, None) for h in node)
        below = tuple(slice(h + 1) for h in node)
        np.maximum(self.bound[above], seen.above, out=self.bound[above])
        if seen.suppressed > self.limit:
            self.status[below] = FAILS
            return False
        self.status[above] = HOLDS
        if seen.suppressed:
            np.maximum(self.bound[below], seen.below(), out=self.bound[below])
        if self.best is None or _rank(node, seen) < _rank(self.best.node, self.best.check):
            self.best = BestNode(node, seen, self.checked)
        return True


def _rank(node: Node, seen: NodeCheck) -> tuple[Any, ...]:
    # Rounded, so that the order of summation does not decide between equal losses.
    return float(f"{seen.loss:.12g}"), seen.suppressed, sum(node), node
