"""Hashed reports: universal hashing, support counts, losses."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from anonbayes.arrays import Floats, Ints
from anonbayes.errors import ChannelError
from anonbayes.notions.ldp import check_epsilon

__all__ = [
    "epsilon_of_theta",
    "hashing_loss",
    "invert",
    "limiting_loss",
    "response_loss",
    "support_counts",
    "support_rows",
]


# -------------------------------------------------------------------------------------------------
# Hash functions ``h(x) = ((a x + b) mod p) mod g`` in bulk: plain arrays in and out.
#
# ``p`` is either a prime below ``2^31``, so that products fit into 64 bits, or the Mersenne prime
# ``2^61 - 1``, whose products are put together from halves.

_P61 = np.uint64(2**61 - 1)
_LOW30, _LOW31 = np.uint64(2**30 - 1), np.uint64(2**31 - 1)
_1, _30, _31, _61 = np.uint64(1), np.uint64(30), np.uint64(31), np.uint64(61)


@njit(cache=True)
def _multiply(a: Any, x: Any) -> Any:
    """``a x mod 2^61 - 1``, up to one multiple of the modulus."""
    a_high, a_low = a >> _31, a & _LOW31
    x_high, x_low = x >> _31, x & _LOW31
    middle = a_low * x_high + a_high * x_low
    total = ((a_high * x_high) << _1) + (middle >> _30) + ((middle & _LOW30) << _31) + a_low * x_low
    return (total >> _61) + (total & _P61)


@njit(cache=True)
def _hash(a: Any, b: Any, x: Any, prime: Any, g: Any) -> Any:
    if prime == _P61:
        z = _multiply(a, x) + b
        z = (z >> _61) + (z & _P61)
        if z >= _P61:
            z -= _P61
        return z % g
    return ((a * x + b) % prime) % g


@njit(cache=True)
def _support_counts(a: Any, b: Any, y: Any, x: Any, prime: Any, g: Any) -> Any:
    counts = np.zeros(len(x), dtype=np.int64)
    for i in range(len(a)):
        for j in range(len(x)):
            if _hash(a[i], b[i], x[j], prime, g) == y[i]:
                counts[j] += 1
    return counts


@njit(cache=True)
def _support_rows(a: Any, b: Any, y: Any, size: Any, prime: Any, g: Any) -> Any:
    indptr = np.zeros(len(a) + 1, dtype=np.int64)
    found = np.empty(max(16, 2 * len(a)), dtype=np.int64)
    used = 0
    for i in range(len(a)):
        for x in range(size):
            if _hash(a[i], b[i], np.uint64(x), prime, g) == y[i]:
                if used == len(found):
                    larger = np.empty(2 * used, dtype=np.int64)
                    larger[:used] = found
                    found = larger
                found[used] = x
                used += 1
        indptr[i + 1] = used
    return indptr, found[:used].copy()


@njit(cache=True)
def _invert(a: Any, b: Any, y: Any, prime: Any) -> Any:
    out = np.empty(len(a), dtype=np.int64)
    for i in range(len(a)):
        if a[i] == 0:
            out[i] = -1 if y[i] == b[i] else -2
            continue
        # Euclid's algorithm, extended: `inverse * a[i]` stays congruent to `rest`.
        rest, last = a[i], prime
        inverse, before = 1, 0
        while rest > 1:
            quotient = last // rest
            rest, last = last - quotient * rest, rest
            inverse, before = before - quotient * inverse, inverse
        difference = (y[i] - b[i]) % prime
        out[i] = (difference * (inverse % prime)) % prime
    return out


def _unsigned(*arrays: npt.ArrayLike) -> list[npt.NDArray[np.uint64]]:
    return [np.ascontiguousarray(x, dtype=np.uint64) for x in arrays]


def support_counts(
    a: npt.ArrayLike, b: npt.ArrayLike, y: npt.ArrayLike, x: npt.ArrayLike, prime: int, g: int
) -> Ints:
    """Number of reports ``(a, b, y)`` with ``h(x) = y``, for each candidate `x`."""
    return _support_counts(*_unsigned(a, b, y, x), np.uint64(prime), np.uint64(g))


def support_rows(
    a: npt.ArrayLike, b: npt.ArrayLike, y: npt.ArrayLike, size: int, prime: int, g: int
) -> tuple[Ints, Ints]:
    """Values below `size` that hash to each report, as compressed rows."""
    return _support_rows(*_unsigned(a, b, y), size, np.uint64(prime), np.uint64(g))


def invert(a: npt.ArrayLike, b: npt.ArrayLike, y: npt.ArrayLike, prime: int) -> Ints:
    """Return the one value that hashes to each report when ``g = p < 2^31``.

    Hash functions with ``a = 0`` are constant: they give -1 when every value hashes to the report,
    -2 when none does.

    Examples
    --------
    >>> invert([3, 3, 0, 0], [1, 1, 4, 4], [0, 2, 4, 5], 7).tolist()
    [2, 5, -1, -2]
    """
    signed = (np.ascontiguousarray(v, dtype=np.int64) for v in (a, b, y))
    return _invert(*signed, prime)


# -------------------------------------------------------------------------------------------------
# Losses of randomized response and local hashing value by value, without tables (PIE 4.4).
#
# The users' own frequencies ``p`` are fixed: only the mechanism's noise counts.


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
        raise ChannelError("p contains numbers that are not shares between 0 and 1.")
    if n < 1 or size < 2:
        raise ChannelError(
            f"n={n!r} must be at least 1, and the number of symbols ({size!r}) at least 2."
        )
    if check_epsilon(epsilon) == 0:
        raise ChannelError("epsilon=0: the reports carry no information, so the loss is infinite.")
    return shares, float(np.exp(-epsilon))
