"""Run one chain on a vertical table: warm-up, draws, progress, interruption, continuation."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from anonbayes.errors import ModelError

from .chain import ChainState, VerticalChain
from .layout import Floats, Ints, VerticalLayout

CHUNK_SECONDS = 0.25
"""Length of a chunk; between chunks the run reports, can be stopped, and could be continued."""


@dataclass(frozen=True)
class Progress:
    """How far a run is: sweeps done of the warm-up and of the draws, and seconds so far."""

    tuned: int
    tune: int
    drawn: int
    draws: int
    seconds: float
    stats: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class VerticalRun:
    """Draws of one chain.

    Attributes
    ----------
    pi : list of array, shape (draws, S, K_a)
        Parameters of each attribute given the sensitive value.
    pi_secret : array, shape (draws, S)
        Parameters of the sensitive attribute.
    energy : array, shape (draws,)
        Log of the collapsed posterior up to a constant.
    stats : dict of array, shape (draws,)
        Statistics of the step, and ``log_likelihood``, that of the cleartext table given ``pi``.
    ownership : array, shape (n_links,)
        Rao-Blackwellised ``P(item belongs to value)``, see `VerticalLayout.ownership`.
    assignment : array of int, shape (kept draws, N), or None
        Cleartext tables, when asked for.
    state : ChainState
        Where the chain stands after the last draw.
    interrupted : bool
        Whether the run was stopped before all draws were made.
    """

    step: str
    pi: list[Floats]
    pi_secret: Floats
    energy: Floats
    stats: dict[str, Floats]
    ownership: Floats
    assignment: Ints | None
    state: ChainState
    interrupted: bool

    @property
    def n_draws(self) -> int:
        """Number of draws."""
        return len(self.energy)


class _Store:
    """Draws kept so far."""

    def __init__(self, layout: VerticalLayout, keep_assignment: bool) -> None:
        self.layout, self.keep_assignment = layout, keep_assignment
        self.rows: list[tuple[Floats, Floats, float, dict[str, float]]] = []
        self.tables: list[NDArray] = []
        self.dtype = np.min_scalar_type(layout.n_rows - 1)

    def add(self, chain: VerticalChain, stats: dict[str, float]) -> None:
        pi = chain.draw_pi()
        stats["log_likelihood"] = chain.log_likelihood
        self.rows.append((pi, chain.draw_pi_secret(), chain.energy, stats))
        if self.keep_assignment:
            self.tables.append(chain.assignment.astype(self.dtype))

    def truncate(self, n: int) -> None:
        del self.rows[n:], self.tables[n:]

    def result(self, chain: VerticalChain, state: ChainState, interrupted: bool) -> VerticalRun:
        layout, rows = self.layout, self.rows
        pi = np.array([r[0] for r in rows]).reshape(len(rows), layout.n_cells)
        names = list(rows[0][3]) if rows else []
        tables = np.array(self.tables, dtype=self.dtype).reshape(-1, layout.n_rows)
        return VerticalRun(
            step=chain.step,
            pi=layout.split(pi),
            pi_secret=np.array([r[1] for r in rows]).reshape(len(rows), layout.n_secrets),
            energy=np.array([r[2] for r in rows]),
            stats={k: np.array([r[3][k] for r in rows]) for k in names},
            ownership=state.owner / max(state.owner_draws, 1),
            assignment=tables if self.keep_assignment else None,
            state=state,
            interrupted=interrupted,
        )


def run_vertical(
    layout: VerticalLayout,
    *,
    alpha: ArrayLike = 1.0,
    beta: ArrayLike = 1.0,
    step: str = "auto",
    draws: int = 1000,
    tune: int = 1000,
    thin: int = 1,
    seed: int | np.random.SeedSequence | np.random.Generator | None = None,
    keep_assignment: bool = False,
    callback: Callable[[Progress], None] | None = None,
    resume: ChainState | None = None,
    **settings: Any,
) -> VerticalRun:
    """Run one chain over the cleartext tables behind a vertical release (MODEL 1.4).

    Parameters
    ----------
    layout
        The released table.
    alpha, beta
        Dirichlet priors: scalars, or ``(S,)`` and the flat layout of the parameters.
    step
        ``"auto"``, ``"block"``, ``"collapsed"``, ``"tempered"``, ``"swap"``, ``"permute"``,
        ``"sequential"`` or ``"subblock"``.
    draws, tune, thin
        Draws to keep, sweeps before the first, sweeps per draw.
    seed
        Seed or generator of this chain; chains need different ones.
    keep_assignment
        Keep the cleartext tables (smallest integer type).
    callback
        Called with `Progress` after every chunk of about a quarter of a second.
    resume
        State of an earlier run: its sweeps count towards `tune` and `draws`, and the draws
        returned here are those that the earlier run would have made next.
    **settings
        Further settings of `VerticalChain`.

    Returns
    -------
    VerticalRun
        After ``KeyboardInterrupt`` (also when `callback` raises it) the draws finished so far,
        with ``interrupted=True``.

    Examples
    --------
    >>> layout = VerticalLayout([[0], [1], [1], [0]], [0, 1, 0, 1], [0, 2, 4], [2], 2)
    >>> run = run_vertical(layout, step="collapsed", draws=50, tune=10, seed=1)
    >>> run.pi[0].shape, layout.ownership(run.ownership).shape
    ((50, 2, 2), (4, 2))
    """
    if draws < 1 or tune < 0 or thin < 1:
        raise ModelError(f"draws={draws}, tune={tune}, thin={thin}: at least 1, 0 and 1 are due.")
    chain = VerticalChain(
        layout, alpha=alpha, beta=beta, step=step, rng=np.random.default_rng(seed), **settings
    )
    if resume is not None:
        chain.restore(resume)
    store = _Store(layout, keep_assignment)
    total = tune + draws * thin
    before = max(chain.sweeps - tune, 0) // thin  # draws of the run that is continued
    safe = chain.state()
    began, chunk = time.perf_counter(), 1
    try:
        while chain.sweeps < total:
            started = time.perf_counter()
            for _ in range(min(chunk, total - chain.sweeps)):
                tuning = chain.sweeps < tune
                stats = chain.sweep(tune=tuning, keep_owner=not tuning)
                if not tuning and (chain.sweeps - tune) % thin == 0:
                    store.add(chain, stats)
            safe, kept = chain.state(), len(store.rows)
            now = time.perf_counter()
            if callback is not None:
                callback(
                    Progress(
                        min(chain.sweeps, tune), tune, before + kept, draws, now - began, stats
                    )
                )
            pace = (now - started) / chunk
            chunk = int(np.clip(CHUNK_SECONDS / max(pace, 1e-9), 1, 4 * chunk))
    except KeyboardInterrupt:
        # A sweep may have been cut short: go back to the end of the last chunk.
        store.truncate(max(safe.sweeps - tune, 0) // thin - before)
        return store.result(chain, safe, interrupted=True)
    return store.result(chain, safe, interrupted=False)
