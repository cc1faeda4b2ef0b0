"""Bayesian estimation: posterior draws of the distribution behind the reports.

The prior is ``p ~ Dirichlet(A/K, ..., A/K)``. Its weight ``A`` determines how even the shares are a
priori: no fixed weight suits both even and very uneven populations, and ``A = K``, the uniform
prior, overwhelms noisy reports. By default it is learned together with the shares, under a uniform
prior on ``log A``.

A step moves probability between a pair of values, keeping their sum: the split of the pair has a
one-dimensional posterior, which is sampled by slices on its logit and by proposals from its prior
(which bridge the gap between "nobody" and "somebody"). If a report names one value or none, the
likelihood of a pair depends on its two counts, and a sweep costs ``O(K)`` whatever the number of
reports. Other reports enter through the quadratic expansion of their log-likelihood around its
maximum; the exact likelihood then accepts or rejects the move (surrogate transitions: Liu 2001,
Monte Carlo Strategies, 9.4.3), so that the draws are from the exact posterior.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit
from scipy import special

from anonbayes.arrays import Floats, read_chains, read_generator, read_numbers, read_whole
from anonbayes.errors import ModelError
from anonbayes.estimation import em
from anonbayes.estimation.likelihood import MatrixLikelihood, MixtureLikelihood

# Largest number of values for which the quadratic expansion is stored, up to K x K numbers.
MOST_VALUES = 3000

# Largest number of values with a learned prior; for more, its weight is the square root of K.
MOST_LEARNED = 20_000

# Largest number of draws held in memory.
MOST_DRAWS = 10_000_000

# Largest number of steps of a slice: 20 outwards, and halvings down to rounding.
MOST_STEPS = 200

# The learned weight of the prior lies between the first of these and the second times K.
LEAST_WEIGHT, MOST_WEIGHT = 0.5, 10.0


class PosteriorDraws(NamedTuple):
    """Posterior draws of shape (chains, draws, K), the prior's weight, and how chains mixed."""

    p: Floats
    prior_weight: Floats
    thin: int
    r_hat: float
    ess: float

    @property
    def converged(self) -> bool:
        """Whether the chains agree and have a hundred effective draws, for every value."""
        return self.r_hat <= 1.05 and self.ess >= 100.0


def sample(
    likelihood: MixtureLikelihood | MatrixLikelihood,
    *,
    alpha: npt.ArrayLike | None = None,
    prior_weight: float | None = None,
    draws: int = 1000,
    tune: int = 500,
    chains: int = 4,
    thin: int = 1,
    seed: int | np.random.Generator | None = None,
) -> PosteriorDraws:
    """Draw from the posterior of the distribution under a Dirichlet prior.

    The prior's parameters are `alpha`, or `prior_weight` divided equally among all values, or
    learned. `thin` is the number of sweeps per recorded draw.
    """
    size = likelihood.size
    chains = read_chains(chains, error=ModelError)
    draws, thin = (
        read_whole(name, number, least=1, most=MOST_DRAWS, error=ModelError)
        for name, number in (("draws", draws), ("thin", thin))
    )
    tune = read_whole("tune", tune, most=MOST_DRAWS, error=ModelError)
    if alpha is not None and prior_weight is not None:
        raise ModelError("Give alpha or prior_weight, not both.")
    learned = alpha is None and prior_weight is None and 1 < size <= MOST_LEARNED
    if alpha is None:
        weight = math.sqrt(size) if prior_weight is None else prior_weight
        if not (isinstance(weight, int | float) and 0 < weight < math.inf):
            raise ModelError(f"prior_weight={weight!r} must be a positive number.")
        alpha = weight / size
    prior = check_prior(alpha, size)
    split = _split(likelihood)
    out, weights = np.empty((chains, draws, size)), np.empty((chains, draws))
    for chain, rng in enumerate(read_generator(seed, error=ModelError).spawn(chains)):
        state = _Chain.start(likelihood, split, prior, learned, rng)
        for draw in range(-tune, draws):
            # The first draws only search for the region where the expansion is good.
            exact = draw >= -(3 * tune) // 4
            for _ in range(thin):
                state.move(exact=exact, adapt=draw < 0)
            if draw >= 0:
                out[chain, draw], weights[chain, draw] = state.p, state.alpha.sum()
    return PosteriorDraws(out, weights, thin, *mixing(out))


# -------------------------------------------------------------------------------------------------
# One chain.


