"""Engine of vertical tables: a `VerticalChain` that `fit` can advance, store and continue."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from anonbayes.errors import ModelError, nearest
from anonbayes.inference.dirichlet import Prior
from anonbayes.inference.run import ChainState
from anonbayes.inference.vertical.chain import VerticalChain, VerticalState
from anonbayes.inference.vertical.group_layout import VerticalLayout
from anonbayes.tables.table import ReleasedTable

__all__ = ["VerticalEngine", "layout_of"]
Draws = dict[str, npt.NDArray[Any]]

OWNERSHIP_SWEEPS = 25
"""Sweeps over which ownership probabilities are averaged before they are kept: a batch."""

MANY_LINKS = 4_000_000
"""Pairs of item and value, from which on batches are four times as long: each takes 16 MB."""

CHAIN_SETTINGS = ("block", "sub_block", "swaps", "threads")
LADDER_SETTINGS = ("hottest", "temperatures", "most")


def layout_of(table: ReleasedTable) -> VerticalLayout:
    """Plain-array layout of a vertical table, as the samplers and step methods take it.

    Examples
    --------
    >>> import anonbayes as ab
    >>> import pandas as pd
    >>> qit = pd.DataFrame({"Nat": ["J", "M"], "gid": [1, 1]})
    >>> st = pd.DataFrame({"gid": [1, 1], "Dis": ["Flu", "Heart"]})
    >>> table = ab.ReleasedTable.vertical(qit, st, group="gid", sensitive="Dis")
    >>> layout_of(table).n_groups
    1
    """
    if table.scheme != "vertical":
        raise ModelError("Only a vertical table hides who owns which values.")
    sizes = table.group_sizes.to_numpy()
    return VerticalLayout(
        items=np.stack([c.codes for c in table.columns.values()], axis=1),
        secrets=table.secret_codes,
        offsets=np.concatenate([[0], np.cumsum(sizes)]),
        sizes=np.array([len(c.domain) for c in table.columns.values()]),
        n_secrets=len(table.secret.domain),
    )


@dataclass
class _Live:
    """A running chain, and the ownership averages it has kept so far."""

    chain: VerticalChain
    kept: list[npt.NDArray[np.float32]] = field(default_factory=list)


class VerticalEngine:
    """Draws ``pi`` of a vertical table and averages who owns which values along the way.

    Parameters
    ----------
    table : ReleasedTable
        A vertical table.
    prior : Prior
        Its prior.
    step : str
        Kind of step; see `VerticalChain`.
    rows : array of int, optional
        Slots whose item is recorded as ``assignment``: its position in the group.
    **settings
        Of the chain (block, sub_block, swaps, threads) and of the tempered step's ladder (hottest,
        temperatures, most).
    """

    n_generators = 1
    grows: tuple[str, ...] = ("kept",)

    def __init__(
        self,
        table: ReleasedTable,
        prior: Prior,
        *,
        step: str,
        rows: npt.NDArray[np.int64] | None = None,
        **settings: Any,
    ) -> None:
        for name in settings:
            known = (*CHAIN_SETTINGS, *LADDER_SETTINGS)
            if name not in known:
                raise ModelError(f"Unknown setting {name!r}. {nearest(name, known)}")
        self.table = table
        self.layout = layout_of(table)
        self.alpha = np.array(prior.alpha)
        self.beta = self.layout.flatten([prior.beta[name] for name in table.attributes])
        self.step = step
        self.rows = rows
        self._batch = OWNERSHIP_SWEEPS * (1 if self.layout.n_links < MANY_LINKS else 4)
        self.settings = {k: v for k, v in settings.items() if k in CHAIN_SETTINGS}
        self.ladder = {k: v for k, v in settings.items() if k in LADDER_SETTINGS}
        if self.ladder and step != "tempered":
            raise ModelError(
                f"{next(iter(self.ladder))!r} is a setting of step='tempered', not of {step!r}."
            )

        if step == "collapsed" and self.settings.get("threads", 1) > 1:
            raise ModelError(
                "threads= has no use for step='collapsed', in which every group depends on all "
                "others; step='block' shares groups out over threads."
            )

    def start(self, generators: list[np.random.Generator]) -> _Live:
        """Start from a random order of every group, so that chains begin apart."""
        return _Live(self._chain(generators[0]))

    def advance(self, state: ChainState, n: int, *, tuning: bool) -> tuple[Draws, Draws]:
        """Make n sweeps."""
        live: _Live = state.live
        chain, layout = live.chain, self.layout
        flat = np.empty((n, layout.n_cells))
        secret = np.empty((n, layout.n_secrets))
        energy = np.empty(n)
        stats: list[dict[str, float]] = []
        owned = None if self.rows is None else np.empty((n, len(self.rows)), self._position_dtype)
        for i in range(n):
            stats.append(chain.sweep(tune=tuning, keep_owner=not tuning))
            energy[i] = chain.energy
            flat[i] = chain.draw_pi()
            secret[i] = chain.draw_pi_secret()
            if owned is not None:
                owned[i] = self._positions(chain.assignment)
            if chain.owner_draws == self._batch:
                live.kept.append((chain.owner / chain.owner_draws).astype(np.float32))
                chain.owner[:] = 0.0
                chain.owner_draws = 0
        draws = {f"pi_{self.table.sensitive}": secret}
        blocks = layout.split(flat)
        draws |= {f"pi_{a}": b for a, b in zip(self.table.attributes, blocks, strict=True)}
        if owned is not None and not tuning:
            draws["assignment"] = owned
        numbers = {k: np.array([s[k] for s in stats]) for k in stats[0]}
        return draws, numbers | {"energy": energy}

    def pack(self, live: _Live) -> Draws:
        """Return the chain's state and the averages as arrays."""
        kept = np.array(live.kept, dtype=np.float32).reshape(-1, self.layout.n_links)
        return live.chain.state().pack() | {"kept": kept}

    def unpack(self, arrays: Draws, generators: list[np.random.Generator]) -> _Live:
        """Return the chain that `pack` stored, on its own generator."""
        chain = self._chain(np.random.default_rng(0))
        kept = list(arrays.pop("kept"))
        chain.rng = generators[0]
        chain.restore(VerticalState.unpack(arrays))
        return _Live(chain, kept)

    def averages(self, live: _Live) -> Draws:
        """Ownership probabilities, one row per batch of sweeps."""
        kept = list(live.kept)
        if live.chain.owner_draws and not kept:
            kept.append((live.chain.owner / live.chain.owner_draws).astype(np.float32))
        return {"ownership": np.array(kept, dtype=np.float32).reshape(-1, self.layout.n_links)}

    def _chain(self, rng: np.random.Generator) -> VerticalChain:
        return VerticalChain(
            self.layout,
            alpha=self.alpha,
            beta=self.beta,
            step=self.step,
            rng=rng,
            ladder=self.ladder or None,
            **self.settings,
        )

    @property
    def _position_dtype(self) -> np.dtype[Any]:
        return np.dtype(np.min_scalar_type(int(self.layout.group_sizes.max()) - 1))

    def _positions(self, assignment: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
        first = self.layout.offsets[self.layout.groups[self.rows]]
        return (assignment[self.rows] - first).astype(self._position_dtype)
