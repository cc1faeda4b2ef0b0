"""Predictive check: pairs of attributes that are more dependent than the model assumes.

Given the sensitive value, the model assumes that attributes are independent (MODEL 1). So the
mutual information of two attributes given the secret should be as small as in tables drawn from the
posterior, that is, due to chance. For a table that hides who owns which tuple (Anatomy), the mutual
information without the secret is compared.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from numba import njit
from scipy import sparse

from anonbayes.arrays import Floats, Ints, read_whole, starts_of
from anonbayes.errors import ModelError
from anonbayes.figures import in_lines, make_axes
from anonbayes.formats import Table, number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from anonbayes.inference.posterior import Posterior

MOST_ROWS = 50_000
"""Number of randomly chosen rows used from larger tables."""


@dataclass(frozen=True, eq=False, repr=False)
class PredictiveCheck:
    """Pairs of attributes, observed and predicted. Returned by `predictive_check`.

    Attributes
    ----------
    table : pandas.DataFrame
        One line per pair, largest excess first: the mutual information of the pair given the
        secret, in nats per row, ``observed`` and ``predicted`` (means over draws); ``excess``, the
        difference; and the posterior predictive ``p_value``, the share of draws in which a table
        drawn from the model has at least as much.
    given : str
        Sensitive attribute that is held fixed; empty if rows do not show it.
    draws : int
        Number of posterior draws used.
    """

    table: pd.DataFrame
    given: str
    draws: int

    def worst(self, n: int = 3, *, level: float = 0.05) -> pd.DataFrame:
        """Return pairs with more information than predicted at this level, largest excess first."""
        return self.table[self.table["p_value"] <= level].head(n)

    @property
    def text(self) -> str:
        """The findings in plain words."""
        given = f" given {self.given}" if self.given else ""
        worst = self.worst()
        if worst.empty:
            return f"No pair of attributes is more dependent{given} than the model predicts."
        named = "; ".join(
            f"{one} and {other} ({number(excess, 2)} nats per row beyond chance)"
            for (one, other), excess in zip(worst.index, worst["excess"], strict=True)
        )
        more = int((self.table["p_value"] <= 0.05).sum()) - len(worst)
        return (
            f"The model treats attributes as independent{given}. These pairs are more dependent "
            f"than it predicts: {named}{f'; and {more} more pairs' if more > 0 else ''}. "
            "Independent evidence would count their shared information twice."
        )

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Plot a heat map of the excess of each pair over the model's prediction.

        Pairs within the range of chance (p above 0.05) are marked with a dot.
        """
        names = list(dict.fromkeys(name for pair in self.table.index for name in pair))
        place = {name: i for i, name in enumerate(names)}
        excess = np.full((len(names), len(names)), np.nan)
        ax = make_axes(ax, 3.4 + 0.5 * len(names), 2.2 + 0.5 * len(names))
        columns = (self.table[name] for name in ("excess", "p_value"))
        for (one, other), beyond, p_value in zip(self.table.index, *columns, strict=True):
            i, j = place[one], place[other]
            excess[i, j] = excess[j, i] = max(beyond, 0.0)
            if p_value > 0.05:
                for x, y in ((i, j), (j, i)):
                    ax.text(x, y, "·", ha="center", va="center", color="0.5")
        image = ax.imshow(excess, cmap="cividis", vmin=0.0)
        ax.figure.colorbar(image, ax=ax, label="Nats per row\nbeyond the model", shrink=0.8)
        shown = in_lines(names, 22, 1)
        ax.set_xticks(range(len(names)), shown, rotation=45, ha="right")
        ax.set_yticks(range(len(names)), shown)
        ax.set_title("Dependence that the model misses")
        ax.set_xlabel("Dot: within the range of chance (p above 0.05)", fontsize="small")
        return ax

    def __repr__(self) -> str:
        return f"PredictiveCheck({len(self.table)} pairs, {self.draws} draws)"

    def _repr_html_(self) -> str:
        rows = [
            [" and ".join(map(str, pair)), *(number(value, 2) for value in line)]
            for pair, line in zip(self.table.index, self.table.to_numpy().tolist(), strict=True)
        ]
        head = ["mutual information (nats per row)", "observed", "predicted", "excess", "p-value"]
        return f"<div><p>{escape(self.text)}</p>{Table(head, rows, '').to_html()}</div>"


