"""Generalization: each value is released as the label of its cell."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from anonbayes.arrays import Floats
from anonbayes.channels.base import Channel, ReportEvidence, check_matrix_size
from anonbayes.domains import Domain
from anonbayes.errors import ChannelError, DomainError, nearest
from anonbayes.estimation.likelihood import MixtureLikelihood
from anonbayes.guarantees.ldp import Audit, Notion, audit_matrix
from anonbayes.guarantees.uldp import ULDP, audit_types_matrix

__all__ = ["Generalization"]


class Generalization(Channel):
    """Deterministic channel: the report is the label of the value's cell.

    Parameters
    ----------
    domain : Domain
        The true values.
    cells : mapping or sequence
        Label of each value's cell: ``{value: label}``, or one label per value in domain order.

    Notes
    -----
    It hides values within a cell perfectly and cells not at all, so it satisfies no finite LDP
    budget unless there is one cell. Its likelihood says nothing about the split inside a cell:
    ``method="mle"`` spreads a cell's share evenly, ``method="bayes"`` by the prior.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("zip", ["45501", "45502", "55501"])
    >>> channel = ab.Generalization(domain, ["4550*", "4550*", "5550*"])
    >>> channel.release(["45502", "55501"]).tolist()
    ['4550*', '5550*']
    >>> channel.estimate(["4550*", "4550*", "5550*", "5550*"]).p.tolist()
    [0.25, 0.25, 0.5]
    """

    def __init__(self, domain: Domain, cells: Mapping[Any, Hashable] | Sequence[Hashable]) -> None:
        self.domain = domain
        if isinstance(cells, Mapping):
            missing = [value for value in domain if value not in cells]
            if missing:
                raise DomainError(f"Value {missing[0]!r} of {domain.name!r} has no cell.")
            labels = [cells[value] for value in domain]
        else:
            labels = list(cells)
            if len(labels) != len(domain):
                raise DomainError(
                    f"There are {len(labels)} cell labels for {len(domain)} values of "
                    f"{domain.name!r}."
                )
        self.codes, distinct = pd.factorize(_objects(labels))
        self.cells: tuple[Any, ...] = tuple(distinct)
        self.epsilon = 0.0 if len(self.cells) == 1 else float("inf")
        self._index = {label: i for i, label in enumerate(self.cells)}

    @classmethod
    def at_level(cls, domain: Domain, level: int) -> Generalization:
        """Release each value as its label at a level of the domain's hierarchy (0: itself).

        Examples
        --------
        >>> import anonbayes as ab
        >>> codes = ["45501", "45502", "55501"]
        >>> domain = ab.Domain("zip", codes, ab.Hierarchy.from_prefix(codes))
        >>> Generalization.at_level(domain, 1).cells
        ('4550*', '5550*')
        """
        tree = domain.hierarchy
        if tree is None:
            raise DomainError(f"Domain {domain.name!r} has no hierarchy to generalize with.")
        if not 0 <= level < tree.depth:
            raise DomainError(
                f"level={level} does not exist; the hierarchy of {domain.name!r} has levels 0 to "
                f"{tree.depth - 1}."
            )
        place = {str(leaf): i for i, leaf in enumerate(tree.leaves)}
        return cls(domain, [tree.label(place[str(value)], level) for value in domain])

    def release(self, values: Iterable[object], *, seed: Any = None) -> npt.NDArray[Any]:
        """Label of each value's cell; nothing is random, so `seed` changes nothing."""
        return _objects(self.cells)[self.codes[self._encode(values)]]

    def report_codes(self, reports: Iterable[object]) -> npt.NDArray[np.int64]:
        """Cell of each report; raise `ChannelError` for a label that is no cell."""
        codes, distinct = pd.factorize(_objects(reports), use_na_sentinel=False)
        lookup = np.empty(len(distinct), dtype=np.int64)
        for i, label in enumerate(distinct):
            cell = self._index.get(label)
            if cell is None:
                row = int(np.argmax(codes == i))
                raise ChannelError(
                    f"Report {row}: {label!r} is no cell of {self.domain.name!r}. "
                    f"{nearest(label, self.cells)}"
                )
            lookup[i] = cell
        return lookup[codes]

    def matrix(self) -> Floats:
        """``Q``, shape (K, number of cells): ones and zeros."""
        check_matrix_size(self, len(self.cells))
        return np.asarray(self._membership.toarray().T)

    @property
    def _membership(self) -> sparse.csr_array:
        size = len(self.domain)
        ones = np.ones(size)
        return sparse.csr_array(
            (ones, (self.codes, np.arange(size))), shape=(len(self.cells), size)
        )

    def likelihood(self, reports: Any) -> MixtureLikelihood:
        """Likelihood of the distribution: the probability of each reported cell."""
        rows = self._membership
        n_cells = len(self.cells)
        return MixtureLikelihood(
            weights=np.bincount(self.report_codes(reports), minlength=n_cells),
            floor=np.zeros(n_cells),
            log_scale=np.zeros(n_cells),
            tilt=np.ones(len(self.domain)),
            gain=np.ones(len(self.domain)),
            indptr=rows.indptr.astype(np.int64),
            indices=rows.indices,
        )

    def evidence(self, reports: Any) -> ReportEvidence:
        """Which values each report allows."""
        codes, distinct = pd.factorize(self.report_codes(reports))
        return ReportEvidence(
            codes.astype(np.int64, copy=False),
            [self.cells[i] for i in distinct],
            sparse.csr_array(self._membership[distinct]),
        )

    def satisfies(self, notion: Notion) -> Audit:
        """Check a privacy notion on the matrix."""
        audit = audit_types_matrix if isinstance(notion, ULDP) else audit_matrix
        return audit(notion, self.domain, self.matrix(), self.cells)  # type: ignore[arg-type]


def _objects(items: Iterable[Any]) -> npt.NDArray[Any]:
    """One-dimensional object array; tuples stay items."""
    listed = list(items)
    out = np.empty(len(listed), dtype=object)
    for i, item in enumerate(listed):
        out[i] = item
    return out
