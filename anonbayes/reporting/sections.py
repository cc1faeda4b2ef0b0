"""The parts of the report, as plain data for the template."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.diagnostics.predictive import predictive_check
from anonbayes.errors import ModelError
from anonbayes.formats import Table, count, label_of, number, ratio, share, with_error
from anonbayes.io.text import ROW
from anonbayes.risk.measures import MEASURES
from anonbayes.risk.sensitivity import sensitivity_of
from anonbayes.risk.threats import SCORES
from anonbayes.tables.evidence import NOT_SHOWN

if TYPE_CHECKING:
    from anonbayes.diagnostics import DiagnosticReport
    from anonbayes.inference.posterior import Posterior
    from anonbayes.risk.actors import Attackers
    from anonbayes.risk.assessment import RiskAssessment
    from anonbayes.risk.comparison import Comparison
    from anonbayes.risk.minimality import Downcoding
    from anonbayes.tables.table import ReleasedTable
    from anonbayes.uniqueness.identity import Identity
    from anonbayes.uniqueness.membership import Membership


# -------------------------------------------------------------------------------------------------
# Rows of threatened people: by number only, or with their values when asked for.

NUMBERS = (
    ("Ti", "Relative threat", "ratio", "The attacker's belief divided by the learner's"),
    ("p_A", "Attacker", "share", "The attacker's belief in the true secret"),
    ("p_L", "Learner", "share", "The learner's belief in the true secret"),
    ("p_RW", "Random worlds", "share", "Belief when all compatible tables are equally likely"),
    ("candidates", "Candidates", "count", "Number of released rows that the person could be"),
    ("weight", "People", "count", "Number of people that the row stands for"),
    ("se_Ti", "Error of the threat", "number", "Standard error of the relative threat"),
)


class RowTable(NamedTuple):
    """What the interactive table shows."""

    columns: tuple[dict[str, str], ...]
    rows: list[list[Any]]
    total: int

    def to_dict(self) -> dict[str, Any]:
        """Return what the page's script reads."""
        return {"columns": list(self.columns), "rows": self.rows}


def by_number(risk: RiskAssessment) -> RiskAssessment:
    """Return the same assessment with rows numbered from 0 in the order of the cleartext.

    Labels of the cleartext's index may be names or identifiers of people, unless they are known to
    be numbers of rows.
    """
    if _numbers_rows(risk.rows.index):
        return risk
    return replace(
        risk,
        rows=risk.rows.reset_index(drop=True),
        cleartext=risk.cleartext.reset_index(drop=True),
    )


def row_table(
    risk: RiskAssessment, *, labels: pd.Index | None = None, most: int = 5000
) -> RowTable:
    """Return threatened rows, the largest relative threat first."""
    total = len(risk.threatened)
    shown = risk.threatened.head(most)
    drawn = bool((shown["se_Ti"] > 0).any())
    numbers = [c for c in NUMBERS if c[0] in shown and (c[0] != "se_Ti" or drawn)]
    columns = [_column("row", "Row", "row", "Number of the row in the cleartext, from 0")]
    columns += [_column(*c) for c in numbers]
    cells: list[list[Any]] = [shown.index.tolist()]
    cells += [[_plain(v) for v in shown[name]] for name, *_ in numbers]
    if labels is not None:
        table = risk.post.table
        if not (isinstance(labels, pd.RangeIndex) or _numbers_rows(labels)):
            columns.append(_column("label", "Label", "text", "Label of the row in the cleartext"))
            cells.append([str(label) for label in labels[shown.index]])
        columns.append(_column("secret", table.sensitive, "text", "The true sensitive value"))
        columns.append(_column("guess", "Guess", "text", "What the attacker guesses"))
        cells += [[str(v) for v in shown[name]] for name in ("secret", "guess")]
        for name in table.attributes:
            columns.append(_column(name, name, "text", f"The person's {name}"))
            cells.append([str(v) for v in risk.cleartext[name].loc[shown.index]])
    return RowTable(tuple(columns), [list(row) for row in zip(*cells, strict=True)], total)


