"""Keys of ``kind = "checkins"``."""

# ruff: noqa: RUF009  (`key` makes dataclass fields)

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from anonbayes.scenario.keys import key
from anonbayes.scenario.kinds.shared import Outputs

__all__ = ["Checkins", "CheckinsLimits", "Protocol", "Users"]


@dataclass(frozen=True, kw_only=True)
class Users:
    """Users and the place each of them is at."""

    users: int | None = key("Number of simulated users.", None, least=2)
    places: int | None = key("Number of places; popularity falls as 1 / rank^exponent.", None,
                             least=2)  # fmt: skip
    exponent: float = key("Of the popularity.", 1.0, least=0)
    file: Path | None = key("Delimited UTF-8 file with one user per line.", None, there="file")
    column: str | None = key("Column of the places.", None)
    sep: str = key("Separator of the file.", ";")
    sensitive: tuple[str, ...] = key("Places that are sensitive in themselves.", ())

    def check(self) -> Iterator[str]:
        """Yield what the keys contradict each other in."""
        simulated = self.users is not None and self.places is not None
        read = self.file is not None and self.column is not None
        if simulated == read:
            yield "give either users and places, or file and column."


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """How budgets are tuned (OneID)."""

    gamma: float = key("No report may name its sender with more than gamma / users.", least=1)
    first: float = key("Share of the users who report first.", 0.1, above=0, most=0.9)
    rule: str = key("How budgets follow from the first reports.", "confidence",
                    choices=("confidence", "posterior"))  # fmt: skip
    alpha: float = key("Error probability of the rule.", 0.05, above=0, most=1)
    cap: float = key("Largest budget of a sensitive place.", 1.0, above=0)


@dataclass(frozen=True, kw_only=True)
class CheckinsLimits:
    """What is acceptable; beyond it the exit code is 3."""

    max_reidentified: float | None = key("Largest share of reports whose sender is named.", None,
                                         least=0, most=1)  # fmt: skip
    max_error: float | None = key("Largest l1 distance of the shares from the truth.", None,
                                  above=0)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Checkins:
    """How well places are counted when no report may give its sender away."""

    kind: str = key("Kind of the scenario.", choices=("checkins",))
    question: str = key("The question, for people.")
    seed: int | None = key("Makes the run reproducible.", None, least=0)
    population: Users = key("Users and their places.")
    protocol: Protocol = key("How budgets are tuned.")
    limits: CheckinsLimits = key("What is acceptable.", CheckinsLimits)
    outputs: Outputs = key("Where results go.", Outputs)
