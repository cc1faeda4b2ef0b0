"""Channels: the likelihood of a released value given the true one.

``from anonbayes.channels import RandomizedResponse`` loads nothing larger than NumPy, which is all
that a device needs. Names are listed in ``__init__.pyi`` and loaded when first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
