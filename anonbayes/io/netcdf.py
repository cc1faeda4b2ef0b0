"""netCDF files that survive a full disk and notice flipped bits."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any, BinaryIO

from anonbayes.errors import FileError

__all__ = ["PatientFile", "check_seal", "seal"]


# -------------------------------------------------------------------------------------------------
# A file that HDF5 can always write to.
#
# When HDF5 meets a full disk it cannot close its file, and the process crashes when it ends. Here
# HDF5 writes to a Python file that never refuses: once the disk does, everything goes to memory,
# HDF5 ends in peace, and the refusal is raised afterwards.


class PatientFile(io.RawIOBase):
    """File that goes on in memory when the disk refuses to.

    Parameters
    ----------
    file : binary file
        Open for writing and reading.

    Attributes
    ----------
    refusal : OSError or None
        Why the disk did not take everything. What it took is of no use then.

    Examples
    --------
    >>> with open("/dev/full", "w+b", buffering=0) as full:
    ...     patient = PatientFile(full)
    ...     _ = patient.write(b"all is well")
    ...     _ = patient.seek(4)
    ...     patient.read(2), patient.refusal.strerror
    (b'is', 'No space left on device')
    """

    def __init__(self, file: BinaryIO) -> None:
        # A buffer would hold on to what the disk refused, and try again at every step.
        self._file: Any = getattr(file, "raw", file)
        self.refusal: OSError | None = None

    def readable(self) -> bool:
        """Always."""
        return True

    def writable(self) -> bool:
        """Always."""
        return True

    def seekable(self) -> bool:
        """Always."""
        return True

    def tell(self) -> int:
        """Where the next byte goes."""
        return int(self._file.tell())

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        """Go somewhere."""
        return int(self._file.seek(offset, whence))

    def readinto(self, buffer: Any, /) -> int:
        """Read what was written before."""
        return int(self._file.readinto(buffer))

    def write(self, content: Any, /) -> int:
        """Write all of it, in one place or the other."""
        start = self._file.tell()
        rest = memoryview(content).cast("B")
        size = len(rest)
        try:
            while len(rest):  # an unbuffered file may take less than it is given
                rest = rest[self._file.write(rest) :]
        except OSError as error:
            self._refuse(error)
            self._file.seek(start)
            self._file.write(memoryview(content).cast("B"))
        return size

    def truncate(self, size: int | None = None, /) -> int:
        """Set the length."""
        try:
            return int(self._file.truncate(size))
        except OSError as error:
            self._refuse(error)
            return int(self._file.truncate(size))

    def flush(self) -> None:
        """Hand everything on; asked for at the end, when HDF5 has closed."""

    def _refuse(self, error: OSError) -> None:
        self.refusal = error
        memory = io.BytesIO()
        left = self._file.seek(0, io.SEEK_END)  # a device has no end to read up to
        self._file.seek(0)
        while left > 0 and (part := self._file.read(left)):
            left -= memory.write(part)
        self._file = memory


# -------------------------------------------------------------------------------------------------
# Digests at the end of files, by which a reader notices damage before it believes anything.
#
# HDF5 hands on flipped bits in plain numbers without a word, and some flipped bits in its
# structures keep it busy for ever. So a file is checked as a whole before HDF5 sees it. What
# follows the end that HDF5 has noted is ignored by its readers, and removed when a program changes
# the file.

MARK = b"\nanonbayes sha256 "
LENGTH = len(MARK) + 64


def seal(file: BinaryIO) -> None:
    r"""Append a digest to a file that is open for writing and reading.

    Examples
    --------
    >>> import io
    >>> file = io.BytesIO(b"content")
    >>> seal(file)
    >>> file.getvalue()[:35]
    b'content\nanonbayes sha256 ed7002b439'
    """
    digest = _digest(file, file.seek(0, 2))
    file.seek(0, 2)
    file.write(MARK + digest)


def check_seal(path: Path) -> None:
    """Raise `FileError` if a file is not what was sealed; one without a seal is let through."""
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - LENGTH))
        end = file.read()
        if not end.startswith(MARK):
            return
        if _digest(file, size - LENGTH) == end[len(MARK) :]:
            return
    raise FileError(
        f"path={str(path)!r} is damaged: it is not what was written. Take it from a backup, or "
        "make it again."
    )


def _digest(file: BinaryIO, size: int) -> bytes:
    """Digest of the first bytes of a file, in hexadecimal digits."""
    file.seek(0)
    digest = hashlib.sha256()
    while block := file.read(min(size, 1 << 20)):
        digest.update(block)
        size -= len(block)
    return digest.hexdigest().encode()
