"""Detailed balance of every Metropolis kernel on a three-row group, by its transition matrix."""

import itertools

import numpy as np
import pytest

from anonbayes.inference.vertical.block import fill_weights
from anonbayes.inference.vertical.group_layout import VerticalLayout
from anonbayes.inference.vertical.sweeps import (
    block_log_target,
    fill_slots,
    log_proposal,
    order_log_ratio,
    order_sweep,
    pair_log_weight,
    powers,
    swap_log_ratio,
    swap_sweep,
)

ORDERS = [np.array(o) for o in itertools.permutations(range(3))]


@pytest.fixture(params=["distinct", "repeated"])
def group(request):
    """One group of three rows; equal sensitive values and equal tuples in the second case."""
    if request.param == "distinct":
        items, secrets = [[0, 0], [1, 2], [1, 1]], [0, 1, 2]
    else:
        items, secrets = [[0, 0], [1, 2], [1, 2]], [0, 1, 1]
    layout = VerticalLayout(items, secrets, [0, 3], [2, 3], 3)
    rng = np.random.default_rng(11)
    log_pi = np.log(layout.flatten([rng.dirichlet(np.ones(k), size=3) for k in (2, 3)]))
    target = np.array(
        [sum(pair_log_weight(layout.arrays, log_pi, x, o[x]) for x in range(3)) for o in ORDERS]
    )
    target = np.exp(target - target.max())
    return layout, log_pi, target / target.sum()


def complete(proposal, ratio):
    """Transition matrix of a Metropolis-Hastings kernel."""
    move = proposal * np.minimum(1.0, np.exp(ratio))
    np.fill_diagonal(move, 0.0)
    return move + np.diag(1.0 - move.sum(axis=1))


def check(target, matrix):
    assert np.all(matrix >= 0)
    flow = target[:, None] * matrix
    np.testing.assert_allclose(flow, flow.T, atol=1e-15)
    np.testing.assert_allclose(target @ matrix, target, atol=1e-15)


def simulated(sweep, n=40_000):
    """Transition counts of a compiled sweep, from every state."""
    counts = np.zeros((6, 6))
    for i, start in enumerate(ORDERS):
        for _ in range(n // 6):
            state = start.copy()
            sweep(state)
            counts[i, next(j for j, o in enumerate(ORDERS) if np.array_equal(o, state))] += 1
    return counts


def agree(counts, matrix):
    """Counts of transitions are within 4.5 standard errors of the matrix."""
    n = counts.sum(axis=1, keepdims=True)
    error = np.sqrt(matrix * (1 - matrix) / n)
    assert np.all(np.abs(counts / n - matrix) <= 4.5 * error + 1e-12)


def test_swap(group):
    layout, log_pi, target = group
    matrix = np.zeros((6, 6))
    for i, state in enumerate(ORDERS):
        for one, other in itertools.combinations(range(3), 2):
            new = state.copy()
            new[[one, other]] = new[[other, one]]
            j = next(j for j, o in enumerate(ORDERS) if np.array_equal(o, new))
            ratio = swap_log_ratio(layout.arrays, log_pi, state, one, other)
            matrix[i, j] += min(1.0, np.exp(ratio)) / 3
        matrix[i, i] += 1.0 - matrix[i].sum()
    check(target, matrix)
    rng = np.random.default_rng(1)
    agree(simulated(lambda s: swap_sweep(layout.arrays, log_pi, s, 0.1, rng)), matrix)


def test_permutation(group):
    layout, log_pi, target = group
    ratio = np.array(
        [[order_log_ratio(layout.arrays, log_pi, o, 0, new, 3) for new in ORDERS] for o in ORDERS]
    )
    matrix = complete(np.full((6, 6), 1 / 6), ratio)
    check(target, matrix)
    rng = np.random.default_rng(2)
    agree(simulated(lambda s: order_sweep(layout.arrays, log_pi, s, False, rng)), matrix)


def test_sequential(group):
    layout, log_pi, target = group
    total = np.zeros((6, 6))
    for filling in ORDERS:
        log_nu, taken = np.empty(6), np.empty(3, dtype=int)
        for j, o in enumerate(ORDERS):  # every slot takes the last that is left: its own
            log_nu[j] = fill_slots(
                layout.arrays, log_pi, 0, filling, o[filling][::-1].copy(), taken, 3, np.empty(3),
                False, np.random.default_rng(1),
            )  # fmt: skip
            assert np.array_equal(taken, o)
        # The proposal density is f / nu; built here from the paper's product, slot by slot.
        density = np.empty(6)
        for j, o in enumerate(ORDERS):
            density[j] = 1.0
            left = [0, 1, 2]
            for x in filling:
                weights = {m: np.exp(pair_log_weight(layout.arrays, log_pi, x, m)) for m in left}
                density[j] *= weights[o[x]] / sum(weights.values())
                left.remove(o[x])
        assert density.sum() == pytest.approx(1.0)
        ratio = log_nu[None, :] - log_nu[:, None]
        matrix = complete(np.tile(density, (6, 1)), ratio)
        check(target, matrix)
        total += matrix / len(ORDERS)
    rng = np.random.default_rng(3)
    agree(simulated(lambda s: order_sweep(layout.arrays, log_pi, s, True, rng)), total)


@pytest.mark.parametrize("power", [1.0, 0.6])
def test_collapsed_with_repeated_values(power):
    """The corrected block draw: target by lgamma, ratio by the kernel's own functions."""
    layout = VerticalLayout(
        items=[[0, 0], [1, 2], [0, 2], [1, 1], [0, 0]],
        secrets=[0, 1, 1, 0, 1],
        offsets=[0, 3, 5],
        sizes=[2, 3],
        n_secrets=2,
    )
    beta = np.linspace(0.3, 1.5, layout.n_cells)
    tables = powers(layout, beta, power)
    outside = np.array([3, 4])
    full = [np.concatenate([o, outside]) for o in ORDERS]
    energy = power * np.array([layout.energy(a, beta) for a in full])
    target = np.exp(energy - energy.max())
    target /= target.sum()
    counts = layout.counts(full[0])
    for slot in range(3):
        for a, k in enumerate(layout.sizes):
            counts[layout.starts[a] + layout.secrets[slot] * k + layout.items[slot, a]] -= 1
    value = tables.table[tables.base + counts]
    slots = items = np.arange(3)
    weight = np.empty((3, 3))
    fill_weights(layout.arrays, value, slots, items, 3, True, weight)
    log_q = np.array([log_proposal(weight, o, 3) for o in ORDERS])
    log_p = np.array(
        [block_log_target(layout.arrays, tables, counts, value, slots, items, o, 3) for o in ORDERS]
    )
    np.testing.assert_allclose(log_p - log_p[0], np.log(target) - np.log(target[0]), atol=1e-12)
    assert not np.allclose(log_p - log_p[0], log_q - log_q[0])  # the correction does something
    density = np.exp(log_q) / np.exp(log_q).sum()
    ratio = (log_p - log_q)[None, :] - (log_p - log_q)[:, None]
    check(target, complete(np.tile(density, (6, 1)), ratio))
