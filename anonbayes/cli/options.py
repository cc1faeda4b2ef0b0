"""How commands declare their options: as keys of the request that a scenario file would make.

A command is a function decorated with a list of flags (`asks`). The type, default, limits and
description of an option are those of its key; the function receives the result as `Asked`. Options
that are not keys, such as output files, are parameters of the function, declared as in Typer. Keys
are looked up when a command is parsed or explained, not when the program starts or a shell
completes.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import typer

from anonbayes.channels.registry import MECHANISMS as KINDS_OF_MECHANISMS
from anonbayes.errors import AnonbayesError
from anonbayes.scenario import choices

if TYPE_CHECKING:
    from anonbayes.scenario.load import Scenario

Command = TypeVar("Command", bound=Callable[..., None])
FILES, SCHEME, MODEL, RESULTS = "Files", "Scheme", "Model", "Results"
LIMITS = "Limits (exit code 3 if exceeded)"
"""Headings of groups of options in the help."""
PANELS = {
    "sep": FILES, "encoding": FILES, "decimal": FILES, "missing": FILES, "hierarchies": FILES,
    "scheme": SCHEME, "k": SCHEME, "l": SCHEME, "local": SCHEME, "suppression": SCHEME,
    "quasi_identifiers": SCHEME, "release": FILES, "cleartext": FILES, "others": FILES,
    "holdout": FILES, "also": FILES, "sample": FILES, "seed": MODEL, "model": MODEL,
    "threats": MODEL, "attackers": MODEL, "limits": LIMITS, "outputs": RESULTS,
}  # fmt: skip
"""Heading of a key, by its last word or its section."""


# -------------------------------------------------------------------------------------------------
# Declaring options.


@dataclass(frozen=True, eq=False)
class Flag:
    """An option or argument that sets a key, and possibly further keys.

    The spelling of an argument has no dashes. `values` are completed in a shell, with descriptions;
    `needed` keys are required even if a file may lack them. `about`, `default`, `hint` and
    `metavar` replace those of the key; `sets` is the value set by a switch.
    """

    keys: tuple[str, ...]
    names: tuple[str, ...]
    values: Mapping[str, str] | None = None
    needed: bool = False
    about: str = ""
    default: Any = None
    hint: Any = None
    metavar: str | None = None
    sets: bool | None = None

    @property
    def name(self) -> str:
        """Name of the function's parameter."""
        return self.names[0].split("/")[0].lstrip("-").replace("-", "_")

    @property
    def spelled(self) -> str:
        """Name in messages."""
        return self.names[0].split("/")[0] if self.names[0].startswith("-") else self.name.upper()

    def parameter(self, kind: str, options: Mapping[str, str]) -> inspect.Parameter:
        """Return the parameter from which Typer makes an option or an argument."""
        hint, default, about = self.hint, self.default, self.about
        is_option = self.names[0].startswith("-")
        if completing():  # flags and values suffice
            hint = bool if self.sets is not None else list[str]
        else:
            declared = _declared(kind, self.keys[0])
            if hint is None:
                hint = bool if self.sets is not None else declared.option_type
                default = declared.default if default is None else default
            if is_option and not about:  # a file for a whole section
                about = _declared(kind, self.keys[0].removesuffix(".file")).about_in(options)
            about = about or declared.about_in(options)
        needed = self.needed or default is ...
        many = get_origin(hint) is list
        if self.sets is not None:
            default = False
        elif many or default is None:
            hint, default = hint if needed else hint | None, None
        about += " May be repeated." if many and is_option else ""
        make: dict[str, Any] = {"help": about, "metavar": self.metavar}
        # What most people need comes first.
        if is_option and not needed and self.keys != ("cleartext.file",):
            words = self.keys[0].split(".")
            make["rich_help_panel"] = PANELS.get(words[-1]) or PANELS.get(words[0])
        if self.values is not None:
            make["autocompletion"] = completer(self.values)
        info = typer.Option(*self.names, **make) if is_option else typer.Argument(**make)
        return inspect.Parameter(
            self.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if needed else default,
            annotation=Annotated[hint, info],
        )


def option(key: str, *names: str, also: Iterable[str] = (), **more: Any) -> Flag:
    """Declare an option, by default named after the last word of its key."""
    own = f"--{key.rpartition('.')[2].replace('_', '-')}"
    return Flag((key, *also), names or (own,), **more)


def argument(key: str, name: str, **more: Any) -> Flag:
    """Declare an argument."""
    return Flag((key,), (name,), needed=True, **more)


def switch(key: str, *names: str, sets: bool = True, **more: Any) -> Flag:
    """Declare an option without a value that sets its key."""
    return option(key, *names, sets=sets, **more)


def asks(kind: str, *flags: Flag) -> Callable[[Command], Command]:
    """Declare a command that sets keys of a kind of requests."""

    def declare(function: Command) -> Command:
        function.__dict__["asks"] = (kind, flags)
        return function

    return declare


