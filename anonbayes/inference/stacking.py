"""Chains side by side, and draws from a closed form that are made again."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import xarray as xr

from anonbayes.arrays import Floats, one_thread
from anonbayes.inference.dirichlet import CORRECTION, WEIGHT
from anonbayes.inference.horizontal.cell_engine import HorizontalEngine
from anonbayes.inference.run import Recorded, join, run_chains
from anonbayes.inference.vertical.crossfit import vertical_spread
from anonbayes.inference.vertical.group_layout import layout_of
from anonbayes.inference.weights import Evidenced
from anonbayes.tables.table import ReleasedTable

__all__ = ["crossfit_draws", "lift_parts", "redraw", "stack_chains", "weight_draws"]

Draws = dict[str, npt.NDArray[Any]]
log = logging.getLogger("anonbayes")
WEIGHT_STREAM, FOLD_STREAM, CORRECTION_STREAM = 17, 18, 19
FAR = 30.0
"""Log lifts move no further: with two folds t has no moments."""


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
    """Draws of weights and corrections from streams of their own: those of ``pi`` stay as is."""
    if taken.evidence != "weighted" or taken.weights is None:
        return {}
    chains, n = draws[f"pi_{table.sensitive}"].shape[:2]
    rng = np.random.default_rng(np.random.SeedSequence([entropy, WEIGHT_STREAM]))
    drawn = taken.weights.draw(chains * n, rng).reshape(chains, n, -1)
    names = taken.weights.names
    out: Draws = {f"{WEIGHT}{name}": drawn[..., a] for a, name in enumerate(names)}
    if taken.weights.corrections is not None:
        rng = np.random.default_rng(np.random.SeedSequence([entropy, CORRECTION_STREAM]))
        values = taken.weights.corrections.draw(table, (chains, n), rng)
        out |= {f"{CORRECTION}{name}": c for name, c in zip(names, values, strict=False)}
    return out


def crossfit_draws(
    table: ReleasedTable,
    taken: Evidenced,
    lifts: Iterable[tuple[Floats, Floats]],
    size: tuple[int, int],
    entropy: int,
) -> Draws:
    """Independent draws of a cross-fitted posterior.

    Weights are normal at their mode. Log lifts have the spread that leaving out fold after fold
    shows (`lift_spread`), Student's t for F folds; a population is the margin times its lifts.
    `lifts` are, by attribute, the mean ``(S, K)`` and the spread ``(folds + 1, S, K)``.
    """
    rng = np.random.default_rng(np.random.SeedSequence(entropy))
    secret = taken.prior.alpha + table.secret_counts
    drawn: Draws = {f"pi_{table.sensitive}": rng.dirichlet(secret, size=size)}
    stream = np.random.default_rng(np.random.SeedSequence([entropy, FOLD_STREAM]))
    together: Floats | None = None
    for name, (mean, spread) in zip(table.attributes, lifts, strict=True):
        if together is None:  # folds move all attributes at once, and their spread is estimated
            folds = len(spread) - 1
            heavy = np.sqrt((folds - 1) / stream.chisquare(folds - 1, size))
            together = stream.standard_normal((*size, folds)) * heavy[..., None]
        pi = stream.standard_normal((*size, *mean.shape))
        pi *= spread[-1]
        pi += np.tensordot(together, spread[:-1], axes=1)
        np.exp(np.clip(pi, -FAR, FAR, out=pi), out=pi)
        pi *= mean
        pi /= pi.sum(axis=-1, keepdims=True)
        drawn[f"pi_{name}"] = pi
    return drawn | weight_draws(table, taken, drawn, entropy)


def lift_parts(
    table: ReleasedTable, kept: xr.Dataset, kind: str, pooling: Floats | None = None
) -> list[Floats]:
    """``mean`` or ``spread`` of a cross-fitted table, ``([folds + 1,] S, K_a)`` each.

    The spread of a vertical table asks for its `pooling`.
    """
    if table.scheme == "vertical":
        layout = layout_of(table)
        if kind == "mean":
            return layout.split(kept["population"].to_numpy()[0, 0])
        assert pooling is not None
        lifts = kept["left_out_lifts"].to_numpy().reshape(-1, layout.n_cells)
        return vertical_spread(layout, lifts, pooling)
    shape = (-1,) * (kind == "spread") + (len(table.secret.domain),)
    return [
        kept[f"{kind}_{name}"].to_numpy().reshape(*shape, len(column.domain))
        for name, column in table.columns.items()
    ]


@one_thread
def redraw(
    table: ReleasedTable,
    taken: Evidenced,
    attrs: Mapping[str, Any],
    kept: xr.Dataset | None,
    *,
    chains: int,
    draws: int,
) -> tuple[Draws, Draws, Draws]:
    """Make independent draws again, as they were; see `Posterior.to_netcdf`.

    `attrs` are those of the posterior; without `kept`, lifts of a cross-fitted table, it is exact.
    """
    entropy = int(attrs["entropy"])
    if kept is not None:
        kappa = None if taken.weights is None else taken.weights.kappa
        kinds = (lift_parts(table, kept, kind, kappa) for kind in ("mean", "spread"))
        parts = zip(*kinds, strict=True)
        drawn = crossfit_draws(table, taken, parts, (chains, draws), entropy)
        return drawn, {}, {str(k): v.to_numpy() for k, v in kept.items()}
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
