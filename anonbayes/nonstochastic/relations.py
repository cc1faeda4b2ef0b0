"""Relations between finite sets, and their overlap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from anonbayes.arrays import Floats
from anonbayes.errors import ChannelError, one_of
from anonbayes.nonstochastic.geometry import smallest_enclosing_ball
from anonbayes.nonstochastic.policies import fewest_blocks, largest_smallest_block
from anonbayes.nonstochastic.ranges import quality

__all__ = [
    "FinitePolicy",
    "Relation",
    "adversary_errors",
    "joint_relation",
    "optimal_finite_policy",
]


# -------------------------------------------------------------------------------------------------
# Finite relations: which secrets and releases can occur together.


class Relation:
    """Sparse set of jointly possible pairs ``(x, y)`` of a secret and its release.

    Parameters
    ----------
    matrix : array_like or sparse matrix, shape (n_x, n_y)
        Nonzero where ``x`` and ``y`` can occur together.
    measure : array_like of float, optional
        Size of each ``x``: 1 by default (counting measure); for the cells of a continuous secret,
        their volumes.

    Examples
    --------
    A survey that reports ages 0-3 in two brackets, and shows age 3 as it is:

    >>> import anonbayes as ab
    >>> r = ab.nonstochastic.Relation.from_function(["0-1", "0-1", "2", "3"])
    >>> r
    Relation(4 secrets, 3 releases, 4 pairs, 3 components)
    >>> round(ab.nonstochastic.leakage(r), 6), round(ab.nonstochastic.information(r), 6)
    (1.386294, 0.693147)
    """

    def __init__(self, matrix: Any, *, measure: npt.ArrayLike | None = None) -> None:
        try:
            pairs = sparse.csr_matrix(matrix)
        except (TypeError, ValueError) as error:
            raise ChannelError(
                f"A relation is a matrix of possible pairs (secrets x releases): {error}"
            ) from error
        pairs = (pairs != 0).astype(np.int8).tocsr()
        pairs.eliminate_zeros()
        if pairs.nnz == 0:
            raise ChannelError("The relation has no possible pair; mark at least one.")
        sizes = np.ones(pairs.shape[0]) if measure is None else np.asarray(measure, dtype=float)
        if sizes.shape != (pairs.shape[0],):
            raise ChannelError(
                f"measure has shape {sizes.shape}, but the relation has {pairs.shape[0]} secrets."
            )
        if not np.all(np.isfinite(sizes)) or np.any(sizes < 0):
            row = int(np.argmax(~np.isfinite(sizes) | (sizes < 0)))
            raise ChannelError(
                f"measure[{row}] = {sizes[row]!r}; a size is finite and not negative."
            )
        self.matrix = pairs
        self.measure = sizes

    @classmethod
    def from_pairs(
        cls,
        x: npt.ArrayLike,
        y: npt.ArrayLike,
        *,
        shape: tuple[int, int] | None = None,
        measure: npt.ArrayLike | None = None,
    ) -> Relation:
        """Relation of the listed pairs of codes; repeated pairs count once.

        Examples
        --------
        >>> Relation.from_pairs([0, 1, 1], [0, 0, 1], shape=(3, 2))
        Relation(2 secrets, 2 releases, 3 pairs, 1 component)
        """
        rows, columns = np.asarray(x, dtype=np.intp), np.asarray(y, dtype=np.intp)
        if rows.shape != columns.shape or rows.ndim != 1:
            raise ChannelError(
                f"x has shape {rows.shape} and y {columns.shape}; give two lists of equal length."
            )
        entries = np.ones(rows.size)
        try:
            pairs = sparse.coo_matrix((entries, (rows, columns)), shape=shape)
        except ValueError as error:
            raise ChannelError(f"Pairs do not fit shape {shape}: {error}") from error
        return cls(pairs, measure=measure)

    @classmethod
    def from_function(
        cls, answers: Sequence[Any] | npt.NDArray[Any], *, measure: npt.ArrayLike | None = None
    ) -> Relation:
        """Relation of a deterministic release: ``answers[x]`` is what secret ``x`` publishes."""
        items = list(answers)
        codes = {answer: code for code, answer in enumerate(dict.fromkeys(items))}
        y = np.fromiter((codes[answer] for answer in items), dtype=np.intp, count=len(items))
        return cls.from_pairs(np.arange(len(items)), y, measure=measure)

    @cached_property
    def range_x(self) -> npt.NDArray[np.intp]:
        """Codes of the secrets that occur."""
        return np.flatnonzero(np.diff(self.matrix.indptr))

    @cached_property
    def range_y(self) -> npt.NDArray[np.intp]:
        """Codes of the releases that occur."""
        return np.unique(self.matrix.indices)

    @cached_property
    def log_measure(self) -> float:
        """Entropy ``h0(X)``."""
        return float(_log(self.measure[self.range_x].sum()))

    @cached_property
    def conditional_measures(self) -> npt.NDArray[np.float64]:
        """Size of the range of ``X`` after each release in `range_y`."""
        return np.asarray(self.matrix.T.astype(float) @ self.measure)[self.range_y]

    @cached_property
    def conditional_log_measures(self) -> npt.NDArray[np.float64]:
        """Logarithm of `conditional_measures`; minus infinity for a range of measure zero."""
        return _log(self.conditional_measures)

    @cached_property
    def components(self) -> npt.NDArray[np.intp]:
        """Taxicab component of every secret in `range_x` (Quantize Def. II.2)."""
        _, labels = self._labels
        return np.unique(labels[self.range_x], return_inverse=True)[1]

    @cached_property
    def n_components(self) -> int:
        """Number of taxicab components of the possible pairs."""
        return int(self.components.max()) + 1

    @cached_property
    def _labels(self) -> tuple[int, npt.NDArray[np.intp]]:
        # Two pairs that share a secret or a release are one taxicab step apart, so components of
        # pairs are those of the bipartite graph whose edges the pairs are.
        graph = sparse.bmat([[None, self.matrix], [self.matrix.T, None]], format="csr")
        return connected_components(graph, directed=False)

    @property
    def T(self) -> Relation:
        """The same pairs seen from the release (counting measure)."""
        return Relation(self.matrix.T)

    def secrets_given(self, y: int) -> npt.NDArray[np.intp]:
        """Codes of the secrets that are possible after release `y`: the conditional range."""
        if not 0 <= y < self.matrix.shape[1]:
            raise ChannelError(f"Release {y} does not exist; there are {self.matrix.shape[1]}.")
        return self.matrix.getcol(y).nonzero()[0]

    def postprocess(self, codes: npt.ArrayLike) -> Relation:
        """Relation of ``X`` with ``g(Y)``, where ``codes[y]`` is the code of ``g(y)``.

        Leakage and maximin information never grow by it (Quantize Thm. III.1).
        """
        target = np.asarray(codes, dtype=np.intp)
        if target.shape != (self.matrix.shape[1],) or np.any(target < 0):
            raise ChannelError(
                f"postprocess needs one code (0, 1, ...) for each of the {self.matrix.shape[1]} "
                f"releases, got shape {target.shape}."
            )
        entries = np.ones(target.size)
        mapping = sparse.csr_matrix((entries, (np.arange(target.size), target)))
        return Relation(self.matrix.astype(float) @ mapping, measure=self.measure)

    def __repr__(self) -> str:
        n = self.n_components
        return (
            f"Relation({self.range_x.size} secrets, {self.range_y.size} releases, "
            f"{self.matrix.nnz} pairs, {n} component{'s' if n != 1 else ''})"
        )


def joint_relation(relations: Sequence[Relation]) -> Relation:
    """Relation of the secret with all of several releases at once.

    Releases are taken as unrelated given the secret: each combination of releases that is possible
    for a secret is possible jointly, and the conditional range is the intersection of the single
    ones. Deterministic releases always are.

    Examples
    --------
    Two harmless answers, bracket and parity, reveal the secret together:

    >>> import anonbayes as ab
    >>> bracket = Relation.from_function([0, 0, 1, 1])
    >>> parity = Relation.from_function([0, 1, 0, 1])
    >>> round(ab.nonstochastic.leakage(bracket), 6)
    0.693147
    >>> round(ab.nonstochastic.leakage(joint_relation([bracket, parity])), 6)
    1.386294
    """
    if not relations:
        raise ChannelError("Give at least one relation.")
    first, *others = relations
    rows, codes = first.matrix.nonzero()
    for position, other in enumerate(others, start=1):
        if other.matrix.shape[0] != first.matrix.shape[0]:
            raise ChannelError(
                f"Relation {position} has {other.matrix.shape[0]} secrets, the first has "
                f"{first.matrix.shape[0]}; they must speak of the same secrets."
            )
        counts = np.diff(other.matrix.indptr)
        repeats = counts[rows]
        # The k-th copy of a pair takes the k-th release that `other` allows for its secret.
        offsets = np.arange(repeats.sum()) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        wider = np.repeat(rows, repeats)
        partner = other.matrix.indices[other.matrix.indptr[wider] + offsets]
        pairs = np.stack([np.repeat(codes, repeats), partner], axis=1)
        codes = np.unique(pairs, axis=0, return_inverse=True)[1].reshape(-1)
        rows = wider
    n_x = first.matrix.shape[0]
    return Relation.from_pairs(
        rows, codes, shape=(n_x, int(codes.max()) + 1), measure=first.measure
    )


def _log(values: Any) -> Any:
    with np.errstate(divide="ignore"):
        return np.log(values)


# -------------------------------------------------------------------------------------------------
# Optimal deterministic answers when finitely many secrets are possible.


@dataclass(frozen=True, eq=False)
class FinitePolicy:
    """Answers to a scalar query for each of finitely many secrets.

    Attributes
    ----------
    values : array
        True answer of each secret.
    answers : array
        Released answer of each secret: the middle of the true answers of its block.
    relation : Relation
        Secrets and released answers; the measures of `anonbayes.nonstochastic` read it.
    """

    values: Floats
    answers: Floats
    relation: Relation

    @property
    def log_measure(self) -> float:
        """Entropy ``h0(X)`` of the secret."""
        return self.relation.log_measure

    @property
    def conditional_log_measures(self) -> Floats:
        """Log-size of each block."""
        return self.relation.conditional_log_measures

    @property
    def n_components(self) -> int:
        """Number of blocks."""
        return self.relation.n_components

    @cached_property
    def quality(self) -> float:
        """One over the largest error of an answer (Quantize (11))."""
        return quality(self.answers, self.values)

    def summary(self) -> pd.DataFrame:
        """One row per block: its answer, its size, the range of its true answers."""
        block = self.relation.matrix.indices
        rows = pd.DataFrame({"block": block, "answer": self.answers, "value": self.values})
        rows["size"] = self.relation.measure
        grouped = rows.groupby("block", sort=True)
        return grouped.agg(
            answer=("answer", "first"),
            size=("size", "sum"),
            lower=("value", "min"),
            upper=("value", "max"),
        ).reset_index(drop=True)


def optimal_finite_policy(
    values: npt.ArrayLike,
    gamma: float,
    *,
    metric: str = "maximin",
    measure: npt.ArrayLike | None = None,
) -> FinitePolicy:
    """Most private answers with errors of at most ``1/gamma``, for finitely many secrets.

    The finite form of Quantize Thm. IV.3, optimal over *all* partitions of the secrets, also those
    that give different answers to secrets with the same true answer. Only for "leakage" and
    secrets of unequal size it is optimal among blocks that are contiguous in the true answer
    (without that restriction the problem is bin covering, which is hard).

    Parameters
    ----------
    values : array_like of float
        True answer of each secret.
    gamma : float
        Wanted quality.
    metric : {"maximin", "leakage"}
        Fewest blocks (17), or the largest smallest block (16).
    measure : array_like of float, optional
        Size of each secret; 1 by default.

    Examples
    --------
    >>> import anonbayes as ab
    >>> policy = optimal_finite_policy([0, 1, 2, 3], gamma=1, metric="leakage")
    >>> policy.answers.tolist(), round(ab.nonstochastic.leakage(policy), 6)
    ([0.5, 0.5, 2.5, 2.5], 0.693147)
    """
    one_of("metric", metric, ["maximin", "leakage"])
    if metric == "maximin":
        blocks = fewest_blocks(values, gamma)
    else:
        blocks = largest_smallest_block(values, gamma, measure=measure)
    true = np.asarray(values, dtype=float)
    relation = Relation.from_pairs(np.arange(len(true)), blocks, measure=measure)
    n = int(blocks.max()) + 1
    low, high = np.full(n, np.inf), np.full(n, -np.inf)
    np.minimum.at(low, blocks, true)
    np.maximum.at(high, blocks, true)
    return FinitePolicy(true, ((low + high) / 2)[blocks], relation)


def adversary_errors(relation: Relation, points: npt.ArrayLike) -> Floats:
    """Worst-case error of the best estimate of the secret after each release.

    The radius of the smallest ball around the secrets that remain possible. Its minimum is
    ``d_min`` (Quantize (7)), its maximum ``d_max`` (Quantize (4)).

    Parameters
    ----------
    relation : Relation
        Secrets and releases.
    points : array_like, shape (n_x,) or (n_x, n)
        Position of each secret.

    Examples
    --------
    >>> adversary_errors(Relation.from_function([0, 0, 1, 1]), [0.0, 1.0, 2.0, 6.0]).tolist()
    [0.5, 2.0]
    """
    positions = np.asarray(points, dtype=float)
    positions = positions[:, None] if positions.ndim == 1 else positions
    by_release = relation.matrix.tocsc()
    return np.array(
        [
            smallest_enclosing_ball(
                positions[by_release.indices[by_release.indptr[y] : by_release.indptr[y + 1]]]
            )[1]
            for y in relation.range_y
        ]
    )