def callback(function: Callable[..., None]) -> Callable[..., None]:
    """Return the function as Typer needs it, with a parameter for every flag."""
    if "asks" not in function.__dict__:
        return function
    kind, flags = function.__dict__["asks"]
    own = list(inspect.signature(function).parameters.values())[1:]
    hints = get_type_hints(function, include_extras=True)
    options = _spellings(flags)
    every = [flag.parameter(kind, options) for flag in flags]
    every += [
        one.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[one.name]) for one in own
    ]

    def call(**given: Any) -> None:
        values = {flag: given.pop(flag.name) for flag in flags}
        function(Asked.of(kind, values, options), **given)

    call.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
    call.__annotations__ = {one.name: one.annotation for one in every}
    call.__name__, call.__doc__ = function.__name__, function.__doc__
    return call


def completing() -> bool:
    """Whether a shell is asking for completions."""
    return "_ANONBAYES_COMPLETE" in os.environ


def completer(words: Mapping[str, str]) -> Callable[[str], list[tuple[str, str]]]:
    """Return a function that completes words and shows their descriptions."""
    return lambda incomplete: [one for one in words.items() if one[0].startswith(incomplete)]


def _declared(kind: str, key: str) -> Any:
    """Find a key of the kind, or of another kind named in front of it, as in ``survey:seed``."""
    from anonbayes.scenario.keys import find_key
    from anonbayes.scenario.load import KINDS

    other, _, name = key.rpartition(":")
    return find_key(KINDS[other or kind], name)


def _spellings(flags: Iterable[Flag]) -> dict[str, str]:
    """Names in messages of keys, and of sections given by a file."""
    spelled: dict[str, str] = {}
    for flag in flags:
        for key in flag.keys if flag.sets is not False else ():
            spelled.setdefault(key, flag.spelled)
            if key.endswith(".file"):
                spelled.setdefault(key.removesuffix(".file"), flag.spelled)
    return spelled


# -------------------------------------------------------------------------------------------------
# From the command line to a request.


@dataclass(frozen=True)
class Asked:
    """What the options of a command ask for: a request of a kind.

    `values` are the options by parameter, `keys` the keys of the request that they set, and
    `options` the options by key, for messages.
    """

    kind: str
    values: Mapping[str, Any]
    keys: Mapping[str, Any]
    options: Mapping[str, str] = field(repr=False, default_factory=dict)

    @classmethod
    def of(cls, kind: str, typed: Mapping[Flag, Any], options: Mapping[str, str]) -> Asked:
        """Convert options to values of keys."""
        keys: dict[str, Any] = {}
        for flag, value in typed.items():
            if flag.hint is not None or value is None or value == []:
                continue
            if flag.sets is not None:
                if value:
                    keys[flag.keys[0]] = flag.sets
            else:
                keys |= dict.fromkeys(flag.keys, _read(flag, _declared(kind, flag.keys[0]), value))
        first = {flag.keys[0] for flag in typed}
        keys = {
            key: value
            for key, value in keys.items()
            if key in first or f"{key.rpartition('.')[0]}.file" in keys
        }
        return cls(kind, {flag.name: value for flag, value in typed.items()}, keys, options)

    def request(self, name: str = "", **sections: Mapping[str, Any] | list[Any]) -> Scenario:
        """Make the request; `sections` add or replace keys."""
        from anonbayes.scenario.load import request

        more: dict[str, Any] = {}
        for section, content in sections.items():
            if isinstance(content, Mapping):
                more |= {f"{section}.{key}": value for key, value in content.items()}
            else:
                more[section] = content
        keys = {"question": name, **self.keys, **more}
        return request(self.kind, keys, name=name, options=self.options)

    @contextmanager
    def in_options(self) -> Iterator[None]:
        """Replace keys by options in errors about the request."""
        from anonbayes.scenario.keys import in_options

        try:
            yield
        except AnonbayesError as error:
            error.args = (in_options(str(error), self.options), *error.args[1:])
            raise

    def prepare(self, name: str = "", **sections: Any) -> Any:
        """Make the request and read its files."""
        request = self.request(name, **sections)
        with self.in_options():
            return request.settings.prepare()


def _read(flag: Flag, declared: Any, value: Any) -> Any:
    """Parse the texts of an option whose key is a table or weights; return other values as is."""
    if declared.outer is Any:
        if len(value) == 1 and "=" not in value[0]:
            number = parse_number(value[0])
            return value[0] if number is None else number
        return by_name(value, option=flag.spelled, number=float)
    if declared.outer is not dict:
        return value
    of = get_args(declared.hint)[1]
    return by_name(value, option=flag.spelled, number=of if of in (int, float) else None)


EXAMPLES: dict[type | None, str] = {
    None: "sex=f,m or age=18-99",
    float: "HIV=0.1",
    int: "north=4000",
}


