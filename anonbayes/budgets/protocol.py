"""The two-phase protocol: a first group under the worst case, the others with tuned budgets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from anonbayes.arrays import Mask, read_share
from anonbayes.budgets.first_group import COVERAGES, from_confidence, from_posterior
from anonbayes.budgets.tuning import Budgets, check_bound, worst_case
from anonbayes.channels.discriminative import InputDiscriminativeUE
from anonbayes.channels.pure import PureChannel
from anonbayes.channels.randomness import Seed, generator
from anonbayes.channels.reports import SupportCounts
from anonbayes.domains import Domain, list_of
from anonbayes.errors import AnonbayesError, one_of
from anonbayes.estimation.closed_forms import Estimate, inverse_variance, score_interval
from anonbayes.notions.ldp import sensitive_mask

RULES: dict[str, Callable[..., Budgets]] = {
    "confidence": from_confidence,
    "posterior": from_posterior,
}


@dataclass(frozen=True, eq=False)
class Collection:
    """What the two-phase protocol leaves with the collector.

    Attributes
    ----------
    estimate : Estimate
        Shares of the values from both groups, with confidence limits.
    budgets : tuple of Budgets
        Of the first group (worst case) and of the others (tuned).
    channels : tuple of InputDiscriminativeUE
        Their channels.
    support : tuple of SupportCounts
        Their reports, counted.
    first : ndarray of bool
        Who was in the first group.
    """

    estimate: Estimate
    budgets: tuple[Budgets, Budgets]
    channels: tuple[InputDiscriminativeUE, InputDiscriminativeUE]
    support: tuple[SupportCounts, SupportCounts] = field(repr=False)
    first: Mask = field(repr=False)

    def summary(self) -> pd.DataFrame:
        """One row per value: estimated number of users, limits, and both budgets."""
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

    A random first group reports under worst-case budgets. Its reports tell how popular the values
    are, at least; with the budgets that this allows the others report. The estimates of both
    groups are combined by inverse variance.

    Parameters
    ----------
    domain : Domain
        The values.
    values : iterable
        True value of each user. In the field every user's device holds its own: there, release
        with the two channels and put the reports together with `combine`.
    gamma : float
        No report may name its sender with a probability above ``gamma/n``.
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
        Of the confidence limits.
    seed : int, numpy.random.Generator or None
        None draws from the operating system's secure source.

    Notes
    -----
    As in the paper the attacker knows everybody's value, but not who reported first. Against one
    who does, a report of the first group hides its sender among that group only: the bound is
    `gamma` over the group's size.

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
        raise AnonbayesError(f"Two phases need at least two users, got {n}.")
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
        Of the confidence limits (score test; for one group Wilson's).

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
            raise AnonbayesError(f"Groups on different domains: {domain!r}, {channel.domain!r}.")
    supports = [channel.support_of(reports) for channel, reports in parts]
    counts = np.stack([s.counts for s in supports]).astype(float)
    sizes = np.array([s.n for s in supports])
    if (sizes == 0).any():
        raise AnonbayesError("A group without reports; leave it out.")
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