def row_contributions(risk: RiskAssessment, *, top: int = 10) -> Table | None:
    """Return, for the most threatened rows, the factor that knowing each attribute adds.

    None where nobody is threatened.
    """
    chosen = risk.threatened.index[:top]
    if not len(chosen):
        return None
    factor = np.exp2(risk.contributions(chosen)["adds_log2_Ti"]).unstack("attribute")
    attributes = list(risk.post.table.attributes)
    ordered = factor.loc[chosen, attributes]
    rows = [
        [str(label), ratio(float(risk.rows["Ti"].loc[label])), *(ratio(float(v)) for v in line)]
        for label, line in zip(ordered.index, ordered.to_numpy(float), strict=True)
    ]
    return Table(
        ["Row", "Relative threat", *attributes],
        rows,
        "Factor by which knowing an attribute changes the relative threat of a row",
    )


def _numbers_rows(index: pd.Index) -> bool:
    return bool(index.name == ROW and pd.api.types.is_integer_dtype(index.dtype))


def _column(name: str, label: str, kind: str, title: str) -> dict[str, str]:
    return {"name": name, "label": label, "kind": kind, "title": title}


def _plain(value: float) -> float | int | None:
    """Six digits are plenty; JSON knows no NaN."""
    if isinstance(value, int | np.integer):
        return int(value)
    return None if math.isnan(value) else float(f"{value:.6g}")


# -------------------------------------------------------------------------------------------------
# Tables of the report, section by section.

INTERVAL = 0.9
MOST_DRAWS = 1000
MOST_VALUES = 12
Columns = Mapping[str, tuple[str, Callable[[Any], str]]]


def lines_table(frame: pd.DataFrame, first: str, columns: Columns, caption: str) -> Table:
    """Return a line per line of a frame; `columns` has the heading and the format of each."""
    cells = [[label_of(label) for label in frame.index]]
    cells += [
        [show(value) for value in frame[name].tolist()] for name, (_, show) in columns.items()
    ]
    words = frozenset(i for i, (_, show) in enumerate(columns.values(), 1) if show in (str, _yes))
    head = [first, *(title for title, _ in columns.values())]
    return Table(head, list(zip(*cells, strict=True)), caption, words)


def _yes(value: Any) -> str:
    return "yes" if value else "no"


class Calibration(NamedTuple):
    """How good the beliefs are, for readers without statistics."""

    sentences: tuple[str, ...]
    bins: Table
    scores: Table


def calibration_section(risk: RiskAssessment) -> Calibration:
    """Return stated against observed certainty of attacker and learner, and the scores."""
    scores = risk.belief_scores
    sentences = [scores.worst_bin("A"), scores.worst_bin("L")]
    sentences += [scores.below_text] if scores.below_random_worlds else []
    sentences += [caution.text for caution in scores.cautions.values()]
    if len(sentences) == 2:
        sentences.append("The attacker and the learner are right about as often as they claim.")
    bins = [
        [
            name,
            f"{100 * line['from']:.0f}–{100 * line['to']:.0f}%",
            count(line["people"]),
            share(line["stated"]),
            share(line["observed"]),
            f"{share(line['low'])} to {share(line['high'])}",
        ]
        for name in ("attacker", "learner")
        for line in scores.bins(name)
    ]
    lines = [
        [
            str(name).replace("_", " "),
            *(with_error(line[n], line[f"{n}_se"]) for n in SCORES),
            share(line["stated"]) if "stated" in line else "",
        ]
        for frame in (scores.table, scores.differences)
        for name, line in frame.iterrows()
    ]
    head = ["Belief", "Stated certainty", "People", "Stated on average", "Right", "95% interval"]
    names = ["Belief", "Right", "Log loss", "Brier score", "Calibration error", "Mean certainty"]
    return Calibration(
        tuple(sentences),
        Table(head, bins, "How sure, and how often right", frozenset({1})),
        Table(names, lines, "Scores of the beliefs, with standard errors"),
    )


