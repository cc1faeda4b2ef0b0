"""`ReleasedTable`: a published table, ready for inference."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from html import escape
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.arrays import Ints, SmallCodes
from anonbayes.domains import Domain, DomainsByColumn, object_array
from anonbayes.errors import TableError, one_of
from anonbayes.formats import count
from anonbayes.hierarchies import Hierarchy
from anonbayes.tables.build import (
    VERTICAL,
    Missing,
    Parts,
    Scheme,
    horizontal_parts,
    open_source,
    vertical_parts,
)
from anonbayes.tables.evidence import Column, Evidence, frozen
from anonbayes.tables.groups import Statistics, checked_weights, distinct_rows, tally
from anonbayes.tables.sources import Source

if TYPE_CHECKING:
    import dask.dataframe as dd
    from distributed import Client

    from anonbayes.channels.base import Channel

MOST_ROWS = 10_000_000
"""Largest number of rows of a reduced table that `to_frame` expands without being asked."""


@dataclass(frozen=True, eq=False, repr=False)
class ReleasedTable(Statistics):
    """An anonymized table as published: cells, sensitive values, and groups. Immutable.

    Create one with the constructors `horizontal`, `vertical` and `from_parquet`, with the readers
    `read_arx` and `read_anatomy`, or with one of the schemes in `anonymize`.

    In a *horizontal* table (k-anonymity, l-diversity, suppression, binning), each row shows a cell
    per attribute and its sensitive value. In a *vertical* table (Anatomy), line ``j`` of the
    nonsensitive part and line ``j`` of the sensitive part belong to the same group but not to the
    same person: the table hides which line belongs to which (Groups Sec. II).

    Attributes
    ----------
    scheme : {"horizontal", "vertical"}
        How the table was anonymized.
    sensitive : str
        Name of the sensitive attribute.
    columns : mapping of str to Column
        Released cells of each nonsensitive attribute.
    secret : Column
        Released sensitive column.
    group_codes : numpy.ndarray
        Group of each row, counted from 0; -1 for suppressed rows, which belong to no group.
    group_labels : pandas.Index
        Names of the groups.
    group_name : str or None
        Column that names the groups; None if rows with equal cells form a group.
    weights : numpy.ndarray or None
        How many rows each stored line stands for; None if every line is one row. A large horizontal
        table is kept as its distinct lines (see `reduced` and `from_parquet`), because inference
        needs only counts of rows.

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
    weights: Ints | None = None

    def __post_init__(self) -> None:
        one_of("scheme", self.scheme, ("horizontal", "vertical"))
        groups = np.asarray(self.group_codes)
        for array in (groups, *(c.codes for c in self.columns.values())):
            if len(array) != self.n_lines:
                raise TableError(
                    f"The columns have different lengths ({len(array)} and {self.n_lines} rows)."
                )
        object.__setattr__(
            self, "weights", checked_weights(self.weights, self.n_lines, self.scheme)
        )
        if len(groups) and not -1 <= int(groups.min()) <= int(groups.max()) < self.n_groups:
            raise TableError(
                f"Group codes run from {groups.min()} to {groups.max()}, but there are "
                f"{self.n_groups} groups (-1 marks suppressed rows)."
            )
        columns = dict(self.columns)
        if self.scheme == "vertical":  # samplers take codes of cells for those of values
            columns = {name: column.in_clear(VERTICAL) for name, column in columns.items()}
            object.__setattr__(self, "secret", self.secret.in_clear(VERTICAL))
        object.__setattr__(self, "columns", MappingProxyType(columns))
        object.__setattr__(self, "group_codes", frozen(groups.astype(np.int32, copy=False)))

    def __reduce__(self) -> tuple[object, ...]:
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
        domains: DomainsByColumn | None = None,
        hierarchies: Mapping[str, Hierarchy] | None = None,
        group: str | None = None,
        *,
        channels: Mapping[str, Channel] | None = None,
        missing: Missing = "error",
        missing_label: object = "missing",
        weights: str | None = None,
    ) -> ReleasedTable:
        """Build a table of generalized rows.

        Parameters
        ----------
        frame : pandas.DataFrame
            One row per person. Cells may be values, sets, `pandas.Interval` objects or texts such
            as ``"{M, J}"``, ``"20-29"``, ``"[20, 30)"``, ``"4550*"`` and ``"*"``.
        sensitive : str or several str
            Sensitive column; several are joined into one with tuples as values.
        domains : mapping, optional
            Domain, or list of values, by column. By default, the leaves of the column's hierarchy
            or the values that the column shows.
        hierarchies : mapping, optional
            Hierarchy by column.
        group : str, optional
            Column that names the groups; by default, rows with equal cells form a group.
        channels : mapping, optional
            Channel by column, for columns that were released through a randomized mechanism.
        missing : {"error", "unknown", "category"} or mapping of them
            How to treat missing cells, in the whole table or by column: refuse them, read them as
            any value of the domain, or as a category of their own.
        missing_label : hashable
            The category of missing cells under ``missing="category"``.
        weights : str, optional
            Column with the number of rows that each line stands for, if the frame holds counts.

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
        return cls.from_parts(
            horizontal_parts(
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

    @classmethod
    def from_parts(cls, parts: Parts) -> ReleasedTable:
        """Build a table from its fields; a table with weights is reduced to its distinct lines."""
        table = cls(**parts)
        return table if parts.get("weights") is None else table.reduced()

    @classmethod
    def from_parquet(
        cls,
        source: Source | dd.DataFrame,
        sensitive: str | Iterable[str],
        domains: DomainsByColumn | None = None,
        hierarchies: Mapping[str, Hierarchy] | None = None,
        group: str | None = None,
        *,
        drop: Iterable[str] = (),
        channels: Mapping[str, Channel] | None = None,
        missing: Missing = "error",
        missing_label: object = "missing",
        engine: str = "auto",
        memory_limit: str | None = None,
        temp_directory: str | os.PathLike[str] | None = None,
        client: Client | None = None,
        progressbar: bool = True,
    ) -> ReleasedTable:
        """Build a table of generalized rows from parquet files of any size.

        DuckDB and Dask count the distinct rows and return a `reduced` table that equals the one
        pandas would read. Memory is needed for the distinct rows only.

        Parameters
        ----------
        source : path, pattern, folder, several of them, or dask.dataframe.DataFrame
            The files, read one after the other; patterns and folders in alphabetical order.
        sensitive, domains, hierarchies, group, channels, missing, missing_label
            As in `horizontal`. With groups named by a column, there are at least as many distinct
            rows as groups.
        drop : iterable of str
            Columns to leave out.
        engine : {"auto", "pandas", "duckdb", "dask"}
            What reads the files: pandas, row by row in memory; DuckDB, out of core on this machine;
            or Dask, on a cluster whose workers can read the files. ``"auto"`` chooses Dask for Dask
            dataframes and with `client`, DuckDB from a million rows on, and pandas otherwise.
        memory_limit : str, optional
            Memory that DuckDB may use, such as ``"4GB"``.
        temp_directory : path, optional
            Folder for DuckDB's temporary files, which are deleted once the table is read.
        client : distributed.Client, optional
            The cluster for Dask; by default the current one.
        progressbar : bool
            Whether to show progress on a terminal.

        Examples
        --------
        >>> import pathlib, tempfile
        >>> import pandas as pd
        >>> folder = pathlib.Path(tempfile.mkdtemp())
        >>> frame = pd.DataFrame({"age": ["20-29", ">=30"] * 500, "ill": ["flu", "cold"] * 500})
        >>> frame.to_parquet(folder / "part-0.parquet")
        >>> frame.to_parquet(folder / "part-1.parquet")
        >>> ages = {"age": range(20, 90)}
        >>> table = ReleasedTable.from_parquet(folder, "ill", ages, engine="duckdb")
        >>> table.n_rows, table.n_lines
        (2000, 2)
        """
        reading = open_source(
            source,
            kind="parquet",
            engine=engine,
            drop=drop,
            client=client,
            memory_limit=memory_limit,
            temp_directory=temp_directory,
            progressbar=progressbar,
        )
        return cls.from_parts(
            reading.parts(
                sensitive,
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
        domains: DomainsByColumn | None = None,
        *,
        count: str | None = None,
        missing: Missing = "error",
        missing_label: object = "missing",
    ) -> ReleasedTable:
        """Build a table published in two parts, as Anatomy does.

        Parameters
        ----------
        qit : pandas.DataFrame
            Quasi-identifier table: nonsensitive values in clear, and the group.
        st : pandas.DataFrame
            Sensitive table: group and sensitive value, with one line per row, or with one line per
            group and value and a column `count`.
        group, sensitive : str
            Names of the group column and of the sensitive column.
        domains : mapping, optional
            Domain, or list of values, by column.
        count : str, optional
            Column of `st` with the number of rows that each line stands for.
        missing, missing_label : optional
            As in `horizontal`, except that ``"unknown"`` is not available.

        Examples
        --------
        >>> import pandas as pd
        >>> qit = pd.DataFrame({"Nat": ["J", "M"], "gid": [1, 1]})
        >>> st = pd.DataFrame({"gid": [1, 1], "Dis": ["Flu", "Heart"]})
        >>> ReleasedTable.vertical(qit, st, group="gid", sensitive="Dis").group_sizes.tolist()
        [2]
        """
        return cls(
            **vertical_parts(
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

    # -- rows and lines -----------------------------------------------------------------------

    def reduced(self) -> ReleasedTable:
        """Return the same table as its distinct lines, in order of appearance, with their counts.

        It takes memory for the distinct lines only, whatever the number of rows. The order of the
        rows is lost, which matters only to `to_frame` and to single rows in
        ``fit(keep_cleartext=...)``. A vertical table is returned unchanged.

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
        groups = self.group_codes.astype(np.int64) + 1
        inverse, first, _ = distinct_rows([*columns, self.secret.codes, groups])
        if len(first) == self.n_lines:
            return self
        return self._take(first, tally(inverse, self.weights, len(first)))

    def expanded(self) -> ReleasedTable:
        """Return the same table with one line per row; equal rows are adjacent."""
        if self.weights is None:
            return self
        return self._take(np.repeat(np.arange(self.n_lines), self.weights), None)

    def _take(self, lines: Ints, weights: Ints | None) -> ReleasedTable:
        return replace(
            self,
            columns={name: c.take(lines) for name, c in self.columns.items()},
            secret=self.secret.take(lines),
            group_codes=self.group_codes[lines],
            weights=weights,
        )

    # -- views -----------------------------------------------------------------------------

    def to_frame(self, *, weights: str | None = None) -> pd.DataFrame:
        """Return the table as released, one line per row.

        Suppressed rows show ``*``. `horizontal` restores the table from this frame without loss if
        it is also given the ``domains``. For a vertical table use `to_frames`, because the two
        halves of a line do not belong together.

        Parameters
        ----------
        weights : str, optional
            Name of a column for the number of rows; the frame then has one line per distinct
            record.

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
            return self._counted_frame(weights)
        if self.weights is None:
            return self._shown(slice(None))
        if self.n_rows > MOST_ROWS:
            raise TableError(
                f"A frame of {self.n_rows:,} rows is too large; get the {self.n_lines:,} distinct "
                "records with to_frame(weights='rows') or, if memory allows, expanded().to_frame()."
            )
        return self._shown(np.repeat(np.arange(self.n_lines), self.weights))

    def _counted_frame(self, name: str) -> pd.DataFrame:
        if self.scheme == "vertical":
            raise TableError(
                "A vertical table has no counted records, because its lines are not linked."
            )
        if name in (*self.attributes, self.sensitive, self.group_name):
            raise TableError(
                f"The table already has a column {name!r}; choose another name for weights=."
            )
        small = self.reduced()
        rows = np.ones(small.n_lines, dtype=np.int64) if small.weights is None else small.weights
        return small._shown(slice(None)).assign(**{name: rows})

    def _shown(self, lines: slice | Ints) -> pd.DataFrame:
        groups = self.group_codes[lines]
        hidden = groups < 0
        data: dict[str, pd.Series] = {}
        for name, column in self.columns.items():
            labels, codes = column.evidence.labels, column.codes[lines]
            if hidden.any():
                codes = np.where(hidden, len(labels), codes)
                labels = (*labels, "*")
            data[name] = _spread(labels, codes)
        data[self.sensitive] = _spread(self.secret.evidence.labels, self.secret.codes[lines])
        if self.group_name is not None:
            names = [*self.group_labels, None] if hidden.any() else [*self.group_labels]
            data[self.group_name] = _spread(names, groups)
        return pd.DataFrame(data)

    def to_frames(self) -> tuple[pd.DataFrame, pd.DataFrame]:
        """Return both parts of a vertical table: quasi-identifiers, and sensitive values."""
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
            return self._shown(slice(rows))
        repeated = np.minimum(self.weights[:rows], rows)
        return self._shown(np.repeat(np.arange(len(repeated)), repeated)[:rows])

    def describe(self) -> pd.DataFrame:
        """Return a line per attribute: domain size, distinct cells, and how much they hide."""
        rows = {}
        for name, column in (*self.columns.items(), (self.sensitive, self.secret)):
            evidence = column.evidence
            used = self.tally(column.codes, len(evidence))
            rows[name] = {
                "role": "sensitive" if name == self.sensitive else "nonsensitive",
                "values": len(evidence.domain),
                "distinct cells": int((used > 0).sum()),
                "evidence": "sets" if evidence.is_hard else "channel",
                "average values per cell": round(float(used @ evidence.sizes) / self.n_rows, 2),
                "shown in clear": round(float(used @ (evidence.sizes == 1)) / self.n_rows, 4),
            }
        return pd.DataFrame.from_dict(rows, orient="index")

    def overview(self) -> pd.Series:
        """Return key figures of the whole table: rows, groups, group sizes, diversity."""
        sizes = self.group_sizes
        figures: dict[str, object] = {
            "scheme": self.scheme,
            "rows": self.n_rows,
            **({} if self.weights is None else {"distinct records": self.n_lines}),
            "suppressed rows": self.n_suppressed,
            "groups": self.n_groups,
            "smallest group (k)": self.k,
            "median group": float(sizes.median()) if self.n_groups else 0.0,
            "average group": round(float(sizes.mean()), 2) if self.n_groups else 0.0,
            "largest group": int(sizes.max()) if self.n_groups else 0,
            "fewest sensitive values in a group (l)": self.l,
            "sensitive values": len(self.secret.domain),
            "nested cells": "yes" if self.is_nested else "no",
        }
        return pd.Series(figures, name=self.sensitive)

    def published(self) -> ReleasedTable:
        """Return the table with numbered placeholders for values that no released cell shows.

        A domain may hold values that only the cleartext has, such as a rare postcode or an age of
        97. Cells, sensitive values and groups are unchanged.

        Examples
        --------
        >>> import pandas as pd
        >>> import anonbayes as ab
        >>> frame = pd.DataFrame({"zip": ["455**", "45501"], "ill": ["flu", "gout"]})
        >>> known = {"zip": ["45501", "45502"]}
        >>> table = ab.ReleasedTable.horizontal(frame, "ill", domains=known)
        >>> table.published().domains["zip"].values
        ('45501', 'not shown 1')
        """
        columns = {name: column.published() for name, column in self.columns.items()}
        secret = self.secret.published()
        if secret is self.secret and all(c is self.columns[name] for name, c in columns.items()):
            return self
        return replace(self, columns=columns, secret=secret)

    def __len__(self) -> int:
        return self.n_rows

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReleasedTable):
            return NotImplemented
        return self is other or self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __repr__(self) -> str:
        suppressed = f" + {count(self.n_suppressed, 'suppressed row')}" * bool(self.n_suppressed)
        return (
            f"ReleasedTable({self.scheme}, {count(self.n_rows, 'row')}, "
            f"{count(self.n_groups, 'group')}{suppressed}, k={self.k}, l={self.l}, "
            f"sensitive={self.sensitive!r}, attributes={list(self.attributes)})"
        )

    def _repr_html_(self) -> str:
        head = self.head(6).map(str).to_html(escape=True, border=0)
        figures = self.overview().to_frame("").to_html(escape=True, border=0, header=False)
        note = (
            "<p>The lines of a vertical table are not linked: quasi-identifiers and sensitive "
            "values of a group are listed side by side, not person by person.</p>"
        )
        return (
            f"<div><p><b>ReleasedTable</b>, sensitive: <code>{escape(self.sensitive)}</code></p>"
            f"{figures}{self.describe().to_html(escape=True, border=0)}{head}"
            f"{note if self.scheme == 'vertical' else ''}</div>"
        )


def _spread(labels: Sequence[object], codes: SmallCodes) -> pd.Series:
    """Return the label of each row, in the type that the labels share."""
    typed = pd.Series(object_array(labels), dtype=object).infer_objects()
    return pd.Series(typed.array.take(codes))


def only_domains(attributes: Iterable[Domain], secret: Domain) -> ReleasedTable:
    """One-row release that carries nothing but domains."""
    one = np.zeros(1, dtype=np.int64)
    return ReleasedTable(
        "horizontal",
        secret.name,
        {domain.name: Column(Evidence.exact(domain), one) for domain in attributes},
        Column(Evidence.exact(secret), one),
        one.astype(np.int32),
        pd.RangeIndex(1),
    )
