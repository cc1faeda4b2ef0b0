"""Check data frames and files, and turn them into the fields of a `ReleasedTable`."""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Literal, NotRequired, TypedDict, TypeGuard, Unpack

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.arrays import Ints
from anonbayes.cluster import check_client
from anonbayes.domains import Domain, DomainsByColumn, gaps, plain, sorted_values
from anonbayes.errors import AnonbayesError, TableError, at_once, nearest, one_of
from anonbayes.hierarchies import Hierarchy
from anonbayes.io.text import check_names, pandas_frame
from anonbayes.tables.cells import MISSING_POLICIES
from anonbayes.tables.counting import count_partitions, count_with_dask, count_with_duckdb
from anonbayes.tables.evidence import Column, Evidence, encode_column
from anonbayes.tables.groups import (
    checked_weights,
    derived_groups,
    distinct_rows,
    given_groups,
    matched_groups,
    suppressed_rows,
)
from anonbayes.tables.sources import (
    Counted,
    FrameLike,
    Source,
    TableFiles,
    all_rows,
    count_frame,
    find_files,
    place_key,
)

if TYPE_CHECKING:
    import dask.dataframe as dd
    from distributed import Client

    from anonbayes.channels.base import Channel


Scheme = Literal["horizontal", "vertical"]
Missing = str | Mapping[str, str]
JOIN = " & "
VERTICAL = "a vertical table publishes values in clear"
_log = logging.getLogger(__name__)


class Parts(TypedDict):
    """Fields of a `ReleasedTable`."""

    scheme: Scheme
    sensitive: str
    columns: Mapping[str, Column]
    secret: Column
    group_codes: npt.NDArray[np.int32]
    group_labels: pd.Index
    group_name: str | None
    weights: NotRequired[Ints | None]


class Meaning(TypedDict, total=False):
    """What the cells of a horizontal table mean; see `ReleasedTable.horizontal`."""

    domains: DomainsByColumn | None
    hierarchies: Mapping[str, Hierarchy] | None
    group: str | None
    channels: Mapping[str, Channel] | None
    missing: Missing
    missing_label: object


def check_frame(frame: pd.DataFrame, what: str = "The table") -> None:
    """Raise `TableError` unless the frame has rows, and columns with distinct text names."""
    if not isinstance(frame, pd.DataFrame | FrameLike):
        raise TableError(
            f"{what} must be a data frame (pandas, polars, pyarrow), got {type(frame).__name__}."
        )
    check_names(list(frame.columns), what)
    if frame.empty:
        raise TableError(f"{what} is empty ({len(frame)} rows, {frame.shape[1]} columns).")


def check_column(frame: pd.DataFrame, name: str, role: str) -> None:
    """Raise `TableError` unless the frame has the column."""
    if not isinstance(name, str) or name not in frame.columns:
        raise TableError(
            f"The {role} column {name!r} is not in the table. {nearest(name, frame.columns)}"
        )


def check_known(mapping: Mapping[str, object] | None, names: Iterable[str], argument: str) -> None:
    """Raise `TableError` if a mapping by column names a column that does not exist."""
    known = list(dict.fromkeys(names))
    if mapping is not None and not isinstance(mapping, Mapping):
        raise TableError(
            f"{argument} must be a mapping with column names as keys, got {type(mapping).__name__}."
        )
    for name in mapping or ():
        if name not in known:
            raise TableError(
                f"{argument} names {name!r}, which is not a column of the table. "
                f"{nearest(name, known)}"
            )


def multiplicities(frame: pd.DataFrame, name: str) -> Ints:
    """Read a column of positive integers; raise a `TableError` that names the row otherwise."""
    gaps(frame[name], where=f"Column {name!r}")  # pandas fails on a signalling NaN
    column = pd.to_numeric(frame[name], errors="coerce")
    numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    bad = ~((numbers >= 1) & (numbers == np.floor(numbers)) & (numbers < 2**53))
    if bad.any():
        row = int(bad.argmax())
        raise TableError(
            f"Column {name!r}, row {frame.index[row]}: {plain(frame[name].iloc[row])!r} is not "
            "a whole number of at least 1."
        )
    return numbers.astype(np.int64)


def policy_of(missing: Missing, name: str) -> str:
    """Return how missing cells of a column are treated."""
    policy = missing.get(name, "error") if isinstance(missing, Mapping) else missing
    one_of("missing", policy, MISSING_POLICIES)
    return policy


