"""Reading what anonymization tools write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from anonbayes.domains import Domain
from anonbayes.errors import TableError
from anonbayes.hierarchies import Hierarchy
from anonbayes.release.build import check_column
from anonbayes.release.table import ReleasedTable
from anonbayes.textfiles import read_csv_text

__all__ = ["read_anatomy", "read_arx", "read_hierarchies"]

COUNT_NAMES = ("count", "Count", "freq", "n")


def read_arx(
    path: str | Path,
    *,
    sensitive: str | Iterable[str],
    hierarchies: str | Path | Mapping[str, Hierarchy | str | Path] | None = None,
    domains: Mapping[str, Domain | Iterable[Any]] | None = None,
    sep: str = ";",
    drop: Iterable[str] = (),
    missing: str | Mapping[str, str] = "error",
) -> ReleasedTable:
    """Read a table as ARX exports it.

    Rows with ``*`` in every nonsensitive column are ARX's suppressed rows: they keep their
    sensitive value, count as rows, and belong to no group.

    Parameters
    ----------
    path : path
        Delimited UTF-8 file with one header line.
    sensitive : str or several str
        Sensitive column.
    hierarchies : path or mapping, optional
        Directory of ARX hierarchy files, or hierarchies (or their files) by column. In a directory
        the file of a column is the one whose name ends in ``<column>.csv``.
    domains : mapping, optional
        Domain, or list of values, by column.
    sep : str
        Separator of the table and of the hierarchy files.
    drop : iterable of str
        Columns to leave out, such as insensitive ones that were not part of the anonymization.
    missing : str or mapping
        What an empty cell means; see `ReleasedTable.horizontal`.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "released.csv"
    >>> _ = file.write_text("sex;zip;illness\\nf;1;flu\\nf;1;cold\\n*;*;flu\\n")
    >>> read_arx(file, sensitive="illness", domains={"sex": ["f", "m"], "zip": [1, 2]})
    ReleasedTable(horizontal, 3 rows, 1 groups + 1 suppressed rows, k=2, l=2, ...)
    """
    frame = _without(read_csv_text(path, sep=sep), drop, path).replace("", None)
    names = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    table = ReleasedTable.horizontal(
        frame,
        names[0] if len(names) == 1 else names,
        domains=domains,
        hierarchies=read_hierarchies(hierarchies, frame.columns, sep=sep),
        missing=missing,
    )
    return set_apart(table)


def set_apart(table: ReleasedTable) -> ReleasedTable:
    """Take the rows that show nothing (every cell the whole domain) out of the groups."""
    hidden = np.ones(table.n_rows, dtype=bool)
    for column in table.columns.values():
        whole = column.evidence.sizes == len(column.domain)
        hidden &= whole[column.codes]
    if not hidden.any() or table.group_name is not None:
        return table
    codes, distinct = pd.factorize(np.where(hidden, -1, table.group_codes))
    gap = int(np.flatnonzero(distinct == -1)[0])
    codes = np.where(hidden, -1, codes - (codes > gap)).astype(np.int32)
    return replace(
        table,
        group_codes=codes,
        group_labels=pd.RangeIndex(len(distinct) - 1, name="group"),
    )


def read_anatomy(
    qit: str | Path,
    st: str | Path,
    *,
    sensitive: str,
    group: str,
    domains: Mapping[str, Domain | Iterable[Any]] | None = None,
    count: str | None = None,
    sep: str = ";",
    missing: str | Mapping[str, str] = "error",
) -> ReleasedTable:
    """Read the two tables that Anatomy publishes.

    Parameters
    ----------
    qit, st : path
        Quasi-identifier table and sensitive table, UTF-8 with a header line. The sensitive table
        has one line per row, or one per group and value with a column of multiplicities.
    sensitive, group : str
        Column names.
    domains : mapping, optional
        Domain, or list of values, by column.
    count : str, optional
        Column of multiplicities; a third column named count, freq or n is taken for it.
    sep, missing : str
        As in `read_arx`.
    """
    items = read_csv_text(qit, sep=sep).replace("", None)
    slots = read_csv_text(st, sep=sep).replace("", None)
    check_column(slots, group, "group")
    check_column(slots, sensitive, "sensitive")
    others = [c for c in slots.columns if c not in (group, sensitive)]
    if count is None and len(others) == 1 and others[0] in COUNT_NAMES:
        count = others[0]
    for frame in (items, slots):
        if group in frame.columns:
            frame[group] = _numbers_if_all(frame[group])
    return ReleasedTable.vertical(
        items,
        slots,
        group=group,
        sensitive=sensitive,
        domains=domains,
        count=count,
        missing=missing,
    )


def read_hierarchies(
    source: str | Path | Mapping[str, Hierarchy | str | Path] | None,
    columns: Iterable[str],
    *,
    sep: str = ";",
) -> dict[str, Hierarchy] | None:
    """Hierarchies by column from a directory of ARX files or a mapping.

    In a directory, the file of a column is the one whose name, without ``.csv``, is the column or
    ends in it after a separator (``adult_hierarchy_age.csv``).
    """
    if source is None:
        return None
    if isinstance(source, Mapping):
        return {
            name: h if isinstance(h, Hierarchy) else Hierarchy.from_csv(h, sep=sep)
            for name, h in source.items()
        }
    folder = Path(source)
    if not folder.is_dir():
        raise TableError(f"There is no directory of hierarchies {str(folder)!r}.")
    found: dict[str, Hierarchy] = {}
    for column in columns:
        files = [
            f
            for f in sorted(folder.glob("*.csv"))
            if f.stem == column or f.stem.endswith(("_" + column, "-" + column, " " + column))
        ]
        if len(files) > 1:
            exact = [f for f in files if f.stem == column]
            if len(exact) != 1:
                names = ", ".join(f.name for f in files)
                raise TableError(
                    f"Several hierarchy files fit column {column!r}: {names}. "
                    "Pass a mapping {column: file} instead of the directory."
                )
            files = exact
        if files:
            found[column] = Hierarchy.from_csv(files[0], sep=sep)
    if not found:
        raise TableError(f"No hierarchy file in {str(folder)!r} fits a column of the table.")
    return found


def _without(frame: pd.DataFrame, drop: Iterable[str], path: str | Path) -> pd.DataFrame:
    names = list(drop)
    for name in names:
        check_column(frame, name, "dropped")
    return frame.drop(columns=names)


def _numbers_if_all(series: pd.Series) -> pd.Series:
    numbers = pd.to_numeric(series, errors="coerce")
    return series if numbers.isna().any() else numbers
