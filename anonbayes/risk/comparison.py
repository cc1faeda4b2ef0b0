"""Several releases of one cleartext side by side: which one to publish."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from anonbayes.errors import AnonbayesError, TableError, nearest
from anonbayes.figures import COLOURS, make_axes
from anonbayes.risk.assessment import RiskAssessment
from anonbayes.risk.measures import MEASURES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Comparison", "compare"]
THREATS = tuple(measure.name for measure in MEASURES.values() if measure.is_threat)
"""Measures by which releases may be compared: the smaller, the better."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Measures of several releases. Made by `compare`.

    Attributes
    ----------
    assessments : mapping of str to RiskAssessment
        The assessments by name.
    table : pandas.DataFrame
        One line per release: scheme, k, l, groups, suppressed rows, then all measures.
    standard_errors : pandas.DataFrame
        Monte-Carlo errors of the measures.
    """

    assessments: Mapping[str, RiskAssessment]
    table: pd.DataFrame
    standard_errors: pd.DataFrame

    def efficient(self, *, threat: str = "RGT_A") -> pd.Series:
        """Whether no other release is at least as good in both threat and faithfulness.

        Parameters
        ----------
        threat : str
            The measure of threat: ``RGT_A``, ``max_Ti``, ``doubled`` or another of `THREATS`.
        """
        _check_threat(threat)
        # A release that threatens nobody has no Ti at all.
        harm = self.table[threat].fillna(-np.inf).to_numpy()
        good = self.table["RF"].to_numpy()
        no_worse = (harm[None, :] <= harm[:, None]) & (good[None, :] >= good[:, None])
        better = (harm[None, :] < harm[:, None]) | (good[None, :] > good[:, None])
        return pd.Series(~(no_worse & better).any(axis=1), index=self.table.index, name="efficient")

    def plot(self, *, threat: str = "RGT_A", ax: Axes | None = None) -> Axes:
        """Plot the privacy-utility plane: faithfulness to the right, threat upwards.

        Releases worth choosing from are joined by a line; whiskers are two standard errors.
        """
        ok = self.efficient(threat=threat).to_numpy()
        ax = make_axes(ax, 5.4, 4.0)
        x, y = self.table["RF"].to_numpy(), self.table[threat].to_numpy()
        dx, dy = (2 * self.standard_errors[c].to_numpy() for c in ("RF", threat))
        front = np.flatnonzero(ok)[np.argsort(x[ok], kind="stable")]
        ax.plot(x[front], y[front], color="0.6", linewidth=1, zorder=1)
        for chosen, key, marker, label in (
            (ok, "ideal", "o", "no other is better in both"),
            (~ok, "other", "x", "another is better"),
        ):
            if chosen.any():
                ax.errorbar(x[chosen], y[chosen], xerr=dx[chosen], yerr=dy[chosen], fmt=marker,
                            color=COLOURS[key], label=label, linewidth=1)  # fmt: skip
        right = x > (x.min() + x.max()) / 2
        for i, place in enumerate(np.argsort(y, kind="stable")):
            # Names point inwards, and neighbours' names go above and below in turn.
            ax.annotate(
                str(self.table.index[place]),
                (x[place], y[place]),
                textcoords="offset points",
                xytext=(-6 if right[place] else 6, 5 if i % 2 else -10),
                ha="right" if right[place] else "left",
                fontsize=8,
            )
        ax.set(xlabel=f"{MEASURES['RF'].title} (RF)", ylabel=f"{MEASURES[threat].title} ({threat})",
               title="Privacy against utility")  # fmt: skip
        ax.margins(0.2)
        ax.legend(frameon=False, fontsize="small")
        return ax

    def __repr__(self) -> str:
        return f"Comparison of {len(self.table)} releases: {', '.join(map(str, self.table.index))}"

    def _repr_html_(self) -> str:
        return str(self.table.T.to_html(float_format="{:.4g}".format))


def compare(
    assessments: Mapping[str, RiskAssessment] | Iterable[RiskAssessment],
    *,
    names: Sequence[str] | None = None,
) -> Comparison:
    """Put several releases of the same cleartext side by side (the privacy-utility plane).

    Parameters
    ----------
    assessments : mapping or iterable of RiskAssessment
        Assessments, by name or in order.
    names : sequence of str, optional
        Names of the releases; by default what tells them apart: scheme, k, l.

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
            raise AnonbayesError("The mapping has names already; leave out names=.")
        named = {str(name): risk for name, risk in assessments.items()}
    else:
        items = list(assessments)
        for item in items:
            if not isinstance(item, RiskAssessment):
                raise AnonbayesError(
                    f"compare needs assessments (post.assess(...)), got {type(item).__name__}."
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
    lines = {}
    for name, risk in named.items():
        table = risk.post.table
        lines[name] = {
            "scheme": table.scheme,
            "k": table.k,
            "l": table.l,
            "groups": table.n_groups,
            "suppressed": table.n_suppressed,
        } | risk.summary.to_dict()
    frame = pd.DataFrame.from_dict(lines, orient="index").rename_axis("release")
    errors = pd.DataFrame({name: risk.standard_errors for name, risk in named.items()}).T
    return Comparison(named, frame, errors.rename_axis("release"))


def _labels(risks: Sequence[RiskAssessment]) -> list[str]:
    """What tells the releases apart, numbered where that is not enough."""
    plain = [f"{t.scheme} k={t.k} l={t.l}" for t in (risk.post.table for risk in risks)]
    return [
        label if plain.count(label) == 1 else f"{label} #{plain[: i + 1].count(label)}"
        for i, label in enumerate(plain)
    ]


def _check_same_people(named: Mapping[str, RiskAssessment]) -> None:
    first_name, first = next(iter(named.items()))
    want = first.cleartext
    for name, risk in named.items():
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
        if risk.gain.text != first.gain.text:
            raise TableError(
                f"A threat means {risk.gain.text!r} in {name!r} and {first.gain.text!r} in "
                f"{first_name!r}; assess both with the same harm= or gain=."
            )


def _check_threat(threat: str) -> None:
    if threat not in THREATS:
        raise AnonbayesError(
            f"threat={threat!r} is no measure of threat. {nearest(threat, THREATS)}"
        )