def dependence(post: Posterior) -> str:
    """Say which attributes depend on each other more than in the model; empty if unknown."""
    try:
        return predictive_check(post, draws=60).text
    except ModelError:
        return ""


def prior_range(risk: RiskAssessment) -> str:
    """Return how far the threats depend on the prior; empty where the prior is not ours."""
    found = sensitivity_of(risk)
    return "" if found is None else found.text


class EvidenceSection(NamedTuple):
    """How attributes add up, and why; no tables where nobody asked."""

    sentences: tuple[str, ...]
    weights: Table | None = None
    scores: Table | None = None


def evidence_section(post: Posterior) -> EvidenceSection:
    """Return how much each attribute counts in the beliefs, and which scores decided it."""
    if post.evidence == "weighted":
        taken = (
            "Evidence is weighted: each attribute has a weight, so that attributes that say the "
            "same do not count twice."
        )
    else:
        taken = "Evidence is independent: every attribute counts in full."
    reason = post.evidence_reason
    sentences = (taken, f"{reason[:1].upper()}{reason[1:]}.")
    if post.evidence_weights is None:
        return EvidenceSection(sentences)
    weights, scores = post.weights, post.scores
    with_errors = [
        with_error(weight, error) if error > 0 else number(weight)
        for weight, error in weights[["weight", "se"]].to_numpy(float).tolist()
    ]
    behind = [
        with_error(difference, error) if i else "best"
        for i, (difference, error) in enumerate(scores[["difference", "se"]].to_numpy(float))
    ]
    return EvidenceSection(
        sentences,
        lines_table(
            weights.assign(weight=with_errors),
            "Attribute",
            {
                "weight": ("Weight", _same),
                "alone": ("Tells alone", _two_digits),
                "added": ("Adds to the others", _two_digits),
                "meaning": ("In words", str),
            },
            "How much each attribute counts, and what it tells: gain in held-out log score, in "
            "nats per row",
        ),
        lines_table(
            scores.assign(behind=behind),
            "Evidence",
            {
                "log_score": ("Log score per row", lambda x: number(x, 4)),
                "behind": ("Difference from the best", _same),
            },
            "Held-out scores, from the release alone",
        ),
    )


def _same(text: str) -> str:
    """Text that stands like a number."""
    return text


def _two_digits(value: float) -> str:
    return number(value, 2)


def standing_out(found: Mapping[str, Identity]) -> Table | None:
    """Table of who stands out in the population, by the release and by the cleartext."""
    if not found:
        return None
    first = next(iter(found.values()))

    def cell(who: Identity, measure: str) -> str:
        if measure not in who.summary.index:
            return ""
        line = who.summary.loc[[measure], ["estimate", "low", "high"]]
        values = line.to_numpy(float)[0].tolist()
        estimate, low, high = (f"{v:,.0f}" if v % 1 == 0 else number(v) for v in values)
        return estimate if math.isnan(values[1]) else f"{estimate} ({low} to {high})"

    fullest = max((who.summary for who in found.values()), key=len)  # has all lines, in order
    return Table(
        ["", *(name.capitalize() for name in found)],
        [
            [str(meaning), *(cell(who, str(m)) for who in found.values())]
            for m, meaning in fullest["meaning"].items()
        ],
        f"Who stands out among {first.population:,} people, with {first.probability:.0%} intervals",
    )


def attackers_table(found: Attackers) -> Table:
    """Attackers side by side, a line each."""
    return lines_table(
        found.table,
        "Attacker",
        {
            "right": ("Secrets guessed right", share),
            "learner_right": ("Without knowing who is in it", share),
            "doubled": ("At least twice as sure", share),
            "sure": ("Surer than 90%", share),
            "about": ("Assumption", str),
        },
        "What each attacker finds out about the people in the table",
    )


def attackers_notes(found: Attackers, risk: RiskAssessment | None) -> list[str]:
    """Return what further releases give away, and remarks that the page does not make already."""
    made = () if risk is None else risk.remarks
    notes = [
        f"{name.capitalize()}: {remark}"
        for name, one in found.risks.items()
        for remark in one.remarks
        if remark not in made
    ]
    return [found.further, *notes] if found.further else notes


