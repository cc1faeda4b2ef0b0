"""`anonbayes assess`, `compare`, `identity`, `diagnose`, `run`, `init`: what releases reveal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anonbayes.cli.options import (
    CHAINS,
    CLEARTEXT,
    DRAWS,
    HARM,
    RELEASE,
    RESULTS,
    SAMPLER,
    SEED,
    THREAT_LIMITS,
    AsJson,
    Asked,
    Decimal,
    Encoding,
    Force,
    Sep,
    argument,
    asks,
    option,
    switch,
)
from anonbayes.cli.screen import (
    EXCEEDED,
    finish,
    is_terminal,
    print_json,
    say,
    show_figures,
    show_table,
    working,
)
from anonbayes.cli.shared import (
    ReleaseSource,
    attacker_keys,
    check_free,
    command_line,
    frame_writer,
    further_releases,
    plot_writer,
)
from anonbayes.errors import AnonbayesError
from anonbayes.io.files import Plot, write_files, write_text
from anonbayes.scenario.choices import ENCODINGS, SEPARATORS, STEPS, THREATS, USEFULNESS

if TYPE_CHECKING:
    import pandas as pd

    from anonbayes.diagnostics import DiagnosticReport
    from anonbayes.risk.assessment import RiskAssessment
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
    """Assess a release: who is threatened, how much more than outsiders, and with what certainty.

    Writes report.html, risk.json and (without --register and --also) posterior.nc. The exit code is
    0, 3 if a limit is exceeded, or 2 if the input is wrong.
    """
    from anonbayes.scenario.load import prepare
    from anonbayes.scenario.outputs import Place, content_of
    from anonbayes.scenario.outputs import as_json as text_of

    # Check everything before the expensive part.
    also = further_releases(asked)
    vertical = also and asked.values["anatomy"]  # hierarchies then belong to the others
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
    """Print tables on a terminal, and a few plain lines in a pipe."""
    risk = result.answer.risk
    if risk is not None and is_terminal():
        show_table(_in_words(risk), title="Measures")
    *lines, convergence = result.text.splitlines()
    say(*lines, *(limit.text for limit in result.limits), convergence)
    say(*map(str, files))


def _in_words(risk: RiskAssessment) -> pd.DataFrame:
    """Measures as in the report, with their titles and the symbols of the papers."""
    import pandas as pd

    from anonbayes.risk.measures import MEASURES

    found = {MEASURES[str(name)]: values for name, values in risk.measures.to_dict("index").items()}
    lines = {
        f"{measure.title} ({measure.name})": [
            measure.show(values["value"]), measure.show_error(values["standard error"])
        ]
        for measure, values in found.items()
    }  # fmt: skip
    return pd.DataFrame.from_dict(lines, orient="index", columns=["value", "standard error"])


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
    "Ti_q95": "its 95% quantile (Ti_q95)",
    "doubled": "twice as certain (doubled)",
    "two_way_error": "two-way tables off by",
    "margin_error": "margins off by",
    "loss": "loss (0 all shown, 1 nothing)",
    "accuracy": "accuracy of a classifier",
    "accuracy_clear": "the same, from the cleartext",
    "RF": "faithfulness (RF)",
    "efficient": "worth considering",
    "converged": "converged",
    "acceptable": "within the limits",
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
    option("threats.usefulness", values=USEFULNESS),
    option("holdout.file", "--holdout"),
    *THREAT_LIMITS,
)  # fmt: skip
def compare(
    asked: Asked,
    releases: Annotated[
        list[str],
        typer.Argument(
            metavar="[NAME=]FILE...",
            help="Released tables; for Anatomy, the two tables as FILE+SENSITIVE_FILE.",
        ),
    ],
    plot: Annotated[
        Path | None,
        typer.Option(help="Plot threat against usefulness, as PNG.", rich_help_panel=RESULTS),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Write the comparison as one HTML page.", rich_help_panel=RESULTS),
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Compare releases of the same people: how much each threatens, and how useful it is.

    Write the two tables of an Anatomy release as FILE+SENSITIVE_FILE. A release is worth
    considering if no other is as good in threat and usefulness and clearly better in one. With
    limits, the exit code is 3 if no release keeps all of them. --json prints releases (with all
    measures), standard_errors, threat, best, ties, limits, exceeded.
    """
    from anonbayes.formats import count
    from anonbayes.scenario.assessment_keys import IDENTITY_LIMITS
    from anonbayes.scenario.outputs import announce
    from anonbayes.scenario.release_assessment import prepare_sweep

    none: dict[str, object] = {"hierarchies": None, "group": None}
    variants = {
        source.name: asked.request(
            source.name,
            release=none
            | source.keys(asked.values["hierarchies"], asked.keys.get("release.group")),
        ).settings
        for source in _sources(releases)
    }
    check_free([plot, report], force=force)
    title = f"{count(len(variants), 'release')} of {asked.values['cleartext'].name}"
    first = next(iter(variants.values())).model_copy(update={"question": title})
    announce("Reading the files ...")
    with asked.in_options():
        sweep = prepare_sweep(first, variants)
    with working("Fitting", len(variants)) as begin:
        result = replace(sweep, begin=begin).run()
    writers = {} if plot is None else {plot: plot_writer(result.plots["tradeoff"])}
    if report is not None:
        writers[report] = result.files["report.html"]
    write_files(writers)
    best = result.details["best"]
    if as_json:
        limits = first.limits.model_dump(exclude=set(IDENTITY_LIMITS))
        _print_comparison(result, first.threats.measure, limits)
    else:
        show_comparison(result, title=title)
        say(*result.text.splitlines())
        say(*map(str, writers))
    if best is None:
        raise typer.Exit(EXCEEDED)


