"""Domains: the ordered, finite set of values that an attribute can take."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.errors import DomainError, nearest

if TYPE_CHECKING:
    from anonbayes.hierarchies import Hierarchy

__all__ = ["Domain"]


class Domain:
    """Named, ordered, finite set of values.

    Parameters
    ----------
    name : str
        Name of the attribute.
    values : iterable of hashable
        The distinct values, in the order in which they are shown and coded.
    hierarchy : Hierarchy, optional
        Nested generalizations of the values. Leaves outside `values` are left out of its cells.

    Notes
    -----
    Everywhere in the package a value is represented by its *code*, its position in the domain.

    Examples
    --------
    >>> import anonbayes as ab
    >>> nat = ab.Domain("Nat", ["M", "J", "C", "I"])
    >>> len(nat), nat.index("C"), nat.encode(["J", "M"]).tolist()
    (4, 2, [1, 0])
    >>> ab.Domain("age", [17, 18, 19]).is_numeric
    True
    """

    __slots__ = ("__dict__", "_index", "hierarchy", "name", "values")

    def __init__(
        self, name: str, values: Iterable[Hashable], hierarchy: Hierarchy | None = None
    ) -> None:
        if not isinstance(name, str) or not name:
            raise DomainError(f"A domain needs a non-empty text as its name, got {name!r}.")
        items = tuple(_plain(v) for v in values)
        if not items:
            raise DomainError(f"Domain {name!r} is empty; give at least one value.")
        for item in items:
            _check_value(name, item)
        index = {v: i for i, v in enumerate(items)}
        if len(index) != len(items):
            seen: set[Hashable] = set()
            twice = next(v for v in items if v in seen or seen.add(v))  # type: ignore[func-returns-value]
            raise DomainError(
                f"Domain {name!r} lists {twice!r} more than once; values must be distinct."
            )
        self.name = name
        self.values = items
        self._index = index
        self.hierarchy = hierarchy
        if hierarchy is not None:
            hierarchy.check_covers(self)

    def __len__(self) -> int:
        return len(self.values)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.values)

    def __contains__(self, value: object) -> bool:
        return self.find(value) is not None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Domain):
            return NotImplemented
        return self.name == other.name and self.values == other.values

    def __hash__(self) -> int:
        return hash((self.name, self.values))

    def __repr__(self) -> str:
        shown = ", ".join(repr(v) for v in self.values[:6])
        dots = ", ..." if len(self) > 6 else ""
        return f"Domain({self.name!r}, [{shown}{dots}], size={len(self)})"

    @cached_property
    def is_numeric(self) -> bool:
        """Whether every value is a real number."""
        return all(isinstance(v, int | float) and not isinstance(v, bool) for v in self.values)

    @cached_property
    def numbers(self) -> npt.NDArray[np.float64]:
        """The values of a numeric domain as floats, in domain order."""
        if not self.is_numeric:
            raise DomainError(
                f"Domain {self.name!r} is not numeric (it contains "
                f"{next(v for v in self.values if not isinstance(v, int | float))!r})."
            )
        return np.asarray(self.values, dtype=float)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The values as distinct texts: the coordinates of xarray objects and plots."""
        texts = [str(v) for v in self.values]
        if len(set(texts)) < len(texts):
            texts = [repr(v) for v in self.values]
        return tuple(texts)

    @cached_property
    def by_label(self) -> dict[str, int]:
        """Code of each label."""
        return {text: code for code, text in enumerate(self.labels)}

    def find(self, value: object) -> int | None:
        """Return the code of `value`, or None when the domain does not contain it.

        A number equals a number of another type (20 and 20.0), but a truth value is no number.
        """
        try:
            code = self._index.get(_plain(value))  # type: ignore[arg-type]
        except TypeError:  # unhashable
            return None
        if code is not None and isinstance(value, bool | np.bool_) != isinstance(
            self.values[code], bool
        ):
            return None
        return code

    def index(self, value: object) -> int:
        """Return the code of `value`; raise `DomainError` when the domain does not contain it."""
        code = self.find(value)
        if code is None:
            raise DomainError(
                f"{value!r} is not a value of domain {self.name!r}. {nearest(value, self.labels)}"
            )
        return code

    def encode(self, values: Iterable[object]) -> npt.NDArray[np.integer[Any]]:
        """Codes of many values, in the smallest integer type that holds the domain.

        Raises
        ------
        DomainError
            Naming the first value (and its row) that is outside the domain.
        """
        series = pd.Series(values if isinstance(values, pd.Series) else list(values))
        inverse, distinct = pd.factorize(series, use_na_sentinel=False)
        lookup = np.empty(max(len(distinct), 1), dtype=code_dtype(len(self)))
        for i, value in enumerate(distinct):
            code = self.find(value)
            if code is None:
                row = int(np.argmax(inverse == i))
                raise DomainError(
                    f"Column {self.name!r}, row {row}: {value!r} is not in the domain. "
                    f"{nearest(value, self.labels)}"
                )
            lookup[i] = code
        return lookup[inverse]

    def decode(self, codes: npt.ArrayLike) -> npt.NDArray[Any]:
        """Values of many codes: the inverse of `encode`."""
        return self._array[np.asarray(codes)]

    @cached_property
    def _array(self) -> npt.NDArray[Any]:
        if self.is_numeric:
            return np.asarray(self.values)
        out = np.empty(len(self), dtype=object)
        out[:] = self.values
        return out

    def with_hierarchy(self, hierarchy: Hierarchy | None) -> Domain:
        """Return the same domain with another hierarchy."""
        return Domain(self.name, self.values, hierarchy)

    @classmethod
    def infer(cls, name: str, values: Iterable[object]) -> Domain:
        """Domain of the values seen in a column: numbers ascending, texts in alphabetical order.

        A pandas categorical keeps the order of its categories. Text that is the usual spelling
        of a number (``"17"``, but not ``"017"``) becomes that number when all values are such.

        Examples
        --------
        >>> Domain.infer("age", ["30", "9"]).values
        (9, 30)
        >>> Domain.infer("zip", ["01234", "98765"]).values
        ('01234', '98765')
        """
        series = values if isinstance(values, pd.Series) else pd.Series(list(values), dtype=object)
        if isinstance(series.dtype, pd.CategoricalDtype):
            return cls(name, series.cat.categories)
        distinct = [_plain(v) for v in series.dropna().unique()]
        return cls(name, sorted_values(numbers_of(distinct) or distinct))


