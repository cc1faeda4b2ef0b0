"""Arguments and options that several commands take, spelled and explained alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = [
    "Anatomy",
    "AsJson",
    "Drop",
    "File",
    "Group",
    "Hierarchies",
    "Missing",
    "Sensitive",
    "Sep",
]

File = Annotated[
    Path, typer.Argument(help="Released table (with --anatomy: its quasi-identifiers).")
]
Sensitive = Annotated[
    list[str], typer.Option(help="Sensitive column; repeat to join several into one.")
]
Hierarchies = Annotated[Path | None, typer.Option(help="Directory of ARX hierarchy files.")]
Sep = Annotated[str, typer.Option(help="Separator of all files.")]
Anatomy = Annotated[
    Path | None, typer.Option(help="Sensitive table, if the release is an Anatomy.")
]
Group = Annotated[str | None, typer.Option(help="Group column of an Anatomy.")]
Drop = Annotated[list[str] | None, typer.Option(help="Column to leave out; may be repeated.")]
Missing = Annotated[str, typer.Option(help="What an empty cell means: error, unknown or category.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
