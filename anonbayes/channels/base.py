"""Base class of channels.

A channel ``Q(y|x)`` turns a true value ``x`` of its domain into a released report ``y``. It is
used on two sides. A user's device calls `Channel.release`. An analyst holds the reports and
needs their likelihood: `Channel.likelihood` for the distribution of the true values,
`Channel.evidence` for the single true value behind each report (MODEL 1.1).

Writing a channel
-----------------
If a report *supports* each value with two probabilities, ``hit`` for the true value and ``miss``
for any other, subclass `PureChannel` (`anonbayes.channels.pure`) and define these two, ``_draw``,
``counts``, ``likelihood`` and ``evidence``; estimators, losses, worst cases and audits follow. Bit
channels with probabilities per value subclass `BitChannel` (`anonbayes.channels.unary`) and need
only ``hit`` (``a``) and ``miss`` (``b``). Deterministic channels subclass `Generalization`. Others
subclass `Channel` and define the abstract methods and, if the reports can be listed, ``matrix``. An
entry in `anonbayes.channels.registry` makes the channel known to the command line, to scenarios and
to `choose_channel`.

Importing a channel loads only NumPy: what estimates need is loaded when they are computed.
"""

from __future__ import annotations

import functools
import inspect
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence, Sized
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar, cast

import numpy as np
import numpy.typing as npt

from anonbayes import estimation
from anonbayes.arrays import Floats, Ints, Mask
from anonbayes.channels.randomness import Seed, Source, generator, randomness
from anonbayes.channels.reports import whole_numbers
from anonbayes.domains import Domain, by_value, check_domain, list_of
from anonbayes.errors import (
    AnonbayesError,
    ChannelError,
    ConvergenceWarning,
    MisfitWarning,
    nearest,
    one_of,
)
from anonbayes.estimation.closed_forms import Estimate, around, check_level, shares_of
from anonbayes.notions.ldp import Audit, Notion, Ratios, largest_ratio

if TYPE_CHECKING:
    from scipy import sparse

    from anonbayes.estimation.em import Fixpoint
    from anonbayes.estimation.likelihood import MixtureLikelihood, SimplexLikelihood


F = TypeVar("F", bound=Callable[..., Any])
L = TypeVar("L", bound="SimplexLikelihood")

# Up to this many values are looked up one by one: a device reports one at a time.
FEW = 32

# Reports that fit their channel are taken for a misfit once in so many estimates, at most.
MISFIT = 1e-4

# Entries of the largest matrix that `matrix()` builds.
MAX_MATRIX = 25_000_000


class ReportEvidence(NamedTuple):
    """What the reports of a column say about the true value in each row (MODEL 1.1).

    Attributes
    ----------
    codes : ndarray of int, shape (n,)
        Index of each report in `labels`.
    labels : list
        The distinct reports, in order of appearance.
    matrix : scipy.sparse.csr_array, shape (len(labels), K)
        ``E_y(k) = Q(y|k)``.
    """

    codes: Ints
    labels: Sequence[object]
    matrix: sparse.csr_array


@dataclass(frozen=True)
class Symbols:
    """Randomized response on ``size`` symbols: all that bounds need to know about such a channel.

    Plain randomized response has as many symbols as values, local hashing ``g``. `silent` is the
    probability of a hash function that reveals nothing, when all others are one-to-one; None when
    they merge values.
    """

    size: int
    n_values: int
    epsilon: float
    silent: float | None = 0.0

    @property
    def _total(self) -> float:
        return 1.0 + (self.size - 1) * math.exp(-self.epsilon)

    @property
    def own(self) -> float:
        """Probability of the true symbol."""
        return 1.0 / self._total

    @property
    def noise(self) -> float:
        """Probability of each other symbol."""
        return math.exp(-self.epsilon) / self._total

    @property
    def theta(self) -> float:
        """Difference of the two, ``(e-1)/(size+e-1)``."""
        return -math.expm1(-self.epsilon) / self._total

    def used(self, n_users: int) -> int:
        """Largest number of different symbols that this many users can hold."""
        return min(n_users, self.n_values, self.size)


