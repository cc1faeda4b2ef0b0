"""How fast the diagnostics are, and what they say about chains on the Adult tables.

    python -m benchmarks.diagnostics speed
    python -m benchmarks.diagnostics paper --data ../shared/data/anatomy
    python -m benchmarks.diagnostics trap --data ../shared/data/anatomy

``speed`` compares with SciPy's contingency test in a loop (which knows nothing of autocorrelation)
and with ArviZ's Monte Carlo errors. ``paper`` repeats the convergence study of Groups, Section
VI-D on ``adult_5692_l4``: Weiß of all rows in five pieces, Geweke of all parameters against five
blocks, block sampler and swap sampler side by side. ``trap`` runs four chains on ``adult_5692_l6``,
whose posterior has several modes: `diagnose` must fail for the block sampler, must not assess one
of its chains alone, and must pass for the tempered sampler.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import anonbayes as ab
from anonbayes import compat
from anonbayes.diagnostics import GEWEKE_PAPER, summarize_tests
from anonbayes.diagnostics.multiple import two_sided


def seconds(function: Callable[[], object]) -> float:
    function()  # compile
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def speed(args: argparse.Namespace) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 6, size=(1, args.n_draws, args.n_rows), dtype=np.int8)
    ours = seconds(lambda: ab.weiss(rows))
    some = rows[0, :, :100].T.reshape(100, 5, -1)

    def peer() -> None:
        for series in some:
            table = np.array([np.bincount(piece, minlength=6) for piece in series])
            stats.chi2_contingency(table, correction=False)

    theirs = seconds(peer) * args.n_rows / 100
    size = f"{args.n_rows:,} rows x {args.n_draws:,} draws of 6 categories"
    print(f"weiss, {size}: {ours:.2f} s; SciPy in a loop {theirs:.2f} s: {theirs / ours:.1f}x")

    real = rng.normal(size=(4, 1000, 500))
    ours = seconds(lambda: ab.geweke(real))
    theirs = seconds(lambda: (compat.mcse(real[:, :101]), compat.mcse(real[:, 499:])))
    print(
        f"geweke, 500 parameters x 4 chains x 1,000 draws: {ours:.3f} s; ArviZ's errors of the "
        f"two windows, chains pooled, {theirs:.3f} s: {theirs / ours:.1f}x"
    )


def sample(args: argparse.Namespace, name: str, step: str) -> Any:
    folder = Path(args.data)
    table = ab.read_anatomy(
        folder / f"{name}_qit.csv",
        folder / f"{name}_st.csv",
        sensitive="occupation",
        group="group",
        sep=";",
    )
    start = time.perf_counter()
    post = ab.fit(
        table,
        method="gibbs",
        step=step,
        draws=args.draws,
        tune=args.tune,
        thin=args.thin,
        chains=args.chains,
        keep_cleartext=True,
        seed=args.seed,
        progressbar=False,
    )
    print(f"\n{name}, step={step}: sampled in {time.perf_counter() - start:.0f} s")
    return post


def paper(args: argparse.Namespace) -> None:
    for step in ("block", "swap"):
        post = sample(args, "adult_5692_l4", step)
        within = ab.weiss(post.idata)["p_value"]
        between = ab.weiss(post.idata, segments="chains")["p_value"]
        z = ab.geweke(post.idata, **GEWEKE_PAPER)
        scores = np.concatenate([v.values.ravel() for v in z.data_vars.values()])
        print(f"  Weiß, 5 pieces:       {summarize_tests(within.values)}")
        print(f"  Weiß, between chains: {summarize_tests(between.values)}")
        print(f"  Geweke, 5 blocks:     {summarize_tests(two_sided(scores))}")
        print(f"    beyond 2 s.d.:      {np.nanmean(np.abs(scores) > 2):.1%} (4.6% expected)")
        print(ab.diagnose(post).text)


def trap(args: argparse.Namespace) -> None:
    wrong = []
    post = sample(args, "adult_5692_l6", "block")
    report = ab.diagnose(post)
    print(report.text)
    if report.verdict != "failed":
        wrong.append(f"block sampler: {report.verdict}, should have failed")
    for chain in range(args.chains):
        alone = compat.make_idata(
            {
                name: group.isel(chain=[chain]) if "chain" in group.dims else group
                for name, group in compat.groups(post.idata).items()
            }
        )
        report = ab.diagnose(alone)
        print(f"\nchain {chain} alone:\n{report.text}")
        if report.verdict != "not assessed":
            wrong.append(f"chain {chain} alone: {report.verdict}, should be not assessed")
    report = ab.diagnose(sample(args, "adult_5692_l6", "tempered"))
    print(report.text)
    if not report.passed:
        wrong.append(f"tempered sampler: {report.verdict}, should have passed")
    print("\n" + ("as it should be" if not wrong else "\n".join(wrong)))
    sys.exit(bool(wrong))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["speed", "paper", "trap"], nargs="?", default="speed")
    parser.add_argument("--data", default="../shared/data/anatomy", help="folder of the tables")
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--tune", type=int, default=2000)
    parser.add_argument("--thin", type=int, default=2)
    parser.add_argument("--chains", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--n-rows", type=int, default=10_000)
    parser.add_argument("--n-draws", type=int, default=10_000)
    args = parser.parse_args()
    {"speed": speed, "paper": paper, "trap": trap}[args.part](args)


if __name__ == "__main__":
    main()
