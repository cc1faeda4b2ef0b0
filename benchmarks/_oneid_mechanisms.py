"""The mechanisms of OneID Figs. 3 to 6, and one repetition of the experiment with all of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

import anonbayes as ab
from anonbayes.channels.unary import BitChannel
from anonbayes.estimation.closed_forms import inverse_variance
from benchmarks._oneid_data import Population

GAMMA, ALPHA, FIRST, CAP = 100, 0.05, 0.1, 1.0
# What a first group's reports are turned into budgets by.
TWO_PHASES = ("OneID (C)", "OneID (C3)", "OneID (S)", "OneID (B)")
ONEID = ("OneID (W)", "OneID (C)", "OneID (C3)", "OneID (P)", "OneID (S)", "OneID (B)")
EQUAL = ("RAPPOR", "OUE", "MinID (W)", "MinID (P)")


class Plan(NamedTuple):
    """A channel, and the budgets that the attacker orders the bits by."""

    channel: BitChannel
    budgets: np.ndarray | ab.budgets.Budgets


class Privacy(NamedTuple):
    """Rates of the budget attack, the best report, and the values with too large a budget."""

    users: float
    outliers: float
    report: float
    exceeded: float


class Run(NamedTuple):
    """Errors of the estimated counts, and what the attack makes of the reports."""

    error: np.ndarray
    privacy: Privacy | None


class Experiment:
    """All mechanisms on one population."""

    def __init__(self, case: Population) -> None:
        self.case = case
        self.domain = ab.Domain("value", range(len(case.counts)))
        self.settings = {"sensitive": case.sensitive, "cap": CAP}
        self.popular = case.counts >= case.n / 100
        known = np.where(case.counts >= case.n / GAMMA, case.n / GAMMA, 0)
        worst = ab.budgets.worst_case(self.domain, case.n, GAMMA, **self.settings)
        prior = ab.budgets.from_prior(self.domain, case.n, GAMMA, known, **self.settings)
        best = ab.InputDiscriminativeUE.optimal
        ones = np.ones(len(self.domain))
        self.plans = {
            "RAPPOR": Plan(ab.RAPPOR(self.domain, CAP), ones),
            "OUE": Plan(ab.UnaryEncoding.optimal(self.domain, CAP), ones),
            "MinID (W)": Plan(best(self.domain, worst, "minid"), worst),
            "MinID (P)": Plan(best(self.domain, prior, "minid"), prior),
            "HLLDP": Plan(
                ab.UtilityOptimizedRAPPOR(
                    self.domain, CAP, sensitive=np.flatnonzero(case.sensitive).tolist()
                ),
                np.where(case.sensitive, CAP, np.inf),
            ),
            "OneID (W)": Plan(best(self.domain, worst), worst),
            "OneID (P)": Plan(best(self.domain, prior), prior),
        }
        self.attacks = {
            name: self.attack(plan) for name, plan in self.plans.items() if name not in EQUAL
        }
        self.reports = {name: self.report(self.plans[name]) for name in self.attacks}

    def repeat(self, rng: np.random.Generator, *, attack: bool) -> Iterator[tuple[str, Run]]:
        """One repetition of every mechanism; rates of two phases only with `attack`."""
        case = self.case
        for name, plan in self.plans.items():
            raised = plan.channel.simulate(case.counts, seed=rng).counts
            gain = plan.channel.hit - plan.channel.miss
            error = (raised - case.n * plan.channel.miss) / gain - case.counts
            privacy = None
            if name in self.attacks and attack:
                found = self.attacks[name]
                privacy = Privacy(found.rate, found.outlier_rate, self.reports[name], 0.0)
            yield name, Run(error, privacy)
        start = self.plans["OneID (W)"]
        size = round(FIRST * case.n)
        first = rng.multivariate_hypergeometric(case.counts, size, method="marginals")
        early = start.channel.simulate(first, seed=rng)
        for name in TWO_PHASES:
            tuned = self.tune(name, early)
            then = Plan(ab.InputDiscriminativeUE.optimal(self.domain, tuned), tuned)
            late = then.channel.simulate(case.counts - first, seed=rng)
            shares = inverse_variance(
                np.stack([early.counts, late.counts]).astype(float),
                np.array([early.n, late.n]),
                np.stack([start.channel.hit, then.channel.hit]),
                np.stack([start.channel.miss, then.channel.miss]),
            )
            privacy = self.two_phases(first, then) if attack else None
            yield name, Run(case.n * shares - case.counts, privacy)

    def tune(self, name: str, early: ab.SupportCounts) -> ab.budgets.Budgets:
        case, start = self.case, self.plans["OneID (W)"].channel
        first = (self.domain, case.n, GAMMA, early, start, ALPHA)
        if name == "OneID (S)":
            return ab.budgets.from_confidence(*first, **self.settings)
        if name == "OneID (B)":
            return ab.budgets.from_posterior(*first, **self.settings)
        paper = ab.budgets.from_confidence(*first, coverage="pointwise", **self.settings)
        if name == "OneID (C)":
            return paper
        popular = np.where(paper.at_least >= case.n / GAMMA, paper.at_least, 0)
        return ab.budgets.from_prior(self.domain, case.n, GAMMA, popular, **self.settings)

    def attack(self, plan: Plan) -> ab.reidentify.ExpectedAttack:
        return ab.reidentify.expected_budget_attack(
            plan.channel, self.case.counts, plan.budgets, sensitive=self.case.sensitive
        )

    def report(self, plan: Plan) -> float:
        return ab.reidentify.worst_report(plan.channel, self.case.counts).accuracy

    def two_phases(self, first: np.ndarray, then: Plan) -> Privacy:
        """Rates over both groups; the attacker names any user for any report."""
        counts = self.case.counts
        early, late = self.attacks["OneID (W)"], self.attack(then)
        alone = counts == 1
        groups = ((first, early), (counts - first, late))
        named = sum(size @ attack.success for size, attack in groups)
        outliers = sum(size[alone] @ attack.opened[alone] for size, attack in groups)
        found = sum(size[alone] @ attack.opened_success[alone] for size, attack in groups)
        assert isinstance(then.budgets, ab.budgets.Budgets)
        return Privacy(
            named / self.case.n,
            found / outliers if outliers > 0 else np.nan,
            max(self.reports["OneID (W)"], self.report(then)),
            float(then.budgets.exceeded(counts).sum()),
        )
