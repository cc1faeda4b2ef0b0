"""Columns of a release: a code per row, and the likelihood of each distinct cell."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from anonbayes.arrays import Ints, Mask, SmallCodes
from anonbayes.domains import (
    EPOCH,
    Domain,
    code_dtype,
    date_place,
    factorize,
    gaps,
    is_missing,
    number_of,
    number_place,
    numbers_of,
    object_array,
    plain,
    refuse_mixed_truth,
    sorted_values,
)
from anonbayes.errors import CellError, DomainError, TableError
from anonbayes.hierarchies import Hierarchy
from anonbayes.tables.cells import CellParser, is_pattern, is_set_text, range_ends, split_set

if TYPE_CHECKING:
    from anonbayes.channels.base import Channel

# -------------------------------------------------------------------------------------------------
# Evidence: the distinct released cells of one attribute, and what each says about the true value.


NOT_SHOWN = "not shown"
"""Numbered placeholders stand for domain values that the release does not show."""


@dataclass(frozen=True, eq=False)
class Evidence:
    """Likelihood vectors ``E_y(k) = P(released y | true value k)`` of the distinct cells.

    The row of a generalized cell has ones at its members (hard evidence); that of a report of a
    randomized mechanism has the probabilities of the report (soft evidence). See MODEL 1.1.
    `labels` are the cells as released; `matrix`, with a row per cell and a column per value, is
    read-only and stores no zeros.
    """

    domain: Domain
    labels: tuple[object, ...]
    matrix: sparse.csr_array

    def __post_init__(self) -> None:
        try:  # by itself SciPy trusts indices, and so do our kernels
            matrix = sparse.csr_array(self.matrix, dtype=np.float64, copy=True)
            matrix.check_format(full_check=True)
        except ValueError as error:
            raise CellError(
                f"Column {self.domain.name!r}: the evidence is no matrix: {error}."
            ) from None
        if matrix.shape != (len(self.labels), len(self.domain)):
            raise CellError(
                f"Column {self.domain.name!r}: the evidence has shape {matrix.shape}, but there "
                f"are {len(self.labels)} cells and {len(self.domain)} values."
            )
        bad = ~(np.isfinite(matrix.data) & (matrix.data >= 0))
        if bad.any():
            raise CellError(
                f"Column {self.domain.name!r}: evidence must be non-negative and finite, "
                f"got {matrix.data[bad][0]!r}."
            )
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        empty = np.flatnonzero(np.diff(matrix.indptr) == 0)
        if len(empty):
            raise CellError(
                f"Column {self.domain.name!r}: cell {self.labels[empty[0]]!r} is impossible under "
                "every value of the domain (likelihood 0)."
            )
        for array in (matrix.data, matrix.indices, matrix.indptr):
            array.setflags(write=False)
        object.__setattr__(self, "labels", tuple(self.labels))
        object.__setattr__(self, "matrix", matrix)

    def __reduce__(self) -> tuple[object, ...]:
        return Evidence, (self.domain, self.labels, self.matrix)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        kind = "hard" if self.is_hard else "soft"
        return f"Evidence({self.domain.name!r}, {len(self)} {kind} cells)"

    @cached_property
    def shown(self) -> Mask:
        """Mask of the values that released cells name: alone, in a set, or as the end of a range.

        If a randomized mechanism made the reports, all values: its domain is public.
        """
        names: set[str] = set() if self.is_hard else {*self.domain.labels}
        for label in self.labels if self.is_hard else ():
            several = label if isinstance(label, tuple | set | frozenset) else (label,)
            for part in several:
                ends = (part.left, part.right) if isinstance(part, pd.Interval) else (part,)
                for text in map(str, ends):
                    names.update((text, *(x.strip() for x in re.split(r"[{}\[\]();,|]", text))))
                    if range_ends(text) or self.domain.is_numeric:
                        names.update(re.findall(r"\d+(?:\.\d+)?", text))
        out = np.array([label in names for label in self.domain.labels])
        out.setflags(write=False)
        return out

    def members(self, cell: int | np.integer) -> npt.NDArray[np.int32]:
        """Return the codes of the values that are possible under a cell, ascending."""
        return self.matrix.indices[self.matrix.indptr[cell] : self.matrix.indptr[cell + 1]]

    @cached_property
    def sizes(self) -> Ints:
        """Number of possible values of each cell."""
        return np.diff(self.matrix.indptr).astype(np.int64)

    @cached_property
    def is_hard(self) -> bool:
        """Whether every entry is zero or one, so that cells are sets."""
        return bool((self.matrix.data == 1.0).all())

    @cached_property
    def starred(self) -> Mask:
        """Whether each cell is a star, that is, the whole domain."""
        return (self.sizes == len(self.domain)) & np.array(
            [*map(_is_star, self.labels)], dtype=bool
        )

    @cached_property
    def overlap(self) -> tuple[int, int] | None:
        """Return two cells that overlap without being nested, or None if there are none.

        Cells are placed on the domain from the largest to the smallest; each must fall into a
        single region of those placed so far. The cost is proportional to the total size of the
        cells.
        """
        owner = np.full(len(self.domain), -1)
        for cell in np.argsort(-self.sizes, kind="stable"):
            members = self.members(cell)
            owners = np.unique(owner[members])
            if len(owners) > 1:
                # The smallest of the owners meets this cell without containing it.
                other = min(owners[owners >= 0], key=lambda o: self.sizes[o])
                return int(other), int(cell)
            owner[members] = cell
        return None

    @property
    def is_nested(self) -> bool:
        """Whether any two cells are nested or disjoint sets (MODEL 1.3)."""
        return self.is_hard and self.overlap is None

    @classmethod
    def from_members(
        cls, domain: Domain, members: Sequence[npt.ArrayLike], labels: Iterable[object]
    ) -> Evidence:
        """Build hard evidence from the codes that each cell allows."""
        arrays = [np.sort(np.asarray(m, dtype=np.int32)) for m in members]
        indptr = np.concatenate([[0], np.cumsum([len(m) for m in arrays])]).astype(np.int32)
        indices = np.concatenate(arrays) if arrays else np.array([], dtype=np.int32)
        matrix = sparse.csr_array(
            (np.ones(len(indices)), indices, indptr), shape=(len(arrays), len(domain))
        )
        return cls(domain, tuple(labels), matrix)

    @classmethod
    def exact(cls, domain: Domain) -> Evidence:
        """Build the evidence of a column released in clear: every value is a cell."""
        size = len(domain)
        return cls(domain, domain.values, sparse.eye_array(size, format="csr"))


# -------------------------------------------------------------------------------------------------
# From a column of released cells to codes and evidence.

Array = TypeVar("Array", bound=npt.NDArray[np.generic])
IDENTIFIER_SIZE = 1000
DAY = 86_400
MOST_INFERRED = 10_000
"""Largest number of values inferred from the ranges of a column without a domain."""
_log = logging.getLogger("anonbayes")


def frozen(array: Array) -> Array:
    """Return a read-only array that nothing else can write to, copied if necessary."""
    if array.flags.writeable or array.base is not None:
        array = array.copy()
        array.setflags(write=False)
    return array


@dataclass(frozen=True, eq=False)
class Column:
    """Released column: the evidence of its distinct cells, and the position of each row's cell."""

    evidence: Evidence
    codes: SmallCodes

    def __post_init__(self) -> None:
        codes = np.asarray(self.codes)
        if codes.ndim != 1 or codes.dtype.kind not in "iu":
            raise TableError(
                f"Column {self.domain.name!r}: codes must be one integer per row, got "
                f"{codes.dtype} of shape {codes.shape}."
            )
        if len(codes) and not 0 <= int(codes.min()) <= int(codes.max()) < len(self.evidence):
            raise TableError(
                f"Column {self.domain.name!r}: codes run from {codes.min()} to {codes.max()}, "
                f"but there are {len(self.evidence)} distinct cells."
            )
        small = codes.astype(code_dtype(len(self.evidence)), copy=False)
        object.__setattr__(self, "codes", frozen(small))

    def __reduce__(self) -> tuple[object, ...]:
        return Column, (self.evidence, self.codes)

    @property
    def domain(self) -> Domain:
        """Domain of the attribute."""
        return self.evidence.domain

    def published(self) -> Column:
        """Return the column with placeholders for the values that no released cell shows."""
        known = self.evidence.shown
        if known.all():
            return self
        number = np.cumsum(~known)
        values = [
            value if is_shown else f"{NOT_SHOWN} {i}"
            for value, is_shown, i in zip(self.domain.values, known, number, strict=True)
        ]
        domain = Domain(self.domain.name, values)
        return Column(Evidence(domain, self.evidence.labels, self.evidence.matrix), self.codes)

    def in_clear(self, reason: str) -> Column:
        """Return the column with the domain values as cells, or an error naming a wider cell."""
        evidence, values = self.evidence, self.evidence.matrix.indices
        wide = np.flatnonzero(evidence.sizes > 1)
        if len(wide) or not evidence.is_hard:
            cell = int(wide[0]) if len(wide) else 0
            raise TableError(
                f"Column {self.domain.name!r}: cell {evidence.labels[cell]!r} stands for "
                f"{evidence.sizes[cell]} values, but {reason}. Use ReleasedTable.horizontal with "
                "one sensitive column for generalized tables."
            )
        if np.array_equal(values, np.arange(len(self.domain))):
            return self
        return Column(Evidence.exact(self.domain), values[self.codes])

    def take(self, rows: SmallCodes) -> Column:
        """Return a column with a selection of the rows, and the same cells."""
        return Column(self.evidence, self.codes[rows])

    def labels(self) -> npt.NDArray[np.object_]:
        """Return the released cell of every row."""
        return object_array(self.evidence.labels)[self.codes]


