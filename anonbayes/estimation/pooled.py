"""One estimate from several groups of users whose channels differ.

Group ``g`` of ``n_g`` users supports a value with probability ``r_g(p) = miss_g + gain_g p``. The
groups' empirical estimates are weighted by their inverse variances ``n_g gain_g^2/(r_g (1-r_g))``.
The limits invert the score test: all ``p`` with ``|S(p)| <= z sqrt(I(p))``,

    S = sum_g (t_g - n_g r_g) gain_g / (r_g (1-r_g)),   I = sum_g n_g gain_g^2 / (r_g (1-r_g)),

which for a single group are Wilson's limits.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

from anonbayes.arrays import Floats
from anonbayes.estimation.empirical import check_informative, check_level

__all__ = ["inverse_variance", "score_interval"]


def inverse_variance(counts: Floats, n: Floats, hit: Floats, miss: Floats) -> Floats:
    """Inverse-variance weighted empirical estimate of each value's share.

    Parameters
    ----------
    counts, hit, miss : ndarray, shape (groups, K)
        Supporting reports, and the support probabilities.
    n : ndarray, shape (groups,)
        Reports of each group.

    Notes
    -----
    All variances are taken at one and the same estimate, refined three times: with variances
    taken at each group's own estimate, a group that happens to be low would weigh more.

    Examples
    --------
    Without noise, the pooled share:

    >>> one, zero = np.ones((2, 1)), np.zeros((2, 1))
    >>> inverse_variance(np.array([[10.0], [50.0]]), np.array([100, 200]), one, zero).round(6)
    array([0.2])
    """
    gain = check_informative(hit, miss)
    size = np.asarray(n, dtype=float)[:, None]
    single = (counts / size - miss) / gain
    share = np.clip(np.average(single, axis=0, weights=size[:, 0]), 0.0, 1.0)
    estimate = share
    for _ in range(3):
        weight = size * gain**2 / _variance(share, size, gain, miss)
        estimate = (weight * single).sum(axis=0) / weight.sum(axis=0)
        share = np.clip(estimate, 0.0, 1.0)
    return estimate


def score_interval(counts: Floats, n: Floats, hit: Floats, miss: Floats, level: float) -> Floats:
    """Limits of each share from the score test, within [0, 1]; shape (K, 2).

    Examples
    --------
    >>> one, zero = np.ones((1, 1)), np.zeros((1, 1))
    >>> score_interval(np.array([[30.0]]), np.array([100]), one, zero, 0.95).round(4).tolist()
    [[0.2189, 0.3958]]
    """
    check_level(level)
    gain = check_informative(hit, miss)
    size = np.asarray(n, dtype=float)[:, None]
    z = float(stats.norm.ppf(0.5 + level / 2))

    def score(share: Floats) -> Floats:
        variance = _variance(share, size, gain, miss)
        total = ((counts - size * (miss + gain * share)) * gain / variance).sum(axis=0)
        return total / np.sqrt((size * gain**2 / variance).sum(axis=0))

    middle = np.clip(inverse_variance(counts, n, hit, miss), 0.0, 1.0)
    limits = []
    for end, sign in ((0.0, 1.0), (1.0, -1.0)):
        # The score falls in p: it exceeds z below the lower limit, -z above the upper one.
        outside, inside = np.full(len(middle), end), middle.copy()
        open_end = sign * score(outside) <= z
        for _ in range(60):
            half = 0.5 * (outside + inside)
            far = sign * score(half) > z
            outside, inside = np.where(far, half, outside), np.where(far, inside, half)
        limits.append(np.where(open_end, end, outside))
    return np.stack(limits, axis=-1)


def _variance(share: Floats, size: Floats, gain: Floats, miss: Floats) -> Floats:
    """``r (1-r)``, kept above zero (a millionth of a report) so that it can be divided by."""
    rate = miss + gain * share
    return np.maximum(rate * (1 - rate), 1e-6 / size)
