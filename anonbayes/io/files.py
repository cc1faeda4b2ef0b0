"""Atomic writing of files and of sets of files, and locks on directories."""

from __future__ import annotations

import contextlib
import errno
import glob
import io
import json
import logging
import os
import secrets
import shutil
import socket
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from anonbayes.errors import AnonbayesError, FileError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd
    from matplotlib.axes import Axes


# -------------------------------------------------------------------------------------------------
# Atomic writing of files: the only place in the package that writes.
#
# A file is written under another name in the same directory, flushed to disk, and renamed. Readers
# see the old file or the new one, and a full disk, Ctrl-C or ``kill -9`` damages neither.
#
# Results are about individual people, so only their owner may read them unless the environment says
# otherwise. Files that are made to be published (`write_files`: releases, reports of a mechanism)
# get the permissions of the umask.

SHARE = "ANONBAYES_SHARE_FILES"
"""If set to 1, files and directories of results get the permissions of the umask."""
_private: ContextVar[bool] = ContextVar("private", default=True)

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
PART = ".part"
Writer = Callable[[Path], object]
Plot = Callable[[], "Axes | npt.NDArray[np.object_]"]


@contextlib.contextmanager
def new_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that gets its name if the block ends without an error.

    An existing file is replaced and keeps its permissions; a new one is private (0600), unless
    ``ANONBAYES_SHARE_FILES=1`` is set in the environment. Links are followed; devices and pipes are
    written to directly.
    """
    target = Path(os.path.realpath(path))
    try:
        if target.is_dir():
            raise FileError(f"{str(path)!r} is a directory; give the name of a file.")
        if target.exists() and not target.is_file():
            with open(target, "wb") as device:
                yield device
            return
        part = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}{PART}")
        try:
            with open(part, "x+b", opener=_open) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            if target.exists():
                part.chmod(stat.S_IMODE(target.stat().st_mode))
            os.replace(part, target)
        finally:
            part.unlink(missing_ok=True)
        keep_names(target.parent)
    except AnonbayesError:
        raise
    except OSError as error:
        raise explain(error, path) from error


def _is_private() -> bool:
    return _private.get() and os.environ.get(SHARE, "") in ("", "0")


def _open(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600 if _is_private() else 0o666)


def _make(folder: Path, *, exist_ok: bool = False) -> None:
    """Create a directory for results, which only its owner may enter."""
    folder.mkdir(mode=0o700 if _is_private() else 0o777, exist_ok=exist_ok)


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file atomically; see `new_file`."""
    with new_file(path) as file:
        file.write(content)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text in UTF-8, atomically; bytes that are not text are escaped."""
    write_bytes(path, text.encode("utf-8", errors="backslashreplace"))


def write_frame(path: str | os.PathLike[str], frame: pd.DataFrame, **settings: Any) -> None:
    r"""Write a data frame as delimited UTF-8 text, atomically and without copying it."""
    with new_file(path) as file:
        frame.to_csv(file, mode="wb", lineterminator="\n", **settings)


def save_figure(path: str | os.PathLike[str], figure: Any, **settings: Any) -> None:
    """Write a matplotlib figure as PNG, atomically."""
    content = io.BytesIO()
    figure.savefig(content, format="png", **settings)
    write_bytes(path, content.getvalue())


def save_plot(path: str | os.PathLike[str], axes: Axes | npt.NDArray[np.object_]) -> None:
    """Write the figure of axes, or of an array of axes, as PNG."""
    first: Axes = getattr(axes, "flat", [axes])[0]
    save_figure(path, first.figure, dpi=150)


def write_files(writers: Mapping[Path, Writer], *, private: bool = False) -> None:
    """Write several files under other names, and rename them once all are complete."""
    token = secrets.token_hex(4)
    parts = {file: file.with_name(f".{file.name}.{token}{PART}") for file in writers}
    before = _private.set(private)
    try:
        for file, write in writers.items():
            make_folder(file.parent)
            try:
                write(parts[file])
            except OSError as error:  # names the temporary file, which users do not know
                raise explain(error, file) from error
        for file, part in parts.items():
            if file.is_file():
                part.chmod(stat.S_IMODE(file.stat().st_mode))
            os.replace(part, file)
        for folder in {file.parent for file in writers}:
            keep_names(folder)
    finally:
        _private.reset(before)
        for part in parts.values():
            part.unlink(missing_ok=True)


def remove_leftovers(folder: str | os.PathLike[str], name: str = "*") -> None:
    """Remove unfinished files or directories, called `name`, left by killed runs.

    Only for directories to which nothing else writes; see `anonbayes.io.files`.
    """
    for part in Path(folder).glob(f".{name if name == '*' else glob.escape(name)}.*{PART}"):
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        else:
            part.unlink(missing_ok=True)


def is_finished(file: Path) -> bool:
    """Return whether a file is complete rather than left over from a killed run."""
    return not (file.name.startswith(".") and file.name.endswith(PART))


def make_folder(path: str | os.PathLike[str], *, private: bool = False) -> None:
    """Create a directory and its parents unless they exist; a private one has mode 0700."""
    try:
        if private:
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            _make(Path(path), exist_ok=True)
        else:
            Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise explain(error, path) from error


def no_space(error: BaseException) -> bool:
    """Return whether an error, or its cause, is a lack of disk space."""
    cause = _cause(error)
    return isinstance(cause, OSError) and cause.errno in NO_ROOM


def _cause(error: BaseException) -> BaseException:
    while isinstance(error, FileError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def explain(error: BaseException, path: str | os.PathLike[str]) -> FileError:
    """Return an error that says why a file could not be written and what to do."""
    error = _cause(error)
    folder = Path(os.path.realpath(path)).parent
    reason = getattr(error, "strerror", None) or str(error)
    text = f"{os.fspath(path)!r} could not be written: {reason.rstrip('.')}"
    if no_space(error):
        with contextlib.suppress(OSError):
            text += f" ({shutil.disk_usage(folder).free / 1e6:,.1f} MB free in {str(folder)!r})"
        return FileError(f"{text}. Free some space or choose another place, and run again.")
    if isinstance(error, FileNotFoundError):
        return FileError(f"{text}. The directory {str(folder)!r} does not exist; create it first.")
    return FileError(f"{text}. Choose another place, or fix this one.")


def keep_names(folder: Path) -> None:
    """Flush the names in a directory to disk, if the system can."""
    with contextlib.suppress(OSError):  # not on Windows, and not on every network disk
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


# -------------------------------------------------------------------------------------------------
# Sets of files from one run: either all of them are there, or all those of the run before.
#
# A new directory gets its name when everything is in it, by one rename. In an existing directory,
# with whatever else it contains, files can only be renamed one after another. The last one is then
# the seal of the set: it is removed first and written last, so that if it exists, the others are
# from the same run. Replaced files are kept next to them until then, with a note of what was there.
# After a crash, whoever finds such a note restores the earlier run (`mend`), unless the seal is
# already in place.

NEW, OLD, NOTE = ".run.", ".old", ".earlier.json"


def write_together(
    folder: Path, writers: Mapping[str, Writer], *, replaces: Iterable[str] | None = ()
) -> None:
    """Write the files of a run so that readers see either all of them or the earlier ones.

    Each writer is called with the path to write to; the last file is the seal. The files of an
    earlier run that it `replaces` are removed (None: all). One run at a time; see
    `anonbayes.io.files`.
    """
    if not folder.exists():
        with _new_folder(folder) as part:
            _write({folder / name: (write, part / name) for name, write in writers.items()})
        return
    if replaces is None:
        replaces = sorted(name for name in os.listdir(folder) if not name.startswith(NEW))
    others = tuple(name for name in replaces if name not in writers)
    files = _Exchange(folder / f"{NEW}{secrets.token_hex(4)}{PART}", tuple(writers), others)
    try:
        with _explained(folder):
            _make(files.new)
        _write({folder / name: (write, files.new / name) for name, write in writers.items()})
        with _explained(folder):
            files.run()
    finally:
        if not files.note.exists():  # otherwise `mend` needs to know how far it went
            shutil.rmtree(files.new, ignore_errors=True)


def needs_mending(folder: Path) -> bool:
    """Return whether a run was killed while its files were being renamed."""
    return any(folder.glob(f"{NEW}*{PART}/{NOTE}"))


def mend(folder: Path) -> None:
    """Finish what a killed run began, and remove what it left; requires the lock."""
    target = Path(os.path.realpath(folder))
    remove_leftovers(target.parent, target.name)
    with _explained(folder):
        for new in folder.glob(f"{NEW}*{PART}"):
            if (new / NOTE).exists():
                _Exchange.noted(new).end()
            shutil.rmtree(new, ignore_errors=True)


@dataclass(frozen=True)
class _Exchange:
    """New files, in a directory inside their destination, and the files that they replace."""

    new: Path
    names: tuple[str, ...]  # the new files, the seal last
    others: tuple[str, ...] = ()  # other files of the earlier run

    @classmethod
    def noted(cls, new: Path) -> _Exchange:
        """Read the note of a killed run; ignore names that point outside the directory."""
        note = json.loads((new / NOTE).read_text(encoding="utf-8"))
        names, others = (
            tuple(name for name in note.get(part, ()) if name == Path(name).name)
            for part in ("names", "others")
        )
        return cls(new, names or ("",), others)

    @property
    def folder(self) -> Path:
        return self.new.parent

    @property
    def old(self) -> Path:
        return self.new / OLD

    @property
    def note(self) -> Path:
        return self.new / NOTE

    def run(self) -> None:
        """Put the new files, which are complete, in the place of the earlier ones."""
        _make(self.old)
        both = (*self.others, *self.names)
        earlier = [name for name in both if os.path.lexists(self.folder / name)]
        note = {"names": self.names, "others": self.others, "earlier": earlier}
        write_text(self.note, json.dumps(note))
        try:
            for name in reversed(earlier):
                os.replace(self.folder / name, self.old / name)
            for name in self.names:
                os.replace(self.new / name, self.folder / name)
            keep_names(self.folder)
        finally:
            self.end()

    def end(self) -> None:
        """Restore the earlier files, or remove them if the seal of the new ones is in place.

        May itself be killed and called again, so the note is removed last.
        """
        if (self.new / self.names[-1]).exists():
            earlier = json.loads(self.note.read_text(encoding="utf-8"))["earlier"]
            for name in (*self.others, *self.names):
                if os.path.lexists(self.old / name):
                    os.replace(self.old / name, self.folder / name)
                elif name not in earlier:
                    (self.folder / name).unlink(missing_ok=True)
            keep_names(self.folder)
        shutil.rmtree(self.old, ignore_errors=True)
        self.note.unlink()


def _write(files: Mapping[Path, tuple[Writer, Path]]) -> None:
    """Write every file to the path given with its writer; errors show the final name."""
    for file, (write, path) in files.items():
        with _explained(file):
            write(path)


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """Create a directory that gets its name if the block ends without an error."""
    target = Path(os.path.realpath(folder))
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}{PART}")
    make_folder(target.parent)
    try:
        with _explained(folder):
            _make(part)
        yield part
        keep_names(part)
        with _explained(folder):
            os.rename(part, target)
        keep_names(target.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn a system error into one that names the file, the reason, and what to do."""
    try:
        yield
    except OSError as error:
        raise explain(error, path) from error


