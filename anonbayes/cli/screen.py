"""Output for people and for pipes: tables, lines, JSON, progress."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd
    from rich.console import Console

    from anonbayes.scenario.outputs import Result


# -------------------------------------------------------------------------------------------------
# Output for people and for pipes: tables, lines, JSON, progress.
#
# On a terminal, tables are drawn; in a pipe they are lines of cells separated by tabs, without
# colours, so that other programs can read them and two runs can be compared.

UNKNOWN = "–"
SHORT = 32
EXCEEDED = 3
"""Exit code if a limit is exceeded."""


def is_terminal() -> bool:
    """Whether the output goes to a terminal."""
    return _console().is_terminal


def say(*lines: str) -> None:
    """Print lines; a terminal wraps long ones between words."""
    screen = _console()
    for line in lines:
        if screen.is_terminal:
            screen.print(line, markup=False, emoji=False)
        else:
            typer.echo(line)


def show_table(frame: pd.DataFrame, *, title: str, index: bool = True) -> None:
    """Print a data frame: drawn on a terminal, with tabs in a pipe.

    Without `index` it is a user's table, whose column names are printed unchanged.
    """
    body = frame.reset_index() if index else frame
    names = ["" if name == "index" and index else str(name) for name in body.columns]
    screen = _console()
    if not screen.is_terminal:
        typer.echo("\t".join(map(_one_line, names)))
        for line in body.itertuples(index=False, name=None):
            typer.echo("\t".join(_one_line(_plain(cell)) for cell in line))
        return
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    cells = [[_pretty(cell) for cell in line] for line in body.itertuples(index=False, name=None)]
    for i, (name, (_, column)) in enumerate(zip(names, body.items(), strict=True)):
        numeric = all(_is_number(cell) for cell in column)
        # Short texts, above all row labels, are kept whole; long ones are wrapped.
        whole = max((len(texts[i]) for texts in cells), default=0) <= SHORT
        table.add_column(
            escape(_words(name) if index else name),
            justify="right" if numeric else "left",
            no_wrap=whole and not numeric,
            overflow="fold",
        )
    for texts in cells:
        table.add_row(*map(escape, texts))
    _heading(screen, title)
    screen.print(table)


def show_figures(figures: Mapping[str, object], *, title: str) -> None:
    """Print names with their values, one per line."""
    screen = _console()
    if not screen.is_terminal:
        for name, value in figures.items():
            typer.echo(f"{_one_line(name)}\t{_one_line(_plain(value))}")
        return
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE, show_header=False)
    for name, value in figures.items():
        table.add_row(escape(_words(str(name))), escape(_pretty(value)))
    _heading(screen, title)
    screen.print(table)


def print_json(content: Mapping[str, object]) -> None:
    """Print plain types as JSON; what JSON lacks (NaN, infinity) becomes null."""
    from anonbayes.formats import plain

    typer.echo(json.dumps(plain(content), indent=2, ensure_ascii=False, allow_nan=False))


def finish(
    result: Result,
    table: str,
    *,
    as_json: bool,
    show: Callable[[], object],
    files: Iterable[Path] = (),
) -> None:
    """Print the result of a scenario, with one of its tables in JSON, and exit with its code."""
    if as_json:
        from anonbayes.formats import records

        print_json(
            {
                "format": 1,
                "text": result.text,
                "measures": result.measures,
                table: records(result.tables[table]),
                "limits": [limit.to_dict() for limit in result.limits],
                "exceeded": result.exceeded,
            }
        )
    else:
        show()
        say(*result.text.splitlines(), *(limit.text for limit in result.limits), *map(str, files))
    if result.exceeded:
        raise typer.Exit(EXCEEDED)


@contextmanager
def working(what: str, total: int) -> Iterator[Callable[[str], None]]:
    """Show the progress of a loop on a terminal; call what this yields before each round."""
    if not sys.stderr.isatty() or total < 2:
        yield lambda name: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task, begun = bar.add_task(what, total=total), iter(range(total))
        yield lambda name: bar.update(task, completed=next(begun), description=f"{what}: {name}")


def _console() -> Console:
    from rich.console import Console

    return Console(highlight=False)


def _heading(screen: Console, title: str) -> None:
    screen.print(f"\n{title}", style="bold", markup=False, emoji=False)


def _words(name: str) -> str:
    """Turn the name of a field into words, which a narrow terminal can wrap."""
    return name.replace("_", " ") if name.islower() else name


def _is_number(cell: object) -> bool:
    return cell is None or isinstance(cell, int | float) or hasattr(cell, "dtype")


def _pretty(cell: object) -> str:
    """Format a cell for people."""
    value = cell.item() if hasattr(cell, "item") else cell
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return UNKNOWN
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.0f}" if value.is_integer() and abs(value) >= 1e4 else f"{value:.4g}"
    return str(value)


def _plain(cell: object) -> str:
    """Format a cell for programs."""
    value = cell.item() if hasattr(cell, "item") else cell
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _one_line(text: str) -> str:
    return " ".join(text.split()) if any(c in text for c in "\t\r\n") else text


# -------------------------------------------------------------------------------------------------
# Examples for the help of every command.
#
# Each can be run in an empty directory after those before it, as the tests do. The first ones write
# the files that the others read.

_SURVEY = "--values single,partnership,married,divorced,widowed"

EXAMPLES: dict[str, tuple[str, ...]] = {
    "datasets list": ("anonbayes datasets list",),
    "datasets show": ("anonbayes datasets show clinic",),
    "datasets export": (
        "anonbayes datasets export clinic",
        "anonbayes datasets export clinic_anatomy",
    ),
    "datasets download": ("anonbayes datasets download adult",),
    "anonymize": (
        "anonbayes anonymize clinic.csv --sensitive diagnosis --scheme recode --local "
        "--k 4 --l 3 --hierarchies clinic_hierarchies --out released.csv",
        "anonbayes anonymize clinic.csv --sensitive diagnosis --k 10 --out boxes.csv",
        "anonbayes anonymize clinic.csv --sensitive diagnosis --scheme anatomy --l 3 "
        "--out qit.csv --anatomy st.csv",
    ),
    "hierarchy": (
        "anonbayes hierarchy clinic.csv --column age --widths 5,10,20 --out trees/age.csv",
        "anonbayes hierarchy clinic.csv --column zip --prefix 1 --out trees/zip.csv",
    ),
    "describe": (
        "anonbayes describe released.csv --sensitive diagnosis --hierarchies clinic_hierarchies",
    ),
    "assess": (
        "anonbayes assess released.csv --cleartext clinic.csv --sensitive diagnosis "
        "--hierarchies clinic_hierarchies --out results",
        "anonbayes assess boxes.csv --cleartext clinic.csv --sensitive diagnosis "
        "--domain age=18-95 --out results_boxes",
    ),
    "diagnose": ("anonbayes diagnose results/posterior.nc",),
    "identity": (
        "anonbayes identity clinic.csv --drop diagnosis --population 60000 --plot unique.png",
    ),
    "compare": (
        "anonbayes compare released.csv boxes.csv anatomy=qit.csv+st.csv --cleartext clinic.csv "
        "--sensitive diagnosis --hierarchies clinic_hierarchies --group group "
        "--plot tradeoff.png",
    ),
    "init": ("anonbayes init clinic.csv --sensitive diagnosis",),
    "run": ("anonbayes run clinic.toml --set model.draws=500",),
    "channel advise": ("anonbayes channel advise --values 0-99 --epsilon 1 --reports 20000",),
    "channel describe": (
        f"anonbayes channel describe -m randomized_response --epsilon 1 {_SURVEY}",
        "anonbayes channel describe -m utility_optimized_rr --epsilon 1 --values HIV,flu,none "
        "--sensitive HIV",
    ),
    "channel release": (
        "anonbayes channel release clinic.csv --column marital_status -m randomized_response "
        f"--epsilon 1 {_SURVEY} --out reports.csv",
    ),
    "channel estimate": (
        f"anonbayes channel estimate reports.csv -m randomized_response --epsilon 1 {_SURVEY} "
        "--method bayes",
    ),
    "budgets": (
        "anonbayes budgets clinic.csv --column zip --gamma 20 --out budgets.csv",
        "anonbayes budgets clinic.csv --column zip --gamma 50 --users 20000",
        "anonbayes budgets results/posterior.nc --column profession --gamma 50 --users 20000",
    ),
    "pie bound": (
        "anonbayes pie bound -m randomized_response --values 0-99999 --epsilon 8 "
        "--users 1000000 --target-error 0.9",
    ),
    "pie traces": (
        "anonbayes pie traces --users 100 --regions 50 --epsilon 2 --compare 1 --compare 4",
    ),
    "quantize column": (
        "anonbayes quantize column clinic.csv --column age --lower 0 --upper 100 --bins 10 "
        "--out binned.csv",
    ),
    "quantize average": (
        "anonbayes quantize average --numbers 38,52,47,120,61 --lower 0 --upper 200 "
        "--largest-error 10",
    ),
    "quantize leakage": (
        "anonbayes quantize leakage released.csv --sensitive diagnosis "
        "--hierarchies clinic_hierarchies",
    ),
}


def epilog(command: str) -> str:
    """Return the end of a command's help: its examples, one per paragraph."""
    heading = "Example:" if len(EXAMPLES[command]) == 1 else "Examples:"
    return "\n\n".join([heading, *EXAMPLES[command]])
