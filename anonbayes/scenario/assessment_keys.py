"""Keys of ``kind = "assessment"``, its attackers, and its answer in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pydantic import model_validator

from anonbayes.errors import AnonbayesError, nearest
from anonbayes.formats import count
from anonbayes.scenario.choices import ACTORS, ENGINES, EVIDENCE, PRESETS, THREATS, USEFULNESS
from anonbayes.scenario.keys import Section, Several, key, word_of
from anonbayes.scenario.outputs import Outputs
from anonbayes.scenario.release import Release, make_release

if TYPE_CHECKING:
    import pandas as pd

    from anonbayes.beliefs.editions import People as WhoIsWho
    from anonbayes.inference.posterior import Posterior
    from anonbayes.io.files import Plot
    from anonbayes.risk.actors import Actor, Attackers
    from anonbayes.risk.assessment import RiskAssessment
    from anonbayes.risk.measures import Limit
    from anonbayes.scenario.people_in_clear import People
    from anonbayes.scenario.release_assessment import Assessed, Assessment
    from anonbayes.tables.evidence import KnownValues
    from anonbayes.tables.table import ReleasedTable

# -------------------------------------------------------------------------------------------------
# The keys: prior and sampler, threats, attackers, limits, outputs.

Evidence: Any = word_of(EVIDENCE)
Engine: Any = word_of(ENGINES)
Threat: Any = word_of(THREATS)
Usefulness: Any = word_of(USEFULNESS)
Preset: Any = word_of(PRESETS)


class Model(Section):
    """Prior and sampler."""

    alpha: Any = key(
        "Prior weight of the sensitive values: one for all, or by value, such as HIV=0.1; 1 by "
        "default.",
        1.0,
    )
    beta: Any = key(
        "Prior weight of the other values: one for all, by column, or the word pooled. The default "
        "is 1 for independent evidence and pooled for weighted evidence.",
        None,
    )
    evidence: Evidence = key(
        "How the evidence of several columns is combined: independent (each in full), weighted (by "
        "weights learned from the release), or auto (whichever predicts held-out rows better).",
        "auto",
    )
    method: Engine = key("Engine: auto, exact, gibbs or nuts.", "auto")
    step: str | None = key("Kind of Gibbs step for an Anatomy release, such as tempered.", None)
    draws: int = key("Draws per chain.", 1000, ge=1)
    tune: int | None = key("Tuning sweeps to discard before the draws.", None, ge=0)
    chains: int = key("Number of chains.", 4, ge=1)
    cores: int | None = key("Number of chains that run at the same time.", None, ge=1)


class Threats(Section):
    """What counts as a threat."""

    harm: Several[str] = key("Sensitive values that must not be inferred; by default all.", ())
    kind: Literal["predictive", "conditional"] = key("Kind of the learner's belief.", "predictive")
    minimality: bool = key(
        "Compute what the anonymizer's choice itself reveals (recode, mondrian), by anonymizing "
        "again; shown in the report.",
        False,
    )
    measure: Threat = key("Measure of threat by which releases are compared.", "RGT_A")
    usefulness: Usefulness = key(
        "Kind of usefulness against which that threat is weighed: two_way_error, margin_error, "
        "loss or accuracy.",
        "two_way_error",
    )


class Victim(Section):
    """A person for whom beliefs are computed."""

    name: str = key("Name of the person in the results.")
    known: dict[str, Any] = key("What is known: attribute = value; omitted = unknown.", dict)
    group: Any = key("Known group of the person in an Anatomy release.", None)
    secret: Any = key("True sensitive value, for limits.max_belief.", None)


class Attacker(Section):
    """An attacker, described by what the attacker knows; several are compared."""

    name: str = key(
        "Name of the attacker in the results. An insider knows the group, a register holder has "
        "[others], a collector has [[also]]; a neighbour needs knows.",
    )
    knows: Several[str] = key("Attributes of a person that are known; by default all.", ())
    coarse: dict[str, int] = key(
        "Attributes of which only a level of the hierarchy is known.", dict
    )
    noisy: dict[str, float] = key(
        "Attributes known only through randomized response, with its epsilon.", dict
    )
    group: bool = key(
        "Whether the attacker knows each person's group in an Anatomy, from cleartext.group.", False
    )
    others: bool = key("Whether the attacker has the register, [others].", False)
    also: bool = key("Whether the attacker has the further releases, [[also]].", False)
    alpha: Any = key("Prior weights of the sensitive values; by default those of [model].", None)
    beta: Any = key("Prior weights of the other values; by default those of [model].", None)
    at_most: dict[str, float] = key(
        'Largest acceptable value of a measure, such as "right" = 0.5.', dict
    )

    @model_validator(mode="before")
    @classmethod
    def _by_name(cls, given: Any) -> Any:
        return ACTORS.get(str(given.get("name")), {}) | given if isinstance(given, dict) else given

    def check(self) -> Iterator[str]:
        """Yield what is missing."""
        if self.name == "neighbour" and not (self.knows or self.coarse or self.noisy):
            yield "@knows is missing: list the attributes that a neighbour knows."


IDENTITY_LIMITS = {
    "max_unique_in_population": "unique_in_population_high",
    "max_match_probability": "largest_match",
    "max_membership_tpr": "membership_tpr_high",
}
"""Limits that need the size of the population, and the measures that they limit."""


class AssessedPopulation(Section):
    """The population to which the people in the table belong."""

    size: int | None = key(
        "Number of people in the population, including those in the table. Adds who stands out "
        "among them and, with [others], how surely one can tell who is in the table.", None, ge=1,
    )  # fmt: skip


def _share(about: str) -> Any:
    return key(about, None, ge=0, le=1)


class AssessmentLimits(Section):
    """Limits; the exit code is 3 if one is exceeded."""

    max_relative_threat: float | None = key("Largest relative threat to anybody.", None, gt=0)
    max_threatened: float | None = _share("Largest share (0 to 1) of threatened people.")
    max_cost: float | None = _share(
        "Largest cost of being in the table: share (0 to 1) of people guessed right in addition to "
        "those guessed right from the population alone."
    )
    max_doubled: float | None = _share(
        "Largest share (0 to 1) of people with a relative threat of 2 or more."
    )
    max_log_loss_gain: float | None = key(
        "Most that being in the table may teach about a secret, in nats.", None, gt=0
    )
    max_unique_in_population: float | None = key(
        "Largest number of people in the release who are unique in the population, at the upper "
        "end of the interval; needs population.size.", None, ge=0,
    )  # fmt: skip
    max_match_probability: float | None = _share(
        "Largest probability that a released row is matched to the right person in the population; "
        "needs population.size."
    )
    max_membership_tpr: float | None = _share(
        "Largest share (0 to 1) of the table's people who are recognised as being in it, if 1% of "
        "others are wrongly taken to be, at the upper end of the interval; needs "
        "population.size and [others]."
    )
    max_belief: float | None = _share(
        "Largest belief (0 to 1) of the attacker in anybody's true secret."
    )
    at_most: dict[str, float] = key(
        "Largest acceptable value of any measure, such as Ti_q95=2 or ece_A=0.05.", dict
    )
    at_least: dict[str, float] = key(
        "Smallest acceptable value of any measure, such as RF=0.9.", dict
    )
    preset: Preset | None = key(
        "Published threshold for the highest prosecutor risk (1 divided by the size of the "
        f"smallest group of equal rows): {', '.join(PRESETS)}.",
        None,
    )
    require_convergence: bool | None = key(
        "Require chains that can be trusted; the default if any other limit is set.", None
    )

    def check(self) -> Iterator[str]:
        """Yield contradictions between keys."""
        for name in ("at_most", "at_least"):
            if given := getattr(self, name):
                from anonbayes.risk.measures import check_measure_limits

                try:
                    check_measure_limits(given, what=f"@{name}")
                except AnonbayesError as error:
                    yield str(error)

    @property
    def threats(self) -> dict[str, Any]:
        """Limits on measures of the assessment, if set."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        others = ("require_convergence", "preset", *IDENTITY_LIMITS)
        return {k: v for k, v in given.items() if v not in (None, {}) and k not in others}

    @property
    def needs_convergence(self) -> bool:
        """Whether chains that cannot be trusted exceed a limit."""
        asked = self.require_convergence
        return bool(self.threats or self.preset) if asked is None else asked


