"""Posterior draws against exact posteriors, and how well they mix and cover."""

import itertools

import numpy as np
import pytest
from scipy import special

import anonbayes as ab
from anonbayes.estimation import bayes
from anonbayes.estimation.bayes import dirichlet

DOMAIN = ab.Domain("x", list("abc"))
ALPHA = np.array([1.0, 2.0, 0.5])


def exact_posterior_mean(rows, alpha):
    """Posterior mean of p by summing over all true values behind the reports."""
    mean, total = exact_sums(rows, alpha)
    return mean / total


def exact_sums(rows, alpha):
    total, mean = 0.0, np.zeros(len(alpha))
    for held in itertools.product(range(len(alpha)), repeat=len(rows)):
        counts = np.bincount(held, minlength=len(alpha))
        weight = np.exp(np.sum(special.gammaln(alpha + counts)))
        weight *= np.prod([row[k] for row, k in zip(rows, held, strict=True)])
        total += weight
        mean += weight * (alpha + counts) / (alpha.sum() + len(rows))
    return mean, total


@pytest.mark.parametrize(
    "channel",
    [
        ab.RandomizedResponse(DOMAIN, 1.0),
        ab.UtilityOptimizedRR(DOMAIN, 1.0, sensitive=["a"]),
        ab.RAPPOR(DOMAIN, 1.5),
        ab.UtilityOptimizedRAPPOR(DOMAIN, 1.0, sensitive=["a", "b"]),
        ab.BitChannel(DOMAIN, [0.9, 0.6, 0.5], [0.2, 0.1, 0.0]),
    ],
    ids=["RR", "uRR", "RAPPOR", "uRAP", "tilted"],
)
def test_draws_agree_with_enumeration(channel):
    reports = channel.release(["a", "a", "b", "c", "a", "b", "c"], seed=3)
    codes, _, matrix = channel.evidence(reports)
    exact = exact_posterior_mean(matrix.toarray()[codes], ALPHA)
    estimate = channel.estimate(
        reports, method="bayes", alpha=ALPHA, draws=2500, tune=100, chains=4, seed=1
    )
    # Batch means: 40 batches of 250 draws are nearly independent.
    batches = estimate.draws.to_numpy().reshape(40, -1, 3).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(40)
    assert (np.abs(estimate.p - exact) <= 4.5 * error).all()
    assert error.max() < 0.015


@pytest.mark.parametrize("name", ["RR", "RAPPOR", "tilted"])
def test_the_learned_prior_agrees_with_enumeration_over_its_weight(name):
    """The weight is integrated out on a fine grid of its logarithm."""
    channel = {
        "RR": ab.RandomizedResponse(DOMAIN, 1.0),
        "RAPPOR": ab.RAPPOR(DOMAIN, 1.5),
        "tilted": ab.BitChannel(DOMAIN, [0.9, 0.6, 0.5], [0.2, 0.1, 0.05]),
    }[name]
    reports = channel.release(["a", "a", "b", "a"], seed=3)
    codes, _, matrix = channel.evidence(reports)
    rows = matrix.toarray()[codes]
    total, mean = 0.0, np.zeros(3)
    for weight in np.geomspace(bayes.LEAST_WEIGHT, bayes.MOST_WEIGHT * 3, 80):
        alpha = np.full(3, weight / 3)
        sums, evidence = exact_sums(rows, alpha)
        factor = np.exp(
            special.gammaln(weight) - 3 * special.gammaln(weight / 3)
            - special.gammaln(weight + len(rows))
        )  # fmt: skip
        total, mean = total + factor * evidence, mean + factor * sums
    estimate = channel.estimate(reports, method="bayes", draws=3000, tune=200, chains=2, seed=1)
    batches = estimate.draws.to_numpy().reshape(40, -1, 3).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(40)
    assert (np.abs(estimate.p - mean / total) <= 4.5 * error).all()
    assert error.max() < 0.02


def test_bits_and_hashes_mix():
    """Chains of plain data augmentation had 22 effective draws of 4,000 in the first setting."""
    truth = 1 / np.arange(1, 21) / (1 / np.arange(1, 21)).sum()
    users = np.random.default_rng(1).choice(20, 8000, p=truth)
    domain = ab.Domain("x", range(20))
    for channel in (ab.RAPPOR(domain, 1.0), ab.LocalHashing(domain, 1.0)):
        reports = channel.release(users, seed=2)
        estimate = channel.estimate(reports, method="bayes", draws=150, tune=100, chains=2, seed=3)
        assert estimate.converged and estimate.r_hat < 1.05 and estimate.ess >= 100
        assert ((estimate.p - truth) ** 2).sum() < 2 * channel.expected_loss(truth, 8000)