def horizontal_parts(
    frame: pd.DataFrame,
    *,
    sensitive: str | Iterable[str],
    domains: DomainsByColumn | None = None,
    hierarchies: Mapping[str, Hierarchy] | None = None,
    group: str | None = None,
    channels: Mapping[str, Channel] | None = None,
    missing: Missing = "error",
    missing_label: object = "missing",
    weights: str | Ints | None = None,
) -> Parts:
    """Build the fields of a horizontal `ReleasedTable`."""
    frame = pandas_frame(frame)
    check_frame(frame)
    numbers = None
    if isinstance(weights, np.ndarray):
        checked_weights(weights, len(frame), "horizontal")
        numbers = weights
    elif weights is not None:
        check_column(frame, weights, "weights")
        numbers = multiplicities(frame, weights)
        frame = frame.drop(columns=weights)
    n_rows = len(frame) if numbers is None else int(numbers.sum())
    secrets = sensitive_names(frame, sensitive)
    secret_name = JOIN.join(secrets)
    if group is not None:
        check_column(frame, group, "group")
        if group in secrets:
            raise TableError(f"Column {group!r} cannot be both the group and a sensitive column.")
    attributes = [c for c in frame.columns if c not in (*secrets, group)]
    if not attributes:
        raise TableError(
            f"The table has no column other than the sensitive column {secret_name!r}; it needs at "
            "least one by which a person could be recognised."
        )
    if secret_name in attributes:
        raise TableError(
            f"The sensitive columns {secrets} are joined into one named {secret_name!r}, but the "
            "table has a column of that name already; rename it."
        )
    known = [*attributes, *secrets, secret_name]
    check_known(domains, known, "domains")
    check_known(hierarchies, known, "hierarchies")
    check_known(channels, known, "channels")
    check_known(missing if isinstance(missing, Mapping) else None, known, "missing")

    def column(name: str) -> Column:
        return encode_column(
            frame[name],
            name=name,
            domain=(domains or {}).get(name),
            hierarchy=(hierarchies or {}).get(name),
            channel=(channels or {}).get(name),
            missing=policy_of(missing, name),
            missing_label=missing_label,
            n_rows=n_rows,
        )

    columns = at_once([*secrets, *attributes], column)
    parts = [columns.pop(name) for name in secrets]
    secret = parts[0]
    if len(parts) > 1:
        secret = joined_column(parts, secret_name, (domains or {}).get(secret_name))
    _check_secret(secret, secret_name)
    hidden = suppressed_rows(
        frame, columns, [name for name in columns if policy_of(missing, name) == "unknown"]
    )
    codes, labels = (
        derived_groups([c.codes for c in columns.values()], hidden)
        if group is None
        else given_groups(frame[group], group, hidden)
    )
    return {
        "scheme": "horizontal",
        "sensitive": secret_name,
        "columns": columns,
        "secret": secret,
        "group_codes": codes,
        "group_labels": labels,
        "group_name": group,
        "weights": numbers,
    }


