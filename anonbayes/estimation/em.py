"""Expectation-maximization: plain, accelerated, with smoothing, and of a prior for many shares."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from anonbayes.arrays import Floats, Ints, Mask, read_number, read_numbers, read_whole
from anonbayes.errors import ChannelError
from anonbayes.estimation.closed_forms import (
    around,
    check_distribution,
    check_informative,
    normal_quantile,
)
from anonbayes.estimation.likelihood import MatrixLikelihood, SimplexLikelihood

# Share of the uniform distribution mixed into a start: EM never leaves a zero.
UNIFORM_SHARE = 1e-3

# Passes over the reports between checks of which values still matter.
BOUT = 24


class Fixpoint(NamedTuple):
    """Result of an iteration, and how it was reached."""

    p: Floats
    log_likelihood: float
    path: Floats
    iterations: int
    converged: bool
    gap: float


def starting_point(p: npt.ArrayLike | None, size: int) -> Floats:
    """Distribution near `p` without zeros: negative entries are cut, a little is spread evenly."""
    uniform = np.full(size, 1.0 / size)
    if p is None:
        return uniform
    array = read_numbers("start", p, error=ChannelError)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise ChannelError(f"start= needs one finite number for each of the {size} values.")
    positive = np.maximum(array, 0.0)
    if positive.sum() == 0:
        return uniform
    return (1 - UNIFORM_SHARE) * positive / positive.sum() + UNIFORM_SHARE * uniform


def reconstruct(
    likelihood: SimplexLikelihood,
    start: npt.ArrayLike,
    *,
    iterations: int = 1000,
    tolerance: float = 1e-5,
) -> Fixpoint:
    """Plain EM ("iterative Bayesian reconstruction"): each iteration raises the likelihood.

    `start` has no zeros, see `starting_point`. Stops after `iterations` iterations, which
    regularises, or if the log-likelihood can increase by at most `tolerance` **per report**,
    according to its certified bound (`SimplexLikelihood.step`).
    """
    p = check_distribution(start, likelihood.size, "start")
    _check_limits(iterations, tolerance)
    path, gap, converged = [], np.inf, False
    for _ in range(iterations):
        updated, log_likelihood, gap = likelihood.step(p)
        path.append(log_likelihood)
        if gap <= tolerance * likelihood.n:
            converged = True
            break
        p = updated
    return Fixpoint(p, likelihood.log(p), np.array(path), len(path), converged, gap)


def maximize(
    likelihood: SimplexLikelihood,
    start: npt.ArrayLike,
    *,
    iterations: int = 5000,
    tolerance: float = 1e-5,
) -> Fixpoint:
    """Maximum likelihood by accelerated EM on the values that matter.

    Squared extrapolation (`_climb`) takes long steps. In between, values with almost no share whose
    gradient points outwards are set aside, and return when it turns (the maximum has many zeros,
    and a pass then costs only the remaining values). Convergence is judged on all values.
    Parameters are as in `reconstruct`; `iterations` counts passes over the reports.
    """
    p = check_distribution(start, likelihood.size, "start")
    _check_limits(iterations, tolerance)
    target = tolerance * likelihood.n
    end = _climb(likelihood, p, min(BOUT, iterations), target)
    path, passes = [end.path], end.iterations
    while not end.converged and passes + BOUT <= iterations:
        p = end.p
        gradient, _ = likelihood.gradient(p)
        passes += 1
        keep = (p * likelihood.n > 0.05) | (gradient > likelihood.n)
        inner = None
        if keep.mean() < 0.7:
            begin = np.maximum(p[keep], 0.01 / likelihood.n)
            part = likelihood.restrict(keep)
            inner = _climb(
                part, begin / begin.sum(), min(4 * BOUT, iterations - passes), target / 2
            )
            passes += inner.iterations
        if inner is None or inner.log_likelihood < end.log_likelihood:
            end = _climb(likelihood, p, min(BOUT, iterations - passes), target)
            passes += end.iterations
            path.append(end.path)
            continue
        p = np.zeros(likelihood.size)
        p[keep] = inner.p
        gradient, value = likelihood.gradient(p)
        passes += 1
        gap = float(gradient.max() - likelihood.n)
        path.append(np.array([value]))
        end = Fixpoint(p, value, np.empty(0), 0, gap <= target, gap)
    return Fixpoint(end.p, end.log_likelihood, np.concatenate(path), passes, end.converged, end.gap)


def _climb(likelihood: SimplexLikelihood, p: Floats, iterations: int, target: float) -> Fixpoint:
    """EM with squared extrapolation until the gap is at most `target`; the path never falls.

    Two EM steps give a direction and its curvature; the extrapolated point is kept if it does not
    lower the likelihood: SQUAREM, scheme S3 (Varadhan and Roland 2008, Scand. J. Statist. 35).
    """
    first, value, gap = likelihood.step(p)
    path, passes, converged = [value], 1, gap <= target
    longest = 4.0
    while not converged and passes + 2 <= iterations:
        second, value_first, gap = likelihood.step(first)
        passes += 1
        path.append(value_first)
        if gap <= target:
            p, value, converged = first, value_first, True
            break
        change = first - p
        bend = (second - first) - change
        size, curvature = np.linalg.norm(change), np.linalg.norm(bend)
        stride = 1.0 if curvature == 0 else float(np.clip(size / curvature, 1.0, longest))
        leap = p + 2 * stride * change + stride**2 * bend
        # Steps beyond the simplex stop short of its faces, at a tenth of the EM step.
        leap = np.maximum(leap, 0.1 * second)
        leap /= leap.sum()
        after_leap, value_leap, gap_leap = likelihood.step(leap)
        passes += 1
        if value_leap >= value_first:
            if stride == longest:
                longest *= 4.0
            p, first, value, gap = leap, after_leap, value_leap, gap_leap
        else:
            longest = max(longest / 2.0, 1.0)
            first, value, gap = likelihood.step(second)
            p = second
            passes += 1
        path.append(value)
        converged = gap <= target
    return Fixpoint(p, value, np.array(path), passes, bool(converged), gap)


def _check_limits(iterations: int, tolerance: float) -> None:
    read_whole("iterations", iterations, least=1, error=ChannelError)
    if not read_number("tolerance", tolerance, error=ChannelError) >= 0:
        raise ChannelError(f"tolerance={tolerance!r} must not be negative.")


# -------------------------------------------------------------------------------------------------
# EM with smoothing (Li et al. 2020, 5.3, after Silverman et al. 1990): because neighbours have
# similar shares, every iteration ends by averaging each share with its two neighbours. The best
# strength depends on the number of bins, on the reports and on the population; see `smoothed`.

#: Strengths of smoothing that are tried, the smoothest first: numbers of averages in an iteration,
#: and below one the share of the average in it.
STRENGTHS = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)


class Smoothed(NamedTuple):
    """Result of EM with smoothing, its strength, and limits of the shares."""

    end: Fixpoint
    strength: float
    interval: Floats | None


def smooth(p: Floats, strength: float = 1.0) -> Floats:
    """Average of each share and its neighbours with weights 1, 2, 1; the sum stays.

    `strength` is the weight of the average in the result; above one, how often it is applied.
    Further axes are smoothed along with the first.
    """
    if len(p) < 2:
        return p
    for _ in range(max(1, round(strength))):
        padded = np.concatenate([p[:1], p, p[-1:]])
        average = 0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:]
        p = average if strength >= 1 else (1.0 - strength) * p + strength * average
    return p


def smoothed_em(
    likelihood: SimplexLikelihood,
    start: Floats,
    *,
    strength: float = 1.0,
    iterations: int = 10_000,
    tolerance: float = 1e-3,
) -> Fixpoint:
    """EM in which every iteration ends with smoothing; strength 1 is EMS of Li et al.

    Stops when the log-likelihood changes by less than `tolerance` in an iteration. There is no
    bound on how much it could still increase, because the maximum is not the goal.
    """
    _check_limits(iterations, tolerance)
    p, path = start, [likelihood.log(start)]
    converged = False
    for _ in range(iterations):
        p = smooth(likelihood.step(p)[0], strength)
        path.append(likelihood.log(p))
        if abs(path[-1] - path[-2]) < tolerance:
            converged = True
            break
    return Fixpoint(p, path[-1], np.array(path), len(path) - 1, converged, float("nan"))


def smoothed(
    likelihood: SimplexLikelihood,
    start: Floats,
    matrix: Floats | None,
    *,
    strength: float | None = None,
    level: float = 0.95,
    iterations: int = 10_000,
    tolerance: float = 1e-3,
) -> Smoothed:
    """EM with smoothing whose strength is chosen from the reports.

    The best of `STRENGTHS` by Akaike's criterion is used, that is, by the log-likelihood minus the
    effective number of parameters, which is the trace of the derivative of the fitted shares of the
    reports with respect to the observed ones (`sensitivity`). Intervals contain the limits of all
    strengths: the reports cannot distinguish a peak of one bin from a smooth hill, and the limits
    of the best strength alone covered only half of the bins of real populations. Without the
    `matrix` ``Q``, strength 1 is used unless one is given, and no limits are computed.
    """
    run = partial(smoothed_em, likelihood, iterations=iterations, tolerance=tolerance)
    if matrix is None:
        chosen = 1.0 if strength is None else strength
        return Smoothed(run(start, strength=chosen), chosen, None)
    half = normal_quantile(level)
    tried: list[tuple[float, Fixpoint, float, Floats]] = []
    p = start
    for each in STRENGTHS if strength is None else (strength,):
        end = run(p, strength=each)
        p = end.p
        change, total = sensitivity(matrix, p, each), p @ matrix
        akaike = end.log_likelihood - float((change * matrix).sum())
        variance = ((change * total) * change).sum(axis=1) - (change @ total) ** 2
        error = half * np.sqrt(np.maximum(variance, 0.0) / likelihood.n)
        limits = np.stack([p - error, p + error], axis=1)
        tried.append((akaike, end, each, limits))
    _, end, chosen, own = max(tried, key=lambda one: one[0])
    limits = around(own, *(one[3] for one in tried))
    return Smoothed(end, chosen, np.clip(limits, 0.0, 1.0))


def sensitivity(matrix: Floats, p: Floats, strength: float = 1.0) -> Floats:
    """Change of the smoothed estimate `p` with the shares of the reports, shape (K, reports).

    The estimate is a fixed point of the iteration, ``p = S (p * Q (h / (p Q)))`` with shares ``h``
    of the reports; its first-order change with ``h``, at ``h = p Q``, follows by implicit
    differentiation.
    """
    identity = np.eye(len(p))
    weighted = p[:, None] * matrix / (p @ matrix)
    # At h = p Q the gradient of the log-likelihood is one for every value.
    to_itself = smooth(identity - weighted @ matrix.T, strength)
    try:
        return np.asarray(np.linalg.solve(identity - to_itself, smooth(weighted, strength)))
    except np.linalg.LinAlgError:
        raise ChannelError(
            "The reports do not distinguish the values, so their shares have no limits; use a "
            "larger budget, or fewer values."
        ) from None


# -------------------------------------------------------------------------------------------------
# Shares that borrow strength from each other: empirical Bayes with a learned prior.
#
# If noise exceeds most shares, each count says little about its own value, but together they say
# much about how shares are distributed. The number of reports that support value ``x`` is
# ``Binomial(n, miss + (hit - miss) p_x)``. The shares of values that the channel treats alike are
# taken as draws from one distribution ``G`` on [0, 1], which is learned from their counts: by
# nonparametric EM, towards the maximum likelihood (Kiefer and Wolfowitz 1956), stopped early to
# keep ``G`` smooth. The estimate is the posterior mean of each share under ``G``, given that the
# shares sum to one. As the number of values grows, no rule that treats all counts alike has a
# smaller mean squared error than this one at the maximum (Robbins 1956; Jiang and Zhang 2009).

# Candidate shares per standard deviation of the noise.
FINENESS = 4

# Standard deviations around each count within which there are candidates.
AROUND = 3

# Standard deviations between a count and a share beyond which they are incompatible.
REACH = 9.0

# Least number of values from which a separate prior is learned.
ENOUGH = 20


def shrink(
    counts: npt.ArrayLike, n: int, hit: Floats, miss: Floats, *, iterations: int = 30
) -> Floats:
    """Posterior mean of each share under priors learned from all counts.

    Values with the same pair of `hit` and `miss` share a prior; rare pairs share one. `iterations`
    is the number of EM steps towards the most likely prior: fewer steps give a smoother prior.
    """
    check_informative(hit, miss)
    first, kind = kinds_of(hit, miss)
    own = np.where(np.bincount(kind) >= ENOUGH, np.arange(len(first)), -1)[kind]
    # Values with the same count and of the same kind have the same posterior.
    distinct, where = np.unique(kind * (n + 1) + np.asarray(counts), return_inverse=True)
    example = first[distinct // (n + 1)]
    seen = Seen(distinct % (n + 1), n, hit[example], miss[example])
    many = np.bincount(where)
    group = np.empty(len(distinct), dtype=np.int64)
    group[where] = own
    moments = np.empty((2, len(distinct)))
    for prior in np.unique(group):
        members = group == prior
        moments[:, members] = _moments(seen.only(members), many[members], iterations)
    return condition(*moments[:, where])


class Seen(NamedTuple):
    """Distinct counts of supporting reports among `n`, with the channel's probabilities."""

    counts: Floats
    n: int
    hit: Floats
    miss: Floats

    def only(self, members: Mask) -> Seen:
        """Return a selection of the counts."""
        return Seen(self.counts[members], self.n, self.hit[members], self.miss[members])


