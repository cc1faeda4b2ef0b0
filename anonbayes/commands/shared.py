"""What commands share: reading a release, and tables for people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import anonbayes
from anonbayes.errors import AnonbayesError

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console
    from rich.table import Table

    from anonbayes.release.table import ReleasedTable

__all__ = ["console", "frame_table", "read_release"]


def read_release(
    file: Path,
    *,
    sensitive: list[str],
    hierarchies: Path | None,
    anatomy: Path | None,
    group: str | None,
    drop: list[str] | None,
    sep: str,
    missing: str,
) -> ReleasedTable:
    """Read a recoded table, or the two tables of an Anatomy."""
    if anatomy is None:
        if group is not None:
            raise AnonbayesError("--group belongs to --anatomy; give the sensitive table as well.")
        return anonbayes.read_arx(
            file,
            sensitive=sensitive,
            hierarchies=hierarchies,
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
        file, anatomy, sensitive=sensitive[0], group=group, sep=sep, missing=missing
    )


def console() -> Console:
    """Return where people read; in a pipe, which has no width, lines stay whole."""
    from rich.console import Console

    found = Console(highlight=False)
    return found if found.is_terminal else Console(highlight=False, width=200)


def frame_table(frame: pd.DataFrame, *, title: str) -> Table:
    """Return a data frame as a table for the console."""
    from rich.markup import escape
    from rich.table import Table

    out = Table(title=escape(title))
    out.add_column("")
    for name in frame.columns:
        justify: Any = "left" if frame[name].dtype == object else "right"
        out.add_column(escape(str(name)), justify=justify)
    for label, *cells in frame.itertuples():
        out.add_row(escape(str(label)), *(escape(str(cell)) for cell in cells))
    return out
