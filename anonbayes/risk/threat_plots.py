"""Plots of an assessment, available as methods of `RiskAssessment`, each with an ``ax=`` argument.

Shapes and hatches show the same distinctions as colours, for black-and-white print.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from anonbayes.arrays import Floats, Mask
from anonbayes.errors import one_of
from anonbayes.figures import (
    COLOURS,
    legend_below,
    make_axes,
    name_points,
    percent_axis,
    plain_log_axis,
    times_axis,
)
from anonbayes.formats import number
from anonbayes.risk.threats import weighted_skewness

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from anonbayes.risk.assessment import RiskAssessment

WHO = {"A": "attacker", "L": "learner"}
RELIABILITY = {
    "attacker": ("more", "o"),
    "learner": ("less", "s"),
    "ideal": ("ideal", "^"),
    "random_worlds": ("other", "D"),
}
"""Colour and marker of each belief."""


def plot_beliefs(risk: RiskAssessment, under: str = "A", *, ax: Axes | None = None) -> Axes:
    """Plot the attacker's against the learner's threat level (Groups Figures 2, 3: (a), (c)).

    Parameters
    ----------
    under : {"A", "L"}
        Whether to show rows threatened under the attacker's or under the learner's belief.

    Examples
    --------
    >>> import anonbayes as ab
    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> plot_beliefs(post.assess(ab.datasets.load("table1"))).get_xlabel()
    "Learner's belief in the true secret"
    """
    rows, weight = _threatened(risk, under)
    ax = make_axes(ax, 4.6, 4.8)
    points, count = _distinct(rows["p_L"].to_numpy(float), rows["p_A"].to_numpy(float), weight)
    more = points[:, 1] > points[:, 0]
    for chosen, key, marker, label in _sides(count, more):
        ax.scatter(
            points[chosen, 0],
            points[chosen, 1],
            s=8 + 6 * np.sqrt(np.maximum(count[chosen] - 1, 0)),
            marker=marker,
            facecolors="none" if key == "less" else COLOURS[key],
            edgecolors=COLOURS[key],
            linewidths=0.6,
            alpha=0.6,
            label=label,
        )
    ax.fill_between([0, 1], [0, 1], 1, color=COLOURS["more"], alpha=0.07, linewidth=0)
    ax.plot([0, 1], [0, 1], color="0.3", linewidth=0.8)
    ax.set(
        xlim=(0, 1),
        ylim=(0, 1),
        aspect="equal",
        xlabel="Learner's belief in the true secret",
        ylabel="Attacker's belief\nin the true secret",
        title=_title(weight, under),
    )
    percent_axis(ax.xaxis, ax.yaxis)
    legend_below(ax, 1)
    return ax


def plot_relative_threat(
    risk: RiskAssessment, under: str = "A", *, bins: int = 40, ax: Axes | None = None
) -> Axes:
    """Plot the distribution of Ti on a scale of powers of 2 (Groups Figures 2, 3: (b), (d)).

    Parameters
    ----------
    under : {"A", "L"}
        Whether to show rows threatened under the attacker's or under the learner's belief.
    bins : int
        Number of bars.
    """
    rows, weight = _threatened(risk, under)
    ax = make_axes(ax, 5.6, 3.8)
    logs = np.log2(rows["Ti"].to_numpy(float))
    low, high = (float(logs.min()), float(logs.max())) if len(logs) else (-1.0, 1.0)
    width = max((high - low) / bins, 0.05)
    # Zero is an edge, so that no bar mixes rows of which attacker and learner are surer.
    edges = np.arange(np.floor(low / width), np.ceil(high / width) + 1.5) * width
    for chosen, key, _, label in _sides(weight, logs > 0):
        ax.hist(
            logs[chosen],
            bins=edges.tolist(),
            weights=weight[chosen],
            color=COLOURS[key],
            hatch="///" if key == "less" else "",
            edgecolor="white",
            linewidth=0.4,
            label=label,
        )
    ax.axvline(0.0, color="0.3", linewidth=0.8)
    doubled = f"at least doubled: {weight[logs >= 1].sum():,.0f}"
    ax.axvline(1.0, color="0.3", linewidth=0.8, linestyle="--", label=doubled)
    skew = weighted_skewness(logs, weight)
    ax.set(
        xlabel="Relative threat: the attacker's belief over the learner's",
        ylabel="People",
        title=_title(weight, under),
    )
    if not np.isnan(skew):
        ax.annotate(f"skewness {skew:.2f}", (1, 1), xycoords="axes fraction", ha="right", va="top",
                    fontsize=8)  # fmt: skip
    times_axis(ax, logs=True)
    legend_below(ax, 2)
    return ax


def plot_thresholds(risk: RiskAssessment, *, ax: Axes | None = None) -> Axes:
    """Plot the share of all people whose relative threat exceeds a threshold.

    Marks show the quantiles among threatened rows that may serve as thresholds (Groups Remark 3).
    """
    ax = make_axes(ax, 5.4, 3.6)
    rows, weight = _threatened(risk, "A")
    order = np.argsort(-rows["Ti"].to_numpy(float), kind="stable")
    ordered = rows["Ti"].to_numpy(float)[order]
    times_axis(ax)
    ax.set(
        xlabel="Threshold of the relative threat",
        ylabel="People above the threshold",
        title="How many people exceed a threshold, and quantiles",
    )
    percent_axis(ax.yaxis)
    if len(ordered):
        share = np.cumsum(weight[order]) / risk.summary["rows"]
        # Nobody exceeds the largest Ti; just below a value, everyone from that value on does.
        ax.step(
            np.concatenate([ordered[:1], ordered]),
            np.concatenate([[0.0], share]),
            where="pre",
            color=COLOURS["more"],
        )
        ax.set_ylim(0, 1.1 * share[-1])
        marks = risk.thresholds((0.5, 0.9, 0.99))
        cuts, shares = (marks[name].to_numpy(float) for name in ("threshold", "share"))
        ax.plot(cuts, shares, "o", color="black", markersize=4)
        names = [f"{q:.0%}: ×{number(cut)}" for q, cut in zip(marks.index, cuts, strict=True)]
        name_points(ax, cuts, shares, names)
    return ax


def plot_group_sizes(risk: RiskAssessment, *, ax: Axes | None = None) -> Axes:
    """Plot the number of people in groups of each size, marking groups with a single secret."""
    ax = make_axes(ax, 5.6, 3.6)
    sizes = risk.post.table.group_sizes.to_numpy()
    single = risk.post.table.group_diversity.to_numpy() == 1
    top = int(sizes.max(initial=1))
    edges: Floats = np.arange(0.5, top + 1.5)
    if top > 30:
        edges = np.unique(np.geomspace(max(sizes.min(), 1), top + 1, 25).round()) - 0.5
    groups = [sizes[~single], sizes[single]] if single.any() else [sizes]
    ax.hist(
        groups,
        bins=edges.tolist(),
        weights=groups,
        stacked=True,
        color=[COLOURS["less"], COLOURS["more"]][: len(groups)],
        label=["groups with several secrets", "groups with a single secret"][: len(groups)],
        edgecolor="white",
        linewidth=0.4,
    )
    hidden = risk.post.table.n_suppressed
    more = f"; {hidden:,} rows suppressed" if hidden else ""
    ax.set(xlabel="People in the group", ylabel="People", title=f"{len(sizes):,} groups{more}")
    if top > 30:
        plain_log_axis(ax)
    else:
        ax.locator_params(axis="x", integer=True)
    if len(groups) > 1:
        for bar in ax.patches[len(edges) - 1 :]:
            bar.set_hatch("///")
        legend_below(ax)
    return ax


def plot_top_rows(risk: RiskAssessment, top: int = 15, *, ax: Axes | None = None) -> Axes:
    """Plot the learner's and attacker's levels for the rows of the largest relative threat.

    Bars show two Monte-Carlo standard errors.
    """
    rows = risk.threatened.head(top)[::-1]
    ax = make_axes(ax, 5.4, 1.2 + 0.25 * max(len(rows), 4))
    place = np.arange(len(rows))
    p_l, p_a = rows["p_L"].to_numpy(float), rows["p_A"].to_numpy(float)
    ax.hlines(place, p_l, p_a, color="0.6", linewidth=1)
    for values, error, key, marker, label in (
        (p_l, rows["se_p_L"], "less", "s", "learner"),
        (p_a, rows["se_p_A"], "more", "o", "attacker"),
    ):
        ax.errorbar(values, place, xerr=2 * error.to_numpy(float), fmt=marker, markersize=5,
                    color=COLOURS[key], label=label, linewidth=1)  # fmt: skip
    for y, x, ratio in zip(place, p_a, rows["Ti"], strict=True):
        ax.annotate(f"×{number(ratio)}", (x, y), textcoords="offset points", xytext=(7, 0),
                    va="center", fontsize=8)  # fmt: skip
    ax.set_yticks(place, [str(label) for label in rows.index])
    ax.set(xlabel="Belief in the true secret", ylabel="Row", title="Largest relative threats")
    ax.set_xlim(0, 1.15)
    ax.set_xticks(np.linspace(0, 1, 6))
    percent_axis(ax.xaxis)
    legend_below(ax)
    return ax


def plot_reliability(
    risk: RiskAssessment,
    beliefs: Sequence[str] = ("attacker", "learner"),
    *,
    ax: Axes | None = None,
) -> Axes:
    """Plot how often best guesses are right against how sure they are stated to be.

    On the diagonal stated certainty is correct; below it, it is exaggerated. Whiskers are 95%
    intervals; marker size grows with the number of people.

    Parameters
    ----------
    beliefs : sequence of str
        Rows of `RiskAssessment.scores` to show.
    """
    for name in beliefs:
        one_of("beliefs", name, RELIABILITY)
    ax = make_axes(ax, 4.6, 4.8)
    ax.plot([0, 1], [0, 1], color="0.3", linewidth=0.8)
    for name in beliefs:
        colour, marker = RELIABILITY[name]
        lines, score = risk.calibration.loc[name], risk.scores.loc[name]
        observed = lines["observed"].to_numpy()
        whiskers = np.stack([observed - lines["low"].to_numpy(), lines["high"] - observed])
        whiskers = np.maximum(whiskers, 0.0)  # limits at 0 and 1 may differ by rounding
        ax.errorbar(lines["stated"], observed, yerr=whiskers, fmt="none", ecolor=COLOURS[colour],
                    linewidth=1)  # fmt: skip
        ax.scatter(
            lines["stated"],
            observed,
            s=12 + 150 * lines["people"].to_numpy() / risk.summary["rows"],
            marker=marker,
            facecolors=COLOURS[colour],
            alpha=0.75,
            label=f"{name.replace('_', ' ')}: calibration error {score['ece']:.1%}",
        )
    ax.set(
        xlim=(0, 1),
        ylim=(0, 1),
        aspect="equal",
        xlabel="Stated certainty of the best guess",
        ylabel="Best guesses\nthat are right",
        title="Can stated certainty be believed?",
    )
    percent_axis(ax.xaxis, ax.yaxis)
    legend_below(ax, 1)
    return ax


def _threatened(risk: RiskAssessment, under: str) -> tuple[pd.DataFrame, Floats]:
    """Threatened rows, and the number of people of each; ties count in part, as in `GT_A`."""
    one_of("under", under, WHO)
    threatened = risk.rows[f"threatened_{under}"].to_numpy(float)
    return risk.rows[threatened > 0], (threatened * risk.people.to_numpy())[threatened > 0]


def _title(weight: Floats, under: str) -> str:
    return f"{weight.sum():,.0f} secrets that the {WHO[under]} guesses right"


def _sides(weight: Floats, more: Mask) -> tuple[tuple[Mask, str, str, str], ...]:
    """Who is surer: mask, colour, marker, and label with numbers that add up."""
    surer = round(float(weight[more].sum()))
    others = round(float(weight.sum())) - surer
    return (
        (more, "more", "o", f"attacker more certain: {surer:,}"),
        (~more, "less", "s", f"learner at least as certain: {others:,}"),
    )


def _distinct(x: Floats, y: Floats, people: Floats) -> tuple[Floats, Floats]:
    """Distinct points and the number of people of each."""
    points, which = np.unique(np.stack([x, y], axis=1), axis=0, return_inverse=True)
    return points, np.bincount(which.ravel(), people, len(points)).astype(np.float64)
