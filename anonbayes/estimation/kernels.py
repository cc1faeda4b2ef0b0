"""Compiled kernels over reports: plain arrays in and out.

Compiled code reads beyond its arrays without an error, so each kernel relies on checks in a single
place: `MixtureLikelihood` and `BitReports` check that row pointers ascend to the number of indices
and that indices are below the number of values; `Domain.encode` checks codes; `LocalHashing.read`
checks the numbers of hash functions. The numbers of a likelihood are finite and its weights not
negative by the same check; a row whose probability underflows to zero is ignored.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit

from anonbayes.arrays import Floats, Ints, SmallCodes


@njit(cache=True)
def count(codes: SmallCodes, size: int) -> Ints:
    """Count each code below `size` without widening narrow integer types first."""
    out = np.zeros(size, dtype=np.int64)
    for i in range(len(codes)):
        out[codes[i]] += 1
    return out


@njit(cache=True)
def count_columns(matrix: npt.NDArray[np.uint8]) -> Ints:
    """Sum each column of a matrix of zeros and ones in bytes."""
    n, size = matrix.shape
    out = np.zeros(size, dtype=np.int64)
    # A byte holds the sum of 255 rows, and many bytes are added at once.
    part = np.empty(size, dtype=np.uint8)
    for start in range(0, n, 255):
        part[:] = 0
        for i in range(start, min(start + 255, n)):
            for j in range(size):
                part[j] += matrix[i, j]
        for j in range(size):
            out[j] += part[j]
    return out


@njit(cache=True, inline="always")
def _row(
    r: int, base: float, weighted: Floats, floor: Floats, indptr: Ints, indices: SmallCodes
) -> float:
    """Probability of row `r`, ``floor[r] * base`` plus the sum of `weighted` over its entries."""
    total = floor[r] * base
    for j in range(indptr[r], indptr[r + 1]):
        total += weighted[indices[j]]
    return total


@njit(cache=True)
def mixture(
    base: float, weighted: Floats, floor: Floats, indptr: Ints, indices: SmallCodes
) -> Floats:
    """Probability of each row."""
    out = np.empty(len(floor))
    for r in range(len(floor)):
        out[r] = _row(r, base, weighted, floor, indptr, indices)
    return out


@njit(cache=True)
def expectation(
    base: float,
    weighted: Floats,
    weights: Ints,
    floor: Floats,
    indptr: Ints,
    indices: SmallCodes,
    pull: Floats,
) -> tuple[float, float]:
    """One pass of EM: the log-likelihood, and the contributions to each column and to the floor.

    ``pull[k]`` becomes the sum of ``weights[r] / P(r)`` over the rows that contain ``k``; the
    second result is ``sum of weights[r] * floor[r] / P(r)``.
    """
    log_likelihood = 0.0
    floor_pull = 0.0
    pull[:] = 0.0
    for r in range(len(floor)):
        if weights[r] == 0:
            continue
        total = _row(r, base, weighted, floor, indptr, indices)
        if total <= 0.0:
            log_likelihood = -np.inf
            continue
        log_likelihood += weights[r] * np.log(total)
        share = weights[r] / total
        floor_pull += floor[r] * share
        for j in range(indptr[r], indptr[r + 1]):
            pull[indices[j]] += share
    return log_likelihood, floor_pull


@njit(cache=True)
def allocate(
    rng: np.random.Generator,
    base: float,
    weighted: Floats,
    weights: Ints,
    floor: Floats,
    indptr: Ints,
    indices: SmallCodes,
    counts: Ints,
) -> int:
    """Draw which entry each report stems from; `counts` receives the numbers per column.

    Returns how many reports stem from the floor, which carries no information about the column.
    """
    noise = 0
    for r in range(len(floor)):
        left = weights[r]
        if left == 0:
            continue
        start, stop = indptr[r], indptr[r + 1]
        total = _row(r, base, weighted, floor, indptr, indices)
        if not total > 0.0:  # uninformative; avoids drawing with a share of 0/0
            noise += left
            continue
        if left == 1:
            rest = rng.random() * total - floor[r] * base
            if rest < 0.0 or start == stop:
                noise += 1
                continue
            j = start
            rest -= weighted[indices[j]]
            while rest >= 0.0 and j + 1 < stop:
                j += 1
                rest -= weighted[indices[j]]
            counts[indices[j]] += 1
            continue
        if floor[r] > 0.0:
            drawn = rng.binomial(left, min(1.0, floor[r] * base / total))
            noise += drawn
            left -= drawn
            total -= floor[r] * base
        for j in range(start, stop):
            if left == 0:
                break
            share = 1.0
            if j + 1 < stop:
                share = min(1.0, max(0.0, weighted[indices[j]] / total)) if total > 0.0 else 0.0
            drawn = rng.binomial(left, share)
            counts[indices[j]] += drawn
            left -= drawn
            total -= weighted[indices[j]]
        noise += left
    return noise


# -------------------------------------------------------------------------------------------------
# Hash functions ``h(x) = ((a x + b) mod p) mod g`` of reports ``(a, b, y)``.
#
# ``p`` is either a prime below ``2^31``, so that products fit into 64 bits, or the Mersenne prime
# ``2^61 - 1``, whose products are put together from halves.

_P61 = np.uint64(2**61 - 1)
_LOW30, _LOW31 = np.uint64(2**30 - 1), np.uint64(2**31 - 1)
_1, _30, _31, _61 = np.uint64(1), np.uint64(30), np.uint64(31), np.uint64(61)


@njit(cache=True)
def _multiply(a: np.uint64, x: np.uint64) -> np.uint64:
    """``a x mod 2^61 - 1``, up to one multiple of the modulus."""
    a_high, a_low = a >> _31, a & _LOW31
    x_high, x_low = x >> _31, x & _LOW31
    middle = a_low * x_high + a_high * x_low
    total = ((a_high * x_high) << _1) + (middle >> _30) + ((middle & _LOW30) << _31) + a_low * x_low
    return (total >> _61) + (total & _P61)


@njit(cache=True)
def _hash(a: np.uint64, b: np.uint64, x: np.uint64, prime: np.uint64, g: np.uint64) -> np.uint64:
    if prime == _P61:
        z = _multiply(a, x) + b
        z = (z >> _61) + (z & _P61)
        if z >= _P61:
            z -= _P61
        return z % g
    return ((a * x + b) % prime) % g


@njit(cache=True)
def support_counts(a: Ints, b: Ints, y: Ints, x: Ints, prime: int, g: int) -> Ints:
    """Number of reports with ``h(x) = y``, for each candidate `x`."""
    counts = np.zeros(len(x), dtype=np.int64)
    p, symbols = np.uint64(prime), np.uint64(g)
    for i in range(len(a)):
        first, second, symbol = np.uint64(a[i]), np.uint64(b[i]), np.uint64(y[i])
        for j in range(len(x)):
            if _hash(first, second, np.uint64(x[j]), p, symbols) == symbol:
                counts[j] += 1
    return counts


@njit(cache=True)
def support_rows(a: Ints, b: Ints, y: Ints, size: int, prime: int, g: int) -> tuple[Ints, Ints]:
    """Values below `size` that hash to each report, as compressed rows."""
    indptr = np.zeros(len(a) + 1, dtype=np.int64)
    values = np.empty(max(16, 2 * len(a)), dtype=np.int64)
    p, symbols, used = np.uint64(prime), np.uint64(g), 0
    for i in range(len(a)):
        first, second, symbol = np.uint64(a[i]), np.uint64(b[i]), np.uint64(y[i])
        for x in range(size):
            if _hash(first, second, np.uint64(x), p, symbols) == symbol:
                if used == len(values):
                    larger = np.empty(2 * used, dtype=np.int64)
                    larger[:used] = values
                    values = larger
                values[used] = x
                used += 1
        indptr[i + 1] = used
    return indptr, values[:used].copy()


@njit(cache=True)
def invert(a: Ints, b: Ints, y: Ints, prime: int) -> Ints:
    """Return the one value that hashes to each report when ``g = p < 2^31``.

    Hash functions with ``a = 0`` are constant: they give -1 when every value hashes to the report,
    -2 when none does.
    """
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
