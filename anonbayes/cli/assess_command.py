"""`anonbayes assess`, `compare` and `diagnose`: what releases give away, and how surely."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anonbayes.cli.options import (
    FILES,
    LIMITS,
    MODEL,
    RESULTS,
    AllowPartial,
    AllowUnconverged,
    Alpha,
    Also,
    Anatomy,
    AsJson,
    AtLeast,
    AtMost,
    AttackerSpecs,
    Beta,
    Chains,
    Cleartext,
    Decimal,
    Domains,
    Draws,
    Drop,
    Encoding,
    Engine,
    EvidenceKind,
    File,
    Force,
    Group,
    Harm,
    Hierarchies,
    MaxBelief,
    MaxCost,
    MaxDoubled,
    MaxLogLossGain,
    MaxMatchProbability,
    MaxMembershipTpr,
    MaxPopulationUniques,
    MaxRelativeThreat,
    MaxThreatened,
    Missing,
    Person,
    PresetName,
    RequireConvergence,
    Seed,
    Sensitive,
    Sep,
    complete_step,
    complete_threat,
)
from anonbayes.cli.screen import is_terminal, print_json, say, show_table, working
from anonbayes.cli.shared import (
    EXCEEDED,
    ReleaseSource,
    ask,
    attacker_keys,
    check_free,
    command_line,
    further_releases,
    named_as_options,
    parse_weights,
    plot_writer,
    release_keys,
)
from anonbayes.errors import AnonbayesError
from anonbayes.io.files import write_files

if TYPE_CHECKING:
    from anonbayes.diagnostics import DiagnosticReport
    from anonbayes.scenario.outputs import Result

__all__ = ["assess", "compare", "diagnose"]
REPORT, RISK, POSTERIOR = "report.html", "risk.json", "posterior.nc"


def assess(
    released: File,
    sensitive: Sensitive,
    out: Annotated[
        Path, typer.Option(help="Directory for the results; created if it does not exist.")
    ],
    cleartext: Annotated[
        Path | None,
        typer.Option(
            help="Cleartext: the people of the table before anonymization. Without it, no threats "
            "are computed."
        ),
    ] = None,
    register: Annotated[
        Path | None,
        typer.Option(
            help="Register of other people in clear, which the attacker holds.",
            rich_help_panel=FILES,
        ),
    ] = None,
    also: Also = None,
    person: Person = None,
    attacker: AttackerSpecs = None,
    hierarchies: Hierarchies = None,
    anatomy: Anatomy = None,
    group: Group = None,
    known_group: Annotated[
        str | None,
        typer.Option(
            help="Column of the cleartext that names each person's group of the Anatomy, for an "
            "attacker who knows it.",
            rich_help_panel=FILES,
        ),
    ] = None,
    drop: Drop = None,
    domain: Domains = None,
    sep: Sep = "auto",
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    missing: Missing = "error",
    harm: Harm = None,
    alpha: Alpha = None,
    beta: Beta = None,
    evidence: EvidenceKind = "auto",
    method: Engine = "auto",
    step: Annotated[
        str | None,
        typer.Option(
            help="Kind of Gibbs step for an Anatomy, such as tempered.",
            autocompletion=complete_step,
            rich_help_panel=MODEL,
        ),
    ] = None,
    draws: Draws = 1000,
    tune: Annotated[
        int | None, typer.Option(help="Sweeps to discard before the draws.", rich_help_panel=MODEL)
    ] = None,
    chains: Chains = 4,
    seed: Seed = None,
    max_relative_threat: MaxRelativeThreat = None,
    max_threatened: MaxThreatened = None,
    max_cost: MaxCost = None,
    max_doubled: MaxDoubled = None,
    max_log_loss_gain: MaxLogLossGain = None,
    population: Annotated[
        int | None,
        typer.Option(
            help="Size of the population; adds who stands out in it and, with --register, whose "
            "being in the table can be told.",
            rich_help_panel=MODEL,
        ),
    ] = None,
    max_population_uniques: MaxPopulationUniques = None,
    max_match_probability: MaxMatchProbability = None,
    max_membership_tpr: MaxMembershipTpr = None,
    max_belief: MaxBelief = None,
    at_most: AtMost = None,
    at_least: AtLeast = None,
    preset: PresetName = None,
    require_convergence: RequireConvergence = False,
    allow_unconverged: AllowUnconverged = False,
    allow_partial: AllowPartial = False,
    show_values: Annotated[
        bool,
        typer.Option(
            "--show-values",
            help="Show the values of threatened people, and values that only the cleartext has, in "
            "the report.",
            rich_help_panel=RESULTS,
        ),
    ] = False,
    hide_values: Annotated[
        bool,
        typer.Option(
            "--hide-values",
            help="Number the values that the release does not show in posterior.nc, too.",
            rich_help_panel=RESULTS,
        ),
    ] = False,
    keep_draws: Annotated[
        bool,
        typer.Option(
            "--draws-file/--no-draws",
            help="Store draws in posterior.nc even where a closed form can reproduce them.",
            rich_help_panel=RESULTS,
        ),
    ] = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Assess a release: who is threatened, how much more than anybody else, how surely.

    Writes report.html, risk.json and (without --register and --also) posterior.nc. Exit code 0; 3
    when a limit is exceeded; 2 on bad input.
    """
    from anonbayes.scenario.load import prepare
    from anonbayes.scenario.outputs import Place, content_of
    from anonbayes.scenario.outputs import as_json as text_of

    # Everything that can be wrong is found before the expensive part.
    asked = ask(
        "assessment",
        release_keys(
            released, sensitive=sensitive, anatomy=anatomy, group=group,
            hierarchies=None if anatomy and also else hierarchies, drop=drop, domain=domain,
            sep=sep, encoding=encoding, decimal=decimal, missing=missing, person=person,
        )
        | {
            "also": further_releases(
                also, hierarchies=hierarchies, group=group, sensitive=sensitive, drop=drop,
                domain=domain, sep=sep, encoding=encoding, decimal=decimal, missing=missing,
                person=person,
            ),
            "attackers": attacker_keys(attacker),
        }
        | _cleartext_keys(cleartext, sep, encoding, decimal)
        | ({} if known_group is None else {"cleartext.group": known_group})
        | _cleartext_keys(register, sep, encoding, decimal, of="others")
        | {
            "seed": seed,
            "model.alpha": parse_weights(alpha, option="--alpha"),
            "model.beta": parse_weights(beta, option="--beta"),
            "model.evidence": evidence,
            "model.method": method,
            "model.step": step,
            "model.draws": draws,
            "model.tune": tune,
            "model.chains": chains,
            "threats.harm": harm,
            "cleartext.partial": allow_partial or None,
            "limits.max_relative_threat": max_relative_threat,
            "limits.max_threatened": max_threatened,
            "limits.max_cost": max_cost,
            "limits.max_doubled": max_doubled,
            "limits.max_log_loss_gain": max_log_loss_gain,
            "population.size": population,
            "limits.max_population_uniques": max_population_uniques,
            "limits.max_match_probability": max_match_probability,
            "limits.max_membership_tpr": max_membership_tpr,
            "limits.max_belief": max_belief,
            "limits.at_most": _measure_limits(at_most, "--at-most"),
            "limits.at_least": _measure_limits(at_least, "--at-least"),
            "limits.preset": preset,
            "limits.require_convergence": _trusted(require_convergence, allow_unconverged),
            "outputs.show_values": show_values,
            "outputs.hide_values": hide_values,
            "outputs.draws": keep_draws,
            "outputs.plots": False,
            "outputs.tables": False,
        },
        name=released.name,
    )  # fmt: skip
    place = Place(out, force=force, seal=RISK, shared=(REPORT, POSTERIOR, RISK))
    place.check()
    with named_as_options():
        prepared = prepare(asked)
    with place.claimed():
        command = command_line()
        result = prepared.run(command=command)
        content = content_of(asked, result, command=command)
        files = place.write(content, result, asked.settings.outputs)
    if as_json:
        typer.echo(text_of(content))
    else:
        _print(result, files)
    if result.exceeded:
        raise typer.Exit(EXCEEDED)


