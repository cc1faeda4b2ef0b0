"""Classic schemes as special cases, and generalization."""

import numpy as np
import pytest

import anonbayes as ab


def test_warner_is_randomized_response_on_two_values():
    """Warner (1965): flip the answer with probability f."""
    flip = 0.2
    channel = ab.RandomizedResponse(ab.Domain("a", ["yes", "no"]), np.log((1 - flip) / flip))
    np.testing.assert_allclose(channel.matrix(), [[0.8, 0.2], [0.2, 0.8]])
    reports = ["yes"] * 38 + ["no"] * 62
    # His estimator: (share - f) / (1 - 2f).
    estimate = channel.estimate(reports, method="empirical")
    assert estimate.p[0] == pytest.approx((0.38 - flip) / (1 - 2 * flip))


def test_mangat_is_the_utility_optimized_response_on_two_values():
    """Mangat (1994): "yes" is always told, "no" is told as "yes" with probability p."""
    p = 0.3
    channel = ab.UtilityOptimizedRR(ab.Domain("a", ["yes", "no"]), np.log(1 / p), sensitive=["yes"])
    np.testing.assert_allclose(channel.matrix(), [[1, 0], [p, 1 - p]])
    # His estimator: (share - p) / (1 - p); and it is ULDP with ln(1/p) (ULDP Sec. 3.1).
    estimate = channel.estimate(["yes"] * 50 + ["no"] * 50, method="empirical")
    assert estimate.p[0] == pytest.approx((0.5 - p) / (1 - p))
    assert channel.satisfies(ab.ULDP(["yes"], np.log(1 / p))).holds
    assert not channel.satisfies(ab.LDP(100)).holds


def test_full_and_empty_sensitive_sets_are_the_known_channels():
    domain = ab.Domain("x", range(6))
    full = ab.UtilityOptimizedRR(domain, 1.3, sensitive=range(6))
    np.testing.assert_array_equal(full.matrix(), ab.RandomizedResponse(domain, 1.3).matrix())
    bits = ab.UtilityOptimizedRAPPOR(domain, 1.3, sensitive=range(6))
    rappor = ab.RAPPOR(domain, 1.3)
    np.testing.assert_allclose(bits.hit, rappor.hit)
    np.testing.assert_allclose(bits.miss, rappor.miss)
    clear = ab.UtilityOptimizedRR(domain, 1.3, sensitive=[])
    np.testing.assert_array_equal(clear.matrix(), np.eye(6))
    values = np.arange(6).repeat(5)
    np.testing.assert_array_equal(clear.release(values), values)


def test_unary_family():
    domain = ab.Domain("x", range(9))
    oue, half = ab.UnaryEncoding.optimal(domain, 1.7), ab.RAPPOR(domain, 1.7, theta=0.5)
    np.testing.assert_allclose([oue.hit, oue.miss], [half.hit, half.miss])
    for theta in (0.1, 0.5, 0.9, None):
        assert ab.RAPPOR(domain, 1.7, theta=theta).satisfies(ab.LDP(1.7)).holds
        rebuilt = ab.BitChannel(
            domain, *(ab.RAPPOR(domain, 1.7, theta=theta).__dict__[k] for k in ("hit", "miss"))
        )
        assert rebuilt.epsilon == pytest.approx(1.7)
    assert ab.UnaryEncoding(domain, 0.7, 0.2).epsilon == pytest.approx(
        np.log(0.7 * 0.8 / 0.3 / 0.2)
    )
    # OUE has the least variance for a value nobody holds, among all theta.
    floor = [
        c.miss[0] * (1 - c.miss[0]) / (c.hit[0] - c.miss[0]) ** 2
        for c in (ab.RAPPOR(domain, 1.7, theta=theta) for theta in (0.4, 0.5, 0.6))
    ]
    assert floor[1] < min(floor[0], floor[2])


