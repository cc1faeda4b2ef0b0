"""`RiskAssessment`: who is threatened, how much, and how useful the release is."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import sparse

from anonbayes.arrays import Floats
from anonbayes.beliefs.attacker import attacker_weights, worlds_apart
from anonbayes.beliefs.belief import belief_draws, normalise
from anonbayes.beliefs.learner import learner_weights
from anonbayes.errors import AnonbayesError, TableError, nearest
from anonbayes.formats import Table, count, plain, records, share, times
from anonbayes.io.files import write_text
from anonbayes.nonstochastic.relations import GroupLeakage
from anonbayes.risk import threat_plots
from anonbayes.risk.faithfulness import Faithfulness, ideal_of
from anonbayes.risk.measures import GROUPS, MEASURES, QUANTILES, Evaluation
from anonbayes.risk.people import Truth
from anonbayes.risk.syntactic import (
    ReidentificationRisk,
    reidentification_risk,
    syntactic_risks,
    wp29,
)
from anonbayes.risk.threats import Gain, PairThreats, Scores, pair_threats, weighted_quantiles
from anonbayes.tables.groups import tally

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior

WEIGHT = "weight"
"""Column of `RiskAssessment.rows` with the number of people that a row stands for."""


@dataclass(frozen=True, eq=False, repr=False)
class RiskAssessment:
    """Measures of threat and utility of one release. Returned by `Posterior.assess`.

    Attributes
    ----------
    post : Posterior
        The posterior that was assessed.
    cleartext : pandas.DataFrame
        The cleartext.
    rows : pandas.DataFrame
        One line per cleartext row: ``secret``; the attacker's ``guess``; ``Ti``; threat levels
        ``p_A, p_L, p_RW, p_I``; ``threatened_A, ...``: 1 if the secret is guessed right, 0 if not,
        or the probability of it if guesses are tied; ``candidates``, the number of released rows
        that match; Monte-Carlo errors ``se_Ti, se_p_A, se_p_L``. ``Ti`` is given for all rows, but
        measures count it only where ``threatened_A`` is positive. Levels are NaN for rows without a
        harmful secret. With ``assess(weights=...)``, a last column ``weight`` has the number of
        people that a row stands for.
    summary, standard_errors : pandas.Series
        Measures of the table (MODEL 1.6) and their Monte-Carlo errors; see `measures`.
    belief_scores : Scores
        How good the beliefs are; see `scores`, `score_differences` and `calibration`.
    faithfulness : Faithfulness
        Distance between learner and ideal, and how it was computed.
    leakage : GroupLeakage or None
        What group membership alone reveals for certain; None if secrets are hidden.
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
    settings: Mapping[str, object] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    # -- the table ----------------------------------------------------------------------------

    @property
    def measures(self) -> pd.DataFrame:
        """Every measure with its standard error, its meaning, and any caution."""
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
        """How good each belief is, compared with the truth (MODEL 1.9).

        Rows ``learner, attacker, random_worlds, ideal``. Columns: ``right`` (share of people whose
        best guess is right), ``log_loss`` (mean of ``-log max(p(truth), 1e-4)``), ``brier``,
        ``ece`` (calibration error), and their standard errors ``*_se`` (over people, and of the
        simulation if there is one); ``stated``, the mean belief in the best guess; ``ece_chance``
        and ``ece_chance_sd``, mean and standard deviation of the calibration error that a
        calibrated belief would have by chance. With ``harm=``, beliefs are scored on whether the
        secret is one of the harmful values; otherwise, on the exact secret.

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
        """Differences of scores, such as ``attacker - random_worlds``, with standard errors.

        Beliefs are compared person by person, so the errors are those of paired differences.
        """
        return self.belief_scores.differences

    @property
    def calibration(self) -> pd.DataFrame:
        """Stated and observed certainty, by belief and bin of a tenth.

        ``stated`` is the mean belief in the best guess, ``observed`` the share of best guesses that
        are right, ``people`` their number, ``low`` and ``high`` the 95% interval of that share.
        """
        return self.belief_scores.calibration

    @cached_property
    def cautions(self) -> Mapping[str, str]:
        """Measures that depend on beliefs which cannot be taken at face value, with the reason."""
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
        """The main finding in a sentence: what being in the table costs, and how many people."""
        s = self.summary
        people = count(s["rows"], "person", "people")
        if round(s["threatened"]) == 0:
            return f"Nobody is threatened (0 of {people})."
        if s["RGT_A"] > 0:
            low, high = share(s["GT_L"]), share(s["GT_A"])
            cost = (
                f"Being in the table {'hardly ' if low == high else ''}raises the share of secrets "
                f"guessed right from {low} to {high}"
            )
            if s["RGT_A"] <= 2 * self.standard_errors["RGT_A"]:
                cost += ", no more than simulation alone could"
        else:
            cost = (
                "Being in the table does not raise the share of secrets guessed right "
                f"({share(s['GT_A'])}; from the population alone {share(s['GT_L'])})"
            )
        if self.belief_scores.below_random_worlds:
            return f"{cost}; how much surer attackers become cannot be determined."
        doubled = round(s["doubled"] * s["rows"])
        whom = f"{count(doubled)} {'is' if doubled == 1 else 'are'}" if doubled else "none is"
        return f"{cost}. Of {people}, {whom} threatened at least twice as much as outsiders."

    @property
    def text(self) -> str:
        """The findings in plain words."""
        s = self.summary
        parts = [text] if (text := self.belief_scores.below_text) else []
        parts.append(self.headline)
        if not self.belief_scores.below_random_worlds:
            if s["max_Ti"] >= 1.005:
                most = times(s["max_Ti"])
                parts.append(f"The attacker is at most {most} as sure as the learner.")
            elif np.isfinite(s["max_Ti"]):
                parts.append("The attacker is never surer than the learner.")
            parts += [caution.text for caution in self.belief_scores.cautions.values()]
        if self.leakage is not None and not self.leakage.is_private:
            exposed = count(
                self.leakage.exposed,
                "person is in a group that shows",
                "people are in groups that show",
            )
            parts.append(f"{exposed} a single sensitive value.")
        parts.append(
            f"As a source about the population, the release is {s['RF']:.0%} as faithful as the "
            "cleartext."
        )
        return " ".join(parts)

    @property
    def homogeneous_groups(self) -> pd.DataFrame:
        """Groups in which all rows have the same secret, so that everyone in them is exposed."""
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
        """Rows threatened under the attacker's belief, largest relative threat first."""
        hit = self.rows[self.rows["threatened_A"] > 0]
        return hit.sort_values("Ti", ascending=False, kind="stable")

    def thresholds(self, quantiles: Sequence[float] = QUANTILES) -> pd.DataFrame:
        """Candidate thresholds: quantiles of the relative threat among threatened rows.

        Groups Remark 3 chooses a percentile of the distribution of Ti as a threshold. ``above`` is
        the number of threatened people beyond it, ``share`` their share of all people.
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
        """Credible intervals of the measures, over the uncertainty about population and weights.

        Measures that depend on beliefs are computed from single posterior draws. A single draw is
        less informative than the average over all, so these values are centred elsewhere than the
        measure; only their spread is used (for factors, on a logarithmic scale), centred at the
        measure.

        Parameters
        ----------
        probability : float
            Probability of the intervals; equal tails.
        draws : int
            Number of posterior draws of population and weights to use.

        Examples
        --------
        >>> import anonbayes as ab
        >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
        >>> found = post.assess(ab.datasets.load("table1")).intervals(draws=50)
        >>> bool(found.loc["GT_A", ["lower", "upper"]].between(0.0, 1.0).all())
        True
        """
        if not 0 < probability < 1:
            raise AnonbayesError(f"probability={probability!r} must lie strictly between 0 and 1.")
        post, truth = self.post, self.truth

        fixed = {
            "RW": self._threats(worlds_apart(post, truth.victims)[0], truth),
            "I": self._threats(ideal_of(post, truth).weights(truth.victims), truth),
        }
        drawn = [m for m in MEASURES.values() if m.beliefs]
        lines = []
        for attacker, learner in belief_draws(post, truth.victims, draws):
            both = {"A": self._threats(attacker, truth), "L": self._threats(learner, truth)}
            now = Evaluation(
                both | fixed, truth.pair_count, self.faithfulness, self.summary["baseline"]
            )
            lines.append([m.of(now) for m in drawn])
        factor = np.array([m.kind == "factor" for m in drawn])
        names = pd.Index([m.name for m in drawn], name="measure")

        def scaled(values: Floats, change: Callable[[Floats], Floats]) -> Floats:
            return np.where(factor, change(values), values)

        value = self.summary[names].to_numpy(float)
        tail = (1 - probability) / 2
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # measures undefined in every draw
            under = scaled(np.array(lines, dtype=float), np.log)
            quantiles = np.nanquantile(under, (tail, 0.5, 1 - tail), axis=0)
            low, _, high = scaled(scaled(value, np.log) + quantiles - quantiles[1], np.exp)
        least, most = np.array([m.range(self.summary["rows"]) for m in drawn]).T
        return pd.DataFrame(
            {
                "value": value,
                "lower": np.clip(low, least, most),
                "upper": np.clip(high, least, most),
            },
            index=names,
        )

    def breakdown(self, by: str | Iterable[object] | None = None) -> pd.DataFrame:
        """Break measures down by sensitive value (default), a cleartext column, or given labels.

        Parameters
        ----------
        by : str or iterable, optional
            Column of the cleartext, or one label per row, such as the result of ``pandas.cut``.

        Returns
        -------
        pandas.DataFrame
            One line per class: number of rows; shares ``GT_A, GT_L, GT_RW`` of its rows that are
            threatened; ``RGT_A``; mean levels ``p_A, p_L``; and, among its rows threatened by the
            attacker, ``max_Ti`` and ``doubled`` (share of all its rows with Ti of at least 2).
        """
        key = self._classes(by)
        same_type = isinstance(key.dtype, pd.CategoricalDtype) or key.map(type).nunique() == 1
        codes, classes = pd.factorize(key, sort=same_type, use_na_sentinel=False)
        people = self.people.to_numpy()
        n = tally(codes, people, len(classes))

        def mean(column: str) -> Floats:
            values = self.rows[column].to_numpy(dtype=float)
            known = ~np.isnan(values)
            total = np.bincount(codes[known], values[known] * people[known], len(classes))
            with np.errstate(invalid="ignore"):
                return total / tally(codes[known], people[known], len(classes))

        hit, ratio = (self.rows[name].to_numpy(dtype=float) for name in ("threatened_A", "Ti"))
        most = np.full(len(classes), np.nan)
        np.fmax.at(most, codes[hit > 0], ratio[hit > 0])
        doubled = np.bincount(codes, np.where(ratio >= 2, hit * people, 0.0), len(classes)) / n
        shares = {f"GT_{k}": mean(f"threatened_{k}") for k in ("A", "L", "RW")}
        cost = np.maximum(0.0, shares["GT_A"] - shares["GT_L"])
        levels = {name: mean(name) for name in ("p_A", "p_L")}
        return pd.DataFrame(
            {"rows": n, **shares, "RGT_A": cost, **levels, "max_Ti": most, "doubled": doubled},
            index=pd.Index(classes, name=key.name),
        )

    def _classes(self, by: str | Iterable[object] | None) -> pd.Series:
        """Class label of each row."""
        if by is None:
            return self.rows["secret"].rename(self.post.table.sensitive)
        if isinstance(by, str):
            if by not in self.cleartext.columns:
                raise TableError(
                    f"The cleartext has no column {by!r}. {nearest(by, self.cleartext.columns)}"
                )
            return self.cleartext[by]
        values = by.array if isinstance(by, pd.Series) else list(by)
        if len(values) != len(self.rows):
            raise TableError(f"by= has {len(values)} labels for {len(self.rows)} rows.")
        return pd.Series(values, index=self.rows.index, name=getattr(by, "name", None))

    def contributions(
        self, rows: Iterable[object] | str | None = None, *, top: int = 20
    ) -> pd.DataFrame:
        """Contribution of each attribute to a row's threat: what changes if it is unknown.

        Parameters
        ----------
        rows : iterable of labels, or "all", optional
            Labels of the rows (all rows with a label that occurs several times); by default the
            `top` threatened rows.
        top : int
            Number of rows by default.

        Returns
        -------
        pandas.DataFrame
            One line per row and attribute: level and relative threat without the attribute, and
            what the attribute adds to both (for ``Ti`` in doublings, ``log2``).
        """
        if rows is None:
            hit = self.rows["threatened_A"].to_numpy() > 0
            order = np.argsort(-self.rows["Ti"].to_numpy(), kind="stable")
            place = order[hit[order]][:top]
        elif isinstance(rows, str) and rows == "all":
            place = np.arange(len(self.rows))
        else:
            labels = pd.Index(list(rows), tupleize_cols=False)
            if len(missing := labels[~labels.isin(self.rows.index)]):
                raise TableError(
                    f"The cleartext has no row {missing[0]!r} ({len(missing)} unknown)."
                )
            place = self.rows.index.get_indexer_for(labels)
        full, names = self.rows.iloc[place], self.post.table.attributes
        level, ratio = np.empty((2, len(full), len(names)))
        if len(full):
            truth = self.truth.part(place, self.post.table)
            for a in range(len(names)):
                level[:, a], ratio[:, a] = self._without(truth, a)
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

    def _without(self, truth: Truth, a: int) -> tuple[Floats, Floats]:
        """Level and relative threat of each row if attribute `a` is unknown."""
        post, victims = self.post, truth.victims
        codes, weights = victims.codes.copy(), list(victims.weights)
        codes[:, a] = 0
        weights[a] = sparse.csr_array(np.ones((1, weights[a].shape[1])))
        victims = replace(victims, codes=codes, weights=tuple(weights))
        attacker, learner = (
            self._threats(belief, truth).level[truth.pair]
            for belief in (
                attacker_weights(post, victims)[0],
                learner_weights(post, victims, str(self.settings["kind"]))[0],
            )
        )
        return attacker, attacker / learner

    def _threats(self, weights: Floats, truth: Truth) -> PairThreats:
        """Threats of the pairs of a cleartext, from unnormalised beliefs."""
        return pair_threats(normalise(weights), truth.pair_record, truth.pair_secret, self.gain)

    @cached_property
    def reidentification(self) -> ReidentificationRisk:
        """Prosecutor, journalist and marketer risk, from the release alone."""
        return reidentification_risk(self.post.table)

    syntactic = syntactic_risks
    wp29 = wp29

    # -- plots --------------------------------------------------------------------------------

    plot_beliefs = threat_plots.plot_beliefs
    plot_relative_threat = threat_plots.plot_relative_threat
    plot_thresholds = threat_plots.plot_thresholds
    plot_group_sizes = threat_plots.plot_group_sizes
    plot_top_rows = threat_plots.plot_top_rows
    plot_reliability = threat_plots.plot_reliability

    # -- export -------------------------------------------------------------------------------

    def to_dict(self, *, rows: bool = False) -> dict[str, object]:
        """Return everything as plain types; with `rows`, also numbers of each person, no values."""
        table, weights = self.post.table, self.post.weights
        out: dict[str, object] = {
            "text": self.text,
            "threat": self.gain.text,
            "measures": plain(self.summary.to_dict()),
            "standard_errors": plain(self.standard_errors.to_dict()),
            "scores": records(self.scores),
            "score_differences": records(self.score_differences),
            "calibration": [
                {"belief": str(belief), **line}
                for belief in self.scores.index
                for line in self.belief_scores.bins(str(belief))
            ],
            "below_random_worlds": self.belief_scores.below_random_worlds,
            "cautions": dict(self.cautions),
            "faithfulness_samples": self.faithfulness.samples,
            "thresholds": records(self.thresholds()),
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
            "leakage_nats": None if self.leakage is None else plain(self.leakage.leakage),
            "engine": {"method": self.post.method, "step": self.post.step},
            "evidence": {
                "taken": self.post.evidence,
                "why": self.post.evidence_reason,
                "weights": records(
                    self.post.weights.drop(columns="meaning").rename_axis("attribute")
                ),
                "meaning": weights["meaning"].to_dict(),
                "scores": records(self.post.scores.rename_axis("evidence")),
            },
            "settings": dict(self.settings),
            "remarks": list(self.remarks),
        }
        if rows:
            out["rows"] = self.row_records()
        return out

    def row_records(self) -> list[dict[str, object]]:
        """Return the numbers of every person for JSON, without values."""
        numbers = self.rows.drop(columns=["secret", "guess"]).astype(float)
        lines = numbers.astype(object).where(np.isfinite(numbers), None).to_dict("records")
        labels = map(str, numbers.index)
        return [{"row": row, **line} for row, line in zip(labels, lines, strict=True)]  # type: ignore[dict-item]

    def to_json(self, path: str | os.PathLike[str] | None = None, *, rows: bool = False) -> str:
        """Return `to_dict` as JSON, and write it to `path` if one is given."""
        text = json.dumps(self.to_dict(rows=rows), indent=2, ensure_ascii=False)
        if path is not None:
            write_text(path, text + "\n")
        return text

    def __repr__(self) -> str:
        s = self.summary
        beware = ", stated certainty is unreliable: see .cautions" if self.cautions else ""
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
    """Return a name for a column of weights that is not one of these columns."""
    name = WEIGHT
    while name in columns:
        name += "_"
    return name
