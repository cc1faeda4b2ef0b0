"""Worst cases at small and large budgets, and compiled code at the edges of its range."""

import numpy as np
import pytest

import anonbayes as ab
from anonbayes.estimation import bayes
from anonbayes.estimation.kernels import allocate
from anonbayes.estimation.likelihood import MixtureLikelihood

KINDS = {"response": ab.UtilityOptimizedRR, "bits": ab.UtilityOptimizedRAPPOR}


def high_privacy_loss(mechanism, n_sensitive, epsilon, n, norm):
    """Worst case as epsilon goes to zero (ULDP (15), (18), App. C.1)."""
    m, response = n_sensitive, mechanism == "response"
    if norm == "l1":
        return np.sqrt(2 / (n * np.pi)) * (m * np.sqrt(m - 1) if response else 2 * m) / epsilon
    return (m * (m - 1) if response else 4 * m) / (n * epsilon**2)


def non_private_loss(size, n, norm):
    """Worst case of releasing the true values: the sampling error."""
    return np.sqrt(2 * (size - 1) / (n * np.pi)) if norm == "l1" else (1 - 1 / size) / n


@pytest.mark.parametrize("norm", ["l1", "l2"])
@pytest.mark.parametrize("mechanism", KINDS)
def test_high_privacy_loss_is_the_limit_of_the_exact_one(mechanism, norm):
    domain = ab.Domain("x", range(60))
    ratios = []
    for epsilon in (0.1, 0.01, 0.001):
        channel = KINDS[mechanism](domain, epsilon, sensitive=range(20))
        exact = channel.worst_case_loss(1000, norm=norm)
        ratios.append(exact / high_privacy_loss(mechanism, 20, epsilon, 1000, norm))
    errors = np.abs(np.array(ratios) - 1)
    assert errors[2] < errors[1] < errors[0] and errors[2] < 0.02


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_low_privacy_loss_is_reached_when_little_is_sensitive(norm):
    size = 40_000
    domain = ab.Domain("x", range(size))
    for kind in KINDS.values():
        channel = kind(domain, np.log(size), sensitive=range(3))
        exact = channel.worst_case_loss(1000, norm=norm)
        assert exact == pytest.approx(non_private_loss(size, 1000, norm), rel=0.03)
    # Plain randomized response pays twice (l1) or four times (l2) as much.
    plain = ab.RandomizedResponse(domain, np.log(size)).worst_case_loss(1000, norm=norm)
    price = plain / non_private_loss(size, 1000, norm)
    assert price == pytest.approx(2 if norm == "l1" else 4, rel=0.01)


@pytest.mark.parametrize("norm, constant", [("l1", np.sqrt(8 / np.pi)), ("l2", 4.0)])
def test_urap_is_order_optimal_and_urr_is_not(norm, constant):
    """The worst case of uRAP is a fixed multiple of the minimax rate (Duchi et al. 2013)."""
    for k_s in (5, 50, 500):
        domain = ab.Domain("x", range(2 * k_s))
        rate = k_s / np.sqrt(1000 * 1e-8) if norm == "l1" else k_s / (1000 * 1e-8)
        bits = ab.UtilityOptimizedRAPPOR(domain, 1e-4, sensitive=range(k_s))
        assert bits.worst_case_loss(1000, norm=norm) / rate == pytest.approx(constant, rel=0.01)
    response = ab.UtilityOptimizedRR(domain, 1e-4, sensitive=range(k_s))
    assert response.worst_case_loss(1000, norm=norm) / rate > 5 * constant


@pytest.mark.parametrize("mechanism", KINDS)
def test_high_privacy_loss_against_simulation(mechanism):
    """At epsilon = 0.05 and the worst distribution; the approximation is good to 6 %."""
    domain = ab.Domain("x", range(12))
    channel = KINDS[mechanism](domain, 0.05, sensitive=range(5))
    rng = np.random.default_rng(3)
    worst = channel.worst_case_distribution(norm="l2")
    squares = []
    for _ in range(150):
        reports = channel.release(rng.choice(12, 2000, p=worst), seed=rng)
        error = channel.estimate(reports, method="empirical").p - worst
        squares.append(error @ error)
    expected = high_privacy_loss(mechanism, 5, 0.05, 2000, "l2")
    tolerance = 4 * np.std(squares, ddof=1) / np.sqrt(150) + 0.06 * expected
    assert abs(np.mean(squares) - expected) < tolerance