class _Partition(NamedTuple):
    """Reports that name one of several cells of values, and nothing about the value inside.

    Given the prior's weight, cells and shares inside cells are independent Dirichlet vectors; the
    weight is drawn given only the counts. So draws are almost independent.
    """

    cell: npt.NDArray[np.intp]
    count: Floats  # type: ignore[assignment]

    def draw(self, alpha: Floats, rng: np.random.Generator) -> Floats:
        sums = np.bincount(self.cell, alpha, len(self.count))
        inside = rng.standard_gamma(alpha + 1.0) * (1.0 - rng.random(len(alpha))) ** (1.0 / alpha)
        inside = np.maximum(inside, 1e-300)
        whole = np.bincount(self.cell, inside, len(self.count))
        p: Floats = inside * (dirichlet(sums + self.count, rng) / whole)[self.cell]
        return p

    def log_density(self, log_alpha: float) -> float:
        """Log-density of the counts, given the logarithm of one parameter of the prior."""
        sizes = math.exp(log_alpha) * np.bincount(self.cell, minlength=len(self.count))
        rise = special.gammaln(sizes + self.count) - special.gammaln(sizes)
        total = float(sizes.sum())
        return float(rise.sum()) + math.lgamma(total) - math.lgamma(total + float(self.count.sum()))


def _cells(likelihood: MixtureLikelihood) -> _Partition | None:
    """Cells and their counts, if every report names a cell and every value lies in one."""
    indices, lengths = likelihood.indices, np.diff(likelihood.indptr)
    flat = not likelihood.floor.any() and np.ptp(likelihood.gain) == 0
    if not (flat and (lengths > 0).all() and len(np.unique(indices)) == len(indices)):
        return None
    cell = np.full(likelihood.size, len(lengths))
    cell[indices] = np.repeat(np.arange(len(lengths)), lengths)
    kept = len(lengths) + int((cell == len(lengths)).any())  # values that no report names
    return _Partition(cell, np.pad(likelihood.weights.astype(float), (0, kept - len(lengths))))


class _Split(NamedTuple):
    """Log-likelihood of the split of a pair: by counts, or by the expansion around `centre`.

    By counts it is ``count log(floor + gain p)`` for each value, with these three in a row of
    `terms`. Otherwise ``slope (p - centre) - |root' (p - centre)|^2 / 2``.
    """

    terms: Floats = np.zeros((0, 3))
    centre: Floats = np.zeros(0)
    slope: Floats = np.zeros(0)
    root: Floats = np.zeros((0, 0))

    @property
    def is_exact(self) -> bool:
        return self.root.size == 0


def _split(likelihood: MixtureLikelihood | MatrixLikelihood) -> _Split | _Partition | None:
    """How reports enter the sampler; None if there are too many values for an expansion."""
    size = likelihood.size
    if isinstance(likelihood, MixtureLikelihood):
        if (cells := _cells(likelihood)) is not None:
            return cells
        lengths, named = np.diff(likelihood.indptr), likelihood.indices
        alone = len(named) == len(np.unique(named)) and lengths.max() <= 1
        if alone and likelihood.floor_is_flat:
            terms = np.stack([np.zeros(size), np.ones(size), likelihood.gain], axis=1)
            terms[named, 0] = np.repeat(likelihood.weights, lengths)
            terms[named, 1] = np.repeat(likelihood.floor, lengths) * likelihood.tilt[0]
            return _Split(terms)
    if size > MOST_VALUES:
        return None
    highest = em.maximize(likelihood, np.full(size, 1.0 / size), iterations=400, tolerance=1e-4).p
    centre = em.starting_point(highest, size)
    slope, _ = likelihood.gradient(centre)
    return _Split(centre=centre, slope=slope, root=likelihood.curvature_root(centre))


