"""Estimates of a distribution, and the closed-form estimators."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from html import escape
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Floats, read_numbers, read_share, read_whole
from anonbayes.domains import Domain, by_value, check_domain
from anonbayes.errors import ChannelError, one_of

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr


# Smaller differences of probabilities, when squared, would make estimates overflow.
LEAST_GAIN = 1e-100

# -------------------------------------------------------------------------------------------------
# The result of estimating a distribution from reports.


@dataclass(frozen=True)
class Estimate:
    """Estimated distribution of the true values.

    Attributes
    ----------
    domain : Domain
        The values.
    method : str
        The estimator.
    n : int
        Number of reports.
    p : ndarray, shape (K,)
        The estimate, in domain order. Entries of the empirical estimator may be negative.
    interval : ndarray, shape (K, 2), or None
        Lower and upper limit for each value: confidence limits (Wilson's, for the share of
        supporting reports), widened to include the estimate if it lies outside. For
        ``method="bayes"``, equal-tailed credible limits; with a learned prior they are widened to
        include the confidence limits, because a prior that treats all values alike would miss the
        largest shares if noise prevails.
    level : float
        Probability of `interval`.
    log_likelihood : float or None
        Log-likelihood at `p`, if `p` is a distribution.
    path : ndarray or None
        Log-likelihood before each EM iteration.
    iterations : int
        Number of EM passes over the reports.
    converged : bool
        Whether the iteration reached its tolerance (always true for closed forms).
    gap : float
        Upper bound on how much the log-likelihood could still increase, if computed.
    r_hat, ess : float
        For ``method="bayes"``, the largest R-hat and the smallest effective sample size.
    misfit : float
        Upper bound on the probability of reports that fit this badly; NaN if unknown.
    draws : xarray.DataArray or None
        Posterior draws with dims ``(chain, draw, <domain name>)``.
    intermediate : Estimate or None
        For personalized channels, the estimate over values and tags.
    """

    domain: Domain
    method: str
    n: int
    p: Floats
    interval: Floats | None = None
    level: float = 0.95
    log_likelihood: float | None = None
    path: Floats | None = field(default=None, repr=False)
    iterations: int = 0
    converged: bool = True
    gap: float = float("nan")
    r_hat: float = float("nan")
    ess: float = float("nan")
    misfit: float = float("nan")
    draws: xr.DataArray | None = field(default=None, repr=False)
    intermediate: Estimate | None = field(default=None, repr=False)

    def to_series(self) -> pd.Series:
        """Return the estimate as a series over the domain's values."""
        import pandas as pd

        index = pd.Index(self.domain.values, name=self.domain.name)
        return pd.Series(self.p, index=index, name="p")

    def summary(self) -> pd.DataFrame:
        """Return a table with one row per value: estimate and limits.

        Examples
        --------
        >>> import anonbayes as ab
        >>> channel = ab.RandomizedResponse(ab.Domain("answer", ["yes", "no"]), epsilon=2.0)
        >>> reports = ["yes"] * 300 + ["no"] * 700
        >>> channel.estimate(reports, method="empirical").summary().round(2).reset_index()
          answer     p  lower  upper
        0    yes  0.24   0.20   0.28
        1     no  0.76   0.72   0.80
        """
        frame = self.to_series().to_frame()
        if self.interval is not None:
            frame["lower"], frame["upper"] = self.interval.T
        return frame

    def consistent(self) -> Estimate:
        """Return the nearest distribution (Norm-Sub); distributions are returned unchanged.

        Examples
        --------
        >>> import anonbayes as ab
        >>> channel = ab.RandomizedResponse(ab.Domain("answer", ["yes", "no"]), epsilon=2.0)
        >>> raw = channel.estimate(["yes"] * 5 + ["no"] * 95, method="empirical")
        >>> raw.p.round(2).tolist(), raw.consistent().p.tolist()
        ([-0.09, 1.09], [0.0, 1.0])
        """
        p = norm_sub(self.p)
        limits = None if self.interval is None else around(np.clip(self.interval, 0.0, 1.0), p)
        return replace(self, p=p, interval=limits)

    def from_draws(self, shares: Floats) -> Estimate:
        """Return means and limits of posterior draws of shape (chains, draws, K)."""
        import xarray as xr

        name, tails = self.domain.name, [(1 - self.level) / 2, (1 + self.level) / 2]
        draws = xr.DataArray(
            shares,
            dims=("chain", "draw", name),
            coords={name: list(self.domain.labels)},
            name="p",
        )
        limits = np.quantile(shares, tails, axis=(0, 1)).T
        return replace(self, p=shares.mean(axis=(0, 1)), interval=limits, draws=draws)

    def _repr_html_(self) -> str:
        title = f"{self.method} estimate of {self.domain.name} from {self.n:,} reports"
        return f"<b>{escape(title)}</b>{self.summary().to_html(max_rows=20)}"


