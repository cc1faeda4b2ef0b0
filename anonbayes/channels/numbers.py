"""Numbers under local privacy.

A number from a bounded range is reported with noise that respects distance. *Square wave* (Li et
al. 2020) is for estimating the distribution of the numbers. *Piecewise* (Wang et al. 2019) and
*Duchi* (Duchi, Jordan and Wainwright 2018) report a number whose mean is the true one, and are for
estimating means. All are channels on an ordered domain of numbers, such as `BinnedDomain`, so their
reports can be used in models and released tables like any others.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from anonbayes import estimation
from anonbayes.arrays import Floats, Ints, read_number, read_whole
from anonbayes.channels.base import (
    MAX_MATRIX,
    Channel,
    ReportEvidence,
    by_appearance,
    check_matrix_size,
    check_reports,
    check_some,
    whole_reports,
)
from anonbayes.channels.coarsening import BinnedDomain, number_list
from anonbayes.channels.randomness import Seed, Source
from anonbayes.domains import Domain
from anonbayes.errors import ChannelError
from anonbayes.estimation.closed_forms import Estimate, check_level, share_interval, shares_of
from anonbayes.notions.ldp import Ratios, check_epsilon

if TYPE_CHECKING:
    from anonbayes.estimation.em import Smoothed
    from anonbayes.estimation.likelihood import MixtureLikelihood, WindowLikelihood

# Number of steps between the smallest and the largest report of the piecewise mechanism. The last
# digits of a floating-point sum of value and noise could reveal the value; integer steps cannot.
STEPS = 1 << 20

# With a smaller budget, floats cannot distinguish a report from pure noise.
LEAST_BUDGET = 1e-9

# Largest number of bins for which smoothing is chosen and limits are computed, with matrices.
MOST_BINS = 1024


@dataclass(frozen=True)
class MeanEstimate:
    """Estimated mean of the true numbers.

    Attributes
    ----------
    mean : float
        The estimate.
    interval : tuple of float
        Confidence limits, within the range of the numbers.
    level : float
        Probability of `interval`.
    standard_error : float
        Standard error of the estimate.
    n : int
        Number of reports.
    """

    mean: float
    interval: tuple[float, float]
    level: float
    standard_error: float
    n: int

    def _repr_html_(self) -> str:
        low, high = self.interval
        return (
            f"<b>mean {self.mean:.6g}</b>, {self.level:.0%} limits {low:.6g} to {high:.6g}, "
            f"{self.n:,} reports"
        )


class NumericChannel(Channel):
    """Channel on ascending numbers."""

    default_method, keeps, tells_mean = "mean", (), True

    def _set_range(self, domain: Domain, epsilon: float) -> None:
        """Read the range and the budget; raise `ChannelError` unless the numbers ascend."""
        self.domain, self.epsilon = domain, check_epsilon(epsilon)
        numbers = domain.numbers
        if len(numbers) > 1 and not (np.diff(numbers) > 0).all():
            raise ChannelError(
                f"The numbers of domain {domain.name!r} must be in ascending order; sort them, or "
                "use a BinnedDomain."
            )
        ends = domain if isinstance(domain, BinnedDomain) else None
        self.lower = float(numbers[0]) if ends is None else ends.lower
        self.upper = float(numbers[-1]) if ends is None else ends.upper

    @abstractmethod
    def mean(self, reports: object, *, level: float = 0.95) -> MeanEstimate:
        """Mean of the true numbers, with confidence limits."""

    @abstractmethod
    def variance(self, value: float) -> float:
        """Variance of the unbiased number that a report of this value represents."""

    def _mean_of(self, numbers: Floats, level: float) -> MeanEstimate:
        """Mean of numbers that are unbiased for the true ones, one from each user."""
        check_level(level)
        n = len(numbers)
        check_some(n)
        mean, error, half = float(numbers.mean()), math.inf, math.inf
        if n > 1:
            error = float(numbers.std(ddof=1) / math.sqrt(n))
            half = estimation.closed_forms.student_quantile(level, n - 1) * error
        ends = (mean, mean - half, mean + half)
        inside, low, high = (min(max(end, self.lower), self.upper) for end in ends)
        return MeanEstimate(inside, (low, high), level, error, n)

    def read_texts(self, texts: Sequence[str], *, where: str = "reports") -> Any:
        """Parse reports from texts of numbers."""
        numbers = []
        for row, text in enumerate(texts):
            try:
                numbers.append(float(text))
            except ValueError:
                raise ChannelError(f"{where}, row {row}: {text!r} is not a number.") from None
        return self.read(np.array(numbers))

    @abstractmethod
    def read(self, reports: object) -> Any:
        """Return the reports as an array; raise `ChannelError` for one that cannot be sent."""

    def _numbers(self, argument: str, values: object) -> Floats:
        """Finite numbers in one column."""
        numbers = number_list(argument, values)
        if not np.isfinite(numbers).all():
            raise ChannelError(f"{argument} must be a list of finite numbers.")
        return numbers


class WindowChannel(NumericChannel):
    """Channel whose reports are likelier given a window of consecutive values than given others."""

    high: float
    low: float

    @abstractmethod
    def windows(self, reports: object) -> tuple[Ints, Ints]:
        """First value of each report's window, and the value after its last."""

    def fast_likelihood(self, reports: object) -> WindowLikelihood:
        """Likelihood of the distribution, in ``O(K)`` per pass."""
        start, stop = self.windows(reports)
        size = len(self.domain)
        window, weights = np.unique(start * (size + 1) + stop, return_counts=True)
        return estimation.likelihood.WindowLikelihood(
            weights, window // (size + 1), window % (size + 1), self.high, self.low, size
        )

    def likelihood(self, reports: object) -> MixtureLikelihood:
        """Likelihood of the distribution, with a row for each distinct window."""
        return self.fast_likelihood(reports).mixture(most=MAX_MATRIX)

    def stretches(self) -> Floats:
        """Probability of each report given each value, or of stretches of continuous reports."""
        return self.matrix()

    def _smoothed(self, reports: object, level: float, **settings: Any) -> Smoothed:
        """EM with smoothing, with limits that enclose those of every strength of smoothing."""
        check_level(level)
        likelihood = self.fast_likelihood(reports)
        check_some(likelihood.n)
        size = len(self.domain)
        matrix = self.stretches() if size <= MOST_BINS else None
        start = estimation.em.starting_point(None, size)
        return estimation.em.smoothed(likelihood, start, matrix, level=level, **settings)

    def _interval(self, reports: object, level: float) -> Floats | None:
        return self._smoothed(reports, level).interval if len(self.domain) <= MOST_BINS else None

    def evidence(self, reports: object) -> ReportEvidence:
        """Likelihood vector of the true value behind each report, one for each window.

        The label of a window is the pair of its first and last value; a report that is equally
        likely from all values, and so carries no information, is labelled ``"*"``.
        """
        start, stop = self.windows(reports)
        size = len(self.domain)
        codes, window = by_appearance(start * (size + 1) + stop)
        first, last = window // (size + 1), window % (size + 1)
        rows = estimation.likelihood.WindowLikelihood(
            np.ones(len(window), dtype=np.int64), first, last, self.high, self.low, size
        )
        values = self.domain.values
        labels = [
            (values[a], values[b - 1]) if a < b else "*"
            for a, b in zip(first.tolist(), last.tolist(), strict=True)
        ]
        return ReportEvidence(codes, labels, rows.mixture(most=MAX_MATRIX).matrix())

    def ratios(self, *, protected: bool = False) -> Iterator[Ratios]:
        """``epsilon`` for every pair: a report in the window of one value and not of the other."""
        size = (len(self.domain),)
        own, other = np.broadcast_to(self.epsilon, size), np.broadcast_to(0.0, size)
        proof = np.broadcast_to(np.False_, size) if protected else None
        yield Ratios(own, other, self._telling, proof)

    @abstractmethod
    def _telling(self, x: int, other: int) -> float:
        """Report in the window of `x` and outside that of `other`."""