@dataclass
class _Chain:
    """State of a chain."""

    likelihood: MixtureLikelihood | MatrixLikelihood
    split: _Split | _Partition | None
    alpha: Floats
    learned: bool
    rng: np.random.Generator
    p: Floats
    log_p: Floats
    value: float
    pairs: int

    @classmethod
    def start(
        cls,
        likelihood: MixtureLikelihood | MatrixLikelihood,
        split: _Split | _Partition | None,
        prior: Floats,
        learned: bool,
        rng: np.random.Generator,
    ) -> _Chain:
        size = likelihood.size
        p = dirichlet(prior + 1.0, rng)
        return cls(
            likelihood, split, prior.copy(), learned, rng, p, np.log(p), likelihood.log(p), 4 * size
        )

    def move(self, *, exact: bool, adapt: bool) -> None:
        """Make one sweep, corrected by the exact likelihood if it used an expansion."""
        if self.likelihood.size == 1:
            return
        if self.split is None:
            counts = self.likelihood.allocate(self.p, self.rng)
            self.p = dirichlet(self.alpha + counts, self.rng)
            self.log_p = np.log(np.maximum(self.p, 1e-300))
            self._learn_given_p()
            return
        if isinstance(self.split, _Partition):
            self._slice_weight(self.split.log_density)
            self.p = self.split.draw(self.alpha, self.rng)
            return
        before = self.p, self.log_p, self.alpha, self.value
        # Forth and back again, so that both directions are equally likely.
        self._sweep()
        if self.learned:
            self._learn()
        self._sweep()
        if self.split.is_exact:
            return
        shift = _expansion(self.p, self.split) - _expansion(before[0], self.split)
        self.value = self.likelihood.log(self.p)
        gain = self.value - before[3] - shift
        if exact and not math.log(1.0 - self.rng.random()) < gain:
            self.p, self.log_p, self.alpha, self.value = before
        if adapt and exact:
            # Aim at accepting about two thirds of the sweeps.
            chance = math.exp(min(gain, 0.0))
            size = self.likelihood.size
            self.pairs = int(np.clip(self.pairs * math.exp(chance - 0.65), 1, 4 * size)) + 1

    def _sweep(self) -> None:
        assert isinstance(self.split, _Split)
        p, log_p = self.p.copy(), self.log_p.copy()
        terms, root = self.split.terms, self.split.root
        pulled = np.zeros(0)
        if not self.split.is_exact:
            terms, pulled = self.split.slope[:, None], root.T @ (p - self.split.centre)
        split_pairs(self.rng, p, log_p, self.alpha, terms, root, pulled, self.pairs)
        total = p.sum()  # one, up to rounding
        self.p, self.log_p = p / total, log_p - math.log(total)

    def _learn(self) -> None:
        """Propose another weight of the prior, keeping the quantile of every share."""
        self._learn_given_p()
        size = len(self.p)
        old = float(self.alpha[0])
        low, high = math.log(LEAST_WEIGHT / size), math.log(MOST_WEIGHT)
        # Independently of the current value if the reports say little about it, else a step.
        new = low + (high - low) * self.rng.random()
        if self.rng.random() < 0.5:
            new = math.log(old) + 0.7 * self.rng.standard_normal()
        if not low <= new <= high:
            return
        new = math.exp(new)
        total = self.rng.standard_gamma(old * size)
        log_g = _same_place(self.log_p + math.log(max(total, 1e-300)), old, new)
        log_g -= log_g.max()  # SciPy's logsumexp would take most of the time
        log_p = log_g - math.log(np.exp(log_g).sum())
        p = np.exp(log_p)
        if math.log(1.0 - self.rng.random()) < self._log(p) - self._log(self.p):
            self.p, self.log_p, self.alpha = p, log_p, np.full(size, new)

    def _learn_given_p(self) -> None:
        """Propose another weight of the prior while keeping the shares."""
        size, logs = len(self.p), float(self.log_p.sum())

        def density(log_alpha: float) -> float:
            a = math.exp(log_alpha)
            return math.lgamma(a * size) - size * math.lgamma(a) + a * logs

        self._slice_weight(density)

    def _slice_weight(self, density: Callable[[float], float]) -> None:
        """Draw another weight of a learned prior, given the log-density of its logarithm."""
        if not self.learned:
            return
        size = len(self.p)
        low, high = math.log(LEAST_WEIGHT / size), math.log(MOST_WEIGHT)
        here = math.log(self.alpha[0])
        level = density(here) + math.log(1.0 - self.rng.random())
        while True:
            there = low + (high - low) * self.rng.random()
            if density(there) > level or high - low < 1e-9:
                break
            low, high = (there, high) if there < here else (low, there)
        self.alpha = np.full(size, math.exp(there))

    def _log(self, p: Floats) -> float:
        assert isinstance(self.split, _Split)
        return _expansion(p, self.split) if not self.split.is_exact else self.likelihood.log(p)


def _expansion(p: Floats, split: _Split) -> float:
    change = p - split.centre
    pulled = split.root.T @ change
    return float(split.slope @ change - 0.5 * pulled @ pulled)


