"""Domains: ordered finite sets of values. A value is represented by its position, its code."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Floats, Ints, Mask, SmallCodes, read_numbers
from anonbayes.errors import DomainError, nearest

if TYPE_CHECKING:
    import pandas as pd

    from anonbayes.hierarchies import Hierarchy


# -------------------------------------------------------------------------------------------------
# Domains: the ordered, finite set of values that an attribute can take.

EPOCH = datetime(1970, 1, 1)
_ISO_DATE = re.compile(r"\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)?")
_GERMAN_DATE = re.compile(r"(\d{2})\.(\d{2})\.(\d{4})")
_USUAL_NUMBER = re.compile(r"-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,15})?")
_SMALL_NUMBER = re.compile(r"-?[1-9](?:\.[0-9]{1,15})?e-[0-9]{2}")
"""How Python, and so our releases, write numbers below 0.0001."""


@dataclass(frozen=True, eq=False, repr=False)
class Domain:
    """Named, ordered, finite set of values: what an attribute can take. Immutable and hashable.

    Parameters
    ----------
    name : str
        Name of the attribute.
    values : iterable of hashable
        The distinct values, in the order in which they are coded and shown. A set has no order and
        is sorted.
    hierarchy : Hierarchy, optional
        Nested generalizations of the values. Its leaves may include more than `values`.

    Notes
    -----
    Everywhere in the package a value is represented by its *code*, its position in the domain.
    Two values may not look the same as text (1 and ``"1"``): a file could not tell them apart.

    Examples
    --------
    >>> import anonbayes as ab
    >>> nat = ab.Domain("Nat", ["M", "J", "C", "I"])
    >>> len(nat), nat.index("C"), nat.encode(["J", "M"]).tolist()
    (4, 2, [1, 0])
    >>> ab.Domain("age", [17, 18, 19]).is_numeric
    True
    """

    name: str
    values: tuple[Any, ...]
    hierarchy: Hierarchy | None

    def __init__(
        self, name: str, values: Iterable[Hashable], hierarchy: Hierarchy | None = None
    ) -> None:
        if not isinstance(name, str) or not name:
            raise DomainError(f"A domain needs a non-empty text as its name, got {name!r}.")
        items = [plain(v) for v in list_of(f"Values of domain {name!r}", values)]
        for item in items:
            _check_value(name, item)
        if isinstance(values, Set):
            items = sorted_values(items)
        if not items:
            raise DomainError(f"Domain {name!r} is empty; give at least one value.")
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "values", tuple(items))
        object.__setattr__(self, "hierarchy", hierarchy)
        self._check_distinct()
        if hierarchy is not None:
            hierarchy.check_covers(self)

    def _check_distinct(self) -> None:
        if len(self.by_label) == len(self) == len(self._index):
            return
        seen: dict[str, object] = {}
        for value, label in zip(self.values, self.labels, strict=True):
            if label in seen and type(value) is type(seen[label]):
                raise DomainError(
                    f"Domain {self.name!r} lists {value!r} more than once; values must be distinct."
                )
            if label in seen:
                raise DomainError(
                    f"Domain {self.name!r} mixes {seen[label]!r} ({type(seen[label]).__name__}) "
                    f"and {value!r} ({type(value).__name__}), which look the same; convert the "
                    "values to one type."
                )
            seen[label] = value
        raise DomainError(
            f"Domain {self.name!r} mixes Booleans and numbers (True equals 1 in Python); convert "
            "the values to one type."
        )

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
    def _index(self) -> dict[object, int]:
        return {v: i for i, v in enumerate(self.values)}

    @cached_property
    def is_numeric(self) -> bool:
        """Whether every value is a real number."""
        return all(map(is_number, self.values))

    @cached_property
    def numbers(self) -> Floats:
        """The values of a numeric domain as floats, in domain order."""
        if not self.is_numeric:
            odd = next(v for v in self.values if not is_number(v))
            raise DomainError(f"Domain {self.name!r} is not numeric (it contains {odd!r}).")
        numbers = np.asarray(self.values, dtype=np.float64)
        numbers.setflags(write=False)
        return numbers

    @cached_property
    def holds_dates(self) -> bool:
        """Whether the domain has no numbers but dates, so that its ranges are ranges of dates."""
        numbers, dates = (map(place, self.values) for place in (number_place, date_place))
        return all(n is None for n in numbers) and any(d is not None for d in dates)

    @cached_property
    def places(self) -> Floats:
        """Position of each value on a line, which decides what ranges contain it.

        Numbers, including numbers written as text, are their own position. In a domain without
        numbers, the position of a date is its time in seconds. All other values have no position
        (NaN), and no range contains them.

        Examples
        --------
        >>> Domain("age", ["18", "19", "unknown"]).places.tolist()
        [18.0, 19.0, nan]
        >>> days = Domain("day", ["2024-01-01", "2024-01-02"])
        >>> (days.places[1] - days.places[0]).item() / 3600
        24.0
        """
        place = date_place if self.holds_dates else number_place
        known = [place(v) for v in self.values]
        places = np.array([np.nan if p is None else p for p in known], dtype=np.float64)
        places.setflags(write=False)
        return places

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The values as distinct texts: the coordinates of xarray objects and plots."""
        return tuple(str(v) for v in self.values)

    @cached_property
    def by_label(self) -> dict[str, int]:
        """Code of each label."""
        return {text: code for code, text in enumerate(self.labels)}

    def find(self, value: object) -> int | None:
        """Return the code of `value`, or None if the domain does not contain it.

        A number equals the same number of another type (20 and 20.0) and its usual spelling as text
        (``"20"``), so that columns read from files match; a Boolean is not a number.

        Examples
        --------
        >>> age = Domain("age", [20, 21])
        >>> age.find(20.0), age.find("21"), age.find("21.0"), age.find("021"), age.find(True)
        (0, 1, 1, None, None)
        """
        item = plain(value)
        try:
            code = self._index.get(item)
        except TypeError:  # unhashable
            return None
        if code is not None:
            same_kind = isinstance(item, bool) == isinstance(self.values[code], bool)
            return code if same_kind else None
        if isinstance(item, str) or (is_number(item) and item == item):
            code = self.by_label.get(str(item))
            number = number_of(item) if code is None else None
            same = None if number is None else self._index.get(number)
            return code if same is None or isinstance(self.values[same], bool) else same
        return None

    def index(self, value: object) -> int:
        """Return the code of `value`; raise `DomainError` if the domain does not contain it."""
        code = self.find(value)
        if code is None:
            raise DomainError(
                f"{value!r} is not a value of domain {self.name!r}. {self._known(value)}"
            )
        return code

    def _known(self, value: object) -> str:
        """Sentence about what the domain holds, to end an error about `value`."""
        return nearest(value, self.labels)

    def encode(self, values: Iterable[object]) -> SmallCodes:
        """Return the codes of many values, in the smallest integer type that holds the domain.

        Raises
        ------
        DomainError
            Naming the first value outside the domain, and its row.
        """
        return self._encode(values, self.find)

    def encode_spelled(self, values: Iterable[object]) -> SmallCodes:
        """Return the codes of many values, matching values by their text as in released cells."""

        def find(value: object) -> int | None:
            code = self.find(value)
            if code is None:
                code = self.by_label.get(str(value))
            if code is None and is_number(value):  # 32, where the domain spells it 32.0
                spelled = (c for text, c in self.by_label.items() if number_of(text) == value)
                code = next(spelled, None)
            return code

        return self._encode(values, find)

    def _encode(self, values: Iterable[object], find: Callable[[object], int | None]) -> SmallCodes:
        inverse, distinct = factorize(values, where=f"Column {self.name!r}")
        lookup = np.empty(max(len(distinct), 1), dtype=code_dtype(len(self)))
        for i, value in enumerate(distinct):
            code = find(value)
            if code is None:
                row = int(np.argmax(inverse == i))
                row = values.index[row] if is_series(values) else row
                raise DomainError(
                    f"Column {self.name!r}, row {row}: {value!r} is not in the domain. "
                    f"{self._known(value)}"
                )
            lookup[i] = code
        return lookup[inverse]

    def decode(self, codes: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the values of many codes: the inverse of `encode`."""
        places: npt.NDArray[Any] = np.asarray(codes if isinstance(codes, np.ndarray) else 0.0)
        if places.dtype.kind not in "iu":
            places = read_numbers("codes", codes, error=DomainError)
        if not ((places >= 0) & (places < len(self)) & (places % 1 == 0)).all():
            raise DomainError(
                f"Codes of {self.name!r} must be whole numbers from 0 to {len(self) - 1}."
            )
        return self._array[places.astype(np.intp)]

    @cached_property
    def _array(self) -> npt.NDArray[Any]:
        return np.asarray(self.values) if self.is_numeric else object_array(self.values)

    def with_hierarchy(self, hierarchy: Hierarchy | None) -> Domain:
        """Return the same domain with another hierarchy, or with none."""
        return Domain(self.name, self.values, hierarchy)

    def renamed(self, name: str) -> Domain:
        """Return the same values under another attribute name."""
        return Domain(name, self.values, self.hierarchy)

    @classmethod
    def infer(cls, name: str, values: Iterable[object]) -> Domain:
        """Build a domain from the values of a column: numbers ascending, texts alphabetically.

        The categories of a pandas categorical, unused ones included, are kept in their order. Texts
        become numbers if all of them are numbers in their usual spelling (``"17"``, but not
        ``"017"``).

        Examples
        --------
        >>> Domain.infer("age", ["30", "9"]).values
        (9, 30)
        >>> Domain.infer("zip", ["01234", "98765"]).values
        ('01234', '98765')
        """
        if is_series(values) and hasattr(values, "cat"):
            return cls(name, values.cat.categories)
        _, distinct = factorize(values, where=f"Column {name!r}")
        seen = [plain(v) for v in distinct if not is_missing(v)]
        return cls(name, sorted_values(numbers_of(seen) or seen))


DomainsByColumn = Mapping[str, Domain | Iterable[Hashable]]
"""Domain, or list of values, by column."""


def code_dtype(n: int) -> np.dtype[Any]:
    """Smallest unsigned integer type for codes of `n` values."""
    return np.dtype(np.min_scalar_type(max(n - 1, 0)))


def list_of(what: str, values: Any) -> list[Any]:
    """Return values as a list; raise `DomainError` if they are not iterable."""
    try:
        return list(values)
    except TypeError:
        raise DomainError(f"{what}: give a list, not {values!r}.") from None


def object_array(items: Sequence[object]) -> npt.NDArray[np.object_]:
    """One-dimensional array of arbitrary objects; tuples and arrays are kept whole."""
    return np.fromiter(items, dtype=object, count=len(items))


def weights_by_value(weights: Mapping[Any, Any], domain: Domain, *, what: str) -> Floats:
    """Return weights in the order of a domain; values without a weight have weight 1."""
    vector = np.ones(len(domain))
    for value, weight in weights.items():
        place = domain.index(value)
        try:
            vector[place] = weight
        except (TypeError, ValueError):
            raise DomainError(
                f"{what}: the weight of {value!r} is {weight!r}, which is not a number."
            ) from None
    return vector


def in_domain_order(labels: Iterable[object], domain: Domain, *, what: str) -> Ints:
    """Return the positions that sort labelled numbers into the order of a domain.

    The default labels of pandas (0, 1, ...) leave the order unchanged, unless they are values.
    """
    listed = list(labels)
    counted = [plain(label) for label in listed] == list(range(len(listed)))
    if counted and any(domain.find(label) is None for label in listed):
        return np.arange(len(listed))
    codes = np.array([domain.index(label) for label in listed], dtype=np.int64)
    if len(codes) != len(domain) or len(np.unique(codes)) < len(codes):
        raise DomainError(
            f"{what} must have each value of {domain.name!r} exactly once as a label."
        )
    return np.argsort(codes)


def check_domain(domain: object) -> None:
    """Raise `DomainError` unless this is a domain."""
    if not isinstance(domain, Domain):
        shown = repr(domain)
        raise DomainError(
            f"domain={shown if len(shown) <= 60 else shown[:57] + '...'} is not a domain; give the "
            "values a name, as in ab.Domain('answer', ['yes', 'no'])."
        )


def by_value(numbers: object, domain: Domain, *, what: str) -> Any:
    """Sort a mapping or a pandas Series into the order of a domain; return anything else as is."""
    if isinstance(numbers, Mapping):
        return np.asarray([*numbers.values()])[in_domain_order(numbers, domain, what=what)]
    if is_series(numbers):
        return numbers.to_numpy()[in_domain_order(numbers.index, domain, what=what)]
    return numbers


def is_series(values: object) -> TypeGuard[pd.Series]:
    """Whether this is a pandas Series; does not import pandas."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(values, pandas.Series)


def factorize(values: object, *, where: str) -> tuple[Ints, list[Any]]:
    """Return codes and distinct values of a column, in order of appearance."""
    import pandas as pd  # not needed by a device that reports a single value

    series = values
    if not isinstance(series, pd.Series):
        series = pd.Series(object_array(list_of("values", values)), dtype=object)
    try:
        codes, distinct = pd.factorize(series, use_na_sentinel=False)
    except TypeError:
        raise DomainError(f"{where} contains values that are not hashable.") from None
    except InvalidOperation:
        raise _signalling(where) from None
    cells = list(distinct)
    if series.dtype == object and any(isinstance(v, int | float) and v in (0, 1) for v in cells):
        refuse_mixed_truth(series, where=where)
    return codes, cells


def gaps(series: pd.Series, *, where: str) -> Mask:
    """Mark the cells that pandas considers missing."""
    try:
        return series.isna().to_numpy(dtype=bool)
    except InvalidOperation:
        raise _signalling(where) from None


def _signalling(where: str) -> DomainError:
    return DomainError(f"{where} contains a signalling NaN; write missing values as None.")


def refuse_mixed_truth(values: Iterable[object], *, where: str) -> None:
    """Raise `DomainError` if Booleans are mixed with numbers, because True equals 1."""
    kinds = {isinstance(v, bool | np.bool_) for v in values if isinstance(v, _NUMBERS)}
    if len(kinds) > 1:
        raise DomainError(
            f"{where} mixes Booleans and numbers (True equals 1 in Python); convert it to one type."
        )


def is_missing(cell: Any) -> bool:
    """Whether a cell is None, NaN, NaT, pandas' NA, or blank text."""
    if isinstance(cell, str):
        return not cell or cell.isspace()
    if isinstance(cell, Decimal):
        return cell.is_nan()  # pandas fails on a signalling NaN
    if cell is None or isinstance(cell, int | float | tuple):
        return cell is None or cell != cell
    import pandas as pd

    return bool(pd.api.types.is_scalar(cell) and pd.isna(cell))


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a real number; a Boolean is not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def sorted_values(values: Sequence[object]) -> list[Any]:
    """Sort values of possibly mixed types: numbers first, then everything else by its text."""
    try:
        return sorted(values)
    except (TypeError, InvalidOperation):
        return sorted(
            values,
            key=lambda v: (0, v, "") if is_number(v) else (1, 0, f"{type(v).__name__}:{v}"),
        )


def numbers_of(texts: Sequence[object]) -> list[int | float] | None:
    """Return the numbers that texts spell, or None unless all are usual spellings and distinct."""
    numbers: list[int | float] = []
    for text in texts:
        number = number_of(text)
        if number is None:
            return None
        numbers.append(number)
    return numbers if numbers and len(set(numbers)) == len(set(texts)) else None


def number_of(text: object) -> int | float | None:
    """Return the number whose usual spelling is `text`, or None.

    Texts such as ``"007"``, ``"1e3"`` or ``"nan"``, or with too many digits for a float, are not
    numbers.
    """
    if not isinstance(text, str) or text == "-0":
        return None
    if not (_USUAL_NUMBER.fullmatch(text) or _SMALL_NUMBER.fullmatch(text)):
        return None
    number: int | float = plain(float(text))
    return number


def number_place(value: object) -> float | None:
    """Return a value as a float if it is a number or spells one, else None."""
    if is_number(value):
        return float(value)
    number = number_of(value)
    return None if number is None else float(number)


def date_place(value: object) -> float | None:
    """Return the time of a date in seconds, or None. Texts: ISO dates or ``31.12.2024``."""
    if isinstance(value, str):
        day = _GERMAN_DATE.fullmatch(value)
        text = f"{day[3]}-{day[2]}-{day[1]}" if day else value
        if not _ISO_DATE.fullmatch(text):
            return None
        try:
            value = datetime.fromisoformat(text)
        except ValueError:
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        return None
    since = value.replace(tzinfo=None) - EPOCH
    return since.total_seconds()


def plain(value: object) -> Any:
    """Convert NumPy scalars to Python's, which compare, print and serialise as expected."""
    if isinstance(value, np.datetime64 | np.timedelta64):
        import pandas as pd

        return pd.Timestamp(value) if isinstance(value, np.datetime64) else pd.Timedelta(value)
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    return value


_NUMBERS = (bool, int, float, np.bool_, np.integer, np.floating)


def _check_value(name: str, value: object) -> None:
    try:
        hash(value)
    except TypeError:
        raise DomainError(
            f"Domain {name!r}: {value!r} cannot be a value because it is not hashable "
            f"({type(value).__name__}); use a tuple or a text."
        ) from None
    if is_number(value) and abs(value) > 1e300:
        raise DomainError(f"Domain {name!r}: the number {str(value)[:20]}... is too large.")
    if not isinstance(value, str) and is_missing(value):
        raise DomainError(
            f"Domain {name!r} contains a missing value; declare a category for it instead "
            "(for example 'unknown')."
        )


# -------------------------------------------------------------------------------------------------
# The domain ``0, 1, ..., size - 1``, which is never stored.


class IntegerDomain(Domain):
    """Domain of the integers 0 to ``size - 1``, each its own code; needs no memory.

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
        if not isinstance(number, int) or isinstance(number, bool) or not 0 < number < 2**62:
            raise DomainError(
                f"size={size!r} must be the number of values, an integer of at least 1."
            )
        # A range stands in for the tuple of values: it is indexed, compared and hashed alike.
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "values", range(number))
        object.__setattr__(self, "hierarchy", None)

    @property
    def is_numeric(self) -> bool:  # type: ignore[override]
        """Always true."""
        return True

    @cached_property
    def numbers(self) -> Floats:
        """The values as floats."""
        return np.arange(len(self), dtype=float)

    def find(self, value: object) -> int | None:
        """Return the code of `value`, or None if it is not an integer of the domain."""
        item = plain(value)
        if isinstance(item, str) and item.isascii() and item.isdigit() and str(int(item)) == item:
            item = int(item)
        known = isinstance(item, int) and not isinstance(item, bool) and 0 <= item < len(self)
        return item if known else None

    def _known(self, value: object) -> str:
        return f"It holds the integers from 0 to {len(self) - 1}."

    def encode(self, values: Iterable[object]) -> SmallCodes:
        """Return the codes of many values; arrays of integers are only checked."""
        items = values if hasattr(values, "__array__") else list(values)
        array = np.asarray(items)
        if array.dtype.kind not in "iu":
            return np.array([self.index(v) for v in items], dtype=code_dtype(len(self)))
        bad = np.flatnonzero((array < 0) | (array >= len(self)))
        if len(bad):
            raise DomainError(
                f"Column {self.name!r}, row {bad[0]}: {array[bad[0]]} is not in the domain. "
                f"{self._known(bad[0])}"
            )
        return array

    def decode(self, codes: npt.ArrayLike) -> npt.NDArray[Any]:
        """Return the values of many codes, which are the codes themselves."""
        return np.asarray(codes)
