"""Progress of long reads, on a terminal only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

__all__ = ["reading"]


@contextmanager
def reading(label: str, *, progressbar: bool) -> Iterator[Callable[[float], None]]:
    """Show a bar while a block runs; the block calls what it gets with the share that is done.

    Examples
    --------
    >>> with reading("counting rows", progressbar=False) as done:
    ...     done(0.5)
    """
    console = Console(stderr=True)
    hidden = not progressbar or not (console.is_terminal or console.is_jupyter)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(
        *columns, TimeElapsedColumn(), console=console, disable=hidden, transient=True
    ) as progress:
        task = progress.add_task(label, total=1.0)
        yield lambda share: progress.update(task, completed=share)
