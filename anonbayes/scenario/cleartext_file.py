"""The people of a release in clear: row by row, or counted where there are many.

Threats depend on distinct records alone, so that a large file is counted by the engines that count
large releases, and every measure is the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from anonbayes.risk.assessment import ROW, weight_name
from anonbayes.risk.people import check_same_secrets, read_truth, truth_columns
from anonbayes.scenario.file_columns import settle_missing, with_numbers
from anonbayes.scenario.table_files import read_cleartext
from anonbayes.tables.sources import Counted, Reading, count_frame, open_source

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior
    from anonbayes.risk.assessment import RiskAssessment
    from anonbayes.scenario.kinds import Cleartext
    from anonbayes.tables.table import ReleasedTable

__all__ = ["People", "count_cleartext", "read_people_of"]


@dataclass(frozen=True, eq=False)
class People:
    """A cleartext, as `Posterior.assess` takes it.

    Parameters
    ----------
    frame : pandas.DataFrame
        A line per person, or per distinct record; labels are numbers of rows in the file.
    weights : str, optional
        Column that says how many people a line stands for.
    """

    frame: pd.DataFrame
    weights: str | None = None

    def check(self, table: ReleasedTable) -> None:
        """Find mistakes before the model is fitted."""
        check_same_secrets(table, read_truth(table, self.frame, weights=self.weights))

    def assess(self, post: Posterior, **how: Any) -> RiskAssessment:
        """Call `Posterior.assess`."""
        return post.assess(self.frame, weights=self.weights, **how)


def read_people_of(
    tables: Iterable[ReleasedTable], file: Path, *, sep: str = ";", engine: str = "auto"
) -> People:
    r"""Read what the assessment of releases asks of their cleartext, and no other column.

    Parameters
    ----------
    tables : iterable of ReleasedTable
        Releases of the same people.
    file : path
        Delimited UTF-8 file with a header line, or parquet; every cell of a text is a text.
    sep : str
        Separator of a delimited file.
    engine : {"auto", "pandas", "duckdb", "dask"}
        As in `read_arx`: large files are counted.

    Examples
    --------
    >>> import tempfile
    >>> import anonbayes as ab
    >>> file = Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = file.write_text("sex;ill;name\nf;flu;Ann\nf;flu;Eve\nm;cold;Bob\n")
    >>> released = ab.ReleasedTable.horizontal(
    ...     pd.DataFrame({"sex": ["*", "*", "*"], "ill": ["flu", "flu", "cold"]}), "ill",
    ...     domains={"sex": ["f", "m"]},
    ... )
    >>> read_people_of([released], file, engine="duckdb").frame.to_dict("list")
    {'sex': ['f', 'm'], 'ill': ['flu', 'cold'], 'weight': [2, 1]}
    """
    reading = open_source(file, engine=engine, sep=sep)
    reading = reading.only(_wanted(tables, reading.names))
    if reading.engine == "pandas":
        frame, first = reading.rows()
        return People(_labelled(reading, Counted(frame, np.ones_like(first), first)))
    return _weighted(reading, reading.count())


def count_cleartext(
    source: Cleartext, tables: Iterable[ReleasedTable], *, engine: str = "auto"
) -> People:
    """Read the cleartext of a scenario: all of it, or counted if it is a large file.

    Empty cells mean the same in both ways, also where nobody asks for their column; columns that
    spell numbers become numbers.
    """
    if source.file is None:
        return People(read_cleartext(source))
    reading = open_source(source.file, engine=engine, sep=source.sep, kind="csv")
    if reading.engine == "pandas":
        return People(read_cleartext(source))
    wanted = _wanted(tables, reading.names)
    others = [name for name in reading.names if name not in wanted]
    found = reading.only(reading.names, presence=others).count()
    people = pd.Series(found.rows, index=found.first)
    frame = settle_missing(
        found.frame.set_axis(found.first, axis=0), source.file, missing=source.missing,
        option="cleartext.missing", people=people,
    )[wanted]  # fmt: skip
    first = frame.index.to_numpy()
    kept = count_frame(frame, first, people.loc[first].to_numpy())
    return _weighted(reading, replace(kept, frame=with_numbers(kept.frame, source.missing)))


def _wanted(tables: Iterable[ReleasedTable], names: Iterable[str]) -> list[str]:
    known = list(names)
    return list(dict.fromkeys(name for table in tables for name in truth_columns(table, known)))


def _weighted(reading: Reading, found: Counted) -> People:
    name = weight_name(found.frame.columns)
    return People(_labelled(reading, found).assign(**{name: found.rows}), name)


def _labelled(reading: Reading, found: Counted) -> pd.DataFrame:
    """Label lines by the number of their first row; with several files, in words."""
    if len(reading.source.paths) > 1:
        return found.labelled(reading.place)
    return found.frame.set_axis(pd.Index(found.first, name=ROW), axis=0)