class Naming(NamedTuple):
    """Reports that may name a value: ``Q(y|x) = floor[y] + gain[y] 1[x = y]``.

    `share` is the probability that a report names a value at all; otherwise it reveals nothing.
    """

    floor: Floats
    gain: Floats
    share: float = 1.0


class Mechanism:
    """Interface that commands and scenarios use for every mechanism, for single values or sets.

    Attributes
    ----------
    domain : Domain
        The true values.
    epsilon : float
        The privacy budget of the guarantee; infinite if there is none.
    hit, miss : ndarray, shape (K,), or None
        Probability that somebody who has the value, or does not have it, supports it, if reports
        support values.
    """

    domain: Domain
    epsilon: float
    hit: Floats | None = None
    miss: Floats | None = None

    #: Whether the mean of numbers can be estimated from reports (`mean`, `variance`).
    tells_mean: bool = False

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Check that the domain is one before a channel is made of it."""
        first = [*inspect.signature(cls.__init__).parameters.values()][1]
        given = args[:1] if args or "domain" not in kwargs else (kwargs["domain"],)
        if first.name == "domain" and given:
            sizes = (int, np.integer) if "int" in str(first.annotation) else ()
            if not isinstance(given[0], sizes):
                check_domain(given[0])
        return super().__new__(cls)

    def further_audits(self) -> list[Audit]:
        """Audits of further guarantees, besides that of a single report."""
        return []

    def total_variation(self) -> float | None:
        """Total variation distance of two values' reports; None unless equal for all pairs."""
        return None


