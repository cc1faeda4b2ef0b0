"""Vertical tables of many rows: one thread, several threads, or one Dask task per shard and sweep.

What a sweep costs per row decides where each of these pays. A sweep given the parameters needs the
parameters at its beginning and yields counts at its end, both of the size of the parameters; so a
cluster can share out the groups, with one reduction of counts per sweep. Here this is done with two
workers that hold their groups, and measured against threads that share the memory of one machine.
"""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from anonbayes.cluster import local_client
from anonbayes.inference.dirichlet import draw_log_simplexes, simplex_bounds
from anonbayes.inference.vertical.block import lattice
from anonbayes.inference.vertical.chain import VerticalChain
from anonbayes.inference.vertical.group_layout import Arrays, Shards, VerticalLayout
from anonbayes.inference.vertical.parts import fit_parts
from anonbayes.inference.vertical.sweeps import (
    block_sweep,
    collapsed_sweep,
    powers,
    swap_sweep,
)
from benchmarks.speed import resident

ATTRIBUTES, CATEGORIES, SECRETS, GROUP = 6, 12, 15, 4
CORES, MACHINES = 16, 8


def made_up(rows: int, seed: int = 0) -> VerticalLayout:
    """Make an Anatomy table with l = 4: six attributes, fifteen sensitive values."""
    rng = np.random.default_rng(seed)
    groups = rows // GROUP
    return VerticalLayout(
        items=rng.integers(0, CATEGORIES, (groups * GROUP, ATTRIBUTES)),
        secrets=np.argsort(rng.random((groups, SECRETS)), axis=1)[:, :GROUP].ravel(),
        offsets=np.arange(0, groups * GROUP + 1, GROUP),
        sizes=np.full(ATTRIBUTES, CATEGORIES),
        n_secrets=SECRETS,
    )


@dataclass
class Sweep:
    """Seconds of a sweep: on the clock, of all processors, of the busiest thread."""

    clock: float
    used: float
    busiest: float


def timed(work: Callable[[Callable[[float], None]], object], times: int) -> Sweep:
    """Best of some sweeps; `work` reports the processor time of each piece of its work.

    A machine that does other things too stretches the clock, but hardly the processor time. With
    free cores a sweep takes what its busiest thread takes.
    """
    clock, used, busiest = [], [], []
    for _ in range(times + 1):
        threads: Counter[int] = Counter()
        c = time.perf_counter()
        work(lambda seconds, of=threads: of.update({threading.get_ident(): seconds}))
        clock.append(time.perf_counter() - c)
        used.append(sum(threads.values()))
        busiest.append(max(threads.values()))
    return Sweep(min(clock[1:]), min(used[1:]), min(busiest[1:]))


def one_machine(rows: int, times: int) -> float:
    """Print the time of sweeps on one machine; return processor seconds of a block sweep."""
    layout, rng = made_up(rows), np.random.default_rng(1)
    assignment, owner = layout.random_assignment(rng), np.zeros(layout.n_links)
    beta, counts = np.ones(layout.n_cells), layout.counts(assignment)
    tables, steps = powers(layout, beta), lattice(12)
    log_pi = np.empty(layout.n_cells)
    draw_log_simplexes(beta + counts, simplex_bounds(layout), log_pi, rng)
    value = np.exp(log_pi)

    def collapsed(arrays: Arrays, generator: np.random.Generator) -> object:
        return collapsed_sweep(arrays, steps, tables, counts, assignment, 12, 6, owner, generator)

    def block(arrays: Arrays, generator: np.random.Generator) -> object:
        return block_sweep(arrays, steps, value, assignment, 12, 6, True, owner, generator)

    def swap(arrays: Arrays, generator: np.random.Generator) -> object:
        return swap_sweep(arrays, log_pi, assignment, 0.5, generator)

    print(
        f"\n{rows:,} rows; {'clock':>19} {'processor':>11} {'busiest thread':>16} "
        f"{'ns per row':>12} {'speed-up':>9}"
    )
    first: dict[str, Sweep] = {}
    for kernel, threads in (
        (collapsed, 1), (block, 1), (block, 2), (block, 4), (swap, 1), (swap, 2),
    ):  # fmt: skip
        shards = Shards(layout, threads)

        def work(report: Callable[[float], None], kernel=kernel, shards=shards) -> None:
            def measured(arrays: Arrays, generator: np.random.Generator) -> None:
                begin = time.thread_time()
                kernel(arrays, generator)
                report(time.thread_time() - begin)

            if kernel is collapsed:  # every group depends on all others
                measured(layout.arrays, rng)
            else:
                shards.sweep(measured, rng)

        name = kernel.__name__
        found = timed(work, times)
        first.setdefault(name, found)
        print(
            f"  {name + ',':10} {threads} thread{'s' if threads > 1 else ' '} "
            f"{1e3 * found.clock:10.2f} ms {1e3 * found.used:8.2f} ms "
            f"{1e3 * found.busiest:13.2f} ms {1e9 * found.used / rows:12.0f} "
            f"{first[name].busiest / found.busiest:8.2f}x"
        )
    return first["block"].used


# -- the same with one task per shard and sweep ---------------------------------------------------

_held: dict[str, VerticalChain] = {}


def hold(name: str, rows: int, seed: int) -> int:
    """Keep a part of the table on a worker."""
    _held[name] = VerticalChain(made_up(rows, seed), step="block", rng=np.random.default_rng(seed))
    return os.getpid()


