"""Digests at the end of files, by which a reader notices damage before it believes anything.

HDF5 hands on flipped bits in plain numbers without a word, and some flipped bits in its structures
keep it busy for ever. So a file is checked as a whole before HDF5 sees it. What follows the end
that HDF5 has noted is ignored by its readers, and removed when a program changes the file.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import BinaryIO

from anonbayes.errors import FileError

__all__ = ["check_seal", "seal"]

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
