"""Keys of ``kind = "query"``."""

# ruff: noqa: RUF009  (`key` makes dataclass fields)

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from anonbayes.scenario.keys import key
from anonbayes.scenario.kinds.shared import Outputs

__all__ = ["Numbers", "Quality", "Query", "QueryLimits"]


@dataclass(frozen=True, kw_only=True)
class Numbers:
    """Private numbers of which the average is asked."""

    lower: float = key("Smallest possible number.")
    upper: float = key("Largest possible number.")
    values: tuple[float, ...] = key("The numbers.", ())
    file: Path | None = key("Delimited UTF-8 file with one person per line.", None, there="file")
    column: str | None = key("Column of the numbers.", None)
    sep: str = key("Separator of the file.", ";")

    def check(self) -> Iterator[str]:
        """Yield what the keys contradict each other in."""
        if not self.lower < self.upper:
            yield "lower must be smaller than upper."
        if bool(self.values) == (self.file is not None and self.column is not None):
            yield "give either values, or file and column."
        for value in self.values:
            if not self.lower <= value <= self.upper:
                yield f"value {value:g} lies outside [{self.lower:g}, {self.upper:g}]."


@dataclass(frozen=True, kw_only=True)
class Quality:
    """How exact the answer shall be."""

    largest_error: float = key("The answer may be this far from the average.", above=0)
    compare: tuple[float, ...] = key("Further largest errors to compare with.", (), above=0)


@dataclass(frozen=True, kw_only=True)
class QueryLimits:
    """What is acceptable; beyond it the exit code is 3."""

    max_leakage: float | None = key("Largest leakage in nats.", None, least=0)
    min_adversary_error: float | None = key("Least error of an adversary's best guess.", None,
                                            least=0)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Query:
    """What the quantized answer to a question about numbers can give away, whatever the numbers."""

    kind: str = key("Kind of the scenario.", choices=("query",))
    question: str = key("The question, for people.")
    seed: int | None = key("Not used: nothing is random.", None, least=0)
    numbers: Numbers = key("The private numbers.")
    quality: Quality = key("How exact the answer shall be.")
    limits: QueryLimits = key("What is acceptable.", QueryLimits)
    outputs: Outputs = key("Where results go.", Outputs)
