"""Chains on a Dask cluster: the draws of one machine, whatever happens to the workers."""

import contextlib
import dataclasses
import functools
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from tables import crossing, latent, nested

import anonbayes as ab
import anonbayes.cluster
from anonbayes.cluster import Tasks, check_client, local_client, result_of, run_tasks, slots
from anonbayes.errors import ClusterError
from anonbayes.inference import run as chains_module
from anonbayes.inference import weights
from anonbayes.inference.dirichlet import resolve_prior
from anonbayes.inference.horizontal.cell_engine import HorizontalEngine
from anonbayes.inference.vertical import crossfit, left_out
from anonbayes.inference.vertical.group_layout import VerticalLayout
from tests.faults import dask_kills

QUIET = {"progressbar": False, "seed": 4}


def vertical(groups=30, size=3):
    rng = np.random.default_rng(3)
    group = np.repeat(np.arange(groups), size)
    qit = pd.DataFrame({"nat": rng.choice(list("MJC"), len(group)), "g": group})
    ill = np.concatenate([rng.permutation(["a", "b", "c", "d"])[:size] for _ in range(groups)])
    st = pd.DataFrame({"g": group, "ill": ill})
    return ab.ReleasedTable.vertical(qit, st, group="g", sensitive="ill")


def assert_same(one, two):
    assert one.draws.equals(two.draws)
    assert ab.compat.groups(one.idata)["sample_stats"].equals(
        ab.compat.groups(two.idata)["sample_stats"]
    )
    if one.table.scheme == "vertical":
        for a, b in zip(one.ownership, two.ownership, strict=True):
            np.testing.assert_array_equal(a.toarray(), b.toarray())


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (nested, {"draws": 40}),
        (crossing, {"draws": 40, "tune": 15, "thin": 3, "keep_cleartext": [0, 2]}),
        (latent, {"draws": 40, "tune": 15}),
        (vertical, {"draws": 60, "tune": 15, "step": "collapsed", "keep_cleartext": True}),
        (vertical, {"draws": 60, "tune": 15, "step": "block", "thin": 2}),
        (vertical, {"draws": 30, "tune": 40, "step": "tempered", "temperatures": 3}),
    ],
)
def test_the_draws_are_those_of_one_machine(client, make, settings):
    """More chains than workers, chunks that grow, state that travels after each of them."""
    table = make()
    here = ab.fit(table, chains=3, **settings, **QUIET)
    there = ab.fit(table, chains=3, client=client, **settings, **QUIET)
    assert_same(there, here)


def test_cores_limit_the_chains_that_are_under_way(client, monkeypatch):
    most, submit = [], Tasks.submit

    def count(self, *args):
        submit(self, *args)
        most.append(len(self))

    monkeypatch.setattr(Tasks, "submit", count)
    settings = {"chains": 3, "draws": 30, "tune": 5, **QUIET}
    limited = ab.fit(crossing(), client=client, cores=1, **settings)
    assert set(most) == {1}
    assert_same(limited, ab.fit(crossing(), **settings))


def test_large_states_travel_without_a_warning(client):
    """Dask speaks up beyond ten megabytes."""
    shared = np.zeros(2_000_000)
    results = run_tasks(client, shared, shape_of, {"a": 1, "b": 2}, label="large")
    assert results == {"a": (2_000_000,), "b": (2_000_000,)}


def shape_of(shared, data):
    return shared.shape


def test_runs_go_on_where_they_stopped(client, tmp_path):
    """Begun here, continued there, ended here: one chain."""
    settings = {"chains": 2, "tune": 10, "step": "block", **QUIET}
    whole = ab.fit(vertical(), draws=90, **settings)
    run = tmp_path / "run"
    ab.fit(vertical(), draws=20, resume=run, **settings)
    ab.fit(vertical(), draws=55, resume=run, client=client, **settings)
    assert_same(ab.fit(vertical(), draws=90, resume=run, **settings), whole)
    again = ab.fit(vertical(), draws=90, resume=run, client=client, **settings)
    assert_same(again, whole)


