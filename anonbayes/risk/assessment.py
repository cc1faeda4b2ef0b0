"""`RiskAssessment`: who is threatened by a release, how much, and what the release is good for."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from anonbayes.errors import AnonbayesError, one_of
from anonbayes.files import write_text
from anonbayes.guarantees.nonstochastic import GroupLeakage
from anonbayes.risk.breakdown import breakdown
from anonbayes.risk.faithfulness import Faithfulness
from anonbayes.risk.gains import Gain
from anonbayes.risk.measures import QUANTILES, weighted_quantiles
from anonbayes.risk.words import EXPLANATIONS, verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from anonbayes.inference.posterior import Posterior
    from anonbayes.risk.wp29 import Answer

__all__ = ["ROW", "WEIGHT", "RiskAssessment", "weight_name"]

WEIGHT = "weight"
"""Column of `RiskAssessment.rows` with the number of people that a row stands for."""

ROW = "row"
"""Name of an index of whole numbers that are no identifiers but numbers of rows: reports show them.

Other labels of a cleartext may be names of people."""


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
    faithfulness : Faithfulness
        Distance of learner and ideal, and how it was computed.
    leakage : GroupLeakage or None
        What membership in a group reveals without any probability; None where secrets are hidden.
    gain : Gain
        What counts as a threat.
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
    faithfulness: Faithfulness
    leakage: GroupLeakage | None
    gain: Gain
    settings: Mapping[str, Any] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()

    # -- the table ----------------------------------------------------------------------------

    @property
    def measures(self) -> pd.DataFrame:
        """Every measure with its standard error and one sentence on what it means."""
        return pd.DataFrame(
            {
                "value": self.summary,
                "standard error": self.standard_errors,
                "meaning": pd.Series(EXPLANATIONS),
            }
        ).loc[self.summary.index]

    @property
    def text(self) -> str:
        """The finding in plain words."""
        return verdict(self)

    @property
    def homogeneous_groups(self) -> pd.DataFrame:
        """Groups in which all rows have the same secret: everyone in them is exposed."""
        if self.leakage is None:
            return pd.DataFrame(columns=["size", "revealed"])
        found = self.leakage.homogeneous
        labels = self.post.table.group_labels[found.index]
        return found[["size", "revealed"]].set_axis(labels, axis=0)

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
        found = self.rows[self.rows["threatened_A"] > 0]
        return found.sort_values("Ti", ascending=False, kind="stable")

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
        found = self.threatened.sort_values(by, ascending=False, kind="stable")
        return found[found[by] > threshold]

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
        return breakdown(self, by, bins=bins)

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
        from anonbayes.risk.contributions import contributions, places_of

        if rows is None:
            places = self.rows.reset_index(drop=True)
            hit = places[places["threatened_A"] > 0].sort_values(
                "Ti", ascending=False, kind="stable"
            )
            return contributions(self, hit.index.to_numpy()[:top])
        if isinstance(rows, str) and rows == "all":
            return contributions(self, np.arange(len(self.rows)))
        return contributions(self, places_of(self, list(rows)))

    def syntactic(
        self, *, population: pd.DataFrame | None = None, threshold: float = 0.2
    ) -> pd.DataFrame:
        """Prosecutor, journalist and marketer risk beside the threats; see `syntactic_risks`."""
        from anonbayes.risk.syntactic import syntactic_risks

        return syntactic_risks(self, population=population, threshold=threshold)

    def wp29(self, *, certain: float = 0.9) -> tuple[Answer, Answer, Answer]:
        """Singling out, linkability, inference: the questions of WP29 Opinion 05/2014."""
        from anonbayes.risk.wp29 import wp29

        return wp29(self, certain=certain)

    # -- pictures -----------------------------------------------------------------------------

    def plot_beliefs(self, under: str = "A", *, ax: Axes | None = None) -> Axes:
        """Attacker against learner on threatened rows (Groups Figures 2 and 3, left)."""
        from anonbayes.risk.plots import plot_beliefs

        return plot_beliefs(self, under, ax=ax)

    def plot_relative_threat(self, under: str = "A", *, ax: Axes | None = None) -> Axes:
        """Histogram of log2 Ti on threatened rows (Groups Figures 2 and 3, right)."""
        from anonbayes.risk.plots import plot_relative_threat

        return plot_relative_threat(self, under, ax=ax)

    def plot_thresholds(self, *, ax: Axes | None = None) -> Axes:
        """Share of rows whose relative threat exceeds a threshold."""
        from anonbayes.risk.plots import plot_thresholds

        return plot_thresholds(self, ax=ax)

    def plot_group_sizes(self, *, ax: Axes | None = None) -> Axes:
        """How many rows are in groups of which size."""
        from anonbayes.risk.plots import plot_group_sizes

        return plot_group_sizes(self, ax=ax)

    def plot_top_rows(self, top: int = 15, *, ax: Axes | None = None) -> Axes:
        """Belief of learner and attacker for the rows of the largest relative threat."""
        from anonbayes.risk.plots import plot_top_rows

        return plot_top_rows(self, top, ax=ax)

    # -- keeping it ---------------------------------------------------------------------------

    def to_dict(self, *, rows: bool = False) -> dict[str, Any]:
        """Everything as plain numbers and texts; individuals only if `rows`, without values."""
        table = self.post.table
        out: dict[str, Any] = {
            "text": self.text,
            "threat": self.gain.text,
            "measures": _plain(self.summary),
            "standard_errors": _plain(self.standard_errors),
            "faithfulness_samples": self.faithfulness.samples,
            "thresholds": [
                {str(k): _number(v) for k, v in line.items()}
                for line in self.thresholds().reset_index().to_dict("records")
            ],
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
            "settings": dict(self.settings),
            "remarks": list(self.remarks),
        }
        if rows:
            numbers = self.rows.drop(columns=["secret", "guess"])
            out["rows"] = [
                {"row": str(label), **_plain(line)} for label, line in numbers.iterrows()
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
        return (
            f"RiskAssessment({int(s['rows']):,} rows, GT_A={s['GT_A']:.4f}, GT_L={s['GT_L']:.4f}, "
            f"RF={s['RF']:.4f}, max_Ti={s['max_Ti']:.4g})"
        )

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.text)}</p>{self.measures.to_html(float_format='{:.4g}'.format)}"


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


def _plain(series: pd.Series) -> dict[str, float | None]:
    return {str(name): _number(value) for name, value in series.items()}
