"""Optimal partitions against exhaustive search over all partitions of a few secrets."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anonbayes as ab
from anonbayes.channels.coarsening import n_bins
from anonbayes.errors import AnonbayesError
from anonbayes.nonstochastic.cuts import fewest_blocks, largest_smallest_edges

ns = ab.nonstochastic


def partitions(n):
    """All partitions of n things, as restricted growth strings."""
    codes = [0] * n

    def grow(i, used):
        if i == n:
            yield tuple(codes)
            return
        for block in range(used + 1):
            codes[i] = block
            yield from grow(i + 1, max(used, block + 1))

    yield from grow(0, 0)


def admissible(values, codes, gamma):
    blocks = {}
    for value, code in zip(values, codes, strict=True):
        blocks.setdefault(code, []).append(value)
    return all((max(b) - min(b)) / 2 <= 1 / gamma + 1e-12 for b in blocks.values())


@settings(max_examples=25)
@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=7),
    st.sampled_from([0.25, 0.4, 0.5, 0.7, 1.0, 2.0]),
)
def test_finite_policies_are_optimal_over_all_partitions(values, gamma):
    """Also over partitions that are not intervals and that split equal answers."""
    allowed = [c for c in partitions(len(values)) if admissible(values, c, gamma)]
    fewest = min(len(set(c)) for c in allowed)
    largest = max(min(c.count(block) for block in set(c)) for c in allowed)

    maximin = ns.optimal_finite_policy(values, gamma)
    assert maximin.n_components == fewest
    least = ns.optimal_finite_policy(values, gamma, metric="leakage")
    assert math.exp(ns.relative_disarray(least)) == pytest.approx(largest)
    for policy in (maximin, least):
        assert policy.quality >= gamma * (1 - 1e-12)
        assert np.abs(policy.answers - values).max() <= 1 / gamma + 1e-12


@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 12), min_size=1, max_size=8),
    st.sampled_from([0.25, 0.4, 0.5, 0.7, 1.0, 2.0]),
    st.data(),
)
def test_secrets_of_unequal_size_get_the_best_contiguous_blocks(values, gamma, data):
    n = len(values)
    sizes = data.draw(st.lists(st.integers(1, 5), min_size=n, max_size=n))
    order = np.argsort(values, kind="stable")
    ranked, weights = np.asarray(values)[order], np.asarray(sizes)[order]
    best = 0
    for cuts in itertools.product([0, 1], repeat=n - 1):
        codes = np.concatenate([[0], np.cumsum(cuts)]).astype(int)
        if admissible(ranked, codes.tolist(), gamma):
            best = max(best, np.bincount(codes, weights).min())
    policy = ns.optimal_finite_policy(values, gamma, metric="leakage", measure=sizes)
    assert math.exp(ns.relative_disarray(policy)) == pytest.approx(best)


@pytest.mark.parametrize("n", [1, 2, 3, 5, 6, 8])
@pytest.mark.parametrize("gamma", [0.25, 1 / 3, 0.5, 0.8, 1.0, 2.0])
def test_uniform_quantizer_has_the_fewest_bins_of_all_partitions_of_cells(n, gamma):
    """The range [0, n] in n unit cells; a block errs by half the hull of its cells.

    No partition of the cells has fewer blocks than the uniform quantizer, and where whole cells
    fill a bin the best partition has as many.
    """
    best = min(
        len(set(codes))
        for codes in partitions(n)
        if all(
            (max(members) + 1 - min(members)) / 2 <= 1 / gamma + 1e-12
            for members in ([i for i in range(n) if codes[i] == b] for b in set(codes))
        )
    )
    uniform = n_bins(0, n, gamma)
    assert best >= uniform
    if float(2 / gamma).is_integer():
        assert best == uniform


@settings(max_examples=30)
@given(st.lists(st.floats(0.05, 1), min_size=4, max_size=9), st.floats(0.15, 1.2))
def test_edges_for_leakage_agree_with_exhaustive_search_on_a_grid(weights, width):
    """Piecewise uniform shares: no chain of grid points does better than the edges found."""
    n = 40
    knots = np.linspace(0, 1, len(weights) + 1)
    below = np.concatenate([[0], np.cumsum(weights)]) / sum(weights)
    edges = largest_smallest_edges(lambda v: np.interp(v, knots, below), 0.0, 1.0, 2 / width)
    assert np.diff(edges).max() <= width * (1 + 1e-8)
    found = np.diff(np.interp(edges, knots, below)).min()

    grid = np.linspace(0, 1, n + 1)
    share = np.interp(grid, knots, below)
    best = np.full(n + 1, -np.inf)
    best[0] = np.inf
    for j in range(1, n + 1):
        for i in range(j):
            if grid[j] - grid[i] <= width + 1e-12:
                best[j] = max(best[j], min(best[i], share[j] - share[i]))
    assert found >= best[n] - 1e-7


def test_leakage_edges_of_uniform_shares_are_uniform():
    for bins in (1, 2, 3, 5, 8):
        edges = largest_smallest_edges(lambda v: v, 0.0, 1.0, gamma=2 * bins - 0.3)
        np.testing.assert_allclose(edges, np.linspace(0, 1, bins + 1), atol=1e-6)


def test_greedy_blocks_start_where_they_must():
    blocks = fewest_blocks([0, 0.5, 1, 1.5, 2, 2.5], gamma=2)
    assert blocks.tolist() == [0, 0, 0, 1, 1, 1]


def test_errors_of_the_adversary_on_finitely_many_points():
    relation = ns.Relation.from_function(["a", "a", "a", "b"])
    points = [[0, 0], [2, 0], [1, 1], [9, 9]]
    np.testing.assert_allclose(ns.adversary_errors(relation, points), [1, 0])


def test_summary_of_a_finite_policy():
    frame = ns.optimal_finite_policy([0, 1, 2, 9], gamma=1).summary()
    assert frame.values.tolist() == [[1, 3, 0, 2], [9, 1, 9, 9]]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ns.optimal_finite_policy([], 1), "non-empty"),
        (lambda: ns.optimal_finite_policy([math.nan], 1), "finite numbers"),
        (lambda: ns.optimal_finite_policy(["a"], 1), "values must be numbers"),
        (lambda: ns.optimal_finite_policy([1.0], -1), "gamma=-1"),
        (lambda: ns.optimal_finite_policy([1.0], 1, metric="x"), "metric='x'"),
    ],
)
def test_bad_finite_policies_say_what_is_wrong(call, words):
    with pytest.raises(AnonbayesError, match=words):
        call()
