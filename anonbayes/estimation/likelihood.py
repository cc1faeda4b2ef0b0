"""Mixture likelihoods of reports and their kernels."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit
from scipy import sparse

from anonbayes.arrays import Floats
from anonbayes.errors import ChannelError

__all__ = [
    "DenseLikelihood",
    "MixtureLikelihood",
    "SimplexLikelihood",
    "allocate",
    "count",
    "count_columns",
    "expectation",
    "mixture",
]


# -------------------------------------------------------------------------------------------------
# Numeric kernels over the sparse rows of a mixture likelihood: plain arrays in and out.


@njit(cache=True)
def count(codes: Any, size: int) -> Any:
    """Count each code below `size` without widening narrow integer types first."""
    out = np.zeros(size, dtype=np.int64)
    for i in range(len(codes)):
        out[codes[i]] += 1
    return out


@njit(cache=True)
def count_columns(matrix: Any) -> Any:
    """Sum each column of a matrix of zeros and ones in bytes."""
    n, size = matrix.shape
    out = np.zeros(size, dtype=np.int64)
    # A byte holds the sum of 255 rows, and many bytes are added at once.
    part = np.empty(size, dtype=np.uint8)
    for start in range(0, n, 255):
        part[:] = 0
        for i in range(start, min(start + 255, n)):
            for j in range(size):
                part[j] += matrix[i, j]
        for j in range(size):
            out[j] += part[j]
    return out


@njit(cache=True)
def mixture(base: float, weighted: Any, floor: Any, indptr: Any, indices: Any) -> Any:
    """Probability of each row, ``floor[r] * base + sum of weighted over its entries``."""
    out = np.empty(len(floor))
    for r in range(len(floor)):
        total = floor[r] * base
        for j in range(indptr[r], indptr[r + 1]):
            total += weighted[indices[j]]
        out[r] = total
    return out


@njit(cache=True)
def expectation(
    base: float, weighted: Any, weights: Any, floor: Any, indptr: Any, indices: Any, pull: Any
) -> Any:
    """One pass of EM: log-likelihood, and what each column and the floor pull towards them.

    ``pull[k]`` becomes ``sum of weights[r] / P(r)`` over the rows that hold ``k``; the second
    result is ``sum of weights[r] * floor[r] / P(r)``.
    """
    log_likelihood = 0.0
    floor_pull = 0.0
    pull[:] = 0.0
    for r in range(len(floor)):
        weight = weights[r]
        if weight == 0.0:
            continue
        start, stop = indptr[r], indptr[r + 1]
        total = floor[r] * base
        for j in range(start, stop):
            total += weighted[indices[j]]
        if total <= 0.0:
            log_likelihood = -np.inf
            continue
        log_likelihood += weight * np.log(total)
        share = weight / total
        floor_pull += floor[r] * share
        for j in range(start, stop):
            pull[indices[j]] += share
    return log_likelihood, floor_pull


@njit(cache=True)
def allocate(
    rng: Any,
    base: float,
    weighted: Any,
    weights: Any,
    floor: Any,
    indptr: Any,
    indices: Any,
    counts: Any,
) -> int:
    """Draw which entry each report stems from; `counts` receives the numbers per column.

    Returns how many reports stem from the floor, which carries no information about the column.
    """
    noise = 0
    for r in range(len(floor)):
        left = weights[r]
        if left == 0:
            continue
        start, stop = indptr[r], indptr[r + 1]
        total = floor[r] * base
        for j in range(start, stop):
            total += weighted[indices[j]]
        if not total > 0.0:  # such a report says nothing; never draw with a share of 0/0
            noise += left
            continue
        if left == 1:
            rest = rng.random() * total - floor[r] * base
            if rest < 0.0 or start == stop:
                noise += 1
                continue
            j = start
            rest -= weighted[indices[j]]
            while rest >= 0.0 and j + 1 < stop:
                j += 1
                rest -= weighted[indices[j]]
            counts[indices[j]] += 1
            continue
        if floor[r] > 0.0:
            drawn = rng.binomial(left, min(1.0, floor[r] * base / total))
            noise += drawn
            left -= drawn
            total -= floor[r] * base
        for j in range(start, stop):
            if left == 0:
                break
            share = 1.0
            if j + 1 < stop:
                share = min(1.0, max(0.0, weighted[indices[j]] / total)) if total > 0.0 else 0.0
            drawn = rng.binomial(left, share)
            counts[indices[j]] += drawn
            left -= drawn
            total -= weighted[indices[j]]
        noise += left
    return noise


# -------------------------------------------------------------------------------------------------
# The likelihood of a distribution given reports, in the one form that all channels share.
#
# For report ``r`` and true value ``k``
#
#     Q(r|k) = scale[r] * (floor[r] * tilt[k] + gain[k] * 1[k in row r]),
#
# where row ``r`` is a short list of values. Examples: randomized response, where the row holds
# the reported value alone and the floor is the noise; bit reports, where it holds the ones;
# generalization and quantization, where it holds the cell and the floor is zero; local hashing,
# where it holds the values that hash to the report. Nothing of size ``n x K`` is ever built.

# Entries of the largest full matrix that is written down.
LEAST_FACTOR = 1e-100
"""Smaller factors would make their rows, or products of them, underflow."""
MAX_FULL = 50_000_000


class SimplexLikelihood(ABC):
    """Concave log-likelihood ``sum_r w_r log (Q p)_r`` of a distribution `p`, for EM."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Length of `p`."""

    @property
    @abstractmethod
    def n(self) -> int:
        """Sum of the weights."""

    @abstractmethod
    def log(self, p: npt.ArrayLike) -> float:
        """Log-likelihood of `p`."""

    @abstractmethod
    def gradient(self, p: Floats) -> tuple[Floats, float]:
        """Gradient of the log-likelihood, ``sum_r w_r Q(r|k)/P(r)``, and its value, at `p`."""

    @abstractmethod
    def restrict(self, keep: npt.NDArray[np.bool_]) -> SimplexLikelihood:
        """Likelihood of distributions on the entries in `keep`, all others being zero."""

    def step(self, p: Floats) -> tuple[Floats, float, float]:
        """One EM step from `p`.

        Returns
        -------
        p : ndarray
            The next distribution.
        log_likelihood : float
            At the distribution that came in.
        gap : float
            Certified upper bound on how much the log-likelihood can still increase:
            ``max_k sum_r w_r Q(r|k)/P(r) - n``, by concavity.
        """
        gradient, total = self.gradient(p)
        updated = p * gradient
        return updated / updated.sum(), total, float(gradient.max() - self.n)


