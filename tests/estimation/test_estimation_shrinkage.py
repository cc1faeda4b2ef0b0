"""Shrinkage against enumeration, against a general optimiser, and against what it should beat."""

import numpy as np
import pytest
from scipy import optimize, stats

import anonbayes as ab
from anonbayes.errors import ChannelError
from anonbayes.estimation import em
from anonbayes.estimation.em import Seen, candidates, condition, prior_likelihood, shrink


def seen_of(channel, counts, n):
    return Seen(np.asarray(counts), n, channel.hit, channel.miss)


def even(size):
    return np.full(size, 1.0 / size)


@pytest.mark.parametrize("n", [40, 4000])
def test_the_likelihood_is_binomial(n):
    channel = ab.UnaryEncoding.optimal(ab.Domain("x", range(5)), 1.0)
    counts = (np.array([0.2, 0.25, 0.3, 0.45, 0.5]) * n).astype(int)
    seen = seen_of(channel, counts, n)
    shares = candidates(seen)
    found = prior_likelihood(seen, np.ones(5, dtype=int), shares).rows.toarray()
    exact = stats.binom.pmf(
        counts[:, None], n, channel.miss[:, None] + (channel.hit - channel.miss)[:, None] * shares
    )
    exact /= exact.max(axis=1, keepdims=True)
    # Entries that were left out lie nine standard deviations away.
    np.testing.assert_allclose(found, exact, rtol=1e-9, atol=1e-15)


def test_moments_by_direct_summation():
    n, hit, miss = 1000, np.full(30, 0.5), np.full(30, 0.2)
    p_true = np.repeat([0.02, 0.045, 0.05], 10) / 1.15
    counts = np.random.default_rng(1).binomial(n, 0.2 + 0.3 * p_true)
    p = shrink(counts, n, hit, miss, iterations=4)
    # The same by hand: all values as rows, a full matrix, four steps of EM.
    shares = candidates(Seen(counts, n, hit, miss))
    likelihood = stats.binom.pmf(counts[:, None], n, 0.2 + 0.3 * shares)
    prior = even(len(shares))
    for _ in range(4):
        posterior = likelihood * prior
        posterior /= posterior.sum(axis=1, keepdims=True)
        prior = posterior.mean(axis=0)
    posterior = likelihood * prior
    posterior /= posterior.sum(axis=1, keepdims=True)
    mean = posterior @ shares
    variance = posterior @ shares**2 - mean**2
    by_hand = mean + variance * (1 - mean.sum()) / variance.sum()
    assert (by_hand > 0).all()
    np.testing.assert_allclose(p, by_hand, rtol=1e-8)


def test_many_steps_reach_the_most_likely_prior():
    rng = np.random.default_rng(2)
    n = 500
    counts, many = np.unique(rng.binomial(n, rng.choice([0.2, 0.35], 60)), return_counts=True)
    seen = Seen(counts, n, np.full(len(counts), 0.6), np.full(len(counts), 0.2))
    shares = candidates(seen)
    likelihood = prior_likelihood(seen, many, shares)
    found = em.maximize(likelihood, even(len(shares)), tolerance=1e-9)
    q = likelihood.rows.toarray()
    other = optimize.minimize(
        lambda w: -many @ np.log(q @ w),
        even(len(shares)),
        jac=lambda w: -(many / (q @ w)) @ q,
        bounds=[(0, 1)] * len(shares),
        constraints={"type": "eq", "fun": lambda w: w.sum() - 1, "jac": np.ones_like},
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-10},
    )
    assert other.success and found.gap < 1e-6
    assert found.log_likelihood == pytest.approx(-other.fun, abs=1e-5)


def test_restricting_the_prior_leaves_other_shares_out():
    seen = Seen(np.array([100, 150]), 500, np.full(2, 0.6), np.full(2, 0.2))
    shares = candidates(seen)
    likelihood = prior_likelihood(seen, np.ones(2, dtype=int), shares)
    keep = np.arange(len(shares)) % 3 == 0
    part = likelihood.restrict(keep)
    np.testing.assert_array_equal(part.rows.toarray(), likelihood.rows.toarray()[:, keep])
    p = np.zeros(len(shares))
    p[keep] = 1 / keep.sum()
    assert part.log(p[keep]) == pytest.approx(likelihood.log(p))


def test_conditioning_agrees_with_a_normal_distribution():
    mean, variance = np.array([0.5, 0.3, 0.15]), np.array([0.01, 0.02, 0.005])
    # Mean of N(m, V) given 1'x = 1, from the joint normal distribution.
    cross = variance
    by_hand = mean + cross / variance.sum() * (1 - mean.sum())
    np.testing.assert_allclose(condition(mean, variance), by_hand, rtol=1e-12)
    rng = np.random.default_rng(3)
    draws = rng.normal(mean, np.sqrt(variance), (2_000_000, 3))
    near = draws[np.abs(draws.sum(axis=1) - 1) < 0.002]
    error = near.std(axis=0) / np.sqrt(len(near))
    assert (np.abs(near.mean(axis=0) - by_hand) < 4.5 * error + 1e-4).all()


