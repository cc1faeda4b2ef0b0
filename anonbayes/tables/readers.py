"""Read released tables from files, and store them beside the draws."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from anonbayes.domains import Domain, DomainsByColumn, numbers_of
from anonbayes.errors import AnonbayesError, TableError, one_of
from anonbayes.hierarchies import Hierarchy
from anonbayes.tables.build import Missing, check_column, open_source
from anonbayes.tables.counting import ColumnFrame, open_columns
from anonbayes.tables.evidence import Column, Evidence
from anonbayes.tables.sources import Source, TextFormat
from anonbayes.tables.table import ReleasedTable

if TYPE_CHECKING:
    import xarray as xr
    from distributed import Client


COUNT_NAMES = ("count", "freq", "n")


def read_arx(
    path: Source,
    *,
    sensitive: str | Iterable[str],
    hierarchies: str | Path | Mapping[str, Hierarchy | str | Path] | None = None,
    domains: DomainsByColumn | None = None,
    sep: str = ";",
    encoding: str = "utf-8",
    decimal: str = ".",
    drop: Iterable[str] = (),
    missing: Missing = "error",
    missing_label: object = "missing",
    engine: str = "auto",
    memory_limit: str | None = None,
    temp_directory: str | Path | None = None,
    client: Client | None = None,
    progressbar: bool = True,
) -> ReleasedTable:
    r"""Read a table in the format that ARX exports.

    Rows with ``*`` in every nonsensitive column are ARX's suppressed rows: they keep their
    sensitive value and count as rows, but belong to no group.

    Parameters
    ----------
    path : path, pattern, or several of them
        Delimited UTF-8 files with one header line, or parquet files, of any size.
    sensitive : str or several str
        Sensitive column; several are joined into one with tuples as values.
    hierarchies : path or mapping, optional
        Directory of ARX hierarchy files, or a mapping of columns to hierarchies or their files. In
        a directory, the file of a column is the one whose name ends in ``<column>.csv``.
    domains : mapping, optional
        Domain, or list of values, by column.
    sep : str
        Separator of the table and of the hierarchy files: a character, ``"tab"``, or ``"auto"`` to
        detect it from the first line of each file.
    encoding : str
        Encoding of delimited text, such as ``"cp1252"``.
    decimal : {".", ","}
        Decimal mark of numbers in delimited text.
    drop : iterable of str
        Columns to leave out, such as insensitive ones that the anonymization ignored.
    missing, missing_label : optional
        How to treat empty cells; see `ReleasedTable.horizontal`. With ``"drop"``, rows with an
        empty cell are left out.
    engine, memory_limit, temp_directory, client, progressbar : optional
        How large files are read; see `ReleasedTable.from_parquet`. By default, delimited files of
        more than 100 MB are counted by DuckDB.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "released.csv"
    >>> _ = file.write_text("sex;zip;illness\nf;1;flu\nf;1;cold\n*;*;flu\n")
    >>> read_arx(file, sensitive="illness", domains={"sex": ["f", "m"], "zip": [1, 2]})
    ReleasedTable(horizontal, 3 rows, 1 group + 1 suppressed row, k=2, l=2, ...)
    """
    reading = open_source(
        path,
        engine=engine,
        sep=sep,
        encoding=encoding,
        decimal=decimal,
        drop=drop,
        client=client,
        memory_limit=memory_limit,
        temp_directory=temp_directory,
        progressbar=progressbar,
    )
    return ReleasedTable.from_parts(
        reading.parts(
            sensitive,
            domains=domains,
            hierarchies=read_hierarchies(hierarchies, reading.names, sep=sep, encoding=encoding),
            missing=missing,
            missing_label=missing_label,
        )
    )


def set_apart(table: ReleasedTable) -> ReleasedTable:
    """Take rows that show only ``*`` out of their groups and mark them as suppressed.

    The constructors do so themselves; this is for tables assembled from columns.
    """
    hidden = np.ones(table.n_lines, dtype=bool)
    for column in table.columns.values():
        # A domain with one value is shown even in suppressed rows: there is nothing to hide.
        hidden &= column.evidence.starred[column.codes] | (len(column.domain) == 1)
    nothing_to_hide = all(len(column.domain) == 1 for column in table.columns.values())
    if nothing_to_hide or not hidden.any() or table.group_name is not None:
        return table
    codes = np.full(table.n_lines, -1, dtype=np.int32)
    codes[~hidden], kept = pd.factorize(table.group_codes[~hidden])
    return replace(table, group_codes=codes, group_labels=pd.RangeIndex(len(kept), name="group"))


def read_anatomy(
    qit: Source,
    st: Source,
    *,
    sensitive: str,
    group: str,
    domains: DomainsByColumn | None = None,
    count: str | None = None,
    sep: str = ";",
    encoding: str = "utf-8",
    decimal: str = ".",
    drop: Iterable[str] = (),
    missing: Missing = "error",
    missing_label: object = "missing",
    engine: str = "auto",
    memory_limit: str | None = None,
    temp_directory: str | Path | None = None,
    progressbar: bool = True,
) -> ReleasedTable:
    r"""Read the two tables that Anatomy publishes.

    Parameters
    ----------
    qit, st : path, pattern, or several of them
        Quasi-identifier table and sensitive table, as UTF-8 text with a header line or as parquet.
        The sensitive table has one line per row, or one line per group and value with a column of
        multiplicities.
    sensitive, group : str
        Names of the sensitive column and of the group column.
    domains : mapping, optional
        Domain, or list of values, by column.
    count : str, optional
        Column of multiplicities in `st`; by default, a third column named count, freq or n.
    sep, encoding, decimal, drop, missing, missing_label : optional
        As in `read_arx`, except that `missing` cannot be ``"unknown"``; `drop` applies to `qit`.
    engine, memory_limit, temp_directory, progressbar : optional
        As in `read_arx`, but without Dask. With DuckDB, large files are read one column at a time;
        all rows are kept, because each is an item of its own.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "qit.csv").write_text("sex;group\nf;0\nm;0\nf;0\n")
    >>> _ = (folder / "st.csv").write_text("group;illness;count\n0;flu;2\n0;cold;1\n")
    >>> read_anatomy(folder / "qit.csv", folder / "st.csv", sensitive="illness", group="group")
    ReleasedTable(vertical, 3 rows, 1 group, k=3, l=2, sensitive='illness', attributes=['sex'])
    """
    one_of("engine", engine, ("auto", "pandas", "duckdb"))
    text: TextFormat = {"sep": sep, "encoding": encoding, "decimal": decimal}
    both = [
        open_source(qit, engine=engine, drop=drop, **text),
        open_source(st, engine=engine, **text),
    ]
    how = (memory_limit, temp_directory)
    with (
        open_columns(both[0].source, both[0].engine, *how) as items,
        open_columns(both[1].source, both[1].engine, *how) as columns,
    ):
        slots = columns.to_frame() if isinstance(columns, ColumnFrame) else columns
        try:
            for frame in (items, slots):
                check_column(frame, group, "group")
            check_column(slots, sensitive, "sensitive")
            others = [c for c in slots.columns if c not in (group, sensitive)]
            if count is None and len(others) == 1 and others[0].lower() in COUNT_NAMES:
                count = others[0]
            texts = pd.unique(pd.concat([items[group], slots[group]])).tolist()
            if numbers := numbers_of(texts):  # sort groups as numbers
                for frame in (items, slots):
                    frame[group] = frame[group].map(dict(zip(texts, numbers, strict=True)))
            return ReleasedTable.vertical(
                items,
                slots,
                group=group,
                sensitive=sensitive,
                domains=domains,
                count=count,
                missing=missing,
                missing_label=missing_label,
            )
        except AnonbayesError as error:
            named = " and ".join(str(part.source) for part in both)
            raise type(error)(f"{error} (In {named}; rows are numbered from 0.)") from None


def read_hierarchies(
    source: str | Path | Mapping[str, Hierarchy | str | Path] | None,
    columns: Iterable[str],
    *,
    sep: str = ";",
    encoding: str = "utf-8",
) -> dict[str, Hierarchy] | None:
    """Read hierarchies by column from a mapping, or from a directory of ARX files.

    In a directory, the file of a column is the one whose name, without ``.csv``, is the column's
    or ends in it after a separator (``adult_hierarchy_age.csv``).
    """
    if source is None:
        return None
    if isinstance(source, Mapping):
        return {
            name: h
            if isinstance(h, Hierarchy)
            else Hierarchy.from_csv(h, sep=sep, encoding=encoding)
            for name, h in source.items()
        }
    if not isinstance(source, str | os.PathLike):
        raise TableError(
            f"hierarchies={source!r} must be a directory or a mapping with a hierarchy per column."
        )
    folder = Path(source)
    if not _is_folder(folder):
        raise TableError(f"The directory of hierarchies {str(folder)!r} does not exist.")
    names = list(columns)
    files: dict[str, list[Path]] = {}
    for file in sorted(folder.glob("*.csv")):
        stem = "_" + file.stem
        fits = [c for c in names if stem.endswith(("_" + c, "-" + c, " " + c))]
        if fits:  # of columns "class" and "salary-class", the longer name wins
            files.setdefault(max(fits, key=len), []).append(file)
    for column, several in files.items():
        exact = [f for f in several if f.stem == column]
        if len(several) > 1 and len(exact) != 1:
            listed = ", ".join(f.name for f in several)
            raise TableError(
                f"Several hierarchy files match column {column!r}: {listed}. "
                "Pass a mapping {column: file} instead of the directory."
            )
        files[column] = exact or several
    if not files:
        raise TableError(f"No hierarchy file in {str(folder)!r} matches a column of the table.")
    return {
        column: Hierarchy.from_csv(file, sep=sep, encoding=encoding)
        for column, (file, *_) in files.items()
    }


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except (OSError, ValueError):  # not a possible file name
        return False


# -------------------------------------------------------------------------------------------------
# Released tables as xarray Datasets, stored next to the draws in one netCDF file.

PARTS = ("indptr", "indices", "data")


def table_to_dataset(table: ReleasedTable) -> xr.Dataset:
    """Convert a table without loss: codes and evidence as arrays, labels as JSON."""
    import xarray as xr

    columns = [*table.columns.values(), table.secret]
    data: dict[str, tuple[str, npt.NDArray[np.number]]] = {}
    data["group_codes"] = ("row", table.group_codes)
    if table.weights is not None:
        data["weights"] = ("row", table.weights)
    described = []
    for i, column in enumerate(columns):
        matrix = column.evidence.matrix
        data[f"codes_{i}"] = ("row", column.codes)
        for part in PARTS:
            data[f"{part}_{i}"] = (f"{part}_{i}", getattr(matrix, part))
        described.append(
            {
                "name": column.domain.name,
                "values": [_encode(v) for v in column.domain.values],
                "labels": [_encode(v) for v in column.evidence.labels],
                "hierarchy": _encode_hierarchy(column.domain.hierarchy),
            }
        )
    about = {
        "scheme": table.scheme,
        "columns": described,
        "group_labels": [_encode(v) for v in table.group_labels.tolist()],
        "group_index": table.group_labels.name,
        "group_name": table.group_name,
        "fingerprint": table.fingerprint,
    }
    return xr.Dataset(data, attrs={"released_table": json.dumps(about)})


def table_from_dataset(dataset: xr.Dataset) -> ReleasedTable:
    """Restore a table from the result of `table_to_dataset`."""
    about = json.loads(dataset.attrs["released_table"])
    columns = []
    for i, described in enumerate(about["columns"]):
        domain = Domain(
            described["name"],
            [_decode(v) for v in described["values"]],
            _decode_hierarchy(described["hierarchy"]),
        )
        indptr, indices, values = (dataset[f"{part}_{i}"].to_numpy() for part in PARTS)
        matrix = sparse.csr_array(
            (values, indices, indptr), shape=(len(described["labels"]), len(domain))
        )
        evidence = Evidence(domain, tuple(_decode(v) for v in described["labels"]), matrix)
        columns.append(Column(evidence, dataset[f"codes_{i}"].to_numpy().copy()))
    table = ReleasedTable(
        scheme=about["scheme"],
        sensitive=columns[-1].domain.name,
        columns={c.domain.name: c for c in columns[:-1]},
        secret=columns[-1],
        group_codes=dataset["group_codes"].to_numpy().astype(np.int32),
        group_labels=pd.Index(
            [_decode(v) for v in about["group_labels"]], name=about["group_index"]
        ),
        group_name=about["group_name"],
        weights=dataset["weights"].to_numpy().copy() if "weights" in dataset else None,
    )
    if table.fingerprint != about["fingerprint"]:
        raise TableError("its fingerprint does not match")
    return table


def _encode(value: object) -> Any:
    """Convert a value or label for JSON; containers are tagged so that they can be restored."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    if isinstance(value, tuple):
        return {"tuple": [_encode(v) for v in value]}
    if isinstance(value, frozenset | set | list):
        return {"set": [_encode(v) for v in value]}
    if isinstance(value, pd.Interval):
        return {"interval": [_encode(value.left), _encode(value.right), value.closed]}
    if isinstance(value, pd.Timestamp):
        return {"timestamp": value.isoformat()}
    if type(value) is date:
        return {"date": value.isoformat()}
    raise TableError(
        f"The value {value!r} of type {type(value).__name__} cannot be stored in a file; use "
        "texts, numbers, tuples, sets, intervals, dates or timestamps as values."
    )


def _decode(value: object) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "tuple":
        return tuple(_decode(v) for v in content)
    if kind == "set":
        return frozenset(_decode(v) for v in content)
    if kind == "interval":
        return pd.Interval(_decode(content[0]), _decode(content[1]), closed=content[2])
    if kind == "timestamp":
        return pd.Timestamp(content)
    if kind == "date":
        return date.fromisoformat(content)
    raise TableError(f"it holds a value of the unknown kind {kind!r}")


def _encode_hierarchy(hierarchy: Hierarchy | None) -> Any:
    if hierarchy is None:
        return None
    return {"leaves": [_encode(v) for v in hierarchy.leaves], "levels": hierarchy.levels}


def _decode_hierarchy(stored: Any) -> Hierarchy | None:
    if stored is None:
        return None
    return Hierarchy([_decode(v) for v in stored["leaves"]], stored["levels"])
