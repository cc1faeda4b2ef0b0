"""Options, their values and their completion."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from anonbayes.channels import registry

__all__ = [
    "BOUNDS",
    "DATASETS",
    "MECHANISMS",
    "METHODS",
    "RULES",
    "SCHEMES",
    "Alpha",
    "Anatomy",
    "AsJson",
    "Beta",
    "BudgetsFile",
    "Chains",
    "Cleartext",
    "Domains",
    "Draws",
    "Drop",
    "Engine",
    "Epsilon",
    "EvidenceKind",
    "File",
    "Force",
    "Group",
    "Harm",
    "Hierarchies",
    "MaxCost",
    "MaxDoubled",
    "MaxLogLossGain",
    "MaxRelativeThreat",
    "MaxThreatened",
    "Mechanism",
    "Missing",
    "Protected",
    "RequireConvergence",
    "Rule",
    "Seed",
    "Sensitive",
    "Sep",
    "Subset",
    "Symbols",
    "Values",
    "complete_bound",
    "complete_coverage",
    "complete_dataset",
    "complete_engine",
    "complete_evidence",
    "complete_mechanism",
    "complete_method",
    "complete_missing",
    "complete_rule",
    "complete_scheme",
    "complete_threat",
    "parse_number",
]


def parse_number(text: str) -> float | None:
    """Return the number that a text spells, in whatever way, or None; NaN is no number.

    Examples
    --------
    >>> parse_number("1e3"), parse_number("inf"), parse_number("many")
    (1000.0, inf, None)
    """
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isnan(number) else number


# -------------------------------------------------------------------------------------------------
# Values that a shell completes; nothing large is imported for it.

MECHANISMS = {name: mechanism.title for name, mechanism in registry.MECHANISMS.items()}
METHODS = {
    "empirical": "unbiased; shares may be negative",
    "threshold": "significant shares only",
    "shrinkage": "posterior means under a prior learnt from all counts",
    "mle": "maximum likelihood",
    "em": "plain expectation maximization",
    "bayes": "posterior mean and credible limits",
}
RULES = {
    "worst_case": "nothing is known (W)",
    "prior": "known lower bounds (P)",
    "confidence": "lower limits from reports (C)",
    "posterior": "a posterior quantile (ours)",
    "counts": "the counts themselves: the most that is allowed",
}
SCHEMES = {
    "mondrian": "boxes of k rows",
    "recode": "levels of hierarchies, global or --local",
    "anatomy": "two tables, linked by groups",
}
BOUNDS = {
    "theorem": "from the channel's contraction",
    "exact": "the supremum itself",
    "general": "from the budget alone",
}

# Not read from `anonbayes.datasets`, which would load pandas at every keystroke.
DATASETS = {
    "table1": "cleartext",
    "table1_recoded": "horizontal",
    "table1_anatomy": "vertical",
    "island": "horizontal",
    "clinic": "cleartext",
    "clinic_global": "horizontal",
    "clinic_local": "horizontal",
    "clinic_anatomy": "vertical",
    "adult": "cleartext",
}

Pairs = list[tuple[str, str]]


def _of(known: dict[str, str]) -> Callable[[str], Pairs]:
    def complete(incomplete: str) -> Pairs:
        return [pair for pair in known.items() if pair[0].startswith(incomplete)]

    return complete


def _plain(known: Sequence[str]) -> Callable[[str], list[str]]:
    def complete(incomplete: str) -> list[str]:
        return [name for name in known if name.startswith(incomplete)]

    return complete


complete_mechanism = _of(MECHANISMS)
complete_method = _of(METHODS)
complete_rule = _of(RULES)
complete_scheme = _of(SCHEMES)
complete_bound = _of({"best": "exact where known", **BOUNDS})
complete_dataset = _of(DATASETS)
complete_coverage = _plain(("simultaneous", "pointwise"))
complete_evidence = _plain(("auto", "independent", "weighted"))
complete_engine = _plain(("auto", "exact", "gibbs", "nuts"))
complete_missing = _plain(("error", "unknown", "category"))
complete_threat = _plain(
    ("RGT_A", "max_Ti", "Ti_q99", "Ti_q95", "doubled", "GT_A", "log_loss_gain")
)


# -------------------------------------------------------------------------------------------------
# Arguments and options that several commands take, spelled and explained alike.

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
EvidenceKind = Annotated[
    str,
    typer.Option(
        "--evidence",
        help="How columns add up: independent (each in full), weighted (as the release teaches), "
        "or auto (whichever tells held-out rows better).",
        autocompletion=complete_evidence,
    ),
]
Alpha = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WEIGHT",
        help="Prior weight of all sensitive values, or VALUE=WEIGHT, repeated for several.",
    ),
]
Beta = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WEIGHT",
        help="Prior weight of all other values, pooled, or COLUMN=WEIGHT, repeated for several.",
    ),
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

MaxDoubled = Annotated[
    float | None,
    typer.Option(help="Exit with 3 if a larger share (0 to 1) has a relative threat of 2 or more."),
]
MaxLogLossGain = Annotated[
    float | None,
    typer.Option(help="Exit with 3 if being in the table teaches more about a secret, in nats."),
]
RequireConvergence = Annotated[
    bool,
    typer.Option("--require-convergence", help="Exit with 3 unless the chains can be trusted."),
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
Symbols = Annotated[
    int | None, typer.Option("--g", help="Number of symbols (local_hashing); the best by default.")
]
Subset = Annotated[
    int | None,
    typer.Option("--d", help="Values in a report (subset_selection); the best by default."),
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