def encode_column(
    series: pd.Series,
    *,
    name: str,
    domain: Domain | KnownValues | Iterable[object] | None = None,
    hierarchy: Hierarchy | None = None,
    channel: Channel | None = None,
    missing: str = "error",
    missing_label: object = "missing",
    n_rows: int | None = None,
) -> Column:
    """Parse a column of cells; equal cells share a code even if they are spelled differently."""
    if channel is not None:
        if domain is not None or hierarchy is not None:
            raise TableError(
                f"Column {name!r} has a channel, which defines its domain; leave {name!r} out "
                "of domains and hierarchies."
            )
        return _through_channel(series, name, channel, missing)
    inverse, distinct = factorize_cells(series, name)
    size = len(series) if n_rows is None else n_rows
    known = _domain(name, distinct, domain, hierarchy, missing, missing_label, series, size)
    # Messages must not contain values known only from the cleartext: they may end up in a log.
    tells = not isinstance(domain, KnownValues)
    parser = CellParser(known, missing=missing, missing_label=missing_label, tells=tells)

    def members(i: int, cell: object) -> Ints:
        try:
            return parser.parse(cell)
        except CellError:
            parser.parse(cell, row=series.index[int(np.argmax(inverse == i))])  # with its row
            raise

    def label(i: int, _: Ints) -> object:
        if is_missing(distinct[i]):  # under missing="unknown"
            return "*" if "*" not in known else frozenset(known.values)
        return distinct[i]

    cells = [members(i, cell) for i, cell in enumerate(distinct)]
    return column_of_cells(known, inverse, cells, label)