class AssessmentOutputs(Outputs):
    """Where results go, and which are written."""

    report: bool = key("Write a report as a single HTML page.", True)
    show_values: bool = key(
        "Show the values of threatened people, and values that only the cleartext has, in the "
        "report.",
        False,
    )
    hide_values: bool = key(
        "Also in posterior.nc, replace values that the release does not show by placeholders.",
        False,
    )
    draws: bool = key(
        "Store draws in posterior.nc even if a closed form can reproduce them.", False
    )


# -------------------------------------------------------------------------------------------------
# Attackers: what each of them knows and has, according to the keys.


ALONE, TOGETHER = "this release alone", "all releases together"


@dataclass(frozen=True, eq=False)
class Further:
    """Further releases about the same people, and how people are matched across all releases."""

    tables: tuple[ReleasedTable, ...] = ()
    people: WhoIsWho = "records"


def check_attackers(asked: Assessment) -> Iterator[str]:
    """Yield contradictions between keys about attackers and further releases."""
    if any(one.file is None for one in asked.also):
        yield "also: a further release must be in a file; give also.file."
    if asked.also and asked.others is not None and not asked.attackers:
        yield "[others] cannot be combined with [[also]]; list attackers who have one or the other."
    if (asked.also or asked.attackers) and (asked.cleartext is None or asked.sweep):
        yield "[[also]] and [[attackers]] need [cleartext], and cannot be used in a sweep."
    names = [one.name for one in asked.attackers]
    if len(set(names)) < len(names):
        yield "two attackers have the same name."
    for one in asked.attackers:
        if one.others and asked.others is None:
            yield f"attacker {one.name!r} has a register: [others] is missing."
        if one.also and not asked.also:
            yield f"attacker {one.name!r} has further releases: [[also]] is missing."
        if one.group and (asked.cleartext is None or asked.cleartext.group is None):
            yield f"attacker {one.name!r} knows the group: cleartext.group is missing."


