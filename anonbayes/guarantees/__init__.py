"""Privacy notions, and audits that check them on a channel's exact probabilities."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submodules=["budgets", "nonstochastic"]
)
