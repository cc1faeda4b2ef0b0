"""What the losses become at small and large budgets, and what no mechanism can beat.

The exact losses are in `anonbayes.estimation.losses`; these are the simple expressions that the
literature compares mechanisms by (ULDP Secs. 3.2, 4.3 and App. C.1).
"""

from __future__ import annotations

import numpy as np

from anonbayes.errors import ChannelError, one_of
from anonbayes.estimation.losses import NORMS
from anonbayes.guarantees.ldp import check_epsilon

__all__ = ["high_privacy_loss", "low_privacy_loss", "minimax_rate", "non_private_loss"]


def high_privacy_loss(
    mechanism: str, n_sensitive: int, epsilon: float, n: int, *, norm: str = "l2"
) -> float:
    """Worst-case loss as ``epsilon -> 0`` (ULDP (15), (18), App. C.1).

    Parameters
    ----------
    mechanism : {"response", "bits"}
        Utility-optimized randomized response, or RAPPOR; plain ones have all values sensitive.
    n_sensitive : int
        Number of sensitive values.
    epsilon : float
        Budget, positive.
    n : int
        Number of reports.
    norm : {"l1", "l2"}
        Loss.

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


def low_privacy_loss(n_values: int, n: int, *, norm: str = "l2") -> float:
    """Worst-case loss at ``epsilon = ln K`` when few values are sensitive: that of no privacy.

    It is reached by uRR when ``K_S << K`` and by uRAP when ``K_S << K^(3/4)`` (l1) or
    ``K_S << K^(1/2)`` (l2).
    """
    return non_private_loss(n_values, n, norm=norm)


def non_private_loss(n_values: int, n: int, *, norm: str = "l2") -> float:
    """Worst-case loss of releasing the values as they are: the error of sampling.

    Examples
    --------
    >>> non_private_loss(2, 100, norm="l2")
    0.005
    """
    one_of("norm", norm, NORMS)
    if n_values < 1 or n < 1:
        raise ChannelError(f"n_values={n_values} and n={n} must be at least 1.")
    if norm == "l1":
        return float(np.sqrt(2 * (n_values - 1) / (n * np.pi)))
    return (1 - 1 / n_values) / n


def minimax_rate(n_sensitive: int, epsilon: float, n: int, *, norm: str = "l2") -> float:
    """Order of the smallest worst-case loss of any ULDP mechanism, for ``epsilon <= 1``.

    ``K_S / sqrt(n epsilon^2)`` (l1) and ``K_S / (n epsilon^2)`` (l2), up to a constant (Duchi,
    Jordan and Wainwright 2013, applied to the sensitive values; ULDP Sec. 3.2). A mechanism is
    order-optimal when its worst case is a bounded multiple of this.
    """
    one_of("norm", norm, NORMS)
    _check(n_sensitive, epsilon, n)
    if epsilon > 1:
        raise ChannelError(f"epsilon={epsilon!r}: the bound is known for budgets up to 1 only.")
    if norm == "l1":
        return float(n_sensitive / np.sqrt(n * epsilon**2))
    return float(n_sensitive / (n * epsilon**2))


def _check(n_sensitive: int, epsilon: float, n: int) -> None:
    if check_epsilon(epsilon) == 0:
        raise ChannelError("epsilon=0: the loss is infinite.")
    if n_sensitive < 1 or n < 1:
        raise ChannelError(f"n_sensitive={n_sensitive} and n={n} must be at least 1.")
