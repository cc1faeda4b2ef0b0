"""Files of one run that belong together: all of them, or those of the run before.

A directory that is new gets its name when everything is in it: one rename. In a directory that is
there, next to whatever else it holds, files can only be renamed one after the other. The last one
named is then the seal of the set: it goes first and comes last, so that where it is, the others are
of the same run. What the others replace is kept beside them until then, with a note of what was
there; who finds such a note after a crash puts the earlier run back (`mend`), unless the seal has
its name already.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from anonbayes.files import (
    PART,
    Writer,
    explain,
    keep_names,
    make_folder,
    remove_leftovers,
    write_text,
)

__all__ = ["mend", "needs_mending", "write_together"]

NEW, OLD, NOTE = ".run.", ".old", ".earlier.json"


def write_together(folder: Path, writers: Mapping[str, Writer]) -> None:
    """Write the files of one run: who looks sees all of them, or the earlier ones.

    Parameters
    ----------
    folder : path
        Where; made when absent. Only one run at a time may write there; see `anonbayes.locks`.
    writers : mapping of str to callable
        By name of a file; each is called with the path to write to. The last one is the seal.

    Examples
    --------
    >>> import tempfile
    >>> place = Path(tempfile.mkdtemp()) / "run"
    >>> for text in ("first", "second"):
    ...     write_together(place, {n: lambda file: write_text(file, text) for n in ("a", "b")})
    >>> {file.name: file.read_text() for file in sorted(place.iterdir())}
    {'a': 'second', 'b': 'second'}
    """
    if not folder.exists():
        with _new_folder(folder) as part:
            _write({folder / name: (write, part / name) for name, write in writers.items()})
        return
    files = _Exchange(folder / f"{NEW}{secrets.token_hex(4)}{PART}", tuple(writers))
    try:
        with _explained(folder):
            files.new.mkdir()
        _write({folder / name: (write, files.new / name) for name, write in writers.items()})
        with _explained(folder):
            files.run()
    finally:
        if not files.note.exists():  # or `mend` wants to know how far it went
            shutil.rmtree(files.new, ignore_errors=True)


def needs_mending(folder: Path) -> bool:
    """Return whether a run was killed while its files got their names."""
    return any(folder.glob(f"{NEW}*{PART}/{NOTE}"))


def mend(folder: Path, names: Iterable[str]) -> None:
    """End what a killed run has begun, and remove what it has left; only for who has the lock.

    Parameters
    ----------
    folder : path
        The directory, which need not be there.
    names : iterable of str
        The files of a run in it, the seal last.
    """
    known, target = tuple(names), Path(os.path.realpath(folder))
    remove_leftovers(target.parent, target.name)
    with _explained(folder):
        for new in folder.glob(f"{NEW}*{PART}"):
            files = _Exchange(new, known)
            if files.note.exists():
                files.end()
            shutil.rmtree(new, ignore_errors=True)


@dataclass(frozen=True)
class _Exchange:
    """New files in a directory inside the one they are meant for, and with them what they replace.

    Parameters
    ----------
    new : Path
        That directory.
    names : tuple of str
        The files.
    """

    new: Path
    names: tuple[str, ...]

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
        """Put the new files, which are complete, into the place of the earlier ones."""
        self.old.mkdir()
        earlier = [name for name in self.names if os.path.lexists(self.folder / name)]
        write_text(self.note, json.dumps(earlier))
        try:
            for name in reversed(earlier):
                os.replace(self.folder / name, self.old / name)
            for name in self.names:
                os.replace(self.new / name, self.folder / name)
            keep_names(self.folder)
        finally:
            self.end()

    def end(self) -> None:
        """Go back to the earlier files, or forget them if the seal of the new ones has its name.

        May itself be killed, and called again; so the note goes last.
        """
        if (self.new / self.names[-1]).exists():
            earlier = json.loads(self.note.read_text(encoding="utf-8"))
            for name in self.names:
                if os.path.lexists(self.old / name):
                    os.replace(self.old / name, self.folder / name)
                elif name not in earlier:
                    (self.folder / name).unlink(missing_ok=True)
            keep_names(self.folder)
        shutil.rmtree(self.old, ignore_errors=True)
        self.note.unlink()


def _write(files: Mapping[Path, tuple[Writer, Path]]) -> None:
    """Write every file to the path beside its writer; errors speak of the name it is meant for."""
    for file, (write, path) in files.items():
        with _explained(file):
            write(path)


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """Make a directory that gets its name when the block ends without an error."""
    target = Path(os.path.realpath(folder))
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}{PART}")
    make_folder(target.parent)
    try:
        with _explained(folder):
            part.mkdir()
        yield part
        keep_names(part)
        with _explained(folder):
            os.rename(part, target)
        keep_names(target.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Turn an error of the system into one that names the file, the reason, and what to do."""
    try:
        yield
    except OSError as error:
        raise explain(error, path) from error
