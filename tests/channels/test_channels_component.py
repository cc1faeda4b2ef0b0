"""Reports inside PyMC models: log density, gradient, and posteriors from NUTS."""

import numpy as np
import pymc as pm
import pytest

import anonbayes as ab

DOMAIN = ab.Domain("x", list("abcd"))
CHANNELS = {
    "RR": ab.RandomizedResponse(DOMAIN, 1.5),
    "uRR": ab.UtilityOptimizedRR(DOMAIN, 1.0, sensitive=["a", "b"]),
    "RAPPOR": ab.RAPPOR(DOMAIN, 2.0),
    "uRAP": ab.UtilityOptimizedRAPPOR(DOMAIN, 1.0, sensitive=["a", "b"]),
    "tilted": ab.BitChannel(DOMAIN, [0.9, 0.6, 0.5, 0.8], [0.2, 0.1, 0.0, 0.3]),
    "cells": ab.Generalization(DOMAIN, ["ab", "ab", "cd", "cd"]),
}

# Evaluated a few times each: compiling to machine code would take longer than it saves.
QUICK = "FAST_COMPILE"


def drawn(channel, n=300):
    values = np.random.default_rng(1).choice(DOMAIN.values, n, p=[0.4, 0.3, 0.2, 0.1])
    return channel.release(values, seed=2)


def model_of(channel, reports, alpha=1.0):
    with pm.Model() as model:
        p = pm.Dirichlet("p", np.full(4, alpha), default_transform=None)
        ab.Released("reports", channel, p, observed=reports)
    return model


@pytest.mark.parametrize("name", CHANNELS)
def test_log_density_and_gradient_follow_the_channel(name):
    channel = CHANNELS[name]
    reports = drawn(channel)
    model = model_of(channel, reports)
    logp, dlogp = model.compile_logp(mode=QUICK), model.compile_dlogp(mode=QUICK)
    likelihood = channel.likelihood(reports)
    one, two = np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.3, 0.3, 0.3, 0.1])
    # Constants (multinomial coefficients) differ; differences in p do not.
    ours = likelihood.log(one) - likelihood.log(two)
    assert float(logp({"p": one}) - logp({"p": two})) == pytest.approx(ours, rel=1e-9)
    q = likelihood.matrix().toarray() / np.exp(likelihood.log_scale)[:, None]
    gradient = (likelihood.weights / (q @ one)) @ q
    contrast = np.array([1.0, -1.0, 0.5, -0.5])
    assert dlogp({"p": one}) @ contrast == pytest.approx(gradient @ contrast, rel=1e-7)


def test_nuts_agrees_with_gibbs():
    channel = CHANNELS["uRAP"]
    reports = drawn(channel)
    with pm.Model():
        p = pm.Dirichlet("p", np.ones(4))
        ab.Released("reports", channel, p, observed=reports)
        trace = pm.sample(
            draws=400,
            tune=200,
            chains=1,
            cores=1,
            random_seed=3,
            progressbar=False,
            compute_convergence_checks=False,
            compile_kwargs={"mode": QUICK},
        )
    nuts = np.asarray(trace.posterior["p"]).reshape(-1, 4)
    how = {"draws": 2000, "chains": 2, "seed": 4}
    gibbs = channel.estimate(reports, method="bayes", alpha=1.0, **how)  # the prior of the model
    draws = gibbs.draws.to_numpy().reshape(-1, 4)
    spread = draws.std(axis=0)
    # NUTS keeps at least a fifth of its draws' worth; Gibbs's error by batches.
    batches = draws.reshape(40, -1, 4).mean(axis=1).std(axis=0, ddof=1) / np.sqrt(40)
    error = np.sqrt(spread**2 / 80 + batches**2)
    assert (np.abs(nuts.mean(axis=0) - gibbs.p) < 4 * error).all()
    assert (np.abs(nuts.std(axis=0) / spread - 1) < 0.35).all()


def test_counts_can_be_checked_against_posterior_predictions():
    channel = CHANNELS["RR"]
    reports = drawn(channel)
    with pm.Model(coords={"answer": DOMAIN.labels}) as model:
        p = pm.Dirichlet("p", np.ones(4), dims="answer")
        released = ab.Released("reports", channel, p, observed=reports, dims="answer")
    assert model.observed_RVs == [released]
    draws = pm.draw(released, draws=200, random_seed=5, mode=QUICK)
    assert draws.shape == (200, 4) and (draws.sum(axis=1) == 300).all()


def test_p_may_be_any_expression():
    """A regression on the simplex: two strata share one softmax slope."""
    channel = CHANNELS["RAPPOR"]
    with pm.Model() as model:
        slope = pm.Normal("slope", 0, 1)
        p = pm.math.softmax(slope * np.array([0.0, 1.0, 2.0, 3.0]))
        ab.Released("reports", channel, p, observed=drawn(channel))
    low, high = (float(model.compile_logp(mode=QUICK)({"slope": s})) for s in (-0.4, 0.4))
    assert low > high


def test_sets_are_reports_of_their_members_and_of_padding():
    """One drawn member of each set, of three sets in four a padded one."""
    baskets = ab.PaddedSets(DOMAIN, 20.0, length=2)
    a, b = DOMAIN.values[:2]
    reports = baskets.release([[a, b], [a], [a], [a]] * 1000, seed=1)
    with pm.Model() as model:
        p = pm.Dirichlet("p", np.ones(6), default_transform=None)
        ab.Released("reports", baskets.channel, p, observed=reports)
    logp = model.compile_logp(mode=QUICK)
    right = np.array([4, 1, 0.01, 0.01, 1.5, 1.5]) / 8.02
    apart = [float(logp({"p": right}) - logp({"p": np.roll(right, k)})) for k in range(1, 6)]
    assert min(apart) > 100


def test_bad_models_are_named():
    channel = CHANNELS["uRAP"]
    reports = drawn(channel)
    with pm.Model():
        three = pm.Dirichlet("three", np.ones(3))
        with pytest.raises(ab.AnonbayesError, match="p has 3 entries"):
            ab.Released("r", channel, three, observed=reports)
        with pytest.raises(ab.AnonbayesError, match="has 2 dimensions"):
            ab.Released("r", channel, np.full((2, 4), 0.25), observed=reports)
        with pytest.raises(ab.AnonbayesError, match=r"\['dims'\] cannot be used with"):
            ab.Released("r", channel, np.full(4, 0.25), observed=reports, dims="x")
        with pytest.raises(ab.AnonbayesError, match="no reports"):
            ab.Released("r", CHANNELS["RR"], np.full(4, 0.25), observed=[])
        with pytest.raises(ab.AnonbayesError, match="the order is name, channel, p"):
            ab.Released("r", np.full(4, 0.25), channel, observed=reports)
    with pytest.raises(TypeError, match="context"):
        ab.Released("r", channel, np.full(4, 0.25), observed=reports)
