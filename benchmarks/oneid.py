"""Budgets against re-identification: OneID Figs. 3 to 6, the optimum, and the paper's scale.

As in the paper (Sec. V): gamma = 100; sensitive values have budget 1, and so have RAPPOR and OUE;
MAE and MSE are the l1 and squared l2 distances of estimated from true counts, over all values and
over popular ones (at least a hundredth of the users), averaged over 1000 repetitions; the
re-identification rate is the share of reports whose sender the budget attack names, over all users
and over outliers (a unique value, and a raised non-sensitive bit).

=====  ==========================================================================================
rule   budgets of OneID-LDP
=====  ==========================================================================================
W      worst case
P      prior: the popular values are known
C      Wilson's limits at alpha = 0.05 from a tenth of the users (``coverage="pointwise"``)
C3     the same, rounded down to the three budgets 1, ln gamma and infinity
S      ours: `from_confidence`, simultaneous limits
B      ours: `from_posterior`, simultaneous quantiles
=====  ==========================================================================================

Counts are drawn with the sizes of Table IV; those of ADL and RFID are real. Given the budgets,
rates are computed, not drawn: their errors are those of the first group's reports only. Tables and
pictures go to ``benchmarks/out``.
"""

from __future__ import annotations

import resource
import time
import warnings

import numpy as np
import pandas as pd
from scipy import optimize

import anonbayes as ab
from anonbayes.channels.discriminative import objective, optimum
from benchmarks._oneid_claims import claims, verdicts
from benchmarks._oneid_data import Population, population
from benchmarks._oneid_mechanisms import GAMMA, Experiment, Privacy
from benchmarks._oneid_plots import OUT, pictures

LOSSES = ["MAE", "MSE", "MAE popular", "MSE popular", "MAE open", "MSE open"]
PRIVACY = [
    "users",
    "users +-",
    "outliers",
    "outliers +-",
    "best report * n/gamma",
    "values exceeded",
    "runs exceeded",
]


def compare(case: Population, runs: int, attacks: int) -> pd.DataFrame:
    """One row per mechanism: errors and rates with their standard errors, and seconds."""
    experiment = Experiment(case)
    rng = np.random.default_rng(1)
    losses: dict[str, list[list[float]]] = {}
    rates: dict[str, list[Privacy]] = {}
    for run in range(runs):
        for name, (error, privacy) in experiment.repeat(rng, attack=run < attacks):
            parts = (error, error[experiment.popular], error[~case.sensitive])
            found = [f(part) for part in parts for f in (l1, l2)]
            losses.setdefault(name, []).append(found)
            if privacy is not None:
                rates.setdefault(name, []).append(privacy)
    rows = {}
    for name, sample in losses.items():
        mean, error = moments(sample)
        if not experiment.popular.any():
            mean[2:4] = error[2:4] = np.nan
        rows[name] = dict(zip(LOSSES, mean, strict=True))
        rows[name] |= {f"{loss} +-": e for loss, e in zip(LOSSES, error, strict=True)}
        if name in rates:
            mean, error = moments(rates[name])
            users, outliers, report, exceeded = mean
            reports = np.array([p.report for p in rates[name]])
            rows[name] |= {
                "users": users,
                "users +-": error[0],
                "outliers": outliers,
                "outliers +-": error[1],
                "best report * n/gamma": report * case.n / GAMMA,
                "values exceeded": exceeded,
                "runs exceeded": (reports > GAMMA / case.n * (1 + 1e-9)).mean(),
            }
    return pd.DataFrame(rows).T


def moments(sample: object) -> tuple[np.ndarray, np.ndarray]:
    """Mean and its standard error; none for what varies by rounding only."""
    array = np.asarray(sample, dtype=float)
    mean, error = array.mean(axis=0), array.std(axis=0) / np.sqrt(len(array))
    return mean, np.where(error > 1e-12 * np.abs(mean), error, 0.0)


def print_claims(found: pd.DataFrame) -> None:
    for column in found:
        width = max(len(column), int(found[column].str.len().max()))
        found[column] = found[column].str.ljust(width)
    print(found.to_string(index=False, justify="left"))


def l1(error: np.ndarray) -> float:
    return float(np.abs(error).sum())


