"""Personal information entropy (PIE): how much a release says about who you are.

Start with `bound` (what a channel guarantees), `choose` (the budget for a wanted error),
`information` (bits for known users), `release_information` (bits of a released table) and
`system_entropy` (bits of a matcher's scores). What is marked as ours goes beyond the paper.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from anonbayes.pie.bounds import (
    Choice,
    WorstCase,
    bayes_error,
    bound,
    bounds_by_budget,
    capacity,
    choose,
    contraction,
    information_for,
    plot_bounds,
    worst_case,
)
from anonbayes.pie.information import Information, information, mutual_information
from anonbayes.pie.system_entropy import (
    DetCurve,
    SystemEntropy,
    convergence,
    det_curve,
    plot_convergence,
    system_entropy,
)

if TYPE_CHECKING:
    from anonbayes.pie.released_table import ReleaseInformation, release_information

__all__ = [
    "Choice",
    "DetCurve",
    "Information",
    "ReleaseInformation",
    "SystemEntropy",
    "WorstCase",
    "bayes_error",
    "bound",
    "bounds_by_budget",
    "capacity",
    "choose",
    "contraction",
    "convergence",
    "det_curve",
    "information",
    "information_for",
    "mutual_information",
    "plot_bounds",
    "plot_convergence",
    "release_information",
    "system_entropy",
    "worst_case",
]


def __getattr__(name: str) -> Any:
    """Load the part about released tables when asked for: bounds of channels need no posterior."""
    if name not in ("ReleaseInformation", "release_information"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from anonbayes.pie import released_table

    return getattr(released_table, name)