class UnbiasedChannel(NumericChannel):
    """Channel whose reports are numbers with the true one as their mean."""

    #: The largest report of a number between -1 and 1.
    reach: float

    def _set_range(self, domain: Domain, epsilon: float) -> None:
        super()._set_range(domain, epsilon)
        if self.epsilon < LEAST_BUDGET or self.lower == self.upper:
            raise ChannelError(
                f"{type(self).__name__} needs a budget of at least {LEAST_BUDGET:g} and a range of "
                "more than one number."
            )

    def scaled(self, numbers: npt.ArrayLike) -> Floats:
        """Map numbers from the range to [-1, 1]."""
        return (2.0 * np.asarray(numbers) - self.lower - self.upper) / (self.upper - self.lower)

    def unscaled(self, numbers: npt.ArrayLike) -> Floats:
        """Inverse of `scaled`."""
        half = (self.upper - self.lower) / 2.0
        return self.lower + half * (1.0 + np.asarray(numbers))

    def _held(self, values: Iterable[object]) -> Floats:
        """True numbers, scaled; raise `ChannelError` naming the first row outside the range."""
        numbers = self._numbers("values", values)
        outside = np.flatnonzero(~((numbers >= self.lower) & (numbers <= self.upper)))
        if len(outside):
            row = int(outside[0])
            raise ChannelError(
                f"Column {self.domain.name!r}, row {row}: {numbers[row]:g} lies outside the range "
                f"from {self.lower:g} to {self.upper:g}."
            )
        return self.scaled(numbers)

    def read_texts(self, texts: Sequence[str], *, where: str = "reports") -> Floats:
        """Parse reports from texts of numbers."""
        return self.unscaled(super().read_texts(texts, where=where))

    def variance(self, value: float) -> float:
        """Variance of the report of one number."""
        held = float(self._held([value])[0])
        return self._variance(held) * ((self.upper - self.lower) / 2.0) ** 2

    @abstractmethod
    def _variance(self, held: float) -> float:
        """Variance of the report of a number between -1 and 1, on that scale."""

    def mean(self, reports: object, *, level: float = 0.95) -> MeanEstimate:
        """Unbiased mean of the reports, with Student's limits clipped to the range.

        Examples
        --------
        >>> import anonbayes as ab
        >>> channel = ab.Piecewise(ab.BinnedDomain("age", 0, 100, 50), epsilon=1.0)
        >>> ages = np.random.default_rng(1).uniform(20, 60, 10_000)
        >>> estimate = channel.mean(channel.release(ages, seed=2))
        >>> round(estimate.mean, 1), [round(limit, 1) for limit in estimate.interval]
        (40.3, [38.4, 42.2])
        """
        return self._mean_of(self.unscaled(self.read(reports)), level)


