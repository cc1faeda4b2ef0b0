"""Flat names for the entries of labelled arrays, as ArviZ writes them: ``pi_Age[Flu, 20-29]``."""

from __future__ import annotations

import itertools

import numpy as np
import xarray as xr


def flat_labels(name: str, array: xr.DataArray, skip: tuple[str, ...] = ()) -> list[str]:
    """Return one name per entry of `array`, in C order, leaving out the dimensions in `skip`.

    Examples
    --------
    >>> flat_labels("pi_Sex", xr.DataArray([0.3, 0.7], coords={"Sex": ["F", "M"]}))
    ['pi_Sex[F]', 'pi_Sex[M]']
    >>> flat_labels("mu", xr.DataArray(1.0))
    ['mu']
    """
    dims = [dim for dim in array.dims if dim not in skip]
    if not dims:
        return [name]
    labels = [
        array[dim].values if dim in array.coords else np.arange(array.sizes[dim]) for dim in dims
    ]
    return [f"{name}[{', '.join(map(str, entry))}]" for entry in itertools.product(*labels)]