def _trusted(required: bool, allowed: bool) -> bool | None:
    """Whether chains must be trustworthy; None where limits decide it."""
    return False if allowed else required or None


def _measure_limits(texts: list[str] | None, option: str) -> dict[str, float]:
    limits = parse_weights(texts, option=option, example="Ti_q95=2") or {}
    if not isinstance(limits, dict):
        raise AnonbayesError(f"{option} {texts} must be MEASURE=VALUE, such as Ti_q95=2.")
    return limits


def _cleartext_keys(
    file: Path | None, sep: str, encoding: str, decimal: str, *, of: str = "cleartext"
) -> dict[str, Any]:
    if file is None:
        return {}
    keys = {"file": file, "sep": sep, "encoding": encoding, "decimal": decimal}
    return {f"{of}.{name}": value for name, value in keys.items()}


def _print(result: Result, files: list[Path]) -> None:
    """Tables on a terminal; a few plain lines in a pipe."""
    risk = result.answer.risk
    if risk is not None and is_terminal():
        show_table(risk.measures[["value", "standard error"]], title="Measures")
    *lines, convergence = result.text.splitlines()
    say(*lines, *(limit.text for limit in result.limits), convergence)
    say(*map(str, files))


# -- several releases ------------------------------------------------------------------------------

SHOWN = {
    "scheme": "scheme",
    "k": "smallest group (k)",
    "l": "fewest secrets (l)",
    "groups": "groups",
    "suppressed": "suppressed rows",
    "GT_A": "guessed by attacker (GT_A)",
    "GT_L": "guessed by learner (GT_L)",
    "RGT_A": "cost of being in the table (RGT_A)",
    "max_Ti": "largest relative threat (max_Ti)",
    "Ti_q95": "its 95 % quantile (Ti_q95)",
    "doubled": "twice as certain (doubled)",
    "two_way_error": "two-way tables off by",
    "margin_error": "margins off by",
    "loss": "loss (0 all shown, 1 nothing)",
    "RF": "faithfulness (RF)",
    "efficient": "worth choosing from",
    "converged": "converged",
    "acceptable": "keeps the limits",
}