def _moments(seen: Seen, many: Ints, iterations: int) -> Floats:
    """Posterior means and variances of the shares behind counts that have a common prior."""
    shares = candidates(seen)
    likelihood = prior_likelihood(seen, many, shares)
    even = np.full(len(shares), 1.0 / len(shares))
    prior = reconstruct(likelihood, even, iterations=iterations, tolerance=0.0).p
    total = likelihood.probabilities(prior)
    mean, square = (likelihood.probabilities(prior * shares**k) / total for k in (1, 2))
    return np.stack([mean, np.maximum(square - mean**2, 0.0)])


def prior_likelihood(seen: Seen, many: Ints, grid: Floats) -> MatrixLikelihood:
    """Likelihood of a prior's weights on the shares of a grid, from the counts of many values.

    Rows: binomial probabilities of the distinct counts, relative to their largest.
    """
    counts, n, hit, miss = seen
    share, gain = np.clip(counts / n, miss, hit), hit - miss
    # The second term is what a small count adds to the normal approximation.
    width = REACH * np.sqrt(share * (1 - share) / n) + REACH**2 / n
    first = np.searchsorted(grid, (share - width - miss) / gain)
    last = np.searchsorted(grid, (share + width - miss) / gain, side="right")
    indptr = np.concatenate([[0], np.cumsum(last - first)])
    row = np.repeat(np.arange(len(counts)), last - first)
    indices = np.arange(indptr[-1]) - np.repeat(indptr[:-1] - first, last - first)
    raised = miss[row] + gain[row] * grid[indices]
    log = special.xlogy(counts[row], raised) + special.xlog1py(n - counts[row], -raised)
    log -= np.maximum.reduceat(log, indptr[:-1])[row]
    rows = sparse.csr_array((np.exp(log), indices, indptr), shape=(len(counts), len(grid)))
    return MatrixLikelihood(many.astype(float), rows)