def _same_place(log_g: Floats, old: float, new: float) -> Floats:
    """Logarithms of gamma quantiles of order `new` at the ranks of `log_g` in order `old`."""
    g = np.exp(np.minimum(log_g, 700.0))
    # Far below one a gamma distribution is a power: P(g) = g^a / Gamma(a + 1).
    small, tiny = old * log_g - math.lgamma(old + 1.0), g < 1e-8
    below = np.where(tiny, np.exp(np.minimum(small, 0.0)), special.gammainc(old, g))
    above = np.where(tiny, 1.0 - below, special.gammaincc(old, g))
    with np.errstate(divide="ignore"):
        inside = np.where(
            below < 0.5, special.gammaincinv(new, below), special.gammainccinv(new, above)
        )
        exact = np.log(inside)
        log_below = np.where(tiny, small, np.log(below))
    power = (log_below + math.lgamma(new + 1.0)) / new
    return np.where(power < math.log(1e-8), power, exact)


@njit(cache=True)
def _log_gamma_draw(rng: np.random.Generator, a: float) -> float:
    """Logarithm of a gamma draw; tiny shape parameters do not underflow."""
    if a >= 1.0:
        return np.log(rng.standard_gamma(a))
    return np.log(rng.standard_gamma(a + 1.0)) + np.log(1.0 - rng.random()) / a


@njit(cache=True)
def _log_sum(a: float, b: float) -> float:
    top = max(a, b)
    return top + np.log(np.exp(a - top) + np.exp(b - top))


@njit(cache=True)
def _pair_value(f: float, g: float, s: float, by_counts: bool, own: Floats, other: Floats) -> float:
    """Log-likelihood of a pair with logarithmic shares `f` and `g` of the sum `s`.

    `own` and `other` have count, floor and gain of each; without counts, `own` has what the first
    value has now, the slope and the curvature.
    """
    if not by_counts:
        change = s * np.exp(f) - own[0]
        return change * (own[1] - 0.5 * change * own[2])
    value = 0.0
    if own[0] > 0:
        value += own[0] * np.log(own[1] + own[2] * s * np.exp(f))
    if other[0] > 0:
        value += other[0] * np.log(other[1] + other[2] * s * np.exp(g))
    return value


@njit(cache=True)
def _draw_pair(
    rng: np.random.Generator,
    lf: float,
    lg: float,
    a: float,
    b: float,
    s: float,
    by_counts: bool,
    own: Floats,
    other: Floats,
) -> tuple[float, float]:
    """Logarithms of the two shares of a pair, drawn given their sum `s`; see `_pair_value`."""
    value = _pair_value(lf, lg, s, by_counts, own, other)
    first, second = _log_gamma_draw(rng, a), _log_gamma_draw(rng, b)
    total = _log_sum(first, second)
    first, second = first - total, second - total
    proposed = _pair_value(first, second, s, by_counts, own, other)
    if np.log(1.0 - rng.random()) < proposed - value:
        lf, lg, value = first, second, proposed
    # A slice on the logit, extended by at most 20 widths in total.
    x = lf - lg
    level = value + a * lf + b * lg + np.log(1.0 - rng.random())
    low = x - 2.0 * rng.random()
    high = low + 2.0
    left = int(20 * rng.random())
    right = 19 - left
    stage = 0
    for _ in range(MOST_STEPS):
        y = low if stage == 0 else high
        if stage == 2:
            y = low + (high - low) * rng.random()
        f = -np.log1p(np.exp(-y)) if y > 0 else y - np.log1p(np.exp(y))
        g = f - y
        inside = _pair_value(f, g, s, by_counts, own, other) + a * f + b * g > level
        if stage == 0:
            if inside and left > 0:
                low, left = low - 2.0, left - 1
            else:
                stage = 1
        elif stage == 1:
            if inside and right > 0:
                high, right = high + 2.0, right - 1
            else:
                stage = 2
        elif inside:
            return f, g
        elif y < x:
            low = y
        else:
            high = y
    return lf, lg  # the slice has shrunk to rounding