def column_of_cells(
    domain: Domain, inverse: Ints, members: Sequence[Ints], label: Callable[[int, Ints], object]
) -> Column:
    """Build a column from each row's cell, and the members and spelling of each cell.

    Equal cells become one, numbered in order of appearance. A cell of a single value is shown as
    that value. If the whole domain is spelled both ``*`` and otherwise, the other spelling is kept,
    since only suppressed rows show stars in every column.
    """
    position: dict[bytes, int] = {}
    kept: list[Ints] = []
    labels: list[object] = []
    lookup = np.empty(len(members), dtype=np.int64)
    for i, codes in enumerate(members):
        lookup[i] = place = position.setdefault(codes.astype(np.int32).tobytes(), len(kept))
        if place == len(kept):
            kept.append(codes)
            labels.append("*")
        if _is_star(labels[place]):
            labels[place] = domain.values[codes[0]] if len(codes) == 1 else label(i, codes)
    evidence = Evidence.from_members(domain, kept, labels)
    return Column(evidence, lookup.astype(code_dtype(len(kept)))[inverse])


def _is_star(label: object) -> bool:
    return isinstance(label, str) and label.strip() == "*"


# -- distinct cells ---------------------------------------------------------------------------


def factorize_cells(series: pd.Series, name: str) -> tuple[Ints, list[object]]:
    """Return codes and distinct cells in order of appearance; unhashable cells become sets."""
    if series.dtype == object and _is_mixed(series):
        hashable = [_hashable(cell, name, i, series) for i, cell in enumerate(series)]
        return factorize(pd.Series(object_array(hashable), dtype=object), where=f"Column {name!r}")
    return factorize(series, where=f"Column {name!r}")


def _is_mixed(series: pd.Series) -> bool:
    try:
        return pd.api.types.infer_dtype(series).startswith("mixed")
    except OverflowError:  # an integer too large for a float
        return True


def _hashable(cell: object, name: str, position: int, series: pd.Series) -> object:
    if isinstance(cell, str):
        return cell
    try:
        if isinstance(cell, np.ndarray):
            return frozenset(cell.ravel().tolist())
        if isinstance(cell, list | set | pd.Series | pd.Index):
            return frozenset(cell)
        hash(cell)
    except TypeError:
        raise CellError(
            f"Column {name!r}, row {series.index[position]}: a cell of type "
            f"{type(cell).__name__} cannot be read ({str(cell)[:60]}); give a value, a set of "
            "values, or an interval."
        ) from None
    return cell


