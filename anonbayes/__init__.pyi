from .channels.base import Channel as Channel
from .channels.base import Evidence as Evidence
from .channels.quantizer import UniformQuantizer as UniformQuantizer
from .channels.reports import BitReports as BitReports
from .channels.response import RandomizedResponse as RandomizedResponse
from .channels.response import UtilityOptimizedRR as UtilityOptimizedRR
from .channels.unary import RAPPOR as RAPPOR
from .channels.unary import BitChannel as BitChannel
from .channels.unary import UnaryEncoding as UnaryEncoding
from .channels.unary import UtilityOptimizedRAPPOR as UtilityOptimizedRAPPOR
from .domains import Domain as Domain
from .errors import AnonbayesError as AnonbayesError
from .guarantees import nonstochastic as nonstochastic
from .guarantees.ldp import LDP as LDP
from .guarantees.uldp import HLLDP as HLLDP
from .guarantees.uldp import OSLDP as OSLDP
from .guarantees.uldp import ULDP as ULDP
from .hierarchies import Hierarchy as Hierarchy

__version__: str