@pytest.mark.parametrize(
    ("mean", "variance"),
    [([0.9, 0.5, 0.01], [0.01, 0.01, 0.01]), ([0.2, 0.2], [0.0, 0.0]), ([0.3, 0.9], [0.0, 0.1])],
)
def test_conditioning_always_gives_a_distribution(mean, variance):
    p = condition(np.array(mean), np.array(variance))
    assert p.sum() == pytest.approx(1.0) and (p >= 0).all()


@pytest.mark.parametrize("shape", ["zipf", "geometric", "sparse", "dirichlet"])
@pytest.mark.parametrize("make", ["RR", "OUE", "uRAP"])
def test_it_beats_the_unbiased_estimate_and_mostly_the_threshold(shape, make):
    size, n, runs = 200, 50_000, 20
    rng = np.random.default_rng(4)
    p = {
        "zipf": 1.0 / np.arange(1, size + 1),
        "geometric": 0.97 ** np.arange(size),
        "sparse": (np.arange(size) < 20).astype(float),
        "dirichlet": rng.gamma(0.3, size=size),
    }[shape]
    p /= p.sum()
    domain = ab.Domain("x", range(size))
    channel = {
        "RR": ab.RandomizedResponse(domain, 2.0),
        "OUE": ab.UnaryEncoding.optimal(domain, 1.0),
        "uRAP": ab.UtilityOptimizedRAPPOR(domain, 1.0, sensitive=range(100)),
    }[make]
    losses = {"empirical": [], "threshold": [], "shrinkage": []}
    for _ in range(runs):
        counts = channel.simulate(rng.multinomial(n, p), seed=rng)
        for method, found in losses.items():
            found.append(((channel.estimate(counts, method=method).p - p) ** 2).sum())
    mine = np.array(losses["shrinkage"])
    for other, factor in (("empirical", 0.9), ("threshold", 1.1)):
        difference = mine - factor * np.array(losses[other])
        assert difference.mean() < -2 * difference.std(ddof=1) / np.sqrt(runs)


def test_without_noise_worth_mentioning_it_is_the_empirical_estimate():
    p = np.array([0.5, 0.3, 0.15, 0.05])
    channel = ab.RandomizedResponse(ab.Domain("x", "abcd"), 5.0)
    n = 10**12
    counts = ab.SupportCounts(np.round(n * channel.apply(p)).astype(np.int64), n)
    np.testing.assert_allclose(channel.estimate(counts, method="shrinkage").p, p, atol=3e-6)


def test_rare_kinds_share_a_prior_and_large_kinds_have_their_own():
    rng = np.random.default_rng(5)
    hit, miss = np.full(60, 0.5), np.repeat([0.2, 0.1], 30)
    counts = rng.binomial(1000, miss)
    both = shrink(counts, 1000, hit, miss)
    # What is learned from one kind does not reach the other, but through the sum.
    other = counts.copy()
    other[30:] = rng.permutation(counts[30:])
    np.testing.assert_allclose(shrink(other, 1000, hit, miss)[:30], both[:30], rtol=1e-12)
    every = np.linspace(0.1, 0.2, 60)
    assert shrink(rng.binomial(1000, every), 1000, hit, every).sum() == pytest.approx(1.0)


def test_edges():
    one = ab.RandomizedResponse(ab.Domain("x", ["only"]), 1.0)
    assert one.estimate(["only"] * 5, method="shrinkage").p.tolist() == [1.0]
    sure = ab.UtilityOptimizedRR(ab.Domain("x", "abc"), 1.0, sensitive=[])
    found = sure.estimate(["a"] * 6 + ["b"] * 4, method="shrinkage")
    assert found.p.sum() == pytest.approx(1.0) and found.p[0] > found.p[1] > found.p[2] >= 0
    silent = ab.RAPPOR(ab.Domain("x", "abcd"), 1.0)
    none = ab.SupportCounts([0, 0, 0, 0], n=3)
    assert silent.estimate(none, method="shrinkage").p.tolist() == [0.25] * 4
    with pytest.raises(ChannelError, match="no information"):
        ab.RandomizedResponse(ab.Domain("x", "ab"), 0.0).estimate(["a"], method="shrinkage")
    with pytest.raises(ChannelError, match="iterations"):
        one.estimate(["only"], method="shrinkage", iterations=0)
    with pytest.raises(ChannelError, match="no reports"):
        one.estimate([], method="shrinkage")
