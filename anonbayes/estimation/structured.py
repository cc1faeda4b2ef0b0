"""Likelihoods whose matrix is never formed: Hadamard rows and windows of ordered values.

A pass of EM needs ``P(y) = sum_k p_k Q(y|k)`` for every report and ``sum_y w_y Q(y|k) / P(y)`` for
every value. For Hadamard response both are fast Walsh-Hadamard transforms, ``O(K log K)``. For
mechanisms that are more likely to report near the true value (square wave, piecewise) the values
near a report are a window of consecutive ones, and both are differences of running sums, ``O(K)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Floats, Ints, Mask
from anonbayes.errors import ChannelError
from anonbayes.estimation.closed_forms import around
from anonbayes.estimation.em import Fixpoint
from anonbayes.estimation.likelihood import MixtureLikelihood, SimplexLikelihood

__all__ = [
    "HadamardLikelihood",
    "Smoothed",
    "WindowLikelihood",
    "sensitivity",
    "smooth",
    "smoothed",
    "smoothed_em",
    "walsh_hadamard",
]


def walsh_hadamard(vector: npt.ArrayLike) -> npt.NDArray[Any]:
    """Product with the Hadamard matrix ``H[i, j] = (-1)^(ones of i & j)``, in ``O(B log B)``.

    The length is a power of two; whole numbers stay whole.

    Examples
    --------
    >>> walsh_hadamard([5, 1, 0, 2]).tolist()
    [8, 2, 4, 6]
    """
    out = np.array(vector)
    step = 1
    while step < len(out):
        pairs = out.reshape(-1, 2, step)
        low, high = pairs[:, 0].copy(), pairs[:, 1].copy()
        pairs[:, 0], pairs[:, 1] = low + high, low - high
        step *= 2
    return out


class _Counted(SimplexLikelihood):
    """Likelihood of counted reports, from two linear maps."""

    weights: Ints

    def probabilities(self, p: npt.ArrayLike) -> Floats:
        """Probability of each report under `p`."""
        raise NotImplementedError

    def pull(self, shares: Floats) -> Floats:
        """``sum_y shares[y] Q(y|k)`` of each value."""
        raise NotImplementedError

    @cached_property
    def n(self) -> int:
        """Number of reports."""
        return int(self.weights.sum())

    def log(self, p: npt.ArrayLike) -> float:
        """Log-likelihood of `p`."""
        return self._log(self.probabilities(p))

    def _log(self, total: Floats) -> float:
        seen = self.weights > 0
        with np.errstate(divide="ignore"):
            return float(self.weights[seen] @ np.log(total[seen]))

    def gradient(self, p: Floats) -> tuple[Floats, float]:
        """Gradient of the log-likelihood, and its value, at `p`."""
        total = self.probabilities(p)
        shares = np.divide(self.weights, total, out=np.zeros(len(total)), where=self.weights > 0)
        return self.pull(shares), self._log(total)


@dataclass(frozen=True)
class HadamardLikelihood(_Counted):
    """Likelihood of reports of Hadamard response.

    ``Q(y|k) = (1 + t H[k + 1, y]) / B`` with ``t = (e - 1) / (e + 1)``.

    Attributes
    ----------
    weights : ndarray of int, shape (B,)
        Number of reports of each column.
    theta : float
        ``t``.
    rows : ndarray of int
        Row of ``H`` of each value, from 1 on.
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
class WindowLikelihood(_Counted):
    """Likelihood of reports that are likelier from a window of consecutive values.

    ``Q(r|k) = high`` for ``start[r] <= k < stop[r]``, else ``low``.

    Attributes
    ----------
    weights : ndarray of int, shape (m,)
        Number of reports with each window.
    start, stop : ndarray of int, shape (m,)
        The windows.
    high, low : float
        Probabilities, or densities.
    n_values : int
        Number of values.

    Examples
    --------
    >>> one = np.array([1])
    >>> likelihood = WindowLikelihood(one, one, one + 2, 0.5, 0.1, 4)
    >>> likelihood.probabilities(np.full(4, 0.25)).round(6).tolist()
    [0.3]
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
        rows = len(self.weights)
        return MixtureLikelihood(
            weights=self.weights,
            floor=np.full(rows, self.low),
            log_scale=np.zeros(rows),
            tilt=np.ones(self.size),
            gain=np.full(self.size, self.high - self.low),
            indptr=np.concatenate([[0], np.cumsum(lengths)]),
            indices=indices,
        )


# -------------------------------------------------------------------------------------------------
# EM with smoothing (Li et al. 2020, 5.3, after Silverman et al. 1990): neighbours have similar
# shares, so every iteration ends with an average of each share and its two neighbours. How much of
# it is good depends on the number of bins, on the reports and on the population; see `smoothed`.

#: Strengths of smoothing that are tried, the smoothest first: numbers of averages in an iteration,
#: and below one the share of the average in it.
STRENGTHS = (30.0, 10.0, 3.0, 1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001, 0.0003)


class Smoothed(NamedTuple):
    """Result of EM with smoothing, its strength, and limits of the shares."""

    end: Fixpoint
    strength: float
    interval: Floats | None


def smooth(p: Floats, strength: float = 1.0) -> Floats:
    """Average of each share and its neighbours with weights 1, 2, 1; the sum stays.

    Parameters
    ----------
    p : ndarray
        Shares in the order of their values; further axes are smoothed along with them.
    strength : float
        Weight of the average in the result; above one, how often it is applied.

    Examples
    --------
    >>> smooth(np.array([0.0, 1.0, 0.0, 0.0])).tolist()
    [0.25, 0.5, 0.25, 0.0]
    """
    if len(p) < 2:
        return p
    for _ in range(max(1, round(strength))):
        padded = np.concatenate([p[:1], p, p[-1:]])
        average = 0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:]
        p = average if strength >= 1 else (1.0 - strength) * p + strength * average
    return p


def smoothed_em(
    likelihood: SimplexLikelihood,
    start: Floats,
    *,
    strength: float = 1.0,
    iterations: int = 10_000,
    tolerance: float = 1e-3,
) -> Fixpoint:
    """EM in which every iteration ends with smoothing; strength 1 is EMS of Li et al.

    Stop when the log-likelihood changes by less than `tolerance` from one iteration to the next.
    There is no bound on how much it could still increase: the maximum is not the aim.
    """
    p, path = start, [likelihood.log(start)]
    converged = False
    for _ in range(iterations):
        p = smooth(likelihood.step(p)[0], strength)
        path.append(likelihood.log(p))
        if abs(path[-1] - path[-2]) < tolerance:
            converged = True
            break
    return Fixpoint(p, path[-1], np.array(path), len(path) - 1, converged, float("nan"))


def smoothed(
    likelihood: SimplexLikelihood,
    start: Floats,
    matrix: Floats | None,
    *,
    strength: float | None = None,
    level: float = 0.95,
    iterations: int = 10_000,
    tolerance: float = 1e-3,
) -> Smoothed:
    """EM with smoothing whose strength is chosen from the reports.

    Of `STRENGTHS` the best by Akaike's criterion is taken, the largest log-likelihood less the
    number of parameters in use. That number is the trace of the change of the fitted shares of the
    reports with the observed ones (`sensitivity`). Intervals hold the limits of all strengths: the
    reports cannot tell a peak of one bin from a smooth hill, and the best strength alone covered
    half of the bins of real populations.

    Parameters
    ----------
    likelihood : SimplexLikelihood
        The reports.
    start : ndarray
        Distribution without zeros.
    matrix : ndarray, shape (K, number of reports), or None
        ``Q``; without it strength 1 is taken, and no errors are computed.
    strength : float, optional
        Instead of choosing one.
    level : float
        Probability of the intervals.
    iterations, tolerance
        As in `smoothed_em`.
    """
    how: dict[str, Any] = {"iterations": iterations, "tolerance": tolerance}
    if matrix is None:
        chosen = 1.0 if strength is None else strength
        return Smoothed(smoothed_em(likelihood, start, strength=chosen, **how), chosen, None)
    half = normal_quantile(level)
    tried: list[tuple[float, Fixpoint, float, Floats]] = []
    p = start
    for each in STRENGTHS if strength is None else (strength,):
        end = smoothed_em(likelihood, p, strength=each, **how)
        p = end.p
        change, total = sensitivity(matrix, p, each), p @ matrix
        akaike = end.log_likelihood - float((change * matrix).sum())
        variance = ((change * total) * change).sum(axis=1) - (change @ total) ** 2
        error = half * np.sqrt(np.maximum(variance, 0.0) / likelihood.n)
        limits = np.stack([p - error, p + error], axis=1)
        tried.append((akaike, end, each, limits))
    _, end, chosen, own = max(tried, key=lambda one: one[0])
    limits = around(own, *(one[3] for one in tried))
    return Smoothed(end, chosen, np.clip(limits, 0.0, 1.0))


def sensitivity(matrix: Floats, p: Floats, strength: float = 1.0) -> Floats:
    """Change of the smoothed estimate `p` with the shares of the reports, shape (K, reports).

    The estimate is a fixed point of the iteration, ``p = S (p * Q (h / (p Q)))`` with shares ``h``
    of the reports; its first-order change with ``h``, at ``h = p Q``, follows by implicit
    differentiation.
    """
    identity = np.eye(len(p))
    weighted = p[:, None] * matrix / (p @ matrix)
    # At h = p Q the gradient of the log-likelihood is one for every value.
    to_itself = smooth(identity - weighted @ matrix.T, strength)
    try:
        return np.asarray(np.linalg.solve(identity - to_itself, smooth(weighted, strength)))
    except np.linalg.LinAlgError:
        raise ChannelError(
            "The reports do not distinguish the values, so shares have no limits; use a larger "
            "budget, or fewer values."
        ) from None


def normal_quantile(level: float) -> float:
    """Half width of a normal interval in standard errors.

    Examples
    --------
    >>> round(normal_quantile(0.95), 3)
    1.96
    """
    return NormalDist().inv_cdf(0.5 + level / 2)


def student_quantile(level: float, freedom: int) -> float:
    """Half width of Student's interval in standard errors.

    Examples
    --------
    >>> round(student_quantile(0.95, 4), 3)
    2.776
    """
    from scipy import special

    return float(special.stdtrit(freedom, 0.5 + level / 2))
