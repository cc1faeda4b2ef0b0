"""`anonbayes describe`: the anatomy of a released table."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import typer

from anonbayes.cli.options import (
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
from anonbayes.cli.screen import show_figures, show_table
from anonbayes.cli.shared import read_release

if TYPE_CHECKING:
    from anonbayes.tables.table import ReleasedTable

__all__ = ["describe", "show_release"]


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
        show_release(table, title=file.name, more={})


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


def show_release(table: ReleasedTable, *, title: str, more: dict[str, object]) -> None:
    """Print the figures of a released table, and what each of its columns shows."""
    from anonbayes.tables.lines import overview

    figures = {str(name): value for name, value in overview(table).items()}
    show_figures({**figures, "sensitive column": table.sensitive, **more}, title=title)
    columns = table.describe().drop(columns=["role", "evidence"])
    show_table(
        columns.rename(
            columns={"distinct cells": "cells", "average values per cell": "values per cell"}
        ).rename_axis("column"),
        title="Columns",
    )
