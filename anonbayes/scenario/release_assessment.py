"""``kind = "assessment"``: who is threatened by a release, and what can be learned from it.

The one way from a request to an assessment: `anonbayes assess`, `compare`, `anonymize --report` and
`run` make the request, from options or from a file, and everything else happens here.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from anonbayes.errors import AnonbayesError, AnonymizationError, ConvergenceWarning, nearest
from anonbayes.formats import plain
from anonbayes.scenario.keys import Section, Several, key
from anonbayes.scenario.outputs import Outputs, Result
from anonbayes.scenario.people_in_clear import People, PeopleInClear, read_people
from anonbayes.scenario.release import Made, Release, make_release

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from anonbayes.diagnostics import DiagnosticReport
    from anonbayes.inference.posterior import Posterior
    from anonbayes.risk.assessment import RiskAssessment
    from anonbayes.risk.comparison import Comparison
    from anonbayes.risk.limits import Limit
    from anonbayes.risk.people import Truth
    from anonbayes.tables.table import ReleasedTable

__all__ = ["Assessed", "Assessment", "AssessmentSweep", "PreparedAssessment"]


# -------------------------------------------------------------------------------------------------
# The keys.


class Model(Section):
    """Prior and sampler."""

    alpha: Any = key("Dirichlet weights of the sensitive values: a number, list or table.", 1.0)
    beta: Any = key('Weights of the other values: a number, a table by attribute, or "pooled"; by '
                    "default 1 with independent evidence, pooled with weighted evidence.",
                    None)  # fmt: skip
    evidence: Literal["auto", "independent", "weighted"] = key(
        "How attributes add up: each in full, by weights learned from the release, or whichever "
        "of the two tells held-out rows better.", "auto",
    )  # fmt: skip
    method: Literal["auto", "exact", "gibbs", "nuts"] = key("Engine.", "auto")
    step: str | None = key("Kind of Gibbs step, such as tempered.", None)
    draws: int = key("Draws per chain.", 1000, ge=1)
    tune: int | None = key("Sweeps before them.", None, ge=0)
    chains: int = key("Number of chains.", 4, ge=1)
    cores: int | None = key("Chains that run at the same time.", None, ge=1)


Threat = Literal["RGT_A", "max_Ti", "Ti_q99", "Ti_q95", "doubled", "GT_A", "log_loss_gain"]


class Threats(Section):
    """What counts as a threat."""

    harm: Several[str] = key("Sensitive values that must not be inferred; by default any.", ())
    kind: Literal["predictive", "conditional"] = key("The learner's belief.", "predictive")
    measure: Threat = key(
        "Measure of threat that decides which releases of a sweep are efficient.", "RGT_A"
    )


class Victim(Section):
    """A person about whom beliefs are asked."""

    name: str = key("How the person is called in the results.")
    known: dict[str, Any] = key("What is known: attribute = value; left out = unknown.", dict)
    secret: Any = key("Sensitive value that limits.max_belief is about.", None)


class AssessmentLimits(Section):
    """What is acceptable; beyond it the exit code is 3."""

    max_relative_threat: float | None = key("Largest relative threat of anybody.", None, gt=0)
    max_threatened: float | None = key("Largest share of threatened people.", None, ge=0, le=1)
    max_cost: float | None = key("Largest cost of being in the table: share of people guessed "
                                 "right beyond what the population gives away.", None, ge=0,
                                 le=1)  # fmt: skip
    max_doubled: float | None = key("Largest share of people threatened with a relative threat of "
                                    "2 or more.", None, ge=0, le=1)  # fmt: skip
    max_log_loss_gain: float | None = key("Most that being in the table may teach about a secret, "
                                          "in nats.", None, gt=0)  # fmt: skip
    max_belief: float | None = key("Largest belief of the attacker in a victim's secret.", None,
                                   ge=0, le=1)  # fmt: skip
    require_convergence: bool = key("Whether the chains must be trustworthy.", False)

    @property
    def threats(self) -> dict[str, float]:
        """The limits on measures of the assessment that are set."""
        others = ("max_belief", "require_convergence")
        found = {name: getattr(self, name) for name in type(self).model_fields}
        return {k: v for k, v in found.items() if v is not None and k not in others}


class AssessmentOutputs(Outputs):
    """Where results go and which are written."""

    report: bool = key("Write a report as one HTML page.", True)
    show_values: bool = key("Show the values of threatened people in the report.", False)
    draws: bool = key("Store draws in the netCDF file also where a closed form makes the same ones "
                      "again when the file is read.", False)  # fmt: skip


class Assessment(Section):
    """Who is threatened by a release of a table, and what can still be learned from it."""

    kind: Literal["assessment"] = key("Kind of the scenario.")
    question: str = key("The question, for people.")
    seed: int | None = key("Makes the run reproducible.", None, ge=0)
    release: Release = key("What is released.")
    cleartext: PeopleInClear | None = key("The people in clear; without it only beliefs.", None)
    model: Model = key("Prior and sampler.", Model)
    threats: Threats = key("What counts as a threat.", Threats)
    victims: Several[Victim] = key("People about whom beliefs are asked.", ())
    limits: AssessmentLimits = key("What is acceptable.", AssessmentLimits)
    sweep: dict[str, list[Any]] = key(
        'Keys of this file with the values to compare, such as "release.k" = [2, 5].', dict
    )
    outputs: AssessmentOutputs = key("Where results go.", AssessmentOutputs)

    def check(self) -> Iterator[str]:
        """Yield what the keys contradict each other in."""
        if self.cleartext is None:
            if self.release.scheme is not None:
                yield "release.scheme needs [cleartext] to make the release from."
            if self.threats.harm:
                yield "threats.harm needs [cleartext]."
            if self.sweep:
                yield "sweep needs [cleartext]."
            if self.limits.threats:
                yield "limits on threats need [cleartext] to compare guesses with."
        named = any(victim.secret is not None for victim in self.victims)
        if self.limits.max_belief is not None and not named:
            yield "limits.max_belief needs [[victims]] with a secret."
        names = [victim.name for victim in self.victims]
        if len(set(names)) < len(names):
            yield "two victims have the same name."
        if self.sweep and self.victims:
            yield "victims have no meaning in a sweep."

    def prepare(self, variants: Mapping[str, Assessment] | None = None) -> Any:
        """Read everything and find what is wrong with it before anything expensive runs."""
        if variants:
            return prepare_sweep(self, variants)
        people = _rows(self, [self])
        made = _made(self, people)
        if people is None and self.cleartext is not None:
            people = read_people(self.cleartext, [made.table])
        return _checked(self, made, people)

    def make(self) -> PreparedAssessment:
        """Make the release from the cleartext, which then fit each other: nothing is to check."""
        people = _rows(self, [self])
        return PreparedAssessment(self, _made(self, people), people)


def _rows(settings: Assessment, variants: Iterable[Assessment]) -> People | None:
    """Read the cleartext row by row where a release is made from it; else it may be counted."""
    if settings.cleartext is None or all(one.release.scheme is None for one in variants):
        return None
    return read_people(settings.cleartext)


def _made(settings: Assessment, people: People | None) -> Made:
    dataset = None if settings.cleartext is None else settings.cleartext.dataset
    rows = None if people is None else people.frame
    return make_release(settings.release, rows, dataset=dataset, seed=settings.seed)


def _checked(settings: Assessment, made: Made, people: People | None) -> PreparedAssessment:
    from anonbayes.inference.dirichlet import resolve_prior

    table = made.table
    alpha, beta = settings.model.alpha, settings.model.beta
    resolve_prior(table, alpha=alpha, beta=1.0 if beta in (None, "pooled") else beta)
    truth = None
    if people is not None:
        truth = people.check(table)
        for value in settings.threats.harm:
            table.secret.domain.index(value)
    for victim in settings.victims:
        for name, value in victim.known.items():
            _check_known(table, victim.name, name, value)
        if victim.secret is not None:
            table.secret.domain.index(victim.secret)
    return PreparedAssessment(settings, made, people, truth)


def _check_known(table: ReleasedTable, victim: str, name: str, value: Any) -> None:
    if name not in table.columns:
        raise AnonbayesError(
            f"Victim {victim!r}: {name!r} is no attribute of the release. "
            f"{nearest(name, table.attributes)}"
        )
    for one in value if isinstance(value, list) else [value]:
        table.domains[name].index(one)


# -------------------------------------------------------------------------------------------------
# One release.


@dataclass(frozen=True)
class Assessed:
    """What was found out about a release.

    Attributes
    ----------
    post : Posterior
        What can be learned from it.
    risk : RiskAssessment or None
        Who is threatened; None without a cleartext.
    diagnostics : DiagnosticReport
        Whether the draws can be trusted.
    """

    post: Posterior
    risk: RiskAssessment | None
    diagnostics: DiagnosticReport


@dataclass(frozen=True)
class PreparedAssessment:
    """One release, read or made and checked, ready for the expensive part."""

    settings: Assessment
    made: Made
    people: People | None
    truth: Truth | None = None
    client: Any = None

    @property
    def table(self) -> ReleasedTable:
        """The release."""
        return self.made.table

    def answer(self, *, alone: bool = True, bar: bool = True) -> Assessed:
        """Fit, assess, judge; one of several releases (not `alone`) takes a single core."""
        from anonbayes.diagnostics import diagnose
        from anonbayes.inference.fit import fit

        settings, model = self.settings, self.settings.model
        with warnings.catch_warnings():
            # The verdict on the chains is part of the result.
            warnings.simplefilter("ignore", ConvergenceWarning)
            post = fit(
                self.table, alpha=model.alpha, beta=model.beta, evidence=model.evidence,
                method=model.method, step=model.step, draws=model.draws, tune=model.tune,
                chains=model.chains,
                cores=model.cores if alone else 1, seed=settings.seed, client=self.client,
                progressbar=alone and bar and sys.stderr.isatty(),
            )  # fmt: skip
        risk = None
        if self.people is not None:
            harm, kind = settings.threats.harm or None, settings.threats.kind
            risk = self.people.assess(
                post, truth=self.truth, harm=harm, kind=kind, client=self.client
            )
        return Assessed(post, risk, diagnose(post))

    def run(self, *, command: str | None = None) -> Result:
        """Ask everything that the request asks; `command` is noted in the report."""
        answer = self.answer()
        post, risk, judged = answer.post, answer.risk, answer.diagnostics
        beliefs = _beliefs(self.settings, post)
        measures: dict[str, float] = {}
        tables = {"population": _shares(post)}
        if risk is not None:
            measures |= {str(name): float(value) for name, value in risk.summary.items()}
        if beliefs is not None:
            measures |= _secret_belief(self.settings, beliefs, post.table)
            tables["beliefs"] = beliefs
        limits = (*_threats(self.settings.limits, risk), *self._other_limits(measures, judged))
        assessment = None if risk is None else risk.to_dict(rows=True)
        rows = [] if assessment is None else assessment.pop("rows")
        return Result(
            text=_words(risk, beliefs, judged),
            measures=measures,
            tables=tables,
            limits=limits,
            fields={
                "seed": str(post.attrs["entropy"]),
                "assessment": assessment,
                "diagnostics": judged.to_dict(),
                "rows": rows,
            },
            details={"engine": {"method": post.method, "step": post.step}},
            answer=answer,
            netcdf=partial(post.to_netcdf, draws=self.settings.outputs.draws),
            plots={} if risk is None else _plots(risk),
            files=self._report(answer, limits, command),
        )

    def _other_limits(
        self, measures: Mapping[str, float], judged: DiagnosticReport
    ) -> Iterator[Limit]:
        from anonbayes.risk.limits import Limit

        asked = self.settings.limits
        if asked.max_belief is not None:
            yield Limit("max_belief", "max_belief", asked.max_belief, measures["max_belief"])
        if asked.require_convergence:
            passed = float(judged.passed)
            yield Limit("require_convergence", "converged", 1.0, passed, least=True)

    def _report(
        self, answer: Assessed, limits: tuple[Limit, ...], command: str | None
    ) -> dict[str, Callable[[Path], object]]:
        wanted = self.settings.outputs
        if not wanted.report:
            return {}
        from anonbayes.reporting.page import report

        shown = tuple(limit for limit in limits if limit.name in self.settings.limits.threats)
        return {
            "report.html": lambda path: report(
                answer.post, answer.risk, path, show_values=wanted.show_values,
                title=self.settings.question, diagnostics=answer.diagnostics, limits=shown,
                command=command,
            )
        }  # fmt: skip


def _beliefs(settings: Assessment, post: Posterior) -> pd.DataFrame | None:
    """One line per victim and sensitive value."""
    import pandas as pd

    parts = []
    for victim in settings.victims:
        known = {k: set(v) if isinstance(v, list) else v for k, v in victim.known.items()}
        both = {
            "learner": post.learner(known),
            "attacker": post.attacker(known),
            "random_worlds": post.random_worlds(known),
        }
        frame = pd.DataFrame(both).rename_axis(post.table.sensitive).reset_index()
        parts.append(frame.assign(victim=victim.name).set_index(["victim", post.table.sensitive]))
    return pd.concat(parts) if parts else None


def _secret_belief(
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


def _shares(post: Posterior) -> pd.DataFrame:
    """Posterior mean and spread of the sensitive values in the population."""
    import pandas as pd

    draws = post.draws[f"pi_{post.table.sensitive}"]
    over = ("chain", "draw")
    return pd.DataFrame(
        {"mean": draws.mean(over).to_numpy(), "sd": draws.std(over).to_numpy()},
        index=pd.Index(post.table.secret.domain.labels, name=post.table.sensitive),
    )


def _threats(limits: AssessmentLimits, risk: RiskAssessment | None) -> tuple[Limit, ...]:
    from anonbayes.risk.limits import check_limits

    return () if risk is None else check_limits(risk, **limits.threats)


def _words(
    risk: RiskAssessment | None, beliefs: pd.DataFrame | None, judged: DiagnosticReport
) -> str:
    lines = [] if risk is None else [risk.text]
    if beliefs is not None:
        for victim, of_victim in beliefs.groupby(level="victim", sort=False):
            label, line = max(of_victim.iterrows(), key=lambda item: item[1]["attacker"])
            lines.append(
                f"{victim}: an attacker holds {label[1]!r} for {line['attacker']:.1%} likely, "  # type: ignore[index]
                f"a learner for {line['learner']:.1%}."
            )
    lines.append(f"Convergence {judged.verdict}: {judged.reason}")
    return "\n".join(lines)


def _plots(risk: RiskAssessment) -> dict[str, Any]:
    plots: dict[str, Any] = {"group_sizes": risk.plot_group_sizes}
    if len(risk.threatened):
        plots |= {"beliefs": risk.plot_beliefs, "relative_threat": risk.plot_relative_threat}
    return plots


# -------------------------------------------------------------------------------------------------
# Several releases of the same people.


@dataclass(frozen=True)
class AssessmentSweep:
    """Several releases of the same people; those that do not exist are findings too."""

    settings: Assessment
    members: Mapping[str, PreparedAssessment]
    impossible: Mapping[str, str]
    client: Any = None
    begin: Callable[[str], object] | None = None
    """Called with the name of each release before it is assessed, instead of its own bar."""

    def run(self) -> Result:
        """Assess every release and put them side by side."""
        from anonbayes.risk.comparison import compare

        risks, passed = self._assess()
        compared = compare(risks)
        limited = bool(self.settings.limits.threats) or self.settings.limits.require_convergence
        table = self._side_by_side(compared, passed)
        best = _best(table, limited=limited)
        measures = {
            "releases": float(len(table)),
            "efficient": float(table["efficient"].sum()),
            "acceptable": float(table["acceptable"].sum()),
        }
        threat = self.settings.threats.measure
        return Result(
            text=self._words(table, best, limited=limited),
            measures=measures,
            tables={"comparison": table.rename_axis("release")},
            limits=self._limits(measures) if limited else (),
            details={
                "best": best,
                "impossible": dict(self.impossible),
                "standard_errors": plain(compared.standard_errors.to_dict("index")),
            },
            answer=compared,
            plots={"tradeoff": lambda: compared.plot(threat=threat)},
        )

    def _limits(self, measures: Mapping[str, float]) -> tuple[Limit, ...]:
        """One release must keep all limits; which one is the answer."""
        from anonbayes.risk.limits import Limit

        return (Limit("limits", "acceptable", 1.0, measures["acceptable"], least=True),)

    def _side_by_side(self, compared: Comparison, passed: Mapping[str, bool]) -> pd.DataFrame:
        import pandas as pd

        limits = self.settings.limits
        kept = {
            name: not any(limit.exceeded for limit in _threats(limits, risk))
            for name, risk in compared.assessments.items()
        }
        table = compared.table.assign(
            efficient=compared.efficient(threat=self.settings.threats.measure),
            converged=pd.Series(passed),
            acceptable=pd.Series(kept),
        )
        if limits.require_convergence:
            table["acceptable"] &= table["converged"]
        return table

    def _assess(self) -> tuple[dict[str, RiskAssessment], dict[str, bool]]:
        """Threats of every release, and whether its chains converged; on a cluster a task each."""
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

    def _words(self, table: pd.DataFrame, best: str | None, *, limited: bool) -> str:
        lines = [
            f"{len(table)} releases compared, {int(table['efficient'].sum())} of them efficient."
        ]
        if best is not None:
            line = table.loc[best]
            those = "Among those that keep all limits" if limited else "Among these"
            lines.append(
                f"{those}, {best} is the most faithful: RF = {line['RF']:.3f}, "
                f"threatened {line['GT_A']:.1%}, largest relative threat {line['max_Ti']:.3g}."
            )
        else:
            lines.append("None keeps all limits.")
        lines += [f"{name}: {reason}" for name, reason in self.impossible.items()]
        return "\n".join(lines)


def _best(table: pd.DataFrame, *, limited: bool) -> str | None:
    """Most faithful of the releases that keep the limits, or of the efficient ones."""
    chosen = table[table["acceptable"]] if limited else table[table["efficient"]]
    return None if chosen.empty else str(chosen["RF"].idxmax())


def _assess_member(people: People, member: PreparedAssessment) -> tuple[RiskAssessment, bool]:
    """Assess one release of a sweep on a worker; the people, who are known, do not travel back."""
    answer = replace(member, people=people).answer(alone=False)
    assert answer.risk is not None
    return replace(answer.risk, cleartext=people.frame.iloc[:0]), answer.diagnostics.passed


def prepare_sweep(settings: Assessment, variants: Mapping[str, Assessment]) -> AssessmentSweep:
    """Read or make every release of a sweep; what cannot be made is noted, not fatal."""
    assert settings.cleartext is not None
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
    return AssessmentSweep(settings, members, impossible)


@contextmanager
def _naming(release: str) -> Iterator[None]:
    """Say which of the releases an error is about."""
    try:
        yield
    except AnonymizationError:
        raise
    except AnonbayesError as error:
        raise AnonbayesError(f"{release}: {error}") from None
