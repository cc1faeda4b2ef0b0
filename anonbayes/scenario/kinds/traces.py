"""Keys of ``kind = "traces"``."""

# ruff: noqa: RUF009  (`key` makes dataclass fields)

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from anonbayes.scenario.keys import key
from anonbayes.scenario.kinds.shared import Outputs

__all__ = ["Movers", "Noise", "Traces", "TracesLimits"]


@dataclass(frozen=True, kw_only=True)
class Movers:
    """Users and the regions that each of them visits, in order."""

    users: int | None = key("Number of simulated users.", None, least=2)
    regions: int | None = key("Number of regions.", None, least=2)
    events: int = key("Visits of each simulated user.", 60, least=4)
    file: Path | None = key("Delimited UTF-8 file with one visit per line, in order of time.",
                            None, there="file")  # fmt: skip
    user: str | None = key("Column of the users.", None)
    region: str | None = key("Column of the regions.", None)
    sep: str = key("Separator of the file.", ";")

    def check(self) -> Iterator[str]:
        """Yield what the keys contradict each other in."""
        simulated = None not in (self.users, self.regions)
        read = None not in (self.file, self.user, self.region)
        if simulated == read:
            yield "give either users and regions, or file, user and region."


@dataclass(frozen=True, kw_only=True)
class Noise:
    """Randomized response on every visit."""

    epsilon: float = key("Privacy budget of each report.", least=0)
    compare: tuple[float, ...] = key("Further budgets to compare with.", (), least=0)


@dataclass(frozen=True, kw_only=True)
class TracesLimits:
    """What is acceptable; beyond it the exit code is 3."""

    max_bits: float | None = key("Most that a report may say about its sender.", None, least=0)
    max_identified: float | None = key("Largest share of traces whose sender is named.", None,
                                       least=0, most=1)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Traces:
    """How much reports of visited regions say about who sent them, in bits (PIE)."""

    kind: str = key("Kind of the scenario.", choices=("traces",))
    question: str = key("The question, for people.")
    seed: int | None = key("Makes the run reproducible.", None, least=0)
    population: Movers = key("Users and their visits.")
    mechanism: Noise = key("What runs on their devices.")
    limits: TracesLimits = key("What is acceptable.", TracesLimits)
    outputs: Outputs = key("Where results go.", Outputs)