def compare(
    releases: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]FILE...",
            help="Released tables; the two tables of an Anatomy as FILE+SENSITIVE_FILE.",
        ),
    ],
    cleartext: Cleartext,
    sensitive: Sensitive,
    hierarchies: Hierarchies = None,
    domain: Domains = None,
    group: Group = None,
    sep: Sep = "auto",
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    missing: Missing = "error",
    harm: Harm = None,
    alpha: Alpha = None,
    beta: Beta = None,
    evidence: EvidenceKind = "auto",
    method: Engine = "auto",
    draws: Draws = 1000,
    chains: Chains = 4,
    seed: Seed = None,
    threat: Annotated[
        str,
        typer.Option(
            help="Measure of threat to compare by.",
            autocompletion=complete_threat,
            rich_help_panel=LIMITS,
        ),
    ] = "RGT_A",
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw threat against usefulness, as PNG.", rich_help_panel=RESULTS),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write the comparison as one HTML page.", rich_help_panel=RESULTS),
    ] = None,
    max_relative_threat: MaxRelativeThreat = None,
    max_threatened: MaxThreatened = None,
    max_cost: MaxCost = None,
    max_doubled: MaxDoubled = None,
    max_log_loss_gain: MaxLogLossGain = None,
    max_belief: MaxBelief = None,
    at_most: AtMost = None,
    at_least: AtLeast = None,
    preset: PresetName = None,
    require_convergence: RequireConvergence = False,
    allow_unconverged: AllowUnconverged = False,
    allow_partial: AllowPartial = False,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Compare releases of the same people: threats on one side, what can be learned on the other.

    The two tables of an Anatomy are one release: FILE+SENSITIVE_FILE. A release is worth choosing
    from when no other is as good in threat and usefulness and clearly better in one. With limits,
    the exit code is 3 when no release keeps them all. With --json: releases (a line each, with all
    measures), standard_errors, threat, best, ties, limits, exceeded.
    """
    from anonbayes.scenario.release_assessment import prepare_sweep

    limits = {
        "max_relative_threat": max_relative_threat,
        "max_threatened": max_threatened,
        "max_cost": max_cost,
        "max_doubled": max_doubled,
        "max_log_loss_gain": max_log_loss_gain,
        "max_belief": max_belief,
        "at_most": _measure_limits(at_most, "--at-most"),
        "at_least": _measure_limits(at_least, "--at-least"),
        "preset": preset,
        "require_convergence": _trusted(require_convergence, allow_unconverged),
    }
    common = _cleartext_keys(cleartext, sep, encoding, decimal) | {
        "seed": seed,
        "model.evidence": evidence,
        "model.method": method,
        "model.draws": draws,
        "model.chains": chains,
        "threats.harm": harm,
        "threats.measure": threat,
        "cleartext.partial": allow_partial or None,
        "model.alpha": parse_weights(alpha, option="--alpha"),
        "model.beta": parse_weights(beta, option="--beta"),
        **{f"limits.{name}": limit for name, limit in limits.items()},
    }
    variants = {}
    for source in _sources(releases):
        vertical = source.anatomy is not None
        keys = release_keys(
            source.file, sensitive=sensitive, hierarchies=None if vertical else hierarchies,
            anatomy=source.anatomy, group=group if vertical else None, drop=None, domain=domain,
            sep=sep, encoding=encoding, decimal=decimal, missing=missing,
        )  # fmt: skip
        variants[source.name] = ask("assessment", keys | common, name=source.name).settings
    check_free([plot, report], force=force)
    with named_as_options():
        sweep = prepare_sweep(next(iter(variants.values())), variants)
    with working("Fitting", len(variants)) as begin:
        result = replace(sweep, begin=begin).run()
    writers = {} if plot is None else {plot: plot_writer(result.plots["tradeoff"])}
    if report is not None:
        writers[report] = result.files["report.html"]
    write_files(writers)
    table, best = result.tables["comparison"], result.details["best"]
    if as_json:
        _print_comparison(result, threat, limits)
    else:
        show_comparison(result, title=f"{len(table)} releases of {cleartext.name}")
        say(*result.text.splitlines())
        say(*map(str, writers))
    if best is None:
        raise typer.Exit(EXCEEDED)


def show_comparison(result: Result, *, title: str) -> None:
    """Print releases side by side."""
    table, hidden = result.tables["comparison"], () if result.limits else ("acceptable",)
    names = [name for name in SHOWN if name in table and name not in hidden]
    show_table(table[names].rename(columns=SHOWN).T, title=title)


def _sources(texts: list[str]) -> list[ReleaseSource]:
    sources = [ReleaseSource.of(text) for text in texts]
    names = [source.name for source in sources]
    for name in names:
        if names.count(name) > 1:
            raise AnonbayesError(
                f"Two releases are called {name!r}; name them, as in first={texts[0]}."
            )
    return sources


def _print_comparison(result: Result, threat: str, limits: dict[str, Any]) -> None:
    from anonbayes.formats import records

    print_json(
        {
            "format": 1,
            "releases": records(result.tables["comparison"]),
            "standard_errors": records(result.answer.standard_errors),
            "threat": threat,
            "best": result.details["best"],
            "ties": result.details["ties"],
            "limits": limits,
            "exceeded": result.details["best"] is None,
        }
    )


# -- draws in a file -------------------------------------------------------------------------------


def diagnose(
    file: Annotated[Path, typer.Argument(help="netCDF file of a posterior, or of any ArviZ data.")],
    as_json: AsJson = False,
    plots: Annotated[
        Path | None, typer.Option(help="Directory for pictures of the chains (PNG).")
    ] = None,
    require_convergence: RequireConvergence = False,
) -> None:
    """Judge whether draws can be trusted, and print why and what to do."""
    from anonbayes.diagnostics import diagnose as judge

    data = _read_draws(file)
    report = judge(data)
    typer.echo(report.to_json() if as_json else report.text)
    if plots is not None:
        for picture in _draw(data, report, plots):
            typer.echo(str(picture), err=as_json)
    if require_convergence and not report.passed:
        raise typer.Exit(EXCEEDED)


def _read_draws(file: Path) -> Any:
    """Read any ArviZ file; draws that were left out because they can be made again are."""
    from anonbayes import compat

    groups, attrs = compat.read_groups(file)
    if "posterior" in groups or "redraw_draws" not in attrs:
        return compat.make_idata(groups, attrs=attrs)
    from anonbayes.inference.posterior import Posterior

    return Posterior.from_netcdf(file).idata


def _draw(data: Any, report: DiagnosticReport, folder: Path) -> Iterator[Path]:
    """Save the pictures that the draws allow, and yield their files."""
    from anonbayes import compat
    from anonbayes import diagnostics as d
    from anonbayes.diagnostics.chain_plots import FEWEST_GEWEKE_DRAWS

    if data.attrs.get("method") == "exact":
        return  # independent draws: there is no chain to look at
    draws = compat.posterior_dataset(data)
    kinds = {v.dtype.kind for v in draws.data_vars.values()}
    pictures: dict[str, Any] = {"worst": lambda: d.plot_worst(data, report=report, n=4)}
    if "f" in kinds:
        if draws.sizes["draw"] >= FEWEST_GEWEKE_DRAWS:
            pictures["geweke"] = lambda: d.plot_geweke(data)
        pictures["autocorrelation"] = lambda: d.plot_autocorrelation(data)
    if kinds & set("iub"):
        pictures["weiss"] = lambda: d.plot_weiss(data)
    folder.mkdir(parents=True, exist_ok=True)
    for name, plot in pictures.items():
        plot_writer(plot)(folder / f"{name}.png")
        yield folder / f"{name}.png"
