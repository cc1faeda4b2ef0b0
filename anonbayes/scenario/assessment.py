"""``kind = "assessment"``: who is threatened by a release, and what can be learned from it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from anonbayes.cluster import run_tasks
from anonbayes.diagnostics import DiagnosticReport, diagnose
from anonbayes.errors import AnonbayesError, AnonymizationError, ConvergenceWarning, nearest
from anonbayes.inference.dirichlet import resolve_prior
from anonbayes.inference.fit import fit
from anonbayes.reporting.page import report
from anonbayes.risk.comparison import compare
from anonbayes.risk.limits import LimitCheck, check_limits
from anonbayes.scenario.cleartext_file import People, count_cleartext
from anonbayes.scenario.outputs import Limit, Result, plain
from anonbayes.scenario.table_files import make_release, read_cleartext

if TYPE_CHECKING:
    from pathlib import Path

    from anonbayes.inference.posterior import Posterior
    from anonbayes.risk.assessment import RiskAssessment
    from anonbayes.scenario.kinds import Assessment, AssessmentLimits
    from anonbayes.scenario.load import Scenario
    from anonbayes.tables.table import ReleasedTable

__all__ = ["Prepared", "prepare", "prepare_sweep"]


@dataclass(frozen=True)
class Prepared:
    """One release, read or made and checked, ready for the expensive part."""

    settings: Assessment
    table: ReleasedTable
    people: People | None
    client: Any = None

    def run(self) -> Result:
        """Fit the model and ask everything that the scenario asks."""
        post, risk, judged = _answer(self)
        beliefs = _beliefs(self.settings, post)
        measures: dict[str, float] = {}
        tables = {"population": _shares(post)}
        if risk is not None:
            measures |= {str(name): float(value) for name, value in risk.summary.items()}
        if beliefs is not None:
            measures |= _secret_belief(self.settings, beliefs, post.table)
            tables["beliefs"] = beliefs
        threats = () if risk is None else _threats(self.settings.limits, risk)
        return Result(
            text=_words(risk, beliefs, judged),
            measures=measures,
            tables=tables,
            limits=(*threats, *_other_limits(self.settings.limits, measures, judged)),
            details={
                "assessment": None if risk is None else risk.to_dict(),
                "diagnostics": judged.to_dict(),
                "engine": {"method": post.method, "step": post.step},
            },
            netcdf=post.to_netcdf,
            plots={} if risk is None else _plots(risk),
            files=self._report(post, risk, judged, threats),
        )

    def _report(
        self,
        post: Posterior,
        risk: RiskAssessment | None,
        judged: DiagnosticReport,
        threats: tuple[LimitCheck, ...],
    ) -> dict[str, Callable[[Path], object]]:
        wanted = self.settings.outputs
        if not wanted.report:
            return {}
        return {
            "report.html": lambda path: report(
                post, risk, path, show_values=wanted.show_values, title=self.settings.question,
                diagnostics=judged, limits=threats,
            )
        }  # fmt: skip


def prepare(settings: Assessment) -> Prepared:
    """Read everything and find what is wrong with it before anything expensive runs."""
    people = _rows(settings, [settings])
    table = _release(settings, people)
    if people is None and settings.cleartext is not None:
        people = count_cleartext(settings.cleartext, [table])
    return _checked(settings, table, people)


def _rows(settings: Assessment, variants: Iterable[Assessment]) -> People | None:
    """Read the cleartext row by row where a release is made from it; else it may be counted."""
    if settings.cleartext is None or all(one.release.scheme is None for one in variants):
        return None
    return People(read_cleartext(settings.cleartext))


def _release(settings: Assessment, people: People | None) -> ReleasedTable:
    dataset = None if settings.cleartext is None else settings.cleartext.dataset
    rows = None if people is None else people.frame
    return make_release(settings.release, rows, dataset=dataset, seed=settings.seed)


def _checked(settings: Assessment, table: ReleasedTable, people: People | None) -> Prepared:
    resolve_prior(table, alpha=settings.model.alpha, beta=settings.model.beta)
    if people is not None:
        people.check(table)
        for value in settings.threats.harm:
            table.secret.domain.index(value)
    for victim in settings.victims:
        for name, value in victim.known.items():
            _check_known(table, victim.name, name, value)
        if victim.secret is not None:
            table.secret.domain.index(victim.secret)
    return Prepared(settings, table, people)


def _check_known(table: ReleasedTable, victim: str, name: str, value: Any) -> None:
    if name not in table.columns:
        raise AnonbayesError(
            f"Victim {victim!r}: {name!r} is no attribute of the release. "
            f"{nearest(name, table.attributes)}"
        )
    for one in value if isinstance(value, list) else [value]:
        table.domains[name].index(one)


def _answer(
    prepared: Prepared, *, alone: bool = True
) -> tuple[Posterior, RiskAssessment | None, DiagnosticReport]:
    """Fit and assess; one of several releases (not `alone`) takes one core and draws no bar."""
    settings, model, client = prepared.settings, prepared.settings.model, prepared.client
    with warnings.catch_warnings():
        # The verdict on the chains is part of the result.
        warnings.simplefilter("ignore", ConvergenceWarning)
        post = fit(
            prepared.table, alpha=model.alpha, beta=model.beta, method=model.method,
            step=model.step, draws=model.draws, tune=model.tune, chains=model.chains,
            cores=model.cores if alone else 1, seed=settings.seed, client=client,
            progressbar=alone and sys.stderr.isatty(),
        )  # fmt: skip
    risk = None
    if prepared.people is not None:
        harm = settings.threats.harm or None
        kind = settings.threats.kind
        risk = prepared.people.assess(post, harm=harm, kind=kind, client=client)
    return post, risk, diagnose(post)


def _beliefs(settings: Assessment, post: Posterior) -> pd.DataFrame | None:
    """One line per victim and sensitive value."""
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
    found = [
        beliefs.loc[(v.name, domain.values[domain.index(v.secret)]), "attacker"]
        for v in settings.victims
        if v.secret is not None
    ]
    return {"max_belief": float(max(found))} if found else {}


def _shares(post: Posterior) -> pd.DataFrame:
    """Posterior mean and spread of the sensitive values in the population."""
    draws = post.draws[f"pi_{post.table.sensitive}"]
    over = ("chain", "draw")
    return pd.DataFrame(
        {"mean": draws.mean(over).to_numpy(), "sd": draws.std(over).to_numpy()},
        index=pd.Index(post.table.secret.domain.labels, name=post.table.sensitive),
    )


def _threats(limits: AssessmentLimits, risk: RiskAssessment) -> tuple[LimitCheck, ...]:
    return check_limits(
        risk,
        max_relative_threat=limits.max_relative_threat,
        max_threatened=limits.max_threatened,
        max_cost=limits.max_cost,
    )


def _other_limits(
    limits: AssessmentLimits, measures: Mapping[str, float], judged: DiagnosticReport
) -> Iterator[Limit]:
    if limits.max_belief is not None:
        yield Limit("max_belief", "max_belief", limits.max_belief, measures["max_belief"])
    if limits.require_convergence:
        yield Limit("require_convergence", "converged", 1.0, float(judged.passed), least=True)


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


# -- a sweep --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PreparedSweep:
    """Several releases of the same people; those that do not exist are findings too."""

    settings: Assessment
    members: Mapping[str, Prepared]
    impossible: Mapping[str, str]
    client: Any = None

    def run(self) -> Result:
        """Assess every release and put them side by side."""
        risks, passed = self._assess()
        found = compare(risks)
        table = found.table.assign(
            efficient=found.efficient(), converged=pd.Series(passed), acceptable=True
        )
        limited = False
        for name, risk in risks.items():
            checks = _threats(self.settings.limits, risk)
            limited = limited or bool(checks)
            table.loc[name, "acceptable"] = not any(check.exceeded for check in checks)
        if self.settings.limits.require_convergence:
            limited = True
            table["acceptable"] &= table["converged"]
        measures = {
            "releases": float(len(table)),
            "efficient": float(table["efficient"].sum()),
            "acceptable": float(table["acceptable"].sum()),
        }
        # One release must keep all limits; which one is the answer.
        limits = [Limit("limits", "acceptable", 1.0, measures["acceptable"], least=True)]
        return Result(
            text=self._words(table, limited),
            measures=measures,
            tables={"comparison": table.rename_axis("release")},
            limits=tuple(limits) if limited else (),
            details={
                "impossible": dict(self.impossible),
                "standard_errors": plain(found.standard_errors.to_dict("index")),
            },
            plots={"tradeoff": found.plot},
        )

    def _assess(self) -> tuple[dict[str, RiskAssessment], dict[str, bool]]:
        """Threats of every release, and whether its chains converged; on a cluster a task each."""
        risks, passed = {}, {}
        if self.client is None:
            for name, member in self.members.items():
                _, risk, judged = _answer(member)
                assert risk is not None
                risks[name], passed[name] = risk, judged.passed
            return risks, passed
        people = next(iter(self.members.values())).people
        assert people is not None
        alone = {name: replace(member, people=None) for name, member in self.members.items()}
        found = run_tasks(
            self.client, people, _assess_member, alone, label="sweep",
            progressbar=sys.stderr.isatty(),
        )  # fmt: skip
        for name, (risk, converged) in found.items():
            risks[name], passed[name] = replace(risk, cleartext=people.frame), converged
        return risks, passed

    def _words(self, table: pd.DataFrame, limited: bool) -> str:
        chosen = table[table["acceptable"]] if limited else table[table["efficient"]]
        lines = [
            f"{len(table)} releases compared, {int(table['efficient'].sum())} of them efficient."
        ]
        if len(chosen):
            best = chosen.sort_values("RF", ascending=False).iloc[0]
            those = "Among those that keep all limits" if limited else "Among these"
            lines.append(
                f"{those}, {best.name} is the most faithful: RF = {best['RF']:.3f}, "
                f"threatened {best['GT_A']:.1%}, largest relative threat {best['max_Ti']:.3g}."
            )
        else:
            lines.append("None keeps all limits.")
        lines += [f"{name}: {reason}" for name, reason in self.impossible.items()]
        return "\n".join(lines)


def _assess_member(people: People, member: Prepared) -> tuple[RiskAssessment, bool]:
    """Assess one release of a sweep on a worker; the people, who are known, do not travel back."""
    _, risk, judged = _answer(replace(member, people=people), alone=False)
    assert risk is not None
    return replace(risk, cleartext=people.frame.iloc[:0]), judged.passed


def prepare_sweep(scenario: Scenario) -> PreparedSweep:
    """Make every release of a sweep; what cannot be made is noted, not fatal."""
    settings: Assessment = scenario.settings
    assert settings.cleartext is not None
    people = _rows(settings, scenario.variants.values())
    tables, impossible = {}, {}
    for name, variant in scenario.variants.items():
        try:
            tables[name] = _release(variant, people)
        except AnonymizationError as error:
            impossible[name] = str(error)
    if not tables:
        raise AnonymizationError(
            "No release of the sweep exists: " + next(iter(impossible.values()))
        )
    if people is None:
        people = count_cleartext(settings.cleartext, tables.values())
    members = {
        name: _checked(scenario.variants[name], table, people) for name, table in tables.items()
    }
    return PreparedSweep(settings, members, impossible)
