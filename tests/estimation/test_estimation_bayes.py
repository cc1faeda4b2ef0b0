"""Gibbs sampling against exact posteriors."""

import itertools

import numpy as np
import pytest
from scipy import special

import anonbayes as ab
from anonbayes.estimation.bayes import dirichlet

DOMAIN = ab.Domain("x", list("abc"))
ALPHA = np.array([1.0, 2.0, 0.5])


def exact_posterior_mean(rows, alpha):
    """Posterior mean of p by summing over all true values behind the reports."""
    total, mean = 0.0, np.zeros(len(alpha))
    for held in itertools.product(range(len(alpha)), repeat=len(rows)):
        counts = np.bincount(held, minlength=len(alpha))
        weight = np.exp(np.sum(special.gammaln(alpha + counts)))
        weight *= np.prod([row[k] for row, k in zip(rows, held, strict=True)])
        total += weight
        mean += weight * (alpha + counts) / (alpha.sum() + len(rows))
    return mean / total


@pytest.mark.parametrize(
    "channel",
    [
        ab.RandomizedResponse(DOMAIN, 1.0),
        ab.UtilityOptimizedRR(DOMAIN, ["a"], 1.0),
        ab.RAPPOR(DOMAIN, 1.5),
        ab.UtilityOptimizedRAPPOR(DOMAIN, ["a", "b"], 1.0),
        ab.BitChannel(DOMAIN, [0.9, 0.6, 0.5], [0.2, 0.1, 0.0]),
    ],
    ids=["RR", "uRR", "RAPPOR", "uRAP", "tilted"],
)
def test_gibbs_agrees_with_enumeration(channel):
    reports = channel.release(["a", "a", "b", "c", "a", "b", "c"], seed=3)
    codes, _, matrix = channel.evidence(reports)
    exact = exact_posterior_mean(matrix.toarray()[codes], ALPHA)
    estimate = channel.estimate(
        reports, method="bayes", alpha=ALPHA, draws=5000, tune=100, chains=4, seed=1
    )
    # Batch means: 40 batches of 500 draws are nearly independent.
    batches = estimate.draws.to_numpy().reshape(40, -1, 3).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(40)
    assert (np.abs(estimate.p - exact) <= 4.5 * error).all()
    assert error.max() < 0.01


def test_an_uninformative_channel_returns_the_prior():
    channel = ab.RandomizedResponse(DOMAIN, 0.0)
    estimate = channel.estimate(
        ["a"] * 50, method="bayes", alpha=ALPHA, draws=4000, chains=2, thin=1, seed=2
    )
    expected = ALPHA / ALPHA.sum()
    error = np.sqrt(expected * (1 - expected) / (ALPHA.sum() + 1) / 8000)
    assert (np.abs(estimate.p - expected) <= 4.5 * error).all()


def test_credible_intervals_cover():
    """Simulation-based: p from the prior, reports from p, 90 % intervals."""
    channel = ab.UtilityOptimizedRR(ab.Domain("x", range(5)), [0, 1], 1.0)
    rng = np.random.default_rng(9)
    covered = []
    for _ in range(120):
        p = dirichlet(np.ones(5), rng)
        reports = channel.release(rng.choice(5, 300, p=p), seed=rng)
        limits = channel.estimate(
            reports, method="bayes", level=0.9, draws=200, tune=50, chains=2, seed=rng
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
