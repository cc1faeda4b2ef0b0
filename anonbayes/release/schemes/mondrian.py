"""Mondrian: cut the table into boxes with k rows and l secrets each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.arrays import Ints
from anonbayes.domains import Domain
from anonbayes.errors import one_of
from anonbayes.release.columns import Column
from anonbayes.release.schemes.assemble import (
    cell_column,
    horizontal_table,
    set_labels,
    spell_out_stars,
    whole_label,
)
from anonbayes.release.schemes.cleartext import Cleartext, Trees, check_privacy
from anonbayes.release.schemes.levels import Levels
from anonbayes.release.schemes.mondrian_kernel import partition
from anonbayes.release.table import ReleasedTable

__all__ = ["mondrian"]


def mondrian(
    df: pd.DataFrame,
    sensitive: str,
    k: int,
    l: int = 1,  # noqa: E741
    *,
    strict: bool = True,
    cells: str = "tight",
    quasi_identifiers: Iterable[str] | None = None,
    domains: Mapping[str, Domain | Iterable[Any]] | None = None,
    hierarchies: Trees | None = None,
) -> ReleasedTable:
    """Cut the table in two again and again, along the attribute in which a part is widest.

    LeFevre, DeWitt & Ramakrishnan (ICDE 2006), with distinct l-diversity (Machanavajjhala et al.
    2006) as a second demand on both sides of a cut. A part is cut where its rows are halved most
    evenly among the cuts that leave `k` rows and `l` distinct sensitive values on each side; it
    becomes a group when no attribute has such a cut.

    Parameters
    ----------
    df : pandas.DataFrame
        Cleartext, one row per person.
    sensitive : str
        Sensitive column, released unchanged.
    k : int
        Least size of a group.
    l : int
        Least number of distinct sensitive values of a group.
    strict : bool
        Keep equal values together. Otherwise (*relaxed*) rows with the value at the cut go to
        either side, in the order of `df`: smaller groups, whose boxes overlap.
    cells : {"tight", "region"}
        Show the range of the values in a group, or the region that the cuts made, which reveals
        nothing of where in it the values lie.
    quasi_identifiers : iterable of str, optional
        Columns to generalize; all but `sensitive` by default. Other columns are not released.
    domains : mapping, optional
        Domain, or list of values, by column. Categories are cut in the order of their domain.
    hierarchies : mapping or path, optional
        Columns with a hierarchy are cut along it: a node into all its children, each of which
        must satisfy k and l. Numeric columns without one are cut by their numbers.

    Returns
    -------
    ReleasedTable
        Rows in the order of `df`. Cells read ``20-29``, ``{a, b}``, ``*``, or are labels of the
        hierarchy.

    Raises
    ------
    AnonymizationError
        When the table as a whole has fewer than k rows or l sensitive values.

    Examples
    --------
    >>> import pandas as pd
    >>> import anonbayes as ab
    >>> df = pd.DataFrame({"age": [21, 24, 28, 35, 39, 44], "ill": list("ababab")})
    >>> ab.anonymize.mondrian(df, "ill", k=2, l=2).to_frame()["age"].tolist()
    ['21-28', '21-28', '21-28', '35-44', '35-44', '35-44']
    """
    one_of("cells", cells, ("tight", "region"))
    cleartext = Cleartext.of(
        df, sensitive, quasi_identifiers=quasi_identifiers, domains=domains, hierarchies=hierarchies
    )
    k, l = check_privacy(cleartext, k, l)  # noqa: E741
    axes = [
        _Axis.of(d, c) for d, c in zip(cleartext.domains.values(), cleartext.codes, strict=True)
    ]
    position = np.stack([a.rank[c] for a, c in zip(axes, cleartext.codes, strict=True)])
    group, low, high = partition(
        position.astype(np.int32),
        cleartext.secret.astype(np.int32),
        len(cleartext.sensitive),
        k,
        l,
        *_stack(axes),
        bool(strict),
    )
    if cells == "tight":
        low, high = _extent(position, group, len(low))
    columns = {
        name: axis.column(group, low[:, a], high[:, a])
        for a, (name, axis) in enumerate(zip(cleartext.domains, axes, strict=True))
    }
    return horizontal_table(cleartext, spell_out_stars(columns))


@dataclass(frozen=True, eq=False)
class _Axis:
    """An attribute as a line of positions.

    `order` holds the domain code at each position, `rank` the position of each code, `scale` the
    place of each position on [0, 1], `left` and `right` the ends of a hierarchy's cells.
    """

    domain: Domain
    levels: Levels | None
    order: Ints
    rank: Ints
    scale: npt.NDArray[np.float64]
    left: Ints
    right: Ints

    @classmethod
    def of(cls, domain: Domain, codes: npt.NDArray[Any]) -> _Axis:
        size = len(domain)
        levels = None if domain.hierarchy is None else Levels.of(domain)
        left = right = np.empty((0, size), dtype=np.int64)
        if levels is not None:
            order = np.lexsort(levels.cells)  # the last row, the top, decides first
            line = levels.cells[:, order]
            starts = np.concatenate(
                [np.ones((len(line), 1), dtype=bool), line[:, 1:] != line[:, :-1]], axis=1
            )
            left = np.maximum.accumulate(np.where(starts, np.arange(size), 0), axis=1)
            ends = np.concatenate([starts[:, 1:], np.ones((len(line), 1), dtype=bool)], axis=1)
            right = np.where(ends, np.arange(size), size)[:, ::-1]
            right = np.minimum.accumulate(right, axis=1)[:, ::-1]
        elif domain.is_numeric:
            order = np.argsort(domain.numbers, kind="stable")
        else:
            order = np.arange(size)
        rank = np.empty(size, dtype=np.int64)
        rank[order] = np.arange(size)
        place = domain.numbers[order] if domain.is_numeric else np.arange(size, dtype=float)
        seen = place[rank[codes]]
        spread = seen.max() - seen.min()
        return cls(domain, levels, order, rank, place / (spread or 1.0), left, right)

    def column(self, group: Ints, low: Ints, high: Ints) -> Column:
        """Cells of the rows, given their groups' ranges of positions."""
        size = len(self.domain)
        low, high = low.astype(np.int64), np.minimum(high, size - 1).astype(np.int64)
        if self.levels is not None:
            low, high = self._nodes(low, high)

        in_words = set_labels(self.domain)

        def members(cell: int) -> Ints:
            return self.order[cell // size : cell % size + 1]

        def label(cell: int, codes: Ints) -> Any:
            if len(codes) == size:
                return whole_label(self.domain)
            if self.levels is not None:
                return self.levels.label(self._level(*divmod(cell, size)), codes)
            if not self.domain.is_numeric:
                return in_words(codes)
            first, last = (self.domain.values[self.order[p]] for p in divmod(cell, size))
            whole = isinstance(first, int) and isinstance(last, int) and first >= 0
            return f"{first}-{last}" if whole else f"[{first}, {last}]"

        return cell_column(self.domain, (low * size + high)[group], members, label)

    def _level(self, low: int, high: int) -> int:
        return int(np.argmax((self.left[:, low] <= low) & (self.right[:, low] >= high)))

    def _nodes(self, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """Smallest cells of the hierarchy around ranges."""
        level = np.argmax(self.right[:, low] >= high, axis=0)
        return self.left[level, low], self.right[level, low]


def _stack(axes: list[_Axis]) -> tuple[Any, Any, Any, Ints]:
    """Scales, left ends, right ends and depths of all axes in arrays of one shape."""
    size = max(len(axis.domain) for axis in axes)
    depth = np.array([len(axis.left) for axis in axes])
    scale = np.zeros((len(axes), size))
    left = np.zeros((len(axes), max(int(depth.max()), 1), size), dtype=np.int32)
    right = np.zeros_like(left)
    for a, axis in enumerate(axes):
        scale[a, : len(axis.domain)] = axis.scale
        left[a, : depth[a], : len(axis.domain)] = axis.left
        right[a, : depth[a], : len(axis.domain)] = axis.right
    return scale, left, right, depth


def _extent(position: Ints, group: Ints, n_groups: int) -> tuple[Ints, Ints]:
    """Least and greatest position of each group on each attribute."""
    order = np.argsort(group, kind="stable")
    start = np.searchsorted(group[order], np.arange(n_groups))
    ordered = position[:, order].T
    return np.minimum.reduceat(ordered, start), np.maximum.reduceat(ordered, start)