def predictive_check(
    post: Posterior, *, draws: int = 200, seed: int | np.random.Generator | None = 0
) -> PredictiveCheck:
    """Compare pairs of attributes of a release with what its posterior predicts.

    For each posterior draw, cells are completed to values by the model, and a table of the same
    size is drawn from it; both are reduced to the mutual information of each pair of attributes
    given the secret. If cells do not overlap, the cells themselves are compared and only suppressed
    ones are completed: p-values of independent attributes are then almost uniform. If cells
    overlap, completion follows the model's own expectation, so p-values tend towards one half; the
    check then misses dependence, but what it finds is real.

    Parameters
    ----------
    post : Posterior
        Posterior of a table that shows its sensitive values.
    draws : int
        Number of posterior draws to use, at most all.
    seed : int, Generator or None
        Seed of the completed and predicted tables.

    References
    ----------
    A. Gelman, X.-L. Meng, H. Stern (1996). Posterior predictive assessment of model fitness via
    realized discrepancies. Statistica Sinica 6, 733-760.

    Examples
    --------
    >>> import anonbayes as ab
    >>> people = ab.datasets.load("clinic").assign(again=lambda frame: frame["sex"])
    >>> shown = people[["sex", "again", "marital_status", "diagnosis"]]
    >>> post = ab.fit(ab.ReleasedTable.horizontal(shown, "diagnosis"), seed=1, progressbar=False)
    >>> predictive_check(post).table.index[0]
    ('sex', 'again')
    """
    table = post.table
    if not table.secrets_known:
        raise ModelError("The predictive check needs sensitive values released in clear.")
    if len(table.attributes) < 2:
        raise ModelError(
            "The predictive check compares pairs of attributes, but there is only one."
        )
    draws = read_whole("draws", draws, least=1)
    rng = np.random.default_rng(seed)
    drawn = post.few_draws(draws)
    try:
        stacked = np.concatenate([drawn[f"pi_{name}"] for name in table.attributes], axis=-1)
    except KeyError:
        raise ModelError(
            "The predictive check needs draws of the distributions, which this posterior lacks."
        ) from None
    rows = _Shown.of(post, rng)
    given = rows.secret if table.scheme == "horizontal" else np.zeros_like(rows.secret)
    pairs = list(itertools.combinations(range(len(table.attributes)), 2))
    shared = np.empty((2, len(stacked), len(pairs)))
    classes = np.empty(rows.codes.shape, dtype=np.int64)
    for t, pi in enumerate(stacked):
        for which, draw in enumerate((_complete, _predict)):
            draw(rows, pi, rng, classes)
            shared[which, t] = _information(classes, given, pairs)
    names = [(table.attributes[a], table.attributes[b]) for a, b in pairs]
    observed, predicted = shared.mean(axis=1)
    reached = (shared[1] >= shared[0] - 1e-12).sum(axis=0)
    frame = pd.DataFrame(
        {
            "observed": observed,
            "predicted": predicted,
            "excess": observed - predicted,
            "p_value": (1 + reached) / (1 + len(stacked)),
        },
        index=pd.MultiIndex.from_tuples(names, names=["one", "other"]),
    ).sort_values("excess", ascending=False, kind="stable")
    return PredictiveCheck(
        frame, table.sensitive if table.scheme == "horizontal" else "", len(stacked)
    )


class _Shown(NamedTuple):
    """Rows as arrays, attributes concatenated; cells as in a sparse matrix."""

    codes: Ints  # cell of each row and attribute
    secret: Ints
    pointer: Ints  # values of cell y are value[pointer[y]:pointer[y + 1]]
    value: Ints
    evidence: Floats
    cell_start: Ints  # start of the cells of an attribute
    value_start: Ints  # start of its values
    class_of: Ints  # class in which a value is compared: its cell, if cells are disjoint

    @classmethod
    def of(cls, post: Posterior, rng: np.random.Generator) -> _Shown:
        table = post.table
        columns = list(table.columns.values())
        lines = np.arange(table.n_lines)
        if table.weights is not None:
            lines = np.repeat(lines, table.weights)
        if len(lines) > MOST_ROWS:
            lines = np.sort(rng.choice(lines, MOST_ROWS, replace=False))
        cells = [sparse.csr_array(c.evidence.matrix) for c in columns]
        whole = sparse.csr_array(sparse.block_diag(cells, format="csr"))
        return cls(
            np.stack([c.codes[lines].astype(np.int64) for c in columns], axis=1),
            table.secret_codes[lines].astype(np.int64),
            whole.indptr.astype(np.int64),
            whole.indices.astype(np.int64),
            whole.data.astype(np.float64),
            starts_of([m.shape[0] for m in cells]),
            starts_of([m.shape[1] for m in cells]),
            np.concatenate([_classes(m) for m in cells]),
        )


