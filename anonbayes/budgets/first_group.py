"""Budgets from what is known about some users, and the protocol that asks a first group."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import special

from anonbayes.arrays import Codes, Floats, Ints, Mask, read_number, read_share
from anonbayes.budgets.tuning import (
    Budgets,
    check_bound,
    check_counts,
    make_budgets,
    reidentification_budget,
    worst_case,
)
from anonbayes.channels.discriminative import InputDiscriminativeUE
from anonbayes.channels.pure import PureChannel
from anonbayes.channels.randomness import Seed, generator
from anonbayes.channels.reports import SupportCounts
from anonbayes.domains import Domain, list_of
from anonbayes.errors import AnonbayesError, one_of
from anonbayes.estimation.closed_forms import (
    Estimate,
    check_informative,
    inverse_variance,
    normal_quantile,
    score_interval,
    wilson,
)
from anonbayes.inference.posterior import Posterior
from anonbayes.notions.ldp import sensitive_mask
from anonbayes.notions.selective import value_array

# -------------------------------------------------------------------------------------------------
# How often a rule may overestimate the number of users, derived from the bound it must keep.
#
# Budgets tuned to numbers of users ``k(x) <= c(x)`` keep every report at ``gamma/n`` (OneID Theorem
# 1). Reports of a first group give such numbers with an error probability. If that is at most
# ``level`` for each value, and budgets are tuned to ``target = gamma - n level`` instead of
# ``gamma``,
#
# * a user's report identifies her with at most ``target/n``, unless the number for her value is
#   wrong, and then with at most one; on average over the first group's reports this is at most
#   ``target/n + level = gamma/n``;
# * with probability 1 minus ``level`` times the number of values that could be wrong, no number is
#   wrong, and no report of anybody exceeds the bound.
#
# So ``level = alpha min(1/number, (gamma - 1)/n)`` makes the first at most ``gamma/n`` for every
# user, and the second hold with probability ``1 - alpha``. It costs at most the share `alpha` of
# ``gamma``. A posterior is conditional on the reports, so there the same holds with the number of
# values whose users are counted on, and only these bear the cost.

COVERAGES = ("simultaneous", "pointwise")


class Allowance(NamedTuple):
    """Largest probability of a wrong number for each value, and the gamma to tune to."""

    level: float
    target: float


def allow_errors(alpha: float, n: int, gamma: float, number: int) -> Allowance:
    """Error level for each of `number` values that keeps the bound ``gamma/n`` in expectation."""
    level = alpha * min(1.0 / max(number, 1), (gamma - 1.0) / n)
    return Allowance(level, max(gamma - n * level, 1.0))


# -------------------------------------------------------------------------------------------------
# Lower quantiles of the number of users with a value: numeric kernels.

# Counts up to this are treated individually, larger ones in steps of a 512th, far below the
# standard deviation that any number of reports leaves.
EXACT_COUNTS = 4096
STEPS = 512
# Largest number of entries of a table of likelihoods.
TABLE = 4_000_000
# Events with fewer than this many expected draws are not estimated from draws.
TAIL_DRAWS = 20
BETA_NODES = 300


def count_quantile(
    support: SupportCounts, n: int, hit: Floats, miss: Floats, level: float, weight: float = 1.0
) -> Floats:
    """Largest ``k`` with ``P(count < k | support) <= level``, for each value."""
    check_informative(hit, miss)
    if len(hit) == 1:
        return np.array([float(n)])
    lower, middle, width = _count_grid(n)
    log_prior = _log_beta_binomial(middle, n, weight / len(hit), weight) + np.log(width)
    # Values with the same bits and the same support have the same posterior.
    bits, place = np.unique(np.stack([hit, miss], axis=1), axis=0, return_inverse=True)
    order = np.argsort(place.ravel(), kind="stable")
    members = np.split(order, np.cumsum(np.bincount(place.ravel()))[:-1])
    quantile = np.empty(len(hit))
    for (kept, raised), values in zip(bits, members, strict=True):
        rate = raised + (kept - raised) * (middle / n)
        t, again = np.unique(support.counts[values], return_inverse=True)
        edges = _lower_edges(t, support.n, rate, log_prior, level)
        quantile[values] = lower[edges][again]
    return quantile


def _lower_edges(t: Ints, trials: float, rate: Floats, log_prior: Floats, level: float) -> Codes:
    """Position in the grid of counts below which at most `level` of the posterior lies."""
    with np.errstate(divide="ignore"):
        log_raised, log_not = np.log(rate), np.log1p(-rate)
    edges = np.empty(len(t), dtype=np.intp)
    step = max(1, TABLE // len(rate))
    for start in range(0, len(t), step):
        raised = t[start : start + step, None].astype(float)
        lowered = np.asarray(trials - raised, dtype=float)
        # An impossible rate (log 0) excludes a count only if it was needed.
        log_p = log_prior + _times(raised, log_raised) + _times(lowered, log_not)
        mass = np.exp(log_p - log_p.max(axis=1, keepdims=True))
        below = np.cumsum(mass, axis=1)
        edges[start : start + step] = np.argmax(below > level * below[:, -1:], axis=1)
    return edges


def _times(number: Floats, logarithm: Floats) -> Floats:
    """Product in which zero times an infinite logarithm is zero."""
    if np.isfinite(logarithm).all():
        return number * logarithm
    with np.errstate(invalid="ignore"):
        return np.where(number == 0, 0.0, number * logarithm)


def predictive_quantile(shares: Floats, n: int, level: float) -> Floats:
    """Largest ``k`` with ``P(count < k) <= level``, count ~ Binomial(n, share), shares (draws, K).

    Draws do not reach far tails, so the result is the smaller of this and of the quantile under
    beta distributions with the draws' means and variances.
    """
    drawn = _mixed_quantile(shares, np.full(len(shares), 1.0 / len(shares)), n, level)
    if len(shares) == 1 or level * len(shares) >= TAIL_DRAWS:
        return drawn
    return np.minimum(drawn, _mixed_quantile(*_beta_nodes(shares, level), n, level))


def _mixed_quantile(shares: Floats, weight: Floats, n: int, level: float) -> Floats:
    """Quantile of the count over weighted shares, by bisection."""
    lower = np.zeros(shares.shape[1], dtype=np.int64)
    upper = np.full(shares.shape[1], n, dtype=np.int64)
    while (lower < upper).any():
        middle = (lower + upper) // 2
        reached = weight @ special.bdtr(middle.astype(float), n, shares) > level
        lower, upper = np.where(reached, lower, middle + 1), np.where(reached, middle, upper)
    return lower.astype(float)


def _beta_nodes(shares: Floats, level: float) -> tuple[Floats, Floats]:
    """Beta distributions with the draws' means and variances, as weighted shares.

    Uses quantiles at the lower ends of bins that shrink towards the lower tail: never too large.
    """
    edges = np.concatenate([[0.0], np.geomspace(level / 100, 1.0, BETA_NODES)])
    mean, variance = shares.mean(axis=0), shares.var(axis=0, ddof=1)
    spread = variance > 1e-12 * mean * (1 - mean)
    total = np.where(spread, mean * (1 - mean) / np.where(spread, variance, 1.0) - 1.0, 1.0)
    first, second = (np.maximum(part * total, 1e-12) for part in (mean, 1 - mean))
    quantile = special.betaincinv(first, second, edges[:-1, None])
    return np.where(spread, quantile, mean), np.diff(edges)


def _count_grid(n: int) -> tuple[Floats, Floats, Floats]:
    """Lower edge, middle and size of each bin of counts."""
    number = int(np.ceil(STEPS * np.log(max((n + 1) / EXACT_COUNTS, 1.0)))) + 2
    coarse = np.geomspace(EXACT_COUNTS, max(n + 1, EXACT_COUNTS), number)
    fine = np.arange(min(n, EXACT_COUNTS) + 1)
    edges = np.unique(np.concatenate([fine, np.floor(coarse[coarse <= n]), [n + 1]]))
    width = np.diff(edges)
    return edges[:-1], edges[:-1] + (width - 1) / 2, width


def _log_beta_binomial(count: Floats, n: int, first: float, total: float) -> Floats:
    rest = total - first
    return (
        special.gammaln(n + 1.0)
        - special.gammaln(count + 1.0)
        - special.gammaln(n - count + 1.0)
        + special.betaln(count + first, n - count + rest)
        - special.betaln(first, rest)
    )


# -------------------------------------------------------------------------------------------------
# Budgets from the reports of a first group: lower confidence limits (OneID Alg. 1).


def from_confidence(
    domain: Domain,
    n: int,
    gamma: float,
    reports: object,
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
        The first group's channel, for example the optimal channel of the worst case.
    alpha : float
        Error probability; its meaning depends on `coverage`.
    coverage : {"simultaneous", "pointwise"}
        "simultaneous" keeps the bound: in expectation over the first group's reports no user is
        identified with more than ``gamma/n``, and with probability ``1 - alpha`` not even a single
        report is. Uses exact binomial limits at a level derived from these two requirements.

        "pointwise" is the rule of the paper: Wilson's limit, which for each value is too high with
        probability ``alpha/2``. Among many rare values that happens often; these values get the
        largest budgets, and an attacker tries them first. Users with a unique value are then
        identified 2.4 to 4.2 times as often as ``gamma/n`` for the paper's sizes
        (``benchmarks/oneid.py``).

    Notes
    -----
    The paper writes ``n`` trials although there are only the first group's ``n0`` reports; here the
    limit of the bit rate is that of ``n0`` trials, scaled to ``n`` users.

    If the first group is drawn without replacement, the number of raised bits is a sum of
    independent, unequal bits (the generating function has only real roots), and above its mean such
    a sum has a lighter tail than the binomial distribution (Hoeffding 1956): Clopper and Pearson's
    limits hold.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("x", range(4))
    >>> first = ab.budgets.worst_case(domain, n=10_000, gamma=50)
    >>> channel = ab.InputDiscriminativeUE.optimal(domain, first)
    >>> reports = channel.release([0] * 900 + [1] * 60 + [2] * 40, seed=1)
    >>> tuned = ab.budgets.from_confidence(domain, 10_000, 50, reports, channel)
    >>> tuned.epsilon.round(2), tuned.at_least.round()
    (array([ inf, 4.28, 3.86, 3.86]), array([8139.,   73.,    0.,    0.]))
    >>> paper = ab.budgets.from_confidence(
    ...     domain, 10_000, 50, reports, channel, coverage="pointwise"
    ... )
    >>> paper.epsilon.round(2), paper.at_least.round()
    (array([ inf,  inf, 3.91, 3.91]), array([8454.,  265.,    0.,    0.]))
    """
    check_bound(n, gamma)
    support = _read_support(domain, n, reports, channel)
    read_share("alpha", alpha, "an error probability")
    one_of("coverage", coverage, COVERAGES)
    bits = (channel.hit, channel.miss)
    if coverage == "pointwise":
        allowed = Allowance(alpha / 2, gamma)
        lower = lower_counts(support, n, *bits, alpha)
    else:
        # Capped budgets hold whatever the number of users.
        tuned = int((~sensitive_mask(domain, sensitive)).sum())
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
    """Wilson's lower limit of the number of users of each value (OneID Alg. 1, lines 3 to 5)."""
    gain = check_informative(hit, miss)
    rate = wilson(support.counts / support.n, normal_quantile(1 - alpha) ** 2 / support.n)[:, 0]
    return np.clip(n * (rate - miss) / gain, 0.0, n)


