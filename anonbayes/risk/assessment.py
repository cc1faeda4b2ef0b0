"""The result of an assessment, by group and by attribute."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from anonbayes.arrays import Floats
from anonbayes.beliefs.attacker import attacker_weights, worlds_apart
from anonbayes.beliefs.belief import belief_draws, normalise
from anonbayes.beliefs.learner import learner_weights
from anonbayes.beliefs.victims import Victims
from anonbayes.errors import AnonbayesError, TableError, nearest, one_of
from anonbayes.formats import Table, count, share, times
from anonbayes.io.files import write_text
from anonbayes.nonstochastic.relations import GroupLeakage
from anonbayes.risk import threat_plots
from anonbayes.risk.calibration import Scores
from anonbayes.risk.faithfulness import Faithfulness, ideal_of
from anonbayes.risk.measures import GROUPS, MEASURES, QUANTILES, Evaluation
from anonbayes.risk.people import Truth
from anonbayes.risk.syntactic import (
    ReidentificationRisk,
    reidentification_risk,
    syntactic_risks,
    wp29,
)
from anonbayes.risk.threats import Gain, PairThreats, pair_threats, weighted_quantiles
from anonbayes.tables.groups import tally

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior

__all__ = [
    "WEIGHT",
    "RiskAssessment",
    "breakdown",
    "contributions",
    "places_of",
    "weight_name",
]


# -------------------------------------------------------------------------------------------------
# Threats by sensitive value or by any other column.


def breakdown(
    risk: RiskAssessment,
    by: str | Iterable[Any] | None,
    *,
    bins: int | Sequence[float] | None = None,
) -> pd.DataFrame:
    """See `RiskAssessment.breakdown`.

    Returns
    -------
    pandas.DataFrame
        Per class: number of rows; shares ``GT_A, GT_L, GT_RW`` of its rows that are threatened;
        ``RGT_A``; mean levels ``p_A, p_L``; ``max_Ti`` and ``doubled`` (share of its rows with Ti
        of at least 2) among its rows threatened by the attacker.
    """
    rows = risk.rows
    key = _key(risk, by)
    if bins is not None:
        if not pd.api.types.is_numeric_dtype(key):
            raise TableError(f"bins= needs a numeric column; {key.name!r} is not.")
        key = pd.Series(pd.cut(key, bins, include_lowest=True), index=key.index, name=key.name)
    codes, classes = pd.factorize(key, sort=_sortable(key), use_na_sentinel=False)
    people = risk.people.to_numpy()
    n = tally(codes, people, len(classes))

    def mean(column: str) -> Any:
        values = rows[column].to_numpy(dtype=float)
        known = ~np.isnan(values)
        with np.errstate(invalid="ignore"):
            return np.bincount(codes[known], values[known] * people[known], len(classes)) / tally(
                codes[known], people[known], len(classes)
            )

    hit = rows["threatened_A"].to_numpy(dtype=float)
    ratio = rows["Ti"].to_numpy(dtype=float)
    most = np.full(len(classes), np.nan)
    np.fmax.at(most, codes[hit > 0], ratio[hit > 0])
    out = {
        "rows": n,
        "GT_A": mean("threatened_A"),
        "GT_L": mean("threatened_L"),
        "GT_RW": mean("threatened_RW"),
        "p_A": mean("p_A"),
        "p_L": mean("p_L"),
        "max_Ti": most,
        "doubled": np.bincount(codes, np.where(ratio >= 2, hit * people, 0.0), len(classes)) / n,
    }
    frame = pd.DataFrame(out, index=pd.Index(classes, name=key.name))
    frame.insert(4, "RGT_A", np.maximum(0.0, frame["GT_A"] - frame["GT_L"]))
    return frame


def _key(risk: RiskAssessment, by: str | Iterable[Any] | None) -> pd.Series:
    if by is None:
        return risk.rows["secret"].rename(risk.post.table.sensitive)
    if isinstance(by, str):
        if by not in risk.cleartext.columns:
            raise TableError(
                f"The cleartext has no column {by!r}. {nearest(by, risk.cleartext.columns)}"
            )
        return risk.cleartext[by]
    values = by.to_numpy() if isinstance(by, pd.Series) else list(by)
    if len(values) != len(risk.rows):
        raise TableError(f"by= has {len(values)} labels for {len(risk.rows)} rows.")
    name = by.name if isinstance(by, pd.Series) else None
    return pd.Series(values, index=risk.rows.index, name=name)


def _sortable(key: pd.Series) -> bool:
    return isinstance(key.dtype, pd.CategoricalDtype) or key.map(type).nunique() == 1


# -------------------------------------------------------------------------------------------------
# Leave one attribute out: how much of a threat is due to knowing it.


def places_of(risk: RiskAssessment, labels: list[Any]) -> npt.NDArray[np.int64]:
    """Positions of the rows with these labels."""
    places: dict[Any, list[int]] = {}
    for place, label in enumerate(risk.rows.index):
        places.setdefault(label, []).append(place)
    missing = [label for label in labels if label not in places]
    if missing:
        raise TableError(f"The cleartext has no row {missing[0]!r} ({len(missing)} unknown).")
    return np.array([place for label in labels for place in places[label]], dtype=np.int64)


def contributions(risk: RiskAssessment, place: npt.NDArray[np.int64]) -> pd.DataFrame:
    """See `RiskAssessment.contributions`.

    Parameters
    ----------
    risk : RiskAssessment
        The assessment.
    place : numpy.ndarray
        Positions of rows of the cleartext, whose labels need not be distinct.
    """
    table = risk.post.table
    names = table.attributes
    full = risk.rows.iloc[place]
    level, ratio = np.empty((2, len(full), len(names)))
    if len(full):
        truth = risk.truth.part(place, table)
        for a in range(len(names)):
            level[:, a], ratio[:, a] = _without(risk, truth, a)
    return pd.DataFrame(
        {
            "p_A_without": level.ravel(),
            "Ti_without": ratio.ravel(),
            "adds_p_A": (full["p_A"].to_numpy()[:, None] - level).ravel(),
            "adds_log2_Ti": np.log2(full["Ti"].to_numpy()[:, None] / ratio).ravel(),
        },
        index=pd.MultiIndex.from_arrays(
            [full.index.to_flat_index().repeat(len(names)), list(names) * len(full)],
            names=["row", "attribute"],
        ),
    )


def _without(risk: RiskAssessment, truth: Truth, a: int) -> tuple[Floats, Floats]:
    """Level and relative threat of each row when attribute `a` is not known."""
    post = risk.post
    victims = _forget(truth.victims, a, len(post.table.domains[post.table.attributes[a]]))
    levels = []
    for weights in (
        attacker_weights(post, victims)[0],
        learner_weights(post, victims, risk.settings["kind"])[0],
    ):
        pairs = pair_threats(normalise(weights), truth.pair_record, truth.pair_secret, risk.gain)
        levels.append(pairs.level[truth.pair])
    return levels[0], levels[0] / levels[1]


def _forget(victims: Victims, a: int, size: int) -> Victims:
    codes = victims.codes.copy()
    codes[:, a] = 0
    weights = list(victims.weights)
    weights[a] = sparse.csr_array(np.ones((1, size)))
    return replace(victims, codes=codes, weights=tuple(weights))


# -------------------------------------------------------------------------------------------------
# `RiskAssessment`: who is threatened by a release, how much, and what the release is good for.

WEIGHT = "weight"
"""Column of `RiskAssessment.rows` with the number of people that a row stands for."""


@dataclass(frozen=True, eq=False, repr=False)
class RiskAssessment:
    """Measures of threat and utility of one release. Made by `Posterior.assess`.

    Attributes
    ----------
    post : Posterior
        What was assessed.
    cleartext : pandas.DataFrame
        What it was compared with.
    rows : pandas.DataFrame
        One line per cleartext row: ``secret``; the attacker's ``guess``; ``Ti``; threat levels
        ``p_A, p_L, p_RW, p_I``; ``threatened_A, ...``: 1, 0, or the probability that a tie is
        broken against the row; ``candidates``, the number of released rows that it could be;
        Monte-Carlo errors ``se_Ti, se_p_A, se_p_L``. ``Ti`` is given for all rows; as a measure it
        counts where ``threatened_A`` is positive. Levels are NaN where nothing is at stake. With
        ``assess(weights=...)`` a last column ``weight`` says how many people a row stands for.
    summary, standard_errors : pandas.Series
        Measures of the table (MODEL 1.6) and their Monte-Carlo errors; see `measures`.
    belief_scores : Scores
        How good the beliefs are; see `scores`, `score_differences` and `calibration`.
    faithfulness : Faithfulness
        Distance of learner and ideal, and how it was computed.
    leakage : GroupLeakage or None
        What membership in a group reveals without any probability; None where secrets are hidden.
    gain : Gain
        What counts as a threat.
    truth : Truth
        The cleartext in the codes of the release.
    settings : mapping
        Settings of the assessment.
    remarks : tuple of str
        What a reader should know before using the numbers.
    """

    post: Posterior
    cleartext: pd.DataFrame
    rows: pd.DataFrame
    summary: pd.Series
    standard_errors: pd.Series
    belief_scores: Scores
    faithfulness: Faithfulness
    leakage: GroupLeakage | None
    gain: Gain
    truth: Truth
    settings: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    # -- the table ----------------------------------------------------------------------------

    @property
    def measures(self) -> pd.DataFrame:
        """Every measure with its standard error, what it means, and what to beware of."""
        names = self.summary.index
        return pd.DataFrame(
            {
                "value": self.summary,
                "standard error": self.standard_errors,
                "meaning": [MEASURES[name].sentence for name in names],
                "caution": [self.cautions.get(name, "") for name in names],
            },
            index=names,
        )

    @property
    def scores(self) -> pd.DataFrame:
        """How good each belief is, against the truth (MODEL 1.9).

        Lines ``learner, attacker, random_worlds, ideal``; columns ``right`` (share of people whose
        best guess is right), ``log_loss`` (mean of ``-log max(p(truth), 1e-4)``), ``brier``,
        ``ece`` (calibration error) and their standard errors ``*_se``; ``stated``, the mean belief
        in the best guess; ``ece_chance`` and ``ece_chance_sd``, mean and standard deviation of the
        calibration error of a belief that is calibrated. With ``harm=`` beliefs are scored by the
        question whether the secret is one of the harmful values; with ``gain=`` and by default by
        the exact secret.

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
        >>> risk = post.assess(ab.datasets.load("clinic"))
        >>> risk.scores[["right", "log_loss", "ece"]].round(3).loc["attacker"].tolist()
        [0.334, 1.751, 0.007]
        """
        return self.belief_scores.table

    @property
    def score_differences(self) -> pd.DataFrame:
        """Differences of scores, such as ``attacker - random_worlds``, and their standard errors.

        Beliefs are compared person by person, so that the errors are those of paired differences.
        """
        return self.belief_scores.differences

    @property
    def calibration(self) -> pd.DataFrame:
        """Stated against observed certainty, per belief and bin of a tenth.

        ``stated`` is the mean belief in the best guess, ``observed`` the share of best guesses
        that are right, ``people`` their number, ``low`` and ``high`` a 95 % interval of the share.
        """
        return self.belief_scores.calibration

    @cached_property
    def cautions(self) -> Mapping[str, str]:
        """Measures that rest on beliefs which are not to be taken at their word, and why."""
        why = self.belief_scores.below_text
        by_belief = self.belief_scores.cautions
        texts = {
            m.name: why or " ".join(by_belief[k].text for k in m.beliefs if k in by_belief)
            for m in MEASURES.values()
            if m.stated
        }
        return {name: text for name, text in texts.items() if text}

    @property
    def headline(self) -> str:
        """The finding in a sentence: what being in the table costs, and whom it costs most."""
        s = self.summary
        people = count(s["rows"], "person", "people")
        if round(s["threatened"]) == 0:
            return f"Nobody is threatened (0 of {people})."
        if s["RGT_A"] > 0:
            cost = f"from {share(s['GT_L'])} to {share(s['GT_A'])}"
            cost = f"Being in the table raises the share of secrets guessed right {cost}"
        else:
            cost = (
                "Being in the table does not raise the share of secrets guessed right "
                f"({share(s['GT_A'])}; from the population alone {share(s['GT_L'])})"
            )
        if self.belief_scores.below_random_worlds:
            return f"{cost}; how much surer attackers become cannot be said."
        doubled = round(s["doubled"] * s["rows"])
        whom = f"{count(doubled)} {'is' if doubled == 1 else 'are'}" if doubled else "none is"
        return f"{cost}. Of {people}, {whom} threatened at least twice as much as outsiders."

    @property
    def text(self) -> str:
        """The finding in plain words."""
        s = self.summary
        parts = [text] if (text := self.belief_scores.below_text) else []
        parts.append(self.headline)
        if np.isfinite(s["max_Ti"]) and not self.belief_scores.below_random_worlds:
            parts.append(f"The attacker is at most {times(s['max_Ti'])} as sure as the learner.")
        if not self.belief_scores.below_random_worlds:
            parts += [caution.text for caution in self.belief_scores.cautions.values()]
        if self.leakage is not None and not self.leakage.is_private:
            exposed = count(self.leakage.exposed, "person is", "people are")
            parts.append(f"{exposed} in groups that show one sensitive value only.")
        parts.append(
            f"As a source about the population, the release is {s['RF']:.0%} as faithful as the "
            "cleartext."
        )
        return " ".join(parts)

    @property
    def homogeneous_groups(self) -> pd.DataFrame:
        """Groups in which all rows have the same secret: everyone in them is exposed."""
        if self.leakage is None:
            return pd.DataFrame(columns=["size", "revealed"])
        groups = self.leakage.homogeneous
        labels = self.post.table.group_labels[groups.index]
        return groups[["size", "revealed"]].set_axis(labels, axis=0)

    # -- rows and thresholds ------------------------------------------------------------------

    @property
    def people(self) -> pd.Series:
        """Number of people that each row stands for: 1, or the ``weights`` of `assess`."""
        if WEIGHT in self.rows:
            return self.rows[WEIGHT]
        return pd.Series(1, index=self.rows.index, name=WEIGHT)

    @cached_property
    def threatened(self) -> pd.DataFrame:
        """Rows threatened under the attacker's belief, the largest relative threat first."""
        hit = self.rows[self.rows["threatened_A"] > 0]
        return hit.sort_values("Ti", ascending=False, kind="stable")

    def above(self, threshold: float, *, by: str = "Ti") -> pd.DataFrame:
        """Threatened rows whose relative threat (or level ``p_A``) exceeds a threshold.

        Parameters
        ----------
        threshold : float
            Largest acceptable value.
        by : {"Ti", "p_A"}
            What is compared.

        Examples
        --------
        >>> import anonbayes as ab
        >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
        >>> risk = post.assess(ab.datasets.load("table1"))
        >>> risk.above(0.55, by="p_A")["secret"].tolist()
        ['Flu', 'Heart']
        """
        one_of("by", by, ("Ti", "p_A"))
        if not np.isfinite(threshold):
            raise AnonbayesError(f"threshold={threshold!r} must be a finite number.")
        ordered = self.threatened.sort_values(by, ascending=False, kind="stable")
        return ordered[ordered[by] > threshold]

    def thresholds(self, quantiles: Sequence[float] = QUANTILES) -> pd.DataFrame:
        """Candidate thresholds: quantiles of the relative threat among threatened rows.

        An evaluator looks at the distribution of Ti and chooses a percentile as a cut (Groups
        Remark 3). ``above`` counts the threatened rows beyond it, ``share`` is their part of all.
        """
        if not all(0 <= q <= 1 for q in quantiles):
            raise AnonbayesError(f"quantiles={quantiles!r} must lie between 0 and 1.")
        ratio = self.threatened["Ti"].to_numpy()
        weight = self.threatened["threatened_A"].to_numpy(float)
        if WEIGHT in self.threatened:
            weight = weight * self.threatened[WEIGHT].to_numpy()
        cuts = weighted_quantiles(ratio, weight, tuple(quantiles))
        over = [float(weight[ratio > cut].sum()) for cut in cuts]
        return pd.DataFrame(
            {"threshold": cuts, "above": over, "share": np.array(over) / self.summary["rows"]},
            index=pd.Index(quantiles, name="quantile"),
        )

    def intervals(self, *, probability: float = 0.9, draws: int = 100) -> pd.DataFrame:
        """Credible intervals of the measures: what other populations, or weights, would change.

        Every measure that depends on the beliefs is computed from single draws of the posterior.

        Parameters
        ----------
        probability : float
            Of the intervals, which leave the same on both sides.
        draws : int
            Draws of populations and weights to take from the posterior's.

        Examples
        --------
        >>> import anonbayes as ab
        >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
        >>> found = post.assess(ab.datasets.load("table1")).intervals(draws=50)
        >>> bool((found["lower"] <= found["upper"]).all())
        True
        """
        if not 0 < probability < 1:
            raise AnonbayesError(f"probability={probability!r} must lie between 0 and 1.")
        post, truth = self.post, self.truth

        def threats(weights: Floats) -> PairThreats:
            belief = normalise(weights)
            return pair_threats(belief, truth.pair_record, truth.pair_secret, self.gain)

        fixed = {
            "RW": threats(worlds_apart(post, truth.victims)[0]),
            "I": threats(ideal_of(post, truth).weights(truth.victims)),
        }
        drawn = [m for m in MEASURES.values() if m.beliefs]
        lines = []
        for attacker, learner in belief_draws(post, truth.victims, draws):
            both = {"A": threats(attacker), "L": threats(learner)}
            now = Evaluation(
                both | fixed, truth.pair_count, self.faithfulness, self.summary["baseline"]
            )
            lines.append([m.of(now) for m in drawn])
        tail = (1 - probability) / 2
        lower, upper = np.nanquantile(np.array(lines, dtype=float), (tail, 1 - tail), axis=0)
        names = pd.Index([m.name for m in drawn], name="measure")
        return pd.DataFrame(
            {"value": self.summary[names].to_numpy(), "lower": lower, "upper": upper}, index=names
        )

    def breakdown(
        self, by: str | Iterable[Any] | None = None, *, bins: int | Sequence[float] | None = None
    ) -> pd.DataFrame:
        """Measures by sensitive value (default), by a column of the cleartext, or by given labels.

        Parameters
        ----------
        by : str or iterable, optional
            Column of the cleartext, or one label per row.
        bins : int or sequence of float, optional
            Cut a numeric column into so many intervals, or at these edges.
        """
        if by is None and bins is None:
            return self._by_secret.copy()
        return breakdown(self, by, bins=bins)

    @cached_property
    def _by_secret(self) -> pd.DataFrame:
        return breakdown(self, None)

    def contributions(
        self, rows: Iterable[Any] | str | None = None, *, top: int = 20
    ) -> pd.DataFrame:
        """Contribution of each attribute to a row's threat: what changes if it is not known.

        Parameters
        ----------
        rows : iterable of labels, or "all", optional
            Rows to look at, all those of a label that stands several times; the `top` threatened
            rows by default.
        top : int
            How many by default.

        Returns
        -------
        pandas.DataFrame
            One line per row and attribute: level and relative threat without the attribute, and
            what it adds to both (``Ti`` in doublings, ``log2``).
        """
        if rows is None:
            places = self.rows.reset_index(drop=True)
            hit = places[places["threatened_A"] > 0].sort_values(
                "Ti", ascending=False, kind="stable"
            )
            return contributions(self, hit.index.to_numpy()[:top])
        if isinstance(rows, str) and rows == "all":
            return contributions(self, np.arange(len(self.rows)))
        return contributions(self, places_of(self, list(rows)))

    @cached_property
    def reidentification(self) -> ReidentificationRisk:
        """Prosecutor, journalist and marketer risk of the release alone."""
        return reidentification_risk(self.post.table)

    syntactic = syntactic_risks
    wp29 = wp29

    # -- pictures -----------------------------------------------------------------------------

    plot_beliefs = threat_plots.plot_beliefs
    plot_relative_threat = threat_plots.plot_relative_threat
    plot_thresholds = threat_plots.plot_thresholds
    plot_group_sizes = threat_plots.plot_group_sizes
    plot_top_rows = threat_plots.plot_top_rows
    plot_reliability = threat_plots.plot_reliability

    # -- keeping it ---------------------------------------------------------------------------

    def to_dict(self, *, rows: bool = False) -> dict[str, Any]:
        """Everything as plain numbers and texts; individuals only if `rows`, without values."""
        table = self.post.table
        out: dict[str, Any] = {
            "text": self.text,
            "threat": self.gain.text,
            "measures": _plain(self.summary),
            "standard_errors": _plain(self.standard_errors),
            "scores": _table(self.scores, "belief"),
            "score_differences": _table(self.score_differences, "difference"),
            "calibration": [
                {"belief": str(belief), **line}
                for belief in self.scores.index
                for line in self.belief_scores.bins(str(belief))
            ],
            "below_random_worlds": self.belief_scores.below_random_worlds,
            "cautions": dict(self.cautions),
            "faithfulness_samples": self.faithfulness.samples,
            "thresholds": _table(self.thresholds(), "quantile"),
            "release": {
                "scheme": table.scheme,
                "rows": table.n_rows,
                "groups": table.n_groups,
                "suppressed": table.n_suppressed,
                "k": table.k,
                "l": table.l,
                "sensitive": table.sensitive,
                "fingerprint": table.fingerprint,
            },
            "homogeneous_groups": len(self.homogeneous_groups),
            "leakage_nats": None if self.leakage is None else _number(self.leakage.leakage),
            "engine": {"method": self.post.method, "step": self.post.step},
            "evidence": {
                "taken": self.post.evidence,
                "why": self.post.evidence_reason,
                "weights": _table(self.post.weights.drop(columns="meaning"), "attribute"),
                "meaning": self.post.weights["meaning"].to_dict(),
                "scores": _table(self.post.scores, "evidence"),
            },
            "settings": dict(self.settings),
            "remarks": list(self.remarks),
        }
        if rows:
            numbers = self.rows.drop(columns=["secret", "guess"])
            # By column: a line of its own for each person would be a Series for each.
            cells = [numbers[name].astype(float).tolist() for name in numbers.columns]
            names = [str(name) for name in numbers.columns]
            out["rows"] = [
                {"row": str(label)}
                | {n: v if math.isfinite(v) else None for n, v in zip(names, line, strict=True)}
                for label, line in zip(numbers.index, zip(*cells, strict=True), strict=True)
            ]
        return out

    def to_json(self, path: str | os.PathLike[str] | None = None, *, rows: bool = False) -> str:
        """JSON of `to_dict`, also written to `path` when one is given."""
        text = json.dumps(self.to_dict(rows=rows), indent=2, ensure_ascii=False)
        if path is not None:
            write_text(path, text + "\n")
        return text

    def __repr__(self) -> str:
        s = self.summary
        beware = ", stated certainty is not to be believed: see .cautions" if self.cautions else ""
        return (
            f"RiskAssessment({int(s['rows']):,} rows, GT_A={s['GT_A']:.4f}, GT_L={s['GT_L']:.4f}, "
            f"RF={s['RF']:.4f}, max_Ti={s['max_Ti']:.4g}{beware})"
        )

    def _repr_html_(self) -> str:
        rows: list[list[str]] = []
        for group in GROUPS:
            rows.append([group])
            for measure in (m for m in MEASURES.values() if m.group == group):
                value, error = self.summary[measure.name], self.standard_errors[measure.name]
                shown = measure.show_error(error) if error > 0 else ""
                mark = " *" if self.cautions.get(measure.name) else ""
                rows.append([measure.title + mark, measure.show(value), shown, measure.name])
        table = Table(["", "value", "± s.e.", "symbol"], rows, "", frozenset({3}))
        notes = "".join(f"<p>* {escape(t)}</p>" for t in dict.fromkeys(self.cautions.values()) if t)
        lead = f"<p><b>Risk</b></p><p>{escape(self.text)}</p>"
        return f"<div>{lead}{table.to_html()}{notes}</div>"


def weight_name(columns: Collection[str]) -> str:
    """Return a name for a column of weights that is none of these columns.

    Examples
    --------
    >>> weight_name(["height", "weight"])
    'weight_'
    """
    name = WEIGHT
    while name in columns:
        name += "_"
    return name


def _number(value: float) -> float | None:
    """JSON knows neither NaN nor infinity."""
    return float(value) if np.isfinite(value) else None


def _table(frame: pd.DataFrame, label: str) -> list[dict[str, Any]]:
    """Lines of a frame with their labels, in plain types."""
    return [{label: name, **_plain(line)} for name, line in frame.iterrows()]


def _plain(series: pd.Series) -> dict[str, float | None]:
    return {str(name): _number(value) for name, value in series.items()}