def vertical_parts(
    qit: pd.DataFrame,
    st: pd.DataFrame,
    *,
    group: str,
    sensitive: str,
    domains: DomainsByColumn | None,
    count: str | None,
    missing: Missing,
    missing_label: object,
) -> Parts:
    """Build the fields of a vertical `ReleasedTable`, with both parts sorted by group."""
    qit, st = pandas_frame(qit), pandas_frame(st)
    check_frame(qit, "The quasi-identifier table")
    check_frame(st, "The sensitive table")
    check_column(qit, group, "group")
    check_column(st, group, "group")
    check_column(st, sensitive, "sensitive")
    if group == sensitive:
        raise TableError(f"Column {group!r} cannot be both the group and the sensitive column.")
    if sensitive in qit.columns:
        raise TableError(
            f"The quasi-identifier table contains the sensitive column {sensitive!r}, so it "
            "publishes the link that Anatomy hides. Drop it, or use ReleasedTable.horizontal."
        )
    if count is not None:
        st = _expand(st, group, sensitive, count, n_rows=len(qit))
    extra = [c for c in st.columns if c not in (group, sensitive)]
    if extra:
        raise TableError(
            f"The sensitive table has the unexpected columns {extra}: only {group!r} and "
            f"{sensitive!r} are used (name a column of multiplicities with count=)."
        )
    attributes = [c for c in qit.columns if c != group]
    if not attributes:
        raise TableError(f"The quasi-identifier table has no column besides the group {group!r}.")
    check_known(domains, [*attributes, sensitive], "domains")
    named = missing if isinstance(missing, Mapping) else None
    check_known(named, [*attributes, sensitive], "missing")
    item_groups, slot_groups, labels = matched_groups(qit[group], st[group], group)
    items, slots = (np.argsort(codes, kind="stable") for codes in (item_groups, slot_groups))

    def column(name: str) -> Column:
        policy = policy_of(missing, name)
        if policy == "unknown":
            raise TableError(
                f"Column {name!r}: missing='unknown' is not available in a vertical table, whose "
                "values are published in clear; use missing='category'."
            )
        encoded = encode_column(
            (st if name == sensitive else qit)[name],
            name=name,
            domain=(domains or {}).get(name),
            missing=policy,
            missing_label=missing_label,
        )
        return encoded.in_clear(VERTICAL)

    columns = at_once([sensitive, *attributes], column)
    secret = columns.pop(sensitive)
    _check_secret(secret, sensitive)
    return {
        "scheme": "vertical",
        "sensitive": sensitive,
        "columns": {name: one.take(items) for name, one in columns.items()},
        "secret": secret.take(slots),
        "group_codes": slot_groups[slots],
        "group_labels": labels,
        "group_name": group,
    }


# -- sensitive columns ------------------------------------------------------------------------


def sensitive_names(frame: pd.DataFrame, sensitive: str | Iterable[str]) -> list[str]:
    """Return the names of the sensitive columns, after checking that the frame has them."""
    try:
        names = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    except TypeError:
        raise TableError(f"sensitive={sensitive!r} must be the name of a column.") from None
    if not names:
        raise TableError("Name at least one sensitive column.")
    at_once(names, partial(check_column, frame, role="sensitive"))
    if len(set(names)) < len(names):
        raise TableError(f"A sensitive column is named twice: {names}.")
    return names


def joined_column(
    parts: Sequence[Column], name: str, domain: Domain | Iterable[Hashable] | None = None
) -> Column:
    """Join columns into one of tuples; its domain is `domain`, or the combinations that occur."""
    clear = [
        part.in_clear("only columns that show values in clear can be joined") for part in parts
    ]
    inverse, first, _ = distinct_rows([part.codes for part in clear])
    shown = [part.domain.decode(part.codes[first]).tolist() for part in clear]
    pairs = [tuple(plain(v) for v in pair) for pair in zip(*shown, strict=True)]
    if domain is None:
        known = Domain(name, sorted_values(pairs))
    else:
        known = Domain(name, domain.values if isinstance(domain, Domain) else domain)
    return Column(Evidence.exact(known), np.array([known.index(p) for p in pairs])[inverse])


def _check_secret(secret: Column, name: str) -> None:
    if len(secret.domain) < 2:
        raise TableError(
            f"The sensitive column {name!r} is constant ({secret.domain.values[0]!r}), so "
            f"everyone's value is known already. If other values are possible, list them in "
            f"domains={{{name!r}: [...]}}."
        )


def _expand(st: pd.DataFrame, group: str, sensitive: str, count: str, n_rows: int) -> pd.DataFrame:
    """Repeat the lines of a sensitive table with multiplicities, to one line per row."""
    check_column(st, count, "count")
    if count in (group, sensitive):
        raise TableError(
            f"Column {count!r} cannot hold the multiplicities, because it is the group or the "
            "sensitive column."
        )
    numbers = multiplicities(st, count)
    if numbers.sum() != n_rows:
        raise TableError(
            f"The multiplicities in {count!r} add up to {numbers.sum():,} rows, but the "
            f"quasi-identifier table has {n_rows:,}."
        )
    rows = np.repeat(np.arange(len(st)), numbers)
    return st[[group, sensitive]].iloc[rows].reset_index(drop=True)


# -------------------------------------------------------------------------------------------------
# Sources of any size: which engine reads them, and what the table is built from.