def candidates(seen: Seen) -> Floats:
    """Shares that a prior may put weight on, ascending: steps of the noise around all counts.

    On the scale of ``2 sqrt(n) arcsin(sqrt(.))`` the noise of a share of reports is 1 everywhere.
    """
    scale = FINENESS * 2.0 * np.sqrt(seen.n)
    steps = np.arange(-AROUND * FINENESS, AROUND * FINENESS + 1)
    place = np.round(scale * np.arcsin(np.sqrt(seen.counts / seen.n)))
    first, kind = kinds_of(seen.hit, seen.miss)
    shares = []
    for i, (hit, miss) in enumerate(zip(seen.hit[first], seen.miss[first], strict=True)):
        places = np.unique(np.unique(place[kind == i])[:, None] + steps)
        raised = np.sin(np.clip(places / scale, 0.0, np.pi / 2)) ** 2
        shares.append((raised - miss) / (hit - miss))
    return np.unique(np.clip(np.concatenate(shares), 0.0, 1.0))


def kinds_of(hit: Floats, miss: Floats) -> tuple[Ints, Ints]:
    """Values that the channel treats alike: an example of each kind, and the kind of each value."""
    if np.ptp(hit) == 0 and np.ptp(miss) == 0:
        return np.zeros(1, dtype=np.int64), np.zeros(len(hit), dtype=np.int64)
    _, of_hit = np.unique(hit, return_inverse=True)
    levels, of_miss = np.unique(miss, return_inverse=True)
    _, first, kind = np.unique(
        of_hit * len(levels) + of_miss, return_index=True, return_inverse=True
    )
    return first, kind


def condition(mean: Floats, variance: Floats) -> Floats:
    """Means of independent shares, given that they sum to one and that none is negative.

    As for normal distributions, the difference from one is divided in proportion to the variances.
    """
    free = variance > 0
    p = mean
    while free.any():
        missing = 1.0 - p[~free].sum() - mean[free].sum()
        p = np.where(free, mean + variance * missing / variance[free].sum(), p)
        if (p >= 0).all():
            break
        free &= p > 0
        p = np.maximum(p, 0.0)
    if not p.any():  # no value has more support than noise, so all are equal
        p = np.ones(len(p))
    return p / p.sum()
