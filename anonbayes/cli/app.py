"""The command line: `anonbayes`.

Commands print tables for people, or JSON with ``--json``. What the user can mend ends with a
message on the error stream and exit code 2; a limit that is exceeded ends with exit code 3.
"""

from __future__ import annotations

import gc
import inspect
import logging
import re
import signal
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperArgument, TyperCommand

import anonbayes
from anonbayes.cli import (
    budgets_command,
    channel_command,
    datasets_command,
    pie_command,
    quantize_command,
)
from anonbayes.cli.assess_command import assess, compare, diagnose
from anonbayes.cli.identity_command import identity
from anonbayes.cli.release_command import anonymize, describe, hierarchy
from anonbayes.cli.run_command import init, run
from anonbayes.cli.screen import epilog
from anonbayes.errors import AnonbayesError

__all__ = ["app", "main"]
TABLES, QUESTIONS, LOCAL = "Released tables", "Questions in files", "Local privacy"


class Command(TyperCommand):
    """A command whose arguments keep their help, which older Typer loses to Click's own."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        hints = get_type_hints(self.callback, include_extras=True)
        for param in self.params:
            if isinstance(param, TyperArgument) and not param.help:
                notes = getattr(hints.get(str(param.name)), "__metadata__", ())
                param.help = next((note.help for note in notes if note.help), None)


def _group(name: str, about: str, commands: dict[str, Callable[..., Any]]) -> typer.Typer:
    group = typer.Typer(name=name, help=about, no_args_is_help=True)
    for word, function in commands.items():
        group.command(word, cls=Command, help=_help(function), epilog=epilog(f"{name} {word}"))(
            function
        )
    return group


def _help(function: Callable[..., Any]) -> str:
    """Docstring with a line per paragraph: the terminal's width decides where lines end."""
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


app = typer.Typer(
    name="anonbayes",
    help="Bayesian analysis of anonymized tables.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for panel, commands in {
    TABLES: (anonymize, hierarchy, describe, assess, compare, identity, diagnose),
    QUESTIONS: (init, run),
    LOCAL: (budgets_command.budgets,),
}.items():
    for command in commands:
        app.command(
            cls=Command,
            help=_help(command),
            epilog=epilog(command.__name__),
            rich_help_panel=panel,
        )(command)
app.add_typer(
    _group(
        "channel",
        "Randomize a column, estimate from reports, audit a mechanism.",
        {
            "advise": channel_command.advise,
            "describe": channel_command.describe,
            "release": channel_command.release,
            "estimate": channel_command.estimate,
        },
    ),
    rich_help_panel=LOCAL,
)
app.add_typer(
    _group(
        "pie",
        "How many bits reports give away about who sent them.",
        {"bound": pie_command.bound, "traces": pie_command.traces},
    ),
    rich_help_panel=LOCAL,
)
app.add_typer(
    _group(
        "quantize",
        "Deterministic releases, and what they give away for certain.",
        {
            "column": quantize_command.column,
            "average": quantize_command.average,
            "leakage": quantize_command.leakage,
        },
    ),
    rich_help_panel=LOCAL,
)
app.add_typer(
    _group(
        "datasets",
        "Tables to learn and to test with.",
        {
            "list": datasets_command.list_all,
            "show": datasets_command.show,
            "export": datasets_command.export,
            "download": datasets_command.download,
        },
    ),
    rich_help_panel=QUESTIONS,
)


class Stopped(SystemExit):
    """A signal asked the command to end: unfinished files are removed on the way out."""


def main() -> None:
    """Run the command line; what a user can mend becomes a message and exit code 2."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows does not have them all
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    # Looking for cycles among the objects that imports make costs a seventh of a short command.
    gc.set_threshold(100_000, 20, 20)
    logging.getLogger("anonbayes").addHandler(_Remarks())
    try:
        app(prog_name="anonbayes")
    except AnonbayesError as error:
        _stop(str(error))
    except OSError as error:
        if error.filename is None:
            raise
        _stop(f"{str(error.filename)!r}: {error.strerror}.")
    except Stopped:
        typer.echo("anonbayes: stopped. Only complete files have been written.", err=True)
        raise


def _end(number: int, frame: object) -> None:
    """End in an orderly way; asked a second time, at once."""
    signal.signal(number, signal.SIG_DFL)
    raise Stopped(128 + number)


def _stop(message: str) -> None:
    typer.echo(f"anonbayes: {_of_options(message)}", err=True)
    raise SystemExit(2) from None


def _of_options(message: str) -> str:
    """Speak of options where the package speaks of arguments."""
    return re.sub(r"domains=\{'([^']+)': \[\.\.\.\]\}", r"--domain '\1=...'", message)


class _Remarks(logging.Handler):
    """Print what the package remarks, in words of the command line."""

    def emit(self, record: logging.LogRecord) -> None:
        typer.echo(f"anonbayes: {_of_options(record.getMessage())}", err=True)


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
