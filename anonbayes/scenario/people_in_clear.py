"""The people of a release in clear: row by row, or counted where there are many.

Threats depend on distinct records alone, so that a large file is counted by the engines that count
large releases, and every measure is the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from anonbayes.errors import AnonbayesError, TableError
from anonbayes.scenario.keys import File, Section, key
from anonbayes.scenario.release import NAMES

if TYPE_CHECKING:
    import pandas as pd

    from anonbayes.inference.posterior import Posterior
    from anonbayes.risk.assessment import RiskAssessment
    from anonbayes.risk.people import Truth
    from anonbayes.tables.reading import Reading
    from anonbayes.tables.sources import Counted
    from anonbayes.tables.table import ReleasedTable

__all__ = ["People", "PeopleInClear", "read_people", "with_numbers"]
LABEL = "missing"


class PeopleInClear(Section):
    """The people of the table, in clear."""

    dataset: str | None = key(NAMES, None)
    file: File | None = key("Delimited UTF-8 file with a header line.", None)
    sep: str = key("Separator of the file.", ";")
    missing: Literal["error", "category", "drop", "as_released"] = key(
        "What an empty cell means: a mistake, a value of its own, that its row is left out, or "
        "what it means in the release, of whose columns alone the cells then matter.", "error",
    )  # fmt: skip

    def check(self) -> Iterator[str]:
        """Yield what the keys contradict each other in."""
        if (self.dataset is None) == (self.file is None):
            yield "give either @dataset or @file."


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

    def check(self, table: ReleasedTable) -> Truth:
        """Find mistakes before the model is fitted; returns the people in the table's codes."""
        from anonbayes.risk.people import check_same_secrets, read_truth

        truth = read_truth(table, self.frame, weights=self.weights)
        check_same_secrets(table, truth)
        return truth

    def assess(self, post: Posterior, *, truth: Truth | None = None, **how: Any) -> RiskAssessment:
        """Call `Posterior.assess`; `truth` is what `check` returned."""
        from anonbayes.risk.assess import assess

        return assess(post, self.frame, weights=self.weights, truth=truth, **how)


def read_people(
    source: PeopleInClear, tables: Iterable[ReleasedTable] | None = None, *, engine: str = "auto"
) -> People:
    r"""Read people in clear: all rows, or what the assessment of releases asks for.

    Parameters
    ----------
    source : PeopleInClear
        Where they are, and what empty cells mean. With ``missing="as_released"`` every cell stays
        the text that it is, in any file that `read_arx` reads; otherwise columns that spell
        numbers become numbers, and empty cells matter also where nobody asks for their column.
    tables : iterable of ReleasedTable, optional
        Releases of these people. Without any, all rows and columns are kept, to make releases of.
    engine : {"auto", "pandas", "duckdb", "dask"}
        As in `read_arx`: large files are counted.

    Examples
    --------
    >>> import tempfile
    >>> import anonbayes as ab
    >>> import pandas as pd
    >>> file = Path(tempfile.mkdtemp()) / "people.csv"
    >>> _ = file.write_text("sex;ill;name\nf;flu;Ann\nf;flu;Eve\nm;cold;Bob\n")
    >>> released = ab.ReleasedTable.horizontal(
    ...     pd.DataFrame({"sex": ["*", "*", "*"], "ill": ["flu", "flu", "cold"]}), "ill",
    ...     domains={"sex": ["f", "m"]},
    ... )
    >>> people = PeopleInClear(file=file, missing="as_released")
    >>> read_people(people, [released], engine="duckdb").frame.to_dict("list")
    {'sex': ['f', 'm'], 'ill': ['flu', 'cold'], 'weight': [2, 1]}
    """
    if source.file is None:
        return People(_named(source))
    if tables is None:
        return People(_rows(source, source.file))
    from anonbayes.tables.reading import open_source

    as_released = source.missing == "as_released"
    reading = open_source(
        source.file, engine=engine, sep=source.sep, kind=None if as_released else "csv"
    )
    wanted = _wanted(tables, reading.names)
    if as_released:
        return _as_released(reading.only(wanted))
    if reading.engine == "pandas":
        return People(_rows(source, source.file))
    return _counted(source, source.file, reading, wanted)


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


def _rows(source: PeopleInClear, file: Path) -> pd.DataFrame:
    """Read all rows, which keep the number that they have in the file."""
    from anonbayes.io.text import read_csv_text

    frame = read_csv_text(file, sep=source.sep)
    return with_numbers(_settled(frame, file, source.missing), source.missing)


def _as_released(reading: Reading) -> People:
    import numpy as np

    from anonbayes.tables.sources import Counted, all_rows

    if reading.engine == "pandas":
        frame, first = all_rows(reading.source)
        return People(_labelled(reading, Counted(frame, np.ones_like(first), first)))
    return _weighted(reading, reading.count())


def _counted(source: PeopleInClear, file: Path, reading: Reading, wanted: list[str]) -> People:
    import pandas as pd

    from anonbayes.tables.sources import count_frame

    others = [name for name in reading.names if name not in wanted]
    found = reading.only(reading.names, presence=others).count()
    people = pd.Series(found.rows, index=found.first)
    frame = _settled(
        found.frame.set_axis(found.first, axis=0), file, source.missing, people=people
    )[wanted]
    first = frame.index.to_numpy()
    kept = count_frame(frame, first, people.loc[first].to_numpy())
    return _weighted(reading, replace(kept, frame=with_numbers(kept.frame, source.missing)))


def _wanted(tables: Iterable[ReleasedTable], names: Iterable[str]) -> list[str]:
    from anonbayes.risk.people import truth_columns

    known = list(names)
    return list(dict.fromkeys(name for table in tables for name in truth_columns(table, known)))


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


def _settled(
    frame: pd.DataFrame, file: Path, missing: str, *, people: pd.Series | None = None
) -> pd.DataFrame:
    """Give empty cells of a frame of texts their meaning.

    A line of the frame is labelled by the number of its row, and stands for one row of the file or
    for so many `people`.
    """
    from anonbayes.io.text import ROW, filled

    if missing == "category":
        return frame.replace("", LABEL)
    if missing == "drop":
        whole = (frame != "").all(axis=1)
        if whole.all():
            return frame
        if not whole.any():
            raise TableError(f"{str(file)!r}: every row has an empty cell, so none is left.")
        return frame[whole].rename_axis(ROW)
    if missing == "error":
        advice = "Or say what they mean: cleartext.missing = 'category' or 'drop'."
        for name in frame.columns:
            filled(frame[name], advice=advice, people=people)
    return frame


def with_numbers(frame: pd.DataFrame, missing: str = "error") -> pd.DataFrame:
    """Return a frame of texts in which columns that spell numbers are numbers.

    Codes such as 007 stay texts, and so does the label of cells that are `missing` by category.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = with_numbers(pd.DataFrame({"age": ["30", "41"], "zip": ["04104", "1"]}))
    >>> int(frame["age"].sum()), frame["zip"].tolist()
    (71, ['04104', '1'])
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
