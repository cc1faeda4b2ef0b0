"""Longitudinal reports: people report repeatedly, and their noise is remembered."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from anonbayes.arrays import Floats, read_whole
from anonbayes.channels.randomness import CHUNK, Codes, Seed, bernoulli_keys, noise_rows
from anonbayes.channels.reports import BitReports
from anonbayes.channels.unary import BitChannel, UnaryEncoding
from anonbayes.domains import Domain, code_dtype
from anonbayes.errors import ChannelError, one_of
from anonbayes.estimation.closed_forms import (
    Estimate,
    check_level,
    empirical,
    normal_interval,
    normal_quantile,
)
from anonbayes.notions.ldp import LDP, Audit, check_epsilon


class LongitudinalUE(BitChannel):
    """Bits that are randomized twice: once permanently, and again for every report.

    A device first draws *permanent* bits for its value and keeps them; every report flips each of
    them again *instantaneously*. One report has the budget `epsilon`; all reports of one value
    together, however many, never exceed `infinite`, the budget of the permanent bits. The channel
    itself describes one report.

    Parameters
    ----------
    domain : Domain
        The values, one bit each.
    epsilon : float
        Budget of one report.
    infinite : float, optional
        Budget of all reports of one value together; by default twice `epsilon`.
    permanent : {"optimal", "symmetric"}
        How the permanent bits are drawn. ``"symmetric"``, where ones and zeros are flipped alike,
        is RAPPOR (Erlingsson, Pihur and Korolova 2014, its basic form); ``"optimal"``, with the
        probabilities of optimized unary encoding, is L-OSUE (Arcolezi et al. 2022), which is more
        accurate for many values. Instantaneous flips are symmetric in both.

    Notes
    -----
    With permanent probabilities ``p1, q1`` and instantaneous ``p2, 1 - p2`` a report raises the bit
    of the value with ``p1 p2 + (1 - p1)(1 - p2)`` and any other with ``q1 p2 + (1 - q1)(1 - p2)``;
    ``p2`` follows from `epsilon`. Both budgets hold for a value that does not change; a new value
    has its own permanent bits, and its own budgets.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("site", ["a", "b", "c"])
    >>> channel = ab.LongitudinalUE(domain, epsilon=1.0, infinite=3.0)
    >>> [round(channel.budget_after(rounds), 3) for rounds in (1, 2, 10, 1000)]
    [1.0, 1.871, 3.0, 3.0]
    >>> memory = channel.memoize(["a", "b"], seed=1)     # kept on the devices
    >>> monday, tuesday = channel.report(memory, seed=2), channel.report(memory, seed=3)
    >>> len(monday), channel.permanent.satisfies(ab.LDP(3.0)).holds
    (2, True)
    """

    def __init__(
        self,
        domain: Domain,
        epsilon: float,
        *,
        infinite: float | None = None,
        permanent: str = "optimal",
    ) -> None:
        first = check_epsilon(epsilon)
        self.infinite = check_epsilon(2.0 * first if infinite is None else infinite, "infinite")
        if first > self.infinite:
            raise ChannelError(
                f"epsilon={epsilon!r}, the budget of one report, must not exceed "
                f"infinite={self.infinite:g}, the budget of all reports."
            )
        one_of("permanent", permanent, ("optimal", "symmetric"))
        shrink = math.exp(-self.infinite / (1 if permanent == "optimal" else 2))
        down = shrink / (1.0 + shrink)
        self.permanent = UnaryEncoding(domain, 0.5 if permanent == "optimal" else 1.0 - down, down)
        self.kept = _kept(0.5 if permanent == "optimal" else 1.0 - down, down, first)
        super().__init__(domain, self._seen(self.permanent.hit), self._seen(self.permanent.miss))
        self.epsilon = first
        self._how = permanent

    @classmethod
    def rappor(
        cls, domain: Domain, epsilon: float, *, infinite: float | None = None
    ) -> LongitudinalUE:
        """Permanent and instantaneous RAPPOR, also known as L-SUE."""
        return cls(domain, epsilon, infinite=infinite, permanent="symmetric")

    def _seen(self, probability: Floats) -> Floats:
        """Probability of a one in a report, given that of a permanent one."""
        return probability * self.kept + (1.0 - probability) * (1.0 - self.kept)

    # -- the user's device -----------------------------------------------------------------------

    def memoize(self, values: Iterable[object], *, seed: Seed = None) -> BitReports:
        """Draw the permanent bits of each value, which its device keeps secret."""
        return self.permanent.release(values, seed=seed)

    def report(self, memory: BitReports, *, seed: Seed = None) -> BitReports:
        """Make one report from the permanent bits of each user.

        Parameters
        ----------
        memory : BitReports
            What `memoize` returned.
        seed : int, numpy.random.Generator or None
            None uses the operating system's secure random source.
        """
        bits, size = self.read(memory), len(self.domain)
        source = self._source(seed, "instantaneous")
        flipped = np.full(size, 1.0 - self.kept)
        rows = max(1, int(CHUNK / max(size * (1.0 - self.kept), 1.0)))
        ends, parts = [0], []
        for start in range(0, len(bits), rows):
            stop = min(start + rows, len(bits))
            pointer = bits.indptr[start : stop + 1]
            row = np.repeat(np.arange(stop - start), np.diff(pointer))
            ones = bits.indices[pointer[0] : pointer[-1]].astype(np.int64) + row * size
            flips = bernoulli_keys(stop - start, flipped, source)
            keys = np.setxor1d(ones, flips, assume_unique=True)
            counts = np.bincount(keys // size, minlength=stop - start)
            ends.extend((ends[-1] + np.cumsum(counts)).tolist())
            parts.append((keys % size).astype(code_dtype(size)))
        indices = np.concatenate([*parts, np.zeros(0, dtype=code_dtype(size))])
        return BitReports.trusted(np.array(ends, dtype=np.int64), indices, size)

    def reporter(self, *, seed: Seed = None) -> Callable[[object], bytes]:
        """Return a function for one device: it remembers the permanent bits of every value.

        Examples
        --------
        >>> import anonbayes as ab
        >>> domain = ab.Domain("site", range(8))
        >>> channel = ab.LongitudinalUE(domain, epsilon=0.5, infinite=1.0)
        >>> report = channel.reporter()
        >>> daily = [report(3) for _ in range(30)]
        >>> channel.counts(daily).shape
        (8,)
        """
        codes, memory, size = Codes(self.domain), dict[int, int](), len(self.domain)
        draw = self.permanent.reporter(seed=seed)
        flips = noise_rows(
            np.full(len(self.domain), 1.0 - self.kept), self._source(seed, "instantaneous")
        )

        def report(value: object) -> bytes:
            code = codes.index(value)
            kept = memory.get(code)
            if kept is None:
                kept = memory[code] = int.from_bytes(draw(value), "big")
            return (kept ^ int.from_bytes(next(flips), "big")).to_bytes(size, "big")

        return report

    # -- the analyst -----------------------------------------------------------------------------

    def estimate_rounds(self, rounds: Sequence[object], *, level: float = 0.95) -> Estimate:
        """Unbiased shares from several reports of each user, whose values did not change.

        Instantaneous noise averages out over the rounds, permanent noise does not. Limits are
        Instantaneous noise averages out over the rounds; permanent noise does not. Limits are

        Parameters
        ----------
        rounds : sequence
            Reports of the same users, one item for each round.
        level : float
            Probability of the intervals.

        Examples
        --------
        >>> import anonbayes as ab
        >>> domain = ab.Domain("site", ["a", "b"])
        >>> channel = ab.LongitudinalUE(domain, epsilon=1.0, infinite=6.0)
        >>> memory = channel.memoize(["a"] * 3000 + ["b"] * 1000, seed=1)
        >>> days = [channel.report(memory, seed=seed) for seed in range(20)]
        >>> channel.estimate_rounds(days).p.round(1)
        array([0.7, 0.3])
        """
        check_level(level)
        every = [self.read(one) for one in rounds]
        sizes = {len(one) for one in every}
        if len(sizes) != 1 or 0 in sizes:
            raise ChannelError(
                f"Every round must have one report of each user; got rounds of {sorted(sizes)} "
                "reports."
            )
        n, times = sizes.pop(), len(every)
        p = empirical(sum(one.counts() for one in every), n * times, self.hit, self.miss)
        first, other = self.permanent.hit, self.permanent.miss
        raised = other + (first - other) * np.clip(p, 0.0, 1.0)
        variance = (2 * self.kept - 1) ** 2 * raised * (1 - raised)
        variance = (variance + self.kept * (1 - self.kept) / times) / n
        half = normal_quantile(level) * np.sqrt(variance) / (self.hit - self.miss)
        return Estimate(
            self.domain, "empirical", n, p, interval=normal_interval(p, half), level=level
        )

    # -- guarantees ------------------------------------------------------------------------------

    def further_audits(self) -> list[Audit]:
        """Audit of the permanent bits, which bound what all reports of one value reveal."""
        return [self.permanent.satisfies(LDP(self.infinite))]

    def budget_after(self, rounds: int) -> float:
        """LDP budget of this many reports of one value: `epsilon` for one, at most `infinite`.

        The worst case is the bit of the value raised in all of them and another bit in none.
        """
        times = read_whole("rounds", rounds, least=1, error=ChannelError)
        first, other = float(self.permanent.hit[0]), float(self.permanent.miss[0])
        if len(self.domain) == 1 or self.kept <= 0.5:
            return 0.0
        # How much less likely the other permanent bit is after so many equal instantaneous ones.
        rest = ((1.0 - self.kept) / self.kept) ** times
        own = (first + (1 - first) * rest) / (other + (1 - other) * rest)
        none = ((1 - other) + other * rest) / ((1 - first) + first * rest)
        return math.log(own) + math.log(none)

    def with_epsilon(self, epsilon: float) -> LongitudinalUE:
        """Return the channel with another budget per report, scaling the total in proportion."""
        infinite = self.infinite * (epsilon / self.epsilon) if self.epsilon else 2.0 * epsilon
        return LongitudinalUE(self.domain, epsilon, infinite=infinite, permanent=self._how)


def _kept(p1: float, q1: float, epsilon: float) -> float:
    """Probability ``p2`` with which a report keeps a permanent bit, found by bisection."""

    def budget(kept: float) -> float:
        own = p1 * kept + (1 - p1) * (1 - kept)
        other = q1 * kept + (1 - q1) * (1 - kept)
        against = (1 - own) * other
        return math.log(own * (1 - other) / against) if against > 0 else math.inf

    low, high = 0.5, 1.0
    if budget(high) <= epsilon * (1 + 1e-12):
        return 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if budget(middle) < epsilon else (low, middle)
    return low
