"""Budgets against re-identification: OneID Figs. 3 to 6, the optimum, and the paper's scale.

Mechanisms: RAPPOR and OUE at the sensitive values' budget 1; MinID-LDP with worst-case (W) and
prior-based (P) budgets; high-low LDP; OneID-LDP with W, P, Wilson's limits (C), and posterior
quantiles (B). As in the paper gamma = 100, alpha = 0.05, and a tenth of the users come first.
Utility is simulated bit by bit with binomials, attacks by drawing the deciding bits only. The
pictures go to ``benchmarks/out``.
"""

from __future__ import annotations

import resource
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy import optimize

import anonbayes as ab
from anonbayes.channels.unary import BitChannel
from anonbayes.estimation.pooled import inverse_variance
from anonbayes.guarantees.idue_optimum import objective, optimum
from benchmarks._oneid_data import Population, population

GAMMA, ALPHA, FIRST, CAP = 100, 0.05, 0.1, 1.0
OUT = Path("benchmarks/out")


class Plan(NamedTuple):
    """A mechanism: its channel and budgets, or the rule that makes them from a first group."""

    channel: BitChannel
    budgets: np.ndarray | ab.budgets.Budgets
    rule: Callable[..., ab.budgets.Budgets] | None = None


def plans(case: Population, domain: ab.Domain) -> dict[str, Plan]:
    sensitive = np.flatnonzero(case.sensitive).tolist()
    settings = {"sensitive": case.sensitive, "cap": CAP}
    worst = ab.budgets.worst_case(domain, case.n, GAMMA, **settings)
    popular = np.where(case.counts >= case.n / GAMMA, case.n / GAMMA, 0)
    prior = ab.budgets.from_prior(domain, case.n, GAMMA, popular, **settings)
    best = ab.InputDiscriminativeUE.optimal
    ones = np.ones(len(domain))
    start = best(domain, worst)
    return {
        "RAPPOR": Plan(ab.RAPPOR(domain, CAP), ones),
        "OUE": Plan(ab.UnaryEncoding.optimal(domain, CAP), ones),
        "MinID (W)": Plan(best(domain, worst, "minid"), worst),
        "MinID (P)": Plan(best(domain, prior, "minid"), prior),
        "HLLDP": Plan(
            ab.UtilityOptimizedRAPPOR(domain, sensitive, CAP),
            np.where(case.sensitive, CAP, np.inf),
        ),
        "OneID (W)": Plan(start, worst),
        "OneID (C)": Plan(start, worst, ab.budgets.from_confidence),
        "OneID (P)": Plan(best(domain, prior), prior),
        "OneID (B)": Plan(start, worst, ab.budgets.from_posterior),
    }


def second_phase(
    plan: Plan, case: Population, domain: ab.Domain, support: ab.SupportCounts
) -> tuple[ab.budgets.Budgets, BitChannel]:
    assert plan.rule is not None
    tuned = plan.rule(
        domain, case.n, GAMMA, support, plan.channel, ALPHA, sensitive=case.sensitive, cap=CAP
    )
    return tuned, ab.InputDiscriminativeUE.optimal(domain, tuned)


def estimated_counts(
    plan: Plan, case: Population, domain: ab.Domain, rng: np.random.Generator
) -> np.ndarray:
    """One run: the collector's estimate of the counts."""
    channel = plan.channel
    if plan.rule is None:
        raised = channel.simulate(case.counts, seed=rng).counts
        return (raised - case.n * channel.miss) / (channel.hit - channel.miss)
    first = rng.multivariate_hypergeometric(case.counts, round(FIRST * case.n), method="marginals")
    early = channel.simulate(first, seed=rng)
    _, then = second_phase(plan, case, domain, early)
    late = then.simulate(case.counts - first, seed=rng)
    shares = inverse_variance(
        np.stack([early.counts, late.counts]).astype(float),
        np.array([early.n, late.n]),
        np.stack([channel.hit, then.hit]),
        np.stack([channel.miss, then.miss]),
    )
    return case.n * shares


