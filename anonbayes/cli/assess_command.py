"""`anonbayes assess`, `compare` and `diagnose`: what releases give away, and how surely."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anonbayes.cli.options import (
    CLEARTEXT,
    HARM,
    RELEASE,
    RESULTS,
    SAMPLER,
    THREAT_LIMITS,
    AsJson,
    Asked,
    Force,
    argument,
    asks,
    option,
    switch,
)
from anonbayes.cli.screen import is_terminal, print_json, say, show_table, working
from anonbayes.cli.shared import (
    EXCEEDED,
    ReleaseSource,
    attacker_keys,
    check_free,
    command_line,
    further_releases,
    plot_writer,
)
from anonbayes.errors import AnonbayesError
from anonbayes.io.files import write_files
from anonbayes.scenario.choices import STEPS, THREATS

if TYPE_CHECKING:
    from anonbayes.diagnostics import DiagnosticReport
    from anonbayes.scenario.outputs import Result

REPORT, RISK, POSTERIOR = "report.html", "risk.json", "posterior.nc"


@asks(
    "assessment",
    argument("release.file", "released"),
    *RELEASE,
    *CLEARTEXT,
    option("others.file", "--register"),
    option("also", hint=list[str], metavar="FILE"),
    option("release.person"),
    option("cleartext.group", "--known-group"),
    HARM,
    *SAMPLER,
    option("model.step", values=STEPS),
    option("model.tune"),
    option("population.size", "--population"),
    option("attackers", "--attacker", hint=list[str], metavar="NAME[:COLUMN,...]"),
    *THREAT_LIMITS,
    option("limits.max_unique_in_population"),
    option("limits.max_match_probability"),
    option("limits.max_membership_tpr"),
    switch("outputs.show_values"),
    switch("outputs.hide_values"),
    switch("outputs.draws", "--draws-file/--no-draws"),
)
def assess(
    asked: Asked,
    out: Annotated[
        Path, typer.Option(help="Directory for the results; created if it does not exist.")
    ],
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
    also = further_releases(asked)
    vertical = also and asked.values["anatomy"]  # hierarchies are then those of the others
    request = asked.request(
        asked.values["released"].name,
        release={"hierarchies": None} if vertical else {},
        also=also,
        attackers=attacker_keys(asked.values["attacker"]),
        outputs={"plots": False, "tables": False},
    )
    place = Place(out, force=force, seal=RISK, shared=(REPORT, POSTERIOR, RISK))
    place.check()
    with asked.in_options():
        prepared = prepare(request)
    with place.claimed():
        command = command_line()
        result = prepared.run(command=command)
        content = content_of(request, result, command=command)
        files = place.write(content, result, request.settings.outputs)
    if as_json:
        typer.echo(text_of(content))
    else:
        _print(result, files)
    if result.exceeded:
        raise typer.Exit(EXCEEDED)


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


@asks(
    "assessment",
    option(
        "cleartext.file", "--cleartext", needed=True,
        about="Cleartext: the people of the tables before anonymization.",
    ),
    *CLEARTEXT[1:],
    *(flag for flag in RELEASE if flag.name not in ("anatomy", "drop")),
    HARM,
    *SAMPLER,
    option("threats.measure", "--threat", values=THREATS),
    *THREAT_LIMITS,
)  # fmt: skip
def compare(
    asked: Asked,
    releases: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]FILE...",
            help="Released tables; the two tables of an Anatomy as FILE+SENSITIVE_FILE.",
        ),
    ],
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw threat against usefulness, as PNG.", rich_help_panel=RESULTS),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write the comparison as one HTML page.", rich_help_panel=RESULTS),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Compare releases of the same people: threats on one side, what can be learned on the other.

    The two tables of an Anatomy are one release: FILE+SENSITIVE_FILE. A release is worth choosing
    from when no other is as good in threat and usefulness and clearly better in one. With limits,
    the exit code is 3 when no release keeps them all. With --json: releases (a line each, with all
    measures), standard_errors, threat, best, ties, limits, exceeded.
    """
    from anonbayes.scenario.assessment_keys import IDENTITY_LIMITS
    from anonbayes.scenario.outputs import announce
    from anonbayes.scenario.release_assessment import prepare_sweep

    none: dict[str, Any] = {"hierarchies": None, "group": None}
    variants = {
        source.name: asked.request(
            source.name,
            release=none
            | source.keys(asked.values["hierarchies"], asked.keys.get("release.group")),
        ).settings
        for source in _sources(releases)
    }
    check_free([plot, report], force=force)
    first = next(iter(variants.values()))
    announce("Reading the files ...")
    with asked.in_options():
        sweep = prepare_sweep(first, variants)
    with working("Fitting", len(variants)) as begin:
        result = replace(sweep, begin=begin).run()
    writers = {} if plot is None else {plot: plot_writer(result.plots["tradeoff"])}
    if report is not None:
        writers[report] = result.files["report.html"]
    write_files(writers)
    table, best = result.tables["comparison"], result.details["best"]
    if as_json:
        limits = first.limits.model_dump(exclude=set(IDENTITY_LIMITS))
        _print_comparison(result, first.threats.measure, limits)
    else:
        cleartext = asked.values["cleartext"].name
        show_comparison(result, title=f"{len(table)} releases of {cleartext}")
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
    require_convergence: Annotated[
        bool,
        typer.Option("--require-convergence", help="Exit with 3 unless the draws can be trusted."),
    ] = False,
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
