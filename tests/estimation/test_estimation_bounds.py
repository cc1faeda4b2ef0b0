"""Lower bounds: below every estimator in simulation, and close to the best of them."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import anonbayes as ab
from anonbayes.estimation import bounds
from anonbayes.estimation.bounds import _trace, uldp_bound

DOMAIN = ab.Domain("x", range(4))
CHANNELS = {
    "RR": ab.RandomizedResponse(DOMAIN, 2.0),
    "uRR": ab.UtilityOptimizedRR(DOMAIN, [0, 1], 1.0),
    "RAPPOR": ab.RAPPOR(DOMAIN, 3.0),
    "uRAP": ab.UtilityOptimizedRAPPOR(DOMAIN, [0, 1], 2.0),
}


@pytest.mark.parametrize("name", CHANNELS)
def test_the_best_estimator_stays_above_van_trees_and_close_to_it(name):
    """p from the prior, reports from p; the posterior mean has the least mean squared error."""
    channel, alpha = CHANNELS[name], np.array([8.0, 8.0, 12.0, 10.0])
    if name == "RAPPOR":
        alpha = np.full(4, 10.0)
    rng = np.random.default_rng(21)
    losses = []
    for _ in range(120):
        p = rng.dirichlet(alpha)
        reports = channel.release(rng.choice(4, 1500, p=p), seed=rng)
        mean = channel.estimate(
            reports, method="bayes", alpha=alpha, draws=60, tune=15, chains=1, thin=1, seed=rng
        ).p
        losses.append(((mean - p) ** 2).sum())
    bound = channel.van_trees_bound(1500, alpha=alpha)
    risk, error = np.mean(losses), np.std(losses, ddof=1) / np.sqrt(len(losses))
    assert risk > bound - 4 * error
    # 60 dependent draws of the posterior add a few percent to the risk of its mean.
    assert risk < 1.2 * bound + 4 * error
    assert error < 0.1 * bound


@pytest.mark.parametrize("name", ["RR", "uRR"])
def test_maximum_likelihood_of_responses_reaches_the_information(name):
    channel, p, n = CHANNELS[name], np.array([0.3, 0.2, 0.35, 0.15]), 10**6
    rng = np.random.default_rng(5)
    losses = []
    for _ in range(2000):
        held = rng.multinomial(n, p)
        found = channel.estimate(channel.simulate(held, seed=rng), method="mle").p
        losses.append(((found - p) ** 2).sum())
    error = np.std(losses, ddof=1) / np.sqrt(2000)
    bound = channel.cramer_rao_bound(p, n)
    assert abs(np.mean(losses) - bound) < 4 * error < 0.1 * bound


@pytest.mark.parametrize("name", ["RAPPOR", "uRAP"])
def test_maximum_likelihood_of_bits_does_and_the_empirical_estimate_does_not(name):
    channel, p, n = CHANNELS[name], np.full(4, 0.25), 4000
    rng = np.random.default_rng(6)
    likely, empirical = [], []
    for _ in range(300):
        reports = channel.release(rng.choice(4, n, p=p), seed=rng)
        for losses, method in ((likely, "mle"), (empirical, "empirical")):
            settings = {"tolerance": 1e-8} if method == "mle" else {}
            found = channel.estimate(reports, method=method, **settings).p
            losses.append(((found - p) ** 2).sum())
    bound, plain = channel.cramer_rao_bound(p, n), channel.expected_loss(p, n)
    errors = [np.std(x, ddof=1) / np.sqrt(300) for x in (likely, empirical)]
    assert abs(np.mean(likely) - bound) < 4 * errors[0]
    assert abs(np.mean(empirical) - plain) < 4 * errors[1]
    # Same reports: the difference is seen far beyond its error.
    gains = np.subtract(empirical, likely)
    assert gains.mean() > 4 * gains.std(ddof=1) / np.sqrt(300)


@pytest.mark.parametrize("name", CHANNELS)
def test_some_distribution_makes_every_estimator_exceed_the_minimax_bound(name):
    """With few reports, where biased estimators beat the empirical one."""
    channel, n = CHANNELS[name], 60
    bound = channel.minimax_bound(n)
    rng = np.random.default_rng(7)
    places = [np.full(4, 0.25), channel.worst_case_distribution(), np.array([0.0, 0.0, 0.5, 0.5])]
    for method, options in (("mle", {}), ("threshold", {}), ("em", {"iterations": 5})):
        worst = 0.0
        for p in places:
            losses = []
            for _ in range(80):
                reports = channel.release(rng.choice(4, n, p=p), seed=rng)
                found = channel.estimate(reports, method=method, **options).p
                losses.append(((found - p) ** 2).sum())
            worst = max(worst, np.mean(losses) + 4 * np.std(losses, ddof=1) / np.sqrt(80))
        assert worst > bound
    assert 0 < bound < channel.worst_case_loss(n)


@pytest.mark.parametrize("name", CHANNELS)
def test_the_minimax_bound_meets_the_worst_case_of_efficient_estimators(name):
    channel = CHANNELS[name]
    ratios = [channel.worst_case_loss(n) / channel.minimax_bound(n) for n in (10**2, 10**4, 10**8)]
    assert ratios[0] > ratios[1] > ratios[2] >= 1
    if name in ("RR", "uRR"):
        assert ratios[2] < 1.01
    # No prior of the search is better by much on either side.
    alpha = channel.least_favourable_prior(10**4)
    top = channel.van_trees_bound(10**4, alpha=alpha)
    for factor in (0.5, 2.0):
        assert channel.van_trees_bound(10**4, alpha=2 + factor * (alpha - 2)) < top


@pytest.mark.parametrize("size, epsilon", [(4, np.log(3)), (6, np.log(2)), (9, np.log(2))])
def test_subset_selection_carries_the_most_information_ldp_allows(size, epsilon):
    """With K/(e+1) values in the subset, a whole number here; exact, from the full matrix."""
    number = round(size / (np.exp(epsilon) + 1))
    sets = list(combinations(range(size), number))
    q = np.ones((size, len(sets)))
    for y, chosen in enumerate(sets):
        q[list(chosen), y] = np.exp(epsilon)
    q /= q.sum(axis=1, keepdims=True)
    rows = q - q.mean(axis=0)
    trace = (rows**2 / q.mean(axis=0)).sum()
    assert trace == pytest.approx(size * (np.exp(epsilon) - 1) ** 2 / (4 * np.exp(epsilon)))
    assert _trace(size, epsilon, np.array([float(number)]), 1e12)[0] == pytest.approx(trace)


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), size=st.integers(2, 6), reports=st.integers(2, 9))
def test_no_ldp_channel_carries_more(seed, size, reports):
    """Random channels, their own budget, and the mean over draws of a prior."""
    rng = np.random.default_rng(seed)
    q = rng.dirichlet(np.full(reports, rng.choice([0.5, 3.0, 30.0])), size) + 1e-3
    if seed % 2:  # near the extreme columns, where the bound is tight
        q = np.where(q > np.median(q), 3.0, 1.0)
    q /= q.sum(axis=1, keepdims=True)
    epsilon = float(np.log((q.max(axis=0) / q.min(axis=0)).max()))
    a = 3.0
    draws = rng.dirichlet(np.full(size, a), 300)
    traces = (((q - q.mean(axis=0)) ** 2).sum(axis=0) / (draws @ q)).sum(axis=1)
    most = _trace(size, epsilon, np.arange(1.0, size), a).max()
    assert traces.mean() - 4.5 * traces.std() / np.sqrt(300) <= most * (1 + 1e-9)


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0])
@pytest.mark.parametrize("n", [200, 10**7])
def test_no_channel_falls_below_the_bound_of_its_guarantee(n, epsilon, norm):
    domain = ab.Domain("x", range(40))
    plain = uldp_bound(40, epsilon, n, norm=norm)
    ldp = max(plain, (1 - 1 / 40) / (np.sqrt(n) + 1) ** 2) if norm == "l2" else plain
    for channel in (
        ab.RandomizedResponse(domain, epsilon),
        ab.RAPPOR(domain, epsilon),
        ab.UnaryEncoding.optimal(domain, epsilon),
    ):
        assert channel.worst_case_loss(n, norm=norm) >= ldp
        if norm == "l2":
            assert channel.minimax_bound(n) >= 0.85 * plain
    uldp = uldp_bound(12, epsilon, n, n_values=40, norm=norm)
    assert uldp <= 1.05 * ldp  # the numbers of values that are tried differ
    for channel in (
        ab.UtilityOptimizedRR(domain, range(12), epsilon),
        ab.UtilityOptimizedRAPPOR.optimal(domain, range(12), epsilon),
    ):
        assert channel.worst_case_loss(n, norm=norm) >= uldp


@pytest.mark.parametrize("norm, constant", [("l1", 1 / 4), ("l2", 4.0)])
def test_it_is_a_fixed_multiple_of_the_published_rate(norm, constant):
    for k_s in (50, 500):
        rate = bounds.minimax_rate(k_s, 1e-2, 10**14, norm=norm)
        bound = uldp_bound(k_s, 1e-2, 10**14, norm=norm)
        assert bound / rate == pytest.approx(constant, rel=0.05)


def test_rappor_is_optimal_with_its_constant_at_small_budgets():
    for k_s in (50, 500):
        channel = ab.UtilityOptimizedRAPPOR(ab.Domain("x", range(2 * k_s)), range(k_s), 1e-2)
        ratio = channel.worst_case_loss(10**13) / uldp_bound(k_s, 1e-2, 10**13)
        assert 1 <= ratio < 1.06


def test_simulated_losses_exceed_the_bounds_for_any_mechanism():
    """At the worst case of RAPPOR; maximum likelihood, which may use the edges of the simplex."""
    domain = ab.Domain("x", range(10))
    channel = ab.RAPPOR(domain, 1.0)
    rng = np.random.default_rng(8)
    p = channel.worst_case_distribution()
    l1, l2 = [], []
    for _ in range(100):
        reports = channel.release(rng.choice(10, 5000, p=p), seed=rng)
        error = channel.estimate(reports, method="mle").p - p
        l1.append(np.abs(error).sum())
        l2.append(error @ error)
    for losses, norm, most in ((l1, "l1", 7.0), (l2, "l2", 1.8)):
        bound = uldp_bound(10, 1.0, 5000, norm=norm)
        error = np.std(losses, ddof=1) / 10
        assert bound < np.mean(losses) - 4 * error
        assert np.mean(losses) < most * bound


@pytest.mark.parametrize("n", [5, 50, 500])
@pytest.mark.parametrize("epsilon", [0.3, 1.5])
def test_two_values_against_the_exact_two_point_risk(n, epsilon):
    """K = 2: the l1 risk of the best decision between (1 +- delta)/2, by enumeration of counts."""
    keep = 1 / (1 + np.exp(-epsilon))
    counts = np.arange(n + 1)
    best = 0.0
    for delta in np.linspace(0.001, 1.0, 400):
        rates = [(1 - keep) + (2 * keep - 1) * (1 + s * delta) / 2 for s in (1, -1)]
        masses = [stats.binom.pmf(counts, n, rate) for rate in rates]
        best = max(best, delta * np.minimum(*masses).sum())
    bound = uldp_bound(2, epsilon, n, norm="l1")
    assert 0.6 * best < bound <= best * (1 + 1e-9)


def test_without_privacy_it_is_the_exact_minimax_risk():
    """Trybula's estimate ``(c + sqrt(n)/K)/(n + sqrt(n))`` has this risk at every p."""
    n, size = 30, 5
    for p in (np.full(5, 0.2), np.array([0.6, 0.3, 0.1, 0.0, 0.0]), np.eye(5)[0]):
        root = np.sqrt(n)
        bias = (n * p + root / size) / (n + root) - p
        risk = (n * p * (1 - p) / (n + root) ** 2 + bias**2).sum()
        assert uldp_bound(1, 1.0, n, n_values=size) == pytest.approx(risk)


