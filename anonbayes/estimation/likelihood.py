"""Likelihoods of a distribution given reports.

Every likelihood is ``sum_r w_r log (Q p)_r``, with distinct reports ``r``, their multiplicities,
and the probabilities ``Q(r|k)`` of a report given each value, which are not stored in full if their
structure allows it (`MixtureLikelihood`, `HadamardLikelihood`, `WindowLikelihood`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from scipy import sparse, special

from anonbayes.arrays import Floats, Ints, Mask, SmallCodes
from anonbayes.errors import ChannelError
from anonbayes.estimation.kernels import allocate, expectation, mixture

# Smaller factors would make their rows, or products of them, underflow.
LEAST_FACTOR = 1e-100
# Largest number of entries of a full matrix.
MAX_FULL = 50_000_000
# Entries of the rows that are written in full at a time.
BLOCK = 4_000_000


Number = TypeVar("Number", Ints, Floats)


class SimplexLikelihood(ABC):
    """Concave log-likelihood ``sum_r w_r log (Q p)_r`` of a distribution `p`, for EM.

    `constant` is added whatever `p` is.
    """

    weights: Ints | Floats
    constant: float = 0.0

    @property
    @abstractmethod
    def size(self) -> int:
        """Length of `p`."""

    @abstractmethod
    def probabilities(self, p: npt.ArrayLike) -> Floats:
        """Probability of each report under `p`, up to a factor for each report."""

    def pull(self, shares: Floats) -> Floats:
        """``sum_r shares[r] Q(r|k)`` for each value; only used by the default `gradient`."""
        raise NotImplementedError

    @abstractmethod
    def restrict(self, keep: Mask) -> SimplexLikelihood:
        """Likelihood of distributions on the entries in `keep`, all others being zero."""

    def slopes(self, p: Floats) -> Iterator[Floats]:
        """Rows ``sqrt(w_r) Q(r|k) / P(r)``, in parts; only used by `curvature_root`."""
        raise NotImplementedError

    def curvature_root(self, p: Floats) -> Floats:
        """``C`` with ``C C'`` minus the second derivatives of the log-likelihood at `p`.

        Its shape is (K, R): a column for each distinct report, but at most as many as values.
        """
        if len(self.weights) <= self.size:
            return np.ascontiguousarray(np.concatenate(list(self.slopes(p))).T)
        square = np.zeros((self.size, self.size))
        for block in self.slopes(p):
            square += block.T @ block
        # Values that the reports do not distinguish make it singular, up to rounding.
        square[np.diag_indices(self.size)] *= 1.0 + 1e-9
        try:
            return np.asarray(np.linalg.cholesky(square), dtype=float)
        except np.linalg.LinAlgError:  # rounding made it indefinite
            values, vectors = np.linalg.eigh(square)
            return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)), dtype=float)

    @cached_property
    def n(self) -> int:
        """Number of reports."""
        return int(self.weights.sum())

    def log(self, p: npt.ArrayLike) -> float:
        """Log-likelihood of `p`; minus infinity if it excludes an observed report."""
        return self._log(self.probabilities(p))

    def _log(self, total: Floats) -> float:
        return float(special.xlogy(self.weights, total).sum()) + self.constant

    def gradient(self, p: Floats) -> tuple[Floats, float]:
        """Gradient of the log-likelihood, ``sum_r w_r Q(r|k)/P(r)``, and its value, at `p`."""
        total = self.probabilities(p)
        shares = np.divide(self.weights, total, out=np.zeros(len(total)), where=total > 0)
        return self.pull(shares), self._log(total)

    def step(self, p: Floats) -> tuple[Floats, float, float]:
        """Return the next distribution by EM, the log-likelihood at `p`, and its possible increase.

        The last is certified by concavity: ``max_k sum_r w_r Q(r|k)/P(r) - n``.
        """
        gradient, total = self.gradient(p)
        updated = p * gradient
        return updated / updated.sum(), total, float(gradient.max() - self.n)


@dataclass(frozen=True)
class MixtureLikelihood(SimplexLikelihood):
    """Likelihood from sparse rows, the form that most channels share.

    ``Q(r|k) = exp(log_scale[r]) * (floor[r] * tilt[k] + gain[k] * 1[k in row r])``, where row ``r``
    (`indptr`, `indices`) is a short list of values: the reported value alone (randomized response,
    whose noise is the floor), the ones of a bit report, the cell of a generalization (the floor is
    zero), the values that hash to the report. `weights` count the reports of each row.
    """

    weights: Ints
    floor: Floats
    log_scale: Floats
    tilt: Floats
    gain: Floats
    indptr: Ints
    indices: SmallCodes

    def __post_init__(self) -> None:
        """Check what the kernels rely on, because they check neither bounds nor numbers."""
        rows, ones, ends = len(self.floor), self.indices, self.indptr
        numbers = (self.floor, self.tilt, self.gain)
        if not (
            len(self.weights) == len(self.log_scale) == rows == len(ends) - 1
            and len(self.gain) == len(self.tilt)
            and ends[0] == 0
            and ends[-1] == len(ones)
            and (np.diff(ends) >= 0).all()
            and (len(ones) == 0 or (ones.min() >= 0 and ones.max() < len(self.tilt)))
        ):
            raise ChannelError("The rows of this likelihood do not fit its values.")
        if not (self.weights >= 0).all() or not all(np.isfinite(part).all() for part in numbers):
            raise ChannelError(
                "The probabilities of some reports are too large or too small for double "
                "precision; use a smaller budget."
            )

    @classmethod
    def diagonal(
        cls, *, weights: npt.ArrayLike, floor: npt.ArrayLike, gain: npt.ArrayLike
    ) -> MixtureLikelihood:
        """Rows that hold one value each, in domain order: the randomized-response family."""
        counts = np.asarray(weights, dtype=np.int64)
        ends = np.arange(len(counts) + 1, dtype=np.int64)
        return cls.of_rows(ends, ends[:-1], len(counts), floor=floor, gain=gain, weights=counts)

    @classmethod
    def of_rows(
        cls,
        indptr: Ints,
        indices: SmallCodes,
        size: int,
        *,
        floor: npt.ArrayLike,
        gain: npt.ArrayLike,
        weights: Ints | None = None,
        log_scale: npt.ArrayLike = 0.0,
        tilt: npt.ArrayLike = 1.0,
    ) -> MixtureLikelihood:
        """Likelihood of rows for `size` values; a single number holds for all rows or values."""

        def each(number: npt.ArrayLike, length: int) -> Floats:
            return np.array(np.broadcast_to(number, (length,)), dtype=float)

        rows = len(indptr) - 1
        return cls(
            weights=np.ones(rows, dtype=np.int64) if weights is None else weights,
            floor=each(floor, rows),
            log_scale=each(log_scale, rows),
            tilt=each(tilt, size),
            gain=each(gain, size),
            indptr=indptr,
            indices=indices,
        )

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.tilt)

    @cached_property
    def is_diagonal(self) -> bool:
        """Whether row ``k`` contains the value ``k`` alone."""
        steps = np.arange(self.size + 1)
        return np.array_equal(self.indptr, steps) and np.array_equal(self.indices, steps[:-1])

    @cached_property
    def floor_is_flat(self) -> bool:
        """Whether the common part is equal for all values, hence uninformative about `p`."""
        return bool(np.ptp(self.tilt) <= 1e-12 * np.max(self.tilt))

    @cached_property
    def constant(self) -> float:  # type: ignore[override]
        """Sum of the logarithms of the rows' factors."""
        return float(self.weights @ self.log_scale)

    def probabilities(self, p: npt.ArrayLike) -> Floats:
        """Probability of each row under `p`, up to the row's factor ``exp(log_scale)``."""
        p = np.asarray(p, dtype=float)
        base = float(self.tilt @ p)
        return mixture(base, self.gain * p, self.floor, self.indptr, self.indices)

    def gradient(self, p: Floats) -> tuple[Floats, float]:
        """Gradient of the log-likelihood, and its value, at `p`, in one pass over the rows."""
        pull, rows = np.empty(self.size), (self.floor, self.indptr, self.indices)
        base, weighted = float(self.tilt @ p), self.gain * p
        total, floor_pull = expectation(base, weighted, self.weights, *rows, pull)
        return self.gain * pull + self.tilt * floor_pull, total + self.constant

    def slopes(self, p: Floats) -> Iterator[Floats]:
        """Rows ``sqrt(w_r) Q(r|k) / P(r)``, some at a time; see `curvature_root`."""
        total = self.probabilities(p)
        seen = (self.weights > 0) & (total > 0)
        share = np.zeros(len(total))
        share[seen] = np.sqrt(self.weights[seen]) / total[seen]
        common = share * self.floor
        lengths = np.diff(self.indptr)
        rows = sparse.csr_array(
            (np.repeat(share, lengths) * self.gain[self.indices], self.indices, self.indptr),
            shape=(len(total), self.size),
        )
        # Written in full: products of blocks cost less than those of sparse rows.
        step = max(1, BLOCK // self.size)
        for start in range(0, len(total), step):
            part = slice(start, start + step)
            yield rows[part].toarray() + np.outer(common[part], self.tilt)

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

    def allocate(self, p: Floats, rng: np.random.Generator) -> Ints:
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
        is too improbable for a float, and only ratios within a row matter (MODEL 1.1).
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
                f"than {MAX_FULL} nonzero entries, which is too many for a released table. "
                "Estimate the distribution from the reports instead (estimate, likelihood, "
                "Released), or release coarser values."
            )
        full = np.outer(scale * self.floor, self.tilt)
        full[rows, columns] += data
        return sparse.csr_array(full)


