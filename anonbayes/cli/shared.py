"""What several commands do alike: options become requests, files are written with care."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anonbayes.errors import AnonbayesError, TableError, nearest
from anonbayes.figures import apart
from anonbayes.io.files import Writer, save_plot, write_frame

if TYPE_CHECKING:
    import pandas as pd

    from anonbayes.scenario.load import Scenario
    from anonbayes.tables.table import ReleasedTable

__all__ = [
    "EXCEEDED",
    "ReleaseSource",
    "ask",
    "attacker_keys",
    "by_name",
    "check_free",
    "command_line",
    "frame_writer",
    "full_column",
    "further_releases",
    "known_column",
    "named_as_options",
    "parse_weights",
    "plot_writer",
    "read_column",
    "read_release",
]
EXCEEDED = 3
"""Exit code when a limit is exceeded."""


# -------------------------------------------------------------------------------------------------
# From options to the request that a scenario file would make.

OPTIONS = {
    "release.sensitive_file": "--anatomy",
    "release.domains": "--domain",
    "release.quasi_identifiers": "--quasi-identifier",
    "threats.measure": "--threat",
    "cleartext.file": "--cleartext",
    "cleartext.partial": "--allow-partial",
    "others.file": "--register",
    "also": "--also",
    "also.person": "--person",
    "population.size": "--population",
    "sample.attributes": "--attribute",
    "sample.weights": "--weights",
}
"""Keys that are called otherwise on the command line."""


def ask(kind: str, keys: Mapping[str, Any], *, name: str = "") -> Scenario:
    """Return the request that options make; see `anonbayes.scenario.load.request`."""
    from anonbayes.scenario.load import request

    return request(kind, {"question": name, **keys}, name=name, options=OPTIONS)


@contextmanager
def named_as_options() -> Iterator[None]:
    """Let errors about keys of a request speak of the options that gave them."""
    from anonbayes.scenario.keys import in_options

    try:
        yield
    except AnonbayesError as error:
        error.args = (in_options(str(error), OPTIONS), *error.args[1:])
        raise


def by_name(texts: Iterable[str] | None, *, option: str, example: str) -> dict[str, str]:
    """Return what follows each name, of texts such as ``name=...``.

    Examples
    --------
    >>> by_name(["sex=f,m", "age=18-99"], option="--domain", example="sex=f,m")
    {'sex': 'f,m', 'age': '18-99'}
    """
    out = {}
    for text in texts or ():
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise AnonbayesError(f"{option} {text!r} must be NAME=..., such as {example}.")
        out[name] = value
    return out


def parse_weights(texts: list[str] | None, *, option: str, example: str = "HIV=0.1") -> Any:
    """Return prior weights: one for all, by name, or the word for a rule.

    Examples
    --------
    >>> parse_weights(["0.5"], option="--alpha"), parse_weights(["HIV=0.1"], option="--alpha")
    (0.5, {'HIV': 0.1})
    """
    from anonbayes.cli.options import parse_number

    if not texts:
        return None
    if len(texts) == 1 and "=" not in texts[0]:
        number = parse_number(texts[0])
        return texts[0] if number is None else number
    weights = {}
    for name, text in by_name(texts, option=option, example=example).items():
        weight = parse_number(text)
        if weight is None:
            raise AnonbayesError(f"{option} {name}={text}: {text!r} is not a number.")
        weights[name] = weight
    return weights


def release_keys(
    file: Path,
    *,
    sensitive: list[str],
    hierarchies: Path | None,
    anatomy: Path | None,
    group: str | None,
    drop: list[str] | None,
    domain: list[str] | None,
    sep: str,
    missing: str,
    encoding: str = "utf-8",
    decimal: str = ".",
    person: str | None = None,
) -> dict[str, Any]:
    """Keys of a release in files."""
    keys = {
        "person": person,
        "file": file,
        "sensitive_file": anatomy,
        "group": group,
        "sep": sep,
        "encoding": encoding,
        "decimal": decimal,
        "drop": drop,
        "domains": by_name(domain, option="--domain", example="sex=f,m or age=18-99"),
        "missing": missing,
        "sensitive": sensitive,
        "hierarchies": hierarchies,
    }
    return {f"release.{name}": value for name, value in keys.items()}


@dataclass(frozen=True)
class ReleaseSource:
    """One release of the command line: ``[NAME=]FILE[+SENSITIVE_FILE]``."""

    name: str
    file: Path
    anatomy: Path | None

    @classmethod
    def of(cls, text: str) -> ReleaseSource:
        """Take a text apart."""
        # A file may have either sign in its name; what exists is meant.
        name, equals, rest = ("", "", text) if Path(text).exists() else text.partition("=")
        if not equals:
            name, rest = "", text
        first, plus, second = (rest, "", "") if Path(rest).exists() else rest.partition("+")
        if not first or (plus and not second) or (equals and not name):
            raise AnonbayesError(
                f"{text!r} is not [NAME=]FILE, or [NAME=]FILE+SENSITIVE_FILE for an Anatomy."
            )
        return cls(name or Path(first).stem, Path(first), Path(second) if second else None)


def further_releases(
    texts: Iterable[str] | None, *, hierarchies: Path | None, group: str | None, **how: Any
) -> list[dict[str, Any]]:
    """Further releases of the same people, as a request has them: one table of keys each."""
    found = []
    for source in map(ReleaseSource.of, texts or ()):
        vertical = source.anatomy is not None
        keys = release_keys(
            source.file,
            anatomy=source.anatomy,
            hierarchies=None if vertical else hierarchies,
            group=(group or "group") if vertical else None,
            **how,
        )
        named = {k.removeprefix("release."): v for k, v in keys.items()}
        found.append({k: v for k, v in named.items() if v not in (None, {})})
    return found


KINDS: dict[str, dict[str, bool]] = {
    "stranger": {},
    "insider": {"group": True},
    "register": {"others": True},
    "collector": {"also": True},
}


def attacker_keys(texts: Iterable[str] | None) -> list[dict[str, Any]]:
    """Attackers as a request has them.

    Examples
    --------
    >>> attacker_keys(["insider", "neighbour:age,sex"])
    [{'name': 'insider', 'group': True}, {'name': 'neighbour', 'knows': ['age', 'sex']}]
    """
    found = []
    for text in texts or ():
        name, colon, columns = text.partition(":")
        if not name or bool(colon) != bool(columns):
            raise AnonbayesError(f"--attacker {text!r} must be NAME, or NAME:COLUMN,COLUMN,...")
        if not colon and name not in KINDS:
            raise AnonbayesError(
                f"--attacker {name}: say what is known, as in {name}:age,sex. "
                f"{nearest(name, KINDS)}"
            )
        known = {"knows": columns.split(",")} if colon else KINDS[name]
        found.append({"name": name, **known})
    return found


def read_release(file: Path, **options: Any) -> ReleasedTable:
    """Read a recoded table, or the two tables of an Anatomy."""
    from anonbayes.scenario.release import make_release

    asked = ask("assessment", release_keys(file, **options), name=file.name)
    with named_as_options():
        return make_release(asked.settings.release).table


def command_line() -> str:
    """Return the command that is running."""
    return shlex.join(["anonbayes", *sys.argv[1:]])


# -------------------------------------------------------------------------------------------------
# Reading and writing the files of commands: nothing is overwritten unawares, nothing is half.


def check_free(files: Iterable[Path | None], *, force: bool) -> None:
    """Raise `AnonbayesError` unless all these files can be written without loss."""
    named = [file for file in files if file is not None]
    for file in named:
        if file.is_dir():
            raise AnonbayesError(f"{str(file)!r} is a directory; name a file.")
        if file.exists() and not force:
            raise AnonbayesError(
                f"{str(file)!r} exists; name another file, or use --force to replace it."
            )
    resolved = [file.resolve() for file in named]
    if len(set(resolved)) < len(resolved):
        raise AnonbayesError("Two outputs have the same name; give each its own.")


def frame_writer(
    frame: pd.DataFrame, sep: str, *, index: bool = False, header: bool = True
) -> Writer:
    """Return what writes a frame as delimited UTF-8 text."""
    sep = {"tab": "\t", "auto": ";"}.get(sep, sep)
    if len(sep) != 1:
        raise TableError(f"--sep {sep!r} must be a single character, for example ';' or ','.")
    return lambda file: write_frame(file, frame, sep=sep, index=index, header=header)


def plot_writer(plot: Callable[[], Any]) -> Writer:
    """Return what draws axes and writes them as PNG."""

    def write(file: Path) -> None:
        with apart():
            save_plot(file, plot())

    return write


def known_column(frame: pd.DataFrame, column: str, file: Path, option: str) -> pd.Series:
    """Return a column of a file; raise `TableError` with the nearest name if there is none."""
    from anonbayes.io.text import column_of

    return column_of(frame, column, file=file, name=option)


def full_column(frame: pd.DataFrame, column: str, file: Path, option: str) -> pd.Series:
    """Return a column of a file that has no empty cell."""
    from anonbayes.io.text import filled

    return filled(known_column(frame, column, file, option))


def read_column(
    file: Path, column: str, *, sep: str = "auto", option: str = "--column"
) -> pd.Series:
    """Read one column as texts; empty cells are an error that names the first."""
    from anonbayes.io.text import read_csv_text

    return full_column(read_csv_text(file, sep=sep), column, file, option)
