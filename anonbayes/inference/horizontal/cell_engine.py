"""Gibbs sampling of generalized cells and reports: kernels and engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from anonbayes.arrays import Floats, Ints
from anonbayes.domains import code_dtype
from anonbayes.inference.dirichlet import Prior, dirichlet_rows, draw_forest
from anonbayes.inference.horizontal.cell_layout import Arrays, HorizontalLayout
from anonbayes.inference.run import ChainState
from anonbayes.tables.table import ReleasedTable

__all__ = [
    "HiddenRows",
    "HorizontalEngine",
    "cell_probabilities",
    "draw_distributions",
    "log_likelihood",
    "sweeps",
]


# -------------------------------------------------------------------------------------------------
# Numba kernels of the horizontal Gibbs sampler. Plain arrays in and out.
#
# One sweep draws how many rows of each crossing (cell, sensitive value) have which true value, a
# multinomial, and then the distributions given these counts and the cells of the tree, a Dirichlet
# tree (MODEL 1.2 and 1.3). Its cost depends on the distinct cells, not on the number of rows.
#
# `d` is a `layout.Arrays`; flat vectors are laid out as described there.


@njit(cache=True, nogil=True)
def _allocate(pi, d, cell, s, n, counts, rng):  # type: ignore[no-untyped-def]
    """Share n rows of one cell among its values: a multinomial by successive binomials."""
    a = d.attribute[cell]
    where = d.start[a] + s * d.sizes[a]
    lo, hi = d.pointer[cell], d.pointer[cell + 1]
    total = 0.0
    for i in range(lo, hi):
        total += pi[where + d.values[i]] * d.likelihood[i]
    left = n
    for i in range(lo, hi - 1):
        if left == 0:
            return
        w = pi[where + d.values[i]] * d.likelihood[i]
        x = left if w >= total else rng.binomial(left, w / total)
        counts[where + d.values[i]] += x
        left -= x
        total -= w
    counts[where + d.values[hi - 1]] += left


@njit(cache=True, nogil=True)
def cell_probabilities(pi, d, n_secrets):  # type: ignore[no-untyped-def]
    """``P(cell | s) = sum_k pi_a|s(k) E_cell(k)`` of every cell, shape ``(cells, S)``."""
    out = np.zeros((len(d.attribute), n_secrets))
    for cell in range(len(d.attribute)):
        a = d.attribute[cell]
        for s in range(n_secrets):
            where = d.start[a] + s * d.sizes[a]
            for i in range(d.pointer[cell], d.pointer[cell + 1]):
                out[cell, s] += pi[where + d.values[i]] * d.likelihood[i]
    return out


@njit(cache=True, nogil=True)
def _draw_secrets(pi_secret, pi, d, secret_counts, rng):  # type: ignore[no-untyped-def]
    """Draw the latent sensitive values; return the rows per (cell, s).

    Rows that show the same record are shared among the sensitive values by one multinomial.
    """
    n_secrets = len(pi_secret)
    probability = cell_probabilities(pi, d, n_secrets)
    rows = np.zeros((len(d.attribute), n_secrets), dtype=np.int64)
    weight = np.zeros(n_secrets)
    for r in range(len(d.record_count)):
        total = 0.0
        for s in range(n_secrets):
            w = pi_secret[s] * d.secret_likelihood[d.record_secret[r], s]
            for a in range(d.record_cells.shape[1]):
                w *= probability[d.record_cells[r, a], s]
            weight[s] = w
            total += w
        left = d.record_count[r]
        for s in range(n_secrets):
            if left == 0:
                break
            last = s == n_secrets - 1 or weight[s] >= total
            x = left if last else rng.binomial(left, weight[s] / total)
            total -= weight[s]
            left -= x
            secret_counts[s] += x
            for a in range(d.record_cells.shape[1]):
                rows[d.record_cells[r, a], s] += x
    return rows


@njit(cache=True, nogil=True)
def draw_distributions(beta, counts, own, d, n_secrets, out, rng):  # type: ignore[no-untyped-def]
    """Draw ``pi_a|s`` of all attributes: Dirichlet trees with leaf weights ``beta + counts``.

    A node weighs its values plus the rows whose cell lies in it. Parents come before their
    children, so weights are summed from the last node to the first.
    """
    n_nodes = len(d.node_parent)
    weight, total, g = np.empty(n_nodes), np.empty(n_nodes), np.empty(n_nodes)
    for s in range(n_secrets):
        weight[:] = own[s]
        for a in range(len(d.sizes)):
            where = d.start[a] + s * d.sizes[a]
            for k in range(d.sizes[a]):
                weight[d.leaf_node[d.first_leaf[a] + k]] += beta[where + k] + counts[where + k]
        for v in range(n_nodes - 1, -1, -1):
            if d.node_parent[v] >= 0:
                weight[d.node_parent[v]] += weight[v]
        draw_forest(d.node_parent, weight, total, g, rng)
        for a in range(len(d.sizes)):
            where = d.start[a] + s * d.sizes[a]
            for k in range(d.sizes[a]):
                out[where + k] = g[d.leaf_node[d.first_leaf[a] + k]]


@njit(cache=True, nogil=True)
def log_likelihood(pi_secret, pi, d):  # type: ignore[no-untyped-def]
    """``log f(t* | pi)`` of MODEL 1.2, up to what does not depend on ``pi``."""
    n_secrets = len(pi_secret)
    probability = cell_probabilities(pi, d, n_secrets)
    out = 0.0
    for s in range(n_secrets):
        if d.secret_base[s] > 0.0:
            out += d.secret_base[s] * np.log(pi_secret[s])
    for t in range(d.crossing.shape[0]):
        out += d.crossing[t, 2] * np.log(probability[d.crossing[t, 0], d.crossing[t, 1]])
    if len(d.record_count) > 0:
        for r in range(len(d.record_count)):
            total = 0.0
            for s in range(n_secrets):
                w = pi_secret[s] * d.secret_likelihood[d.record_secret[r], s]
                for a in range(d.record_cells.shape[1]):
                    w *= probability[d.record_cells[r, a], s]
                total += w
            out += d.record_count[r] * np.log(total)
        return out
    # Cells of the tree: node v of value set {k} has probability sum of its values.
    mass = np.zeros(len(d.node_parent))
    for s in range(n_secrets):
        mass[:] = 0.0
        for a in range(len(d.sizes)):
            where = d.start[a] + s * d.sizes[a]
            for k in range(d.sizes[a]):
                mass[d.leaf_node[d.first_leaf[a] + k]] += pi[where + k]
        for v in range(len(mass) - 1, -1, -1):
            p = d.node_parent[v]
            if p >= 0:
                mass[p] += mass[v]
                if d.own[s, v] > 0.0:
                    out += d.own[s, v] * np.log(mass[v])
    return out


@njit(cache=True, nogil=True)
def sweeps(n, pi_secret, pi, alpha, beta, d, keep_secret, keep, keep_log, rng):  # type: ignore[no-untyped-def]
    """Run n sweeps from ``(pi_secret, pi)``, in place, and record every one."""
    n_secrets = len(pi_secret)
    for t in range(n):
        counts = np.zeros(len(pi))
        own = d.own
        secret_counts = d.secret_base.copy()
        if len(d.record_count) > 0:
            own = np.zeros_like(d.own)
            rows = _draw_secrets(pi_secret, pi, d, secret_counts, rng)
            for cell in range(rows.shape[0]):
                for s in range(n_secrets):
                    if rows[cell, s] > 0:
                        if d.cell_node[cell] >= 0:
                            own[s, d.cell_node[cell]] += rows[cell, s]
                        else:
                            _allocate(pi, d, cell, s, rows[cell, s], counts, rng)
        else:
            for i in range(d.crossing.shape[0]):
                cell, s, rows_here = d.crossing[i]
                _allocate(pi, d, cell, s, rows_here, counts, rng)
        draw_distributions(beta, counts, own, d, n_secrets, pi, rng)
        dirichlet_rows(
            (alpha + secret_counts).reshape(1, n_secrets), pi_secret.reshape(1, n_secrets), rng
        )
        keep_secret[t] = pi_secret
        keep[t] = pi
        keep_log[t] = log_likelihood(pi_secret, pi, d)


# -------------------------------------------------------------------------------------------------
# The hidden values of single rows of a horizontal table, drawn for given distributions.


@dataclass(frozen=True, eq=False)
class HiddenRows:
    """Rows whose hidden values are wanted.

    Given the distributions, the rows of a horizontal table are independent of one another, so any
    choice of them can be drawn on its own (MODEL 1.4).

    Attributes
    ----------
    layout : HorizontalLayout
        Of the table.
    dtypes : dict
        What is drawn, ``cleartext_<attribute>``, and the smallest integer type that holds its
        codes; the sensitive value is among it when it was released through a channel.
    cells, secret, secret_cells : numpy.ndarray
        The rows' cells, their sensitive values (-1 where latent) and sensitive cells.

    Examples
    --------
    >>> import anonbayes as ab
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"Nat": ["{M, J}", "C"], "Dis": ["Heart", "Flu"]})
    >>> table = ab.ReleasedTable.horizontal(frame, "Dis")
    >>> rows = HiddenRows.of(table, HorizontalLayout.of(table), np.arange(2))
    >>> pi_secret, pi = np.full((5, 2), 1 / 2), np.full((5, 6), 1 / 3)
    >>> drawn = rows.draw(pi_secret, pi, np.random.default_rng(1))["cleartext_Nat"]
    >>> table.domains["Nat"].labels, drawn.tolist()
    (('C', 'J', 'M'), [[2, 0], [1, 0], [1, 0], [2, 0], [2, 0]])
    """

    layout: HorizontalLayout
    dtypes: dict[str, np.dtype[Any]]
    cells: Ints
    secret: Ints
    secret_cells: Ints

    @classmethod
    def of(cls, table: ReleasedTable, layout: HorizontalLayout, rows: Ints) -> HiddenRows:
        """Collect what the table says of the rows."""
        arrays = layout.arrays
        first = np.searchsorted(arrays.attribute, np.arange(len(layout.names)))
        cells = [column.codes[rows].astype(np.int64) for column in table.columns.values()]
        sizes = dict(zip(layout.names, arrays.sizes, strict=True))
        if table.secrets_known:
            secret = table.secret_codes[rows].astype(np.int64)
        else:
            secret = np.full(len(rows), -1, dtype=np.int64)
            sizes[table.sensitive] = layout.n_secrets
        return cls(
            layout=layout,
            dtypes={f"cleartext_{k}": code_dtype(int(n)) for k, n in sizes.items()},
            cells=np.stack(cells, axis=1) + first,
            secret=secret,
            secret_cells=table.secret.codes[rows].astype(np.int64),
        )

    def draw(
        self, pi_secret: Floats, pi: Floats, rng: np.random.Generator
    ) -> dict[str, npt.NDArray[Any]]:
        """Draw the rows' values once for each given pair of distributions.

        Parameters
        ----------
        pi_secret : ndarray, shape (draws, S)
            Distribution of the sensitive value.
        pi : ndarray, shape (draws, length)
            Distributions of the attributes, flat as in the layout.
        rng : numpy.random.Generator
            Source.

        Returns
        -------
        dict of ndarray
            Codes of shape (draws, rows), with names and types as in `dtypes`.
        """
        widest = max(self.dtypes.values(), key=lambda dtype: dtype.itemsize)
        # One column more than attributes: the sensitive value.
        codes = np.empty((len(pi), len(self.layout.names) + 1, len(self.secret)), dtype=widest)
        _draw(
            pi_secret,
            pi,
            self.layout.arrays,
            self.cells,
            self.secret,
            self.secret_cells,
            codes,
            rng,
        )
        return {name: codes[:, a].astype(d) for a, (name, d) in enumerate(self.dtypes.items())}


@njit(cache=True, nogil=True)
def _draw(  # type: ignore[no-untyped-def]
    pi_secret, flat, d: Arrays, cells, known, secret_cells, codes, rng
):
    n_secrets, n_attributes = pi_secret.shape[1], cells.shape[1]
    weight = np.empty(n_secrets)
    for t in range(len(flat)):
        pi = flat[t]
        probability = cell_probabilities(pi, d, n_secrets)
        for j in range(cells.shape[0]):
            s = known[j]
            if s < 0:
                total = 0.0
                for z in range(n_secrets):
                    w = pi_secret[t, z] * d.secret_likelihood[secret_cells[j], z]
                    for a in range(n_attributes):
                        w *= probability[cells[j, a], z]
                    weight[z] = w
                    total += w
                u = rng.random() * total
                s = 0
                while s < n_secrets - 1 and u >= weight[s]:
                    u -= weight[s]
                    s += 1
                codes[t, n_attributes, j] = s
            for a in range(n_attributes):
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
                codes[t, a, j] = d.values[i]


# -------------------------------------------------------------------------------------------------
# Engine of horizontal tables: independent draws when cells are nested, a Gibbs sampler if not.

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
