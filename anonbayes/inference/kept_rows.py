"""Which rows' hidden values are kept among the draws."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from anonbayes.errors import ModelError
from anonbayes.tables.table import ReleasedTable

__all__ = ["rows_to_keep"]


def rows_to_keep(
    table: ReleasedTable, keep_cleartext: bool | npt.ArrayLike
) -> npt.NDArray[np.int64] | None:
    """Row numbers meant by `keep_cleartext`: all, none, or those listed.

    Examples
    --------
    >>> import anonbayes as ab
    >>> table = ab.datasets.load("table1_recoded")
    >>> rows_to_keep(table, [0, 3]), rows_to_keep(table, False)
    (array([0, 3]), None)
    """
    if keep_cleartext is False:
        return None
    if table.weights is not None:
        raise ModelError(
            f"keep_cleartext asks for single rows, but the table keeps {table.n_rows:,} rows as "
            f"{table.n_lines:,} distinct records; fit table.expanded() if memory allows."
        )
    if keep_cleartext is True:
        return np.arange(table.n_rows)
    rows = np.asarray(keep_cleartext)
    if rows.ndim != 1 or not np.issubdtype(rows.dtype, np.integer) or not len(rows):
        raise ModelError("keep_cleartext must be True, False, or a list of row numbers.")
    if rows.min() < 0 or rows.max() >= table.n_rows:
        raise ModelError(
            f"keep_cleartext names row {rows.max() if rows.max() >= table.n_rows else rows.min()}, "
            f"but the table has rows 0 to {table.n_rows - 1}."
        )
    return rows.astype(np.int64)
