"""Hidden true values of a horizontal table, drawn for given parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from anonbayes.release.table import ReleasedTable

__all__ = ["draw_cleartext"]

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]


def draw_cleartext(
    table: ReleasedTable, pi_s: Array, pi: list[Array], rng: np.random.Generator
) -> list[Codes]:
    """True value of every row and attribute, given what is released and the parameters.

    Parameters
    ----------
    table : ReleasedTable
        Horizontal.
    pi_s : ndarray, shape (S,)
        Distribution of the sensitive attribute.
    pi : list of ndarray, each of shape (S, K)
        Distributions of the attributes given the sensitive value.
    rng : numpy.random.Generator
        Source.

    Returns
    -------
    list of ndarray
        Codes, one array per attribute.
    """
    columns = list(table.columns.values())
    codes = np.asarray(table.secret.codes, dtype=np.int64)
    # P(s, released cells of the row), up to a factor; drawn only where s is not known.
    if table.secrets_known:
        secret = np.asarray(table.secret_codes, dtype=np.int64)
    else:
        joint = table.secret.evidence.matrix.toarray()[codes] * pi_s
        for column, given in zip(columns, pi, strict=True):
            joint *= (column.evidence.matrix @ given.T)[column.codes]
        ladder = np.cumsum(joint, axis=1)
        draw = rng.random(len(codes))[:, None] * ladder[:, -1:]
        secret = np.minimum((draw >= ladder).sum(axis=1), joint.shape[1] - 1)
    out = []
    for column, given in zip(columns, pi, strict=True):
        matrix = column.evidence.matrix
        cells = np.asarray(column.codes, dtype=np.int64)
        uniform = rng.random(len(cells))
        out.append(_draw(matrix.indptr, matrix.indices, matrix.data, given, cells, secret, uniform))
    return out


@njit(cache=True)
def _draw(
    indptr: Any, indices: Any, data: Any, pi: Any, cells: Any, secret: Any, uniform: Any
) -> Any:
    out = np.empty(len(cells), dtype=np.int64)
    for row in range(len(cells)):
        start, stop = indptr[cells[row]], indptr[cells[row] + 1]
        total = 0.0
        for j in range(start, stop):
            total += data[j] * pi[secret[row], indices[j]]
        rest = uniform[row] * total
        chosen = start
        for j in range(start, stop):
            weight = data[j] * pi[secret[row], indices[j]]
            if weight > 0.0:
                chosen = j
                rest -= weight
                if rest < 0.0:
                    break
        out[row] = indices[chosen]
    return out