class Piecewise(UnbiasedChannel, WindowChannel):
    """Piecewise mechanism (Wang et al. 2019): a number that is likely to be near the true one.

    On the scale from -1 to 1, with ``z = exp(epsilon / 2)`` and ``C = (z + 1)/(z - 1)``, the report
    of ``v`` lies between ``-C`` and ``C``. Its density is ``z (z - 1) / (2 (z + 1))`` between
    ``l = (C + 1) v / 2 - (C - 1)/2`` and ``l + C - 1``, and ``exp(-epsilon)`` times that elsewhere,
    so it satisfies epsilon-LDP. Its mean is ``v``. Reports are rounded to multiples of ``2^-20`` of
    their range, so that the last digits of a floating-point number reveal nothing.

    Parameters
    ----------
    domain : Domain
        Ascending numbers, such as a `BinnedDomain`, whose range is that of the numbers. Numbers
        themselves are reported, not bins; for distributions (``estimate``, tables, models) all
        numbers of a bin count as its midpoint.
    epsilon : float
        Budget, positive.

    Examples
    --------
    >>> import anonbayes as ab
    >>> channel = ab.Piecewise(ab.BinnedDomain("age", 0, 100, 50), epsilon=2.0)
    >>> channel.release([20.5, 99], seed=1).round(1).tolist()
    [30.1, 67.0]
    >>> round(channel.variance(50) ** 0.5, 1)
    40.2
    """

    methods = ("mle", "em", "bayes")

    def __init__(self, domain: Domain, epsilon: float) -> None:
        self._set_range(domain, epsilon)
        shrink = math.exp(-self.epsilon / 2)
        self.reach = (1.0 + shrink) / (1.0 - shrink)
        self._near = 1.0 / (1.0 + shrink)
        window = 2.0 * shrink / (1.0 - shrink) * (self.upper - self.lower) / 2.0
        if window == 0.0:
            raise ChannelError(
                f"Piecewise: with numbers from {self.lower:g} to {self.upper:g} and epsilon "
                f"{self.epsilon:g} all reports are equal; use at least two numbers, and a budget "
                "below 1,400."
            )
        self.high = self._near / window
        self.low = self.high * math.exp(-self.epsilon)

    def _left(self, held: Floats) -> Floats:
        return (self.reach + 1.0) / 2.0 * held - (self.reach - 1.0) / 2.0

    def release(self, values: Iterable[object], *, seed: Seed = None) -> Floats:
        """Release one number for each number; it may lie outside the range."""
        held, source = self._held(values), self._source(seed)
        left, n, wide = self._left(held), len(held), self.reach - 1.0
        near = source.random(n) < self._near
        uniform = source.random(n)
        elsewhere = uniform * (self.reach + 1.0) - self.reach
        elsewhere = np.where(elsewhere < left, elsewhere, elsewhere + wide)
        report = np.where(near, left + wide * uniform, elsewhere)
        step = 2.0 * self.reach / STEPS
        return self.unscaled(np.rint(np.clip(report, -self.reach, self.reach) / step) * step)

    def read(self, reports: object) -> Floats:
        """Return reports on the scale from -1 to 1; raise `ChannelError` for impossible ones."""
        numbers = self._numbers("reports", reports)
        scaled = self.scaled(numbers)
        wrong = np.flatnonzero(np.abs(scaled) > self.reach * (1 + 1e-6))
        if len(wrong):
            row = int(wrong[0])
            ends = self.unscaled([-self.reach, self.reach])
            raise ChannelError(
                f"Report {row} is {numbers[row]:g}; {self!r} sends numbers from {ends[0]:g} to "
                f"{ends[1]:g}."
            )
        return scaled

    def spell(self, reports: object) -> list[str]:
        """Write reports as texts, with all their digits."""
        return [repr(number) for number in self._numbers("reports", reports).tolist()]

    def windows(self, reports: object) -> tuple[Ints, Ints]:
        """Values for which each report lies in the likely stretch."""
        sent = self.read(reports)
        held = self.scaled(self.domain.numbers)
        first = (2.0 * sent - (self.reach - 1.0)) / (self.reach + 1.0)
        last = (2.0 * sent + (self.reach - 1.0)) / (self.reach + 1.0)
        start = np.searchsorted(held, first, side="left")
        return start.astype(np.int64), np.searchsorted(held, last, side="right").astype(np.int64)

    def stretches(self) -> Floats:
        """Probability of a report between two ends of likely stretches, from each value."""
        left = self._left(self.scaled(self.domain.numbers))[:, None]
        wide, density = self.reach - 1.0, (self.upper - self.lower) / 2.0
        ends = np.unique(np.clip([left, left + wide, 0 * left + self.reach, 0 * left - self.reach],
                                 -self.reach, self.reach))  # fmt: skip
        middle = (ends[1:] + ends[:-1]) / 2
        near = (middle >= left) & (middle <= left + wide)
        return np.where(near, self.high, self.low) * density * np.diff(ends)

    def _variance(self, held: float) -> float:
        z = math.exp(-self.epsilon / 2)
        # v^2/(z-1) + (z+3)/(3 (z-1)^2), written with 1/z.
        return held**2 * z / (1.0 - z) + z * (1.0 + 3.0 * z) / (3.0 * (1.0 - z) ** 2)

    def _telling(self, x: int, other: int) -> float:
        held = self.scaled(self.domain.numbers)
        left = float(self._left(held[x]))
        edge = left if x < other else left + self.reach - 1.0
        return float(self.unscaled(edge))


