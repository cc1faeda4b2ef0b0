"""The people of a release in clear: row by row, or counted where there are many.

Threats depend on distinct records alone, so that a large file is counted by the engines that count
large releases, and every measure is the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anonbayes.errors import AnonbayesError, TableError, nearest
from anonbayes.scenario.choices import DECIMAL, ENCODING, NAMES, SEPARATOR
from anonbayes.scenario.keys import File, Section, key
from anonbayes.scenario.release import Release

if TYPE_CHECKING:
    import pandas as pd

    from anonbayes.inference.posterior import Posterior
    from anonbayes.risk.assessment import RiskAssessment
    from anonbayes.risk.people import Truth
    from anonbayes.tables.build import Reading
    from anonbayes.tables.evidence import KnownValues
    from anonbayes.tables.sources import Counted, TextFormat
    from anonbayes.tables.table import ReleasedTable
    from anonbayes.uniqueness.membership import Membership

LABEL = "missing"


class PeopleInClear(Section):
    """Cleartext: the people of the table before anonymization."""

    dataset: str | None = key(NAMES, None)
    file: File | None = key(
        "File with a header line: delimited text, parquet, Excel, SPSS or Stata.", None
    )
    sep: str = key(SEPARATOR, "auto")
    encoding: str = key(ENCODING, "utf-8")
    decimal: Literal[".", ","] = key(DECIMAL, ".")
    partial: bool = key(
        "Accept a cleartext that covers only part of the people of the release, or more people.",
        False,
    )
    missing: Literal["as_released", "error", "unknown", "category", "drop"] = key(
        "What an empty cell of a column that is used means: as_released (the same as in the "
        "release), error (a mistake), unknown (any value; the person is not assessed), category (a "
        "value of its own) or drop (its row is left out).",
        "as_released",
    )

    group: str | None = key(
        "Column of the cleartext that names each person's group of the Anatomy, for an attacker "
        "who knows it.",
        None,
    )

    @property
    def text(self) -> TextFormat:
        """How the file is spelled."""
        return {"sep": self.sep, "encoding": self.encoding, "decimal": self.decimal}

    def check(self) -> Iterator[str]:
        """Yield what the keys contradict each other in."""
        if (self.dataset is None) == (self.file is None):
            yield "give either @dataset or @file."


@dataclass(frozen=True, eq=False)
class People:
    """A cleartext, as `Posterior.assess` takes it: a line per person, or distinct record.

    `weights` names the column of people per line, `group` that of the group in an Anatomy.
    """

    frame: pd.DataFrame
    weights: str | None = None
    group: str | None = None

    def everybody(self) -> pd.DataFrame:
        """Return a line per person, also where distinct records were counted."""
        if self.weights is None:
            return self.frame
        return self.frame.loc[self.frame.index.repeat(self.frame[self.weights])]

    def check_number(self, least: int = 100) -> None:
        """Refuse too few people outside a table for a limit on 1% of them."""
        if (n := len(self.everybody())) < least:
            raise AnonbayesError(
                f"others: {n} people are too few for limits.max_membership_tpr, which asks about "
                f"1% of them; {least} are needed."
            )

    def membership(self, table: ReleasedTable, others: People, **how: Any) -> Membership:
        """Call `anonbayes.membership` with a register of others."""
        from anonbayes.uniqueness.membership import membership

        return membership(table, self.everybody(), register=others.everybody(), **how)

    def values(self) -> dict[str, KnownValues]:
        """Return the values that each column is known to have."""
        from anonbayes.tables.evidence import KnownValues

        return {
            str(name): KnownValues(tuple(column.unique().tolist()))
            for name, column in self.frame.items()
            if name != self.weights
        }

    def check(self, table: ReleasedTable) -> Truth:
        """Find mistakes before the model is fitted; returns the people in the table's codes."""
        from anonbayes.risk.people import check_same_secrets, read_truth

        truth = read_truth(table, self.frame, weights=self.weights, group=self.group)
        check_same_secrets(table, truth)
        return truth

    def assess(self, post: Posterior, *, truth: Truth | None = None, **how: Any) -> RiskAssessment:
        """Call `Posterior.assess`; `truth` is what `check` returned."""
        from anonbayes.risk.assess import assess

        return assess(post, self.frame, weights=self.weights, group=self.group, truth=truth, **how)


def read_people(
    source: PeopleInClear,
    releases: Iterable[ReleasedTable | Release] | None = None,
    *,
    used: Iterable[str] = (),
    engine: str = "auto",
) -> People:
    """Read people in clear: all rows, or what the assessment of releases asks for.

    With `releases`, read or still in files, cells stay the texts that they are, and large files are
    counted by an `engine` of `read_arx`. Without any, all rows and columns are kept, to make
    releases of, and columns that spell numbers become numbers; empty cells matter in columns that
    are `used`, by default all.
    """
    return replace(_read(source, releases, used, engine), group=source.group)


def _read(
    source: PeopleInClear,
    releases: Iterable[ReleasedTable | Release] | None,
    used: Iterable[str],
    engine: str,
) -> People:
    if source.file is None:
        return People(_named(source))
    if releases is None:
        return People(_rows(source, source.file, used))
    from anonbayes.tables.build import open_source

    asked = list(releases)
    reading = open_source(source.file, engine=engine, **source.text)
    wanted = _wanted(asked, reading.names)
    if source.group is not None:
        if source.group not in reading.names:
            raise TableError(
                f"{str(source.file)!r} has no column {source.group!r} that could name the people's "
                f"groups. "
                f"{nearest(source.group, reading.names)}"
            )
        wanted = list(dict.fromkeys([*wanted, source.group]))
    missing = source.missing
    if missing == "as_released":
        policies = {one.missing for one in asked if isinstance(one, Release)}
        missing = policies.pop() if len(policies) == 1 else "error"
    return _for_releases(reading.only(wanted), missing)


