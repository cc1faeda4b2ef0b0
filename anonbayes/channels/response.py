"""Randomized response: the report is a value of the domain itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from anonbayes import estimation
from anonbayes.arrays import Floats, Mask
from anonbayes.channels.base import (
    Naming,
    ReportEvidence,
    Symbols,
    budget_second,
    by_appearance,
    check_matrix_size,
    check_reports,
    usable,
)
from anonbayes.channels.pure import PureChannel
from anonbayes.channels.randomness import response_reporter
from anonbayes.channels.reports import SupportCounts
from anonbayes.domains import Domain
from anonbayes.errors import ChannelError, DomainError
from anonbayes.estimation.closed_forms import Estimate, check_informative, shares_of, water_filling
from anonbayes.notions.ldp import check_epsilon, sensitive_mask

if TYPE_CHECKING:
    from anonbayes.estimation.likelihood import MixtureLikelihood

__all__ = ["RandomizedResponse", "UtilityOptimizedRR"]


class UtilityOptimizedRR(PureChannel):
    """Randomized response that protects sensitive values only (ULDP Def. 3).

    With ``e = exp(epsilon)`` and ``K_S`` sensitive values, a sensitive value is reported as it
    is with probability ``c1 = e / (K_S + e - 1)`` and as each other sensitive value with
    ``c2 = 1 / (K_S + e - 1)``; a non-sensitive value is reported as each sensitive value with
    ``c2``, and as it is with the rest, ``c3``. It satisfies (X_S, X_S, epsilon)-ULDP.

    Parameters
    ----------
    domain : Domain
        The values; they are also the reports.
    epsilon : float
        Budget of the sensitive values, finite and not negative.
    sensitive : iterable
        The sensitive values. If all values are sensitive, this is plain randomized response; if
        none is, values are released unchanged.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("diagnosis", ["HIV", "flu", "cold"])
    >>> channel = ab.UtilityOptimizedRR(domain, epsilon=np.log(4), sensitive=["HIV"])
    >>> channel.matrix()
    array([[1.  , 0.  , 0.  ],
           [0.25, 0.75, 0.  ],
           [0.25, 0.  , 0.75]])
    >>> channel.release(["HIV", "flu", "cold"], seed=1).tolist()
    ['HIV', 'flu', 'cold']
    >>> channel.estimate(["HIV"] * 40 + ["flu"] * 30 + ["cold"] * 30).p.round(6)
    array([0.2, 0.4, 0.4])
    """

    keeps = ("sensitive",)

    @budget_second("sensitive", "epsilon")
    def __init__(self, domain: Domain, epsilon: float, *, sensitive: Iterable[object]) -> None:
        self.domain = domain
        self.sensitive: Mask = sensitive_mask(domain, sensitive)
        self.epsilon = check_epsilon(epsilon)
        # Written with exp(-epsilon), which does not overflow.
        shrink, n_sensitive = np.exp(-self.epsilon), int(self.sensitive.sum())
        total = 1.0 + (n_sensitive - 1) * shrink
        if n_sensitive == 0:
            own, noise, kept = 1.0, 0.0, 1.0
        else:
            own, noise, kept = 1.0 / total, shrink / total, -np.expm1(-self.epsilon) / total
        self.hit: Floats = np.where(self.sensitive, own, kept)
        self.miss: Floats = np.where(self.sensitive, noise, 0.0)
        self._kept = kept

    def release(self, values: Iterable[object], *, seed: Any = None) -> npt.NDArray[Any]:
        """Report each value: with probability ``c3`` itself, else a random sensitive value."""
        return self.domain.decode(self.release_codes(self._encode(values), seed=seed))

    def release_codes(
        self, codes: npt.NDArray[np.integer[Any]], *, seed: Any = None
    ) -> npt.NDArray[np.int64]:
        """Release on codes instead of values: the inner loop of `release`."""
        source = self._source(seed)
        pool = np.flatnonzero(self.sensitive)
        # A uniform draw among the sensitive values also covers the own value, since
        # c1 = c3 + c2: the report is true with probability c3 and pure noise otherwise.
        noisy = np.flatnonzero(source.random(len(codes)) >= self._kept)
        reports = np.array(codes, dtype=np.int64)
        if len(noisy):
            reports[noisy] = pool[source.integers(0, len(pool), len(noisy))]
        return reports

    def reporter(self, *, seed: Any = None) -> Callable[[object], Any]:
        """Return a function that reports one value; see `Channel.reporter`."""
        pool = np.flatnonzero(self.sensitive)
        return response_reporter(self.domain, self._kept, pool, self._source(seed, "reporter"))

    def report_codes(self, reports: Iterable[object]) -> npt.NDArray[np.int64]:
        """Codes of reports; raise `ChannelError` for one that the channel cannot produce."""
        try:
            return self._encode(reports)
        except DomainError as error:
            raise ChannelError(f"{self!r} cannot produce one of the reports: {error}") from None

    def counts(self, reports: Iterable[object]) -> npt.NDArray[np.int64]:
        """Count the reports of each value."""
        if isinstance(reports, list) and (tally := self._tally(reports)) is not None:
            return tally
        return estimation.kernels.count(self.report_codes(reports), len(self.domain))

    def _tally(self, reports: list[object]) -> npt.NDArray[np.int64] | None:
        """Count without coding each report; None when that might confuse values."""
        if len(set(map(type, reports))) != 1:
            return None
        try:
            tally = Counter(reports)
        except TypeError:  # unhashable
            return None
        out = np.zeros(len(self.domain), dtype=np.int64)
        for value, number in tally.items():
            code = self.domain.find(value)
            if code is None:
                return None
            out[code] += number
        return out

    def matrix(self) -> Floats:
        """``Q``, shape (K, K)."""
        check_matrix_size(self, len(self.domain))
        q = np.broadcast_to(self.miss, (len(self.domain),) * 2).copy()
        np.fill_diagonal(q, self.hit)
        return q

    def apply(self, p: npt.ArrayLike) -> Floats:
        """Distribution of the reports, ``p Q``, in ``O(K)``."""
        return self.support(shares_of(p, self.domain))

    def likelihood(self, reports: Any) -> MixtureLikelihood:
        """Likelihood of the distribution, from the counts of the reports alone."""
        if isinstance(reports, SupportCounts):
            return self.likelihood_of_counts(self._counted(reports))
        return self.likelihood_of_counts(self.counts(reports))

    def _counted(self, reports: SupportCounts) -> npt.NDArray[np.int64]:
        if len(reports.counts) != len(self.domain) or reports.counts.sum() != reports.n:
            raise ChannelError(
                f"{self!r} reports one value per user, so it needs {len(self.domain)} counts that "
                f"sum to {reports.n}; got {len(reports.counts)} counts that sum to "
                f"{reports.counts.sum()}."
            )
        return reports.counts

    def simulate(self, held: npt.ArrayLike, *, seed: Any = None) -> SupportCounts:
        """Draw the counts of all reports at once, for simulations.

        Parameters
        ----------
        held : array-like of int, shape (K,)
            Number of users who hold each value.
        seed : int, numpy.random.Generator or None
            Source of the draws; not the secure one.

        Examples
        --------
        >>> import anonbayes as ab
        >>> channel = ab.RandomizedResponse(ab.Domain("x", range(3)), epsilon=1.0)
        >>> channel.simulate([10**9, 0, 0], seed=1).n
        1000000000
        """
        rng = self._noise(seed, "simulate")
        users = np.asarray(held, dtype=np.int64)
        counts = rng.binomial(users, self._kept)
        n_sensitive = int(self.sensitive.sum())
        if n_sensitive:
            noise = rng.multinomial(
                int(users.sum() - counts.sum()), np.full(n_sensitive, 1 / n_sensitive)
            )
            counts[self.sensitive] += noise
        return SupportCounts(counts, int(users.sum()))

    def likelihood_of_counts(self, counts: npt.ArrayLike) -> MixtureLikelihood:
        """Likelihood of the distribution when the reports were counted elsewhere."""
        return estimation.likelihood.MixtureLikelihood.diagonal(
            weights=counts, floor=self.miss, gain=self.hit - self.miss
        )

    def evidence(self, reports: Any) -> ReportEvidence:
        """Likelihood vector of the true value behind each report: columns of ``Q``."""
        codes, distinct = by_appearance(self.report_codes(reports))
        rows = estimation.likelihood.MixtureLikelihood(
            weights=np.ones(len(distinct), dtype=np.int64),
            floor=self.miss[distinct],
            log_scale=np.zeros(len(distinct)),
            tilt=np.ones(len(self.domain)),
            gain=self.hit - self.miss,
            indptr=np.arange(len(distinct) + 1),
            indices=distinct,
        )
        return ReportEvidence(
            codes,
            [self.domain.values[i] for i in distinct],
            rows.matrix(),
        )

    def estimate(self, reports: Any, *, method: str = "mle", **settings: Any) -> Estimate:
        """Estimate the distribution of the true values; see `Channel.estimate`.

        The reports are counted first: nothing else about them matters here.
        """
        check_reports(reports)
        if not isinstance(reports, SupportCounts):
            counts = self.counts(reports)
            reports = SupportCounts(counts, int(counts.sum()))
        return super().estimate(reports, method=method, **settings)

    def _estimate_mle(self, reports: Any, **settings: Any) -> Estimate:
        if settings.keys() - {"level"}:
            # Settings of EM were given: use it, from the same reports.
            return super()._estimate_mle(reports, **settings)
        likelihood = usable(self.likelihood(reports))
        check_informative(self.hit, self.miss)
        p = water_filling(likelihood.weights, self.miss, self.hit - self.miss)
        return self._closed_mle(reports, likelihood, p, settings.get("level", 0.95))

    # -- guarantees ----------------------------------------------------------------------------

    def log_ratios(self) -> tuple[Floats, Floats]:
        """``log(hit/miss)`` and zero: the report that equals the value has the largest ratio."""
        with np.errstate(divide="ignore", invalid="ignore"):
            own = np.log(self.hit) - np.log(self.miss)
        # A value that is never reported tells nothing (epsilon = 0).
        own = np.where(self.hit == 0, 0.0, own)
        return own, np.zeros_like(own)

    def protected_log_ratios(self) -> tuple[Floats, Floats, Mask]:
        """As `log_ratios`, over reports of values that others are turned into."""
        own, other = self.log_ratios()
        proof = (self.miss == 0) & (self.hit > 0)
        # On any other value's report, two values that do not own it are equally likely.
        return np.where(proof, 0.0, own), other, proof

    def describe_report(self, x: int, other: int) -> Any:
        """Return the report of `x` itself."""
        return self.domain.values[x]

    def common_mass(self) -> float:
        """``sum_y min_x Q(y|x)``; see `Channel.common_mass`."""
        return float(self.miss.sum()) if len(self.domain) > 1 else 1.0

    def total_variation(self) -> float | None:
        """See `Channel.total_variation`: only the report of the value itself is likelier."""
        gain = self.hit - self.miss
        return float(gain[0]) if len(gain) > 1 and self.sensitive.all() else None  # type: ignore[union-attr]

    def total_maximum(self) -> float:
        """``sum_y max_x Q(y|x)``; see `Channel.total_maximum`."""
        return float(self.hit.sum())

    def naming(self) -> Naming:
        """Reports name a value; see `Channel.naming`."""
        return Naming(self.miss, self.hit - self.miss)


class RandomizedResponse(UtilityOptimizedRR):
    """Randomized response on ``K`` values (ULDP (2)); Warner's scheme when ``K = 2``.

    The true value is reported with probability ``e / (K + e - 1)``, ``e = exp(epsilon)``, each
    other value with ``1 / (K + e - 1)``. It satisfies epsilon-LDP.

    Parameters
    ----------
    domain : Domain
        The values; they are also the reports.
    epsilon : float
        Budget, finite and not negative.

    Examples
    --------
    >>> import anonbayes as ab
    >>> channel = ab.RandomizedResponse(ab.Domain("answer", ["yes", "no"]), epsilon=np.log(3))
    >>> channel.matrix()
    array([[0.75, 0.25],
           [0.25, 0.75]])
    >>> reports = channel.release(["yes"] * 300 + ["no"] * 700, seed=1)
    >>> channel.estimate(reports, method="mle").p.round(1)
    array([0.3, 0.7])
    """

    keeps = ()

    def __init__(self, domain: Domain, epsilon: float) -> None:
        super().__init__(domain, epsilon, sensitive=domain.values)

    def symbols(self) -> Symbols:
        """As many symbols as there are values."""
        return Symbols(len(self.domain), len(self.domain), self.epsilon)
