"""Personal information entropy (PIE): how much a release says about who you are.

Start with `bound` (what a channel guarantees), `choose` (the budget for a wanted error),
`information` (bits for known users), `release_information` (bits of a released table) and
`system_entropy` (bits of a matcher's scores).

Bits and bounds of channels are in `anonbayes.guarantees.pie`; identification systems and released
tables in `anonbayes.risk`. What is marked as ours there goes beyond the paper.
"""

from anonbayes.guarantees.pie.bounds import bound, capacity
from anonbayes.guarantees.pie.choose import Choice, choose
from anonbayes.guarantees.pie.errors import bayes_error, information_for
from anonbayes.guarantees.pie.extremes import contraction
from anonbayes.guarantees.pie.information import Information, information, mutual_information
from anonbayes.guarantees.pie.plots import bounds_by_budget, plot_bounds
from anonbayes.guarantees.pie.worst_case import (
    WorstCase,
    renyi_bound,
    renyi_information,
    worst_case,
)
from anonbayes.risk.det import DetCurve, det_curve
from anonbayes.risk.release_information import ReleaseInformation, release_information
from anonbayes.risk.system_entropy import (
    SystemEntropy,
    convergence,
    plot_convergence,
    system_entropy,
)

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
    "renyi_bound",
    "renyi_information",
    "system_entropy",
    "worst_case",
]
