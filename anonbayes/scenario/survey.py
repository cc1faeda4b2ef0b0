"""``kind = "survey"``: what reports under local privacy reveal, and what they guarantee."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from anonbayes.channels.registry import MECHANISMS
from anonbayes.errors import AnonbayesError
from anonbayes.formats import number
from anonbayes.scenario.choices import ENCODING, ESTIMATORS, SEPARATOR
from anonbayes.scenario.keys import File, Section, Several, key, word_of
from anonbayes.scenario.outputs import (
    BAYES,
    AnyScenario,
    Result,
    audit_record,
    compare_limits,
    stage,
)
from anonbayes.scenario.release import MechanismOptions

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes

    from anonbayes.arrays import Floats
    from anonbayes.domains import Domain
    from anonbayes.estimation.closed_forms import Estimate
    from anonbayes.notions.ldp import Audit


# -------------------------------------------------------------------------------------------------
# The keys.

Method: Any = word_of(ESTIMATORS)
Mechanism: Any = word_of(MECHANISMS)


class Tag(Section):
    """A personal secret such as a home, which a device replaces by a tag (ULDP Sec. 5)."""

    share: float = key("Share of people who report from such a place.", ge=0, le=1)
    places: dict[str, float] = key("Distribution of these places; by default the population.", dict)
    known: bool = key("Whether the collector knows that distribution.", True)


class SurveyPopulation(Section):
    """The respondents: simulated people, whose true answers are known."""

    people: int = key("Number of people.", ge=1)
    shares: dict[str, float] = key(
        "Weight of each answer; for padded_sets the share of people who have it.", dict
    )
    attributes: dict[str, dict[str, float]] = key(
        "Weights of the values of several independent attributes, instead of shares.", dict
    )

    def check(self) -> Iterator[str]:
        """Yield contradictions between keys."""
        if bool(self.shares) == bool(self.attributes):
            yield "give either @shares or @attributes."


class SurveyMechanism(MechanismOptions):
    """What runs on people's devices."""

    channel: Mechanism = key("What runs on people's devices, such as randomized_response.")
    epsilon: float | None = key("Privacy budget of everything that a person sends.", None, ge=0)
    length: int | None = key("Size to which sets are padded (padded_sets).", None, ge=1)
    values: Several[str] = key("Possible answers; by default those of the population.", ())
    attributes: dict[str, Several[str]] = key(
        "Possible values of several attributes, which are the columns of the reports.", dict
    )
    how: Literal["sample", "split"] = key(
        "How several attributes are reported: sample (each person reports one of them) or split "
        "(each person reports all, with a part of the budget each).",
        "sample",
    )
    tags: dict[str, Tag] = key("Personal secrets and the tags that replace them.", dict)

    def check(self) -> Iterator[str]:
        """Yield contradictions between keys."""
        kind = MECHANISMS[self.channel]
        if self.tags and "sensitive" not in kind.needs:
            yield f"@tags does not apply to {self.channel}."
        elif not self.tags or self.sensitive:
            yield from self.contradictions(self.channel)
        if (self.epsilon is None) == kind.takes_epsilon:
            yield f"{self.channel} {'needs' if kind.takes_epsilon else 'does not use'} @epsilon."
        if self.attributes and (self.values or self.tags):
            yield "@values and @tags cannot be combined with @attributes."
        if sum(tag.share for tag in self.tags.values()) > 1:
            yield "the shares of the tags sum to more than 1."


class SurveyReports(Section):
    """Reports that were collected from people."""

    file: File = key("Delimited text with one report per line and a header.")
    column: str | None = key("Column of the reports; not used for several attributes.", None)
    sep: str = key(SEPARATOR, "auto")
    encoding: str = key(ENCODING, "utf-8")


class Estimation(Section):
    """How the shares are estimated."""

    methods: Several[Method] = key(
        "Estimators to compare; limits apply to the last one. By default empirical, mle and "
        "bayes; for numbers the best that the mechanism has.",
        (),
    )
    level: float = key("Probability of the intervals.", 0.95, gt=0, le=0.9999)
    draws: int = key("Draws per chain (bayes).", 1000, ge=1)
    chains: int = key("Number of chains (bayes).", 4, ge=1)
    prior_weight: float | None = key(
        "Weight of the prior, in people (bayes); by default learned.", None, gt=0
    )


class SurveyLimits(Section):
    """Limits; the exit code is 3 if one is exceeded."""

    max_epsilon: float | None = key("Largest privacy budget.", None, ge=0)
    max_error: float | None = key("Largest l1 distance from the truth.", None, gt=0)
    max_interval: float | None = key("Widest interval of a share.", None, gt=0)


