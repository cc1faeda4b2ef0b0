"""Keys of ``kind = "assessment"``."""

# ruff: noqa: RUF009  (`key` makes dataclass fields)

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anonbayes.scenario.keys import key
from anonbayes.scenario.kinds.shared import CHANNELS, PROTECTS_SOME, Outputs

__all__ = [
    "Assessment",
    "AssessmentLimits",
    "Cleartext",
    "ColumnRelease",
    "Model",
    "Release",
    "Threats",
    "Victim",
]

NAMES = "Name of a table that comes with the package; see anonbayes.datasets."


@dataclass(frozen=True, kw_only=True)
class Cleartext:
    """The people of the table, in clear."""

    dataset: str | None = key(NAMES, None)
    file: Path | None = key("Delimited UTF-8 file with a header line.", None, there="file")
    sep: str = key("Separator of the file.", ";")
    missing: str = key("What an empty cell means: a mistake, a value of its own, or that its row "
                       "is left out.", "error", choices=("error", "category", "drop"))  # fmt: skip

    def check(self) -> Iterator[str]:
        """Yield what the keys contradict each other in."""
        if (self.dataset is None) == (self.file is None):
            yield "give either dataset or file."


@dataclass(frozen=True, kw_only=True)
class ColumnRelease:
    """How one column of a mixed table is released."""

    method: str = key("How its values are released.",
                      choices=("clear", "level", "bins", *CHANNELS))  # fmt: skip
    level: int | None = key("Level of the hierarchy (level).", None, least=0)
    lower: float | None = key("Lower end of the first bin (bins).", None)
    upper: float | None = key("Upper end of the last bin (bins).", None)
    bins: int | None = key("Number of bins of equal width (bins).", None, least=1)
    epsilon: float | None = key("Privacy budget (randomized mechanisms).", None, least=0)
    sensitive: tuple[str, ...] = key("Values to protect (utility-optimized mechanisms).", ())

    def check(self) -> Iterator[str]:
        """Yield what the keys contradict each other in."""
        needs = {"level": ("level",), "bins": ("lower", "upper", "bins")}
        wanted = needs.get(self.method, ("epsilon",) if self.method in CHANNELS else ())
        if self.method in PROTECTS_SOME:
            wanted = (*wanted, "sensitive")
        for name in ("level", "lower", "upper", "bins", "epsilon", "sensitive"):
            given = getattr(self, name) not in (None, ())
            if name in wanted and not given:
                yield f"method {self.method!r} needs {name}."
            if given and name not in wanted:
                yield f"{name} has no meaning with method {self.method!r}."


@dataclass(frozen=True, kw_only=True)
class Release:
    """What is released: a table as it is, or one made from the cleartext."""

    dataset: str | None = key(NAMES, None)
    parameters: dict[str, int] = key("Parameters of the dataset.", dict)
    file: Path | None = key("Released table; of an Anatomy its quasi-identifiers.", None,
                            there="file")  # fmt: skip
    sensitive_file: Path | None = key("Sensitive table of an Anatomy.", None, there="file")
    group: str | None = key("Group column of an Anatomy.", None)
    sep: str = key("Separator of the files.", ";")
    drop: tuple[str, ...] = key("Columns of the file to leave out.", ())
    missing: str = key("What an empty cell means.", "error",
                       choices=("error", "unknown", "category"))  # fmt: skip
    scheme: str | None = key("How the cleartext is anonymized.", None,
                             choices=("recode", "mondrian", "anatomy", "columns"))  # fmt: skip
    sensitive: str | None = key("Sensitive column (not needed with dataset).", None)
    hierarchies: Path | None = key("Directory of ARX hierarchy files.", None, there="directory")
    quasi_identifiers: tuple[str, ...] = key("Columns to anonymize; by default all others.", ())
    k: int | None = key("Least size of a group (recode, mondrian).", None, least=1)
    l: int | None = key("Least number of sensitive values of a group.", None, least=1)  # noqa: E741
    suppression: float = key("Largest share of rows that may be suppressed (recode).", 0.0,
                             least=0, most=1)  # fmt: skip
    local: bool = key("Recode suppressed rows again (recode).", False)
    columns: dict[str, ColumnRelease] = key("Release of each column (columns).", dict)

    def check(self) -> Iterator[str]:
        """Yield what the keys contradict each other in."""
        ways = [name for name in ("dataset", "file", "scheme") if getattr(self, name) is not None]
        if len(ways) != 1:
            yield "give exactly one of dataset, file and scheme."
            return
        if ways[0] != "dataset" and self.sensitive is None:
            yield "sensitive is missing: name the sensitive column."
        if (self.sensitive_file is None) != (self.group is None):
            yield "an Anatomy needs both sensitive_file and group."
        if self.scheme in ("recode", "mondrian") and self.k is None:
            yield f"scheme {self.scheme!r} needs k."
        if self.scheme == "anatomy" and self.l is None:
            yield "scheme 'anatomy' needs l."
        if self.scheme == "columns" and not self.columns:
            yield "scheme 'columns' needs a table [release.columns.NAME] per column."
        meaning = {
            "parameters": self.dataset, "sensitive_file": self.file, "drop": self.file,
            "k": self.scheme in ("recode", "mondrian"),
            "l": self.scheme in ("recode", "mondrian", "anatomy"),
            "suppression": self.scheme == "recode", "local": self.scheme == "recode",
            "quasi_identifiers": self.scheme in ("recode", "mondrian", "anatomy"),
            "columns": self.scheme == "columns",
        }  # fmt: skip
        for name, has_meaning in meaning.items():
            if getattr(self, name) and not has_meaning:
                yield f"{name} has no meaning with {ways[0]} = {str(getattr(self, ways[0]))!r}."


