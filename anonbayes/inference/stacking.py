"""Chains side by side, and draws from a closed form that are made again."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from anonbayes.inference.dirichlet import WEIGHT
from anonbayes.inference.horizontal.cell_engine import HorizontalEngine
from anonbayes.inference.run import Recorded, join, run_chains
from anonbayes.inference.weights import Evidenced
from anonbayes.tables.table import ReleasedTable

__all__ = ["redraw", "stack_chains", "weight_draws"]

Draws = dict[str, npt.NDArray[Any]]
log = logging.getLogger("anonbayes")
WEIGHT_STREAM = 17


def stack_chains(
    recorded: list[Recorded], draws: int, interrupted: bool
) -> tuple[Draws, Draws, Draws]:
    """Chains side by side, cut to the shortest when the run was interrupted."""
    length = min(draws, *(r.n for r in recorded)) if interrupted else draws
    if length == 0:
        raise KeyboardInterrupt
    if interrupted:
        log.warning("fit: interrupted, keeping the %d draws that all chains have.", length)
    out = []
    for kind in ("draws", "stats"):
        chains = [join(getattr(r, kind), length) for r in recorded]
        out.append({k: np.stack([c[k] for c in chains]) for k in chains[0]})
    blocks = [r.averages for r in recorded]
    averages = {}
    for key in blocks[0]:
        shortest = min(len(b[key]) for b in blocks)
        averages[key] = np.stack([b[key][:shortest] for b in blocks])
    return out[0], out[1], averages


def weight_draws(table: ReleasedTable, taken: Evidenced, draws: Draws, entropy: int) -> Draws:
    """Draws of the weights from a stream of their own, so that those of ``pi`` stay as they are."""
    if taken.evidence != "weighted" or taken.weights is None:
        return {}
    shape = draws[f"pi_{table.sensitive}"].shape[:2]
    rng = np.random.default_rng(np.random.SeedSequence([entropy, WEIGHT_STREAM]))
    drawn = taken.weights.draw(shape[0] * shape[1], rng).reshape(*shape, -1)
    return {f"{WEIGHT}{name}": drawn[..., a] for a, name in enumerate(taken.weights.names)}


def redraw(
    table: ReleasedTable, taken: Evidenced, attrs: Mapping[str, Any], *, chains: int, draws: int
) -> tuple[Draws, Draws, Draws]:
    """Make the draws of an exact posterior again, as they were; see `Posterior.to_netcdf`.

    Parameters
    ----------
    table : ReleasedTable
        What was released.
    taken : Evidenced
        Evidence and prior of the fit.
    attrs : mapping
        Attributes of the posterior: its seed, and sweeps per draw.
    chains, draws : int
        How many there were.

    Returns
    -------
    tuple of dict
        Draws, statistics and averages, as `stack_chains` gives them.
    """
    entropy = int(attrs["entropy"])
    recorded, _ = run_chains(
        HorizontalEngine(table, taken.prior, collapse=True, rows=None),
        draws=draws,
        tune=int(attrs["tune"]),
        thin=int(attrs["thin"]),
        seeds=np.random.SeedSequence(entropy).spawn(chains),
        cores=None,
        progressbar=False,
        label="exact",
    )
    posterior, stats, averages = stack_chains(recorded, draws, False)
    return posterior | weight_draws(table, taken, posterior, entropy), stats, averages
