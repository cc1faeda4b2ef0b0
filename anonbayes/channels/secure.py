"""Where the randomness of a release comes from.

A report that leaves a user's device must not be predictable, so without a seed every draw is
made from the operating system's secure source. With a seed, for simulations and tests, a NumPy
generator gives the same draws again. Both offer the three methods that the channels use.

What is drawn ahead (`stream`) exists once: a forked child drops it and draws its own, and it
refuses to be pickled. Two processes never report with the same randomness.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, NoReturn, Protocol, TypeVar
from weakref import WeakSet

import numpy as np
import numpy.typing as npt

__all__ = ["SecureSource", "Source", "generator", "randomness", "stream", "words"]

T = TypeVar("T")

# Bytes asked of the operating system at once; larger requests are put together.
BLOCK = 1 << 24

# Sets the streams of simulated noise apart from those of NumPy for the same seed.
NOISE = (0x6E6F697365,)

# Bytes of words drawn ahead.
AHEAD = 1 << 12


class Source(Protocol):
    """The part of `numpy.random.Generator` that a release needs."""

    def bytes(self, length: int) -> bytes:
        """Uniform bytes."""
        ...

    def random(self, size: int) -> npt.NDArray[np.float64]:
        """Uniform numbers in [0, 1), multiples of 2^-53."""
        ...

    def integers(self, low: int, high: int, size: int) -> npt.NDArray[np.int64]:
        """Uniform integers ``low <= i < high``."""
        ...


class SecureSource:
    """Vectorised draws from ``os.urandom``.

    Examples
    --------
    >>> source = SecureSource()
    >>> draws = source.integers(0, 6, 1000)
    >>> int(draws.min()), int(draws.max())
    (0, 5)
    """

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
        return (self.bits(size) >> np.uint64(11)) * 2.0**-53

    def integers(self, low: int, high: int, size: int) -> npt.NDArray[np.int64]:
        """Uniform integers ``low <= i < high``, without the bias of a plain remainder."""
        span = int(high) - int(low)
        # Words from the last, incomplete run of `span` are drawn again.
        usable = np.uint64((2**64 // span) * span - 1)
        words = self.bits(size).copy()
        while (again := np.flatnonzero(words > usable)).size:
            words[again] = self.bits(again.size)
        return (words % np.uint64(span)).astype(np.int64) + int(low)


def generator(seed: Any = None) -> np.random.Generator:
    """NumPy generator for simulated noise.

    An integer gives a stream of its own, apart from the one that ``numpy.random.default_rng`` gives
    for it: people who were simulated with the same number must not be correlated with their noise.

    Examples
    --------
    >>> generator(1).random() == np.random.default_rng(1).random()
    False
    >>> generator(1).random() == generator(1).random()
    True
    """
    if isinstance(seed, int | np.integer):
        seed = np.random.SeedSequence(int(seed), spawn_key=NOISE)
    return np.random.default_rng(seed)


def randomness(seed: Any = None) -> Source:
    """Secure source when `seed` is None, else the generator of simulated noise for that seed."""
    return SecureSource() if seed is None else generator(seed)


class _Stock(list[T]):
    """Items drawn ahead of their use."""

    __slots__ = ("__weakref__",)
    __hash__ = object.__hash__  # type: ignore[assignment]

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise TypeError(
            "Random numbers drawn ahead must not be copied into another process; "
            "make the reporter there."
        )


_stocks: WeakSet[_Stock[Any]] = WeakSet()


def _forget() -> None:
    """Drop everything drawn ahead; iterators over it go on with new draws."""
    for stock in list(_stocks):
        stock.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def stream(draw: Callable[[], Iterable[T]]) -> Iterator[T]:
    """Endless items, which `draw` makes many at a time.

    Examples
    --------
    >>> from itertools import count
    >>> numbers = count()
    >>> pairs = stream(lambda: [next(numbers), next(numbers)])
    >>> [next(pairs) for _ in range(3)]
    [0, 1, 2]
    """

    def stock() -> _Stock[T]:
        drawn = _Stock(draw())
        _stocks.add(drawn)
        return drawn

    return chain.from_iterable(iter(stock, None))


def words(source: Source) -> Iterator[int]:
    """Endless uniform 64-bit words as Python integers.

    Examples
    --------
    >>> draw = words(SecureSource())
    >>> 0 <= next(draw) < 2**64
    True
    """
    return stream(lambda: array("Q", source.bytes(AHEAD)))
