"""`anonbayes quantize`: deterministic releases, and what they reveal without probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anonbayes.cli.options import (
    FILES,
    RELEASE,
    AsJson,
    Asked,
    Decimal,
    Encoding,
    Force,
    Sep,
    argument,
    asks,
    option,
    parse_number,
)
from anonbayes.cli.screen import EXCEEDED, finish, print_json, say, show_figures, show_table
from anonbayes.cli.shared import (
    check_free,
    frame_writer,
    full_column,
    known_column,
    plot_writer,
    read_column,
    read_release,
)
from anonbayes.errors import AnonbayesError, TableError
from anonbayes.formats import count
from anonbayes.io.files import write_files
from anonbayes.scenario.choices import SEPARATORS

if TYPE_CHECKING:
    import pandas as pd

    from anonbayes.arrays import Floats


def column(
    people: Annotated[Path, typer.Argument(help="Table in clear, one person per line.")],
    column: Annotated[str, typer.Option(help="Column with the numbers.")],
    lower: Annotated[float, typer.Option(help="Smallest possible number.")],
    upper: Annotated[float, typer.Option(help="Largest possible number.")],
    out: Annotated[Path, typer.Option(help="Table to write.")],
    bins: Annotated[int | None, typer.Option(help="Number of bins of equal width.")] = None,
    largest_error: Annotated[
        float | None, typer.Option(help="Largest error of a released number, instead of --bins.")
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(help="Column to leave out; may be repeated.", rich_help_panel=FILES),
    ] = None,
    sep: Sep = "auto",
    encoding: Encoding = "utf-8",
    decimal: Decimal = ".",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Replace the numbers of a column by the midpoints of bins, and say how much these reveal.

    All other columns are copied unless dropped. --json prints bins, largest_error, leakage (nats),
    files.
    """
    from anonbayes import UniformQuantizer, nonstochastic
    from anonbayes.io.text import read_csv_text

    if (bins is None) == (largest_error is None):
        raise AnonbayesError("Give either --bins or --largest-error.")
    check_free([out], force=force)
    if bins is not None:
        quantizer = UniformQuantizer(lower, upper, bins)
    else:
        assert largest_error is not None
        if not largest_error > 0:
            raise AnonbayesError(f"--largest-error {largest_error:g} must be positive.")
        quantizer = UniformQuantizer.optimal(lower, upper, 1 / largest_error)
    frame = read_csv_text(people, sep=sep, encoding=encoding, decimal=decimal)
    numbers = _numbers(full_column(frame, column, people, "--column"), lower, upper)
    for name in drop or ():
        known_column(frame, name, people, "--drop")
    released = frame.assign(**{column: [f"{x:g}" for x in quantizer.release(numbers)]})
    write_files({out: frame_writer(released.drop(columns=drop or []), sep)})
    found = {
        "bins": quantizer.bins,
        "largest_error": 1 / quantizer.quality,
        "leakage": nonstochastic.leakage(quantizer),
    }
    if as_json:
        print_json({"format": 1, **found, "files": [str(out)]})
        return
    say(
        f"{count(len(numbers), 'number')} in {count(found['bins'], 'bin')}: each is off by at "
        f"most {found['largest_error']:g} and reveals {found['leakage']:.4g} nats.",
        str(out),
    )


def _numbers(texts: pd.Series, lower: float, upper: float) -> Floats:
    """Read the numbers of a column; name the first cell that is not a number in the range."""
    import numpy as np

    found = {text: parse_number(text) for text in texts.unique()}
    for text, number in found.items():
        if number is None or not lower <= number <= upper:
            row = int((texts == text).to_numpy().argmax())
            what = "is not a number" if number is None else f"lies outside [{lower:g}, {upper:g}]"
            raise TableError(f"Column {texts.name!r}, row {row}: {text!r} {what}.")
    return np.array([found[text] for text in texts], dtype=float)


@asks(
    "query",
    option("numbers.file", "people"),
    option("numbers.lower"),
    option("numbers.upper"),
    option("quality.largest_error"),
    option("numbers.column"),
    option(
        "numbers.values",
        "--numbers",
        hint=str,
        about="The numbers themselves, such as 38,52,47, instead of a table.",
    ),
    option("quality.compare"),
    option("limits.max_leakage"),
    option("limits.min_adversary_error"),
    option("numbers.sep", values=SEPARATORS),
)
def average(
    asked: Asked,
    plot: Annotated[Path | None, typer.Option(help="Plot for several errors, as PNG.")] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Return the quantized average of a column, and how much this answer can reveal.

    The guarantees hold for any numbers and any adversary; at most 40 people. --json prints text,
    measures, tradeoff (a line per largest error), limits, exceeded.
    """
    check_free([plot], force=force)
    if plot is not None and not asked.values["compare"]:
        raise AnonbayesError("--plot compares several errors; give --compare as well.")
    lower, upper = asked.values["lower"], asked.values["upper"]
    if not lower < upper:
        raise AnonbayesError(f"--lower {lower:g} must be smaller than --upper {upper:g}.")
    names = ("people", "column", "numbers", "sep")
    data = _numbers(_given(*(asked.values[name] for name in names)), lower, upper)
    values = {"values": data.tolist(), "file": None, "column": None}
    result = asked.prepare(numbers=values).run()
    if plot is not None:
        write_files({plot: plot_writer(result.plots["tradeoff"])})
    costs = result.tables["tradeoff"].set_index("largest_error")
    files = [] if plot is None else [plot]

    def show() -> None:
        show_table(costs, title="The cost of accuracy")

    finish(result, "tradeoff", as_json=as_json, show=show, files=files)


def _given(people: Path | None, column: str | None, numbers: str | None, sep: str) -> pd.Series:
    """Return the numbers as texts, from a file or from the command line."""
    import pandas as pd

    if numbers is not None and people is None and column is None:
        return pd.Series([text.strip() for text in numbers.split(",")], name="--numbers")
    if numbers is None and people is not None and column is not None:
        return read_column(people, column, sep=sep)
    raise AnonbayesError("Give either a table and --column, or --numbers.")


@asks("assessment", argument("release.file", "released"), *RELEASE)
def leakage(
    asked: Asked,
    max_leakage: Annotated[
        float | None, typer.Option(help="Exit with code 3 if more than this many nats can leak.")
    ] = None,
    require_private: Annotated[
        bool,
        typer.Option(
            "--require-private", help="Exit with code 3 if a group has a single sensitive value."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find what groups of a released table reveal for certain (the homogeneity attack).

    This does not involve probabilities. --json prints text, is_private, k, exposed, leakage,
    relative_disarray, maximin_information, groups.
    """
    from anonbayes import nonstochastic

    table = read_release(asked)
    said = nonstochastic.table_leakage(table)
    exceeded = max_leakage is not None and said.leakage > max_leakage
    if as_json:
        print_json({"format": 1, **said.to_dict()})
    else:
        show_figures(
            {
                "groups": len(said.groups),
                "groups with one sensitive value": len(said.homogeneous),
                "rows in them": said.exposed,
                "largest leakage (nats)": said.leakage,
                "maximin information (nats)": said.maximin_information,
            },
            title=asked.values["released"].name,
        )
        say(said.text)
        if exceeded:
            say(f"leakage is {said.leakage:.4g}, above the limit of {max_leakage:g}.")
    if exceeded or (require_private and not said.is_private):
        raise typer.Exit(EXCEEDED)