class Survey(AnyScenario):
    """What a survey under local privacy reveals, and what it guarantees to the respondents."""

    kind: Literal["survey"] = key("Kind of the scenario.")
    mechanism: SurveyMechanism = key("What runs on people's devices.")
    population: SurveyPopulation | None = key("Simulated people.", None)
    reports: SurveyReports | None = key("Real reports.", None)
    estimation: Estimation = key("How the shares are estimated.", Estimation)
    limits: SurveyLimits = key("Limits on the results.", SurveyLimits)

    def check(self) -> Iterator[str]:
        """Yield contradictions between keys."""
        if (self.population is None) == (self.reports is None):
            yield "give either [population] or [reports]."
        if self.reports is not None:
            several = bool(self.mechanism.attributes)
            if several == (self.reports.column is not None):
                yield "give reports.column, or several columns as mechanism.attributes."
            if not several and not self._values:
                yield "mechanism.values is missing: list the possible answers."
            if self.mechanism.tags:
                yield "mechanism.tags needs [population]."
            if self.limits.max_error is not None:
                yield "limits.max_error needs [population], whose true shares are known."
        elif self.mechanism.attributes:
            yield "mechanism.attributes applies to [reports]; use population.attributes here."
        elif self.mechanism.values and self.population is not None:
            extra = set(self.population.shares) - set(self.mechanism.values)
            if extra:
                yield f"population.shares has {sorted(extra)[0]!r}, which is not among the values."

    @property
    def _values(self) -> tuple[str, ...]:
        """Possible answers, from the key that lists them."""
        how = self.mechanism
        return tuple(how.values or how.matrix or how.budgets or how.shares)

    def prepare(self) -> PreparedSurvey | PreparedSurveys:
        """Make the channel, and simulate or read the reports."""
        from anonbayes.io.text import read_columns, read_csv_text

        how, source = self.mechanism, self.reports
        if source is None:
            assert self.population is not None
            if self.population.attributes:
                return _simulate_several(self, self.population)
            return _simulate(self, self.population)
        if how.attributes:
            survey = _attributes(how, how.attributes)
            frame = read_csv_text(source.file, sep=source.sep, encoding=source.encoding)
            missing = [name for name in how.attributes if name not in frame]
            if missing:
                raise AnonbayesError(f"{source.file.name!r} has no column {missing[0]!r}.")
            sent = survey.read_texts(
                {name: frame[name].fillna("").tolist() for name in how.attributes}
            )
            return _parts(self, survey, sent, dict.fromkeys(how.attributes))
        channel = _channel(how, self._values)
        column = source.column or ""
        frame = read_columns(
            source.file, {"reports.column": column}, sep=source.sep, encoding=source.encoding
        )
        reports = channel.read_texts(frame[column].tolist(), where=f"Column {column!r}")
        if not MECHANISMS[how.channel].sets:
            channel.likelihood(reports)  # refuses reports that the channel cannot send
        return PreparedSurvey(self, channel, reports, None, {})


# -------------------------------------------------------------------------------------------------
# The run.


ANSWER = "answer"


