"""Files that are complete or not there: the one place of the package that writes.

A file is written under another name in the same directory, forced to the disk, and renamed; who
looks sees the old file or the new one, and a full disk, Ctrl-C or ``kill -9`` changes neither.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import io
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from anonbayes.errors import AnonbayesError, FileError

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "explain",
    "is_finished",
    "keep_names",
    "make_folder",
    "new_file",
    "no_space",
    "remove_leftovers",
    "save_figure",
    "write_bytes",
    "write_files",
    "write_frame",
    "write_text",
]

NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
PART = ".part"
Writer = Callable[[Path], object]


@contextlib.contextmanager
def new_file(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that gets its name when the block ends without an error.

    Parameters
    ----------
    path : path
        The name. A file that has it is replaced at the end, and keeps its permissions; a link is
        followed; a device or pipe is written to directly.

    Yields
    ------
    binary file
        To be written, and read back where that helps.

    Raises
    ------
    FileError
        If the system refuses, naming the file, the reason, and the free space where it is short.

    Examples
    --------
    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "answer.txt"
    >>> with new_file(place) as file:
    ...     _ = file.write(b"42")
    ...     place.exists()
    False
    >>> place.read_text()
    '42'
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
            with open(part, "x+b") as file:
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


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file completely or not at all; see `new_file`."""
    with new_file(path) as file:
        file.write(content)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a file in UTF-8 completely or not at all; bytes that are no text are shown escaped."""
    write_bytes(path, text.encode("utf-8", errors="backslashreplace"))


def write_frame(path: str | os.PathLike[str], frame: pd.DataFrame, **settings: Any) -> None:
    r"""Write a data frame as delimited UTF-8 text completely or not at all; it is not copied.

    Examples
    --------
    >>> import pandas as pd, tempfile
    >>> place = Path(tempfile.mkdtemp()) / "small.csv"
    >>> write_frame(place, pd.DataFrame({"a": [1, 2]}), index=False)
    >>> place.read_bytes()
    b'a\n1\n2\n'
    """
    with new_file(path) as file:
        frame.to_csv(file, mode="wb", lineterminator="\n", **settings)


def save_figure(path: str | os.PathLike[str], figure: Any, **settings: Any) -> None:
    """Write a matplotlib figure as PNG completely or not at all.

    Examples
    --------
    >>> import tempfile
    >>> from matplotlib.figure import Figure
    >>> place = Path(tempfile.mkdtemp()) / "empty.png"
    >>> save_figure(place, Figure(), dpi=20)
    >>> place.read_bytes()[1:4]
    b'PNG'
    """
    content = io.BytesIO()
    figure.savefig(content, format="png", **settings)
    write_bytes(path, content.getvalue())


def write_files(writers: Mapping[Path, Writer]) -> None:
    """Write several files under other names, and rename them once all are complete.

    Parameters
    ----------
    writers : mapping of Path to callable
        By file; each is called with the path to write to. Directories are made when absent.

    Examples
    --------
    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp())
    >>> write_files({place / n: lambda file: write_text(file, "done") for n in ("a", "b")})
    >>> sorted(os.listdir(place))
    ['a', 'b']
    """
    token = secrets.token_hex(4)
    parts = {file: file.with_name(f".{file.name}.{token}{PART}") for file in writers}
    try:
        for file, write in writers.items():
            make_folder(file.parent)
            try:
                write(parts[file])
            except OSError as error:  # speaks of the part, which nobody has heard of
                raise explain(error, file) from error
        for file, part in parts.items():
            os.replace(part, file)
        for folder in {file.parent for file in writers}:
            keep_names(folder)
    finally:
        for part in parts.values():
            part.unlink(missing_ok=True)


def remove_leftovers(folder: str | os.PathLike[str], name: str = "*") -> None:
    """Remove what killed runs have left of unfinished files, or directories, called `name`.

    Only for a directory that nobody else writes to; see `anonbayes.locks`.
    """
    for part in Path(folder).glob(f".{name if name == '*' else glob.escape(name)}.*{PART}"):
        if part.is_dir():
            shutil.rmtree(part, ignore_errors=True)
        else:
            part.unlink(missing_ok=True)


def is_finished(file: Path) -> bool:
    """Return whether a file is more than what a killed run has left of one."""
    return not (file.name.startswith(".") and file.name.endswith(PART))


def make_folder(path: str | os.PathLike[str]) -> None:
    """Make a directory, and those that it is in, unless it is there."""
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise explain(error, path) from error


def no_space(error: BaseException) -> bool:
    """Return whether an error, or what caused it, is that there was no room for a file."""
    found = _cause(error)
    return isinstance(found, OSError) and found.errno in NO_ROOM


def _cause(error: BaseException) -> BaseException:
    while isinstance(error, FileError) and error.__cause__ is not None:
        error = error.__cause__
    return error


def explain(error: BaseException, path: str | os.PathLike[str]) -> FileError:
    """Return an error that says why a file could not be written and what a person can do."""
    error = _cause(error)
    folder = Path(os.path.realpath(path)).parent
    reason = getattr(error, "strerror", None) or str(error)
    text = f"{os.fspath(path)!r} could not be written: {reason.rstrip('.')}"
    if no_space(error):
        with contextlib.suppress(OSError):
            text += f" ({shutil.disk_usage(folder).free / 1e6:,.1f} MB free in {str(folder)!r})"
        return FileError(f"{text}. Make room or choose another place, and run again.")
    if isinstance(error, FileNotFoundError):
        return FileError(f"{text}. There is no directory {str(folder)!r}; make it first.")
    return FileError(f"{text}. Choose another place, or mend this one.")


def keep_names(folder: Path) -> None:
    """Force the names in a directory to the disk, where the system can."""
    with contextlib.suppress(OSError):  # not on Windows, and not on every network disk
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
