"""Optimal search over the lattice of generalization levels.

A node says, for each attribute, on which level it is shown. Merging groups only adds rows and
sensitive values, so a row whose group satisfies k and distinct l keeps satisfying them on the way
up: the number of suppressed rows never grows. Hence, with a limit on suppressed rows,

* below a node that fails, every node fails;
* above a node that holds, every node holds,

which is *predictive tagging* (OLA, Emam et al. 2009; Flash, Kohlmayer et al. 2012). A tag is a
slice of an array with one axis per attribute. Nodes whose lower bound exceeds the best loss so far
are never looked at, and every look raises bounds above and below it. All rules leave out only nodes
that cannot be optimal.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["Found", "NodeCheck", "search"]
Node = tuple[int, ...]
UNKNOWN, FAILS, HOLDS = 0, 1, 2


@dataclass(frozen=True)
class NodeCheck:
    """What was seen at one node.

    Parameters
    ----------
    suppressed : int
        Rows in groups that violate k or l.
    loss : float
        Loss at the node, with these rows suppressed.
    above : float
        Lower bound of the loss here and at every node above.
    below : callable
        Computes lower bounds of the loss at the nodes below.
    """

    suppressed: int
    loss: float
    above: float
    below: Callable[[], npt.NDArray[np.float64]]


@dataclass(frozen=True)
class Found:
    """The best node of a search.

    Parameters
    ----------
    node : tuple of int
        Level of each attribute.
    check : NodeCheck
        Its suppressed rows and its loss.
    checked : int
        How many nodes were looked at.
    """

    node: Node
    check: NodeCheck
    checked: int


def search(
    floor: npt.NDArray[np.float64], check: Callable[[Node], NodeCheck], limit: int
) -> Found | None:
    """Find the node with the least loss among those that suppress at most `limit` rows.

    Ties go to fewer suppressed rows, then to the lower sum of levels, then to the earlier
    attributes' lower levels. The top of the lattice shows nothing and is no candidate.

    Parameters
    ----------
    floor : numpy.ndarray
        Lower bound of the loss at each node, one axis per attribute.
    check : callable
        Looks at a node; expensive.
    limit : int
        Most rows that may be suppressed.

    Returns
    -------
    Found or None
        None when only the top holds.
    """
    return _Search(floor, check, limit).run()


class _Search:
    def __init__(
        self, floor: npt.NDArray[np.float64], check: Callable[[Node], NodeCheck], limit: int
    ) -> None:
        self.bound = floor.copy()
        self.check = check
        self.limit = limit
        self.top: Node = tuple(n - 1 for n in floor.shape)
        self.status = np.zeros(floor.shape, dtype=np.int8)
        self.status[self.top] = HOLDS
        self.done = np.zeros(floor.shape, dtype=bool)
        self.done[self.top] = True
        self.best: Found | None = None
        self.checked = 0

    def run(self) -> Found | None:
        for node in self._in_order():
            if self._hopeless(node):
                continue
            if self.status[node] == UNKNOWN:
                self._bisect(self._path(node))
            if self.status[node] == HOLDS and not self._hopeless(node):
                self._look(node)
        return None if self.best is None else Found(self.best.node, self.best.check, self.checked)

    def _in_order(self) -> list[Node]:
        """Nodes from the most promising on; equal bounds from the bottom of the lattice."""
        height = np.indices(self.bound.shape).sum(axis=0)
        order = np.lexsort((height.ravel(), self.bound.ravel()))
        return list(
            zip(*(a.tolist() for a in np.unravel_index(order, self.bound.shape)), strict=True)
        )

    def _hopeless(self, node: Node) -> bool:
        if self.done[node] or self.status[node] == FAILS:
            return True
        # Ties are decided by more than the loss, so a bound equal to the best is still looked at.
        return self.best is not None and bool(
            self.bound[node] > self.best.check.loss * (1 + 1e-12) + 1e-15
        )

    def _path(self, node: Node) -> list[Node]:
        """Way up from a node over untagged nodes, always to the least bound."""
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
        """Find where on a path nodes begin to hold; tag what follows from each look."""
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
            self.best = Found(node, seen, self.checked)
        return True


def _rank(node: Node, seen: NodeCheck) -> tuple[Any, ...]:
    # Rounded, so that the order of additions in two equal losses does not decide.
    return float(f"{seen.loss:.12g}"), seen.suppressed, sum(node), node
