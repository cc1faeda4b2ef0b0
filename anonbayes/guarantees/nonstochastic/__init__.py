"""Non-stochastic information: what a deterministic release gives away, without probabilities."""

from anonbayes.guarantees.nonstochastic.agents import Answer, TrustedAgent
from anonbayes.guarantees.nonstochastic.balls import smallest_enclosing_ball
from anonbayes.guarantees.nonstochastic.boxes import Box, LinearQuery, query_range
from anonbayes.guarantees.nonstochastic.combined import JointPolicy, joint
from anonbayes.guarantees.nonstochastic.finite import (
    FinitePolicy,
    adversary_errors,
    optimal_finite_policy,
)
from anonbayes.guarantees.nonstochastic.measures import (
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
from anonbayes.guarantees.nonstochastic.optimal import optimal_policy, quantized_query
from anonbayes.guarantees.nonstochastic.plots import plot_regions, plot_tradeoff, tradeoff
from anonbayes.guarantees.nonstochastic.policies import Policy, Region
from anonbayes.guarantees.nonstochastic.relations import Relation, joint_relation
from anonbayes.guarantees.nonstochastic.tables import (
    GroupLeakage,
    group_leakage,
    homogeneous_release,
    table_leakage,
    table_relation,
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
    "quantized_query",
    "query_range",
    "relative_disarray",
    "smallest_enclosing_ball",
    "table_leakage",
    "table_relation",
    "tradeoff",
    "transmission",
]