class Plain:
    """An engine in Python. If doomed, the first process that makes a fourth sweep dies of it."""

    n_generators = 1
    grows = ("seen",)

    def __init__(self, folder=None):
        self.doom = folder and Path(folder, "died")

    def start(self, generators):
        return {"level": np.zeros(1), "seen": np.zeros(0)}

    def advance(self, state, n, *, tuning):
        out = np.empty(n)
        for i in range(n):
            if self.doom and len(state.live["seen"]) == 3:
                with contextlib.suppress(FileExistsError):
                    self.doom.touch(exist_ok=False)
                    os.kill(os.getpid(), signal.SIGKILL)
            state.live["level"] += state.generators[0].normal()
            state.live["seen"] = np.append(state.live["seen"], state.live["level"])
            out[i] = state.live["level"][0]
        return {"level": out}, {"energy": out}

    def pack(self, live):
        return live

    def unpack(self, arrays, generators):
        return arrays

    def averages(self, live):
        return {"seen": live["seen"]}


def run_plain(engine, client=None, draws=12, chains=2, **kwargs):
    return chains_module.run_chains(
        engine, draws=draws, tune=2, thin=1, seeds=np.random.SeedSequence(8).spawn(chains),
        cores=None, progressbar=False, label="plain", client=client, **kwargs,
    )  # fmt: skip


def assert_same_plain(found, expected):
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_array_equal(
            np.concatenate([d["level"] for d in one.draws]),
            np.concatenate([d["level"] for d in two.draws]),
        )
        np.testing.assert_array_equal(one.averages["seen"], two.averages["seen"])


@pytest.mark.skipif(os.name == "nt", reason="permissions")
def test_what_workers_put_aside_is_private():
    with local_client(1) as client:
        (place,) = client.run(lambda dask_worker: dask_worker.local_directory).values()
        own = next(p for p in Path(place).parents if p.name.startswith("anonbayes-"))
        assert own.stat().st_mode & 0o777 == 0o700
    assert not own.exists()


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_a_worker_killed_in_the_middle_of_a_fit_changes_no_draw(monkeypatch):
    """More chains than workers, and a ladder of temperatures that tunes itself on the way."""
    table, settings = (
        vertical(),
        {"chains": 3, "draws": 80, "tune": 40, "step": "tempered", **QUIET},
    )
    here = ab.fit(table, **settings)
    monkeypatch.setattr(chains_module, "TASK_SECONDS", 0.02)
    told, add = [], chains_module.SweepMeter.add
    with local_client(2) as fragile:
        workers = list(fragile.run(os.getpid).values())

        def kill_one(self, sweeps):
            add(self, sweeps)
            told.append(sweeps)
            if len(told) == 8:
                os.kill(workers[0], signal.SIGKILL)

        monkeypatch.setattr(chains_module.SweepMeter, "add", kill_one)
        there = ab.fit(table, client=fragile, **settings)
        assert_cross_fitted_alike(fragile, monkeypatch, kill=True)
    assert len(told) > 12 and sum(told) == 3 * 120
    assert_same(there, here)


def assert_cross_fitted_alike(client, monkeypatch, kill=False):
    """Groups on workers, three stretches of them, one group too large for the recursion."""
    rng = np.random.default_rng(6)
    offsets = np.array([0, *range(15, 316, 3)])
    layout = VerticalLayout(rng.integers(0, 3, (315, 1)), rng.integers(0, 4, 315), offsets, [3], 4)
    monkeypatch.setattr("anonbayes.inference.vertical.group_layout.SHARD_ROWS", 100)
    monkeypatch.setattr(crossfit, "TURNS", 2)
    rounds, make = [], left_out.Workers._round

    def spy(self, *args):
        rounds.append(self)
        if kill and len(rounds) == 12:
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
        return make(self, *args)

    monkeypatch.setattr(left_out.Workers, "_round", spy)
    here = crossfit.cross_fit(layout, folds=2, rounds=2)
    assert not rounds
    there = crossfit.cross_fit(layout, folds=2, rounds=2, client=client)
    assert len(rounds) > 20 and len(rounds[0].held) == 3
    for field in dataclasses.fields(here):
        np.testing.assert_array_equal(getattr(here, field.name), getattr(there, field.name))
    # Scores went out, sums came back, and twice something of each group: scores and owners.
    sums = 8 * 2 * layout.n_cells
    assert rounds[0].sent == sums * len(rounds)  # the only attribute is all there is
    once = 8 * (2 * layout.n_groups + layout.n_links)
    assert rounds[0].received <= 3 * (sums + 8) * len(rounds) + once


