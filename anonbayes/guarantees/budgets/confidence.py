"""Budgets from the reports of a first group: Wilson's lower limit (OneID Alg. 1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import stats

from anonbayes.channels.pure import PureChannel
from anonbayes.channels.reports import SupportCounts
from anonbayes.channels.support import support_of
from anonbayes.domains import Domain
from anonbayes.errors import AnonbayesError
from anonbayes.estimation.empirical import check_informative
from anonbayes.guarantees.budgets.tuning import Budgets, check_bound, make_budgets

__all__ = ["from_confidence", "lower_counts", "read_support"]

Array = npt.NDArray[np.float64]


def from_confidence(
    domain: Domain,
    n: int,
    gamma: float,
    reports: Any,
    channel: PureChannel,
    alpha: float = 0.05,
    *,
    sensitive: Iterable[object] = (),
    cap: float = 1.0,
) -> Budgets:
    """Budgets from the reports of a first group of users (OneID Alg. 1, corrected).

    Parameters
    ----------
    domain, n, gamma, sensitive, cap
        As in `worst_case`; `n` counts all users, the first group included.
    reports
        Reports of the first group, or their `SupportCounts`.
    channel : PureChannel
        What the first group used, for example the optimal channel of the worst case.
    alpha : float
        The lower limit is above the truth for a share ``alpha/2`` of the values, and for these
        the re-identification bound is missed. Among many rare values these are many, and the most
        exposed ones (``benchmarks/oneid.py``: reports at two to three times the bound). Divide
        `alpha` by the number of values, or use `from_posterior`, to keep it.

    Notes
    -----
    The paper prints ``n`` trials where only the first group's ``n0`` reports exist; the limit of
    the bit rate is that of ``n0`` trials, then scaled to ``n`` users.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("x", range(4))
    >>> first = ab.budgets.worst_case(domain, n=10_000, gamma=50)
    >>> channel = ab.InputDiscriminativeUE.optimal(domain, first)
    >>> reports = channel.release([0] * 900 + [1] * 60 + [2] * 40, seed=1)
    >>> tuned = ab.budgets.from_confidence(domain, 10_000, 50, reports, channel)
    >>> tuned.epsilon.round(2), tuned.at_least.round()
    (array([ inf,  inf,  inf, 3.91]), array([8567.,  265.,  240.,    0.]))
    """
    check_bound(n, gamma)
    support = read_support(domain, n, reports, channel)
    check_alpha(alpha)
    lower = lower_counts(support, n, channel.hit, channel.miss, alpha)
    return make_budgets(
        domain, n, gamma, "confidence", lower, sensitive=sensitive, cap=cap, alpha=alpha
    )


def lower_counts(support: SupportCounts, n: int, hit: Array, miss: Array, alpha: float) -> Array:
    """Lower limit of the number of users per value (OneID Alg. 1, lines 3 to 5).

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


def check_alpha(alpha: float) -> None:
    """Raise `AnonbayesError` unless alpha lies between 0 and 1."""
    if not 0 < alpha < 1:
        raise AnonbayesError(
            f"alpha={alpha!r} must lie between 0 and 1; alpha -> 0 is the worst case rule."
        )
