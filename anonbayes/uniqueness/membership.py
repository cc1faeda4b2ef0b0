"""Is somebody in the table at all? The probability for each record, and how informative it is.

Of the ``M`` people one of whom is the victim, ``N`` are in the table. ``n`` of its rows could be
the victim's, and ``(M - N) p`` people outside are expected to look the same, so that

    P(member | r)  =  n / (n + (M - N) E[p | release, register]).

For a victim who may be anybody this is exact, as the ratio of two expected numbers of people (not
the expectation of a ratio). An Anatomy release shows ``n`` for every record. For a generalized
table it is the size of the group that contains the record: people with equal records are shown
alike, in the smallest group that covers them, so that the share of the record within the group
cancels.

``p`` of a group has a gamma prior around the estimate of a tree of attributes (Chow and Liu 1968)
learned from the register; how wrong the tree may be is also learned from the register.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.optimize import minimize, minimize_scalar
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree
from scipy.special import expit, gammaln

from anonbayes.arrays import Floats, Ints, read_whole
from anonbayes.beliefs.index import records_of
from anonbayes.beliefs.victims import Victims, read_victims
from anonbayes.errors import AnonbayesError, CellError, TableError
from anonbayes.figures import SERIES, legend_below, make_axes, percent_axis
from anonbayes.formats import plain, share
from anonbayes.io.files import write_text
from anonbayes.io.text import pandas_frame
from anonbayes.tables.table import ReleasedTable
from anonbayes.uniqueness.identity import Identity

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Membership", "RecordTree", "expected_share", "membership", "smallest_groups"]

MEASURES: Mapping[str, str] = {
    "auc": "probability that a person in the table gets a higher probability than somebody outside",
    "tpr_at_1_percent": "share of the table's people found, if 1% of the others are wrongly found",
    "tpr_at_0_1_percent": "the same with 0.1% of the others",
    "auc_without_table": "the auc without the table, from how rare a record is",
    "log_loss": "surprise at who is in the table, in nats per person in the population",
    "log_loss_without_table": "the same for somebody who only knows how many are in it",
    "calibration_error": "mean gap between stated probabilities and shares of people in the table",
    "surely_members": "share of the table's people with a probability of 0.9 or more",
    "highest": "highest probability of anybody in the table",
}
"""Rows of `Membership.summary` and what they mean."""
RATES = {"tpr_at_1_percent": 0.01, "tpr_at_0_1_percent": 0.001}
RESAMPLES = 400
ROC_POINTS = 200
SURE = 0.9
LARGEST_PAIR = 4_000_000
CHUNK = 20_000_000
SOFT = 1e-15


# -- the answer -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Membership:
    """How surely one can tell who is in a table. Returned by `membership`.

    Attributes
    ----------
    summary : pandas.DataFrame
        One line per measure: ``estimate``, and ``low`` and ``high`` of a bootstrap interval over
        people; measures that depend on too few people outside are missing.
    rows : pandas.DataFrame
        One line per person, those of the table first: ``member``, ``probability`` of being in the
        table, ``fitting``, the number of rows that could be the person's, and ``expected``, the
        number of people outside the table who look the same.
    roc : pandas.DataFrame
        ``threshold``, and the shares of people outside (``fpr``) and inside (``tpr``) with at least
        that probability.
    calibration : pandas.DataFrame
        By tenths of stated probability: ``people`` in the population, mean ``stated``, ``observed``
        share of members, and ``low`` and ``high`` of its 95% interval.
    population : int
        Number of people one of whom is the victim.
    reference : str
        From what the population was learned.
    remarks : tuple of str
        What a reader should know before using the numbers.
    """

    summary: pd.DataFrame
    rows: pd.DataFrame = field(repr=False)
    roc: pd.DataFrame = field(repr=False)
    calibration: pd.DataFrame = field(repr=False)
    population: int
    reference: str
    remarks: tuple[str, ...]
    _table: ReleasedTable = field(repr=False)
    _share: Floats = field(repr=False)

    def probability(self, people: pd.DataFrame | Mapping[str, Any]) -> pd.Series:
        """Return the probability that people of the population are in the table.

        Examples
        --------
        >>> import anonbayes as ab
        >>> clinic = ab.datasets.load("clinic")
        >>> table = ab.anonymize.anatomy(clinic[:1000], "diagnosis", 3, seed=1)
        >>> found = ab.membership(table, clinic[:1000], register=clinic[1000:])
        >>> values = found.probability(clinic[:2]).tolist()
        >>> bool(0 < min(values) and max(values) < 1)
        True
        """
        people = pandas_frame(people)
        frame = people if isinstance(people, pd.DataFrame) else pd.DataFrame([dict(people)])
        clear = read_clear(self._table, frame, "people")
        group = smallest_groups(self._table, clear.codes)[clear.record]
        fitting, expected = _people(self._table, self._share, group, self.population)
        return pd.Series(fitting / (fitting + expected), index=frame.index, name="probability")

    def plot_roc(self, *, ax: Axes | None = None) -> Axes:
        """Plot the share of members found against that of others wrongly found, on log scales."""
        axes = make_axes(ax, 4.6, 4.2)
        least = 0.5 / max(int((~self.rows["member"]).sum()), 1)
        line = self.roc[["fpr", "tpr"]].clip(lower=least)
        axes.plot(line["fpr"], line["tpr"], color=SERIES[1], label="with the table")
        axes.plot([least, 1], [least, 1], "--", color="grey", label="without it")
        ends = self.summary[["estimate", "low", "high"]].astype(float).T.to_dict("list")
        for name, rate in RATES.items():
            found, low, high = ends[name]
            if not np.isnan(found):
                bars = [[max(found - max(low, least), 0.0)], [max(high - found, 0.0)]]
                axes.errorbar(rate, max(found, least), bars, fmt="o", color=SERIES[1], capsize=3)
        axes.set(
            xscale="log", yscale="log", xlim=(least, 1.0), ylim=(least, 1.2),
            xlabel="People outside the table taken for members",
            ylabel="People in the table found",
            title=f"AUC {ends['auc'][0]:.3f}",
        )  # fmt: skip
        percent_axis(axes.xaxis, axes.yaxis)
        legend_below(axes)
        return axes

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain types, without data of single people."""
        measures = plain(self.summary.drop(columns="meaning").to_dict("index"))
        corners = np.unique(np.linspace(0, len(self.roc) - 2, ROC_POINTS).astype(int))
        return {
            "population": self.population,
            "reference": self.reference,
            "measures": measures,
            "roc": plain(self.roc.iloc[1:].iloc[corners].to_dict("records")),
            "calibration": plain(self.calibration.to_dict("records")),
            "remarks": list(self.remarks),
        }

    def to_json(self, path: str | Path | None = None) -> str:
        """Return `to_dict` as JSON, and write it to `path` if one is given."""
        text = json.dumps(self.to_dict(), indent=1)
        if path is not None:
            write_text(Path(path), text + "\n")
        return text

    @property
    def text(self) -> str:
        """The findings in plain words."""
        value = self.summary["estimate"]
        members = int(self.rows["member"].sum())
        words = [
            f"Shown a member and an outsider, one can tell which is which in "
            f"{share(value['auc'])} of the cases (50% is guessing); without the table, from how "
            f"rare a record is, in {share(value['auc_without_table'])}.",
            f"If 1% of the others are taken for members, {share(value['tpr_at_1_percent'])} of "
            f"{members:,} people are found (with 0.1%, {share(value['tpr_at_0_1_percent'])}).",
            f"{share(value['surely_members'])} of them have a stated probability of at least "
            f"{SURE:.0%}.",
        ]
        return " ".join([*words, *self.remarks])

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.text)}</p>" + self.summary.round(4).to_html(na_rep="")


