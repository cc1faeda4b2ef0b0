"""Shuffle amplification against summation over every outcome and the published formula."""

import itertools

import numpy as np
import pytest
from scipy import stats

import anonbayes as ab
from anonbayes.notions.consequences import closed_form_epsilon, shuffled_delta


def summed(epsilon, n, local, chance):
    """The same divergence, outcome by outcome."""
    own = 1 / (1 + np.exp(-local))
    p, q = np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1))
    for c in range(n):
        outer = stats.binom.pmf(c, n - 1, chance)
        for a in range(c + 1):
            mass = outer * stats.binom.pmf(a, c, 0.5)
            for one, two, prob in ((1, 0, own), (0, 1, 1 - own)):
                p[a + one, c - a + two] += mass * prob
                q[a + two, c - a + one] += mass * prob
    return np.maximum(p - np.exp(epsilon) * q, 0).sum()


@pytest.mark.parametrize("local, share", [(0.5, 1.0), (1.0, 0.6), (3.0, 0.2)])
@pytest.mark.parametrize("n", [1, 2, 17])
def test_tails_sum_to_the_divergence(n, local, share):
    alpha = share * np.tanh(local / 2) / np.expm1(local)
    for epsilon in (0.0, 0.2, 0.9 * local):
        part = alpha * (np.exp(local) + 1)
        assert shuffled_delta(epsilon, n, local, share * np.tanh(local / 2)) == pytest.approx(
            part * summed(epsilon, n, local, 2 * alpha), rel=1e-9, abs=1e-14
        )
        assert shuffled_delta(epsilon, n, local) == pytest.approx(
            summed(epsilon, n, local, np.exp(-local)), rel=1e-9, abs=1e-14
        )


def exact_for_two_answers(epsilon, n, local, ones):
    """Divergence of the number of "yes" among shuffled reports; `ones` others hold "yes"."""
    keep = 1 / (1 + np.exp(-local))
    others = np.convolve(
        stats.binom.pmf(np.arange(ones + 1), ones, keep),
        stats.binom.pmf(np.arange(n - ones), n - 1 - ones, 1 - keep),
    )
    yes, no = np.append(0, others), np.append(others, 0)
    p, q = keep * yes + (1 - keep) * no, (1 - keep) * yes + keep * no
    return max(
        np.maximum(p - np.exp(epsilon) * q, 0).sum(), np.maximum(q - np.exp(epsilon) * p, 0).sum()
    )


@pytest.mark.parametrize("local, n", [(0.5, 50), (2.0, 50), (2.0, 400)])
def test_it_bounds_what_two_answers_give_away_exactly(local, n):
    channel = ab.RandomizedResponse(ab.Domain("x", ["yes", "no"]), local)
    bound = ab.shuffled(channel, n, delta=1e-4)
    worst = max(
        exact_for_two_answers(bound.epsilon, n, local, ones)
        for ones in range(0, n, max(1, n // 20))
    )
    # A bound, and for noisy answers a close one.
    assert worst <= bound.delta * (1 + 1e-9)
    assert local > 1 or worst > 0.02 * bound.delta


@pytest.mark.parametrize(
    "channel",
    [
        ab.RandomizedResponse(ab.Domain("x", "abc"), 1.5),
        ab.UnaryEncoding.optimal(ab.Domain("x", "abc"), 1.0),
        ab.SubsetSelection(ab.Domain("x", "abcd"), 1.0, d=2),
    ],
    ids=["RR", "OUE", "subset"],
)
def test_it_bounds_every_pair_of_neighbours_exactly(channel):
    """Four people: all multisets of reports, all values of the other three."""
    q, n = channel.matrix(), 4
    size, outcomes = q.shape

    def histogram(values):
        masses = {(): 1.0}
        for x in values:
            more = {}
            for seen, mass in masses.items():
                for y in range(outcomes):
                    key = tuple(sorted((*seen, y)))
                    more[key] = more.get(key, 0.0) + mass * q[x, y]
            masses = more
        return masses

    for epsilon in (0.1, 0.6 * channel.epsilon):
        bound = min(
            shuffled_delta(epsilon, n, channel.epsilon, apart)
            for apart in (None, channel.total_variation())
        )
        for others in itertools.combinations_with_replacement(range(size), n - 1):
            one, two = histogram((0, *others)), histogram((1, *others))
            exact = sum(max(one[k] - np.exp(epsilon) * two[k], 0) for k in one)
            assert exact <= bound + 1e-12


def test_it_is_below_the_published_formula_and_the_local_budget():
    domain = ab.Domain("x", range(10))
    for local in (0.5, 4.0):
        for n in (1000, 100_000):
            for channel in (
                ab.RandomizedResponse(domain, local),
                ab.UnaryEncoding.optimal(domain, local),
                ab.LocalHashing(domain, local),
            ):
                found = ab.shuffled(channel, n)
                assert 0 < found.epsilon <= local * (1 + 1e-12)
                assert found.epsilon < closed_form_epsilon(local, n, 1e-6)
                assert found.epsilon <= ab.shuffled(local, n).epsilon  # of any mechanism
                delta = shuffled_delta(found.epsilon, n, local, found.total_variation)
                assert delta <= 1e-6 * (1 + 1e-9)


def test_refusals():
    domain = ab.Domain("x", "ab")
    with pytest.raises(ab.AnonbayesError, match="LDP"):
        ab.shuffled(ab.UtilityOptimizedRR(domain, 1.0, sensitive=["a"]), 100)
    with pytest.raises(ab.AnonbayesError, match="delta=2"):
        ab.shuffled(ab.RandomizedResponse(domain, 1.0), 100, delta=2)
    with pytest.raises(ab.AnonbayesError, match="channel='rr' must be a number"):
        ab.shuffled("rr", 100)
    assert ab.shuffled(ab.RandomizedResponse(domain, 0.0), 100).epsilon < 1e-12