ENGINES = ("auto", "pandas", "duckdb", "dask")
LARGE_ROWS = 1_000_000
"""Parquet files with more rows are reduced to counts instead of kept row by row."""
LARGE_BYTES = 100_000_000
"""The same limit, in bytes, for delimited text, whose number of rows is unknown."""


@dataclass(frozen=True)
class Reading:
    """A source, its columns, and how it will be read."""

    source: TableFiles | dd.DataFrame
    names: tuple[str, ...]
    engine: str
    memory_limit: str | None = None
    temp_directory: str | os.PathLike[str] | None = None
    client: Client | None = None
    progressbar: bool = True

    def only(self, names: Iterable[str]) -> Reading:
        """Restrict reading to these columns."""
        kept, source = tuple(names), self.source
        if isinstance(source, TableFiles):
            source = replace(source, names=kept)
        return replace(self, source=source, names=kept)

    def without(self, drop: Iterable[str]) -> Reading:
        """Leave out columns; raise an error for a name that is not a column."""
        dropped = list(drop)

        def check(name: str) -> None:
            if name not in self.names:
                raise TableError(
                    f"The dropped column {name!r} is not in the table. {nearest(name, self.names)}"
                )

        at_once(dropped, check)
        return self.only(name for name in self.names if name not in dropped)

    def place(self, part: int, row: int) -> str:
        """Describe where a row is, for messages."""
        if isinstance(self.source, TableFiles):
            return self.source.place(part, row)
        return f"{row} of partition {part}"

    def count(self) -> Counted:
        """Return the distinct rows with their counts."""
        shown = self.progressbar
        if not isinstance(self.source, TableFiles):
            return count_partitions(self.source, self.names, client=self.client, progressbar=shown)
        if self.engine == "dask":
            return count_with_dask(self.source, client=self.client, progressbar=shown)
        if self.engine == "duckdb":
            return count_with_duckdb(
                self.source,
                memory_limit=self.memory_limit,
                temp_directory=self.temp_directory,
                progressbar=shown,
            )
        return count_frame(*all_rows(self.source))

    def parts(self, sensitive: str | Iterable[str], **meaning: Unpack[Meaning]) -> Parts:
        """Return the fields of the released table; errors name file and row."""
        weights = None
        if self.engine == "pandas":
            frame, first = all_rows(self.source)
            counted = Counted(frame, np.ones(len(frame), dtype=np.int64), first)
        else:
            counted = self.count()
            weights = counted.rows
        if meaning.get("missing") == "drop":
            counted = without_gaps(counted, str(self.source))
            meaning["missing"] = "error"
            weights = weights if weights is None else counted.rows

        def read(frame: pd.DataFrame) -> Parts:
            return horizontal_parts(frame, sensitive=sensitive, weights=weights, **meaning)

        try:
            return read(counted.frame)
        except AnonbayesError:
            read(counted.labelled(self.place))  # raises the same error, with file and row
            raise


def without_gaps(counted: Counted, where: str) -> Counted:
    """Leave out rows with an empty cell, and log how many and in which columns."""
    empty = counted.frame.isna() | (counted.frame == "")
    rows = pd.Series(counted.rows, index=counted.frame.index)
    gone = empty.any(axis=1)
    if not gone.any():
        return counted
    if gone.all():
        raise TableError(f"{where}: every row has an empty cell, so no row is left.")
    causes = ", ".join(
        f"{name} {int(rows[empty[name]].sum()):,}" for name in empty if empty[name].any()
    )
    _log.warning(
        "%s: %s of %s rows are left out because a cell is empty (%s).",
        where, f"{int(rows[gone].sum()):,}", f"{int(rows.sum()):,}", causes,
    )  # fmt: skip
    kept = (~gone).to_numpy()
    return Counted(counted.frame[kept], counted.rows[kept], counted.first[kept])


