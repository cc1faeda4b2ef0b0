"""Optimal partitions against exhaustive search over all partitions of a few secrets."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anonbayes as ab
from anonbayes.channels.coarsening import n_bins
from anonbayes.nonstochastic.geometry import largest_smallest_edges

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
