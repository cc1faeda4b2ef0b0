"""Draws of a model of the user's own: what is checked, and what beliefs need beyond them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import xarray as xr

from anonbayes.arrays import Floats
from anonbayes.errors import ModelError, nearest
from anonbayes.tables.table import ReleasedTable

__all__ = ["checked_draws", "ownership_given"]


def checked_draws(given: xr.Dataset, name: str, shape: tuple[int, ...]) -> Floats:
    """Draws of a variable, if they are distributions of the right size."""
    if name not in given:
        hint = nearest(name, [str(known) for known in given.data_vars])
        raise ModelError(f"The draws have no variable {name!r}. {hint}")
    draws = given[name].to_numpy()
    if draws.shape[2:] != shape or 0 in draws.shape:
        raise ModelError(
            f"{name!r} has the shape {draws.shape}; wanted are (chain, draw, "
            f"{', '.join(map(str, shape))})."
        )
    if not (np.isfinite(draws).all() and (draws >= 0).all()):
        raise ModelError(f"{name!r} has draws that are negative or no numbers.")
    if np.abs(draws.sum(axis=-1) - 1).max() > 1e-6:
        raise ModelError(f"{name!r} has draws that do not add up to one.")
    return np.asarray(draws, dtype=float)


def ownership_given(
    table: ReleasedTable,
    draws: Mapping[str, Floats],
    seed: int | np.random.Generator | None,
) -> npt.NDArray[np.float32]:
    """Probabilities of who owns which values given each draw, averaged in up to 100 batches."""
    from anonbayes.inference.vertical.chain import sweep_given_parameters
    from anonbayes.inference.vertical.group_engine import layout_of

    layout, rng = layout_of(table), np.random.default_rng(seed)
    pi = np.concatenate(
        [
            draws[f"pi_{name}"].reshape(*draws[f"pi_{name}"].shape[:2], -1)
            for name in table.attributes
        ],
        axis=2,
    )
    chains, n = pi.shape[:2]
    cuts = np.array_split(np.arange(n), min(n, 100))
    kept = np.empty((chains, len(cuts), layout.n_links), dtype=np.float32)
    for chain in range(chains):
        assignment = np.arange(layout.n_rows)
        for block, places in enumerate(cuts):
            owner = np.zeros(layout.n_links)
            for draw in places:
                logs = np.log(np.maximum(pi[chain, draw], np.finfo(float).tiny))
                sweep_given_parameters(layout, "block", logs, assignment, rng, owner=owner)
            kept[chain, block] = owner / len(places)
    return kept
