"""Do chains agree on a table with many modes? With and without tempering, in a given time.

    python -m benchmarks.vertical_modes --minutes 30            # four tempered chains, two threads
    python -m benchmarks.vertical_modes --minutes 1 --step collapsed

Four chains from dispersed starts advance side by side. Reported are the R-hat of every attacker
belief (an item, a sensitive value of its group), the R-hat of the counts, the mean energy and the
attacker's accuracy of each chain, and the accuracy of two pairs of chains as two independent runs.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from scipy.stats import norm, rankdata

from anonbayes.inference.vertical.chain import VerticalChain
from benchmarks._vertical_data import Anatomy, load


def split_rhat(draws: np.ndarray) -> np.ndarray:
    """Rank-normalised split R-hat (bulk and folded) of ``draws[chain, draw, quantity]``."""
    half = draws.shape[1] // 2
    parts = np.concatenate([draws[:, :half], draws[:, -half:]])

    def plain(x: np.ndarray) -> np.ndarray:
        within = x.var(axis=1, ddof=1).mean(axis=0)
        between = x.mean(axis=1).var(axis=0, ddof=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.sqrt((half - 1) / half + between / within)
        return np.where((within == 0) & (between == 0), 1.0, ratio)

    def ranked(x: np.ndarray) -> np.ndarray:
        flat = x.reshape(-1, x.shape[-1])
        score = norm.ppf((rankdata(flat, axis=0) - 0.375) / (len(flat) + 0.25))
        return plain(score.reshape(x.shape))

    folded = np.abs(parts - np.median(parts, axis=(0, 1)))
    return np.maximum(ranked(parts), ranked(folded))


class Recorder:
    """One chain with its thinned beliefs, counts and energies."""

    def __init__(self, data: Anatomy, step: str, seed: np.random.SeedSequence, tune: int, **ladder):
        settings = {"ladder": ladder} if step == "tempered" else {}
        self.chain = VerticalChain(
            data.layout, step=step, rng=np.random.default_rng(seed), **settings
        )
        self.tune = tune
        self.beliefs: list[np.ndarray] = []
        self.counts: list[np.ndarray] = []
        self.energy: list[float] = []
        self.cpu = 0.0

    def advance(self, sweeps: int, thin: int) -> None:
        began = time.thread_time()
        chain = self.chain
        for _ in range(sweeps):
            tuning = chain.sweeps < self.tune
            before = chain.owner.copy() if not tuning and (chain.sweeps + 1) % thin == 0 else None
            chain.sweep(tune=tuning, keep_owner=not tuning)
            if before is not None:
                self.beliefs.append((chain.owner - before).astype(np.float32))
                self.counts.append(chain.counts.astype(np.float32))
                self.energy.append(chain.energy)
        self.cpu += time.thread_time() - began


def report(data: Anatomy, chains: list[Recorder], seconds: float, keep: int = 400) -> None:
    n = min(len(c.energy) for c in chains)
    if n < 8:
        return
    every = max(1, n // keep)
    beliefs = np.stack([np.array(c.beliefs[:n:every]) for c in chains])
    counts = np.stack([np.array(c.counts[:n:every]) for c in chains])
    r_belief, r_count = split_rhat(beliefs), split_rhat(counts)
    own = [c.chain.owner / max(c.chain.owner_draws, 1) for c in chains]
    half = len(own) // 2
    runs = [np.mean(own[:half], axis=0), np.mean(own[half:], axis=0)]
    cpu = sum(c.cpu for c in chains)
    print(
        f"-- {seconds / 60:.1f} min wall, {cpu / 60:.1f} min processor, "
        f"{chains[0].chain.sweeps} sweeps per chain, {beliefs.shape[1]} draws compared"
    )
    for name, r in (("beliefs", r_belief), ("counts", r_count)):
        print(
            f"   R-hat of {len(r)} {name}: median {np.median(r):.3f}, 99 % {np.quantile(r, 0.99):.3f},"
            f" largest {r.max():.3f}, below 1.05: {np.mean(r < 1.05):.2%}, below 1.01:"
            f" {np.mean(r < 1.01):.2%}"
        )
    print("   mean energy ", " ".join(f"{np.mean(c.energy[:n]):.0f}" for c in chains))
    print("   attacker accuracy by chain ", " ".join(f"{data.accuracy(o):.4f}" for o in own))
    print(
        f"   two runs of {half} chains: accuracy {data.accuracy(runs[0]):.4f} and"
        f" {data.accuracy(runs[1]):.4f}; mean |difference of beliefs|"
        f" {np.abs(data.beliefs(runs[0]) - data.beliefs(runs[1])).mean():.5f}"
    )
    ladders = [c.chain.ladder for c in chains if c.chain.ladder is not None]
    if ladders:
        print(
            "   ladders: temperatures", *(len(x.power) for x in ladders), "| barrier",
            *(f"{x.exchanges.barrier:.1f}" for x in ladders), "| round trips",
            *(x.exchanges.round_trips for x in ladders),
        )  # fmt: skip
    print(flush=True)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--table", default="adult_5692_l6")
    parser.add_argument("--step", default="tempered")
    parser.add_argument("--minutes", type=float, default=30.0, help="processor minutes per thread")
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tune", type=int, default=1000)
    parser.add_argument("--thin", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--hottest", type=float, default=0.5)
    parser.add_argument("--temperatures", type=int, default=None)
    parser.add_argument("--reports", type=int, default=6)
    args = parser.parse_args(argv)
    data = load(args.table)
    seeds = np.random.SeedSequence(args.seed).spawn(args.chains)
    chains = [
        Recorder(
            data, args.step, s, args.tune, hottest=args.hottest, temperatures=args.temperatures
        )
        for s in seeds
    ]
    # Time is that of the processors, so that a busy machine does not shorten the experiment.
    budget = 60 * args.minutes * args.threads
    marks = list(np.linspace(0, budget, args.reports + 1)[1:])
    began = time.perf_counter()
    with ThreadPoolExecutor(args.threads) as pool:
        while marks:
            list(pool.map(lambda c: c.advance(50, args.thin), chains))
            if sum(c.cpu for c in chains) >= marks[0]:
                marks = [m for m in marks if m > sum(c.cpu for c in chains)]
                report(data, chains, time.perf_counter() - began)


if __name__ == "__main__":
    main()
