"""Policies: deterministic answers to queries, optimal ones, and their plots."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.arrays import Floats, read_numbers
from anonbayes.channels.coarsening import UniformQuantizer, n_bins
from anonbayes.errors import ChannelError, one_of
from anonbayes.figures import COLOURS, SERIES, make_axes, make_panels
from anonbayes.nonstochastic import relations
from anonbayes.nonstochastic.geometry import (
    MAX_CORNER_DIMENSION,
    Box,
    LinearQuery,
    Outline,
    Query,
    as_query,
    corner_radius,
    largest_smallest_edges,
    log_slab_measures,
    outlines,
    query_range,
    region_volumes,
    slab_corners,
    smallest_enclosing_ball,
    values_on_grid,
)
from anonbayes.nonstochastic.relations import Uncertain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_ANSWERS = {"exact": 100_000, "contours": 1_000}
"""Largest number of answers of a policy, by the method that computes their volumes."""


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
        Estimated error of the volume, from two grids; zero if exact.
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


@dataclass(frozen=True)
class Ball:
    """Smallest ball around the secrets with the same answer.

    Attributes
    ----------
    centre : tuple of float
        The estimate with the smallest worst-case error.
    radius : float
        That error; NaN if it was not computed.
    consistent : bool
        Whether the centre could itself be the secret. If not (the region is hollow or in several
        parts), an adversary restricted to consistent estimates (Quantize Assumption II.1) has a
        larger error.
    """

    centre: tuple[float, ...]
    radius: float
    consistent: bool


@dataclass(frozen=True, eq=False)
class Policy(Uncertain):
    """Quantized query on a box: its answers, their regions, and what they reveal.

    Made by `optimal_policy` or `quantized_query`. The measures in `anonbayes.nonstochastic` accept
    a policy instead of a relation.

    Attributes
    ----------
    query : callable
        The scalar query ``f``.
    box : Box
        The set of possible secrets.
    edges : array
        Borders of the bins of the answer.
    regions : tuple of Region
        In the order of the answers. Bins without secrets have no region.
    metric : str
        The criterion for which the edges are optimal: "maximin", "leakage", or "given".
    method : str
        How the volumes were computed: "exact", or by "contours" on a grid.
    """

    query: Query
    box: Box
    edges: Floats
    regions: tuple[Region, ...]
    metric: str
    method: str

    @property
    def dimension(self) -> int:  # type: ignore[override]
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
        """Number of taxicab components: for a function of the secret, the number of answers."""
        return len(self.regions)

    @property
    def smallest_region(self) -> Region:
        """The region that reveals most."""
        return min(self.regions, key=lambda region: region.log_measure)

    @property
    def leakage(self) -> float:
        """Leakage ``L0(X; f~(X))`` in nats."""
        return relations.leakage(self)

    @property
    def maximin_information(self) -> float:
        """Maximin information ``I*(X; f~(X))`` in nats."""
        return relations.maximin_information(self)

    @property
    def quality(self) -> float:
        """One over the largest error of an answer (Quantize (11))."""
        worst = max((region.upper - region.lower) / 2 for region in self.regions)
        return math.inf if worst == 0 else 1 / worst

    @property
    def adversary_error_bound(self) -> float:
        """Lower bound on the adversary's error, from the smallest volume (Quantize Thm. II.2)."""
        return relations.adversary_error_bound(self)

    @property
    def adversary_error(self) -> float:
        """Smallest worst-case error over the answers, ``d_min`` of Quantize (7).

        This is the least radius of the smallest balls around regions, over all regions whose ball
        is known; it equals ``d_min`` if the centre of that ball is itself consistent with the
        answer.
        """
        known = [ball.radius for ball in self.balls if not math.isnan(ball.radius)]
        return min(known, default=math.nan)

    @cached_property
    def _outlines(self) -> list[Outline]:
        """Outline of each region of a query that is not linear."""
        by_bin = outlines(self.query, self.edges[1:-1], self.box)
        bins = np.searchsorted(self.edges[1:-1], self.levels, side="right")
        return [by_bin[code] for code in bins]

    @cached_property
    def balls(self) -> tuple[Ball, ...]:
        """Smallest enclosing ball of each region.

        Exact for linear queries (above ten coordinates only for the two extreme answers and equal
        weights, NaN otherwise); for others accurate to about a millionth of the box.
        """
        if isinstance(self.query, LinearQuery):
            around = [self._linear_ball(self.query, region) for region in self.regions]
        else:
            around = [smallest_enclosing_ball(outline.points) for outline in self._outlines]
        return tuple(
            Ball(tuple(centre.tolist()), float(radius), self._could_be(centre, region))
            for (centre, radius), region in zip(around, self.regions, strict=True)
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

    def answer(self, data: npt.ArrayLike) -> Any:
        """Answer the query for `data`, a secret in the box (or several, along the last axis).

        The same secret always gets the same answer, so asking twice reveals nothing new.
        """
        x = read_numbers("data", data)
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
                f"[{self.box.lower[i]:g}, {self.box.upper[i]:g}]; the guarantee only holds inside "
                "the box. Make the box the full range of possible secrets."
            )
        borders = np.array([region.lower for region in self.regions[1:]])
        code = np.searchsorted(borders, self.query(x), side="right")
        chosen = self.levels[code]
        return float(chosen) if np.ndim(chosen) == 0 else chosen

    def summary(self) -> pd.DataFrame:
        """One row per region: bin, answer, volume and its error, ball."""
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
            }
        )

    def plot_regions(self, ax: Axes | None = None) -> Axes:
        """Draw the regions of a two-dimensional secret (Quantize Figures 1 and 2)."""
        return plot_regions(self, ax)

    def __repr__(self) -> str:
        return (
            f"Policy({len(self.regions)} answers, quality {self.quality:.4g}, leakage "
            f"{self.leakage:.4g} nats, maximin information {self.maximin_information:.4g} nats, "
            f"{self.method})"
        )

    def _repr_html_(self) -> str:
        return f"<p>{escape(repr(self))}</p>{self.summary().to_html(index=False)}"


