"""The levels of one attribute's hierarchy as partitions of its domain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.domains import Domain
from anonbayes.errors import TableError
from anonbayes.release.schemes.assemble import whole_label

__all__ = ["Levels"]


@dataclass(frozen=True, eq=False)
class Levels:
    """Partitions of a domain, from single values up to one cell.

    Levels that split the domain exactly as the level below them are left out, so every step up
    hides something.

    Parameters
    ----------
    domain : Domain
        The attribute's domain, with its hierarchy.
    cells : numpy.ndarray
        Cell of each value at each level, shape ``(n_levels, K)``; cells of a level count from 0.
    numbers : tuple of int
        Number of each level in the hierarchy.
    leaves : numpy.ndarray
        Position of each value among the hierarchy's leaves.
    """

    domain: Domain
    cells: npt.NDArray[np.int64]
    numbers: tuple[int, ...]
    leaves: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.numbers)

    @classmethod
    def of(cls, domain: Domain) -> Levels:
        """Levels of a domain that has a hierarchy."""
        leaves = leaf_positions(domain)
        hierarchy = domain.hierarchy
        assert hierarchy is not None  # leaf_positions has checked it
        rows: list[npt.NDArray[np.int64]] = []
        numbers: list[int] = []
        for number, level in enumerate(hierarchy.codes[:, leaves]):
            cells = pd.factorize(level)[0].astype(np.int64)
            if not rows or cells.max() < rows[-1].max():
                rows.append(cells)
                numbers.append(number)
        return cls(domain, np.vstack(rows), tuple(numbers), leaves)

    def members(self, level: int, cell: int) -> npt.NDArray[np.int64]:
        """Codes of the values in a cell."""
        return np.flatnonzero(self.cells[level] == cell)

    def label(self, level: int, codes: npt.NDArray[Any]) -> Any:
        """Label of a cell of the level, given its members."""
        if len(codes) == len(self.domain):
            return whole_label(self.domain)
        assert self.domain.hierarchy is not None
        return self.domain.hierarchy.label(int(self.leaves[codes[0]]), self.numbers[level])

    def sizes(self) -> npt.NDArray[np.int64]:
        """Count the values in the cell of each value, shape ``(n_levels, K)``."""
        return np.vstack([np.bincount(row)[row] for row in self.cells])


def leaf_positions(domain: Domain) -> npt.NDArray[np.int64]:
    """Position among the hierarchy's leaves of each value of the domain."""
    hierarchy = domain.hierarchy
    if hierarchy is None:
        raise TableError(
            f"Column {domain.name!r} has no hierarchy. Add one to hierarchies (for example with "
            "Hierarchy.from_levels, from_prefix or from_intervals), or leave the column out with "
            "quasi_identifiers=[...]."
        )
    by_value = {leaf: i for i, leaf in enumerate(hierarchy.leaves)}
    by_text = {str(leaf): i for i, leaf in enumerate(hierarchy.leaves)}
    return np.array(
        [by_value[v] if v in by_value else by_text[str(v)] for v in domain.values], dtype=np.int64
    )
