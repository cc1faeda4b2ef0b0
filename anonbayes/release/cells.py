"""One parser for released cells: text, sets and intervals become sets of domain codes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Set
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.domains import Domain, number_of
from anonbayes.errors import AnonbayesError, CellError, nearest, one_of

__all__ = ["CellParser", "is_missing", "is_pattern"]

Codes = npt.NDArray[np.int64]

_NUMBER = r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
_END = rf"(?:{_NUMBER}|[+-]?inf(?:inity)?|[+-]?∞)"
_INTERVAL = re.compile(rf"^([\[\](])\s*({_END})\s*[,;]\s*({_END})\s*([\[\])])$", re.IGNORECASE)
_RANGE = re.compile(rf"^({_NUMBER})\s*(?:-|–|—|\bto\b)\s*({_NUMBER})$")
_COMPARISON = re.compile(rf"^(>=|<=|≥|≤|>|<)\s*({_NUMBER})$")
_PREFIX = re.compile(r"^([^*]*)(\*+)$")
_SET = re.compile(r"^\{(.*)\}$", re.DOTALL)

MISSING_POLICIES = ("error", "unknown", "category")


def is_missing(cell: object) -> bool:
    """Whether a cell is None, NaN, NaT or pandas' NA.

    Examples
    --------
    >>> is_missing(float("nan")), is_missing(""), is_missing({1, 2})
    (True, False, False)
    """
    if cell is None or cell is pd.NA or cell is pd.NaT:
        return True
    return isinstance(cell, float | np.floating) and bool(np.isnan(cell))


def is_pattern(text: str) -> bool:
    """Whether a text reads as a mask, range, interval, comparison or set rather than a value.

    Examples
    --------
    >>> [is_pattern(t) for t in ("4550*", "20-29", ">=50", "{M, J}", ">50K", "well-paid")]
    [True, True, True, True, False, False]
    """
    return any(p.match(text) for p in (_INTERVAL, _RANGE, _COMPARISON, _PREFIX, _SET))


class CellParser:
    """Reads the released cells of one attribute.

    A cell is tried, in this order, as: a missing value; a value of the domain; a label of the
    hierarchy; ``*`` (the whole domain); a Python set, list, tuple or array of values; a
    `pandas.Interval`; and, if it is text, as ``{M, J}``, ``[20, 30)``, ``20-29`` (both ends
    included), ``>=50``, or a mask. One star masks any ending (``4550*``), several stars exactly
    that many characters (``455**``). Because values and labels come first, a value with a minus
    sign, a comma or a star of its own is never misread.

    Parameters
    ----------
    domain : Domain
        What the cells are sets of; its hierarchy provides further labels.
    missing : {"error", "unknown", "category"}
        Whether a missing cell is refused, stands for the whole domain, or for the category
        `missing_label`, which the domain must then contain.
    missing_label : hashable
        See `missing`.

    Examples
    --------
    >>> parser = CellParser(Domain("age", range(18, 65)))
    >>> parser.parse("20-22").tolist(), parser.parse(">=63").tolist()
    ([2, 3, 4], [45, 46])
    >>> parser.parse("20-Feb")
    Traceback (most recent call last):
    ...
    anonbayes.errors.CellError: Column 'age': cell '20-Feb' is no value, label, range or set of ...
    """

    def __init__(
        self, domain: Domain, *, missing: str = "error", missing_label: Any = "missing"
    ) -> None:
        one_of("missing", missing, MISSING_POLICIES)
        self.domain = domain
        self.missing = missing
        self.missing_label = missing_label

    @cached_property
    def everything(self) -> Codes:
        """Codes of the whole domain."""
        return np.arange(len(self.domain))

    @cached_property
    def _labels(self) -> dict[str, Codes]:
        """Codes below each label of the hierarchy, restricted to the domain."""
        hierarchy = self.domain.hierarchy
        if hierarchy is None:
            return {}
        code = np.full(len(hierarchy.leaves), -1)
        for i, leaf in enumerate(hierarchy.leaves):
            found = self.domain.find(leaf)
            code[i] = self.domain.by_label.get(str(leaf), -1) if found is None else found
        out = {}
        for label in hierarchy:
            codes = code[hierarchy.positions(label)]
            out[label] = np.sort(codes[codes >= 0])
        return out

    def parse(self, cell: Any, *, row: object = None) -> Codes:
        """Return the sorted codes of the domain values that the cell allows.

        Parameters
        ----------
        cell
            What was released.
        row : optional
            Row number or label, for the error message only.

        Raises
        ------
        CellError
            When the cell cannot be read, or allows no value of the domain.
        """
        codes = self._codes(cell, row)
        if not len(codes):
            raise CellError(
                f"{self._place(row)}: cell {_show(cell)} contains no value of the domain "
                f"({len(self.domain)} values{self._span()})."
            )
        return codes

    # -- from the most to the least specific reading --------------------------------------

    def _codes(self, cell: Any, row: object) -> Codes:
        if is_missing(cell):
            return self._missing(row)
        code = self.domain.find(cell)
        if code is not None:
            return np.array([code])
        if isinstance(cell, str):
            return self._text(cell, row)
        if isinstance(cell, pd.Interval):
            return self._interval(cell.left, cell.right, cell.closed_left, cell.closed_right, cell)
        if isinstance(cell, list | tuple | Set | np.ndarray | pd.Index | pd.Series | range):
            return self._members(list(cell), cell, row)
        raise self._unknown(cell, row)

    def _missing(self, row: object) -> Codes:
        if self.missing == "unknown":
            return self.everything
        if self.missing == "category":
            return np.array([self.domain.index(self.missing_label)])
        raise CellError(
            f"{self._place(row)}: the cell is missing. Say what it means: missing='unknown' "
            "(any value of the domain) or missing='category' (a value of its own)."
        )

    def _text(self, cell: str, row: object, *, inside_set: bool = False) -> Codes:
        for text in dict.fromkeys((cell, cell.strip())):
            code = self.domain.by_label.get(text)
            if code is not None:
                return np.array([code])
            if text in self._labels:
                return self._labels[text]
        if text == "*":
            return self.everything
        if not inside_set and (match := _SET.match(text)):
            return self._set(match.group(1), cell, row)
        codes = self._numeric_text(text, cell)
        if codes is not None:
            return codes
        if match := _PREFIX.match(text):
            return self._mask(match.group(1), len(match.group(2)))
        raise self._unknown(cell, row)

    def _numeric_text(self, text: str, cell: str) -> Codes | None:
        """Interval, range, comparison or other spelling of a number (numeric domains only)."""
        if not self.domain.is_numeric:
            return None
        numbers = self.domain.numbers
        if match := _INTERVAL.match(text):
            left, low, high, right = match.groups()
            return self._interval(_float(low), _float(high), left == "[", right == "]", cell)
        if match := _RANGE.match(text):
            return self._interval(float(match.group(1)), float(match.group(2)), True, True, cell)
        if match := _COMPARISON.match(text):
            sign, bound = match.group(1), float(match.group(2))
            keep = {
                ">=": numbers >= bound,
                "≥": numbers >= bound,
                "<=": numbers <= bound,
                "≤": numbers <= bound,
                ">": numbers > bound,
                "<": numbers < bound,
            }[sign]
            return np.flatnonzero(keep)
        if re.fullmatch(_NUMBER, text):
            return np.flatnonzero(numbers == float(text))
        return None

    def _interval(self, low: Any, high: Any, with_low: bool, with_high: bool, cell: Any) -> Codes:
        if not self.domain.is_numeric:
            raise CellError(
                f"Column {self.domain.name!r}: cell {_show(cell)} is an interval, but the domain "
                f"is not numeric. {nearest(cell, self.domain.labels)}"
            )
        if low > high:
            raise CellError(
                f"Column {self.domain.name!r}: cell {_show(cell)} runs from high to low; "
                "swap its ends."
            )
        x = self.domain.numbers
        above = x >= low if with_low else x > low
        below = x <= high if with_high else x < high
        return np.flatnonzero(above & below)

    def _mask(self, prefix: str, stars: int) -> Codes:
        """Codes of the values that a mask fits: one star any ending, more stars that many."""
        labels = self.domain.labels
        length = len(prefix) + stars
        return np.array(
            [
                code
                for code, text in enumerate(labels)
                if text.startswith(prefix)
                and (len(text) > len(prefix) if stars == 1 else len(text) == length)
            ],
            dtype=np.int64,
        )

    def _members(self, members: Iterable[Any], cell: Any, row: object) -> Codes:
        found = [self._member(m, cell, row) for m in members]
        return np.unique(np.concatenate(found)) if found else np.array([], dtype=np.int64)

    def _member(self, member: Any, cell: Any, row: object) -> Codes:
        if is_missing(member):
            raise CellError(f"{self._place(row)}: cell {_show(cell)} contains a missing value.")
        code = self.domain.find(member)
        if code is not None:
            return np.array([code])
        if isinstance(member, str):
            return self._text(member, row, inside_set=True)
        if isinstance(member, pd.Interval):
            return self._codes(member, row)
        raise self._unknown(member, row, within=cell)

    def _set(self, body: str, cell: str, row: object) -> Codes:
        """Split ``M, J`` at commas; pieces that only together name a value are joined again."""
        pieces = body.split(",")
        if not body.strip():
            return np.array([], dtype=np.int64)
        # ways[i]: how many readings the first i pieces have; last[i]: start of the last member.
        ways, last = [1] + [0] * len(pieces), [0] * (len(pieces) + 1)
        for end in range(1, len(pieces) + 1):
            for start in range(end):
                if ways[start] and self._is_member(",".join(pieces[start:end])):
                    ways[end] += ways[start]
                    last[end] = start
        if ways[-1] > 1:
            raise CellError(
                f"{self._place(row)}: cell {cell!r} can be split into values in {ways[-1]} ways; "
                "give a Python set instead of text."
            )
        if ways[-1] == 0:
            bad = next((p.strip() for p in pieces if not self._is_member(p)), body)
            raise self._unknown(bad, row, within=cell)
        members, end = [], len(pieces)
        while end:
            members.append(",".join(pieces[last[end] : end]))
            end = last[end]
        return self._members(members, cell, row)

    def _is_member(self, text: str) -> bool:
        if not text.strip():
            return False
        try:
            return len(self._text(text, None, inside_set=True)) > 0
        except AnonbayesError:
            return False

    # -- messages --------------------------------------------------------------------------

    def _place(self, row: object) -> str:
        place = f"Column {self.domain.name!r}"
        return place if row is None else f"{place}, row {row}"

    def _span(self) -> str:
        if not self.domain.is_numeric:
            return ""
        return f", from {min(self.domain.values)} to {max(self.domain.values)}"

    def _unknown(self, cell: Any, row: object, within: Any = None) -> CellError:
        where = "" if within is None else f" (in {_show(within)})"
        known = [*self.domain.labels, *self._labels]
        return CellError(
            f"{self._place(row)}: cell {_show(cell)}{where} is no value, label, range or set of "
            f"the domain. {nearest(cell, known)}"
        )


def _show(cell: Any, limit: int = 80) -> str:
    text = repr(cell)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _float(text: str) -> float:
    number = number_of(text)
    return float(text.replace("∞", "inf")) if number is None else float(number)