def sweep_held(name: str, log_pi: np.ndarray) -> tuple[np.ndarray, float]:
    """Move the part once given the parameters; return its counts and the seconds it took."""
    chain = _held[name]
    begin = time.perf_counter()
    chain.log_pi = log_pi.copy()
    chain.sweep(keep_owner=True)
    return chain.counts, time.perf_counter() - begin


def one_task_per_shard(client, rows: int, sweeps: int) -> float:
    """Print the time of sweeps whose groups lie on two workers; return the seconds they add."""
    workers = list(client.scheduler_info()["workers"])
    names = [f"{rows}-{i}" for i in range(len(workers))]
    for i, (name, worker) in enumerate(zip(names, workers, strict=True)):
        client.submit(hold, name, rows // len(workers), i, workers=[worker], pure=False).result()
    layout, rng = made_up(GROUP), np.random.default_rng(1)
    bounds, log_pi = simplex_bounds(layout), np.empty(layout.n_cells)
    counts = np.zeros(layout.n_cells)
    clock, added = [], []
    for _ in range(sweeps):
        begin = time.perf_counter()
        draw_log_simplexes(1.0 + counts, bounds, log_pi, rng)
        futures = [
            client.submit(sweep_held, name, log_pi, workers=[worker], pure=False)
            for name, worker in zip(names, workers, strict=True)
        ]
        found = client.gather(futures)
        counts = np.sum([c for c, _ in found], axis=0, dtype=float)
        clock.append(time.perf_counter() - begin)
        added.append(clock[-1] - max(seconds for _, seconds in found))
    print(
        f"  {rows:>9,} rows: {1e3 * min(clock):8.2f} ms per sweep (median "
        f"{1e3 * np.median(clock):.2f}); besides sampling {1e3 * min(added):.2f} ms (median "
        f"{1e3 * np.median(added):.2f}), {8 * len(log_pi):,} bytes each way"
    )
    return float(min(added))


def arithmetic(per_row: float, added: float) -> None:
    """Print what a sweep takes by the two figures measured above."""
    print(
        f"\nSeconds per sweep at {1e9 * per_row:.0f} ns per row and core, {1e3 * added:.1f} ms per "
        f"task round; {MACHINES} machines of {CORES} cores"
    )
    print(f"  {'rows':>13} {'1 core':>9} {CORES:>3} threads {'cluster':>9} {'cluster gains':>14}")
    for power in range(5, 10):
        work = 10**power * per_row
        threads, cluster = work / CORES, work / (CORES * MACHINES) + added
        print(
            f"  {10**power:>13,} {work:9.3f} {threads:11.4f} {cluster:9.4f} "
            f"{threads / cluster:13.1f}x"
        )
    equal = added / (per_row / CORES * (1 - 1 / MACHINES))
    print(f"  A cluster is as fast as one of its machines at {equal:,.0f} rows.")


def in_parts(client, rows: int, parts: int = 4, folds: int = 5) -> None:
    """Print what travels, and what the client takes, where workers read an Anatomy in parts."""
    with tempfile.TemporaryDirectory() as folder:
        paths = []
        for i in range(parts):
            layout = made_up(rows // parts, i)
            names = [f"a{a}" for a in range(ATTRIBUTES)]
            items = pd.DataFrame(layout.items.astype(int), columns=names)
            pair = Path(folder, f"items{i}.parquet"), Path(folder, f"secrets{i}.parquet")
            items.assign(g=layout.groups).to_parquet(pair[0])
            pd.DataFrame({"g": layout.groups, "secret": layout.secrets}).to_parquet(pair[1])
            items.assign(secret=layout.secrets).to_parquet(Path(folder, f"people{i}.parquet"))
            paths.append(pair)
        del items, layout
        Path("/proc/self/clear_refs").write_text("5")  # forget the largest size so far
        base, cpu = resident("VmRSS"), time.process_time()
        found = fit_parts(paths, sensitive="secret", group="g", client=client, folds=folds)
        fitted, largest = time.process_time(), resident("VmHWM")
        risk = found.assess(Path(folder, "people*.parquet"), client=client)
        assessed, last = time.process_time() - fitted, resident("VmHWM")
    cells = ATTRIBUTES * CATEGORIES * SECRETS
    print(
        f"  {found.n_rows:>9,} rows in {parts} parts, {folds} folds, {cells:,} cells: "
        f"{found.rounds} rounds, out {found.sent / found.rounds:,.0f} and back "
        f"{found.received / found.rounds:,.0f} bytes per round; the client took "
        f"{fitted - cpu:.1f} CPU s and {largest - base:.0f} MB; to assess {risk.records:,} "
        f"records in {risk.buckets} bucket(s) {assessed:.1f} CPU s and {last - largest:.0f} MB more"
    )


def main(*, short: bool = False) -> None:
    sizes = (10_000, 200_000) if short else (10_000, 100_000, 1_000_000, 10_000_000)
    used = 0.0
    for rows in sizes:
        used = one_machine(rows, 3 if short or rows > 10**6 else 10) / rows
    print("\nGroups on two Dask workers, one task per worker and sweep")
    with local_client(2) as client:
        added = [
            one_task_per_shard(client, rows, 10 if short else 40)
            for rows in (sizes[:1] if short else sizes[:3])
        ]
        if not short:  # hundreds of rounds
            print("\nWeighted evidence of an Anatomy that two workers read in parts")
            for rows in (8_000, 40_000):
                in_parts(client, rows)
    arithmetic(used, min(added))
