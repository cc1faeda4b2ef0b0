"""Estimating the distribution of the true values from the reports of a channel."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(__name__, submodules=["bounds", "regimes"])