def exact_lower_counts(
    support: SupportCounts, n: int, hit: Floats, miss: Floats, level: float
) -> Floats:
    """Clopper and Pearson's one-sided lower limit of the number of users of each value."""
    gain = check_informative(hit, miss)
    t = support.counts
    raised, place = np.unique(t, return_inverse=True)
    rate = np.zeros(len(raised))
    some = raised > 0
    rate[some] = special.betaincinv(raised[some], support.n - raised[some] + 1.0, level)
    return np.clip(n * (rate[place] - miss) / gain, 0.0, n)


def _read_support(domain: Domain, n: int, reports: object, channel: PureChannel) -> SupportCounts:
    """Return the support counts of a first group, after checking that they fit these users."""
    if channel.domain != domain:
        raise AnonbayesError(f"The channel is for {channel.domain!r}, the budgets for {domain!r}.")
    support = channel.support_of(reports)
    if not 1 <= support.n <= n:
        raise AnonbayesError(
            f"{support.n} reports of a first group among n={n} users: there must be between 1 and "
            "n; n is the number of all users, including the first group."
        )
    return support


# -------------------------------------------------------------------------------------------------
# Budgets from a posterior: of reports, a survey, an estimate with draws, or a fitted table.

# Number of posterior draws used.
DRAWS = 1000


