"""Policies: deterministic answers to queries, and the best of them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.interpolate import PchipInterpolator

from anonbayes.arrays import Codes, Floats
from anonbayes.channels.coarsening import SLACK, check_gamma, n_bins, uniform_edges
from anonbayes.errors import ChannelError, one_of
from anonbayes.nonstochastic import ranges
from anonbayes.nonstochastic.geometry import (
    Box,
    LinearQuery,
    Query,
    as_query,
    query_range,
    smallest_enclosing_ball,
)
from anonbayes.nonstochastic.ranges import write_json
from anonbayes.nonstochastic.regions import (
    MAX_CORNER_DIMENSION,
    Ball,
    Cells,
    cell_volumes,
    connected_parts,
    corner_radius,
    enclosing_balls,
    log_slab_measures,
    n_terms,
    rough_volumes,
    slab_corners,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "Policy",
    "Region",
    "fewest_blocks",
    "largest_smallest_block",
    "largest_smallest_edges",
    "optimal_policy",
    "quantized_query",
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
    sizes = np.ones(answers.size) if measure is None else np.asarray(measure, dtype=float)[order]
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


def _sorted(values: npt.ArrayLike) -> tuple[Floats, Codes]:
    answers = np.asarray(values, dtype=float)
    if answers.ndim != 1 or answers.size == 0 or not np.all(np.isfinite(answers)):
        raise ChannelError("Answers must be a non-empty list of finite numbers.")
    order = np.argsort(answers, kind="stable")
    return answers[order], order


# -------------------------------------------------------------------------------------------------
# Policies: deterministic answers to a scalar query about a secret in a box.


@dataclass(frozen=True)
class Region:
    """Secrets that give the same answer.

    Attributes
    ----------
    level : float
        The answer ``b_i``.
    lower, upper : float
        True values of the query in the region: ``lower <= f(x) < upper``.
    log_measure : float
        Logarithm of the volume.
    error : float
        Error of the volume: zero if exact, else estimated (quadrature) or a standard error.
    """

    level: float
    lower: float
    upper: float
    log_measure: float
    error: float

    @property
    def measure(self) -> float:
        """Volume of the region; infinite when it exceeds the largest float."""
        return float(_exp(self.log_measure))


@dataclass(frozen=True, eq=False)
class Policy:
    """Quantized query on a box: its answers, their regions, and what they give away.

    Made by `optimal_policy` or `quantized_query`. The measures of `anonbayes.nonstochastic` take a
    policy in place of a relation.

    Attributes
    ----------
    query : callable
        The scalar query ``f``.
    box : Box
        Where the secret can be.
    edges : array
        Borders of the bins of the answer.
    regions : tuple of Region
        In the order of the answers. Bins that no secret reaches have no region.
    metric : str
        What the edges are optimal for: "maximin", "leakage", or "given".
    method : str
        How the volumes were found: "exact", "quadrature" or "quasi-Monte Carlo".
    """

    query: Query
    box: Box
    edges: Floats
    regions: tuple[Region, ...]
    metric: str
    method: str

    @property
    def dimension(self) -> int:
        """Dimension of the secret."""
        return self.box.dimension

    @property
    def levels(self) -> Floats:
        """The possible answers, ascending."""
        return np.array([region.level for region in self.regions])

    @property
    def log_measure(self) -> float:
        """Entropy ``h0(X)`` of the secret."""
        return self.box.log_measure

    @property
    def conditional_log_measures(self) -> Floats:
        """Log-volume of each region."""
        return np.array([region.log_measure for region in self.regions])

    @property
    def n_components(self) -> int:
        """Number of taxicab components: for a function of the secret, of different answers."""
        return len(self.regions)

    @property
    def smallest_region(self) -> Region:
        """The region that gives most away."""
        return min(self.regions, key=lambda region: region.log_measure)

    @property
    def leakage(self) -> float:
        """Leakage ``L0(X; f~(X))`` in nats."""
        return ranges.leakage(self)

    @property
    def leakage_error(self) -> float:
        """Error of `leakage` that follows from that of the smallest region.

        Zero when exact, infinite when no random line met the region.
        """
        least = self.smallest_region
        if least.log_measure == -math.inf:
            return math.inf
        return 0.0 if least.error == 0 else least.error / least.measure

    @property
    def maximin_information(self) -> float:
        """Maximin information ``I*(X; f~(X))`` in nats."""
        return ranges.maximin_information(self)

    @property
    def quality(self) -> float:
        """One over the largest error of an answer (Quantize (11))."""
        worst = max((region.upper - region.lower) / 2 for region in self.regions)
        return math.inf if worst == 0 else 1 / worst

    @property
    def adversary_error_bound(self) -> float:
        """Lower bound on the adversary's error, from the smallest volume (Quantize Thm. II.2)."""
        return ranges.adversary_error_bound(self)

    @property
    def adversary_error(self) -> float:
        """Smallest worst-case error over the answers, ``d_min`` of Quantize (7).

        The radius of the smallest ball around a region, least over all regions whose ball is
        known; exactly ``d_min`` when the centre of that ball is itself consistent with the answer.
        """
        known = [ball.radius for ball in self.balls if not math.isnan(ball.radius)]
        return min(known, default=math.nan)

    @cached_property
    def cells(self) -> Cells:
        """The partition of the box as a kernel object."""
        return Cells([self.query], [self.edges[1:-1]])

    @cached_property
    def balls(self) -> tuple[Ball, ...]:
        """Smallest enclosing ball of each region.

        Exact for linear queries (above ten coordinates only for the two extreme answers of equal
        weights, NaN elsewhere) and in one dimension, to rounding in two, an estimate from below
        for other queries in three or more.
        """
        if isinstance(self.query, LinearQuery):
            found = [self._linear_ball(self.query, region) for region in self.regions]
        else:
            codes = np.searchsorted(self.edges[1:-1], self.levels, side="right")
            by_cell = enclosing_balls(self.cells, self.box, codes)
            unknown = (np.full(self.dimension, np.nan), math.nan)
            found = [by_cell.get(int(code), unknown) for code in codes]
        return tuple(
            Ball(tuple(centre.tolist()), float(radius), self._could_be(centre, region))
            for (centre, radius), region in zip(found, self.regions, strict=True)
        )

    def _linear_ball(self, query: LinearQuery, region: Region) -> tuple[Floats, float]:
        low, high = query.range(self.box)
        if self.dimension <= MAX_CORNER_DIMENSION:
            corners = slab_corners(query, self.box, region.lower, region.upper)
            return smallest_enclosing_ball(corners)
        signs = np.sign(query.weights)
        for extreme, depth, towards in (
            (region.lower <= low, region.upper - low, signs),
            (region.upper >= high, high - region.lower, -signs),
        ):
            known = corner_radius(query, self.box, depth) if extreme else None
            if known is not None:
                corner = np.where(towards > 0, self.box.lower, self.box.upper)
                return corner + towards * known[1], known[0]
        return np.full(self.dimension, np.nan), math.nan

    def _could_be(self, centre: Floats, region: Region) -> bool:
        if not self.box.contains(centre):
            return False
        value, slack = float(self.query(centre)), 1e-9 * float(np.ptp(self.edges))
        return region.lower - slack <= value <= region.upper + slack

    @cached_property
    def connected_parts(self) -> npt.NDArray[np.intp] | None:
        """Number of connected parts of each region, seen on a grid; None above two dimensions.

        Slabs of a box, the regions of a linear query, are convex: one part in any dimension.
        """
        if isinstance(self.query, LinearQuery):
            return np.ones(len(self.regions), dtype=np.intp)
        parts = connected_parts(self.cells, self.box)
        if parts is None:
            return None
        return parts[np.searchsorted(self.edges[1:-1], self.levels, side="right")]

    def answer(self, data: npt.ArrayLike) -> Any:
        """Answer the query about `data`, a secret in the box (or several, along the last axis).

        The same secret always gets the same answer: asking twice tells nothing new.
        """
        x = np.asarray(data, dtype=float)
        if x.ndim == 0 or x.shape[-1] != self.dimension:
            raise ChannelError(
                f"The secret has shape {x.shape}, the box has {self.dimension} coordinates."
            )
        inside = self.box.contains(x)
        if not np.all(inside):
            bad = x if x.ndim == 1 else x[~inside][0]
            i = int(np.argmax((bad < self.box.lower) | (bad > self.box.upper) | np.isnan(bad)))
            raise ChannelError(
                f"Coordinate {i} of the secret is {bad[i]:g}, outside "
                f"[{self.box.lower[i]:g}, {self.box.upper[i]:g}]; the guarantee holds inside the "
                "box only. Give the box the full range of possible secrets."
            )
        borders = np.array([region.lower for region in self.regions[1:]])
        code = np.searchsorted(borders, self.query(x), side="right")
        chosen = self.levels[code]
        return float(chosen) if np.ndim(chosen) == 0 else chosen

    def summary(self) -> pd.DataFrame:
        """One row per region: bin, answer, volume and its error, ball, connected parts."""
        parts = self.connected_parts
        return pd.DataFrame(
            {
                "level": self.levels,
                "lower": [region.lower for region in self.regions],
                "upper": [region.upper for region in self.regions],
                "measure": _exp(self.conditional_log_measures),
                "error": [region.error for region in self.regions],
                "leakage": self.log_measure - self.conditional_log_measures,
                "radius": [ball.radius for ball in self.balls],
                "consistent": [ball.consistent for ball in self.balls],
                "parts": pd.array([None] * len(self.regions) if parts is None else parts, "Int64"),
            }
        )

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the regions and the measures as JSON text; write it to `path` if given."""
        content = {
            "box": {"lower": self.box.lower, "upper": self.box.upper},
            "metric": self.metric,
            "method": self.method,
            "quality": self.quality,
            "leakage": self.leakage,
            "leakage_error": self.leakage_error,
            "maximin_information": self.maximin_information,
            "adversary_error": self.adversary_error,
            "adversary_error_bound": self.adversary_error_bound,
            "regions": self.summary(),
        }
        return write_json(content, path)

    def plot_regions(self, ax: Axes | None = None) -> Axes:
        """Draw the regions of a two-dimensional secret (Quantize Figures 1 and 2)."""
        from anonbayes.nonstochastic.policy_plots import plot_regions

        return plot_regions(self, ax)

    def __repr__(self) -> str:
        return (
            f"Policy({len(self.regions)} answers, quality {self.quality:.4g}, leakage "
            f"{self.leakage:.4g} nats, maximin information {self.maximin_information:.4g} nats, "
            f"{self.method})"
        )

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.summary().to_html(index=False)}"


def _exp(logs: Any) -> Any:
    with np.errstate(over="ignore"):
        return np.exp(logs)


# -------------------------------------------------------------------------------------------------
# Optimal deterministic answers to a scalar query about a secret in a box.

MAX_EXACT_TERMS = 2**14
"""Inclusion-exclusion sums longer than this are replaced by quasi-Monte Carlo."""


def optimal_policy(
    query: Any,
    box: Box,
    gamma: float,
    *,
    metric: str = "maximin",
    value_range: tuple[float, float] | None = None,
    tolerance: float = 1e-10,
    n_lines: int = 8192,
    seed: int | np.random.Generator | None = 0,
) -> Policy:
    """Most private deterministic answers with errors of at most ``1/gamma`` (Quantize Thm. IV.3).

    Parameters
    ----------
    query : callable, LinearQuery or list of weights
        Scalar query. A callable gets points along the last axis, shape ``(..., n)``, and returns
        shape ``(...)``. Linear queries are treated exactly.
    box : Box
        Where the secret can be.
    gamma : float
        Wanted quality: one over the largest error of an answer.
    metric : {"maximin", "leakage"}
        "maximin" minimises the number of different answers (17): the uniform quantizer with
        ``ceil(gamma (hi-lo)/2)`` bins. "leakage" maximises the smallest region (16) among the
        policies that depend on the secret through the query (no loss unless a single answer has a
        region of its own size); it never leaks more than the uniform quantizer, and usually less
        when ``gamma (hi-lo)/2`` is not a whole number.
    value_range : (float, float), optional
        Bounds on the answers, if they are known. Otherwise the smallest and the largest answer on
        the box are computed (linear queries) or searched for; see `query_range`.
    tolerance : float
        Error of areas relative to the box (two coordinates).
    n_lines, seed : int
        Lines and seed of the quasi-Monte Carlo volumes (three coordinates or more, not linear).

    Examples
    --------
    The mean of two numbers (Quantize Ex. IV.1):

    >>> import anonbayes as ab
    >>> ns = ab.nonstochastic
    >>> policy = ns.optimal_policy(ns.LinearQuery.mean(2), ns.Box.cube(-2, 2, 2), gamma=2)
    >>> policy.levels.tolist(), policy.answer([0.3, 1.1])
    ([-1.5, -0.5, 0.5, 1.5], 0.5)
    >>> policy.summary()[["level", "measure", "radius"]].round(4).iloc[0].tolist()
    [-1.5, 2.0, 1.4142]

    A finer demand, and the edges that leak least:

    >>> uniform = ns.optimal_policy([0.5, 0.5], ns.Box.cube(-2, 2, 2), gamma=1.9)
    >>> best = ns.optimal_policy([0.5, 0.5], ns.Box.cube(-2, 2, 2), gamma=1.9, metric="leakage")
    >>> round(uniform.leakage, 4), round(best.leakage, 4)
    (2.0794, 1.9769)
    """
    one_of("metric", metric, ["maximin", "leakage"])
    asked = as_query(query, box)
    low, high = query_range(asked, box)
    if value_range is not None:
        low, high = _check_range(value_range, low, high)
    bins = n_bins(low, high, gamma)
    edges = uniform_edges(low, high, bins)
    if metric == "leakage" and bins > 1:
        share_below = _share_below(asked, box, low, high)
        edges = largest_smallest_edges(share_below, low, high, gamma)
    return quantized_query(
        asked, box, edges, metric=metric, tolerance=tolerance, n_lines=n_lines, seed=seed
    )


def _check_range(given: tuple[float, float], low: float, high: float) -> tuple[float, float]:
    slack = 1e-9 * max(high - low, abs(low), abs(high))
    if not (given[0] <= low + slack and given[1] >= high - slack):
        raise ChannelError(
            f"value_range=({given[0]:g}, {given[1]:g}) does not hold all answers of the query, "
            f"which reach from {low:g} to {high:g} on the box."
        )
    return float(given[0]), float(given[1])


def quantized_query(
    query: Any,
    box: Box,
    edges: npt.ArrayLike,
    *,
    metric: str = "given",
    tolerance: float = 1e-10,
    n_lines: int = 8192,
    seed: int | np.random.Generator | None = 0,
) -> Policy:
    """Policy that answers with the middle of the bin between the given `edges`.

    The first and the last edge are the ends of the range of the query.

    Examples
    --------
    >>> quantized_query([1.0], Box(0, 1), [0, 0.1, 1])
    Policy(2 answers, quality 2.222, leakage 2.303 nats, maximin information 0.6931 nats, exact)
    """
    asked = as_query(query, box)
    borders = np.asarray(edges, dtype=float)
    if borders.ndim != 1 or len(borders) < 2 or np.any(np.diff(borders) < 0):
        raise ChannelError("edges must be an ascending list of at least two numbers.")
    log_volumes, errors, method = _log_volumes(
        asked, box, borders, tolerance=tolerance, n_lines=n_lines, seed=seed
    )
    # A bin of volume zero is never the answer, unless points at random merely missed it.
    kept = np.isfinite(log_volumes) | (method == "quasi-Monte Carlo")
    regions = tuple(
        Region(float((a + b) / 2), float(a), float(b), float(size), float(error))
        for a, b, size, error in zip(
            borders[:-1][kept], borders[1:][kept], log_volumes[kept], errors[kept], strict=True
        )
    )
    return Policy(asked, box, borders, regions, metric, method)


def _log_volumes(
    query: Query, box: Box, edges: Floats, **settings: Any
) -> tuple[Floats, Floats, str]:
    if _is_exact(query, box):
        return log_slab_measures(query, box, edges), np.zeros(len(edges) - 1), "exact"
    volumes, errors, method = cell_volumes(Cells([query], [edges[1:-1]]), box, **settings)
    volumes[volumes < 1e-13 * box.volume] = 0.0  # slivers left by rounding of the cuts
    with np.errstate(divide="ignore"):
        return np.log(volumes), errors, method


def _share_below(query: Query, box: Box, low: float, high: float) -> Callable[[Floats], Floats]:
    """Share of the box below each answer, interpolated without overshoot between 257 values."""
    knots = np.linspace(low, high, 257)
    if _is_exact(query, box):
        shares = np.exp(log_slab_measures(query, box, knots) - box.log_measure)
    else:
        shares = rough_volumes(Cells([query], [knots[1:-1]]), box) / box.volume
    below = np.concatenate([[0.0], np.cumsum(shares)])
    return PchipInterpolator(knots, below / below[-1])


def _is_exact(query: Query, box: Box) -> TypeGuard[LinearQuery]:
    return isinstance(query, LinearQuery) and n_terms(query, box) <= MAX_EXACT_TERMS
