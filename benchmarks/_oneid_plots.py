"""Pictures after OneID Figs. 3 to 6."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks._oneid_mechanisms import GAMMA, ONEID

OUT = Path("benchmarks/out")
COLOURS = {
    "RAPPOR": "0.35",
    "OUE": "0.6",
    "MinID (W)": "C5",
    "MinID (P)": "C1",
    "HLLDP": "C3",
    "OneID (W)": "C0",
    "OneID (C)": "C8",
    "OneID (C3)": "C6",
    "OneID (P)": "C9",
    "OneID (S)": "C2",
    "OneID (B)": "C4",
}


def pictures(tables: Mapping[str, pd.DataFrame], sizes: Mapping[str, int]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    OUT.mkdir(parents=True, exist_ok=True)
    for number, suffix, title in ((3, " popular", "popular values"), (4, "", "all values")):
        figure, axes = plt.subplots(2, 1, figsize=(12, 7), sharex=True, layout="constrained")
        for axis, measure in zip(axes, ("MAE", "MSE"), strict=True):
            grouped = pd.DataFrame({name: t[measure + suffix] for name, t in tables.items()})
            bars(axis, grouped.loc[list(COLOURS)].dropna(axis=1, how="all"))
            axis.set_ylabel(measure)
        axes[0].set_title(f"Error of the estimated counts, {title}")
        handles = axes[0].get_legend_handles_labels()
        figure.legend(*handles, ncols=11, fontsize=8, loc="outside upper center")
        figure.savefig(OUT / f"oneid_figure{number}.png", dpi=110)
    for number, column, title in ((5, "users", "all users"), (6, "outliers", "outliers")):
        table = pd.DataFrame({name: t[column] for name, t in tables.items()})
        spread = pd.DataFrame({name: t[column + " +-"] for name, t in tables.items()})
        shown = ["HLLDP", *ONEID]
        table = table.loc[shown].dropna(axis=1, how="all")
        figure, axis = plt.subplots(figsize=(12, 4), layout="constrained")
        bars(axis, table, spread.loc[shown, table.columns])
        for i, name in enumerate(table.columns):
            bound = GAMMA / sizes[name]
            label = "gamma/n" if not i else None
            axis.hlines(bound, i - 0.45, i + 0.45, "black", "dashed", label=label)
        axis.set_ylabel("re-identification rate")
        axis.set_title(f"Budget attack, {title}")
        figure.legend(ncols=8, fontsize=8, loc="outside upper center")
        figure.savefig(OUT / f"oneid_figure{number}.png", dpi=110)
    plt.close("all")
    print(f"\nFigures 3 to 6 are in {OUT}.")


def bars(axis: object, table: pd.DataFrame, spread: pd.DataFrame | None = None) -> None:
    """Bars on a log axis: one group per column, one bar per row."""
    width = 0.9 / len(table)
    for i, (name, row) in enumerate(table.iterrows()):
        place = np.arange(len(table.columns)) - 0.45 + (i + 0.5) * width
        error = None if spread is None else 2 * spread.loc[name]
        axis.bar(place, row, width, yerr=error, label=name, color=COLOURS[str(name)])  # type: ignore[attr-defined]
    axis.set_xticks(range(len(table.columns)), table.columns)  # type: ignore[attr-defined]
    axis.set_yscale("log")  # type: ignore[attr-defined]
