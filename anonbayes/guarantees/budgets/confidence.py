"""Budgets from the reports of a first group: lower confidence limits (OneID Alg. 1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy import special, stats

from anonbayes.arrays import Floats
from anonbayes.channels.pure import PureChannel
from anonbayes.channels.reports import SupportCounts
from anonbayes.channels.support import support_of
from anonbayes.domains import Domain
from anonbayes.errors import AnonbayesError, one_of
from anonbayes.estimation.empirical import check_informative
from anonbayes.guarantees.budgets.coverage import (
    COVERAGES,
    Allowance,
    allow_errors,
    check_alpha,
)
from anonbayes.guarantees.budgets.tuning import (
    Budgets,
    check_bound,
    make_budgets,
    reidentification_budget,
)
from anonbayes.guarantees.idldp import chosen_mask

__all__ = ["exact_lower_counts", "from_confidence", "lower_counts", "read_support"]


def from_confidence(
    domain: Domain,
    n: int,
    gamma: float,
    reports: Any,
    channel: PureChannel,
    alpha: float = 0.05,
    *,
    coverage: str = "simultaneous",
    sensitive: Iterable[object] = (),
    cap: float = 1.0,
) -> Budgets:
    """Budgets from lower confidence limits of a random first group of users (OneID Alg. 1).

    Parameters
    ----------
    domain, n, gamma, sensitive, cap
        As in `worst_case`; `n` counts all users, the first group included.
    reports
        Reports of the first group, or their `SupportCounts`.
    channel : PureChannel
        What the first group used, for example the optimal channel of the worst case.
    alpha : float
        Error probability, of what depends on `coverage`.
    coverage : {"simultaneous", "pointwise"}
        "simultaneous" keeps the bound: in expectation over the first group's reports no user is
        named with more than ``gamma/n``, and with probability ``1 - alpha`` not even one report is.
        Exact binomial limits at a level derived from these two demands.

        "pointwise" is the rule of the paper: Wilson's limit, above the truth for each value with
        probability ``alpha/2``. Among many rare values these are many, they get the largest
        budgets, and an attacker looks at these first: users with a unique value are then named
        2.4 to 4.2 times as often as ``gamma/n`` on the paper's sizes (``benchmarks/oneid.py``).

    Notes
    -----
    The paper prints ``n`` trials where only the first group's ``n0`` reports exist; the limit of
    the bit rate is that of ``n0`` trials, then scaled to ``n`` users.

    A bit is raised by a sum of independent, unequal bits when the first group is drawn without
    replacement (the generating function has real roots only), and above its mean such a sum has a
    lighter tail than the binomial distribution (Hoeffding 1956): Clopper and Pearson's limits hold.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("x", range(4))
    >>> first = ab.budgets.worst_case(domain, n=10_000, gamma=50)
    >>> channel = ab.InputDiscriminativeUE.optimal(domain, first)
    >>> reports = channel.release([0] * 900 + [1] * 60 + [2] * 40, seed=1)
    >>> tuned = ab.budgets.from_confidence(domain, 10_000, 50, reports, channel)
    >>> tuned.epsilon.round(2), tuned.at_least.round()
    (array([ inf, 5.01, 3.86, 3.86]), array([8541.,  144.,    0.,    0.]))
    >>> paper = ab.budgets.from_confidence(
    ...     domain, 10_000, 50, reports, channel, coverage="pointwise"
    ... )
    >>> paper.epsilon.round(2), paper.at_least.round()
    (array([ inf,  inf, 4.49, 3.91]), array([8849.,  341.,   89.,    0.]))
    """
    check_bound(n, gamma)
    support = read_support(domain, n, reports, channel)
    check_alpha(alpha)
    one_of("coverage", coverage, COVERAGES)
    bits = (channel.hit, channel.miss)
    if coverage == "pointwise":
        allowed = Allowance(alpha / 2, gamma)
        lower = lower_counts(support, n, *bits, alpha)
    else:
        # Capped budgets hold whatever the number of users.
        tuned = int((~chosen_mask(domain, sensitive)).sum())
        allowed = allow_errors(alpha, n, gamma, tuned)
        lower = exact_lower_counts(support, n, *bits, allowed.level)
    return make_budgets(
        domain,
        n,
        gamma,
        "confidence",
        lower,
        epsilon=reidentification_budget(lower, n, allowed.target),
        sensitive=sensitive,
        cap=cap,
        alpha=alpha,
        level=allowed.level,
    )


def lower_counts(support: SupportCounts, n: int, hit: Floats, miss: Floats, alpha: float) -> Floats:
    """Wilson's lower limit of the number of users per value (OneID Alg. 1, lines 3 to 5).

    Examples
    --------
    >>> one = np.ones(1)
    >>> support = SupportCounts(np.array([300]), 1000)
    >>> lower_counts(support, 10_000, 0.5 * one, 0.01 * one, 0.05).round(6)
    array([5355.241683])
    """
    gain = check_informative(hit, miss)
    t, trials = support.counts.astype(float), support.n
    z = float(stats.norm.ppf(1 - alpha / 2))
    half = z * np.sqrt(t * (trials - t) / trials + z**2 / 4)
    rate = (t + z**2 / 2 - half) / (trials + z**2)
    return np.clip(n * (rate - miss) / gain, 0.0, n)


def exact_lower_counts(
    support: SupportCounts, n: int, hit: Floats, miss: Floats, level: float
) -> Floats:
    """Clopper and Pearson's lower limit of the number of users per value, one-sided.

    Examples
    --------
    >>> one = np.ones(1)
    >>> support = SupportCounts(np.array([300]), 1000)
    >>> exact_lower_counts(support, 10_000, 0.5 * one, 0.01 * one, 0.025).round(6)
    array([5341.247186])
    """
    gain = check_informative(hit, miss)
    t = support.counts
    raised, place = np.unique(t, return_inverse=True)
    rate = np.zeros(len(raised))
    some = raised > 0
    rate[some] = special.betaincinv(raised[some], support.n - raised[some] + 1.0, level)
    return np.clip(n * (rate[place] - miss) / gain, 0.0, n)


def read_support(domain: Domain, n: int, reports: Any, channel: PureChannel) -> SupportCounts:
    """Support counts of a first group, after checking that they belong to these users."""
    if channel.domain != domain:
        raise AnonbayesError(f"The channel is for {channel.domain!r}, the budgets for {domain!r}.")
    support = support_of(channel, reports)
    if not 1 <= support.n <= n:
        raise AnonbayesError(
            f"{support.n} reports of a first group among n={n} users: give between 1 and n; n "
            "counts all users, the first group included."
        )
    return support
