"""Sets of values: a device pads its set to a common size and reports one member."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from anonbayes import estimation
from anonbayes.arrays import Floats, Ints, read_whole
from anonbayes.channels.base import known_value
from anonbayes.channels.pure import PureChannel
from anonbayes.channels.randomness import generator, randomness
from anonbayes.channels.response import RandomizedResponse
from anonbayes.channels.unary import UnaryEncoding
from anonbayes.domains import Domain, by_value
from anonbayes.errors import ChannelError, one_of
from anonbayes.estimation.closed_forms import Estimate, around
from anonbayes.notions.ldp import LDP, Audit, Notion, Ratios, check_epsilon

__all__ = ["PaddedSets"]

PADDING = "padding"


class PaddedSets:
    """Padding and sampling for people who hold sets (Qin et al. 2016; Wang, Li and Jha 2018).

    A set of fewer than `length` values is filled up with padding, one member is drawn, and that one
    is reported. In a larger set every member is drawn with the same probability, so shares are
    underestimated where many sets are larger than `length`.

    Parameters
    ----------
    domain : Domain
        The values that sets may hold.
    epsilon : float
        Budget: each report is at most ``exp(epsilon)`` times as likely from one set as from
        another.
    length : int
        Size to which sets are padded.
    mechanism : {"randomized_response", "unary_encoding"}, optional
        By default the one with less variance. Drawing one member of `length` hides the others,
        which lets randomized response spend ``log(1 + length (exp(epsilon) - 1))`` on it; bits of
        several members could be raised together, so they get nothing extra.

    Examples
    --------
    >>> import anonbayes as ab
    >>> goods = ab.Domain("bought", ["bread", "milk", "eggs", "tea"])
    >>> baskets = ab.PaddedSets(goods, epsilon=2.0, length=2)
    >>> sent = baskets.release([["bread", "milk"], ["bread"], []] * 4000, seed=1)
    >>> baskets.estimate(sent).p.round(1) + 0.0     # share of people who hold each value
    array([0.7, 0.3, 0. , 0. ])
    >>> baskets.satisfies(ab.LDP(2.0)).holds, baskets.satisfies(ab.LDP(1.99)).holds
    (True, False)

    In a PyMC model, reports are those of `channel`, whose values are the drawn members: the share
    of people who hold a value is `length` times that of the member,
    ``Released("sent", baskets.channel, members, observed=sent)``.
    """

    #: As of a channel: the estimator that is taken unless told otherwise.
    default_method = "empirical"

    def __init__(
        self, domain: Domain, epsilon: float, *, length: int, mechanism: str | None = None
    ) -> None:
        self.domain, self.epsilon = domain, check_epsilon(epsilon)
        self.length = read_whole("length", length, least=1, error=ChannelError)
        slots = [f"{PADDING} {slot}" for slot in range(1, self.length + 1)]
        padded = Domain(domain.name, [*domain.values, *slots])
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
        self.mechanism, self.channel = mechanism, kinds[mechanism]
        #: Probability that somebody who holds a value, and who does not, supports it.
        self.miss: Floats = self.channel.miss[: len(domain)]
        self.hit: Floats = self.miss + (self.channel.hit[: len(domain)] - self.miss) / self.length

    @property
    def methods(self) -> tuple[str, ...]:
        """Estimators that `estimate` offers."""
        return self.channel.methods

    def release(self, sets: Iterable[Iterable[object]], *, seed: Any = None) -> Any:
        """Release one report per set, from the mechanism on values and padding.

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
                    f"Column {self.domain.name!r}, row {place}: {each!r} is not a set; give a "
                    "list of values."
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

    def reporter(self, *, seed: Any = None) -> Callable[[Iterable[object]], Any]:
        """Return a function that turns one set into one report; see `Channel.reporter`."""
        member = None if seed is None else generator(seed, "reporter", self.domain.name)
        report = self.channel.reporter(seed=seed)
        return lambda held: report(self._drawn([held], member)[0])

    def read_values(self, texts: Sequence[str], *, where: str = "values") -> list[list[str]]:
        """Parse sets from texts whose members are separated by commas."""
        sets = [[part.strip() for part in text.split(",") if part.strip()] for text in texts]
        for row, members in enumerate(sets):
            for each in members:
                known_value(self.domain, each, f"{where}, row {row}")
        return sets

    def spell(self, reports: Any) -> list[str]:
        """Write reports as texts; see `Channel.spell`."""
        return self.channel.spell(reports)

    def read_texts(self, texts: Sequence[str], *, where: str = "reports") -> Any:
        """Parse reports from texts; see `Channel.read_texts`."""
        return self.channel.read_texts(texts, where=where)

    def estimate(self, reports: Any, *, method: str = "empirical", **settings: Any) -> Estimate:
        """Share of people whose set contains each value, with limits.

        Shares of drawn members, times `length`: right while no set has more than `length` members.
        Shares of different values need not sum to one.

        Parameters
        ----------
        reports
            What `release` returned for many people.
        method, **settings
            As in `Channel.estimate`, for the shares of members and padding.
        """
        raw = self.channel.estimate(reports, method=method, **settings)
        size, most = len(self.domain), math.inf if method == "empirical" else 1.0
        p = np.minimum(self.length * raw.p[:size], most)
        limits = None
        if raw.interval is not None:
            limits = around(np.minimum(self.length * raw.interval[:size], 1.0), p)
        draws = None
        if raw.draws is not None:
            draws = raw.draws.isel({self.domain.name: slice(size)}) * self.length
        return replace(raw, domain=self.domain, p=p, interval=limits, draws=draws)

    # -- losses and guarantees -------------------------------------------------------------------

    def expected_loss(
        self, p: npt.ArrayLike, n: int, *, norm: str = "l2", sampled: bool = True
    ) -> float:
        """Return the expected loss of the empirical estimate; `p` are shares of people."""
        shares = np.asarray(by_value(p, self.domain, what="p"), dtype=float)
        return estimation.losses.expected_loss(
            shares, n, self.hit, self.miss, norm=norm, sampled=sampled
        )

    def worst_case_loss(self, n: int, *, norm: str = "l2") -> float:
        """Largest expected loss: all values equally frequent, as far as sets or noise allow."""
        hit, miss, size = float(self.hit[0]), float(self.miss[0]), len(self.domain)
        even = min(1.0, self.length / size, (0.5 - miss) / (hit - miss))
        return self.expected_loss(np.full(size, even), n, norm=norm)

    def ldp_budget(self) -> float:
        """LDP budget of any two sets.

        The full set and the empty one are the farthest apart. With randomized response a report of
        a member is ``1 + (e - 1) / length`` times as likely from the full one; with bits, one that
        raises all ``m`` members and no padding ``(m e + length - m) / length`` times.
        """
        grown, members = math.exp(self.channel.epsilon), min(self.length, len(self.domain))
        if self.mechanism == "randomized_response":
            members = 1
        return math.log1p(members * (grown - 1.0) / self.length)

    def satisfies(self, notion: Notion) -> Audit:
        """Check local differential privacy of sets on the exact probabilities."""
        if not isinstance(notion, LDP):
            raise ChannelError(
                f"{notion!r} cannot be audited here: sets are protected as a whole, whatever they "
                "contain; audit LDP(epsilon)."
            )
        full = f"{{{', '.join(self.domain.labels[: self.length])}}}"
        return notion.audit(_Extremes(Domain(self.domain.name, [full, "{}"]), self.ldp_budget()))

    def with_epsilon(self, epsilon: float) -> PaddedSets:
        """Return the mechanism with another budget."""
        return PaddedSets(self.domain, epsilon, length=self.length)

    def __repr__(self) -> str:
        return (
            f"PaddedSets({self.domain.name!r}, {len(self.domain)} values, "
            f"epsilon={self.epsilon:.6g}, length={self.length})"
        )


@dataclass(frozen=True)
class _Extremes:
    """The two sets that are easiest to distinguish, for audits."""

    domain: Domain
    budget: float

    def ratios(self, *, protected: bool = False) -> list[Ratios]:
        return [
            Ratios(np.full(2, self.budget), np.zeros(2), lambda x, _: f"members of set {x + 1}")
        ]


def _noise(channel: PureChannel) -> float:
    """Variance of the share of a value that nobody holds, from one report."""
    hit, miss = float(channel.hit[0]), float(channel.miss[0])
    return miss * (1 - miss) / (hit - miss) ** 2 if hit > miss else math.inf
