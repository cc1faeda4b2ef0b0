"""`anonbayes quantize`: deterministic releases, and what they give away without probabilities."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from anonbayes.cli.options import (
    Anatomy,
    AsJson,
    Domains,
    Drop,
    File,
    Force,
    Group,
    Hierarchies,
    Missing,
    Sensitive,
    Sep,
    parse_number,
)
from anonbayes.cli.screen import print_json, print_result, say, show_figures, show_table
from anonbayes.cli.shared import (
    EXCEEDED,
    ask,
    check_free,
    frame_writer,
    full_column,
    known_column,
    named_as_options,
    plot_writer,
    read_release,
)
from anonbayes.errors import AnonbayesError, TableError
from anonbayes.io.files import write_files

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["average", "column", "leakage"]
People = Annotated[Path, typer.Argument(help="Table in clear, one person per line.")]
Column = Annotated[str, typer.Option(help="Column of the numbers.")]
Lower = Annotated[float, typer.Option(help="Smallest possible number.")]
Upper = Annotated[float, typer.Option(help="Largest possible number.")]
MaxLeakage = Annotated[
    float | None, typer.Option(help="Exit with 3 if more than this many nats can leak.")
]


def column(
    people: People,
    column: Column,
    lower: Lower,
    upper: Upper,
    out: Annotated[Path, typer.Option(help="Table to write.")],
    bins: Annotated[int | None, typer.Option(help="Number of bins of equal width.")] = None,
    largest_error: Annotated[
        float | None, typer.Option(help="Instead, the largest error of a released number.")
    ] = None,
    drop: Drop = None,
    sep: Sep = "auto",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Replace the numbers of a column by the middle of their bins, and say what these give away.

    All other columns are written as they are, unless dropped. With --json: bins, largest_error,
    leakage (nats), files.
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
    frame = read_csv_text(people, sep=sep)
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
        f"{len(numbers):,} numbers in {found['bins']:,} bins: each is wrong by at most "
        f"{found['largest_error']:g} and gives away {found['leakage']:.4g} nats.",
        str(out),
    )


def _numbers(texts: pd.Series, lower: float, upper: float) -> Any:
    """Numbers of a column; the first cell that is none, or lies outside, is named."""
    import numpy as np

    found = {text: parse_number(text) for text in texts.unique()}
    for text, number in found.items():
        if number is None or not lower <= number <= upper:
            row = int((texts == text).to_numpy().argmax())
            what = "is not a number" if number is None else f"lies outside [{lower:g}, {upper:g}]"
            raise TableError(f"Column {texts.name!r}, row {row}: {text!r} {what}.")
    return np.array([found[text] for text in texts], dtype=float)


def average(
    lower: Lower,
    upper: Upper,
    largest_error: Annotated[
        float, typer.Option(help="Largest distance of the answer from the average.")
    ],
    people: Annotated[
        Path | None, typer.Argument(help="Table in clear, one person per line.")
    ] = None,
    column: Annotated[str | None, typer.Option(help="Column of the numbers.")] = None,
    numbers: Annotated[str | None, typer.Option(help="Instead, the numbers: 38,52,47.")] = None,
    compare: Annotated[
        list[float] | None,
        typer.Option(help="Another largest error to compare with; may be repeated."),
    ] = None,
    max_leakage: MaxLeakage = None,
    min_adversary_error: Annotated[
        float | None, typer.Option(help="Exit with 3 if an adversary can come closer than this.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(help="Picture of several errors, as PNG.")] = None,
    sep: Sep = "auto",
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Answer with the quantized average of a column, and say what the answer can give away.

    What holds, holds for any numbers and any adversary; for at most 40 people. With --json: text,
    measures, tradeoff (a line per largest error), limits, exceeded.
    """
    check_free([plot], force=force)
    if plot is not None and not compare:
        raise AnonbayesError("--plot shows several errors; give --compare as well.")
    if not lower < upper:
        raise AnonbayesError(f"--lower {lower:g} must be smaller than --upper {upper:g}.")
    data = _numbers(_given(people, column, numbers, sep=sep), lower, upper)
    asked = ask(
        "query",
        {
            "numbers.lower": lower,
            "numbers.upper": upper,
            "numbers.values": data.tolist(),
            "quality.largest_error": largest_error,
            "quality.compare": compare,
            "limits.max_leakage": max_leakage,
            "limits.min_adversary_error": min_adversary_error,
        },
    )
    with named_as_options():
        result = asked.settings.prepare().run()
    if plot is not None:
        write_files({plot: plot_writer(result.plots["tradeoff"])})
    if as_json:
        print_result(result, "tradeoff")
    else:
        costs = result.tables["tradeoff"].set_index("largest_error")
        show_table(costs, title="What exactness costs")
        say(*result.text.splitlines(), *(limit.text for limit in result.limits))
        if plot is not None:
            say(str(plot))
    if result.exceeded:
        raise typer.Exit(EXCEEDED)


def _given(people: Path | None, column: str | None, numbers: str | None, *, sep: str) -> pd.Series:
    """Texts of the numbers, from a file or from the command line."""
    import pandas as pd

    from anonbayes.cli.shared import read_column

    if numbers is not None and people is None and column is None:
        return pd.Series([text.strip() for text in numbers.split(",")], name="--numbers")
    if numbers is None and people is not None and column is not None:
        return read_column(people, column, sep=sep)
    raise AnonbayesError("Give either a table and --column, or --numbers.")


def leakage(
    released: File,
    sensitive: Sensitive,
    hierarchies: Hierarchies = None,
    anatomy: Anatomy = None,
    group: Group = None,
    drop: Drop = None,
    domain: Domains = None,
    sep: Sep = "auto",
    missing: Missing = "error",
    max_leakage: MaxLeakage = None,
    require_private: Annotated[
        bool,
        typer.Option(
            "--require-private", help="Exit with 3 if a group has one sensitive value only."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Find what groups of a released table give away for certain: the homogeneity attack.

    No probabilities are involved. With --json: text, is_private, k, exposed, leakage,
    relative_disarray, maximin_information, groups.
    """
    from anonbayes import nonstochastic

    table = read_release(
        released, sensitive=sensitive, hierarchies=hierarchies, anatomy=anatomy, group=group,
        drop=drop, domain=domain, sep=sep, missing=missing,
    )  # fmt: skip
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
            title=released.name,
        )
        say(said.text)
        if exceeded:
            say(f"leakage is {said.leakage:.4g}, above the limit of {max_leakage:g}.")
    if exceeded or (require_private and not said.is_private):
        raise typer.Exit(EXCEEDED)
