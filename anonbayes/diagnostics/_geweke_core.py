"""Geweke's statistic on plain arrays: spectral densities at zero and windows of a chain.

Everything here takes and returns NumPy arrays, draws last.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

# A window whose residual about a straight line is below this share of its largest value has no
# randomness left but rounding.
ROUNDING = 1e-12


@njit(cache=True)
def _is_straight(x: np.ndarray) -> bool:
    """Return whether `x` is constant or exactly linear in time, up to rounding."""
    n = x.size
    mean = x.mean()
    middle = 0.5 * (n - 1)
    slope, spread = 0.0, 0.0
    for t in range(n):
        slope += (t - middle) * (x[t] - mean)
        spread += (t - middle) ** 2
    if spread > 0.0:
        slope /= spread
    rest, largest = 0.0, 0.0
    for t in range(n):
        rest += (x[t] - mean - slope * (t - middle)) ** 2
        largest = max(largest, abs(x[t]))
    return math.sqrt(rest / max(n - 1, 1)) <= ROUNDING * largest


@njit(cache=True)
def spectrum0_ar(x: np.ndarray) -> tuple[float, int]:
    """Spectral density at zero of one series, by an autoregression whose order AIC chooses.

    Yule-Walker by the Durbin-Levinson recursion, orders up to ``10 log10 n``, innovation variance
    scaled by ``n / (n - order - 1)``: what R's ``ar`` does and coda's ``spectrum0.ar`` relies on.
    A constant or exactly linear series has density 0 and order 0.

    Returns
    -------
    density, order : float, int
    """
    n = x.size
    if n < 2 or _is_straight(x):
        return 0.0, 0
    top = min(n - 1, math.floor(10.0 * math.log10(n)))
    centred = x - x.mean()
    covariance = np.empty(top + 1)
    for lag in range(top + 1):
        covariance[lag] = np.dot(centred[: n - lag], centred[lag:]) / n

    variance = covariance[0]
    coefficients = np.zeros(top)
    previous = np.zeros(top)
    best_aic = n * math.log(variance)
    best_order, best_variance, best_sum = 0, variance, 0.0
    for order in range(1, top + 1):
        numerator = covariance[order]
        for i in range(order - 1):
            numerator -= coefficients[i] * covariance[order - 1 - i]
        reflection = numerator / variance
        previous[:] = coefficients
        for i in range(order - 1):
            coefficients[i] = previous[i] - reflection * previous[order - 2 - i]
        coefficients[order - 1] = reflection
        variance *= 1.0 - reflection * reflection
        if variance <= 0.0:  # predicted to the last digit; longer memory cannot help
            break
        aic = n * math.log(variance) + 2.0 * order
        if aic < best_aic:
            best_aic, best_order, best_variance = aic, order, variance
            best_sum = coefficients[:order].sum()
    best_variance *= n / (n - (best_order + 1.0)) if n > best_order + 1 else 1.0
    return best_variance / (1.0 - best_sum) ** 2, best_order


@njit(cache=True)
def mean_variance_ar(x: np.ndarray) -> np.ndarray:
    """Variance of the mean of each row of `x` (series, draw) by `spectrum0_ar`."""
    out = np.empty(x.shape[0])
    for i in range(x.shape[0]):
        out[i] = spectrum0_ar(x[i])[0] / x.shape[1]
    return out


def windows(
    n: int, first: float, last: float, intervals: int, scheme: str
) -> list[tuple[slice, slice]]:
    """Return the pairs of early and late windows of a chain of `n` draws.

    ``"discard"`` starts later and later, up to the middle of the chain, and takes the first and
    last fraction of what remains, as coda's ``geweke.plot`` does; with one interval this is
    coda's ``geweke.diag``. ``"blocks"`` puts `intervals` consecutive blocks of the fraction
    `first` against the one late window (Groups, Section VI-D).

    Examples
    --------
    >>> windows(1000, 0.1, 0.5, 1, "discard")
    [(slice(0, 101, None), slice(499, 1000, None))]
    >>> [(a.start, a.stop) for a, _ in windows(50_000, 0.1, 0.5, 5, "blocks")]
    [(0, 5000), (5000, 10000), (10000, 15000), (15000, 20000), (20000, 25000)]
    """
    if scheme == "blocks":
        length = math.floor(first * n + 1e-9)
        late = slice(n - math.floor(last * n + 1e-9), n)
        return [(slice(i * length, (i + 1) * length), late) for i in range(intervals)]
    pairs = []
    for begin in np.linspace(1, (1 + n) / 2, intervals) if intervals > 1 else [1.0]:
        # coda counts from 1, and reads a fractional start as the draw that follows it.
        begin = math.ceil(begin)
        stop = math.ceil(begin + first * (n - begin))
        start = math.floor(n - last * (n - begin))
        pairs.append((slice(begin - 1, stop), slice(start - 1, n)))
    return pairs


def z_scores(
    early: np.ndarray, late: np.ndarray, early_variance: np.ndarray, late_variance: np.ndarray
) -> np.ndarray:
    """Return the z of each row's difference of means, given the variances of the two means.

    Two windows without any randomness give NaN where their means agree (nothing to test) and an
    infinity of the right sign where they do not.
    """
    difference = early.mean(axis=1) - late.mean(axis=1)
    scale = np.maximum(np.abs(early).max(axis=1), np.abs(late).max(axis=1))
    difference[np.abs(difference) <= ROUNDING * scale] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        return difference / np.sqrt(early_variance + late_variance)
