"""Budgets from a posterior: of reports, a survey, an estimate with draws, or a fitted table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from anonbayes.channels.pure import PureChannel
from anonbayes.channels.reports import SupportCounts
from anonbayes.domains import Domain
from anonbayes.errors import AnonbayesError
from anonbayes.estimation.empirical import check_informative
from anonbayes.guarantees.budgets.confidence import check_alpha, read_support
from anonbayes.guarantees.budgets.tuning import (
    Budgets,
    check_bound,
    check_counts,
    make_budgets,
)
from anonbayes.guarantees.idldp import value_array

__all__ = ["count_quantile", "from_posterior", "predictive_quantile"]

Array = npt.NDArray[np.float64]

# Counts up to this one are told apart; larger ones in steps of their 512th part, far below the
# standard deviation that any number of reports leaves.
EXACT_COUNTS = 4096
STEPS = 512
# Entries of the largest table of likelihoods, and posterior draws that are used.
TABLE = 4_000_000
DRAWS = 1000


def from_posterior(
    domain: Domain,
    n: int,
    gamma: float,
    evidence: Any,
    channel: PureChannel | None = None,
    alpha: float = 0.05,
    *,
    weight: float = 1.0,
    sensitive: Iterable[object] = (),
    cap: float = 1.0,
) -> Budgets:
    """Budgets from the lower `alpha` quantile of the posterior of each count.

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
        Posterior probability that a value has fewer users than are counted on.
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
    array([ inf,  inf,  inf, 3.91])

    From an anonymized table, for a later survey of a thousand people:

    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> nationality = post.table.domains["Nat"]
    >>> ab.budgets.from_posterior(nationality, 1000, 20, post).epsilon.round(2)
    array([inf, inf, inf, inf])
    """
    check_bound(n, gamma)
    check_alpha(alpha)
    if not 0 < weight < np.inf:
        raise AnonbayesError(f"weight={weight!r} of the prior must be positive and finite.")
    if channel is not None:
        support = read_support(domain, n, evidence, channel)
        lower = count_quantile(support, n, channel.hit, channel.miss, alpha, weight)
    elif hasattr(evidence, "draws"):
        lower = predictive_quantile(_share_draws(domain, evidence), n, alpha)
    else:
        survey = _survey(domain, n, evidence)
        one = np.ones(len(domain))
        lower = count_quantile(survey, n, one, 0.0 * one, alpha, weight)
    return make_budgets(
        domain, n, gamma, "posterior", lower, sensitive=sensitive, cap=cap, alpha=alpha
    )


def count_quantile(
    support: SupportCounts, n: int, hit: Array, miss: Array, alpha: float, weight: float = 1.0
) -> Array:
    """Largest ``k`` with ``P(count < k | support) <= alpha``, for each value.

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
        found = _lower_edges(t, support.n, rate, log_prior, alpha)
        quantile[values] = lower[found][again]
    return quantile


def _lower_edges(
    t: npt.NDArray[np.int64], trials: float, rate: Array, log_prior: Array, alpha: float
) -> npt.NDArray[np.intp]:
    """Position in the grid of counts below which no more than `alpha` of the posterior lies."""
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
        found[start : start + step] = np.argmax(below > alpha * below[:, -1:], axis=1)
    return found


def _times(number: Array, logarithm: Array) -> Array:
    """Product in which zero times an infinite logarithm is zero."""
    if np.isfinite(logarithm).all():
        return number * logarithm
    with np.errstate(invalid="ignore"):
        return np.where(number == 0, 0.0, number * logarithm)


def predictive_quantile(shares: Array, n: int, alpha: float) -> Array:
    """Largest ``k`` with ``P(count < k) <= alpha``, count ~ Binomial(n, share), share drawn.

    Parameters
    ----------
    shares : ndarray, shape (draws, K)
        Posterior draws of the shares.

    Examples
    --------
    >>> predictive_quantile(np.array([[0.5, 0.5]]), 100, 0.05)
    array([42., 42.])
    """
    lower = np.zeros(shares.shape[1], dtype=np.int64)
    upper = np.full(shares.shape[1], n, dtype=np.int64)
    while (lower < upper).any():
        middle = (lower + upper) // 2
        reached = special.bdtr(middle.astype(float), n, shares).mean(axis=0) > alpha
        lower, upper = np.where(reached, lower, middle + 1), np.where(reached, middle, upper)
    return lower.astype(float)


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
