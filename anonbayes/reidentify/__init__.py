"""Re-identification: attacks that identify the sender of a report, and how often they succeed."""

from __future__ import annotations

from anonbayes.reidentify.budget import (
    Attack,
    ExpectedAttack,
    Rate,
    WorstReport,
    budget_attack,
    expected_budget_attack,
    rate,
    worst_report,
)
from anonbayes.reidentify.markov import MarkovAttack, markov_attack, synthetic_traces

__all__ = [
    "Attack",
    "ExpectedAttack",
    "MarkovAttack",
    "Rate",
    "WorstReport",
    "budget_attack",
    "expected_budget_attack",
    "markov_attack",
    "rate",
    "synthetic_traces",
    "worst_report",
]
