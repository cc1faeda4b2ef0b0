"""Pure channels: each report supports values with a hit and a miss probability.

A report of a pure channel *supports* a set of values: the reported value (randomized response),
the raised bits (unary encoding), or the values that hash to it (local hashing). Value ``x`` is
supported by a user who has it with probability ``hit[x]``, and by any other user with
probability ``miss[x]``, whatever that user's value is. Everything below follows from these two
arrays. (Wang et al. 2017 call protocols pure when the two are the same for all values.)
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Sized
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from anonbayes import estimation
from anonbayes.arrays import Floats, Ints, Mask
from anonbayes.channels.base import (
    Channel,
    Naming,
    ReportEvidence,
    Symbols,
    budget_second,
    by_appearance,
    check_matrix_size,
    check_reports,
    check_some,
    usable,
)
from anonbayes.channels.randomness import Codes, Seed, Source, below, limit, words
from anonbayes.channels.reports import SupportCounts, whole_numbers
from anonbayes.domains import Domain, by_value
from anonbayes.errors import ChannelError, DomainError
from anonbayes.estimation import closed_forms
from anonbayes.estimation.closed_forms import Estimate, check_informative, shares_of, water_filling
from anonbayes.notions.ldp import Ratios, check_epsilon, sensitive_mask

if TYPE_CHECKING:
    from scipy import sparse

    from anonbayes.estimation.likelihood import MixtureLikelihood


class PureChannel(Channel):
    """Channel whose reports support each value with probability `hit` or `miss`.

    Attributes
    ----------
    hit : ndarray, shape (K,)
        Probability that a user who has the value supports it.
    miss : ndarray, shape (K,)
        Probability that a user who has another value supports it.
    """

    hit: Floats
    miss: Floats
    methods = ("empirical", "norm_sub", "threshold", "shrinkage", "mle", "em", "bayes")

    @abstractmethod
    def counts(self, reports: object) -> Ints:
        """Count the reports that support each value."""

    def log_ratios(self) -> tuple[Floats, Floats]:
        """Arrays ``U, W`` with ``max_y log Q(y|x)/Q(y|x') = U[x] + W[x']`` for ``x != x'``.

        By default ``epsilon`` and zero, for a report that supports ``x`` and not ``x'``.
        """
        size = (len(self.domain),)
        return np.broadcast_to(self.epsilon, size), np.broadcast_to(0.0, size)

    @abstractmethod
    def describe_report(self, x: int, other: int) -> object:
        """Report that best distinguishes value `x` from value `other` (codes), for audits."""

    def support(self, p: npt.ArrayLike) -> Floats:
        """Probability that a report supports each value, ``miss + (hit - miss) p``."""
        p = np.asarray(by_value(p, self.domain, what="p"), dtype=float)
        return self.miss * p.sum() + (self.hit - self.miss) * p

    def support_of(self, reports: object) -> SupportCounts:
        """Support counts of reports; `SupportCounts` are checked and returned."""
        if not isinstance(reports, SupportCounts):
            return SupportCounts(self.counts(reports), len(check_reports(reports)))
        if len(reports.counts) != len(self.domain):
            raise ChannelError(
                f"There are {len(reports.counts)} support counts for {len(self.domain)} values."
            )
        return reports

    def simulate(self, held: npt.ArrayLike, *, seed: Seed = None) -> SupportCounts:
        """Draw the support counts of all reports at once, for simulations.

        Parameters
        ----------
        held : array-like of int, shape (K,)
            Number of users who have each value.
        seed : int, numpy.random.Generator or None
            Seed of the draws, which do not use the secure source.

        Examples
        --------
        >>> import anonbayes as ab
        >>> channel = ab.RandomizedResponse(ab.Domain("x", range(3)), epsilon=1.0)
        >>> channel.simulate([10**9, 0, 0], seed=1).n
        1000000000
        """
        users = whole_numbers("held", held)
        if users.shape != (len(self.domain),) or (users < 0).any():
            raise ChannelError(
                f"held needs a number of users for each of the {len(self.domain)} values."
            )
        counts = self._simulated(users, self._noise(seed, "simulate"))
        return SupportCounts(counts, int(users.sum()))

    def _simulated(self, users: Ints, rng: np.random.Generator) -> Ints:
        raise ChannelError(f"Counts of {type(self).__name__} cannot be simulated directly.")

    def supported(self, reports: object) -> sparse.csr_array:
        """Values that each report supports, a row for each; for joint shares of attributes."""
        raise ChannelError(
            f"Joint shares need randomized response or bits, not {type(self).__name__}."
        )

    # -- estimators ----------------------------------------------------------------------------

    def _support(self, reports: object) -> tuple[Ints, int]:
        if not isinstance(reports, Sized) or getattr(reports, "ndim", 1) == 0:
            raise ChannelError(f"reports={reports!r}: give a list of reports.")
        check_some(len(reports))
        support = self.support_of(reports)
        return support.counts, support.n

    def _interval(self, reports: object, level: float) -> Floats | None:
        if not (self.hit > self.miss).all():
            return None
        counts, n = self._support(reports)
        return closed_forms.share_interval(counts, n, self.hit, self.miss, level)

    def misfit(self, reports: object) -> float:
        """Upper bound on the probability of support counts this far from every distribution."""
        counts, n = self._support(reports)
        return closed_forms.misfit(counts, n, self.hit, self.miss)

    def _estimate_empirical(self, reports: object, *, level: float = 0.95) -> Estimate:
        counts, n = self._support(reports)
        p = closed_forms.empirical(counts, n, self.hit, self.miss)
        return self._from_counts("empirical", p, counts, n, level)

    def _estimate_norm_sub(self, reports: object, *, level: float = 0.95) -> Estimate:
        raw = self._estimate_empirical(reports, level=level)
        return replace(raw.consistent(), method="norm_sub")

    def _estimate_threshold(
        self,
        reports: object,
        *,
        alpha: float = 0.05,
        remainder: str = "uniform",
        level: float = 0.95,
    ) -> Estimate:
        counts, n = self._support(reports)
        p = self._threshold(counts, n, alpha, remainder)
        return self._from_counts("threshold", p, counts, n, level)

    def _estimate_shrinkage(
        self, reports: object, *, iterations: int = 30, level: float = 0.95
    ) -> Estimate:
        counts, n = self._support(reports)
        p = estimation.em.shrink(counts, n, self.hit, self.miss, iterations=iterations)
        return self._from_counts("shrinkage", p, counts, n, level, iterations=iterations)

    def _from_counts(
        self, method: str, p: Floats, counts: Ints, n: int, level: float, **more: Any
    ) -> Estimate:
        interval = self._interval(SupportCounts(counts, n), level)
        return Estimate(self.domain, method, n, p, interval=interval, level=level, **more)

    #: Whether `_most_likely` gives the maximum of the likelihood.
    has_closed_form: bool = False

    def _most_likely(self, likelihood: MixtureLikelihood) -> Floats:
        raise NotImplementedError

    def _estimate_mle(self, reports: object, **settings: Any) -> Estimate:
        if settings.keys() - {"level"} or not self.has_closed_form:  # settings of EM select EM
            return super()._estimate_mle(reports, **settings)
        likelihood = usable(self.likelihood(reports))
        check_informative(self.hit, self.miss)
        p, level = self._most_likely(likelihood), settings.get("level", 0.95)
        return Estimate(
            self.domain,
            "mle",
            likelihood.n,
            p,
            interval=self._interval(reports, level),
            level=level,
            log_likelihood=likelihood.log(p),
            gap=likelihood.step(p)[2],
        )

    def _threshold(self, counts: Ints, n: int, alpha: float, remainder: str) -> Floats:
        estimate = closed_forms.empirical(counts, n, self.hit, self.miss)
        return closed_forms.threshold(
            estimate, self.significance_threshold(n, alpha=alpha), remainder=remainder
        )

    def significance_threshold(self, n: int, *, alpha: float = 0.05) -> Floats:
        """Largest empirical estimates that may be noise (Bonferroni, level `alpha`)."""
        return closed_forms.significance_threshold(n, self.hit, self.miss, alpha=alpha)

    def starting_distribution(self, reports: object) -> Floats:
        """Warm start of EM: the threshold estimate with its zeros lifted."""
        if not (self.hit > self.miss).all():
            return estimation.em.starting_point(None, len(self.domain))
        counts, n = self._support(reports)
        return estimation.em.starting_point(
            self._threshold(counts, n, 0.05, "uniform"), len(self.domain)
        )

    # -- losses --------------------------------------------------------------------------------

    def expected_loss(
        self, p: npt.ArrayLike, n: int, *, norm: str = "l2", sampled: bool = True
    ) -> float:
        """Return the expected loss of the empirical estimate from `n` reports.

        Parameters
        ----------
        p : array-like, shape (K,)
            Distribution of the true values.
        n : int
            Number of reports.
        norm : {"l1", "l2"}
            ``sum |p_hat - p|`` (normal approximation; ULDP Props. 4 and 7) or
            ``sum (p_hat - p)^2`` (exact; ULDP Props. 15 and 18).
        sampled : bool
            Whether the users are a sample from `p` (ULDP). If not, `p` holds their own
            frequencies, and only the channel's noise counts (PIE).
        """
        p = shares_of(p, self.domain)
        return closed_forms.expected_loss(p, n, self.hit, self.miss, norm=norm, sampled=sampled)

    def worst_case_distribution(self, *, norm: str = "l2") -> Floats:
        """Distribution with the largest expected loss (ULDP Props. 5, 6, 8, 16, 17, 19)."""
        return closed_forms.worst_case_distribution(self.hit, self.miss, norm=norm)

    # -- guarantees ----------------------------------------------------------------------------

    def ratios(self, *, protected: bool = False) -> Iterable[Ratios]:
        """Largest log ratios; see `Channel.ratios`."""
        if protected:
            own, other, proof = self.protected_log_ratios()
            return [Ratios(own, other, self.describe_report, proof)]
        return [Ratios(*self.log_ratios(), self.describe_report)]

    def protected_log_ratios(self) -> tuple[Floats, Floats, Mask]:
        """`log_ratios` over the reports that more than one value can produce (ULDP (5)).

        The third result marks the values that some report proves.
        """
        return *self.log_ratios(), np.broadcast_to(np.False_, (len(self.domain),))


# -------------------------------------------------------------------------------------------------
# Randomized response: the report is a value of the domain itself.


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

    keeps: tuple[str, ...] = ("sensitive",)

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

    def release(self, values: Iterable[object], *, seed: Seed = None) -> npt.NDArray[Any]:
        """Report each value: with probability ``c3`` itself, else a random sensitive value."""
        return self.domain.decode(super().release(values, seed=seed))

    def _draw(self, codes: Ints, source: Source) -> Ints:
        pool = np.flatnonzero(self.sensitive)
        # A uniform draw among the sensitive values also covers the own value, since
        # c1 = c3 + c2: the report is true with probability c3 and pure noise otherwise.
        noisy = np.flatnonzero(source.random(len(codes)) >= self._kept)
        reports = codes.copy()
        if len(noisy):
            reports[noisy] = pool[source.integers(0, len(pool), len(noisy))]
        return reports

    def reporter(self, *, seed: Seed = None) -> Callable[[object], Any]:
        """Return a function that reports one value; see `Channel.reporter`."""
        codes, values = Codes(self.domain), self.domain.values
        kind, index, draw = codes.kind, codes.index, words(self._source(seed, "reporter"))
        stays = limit(self._kept)
        others = [values[code] for code in np.flatnonzero(self.sensitive).tolist()]
        noise = below(max(len(others), 1), draw)

        def report(value: object) -> Any:
            code = codes[value] if type(value) is kind else index(value)
            return values[code] if next(draw) < stays else others[next(noise)]

        return report

    def report_codes(self, reports: object) -> Ints:
        """Codes of reports; raise `ChannelError` for one that the channel cannot produce."""
        try:
            return self._encode(reports)
        except DomainError as error:
            raise ChannelError(f"{self!r} cannot produce one of the reports: {error}") from None

    def counts(self, reports: object) -> Ints:
        """Count the reports of each value."""
        if isinstance(reports, list) and (tally := self._tally(reports)) is not None:
            return tally
        return estimation.kernels.count(self.report_codes(reports), len(self.domain))

    def _tally(self, reports: list[object]) -> Ints | None:
        """Count without coding each report; None if that might confuse values."""
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

    def supported(self, reports: object) -> sparse.csr_array:
        """Which value each report names."""
        from scipy import sparse

        codes = self.report_codes(reports)
        n, ones = len(codes), np.ones(len(codes), dtype=np.int64)
        return sparse.csr_array((ones, codes, np.arange(n + 1)), shape=(n, len(self.domain)))

    def matrix(self) -> Floats:
        """``Q``, shape (K, K)."""
        check_matrix_size(self, len(self.domain))
        q = np.broadcast_to(self.miss, (len(self.domain),) * 2).copy()
        np.fill_diagonal(q, self.hit)
        return q

    def apply(self, p: npt.ArrayLike) -> Floats:
        """Distribution of the reports, ``p Q``, in ``O(K)``."""
        return self.support(shares_of(p, self.domain))

    def likelihood(self, reports: object) -> MixtureLikelihood:
        """Likelihood of the distribution, from the counts of the reports alone."""
        if isinstance(reports, SupportCounts):
            counts = reports.one_each(len(self.domain))
        else:
            counts = self.counts(reports)
        return estimation.likelihood.MixtureLikelihood.diagonal(
            weights=counts, floor=self.miss, gain=self.hit - self.miss
        )

    def _simulated(self, users: Ints, rng: np.random.Generator) -> Ints:
        counts = rng.binomial(users, self._kept)
        n_sensitive = int(self.sensitive.sum())
        if n_sensitive:
            noisy = int(users.sum() - counts.sum())
            counts[self.sensitive] += rng.multinomial(noisy, np.full(n_sensitive, 1 / n_sensitive))
        return counts

    def evidence(self, reports: object) -> ReportEvidence:
        """Likelihood vector of the true value behind each report: columns of ``Q``."""
        codes, distinct = by_appearance(self.report_codes(reports))
        rows = estimation.likelihood.MixtureLikelihood.of_rows(
            np.arange(len(distinct) + 1),
            distinct,
            len(self.domain),
            floor=self.miss[distinct],
            gain=self.hit - self.miss,
        )
        return ReportEvidence(codes, [self.domain.values[i] for i in distinct], rows.matrix())

    def estimate(self, reports: object, *, method: str = "mle", **settings: Any) -> Estimate:
        """Estimate the distribution of the true values; see `Channel.estimate`.

        The reports are counted first, because nothing else about them matters.
        """
        check_reports(reports)
        if not isinstance(reports, SupportCounts):
            counts = self.counts(reports)
            reports = SupportCounts(counts, int(counts.sum()))
        return super().estimate(reports, method=method, **settings)

    has_closed_form = True

    def _most_likely(self, likelihood: MixtureLikelihood) -> Floats:
        return water_filling(likelihood.weights, self.miss, self.hit - self.miss)

    # -- guarantees ----------------------------------------------------------------------------

    def log_ratios(self) -> tuple[Floats, Floats]:
        """``log(hit/miss)`` and zero: the report that equals the value has the largest ratio."""
        with np.errstate(divide="ignore", invalid="ignore"):
            own = np.log(self.hit) - np.log(self.miss)
        # A value that is never reported reveals nothing (epsilon = 0).
        own = np.where(self.hit == 0, 0.0, own)
        return own, np.zeros_like(own)

    def protected_log_ratios(self) -> tuple[Floats, Floats, Mask]:
        """Like `log_ratios`, but only over reports into which several values can be turned."""
        own, other = self.log_ratios()
        proof = (self.miss == 0) & (self.hit > 0)
        # In the report of any other value, two values that are not reported are equally likely.
        return np.where(proof, 0.0, own), other, proof

    def describe_report(self, x: int, other: int) -> object:
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
        """As many symbols as values."""
        return Symbols(len(self.domain), len(self.domain), self.epsilon)
