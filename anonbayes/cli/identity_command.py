"""`anonbayes identity`: who of a sample is unique in the population."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anonbayes.cli.options import (
    AsJson,
    Chains,
    Draws,
    Drop,
    Force,
    MaxMatchProbability,
    MaxPopulationUniques,
    Seed,
    Sep,
)
from anonbayes.cli.screen import print_result, say, show_table
from anonbayes.cli.shared import (
    EXCEEDED,
    ask,
    check_free,
    frame_writer,
    named_as_options,
    plot_writer,
)
from anonbayes.errors import AnonbayesError
from anonbayes.io.files import write_files

__all__ = ["identity"]


def identity(
    people: Annotated[Path, typer.Argument(help="Sample, one person per line.")],
    population: Annotated[
        int | None, typer.Option(help="People in the population, the sample included.")
    ] = None,
    weights: Annotated[
        str | None,
        typer.Option(help="Column of sampling weights: how many people a line stands for."),
    ] = None,
    attribute: Annotated[
        list[str] | None,
        typer.Option(help="Column that an intruder may know; may be repeated. Default: all."),
    ] = None,
    household: Annotated[str | None, typer.Option(help="Column that names households.")] = None,
    strata: Annotated[
        str | None, typer.Option(help="Column by which the sample was stratified.")
    ] = None,
    stratum: Annotated[
        list[str] | None, typer.Option(help="People of a stratum, as VALUE=NUMBER; repeated.")
    ] = None,
    drop: Drop = None,
    rows: Annotated[
        Path | None, typer.Option(help="Table to write: a line per person, no values.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Picture to write, as PNG.")] = None,
    max_population_uniques: MaxPopulationUniques = None,
    max_match_probability: MaxMatchProbability = None,
    max_marketer_risk: Annotated[
        float | None,
        typer.Option(help="Exit with 3 if a larger share (0 to 1) is matched correctly."),
    ] = None,
    draws: Draws = 500,
    chains: Chains = 4,
    seed: Seed = None,
    sep: Sep = ";",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Estimate how many people of a sample are unique in the population, with intervals.

    A mixture of products learns the population from the sample. With --json: text, measures,
    summary, limits, exceeded.
    """
    check_free([rows, plot], force=force)
    asked = ask(
        "identity",
        {
            "seed": seed,
            "sample.file": people,
            "sample.sep": sep,
            "sample.attributes": attribute,
            "sample.drop": drop,
            "sample.weights": weights,
            "sample.household": household,
            "sample.strata": strata,
            "population.size": population,
            "population.strata": _people_of(stratum or []),
            "model.draws": draws,
            "model.chains": chains,
            "limits.max_population_uniques": max_population_uniques,
            "limits.max_match_probability": max_match_probability,
            "limits.max_marketer_risk": max_marketer_risk,
        },
    )
    with named_as_options():
        result = asked.settings.prepare().run()
    files = {}
    if rows is not None:
        files[rows] = frame_writer(result.tables["rows"], sep)
    if plot is not None:
        files[plot] = plot_writer(result.plots["uniqueness"])
    write_files(files, private=True)
    if as_json:
        print_result(result, "summary")
    else:
        show_table(result.tables["summary"].set_index("measure"), title="Who stands out")
        say(*result.text.splitlines(), *(limit.text for limit in result.limits), *map(str, files))
    if result.exceeded:
        raise typer.Exit(EXCEEDED)


def _people_of(strata: list[str]) -> dict[str, int] | None:
    people = {}
    for text in strata:
        name, _, number = text.rpartition("=")
        if not name or not number.isdigit():
            raise AnonbayesError(f"--stratum {text!r}: write VALUE=NUMBER, such as north=4000.")
        people[name] = int(number)
    return people or None
