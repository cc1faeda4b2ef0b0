"""Arguments and options that several commands take, spelled and explained alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from anonbayes.commands.completion import complete_engine, complete_mechanism, complete_missing

__all__ = [
    "Anatomy",
    "AsJson",
    "BudgetsFile",
    "Chains",
    "Cleartext",
    "Domains",
    "Draws",
    "Drop",
    "Engine",
    "Epsilon",
    "File",
    "Force",
    "Group",
    "Harm",
    "Hierarchies",
    "MaxCost",
    "MaxRelativeThreat",
    "MaxThreatened",
    "Mechanism",
    "Missing",
    "Protected",
    "Rule",
    "Seed",
    "Sensitive",
    "Sep",
    "Values",
]

# -- tables ----------------------------------------------------------------------------------------

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
Domains = Annotated[
    list[str] | None,
    typer.Option(
        "--domain",
        metavar="COLUMN=VALUES",
        help="Possible values of a column: age=18-99, sex=f,m or place=@file; may be repeated.",
    ),
]
Missing = Annotated[
    str,
    typer.Option(
        help="What an empty cell means: error, unknown or category.",
        autocompletion=complete_missing,
    ),
]

# -- model and threats -----------------------------------------------------------------------------

Cleartext = Annotated[Path, typer.Option(help="The people of the table, in clear.")]
Harm = Annotated[
    list[str] | None, typer.Option(help="Harmful sensitive value; repeat for several.")
]
Engine = Annotated[
    str,
    typer.Option(help="Engine: auto, exact, gibbs or nuts.", autocompletion=complete_engine),
]
Draws = Annotated[int, typer.Option(help="Draws per chain.")]
Chains = Annotated[int, typer.Option(help="Number of chains.")]
Seed = Annotated[int | None, typer.Option(help="Makes the run reproducible.")]
MaxRelativeThreat = Annotated[
    float | None, typer.Option(help="Exit with 3 if anybody's relative threat is larger.")
]
MaxThreatened = Annotated[
    float | None, typer.Option(help="Exit with 3 if a larger share (0 to 1) is threatened.")
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        help="Exit with 3 if being in the table costs more: the share (0 to 1) guessed right "
        "beyond what the population gives away."
    ),
]

# -- mechanisms ------------------------------------------------------------------------------------

Mechanism = Annotated[
    str,
    typer.Option(
        "--mechanism",
        "-m",
        help="What runs on people's devices, such as randomized_response.",
        autocompletion=complete_mechanism,
    ),
]
Epsilon = Annotated[float | None, typer.Option(help="Privacy budget.")]
Values = Annotated[
    str | None,
    typer.Option(help="The possible values: a,b,c or 0-99 or @file with one to a line."),
]
Protected = Annotated[
    list[str] | None,
    typer.Option(
        "--sensitive", help="Value to protect (utility-optimized mechanisms); may be repeated."
    ),
]
BudgetsFile = Annotated[
    Path | None,
    typer.Option("--budgets", help="File of `anonbayes budgets` (input_discriminative_ue)."),
]
Rule = Annotated[
    str | None, typer.Option("--rule", help="Column of that file, such as worst_case.")
]

# -- output ----------------------------------------------------------------------------------------

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Force = Annotated[bool, typer.Option("--force", help="Replace files of an earlier run.")]
