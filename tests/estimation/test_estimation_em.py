"""EM: plain, accelerated, early stopping, and its certificate."""

import numpy as np
import pytest

import anonbayes as ab
from anonbayes.estimation import em

DOMAIN = ab.Domain("x", range(30))
SENSITIVE = range(8)
P = np.random.default_rng(2).dirichlet(np.full(30, 0.5))
CHANNELS = {
    "RR": ab.RandomizedResponse(DOMAIN, 2.0),
    "uRR": ab.UtilityOptimizedRR(DOMAIN, 1.0, sensitive=SENSITIVE),
    "RAPPOR": ab.RAPPOR(DOMAIN, 3.0),
    "uRAP": ab.UtilityOptimizedRAPPOR(DOMAIN, 1.0, sensitive=SENSITIVE),
    "tilted": ab.BitChannel(DOMAIN, np.linspace(0.5, 0.9, 30), np.linspace(0.05, 0.3, 30)),
}


def drawn(channel, n=3000):
    values = np.random.default_rng(4).choice(30, n, p=P)
    return channel.release(values, seed=5)


@pytest.mark.parametrize("name", CHANNELS)
def test_plain_em_climbs_and_its_certificate_is_true(name):
    channel = CHANNELS[name]
    reports = drawn(channel)
    rough = channel.estimate(reports, method="em", iterations=30, tolerance=0)
    assert (np.diff(rough.path) >= -1e-9 * abs(rough.path[0])).all()
    assert rough.iterations == 30 and not rough.converged
    best = channel.estimate(reports, method="mle", start=rough.p, tolerance=1e-9)
    # What is still to gain is at most the gap, and something is.
    gained = best.log_likelihood - rough.log_likelihood
    assert 0 <= gained <= rough.gap


@pytest.mark.parametrize("name", CHANNELS)
def test_accelerated_em_reaches_the_same_maximum_sooner(name):
    channel = CHANNELS[name]
    reports = drawn(channel)
    fast = channel.estimate(reports, method="mle", start=None, iterations=4000, tolerance=1e-6)
    plain = channel.estimate(reports, method="em", iterations=20_000, tolerance=1e-6)
    assert fast.converged and plain.converged
    assert fast.iterations < plain.iterations
    assert abs(fast.log_likelihood - plain.log_likelihood) <= 2e-6 * 3000
    assert (np.diff(fast.path) >= -1e-9 * abs(fast.path[0])).all()


@pytest.mark.parametrize("name", ["RR", "uRR"])
def test_em_agrees_with_the_closed_form(name):
    channel = CHANNELS[name]
    reports = drawn(channel)
    closed = channel.estimate(reports, method="mle")
    climbed = channel.estimate(reports, method="em", iterations=20_000, tolerance=1e-8)
    assert closed.log_likelihood >= climbed.log_likelihood - 1e-9
    assert closed.log_likelihood - climbed.log_likelihood <= 1e-8 * 3000
    np.testing.assert_allclose(closed.p, climbed.p, atol=1e-3)


def test_values_set_aside_do_not_spoil_the_maximum():
    """Most of 400 values are held by nobody: the solution is sparse, the certificate global."""
    domain = ab.Domain("x", range(400))
    channel = ab.RAPPOR(domain, 4.0)
    values = np.random.default_rng(8).choice(20, 4000)
    reports = channel.release(values, seed=9)
    estimate = channel.estimate(reports, method="mle", tolerance=1e-7)
    assert estimate.converged and (estimate.p == 0).mean() > 0.3
    dense = channel.likelihood(reports).matrix().toarray() / np.exp(
        channel.likelihood(reports).log_scale
    ).reshape(-1, 1)
    gradient = (1.0 / (dense @ estimate.p)) @ dense
    assert gradient.max() - 4000 <= 1e-7 * 4000 + 1e-6
    assert (np.diff(estimate.path) >= -1e-9 * abs(estimate.path[0])).all()
    # From a start that gives the held values next to nothing, the same likelihood.
    backwards = np.r_[np.full(20, 1e-9), np.full(380, 1.0)]
    other = channel.estimate(reports, method="mle", tolerance=1e-7, start=backwards)
    assert abs(other.log_likelihood - estimate.log_likelihood) <= 2e-7 * 4000


def test_restricting_is_setting_the_rest_to_zero():
    channel = CHANNELS["tilted"]
    likelihood = channel.likelihood(drawn(channel, n=200))
    keep = np.arange(30) % 3 > 0
    p = np.where(keep, P, 0.0) / P[keep].sum()
    part = likelihood.restrict(keep)
    assert part.log(p[keep]) == pytest.approx(likelihood.log(p), rel=1e-12)
    np.testing.assert_allclose(part.gradient(p[keep])[0], likelihood.gradient(p)[0][keep])


def test_stopping_early_regularises():
    """At low epsilon a few iterations from the uniform start beat the maximum, in most runs."""
    channel = ab.RandomizedResponse(DOMAIN, 1.0)
    truth = 1 + 0.8 * np.cos(2 * np.pi * np.arange(30) / 30)
    truth /= truth.sum()
    uniform, rng = np.full(30, 1 / 30), np.random.default_rng(6)
    gains = []
    for _ in range(20):
        reports = channel.simulate(rng.multinomial(10_000, truth), seed=rng)
        early = channel.estimate(reports, method="em", start=uniform, iterations=100).p
        late = channel.estimate(reports, method="mle").p
        losses = [np.abs(p - truth).sum() for p in (early, late)]
        gains.append(losses[1] - losses[0])
        # It has learned something on the way, too.
        assert losses[0] < np.abs(uniform - truth).sum()
    assert np.mean(gains) > 4 * np.std(gains, ddof=1) / np.sqrt(20)


def test_starts_have_no_zeros():
    for start in (None, [1.0] + [0.0] * 29, [-0.5] + [1.5] + [0.0] * 28, [0.0] * 30):
        begin = em.starting_point(start, 30)
        assert begin.min() > 0 and begin.sum() == pytest.approx(1.0)
    channel = CHANNELS["uRAP"]
    reports = drawn(channel)
    assert channel.starting_distribution(reports).min() > 0


def test_the_warm_start_saves_iterations():
    channel = CHANNELS["uRAP"]
    reports = drawn(channel, n=20_000)
    warm = channel.estimate(reports, method="em", iterations=5000)
    cold = channel.estimate(reports, method="em", start=np.full(30, 1 / 30), iterations=5000)
    assert warm.converged and warm.iterations < cold.iterations


def test_likelihood_of_an_excluded_report_is_zero():
    channel = ab.UtilityOptimizedRR(DOMAIN, 1.0, sensitive=SENSITIVE)
    only_first = np.eye(30)[0]
    assert channel.log_likelihood(only_first, [20]) == -np.inf


def test_bad_settings_are_named():
    channel = CHANNELS["RR"]
    with pytest.raises(ab.AnonbayesError, match="iterations=0"):
        channel.estimate([1], method="em", iterations=0)
    with pytest.raises(ab.AnonbayesError, match="tolerance=-1"):
        channel.estimate([1], method="em", tolerance=-1)
    with pytest.raises(ab.AnonbayesError, match="one finite number for each of the 30"):
        channel.estimate([1], method="em", start=[0.5, 0.5])
