from .diagnostics import geweke as geweke
from .domains import Domain as Domain
from .errors import AnonbayesError as AnonbayesError
from .hierarchies import Hierarchy as Hierarchy

__version__: str
