"""Hadamard response against the definition, and what its transforms save against written rows."""

import numpy as np
import pytest
from agreement import assert_fast_likelihood
from scipy import linalg, optimize, stats

import anonbayes as ab
from anonbayes.estimation import em
from anonbayes.estimation.closed_forms import norm_sub

DOMAIN = ab.Domain("x", list("abcde"))
P = np.array([0.35, 0.3, 0.2, 0.1, 0.05])


def definition(size, epsilon):
    """Row by row, from SciPy's Hadamard matrix."""
    signs = linalg.hadamard(1 << int(np.ceil(np.log2(size + 1))))[1 : size + 1]
    weight = np.where(signs == 1, np.exp(epsilon), 1.0)
    return weight / weight.sum(axis=1, keepdims=True), signs == 1


@pytest.mark.parametrize("size", [1, 2, 3, 4, 7, 8])
def test_the_matrix_is_the_definition(size):
    channel = ab.HadamardResponse(ab.Domain("x", range(size)), 1.3)
    q, supports = definition(size, 1.3)
    np.testing.assert_allclose(channel.matrix(), q, rtol=1e-12)
    share = q @ supports.T
    np.testing.assert_allclose(np.diag(share), channel.hit, rtol=1e-12)
    np.testing.assert_allclose(share[~np.eye(size, dtype=bool)], 0.5, rtol=1e-12)
    assert channel.common_mass() == pytest.approx(q.min(axis=0).sum(), rel=1e-12)
    assert channel.total_maximum() == pytest.approx(q.max(axis=0).sum(), rel=1e-12)
    reports = np.random.default_rng(size).integers(0, channel.columns, 50)
    np.testing.assert_array_equal(channel.counts(reports), supports[:, reports].sum(axis=1))
    for x in range(size):
        for z in set(range(size)) - {x}:
            y = channel.describe_report(x, z)
            assert supports[x, y] and not supports[z, y]


@pytest.mark.parametrize("how", ["secure", "seed", "reporter"])
def test_reports_follow_the_matrix(how):
    channel, n = ab.HadamardResponse(DOMAIN, 1.0), 40_000
    if how == "reporter":
        report = channel.reporter(seed=4)
        reports = [report("d") for _ in range(n)]
    else:
        reports = channel.release(np.full(n, "d"), seed=None if how == "secure" else 5)
    seen = np.bincount(reports, minlength=8)
    assert stats.chisquare(seen, n * channel.matrix()[3]).pvalue > 1e-4


def test_transforms_give_what_rows_give():
    channel = ab.HadamardResponse(DOMAIN, 1.0)
    values = np.random.default_rng(1).choice(DOMAIN.values, 300, p=P)
    reports = channel.release(values, seed=2)
    assert_fast_likelihood(channel, reports, P, keep=[True, False, True, True, False])


def test_estimates_are_unbiased_with_the_stated_error():
    """Mean and squared error over 400 collections, four standard errors wide."""
    channel, n, runs = ab.HadamardResponse(DOMAIN, 1.0), 500, 400
    rng = np.random.default_rng(7)
    held = rng.choice(5, (runs, n), p=P)
    estimates = np.array(
        [channel.estimate(channel.release_codes(h, seed=rng), method="empirical").p for h in held]
    )
    errors = ((estimates - P) ** 2).sum(axis=1)
    spread = estimates.std(axis=0) / np.sqrt(runs)
    assert (np.abs(estimates.mean(axis=0) - P) < 4 * spread).all()
    assert abs(errors.mean() - channel.expected_loss(P, n)) < 4 * errors.std() / np.sqrt(runs)


def test_maximum_likelihood_of_many_values_needs_no_rows():
    domain = ab.Domain("x", range(20_000))
    channel = ab.HadamardResponse(domain, 3.0)
    held = np.repeat([5, 17, 19_999], [6000, 3000, 1000])
    reports = channel.release(held, seed=1)
    with pytest.raises(ab.AnonbayesError, match="mle"):
        channel.likelihood(reports)
    start = em.starting_point(None, 20_000)
    assert em.maximize(channel.fast_likelihood(reports), start, iterations=30).p.argmax() == 5


@pytest.mark.parametrize("seed", range(5))
def test_norm_sub_is_the_nearest_distribution(seed):
    raw = np.random.default_rng(seed).normal(0.2, 0.3, 6)
    nearest = optimize.minimize(
        lambda p: ((p - raw) ** 2).sum(),
        np.full(6, 1 / 6),
        bounds=[(0, 1)] * 6,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
        options={"ftol": 1e-14},
    ).x
    np.testing.assert_allclose(norm_sub(raw), nearest, atol=1e-6)


def test_norm_sub_is_offered_as_an_estimator():
    channel = ab.RandomizedResponse(DOMAIN, 0.5)
    reports = channel.release(["a"] * 50 + ["b"] * 50, seed=1)
    raw = channel.estimate(reports, method="empirical")
    assert raw.p.min() < 0
    near = channel.estimate(reports, method="norm_sub")
    np.testing.assert_allclose(near.p, norm_sub(raw.p))
    assert near.method == "norm_sub" and near.p.sum() == pytest.approx(1.0)
    assert ((near.interval[:, 0] <= near.p) & (near.p <= near.interval[:, 1])).all()


def test_what_it_cannot_produce_is_named():
    channel = ab.HadamardResponse(DOMAIN, 1.0)
    with pytest.raises(ab.AnonbayesError, match=r"Report 1 is 8.*0 to 7"):
        channel.estimate([3, 8])
    with pytest.raises(ab.AnonbayesError, match=r"Report 0 is 1\.5"):
        channel.estimate([1.5])
