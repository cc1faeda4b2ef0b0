"""Padding and sampling: budgets by enumeration of all sets, shares by simulation."""

import itertools

import numpy as np
import pytest

import anonbayes as ab

GOODS = ab.Domain("bought", "abc")


@pytest.mark.parametrize("mechanism", ["randomized_response", "unary_encoding"])
@pytest.mark.parametrize("length", [1, 2, 3])
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
    # All of it is used: by randomized response always, by bits when all members are raised.
    assert worst == pytest.approx(1.2, abs=1e-9)


@pytest.mark.parametrize("mechanism", ["randomized_response", "unary_encoding"])
def test_shares_are_unbiased_and_their_limits_cover(mechanism):
    baskets = ab.PaddedSets(GOODS, 2.0, length=2, mechanism=mechanism)
    people = [["a", "b"]] * 150 + [["a", "a"]] * 100 + [["c"]] * 50 + [[]] * 100
    truth, runs, rng = np.array([0.625, 0.375, 0.125]), 250, np.random.default_rng(1)
    ends = [baskets.estimate(baskets.release(people, seed=rng)) for _ in range(runs)]
    shares = np.array([end.p for end in ends])
    assert (np.abs(shares.mean(axis=0) - truth) < 4.5 * shares.std(axis=0) / np.sqrt(runs)).all()
    covered = [(end.interval[:, 0] <= truth) & (truth <= end.interval[:, 1]) for end in ends]
    # The people stay the same, so that limits for a sample of them are a little wide.
    assert np.mean(covered) > 0.95 - 4 * np.sqrt(0.95 * 0.05 / runs)


def test_what_it_cannot_use_is_named():
    baskets = ab.PaddedSets(GOODS, 1.0, length=2)
    with pytest.raises(ab.AnonbayesError, match=r"'bought', row 1: 'ab'"):
        baskets.release([["a"], "ab"])
    with pytest.raises(ab.AnonbayesError, match="'x'"):
        baskets.release([["a", "x"]])
