"""Estimating the distribution of the true values from the reports of a channel.

The modules work on plain arrays and are loaded when first used, because a device that makes reports
does not need their kernels.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
