"""Budgets tuned so that nobody is re-identified.

A report must not single anybody out: someone who sees it and knows everybody's true value should
identify its sender with a probability of at most ``gamma/n``. Rare values then need small budgets,
popular ones need none (OneID Theorem 1). The popularity of values must be known first; the rules
differ in what they base it on.

============================  ==================================================================
`worst_case`                  nothing is known
`from_prior`                  known lower bounds
`from_confidence`             lower confidence limits from a first group's reports (OneID Alg. 1)
`from_posterior`              the same with posterior quantiles; or a fitted table, draws, a survey
`from_counts`                 the counts themselves
`collect`, `combine`          the two-phase protocol, and one estimate from both groups
============================  ==================================================================

What a first group shows may be wrong. Both rules allow for that and still keep the bound
(``coverage="simultaneous"``); the paper's own rule (``coverage="pointwise"``) does not.
"""

from __future__ import annotations

from anonbayes.budgets.first_group import (
    Collection,
    collect,
    combine,
    from_confidence,
    from_posterior,
)
from anonbayes.budgets.tuning import (
    Budgets,
    from_counts,
    from_prior,
    reidentification_budget,
    worst_case,
)

__all__ = [
    "Budgets",
    "Collection",
    "collect",
    "combine",
    "from_confidence",
    "from_counts",
    "from_posterior",
    "from_prior",
    "reidentification_budget",
    "worst_case",
]