@dataclass(frozen=True)
class MatrixLikelihood(SimplexLikelihood):
    """Likelihood of counted reports whose probabilities ``Q(r|k)``, `rows`, have no structure."""

    weights: Ints | Floats
    rows: Floats | sparse.csr_array

    @property
    def size(self) -> int:
        """Number of values."""
        return int(self.rows.shape[1])

    def probabilities(self, p: npt.ArrayLike) -> Floats:
        """Probability of each report under `p`."""
        return np.asarray(self.rows @ np.asarray(p, dtype=float))

    def pull(self, shares: Floats) -> Floats:
        """``sum_r shares[r] Q(r|k)`` of each value."""
        return np.asarray(self._columns @ shares)

    @cached_property
    def _columns(self) -> Floats | sparse.csr_array:
        return self.rows.T

    def slopes(self, p: Floats) -> Iterator[Floats]:
        """Rows ``sqrt(w_r) Q(r|k) / P(r)``; see `curvature_root`."""
        total = self.probabilities(p)
        share = np.divide(np.sqrt(self.weights), total, out=np.zeros(len(total)), where=total > 0)
        yield np.asarray(self.rows * share[:, None])

    def restrict(self, keep: Mask) -> MatrixLikelihood:
        """Likelihood of distributions on the values in `keep`, with all others zero."""
        return MatrixLikelihood(self.weights, self.rows[:, keep])

    def allocate(self, p: Floats, rng: np.random.Generator) -> Ints:
        """Draw the true values behind the reports given `p`, as counts per value."""
        seen = self.weights > 0
        joint = self.rows[seen] * p
        share = joint / joint.sum(axis=1, keepdims=True)
        counts: Ints = rng.multinomial(self.weights[seen].astype(np.int64), share).sum(axis=0)
        return counts


