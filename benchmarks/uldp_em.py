"""Maximum likelihood at |X| = 12,800, |X_S| = 2,432, n = 240,000, epsilon = 6, beside a dense EM.

The dense EM multiplies by the matrix of report probabilities: ``K x K`` for randomized response,
``n x K`` in blocks for bits (NumPy, BLAS, single precision, which favours it). Its time is that of
one iteration, measured here, times the number of plain EM iterations that reach our likelihood to
within one nat; the iterations are counted with our structured step, whose result is checked against
the dense one first. Both start from the threshold estimate. (ULDP reports 3121, 1258, 5225 and
1073 s for RR, uRR, RAPPOR and uRAP.)
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pandas as pd

import anonbayes as ab
from anonbayes.channels.pure import PureChannel
from anonbayes.estimation.likelihood import MixtureLikelihood
from benchmarks._uldp_data import census

Step = Callable[[np.ndarray], np.ndarray]


def dense_response(channel: PureChannel, counts: np.ndarray) -> Step:
    size = len(counts)
    matrix = np.broadcast_to(channel.miss.astype(np.float32), (size, size)).copy()
    np.fill_diagonal(matrix, channel.hit)
    n = counts.sum()

    def step(p: np.ndarray) -> np.ndarray:
        mixed = p.astype(np.float32) @ matrix
        ratio = np.divide(counts, mixed, out=np.zeros(size), where=mixed > 0)
        return p * (matrix @ ratio.astype(np.float32)) / n

    return step


def dense_bits(channel: ab.BitChannel, reports: ab.BitReports, block: int = 2000) -> Step:
    """Likelihood of every value for every report, from the bits, block by block."""
    proves = channel.miss == 0
    with np.errstate(divide="ignore"):
        raised = np.where(proves, 0.0, channel.hit / np.where(proves, 1.0, channel.miss))
    lowered = (1 - channel.hit) / (1 - channel.miss)
    gain = (raised - lowered).astype(np.float32)
    lowered = lowered.astype(np.float32)

    def likelihoods(first: int, last: int) -> np.ndarray:
        ones = reports.indices[reports.indptr[first] : reports.indptr[last]]
        rows = np.repeat(np.arange(last - first), np.diff(reports.indptr[first : last + 1]))
        out = np.tile(lowered, (last - first, 1))
        out[rows, ones] += gain[ones]
        known = proves[ones]
        out[rows[known]] = 0.0
        out[rows[known], ones[known]] = 1.0
        return out

    def step(p: np.ndarray) -> np.ndarray:
        single, total = p.astype(np.float32), np.zeros(len(p))
        for first in range(0, len(reports), block):
            q = likelihoods(first, min(first + block, len(reports)))
            total += (1.0 / (q @ single)) @ q
        return p * total / len(reports)

    return step


def count_plain(
    likelihood: MixtureLikelihood, start: np.ndarray, target: float, seconds: float
) -> tuple[int, bool]:
    """Plain EM iterations up to the target likelihood, or up to a time limit."""
    p, begin = start, time.perf_counter()
    for iteration in range(1, 1_000_000):
        p, value, _ = likelihood.step(p)
        if value >= target:
            return iteration - 1, True
        if time.perf_counter() - begin > seconds:
            return iteration, False
    return iteration, False


def race(name: str, channel: PureChannel, values: np.ndarray, patience: float) -> dict:
    bits = isinstance(channel, ab.BitChannel)
    reports = channel.release_codes(values, seed=1)
    if not bits:
        reports = ab.SupportCounts(np.bincount(reports, minlength=len(channel.hit)), len(reports))
    if bits:
        few = channel.release_codes(values[:100], seed=1)
        channel.estimate(few, method="mle", iterations=100)  # compiles
    else:
        channel.estimate(reports, method="mle")
    start = time.perf_counter()
    settings = {"tolerance": 1e-4} if bits else {}  # closed form otherwise
    ours = channel.estimate(reports, method="mle", **settings)
    seconds = time.perf_counter() - start
    likelihood = channel.likelihood(reports)
    begin = channel.starting_distribution(reports)
    step = dense_bits(channel, reports) if bits else dense_response(channel, reports.counts)
    start = time.perf_counter()
    dense = step(begin)
    per_iteration = time.perf_counter() - start
    error = np.abs(dense - likelihood.step(begin)[0]).max()
    assert error < 1e-5, f"the dense step differs by {error}"
    needed, reached = count_plain(likelihood, begin, ours.log_likelihood - 1.0, patience)
    return {
        "channel": name,
        "ours s": seconds,
        "passes": ours.iterations,
        "gap (nats)": ours.gap,
        "dense s/iteration": per_iteration,
        "plain iterations": f"{'' if reached else '> '}{needed}",
        "dense s": per_iteration * needed,
        "ratio": per_iteration * needed / seconds,
    }


def main(*, short: bool = False) -> None:
    """Print one line per channel."""
    pop = census(extra=2 if short else 5)
    n = 20_000 if short else pop.n
    values = np.random.default_rng(7).choice(len(pop.p), n, p=pop.p)
    epsilon = 6.0
    channels = {
        "RR": ab.RandomizedResponse(pop.domain, epsilon),
        "uRR": ab.UtilityOptimizedRR(pop.domain, epsilon, sensitive=pop.sensitive),
        "uRAP": ab.UtilityOptimizedRAPPOR(pop.domain, epsilon, sensitive=pop.sensitive),
        "RAPPOR": ab.RAPPOR(pop.domain, epsilon),
    }
    print(f"|X| = {len(pop.p):,}, |X_S| = {len(pop.sensitive):,}, n = {n:,}, epsilon = {epsilon}")
    rows = []
    for name, channel in channels.items():
        rows.append(race(name, channel, values, 5 if short else 600))
        print(pd.DataFrame(rows[-1:]).to_string(index=False, float_format=lambda x: f"{x:.3g}"))


if __name__ == "__main__":
    main()
