"""Numba kernels that draw Dirichlet vectors and Dirichlet trees. Plain arrays in and out."""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["dirichlet_rows", "draw_forest", "draw_trees"]


@njit(cache=True, nogil=True)
def log_gamma_draw(a, rng):  # type: ignore[no-untyped-def]
    """Logarithm of a gamma variable of shape a, safe for shapes far below one.

    A gamma variable of shape a < 1 is one of shape a + 1 times U^(1/a); in logarithms nothing
    underflows.
    """
    if a < 1.0:
        return np.log(rng.standard_gamma(a + 1.0)) - rng.standard_exponential() / a
    return np.log(rng.standard_gamma(a))


@njit(cache=True, nogil=True)
def dirichlet_rows(weights, out, rng):  # type: ignore[no-untyped-def]
    """Draw one Dirichlet vector per row of `weights` into `out`.

    Worked in logarithms, so that small weights do not underflow all at once.
    """
    for i in range(weights.shape[0]):
        top = -np.inf
        for k in range(weights.shape[1]):
            g = log_gamma_draw(weights[i, k], rng)
            out[i, k] = g
            top = max(top, g)
        total = 0.0
        for k in range(weights.shape[1]):
            out[i, k] = np.exp(out[i, k] - top)
            total += out[i, k]
        for k in range(weights.shape[1]):
            out[i, k] /= total


@njit(cache=True, nogil=True)
def draw_forest(parent, weight, total, g, rng):  # type: ignore[no-untyped-def]
    """Draw the probabilities of all nodes of Dirichlet trees into `g`, given their weights.

    Roots have parent -1; parents come before their children. A node's share is its gamma variable
    over the sum of its siblings', its probability the product of the shares above it. `total` is
    scratch space.
    """
    total[:] = -np.inf
    for v in range(len(parent)):
        if parent[v] >= 0:
            g[v] = log_gamma_draw(weight[v], rng)
            total[parent[v]] = max(total[parent[v]], g[v])
    for v in range(len(parent)):
        if parent[v] >= 0:
            g[v] = np.exp(g[v] - total[parent[v]])
    total[:] = 0.0
    for v in range(len(parent)):
        if parent[v] >= 0:
            total[parent[v]] += g[v]
    for v in range(len(parent)):
        g[v] = g[v] * g[parent[v]] / total[parent[v]] if parent[v] >= 0 else 1.0


@njit(cache=True, nogil=True)
def draw_trees(parent, weight, leaf_node, out, rng):  # type: ignore[no-untyped-def]
    """Draw ``out[draw, s, k]`` from trees of one shape with weights ``weight[s, node]``."""
    g, total = np.empty(len(parent)), np.empty(len(parent))
    for d in range(out.shape[0]):
        for s in range(weight.shape[0]):
            draw_forest(parent, weight[s], total, g, rng)
            for k in range(len(leaf_node)):
                out[d, s, k] = g[leaf_node[k]]
