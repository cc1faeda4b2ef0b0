"""How well a released cell fits what is known: ``P(knowledge | cell, secret)``, pair by pair."""

from __future__ import annotations

import numpy as np
from numba import njit
from scipy import sparse

from anonbayes.arrays import Floats
from anonbayes.inference.beliefs.index import Compatibility

__all__ = ["mean_fit", "pair_values"]


def pair_values(weight: sparse.csr_array, cells: sparse.csr_array, pairs: Compatibility) -> Floats:
    """``sum_k weight[v, k] cells[y, k]`` for the compatible pairs (v, y), in their order."""
    product = sparse.csr_array(weight @ cells.T)
    product.sort_indices()
    if len(product.indices) == len(pairs.cell):
        return np.asarray(product.data)
    # Pairs whose common values all weigh zero are no entries of the product.
    rows = np.repeat(np.arange(len(pairs.pointer) - 1), np.diff(pairs.pointer))
    return np.asarray(product[rows, pairs.cell]).ravel()


def mean_fit(
    draws: Floats, weight: sparse.csr_array, cells: sparse.csr_array, pairs: Compatibility
) -> Floats:
    """Average over draws ``pi[s, k]`` of ``sum_k w_v(k) pi(k) E_y(k) / sum_k pi(k) E_y(k)``.

    The conditional probabilities are averaged, not sampled values (Rao-Blackwell, MODEL 1.4).
    """
    out = np.zeros((len(pairs.cell), draws.shape[1]))
    _add_fits(
        np.ascontiguousarray(draws),
        (weight.indptr, weight.indices, weight.data),
        (cells.indptr, cells.indices, cells.data),
        pairs,
        out,
    )
    return out / len(draws)


@njit(cache=True, nogil=True)
def _add_fits(draws, weight, cells, pairs, out):  # type: ignore[no-untyped-def]
    w_pointer, w_index, w_data = weight
    c_pointer, c_index, c_data = cells
    n_secrets, size = draws.shape[1], draws.shape[2]
    total = np.empty(len(c_pointer) - 1)
    known = np.zeros(size)
    for t in range(len(draws)):
        for s in range(n_secrets):
            pi = draws[t, s]
            for y in range(len(total)):
                total[y] = 0.0
                for i in range(c_pointer[y], c_pointer[y + 1]):
                    total[y] += pi[c_index[i]] * c_data[i]
            for v in range(len(pairs.pointer) - 1):
                for i in range(w_pointer[v], w_pointer[v + 1]):
                    known[w_index[i]] = w_data[i]
                for p in range(pairs.pointer[v], pairs.pointer[v + 1]):
                    y = pairs.cell[p]
                    fit = 0.0
                    for i in range(c_pointer[y], c_pointer[y + 1]):
                        fit += known[c_index[i]] * pi[c_index[i]] * c_data[i]
                    # Where tiny weights leave a secret's cell without any probability, no row of
                    # that secret shows it.
                    if total[y] > 0.0:
                        out[p, s] += fit / total[y]
                for i in range(w_pointer[v], w_pointer[v + 1]):
                    known[w_index[i]] = 0.0
