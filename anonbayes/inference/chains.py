"""Running chains: side by side, in chunks, with progress, interruption and checkpoints.

An `Engine` knows how to start and advance one chain; this module knows nothing else about it. The
kernels release the interpreter's lock, so threads use all cores without copying the table;
processes are there for engines that spend their time in Python, and a Dask cluster (see
`cluster_chains`) for more machines than one. A chain's draws depend on its own generators only:
neither who runs it nor where the chunks end changes them, and a resumed chain goes on as if it had
never stopped.
"""

from __future__ import annotations

import contextlib
import copy
import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from multiprocessing.managers import SyncManager
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from anonbayes.inference.checkpoint import RunStore

__all__ = ["ChainState", "Engine", "Recorded", "run_chains"]

Draws = dict[str, npt.NDArray[Any]]
CHUNK_SECONDS = 0.3
SAVE_SECONDS = 5.0


@dataclass
class ChainState:
    """All that a chain needs to go on.

    Parameters
    ----------
    live : object
        The engine's own state.
    generators : list of numpy.random.Generator
        Sources of randomness, owned by the chain.
    done : int
        Sweeps made so far, tuning included.
    """

    live: Any
    generators: list[np.random.Generator]
    done: int = 0


class Engine(Protocol):
    """A sampler that can be advanced by any number of sweeps."""

    n_generators: int
    """How many independent generators a chain needs."""

    grows: tuple[str, ...]
    """Packed arrays that only get longer: sweeps read nothing of them, and append to them."""

    def start(self, generators: list[np.random.Generator]) -> Any:
        """Return a dispersed starting state."""
        ...

    def advance(self, state: ChainState, n: int, *, tuning: bool) -> tuple[Draws, Draws]:
        """Make n sweeps; return draws and statistics, each with n as its first axis."""
        ...

    def pack(self, live: Any) -> Draws:
        """Return the state as named arrays."""
        ...

    def unpack(self, arrays: Draws, generators: list[np.random.Generator]) -> Any:
        """Return the state that `pack` stored."""
        ...

    def averages(self, live: Any) -> Draws:
        """Return what the chain averaged along the way, beside its draws."""
        ...


@dataclass
class Recorded:
    """Draws and statistics of one chain, in pieces.

    Parameters
    ----------
    draws, stats : list of dict
        One dictionary per piece.
    averages : dict
        What the engine averaged along the chain.
    """

    draws: list[Draws] = field(default_factory=list)
    stats: list[Draws] = field(default_factory=list)
    averages: Draws = field(default_factory=dict)

    def add(self, draws: Draws, stats: Draws) -> None:
        """Append a piece."""
        self.draws.append(draws)
        self.stats.append(stats)

    @property
    def n(self) -> int:
        """Number of recorded draws."""
        return sum(len(next(iter(d.values()))) for d in self.draws)


def run_chains(
    engine: Engine,
    *,
    draws: int,
    tune: int,
    thin: int,
    seeds: Sequence[np.random.SeedSequence],
    cores: int | None,
    progressbar: bool,
    label: str,
    store: RunStore | None = None,
    parallel: str = "threads",
    client: Any = None,
) -> tuple[list[Recorded], bool]:
    """Run all chains until each has its draws, or until interrupted.

    Parameters
    ----------
    engine : Engine
        The sampler.
    draws, tune, thin : int
        Recorded draws per chain, sweeps before them, and sweeps per recorded draw.
    seeds : sequence of SeedSequence
        One per chain.
    cores : int, optional
        Chains that run at the same time; by default as many as there are cores.
    progressbar : bool
        Whether to show one.
    label : str
        What the progress bar calls the work.
    store : RunStore, optional
        Where to keep finished draws on disk and to continue from.
    parallel : {"threads", "processes"}
        What runs the chains.
    client : distributed.Client, optional
        Runs them on a Dask cluster instead.

    Returns
    -------
    list of Recorded, bool
        The chains, and whether they were interrupted (Ctrl-C).
    """
    length = Length(draws, tune, thin)
    with SweepMeter(label, length.sweeps * len(seeds), show=progressbar) as meter:
        if client is not None:
            from anonbayes.inference.cluster_chains import run_on_cluster

            return run_on_cluster(
                engine, client, length, seeds, most=cores, label=label, store=store, meter=meter
            )
        workers = min(len(seeds), cores or os.cpu_count() or 1)
        with _workers(parallel, workers) as (pool, stop, made):
            futures: list[Future[Recorded]] = [
                pool.submit(_run_chain, engine, c, seed, length, store, stop, made)
                for c, seed in enumerate(seeds)
            ]
            interrupted = _follow(futures, stop, made, meter)
    return [f.result() for f in futures], interrupted


@dataclass(frozen=True)
class Length:
    """How long a chain is.

    Parameters
    ----------
    draws, tune, thin : int
        Recorded draws, sweeps before them, sweeps per recorded draw.
    """

    draws: int
    tune: int
    thin: int

    @property
    def sweeps(self) -> int:
        """Sweeps from beginning to end."""
        return self.tune + self.draws * self.thin


