"""Numbers and several attributes: errors beside the obvious rivals, in the same run.

Square wave with smoothing against optimal bits and randomized response of the same bins, whose
unbiased shares are made a distribution (Norm-Sub); its mean against the mechanisms for means. One
sampled attribute with the whole budget against all of them with parts of it. Ratios above one say
that ours is nearer.
"""

from __future__ import annotations

import numpy as np
from scipy import stats

import anonbayes as ab

POPULATIONS = {
    "skewed": stats.beta(2, 5),
    "even": stats.uniform(0, 1),
    "peaked": stats.beta(40, 40),
}


def distributions(bins: int, n: int, runs: int) -> None:
    domain = ab.BinnedDomain("x", 0, 1, bins)
    print(f"total variation, {bins} bins, {n:,} people, {runs} runs")
    for name, population in POPULATIONS.items():
        truth = np.diff(population.cdf(domain.edges))
        for epsilon in (0.5, 1.0, 3.0):
            wave = ab.SquareWave(domain, epsilon)
            rivals = {
                "bits": ab.UnaryEncoding.optimal(domain, epsilon),
                "randomized response": ab.RandomizedResponse(domain, epsilon),
            }
            errors: dict[str, list[float]] = {"chosen": [], "smoothing=1": []}
            errors |= {rival: [] for rival in rivals}
            for seed in range(runs):
                people = population.rvs(n, random_state=seed)
                reports = wave.release(people, seed=seed)
                shares = {
                    "chosen": wave.estimate(reports).p,
                    "smoothing=1": wave.estimate(reports, smoothing=1).p,
                }
                codes = domain.encode(people)
                for rival, channel in rivals.items():
                    sent = channel.release(domain.decode(codes), seed=seed)
                    shares[rival] = channel.estimate(sent, method="norm_sub").p
                for method, p in shares.items():
                    errors[method].append(float(np.abs(p - truth).sum() / 2))
            ours = np.mean(errors["chosen"])
            row = ", ".join(
                f"{method} {np.mean(each):.3f} ({np.mean(each) / ours:.1f}x)"
                for method, each in errors.items()
            )
            print(f"  {name}, epsilon {epsilon:g}: {row}")


def means(n: int) -> None:
    domain = ab.BinnedDomain("x", 0, 1, 64)
    print(f"standard error of the mean of {n:,} numbers at 0.7 of the range")
    for epsilon in (0.5, 1.0, 2.0, 4.0):
        kinds = (ab.SquareWave, ab.Piecewise, ab.Duchi)
        row = ", ".join(
            f"{kind.__name__} {(kind(domain, epsilon).variance(0.7) / n) ** 0.5:.5f}"
            for kind in kinds
        )
        print(f"  epsilon {epsilon:g}: {row}")


def attributes(n: int) -> None:
    print(f"worst-case squared error of one attribute of several, {n:,} people, 10 values each")
    for count in (2, 5, 10):
        domains = [ab.Domain(f"a{i}", range(10)) for i in range(count)]
        for epsilon in (1.0, 4.0):
            sample = ab.Attributes(domains, epsilon).channels["a0"].worst_case_loss(n // count)
            split = ab.Attributes(domains, epsilon, how="split").channels["a0"].worst_case_loss(n)
            print(
                f"  {count} attributes, epsilon {epsilon:g}: split / sample {split / sample:.1f}x"
            )


def main(*, short: bool = False) -> None:
    distributions(40, 2_000 if short else 20_000, 1 if short else 10)
    if not short:
        distributions(256, 20_000, 5)
    means(10_000)
    attributes(10_000)
