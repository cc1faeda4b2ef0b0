"""The command line: `anonbayes`.

Commands print tables for people, or JSON with ``--json``. What the user can mend ends with a
message on the error stream and exit code 2.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

import anonbayes
from anonbayes.commands.init import init
from anonbayes.commands.run import run
from anonbayes.errors import AnonbayesError

if TYPE_CHECKING:
    import pandas as pd

    from anonbayes.release.table import ReleasedTable

__all__ = ["app", "main"]

app = typer.Typer(
    name="anonbayes",
    help="Bayesian analysis of anonymized tables.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (run, init):
    app.command()(command)


def main() -> None:
    """Run the command line; errors of the package become a message and exit code 2."""
    try:
        app()
    except AnonbayesError as error:
        typer.echo(f"anonbayes: {error}", err=True)
        raise SystemExit(2) from None


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"anonbayes {anonbayes.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Bayesian analysis of anonymized tables."""


@app.command()
def describe(
    file: Annotated[
        Path, typer.Argument(help="Released table (with --anatomy: its quasi-identifiers).")
    ],
    sensitive: Annotated[
        list[str], typer.Option(help="Sensitive column; repeat to join several into one.")
    ],
    hierarchies: Annotated[
        Path | None, typer.Option(help="Directory of ARX hierarchy files.")
    ] = None,
    sep: Annotated[str, typer.Option(help="Separator of all files.")] = ";",
    anatomy: Annotated[
        Path | None, typer.Option(help="Sensitive table, if the release is an Anatomy.")
    ] = None,
    group: Annotated[str | None, typer.Option(help="Group column of an Anatomy.")] = None,
    drop: Annotated[
        list[str] | None, typer.Option(help="Column to leave out; may be repeated.")
    ] = None,
    missing: Annotated[
        str, typer.Option(help="What an empty cell means: error, unknown or category.")
    ] = "error",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Read a released table and print its anatomy: groups, k, l, and what each column hides."""
    if anatomy is not None:
        table = _read_anatomy(
            file, anatomy, sensitive, group=group, hierarchies=hierarchies, drop=drop,
            sep=sep, missing=missing,
        )  # fmt: skip
    elif group is not None:
        raise AnonbayesError("--group belongs to --anatomy; give the sensitive table as well.")
    else:
        table = anonbayes.read_arx(
            file,
            sensitive=sensitive,
            hierarchies=hierarchies,
            sep=sep,
            drop=drop or (),
            missing=missing,
        )
    if as_json:
        typer.echo(json.dumps(_as_json(table), indent=2, ensure_ascii=False))
    else:
        _print(table, title=file.name)


def _read_anatomy(
    qit: Path,
    st: Path,
    sensitive: list[str],
    *,
    group: str | None,
    hierarchies: Path | None,
    drop: list[str] | None,
    sep: str,
    missing: str,
) -> ReleasedTable:
    if group is None:
        raise AnonbayesError("--anatomy needs --group, the column that both tables share.")
    if len(sensitive) > 1:
        raise AnonbayesError("An Anatomy has one sensitive column; give --sensitive once.")
    if hierarchies is not None or drop:
        raise AnonbayesError("--hierarchies and --drop do not apply to an Anatomy.")
    return anonbayes.read_anatomy(
        qit, st, sensitive=sensitive[0], group=group, sep=sep, missing=missing
    )


def _as_json(table: ReleasedTable) -> dict[str, Any]:
    sizes = table.group_sizes
    return {
        "scheme": table.scheme,
        "sensitive": table.sensitive,
        "n_rows": table.n_rows,
        "n_suppressed": table.n_suppressed,
        "n_groups": table.n_groups,
        "k": table.k,
        "l": table.l,
        "is_nested": table.is_nested,
        "group_sizes": {str(size): n for size, n in sizes.value_counts().sort_index().items()},
        "attributes": json.loads(table.describe().to_json(orient="index")),
    }


def _print(table: ReleasedTable, *, title: str) -> None:
    from anonbayes.release.show import overview

    # A pipe has no width: tables keep their lines whole there.
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=200)
    figures = Table(title=title, show_header=False)
    for name, value in overview(table).items():
        figures.add_row(str(name), f"{value:,}" if isinstance(value, int | float) else str(value))
    console.print(figures)
    console.print(_rich_table(table.describe(), title="attributes"))


def _rich_table(frame: pd.DataFrame, *, title: str) -> Table:
    out = Table(title=title)
    out.add_column("")
    for name in frame.columns:
        out.add_column(str(name), justify="left" if frame[name].dtype == object else "right")
    for label, *cells in frame.itertuples():
        out.add_row(str(label), *(str(cell) for cell in cells))
    return out