def _exp(logs: npt.ArrayLike) -> Floats:
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(logs))


# -------------------------------------------------------------------------------------------------
# Optimal deterministic answers to a scalar query about a secret in a box.


def optimal_policy(
    query: Query | npt.ArrayLike, box: Box, gamma: float, *, metric: str = "maximin"
) -> Policy:
    """Find the most private answers with errors of at most ``1/gamma`` (Quantize Thm. IV.3).

    Parameters
    ----------
    query : callable, LinearQuery or list of weights
        Scalar query. A callable gets points along the last axis, shape ``(..., n)``, and returns
        shape ``(...)``; it may have one or two coordinates. Linear queries are exact, with any
        number of coordinates.
    box : Box
        The set of possible secrets.
    gamma : float
        Required quality: one over the largest error of an answer.
    metric : {"maximin", "leakage"}
        "maximin" minimises the number of different answers (17): the uniform quantizer with
        ``ceil(gamma (hi-lo)/2)`` bins. "leakage" maximises the smallest region (16) among policies
        that depend on the secret only through the query (which loses nothing unless a single answer
        has a region of positive size); it never leaks more than the uniform quantizer, and usually
        less if ``gamma (hi-lo)/2`` is not an integer.

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

    A higher quality, and the edges that leak least:

    >>> uniform = ns.optimal_policy([0.5, 0.5], ns.Box.cube(-2, 2, 2), gamma=1.9)
    >>> best = ns.optimal_policy([0.5, 0.5], ns.Box.cube(-2, 2, 2), gamma=1.9, metric="leakage")
    >>> round(uniform.leakage, 4), round(best.leakage, 4)
    (2.0794, 1.9769)
    """
    one_of("metric", metric, ["maximin", "leakage"])
    asked = as_query(query, box)
    low, high = query_range(asked, box)
    bins = n_bins(low, high, gamma)
    _check_answers(bins, asked)
    edges = np.linspace(low, high, bins + 1)
    if metric == "leakage" and bins > 1:
        share_below = _share_below(asked, box, low, high)
        edges = largest_smallest_edges(share_below, low, high, gamma)
    return quantized_query(asked, box, edges, metric=metric)


