"""Tables that are read one column at a time, because all columns at once would not fit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd

from anonbayes.release.build import FrameLike
from anonbayes.release.counting import joined
from anonbayes.release.engines import Reading
from anonbayes.release.files import TableFiles, read_columns
from anonbayes.release.outofcore import as_parquet, open_duckdb

__all__ = ["ColumnFrame", "open_columns"]


class ColumnFrame(FrameLike):
    """What `ReleasedTable.vertical` needs of a data frame, with columns that are read when asked.

    Parameters
    ----------
    files : TableFiles
        Parquet files.
    """

    def __init__(self, files: TableFiles) -> None:
        files.fields()  # refuses files that do not go together
        self.files = files
        self.columns = pd.Index(files.names)
        self._replaced: dict[str, pd.Series] = {}

    def __len__(self) -> int:
        return sum(self.files.lengths)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and columns."""
        return len(self), len(self.columns)

    @property
    def empty(self) -> bool:
        """Whether there are no rows."""
        return not len(self)

    def __getitem__(self, name: str) -> pd.Series:
        if name in self._replaced:
            return self._replaced[name]
        filled = [p for p, n in zip(self.files.paths, self.files.lengths, strict=True) if n]
        return joined([read_columns(path, [name])[name] for path in filled])

    def __setitem__(self, name: str, column: pd.Series) -> None:
        self._replaced[name] = column

    def to_frame(self) -> pd.DataFrame:
        """Return all columns at once."""
        return pd.DataFrame({name: self[name] for name in self.columns})


@contextmanager
def open_columns(
    reading: Reading,
    memory_limit: str | None,
    temp_directory: str | Path | None,
    *,
    progressbar: bool = True,
) -> Iterator[Any]:
    """Open a source as a data frame, or as a `ColumnFrame` where the engine says so.

    Delimited files are turned into temporary parquet files, which go when the block ends.
    """
    if reading.engine == "pandas":
        yield reading.rows()[0]
    elif reading.engine == "duckdb":
        with open_duckdb(memory_limit, temp_directory) as (con, folder):
            yield ColumnFrame(as_parquet(reading.source, con, folder, progressbar=progressbar))
    else:
        with tempfile.TemporaryDirectory(prefix="anonbayes-", dir=temp_directory) as folder:
            yield ColumnFrame(as_parquet(reading.source, None, Path(folder)))
