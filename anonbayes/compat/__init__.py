"""The only place that deals with two generations of PyMC and ArviZ, and with netCDF."""

from __future__ import annotations

import hashlib
import io
import os
from collections.abc import Iterable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from anonbayes.errors import AnonbayesError, FileError, nearest
from anonbayes.io.files import new_file

# -------------------------------------------------------------------------------------------------
# Digests at the end of files, by which readers detect damage before using the content.
#
# HDF5 returns flipped bits in numbers without an error, and some flipped bits in its structures
# make it loop forever. So a file is checked as a whole before HDF5 reads it. Readers of HDF5 ignore
# what follows the end noted in the file, and a program that changes the file removes it.

MARK = b"\nanonbayes sha256 "
LENGTH = len(MARK) + 64


def check_seal(path: Path) -> None:
    """Raise `FileError` if a sealed file has changed; files without a seal are accepted."""
    content = memoryview(path.read_bytes())
    body, end = content[:-LENGTH], bytes(content[-LENGTH:])
    if end.startswith(MARK) and _digest(body) != end[len(MARK) :]:
        raise FileError(
            f"path={str(path)!r} is damaged: its content has changed. Restore it from a backup, or "
            "make it again."
        )


def _digest(content: memoryview) -> bytes:
    return hashlib.sha256(content).hexdigest().encode()


# -------------------------------------------------------------------------------------------------
# Where two generations of ArviZ and PyMC differ, and nowhere else.
#
# ArviZ 0.x keeps draws in an `InferenceData`, ArviZ 1.x in an `xarray.DataTree`. Both are named
# groups of Datasets with a few attributes on top, and that is the form everything here goes
# through: `groups` takes either apart, `make_idata` builds the one that the installed ArviZ uses,
# and the netCDF files are written by xarray itself, so that a file from one generation opens under
# the other. Step methods of PyMC 5 and 6 meet in `compat.chain_step`.

SAMPLE_DIMS = ("chain", "draw")
DIVISION_SLASH = "\u2215"
REMAKE = "Restore it from a backup, or make it again."
OWN_FILTERS = frozenset({1, 2, 3, 4, 5, 6, 32000})
"""Filters of HDF5 itself, and h5py's LZF; for any other it loads a library of that name."""


def has_inference_data() -> bool:
    """Return whether the installed ArviZ is of the 0.x generation, with `InferenceData`."""
    return int(metadata.version("arviz").split(".")[0]) < 1


def is_arviz_object(data: object) -> bool:
    """Return whether `data` is a container of groups: an `InferenceData` or a `DataTree`."""
    return isinstance(data, xr.DataTree) or callable(getattr(data, "groups", None))


def groups(data: Any) -> dict[str, xr.Dataset]:
    """Return the groups of an ArviZ object, or of anything that represents a group, by name.

    Arrays (chain, draw, ...), DataArrays, Datasets and mappings of variables become the group
    ``posterior``; a mapping of Datasets is taken as groups.
    """
    if isinstance(data, xr.DataTree):
        if data.has_data and not data.children:  # a single group, e.g. ``idata["posterior"]``
            return {data.name or "posterior": with_slashes(data.to_dataset())}
        return {name: with_slashes(node.to_dataset()) for name, node in data.children.items()}
    if is_arviz_object(data):
        return {name: data[name] for name in data.groups()}
    if isinstance(data, Mapping) and data and all(isinstance(v, xr.Dataset) for v in data.values()):
        return dict(data)
    return {"posterior": as_dataset(data)}


def group(data: Any, name: str) -> xr.Dataset | None:
    """Return one group of an ArviZ object as a Dataset, or None where there is none."""
    return groups(data).get(name)


def posterior_dataset(data: Any, *, group: str = "posterior") -> xr.Dataset:
    """Return the posterior (or another group) of any ArviZ object as a Dataset."""
    known = groups(data)
    if group not in known:
        raise AnonbayesError(
            f"group={group!r} is not in the data. {nearest(group, known)} "
            "Pass an object with draws, or the name of one of its groups."
        )
    return known[group]


def as_dataset(data: Any) -> xr.Dataset:
    """Return arrays, DataArrays, or mappings of them as a Dataset with dims chain and draw.

    A plain array is named ``x``, its further dimensions ``x_dim_0`` and so on; a one-dimensional
    array is a single chain.
    """
    if isinstance(data, xr.Dataset):
        return data
    if isinstance(data, xr.DataArray):
        return data.to_dataset(name=data.name if data.name is not None else "x")
    if isinstance(data, Mapping):
        return xr.Dataset({str(k): _as_dataarray(v, str(k)) for k, v in data.items()})
    return xr.Dataset({"x": _as_dataarray(data, "x")})