def quantized_query(
    query: Query | npt.ArrayLike, box: Box, edges: npt.ArrayLike, *, metric: str = "given"
) -> Policy:
    """Policy that answers with the midpoint of the bin between the given `edges`.

    The first and the last edge are the ends of the range of the query.

    Examples
    --------
    >>> quantized_query([1.0], Box(0, 1), [0, 0.1, 1])
    Policy(2 answers, quality 2.222, leakage 2.303 nats, maximin information 0.6931 nats, exact)
    """
    asked = as_query(query, box)
    borders = read_numbers("edges", edges, error=ChannelError)
    if borders.ndim != 1 or len(borders) < 2 or not (np.diff(borders) >= 0).all():
        raise ChannelError("edges must be an ascending list of at least two numbers.")
    _check_answers(len(borders) - 1, asked)
    log_volumes, errors, method = _log_volumes(asked, box, borders)
    kept = np.isfinite(log_volumes)  # a bin of volume zero is never the answer
    regions = tuple(
        Region(float((a + b) / 2), float(a), float(b), float(size), float(error))
        for a, b, size, error in zip(
            borders[:-1][kept], borders[1:][kept], log_volumes[kept], errors[kept], strict=True
        )
    )
    return Policy(asked, box, borders, regions, metric, method)


def _check_answers(number: int, query: Query) -> None:
    most = MOST_ANSWERS["exact" if isinstance(query, LinearQuery) else "contours"]
    if number > most:
        raise ChannelError(
            f"There are {number:,} different answers, but regions can be computed for at most "
            f"{most:,}. Use a smaller gamma (less quality)."
        )


def _log_volumes(query: Query, box: Box, edges: Floats) -> tuple[Floats, Floats, str]:
    if isinstance(query, LinearQuery):
        return log_slab_measures(query, box, edges), np.zeros(len(edges) - 1), "exact"
    volumes, errors = region_volumes(query, edges[1:-1], box)
    with np.errstate(divide="ignore"):
        return np.log(volumes), errors, "contours"


def _share_below(query: Query, box: Box, low: float, high: float) -> Callable[[Floats], Floats]:
    """Share of the box below each answer, interpolated monotonically between 257 values."""
    from scipy.interpolate import PchipInterpolator  # slow to import

    knots = np.linspace(low, high, 257)
    if isinstance(query, LinearQuery):
        shares = np.exp(log_slab_measures(query, box, knots) - box.log_measure)
        below = np.concatenate([[0.0], np.cumsum(shares)])
    else:
        _, values = values_on_grid(query, box, 2048)
        below = np.searchsorted(np.sort(values, axis=None), knots).astype(float)
        below[-1] = values.size
    return PchipInterpolator(knots, below / below[-1])


def quality(
    release: Policy | UniformQuantizer | npt.ArrayLike, true: npt.ArrayLike | None = None
) -> float:
    """Measure of quality ``Q = 1 / ess sup ||f - f~||`` (Quantize (11)).

    Parameters
    ----------
    release : Policy, UniformQuantizer or array_like
        A policy or quantizer, or the released answers, one row per possible ``x``.
    true : array_like, optional
        The true answers in the same order; required for an array of answers.

    Examples
    --------
    >>> quality([0.5, 0.5, 2.0], true=[0.0, 1.0, 2.0])
    2.0
    """
    if isinstance(release, Policy | UniformQuantizer):
        return float(release.quality)
    if true is None:
        raise ChannelError("quality() of released answers needs the true answers: give true=...")
    exact = np.atleast_1d(read_numbers("true", true))
    given = np.atleast_1d(read_numbers("release", release))
    if exact.shape != given.shape or exact.size == 0:
        raise ChannelError(
            f"Released answers have shape {given.shape}, true answers {exact.shape}; give one "
            "released answer per true one."
        )
    worst = float(np.max(np.linalg.norm((given - exact).reshape(len(exact), -1), axis=1)))
    return math.inf if worst == 0 else 1 / worst


# -------------------------------------------------------------------------------------------------
# The cost of quality, and its plots.


