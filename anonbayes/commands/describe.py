"""`anonbayes describe`: the anatomy of a released table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from anonbayes.commands.options import (
    Anatomy,
    AsJson,
    Domains,
    Drop,
    File,
    Group,
    Hierarchies,
    Missing,
    Sensitive,
    Sep,
)
from anonbayes.commands.screen import show_figures, show_table
from anonbayes.commands.shared import read_release

if TYPE_CHECKING:
    from anonbayes.release.table import ReleasedTable

__all__ = ["describe"]


def describe(
    file: File,
    sensitive: Sensitive,
    hierarchies: Hierarchies = None,
    sep: Sep = ";",
    anatomy: Anatomy = None,
    group: Group = None,
    drop: Drop = None,
    domain: Domains = None,
    missing: Missing = "error",
    as_json: AsJson = False,
) -> None:
    """Read a released table and print its anatomy: groups, k, l, and what each column hides."""
    table = read_release(
        file, sensitive=sensitive, hierarchies=hierarchies, anatomy=anatomy, group=group,
        drop=drop, domain=domain, sep=sep, missing=missing,
    )  # fmt: skip
    if as_json:
        typer.echo(json.dumps(_as_json(table), indent=2, ensure_ascii=False))
    else:
        _print(table, title=file.name)


def _as_json(table: ReleasedTable) -> dict[str, Any]:
    sizes = table.group_sizes
    return {
        "scheme": table.scheme,
        "sensitive": table.sensitive,
        "n_rows": table.n_rows,
        "n_suppressed": table.n_suppressed,
        "n_groups": table.n_groups,
        "k": table.k,
        "l": table.l,
        "is_nested": table.is_nested,
        "group_sizes": {str(size): n for size, n in sizes.value_counts().sort_index().items()},
        "attributes": json.loads(table.describe().to_json(orient="index")),
    }


def _print(table: ReleasedTable, *, title: str) -> None:
    from anonbayes.release.show import overview

    show_figures({str(name): value for name, value in overview(table).items()}, title=title)
    show_table(table.describe(), title="Columns")
