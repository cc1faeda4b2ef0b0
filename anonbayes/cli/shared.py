"""Shared by several commands: releases, attackers, mechanisms, and careful writing of files."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anonbayes.channels.registry import MechanismKind, find_mechanism
from anonbayes.cli.options import Asked, parse_number
from anonbayes.errors import AnonbayesError, TableError, nearest
from anonbayes.figures import apart
from anonbayes.io.files import Plot, Writer, save_plot, write_frame
from anonbayes.scenario.choices import ACTORS, GROUP

if TYPE_CHECKING:
    import pandas as pd

    from anonbayes.domains import Domain
    from anonbayes.hierarchies import Hierarchy
    from anonbayes.tables.table import ReleasedTable

# -------------------------------------------------------------------------------------------------
# Releases and attackers on the command line.


@dataclass(frozen=True)
class ReleaseSource:
    """A release on the command line: ``[NAME=]FILE[+SENSITIVE_FILE]``."""

    name: str
    file: Path
    anatomy: Path | None

    @classmethod
    def of(cls, text: str) -> ReleaseSource:
        """Parse the text of an option."""
        # A file name may contain either sign; a file that exists is meant.
        name, equals, rest = ("", "", text) if Path(text).exists() else text.partition("=")
        if not equals:
            name, rest = "", text
        first, plus, second = (rest, "", "") if Path(rest).exists() else rest.partition("+")
        if not first or (plus and not second) or (equals and not name):
            raise AnonbayesError(
                f"{text!r} must be [NAME=]FILE, or [NAME=]FILE+SENSITIVE_FILE for Anatomy."
            )
        return cls(name or Path(first).stem, Path(first), Path(second) if second else None)

    def keys(self, hierarchies: Path | None, group: str | None) -> dict[str, object]:
        """Keys of a release in these files; each kind uses either hierarchies or the group."""
        keys: dict[str, object] = {"file": self.file}
        if self.anatomy is not None:
            keys |= {"sensitive_file": self.anatomy, "group": group}
        elif hierarchies is not None:
            keys["hierarchies"] = hierarchies
        return keys


def further_releases(asked: Asked, *, missing: str | None = None) -> list[dict[str, object]]:
    """Return the further releases of the same people, as tables of keys."""
    alike = ("sensitive", "drop", "domains", "sep", "encoding", "decimal", "missing", "person")
    given = {key.removeprefix("release."): value for key, value in asked.keys.items()}
    common = {name: given[name] for name in alike if name in given}
    if missing is not None:
        common["missing"] = missing
    return [
        common | source.keys(given.get("hierarchies"), given.get("group", GROUP))
        for source in map(ReleaseSource.of, asked.values["also"] or ())
    ]


def attacker_keys(texts: Iterable[str] | None) -> list[dict[str, object]]:
    """Parse attackers such as ``insider`` and ``neighbour:age,sex`` into tables of keys."""
    found: list[dict[str, object]] = []
    for text in texts or ():
        name, colon, columns = text.partition(":")
        if not name or bool(colon) != bool(columns):
            raise AnonbayesError(f"--attacker {text!r} must be NAME, or NAME:COLUMN,COLUMN,...")
        name = re.sub("[_-]", " ", name)
        name = "register holder" if name == "register" else name
        if not colon and name not in ACTORS:
            raise AnonbayesError(
                f"--attacker {name}: list the known columns, as in {name}:age,sex. "
                f"{nearest(name, ACTORS)}"
            )
        found.append({"name": name} | ({"knows": columns.split(",")} if colon else {}))
    return found


def read_release(asked: Asked) -> ReleasedTable:
    """Read a recoded table, or the two tables of an Anatomy release."""
    from anonbayes.scenario.release import make_release

    settings = asked.request(asked.values["released"].name).settings
    with asked.in_options():
        return make_release(settings.release).table


def command_line() -> str:
    """Return the command line of the running command."""
    return shlex.join(["anonbayes", *sys.argv[1:]])


# -------------------------------------------------------------------------------------------------
# Reading and writing files: nothing is overwritten unasked, and files are written atomically.


def check_free(files: Iterable[Path | None], *, force: bool) -> None:
    """Raise `AnonbayesError` unless all these files can be written without replacing others."""
    named = [file for file in files if file is not None]
    for file in named:
        if file.is_dir():
            raise AnonbayesError(f"{str(file)!r} is a directory; give the name of a file.")
        if file.exists() and not force:
            raise AnonbayesError(
                f"{str(file)!r} exists; choose another name, or replace it with --force."
            )
    resolved = [file.resolve() for file in named]
    if len(set(resolved)) < len(resolved):
        raise AnonbayesError("Two output files have the same name; give them different names.")


def frame_writer(
    frame: pd.DataFrame, sep: str, *, index: bool = False, header: bool = True
) -> Writer:
    """Return a function that writes a frame as delimited UTF-8 text."""
    sep = {"tab": "\t", "auto": ";"}.get(sep, sep)
    if len(sep) != 1:
        raise TableError(f"--sep {sep!r} must be a single character, for example ';' or ','.")
    return lambda file: write_frame(file, frame, sep=sep, index=index, header=header)


def hierarchy_writer(tree: Hierarchy, sep: str) -> Writer:
    """Return a function that writes a hierarchy in ARX's format, from the value to the root."""
    import pandas as pd

    return frame_writer(pd.DataFrame([tree.leaves, *tree.levels]).T, sep, header=False)


def plot_writer(plot: Plot) -> Writer:
    """Return a function that draws a plot and writes it as PNG."""

    def write(file: Path) -> None:
        with apart():
            save_plot(file, plot())

    return write


def known_column(frame: pd.DataFrame, column: str, file: Path, option: str) -> pd.Series:
    """Return a column of a file; raise `TableError` with suggestions if it does not exist."""
    from anonbayes.io.text import column_of

    return column_of(frame, column, file=file, name=option)


