"""Expected and worst-case losses of the empirical estimator, for any pure channel.

The supporting share of value ``x`` has mean ``r = miss + gain p`` and variance ``r (1 - r) / n``,
so with ``gain = hit - miss``

    E l2 = (1/n) sum r (1 - r) / gain^2          (exact),
    E l1 ~ sqrt(2 / (pi n)) sum sqrt(r (1 - r)) / gain   (normal approximation).

ULDP Props. 4, 7, 15 and 18 are special cases. Both are concave in ``p``, so their maximisers
follow from the conditions of Lagrange and Kuhn-Tucker, and cover ULDP Props. 5, 6, 8, 16, 17
and 19 without their side conditions on epsilon and on the size of the sensitive set.
"""

from __future__ import annotations

import numpy as np

from anonbayes.arrays import Floats, read_number
from anonbayes.errors import ChannelError, one_of
from anonbayes.estimation.closed_forms import check_informative

NORMS = ("l1", "l2")


def variances(p: Floats, n: int, hit: Floats, miss: Floats, *, sampled: bool = True) -> Floats:
    """Variance of each value's empirical share.

    With ``sampled=False``, `p` holds the frequencies among the `n` users themselves: the error
    of drawing them from a population, ``p (1 - p) / n``, is left out (PIE Props. 15 and 16).
    """
    if not read_number("n", n, error=ChannelError) >= 1:
        raise ChannelError(f"n={n!r}: at least one report is needed.")
    gain = check_informative(hit, miss)
    rate = miss + gain * p
    spread = rate * (1 - rate) if sampled else p * hit * (1 - hit) + (1 - p) * miss * (1 - miss)
    return np.maximum(spread, 0.0) / gain**2 / n


def expected_loss(
    p: Floats, n: int, hit: Floats, miss: Floats, *, norm: str = "l2", sampled: bool = True
) -> float:
    """Return the expected ``sum |p_hat - p|`` (l1) or ``sum (p_hat - p)^2`` (l2)."""
    one_of("norm", norm, NORMS)
    variance = variances(p, n, hit, miss, sampled=sampled)
    return float(variance.sum() if norm == "l2" else np.sqrt(2 * variance / np.pi).sum())


def worst_case_distribution(hit: Floats, miss: Floats, *, norm: str = "l2") -> Floats:
    """Distribution with the largest expected loss.

    l2: the loss is ``const + sum p (1 - 2 miss)/gain - sum p^2``, so the maximiser is the point
    of the simplex nearest to ``(1 - 2 miss) / (2 gain)``. l1: at the maximum all values with
    ``p > 0`` have the same rate ``r``, and the others a ``miss`` above it.

    Examples
    --------
    One sensitive value of three, epsilon = 1: the worst case leaves it empty.

    >>> e = np.e
    >>> hit, miss = np.array([1, 1 - 1 / e, 1 - 1 / e]), np.array([1 / e, 0, 0])
    >>> worst_case_distribution(hit, miss, norm="l1").tolist()
    [0.0, 0.5, 0.5]
    """
    one_of("norm", norm, NORMS)
    gain = check_informative(hit, miss)
    if norm == "l2":
        return _fill(-(1 - 2 * miss) / (2 * gain), np.ones_like(gain))
    return _fill(miss, 1.0 / gain)


def _fill(start: Floats, slope: Floats) -> Floats:
    """Distribution ``max((level - start) * slope, 0)``, with the level that makes it sum to one."""
    order = np.argsort(start, kind="stable")
    slopes = np.cumsum(slope[order])
    levels = (1.0 + np.cumsum(start[order] * slope[order])) / slopes
    active = int(np.flatnonzero(levels > start[order])[-1])
    p = np.maximum((levels[active] - start) * slope, 0.0)
    return p / p.sum()
