"""Chains of vertical tables: seeds, threads, storage and continuation, bad input."""

import numpy as np
import pytest
from vertical_reference import small_layout, uneven_prior
from vertical_run import run_vertical

from anonbayes.errors import AnonbayesError, ModelError, TableError
from anonbayes.inference.vertical.chain import STEPS, VerticalChain, choose_step
from anonbayes.inference.vertical.group_layout import VerticalLayout

LAYOUT = small_layout()
SETTINGS = {"tempered": {"ladder": {"hottest": 0.3, "most": 6}}, "subblock": {"sub_block": 2}}


def run(step, draws=40, tune=100, seed=5, **more):
    settings = {"beta": uneven_prior(LAYOUT), "thin": 2}
    settings |= SETTINGS.get(step, {}) | more
    return run_vertical(LAYOUT, step=step, draws=draws, tune=tune, seed=seed, **settings)


def assert_same(one, two):
    assert np.array_equal(one.assignment, two.assignment)
    assert np.array_equal(one.energy, two.energy)
    assert np.array_equal(one.pi_secret, two.pi_secret)
    assert all(np.array_equal(a, b) for a, b in zip(one.pi, two.pi, strict=True))
    assert np.array_equal(one.ownership, two.ownership)


@pytest.mark.parametrize("step", STEPS)
def test_seed_reproduces(step):
    assert_same(run(step), run(step))
    assert not np.array_equal(run(step).pi[0], run(step, seed=6).pi[0])


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("stop", [30, 151])
def test_stored_and_continued_equals_uninterrupted(step, stop, tmp_path):
    """Stopped in the warm-up, and between two kept draws."""
    whole, part = run(step), run(step, stop=stop)
    np.savez(tmp_path / "state.npz", **part.state)
    with np.load(tmp_path / "state.npz") as stored:
        state = dict(stored)
    # The generator comes with the state: the seed given here must not matter.
    rest = run(step, seed=999, resume=state)
    assert part.n_draws + rest.n_draws == whole.n_draws > part.n_draws
    for name in ("assignment", "energy", "pi_secret"):
        joined = [x for x in (getattr(part, name), getattr(rest, name)) if len(x)]
        assert np.array_equal(np.concatenate(joined), getattr(whole, name))
    assert np.array_equal(rest.ownership, whole.ownership)


def test_more_draws_continue_a_finished_run():
    whole, part = run("collapsed", draws=60), run("collapsed", draws=25)
    rest = run("collapsed", draws=60, resume=part.state)
    assert np.array_equal(np.concatenate([part.energy, rest.energy]), whole.energy)


def test_threads_change_nothing():
    one, two, three = (
        run("tempered", ladder={"hottest": 0.2, "temperatures": 6, "threads": t}) for t in (1, 2, 3)
    )
    assert_same(one, two)
    assert_same(one, three)


def test_state_after_a_run_belongs_to_the_table():
    state = run("collapsed").state
    other = VerticalLayout([[0], [1]], [0, 1], [0, 2], [2], 2)
    with pytest.raises(ModelError, match="one item per row"):
        run_vertical(other, step="collapsed", draws=1, tune=0, resume=state)
    with pytest.raises(ModelError, match="belongs to step='collapsed'"):
        run_vertical(LAYOUT, step="block", draws=1, tune=0, resume=state)


def test_starts_are_dispersed():
    layout = VerticalLayout(np.arange(60)[:, None] % 5, np.arange(60) % 3, [0, 30, 60], [5], 3)
    starts = [
        VerticalChain(layout, step="block", rng=np.random.default_rng(s)).assignment
        for s in range(3)
    ]
    assert all((starts[0] != s).mean() > 0.5 for s in starts[1:])
    assert all(np.array_equal(layout.check_assignment(s), s) for s in starts)


def test_choice_by_group_size():
    assert choose_step([3, 12]) == "collapsed"
    assert choose_step([13, 500]) == "subblock"
    assert choose_step([3, 12], repeats=[False, True]) == "block"
    repeated = VerticalLayout([[0], [1], [1]], [0, 0, 1], [0, 3], [2], 2)
    steps = [VerticalChain(t, rng=np.random.default_rng(1)).step for t in (LAYOUT, repeated)]
    assert steps == ["collapsed", "block"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": "gibs"}, "gibs"),
        ({"beta": 0.0}, "beta must be positive"),
        ({"beta": np.ones(3)}, r"a scalar or \(15,\)"),
        ({"alpha": [1.0, np.nan, 1.0]}, "alpha must be positive"),
        ({"block": 40}, "2 to 20"),
        ({"step": "tempered", "ladder": {"hottest": 1.5}}, "hottest=1.5"),
        ({"step": "tempered", "ladder": {"temperatures": 1}}, "temperatures=1 must be"),
        ({"step": "tempered", "ladder": {"temperatures": [1.0, 0.5]}}, "must be a whole number"),
    ],
)
def test_bad_settings_are_refused(change, message):
    with pytest.raises(AnonbayesError, match=message):
        run_vertical(LAYOUT, **({"step": "block", "draws": 5, "tune": 0} | change))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"items": [[0], [5]]}, r"items\[1, 0\] = 5"),
        ({"secrets": [0, 3]}, r"secrets\[1\] = 3"),
        ({"offsets": [0, 1, 1, 2]}, "increase strictly"),
        ({"items": [[0]]}, "1 nonsensitive tuples for 2"),
        ({"sizes": [2, 2]}, "sizes has 2"),
        ({"items": [[0.0], [1.0]]}, "integer array"),
        ({"secrets": np.empty(0, int), "items": np.empty((0, 1), int)}, "no rows"),
    ],
)
def test_bad_tables_are_refused(change, message):
    table = {"items": [[0], [1]], "secrets": [0, 1], "offsets": [0, 2], "sizes": [2]}
    with pytest.raises(TableError, match=message):
        VerticalLayout(**(table | change), n_secrets=2)
