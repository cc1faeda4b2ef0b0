from . import bayes as bayes
from . import closed_forms as closed_forms
from . import em as em
from . import kernels as kernels
from . import likelihood as likelihood
