"""Experiments of ULDP on synthetic data of its sizes: Figures 5, 6 and 8, and Table 1.

The pictures, with error bars, and the numbers go to ``build/figures``. Total variation is averaged
over a hundred drawn populations per point, as in the paper; in Figure 6 each has sensitive values
of its own. Counts of reports are drawn directly where an estimator needs no more than counts.
Maximum likelihood from bits needs the full reports, and hundreds of passes over their ones: such
points have one to ten populations, and none where a population has more than 3e7 ones. In Figures 6
and 8 randomized response is estimated by maximum likelihood, bits by the threshold estimate.
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
    "uRR": lambda pop, eps: ab.UtilityOptimizedRR(pop.domain, eps, sensitive=pop.sensitive),
    "uRAP": lambda pop, eps: ab.UtilityOptimizedRAPPOR(pop.domain, eps, sensitive=pop.sensitive),
    "uRAP best theta": lambda pop, eps: ab.UtilityOptimizedRAPPOR.optimal(
        pop.domain, eps, sensitive=pop.sensitive
    ),
}
METHODS = ("empirical", "threshold", "mle")
COLOURS = dict(zip(CHANNELS, ("C0", "C1", "C2", "C3", "C4"), strict=True))


RUNS = 100
MOST_ONES = 3e7


def total_variation(
    channel: PureChannel, pop: Population, method: str, rng: np.random.Generator
) -> float:
    """Total variation of the estimate from one drawn population."""
    held = rng.multinomial(pop.n, pop.p)
    if method == "mle" and isinstance(channel, ab.BitChannel):
        reports = channel.release_codes(np.repeat(np.arange(len(held)), held), seed=rng)
        p = channel.estimate(reports, method="mle", tolerance=1e-4, iterations=300).p
    else:
        p = channel.estimate(channel.simulate(held, seed=rng), method=method).p
    return float(np.abs(p - pop.p).sum() / 2)


def runs_of(channel: PureChannel, pop: Population, method: str, *, short: bool) -> int:
    """Populations for a point: a hundred, or as many as full bit reports allow."""
    if method == "mle" and isinstance(channel, ab.BitChannel):
        ones = pop.n * (float(channel.miss.sum()) + 1)
        return 0 if short or ones > MOST_ONES else int(np.clip(5e6 / ones, 1, 10))
    return 4 if short else RUNS


def figure_5(pop: Population, *, short: bool) -> pd.DataFrame:
    """Total variation against epsilon: one row per population drawn."""
    rng = np.random.default_rng(5)
    rows = []
    clear = ab.UtilityOptimizedRR(pop.domain, 1.0, sensitive=[])
    for eps in np.geomspace(0.1, 10, 5 if short else 13):
        named = {name: make(pop, eps) for name, make in CHANNELS.items()}
        wanted = [(name, method) for name in named for method in METHODS]
        for name, method in [*wanted, ("no privacy", "empirical")]:
            channel = named.get(name, clear)
            for _ in range(runs_of(channel, pop, method, short=short)):
                loss = total_variation(channel, pop, method, rng)
                rows.append({"epsilon": eps, "channel": name, "method": method, "TV": loss})
    table = summary(rows, ["epsilon", "channel", "method"])
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), sharey=True)
    for axis, method in zip(axes, METHODS, strict=True):
        for name in CHANNELS:
            curve(axis, table, name, COLOURS[name], channel=name, method=method)
        curve(axis, table, "no privacy", "k", channel="no privacy", method="empirical")
        axis.axvline(np.log(len(pop.p)), color="0.7", lw=2)
        axis.set(title=f"{pop.name}: {method}", xlabel="epsilon", ylabel="total variation")
    axes[0].legend(fontsize=8)
    save(figure, table, f"uldp_figure5_{pop.name}")
    return table


def figure_6(pop: Population, *, short: bool) -> pd.DataFrame:
    """Total variation against the number of sensitive values, at 0.1 and ln K."""
    rng = np.random.default_rng(6)
    size = len(pop.p)
    rows = []
    for eps in (0.1, np.log(size)):
        for k_s in np.unique(np.geomspace(1, size, 5 if short else 12).astype(int)):
            for _ in range(4 if short else RUNS):
                chosen = pop._replace(sensitive=rng.choice(size, k_s, replace=False))
                for name, make in CHANNELS.items():
                    method = "mle" if name in ("RR", "uRR") else "threshold"
                    loss = total_variation(make(chosen, eps), chosen, method, rng)
                    rows.append({"epsilon": eps, "sensitive": k_s, "channel": name, "TV": loss})
    table = summary(rows, ["epsilon", "sensitive", "channel"])
    figure, axes = plt.subplots(1, 2, figsize=(9, 4))
    for axis, eps in zip(axes, (0.1, np.log(size)), strict=True):
        for name in CHANNELS:
            curve(axis, table, name, COLOURS[name], channel=name, epsilon=eps)
        axis.set(title=f"{pop.name}, epsilon = {eps:.3g}", xlabel="sensitive values")
        axis.set_ylabel("total variation")
    axes[0].legend(fontsize=8)
    save(figure, table, f"uldp_figure6_{pop.name}")
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
            for _ in range(4 if short else RUNS):
                reports = common.simulate(rng.multinomial(pop.n, r), seed=rng)
                for label, known in knowledge.items():
                    estimate = channel.estimate(reports, method=method, knowledge=known)
                    loss = np.abs(estimate.p - p).sum()
                    rows.append({"epsilon": eps, "method": f"{name} {label}", "TV": loss / 2})
                    if eps == np.log(len(pop.p)):
                        bound = channel.error_bound(estimate, r, truth, knowledge=known)
                        entry = {"method": f"{name} {label}", "l1": loss}
                        bounds.append(entry | {"first": bound[0], "second": bound[1]})
    table = summary(rows, ["epsilon", "method"])
    figure, axis = plt.subplots(figsize=(5, 4))
    for i, method in enumerate(dict.fromkeys(row["method"] for row in rows)):
        curve(axis, table, method, f"C{i}", method=method)
    axis.set(title="personalized", xlabel="epsilon", ylabel="total variation")
    axis.legend(fontsize=8)
    save(figure, table, "uldp_figure8")
    checked = pd.DataFrame(bounds)
    assert (checked["l1"] <= checked["first"] + checked["second"] + 1e-12).all()
    return table, checked.groupby("method").mean()


def summary(rows: list[dict], keys: list[str]) -> pd.DataFrame:
    """Mean, its standard error and the number of populations, for each point."""
    return pd.DataFrame(rows).groupby(keys)["TV"].agg(["mean", "sem", "count"])


def curve(axis: plt.Axes, table: pd.DataFrame, label: str, colour: str, **chosen: object) -> None:
    """Draw the points with these levels against the one level that is left, with two errors."""
    for level, value in chosen.items():
        if value not in table.index.get_level_values(level):
            return
        table = table.xs(value, level=level)
    axis.errorbar(
        table.index,
        table["mean"],
        2 * table["sem"].fillna(0),
        color=colour,
        marker="o",
        ms=3,
        capsize=2,
        label=label,
    )
    axis.set(xscale="log", yscale="log")


def save(figure: plt.Figure, table: pd.DataFrame, name: str) -> None:
    FIGURES.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(FIGURES / f"{name}.png", dpi=120)
    plt.close(figure)
    table.to_csv(FIGURES / f"{name}.csv")


def show(title: str, table: pd.DataFrame, columns: list[str]) -> None:
    """Print the means as a table, and how large their errors are."""
    print(f"\n{title}")
    with pd.option_context("display.width", 260, "display.max_columns", 40):
        wide = table["mean"].unstack(columns)
        print(wide.to_string(float_format=lambda x: f"{x:.3g}", na_rep=""))
    full = table[table["count"] == table["count"].max()]
    print(
        f"{full['count'].max()} populations at {len(full)} of {len(table)} points, standard errors "
        f"there at most {100 * (full['sem'] / full['mean']).max():.2g} % of the mean"
        f" (median {100 * (full['sem'] / full['mean']).median():.2g} %)"
    )


def main(*, short: bool = False) -> None:
    """Draw the figures and print their numbers."""
    for pop in (places(), census()):
        five = figure_5(pop, short=short)
        show(f"Figure 5, {pop.name}: against epsilon", five, ["channel", "method"])
        show(f"Figure 6, {pop.name}: against |X_S|", figure_6(pop, short=short), ["channel"])
    table, bounds = figure_8(places(), short=short)
    show("Figure 8: personalized, against epsilon", table, ["method"])
    print("\nTable 1: l1 <= first + second in every run; means at epsilon = ln K")
    print(bounds.to_string(float_format=lambda x: f"{x:.3g}"))


if __name__ == "__main__":
    main()
