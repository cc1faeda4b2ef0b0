"""Running chains of any engine: threads, progress, interruption, continuation."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import queue
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from anonbayes.arrays import Draws
from anonbayes.cluster import Tasks
from anonbayes.errors import FileError, ModelError
from anonbayes.figures import can_show_bars
from anonbayes.io.files import is_finished, make_folder, new_file, remove_leftovers, write_text
from anonbayes.tables.table import ReleasedTable

if TYPE_CHECKING:
    from distributed import Client

# -------------------------------------------------------------------------------------------------
# Draws on disk during a run, so that a killed run can be continued.
#
# A run is a directory: ``run.json`` describes the run, and each chain has numbered parts with its
# draws and one ``state.npz`` with everything it needs to continue. Every file is written under a
# temporary name and then renamed. The state, which is written last, says how many parts are valid.
# So if the run dies between the two, the last part is written again, and no draw is lost or
# repeated.

FORMAT = 1
GENERATORS: dict[str, type[np.random.BitGenerator]] = {
    kind.__name__: kind
    for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.SFC64, np.random.Philox)
}


class RunStore:
    """Directory of a run, created if missing; refuses one that holds another run or other files."""

    def __init__(self, path: str | os.PathLike[str], settings: Mapping[str, object]) -> None:
        self.path = Path(path)
        wanted = json.loads(json.dumps({"format": FORMAT, **settings}))
        existing = self.read_settings(self.path)
        for folder in (self.path, *self.path.glob("chain-*")):
            remove_leftovers(folder)
        if existing is None:
            make_folder(self.path, private=True)
            write_text(self.path / "run.json", json.dumps(wanted, indent=1))
            return
        for key, value in wanted.items():
            if existing.get(key) != value:
                raise ModelError(
                    f"{str(self.path)!r} holds a run with {key}={existing.get(key)!r}, not "
                    f"{key}={value!r}; continue it with the same settings, or use another path."
                )

    @staticmethod
    def read_settings(path: str | os.PathLike[str]) -> dict[str, object] | None:
        """Return the settings of the run in a directory, or None if it is new or empty."""
        folder = Path(path)
        file = folder / "run.json"
        if file.is_file():
            try:
                return dict(json.loads(file.read_text(encoding="utf-8")))
            except (OSError, TypeError, ValueError) as error:
                raise _damaged(file, error) from None
        if folder.exists() and (not folder.is_dir() or any(map(is_finished, folder.iterdir()))):
            raise ModelError(
                f"{str(folder)!r} exists but is not a run of anonbayes; choose an empty or new "
                "directory for resume=."
            )
        return None

    def save_chain(self, chain: int, packed: ChainState, new: Recorded) -> None:
        """Write the new draws as a part, then the packed state that refers to it."""
        folder = self.path / f"chain-{chain}"
        make_folder(folder, private=True)
        parts = self._n_parts(folder)
        if new.draws:
            arrays = {}
            for kind, pieces in (("draws", new.draws), ("stats", new.stats)):
                for key in pieces[0]:
                    arrays[f"{kind}/{key}"] = np.concatenate([p[key] for p in pieces])
            save_arrays(folder / f"part-{parts:05d}.npz", arrays)
            parts += 1
        generators = json.dumps([g.bit_generator.state for g in packed.generators], default=_plain)
        save_arrays(
            folder / "state.npz",
            {f"state/{k}": v for k, v in packed.live.items()}
            | {
                "done": np.array(packed.done),
                "parts": np.array(parts),
                "generators": np.array(generators),
            },
        )

    def load_chain(self, chain: int, into: Recorded) -> ChainState | None:
        """Read a chain's draws into `into`; return its packed state, or None if there is none."""
        folder = self.path / f"chain-{chain}"
        file = folder / "state.npz"
        if not file.is_file():
            return None
        saved = load_arrays(file, needed=("done", "parts", "generators"))
        for part in range(int(saved["parts"])):
            arrays = load_arrays(folder / f"part-{part:05d}.npz")
            into.add(
                {k[6:]: v for k, v in arrays.items() if k.startswith("draws/")},
                {k[6:]: v for k, v in arrays.items() if k.startswith("stats/")},
            )
        try:
            generators = [restored(state) for state in json.loads(str(saved["generators"]))]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise _damaged(file, error) from None
        arrays = {k[6:]: v for k, v in saved.items() if k.startswith("state/")}
        return ChainState(arrays, generators, int(saved["done"]))

    @staticmethod
    def _n_parts(folder: Path) -> int:
        file = folder / "state.npz"
        return int(load_arrays(file, only=["parts"])["parts"]) if file.is_file() else 0


def restored(state: dict[str, Any]) -> np.random.Generator:
    """Restore a generator; the file can only choose among known types, not run code."""
    generator = np.random.Generator(GENERATORS[state["bit_generator"]]())
    generator.bit_generator.state = state
    return generator


