"""Run tasks on a Dask cluster, and report its failures in plain words.

Dask schedules, moves and repeats tasks; this module only defines them. A task is a function of the
shared data and of its own data only, so repeating it gives the same result.
"""

from __future__ import annotations

import contextlib
import signal
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from anonbayes.errors import AnonbayesError, ClusterError
from anonbayes.figures import can_show_bars

__all__ = ["Tasks", "check_client", "local_client", "result_of", "run_tasks", "slots"]

FETCHES = 20
"""How often to fetch a result again when its worker died before sending it."""

LOOK_SECONDS = 5.0
"""Seconds between checks for workers while no task ends."""

AGAIN = "Run it again on a stable cluster; a fit with resume= continues where it stopped."

WORKER_SECONDS = 60.0
"""Seconds a cluster may be without workers, for instance while it starts new ones."""


def check_client(client: object) -> None:
    """Raise `AnonbayesError` unless `client` is an ordinary (not asynchronous) Dask client."""
    try:
        from distributed import Client
    except ImportError:
        raise ClusterError(
            "client= needs Dask; install it with: pip install 'anonbayes[big]'."
        ) from None
    if not isinstance(client, Client):
        raise ClusterError(f"client= must be a distributed.Client, got {type(client).__name__}.")
    if client.asynchronous:
        raise ClusterError("client= is asynchronous; give one made with asynchronous=False.")
    if client.status != "running":
        raise ClusterError(f"client= is not connected to its cluster (it is {client.status}).")


@contextlib.contextmanager
def reachable(what: str) -> Iterator[None]:
    """Turn the errors that Dask raises when it loses the scheduler into a helpful one."""
    try:
        yield
    except AnonbayesError:
        raise
    except (KeyError, OSError, RuntimeError, CancelledError) as error:  # CommClosedError is OSError
        raise ClusterError(
            f"{what}: the cluster cannot be reached ({type(error).__name__}: {error}). {AGAIN}"
        ) from error


def slots(client: Any) -> int:
    """Return how many tasks the workers can run at the same time, at least one."""
    with reachable("Looking for workers"):
        return max(1, sum(client.nthreads().values()))