def full_column(frame: pd.DataFrame, column: str, file: Path, option: str) -> pd.Series:
    """Return a column of a file; raise `TableError` if it has an empty cell."""
    from anonbayes.io.text import filled

    return filled(known_column(frame, column, file, option))


def read_column(
    file: Path, column: str, *, sep: str = "auto", option: str = "--column"
) -> pd.Series:
    """Read one column as texts; raise an error that names the first empty cell."""
    from anonbayes.io.text import read_csv_text

    return full_column(read_csv_text(file, sep=sep), column, file, option)


# -------------------------------------------------------------------------------------------------
# Mechanisms.


def make_mechanism(
    mechanism: str,
    *,
    epsilon: float | None,
    values: str | None,
    sep: str = ";",
    column: str = "value",
    numbers: bool = False,
    bins: str | None = None,
    rule: str | None = None,
    **options: Any,
) -> Any:
    """Build the channel that the options of a command describe.

    Files of budgets, probabilities or shares also list the values. With `numbers`, ``--values 0-N``
    becomes a range that is never stored as a list.
    """
    from anonbayes.domains import Domain, IntegerDomain
    from anonbayes.io.text import parse_values

    kind = find_mechanism(mechanism)
    kind.check({**dict.fromkeys(kind.needs), **options}, prefix="--")
    if (epsilon is None) == kind.takes_epsilon:
        what = "needs" if kind.takes_epsilon else "has its own budgets, without"
        raise AnonbayesError(f"--mechanism {kind.name} {what} --epsilon.")
    if rule is not None and "budgets" not in kind.needs:
        raise AnonbayesError(f"--rule does not apply to --mechanism {kind.name}; leave it out.")
    if bins is not None or kind.numeric:
        return kind.make(_numeric_domain(kind, bins, values, column), epsilon)
    for option, read in READERS.items():
        if option not in kind.needs:
            continue
        if values is not None:
            raise AnonbayesError(
                f"--mechanism {kind.name} gets its values from --{option}; leave out --values."
            )
        listed, options[option] = read(options[option], sep, rule)
        return kind.make(Domain(column, listed), epsilon, **options)
    if values is None:
        raise AnonbayesError(
            "--values is missing: list all possible values, whether or not anybody has them."
        )
    held = parse_values(values)
    if numbers and isinstance(held, range) and held.start == 0:
        domain: Domain = IntegerDomain(len(held), column)
    else:
        domain = Domain(column, [str(value) for value in held])
    return kind.make(domain, epsilon, **options)


def _numeric_domain(
    mechanism: MechanismKind, bins: str | None, values: str | None, column: str
) -> Domain:
    from anonbayes.channels.coarsening import BinnedDomain
    from anonbayes.domains import Domain, number_place
    from anonbayes.io.text import parse_values

    if not mechanism.numeric:
        raise AnonbayesError(
            f"--bins does not apply to --mechanism {mechanism.name}; leave it out."
        )
    if (bins is None) == (values is None):
        raise AnonbayesError(
            f"--mechanism {mechanism.name} needs --bins lower:upper:number, or numbers as --values."
        )
    if bins is not None:
        parts = [parse_number(part) for part in bins.split(":")]
        if len(parts) != 3 or None in parts:
            raise AnonbayesError(f"--bins {bins!r} must be lower:upper:number, such as 0:100:50.")
        return BinnedDomain(column, *parts)  # type: ignore[arg-type]
    listed = [number_place(value) for value in parse_values(values or "")]
    if None in listed:
        wrong = parse_values(values or "")[listed.index(None)]
        raise AnonbayesError(f"--values contains {wrong!r}, but {mechanism.name} needs numbers.")
    return Domain(column, sorted(listed))  # type: ignore[type-var]


def _budgets(file: Path, sep: str, rule: str | None) -> tuple[list[str], Any]:
    """Read values and budgets from a file of `anonbayes budgets`."""
    listed, table = _read(file, sep)
    chosen = rule or (next(iter(table)) if len(table) == 1 else None)
    if chosen not in table:
        what = "--rule is missing" if rule is None else f"--rule {rule!r} is not in {file.name!r}"
        raise AnonbayesError(f"{what}. {nearest(rule or '', table)}")
    return listed, table[chosen]


def _rows(file: Path, sep: str, rule: str | None) -> tuple[list[str], Any]:
    """Read values and the probabilities of their reports."""
    listed, table = _read(file, sep)
    rows = [dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True)]
    return listed, dict(zip(listed, rows, strict=True))


def _shares(file: Path, sep: str, rule: str | None) -> tuple[list[str], Any]:
    """Read values and shares, which are scaled to sum to one."""
    listed, table = _read(file, sep)
    if len(table) != 1:
        raise AnonbayesError(f"{file.name!r} must have two columns: values and shares.")
    (shares,) = table.values()
    total = sum(shares)
    return listed, [share / total for share in shares] if total else shares


def _read(file: Path, sep: str) -> tuple[list[str], dict[str, list[float]]]:
    """Read the first column of a file as texts, and all others as numbers of at least 0."""
    from anonbayes.io.text import read_csv_text

    frame = read_csv_text(file, sep=sep)
    first, *others = frame.columns
    table: dict[str, list[float]] = {}
    for name in others:
        table[name] = []
        for row, text in enumerate(frame[name]):
            number = parse_number(text)
            if number is None or number < 0:
                raise AnonbayesError(
                    f"{file.name!r}, column {name!r}, row {row}: {text!r} is not a number of at "
                    "least 0."
                )
            table[name].append(number)
    return frame[first].tolist(), table


READERS = {"budgets": _budgets, "matrix": _rows, "shares": _shares}
