"""Monte-Carlo errors of anything computed from beliefs: the Bayesian bootstrap over batches.

Shares of threatened rows, quantiles and maxima are no averages of draws, and they jump where two
guesses are nearly tied. So batches of draws get random weights (Dirichlet, as in Rubin 1981), and
everything is computed again: beliefs then move as much as another run of the sampler would move
them. Where chains disagree, the batches of one chain are no independent pieces; so whole chains
are weighted as well, and the larger error counts.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from anonbayes.arrays import Floats

__all__ = ["matched", "replicate_error", "replicate_weights", "weighted_sum"]

REPLICATES = 24


def _chains(n_batches: int, n_chains: int) -> int:
    """Chains that can be weighted as a whole; 0 when batches are chains already."""
    return n_chains if 1 < n_chains < n_batches and n_batches % n_chains == 0 else 0


def replicate_weights(n_batches: int, n_chains: int, replicates: int = REPLICATES) -> Floats:
    """Weights of the batches, one line per replicate: by batches, then by chains.

    They are the same at every call, so that measures computed piece by piece belong together.

    Examples
    --------
    >>> replicate_weights(4, 2, 3).shape, replicate_weights(4, 2, 3).sum(axis=1).round(9).tolist()
    ((6, 4), [1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    """
    rng = np.random.default_rng(1981)
    parts = [rng.dirichlet(np.ones(n_batches), size=replicates)]
    if chains := _chains(n_batches, n_chains):
        each = n_batches // chains
        parts.append(
            np.repeat(rng.dirichlet(np.ones(chains), size=replicates), each, axis=1) / each
        )
    return np.concatenate(parts)


def replicate_error(values: Floats, n_batches: int, n_chains: int) -> Floats:
    """Standard error from the values of a statistic under the `replicate_weights`.

    Examples
    --------
    For an average it is near the usual standard error.

    >>> batches = np.random.default_rng(0).normal(size=20)
    >>> again = replicate_weights(20, 1, 1000) @ batches
    >>> ratio = replicate_error(again, 20, 1) / (batches.std(ddof=1) / np.sqrt(20))
    >>> bool(abs(ratio - 1) < 0.1)
    True
    """
    chains = _chains(n_batches, n_chains)
    half = len(values) // 2 if chains else len(values)
    error = _spread(values[:half], n_batches)
    return np.fmax(error, _spread(values[half:], chains)) if chains else error


def matched(one: Floats, two: Floats, n_chains: int) -> tuple[Floats, Floats]:
    """Merge neighbouring batches of the same chains until both sets have the same number.

    Examples
    --------
    >>> one, two = matched(np.arange(8.0), np.arange(4.0), 2)
    >>> one.tolist(), two.tolist()
    ([0.5, 2.5, 4.5, 6.5], [0.0, 1.0, 2.0, 3.0])
    """
    n = n_chains * math.gcd(len(one) // n_chains, len(two) // n_chains)
    merged = [b.reshape(n, -1, *b.shape[1:]).mean(axis=1) for b in (one, two)]
    return merged[0], merged[1]


def weighted_sum(weights: Floats, batches: Floats) -> Floats:
    """``sum_b weights[b] * batches[b]``, rounded alike in every place of the array.

    A product of matrices is not: its rounding depends on the number of columns.

    Examples
    --------
    >>> weighted_sum(np.array([0.5, 0.25]), np.array([[1.0, 2.0], [4.0, 0.0]])).tolist()
    [1.5, 1.0]
    """
    out = np.zeros(batches[0].size)
    _add_weighted(weights, np.ascontiguousarray(batches).reshape(len(batches), -1), out)
    return out.reshape(batches.shape[1:])


@njit(cache=True, nogil=True)
def _add_weighted(weights, batches, out):  # type: ignore[no-untyped-def]
    for b in range(len(weights)):
        for i in range(len(out)):
            out[i] += weights[b] * batches[b, i]


def _spread(values: Floats, n: int) -> Floats:
    """Spread of the replicates; n Dirichlet weights scatter less than n draws by (n-1)/(n+1)."""
    with np.errstate(invalid="ignore"):
        spread = values.std(axis=0, ddof=1) * np.sqrt((n + 1) / (n - 1))
    return np.where((values == values[0]).all(axis=0), 0.0, spread)  # no rounding where exact
