from .domains import Domain as Domain
from .errors import AnonbayesError as AnonbayesError
from .hierarchies import Hierarchy as Hierarchy

__version__: str
from . import anonymize as anonymize
from . import datasets as datasets
from .release.readers import read_anatomy as read_anatomy
from .release.readers import read_arx as read_arx
from .release.table import ReleasedTable as ReleasedTable
