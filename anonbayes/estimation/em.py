"""Expectation-maximization on the simplex, plain and accelerated."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Floats
from anonbayes.errors import ChannelError
from anonbayes.estimation.closed_forms import check_distribution
from anonbayes.estimation.likelihood import SimplexLikelihood

__all__ = ["Fixpoint", "maximize", "reconstruct", "starting_point"]


# Share of the uniform distribution mixed into a start: EM never leaves a zero.
UNIFORM_SHARE = 1e-3

# Passes over the reports between looks at which values still matter.
BOUT = 24


class Fixpoint(NamedTuple):
    """Result of an iteration, and how it was reached."""

    p: Floats
    log_likelihood: float
    path: Floats
    iterations: int
    converged: bool
    gap: float


def starting_point(p: npt.ArrayLike | None, size: int) -> Floats:
    """Distribution near `p` without zeros: negative entries are cut, and a little is spread evenly.

    Examples
    --------
    >>> starting_point([0.7, 0.4, -0.1], 3).round(4).tolist()
    [0.6361, 0.3636, 0.0003]
    """
    uniform = np.full(size, 1.0 / size)
    if p is None:
        return uniform
    array = np.asarray(p, dtype=float)
    if array.shape != (size,) or not np.isfinite(array).all():
        raise ChannelError(f"start= needs one finite number for each of the {size} values.")
    positive = np.maximum(array, 0.0)
    if positive.sum() == 0:
        return uniform
    return (1 - UNIFORM_SHARE) * positive / positive.sum() + UNIFORM_SHARE * uniform


def reconstruct(
    likelihood: SimplexLikelihood,
    start: npt.ArrayLike,
    *,
    iterations: int = 1000,
    tolerance: float = 1e-5,
) -> Fixpoint:
    """Plain EM ("iterative Bayesian reconstruction"): each iteration raises the likelihood.

    Parameters
    ----------
    likelihood : SimplexLikelihood
        The reports.
    start : array-like
        Distribution without zeros, see `starting_point`.
    iterations : int
        Maximum number of iterations. Stopping early regularises.
    tolerance : float
        Stop when the log-likelihood can increase by at most this much **per report**, according to
        its certified bound (`SimplexLikelihood.step`).
    """
    p = check_distribution(start, likelihood.size, "start")
    _check_limits(iterations, tolerance)
    path, gap, converged = [], np.inf, False
    for _ in range(iterations):
        updated, log_likelihood, gap = likelihood.step(p)
        path.append(log_likelihood)
        if gap <= tolerance * likelihood.n:
            converged = True
            break
        p = updated
    return Fixpoint(p, likelihood.log(p), np.array(path), len(path), converged, gap)


def maximize(
    likelihood: SimplexLikelihood,
    start: npt.ArrayLike,
    *,
    iterations: int = 5000,
    tolerance: float = 1e-5,
) -> Fixpoint:
    """Maximum likelihood by accelerated EM on the values that matter.

    Squared extrapolation (`_climb`) takes long strides. In between, values that hardly anybody
    seems to hold and whose gradient points outwards are set aside, and return when it turns (the
    maximum has many zeros, and a pass costs only the values that are left). Convergence is judged
    on all values. Parameters as in `reconstruct`; `iterations` counts passes over the reports.
    """
    p = check_distribution(start, likelihood.size, "start")
    _check_limits(iterations, tolerance)
    target = tolerance * likelihood.n
    end = _climb(likelihood, p, min(BOUT, iterations), target)
    path, passes = [end.path], end.iterations
    while not end.converged and passes + BOUT <= iterations:
        p = end.p
        gradient, _ = likelihood.gradient(p)
        passes += 1
        keep = (p * likelihood.n > 0.05) | (gradient > likelihood.n)
        inner = None
        if keep.mean() < 0.7:
            begin = np.maximum(p[keep], 0.01 / likelihood.n)
            part = likelihood.restrict(keep)
            inner = _climb(
                part, begin / begin.sum(), min(4 * BOUT, iterations - passes), target / 2
            )
            passes += inner.iterations
        if inner is None or inner.log_likelihood < end.log_likelihood:
            end = _climb(likelihood, p, min(BOUT, iterations - passes), target)
            passes += end.iterations
            path.append(end.path)
            continue
        p = np.zeros(likelihood.size)
        p[keep] = inner.p
        gradient, value = likelihood.gradient(p)
        passes += 1
        gap = float(gradient.max() - likelihood.n)
        path.append(np.array([value]))
        end = Fixpoint(p, value, np.empty(0), 0, gap <= target, gap)
    return Fixpoint(end.p, end.log_likelihood, np.concatenate(path), passes, end.converged, end.gap)


def _climb(likelihood: SimplexLikelihood, p: Floats, iterations: int, target: float) -> Fixpoint:
    """EM with squared extrapolation (SQUAREM, scheme S3) until the gap is at most `target`.

    Two EM steps give a direction and its curvature; the extrapolated point is kept when it does
    not lower the likelihood, so the path never falls.

    References
    ----------
    Varadhan and Roland (2008), Simple and globally convergent methods for accelerating the
    convergence of any EM algorithm. Scandinavian Journal of Statistics 35.
    """
    first, value, gap = likelihood.step(p)
    path, passes, converged = [value], 1, gap <= target
    longest = 4.0
    while not converged and passes + 2 <= iterations:
        second, value_first, gap = likelihood.step(first)
        passes += 1
        path.append(value_first)
        if gap <= target:
            p, value, converged = first, value_first, True
            break
        change = first - p
        bend = (second - first) - change
        size, curvature = np.linalg.norm(change), np.linalg.norm(bend)
        stride = 1.0 if curvature == 0 else float(np.clip(size / curvature, 1.0, longest))
        leap = p + 2 * stride * change + stride**2 * bend
        # Steps beyond the simplex stop short of its faces, at a tenth of the EM step.
        leap = np.maximum(leap, 0.1 * second)
        leap /= leap.sum()
        after_leap, value_leap, gap_leap = likelihood.step(leap)
        passes += 1
        if value_leap >= value_first:
            if stride == longest:
                longest *= 4.0
            p, first, value, gap = leap, after_leap, value_leap, gap_leap
        else:
            longest = max(longest / 2.0, 1.0)
            first, value, gap = likelihood.step(second)
            p = second
            passes += 1
        path.append(value)
        converged = gap <= target
    return Fixpoint(p, value, np.array(path), passes, bool(converged), gap)


def _check_limits(iterations: int, tolerance: float) -> None:
    if iterations < 1:
        raise ChannelError(f"iterations={iterations!r}: EM needs at least one iteration.")
    if not tolerance >= 0:
        raise ChannelError(f"tolerance={tolerance!r} must not be negative.")
