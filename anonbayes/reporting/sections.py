"""Tables of the report, section by section."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.release.show import overview
from anonbayes.reporting.formats import Table, count, number, ratio, share, standard_error

if TYPE_CHECKING:
    from anonbayes.diagnostics import DiagnosticReport
    from anonbayes.inference.posterior import Posterior
    from anonbayes.release.table import ReleasedTable
    from anonbayes.risk.assessment import RiskAssessment

__all__ = [
    "Measure",
    "PopulationTable",
    "breakdown_table",
    "check_table",
    "measure_groups",
    "model_table",
    "overview_tables",
    "population_tables",
    "threshold_table",
    "versions_table",
    "worst_table",
]

GROUPS = {
    "Threat to people": ("GT_A", "GT_L", "RGT_A", "GT_RW", "threatened", "rows"),
    "Relative threat": (
        "max_Ti", "Ti_q50", "Ti_q75", "Ti_q90", "Ti_q95", "Ti_q99", "doubled", "skewness",
    ),
    "Usefulness": ("RF", "ETV", "ideal", "baseline"),
    "Errors of the probabilities": ("ABS_A", "ABS_L", "ABS_RW"),
}  # fmt: skip
TITLES = {
    "GT_A": "Threatened by an attacker",
    "GT_L": "Guessed from the population",
    "GT_RW": "Threatened under random worlds",
    "RGT_A": "Cost of being in the table",
    "RF": "Relative faithfulness",
    "ETV": "Empirical total variation",
    "ABS_A": "Absolute error, attacker",
    "ABS_L": "Absolute error, learner",
    "ABS_RW": "Absolute error, random worlds",
    "baseline": "Baseline accuracy",
    "ideal": "Ideal accuracy",
    "max_Ti": "Largest relative threat",
    "Ti_q50": "Median relative threat",
    "Ti_q75": "75% quantile",
    "Ti_q90": "90% quantile",
    "Ti_q95": "95% quantile",
    "Ti_q99": "99% quantile",
    "doubled": "At least doubled",
    "skewness": "Skewness",
    "threatened": "Threatened people",
    "rows": "People",
}
SHARES = frozenset({"GT_A", "GT_L", "GT_RW", "RGT_A", "RF", "ETV", "baseline", "ideal", "doubled"})
COUNTS = frozenset({"threatened", "rows"})
INTERVAL = 0.9
MOST_DRAWS = 1000
MOST_VALUES = 12


@dataclass(frozen=True)
class Measure:
    """A measure as it is shown."""

    name: str
    title: str
    value: str
    error: str
    meaning: str


def measure_groups(risk: RiskAssessment) -> dict[str, list[Measure]]:
    """Return every measure with value, standard error and meaning, by heading."""
    frame = risk.measures
    known = {name for names in GROUPS.values() for name in names}
    headings = GROUPS | {"Further measures": tuple(n for n in frame.index if n not in known)}
    out = {}
    for heading, names in headings.items():
        found = [_measure(name, *frame.loc[name]) for name in names if name in frame.index]
        if found:
            out[heading] = found
    return out


def _measure(name: str, value: float, error: float, meaning: object) -> Measure:
    if name in SHARES:
        shown = share(value)
    elif name in COUNTS:
        shown = count(value)
    elif name.startswith(("Ti_", "max_Ti")):
        shown = ratio(value)
    else:
        shown = number(value)
    return Measure(
        name,
        TITLES.get(name, name),
        shown,
        standard_error(float(error), of_share=name in SHARES),
        meaning if isinstance(meaning, str) else "",
    )


def threshold_table(risk: RiskAssessment) -> Table:
    """Return candidate thresholds of the relative threat."""
    rows = [
        [f"{float(str(q)):.0%}", ratio(cut), count(above), share(part)]
        for q, cut, above, part in risk.thresholds().itertuples()
    ]
    return Table(
        ["Quantile among threatened people", "Threshold", "People above it", "Share of all"],
        rows,
        "Candidate thresholds of the relative threat",
    )


def breakdown_table(risk: RiskAssessment) -> Table:
    """Return threats by sensitive value, the most threatened first."""
    found = risk.breakdown().sort_values("GT_A", ascending=False, kind="stable")
    rows = [
        [
            str(label),
            count(line["rows"]),
            share(line["GT_A"]),
            share(line["GT_L"]),
            share(line["doubled"]),
            ratio(line["max_Ti"]),
        ]
        for label, line in found.iterrows()
    ]
    head = ["People", "Threatened", "From population alone", "At least doubled", "Largest threat"]
    return Table([str(found.index.name), *head], rows, "Threats by sensitive value")


def overview_tables(table: ReleasedTable) -> tuple[Table, Table]:
    """Return the anatomy of the release: the whole, and attribute by attribute."""
    figures = [
        [str(name), f"{value:,}" if isinstance(value, int | float) else str(value)]
        for name, value in overview(table).items()
    ]
    frame = table.describe()
    lines = [
        [
            str(name),
            str(line["role"]),
            count(line["values"]),
            count(line["distinct cells"]),
            number(line["average values per cell"]),
            share(line["shown in clear"]),
        ]
        for name, line in frame.iterrows()
    ]
    head = ["Attribute", "Role", "Values", "Distinct cells", "Values per cell", "Shown in clear"]
    return (
        Table(["Figure", "Value"], figures, "The release as a whole"),
        Table(head, lines, "What each attribute hides", frozenset({1})),
    )


@dataclass(frozen=True)
class PopulationTable:
    """Estimated shares of an attribute's values in the population.

    Attributes
    ----------
    name : str
        The attribute.
    rows : list of (value, mean, low, high)
        Largest first; shares.
    left_out : int
        Number of values not shown.
    """

    name: str
    rows: list[tuple[str, float, float, float]]
    left_out: int


def population_tables(post: Posterior) -> Iterator[PopulationTable]:
    """Yield estimates for the sensitive attribute, then for the others.

    Means and central 90 % intervals of the posterior; an attribute's share is averaged over the
    sensitive values, draw by draw.
    """
    draws, secret = post.draws, post.table.sensitive
    joint = draws[f"pi_{secret}"].stack(sample=("chain", "draw"))
    step = max(1, joint.sizes["sample"] // MOST_DRAWS)
    p_secret = joint.transpose("sample", secret).to_numpy()[::step]
    yield _population(secret, post, p_secret)
    for name in post.table.attributes:
        given = draws[f"pi_{name}"].stack(sample=("chain", "draw"))
        values = given.transpose("sample", secret, name).to_numpy()[::step]
        yield _population(name, post, np.einsum("ds,dsk->dk", p_secret, values))


def _population(name: str, post: Posterior, shares: npt.NDArray[np.float64]) -> PopulationTable:
    labels = [str(label) for label in post.table.domains[name].labels]
    mean = shares.mean(axis=0)
    if name == post.table.sensitive:
        mean = post.secret_mean
    tail = (1 - INTERVAL) / 2
    low, high = np.quantile(shares, [tail, 1 - tail], axis=0)
    order = np.argsort(-mean, kind="stable")[:MOST_VALUES]
    rows = [(labels[i], float(mean[i]), float(low[i]), float(high[i])) for i in order]
    return PopulationTable(name, rows, len(labels) - len(rows))


def model_table(post: Posterior) -> Table:
    """Return engine, draws and prior."""
    attrs = post.idata.attrs
    rows = [
        ["Engine", post.method + (f", step {post.step}" if post.step else "")],
        ["Chains", f"{count(post.n_chains)} × {count(post.n_draws, 'draw')}"],
        ["Sweeps before them", f"{attrs.get('tune', 0)} (thinning {attrs.get('thin', 1)})"],
        [f"Prior of {post.table.sensitive} (alpha)", _weights(post.prior.alpha)],
    ]
    rows += [
        [f"Prior of {name} given {post.table.sensitive} (beta)", _weights(post.prior.beta[name])]
        for name in post.table.attributes
    ]
    return Table(["Setting", "Value"], rows, "Model and prior", frozenset({1}))


def _weights(values: npt.NDArray[np.float64]) -> str:
    low, high = float(values.min()), float(values.max())
    if low == high:
        return f"Dirichlet, every weight {low:g}"
    return f"Dirichlet, weights from {low:g} to {high:g}"


def check_table(report: DiagnosticReport) -> Table:
    """Return the findings of the diagnostics."""
    rows = [[check.name, check.status, check.finding] for check in report.checks]
    return Table(["Check", "Status", "Finding"], rows, "Convergence checks", frozenset({1, 2}))


def worst_table(report: DiagnosticReport, n: int = 8) -> Table | None:
    """Return the quantities that give most reason to worry; None without chains."""
    columns = [c for c in ("r_hat", "ess_bulk", "ess_tail", "mcse", "geweke_z", "weiss_between_p")
               if c in report.table and report.table[c].notna().any()]  # fmt: skip
    found = report.worst(n)
    if not columns or not len(found):
        return None
    rows = [
        [str(name), *(number(float(v)) for v in line)]
        for name, line in zip(found.index, found[columns].to_numpy(float), strict=True)
    ]
    titles = {"r_hat": "R-hat", "ess_bulk": "ESS (bulk)", "ess_tail": "ESS (tail)", "mcse": "MCSE",
              "geweke_z": "Geweke's z", "weiss_between_p": "Weiß p, between"}  # fmt: skip
    return Table(["Quantity", *(titles[c] for c in columns)], rows, "Quantities to look at first")


def versions_table(post: Posterior, settings: pd.Series) -> Table:
    """Return seed, versions and digest of the table."""
    attrs = post.idata.attrs
    rows = [["Seed of the draws", str(attrs.get("entropy", "not recorded"))]]
    rows += [[str(name), str(value)] for name, value in settings.items()]
    rows += [["Fingerprint of the release", str(post.table.fingerprint)]]
    rows += [
        [name.removesuffix("_version"), str(value)]
        for name, value in attrs.items()
        if str(name).endswith("_version")
    ]
    return Table(["What", "Value"], rows, "Seed and versions", frozenset({1}))