def test_extreme_budgets_do_not_overflow():
    domain = ab.Domain("x", range(4))
    for channel in (
        ab.RandomizedResponse(domain, 2000.0),
        ab.UtilityOptimizedRR(domain, 2000.0, sensitive=[0]),
    ):
        np.testing.assert_allclose(channel.matrix(), np.eye(4), atol=1e-12)
    for kind in (ab.UtilityOptimizedRAPPOR, ab.UtilityOptimizedRAPPOR.optimal):
        channel = kind(domain, 2000.0, sensitive=[0, 1])
        assert np.isfinite(channel.hit).all() and (channel.miss < 1e-100).all()
    small = ab.RandomizedResponse(domain, 1e-12)
    np.testing.assert_allclose(small.hit - small.miss, 1e-12 / 4, rtol=1e-3)


def test_generalization_by_hierarchy_and_by_hand():
    codes = ["45501", "45502", "55501", "55502"]
    domain = ab.Domain("zip", codes, ab.Hierarchy.from_prefix(codes))
    channel = ab.Generalization.at_level(domain, 1)
    same = ab.Generalization(domain, {c: c[:4] + "*" for c in reversed(codes)})
    np.testing.assert_array_equal(channel.matrix(), [[1, 0], [1, 0], [0, 1], [0, 1]])
    np.testing.assert_array_equal(same.matrix(), channel.matrix())
    reports = channel.release(["45502", "45501", "55501"])
    assert reports.tolist() == ["4550*", "4550*", "5550*"]
    codes_of, labels, matrix = channel.evidence(reports)
    assert codes_of.tolist() == [0, 0, 1] and labels == ["4550*", "5550*"]
    np.testing.assert_array_equal(matrix.toarray(), [[1, 1, 0, 0], [0, 0, 1, 1]])
    p = np.array([0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(channel.apply(p), [0.3, 0.7])
    assert channel.log_likelihood(p, reports) == pytest.approx(2 * np.log(0.3) + np.log(0.7))
    assert not channel.satisfies(ab.LDP(10)).holds
    assert channel.satisfies(ab.LDP(10)).worst_ratio == np.inf
    one_cell = ab.Generalization(domain, ["*"] * 4)
    assert one_cell.satisfies(ab.LDP(0.0)).holds and one_cell.epsilon == 0


def test_bayes_splits_a_cell_by_the_prior():
    domain = ab.Domain("x", list("abc"))
    channel = ab.Generalization(domain, ["ab", "ab", "c"])
    estimate = channel.estimate(
        ["ab"] * 30 + ["c"] * 10,
        method="bayes",
        alpha=[3, 1, 1],
        draws=4000,
        thin=1,
        chains=4,
        seed=1,
    )
    # Dirichlet tree: cell mass (4 + 30)/45, split 3:1 inside.
    exact = np.array([34 / 45 * 3 / 4, 34 / 45 / 4, 11 / 45])
    batches = estimate.draws.to_numpy().reshape(40, -1, 3).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(40)
    assert (np.abs(estimate.p - exact) <= 4.5 * error).all() and error.max() < 0.01


def test_bad_cells_are_named():
    domain = ab.Domain("x", list("abc"))
    with pytest.raises(ab.AnonbayesError, match="Value 'c' of 'x' has no cell"):
        ab.Generalization(domain, {"a": "A", "b": "A"})
    with pytest.raises(ab.AnonbayesError, match="2 cell labels for 3 values"):
        ab.Generalization(domain, ["A", "A"])
    with pytest.raises(ab.AnonbayesError, match="has no hierarchy"):
        ab.Generalization.at_level(domain, 1)
    channel = ab.Generalization(domain, ["A", "A", "B"])
    with pytest.raises(ab.AnonbayesError, match="Report 1: 'C' is not a cell"):
        channel.estimate(["A", "C"])
    with pytest.raises(ab.AnonbayesError, match="method='empirical'"):
        channel.estimate(["A"], method="empirical")
    with pytest.raises(ab.AnonbayesError, match="no unbiased estimator"):
        channel.worst_case_loss(10)
    tree = ab.Domain("x", ["aa", "ab"], ab.Hierarchy.from_prefix(["aa", "ab"]))
    with pytest.raises(ab.AnonbayesError, match="level=9 does not exist"):
        ab.Generalization.at_level(tree, 9)
