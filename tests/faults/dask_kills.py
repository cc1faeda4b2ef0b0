"""Workers of a cluster that die at random moments of `fit` and `assess`.

    python -m tests.faults.dask_kills --kills 100 --seed 1

Every piece of work ends with the numbers of one machine or with an error of ours; anything else,
such as a `KeyError` or `CommClosedError` of Dask's, is foreign. The short form is a test in
`tests/inference/test_cluster_fit.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import multiprocessing
import os
import random
import signal
import sys
import threading
from collections import Counter
from multiprocessing import forkserver
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

import anonbayes as ab
from anonbayes import cluster
from anonbayes.cluster import Tasks
from anonbayes.errors import AnonbayesError
from anonbayes.inference import run as running

SETTINGS: dict[str, Any] = {"draws": 60, "tune": 20, "chains": 2, "seed": 1, "progressbar": False}


PRELOADED = ["distributed", "pyarrow", "anonbayes.cluster", "anonbayes.inference.fit",
             "anonbayes.inference.vertical.chain", "anonbayes.risk.assess"]  # fmt: skip


def people() -> pd.DataFrame:
    """Cleartext of ninety people in groups of three different illnesses."""
    rng = np.random.default_rng(2)
    ill = np.concatenate([rng.permutation(["flu", "hiv", "cold", "none"])[:3] for _ in range(30)])
    return pd.DataFrame(
        {"age": rng.integers(20, 26, 90), "sex": rng.choice(["f", "m"], 90)}
    ).assign(ill=ill, g=np.repeat(np.arange(30), 3))


def works() -> dict[str, Any]:
    """Pieces of work, each a function of a client, or of None for this machine."""
    clear = people()
    vertical = ab.ReleasedTable.vertical(
        clear[["age", "sex", "g"]], clear[["g", "ill"]], group="g", sensitive="ill"
    )
    crossing = clear.drop(columns="g").astype({"age": object})
    crossing["age"] = [{age, 20 + (age + 1) % 6} for age in clear["age"]]
    horizontal = ab.ReleasedTable.horizontal(crossing, "ill", domains={"age": range(20, 26)})
    post = ab.fit(horizontal, evidence="independent", **SETTINGS)

    def fit(table: ab.ReleasedTable, client: Any, **more: Any) -> np.ndarray:
        found = ab.fit(table, client=client, **SETTINGS, **more)
        return found.draws["pi_age"].to_numpy()

    return {
        "fit of groups": lambda client: fit(vertical, client, step="block"),
        "fit of cells": lambda client: fit(horizontal, client, evidence="independent"),
        "assess": lambda client: (
            post.assess(clear.drop(columns="g"), client=client).rows["p_A"].to_numpy()
        ),
    }


class Killer(threading.Thread):
    """Kills workers at random moments, until it has killed as many as it should.

    Between two kills some task ends, most often: a worker takes seconds to start, and who kills
    faster than that sees no work at all, let alone all of its moments.
    """

    def __init__(self, kills: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.workers: dict[str, Any] = {}  # of the cluster that works now
        self.wanted, self.done = kills, 0
        self.rng, self.over, self.ended = random.Random(seed), threading.Event(), threading.Event()

    def run(self) -> None:
        while self.done < self.wanted and not self.over.is_set():
            if self.rng.random() < 0.8:
                self.ended.clear()
                self.ended.wait(20)
            self.over.wait(self.rng.choice([0.0, self.rng.uniform(0, 0.1), self.rng.random()]))
            # One that is still starting takes its nanny along: Dask gives it up for good.
            pids = [worker.pid for worker in list(self.workers.values())]
            if pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.rng.choice(pids), signal.SIGKILL)
                    self.done += 1


def run(kills: int, seed: int, *, seconds: float = 1500.0) -> tuple[Counter[str], int]:
    """Work until so many workers have died; count how the pieces of work ended.

    Where Dask has given up all workers of a cluster, another cluster takes over.
    """
    import dask
    import distributed  # noqa: F401  its settings must be there before one of them is changed

    # Workers are forks of a process that has everything imported, and are there at once.
    multiprocessing.get_context("forkserver").set_forkserver_preload(PRELOADED)
    forkserver.ensure_running()
    todo = works()
    expected = {name: work(None) for name, work in todo.items()}
    counts: Counter[str] = Counter()
    killer, collect = Killer(kills, seed), Tasks.collect

    def tell(self: Tasks) -> tuple[str, Any]:
        ended = collect(self)
        killer.ended.set()
        return ended

    def outcome(name: str, client: Any) -> str:
        try:
            same = np.array_equal(todo[name](client), expected[name])
            return "result" if same else f"other numbers in {name}"
        except AnonbayesError:
            return "our error"
        except Exception as error:
            return f"foreign {type(error).__name__} in {name}: {error}"[:200]

    alarm = threading.Timer(seconds, killer.over.set)  # work that is under way may end then
    alarm.daemon = True
    with (
        dask.config.set(
            {
                "distributed.scheduler.allowed-failures": 10_000,
                "distributed.worker.multiprocessing-method": "forkserver",
            }
        ),
        mock.patch.object(running, "TASK_SECONDS", 0.02),
        mock.patch.object(cluster, "WORKER_SECONDS", 20.0),
        mock.patch.object(Tasks, "collect", tell),
    ):
        killer.start()
        alarm.start()
        names = itertools.cycle(todo)
        while killer.is_alive() and not killer.over.is_set():
            with cluster.local_client(2) as some:
                killer.workers = some.cluster.scheduler.workers
                ended = "result"
                while killer.is_alive() and (killer.workers or ended != "our error"):
                    ended = outcome(next(names), some)
                    counts[ended] += 1
        killer.over.set()
        killer.join(60)
    return counts, killer.done


def main() -> int:
    """Print what was counted; end with 1 if anything was foreign."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=25.0)
    told = parser.parse_args()
    counts, done = run(told.kills, told.seed, seconds=60 * told.minutes)
    print(f"{done} workers killed; pieces of work: {dict(counts)}")
    return bool(set(counts) - {"result", "our error"})


if __name__ == "__main__":
    sys.exit(main())
