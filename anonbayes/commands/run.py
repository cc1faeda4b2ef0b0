"""`anonbayes run`: answer the question of a scenario file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anonbayes.commands.options import AsJson
from anonbayes.commands.shared import console

if TYPE_CHECKING:
    from anonbayes.scenario.result import Result

__all__ = ["run"]

EXCEEDED = 3


def run(
    scenario: Annotated[Path, typer.Argument(help="Scenario file (TOML).")],
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Override a key; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Directory of the results, instead of the file's.")
    ] = None,
    force: Annotated[bool, typer.Option(help="Replace the results of an earlier run.")] = False,
    check: Annotated[bool, typer.Option(help="Only check the file and its inputs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Run a scenario: check all of it, answer its question, write the results to one directory.

    Example: anonbayes run models/clinic_2anonymous.toml --set model.draws=500

    Exit code 0; 3 when a limit of the scenario is exceeded; 2 on bad input.
    """
    from anonbayes.scenario.load import load
    from anonbayes.scenario.outputs import check_directory, claimed, content_of, write
    from anonbayes.scenario.run import prepare

    loaded = load(scenario, overrides=change or ())
    directory = out or loaded.directory
    if not check:
        check_directory(directory, force=force)
    prepared = prepare(loaded)
    if check:
        typer.echo(f"{scenario}: nothing is wrong with it.")
        return
    with claimed(directory):
        check_directory(directory, force=force)  # another run may have ended meanwhile
        result = prepared.run()
        files = write(loaded, result, directory, force=force)
    if as_json:
        content = content_of(loaded, result) | {"files": [str(file) for file in files]}
        typer.echo(json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False))
    else:
        _print(loaded.settings.question, result, files)
    if result.exceeded:
        raise typer.Exit(EXCEEDED)


def _print(question: str, result: Result, files: list[Path]) -> None:
    """Print a table on a terminal; plain lines only in a pipe."""
    from rich.markup import escape
    from rich.table import Table

    screen = console()
    if screen.is_terminal:
        table = Table(title=escape(question), show_header=False)
        for name, value in result.measures.items():
            table.add_row(escape(name), f"{value:.4g}")
        screen.print(table)
    for line in (*result.text.splitlines(), *(limit.text for limit in result.limits)):
        typer.echo(line)
    for file in files:
        typer.echo(str(file))
