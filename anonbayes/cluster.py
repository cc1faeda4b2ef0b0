"""Tasks on a Dask cluster: shared data sent once, lost workers survived, errors in plain words.

Dask schedules, moves and repeats; this module only says what a task is and what to do when the
cluster loses one. A task is a function of shared data, of data of its own, and of nothing else, so
a repeated task gives the same result.
"""

from __future__ import annotations

import contextlib
import pickle
import queue
import signal
import uuid
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from anonbayes.errors import AnonbayesError, ClusterError

__all__ = ["Tasks", "check_client", "local_client", "run_tasks", "slots"]

LARGE = 1_000_000
"""Bytes beyond which a task's data are sent to a worker by themselves, not inside the task."""

MOST_LOSSES = 5
"""How often a task may be lost before the cluster is blamed."""


def check_client(client: object) -> None:
    """Raise `AnonbayesError` unless `client` is an ordinary (not asynchronous) Dask client.

    Examples
    --------
    >>> check_client("tcp://scheduler:8786")
    Traceback (most recent call last):
    ...
    anonbayes.errors.ClusterError: client= must be a distributed.Client, got str.
    """
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


def slots(client: Any) -> int:
    """Return how many tasks the workers run at the same time, at least one."""
    return max(1, sum(client.nthreads().values()))


@contextlib.contextmanager
def local_client(workers: int) -> Iterator[Any]:
    """Start worker processes on this machine, one task each, reachable from this machine only.

    Parameters
    ----------
    workers : int
        Number of processes.
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
        LocalCluster(
            n_workers=workers,
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
    """Leave Ctrl-C, which a terminal sends to all processes, to the one that started the worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


@dataclass
class _Task:
    """What is needed to send a task again."""

    function: Callable[..., Any]
    data: Any
    arguments: tuple[Any, ...]
    future: Any = None
    losses: int = 0


class Tasks:
    """Tasks that share one object, under way on a cluster.

    Dask itself repeats a task whose worker died. What it cannot make again are data that the client
    sent and that died with their last worker: those are sent again from here.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    shared : object
        First argument of all tasks, sent to every worker once.
    label : str
        Begins the keys of the tasks, and so names them in Dask's dashboard.

    Examples
    --------
    >>> with local_client(1) as client, Tasks(client, [1, 2, 3], label="sums") as tasks:
    ...     tasks.submit("all", sum, 10)
    ...     found = None
    ...     while found is None:
    ...         found = tasks.collect()
    >>> found
    ('all', 16)
    """

    def __init__(self, client: Any, shared: Any, *, label: str) -> None:
        self._client, self._object, self.label = client, shared, label
        self._run = uuid.uuid4().hex[:8]
        self._ended: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
        self._pending: dict[str, _Task] = {}
        self._shared = self._scatter(self._object, broadcast=True)

    def submit(self, name: str, function: Callable[..., Any], data: Any, *arguments: Any) -> None:
        """Start ``function(shared, data, *arguments)`` under a name that no other task has now."""
        self._send(name, _Task(function, data, arguments))

    def collect(self, timeout: float = 0.2) -> tuple[str, Any] | None:
        """Return name and result of a task that ended; None when none did in some seconds."""
        from distributed import KilledWorker

        try:
            name, future = self._ended.get(timeout=timeout)
        except queue.Empty:
            self._look_for_lost()
            return None
        task = self._pending.get(name)
        if task is None or task.future is not future:
            return None
        try:
            result = future.result()
        except CancelledError:
            self._send_again(name, task)
            return None
        except KilledWorker as error:
            raise ClusterError(
                f"{self.label}, {name}: the workers that ran it died one after the other "
                f"({error.allowed_failures + 1} of them), most likely for want of memory. Give "
                "the workers more of it, or run fewer tasks per worker."
            ) from error
        except AnonbayesError as error:
            raise error.with_traceback(None) from None
        except Exception as error:
            raise ClusterError(
                f"{self.label}, {name}: a worker failed with {type(error).__name__}: {error}. "
                "Workers need the versions of Python, anonbayes and NumPy that the client has."
            ) from error
        del self._pending[name]
        return name, result

    def __len__(self) -> int:
        return len(self._pending)

    def close(self) -> None:
        """Cancel what is under way and let go of everything on the cluster."""
        futures = [task.future for task in self._pending.values()]
        self._pending.clear()
        self._shared.release()
        if futures and self._client.status == "running":
            self._client.cancel(futures, force=True)

    def __enter__(self) -> Tasks:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _scatter(self, data: Any, *, broadcast: bool) -> Any:
        try:
            # As a list: a scattered mapping would be taken apart.
            return self._client.scatter([data], broadcast=broadcast, hash=False)[0]
        except TimeoutError:
            raise ClusterError(
                f"{self.label}: the cluster has no workers. Start some, or wait for them with "
                "client.wait_for_workers(1)."
            ) from None

    def _send(self, name: str, task: _Task) -> None:
        data = task.data
        if _size(data) > LARGE:
            data = self._scatter(data, broadcast=False)
        again = f"-again{task.losses}" if task.losses else ""
        task.future = self._client.submit(
            task.function,
            self._shared,
            data,
            *task.arguments,
            key=f"{self.label}-{name}-{self._run}{again}".replace(" ", "-"),
            pure=False,
        )
        self._pending[name] = task
        task.future.add_done_callback(lambda future: self._ended.put((name, future)))

    def _send_again(self, name: str, task: _Task) -> None:
        if self._client.status != "running":
            raise ClusterError(f"{self.label}, {name}: the connection to the cluster was lost.")
        task.losses += 1
        if task.losses > MOST_LOSSES:
            raise ClusterError(
                f"{self.label}, {name}: lost {task.losses} times; the workers do not stay alive."
            )
        if self._shared.status != "finished":
            self._shared = self._scatter(self._object, broadcast=True)
        self._send(name, task)

    def _look_for_lost(self) -> None:
        """A future that is cancelled while nobody looks may not call back."""
        for name, task in self._pending.items():
            if task.future.status in ("cancelled", "lost"):
                self._ended.put((name, task.future))


def _size(data: Any) -> int:
    """Bytes that are sent; the content of arrays is measured, not copied."""
    buffers: list[pickle.PickleBuffer] = []
    rest = pickle.dumps(data, protocol=5, buffer_callback=buffers.append)
    return len(rest) + sum(buffer.raw().nbytes for buffer in buffers)


def run_tasks(
    client: Any,
    shared: Any,
    function: Callable[..., Any],
    data: Mapping[str, Any],
    *,
    label: str,
    progressbar: bool = False,
) -> dict[str, Any]:
    """Run ``function(shared, item)`` for every item on a cluster; results in the items' order.

    Parameters
    ----------
    client : distributed.Client
        The cluster.
    shared : object
        Sent to every worker once.
    function : callable
        Importable by its name on the workers.
    data : mapping of str to object
        The items by name.
    label : str
        Begins the keys of the tasks.
    progressbar : bool
        Whether to show one.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    found: dict[str, Any] = {}
    with (
        Progress(*columns, disable=not progressbar, transient=True) as progress,
        Tasks(client, shared, label=label) as tasks,
    ):
        bar = progress.add_task(label, total=len(data))
        for name, item in data.items():
            tasks.submit(name, function, item)
        while len(tasks):
            if (ended := tasks.collect()) is not None:
                found[ended[0]] = ended[1]
                progress.update(bar, advance=1)
    return {name: found[name] for name in data}
