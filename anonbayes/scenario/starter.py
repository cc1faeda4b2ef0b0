"""A first scenario file for a table, and documents derived from the declared keys."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

import pandas as pd

from anonbayes.domains import date_place, numbers_of
from anonbayes.errors import AnonbayesError, TableError, nearest
from anonbayes.io.files import write_text
from anonbayes.io.text import AUTO, has_decimal_commas, may_separate_thousands, read_csv_text
from anonbayes.scenario.choices import GROUP
from anonbayes.scenario.keys import describe_keys, json_schema
from anonbayes.scenario.load import KINDS, load
from anonbayes.tables.cells import is_pattern
from anonbayes.tables.sources import TextFormat

# -------------------------------------------------------------------------------------------------
# A commented first scenario, based on a table's columns.

NAME_LIKE = 0.9
"""Share of distinct values above which a column of texts is taken for names of people."""
SHOWN = 6
FEWEST_GROUPS = 10
"""Number of groups above which a column named like a group is taken for that of an Anatomy."""
MANY = 20
"""Number of sensitive values above which a remark is made, unless each has ten rows."""


@dataclass(frozen=True)
class _Column:
    name: str
    about: str
    names_people: bool


def starter(
    table: str | Path,
    *,
    folder: Path,
    sensitive: str | None = None,
    sep: str = AUTO,
    encoding: str = "utf-8",
    decimal: str = ".",
) -> str:
    """Return a scenario for `folder` about a cleartext table; the last column is the secret."""
    file = Path(table)
    how: TextFormat = {"sep": sep, "encoding": encoding, "decimal": decimal}
    frame = read_csv_text(file, **how)
    commas = [name for name in frame.columns if has_decimal_commas(frame[name].unique())]
    thousands = [name for name in commas if may_separate_thousands(frame[name].unique())]
    if decimal == "." and len(thousands) < len(commas):
        _refuse_both_commas(frame, [c for c in commas if c not in thousands], thousands, file)
        how["decimal"] = ","
        frame = read_csv_text(file, **how)
    if len(frame.columns) < 2:
        raise TableError(f"{str(file)!r} has a single column; specify its separator with --sep.")
    secret = frame.columns[-1] if sensitive is None else sensitive
    if secret not in frame.columns:
        raise AnonbayesError(f"There is no column {secret!r}. {nearest(secret, frame.columns)}")
    columns = [_look(frame[name]) for name in frame.columns if name != secret]
    _refuse_release(frame, file)
    return "\n".join(
        _lines(frame, columns, secret, sensitive is None, _relative(file, folder), how)
    )


def _refuse_both_commas(
    frame: pd.DataFrame, decimals: list[str], thousands: list[str], file: Path
) -> None:
    """Raise an error if commas are decimal marks in a column and may separate thousands in another.

    One decimal mark holds for the whole file, so 1,000 would become 1.
    """
    if thousands:
        one, other = (
            f"{name!r} (such as {next(text for text in frame[name] if ',' in text)!r})"
            for name in (decimals[0], thousands[0])
        )
        raise TableError(
            f"{str(file)!r}: commas are decimal marks in column {one}, but may separate thousands "
            f"in column {other}, which would become a number a thousand times smaller. Remove the "
            "commas from the numbers in thousands; if they are decimal marks as well, specify "
            "--decimal ','."
        )


def _refuse_release(frame: pd.DataFrame, file: Path) -> None:
    """Raise an error for a table that is a release: it has groups, or cells with several values."""
    advice = (
        f"Assess it with: anonbayes assess {file} --sensitive COLUMN --cleartext FILE --out "
        "results (anonbayes assess --help lists the options for Anatomy). init needs the cleartext "
        "table."
    )
    groups = frame[GROUP].value_counts() if GROUP in frame else pd.Series(dtype=int)
    if len(groups) >= FEWEST_GROUPS and groups.min() > 1:
        raise TableError(
            f"{str(file)!r} looks like a table of an Anatomy, not a cleartext: column {GROUP!r} "
            f"has {len(groups):,} groups of {groups.min()} rows or more. {advice}"
        )
    for name in frame.columns:
        texts = frame[name].unique().tolist()
        wide = [t for t in texts if t == "*" or (is_pattern(t) and date_place(t) is None)]
        if wide and (wide != ["*"] or len(texts) > 1) and len(wide) >= max(1, len(texts) / 10):
            raise TableError(
                f"{str(file)!r} looks like a released table, not a cleartext: column {name!r} "
                f"shows {wide[0]!r}. {advice}"
            )


def _lines(
    frame: pd.DataFrame,
    columns: list[_Column],
    secret: str,
    guessed: bool,
    path: str,
    how: TextFormat,
) -> Iterator[str]:
    kept = [c for c in columns if not c.names_people] or columns
    values = frame[secret].nunique()
    yield "# A first scenario. Run it with: anonbayes run <this file>"
    yield "# Keys are optional unless stated otherwise; models/README.md describes all of them."
    yield 'kind = "assessment"'
    yield f"question = {_text('Who is threatened by a release of ' + Path(path).name + '?')}"
    yield "seed = 1  # gives the same numbers every time; remove it for a fresh run"
    yield ""
    yield "[cleartext]"
    yield f"file = {_text(path)}  # {len(frame):,} rows"
    usual = {"sep": AUTO, "encoding": "utf-8", "decimal": "."}
    unusual = {name: str(value) for name, value in how.items() if value != usual[name]}
    yield from (f"{name} = {_text(value)}" for name, value in unusual.items())
    if (frame == "").any(axis=None):
        yield 'missing = "category"  # empty cells are a value of their own; "drop" omits the rows'
    yield ""
    yield "[release]"
    if guessed:
        yield "# The last column is assumed to be the sensitive one; change it if it is not."
    yield f"sensitive = {_text(secret)}"
    yield f"# {_look(frame[secret]).about}"
    if values > max(MANY, len(frame) / 10):
        yield "# With so many values, few are shared: bin them first, or choose another column."
    yield 'scheme = "mondrian"  # or "recode" with hierarchies = "directory", or "anatomy"'
    yield "# Every group has at least k rows and l different sensitive values."
    yield f"k = {min(5, len(frame))}"
    yield f"l = {min(2, values)}"
    yield "# What an attacker may know about a person:"
    yield "quasi_identifiers = ["
    for column in columns:
        mark = "" if column in kept else "# "
        why = " (looks like a name or identifier of a person, left out)" if mark else ""
        yield f"  {mark}{_text(column.name)},  # {column.about}{why}"
    yield "]"
    yield ""
    yield "[model]"
    yield "draws = 1000"
    yield "chains = 4"
    yield ""
    yield "# [threats]"
    yield f"# harm = [{_text(str(frame[secret].value_counts().index[-1]))}]  # only these matter"
    yield ""
    yield "# Exceeding one of these gives exit code 3:"
    yield "# [limits]"
    yield "# max_relative_threat = 5.0"
    yield "# max_threatened = 0.5"
    yield "# max_cost = 0.1"
    yield ""
    yield "# Compare several releases instead of one:"
    yield "# [sweep]"
    yield '# "release.k" = [2, 5, 10, 20]'
    yield ""


def _look(column: pd.Series) -> _Column:
    texts = [text for text in column.unique().tolist() if text]
    numbers = numbers_of(texts)
    gaps = int((column == "").sum())
    dates = sorted((place, text) for text in texts if (place := date_place(text)) is not None)
    if len(dates) == len(texts) > 2:
        about = f"{len(texts):,} dates from {dates[0][1]} to {dates[-1][1]}"
        people = False
    elif numbers is not None and len(numbers) > 2:
        about = f"{len(numbers):,} numbers from {min(numbers):g} to {max(numbers):g}"
        whole = all(isinstance(number, int) for number in numbers)
        # Row numbers and the like: every row has its own, without gaps.
        people = whole and len(numbers) == len(column) == max(numbers) - min(numbers) + 1
    else:
        shown = ", ".join(" ".join(t.split())[:20] for t in texts[:SHOWN])
        about = f"{len(texts):,} values: {shown}{', ...' if len(texts) > SHOWN else ''}"
        people = len(texts) > 10 and len(texts) >= NAME_LIKE * len(column)
    if gaps:
        about += f"; {gaps:,} EMPTY CELLS"
    return _Column(str(column.name), about, people)


def _relative(file: Path, folder: Path) -> str:
    return Path(os.path.relpath(file.resolve(), folder.resolve())).as_posix()


def _text(value: str) -> str:
    """Quote a text for TOML, which accepts JSON's escapes."""
    return json.dumps(value, ensure_ascii=False)


# -------------------------------------------------------------------------------------------------
# Writes what is derived from the declared keys: the JSON schema, and the README of the scenarios.
#
# ``python -m anonbayes.scenario.starter models`` updates both.


def schema() -> str:
    """Text of ``scenario.schema.json``."""
    return json.dumps(json_schema(KINDS), indent=2, ensure_ascii=False) + "\n"


def readme(folder: Path) -> str:
    """Text of the README for a folder of scenarios."""
    template = resources.files("anonbayes.scenario").joinpath("README.template.md")
    lines = [
        f"| `{file.name}` | {load(file).settings.question} |"
        for file in sorted(folder.glob("*.toml"))
    ]
    text = template.read_text(encoding="utf-8").replace("@MODELS@", "\n".join(lines))
    return text.replace("@KEYS@\n", describe_keys(KINDS))


def write_documents(folder: Path) -> None:
    """Write both files to the folder of scenarios."""
    write_text(folder / "scenario.schema.json", schema())
    write_text(folder / "README.md", readme(folder))


if __name__ == "__main__":
    write_documents(Path(sys.argv[1]))