class SweepMeter:
    """Progress bar of a run: sweeps made by all chains, and their speed.

    Parameters
    ----------
    label : str
        What the bar calls the work.
    total : int
        Sweeps of all chains.
    show : bool
        Whether there is a bar at all.
    """

    def __init__(self, label: str, total: int, *, show: bool) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
        )
        self._bar = Progress(*columns, disable=not show, transient=True)
        self._task = self._bar.add_task(label, total=total, speed="")
        self._begin, self.sweeps = time.monotonic(), 0

    def add(self, sweeps: int) -> None:
        """Count sweeps that some chain has made."""
        self.sweeps += sweeps
        speed = self.sweeps / max(time.monotonic() - self._begin, 1e-9)
        self._bar.update(self._task, advance=sweeps, speed=f"{speed:,.0f} sweeps/s")

    def __enter__(self) -> SweepMeter:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


@contextlib.contextmanager
def _workers(parallel: str, n: int) -> Iterator[tuple[Executor, Any, Any]]:
    """Threads or processes, an event that stops them, and a queue of the sweeps they made."""
    if parallel == "threads":
        with ThreadPoolExecutor(n) as pool, _stopping(threading.Event()) as stop:
            yield pool, stop, queue.SimpleQueue()
        return
    context = multiprocessing.get_context("spawn")
    manager = SyncManager(ctx=context)
    manager.start(_follow_parent)
    with (
        manager,
        ProcessPoolExecutor(n, mp_context=context, initializer=_follow_parent) as processes,
        _stopping(manager.Event()) as stop,
    ):
        yield processes, stop, manager.Queue()


@contextlib.contextmanager
def _stopping(event: Any) -> Iterator[Any]:
    """Set the event when something goes wrong, or a signal asks the process to end."""
    try:
        yield event
    except BaseException:
        event.set()
        raise


def _follow_parent() -> None:
    """Leave Ctrl-C to the parent, which asks the chains to stop; end at once if it was killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_after, args=(parent,), daemon=True).start()


def _end_after(parent: Any) -> None:
    parent.join()
    os._exit(1)  # who continues the run must find nobody writing to it


def _follow(futures: list[Future[Recorded]], stop: Any, made: Any, meter: SweepMeter) -> bool:
    """Show progress until all chains end; on Ctrl-C or an error let them finish their chunk."""
    interrupted = False
    pending = set(futures)
    while pending:
        try:
            finished, pending = wait(pending, timeout=0.2)
            if any(f.exception() is not None for f in finished):
                stop.set()
            new = 0
            with contextlib.suppress(queue.Empty):
                while True:
                    new += made.get_nowait()
            meter.add(new)
        except KeyboardInterrupt:
            interrupted = True
            stop.set()
    return interrupted


def _run_chain(
    engine: Engine,
    chain: int,
    seed: np.random.SeedSequence,
    length: Length,
    store: RunStore | None,
    stop: Any,
    made: Any,
) -> Recorded:
    recorded = Recorded()
    saved = None if store is None else store.load_chain(chain, recorded)
    state = start_chain(engine, seed) if saved is None else unpack_chain(engine, saved)
    made.put(state.done)
    unsaved, saved_at, chunk = Recorded(), time.monotonic(), 1
    while state.done < length.sweeps and not stop.is_set():
        begin = time.monotonic()
        n = advance_chain(engine, state, chunk, length, into=(recorded, unsaved))
        made.put(n)
        now = time.monotonic()
        chunk = max(1, min(2 * chunk, int(n * CHUNK_SECONDS / max(now - begin, 1e-6))))
        if store is not None and now - saved_at > SAVE_SECONDS:
            store.save_chain(chain, pack_chain(engine, state), unsaved)
            unsaved, saved_at = Recorded(), time.monotonic()
    if store is not None:
        store.save_chain(chain, pack_chain(engine, state), unsaved)
    recorded.averages = engine.averages(state.live)
    return recorded


def start_chain(engine: Engine, seed: np.random.SeedSequence) -> ChainState:
    """Start a chain; the same seed gives the same chain however often it is started."""
    fresh = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key)  # none spawned yet
    generators = [np.random.default_rng(s) for s in fresh.spawn(engine.n_generators)]
    return ChainState(engine.start(generators), generators)


def pack_chain(engine: Engine, state: ChainState) -> ChainState:
    """Return the state with named arrays in the place of the engine's own objects."""
    return ChainState(engine.pack(state.live), state.generators, state.done)


def unpack_chain(engine: Engine, packed: ChainState) -> ChainState:
    """Return a state that can be advanced; `packed` stays as it is."""
    generators = copy.deepcopy(packed.generators)
    arrays = {k: np.array(v) for k, v in packed.live.items()}
    return ChainState(engine.unpack(arrays, generators), generators, packed.done)


def advance_chain(
    engine: Engine, state: ChainState, most: int, length: Length, *, into: Sequence[Recorded]
) -> int:
    """Make up to `most` sweeps, not beyond the tuning or the end; return how many were made."""
    tuning = state.done < length.tune
    n = min(most, (length.tune if tuning else length.sweeps) - state.done)
    first = (length.tune - state.done) % length.thin
    new, stats = engine.advance(state, n, tuning=tuning)
    state.done += n
    if not tuning and first < n:
        piece = {k: v[first :: length.thin] for k, v in new.items()}
        extra = {k: v[first :: length.thin] for k, v in stats.items()}
        for recorded in into:
            recorded.add(piece, extra)
    return n


def join(pieces: Sequence[Mapping[str, npt.NDArray[Any]]], length: int) -> Draws:
    """Concatenate the pieces of a chain along the draws and cut them to a length."""
    if not pieces:
        return {}
    return {k: np.concatenate([p[k] for p in pieces])[:length] for k in pieces[0]}