class Channel(Mechanism, ABC):
    """Likelihood of a released report given the true value."""

    #: Mask of the values that a utility-optimized channel protects; None if it protects all.
    sensitive: Mask | None = None

    #: Estimators that `estimate` offers for this channel.
    methods: tuple[str, ...] = ("mle", "em", "bayes")

    #: The default estimator of the command line.
    default_method: str = "mle"

    # -- the user's device -------------------------------------------------------------------

    def release(self, values: Iterable[object], *, seed: Seed = None) -> Any:
        """Release one report per value.

        Parameters
        ----------
        values : iterable
            True values; for a `BinnedDomain`, any numbers in its range.
        seed : int, numpy.random.Generator or None
            None uses the operating system's secure random source.
        """
        return self._draw(self._encode(values), self._source(seed))

    def release_codes(self, codes: npt.ArrayLike, *, seed: Seed = None) -> Any:
        """Like `release`, for codes of the domain instead of values; reports may also be codes."""
        return self._draw(check_codes(codes, len(self.domain)), self._source(seed))

    def _draw(self, codes: Ints, source: Source) -> Any:
        """Draw the reports of codes; most channels define this instead of `release`."""
        raise ChannelError(f"{type(self).__name__} has no reports of codes; use release.")

    def reporter(self, *, seed: Seed = None) -> Callable[[object], Any]:
        """Return a function that turns one true value into one report, to run on a device.

        It draws from the same distribution as `release`, without setting up arrays in every call. A
        list of its reports can be used wherever the result of `release` can.

        Parameters
        ----------
        seed : int, numpy.random.Generator or None
            None uses the operating system's secure random source. The same seed gives different
            reports than in `release`.

        Examples
        --------
        >>> import anonbayes as ab
        >>> channel = ab.RandomizedResponse(ab.Domain("answer", ["yes", "no"]), epsilon=2.0)
        >>> report = channel.reporter()
        >>> report("yes") in ("yes", "no")
        True
        >>> reports = [report("yes") for _ in range(1000)]
        >>> channel.estimate(reports).n
        1000
        """
        source = None if seed is None else self._noise(seed, "reporter")
        return lambda value: self.release([value], seed=source)[0]

    # -- the analyst -------------------------------------------------------------------------

    @abstractmethod
    def likelihood(self, reports: object) -> MixtureLikelihood:
        """Likelihood of the distribution of the true values, given the reports."""

    @abstractmethod
    def evidence(self, reports: object) -> ReportEvidence:
        """Likelihood vector of the true value behind each report, for released tables."""

    @abstractmethod
    def ratios(self, *, protected: bool = False) -> Iterable[Ratios]:
        """Largest log ratios of pairs of values, which notions of privacy bound.

        With `protected`, only over reports that prove no value, together with a mask of the values
        that some report proves (ULDP (5)).
        """

    def satisfies(self, notion: Notion) -> Audit:
        """Check a privacy notion on the exact probabilities; return the worst pair of values.

        Examples
        --------
        >>> import anonbayes as ab
        >>> domain = ab.Domain("diagnosis", ["HIV", "flu", "cold"])
        >>> channel = ab.UtilityOptimizedRR(domain, epsilon=1.0, sensitive=["HIV"])
        >>> channel.satisfies(ab.ULDP(["HIV"], 1.0)).holds
        True
        >>> print(channel.satisfies(ab.LDP(1.0)))  # doctest: +ELLIPSIS
        LDP(epsilon=1.0): violated. The report 'flu' is possible from 'flu' and impossible...
        """
        if not isinstance(notion, Notion):
            raise AnonbayesError(
                f"{notion!r} is not a notion of privacy; give, for example, LDP(epsilon), "
                "ULDP(sensitive, epsilon) or OneID(budgets)."
            )
        return notion.audit(self)

    def ldp_budget(self) -> float:
        """Budget of plain local differential privacy; infinite if a report excludes a value.

        `epsilon` may be the budget of a weaker notion, for example one that only protects sensitive
        values.
        """
        budgets = (largest_ratio(some.own, some.other, some.alike) for some in self.ratios())
        return max(budgets, default=0.0)

    #: Settings besides domain and budget that `with_epsilon` keeps; None if there is no budget.
    keeps: tuple[str, ...] | None = None

    def with_epsilon(self, epsilon: float) -> Self:
        """Return a channel of the same kind with another budget; other settings become default."""
        if self.keeps is None:
            raise ChannelError(
                f"{type(self).__name__} has no budget that could be changed; pass a function that "
                "returns a channel for each epsilon."
            )
        kept = {name: getattr(self, name) for name in self.keeps}
        if self.sensitive is not None and "sensitive" in kept:
            kept["sensitive"] = self.domain.decode(np.flatnonzero(self.sensitive))
        make: Callable[..., Self] = type(self)
        return make(self.domain, epsilon, **kept)

    def common_mass(self) -> float:
        """``sum_y min_x Q(y|x)``: the probability with which a report is pure noise."""
        return float(self.matrix().min(axis=0).sum())

    def total_maximum(self) -> float:
        """``sum_y max_x Q(y|x)``: the factor by which a report can improve a single guess."""
        return float(self.matrix().max(axis=0).sum())

    def symbols(self) -> Symbols | None:
        """Describe a channel that is randomized response on symbols; None for other channels."""
        return None

    def naming(self) -> Naming | None:
        """Describe a channel whose reports name a value; None for other channels."""
        return None

    def draw_symbols(self, codes: Ints, rng: np.random.Generator) -> Ints | None:
        """Symbols of values for one draw of a report's public part; None if there is none."""
        return None

    def matrix(self) -> Floats:
        """``Q``, shape (K, number of reports), rows and columns in order."""
        raise ChannelError(
            f"The reports of {type(self).__name__} cannot be listed; use likelihood or evidence."
        )

    def apply(self, p: npt.ArrayLike) -> Floats:
        """Return the distribution of the reports if the true values have distribution `p`: ``p Q``.

        Here and in all methods below, `p` is an array in the order of the domain, or a mapping or
        pandas Series labelled with its values.
        """
        return shares_of(p, self.domain) @ self.matrix()

    def log_likelihood(self, p: npt.ArrayLike, reports: object) -> float:
        """Log-likelihood of the distribution `p` given the reports, including constants."""
        return self.likelihood(reports).log(shares_of(p, self.domain))

    def estimate(self, reports: object, *, method: str = "mle", **settings: Any) -> Estimate:
        """Estimate the distribution of the true values.

        Parameters
        ----------
        reports
            What `release` returned for many users.
        method : {"mle", "em", "bayes", "empirical", "norm_sub", "threshold", "shrinkage"}
            * ``"mle"``: maximum likelihood, in closed form if there is one, else by accelerated EM
              (`iterations`, `tolerance`, `start`; passing one of them selects EM);
            * ``"em"``: plain EM, which regularises if stopped early (`iterations`, `tolerance`,
              `start`);
            * ``"bayes"``: posterior draws under a Dirichlet prior whose weight is learned unless
              `alpha` or `prior_weight` is given (`draws`, `tune`, `chains`, `thin`, `seed`); `p` is
              the posterior mean;
            * ``"empirical"``: unbiased, may be negative (pure channels);
            * ``"norm_sub"``: the distribution nearest to the empirical estimate (pure channels);
            * ``"threshold"``: only significant empirical estimates, with the remainder spread
              evenly (`alpha`, `remainder`; pure channels);
            * ``"shrinkage"``: posterior means under a prior learned from all counts (`iterations`;
              pure channels), almost as fast as the empirical estimate. With at least a hundred
              values and noise larger than most shares, it and ``"threshold"`` were the most
              accurate, each in about four of ten settings tried; with a dozen values there is
              little to learn from.
        **settings
            Settings of the method, and `level` for the intervals.
        """
        one_of("method", method, self.methods)
        check_reports(reports)
        estimate: Estimate = getattr(self, f"_estimate_{method}")(reports, **settings)
        if estimate.interval is not None:
            estimate = replace(estimate, interval=around(estimate.interval, estimate.p))
        long = estimate.draws is not None and estimate.draws.sizes["draw"] >= 100
        if long and not estimate.converged:
            warnings.warn(
                f"The chains did not mix (R-hat {estimate.r_hat:.3g}, {estimate.ess:.0f} effective "
                "draws), so the estimate is rough. Increase draws=, tune= or thin=.",
                ConvergenceWarning,
                stacklevel=2,
            )
        estimate = replace(estimate, misfit=self.misfit(reports))
        if estimate.misfit < MISFIT:
            warnings.warn(
                f"The reports do not fit {self!r}: reports that fit this badly have a probability "
                f"of at most {estimate.misfit:.1g}. Check the mechanism, its budget and the list "
                "of values.",
                MisfitWarning,
                stacklevel=2,
            )
        return estimate

    def misfit(self, reports: object) -> float:
        """Upper bound on the probability of reports that fit this badly; NaN if unknown."""
        return float("nan")

    def expected_loss(
        self, p: npt.ArrayLike, n: int, *, norm: str = "l2", sampled: bool = True
    ) -> float:
        """Return the empirical estimator's expected loss from `n` reports (pure channels)."""
        raise ChannelError(f"{type(self).__name__} has no unbiased estimator, so no such loss.")

    def worst_case_distribution(self, *, norm: str = "l2") -> Floats:
        """Distribution with the largest expected loss (pure channels)."""
        raise ChannelError(f"{type(self).__name__} has no unbiased estimator, so no such loss.")

    def worst_case_loss(self, n: int, *, norm: str = "l2") -> float:
        """Largest expected loss of the empirical estimate over all distributions."""
        return self.expected_loss(self.worst_case_distribution(norm=norm), n, norm=norm)

    # -- estimators that only need the likelihood ----------------------------------------------

    def fast_likelihood(self, reports: object) -> SimplexLikelihood:
        """Likelihood that EM maximises; structured channels override it with a faster one."""
        return self.likelihood(reports)

    def starting_distribution(self, reports: object) -> Floats:
        """Default starting point of EM: the uniform distribution."""
        return estimation.em.starting_point(None, len(self.domain))

    def _estimate_mle(self, reports: object, **settings: Any) -> Estimate:
        return self._iterate("mle", reports, **settings)

    def _estimate_em(self, reports: object, **settings: Any) -> Estimate:
        return self._iterate("em", reports, **settings)

    def _iterate(
        self,
        method: str,
        reports: object,
        *,
        start: npt.ArrayLike | None = None,
        iterations: int | None = None,
        tolerance: float = 1e-5,
        level: float = 0.95,
    ) -> Estimate:
        likelihood = usable(self.fast_likelihood(reports))
        size = len(self.domain)
        begin = (
            self.starting_distribution(reports)
            if start is None
            else estimation.em.starting_point(by_value(start, self.domain, what="start"), size)
        )
        climb = estimation.em.maximize if method == "mle" else estimation.em.reconstruct
        limit = {} if iterations is None else {"iterations": iterations}
        end = climb(likelihood, begin, tolerance=tolerance, **limit)
        return self._from_end(method, likelihood.n, end, self._interval(reports, level), level)

    def _from_end(
        self, method: str, n: int, end: Fixpoint, interval: Floats | None, level: float
    ) -> Estimate:
        """Build an estimate from the end of an iteration."""
        return Estimate(self.domain, method, n, interval=interval, level=level, **end._asdict())

    def _estimate_bayes(self, reports: object, *, level: float = 0.95, **settings: Any) -> Estimate:
        check_level(level)
        likelihood = usable(self.likelihood(reports))
        if settings.get("seed") is not None:
            settings["seed"] = self._noise(settings["seed"], "bayes")
        posterior = estimation.bayes.sample(likelihood, **settings)
        estimate = Estimate(
            self.domain,
            "bayes",
            likelihood.n,
            posterior.p[0, 0],
            level=level,
            converged=posterior.converged,
            r_hat=posterior.r_hat,
            ess=posterior.ess,
        ).from_draws(posterior.p)
        limits = estimate.interval
        if not {"alpha", "prior_weight"} & settings.keys() and limits is not None:
            confidence = self._interval(reports, level)
            limits = limits if confidence is None else around(limits, confidence)
        return replace(estimate, interval=limits, log_likelihood=likelihood.log(estimate.p))

    def _interval(self, reports: object, level: float) -> Floats | None:
        return None

    # -- reports in files ----------------------------------------------------------------------

    def spell(self, reports: object) -> list[str]:
        """Write reports as texts, one per line of a file; `read_texts` reads them back.

        Examples
        --------
        >>> import anonbayes as ab
        >>> channel = ab.RAPPOR(ab.Domain("x", "abc"), 1.0)
        >>> texts = channel.spell(ab.BitReports.from_dense([[0, 1, 1], [0, 0, 0]]))
        >>> texts, channel.read_texts(texts).counts().tolist()
        (['011', '000'], [0, 1, 1])
        """
        return [str(value) for value in list_of("reports", reports)]

    def read_texts(self, texts: Sequence[str], *, where: str = "reports") -> Any:
        """Parse reports from texts; errors name `where` and the row."""
        return Channel.read_values(self, texts, where=where)

    def read_values(self, texts: Sequence[str], *, where: str = "values") -> Any:
        """Parse true values from texts; errors name `where` and the row."""
        for text in dict.fromkeys(texts):
            known_value(self.domain, text, f"{where}, row {list(texts).index(text)}")
        return list(texts)

    # -- for subclasses ----------------------------------------------------------------------

    def _noise(self, seed: Seed, purpose: str) -> np.random.Generator:
        """Seeded noise of this column for a purpose; see `generator`."""
        return generator(seed, purpose, self.domain.name)

    def _source(self, seed: Seed, purpose: str = "release") -> Source:
        """Secure source if `seed` is None, else seeded noise of this column."""
        return randomness(seed, purpose, self.domain.name)

    def _encode(self, values: object) -> Ints:
        """Codes of true values, reading arrays without turning them into lists first."""
        if isinstance(values, str) or not isinstance(values, Iterable):
            what = "one text" if isinstance(values, str) else "no list"
            raise ChannelError(f"values={values!r} is {what}; give a list of values.")
        if isinstance(values, list | tuple) and len(values) <= FEW:
            few = [self.domain.find(value) for value in values]
            if None not in few:
                return np.array(few, dtype=np.int64)
        if isinstance(values, np.ndarray) and values.ndim != 1:
            raise ChannelError(f"values must be one column, not an array of shape {values.shape}.")
        if isinstance(values, np.ndarray):
            import pandas as pd

            values = pd.Series(values)
        return self.domain.encode(values).astype(np.int64, copy=False)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.domain.name!r}, {len(self.domain)} values, "
            f"epsilon={self.epsilon:.6g})"
        )


