"""Randomness of mechanisms: secure or seeded, in bulk or for a single user."""

from __future__ import annotations

import hashlib
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NoReturn, Protocol, TypeVar
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Floats, Ints, Mask
from anonbayes.channels.reports import BitReports
from anonbayes.domains import Domain, IntegerDomain, code_dtype
from anonbayes.errors import ChannelError

# -------------------------------------------------------------------------------------------------
# Bit reports in bulk. Bits that are often raised take a random byte each (`often`). Of rarely
# raised bits only the raised ones are visited (`seldom`): the bits of all reports form one long
# row, in which the number of zeros between two ones is geometric.

# Number of ones drawn at a time; bounds the working memory in addition to the reports.
CHUNK = 1 << 16

# From this probability on, a byte per bit is cheaper than a gap per one.
OFTEN = 0.12


def draw_bits(codes: Ints, hit: Floats, miss: Floats, source: Source) -> BitReports:
    """Reports of users with `codes`: their bit raised with ``hit``, all others with ``miss``."""
    size = len(hit)
    rows = max(1, int(CHUNK / max(float(miss.sum()), 1.0)))
    indptr = np.zeros(len(codes) + 1, dtype=np.int64)
    expected = len(codes) * float(miss.sum()) + float((hit - miss)[codes].sum())
    ones = np.empty(int(expected + 6.0 * np.sqrt(expected)) + rows, dtype=code_dtype(size))
    for start in range(0, len(codes), rows):
        block = codes[start : start + rows]
        n = len(block)
        first = np.arange(n + 1, dtype=np.int64) * size
        noise, own = bernoulli_keys(n, miss, source), first[:-1] + block
        # The user's own bit is drawn separately and replaces that of the noise.
        place = np.searchsorted(noise, own)
        seen = np.append(noise, -1)[place] == own
        kept = np.delete(noise, place[seen])
        raised = own[source.random(n) < hit[block]]
        keys = np.insert(kept, np.searchsorted(kept, raised), raised)
        ends = np.searchsorted(keys, first)
        used = indptr[start]
        indptr[start : start + n + 1] = used + ends
        if used + len(keys) > len(ones):
            more = np.empty(len(keys) + len(ones) // 8, dtype=ones.dtype)
            ones = np.concatenate([ones[:used], more])
        ones[used : used + len(keys)] = keys - np.repeat(first[:-1], np.diff(ends))
    return BitReports.trusted(indptr, ones[: indptr[-1]], size)


def bernoulli_keys(n: int, miss: Floats, source: Source) -> Ints:
    """Positions ``row * K + column`` of raised bits, ascending, each with its ``miss``."""
    size, many = len(miss), miss >= OFTEN
    parts = []
    if many.any():
        places = np.flatnonzero(many)
        parts.append(_spread(np.flatnonzero(often(n, miss[many], source)), places, size))
    # The rest by powers of two of their probability: positions are skipped, then thinned.
    exponent = np.frexp(miss)[1]
    for power in np.unique(exponent[~many & (miss > 0)]):
        places = np.flatnonzero((exponent == power) & ~many & (miss > 0))
        highest = float(miss[places].max())
        keys = _spread(seldom(n * len(places), highest, source), places, size)
        if miss[places].min() < highest:
            keys = keys[source.random(len(keys)) * highest < miss[keys % size]]
        parts.append(keys)
    if len(parts) == 1:
        return parts[0]
    return np.sort(np.concatenate([*parts, np.empty(0, dtype=np.int64)]))


def _spread(keys: Ints, places: Ints, size: int) -> Ints:
    """Positions among all columns of positions among some of them."""
    if len(places) == size:
        return keys
    row, place = np.divmod(keys, len(places))
    return row * size + places[place]


def seldom(total: int, probability: float, source: Source) -> Ints:
    """Positions below `total`, each present independently with that probability, ascending."""
    log_zero, last, parts = float(np.log1p(-probability)), -1, [np.empty(0, dtype=np.int64)]
    while last < total - 1:
        expected = (total - 1 - last) * probability
        uniform = source.random(int(expected + 4.0 * np.sqrt(expected)) + 16)
        # Gaps beyond the end need not be distinguished.
        gaps = np.minimum(np.floor(np.log1p(-uniform) / log_zero), float(total))
        steps = last + np.cumsum(gaps.astype(np.int64) + 1)
        parts.append(steps[: np.searchsorted(steps, total)])
        last = int(steps[-1])
    return np.concatenate(parts)


def often(n: int, miss: Floats, source: Source) -> Mask:
    """Rows of independent bits, bit ``i`` raised with ``miss[i] < 1``.

    The first byte of a uniform word nearly always decides on which side of the limit the word lies;
    the other seven are drawn only for the one byte in 256 that does not.
    """
    limits = [limit(probability) for probability in miss.tolist()]
    first = np.array([number >> 56 for number in limits], dtype=np.uint8)
    rest = np.array([number & (2**56 - 1) for number in limits], dtype=np.uint64)
    heads = np.frombuffer(source.bytes(n * len(miss)), dtype=np.uint8).reshape(n, len(miss))
    bits = heads < first
    row, place = np.nonzero(heads == first)
    tails = np.frombuffer(source.bytes(8 * len(row)), dtype=np.uint64) >> np.uint64(8)
    bits[row, place] = tails < rest[place]
    return bits


# -------------------------------------------------------------------------------------------------
# Where the randomness of a release comes from.
#
# A report that leaves a user's device must not be predictable, so without a seed every draw uses
# the operating system's secure source. With a seed, for simulations and tests, a NumPy generator
# gives the same draws again. Both have the three methods that the channels use.
#
# Numbers drawn in advance (`stream`) exist only once: a forked child drops them and draws its own,
# and they cannot be pickled. So two processes never report with the same randomness.

T = TypeVar("T")

RandomState = np.random.Generator | np.random.BitGenerator | np.random.SeedSequence
Seed = int | Sequence[int] | RandomState | None
"""What users may pass as a seed; None means the secure source."""

# Number of bytes requested from the operating system at once; larger requests are split.
BLOCK = 1 << 24


# Number of bytes of words drawn in advance.
AHEAD = 1 << 12

#: Number of equally likely random words.
WORDS = 2**64


class Source(Protocol):
    """The part of `numpy.random.Generator` that a release needs."""

    def bytes(self, length: int) -> bytes:
        """Uniform bytes."""
        ...

    def random(self, size: int) -> npt.NDArray[np.float64]:
        """Uniform numbers in [0, 1), multiples of 2^-53."""
        ...

    def integers(self, low: int, high: int, size: int) -> Ints:
        """Uniform integers ``low <= i < high``."""
        ...


class SecureSource:
    """Vectorised draws from ``os.urandom``."""

    def bytes(self, length: int) -> bytes:
        """Uniform bytes."""
        if length <= BLOCK:
            return os.urandom(length)
        return b"".join(os.urandom(min(BLOCK, length - i)) for i in range(0, length, BLOCK))

    def bits(self, size: int) -> npt.NDArray[np.uint64]:
        """Uniform 64-bit words."""
        return np.frombuffer(self.bytes(8 * size), dtype=np.uint64)

    def random(self, size: int) -> npt.NDArray[np.float64]:
        """Uniform numbers in [0, 1), multiples of 2^-53."""
        return (self.bits(size) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def integers(self, low: int, high: int, size: int) -> Ints:
        """Uniform integers ``low <= i < high``, without the bias of a plain remainder."""
        span = int(high) - int(low)
        # Words from the last, incomplete run of `span` are drawn again.
        usable = np.uint64((2**64 // span) * span - 1)
        words = self.bits(size).copy()
        while (again := np.flatnonzero(words > usable)).size:
            words[again] = self.bits(again.size)
        return (words % np.uint64(span)).astype(np.int64) + int(low)


class NoiseGenerator(np.random.Generator):
    """Generator of simulated noise; `generator` creates it, and returns it unchanged."""


def generator(seed: Seed = None, *stream_of: str) -> NoiseGenerator:
    """Create a NumPy generator for simulated noise, one stream per seed, purpose and column.

    A seed gives other numbers than ``numpy.random.default_rng``, because people simulated with the
    same seed must not be correlated with their noise, nor the noise of one column with that of
    another. The texts `stream_of` keep these streams apart. If the seed is a generator, a few words
    are drawn from it and used as the seed.

    Examples
    --------
    >>> generator(1).random() == np.random.default_rng(1).random()
    False
    >>> generator(1, "age").random() == generator(1, "age").random()
    True
    >>> generator(1, "age").random() == generator(1, "sex").random()
    False
    """
    if isinstance(seed, NoiseGenerator):
        return seed
    try:
        if isinstance(seed, np.random.BitGenerator):
            seed = np.random.Generator(seed)
        if isinstance(seed, np.random.Generator):
            seed = np.random.SeedSequence(seed.integers(0, 2**32, 4, dtype=np.uint32).tolist())
        elif not isinstance(seed, np.random.SeedSequence):
            seed = np.random.SeedSequence(seed)
        text = "\0".join(("noise", *stream_of)).encode("utf-8", "surrogatepass")
        key = int.from_bytes(hashlib.blake2s(text, digest_size=16).digest(), "big")
        own = np.random.SeedSequence(seed.entropy, spawn_key=(*seed.spawn_key, key))
        return NoiseGenerator(np.random.PCG64(own))
    except (TypeError, ValueError):
        raise ChannelError(
            f"seed={seed!r} must be a whole number of at least 0, or a NumPy generator."
        ) from None


def randomness(seed: Seed = None, *stream_of: str) -> Source:
    """Secure source when `seed` is None, else a `generator` of simulated noise."""
    return SecureSource() if seed is None else generator(seed, *stream_of)


class _Stock(list[T]):
    """Items drawn in advance."""

    __slots__ = ("__weakref__",)
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "A reporter holds random numbers drawn in advance and cannot be copied to another "
            "process; create one there."
        )


_stocks: WeakSet[_Stock[Any]] = WeakSet()


def _forget() -> None:
    """Drop everything drawn in advance; iterators continue with new draws."""
    for stock in list(_stocks):
        stock.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def stream(draw: Callable[[], Iterable[T]]) -> Iterator[T]:
    """Endless items; `draw` makes many at a time."""

    def stock() -> _Stock[T]:
        drawn = _Stock(draw())
        _stocks.add(drawn)
        return drawn

    return chain.from_iterable(iter(stock, None))


def words(source: Source) -> Iterator[int]:
    """Endless uniform 64-bit words as Python integers."""
    return stream(lambda: array("Q", source.bytes(AHEAD)))


def below(number: int, draw: Iterator[int]) -> Iterator[int]:
    """Endless uniform integers below `number`, from words; an incomplete last run is left out."""
    fair = WORDS - WORDS % number
    return (word % number for word in draw if word < fair)


# -------------------------------------------------------------------------------------------------
# Reports of one user at a time: what runs on a device, in plain Python.
#
# `Channel.release` draws many reports at once and needs to set up arrays. A device has a single
# value to report. The functions here prepare everything that does not depend on the value, and
# return a closure that needs little more than a look-up and a few random words. A Bernoulli draw
# compares a uniform 64-bit word with ``floor(p 2^64)``, with an error of at most ``2^-64``.

Reporter = Callable[[object], Any]

# Number of noise bits drawn in advance, so that a few dozen reports share the cost of the arrays.
REPORTS_AHEAD = 8192


class Codes(dict[Any, int]):
    """Codes of a domain's values; anything else is left to `Domain.index`, which may raise."""

    def __init__(self, domain: Domain) -> None:
        listed = not isinstance(domain, IntegerDomain)
        super().__init__(zip(domain.values, range(len(domain)), strict=True) if listed else ())
        kinds = {type(value) for value in self}
        #: The type of all values. A value of another type must not be looked up: True equals 1.
        self.kind = kinds.pop() if len(kinds) == 1 else None
        self.index = domain.index

    def __missing__(self, value: object) -> int:
        return self.index(value)


def limit(probability: float) -> int:
    """Number such that a uniform word lies below it with the given probability."""
    return int(probability * WORDS)


def noise_rows(miss: Floats, source: Source) -> Iterator[bytes]:
    """Endless rows of independent bits, bit ``i`` raised with ``miss[i] < 1``."""
    size = len(miss)
    many = max(1, REPORTS_AHEAD // size)

    def draw() -> list[bytes]:
        drawn = often(many, miss, source).tobytes()
        return [drawn[i : i + size] for i in range(0, len(drawn), size)]

    return stream(draw)