@pytest.mark.parametrize("size", [50, 200])
def test_limits_cover_the_largest_shares_where_noise_prevails(size):
    """With a uniform prior the largest share was inside in none of 25 runs."""
    channel = ab.RandomizedResponse(ab.Domain("x", range(size)), 1.0)
    truth = 1 / np.arange(1, size + 1) / (1 / np.arange(1, size + 1)).sum()
    inside = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        reports = channel.simulate(rng.multinomial(5000, truth), seed=rng)
        estimate = channel.estimate(reports, method="bayes", draws=40, tune=20, chains=1, seed=seed)
        low, high = estimate.interval.T
        assert ((low <= estimate.p) & (estimate.p <= high)).all()
        inside.append(((low <= truth) & (truth <= high))[:3])
    # 36 cases at 0.95 or more: fewer than 32 inside have a probability below 0.04.
    assert np.sum(inside) >= 32


def test_chains_that_do_not_mix_say_so(monkeypatch):
    rng = np.random.default_rng(1)
    apart = rng.normal(size=(4, 500, 2)) + np.array([0, 0, 0, 1.2])[:, None, None]
    slow = np.cumsum(rng.normal(size=(4, 500, 1)), axis=1)
    assert bayes.mixing(apart)[0] > 1.05 and bayes.mixing(slow)[1] < 50
    # Autoregression with coefficient 0.9: one draw in 19 counts.
    lagged = np.zeros((4, 5000, 1))
    for t in range(1, 5000):
        lagged[:, t] = 0.9 * lagged[:, t - 1] + rng.normal(size=(4, 1))
    assert bayes.mixing(lagged)[1] == pytest.approx(20_000 / 19, rel=0.25)
    monkeypatch.setattr(bayes, "mixing", lambda draws: (1.14, 22.0))
    channel = ab.RAPPOR(DOMAIN, 1.0)
    reports = channel.release(list("abc") * 5, seed=1)
    with pytest.warns(ab.errors.ConvergenceWarning, match="did not mix .R-hat 1.14, 22 effective"):
        estimate = channel.estimate(reports, method="bayes", draws=100, chains=2, seed=1)
    assert not estimate.converged


def test_shares_far_below_the_smallest_float_keep_their_place():
    """Their place was lost, so that now and then a draw, and all after it, were no numbers."""
    old, log_g = 0.0041, np.array([-1382.0, -900.0, -200.0, -30.0])
    place = np.exp(old * log_g) / special.gamma(old + 1)  # the leading term of the series
    # At order 1 the distribution is exponential, and its quantile has a closed form.
    np.testing.assert_allclose(
        bayes._same_place(log_g, old, 1.0), np.log(-np.log1p(-place)), rtol=1e-9
    )
    np.testing.assert_allclose(
        bayes._same_place(bayes._same_place(log_g, old, 7.8), 7.8, old), log_g, rtol=1e-6
    )
    r_hat, ess = bayes.mixing(np.full((2, 100, 3), np.nan))
    assert r_hat == np.inf and ess == 0


def test_an_uninformative_channel_returns_the_prior():
    channel = ab.RandomizedResponse(DOMAIN, 0.0)
    estimate = channel.estimate(
        list("abcab"), method="bayes", alpha=ALPHA, draws=4000, chains=2, thin=1, seed=2
    )
    expected = ALPHA / ALPHA.sum()
    error = np.sqrt(expected * (1 - expected) / (ALPHA.sum() + 1) / 8000)
    assert (np.abs(estimate.p - expected) <= 4.5 * error).all()


