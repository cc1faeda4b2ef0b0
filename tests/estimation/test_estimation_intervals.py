"""Estimate and interval belong together; reports are held against their channel."""

import numpy as np
import pytest

import anonbayes as ab

METHODS = ["empirical", "threshold", "shrinkage", "mle", "em"]


def channels(domain):
    return {
        "RR": ab.RandomizedResponse(domain, 1.0),
        "uRR": ab.UtilityOptimizedRR(domain, 1.0, sensitive=domain.values[:5]),
        "OUE": ab.UnaryEncoding.optimal(domain, 1.0),
        "OLH": ab.LocalHashing(domain, 1.0),
        "SS": ab.SubsetSelection(domain, 1.0),
    }


@pytest.mark.parametrize("name", ["RR", "uRR", "OUE", "OLH", "SS"])
def test_intervals_hold_their_estimate_and_cover(name):
    """50 values, of which most shares are below the noise."""
    domain = ab.Domain("x", range(50))
    channel = channels(domain)[name]
    truth = 1 / np.arange(1, 51) / (1 / np.arange(1, 51)).sum()
    covered = {method: [] for method in METHODS}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        reports = channel.release(rng.choice(50, 2000, p=truth), seed=rng)
        for method in METHODS:
            estimate = channel.estimate(reports, method=method)
            low, high = estimate.interval.T
            assert (low <= estimate.p).all() and (estimate.p <= high).all()
            covered[method].append(((low <= truth) & (truth <= high)).mean())
    for shares in covered.values():
        # 250 cases: four standard errors below 0.95.
        assert np.mean(shares) > 0.95 - 4 * np.sqrt(0.05 * 0.95 / 250)


def test_sparse_large_domains_hold_their_estimate():
    domain = ab.IntegerDomain(100_000)
    channel = ab.LocalHashing.invertible(domain, 8.0)
    reports = channel.release(np.zeros(500, dtype=int), seed=1)
    estimate = channel.estimate(reports, method="mle")
    low, high = estimate.interval.T
    assert (low <= estimate.p).all() and (estimate.p <= high).all()


@pytest.mark.parametrize("name", ["RR", "OUE", "OLH", "SS"])
def test_reports_read_with_another_budget_do_not_fit(name):
    """Sent with a large budget, read with a small one: shares far outside of zero and one."""
    domain = ab.Domain("x", range(10))
    truth = np.array([0.6, 0.3] + [0.0125] * 8)
    values = np.random.default_rng(1).choice(10, 5000, p=truth)
    sender = channels(domain)[name].with_epsilon(4.0)
    if name == "OLH":
        sender = ab.LocalHashing(domain, 4.0, g=4)
    if name == "SS":
        sender = ab.SubsetSelection(domain, 4.0, d=channels(domain)[name].d)
    with pytest.warns(ab.errors.MisfitWarning, match="do not fit .*epsilon=1"):
        estimate = channels(domain)[name].estimate(sender.release(values, seed=2))
    assert estimate.misfit < 1e-4


def test_reports_that_fit_are_rarely_taken_for_a_misfit():
    """The worst case for false alarms: hardly any value is held at all."""
    domain = ab.Domain("x", range(30))
    small = 0
    for channel in channels(domain).values():
        for seed in range(40):
            reports = channel.release(np.zeros(300, dtype=int), seed=seed)
            small += channel.misfit(reports) < 0.01
    # 200 tests at one in a hundred: more than 7 have a probability below 0.001.
    assert small <= 7


@pytest.mark.parametrize("reports", [None, 42])
def test_what_are_no_reports_is_refused(reports):
    with pytest.raises(ab.AnonbayesError, match="not a list of reports"):
        ab.RandomizedResponse(ab.Domain("x", "ab"), 1.0).estimate(reports)