@dataclass(frozen=True)
class PreparedSurvey:
    """A survey with its channel and reports.

    `truth` are the true shares of simulated people; `knowledge` is about tagged places.
    """

    settings: Survey
    channel: Any
    reports: Any
    truth: Floats | None
    knowledge: Mapping[str, Floats]

    def run(self) -> Result:
        """Estimate the shares with every method, and audit the channel."""
        import numpy as np
        import pandas as pd

        estimates = {m: self._estimate(m) for m in self._methods()}
        chosen = list(estimates.values())[-1]
        measures = {"epsilon": float(self.channel.epsilon), "reports": float(chosen.n)}
        table = pd.DataFrame(index=pd.Index(self.channel.domain.labels, name=ANSWER))
        if self.truth is not None:
            table["truth"] = self.truth
        for method, estimate in estimates.items():
            for column, values in estimate.summary().items():
                table[method if column == "p" else f"{method}_{column}"] = values.to_numpy()
            if self.truth is not None:
                measures[f"error_{method}"] = float(np.abs(estimate.p - self.truth).sum())
        if chosen.interval is not None:
            measures["widest_interval"] = float(np.ptp(chosen.interval, axis=1).max())
        measures |= self._mean() | self._expected_errors(chosen.n) | self._shuffled(chosen.n)
        audits = list(self._audits())
        return Result(
            text=self._words(chosen, measures, audits),
            measures=measures,
            tables={"shares": table},
            limits=compare_limits(
                self.settings.limits,
                measures,
                {
                    "max_epsilon": "epsilon",
                    "max_error": f"error_{chosen.method}",
                    "max_interval": "widest_interval",
                },
            ),
            details={"audits": [audit_record(audit) for audit in audits], "method": chosen.method},
            netcdf=None if chosen.draws is None else lambda path: _write_draws(chosen, path),
            plots={"shares": lambda: plot_shares(chosen, self.truth)},
        )

    def _methods(self) -> tuple[str, ...]:
        """Requested estimators, or by default those that suit the mechanism."""
        if self.settings.estimation.methods:
            return self.settings.estimation.methods
        default: str = self.channel.default_method
        if default == "mle":
            return tuple(m for m in ("empirical", "mle", "bayes") if m in self.channel.methods)
        return ("bayes",) if default == "mean" else (default,)

    def _mean(self) -> dict[str, float]:
        """Mean of numbers with its limits, and the true mean if known."""
        if not self.channel.tells_mean:
            return {}
        estimate = self.channel.mean(self.reports, level=self.settings.estimation.level)
        low, high = estimate.interval
        measures = {"mean": estimate.mean, "mean_lower": low, "mean_upper": high}
        if self.truth is not None:
            measures["mean_truth"] = float(self.truth @ self.channel.domain.numbers)
        return measures

    def _estimate(self, method: str) -> Estimate:
        how = self.settings.estimation
        more: dict[str, Any] = {"level": how.level}
        if method == "bayes":
            more |= {"draws": how.draws, "chains": how.chains, "seed": self.settings.seed}
            if how.prior_weight is not None:
                more["prior_weight"] = how.prior_weight
        if self.knowledge:
            more["knowledge"] = self.knowledge
        with stage(BAYES if method == "bayes" else "Estimating the shares"):
            found: Estimate = self.channel.estimate(self.reports, method=method, **more)
        return found

    def _expected_errors(self, n: int) -> dict[str, float]:
        """Return the expected l1 loss, here and if every answer were equally protected."""
        from anonbayes.channels.pure import RandomizedResponse

        truth = self.truth
        how = self.settings.mechanism
        if truth is None or how.tags or how.length or self.channel.tells_mean:
            return {}
        if not math.isfinite(self.channel.epsilon):
            return {"expected_error": self.channel.expected_loss(truth, n, norm="l1")}
        plain = RandomizedResponse(self.channel.domain, self.channel.epsilon)
        return {
            "expected_error": self.channel.expected_loss(truth, n, norm="l1", sampled=False),
            "expected_error_randomized_response": plain.expected_loss(
                truth, n, norm="l1", sampled=False
            ),
        }

    def _shuffled(self, n: int) -> dict[str, float]:
        """Central budget of all reports if nobody knows who sent which, if there is one."""
        from anonbayes.notions.consequences import shuffled

        if not math.isfinite(self.channel.ldp_budget()):
            return {}
        mixed = shuffled(self.channel, n)
        return {"shuffled_epsilon": mixed.epsilon, "shuffled_delta": mixed.delta}

    def _audits(self) -> Iterator[Audit]:
        from anonbayes.notions.ldp import LDP
        from anonbayes.notions.selective import ULDP

        how = self.settings.mechanism
        if how.epsilon is None:
            if self.channel.notion is not None:
                yield self.channel.satisfies(self.channel.notion)
            return
        if not how.sensitive and not how.tags:
            yield self.channel.satisfies(LDP(self.channel.epsilon))
            return
        if how.sensitive:
            yield self.channel.satisfies(ULDP(how.sensitive, how.epsilon))
        # A user with her own secret place, which is as protected as the sensitive ones.
        ordinary = [value for value in self.channel.domain if value not in how.sensitive]
        for tag in how.tags if ordinary else ():
            notion = ULDP([*how.sensitive, ordinary[0]], how.epsilon)
            yield self.channel.satisfies(notion, personal={ordinary[0]: tag})

    def _words(self, chosen: Estimate, measures: Mapping[str, float], audits: list[Audit]) -> str:
        top = chosen.to_series().sort_values(ascending=False).head(3)
        shown = ", ".join(f"{name} {share:.1%}" for name, share in top.items())
        lines = [f"{chosen.n:,} reports, method {chosen.method}; most frequent: {shown}."]
        if "mean" in measures:
            level = self.settings.estimation.level
            ends = f"{measures['mean_lower']:.4g} to {measures['mean_upper']:.4g}"
            lines.append(f"The mean is {measures['mean']:.4g} ({level:.0%} limits {ends}).")
        if self.truth is not None:
            error = measures[f"error_{chosen.method}"]
            lines.append(f"The shares have a total error of {error:.3f}.")
        if "expected_error" in measures:
            text = f"The unbiased estimate's expected error is {measures['expected_error']:.3f}"
            if (plain := measures.get("expected_error_randomized_response")) is not None:
                text += f"; with plain randomized response of the same budget, {plain:.3f}"
            lines.append(f"{text}.")
        if not audits:
            lines.append("Some reports exclude a value, so no LDP budget holds.")
        said = [
            f"{type(audit.notion).__name__} with epsilon {measures['epsilon']:g} "
            f"{'holds' if audit.holds else 'DOES NOT HOLD'}: at worst a report is "
            f"{number(audit.worst_ratio, 4)} times as likely from one value as from another "
            f"({number(audit.limit, 4)} times allowed)."
            for audit in audits
        ]
        lines += dict.fromkeys(said)  # people's own secrets often have the same worst case
        if "shuffled_epsilon" in measures:
            lines.append(
                "If shuffled by a trusted party, all reports together have epsilon "
                f"{measures['shuffled_epsilon']:.3g} (delta {measures['shuffled_delta']:.1g})."
            )
        return "\n".join(lines)


