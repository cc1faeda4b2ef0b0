"""The cleartext as the schemes read it, and the release assembled from their cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from anonbayes.arrays import Ints, SmallCodes, read_whole
from anonbayes.domains import Domain, DomainsByColumn, gaps, number_of
from anonbayes.errors import AnonymizationError, DomainError, TableError, at_once
from anonbayes.hierarchies import Hierarchy
from anonbayes.io.text import has_decimal_commas, may_separate_thousands, pandas_frame
from anonbayes.tables.build import (
    JOIN,
    check_column,
    check_frame,
    check_known,
    joined_column,
    sensitive_names,
)
from anonbayes.tables.evidence import IDENTIFIER_SIZE, Column, Evidence, column_of_cells
from anonbayes.tables.groups import distinct_rows
from anonbayes.tables.readers import read_hierarchies
from anonbayes.tables.table import ReleasedTable

FEWEST_IDENTIFIERS = 100
"""Number of rows from which a column of distinct values is taken for an identifier."""


# -------------------------------------------------------------------------------------------------
# The cleartext as codes, after all checks that a scheme needs.

# Hierarchies or their files by column, or a directory of such files.
Trees = str | Path | Mapping[str, Hierarchy | str | Path]


@dataclass(frozen=True, eq=False)
class Cleartext:
    """Codes of the quasi-identifiers and of the sensitive column of a frame."""

    domains: dict[str, Domain]
    codes: list[SmallCodes]  # of each row, one array per quasi-identifier
    sensitive: Domain  # of tuples if there are several sensitive columns
    secret: SmallCodes
    secrets: dict[str, Column]  # the individual sensitive columns, each of which must be diverse

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.secret)

    @property
    def secret_counts(self) -> Ints:
        """Number of rows with each sensitive value."""
        return np.bincount(self.secret, minlength=len(self.sensitive))

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        sensitive: str | Iterable[str],
        *,
        quasi_identifiers: Iterable[str] | None = None,
        domains: DomainsByColumn | None = None,
        hierarchies: Trees | None = None,
    ) -> Cleartext:
        """Encode a frame; columns neither sensitive nor among `quasi_identifiers` are left out.

        If no domain is given for a column, also a sensitive one, the leaves of its hierarchy are
        used.
        """
        frame = pandas_frame(frame)
        check_frame(frame, "The cleartext table")
        secret_names = sensitive_names(frame, sensitive)
        names = _quasi_identifiers(frame, secret_names, quasi_identifiers)
        trees = read_hierarchies(hierarchies, frame.columns) or {}
        check_known(domains, frame.columns, "domains")
        check_known(trees, frame.columns, "hierarchies")
        at_once((*names, *secret_names), lambda name: _check_filled(frame[name], name))

        given = domains or {}
        secrets = {}
        for name in secret_names:
            domain = _domain(name, frame[name], given.get(name), trees.get(name), discrete=True)
            secret = domain.encode_spelled(frame[name])
            if not (secret != secret[0]).any():
                raise TableError(
                    f"The sensitive column {name!r} is constant "
                    f"({domain.values[secret[0]]!r}), so no grouping can hide it."
                )
            secrets[name] = Column(Evidence.exact(domain), secret)
        whole = next(iter(secrets.values()))
        if len(secrets) > 1:
            whole = joined_column([*secrets.values()], JOIN.join(secrets))
        known = at_once(
            names, lambda name: _domain(name, frame[name], given.get(name), trees.get(name))
        )
        codes = [domain.encode_spelled(frame[name]) for name, domain in known.items()]
        return cls(known, codes, whole.domain, whole.codes, secrets)


def check_privacy(cleartext: Cleartext, k: int, l: int) -> tuple[int, int]:  # noqa: E741
    """Check that the whole table satisfies k and l; return them as plain integers."""
    k, l = (  # noqa: E741
        read_whole(name, value, least=1, error=AnonymizationError)
        for name, value in (("k", k), ("l", l))
    )
    if k > cleartext.n_rows:
        raise AnonymizationError(
            f"k={k} is not possible: the table has only {cleartext.n_rows} rows."
        )
    for name, column in cleartext.secrets.items():
        distinct = len(np.unique(column.codes))
        if l > distinct:
            raise AnonymizationError(
                f"l={l} is not possible: column {name!r} has {distinct} distinct values, so l can "
                f"be at most {distinct}."
            )
    return k, l


def _quasi_identifiers(
    frame: pd.DataFrame, sensitive: Sequence[str], names: Iterable[str] | None
) -> list[str]:
    if isinstance(names, str):
        raise TableError(f"quasi_identifiers={names!r} must be a list of column names.")
    chosen = [c for c in frame.columns if c not in sensitive] if names is None else list(names)
    at_once(chosen, partial(check_column, frame, role="quasi-identifying"))
    if len(set(chosen)) < len(chosen):
        raise TableError(f"quasi_identifiers names a column twice: {chosen}.")
    if both := [name for name in sensitive if name in chosen]:
        raise TableError(f"Column {both[0]!r} cannot be both sensitive and a quasi-identifier.")
    if not chosen:
        raise TableError(
            "There is no quasi-identifier to anonymize besides the sensitive column "
            f"{' and '.join(map(repr, sensitive))}."
        )
    return chosen


def _check_filled(series: pd.Series, name: str) -> None:
    empty = gaps(series, where=f"Column {name!r}")
    if empty.any():
        raise TableError(
            f"Column {name!r}, row {series.index[int(empty.argmax())]}: the value is missing "
            f"({int(empty.sum())} rows). Give missing values their own category "
            f"(frame[{name!r}].fillna('unknown')) or drop these rows."
        )


def _domain(
    name: str,
    series: pd.Series,
    given: Domain | Iterable[Hashable] | None,
    hierarchy: Hierarchy | None,
    *,
    discrete: bool = False,
) -> Domain:
    """Return the domain of a column; only a `discrete` one may not have many distinct numbers."""
    if isinstance(given, str):
        raise DomainError(f"The domain of {name!r} is the text {given!r}; give a list of values.")
    if isinstance(given, Domain):
        return Domain(name, given.values, given.hierarchy if hierarchy is None else hierarchy)
    if given is not None:
        return Domain(name, given, hierarchy)
    if hierarchy is not None:
        return Domain(name, hierarchy.leaves, hierarchy)
    try:
        domain = Domain.infer(name, series)
    except TypeError as error:  # pandas cannot hash the cells
        raise DomainError(
            f"Column {name!r} contains values that are not hashable: {error}."
        ) from None
    if not domain.is_numeric and may_separate_thousands(domain.values):
        raise TableError(
            f"Column {name!r} contains numbers with a comma, such as "
            f"{next(v for v in domain.values if ',' in str(v))!r}. If it separates thousands, "
            "remove it from the file; if decimals, read the file with decimal=',' (--decimal ,)."
        )
    if not domain.is_numeric and has_decimal_commas(domain.values):
        raise TableError(
            f"Column {name!r} contains numbers with a decimal comma, such as {domain.values[0]!r}; "
            "read its file with decimal=',' (--decimal ,)."
        )
    scale = domain.is_numeric and not discrete
    many = not scale and len(domain) > max(IDENTIFIER_SIZE, len(series) / 2)
    if many or _numbers_rows(domain, len(series)):
        advice = (
            "Bin it"
            if discrete
            else "Leave it out (quasi_identifiers=[...], --drop) or give it a hierarchy"
        )
        raise TableError(
            f"Column {name!r} has {len(domain):,} distinct values in {len(series):,} rows, like an "
            f"identifier. {advice}; in Python, confirm it by listing its values in domains=."
        )
    return domain


def _numbers_rows(domain: Domain, n_rows: int) -> bool:
    """Whether every row has its own uninformative value: a code, or its number."""
    if len(domain) < n_rows or n_rows < FEWEST_IDENTIFIERS or domain.holds_dates:
        return False
    if domain.is_numeric:
        return bool(max(domain.values) - min(domain.values) == n_rows - 1)
    return not any(number_of(str(value)) is not None for value in domain.values)


# -------------------------------------------------------------------------------------------------
# The levels of one attribute's hierarchy as partitions of its domain.


@dataclass(frozen=True, eq=False)
class Levels:
    """Partitions of a domain, from single values to one cell; each level hides more than the last.

    Levels that partition the domain like the level below are left out.
    """

    domain: Domain
    cells: Ints  # cell of each value at each level, (levels, K)
    numbers: tuple[int, ...]  # number of each level in the hierarchy
    leaves: Ints  # position of each value among the hierarchy's leaves

    def __len__(self) -> int:
        return len(self.numbers)

    @classmethod
    def of(cls, domain: Domain) -> Levels:
        """Return the levels of a domain that has a hierarchy."""
        leaves = leaf_positions(domain)
        hierarchy = domain.hierarchy
        assert hierarchy is not None  # checked by leaf_positions
        rows: list[Ints] = []
        numbers: list[int] = []
        for number, level in enumerate(hierarchy.codes[:, leaves]):
            cells = pd.factorize(level)[0].astype(np.int64)
            if not rows or cells.max() < rows[-1].max():
                rows.append(cells)
                numbers.append(number)
        return cls(domain, np.vstack(rows), tuple(numbers), leaves)

    def members(self, level: int, cell: int) -> Ints:
        """Return the codes of the values in a cell."""
        return np.flatnonzero(self.cells[level] == cell)

    def label(self, level: int, codes: SmallCodes) -> object:
        """Return the label of a cell at a level, given its members."""
        if len(codes) == len(self.domain):
            return whole_label(self.domain)
        assert self.domain.hierarchy is not None
        return self.domain.hierarchy.label(int(self.leaves[codes[0]]), self.numbers[level])

    def sizes(self) -> Ints:
        """Number of values in the cell of each value, shape ``(n_levels, K)``."""
        return np.vstack([np.bincount(row)[row] for row in self.cells])


def leaf_positions(domain: Domain) -> Ints:
    """Return the position of each domain value among the hierarchy's leaves."""
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


