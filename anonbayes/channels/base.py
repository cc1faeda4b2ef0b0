"""What every channel can do.

A channel ``Q(y|x)`` turns a true value ``x`` of its domain into a released report ``y``. It is
used on two sides. A user's device calls `Channel.release`. An analyst holds the reports and
needs their likelihood: `Channel.likelihood` for the distribution of the true values,
`Channel.evidence` for the single true value behind each report (MODEL 1.1).

Writing a channel
-----------------
Subclass `PureChannel` (`anonbayes.channels.pure`) when a report *supports* each value with two
probabilities, ``hit`` for the value held and ``miss`` for any other; give these two, ``release``,
``counts`` and ``n_reports``, ``likelihood``, ``evidence`` and the log ratios, and estimators,
losses, worst cases and audits follow. Bit channels with probabilities per value subclass
`BitChannel` (`anonbayes.channels.unary`) and need ``hit`` (``a``) and ``miss`` (``b``) only.
Deterministic channels subclass `Generalization`. Others subclass `Channel` and give the four
abstract methods and, when the reports can be listed, ``matrix``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from anonbayes.arrays import Floats
from anonbayes.channels.randomness import generator
from anonbayes.domains import Domain, by_value
from anonbayes.errors import ChannelError, one_of
from anonbayes.estimation import bayes, em
from anonbayes.estimation.closed_forms import Estimate, check_level
from anonbayes.estimation.likelihood import MixtureLikelihood, shares_of
from anonbayes.notions.ldp import Audit, Notion

__all__ = ["MAX_MATRIX", "Channel", "ReportEvidence"]


# Up to this many values are looked up one by one: a device reports one at a time.
FEW = 32

# Entries of the largest matrix that `matrix()` builds.
MAX_MATRIX = 25_000_000


class ReportEvidence(NamedTuple):
    """What the reports of a column say about the true value in each row (MODEL 1.1).

    Attributes
    ----------
    codes : ndarray of int, shape (n,)
        Position of each report in `labels`.
    labels : list
        The distinct reports, in order of appearance.
    matrix : scipy.sparse.csr_array, shape (len(labels), K)
        ``E_y(k) = Q(y|k)``.
    """

    codes: npt.NDArray[np.int64]
    labels: list[Any]
    matrix: sparse.csr_array


class Channel(ABC):
    """Likelihood of a released report given the true value.

    Attributes
    ----------
    domain : Domain
        The true values.
    epsilon : float
        The privacy budget of its guarantee; infinite when it has none.
    """

    domain: Domain
    epsilon: float

    #: Estimators that `estimate` offers for this channel.
    methods: tuple[str, ...] = ("mle", "em", "bayes")

    # -- the user's device -------------------------------------------------------------------

    @abstractmethod
    def release(self, values: Iterable[object], *, seed: Any = None) -> Any:
        """Report of each value, drawn from the secure source unless a seed is given."""

    def reporter(self, *, seed: Any = None) -> Callable[[object], Any]:
        """Return a function that turns one true value into one report: what a device runs.

        It draws as `release` does, but has no arrays to set up for every call. A list of its
        reports is read like the result of `release`.

        Parameters
        ----------
        seed : int, numpy.random.Generator or None
            None draws from the operating system's secure source. The numbers that a seed gives
            differ from those of `release`.

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
        source = None if seed is None else generator(seed)
        return lambda value: self.release([value], seed=source)[0]

    # -- the analyst -------------------------------------------------------------------------

    @abstractmethod
    def likelihood(self, reports: Any) -> MixtureLikelihood:
        """Likelihood of the distribution of the true values, given the reports."""

    @abstractmethod
    def evidence(self, reports: Any) -> ReportEvidence:
        """Likelihood vector of the true value behind each report, for released tables."""

    @abstractmethod
    def satisfies(self, notion: Notion) -> Audit:
        """Check a privacy notion on the exact probabilities; return the worst pair of values."""

    def matrix(self) -> Floats:
        """``Q``, shape (K, number of reports), rows and columns in order."""
        raise ChannelError(
            f"The reports of {type(self).__name__} cannot be listed; use apply, adjoint, "
            "likelihood or evidence."
        )

    def apply(self, p: npt.ArrayLike) -> Floats:
        """Distribution of the reports when the true values have distribution `p`: ``p Q``.

        Here and below, `p` is an array in the order of the domain, or a mapping or pandas Series
        whose labels are its values.
        """
        return shares_of(p, self.domain) @ self.matrix()

    def adjoint(self, weights: npt.ArrayLike) -> Floats:
        """Mean of ``weights`` (one per report) given each true value: ``Q weights``."""
        return self.matrix() @ np.asarray(weights, dtype=float)

    def log_likelihood(self, p: npt.ArrayLike, reports: Any) -> float:
        """Log-likelihood of the distribution `p` given the reports, constants included."""
        return self.likelihood(reports).log(shares_of(p, self.domain))

    def estimate(self, reports: Any, *, method: str = "mle", **settings: Any) -> Estimate:
        """Estimate the distribution of the true values.

        Parameters
        ----------
        reports
            What `release` returned, of many users.
        method : {"mle", "em", "bayes", "empirical", "threshold", "shrinkage"}
            * ``"mle"``: maximum likelihood, in closed form where there is one, else by
              accelerated EM (`iterations`, `tolerance`, `start`; giving one asks for EM);
            * ``"em"``: plain EM, a regulariser when stopped early (`iterations`, `tolerance`,
              `start`);
            * ``"bayes"``: Gibbs sampling under a Dirichlet prior (`alpha`, `draws`, `tune`,
              `chains`, `thin`, `seed`); `p` is the posterior mean;
            * ``"empirical"``: unbiased, may be negative (pure channels);
            * ``"threshold"``: significant empirical estimates only (`alpha`, `remainder`; pure
              channels), and what is left spread evenly;
            * ``"shrinkage"``: posterior means under a prior that is learnt from all counts
              (`iterations`; pure channels). With a hundred values or more and noise that outweighs
              most shares, it is the most accurate as a rule, and nearly as fast as the empirical
              one; from a dozen values there is little to learn.
        **settings
            Of the method, and `level` for the intervals.
        """
        one_of("method", method, self.methods)
        return getattr(self, f"_estimate_{method}")(reports, **settings)

    def expected_loss(
        self, p: npt.ArrayLike, n: int, *, norm: str = "l2", sampled: bool = True
    ) -> float:
        """Return the empirical estimator's expected loss from `n` reports (pure channels)."""
        raise ChannelError(f"{type(self).__name__} has no unbiased estimator, hence no such loss.")

    def worst_case_loss(self, n: int, *, norm: str = "l2") -> float:
        """Largest expected loss over all distributions (pure channels)."""
        raise ChannelError(f"{type(self).__name__} has no unbiased estimator, hence no such loss.")

    # -- estimators that need the likelihood only ----------------------------------------------

    def starting_distribution(self, reports: Any) -> Floats:
        """Where EM starts unless told otherwise: the uniform distribution."""
        return em.starting_point(None, len(self.domain))

    def _estimate_mle(self, reports: Any, **settings: Any) -> Estimate:
        return self._iterate("mle", reports, **settings)

    def _estimate_em(self, reports: Any, **settings: Any) -> Estimate:
        return self._iterate("em", reports, **settings)

    def _iterate(
        self,
        method: str,
        reports: Any,
        *,
        start: npt.ArrayLike | None = None,
        iterations: int | None = None,
        tolerance: float = 1e-5,
        level: float = 0.95,
    ) -> Estimate:
        likelihood = usable(self.likelihood(reports))
        size = len(self.domain)
        begin = (
            self.starting_distribution(reports)
            if start is None
            else em.starting_point(by_value(start, self.domain, what="start"), size)
        )
        climb = em.maximize if method == "mle" else em.reconstruct
        limit = {} if iterations is None else {"iterations": iterations}
        end = climb(likelihood, begin, tolerance=tolerance, **limit)
        return Estimate(
            self.domain,
            method,
            likelihood.n,
            end.p,
            interval=self._interval(reports, level),
            level=level,
            log_likelihood=end.log_likelihood,
            path=end.path,
            iterations=end.iterations,
            converged=end.converged,
            gap=end.gap,
        )

    def _estimate_bayes(self, reports: Any, *, level: float = 0.95, **settings: Any) -> Estimate:
        import xarray as xr

        check_level(level)
        likelihood = usable(self.likelihood(reports))
        chains = bayes.sample(likelihood, **settings).p
        tails = [(1 - level) / 2, (1 + level) / 2]
        mean = chains.mean(axis=(0, 1))
        draws = xr.DataArray(
            chains,
            dims=("chain", "draw", self.domain.name),
            coords={self.domain.name: list(self.domain.labels)},
            name="p",
        )
        return Estimate(
            self.domain,
            "bayes",
            likelihood.n,
            mean,
            interval=np.quantile(chains, tails, axis=(0, 1)).T,
            level=level,
            log_likelihood=likelihood.log(mean),
            draws=draws,
        )

    def _interval(self, reports: Any, level: float) -> Floats | None:
        return None

    # -- for subclasses ----------------------------------------------------------------------

    def _encode(self, values: Iterable[object]) -> npt.NDArray[np.int64]:
        """Codes of true values, reading arrays without turning them into lists first."""
        if isinstance(values, str):
            raise ChannelError(f"values={values!r} is one text; give a list of values.")
        if isinstance(values, list | tuple) and len(values) <= FEW:
            few = [self.domain.find(value) for value in values]
            if None not in few:
                return np.array(few, dtype=np.int64)
        if isinstance(values, np.ndarray) and values.ndim != 1:
            raise ChannelError(f"values must be one column, got an array of shape {values.shape}.")
        column = pd.Series(values) if isinstance(values, np.ndarray) else values
        return self.domain.encode(column).astype(np.int64, copy=False)

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({self.domain.name!r}, {len(self.domain)} values, "
            f"epsilon={self.epsilon:.6g})"
        )


def usable(likelihood: MixtureLikelihood) -> MixtureLikelihood:
    """Return the likelihood; raise `ChannelError` without reports, or with an impossible one."""
    if likelihood.n == 0:
        raise ChannelError("There are no reports to estimate from.")
    even = likelihood.probabilities(np.full(likelihood.size, 1.0 / likelihood.size))
    impossible = np.flatnonzero((likelihood.weights > 0) & (even <= 0))
    if len(impossible):
        row = int(impossible[0])
        raise ChannelError(
            f"The channel cannot produce some of the reports: row {row} of their likelihood, seen "
            f"{likelihood.weights[row]} times, has probability zero for every true value."
        )
    return likelihood


def check_matrix_size(channel: Channel, n_reports: int) -> None:
    """Raise `ChannelError` when the channel's matrix is too large to write down."""
    if len(channel.domain) * n_reports > MAX_MATRIX:
        raise ChannelError(
            f"The matrix of {channel!r} has {len(channel.domain)} x {n_reports} entries, more "
            f"than {MAX_MATRIX}; use apply, adjoint or likelihood instead."
        )
