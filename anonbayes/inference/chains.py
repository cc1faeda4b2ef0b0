"""Running chains: side by side, in chunks, with progress, interruption and checkpoints.

An `Engine` knows how to start and advance one chain; this module knows nothing else about it. The
kernels release the interpreter's lock, so threads use all cores without copying the table;
processes are there for engines that spend their time in Python. A chain's draws depend on its own
generators only: neither who runs it nor where the chunks end changes them, and a resumed chain goes
on as if it had never stopped.
"""

from __future__ import annotations

import contextlib
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

    Returns
    -------
    list of Recorded, bool
        The chains, and whether they were interrupted (Ctrl-C).
    """
    workers = min(len(seeds), cores or os.cpu_count() or 1)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
    )
    with (
        Progress(*columns, disable=not progressbar, transient=True) as progress,
        _workers(parallel, workers) as (pool, stop, made),
    ):
        total = (tune + draws * thin) * len(seeds)
        task = progress.add_task(label, total=total, speed="")
        futures: list[Future[Recorded]] = [
            pool.submit(_run_chain, engine, c, seed, draws, tune, thin, store, stop, made)
            for c, seed in enumerate(seeds)
        ]
        interrupted = _follow(futures, stop, made, progress, task)
    return [f.result() for f in futures], interrupted


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


def _follow(
    futures: list[Future[Recorded]], stop: Any, made: Any, progress: Progress, task: Any
) -> bool:
    """Show progress until all chains end; on Ctrl-C or an error let them finish their chunk."""
    begin, sweeps, interrupted = time.monotonic(), 0, False
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
            sweeps += new
            speed = sweeps / max(time.monotonic() - begin, 1e-9)
            progress.update(task, advance=new, speed=f"{speed:,.0f} sweeps/s")
        except KeyboardInterrupt:
            interrupted = True
            stop.set()
    return interrupted


def _run_chain(
    engine: Engine,
    chain: int,
    seed: np.random.SeedSequence,
    draws: int,
    tune: int,
    thin: int,
    store: RunStore | None,
    stop: Any,
    made: Any,
) -> Recorded:
    recorded = Recorded()
    state = None if store is None else store.load_chain(chain, engine, recorded)
    if state is None:
        generators = [np.random.default_rng(s) for s in seed.spawn(engine.n_generators)]
        state = ChainState(engine.start(generators), generators)
    made.put(state.done)
    unsaved, saved_at, chunk = Recorded(), time.monotonic(), 1
    while state.done < tune + draws * thin and not stop.is_set():
        begin = time.monotonic()
        tuning = state.done < tune
        left = tune - state.done if tuning else (tune + draws * thin - state.done)
        n = min(chunk, left)
        first = (-(state.done - tune)) % thin
        new, stats = engine.advance(state, n, tuning=tuning)
        state.done += n
        if not tuning and first < n:
            piece = {k: v[first::thin] for k, v in new.items()}
            extra = {k: v[first::thin] for k, v in stats.items()}
            recorded.add(piece, extra)
            unsaved.add(piece, extra)
        made.put(n)
        now = time.monotonic()
        chunk = max(1, min(2 * chunk, int(n * CHUNK_SECONDS / max(now - begin, 1e-6))))
        if store is not None and now - saved_at > SAVE_SECONDS:
            store.save_chain(chain, engine, state, unsaved)
            unsaved, saved_at = Recorded(), time.monotonic()
    if store is not None:
        store.save_chain(chain, engine, state, unsaved)
    recorded.averages = engine.averages(state.live)
    return recorded


def join(pieces: Sequence[Mapping[str, npt.NDArray[Any]]], length: int) -> Draws:
    """Concatenate the pieces of a chain along the draws and cut them to a length."""
    if not pieces:
        return {}
    return {k: np.concatenate([p[k] for p in pieces])[:length] for k in pieces[0]}