def membership(
    table: ReleasedTable,
    cleartext: pd.DataFrame,
    *,
    register: pd.DataFrame,
    population: int | None = None,
    reference: Identity | None = None,
    folds: int = 10,
    seed: int | np.random.Generator | None = 0,
    probability: float = 0.95,
) -> Membership:
    """Compute how surely one can tell whether a person is in a table.

    Parameters
    ----------
    table : ReleasedTable
        A generalized table or an Anatomy.
    cleartext : pandas.DataFrame
        The people of the table, in clear.
    register : pandas.DataFrame
        People of the same population who are not in the table, with the same attributes. The
        population is learned from them, and they represent everybody outside the table when
        results are scored; each is scored by what was learned from the others.
    population : int, optional
        Number of people one of whom is the victim, including those in the table; by default the
        people in the table and in the register.
    reference : Identity, optional
        The population as estimated by `identity` from the table, for an attacker without a
        register. The register then only represents the people outside.
    folds : int, default 10
        Number of parts into which the register is divided; people of a part, and an equal share of
        the table's people, are scored by what was learned from the other parts.
    seed : int or Generator, optional
        Seed of the division into parts and of the bootstrap.
    probability : float, default 0.95
        Probability of the intervals.

    Returns
    -------
    Membership
        With ``.summary``, ``.rows``, ``.roc``, ``.calibration``, ``.probability(people)``,
        ``.plot_roc()`` and ``.to_json()``.

    Notes
    -----
    See MODEL 1.10. It is assumed that equal records are shown alike, in the smallest group that
    covers them (true for recoding, local recoding and strict Mondrian; a remark says if the
    cleartext contradicts it), and that people in the table are like those in the register except
    for being in it. Sensitive values are not used.

    References
    ----------
    .. [1] C. K. Chow, C. N. Liu (1968). Approximating discrete probability distributions with
       dependence trees. IEEE Trans. Information Theory 14, 462-467.
    .. [2] N. Carlini et al. (2022). Membership inference attacks from first principles. IEEE S&P.

    Examples
    --------
    >>> import anonbayes as ab
    >>> clinic = ab.datasets.load("clinic")
    >>> table = ab.anonymize.anatomy(clinic[:1000], "diagnosis", 3, seed=1)
    >>> found = ab.membership(table, clinic[:1000], register=clinic[1000:])
    >>> bool(found.summary.loc["auc", "low"] > 0.8)
    True
    """
    folds = read_whole("folds", folds, least=2)
    if not 0 < probability < 1:
        raise AnonbayesError(f"probability={probability!r} must be between 0 and 1.")
    members, others = (
        read_clear(table, cleartext, "cleartext"),
        read_clear(table, register, "register"),
    )
    n, size = table.n_rows, len(others.record)
    people = n + size if population is None else read_whole("population", population)
    if people <= n:
        raise AnonbayesError(
            f"population={people:,} leaves nobody outside the table, which has {n:,} rows."
        )
    if size < folds:
        raise AnonbayesError(f"A register of {size} people cannot be divided into {folds} parts.")
    codes = np.concatenate([members.codes, others.codes])
    group = smallest_groups(table, codes)
    inside = group[members.record]
    if (inside < 0).any():
        row = int(np.flatnonzero(inside < 0)[0])
        raise TableError(
            f"cleartext, row {members.labels[row]}: no row of the table could be this person's: "
            f"{cleartext.iloc[row][list(table.attributes)].to_dict()}. Is it a person of the table?"
        )
    rng = np.random.default_rng(seed)
    record = np.concatenate([members.record, len(members.codes) + others.record])
    part = np.concatenate([rng.permutation(k) % folds for k in (len(inside), size)])
    outsider = np.arange(len(record)) >= len(inside)

    def learned(taught: Any) -> tuple[Floats, Floats]:
        """Share of each group in the population, and of each distinct record."""
        counts = np.bincount(record[taught & outsider], minlength=len(codes)).astype(float)
        shares, of_record = group_shares(table, codes, counts, group)
        return (shares if alone is None else alone), of_record

    alone = None if reference is None else _by_identity(reference, table)
    fitting, expected, rarity = np.empty((3, len(record)))
    for fold in range(folds):
        who = part == fold
        shares, of_record = learned(~who)
        fitting[who], expected[who] = _people(table, shares, group[record[who]], people)
        rarity[who] = -of_record[record[who]]
    rows = pd.DataFrame(
        {
            "member": ~outsider,
            "probability": fitting / (fitting + expected),
            "fitting": fitting.astype(np.int64),
            "expected": expected,
        },
        index=members.labels.append(others.labels),
    )
    summary, roc, calibration = _judge(rows, rarity, people, n, rng, probability)
    learned_from = f"a register of {size:,} people" if reference is None else "the table alone"
    return Membership(
        summary=summary, rows=rows, roc=roc, calibration=calibration, population=people,
        reference=learned_from, remarks=tuple(_remarks(table, inside, members, others)),
        _table=table, _share=learned(outsider)[0],
    )  # fmt: skip