def save_arrays(path: Path, arrays: Draws) -> None:
    """Write named arrays to a file, atomically."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]  # NumPy 2.4 has another option
    with new_file(path) as file:
        file.write(buffer.getbuffer())


def load_arrays(
    path: Path, *, only: Iterable[str] | None = None, needed: Iterable[str] = ()
) -> dict[str, Any]:
    """Read all or `only` some named arrays; raise an error that names a damaged file."""
    try:
        with open(path, "rb") as file, np.load(file, allow_pickle=False) as arrays:
            named = {name: arrays[name] for name in (arrays if only is None else only)}
            if absent := set(needed) - set(named):
                raise KeyError(*sorted(absent))
            return named
    except Exception as error:  # zip, zlib and NumPy raise different errors
        raise _damaged(path, error) from None


def _damaged(path: Path, error: Exception) -> FileError:
    return FileError(
        f"{str(path)!r} is damaged or incomplete ({error or type(error).__name__}); the run cannot "
        "be continued. Start it again with another path."
    )


def _plain(value: Any) -> object:
    return value.tolist() if isinstance(value, np.ndarray) else int(value)


# -------------------------------------------------------------------------------------------------
# Running chains: in parallel, in chunks, with progress, interruption and checkpoints.
#
# An `Engine` starts and advances a single chain; this module knows nothing else about it. Kernels
# release the interpreter's lock, so threads use all cores without copying the table; a Dask cluster
# uses several machines. A chain's draws depend only on its own generators: neither where it runs
# nor where chunks end changes them, and a resumed chain continues as if it had never stopped.

CHUNK_SECONDS = 0.3
SAVE_SECONDS = 5.0


@dataclass
class ChainState:
    """All that a chain needs to continue; `live` belongs to the engine, sweeps include tuning."""

    live: Any
    generators: list[np.random.Generator]
    done: int = 0


class Engine(Protocol):
    """A sampler that can be advanced by any number of sweeps."""

    n_generators: int
    """Number of independent generators that a chain needs."""

    grows: tuple[str, ...]
    """Packed arrays that sweeps only append to and never read."""

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
        """Return the averages accumulated along the chain."""
        ...


@dataclass
class Recorded:
    """Draws and statistics of one chain, in pieces, with the averages of the engine."""

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
    client: Client | None = None,
) -> tuple[list[Recorded], bool]:
    """Run all chains to the end; return them, and whether Ctrl-C stopped them.

    `cores` chains run at the same time, on a Dask cluster if `client` is given. Finished draws are
    saved in `store`.
    """
    length = Length(draws, tune, thin)
    with SweepMeter(label, length.sweeps * len(seeds), show=progressbar) as meter:
        if client is not None:
            return _run_on_cluster(
                engine, client, length, seeds, most=cores, label=label, store=store, meter=meter
            )
        stop, made = threading.Event(), queue.SimpleQueue[int]()
        with ThreadPoolExecutor(min(len(seeds), cores or os.cpu_count() or 1)) as pool:
            try:
                futures = [
                    pool.submit(_run_chain, engine, c, seed, length, store, stop, made)
                    for c, seed in enumerate(seeds)
                ]
                interrupted = _follow(futures, stop, made, meter)
            except BaseException:  # including signals that end the process
                stop.set()
                raise
    return [f.result() for f in futures], interrupted


@dataclass(frozen=True)
class Length:
    """Length of a chain: recorded draws, tuning sweeps, sweeps per recorded draw."""

    draws: int
    tune: int
    thin: int

    @property
    def sweeps(self) -> int:
        """Total number of sweeps."""
        return self.tune + self.draws * self.thin


class SweepMeter:
    """Optional progress bar: sweeps made by all chains, and their speed."""

    def __init__(self, label: str, total: int, *, show: bool) -> None:
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
            TimeRemainingColumn(),
        )
        hidden = not (show and can_show_bars())
        self._bar = Progress(*columns, disable=hidden, transient=True)
        self._task = self._bar.add_task(label, total=total, speed="")
        self._begin, self.sweeps = time.monotonic(), 0

    def add(self, sweeps: int) -> None:
        """Count sweeps made by any chain."""
        self.sweeps += sweeps
        speed = self.sweeps / max(time.monotonic() - self._begin, 1e-9)
        self._bar.update(self._task, advance=sweeps, speed=f"{speed:,.0f} sweeps/s")

    def __enter__(self) -> SweepMeter:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()


def _follow(
    futures: list[Future[Recorded]],
    stop: threading.Event,
    made: queue.SimpleQueue[int],
    meter: SweepMeter,
) -> bool:
    """Show progress until all chains end; on Ctrl-C or an error, let them finish their chunks."""
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
    stop: threading.Event,
    made: queue.SimpleQueue[int],
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
    """Start a chain; the same seed always gives the same chain."""
    fresh = np.random.SeedSequence(seed.entropy, spawn_key=seed.spawn_key)  # none spawned yet
    generators = [np.random.default_rng(s) for s in fresh.spawn(engine.n_generators)]
    return ChainState(engine.start(generators), generators)


def pack_chain(engine: Engine, state: ChainState) -> ChainState:
    """Return the state with the engine's own objects converted to named arrays."""
    return ChainState(engine.pack(state.live), state.generators, state.done)