@njit(cache=True)
def split_pairs(
    rng: np.random.Generator,
    p: Floats,
    log_p: Floats,
    alpha: Floats,
    terms: Floats,
    root: Floats,
    pulled: Floats,
    updates: int,
) -> None:
    """Redraw the splits of `updates` random pairs of two values or more, in place.

    `terms` has (count, floor, gain) for each value; with a `root` of the curvature, the slope at
    the centre, and `pulled` is ``root' (p - centre)``.
    """
    size, by_counts = len(p), root.size == 0
    own, other = np.empty(3), np.empty(3)
    for _ in range(updates):
        j = int(rng.random() * size)
        k = int(rng.random() * (size - 1))
        k += k >= j
        total = _log_sum(log_p[j], log_p[k])
        if by_counts:
            for i in range(3):
                own[i], other[i] = terms[j, i], terms[k, i]
        else:
            own[0], own[1], own[2] = p[j], terms[j, 0] - terms[k, 0], 0.0
            for r in range(len(pulled)):
                apart = root[j, r] - root[k, r]
                own[1] -= apart * pulled[r]
                own[2] += apart * apart
        shares = log_p[j] - total, log_p[k] - total
        f, g = _draw_pair(
            rng, shares[0], shares[1], alpha[j], alpha[k], np.exp(total), by_counts, own, other
        )
        log_p[j], log_p[k] = total + f, total + g
        change = np.exp(log_p[j]) - p[j]
        p[j], p[k] = np.exp(log_p[j]), np.exp(log_p[k])
        for r in range(len(pulled)):
            pulled[r] += change * (root[j, r] - root[k, r])


# -------------------------------------------------------------------------------------------------
# Convergence statistics.


def mixing(draws: Floats) -> tuple[float, float]:
    """Largest split R-hat, smallest effective sample size over the last axis of (chains, draws, K).

    Uses Geyer's initial positive sequence (Gelman et al., Bayesian Data Analysis, 11.5).
    """
    chains, n, _ = draws.shape
    half = n // 2
    if half < 4 or not np.isfinite(draws).all():
        return math.inf, 0.0
    parts = np.concatenate([draws[:, :half], draws[:, n - half :]])
    worst, least = 1.0, math.inf
    step = max(1, 2_000_000 // (2 * chains * half))
    for start in range(0, draws.shape[2], step):
        some = parts[:, :, start : start + step]
        within = some.var(axis=1, ddof=1).mean(axis=0)
        moving = within > 1e-30
        if not moving.any():
            continue
        some, within = some[:, :, moving], within[moving]
        spread = some.mean(axis=1).var(axis=0, ddof=1)
        total = within * (half - 1) / half + spread
        worst = max(worst, float(np.sqrt(total / within).max()))
        least = min(least, float(_effective(some, total).min()))
    return worst, least if math.isfinite(least) else float(chains * n)


def _effective(parts: Floats, total: Floats) -> Floats:
    chains, n, size = parts.shape
    centred = parts - parts.mean(axis=1, keepdims=True)
    power = np.abs(np.fft.rfft(centred, 2 * n, axis=1)) ** 2
    covariance = np.fft.irfft(power, axis=1)[:, :n].mean(axis=0) / n
    within = covariance[0] * n / (n - 1)
    rho = 1.0 - (within - covariance) / total
    pairs = rho[: n - n % 2].reshape(-1, 2, size).sum(axis=1)
    positive = np.logical_and.accumulate(pairs > 0, axis=0)
    monotone = np.minimum.accumulate(np.where(positive, pairs, 0.0), axis=0)
    return np.minimum(chains * n / np.maximum(2.0 * monotone.sum(axis=0) - 1.0, 1e-3), chains * n)


def dirichlet(alpha: Floats, rng: np.random.Generator) -> Floats:
    """Draw from a Dirichlet distribution; tiny parameters do not give all zeros."""
    gammas = rng.standard_gamma(alpha)
    total = gammas.sum()
    if total > 0:
        return gammas / total
    # All gammas underflowed: draw on the log scale, Gamma(a) = Gamma(a + 1) U^(1/a).
    logs = np.log(rng.standard_gamma(alpha + 1)) + np.log(rng.random(len(alpha))) / alpha
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def check_prior(alpha: npt.ArrayLike, size: int) -> Floats:
    """Return the prior parameters as an array of that size; raise `ModelError` if they are not."""
    array = read_numbers("alpha", alpha, error=ModelError)
    if array.ndim == 0:
        array = np.full(size, float(array))
    if array.shape != (size,):
        raise ModelError(
            f"alpha must be one number or one for each of the {size} values, got an array of "
            f"shape {array.shape}."
        )
    if not (np.isfinite(array) & (array > 0)).all():
        bad = int(np.flatnonzero(~(np.isfinite(array) & (array > 0)))[0])
        raise ModelError(f"alpha[{bad}] = {array[bad]!r} must be positive and finite.")
    return array
