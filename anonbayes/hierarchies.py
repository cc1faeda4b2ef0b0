"""Hierarchies: nested generalizations of the values of a domain."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from anonbayes.arrays import Ints, read_number, read_numbers, read_whole
from anonbayes.domains import list_of, numbers_of, plain
from anonbayes.errors import AnonbayesError, DomainError, nearest
from anonbayes.io.text import read_csv_text

if TYPE_CHECKING:
    from anonbayes.domains import Domain


ROOT = "*"


class Hierarchy:
    """Tree of generalizations of the values of a domain, given level by level.

    Level 0 holds the values themselves (the leaves), the last level only the root. Build one with
    `from_csv`, `from_levels`, `from_prefix` or `from_intervals`.

    Parameters
    ----------
    leaves : sequence of hashable
        The values, most specific first level of the tree.
    levels : sequence of sequence of str
        ``levels[h][i]`` is the label of leaf ``i`` at level ``h + 1``. A root ``*`` is added if the
        last level has more than one label.

    Raises
    ------
    DomainError
        If two leaves share a label at one level but not at the next (so there is no tree), or if
        one label stands for different sets of leaves.

    Examples
    --------
    >>> h = Hierarchy(["Bachelors", "Masters", "11th"], [["Higher", "Higher", "School"]])
    >>> h.members("Higher")
    ('Bachelors', 'Masters')
    >>> h.depth, h.members("*") == h.leaves
    (3, True)
    """

    def __init__(self, leaves: Sequence[Hashable], levels: Sequence[Sequence[str]]) -> None:
        self.leaves: tuple[Any, ...] = tuple(map(plain, list_of("leaves", leaves)))
        if not self.leaves:
            raise DomainError("A hierarchy needs at least one leaf.")
        texts = [str(leaf) for leaf in self.leaves]
        if len(set(texts)) < len(texts):
            twice = next(leaf for i, leaf in enumerate(texts) if leaf in texts[:i])
            raise DomainError(f"The hierarchy lists leaf {twice!r} more than once.")
        rows = [tuple(map(str, list_of("a level", level))) for level in list_of("levels", levels)]
        if not rows or len(set(rows[-1])) > 1:
            rows.append((ROOT,) * len(self.leaves))
        self.levels: tuple[tuple[str, ...], ...] = tuple(rows)
        codes = [np.arange(len(self.leaves), dtype=np.int64)]
        for h, row in enumerate(self.levels, start=1):
            if len(row) != len(self.leaves):
                raise DomainError(
                    f"Level {h} of the hierarchy has {len(row)} labels for "
                    f"{len(self.leaves)} leaves."
                )
            codes.append(pd.factorize(np.asarray(row, dtype=object))[0])
        self._check_tree(codes)
        self.codes: Ints = np.vstack(codes)
        self.codes.setflags(write=False)
        self._cells = self._collect()

    def _check_tree(self, codes: list[Ints]) -> None:
        for h in range(len(codes) - 1):
            first = np.full(codes[h].max() + 1, -1)
            first[codes[h][::-1]] = np.arange(len(self.leaves))[::-1]
            parent = codes[h + 1][first[codes[h]]]
            bad = np.flatnonzero(parent != codes[h + 1])
            if len(bad):
                i, j = int(first[codes[h][bad[0]]]), int(bad[0])
                raise DomainError(
                    f"The hierarchy is not a tree: {self.leaves[i]!r} and {self.leaves[j]!r} are "
                    "both "
                    f"{self.label(i, h)!r} at level {h}, but {self.label(i, h + 1)!r} and "
                    f"{self.label(j, h + 1)!r} at level {h + 1}."
                )

    def _collect(self) -> dict[str, Ints]:
        cells: dict[str, Ints] = {}
        for h, row in enumerate(self.levels, start=1):
            order = np.argsort(self.codes[h], kind="stable")
            bounds = np.flatnonzero(np.diff(self.codes[h][order])) + 1
            for members in np.split(order, bounds):
                label = row[int(members[0])]
                known = cells.get(label)
                if known is not None and not np.array_equal(known, members):
                    raise DomainError(
                        f"The hierarchy uses the label {label!r} for two different sets of "
                        f"leaves (again at level {h}); rename one of them."
                    )
                members.setflags(write=False)
                cells[label] = members
        texts = {str(v): i for i, v in enumerate(self.leaves)}
        for label, members in cells.items():
            leaf = texts.get(label)
            if leaf is not None and not np.array_equal(members, [leaf]):
                raise DomainError(
                    f"The hierarchy uses {label!r} both for a leaf and for a generalization of "
                    f"{len(members)} leaves; rename one of them."
                )
        return cells

    @property
    def depth(self) -> int:
        """Number of levels, including leaves and root."""
        return len(self.levels) + 1

    def label(self, leaf: int, level: int) -> str:
        """Return the label, at a level, of the leaf at a position (level 0 is the leaf itself)."""
        return str(self.leaves[leaf]) if level == 0 else self.levels[level - 1][leaf]

    def members(self, label: str) -> tuple[Any, ...]:
        """Return the leaves below a label.

        Examples
        --------
        >>> Hierarchy.from_prefix(["45501", "45502", "55501"]).members("4550*")
        ('45501', '45502')
        """
        return tuple(self.leaves[i] for i in self.positions(label))

    def positions(self, label: str) -> Ints:
        """Return the positions in `leaves` of the leaves below a label."""
        if label not in self._cells:
            raise DomainError(f"{label!r} is not a label of the hierarchy. {nearest(label, self)}")
        return self._cells[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self._cells)

    def __contains__(self, label: object) -> bool:
        return label in self._cells

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Hierarchy):
            return NotImplemented
        return self.leaves == other.leaves and self.levels == other.levels

    def __hash__(self) -> int:
        return hash((self.leaves, self.levels))

    def __repr__(self) -> str:
        sizes = ", ".join(str(int(row.max()) + 1) for row in self.codes)
        return f"Hierarchy({len(self.leaves)} leaves, labels per level: {sizes})"

    def check_covers(self, domain: Domain) -> None:
        """Raise `DomainError` unless every value of the domain is a leaf."""
        known = {str(v) for v in self.leaves}
        missing = [v for v in domain.values if str(v) not in known]
        if missing:
            shown = ", ".join(repr(v) for v in missing[:5])
            raise DomainError(
                f"The hierarchy of {domain.name!r} does not list {len(missing)} of the domain's "
                f"values: {shown}{', ...' if len(missing) > 5 else ''}."
            )

    def with_leaf(self, leaf: Hashable) -> Hierarchy:
        """Return the hierarchy with one more leaf directly below the root ``*``.

        Examples
        --------
        >>> h = Hierarchy(["a", "b"], [["ab", "ab"]]).with_leaf("missing")
        >>> h.members("ab"), h.members("*")
        (('a', 'b'), ('a', 'b', 'missing'))
        """
        lower = self.levels[:-1] if self.levels[-1][0] == ROOT else self.levels
        levels = [[*row, str(leaf)] for row in lower]
        return Hierarchy([*self.leaves, leaf], [*levels, [ROOT] * (len(self.leaves) + 1)])

    # -- constructors ----------------------------------------------------------------------

    @classmethod
    def from_csv(cls, path: str | Path, sep: str = ";", *, encoding: str = "utf-8") -> Hierarchy:
        """Read a hierarchy in ARX's file format: no header, one line per leaf, root last.

        If all leaves are numbers, they are read as numbers.
        """
        frame = read_csv_text(path, sep=sep, header=False, encoding=encoding)
        empty = (frame == "").to_numpy()
        if empty.any():
            row, col = np.argwhere(empty)[0]
            raise DomainError(
                f"The hierarchy file {str(path)!r} has an empty cell in line {row + 1}, "
                f"column {col + 1}; every line needs a label for each level."
            )
        leaves = frame.iloc[:, 0].tolist()
        try:
            return cls(
                numbers_of(leaves) or leaves,
                [frame.iloc[:, h].tolist() for h in range(1, frame.shape[1])],
            )
        except DomainError as error:
            raise DomainError(f"{error} (file {str(path)!r})") from None

    @classmethod
    def from_levels(cls, levels: Mapping[Any, Sequence[str]]) -> Hierarchy:
        """Build a hierarchy from ``{leaf: [parent, grandparent, ..., root]}``.

        All lists end at the top level. A list shorter than the longest one repeats its leaf on the
        lower levels.

        Examples
        --------
        >>> h = Hierarchy.from_levels({"a": ["ab"], "b": ["ab"], "c": ["c+"]})
        >>> h.members("ab")
        ('a', 'b')
        """
        if not isinstance(levels, Mapping):
            raise DomainError(
                f"Give the generalizations of each leaf as a mapping, not {levels!r}."
            )
        if not levels:
            raise DomainError("A hierarchy needs at least one leaf.")
        rows = []
        for leaf, parents in levels.items():
            if isinstance(parents, str):
                raise DomainError(
                    f"Leaf {leaf!r}: give its generalizations as a list, not as the text "
                    f"{parents!r}."
                )
            rows.append([str(p) for p in list_of(f"generalizations of {leaf!r}", parents)])
        height = max(len(row) for row in rows)
        padded = [
            [str(plain(leaf))] * (height - len(row)) + row
            for leaf, row in zip(levels, rows, strict=True)
        ]
        return cls(list(levels), [[row[h] for row in padded] for h in range(height)])

    @classmethod
    def from_prefix(cls, codes: Iterable[str], width: int | Sequence[int] = 1) -> Hierarchy:
        """Build a hierarchy that masks codes from the right: ``45501``, ``4550*``, ``455**``, ...

        Parameters
        ----------
        codes : iterable of str
            Distinct codes of equal length.
        width : int or sequence of int
            How many more characters each level masks; a single number applies to every level.

        Examples
        --------
        >>> Hierarchy.from_prefix(["45501", "45502"], width=[1, 4]).label(0, 1)
        '4550*'
        """
        leaves = [str(plain(c)) for c in list_of("codes", codes)]
        lengths = {len(c) for c in leaves}
        if len(lengths) > 1:
            short, long = min(leaves, key=len), max(leaves, key=len)
            raise DomainError(
                f"Prefix codes must all have the same length, got {short!r} and {long!r}; pad "
                "them first."
            )
        length = lengths.pop() if lengths else 0
        steps: list[Any] = [width] if isinstance(width, Integral) else list_of("width", width)
        try:
            steps = [read_whole("width", step, least=1) for step in steps]
        except AnonbayesError:
            steps = []
        if not steps:
            raise DomainError(f"Each level must mask at least one character, got width={width!r}.")
        widths = steps * length if isinstance(width, Integral) else steps
        levels, masked = [], 0
        for w in widths:
            masked += int(w)
            if masked >= length:
                break
            levels.append([c[: length - masked] + "*" * masked for c in leaves])
        return cls(leaves, [*levels, [ROOT] * len(leaves)])

    @classmethod
    def from_intervals(
        cls, values: Iterable[int | float], width: float, *wider: float, origin: float = 0.0
    ) -> Hierarchy:
        """Build bands ``[lower, upper)`` of growing width over numbers.

        Parameters
        ----------
        values : iterable of number
            The numbers to generalize, which are the leaves.
        width, *wider : float
            Band width of each level; each must be a multiple of the one before.
        origin : float
            A number at which bands of every level begin.

        Examples
        --------
        >>> Hierarchy.from_intervals(range(20, 40), 5, 10).members("[20, 25)")
        (20, 21, 22, 23, 24)
        """
        leaves = [plain(v) for v in list_of("values", values)]
        start = read_number("origin", origin, error=DomainError)
        widths = [width, *wider]
        try:
            numbers, steps = (read_numbers("numbers", n).reshape(-1) for n in (leaves, widths))
        except AnonbayesError:
            raise DomainError("Values and widths of intervals must be numbers.") from None
        if not (np.isfinite(steps).all() and (steps > 0).all()):
            raise DomainError(f"Interval widths must be positive numbers, got {widths}.")
        if not np.isfinite(numbers).all():
            odd = leaves[int(np.argmin(np.isfinite(numbers)))]
            raise DomainError(f"Values of intervals must be finite numbers, got {odd!r}.")
        levels = []
        for w in steps.tolist():
            # Division rounds: 0.3 / 0.1 is just below 3, but 0.3 lies in the band [0.3, 0.4).
            band = np.floor((numbers - start) / w + 1e-9)
            levels.append(
                [f"[{_edge(start + b * w)}, {_edge(start + (b + 1) * w)})" for b in band.tolist()]
            )
        return cls(leaves, levels)


def _edge(number: float) -> str:
    """Shortest spelling of a band edge, without rounding noise."""
    return str(plain(float(f"{number:.12g}")))
