"""Numbers of rows: what inference asks of a table, whether it is kept as rows or as counted lines."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from anonbayes.errors import TableError
from anonbayes.release.columns import frozen
from anonbayes.release.groups import distinct_rows

if TYPE_CHECKING:
    from anonbayes.release.table import ReleasedTable

__all__ = ["Records", "checked_weights", "cross_counts", "fingerprint", "tally"]

Weights = npt.NDArray[np.int64] | None


@dataclass(frozen=True, eq=False)
class Records:
    """Distinct released records with their multiplicities.

    Parameters
    ----------
    codes : numpy.ndarray
        Cell code of each attribute, shape ``(n_records, n_attributes)``.
    secret : numpy.ndarray
        Code of the sensitive cell of each record.
    count : numpy.ndarray
        How many rows show the record.
    inverse : numpy.ndarray
        Record of each line.
    """

    codes: npt.NDArray[np.int64]
    secret: npt.NDArray[np.int64]
    count: npt.NDArray[np.int64]
    inverse: npt.NDArray[np.int64]

    def __post_init__(self) -> None:
        for array in (self.codes, self.secret, self.count, self.inverse):
            array.setflags(write=False)


def checked_weights(weights: npt.ArrayLike | None, n_lines: int, scheme: str) -> Weights:
    """Read-only multiplicities of the lines, None when each line is a row."""
    if weights is None:
        return None
    found = np.asarray(weights)
    if found.shape != (n_lines,) or found.dtype.kind not in "iu" or found.min(initial=1) < 1:
        raise TableError(
            f"weights must be a whole number of at least 1 for each of the {n_lines} lines, got "
            f"{found.dtype} of shape {found.shape}."
        )
    if scheme == "vertical":
        raise TableError("A vertical table has one line per row; leave out weights.")
    return None if (found == 1).all() else frozen(found.astype(np.int64))


def tally(codes: npt.NDArray[Any], weights: Weights, size: int) -> npt.NDArray[np.int64]:
    """Number of rows of each code from 0 to size - 1, given one code per line.

    Examples
    --------
    >>> tally(np.array([0, 2, 0]), np.array([5, 1, 2]), 3).tolist()
    [7, 0, 1]
    """
    if weights is None:
        return np.bincount(codes, minlength=size)
    # Sums of whole numbers in floating point are exact up to 2**53 rows.
    return np.bincount(codes, weights=weights, minlength=size).astype(np.int64)


def cross_counts(
    rows: npt.NDArray[Any], cols: npt.NDArray[Any], weights: Weights, shape: tuple[int, int]
) -> sparse.csr_array:
    """Sparse contingency table, read-only."""
    which, keys = pd.factorize(rows.astype(np.int64) * shape[1] + cols)
    n = tally(which, weights, len(keys))
    counts = sparse.csr_array((n, (keys // shape[1], keys % shape[1])), shape=shape)
    counts.sort_indices()
    for array in (counts.data, counts.indices, counts.indptr):
        array.setflags(write=False)
    return counts


def fingerprint(table: ReleasedTable) -> str:
    """Digest of what a table says: see `ReleasedTable.fingerprint`.

    Of a horizontal table the distinct lines count, in order of appearance, and their numbers of
    rows; of a vertical table, whose posterior speaks of single items, every line.
    """
    columns = [*table.columns.items(), (table.sensitive, table.secret)]
    groups = table.group_codes.astype(np.int64) + 1
    lines: npt.NDArray[np.int64] | slice = slice(None)
    digest = hashlib.sha256(f"{table.scheme}|{table.sensitive}|{table.n_rows}".encode())
    if table.scheme == "horizontal":
        inverse, lines, _ = distinct_rows([*(c.codes for _, c in columns), groups])
        digest.update(tally(inverse, table.weights, len(lines)).astype("<i8").tobytes())
    for name, column in columns:
        codes, cells = pd.factorize(column.codes[lines])  # cells in order of appearance
        matrix = column.evidence.matrix[cells]
        digest.update(repr((name, column.domain.values, matrix.shape)).encode())
        for array, kind in (
            (matrix.indptr, "<i8"),
            (matrix.indices, "<i8"),
            (matrix.data, "<f8"),
            (codes, "<i4"),
        ):
            digest.update(np.ascontiguousarray(array, dtype=kind).tobytes())
    kept = groups[lines]
    named = np.full(len(kept), -1, dtype="<i4")
    named[kept > 0] = pd.factorize(kept[kept > 0])[0]
    digest.update(named.tobytes())
    return digest.hexdigest()[:16]
