"""Numba kernels of the horizontal Gibbs sampler. Plain arrays in and out.

One sweep draws how many rows of each crossing (cell, sensitive value) have which true value, a
multinomial, and then the distributions given these counts and the cells of the tree, a Dirichlet
tree (MODEL 1.2 and 1.3). Its cost depends on the distinct cells, not on the number of rows.

`d` is a `layout.Arrays`; flat vectors are laid out as described there.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from anonbayes.inference.dirichlet import dirichlet_rows, draw_forest

__all__ = ["cell_probabilities", "draw_distributions", "log_likelihood", "sweeps"]


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
