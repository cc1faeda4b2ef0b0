"""Losses of randomized response and local hashing value by value, without tables (PIE 4.4).

The users' own frequencies ``p`` are fixed: only the mechanism's noise counts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Floats
from anonbayes.errors import ChannelError
from anonbayes.guarantees.ldp import check_epsilon

__all__ = ["epsilon_of_theta", "hashing_loss", "limiting_loss", "response_loss"]


def response_loss(p: npt.ArrayLike, n: int, size: int, epsilon: float) -> Floats:
    """Expected squared error of a value's empirical share under randomized response.

    ``(K+e-2)/(n(e-1)^2) + p(K-2)/(n(e-1))`` with ``e = exp(epsilon)`` (PIE Prop. 15).

    Parameters
    ----------
    p : array-like
        Share of the users who hold the value; any shape.
    n : int
        Number of users.
    size : int
        Number ``K`` of values.
    epsilon : float
        Budget, positive.

    Examples
    --------
    >>> float(response_loss(0.3, 1000, 10, 1.0).round(9))
    0.005026993
    """
    shares, shrink = _check(p, n, size, epsilon)
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
    shares, shrink = _check(p, n, g, epsilon)
    gain = -np.expm1(-epsilon)
    first = (1.0 + (g - 1) * shrink) ** 2 / gain**2
    second = shares * ((float(g) * (g - 2) + 1) * shrink - 1.0) / gain
    return (first + second) / (n * (g - 1))


def limiting_loss(p: npt.ArrayLike, n: int, theta: float) -> Floats:
    """Loss of local hashing as ``g`` grows with `theta` held: ``p(1-theta)/(n theta)``.

    At fixed `theta`, hence at a fixed bound on what a report says about who sent it, the loss
    falls with ``g`` to this limit (PIE Theorem 17).

    Examples
    --------
    >>> round(float(limiting_loss(0.3, 1000, 0.5)), 9)
    0.0003
    >>> round(float(hashing_loss(0.3, 1000, 10**9, epsilon_of_theta(0.5, 10**9))), 9)
    0.0003
    """
    _check_theta(theta)
    return np.asarray(p, dtype=float) * (1 - theta) / (n * theta)


def epsilon_of_theta(theta: float, size: int) -> float:
    """Budget at which a report on `size` symbols is true with probability `theta`.

    Inverse of ``theta = (e-1)/(size+e-1)``, the share of mutual information that gets through
    (PIE Theorems 11 and 13).

    Examples
    --------
    >>> round(epsilon_of_theta(0.5, 10_500_393), 3)
    16.167
    """
    _check_theta(theta)
    return float(np.log1p(theta * size / (1 - theta)))


def _check_theta(theta: float) -> None:
    if not 0 < theta < 1:
        raise ChannelError(f"theta={theta!r} must lie strictly between 0 and 1.")


def _check(p: npt.ArrayLike, n: int, size: int, epsilon: float) -> tuple[Floats, float]:
    shares = np.asarray(p, dtype=float)
    if not ((shares >= 0) & (shares <= 1)).all():
        raise ChannelError("p holds numbers that are no shares between 0 and 1.")
    if n < 1 or size < 2:
        raise ChannelError(f"n={n!r} must be at least 1, and the number of symbols ({size!r}) 2.")
    if check_epsilon(epsilon) == 0:
        raise ChannelError("epsilon=0: the reports carry no information, the loss is infinite.")
    return shares, float(np.exp(-epsilon))