class Duchi(UnbiasedChannel):
    """Duchi's mechanism for means (Duchi, Jordan and Wainwright 2018): one of two numbers.

    On the scale from -1 to 1, with ``C = (e + 1)/(e - 1)``, the report of ``v`` is ``C`` with
    probability ``1/2 + v / (2 C)`` and ``-C`` otherwise. It satisfies epsilon-LDP, and its mean is
    ``v``. Its variance is smaller than that of `Piecewise` up to an ``epsilon`` of about 1.3, but
    it can only be used to estimate the mean.

    Parameters
    ----------
    domain : Domain
        Ascending numbers, such as a `BinnedDomain`, whose range is that of the numbers.
    epsilon : float
        Budget, positive.

    Examples
    --------
    >>> import anonbayes as ab
    >>> channel = ab.Duchi(ab.BinnedDomain("age", 0, 100, 10), epsilon=np.log(3))
    >>> channel.release([20, 99], seed=1).round(6).tolist()
    [-50.0, 150.0]
    >>> estimate = channel.mean([-50.0] * 600 + [150.0] * 400)
    >>> round(estimate.mean, 6), [round(limit, 1) for limit in estimate.interval]
    (30.0, [24.0, 36.1])
    """

    methods = ("bayes",)

    def __init__(self, domain: Domain, epsilon: float) -> None:
        self._set_range(domain, epsilon)
        self.reach = 1.0 / math.tanh(self.epsilon / 2)

    def release(self, values: Iterable[object], *, seed: Seed = None) -> Floats:
        """Release one of two numbers, both outside the range, for each number."""
        held = self._held(values)
        up = self._source(seed).random(len(held)) < self._up(held)
        return self._ends[up.astype(np.int64)]

    def _up(self, held: npt.ArrayLike) -> Floats:
        return 0.5 + np.asarray(held) / (2.0 * self.reach)

    @property
    def _ends(self) -> Floats:
        return self.unscaled([-self.reach, self.reach])

    def read(self, reports: object) -> Floats:
        """Return reports on the scale from -1 to 1; raise `ChannelError` for impossible ones."""
        numbers, ends = self._numbers("reports", reports), self._ends
        up = (np.abs(numbers - ends[1]) < np.abs(numbers - ends[0])).astype(np.int64)
        wrong = np.flatnonzero(np.abs(numbers - ends[up]) > 1e-6 * (ends[1] - ends[0]))
        if len(wrong):
            raise ChannelError(
                f"Report {wrong[0]} is {numbers[wrong[0]]:g}; {self!r} sends {ends[0]:g} or "
                f"{ends[1]:g}."
            )
        return np.where(up, self.reach, -self.reach)

    def mean(self, reports: object, *, level: float = 0.95) -> MeanEstimate:
        """Unbiased mean of the reports, with Wilson's limits for the share of upper ones.

        The limits and the mean are clipped to the range.
        """
        check_level(level)
        check_reports(reports)
        sent = self.read(reports)
        n, up = len(sent), int((sent > 0).sum())
        check_some(n)
        share = up / n
        limits = share_interval([up], n, np.ones(1), np.zeros(1), level)[0]
        ends = np.clip((2.0 * np.array([share, *limits]) - 1.0) * self.reach, -1.0, 1.0)
        mean, low, high = self.unscaled(ends).tolist()
        scale = self.reach * (self.upper - self.lower)
        error = scale * math.sqrt(share * (1 - share) / n)
        return MeanEstimate(mean, (low, high), level, error, n)

    def estimate(self, reports: object, *, method: str = "mle", **settings: Any) -> Estimate:
        """Shares of the bins under a prior (``method="bayes"``); reports only give their mean."""
        if method != "bayes":
            raise ChannelError(
                "Reports of Duchi's mechanism determine the mean of the values, but not their "
                "distribution: use mean(reports). method='bayes' gives shares with that mean, but "
                "their shape is the prior's; SquareWave is made for shares."
            )
        return super().estimate(reports, method=method, **settings)

    def _variance(self, held: float) -> float:
        return self.reach**2 - held**2

    def matrix(self) -> Floats:
        """``Q``, shape (K, 2): the lower report and the upper one."""
        up = self._up(self.scaled(self.domain.numbers))
        return np.stack([1.0 - up, up], axis=1)

    def likelihood(self, reports: object) -> MixtureLikelihood:
        """Likelihood of the distribution, from the two counts."""
        sent = self.read(reports)
        up = int((sent > 0).sum())
        return self._rows(np.array([len(sent) - up, up]))

    def _rows(self, weights: Ints) -> MixtureLikelihood:
        q, size, rows = self.matrix(), len(self.domain), np.array([0, 0, len(self.domain)])
        return estimation.likelihood.MixtureLikelihood.of_rows(
            rows, np.arange(size), size, floor=[1, 0], tilt=q[:, 0], gain=q[:, 1], weights=weights
        )

    def evidence(self, reports: object) -> ReportEvidence:
        """Likelihood vector of the true value behind each report."""
        codes, seen = by_appearance((self.read(reports) > 0).astype(np.int64))
        matrix = self._rows(np.ones(2, dtype=np.int64)).matrix()
        return ReportEvidence(codes, self._ends[seen].tolist(), matrix[seen])

    def ratios(self, *, protected: bool = False) -> Iterator[Ratios]:
        """Log ratios of both reports, at the bin edges that favour them most."""
        if isinstance(self.domain, BinnedDomain):
            edges = self.domain.edges  # type: ignore[attr-defined]
            low, high = self.scaled(edges[:-1]), self.scaled(edges[1:])
        else:
            low = high = self.scaled(self.domain.numbers)
        proof = np.broadcast_to(np.False_, (len(self.domain),)) if protected else None
        down_end, up_end = self._ends.tolist()
        up_own, up_other = np.log(self._up(high)), -np.log(self._up(low))
        yield Ratios(up_own, up_other, lambda _x, _other: up_end, proof)
        down_own, down_other = np.log(self._up(-low)), -np.log(self._up(-high))
        yield Ratios(down_own, down_other, lambda _x, _other: down_end, proof)


