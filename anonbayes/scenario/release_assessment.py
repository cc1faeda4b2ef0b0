"""``kind = "assessment"``: who is threatened by a release, and what can be learned from it.

`anonbayes assess`, `compare`, `anonymize --report` and `run` all make such a request, from options
or from a file, and everything else happens here.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from anonbayes.errors import AnonbayesError, AnonymizationError, ConvergenceWarning, nearest
from anonbayes.formats import plain
from anonbayes.scenario.assessment_keys import (
    IDENTITY_LIMITS,
    AssessedPopulation,
    AssessmentLimits,
    AssessmentOutputs,
    Attacker,
    Further,
    Model,
    Threats,
    Victim,
    actors_of,
    all_limits,
    attackers_of,
    belief_table,
    check_attackers,
    in_words,
    limits_of,
    population_shares,
    read_further,
    risk_plots,
    secret_belief,
    threat_limits,
)
from anonbayes.scenario.keys import Several, key
from anonbayes.scenario.outputs import AnyScenario, Result, compare_limits, stage
from anonbayes.scenario.people_in_clear import People, PeopleInClear, read_others, read_people
from anonbayes.scenario.release import Made, Release, make_release, what_choice_tells

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from distributed import Client

    from anonbayes.diagnostics import DiagnosticReport
    from anonbayes.domains import Domain
    from anonbayes.inference.posterior import Posterior
    from anonbayes.risk.actors import Attackers
    from anonbayes.risk.assessment import RiskAssessment
    from anonbayes.risk.comparison import Comparison, Recommendation
    from anonbayes.risk.measures import Limit
    from anonbayes.risk.minimality import Downcoding
    from anonbayes.risk.people import Truth
    from anonbayes.tables.table import ReleasedTable
    from anonbayes.uniqueness.identity import Identity
    from anonbayes.uniqueness.membership import Membership


class Assessment(AnyScenario):
    """Who is threatened by a release of a table, and what can still be learned from it."""

    kind: Literal["assessment"] = key("Kind of the scenario.")
    release: Release = key("What is released.")
    also: Several[Release] = key(
        "Further releases about the same people, in files; on the command line, Anatomy is "
        "FILE+SENSITIVE_FILE.",
        (),
    )
    cleartext: PeopleInClear | None = key(
        "Cleartext: the people of the table before anonymization. Without it, no threats are "
        "computed.",
        None,
    )
    others: PeopleInClear | None = key(
        "Register of other people in clear, which the attacker has.", None
    )
    holdout: PeopleInClear | None = key(
        "People of the same population who are not in the table, in clear with their secrets: "
        "where releases are compared, classifiers are tested on them.",
        None,
    )
    population: AssessedPopulation = key("The population.", AssessedPopulation)
    model: Model = key("Prior and sampler.", Model)
    threats: Threats = key("What counts as a threat.", Threats)
    victims: Several[Victim] = key("People for whom beliefs are computed.", ())
    attackers: Several[Attacker] = key(
        "Attackers to compare: stranger, insider, register holder, collector (of [[also]]), or a "
        "name with the columns known, such as neighbour:age,sex.",
        (),
    )
    limits: AssessmentLimits = key("Limits on the results.", AssessmentLimits)
    sweep: dict[str, list[Any]] = key(
        'Keys of this file with the values to compare, such as "release.k" = [2, 5].', dict
    )
    outputs: AssessmentOutputs = key("Where results go.", AssessmentOutputs)

    def check(self) -> Iterator[str]:
        """Yield contradictions between keys."""
        if self.population.size is None:
            for name in IDENTITY_LIMITS:
                if getattr(self.limits, name) is not None:
                    yield f"limits.{name} needs population.size."
        elif self.sweep:
            yield "population.size cannot be used in a sweep."
        yield from check_attackers(self)
        if self.limits.max_membership_tpr is not None and not (self.others and self.cleartext):
            yield "limits.max_membership_tpr needs [others] and [cleartext]."
        if self.threats.minimality and self.release.scheme not in ("recode", "mondrian"):
            yield "threats.minimality needs release.scheme recode or mondrian, to anonymize again."
        if self.threats.minimality and self.sweep:
            yield "threats.minimality cannot be used in a sweep."
        if self.others is not None and self.others.group is not None:
            yield "others.group does not apply: these people are in no group of the release."
        if self.cleartext is None:
            if self.release.scheme is not None:
                yield "release.scheme needs [cleartext] to make the release from."
            if self.threats.harm:
                yield "threats.harm needs [cleartext]."
            if self.sweep:
                yield "sweep needs [cleartext]."
            if self.limits.threats.keys() - {"max_belief"}:
                yield "limits on threats need [cleartext] to compare guesses with."
        named = any(victim.secret is not None for victim in self.victims)
        if self.limits.max_belief is not None and not named and self.cleartext is None:
            yield "limits.max_belief needs [cleartext], or victims with a secret."
        names = [victim.name for victim in self.victims]
        if len(set(names)) < len(names):
            yield "two victims have the same name."
        if self.cleartext and self.cleartext.missing == "unknown" and self.release.scheme:
            yield "cleartext.missing 'unknown' cannot be used if a release is made."
        if self.sweep and self.victims:
            yield "victims cannot be used in a sweep."

    def prepare(self, variants: Mapping[str, Assessment] | None = None) -> Any:
        """Read and check all inputs before anything expensive."""
        if variants:
            return prepare_sweep(self, variants)
        if self.holdout is not None:
            raise AnonbayesError("[holdout] has a meaning in a sweep only.")
        people = _rows(self, [self])
        made = _made(self, people)
        if people is None and self.cleartext is not None:
            people = read_people(self.cleartext, [made.table])
        return _checked(self, made, people)

    def make(self) -> PreparedAssessment:
        """Make the release from the cleartext; the two then match without further checks."""
        people = _rows(self, [self])
        made = _made(self, people)
        assert people is not None
        further = read_further(self.release, made.table, self.also, people.values())
        return PreparedAssessment(self, made, people, further=further)


def _rows(settings: Assessment, variants: Iterable[Assessment]) -> People | None:
    """Read the cleartext before releases that are made from it or need its values."""
    asked = [one.release for one in variants]
    if settings.cleartext is None:
        return None
    if all(one.file is not None for one in asked):
        return read_people(settings.cleartext, [*asked, *settings.also])
    if all(one.scheme is None for one in asked):
        return None
    chosen = [(*one.quasi_identifiers, *one.sensitive) for one in asked]
    everything = any(one.scheme and not one.quasi_identifiers for one in asked)
    used = () if everything else dict.fromkeys(name for names in chosen for name in names)
    secrets = [name for one in asked for name in one.sensitive]
    return read_people(settings.cleartext, used=used, sensitive=secrets)


def _made(settings: Assessment, people: People | None) -> Made:
    dataset = None if settings.cleartext is None else settings.cleartext.dataset
    rows = None if people is None else people.frame
    known = None if people is None or settings.release.file is None else people.values()
    return make_release(settings.release, rows, dataset=dataset, seed=settings.seed, known=known)


def _checked(settings: Assessment, made: Made, people: People | None) -> PreparedAssessment:
    from anonbayes.inference.dirichlet import resolve_prior

    table = made.table
    alpha, beta = settings.model.alpha, settings.model.beta
    resolve_prior(table, alpha=alpha, beta=1.0 if beta in (None, "pooled") else beta)
    truth = None
    if people is not None:
        truth = people.check(table)
        _check_cover(settings, table, truth)
        _harm(settings, table)
    size, register, outsiders = settings.population.size, None, None
    if settings.others is not None:
        if size is not None and people is not None:
            outsiders = read_people(settings.others, [table])
            if settings.limits.max_membership_tpr is not None:
                outsiders.check_number()
        register = read_others(settings.others, table)
    for victim in settings.victims:
        for name, value in victim.known.items():
            _check_known(table, victim.name, name, value)
        if victim.secret is not None:
            table.secret.domain.index(victim.secret)
    if size is not None and size < table.n_rows:
        raise AnonbayesError(
            f"population.size: {size:,} people are fewer than the {table.n_rows:,} in the table."
        )
    further = read_further(
        settings.release, table, settings.also, None if people is None else people.values()
    )
    if people is not None:
        actors_of(settings.attackers, people, table, further, register)  # checks the input
    return PreparedAssessment(settings, made, people, truth, register, further, outsiders)


def _check_cover(settings: Assessment, table: ReleasedTable, truth: Truth) -> None:
    """Raise an error if the cleartext has other people than the release, unless that is allowed."""
    if truth.n_rows == table.n_rows or (settings.cleartext and settings.cleartext.partial):
        return
    part = "only some of the people" if truth.n_rows < table.n_rows else "more people than those"
    raise AnonbayesError(
        f"The cleartext has {truth.n_rows:,} rows, the release {table.n_rows:,}: it contains "
        f"{part} in the release, and limits checked on it say nothing about the others. To allow "
        "this, set cleartext.partial."
    )


def pairs_of(domain: Domain) -> list[tuple[object, ...]]:
    """Return the values that join those of several columns."""
    return [value for value in domain.values if isinstance(value, tuple)]


def _harm(settings: Assessment, table: ReleasedTable) -> list[object]:
    """Return the harmful values; for joined columns, a value of one part stands for all pairs."""
    from anonbayes.tables.build import JOIN

    domain = table.secret.domain
    harmful: list[object] = []
    for text in settings.threats.harm:
        pairs = [v for v in pairs_of(domain) if text in map(str, v)]
        joined = [v for v in pairs_of(domain) if text == JOIN.join(map(str, v))]
        harmful += joined or pairs or [domain.values[domain.index(text)]]
    return list(dict.fromkeys(harmful))


def _check_known(table: ReleasedTable, victim: str, name: str, value: object) -> None:
    if name not in table.columns:
        raise AnonbayesError(
            f"Victim {victim!r}: {name!r} is not an attribute of the release. "
            f"{nearest(name, table.attributes)}"
        )
    for one in value if isinstance(value, list) else [value]:
        table.domains[name].index(one)


# -------------------------------------------------------------------------------------------------
# One release.


@dataclass(frozen=True)
class Assessed:
    """Results for a release; None or empty if not possible or not asked for.

    `standing_out` says who stands out in the ``release`` and in the ``cleartext``; `minimality`
    says what the anonymizer's choice reveals, or in a text why that could not be computed.
    """

    post: Posterior
    risk: RiskAssessment | None
    diagnostics: DiagnosticReport
    standing_out: Mapping[str, Identity] = field(default_factory=dict)
    attackers: Attackers | None = None
    membership: Membership | None = None
    minimality: Downcoding | str | None = None


@dataclass(frozen=True)
class PreparedAssessment:
    """One release, read or made, and checked, ready for the expensive part."""

    settings: Assessment
    made: Made
    people: People | None
    truth: Truth | None = None
    register: ReleasedTable | None = None
    further: Further = field(default_factory=Further)
    outsiders: People | None = None
    client: Client | None = None

    @property
    def table(self) -> ReleasedTable:
        """The release."""
        return self.made.table

    def answer(self, *, alone: bool = True, bar: bool = True) -> Assessed:
        """Fit and assess; one of several releases (not `alone`) uses a single core."""
        from anonbayes.diagnostics import diagnose
        from anonbayes.inference.fit import fit

        settings, model = self.settings, self.settings.model
        with stage("Fitting the model", shown=alone and bar, bars=True), warnings.catch_warnings():
            # The verdict on the chains is part of the result.
            warnings.simplefilter("ignore", ConvergenceWarning)
            how: dict[str, Any] = {
                "alpha": model.alpha, "beta": model.beta, "evidence": model.evidence,
                "method": model.method, "step": model.step, "draws": model.draws,
                "tune": model.tune, "chains": model.chains, "seed": settings.seed,
                "cores": model.cores if alone else 1, "client": self.client,
                "progressbar": alone and bar and sys.stderr.isatty(),
            }  # fmt: skip
            if self.further.tables:
                tables = [self.table, *self.further.tables]
                post = fit(tables, people=self.further.people, **how)
            else:
                post = fit(self.table, register=self.register, **how)
        risk, attackers = None, None
        if self.people is not None:
            harm, kind = _harm(settings, self.table) or None, settings.threats.kind
            with stage("Comparing guesses with the truth", shown=alone and bar):
                truth = self.truth if post.table is self.table else None
                risk = self.people.assess(
                    post, truth=truth, harm=harm, kind=kind, client=self.client
                )
            if alone:
                attackers = attackers_of(
                    settings.attackers, self.people, post, self.table, further=self.further,
                    register=self.register, harm=harm, **how,
                )  # fmt: skip
        with stage("Judging whether the draws can be trusted", shown=alone and bar):
            judged = diagnose(post if settings.outputs.show_values else post.published())
        if not alone:
            return Assessed(post, risk, judged)
        with stage("Asking who is in the table", shown=bar and self.outsiders is not None):
            members = None
            if self.outsiders is not None and self.people is not None:
                size = settings.population.size
                members = self.people.membership(
                    self.table, self.outsiders, population=size, seed=settings.seed or 0
                )
        with stage("Anonymizing again", shown=bar and settings.threats.minimality):
            choice = None
            if settings.threats.minimality and self.people and settings.cleartext:
                choice = what_choice_tells(
                    settings.release, self.table, self.people.frame,
                    dataset=settings.cleartext.dataset,
                    seed=settings.seed or 0,
                )  # fmt: skip
        return Assessed(post, risk, judged, self._standing_out(), attackers, members, choice)

    def _standing_out(self) -> dict[str, Identity]:
        size = self.settings.population.size
        if size is None:
            return {}
        from anonbayes.uniqueness.identity import identity

        tables: dict[str, ReleasedTable | pd.DataFrame] = {"release": self.table}
        if self.people is not None and self.people.weights is None:
            tables["cleartext"] = self.people.frame[list(self.table.attributes)]
        bar = sys.stderr.isatty()
        return {
            name: identity(table, population=size, seed=self.settings.seed, progressbar=bar)
            for name, table in tables.items()
        }

    def run(self, *, command: str | None = None) -> Result:
        """Compute everything that the request asks for; `command` is noted in the report."""
        answer = self.answer()
        post, risk, judged = answer.post, answer.risk, answer.diagnostics
        beliefs = belief_table(self.settings, post)
        measures: dict[str, float] = {}
        tables = {"population": population_shares(post)}
        if risk is not None:
            measures |= {str(name): float(value) for name, value in risk.summary.items()}
        if beliefs is not None:
            measures |= secret_belief(self.settings, beliefs, post.table)
            tables["beliefs"] = beliefs
        if answer.standing_out:
            released = answer.standing_out["release"]
            high = released.summary["high"].to_dict()
            measures["unique_in_population_high"] = float(high["unique_in_population"])
            measures["largest_match"] = float(released.rows["match"].max())
        members, choice = answer.membership, answer.minimality
        if members is not None:
            ends = members.summary.loc["tpr_at_1_percent"].to_dict()
            measures["membership_auc"] = float(members.summary["estimate"].to_dict()["auc"])
            measures["membership_tpr"] = float(ends["estimate"])
            measures["membership_tpr_high"] = float(ends["high"])
        limits = (
            *threat_limits(self.settings.limits, risk),
            *self._other_limits(measures, judged),
            *limits_of(self.settings.attackers, answer.attackers),
        )
        if answer.attackers is not None:
            tables["attackers"] = answer.attackers.table
        kept = post.published() if self.settings.outputs.hide_values else post
        assessment = None if risk is None else risk.to_dict()
        rows = [] if risk is None else risk.row_records()
        if members is not None and self.people is not None:
            stated = members.probability(self.people.frame).tolist()
            rows = [row | {"p_member": p} for row, p in zip(rows, stated, strict=True)]
        return Result(
            text=in_words(answer, beliefs),
            measures=measures,
            tables=tables,
            limits=limits,
            fields={
                "seed": str(post.attrs["entropy"]),
                "assessment": assessment,
                "diagnostics": judged.to_dict(),
                "identity": {name: who.to_dict() for name, who in answer.standing_out.items()},
                "attackers": [] if answer.attackers is None else answer.attackers.to_dict(),
                "membership": None if members is None else members.to_dict(),
                "minimality": choice if isinstance(choice, str | None) else choice.to_dict(),
                "rows": rows,
            },
            details={"engine": {"method": post.method, "step": post.step}},
            answer=answer,
            # A file of draws would contain the register's people, or lack the further releases.
            netcdf=None
            if self.register is not None or self.further.tables
            else partial(kept.to_netcdf, draws=self.settings.outputs.draws),
            plots=({} if risk is None else risk_plots(risk))
            | {f"standing_out_{name}": who.plot for name, who in answer.standing_out.items()}
            | ({} if answer.attackers is None else {"attackers": answer.attackers.plot})
            | ({} if members is None else {"membership": members.plot_roc}),
            files=self._report(answer, limits, command),
        )

    def _other_limits(
        self, measures: Mapping[str, float], judged: DiagnosticReport
    ) -> Iterator[Limit]:
        from anonbayes.risk.measures import Limit, check_preset

        asked = self.settings.limits
        yield from compare_limits(asked, measures, IDENTITY_LIMITS)
        if asked.preset is not None:
            yield check_preset(self.table, asked.preset)
        if asked.max_belief is not None and "max_belief" in measures:
            yield Limit("max_belief", "max_belief", asked.max_belief, measures["max_belief"])
        limited = any(one.at_most for one in self.settings.attackers)
        needed = asked.needs_convergence or (limited and asked.require_convergence is None)
        if asked.require_convergence or (needed and not judged.passed):
            passed = float(judged.passed)
            yield Limit("require_convergence", "converged", 1.0, passed, least=True)

    def _report(
        self, answer: Assessed, limits: tuple[Limit, ...], command: str | None
    ) -> dict[str, Callable[[Path], object]]:
        wanted = self.settings.outputs
        if not wanted.report:
            return {}
        from anonbayes.reporting.page import report

        shown = tuple(limit for limit in limits if limit.measure != "converged")
        return {
            "report.html": lambda path: report(
                answer.post, answer.risk, path, show_values=wanted.show_values,
                title=self.settings.question, diagnostics=answer.diagnostics, limits=shown,
                command=command, standing_out=answer.standing_out, attackers=answer.attackers,
                membership=answer.membership, minimality=answer.minimality,
            )
        }  # fmt: skip


# -------------------------------------------------------------------------------------------------
# Several releases of the same people.


@dataclass(frozen=True)
class AssessmentSweep:
    """Several releases of the same people; those that cannot be made are also reported."""

    settings: Assessment
    members: Mapping[str, PreparedAssessment]
    impossible: Mapping[str, str]
    holdout: pd.DataFrame | None = None
    client: Client | None = None
    begin: Callable[[str], object] | None = None
    """Called with the name of each release before it is assessed, instead of its own bar."""

    def run(self) -> Result:
        """Assess every release and compare them."""
        from anonbayes.risk.comparison import compare

        risks, passed = self._assess()
        compared = compare(risks, holdout=self.holdout)
        limits = self.settings.limits
        limited = bool(limits.threats or limits.preset) or limits.needs_convergence
        table = self._side_by_side(compared, passed)
        by = {
            "threat": self.settings.threats.measure,
            "usefulness": self.settings.threats.usefulness,
        }
        among = table.index[table["acceptable"]] if limited else None
        chosen = compared.recommend(**by, among=among, limited=limited)
        best = None if chosen is None else chosen.best
        measures = {
            "releases": float(len(table)),
            "efficient": float(table["efficient"].sum()),
            "acceptable": float(table["acceptable"].sum()),
        }
        text = self._words(compared, table, chosen)
        return Result(
            text=text,
            measures=measures,
            tables={"comparison": table.rename_axis("release")},
            limits=self._limits(measures) if limited else (),
            details={
                "best": best,
                "ties": [] if chosen is None else list(chosen.ties),
                "impossible": dict(self.impossible),
                "standard_errors": plain(compared.standard_errors.to_dict("index")),
            },
            answer=compared,
            plots={"tradeoff": lambda: compared.plot(**by)},
            files=self._report(compared, table, chosen, text),
        )

    def _report(
        self, compared: Comparison, table: pd.DataFrame, chosen: Recommendation | None, text: str
    ) -> dict[str, Callable[[Path], object]]:
        if not self.settings.outputs.report:
            return {}
        from anonbayes.reporting.page import comparison_report

        return {
            "report.html": lambda path: comparison_report(
                compared, path, table=table, chosen=chosen, text=text,
                threat=self.settings.threats.measure,
                usefulness=self.settings.threats.usefulness, title=self.settings.question,
            )
        }  # fmt: skip

    def _limits(self, measures: Mapping[str, float]) -> tuple[Limit, ...]:
        """One release must keep all limits."""
        from anonbayes.risk.measures import Limit

        return (Limit("limits", "acceptable", 1.0, measures["acceptable"], least=True),)

    def _side_by_side(self, compared: Comparison, passed: Mapping[str, bool]) -> pd.DataFrame:
        import pandas as pd

        limits, threats = self.settings.limits, self.settings.threats
        kept = {
            name: not any(limit.exceeded for limit in all_limits(limits, risk))
            for name, risk in compared.assessments.items()
        }
        table = compared.table.assign(
            efficient=compared.efficient(threat=threats.measure, usefulness=threats.usefulness),
            converged=pd.Series(passed),
            acceptable=pd.Series(kept),
        )
        if limits.needs_convergence:
            table["acceptable"] &= table["converged"]
        return table

    def _assess(self) -> tuple[dict[str, RiskAssessment], dict[str, bool]]:
        """Assess every release, and whether its chains converged; on a cluster one task each."""
        risks, passed = {}, {}
        if self.client is None:
            for name, member in self.members.items():
                if self.begin is not None:
                    self.begin(name)
                answer = member.answer(bar=self.begin is None)
                assert answer.risk is not None
                risks[name], passed[name] = answer.risk, answer.diagnostics.passed
            return risks, passed
        from anonbayes.cluster import run_tasks

        people = next(iter(self.members.values())).people
        assert people is not None
        alone = {name: replace(m, people=None, truth=None) for name, m in self.members.items()}
        answers = run_tasks(
            self.client, people, _assess_member, alone, label="sweep",
            progressbar=sys.stderr.isatty(),
        )  # fmt: skip
        for name, (risk, converged) in answers.items():
            risks[name], passed[name] = replace(risk, cleartext=people.frame), converged
        return risks, passed

    def _words(
        self, compared: Comparison, table: pd.DataFrame, chosen: Recommendation | None
    ) -> str:
        from anonbayes.formats import count, number, share
        from anonbayes.risk.measures import MEASURES

        n = int(table["efficient"].sum())
        lines = [
            f"{count(len(table), 'release')} compared; {n} {'is' if n == 1 else 'are'} worth "
            "considering: no other is as good in threat and usefulness and clearly better in one."
        ]
        if chosen is None:
            lines.append("No release keeps all limits. The least threatening:")
        else:
            measure = MEASURES[self.settings.threats.measure]
            line: dict[Hashable, Any] = table.to_dict("index")[chosen.best]
            error = compared.standard_errors[measure.name].to_dict()[chosen.best]
            unseen = "" if self.holdout is None else " of people who are not in the table"
            why = (
                "the most useful of those that keep all limits"
                if chosen.limited
                else "threat and usefulness weighted equally"
            )
            lines.append(
                f"Recommended: {chosen.best} ({why}). {measure.title}: "
                f"{measure.show(line[measure.name])} ({measure.show_error(error)}); "
                f"two-way tables are off by {share(line['two_way_error'])}, margins by "
                f"{share(line['margin_error'])}; a classifier trained on it is right for "
                f"{share(line['accuracy'])}{unseen} (on the cleartext "
                f"{share(line['accuracy_clear'])}); loss {number(line['loss'])}."
            )
        least = table.sort_values(self.settings.threats.measure, kind="stable").index[0]
        named = str(least) if chosen is None else chosen.best
        limits = all_limits(self.settings.limits, compared.assessments[named])
        lines += [f"{named}: {limit.text}" for limit in limits]
        if chosen is not None and chosen.ties:
            ties = ", ".join(chosen.ties)
            lines.append(f"Equally good, within the error of these numbers: {ties}.")
        lines += [f"{name}: {reason}" for name, reason in self.impossible.items()]
        return "\n".join(lines)


def _assess_member(people: People, member: PreparedAssessment) -> tuple[RiskAssessment, bool]:
    """Assess one release of a sweep on a worker; the cleartext is not sent back."""
    answer = replace(member, people=people).answer(alone=False)
    assert answer.risk is not None
    return replace(answer.risk, cleartext=people.frame.iloc[:0]), answer.diagnostics.passed


def prepare_sweep(settings: Assessment, variants: Mapping[str, Assessment]) -> AssessmentSweep:
    """Read or make every release of a sweep; note those that cannot be made."""
    assert settings.cleartext is not None
    for name, variant in variants.items():
        if variant.release.file is not None:
            with _naming(name):
                _ = variant.release.column_names  # an unreadable file is named
    people = _rows(settings, variants.values())
    made, impossible = {}, {}
    for name, variant in variants.items():
        try:
            with _naming(name):
                made[name] = _made(variant, people)
        except AnonymizationError as error:
            impossible[name] = str(error)
    if not made:
        raise AnonymizationError(
            "No release of the sweep exists: " + next(iter(impossible.values()))
        )
    if people is None:
        people = read_people(settings.cleartext, [one.table for one in made.values()])
    members = {}
    for name, one in made.items():
        with _naming(name):
            members[name] = _checked(variants[name], one, people)
    holdout = _held_out(settings, {name: one.table for name, one in made.items()})
    return AssessmentSweep(settings, members, impossible, holdout)


def _held_out(settings: Assessment, tables: Mapping[str, ReleasedTable]) -> pd.DataFrame | None:
    """Read people who are not in the table, and find what does not fit the releases."""
    from anonbayes.risk.people import read_truth

    if settings.holdout is None:
        return None
    assert settings.cleartext is not None
    source, like = settings.holdout, settings.cleartext.missing
    if source.missing == "as_released":
        asked = settings.release.missing if like == "as_released" else like
        source = source.model_copy(update={"missing": asked})
    frame = read_people(source, tables.values()).everybody()
    for name, table in tables.items():
        with _naming(f"[holdout], beside {name}"):
            read_truth(table, frame)
    return frame


@contextlib.contextmanager
def _naming(release: str) -> Iterator[None]:
    """Add the name of the release to errors."""
    try:
        yield
    except AnonymizationError:
        raise
    except AnonbayesError as error:
        raise AnonbayesError(f"{release}: {error}") from None
