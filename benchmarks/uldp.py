"""Experiments of ULDP on synthetic data of its sizes: Figures 5, 6 and 8, and Table 1.

The pictures go to ``build/figures``. Total variation is averaged over drawn populations. Counts of
reports are drawn directly where an estimator needs no more than counts. Bit channels under maximum
likelihood get full reports, one population per point, where these have at most 3e7 ones. In Table 1
randomized response is estimated by maximum likelihood, bits by the threshold estimate.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd

import anonbayes as ab
from anonbayes.channels.pure import PureChannel
from benchmarks._uldp_data import Population, census, places

matplotlib.use("Agg")
import matplotlib.pyplot as plt

FIGURES = Path("build/figures")
Make = Callable[[Population, float], PureChannel]
CHANNELS: dict[str, Make] = {
    "RR": lambda pop, eps: ab.RandomizedResponse(pop.domain, eps),
    "RAPPOR": lambda pop, eps: ab.RAPPOR(pop.domain, eps),
    "uRR": lambda pop, eps: ab.UtilityOptimizedRR(pop.domain, pop.sensitive, eps),
    "uRAP": lambda pop, eps: ab.UtilityOptimizedRAPPOR(pop.domain, pop.sensitive, eps),
    "uRAP best theta": lambda pop, eps: ab.UtilityOptimizedRAPPOR.optimal(
        pop.domain, pop.sensitive, eps
    ),
}


COLOURS = dict(zip(CHANNELS, ("C0", "C1", "C2", "C3", "C4"), strict=True))


def total_variation(
    channel: PureChannel, pop: Population, method: str, runs: int, rng: np.random.Generator
) -> float:
    bits = not isinstance(channel, ab.UtilityOptimizedRR)
    losses = []
    for _ in range(runs):
        held = rng.multinomial(pop.n, pop.p)
        if method == "mle" and bits:
            reports = channel.release_codes(np.repeat(np.arange(len(held)), held), seed=rng)
            p = channel.estimate(reports, method="mle", tolerance=1e-4, iterations=300).p
        else:
            p = channel.estimate(channel.simulate(held, seed=rng), method=method).p
        losses.append(np.abs(p - pop.p).sum() / 2)
    return float(np.mean(losses))


def figure_5(pop: Population, *, short: bool) -> pd.DataFrame:
    """Total variation against epsilon."""
    rng = np.random.default_rng(5)
    budgets = np.geomspace(0.1, 10, 5 if short else 13)
    rows = []
    for eps in budgets:
        row = {"epsilon": eps}
        for name, make in CHANNELS.items():
            channel = make(pop, eps)
            for method in ("empirical", "threshold", "mle"):
                heavy = method == "mle" and not isinstance(channel, ab.UtilityOptimizedRR)
                ones = pop.n * (channel.miss.sum() + 1)
                if heavy and (short or ones > 3e7):
                    continue
                runs = 1 if heavy else (3 if short else 20)
                row[f"{name} {method}"] = total_variation(channel, pop, method, runs, rng)
        clear = ab.UtilityOptimizedRR(pop.domain, [], 1.0)
        row["no privacy"] = total_variation(clear, pop, "empirical", 20, rng)
        rows.append(row)
    table = pd.DataFrame(rows).set_index("epsilon")
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), sharey=True)
    for axis, method in zip(axes, ("empirical", "threshold", "mle"), strict=True):
        for name in CHANNELS:
            if f"{name} {method}" in table:
                curve = table[f"{name} {method}"]
                axis.loglog(table.index, curve, COLOURS[name], marker="o", ms=3, label=name)
        axis.loglog(table.index, table["no privacy"], "k--", label="no privacy")
        axis.axvline(np.log(len(pop.p)), color="0.7", lw=2)
        axis.set(title=f"{pop.name}: {method}", xlabel="epsilon", ylabel="total variation")
    axes[0].legend(fontsize=8)
    save(figure, f"uldp_figure5_{pop.name}")
    return table


def figure_6(pop: Population, *, short: bool) -> pd.DataFrame:
    """Total variation against the number of sensitive values, at 0.1 and ln K.

    Maximum likelihood for randomized response, the threshold estimate for bits.
    """
    rng = np.random.default_rng(6)
    size = len(pop.p)
    numbers = np.unique(np.geomspace(1, size, 5 if short else 12).astype(int))
    rows = []
    for eps in (0.1, np.log(size)):
        for k_s in numbers:
            chosen = pop._replace(sensitive=rng.choice(size, k_s, replace=False))
            row = {"epsilon": eps, "sensitive": k_s}
            for name, make in CHANNELS.items():
                method = "mle" if name in ("RR", "uRR") else "threshold"
                runs = 3 if short else 20
                row[name] = total_variation(make(chosen, eps), chosen, method, runs, rng)
            rows.append(row)
    table = pd.DataFrame(rows).set_index(["epsilon", "sensitive"])
    figure, axes = plt.subplots(1, 2, figsize=(9, 4))
    for axis, (eps, part) in zip(axes, table.groupby(level="epsilon"), strict=True):
        part.droplevel("epsilon").plot(ax=axis, loglog=True, marker="o", ms=3)
        axis.set(title=f"{pop.name}, epsilon = {eps:.3g}", ylabel="total variation")
    save(figure, f"uldp_figure6_{pop.name}")
    return table


def figure_8(pop: Population, *, short: bool) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Personalized mechanism with two tags: no knowledge, rough knowledge, the truth; Table 1."""
    rng = np.random.default_rng(8)
    tags = ["<home>", "<work>"]
    domain = ab.Domain("region", [*pop.domain.values, *tags])
    plain = np.setdiff1d(np.arange(len(pop.p)), pop.sensitive)
    shares = np.array([5040, 19532]) / 359_054
    truth = {}
    for tag in tags:
        weight = np.zeros(len(pop.p))
        weight[plain] = pop.p[plain] * rng.gamma(0.5, size=len(plain))
        truth[tag] = weight / weight.sum()
    rough = {
        tag: 0.5 * pi + 0.5 * np.isin(np.arange(len(pi)), plain) / len(plain)
        for tag, pi in truth.items()
    }
    at_tags = sum(share * truth[tag] for share, tag in zip(shares, tags, strict=True))
    p = pop.p * (1 - shares.sum()) + at_tags
    r = np.r_[p - at_tags, shares]
    knowledge = {"I none": None, "II rough": rough, "III true": truth}
    rows, bounds = [], []
    budgets = [0.1, 1.0, np.log(len(pop.p)), 10.0] if short else np.geomspace(0.1, 10, 9)
    for eps in sorted({*budgets, np.log(len(pop.p))}):
        for name, kind in (("uRR", ab.UtilityOptimizedRR), ("uRAP", ab.UtilityOptimizedRAPPOR)):
            common = kind(domain, [*pop.sensitive, *tags], eps)
            channel = ab.Personalized(common, tags)
            method = "mle" if name == "uRR" else "threshold"
            for _ in range(3 if short else 20):
                reports = common.simulate(rng.multinomial(pop.n, r), seed=rng)
                for label, known in knowledge.items():
                    estimate = channel.estimate(reports, method=method, knowledge=known)
                    loss = np.abs(estimate.p - p).sum()
                    rows.append({"epsilon": eps, "method": f"{name} {label}", "TV": loss / 2})
                    if eps == np.log(len(pop.p)):
                        bound = channel.error_bound(estimate, r, truth, knowledge=known)
                        entry = {"method": f"{name} {label}", "l1": loss}
                        bounds.append(entry | {"first": bound[0], "second": bound[1]})
    table = pd.DataFrame(rows).groupby(["epsilon", "method"])["TV"].mean().unstack()
    figure, axis = plt.subplots(figsize=(5, 4))
    table.plot(ax=axis, loglog=True, marker="o", ms=3)
    axis.set(title="personalized", ylabel="total variation")
    save(figure, "uldp_figure8")
    checked = pd.DataFrame(bounds)
    assert (checked["l1"] <= checked["first"] + checked["second"] + 1e-12).all()
    return table, checked.groupby("method").mean()


def save(figure: plt.Figure, name: str) -> None:
    FIGURES.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(FIGURES / f"{name}.png", dpi=120)
    plt.close(figure)


def show(title: str, table: pd.DataFrame) -> None:
    print(f"\n{title}")
    with pd.option_context("display.width", 220):
        print(table.to_string(float_format=lambda x: f"{x:.3g}"))


def main(*, short: bool = False) -> None:
    """Draw the figures and print their numbers."""
    for pop in (places(), census()):
        show(f"Figure 5, {pop.name}: total variation against epsilon", figure_5(pop, short=short))
        show(f"Figure 6, {pop.name}: against |X_S|", figure_6(pop, short=short))
    table, bounds = figure_8(places(), short=short)
    show("Figure 8: personalized, against epsilon", table)
    show("Table 1: l1 <= first + second in every run; means at epsilon = ln K", bounds)


if __name__ == "__main__":
    main()
