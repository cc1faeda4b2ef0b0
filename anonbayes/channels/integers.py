"""The domain ``0, 1, ..., size - 1``, which is never written down."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from anonbayes.domains import Domain, code_dtype, plain
from anonbayes.errors import DomainError

__all__ = ["IntegerDomain"]


class IntegerDomain(Domain):
    """Domain of the integers below `size`, each its own code; takes no memory.

    Parameters
    ----------
    size : int
        Number of values.
    name : str
        Name of the attribute.

    Examples
    --------
    >>> places = IntegerDomain(10_500_393, name="place")
    >>> len(places), places.index(77), places.encode([5, 3]).tolist()
    (10500393, 77, [5, 3])
    """

    def __init__(self, size: int, name: str = "value") -> None:
        number = plain(size)
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise DomainError(f"size={size!r} is not a number of values; give an integer >= 1.")
        # A range stands for the tuple of values: it is indexed, compared and hashed like one.
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "values", range(number))
        object.__setattr__(self, "hierarchy", None)

    @property
    def is_numeric(self) -> bool:  # type: ignore[override]
        """Always true."""
        return True

    @cached_property
    def numbers(self) -> npt.NDArray[np.float64]:
        """The values as floats."""
        return np.arange(len(self), dtype=float)

    def find(self, value: object) -> int | None:
        """Return the code of `value`, or None when it is no integer of the domain."""
        item = plain(value)
        if isinstance(item, str) and item.isascii() and item.isdigit() and str(int(item)) == item:
            item = int(item)
        known = isinstance(item, int) and not isinstance(item, bool) and 0 <= item < len(self)
        return item if known else None

    def index(self, value: object) -> int:
        """Return the code of `value`; raise `DomainError` when it is no integer of the domain."""
        code = self.find(value)
        if code is None:
            raise DomainError(
                f"{value!r} is not a value of domain {self.name!r}, the integers from 0 to "
                f"{len(self) - 1}."
            )
        return code

    def encode(self, values: Iterable[object]) -> npt.NDArray[np.integer[Any]]:
        """Codes of many values; arrays of integers are checked and passed through."""
        items = values if hasattr(values, "__array__") else list(values)
        array = np.asarray(items)
        if array.dtype.kind not in "iu":
            return np.array([self.index(v) for v in items], dtype=code_dtype(len(self)))
        bad = np.flatnonzero((array < 0) | (array >= len(self)))
        if len(bad):
            raise DomainError(
                f"Column {self.name!r}, row {bad[0]}: {array[bad[0]]} is not in the domain, the "
                f"integers from 0 to {len(self) - 1}."
            )
        return array

    def decode(self, codes: npt.ArrayLike) -> npt.NDArray[Any]:
        """Values of many codes: the codes."""
        return np.asarray(codes)
