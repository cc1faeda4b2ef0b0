"""One run at a time per directory.

A run holds a lock of the operating system on a small file beside the directory. The system lets go
of it when the process ends, however it ends, so that a lock is never stale; the file only says who
has it.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from anonbayes.errors import FileError
from anonbayes.files import explain, make_folder

__all__ = ["locked"]

log = logging.getLogger("anonbayes")
BUSY = {errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK, errno.EDEADLK}
FAR = 1 << 30
"""Windows locks bytes: one far behind the text, which others must be able to read."""


@contextlib.contextmanager
def locked(directory: str | os.PathLike[str]) -> Iterator[None]:
    """Keep other runs, in this process or another, from writing to a directory.

    Parameters
    ----------
    directory : path
        Need not exist yet; the directory that it is in is made when absent.

    Raises
    ------
    FileError
        If another run has it, naming its process and computer.

    Examples
    --------
    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "run"
    >>> with locked(place):
    ...     with locked(place):
    ...         pass
    Traceback (most recent call last):
    ...
    anonbayes.errors.FileError: ...run' is being written to by process ...
    """
    place = Path(os.path.realpath(directory))
    file = place.with_name(f".{place.name}.lock")
    handle = _take(file, os.fspath(directory))
    try:
        yield
    finally:
        # Removed while it is held: who opens it in between notices that it has lost its name.
        with contextlib.suppress(OSError):
            file.unlink()
        os.close(handle)


def _take(file: Path, directory: str) -> int:
    """Open and lock the file; a handle of a file that lost its name meanwhile is let go."""
    while True:
        make_folder(file.parent)
        try:
            handle = os.open(file, os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            raise explain(error, file) from error
        try:
            _lock(handle, file)
        except OSError:
            os.close(handle)
            raise FileError(
                f"{directory!r} is being written to by {_owner(file)}; wait for it to end, or "
                "choose another directory."
            ) from None
        if _has_name(handle, file):
            _sign(handle)
            return handle
        os.close(handle)


def _lock(handle: int, file: Path) -> None:
    """Lock a file, or raise `OSError` if somebody has."""
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        os.lseek(handle, FAR, os.SEEK_SET)
        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in BUSY:
            raise
        log.warning(
            "%s: this disk knows no locks (%s); see to it that only one run at a time writes here.",
            file.parent,
            error.strerror,
        )


def _has_name(handle: int, file: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), file.stat())
    except FileNotFoundError:
        return False


def _sign(handle: int) -> None:
    about = {"process": os.getpid(), "computer": socket.gethostname(), "since": _now()}
    with contextlib.suppress(OSError):  # a full disk: the lock holds without its text
        os.ftruncate(handle, 0)
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, json.dumps(about).encode())


def _owner(file: Path) -> str:
    try:
        about = json.loads(file.read_text(encoding="utf-8"))
        return f"process {about['process']} on {about['computer']} (since {about['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another run"


def _now() -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S")