def plot_regions(policy: Policy, ax: Axes | None = None, *, resolution: int = 401) -> Axes:
    """Plot which secrets in a plane get which answer (Quantize Figures 1 and 2).

    Shades order the answers, which are the numbers on the scale; the region that reveals most (or
    several of the same size) is hatched.
    """
    from matplotlib import rc_context
    from matplotlib.colors import BoundaryNorm

    if policy.dimension != 2:
        raise ChannelError(
            f"The regions of a secret with {policy.dimension} coordinates cannot be plotted; "
            "plot_regions needs two."
        )
    ax = make_axes(ax, 6.2, 4.6)
    axes = [
        np.linspace(a, b, resolution)
        for a, b in zip(policy.box.lower, policy.box.upper, strict=True)
    ]
    values = policy.query(np.stack(np.meshgrid(*axes), axis=-1))
    # Contours of the query itself, not of the answers, keep the borders smooth; the ends of the
    # range are extended a little, so that the extreme answers are not left blank.
    borders = np.array([*(r.lower for r in policy.regions), policy.regions[-1].upper])
    room = 1e-6 * max(float(np.ptp(borders)), float(np.abs(borders).max()), 1e-6)
    inner = borders[1:-1]
    shown = np.array([borders[0] - room, *inner, borders[-1] + room])
    filled = ax.contourf(*axes, values, levels=shown, cmap="cividis", norm=BoundaryNorm(shown, 256))
    if len(inner):
        ax.contour(*axes, values, levels=inner, colors="white", linewidths=0.8, linestyles="solid")
    least = policy.smallest_region
    for i, region in enumerate(policy.regions):
        if region.log_measure <= least.log_measure + 1e-9:
            with rc_context({"hatch.color": COLOURS["more"]}):
                ax.contourf(*axes, values, levels=shown[i : i + 2], colors="none", hatches=["////"])
            if len(own := inner[max(i - 1, 0) : i + 1]):
                ax.contour(*axes, values, levels=own, colors=COLOURS["more"], linestyles="solid")
    bar = ax.figure.colorbar(
        filled, ax=ax, ticks=policy.levels, label="Answer", spacing="proportional"
    )
    bar.ax.set_yticklabels([f"{level:g}" for level in policy.levels])
    n = len(policy.regions)
    elongated = np.max(policy.box.widths) > 4 * np.min(policy.box.widths)
    ax.set(
        xlabel="First coordinate of the secret",
        ylabel="Second coordinate",
        aspect="auto" if elongated else "equal",
    )
    ax.set_title(
        f"{n} answer{'s' if n > 1 else ''}; the smallest region (hatched) has area "
        f"{least.measure:.3g}",
        fontsize="medium",
    )
    return ax


def tradeoff(
    query: Query | npt.ArrayLike, box: Box, gammas: npt.ArrayLike, *, metric: str = "maximin"
) -> pd.DataFrame:
    """Tabulate what an adversary gains as the quality of the answers increases (Quantize Figure 3).

    Parameters
    ----------
    query, box, metric
        As in `optimal_policy`.
    gammas : array_like of float
        Qualities to compare.

    Returns
    -------
    DataFrame
        Indexed by ``gamma``: ``answers``, ``leakage``, ``maximin_information``,
        ``adversary_error`` and ``adversary_error_bound``.

    Examples
    --------
    >>> frame = tradeoff([0.5, 0.5], Box.cube(-2, 2, 2), [0.5, 1, 2])
    >>> frame["adversary_error"].round(4).tolist()
    [2.8284, 2.8284, 1.4142]
    """
    qualities = read_numbers("gammas", gammas).ravel()
    if len(qualities) == 0:
        raise ChannelError("There are no gammas to compare.")
    rows = []
    for gamma in qualities:
        policy = optimal_policy(query, box, float(gamma), metric=metric)
        rows.append(
            {
                "gamma": float(gamma),
                "answers": len(policy.regions),
                "leakage": policy.leakage,
                "maximin_information": policy.maximin_information,
                "adversary_error": policy.adversary_error,
                "adversary_error_bound": policy.adversary_error_bound,
            }
        )
    return pd.DataFrame(rows).set_index("gamma")


def plot_tradeoff(frame: pd.DataFrame, axes: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
    """Plot the result of `tradeoff`: leaked information above, the adversary's error below."""
    if axes is None:
        axes = make_panels(2, width=6, height=5.6, sharex=True)[:, 0]
    above, below = axes
    for ax, column, colour, label in (
        (above, "leakage", SERIES[0], "leakage $L_0$"),
        (above, "maximin_information", SERIES[1], "maximin information $I_*$"),
        (below, "adversary_error", SERIES[0], "adversary's error"),
        (below, "adversary_error_bound", "0.4", "lower bound from the volume"),
    ):
        # The number of bins is a ceiling: a value holds from the previous quality up to its own.
        style = "-" if colour == SERIES[0] else "--"
        ax.step(frame.index, frame[column], style, where="pre", color=colour, label=label)
    above.set(ylabel="Leaked information (nats)", title="The cost of quality")
    below.set(xlabel=r"Quality $\gamma$ of the answers", ylabel="Worst-case error", ylim=(0, None))
    for ax in (above, below):
        ax.legend(frameon=False, fontsize="small")
    return np.asarray(axes)