def found_table(found: Membership | Downcoding) -> Table:
    """Return the measures of an attack on something other than a secret."""
    titles = {"estimate": "Found", "low": "At least", "high": "At most", "value": "Found"}
    names = [name for name in titles if name in found.summary]
    return lines_table(
        found.summary.set_index("meaning"),
        "",
        {name: (titles[name], lambda v: "" if math.isnan(v) else f"{v:,.4g}") for name in names},
        "What is found, with 95% intervals over people" if len(names) > 1 else "What is found",
    )


def members_table(found: Membership) -> Table:
    """Return the people of the table who are most surely in it, by number."""
    inside = found.rows[found.rows["member"]].reset_index(drop=True).nlargest(10, "probability")
    return lines_table(
        inside,
        "Row",
        {
            "probability": ("Probability of being in the table", share),
            "fitting": ("Rows that fit", "{:,.0f}".format),
            "expected": ("People outside who would fit", number),
        },
        "People in the table whose membership is most certain",
    )


def comparison_table(compared: Comparison, table: pd.DataFrame, threat: str) -> Table:
    """Return releases side by side, the one with the least threat first."""
    measure = MEASURES[threat]
    return lines_table(
        table.assign(error=compared.standard_errors[threat]).sort_values(threat, kind="stable"),
        "Release",
        {
            "k": ("k", count),
            "l": ("l", count),
            threat: (measure.title, measure.show),
            "error": ("Its standard error", measure.show_error),
            "two_way_error": ("Two-way tables off by", share),
            "margin_error": ("Margins off by", share),
            "accuracy": ("Classifier right", share),
            "loss": ("Loss", number),
            "efficient": ("Worth choosing from", _yes),
            "converged": ("Converged", _yes),
            "acceptable": ("Keeps the limits", _yes),
        },
        "Threat and usefulness of the releases, the least threatening first",
    )


def threshold_table(risk: RiskAssessment) -> Table:
    """Return candidate thresholds of the relative threat."""
    found = risk.thresholds()
    return lines_table(
        found.set_axis([f"{q:.0%}" for q in found.index.tolist()]),
        "Quantile among threatened people",
        {
            "threshold": ("Threshold", ratio),
            "above": ("People above it", count),
            "share": ("Share of all", share),
        },
        "Candidate thresholds of the relative threat",
    )


def breakdown_table(risk: RiskAssessment) -> Table:
    """Return threats by sensitive value, the most threatened first."""
    classes = risk.breakdown().sort_values("GT_A", ascending=False, kind="stable")
    return lines_table(
        classes,
        str(classes.index.name),
        {
            "rows": ("People", count),
            "GT_A": ("Threatened", share),
            "GT_L": ("From the population alone", share),
            "doubled": ("At least doubled", share),
            "max_Ti": ("Largest relative threat", ratio),
        },
        "Threats by sensitive value",
    )


def overview_tables(table: ReleasedTable) -> tuple[Table, Table]:
    """Return the release in figures: the whole, and attribute by attribute."""
    figures = [
        [str(name), f"{value:,}" if isinstance(value, int | float) else str(value)]
        for name, value in table.overview().items()
    ]
    attributes = lines_table(
        table.describe(),
        "Attribute",
        {
            "role": ("Role", str),
            "values": ("Values", count),
            "distinct cells": ("Distinct cells", count),
            "average values per cell": ("Values per cell", number),
            "shown in clear": ("Shown in clear", share),
        },
        "What each attribute hides",
    )
    return Table(["Figure", "Value"], figures, "The release as a whole"), attributes


class PopulationTable(NamedTuple):
    """Shares of an attribute's values: value, mean, low, high; and how many are not shown."""

    name: str
    rows: list[tuple[str, float, float, float]]
    left_out: int


