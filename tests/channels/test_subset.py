"""Subset selection against enumeration of all sets, and in every place that a mechanism has."""

import itertools

import numpy as np
import pytest
from agreement import assert_density_of_model
from scipy import stats

import anonbayes as ab

DOMAIN = ab.Domain("x", list("abcde"))
P = np.array([0.35, 0.3, 0.2, 0.1, 0.05])


def definition(size, d, epsilon):
    """Row by row from the definition: e for every set with the value, 1 for all others."""
    sets = list(itertools.combinations(range(size), d))
    weight = np.array([[np.exp(epsilon) if x in s else 1.0 for s in sets] for x in range(size)])
    return weight / weight.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("d", [1, 2, 4, 5])
def test_the_matrix_is_the_definition(d):
    channel = ab.SubsetSelection(DOMAIN, 1.3, d=d)
    q = definition(5, d, 1.3)
    np.testing.assert_allclose(channel.matrix(), q, rtol=1e-12)
    inside = channel.all_reports().to_dense()
    np.testing.assert_allclose(np.diag(q @ inside), channel.hit, rtol=1e-12)
    for x, z in itertools.permutations(range(5), 2):
        assert (q @ inside)[x, z] == pytest.approx(channel.miss[z], rel=1e-12)


def test_one_value_is_randomized_response():
    same = ab.RandomizedResponse(DOMAIN, 0.8)
    channel = ab.SubsetSelection(DOMAIN, 0.8, d=1)
    np.testing.assert_allclose(channel.matrix(), same.matrix(), rtol=1e-12)
    assert channel.worst_case_loss(100) == pytest.approx(same.worst_case_loss(100))


@pytest.mark.parametrize("seed", [None, 5])
def test_reports_follow_the_matrix(seed):
    channel, n = ab.SubsetSelection(DOMAIN, 1.0, d=2), 40_000
    reports = channel.release_codes(np.full(n, 3), seed=seed).to_dense()
    every = channel.all_reports().to_dense()
    column = {tuple(row): i for i, row in enumerate(every.tolist())}
    seen = np.bincount([column[tuple(row)] for row in reports.tolist()], minlength=len(every))
    assert stats.chisquare(seen, n * channel.matrix()[3]).pvalue > 1e-4


def test_likelihood_and_evidence_are_those_of_the_matrix():
    channel = ab.SubsetSelection(DOMAIN, 1.0, d=2)
    values = np.random.default_rng(1).choice(DOMAIN.values, 300, p=P)
    reports = channel.release(values, seed=2)
    every = channel.all_reports().to_dense().tolist()
    columns = [every.index(row) for row in reports.to_dense().tolist()]
    q = channel.matrix()
    expected = np.log((P @ q)[columns]).sum()
    assert channel.log_likelihood(P, reports) == pytest.approx(expected, rel=1e-12)
    codes, _, matrix = channel.evidence(reports)
    np.testing.assert_allclose(matrix.toarray()[codes], q[:, columns].T, rtol=1e-12)
    assert_density_of_model(channel, reports, P, expected)


@pytest.mark.parametrize("method", ["empirical", "mle", "shrinkage", "bayes"])
def test_estimates_come_close(method):
    domain = ab.Domain("x", range(12))
    channel = ab.SubsetSelection(domain, 1.5)
    truth = np.arange(12, 0, -1) / 78
    users = np.random.default_rng(3).choice(12, 30_000, p=truth)
    short = {"draws": 200, "tune": 100, "chains": 2, "seed": 1} if method == "bayes" else {}
    estimate = channel.estimate(channel.release(users, seed=4), method=method, **short)
    # Four times the expected squared error of the empirical estimate.
    assert ((estimate.p - truth) ** 2).sum() < 4 * channel.expected_loss(truth, 30_000)


@pytest.mark.parametrize("epsilon", [0.2, 1.0, 3.0])
def test_the_default_size_of_the_sets_is_the_best(epsilon):
    domain = ab.Domain("x", range(40))
    best = ab.SubsetSelection(domain, epsilon)
    losses = {d: ab.SubsetSelection(domain, epsilon, d=d).worst_case_loss(1) for d in range(1, 40)}
    assert losses[best.d] <= min(losses.values()) * 1.001
    for rival in (ab.RAPPOR, ab.RandomizedResponse, ab.UnaryEncoding.optimal):
        assert losses[best.d] <= rival(domain, epsilon).worst_case_loss(1) * (1 + 1e-9)


def test_what_it_cannot_produce_is_named():
    channel = ab.SubsetSelection(DOMAIN, 1.0, d=2)
    with pytest.raises(ab.AnonbayesError, match="report 1: it contains 3 values, not 2"):
        channel.estimate([[1, 1, 0, 0, 0], [1, 1, 1, 0, 0]])
    for d in (0, 6, 1.5, True):
        with pytest.raises(ab.AnonbayesError, match="whole number from 1 to 5"):
            ab.SubsetSelection(DOMAIN, 1.0, d=d)
    assert ab.SubsetSelection(ab.Domain("x", ["only"]), 1.0).release(["only"])[0].tolist() == [0]
