"""Support counts without reports, pooled estimates, and the two-phase protocol."""

import numpy as np
import pytest

import anonbayes as ab
from anonbayes.estimation.closed_forms import inverse_variance, score_interval, share_interval

SIZE = 12
DOMAIN = ab.Domain("x", range(SIZE))
COUNTS = np.array([900, 500, 250, 120, 60, 40, 20, 10, 5, 3, 1, 0])
N = int(COUNTS.sum())


def test_support_of_drawn_reports_has_the_binomial_law():
    """Counted reports and per-bit binomials: same means, variances, and no correlation."""
    channel = ab.InputDiscriminativeUE.optimal(DOMAIN, np.linspace(0.5, 4, SIZE))
    codes = np.repeat(np.arange(SIZE), COUNTS)
    rng = np.random.default_rng(1)
    runs = 400
    released = np.array([channel.collect(codes, seed=rng).counts for _ in range(runs)])
    drawn = np.array([channel.simulate(COUNTS, seed=rng).counts for _ in range(runs)])
    a, b = channel.a, channel.b
    mean = COUNTS * a + (N - COUNTS) * b
    variance = COUNTS * a * (1 - a) + (N - COUNTS) * b * (1 - b)
    for sample in (released, drawn):
        assert np.abs(sample.mean(axis=0) - mean).max() <= 4.5 * np.sqrt(variance.max() / runs)
        spread = sample.var(axis=0, ddof=1) / variance
        assert np.abs(spread - 1).max() <= 4.5 * np.sqrt(2 / runs)
        others = np.corrcoef(sample.T)[np.triu_indices(SIZE, 1)]
        assert np.abs(others).max() <= 4.5 / np.sqrt(runs)


def test_reports_are_counted_in_pieces(monkeypatch):
    monkeypatch.setattr("anonbayes.channels.unary.COLLECTED", 50)
    channel = ab.InputDiscriminativeUE(DOMAIN, 1.0, 0.0)
    codes = np.repeat(np.arange(SIZE), COUNTS)
    support = channel.collect(codes, seed=1)
    assert support.counts.tolist() == COUNTS.tolist() and support.n == N


def test_score_limits_of_one_group_are_wilsons():
    rng = np.random.default_rng(2)
    hit, miss = rng.uniform(0.4, 1.0, SIZE), rng.uniform(0.0, 0.3, SIZE)
    miss[3], hit[4] = 0.0, 1.0
    t = rng.binomial(N, miss + (hit - miss) * COUNTS / N)
    ours = score_interval(t[None].astype(float), np.array([N]), hit[None], miss[None], 0.9)
    assert ours == pytest.approx(share_interval(t, N, hit, miss, 0.9), abs=1e-9)


def test_pooled_estimates_are_unbiased_tight_and_covered():
    rng = np.random.default_rng(3)
    weak = ab.InputDiscriminativeUE.optimal(DOMAIN, 1.0)
    strong = ab.InputDiscriminativeUE.optimal(DOMAIN, np.linspace(1, 4, SIZE))
    hit, miss = np.stack([weak.a, strong.a]), np.stack([weak.b, strong.b])
    sizes = np.array([400, 3600])
    p = COUNTS / N
    rate = miss + (hit - miss) * p
    single = rate * (1 - rate) / ((hit - miss) ** 2 * sizes[:, None])
    best = 1 / (1 / single).sum(axis=0)
    runs = 600
    estimates, covered = np.empty((runs, SIZE)), np.zeros(SIZE)
    for i in range(runs):
        t = rng.binomial(sizes[:, None], rate).astype(float)
        estimates[i] = inverse_variance(t, sizes, hit, miss)
        lower, upper = score_interval(t, sizes, hit, miss, 0.9).T
        covered += (lower <= p) & (p <= upper)
    assert (np.abs(estimates.mean(axis=0) - p) <= 4.5 * np.sqrt(best / runs)).all()
    assert np.abs(estimates.var(axis=0) / best - 1).max() <= 4.5 * np.sqrt(2 / runs)
    assert (single.min(axis=0) > best).all()
    assert covered / runs == pytest.approx(0.9, abs=4.5 * np.sqrt(0.9 * 0.1 / runs))


@pytest.mark.parametrize("rule", ["confidence", "posterior"])
@pytest.mark.parametrize("notion", ["oneid", "minid"])
def test_two_phases_end_to_end(rule, notion):
    values = np.repeat(np.arange(SIZE), COUNTS)
    settings = {"first": 0.2, "rule": rule, "sensitive": [2], "notion": notion, "seed": 7}
    found = ab.budgets.collect(DOMAIN, values, 20, **settings)
    assert found.first.sum() == round(0.2 * N)
    assert [s.n for s in found.support] == [round(0.2 * N), N - round(0.2 * N)]
    for tuned, channel in zip(found.budgets, found.channels, strict=True):
        kind = ab.OneID if notion == "oneid" else ab.MinID
        assert channel.satisfies(kind(tuned)).holds
        assert tuned.epsilon[2] == 1.0
    assert found.budgets[0].epsilon[0] == pytest.approx(np.log(20))
    # MinID's first reports are so noisy that half of the users may not be enough to be sure of.
    assert found.budgets[1].epsilon[0] == np.inf or notion == "minid"
    share = COUNTS / N
    assert (
        (found.estimate.interval[:, 0] <= share) & (share <= found.estimate.interval[:, 1])
    ).sum() >= 9
    again = ab.budgets.collect(DOMAIN, values, 20, **settings)
    assert np.array_equal(found.estimate.p, again.estimate.p)
    frame = found.summary()
    assert frame.loc[0, "users"] == pytest.approx(found.estimate.p[0] * N)
    assert "epsilon_second" in found._repr_html_()


def test_without_a_seed_two_runs_differ():
    values = np.repeat(np.arange(SIZE), COUNTS)
    one, two = (ab.budgets.collect(DOMAIN, values, 20) for _ in range(2))
    assert not np.array_equal(one.estimate.p, two.estimate.p)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"rule": "guess"}, "'confidence', 'posterior'"),
        ({"first": 0.0}, "first=0.0"),
        ({"gamma": 10_000}, "gamma=10000"),
        ({"values": [1]}, "at least two users"),
        ({"values": [1, 99]}, "99 is not in the domain"),
        ({"alpha": 2}, "alpha=2"),
    ],
)
def test_bad_input_is_named(settings, words):
    values = settings.pop("values", np.repeat(np.arange(SIZE), COUNTS))
    gamma = settings.pop("gamma", 2)
    with pytest.raises(ab.AnonbayesError, match=words):
        ab.budgets.collect(DOMAIN, values, gamma, seed=1, **settings)


def test_groups_must_fit_together():
    channel = ab.RAPPOR(DOMAIN, 1.0)
    reports = channel.release([1, 2], seed=1)
    with pytest.raises(ab.AnonbayesError, match="at least one group"):
        ab.budgets.combine([])
    with pytest.raises(ab.AnonbayesError, match="different domains"):
        other = ab.RAPPOR(ab.Domain("y", range(3)), 1.0)
        ab.budgets.combine([(channel, reports), (other, other.release([1], seed=1))])
    with pytest.raises(ab.AnonbayesError, match="has no reports"):
        ab.budgets.combine([(channel, channel.release([], seed=1))])
    with pytest.raises(ab.AnonbayesError, match="3 support counts for 12 values"):
        ab.budgets.combine([(channel, ab.SupportCounts(np.zeros(3, dtype=int), 4))])
