"""Square wave: the distribution of numbers, from reports that tend to be near the true one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Floats, Ints, read_number, read_whole
from anonbayes.channels.base import check_matrix_size, whole_reports
from anonbayes.channels.numbers import MOST_BINS, BinnedDomain, MeanEstimate, WindowChannel
from anonbayes.domains import Domain
from anonbayes.errors import ChannelError
from anonbayes.estimation.closed_forms import Estimate, shares_of

__all__ = ["SquareWave"]


class SquareWave(WindowChannel):
    """Square wave (Li et al. 2020, bins first): a bin, likelier one within ``b`` of the true one.

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
        Width; by default the one with the most information about the value, ``floor(K beta)`` with
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

    def release_codes(self, codes: npt.NDArray[np.integer[Any]], *, seed: Any = None) -> Ints:
        """Report each bin (codes) as a whole number from 0 to ``K + 2b - 1``."""
        source, n, own = self._source(seed), len(codes), np.asarray(codes, dtype=np.int64)
        wide = 2 * self.b + 1
        near = source.random(n) < self.high * wide
        report = own + source.integers(0, wide, n)
        if len(self.domain) > 1:
            # All other reports, counted around the window.
            far = source.integers(0, len(self.domain) - 1, n)
            far = np.where(far < own, far, far + wide)
            report = np.where(near, report, far)
        return report

    def _encode(self, values: Iterable[object]) -> Ints:
        if isinstance(self.domain, BinnedDomain) and not isinstance(values, str):
            return self.domain.encode(values)
        return super()._encode(values)

    def read(self, reports: Any) -> Ints:
        """Return the reports as an array; raise `ChannelError` for one that cannot be sent."""
        return whole_reports(self, self._numbers("reports", reports), self.n_reports)

    def windows(self, reports: Any) -> tuple[Ints, Ints]:
        """Bins within ``b`` of each report."""
        sent = self.read(reports)
        return np.maximum(sent - 2 * self.b, 0), np.minimum(sent + 1, len(self.domain))

    def matrix(self) -> Floats:
        """``Q``, shape (K, K + 2b)."""
        check_matrix_size(self, self.n_reports)
        shift = np.arange(self.n_reports) - np.arange(len(self.domain))[:, None]
        return np.where((shift >= 0) & (shift <= 2 * self.b), self.high, self.low)

    def stretches(self) -> Floats:
        """``Q``: every report is a stretch of its own."""
        return self.matrix()

    def apply(self, p: npt.ArrayLike) -> Floats:
        """Distribution of the reports, ``p Q``, in ``O(K)``."""
        every = np.arange(self.n_reports)
        start, stop = self.windows(every)
        sums = np.concatenate([[0.0], np.cumsum(shares_of(p, self.domain))])
        return self.low * sums[-1] + (self.high - self.low) * (sums[stop] - sums[start])

    def estimate(self, reports: Any, *, method: str = "ems", **settings: Any) -> Estimate:
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
            Settings of the method, and `level` for the intervals. These enclose the limits of all
            strengths of smoothing, for every method, unless `smoothing` is given.
        """
        return super().estimate(reports, method=method, **settings)

    def _estimate_ems(
        self,
        reports: Any,
        *,
        smoothing: float | None = None,
        iterations: int = 10_000,
        tolerance: float = 1e-3,
        level: float = 0.95,
    ) -> Estimate:
        if smoothing is not None and not 0 <= read_number("smoothing", smoothing) <= 1000:
            raise ChannelError(f"smoothing={smoothing!r} must be a number from 0 to 1000.")
        found = self._smoothed(
            reports, level, strength=smoothing, iterations=iterations, tolerance=tolerance
        )
        n = len(self.read(reports))
        return self._from_end("ems", n, found.end, found.interval, level)

    def mean(self, reports: Any, *, level: float = 0.95) -> MeanEstimate:
        """Unbiased mean, with Student's limits clipped to the range.

        Every report counts as a number whose mean is the true one: for bins of equal width a linear
        function of the report.
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
        """Number for each report such that their mean is the value, ``Q w = x``."""
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
        weights: Floats = np.linalg.lstsq(self.matrix(), numbers, rcond=None)[0]
        return weights

    def _telling(self, x: int, other: int) -> int:
        return x if x < other else x + 2 * self.b

    def with_epsilon(self, epsilon: float) -> SquareWave:
        """Return the channel with another budget, and the best width for it."""
        return SquareWave(self.domain, epsilon)

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
    """Width of the square wave as a share of the range (Li et al. 2020, 5.2).

    Examples
    --------
    >>> round(best_width(1.0), 4), round(best_width(1e-9), 4), best_width(800.0)
    (0.2561, 0.5, 0.0)
    """
    if epsilon < 1e-4:
        return 0.5 - epsilon / 3
    if epsilon > 500:
        return 0.0
    return (epsilon + math.expm1(-epsilon)) / (2.0 * (math.expm1(epsilon) - epsilon))