def check_codes(codes: npt.ArrayLike, size: int) -> Ints:
    """Return codes of values; raise `ChannelError` unless all are whole numbers below `size`."""
    array = whole_numbers("codes", codes)
    if array.ndim != 1 or (len(array) and not 0 <= array.min() <= array.max() < size):
        raise ChannelError(f"Codes must be a list of whole numbers from 0 to {size - 1}.")
    return array


def check_channel(channel: object) -> Channel:
    """Return the channel; raise `ChannelError` for anything else."""
    if not isinstance(channel, Channel):
        raise ChannelError(f"{type(channel).__name__} is not a channel of single values.")
    return channel


def known_value(domain: Domain, text: str, where: str) -> None:
    """Raise `ChannelError` for a text that is not one of the values."""
    if domain.find(text) is None:
        raise ChannelError(
            f"{where}: {text!r} is not one of the values. {nearest(text, domain.labels)}"
        )


def labels_of_texts(texts: Sequence[str], labels: Iterable[Any], where: str) -> list[Any]:
    """Return the reports spelled in a file; raise `ChannelError` for any other text."""
    known = {str(label): label for label in labels}
    for row, text in enumerate(texts):
        if text not in known:
            raise ChannelError(
                f"{where}, row {row}: {text!r} is not one of the reports. {nearest(text, known)}"
            )
    return [known[text] for text in texts]


