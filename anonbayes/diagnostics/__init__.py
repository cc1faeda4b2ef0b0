"""Whether chains can be trusted: Geweke, the Weiß family, and a report with a verdict.

Array kernels live in `_geweke_core` and `_weiss_core`; the public functions take any ArviZ object.
"""

from .geweke import GEWEKE_PAPER, geweke
from .weiss import weiss

__all__ = ["GEWEKE_PAPER", "geweke", "weiss"]
