"""Pure channels: each report supports values with a hit and a miss probability.

A report of a pure channel *supports* a set of values: the reported value (randomized response),
the raised bits (unary encoding), the values that hash to it (local hashing). Value ``x`` is
supported by a user who holds it with probability ``hit[x]``, and by any other user with
probability ``miss[x]``, whatever that user holds. Everything below follows from these two
arrays. (Wang et al. 2017 call protocols pure when the two are the same for all values.)
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sized
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from anonbayes import estimation
from anonbayes.arrays import Floats, Mask
from anonbayes.channels.base import Channel
from anonbayes.channels.reports import SupportCounts
from anonbayes.domains import by_value
from anonbayes.errors import ChannelError
from anonbayes.estimation import closed_forms
from anonbayes.estimation.closed_forms import Estimate, shares_of
from anonbayes.notions.ldp import Ratios

__all__ = ["PureChannel"]


class PureChannel(Channel):
    """Channel whose reports support each value with probability `hit` or `miss`.

    Attributes
    ----------
    hit : ndarray, shape (K,)
        Probability that a user who holds the value supports it.
    miss : ndarray, shape (K,)
        Probability that a user who holds another value supports it.
    """

    hit: Floats
    miss: Floats
    methods = ("empirical", "norm_sub", "threshold", "shrinkage", "mle", "em", "bayes")

    @abstractmethod
    def counts(self, reports: Any) -> npt.NDArray[np.int64]:
        """Count the reports that support each value."""

    @abstractmethod
    def log_ratios(self) -> tuple[Floats, Floats]:
        """Arrays ``U, W`` with ``max_y log Q(y|x)/Q(y|x') = U[x] + W[x']`` for ``x != x'``."""

    @abstractmethod
    def describe_report(self, x: int, other: int) -> Any:
        """Report that best distinguishes value `x` from value `other` (codes), for audits."""

    def support(self, p: npt.ArrayLike) -> Floats:
        """Probability that a report supports each value, ``miss + (hit - miss) p``."""
        p = np.asarray(by_value(p, self.domain, what="p"), dtype=float)
        return self.miss * p.sum() + (self.hit - self.miss) * p

    def support_of(self, reports: Any) -> SupportCounts:
        """Support counts of reports; `SupportCounts` are checked and returned as they are."""
        if not isinstance(reports, SupportCounts):
            return SupportCounts(self.counts(reports), len(reports))
        if len(reports.counts) != len(self.domain):
            raise ChannelError(
                f"There are {len(reports.counts)} support counts for {len(self.domain)} values."
            )
        return reports

    # -- estimators ----------------------------------------------------------------------------

    def _support(self, reports: Any) -> tuple[npt.NDArray[np.int64], int]:
        if not isinstance(reports, Sized) or getattr(reports, "ndim", 1) == 0:
            raise ChannelError(f"reports={reports!r}: give a list of reports.")
        if len(reports) == 0:
            raise ChannelError("There are no reports to estimate from.")
        support = self.support_of(reports)
        return support.counts, support.n

    def _interval(self, reports: Any, level: float) -> Floats | None:
        if not (self.hit > self.miss).all():
            return None
        counts, n = self._support(reports)
        return closed_forms.share_interval(counts, n, self.hit, self.miss, level)

    def misfit(self, reports: Any) -> float:
        """Upper bound on the probability of support counts this far from every distribution."""
        counts, n = self._support(reports)
        return closed_forms.misfit(counts, n, self.hit, self.miss)

    def _estimate_empirical(self, reports: Any, *, level: float = 0.95) -> Estimate:
        counts, n = self._support(reports)
        p = closed_forms.empirical(counts, n, self.hit, self.miss)
        return self._from_counts("empirical", p, counts, n, level)

    def _estimate_norm_sub(self, reports: Any, *, level: float = 0.95) -> Estimate:
        raw = self._estimate_empirical(reports, level=level)
        return replace(raw.consistent(), method="norm_sub")

    def _estimate_threshold(
        self,
        reports: Any,
        *,
        alpha: float = 0.05,
        remainder: str = "uniform",
        level: float = 0.95,
    ) -> Estimate:
        counts, n = self._support(reports)
        p = self._threshold(counts, n, alpha, remainder)
        return self._from_counts("threshold", p, counts, n, level)

    def _estimate_shrinkage(
        self, reports: Any, *, iterations: int = 30, level: float = 0.95
    ) -> Estimate:
        counts, n = self._support(reports)
        p = estimation.shrinkage.shrink(counts, n, self.hit, self.miss, iterations=iterations)
        return self._from_counts("shrinkage", p, counts, n, level, iterations=iterations)

    def _from_counts(
        self,
        method: str,
        p: Floats,
        counts: npt.NDArray[np.int64],
        n: int,
        level: float,
        **more: Any,
    ) -> Estimate:
        interval = self._interval(SupportCounts(counts, n), level)
        return Estimate(self.domain, method, n, p, interval=interval, level=level, **more)

    def _closed_mle(self, reports: Any, likelihood: Any, p: Floats, level: float) -> Estimate:
        """Maximum-likelihood estimate that needed no iteration."""
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

    def _threshold(
        self, counts: npt.NDArray[np.int64], n: int, alpha: float, remainder: str
    ) -> Floats:
        estimate = closed_forms.empirical(counts, n, self.hit, self.miss)
        return closed_forms.threshold(
            estimate, self.significance_threshold(n, alpha=alpha), remainder=remainder
        )

    def significance_threshold(self, n: int, *, alpha: float = 0.05) -> Floats:
        """Empirical estimates up to these values may be noise (Bonferroni, level `alpha`)."""
        return closed_forms.significance_threshold(n, self.hit, self.miss, alpha=alpha)

    def starting_distribution(self, reports: Any) -> Floats:
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
        return estimation.losses.expected_loss(
            p, n, self.hit, self.miss, norm=norm, sampled=sampled
        )

    def worst_case_distribution(self, *, norm: str = "l2") -> Floats:
        """Distribution with the largest expected loss (ULDP Props. 5, 6, 8, 16, 17, 19)."""
        return estimation.losses.worst_case_distribution(self.hit, self.miss, norm=norm)

    def worst_case_loss(self, n: int, *, norm: str = "l2") -> float:
        """Largest expected loss of the empirical estimate over all distributions."""
        return self.expected_loss(self.worst_case_distribution(norm=norm), n, norm=norm)

    # -- guarantees ----------------------------------------------------------------------------

    def ratios(self, *, protected: bool = False) -> Iterable[Ratios]:
        """Largest log ratios; see `Channel.ratios`."""
        if protected:
            own, other, proof = self.protected_log_ratios()
            return [Ratios(own, other, self.describe_report, proof)]
        return [Ratios(*self.log_ratios(), self.describe_report)]

    def protected_log_ratios(self) -> tuple[Floats, Floats, Mask]:
        """Log ratios on the reports that more than one value can produce (ULDP (5)).

        Returns ``U, W`` as `log_ratios`, but over those reports only, and the mask of values
        that some report proves (reports that no other value can produce).
        """
        return *self.log_ratios(), np.broadcast_to(np.False_, (len(self.domain),))