def show_comparison(result: Result, *, title: str) -> None:
    """Print the comparison of releases."""
    table, hidden = result.tables["comparison"], () if result.limits else ("acceptable",)
    names = [name for name in SHOWN if name in table and name not in hidden]
    show_table(table[names].rename(columns=SHOWN).T, title=title)


def _sources(texts: list[str]) -> list[ReleaseSource]:
    sources = [ReleaseSource.of(text) for text in texts]
    names = [source.name for source in sources]
    for name in names:
        if names.count(name) > 1:
            raise AnonbayesError(
                f"Two releases are called {name!r}; give them names, as in first={texts[0]}."
            )
    return sources


def _print_comparison(result: Result, threat: str, limits: dict[str, object]) -> None:
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


# -- who stands out -------------------------------------------------------------------------------


@asks(
    "identity",
    argument("sample.file", "people"),
    option("population.size", "--population"),
    option("sample.weights"),
    option("sample.attributes", "--attribute"),
    option("sample.household"),
    option("sample.strata"),
    option("population.strata", "--stratum", metavar="VALUE=NUMBER"),
    option("sample.drop"),
    option("sample.sep", values=SEPARATORS),
    option("sample.encoding", values=ENCODINGS),
    option("limits.max_unique_in_population"),
    option("limits.max_population_uniques"),
    option("limits.max_match_probability"),
    option("limits.max_marketer_risk"),
    DRAWS,
    CHAINS,
    SEED,
)
def identity(
    asked: Asked,
    rows: Annotated[
        Path | None, typer.Option(help="Table to write: a line per person, without values.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Plot to write, as PNG.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Estimate how many people in a sample are unique in the population, with intervals.

    The population is estimated from the sample by a mixture model. --json prints text, measures,
    summary, limits, exceeded.
    """
    check_free([rows, plot], force=force)
    result = asked.prepare().run()
    files = {}
    if rows is not None:
        files[rows] = frame_writer(result.tables["rows"], asked.values["sep"])
    if plot is not None:
        files[plot] = plot_writer(result.plots["uniqueness"])
    write_files(files, private=True)
    summary = result.tables["summary"]

    def show() -> None:
        show_table(summary.set_index("measure"), title="Who stands out")

    finish(result, "summary", as_json=as_json, show=show, files=files)


# -- draws in a file -------------------------------------------------------------------------------


def diagnose(
    file: Annotated[Path, typer.Argument(help="netCDF file of a posterior, or of any ArviZ data.")],
    as_json: AsJson = False,
    plots: Annotated[
        Path | None, typer.Option(help="Directory for plots of the chains (PNG).")
    ] = None,
    require_convergence: Annotated[
        bool,
        typer.Option(
            "--require-convergence", help="Exit with code 3 unless the draws can be trusted."
        ),
    ] = False,
) -> None:
    """Say whether the draws can be trusted, why or why not, and what to do."""
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
    """Read any ArviZ file; draws that were left out, because they can be redrawn, are redrawn."""
    from anonbayes import compat

    groups, attrs = compat.read_groups(file)
    if "posterior" in groups or "redraw_draws" not in attrs:
        return compat.make_idata(groups, attrs=attrs)
    from anonbayes.inference.posterior import Posterior

    return Posterior.from_netcdf(file).idata


def _draw(data: Any, report: DiagnosticReport, folder: Path) -> Iterator[Path]:
    """Save the plots that the draws allow, and yield their files."""
    from anonbayes import compat
    from anonbayes import diagnostics as d
    from anonbayes.diagnostics.chain_plots import FEWEST_GEWEKE_DRAWS

    if data.attrs.get("method") == "exact":
        return  # independent draws: there are no chains to plot
    draws = compat.posterior_dataset(data)
    kinds = {v.dtype.kind for v in draws.data_vars.values()}
    pictures: dict[str, Plot] = {"worst": lambda: d.plot_worst(data, report=report, n=4)}
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


# -- questions in files ---------------------------------------------------------------------------


def _schema(wanted: bool) -> None:
    if wanted:
        from anonbayes.scenario.starter import schema

        typer.echo(schema(), nl=False)
        raise typer.Exit


def run(
    scenario: Annotated[Path, typer.Argument(help="Scenario file (TOML).")],
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Directory for the results; overrides the file's.")
    ] = None,
    force: Force = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only check the scenario and its input files.")
    ] = False,
    schema: Annotated[
        bool,
        typer.Option(
            "--schema",
            callback=_schema,
            is_eager=True,
            help="Print the JSON schema of scenario files, for editors.",
        ),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Number of processes, for example to share a sweep's releases."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a scenario: check it, answer its question, and write the results to one directory.

    The exit code is 0, 3 if a limit of the scenario is exceeded, or 2 if the input is wrong.
    """
    from anonbayes import cluster
    from anonbayes.scenario.load import check_parallel, load, on_cluster, prepare
    from anonbayes.scenario.outputs import Place, content_of
    from anonbayes.scenario.outputs import as_json as text_of

    loaded = load(scenario, overrides=change or ())
    if workers is not None:
        check_parallel(loaded)
    place = Place(out or loaded.directory, force=force)
    if not check:
        place.check()
    prepared = prepare(loaded)
    if check:
        typer.echo(f"{scenario}: no problems found.")
        return
    with place.claimed():
        if workers is None:
            result = prepared.run()
        else:
            with cluster.local_client(workers) as client:
                result = on_cluster(loaded, prepared, client).run()
        content = content_of(loaded, result)
        files = place.write(content, result, loaded.settings.outputs)
    if as_json:
        typer.echo(text_of({"files": [str(file) for file in files], **content}))
    else:
        _print_answer(loaded.settings.question, result, files)
    if result.exceeded:
        raise typer.Exit(EXCEEDED)


def _print_answer(question: str, result: Result, files: list[Path]) -> None:
    """Print a table on a terminal, and only plain lines in a pipe."""
    if is_terminal() and "comparison" in result.tables:
        show_comparison(result, title=question)
    elif is_terminal():
        show_figures(result.measures, title=question)
    said = result.text.splitlines()
    say(*said, *(limit.text for limit in result.limits if limit.text not in said))
    say(*map(str, files))


def init(
    table: Annotated[Path, typer.Argument(help="Table in clear, with a header line.")],
    out: Annotated[
        Path | None, typer.Option(help="Scenario file to write; by default next to the table.")
    ] = None,
    sensitive: Annotated[
        str | None, typer.Option(help="Sensitive column; by default the last one.")
    ] = None,
    sep: Sep = "auto",
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a commented scenario file for a table, based on its columns.

    --json prints file and its content as scenario.
    """
    import tomllib

    from anonbayes.scenario.starter import starter

    if not table.name:
        raise AnonbayesError(f"{str(table)!r} is not a file; name the table to start from.")
    file = out or table.with_suffix(".toml")
    check_free([file], force=force)
    text = starter(
        table, folder=file.parent, sensitive=sensitive, sep=sep, encoding=encoding, decimal=decimal
    )
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, text)
    if as_json:
        print_json({"file": str(file), "scenario": tomllib.loads(text)})
        return
    say(f"{file} has been written. Check it, then run it: anonbayes run {file}")
