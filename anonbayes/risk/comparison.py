"""Compare releases of the same cleartext, and recommend one."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from anonbayes.arrays import Floats
from anonbayes.beliefs.belief import normalise
from anonbayes.beliefs.learner import learner_weights
from anonbayes.errors import AnonbayesError, TableError, nearest, one_of
from anonbayes.figures import (
    COLOURS,
    legend_below,
    make_axes,
    name_points,
    number_points,
    times_axis,
)
from anonbayes.formats import Table, share
from anonbayes.risk.assessment import RiskAssessment
from anonbayes.risk.faithfulness import ideal_of
from anonbayes.risk.measures import GROUPS, MEASURES
from anonbayes.risk.people import read_truth
from anonbayes.risk.threats import pair_threats, read_gain

if TYPE_CHECKING:
    from matplotlib.axes import Axes


THREATS = tuple(measure.name for measure in MEASURES.values() if measure.is_threat)
"""Measures of threat by which releases may be compared: smaller is better."""

FACTS: dict[str, tuple[str, Callable[..., str]]] = {
    "scheme": ("Scheme", str),
    "k": ("Smallest group", str),
    "l": ("Fewest secrets in a group", str),
    "groups": ("Groups", str),
    "suppressed": ("Suppressed rows", str),
    "margin_error": ("Margins off by", share),
    "two_way_error": ("Two-way tables off by", share),
    "loss": ("Values that a cell leaves open", share),
    "accuracy": ("Accuracy of a classifier trained on it", share),
    "accuracy_clear": ("Accuracy when trained on the cleartext", share),
}
"""Further properties of a release: title, and how to format it."""

KEPT = {
    "two_way_error": "Two-way tables kept",
    "margin_error": "Margins kept",
    "loss": "Values that cells rule out",
    "accuracy": "Accuracy of a classifier",
}
"""Kinds of usefulness that a recommendation can be based on, with their axis labels."""

CLEAR = 0.005
"""Difference in an error above which one release counts as more useful."""


@dataclass(frozen=True)
class Recommendation:
    """Which release to publish, and why. Returned by `Comparison.recommend`."""

    best: str
    ties: tuple[str, ...]
    limited: bool


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Measures of several releases of the same cleartext. Returned by `compare`.

    Attributes
    ----------
    assessments : mapping of str to RiskAssessment
        The assessments by name.
    table : pandas.DataFrame
        One line per release: scheme, k, l, groups, suppressed rows; then what statistical use
        loses (``margin_error``, ``two_way_error``: mean total variation between shares estimated
        from the release and those of the cleartext, for single attributes and for each attribute
        with the sensitive one; ``loss``: mean share of a column's other values that a cell leaves
        open; ``accuracy``, ``accuracy_clear``: share of people whose secret is predicted right by
        a classifier trained on the release, and on the cleartext); then all measures.
    standard_errors : pandas.DataFrame
        Monte-Carlo errors of the measures; for ``accuracy``, the sampling error over people.
    accuracy_noise : pandas.DataFrame
        Standard error of the difference in ``accuracy`` between each two releases, computed person
        by person.
    """

    assessments: Mapping[str, RiskAssessment]
    table: pd.DataFrame
    standard_errors: pd.DataFrame
    accuracy_noise: pd.DataFrame

    def noise(self, threat: str = "RGT_A") -> pd.DataFrame:
        """Standard error of the difference in threat between each two releases.

        Because the releases contain the same people, measures that are averages over people are
        compared person by person; the simulation error is added.
        """
        _check_threat(threat)
        names, error = self.table.index, self.standard_errors[threat].fillna(0.0).to_numpy()
        squares = error[:, None] ** 2 + error[None, :] ** 2
        people = [_per_person(risk, threat) for risk in self.assessments.values()]
        if all(values is not None for values in people):
            weight = next(iter(self.assessments.values())).people.to_numpy(float)
            stacked = np.stack([values for values in people if values is not None])
            squares = squares + _squared_errors(stacked, weight)
        return pd.DataFrame(np.sqrt(squares), index=names, columns=names)

    def efficient(self, *, threat: str = "RGT_A", usefulness: str = "two_way_error") -> pd.Series:
        """Whether no other release is as good in threat and usefulness, and clearly better in one.

        Differences in threat or ``accuracy`` are clear beyond two standard errors, differences in
        other kinds of usefulness beyond half a percentage point.

        Parameters
        ----------
        threat : str
            Measure of threat: ``RGT_A``, ``max_Ti``, ``doubled`` or another one in `THREATS`.
        usefulness : {"two_way_error", "margin_error", "loss", "accuracy"}
            Kind of usefulness: accuracy of two-way tables, of margins, of cells, or of a
            classifier.
        """
        worse, loss = self._differences(threat, usefulness)
        as_good = (worse <= 0) & (loss <= 0)
        better = (worse < 0) | (loss < 0)
        return pd.Series(~(as_good & better).any(axis=0), index=self.table.index, name="efficient")

    def _lost(self, usefulness: str) -> pd.Series:
        """Loss of usefulness by release; smaller is better."""
        one_of("usefulness", usefulness, KEPT)
        values = self.table[usefulness].astype(float)
        return 1.0 - values if usefulness == "accuracy" else values

    def _differences(self, threat: str, usefulness: str) -> tuple[Floats, Floats]:
        """Signs of clear differences (row against column) in threat and in lost usefulness."""
        # If a release threatens nobody, it has no Ti.
        harm = self.table[threat].fillna(-1.0).to_numpy(float)
        lost = self._lost(usefulness).to_numpy(float)
        by = harm[:, None] - harm[None, :]
        clear = np.abs(by) > 2 * self.noise(threat).to_numpy()
        apart = lost[:, None] - lost[None, :]
        least: Floats | float = CLEAR
        if usefulness == "accuracy":
            least = 2 * self.accuracy_noise.to_numpy()
        return np.sign(by) * clear, np.sign(apart) * (np.abs(apart) > least)

    def recommend(
        self,
        *,
        threat: str = "RGT_A",
        usefulness: str = "two_way_error",
        among: Iterable[str] | None = None,
        limited: bool = False,
    ) -> Recommendation | None:
        """Weigh threat against usefulness, and say which release to publish.

        If the releases keep your limits (`limited`), the most useful of them is the best. Otherwise
        threat and usefulness count the same, each scaled to its range among the releases. Releases
        not clearly different from the best are tied, and the least threatening of these is named.

        Parameters
        ----------
        threat, usefulness : str
            As in `efficient`.
        among : iterable of str, optional
            Releases to choose from, such as those that keep limits; by default all.
        limited : bool
            Whether these releases were selected by limits on their threat.

        Examples
        --------
        >>> import anonbayes as ab
        >>> people = ab.datasets.load("table1")
        >>> risks = {
        ...     name: ab.fit(ab.datasets.load(name), seed=1, progressbar=False).assess(people)
        ...     for name in ("table1_recoded", "table1_anatomy")
        ... }
        >>> ab.compare(risks).recommend().best
        'table1_anatomy'
        """
        names = list(self.table.index if among is None else among)
        if not names:
            return None
        signs = [
            pd.DataFrame(sign, index=self.table.index, columns=self.table.index)
            for sign in self._differences(threat, usefulness)
        ]
        worse, loss = (sign.loc[names, names] for sign in signs)
        beaten = ((worse <= 0) & (loss <= 0) & ((worse < 0) | (loss < 0))).any(axis=0)
        part = self.table.loc[[name for name in names if not beaten[name]]]
        harm = part[threat].fillna(0.0).clip(lower=0.0)
        lost = self._lost(usefulness).loc[part.index]
        score = lost if limited else _scaled(harm) + _scaled(lost)
        first = str(score.idxmin())
        tied = [n for n in part.index if worse.loc[n, first] == 0 and loss.loc[n, first] == 0]
        if limited:  # equally useful; threat does not matter within limits
            tied = [n for n in part.index if loss.loc[n, first] == 0]
        best = str(harm.loc[tied].idxmin())
        return Recommendation(best, tuple(str(n) for n in tied if n != best), limited)

    def plot(
        self,
        *,
        threat: str = "RGT_A",
        usefulness: str = "two_way_error",
        ax: Axes | None = None,
    ) -> Axes:
        """Plot the releases by usefulness (to the right) and threat (upwards).

        The efficient releases are joined by a line; whiskers are two standard errors.
        """
        ok = self.efficient(threat=threat, usefulness=usefulness).to_numpy()
        ax = make_axes(ax, 5.6, 4.4)
        x: Floats = 100.0 * (1.0 - self._lost(usefulness).to_numpy(float))
        y, dy = self.table[threat].to_numpy(float), 2 * self.standard_errors[threat].to_numpy(float)
        kind = MEASURES[threat].kind
        if kind == "share":
            y, dy = 100 * y, 100 * dy
        front = np.flatnonzero(ok)[np.argsort(x[ok], kind="stable")]
        ax.plot(x[front], y[front], color="0.6", linewidth=1, zorder=1)
        for chosen, key, marker, label in (
            (ok, "ideal", "o", "worth considering"),
            (~ok, "other", "x", "another is as good in both and better in one"),
        ):
            if chosen.any():
                ax.errorbar(x[chosen], y[chosen], yerr=dy[chosen], fmt=marker,
                            color=COLOURS[key], label=label, linewidth=1)  # fmt: skip
        unit = {"share": " (%)", "nats": " (nats)"}.get(kind, "")
        ax.set(xlabel=f"{KEPT[usefulness]} (%)", ylabel=f"{MEASURES[threat].title}{unit}",
               title="Privacy and usefulness")  # fmt: skip
        ax.margins(0.2)
        if kind == "factor":
            times_axis(ax, "y")
        elif threat != "log_loss_gain":  # only whiskers can be negative
            ax.set_ylim(bottom=max(ax.get_ylim()[0], min(0.0, float(np.nanmin(y - dy)))))
        names = number_points(ax, [str(name) for name in self.table.index])
        legend_below(ax)
        name_points(ax, x, y, names)
        return ax

    def __repr__(self) -> str:
        return f"Comparison of {len(self.table)} releases: {', '.join(map(str, self.table.index))}"

    def _repr_html_(self) -> str:
        rows = [["Release"]]
        for name, (title, show) in FACTS.items():
            rows.append([title, *map(show, self.table[name]), name])
        risks = self.assessments.values()
        for group in GROUPS:
            rows.append([group])
            for measure in (m for m in MEASURES.values() if m.group == group):
                values = self.table[measure.name].astype(float)
                marks = [" *" if measure.name in risk.cautions else "" for risk in risks]
                cells = [measure.show(v) + mark for v, mark in zip(values, marks, strict=True)]
                rows.append([measure.title, *cells, measure.name])
        names = [str(name) for name in self.table.index]
        table = Table(
            ["", *names, "symbol"], rows, f"{len(names)} releases", frozenset({len(names) + 1})
        )
        notes = "".join(
            f"<p>* {escape(name)}: {escape(text)}</p>"
            for name, risk in zip(names, risks, strict=True)
            for text in dict.fromkeys(risk.cautions.values())
        )
        return f"<div>{table.to_html()}{notes}</div>"