def budget_second(*old: str) -> Callable[[F], F]:
    """Let a constructor ``(domain, epsilon, *, ...)`` accept its former order of arguments.

    `old` names the arguments that used to follow the domain. Such calls give a `FutureWarning`.
    """

    def understand(make: F) -> F:
        @functools.wraps(make)
        def call(self: Any, *given: object, **named: Any) -> Any:
            former = dict(zip(("domain", *old), given, strict=False))
            is_former = len(given) > 2 or (len(given) == 2 and "epsilon" in named)
            if is_former and len(given) == len(former) and not former.keys() & named.keys():
                rest = (f"{name}=..." for name in old if name != "epsilon")
                order = ", ".join(("domain", "epsilon", *rest))
                warnings.warn(
                    f"Arguments are now ({order}); the order (domain, {', '.join(old)}) is "
                    "deprecated.",
                    FutureWarning,
                    stacklevel=2,
                )
                return make(self, **former, **named)
            return make(self, *given, **named)

        return cast(F, call)

    return understand


def check_reports(reports: object) -> Sized:
    """Return reports; raise `ChannelError` for anything that cannot be a list of them."""
    if not isinstance(reports, Sized):
        raise ChannelError(
            f"reports={reports!r} is not a list of reports; pass the result of release()."
        )
    return reports


