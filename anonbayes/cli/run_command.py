"""`anonbayes run` and `init`: questions in files, answered and begun."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from anonbayes.cli.assess_command import show_comparison
from anonbayes.cli.options import AsJson, Decimal, Encoding, Force, Sep
from anonbayes.cli.screen import is_terminal, print_json, say, show_figures
from anonbayes.cli.shared import EXCEEDED, check_free
from anonbayes.errors import AnonbayesError
from anonbayes.io.files import write_text

if TYPE_CHECKING:
    from anonbayes.scenario.outputs import Result


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
        typer.echo(f"{scenario}: nothing is wrong with it.")
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
        _print(loaded.settings.question, result, files)
    if result.exceeded:
        raise typer.Exit(EXCEEDED)


def _print(question: str, result: Result, files: list[Path]) -> None:
    """Print a table on a terminal; plain lines only in a pipe."""
    if is_terminal() and "comparison" in result.tables:
        show_comparison(result, title=question)
    elif is_terminal():
        show_figures(result.measures, title=question)
    say(*result.text.splitlines(), *(limit.text for limit in result.limits))
    say(*map(str, files))


def init(
    table: Annotated[Path, typer.Argument(help="Table in clear, with a header line.")],
    out: Annotated[
        Path | None, typer.Option(help="Scenario file to write; by default beside the table.")
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
    """Write a commented scenario for a table by looking at its columns.

    With --json: file, and what it says as scenario.
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
    say(f"{file}: check it, then run it: anonbayes run {file}")
