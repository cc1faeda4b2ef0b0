from .diagnostics import DiagnosticReport as DiagnosticReport
from .diagnostics import diagnose as diagnose
from .diagnostics import geweke as geweke
from .diagnostics import weiss as weiss
from .domains import Domain as Domain
from .errors import AnonbayesError as AnonbayesError
from .hierarchies import Hierarchy as Hierarchy

__version__: str
from . import anonymize as anonymize
from . import datasets as datasets
from .release.readers import read_anatomy as read_anatomy
from .release.readers import read_arx as read_arx
from .release.table import ReleasedTable as ReleasedTable
from . import steps as steps
from .inference.model import build_model as build_model
from .inference.fit import fit as fit
from .inference.posterior import Posterior as Posterior
