"""Non-stochastic information: what a deterministic release gives away, without probabilities."""

from __future__ import annotations

from anonbayes.nonstochastic.combined import (
    Answer,
    JointPolicy,
    TrustedAgent,
    joint,
    quantized_answer,
)
from anonbayes.nonstochastic.geometry import Box, LinearQuery, query_range, smallest_enclosing_ball
from anonbayes.nonstochastic.homogeneity import (
    GroupLeakage,
    group_leakage,
    homogeneous_release,
    table_leakage,
    table_relation,
)
from anonbayes.nonstochastic.policies import Policy, Region, optimal_policy, quantized_query
from anonbayes.nonstochastic.policy_plots import plot_regions, plot_tradeoff, tradeoff
from anonbayes.nonstochastic.ranges import (
    adversary_error_bound,
    conditional_entropy,
    entropy,
    information,
    leakage,
    maximin_information,
    privacy,
    quality,
    relative_disarray,
    transmission,
)
from anonbayes.nonstochastic.relations import (
    FinitePolicy,
    Relation,
    adversary_errors,
    joint_relation,
    optimal_finite_policy,
)

__all__ = [
    "Answer",
    "Box",
    "FinitePolicy",
    "GroupLeakage",
    "JointPolicy",
    "LinearQuery",
    "Policy",
    "Region",
    "Relation",
    "TrustedAgent",
    "adversary_error_bound",
    "adversary_errors",
    "conditional_entropy",
    "entropy",
    "group_leakage",
    "homogeneous_release",
    "information",
    "joint",
    "joint_relation",
    "leakage",
    "maximin_information",
    "optimal_finite_policy",
    "optimal_policy",
    "plot_regions",
    "plot_tradeoff",
    "privacy",
    "quality",
    "quantized_answer",
    "quantized_query",
    "query_range",
    "relative_disarray",
    "smallest_enclosing_ball",
    "table_leakage",
    "table_relation",
    "tradeoff",
    "transmission",
]
