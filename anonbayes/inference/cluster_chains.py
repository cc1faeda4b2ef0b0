"""Chains on a Dask cluster: each is a sequence of tasks, and its state travels as their data.

The client keeps the state and the draws of every finished chunk. A worker that dies therefore
costs its chunk, no more, and the chunk made again is the same: it depends on the state it began
with, and on nothing of the worker. Where several chains wait for the same worker, their chunks
take turns.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from anonbayes.cluster import Tasks
from anonbayes.inference.run import (
    SAVE_SECONDS,
    ChainState,
    Engine,
    Length,
    Recorded,
    advance_chain,
    pack_chain,
    start_chain,
    unpack_chain,
)

if TYPE_CHECKING:
    from anonbayes.inference.run import RunStore, SweepMeter

__all__ = ["run_on_cluster"]
TASK_SECONDS = 1.0
"""Sampling per task: long against the milliseconds that a task costs Dask."""

WORTH = 20.0
"""Sampling per time spent on taking a state apart and putting it together again."""

LONGEST_SECONDS = 60.0
"""Longest task, however large the state: what a lost worker costs, and the pace of progress."""


@dataclass
class Chunk:
    """What a task returns: the state it reached, what it recorded, and the time it took.

    Parameters
    ----------
    packed : ChainState
        Packed; arrays that grow hold only what is new.
    new : Recorded
        Draws and statistics.
    sweeps : int
        Sweeps made.
    sampling, packing : float
        Seconds of sampling, and of starting or unpacking and packing.
    """

    packed: ChainState
    new: Recorded
    sweeps: int
    sampling: float
    packing: float


def run_chunk(
    engine: Engine,
    packed: ChainState | None,
    seed: np.random.SeedSequence,
    most: int,
    length: Length,
) -> Chunk:
    """Advance a chain, or start it (`packed` is None); leaves its arguments as they are."""
    begin = time.perf_counter()
    state = start_chain(engine, seed) if packed is None else unpack_chain(engine, packed)
    ready = time.perf_counter()
    new = Recorded()
    sweeps = advance_chain(engine, state, most, length, into=(new,))
    sampled = time.perf_counter()
    packed = pack_chain(engine, state)
    packing = ready - begin + time.perf_counter() - sampled
    return Chunk(packed, new, sweeps, sampled - ready, packing)


@dataclass
class _Chain:
    """A chain as the client knows it, between two chunks."""

    number: int
    seed: np.random.SeedSequence
    recorded: Recorded = field(default_factory=Recorded)
    unsaved: Recorded = field(default_factory=Recorded)
    packed: ChainState | None = None
    saved_at: float = field(default_factory=time.monotonic)
    chunk: int = 1

    @property
    def done(self) -> int:
        return 0 if self.packed is None else self.packed.done

    def to_send(self, engine: Engine) -> ChainState | None:
        """Return the state without what only grows: the worker needs nothing of it."""
        if self.packed is None:
            return None
        live = {k: v[:0] if k in engine.grows else v for k, v in self.packed.live.items()}
        return ChainState(live, self.packed.generators, self.packed.done)

    def add(self, engine: Engine, found: Chunk) -> None:
        """Take over what a task has made, and choose the length of the next one."""
        live = dict(found.packed.live)
        if self.packed is not None:
            for k in engine.grows:
                live[k] = np.concatenate([self.packed.live[k], live[k]])
        self.packed = ChainState(live, found.packed.generators, found.packed.done)
        for draws, stats in zip(found.new.draws, found.new.stats, strict=True):
            self.recorded.add(draws, stats)
            self.unsaved.add(draws, stats)
        wanted = min(max(TASK_SECONDS, WORTH * found.packing), LONGEST_SECONDS)
        fitting = int(found.sweeps * wanted / max(found.sampling, 1e-6))
        self.chunk = max(1, min(2 * self.chunk, fitting))

    def save(self, store: RunStore) -> None:
        """Write what is new to disk."""
        if self.packed is not None:
            store.save_chain(self.number, self.packed, self.unsaved)
            self.unsaved, self.saved_at = Recorded(), time.monotonic()


def run_on_cluster(
    engine: Engine,
    client: Any,
    length: Length,
    seeds: Sequence[np.random.SeedSequence],
    *,
    most: int | None,
    label: str,
    store: RunStore | None,
    meter: SweepMeter,
) -> tuple[list[Recorded], bool]:
    """Run all chains as tasks until each has its draws, or until interrupted.

    Parameters
    ----------
    engine : Engine
        The sampler, sent to every worker once.
    client : distributed.Client
        The cluster.
    length : Length
        Of each chain.
    seeds : sequence of SeedSequence
        One per chain.
    most : int, optional
        Chains under way at the same time; all by default.
    label : str
        What the dashboard calls the tasks.
    store : RunStore, optional
        On the client's disk; workers need none.
    meter : SweepMeter
        Is told of every chunk.

    Returns
    -------
    list of Recorded, bool
        As `run_chains`. After Ctrl-C the draws of all finished chunks are kept.
    """
    chains = [_Chain(c, seed) for c, seed in enumerate(seeds)]
    if store is not None:
        for chain in chains:
            chain.packed = store.load_chain(chain.number, chain.recorded)
    meter.add(sum(chain.done for chain in chains))
    waiting = [chain for chain in chains if chain.done < length.sweeps]
    interrupted = False
    try:
        with Tasks(client, engine, label=f"fit {label}") as tasks:
            _advance_all(tasks, engine, length, waiting, most or len(chains), store, meter)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        if store is not None:
            for chain in chains:
                chain.save(store)
    for chain in chains:
        if chain.packed is not None:
            # What grew is on the client, so the averages are taken here.
            live = unpack_chain(engine, chain.packed).live
            chain.recorded.averages = engine.averages(live)
    return [chain.recorded for chain in chains], interrupted


def _advance_all(
    tasks: Tasks,
    engine: Engine,
    length: Length,
    waiting: list[_Chain],
    most: int,
    store: RunStore | None,
    meter: SweepMeter,
) -> None:
    running: dict[str, _Chain] = {}

    def advance(chain: _Chain) -> None:
        name = f"chain{chain.number} from sweep{chain.done}"
        running[name] = chain
        tasks.submit(name, run_chunk, chain.to_send(engine), chain.seed, chain.chunk, length)

    while waiting or running:
        while waiting and len(running) < most:
            advance(waiting.pop(0))
        ended = tasks.collect()
        if ended is None:
            continue
        chain, found = running.pop(ended[0]), ended[1]
        chain.add(engine, found)
        meter.add(found.sweeps)
        if chain.done < length.sweeps:
            advance(chain)
        if store is not None and time.monotonic() - chain.saved_at > SAVE_SECONDS:
            chain.save(store)
