"""The people of a release in clear, row by row, or as counts if there are many.

Threats depend only on distinct records, so large files are counted by the same engines as large
releases, and every measure is the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anonbayes.errors import AnonbayesError, TableError, at_once, nearest
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
        "Accept a cleartext with only some of the people in the release, or with more people.",
        False,
    )
    missing: Literal["as_released", "error", "unknown", "category", "drop"] = key(
        "How to treat empty cells in the columns used: as_released (as in the release), error "
        "(refuse them), unknown (any value; the person is not assessed), category (a value of its "
        "own) or drop (leave out the row).",
        "as_released",
    )

    group: str | None = key(
        "Column of the cleartext with each person's group in the Anatomy, for attackers who know "
        "it.",
        None,
    )

    @property
    def text(self) -> TextFormat:
        """Format of delimited text in the file."""
        return {"sep": self.sep, "encoding": self.encoding, "decimal": self.decimal}

    def check(self) -> Iterator[str]:
        """Yield contradictions between keys."""
        if (self.dataset is None) == (self.file is None):
            yield "give either @dataset or @file."


@dataclass(frozen=True, eq=False)
class People:
    """A cleartext for `Posterior.assess`: a line per person, or per distinct record.

    `weights` names the column of people per line, `group` that of the group in an Anatomy.
    """

    frame: pd.DataFrame
    weights: str | None = None
    group: str | None = None

    def everybody(self) -> pd.DataFrame:
        """Return a line per person, even if distinct records were counted."""
        if self.weights is None:
            return self.frame
        return self.frame.loc[self.frame.index.repeat(self.frame[self.weights])]

    def check_number(self, least: int = 100) -> None:
        """Raise an error if there are too few people outside a table for a limit on 1% of them."""
        if (n := len(self.everybody())) < least:
            raise AnonbayesError(
                f"others: {n} people are too few for limits.max_membership_tpr, which is about 1% "
                f"of them; at least {least} are needed."
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
        """Check the people before the model is fitted; return them in the table's codes."""
        from anonbayes.risk.people import check_same_secrets, read_truth

        truth = read_truth(table, self.frame, weights=self.weights, group=self.group)
        check_same_secrets(table, truth)
        return truth

    def assess(self, post: Posterior, *, truth: Truth | None = None, **how: Any) -> RiskAssessment:
        """Call `Posterior.assess`; `truth` is the result of `check`."""
        from anonbayes.risk.assess import assess

        return assess(post, self.frame, weights=self.weights, group=self.group, truth=truth, **how)


def read_people(
    source: PeopleInClear,
    releases: Iterable[ReleasedTable | Release] | None = None,
    *,
    used: Iterable[str] = (),
    sensitive: Iterable[str] = (),
    engine: str = "auto",
) -> People:
    """Read people in clear: all rows, or only what is needed to assess releases.

    With `releases` (read or still in files), cells are kept as texts, and large files are counted
    by an `engine` of `read_arx`. Otherwise all rows and columns are kept, to make releases of them,
    and columns that spell numbers become numbers; empty cells matter only in the columns `used`, by
    default all. Columns that should be `sensitive` are named first if they do not exist.
    """
    return replace(_read(source, releases, used, sensitive, engine), group=source.group)


def _read(
    source: PeopleInClear,
    releases: Iterable[ReleasedTable | Release] | None,
    used: Iterable[str],
    sensitive: Iterable[str],
    engine: str,
) -> People:
    if source.file is None:
        return People(_named(source))
    if releases is None:
        return People(_rows(source, source.file, used, sensitive))
    from anonbayes.tables.build import open_source

    asked = list(releases)
    reading = open_source(source.file, engine=engine, **source.text)
    wanted = _wanted(asked, reading.names)
    if source.group is not None:
        if source.group not in reading.names:
            raise TableError(
                f"{str(source.file)!r} has no column {source.group!r}, which should contain the "
                f"people's groups. "
                f"{nearest(source.group, reading.names)}"
            )
        wanted = list(dict.fromkeys([*wanted, source.group]))
    missing = source.missing
    if missing == "as_released":
        policies = {one.missing for one in asked if isinstance(one, Release)}
        missing = policies.pop() if len(policies) == 1 else "error"
    return _for_releases(reading.only(wanted), missing)


def read_others(source: PeopleInClear, table: ReleasedTable) -> ReleasedTable:
    """Read a register in the table's codes, ignoring columns that the table lacks."""
    from anonbayes.beliefs.register import read_register

    others = read_people(source, [table])
    wanted = [*table.attributes, table.sensitive, others.weights]
    kept = [c for c in others.frame.columns if c in wanted]
    return read_register(table, others.frame[kept], weights=others.weights)


def _named(source: PeopleInClear) -> pd.DataFrame:
    import pandas as pd

    from anonbayes import datasets

    assert source.dataset is not None
    # Nothing is downloaded without asking: the error says how to do it.
    settings = {"download": False} if source.dataset == "adult" else {}
    table = datasets.load(source.dataset, **settings)
    if not isinstance(table, pd.DataFrame):
        raise AnonbayesError(
            f"cleartext.dataset = {source.dataset!r} is a released table, not a cleartext."
        )
    return table


def _rows(
    source: PeopleInClear, file: Path, used: Iterable[str], sensitive: Iterable[str]
) -> pd.DataFrame:
    """Read all rows, with their row numbers in the file."""
    import numpy as np

    from anonbayes.io.text import ROW, read_csv_text
    from anonbayes.tables.build import check_column
    from anonbayes.tables.sources import Counted

    frame = read_csv_text(file, **source.text)
    at_once(dict.fromkeys(sensitive), partial(check_column, frame, role="sensitive"))
    missing = "error" if source.missing == "as_released" else source.missing
    names = [name for name in used if name in frame] or frame.columns.tolist()
    first = np.arange(len(frame), dtype=np.int64)
    kept = _settled(Counted(frame[names], np.ones_like(first), first), repr(str(file)), missing)
    whole = frame.iloc[kept.first].assign(**{name: kept.frame[name] for name in names})
    if len(whole) < len(frame):
        whole = whole.rename_axis(ROW)
    return with_numbers(whole, missing)


def _for_releases(reading: Reading, missing: str) -> People:
    """Read the columns that releases need, row by row, or as counts if there are many."""
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
    """Label lines by the number of their first row, or with several files by file and row."""
    import pandas as pd

    from anonbayes.io.text import ROW

    if len(reading.source.paths) > 1:
        return found.labelled(reading.place)
    return found.frame.set_axis(pd.Index(found.first, name=ROW), axis=0)


def _settled(counted: Counted, where: str, missing: str) -> Counted:
    """Treat empty cells in texts as asked; a line stands for one or more rows of the file."""
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
            f"{where}: some cells are empty, the first in column {bad[0]!r}, row {row} (rows are "
            f"counted from 0); empty cells by column: {counts}. Specify what they mean with "
            "cleartext.missing: 'category' (a value of its own), 'drop' (leave out the rows) or, "
            "unless a release is made, 'unknown' (any value; these people are not assessed)."
        )
    return counted


def with_numbers(frame: pd.DataFrame, missing: str = "error") -> pd.DataFrame:
    """Convert columns of texts that spell numbers to numbers.

    Codes such as 007 stay texts, and so does the label of `missing` cells if they are a category.
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
