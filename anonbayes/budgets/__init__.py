"""Budgets tuned so that nobody is re-identified.

A report must not single out anybody: whoever sees it, knowing everybody's true value, should name
its sender with probability ``gamma/n`` at most. Rare values then need small budgets, popular ones
need none (OneID Theorem 1). How popular a value is must be known first; the rules differ in where
they take that from.

============================  ==================================================================
`worst_case`                  nothing is known
`from_prior`                  lower bounds that are known
`from_confidence`             reports of a first group of users, lower limits (OneID Alg. 1)
`from_posterior`              the same, posterior quantiles; or a fitted table, draws, a survey
`from_counts`                 the counts themselves
`collect`, `combine`          the two-phase protocol, and one estimate from both groups
============================  ==================================================================

What a first group shows may be wrong. Both rules leave room for that and keep the bound all the
same (``coverage="simultaneous"``); the paper's own rule (``coverage="pointwise"``) does not.
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
