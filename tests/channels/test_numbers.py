"""Mechanisms for numbers against their definitions, integrals, enumeration and simulation."""

import itertools

import numpy as np
import pandas as pd
import pytest
from agreement import assert_fast_likelihood
from scipy import integrate, optimize, stats

import anonbayes as ab
from anonbayes.estimation import em

BINS = ab.BinnedDomain("x", 0, 10, 6)
P = np.array([0.05, 0.3, 0.25, 0.2, 0.15, 0.05])


def wave(size, b, epsilon):
    """Square wave row by row: e near the value, 1 elsewhere."""
    weight = np.ones((size, size + 2 * b))
    for x in range(size):
        weight[x, x : x + 2 * b + 1] = np.exp(epsilon)
    return weight / weight.sum(axis=1, keepdims=True)


def density(channel, held, y):
    """Piecewise mechanism on the scale from -1 to 1, from the paper."""
    z = np.exp(channel.epsilon / 2)
    c = (z + 1) / (z - 1)
    left = (c + 1) / 2 * held - (c - 1) / 2
    high = (channel.epsilon and z * (z - 1)) / (2 * (z + 1))
    return np.where((y >= left) & (y <= left + c - 1), high, high / z**2) * (np.abs(y) <= c)


def test_bins_find_every_number_of_the_range():
    assert BINS.find(0) == 0 and BINS.find(10) == 5 and BINS.find("9.99") == 5
    assert BINS.find(10.01) is None and BINS.find(True) is None and BINS.find("x") is None
    numbers = np.random.default_rng(1).uniform(0, 10, 500)
    np.testing.assert_array_equal(BINS.encode(numbers), np.floor(numbers / 10 * 6))
    assert all(BINS.find(label) == code for code, label in enumerate(BINS.labels))
    with pytest.raises(ab.AnonbayesError, match=r"'x', row 1: 11 .*0 to 10"):
        BINS.encode([1, 11])
    with pytest.raises(ab.AnonbayesError, match="finite"):
        ab.BinnedDomain("x", 3, 3, 2)


@pytest.mark.parametrize("b", [0, 2, 7])
def test_square_wave_is_the_definition(b):
    channel = ab.SquareWave(BINS, 1.3, b=b)
    q = wave(6, b, 1.3)
    np.testing.assert_allclose(channel.matrix(), q, rtol=1e-12)
    np.testing.assert_allclose(channel.apply(P), P @ q, rtol=1e-12)
    assert channel.common_mass() == pytest.approx(q.min(axis=0).sum())
    assert channel.total_maximum() == pytest.approx(q.max(axis=0).sum())
    assert (q.max(axis=0) / q.min(axis=0)).max() == pytest.approx(np.exp(1.3))
    for x in range(6):
        for z in set(range(6)) - {x}:
            y = channel._telling(x, z)
            assert q[x, y] / q[z, y] == pytest.approx(np.exp(1.3))
    n = 30_000
    for seed in (None, 3):
        seen = np.bincount(channel.release([4.9] * n, seed=seed), minlength=6 + 2 * b)
        assert stats.chisquare(seen, n * q[2]).pvalue > 1e-4
    np.testing.assert_allclose(q @ channel._weights, BINS.numbers, rtol=1e-9)
    variance = q @ channel._weights**2 - BINS.numbers**2
    assert channel.variance(4.9) == pytest.approx(variance[2])


def test_likelihood_evidence_and_model_are_those_of_the_matrix():
    channel = ab.SquareWave(BINS, 1.0)
    reports = channel.release(np.random.default_rng(1).uniform(0, 10, 200), seed=2)
    assert_fast_likelihood(channel, reports, P, keep=[True, False, True, True, False, True])


