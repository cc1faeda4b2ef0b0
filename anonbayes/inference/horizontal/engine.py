"""Engine of horizontal tables: independent draws when cells are nested, a Gibbs sampler if not."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from anonbayes.inference.chains import ChainState
from anonbayes.inference.dirichlet import dirichlet_rows
from anonbayes.inference.horizontal.kernels import draw_distributions, sweeps
from anonbayes.inference.horizontal.layout import HorizontalLayout
from anonbayes.inference.horizontal.rows import HiddenRows
from anonbayes.inference.priors import Prior
from anonbayes.release.table import ReleasedTable

__all__ = ["HorizontalEngine"]

Draws = dict[str, npt.NDArray[Any]]


class HorizontalEngine:
    """Draws ``pi`` of a horizontal table, and hidden rows on request.

    Parameters
    ----------
    table : ReleasedTable
        A horizontal table.
    prior : Prior
        Its prior.
    collapse : bool
        Whether to integrate out the cells that fit into a tree.
    rows : array of int, optional
        Rows whose hidden values are drawn along, as ``cleartext_<attribute>``.
    """

    n_generators = 2  # the second one draws hidden rows, so that asking for them changes no pi
    grows: tuple[str, ...] = ()

    def __init__(
        self,
        table: ReleasedTable,
        prior: Prior,
        *,
        collapse: bool = True,
        rows: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self.table = table
        self.layout = HorizontalLayout.of(table, collapse=collapse)
        self.alpha = np.array(prior.alpha)
        self.beta = self.layout.flatten(prior.beta)
        self.rows = None if rows is None else HiddenRows.of(table, self.layout, rows)

    def start(self, generators: list[np.random.Generator]) -> Draws:
        """Draw a start from the prior, so that chains begin apart."""
        layout, rng = self.layout, generators[0]
        pi_secret = np.empty((1, layout.n_secrets))
        dirichlet_rows(self.alpha[None, :], pi_secret, rng)
        pi = np.empty(layout.length)
        nothing = np.zeros_like(layout.arrays.own)
        draw_distributions(
            self.beta,
            np.zeros(layout.length),
            nothing,
            layout.arrays,
            layout.n_secrets,
            pi,
            rng,
        )
        return {"pi_secret": pi_secret[0], "pi": pi}

    def advance(self, state: ChainState, n: int, *, tuning: bool) -> tuple[Draws, Draws]:
        """Make n sweeps."""
        layout = self.layout
        secret = np.empty((n, layout.n_secrets))
        flat = np.empty((n, layout.length))
        log = np.empty(n)
        sweeps(
            n,
            state.live["pi_secret"],
            state.live["pi"],
            self.alpha,
            self.beta,
            layout.arrays,
            secret,
            flat,
            log,
            state.generators[0],
        )
        draws = {f"pi_{self.table.sensitive}": secret}
        draws |= {f"pi_{name}": block for name, block in layout.split(flat).items()}
        if self.rows is not None and not tuning:
            draws |= self.rows.draw(secret, flat, state.generators[1])
        return draws, {"log_likelihood": log}

    def pack(self, live: Draws) -> Draws:
        """Return the state, which is a dictionary of arrays already."""
        return live

    def unpack(self, arrays: Draws, generators: list[np.random.Generator]) -> Draws:
        """Return the state that `pack` stored."""
        return arrays

    def averages(self, live: Draws) -> Draws:
        """Nothing: all that is asked of a horizontal table follows from the draws of ``pi``."""
        return {}
