"""Counted reports stand for the reports, and simulated counts follow the same law."""

import numpy as np
import pytest
from scipy import stats

import anonbayes as ab

DOMAIN = ab.Domain("x", range(6))
CHANNELS = [
    ab.RandomizedResponse(DOMAIN, 1.0),
    ab.UtilityOptimizedRR(DOMAIN, 1.0, sensitive=[0, 2]),
    ab.UtilityOptimizedRR(DOMAIN, 1.0, sensitive=[]),
    ab.RAPPOR(DOMAIN, 1.0),
    ab.UtilityOptimizedRAPPOR(DOMAIN, 1.0, sensitive=[0, 2]),
]


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda c: type(c).__name__)
def test_counts_give_the_same_estimates_as_reports(channel):
    reports = channel.release(np.arange(6).repeat(100), seed=1)
    counted = ab.SupportCounts(channel.counts(reports), n=600)
    methods = ["empirical", "threshold"]
    if isinstance(channel, ab.UtilityOptimizedRR):
        methods += ["mle", "em"]
    for method in methods:
        one, two = (channel.estimate(r, method=method) for r in (reports, counted))
        np.testing.assert_array_equal(one.p, two.p)
        np.testing.assert_array_equal(one.interval, two.interval)


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda c: type(c).__name__)
def test_simulated_counts_have_the_mean_and_covariance_of_released_ones(channel):
    held = np.array([400, 0, 100, 50, 250, 200])
    rng = np.random.default_rng(2)
    runs = 4000
    drawn = np.array([channel.simulate(held, seed=rng).counts for _ in range(runs)])
    expected = channel.hit * held + channel.miss * (1000 - held)
    variance = channel.hit * (1 - channel.hit) * held
    variance += channel.miss * (1 - channel.miss) * (1000 - held)
    z = (drawn.mean(axis=0) - expected) / np.sqrt(np.maximum(variance, 1e-12) / runs)
    assert np.abs(z).max() < 4.5
    spread = drawn.var(axis=0, ddof=1)
    limits = stats.chi2.ppf([1e-6, 1 - 1e-6], runs - 1) / (runs - 1)
    assert ((variance * limits[0] <= spread) & (spread <= variance * limits[1])).all()
    covariance = np.cov(drawn.T)[0, 2]
    if isinstance(channel, ab.UtilityOptimizedRR):
        # Each user supports one value: a user who holds k contributes -Q(0|k) Q(2|k).
        q = channel.matrix()
        exact = -float(held @ (q[:, 0] * q[:, 2]))
    else:
        exact = 0.0
    slack = 4.5 * np.sqrt((variance[0] * variance[2] + exact**2) / runs)
    assert abs(covariance - exact) <= slack + 1e-12


def test_impossible_counts_are_named():
    with pytest.raises(ab.AnonbayesError, match=r"counts\[1\] = 7 is impossible for 5"):
        ab.SupportCounts([1, 7], n=5)
    with pytest.raises(ab.AnonbayesError, match="whole numbers"):
        ab.SupportCounts([0.5, 1.5], n=5)
    with pytest.raises(ab.AnonbayesError, match="2 support counts for 6 values"):
        CHANNELS[3].estimate(ab.SupportCounts([1, 2], n=5), method="empirical")
    with pytest.raises(ab.AnonbayesError, match=r"6 .*5.* 2 .*3"):
        CHANNELS[0].estimate(ab.SupportCounts([1, 2], n=5), method="mle")
    with pytest.raises(ab.AnonbayesError, match="likelihood"):
        CHANNELS[3].estimate(ab.SupportCounts([1] * 6, n=5), method="mle")