def population_tables(post: Posterior) -> Iterator[PopulationTable]:
    """Yield estimates for the sensitive attribute, then for the others.

    Means and central 90% intervals of the posterior; an attribute's share is averaged over the
    sensitive values, draw by draw.
    """
    draws, secret = post.few_draws(MOST_DRAWS), post.table.sensitive
    yield _population(secret, post, draws[f"pi_{secret}"])
    for name in post.table.attributes:
        shares = np.einsum("ds,dsk->dk", draws[f"pi_{secret}"], draws[f"pi_{name}"])
        yield _population(name, post, shares)


def _population(name: str, post: Posterior, shares: npt.NDArray[np.float64]) -> PopulationTable:
    labels = [str(label) for label in post.table.domains[name].labels]
    mean = shares.mean(axis=0)
    if name == post.table.sensitive:
        mean = post.secret_mean
    hidden = np.array([label.startswith(NOT_SHOWN) for label in labels])
    if hidden.any():
        labels = [x for x, away in zip(labels, hidden, strict=True) if not away]
        labels.append(f"{count(int(hidden.sum()), 'value')} not named in the release")
        shares = np.column_stack([shares[:, ~hidden], shares[:, hidden].sum(axis=1)])
        mean = np.append(mean[~hidden], mean[hidden].sum())
    tail = (1 - INTERVAL) / 2
    low, high = np.quantile(shares, [tail, 1 - tail], axis=0)
    order = np.argsort(-mean, kind="stable")[:MOST_VALUES]
    rows = [(labels[i], float(mean[i]), float(low[i]), float(high[i])) for i in order]
    return PopulationTable(name, rows, len(labels) - len(rows))


def model_table(post: Posterior) -> Table:
    """Return engine, draws and prior."""
    rows = [
        ["Engine", post.method + (f", step {post.step}" if post.step else "")],
        ["Evidence", post.evidence + (", pooled prior" if post.pooled else "")],
        *_draws(post),
        [f"Prior of {post.table.sensitive} (alpha)", _weights(post.prior.alpha)],
    ]
    rows += [
        [f"Prior of {name} given {post.table.sensitive} (beta)", _weights(post.prior.beta[name])]
        for name in post.table.attributes
    ]
    return Table(["Setting", "Value"], rows, "Model and prior", frozenset({1}))


def _draws(post: Posterior) -> list[list[str]]:
    if not post.simulated:
        return [["Draws", f"{post.n_chains * post.n_draws:,}, independent"]]
    sweeps = f"{post.attrs.get('tune', 0)} (thinning {post.attrs.get('thin', 1)})"
    return [
        ["Chains", f"{count(post.n_chains)} × {count(post.n_draws, 'draw')}"],
        ["Tuning sweeps", sweeps],
    ]


def _weights(values: npt.NDArray[np.float64]) -> str:
    low, high = float(values.min()), float(values.max())
    if low == high:
        return f"Dirichlet, every weight {low:g}"
    return f"Dirichlet, weights from {number(low)} to {number(high)}"


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
    titles = {"r_hat": "R-hat", "ess_bulk": "ESS (bulk)", "ess_tail": "ESS (tail)", "mcse": "MCSE",
              "geweke_z": "Geweke's z", "weiss_between_p": "Weiß p, between"}  # fmt: skip
    shown: Columns = {c: (titles[c], number) for c in columns}
    return lines_table(
        found[columns].astype(float), "Quantity", shown, "Quantities to look at first"
    )


def versions_table(post: Posterior, settings: pd.Series) -> Table:
    """Return seed, versions and digest of the table."""
    attrs = post.attrs
    rows = [["Seed of the draws", str(attrs.get("entropy", "not recorded"))]]
    rows += [[str(name), str(value)] for name, value in settings.items()]
    rows += [["Fingerprint of the release", str(post.table.fingerprint)]]
    rows += [
        [name.removesuffix("_version"), str(value)]
        for name, value in attrs.items()
        if str(name).endswith("_version")
    ]
    return Table(["What", "Value"], rows, "Seed and versions", frozenset({1}))