def test_non_private_loss_against_the_identity():
    channel = ab.UtilityOptimizedRR(ab.Domain("x", range(7)), 1.0, sensitive=[])
    for norm in ("l1", "l2"):
        expected = non_private_loss(7, 50, norm)
        assert channel.worst_case_loss(50, norm=norm) == pytest.approx(expected)


def test_compiled_code_gets_no_index_beyond_its_arrays():
    """What was checked cannot be changed afterwards, and is checked where rows are put together."""
    source = np.array([0, 2], dtype=np.uint8)
    bits = ab.BitReports([0, 1, 2], source, 3)
    source[0] = 200
    assert bits.indices.tolist() == [0, 2]
    with pytest.raises(ValueError, match="read-only"):
        bits.indices[0] = 200
    rows = {"weights": np.ones(2, int), "floor": np.ones(2), "log_scale": np.zeros(2),
            "tilt": np.ones(3), "gain": np.ones(3)}  # fmt: skip
    good = MixtureLikelihood(**rows, indptr=np.array([0, 1, 2]), indices=np.array([0, 2]))
    assert good.probabilities([0.2, 0.3, 0.5]).tolist() == pytest.approx([1.2, 1.5])
    bad = [([0, 1, 2], [0, 3]), ([0, 1, 2], [0, -1]), ([0, 3, 2], [0, 2]), ([0, 1, 3], [0, 2]),
           ([0, 2], [0, 2]), ([1, 1, 2], [0, 2])]  # fmt: skip
    for indptr, indices in bad:
        with pytest.raises(ab.AnonbayesError, match="do not fit"):
            MixtureLikelihood(**rows, indptr=np.array(indptr), indices=np.array(indices))


@pytest.mark.parametrize("epsilon", [0.0, 1e-300, 1e-12, 705.0, 712.0, 744.0, 750.0])
def test_estimates_from_bits_are_distributions_at_any_budget(epsilon, monkeypatch):
    """From 710 to 745 the ratio of two bit probabilities overflows; draws go by both kernels."""
    channel = ab.UnaryEncoding.optimal(ab.Domain("x", "abc"), epsilon)
    reports = np.eye(3, dtype=int)[[0, 1, 2, 0]]
    assert np.isfinite(channel.evidence(reports).matrix.toarray()).all()
    for most in (0, 3000):
        monkeypatch.setattr(bayes, "MOST_VALUES", most)
        p = channel.estimate(reports, method="bayes", draws=9, tune=3, chains=1, seed=1).p
        assert np.isfinite(p).all() and p.sum() == pytest.approx(1.0)
    if epsilon > 700:
        np.testing.assert_allclose(channel.estimate(reports, method="mle").p, [0.5, 0.25, 0.25])
        assert channel.total_maximum() == pytest.approx(2.0)
        assert channel.common_mass() == pytest.approx(0.5)


def test_the_kernel_that_allocates_reports_stays_within_its_arrays_whatever_the_weights():
    """As plain Python an index beyond an array is an error; each report is counted once."""
    rng = np.random.default_rng(1)
    odd = np.array([0.0, 1.0, 5e-324, 1e-308, 1e308, np.inf, np.nan, 0.3])
    for _ in range(400):
        size, rows = int(rng.integers(1, 5)), int(rng.integers(1, 6))
        lengths = rng.integers(0, size + 1, rows)  # a report may support nothing
        ends = np.concatenate([[0], np.cumsum(lengths)])
        ones = np.concatenate([rng.choice(size, n, replace=False) for n in lengths])
        weights = rng.choice([0, 1, 2, 1000], rows)
        counts = np.zeros(size, dtype=np.int64)
        with np.errstate(all="ignore"):
            noise = allocate.py_func(
                rng, rng.choice(odd), rng.choice(odd, size), weights, rng.choice(odd, rows), ends,
                ones.astype(np.uint8), counts,
            )  # fmt: skip
        assert counts.min() >= 0 and counts.sum() + noise == weights.sum()
