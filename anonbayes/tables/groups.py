"""Groups of indistinguishable rows, and the counts of a table."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from anonbayes.arrays import Ints, Mask, SmallCodes
from anonbayes.domains import (
    Domain,
    code_dtype,
    factorize,
    is_missing,
    object_array,
    plain,
    sorted_values,
)
from anonbayes.errors import TableError
from anonbayes.tables.evidence import Column, frozen

# -------------------------------------------------------------------------------------------------
# Counts of rows, which are all that inference needs of a horizontal table.

Weights = Ints | None


@dataclass(frozen=True, eq=False)
class Records:
    """Distinct released records with their multiplicities."""

    codes: Ints  # (records, attributes)
    secret: Ints
    count: Ints
    inverse: Ints  # record of each line

    def __post_init__(self) -> None:
        for array in (self.codes, self.secret, self.count, self.inverse):
            array.setflags(write=False)


def checked_weights(weights: npt.ArrayLike | None, n_lines: int, scheme: str) -> Weights:
    """Return read-only multiplicities of the lines, or None if each line is one row."""
    if weights is None:
        return None
    numbers = np.asarray(weights)
    if numbers.shape != (n_lines,) or numbers.dtype.kind not in "iu" or numbers.min(initial=1) < 1:
        raise TableError(
            f"weights must hold an integer of at least 1 for each of the {n_lines} lines, got "
            f"{numbers.dtype} of shape {numbers.shape}."
        )
    if scheme == "vertical":
        raise TableError("A vertical table has one line per row; leave out weights.")
    return None if (numbers == 1).all() else frozen(numbers.astype(np.int64))


def tally(codes: SmallCodes, weights: Weights, size: int) -> Ints:
    """Number of rows with each code from 0 to size - 1, given one code per line."""
    if weights is None:
        return np.bincount(codes, minlength=size)
    # Floating-point sums of integers are exact up to 2**53 rows.
    return np.bincount(codes, weights=weights, minlength=size).astype(np.int64)


def _cross_counts(
    rows: SmallCodes, cols: SmallCodes, weights: Weights, shape: tuple[int, int]
) -> sparse.csr_array:
    """Return a sparse, read-only contingency table."""
    which, keys = pd.factorize(rows.astype(np.int64) * shape[1] + cols)
    n = tally(which, weights, len(keys))
    counts = sparse.csr_array((n, (keys // shape[1], keys % shape[1])), shape=shape)
    counts.sort_indices()
    for array in (counts.data, counts.indices, counts.indptr):
        array.setflags(write=False)
    return counts


class Statistics:
    """Counts of a `ReleasedTable`, computed once, when needed."""

    scheme: str
    sensitive: str
    columns: Mapping[str, Column]
    secret: Column
    group_codes: npt.NDArray[np.int32]
    group_labels: pd.Index
    weights: Weights

    # -- size and syntactic properties -------------------------------------------------------

    @property
    def n_rows(self) -> int:
        """Number of rows, including suppressed ones."""
        return self.n_lines if self.weights is None else int(self.weights.sum())

    @property
    def n_lines(self) -> int:
        """Number of stored lines: one per row, or one per distinct record of a `reduced` table."""
        return len(self.secret.codes)

    @property
    def n_groups(self) -> int:
        """Number of groups, not counting suppressed rows."""
        return len(self.group_labels)

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the nonsensitive attributes."""
        return tuple(self.columns)

    @cached_property
    def domains(self) -> Mapping[str, Domain]:
        """Domain of every attribute, the sensitive one last."""
        own = {name: column.domain for name, column in self.columns.items()}
        return MappingProxyType({**own, self.sensitive: self.secret.domain})

    @cached_property
    def n_suppressed(self) -> int:
        """Number of suppressed rows, which show nothing but their sensitive value."""
        return int(self.tally((self.group_codes < 0).astype(np.int8), 2)[1])

    @cached_property
    def _sizes(self) -> Ints:
        return self.tally(self.group_codes.astype(np.int64) + 1, self.n_groups + 1)[1:]

    @cached_property
    def _diversity(self) -> Ints:
        keep = self.group_codes >= 0
        width = len(self.secret.evidence)
        pairs = pd.unique(self.group_codes[keep].astype(np.int64) * width + self.secret.codes[keep])
        return np.bincount(pairs // width, minlength=self.n_groups)

    @property
    def group_sizes(self) -> pd.Series:
        """Number of rows of each group, indexed by group label."""
        return pd.Series(self._sizes.copy(), index=self.group_labels, name="size")

    @property
    def group_diversity(self) -> pd.Series:
        """Number of distinct sensitive values in each group, indexed by group label."""
        return pd.Series(self._diversity.copy(), index=self.group_labels, name="distinct")

    @property
    def k(self) -> int:
        """Size of the smallest group (k-anonymity); 0 if every row is suppressed."""
        return int(self._sizes.min()) if self.n_groups else 0

    @property
    def l(self) -> int:  # noqa: E743
        """Fewest distinct sensitive values in a group (distinct l-diversity)."""
        return int(self._diversity.min()) if self.n_groups else 0

    @cached_property
    def is_nested(self) -> bool:
        """Whether the posterior has a closed form: secrets in clear, nested cells (MODEL 1.3)."""
        return (
            self.scheme == "horizontal"
            and self.secrets_known
            and all(c.evidence.is_nested for c in self.columns.values())
        )

    def tally(self, codes: SmallCodes, size: int) -> Ints:
        """Return the number of rows with each code, given one code per line."""
        return tally(codes, self.weights, size)

    # -- sufficient statistics ----------------------------------------------------------------

    @cached_property
    def secrets_known(self) -> bool:
        """Whether every row shows its sensitive value in clear."""
        return self.secret.evidence.is_hard and bool((self.secret.evidence.sizes == 1).all())

    @cached_property
    def secret_codes(self) -> SmallCodes:
        """Domain code of the sensitive value of each line (in a vertical table, of each slot)."""
        if not self.secrets_known:
            raise TableError(
                f"The sensitive column {self.sensitive!r} was generalized or released through a "
                "channel, so the value of each row is not known."
            )
        of_cell = self.secret.evidence.matrix.indices.astype(code_dtype(len(self.secret.domain)))
        return frozen(of_cell[self.secret.codes])

    @cached_property
    def counts(self) -> Mapping[str, sparse.csr_array]:
        """Counts ``n[y, s]`` of rows with cell y and sensitive value s, by attribute.

        The likelihood of a horizontal table depends on nothing else (MODEL 1.2).
        """
        if self.scheme == "vertical":
            raise TableError(
                "A vertical table has no counts n[y, s], because it hides which nonsensitive tuple "
                "belongs to which sensitive value."
            )
        size = len(self.secret.domain)
        return MappingProxyType(
            {
                name: _cross_counts(
                    c.codes, self.secret_codes, self.weights, (len(c.evidence), size)
                )
                for name, c in self.columns.items()
            }
        )

    @cached_property
    def secret_counts(self) -> Ints:
        """Number of rows with each sensitive value, in domain order."""
        return frozen(self.tally(self.secret_codes, len(self.secret.domain)))

    @cached_property
    def records(self) -> Records:
        """Distinct records, that is, combinations of all cells, with their multiplicities."""
        stacked = [c.codes for c in self.columns.values()] + [self.secret.codes]
        inverse, first, _ = distinct_rows(stacked)
        table = np.stack([c[first].astype(np.int64) for c in stacked], axis=1)
        count = tally(inverse, self.weights, len(first))
        return Records(table[:, :-1], table[:, -1], count, inverse)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the table's content, to check whether a result belongs to it.

        It ignores the spelling of cells, the names of groups, and whether the table is `reduced`.
        That of a horizontal table depends on its distinct lines and their counts; that of a
        vertical table, whose posterior refers to single items, on every line and their order.
        """
        columns = [*self.columns.items(), (self.sensitive, self.secret)]
        groups = self.group_codes.astype(np.int64) + 1
        lines: Ints | slice = slice(None)
        digest = hashlib.sha256(f"{self.scheme}|{self.sensitive}|{self.n_rows}".encode())
        if self.scheme == "horizontal":
            inverse, lines, _ = distinct_rows([*(c.codes for _, c in columns), groups])
            digest.update(tally(inverse, self.weights, len(lines)).astype("<i8").tobytes())
        for name, column in columns:
            codes, cells = pd.factorize(column.codes[lines])  # cells in order of appearance
            matrix = column.evidence.matrix[cells]
            digest.update(repr((name, column.domain.values, matrix.shape)).encode())
            for array, kind in (
                (matrix.indptr, "<i8"),
                (matrix.indices, "<i8"),
                (matrix.data, "<f8"),
                (codes, "<i4"),
            ):
                digest.update(np.ascontiguousarray(array, dtype=kind).tobytes())
        kept = groups[lines]
        named = np.full(len(kept), -1, dtype="<i4")
        named[kept > 0] = pd.factorize(kept[kept > 0])[0]
        digest.update(named.tobytes())
        return digest.hexdigest()[:16]


# -------------------------------------------------------------------------------------------------
# Groups: which rows of a released table are indistinguishable.


def distinct_rows(columns: Sequence[SmallCodes]) -> tuple[Ints, Ints, Ints]:
    """Distinct rows of several columns of codes: their first lines, inverse and counts."""
    inverse, size = numbered_rows(columns)
    first = np.empty(size, dtype=np.int64)
    first[inverse[::-1]] = np.arange(len(inverse))[::-1]
    return inverse, first, np.bincount(inverse, minlength=size)


def numbered_rows(columns: Sequence[SmallCodes]) -> tuple[Ints, int]:
    """Return the number of each row's distinct row, in order of appearance, and how many exist."""
    key = np.zeros(len(columns[0]), dtype=np.int64)
    size = 1
    for column in columns:
        radix = int(column.max(initial=0)) + 1
        if size > 2**62 // radix:  # the mixed-radix number would overflow: renumber first
            key, distinct = pd.factorize(key)
            size = len(distinct)
        key = key * radix + column
        size *= radix
    inverse, distinct = pd.factorize(key)
    return inverse, len(distinct)


def suppressed_rows(
    frame: pd.DataFrame, columns: Mapping[str, Column], unknown: Collection[str]
) -> Mask:
    """Mark the rows that show ``*`` in every nonsensitive column.

    In the columns `unknown`, a missing cell counts as a star.
    """
    rows = np.arange(len(frame))
    for name, column in columns.items():
        if "*" in column.domain or not column.evidence.is_hard:
            rows = rows[:0]
        whole = column.evidence.sizes == len(column.domain)
        rows = rows[whole[column.codes[rows]]]
        cells = frame[name].iloc[rows]
        starred = [
            (isinstance(cell, str) and cell.strip() == "*")
            or (name in unknown and is_missing(cell))
            for cell in cells
        ]
        rows = rows[np.array(starred, dtype=bool)]
    hidden = np.zeros(len(frame), dtype=bool)
    hidden[rows] = True
    return hidden


def derived_groups(
    codes: Sequence[SmallCodes], hidden: Mask
) -> tuple[npt.NDArray[np.int32], pd.Index]:
    """Number the groups of rows with equal cells by first appearance; -1 for suppressed rows."""
    inverse, first, _ = distinct_rows([column[~hidden] for column in codes])
    groups = np.full(len(hidden), -1, dtype=np.int32)
    groups[~hidden] = inverse
    return groups, pd.RangeIndex(len(first), name="group")


def given_groups(
    series: pd.Series, name: str, hidden: Mask | None = None
) -> tuple[npt.NDArray[np.int32], pd.Index]:
    """Read groups from a column of names; only suppressed rows may lack a name."""
    if _are_numbers(series):  # no Python object for each of millions of numbered groups
        codes, numbers = pd.factorize(series.to_numpy(), sort=True)
        return codes.astype(np.int32), pd.Index(numbers.astype(np.int64), name=name)
    inverse, distinct = factorize(series, where=f"The group column {name!r}")
    missing = np.array([is_missing(label) for label in distinct], dtype=bool)
    gaps = missing[inverse]
    bad = gaps if hidden is None else gaps & ~hidden
    if bad.any():
        raise TableError(
            f"Column {name!r}, row {series.index[int(bad.argmax())]}: the group is missing."
        )
    named = [plain(label) for label, gone in zip(distinct, missing, strict=True) if not gone]
    if len({type(label) for label in named}) > 1:
        Domain(name, named)  # refuses both 1 and "1"
    ordered = sorted_values(named)
    place = {label: i for i, label in enumerate(ordered)}
    lookup = np.full(len(distinct), -1, dtype=np.int32)
    lookup[~missing] = [place[label] for label in named]
    return lookup[inverse], pd.Index(object_array(ordered), name=name).infer_objects()


def _are_numbers(series: pd.Series) -> bool:
    dtype = series.dtype
    if not isinstance(dtype, np.dtype) or dtype.kind not in "iu":
        return False
    return np.can_cast(dtype, np.int64)


def matched_groups(
    items: pd.Series, slots: pd.Series, name: str
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], pd.Index]:
    """Number the groups of both parts alike, after checking that their sizes agree."""
    plain_index = _are_numbers(items) and _are_numbers(slots)  # else messages need the index
    codes, labels = given_groups(pd.concat([items, slots], ignore_index=plain_index), name)
    item_codes, slot_codes = codes[: len(items)], codes[len(items) :]
    sizes = [np.bincount(c, minlength=len(labels)) for c in (item_codes, slot_codes)]
    wrong = np.flatnonzero(sizes[0] != sizes[1])
    if len(wrong):
        g = int(wrong[0])
        raise TableError(
            f"Group {plain(labels[g])!r} has {sizes[0][g]} rows in the quasi-identifier table and "
            f"{sizes[1][g]} in the sensitive table ({len(wrong)} groups differ); both parts of a "
            "group must have the same number of rows."
        )
    return item_codes, slot_codes, labels
