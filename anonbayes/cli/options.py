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
    "AllowPartial",
    "AllowUnconverged",
    "Alpha",
    "Also",
    "Anatomy",
    "AsJson",
    "AtLeast",
    "AtMost",
    "AttackerSpecs",
    "Beta",
    "Bins",
    "BudgetsFile",
    "Chains",
    "Cleartext",
    "Decimal",
    "Domains",
    "Draws",
    "Drop",
    "Encoding",
    "Engine",
    "Epsilon",
    "EvidenceKind",
    "File",
    "Force",
    "Group",
    "Harm",
    "Hierarchies",
    "How",
    "Infinite",
    "Length",
    "MatrixFile",
    "MaxBelief",
    "MaxCost",
    "MaxDoubled",
    "MaxLogLossGain",
    "MaxMatchProbability",
    "MaxMembershipTpr",
    "MaxPopulationUniques",
    "MaxRelativeThreat",
    "MaxThreatened",
    "Mechanism",
    "Missing",
    "Person",
    "PresetName",
    "Protected",
    "RequireConvergence",
    "Rule",
    "Seed",
    "Sensitive",
    "Sep",
    "SharesFile",
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
    "complete_preset",
    "complete_rule",
    "complete_scheme",
    "complete_step",
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
    "norm_sub": "the distribution nearest to the unbiased shares",
    "threshold": "significant shares only",
    "shrinkage": "posterior means under a prior learnt from all counts",
    "ems": "expectation maximization with smoothing (square_wave)",
    "mean": "the mean of numbers",
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
complete_missing = _of(
    {
        "error": "refuse the file",
        "unknown": "any value; such people are not assessed",
        "category": "a value of its own",
        "drop": "leave its row out",
    }
)
complete_preset = _of(
    {
        "ema_0070": "0.09, EMA policy 0070",
        "health_canada": "0.09, public release of clinical information",
        "cell_size_11": "1/11, CMS cell size suppression policy",
        "group_of_5": "0.2, the customary rule of five",
        "group_of_20": "0.05, public files of patients",
    }
)
complete_sep = _plain(("auto", "tab", ";", ",", "|"))
complete_encoding = _plain(("utf-8", "cp1252", "latin-1", "utf-16"))
complete_step = _of(
    {
        "collapsed": "groups drawn with the parameters integrated out (default)",
        "block": "each group drawn exactly",
        "tempered": "parallel tempering, when chains disagree",
        "swap": "pairs of rows exchanged, for large groups",
        "permute": "random permutations within groups",
        "sequential": "one row after the other",
    }
)
complete_threat = _plain(
    ("RGT_A", "max_Ti", "Ti_q99", "Ti_q95", "doubled", "GT_A", "log_loss_gain")
)


# -------------------------------------------------------------------------------------------------
# Arguments and options that several commands take, spelled and explained alike.

FILES, MODEL, LIMITS, RESULTS = "Files", "Model", "Limits", "Results"
"""Headings under which the help shows options."""

# -- tables ----------------------------------------------------------------------------------------