def walsh_hadamard(vector: Number) -> Number:
    """Product with the Hadamard matrix ``H[i, j] = (-1)^(ones of i & j)``, in ``O(B log B)``.

    The length is a power of two; whole numbers stay whole.
    """
    out = np.array(vector)
    step = 1
    while step < len(out):
        pairs = out.reshape(-1, 2, step)
        low, high = pairs[:, 0].copy(), pairs[:, 1].copy()
        pairs[:, 0], pairs[:, 1] = low + high, low - high
        step *= 2
    return out


@dataclass(frozen=True)
class HadamardLikelihood(SimplexLikelihood):
    """Likelihood of reports of Hadamard response; `weights` count those of each column of ``H``.

    ``Q(y|k) = (1 + theta H[rows[k], y]) / B`` with ``theta = (e - 1) / (e + 1)``.
    """

    weights: Ints
    theta: float
    rows: Ints

    @property
    def size(self) -> int:
        """Number of values."""
        return len(self.rows)

    def probabilities(self, p: npt.ArrayLike) -> Floats:
        """Probability of each report under `p`."""
        spread = np.zeros(len(self.weights))
        spread[self.rows] = p
        return (spread.sum() + self.theta * walsh_hadamard(spread)) / len(spread)

    def pull(self, shares: Floats) -> Floats:
        """``sum_y shares[y] Q(y|k)`` of each value."""
        turned = walsh_hadamard(shares)[self.rows]
        return (shares.sum() + self.theta * turned) / len(shares)

    def restrict(self, keep: Mask) -> HadamardLikelihood:
        """Likelihood of distributions on the values in `keep`."""
        return HadamardLikelihood(self.weights, self.theta, self.rows[keep])


