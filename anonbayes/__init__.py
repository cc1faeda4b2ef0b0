"""Bayesian analysis of anonymized tables.

The public names are listed in ``__init__.pyi`` and loaded when first used, so that importing the
package, or asking the command line for help, does not import PyMC.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__version__ = "0.1.0"
