"""PSE: how much an identification system learns about who sent something (PIE (6), (7)).

A matcher gives a score to each pair of a user and a piece of data. *Genuine* scores are those of
pairs that belong together, *impostor* scores those of others. As users become many, the mutual
information of user and scores tends to ``D(f_G || f_I)``, which bounds PIE from below.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.arrays import Floats
from anonbayes.errors import AnonbayesError
from anonbayes.risk.nearest import log_ratios
from anonbayes.risk.plots import make_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["SystemEntropy", "convergence", "plot_convergence", "read_scores", "system_entropy"]


class SystemEntropy(float):
    """PSE in bits: a number that knows what it was estimated from.

    Attributes
    ----------
    standard_error : float
        Over genuine scores.
    n_genuine, n_impostor : int
        Numbers of scores.
    k : int
        Neighbours of the estimator.
    beyond : float
        Share of genuine scores outside the range of the impostors'. There the estimate rests on the
        edge of the impostor sample and tends to be too small: the true divergence may be larger.
    """

    standard_error: float
    n_genuine: int
    n_impostor: int
    k: int
    beyond: float

    def __new__(cls, bits: float, **details: Any) -> SystemEntropy:
        """Make a float with attributes."""
        self = super().__new__(cls, bits)
        self.__dict__.update(details)
        return self

    def __str__(self) -> str:
        return (
            f"{float(self):.4g} +- {self.standard_error:.2g} bits from {self.n_genuine:,} genuine "
            f"and {self.n_impostor:,} impostor scores"
        )


def system_entropy(genuine: npt.ArrayLike, impostor: npt.ArrayLike, *, k: int = 1) -> SystemEntropy:
    """Estimate PSE, ``D(f_G || f_I)`` in bits, from scores; ``O(n log n)``.

    Parameters
    ----------
    genuine, impostor : array-like
        Scores of pairs that belong together, and of others; similarities or distances.
    k : int
        Neighbours. More of them lower the variance and raise the bias.

    Notes
    -----
    The estimator is that of Wang, Kulkarni and Verdú (2009); it adapts the number of neighbours to
    both samples, and handles ties. Large divergences are underestimated by samples that are too
    small for them (``beyond`` tells): look at `convergence`.

    Examples
    --------
    >>> import anonbayes as ab
    >>> rng = np.random.default_rng(1)
    >>> bits = ab.pie.system_entropy(rng.normal(2, 1, 5_000), rng.normal(0, 1, 50_000))
    >>> round(bits / np.log2(np.e), 1), bits.n_impostor  # 2 nats in truth
    (2.0, 50000)
    """
    first, second = read_scores("genuine", genuine), read_scores("impostor", impostor)
    if k != int(k) or not 1 <= k < len(first) or k > len(second):
        raise AnonbayesError(
            f"k={k!r} neighbours: give a whole number from 1, below the {len(first)} genuine and "
            f"up to the {len(second)} impostor scores."
        )
    first.sort()
    second.sort()
    terms = log_ratios(first, second, int(k)) / np.log(2)
    outside = (first < second[0]) | (first > second[-1])
    return SystemEntropy(
        float(terms.mean()),
        standard_error=float(terms.std() / np.sqrt(len(terms))),
        n_genuine=len(first),
        n_impostor=len(second),
        k=int(k),
        beyond=float(outside.mean()),
    )


def convergence(
    genuine: npt.ArrayLike,
    impostor: npt.ArrayLike,
    *,
    users: Sequence[int] | None = None,
    repeats: int = 5,
    k: int = 1,
    seed: int | np.random.Generator | None = 0,
) -> pd.DataFrame:
    """PSE from ever more users: whether the sample is large enough to trust it.

    Parameters
    ----------
    genuine : array-like, shape (n,)
        One genuine score per user.
    impostor : array-like, shape (n, ...) or (m,)
        Impostor scores; rows that belong to the users are taken together with them, a flat array
        of another length is thinned in proportion.
    users : sequence of int, optional
        Numbers of users; by default six from a hundred to all.
    repeats : int
        Random subsets of each size.
    k : int
        As in `system_entropy`.
    seed : int, Generator or None
        Of the subsets.

    Returns
    -------
    pandas.DataFrame
        Per number of users the mean of the estimates in ``bits``, and ``spread``, their standard
        deviation over subsets.

    Examples
    --------
    >>> import anonbayes as ab
    >>> rng = np.random.default_rng(1)
    >>> curve = ab.pie.convergence(rng.normal(2, 1, 2000), rng.normal(0, 1, (2000, 10)))
    >>> curve.index.tolist()
    [100, 182, 331, 603, 1099, 2000]
    """
    scores, others = read_scores("genuine", genuine), np.asarray(impostor, dtype=float)
    n = len(scores)
    if users is None:
        sizes = np.unique(np.geomspace(min(100, n), n, 6).round().astype(int))
    else:
        sizes = np.unique(np.asarray(users, dtype=int))
    if len(sizes) == 0 or sizes[0] < 2 or sizes[-1] > n:
        raise AnonbayesError(f"users={users!r}: give numbers from 2 to {n}, the genuine scores.")
    rng = np.random.default_rng(seed)
    rows = []
    for size in sizes:
        found = []
        for _ in range(repeats if size < n else 1):
            chosen = rng.permutation(n)[:size]
            if len(others) == n:
                part = others[chosen].ravel()
            else:
                part = rng.permutation(others.ravel())[: max(k, others.size * int(size) // n)]
            found.append(float(system_entropy(scores[chosen], part, k=k)))
        rows.append((int(size), float(np.mean(found)), float(np.std(found))))
    return pd.DataFrame(rows, columns=["users", "bits", "spread"]).set_index("users")


def plot_convergence(curve: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Plot what `convergence` returned, with the spread over subsets."""
    ax = make_axes(ax, 5.0, 3.6)
    ax.errorbar(curve.index, curve["bits"], yerr=curve["spread"], marker="o", capsize=3)
    ax.set(xscale="log", xlabel="users", ylabel="PSE (bits)")
    ax.grid(alpha=0.3)
    return ax


def read_scores(argument: str, scores: npt.ArrayLike) -> Floats:
    """Scores as a flat array of their own; raise `AnonbayesError` unless all are finite."""
    array = np.array(scores, dtype=float).ravel()
    if len(array) == 0:
        raise AnonbayesError(f"There are no {argument} scores.")
    bad = ~np.isfinite(array)
    if bad.any():
        raise AnonbayesError(
            f"{argument} score {int(np.argmax(bad))} is {array[bad][0]}; scores must be finite "
            "(floor likelihoods before taking logarithms)."
        )
    return array
