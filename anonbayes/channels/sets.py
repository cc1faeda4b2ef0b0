"""Sets of values: a device pads its set to a common size and reports one member."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from anonbayes.arrays import Ints, read_whole
from anonbayes.channels.pure import PureChannel
from anonbayes.channels.randomness import randomness
from anonbayes.channels.response import RandomizedResponse
from anonbayes.channels.unary import UnaryEncoding
from anonbayes.domains import Domain
from anonbayes.errors import ChannelError, one_of
from anonbayes.estimation.closed_forms import Estimate
from anonbayes.notions.ldp import check_epsilon

__all__ = ["PaddedSets"]

PADDING = "padding"


class PaddedSets:
    """Padding and sampling for people who hold sets (Qin et al. 2016; Wang, Li and Jha 2018).

    A set of fewer than `length` values is filled up with padding, one member is drawn, and that
    one is reported. Of a larger set every member is drawn with the same probability, so that shares
    come out too small where many sets are larger than `length`.

    Parameters
    ----------
    domain : Domain
        The values that sets may hold.
    epsilon : float
        Budget: of any two sets, each report is at most ``exp(epsilon)`` times as likely from one.
    length : int
        Size to which sets are padded.
    mechanism : {"randomized_response", "unary_encoding"}, optional
        By default the one of less variance. Drawing one member of `length` hides the others, which
        lets randomized response spend ``log(1 + length (exp(epsilon) - 1))`` on it; bits of several
        members could be raised together, so they get nothing extra.

    Examples
    --------
    >>> import anonbayes as ab
    >>> goods = ab.Domain("bought", ["bread", "milk", "eggs", "tea"])
    >>> baskets = ab.PaddedSets(goods, epsilon=2.0, length=2)
    >>> sent = baskets.release([["bread", "milk"], ["bread"], []] * 4000, seed=1)
    >>> baskets.estimate(sent).p.round(1) + 0.0     # share of people who hold each value
    array([0.7, 0.3, 0. , 0. ])
    """

    def __init__(
        self, domain: Domain, epsilon: float, *, length: int, mechanism: str | None = None
    ) -> None:
        self.domain, self.epsilon = domain, check_epsilon(epsilon)
        self.length = read_whole("length", length, least=1, error=ChannelError)
        padded = Domain(domain.name, [*domain.values, *((PADDING, i) for i in range(self.length))])
        extra = self.epsilon + math.log(
            math.exp(-self.epsilon) - self.length * math.expm1(-self.epsilon)
        )
        kinds: dict[str, PureChannel] = {
            "randomized_response": RandomizedResponse(padded, extra),
            "unary_encoding": UnaryEncoding.optimal(padded, self.epsilon),
        }
        if mechanism is None:
            mechanism = min(kinds, key=lambda name: _noise(kinds[name]))
        one_of("mechanism", mechanism, kinds)
        self.channel = kinds[mechanism]

    def release(self, sets: Iterable[Iterable[object]], *, seed: Any = None) -> Any:
        """Report of each set, of the mechanism on values and padding.

        Parameters
        ----------
        sets : iterable of iterables
            The values that each person holds; repeated ones count once.
        seed : int, numpy.random.Generator or None
            None draws from the operating system's secure source.
        """
        return self.channel.release(self._drawn(sets, seed), seed=seed)

    def _drawn(self, sets: Iterable[Iterable[object]], seed: Any) -> Any:
        """One member of each padded set."""
        held = []
        for place, each in enumerate(sets):
            if isinstance(each, str) or not isinstance(each, Iterable):
                raise ChannelError(
                    f"Column {self.domain.name!r}, row {place}: {each!r} is no set; give a list."
                )
            held.append(list(each))
        flat = [value for each in held for value in each]
        row = np.repeat(np.arange(len(held)), [len(each) for each in held])
        size = len(self.domain)
        codes = self.domain.encode(flat).astype(np.int64) if flat else np.zeros(0, dtype=np.int64)
        keys: Ints = np.unique(row * size + codes)
        counts = np.bincount(keys // size, minlength=len(held))
        source = randomness(seed, "member", self.domain.name)
        slots = np.maximum(counts, self.length)
        # Uniform on the slots of each person, to the last digit of a float.
        slot = np.minimum((source.random(len(held)) * slots).astype(np.int64), slots - 1)
        first = np.cumsum(counts) - counts
        member = slot < counts
        chosen = np.where(member, 0, size + slot)
        chosen[member] = keys[(first + slot)[member]] % size
        return self.channel.domain.decode(chosen)

    def estimate(self, reports: Any, *, level: float = 0.95) -> Estimate:
        """Share of people whose set holds each value, with confidence limits.

        Unbiased while no set has more than `length` members. Shares of different values need not
        sum to one.
        """
        raw = self.channel.estimate(reports, method="empirical", level=level)
        size = len(self.domain)
        assert raw.interval is not None
        p, interval = self.length * raw.p[:size], self.length * raw.interval[:size]
        limits = np.stack(
            [np.minimum(interval[:, 0], p), np.maximum(np.minimum(interval[:, 1], 1.0), p)], axis=1
        )
        return Estimate(self.domain, "empirical", raw.n, p, interval=limits, level=level)


def _noise(channel: PureChannel) -> float:
    """Variance of the share of a value that nobody holds, from one report."""
    hit, miss = float(channel.hit[0]), float(channel.miss[0])
    return miss * (1 - miss) / (hit - miss) ** 2 if hit > miss else math.inf
