"""Upper bounds on what a report says about who sent it, whatever the adversary knows (PIE 4)."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from anonbayes.channels.base import Channel
from anonbayes.errors import AnonbayesError, ChannelError, one_of
from anonbayes.guarantees.pie.divergence import LOG2E, divergence_terms, excess
from anonbayes.guarantees.pie.extremes import Symbols, contraction, ldp_budget

__all__ = ["KINDS", "bound", "check_users"]

KINDS = ("theorem", "exact", "general")


def bound(channel: Channel, n_users: int, t: int = 1, *, kind: str = "theorem") -> float:
    """Bits ``alpha`` with ``I(U;Y) <= alpha`` for all ``p_UX``: (U, alpha)-PIE privacy.

    Parameters
    ----------
    channel : Channel
        What each user's device runs.
    n_users : int
        Number of users, known to the adversary.
    t : int
        Reports of each user, possibly about correlated values (PIE Theorems 12 and 14).
    kind : {"theorem", "exact", "general"}
        * ``"theorem"``: ``theta min(log2 n, log2 K)`` with the channel's `contraction` (PIE
          Theorems 11 and 13);
        * ``"exact"``: the supremum itself for one report (ours). In closed form for randomized
          response and invertible local hashing; for other channels whose matrix can be written
          down, and at least as many users as values, the channel's capacity;
        * ``"general"``: from the LDP budget alone (PIE Prop. 10).

    Returns
    -------
    float
        Bits; never more than ``log2 n``.

    Examples
    --------
    >>> import anonbayes as ab
    >>> channel = ab.RandomizedResponse(ab.IntegerDomain(10_500_393), epsilon=1.0)
    >>> [f"{ab.pie.bound(channel, 1_370_637, kind=kind):.3g}"
    ...  for kind in ("general", "theorem", "exact")]
    ['1.44', '3.34e-06', '1.37e-07']
    """
    one_of("kind", kind, KINDS)
    n = check_users(n_users)
    reports = check_reports(t)
    symbols = Symbols.of(channel)
    once = _channel_bits(channel, n, kind) if symbols is None else symbols_bits(symbols, n, kind)
    return min(reports * once, float(np.log2(n)))


def check_users(n_users: float) -> int:
    """Return the number of users; raise `AnonbayesError` unless it is a whole number from 1."""
    if not _is_whole(n_users):
        raise AnonbayesError(f"n_users={n_users!r}: give a whole number of users from 1.")
    return int(n_users)


def check_reports(t: int) -> int:
    """Return the number of reports; raise `AnonbayesError` unless it is a whole number from 1."""
    if not _is_whole(t):
        raise AnonbayesError(f"t={t!r} reports: give a whole number from 1.")
    return int(t)


def _is_whole(number: Any) -> bool:
    if not isinstance(number, Real):
        return False
    value = float(number)
    return 1 <= value < np.inf and value == int(value)


def symbols_bits(symbols: Symbols, n: int, kind: str) -> float:
    """Bits of one report of randomized response or local hashing."""
    if kind == "theorem":
        return symbols.theta * min(float(np.log2(n)), float(np.log2(symbols.n_values)))
    if kind == "general":
        return _general(symbols.epsilon, symbols.n_values)
    if symbols.silent is None:
        raise ChannelError(
            "The exact supremum of local hashing is known for invertible hash functions only "
            "(LocalHashing.invertible); use kind='theorem'."
        )
    return (1.0 - symbols.silent) * _supremum(symbols, symbols.used(n))


def _channel_bits(channel: Channel, n: int, kind: str) -> float:
    size = len(channel.domain)
    if kind == "theorem":
        return contraction(channel) * min(float(np.log2(n)), float(np.log2(size)))
    if kind == "general":
        return _general(ldp_budget(channel), size)
    if n < size:
        raise ChannelError(
            f"The exact supremum of {channel!r} is known for at least {size} users, one per "
            f"value; there are {n}. Use kind='theorem'."
        )
    return capacity(channel.matrix())


def _general(epsilon: float, size: int) -> float:
    return min(epsilon * LOG2E, epsilon**2 * LOG2E, float(np.log2(size)))


def _supremum(symbols: Symbols, k: int) -> float:
    """Supremum for randomized response with ``k = min(n, K)`` symbols in use (MODEL 4).

    By convexity every user best holds one value for certain, by symmetry all are equally likely,
    and more values say more. Written as a divergence from the mean report, which keeps its
    digits: ``a (phi(c1/a - 1) + (k-1) phi(c2/a - 1))``.
    """
    mean = symbols.noise + symbols.theta / k
    above, below = symbols.theta * (k - 1) / (k * mean), -symbols.theta / (k * mean)
    return float(LOG2E * mean * (excess(above) + (k - 1) * excess(below)))


def capacity(
    matrix: npt.ArrayLike, *, tolerance: float = 1e-10, iterations: int = 100_000
) -> float:
    """Capacity of a channel in bits, by Blahut and Arimoto's algorithm.

    Stops when the certified gap between its lower and upper bound is below `tolerance`; returns
    the upper bound, so that what is guaranteed holds.

    Examples
    --------
    >>> round(capacity([[0.75, 0.25], [0.25, 0.75]]), 6)
    0.188722
    """
    q = np.asarray(matrix, dtype=float)
    p = np.full(len(q), 1.0 / len(q))
    for _ in range(iterations):
        gain = divergence_terms(q, p @ q).sum(axis=1)
        upper, lower = float(gain.max()), float(p @ gain)
        if upper - lower < tolerance:
            return upper
        p = p * np.exp2(gain - upper)
        p /= p.sum()
    raise ChannelError(
        f"The capacity lies between {lower:.9g} and {upper:.9g} bits; it was not found to "
        f"{tolerance:g} in {iterations} iterations."
    )