def unpack_chain(engine: Engine, packed: ChainState) -> ChainState:
    """Return a state that can be advanced; `packed` is not changed."""
    generators = copy.deepcopy(packed.generators)
    arrays = {k: np.array(v) for k, v in packed.live.items()}
    return ChainState(engine.unpack(arrays, generators), generators, packed.done)


def advance_chain(
    engine: Engine, state: ChainState, most: int, length: Length, *, into: Sequence[Recorded]
) -> int:
    """Make up to `most` sweeps, not beyond tuning or the end; return how many were made."""
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


def join(pieces: Sequence[Draws], length: int) -> Draws:
    """Concatenate the pieces of a chain along the draws and cut them to a length."""
    if not pieces:
        return {}
    return {k: np.concatenate([p[k] for p in pieces])[:length] for k in pieces[0]}


def rows_to_keep(
    table: ReleasedTable, keep_cleartext: bool | npt.ArrayLike
) -> npt.NDArray[np.int64] | None:
    """Return the row numbers selected by `keep_cleartext`: all, none, or those listed."""
    if keep_cleartext is False:
        return None
    if table.weights is not None:
        raise ModelError(
            f"keep_cleartext refers to single rows, but the table stores {table.n_rows:,} rows as "
            f"{table.n_lines:,} distinct records; fit table.expanded() if memory allows."
        )
    if keep_cleartext is True:
        return np.arange(table.n_rows)
    rows = np.asarray(keep_cleartext)
    if rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer) or not len(rows):
        raise ModelError("keep_cleartext must be True, False, or a list of row numbers.")
    if rows.min() < 0 or rows.max() >= table.n_rows:
        raise ModelError(
            f"keep_cleartext names row {rows.max() if rows.max() >= table.n_rows else rows.min()}, "
            f"but the table has rows 0 to {table.n_rows - 1}."
        )
    return rows.astype(np.int64)


# -------------------------------------------------------------------------------------------------
# Chains on a Dask cluster: each is a sequence of tasks that pass on its state.
#
# The client keeps the state and the draws of every finished chunk. A worker that dies therefore
# costs only its current chunk, and the repeated chunk is the same, because it depends on nothing
# but the state it starts from. If several chains wait for one worker, their chunks take turns.

TASK_SECONDS = 1.0
"""Seconds of sampling per task: long compared with Dask's milliseconds of overhead."""

WORTH = 20.0
"""Least ratio of sampling time to time spent on packing and unpacking a state."""

LONGEST_SECONDS = 60.0
"""Longest task in seconds, whatever the state's size: what a lost worker costs."""


@dataclass
class Chunk:
    """Result of a task: the packed state, what was recorded, number of sweeps, and seconds.

    Growing arrays contain only what is new.
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
    """Advance a chain, or start it if `packed` is None; does not change its arguments."""
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
    """A chain as the client sees it between two chunks."""

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
        """Return the state without the growing arrays, which the worker does not need."""
        if self.packed is None:
            return None
        live = {k: v[:0] if k in engine.grows else v for k, v in self.packed.live.items()}
        return ChainState(live, self.packed.generators, self.packed.done)

    def add(self, engine: Engine, made: Chunk) -> None:
        """Add the result of a task, and choose the length of the next one."""
        live = dict(made.packed.live)
        if self.packed is not None:
            for k in engine.grows:
                live[k] = np.concatenate([self.packed.live[k], live[k]])
        self.packed = ChainState(live, made.packed.generators, made.packed.done)
        for draws, stats in zip(made.new.draws, made.new.stats, strict=True):
            self.recorded.add(draws, stats)
            self.unsaved.add(draws, stats)
        wanted = min(max(TASK_SECONDS, WORTH * made.packing), LONGEST_SECONDS)
        fitting = int(made.sweeps * wanted / max(made.sampling, 1e-6))
        self.chunk = max(1, min(2 * self.chunk, fitting))

    def save(self, store: RunStore) -> None:
        """Write what is new to disk."""
        if self.packed is not None:
            store.save_chain(self.number, self.packed, self.unsaved)
            self.unsaved, self.saved_at = Recorded(), time.monotonic()


def _run_on_cluster(
    engine: Engine,
    client: Client | None,
    length: Length,
    seeds: Sequence[np.random.SeedSequence],
    *,
    most: int | None,
    label: str,
    store: RunStore | None,
    meter: SweepMeter,
) -> tuple[list[Recorded], bool]:
    """Run all chains as tasks, `most` at a time; on Ctrl-C, finished chunks are kept."""
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
            # Growing arrays are on the client, so averages are computed here.
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
        name, chunk = tasks.collect()
        chain = running.pop(name)
        chain.add(engine, chunk)
        meter.add(chunk.sweeps)
        if chain.done < length.sweeps:
            advance(chain)
        if store is not None and time.monotonic() - chain.saved_at > SAVE_SECONDS:
            chain.save(store)
