"""Drawing sparse bit reports: the cost is that of the ones, zeros are skipped."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from anonbayes.channels.reports import BitReports
from anonbayes.channels.secure import Source
from anonbayes.domains import code_dtype

__all__ = ["draw_bits", "skips"]

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

# Ones drawn at a time; bounds the working memory.
CHUNK = 4_000_000


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
        places = skips(n * len(columns), highest, source)
        column = columns[places % len(columns)]
        keys = (places // len(columns)) * size + column
        if miss[columns].min() < highest:
            keys = keys[source.random(len(keys)) * highest < miss[column]]
        parts.append(keys)
    if not parts:
        return np.empty(0, dtype=np.int64)
    return parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))


def skips(total: int, probability: float, source: Source) -> Codes:
    """Positions below `total`, each present independently with that probability, ascending.

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
        places = last + np.cumsum(np.minimum(gaps, total).astype(np.int64) + 1)
        parts.append(places)
        last = int(places[-1])
    found = np.concatenate(parts)
    return found[: np.searchsorted(found, total)]


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