def _as_dataarray(
    values: Any,
    name: str,
    dims: Sequence[str] | None = None,
    coords: Mapping[str, Any] | None = None,
) -> xr.DataArray:
    if isinstance(values, xr.DataArray):
        return values
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise AnonbayesError(f"{name!r} must be an array (chain, draw, ...): {error}.") from None
    if array.ndim == 0:
        raise AnonbayesError(
            f"{name!r} is the single value {array!r}; draws must be an array (chain, draw, ...)."
        )
    if array.ndim == 1:
        array = array[None, :]
    if dims is None:
        dims = [f"{name}_dim_{i}" for i in range(array.ndim - 2)]
    if len(dims) != array.ndim - 2:
        raise AnonbayesError(
            f"{name!r} has {array.ndim - 2} dimensions after chain and draw, but dims names "
            f"{len(dims)}: {list(dims)}."
        )
    known = coords or {}
    labels: dict[str, Any] = {"chain": np.arange(array.shape[0]), "draw": np.arange(array.shape[1])}
    labels |= {
        dim: known.get(dim, np.arange(n)) for dim, n in zip(dims, array.shape[2:], strict=True)
    }
    return xr.DataArray(array, dims=[*SAMPLE_DIMS, *dims], coords=labels)


def make_idata(
    contents: Mapping[str, xr.Dataset | Mapping[str, Any]],
    *,
    coords: Mapping[str, Any] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> Any:
    """Return an `InferenceData` (ArviZ 0.x) or a `DataTree` (ArviZ 1.x) with the given groups."""
    datasets = make_groups(contents, coords=coords, dims=dims)
    if has_inference_data():
        import arviz

        return arviz.InferenceData(attrs=dict(attrs or {}), **datasets)
    tree = xr.DataTree.from_dict({k: without_slashes(v) for k, v in datasets.items()})
    tree.attrs.update(attrs or {})
    return tree


def make_groups(
    contents: Mapping[str, xr.Dataset | Mapping[str, Any]],
    *,
    coords: Mapping[str, Any] | None = None,
    dims: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, xr.Dataset]:
    """Return the groups for `make_idata`, without loading ArviZ."""
    named = dims or {}
    return {
        name: variables
        if isinstance(variables, xr.Dataset)
        else xr.Dataset(
            {k: _as_dataarray(v, k, named.get(k), coords) for k, v in variables.items()}
        )
        for name, variables in contents.items()
    }


def without_slashes(dataset: xr.Dataset) -> xr.Dataset:
    """Replace slashes in names by a look-alike, because trees use them to separate groups."""
    return _renamed(dataset, "/", DIVISION_SLASH)


def with_slashes(dataset: xr.Dataset) -> xr.Dataset:
    """Inverse of `without_slashes`."""
    return _renamed(dataset, DIVISION_SLASH, "/")


def _renamed(dataset: xr.Dataset, old: str, new: str) -> xr.Dataset:
    names = {
        name: name.replace(old, new)
        for name in {*dataset.variables, *dataset.dims}
        if isinstance(name, str) and old in name
    }
    return dataset.rename(names) if names else dataset


def write_groups(
    datasets: Mapping[str, xr.Dataset], path: str | os.PathLike[str], *, attrs: Mapping[str, Any]
) -> Path:
    """Write groups of Datasets to a netCDF file, the same file under both generations.

    HDF5 crashes if it cannot close its file on a full disk, so it writes to memory.
    """
    contents = {name: without_slashes(dataset) for name, dataset in datasets.items()}
    tree = xr.DataTree.from_dict(contents)
    tree.attrs.update(attrs)
    encoding = {
        f"/{name}": {
            k: {"zlib": True, "complevel": 1}
            for k, v in dataset.data_vars.items()
            if v.ndim and (v.dtype.kind in "biu" or v.sizes.get("draw") == 1)  # draws do not shrink
        }
        for name, dataset in contents.items()
    }
    content = io.BytesIO()
    tree.to_netcdf(content, engine="h5netcdf", encoding=encoding)
    with new_file(path) as file:
        file.write(content.getbuffer())
        file.write(MARK + _digest(content.getbuffer()))
    return Path(path)


def read_groups(path: str | os.PathLike[str]) -> tuple[dict[str, xr.Dataset], dict[str, Any]]:
    """Read groups and attributes of a netCDF file into memory, and close it."""
    path = Path(path)
    if not path.is_file():
        raise AnonbayesError(
            f"path={str(path)!r} is not a file; give the netCDF file of a posterior."
        )
    with path.open("rb") as file:
        if file.read(8) != b"\x89HDF\r\n\x1a\n":
            raise FileError(f"path={str(path)!r} is not a netCDF 4 file; give that of a posterior.")
    check_seal(path)
    loaded: dict[str, xr.Dataset] = {}
    try:
        _check_alone(path)
        stored = xr.open_groups(path, engine="h5netcdf")
        try:
            for name, dataset in stored.items():
                loaded[name.strip("/")] = dataset.load()
        finally:
            for dataset in stored.values():
                dataset.close()
    except FileError:
        raise
    except Exception as error:  # HDF5 and its readers raise all kinds of errors for damaged files
        raise FileError(f"path={str(path)!r} is damaged ({_brief(error)}). {REMAKE}") from error
    root = loaded.pop("", xr.Dataset())
    return {name: with_slashes(d) for name, d in loaded.items()}, dict(root.attrs)


def _check_alone(path: Path) -> None:
    """Raise `FileError` if a file would make HDF5 read other files or load a filter plugin.

    Links and external data can refer to any file, whose content would be taken for draws.
    """
    import h5py

    def link_elsewhere(name: str, link: object) -> str | None:
        return None if isinstance(link, h5py.HardLink) else name

    def data_elsewhere(name: str, item: object) -> str | None:
        if not isinstance(item, h5py.Dataset):
            return None
        made = item.id.get_create_plist()
        filters = {made.get_filter(i)[0] for i in range(made.get_nfilters())}
        return name if item.external or item.is_virtual or not filters <= OWN_FILTERS else None

    with h5py.File(path, "r") as file:  # a visitor's return value ends the visit
        name = file.visititems_links(link_elsewhere) or file.visititems(data_elsewhere)
    if name is not None:
        raise FileError(
            f"path={str(path)!r}: {name!r} is in another file, or needs a plugin to be read; "
            "Posterior.to_netcdf writes neither, so the file is not opened."
        )


def _brief(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 160 else f"{text[:160]}..."


def ess(data: Any, *, method: str = "bulk", group: str = "posterior") -> xr.Dataset:
    """Return ArviZ's effective sample sizes as a Dataset.

    The ``"tail"`` size is that of the 5% and 95% quantiles (the generations' defaults differ).
    """
    import arviz

    prob = (0.05, 0.95) if method == "tail" else None
    return arviz.ess(_floats(data, group), method=method, prob=prob)


def rhat(data: Any, *, group: str = "posterior") -> xr.Dataset:
    """Return ArviZ's rank-normalised split R-hat as a Dataset."""
    import arviz

    return arviz.rhat(_floats(data, group), method="rank")


def mcse(data: Any, *, method: str = "mean", group: str = "posterior") -> xr.Dataset:
    """Return ArviZ's Monte Carlo standard errors as a Dataset."""
    import arviz

    return arviz.mcse(_floats(data, group), method=method)


def select(
    data: Any,
    *,
    group: str = "posterior",
    var_names: str | Iterable[str] | None = None,
    coords: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """Return the chosen variables and coordinates of a group, selected as in ArviZ."""
    chosen = posterior_dataset(data, group=group)
    if var_names is not None:
        names = [var_names] if isinstance(var_names, str) else list(var_names)
        for name in names:
            if name not in chosen.data_vars:
                raise AnonbayesError(
                    f"var_names: {name!r} is not in the group {group!r}. "
                    f"{nearest(name, chosen.data_vars)}"
                )
        chosen = chosen[names]
    for dim, labels in (coords or {}).items():
        if dim not in chosen.dims:
            raise AnonbayesError(
                f"coords: {dim!r} is not a dimension. {nearest(dim, map(str, chosen.dims))}"
            )
        try:
            chosen = chosen.sel({dim: labels})
        except KeyError as error:
            raise AnonbayesError(f"coords: {labels!r} is not on the dimension {dim!r}.") from error
    for key, variable in chosen.data_vars.items():
        absent = [dim for dim in SAMPLE_DIMS if dim not in variable.dims]
        if absent:
            raise AnonbayesError(
                f"The variable {key!r} has the dimensions {variable.dims}; {absent} is missing. "
                "Draws need chain and draw; use expand_dims for a single chain."
            )
    return chosen


def _floats(data: Any, name: str) -> xr.Dataset:
    # Passing ArviZ plain float Datasets is the one call that both generations treat alike.
    return select(data, group=name).astype(float)