def from_posterior(
    domain: Domain,
    n: int,
    gamma: float,
    evidence: object,
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
        What is known about the counts:

        * with a `channel`, the reports (or `SupportCounts`) of a first group of the users;
        * a mapping, series or array: how many users of a first group have each value, in clear;
        * the `Posterior` of a released table with the attribute `domain`: the users are `n` new
          people from the same population;
        * an `Estimate` with posterior draws, likewise.
    channel : PureChannel, optional
        The first group's channel.
    alpha : float
        Error probability; its meaning depends on `coverage`.
    coverage : {"simultaneous", "pointwise"}
        "simultaneous" keeps the bound: the posterior expectation of the probability of identifying
        the sender of any report is at most ``gamma/n``, and with posterior probability
        ``1 - alpha`` not even a single report exceeds it. The level of the quantiles follows from
        these two requirements; it depends only on the number of values whose users are counted on.

        "pointwise" uses the quantile at `alpha`: each value that is counted on has fewer users with
        posterior probability `alpha`.
    weight : float
        For reports and surveys: total weight of the Dirichlet prior of the shares, spread evenly.
        The default, one, assumes that a few unknown values have most users, so a value is counted
        on only if it shows in the reports. Larger weights assume that users are spread more evenly.

    Notes
    -----
    For reports: a priori, the count of a value is beta-binomial with ``weight/K`` and
    ``weight (K-1)/K``; given the count ``c``, its support is ``Binomial(n0, b + (a-b) c/n)``. The
    posterior is summed exactly over counts, without sampling.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("x", range(4))
    >>> first = ab.budgets.worst_case(domain, n=10_000, gamma=50)
    >>> channel = ab.InputDiscriminativeUE.optimal(domain, first)
    >>> reports = channel.release([0] * 900 + [1] * 60 + [2] * 40, seed=1)
    >>> ab.budgets.from_posterior(domain, 10_000, 50, reports, channel).epsilon.round(2)
    array([ inf, 3.91, 3.91, 3.91])

    From an anonymized table, for a later survey of a thousand people:

    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> nationality = post.table.domains["Nat"]
    >>> ab.budgets.from_posterior(nationality, 1000, 20, post).epsilon.round(2)
    array([4.27,  inf, 3.76, 3.72])
    """
    check_bound(n, gamma)
    read_share("alpha", alpha, "an error probability")
    one_of("coverage", coverage, COVERAGES)
    if not 0 < read_number("weight", weight) < np.inf:
        raise AnonbayesError(f"weight={weight!r} of the prior must be positive and finite.")
    quantile = _quantiles(domain, n, evidence, channel, weight)
    if coverage == "pointwise":
        lower, allowed = quantile(alpha), Allowance(alpha, gamma)
    else:
        lower, allowed = _keep_bound(quantile, alpha, n, gamma, ~sensitive_mask(domain, sensitive))
    # A value that is not counted on cannot be wrong, so it needs no allowance for errors.
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
    domain: Domain, n: int, evidence: object, channel: PureChannel | None, weight: float
) -> Callable[[float], Floats]:
    """Lower quantiles of all counts as a function of their level, for any kind of evidence."""
    if channel is not None:
        support = _read_support(domain, n, evidence, channel)
        hit, miss = channel.hit, channel.miss
    elif isinstance(evidence, Posterior | Estimate):
        shares = _share_draws(domain, evidence)
        return lambda level: predictive_quantile(shares, n, level)
    else:
        support = _survey(domain, n, evidence)
        hit, miss = np.ones(len(domain)), np.zeros(len(domain))
    return lambda level: count_quantile(support, n, hit, miss, level, weight)


def _keep_bound(
    quantile: Callable[[float], Floats], alpha: float, n: int, gamma: float, tuned: Mask
) -> tuple[Floats, Allowance]:
    """Quantiles at the level that keeps the bound; only values counted on can be wrong.

    A value counted on for a single user is never wrong about a sender. A posterior needs no
    correction for selecting the others by the data, and a lower level does not select more of them.
    """
    allowed = allow_errors(alpha, n, gamma, 1)
    lower = quantile(allowed.level)
    counted_on = int(((lower > 1) & tuned).sum())
    stricter = allow_errors(alpha, n, gamma, counted_on)
    if stricter.level < allowed.level:
        return quantile(stricter.level), stricter
    return lower, allowed


def _survey(domain: Domain, n: int, counts: object) -> SupportCounts:
    held = value_array("evidence", counts, domain, default=0.0)
    check_counts("evidence", held, domain, n)
    respondents = float(held.sum())
    if not 1 <= respondents <= n or (held != np.round(held)).any():
        raise AnonbayesError(
            f"The counts sum to {respondents:g}; give numbers of between 1 and n={n} users."
        )
    return SupportCounts(held.astype(np.int64), int(respondents))


def _share_draws(domain: Domain, evidence: Posterior | Estimate) -> Floats:
    """Draws of the shares of the domain's values, shape (draws, K), thinned to `DRAWS`."""
    if isinstance(evidence, Estimate):
        if evidence.draws is None or evidence.domain != domain:
            raise AnonbayesError(
                "The estimate has no posterior draws of this domain; estimate it with "
                "method='bayes'."
            )
        shares = evidence.draws.transpose("chain", "draw", ...)
    else:
        known, secret = evidence.table.domains, evidence.table.sensitive
        if domain.name not in known or known[domain.name] != domain:
            raise AnonbayesError(
                f"{domain!r} is not an attribute of the table; use one of its own domains: "
                f"{', '.join(known)} (post.table.domains)."
            )
        shares = evidence.draws[f"pi_{secret}"]
        if domain.name != secret:
            shares = (shares * evidence.draws[f"pi_{domain.name}"]).sum(secret)
        shares = shares.transpose("chain", "draw", domain.name)
    array = np.asarray(shares.to_numpy()).reshape(-1, len(domain))
    return array[:: max(1, len(array) // DRAWS)]


# -------------------------------------------------------------------------------------------------
# The two-phase protocol: a first group under the worst case, the others with tuned budgets.

RULES: dict[str, Callable[..., Budgets]] = {
    "confidence": from_confidence,
    "posterior": from_posterior,
}


@dataclass(frozen=True, eq=False)
class Collection:
    """Result of the two-phase protocol for the collector.

    Attributes
    ----------
    estimate : Estimate
        Shares of the values from both groups, with confidence limits.
    budgets : tuple of Budgets
        Budgets of the first group (worst case) and of the others (tuned).
    channels : tuple of InputDiscriminativeUE
        Their channels.
    support : tuple of SupportCounts
        Their reports, counted.
    first : ndarray of bool
        Mask of the users in the first group.
    """

    estimate: Estimate
    budgets: tuple[Budgets, Budgets]
    channels: tuple[InputDiscriminativeUE, InputDiscriminativeUE]
    support: tuple[SupportCounts, SupportCounts] = field(repr=False)
    first: Mask = field(repr=False)

    def summary(self) -> pd.DataFrame:
        """Return one row per value: estimated number of users, limits, and both budgets."""
        n = self.budgets[0].n
        shares = self.estimate.summary() * n
        frame = shares.rename(columns={"p": "users"})
        for name, tuned in zip(("first", "second"), self.budgets, strict=True):
            frame[f"epsilon_{name}"] = tuned.epsilon
        return frame

    def _repr_html_(self) -> str:
        return self.summary().to_html(max_rows=20)


def collect(
    domain: Domain,
    values: Iterable[object],
    gamma: float,
    *,
    first: float = 0.1,
    rule: str = "confidence",
    alpha: float = 0.05,
    coverage: str = "simultaneous",
    sensitive: Iterable[object] = (),
    cap: float = 1.0,
    notion: str = "oneid",
    level: float = 0.95,
    seed: Seed = None,
) -> Collection:
    """Run the two-phase protocol on the users' true values (OneID Sec. IV-F).

    A random first group reports under worst-case budgets. Its reports give lower bounds on the
    popularity of the values; the others report with the budgets that these allow. The estimates of
    both groups are combined by inverse variance.

    Parameters
    ----------
    domain : Domain
        The values.
    values : iterable
        True value of each user. In practice every user's device has its own value: release with the
        two channels there, and put the reports together with `combine`.
    gamma : float
        No report may identify its sender with a probability above ``gamma/n``.
    first : float
        Share of the users in the first group.
    rule : {"confidence", "posterior"}
        How the first group's reports are turned into budgets.
    alpha : float
        The rule's error probability.
    coverage : {"simultaneous", "pointwise"}
        As in `from_confidence` and `from_posterior`; "simultaneous" keeps the bound.
    sensitive, cap
        As in `worst_case`; they hold for both groups.
    notion : {"oneid", "minid"}
        Which pairs a budget protects.
    level : float
        Probability of the confidence limits.
    seed : int, numpy.random.Generator or None
        Seed; None uses the operating system's secure random source.

    Notes
    -----
    As in the paper, the attacker knows everybody's value but not who reported first. Against
    someone who does, a report of the first group hides its sender only among that group, and the
    bound is `gamma` divided by the group's size.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("x", ["a", "b", "c"])
    >>> both = ab.budgets.collect(domain, ["a"] * 1500 + ["b"] * 450 + ["c"] * 50, 10, seed=3)
    >>> both.budgets[1].epsilon.round(1)
    array([inf, 2.9, 2.3])
    >>> both.estimate.p.round(1).tolist()
    [0.7, 0.2, 0.0]
    """
    one_of("rule", rule, RULES)
    one_of("coverage", coverage, COVERAGES)
    chosen = sensitive_mask(domain, sensitive)
    codes = domain.encode(values).astype(np.int64)
    n = len(codes)
    if n < 2:
        raise AnonbayesError(f"The two-phase protocol needs at least two users, not {n}.")
    check_bound(n, gamma)
    read_share("first", first, "the first group's share")
    size = min(max(round(first * n), 1), n - 1)
    rng = None if seed is None else generator(seed, "collect", domain.name)
    in_first = np.zeros(n, dtype=bool)
    in_first[np.random.default_rng(rng).choice(n, size, replace=False)] = True

    start = worst_case(domain, n, gamma, sensitive=chosen, cap=cap)
    begin = InputDiscriminativeUE.optimal(domain, start, notion)
    early = begin.collect(codes[in_first], seed=rng)
    settings = {"coverage": coverage, "sensitive": chosen, "cap": cap}
    tuned = RULES[rule](domain, n, gamma, early, begin, alpha, **settings)
    then = InputDiscriminativeUE.optimal(domain, tuned, notion)
    late = then.collect(codes[~in_first], seed=rng)
    return Collection(
        combine([(begin, early), (then, late)], level=level),
        (start, tuned),
        (begin, then),
        (early, late),
        in_first,
    )


def combine(parts: Sequence[tuple[PureChannel, object]], *, level: float = 0.95) -> Estimate:
    """One estimate from groups of users with different channels, by inverse variance.

    Parameters
    ----------
    parts : sequence of (channel, reports)
        The groups; reports may be given as `SupportCounts`.
    level : float
        Probability of the confidence limits (score test; for one group Wilson's).

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("x", ["a", "b"])
    >>> weak, strong = ab.RAPPOR(domain, 1.0), ab.RAPPOR(domain, 4.0)
    >>> values = ["a"] * 700 + ["b"] * 300
    >>> reports = [weak.release(values, seed=1), strong.release(values, seed=2)]
    >>> ab.budgets.combine([(weak, reports[0]), (strong, reports[1])]).p.round(1)
    array([0.7, 0.3])
    """
    parts = list_of("parts", parts)
    if not parts or any(not isinstance(part, tuple | list) or len(part) != 2 for part in parts):
        raise AnonbayesError("Give at least one group, as (channel, reports).")
    domain = parts[0][0].domain
    for channel, _ in parts:
        if channel.domain != domain:
            raise AnonbayesError(
                f"The groups have different domains: {domain!r}, {channel.domain!r}."
            )
    supports = [channel.support_of(reports) for channel, reports in parts]
    counts = np.stack([s.counts for s in supports]).astype(float)
    sizes = np.array([s.n for s in supports])
    if (sizes == 0).any():
        raise AnonbayesError("A group has no reports; leave it out.")
    hit = np.stack([channel.hit for channel, _ in parts])
    miss = np.stack([channel.miss for channel, _ in parts])
    return Estimate(
        domain,
        "inverse variance",
        int(sizes.sum()),
        inverse_variance(counts, sizes, hit, miss),
        interval=score_interval(counts, sizes, hit, miss, level),
        level=level,
    )