def test_special_cases_and_bad_arguments():
    assert uldp_bound(0, 1.0, 10) == uldp_bound(1, 1.0, 10) == 0.0
    assert uldp_bound(1, 1.0, 10, n_values=1, norm="l1") == 0.0
    single = ab.Domain("x", ["only"])
    for channel in (ab.RandomizedResponse(single, 1.0), ab.RAPPOR(single, 1.0)):
        assert channel.minimax_bound(10) == pytest.approx(0.0, abs=1e-15)
        assert channel.cramer_rao_bound([1.0], 10) == pytest.approx(0.0, abs=1e-15)
    # Without any information the prior alone is left, whatever n is.
    assert uldp_bound(5, 0.0, 10) == pytest.approx(uldp_bound(5, 0.0, 10**6), rel=1e-3)
    losses = [uldp_bound(20, e, 10**5) for e in (0.0, 1.0, 5.0)]
    assert (np.diff(losses) < 0).all()
    with pytest.raises(ab.AnonbayesError, match="n=0 reports"):
        uldp_bound(5, 1.0, 0)
    with pytest.raises(ab.AnonbayesError, match="n_sensitive=9 of n_values=5"):
        uldp_bound(9, 1.0, 10, n_values=5)
    with pytest.raises(ab.AnonbayesError, match="epsilon=-1"):
        uldp_bound(5, -1, 10)
    with pytest.raises(ab.AnonbayesError, match="norm='max'"):
        uldp_bound(5, 1.0, 10, norm="max")