def utility(case: Population, runs: int, few: int) -> pd.DataFrame:
    """MAE and MSE over all and over popular values; `few` runs of the slow posterior rule."""
    domain = ab.Domain("value", range(len(case.counts)))
    popular = case.counts >= case.n / 100
    rows = {}
    for name, plan in plans(case, domain).items():
        rng = np.random.default_rng(1)
        begin, errors = time.process_time(), []
        for _ in range(few if name == "OneID (B)" else runs):
            error = estimated_counts(plan, case, domain, rng) - case.counts
            parts = (error, error[popular])
            errors.append([f(part) for part in parts for f in (np_l1, np_l2)])
        seconds = 1000 * (time.process_time() - begin) / len(errors)
        rows[name] = [*np.mean(errors, axis=0), seconds]
    columns = ["MAE", "MSE", "MAE popular", "MSE popular", "seconds for 1000"]
    return pd.DataFrame(rows, index=columns).T


def np_l1(error: np.ndarray) -> float:
    return float(np.abs(error).sum())


def np_l2(error: np.ndarray) -> float:
    return float(error @ error)


def privacy(case: Population, sample: int) -> pd.DataFrame:
    """Re-identification rates over a sample of users and over outliers, and the worst report."""
    domain = ab.Domain("value", range(len(case.counts)))
    values = np.repeat(np.arange(len(case.counts)), case.counts)
    rows = {}
    for name, plan in plans(case, domain).items():
        if name in ("RAPPOR", "OUE", "MinID (W)", "MinID (P)"):
            continue
        rng = np.random.default_rng(2)
        users = rng.permutation(case.n)
        in_first = users[: round(FIRST * case.n)]
        alone = np.flatnonzero(case.counts[values] == 1)
        chosen = np.union1d(users[-sample:], rng.permutation(alone)[:sample])
        phases = [(plan, chosen)]
        exceeded = float("nan")
        if plan.rule is not None:
            first = np.bincount(values[in_first], minlength=len(domain))
            early = plan.channel.simulate(first, seed=rng)
            tuned, then = second_phase(plan, case, domain, early)
            later = Plan(then, tuned)
            is_first = np.isin(chosen, in_first)
            phases = [(plan, chosen[is_first]), (later, chosen[~is_first])]
            exceeded = tuned.exceeded(case.counts).sum() / (case.counts > 0).sum()
        random_user = np.isin(chosen, users[-sample:])
        success, outlier = np.zeros(len(chosen)), np.zeros(len(chosen), dtype=bool)
        worst = 0.0
        for phase, senders in phases:
            place = np.searchsorted(chosen, senders)
            attack = ab.reidentify.simulate_budget_attack(
                phase.channel,
                values,
                phase.budgets,
                sensitive=case.sensitive,
                senders=senders,
                seed=rng,
            )
            success[place], outlier[place] = attack.success, attack.outlier
            report = ab.reidentify.worst_report(phase.channel, case.counts)
            worst = max(worst, report.accuracy)
        rows[name] = [
            success[random_user].mean(),
            success[outlier].mean() if outlier.any() else np.nan,
            success[outlier].std() / np.sqrt(outlier.sum()) if outlier.any() else np.nan,
            worst * case.n / GAMMA,
            exceeded,
        ]
    columns = ["all users", "outliers", "+-", "worst report * n/gamma", "bounds exceeded"]
    return pd.DataFrame(rows, index=columns).T


def solver() -> None:
    """The convex solution against a general solver in the coordinates of the paper."""
    print("\nOptimum, two classes of 9,459 and 61,098 values with budgets 1 and ln 100")
    epsilon, sizes = np.array([1.0, np.log(100)]), np.array([9459, 61098])
    seconds = np.inf
    for _ in range(5):
        begin = time.perf_counter()
        ours = optimum(epsilon, sizes)
        seconds = min(seconds, time.perf_counter() - begin)
    rng, found = np.random.default_rng(0), []
    begin = time.perf_counter()

    def slack(z: np.ndarray) -> np.ndarray:
        a, b = z[:2, None], z[2:, None]
        return (epsilon[:, None] - np.log(a * (1 - b.T) / (b * (1 - a.T)))).ravel()

    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # it steps out of its bounds
        for _ in range(20):
            b = rng.uniform(0.05, 0.5, 2)
            end = optimize.minimize(
                lambda z: objective(z[:2], z[2:], sizes) / 1e4,
                np.concatenate([b + rng.uniform(0.05, 0.4, 2), b]),
                method="SLSQP",
                bounds=[(1e-4, 1 - 1e-4)] * 4,
                constraints={"type": "ineq", "fun": slack},
                options={"maxiter": 300},
            )
            if np.isfinite(end.fun) and slack(end.x).min() > -1e-6:
                found.append(objective(end.x[:2], end.x[2:], sizes))
    theirs = time.perf_counter() - begin
    print(f"  here          F = {ours.value:.3f}   {1e3 * seconds:.2f} ms")
    print(
        f"  SLSQP, 20 starts: {len(found)} feasible ends, F from {min(found):.3f} to "
        f"{max(found):.3f}   {theirs / seconds:.0f} times as long"
    )
    classes = np.linspace(0.1, 10, 5000)
    for notion in ("oneid", "minid"):
        begin = time.perf_counter()
        optimum(classes, np.ones(5000), notion=notion)
        print(f"  5,000 classes, {notion}: {1e3 * (time.perf_counter() - begin):.0f} ms")


