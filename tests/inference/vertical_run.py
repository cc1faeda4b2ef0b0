"""One chain of a vertical sampler, sweep by sweep, for the tests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from anonbayes.inference.vertical.chain import VerticalChain


@dataclass
class Run:
    pi: list[np.ndarray]
    pi_secret: np.ndarray
    energy: np.ndarray
    stats: dict[str, np.ndarray]
    ownership: np.ndarray
    assignment: np.ndarray
    state: dict[str, np.ndarray]

    @property
    def n_draws(self) -> int:
        return len(self.energy)


def run_vertical(layout, *, draws, tune, thin=1, seed=0, stop=None, resume=None, **settings) -> Run:
    """Make the draws, or stop after so many sweeps; go on from a stored state."""
    chain = VerticalChain(layout, rng=np.random.default_rng(seed), **settings)
    if resume is not None:
        chain.unpack(resume)
    kept: list[tuple] = []
    last = tune + draws * thin
    while chain.sweeps < (last if stop is None else min(stop, last)):
        tuning = chain.sweeps < tune
        stats = chain.sweep(tune=tuning, keep_owner=not tuning)
        if not tuning and (chain.sweeps - tune) % thin == 0:
            kept.append(
                (chain.draw_pi(), chain.draw_pi_secret(), chain.energy, stats,
                 chain.assignment.copy())
            )  # fmt: skip
    pi, secret, energy, stats, assignment = zip(*kept, strict=True) if kept else ([],) * 5
    return Run(
        pi=layout.split(np.array(pi).reshape(len(kept), layout.n_cells)),
        pi_secret=np.array(secret),
        energy=np.array(energy),
        stats={k: np.array([s[k] for s in stats]) for k in (stats[0] if kept else {})},
        ownership=chain.owner / max(chain.owner_draws, 1),
        assignment=np.array(assignment),
        state=chain.pack(),
    )
