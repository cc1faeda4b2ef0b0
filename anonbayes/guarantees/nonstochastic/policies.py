"""Policies: deterministic answers to a scalar query about a secret in a box."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.arrays import Floats
from anonbayes.errors import ChannelError
from anonbayes.guarantees.nonstochastic import measures
from anonbayes.guarantees.nonstochastic.balls import smallest_enclosing_ball
from anonbayes.guarantees.nonstochastic.boxes import Box, LinearQuery, Query
from anonbayes.guarantees.nonstochastic.lines import Cells
from anonbayes.guarantees.nonstochastic.outlines import Ball, connected_parts, enclosing_balls
from anonbayes.guarantees.nonstochastic.rendering import write_json
from anonbayes.guarantees.nonstochastic.slabs import (
    MAX_CORNER_DIMENSION,
    corner_radius,
    slab_corners,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Policy", "Region"]


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
        return measures.leakage(self)

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
        from anonbayes.guarantees.nonstochastic.plots import plot_regions

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
