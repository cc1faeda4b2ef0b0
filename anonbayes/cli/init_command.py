"""`anonbayes init`: a scenario to begin with, from the columns of a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anonbayes.cli.options import AsJson, Force
from anonbayes.cli.screen import print_json, say
from anonbayes.errors import AnonbayesError

__all__ = ["init"]


def init(
    table: Annotated[Path, typer.Argument(help="Table in clear, UTF-8 with a header line.")],
    out: Annotated[
        Path | None, typer.Option(help="Scenario file to write; by default beside the table.")
    ] = None,
    sensitive: Annotated[
        str | None, typer.Option(help="Sensitive column; by default the last one.")
    ] = None,
    sep: Annotated[
        str | None, typer.Option(help="Separator; by default looked for in the header line.")
    ] = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Write a commented scenario for a table by looking at its columns.

    With --json: file, and what it says as scenario.
    """
    import tomllib

    from anonbayes.io.files import write_text
    from anonbayes.scenario.starter import starter

    if not table.name:
        raise AnonbayesError(f"{str(table)!r} is no file; name the table to start from.")
    file = out or table.with_suffix(".toml")
    if file.exists() and not force:
        raise AnonbayesError(f"{str(file)!r} exists; name another with --out, or use --force.")
    text = starter(table, folder=file.parent, sensitive=sensitive, sep=sep)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, text)
    if as_json:
        print_json({"file": str(file), "scenario": tomllib.loads(text)})
        return
    say(f"{file}: look it over, then: anonbayes run {file}")