def compare(
    assessments: Mapping[str, RiskAssessment] | Iterable[RiskAssessment],
    *,
    names: Sequence[str] | None = None,
    holdout: pd.DataFrame | None = None,
) -> Comparison:
    """Compare several releases of the same cleartext (the privacy-utility plane).

    Parameters
    ----------
    assessments : mapping or iterable of RiskAssessment
        Assessments, by name or in a sequence.
    names : sequence of str, optional
        Names of the releases; by default what distinguishes them: scheme, k, l.
    holdout : pandas.DataFrame, optional
        People of the same population who are not in the table, with attributes and secrets in
        clear, on whom to measure the accuracy of the classifiers. By default it is measured on the
        people in the table, on whom they were trained, which mainly favours the cleartext.

    Examples
    --------
    >>> import anonbayes as ab
    >>> people = ab.datasets.load("table1")
    >>> found = [
    ...     ab.fit(ab.datasets.load(name), seed=1, progressbar=False).assess(people)
    ...     for name in ("table1_recoded", "table1_anatomy")
    ... ]
    >>> ab.compare(found).table["groups"].to_dict()
    {'horizontal k=2 l=2': 4, 'vertical k=2 l=2': 4}
    """
    if isinstance(assessments, Mapping):
        if names is not None:
            raise AnonbayesError("assessments= is a mapping with names; leave out names=.")
        named = {str(name): risk for name, risk in assessments.items()}
    else:
        items = list(assessments)
        for item in items:
            if not isinstance(item, RiskAssessment):
                raise AnonbayesError(
                    f"compare needs assessments (post.assess(...)), not {type(item).__name__}."
                )
        labels = _labels(items) if names is None else [str(name) for name in names]
        if len(labels) != len(items) or len(set(labels)) < len(labels):
            raise AnonbayesError(
                f"names={labels} must be {len(items)} different names, one per assessment."
            )
        named = dict(zip(labels, items, strict=True))
    if not named:
        raise AnonbayesError("There is nothing to compare; give at least one assessment.")
    _check_same_people(named)
    lines, right, errors = {}, {}, {}
    for name, risk in named.items():
        table = risk.post.table
        right[name], clear, weight = _classified(risk, holdout)
        accuracy, accuracy_clear = (
            float(np.average(x, weights=weight)) for x in (right[name], clear)
        )
        errors[name] = risk.standard_errors.to_dict() | {
            "accuracy": math.sqrt(accuracy * (1 - accuracy) / weight.sum())
        }
        lines[name] = {
            "scheme": table.scheme,
            "k": table.k,
            "l": table.l,
            "groups": table.n_groups,
            "suppressed": table.n_suppressed,
            **usefulness(risk),
            "accuracy": accuracy,
            "accuracy_clear": accuracy_clear,
        } | risk.summary.to_dict()
    frame = pd.DataFrame.from_dict(lines, orient="index").rename_axis("release")
    noise = pd.DataFrame.from_dict(errors, orient="index").rename_axis("release")
    apart = np.sqrt(_squared_errors(np.stack([*right.values()]), weight))
    return Comparison(
        named, frame, noise, pd.DataFrame(apart, index=frame.index, columns=frame.index)
    )