def read_others(source: PeopleInClear, table: ReleasedTable) -> ReleasedTable:
    """Read a register in the table's codes; other columns than the table's do not matter."""
    from anonbayes.beliefs.register import read_register

    others = read_people(source, [table])
    wanted = [*table.attributes, table.sensitive, others.weights]
    kept = [c for c in others.frame.columns if c in wanted]
    return read_register(table, others.frame[kept], weights=others.weights)


def _named(source: PeopleInClear) -> pd.DataFrame:
    import pandas as pd

    from anonbayes import datasets

    assert source.dataset is not None
    # Nothing is downloaded behind the user's back: the error says how to do it.
    settings = {"download": False} if source.dataset == "adult" else {}
    table = datasets.load(source.dataset, **settings)
    if not isinstance(table, pd.DataFrame):
        raise AnonbayesError(
            f"cleartext.dataset = {source.dataset!r} is a released table, not one in clear."
        )
    return table


def _rows(source: PeopleInClear, file: Path, used: Iterable[str]) -> pd.DataFrame:
    """Read all rows, which keep the number that they have in the file."""
    import numpy as np

    from anonbayes.io.text import ROW, read_csv_text
    from anonbayes.tables.sources import Counted

    frame = read_csv_text(file, **source.text)
    missing = "error" if source.missing == "as_released" else source.missing
    names = [name for name in used if name in frame] or frame.columns.tolist()
    first = np.arange(len(frame), dtype=np.int64)
    kept = _settled(Counted(frame[names], np.ones_like(first), first), repr(str(file)), missing)
    whole = frame.iloc[kept.first].assign(**{name: kept.frame[name] for name in names})
    if len(whole) < len(frame):
        whole = whole.rename_axis(ROW)
    return with_numbers(whole, missing)


def _for_releases(reading: Reading, missing: str) -> People:
    """Read the columns that releases ask for: row by row, or counted where there are many."""
    import numpy as np

    from anonbayes.io.text import as_text
    from anonbayes.tables.sources import Counted, all_rows

    where = str(reading.source)
    if reading.engine == "pandas":
        frame, first = all_rows(reading.source)
        counted = Counted(frame, np.ones_like(first), first)
    else:
        counted = reading.count()
    if reading.source.kind == "parquet":
        counted = replace(counted, frame=as_text(counted.frame))
    counted = _settled(counted, where, missing)
    if reading.engine == "pandas":
        return People(_labelled(reading, counted))
    return _weighted(reading, counted)


def _wanted(releases: Iterable[ReleasedTable | Release], names: Iterable[str]) -> list[str]:
    from anonbayes.risk.people import check_all_known, truth_columns

    known, wanted = list(names), []
    for one in releases:
        if isinstance(one, Release):
            columns = list(one.column_names)
            check_all_known(columns, known)
        else:
            columns = truth_columns(one, known)
        wanted += columns
    return list(dict.fromkeys(wanted))


def _weighted(reading: Reading, found: Counted) -> People:
    from anonbayes.risk.assessment import weight_name

    name = weight_name(found.frame.columns)
    return People(_labelled(reading, found).assign(**{name: found.rows}), name)


def _labelled(reading: Reading, found: Counted) -> pd.DataFrame:
    """Label lines by the number of their first row; with several files, in words."""
    import pandas as pd

    from anonbayes.io.text import ROW

    if len(reading.source.paths) > 1:
        return found.labelled(reading.place)
    return found.frame.set_axis(pd.Index(found.first, name=ROW), axis=0)


def _settled(counted: Counted, where: str, missing: str) -> Counted:
    """Give empty cells of texts their meaning; a line stands for one row of the file or several."""
    from anonbayes.tables.build import without_gaps

    if missing == "category":
        return replace(counted, frame=counted.frame.replace("", LABEL))
    if missing in ("drop", "unknown"):
        return without_gaps(counted, where)
    empty = counted.frame == ""
    bad = [str(name) for name in empty if empty[name].any()]
    if bad:
        row = int(counted.first[int(empty[bad[0]].to_numpy().argmax())])
        counts = ", ".join(f"{name} {int(counted.rows[empty[name]].sum()):,}" for name in bad)
        raise TableError(
            f"{where}: cells are empty, the first in column {bad[0]!r}, row {row} (the first is "
            f"0); empty cells by column: {counts}. Say what they mean with cleartext.missing: "
            "'category' (a value of its own), 'drop' (their rows are left out) or, where no "
            "release is made, 'unknown' (any value; these people are not assessed)."
        )
    return counted


def with_numbers(frame: pd.DataFrame, missing: str = "error") -> pd.DataFrame:
    """Return a frame of texts in which columns that spell numbers are numbers.

    Codes such as 007 stay texts, and so does the label of cells that are `missing` by category.
    """
    from anonbayes.domains import numbers_of

    out, beside = frame.copy(), LABEL if missing == "category" else None
    for name in frame.columns:
        texts = [text for text in frame[name].unique().tolist() if text != beside]
        numbers = numbers_of(texts)
        if numbers is not None:
            meaning: dict[str, object] = dict(zip(texts, numbers, strict=True))
            if beside is not None:
                meaning[beside] = beside
            out[name] = frame[name].map(meaning)
    return out