class SquareWave(WindowChannel):
    """Square wave (Li et al. 2020, for bins): a bin, likelier one within ``b`` of the true one.

    Reports are the numbers ``0, ..., K + 2b - 1``; report ``y`` stands for the bin ``y - b``, which
    may lie beyond the ends. With ``e = exp(epsilon)`` each of the ``2b + 1`` reports near the true
    bin has probability ``e / ((2b + 1) e + K - 1)``, each other one ``1 / ((2b + 1) e + K - 1)``:
    epsilon-LDP. Where shares of neighbouring bins are similar, ``method="ems"`` (EM with
    smoothing), the default, is far more accurate than estimates that treat bins as unrelated.

    Parameters
    ----------
    domain : Domain
        Ascending numbers, such as a `BinnedDomain`.
    epsilon : float
        Budget, finite and not negative.
    b : int, optional
        Half-width; by default the one with the most information about the value, ``floor(K beta)``
        with
        ``beta = (epsilon e - e + 1) / (2 e (e - 1 - epsilon))``.

    Examples
    --------
    >>> import anonbayes as ab
    >>> ages = ab.BinnedDomain("age", 0, 100, 50)
    >>> channel = ab.SquareWave(ages, epsilon=1.0)
    >>> channel.b, channel.satisfies(ab.LDP(1.0)).holds
    (12, True)
    >>> people = np.clip(np.random.default_rng(1).normal(40, 12, 20_000), 0, 100)
    >>> estimate = channel.estimate(channel.release(people, seed=2))
    >>> estimate.method, ages.values[estimate.p.argmax()]
    ('ems', 41)
    """

    methods = ("ems", "mle", "em", "bayes")
    default_method = "ems"

    def __init__(self, domain: Domain, epsilon: float, *, b: int | None = None) -> None:
        self._set_range(domain, epsilon)
        size = len(domain)
        chosen = math.floor(size * best_width(self.epsilon)) if b is None else b
        self.b = read_whole("b", chosen, error=ChannelError)
        shrink = math.exp(-self.epsilon)
        self.high = 1.0 / (2 * self.b + 1 + (size - 1) * shrink)
        self.low = self.high * shrink

    @property
    def n_reports(self) -> int:
        """Number of different reports, ``K + 2b``."""
        return len(self.domain) + 2 * self.b

    def _draw(self, own: Ints, source: Source) -> Ints:
        """Report each bin (codes) as a whole number from 0 to ``K + 2b - 1``."""
        n = len(own)
        wide = 2 * self.b + 1
        near = source.random(n) < self.high * wide
        report = own + source.integers(0, wide, n)
        if len(self.domain) > 1:
            # All other reports, counted around the window.
            far = source.integers(0, len(self.domain) - 1, n)
            far = np.where(far < own, far, far + wide)
            report = np.where(near, report, far)
        return report

    def read(self, reports: object) -> Ints:
        """Return the reports as an array; raise `ChannelError` for one that cannot be sent."""
        return whole_reports(self, self._numbers("reports", reports), self.n_reports)

    def windows(self, reports: object) -> tuple[Ints, Ints]:
        """Bins within ``b`` of each report."""
        sent = self.read(reports)
        return np.maximum(sent - 2 * self.b, 0), np.minimum(sent + 1, len(self.domain))

    def matrix(self) -> Floats:
        """``Q``, shape (K, K + 2b)."""
        check_matrix_size(self, self.n_reports)
        shift = np.arange(self.n_reports) - np.arange(len(self.domain))[:, None]
        return np.where((shift >= 0) & (shift <= 2 * self.b), self.high, self.low)

    def apply(self, p: npt.ArrayLike) -> Floats:
        """Distribution of the reports, ``p Q``, in ``O(K)``."""
        every = np.arange(self.n_reports)
        start, stop = self.windows(every)
        sums = np.concatenate([[0.0], np.cumsum(shares_of(p, self.domain))])
        return self.low * sums[-1] + (self.high - self.low) * (sums[stop] - sums[start])

    def estimate(self, reports: object, *, method: str = "ems", **settings: Any) -> Estimate:
        """Estimate the distribution of the true values.

        Parameters
        ----------
        reports
            What `release` returned, of many users.
        method : {"ems", "mle", "em", "bayes"}
            ``"ems"`` is EM in which every iteration ends with averaging neighbours with weights 1,
            2, 1 (`smoothing`, `iterations`, `tolerance`). The strength is chosen by Akaike's
            criterion; ``smoothing=1`` is the algorithm of Li et al., 0 is plain EM. The other
            methods are those of `Channel.estimate`.
        **settings
            Settings of the method, and `level` for the intervals. Unless `smoothing` is given,
            these enclose the limits of all strengths of smoothing, for every method.
        """
        return super().estimate(reports, method=method, **settings)

    def _estimate_ems(
        self,
        reports: object,
        *,
        smoothing: float | None = None,
        iterations: int = 10_000,
        tolerance: float = 1e-3,
        level: float = 0.95,
    ) -> Estimate:
        if smoothing is not None and not 0 <= read_number("smoothing", smoothing) <= 1000:
            raise ChannelError(f"smoothing={smoothing!r} must be a number from 0 to 1000.")
        smoothed = self._smoothed(
            reports, level, strength=smoothing, iterations=iterations, tolerance=tolerance
        )
        n = len(self.read(reports))
        return self._from_end("ems", n, smoothed.end, smoothed.interval, level)

    def mean(self, reports: object, *, level: float = 0.95) -> MeanEstimate:
        """Unbiased mean, with Student's limits clipped to the range.

        Every report counts as a number whose mean is the true one; for bins of equal width, it is a
        linear function of the report.
        """
        return self._mean_of(self._weights[self.read(reports)], level)

    def variance(self, value: float) -> float:
        """Variance of the number that a report of this value represents in `mean`."""
        code, w = self.domain.index(value), self._weights
        near = w[code : code + 2 * self.b + 1]
        square = self.low * (w @ w) + (self.high - self.low) * (near @ near)
        return float(square - self.domain.numbers[code] ** 2)

    @cached_property
    def _weights(self) -> Floats:
        """Number for each report such that its mean is the value, ``Q w = x``."""
        numbers, every = self.domain.numbers, np.arange(self.n_reports, dtype=float)
        gain = (self.high - self.low) * (2 * self.b + 1)
        if gain <= 0 or len(numbers) < 2:
            raise ChannelError(f"The reports of {self!r} carry no information about the mean.")
        step = (numbers[-1] - numbers[0]) / (len(numbers) - 1)
        if np.allclose(np.diff(numbers), step, rtol=1e-9):
            # Position y - b has mean low * (sum of all positions) + gain * code.
            place = (every - self.b - self.low * (every - self.b).sum()) / gain
            return numbers[0] + step * place
        if len(numbers) > MOST_BINS:
            raise ChannelError(
                f"The mean of {len(numbers)} numbers that are not evenly spaced takes too long; "
                f"use at most {MOST_BINS}, or bins of equal width."
            )
        weights = np.linalg.lstsq(self.matrix(), numbers, rcond=None)[0]
        return np.asarray(weights, dtype=np.float64)

    def _telling(self, x: int, other: int) -> int:
        return x if x < other else x + 2 * self.b

    def common_mass(self) -> float:
        """``sum_y min_x Q(y|x)``; see `Channel.common_mass`."""
        if len(self.domain) == 1:
            return 1.0
        # Reports whose window holds every value.
        all_near = max(0, 2 * self.b + 2 - len(self.domain))
        return all_near * self.high + (self.n_reports - all_near) * self.low

    def total_maximum(self) -> float:
        """``sum_y max_x Q(y|x)``: every report is near some value."""
        return self.n_reports * self.high


def best_width(epsilon: float) -> float:
    """Width of the square wave as a share of the range (Li et al. 2020, 5.2)."""
    if epsilon < 1e-4:
        return 0.5 - epsilon / 3
    if epsilon > 500:
        return 0.0
    return (epsilon + math.expm1(-epsilon)) / (2.0 * (math.expm1(epsilon) - epsilon))