# -------------------------------------------------------------------------------------------------
# Closed-form estimators from support counts.
#
# Every pure channel supports value ``x`` with probability ``hit[x]`` when the user holds ``x`` and
# ``miss[x]`` otherwise, so the share of supporting reports has mean ``miss + (hit - miss) p``.


def empirical(counts: npt.ArrayLike, n: int, hit: Floats, miss: Floats) -> Floats:
    """Unbiased estimate ``(c/n - miss) / (hit - miss)`` (ULDP (3), solved)."""
    gain = check_informative(hit, miss)
    return (np.asarray(counts) / n - miss) / gain


def significance_threshold(n: int, hit: Floats, miss: Floats, *, alpha: float = 0.05) -> Floats:
    """Largest estimate that noise alone would explain, with Bonferroni's correction.

    ``z(1 - alpha/K)`` standard deviations of the estimate of a value that nobody has; zero for a
    value whose support is proof (``miss = 0``).
    """
    chance = read_share("alpha", alpha, "a significance level", error=ChannelError)
    quantile = -NormalDist().inv_cdf(chance / len(hit))
    return quantile * np.sqrt(miss * (1 - miss) / n) / check_informative(hit, miss)


def threshold(estimate: Floats, limit: Floats, *, remainder: str = "uniform") -> Floats:
    """Keep only the empirical estimates above their significance limits.

    The remainder is divided evenly among the other values so that the sum is one (ULDP), or dropped
    with ``"zero"`` (PIE). If the kept estimates sum to more than one, or no other value remains,
    they are scaled to sum to one.
    """
    one_of("remainder", remainder, ("uniform", "zero"))
    kept = estimate > limit
    out = np.where(kept, estimate, 0.0)
    if remainder == "zero":
        return out
    rest = 1.0 - out.sum()
    if rest > 0 and not kept.all():
        out[~kept] = rest / (~kept).sum()
    return out / out.sum()


def norm_sub(estimate: npt.ArrayLike) -> Floats:
    """Nearest distribution: negative shares become zero, and the others change by the same amount.

    The consistency step Norm-Sub of Wang et al. (2020): a projection, computed with one sort.
    """
    shares = np.asarray(estimate, dtype=float)
    descending = np.sort(shares)[::-1]
    excess = (np.cumsum(descending) - 1.0) / np.arange(1, len(shares) + 1)
    shift = excess[np.flatnonzero(descending > excess)[-1]]
    return np.maximum(shares - shift, 0.0)


