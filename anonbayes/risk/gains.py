"""What an attacker gains: by default the secret itself; or any of several harmful values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.arrays import Floats
from anonbayes.domains import Domain
from anonbayes.errors import AnonbayesError

__all__ = ["Gain", "read_gain"]


@dataclass(frozen=True, eq=False)
class Gain:
    """Decision problem of whoever wants to know a secret (Groups Sec. IV, with any gain).

    Whoever holds the belief q takes the act a with the largest ``sum_s matrix[a, s] q(s)``. The act
    that a victim with secret s has to fear is ``target[s]``, that of the largest gain. A row is
    threatened when its target is taken; its threat level is the expected gain of its target. With
    the identity matrix this is guessing, and the level is ``q(s)``.

    Parameters
    ----------
    matrix : numpy.ndarray or None
        Gains, shape ``(acts, S)``; None for the identity.
    target : numpy.ndarray
        Act that threatens each secret; -1 where nothing is at stake.
    acts : tuple
        Names of the acts.
    text : str
        What a threat means, in a few words.
    """

    matrix: Floats | None
    target: npt.NDArray[np.int64]
    acts: tuple[Any, ...]
    text: str

    def expected(self, belief: Floats) -> Floats:
        """Expected gain of every act under beliefs ``(..., S)``.

        Summed one secret after the other: the product of matrices would round differently for
        different numbers of beliefs, and a row's threat must not depend on its neighbours.
        """
        if self.matrix is None:
            return belief
        out = np.zeros((*belief.shape[:-1], len(self.matrix)))
        for s, gains in enumerate(self.matrix.T):
            out += belief[..., s, None] * gains
        return out


def read_gain(
    domain: Domain,
    *,
    harm: Iterable[Any] | None = None,
    gain: pd.DataFrame | npt.ArrayLike | None = None,
) -> Gain:
    """Build the decision problem from a set of harmful values or a matrix of gains.

    Parameters
    ----------
    domain : Domain
        The sensitive values.
    harm : iterable, optional
        Values of which it is harmful that any is inferred: the question becomes whether the secret
        is one of them, and only rows of which it is true are at stake.
    gain : pandas.DataFrame or array, optional
        Gain of each act (rows) for each sensitive value (columns, in the domain's order or named),
        at least 0.

    Examples
    --------
    >>> found = read_gain(Domain("Dis", ["Flu", "HIV", "Cancer"]), harm={"HIV", "Cancer"})
    >>> found.expected(np.array([0.4, 0.35, 0.25])).round(2).tolist(), found.target.tolist()
    ([0.6, 0.4], [-1, 0, 0])
    """
    size = len(domain)
    if harm is not None and gain is not None:
        raise AnonbayesError("Give harm= or gain=, not both.")
    if harm is not None:
        if isinstance(harm, str) or not isinstance(harm, Iterable):
            raise AnonbayesError(f"harm={harm!r} must be a set of values, such as {{{harm!r}}}.")
        codes = sorted({domain.index(value) for value in harm})
        if not 0 < len(codes) < size:
            raise AnonbayesError(
                f"harm= must name some of the {size} values of {domain.name!r}, not "
                f"{len(codes)} of them."
            )
        harmful = np.zeros(size)
        harmful[codes] = 1.0
        words = ", ".join(str(domain.values[c]) for c in codes)
        return Gain(
            np.stack([harmful, 1.0 - harmful]),
            np.where(harmful > 0, 0, -1),
            ("harmful", "other"),
            f"{domain.name} is one of: {words}",
        )
    if gain is not None:
        return _from_matrix(domain, gain)
    return Gain(None, np.arange(size), domain.values, f"the exact value of {domain.name}")


def _from_matrix(domain: Domain, gain: pd.DataFrame | npt.ArrayLike) -> Gain:
    acts: tuple[Any, ...]
    if isinstance(gain, pd.DataFrame):
        columns = {domain.index(column): column for column in gain.columns}
        missing = [v for i, v in enumerate(domain.values) if i not in columns]
        if missing:
            raise AnonbayesError(f"gain= has no column for {missing[0]!r} of {domain.name!r}.")
        acts = tuple(gain.index)
        gain = gain[[columns[i] for i in range(len(domain))]].to_numpy()
    else:
        acts = tuple(range(np.shape(gain)[0])) if np.ndim(gain) == 2 else ()
    matrix = np.asarray(gain, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] != len(domain) or len(matrix) < 2:
        raise AnonbayesError(
            f"gain= must have two or more acts as rows and the {len(domain)} values of "
            f"{domain.name!r} as columns, got shape {matrix.shape}."
        )
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        raise AnonbayesError("gain= must be finite and at least 0.")
    target = np.where(matrix.max(axis=0) > 0, matrix.argmax(axis=0), -1)
    return Gain(matrix, target, acts, f"the best act against the victim, by {domain.name}")