@dataclass(frozen=True)
class WindowLikelihood(SimplexLikelihood):
    """Likelihood of reports that are likelier from a window of consecutive values.

    ``Q(r|k) = high`` for ``start[r] <= k < stop[r]``, else ``low``; `weights` count the windows.
    """

    weights: Ints
    start: Ints
    stop: Ints
    high: float
    low: float
    n_values: int

    @property
    def size(self) -> int:
        """Number of values."""
        return self.n_values

    def probabilities(self, p: npt.ArrayLike) -> Floats:
        """Probability of each report under `p`, by running sums."""
        sums = np.concatenate([[0.0], np.cumsum(p)])
        inside = sums[self.stop] - sums[self.start]
        return self.low * sums[-1] + (self.high - self.low) * inside

    def pull(self, shares: Floats) -> Floats:
        """``sum_r shares[r] Q(r|k)`` of each value, by running sums."""
        change = np.bincount(self.start, weights=shares, minlength=self.size + 1)
        change -= np.bincount(self.stop, weights=shares, minlength=self.size + 1)
        inside = np.cumsum(change[:-1])
        return self.low * shares.sum() + (self.high - self.low) * inside

    def restrict(self, keep: Mask) -> WindowLikelihood:
        """Likelihood of distributions on the values in `keep`: windows of fewer values."""
        place = np.concatenate([[0], np.cumsum(keep)])
        start, stop = place[self.start], place[self.stop]
        return WindowLikelihood(self.weights, start, stop, self.high, self.low, int(place[-1]))

    def mixture(self, *, most: int) -> MixtureLikelihood:
        """All rows, for models and posterior draws; at most `most` entries."""
        lengths = self.stop - self.start
        total = int(lengths.sum())
        if total > most:
            raise ChannelError(
                f"The likelihood of {len(self.weights)} different reports for {self.size} values "
                f"has {total} entries, more than {most}; use fewer bins, or method='ems'."
            )
        first = np.cumsum(lengths) - lengths
        indices = np.arange(total) - np.repeat(first - self.start, lengths)
        ends, gain = np.concatenate([[0], np.cumsum(lengths)]), self.high - self.low
        return MixtureLikelihood.of_rows(
            ends, indices, self.size, floor=self.low, gain=gain, weights=self.weights
        )