def check_some(n: int) -> None:
    """Raise `ChannelError` if there are no reports."""
    if n == 0:
        raise ChannelError("There are no reports to estimate from.")


def usable(likelihood: L) -> L:
    """Return the likelihood; raise `ChannelError` if there are no reports, or impossible ones."""
    check_some(likelihood.n)
    even = likelihood.probabilities(np.full(likelihood.size, 1.0 / likelihood.size))
    impossible = np.flatnonzero((likelihood.weights > 0) & (even <= 0))
    if len(impossible):
        row = int(impossible[0])
        raise ChannelError(
            f"The channel cannot produce some of the reports: row {row} of their likelihood, which "
            f"occurs {likelihood.weights[row]} times, has probability zero for every true value."
        )
    return likelihood


def by_appearance(codes: Ints) -> tuple[Ints, Ints]:
    """Index of each code among the distinct codes, and these in order of appearance."""
    distinct, first, where = np.unique(codes, return_index=True, return_inverse=True)
    order = np.argsort(first)
    return np.argsort(order)[where], distinct[order]


def check_matrix_size(channel: Channel, n_reports: int) -> None:
    """Raise `ChannelError` if the channel's matrix is too large to compute."""
    if len(channel.domain) * n_reports > MAX_MATRIX:
        raise ChannelError(
            f"The matrix of {channel!r} has {len(channel.domain)} x {n_reports} entries, more "
            f"than {MAX_MATRIX}; use apply or likelihood instead."
        )


def whole_reports(channel: Channel, numbers: Floats, count: int) -> Ints:
    """Return reports that are integers below `count`; raise `ChannelError` for any other."""
    wrong = np.flatnonzero(~((numbers >= 0) & (numbers < count) & (numbers % 1 == 0)))
    if len(wrong):
        row = int(wrong[0])
        raise ChannelError(
            f"Report {row} is {numbers[row]:g}; {channel!r} sends whole numbers from 0 to "
            f"{count - 1}."
        )
    return numbers.astype(np.int64)