@dataclass(frozen=True)
class MixtureLikelihood(SimplexLikelihood):
    """Likelihood of the true values' distribution, from distinct reports and their numbers.

    Attributes
    ----------
    weights : ndarray of int, shape (m,)
        How often each row was reported.
    floor, log_scale : ndarray, shape (m,)
        Part of the row that is common to all values, and the log of the row's factor.
    tilt, gain : ndarray, shape (K,)
        Shape of the common part over the values, and what a value in the row adds.
    indptr, indices : ndarray of int
        The values in each row, as compressed rows.

    Examples
    --------
    Two values, randomized response with ``Q(x|x) = 3/4``; seven reports of the first value:

    >>> likelihood = MixtureLikelihood.diagonal(
    ...     weights=[7, 3], floor=[0.25, 0.25], gain=[0.5, 0.5]
    ... )
    >>> likelihood.matrix().toarray().tolist()
    [[0.75, 0.25], [0.25, 0.75]]
    >>> round(likelihood.log([0.9, 0.1]), 4)
    -6.1086
    """

    weights: npt.NDArray[np.int64]
    floor: Floats
    log_scale: Floats
    tilt: Floats
    gain: Floats
    indptr: npt.NDArray[np.int64]
    indices: npt.NDArray[Any]

    def __post_init__(self) -> None:
        """Check what the kernels rely on: they check no bounds themselves."""
        rows, ones, ends = len(self.floor), self.indices, self.indptr
        if not (
            len(self.weights) == len(self.log_scale) == rows == len(ends) - 1
            and len(self.gain) == len(self.tilt)
            and ends[0] == 0
            and ends[-1] == len(ones)
            and (np.diff(ends) >= 0).all()
            and (len(ones) == 0 or (ones.min() >= 0 and ones.max() < len(self.tilt)))
        ):
            raise ChannelError("The rows of this likelihood do not fit its values.")

    @classmethod
    def diagonal(
        cls, *, weights: npt.ArrayLike, floor: npt.ArrayLike, gain: npt.ArrayLike
    ) -> MixtureLikelihood:
        """Rows that hold one value each, in domain order: the randomized-response family."""
        counts = np.asarray(weights, dtype=np.int64)
        size = len(counts)
        return cls(
            weights=counts,
            floor=np.asarray(floor, dtype=float),
            log_scale=np.zeros(size),
            tilt=np.ones(size),
            gain=np.asarray(gain, dtype=float),
            indptr=np.arange(size + 1, dtype=np.int64),
            indices=np.arange(size, dtype=np.int64),
        )

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.tilt)

    @cached_property
    def n(self) -> int:
        """Number of reports."""
        return int(self.weights.sum())

    @cached_property
    def is_diagonal(self) -> bool:
        """Whether row ``k`` contains the value ``k`` alone."""
        steps = np.arange(self.size + 1)
        return np.array_equal(self.indptr, steps) and np.array_equal(self.indices, steps[:-1])

    @cached_property
    def floor_is_flat(self) -> bool:
        """Whether the common part is the same for all values, and so says nothing about `p`."""
        return bool(np.ptp(self.tilt) <= 1e-12 * np.max(self.tilt))

    @cached_property
    def _weights(self) -> Floats:
        return self.weights.astype(float)

    @cached_property
    def _constant(self) -> float:
        return float(self._weights @ self.log_scale)

    def probabilities(self, p: npt.ArrayLike) -> Floats:
        """Probability of each row under `p`, up to the row's factor ``exp(log_scale)``."""
        p = np.asarray(p, dtype=float)
        base = float(self.tilt @ p)
        return mixture(base, self.gain * p, self.floor, self.indptr, self.indices)

    def log(self, p: npt.ArrayLike) -> float:
        """Log-likelihood of `p`; minus infinity when it excludes a report that was made."""
        seen = self.weights > 0
        with np.errstate(divide="ignore"):
            logs = np.log(self.probabilities(p)[seen])
        return float(self._weights[seen] @ logs) + self._constant

    def gradient(self, p: Floats) -> tuple[Floats, float]:
        """Gradient of the log-likelihood, and its value, at `p`."""
        pull = np.empty(self.size)
        total, floor_pull = expectation(
            float(self.tilt @ p),
            self.gain * p,
            self._weights,
            self.floor,
            self.indptr,
            self.indices,
            pull,
        )
        return self.gain * pull + self.tilt * floor_pull, total + self._constant

    def curvature(self, p: Floats) -> Floats:
        """Minus the matrix of second derivatives of the log-likelihood at `p`, shape (K, K)."""
        total = self.probabilities(p)
        seen = (self.weights > 0) & (total > 0)
        share = np.zeros(len(total))
        share[seen] = np.sqrt(self._weights[seen]) / total[seen]
        common = share * self.floor
        lengths = np.diff(self.indptr)
        rows = sparse.csr_array(
            (np.repeat(share, lengths) * self.gain[self.indices], self.indices, self.indptr),
            shape=(len(total), self.size),
        )
        # Blocks of rows written in full: their products cost less than those of sparse rows.
        square = np.zeros((self.size, self.size))
        step = max(1, 4_000_000 // self.size)
        for start in range(0, len(total), step):
            block = rows[start : start + step].toarray()
            block += np.outer(common[start : start + step], self.tilt)
            square += block.T @ block
        return square

    def restrict(self, keep: npt.NDArray[np.bool_]) -> MixtureLikelihood:
        """Likelihood of distributions on the values in `keep`, with all others zero."""
        inside = keep[self.indices]
        none = np.zeros(len(self.floor))
        lengths = mixture(0.0, keep.astype(float), none, self.indptr, self.indices)
        place = np.cumsum(keep) - 1
        return MixtureLikelihood(
            weights=self.weights,
            floor=self.floor,
            log_scale=self.log_scale,
            tilt=self.tilt[keep],
            gain=self.gain[keep],
            indptr=np.concatenate([[0], np.cumsum(lengths.astype(np.int64))]),
            indices=place[self.indices[inside]].astype(self.indices.dtype),
        )

    def allocate(self, p: Floats, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Draw the true values behind the reports given `p`, as counts per value.

        Reports that stem from a flat floor are left out: they carry no information about `p`.
        """
        counts = np.zeros(self.size, dtype=np.int64)
        base, weighted = float(self.tilt @ p), self.gain * p
        if self.is_diagonal:
            total = self.floor * base + weighted
            share = np.divide(weighted, total, out=np.zeros_like(total), where=total > 0)
            counts += rng.binomial(self.weights, np.clip(share, 0.0, 1.0))
            noise = self.n - int(counts.sum())
        else:
            noise = allocate(
                rng,
                base,
                weighted,
                self.weights,
                self.floor,
                self.indptr,
                self.indices,
                counts,
            )
        if noise and not self.floor_is_flat:
            counts += rng.multinomial(noise, self.tilt * p / base)
        return counts

    def matrix(self) -> sparse.csr_array:
        """``Q(r|k)`` of every row and value, with the rows' factors: for few rows or values.

        Rows with a factor below `LEAST_FACTOR` are returned without it: a report of a thousand bits
        is too improbable for a floating-point number, and only ratios within a row matter (MODEL
        1.1).

        Raise `ChannelError` when a floor makes it full and it has more than `MAX_FULL` entries.
        """
        rows = np.repeat(np.arange(len(self.floor)), np.diff(self.indptr))
        scale = np.exp(np.where(self.log_scale < np.log(LEAST_FACTOR), 0.0, self.log_scale))
        data = scale[rows] * self.gain[self.indices]
        shape = (len(self.floor), self.size)
        columns = self.indices.astype(np.int64)
        if not self.floor.any():
            return sparse.csr_array((data, (rows, columns)), shape=shape)
        if shape[0] * shape[1] > MAX_FULL:
            raise ChannelError(
                f"The likelihood of {shape[0]} distinct reports for {shape[1]} values has more "
                f"than {MAX_FULL} entries, none of them zero: too many for a released table. "
                "Estimate the distribution from the reports instead (estimate, likelihood, "
                "Released), or release coarser values."
            )
        full = np.outer(scale * self.floor, self.tilt)
        full[rows, columns] += data
        return sparse.csr_array(full)


@dataclass(frozen=True)
class DenseLikelihood(SimplexLikelihood):
    """Likelihood of counted reports whose probabilities are a matrix without structure.

    Attributes
    ----------
    weights : ndarray of int, shape (m,)
        How often each report was made.
    rows : ndarray, shape (m, K)
        ``Q(r|k)``.

    Examples
    --------
    >>> likelihood = DenseLikelihood(np.array([7, 3]), np.array([[0.75, 0.25], [0.25, 0.75]]))
    >>> round(likelihood.log([0.9, 0.1]), 4)
    -6.1086
    """

    weights: npt.NDArray[np.int64]
    rows: Floats

    @property
    def size(self) -> int:
        """Number of values."""
        return self.rows.shape[1]

    @cached_property
    def n(self) -> int:
        """Number of reports."""
        return int(self.weights.sum())

    def probabilities(self, p: npt.ArrayLike) -> Floats:
        """Probability of each report under `p`."""
        return np.asarray(self.rows @ np.asarray(p, dtype=float))

    def log(self, p: npt.ArrayLike) -> float:
        """Log-likelihood of `p`; minus infinity when it excludes a report that was made."""
        seen = self.weights > 0
        with np.errstate(divide="ignore"):
            return float(self.weights[seen] @ np.log(self.probabilities(p)[seen]))

    def gradient(self, p: Floats) -> tuple[Floats, float]:
        """Gradient of the log-likelihood, and its value, at `p`."""
        total = self.probabilities(p)
        share = np.divide(self.weights, total, out=np.zeros(len(total)), where=total > 0)
        return share @ self.rows, self.log(p)

    def curvature(self, p: Floats) -> Floats:
        """Minus the matrix of second derivatives of the log-likelihood at `p`, shape (K, K)."""
        total = self.probabilities(p)
        weights = np.sqrt(self.weights)
        share = np.divide(weights, total, out=np.zeros(len(total)), where=total > 0)
        scaled = self.rows * share[:, None]
        square: Floats = scaled.T @ scaled
        return square

    def restrict(self, keep: npt.NDArray[np.bool_]) -> DenseLikelihood:
        """Likelihood of distributions on the values in `keep`, with all others zero."""
        return DenseLikelihood(self.weights, self.rows[:, keep])

    def allocate(self, p: Floats, rng: np.random.Generator) -> npt.NDArray[np.int64]:
        """Draw the true values behind the reports given `p`, as counts per value."""
        seen = self.weights > 0
        joint = self.rows[seen] * p
        share = joint / joint.sum(axis=1, keepdims=True)
        counts: npt.NDArray[np.int64] = rng.multinomial(self.weights[seen], share).sum(axis=0)
        return counts