def _by_identity(who: Identity, table: ReleasedTable) -> Floats:
    """``E[p]`` of every group of the table, as estimated by `identity` from the table."""
    if who.sample_size != table.n_rows or who.population <= table.n_rows:
        raise AnonbayesError(
            "reference= must be identity(table, population=...) of the same table, with a "
            "population larger than the table."
        )
    line = np.asarray(records_of(table).lines.argmax(axis=0)).ravel()
    beyond = (who.rows["people"] - who.rows["sample_frequency"]).to_numpy()
    out = np.empty(len(records_of(table).index.codes))
    out[line] = beyond / (who.population - who.sample_size)
    return out


def _people(
    table: ReleasedTable, shares: Floats, group: Ints, population: int
) -> tuple[Floats, Floats]:
    """Number of rows that could be somebody's, and of people outside who look the same."""
    rows = records_of(table).counts
    fitting = np.where(group < 0, 0.0, rows[group])
    outside = (population - table.n_rows) * np.where(group < 0, 1.0, shares[group])
    return fitting.astype(float), outside.astype(float)


def _remarks(
    table: ReleasedTable, inside: Ints, members: ClearRecords, others: ClearRecords
) -> Any:
    if len(inside) == table.n_rows:
        shown = records_of(table).counts
        off = 0.5 * np.abs(np.bincount(inside, minlength=len(shown)) - shown).sum() / len(inside)
        if off > 0.001:
            yield (
                f"At least {share(off)} of the people are not in the smallest group that covers "
                "them: equal records were shown differently, so the probabilities are not exact."
            )
    _, place = np.unique(np.concatenate([others.codes, members.codes]), axis=0, return_inverse=True)
    place = np.ravel(place)
    count = np.bincount(place[: len(others.codes)][others.record], minlength=place.max() + 1)
    found = float((count[place[len(others.codes) :][members.record]] > 0).mean())
    by_chance = float((count[place[: len(others.codes)][others.record]] > 1).mean())
    if found - by_chance > max(0.1, 2.5 / np.sqrt(len(inside))):
        yield (
            f"{share(found)} of the people in the table have the record of somebody in the "
            f"register ({share(by_chance)} would be expected by chance). The register must contain "
            "only people outside the table: whoever has one with them in it can look them up."
        )


