"""Optimal deterministic answers to a scalar query about a secret in a box."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
from scipy.interpolate import PchipInterpolator

from anonbayes.arrays import Floats
from anonbayes.errors import ChannelError, one_of
from anonbayes.guarantees.nonstochastic.boxes import Box, LinearQuery, Query, as_query, query_range
from anonbayes.guarantees.nonstochastic.lines import Cells
from anonbayes.guarantees.nonstochastic.partitions import (
    largest_smallest_edges,
    n_bins,
    uniform_edges,
)
from anonbayes.guarantees.nonstochastic.policies import Policy, Region
from anonbayes.guarantees.nonstochastic.slabs import log_slab_measures, n_terms
from anonbayes.guarantees.nonstochastic.volumes import cell_volumes, rough_volumes

__all__ = ["optimal_policy", "quantized_query"]


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
