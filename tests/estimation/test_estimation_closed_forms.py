"""Closed-form estimators against independent solvers and definitions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import optimize, stats

import anonbayes as ab
from anonbayes.estimation import closed_forms, em

DOMAIN = ab.Domain("x", range(6))


@pytest.mark.parametrize(
    "channel",
    [
        ab.RandomizedResponse(DOMAIN, 1.0),
        ab.UtilityOptimizedRR(DOMAIN, 0.8, sensitive=[0, 3]),
        ab.UtilityOptimizedRR(DOMAIN, 0.8, sensitive=[]),
    ],
)
def test_empirical_estimate_solves_the_linear_system(channel):
    """ULDP (3): p Q = m."""
    values = np.random.default_rng(0).integers(0, 6, 3000)
    reports = channel.release(values, seed=1)
    shares = np.bincount(reports, minlength=6) / 3000
    estimate = channel.estimate(reports, method="empirical")
    np.testing.assert_allclose(estimate.p, np.linalg.solve(channel.matrix().T, shares), atol=1e-12)
    assert estimate.p.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(
    "channel",
    [
        ab.RandomizedResponse(DOMAIN, 0.5),
        ab.RAPPOR(DOMAIN, 0.5),
        ab.UnaryEncoding.optimal(DOMAIN, 0.5),
        ab.UtilityOptimizedRR(DOMAIN, 0.5, sensitive=[0, 3]),
        ab.UtilityOptimizedRAPPOR(DOMAIN, 0.5, sensitive=[0, 3]),
    ],
    ids=lambda c: type(c).__name__,
)
def test_empirical_estimate_is_unbiased_with_covering_intervals(channel):
    rng = np.random.default_rng(3)
    p = np.array([0.3, 0.25, 0.2, 0.05, 0.2, 0.0])
    estimates, covered = [], []
    for _ in range(200):
        estimate = channel.estimate(
            channel.release(rng.choice(6, 2000, p=p), seed=rng), method="empirical", level=0.9
        )
        estimates.append(estimate.p)
        covered.append((estimate.interval[:, 0] <= p) & (p <= estimate.interval[:, 1]))
    estimates = np.array(estimates)
    error = estimates.std(axis=0, ddof=1) / np.sqrt(200)
    assert (np.abs(estimates.mean(axis=0) - p) <= 4.5 * error + 1e-12).all()
    # 1200 intervals at 0.9; those of empty proving values always cover, so only from below.
    assert np.mean(covered) > 0.9 - 4 * np.sqrt(0.9 * 0.1 / 1200)
    inner = np.array(covered)[:, p > 0]
    assert np.mean(inner) < 0.9 + 4 * np.sqrt(0.9 * 0.1 / inner.size) + 0.01


@settings(max_examples=60)
@given(
    counts=st.lists(st.integers(0, 500), min_size=2, max_size=12).filter(lambda c: sum(c) > 0),
    sensitive=st.sets(st.integers(0, 11)),
    epsilon=st.floats(0.05, 5),
)
def test_water_filling_is_the_maximum(counts, sensitive, epsilon):
    """The certified gap is zero, and no other engine finds a better point."""
    domain = ab.Domain("x", range(len(counts)))
    chosen = [s for s in sensitive if s < len(counts)]
    channel = ab.UtilityOptimizedRR(domain, epsilon, sensitive=chosen)
    likelihood = channel.likelihood(ab.SupportCounts(counts, sum(counts)))
    p = closed_forms.water_filling(counts, channel.miss, channel.hit - channel.miss)
    assert p.min() >= 0 and p.sum() == pytest.approx(1.0)
    _, value, gap = likelihood.step(p)
    assert abs(gap) <= 1e-8 * sum(counts)
    climbed = em.maximize(likelihood, em.starting_point(None, len(counts)), iterations=300)
    assert climbed.log_likelihood <= value + 1e-9 * sum(counts)


def test_water_filling_agrees_with_a_general_optimizer():
    channel = ab.UtilityOptimizedRR(DOMAIN, 1.0, sensitive=[0, 1, 2, 3])
    counts = np.array([40, 25, 8, 3, 15, 9])
    p = closed_forms.water_filling(counts, channel.miss, channel.hit - channel.miss)
    found = optimize.minimize(
        lambda q: -counts @ np.log(channel.miss + (channel.hit - channel.miss) * q + 1e-300),
        np.full(6, 1 / 6),
        bounds=[(0, 1)] * 6,
        constraints={"type": "eq", "fun": lambda q: q.sum() - 1},
        options={"ftol": 1e-14, "maxiter": 500},
    )
    np.testing.assert_allclose(p, found.x, atol=2e-5)
    assert p[3] == 0


def test_threshold_keeps_what_is_significant():
    """Both conventions, and the level: of values nobody holds, alpha of all runs keep any."""
    domain = ab.Domain("x", range(50))
    channel = ab.RAPPOR(domain, 1.0)
    rng = np.random.default_rng(5)
    kept_noise = 0
    for _ in range(200):
        reports = channel.release(np.zeros(500, dtype=int), seed=rng)
        zero = channel.estimate(reports, method="threshold", alpha=0.1, remainder="zero").p
        kept_noise += (zero[1:] > 0).any()
        uniform = channel.estimate(reports, method="threshold", alpha=0.1).p
        assert uniform.sum() == pytest.approx(1.0) and uniform.min() >= 0
    # 49 of 50 tests at 0.1/50: about 0.094; binomial limits at 1e-6.
    low, high = stats.binom.ppf([1e-6, 1 - 1e-6], 200, 1 - (1 - 0.1 / 50) ** 49)
    assert low <= kept_noise <= high


def test_threshold_when_too_much_is_kept():
    limit = np.full(3, 0.1)
    np.testing.assert_allclose(
        closed_forms.threshold(np.array([0.9, 0.3, -0.2]), limit), [0.75, 0.25, 0.0]
    )
    np.testing.assert_allclose(
        closed_forms.threshold(np.array([0.9, 0.3, -0.2]), limit, remainder="zero"), [0.9, 0.3, 0]
    )
    nothing = closed_forms.threshold(np.array([0.05, 0.0, -0.2]), limit)
    np.testing.assert_allclose(nothing, np.full(3, 1 / 3))
    everything = closed_forms.threshold(np.array([0.3, 0.3, 0.3]), limit)
    np.testing.assert_allclose(everything, np.full(3, 1 / 3))


def test_wilson_limits_equal_those_of_scipy():
    ours = closed_forms.share_interval([30], 100, np.ones(1), np.zeros(1), 0.95)
    theirs = stats.binomtest(30, 100).proportion_ci(0.95, method="wilson")
    np.testing.assert_allclose(ours[0], [theirs.low, theirs.high], rtol=1e-12)


def test_bad_settings_are_named():
    channel = ab.RandomizedResponse(DOMAIN, 1.0)
    reports = [0, 1, 2]
    with pytest.raises(ab.AnonbayesError, match="method='magic'"):
        channel.estimate(reports, method="magic")
    with pytest.raises(ab.AnonbayesError, match="remainder='keep'"):
        channel.estimate(reports, method="threshold", remainder="keep")
    with pytest.raises(ab.AnonbayesError, match="alpha=2"):
        channel.estimate(reports, method="threshold", alpha=2)
    for method in ("empirical", "mle", "bayes"):
        with pytest.raises(ab.AnonbayesError, match=r"level=1\.5"):
            channel.estimate(reports, method=method, level=1.5)
    with pytest.raises(ab.AnonbayesError, match="no reports"):
        channel.estimate([], method="mle")
    with pytest.raises(ab.AnonbayesError, match="no reports"):
        ab.RAPPOR(DOMAIN, 1.0).estimate(np.empty((0, 6)), method="empirical")
    blind = ab.RandomizedResponse(DOMAIN, 0.0)
    for method in ("empirical", "threshold", "mle"):
        with pytest.raises(ab.AnonbayesError, match="carry no information"):
            blind.estimate(reports, method=method)
