"""Fisher information by class against the full matrix, quadrature and Monte Carlo."""

import numpy as np
import pytest
from scipy import integrate, stats

import anonbayes as ab
from anonbayes.estimation import bounds

DOMAIN = ab.Domain("x", range(5))
EVEN = np.full(5, 0.2)
TILTED = np.array([0.15, 0.15, 0.4, 0.1, 0.2])
CHANNELS = {
    "RR": (ab.RandomizedResponse(DOMAIN, 1.0), np.array([0.3, 0.25, 0.2, 0.15, 0.1])),
    "uRR": (ab.UtilityOptimizedRR(DOMAIN, [0, 3], 0.7), np.array([0.3, 0.25, 0.2, 0.15, 0.1])),
    "uRR-none": (ab.UtilityOptimizedRR(DOMAIN, [], 0.7), TILTED),
    "RAPPOR": (ab.RAPPOR(DOMAIN, 1.5), EVEN),
    "OUE": (ab.UnaryEncoding.optimal(DOMAIN, 1.0), EVEN),
    "UE-sure": (ab.UnaryEncoding(DOMAIN, 1.0, 0.3), EVEN),
    "uRAP": (ab.UtilityOptimizedRAPPOR(DOMAIN, [0, 1], 1.0), TILTED),
    "uRAP-one": (ab.UtilityOptimizedRAPPOR(DOMAIN, [2], 1.0, theta=0.4), TILTED),
    "uRAP-none": (ab.UtilityOptimizedRAPPOR(DOMAIN, [], 1.0), TILTED),
}
# Alike for the protected values of the bit channels.
ALPHA = {
    "RR": np.array([3.0, 4.0, 2.5, 6.0, 3.0]),
    "uRR": np.array([3.0, 4.0, 2.5, 6.0, 3.0]),
    "RAPPOR": np.full(5, 3.0),
    "UE-sure": np.full(5, 2.5),
    "uRAP": np.array([3.0, 3.0, 2.5, 4.0, 6.0]),
}
# Some values held by nobody.
FACES = {
    "RR": np.array([3.0, 0.0, 2.5, 0.0, 4.0]),
    "uRR": np.array([3.0, 4.0, 0.0, 6.0, 0.0]),
    "uRAP": np.array([3.0, 0.0, 2.5, 4.0, 0.0]),
}


def dense(q, p):
    """Information matrix from all reports of a channel's matrix."""
    mixed = p @ q
    seen = mixed > 0
    return (q[:, seen] / mixed[seen]) @ q[:, seen].T


def tangent(size):
    """Orthonormal basis of the directions that sum to zero."""
    return np.linalg.qr(np.c_[np.ones(size), np.eye(size)[:, : size - 1]])[0][:, 1:]


@pytest.mark.parametrize("name", CHANNELS)
def test_cramer_rao_is_the_inverse_of_the_full_matrix(name):
    channel, p = CHANNELS[name]
    basis = tangent(5)
    inverse = basis @ np.linalg.inv(basis.T @ dense(channel.matrix(), p) @ basis) @ basis.T
    assert channel.cramer_rao_bound(p, 1) == pytest.approx(np.trace(inverse), rel=1e-9)
    l1 = np.sqrt(2 / (np.pi * 50)) * np.sqrt(np.diag(inverse)).sum()
    assert channel.cramer_rao_bound(p, 50, norm="l1") == pytest.approx(l1, rel=1e-9)


@pytest.mark.parametrize("name", ["RR", "uRR", "uRR-none"])
@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_the_empirical_estimate_of_responses_attains_it(name, norm):
    channel, p = CHANNELS[name]
    assert channel.cramer_rao_bound(p, 300, norm=norm) == pytest.approx(
        channel.expected_loss(p, 300, norm=norm), rel=1e-12
    )


@pytest.mark.parametrize("name", ["RAPPOR", "OUE", "UE-sure", "uRAP"])
def test_the_empirical_estimate_of_bits_does_not(name):
    channel, p = CHANNELS[name]
    assert channel.cramer_rao_bound(p, 300) < 0.9 * channel.expected_loss(p, 300)


