"""Where to cut the answers of a query so that the smallest region is as large as possible.

Quantize Thm. IV.3, (16b), with ``w = 2/gamma`` the widest bin that keeps the quality. If a region
holds a smaller answer than a region to its left does, equal parts of the two can be exchanged
without leaving either window of width ``w``. So regions that are contiguous in the answer lose
nothing, and dynamic programming finds the best.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from anonbayes.arrays import Codes, Floats
from anonbayes.channels.coarsening import SLACK, check_gamma

__all__ = ["largest_smallest_edges"]


def largest_smallest_edges(
    share_below: Callable[[Floats], Floats],
    lower: float,
    upper: float,
    gamma: float,
    *,
    resolution: int = 512,
) -> Floats:
    """Edges of bins no wider than ``2/gamma`` whose smallest share is as large as possible.

    Parameters
    ----------
    share_below : callable
        Share of the secrets whose answer is below each given value; vectorised.
    resolution : int
        Number of places for an edge in the first pass; later passes zoom in on the best ones.

    Examples
    --------
    Uniform shares, width at most 0.4: three equal bins.

    >>> largest_smallest_edges(lambda v: v, 0.0, 1.0, gamma=5).round(6).tolist()
    [0.0, 0.333333, 0.666667, 1.0]
    """
    check_gamma(gamma)
    width = 2 / gamma
    if width * (1 + SLACK) >= upper - lower:
        return np.array([lower, upper])
    # Bins of full width counted from either end: where a tight solution has its edges.
    chain = width * np.arange(1, math.ceil((upper - lower) / width))
    places = np.concatenate(
        [np.linspace(lower, upper, resolution + 1), lower + chain, upper - chain]
    )
    places = np.unique(places[(places >= lower) & (places <= upper)])
    edges = _best_chain(places, share_below(places), width)
    spacing = (upper - lower) / resolution
    least = np.diff(share_below(edges)).min()
    while spacing > 1e-10 * (upper - lower):
        nearby = _zoom(edges, share_below, width, spacing)
        gain = np.diff(share_below(nearby)).min() - least
        if gain > 0:
            edges, least = nearby, least + gain
        if gain <= 1e-3 * least * spacing / (upper - lower):
            spacing /= 4
    return edges


def _backtrack(shares: Floats, reach: Codes) -> Codes:
    """Cuts ``0 = c_0 < ... < c_q = n`` that maximise the least ``shares[c_i] - shares[c_(i-1)]``.

    A block that ends before cut ``j`` may start at cut ``reach[j-1]`` or later. Among equally good
    solutions the one with the fewest blocks is taken.
    """
    n = len(shares) - 1
    best, count = np.full(n + 1, -np.inf), np.zeros(n + 1, dtype=np.intp)
    origin = np.zeros(n + 1, dtype=np.intp)
    best[0] = np.inf
    for j in range(1, n + 1):
        first = reach[j - 1]
        smallest = np.minimum(best[first:j], shares[j] - shares[first:j])
        good = np.flatnonzero(smallest >= smallest.max() - 1e-12 * shares[-1])
        pick = first + int(good[np.argmin(count[first:j][good])])
        best[j], count[j], origin[j] = smallest[pick - first], count[pick] + 1, pick
    cuts = [n]
    while cuts[-1] > 0:
        cuts.append(int(origin[cuts[-1]]))
    return np.asarray(cuts[::-1], dtype=np.intp)


def _best_chain(places: Floats, shares: Floats, width: float) -> Floats:
    reach = np.searchsorted(places, places[1:] - width * (1 + SLACK), side="left")
    return places[_backtrack(shares, reach)]


def _zoom(
    edges: Floats, share_below: Callable[[Floats], Floats], width: float, spacing: float
) -> Floats:
    """Improve the inner edges on a finer grid around each of them, all at once."""
    offsets = spacing * np.linspace(-1, 1, 17)
    layers = np.clip(edges[1:-1, None] + offsets, edges[0], edges[-1])
    layers = np.concatenate([np.full((1, 17), edges[0]), layers, np.full((1, 17), edges[-1])])
    shares = np.asarray(share_below(layers.ravel())).reshape(layers.shape)
    best, origin = np.full(17, np.inf), []
    for k in range(1, len(layers)):
        gap = layers[k][None, :] - layers[k - 1][:, None]
        gain = np.minimum(best[:, None], shares[k][None, :] - shares[k - 1][:, None])
        gain[(gap > width * (1 + SLACK)) | (gap <= 0)] = -np.inf
        # Column 8 is the present edge: it wins ties, so the edges do not drift.
        gain[8] += 1e-15
        origin.append(np.argmax(gain, axis=0))
        best = gain.max(axis=0)
    if not np.isfinite(best.max()):
        return edges
    path = [int(np.argmax(best))]
    for back in origin[::-1]:
        path.append(int(back[path[-1]]))
    return layers[np.arange(len(layers)), path[::-1]]