# -------------------------------------------------------------------------------------------------
# From the cells of the rows to a `ReleasedTable`, without a detour through text.

_MISREAD = re.compile(r"[,{}]|^$")


def cell_column(
    domain: Domain,
    ids: SmallCodes,
    members: Callable[[int], SmallCodes],
    label: Callable[[int, SmallCodes], object],
) -> Column:
    """Build a column from a cell number per row, and the members and label of each number."""
    inverse, distinct = pd.factorize(ids)
    sets = [np.sort(np.asarray(members(int(cell)), dtype=np.int64)) for cell in distinct]
    return column_of_cells(domain, inverse, sets, lambda i, codes: label(int(distinct[i]), codes))


def horizontal_table(cleartext: Cleartext, columns: dict[str, Column]) -> ReleasedTable:
    """Build a horizontal table in the row order of the cleartext; equal cells form groups."""
    secret = cell_column(
        cleartext.sensitive, cleartext.secret, lambda code: np.array([code]), lambda code, _: code
    )
    groups, first, _ = distinct_rows([c.codes for c in columns.values()])
    return ReleasedTable(
        scheme="horizontal",
        sensitive=cleartext.sensitive.name,
        columns=columns,
        secret=secret,
        group_codes=groups.astype(np.int32),
        group_labels=pd.RangeIndex(len(first), name="group"),
    )


