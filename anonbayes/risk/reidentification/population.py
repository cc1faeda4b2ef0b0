"""The users as an attacker sees them: who holds what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from anonbayes.domains import Domain
from anonbayes.errors import AnonbayesError

__all__ = ["Population"]


@dataclass(frozen=True, eq=False)
class Population:
    """All users with their true values, sorted by value when needed."""

    domain: Domain
    codes: npt.NDArray[np.int64]

    @classmethod
    def of(cls, domain: Domain, values: Iterable[object]) -> Population:
        """Read the users' true values."""
        column: Any = values
        codes = domain.encode(column).astype(np.int64)
        if len(codes) == 0:
            raise AnonbayesError("There are no users to name.")
        return cls(domain, codes)

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def counts(self) -> npt.NDArray[np.int64]:
        """Number of holders of each value."""
        return np.bincount(self.codes, minlength=len(self.domain)).astype(np.int64)

    @cached_property
    def _by_value(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        order = np.argsort(self.codes, kind="stable")
        return order, np.concatenate([[0], np.cumsum(self.counts)])

    def holder(
        self, value: npt.NDArray[np.int64], place: npt.NDArray[np.int64]
    ) -> npt.NDArray[np.int64]:
        """User at a place among the holders of a value."""
        order, start = self._by_value
        return order[start[value] + place]
