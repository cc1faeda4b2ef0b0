"""Parser of released cells: text, sets and intervals become sets of domain codes."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Set
from datetime import datetime
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from anonbayes.arrays import Floats, Ints
from anonbayes.domains import Domain, date_place, is_missing
from anonbayes.errors import CellError, nearest, one_of

_NUMBER = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?"
_END = rf"(?:{_NUMBER}|[+-]?inf(?:inity)?|[+-]?∞)"
_DATE = r"(?:\d{4}-\d{2}-\d{2}(?:[ T]\d{2}:\d{2}(?::\d{2}(?:\.\d+)?)?)?|\d{2}\.\d{2}\.\d{4})"
_INTERVAL = re.compile(
    rf"([\[\](])\s*({_DATE}|{_END})\s*[,;]\s*({_DATE}|{_END})\s*([\[\])])", re.IGNORECASE
)
_RANGE = re.compile(rf"({_NUMBER})\s*(?:-|–|—|\bto\b)\s*({_NUMBER})|({_DATE})\s+to\s+({_DATE})")
_COMPARISON = re.compile(rf"(>=|<=|≥|≤|>|<)\s*({_DATE}|{_NUMBER})")
_PLAIN_NUMBER = re.compile(_NUMBER)
_END_NUMBER = re.compile(_END, re.IGNORECASE)
_MASK = re.compile(r"([^*]*)(\*+)")
_SET = re.compile(r"(?:frozenset\()?\{(.*)\}\)?", re.DOTALL)
_QUOTED = re.compile(r"(['\"])(.*)\1", re.DOTALL)

MISSING_POLICIES = ("error", "unknown", "category")


def is_set_text(text: str) -> bool:
    """Whether a text reads as a set in braces."""
    return _SET.fullmatch(text) is not None


def is_pattern(text: str) -> bool:
    """Whether a text looks like a mask, range, interval, comparison or set rather than a value."""
    return any(p.fullmatch(text) for p in (_INTERVAL, _RANGE, _COMPARISON, _MASK, _SET))


def split_set(text: str) -> list[str]:
    """Split the text of a set at its commas, and remove quotes."""
    match = _SET.fullmatch(text)
    parts: list[str] = []
    for piece in match.group(1).split(",") if match else []:
        if parts and _INTERVAL.fullmatch(f"{parts[-1]},{piece}".strip()):
            parts[-1] += f",{piece}"  # [24.4, 25.6]
        else:
            parts.append(piece)
    return [_unquoted(part.strip()) for part in parts if part.strip()]


def range_ends(text: str) -> tuple[str, str, bool, bool] | None:
    """Ends of a range as written, and whether each is included; None if this is not a range."""
    if match := _INTERVAL.fullmatch(text):
        left, low, high, right = match.groups()
        return low, high, left == "[", right == "]"
    if match := _RANGE.fullmatch(text):
        low, high = (end for end in match.groups() if end is not None)
        return low, high, True, True
    return None


class CellParser:
    """Reads the released cells of one attribute.

    A cell is read as the first of the following that applies: a value of the domain; a missing
    value; a label of the hierarchy; ``*`` (the whole domain); a Python set, list, tuple, range or
    array of values; a `pandas.Interval`; or text such as ``{M, J}``, ``[20, 30)``, ``20-29`` (both
    ends included), ``>=50``, ``[2024-01-01, 2024-03-31]``, or a mask. In a mask, one star stands
    for any ending (``4550*``), several stars for exactly that many characters (``455**``). Ranges
    apply to numbers, to texts that spell numbers, and to dates. Because values and labels come
    first, a value that contains a minus sign, a comma or a star is never misread. An empty text is
    a missing value unless the domain lists it. With ``tells=False``, messages name no value that
    does not occur in the cell itself.
    """

    def __init__(
        self,
        domain: Domain,
        *,
        missing: str = "error",
        missing_label: object = "missing",
        tells: bool = True,
    ) -> None:
        one_of("missing", missing, MISSING_POLICIES)
        self.domain = domain
        self._tells = tells
        self.missing = missing
        self.missing_label = missing_label

    def parse(self, cell: object, *, row: object = None) -> Ints:
        """Return the sorted codes of the values that a cell allows; errors name `row`."""
        try:
            codes = self._value_or_missing(cell)
            if codes is None:
                codes = self._several(cell)
            if codes is None:
                raise _Unreadable(self._unknown(cell))
        except _Unreadable as problem:
            raise CellError(f"{self._place(row)}: cell {_show(cell)} {problem}") from None
        if not len(codes):
            raise CellError(
                f"{self._place(row)}: cell {_show(cell)} contains no value of the domain "
                f"({len(self.domain)} values{self._span()})."
            )
        return codes

    # -- the domain -------------------------------------------------------------------------

    @cached_property
    def _everything(self) -> Ints:
        return np.arange(len(self.domain))

    @cached_property
    def _places(self) -> Floats:
        """Positions of the values on a line; NaN for those that have none and fit no range."""
        return self.domain.numbers if self.domain.is_numeric else self.domain.places

    @cached_property
    def _has_places(self) -> bool:
        return not bool(np.isnan(self._places).all())

    @cached_property
    def _labels(self) -> dict[str, Ints]:
        """Codes below each label of the hierarchy, restricted to the domain."""
        hierarchy = self.domain.hierarchy
        if hierarchy is None:
            return {}
        of_leaf = [self.domain.find(leaf) for leaf in hierarchy.leaves]
        code = np.array([-1 if c is None else c for c in of_leaf])
        out = {}
        for label in hierarchy:
            codes = code[hierarchy.positions(label)]
            out[label] = np.sort(codes[codes >= 0])
        return out

    @cached_property
    def _sorted_labels(self) -> list[tuple[str, int]]:
        return sorted((text, code) for code, text in enumerate(self.domain.labels))

    @cached_property
    def _commas(self) -> dict[str, set[int]]:
        """Numbers of commas in values and labels, by the text before the first comma."""
        out: dict[str, set[int]] = {}
        for text in (*self.domain.labels, *self._labels):
            if n := text.count(","):
                out.setdefault(text[: text.index(",")].strip(), set()).add(n)
        return out

    # -- ways to read a cell, most specific first; None if one does not apply ------------------

    def _value_or_missing(self, cell: object) -> Ints | None:
        code = self.domain.find(cell)
        if code is not None:
            return np.array([code])
        if not is_missing(cell):
            return None
        if self.missing == "unknown":
            return self._everything
        if self.missing == "category":
            return np.array([self.domain.index(self.missing_label)])
        raise _Unreadable(
            "is missing. Specify what that means: missing='unknown' (any value of the domain) or "
            "missing='category' (a value of its own)."
        )

    def _several(self, cell: object) -> Ints | None:
        if isinstance(cell, str):
            text = cell.strip()
            match = _SET.fullmatch(text)
            codes = self._text(cell)
            return self._set(match.group(1)) if codes is None and match else codes
        if isinstance(cell, pd.Interval):
            return self._interval(cell.left, cell.right, cell.closed_left, cell.closed_right)
        if isinstance(cell, list | tuple | Set | np.ndarray | pd.Index | pd.Series | range):
            return self._members(np.ravel(cell) if isinstance(cell, np.ndarray) else cell)
        return None

    def _text(self, cell: str) -> Ints | None:
        """Read a text that is not a set in braces."""
        text = cell.strip()
        for spelling in (cell, text):
            code = self.domain.by_label.get(spelling)
            if code is not None:
                return np.array([code])
            if spelling in self._labels:
                return self._labels[spelling]
        if text == "*":
            return self._everything
        codes = self._range_text(text) if self._has_places else None
        if codes is None and (match := _MASK.fullmatch(text)):
            codes = self._mask(match.group(1), len(match.group(2)))
        return codes

    def _range_text(self, text: str) -> Ints | None:
        """Read an interval, a range, a comparison or another spelling of a number."""
        if match := _INTERVAL.fullmatch(text):
            left, low, high, right = match.groups()
            return self._interval(self._end(low), self._end(high), left == "[", right == "]")
        if _PLAIN_NUMBER.fullmatch(text) and not self.domain.holds_dates:
            return np.flatnonzero(self._places == float(text))
        if match := _RANGE.fullmatch(text):
            low, high = (end for end in match.groups() if end is not None)
            return self._interval(self._end(low), self._end(high), True, True)
        if match := _COMPARISON.fullmatch(text):
            sign, bound = match.group(1), self._end(match.group(2))
            inclusive = sign in (">=", "<=", "≥", "≤")
            if sign in (">", ">=", "≥"):
                return self._interval(bound, np.inf, inclusive, True)
            return self._interval(-np.inf, bound, True, inclusive)
        return None

    def _end(self, text: str) -> float:
        """Return the position of the end of a range: a number, or a date in a domain of dates."""
        dates = self.domain.holds_dates
        if _END_NUMBER.fullmatch(text):
            number = float(text.replace("∞", "inf"))
            if dates and np.isfinite(number):
                raise _Unreadable("is a range of numbers, but the domain consists of dates.")
            return number
        if not dates:
            raise _Unreadable("is a range of dates, but the domain consists of numbers.")
        place = date_place(text)
        if place is None:
            raise _Unreadable(f"contains {text!r}, which is not a date.")
        return place

    def _interval(self, low: Any, high: Any, with_low: bool, with_high: bool) -> Ints:
        if not self._has_places:
            raise _Unreadable(
                f"is an interval, but the domain has no numbers. Its values: {self._some_labels()}."
            )
        if self.domain.holds_dates and isinstance(low, datetime):
            low, high = date_place(low), date_place(high)
        if not isinstance(low, int | float | np.number) or isinstance(low, np.timedelta64):
            raise _Unreadable("is an interval of times, but the domain consists of numbers.")
        if low > high:
            raise _Unreadable("has its lower end above its upper end; swap them.")
        x = self._places
        above = x >= low if with_low else x > low
        below = x <= high if with_high else x < high
        return np.flatnonzero(above & below)

    def _mask(self, prefix: str, stars: int) -> Ints:
        """Codes of the values that match a mask: one star any ending, several exactly that many."""
        length = len(prefix) + stars
        fitting = []
        for i in range(bisect_left(self._sorted_labels, (prefix, -1)), len(self.domain)):
            text, code = self._sorted_labels[i]
            if not text.startswith(prefix):
                break
            if len(text) == length or (stars == 1 and len(text) > length):
                fitting.append(code)
        return np.sort(np.array(fitting, dtype=np.int64))

    def _members(self, members: Iterable[object]) -> Ints:
        """Return the union of the members of a collection: values, labels, texts or intervals."""
        parts = []
        for member in members:
            code = self.domain.find(member)
            if code is not None:
                parts.append(np.array([code]))
                continue
            if is_missing(member):
                raise _Unreadable("contains a missing value.")
            codes = None
            if isinstance(member, str):
                codes = self._text(member)
            elif isinstance(member, pd.Interval):
                codes = self._several(member)
            if codes is None:
                raise _Unreadable(f"contains {_show(member)}, which {self._unknown(member)}")
            parts.append(codes)
        return np.unique(np.concatenate(parts)) if parts else np.array([], dtype=np.int64)

    def _set(self, body: str) -> Ints:
        """Split ``M, J`` at its commas, rejoining pieces that only together name a value."""
        if not body.strip():
            return np.array([], dtype=np.int64)
        pieces = body.split(",")
        # ways[i]: number of readings of the first i pieces; last[i]: last member of one of them.
        ways = [1] + [0] * len(pieces)
        last: list[tuple[int, Ints]] = [(0, np.array([], dtype=np.int64))] * len(ways)
        for start in range(len(pieces)):
            for end in self._ends(pieces, start) if ways[start] else ():
                codes = self._set_member(",".join(pieces[start:end]))
                if codes is not None and len(codes):
                    ways[end] += ways[start]
                    last[end] = (start, codes)
        if ways[-1] > 1:
            raise _Unreadable(
                "can be split into values in several ways; use a Python set instead of text."
            )
        if ways[-1] == 0:
            read = ((piece, self._set_member(piece)) for piece in pieces)
            odd = next((p.strip() for p, codes in read if codes is None or not len(codes)), body)
            raise _Unreadable(f"contains {_show(odd)}, which {self._unknown(odd)}")
        parts, end = [], len(pieces)
        while end:
            end, codes = last[end]
            parts.append(codes)
        return np.unique(np.concatenate(parts))

    def _ends(self, pieces: list[str], start: int) -> list[int]:
        """Return where a member that starts at a piece may end: later if it may contain commas."""
        begin = pieces[start].strip()
        commas = self._commas.get(begin, set()) | self._commas.get(begin[1:], set())  # unquoted
        lengths = {0, *commas} | ({1} if self._has_places else set())  # [20, 30)
        # A mask shows the beginning of a value, up to any of its commas.
        lengths |= {
            n
            for n in range(1, max(commas, default=0))
            if start + n < len(pieces) and pieces[start + n].rstrip("\"' \t\r\n").endswith("*")
        }
        return [start + n + 1 for n in sorted(lengths) if start + n < len(pieces)]

    def _set_member(self, text: str) -> Ints | None:
        if not text.strip():
            return None
        try:
            codes = self._text(text)
            return self._text(_unquoted(text.strip())) if codes is None else codes
        except _Unreadable:
            return None

    # -- messages --------------------------------------------------------------------------

    def _place(self, row: object) -> str:
        place = f"Column {self.domain.name!r}"
        return place if row is None else f"{place}, row {row}"

    def _span(self) -> str:
        if not (self.domain.is_numeric and self._tells):
            return ""
        return f", from {min(self.domain.values)} to {max(self.domain.values)}"

    def _some_labels(self) -> str:
        if not self._tells:
            return "those of the cleartext"
        shown = ", ".join(repr(text) for text in self.domain.labels[:6])
        return f"{shown}, ..." if len(self.domain) > 6 else shown

    def _unknown(self, cell: object) -> str:
        reads = ""
        if isinstance(cell, str) and not self._has_places and is_pattern(cell.strip()):
            reads = "The domain has no numbers, so ranges do not apply. "
        known = [*(self.domain.labels if self._tells else ()), *self._labels]
        hint = nearest(cell, known) if known else ""
        return f"is not a value, label, range or set of the domain. {reads}{hint}".rstrip()


class _Unreadable(Exception):
    """Reason why a cell cannot be read; the caller adds column and row."""


def _show(cell: object, limit: int = 80) -> str:
    text = repr(cell)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def _unquoted(text: str) -> str:
    match = _QUOTED.fullmatch(text)
    return match.group(2) if match else text
