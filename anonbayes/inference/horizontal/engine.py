"""Engine of horizontal tables: independent draws when cells are nested, a Gibbs sampler if not."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from anonbayes.inference.chains import ChainState
from anonbayes.inference.dirichlet import dirichlet_rows
from anonbayes.inference.horizontal.kernels import cell_probabilities, draw_distributions, sweeps
from anonbayes.inference.horizontal.layout import Arrays, HorizontalLayout
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
        self.rows = rows

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
            draws |= self._cleartext(secret, flat, state.generators[1])
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

    def _cleartext(
        self,
        secret: npt.NDArray[np.float64],
        flat: npt.NDArray[np.float64],
        rng: np.random.Generator,
    ) -> Draws:
        assert self.rows is not None
        layout, table = self.layout, self.table
        first = np.searchsorted(layout.arrays.attribute, np.arange(len(layout.names)))
        cells = np.stack(
            [c.codes[self.rows].astype(np.int64) for c in table.columns.values()], axis=1
        )
        known = (
            table.secret_codes[self.rows].astype(np.int64)
            if table.secrets_known
            else np.full(len(self.rows), -1, dtype=np.int64)
        )
        cells_of_secret = table.secret.codes[self.rows].astype(np.int64)
        dtype = np.min_scalar_type(max(int(layout.arrays.sizes.max()), layout.n_secrets) - 1)
        values = np.empty((len(flat), len(self.rows), len(layout.names)), dtype=dtype)
        secrets = np.empty((len(flat), len(self.rows)), dtype=dtype)
        draw_rows(
            secret,
            flat,
            layout.arrays,
            cells + first,
            known,
            cells_of_secret,
            values,
            secrets,
            rng,
        )
        out: Draws = {
            f"cleartext_{name}": np.ascontiguousarray(values[:, :, a])
            for a, name in enumerate(layout.names)
        }
        if not table.secrets_known:
            out[f"cleartext_{table.sensitive}"] = secrets
        return out


@njit(cache=True, nogil=True)
def draw_rows(  # type: ignore[no-untyped-def]
    secret, flat, d: Arrays, cells, known, secret_cell, values, secrets, rng
):
    """Draw the hidden values of rows given ``pi`` (MODEL 1.4), one draw per recorded ``pi``."""
    n_secrets = secret.shape[1]
    weight = np.empty(n_secrets)
    for t in range(len(flat)):
        pi = flat[t]
        probability = cell_probabilities(pi, d, n_secrets)
        for j in range(cells.shape[0]):
            s = known[j]
            if s < 0:
                total = 0.0
                for z in range(n_secrets):
                    w = secret[t, z] * d.secret_likelihood[secret_cell[j], z]
                    for a in range(cells.shape[1]):
                        w *= probability[cells[j, a], z]
                    weight[z] = w
                    total += w
                u = rng.random() * total
                s = 0
                while s < n_secrets - 1 and u >= weight[s]:
                    u -= weight[s]
                    s += 1
            secrets[t, j] = s
            for a in range(cells.shape[1]):
                c = cells[j, a]
                where = d.start[a] + s * d.sizes[a]
                u = rng.random() * probability[c, s]
                i = d.pointer[c]
                while i < d.pointer[c + 1] - 1:
                    w = pi[where + d.values[i]] * d.likelihood[i]
                    if u < w:
                        break
                    u -= w
                    i += 1
                values[t, j, a] = d.values[i]
