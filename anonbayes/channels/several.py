"""Several values per person: attributes under one budget, and sets that are padded."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from anonbayes import estimation
from anonbayes.arrays import Floats, Ints, read_whole
from anonbayes.channels.base import Mechanism, check_some, known_value
from anonbayes.channels.pure import PureChannel, RandomizedResponse
from anonbayes.channels.randomness import Seed, below, generator, randomness, words
from anonbayes.channels.registry import make_channel
from anonbayes.channels.unary import UnaryEncoding
from anonbayes.domains import Domain, by_value, list_of
from anonbayes.errors import ChannelError, one_of
from anonbayes.estimation.closed_forms import (
    Estimate,
    around,
    check_informative,
    check_level,
    normal_interval,
    normal_quantile,
)
from anonbayes.notions.ldp import LDP, Audit, Description, Notion, Ratios, check_epsilon


@dataclass(frozen=True)
class AttributeReports:
    """What people sent about several attributes.

    Attributes
    ----------
    asked : ndarray of int, or None
        Position of the attribute that each person reported; None if everybody reported all.
    reports : mapping of str to reports
        For each attribute, the reports of the people who sent one, in order.
    n : int
        Number of people.
    """

    asked: Ints | None
    reports: Mapping[str, Any]
    n: int

    def __len__(self) -> int:
        return self.n


class Attributes:
    """Mechanism for several attributes per person under one total budget.

    Parameters
    ----------
    domains : sequence of Domain
        The attributes.
    epsilon : float
        Total budget for everything that one person sends.
    how : {"sample", "split"}
        ``"sample"``: each device picks one attribute at random, independently of the values, and
        spends the whole budget on it. ``"split"``: it reports every attribute with an equal part of
        the budget; the parts add up. Sampling is more accurate for shares of single attributes
        (Nguyen et al. 2016; Wang et al. 2019); joint shares need split reports.
    mechanism : str, optional
        Name of a mechanism for every attribute. By default randomized response for fewer than
        ``3 exp(budget) + 2`` values and optimal bits for more (Wang et al. 2017).

    Examples
    --------
    >>> import anonbayes as ab
    >>> sex, region = ab.Domain("sex", "fm"), ab.Domain("region", range(4))
    >>> survey = ab.Attributes([sex, region], epsilon=2.0, how="split")
    >>> survey.channels["sex"].epsilon, survey.ldp_budget()
    (1.0, 2.0)
    >>> people = {"sex": list("fm") * 2000, "region": [0, 1, 2, 3] * 1000}
    >>> sent = survey.release(people, seed=1)
    >>> survey.estimate(sent)["sex"].p.round(1)
    array([0.5, 0.5])
    >>> survey.joint(sent, "sex", "region").p.reshape(2, 4).round(1) + 0.0
    array([[0.3, 0. , 0.2, 0. ],
           [0. , 0.3, 0. , 0.3]])
    """

    def __init__(
        self,
        domains: Sequence[Domain],
        epsilon: float,
        *,
        how: str = "sample",
        mechanism: str | None = None,
    ) -> None:
        one_of("how", how, ("sample", "split"))
        self.epsilon, self.how = check_epsilon(epsilon), how
        for domain in (listed := list_of("domains", domains)):
            if not isinstance(domain, Domain):
                raise ChannelError(f"domains must be a list of Domain; {domain!r} is none.")
        names = [domain.name for domain in listed]
        if not names or len(set(names)) < len(names):
            raise ChannelError(f"Attributes must have different names, got {names}.")
        each = self.epsilon / len(names) if how == "split" else self.epsilon
        self.channels: dict[str, PureChannel] = {
            domain.name: make_channel(mechanism or _usual(len(domain), each), domain, each)
            for domain in listed
        }

    # -- the user's device -----------------------------------------------------------------------

    def release(self, values: Mapping[str, Any], *, seed: Seed = None) -> AttributeReports:
        """Release reports for the rows of a data frame, or of a mapping of equally long columns.

        Parameters
        ----------
        values : mapping of str to sequence
            True values by attribute.
        seed : int, numpy.random.Generator or None
            None uses the operating system's secure random source.
        """
        columns = {name: channel._encode(self._column(values, name))
                   for name, channel in self.channels.items()}  # fmt: skip
        lengths = {len(column) for column in columns.values()}
        if len(lengths) != 1:
            raise ChannelError(
                "Every attribute needs one value per person; columns have lengths "
                f"{sorted(lengths)}."
            )
        n = lengths.pop()
        asked = None
        if self.how == "sample":
            asked = randomness(seed, "asked", "/".join(columns)).integers(0, len(columns), n)
        sent = {}
        for i, (name, channel) in enumerate(self.channels.items()):
            codes = columns[name] if asked is None else columns[name][asked == i]
            sent[name] = channel.release(channel.domain.decode(codes), seed=seed)
        return AttributeReports(asked, sent, n)

    def reporter(self, *, seed: Seed = None) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
        """Return a function that turns a person's values into what is sent: one attribute or all.

        Examples
        --------
        >>> import anonbayes as ab
        >>> survey = ab.Attributes([ab.Domain("sex", "fm"), ab.Domain("region", range(4))], 2.0)
        >>> report = survey.reporter()
        >>> sent = survey.collect([report({"sex": "f", "region": 3}) for _ in range(100)])
        >>> sum(len(reports) for reports in sent.reports.values())
        100
        """
        each = [(name, channel.reporter(seed=seed)) for name, channel in self.channels.items()]
        if self.how == "split":
            return lambda values: {name: report(values[name]) for name, report in each}
        draw = words(randomness(seed, "asked, one by one", "/".join(self.channels)))
        chosen = below(len(each), draw)

        def ask_one(values: Mapping[str, Any]) -> dict[str, Any]:
            name, report = each[next(chosen)]
            return {name: report(values[name])}

        return ask_one

    def collect(self, sent: Iterable[Mapping[str, Any]]) -> AttributeReports:
        """Collect reports that `reporter` made one by one, for `estimate` and `joint`."""
        reports: dict[str, list[Any]] = {name: [] for name in self.channels}
        place = {name: i for i, name in enumerate(reports)}
        expected = 1 if self.how == "sample" else len(place)
        asked, n = [], 0
        for n, one in enumerate(sent, 1):
            if len(one) != expected or not place.keys() >= one.keys():
                raise ChannelError(
                    f"Row {n - 1} reports {list(one)}; expected {expected} of {list(place)}."
                )
            for name, report in one.items():
                reports[name].append(report)
                asked.append(place[name])
        return AttributeReports(np.array(asked) if expected == 1 else None, reports, n)

    def _column(self, values: Mapping[str, object], name: str) -> object:
        try:
            return values[name]
        except (KeyError, TypeError):
            raise ChannelError(f"The values have no column {name!r}.") from None

    # -- the analyst -----------------------------------------------------------------------------

    def estimate(
        self, sent: AttributeReports, *, method: str = "mle", **settings: Any
    ) -> dict[str, Estimate]:
        """Shares of every attribute, from the people who reported it; see `Channel.estimate`."""
        return {
            name: channel.estimate(sent.reports[name], method=method, **settings)
            for name, channel in self.channels.items()
        }

    def joint(
        self,
        sent: AttributeReports,
        first: str,
        second: str,
        *,
        method: str = "empirical",
        level: float = 0.95,
    ) -> Estimate:
        """Shares of pairs of values of two attributes, from split reports.

        A report gives each value ``x`` the number ``a(x) = (1[supported] - miss) / (hit - miss)``,
        whose mean is 1 for the value held and 0 for any other. The noise of two attributes is
        independent, so ``a1(x) a2(z)`` is an unbiased indicator of holding both. Limits are normal,
        based on the variance of these products.

        Parameters
        ----------
        sent : AttributeReports
            What `release` returned, with ``how="split"``.
        first, second : str
            The attributes.
        method : {"empirical", "norm_sub"}
            Unbiased, or the distribution nearest to the unbiased estimate.
        level : float
            Probability of the intervals.

        Returns
        -------
        Estimate
            Over all pairs of values, with the first attribute varying slowest.
        """
        one_of("method", method, ("empirical", "norm_sub"))
        check_level(level)
        if self.how != "split":
            raise ChannelError(
                "Nobody reported two attributes. For joint shares use how='split', or define one "
                "attribute whose values are the pairs."
            )
        check_some(sent.n)
        for name in (first, second):
            one_of("attribute", name, self.channels)
        one, two = self.channels[first], self.channels[second]
        if first == second:
            raise ChannelError(f"Give two different attributes; {first!r} was given twice.")
        rows, columns = (c.supported(sent.reports[c.domain.name]) for c in (one, two))
        both = np.asarray((rows.T @ columns).todense(), dtype=float)
        up, across = (np.asarray(part.sum(axis=0)).ravel() for part in (rows, columns))
        p = _products(both, up, across, sent.n, _scores(one), _scores(two))
        square = _products(
            both, up, across, sent.n, *((yes**2, no**2) for yes, no in (_scores(one), _scores(two)))
        )
        half = (normal_quantile(level) * np.sqrt(np.maximum(square - p**2, 0.0) / sent.n)).ravel()
        p = p.ravel()
        pairs = Domain(f"{first}, {second}", [(a, b) for a in one.domain for b in two.domain])
        limits = normal_interval(p, half)
        raw = Estimate(pairs, "empirical", sent.n, p, interval=limits, level=level)
        return raw if method == "empirical" else raw.consistent()

    # -- reports in files ------------------------------------------------------------------------

    def spell(self, sent: AttributeReports) -> dict[str, list[str]]:
        """Write reports as columns of text, empty where a person did not report the attribute."""
        columns = {}
        for i, (name, channel) in enumerate(self.channels.items()):
            column = np.full(sent.n, "", dtype=object)
            column[slice(None) if sent.asked is None else sent.asked == i] = channel.spell(
                sent.reports[name]
            )
            columns[name] = column.tolist()
        return columns

    def read_texts(self, columns: Mapping[str, Sequence[str]]) -> AttributeReports:
        """Parse reports from columns of text; errors name the column and the row."""
        rows: list[dict[str, str]] = [
            {name: text for name, text in zip(self.channels, texts, strict=True) if text}
            for texts in zip(*(columns[name] for name in self.channels), strict=True)
        ]
        sent = self.collect(rows)
        reports = {
            name: self.channels[name].read_texts(texts, where=f"Column {name!r}")
            for name, texts in sent.reports.items()
        }
        return AttributeReports(sent.asked, reports, sent.n)

    # -- guarantees ------------------------------------------------------------------------------

    def ldp_budget(self) -> float:
        """LDP budget of what one person sends: the sum when split, the maximum when sampled."""
        budgets = [channel.ldp_budget() for channel in self.channels.values()]
        return math.fsum(budgets) if self.how == "split" else max(budgets)


def _usual(size: int, epsilon: float) -> str:
    """Choose randomized response or optimal bits, whichever has the smaller variance."""
    small = size < 3.0 * math.exp(min(epsilon, 50.0)) + 2.0
    return "randomized_response" if small else "unary_encoding"


def _scores(channel: PureChannel) -> tuple[Floats, Floats]:
    """``a(x)`` of a report that supports ``x``, and of one that does not."""
    gain = check_informative(channel.hit, channel.miss)
    return (1.0 - channel.miss) / gain, -channel.miss / gain


def _products(
    both: Floats,
    up: Floats,
    across: Floats,
    n: int,
    one: tuple[Floats, Floats],
    two: tuple[Floats, Floats],
) -> Floats:
    """Mean over people of the product of two scores, for every pair of values."""
    (yes1, no1), (yes2, no2) = one, two
    only_up, only_across = up[:, None] - both, across[None, :] - both
    neither = n - up[:, None] - across[None, :] + both
    total = (
        np.outer(yes1, yes2) * both
        + np.outer(yes1, no2) * only_up
        + np.outer(no1, yes2) * only_across
        + np.outer(no1, no2) * neither
    )
    return total / n


PADDING = "padding"


class PaddedSets(Mechanism):
    """Padding and sampling for people who hold sets (Qin et al. 2016; Wang, Li and Jha 2018).

    A set with fewer than `length` values is filled up with padding, one member is drawn, and that
    one is reported. In a larger set every member is drawn with the same probability, so shares are
    underestimated if many sets are larger than `length`.

    Parameters
    ----------
    domain : Domain
        The values that sets may contain.
    epsilon : float
        Budget: each report is at most ``exp(epsilon)`` times as likely from one set as from
        another.
    length : int
        Size to which sets are padded.
    mechanism : {"randomized_response", "unary_encoding"}, optional
        By default the one with the smaller variance. Drawing one member of `length` hides the
        others, so randomized response can spend ``log(1 + length (exp(epsilon) - 1))`` on it; bits
        do not gain anything, because those of several members could be raised together.

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

    In a PyMC model, use the reports with `channel`, whose values are the drawn members: the share
    of people who have a value is `length` times that of the member,
    ``Released("sent", baskets.channel, members, observed=sent)``.
    """

    #: As for channels: the default estimator.
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
        #: Probability that somebody who has a value, and who does not, supports it.
        self.miss: Floats = self.channel.miss[: len(domain)]
        self.hit: Floats = self.miss + (self.channel.hit[: len(domain)] - self.miss) / self.length

    @property
    def methods(self) -> tuple[str, ...]:
        """Estimators that `estimate` offers."""
        return self.channel.methods

    def release(self, sets: Iterable[Iterable[object]], *, seed: Seed = None) -> Any:
        """Release one report per set, from the mechanism on values and padding.

        Parameters
        ----------
        sets : iterable of iterables
            The values of each person; repeated ones count once.
        seed : int, numpy.random.Generator or None
            None uses the operating system's secure random source.
        """
        return self.channel.release(self._drawn(sets, seed), seed=seed)

    def _drawn(self, sets: Iterable[Iterable[object]], seed: Seed) -> npt.NDArray[np.object_]:
        """One member of each padded set."""
        held = []
        for place, each in enumerate(list_of("sets", sets)):
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
        # Uniform on the slots of each person, up to rounding.
        slot = np.minimum((source.random(len(held)) * slots).astype(np.int64), slots - 1)
        first = np.cumsum(counts) - counts
        member = slot < counts
        chosen = np.where(member, 0, size + slot)
        chosen[member] = keys[(first + slot)[member]] % size
        return self.channel.domain.decode(chosen)

    def reporter(self, *, seed: Seed = None) -> Callable[[Iterable[object]], Any]:
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

    def spell(self, reports: object) -> list[str]:
        """Write reports as texts; see `Channel.spell`."""
        return self.channel.spell(reports)

    def read_texts(self, texts: Sequence[str], *, where: str = "reports") -> Any:
        """Parse reports from texts; see `Channel.read_texts`."""
        return self.channel.read_texts(texts, where=where)

    def estimate(self, reports: object, *, method: str = "empirical", **settings: Any) -> Estimate:
        """Share of people whose set contains each value, with limits.

        These are the shares of drawn members times `length`, which is right if no set has more than
        `length` members. Shares of different values need not sum to one.

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
        return estimation.closed_forms.expected_loss(
            shares, n, self.hit, self.miss, norm=norm, sampled=sampled
        )

    def worst_case_loss(self, n: int, *, norm: str = "l2") -> float:
        """Largest expected loss: all values equally frequent, as far as sets or noise allow."""
        hit, miss, size = float(self.hit[0]), float(self.miss[0]), len(self.domain)
        even = min(1.0, self.length / size, (0.5 - miss) / (hit - miss))
        return self.expected_loss(np.full(size, even), n, norm=norm)

    def ldp_budget(self) -> float:
        """LDP budget of any two sets.

        The full set and the empty one are farthest apart. With randomized response a report of a
        member is ``1 + (e - 1) / length`` times as likely from the full one; with bits, a report
        with all ``m`` members raised and no padding ``(m e + length - m) / length`` times.
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
        members = self.domain.labels[0]
        said = (Description(f"a member of {members}"), Description("padding"))
        return [Ratios(np.full(2, self.budget), np.zeros(2), lambda x, _: said[x])]


def _noise(channel: PureChannel) -> float:
    """Variance of the share of a value that nobody has, from one report."""
    hit, miss = float(channel.hit[0]), float(channel.miss[0])
    return miss * (1 - miss) / (hit - miss) ** 2 if hit > miss else math.inf
