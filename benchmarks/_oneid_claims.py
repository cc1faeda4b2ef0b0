"""What OneID Sec. V reports, beside what is measured."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd

from benchmarks._oneid_mechanisms import EQUAL, GAMMA, ONEID

# An order of magnitude.
ORDER = 10.0


def factors(table: pd.DataFrame, measure: str) -> pd.DataFrame:
    """How many times the error of each OneID rule the best of LDP and MinID-LDP makes."""
    mean, error = table[measure], table[f"{measure} +-"]
    if mean.isna().any():
        return pd.DataFrame(np.nan, index=list(ONEID), columns=["factor", "+-"])
    peer = mean[list(EQUAL)].idxmin()
    factor = mean[peer] / mean[list(ONEID)]
    relative = np.hypot(error[peer] / mean[peer], error[list(ONEID)] / mean[list(ONEID)])
    return pd.DataFrame({"factor": factor, "+-": factor * relative})


def verdict(rate: float, error: float, bound: float) -> str:
    """Below the bound, above it, or not told apart by two standard errors."""
    if np.isnan(rate):
        return "none"
    if rate + 2 * error <= bound:
        return "yes"
    return "NO" if rate - 2 * error > bound else "open"


def claims(name: str, table: pd.DataFrame, n: int) -> pd.DataFrame:
    """One line for each sentence of Sec. V-B about Figs. 3 to 6."""
    rows: list[tuple[str, str, str]] = []
    for where, suffix, said in (
        ("Fig. 3, popular values", " popular", "one or two orders"),
        ("Fig. 4, all values", "", "one or two orders"),
        ("Non-sensitive values", " open", "(not shown)"),
    ):
        for measure in ("MSE", "MAE"):
            gains = factors(table, measure + suffix)
            found = ", ".join(f"{r[7:-1]} {g:.3g}+-{e:.1g}" for r, g, e in gains.itertuples())
            if gains["factor"].isna().any():
                found = "no popular values"
            rows.append((f"{where}: {measure} of LDP, MinID over OneID", said, found))
    if not np.isnan(table["MSE popular"]).any():
        share = table["MSE popular"] / table.loc["OneID (W)", "MSE popular"]
        rows.append(
            (
                "Fig. 3: MSE of C and P over that of W",
                "0.84, 0.46 (IST)" if name == "IST" else "C < 1, P smallest",
                ", ".join(f"{rule[7:-1]} {share[rule]:.2f}" for rule in ONEID[1:]),
            )
        )
    share = table["MSE"] / table.loc["OneID (W)", "MSE"]
    rows.append(
        (
            "Fig. 4: MSE of C and P over that of W",
            "almost the same",
            ", ".join(f"{rule[7:-1]} {share[rule]:.3f}" for rule in ONEID[1:]),
        )
    )
    like = table["MSE"] / table.loc["OUE", "MSE"]
    rows.append(
        (
            "Fig. 4: MSE of MinID (W, P) over that of OUE",
            "similar, P no better",
            f"{like['MinID (W)']:.2f}, {like['MinID (P)']:.2f}",
        )
    )
    best = table["MSE"].drop("HLLDP").idxmin()
    share = table.loc["HLLDP", "MSE"] / table.loc[best, "MSE"]
    spread = np.hypot(*(table.loc[r, "MSE +-"] / table.loc[r, "MSE"] for r in ("HLLDP", best)))
    rows.append(
        (
            "Fig. 4: MSE of HLLDP over the best other",
            "below 1",
            f"{share:.3g}+-{share * spread:.1g} ({best})",
        )
    )
    bound = GAMMA / n
    for figure, column in (("Fig. 5, all users", "users"), ("Fig. 6, outliers", "outliers")):
        if np.isnan(table.loc["HLLDP", column]):
            rows.append((figure, "not shown", "nobody has a unique value"))
            continue
        high = table.loc["HLLDP", column]
        said = "1" if column == "outliers" else "above gamma/n in cities only"
        rows.append((f"{figure}: rate of HLLDP", said, f"{high:.4g} ({high / bound:.3g} gamma/n)"))
        found = ", ".join(
            f"{rule[7:-1]} {table.loc[rule, column] / bound:.3g}"
            f"+-{table.loc[rule, column + ' +-'] / bound:.1g}"
            for rule in ONEID
        )
        rows.append((f"{figure}: rate of OneID over gamma/n", "below 1", found))
    return pd.DataFrame(rows, columns=["statement", "paper reports", "measured"])


def verdicts(tables: Mapping[str, pd.DataFrame], sizes: Mapping[str, int]) -> pd.DataFrame:
    """Per data set and rule, whether the three statements of the comparison hold."""
    rows = {}
    for name, table in tables.items():
        bound = GAMMA / sizes[name]
        high = table.loc["HLLDP", "outliers"]
        betrayed = "none" if np.isnan(high) else "yes" if high > 1 - 1e-9 else f"{high:.3g}"
        popular, overall, tuned = (
            factors(table, m)["factor"] for m in ("MSE popular", "MSE", "MSE open")
        )
        for rule in ONEID:
            row = table.loc[rule]
            rows[name, rule] = [
                order(popular[rule]),
                order(overall[rule]),
                order(tuned[rule]),
                betrayed,
                verdict(row["users"], row["users +-"], bound),
                verdict(row["outliers"], row["outliers +-"], bound),
                f"{row['runs exceeded']:.2f}",
            ]
    columns = [
        "10x better: popular",
        "all values",
        "non-sensitive",
        "HLLDP names all outliers",
        "all users <= gamma/n",
        "outliers <= gamma/n",
        "runs with a report above",
    ]
    return pd.DataFrame(rows, index=columns).T


def order(factor: float) -> str:
    if np.isnan(factor):
        return "none"
    return f"{'yes' if factor >= ORDER else 'NO'}, {factor:.2g}x"