def water_filling(counts: npt.ArrayLike, floor: Floats, gain: Floats) -> Floats:
    """Maximum-likelihood distribution when each report names one value, in ``O(K log K)``.

    The maximum of ``sum c_y log(floor_y + gain_y p_y)`` is at ``p_y = max(h_y / level - floor_y /
    gain_y, 0)``; the level follows from one sort, because the values with ``p_y > 0`` are those
    with the largest ``h_y gain_y / floor_y`` (MODEL 2).
    """
    shares = np.asarray(counts, dtype=float)
    shares = shares / shares.sum()
    ratio = floor / gain
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        key = np.where(shares > 0, np.where(ratio > 0, shares / ratio, np.inf), -np.inf)
    order = np.argsort(-key, kind="stable")
    levels = np.cumsum(shares[order]) / (1.0 + np.cumsum(ratio[order]))
    # Values enter in this order as long as their own level is above the common one.
    active = int(np.flatnonzero(key[order] >= levels)[-1])
    p = np.maximum(shares / levels[active] - ratio, 0.0)
    return p / p.sum()


def share_interval(
    counts: npt.ArrayLike, n: int, hit: Floats, miss: Floats, level: float
) -> npt.NDArray[np.float64]:
    """Confidence limits of each probability: Wilson's limits of the supporting share, mapped.

    Returns an array of shape (K, 2), clipped to [0, 1]. See `around` for estimates outside.
    """
    check_level(level)
    limits = wilson(np.asarray(counts) / n, normal_quantile(level) ** 2 / n)
    gain = check_informative(hit, miss)
    return np.clip((limits - miss[:, None]) / gain[:, None], 0.0, 1.0)


def wilson(share: Floats, z2: Floats | float) -> Floats:
    """Wilson's limits of a share, shape (..., 2); `z2` is the squared quantile per report."""
    centre = (share + z2 / 2) / (1 + z2)
    half = np.sqrt(z2 * (share * (1 - share) + z2 / 4)) / (1 + z2)
    return np.stack([centre - half, centre + half], axis=-1)


def normal_interval(p: Floats, half: Floats) -> Floats:
    """Limits at a distance of `half`, within [0, 1] unless the estimate itself is not."""
    return around(np.clip(np.stack([p - half, p + half], axis=1), 0.0, 1.0), p)


def shares_of(p: object, domain: Domain, argument: str = "p") -> Floats:
    """Return shares in domain order; labelled ones must have every value (else `DomainError`)."""
    check_domain(domain)
    return check_distribution(by_value(p, domain, what=argument), len(domain), argument)


def around(interval: Floats, *inside: Floats) -> Floats:
    """Interval widened to contain other estimates or limits of the same shares."""
    columns = [interval, *(np.reshape(more, (len(interval), -1)) for more in inside)]
    every = np.concatenate(columns, axis=1)
    return np.stack([every.min(axis=1), every.max(axis=1)], axis=1)


def misfit(counts: npt.ArrayLike, n: int, hit: Floats, miss: Floats) -> float:
    """Upper bound on the probability of support counts this far from every distribution.

    Shares below zero or above one can only be due to noise: the sum of their squared standard
    scores is stochastically smaller than a chi-square variable with as many degrees of freedom as
    values. Also, the shares sum to one up to noise of known size. Returns twice the smaller tail
    probability.
    """
    from math import erfc, sqrt

    from scipy import special

    share = np.asarray(counts) / n
    low = np.minimum(share - miss, 0.0) / np.sqrt(np.maximum(miss * (1 - miss), 1e-12) / n)
    high = np.maximum(share - hit, 0.0) / np.sqrt(np.maximum(hit * (1 - hit), 1e-12) / n)
    outside = float(special.chdtrc(len(hit), float(low @ low + high @ high)))
    gain = hit - miss
    if not (gain > LEAST_GAIN).all():
        return min(1.0, outside)
    # The sum of a user's unbiased shares is one plus the noise of all bits but the user's own.
    noise = float(np.sum(miss * (1 - miss) / gain**2)) + float(np.max(hit * (1 - hit) / gain**2))
    spread = sqrt(noise / n)
    score = abs(float(np.sum((share - miss) / gain)) - 1.0) / spread if spread else 0.0
    return min(1.0, 2.0 * min(outside, erfc(score / sqrt(2.0))))