def by_name(
    texts: Iterable[str] | None, *, option: str, number: type | None = None, example: str = ""
) -> dict[str, Any]:
    """Parse texts ``name=...`` into a dict, with numbers as values if `number` is given."""
    found: dict[str, Any] = {}
    for text in texts or ():
        name, equals, value = text.partition("=") if number is None else text.rpartition("=")
        if not equals or not name:
            such = example or EXAMPLES[number]
            raise AnonbayesError(f"{option} {text!r} must have the form NAME=..., such as {such}.")
        found[name] = value
        if number is not None:
            meant = parse_number(value)
            if meant is None or (number is int and not value.isdigit()):
                what = "a number of people" if number is int else "a number"
                raise AnonbayesError(f"{option} {text}: {value!r} is not {what}.")
            found[name] = number(meant)
    return found


def parse_number(text: str) -> float | None:
    """Return the number that a text spells in any way, or None; NaN is not a number."""
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isnan(number) else number


# -------------------------------------------------------------------------------------------------
# Options shared by several commands.

SPELLING = (
    option(
        "release.sep",
        also=("cleartext.sep", "others.sep", "holdout.sep"),
        values=choices.SEPARATORS,
    ),
    option(
        "release.encoding",
        also=("cleartext.encoding", "others.encoding", "holdout.encoding"),
        values=choices.ENCODINGS,
    ),
    option("release.decimal", also=("cleartext.decimal", "others.decimal", "holdout.decimal")),
)
RELEASE = (
    option("release.sensitive", needed=True),
    option("release.hierarchies"),
    option("release.sensitive_file", "--anatomy"),
    option("release.group"),
    option("release.drop"),
    option("release.domains", "--domain", metavar="COLUMN=VALUES"),
    *SPELLING,
    option("release.missing", values=choices.MISSING),
)
CLEARTEXT = (
    option("cleartext.file", "--cleartext"),
    switch("cleartext.partial", "--allow-partial"),
)
DRAWS, CHAINS, SEED = option("model.draws"), option("model.chains"), option("seed")
HARM = option("threats.harm")
SAMPLER = (
    option("model.alpha", metavar="WEIGHT"),
    option("model.beta", metavar="WEIGHT"),
    option("model.evidence", values=choices.EVIDENCE),
    option("model.method", values=choices.ENGINES),
    DRAWS,
    CHAINS,
    SEED,
)
THREAT_LIMITS = (
    *(
        option(f"limits.max_{name}")
        for name in ("relative_threat", "threatened", "cost", "doubled", "log_loss_gain", "belief")
    ),
    option("limits.at_most", metavar="MEASURE=VALUE"),
    option("limits.at_least", metavar="MEASURE=VALUE"),
    option("limits.preset", values=choices.PRESETS),
    switch("limits.require_convergence"),
    switch(
        "limits.require_convergence", "--allow-unconverged", sets=False,
        about="Accept chains that cannot be trusted; other limits still apply.",
    ),
)  # fmt: skip

MECHANISMS = {name: kind.title for name, kind in KINDS_OF_MECHANISMS.items()}
MECHANISM = (
    option("mechanism.channel", "--mechanism", "-m", values=MECHANISMS),
    option(
        "mechanism.values", hint=str,
        about="Possible values: a,b,c or 0-99 or @file with one per line.",
    ),
    option("mechanism.epsilon"),
    option("mechanism.sensitive"),
    option("mechanism.g", "--g"),
    option("mechanism.d", "--d"),
    option(
        "mechanism.values", "--bins", hint=str,
        about="Bins of numbers instead of --values, as lower:upper:number, such as 0:120:60.",
    ),
    option("mechanism.infinite"),
    option("mechanism.length"),
    option(
        "mechanism.matrix", hint=Path,
        about="File of probabilities: a line per value, a column per report (for matrix).",
    ),
    option(
        "mechanism.shares", hint=Path,
        about="File with one value and its share per line (for invariant_pram).",
    ),
    option(
        "mechanism.budgets", hint=Path,
        about="File written by `anonbayes budgets` (for input_discriminative_ue).",
    ),
    option(
        "mechanism.budgets", "--rule", hint=str, about="Column of that file, such as worst_case."
    ),
)  # fmt: skip
"""Options that describe a mechanism; those with their own type name files."""
SEVERAL = (
    option(
        "mechanism.attributes", "--domain", hint=list[str], metavar="COLUMN=VALUES",
        about="Possible values of each of several columns: sex=f,m or age=18-99.",
    ),
    option("mechanism.how", hint=str),
)  # fmt: skip

# -- options that are not keys ---------------------------------------------------------------------

Sep = Annotated[
    str,
    typer.Option(
        help="Separator of all files: a character, tab, or auto to detect it from the header.",
        autocompletion=completer(choices.SEPARATORS),
        rich_help_panel=FILES,
    ),
]
Encoding = Annotated[
    str,
    typer.Option(
        help=choices.ENCODING,
        autocompletion=completer(choices.ENCODINGS),
        rich_help_panel=FILES,
    ),
]
Decimal = Annotated[
    str,
    typer.Option(help=choices.DECIMAL, rich_help_panel=FILES),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=RESULTS)]
Force = Annotated[
    bool, typer.Option("--force", help="Replace files of an earlier run.", rich_help_panel=RESULTS)
]
