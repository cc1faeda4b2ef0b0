"""Numbers as text for people, tables of such texts, and values for JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, TypeAlias, Union

if TYPE_CHECKING:
    import pandas as pd

Json: TypeAlias = Union[bool, int, float, str, list["Json"], dict[str, "Json"], None]  # noqa: UP007
"""What JSON can hold."""

NOTHING = "–"
LEFT = ' style="text-align:left"'


@dataclass(frozen=True)
class Table:
    """Table of formatted cells, with a caption that explains it out of context.

    The first column and those in `text` are aligned like text; the others hold numbers.
    """

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str
    text: frozenset[int] = field(default_factory=frozenset)

    def is_text(self, column: int) -> bool:
        """Whether a column is aligned like text."""
        return column == 0 or column in self.text

    def to_html(self) -> str:
        """Return the table as HTML for a notebook; a row of a single cell is a heading."""

        def line(cells: Sequence[str], tag: str) -> str:
            sides = ["left" if self.is_text(i) else "right" for i in range(len(cells))]
            wide = f' colspan="{len(self.head)}"' if len(cells) == 1 < len(self.head) else ""
            body = "".join(
                f'<{tag}{wide} style="text-align:{side};padding:1px 8px">{escape(cell)}</{tag}>'
                for cell, side in zip(cells, sides, strict=True)
            )
            return f"<tr>{body}</tr>"

        rows = "".join(
            line(row, "th" if len(row) == 1 < len(self.head) else "td") for row in self.rows
        )
        head = f"<thead>{line(self.head, 'th')}</thead>" if any(self.head) else ""
        title = f"<p><b>{escape(self.caption)}</b></p>" if self.caption else ""
        return f"{title}<table>{head}<tbody>{rows}</tbody></table>"


def label_of(value: object) -> str:
    """Value as text; values of several columns that were joined stand side by side."""
    return " & ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def share(value: float) -> str:
    """Percentage; a share that would be rounded to 0 or 100 is written as a bound instead."""
    if math.isnan(value):
        return NOTHING
    if -0.0005 < value < 0:
        return ">-0.1%"
    if 0 < value < 0.0005:
        return "<0.1%"
    if 0.9995 <= value < 1:
        return ">99.9%"
    return f"{value:.1%}"


def ratio(value: float) -> str:
    """Factor, to three significant digits."""
    return NOTHING if math.isnan(value) else f"× {number(value)}"


def times(value: float) -> str:
    """Factor inside a sentence."""
    return f"{number(value)} times"


def number(value: float, digits: int = 3) -> str:
    """Number to three (or `digits`) significant digits; whole numbers in full."""
    if math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    size = abs(value)
    if size >= 999.5:
        return f"{value:,.0f}"
    if value and size < 1e-4:
        return f"{value:.{digits - 1}e}"
    power = 0 if value == 0 else math.floor(math.log10(size) + 1e-12)
    return f"{value:.{max(0, digits - 1 - power)}f}"


def count(value: float, noun: str = "", plural: str | None = None) -> str:
    """Whole number, followed by its noun if there is one."""
    if math.isnan(value):
        return NOTHING
    whole = round(value)
    if not noun:
        return f"{whole:,}"
    return f"{whole:,} {noun if whole == 1 else plural or noun + 's'}"


def standard_error(value: float, *, of_share: bool = False) -> str:
    """Standard error as text; zero is "exact", because then nothing was simulated."""
    if math.isnan(value):
        return "not known"
    if value == 0:
        return "exact"
    return f"± {number(100 * value, 2)} points" if of_share else f"± {number(value, 2)}"


def with_error(value: float, error: float) -> str:
    """Value and standard error, with decimals for two significant digits of the error."""
    if not 0 < error < math.inf:
        return f"{number(value)} ± {number(error, 2)}"
    decimals = max(0, 1 - math.floor(math.log10(error)))
    return f"{value:,.{decimals}f} ± {error:,.{decimals}f}"


def plain(value: object) -> Json:
    """Convert to a value that JSON has: no NaN, no infinity, no NumPy scalars."""
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool | None) else str(value)


def records(frame: pd.DataFrame) -> list[Json]:
    """Return the rows of a frame, with its index, as JSON objects."""
    return [plain(line) for line in frame.reset_index().to_dict("records")]


VAGUE = 0.25
"""A weight counts as unknown if its standard error exceeds this, half the prior's."""
FRACTIONS = (
    (0.06, "next to nothing of"),
    (0.13, "about a tenth of"),
    (0.22, "about a fifth of"),
    (0.29, "about a quarter of"),
    (0.41, "about a third of"),
    (0.58, "about half of"),
    (0.71, "about two thirds of"),
    (0.83, "about three quarters of"),
    (0.94, "most of"),
    (1.15, "all of"),
    (math.inf, "more than"),
)


def weight_in_words(weight: float, error: float, telling: bool) -> str:
    """Describe what an evidence weight says about its attribute."""
    if not telling:
        return "tells nothing: its cells are distributed alike for all sensitive values"
    if error > VAGUE:
        return "says too little in this table for its weight to be estimated"
    part = next(text for limit, text in FRACTIONS if weight < limit)
    return f"tells {part} what it seems to tell on its own"