@pytest.mark.parametrize("name, alpha", [*ALPHA.items(), *FACES.items()])
def test_mean_information_over_a_prior(name, alpha):
    """Trace of ``(n E[I] + J)^-1`` with ``E[I]`` averaged over draws of the prior.

    The trace is smooth in the average; its error follows from 20 batches of draws.
    """
    channel, held = CHANNELS[name][0], np.flatnonzero(alpha)
    q, basis, n = channel.matrix(), tangent(len(held)), 40
    rng = np.random.default_rng(12)
    total = alpha.sum()
    prior = np.diag((total - 1) * (total - 2) / (alpha[held] - 2))
    batches = []
    for _ in range(20):
        draws = np.zeros((400, 5))
        draws[:, held] = rng.dirichlet(alpha[held], 400)
        mean = np.mean([dense(q, p) for p in draws], axis=0)[np.ix_(held, held)]
        batches.append(np.trace(np.linalg.inv(basis.T @ (n * mean + prior) @ basis)))
    error = np.std(batches, ddof=1) / np.sqrt(20)
    bound = channel.van_trees_bound(n, alpha=alpha)
    assert abs(np.mean(batches) - bound) < 4.5 * error
    assert error < 0.01 * bound


def test_information_of_the_prior_is_the_covariance_of_its_score():
    alpha = np.array([7.0, 8.0, 9.0])
    found = bounds.dirichlet(alpha, np.ones(3))
    draws = np.random.default_rng(3).dirichlet(alpha, 200_000)
    basis = tangent(3)
    score = ((alpha - 1) / draws) @ basis
    exact = basis.T @ np.diag(found.within) @ basis
    products = score[:, :, None] * score[:, None, :]
    error = products.std(axis=0) / np.sqrt(len(draws))
    assert (np.abs(products.mean(axis=0) - exact) < 4.5 * error).all()
    assert (np.abs(score.mean(axis=0)) < 4.5 * score.std(axis=0) / np.sqrt(len(draws))).all()


@pytest.mark.parametrize(
    "floor, gain, a, b",
    [
        (1, 3, 1.5, 1),
        (0.1, 0.5, 3, 20),
        (1e-3, 0.9, 3, 200),
        (1e-4, 1, 2.5, 7),
        (0.3, 0.1, 50, 3),
        (0, 2, 3, 5),
    ],
)
def test_mean_reciprocal_is_that_of_quadrature_and_never_below(floor, gain, a, b):
    exact = integrate.quad(
        lambda x: stats.beta.pdf(x, a, b) / (floor + gain * x), 0, 1, epsrel=1e-12, limit=400
    )[0]
    found = float(bounds.inverse_mean(floor, gain, a, b))
    assert found == pytest.approx(exact, rel=1e-10)


def test_the_mean_reciprocal_is_an_upper_bound_even_when_cut_short():
    exact = float(bounds.inverse_mean(1e-3, 1.0, 3.0, 30.0))
    for terms in (0, 2, 8, 20):
        assert float(bounds.inverse_mean(1e-3, 1.0, 3.0, 30.0, terms=terms)) > exact


def test_values_that_nobody_holds_leave_a_smaller_channel():
    """The bits of the others are noise."""
    small = ab.RAPPOR(ab.Domain("x", range(3)), 1.5)
    part = CHANNELS["RAPPOR"][0].van_trees_bound(50, alpha=[3, 0, 3, 0, 3])
    assert part == pytest.approx(small.van_trees_bound(50, alpha=3.0), rel=1e-12)


def test_what_has_no_closed_form_is_refused():
    rappor = CHANNELS["RAPPOR"][0]
    with pytest.raises(ab.AnonbayesError, match="treat all protected values alike"):
        rappor.cramer_rao_bound(TILTED, 10)
    with pytest.raises(ab.AnonbayesError, match="treat all protected values alike"):
        rappor.van_trees_bound(10, alpha=[3, 3, 3, 3, 4])
    mixed = ab.InputDiscriminativeUE.optimal(DOMAIN, [1.0, 1.0, 2.0, 2.0, 2.0])
    with pytest.raises(ab.AnonbayesError, match="all protected bits have the same"):
        mixed.minimax_bound(10)
    for alpha, words in (
        (2.0, "alpha of 0 is 2: .* above 2"),
        ([3, 3, 1.5, 3, 3], "alpha of 2 is 1.5: "),
        (0.0, "not for all"),
        ([3, 3], "one for each of the 5 values"),
        ([3, 3, -1, 3, 3], r"alpha\[2\]"),
    ):
        with pytest.raises(ab.AnonbayesError, match=words):
            rappor.van_trees_bound(10, alpha=alpha)
    with pytest.raises(ab.AnonbayesError, match=r"alpha\[0\] = 2: .* above 2"):
        bounds.dirichlet(np.array([2.0]), np.array([5.0]))
    with pytest.raises(ab.AnonbayesError, match="n=0 reports"):
        rappor.minimax_bound(0)
    with pytest.raises(ab.AnonbayesError, match="carry no information"):
        ab.RandomizedResponse(DOMAIN, 0.0).cramer_rao_bound(EVEN, 10)