def pictures(losses: dict[str, pd.DataFrame], rates: dict[str, pd.DataFrame]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    OUT.mkdir(parents=True, exist_ok=True)
    for number, suffix, title in ((3, " popular", "popular values"), (4, "", "all values")):
        figure, axes = plt.subplots(2, 1, figsize=(11, 7), sharex=True, layout="constrained")
        for axis, measure in zip(axes, ("MAE", "MSE"), strict=True):
            grouped = {name: t[measure + suffix] for name, t in losses.items()}
            bars(axis, pd.DataFrame(grouped).replace(0.0, np.nan))
            axis.set_ylabel(measure)
        axes[0].set_title(f"Error of the estimated counts, {title}")
        handles = axes[0].get_legend_handles_labels()
        figure.legend(*handles, ncols=9, fontsize=8, loc="outside upper center")
        figure.savefig(OUT / f"oneid_figure{number}.png", dpi=110)
    for number, column in ((5, "all users"), (6, "outliers")):
        table = pd.DataFrame({name: t[column] for name, t in rates.items()})
        table = table.dropna(axis=1, how="all")
        figure, axis = plt.subplots(figsize=(11, 4), layout="constrained")
        bars(axis, table)
        for i, name in enumerate(table.columns):
            bound = GAMMA / population(name).n
            axis.hlines(
                bound, i - 0.45, i + 0.45, "black", "dashed", label="gamma/n" if not i else None
            )
        axis.set_ylabel("re-identification rate")
        axis.set_title(f"Budget attack, {column}")
        figure.legend(ncols=7, fontsize=8, loc="outside upper center")
        figure.savefig(OUT / f"oneid_figure{number}.png", dpi=110)
    plt.close("all")
    print(f"\nFigures 3 to 6 are in {OUT}.")


def bars(axis: object, table: pd.DataFrame) -> None:
    """Bars on a log axis: one group per column, one bar per row."""
    width = 0.9 / len(table)
    for i, (name, row) in enumerate(table.iterrows()):
        place = np.arange(len(table.columns)) - 0.45 + (i + 0.5) * width
        axis.bar(place, row, width, label=name, color=f"C{i}")  # type: ignore[attr-defined]
    axis.set_xticks(range(len(table.columns)), table.columns)  # type: ignore[attr-defined]
    axis.set_yscale("log")  # type: ignore[attr-defined]


def main(*, short: bool = False, runs: int | None = None) -> None:
    names = (
        ["TKY", "ADL", "RFID"]
        if short
        else ["IST", "NYK", "TKY", "SP", "KL", "JK", "Local", "ADL", "RFID"]
    )
    solver()
    losses, rates = {}, {}
    for name in names:
        case = population(name)
        print(
            f"\n{name}: {case.n} users, {len(case.counts)} values, {int(case.sensitive.sum())} "
            f"sensitive, {int((case.counts >= case.n / 100).sum())} popular, "
            f"{int((case.counts == 1).sum())} held by one user; gamma/n = {GAMMA / case.n:.3g}"
        )
        number = runs or (5 if short else 1000)
        losses[name] = utility(case, number, min(number, 100))
        print(losses[name].to_string(float_format=lambda v: f"{v:.4g}"))
        rates[name] = privacy(case, 1000 if short else 20_000)
        print(rates[name].to_string(float_format=lambda v: f"{v:.4g}"))
    pictures(losses, rates)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"Largest memory {peak:.2f} GB")


if __name__ == "__main__":
    main()
