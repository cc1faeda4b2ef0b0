"""One search, or several in a row: global and local recoding as plans."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.arrays import Ints
from anonbayes.errors import AnonymizationError
from anonbayes.release.schemes.lattice import Check, Found, Node, search
from anonbayes.release.schemes.losses import make_loss
from anonbayes.release.schemes.possible import what_is_possible
from anonbayes.release.schemes.records import RecordSet

__all__ = ["Pass", "Recoder", "Recoding"]

# What each search found, and the records that it recodes.
Plan = list[tuple[Found, Ints]]

# A local recoding may put off half of the rows at first and must place at least a twentieth of
# what is left in each further pass; both are the shares of ARX's published local tables.
FIRST_PASS = 0.5
LATER_PASSES = 0.95


@dataclass(frozen=True)
class Pass:
    """One search over the lattice.

    Parameters
    ----------
    levels : dict of str to int
        Level of each attribute, counted as in its hierarchy.
    rows : int
        Rows that were recoded to these levels.
    loss : float
        Loss over the rows that the search was given; those it left over count as suppressed.
    checked, nodes : int
        Nodes looked at, and nodes of the lattice.
    """

    levels: dict[str, int]
    rows: int
    loss: float
    checked: int
    nodes: int


@dataclass(frozen=True)
class Recoding:
    """How a table was recoded.

    Parameters
    ----------
    passes : tuple of Pass
        One for global recoding, one or more for local recoding.
    loss : float
        Loss of the whole release.
    loss_name : str
        Which loss.
    suppressed : int
        Suppressed rows.
    """

    passes: tuple[Pass, ...]
    loss: float
    loss_name: str
    suppressed: int

    @property
    def levels(self) -> dict[str, int]:
        """Levels of the first pass: those of the table, if recoding was global."""
        return self.passes[0].levels

    def to_frame(self) -> pd.DataFrame:
        """One line per pass: levels, rows, loss, nodes."""
        return pd.DataFrame(
            [
                {**p.levels, "rows": p.rows, "loss": p.loss, "checked": p.checked, "nodes": p.nodes}
                for p in self.passes
            ]
        ).rename_axis(index="pass")


class Recoder:
    """Searches over all records, or over those that earlier searches left.

    Parameters
    ----------
    records : RecordSet
        Distinct rows.
    k, l : int
        Demands on a group.
    loss : str
        Name of the loss.
    limit : int
        Most rows that the release may suppress.
    """

    def __init__(self, records: RecordSet, k: int, l: int, loss: str, limit: int) -> None:  # noqa: E741
        self.records, self.k, self.l, self.loss, self.limit = records, k, l, loss, limit

    def _search(self, chosen: Ints, limit: int) -> Found | None:
        part = self.records.take(chosen)
        loss = make_loss(self.loss, part.levels, part.codes, part.weights)

        def check(node: Node) -> Check:
            groups = part.groups(node, self.k, self.l)
            value, above = loss.at(node, groups)
            return Check(groups.suppressed, value, above, lambda: loss.below(node, groups))

        return search(loss.floor(), check, limit)

    def _kept(self, found: Found, chosen: Ints) -> tuple[Ints, Ints]:
        dropped = self.records.take(chosen).groups(found.node, self.k, self.l).dropped > 0
        return chosen[~dropped], chosen[dropped]

    def global_plan(self) -> Plan:
        """Search once, over everyone."""
        everyone = np.arange(len(self.records.secret))
        found = self._search(everyone, self.limit)
        if found is None:
            raise AnonymizationError(what_is_possible(self.records, self.k, self.l, self.limit))
        return [(found, self._kept(found, everyone)[0])]

    def local_plan(self) -> Plan:
        """Search over what is left again, until nothing is, or nothing can be placed.

        The first search may put off more rows than the global one, so its loss, in which they
        count as suppressed, is no larger; recoding them later only lowers it.
        """
        plan: Plan = []
        rest = np.arange(len(self.records.secret))
        while len(rest):
            rows = int(self.records.weights[rest].sum())
            share = LATER_PASSES if plan else FIRST_PASS
            most = max(math.floor(share * rows), 0 if plan else self.limit)
            found = self._search(rest, min(most, rows - 1))
            if found is None:
                break
            placed, rest = self._kept(found, rest)
            plan.append((found, placed))
        # Too many rows left over: undo passes until the rest fits in together with their rows.
        while plan and self.records.weights[rest].sum() > self.limit:
            rest = np.sort(np.concatenate([rest, plan.pop()[1]]))
            found = self._search(rest, self.limit)
            if found is not None:
                placed, rest = self._kept(found, rest)
                plan.append((found, placed))
        return plan or self.global_plan()

    def describe(self, found: Found, rows: Ints, names: Sequence[str]) -> Pass:
        """Levels, rows and loss of one search, for people."""
        shape = [len(level) for level in self.records.levels]
        numbers = [v.numbers[h] for v, h in zip(self.records.levels, found.node, strict=True)]
        return Pass(
            dict(zip(names, numbers, strict=True)),
            int(self.records.weights[rows].sum()),
            found.check.loss,
            found.checked,
            math.prod(shape),
        )

    def heights(self, plan: Plan) -> list[Ints]:
        """Level of each record, one array per attribute; the top for records of no pass."""
        heights = [np.full(len(self.records.secret), len(v) - 1) for v in self.records.levels]
        for found, rows in plan:
            for height, level in zip(heights, found.node, strict=True):
                height[rows] = level
        return heights

    def loss_of(self, plan: Plan, group_sizes: npt.NDArray[np.float64]) -> float:
        """Loss of the whole release."""
        r = self.records
        return make_loss(self.loss, r.levels, r.codes, r.weights).mixed(
            self.heights(plan), group_sizes
        )
