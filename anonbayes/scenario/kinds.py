"""The kinds of scenarios and every key that their files may have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from anonbayes.channels.registry import MECHANISMS
from anonbayes.scenario.keys import key

__all__ = [
    "CHANNELS",
    "KINDS",
    "PROTECTS_SOME",
    "Assessment",
    "AssessmentLimits",
    "Checkins",
    "CheckinsLimits",
    "Cleartext",
    "ColumnRelease",
    "Estimation",
    "Mechanism",
    "Model",
    "Movers",
    "Noise",
    "Numbers",
    "Outputs",
    "Population",
    "Protocol",
    "Quality",
    "Query",
    "QueryLimits",
    "Release",
    "Reports",
    "Survey",
    "SurveyLimits",
    "Tag",
    "Threats",
    "Traces",
    "TracesLimits",
    "Users",
    "Victim",
]


# -------------------------------------------------------------------------------------------------
# What several kinds of scenarios have in common.

# ruff: noqa: RUF009  (`key` makes dataclass fields)


CHANNELS = tuple(name for name, each in MECHANISMS.items() if each.takes_epsilon)
PROTECTS_SOME = tuple(name for name in CHANNELS if "sensitive" in MECHANISMS[name].needs)


@dataclass(frozen=True, kw_only=True)
class Outputs:
    """Where results go and which are written."""

    directory: Path | None = key("Directory of the results; by default out/NAME beside the file.",
                                 None)  # fmt: skip
    netcdf: bool = key("Write the draws as netCDF, for ArviZ.", True)
    plots: bool = key("Write plots as PNG.", True)


# -------------------------------------------------------------------------------------------------
# Keys of ``kind = "assessment"``.

# ruff: noqa: RUF009  (`key` makes dataclass fields)


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


# -------------------------------------------------------------------------------------------------
# Keys of ``kind = "survey"``.

# ruff: noqa: RUF009  (`key` makes dataclass fields)


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


# -------------------------------------------------------------------------------------------------
# Keys of ``kind = "checkins"``.

# ruff: noqa: RUF009  (`key` makes dataclass fields)


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


# -------------------------------------------------------------------------------------------------
# Keys of ``kind = "traces"``.

# ruff: noqa: RUF009  (`key` makes dataclass fields)


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


# -------------------------------------------------------------------------------------------------
# Keys of ``kind = "query"``.

# ruff: noqa: RUF009  (`key` makes dataclass fields)


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


# -------------------------------------------------------------------------------------------------
# The kinds of scenarios and every key that their files may have.

KINDS: Mapping[str, type] = MappingProxyType(
    {
        "assessment": Assessment,
        "survey": Survey,
        "checkins": Checkins,
        "traces": Traces,
        "query": Query,
    }
)
