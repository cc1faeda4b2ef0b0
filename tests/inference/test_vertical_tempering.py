"""The ladder: its targets, its exchanges, its tuning, and what it is for."""

import numpy as np
import pytest
from scipy.stats import norm
from vertical_reference import batch_error, enumerate_tables, small_layout, uneven_prior
from vertical_run import run_vertical

from anonbayes.inference.vertical import sweeps
from anonbayes.inference.vertical.chain import VerticalChain
from anonbayes.inference.vertical.group_layout import VerticalLayout
from anonbayes.inference.vertical.tempering import Ladder, equalised_ladder, exchange_probability


def test_every_temperature_has_its_own_target():
    layout = small_layout()
    beta = uneven_prior(layout)
    ladder = Ladder(layout, beta, np.random.default_rng(8), hottest=0.2, temperatures=3)
    energies = np.empty((6000, 3))
    for t in range(100 + len(energies)):
        ladder.sweep()
        if t >= 100:
            energies[t - 100] = ladder.energies[ladder.replica_at]
    for level, power in enumerate(ladder.power):
        truth = enumerate_tables(layout, beta, power)
        expected = truth.probability @ [layout.energy(a, beta) for a in truth.assignments]
        found = energies[:, level]
        assert abs(found.mean() - expected) < 4 * batch_error(found)
    assert ladder.exchanges.round_trips > 100


def test_exchanges_are_in_detailed_balance():
    power, energy = np.array([1.0, 0.6, 0.3]), np.array([-3.0, 2.0, -1.0])
    for pair in (0, 1):
        swapped = energy.copy()
        swapped[[pair, pair + 1]] = swapped[[pair + 1, pair]]
        one, other = (
            np.exp(power @ e) * exchange_probability(power, e, np.array([pair]))[0]
            for e in (energy, swapped)
        )
        assert one == pytest.approx(other, rel=1e-12)


def test_ladder_is_spread_evenly():
    """Gaussian energies of known spread: the rejection of a pair has a closed form."""

    def rejection(power):
        spread = 120.0 - 80.0 * (power[1:] + power[:-1]) / 2  # s.d. of E, falling in lambda
        return 2 * norm.cdf(spread * -np.diff(power) / np.sqrt(2)) - 1

    power = np.linspace(1.0, 0.4, 12)
    uneven = rejection(power)
    for _ in range(4):
        power = equalised_ladder(power, rejection(power), 30)
    assert (power[0], power[-1]) == (1.0, 0.4)
    assert np.all(np.diff(power) < 0)
    assert np.ptp(rejection(power)) < 0.02 < np.ptp(uneven)


def two_modes(n_groups=24):
    """Pairs of rows in which two values could trade places everywhere: two equal modes."""
    items = np.tile([[0, 0, 0], [1, 1, 1]], (n_groups, 1))
    return VerticalLayout(
        items, np.tile([0, 1], n_groups), 2 * np.arange(n_groups + 1), [2, 2, 2], 2
    )


def test_tempering_finds_both_modes_where_a_chain_sees_one():
    layout = two_modes()
    plain = [
        layout.ownership(
            run_vertical(layout, step="collapsed", draws=800, tune=100, seed=s).ownership
        ).toarray()[0, 0]
        for s in range(6)
    ]
    assert all(abs(p - 0.5) > 0.4 for p in plain)  # each chain is sure,
    assert max(plain) - min(plain) > 0.8  # and they contradict each other
    run = run_vertical(layout, step="tempered", draws=3000, tune=500, seed=1)
    owned = (run.assignment[:, 0] == 0).astype(float)
    assert abs(owned.mean() - 0.5) < 4 * batch_error(owned, 25) < 0.3
    assert run.stats["round_trips"][-1] > 20


@pytest.mark.parametrize("seed", range(4))
def test_the_hottest_chain_forgets_its_start(seed):
    """As hot as it takes: at 0.5 the symmetric table stays in one mode, the small one does not."""
    rng = np.random.default_rng(seed)
    assert Ladder(two_modes(20), np.ones(12), rng).power[-1] < 0.5
    small = small_layout()
    assert Ladder(small, np.ones(small.n_cells), rng).power[-1] == 0.5


def test_number_of_temperatures_follows_the_barrier():
    rng = np.random.default_rng(3)
    beta = np.ones(small_layout().n_cells)
    easy = Ladder(small_layout(), beta, rng, hottest=0.3)
    hard = Ladder(two_modes(60), np.ones(12), rng, hottest=0.0)
    for ladder in (easy, hard):
        for _ in range(32 + 64 + 128):
            ladder.sweep(tune=True)
    assert len(easy.power) < len(hard.power) < 64
    for _ in range(300):
        hard.sweep()
    assert len(hard.power) == pytest.approx(2 * hard.exchanges.barrier + 1, rel=0.4)
    assert 0.2 < hard.exchanges.rejection.mean() < 0.8


@pytest.mark.parametrize("power", [1.0, 0.5])
def test_powers_without_a_table_are_the_same(power, monkeypatch):
    layout = small_layout()
    beta = uneven_prior(layout)
    table = sweeps.powers(layout, beta, power)
    monkeypatch.setattr(sweeps, "LARGEST_TABLE", 0)
    computed = sweeps.powers(layout, beta, power)
    assert len(computed.table) == 0 < len(table.table)
    counts = layout.counts(np.arange(layout.n_rows))
    for c, n in enumerate(counts):
        one, other = (sweeps.cell_value(t, c, n) for t in (table, computed))
        assert one == pytest.approx(other, rel=1e-12)
    assert sweeps.collapsed_energy(computed, counts) == pytest.approx(
        layout.energy(np.arange(layout.n_rows), beta), rel=1e-12
    )


def test_counts_and_energies_never_drift():
    layout = small_layout()
    chain = VerticalChain(
        layout, step="tempered", rng=np.random.default_rng(1), ladder={"hottest": 0.3}
    )
    for _ in range(150):
        chain.sweep(tune=True)
    ladder = chain.ladder
    for replica, assignment in enumerate(ladder.assignments):
        layout.check_assignment(assignment)
        assert ladder.energies[replica] == pytest.approx(layout.energy(assignment, chain.beta))
    assert np.array_equal(chain.counts, layout.counts(chain.assignment))
