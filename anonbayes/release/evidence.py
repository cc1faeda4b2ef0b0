"""Evidence: the distinct released cells of one attribute and what each says about the truth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import sparse

from anonbayes.domains import Domain
from anonbayes.errors import CellError

__all__ = ["Evidence"]


@dataclass(frozen=True, eq=False)
class Evidence:
    """Likelihood vectors ``E_y(k) = P(released y | true value k)`` of the distinct cells.

    A generalized cell has ones on its members (hard evidence), a report of a randomized
    mechanism has the probabilities of the report (soft evidence). See MODEL 1.1.

    Parameters
    ----------
    domain : Domain
        The attribute's domain, of size K.
    labels : tuple
        What was released, one object per cell.
    matrix : scipy.sparse.csr_array
        Cells by domain values, shape ``(len(labels), K)``, read-only, no stored zeros.

    Examples
    --------
    >>> import numpy as np
    >>> nat = Domain("Nat", ["M", "J", "C"])
    >>> cells = Evidence.from_members(nat, [np.array([0, 1]), np.array([2])], ["{M, J}", "C"])
    >>> cells.matrix.toarray().tolist(), cells.is_nested
    ([[1.0, 1.0, 0.0], [0.0, 0.0, 1.0]], True)
    """

    domain: Domain
    labels: tuple[Any, ...]
    matrix: sparse.csr_array

    def __post_init__(self) -> None:
        matrix = sparse.csr_array(self.matrix, dtype=np.float64, copy=True)
        if matrix.shape != (len(self.labels), len(self.domain)):
            raise CellError(
                f"Column {self.domain.name!r}: evidence of shape {matrix.shape} for "
                f"{len(self.labels)} cells and {len(self.domain)} values."
            )
        bad = ~(np.isfinite(matrix.data) & (matrix.data >= 0))
        if bad.any():
            raise CellError(
                f"Column {self.domain.name!r}: evidence must be non-negative and finite, "
                f"got {matrix.data[bad][0]!r}."
            )
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        empty = np.flatnonzero(np.diff(matrix.indptr) == 0)
        if len(empty):
            raise CellError(
                f"Column {self.domain.name!r}: cell {self.labels[empty[0]]!r} is impossible for "
                "every value of the domain (likelihood 0)."
            )
        for array in (matrix.data, matrix.indices, matrix.indptr):
            array.setflags(write=False)
        object.__setattr__(self, "labels", tuple(self.labels))
        object.__setattr__(self, "matrix", matrix)

    def __reduce__(self) -> tuple[Any, ...]:
        return Evidence, (self.domain, self.labels, self.matrix)

    def __len__(self) -> int:
        return len(self.labels)

    def __repr__(self) -> str:
        kind = "hard" if self.is_hard else "soft"
        return f"Evidence({self.domain.name!r}, {len(self)} {kind} cells)"

    def members(self, cell: int) -> npt.NDArray[np.int32]:
        """Codes of the values that are possible under a cell, ascending."""
        return self.matrix.indices[self.matrix.indptr[cell] : self.matrix.indptr[cell + 1]]

    @cached_property
    def sizes(self) -> npt.NDArray[np.int64]:
        """Number of possible values of each cell."""
        return np.diff(self.matrix.indptr).astype(np.int64)

    @cached_property
    def is_hard(self) -> bool:
        """Whether every entry is zero or one: cells are sets."""
        return bool((self.matrix.data == 1.0).all())

    @cached_property
    def overlap(self) -> tuple[int, int] | None:
        """Two cells that overlap without being nested, or None when there are no such cells.

        Cells are laid over the domain from the largest to the smallest. Each must fall into a
        single region of what has been laid so far, otherwise it cuts through an earlier cell.
        The cost is the number of memberships.
        """
        owner = np.full(len(self.domain), -1)
        for cell in np.argsort(-self.sizes, kind="stable"):
            members = self.members(cell)
            owners = np.unique(owner[members])
            if len(owners) > 1:
                # The smallest of the owners meets this cell without containing it.
                other = min(owners[owners >= 0], key=lambda o: self.sizes[o])
                return int(other), int(cell)
            owner[members] = cell
        return None

    @property
    def is_nested(self) -> bool:
        """Whether the cells are sets of which any two are nested or disjoint (MODEL 1.3)."""
        return self.is_hard and self.overlap is None

    @classmethod
    def from_members(
        cls, domain: Domain, members: Sequence[npt.ArrayLike], labels: Iterable[Any]
    ) -> Evidence:
        """Hard evidence from the codes that each cell allows."""
        arrays = [np.sort(np.asarray(m, dtype=np.int32)) for m in members]
        indptr = np.concatenate([[0], np.cumsum([len(m) for m in arrays])]).astype(np.int32)
        indices = np.concatenate(arrays) if arrays else np.array([], dtype=np.int32)
        matrix = sparse.csr_array(
            (np.ones(len(indices)), indices, indptr), shape=(len(arrays), len(domain))
        )
        return cls(domain, tuple(labels), matrix)

    @classmethod
    def exact(cls, domain: Domain) -> Evidence:
        """Evidence of a column released in clear: every value is a cell of its own."""
        size = len(domain)
        return cls(domain, domain.values, sparse.eye_array(size, format="csr"))
