"""Personal information entropy (PIE): how much a release reveals about who you are.

Start with `bound` (what a channel guarantees), `choose` (the budget for a wanted error),
`information` (bits for known users), `release_information` (bits of a released table) or
`system_entropy` (bits of a matcher's scores). What is marked as ours goes beyond the paper.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