def check_distribution(p: npt.ArrayLike, size: int, argument: str = "p") -> Floats:
    """Return `p` as an array; raise `ChannelError` unless it is a distribution of that size."""
    array = read_numbers(argument, p, error=ChannelError)
    if array.shape != (size,):
        raise ChannelError(
            f"{argument} must hold one probability for each of the {size} values, "
            f"got an array of shape {array.shape}."
        )
    if not np.isfinite(array).all() or (array < 0).any():
        bad = int(np.flatnonzero(~np.isfinite(array) | (array < 0))[0])
        raise ChannelError(f"{argument}[{bad}] = {array[bad]!r} is not a probability.")
    if abs(array.sum() - 1.0) > 1e-6:
        raise ChannelError(f"{argument} sums to {array.sum():.9g}, not to 1.")
    return array


def check_level(level: float) -> None:
    """Raise `ChannelError` unless the level of an interval lies between 0 and 1."""
    read_share("level", level, "the probability of an interval", error=ChannelError)


def check_informative(hit: Floats, miss: Floats) -> Floats:
    """Return ``hit - miss``; raise `ChannelError` if it is zero, or almost, for some value."""
    gain = hit - miss
    if not (gain > LEAST_GAIN).all():
        raise ChannelError(
            "The reports carry no information about some value (its report is just as likely from "
            "another value, as with epsilon = 0); only method='bayes' can be used, with the prior."
        )
    return gain


# -------------------------------------------------------------------------------------------------
# One estimate from several groups of users whose channels differ.
#
# Group ``g`` of ``n_g`` users supports a value with probability ``r_g(p) = miss_g + gain_g p``. The
# groups' empirical estimates are weighted by their inverse variances ``n_g gain_g^2/(r_g
# (1-r_g))``. The limits invert the score test: all ``p`` with ``|S(p)| <= z sqrt(I(p))``,
#
#     S = sum_g (t_g - n_g r_g) gain_g / (r_g (1-r_g)),   I = sum_g n_g gain_g^2 / (r_g (1-r_g)),
#
# which for a single group are Wilson's limits.


def inverse_variance(counts: Floats, n: Floats, hit: Floats, miss: Floats) -> Floats:
    """Inverse-variance weighted empirical estimate of each value's share.

    All variances are computed at a common estimate, refined three times; at each group's own
    estimate, a group that happens to be low would get too much weight.
    """
    gain = check_informative(hit, miss)
    size = np.asarray(n, dtype=float)[:, None]
    single = (counts / size - miss) / gain
    share = np.clip(np.average(single, axis=0, weights=size[:, 0]), 0.0, 1.0)
    estimate = share
    for _ in range(3):
        weight = size * gain**2 / _variance(share, size, gain, miss)
        estimate = (weight * single).sum(axis=0) / weight.sum(axis=0)
        share = np.clip(estimate, 0.0, 1.0)
    return estimate


def score_interval(counts: Floats, n: Floats, hit: Floats, miss: Floats, level: float) -> Floats:
    """Limits of each share from the score test, within [0, 1]; shape (K, 2)."""
    check_level(level)
    gain = check_informative(hit, miss)
    size = np.asarray(n, dtype=float)[:, None]
    z = normal_quantile(level)

    def score(share: Floats) -> Floats:
        variance = _variance(share, size, gain, miss)
        total = ((counts - size * (miss + gain * share)) * gain / variance).sum(axis=0)
        return total / np.sqrt((size * gain**2 / variance).sum(axis=0))

    middle = np.clip(inverse_variance(counts, n, hit, miss), 0.0, 1.0)
    limits = []
    for end, sign in ((0.0, 1.0), (1.0, -1.0)):
        # The score falls in p: it exceeds z below the lower limit, -z above the upper one.
        outside, inside = np.full(len(middle), end), middle.copy()
        open_end = sign * score(outside) <= z
        for _ in range(60):
            half = 0.5 * (outside + inside)
            far = sign * score(half) > z
            outside, inside = np.where(far, half, outside), np.where(far, inside, half)
        limits.append(np.where(open_end, end, outside))
    return np.stack(limits, axis=-1)


