"""Drawing sparse bit reports: where ones are rare, the zeros between them are skipped."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from anonbayes.channels.reports import BitReports
from anonbayes.channels.secure import Source
from anonbayes.domains import code_dtype

__all__ = ["draw_bits", "places", "scan", "skips"]

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

# Ones drawn at a time; bounds the working memory.
CHUNK = 4_000_000

# A geometric gap costs about as much as ten bytes: above this density every bit gets a byte.
DENSE = 0.1


def draw_bits(codes: Codes, hit: Array, miss: Array, source: Source) -> BitReports:
    """Draw reports of users who hold `codes`: own bit one with ``hit``, others with ``miss``.

    Examples
    --------
    >>> hit, miss = np.array([1.0, 1.0]), np.array([0.0, 0.0])
    >>> draw_bits(np.array([1, 0]), hit, miss, np.random.default_rng(0)).to_dense().tolist()
    [[0, 1], [1, 0]]
    """
    size = len(hit)
    rows = max(1, int(CHUNK / max(float(miss.sum()), 1.0)))
    lengths, parts = [], []
    for start in range(0, len(codes), rows):
        block = codes[start : start + rows]
        noise = _noise(len(block), miss, source)
        own = source.random(len(block)) < hit[block]
        indptr = np.zeros(len(block) + 1, dtype=np.int64)
        ones = np.empty(len(noise) + len(block), dtype=code_dtype(size))
        used = _weave(noise, size, block, own, indptr, ones)
        lengths.append(np.diff(indptr))
        parts.append(ones[:used])
    indptr = np.concatenate([[0], np.cumsum(np.concatenate([*lengths, np.empty(0, np.int64)]))])
    indices = np.concatenate(parts) if parts else np.empty(0, dtype=code_dtype(size))
    return BitReports.trusted(indptr, indices, size)


def _noise(n: int, miss: Array, source: Source) -> Codes:
    """Positions ``row * K + column`` of raised bits, ascending, each with its ``miss``."""
    size = len(miss)
    parts = []
    # Columns of nearly equal probability are skipped through together, then thinned.
    exponent = np.where(miss > 0, np.frexp(miss)[1], 1)
    for power in np.unique(exponent[miss > 0]):
        columns = np.flatnonzero((exponent == power) & (miss > 0))
        highest = float(miss[columns].max())
        keys = places(n * len(columns), highest, source)
        if len(columns) < size:
            keys = (keys // len(columns)) * size + columns[keys % len(columns)]
        if miss[columns].min() < highest:
            keys = keys[source.random(len(keys)) * highest < miss[keys % size]]
        parts.append(keys)
    if not parts:
        return np.empty(0, dtype=np.int64)
    return parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))


def places(total: int, probability: float, source: Source) -> Codes:
    """Positions below `total`, each present independently with that probability, ascending."""
    return (skips if probability < DENSE else scan)(total, probability, source)


def scan(total: int, probability: float, source: Source) -> Codes:
    """As `places`, from one random byte per position.

    A byte below ``floor(256 p)`` raises the bit, one above does not, and the one byte in between
    is decided by a 53-bit uniform, so that the probability is exact to 2^-61.

    Examples
    --------
    >>> scan(8, 0.5, np.random.default_rng(1)).tolist()
    [2, 3, 6]
    """
    cut, rest = divmod(256.0 * probability, 1.0)
    drawn = np.frombuffer(source.bytes(total), dtype=np.uint8)
    raised = drawn < cut
    ties = np.flatnonzero(drawn == cut)
    raised[ties] = source.random(len(ties)) < rest
    return _positions(raised, int(np.count_nonzero(raised)))


@njit(cache=True)
def _positions(raised: Any, number: int) -> Any:
    """Positions of the true entries; the spare place takes the writes that do not count."""
    out = np.empty(number + 1, dtype=np.int64)
    j = 0
    for i in range(len(raised)):
        out[j] = i
        j += raised[i]
    return out[:number]


def skips(total: int, probability: float, source: Source) -> Codes:
    """As `places`, at the cost of the ones alone.

    The gaps between them are geometric, drawn by inversion from 53-bit uniforms.

    Examples
    --------
    >>> skips(10**6, 1e-4, np.random.default_rng(1)).size
    100
    """
    parts, last = [], -1
    while last < total:
        expected = (total - last) * probability
        number = int(expected + 4.0 * np.sqrt(expected)) + 16
        gaps = np.floor(np.log1p(-source.random(number)) / np.log1p(-probability))
        found = last + np.cumsum(np.minimum(gaps, total).astype(np.int64) + 1)
        parts.append(found)
        last = int(found[-1])
    every = np.concatenate(parts)
    return every[: np.searchsorted(every, total)]


@njit(cache=True)
def _weave(noise: Any, size: int, codes: Any, own: Any, indptr: Any, ones: Any) -> int:
    """Put each user's own bit in its place among the noise bits; return the number of ones."""
    taken = 0
    j = 0
    for i in range(len(codes)):
        mine = codes[i]
        pending = own[i]
        first, end = i * size, (i + 1) * size
        while j < len(noise) and noise[j] < end:
            column = noise[j] - first
            j += 1
            if column == mine:
                continue
            if pending and column > mine:
                ones[taken] = mine
                taken += 1
                pending = False
            ones[taken] = column
            taken += 1
        if pending:
            ones[taken] = mine
            taken += 1
        indptr[i + 1] = taken
    return taken
