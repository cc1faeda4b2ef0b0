"""The parts of the report, as plain data for the template."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.diagnostics.predictive import predictive_check
from anonbayes.errors import ModelError
from anonbayes.formats import Table, count, number, ratio, share
from anonbayes.io.text import ROW
from anonbayes.risk.measures import GROUPS, MEASURES
from anonbayes.risk.sensitivity import sensitivity_of
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

__all__ = [
    "Calibration",
    "PopulationTable",
    "RowTable",
    "ShownMeasure",
    "attackers_table",
    "breakdown_table",
    "by_number",
    "calibration_section",
    "check_table",
    "comparison_table",
    "dependence",
    "found_table",
    "measure_groups",
    "model_table",
    "overview_tables",
    "population_tables",
    "row_contributions",
    "row_table",
    "threshold_table",
    "versions_table",
    "worst_table",
]


# -------------------------------------------------------------------------------------------------
# Rows of threatened people: by number only, or with their values when asked for.

NUMBERS = (
    ("Ti", "Relative threat", "ratio", "How many times surer the attacker is than the learner"),
    ("p_A", "Attacker", "share", "The attacker's belief in the true secret"),
    ("p_L", "Learner", "share", "Belief of somebody who only learned about the population"),
    ("p_RW", "Random worlds", "share", "Belief when all compatible tables are equally likely"),
    ("candidates", "Candidates", "count", "Number of released rows that the person could be"),
    ("weight", "People", "count", "Number of people that the row stands for"),
    ("se_Ti", "Error of the threat", "number", "Standard error of the relative threat"),
)


@dataclass(frozen=True)
class RowTable:
    """What the interactive table shows.

    Attributes
    ----------
    columns : tuple of dict
        ``name``, ``label``, ``kind`` (row, text, share, ratio, count, number) and ``title``.
    rows : list of lists
        Plain numbers and texts, the largest relative threat first.
    total : int
        Number of threatened rows, shown here or not.
    """

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
    """Return threatened rows, the largest relative threat first.

    Parameters
    ----------
    risk : RiskAssessment
        Numbered by `by_number`.
    labels : pandas.Index, optional
        Labels of the cleartext's rows. With them the values of people are shown as well.
    most : int
        Largest number of rows.

    Examples
    --------
    >>> import anonbayes as ab
    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> risk = post.assess(ab.datasets.load("table1"))
    >>> [c["name"] for c in row_table(risk).columns]
    ['row', 'Ti', 'p_A', 'p_L', 'p_RW', 'candidates', 'se_Ti']
    >>> row_table(risk, labels=risk.rows.index).columns[-1]["name"]
    'ZIP'
    """
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


@dataclass(frozen=True)
class ShownMeasure:
    """A measure as it is shown."""

    name: str
    title: str
    value: str
    error: str
    meaning: str
    caution: str


def measure_groups(risk: RiskAssessment) -> dict[str, list[ShownMeasure]]:
    """Return every measure with value, standard error and meaning, by heading."""
    return {
        heading: [
            ShownMeasure(
                m.name,
                m.title,
                m.show(float(risk.summary[m.name])),
                m.show_error(float(risk.standard_errors[m.name])),
                m.sentence,
                risk.cautions.get(m.name, ""),
            )
            for m in MEASURES.values()
            if m.group == heading
        ]
        for heading in GROUPS
    }


@dataclass(frozen=True)
class Calibration:
    """How good the beliefs are, for readers without statistics.

    Attributes
    ----------
    sentences : tuple of str
        What a reader should take away.
    bins : Table
        By stated certainty: how many people, and how often the best guess was right.
    scores : Table
        Scores of all beliefs.
    """

    sentences: tuple[str, ...]
    bins: Table
    scores: Table


def calibration_section(risk: RiskAssessment) -> Calibration:
    """Return stated against observed certainty of attacker and learner, and the scores.

    Examples
    --------
    >>> import anonbayes as ab
    >>> post = ab.fit(
    ...     ab.datasets.load("clinic_local"),
    ...     evidence="independent",
    ...     draws=5,
    ...     seed=1,
    ...     progressbar=False,
    ... )
    >>> section = calibration_section(post.assess(ab.datasets.load("clinic")))
    >>> section.sentences[1]
    'Of 1,075 people about whom the learner was 30–40% sure, the best guess was right for 29.1%.'
    """
    scores = risk.belief_scores
    sentences = [scores.worst_bin("A"), scores.worst_bin("L")]
    sentences += [scores.below_text] if scores.below_random_worlds else []
    sentences += [caution.text for caution in scores.cautions.values()]
    if len(sentences) == 2:
        sentences.append(
            "Attacker and learner are right as often as they claim, as far as these data can tell."
        )
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
    names = ("right", "log_loss", "brier", "ece")
    lines = [
        [str(name).replace("_", " "), *_scores(line, names), share(line["stated"])]
        for name, line in scores.table.iterrows()
    ]
    lines += [
        [str(name).replace("_", " "), *_scores(line, names), ""]
        for name, line in scores.differences.iterrows()
    ]
    return Calibration(
        tuple(sentences),
        Table(
            ["Belief", "Sure of the best guess", "People", "On average", "Right", "95% interval"],
            bins,
            "How sure, and how often right",
            frozenset({1}),
        ),
        Table(
            ["Belief", "Right", "Log loss", "Brier score", "Calibration error", "Mean certainty"],
            lines,
            "Scores of the beliefs, with standard errors",
        ),
    )


def _scores(line: pd.Series, names: tuple[str, ...]) -> list[str]:
    return [f"{number(line[n])} ± {number(line[f'{n}_se'], 2)}" for n in names]


@dataclass(frozen=True)
class EvidenceSection:
    """How attributes add up, and why.

    Attributes
    ----------
    sentences : tuple of str
        Which evidence was taken, and what that means.
    weights, scores : Table or None
        What each attribute counts, and held-out scores of the candidates; None where nobody asked.
    """

    sentences: tuple[str, ...]
    weights: Table | None
    scores: Table | None


def dependence(post: Posterior) -> str:
    """Return which attributes go together more than the model says; empty if one cannot tell."""
    try:
        return predictive_check(post, draws=60).text
    except ModelError:
        return ""


def prior_range(risk: RiskAssessment) -> str:
    """Return how far the threats depend on the prior; empty where the prior is not ours."""
    found = sensitivity_of(risk)
    return "" if found is None else found.text


def evidence_section(post: Posterior) -> EvidenceSection:
    """Return how much each attribute counts in the beliefs, and which scores decided it.

    Examples
    --------
    >>> import anonbayes as ab
    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> evidence_section(post).sentences[0]
    'Every attribute counts in full: evidence is independent.'
    """
    if post.evidence == "weighted":
        taken = "Every attribute has a weight: evidence is weighted, so that nothing counts twice."
    else:
        taken = "Every attribute counts in full: evidence is independent."
    reason = post.evidence_reason
    sentences = (taken, f"{reason[:1].upper()}{reason[1:]}.")
    if post.evidence_weights is None:
        return EvidenceSection(sentences, None, None)
    weights = [
        [
            str(name),
            number(line["weight"]) + (f" ± {number(line['se'], 2)}" if line["se"] > 0 else ""),
            number(line["alone"], 2),
            number(line["added"], 2),
            str(line["meaning"]),
        ]
        for name, line in post.weights.iterrows()
    ]
    scores = [
        [
            str(name),
            number(line["log_score"], 4),
            f"{number(line['difference'], 2)} ± {number(line['se'], 2)}" if i else "best",
        ]
        for i, (name, line) in enumerate(post.scores.iterrows())
    ]
    return EvidenceSection(
        sentences,
        Table(
            ["Attribute", "Weight", "Tells alone", "Adds to the others", "In words"],
            weights,
            "How much each attribute counts; what it tells in nats per row of held-out log score",
            frozenset({4}),
        ),
        Table(
            ["Evidence", "Log score per row", "Difference to the best"],
            scores,
            "Held-out scores, from the release alone",
        ),
    )


def standing_out(found: Mapping[str, Identity]) -> Table | None:
    """Table of who stands out in the population, by the release and by the cleartext."""
    if not found:
        return None
    names = list(found)
    first = found[names[0]]

    def cell(who: Identity, measure: str) -> str:
        if measure not in who.summary.index:
            return ""
        values = [
            float(who.summary[name].to_dict()[measure]) for name in ("estimate", "low", "high")
        ]
        estimate, low, high = (f"{v:,.0f}" if v % 1 == 0 else number(v) for v in values)
        return estimate if pd.isna(values[1]) else f"{estimate} ({low} to {high})"

    fullest = max((who.summary for who in found.values()), key=len)  # has all lines, in order
    return Table(
        ["", *(name.capitalize() for name in names)],
        [
            [str(meaning), *(cell(who, str(m)) for who in found.values())]
            for m, meaning in fullest["meaning"].items()
        ],
        f"Who stands out among {first.population:,} people, with {first.probability:.0%} intervals",
    )


def attackers_table(found: Attackers) -> Table:
    """Attackers side by side, a line each."""
    rows = [
        [
            str(name),
            share(line["right"]),
            share(line["learner_right"]),
            share(line["doubled"]),
            share(line["sure"]),
            str(line["about"]),
        ]
        for name, line in found.table.iterrows()
    ]
    head = ["Attacker", "Secrets guessed right", "Without the table", "At least twice as certain",
            "Surer than 90%", "Assumption"]  # fmt: skip
    return Table(head, rows, "What each attacker finds out about the people of the table")


def found_table(found: Membership | Downcoding) -> Table:
    """Return the measures of an attack that asks for something else than a secret."""
    names = ("estimate", "low", "high") if "estimate" in found.summary else ("value",)
    lines = found.summary[["meaning", *names]].to_numpy().tolist()
    head = {"estimate": "Found", "low": "At least", "high": "At most", "value": "Found"}
    return Table(
        ["", *(head[name] for name in names)],
        [
            [text, *("" if math.isnan(v) else f"{v:,.4g}" for v in values)]
            for text, *values in lines
        ],
        "What is found, with 95% intervals over people" if len(names) > 1 else "What is found",
    )


def comparison_table(compared: Comparison, table: pd.DataFrame, threat: str) -> Table:
    """Return releases side by side, the one with the least threat first."""
    measure, errors = MEASURES[threat], compared.standard_errors[threat].to_dict()
    rows = [
        [
            str(name),
            count(line["k"]),
            count(line["l"]),
            measure.show(float(line[threat])),
            measure.show_error(float(errors[name])),
            share(line["two_way_error"]),
            share(line["margin_error"]),
            share(line["GT_L"]),
            number(line["loss"]),
            "yes" if line["efficient"] else "no",
            "yes" if line["converged"] else "no",
            "yes" if line["acceptable"] else "no",
        ]
        for name, line in table.sort_values(threat, kind="stable").iterrows()
    ]
    head = ["Release", "k", "l", measure.title, "Its standard error", "Two-way tables off by"]
    head += ["Margins off by", "Classifier right", "Loss", "Worth choosing from", "Converged"]
    return Table(
        [*head, "Keeps the limits"],
        rows,
        "Threat and usefulness of the releases, the least threatening first",
        frozenset({9, 10, 11}),
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
    classes = risk.breakdown().sort_values("GT_A", ascending=False, kind="stable")
    rows = [
        [
            str(label),
            count(line["rows"]),
            share(line["GT_A"]),
            share(line["GT_L"]),
            share(line["doubled"]),
            ratio(line["max_Ti"]),
        ]
        for label, line in classes.iterrows()
    ]
    head = ["People", "Threatened", "From population alone", "At least doubled", "Largest threat"]
    return Table([str(classes.index.name), *head], rows, "Threats by sensitive value")


def overview_tables(table: ReleasedTable) -> tuple[Table, Table]:
    """Return the anatomy of the release: the whole, and attribute by attribute."""
    figures = [
        [str(name), f"{value:,}" if isinstance(value, int | float) else str(value)]
        for name, value in table.overview().items()
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
    hidden = np.array([label.startswith(NOT_SHOWN) for label in labels])
    if hidden.any():
        labels = [x for x, away in zip(labels, hidden, strict=True) if not away]
        labels.append(f"{count(int(hidden.sum()), 'value')} that the release does not show")
        shares = np.column_stack([shares[:, ~hidden], shares[:, hidden].sum(axis=1)])
        mean = np.append(mean[~hidden], mean[hidden].sum())
    tail = (1 - INTERVAL) / 2
    low, high = np.quantile(shares, [tail, 1 - tail], axis=0)
    order = np.argsort(-mean, kind="stable")[:MOST_VALUES]
    rows = [(labels[i], float(mean[i]), float(low[i]), float(high[i])) for i in order]
    return PopulationTable(name, rows, len(labels) - len(rows))


def model_table(post: Posterior) -> Table:
    """Return engine, draws and prior."""
    attrs = post.attrs
    rows = [
        ["Engine", post.method + (f", step {post.step}" if post.step else "")],
        ["Evidence", post.evidence + (", pooled prior" if post.pooled else "")],
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
