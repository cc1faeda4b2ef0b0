"""Expected losses against simulation, worst cases against search and the paper's formulas."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anonbayes as ab
from anonbayes.estimation.closed_forms import expected_loss, worst_case_distribution

DOMAIN = ab.Domain("x", range(8))
CHANNELS = [
    ab.RandomizedResponse(DOMAIN, 1.0),
    ab.UtilityOptimizedRR(DOMAIN, 1.0, sensitive=[0, 1, 2]),
    ab.RAPPOR(DOMAIN, 1.0),
    ab.UnaryEncoding.optimal(DOMAIN, 1.0),
    ab.UtilityOptimizedRAPPOR(DOMAIN, 1.0, sensitive=[0, 1, 2]),
    ab.UtilityOptimizedRAPPOR.optimal(DOMAIN, 1.0, sensitive=[0, 1, 2]),
]


@pytest.mark.parametrize("channel", CHANNELS, ids=lambda c: type(c).__name__)
def test_expected_losses_match_simulation(channel):
    """l2 is exact; l1 is asymptotic, so it gets 2 % on top of four standard errors."""
    rng = np.random.default_rng(11)
    p = rng.dirichlet(np.ones(8))
    n, runs = 1000, 200
    l1, l2, fixed = [], [], []
    held = np.repeat(np.arange(8), rng.multinomial(n, p))
    shares = np.bincount(held, minlength=8) / n
    for _ in range(runs):
        drawn = channel.release(rng.choice(8, n, p=p), seed=rng)
        error = channel.estimate(drawn, method="empirical").p - p
        l1.append(np.abs(error).sum())
        l2.append(error @ error)
        same = channel.estimate(channel.release(held, seed=rng), method="empirical").p - shares
        fixed.append(same @ same)
    for losses, expected, slack in (
        (l1, channel.expected_loss(p, n, norm="l1"), 0.02),
        (l2, channel.expected_loss(p, n, norm="l2"), 0.0),
        (fixed, channel.expected_loss(shares, n, norm="l2", sampled=False), 0.0),
    ):
        error = np.std(losses, ddof=1) / np.sqrt(runs)
        assert abs(np.mean(losses) - expected) <= 4 * error + slack * expected


@settings(max_examples=60)
@given(
    seed=st.integers(0, 10_000),
    size=st.integers(2, 9),
    norm=st.sampled_from(["l1", "l2"]),
)
def test_no_distribution_is_worse_than_the_worst(seed, size, norm):
    rng = np.random.default_rng(seed)
    miss = rng.uniform(0, 0.8, size) * (rng.random(size) < 0.7)
    hit = miss + rng.uniform(0.02, 1, size) * (1 - miss)
    worst = worst_case_distribution(hit, miss, norm=norm)
    assert worst.min() >= 0 and worst.sum() == pytest.approx(1.0)
    top = expected_loss(worst, 100, hit, miss, norm=norm)
    for concentration in (0.1, 1.0, 30.0):
        for p in rng.dirichlet(np.full(size, concentration), size=40):
            mixed = 0.9 * worst + 0.1 * p
            assert expected_loss(p, 100, hit, miss, norm=norm) <= top * (1 + 1e-12)
            assert expected_loss(mixed, 100, hit, miss, norm=norm) <= top * (1 + 1e-12)


@pytest.mark.parametrize("k_s, k_n", [(3, 20), (20, 30), (30, 12)])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 2.0, 6.0])
def test_worst_cases_of_urr_are_those_of_the_paper(k_s, k_n, epsilon):
    """ULDP Props. 5, 6, 16 and 17, written out; K_S > K_N is covered too."""
    k, n, e = k_s + k_n, 1000, np.exp(epsilon)
    channel = ab.UtilityOptimizedRR(ab.Domain("x", range(k)), epsilon, sensitive=range(k_s))
    unit = np.sqrt(2 / (n * np.pi))
    if epsilon < np.log(k_n + 1):
        l1 = unit * (k_s * np.sqrt(k_s + e - 2) / (e - 1) + np.sqrt(k_s * k_n / (e - 1) + k_n - 1))
        l2 = k_s * (k_s + 2 * e - 3) / (n * (e - 1) ** 2) + (1 - 1 / k_n) / n
        worst = np.r_[np.zeros(k_s), np.full(k_n, 1 / k_n)]
    else:
        l1 = unit * np.sqrt(k - 1) * (k_s + e - 1) / (e - 1)
        l2 = (k_s + e - 1) ** 2 / (n * (e - 1) ** 2) * (1 - 1 / k)
        worst = np.r_[np.full(k_s, 1 - k_n / (e - 1)), np.full(k_n, 1 + k_s / (e - 1))] / k
    assert channel.worst_case_loss(n, norm="l1") == pytest.approx(l1, rel=1e-12)
    assert channel.worst_case_loss(n, norm="l2") == pytest.approx(l2, rel=1e-12)
    for norm in ("l1", "l2"):
        np.testing.assert_allclose(channel.worst_case_distribution(norm=norm), worst, atol=1e-12)


@pytest.mark.parametrize("k_s, k_n", [(3, 20), (20, 30)])
@pytest.mark.parametrize("epsilon", [0.2, 1.0, 4.0])
def test_worst_cases_of_urap_are_those_of_the_paper(k_s, k_n, epsilon):
    """ULDP Props. 8 and 19, inside their range of epsilon."""
    assert epsilon < 2 * np.log(k_n / 2 + 1)
    channel = ab.UtilityOptimizedRAPPOR(
        ab.Domain("x", range(k_s + k_n)), epsilon, sensitive=range(k_s)
    )
    n, half = 500, np.exp(epsilon / 2)
    l1 = np.sqrt(2 / (n * np.pi)) * (
        np.exp(epsilon / 4) * k_s / (half - 1) + np.sqrt(half * k_n / (half - 1) - 1)
    )
    l2 = (1 + ((k_s + 1) * half - 1) / (half - 1) ** 2 - 1 / k_n) / n
    assert channel.worst_case_loss(n, norm="l1") == pytest.approx(l1, rel=1e-12)
    assert channel.worst_case_loss(n, norm="l2") == pytest.approx(l2, rel=1e-12)


def test_best_theta_beats_its_neighbours_and_the_classic_one():
    for k_s, epsilon in ((1, 1.0), (5, 0.3), (76, 1.0), (76, 4.0)):
        domain = ab.Domain("x", range(k_s + 400))
        best = ab.UtilityOptimizedRAPPOR.optimal(domain, epsilon, sensitive=range(k_s))
        loss = best.worst_case_loss(1)
        for theta in (best.theta - 1e-3, best.theta + 1e-3, None):
            other = ab.UtilityOptimizedRAPPOR(domain, epsilon, sensitive=range(k_s), theta=theta)
            assert loss <= other.worst_case_loss(1) * (1 + 1e-12)


def test_bad_arguments_are_named():
    channel = CHANNELS[0]
    with pytest.raises(ab.AnonbayesError, match="norm='max'"):
        channel.worst_case_loss(10, norm="max")
    with pytest.raises(ab.AnonbayesError, match="n=0 must be"):
        channel.worst_case_loss(0)
    with pytest.raises(ab.AnonbayesError, match="sums to 2"):
        channel.expected_loss(np.full(8, 0.25), 10)
    with pytest.raises(ab.AnonbayesError, match="one probability for each of the 8"):
        channel.expected_loss([1.0], 10)
