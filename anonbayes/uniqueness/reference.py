"""What a register tells about the groups of a release: how many people are in each.

A tree of attributes (Chow and Liu 1968) foretells how common a combination of cells is; people who
were counted correct it, the more the less the tree is to be trusted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.optimize import minimize, minimize_scalar
from scipy.sparse.csgraph import breadth_first_order, minimum_spanning_tree
from scipy.special import expit, gammaln

from anonbayes.arrays import Floats, Ints
from anonbayes.beliefs.index import records_of
from anonbayes.beliefs.victims import Victims, read_victims
from anonbayes.errors import CellError, TableError
from anonbayes.io.text import pandas_frame
from anonbayes.tables.table import ReleasedTable

__all__ = [
    "ClearRecords",
    "RecordTree",
    "expected_share",
    "group_shares",
    "read_clear",
    "smallest_groups",
]

LARGEST_PAIR = 4_000_000
CHUNK = 20_000_000
SOFT = 1e-15


# -- the population, from a register --------------------------------------------------------------


class RecordTree(NamedTuple):
    """A distribution of records in which each attribute depends on one other.

    Attributes
    ----------
    order, parent : numpy.ndarray
        Attributes from the root on, and the one that each depends on.
    margin : tuple of numpy.ndarray
        Share of each value.
    given : dict
        Shares of an attribute's values given the parent's, shrunk towards the margin.
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

        # The tree with the most mutual information, less what chance alone would show.
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
        """Probability of combinations of cells, attribute after attribute from the leaves up."""
        if all(matrix.nnz == matrix.shape[0] for matrix in evidence):  # single values
            return self.share(np.stack([m.indices[cells[:, a]] for a, m in enumerate(evidence)], 1))
        fits = [matrix.toarray()[cells[:, a]] for a, matrix in enumerate(evidence)]
        for b in self.order[:0:-1].tolist():
            a = int(self.parent[b])
            fits[a] = fits[a] * (fits[b] @ self.given[b].T)
        root = int(self.order[0])
        return np.maximum(fits[root] @ self.margin[root], SOFT)


def _shrunk(joint: Floats, margin: Floats) -> Floats:
    """Conditional shares; each person is foretold best by the others with this much margin."""
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
    """``E[p]`` of groups: a gamma prior around what is foretold, rows and people as counts.

    Parameters
    ----------
    foretold : numpy.ndarray
        Share that the tree foretells; the last one is of everything that is in no group.
    rows, people : numpy.ndarray
        Rows of the release and people of the register in each, the last one likewise.
    shape : numpy.ndarray, optional
        Shape of each group's gamma prior; ``weight * foretold ** power`` by default, with the
        weight and power under which the register's people are likeliest, given the release. With
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
        raise TableError(f"{what} must be a DataFrame, got {type(frame).__name__}.")
    for name in table.attributes:
        if name not in frame.columns:
            raise TableError(f"{what}: column {name!r} is missing.")
    if not len(frame):
        raise TableError(f"{what} has no rows.")
    try:
        victims = read_victims(table, frame[list(table.attributes)])
    except CellError as error:
        raise CellError(
            f"{what}: {error} Read the release with domains= that has the value, or correct it."
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
                f"Column {name!r} was released by a randomized mechanism; membership is computed "
                "for generalized tables and Anatomies."
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
    # Of groups that overlap the tree foretells the whole, not the part that no smaller one covers;
    # people are counted in that part, and teach how little the tree is then to be trusted.
    mass = tree.mass(rows.index.codes, rows.evidence)
    at = np.where(group < 0, len(mass), group)
    people = np.bincount(at, weights=counts, minlength=len(mass) + 1).astype(float)
    rest = max(1.0 - float(mass.sum()), SOFT)
    share = expected_share(np.append(mass, rest), np.append(rows.counts, 0.0), people)
    return share[:-1], tree.share(codes)
