"""Sparse arrays whose indices are checked.

SciPy believes the indices that a sparse array is made of: one beyond the shape is read, and
written, outside the arrays by the next product, and Python ends somewhere else much later.
"""

from __future__ import annotations

from typing import Any

from scipy import sparse


def check_indices() -> None:
    """Have every compressed array that is made from now on looked through."""
    for kind in (sparse.csr_array, sparse.csc_array, sparse.csr_matrix, sparse.csc_matrix):
        original = kind.check_format
        if original.__module__ == __name__:
            return

        def fully(self: Any, full_check: bool = True, check: Any = original) -> None:
            check(self, full_check=True)

        kind.check_format = fully
