"""Budgets from a posterior: of reports, a survey, an estimate with draws, or a fitted table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from anonbayes.channels.pure import PureChannel
from anonbayes.channels.reports import SupportCounts
from anonbayes.domains import Domain
from anonbayes.errors import AnonbayesError, one_of
from anonbayes.estimation.empirical import check_informative
from anonbayes.guarantees.budgets.confidence import read_support
from anonbayes.guarantees.budgets.coverage import (
    COVERAGES,
    Allowance,
    allow_errors,
    check_alpha,
)
from anonbayes.guarantees.budgets.tuning import (
    Budgets,
    check_bound,
    check_counts,
    make_budgets,
)
from anonbayes.guarantees.idldp import chosen_mask, value_array

__all__ = ["count_quantile", "from_posterior", "predictive_quantile"]

Array = npt.NDArray[np.float64]

# Counts up to this one are told apart; larger ones in steps of their 512th part, far below the
# standard deviation that any number of reports leaves.
EXACT_COUNTS = 4096
STEPS = 512
# Entries of the largest table of likelihoods, and posterior draws that are used.
TABLE = 4_000_000
DRAWS = 1000
# Of rarer events than this many draws in all, draws say little.
TAIL_DRAWS = 20
BETA_NODES = 300


def from_posterior(
    domain: Domain,
    n: int,
    gamma: float,
    evidence: Any,
    channel: PureChannel | None = None,
    alpha: float = 0.05,
    *,
    coverage: str = "simultaneous",
    weight: float = 1.0,
    sensitive: Iterable[object] = (),
    cap: float = 1.0,
) -> Budgets:
    """Budgets from lower quantiles of the posterior of the counts.

    Parameters
    ----------
    domain, n, gamma, sensitive, cap
        As in `worst_case`.
    evidence
        What is known of the counts:

        * with a `channel`, the reports (or `SupportCounts`) of a first group of the users;
        * a mapping, series or array: how many of a first group hold each value, openly;
        * the `Posterior` of a released table whose attribute `domain` is: the users are `n` new
          people from the same population;
        * an `Estimate` with posterior draws, likewise.
    channel : PureChannel, optional
        What the first group used.
    alpha : float
        Error probability, of what depends on `coverage`.
    coverage : {"simultaneous", "pointwise"}
        "simultaneous" keeps the bound: the posterior expectation of the probability of naming the
        sender of any report is at most ``gamma/n``, and with posterior probability ``1 - alpha``
        not even one report exceeds it. The quantiles' level follows from these two demands; values
        that are not counted on cannot be wrong, so their number does not matter.

        "pointwise" takes the quantile at `alpha`: each value that is counted on has fewer users
        with posterior probability `alpha`.
    weight : float
        Of reports and surveys: total weight of the Dirichlet prior of the shares, spread evenly.
        The default, one, says that a few unknown values hold most users: a value has to show in
        the reports before it is counted on. Larger weights say that users are spread evenly.

    Notes
    -----
    Of reports: a priori the count of a value is beta-binomial with ``weight/K`` and
    ``weight (K-1)/K``; given the count ``c``, its support is ``Binomial(n0, b + (a-b) c/n)``.
    The posterior is summed up count by count, nothing is sampled.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("x", range(4))
    >>> first = ab.budgets.worst_case(domain, n=10_000, gamma=50)
    >>> channel = ab.InputDiscriminativeUE.optimal(domain, first)
    >>> reports = channel.release([0] * 900 + [1] * 60 + [2] * 40, seed=1)
    >>> ab.budgets.from_posterior(domain, 10_000, 50, reports, channel).epsilon.round(2)
    array([ inf,  inf, 4.42, 3.86])

    From an anonymized table, for a later survey of a thousand people:

    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> nationality = post.table.domains["Nat"]
    >>> ab.budgets.from_posterior(nationality, 1000, 20, post).epsilon.round(2)
    array([4.27,  inf, 3.76, 3.72])
    """
    check_bound(n, gamma)
    check_alpha(alpha)
    one_of("coverage", coverage, COVERAGES)
    if not 0 < weight < np.inf:
        raise AnonbayesError(f"weight={weight!r} of the prior must be positive and finite.")
    quantile = _quantiles(domain, n, evidence, channel, weight)
    if coverage == "pointwise":
        lower, allowed = quantile(alpha), Allowance(alpha, gamma)
    else:
        lower, allowed = _keep_bound(quantile, alpha, n, gamma, ~chosen_mask(domain, sensitive))
    return make_budgets(
        domain,
        n,
        gamma,
        "posterior",
        lower,
        sensitive=sensitive,
        cap=cap,
        target=allowed.target,
        alpha=alpha,
        level=allowed.level,
    )


def _quantiles(
    domain: Domain, n: int, evidence: Any, channel: PureChannel | None, weight: float
) -> Callable[[float], Array]:
    """Lower quantiles of all counts as a function of their level, whatever the evidence is."""
    if channel is not None:
        support = read_support(domain, n, evidence, channel)
        hit, miss = channel.hit, channel.miss
    elif hasattr(evidence, "draws"):
        shares = _share_draws(domain, evidence)
        return lambda level: predictive_quantile(shares, n, level)
    else:
        support = _survey(domain, n, evidence)
        hit, miss = np.ones(len(domain)), np.zeros(len(domain))
    return lambda level: count_quantile(support, n, hit, miss, level, weight)


def _keep_bound(
    quantile: Callable[[float], Array],
    alpha: float,
    n: int,
    gamma: float,
    tuned: npt.NDArray[np.bool_],
) -> tuple[Array, Allowance]:
    """Quantiles at the level that keeps the bound; only values counted on can be wrong.

    A value that is counted on for one user at most is never wrong about a sender, who is one. A
    posterior needs no correction for having picked the others by the data; and a lower level picks
    no more of them.
    """
    allowed = allow_errors(alpha, n, gamma, 1)
    lower = quantile(allowed.level)
    counted_on = int(((lower > 1) & tuned).sum())
    stricter = allow_errors(alpha, n, gamma, counted_on)
    if stricter.level < allowed.level:
        return quantile(stricter.level), stricter
    return lower, allowed


def count_quantile(
    support: SupportCounts, n: int, hit: Array, miss: Array, level: float, weight: float = 1.0
) -> Array:
    """Largest ``k`` with ``P(count < k | support) <= level``, for each value.

    Examples
    --------
    Ten of ten users say so openly; a hundred are asked for:

    >>> one = np.ones(2)
    >>> count_quantile(SupportCounts(np.array([10, 0]), 10), 100, one, 0 * one, 0.05)
    array([83.,  0.])
    """
    check_informative(hit, miss)
    if len(hit) == 1:
        return np.array([float(n)])
    lower, middle, width = _count_grid(n)
    log_prior = _log_beta_binomial(middle, n, weight / len(hit), weight) + np.log(width)
    # Values with the same bits and the same support share their posterior.
    bits, place = np.unique(hit + 1j * miss, return_inverse=True)
    order = np.argsort(place, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(place))[:-1])
    quantile = np.empty(len(hit))
    for pair, values in zip(bits, members, strict=True):
        rate = pair.imag + (pair.real - pair.imag) * (middle / n)
        t, again = np.unique(support.counts[values], return_inverse=True)
        found = _lower_edges(t, support.n, rate, log_prior, level)
        quantile[values] = lower[found][again]
    return quantile


def _lower_edges(
    t: npt.NDArray[np.int64], trials: float, rate: Array, log_prior: Array, level: float
) -> npt.NDArray[np.intp]:
    """Position in the grid of counts below which no more than `level` of the posterior lies."""
    with np.errstate(divide="ignore"):
        log_raised, log_not = np.log(rate), np.log1p(-rate)
    found = np.empty(len(t), dtype=np.intp)
    step = max(1, TABLE // len(rate))
    for start in range(0, len(t), step):
        raised = t[start : start + step, None].astype(float)
        lowered = np.asarray(trials - raised, dtype=float)
        # An impossible rate (log 0) rules a count out only if it was needed.
        log_p = log_prior + _times(raised, log_raised) + _times(lowered, log_not)
        mass = np.exp(log_p - log_p.max(axis=1, keepdims=True))
        below = np.cumsum(mass, axis=1)
        found[start : start + step] = np.argmax(below > level * below[:, -1:], axis=1)
    return found


def _times(number: Array, logarithm: Array) -> Array:
    """Product in which zero times an infinite logarithm is zero."""
    if np.isfinite(logarithm).all():
        return number * logarithm
    with np.errstate(invalid="ignore"):
        return np.where(number == 0, 0.0, number * logarithm)


def predictive_quantile(shares: Array, n: int, level: float) -> Array:
    """Largest ``k`` with ``P(count < k) <= level``, count ~ Binomial(n, share), share drawn.

    Far tails are not in the draws: there the smaller of this and of the quantile under beta
    distributions with the draws' means and variances.

    Parameters
    ----------
    shares : ndarray, shape (draws, K)
        Posterior draws of the shares.

    Examples
    --------
    >>> predictive_quantile(np.array([[0.5, 0.5]]), 100, 0.05)
    array([42., 42.])
    """
    found = _mixed_quantile(shares, np.full(len(shares), 1.0 / len(shares)), n, level)
    if len(shares) == 1 or level * len(shares) >= TAIL_DRAWS:
        return found
    return np.minimum(found, _mixed_quantile(*_beta_nodes(shares, level), n, level))


def _mixed_quantile(shares: Array, weight: Array, n: int, level: float) -> Array:
    """Quantile of the count over weighted shares, by bisection."""
    lower = np.zeros(shares.shape[1], dtype=np.int64)
    upper = np.full(shares.shape[1], n, dtype=np.int64)
    while (lower < upper).any():
        middle = (lower + upper) // 2
        reached = weight @ special.bdtr(middle.astype(float), n, shares) > level
        lower, upper = np.where(reached, lower, middle + 1), np.where(reached, middle, upper)
    return lower.astype(float)


def _beta_nodes(shares: Array, level: float) -> tuple[Array, Array]:
    """Beta distributions with the draws' means and variances, as weighted shares.

    Quantiles at the lower ends of bins that shrink towards the lower tail: never too large.
    """
    edges = np.concatenate([[0.0], np.geomspace(level / 100, 1.0, BETA_NODES)])
    mean, variance = shares.mean(axis=0), shares.var(axis=0, ddof=1)
    spread = variance > 1e-12 * mean * (1 - mean)
    total = np.where(spread, mean * (1 - mean) / np.where(spread, variance, 1.0) - 1.0, 1.0)
    first, second = (np.maximum(part * total, 1e-12) for part in (mean, 1 - mean))
    quantile = special.betaincinv(first, second, edges[:-1, None])
    return np.where(spread, quantile, mean), np.diff(edges)


def _count_grid(n: int) -> tuple[Array, Array, Array]:
    """Lower edge, middle and number of the counts that are treated together."""
    number = int(np.ceil(STEPS * np.log(max((n + 1) / EXACT_COUNTS, 1.0)))) + 2
    coarse = np.geomspace(EXACT_COUNTS, max(n + 1, EXACT_COUNTS), number)
    fine = np.arange(min(n, EXACT_COUNTS) + 1)
    edges = np.unique(np.concatenate([fine, np.floor(coarse[coarse <= n]), [n + 1]]))
    width = np.diff(edges)
    return edges[:-1], edges[:-1] + (width - 1) / 2, width


def _log_beta_binomial(count: Array, n: int, first: float, total: float) -> Array:
    rest = total - first
    return (
        special.gammaln(n + 1.0)
        - special.gammaln(count + 1.0)
        - special.gammaln(n - count + 1.0)
        + special.betaln(count + first, n - count + rest)
        - special.betaln(first, rest)
    )


def _survey(domain: Domain, n: int, counts: Any) -> SupportCounts:
    held = value_array("evidence", counts, domain, default=0.0)
    check_counts("evidence", held, domain, n)
    respondents = float(held.sum())
    if not 1 <= respondents <= n or (held != np.round(held)).any():
        raise AnonbayesError(
            f"The counts sum to {respondents:g}; give whole numbers of between 1 and n={n} users."
        )
    return SupportCounts(held.astype(np.int64), int(respondents))


def _share_draws(domain: Domain, posterior: Any) -> Array:
    """Draws of the shares of the domain's values, shape (draws, K), thinned to `DRAWS`."""
    draws = posterior.draws
    table = getattr(posterior, "table", None)
    if table is None:
        if draws is None or posterior.domain != domain:
            raise AnonbayesError(
                "The estimate has no posterior draws of this domain; estimate it with "
                "method='bayes'."
            )
        shares = draws.transpose("chain", "draw", ...)
    else:
        known = table.domains
        if domain.name not in known or known[domain.name] != domain:
            raise AnonbayesError(
                f"{domain!r} is not an attribute of the table; use one of its own domains: "
                f"{', '.join(known)} (post.table.domains)."
            )
        shares = draws[f"pi_{table.sensitive}"]
        if domain.name != table.sensitive:
            shares = (shares * draws[f"pi_{domain.name}"]).sum(table.sensitive)
        shares = shares.transpose("chain", "draw", domain.name)
    array = np.asarray(shares.to_numpy()).reshape(-1, len(domain))
    return array[:: max(1, len(array) // DRAWS)]
