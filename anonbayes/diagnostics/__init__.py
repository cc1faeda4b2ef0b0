"""Whether chains can be trusted: Geweke, the Weiß family, and a report with a verdict.

Array kernels live in `_geweke_core` and `_weiss_core`; the public functions take any ArviZ object.
"""

from ._checks import Check, Limits
from .geweke import GEWEKE_PAPER, geweke
from .multiple import TestSummary, adjust_p_values, summarize_tests
from .plots import plot_autocorrelation, plot_geweke, plot_weiss, plot_worst
from .summary import DiagnosticReport, diagnose
from .weiss import weiss

__all__ = [
    "GEWEKE_PAPER",
    "Check",
    "DiagnosticReport",
    "Limits",
    "TestSummary",
    "adjust_p_values",
    "diagnose",
    "geweke",
    "plot_autocorrelation",
    "plot_geweke",
    "plot_weiss",
    "plot_worst",
    "summarize_tests",
    "weiss",
]
