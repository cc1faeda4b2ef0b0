"""`ReleasedTable`: what was published, ready for inference."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
from anonbayes.release.statistics import (
    Records,
    checked_weights,
    cross_counts,
    fingerprint,
    tally,
)

__all__ = ["ReleasedTable"]

Scheme = Literal["horizontal", "vertical"]
Missing = str | Mapping[str, str]
MOST_LINES = 10_000_000
"""Longest frame into which a reduced table is unfolded without being asked to."""


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
    weights : numpy.ndarray or None
        How many rows each stored line stands for; None when every line is a row. A horizontal table
        of any size is kept as its distinct lines (`reduced`): all that inference asks for are
        numbers of rows. See `from_parquet`.

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
    weights: npt.NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        one_of("scheme", self.scheme, ("horizontal", "vertical"))
        groups = np.asarray(self.group_codes)
        for array in (groups, *(c.codes for c in self.columns.values())):
            if len(array) != self.n_lines:
                raise TableError(f"Columns of {len(array)} and {self.n_lines} rows in one table.")
        object.__setattr__(self, "weights", checked_weights(self.weights, self.n_lines, self.scheme))
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
            self.weights,
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
        weights: str | None = None,
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
        weights : str, optional
            Column that says how many rows a line stands for, in a frame of counted records.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"age": ["20-24", "25-29"], "income": ["low", "high"]})
        >>> ReleasedTable.horizontal(frame, "income", domains={"age": range(20, 30)}).k
        1
        >>> counted = frame.assign(people=[2_000_000, 3_000_000])
        >>> ages = {"age": range(20, 30)}
        >>> ReleasedTable.horizontal(counted, "income", ages, weights="people").group_sizes.tolist()
        [2000000, 3000000]
        """
        table = cls(
            **build.horizontal_parts(
                frame,
                sensitive=sensitive,
                domains=domains,
                hierarchies=hierarchies,
                group=group,
                channels=channels,
                missing=missing,
                missing_label=missing_label,
                weights=weights,
            )
        )
        return table if weights is None else table.reduced()

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
        return self.n_lines if self.weights is None else int(self.weights.sum())

    @property
    def n_lines(self) -> int:
        """Number of stored lines: one per row, or one per distinct record of a reduced table."""
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
        return int(self.tally(self.group_codes < 0, 2)[1])

    @cached_property
    def _sizes(self) -> npt.NDArray[np.int64]:
        return self.tally(self.group_codes.astype(np.int64) + 1, self.n_groups + 1)[1:]

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

    # -- rows and lines -----------------------------------------------------------------------

    def tally(self, codes: npt.NDArray[Any], size: int) -> npt.NDArray[np.int64]:
        """Number of rows per code, from one code per line."""
        return tally(codes, self.weights, size)

    def reduced(self) -> ReleasedTable:
        """Return the same table as distinct lines, in order of appearance, with their numbers of rows.

        Memory is then that of the distinct lines, whatever the number of rows. Which row was which
        is forgotten; nothing but `to_frame` and single rows in ``fit(keep_cleartext=...)`` asks.
        A vertical table is returned as it is.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"Nat": ["M", "M", "J"] * 5, "Dis": ["Flu", "Flu", "HIV"] * 5})
        >>> table = ReleasedTable.horizontal(frame, "Dis")
        >>> small = table.reduced()
        >>> small.n_rows, small.n_lines, small == table
        (15, 2, True)
        """
        if self.scheme == "vertical":
            return self
        columns = [c.codes for c in self.columns.values()]
        inverse, first, count = build.distinct_rows(
            [*columns, self.secret.codes, self.group_codes.astype(np.int64) + 1]
        )
        if len(first) == self.n_lines:
            return self
        return self._take(first, tally(inverse, self.weights, len(count)))

    def expanded(self) -> ReleasedTable:
        """Return the same table with one line per row, equal rows next to each other."""
        if self.weights is None:
            return self
        return self._take(np.repeat(np.arange(self.n_lines), self.weights), None)

    def _take(
        self, lines: npt.NDArray[np.int64], weights: npt.NDArray[np.int64] | None
    ) -> ReleasedTable:
        return replace(
            self,
            columns={name: c.take(lines) for name, c in self.columns.items()},
            secret=self.secret.take(lines),
            group_codes=self.group_codes[lines],
            weights=weights,
        )

    # -- sufficient statistics ----------------------------------------------------------------

    @cached_property
    def secrets_known(self) -> bool:
        """Whether every row shows its sensitive value in clear."""
        return self.secret.evidence.is_hard and bool((self.secret.evidence.sizes == 1).all())

    @cached_property
    def secret_codes(self) -> npt.NDArray[Any]:
        """Domain code of each line's sensitive value (of each slot, in a vertical table)."""
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
                name: cross_counts(
                    c.codes, self.secret_codes, self.weights, (len(c.evidence), size)
                )
                for name, c in self.columns.items()
            }
        )

    @cached_property
    def secret_counts(self) -> npt.NDArray[np.int64]:
        """Number of rows per sensitive value, in domain order."""
        return frozen(self.tally(self.secret_codes, len(self.secret.domain)))

    @cached_property
    def records(self) -> Records:
        """Distinct rows (cells and sensitive cell together) with their multiplicities."""
        stacked = [c.codes for c in self.columns.values()] + [self.secret.codes]
        inverse, first, _ = build.distinct_rows(stacked)
        table = np.stack([c[first].astype(np.int64) for c in stacked], axis=1)
        count = tally(inverse, self.weights, len(first))
        return Records(table[:, :-1], table[:, -1], count, inverse)

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the table's content, to tell whether a result belongs to it.

        Neither the spelling of cells nor the names of groups count, only what they say; nor does
        it matter whether a horizontal table is kept as rows or `reduced`.
        """
        return fingerprint(self)

    # -- looking at it ---------------------------------------------------------------------

    def to_frame(self, *, weights: str | None = None) -> pd.DataFrame:
        """Return the table as released, one line per row.

        Suppressed rows show ``*``. `horizontal` reads the frame back without loss when it is also
        given the ``domains``; of a vertical table take the two parts with `to_frames`, since its
        lines are not linked.

        Parameters
        ----------
        weights : str, optional
            Return one line per distinct record instead, with its number of rows in a column of
            this name.

        Examples
        --------
        >>> import pandas as pd
        >>> frame = pd.DataFrame({"Nat": ["{M, J}", "J"], "Dis": ["Heart", "Flu"]})
        >>> table = ReleasedTable.horizontal(frame, sensitive="Dis")
        >>> again = ReleasedTable.horizontal(table.to_frame(), "Dis", domains=table.domains)
        >>> again == table
        True
        """
        if weights is not None:
            return self._counted(weights)
        if self.weights is None:
            return self._lines(slice(None))
        if self.n_rows > MOST_LINES:
            raise TableError(
                f"A frame of {self.n_rows:,} rows is too large; take the {self.n_lines:,} distinct "
                "records with to_frame(weights='rows'), or, if memory allows, "
                "expanded().to_frame()."
            )
        return self._lines(np.repeat(np.arange(self.n_lines), self.weights))

    def _counted(self, name: str) -> pd.DataFrame:
        table = self.reduced()
        frame = table._lines(slice(None))
        if self.scheme == "vertical" or name in frame.columns:
            raise TableError(
                "A vertical table cannot be counted by records: its lines are not linked."
                if self.scheme == "vertical"
                else f"The table has a column {name!r} already; choose another name for weights=."
            )
        ones = np.ones(table.n_lines, dtype=np.int64)
        return frame.assign(**{name: ones if table.weights is None else table.weights})

    def _lines(self, rows: slice | npt.NDArray[np.int64]) -> pd.DataFrame:
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
        if self.weights is None:
            return self._lines(slice(rows))
        repeated = np.minimum(self.weights[:rows], rows)
        return self._lines(np.repeat(np.arange(len(repeated)), repeated)[:rows])

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
