"""Optimal deterministic answers when finitely many secrets are possible."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.arrays import Floats
from anonbayes.errors import one_of
from anonbayes.guarantees.nonstochastic.balls import smallest_enclosing_ball
from anonbayes.guarantees.nonstochastic.measures import quality
from anonbayes.guarantees.nonstochastic.partitions import fewest_blocks, largest_smallest_block
from anonbayes.guarantees.nonstochastic.relations import Relation

__all__ = ["FinitePolicy", "adversary_errors", "optimal_finite_policy"]


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
