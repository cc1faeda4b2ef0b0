"""Channels from a matrix: against the mechanisms whose matrix it is, simulation and summation."""

import numpy as np
import pymc as pm
import pytest

import anonbayes as ab

DOMAIN = ab.Domain("x", list("abcd"))
P = np.array([0.5, 0.3, 0.15, 0.05])
SKEW = np.array(
    [[0.7, 0.2, 0.1, 0.0], [0.1, 0.6, 0.2, 0.1], [0.05, 0.15, 0.6, 0.2], [0.0, 0.1, 0.2, 0.7]]
)
SAME = {
    "RR": ab.RandomizedResponse(DOMAIN, 1.0),
    "uRR": ab.UtilityOptimizedRR(DOMAIN, 1.0, sensitive=["a", "b"]),
    "RAPPOR": ab.RAPPOR(DOMAIN, 1.0),
    "subset": ab.SubsetSelection(DOMAIN, 1.0, d=2),
    "hadamard": ab.HadamardResponse(DOMAIN, 1.0),
}


@pytest.mark.parametrize("name", SAME)
def test_the_matrix_of_a_mechanism_gives_its_audits_and_distances(name):
    known = SAME[name]
    made = ab.MatrixChannel(DOMAIN, known.matrix(), range(known.matrix().shape[1]))
    assert made.epsilon == pytest.approx(known.ldp_budget())
    for notion in (ab.LDP(1.0), ab.LDP(0.9), ab.ULDP(["a", "b"], 1.0)):
        assert made.satisfies(notion).holds == known.satisfies(notion).holds
    if name != "uRR":
        assert known.total_variation() == pytest.approx(made.total_variation())


def test_randomized_response_written_as_a_matrix_is_estimated_alike():
    known = SAME["RR"]
    made = ab.MatrixChannel(DOMAIN, known.matrix())
    reports = known.release(np.repeat(list("abcd"), [500, 300, 150, 50]), seed=1)
    for method in ("empirical", "mle"):
        one, two = (c.estimate(reports, method=method) for c in (known, made))
        np.testing.assert_allclose(one.p, two.p, atol=1e-4)
        np.testing.assert_allclose(one.interval, two.interval, atol=1e-6)
    settings = {"method": "bayes", "seed": 1, "alpha": 1.0, "draws": 500, "tune": 250}
    one, two = (c.estimate(reports, **settings) for c in (known, made))
    spread = one.draws.std(("chain", "draw")).values
    assert two.converged
    # Means of several hundred effective draws each.
    assert (np.abs(one.p - two.p) < 6 * spread / np.sqrt(min(one.ess, two.ess))).all()
    for norm, p in (("l2", P), ("l1", P)):
        assert made.expected_loss(p, 100, norm=norm) == pytest.approx(
            known.expected_loss(p, 100, norm=norm)
        )
    assert made.worst_case_loss(10) == pytest.approx(known.worst_case_loss(10))


def test_reports_follow_the_rows():
    """Chi-square at level 1e-6 per row, in bulk and one by one; nothing impossible is sent."""
    channel = ab.MatrixChannel(DOMAIN, SKEW)
    one = channel.reporter(seed=3)
    for x, row in zip(DOMAIN.values, SKEW, strict=True):
        for reports in (channel.release([x] * 20_000, seed=2), [one(x) for _ in range(20_000)]):
            seen = np.array([np.sum(np.array(reports) == y) for y in DOMAIN.values])
            assert seen[row == 0].sum() == 0
            expected = 20_000 * row[row > 0]
            assert np.sum((seen[row > 0] - expected) ** 2 / expected) < 35


def test_losses_and_intervals_hold_in_simulation():
    """400 samples: mean squared error within 4 standard errors, coverage 0.95 - 4 x 0.011."""
    channel, n = ab.MatrixChannel(DOMAIN, SKEW), 400
    rng = np.random.default_rng(4)
    squares, inside = [], []
    for counts in rng.multinomial(n, P @ SKEW, 400):
        reports = ab.SupportCounts(counts, n)
        estimate = channel.estimate(reports, method="empirical")
        squares.append(np.sum((estimate.p - P) ** 2))
        low, high = estimate.interval.T
        inside.append((low <= P) & (high >= P))
    expected = channel.expected_loss(P, n)
    assert abs(np.mean(squares) - expected) < 4 * np.std(squares) / 20
    assert (np.mean(inside, axis=0) > 0.95 - 4 * 0.011).all()
    worst = channel.worst_case_loss(n)
    assert worst >= max(channel.expected_loss(p, n) for p in rng.dirichlet(np.ones(4), 2000))


@pytest.mark.parametrize("epsilon", [0.3, 2.0, 6.0])
def test_invariant_pram_keeps_shares_and_spends_the_budget(epsilon):
    channel = ab.MatrixChannel.invariant(DOMAIN, epsilon, shares=P)
    np.testing.assert_allclose(P @ channel.matrix(), P, atol=1e-12)
    assert channel.satisfies(ab.LDP(epsilon)).holds
    assert not channel.satisfies(ab.LDP(0.99 * epsilon)).holds


def test_in_tables_and_in_models():
    channel = ab.MatrixChannel(DOMAIN, SKEW)
    codes, labels, rows = channel.evidence(["b", "a", "b"])
    assert codes.tolist() == [0, 1, 0] and labels == ["b", "a"]
    np.testing.assert_allclose(rows.toarray(), SKEW.T[[1, 0]], rtol=1e-12)
    reports = ["a"] * 30 + ["b"] * 40 + ["d"] * 10
    with pm.Model() as model:
        ab.Released("reports", channel, P, observed=reports)
    with pm.Model() as other:
        pm.Multinomial("reports", 80, P @ SKEW, observed=[30, 40, 0, 10])
    density, expected = (m.compile_logp(mode="FAST_COMPILE")({}) for m in (model, other))
    assert density == pytest.approx(float(expected))


def test_what_is_no_channel_is_refused():
    for bad, what in [
        ([[np.nan, 1], [0.5, 0.5]], "nan"),
        ([[-0.1, 1.1], [0.5, 0.5]], "-0.1"),
        ([[0.5, 0.6], [0.5, 0.5]], "1.1"),
    ]:
        with pytest.raises(ab.AnonbayesError, match=what):
            ab.MatrixChannel(ab.Domain("x", "ab"), bad)
    with pytest.raises(ab.AnonbayesError, match="MatrixChannel"):
        ab.LDP(1.0).audit(np.eye(2))
    with pytest.raises(ab.AnonbayesError, match="columns"):
        ab.MatrixChannel(ab.Domain("x", "ab"), np.full((2, 3), 1 / 3))
    blind = ab.MatrixChannel(ab.Domain("x", "ab"), np.full((2, 2), 0.5))
    with pytest.raises(ab.AnonbayesError, match="unbiased"):
        blind.estimate(["a"], method="empirical")
    with pytest.raises(ab.AnonbayesError, match="Report 1: 'z'"):
        blind.estimate(["a", "z"])