def read_further(
    release: Release,
    table: ReleasedTable,
    also: Sequence[Release],
    known: Mapping[str, KnownValues] | None,
) -> Further:
    """Read further releases, and the keys of their people if every release has them."""
    from anonbayes.risk.people import check_all_known

    if known is not None:
        for one in also:
            check_all_known(one.column_names, known)
    tables = tuple(make_release(one, known=known).table for one in also)
    every = (release, *also)
    named = [one.person is not None for one in every]
    if not also or not any(named):
        return Further(tables)
    if not all(named):
        where = "also" if named[0] else "release"
        raise AnonbayesError(
            f"{where}.person is missing: either every release names the column with the keys of "
            "its people, or none does."
        )
    pairs = zip(every, (table, *tables), strict=True)
    return Further(tables, [_keys(one, read) for one, read in pairs])


def _keys(release: Release, table: ReleasedTable) -> list[str]:
    """Return the keys of a release in the order of the table's rows (if vertical, by group)."""
    from anonbayes.io.text import read_columns

    assert release.file is not None and release.person is not None
    columns = {"release.person": release.person}
    columns |= {} if release.group is None else {"release.group": release.group}
    frame = read_columns(release.file, columns, **release.text)
    if table.scheme == "vertical":
        place = {str(label): code for code, label in enumerate(table.group_labels)}
        frame = frame.iloc[frame[release.group].map(place).argsort(kind="stable")]
    return frame[release.person].tolist()