File = Annotated[
    Path, typer.Argument(help="Released table (with --anatomy: its quasi-identifiers).")
]
Sensitive = Annotated[
    list[str], typer.Option(help="Sensitive column; repeat to join several into one.")
]
Hierarchies = Annotated[
    Path | None,
    typer.Option(help="Directory of ARX hierarchy files.", rich_help_panel=FILES),
]
Sep = Annotated[
    str,
    typer.Option(
        help="Separator of all files: a character, tab, or auto to look for it in the header.",
        autocompletion=complete_sep,
        rich_help_panel=FILES,
    ),
]
Encoding = Annotated[
    str,
    typer.Option(
        help="Encoding of delimited text, such as cp1252 for files of Windows programs.",
        autocompletion=complete_encoding,
        rich_help_panel=FILES,
    ),
]
Decimal = Annotated[
    str,
    typer.Option(help="Decimal mark of numbers in delimited text: . or ,", rich_help_panel=FILES),
]
Anatomy = Annotated[
    Path | None,
    typer.Option(help="Sensitive table, if the release is an Anatomy.", rich_help_panel=FILES),
]
Group = Annotated[
    str | None, typer.Option(help="Group column of an Anatomy.", rich_help_panel=FILES)
]
Also = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FILE",
        help="Further release about the same people, an Anatomy as FILE+SENSITIVE_FILE; may be "
        "repeated.",
        rich_help_panel=FILES,
    ),
]
Person = Annotated[
    str | None,
    typer.Option(
        help="Column that names people in all releases; without it equal records are matched.",
        rich_help_panel=FILES,
    ),
]
AttackerSpecs = Annotated[
    list[str] | None,
    typer.Option(
        "--attacker",
        metavar="NAME[:COLUMN,...]",
        help="Attacker to compare: stranger, insider, register, collector (of --also), or a name "
        "with the columns known, such as neighbour:age,sex; may be repeated.",
        rich_help_panel=MODEL,
    ),
]
Drop = Annotated[
    list[str] | None,
    typer.Option(help="Column to leave out; may be repeated.", rich_help_panel=FILES),
]
Domains = Annotated[
    list[str] | None,
    typer.Option(
        "--domain",
        metavar="COLUMN=VALUES",
        help="Possible values of a column: age=18-99, sex=f,m or place=@file; may be repeated. By "
        "default those that the files show.",
        rich_help_panel=FILES,
    ),
]
Missing = Annotated[
    str,
    typer.Option(
        help="What an empty cell means, in all files: error, unknown, category or drop (its row).",
        autocompletion=complete_missing,
        rich_help_panel=FILES,
    ),
]

# -- model and threats -----------------------------------------------------------------------------

Cleartext = Annotated[
    Path, typer.Option(help="Cleartext: the people of the table before anonymization.")
]
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
        rich_help_panel=MODEL,
    ),
]
Alpha = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WEIGHT",
        help="Prior weight of all sensitive values, or VALUE=WEIGHT, repeated for several.",
        rich_help_panel=MODEL,
    ),
]
Beta = Annotated[
    list[str] | None,
    typer.Option(
        metavar="WEIGHT",
        help="Prior weight of all other values, pooled, or COLUMN=WEIGHT, repeated for several.",
        rich_help_panel=MODEL,
    ),
]
Engine = Annotated[
    str,
    typer.Option(
        help="Engine: auto, exact, gibbs or nuts.",
        autocompletion=complete_engine,
        rich_help_panel=MODEL,
    ),
]
Draws = Annotated[int, typer.Option(help="Draws per chain.", rich_help_panel=MODEL)]
Chains = Annotated[int, typer.Option(help="Number of chains.", rich_help_panel=MODEL)]
Seed = Annotated[
    int | None, typer.Option(help="Seed that makes the run reproducible.", rich_help_panel=MODEL)
]
MaxRelativeThreat = Annotated[
    float | None,
    typer.Option(
        help="Exit with 3 if anybody's relative threat is larger.", rich_help_panel=LIMITS
    ),
]
MaxThreatened = Annotated[
    float | None,
    typer.Option(
        help="Exit with 3 if a larger share (0 to 1) is threatened.", rich_help_panel=LIMITS
    ),
]
MaxCost = Annotated[
    float | None,
    typer.Option(
        help="Exit with 3 if being in the table costs more: the share (0 to 1) guessed right "
        "beyond what the population gives away.",
        rich_help_panel=LIMITS,
    ),
]

