"""Drawing sparse bit reports: only the ones are visited, whatever their probability.

The bits of all reports form one long row of ``n K`` places. Between two ones lies a geometric
number of zeros, so that drawing these gaps gives the ones in order, at a cost and in a memory that
follow the number of ones; no array over all bits exists at any time.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from anonbayes.arrays import Floats, Ints
from anonbayes.channels.reports import BitReports
from anonbayes.channels.secure import Source
from anonbayes.domains import code_dtype

__all__ = ["draw_bits", "gap_table", "skips"]


# Ones drawn at a time; bounds the working memory beside the reports themselves.
CHUNK = 1 << 18

# From this probability on, one random byte per gap nearly always decides it; below, two do.
ONE_BYTE = 0.2


class Columns(NamedTuple):
    """Bits of nearly equal probability: where they are, and the largest of their ``miss``."""

    places: Ints
    highest: float
    even: bool


def draw_bits(codes: Ints, hit: Floats, miss: Floats, source: Source) -> BitReports:
    """Draw reports of users who hold `codes`: own bit one with ``hit``, others with ``miss``.

    Examples
    --------
    >>> hit, miss = np.array([1.0, 1.0]), np.array([0.0, 0.0])
    >>> draw_bits(np.array([1, 0]), hit, miss, np.random.default_rng(0)).to_dense().tolist()
    [[0, 1], [1, 0]]
    """
    size, classes = len(hit), _classes(miss)
    rows = max(1, int(CHUNK / max(float(miss.sum()), 1.0)))
    expected = len(codes) * float(miss.sum()) + float((hit - miss)[codes].sum())
    indptr = np.zeros(len(codes) + 1, dtype=np.int64)
    ones = np.empty(int(expected + 6.0 * np.sqrt(expected)) + rows, dtype=code_dtype(size))
    used = 0
    for start in range(0, len(codes), rows):
        block = codes[start : start + rows]
        noise = _noise(len(block), classes, miss, source)
        own = source.random(len(block)) < hit[block]
        if used + len(noise) + len(block) > len(ones):
            ones.resize(used + len(noise) + len(block) + len(ones) // 8, refcheck=False)
        used = _weave(noise, size, block, own, indptr[start:], ones, used)
    ones.resize(used, refcheck=False)
    return BitReports.trusted(indptr, ones, size)


def _classes(miss: Floats) -> list[Columns]:
    """Columns by power of two of their probability: each is skipped through, then thinned."""
    if miss.min() == miss.max() > 0:
        return [Columns(np.arange(len(miss)), float(miss[0]), True)]
    exponent = np.frexp(miss)[1]
    found = []
    for power in np.unique(exponent[miss > 0]):
        places = np.flatnonzero((exponent == power) & (miss > 0))
        highest = float(miss[places].max())
        found.append(Columns(places, highest, bool(miss[places].min() == highest)))
    return found


def _noise(n: int, classes: list[Columns], miss: Floats, source: Source) -> Ints:
    """Positions ``row * K + column`` of raised bits, ascending, each with its ``miss``."""
    size = len(miss)
    parts = []
    for places, highest, even in classes:
        keys = skips(n * len(places), highest, source)
        if len(places) < size:
            row, place = np.divmod(keys, len(places))
            keys = row * size + places[place]
        if not even:
            keys = keys[source.random(len(keys)) * highest < miss[keys % size]]
        parts.append(keys)
    if len(parts) == 1:
        return parts[0]
    return np.sort(np.concatenate([*parts, np.empty(0, dtype=np.int64)]))


def skips(total: int, probability: float, source: Source) -> Ints:
    """Positions below `total`, each present independently with that probability, ascending.

    Each position takes one or two random bytes for the gap before it (`gap_table`), and a 53-bit
    uniform more when these leave the gap open. Their probabilities are those of the geometric
    distribution, exact up to the rounding of a logarithm.

    Examples
    --------
    >>> skips(10**12, 1e-10, np.random.default_rng(1)).size
    102
    >>> skips(20, 0.5, np.random.default_rng(1)).tolist()
    [8, 12, 13, 14, 19]
    """
    table = gap_table(probability)
    width = np.uint8 if len(table) == 256 else np.uint16
    log_zero = float(np.log1p(-probability))
    last, used, positions = -1, 0, np.empty(0, dtype=np.int64)
    while last < total:
        expected = (total - 1 - last) * probability
        number = int(expected + 4.0 * np.sqrt(expected)) + 16
        words = np.frombuffer(source.bytes(number * width().itemsize), dtype=width)
        spare = source.random(_count_open(words, table))
        positions = _room(positions, used, number)
        last, used = _walk(words, table, spare, log_zero, last, total, positions, used)
    return positions[:used]


@lru_cache(maxsize=32)
def gap_table(probability: float) -> npt.NDArray[np.int32]:
    """Gap for each value of the first random byte (or pair of bytes); -1 where it leaves two open.

    A gap of ``g`` zeros follows from a uniform ``s`` with ``q^(g+1) < s <= q^g``, ``q = 1 - p``.
    Word ``w`` of ``W`` says that ``s`` lies in ``((W-w-1)/W, (W-w)/W]``.

    Examples
    --------
    Half of the bytes say "no gap" when every second bit is a one, a quarter say "one zero":

    >>> table = gap_table(0.5)
    >>> [int((table == gap).sum()) for gap in (0, 1, 2, -1)]
    [128, 64, 32, 1]
    """
    size = 256 if probability >= ONE_BYTE else 65536
    edges = np.arange(size, -1, -1) / size
    with np.errstate(divide="ignore"):
        place = np.log(edges) / np.log1p(-probability)
    smallest, largest = np.floor(place[:-1]), np.ceil(place[1:]) - 1
    return np.where(smallest == largest, smallest, -1).astype(np.int32)


def _room(array: Ints, used: int, number: int) -> Ints:
    """The array with room for `number` more entries after the first `used`."""
    if used + number <= len(array):
        return array
    larger = np.empty(used + number, dtype=array.dtype)
    larger[:used] = array[:used]
    return larger


@njit(cache=True)
def _count_open(words: Any, table: Any) -> int:
    """Count the words that leave their gap open."""
    number = 0
    for word in words:
        number += table[word] < 0
    return number


@njit(cache=True)
def _walk(
    words: Any,
    table: Any,
    spare: Any,
    log_zero: float,
    last: Any,
    total: int,
    out: Any,
    used: int,
) -> Any:
    """Step from one to one up to `total`; return the last place and the number of ones."""
    size = float(len(table))
    j = 0
    for word in words:
        gap = np.int64(table[word])
        if gap < 0:
            # The rest of the uniform decides; gaps beyond the end need not be told apart.
            survival = (size - word - spare[j]) / size
            gap = np.int64(min(np.floor(np.log(survival) / log_zero), float(total)))
            j += 1
        last += gap + 1
        if last >= total:
            break
        out[used] = last
        used += 1
    return last, used


@njit(cache=True)
def _weave(noise: Any, size: int, codes: Any, own: Any, indptr: Any, ones: Any, taken: int) -> int:
    """Put each user's own bit in its place among the noise bits; return the number of ones."""
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
