"""What several commands do alike: reading a release, limits that decide the exit code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import anonbayes
from anonbayes.commands.values import parse_domains
from anonbayes.errors import AnonbayesError

if TYPE_CHECKING:
    from anonbayes.release.table import ReleasedTable

__all__ = ["EXCEEDED", "read_release"]

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