@dataclass(frozen=True, kw_only=True)
class Model:
    """Prior and sampler."""

    alpha: Any = key("Dirichlet weights of the sensitive values: a number, list or table.", 1.0)
    beta: Any = key("Weights of the other values: a number, or a table by attribute.", 1.0)
    method: str = key("Engine.", "auto", choices=("auto", "exact", "gibbs", "nuts"))
    step: str | None = key("Kind of Gibbs step, such as tempered.", None)
    draws: int = key("Draws per chain.", 1000, least=1)
    tune: int | None = key("Sweeps before them.", None, least=0)
    chains: int = key("Number of chains.", 4, least=1)
    cores: int | None = key("Chains that run at the same time.", None, least=1)


@dataclass(frozen=True, kw_only=True)
class Threats:
    """What counts as a threat."""

    harm: tuple[str, ...] = key("Sensitive values that must not be inferred; by default any.", ())
    kind: str = key("The learner's belief.", "predictive", choices=("predictive", "conditional"))


@dataclass(frozen=True, kw_only=True)
class Victim:
    """A person about whom beliefs are asked."""

    name: str = key("How the person is called in the results.")
    known: dict[str, Any] = key("What is known: attribute = value; left out = unknown.", dict)
    secret: Any = key("Sensitive value that limits.max_belief is about.", None)


@dataclass(frozen=True, kw_only=True)
class AssessmentLimits:
    """What is acceptable; beyond it the exit code is 3."""

    max_relative_threat: float | None = key("Largest relative threat of anybody.", None, above=0)
    max_threatened: float | None = key("Largest share of threatened people.", None, least=0,
                                       most=1)  # fmt: skip
    max_cost: float | None = key("Largest cost of being in the table: share of people guessed "
                                 "right beyond what the population gives away.", None, least=0,
                                 most=1)  # fmt: skip
    max_belief: float | None = key("Largest belief of the attacker in a victim's secret.",
                                   None, least=0, most=1)  # fmt: skip
    require_convergence: bool = key("Whether the chains must be trustworthy.", False)


@dataclass(frozen=True, kw_only=True)
class AssessmentOutputs(Outputs):
    """Where results go and which are written."""

    report: bool = key("Write a report as one HTML page.", True)
    show_values: bool = key("Show the values of threatened people in the report.", False)


@dataclass(frozen=True, kw_only=True)
class Assessment:
    """Who is threatened by a release of a table, and what can still be learned from it."""

    kind: str = key("Kind of the scenario.", choices=("assessment",))
    question: str = key("The question, for people.")
    seed: int | None = key("Makes the run reproducible.", None, least=0)
    release: Release = key("What is released.")
    cleartext: Cleartext | None = key("The people in clear; without it only beliefs.", None)
    model: Model = key("Prior and sampler.", Model)
    threats: Threats = key("What counts as a threat.", Threats)
    victims: tuple[Victim, ...] = key("People about whom beliefs are asked.", ())
    limits: AssessmentLimits = key("What is acceptable.", AssessmentLimits)
    sweep: dict[str, list] = key(
        'Keys of this file with the values to compare, such as "release.k" = [2, 5].', dict
    )
    outputs: AssessmentOutputs = key("Where results go.", AssessmentOutputs)

    def check(self) -> Iterator[str]:
        """Yield what the keys contradict each other in."""
        if self.cleartext is None:
            if self.release.scheme is not None:
                yield "release.scheme needs [cleartext] to make the release from."
            if self.threats.harm or self.sweep:
                yield "threats.harm and sweep need [cleartext]."
            threats = ("max_relative_threat", "max_threatened", "max_cost")
            if any(getattr(self.limits, name) is not None for name in threats):
                yield "limits on threats need [cleartext]."
        named = any(victim.secret is not None for victim in self.victims)
        if self.limits.max_belief is not None and not named:
            yield "limits.max_belief needs [[victims]] with a secret."
        names = [victim.name for victim in self.victims]
        if len(set(names)) < len(names):
            yield "two victims have the same name."
        if self.sweep and self.victims:
            yield "victims have no meaning in a sweep."
