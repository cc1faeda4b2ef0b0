"""Lower quantiles of how many users hold a value: numeric kernels."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import special

from anonbayes.arrays import Floats
from anonbayes.channels.reports import SupportCounts
from anonbayes.estimation.empirical import check_informative

__all__ = ["count_quantile", "predictive_quantile"]


# Counts up to this one are told apart; larger ones in steps of their 512th part, far below the
# standard deviation that any number of reports leaves.
EXACT_COUNTS = 4096
STEPS = 512
# Entries of the largest table of likelihoods.
TABLE = 4_000_000
# Of rarer events than this many draws in all, draws say little.
TAIL_DRAWS = 20
BETA_NODES = 300


def count_quantile(
    support: SupportCounts, n: int, hit: Floats, miss: Floats, level: float, weight: float = 1.0
) -> Floats:
    """Largest ``k`` with ``P(count < k | support) <= level``, for each value.

    Examples
    --------
    Ten of ten users say so openly; a hundred are asked for:

    >>> one = np.ones(2)
    >>> count_quantile(SupportCounts(np.array([10, 0]), 10), 100, one, 0 * one, 0.05)
    array([83.,  0.])
    """
    check_informative(hit, miss)
    if len(hit) == 1:
        return np.array([float(n)])
    lower, middle, width = _count_grid(n)
    log_prior = _log_beta_binomial(middle, n, weight / len(hit), weight) + np.log(width)
    # Values with the same bits and the same support share their posterior.
    bits, place = np.unique(hit + 1j * miss, return_inverse=True)
    order = np.argsort(place, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(place))[:-1])
    quantile = np.empty(len(hit))
    for pair, values in zip(bits, members, strict=True):
        rate = pair.imag + (pair.real - pair.imag) * (middle / n)
        t, again = np.unique(support.counts[values], return_inverse=True)
        found = _lower_edges(t, support.n, rate, log_prior, level)
        quantile[values] = lower[found][again]
    return quantile


def _lower_edges(
    t: npt.NDArray[np.int64], trials: float, rate: Floats, log_prior: Floats, level: float
) -> npt.NDArray[np.intp]:
    """Position in the grid of counts below which no more than `level` of the posterior lies."""
    with np.errstate(divide="ignore"):
        log_raised, log_not = np.log(rate), np.log1p(-rate)
    found = np.empty(len(t), dtype=np.intp)
    step = max(1, TABLE // len(rate))
    for start in range(0, len(t), step):
        raised = t[start : start + step, None].astype(float)
        lowered = np.asarray(trials - raised, dtype=float)
        # An impossible rate (log 0) rules a count out only if it was needed.
        log_p = log_prior + _times(raised, log_raised) + _times(lowered, log_not)
        mass = np.exp(log_p - log_p.max(axis=1, keepdims=True))
        below = np.cumsum(mass, axis=1)
        found[start : start + step] = np.argmax(below > level * below[:, -1:], axis=1)
    return found


def _times(number: Floats, logarithm: Floats) -> Floats:
    """Product in which zero times an infinite logarithm is zero."""
    if np.isfinite(logarithm).all():
        return number * logarithm
    with np.errstate(invalid="ignore"):
        return np.where(number == 0, 0.0, number * logarithm)


def predictive_quantile(shares: Floats, n: int, level: float) -> Floats:
    """Largest ``k`` with ``P(count < k) <= level``, count ~ Binomial(n, share), share drawn.

    Far tails are not in the draws: there the smaller of this and of the quantile under beta
    distributions with the draws' means and variances.

    Parameters
    ----------
    shares : ndarray, shape (draws, K)
        Posterior draws of the shares.

    Examples
    --------
    >>> predictive_quantile(np.array([[0.5, 0.5]]), 100, 0.05)
    array([42., 42.])
    """
    found = _mixed_quantile(shares, np.full(len(shares), 1.0 / len(shares)), n, level)
    if len(shares) == 1 or level * len(shares) >= TAIL_DRAWS:
        return found
    return np.minimum(found, _mixed_quantile(*_beta_nodes(shares, level), n, level))


def _mixed_quantile(shares: Floats, weight: Floats, n: int, level: float) -> Floats:
    """Quantile of the count over weighted shares, by bisection."""
    lower = np.zeros(shares.shape[1], dtype=np.int64)
    upper = np.full(shares.shape[1], n, dtype=np.int64)
    while (lower < upper).any():
        middle = (lower + upper) // 2
        reached = weight @ special.bdtr(middle.astype(float), n, shares) > level
        lower, upper = np.where(reached, lower, middle + 1), np.where(reached, middle, upper)
    return lower.astype(float)


def _beta_nodes(shares: Floats, level: float) -> tuple[Floats, Floats]:
    """Beta distributions with the draws' means and variances, as weighted shares.

    Quantiles at the lower ends of bins that shrink towards the lower tail: never too large.
    """
    edges = np.concatenate([[0.0], np.geomspace(level / 100, 1.0, BETA_NODES)])
    mean, variance = shares.mean(axis=0), shares.var(axis=0, ddof=1)
    spread = variance > 1e-12 * mean * (1 - mean)
    total = np.where(spread, mean * (1 - mean) / np.where(spread, variance, 1.0) - 1.0, 1.0)
    first, second = (np.maximum(part * total, 1e-12) for part in (mean, 1 - mean))
    quantile = special.betaincinv(first, second, edges[:-1, None])
    return np.where(spread, quantile, mean), np.diff(edges)


def _count_grid(n: int) -> tuple[Floats, Floats, Floats]:
    """Lower edge, middle and number of the counts that are treated together."""
    number = int(np.ceil(STEPS * np.log(max((n + 1) / EXACT_COUNTS, 1.0)))) + 2
    coarse = np.geomspace(EXACT_COUNTS, max(n + 1, EXACT_COUNTS), number)
    fine = np.arange(min(n, EXACT_COUNTS) + 1)
    edges = np.unique(np.concatenate([fine, np.floor(coarse[coarse <= n]), [n + 1]]))
    width = np.diff(edges)
    return edges[:-1], edges[:-1] + (width - 1) / 2, width


def _log_beta_binomial(count: Floats, n: int, first: float, total: float) -> Floats:
    rest = total - first
    return (
        special.gammaln(n + 1.0)
        - special.gammaln(count + 1.0)
        - special.gammaln(n - count + 1.0)
        + special.betaln(count + first, n - count + rest)
        - special.betaln(first, rest)
    )
