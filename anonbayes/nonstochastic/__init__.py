"""Non-stochastic information: what a deterministic release gives away, without probabilities."""

from __future__ import annotations

from anonbayes.nonstochastic.geometry import Box, LinearQuery, query_range, smallest_enclosing_ball
from anonbayes.nonstochastic.homogeneity import (
    GroupLeakage,
    homogeneous_release,
    table_leakage,
)
from anonbayes.nonstochastic.policies import (
    Ball,
    Policy,
    Region,
    optimal_policy,
    plot_regions,
    plot_tradeoff,
    quality,
    quantized_query,
    tradeoff,
)
from anonbayes.nonstochastic.relations import (
    Relation,
    adversary_error_bound,
    conditional_entropy,
    entropy,
    information,
    leakage,
    maximin_information,
    privacy,
    relative_disarray,
    transmission,
)

__all__ = [
    "Ball",
    "Box",
    "GroupLeakage",
    "LinearQuery",
    "Policy",
    "Region",
    "Relation",
    "adversary_error_bound",
    "conditional_entropy",
    "entropy",
    "homogeneous_release",
    "information",
    "leakage",
    "maximin_information",
    "optimal_policy",
    "plot_regions",
    "plot_tradeoff",
    "privacy",
    "quality",
    "quantized_query",
    "query_range",
    "relative_disarray",
    "smallest_enclosing_ball",
    "table_leakage",
    "tradeoff",
    "transmission",
]
