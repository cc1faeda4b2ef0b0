"""A file that HDF5 can always write to.

When HDF5 meets a full disk it cannot close its file, and the process crashes when it ends. Here
HDF5 writes to a Python file that never refuses: once the disk does, everything goes to memory, HDF5
ends in peace, and the refusal is raised afterwards.
"""

from __future__ import annotations

import io
from typing import Any, BinaryIO

__all__ = ["PatientFile"]


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
