"""The command line: `anonbayes`.

Commands print tables for people, or JSON with ``--json``. Errors that the user can correct end with
a message on the error stream and exit code 2; an exceeded limit ends with exit code 3.
"""

from __future__ import annotations

import atexit
import gc
import inspect
import logging
import re
import signal
import warnings
from collections.abc import Callable
from functools import cache, cached_property
from typing import Annotated, Any, get_type_hints

import typer
from typer.core import TyperArgument, TyperCommand

import anonbayes
from anonbayes.cli import budgets_command as budgets
from anonbayes.cli import channel_command as channel
from anonbayes.cli import datasets_command as datasets
from anonbayes.cli import pie_command as pie
from anonbayes.cli import quantize_command as quantize
from anonbayes.cli.assess_command import assess, compare, diagnose, identity, init, run
from anonbayes.cli.options import callback
from anonbayes.cli.release_command import anonymize, describe, hierarchy
from anonbayes.cli.screen import epilog
from anonbayes.errors import AnonbayesError

Function = Callable[..., None]
TABLES, QUESTIONS, LOCAL = "Released tables", "Scenario files", "Local privacy"
COMMANDS: dict[str, tuple[Function, ...]] = {
    TABLES: (anonymize, hierarchy, describe, assess, compare, identity, diagnose),
    QUESTIONS: (init, run),
    LOCAL: (budgets.budgets,),
}
GROUPS: dict[str, tuple[str, str, tuple[Function, ...]]] = {
    "channel": (
        LOCAL,
        "Randomize a column, estimate from reports, audit a mechanism.",
        (channel.advise, channel.describe, channel.release, channel.estimate),
    ),
    "pie": (LOCAL, "Bound how much reports reveal about their senders.", (pie.bound, pie.traces)),
    "quantize": (
        LOCAL,
        "Deterministic releases, and what they reveal for certain.",
        (quantize.column, quantize.average, quantize.leakage),
    ),
    "datasets": (
        QUESTIONS,
        "Example tables for learning and testing.",
        (datasets.list_all, datasets.show, datasets.export, datasets.download),
    ),
}


class Command(TyperCommand):
    """Command whose options are looked up when it is parsed or explained, not before."""

    @cached_property
    def _made(self) -> Any:
        program = typer.Typer(add_completion=False)
        function = callback(inspect.unwrap(self._declared).__dict__["function"])
        program.command()(function)
        made = typer.main.get_command(program)
        for param in made.params:
            if isinstance(param, TyperArgument) and not param.help:  # lost by older Typer
                hints = get_type_hints(function, include_extras=True)
                notes = hints[str(param.name)].__metadata__
                param.help = next((note.help for note in notes if note.help), None)
        return made

    @property
    def params(self) -> list[Any]:
        """Options and arguments."""
        found: list[Any] = self._made.params
        return found

    @params.setter
    def params(self, none: list[Any]) -> None:
        pass

    @property
    def callback(self) -> Any:
        """The function that runs the command."""
        return self._made.callback

    @callback.setter
    def callback(self, declared: Any) -> None:
        self._declared = declared


def _add(group: typer.Typer, function: Function, *, before: str = "", panel: Any = None) -> None:
    def declared() -> None:
        pass

    declared.__dict__["function"] = function
    word = function.__name__.removesuffix("_all")
    # One line per paragraph: the width of the terminal decides where lines break.
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    group.command(
        word,
        cls=Command,
        help="\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs),
        epilog=epilog(before + word),
        rich_help_panel=panel,
    )(declared)


app = typer.Typer(
    name="anonbayes",
    help="Bayesian analysis of anonymized tables.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for panel, functions in COMMANDS.items():
    for function in functions:
        _add(app, function, panel=panel)
for name, (panel, about, functions) in GROUPS.items():
    group = typer.Typer(name=name, help=about, no_args_is_help=True)
    for function in functions:
        _add(group, function, before=f"{name} ")
    app.add_typer(group, rich_help_panel=panel)


class Stopped(SystemExit):
    """A signal asked the command to end: unfinished files are removed on the way out."""


def main() -> None:
    """Run the command line; errors that a user can correct become a message and exit code 2."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)  # Windows lacks some of them
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    # Garbage collection during imports would take a seventh of a short command's time.
    gc.set_threshold(100_000, 20, 20)
    atexit.register(gc.freeze)  # nor is the end the time to look for them: a sixth of it
    logging.getLogger("anonbayes").addHandler(_Remarks())
    warnings.showwarning = lambda message, *_, **__: _warn(str(message))
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
    """Stop in an orderly way; at the second signal, immediately."""
    signal.signal(number, signal.SIG_DFL)
    raise Stopped(128 + number)


def _stop(message: str) -> None:
    typer.echo(f"anonbayes: {_of_options(message)}", err=True)
    raise SystemExit(2) from None


def _of_options(message: str) -> str:
    """Replace the names of arguments in a message by those of options."""
    return re.sub(r"domains=\{'([^']+)': \[\.\.\.\]\}", r"--domain '\1=...'", message)


@cache
def _warn(message: str) -> None:
    """Print a warning once, without the source line that Python would add."""
    typer.echo(f"anonbayes: warning: {_of_options(message)}", err=True)


class _Remarks(logging.Handler):
    """Print log messages of the package, each once, with the names of options."""

    def __init__(self) -> None:
        super().__init__()
        self.said: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        message = _of_options(record.getMessage())
        if message not in self.said:
            self.said.add(message)
            typer.echo(f"anonbayes: {message}", err=True)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"anonbayes {anonbayes.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Bayesian analysis of anonymized tables."""