# -- domains ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class KnownValues:
    """Values that a column has in addition to those that its cells show; used instead of a domain.

    Ranges and ``*`` then stand only for values that are known or shown, not for everything that
    could lie between two ends.
    """

    values: tuple[object, ...]

    def with_shown(
        self, name: str, distinct: list[object], n_rows: int, label: object
    ) -> list[object]:
        """Return all values; `label` stands for missing cells and is not read as a number."""
        shown = [a for cell in distinct if not is_missing(cell) for a in _atoms(cell)]
        patterns: set[object] = {a for a in shown if isinstance(a, pd.Interval)}
        patterns |= {a for a in shown if isinstance(a, str) and a != "*" and is_pattern(a)}
        _refuse_identifier(name, [a for a in shown if a not in patterns], n_rows)
        listed = [*self.values, *(a for a in shown if a not in patterns)]
        by_text = {str(plain(v)): plain(v) for v in reversed(listed)}
        others = {text: value for text, value in by_text.items() if value != label}
        numbers: list[object] = [number_of(text) for text in others]
        known = {str(plain(v)) for v in self.values} - {str(label)}
        if None in numbers or numbers_of(list(known)) is None:
            numbers = list(others.values())
        values = sorted_values(list(dict.fromkeys(numbers)))
        return [*values, label] if len(others) < len(by_text) else values


def _domain(
    name: str,
    distinct: list[object],
    domain: Domain | KnownValues | Iterable[object] | None,
    hierarchy: Hierarchy | None,
    missing: str,
    missing_label: object,
    series: pd.Series,
    n_rows: int,
) -> Domain:
    if hierarchy is not None and not isinstance(hierarchy, Hierarchy):
        raise DomainError(
            f"The hierarchy of column {name!r} is a {type(hierarchy).__name__}; make one with "
            "Hierarchy.from_csv, from_levels, from_prefix or from_intervals."
        )
    if isinstance(domain, Domain):
        known = domain if domain.name == name else Domain(name, domain.values, domain.hierarchy)
        known = known if hierarchy is None else known.with_hierarchy(hierarchy)
    elif isinstance(domain, KnownValues):
        known = Domain(name, domain.with_shown(name, distinct, n_rows, missing_label))
    elif isinstance(domain, str):
        raise DomainError(
            f"The domain of column {name!r} is the text {domain!r}; give a list of values."
        )
    elif domain is not None:
        known = Domain(name, domain, hierarchy)
    elif hierarchy is not None:
        known = Domain(name, hierarchy.leaves, hierarchy)
    else:
        known = Domain(name, _shown_values(name, distinct, series, n_rows))
    if missing != "category" or missing_label in known:
        return known
    if not any(is_missing(cell) and cell not in known for cell in distinct):
        return known
    wider = None if known.hierarchy is None else known.hierarchy.with_leaf(missing_label)
    return Domain(name, [*known.values, missing_label], wider)


def _shown_values(
    name: str, distinct: list[object], series: pd.Series, n_rows: int
) -> list[object]:
    """Values that a column shows alone, in a set, or inside a range."""
    ordered = isinstance(series.dtype, pd.CategoricalDtype)
    members: list[object] = []
    for cell in series.cat.categories if ordered else distinct:
        if is_missing(cell):
            continue
        atoms = _atoms(cell)
        if any(isinstance(a, pd.Interval) or (isinstance(a, str) and _is_open(a)) for a in atoms):
            raise _unknown_domain(name, cell)
        members.extend(atoms)
    refuse_mixed_truth(members, where=f"Column {name!r}")
    seen = dict.fromkeys(members)
    ranges = {m: ends for m in seen if isinstance(m, str) and (ends := range_ends(m))}
    values = [m for m in seen if m not in ranges]
    if not seen:
        raise DomainError(
            f"Column {name!r} shows no value; list its values in domains={{{name!r}: [...]}}."
        )
    _refuse_identifier(name, values, n_rows)
    if ranges:
        return _with_ranges(name, values, ranges)
    return values if ordered else sorted_values(numbers_of(values) or values)


def _refuse_identifier(name: str, values: list[object], n_rows: int) -> None:
    n = len(dict.fromkeys(values))
    if n > IDENTIFIER_SIZE and n > n_rows / 2:
        raise TableError(
            f"Column {name!r} has {n:,} distinct values in {n_rows:,} rows, like an "
            f"identifier. Leave it out, or confirm it with domains={{{name!r}: [...]}}."
        )