def _classified(
    risk: RiskAssessment, holdout: pd.DataFrame | None
) -> tuple[Floats, Floats, Floats]:
    """Whether learner and ideal predict each person's secret, and the number of people per row."""
    post = risk.post
    if holdout is None and risk.gain.matrix is None:
        learner, best = (risk.rows[f"threatened_{k}"].to_numpy(float) for k in "LI")
        return learner, best, risk.people.to_numpy(float)
    truth = risk.truth if holdout is None else read_truth(post.table, holdout)
    secret = read_gain(post.table.secret.domain)

    def right(weights: Floats) -> Floats:
        pairs = pair_threats(normalise(weights), truth.pair_record, truth.pair_secret, secret)
        return pairs.right[truth.pair]

    learner = right(learner_weights(post, truth.victims, str(risk.settings["kind"]))[0])
    best = right(ideal_of(post, risk.truth).weights(truth.victims))
    weight = np.ones(len(learner)) if truth.weights is None else truth.weights.astype(float)
    return learner, best, weight


def _squared_errors(values: Floats, weight: Floats) -> Floats:
    """Squared standard errors of the differences between the rows' means over people."""
    part = weight / weight.sum()
    means, cross = values @ part, (values * part) @ values.T
    second = np.diag(cross)[:, None] + np.diag(cross)[None, :] - 2 * cross
    return np.maximum(second - (means[:, None] - means[None, :]) ** 2, 0.0) / weight.sum()


