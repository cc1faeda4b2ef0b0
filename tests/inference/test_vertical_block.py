"""The exact draw of a group against the enumeration of its orders."""

import itertools

import numpy as np
import pytest
from scipy import stats

from anonbayes.inference.vertical.block import (
    balance,
    draw_order,
    lattice,
    order_marginals,
    sum_orders,
)
from anonbayes.inference.vertical.group_layout import VerticalLayout
from anonbayes.inference.vertical.sweeps import block_sweep


def by_enumeration(log_weight):
    n = len(log_weight)
    orders = np.array(list(itertools.permutations(range(n))))
    log_p = log_weight[np.arange(n), orders].sum(axis=1)
    p = np.exp(log_p - log_p.max())
    p /= p.sum()
    marginal = np.zeros((n, n))
    for weight, order in zip(p, orders, strict=True):
        marginal[np.arange(n), order] += weight
    return orders, p, marginal


def by_recursion(weight):
    n = len(weight)
    steps = lattice(n + 1)  # one size too large, as for the smaller groups of a table
    wide = np.zeros((n + 1, n + 1))
    wide[:n, :n] = weight
    forward, backward, marginal = np.empty(1 << n), np.empty(1 << n), np.empty((n + 1) ** 2)
    permanent = sum_orders(steps, wide.ravel(), n, forward)
    order_marginals(steps, wide.ravel(), n, forward, backward, marginal)
    return permanent, forward, marginal.reshape(n + 1, n + 1)[:n, :n]


@pytest.mark.parametrize("n", range(1, 8))
def test_marginals_equal_enumeration(n):
    log_weight = np.random.default_rng(n).normal(scale=3.0, size=(n, n))
    permanent, _, marginal = by_recursion(np.exp(log_weight))
    orders, _, expected = by_enumeration(log_weight)
    np.testing.assert_allclose(marginal, expected, atol=1e-12)
    direct = np.exp(log_weight)[np.arange(n), orders].prod(axis=1).sum()
    assert permanent == pytest.approx(direct, rel=1e-12)


def test_marginals_with_equal_slots_and_equal_items():
    log_weight = np.random.default_rng(1).normal(scale=2.0, size=(5, 5))
    log_weight[1] = log_weight[0]
    log_weight[:, 4] = log_weight[:, 2]
    _, _, marginal = by_recursion(np.exp(log_weight))
    np.testing.assert_allclose(marginal, by_enumeration(log_weight)[2], atol=1e-12)
    np.testing.assert_allclose(marginal[0], marginal[1], atol=1e-12)
    np.testing.assert_allclose(marginal[:, 4], marginal[:, 2], atol=1e-12)


@pytest.mark.parametrize("scale", [50.0, 1000.0, 20_000.0])
def test_balanced_weights_survive_underflow(scale):
    log_weight = scale * np.random.default_rng(3).normal(size=(5, 5))
    log_weight[:, 0] += 40 * scale  # every slot wants the same item
    weight = log_weight.copy()
    balance(weight, 5)
    permanent, _, marginal = by_recursion(weight)
    assert permanent > 1e-12
    np.testing.assert_allclose(marginal, by_enumeration(log_weight)[2], atol=1e-9)


def test_draws_follow_the_weights():
    rng = np.random.default_rng(5)
    log_weight = rng.normal(size=(4, 4))
    _, forward, _ = by_recursion(np.exp(log_weight))
    orders, p, _ = by_enumeration(log_weight)
    index = {tuple(o): i for i, o in enumerate(orders.tolist())}
    seen, order = np.zeros(len(p)), np.empty(4, dtype=np.int64)
    for _ in range(20_000):
        draw_order(np.exp(log_weight), 4, forward, order, rng)
        seen[index[tuple(order.tolist())]] += 1
    assert stats.chisquare(seen, 20_000 * p).pvalue > 1e-3


def group_of(n, seed, n_attributes=3):
    rng = np.random.default_rng(seed)
    layout = VerticalLayout(
        items=rng.integers(0, 4, size=(n, n_attributes)),
        secrets=rng.integers(0, 3, size=n),
        offsets=[0, n],
        sizes=[4] * n_attributes,
        n_secrets=3,
    )
    pi = layout.flatten([rng.dirichlet(np.ones(4), size=3) for _ in range(n_attributes)])
    return layout, pi


def log_weights(layout, pi):
    parts = layout.split(np.log(pi))
    return sum(p[layout.secrets][:, layout.items[:, a]] for a, p in enumerate(parts))


@pytest.mark.parametrize("n_attributes", [3, 400])
def test_ownership_of_a_group_with_repeats(n_attributes):
    # With 400 attributes the weights leave the floating-point range: the balanced path.
    layout, pi = group_of(6, seed=2, n_attributes=n_attributes)
    owner = np.zeros(layout.n_links)
    assignment = np.arange(6)
    block_sweep(
        layout.arrays, lattice(12), pi, assignment, 12, 6, False, owner, np.random.default_rng(1)
    )
    assert np.array_equal(assignment, np.arange(6))
    _, _, marginal = by_enumeration(log_weights(layout, pi))
    expected = np.zeros((6, 3))
    for slot, secret in enumerate(layout.secrets):
        expected[:, secret] += marginal[slot]
    np.testing.assert_allclose(layout.ownership(owner).toarray(), expected, atol=1e-10)


def test_pieces_of_a_large_group_keep_the_distribution():
    # 5 rows redrawn in pieces of 2: the chain must visit orders as often as the exact draw.
    layout, pi = group_of(5, seed=8)
    orders, p, _ = by_enumeration(log_weights(layout, pi))
    index = {tuple(o): i for i, o in enumerate(orders.tolist())}
    rng = np.random.default_rng(4)
    assignment, owner, none = np.arange(5), np.zeros(layout.n_links), np.empty(0)
    n = 20_000
    hits = np.zeros((n, len(p)), dtype=bool)
    for t in range(n):
        block_sweep(layout.arrays, lattice(2), pi, assignment, 2, 2, True, none, rng)
        hits[t, index[tuple(assignment.tolist())]] = True
    batches = hits.reshape(50, -1, len(p)).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(50)
    # Orders hardly ever seen have no batch error of their own: use that of independent draws.
    error = np.maximum(error, np.sqrt(p / n))
    assert np.all(np.abs(batches.mean(axis=0) - p) < 4 * error)
    block_sweep(layout.arrays, lattice(2), pi, assignment, 2, 2, False, owner, rng)
    np.testing.assert_allclose(layout.ownership(owner).sum(axis=1), 1.0)
