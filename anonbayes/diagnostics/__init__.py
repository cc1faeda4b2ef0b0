"""Whether chains can be trusted: Geweke's test, the Weiß tests, and a report with a verdict.

The public functions accept any ArviZ object; kernels on plain arrays are next to them.
"""

from anonbayes.diagnostics.chain_plots import (
    plot_autocorrelation,
    plot_geweke,
    plot_weiss,
    plot_worst,
)
from anonbayes.diagnostics.geweke import GEWEKE_PAPER, geweke
from anonbayes.diagnostics.quantities import TestSummary, adjust_p_values, summarize_tests
from anonbayes.diagnostics.verdict import Check, DiagnosticReport, Limits, diagnose
from anonbayes.diagnostics.weiss import weiss

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