# -------------------------------------------------------------------------------------------------
# One run at a time per directory.
# One run at a time per directory.
#
# A run holds an operating-system lock on a small file next to the directory. The system releases it
# when the process ends, however it ends, so a lock is never stale; the content of the file only
# says who holds it.

log = logging.getLogger("anonbayes")
BUSY = {errno.EAGAIN, errno.EACCES, errno.EWOULDBLOCK, errno.EDEADLK}
FAR = 1 << 30
"""On Windows bytes are locked: this one is far beyond the text, which others must read."""


@contextlib.contextmanager
def locked(directory: str | os.PathLike[str]) -> Iterator[None]:
    """Keep other runs, in this process or another, from writing to a directory."""
    place = Path(os.path.realpath(directory))
    file = place.with_name(f".{place.name}.lock")
    handle = _take(file, os.fspath(directory))
    try:
        yield
    finally:
        # Removed while it is locked: whoever opens it in between notices that it was renamed away.
        with contextlib.suppress(OSError):
            file.unlink()
        os.close(handle)


def _take(file: Path, directory: str) -> int:
    """Open and lock the file; release a handle whose file has lost its name in the meantime."""
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
            "%s: this disk has no locks (%s); make sure that only one run at a time writes here.",
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
    with contextlib.suppress(OSError):  # on a full disk, the lock works without its text
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