def _classes(cells: sparse.csr_array) -> Ints:
    """Cell of each value if no cells overlap except those of all values; else the value itself."""
    size = cells.shape[1]
    part = cells[np.diff(cells.indptr) < size]
    if len(np.unique(part.indices)) < len(part.indices):
        return np.arange(size)
    out = np.arange(size) + part.shape[0]  # values that only the largest cell contains
    out[part.indices] = np.repeat(np.arange(part.shape[0]), np.diff(part.indptr))
    return np.unique(out, return_inverse=True)[1]


@njit(cache=True, nogil=True)
def _complete(rows: _Shown, pi: Floats, rng: np.random.Generator, out: Ints) -> None:
    """Draw a value for every cell, ``P(k) ∝ pi(k) E(k)``, and record its class."""
    for j in range(len(rows.secret)):
        s = rows.secret[j]
        for a in range(rows.codes.shape[1]):
            y = rows.cell_start[a] + rows.codes[j, a]
            first, last = rows.pointer[y], rows.pointer[y + 1]
            chosen = rows.value[first]
            if last - first > 1:
                total = 0.0
                for i in range(first, last):
                    total += pi[s, rows.value[i]] * rows.evidence[i]
                left = rng.random() * total
                for i in range(first, last):
                    chosen = rows.value[i]
                    left -= pi[s, chosen] * rows.evidence[i]
                    if left < 0.0:
                        break
            out[j, a] = rows.class_of[chosen]


@njit(cache=True, nogil=True)
def _predict(rows: _Shown, pi: Floats, rng: np.random.Generator, out: Ints) -> None:
    """Draw the values of new rows with the same secrets, and record their classes."""
    below = np.empty_like(pi)
    for s in range(len(pi)):
        for a in range(rows.codes.shape[1]):
            first, last = rows.value_start[a], rows.value_start[a + 1]
            below[s, first] = pi[s, first]
            for k in range(first + 1, last):
                below[s, k] = below[s, k - 1] + pi[s, k]
    for j in range(len(rows.secret)):
        for a in range(rows.codes.shape[1]):
            low, high = rows.value_start[a], rows.value_start[a + 1] - 1
            part = below[rows.secret[j]]
            level = rng.random() * part[high]
            while low < high:  # the first value above the level
                middle = (low + high) // 2
                if part[middle] > level:
                    high = middle
                else:
                    low = middle + 1
            out[j, a] = rows.class_of[low]


def _information(classes: Ints, given: Ints, pairs: list[tuple[int, int]]) -> list[float]:
    """Mutual information of pairs of columns given the secret, in nats per row."""
    n, columns = len(classes), np.ascontiguousarray(classes.T)
    sizes = columns.max(axis=1) + 1
    n_given = int(given.max()) + 1
    alone = _repeats(given, n_given)
    single = [given * k + column for k, column in zip(sizes, columns, strict=True)]
    one = [_repeats(keys, n_given * k) for k, keys in zip(sizes, single, strict=True)]
    both = [
        _repeats(single[a] * sizes[b] + columns[b], n_given * sizes[a] * sizes[b]) for a, b in pairs
    ]
    return [(x - one[a] - one[b] + alone) / n for x, (a, b) in zip(both, pairs, strict=True)]


def _repeats(keys: Ints, size: int) -> float:
    """``sum c log c`` over the counts of equal keys, which are less than `size`."""
    if size <= 8 * len(keys):
        counts = np.bincount(keys)
    else:  # a table of all pairs would be mostly empty
        counts = np.unique(keys, return_counts=True)[1]
    counts = counts[counts > 1]
    return float(counts @ np.log(counts))
