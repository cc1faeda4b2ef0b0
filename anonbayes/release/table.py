"""`ReleasedTable`: what was published, ready for inference."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from anonbayes.domains import Domain, code_dtype, object_array
from anonbayes.errors import TableError, one_of
from anonbayes.hierarchies import Hierarchy
from anonbayes.release import build, show
from anonbayes.release.columns import Column, frozen

__all__ = ["Records", "ReleasedTable"]

Scheme = Literal["horizontal", "vertical"]
Missing = str | Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Records:
    """Distinct released records with their multiplicities.

    Parameters
    ----------
    codes : numpy.ndarray
        Cell code of each attribute, shape ``(n_records, n_attributes)``.
    secret : numpy.ndarray
        Code of the sensitive cell of each record.
    count : numpy.ndarray
        How many rows show the record.
    inverse : numpy.ndarray
        Record of each row.
    """

    codes: npt.NDArray[np.int64]
    secret: npt.NDArray[np.int64]
    count: npt.NDArray[np.int64]
    inverse: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        for array in (self.codes, self.secret, self.count, self.inverse):
            array.setflags(write=False)


@dataclass(frozen=True, eq=False, repr=False)
class ReleasedTable:
    """An anonymized table as published: cells, sensitive values, and groups. Immutable.

    Use the constructors `horizontal` and `vertical`, the readers `read_arx` and `read_anatomy`, or
    a scheme of `anonymize`.

    In a *horizontal* table (k-anonymity, l-diversity, suppression, binning) each row shows a cell
    per attribute and its sensitive value. In a *vertical* table (Anatomy) line ``j`` of the
    nonsensitive part and line ``j`` of the sensitive part belong to the same group, but not to the
    same person: who owns which is hidden. Groups Sec. II.

    Attributes
    ----------
    scheme : {"horizontal", "vertical"}
        How the table hides who is who.
    sensitive : str
        Name of the sensitive attribute.
    columns : mapping of str to Column
        Released cells of the nonsensitive attributes.
    secret : Column
        Released sensitive column.
    group_codes : numpy.ndarray
        Group of each row, from 0; -1 for rows that were suppressed and belong to no group.
    group_labels : pandas.Index
        Names of the groups.
    group_name : str or None
        Column that named the groups, None when equal cells made them.

    Examples
    --------
    >>> import pandas as pd
    >>> import anonbayes as ab
    >>> frame = pd.DataFrame({"Nat": ["{M, J}", "{M, J}", "J", "J"],
    ...                       "Dis": ["Heart", "Flu", "Flu", "Stomach"]})
    >>> table = ab.ReleasedTable.horizontal(frame, sensitive="Dis")
    >>> table
    ReleasedTable(horizontal, 4 rows, 2 groups, k=2, l=2, sensitive='Dis', attributes=['Nat'])
    >>> table.counts["Nat"].toarray().tolist()
    [[1, 1, 0], [1, 0, 1]]
    """

    scheme: Scheme
    sensitive: str
    columns: Mapping[str, Column]
    secret: Column
    group_codes: npt.NDArray[np.int32]
    group_labels: pd.Index = field(repr=False)
    group_name: str | None = None

    def __post_init__(self) -> None:
        one_of("scheme", self.scheme, ("horizontal", "vertical"))
        groups = np.asarray(self.group_codes)
        for array in (groups, *(c.codes for c in self.columns.values())):
            if len(array) != self.n_rows:
                raise TableError(f"Columns of {len(array)} and {self.n_rows} rows in one table.")
        if len(groups) and not -1 <= int(groups.min()) <= int(groups.max()) < self.n_groups:
            raise TableError(
                f"Group codes run from {groups.min()} to {groups.max()}, but there are "
                f"{self.n_groups} groups (-1 marks suppressed rows)."
            )
        object.__setattr__(self, "columns", MappingProxyType(dict(self.columns)))
        object.__setattr__(self, "group_codes", frozen(groups.astype(np.int32, copy=False)))

    def __reduce__(self) -> tuple[Any, ...]:
        return ReleasedTable, (
            self.scheme,
            self.sensitive,
            dict(self.columns),
            self.secret,
            self.group_codes,
            self.group_labels,
            self.group_name,
        )

    # -- constructors ----------------------------------------------------------------------

    @classmethod
    def horizontal(
        cls,
        frame: pd.DataFrame,
        sensitive: str | Iterable[str],
        domains: Mapping[str, Domain | Iterable[Any]] | None = None,
        hierarchies: Mapping[str, Hierarchy] | None = None,
        group: str | None = None,
        *,
        channels: Mapping[str, Any] | None = None,
        missing: Missing = "error",
        missing_label: Any = "missing",
    ) -> ReleasedTable:
        """Table of generalized rows.

        Parameters
        ----------
        frame : pandas.DataFrame
            One row per person. Cells may be values, sets, `pandas.Interval` or text
            (see `CellParser`).
        sensitive : str or several str
            Sensitive column; several are joined into one with tuples as values.
        domains : mapping, optional
            Domain, or list of values, per column. Without one, a hierarchy's leaves or the values
            that the column shows are the domain.
        hierarchies : mapping, optional
            Hierarchy per column.
        group : str, optional
            Column that names the groups; without it, rows with equal cells form a group.
        channels : mapping, optional
            Channel per column that was released through a randomized mechanism.
        missing : {"error", "unknown", "category"} or mapping of them
            What a missing cell means, for the table or per column.
        missing_label : hashable
            The category that stands for missing cells when ``missing="category"``.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"age": ["20-24", "25-29"], "income": ["low", "high"]})
        >>> ReleasedTable.horizontal(frame, "income", domains={"age": range(20, 30)}).k
        1
        """
        return cls(
            **build.horizontal_parts(
                frame,
                sensitive=sensitive,
                domains=domains,
                hierarchies=hierarchies,
                group=group,
                channels=channels,
                missing=missing,
                missing_label=missing_label,
            )
        )

    @classmethod
    def vertical(
        cls,
        qit: pd.DataFrame,
        st: pd.DataFrame,
        group: str,
        sensitive: str,
        domains: Mapping[str, Domain | Iterable[Any]] | None = None,
        *,
        count: str | None = None,
        missing: Missing = "error",
        missing_label: Any = "missing",
    ) -> ReleasedTable:
        """Table published in two parts, as Anatomy does.

        Parameters
        ----------
        qit : pandas.DataFrame
            Quasi-identifier table: nonsensitive values in clear, and the group.
        st : pandas.DataFrame
            Sensitive table: group and sensitive value, one line per row; or one line per group
            and value with a column `count`.
        group, sensitive : str
            Column names.
        domains : mapping, optional
            Domain, or list of values, per column.
        count : str, optional
            Column of `st` with multiplicities.
        missing, missing_label : optional
            As in `horizontal`, except that ``"unknown"`` is not possible here.

        Examples
        --------
        >>> import pandas as pd
        >>> qit = pd.DataFrame({"Nat": ["J", "M"], "gid": [1, 1]})
        >>> st = pd.DataFrame({"gid": [1, 1], "Dis": ["Flu", "Heart"]})
        >>> ReleasedTable.vertical(qit, st, group="gid", sensitive="Dis").group_sizes.tolist()
        [2]
        """
        return cls(
            **build.vertical_parts(
                qit,
                st,
                group=group,
                sensitive=sensitive,
                domains=domains,
                count=count,
                missing=missing,
                missing_label=missing_label,
            )
        )

    # -- size and syntactic properties -------------------------------------------------------

    @property
    def n_rows(self) -> int:
        """Number of rows, suppressed ones included."""
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
        found = {name: column.domain for name, column in self.columns.items()}
        return MappingProxyType({**found, self.sensitive: self.secret.domain})

    @cached_property
    def n_suppressed(self) -> int:
        """Number of suppressed rows: they show nothing but their sensitive value."""
        return int((self.group_codes < 0).sum())

    @cached_property
    def _sizes(self) -> npt.NDArray[np.int64]:
        return np.bincount(self.group_codes[self.group_codes >= 0], minlength=self.n_groups)

    @cached_property
    def _diversity(self) -> npt.NDArray[np.int64]:
        keep = self.group_codes >= 0
        width = len(self.secret.evidence)
        pairs = pd.unique(self.group_codes[keep].astype(np.int64) * width + self.secret.codes[keep])
        return np.bincount(pairs // width, minlength=self.n_groups)

    @property
    def group_sizes(self) -> pd.Series:
        """Number of rows of each group."""
        return pd.Series(self._sizes.copy(), index=self.group_labels, name="size")

    @property
    def group_diversity(self) -> pd.Series:
        """Number of distinct sensitive values of each group."""
        return pd.Series(self._diversity.copy(), index=self.group_labels, name="distinct")

    @property
    def k(self) -> int:
        """Size of the smallest group (k-anonymity); 0 when every row is suppressed."""
        return int(self._sizes.min()) if self.n_groups else 0

    @property
    def l(self) -> int:  # noqa: E743
        """Fewest distinct sensitive values in a group (distinct l-diversity)."""
        return int(self._diversity.min()) if self.n_groups else 0

    @cached_property
    def is_nested(self) -> bool:
        """Whether the posterior has a closed form: known secrets, nested cells (MODEL 1.3)."""
        return (
            self.scheme == "horizontal"
            and self.secrets_known
            and all(c.evidence.is_nested for c in self.columns.values())
        )

    # -- sufficient statistics ----------------------------------------------------------------

    @cached_property
    def secrets_known(self) -> bool:
        """Whether every row shows its sensitive value in clear."""
        return self.secret.evidence.is_hard and bool((self.secret.evidence.sizes == 1).all())

    @cached_property
    def secret_codes(self) -> npt.NDArray[Any]:
        """Domain code of each row's sensitive value (of each slot, in a vertical table)."""
        if not self.secrets_known:
            raise TableError(
                f"The sensitive column {self.sensitive!r} was released through a channel or "
                "generalized; its values are not known row by row."
            )
        of_cell = self.secret.evidence.matrix.indices.astype(code_dtype(len(self.secret.domain)))
        return frozen(of_cell[self.secret.codes])

    @cached_property
    def counts(self) -> Mapping[str, sparse.csr_array]:
        """Per attribute the number ``n[y, s]`` of rows with cell y and sensitive value s.

        These are all that the likelihood of a horizontal table depends on (MODEL 1.2).
        """
        if self.scheme == "vertical":
            raise TableError(
                "A vertical table hides which nonsensitive tuple belongs to which sensitive "
                "value, so it has no counts n[y, s]."
            )
        size = len(self.secret.domain)
        return MappingProxyType(
            {
                name: _cross_counts(c.codes, self.secret_codes, (len(c.evidence), size))
                for name, c in self.columns.items()
            }
        )

    @cached_property
    def secret_counts(self) -> npt.NDArray[np.int64]:
        """Number of rows per sensitive value, in domain order."""
        return frozen(np.bincount(self.secret_codes, minlength=len(self.secret.domain)))

    @cached_property
    def records(self) -> Records:
        """Distinct rows (cells and sensitive cell together) with their multiplicities."""
        stacked = [c.codes for c in self.columns.values()] + [self.secret.codes]
        inverse, first, count = build.distinct_rows(stacked)
        table = np.stack([c[first].astype(np.int64) for c in stacked], axis=1)
        return Records(table[:, :-1], table[:, -1], count, inverse)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the table's content, to tell whether a result belongs to it.

        Neither the spelling of cells nor the names of groups count, only what they say.
        """
        digest = hashlib.sha256(f"{self.scheme}|{self.sensitive}".encode())
        for name, column in (*self.columns.items(), (self.sensitive, self.secret)):
            codes, cells = pd.factorize(column.codes)  # cells in order of appearance
            matrix = column.evidence.matrix[cells]
            digest.update(repr((name, column.domain.values, matrix.shape, len(codes))).encode())
            for array, kind in (
                (matrix.indptr, "<i8"),
                (matrix.indices, "<i8"),
                (matrix.data, "<f8"),
                (codes, "<i4"),
            ):
                digest.update(np.ascontiguousarray(array, dtype=kind).tobytes())
        groups = np.full(self.n_rows, -1, dtype="<i4")
        kept = self.group_codes >= 0
        groups[kept] = pd.factorize(self.group_codes[kept])[0]
        digest.update(groups.tobytes())
        return digest.hexdigest()[:16]

    # -- looking at it ---------------------------------------------------------------------

    def to_frame(self) -> pd.DataFrame:
        """Return the table as released, one line per row.

        Suppressed rows show ``*``. `horizontal` reads the frame back without loss when it is also
        given the ``domains``; of a vertical table take the two parts with `to_frames`, since its
        lines are not linked.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"Nat": ["{M, J}", "J"], "Dis": ["Heart", "Flu"]})
        >>> table = ReleasedTable.horizontal(frame, sensitive="Dis")
        >>> again = ReleasedTable.horizontal(table.to_frame(), "Dis", domains=table.domains)
        >>> again == table
        True
        """
        return self._lines(slice(None))

    def _lines(self, rows: slice) -> pd.DataFrame:
        groups = self.group_codes[rows]
        hidden = groups < 0
        data: dict[str, pd.Series] = {}
        for name, column in self.columns.items():
            labels, codes = column.evidence.labels, column.codes[rows]
            if hidden.any():
                codes = np.where(hidden, len(labels), codes)
                labels = (*labels, "*")
            data[name] = _spread(labels, codes)
        data[self.sensitive] = _spread(self.secret.evidence.labels, self.secret.codes[rows])
        if self.group_name is not None:
            names = [*self.group_labels, None] if hidden.any() else [*self.group_labels]
            data[self.group_name] = _spread(names, groups)
        return pd.DataFrame(data)

    def to_frames(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Both parts of a vertical table: quasi-identifiers, and sensitive values."""
        if self.scheme != "vertical" or self.group_name is None:
            raise TableError("Only a vertical table has two parts; use to_frame().")
        frame = self.to_frame()
        return (
            frame[[*self.attributes, self.group_name]],
            frame[[self.group_name, self.sensitive]],
        )

    def head(self, rows: int = 5) -> pd.DataFrame:
        """Return the first lines of `to_frame` without building the rest."""
        return self._lines(slice(rows))

    def describe(self) -> pd.DataFrame:
        """One line per attribute: domain size, distinct cells, how much they hide."""
        return show.describe(self)

    def __len__(self) -> int:
        return self.n_rows

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReleasedTable):
            return NotImplemented
        return self is other or self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        return show.line(self)

    def _repr_html_(self) -> str:
        return show.html(self)


def _spread(labels: Sequence[Any], codes: npt.NDArray[Any]) -> pd.Series:
    """Label of each row, in the type that the labels have in common."""
    typed = pd.Series(object_array(labels), dtype=object).infer_objects()
    return pd.Series(typed.array.take(codes))


def _cross_counts(
    rows: npt.NDArray[Any], cols: npt.NDArray[Any], shape: tuple[int, int]
) -> sparse.csr_array:
    """Sparse contingency table, read-only."""
    which, keys = pd.factorize(rows.astype(np.int64) * shape[1] + cols)
    n = np.bincount(which, minlength=len(keys))
    counts = sparse.csr_array((n, (keys // shape[1], keys % shape[1])), shape=shape)
    counts.sort_indices()
    for array in (counts.data, counts.indices, counts.indptr):
        array.setflags(write=False)
    return counts