def attackers_of(
    asked: Sequence[Attacker],
    people: People,
    post: Posterior,
    table: ReleasedTable,
    *,
    further: Further,
    register: ReleasedTable | None,
    **settings: Any,
) -> Attackers | None:
    """Assess the given attackers; with further releases, with and without them."""
    from anonbayes.risk.actors import Actor, Attackers, attackers

    if not asked and not further.tables:
        return None
    if not asked:
        # The assessment itself is that of somebody who has all of them.
        together = Actor(TOGETHER, also=further.tables, about="Has all releases.")
        found = attackers(
            table, people.frame, [Actor(ALONE, about="Holds this release only.")],
            weights=people.weights, **settings,
        )  # fmt: skip
        risk = people.assess(post, harm=settings.get("harm"))
        return Attackers((*found.actors, together), {**found.risks, TOGETHER: risk})
    actors = actors_of(asked, people, table, further, register)
    single = post if post.editions is None and post.register is None else None
    single = single if single is not None and single.table is table else None
    return attackers(table, people.frame, actors, weights=people.weights, post=single, **settings)


def actors_of(
    asked: Sequence[Attacker],
    people: People,
    table: ReleasedTable,
    further: Further,
    register: ReleasedTable | None,
) -> list[Actor]:
    """Convert attackers for `attackers`; refuse what does not fit the release."""
    from anonbayes.risk.actors import Actor

    for one in asked:
        Actor(one.name, knows=(*one.knows, *one.noisy), coarse=one.coarse).check(table)
    return [_actor(one, people, table, further, register) for one in asked]


def _actor(
    asked: Attacker,
    people: People,
    table: ReleasedTable,
    further: Further,
    register: ReleasedTable | None,
) -> Actor:
    from anonbayes.channels.pure import RandomizedResponse
    from anonbayes.risk.actors import Actor

    how = [f"{name} coarsely" for name in asked.coarse]
    how += [f"{name} with noise" for name in asked.noisy]
    held = ["the group of the Anatomy that they are in"] if asked.group else []
    if asked.others and register is not None:
        held.append(f"{register.n_rows:,} other people in clear")
    if asked.also:
        held.append(count(len(further.tables), "more release") + " about the same people")
    known = ", ".join([*(asked.knows or ["all attributes"]), *how])
    return Actor(
        asked.name,
        knows=asked.knows or None,
        coarse=dict(asked.coarse),
        noisy={n: RandomizedResponse(table.domains[n], e) for n, e in asked.noisy.items()},
        group=people.group if asked.group else None,
        register=register if asked.others else None,
        also=further.tables if asked.also else (),
        people=further.people if asked.also else "records",
        alpha=asked.alpha,
        beta=asked.beta,
        about=f"Knows {known} of a person{''.join(f', and {one}' for one in held)}.",
    )


def limits_of(asked: Sequence[Attacker], found: Attackers | None) -> Iterator[Limit]:
    """Yield the limits of each attacker."""
    from anonbayes.risk.measures import Limit

    for one in asked:
        for measure, limit in one.at_most.items():
            assert found is not None
            known = found.table.drop(columns="about")
            if measure not in known:
                raise AnonbayesError(
                    f"attackers.{one.name}.at_most: {measure!r} is not a measure of attackers. "
                    f"{nearest(measure, known.columns)}"
                )
            name = f"{one.name}: {measure}"
            yield Limit(name, name, limit, float(known[measure].to_dict()[one.name]))


# -------------------------------------------------------------------------------------------------
# The answer as tables, limits, words and plots.


