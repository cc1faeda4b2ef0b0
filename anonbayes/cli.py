"""The command line: `anonbayes`.

Commands print tables for people, or JSON with ``--json``. What the user can mend ends with a
message on the error stream and exit code 2; a limit that is exceeded ends with exit code 3.
"""

from __future__ import annotations

from typing import Annotated

import typer

import anonbayes
from anonbayes.commands.assess import assess
from anonbayes.commands.describe import describe
from anonbayes.commands.diagnose import diagnose
from anonbayes.commands.init import init
from anonbayes.commands.run import run
from anonbayes.errors import AnonbayesError

__all__ = ["app", "main"]

app = typer.Typer(
    name="anonbayes",
    help="Bayesian analysis of anonymized tables.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (describe, assess, diagnose, run, init):
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