def spell_out_stars(columns: dict[str, Column]) -> dict[str, Column]:
    """Make sure that no row shows a star in all columns, as only suppressed rows do.

    If every cell of a group is a whole domain, the first column lists its values instead.
    """
    shown = [column.evidence.starred[column.codes] for column in columns.values()]
    if not np.logical_and.reduce(shown).any():
        return columns
    name, column = next(iter(columns.items()))
    labels = list(column.evidence.labels)
    labels[int(column.evidence.starred.argmax())] = set_labels(column.domain)(
        np.arange(len(column.domain))
    )
    return {**columns, name: Column(replace(column.evidence, labels=tuple(labels)), column.codes)}


def whole_label(domain: Domain) -> object:
    """Return the label of a cell that allows every value: a star, unless it has another meaning."""
    tree = domain.hierarchy
    taken = "*" in domain.by_label or (
        tree is not None and "*" in tree and len(tree.positions("*")) < len(tree.leaves)
    )
    return tuple(domain.values) if taken else "*"


def is_misread(label: str) -> bool:
    """Whether a value would be misread inside ``{a, b}``."""
    return bool(_MISREAD.search(label)) or label != label.strip()


def set_labels(domain: Domain) -> Callable[[SmallCodes], object]:
    """Return a function that labels sets of values.

    Adjacent numbers or dates form a range; other values are listed as ``{a, b}``, or given as a
    tuple if the text could be misread.
    """
    places = domain.places
    order = np.argsort(places, kind="stable")
    rank = np.empty(len(domain), dtype=np.int64)
    rank[order] = np.arange(len(domain))
    misread = any(map(is_misread, domain.labels))

    def spell(codes: SmallCodes) -> object:
        placed = codes[~np.isnan(places[codes])]
        placed = placed[np.argsort(rank[placed])]
        runs = np.split(placed, np.flatnonzero(np.diff(rank[placed]) > 1) + 1)
        if len(placed) and len(runs) == 1 and len(placed) == len(codes):
            return _range(domain, placed)
        if misread:
            return tuple(domain.values[c] for c in codes)
        parts = [_range(domain, run) for run in runs if len(run)]
        others = [domain.labels[c] for c in codes if np.isnan(places[c])]
        return "{" + ", ".join([*parts, *others]) + "}"

    return spell


def _range(domain: Domain, codes: SmallCodes) -> str:
    """Label a range of adjacent values, in their order on the line."""
    first, last = domain.labels[codes[0]], domain.labels[codes[-1]]
    if len(codes) == 1:
        return first
    return f"{first}-{last}" if first.isdigit() and last.isdigit() else f"[{first}, {last}]"