def l2(error: np.ndarray) -> float:
    return float(error @ error)


def drawn(case: Population, sample: int) -> None:
    """The computed rates of the default rule against drawn and attacked reports."""
    experiment = Experiment(case)
    rng = np.random.default_rng(2)
    plan = experiment.plans["OneID (W)"]
    values = np.repeat(np.arange(len(case.counts)), case.counts)
    domain, senders = plan.channel.domain, rng.choice(case.n, sample)
    reports = plan.channel.release(domain.decode(values[senders]), seed=rng)
    attack = ab.reidentify.budget_attack(
        domain, reports, domain.decode(values), plan.budgets, senders=senders, seed=rng
    )
    shown = np.concatenate([[0], np.cumsum(~case.sensitive[reports.indices])])[reports.indptr]
    outlier = (case.counts[values[senders]] == 1) & (np.diff(shown) > 0)
    exact = experiment.attacks["OneID (W)"]
    found = ab.reidentify.rate(attack)
    text = f"  W, drawn: {found.share:.4g} +- {found.standard_error:.1g}, computed {exact.rate:.4g}"
    if outlier.any():
        found = ab.reidentify.rate(attack, where=outlier)
        text += (
            f"; outliers drawn {found.share:.4g} +- {found.standard_error:.1g}, computed "
            f"{exact.outlier_rate:.4g}"
        )
    print(text)


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


def steep(runs: int) -> None:
    """Where few places hold many users, outliers are exposed whatever the rule."""
    case = population("IST steep")
    print(
        "\nAn Istanbul whose 15 popular places hold 28 % of the users. Theorem 1 bounds what a\n"
        "report tells, not the rate among senders who are picked by their value: who raises no\n"
        "popular bit hides among the others only, and outliers exceed gamma/n even with rule W."
    )
    print_claims(claims("IST", compare(case, runs, runs), case.n))
    domain = ab.Domain("value", range(len(case.counts)))
    for gamma in (GAMMA, 0.7 * GAMMA):
        settings = {"sensitive": case.sensitive}
        worst = ab.budgets.worst_case(domain, case.n, gamma, **settings)
        channel = ab.InputDiscriminativeUE.optimal(domain, worst)
        found = ab.reidentify.expected_budget_attack(channel, case.counts, worst, **settings)
        share = found.outlier_rate * case.n / GAMMA
        print(f"  W tuned to gamma = {gamma:g}: outliers at {share:.3g} of {GAMMA}/n")


CITIES = ["IST", "NYK", "TKY", "SP", "KL", "JK"]


def main(*, short: bool = False, runs: int | None = None, names: list[str] | None = None) -> None:
    chosen = names or (["TKY", "ADL", "RFID"] if short else [*CITIES, "Local", "ADL", "RFID"])
    solver()
    tables, sizes = {}, {}
    number = runs or (5 if short else 1000)
    for name in chosen:
        case = population(name)
        print(
            f"\n{name}: {case.n} users, {len(case.counts)} values, {int(case.sensitive.sum())} "
            f"sensitive, {int((case.counts >= case.n / 100).sum())} popular, "
            f"{int((case.counts == 1).sum())} held by one user; gamma/n = {GAMMA / case.n:.3g}"
        )
        begin = time.process_time()
        table = compare(case, number, min(number, 100))
        seconds = time.process_time() - begin
        for part in (table[LOSSES + [f"{m} +-" for m in LOSSES]], table[PRIVACY].dropna(how="all")):
            print(part.to_string(float_format=lambda v: f"{v:.4g}"))
        print_claims(claims(name, table, case.n))
        print(f"  {seconds:.0f} s for {number} repetitions of {len(table)} mechanisms")
        drawn(case, 2000 if short else 20_000)
        tables[name], sizes[name] = table, case.n
        OUT.mkdir(parents=True, exist_ok=True)
        table.to_csv(OUT / f"oneid_{name}.csv")
    print("\nDo the statements of the comparison hold?")
    print(verdicts(tables, sizes).to_string())
    pictures(tables, sizes)
    if names is None and not short:
        steep(20)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"Largest memory {peak:.2f} GB")


if __name__ == "__main__":
    main()