def test_credible_intervals_cover():
    """Simulation-based: p from the prior, reports from p, 90 % intervals."""
    channel = ab.UtilityOptimizedRR(ab.Domain("x", range(5)), 1.0, sensitive=[0, 1])
    rng = np.random.default_rng(9)
    covered = []
    for _ in range(120):
        p = dirichlet(np.ones(5), rng)
        reports = channel.release(rng.choice(5, 300, p=p), seed=rng)
        limits = channel.estimate(
            reports, method="bayes", alpha=1.0, level=0.9, draws=200, tune=50, chains=2, seed=rng
        ).interval
        covered.append((limits[:, 0] <= p) & (p <= limits[:, 1]))
    # Values within a run are dependent: the error is that of the runs' shares.
    shares = np.mean(covered, axis=1)
    error = shares.std(ddof=1) / np.sqrt(120)
    assert abs(shares.mean() - 0.9) < 4 * error < 0.08


def test_draws_are_labelled_and_repeatable():
    channel = ab.RAPPOR(DOMAIN, 1.0)
    reports = channel.release(["a", "b", "c"] * 20, seed=1)
    settings = {"method": "bayes", "draws": 20, "tune": 5, "chains": 2, "thin": 1}
    first = channel.estimate(reports, seed=7, **settings)
    again = channel.estimate(reports, seed=7, **settings)
    assert first.draws.dims == ("chain", "draw", "x")
    assert list(first.draws["x"].to_numpy()) == ["a", "b", "c"]
    np.testing.assert_array_equal(first.draws, again.draws)
    assert not np.array_equal(first.draws[0], first.draws[1])
    np.testing.assert_allclose(first.draws.sum("x"), 1.0)


def test_tiny_priors_do_not_underflow():
    draws = np.array([dirichlet(np.full(4, 1e-4), np.random.default_rng(i)) for i in range(200)])
    assert np.isfinite(draws).all()
    np.testing.assert_allclose(draws.sum(axis=1), 1.0)
    assert 0.1 < draws[:, 0].mean() < 0.4


def test_bad_settings_are_named():
    channel = ab.RandomizedResponse(DOMAIN, 1.0)
    with pytest.raises(ab.AnonbayesError, match=r"alpha\[1\] = .*-1.* must be positive"):
        channel.estimate(["a"], method="bayes", alpha=[1, -1, 1])
    with pytest.raises(ab.AnonbayesError, match="one for each of the 3 values"):
        channel.estimate(["a"], method="bayes", alpha=[1, 1])
    with pytest.raises(ab.AnonbayesError, match="draws=0"):
        channel.estimate(["a"], method="bayes", draws=0)
    with pytest.raises(ab.AnonbayesError, match="not both"):
        channel.estimate(["a"], method="bayes", alpha=1.0, prior_weight=1.0)
    with pytest.raises(ab.AnonbayesError, match="prior_weight=-1"):
        channel.estimate(["a"], method="bayes", prior_weight=-1)


@pytest.mark.parametrize("epsilon", [0.0, 1e-300, 1e-17, 1e-9])
def test_no_budget_is_too_small(epsilon):
    """Reports that say nothing leave the prior: every share is 1/K on average."""
    domain = ab.Domain("x", range(4))
    for channel in (
        ab.RAPPOR(domain, epsilon),
        ab.UnaryEncoding.optimal(domain, epsilon),
        ab.LocalHashing(domain, epsilon, g=3),
        ab.SubsetSelection(domain, epsilon),
        ab.RandomizedResponse(domain, epsilon),
        ab.UtilityOptimizedRR(domain, epsilon, sensitive=[0, 1, 2, 3]),
    ):
        reports = channel.release([0, 1, 2, 3] * 5, seed=1)
        p = channel.estimate(reports, method="bayes", draws=90, tune=10, chains=2, seed=1).p
        assert np.isfinite(p).all() and p.sum() == pytest.approx(1.0)


def test_rappor_converges_and_can_be_diagnosed():
    """A Gibbs sampler of users' values had R-hat 1.14 and 22 effective draws of 4,000 here."""
    domain = ab.Domain("v", range(20))
    shares = 1 / np.arange(1, 21)
    people = np.random.default_rng(1).choice(20, 20_000, p=shares / shares.sum())
    channel = ab.RAPPOR(domain, 1.0)
    reports = channel.release(people, seed=1)
    estimate = channel.estimate(reports, method="bayes", seed=1, draws=250, tune=100)
    assert estimate.converged and estimate.r_hat < 1.02 and estimate.ess > 400
    assert ab.diagnose(estimate).passed
    with pytest.raises(ab.AnonbayesError, match="mle"):
        ab.diagnose(channel.estimate(reports, method="mle"))
