"""Groups shared out over threads: the same distribution, and draws that know no threads."""

import itertools

import numpy as np
import pandas as pd
import pytest
from vertical_reference import batch_error, enumerate_tables, small_layout, uneven_prior
from vertical_run import run_vertical

import anonbayes as ab
from anonbayes.inference.vertical import group_layout as module
from anonbayes.inference.vertical.chain import VerticalChain
from anonbayes.inference.vertical.group_layout import Shards, VerticalLayout

GIVEN_PARAMETERS = ("block", "subblock", "swap", "permute", "sequential")


@pytest.fixture
def small_shards(monkeypatch):
    monkeypatch.setattr(module, "SHARD_ROWS", 2)


@pytest.mark.parametrize("step", ["block", "swap"])
def test_shards_sample_the_enumerated_posterior(step, small_shards):
    layout = small_layout()
    assert len(Shards(layout)) > 1
    beta = uneven_prior(layout)
    truth = enumerate_tables(layout, beta)
    run = run_vertical(layout, beta=beta, step=step, draws=1500, tune=100, seed=2, sub_block=2)
    pi = np.concatenate([p.reshape(len(p), -1) for p in run.pi], axis=1)
    assert np.all(np.abs(pi.mean(axis=0) - truth.pi_mean) < 4 * batch_error(pi))
    owned = np.zeros((run.n_draws, layout.n_rows, layout.n_secrets))
    owned[np.arange(run.n_draws)[:, None], run.assignment, layout.secrets] = 1.0
    error = batch_error(owned) + 1e-12
    assert np.all(np.abs(owned.mean(axis=0) - truth.ownership) < 4 * error)
    smooth = layout.ownership(run.ownership).toarray()
    assert np.all(np.abs(smooth - truth.ownership) < 4 * error)


def random_layout(sizes, seed=0):
    rng = np.random.default_rng(seed)
    n = int(np.sum(sizes))
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    return VerticalLayout(rng.integers(0, 4, (n, 2)), rng.integers(0, 5, n), offsets, [4, 4], 5)


@pytest.mark.parametrize("step", GIVEN_PARAMETERS)
def test_the_number_of_threads_changes_nothing(step, small_shards):
    layout = random_layout([3, 1, 7, 2, 2, 15, 4, 3])
    runs = [run_vertical(layout, step=step, draws=20, tune=5, seed=3, threads=t) for t in (1, 2, 5)]
    for other in runs[1:]:
        np.testing.assert_array_equal(runs[0].assignment, other.assignment)
        np.testing.assert_array_equal(runs[0].ownership, other.ownership)
        np.testing.assert_array_equal(runs[0].energy, other.energy)
    # A chain that went on from a stored state is the same chain.
    part = run_vertical(layout, step=step, draws=20, tune=5, seed=3, stop=12, threads=2)
    rest = run_vertical(layout, step=step, draws=20, tune=5, seed=9, resume=part.state)
    joined = np.concatenate([part.energy, rest.energy])
    np.testing.assert_array_equal(joined, runs[0].energy)


@pytest.mark.parametrize("sizes", [[1], [40], [1, 40, 1], [5] * 13, [2, 9] * 6])
def test_shards_are_whole_groups_and_all_of_them(sizes, monkeypatch):
    monkeypatch.setattr(module, "SHARD_ROWS", 7)
    layout = random_layout(sizes)
    shards = Shards(layout, 2)
    seen = shards.sweep(lambda arrays, _: arrays.offsets.tolist(), np.random.default_rng(1))
    assert [o for part in seen for o in part[:-1]] + [seen[-1][-1]] == layout.offsets.tolist()
    assert all(a[-1] == b[0] for a, b in itertools.pairwise(seen))
    assignment = layout.random_assignment(np.random.default_rng(2))
    np.testing.assert_array_equal(shards.counts(assignment), layout.counts(assignment))


def test_small_tables_draw_as_ever():
    """Below two shards the chain's own generator is used, so old seeds give old draws."""
    layout = random_layout([4] * 10)
    assert len(Shards(layout)) == 1
    used = np.random.default_rng(5)
    got = Shards(layout).sweep(lambda _, generator: generator, used)
    assert got == [used]


def test_fit_takes_threads(small_shards, tmp_path, monkeypatch):
    rng = np.random.default_rng(3)
    group = np.repeat(np.arange(12), 3)
    qit = pd.DataFrame({"nat": rng.choice(list("MJC"), 36), "g": group})
    ill = np.concatenate([rng.permutation(list("abcd"))[:3] for _ in range(12)])
    table = ab.ReleasedTable.vertical(
        qit, pd.DataFrame({"g": group, "ill": ill}), group="g", sensitive="ill"
    )
    settings = {"chains": 1, "tune": 5, "seed": 1, "step": "block", "progressbar": False}
    one = ab.fit(table, draws=40, threads=1, **settings)
    ab.fit(table, draws=15, threads=2, resume=tmp_path / "run", **settings)
    two = ab.fit(table, draws=40, threads=3, resume=tmp_path / "run", **settings)
    assert two.draws.equals(one.draws)
    monkeypatch.setattr("anonbayes.inference.fit.SHARD_ROWS", 2)
    assert ab.fit(table, draws=40, cores=4, **settings).draws.equals(one.draws)
    with pytest.raises(ab.AnonbayesError, match="does not apply to step='collapsed'"):
        ab.fit(table, draws=5, threads=2, **(settings | {"step": "collapsed"}))
    with pytest.raises(ab.AnonbayesError, match="threads=0"):
        ab.fit(table, draws=5, threads=0, **settings)


def test_spare_cores_go_to_the_chains_of_large_tables(monkeypatch):
    asked = []
    made = VerticalChain.__init__

    def spy(self, *args, threads=1, **kwargs):
        asked.append(threads)
        made(self, *args, threads=threads, **kwargs)

    monkeypatch.setattr(VerticalChain, "__init__", spy)
    monkeypatch.setattr("anonbayes.inference.fit.SHARD_ROWS", 4)
    group = [0, 0, 0, 0, 1, 1, 1, 1]
    table = ab.ReleasedTable.vertical(
        pd.DataFrame({"nat": list("MJCMJCMJ"), "g": group}),
        pd.DataFrame({"g": group, "ill": list("abcdabcd")}),
        group="g",
        sensitive="ill",
    )
    quiet = {"draws": 5, "tune": 0, "seed": 1, "progressbar": False, "chains": 2}
    ab.fit(table, step="block", cores=6, **quiet)
    ab.fit(table, step="collapsed", cores=6, **quiet)
    ab.fit(table, step="block", cores=1, **quiet)
    assert asked == [3, 3, 1, 1, 1, 1]
