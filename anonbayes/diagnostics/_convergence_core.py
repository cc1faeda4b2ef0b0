"""R-hat, effective sample sizes and Monte-Carlo errors of many quantities at once.

The definitions are those of Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021),
*Rank-normalization, folding, and localization: an improved R-hat*, and the numbers those of ArviZ,
which computes them a quantity at a time (and in its 0.x generation loses digits of draws that are
far from zero). Here each quantity is sorted once, scores of ranks come from one table, and Fourier
transforms are taken of whole blocks. Arrays in and out.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from numba import njit
from scipy.fft import next_fast_len
from scipy.special import ndtri

from .. import compat

__all__ = ["convergence_statistics"]

Floats = npt.NDArray[np.float64]
BLOCK = 2**16
"""Draws that are worked on at a time, about: they fit into the processor's cache, with copies."""
RESOLUTION = float(np.finfo(float).resolution)
"""Draws that differ by less count as equal."""
TAILS = (0.05, 0.95)


def convergence_statistics(draws: Floats) -> dict[str, Floats]:
    """Measure quantities that are finite and vary.

    Parameters
    ----------
    draws : numpy.ndarray
        Shape ``(chains, draws, quantities)``, at least 4 draws.

    Returns
    -------
    dict of str to numpy.ndarray
        By name, one number per quantity: ``mcse`` of the mean, ``ess_bulk``, ``ess_tail`` (the
        smaller one of the 5 % and 95 % quantiles), and with several chains ``r_hat``, the larger
        one of rank-normalised and folded draws.

    Examples
    --------
    >>> draws = np.random.default_rng(1).normal(size=(4, 500, 2))
    >>> found = convergence_statistics(draws)
    >>> [name for name in found], bool((found["r_hat"] < 1.01).all())
    (['mcse', 'ess_bulk', 'ess_tail', 'r_hat'], True)
    """
    n_chains, n_draws, n = draws.shape
    scores = _scores(2 * (n_draws // 2) * n_chains)
    step = max(1, BLOCK // (n_chains * n_draws))
    parts = [
        _of_block(np.ascontiguousarray(draws[..., i : i + step].transpose(2, 0, 1)), scores)
        for i in range(0, n, step)
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _of_block(draws: Floats, scores: Floats) -> dict[str, Floats]:
    """Statistics of ``(quantities, chains, draws)``."""
    n, n_chains = draws.shape[:2]
    halves = _halves(draws)
    flat = halves.reshape(n, -1)
    order = flat.argsort(axis=1)
    ranked, folded = _rank_scores(flat, order, scores)
    ranked, folded = ranked.reshape(halves.shape), folded.reshape(halves.shape)
    ordered = np.sort(draws.reshape(n, -1), axis=1)
    tails = [
        _effective_size(_halves(draws <= compat.tail_quantile(ordered, p)[:, None, None]))
        for p in TAILS
    ]
    out = {
        "mcse": draws.std(axis=(1, 2), ddof=1) / np.sqrt(_effective_size(halves)),
        "ess_bulk": _effective_size(ranked),
        "ess_tail": np.minimum(*tails),
    }
    if n_chains > 1:
        bulk, tail = _r_hat(ranked), _r_hat(folded)
        # Where folding leaves nothing that varies, the bulk alone counts.
        out["r_hat"] = np.where(tail > bulk, tail, bulk)
    return out


def _halves(draws: npt.NDArray[np.generic]) -> Floats:
    """Both halves of every chain as chains; the middle of an odd number of draws is left out."""
    half = draws.shape[-1] // 2
    return np.concatenate([draws[..., :half], draws[..., -half:]], axis=1).astype(float, copy=False)


def _scores(size: int) -> Floats:
    """Normal scores of the ranks 1, 1.5, 2, ..., `size`; ties have ranks in the middle (Blom)."""
    ranks = 1.0 + 0.5 * np.arange(2 * size - 1)
    return np.asarray(ndtri((ranks - 0.375) / (size - 2 * 0.375 + 1.0)))


@njit(cache=True)
def _rank_scores(draws, order, scores):  # type: ignore[no-untyped-def]
    """Scores of the ranks of draws, and of their distances from the median, from one sorting.

    Seen from the median both sides are sorted by distance, so they only have to be merged.
    """
    n, size = draws.shape
    ranked = np.empty((n, size))
    folded = np.empty((n, size))
    merged = np.empty(size, dtype=np.int64)
    distance = np.empty(size)
    for q in range(n):
        x, by_size = draws[q], order[q]
        _spread(x, by_size, scores, ranked[q])
        middle = (x[by_size[size // 2 - 1]] + x[by_size[size // 2]]) / 2.0
        for i in range(size):
            distance[i] = abs(x[i] - middle)
        low, high = size // 2 - 1, size // 2
        for i in range(size):
            below = high == size or (low >= 0 and distance[by_size[low]] <= distance[by_size[high]])
            if below:
                merged[i] = by_size[low]
                low -= 1
            else:
                merged[i] = by_size[high]
                high += 1
        _spread(distance, merged, scores, folded[q])
    return ranked, folded


@njit(cache=True)
def _spread(x, order, scores, out):  # type: ignore[no-untyped-def]
    """Give each draw the score of its rank; equal draws share the mean of their ranks."""
    size = len(x)
    start = 0
    while start < size:
        stop = start + 1
        while stop < size and x[order[stop]] == x[order[start]]:
            stop += 1
        score = scores[start + stop - 1]  # rank (start + 1 + stop) / 2
        for i in range(start, stop):
            out[order[i]] = score
        start = stop


def _r_hat(chains: Floats) -> Floats:
    size = chains.shape[-1]
    between = size * chains.mean(axis=2).var(axis=1, ddof=1)
    within = chains.var(axis=2, ddof=1).mean(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.sqrt((between / within + size - 1) / size))


def _effective_size(chains: Floats) -> Floats:
    """Effective sample size by Geyer's initial monotone sequence, of split chains."""
    n_chains, n_draws = chains.shape[1:]
    centre = chains.mean(axis=2)
    padded = next_fast_len(2 * n_draws)
    spectrum = np.fft.rfft(chains - centre[..., None], n=padded, axis=2)
    # The mean of the chains' covariances is the transform of the mean of their spectra.
    power = (spectrum.real**2 + spectrum.imag**2).mean(axis=1)
    covariance = np.fft.irfft(power, n=padded, axis=1)[:, :n_draws] / n_draws
    out = _geyer(covariance, centre.var(axis=1, ddof=1), n_chains)
    still = np.ptp(chains, axis=(1, 2)) < RESOLUTION
    return np.where(still, float(n_chains * n_draws), out)


@njit(cache=True)
def _geyer(covariance, between, n_chains):  # type: ignore[no-untyped-def]
    """Sizes from autocovariances, averaged over chains, and the variance of the chains' means.

    Autocorrelations count in pairs, of which the sum is positive in theory: until one is not, and
    none more than the one before. Of the last pair only its first half counts, and once.
    """
    n, n_draws = covariance.shape
    total = n_chains * n_draws
    out = np.empty(n)
    for q in range(n):
        within = covariance[q, 0] * n_draws / (n_draws - 1.0)
        variance = within * (n_draws - 1.0) / n_draws + between[q]
        if variance == 0.0:  # nothing varies
            out[q] = total
            continue
        even, odd = 1.0, 1.0 - (within - covariance[q, 1]) / variance
        pairs, least = 0.0, np.inf
        t = 1
        while t < n_draws - 3 and even + odd > 0.0:
            least = min(least, even + odd)
            pairs += least
            even = 1.0 - (within - covariance[q, t + 1]) / variance
            odd = 1.0 - (within - covariance[q, t + 2]) / variance
            t += 2
        last = even if even > 0.0 or even + odd >= 0.0 else 0.0
        out[q] = total / max(2.0 * pairs + last - 1.0, 1.0 / np.log10(total))
    return out