def usefulness(risk: RiskAssessment) -> dict[str, float]:
    """Errors of margins and two-way tables estimated from a release, and its loss."""
    post, truth, table = risk.post, risk.truth, risk.post.table
    people = risk.people.to_numpy(float)
    margins, pairs, losses = [], [], []
    for a, name in enumerate(table.attributes):
        if post.simulated:
            mean = post.draws[f"pi_{name}"].mean(("chain", "draw")).to_numpy()
        else:
            mean = post.means[a]
        estimated = post.secret_mean[:, None] * mean
        exact = np.zeros_like(estimated)
        np.add.at(exact, (truth.secret, truth.codes[:, a]), people)
        exact /= exact.sum()
        pairs.append(np.abs(estimated - exact).sum() / 2)
        margins.append(np.abs(estimated.sum(axis=0) - exact.sum(axis=0)).sum() / 2)
        column = table.columns[name]
        others = max(len(column.domain) - 1, 1)
        sizes = column.evidence.sizes[column.codes]
        losses.append(float(np.average((sizes - 1) / others, weights=table.weights)))
    return {
        "margin_error": float(np.mean(margins)),
        "two_way_error": float(np.mean(pairs)),
        "loss": float(np.mean(losses)),
    }


def _per_person(risk: RiskAssessment, threat: str) -> Floats | None:
    """Contributions of the people to a measure that is an average; None if it is not."""
    rows = risk.rows
    attacked = rows["threatened_A"].to_numpy(float)
    if threat == "GT_A":
        return attacked
    if threat == "RGT_A":
        return np.asarray(attacked - rows["threatened_L"].to_numpy(float))
    if threat == "doubled":
        return np.asarray(attacked * (rows["Ti"].to_numpy(float) >= 2))
    return None


def _scaled(values: pd.Series) -> pd.Series:
    span = float(values.max() - values.min())
    return (values - values.min()) / span if span > 0 else values * 0.0


def _labels(risks: Sequence[RiskAssessment]) -> list[str]:
    """Short names that distinguish the releases, numbered if necessary."""
    plain = [f"{t.scheme} k={t.k} l={t.l}" for t in (risk.post.table for risk in risks)]
    return [
        label if plain.count(label) == 1 else f"{label} #{plain[: i + 1].count(label)}"
        for i, label in enumerate(plain)
    ]


def _check_same_people(named: Mapping[str, RiskAssessment]) -> None:
    first_name, first = next(iter(named.items()))
    want = first.cleartext
    for name, risk in named.items():
        if risk.gain.text != first.gain.text:
            raise TableError(
                f"A threat means {risk.gain.text!r} in {name!r} but {first.gain.text!r} in "
                f"{first_name!r}; assess both with the same harm= or gain=."
            )
        found = risk.cleartext
        if found is want:
            continue
        columns = [c for c in want.columns if c in found.columns]
        same = len(found) == len(want) and len(columns) == len(want.columns)
        if not same or not (found[columns].to_numpy() == want.to_numpy()).all():
            raise TableError(
                f"{name!r} and {first_name!r} were assessed against different cleartext tables; "
                "only releases of the same people can be compared."
            )


def _check_threat(threat: str) -> None:
    if threat not in THREATS:
        raise AnonbayesError(
            f"threat={threat!r} is not a measure of threat. {nearest(threat, THREATS)}"
        )