def open_source(
    source: Source | dd.DataFrame,
    *,
    engine: str = "auto",
    sep: str = ";",
    kind: str | None = None,
    encoding: str = "utf-8",
    decimal: str = ".",
    drop: Iterable[str] = (),
    client: Client | None = None,
    memory_limit: str | None = None,
    temp_directory: str | os.PathLike[str] | None = None,
    progressbar: bool = True,
) -> Reading:
    """Inspect a source and choose the engine that reads it."""
    one_of("engine", engine, ENGINES)
    if client is not None:
        check_client(client)
        if engine not in ("auto", "dask"):
            raise TableError(
                f"client= is a Dask cluster, which needs engine='dask', not {engine!r}."
            )
    if isinstance(source, pd.DataFrame):
        raise TableError("Use ReleasedTable.horizontal(frame, ...) for a data frame in memory.")
    if is_dask(source):
        if engine not in ("auto", "dask"):
            raise TableError(f"A Dask dataframe needs engine='dask', not {engine!r}.")
        check_names(list(source.columns), "The Dask dataframe")
        names = tuple(source.columns)
        return Reading(source, names, "dask", client=client, progressbar=progressbar).without(drop)
    files = find_files(source, sep=sep, kind=kind, encoding=encoding, decimal=decimal)
    if not files.is_plain:
        if engine not in ("auto", "pandas") or client is not None:
            raise TableError(
                f"{files} can only be read with engine='pandas'; for other engines save it as "
                "UTF-8 text with decimal points, or as parquet."
            )
        engine = "pandas"
    if engine == "auto":
        engine = "dask" if client is not None else "pandas"
        if client is None and is_large(files):
            engine = "duckdb" if importlib.util.find_spec("duckdb") else "pandas"
    reading = Reading(files, files.names, engine, memory_limit, temp_directory, client, progressbar)
    return reading.without(drop)


def is_dask(source: object) -> TypeGuard[dd.DataFrame]:
    """Whether a source is a Dask dataframe; does not import Dask."""
    return hasattr(source, "to_delayed") and hasattr(source, "npartitions")


def is_large(files: TableFiles) -> bool:
    """Whether a table should be reduced to counts rather than kept row by row."""
    if files.kind != "parquet":
        return files.size > LARGE_BYTES
    return sum(files.lengths) > LARGE_ROWS


def count_records(
    source: Source | dd.DataFrame | pd.DataFrame,
    columns: Iterable[str] | None = None,
    *,
    weights: str = "rows",
    engine: str = "auto",
    sep: str = ";",
    memory_limit: str | None = None,
    temp_directory: str | os.PathLike[str] | None = None,
    client: Client | None = None,
    progressbar: bool = True,
) -> pd.DataFrame:
    """Reduce a table of any size to its distinct records and the number of rows of each.

    Use it to assess a cleartext table of hundreds of millions of people with
    ``post.assess(records, weights="rows")``: risk measures only depend on these counts.

    Parameters
    ----------
    source : path, pattern, several of them, dask.dataframe.DataFrame or pandas.DataFrame
        Parquet or delimited files, as in `ReleasedTable.from_parquet`.
    columns : iterable of str, optional
        Columns to keep, by default all. Fewer columns give fewer distinct records.
    weights : str
        Name of the new column with the number of rows.
    engine, memory_limit, temp_directory, client, progressbar
        As in `ReleasedTable.from_parquet`.
    sep : str
        Separator of delimited files.

    Returns
    -------
    pandas.DataFrame
        One line per distinct record, in order of first appearance.

    Examples
    --------
    >>> import anonbayes as ab
    >>> people = pd.DataFrame({"sex": list("ffm"), "ill": ["flu", "flu", "cold"]})
    >>> ab.count_records(people).to_dict("list")
    {'sex': ['f', 'm'], 'ill': ['flu', 'cold'], 'rows': [2, 1]}
    """
    if not isinstance(source, str | os.PathLike):
        source = pandas_frame(source)
    if isinstance(source, pd.DataFrame):
        check_frame(source)
        kept = _chosen(columns, source.columns, weights)
        counted = count_frame(source[kept], place_key(0, 0, len(source)))
    else:
        reading = open_source(
            source,
            engine=engine,
            sep=sep,
            client=client,
            memory_limit=memory_limit,
            temp_directory=temp_directory,
            progressbar=progressbar,
        )
        counted = reading.only(_chosen(columns, reading.names, weights)).count()
    return counted.frame.assign(**{weights: counted.rows})


def _chosen(columns: Iterable[str] | None, known: Iterable[str], weights: str) -> list[str]:
    names = list(known)
    kept = names if columns is None else list(dict.fromkeys(columns))
    for name in kept:
        if name not in names:
            raise TableError(f"Column {name!r} is not in the table. {nearest(name, names)}")
    if weights in kept:
        raise TableError(
            f"The table already has a column {weights!r}; choose another name for weights=."
        )
    return kept
