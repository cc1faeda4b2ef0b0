"""Budgets from a posterior: of reports, a survey, an estimate with draws, or a fitted table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Floats, read_number
from anonbayes.budgets.confidence import (
    COVERAGES,
    Allowance,
    allow_errors,
    check_alpha,
    count_quantile,
    predictive_quantile,
    read_support,
)
from anonbayes.budgets.tuning import (
    Budgets,
    check_bound,
    check_counts,
    make_budgets,
    reidentification_budget,
)
from anonbayes.channels.pure import PureChannel
from anonbayes.channels.reports import SupportCounts
from anonbayes.domains import Domain
from anonbayes.errors import AnonbayesError, one_of
from anonbayes.notions.idldp import chosen_mask, value_array

__all__ = ["from_posterior"]
# Posterior draws that are used.
DRAWS = 1000


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
    array([ inf, 4.57, 3.91, 3.91])

    From an anonymized table, for a later survey of a thousand people:

    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> nationality = post.table.domains["Nat"]
    >>> ab.budgets.from_posterior(nationality, 1000, 20, post).epsilon.round(2)
    array([4.27,  inf, 3.76, 3.72])
    """
    check_bound(n, gamma)
    check_alpha(alpha)
    one_of("coverage", coverage, COVERAGES)
    if not 0 < read_number("weight", weight) < np.inf:
        raise AnonbayesError(f"weight={weight!r} of the prior must be positive and finite.")
    quantile = _quantiles(domain, n, evidence, channel, weight)
    if coverage == "pointwise":
        lower, allowed = quantile(alpha), Allowance(alpha, gamma)
    else:
        lower, allowed = _keep_bound(quantile, alpha, n, gamma, ~chosen_mask(domain, sensitive))
    # A value that is not counted on is not a wrong one: it needs no room for errors.
    counted_on = reidentification_budget(lower, n, allowed.target)
    return make_budgets(
        domain,
        n,
        gamma,
        "posterior",
        lower,
        epsilon=np.maximum(counted_on, np.log(gamma)),
        sensitive=sensitive,
        cap=cap,
        alpha=alpha,
        level=allowed.level,
    )


def _quantiles(
    domain: Domain, n: int, evidence: Any, channel: PureChannel | None, weight: float
) -> Callable[[float], Floats]:
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
    quantile: Callable[[float], Floats],
    alpha: float,
    n: int,
    gamma: float,
    tuned: npt.NDArray[np.bool_],
) -> tuple[Floats, Allowance]:
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


def _survey(domain: Domain, n: int, counts: Any) -> SupportCounts:
    held = value_array("evidence", counts, domain, default=0.0)
    check_counts("evidence", held, domain, n)
    respondents = float(held.sum())
    if not 1 <= respondents <= n or (held != np.round(held)).any():
        raise AnonbayesError(
            f"The counts sum to {respondents:g}; give whole numbers of between 1 and n={n} users."
        )
    return SupportCounts(held.astype(np.int64), int(respondents))


def _share_draws(domain: Domain, posterior: Any) -> Floats:
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