def _unknown_domain(name: str, cell: object) -> DomainError:
    return DomainError(
        f"Column {name!r}: cell {str(cell)!r} stands for several values, but the column's "
        f"domain is not known. Pass domains={{{name!r}: [...]}} or a hierarchy for "
        f"{name!r}. (To treat {str(cell)!r} as a plain category, list it in the domain.)"
    )


def _with_ranges(
    name: str, values: list[object], ranges: Mapping[str, tuple[str, str, bool, bool]]
) -> list[object]:
    """Add the values inside the ranges of a column to those it shows.

    Numbers get as many decimals as the finest number shown; dates are days.
    """
    ends = [end for low, high, _, _ in ranges.values() for end in (low, high)]
    days = all((seconds := date_place(end)) is not None and seconds % DAY == 0 for end in ends)
    shown = [*ends, *(str(v) for v in values if number_place(v) is not None)]
    try:
        exponents = [0 if days else int(Decimal(text).as_tuple().exponent) for text in shown]
    except (InvalidOperation, ValueError, TypeError):  # an infinite end, or dates with hours
        raise _unknown_domain(name, next(iter(ranges))) from None
    step = Decimal(1).scaleb(min(0, *exponents))
    inside: set[int] = set()
    for text, (low, high, with_low, with_high) in ranges.items():
        first, last = (
            int((date_place(end) or 0.0) // DAY if days else Decimal(end) / step)
            for end in (low, high)
        )
        within = range(first + (not with_low), last + with_high)
        if len(within) > MOST_INFERRED or len(inside) > MOST_INFERRED:
            raise _unknown_domain(name, text)
        inside.update(within)
    if days:
        spelled = "%d.%m.%Y" if "-" not in ends[0] else "%Y-%m-%d"
        spelled += " %H:%M:%S" if len(ends[0]) > len("2024-12-31") else ""
        grid: list[object] = [
            (EPOCH + timedelta(days=day)).strftime(spelled) for day in sorted(inside)
        ]
    else:
        grid = [plain(float(step * place)) for place in sorted(inside)]
        values = [v if (number := number_of(v)) is None else number for v in values]
    if not grid:
        raise _unknown_domain(name, next(iter(ranges)))
    _log.warning(
        "Column %r has no domain; its ranges are read as %s. "
        "Pass domains={%r: [...]} if other values are possible.",
        name,
        f"{len(grid)} values from {grid[0]} to {grid[-1]}" if len(grid) > 1 else f"{grid[0]} alone",
        name,
    )
    return sorted_values(list(dict.fromkeys([*grid, *values])))


def _is_open(text: str) -> bool:
    """Whether a text stands for values it does not show: a mask, or a range with an open end."""
    return text != "*" and is_pattern(text) and range_ends(text) is None


def _atoms(cell: object) -> Sequence[object]:
    if isinstance(cell, str):
        stripped = cell.strip()
        if stripped == "*":
            return []
        return split_set(stripped) if is_set_text(stripped) else [stripped]
    members = cell if isinstance(cell, tuple | frozenset | range) else [cell]
    return [m.strip() if isinstance(m, str) else plain(m) for m in members]


# -- channels ---------------------------------------------------------------------------------


def _through_channel(series: pd.Series, name: str, channel: Channel, missing: str) -> Column:
    """Encode a column of reports; a missing report is an error or counts as no evidence."""
    if not hasattr(channel, "evidence"):
        raise TableError(f"channels[{name!r}] must be a channel, not {channel!r}.")
    empty = gaps(series, where=f"Column {name!r}")
    if empty.any() and missing != "unknown":
        raise CellError(
            f"Column {name!r}, row {series.index[int(empty.argmax())]}: the report is missing. "
            "If that says nothing about the value, pass missing='unknown'."
        )
    codes, labels, matrix = channel.evidence(series.to_numpy()[~empty])
    domain = channel.domain.renamed(name)
    if len(codes) != (~empty).sum():
        raise TableError(
            f"Column {name!r}: the channel read {len(codes)} of {(~empty).sum()} reports."
        )
    if not empty.any():
        return Column(Evidence(domain, tuple(labels), matrix), np.asarray(codes))
    nothing = sparse.csr_array(np.ones((1, len(domain))))
    everywhere = np.full(len(series), len(labels))
    everywhere[~empty] = codes
    stacked = sparse.vstack([sparse.csr_array(matrix), nothing], format="csr")
    return Column(Evidence(domain, (*labels, "*"), stacked), everywhere)
