"""Which engine reads a source of any size, and the table that it becomes."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from anonbayes.cluster import check_client
from anonbayes.errors import AnonbayesError, TableError, nearest, one_of
from anonbayes.io.text import check_names
from anonbayes.tables.build import check_frame, horizontal_parts
from anonbayes.tables.counting import count_partitions, count_with_dask, count_with_duckdb
from anonbayes.tables.sources import (
    Counted,
    Source,
    TableFiles,
    all_rows,
    count_frame,
    find_files,
    place_key,
)

__all__ = ["ENGINES", "Reading", "count_records", "is_large", "open_source"]

ENGINES = ("auto", "pandas", "duckdb", "dask")
LARGE_ROWS = 1_000_000
"""Parquet files of more rows are counted instead of being kept row by row."""
LARGE_BYTES = 100_000_000
"""The same for delimited text, whose rows are not known in advance."""


@dataclass(frozen=True)
class Reading:
    """A source that was looked at, and how it will be read.

    Parameters
    ----------
    source : TableFiles or dask.dataframe.DataFrame
        Where the rows are.
    names : tuple of str
        Columns to read.
    engine : {"pandas", "duckdb", "dask"}
        What reads them.
    memory_limit, temp_directory, client, progressbar
        See `ReleasedTable.from_parquet`.
    """

    source: Any
    names: tuple[str, ...]
    engine: str
    memory_limit: str | None = None
    temp_directory: str | Path | None = None
    client: Any = None
    progressbar: bool = True

    def only(self, names: Iterable[str], *, presence: Iterable[str] = ()) -> Reading:
        """Read these columns only, and of those in `presence` only whether a cell is empty."""
        kept, source = tuple(names), self.source
        if isinstance(source, TableFiles):
            source = replace(source, names=kept, presence=frozenset(presence))
        return replace(self, source=source, names=kept)

    def without(self, drop: Iterable[str]) -> Reading:
        """Leave columns out; a name that is no column is an error."""
        dropped = list(drop)
        for name in dropped:
            if name not in self.names:
                raise TableError(
                    f"The dropped column {name!r} is not in the table. {nearest(name, self.names)}"
                )
        return self.only(name for name in self.names if name not in dropped)

    def place(self, part: int, row: int) -> str:
        """Name a row in a message."""
        if isinstance(self.source, TableFiles):
            return self.source.place(part, row)
        return f"{row} of partition {part}"

    def count(self) -> Counted:
        """Distinct rows."""
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

    def parts(self, sensitive: str | Iterable[str], **how: Any) -> dict[str, Any]:
        """Fields of the released table; an error names file and row.

        Parameters
        ----------
        sensitive, **how
            As in `ReleasedTable.horizontal`.
        """
        weights = None
        if self.engine == "pandas":
            frame, first = all_rows(self.source)
            counted = Counted(frame, np.ones(len(frame), dtype=np.int64), first)
        else:
            counted = self.count()
            weights = counted.rows
        settings = _SETTINGS | how | {"sensitive": sensitive, "weights": weights}
        try:
            return horizontal_parts(counted.frame, **settings)
        except AnonbayesError:
            horizontal_parts(counted.labelled(self.place), **settings)  # the same, with its place
            raise


_SETTINGS: dict[str, Any] = {
    "domains": None,
    "hierarchies": None,
    "group": None,
    "channels": None,
    "missing": "error",
    "missing_label": "missing",
}


def open_source(
    source: Any,
    *,
    engine: str = "auto",
    sep: str = ";",
    kind: str | None = None,
    drop: Iterable[str] = (),
    client: Any = None,
    **how: Any,
) -> Reading:
    """Look at a source, and choose the engine.

    Parameters
    ----------
    source : path, pattern, several of them, or dask.dataframe.DataFrame
        Where the rows are.
    engine, client, **how
        See `ReleasedTable.from_parquet`.
    sep : str
        Separator of delimited text.
    kind : {"parquet", "csv"}, optional
        What the files must be.
    drop : iterable of str
        Columns to leave out.
    """
    one_of("engine", engine, ENGINES)
    if client is not None:
        check_client(client)
        if engine not in ("auto", "dask"):
            raise TableError(f"client= is a Dask cluster; engine={engine!r} does not use it.")
    if isinstance(source, pd.DataFrame):
        raise TableError("A data frame in memory is read by ReleasedTable.horizontal(frame, ...).")
    if hasattr(source, "to_delayed") and hasattr(source, "npartitions"):
        if engine not in ("auto", "dask"):
            raise TableError(f"A Dask dataframe is read by engine='dask', not {engine!r}.")
        check_names(list(source.columns), "The Dask dataframe")
        names = tuple(source.columns)
        return Reading(source, names, "dask", client=client, **how).without(drop)
    files = find_files(source, sep=sep, kind=kind)
    if engine == "auto":
        engine = "dask" if client is not None else "pandas"
        if client is None and is_large(files):
            engine = "duckdb" if importlib.util.find_spec("duckdb") else "pandas"
    return Reading(files, files.names, engine, client=client, **how).without(drop)


def is_large(files: TableFiles) -> bool:
    """Whether a table is better counted than kept row by row."""
    if files.kind == "csv":
        return files.size > LARGE_BYTES
    return sum(files.lengths) > LARGE_ROWS


def count_records(
    source: Source | Any,
    columns: Iterable[str] | None = None,
    *,
    weights: str = "rows",
    engine: str = "auto",
    sep: str = ";",
    memory_limit: str | None = None,
    temp_directory: str | Path | None = None,
    client: Any = None,
    progressbar: bool = True,
) -> pd.DataFrame:
    """Distinct records of a table of any size, and how many rows show each.

    A cleartext of hundreds of millions of people, reduced to what tells them apart, is assessed by
    ``post.assess(records, weights="rows")``: threats depend on nothing else.

    Parameters
    ----------
    source : path, pattern, several of them, dask.dataframe.DataFrame or pandas.DataFrame
        Parquet or delimited files, as in `ReleasedTable.from_parquet`.
    columns : iterable of str, optional
        Columns that count, all by default. The fewer, the fewer distinct records.
    weights : str
        Name of the column with the number of rows.
    engine, memory_limit, temp_directory, client, progressbar
        As in `ReleasedTable.from_parquet`.
    sep : str
        Separator of delimited files.

    Returns
    -------
    pandas.DataFrame
        In order of first appearance.

    Examples
    --------
    >>> import anonbayes as ab
    >>> people = pd.DataFrame({"sex": list("ffm"), "ill": ["flu", "flu", "cold"]})
    >>> ab.count_records(people).to_dict("list")
    {'sex': ['f', 'm'], 'ill': ['flu', 'cold'], 'rows': [2, 1]}
    """
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
        raise TableError(f"The table has a column {weights!r}; choose another name for weights=.")
    return kept