def _variance(share: Floats, size: Floats, gain: Floats, miss: Floats) -> Floats:
    """``r (1-r)``, kept above zero (a millionth of a report) so that it can be divided by."""
    rate = miss + gain * share
    return np.maximum(rate * (1 - rate), 1e-6 / size)


def normal_quantile(level: float) -> float:
    """Half width of a normal interval in standard errors."""
    return NormalDist().inv_cdf(0.5 + level / 2)


def student_quantile(level: float, freedom: int) -> float:
    """Half width of Student's interval in standard errors."""
    from scipy import special

    return float(special.stdtrit(freedom, 0.5 + level / 2))


# -------------------------------------------------------------------------------------------------
# Expected and worst-case losses of the empirical estimator, for any pure channel.
#
# The supporting share of value ``x`` has mean ``r = miss + gain p`` and variance ``r (1 - r) / n``,
# so with ``gain = hit - miss``
#
#     E l2 = (1/n) sum r (1 - r) / gain^2          (exact),
#     E l1 ~ sqrt(2 / (pi n)) sum sqrt(r (1 - r)) / gain   (normal approximation).
#
# ULDP Props. 4, 7, 15 and 18 are special cases. Both are concave in ``p``, so their maximisers
# follow from the conditions of Lagrange and Kuhn-Tucker, and cover ULDP Props. 5, 6, 8, 16, 17
# and 19 without their side conditions on epsilon and on the size of the sensitive set.

NORMS = ("l1", "l2")


def variances(p: Floats, n: int, hit: Floats, miss: Floats, *, sampled: bool = True) -> Floats:
    """Variance of each value's empirical share.

    With ``sampled=False``, `p` holds the frequencies among the `n` users themselves: the error of
    drawing them, ``p (1 - p) / n``, is left out (PIE Props. 15 and 16).
    """
    number = read_whole("n", n, least=1, error=ChannelError)
    gain = check_informative(hit, miss)
    rate = miss + gain * p
    spread = rate * (1 - rate) if sampled else p * hit * (1 - hit) + (1 - p) * miss * (1 - miss)
    return np.maximum(spread, 0.0) / gain**2 / number


def expected_loss(
    p: Floats, n: int, hit: Floats, miss: Floats, *, norm: str = "l2", sampled: bool = True
) -> float:
    """Return the expected ``sum |p_hat - p|`` (l1) or ``sum (p_hat - p)^2`` (l2)."""
    one_of("norm", norm, NORMS)
    variance = variances(p, n, hit, miss, sampled=sampled)
    return float(variance.sum() if norm == "l2" else np.sqrt(2 * variance / np.pi).sum())


def worst_case_distribution(hit: Floats, miss: Floats, *, norm: str = "l2") -> Floats:
    """Distribution with the largest expected loss.

    l2: the loss is ``const + sum p (1 - 2 miss)/gain - sum p^2``, so the maximiser is the point of
    the simplex nearest to ``(1 - 2 miss) / (2 gain)``. l1: at the maximum all values with ``p > 0``
    have the same rate ``r``, and the others a ``miss`` above it.
    """
    one_of("norm", norm, NORMS)
    gain = check_informative(hit, miss)
    if norm == "l2":
        return _fill(-(1 - 2 * miss) / (2 * gain), np.ones_like(gain))
    return _fill(miss, 1.0 / gain)


def _fill(start: Floats, slope: Floats) -> Floats:
    """Distribution ``max((level - start) * slope, 0)``, with the level that makes it sum to one."""
    order = np.argsort(start, kind="stable")
    slopes = np.cumsum(slope[order])
    levels = (1.0 + np.cumsum(start[order] * slope[order])) / slopes
    active = int(np.flatnonzero(levels > start[order])[-1])
    p = np.maximum((levels[active] - start) * slope, 0.0)
    return p / p.sum()
