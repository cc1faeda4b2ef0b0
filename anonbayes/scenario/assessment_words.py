"""An answered assessment as tables, limits, words and pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anonbayes.scenario.assessment_keys import AssessmentLimits

if TYPE_CHECKING:
    import pandas as pd

    from anonbayes.inference.posterior import Posterior
    from anonbayes.risk.assessment import RiskAssessment
    from anonbayes.risk.measures import Limit
    from anonbayes.scenario.release_assessment import Assessed, Assessment
    from anonbayes.tables.table import ReleasedTable


def belief_table(settings: Assessment, post: Posterior) -> pd.DataFrame | None:
    """One line per victim and sensitive value."""
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

    draws = post.draws[f"pi_{post.table.sensitive}"]
    over = ("chain", "draw")
    return pd.DataFrame(
        {"mean": draws.mean(over).to_numpy(), "sd": draws.std(over).to_numpy()},
        index=pd.Index(post.table.secret.domain.labels, name=post.table.sensitive),
    )


def threat_limits(limits: AssessmentLimits, risk: RiskAssessment | None) -> tuple[Limit, ...]:
    """Return the limits on threats, compared."""
    from anonbayes.risk.measures import check_limits

    return () if risk is None else check_limits(risk, **limits.threats)


def all_limits(limits: AssessmentLimits, risk: RiskAssessment) -> tuple[Limit, ...]:
    """Limits on threats, and on the groups of the release."""
    from anonbayes.risk.measures import check_preset

    named = () if limits.preset is None else (check_preset(risk.post.table, limits.preset),)
    return (*threat_limits(limits, risk), *named)


def in_words(answer: Assessed, beliefs: pd.DataFrame | None) -> str:
    """Return the finding, a sentence or more per line."""
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


def risk_plots(risk: RiskAssessment) -> dict[str, Any]:
    """Return what draws the pictures of an assessment, by name."""
    plots: dict[str, Any] = {"group_sizes": risk.plot_group_sizes}
    if len(risk.threatened):
        plots |= {"beliefs": risk.plot_beliefs, "relative_threat": risk.plot_relative_threat}
    return plots
