"""Longitudinal reports against enumeration of all rounds, and the averages of several."""

import itertools

import numpy as np
import pytest

import anonbayes as ab

DOMAIN = ab.Domain("x", list("abcd"))
KINDS = ["optimal", "symmetric"]


@pytest.mark.parametrize("permanent", KINDS)
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_budgets_are_those_of_all_outcomes(permanent, rounds):
    """Two values: every sequence of reports, with the permanent bits summed out."""
    channel = ab.LongitudinalUE(ab.Domain("x", "ab"), 0.7, infinite=1.8, permanent=permanent)
    p1, q1, p2 = channel.permanent.hit[0], channel.permanent.miss[0], channel.kept
    pairs = list(itertools.product((0, 1), repeat=2))

    def chance(value, seen):
        total = 0.0
        for memory in pairs:
            own = [p1 if i == value else q1 for i in range(2)]
            weight = np.prod([own[i] if memory[i] else 1 - own[i] for i in range(2)])
            for report in seen:
                weight *= np.prod([p2 if report[i] == memory[i] else 1 - p2 for i in range(2)])
            total += weight
        return total

    every = [(chance(0, seen), chance(1, seen)) for seen in itertools.product(pairs, repeat=rounds)]
    assert np.sum(every, axis=0) == pytest.approx([1.0, 1.0])
    worst = max(np.log(a / b) for a, b in every)
    assert channel.budget_after(rounds) == pytest.approx(worst, abs=1e-9)
    if rounds == 1:
        assert worst == pytest.approx(0.7, abs=1e-9)
    assert worst < 1.8 and channel.budget_after(10**6) == pytest.approx(1.8, abs=1e-9)
    assert channel.permanent.satisfies(ab.LDP(1.8)).holds
    assert not channel.permanent.satisfies(ab.LDP(1.79)).holds


@pytest.mark.parametrize("permanent", KINDS)
@pytest.mark.parametrize("how", ["report", "reporter"])
def test_rounds_follow_memory_and_one_round_is_the_channel(permanent, how):
    channel = ab.LongitudinalUE(DOMAIN, 1.0, infinite=2.5, permanent=permanent)
    n = 4000 if how == "report" else 1500
    if how == "report":
        memory = channel.memoize(["c"] * n, seed=1)
        first, second = (channel.report(memory, seed=seed).to_dense() for seed in (2, 3))
    else:
        devices = [channel.reporter(seed=seed) for seed in range(n)]
        first, second = (np.array([list(device("c")) for device in devices]) for _ in range(2))
    own = np.arange(4) == 2
    chance = np.where(own, channel.hit, channel.miss)
    for reports in (first, second):
        share, error = reports.mean(axis=0), np.sqrt(chance * (1 - chance) / n)
        assert (np.abs(share - chance) < 4.5 * error).all()
    both = (first & second).mean(axis=0)
    p1, p2 = np.where(own, channel.permanent.hit, channel.permanent.miss), channel.kept
    expected = p1 * p2**2 + (1 - p1) * (1 - p2) ** 2
    assert (np.abs(both - expected) < 4.5 * np.sqrt(expected * (1 - expected) / n)).all()


def test_averages_of_rounds_are_unbiased_and_their_limits_cover():
    p = np.array([0.4, 0.3, 0.2, 0.1])
    channel = ab.LongitudinalUE(DOMAIN, 1.0, infinite=4.0)
    rng, n, runs = np.random.default_rng(3), 600, 150
    shares, covered, widths = [], [], []
    for _ in range(runs):
        memory = channel.memoize(rng.choice(list("abcd"), n, p=p), seed=rng)
        rounds = [channel.report(memory, seed=rng) for _ in range(4)]
        estimate = channel.estimate_rounds(rounds)
        one = channel.estimate(rounds[0], method="empirical")
        shares.append(estimate.p)
        covered.append((estimate.interval[:, 0] <= p) & (p <= estimate.interval[:, 1]))
        widths.append((np.ptp(estimate.interval, axis=1), np.ptp(one.interval, axis=1)))
    error = np.std(shares, axis=0) / np.sqrt(runs)
    assert (np.abs(np.mean(shares, axis=0) - p) < 4.5 * error).all()
    # Limits of the same collection move together: count as if only the runs were independent.
    assert abs(np.mean(covered) - 0.95) < 4 * np.sqrt(0.95 * 0.05 / runs)
    many, single = np.mean(widths, axis=0)
    assert (many < 0.75 * single).all()


def test_with_many_values_the_optimal_form_is_more_accurate_than_rappor():
    domain = ab.Domain("x", range(100))
    for epsilon, infinite in ((0.5, 1.0), (1.0, 3.0), (2.0, 3.0)):
        rappor = ab.LongitudinalUE.rappor(domain, epsilon, infinite=infinite)
        optimal = ab.LongitudinalUE(domain, epsilon, infinite=infinite)
        assert optimal.worst_case_loss(100) < rappor.worst_case_loss(100)


def test_what_it_cannot_do_is_named():
    with pytest.raises(ab.AnonbayesError, match=r"infinite=1"):
        ab.LongitudinalUE(DOMAIN, 2.0, infinite=1.0)
    channel = ab.LongitudinalUE(DOMAIN, 1.0)
    with pytest.raises(ab.AnonbayesError, match=r"\[2, 3\]"):
        channel.estimate_rounds([channel.release(list("abc")), channel.release(["a", "b"])])
