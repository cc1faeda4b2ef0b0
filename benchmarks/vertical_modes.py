"""Do chains agree on a table with many modes? With and without tempering, in a given time.

    python -m benchmarks vertical_modes                         # 5 + 25 minutes on two cores
    python -m benchmarks vertical_modes --short                 # ten seconds
    python -m benchmarks.vertical_modes --minutes 10 --step collapsed --seed 2

Four chains from dispersed starts advance side by side. Reported are the R-hat of every attacker
belief (an item, a sensitive value of its group), the R-hat of the counts, the mean energy and the
attacker's accuracy of each chain, and the accuracy of two pairs of chains as two independent runs.
Goal: at least 99 % of the beliefs below 1.05, and the two runs within 0.005 in accuracy.
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
        """Move on, and keep every `thin`-th state after the warm-up."""
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
            f"   R-hat of {len(r)} {name}: median {np.median(r):.3f}, 99 %"
            f" {np.quantile(r, 0.99):.3f}, largest {r.max():.3f}, below 1.05:"
            f" {np.mean(r < 1.05):.2%}, below 1.01: {np.mean(r < 1.01):.2%}"
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


def compare(
    *,
    table: str = "adult_5692_l6",
    step: str = "tempered",
    minutes: float = 30.0,
    chains: int = 4,
    threads: int = 2,
    tune: int = 800,
    thin: int = 40,
    seed: int = 1,
    hottest: float = 0.5,
    temperatures: int | None = None,
    reports: int = 5,
) -> None:
    """Run chains side by side for `minutes` of each thread's processor time, and report."""
    data = load(table)
    running = [
        Recorder(data, step, s, tune, hottest=hottest, temperatures=temperatures)
        for s in np.random.SeedSequence(seed).spawn(chains)
    ]
    print(f"{table}, {chains} chains, {step}, {minutes:g} minutes on {threads} threads")
    budget = 60 * minutes * threads
    marks = list(np.linspace(0, budget, reports + 1)[1:])
    began = time.perf_counter()
    with ThreadPoolExecutor(threads) as pool:
        while marks:
            list(pool.map(lambda c: c.advance(20, thin), running))
            # Processor time, so that a busy machine does not shorten the experiment.
            spent = sum(c.cpu for c in running)
            if spent >= marks[0]:
                marks = [m for m in marks if m > spent]
                report(data, running, time.perf_counter() - began)


def main(*, short: bool = False) -> None:
    """Compare chains without and with tempering."""
    if short:
        compare(step="collapsed", minutes=0.02, tune=100, thin=5, reports=1)
        compare(minutes=0.05, tune=15, thin=2, reports=1)
    else:
        compare(step="collapsed", minutes=5, thin=5, reports=1)
        compare(minutes=25)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, default in (compare.__kwdefaults__ or {}).items():
        kind = int if name == "temperatures" else type(default)
        parser.add_argument(f"--{name}", default=default, type=kind, help=f"default {default}")
    compare(**vars(parser.parse_args()))
