"""`anonbayes identity`: who of a sample is unique in the population."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anonbayes.cli.options import (
    CHAINS,
    DRAWS,
    SEED,
    AsJson,
    Asked,
    Force,
    argument,
    asks,
    option,
)
from anonbayes.cli.screen import print_result, say, show_table
from anonbayes.cli.shared import EXCEEDED, check_free, frame_writer, plot_writer
from anonbayes.io.files import write_files
from anonbayes.scenario.choices import SEPARATORS


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
        Path | None, typer.Option(help="Table to write: a line per person, no values.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Picture to write, as PNG.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Estimate how many people of a sample are unique in the population, with intervals.

    A mixture of products learns the population from the sample. With --json: text, measures,
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
    if as_json:
        print_result(result, "summary")
    else:
        show_table(result.tables["summary"].set_index("measure"), title="Who stands out")
        say(*result.text.splitlines(), *(limit.text for limit in result.limits), *map(str, files))
    if result.exceeded:
        raise typer.Exit(EXCEEDED)
