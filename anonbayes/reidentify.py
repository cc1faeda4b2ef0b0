"""Re-identification: attacks that name the sender of a report, and how often they are right."""

from anonbayes.risk.reidentification.bayes import WorstReport, bayes_attack, worst_report
from anonbayes.risk.reidentification.budget import (
    SimulatedAttack,
    budget_attack,
    simulate_budget_attack,
)
from anonbayes.risk.reidentification.expected import ExpectedAttack, expected_budget_attack
from anonbayes.risk.reidentification.markov import MarkovAttack, markov_attack
from anonbayes.risk.reidentification.result import Attack, Rate, outliers, rate
from anonbayes.risk.reidentification.traces import synthetic_traces

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
