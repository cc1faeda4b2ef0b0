"""Re-identification: attacks that name the sender of a report, and how often they are right."""

from anonbayes.risk.reidentification.bayes import WorstReport, bayes_attack, worst_report
from anonbayes.risk.reidentification.budget import (
    SimulatedAttack,
    budget_attack,
    simulate_budget_attack,
)
from anonbayes.risk.reidentification.result import Attack, Rate, outliers, rate

__all__ = [
    "Attack",
    "Rate",
    "SimulatedAttack",
    "WorstReport",
    "bayes_attack",
    "budget_attack",
    "outliers",
    "rate",
    "simulate_budget_attack",
    "worst_report",
]