def test_cross_fitting_on_workers_gives_the_numbers_of_one_machine(client, monkeypatch):
    assert_cross_fitted_alike(client, monkeypatch)
    table = vertical(40)
    quick = functools.partial(crossfit.cross_fit, folds=2, rounds=1)
    monkeypatch.setattr(weights, "cross_fit", quick)
    there = ab.fit(table, evidence="weighted", draws=5, client=client, **QUIET)
    here = ab.fit(table, evidence="weighted", draws=5, **QUIET)
    assert there.draws.equals(here.draws) and there.scores.equals(here.scores)


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_workers_killed_at_random_moments():
    """In `fit` and `assess`: the numbers are the same, and no error of Dask's shows."""
    counts, killed = dask_kills.run(4, 1)
    assert killed == 4 and set(counts) == {"result"}


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_the_only_worker_may_die(tmp_path):
    """Even the engine dies with it; it is part of the graph, so Dask makes it again."""
    expected, _ = run_plain(Plain())
    with local_client(1) as fragile:
        found, interrupted = run_plain(Plain(tmp_path), fragile)
    assert (tmp_path / "died").exists()
    assert not interrupted
    assert_same_plain(found, expected)


def test_progress_is_told_of_every_chunk(client, tmp_path, monkeypatch):
    told = []
    monkeypatch.setattr(chains_module.SweepMeter, "add", lambda self, sweeps: told.append(sweeps))
    run_plain(Plain(), client, draws=30)
    assert sum(told) == 2 * 32
    assert len(told) > 6  # 1, 1 (end of tuning), 2, 4, 8, 16 of two chains


def test_the_bar_moves(client):
    """The bar of a run on a cluster reaches its end."""
    seen = []
    update = chains_module.Progress.update

    def spy(self, task, **kwargs):
        update(self, task, **kwargs)
        seen.append(self.tasks[0].completed)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chains_module.Progress, "update", spy)
        ab.fit(crossing(), draws=20, tune=10, chains=2, seed=1, client=client)
    assert seen == sorted(seen) and seen[-1] == 60 and len(set(seen)) > 3


def test_keys_tell_what_runs(client):
    from distributed.utils import key_split

    with Tasks(client, [1], label="fit gibbs (block)") as tasks:
        tasks.submit("chain0 from sweep0", sum, 1)
        (key,) = tasks._names
    assert key.startswith("fit-gibbs-(block)-chain0-from-sweep0")
    assert key_split(key).startswith("fit-gibbs")


class Broken(Plain):
    """Fails after some sweeps."""

    def __init__(self, error):
        self.error = error

    def advance(self, state, n, *, tuning):
        raise self.error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ab.errors.ModelError("beta['nat'] is off"), r"^beta\['nat'\] is off$"),
        (ZeroDivisionError("by nought"), "chain0.*ZeroDivisionError: by nought"),
    ],
)
def test_errors_of_workers_are_readable(client, error, message):
    with pytest.raises(ab.AnonbayesError, match=message):
        run_plain(Broken(error), client, chains=1)


def die(shared, data):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_a_task_that_kills_every_worker_is_named():
    import dask

    with dask.config.set({"distributed.scheduler.allowed-failures": 0}), local_client(1) as fragile:
        with pytest.raises(ClusterError, match=r"deadly, one: the workers.*died"):
            run_tasks(fragile, None, die, {"one": 1}, label="deadly")
    with pytest.raises(ClusterError, match="not connected"):
        ab.fit(nested(), client=fragile)


