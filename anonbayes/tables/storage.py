"""Released tables as xarray Datasets, to be kept next to the draws in one netCDF file."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy import sparse

from anonbayes.domains import Domain
from anonbayes.errors import TableError
from anonbayes.hierarchies import Hierarchy
from anonbayes.tables.evidence import Column, Evidence
from anonbayes.tables.table import ReleasedTable

__all__ = ["table_from_dataset", "table_to_dataset"]
PARTS = ("indptr", "indices", "data")


def table_to_dataset(table: ReleasedTable) -> xr.Dataset:
    """Store a table without loss: codes and evidence as arrays, labels as JSON.

    Examples
    --------
    >>> import anonbayes as ab
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"Nat": ["{M, J}", "J"], "Dis": ["Heart", "Flu"]})
    >>> table = ab.ReleasedTable.horizontal(frame, "Dis")
    >>> table_from_dataset(table_to_dataset(table)) == table
    True
    """
    columns = [*table.columns.values(), table.secret]
    data: dict[str, Any] = {"group_codes": ("row", table.group_codes)}
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
    """Read a table back; see `table_to_dataset`."""
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


def _encode(value: Any) -> Any:
    """JSON form of a value or label; containers are tagged so that they come back as they were."""
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
        "text, numbers, tuples, sets, intervals, dates or timestamps as values."
    )


def _decode(value: Any) -> Any:
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
