"""Averages over draws with their Monte-Carlo error, by batch means.

Draws of all chains are cut into batches of successive draws. A belief computed from each batch
scatters around the one computed from all draws; the scatter over the square root of the number of
batches is its standard error, autocorrelation within batches included.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

__all__ = ["batch_slices", "standard_error"]

BATCHES = 20


def batch_slices(n_chains: int, n_draws: int, wanted: int = BATCHES) -> list[tuple[int, slice]]:
    """Cut ``(chain, draw)`` into about `wanted` batches, whole draws each.

    Examples
    --------
    >>> batch_slices(1, 10, 2)
    [(0, slice(0, 5, None)), (0, slice(5, 10, None))]
    """
    per_chain = max(1, min(n_draws, -(-wanted // n_chains)))
    edges = np.linspace(0, n_draws, per_chain + 1).round().astype(int)
    return [
        (chain, slice(int(a), int(b)))
        for chain in range(n_chains)
        for a, b in itertools.pairwise(edges)
    ]


def standard_error(batches: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Standard error of the average of batches (first axis); NaN for a single batch.

    Examples
    --------
    >>> standard_error(np.array([[0.4], [0.6]])).round(3).tolist()
    [0.1]
    """
    if len(batches) < 2:
        return np.full(batches.shape[1:], np.nan)
    return batches.std(axis=0, ddof=1) / np.sqrt(len(batches))
