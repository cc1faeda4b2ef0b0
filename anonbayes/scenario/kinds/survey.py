"""Keys of ``kind = "survey"``."""

# ruff: noqa: RUF009  (`key` makes dataclass fields)

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from anonbayes.scenario.keys import key
from anonbayes.scenario.kinds.shared import CHANNELS, PROTECTS_SOME, Outputs

__all__ = ["Estimation", "Mechanism", "Population", "Reports", "Survey", "SurveyLimits", "Tag"]


@dataclass(frozen=True, kw_only=True)
class Tag:
    """A personal secret such as a home, which a device replaces by a tag (ULDP Sec. 5)."""

    share: float = key("Share of people who report from such a place.", least=0, most=1)
    places: dict[str, float] = key("How these places are distributed; population by default.",
                                   dict)  # fmt: skip
    known: bool = key("Whether the collector knows that distribution.", True)


@dataclass(frozen=True, kw_only=True)
class Population:
    """Who is asked: simulated people, of whom the truth is known."""

    people: int = key("Number of people.", least=1)
    shares: dict[str, float] = key("Weight of each answer.")


@dataclass(frozen=True, kw_only=True)
class Mechanism:
    """What runs on people's devices."""

    channel: str = key("The mechanism.", choices=CHANNELS)
    epsilon: float = key("Privacy budget.", least=0)
    values: tuple[str, ...] = key("The possible answers; by default those of the population.", ())
    sensitive: tuple[str, ...] = key("Answers to protect (utility-optimized channels).", ())
    tags: dict[str, Tag] = key("Personal secrets and the tags that replace them.", dict)

    def check(self) -> Iterator[str]:
        """Yield what the keys contradict each other in."""
        some = self.channel in PROTECTS_SOME
        if some and not (self.sensitive or self.tags):
            yield f"channel {self.channel!r} needs sensitive."
        if not some and (self.sensitive or self.tags):
            yield f"sensitive and tags have no meaning with channel {self.channel!r}."
        if sum(tag.share for tag in self.tags.values()) > 1:
            yield "the shares of the tags sum to more than 1."


@dataclass(frozen=True, kw_only=True)
class Reports:
    """Reports that were really collected."""

    file: Path = key("Delimited UTF-8 file with one report per line and a header.", there="file")
    column: str = key("Column of the reports.")
    sep: str = key("Separator of the file.", ";")


@dataclass(frozen=True, kw_only=True)
class Estimation:
    """How the shares are estimated."""

    methods: tuple[str, ...] = key(
        "Estimators, side by side; the last one counts for limits.",
        ("empirical", "mle", "bayes"),
        choices=("empirical", "threshold", "shrinkage", "mle", "em", "bayes"),
    )
    level: float = key("Probability of the intervals.", 0.95, above=0, most=0.9999)
    draws: int = key("Draws per chain (bayes).", 1000, least=1)
    chains: int = key("Number of chains (bayes).", 4, least=1)


@dataclass(frozen=True, kw_only=True)
class SurveyLimits:
    """What is acceptable; beyond it the exit code is 3."""

    max_epsilon: float | None = key("Largest privacy budget.", None, least=0)
    max_error: float | None = key("Largest l1 distance from the truth.", None, above=0)
    max_interval: float | None = key("Widest interval of a share.", None, above=0)


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What a survey under local privacy tells, and what it guarantees to those who answer."""

    kind: str = key("Kind of the scenario.", choices=("survey",))
    question: str = key("The question, for people.")
    seed: int | None = key("Makes the run reproducible.", None, least=0)
    mechanism: Mechanism = key("What runs on people's devices.")
    population: Population | None = key("Simulated people.", None)
    reports: Reports | None = key("Real reports.", None)
    estimation: Estimation = key("How the shares are estimated.", Estimation)
    limits: SurveyLimits = key("What is acceptable.", SurveyLimits)
    outputs: Outputs = key("Where results go.", Outputs)

    def check(self) -> Iterator[str]:
        """Yield what the keys contradict each other in."""
        if (self.population is None) == (self.reports is None):
            yield "give either [population] or [reports]."
        if self.reports is not None:
            if self.mechanism.channel not in ("randomized_response", "utility_optimized_rr"):
                yield "reports from a file are single values: use a randomized response."
            if not self.mechanism.values:
                yield "mechanism.values is missing: list the possible answers."
            if self.mechanism.tags:
                yield "mechanism.tags needs [population]."
            if self.limits.max_error is not None:
                yield "limits.max_error needs [population], of which the truth is known."
        elif self.mechanism.values and self.population is not None:
            extra = set(self.population.shares) - set(self.mechanism.values)
            if extra:
                yield f"population.shares has {sorted(extra)[0]!r}, which is not in the values."
