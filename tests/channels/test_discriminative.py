"""Input-discriminative unary encoding as a channel."""

import numpy as np
import pytest

import anonbayes as ab
from anonbayes.channels.discriminative import objective

DOMAIN = ab.Domain("place", ["clinic", "park", "station", "home"])
BUDGETS = {"clinic": 1.0, "park": 4.6, "station": float("inf"), "home": 1.0}


def test_probabilities_by_value():
    channel = ab.InputDiscriminativeUE(DOMAIN, [0.5, 0.6, 0.7, 0.8], 0.1)
    assert channel.a.tolist() == [0.5, 0.6, 0.7, 0.8] and channel.b.tolist() == [0.1] * 4
    assert channel.notion is None


def test_reports_have_these_probabilities():
    channel = ab.InputDiscriminativeUE.optimal(DOMAIN, BUDGETS)
    n = 40_000
    counts = channel.release(["park"] * n, seed=1).counts() / n
    expected = channel.b.copy()
    expected[1] = channel.a[1]
    error = np.sqrt(expected * (1 - expected) / n)
    assert (np.abs(counts - expected) <= 4.5 * error).all()
    assert counts[2] == 0  # the bit of an unprotected value never lies


def test_objective_is_the_worst_case_over_count_vectors():
    """Exact variances of the estimated counts, at the users' worst common value."""
    channel = ab.InputDiscriminativeUE.optimal(DOMAIN, BUDGETS)
    n = 100
    gain2 = (channel.a - channel.b) ** 2
    losses = []
    for held in range(4):
        counts = np.zeros(4)
        counts[held] = n
        variance = counts * channel.a * (1 - channel.a) + (n - counts) * channel.b * (1 - channel.b)
        losses.append(float(np.sum(variance / gain2)))
        p = counts / n
        assert channel.expected_loss(p, n, sampled=False) * n**2 == pytest.approx(losses[-1])
    assert max(losses) / n == pytest.approx(objective(channel.a, channel.b, np.ones(4)))


@pytest.mark.parametrize("method", ["empirical", "mle"])
def test_estimates_recover_the_shares(method):
    channel = ab.InputDiscriminativeUE.optimal(DOMAIN, BUDGETS)
    truth = np.array([0.1, 0.2, 0.5, 0.2])
    n = 20_000
    values = np.repeat(DOMAIN.values, (n * truth).astype(int))
    estimate = channel.estimate(channel.release(values, seed=3), method=method)
    rate = channel.b + (channel.a - channel.b) * truth
    error = np.sqrt(rate * (1 - rate) / n) / (channel.a - channel.b)
    assert (np.abs(estimate.p - truth) <= 4.5 * error).all()


def test_bad_parameters_are_named():
    with pytest.raises(ab.AnonbayesError, match=r"'park': a and b are both 0\.3"):
        ab.InputDiscriminativeUE(DOMAIN, [0.5, 0.3, 0.5, 0.5], 0.3)
    with pytest.raises(ab.AnonbayesError, match="information"):
        ab.InputDiscriminativeUE.optimal(DOMAIN, [0.0, 1.0, 1.0, 1.0])
    with pytest.raises(ab.AnonbayesError, match="'oneid', 'minid'"):
        ab.InputDiscriminativeUE.optimal(DOMAIN, 1.0, "maxid")
    with pytest.raises(ab.AnonbayesError, match="no entry for 'park' of"):
        ab.InputDiscriminativeUE.optimal(DOMAIN, {"clinic": 1.0, "station": 1.0, "home": 1.0})
