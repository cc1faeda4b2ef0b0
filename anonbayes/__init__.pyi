from .domains import Domain as Domain
from .errors import AnonbayesError as AnonbayesError
from .guarantees import nonstochastic as nonstochastic
from .hierarchies import Hierarchy as Hierarchy

__version__: str