@contextlib.contextmanager
def local_client(workers: int) -> Iterator[Any]:
    """Start worker processes on this machine, one task each, reachable only from here.

    What they spill to disk goes to a folder that only the user can read.
    """
    if isinstance(workers, bool) or workers < 1:
        raise ClusterError(f"workers={workers!r} must be a whole number of at least 1.")
    try:
        from distributed import Client, LocalCluster
    except ImportError:
        raise ClusterError(
            "Several workers need Dask; install it with: pip install 'anonbayes[big]'."
        ) from None
    with (
        tempfile.TemporaryDirectory(prefix="anonbayes-", ignore_cleanup_errors=True) as folder,
        LocalCluster(
            n_workers=workers,
            local_directory=folder,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",  # None would still open a port, to everybody
            silence_logs="CRITICAL",
            preload=[__name__],  # calls `dask_setup`
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):
        yield client


def dask_setup(worker: Any) -> None:
    """Ignore Ctrl-C, which a terminal sends to all processes; the parent process handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class Tasks:
    """Tasks on a cluster that share one object.

    Dask repeats a task whose worker died. Everything a task needs is part of its graph, the shared
    object included, so nothing can be lost with a worker.
    """

    def __init__(self, client: Any, shared: Any, *, label: str) -> None:
        from distributed import as_completed

        self._client, self.label = client, label
        self._run = uuid.uuid4().hex[:8]
        self._names: dict[str, str] = {}
        self._ended = as_completed(loop=client.loop)
        with reachable(label):
            wait_for_workers(client, label)
            self._shared = self._submit("shared", _same, shared)

    def submit(self, name: str, function: Callable[..., Any], data: Any, *arguments: Any) -> None:
        """Start ``function(shared, data, *arguments)`` under a unique name."""
        with reachable(f"{self.label}, {name}"):
            future = self._submit(name, function, self._shared, data, *arguments)
            self._names[future.key] = name
            self._ended.add(future)

    def hold(self, name: str, function: Callable[..., Any], *data: Any) -> Any:
        """Start ``function(shared, *data)`` and keep its result on the cluster for other tasks.

        Returns a handle that can be passed to `submit`; the result is kept as long as the handle
        is.
        """
        with reachable(f"{self.label}, {name}"):
            return self._submit(name, function, self._shared, *data)

    def ask(
        self, name: str, function: Callable[..., Any], data: Sequence[tuple[Any, ...]]
    ) -> list[Any]:
        """Return ``function(shared, *item)`` for every item, in order."""
        for i, item in enumerate(data):
            self.submit(f"{name} {i}", function, *item)
        ended = dict(self.collect() for _ in data)
        return [ended[f"{name} {i}"] for i in range(len(data))]

    def collect(self) -> tuple[str, Any]:
        """Wait for a task to end; return its name and its result."""
        with reachable(self.label):
            wait_until(self._ended.has_ready, self._client, self.label)
            future = next(self._ended)
        name = self._names.pop(future.key)
        return name, result_of(future, f"{self.label}, {name}")

    def __len__(self) -> int:
        return len(self._names)

    def __enter__(self) -> Tasks:
        return self

    def __exit__(self, *_: object) -> None:
        """Cancel what is running and release everything on the cluster."""
        if self._client.status == "running":
            with contextlib.suppress(Exception):  # a scheduler that is gone holds nothing either
                self._client.cancel([*self._ended.futures, self._shared], force=True)

    def _submit(self, name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        import dask

        key = f"{self.label}-{name}-{self._run}".replace(" ", "-")
        # Dask warns of large graphs; here they are what makes a task repeatable.
        with dask.config.set({"distributed.admin.large-graph-warning-threshold": "1TB"}):
            return self._client.submit(function, *arguments, key=key, pure=False)


def wait_for_workers(client: Any, what: str) -> None:
    """Wait until the cluster has a worker; raise `ClusterError` if none comes up."""
    try:
        client.wait_for_workers(1, timeout=WORKER_SECONDS)
    except TimeoutError:
        raise ClusterError(
            f"{what}: the cluster has no workers. Start some, or wait for them with "
            "client.wait_for_workers(1)."
        ) from None


def wait_until(
    ended: Callable[[], bool],
    client: Any,
    what: str,
    *,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Wait until a task has ended; raise `ClusterError` if the cluster loses all its workers."""
    looked, pause = time.monotonic(), 0.001
    while not ended():
        meanwhile()
        time.sleep(pause)
        pause = min(1.2 * pause, 0.01)
        if time.monotonic() - looked > LOOK_SECONDS:
            wait_for_workers(client, what)
            looked = time.monotonic()


def _same(shared: Any) -> Any:
    return shared


def result_of(future: Any, what: str) -> Any:
    """Return the result of a task, fetching it again if its worker died on the way."""
    from distributed import KilledWorker

    for _ in range(FETCHES):
        try:
            return _fetched(future, what)
        except KilledWorker as error:
            raise ClusterError(
                f"{what}: the workers that ran it died one after the other "
                f"({error.allowed_failures + 1} of them), most likely because they ran out of "
                "memory. Give the workers more memory, or run fewer tasks per worker."
            ) from error
        except CancelledError:
            break
        except AnonbayesError as error:
            raise error.with_traceback(None) from None
        except Exception as error:
            if future.status == "error":
                raise ClusterError(
                    f"{what}: a worker failed with {type(error).__name__}: {error}. Workers need "
                    "the same versions of Python, anonbayes and NumPy as the client."
                ) from error
            time.sleep(0.1)  # the task itself went well: Dask makes the lost result again
    raise ClusterError(
        f"{what}: the result was lost and could not be recomputed, because the scheduler or all "
        f"workers went away. {AGAIN}"
    )


def _fetched(future: Any, what: str) -> Any:
    """Fetch a result; Dask alone would wait forever if it is lost and no worker is left."""
    ended: list[Any] = []
    failed: list[BaseException] = []

    def fetch() -> None:
        try:
            ended.append(future.result())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=fetch, daemon=True)  # a timeout would cut large results off
    thread.start()
    wait_until(lambda: not thread.is_alive(), future.client, what)
    if failed:
        raise failed[0]
    return ended[0]


def run_tasks(
    client: Any,
    shared: Any,
    function: Callable[..., Any],
    data: Mapping[str, Any],
    *,
    label: str,
    progressbar: bool = False,
) -> dict[str, Any]:
    """Run ``function(shared, item)`` for every item on a cluster; results keep the items' keys."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    results: dict[str, Any] = {}
    with (
        Progress(
            *columns, disable=not (progressbar and can_show_bars()), transient=True
        ) as progress,
        Tasks(client, shared, label=label) as tasks,
    ):
        bar = progress.add_task(label, total=len(data))
        for name, item in data.items():
            tasks.submit(name, function, item)
        while len(tasks):
            name, result = tasks.collect()
            results[name] = result
            progress.update(bar, advance=1)
    return {name: results[name] for name in data}