def belief_table(settings: Assessment, post: Posterior) -> pd.DataFrame | None:
    """Table of beliefs with a line per victim and sensitive value."""
    import pandas as pd

    parts = []
    for victim in settings.victims:
        known = {k: set(v) if isinstance(v, list) else v for k, v in victim.known.items()}
        both = {
            "learner": post.learner(known),
            "attacker": post.attacker(known, group=victim.group),
            "random_worlds": post.random_worlds(known, group=victim.group),
        }
        frame = pd.DataFrame(both).rename_axis(post.table.sensitive).reset_index()
        parts.append(frame.assign(victim=victim.name).set_index(["victim", post.table.sensitive]))
    return pd.concat(parts) if parts else None


def secret_belief(
    settings: Assessment, beliefs: pd.DataFrame, table: ReleasedTable
) -> dict[str, float]:
    """Return the attacker's largest belief in a victim's secret, if any victim has one."""
    domain = table.secret.domain
    held = [
        beliefs.loc[(v.name, domain.values[domain.index(v.secret)]), "attacker"]
        for v in settings.victims
        if v.secret is not None
    ]
    return {"max_belief": float(max(held))} if held else {}


def population_shares(post: Posterior) -> pd.DataFrame:
    """Posterior mean and spread of the sensitive values in the population."""
    import pandas as pd

    labels = pd.Index(post.table.secret.domain.labels, name=post.table.sensitive)
    mean = post.secret_mean
    if not post.simulated:
        weight = post.prior.alpha.sum() + post.population.secret_counts.sum()
        return pd.DataFrame({"mean": mean, "sd": (mean * (1 - mean) / (weight + 1)) ** 0.5}, labels)
    draws, over = post.draws[f"pi_{post.table.sensitive}"], ("chain", "draw")
    sd = draws.std(over).to_numpy()
    return pd.DataFrame({"mean": draws.mean(over).to_numpy(), "sd": sd}, labels)


def threat_limits(limits: AssessmentLimits, risk: RiskAssessment | None) -> tuple[Limit, ...]:
    """Return the limits on threats with their values."""
    from anonbayes.risk.measures import check_limits

    return () if risk is None else check_limits(risk, **limits.threats)


def all_limits(limits: AssessmentLimits, risk: RiskAssessment) -> tuple[Limit, ...]:
    """Return the limits on threats and on the groups of the release, with their values."""
    from anonbayes.risk.measures import check_preset

    named = () if limits.preset is None else (check_preset(risk.post.table, limits.preset),)
    return (*threat_limits(limits, risk), *named)


def in_words(answer: Assessed, beliefs: pd.DataFrame | None) -> str:
    """Return the findings as text, one or more sentences per line."""
    judged = answer.diagnostics
    lines = [] if answer.attackers is None else [answer.attackers.text]
    lines += [] if answer.risk is None else [answer.risk.text, *answer.risk.remarks]
    if answer.attackers is not None:
        for name, risk in answer.attackers.risks.items():
            lines += [f"{name.capitalize()}: {r}" for r in risk.remarks if r not in lines]
    if "release" in answer.standing_out:
        lines.append(f"Release: {answer.standing_out['release']}")
    lines += [str(found) for found in (answer.membership, answer.minimality) if found is not None]
    if beliefs is not None:
        for victim, of_victim in beliefs.groupby(level="victim", sort=False):
            label, line = max(of_victim.iterrows(), key=lambda item: item[1]["attacker"])
            lines.append(
                f"{victim}: an attacker believes {label[1]!r} with {line['attacker']:.1%}, "  # type: ignore[index]
                f"a learner with {line['learner']:.1%}."
            )
    lines.append(f"Convergence {judged.verdict}: {judged.reason}")
    return "\n".join(lines)


def risk_plots(risk: RiskAssessment) -> dict[str, Plot]:
    """Return functions that draw the plots of an assessment, by name."""
    plots: dict[str, Plot] = {"group_sizes": risk.plot_group_sizes}
    if len(risk.threatened):
        plots |= {"beliefs": risk.plot_beliefs, "relative_threat": risk.plot_relative_threat}
    return plots
