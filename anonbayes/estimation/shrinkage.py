"""Shares that borrow strength from each other: empirical Bayes with a learned prior.

Where the noise outweighs most shares, each count alone says little about its own value; together
they say a lot about how shares are spread. The number of reports that support value ``x`` is
``Binomial(n, miss + (hit - miss) p_x)``. The shares of values that the channel treats alike are
taken as draws from one distribution ``G`` on [0, 1], which is learned from their counts: by
nonparametric EM, towards the maximum likelihood (Kiefer and Wolfowitz 1956), stopped early to keep
``G`` smooth. The estimate is the mean of each share's posterior under ``G``,
given that the shares sum to one. As the number of values grows, no rule that treats all counts
alike has a smaller mean squared error than this one at the maximum (Robbins 1956; Jiang and Zhang
2009).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from anonbayes.arrays import Floats, Ints
from anonbayes.errors import ChannelError
from anonbayes.estimation import em
from anonbayes.estimation.closed_forms import check_informative
from anonbayes.estimation.likelihood import MatrixLikelihood

__all__ = ["Seen", "candidates", "condition", "prior_likelihood", "shrink"]


# Candidate shares per standard deviation of the noise.
FINENESS = 4

# Standard deviations around each count within which there are candidates.
AROUND = 3

# Standard deviations between a count and a share beyond which the one excludes the other.
REACH = 9.0

# A prior of their own is learnt from at least so many values.
ENOUGH = 20


def shrink(
    counts: npt.ArrayLike, n: int, hit: Floats, miss: Floats, *, iterations: int = 30
) -> Floats:
    """Posterior mean of each share under priors learned from all counts.

    Parameters
    ----------
    counts : array-like of int, shape (K,)
        Number of reports that support each value.
    n : int
        Number of reports.
    hit, miss : ndarray, shape (K,)
        Probabilities of the channel. Values with the same pair share a prior; rare pairs share one.
    iterations : int
        Steps of EM towards the most likely prior. Fewer give a smoother prior.

    Examples
    --------
    Randomized response among six values; the four rare ones are pulled together:

    >>> hit, miss = np.full(6, 0.5), np.full(6, 0.1)
    >>> shrink([350, 250, 106, 102, 98, 94], 1000, hit, miss).round(3)
    array([0.622, 0.372, 0.002, 0.001, 0.001, 0.001])
    """
    check_informative(hit, miss)
    if iterations < 1:
        raise ChannelError(f"iterations={iterations!r}: EM needs at least one iteration.")
    first, kind = kinds_of(hit, miss)
    own = np.where(np.bincount(kind) >= ENOUGH, np.arange(len(first)), -1)[kind]
    # Values with the same count and of the same kind have the same posterior.
    distinct, where = np.unique(kind * (n + 1) + np.asarray(counts), return_inverse=True)
    example = first[distinct // (n + 1)]
    seen = Seen(distinct % (n + 1), n, hit[example], miss[example])
    many = np.bincount(where)
    group = np.empty(len(distinct), dtype=np.int64)
    group[where] = own
    moments = np.empty((2, len(distinct)))
    for prior in np.unique(group):
        members = group == prior
        moments[:, members] = _moments(seen.only(members), many[members], iterations)
    return condition(*moments[:, where])


class Seen(NamedTuple):
    """Distinct counts of supporting reports among `n`, with the channel's probabilities."""

    counts: Floats
    n: int
    hit: Floats
    miss: Floats

    def only(self, members: npt.NDArray[np.bool_]) -> Seen:
        """Return some of them."""
        return Seen(self.counts[members], self.n, self.hit[members], self.miss[members])


def _moments(seen: Seen, many: Ints, iterations: int) -> Floats:
    """Posterior means and variances of the shares behind counts that have a common prior."""
    shares = candidates(seen)
    likelihood = prior_likelihood(seen, many, shares)
    even = np.full(len(shares), 1.0 / len(shares))
    prior = em.reconstruct(likelihood, even, iterations=iterations, tolerance=0.0).p
    total = likelihood.probabilities(prior)
    mean, square = (likelihood.probabilities(prior * shares**k) / total for k in (1, 2))
    return np.stack([mean, np.maximum(square - mean**2, 0.0)])


