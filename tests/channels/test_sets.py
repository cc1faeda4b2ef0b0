"""Padding and sampling: budgets by enumeration of all sets, shares by simulation."""

import itertools

import numpy as np
import pytest

import anonbayes as ab

GOODS = ab.Domain("bought", "abc")


@pytest.mark.parametrize("mechanism", ["randomized_response", "unary_encoding"])
@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_no_two_sets_are_told_apart_by_more_than_the_budget(mechanism, length):
    baskets = ab.PaddedSets(GOODS, 1.2, length=length, mechanism=mechanism)
    q = baskets.channel.matrix()
    rows = []
    for size in range(4):
        for held in itertools.combinations(range(3), size):
            padded = [*held, *(3 + slot for slot in range(size, length))]
            rows.append(q[padded].mean(axis=0))
    rows = np.array(rows)
    worst = np.log(rows.max(axis=0) / rows.min(axis=0)).max()
    assert worst <= 1.2 + 1e-9
    assert baskets.ldp_budget() == pytest.approx(worst, abs=1e-9)
    # All of it is used, by bits when all members can be raised.
    if mechanism == "randomized_response" or length <= 3:
        assert worst == pytest.approx(1.2, abs=1e-9)
        assert not baskets.satisfies(ab.LDP(1.19)).holds
    assert baskets.satisfies(ab.LDP(1.2)).holds


@pytest.mark.parametrize("mechanism", ["randomized_response", "unary_encoding"])
def test_shares_are_unbiased_and_their_limits_cover(mechanism):
    baskets = ab.PaddedSets(GOODS, 2.0, length=2, mechanism=mechanism)
    people = [["a", "b"]] * 150 + [["a", "a"]] * 100 + [["c"]] * 50 + [[]] * 100
    truth, runs, rng = np.array([0.625, 0.375, 0.125]), 250, np.random.default_rng(1)
    ends = [baskets.estimate(baskets.release(people, seed=rng)) for _ in range(runs)]
    shares = np.array([end.p for end in ends])
    assert (np.abs(shares.mean(axis=0) - truth) < 4.5 * shares.std(axis=0) / np.sqrt(runs)).all()
    covered = [(end.interval[:, 0] <= truth) & (truth <= end.interval[:, 1]) for end in ends]
    # The same people each time; errors are those that are expected of them.
    squared = ((shares - truth) ** 2).sum(axis=1)
    expected = baskets.expected_loss(truth, 400, sampled=False)
    assert abs(squared.mean() - expected) < 4.5 * squared.std() / np.sqrt(runs)
    assert baskets.worst_case_loss(400) > baskets.expected_loss(truth, 400)
    # The people stay the same, so that limits for a sample of them are a little wide.
    assert np.mean(covered) > 0.95 - 4 * np.sqrt(0.95 * 0.05 / runs)


def test_all_estimators_files_and_devices():
    baskets = ab.PaddedSets(GOODS, 3.0, length=2)
    texts = ["a,b", "a", "", " c , b "] * 500
    held = baskets.read_values(texts)
    assert held[:4] == [["a", "b"], ["a"], [], ["c", "b"]]
    sent = baskets.release(held, seed=1)
    truth, error = np.array([0.5, 0.5, 0.25]), np.sqrt(baskets.worst_case_loss(2000))
    again = baskets.read_texts(baskets.spell(sent))
    for method in baskets.methods:
        how = {"draws": 100, "chains": 2, "seed": 1} if method == "bayes" else {}
        estimate = baskets.estimate(again, method=method, **how)
        assert np.abs(estimate.p - truth).max() < 5 * error
        assert (estimate.interval[:, 0] <= estimate.p).all()
        assert (estimate.p <= estimate.interval[:, 1]).all()
    assert estimate.draws.sizes["bought"] == 3
    report = baskets.reporter(seed=2)
    one_by_one = baskets.estimate([report(held[i]) for i in range(400)])
    assert np.abs(one_by_one.p - truth).max() < 5 * np.sqrt(baskets.worst_case_loss(400))


def test_what_it_cannot_use_is_named():
    baskets = ab.PaddedSets(GOODS, 1.0, length=2)
    with pytest.raises(ab.AnonbayesError, match=r"'bought', row 1: 'ab'"):
        baskets.release([["a"], "ab"])
    with pytest.raises(ab.AnonbayesError, match="row 1: 'x' is not one of the values"):
        baskets.read_values(["a", "a,x"])
    with pytest.raises(ab.AnonbayesError, match="LDP"):
        baskets.satisfies(ab.ULDP(["a"], 1.0))
    with pytest.raises(ab.AnonbayesError, match="'x'"):
        baskets.release([["a", "x"]])
