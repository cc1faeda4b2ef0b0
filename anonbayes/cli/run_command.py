"""`anonbayes run`: answer the question of a scenario file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anonbayes.cli.options import AsJson, Force
from anonbayes.cli.screen import is_terminal, say, show_figures
from anonbayes.cli.shared import EXCEEDED

if TYPE_CHECKING:
    from anonbayes.scenario.outputs import Result

__all__ = ["run"]


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
        Path | None, typer.Option(help="Directory of the results, instead of the file's.")
    ] = None,
    force: Force = False,
    check: Annotated[
        bool, typer.Option("--check", help="Only check the file and its inputs.")
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
        typer.Option(min=1, help="Processes that share the work, such as the releases of a sweep."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run a scenario: check all of it, answer its question, write the results to one directory.

    Exit code 0; 3 when a limit of the scenario is exceeded; 2 on bad input.
    """
    from anonbayes.cluster import local_client
    from anonbayes.scenario.load import load
    from anonbayes.scenario.outputs import check_directory, claimed, content_of, write
    from anonbayes.scenario.run import check_parallel, on_cluster, prepare

    loaded = load(scenario, overrides=change or ())
    if workers is not None:
        check_parallel(loaded)
    directory = out or loaded.directory
    if not check:
        check_directory(directory, force=force)
    prepared = prepare(loaded)
    if check:
        typer.echo(f"{scenario}: nothing is wrong with it.")
        return
    with claimed(directory):
        check_directory(directory, force=force)  # another run may have ended meanwhile
        if workers is None:
            result = prepared.run()
        else:
            with local_client(workers) as client:
                result = on_cluster(loaded, prepared, client).run()
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
    if is_terminal():
        show_figures(result.measures, title=question)
    say(*result.text.splitlines(), *(limit.text for limit in result.limits))
    say(*map(str, files))