@dataclass(frozen=True)
class PreparedSurveys:
    """A survey of several attributes under one budget, with channel and reports of each."""

    attributes: Any
    parts: Mapping[str, PreparedSurvey]

    def run(self) -> Result:
        """Estimate the shares of every attribute; limits apply to the worst one."""
        from dataclasses import replace

        found = {name: part.run() for name, part in self.parts.items()}
        budget = self.attributes.ldp_budget()
        words = (
            f"{name}: {one.text.replace(chr(10), chr(10) + '  ')}" for name, one in found.items()
        )
        limits = []
        for same in zip(*(one.limits for one in found.values()), strict=True):
            worst = max(same, key=lambda limit: limit.found)
            limits.append(replace(worst, found=budget) if worst.measure == "epsilon" else worst)
        return Result(
            text="\n".join(
                [*words, f"Everything that one person sends has a budget of {budget:g}."]
            ),
            measures={
                "epsilon": budget,
                **{
                    f"{name}_{m}": v for name, one in found.items() for m, v in one.measures.items()
                },
            },
            tables={f"shares_{name}": one.tables["shares"] for name, one in found.items()},
            limits=tuple(limits),
            details={name: one.details for name, one in found.items()},
            plots={f"shares_{name}": one.plots["shares"] for name, one in found.items()},
        )


def _channel(how: SurveyMechanism, values: tuple[str, ...]) -> Any:
    from anonbayes.channels.personalized import Personalized
    from anonbayes.domains import Domain

    if MECHANISMS[how.channel].numeric:
        return how.channel_on(how.channel, Domain(ANSWER, _numbers(values)), how.epsilon)
    domain = Domain(ANSWER, [*values, *how.tags])
    if not how.tags:
        return how.channel_on(how.channel, domain, how.epsilon)
    some = how.model_copy(update={"sensitive": (*how.sensitive, *how.tags)})
    return Personalized(some.channel_on(how.channel, domain, how.epsilon), how.tags)


def _attributes(how: SurveyMechanism, values: Mapping[str, Any]) -> Any:
    from anonbayes.channels.several import Attributes
    from anonbayes.domains import Domain

    domains = [Domain(name, list(each)) for name, each in values.items()]
    return Attributes(domains, how.epsilon or 0.0, how=how.how, mechanism=how.channel)


def _parts(settings: Survey, survey: Any, sent: Any, truth: Mapping[str, Any]) -> PreparedSurveys:
    parts = {
        name: PreparedSurvey(settings, channel, sent.reports[name], truth[name], {})
        for name, channel in survey.channels.items()
    }
    return PreparedSurveys(survey, parts)


def _simulate_several(settings: Survey, population: SurveyPopulation) -> PreparedSurveys:
    import numpy as np

    survey = _attributes(settings.mechanism, population.attributes)
    seeds, n = np.random.SeedSequence(settings.seed).spawn(2), population.people
    rng, held, truth = np.random.default_rng(seeds[0]), {}, {}
    for name, channel in survey.channels.items():
        where = f"population.attributes.{name}"
        p = _distribution(where, population.attributes[name], channel.domain)
        codes = rng.choice(len(p), n, p=p)
        held[name] = channel.domain.decode(codes)
        truth[name] = np.bincount(codes, minlength=len(p)) / n
    sent = survey.release(held, seed=None if settings.seed is None else seeds[1])
    return _parts(settings, survey, sent, truth)


