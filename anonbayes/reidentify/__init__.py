"""Re-identification: attacks that name the sender of a report, and how often they are right."""

from __future__ import annotations

from anonbayes.reidentify.bayes import (
    ExpectedAttack,
    WorstReport,
    bayes_attack,
    expected_budget_attack,
    worst_report,
)
from anonbayes.reidentify.budget import SimulatedAttack, budget_attack, simulate_budget_attack
from anonbayes.reidentify.markov import MarkovAttack, markov_attack, synthetic_traces
from anonbayes.reidentify.result import Attack, Rate, outliers, rate

__all__ = [
    "Attack",
    "ExpectedAttack",
    "MarkovAttack",
    "Rate",
    "SimulatedAttack",
    "WorstReport",
    "bayes_attack",
    "budget_attack",
    "expected_budget_attack",
    "markov_attack",
    "outliers",
    "rate",
    "simulate_budget_attack",
    "synthetic_traces",
    "worst_report",
]
