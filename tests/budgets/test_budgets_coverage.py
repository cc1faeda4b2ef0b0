"""The default rules keep ``gamma/n`` for every user; limits at the paper's level do not."""

import numpy as np
import pytest
from scipy import stats

import anonbayes as ab
from anonbayes.budgets.first_group import allow_errors, predictive_quantile


def best_accuracy(epsilon, count, n):
    """Largest accuracy that a budget allows at a count (16 in the proof of Theorem 1)."""
    return 1 / (count + (n - count) * np.exp(-epsilon))


def raised_law(n, count, n0, a, b):
    """Law of the number of raised bits in a first group drawn without replacement."""
    law = np.zeros(n0 + 1)
    held = np.arange(max(0, n0 - n + count), min(n0, count) + 1)
    for k, weight in zip(held, stats.hypergeom.pmf(held, n, count, n0), strict=True):
        own = stats.binom.pmf(np.arange(k + 1), k, a)
        law += weight * np.convolve(own, stats.binom.pmf(np.arange(n0 - k + 1), n0 - k, b))
    return law


def exact_case(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(40, 120))
    n0 = int(rng.integers(10, n // 2))
    gamma = float(rng.uniform(1.5, n / 4))
    domain = ab.Domain("t", range(n0 + 1))
    b = float(rng.uniform(0.005, 0.3))
    channel = ab.BitChannel(domain, b + (1 - b) * rng.uniform(0.2, 1.0), b)
    # One value for each number of raised bits there could be.
    support = ab.SupportCounts(np.arange(n0 + 1), n0)
    return domain, n, gamma, support, channel


def expected_accuracies(tuned, n, support, channel):
    """Of a holder of a value with any count, over all that the first group might report."""
    counts = np.arange(1, n + 1)
    a, b = float(channel.hit[0]), float(channel.miss[0])
    laws = np.array([raised_law(n, c, support.n, a, b) for c in counts])
    reached = best_accuracy(tuned.epsilon[None], counts[:, None], n)
    wrong = tuned.at_least[None] > counts[:, None]
    return (laws * reached).sum(axis=1), (laws * wrong).sum(axis=1)


@pytest.mark.parametrize("seed", range(12))
def test_no_user_is_expected_to_be_named_with_more_than_the_bound(seed):
    """Exactly, for every count, over every outcome of the first phase."""
    domain, n, gamma, support, channel = exact_case(seed)
    tuned = ab.budgets.from_confidence(domain, n, gamma, support, channel, 0.2)
    expected, wrong = expected_accuracies(tuned, n, support, channel)
    assert expected.max() <= tuned.bound * (1 + 1e-12)
    assert wrong.max() <= tuned.level * (1 + 1e-9)
    assert tuned.at_least.max() > 1  # the rule does use what it sees


def test_limits_at_the_papers_level_break_it():
    """The same calculation notices Wilson's limits at 5 %."""
    broken = 0
    for seed in range(12):
        domain, n, gamma, support, channel = exact_case(seed)
        tuned = ab.budgets.from_confidence(domain, n, gamma, support, channel, coverage="pointwise")
        expected, _ = expected_accuracies(tuned, n, support, channel)
        broken += expected.max() > 1.01 * tuned.bound
    assert broken >= 3


def test_the_level_follows_from_the_bound():
    for n, gamma, number in ((330_159, 100, 61_098), (75_128, 100, 3), (741, 100, 7), (50, 1, 4)):
        level, target = allow_errors(0.05, n, gamma, number)
        assert target / n + level <= gamma / n * (1 + 1e-12)
        assert number * level <= 0.05 * (1 + 1e-12)
        assert target >= 1 and target >= 0.95 * gamma * (1 - 1e-12)


def small_case(rng):
    size = int(rng.integers(3, 7))
    n = int(rng.integers(200, 1000))
    counts = rng.multinomial(n, rng.dirichlet(np.full(size, 0.3)))
    gamma = float(np.exp(rng.uniform(np.log(2), np.log(n / 3))))
    domain = ab.Domain("x", range(size))
    return domain, counts, n, gamma


@pytest.mark.parametrize("rule", ["confidence", "posterior"])
def test_exact_bayes_attack_on_both_phases_of_small_populations(rule):
    """All reports of both groups, over many populations: too accurate in a share alpha at most."""
    rng = np.random.default_rng(11)
    alpha, runs, exceeded, pointwise, excess = 0.2, 250, 0, 0, 0.0
    tune = getattr(ab.budgets, f"from_{rule}")
    for _ in range(runs):
        domain, counts, n, gamma = small_case(rng)
        start = ab.InputDiscriminativeUE.optimal(domain, ab.budgets.worst_case(domain, n, gamma))
        early = start.simulate(rng.multivariate_hypergeometric(counts, n // 4), seed=rng)
        worst = []
        for coverage in ("simultaneous", "pointwise"):
            tuned = tune(domain, n, gamma, early, start, alpha, coverage=coverage)
            channel = ab.InputDiscriminativeUE.optimal(domain, tuned)
            q = channel.matrix()
            evidence = counts @ q
            likely = q[counts > 0].max(axis=0)[evidence > 0] / evidence[evidence > 0]
            worst.append(likely.max() / tuned.bound)
        exceeded += worst[0] > 1 + 1e-9
        pointwise += worst[1] > 1 + 1e-9
        excess += worst[0]
        first = ab.reidentify.worst_report(start, counts).accuracy
        assert first <= gamma / n * (1 + 1e-9)
    assert exceeded / runs <= alpha
    assert excess / runs <= 1.0
    # The same attack notices rules that promise less.
    assert pointwise >= 12 and pointwise > 10 * exceeded


def crowd(rng):
    """Thousands of rare values: users with a unique one are easily taken for popular."""
    size, n = 4000, 20_000
    counts = rng.multinomial(n, (w := 1 / np.arange(60, size + 60)) / w.sum())
    return ab.Domain("x", range(size)), counts, n


@pytest.mark.parametrize("rule", ["confidence", "posterior"])
def test_outliers_stay_below_the_bound(rule):
    """Rates of the budget attack, computed; Wilson's limits at 5 % name outliers too often."""
    rng = np.random.default_rng(5)
    domain, counts, n = crowd(rng)
    sensitive = rng.random(len(domain)) < 0.05
    settings = {"sensitive": sensitive}
    worst = ab.budgets.worst_case(domain, n, 100, **settings)
    start = ab.InputDiscriminativeUE.optimal(domain, worst)
    tune = getattr(ab.budgets, f"from_{rule}")
    rates = {"simultaneous": [], "pointwise": []}
    for _ in range(15):
        early = start.simulate(rng.multivariate_hypergeometric(counts, n // 10), seed=rng)
        for coverage, found in rates.items():
            tuned = tune(domain, n, 100, early, start, coverage=coverage, **settings)
            channel = ab.InputDiscriminativeUE.optimal(domain, tuned)
            attack = ab.reidentify.expected_budget_attack(channel, counts, tuned, **settings)
            found.append([attack.rate / tuned.bound, attack.outlier_rate / tuned.bound])
    kept = np.array(rates["simultaneous"])
    assert (kept < 1).all()
    paper = np.array(rates["pointwise"])
    assert (paper[:, 1] > (1.5 if rule == "confidence" else 0.7)).all()


def test_posterior_promises_hold_over_populations_from_the_prior():
    """Any number wrong: alpha at most. Expected accuracy of every value: gamma/n at most."""
    rng = np.random.default_rng(4)
    size, n, n0, gamma, alpha, runs = 30, 3000, 600, 20, 0.3, 200
    domain = ab.Domain("x", range(size))
    channel = ab.InputDiscriminativeUE.optimal(domain, np.log(gamma))
    wrong, wrong_each = 0, 0
    accuracy = []
    for _ in range(runs):
        counts = rng.multinomial(n, rng.dirichlet(np.full(size, 1 / size)))
        support = channel.simulate(rng.multivariate_hypergeometric(counts, n0), seed=rng)
        tuned = ab.budgets.from_posterior(domain, n, gamma, support, channel, alpha)
        each = ab.budgets.from_posterior(
            domain, n, gamma, support, channel, alpha, coverage="pointwise"
        )
        wrong += tuned.exceeded(counts).any()
        wrong_each += each.exceeded(counts).any()
        held = counts > 0
        accuracy.extend(best_accuracy(tuned.epsilon[held], counts[held], n))
    assert wrong / runs <= alpha
    assert wrong_each > 2 * wrong + 10
    assert np.mean(accuracy) <= gamma / n


def test_draws_do_not_reach_into_far_tails():
    """Where draws run out, the beta distribution with their moments is what counts."""
    rng = np.random.default_rng(8)
    shares = rng.beta(30, 70, (1000, 1))
    exact = stats.betabinom(2000, 30, 70)
    for level in (0.1, 1e-3, 1e-5):  # enough draws, too few, none
        quantile = predictive_quantile(shares, 2000, level)[0]
        below = exact.cdf(quantile - 1)
        assert below <= 1.2 * level
        assert below >= 0.5 * level


def test_bad_coverage_is_named():
    domain = ab.Domain("x", range(3))
    channel = ab.RAPPOR(domain, 1.0)
    reports = channel.release([1, 2], seed=1)
    for rule in (ab.budgets.from_confidence, ab.budgets.from_posterior):
        with pytest.raises(ab.AnonbayesError, match="'simultaneous', 'pointwise'"):
            rule(domain, 100, 5, reports, channel, coverage="each")
    with pytest.raises(ab.AnonbayesError, match="'simultaneous', 'pointwise'"):
        ab.budgets.collect(domain, [1, 2, 0], 2, coverage="each")