def prior_likelihood(seen: Seen, many: Ints, grid: Floats) -> MatrixLikelihood:
    """Likelihood of a prior's weights on the shares of a grid, from the counts of many values.

    The rows are binomial probabilities of the distinct counts, relative to their largest; shares
    that a count excludes are left out.
    """
    counts, n, hit, miss = seen
    share, gain = np.clip(counts / n, miss, hit), hit - miss
    # The second term is what a small count adds to the normal approximation.
    width = REACH * np.sqrt(share * (1 - share) / n) + REACH**2 / n
    first = np.searchsorted(grid, (share - width - miss) / gain)
    last = np.searchsorted(grid, (share + width - miss) / gain, side="right")
    indptr = np.concatenate([[0], np.cumsum(last - first)])
    row = np.repeat(np.arange(len(counts)), last - first)
    indices = np.arange(indptr[-1]) - np.repeat(indptr[:-1] - first, last - first)
    raised = miss[row] + gain[row] * grid[indices]
    log = special.xlogy(counts[row], raised) + special.xlog1py(n - counts[row], -raised)
    log -= np.maximum.reduceat(log, indptr[:-1])[row]
    rows = sparse.csr_array((np.exp(log), indices, indptr), shape=(len(counts), len(grid)))
    return MatrixLikelihood(many.astype(float), rows)


def candidates(seen: Seen) -> Floats:
    """Shares that a prior may put weight on, ascending: steps of the noise around all counts.

    On the scale of ``2 sqrt(n) arcsin(sqrt(.))`` the noise of a share of reports is 1 everywhere.

    Examples
    --------
    >>> shares = candidates(Seen(np.array([0, 500]), 1000, np.ones(2), np.zeros(2)))
    >>> float(shares.min()), float((np.abs(shares - 0.5) < 0.05).mean().round(2))
    (0.0, 0.66)
    """
    scale = FINENESS * 2.0 * np.sqrt(seen.n)
    steps = np.arange(-AROUND * FINENESS, AROUND * FINENESS + 1)
    place = np.round(scale * np.arcsin(np.sqrt(seen.counts / seen.n)))
    first, kind = kinds_of(seen.hit, seen.miss)
    shares = []
    for i, (hit, miss) in enumerate(zip(seen.hit[first], seen.miss[first], strict=True)):
        places = np.unique(np.unique(place[kind == i])[:, None] + steps)
        raised = np.sin(np.clip(places / scale, 0.0, np.pi / 2)) ** 2
        shares.append((raised - miss) / (hit - miss))
    return np.unique(np.clip(np.concatenate(shares), 0.0, 1.0))


def kinds_of(hit: Floats, miss: Floats) -> tuple[Ints, Ints]:
    """Values that the channel treats alike: an example of each kind, and the kind of each value.

    Examples
    --------
    >>> [x.tolist() for x in kinds_of(np.array([0.5, 0.6, 0.5]), np.array([0.1, 0.1, 0.1]))]
    [[0, 1], [0, 1, 0]]
    """
    if np.ptp(hit) == 0 and np.ptp(miss) == 0:
        return np.zeros(1, dtype=np.int64), np.zeros(len(hit), dtype=np.int64)
    _, of_hit = np.unique(hit, return_inverse=True)
    levels, of_miss = np.unique(miss, return_inverse=True)
    _, first, kind = np.unique(
        of_hit * len(levels) + of_miss, return_index=True, return_inverse=True
    )
    return first, kind


def condition(mean: Floats, variance: Floats) -> Floats:
    """Means of independent shares, given that they sum to one and that none is negative.

    As for normal distributions, the difference from one is divided in proportion to the variances;
    shares that would fall below zero are set to zero.

    Examples
    --------
    >>> condition(np.array([0.5, 0.3, 0.01]), np.array([0.01, 0.02, 0.001])).round(3)
    array([0.561, 0.423, 0.016])
    >>> condition(np.array([0.8, 0.4, 0.01]), np.array([0.01, 0.02, 0.01])).round(3)
    array([0.733, 0.267, 0.   ])
    """
    free = variance > 0
    p = mean
    while free.any():
        missing = 1.0 - p[~free].sum() - mean[free].sum()
        p = np.where(free, mean + variance * missing / variance[free].sum(), p)
        if (p >= 0).all():
            break
        free &= p > 0
        p = np.maximum(p, 0.0)
    if not p.any():  # no value has support beyond the noise, so all are alike
        p = np.ones(len(p))
    return p / p.sum()
