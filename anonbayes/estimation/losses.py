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
import numpy.typing as npt

from anonbayes.arrays import Floats, read_number
from anonbayes.errors import ChannelError, one_of
from anonbayes.estimation.closed_forms import check_informative
from anonbayes.notions.ldp import check_epsilon

NORMS = ("l1", "l2")


def expected_loss(
    p: Floats, n: int, hit: Floats, miss: Floats, *, norm: str = "l2", sampled: bool = True
) -> float:
    """Return the expected ``sum |p_hat - p|`` (l1) or ``sum (p_hat - p)^2`` (l2).

    With ``sampled=False``, `p` holds the frequencies among the `n` users themselves: the error
    of drawing them from a population, ``p (1 - p) / n`` in each variance, is left out (PIE).
    """
    one_of("norm", norm, NORMS)
    if not read_number("n", n, error=ChannelError) >= 1:
        raise ChannelError(f"n={n!r}: at least one report is needed.")
    gain = check_informative(hit, miss)
    rate = miss + gain * p
    variance = rate * (1 - rate)
    if not sampled:
        variance = p * hit * (1 - hit) + (1 - p) * miss * (1 - miss)
    variance = np.maximum(variance, 0.0)
    if norm == "l2":
        return float(np.sum(variance / gain**2) / n)
    return float(np.sqrt(2 / (np.pi * n)) * np.sum(np.sqrt(variance) / gain))


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


# -------------------------------------------------------------------------------------------------
# What the losses become at small and large budgets: the simple expressions that the literature
# compares mechanisms by (ULDP Secs. 3.2, 4.3 and App. C.1).


def high_privacy_loss(
    mechanism: str, n_sensitive: int, epsilon: float, n: int, *, norm: str = "l2"
) -> float:
    """Worst-case loss as ``epsilon -> 0`` (ULDP (15), (18), App. C.1).

    Of utility-optimized randomized response (``"response"``), or RAPPOR (``"bits"``); plain ones
    have all values sensitive.

    Examples
    --------
    RAPPOR beats randomized response when the budget is small:

    >>> bits = high_privacy_loss("bits", 100, 0.1, 10_000, norm="l1")
    >>> response = high_privacy_loss("response", 100, 0.1, 10_000, norm="l1")
    >>> round(response / bits, 2)
    4.97
    """
    one_of("mechanism", mechanism, ("response", "bits"))
    one_of("norm", norm, NORMS)
    _check(n_sensitive, epsilon, n)
    if norm == "l1":
        size = (
            n_sensitive * np.sqrt(n_sensitive - 1) if mechanism == "response" else 2 * n_sensitive
        )
        return float(np.sqrt(2 / (n * np.pi)) * size / epsilon)
    size = n_sensitive * (n_sensitive - 1) if mechanism == "response" else 4 * n_sensitive
    return float(size / (n * epsilon**2))


def non_private_loss(n_values: int, n: int, *, norm: str = "l2") -> float:
    """Worst-case loss of releasing the true values: the sampling error."""
    one_of("norm", norm, NORMS)
    if n_values < 1 or n < 1:
        raise ChannelError(f"n_values={n_values} and n={n} must be at least 1.")
    if norm == "l1":
        return float(np.sqrt(2 * (n_values - 1) / (n * np.pi)))
    return (1 - 1 / n_values) / n


def _check(n_sensitive: int, epsilon: float, n: int) -> None:
    if check_epsilon(epsilon) == 0:
        raise ChannelError("epsilon=0: the loss is infinite.")
    if n_sensitive < 1 or n < 1:
        raise ChannelError(f"n_sensitive={n_sensitive} and n={n} must be at least 1.")


# -------------------------------------------------------------------------------------------------
# Losses of randomized response and local hashing value by value, without tables (PIE 4.4).
#
# The users' own frequencies ``p`` are fixed: only the mechanism's noise counts.


def response_loss(p: npt.ArrayLike, n: int, size: int, epsilon: float) -> Floats:
    """Expected squared error of a value's empirical share under randomized response.

    ``(K+e-2)/(n(e-1)^2) + p(K-2)/(n(e-1))`` with ``e = exp(epsilon)`` (PIE Prop. 15).

    Examples
    --------
    >>> float(response_loss(0.3, 1000, 10, 1.0).round(9))
    0.005026993
    """
    shares, shrink = _shares(p, n, size, epsilon)
    gain = -np.expm1(-epsilon)  # (e - 1)/e
    first = shrink * (1.0 + (size - 2) * shrink) / gain**2
    return (first + shares * (size - 2) * shrink / gain) / n


def hashing_loss(p: npt.ArrayLike, n: int, g: int, epsilon: float) -> Floats:
    """Expected squared error of a value's empirical share under local hashing.

    ``(g+e-1)^2/(n(e-1)^2(g-1)) + p(g^2-2g-e+1)/(n(e-1)(g-1))`` (PIE Prop. 16).

    Examples
    --------
    >>> hashing_loss([0.3, 0.0], 1000, 4, 1.0).round(9)
    array([0.00405724, 0.00369165])
    """
    shares, shrink = _shares(p, n, g, epsilon)
    gain = -np.expm1(-epsilon)
    first = (1.0 + (g - 1) * shrink) ** 2 / gain**2
    second = shares * ((float(g) * (g - 2) + 1) * shrink - 1.0) / gain
    return (first + second) / (n * (g - 1))


def limiting_loss(p: npt.ArrayLike, n: int, theta: float) -> Floats:
    """Loss of local hashing as ``g`` grows with `theta` held: ``p(1-theta)/(n theta)``.

    At fixed `theta`, hence at a fixed bound on what a report says about who sent it, the loss
    falls with ``g`` to this limit (PIE Theorem 17).
    """
    _check_theta(theta)
    return np.asarray(p, dtype=float) * (1 - theta) / (n * theta)


def epsilon_of_theta(theta: float, size: int) -> float:
    """Budget at which a report on `size` symbols is true with probability `theta`.

    Inverse of ``theta = (e-1)/(size+e-1)``, the share of mutual information that gets through
    (PIE Theorems 11 and 13).
    """
    _check_theta(theta)
    return float(np.log1p(theta * size / (1 - theta)))


def _check_theta(theta: float) -> None:
    if not 0 < theta < 1:
        raise ChannelError(f"theta={theta!r} must lie strictly between 0 and 1.")


def _shares(p: npt.ArrayLike, n: int, size: int, epsilon: float) -> tuple[Floats, float]:
    shares = np.asarray(p, dtype=float)
    if not ((shares >= 0) & (shares <= 1)).all():
        raise ChannelError("p contains numbers that are not shares between 0 and 1.")
    if n < 1 or size < 2:
        raise ChannelError(
            f"n={n!r} must be at least 1, and the number of symbols ({size!r}) at least 2."
        )
    if check_epsilon(epsilon) == 0:
        raise ChannelError("epsilon=0: the reports carry no information, so the loss is infinite.")
    return shares, float(np.exp(-epsilon))