def test_smoothing_ends_where_a_root_finder_does():
    """The fixed point of EMS, by a dense matrix and SciPy; without smoothing, the maximum."""
    channel = ab.SquareWave(BINS, 2.0, b=1)
    q = channel.matrix()
    counts = np.random.default_rng(4).multinomial(5000, P @ q)
    reports = np.repeat(np.arange(len(counts)), counts)
    share = counts / counts.sum()
    mean = np.eye(6) / 2 + (np.eye(6, k=1) + np.eye(6, k=-1)) / 4
    mean[0, 0] = mean[-1, -1] = 0.75

    def stays(p):
        return mean @ (p * (q @ (share / (p @ q)))) - p

    root = optimize.root(stays, np.full(6, 1 / 6), tol=1e-13).x
    end = channel.estimate(reports, smoothing=1, tolerance=1e-12)
    np.testing.assert_allclose(end.p, root, atol=1e-7)
    best = optimize.minimize(
        lambda p: -share @ np.log(p @ q),
        P,
        bounds=[(1e-9, 1)] * 6,
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
        options={"ftol": 1e-15, "maxiter": 500},
    ).x
    plain = channel.estimate(reports, smoothing=0, tolerance=1e-13)
    np.testing.assert_allclose(plain.p, best, atol=2e-4)
    # The change with the reports' shares, by differences.
    total = root @ q
    change = em.sensitivity(q, root)

    def fixed(h):
        step = lambda p: mean @ (p * (q @ (h / (p @ q)))) - p  # noqa: E731
        return optimize.root(step, root, tol=1e-13).x

    for y in (0, 3):
        bump = np.eye(len(total))[y] * 1e-6
        slope = (fixed(total + bump) - fixed(total - bump)) / 2e-6
        # Only at p whose own reports are seen does the estimate stand still exactly.
        at = em.sensitivity(q, fixed(total))[:, y]
        np.testing.assert_allclose(at, slope, atol=0.03)
    assert change.shape == q.shape


def test_smoothed_limits_cover_and_beat_unrelated_bins():
    """Two smooth populations: coverage of the bins, and the error beside optimal bits."""
    domain, rng = ab.BinnedDomain("x", 0, 1, 40), np.random.default_rng(3)
    channel, bits = ab.SquareWave(domain, 1.0), ab.UnaryEncoding.optimal(domain, 1.0)
    for a, b in ((2, 5), (1, 1)):
        truth = np.diff(stats.beta(a, b).cdf(domain.edges))
        covered, ours, theirs = [], [], []
        for _ in range(6):
            people = rng.beta(a, b, 10_000)
            estimate = channel.estimate(channel.release(people, seed=rng))
            low, high = estimate.interval.T
            covered.append(((low <= truth) & (truth <= high)).mean())
            ours.append(np.abs(estimate.p - truth).sum())
            sent = bits.release_codes(domain.encode(people), seed=rng)
            theirs.append(np.abs(bits.estimate(sent, method="norm_sub").p - truth).sum())
        assert np.mean(covered) > 0.9 and np.mean(ours) < 0.6 * np.mean(theirs)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
@pytest.mark.parametrize("held", [-1.0, 0.3, 1.0])
def test_piecewise_is_a_density_with_the_right_mean_and_variance(epsilon, held):
    channel = ab.Piecewise(ab.BinnedDomain("x", -1, 1, 4), epsilon)
    c = channel.reach
    left = (c + 1) / 2 * held - (c - 1) / 2
    cuts = [left, left + c - 1]

    def moment(power):
        return integrate.quad(lambda y: density(channel, held, y) * y**power, -c, c, points=cuts)[0]

    assert moment(0) == pytest.approx(1.0, abs=1e-9)
    assert moment(1) == pytest.approx(held, abs=1e-8)
    assert moment(2) - held**2 == pytest.approx(channel.variance(held), rel=1e-7)
    reports = channel.release(np.full(20_000, held), seed=5)
    edges = np.unique([-c, (-c + left) / 2, left, left + (c - 1) / 2, left + c - 1, c])
    seen = np.histogram(reports, np.concatenate([[-2 * c], edges[1:-1], [2 * c]]))[0]
    exact = [
        integrate.quad(lambda y: density(channel, held, y), a, b, points=cuts)[0]
        for a, b in itertools.pairwise(edges)
    ]
    # Reports are rounded: a few of them fall on the other side of an edge.
    assert stats.chisquare(seen, 20_000 * np.array(exact) / sum(exact)).pvalue > 1e-4


def test_windows_of_the_piecewise_mechanism_are_its_densities():
    domain = ab.Domain("x", [-1, -0.2, 0.5, 1])
    channel = ab.Piecewise(domain, 1.0)
    reports = channel.release([-1, -0.2, 0.5, 1] * 20, seed=1)
    _, _, matrix = evidence = channel.evidence(reports)
    expected = [density(channel, held, reports) for held in domain.numbers]
    np.testing.assert_allclose(matrix.toarray()[evidence.codes].T, expected, rtol=1e-9)
    assert np.max(expected) / np.min(expected) == pytest.approx(np.e)
    assert len(evidence.labels) <= 9


