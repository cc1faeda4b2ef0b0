"""Channels from any matrix of probabilities: PRAM, and invariant PRAM."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from anonbayes import estimation
from anonbayes.arrays import Floats, Ints, read_whole
from anonbayes.channels.base import (
    MAX_MATRIX,
    Channel,
    ReportEvidence,
    by_appearance,
    check_reports,
    check_some,
    labels_of_texts,
)
from anonbayes.channels.randomness import Codes, Seed, limit, words
from anonbayes.channels.reports import SupportCounts
from anonbayes.domains import Domain, by_value, list_of
from anonbayes.errors import ChannelError, nearest, one_of
from anonbayes.estimation.closed_forms import (
    Estimate,
    check_level,
    norm_sub,
    normal_quantile,
    shares_of,
    wilson,
)
from anonbayes.notions.ldp import LDP, Ratios, check_epsilon, check_matrix, matrix_ratios

if TYPE_CHECKING:
    from anonbayes.estimation.likelihood import MatrixLikelihood

# Singular values of the matrix below this share of the largest count as zero.
RANK = 1e-10


class MatrixChannel(Channel):
    """Channel given by its matrix ``Q``, row by row: the post-randomization method (PRAM).

    Statistical offices publish microdata whose values were changed at random by a matrix that they
    also publish (Gouweleeuw et al. 1998). Any mechanism whose reports can be listed is such a
    channel, including errors of questionnaires and sensors.

    Parameters
    ----------
    domain : Domain
        The true values.
    matrix : array-like, shape (K, number of reports), or mapping
        ``Q[x, y]``, the probability of report ``y`` given value ``x``. Each row sums to one. A
        mapping gives, for each value, the probabilities of its reports by report.
    reports : sequence, optional
        The reports, one for each column; by default the values themselves, or those of the mapping.

    Attributes
    ----------
    epsilon : float
        Budget of plain local differential privacy, computed from the matrix; infinite if some
        report excludes a value.

    Examples
    --------
    >>> import anonbayes as ab
    >>> status = ab.Domain("status", ["single", "married", "widowed"])
    >>> q = [[0.9, 0.1, 0.0], [0.05, 0.9, 0.05], [0.0, 0.2, 0.8]]
    >>> pram = ab.MatrixChannel(status, q)
    >>> pram.release(["single", "widowed", "widowed"], seed=1).tolist()
    ['single', 'married', 'widowed']
    >>> pram.estimate(["single"] * 40 + ["married"] * 50 + ["widowed"] * 10).p.round(3)
    array([0.417, 0.488, 0.094])
    >>> asked = ab.MatrixChannel(status, [[0.6, 0.4], [0.2, 0.8], [0.3, 0.7]], ["yes", "no"])
    >>> round(asked.epsilon, 4)
    1.0986
    """

    methods = ("empirical", "mle", "em", "bayes")

    def __init__(
        self,
        domain: Domain,
        matrix: npt.ArrayLike | Mapping[Any, Mapping[Any, float]],
        reports: Sequence[Hashable] | None = None,
    ) -> None:
        self.domain = domain
        if isinstance(matrix, Mapping):
            rows = by_value(matrix, domain, what="matrix")
            if reports is None:
                reports = list(dict.fromkeys(report for row in rows for report in row))
            matrix = [[row.get(report, 0.0) for report in reports] for row in rows]
        q = check_matrix(matrix, domain)
        labels = tuple(domain.values) if reports is None else tuple(list_of("reports", reports))
        if len(labels) != q.shape[1] or len(set(labels)) != len(labels):
            raise ChannelError(
                f"The matrix has {q.shape[1]} columns, so it needs as many different reports, not "
                f"{len(labels)}."
            )
        #: The reports, in the order of the columns.
        self.labels: tuple[Any, ...] = labels
        self._q: Floats = q / q.sum(axis=1, keepdims=True)
        self._q.flags.writeable = False
        self._kept: Floats | None = None
        self._place = {label: i for i, label in enumerate(labels)}
        self.epsilon = self.ldp_budget()

    @classmethod
    def invariant(cls, domain: Domain, epsilon: float, *, shares: npt.ArrayLike) -> MatrixChannel:
        """Invariant PRAM: the expected shares of released values equal those of the true values.

        A report of randomized response is replaced by a draw from the distribution of the value
        given the report if values have these `shares` (the two-stage form of Gouweleeuw et al.
        1998), so that ``p Q = p``: tables of one variable can be made from the release as if it had
        not been changed. The inner budget is chosen so that the whole satisfies epsilon-LDP
        exactly.

        Parameters
        ----------
        domain : Domain
            The values; they are also the reports.
        epsilon : float
            Budget, finite and positive.
        shares : array-like, mapping or pandas.Series
            Distribution ``p`` of the true values, each share positive.

        Examples
        --------
        >>> import anonbayes as ab
        >>> answers = ab.Domain("smokes", ["daily", "sometimes", "never"])
        >>> p = [0.2, 0.1, 0.7]
        >>> pram = ab.MatrixChannel.invariant(answers, epsilon=2.0, shares=p)
        >>> pram.apply(p).round(12).tolist(), pram.satisfies(ab.LDP(2.0)).holds
        ([0.2, 0.1, 0.7], True)
        """
        budget, p = check_epsilon(epsilon), shares_of(shares, domain, "shares")
        if budget == 0 or not (p > 0).all():
            raise ChannelError(
                "Invariant PRAM needs epsilon > 0 and a positive share of every value; got "
                f"epsilon={epsilon!r} and a smallest share of {p.min():.6g}."
            )
        if len(domain) == 1:
            return cls(domain, [[1.0]])

        def two_stage(inner: float) -> Floats:
            shrink, size = math.exp(-inner), len(domain)
            q = np.full((size, size), shrink) + (1.0 - shrink) * np.eye(size)
            q /= 1.0 + (size - 1) * shrink
            back = (q * p[:, None] / (p @ q)).T
            whole: Floats = q @ back
            return whole

        def spent(q: Floats) -> float:
            return float(np.max(np.log(q.max(axis=0)) - np.log(q.min(axis=0))))

        low, high = 0.0, budget
        while spent(two_stage(high)) < budget:
            low, high = high, 2.0 * high
        for _ in range(100):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if spent(two_stage(middle)) < budget else (low, middle)
        made = cls(domain, two_stage(low))
        made.epsilon, made._kept = budget, p
        return made

    def with_epsilon(self, epsilon: float) -> MatrixChannel:
        """Return invariant PRAM with the same shares and another budget; else raise."""
        if self._kept is None:
            return super().with_epsilon(epsilon)
        return MatrixChannel.invariant(self.domain, epsilon, shares=self._kept)

    # -- the user's device -----------------------------------------------------------------------

    @cached_property
    def _ladder(self) -> Floats:
        ladder = np.cumsum(self._q, axis=1)
        # Nothing beyond the last possible report of a value, despite rounding.
        last = self._q.shape[1] - 1 - np.argmax(self._q[:, ::-1] > 0, axis=1)
        ladder[np.arange(self._q.shape[1]) >= last[:, None]] = 2.0
        return ladder

    def release(self, values: Iterable[object], *, seed: Seed = None) -> npt.NDArray[Any]:
        """Report of each value, drawn from its row."""
        codes = self._encode(values)
        uniform = self._source(seed).random(len(codes))
        places = np.empty(len(codes), dtype=np.int64)
        for x in np.unique(codes):
            rows = codes == x
            places[rows] = np.searchsorted(self._ladder[x], uniform[rows], side="right")
        out = np.empty(len(self.labels), dtype=object)
        out[:] = self.labels
        return out[places]

    def reporter(self, *, seed: Seed = None) -> Callable[[object], Any]:
        """Return a function that reports one value; see `Channel.reporter`."""
        from bisect import bisect_right

        codes, labels = Codes(self.domain), self.labels
        draw = words(self._source(seed, "reporter"))
        ladders = [[limit(min(c, 1.0)) for c in row] for row in self._ladder.tolist()]
        last = [row.index(2.0) for row in self._ladder.tolist()]

        def report(value: object) -> Any:
            x = codes[value] if type(value) is codes.kind else codes.index(value)
            return labels[min(bisect_right(ladders[x], next(draw)), last[x])]

        return report

    # -- the analyst -----------------------------------------------------------------------------

    def matrix(self) -> Floats:
        """``Q``, shape (K, number of reports)."""
        return self._q

    def report_codes(self, reports: object) -> Ints:
        """Column of each report; raise `ChannelError` for one that the channel cannot produce."""
        check_reports(reports)
        codes = []
        for row, report in enumerate(list_of("reports", reports)):
            try:
                codes.append(self._place[report])
            except (KeyError, TypeError):
                raise ChannelError(
                    f"Report {row}: {report!r} is not one of the channel's reports. "
                    f"{nearest(report, self.labels)}"
                ) from None
        return np.array(codes, dtype=np.int64)

    def report_counts(self, reports: object) -> Ints:
        """Count the reports of each column; return `SupportCounts` as they are."""
        if isinstance(reports, SupportCounts):
            return reports.one_each(len(self.labels))
        return np.bincount(self.report_codes(reports), minlength=len(self.labels))

    def likelihood(self, reports: object) -> MatrixLikelihood:  # type: ignore[override]
        """Likelihood of the distribution, from the counts of the reports alone."""
        rows = np.ascontiguousarray(self._q.T)
        return estimation.likelihood.MatrixLikelihood(self.report_counts(reports), rows)

    def evidence(self, reports: object) -> ReportEvidence:
        """Likelihood vector of the true value behind each report: columns of ``Q``."""
        from scipy import sparse

        codes, seen = by_appearance(self.report_codes(reports))
        rows = sparse.csr_array(self._q.T[seen])
        return ReportEvidence(codes, [self.labels[i] for i in seen], rows)

    @cached_property
    def _inverse(self) -> Floats:
        """Weights ``W`` with ``Q W = 1``: the mean weight of the reports is unbiased."""
        left, singular, right = np.linalg.svd(self._q, full_matrices=False)
        if len(singular) < len(self.domain) or singular[-1] < RANK * singular[0]:
            raise ChannelError(
                f"The matrix of {self!r} does not distinguish all distributions (a row is a "
                "mixture of others), so there is no unbiased estimate; use method='mle' or "
                "'bayes'."
            )
        inverse: Floats = (right.T / singular) @ left.T
        return inverse

    def _estimate_empirical(self, reports: object, *, level: float = 0.95) -> Estimate:
        counts = self.report_counts(reports)
        n = int(counts.sum())
        check_some(n)
        p = counts @ self._inverse / n
        return Estimate(
            self.domain, "empirical", n, p, interval=self._interval(reports, level), level=level
        )

    def _interval(self, reports: object, level: float) -> Floats | None:
        """Limits of the mean weight of reports, which are Wilson's for two different weights.

        For weights scaled to [0, 1] with mean ``m``, the variance is assumed to be the same share
        of ``m (1 - m)`` as in the sample.
        """
        check_level(level)
        try:
            weights = self._inverse
        except ChannelError:
            return None
        counts = self.report_counts(reports)
        n = int(counts.sum())
        low, span = weights.min(axis=0), np.ptp(weights, axis=0)
        scaled = (weights - low) / np.where(span > 0, span, 1.0)
        mean = counts @ scaled / n
        variance = np.maximum(counts @ scaled**2 / n - mean**2, 0.0)
        most = mean * (1.0 - mean)
        part = np.clip(np.divide(variance, most, out=np.ones_like(most), where=most > 0), 1e-12, 1)
        limits = wilson(mean, normal_quantile(level) ** 2 * part / n)
        return np.clip(low[:, None] + limits * span[:, None], 0.0, 1.0)

    def misfit(self, reports: object) -> float:
        """Upper bound on the probability of counts this far from every distribution (Pearson)."""
        from scipy import special

        likelihood = self.likelihood(reports)
        begin = np.full(likelihood.size, 1.0 / likelihood.size)
        best = estimation.em.maximize(likelihood, begin, tolerance=1e-3).p
        expected = likelihood.n * likelihood.probabilities(best)
        if expected.min() < 5:  # too few for the approximation
            return float("nan")
        score = float(np.sum((likelihood.weights - expected) ** 2 / expected))
        return float(special.chdtrc(len(expected) - 1, score))

    # -- losses and guarantees -------------------------------------------------------------------

    def expected_loss(
        self, p: npt.ArrayLike, n: int, *, norm: str = "l2", sampled: bool = True
    ) -> float:
        """Return the empirical estimate's expected loss; see `PureChannel.expected_loss`."""
        one_of("norm", norm, ("l1", "l2"))
        number = read_whole("n", n, least=1, error=ChannelError)
        shares, weights = shares_of(p, self.domain), self._inverse
        second = self._q @ weights**2
        own = shares**2 if sampled else shares
        variance = np.maximum(shares @ second - own, 0.0) / number
        if norm == "l2":
            return float(variance.sum())
        return float(np.sqrt(2.0 * variance / np.pi).sum())

    def worst_case_distribution(self, *, norm: str = "l2") -> Floats:
        """Distribution with the largest expected squared error.

        The loss is ``a p - p p`` up to a factor, so that its maximum is the distribution nearest to
        ``a / 2``.
        """
        if norm != "l2":
            raise ChannelError(f"The worst case of {self!r} is only known for norm='l2'.")
        total = (self._q @ self._inverse**2).sum(axis=1)
        return norm_sub(total / 2.0)

    def total_variation(self) -> float | None:
        """See `Channel.total_variation`."""
        size = len(self._q)
        if size == 1 or self._q.size * size > MAX_MATRIX:
            return None
        pairs = np.array([np.abs(self._q - row).sum(axis=1) / 2.0 for row in self._q])
        apart = pairs[~np.eye(size, dtype=bool)]
        return float(apart.max()) if np.ptp(apart) < 1e-12 else None

    def ratios(self, *, protected: bool = False) -> Iterable[Ratios]:
        """Log ratios of each report; see `Channel.ratios`."""
        return matrix_ratios(self._q, self.labels, protected=protected)

    @property
    def notion(self) -> LDP | None:
        """Local differential privacy with the budget of the matrix; None if that is infinite."""
        return LDP(self.epsilon) if math.isfinite(self.epsilon) else None

    def read_texts(self, texts: Sequence[str], *, where: str = "reports") -> list[Any]:
        """Parse reports from texts."""
        return labels_of_texts(texts, self.labels, where)