# -- quality of the answers -----------------------------------------------------------------------


def _curve(members: Ints, others: Ints) -> tuple[Floats, Floats]:
    """FPR and TPR from numbers of people by decreasing score, from (0, 0) to (1, 1)."""
    fpr = np.concatenate([[0.0], np.cumsum(others) / others.sum()])
    return fpr, np.concatenate([[0.0], np.cumsum(members) / members.sum()])


def _at(rate: float, fpr: Floats, tpr: Floats) -> float:
    """TPR at a given FPR; between two points of the curve, by linear interpolation."""
    i = int(np.searchsorted(fpr, rate + SOFT, side="right")) - 1
    if i + 1 == len(fpr):
        return float(tpr[i])
    part = (rate - fpr[i]) / (fpr[i + 1] - fpr[i])
    return float(tpr[i] + max(part, 0.0) * (tpr[i + 1] - tpr[i]))


def _judge(
    rows: pd.DataFrame,
    rarity: Floats,
    population: int,
    n: int,
    rng: np.random.Generator,
    probability: float,
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    member, stated = rows["member"].to_numpy(), rows["probability"].to_numpy()
    n_in, n_out = int(member.sum()), int((~member).sum())
    levels, place = np.unique(-stated, return_inverse=True)
    place_in, place_out = place[member], place[~member]

    def rates(at_in: Ints, at_out: Ints) -> list[float]:
        fpr, tpr = _curve(
            np.bincount(at_in, minlength=len(levels)), np.bincount(at_out, minlength=len(levels))
        )
        area = float(np.diff(fpr) @ (tpr[1:] + tpr[:-1])) / 2
        found = [_at(rate, fpr, tpr) if n_out * rate >= 1 else np.nan for rate in RATES.values()]
        return [area, *found]

    value = dict(zip(("auc", *RATES), rates(place_in, place_out), strict=True))
    again = np.array([
        rates(place_in[rng.integers(0, n_in, n_in)], place_out[rng.integers(0, n_out, n_out)])
        for _ in range(RESAMPLES)
    ])  # fmt: skip
    tail = (1 - probability) / 2
    low, high = np.quantile(again, [tail, 1 - tail], axis=0)
    ends = {k: (low[i], high[i]) for i, k in enumerate(value)}
    # Everybody in the population counts; those in register and cleartext represent the others.
    weight = np.where(member, n / n_in, (population - n) / n_out)
    prior = n / population
    truth = np.where(member, stated, 1 - stated)
    calibration, error = _calibrated(member, stated, weight)
    from scipy.stats import rankdata  # slow to import

    ranks = rankdata(rarity)
    area = (ranks[member].sum() - n_in * (n_in + 1) / 2) / n_in / n_out
    value |= {
        "auc_without_table": float(area),
        "log_loss": float(weight @ -np.log(np.maximum(truth, 1e-4))) / population,
        "log_loss_without_table": float(-prior * np.log(prior) - (1 - prior) * np.log1p(-prior)),
        "calibration_error": error,
        "surely_members": float((stated[member] >= SURE).mean()),
        "highest": float(stated[member].max()),
    }
    lines = {
        name: (value[name], *ends.get(name, (np.nan, np.nan)), meaning)
        for name, meaning in MEASURES.items()
    }
    summary = pd.DataFrame.from_dict(
        lines, orient="index", columns=["estimate", "low", "high", "meaning"]
    )
    fpr, tpr = _curve(
        np.bincount(place_in, minlength=len(levels)), np.bincount(place_out, minlength=len(levels))
    )
    roc = pd.DataFrame({"threshold": np.append(np.inf, -levels), "fpr": fpr, "tpr": tpr})
    return summary, roc, calibration


def _calibrated(member: Any, stated: Floats, weight: Floats) -> tuple[pd.DataFrame, float]:
    """Stated and observed probability by tenths, and the mean gap."""
    bins = np.minimum(np.floor(10 * stated + 1e-9), 9).astype(np.int64)
    people, says, real, square = (
        np.bincount(bins, x, 10) for x in (weight, weight * stated, weight * member, weight**2)
    )
    used = people > 0
    people, says, real, square = people[used], says[used], real[used], square[used]
    seen, trials, z2 = real / people, people**2 / square, 1.96**2
    middle = (seen + z2 / 2 / trials) / (1 + z2 / trials)
    half = np.sqrt(z2 * (seen * (1 - seen) / trials + z2 / 4 / trials**2)) / (1 + z2 / trials)
    frame = pd.DataFrame(
        {"people": people, "stated": says / people, "observed": seen,
         "low": middle - half, "high": middle + half}
    )  # fmt: skip
    return frame, float(np.abs(says - real).sum() / people.sum())


# -- the population, from a register --------------------------------------------------------------


class RecordTree(NamedTuple):
    """A distribution of records in which each attribute depends on one other.

    Attributes
    ----------
    order, parent : numpy.ndarray
        Attributes from the root on, and the attribute on which each depends.
    margin : tuple of numpy.ndarray
        Share of each value.
    given : dict
        Shares of an attribute's values given the parent's, shrunk towards the marginal.
    """

    order: Ints
    parent: Ints
    margin: tuple[Floats, ...]
    given: dict[int, Floats]

    @classmethod
    def of(cls, codes: Ints, people: Floats, sizes: Ints) -> RecordTree:
        """Learn from distinct records (`codes`) and the people who have them."""
        n, n_attributes = float(people.sum()), codes.shape[1]
        margin = tuple(
            (np.bincount(codes[:, a], people, sizes[a]) + 0.5) / (n + 0.5 * sizes[a])
            for a in range(n_attributes)
        )

        def pair(a: int, b: int) -> Floats:
            joint = np.bincount(codes[:, a] * sizes[b] + codes[:, b], people, sizes[a] * sizes[b])
            return joint.reshape(sizes[a], sizes[b]).astype(float)

        # The tree with the most mutual information, minus what chance alone would give.
        told = np.zeros((n_attributes, n_attributes))
        for a in range(n_attributes):
            for b in range(a + 1, n_attributes):
                if sizes[a] * sizes[b] > LARGEST_PAIR:
                    continue
                joint = pair(a, b)
                alone = joint.sum(axis=1, keepdims=True) * joint.sum(axis=0) / n
                seen = joint > 0
                told[a, b] = joint[seen] @ np.log(joint[seen] / alone[seen]) / n
                told[a, b] -= (sizes[a] - 1) * (sizes[b] - 1) / (2 * n)
        cost = np.triu(told.max(initial=0.0) + 1.0 - told, 1)
        order, parent = breadth_first_order(minimum_spanning_tree(cost), 0, directed=False)
        given = {}
        for b in order[1:].tolist():
            a = int(parent[b])
            if sizes[a] * sizes[b] > LARGEST_PAIR:
                given[b] = np.broadcast_to(margin[b], (sizes[a], sizes[b]))
            else:
                given[b] = _shrunk(pair(a, b), margin[b])
        return cls(order, parent, margin, given)

    def share(self, codes: Ints) -> Floats:
        """Probability of records, given by the codes of their values."""
        root = int(self.order[0])
        out = self.margin[root][codes[:, root]]
        for b, given in self.given.items():
            out = out * given[codes[:, self.parent[b]], codes[:, b]]
        return np.maximum(out, SOFT)

    def mass(self, cells: Ints, evidence: tuple[sparse.csr_array, ...]) -> Floats:
        """Probability of combinations of cells, computed from the leaves up."""
        if all(matrix.nnz == matrix.shape[0] for matrix in evidence):  # single values
            return self.share(np.stack([m.indices[cells[:, a]] for a, m in enumerate(evidence)], 1))
        fits = [matrix.toarray()[cells[:, a]] for a, matrix in enumerate(evidence)]
        for b in self.order[:0:-1].tolist():
            a = int(self.parent[b])
            fits[a] = fits[a] * (fits[b] @ self.given[b].T)
        root = int(self.order[0])
        return np.maximum(fits[root] @ self.margin[root], SOFT)


def _shrunk(joint: Floats, margin: Floats) -> Floats:
    """Conditional shares, shrunk so that each person is best predicted by the others."""
    seen, rows = joint > 0, joint.sum(axis=1, keepdims=True)

    def score(log_weight: float) -> float:
        weight = np.exp(log_weight)
        share = (joint - 1 + weight * margin) / (rows - 1 + weight)
        return -float(joint[seen] @ np.log(share[seen]))

    best = minimize_scalar(score, bounds=(np.log(0.1), np.log(1e6)), method="bounded")
    weight = float(np.exp(best.x))
    return np.asarray((joint + weight * margin) / (rows + weight))


def expected_share(
    foretold: Floats, rows: Floats, people: Floats, *, shape: Floats | None = None
) -> Floats:
    """``E[p]`` of groups: a gamma prior around the predicted share, with rows and people as counts.

    Parameters
    ----------
    foretold : numpy.ndarray
        Share predicted by the tree; the last one is of everything that is in no group.
    rows, people : numpy.ndarray
        Rows of the release and people of the register in each group, the last one likewise.
    shape : numpy.ndarray, optional
        Shape of each group's gamma prior; by default ``weight * foretold ** power``, with the
        weight and power under which the register's people are most likely, given the release. With
        ``shape = weight * foretold`` it is the Dirichlet prior of that weight.

    Examples
    --------
    >>> half = np.array([0.5, 0.5])
    >>> expected_share(half, np.array([2.0, 0.0]), np.array([1.0, 3.0]), shape=4 * half).tolist()
    [0.5, 0.5]
    """
    n, size = float(rows.sum()), float(people.sum())
    if shape is None:

        def shapes(at: Floats) -> Floats:
            return np.asarray(np.exp(at[0]) * foretold ** expit(at[1]))

        def surprise(at: Floats) -> float:
            own = shapes(at)
            rate, seen = own / foretold + n, own + rows
            terms = gammaln(seen + people) - gammaln(seen) - people * np.log(rate + size)
            return -float((terms + seen * np.log(rate / (rate + size)))[:-1].sum())

        settings = {"maxiter": 400, "xatol": 1e-3, "fatol": 1e-3}
        start = np.array([4.0, 0.0])
        shape = shapes(minimize(surprise, start, method="Nelder-Mead", options=settings).x)
    return np.asarray((shape + rows + people) / (shape / foretold + n + size))


# -- who is where ---------------------------------------------------------------------------------


class ClearRecords(NamedTuple):
    """People in clear: values of the distinct records, and the record of each person."""

    codes: Ints
    record: Ints
    labels: pd.Index


def read_clear(table: ReleasedTable, frame: Any, what: str) -> ClearRecords:
    """Read people in clear, who have one value of each attribute of the table."""
    frame = pandas_frame(frame)
    if not isinstance(frame, pd.DataFrame):
        raise TableError(f"{what} must be a DataFrame, not {type(frame).__name__}.")
    for name in table.attributes:
        if name not in frame.columns:
            raise TableError(f"{what}: column {name!r} is missing.")
    if not len(frame):
        raise TableError(f"{what} has no rows.")
    try:
        victims = read_victims(table, frame[list(table.attributes)])
    except CellError as error:
        raise CellError(
            f"{what}: {error} Read the release with domains= that contain the value, or correct it."
        ) from None
    whole, codes = victims.whole_records()
    if not whole.all():
        row = int(np.flatnonzero(~whole[victims.inverse])[0])
        raise TableError(
            f"{what}, row {frame.index[row]}: {frame.iloc[row][list(table.attributes)].to_dict()} "
            "is not one value for each attribute. Fill gaps in, or leave such people out."
        )
    return ClearRecords(codes, victims.inverse, frame.index)


def smallest_groups(table: ReleasedTable, codes: Ints) -> Ints:
    """Combination of cells that shows each record: the smallest that covers it, or -1.

    Examples
    --------
    >>> frame = pd.DataFrame({"x": ["a", "a", "*", "*"], "s": list("pqpq")})
    >>> table = ReleasedTable.horizontal(frame, "s", domains={"x": list("abc")})
    >>> smallest_groups(table, np.array([[0], [1]])).tolist()
    [0, 1]
    """
    rows = records_of(table)
    for matrix, name in zip(rows.evidence, table.attributes, strict=True):
        if (matrix.data != 1.0).any():
            raise TableError(
                f"Column {name!r} was released by a randomized mechanism, but membership can only "
                "be computed for generalized tables and Anatomy releases."
            )
    sizes = [matrix.shape[1] for matrix in rows.evidence]
    who = Victims.of_records(codes, sizes)
    cells = rows.index.codes
    sums, found = rows.add_up(who, np.arange(1.0, len(cells) + 1)[:, None])
    place = np.where(found == 1, np.rint(sums.plain[:, 0]).astype(np.int64) - 1, -1)
    several = np.flatnonzero(found > 1)
    inside = [matrix.toarray() > 0 for matrix in rows.evidence]
    width = sum(np.log(m.sum(axis=1))[cells[:, a]] for a, m in enumerate(inside))
    step = max(1, CHUNK // len(cells))
    for first in range(0, len(several), step):
        part = several[first : first + step]
        covers = np.ones((len(part), len(cells)), dtype=bool)
        for a, matrix in enumerate(inside):
            covers &= matrix.T[codes[part, a]][:, cells[:, a]]
        place[part] = np.where(covers, width, np.inf).argmin(axis=1)
    return place


def group_shares(
    table: ReleasedTable, codes: Ints, counts: Floats, group: Ints
) -> tuple[Floats, Floats]:
    """``E[p]`` of every group of the table, and of every record by the tree alone."""
    rows, seen = records_of(table), counts > 0
    sizes = np.array([matrix.shape[1] for matrix in rows.evidence])
    tree = RecordTree.of(codes[seen], counts[seen], sizes)
    # For overlapping groups, the tree predicts the whole rather than the part that no smaller group
    # covers; people are counted in that part, which shows how little the tree can then be trusted.
    mass = tree.mass(rows.index.codes, rows.evidence)
    at = np.where(group < 0, len(mass), group)
    people = np.bincount(at, weights=counts, minlength=len(mass) + 1).astype(float)
    rest = max(1.0 - float(mass.sum()), SOFT)
    share = expected_share(np.append(mass, rest), np.append(rows.counts, 0.0), people)
    return share[:-1], tree.share(codes)
