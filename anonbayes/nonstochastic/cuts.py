"""Partitions: where to cut the answers of a query; the best answers about finitely many secrets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.arrays import Codes, Floats, read_numbers
from anonbayes.channels.coarsening import SLACK, check_gamma
from anonbayes.errors import ChannelError, one_of
from anonbayes.nonstochastic.relations import Relation, Uncertain

__all__ = [
    "FinitePolicy",
    "fewest_blocks",
    "largest_smallest_block",
    "largest_smallest_edges",
    "optimal_finite_policy",
]


# -------------------------------------------------------------------------------------------------
# How to cut the range of a query: fewest bins, or the largest smallest bin.
#
# Two problems of Quantize Thm. IV.3, with ``w = 2/gamma`` the widest bin that keeps the quality:
#
# * fewest bins (18), optimal for maximin information: the uniform quantizer on an interval, the
#   greedy cover on finitely many values;
# * the largest smallest bin (16b), optimal for leakage. If a region holds a smaller answer than a
#   region to its left does, equal parts of the two can be exchanged without leaving either window
#   of width ``w``. So regions that are contiguous in the answer lose nothing (unless the secrets
#   are few and of unequal size), and dynamic programming finds the best.


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


def fewest_blocks(values: npt.ArrayLike, gamma: float) -> Codes:
    """Block of each of finitely many answers, with the fewest blocks of radius ``1/gamma``.

    Each block starts at the smallest answer not yet covered, which is optimal.

    Examples
    --------
    >>> fewest_blocks([0.0, 3.0, 1.0, 2.0, 9.0], gamma=1).tolist()
    [0, 1, 0, 0, 2]
    """
    answers, order = _sorted(values)
    check_gamma(gamma)
    blocks = np.empty(answers.size, dtype=np.intp)
    block, start = -1, 0
    while start < answers.size:
        block += 1
        reach = answers[start] + (2 / gamma) * (1 + SLACK)
        stop = int(np.searchsorted(answers, reach, side="right"))
        blocks[order[start:stop]] = block
        start = stop
    return blocks


def largest_smallest_block(
    values: npt.ArrayLike, gamma: float, *, measure: npt.ArrayLike | None = None
) -> Codes:
    """Block of each of finitely many answers, radius ``1/gamma``, with the largest smallest one.

    Examples
    --------
    Greedy blocks would leave the last answer alone; these have two members each:

    >>> largest_smallest_block([0.0, 1.0, 2.0, 3.0], gamma=1).tolist()
    [0, 0, 1, 1]
    """
    answers, order = _sorted(values)
    check_gamma(gamma)
    sizes = np.ones(answers.size) if measure is None else _sizes(measure, answers.size)[order]
    shares = np.concatenate([[0.0], np.cumsum(sizes)])
    reach = np.searchsorted(answers, answers - (2 / gamma) * (1 + SLACK), side="left")
    cuts = _backtrack(shares, reach)
    blocks = np.empty(answers.size, dtype=np.intp)
    blocks[order] = np.searchsorted(cuts[1:-1], np.arange(answers.size), side="right")
    return blocks


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


def _sizes(measure: npt.ArrayLike, n: int) -> Floats:
    sizes = read_numbers("measure", measure)
    if sizes.shape != (n,):
        raise ChannelError(f"measure has shape {sizes.shape}, but there are {n} secrets.")
    return sizes


def _sorted(values: npt.ArrayLike) -> tuple[Floats, Codes]:
    answers = read_numbers("values", values, error=ChannelError)
    if answers.ndim != 1 or answers.size == 0 or not np.all(np.isfinite(answers)):
        raise ChannelError("Answers must be a non-empty list of finite numbers.")
    order = np.argsort(answers, kind="stable")
    return answers[order], order


# -------------------------------------------------------------------------------------------------
# Optimal deterministic answers when finitely many secrets are possible.


@dataclass(frozen=True, eq=False)
class FinitePolicy(Uncertain):
    """Answers to a scalar query for each of finitely many secrets.

    Attributes
    ----------
    values : array
        True answer of each secret.
    answers : array
        Released answer of each secret: the middle of the true answers of its block.
    relation : Relation
        Secrets and released answers; the measures of `anonbayes.nonstochastic` read it.
    """

    values: Floats
    answers: Floats
    relation: Relation

    @property
    def log_measure(self) -> float:
        """Entropy ``h0(X)`` of the secret."""
        return self.relation.log_measure

    @property
    def conditional_log_measures(self) -> Floats:
        """Log-size of each block."""
        return self.relation.conditional_log_measures

    @property
    def n_components(self) -> int:
        """Number of blocks."""
        return self.relation.n_components

    @cached_property
    def quality(self) -> float:
        """One over the largest error of an answer (Quantize (11))."""
        worst = float(np.abs(self.answers - self.values).max())
        return math.inf if worst == 0 else 1 / worst

    def summary(self) -> pd.DataFrame:
        """One row per block: its answer, its size, the range of its true answers."""
        block = self.relation.matrix.indices
        rows = pd.DataFrame({"block": block, "answer": self.answers, "value": self.values})
        rows["size"] = self.relation.measure
        grouped = rows.groupby("block", sort=True)
        return grouped.agg(
            answer=("answer", "first"),
            size=("size", "sum"),
            lower=("value", "min"),
            upper=("value", "max"),
        ).reset_index(drop=True)


def optimal_finite_policy(
    values: npt.ArrayLike,
    gamma: float,
    *,
    metric: str = "maximin",
    measure: npt.ArrayLike | None = None,
) -> FinitePolicy:
    """Most private answers with errors of at most ``1/gamma``, for finitely many secrets.

    The finite form of Quantize Thm. IV.3, optimal over *all* partitions of the secrets, also those
    that give different answers to secrets with the same true answer. Only for "leakage" and
    secrets of unequal size it is optimal among blocks that are contiguous in the true answer
    (without that restriction the problem is bin covering, which is hard).

    Parameters
    ----------
    values : array_like of float
        True answer of each secret.
    gamma : float
        Wanted quality.
    metric : {"maximin", "leakage"}
        Fewest blocks (17), or the largest smallest block (16).
    measure : array_like of float, optional
        Size of each secret; 1 by default.

    Examples
    --------
    >>> import anonbayes as ab
    >>> policy = optimal_finite_policy([0, 1, 2, 3], gamma=1, metric="leakage")
    >>> policy.answers.tolist(), round(ab.nonstochastic.leakage(policy), 6)
    ([0.5, 0.5, 2.5, 2.5], 0.693147)
    """
    one_of("metric", metric, ["maximin", "leakage"])
    if metric == "maximin":
        blocks = fewest_blocks(values, gamma)
    else:
        blocks = largest_smallest_block(values, gamma, measure=measure)
    true = np.asarray(values, dtype=float)
    relation = Relation.from_pairs(np.arange(len(true)), blocks, measure=measure)
    n = int(blocks.max()) + 1
    low, high = np.full(n, np.inf), np.full(n, -np.inf)
    np.minimum.at(low, blocks, true)
    np.maximum.at(high, blocks, true)
    return FinitePolicy(true, ((low + high) / 2)[blocks], relation)