def _simulate_sets(settings: Survey, population: SurveyPopulation) -> PreparedSurvey:
    import numpy as np

    channel = _channel(settings.mechanism, settings.mechanism.values or tuple(population.shares))
    seeds, values = np.random.SeedSequence(settings.seed).spawn(2), channel.domain.values
    shares = np.array([population.shares.get(value, 0.0) for value in values])
    if not ((shares >= 0) & (shares <= 1)).all():
        raise AnonbayesError("population.shares of padded_sets must lie between 0 and 1.")
    holds = np.random.default_rng(seeds[0]).random((population.people, len(values))) < shares
    sets = [[values[i] for i in np.flatnonzero(row)] for row in holds]
    sent = channel.release(sets, seed=None if settings.seed is None else seeds[1])
    return PreparedSurvey(settings, channel, sent, holds.mean(axis=0), {})


def _numbers(values: tuple[str, ...]) -> list[float]:
    from anonbayes.domains import number_place

    numbers = [number_place(value) for value in values]
    if None in numbers:
        wrong = values[numbers.index(None)]
        raise AnonbayesError(f"{wrong!r} is not a number, but the mechanism needs numbers.")
    return sorted(number for number in numbers if number is not None)


def _simulate(settings: Survey, population: SurveyPopulation) -> PreparedSurvey:
    import numpy as np

    how = settings.mechanism
    if population.people > 10**9:
        raise AnonbayesError(
            f"population.people = {population.people} is more than 1,000,000,000, which is too "
            "many to simulate."
        )
    if MECHANISMS[how.channel].sets:
        return _simulate_sets(settings, population)
    channel = _channel(how, settings._values or tuple(population.shares))
    size, seeds = len(channel.domain), np.random.SeedSequence(settings.seed).spawn(2)
    rng = np.random.default_rng(seeds[0])
    everyone = _distribution("population.shares", population.shares, channel.domain)
    weights = [tag.share for tag in how.tags.values()]
    kind = rng.choice(len(weights) + 1, population.people, p=[*weights, max(0, 1 - sum(weights))])
    codes = rng.choice(size, population.people, p=everyone)
    held: Any = channel.domain.decode(codes)
    knowledge = {}
    for i, (name, tag) in enumerate(how.tags.items()):
        where = f"mechanism.tags.{name}.places"
        places = _distribution(where, tag.places, channel.domain) if tag.places else everyone
        mine = kind == i
        codes[mine] = rng.choice(size, int(mine.sum()), p=places)
        held[mine] = name
        if tag.known:
            knowledge[name] = places
    truth = np.bincount(codes, minlength=size) / population.people
    device: Any = None if settings.seed is None else np.random.default_rng(seeds[1])
    sender = channel.common if how.tags else channel
    return PreparedSurvey(settings, channel, sender.release(held, seed=device), truth, knowledge)


def _distribution(where: str, weights: Mapping[str, float], domain: Domain) -> Floats:
    import numpy as np

    out = np.zeros(len(domain))
    for value, weight in weights.items():
        if not weight >= 0:
            raise AnonbayesError(f"{where}.{value} = {weight!r} must not be negative.")
        out[domain.index(value)] = weight
    if not 0 < out.sum() < np.inf:
        raise AnonbayesError(f"{where} must have a positive, finite sum.")
    return out / out.sum()


def _write_draws(estimate: Estimate, path: Path) -> None:
    from anonbayes import compat

    assert estimate.draws is not None
    content = {"posterior": estimate.draws.rename("p").to_dataset()}
    compat.write_groups(content, path, attrs={})


def plot_shares(estimate: Estimate, truth: Floats | None) -> Axes:
    """Plot shares with their intervals, and the true shares if known."""
    import numpy as np

    from anonbayes.figures import SERIES, in_lines, legend_below, make_axes, percent_axis

    place = np.arange(len(estimate.p))
    ax = make_axes(None, 6.0, 1.2 + 0.28 * len(place))
    errors = None
    if estimate.interval is not None:
        errors = np.abs(estimate.interval.T - estimate.p)
    ax.errorbar(estimate.p, place, xerr=errors, fmt="o", color=SERIES[0], label=estimate.method)
    if truth is not None:
        ax.plot(truth, place, "|", color="black", markersize=14, label="truth")
    ax.set_yticks(place, in_lines(estimate.domain.labels))
    ax.invert_yaxis()
    ax.set_xlabel("Share of people")
    percent_axis(ax.xaxis)
    legend_below(ax)
    return ax
