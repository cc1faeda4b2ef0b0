"""Digests of Datasets, by which a reader notices that a file is not what was written.

HDF5 finds damage in its own structures and in compressed chunks; a flipped bit in plain numbers it
hands on. A digest of the content finds that too, and does not depend on how it is stored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

__all__ = ["checksum", "checksum_of_attributes"]


def checksum(dataset: xr.Dataset) -> str:
    """Return a digest of names, dimensions, values and attributes, however they are stored.

    Examples
    --------
    >>> one = xr.Dataset({"x": ("draw", [1.0, 2.0])})
    >>> checksum(one) == checksum(one.copy(deep=True)), checksum(one) == checksum(one + 1e-9)
    (True, False)
    """
    digest = hashlib.sha256(checksum_of_attributes(dataset.attrs).encode())
    for name in sorted(dataset.variables, key=str):
        variable = dataset.variables[name]
        digest.update(json.dumps([str(name), *map(str, variable.dims), *variable.shape]).encode())
        digest.update(_content(variable.to_numpy()))
    return digest.hexdigest()


def checksum_of_attributes(attributes: Mapping[Any, Any]) -> str:
    """Return a digest of attributes; numbers count by their value, whatever their type."""
    plain = {str(name): np.asarray(value).tolist() for name, value in attributes.items()}
    return hashlib.sha256(json.dumps(plain, sort_keys=True, default=str).encode()).hexdigest()


def _content(values: npt.NDArray[Any]) -> Any:
    """Bytes of an array, the same on every machine; numbers are not copied."""
    if values.dtype.kind in "OSUT":  # text comes back from a file in another type
        texts = [v.decode() if isinstance(v, bytes) else str(v) for v in values.ravel().tolist()]
        return json.dumps(texts).encode()
    if values.dtype.kind in "mM":
        values = values.astype(f"{values.dtype.kind}8[ns]").view(np.int64)
    plain = np.ascontiguousarray(values).reshape(-1)
    return plain.astype(plain.dtype.newbyteorder("<"), copy=False).view(np.uint8)