def test_a_cluster_without_workers_is_named(monkeypatch):
    from distributed import Client, LocalCluster

    monkeypatch.setattr(anonbayes.cluster, "WORKER_SECONDS", 0.1)
    with (
        LocalCluster(n_workers=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as nobody,
        Client(nobody, set_as_default=False) as client,
        pytest.raises(ClusterError, match="the cluster has no workers"),
    ):
        ab.fit(nested(), client=client, draws=5, **QUIET)


class Lost:
    """A result whose worker dies each time it is fetched."""

    def __init__(self, error, times, status="finished"):
        self.error, self.left, self.status = error, times, status

    client = None

    def result(self):
        if not self.left:
            return 7
        self.left -= 1
        raise self.error


class Gone:
    """A result, and the client of a cluster that stays without workers: nobody makes it again."""

    status = "pending"

    def __init__(self):
        self.client, self.never = self, threading.Event()

    def result(self):
        self.never.wait()

    def wait_for_workers(self, n_workers, timeout):
        raise TimeoutError


def test_a_lost_result_that_nobody_can_make_again_is_not_waited_for(monkeypatch):
    """Its only worker died with it, and Dask gave up starting others: `kill` at a bad moment."""
    monkeypatch.setattr(anonbayes.cluster, "LOOK_SECONDS", 0.01)
    gone = Gone()
    with pytest.raises(ClusterError, match="fit, chain0: the cluster has no workers"):
        result_of(gone, "fit, chain0")
    gone.never.set()


@pytest.mark.parametrize("error", [KeyError("fit-chain0"), OSError("in <TCP>: Stream is closed")])
def test_results_lost_on_the_way_are_fetched_again(error, monkeypatch):
    """Dask's own errors for a worker that dies while it sends what it computed."""
    monkeypatch.setattr(anonbayes.cluster.time, "sleep", lambda _: None)
    assert result_of(Lost(error, 3), "fit, chain0") == 7
    with pytest.raises(ClusterError, match=r"fit, chain0: the result was lost.*resume="):
        result_of(Lost(error, 10**6), "fit, chain0")
    with pytest.raises(ClusterError, match="a worker failed with"):
        result_of(Lost(error, 1, status="error"), "fit, chain0")


def test_bad_clients_are_refused_before_anything_runs(client):
    with pytest.raises(ClusterError, match="got str"):
        ab.fit(nested(), client="tcp://127.0.0.1:8786")
    with pytest.raises(ab.AnonbayesError, match="client= are not available"):
        ab.fit(nested(), client=client, method="nuts")
    with pytest.raises(ClusterError, match="workers=0"), local_client(0):
        pass
    assert slots(client) == 2
    check_client(client)


SCRIPT = """
    import signal
    import sys
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in background jobs
    sys.path[:0] = {path!r}
    import anonbayes as ab
    from anonbayes.cluster import local_client
    from anonbayes.inference import run
    from tables import crossing
    run.SAVE_SECONDS = 0.01
    if __name__ == "__main__":
        with local_client(1) as client:
            print("ready", flush=True)
            post = ab.fit(crossing(), draws=100_000_000, tune=50, chains=2, seed=8, client=client,
                          resume={run!r}, progressbar=False)
            again = ab.fit(crossing(), draws=7, tune=5, chains=2, client=client, progressbar=False)
            print(post.n_draws, post.idata.attrs["interrupted"], again.n_draws, flush=True)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals")
def test_ctrl_c_keeps_the_finished_draws(tmp_path):
    """A terminal sends it to the workers as well; they stay."""
    here = Path(__file__).parent
    file = tmp_path / "script.py"
    file.write_text(
        textwrap.dedent(SCRIPT).format(
            path=[str(here), str(here.parents[1])], run=str(tmp_path / "run")
        )
    )
    with subprocess.Popen(
        [sys.executable, file], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        try:
            assert process.stdout.readline() == "ready\n"
            deadline = time.monotonic() + 120
            while len(list((tmp_path / "run").glob("chain-*/part-00000.npz"))) < 2:
                assert time.monotonic() < deadline and process.poll() is None
                time.sleep(0.1)
            os.killpg(process.pid, signal.SIGINT)
            out, _ = process.communicate(timeout=120)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    n_draws, interrupted, again = out.split()
    assert int(n_draws) > 0 and interrupted == "1" and again == "7"


def test_the_state_that_travels_is_not_changed():
    """A task may run twice on the same data, also where nothing is copied on the way."""
    engine = HorizontalEngine(crossing(), resolve_prior(crossing()))
    length = chains_module.Length(20, 5, 1)
    seed = np.random.SeedSequence(3)
    first = chains_module.run_chunk(engine, None, seed, 5, length)
    again = chains_module.run_chunk(engine, None, seed, 5, length)
    one = chains_module.run_chunk(engine, first.packed, seed, 7, length)
    two = chains_module.run_chunk(engine, again.packed, seed, 7, length)
    three = chains_module.run_chunk(engine, first.packed, seed, 7, length)
    for other in (two, three):
        np.testing.assert_array_equal(one.new.draws[0]["pi_nat"], other.new.draws[0]["pi_nat"])
