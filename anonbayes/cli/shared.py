"""What several commands do alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anonbayes
from anonbayes.cli.options import parse_domains
from anonbayes.errors import AnonbayesError, TableError, nearest
from anonbayes.io.files import Writer, write_frame

if TYPE_CHECKING:
    import pandas as pd

    from anonbayes.tables.table import ReleasedTable

__all__ = [
    "EXCEEDED",
    "check_free",
    "frame_writer",
    "full_column",
    "known_column",
    "plot_writer",
    "read_column",
    "read_release",
]


# -------------------------------------------------------------------------------------------------
# What several commands do alike: reading a release, limits that decide the exit code.

EXCEEDED = 3
"""Exit code when a limit is exceeded."""


def read_release(
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
) -> ReleasedTable:
    """Read a recoded table, or the two tables of an Anatomy."""
    domains = parse_domains(domain)
    if anatomy is None:
        if group is not None:
            raise AnonbayesError("--group belongs to --anatomy; give the sensitive table as well.")
        return anonbayes.read_arx(
            file,
            sensitive=sensitive,
            hierarchies=hierarchies,
            domains=domains,
            sep=sep,
            drop=drop or (),
            missing=missing,
        )
    if group is None:
        raise AnonbayesError("--anatomy needs --group, the column that both tables share.")
    if len(sensitive) > 1:
        raise AnonbayesError("An Anatomy has one sensitive column; give --sensitive once.")
    if hierarchies is not None or drop:
        raise AnonbayesError("--hierarchies and --drop do not apply to an Anatomy.")
    return anonbayes.read_anatomy(
        file,
        anatomy,
        sensitive=sensitive[0],
        group=group,
        domains=domains,
        sep=sep,
        missing=missing,
    )


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
    if len(sep) != 1:
        raise TableError(f"--sep {sep!r} must be a single character, for example ';' or ','.")
    return lambda file: write_frame(file, frame, sep=sep, index=index, header=header)


def plot_writer(plot: Callable[[], Any]) -> Writer:
    """Return what draws axes and writes them as PNG."""

    def write(file: Path) -> None:
        from anonbayes.figures import apart
        from anonbayes.scenario.outputs import save_plot

        with apart():
            save_plot(file, plot())

    return write


def read_column(file: Path, column: str, *, sep: str, option: str = "--column") -> pd.Series:
    """Read one column as texts; empty cells are an error that names the first."""
    from anonbayes.io.text import read_csv_text

    return full_column(read_csv_text(file, sep=sep), column, file, option)


def full_column(frame: pd.DataFrame, column: str, file: Path, option: str) -> pd.Series:
    """Return a column of a file that has no empty cell."""
    from anonbayes.scenario.file_columns import filled

    return filled(known_column(frame, column, file, option))


def known_column(frame: pd.DataFrame, column: str, file: Path, option: str) -> pd.Series:
    """Return a column of a file; raise `TableError` with the nearest name if there is none."""
    if column not in frame.columns:
        raise TableError(
            f"{option} {column!r} is no column of {file.name!r}. {nearest(column, frame.columns)}"
        )
    return frame[column]
