"""Drawing bit reports by the gaps between ones, beside a random byte for every bit.

Both draw from the operating system's secure source and give the same sparse reports. The dense way
compares each byte with ``256 p`` (a 53-bit uniform decides ties) and collects the ones with NumPy.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable

import numpy as np
import pandas as pd

import anonbayes as ab
from anonbayes.channels.randomness import SecureSource, skips


def dense(total: int, probability: float, source: SecureSource) -> np.ndarray:
    """Positions of ones among `total` bits, from one random byte per bit."""
    cut, rest = divmod(256.0 * probability, 1.0)
    drawn = np.frombuffer(source.bytes(total), dtype=np.uint8)
    raised = drawn < cut
    ties = np.flatnonzero(drawn == cut)
    raised[ties] = source.random(len(ties)) < rest
    return np.flatnonzero(raised)


def best_of(runs: int, work: Callable[[], object]) -> float:
    """Shortest time in seconds."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def race(probability: float, ones: int) -> dict[str, float]:
    """Nanoseconds per one, both ways."""
    source, total = SecureSource(), int(ones / probability)
    runs = 3 if probability < 0.01 else 5
    gaps = best_of(runs, lambda: skips(total, probability, source)) / ones * 1e9
    bytes_ = best_of(runs, lambda: dense(total, probability, source)) / ones * 1e9
    return {
        "probability of a one": probability,
        "gaps, ns per one": gaps,
        "byte per bit, ns per one": bytes_,
        "ratio": bytes_ / gaps,
    }


def memory(n: int, size: int, epsilon: float) -> None:
    """Print the peak memory of a release beside that of its result and of a byte per bit."""
    channel = ab.UnaryEncoding.optimal(ab.Domain("x", range(size)), epsilon)
    codes = np.random.default_rng(1).integers(0, size, n)
    channel.release_codes(codes[:10])
    tracemalloc.start()
    start = time.perf_counter()
    reports = channel.release_codes(codes)
    seconds = time.perf_counter() - start
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    stored = reports.indices.nbytes + reports.indptr.nbytes
    print(
        f"OUE, epsilon = {epsilon:g}, {n:,} x {size:,} bits, {len(reports.indices):,} ones: "
        f"{seconds:.2f} s, peak {peak / 1e6:,.0f} MB, the reports {stored / 1e6:,.0f} MB, a byte "
        f"per bit {n * size / 1e6:,.0f} MB"
    )


def main(*, short: bool = False) -> None:
    """Print time per one by probability, then memory."""
    skips(1000, 0.3, SecureSource())  # compiles
    ones = 200_000 if short else 1_000_000
    table = pd.DataFrame([race(p, ones) for p in (0.01, 0.05, 0.1, 0.2, 0.27, 0.38, 0.5, 0.75)])
    print(table.to_string(index=False, float_format=lambda x: f"{x:.3g}"))
    for epsilon in (6.0, 4.0, 1.0):
        memory(20_000 if short else 200_000, 1000, epsilon)


if __name__ == "__main__":
    main()
