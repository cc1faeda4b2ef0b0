"""Mondrian: multidimensional recoding, top down."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd
from numba import njit

from anonbayes.anonymize.cleartext import (
    Cleartext,
    Levels,
    Trees,
    cell_column,
    check_privacy,
    horizontal_table,
    set_labels,
    spell_out_stars,
    whole_label,
)
from anonbayes.arrays import Floats, Ints, SmallCodes
from anonbayes.domains import Domain, DomainsByColumn
from anonbayes.errors import one_of
from anonbayes.tables.evidence import Column
from anonbayes.tables.table import ReleasedTable

# -------------------------------------------------------------------------------------------------
# Mondrian's recursive cuts on plain arrays.
#
# Values are *positions* on a line per attribute, and cells are ranges of positions: cuts of an
# ordered attribute divide a range in two, and the nodes of a hierarchy are ranges if its leaves are
# arranged in tree order.

Ints32 = npt.NDArray[np.int32]


@njit(cache=True)
def partition(
    position: Ints32,
    secret: Ints32,
    n_secrets: int,
    k: int,
    l: int,  # noqa: E741
    scale: Floats,
    left: Ints32,
    right: Ints32,
    depth: Ints,
    strict: bool,
) -> tuple[Ints32, Ints32, Ints32]:
    """Cut the rows into groups until no cut leaves k rows and l distinct secrets on each side.

    `position` is (attributes, rows), `secret` (sensitive columns, rows), each of which must be
    diverse. `scale`, (A, K), maps positions to a line of length 1; `left` and `right`, (A, H, K),
    are the ends of the cell around a position on each of the `depth` levels of a hierarchy (0 for
    ordered attributes). Returns each row's group, and the groups' regions, low and high, (groups,
    A).
    """
    n_attributes, n = position.shape
    rows, spare = np.arange(n), np.arange(n)
    stamp = np.zeros(n_secrets + 1, dtype=np.int64)
    # Parts are disjoint and have at least k rows each, so there are at most n / k.
    most = n // k + 1
    begin, end = np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.int64)
    low = np.zeros((most, n_attributes), dtype=np.int32)
    high = np.full((most, n_attributes), scale.shape[1] - 1, dtype=np.int32)
    end[0], waiting = n, 1
    group = np.empty(n, dtype=np.int32)
    group_low, group_high = low.copy(), high.copy()
    n_groups = 0
    edge = np.empty(most + 1, dtype=np.int64)
    part_low, part_high = np.empty(most, dtype=np.int32), np.empty(most, dtype=np.int32)
    first, last = np.empty(n_attributes, dtype=np.int32), np.empty(n_attributes, dtype=np.int32)
    width = np.empty(n_attributes)
    box_low, box_high = first.copy(), last.copy()

    while waiting:
        waiting -= 1
        b, e = begin[waiting], end[waiting]
        for a in range(n_attributes):
            box_low[a], box_high[a] = low[waiting, a], high[waiting, a]
            first[a] = last[a] = position[a, rows[b]]
            for i in range(b, e):
                first[a] = min(first[a], position[a, rows[i]])
                last[a] = max(last[a], position[a, rows[i]])
            width[a] = _width(first[a], last[a], scale[a], left[a], right[a], depth[a])
        n_parts = 0
        while n_parts == 0 and e - b >= 2 * k:
            a = int(np.argmax(width))
            if width[a] <= 0.0:
                break
            width[a] = 0.0  # already tried
            _sort(rows, spare, b, e, position[a], first[a], last[a])
            if depth[a]:
                h = _covering_level(left[a], depth[a], first[a], last[a]) - 1
                n_parts = _children(
                    rows, b, e, position[a], left[a, h], right[a, h], secret, stamp, k, l,
                    edge, part_low, part_high,
                )  # fmt: skip
            else:
                i = _middle(rows, b, e, position[a], secret, stamp, k, l, strict)
                if i > b:
                    n_parts = 2
                    edge[0], edge[1], edge[2] = b, i, e
                    part_low[0], part_high[0] = box_low[a], position[a, rows[i - 1]]
                    # Equal positions on both sides: the two ranges share one.
                    part_low[1] = min(position[a, rows[i]], part_high[0] + 1)
                    part_high[1] = box_high[a]
        for j in range(n_parts):
            begin[waiting], end[waiting] = edge[j], edge[j + 1]
            for c in range(n_attributes):
                low[waiting, c], high[waiting, c] = box_low[c], box_high[c]
            low[waiting, a], high[waiting, a] = part_low[j], part_high[j]
            waiting += 1
        if n_parts == 0:
            for i in range(b, e):
                group[rows[i]] = n_groups
            for c in range(n_attributes):
                group_low[n_groups, c], group_high[n_groups, c] = box_low[c], box_high[c]
            n_groups += 1
    return group, group_low[:n_groups], group_high[:n_groups]


@njit(cache=True)
def _covering_level(left: Ints32, depth: int, first: int, last: int) -> int:
    """Lowest level on which two positions are in the same cell."""
    h = 0
    while h < depth - 1 and left[h, first] != left[h, last]:
        h += 1
    return h


@njit(cache=True)
def _width(first: int, last: int, scale: Floats, left: Ints32, right: Ints32, depth: int) -> float:
    """Width of a range on its scale, or of the smallest hierarchy node that contains it."""
    if depth == 0:
        return scale[last] - scale[first]
    h = _covering_level(left, depth, first, last)
    return (right[h, first] - left[h, first]) / max(right[depth - 1, 0], 1)


@njit(cache=True)
def _sort(rows: Ints, spare: Ints, b: int, e: int, position: Ints32, first: int, last: int) -> None:
    """Sort a part of the rows by position, stably."""
    span = last - first + 1
    if span > 4 * (e - b) + 64:
        part = rows[b:e].copy()
        rows[b:e] = part[np.argsort(position[part], kind="mergesort")]
        return
    start = np.zeros(span + 1, dtype=np.int64)
    for i in range(b, e):
        start[position[rows[i]] - first + 1] += 1
    for s in range(span):
        start[s + 1] += start[s]
    for i in range(b, e):
        s = position[rows[i]] - first
        spare[b + start[s]] = rows[i]
        start[s] += 1
    for i in range(b, e):
        rows[i] = spare[i]


@njit(cache=True)
def _is_new(value: int, stamp: Ints) -> bool:
    """Whether a secret is seen for the first time since the clock, ``stamp[-1]``, advanced."""
    if stamp[value] == stamp[-1]:
        return False
    stamp[value] = stamp[-1]
    return True


@njit(cache=True)
def _middle(
    rows: Ints,
    b: int,
    e: int,
    position: Ints32,
    secret: Ints32,
    stamp: Ints,
    k: int,
    l: int,  # noqa: E741
    strict: bool,
) -> int:
    """Find the cut nearest to the middle with k rows and l secrets on each side, or -1.

    The shortest head and the shortest tail with l secrets limit the allowed cuts.
    """
    least, most = b + k, e - k
    for c in range(len(secret)):
        stamp[-1] += 1
        seen, i = 0, b
        while seen < l and i < e:
            seen += _is_new(secret[c, rows[i]], stamp)
            i += 1
        least = max(least, i)
        stamp[-1] += 1
        seen, i = 0, e
        while seen < l and i > b:
            i -= 1
            seen += _is_new(secret[c, rows[i]], stamp)
        most = min(most, i)
    half = b + (e - b) // 2
    for step in range(e - b):
        for i in (half - step, half + step):
            if i < least or i > most:
                continue
            if not strict or position[rows[i - 1]] != position[rows[i]]:
                return i
    return -1


@njit(cache=True)
def _children(
    rows: Ints,
    b: int,
    e: int,
    position: Ints32,
    left: Ints32,
    right: Ints32,
    secret: Ints32,
    stamp: Ints,
    k: int,
    l: int,  # noqa: E741
    edge: Ints,
    low: Ints32,
    high: Ints32,
) -> int:
    """Count the children among the sorted rows; 0 unless each has k rows and l secrets.

    Also writes the start and end of each child, and its range of positions.
    """
    i, n_parts = b, 0
    edge[0] = b
    while i < e:
        here, start = position[rows[i]], i
        while i < e and left[position[rows[i]]] == left[here]:
            i += 1
        if i - start < k:
            return 0
        for c in range(len(secret)):
            stamp[-1] += 1
            seen = 0
            for j in range(start, i):
                seen += _is_new(secret[c, rows[j]], stamp)
            if seen < l:
                return 0
        low[n_parts], high[n_parts] = left[here], right[here]
        n_parts += 1
        edge[n_parts] = i
    return n_parts


# -------------------------------------------------------------------------------------------------
# Mondrian: cut the table into boxes with k rows and l secrets each.


def mondrian(
    df: pd.DataFrame,
    sensitive: str | Iterable[str],
    k: int,
    l: int = 1,  # noqa: E741
    *,
    strict: bool = True,
    cells: str = "tight",
    quasi_identifiers: Iterable[str] | None = None,
    domains: DomainsByColumn | None = None,
    hierarchies: Trees | None = None,
) -> ReleasedTable:
    """Cut the table in two repeatedly, along the attribute in which a part is widest.

    LeFevre, DeWitt & Ramakrishnan (ICDE 2006), with distinct l-diversity (Machanavajjhala et al.
    2006) as a further condition on both sides of a cut. Of the cuts that leave `k` rows and `l`
    distinct sensitive values on each side, the one that divides the rows most evenly is made. A
    part becomes a group if no attribute has such a cut.

    Parameters
    ----------
    df : pandas.DataFrame
        Cleartext, one row per person.
    sensitive : str or several str
        Sensitive column, released unchanged; if several, each has `l` values in every group.
    k : int
        Least size of a group.
    l : int
        Least number of distinct sensitive values of a group.
    strict : bool
        Whether to keep equal values together. Otherwise (*relaxed*), rows with the value at the cut
        are divided between the two sides in the order of `df`: groups are smaller, but their boxes
        overlap.
    cells : {"tight", "region"}
        Whether to show the range of the values in a group, or the region between the cuts, which
        does not reveal where in it the values lie.
    quasi_identifiers : iterable of str, optional
        Columns to generalize; by default all others. The rest is not released.
    domains : mapping, optional
        Domain, or list of values, by column. Categories are cut in the order of their domain.
    hierarchies : mapping or path, optional
        Columns with a hierarchy are cut along it: a node into all its children, each of which
        must satisfy k and l. Numbers and dates without one are cut by size.

    Returns
    -------
    ReleasedTable
        A horizontal table with rows in the order of `df`. Cells are like ``20-29``,
        ``[24.4, 25.6]``, ``[2024-01-01, 2024-03-31]``, ``{a, b}`` or ``*``, or labels of the
        hierarchy.

    Raises
    ------
    AnonymizationError
        If the whole table has fewer than k rows or l sensitive values.

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
        np.stack([c.codes for c in cleartext.secrets.values()]).astype(np.int32),
        max(len(c.domain) for c in cleartext.secrets.values()),
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
    """An attribute as a line of positions: the domain code at each, and its place on [0, 1].

    `rank` is the position of each code, `left` and `right` the ends of a hierarchy's cells.
    """

    domain: Domain
    levels: Levels | None
    order: Ints
    rank: Ints
    scale: Floats
    left: Ints
    right: Ints

    @classmethod
    def of(cls, domain: Domain, codes: SmallCodes) -> _Axis:
        size = len(domain)
        levels = None if domain.hierarchy is None else Levels.of(domain)
        left = right = np.empty((0, size), dtype=np.int64)
        if levels is not None:
            order = np.lexsort(levels.cells)  # sorts by the last row, the top, first
            line = levels.cells[:, order]
            starts = np.concatenate(
                [np.ones((len(line), 1), dtype=bool), line[:, 1:] != line[:, :-1]], axis=1
            )
            left = np.maximum.accumulate(np.where(starts, np.arange(size), 0), axis=1)
            ends = np.concatenate([starts[:, 1:], np.ones((len(line), 1), dtype=bool)], axis=1)
            right = np.where(ends, np.arange(size), size)[:, ::-1]
            right = np.minimum.accumulate(right, axis=1)[:, ::-1]
        else:  # values without a place on the line come last
            order = np.argsort(domain.places, kind="stable")
        rank = np.empty(size, dtype=np.int64)
        rank[order] = np.arange(size)
        place = np.arange(size, dtype=float)
        if levels is None or domain.is_numeric:
            place = _line(domain.places[order])
        seen = place[rank[codes]]
        spread = seen.max() - seen.min()
        return cls(domain, levels, order, rank, place / (spread or 1.0), left, right)

    def column(self, group: Ints, low: Ints, high: Ints) -> Column:
        """Return the cells of the rows, given the position ranges of their groups."""
        size = len(self.domain)
        low, high = low.astype(np.int64), np.minimum(high, size - 1).astype(np.int64)
        if self.levels is not None:
            low, high = self._nodes(low, high)

        in_words = set_labels(self.domain)

        def members(cell: int) -> Ints:
            return self.order[cell // size : cell % size + 1]

        def label(cell: int, codes: SmallCodes) -> object:
            if len(codes) == size:
                return whole_label(self.domain)
            if self.levels is not None:
                return self.levels.label(self._level(*divmod(cell, size)), codes)
            return in_words(codes)

        return cell_column(self.domain, (low * size + high)[group], members, label)

    def _level(self, low: int, high: int) -> int:
        return int(np.argmax((self.left[:, low] <= low) & (self.right[:, low] >= high)))

    def _nodes(self, low: Ints, high: Ints) -> tuple[Ints, Ints]:
        """Smallest cells of the hierarchy that contain ranges."""
        level = np.argmax(self.right[:, low] >= high, axis=0)
        return self.left[level, low], self.right[level, low]


def _line(places: Floats) -> Floats:
    """Places in ascending order; values without a place follow, one average step apart."""
    known = np.count_nonzero(~np.isnan(places))
    if not known:
        return np.arange(len(places), dtype=float)
    step = (places[known - 1] - places[0]) / max(known - 1, 1) or 1.0
    line = places.copy()
    line[known:] = places[known - 1] + step * np.arange(1, len(places) - known + 1)
    return line


def _stack(axes: list[_Axis]) -> tuple[Floats, Ints32, Ints32, Ints]:
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
