"""`Posterior`: draws, closed forms, and the questions that can be asked of them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import metadata
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from anonbayes import compat
from anonbayes.errors import ModelError
from anonbayes.inference.model import coords_of
from anonbayes.inference.priors import Prior
from anonbayes.inference.tree import DirichletTree
from anonbayes.release.storage import table_from_dataset, table_to_dataset
from anonbayes.release.table import ReleasedTable

__all__ = ["Posterior", "make_posterior"]

TABLE_GROUP = "released_table"


@dataclass(frozen=True, eq=False, repr=False)
class Posterior:
    """What a released table says about the population. Made by `fit`.

    Attributes
    ----------
    table : ReleasedTable
        What was released.
    prior : Prior
        The weights before it was seen.
    idata : InferenceData or DataTree
        Draws of ``pi_<sensitive>`` and ``pi_<attribute>`` for ArviZ, statistics of the sampler, the
        prior's weights (``constant_data``), versions and seed (attributes).
    method, step : str
        Engine, and kind of Gibbs step (None where it has no meaning).
    """

    table: ReleasedTable
    prior: Prior
    idata: Any
    method: str
    step: str | None

    @cached_property
    def trees(self) -> Mapping[str, DirichletTree]:
        """Closed-form posterior of each attribute; only for the exact method."""
        if self.method != "exact":
            raise ModelError(f"Closed forms exist for method='exact', not {self.method!r}.")
        return {
            name: DirichletTree(column.evidence, self.table.counts[name], self.prior.beta[name])
            for name, column in self.table.columns.items()
        }

    @property
    def draws(self) -> xr.Dataset:
        """The draws as a Dataset with dimensions chain and draw first."""
        return compat.posterior_dataset(self.idata)

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return int(self.draws.sizes["chain"])

    @property
    def n_draws(self) -> int:
        """Draws per chain."""
        return int(self.draws.sizes["draw"])

    @cached_property
    def secret_mean(self) -> npt.NDArray[np.float64]:
        """``E[pi_S]``, in closed form where sensitive values are known."""
        if self.table.secrets_known:
            weight = self.prior.alpha + self.table.secret_counts
            return weight / weight.sum()
        mean = self.draws[f"pi_{self.table.sensitive}"].mean(("chain", "draw"))
        return np.asarray(mean.to_numpy())

    # -- keeping it --------------------------------------------------------------------------

    def to_netcdf(self, path: str | os.PathLike[str]) -> str:
        """Write everything to one netCDF file, the table included.

        The file opens in ArviZ; `from_netcdf` reads it back.
        """
        content = compat.groups(self.idata) | {TABLE_GROUP: table_to_dataset(self.table)}
        idata = compat.make_idata(content, attrs=self.idata.attrs)
        return str(compat.write_netcdf(idata, path))

    @classmethod
    def from_netcdf(cls, path: str | os.PathLike[str]) -> Posterior:
        """Read what `to_netcdf` wrote."""
        found = compat.read_netcdf(path)
        content = compat.groups(found)
        if TABLE_GROUP not in content:
            raise ModelError(
                f"{str(path)!r} holds no released table; it was not written by Posterior.to_netcdf."
            )
        table = table_from_dataset(content.pop(TABLE_GROUP))
        weights = content["constant_data"]
        prior = Prior(
            weights["alpha"].to_numpy(),
            {name: weights[f"beta_{name}"].to_numpy() for name in table.attributes},
        )
        attrs = dict(found.attrs)
        return cls(
            table,
            prior,
            compat.make_idata(content, attrs=attrs),
            str(attrs["method"]),
            str(attrs["step"]) or None,
        )

    def __repr__(self) -> str:
        step = f", step={self.step!r}" if self.step else ""
        return (
            f"Posterior(method={self.method!r}{step}, {self.n_chains} chains x {self.n_draws} "
            f"draws, {self.table!r})"
        )

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p><code>{escape(repr(self))}</code></p>{self.table._repr_html_()}"


def make_posterior(
    table: ReleasedTable,
    prior: Prior,
    draws: Mapping[str, npt.NDArray[Any]],
    stats: Mapping[str, npt.NDArray[Any]],
    *,
    method: str,
    step: str | None,
    rows: npt.NDArray[np.int64] | None,
    attrs: Mapping[str, Any],
) -> Posterior:
    """Label draws with the table's names and values."""
    secret = table.sensitive
    coords: dict[str, Any] = {name: list(labels) for name, labels in coords_of(table).items()}
    if rows is not None:
        coords["row"] = rows
    dims: dict[str, list[str]] = {f"pi_{secret}": [secret]}
    dims |= {f"pi_{name}": [secret, name] for name in table.attributes}
    dims |= {key: ["row"] for key in draws if key.startswith(("cleartext", "assignment"))}
    weights = xr.Dataset(
        {"alpha": ((secret,), np.asarray(prior.alpha))}
        | {
            f"beta_{name}": ((secret, name), np.asarray(beta)) for name, beta in prior.beta.items()
        },
        coords={k: v for k, v in coords.items() if k != "row"},
    )
    named = {"method": method, "step": step or "", "fingerprint": table.fingerprint, **attrs}
    for package in ("anonbayes", "pymc", "arviz", "numpy", "numba"):
        named[f"{package}_version"] = _version(package)
    idata = compat.make_idata(
        {"posterior": draws, "sample_stats": stats, "constant_data": weights},
        coords=coords,
        dims=dims,
        attrs=named,
    )
    return Posterior(table, prior, idata, method, step)


def _version(package: str) -> str:
    if package == "anonbayes":
        from anonbayes import __version__

        return __version__
    return metadata.version(package)
