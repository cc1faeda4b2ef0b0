"""Closed-form estimators from support counts.

Every pure channel supports value ``x`` with probability ``hit[x]`` when the user holds ``x`` and
``miss[x]`` otherwise, so the share of supporting reports has mean ``miss + (hit - miss) p``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import stats

from anonbayes.arrays import Floats
from anonbayes.errors import ChannelError, one_of

__all__ = ["empirical", "share_interval", "significance_threshold", "threshold", "water_filling"]


def empirical(counts: npt.ArrayLike, n: int, hit: Floats, miss: Floats) -> Floats:
    """Unbiased estimate ``(c/n - miss) / (hit - miss)`` (ULDP (3), solved).

    Examples
    --------
    >>> empirical([60, 40], 100, np.array([0.75, 0.75]), np.array([0.25, 0.25])).round(6)
    array([0.7, 0.3])
    """
    gain = check_informative(hit, miss)
    return (np.asarray(counts) / n - miss) / gain


def significance_threshold(n: int, hit: Floats, miss: Floats, *, alpha: float = 0.05) -> Floats:
    """Largest estimate that noise alone would explain, with Bonferroni's correction.

    ``z(1 - alpha/K)`` times the standard deviation of the empirical estimate of a value that
    nobody holds; zero for a value whose support is proof (``miss = 0``).
    """
    if not 0 < alpha < 1:
        raise ChannelError(f"alpha={alpha!r} is not a significance level between 0 and 1.")
    quantile = stats.norm.ppf(1 - alpha / len(hit))
    return quantile * np.sqrt(miss * (1 - miss) / n) / check_informative(hit, miss)


def threshold(estimate: Floats, limit: Floats, *, remainder: str = "uniform") -> Floats:
    """Keep significant estimates only.

    Parameters
    ----------
    estimate, limit : ndarray
        Empirical estimate and its significance threshold.
    remainder : {"uniform", "zero"}
        What becomes of the rest of the probability: shared out evenly among the values below
        the threshold so that the sum is one (ULDP), or dropped, leaving zeros (PIE).

    Notes
    -----
    When the kept estimates already sum to more than one, the remainder is zero and they are
    scaled down to a distribution; likewise scaled when no value is left to take the remainder.

    Examples
    --------
    >>> threshold(np.array([0.7, 0.2, 0.1]), np.array([0.15, 0.15, 0.15])).round(6)
    array([0.7, 0.2, 0.1])
    >>> threshold(np.array([0.7, 0.25, -0.05, 0.1]), np.full(4, 0.15)).round(6)
    array([0.7  , 0.25 , 0.025, 0.025])
    """
    one_of("remainder", remainder, ("uniform", "zero"))
    kept = estimate > limit
    out = np.where(kept, estimate, 0.0)
    if remainder == "zero":
        return out
    rest = 1.0 - out.sum()
    if rest > 0 and not kept.all():
        out[~kept] = rest / (~kept).sum()
    return out / out.sum()


def water_filling(counts: npt.ArrayLike, floor: Floats, gain: Floats) -> Floats:
    """Maximum-likelihood distribution when each report names one value, in closed form.

    Maximises ``sum c_y log(floor_y + gain_y p_y)`` on the simplex. The solution is
    ``p_y = max(h_y / level - floor_y / gain_y, 0)``; the level follows from one sort, because
    the values with ``p_y > 0`` are those with the largest ``h_y gain_y / floor_y``
    (``O(K log K)``, MODEL 2).

    Examples
    --------
    The golden case: three sensitive values of four, epsilon = 1.

    >>> e = np.e
    >>> floor = np.array([1, 1, 1, 0]) / (2 + e)
    >>> water_filling([50, 30, 15, 5], floor, np.full(4, (e - 1) / (2 + e))).round(6)
    array([0.690937, 0.181772, 0.      , 0.127291])
    """
    shares = np.asarray(counts, dtype=float)
    shares = shares / shares.sum()
    ratio = floor / gain
    with np.errstate(divide="ignore", invalid="ignore"):
        key = np.where(shares > 0, np.where(ratio > 0, shares / ratio, np.inf), -np.inf)
    order = np.argsort(-key, kind="stable")
    levels = np.cumsum(shares[order]) / (1.0 + np.cumsum(ratio[order]))
    # Values enter in this order as long as their own level is above the common one.
    active = int(np.flatnonzero(key[order] >= levels)[-1])
    p = np.maximum(shares / levels[active] - ratio, 0.0)
    return p / p.sum()


def share_interval(
    counts: npt.ArrayLike, n: int, hit: Floats, miss: Floats, level: float
) -> npt.NDArray[np.float64]:
    """Confidence limits of each probability: Wilson's limits of the supporting share, mapped.

    Returns an array of shape (K, 2), clipped to [0, 1].

    Examples
    --------
    >>> one, zero = np.ones(1), np.zeros(1)
    >>> share_interval([30], 100, one, zero, 0.95).round(4).tolist()
    [[0.2189, 0.3958]]
    """
    check_level(level)
    z2 = stats.norm.ppf(0.5 + level / 2) ** 2
    share = np.asarray(counts) / n
    centre = (share + z2 / (2 * n)) / (1 + z2 / n)
    half = np.sqrt(z2 * (share * (1 - share) / n + z2 / (4 * n * n))) / (1 + z2 / n)
    limits = np.stack([centre - half, centre + half], axis=-1)
    gain = check_informative(hit, miss)
    return np.clip((limits - miss[:, None]) / gain[:, None], 0.0, 1.0)


def check_level(level: float) -> None:
    """Raise `ChannelError` unless the level of an interval lies between 0 and 1."""
    if not 0 < level < 1:
        raise ChannelError(f"level={level!r} is not a probability between 0 and 1.")


def check_informative(hit: Floats, miss: Floats) -> Floats:
    """Return ``hit - miss``; raise `ChannelError` when it is zero for some value."""
    gain = hit - miss
    if not (gain > 0).all():
        raise ChannelError(
            "The reports carry no information on some value (its report is as likely from "
            "another value, as with epsilon = 0); only method='bayes' has an answer, the prior."
        )
    return gain