def code_dtype(n: int) -> np.dtype[Any]:
    """Smallest unsigned integer type with `n` different codes.

    Examples
    --------
    >>> code_dtype(256), code_dtype(257)
    (dtype('uint8'), dtype('uint16'))
    """
    return np.dtype(np.min_scalar_type(max(n - 1, 0)))


def sorted_values(values: Sequence[Any]) -> list[Any]:
    """Sort values of possibly mixed types: numbers first, then everything else by its text."""
    try:
        return sorted(values)
    except TypeError:
        return sorted(
            values,
            key=lambda v: (
                (0, v, "") if isinstance(v, int | float) else (1, 0, f"{type(v).__name__}:{v}")
            ),
        )


def numbers_of(texts: Sequence[Any]) -> list[int | float] | None:
    """Numbers that the texts spell, or None when one of them is not the usual spelling of one."""
    numbers: list[int | float] = []
    for text in texts:
        number = number_of(text)
        if number is None:
            return None
        numbers.append(number)
    return numbers or None


def number_of(text: Any) -> int | float | None:
    """Return the number whose usual spelling is `text`, or None.

    Codes such as ``"007"``, ``"1e3"`` or ``"nan"`` stay texts.

    Examples
    --------
    >>> number_of("17"), number_of("-2.5"), number_of("017"), number_of("inf")
    (17, -2.5, None, None)
    """
    if not isinstance(text, str):
        return None
    for kind in (int, float):
        try:
            number = kind(text)
        except (ValueError, OverflowError):
            continue
        if np.isfinite(number) and str(number) == text:
            return number
    return None


def _plain(value: Any) -> Any:
    """Strip NumPy's scalar types, so that values compare, print and serialise as Python's."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


def _check_value(name: str, value: Any) -> None:
    try:
        hash(value)
    except TypeError:
        raise DomainError(
            f"Domain {name!r}: {value!r} cannot be a value because it is not hashable "
            f"({type(value).__name__}); use a tuple or a text."
        ) from None
    if value is None or value is pd.NA or value is pd.NaT or value != value:
        raise DomainError(
            f"Domain {name!r} contains a missing value; declare a category for it instead "
            "(for example 'unknown')."
        )
