"""Distinct cleartext records, and the groups they form on given levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from anonbayes.arrays import Floats, Ints
from anonbayes.release.build import distinct_rows
from anonbayes.release.schemes.cleartext import Cleartext
from anonbayes.release.schemes.levels import Levels
from anonbayes.release.schemes.losses import Groups

__all__ = ["RecordSet"]


DENSE = 20_000_000


@dataclass(frozen=True, eq=False)
class RecordSet:
    """Distinct rows (quasi-identifiers and secret) with their multiplicities.

    Parameters
    ----------
    codes : list of numpy.ndarray
        Value code of each record, one array per attribute.
    secret : numpy.ndarray
        Code of each record's sensitive value.
    weights : numpy.ndarray
        Rows of each record.
    levels : sequence of Levels
        Levels of each attribute.
    n_secrets : int
        Size of the sensitive domain.
    """

    codes: list[Ints]
    secret: Ints
    weights: Floats
    levels: Sequence[Levels]
    n_secrets: int

    @classmethod
    def of(cls, cleartext: Cleartext, levels: Sequence[Levels]) -> tuple[RecordSet, Ints]:
        """Return the records of a cleartext table, and the record of each of its rows."""
        inverse, first, count = distinct_rows([*cleartext.codes, cleartext.secret])
        records = cls(
            [c[first].astype(np.int64) for c in cleartext.codes],
            cleartext.secret[first].astype(np.int64),
            count.astype(np.float64),
            levels,
            len(cleartext.sensitive),
        )
        return records, inverse

    @property
    def n_rows(self) -> int:
        """Number of rows that the records stand for."""
        return int(self.weights.sum())

    def take(self, rows: Ints) -> RecordSet:
        """Return some of the records."""
        return RecordSet(
            [c[rows] for c in self.codes],
            self.secret[rows],
            self.weights[rows],
            self.levels,
            self.n_secrets,
        )

    def group(self, node: Sequence[int]) -> tuple[Ints, Floats, Ints]:
        """Find the group of each record on these levels, its rows and its distinct secrets."""
        key = np.zeros(len(self.secret), dtype=np.int64)
        size = 1
        for level, codes, h in zip(self.levels, self.codes, node, strict=True):
            cells = level.cells[h]
            radix = int(cells.max()) + 1
            if size > 2**62 // radix:  # the mixed-radix number would overflow: compress it first
                key, distinct = pd.factorize(key)
                size = len(distinct)
            key = key * radix + cells[codes]
            size *= radix
        group, distinct = pd.factorize(key)
        n_groups = len(distinct)
        rows: Floats = np.bincount(group, weights=self.weights, minlength=n_groups).astype(float)
        pair = group * self.n_secrets + self.secret
        if n_groups * self.n_secrets <= DENSE:
            seen = np.zeros(n_groups * self.n_secrets, dtype=bool)
            seen[pair] = True
            secrets = seen.reshape(n_groups, self.n_secrets).sum(axis=1, dtype=np.int64)
        else:
            secrets = np.bincount(np.unique(pair) // self.n_secrets, minlength=n_groups)
        return group, rows, secrets

    def groups(self, node: Sequence[int], k: int, l: int) -> Groups:  # noqa: E741
        """Group the records on these levels; tell which groups satisfy k and distinct l."""
        group, rows, secrets = self.group(node)
        kept = (rows >= k) & (secrets >= l)
        return Groups(rows, kept, np.where(kept[group], 0.0, self.weights))
