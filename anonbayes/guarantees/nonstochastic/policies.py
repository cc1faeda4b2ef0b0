"""Optimal deterministic answers to a scalar query about a secret in a box."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.interpolate import PchipInterpolator

from anonbayes.errors import ChannelError, one_of
from anonbayes.guarantees.nonstochastic import measures
from anonbayes.guarantees.nonstochastic.balls import smallest_enclosing_ball
from anonbayes.guarantees.nonstochastic.boxes import Box, LinearQuery, Query, as_query, query_range
from anonbayes.guarantees.nonstochastic.lines import Cells
from anonbayes.guarantees.nonstochastic.outlines import Ball, connected_parts, enclosing_balls
from anonbayes.guarantees.nonstochastic.partitions import (
    largest_smallest_edges,
    n_bins,
    uniform_edges,
)
from anonbayes.guarantees.nonstochastic.slabs import (
    MAX_CORNER_DIMENSION,
    corner_radius,
    log_slab_measures,
    n_terms,
    slab_corners,
)
from anonbayes.guarantees.nonstochastic.volumes import cell_volumes, rough_volumes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Policy", "Region", "optimal_policy", "quantized_query"]

Floats = npt.NDArray[np.float64]

MAX_EXACT_TERMS = 2**14
"""Inclusion-exclusion sums longer than this are replaced by quasi-Monte Carlo."""


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
        Error of the volume: zero if exact, else a bound (quadrature) or a standard error.
    """

    level: float
    lower: float
    upper: float
    log_measure: float
    error: float

    @property
    def measure(self) -> float:
        """Volume of the region."""
        return math.exp(self.log_measure)


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
        return measures.leakage(self)

    @property
    def maximin_information(self) -> float:
        """Maximin information ``I*(X; f~(X))`` in nats."""
        return measures.maximin_information(self)

    @property
    def quality(self) -> float:
        """One over the largest error of an answer (Quantize (11))."""
        worst = max((region.upper - region.lower) / 2 for region in self.regions)
        return math.inf if worst == 0 else 1 / worst

    @property
    def adversary_error_bound(self) -> float:
        """Lower bound on the adversary's error, from the smallest volume (Quantize Thm. II.2)."""
        return measures.adversary_error_bound(self)

    @property
    def adversary_error(self) -> float:
        """Smallest worst-case error over the answers, ``d_min`` of Quantize (7).

        The radius of the smallest ball around a region, least over all regions.
        """
        return float(np.nanmin([ball.radius for ball in self.balls]))

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
                "measure": np.exp(self.conditional_log_measures),
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
            "maximin_information": self.maximin_information,
            "adversary_error": self.adversary_error,
            "adversary_error_bound": self.adversary_error_bound,
            "regions": self.summary().astype(object).to_dict(orient="records"),
        }
        text = json.dumps(content, indent=2, default=lambda v: None if v is pd.NA else v.item())
        if path is not None:
            Path(path).write_text(text + "\n", encoding="utf-8")
        return text

    def plot_regions(self, ax: Axes | None = None) -> Axes:
        """Draw the regions of a two-dimensional secret (Quantize Figures 1 and 2)."""
        from anonbayes.guarantees.nonstochastic.plots import plot_regions

        return plot_regions(self, ax)

    def __repr__(self) -> str:
        return (
            f"Policy({len(self.regions)} answers, quality {self.quality:.4g}, leakage "
            f"{self.leakage:.4g} nats, maximin information {self.maximin_information:.4g} nats, "
            f"{self.method})"
        )

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p>{escape(repr(self))}</p>{self.summary().to_html(index=False)}"


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
        ``ceil(gamma (hi-lo)/2)`` bins. "leakage" maximises the smallest region (16) among all
        policies that depend on the secret through the query; it never leaks more than the uniform
        quantizer, and leaks less when ``gamma (hi-lo)/2`` is not a whole number.
    value_range : (float, float), optional
        Range of the query on the box, if known. Otherwise it is computed (linear queries) or
        searched for; see `query_range`.
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
    low, high = value_range if value_range is not None else query_range(asked, box)
    bins = n_bins(low, high, gamma)
    edges = uniform_edges(low, high, bins)
    if metric == "leakage" and bins > 1:
        share_below = _share_below(asked, box, low, high)
        edges = largest_smallest_edges(share_below, low, high, gamma)
    return quantized_query(
        asked, box, edges, metric=metric, tolerance=tolerance, n_lines=n_lines, seed=seed
    )


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