def test_duchi_is_the_definition():
    domain = ab.Domain("x", [0, 4, 10])
    channel = ab.Duchi(domain, 1.0)
    q, ends = channel.matrix(), channel.release([0, 10] * 30, seed=1)
    np.testing.assert_allclose(q.sum(axis=1), 1.0)
    np.testing.assert_allclose(q @ np.unique(ends), [0, 4, 10], atol=1e-12)
    assert q[2, 1] / q[0, 1] == pytest.approx(np.e) and q[0, 0] / q[2, 0] == pytest.approx(np.e)
    np.testing.assert_allclose(
        q @ np.unique(ends) ** 2 - domain.numbers**2, [channel.variance(v) for v in domain.numbers]
    )
    codes, _, matrix = channel.evidence(ends)
    np.testing.assert_allclose(matrix.toarray()[codes], q[:, (ends > 5).astype(int)].T)
    assert channel.log_likelihood([0.2, 0.3, 0.5], ends) == pytest.approx(
        np.log(([0.2, 0.3, 0.5] @ q)[(ends > 5).astype(int)]).sum()
    )


@pytest.mark.parametrize("kind", [ab.SquareWave, ab.Piecewise, ab.Duchi])
def test_means_are_unbiased_and_their_limits_cover(kind):
    """300 collections of 400 people; four standard errors, and four of the coverage."""
    domain = ab.BinnedDomain("x", 0, 10, 20)
    channel, rng, runs = kind(domain, 1.0), np.random.default_rng(6), 300
    ends = []
    for _ in range(runs):
        people = rng.choice(domain.numbers, 400, p=np.arange(1, 21) / 210)
        ends.append(channel.mean(channel.release(people, seed=rng)))
    truth = domain.numbers @ np.arange(1, 21) / 210
    means = np.array([end.mean for end in ends])
    assert abs(means.mean() - truth) < 4 * means.std() / np.sqrt(runs)
    covered = np.mean([end.interval[0] <= truth <= end.interval[1] for end in ends])
    assert abs(covered - 0.95) < 4 * np.sqrt(0.95 * 0.05 / runs)
    assert means.std() == pytest.approx(np.mean([end.standard_error for end in ends]), rel=0.2)


def test_numbers_under_square_wave_are_a_column_of_a_released_table():
    """Ages of the ill in the posterior, beside maximum likelihood of their own reports."""
    domain, rng = ab.BinnedDomain("age", 0, 100, 4), np.random.default_rng(2)
    channel = ab.SquareWave(domain, 3.0, b=0)
    ages = rng.uniform(0, 100, 4000)
    ill = np.where(rng.random(4000) < np.where(ages > 50, 0.8, 0.2), "yes", "no")
    reports = channel.release(ages, seed=1)
    frame = pd.DataFrame({"age": pd.Series(reports, dtype=object), "ill": ill})
    table = ab.ReleasedTable.horizontal(frame, "ill", channels={"age": channel})
    posterior = ab.fit(table, draws=300, tune=100, chains=2, seed=1, progressbar=False)
    given = posterior.draws["pi_age"].mean(("chain", "draw")).to_numpy()
    for row, answer in enumerate(table.domains["ill"].values):
        mine = channel.estimate(reports[ill == answer], method="mle", tolerance=1e-9).p
        # The prior Dir(1, ..., 1) is worth four of about 2,000 people.
        np.testing.assert_allclose(given[row], mine, atol=0.01)
    beliefs = posterior.learner(pd.DataFrame({"age": [12.5, 99.9]})).to_numpy()
    yes = table.domains["ill"].index("yes")
    assert beliefs[0, yes] < 0.3 < 0.7 < beliefs[1, yes]


def test_what_they_cannot_use_is_named():
    with pytest.raises(ab.AnonbayesError, match="ascend"):
        ab.SquareWave(ab.Domain("x", [3, 1, 2]), 1.0)
    with pytest.raises(ab.AnonbayesError, match="not numeric"):
        ab.SquareWave(ab.Domain("x", ["a", "b"]), 1.0)
    with pytest.raises(ab.AnonbayesError, match="budget of at least"):
        ab.Duchi(BINS, 0.0)
    with pytest.raises(ab.AnonbayesError, match=r"Report 1 is 99; .*0 to"):
        ab.SquareWave(BINS, 1.0).estimate([1, 99])
    with pytest.raises(ab.AnonbayesError, match="Report 0 is 3;"):
        ab.Duchi(BINS, 1.0).mean([3.0])
    with pytest.raises(ab.AnonbayesError, match=r"use mean\(reports\)"):
        ab.Duchi(BINS, 1.0).estimate([3.0])
