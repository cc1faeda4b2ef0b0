"""Reports of one user at a time: what runs on a device, in plain Python.

`Channel.release` draws many reports at once and has arrays to set up. A device has one value to
report. The functions here prepare everything that does not depend on the value, and return a
closure that needs little more than a look-up and a few random words. A Bernoulli draw compares a
uniform 64-bit word with ``floor(p 2^64)``: an error of ``2^-64`` at most.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Floats
from anonbayes.channels.integers import IntegerDomain
from anonbayes.channels.secure import Source, stream, words
from anonbayes.domains import Domain

__all__ = ["bit_reporter", "hash_reporter", "response_reporter"]

Reporter = Callable[[object], Any]

#: Number of equally likely random words.
WORDS = 2**64

# Bits of noise drawn ahead, so that a few dozen reports share the cost of the arrays.
AHEAD = 8192


class Codes(dict[Any, int]):
    """Codes of a domain's values. `Domain.index` answers for all others, or raises."""

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
    """Words below this number are drawn with that probability.

    Examples
    --------
    >>> limit(0.5) == 2**63, limit(1.0) == 2**64
    (True, True)
    """
    return int(probability * WORDS)


def response_reporter(
    domain: Domain, kept: float, pool: npt.NDArray[np.int64], source: Source
) -> Reporter:
    """With probability `kept` the value itself, else one of the values in `pool` (codes).

    Examples
    --------
    >>> report = response_reporter(
    ...     Domain("x", ["a", "b"]), 0.5, np.array([1]), np.random.default_rng(1)
    ... )
    >>> "".join(report("a") for _ in range(8))
    'bababbba'
    """
    codes, values = Codes(domain), domain.values
    kind, index, draw = codes.kind, codes.index, words(source)
    stays = limit(kept)
    others = tuple(values[code] for code in pool.tolist())
    number = max(len(others), 1)
    fair = WORDS - WORDS % number

    def report(value: object) -> Any:
        code = codes[value] if type(value) is kind else index(value)
        if next(draw) < stays:
            return values[code]
        word = next(draw)
        while word >= fair:
            word = next(draw)
        return others[word % number]

    return report


def bit_reporter(domain: Domain, hit: Floats, miss: Floats, source: Source) -> Reporter:
    r"""One byte per value, 0 or 1: the own bit raised with `hit`, every other one with `miss`.

    Examples
    --------
    >>> report = bit_reporter(
    ...     Domain("x", ["a", "b", "c"]), np.ones(3), np.zeros(3), np.random.default_rng(1)
    ... )
    >>> report("b")
    b'\x00\x01\x00'
    """
    codes = Codes(domain)
    kind, index, draw = codes.kind, codes.index, words(source)
    noise = noise_rows(miss, source)
    raised = [limit(probability) for probability in hit.tolist()]

    def report(value: object) -> bytes:
        code = codes[value] if type(value) is kind else index(value)
        row = next(noise)
        own = b"\1" if next(draw) < raised[code] else b"\0"
        return row[:code] + own + row[code + 1 :]

    return report


def noise_rows(miss: Floats, source: Source) -> Iterator[bytes]:
    """Endless rows of independent bits, bit ``i`` raised with ``miss[i] < 1``.

    The first byte of a uniform word nearly always tells on which side of the limit the word lies;
    the other seven are drawn for the one byte in 256 that does not.

    Examples
    --------
    >>> rows = noise_rows(np.array([0.0, 0.5]), np.random.default_rng(2))
    >>> [next(rows).hex() for _ in range(4)]
    ['0001', '0000', '0001', '0001']
    """
    size = len(miss)
    many = max(1, AHEAD // size)
    limits = [limit(probability) for probability in miss.tolist()]
    first = np.array([number >> 56 for number in limits], dtype=np.uint8)
    rest = np.array([number & (2**56 - 1) for number in limits], dtype=np.uint64)

    def draw() -> list[bytes]:
        heads = np.frombuffer(source.bytes(many * size), dtype=np.uint8).reshape(many, size)
        bits = heads < first
        row, place = np.nonzero(heads == first)
        tails = np.frombuffer(source.bytes(8 * len(row)), dtype=np.uint64) >> np.uint64(8)
        bits[row, place] = tails < rest[place]
        drawn = bits.tobytes()
        return [drawn[i : i + size] for i in range(0, len(drawn), size)]

    return stream(draw)


def hash_reporter(domain: Domain, prime: int, g: int, theta: float, source: Source) -> Reporter:
    """Hash function and symbol ``(a, b, y)``: the true hash with probability `theta`, else noise.

    Examples
    --------
    >>> report = hash_reporter(IntegerDomain(5), 7, 7, 1.0, np.random.default_rng(1))
    >>> a, b, y = report(3)
    >>> y == (3 * a + b) % 7
    True
    """
    codes = Codes(domain)
    kind, index, draw = codes.kind, codes.index, words(source)
    stays = limit(theta)
    fair_prime, fair_symbol = WORDS - WORDS % prime, WORDS - WORDS % g

    def report(value: object) -> tuple[int, int, int]:
        code = codes[value] if type(value) is kind else index(value)
        a, b = next(draw), next(draw)
        while a >= fair_prime:
            a = next(draw)
        while b >= fair_prime:
            b = next(draw)
        a, b = a % prime, b % prime
        if next(draw) < stays:
            return a, b, (a * code + b) % prime % g
        word = next(draw)
        while word >= fair_symbol:
            word = next(draw)
        return a, b, word % g

    return report
