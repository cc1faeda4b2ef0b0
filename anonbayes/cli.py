"""The command line: `anonbayes`.

Commands print tables for people, or JSON with ``--json``. What the user can mend ends with a
message on the error stream and exit code 2; a limit that is exceeded ends with exit code 3.
"""

from __future__ import annotations

import signal
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


class Stopped(SystemExit):
    """A signal asked the command to end: unfinished files are removed on the way out."""


def main() -> None:
    """Run the command line; errors of the package become a message and exit code 2."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows does not have them all
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _stop)
    try:
        app()
    except AnonbayesError as error:
        typer.echo(f"anonbayes: {error}", err=True)
        raise SystemExit(2) from None
    except Stopped:
        typer.echo("anonbayes: stopped; nothing that was not complete has been written.", err=True)
        raise


def _stop(number: int, frame: object) -> None:
    """End in an orderly way; asked a second time, at once."""
    signal.signal(number, signal.SIG_DFL)
    raise Stopped(128 + number)


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