MaxDoubled = Annotated[
    float | None,
    typer.Option(
        help="Exit with 3 if a larger share (0 to 1) has a relative threat of 2 or more.",
        rich_help_panel=LIMITS,
    ),
]
MaxPopulationUniques = Annotated[
    float | None,
    typer.Option(
        help="Exit with 3 if more people than this may be unique in the population.",
        rich_help_panel=LIMITS,
    ),
]
MaxMatchProbability = Annotated[
    float | None,
    typer.Option(
        help="Exit with 3 if anybody can be matched with a higher probability (0 to 1).",
        rich_help_panel=LIMITS,
    ),
]
MaxMembershipTpr = Annotated[
    float | None,
    typer.Option(
        help="Exit with 3 if a larger share (0 to 1) of the table's people may be found by asking "
        "who is in it, with 1 % of others found wrongly; needs --register and --population.",
        rich_help_panel=LIMITS,
    ),
]
MaxLogLossGain = Annotated[
    float | None,
    typer.Option(
        help="Exit with 3 if being in the table teaches more about a secret, in nats.",
        rich_help_panel=LIMITS,
    ),
]
MaxBelief = Annotated[
    float | None,
    typer.Option(
        help="Exit with 3 if the attacker is surer of anybody's true secret than this (0 to 1).",
        rich_help_panel=LIMITS,
    ),
]
AtMost = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MEASURE=VALUE",
        help="Exit with 3 if a measure is larger, such as Ti_q95=2 or ece_A=0.05; may be repeated.",
        rich_help_panel=LIMITS,
    ),
]
AtLeast = Annotated[
    list[str] | None,
    typer.Option(
        metavar="MEASURE=VALUE",
        help="Exit with 3 if a measure is smaller, such as RF=0.9; may be repeated.",
        rich_help_panel=LIMITS,
    ),
]
PresetName = Annotated[
    str | None,
    typer.Option(
        "--preset",
        help="Exit with 3 if the highest risk of re-identification exceeds a published threshold: "
        "ema_0070, health_canada, cell_size_11, group_of_5 or group_of_20.",
        autocompletion=complete_preset,
        rich_help_panel=LIMITS,
    ),
]
AllowUnconverged = Annotated[
    bool,
    typer.Option(
        "--allow-unconverged",
        help="Keep to the other limits even if the chains cannot be trusted.",
        rich_help_panel=LIMITS,
    ),
]
AllowPartial = Annotated[
    bool,
    typer.Option(
        "--allow-partial",
        help="Accept a cleartext with part of the people of the release, or with more.",
        rich_help_panel=FILES,
    ),
]
RequireConvergence = Annotated[
    bool,
    typer.Option(
        "--require-convergence",
        help="Exit with 3 unless the chains can be trusted; the default where a limit is set.",
        rich_help_panel=LIMITS,
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
    typer.Option(help="The possible values: a,b,c or 0-99 or @file with one per line."),
]
Bins = Annotated[
    str | None,
    typer.Option(
        "--bins",
        help="Bins of numbers instead of --values, as lower:upper:number, such as 0:120:60.",
    ),
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
Infinite = Annotated[
    float | None,
    typer.Option(
        "--infinite",
        help="Budget of all reports together (longitudinal); twice --epsilon by default.",
    ),
]
How = Annotated[
    str | None,
    typer.Option(
        "--how",
        help="Of several columns: sample, everybody reports one of them (default), or split, all "
        "of them with parts of the budget.",
    ),
]
Length = Annotated[
    int | None, typer.Option("--length", help="Size to which sets are padded (padded_sets).")
]
MatrixFile = Annotated[
    Path | None,
    typer.Option(
        "--matrix", help="File of probabilities: a line per value, a column per report (matrix)."
    ),
]
SharesFile = Annotated[
    Path | None,
    typer.Option("--shares", help="File with a line per value and its share (invariant_pram)."),
]
BudgetsFile = Annotated[
    Path | None,
    typer.Option("--budgets", help="File of `anonbayes budgets` (input_discriminative_ue)."),
]
Rule = Annotated[
    str | None, typer.Option("--rule", help="Column of that file, such as worst_case.")
]

# -- output ----------------------------------------------------------------------------------------

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.", rich_help_panel=RESULTS)]
Force = Annotated[
    bool, typer.Option("--force", help="Replace files of an earlier run.", rich_help_panel=RESULTS)
]
