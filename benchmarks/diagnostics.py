"""How fast the diagnostics are, and what they say about chains on the Adult tables.

*Speed*: against SciPy's contingency test in a loop (which knows nothing of autocorrelation) and
ArviZ's Monte Carlo errors. *Paper*: the convergence study of Groups, Section VI-D, on
``adult_5692_l4``: Weiß of all rows in five pieces, Geweke of all parameters against five blocks,
block sampler and swap sampler side by side. *Trap*: four chains on ``adult_5692_l6``, whose
posterior has several modes: `diagnose` must fail for the block sampler, must not assess one of its
chains alone, and must pass for the tempered sampler. Paper and trap need the tables in
``../shared/data/anatomy`` and take minutes; ``--short`` leaves them out.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from scipy import stats

import anonbayes as ab
from anonbayes import compat
from anonbayes.diagnostics import GEWEKE_PAPER, DiagnosticReport, summarize_tests
from anonbayes.diagnostics.quantities import two_sided

ANATOMY = Path(__file__).parents[2] / "shared" / "data" / "anatomy"
SETTINGS = {
    "block": {"draws": 1000, "tune": 2000, "thin": 2},
    "swap": {"draws": 1000, "tune": 2000, "thin": 2},
    "tempered": {"draws": 1000, "tune": 3000, "thin": 6},
}


def seconds(function: Callable[[], object]) -> float:
    function()  # compile
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def speed(n_rows: int, n_draws: int) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 6, size=(1, n_draws, n_rows), dtype=np.int8)
    ours = seconds(lambda: ab.weiss(rows))
    some = rows[0, :, :100].T.reshape(100, 5, -1)

    def peer() -> None:
        for series in some:
            table = np.array([np.bincount(piece, minlength=6) for piece in series])
            stats.chi2_contingency(table, correction=False)

    theirs = seconds(peer) * n_rows / 100
    size = f"{n_rows:,} rows x {n_draws:,} draws of 6 categories"
    print(f"weiss, {size}: {ours:.2f} s; SciPy in a loop {theirs:.2f} s: {theirs / ours:.1f}x")

    real = rng.normal(size=(4, 1000, 500))
    ours = seconds(lambda: ab.geweke(real))
    theirs = seconds(lambda: (compat.mcse(real[:, :101]), compat.mcse(real[:, 499:])))
    print(
        f"geweke, 500 parameters x 4 chains x 1,000 draws: {ours:.3f} s; ArviZ's errors of the "
        f"two windows, chains pooled, {theirs:.3f} s: {theirs / ours:.1f}x"
    )


def sample(name: str, step: str) -> ab.Posterior:
    table = ab.read_anatomy(
        ANATOMY / f"{name}_qit.csv",
        ANATOMY / f"{name}_st.csv",
        sensitive="occupation",
        group="group",
        sep=";",
    )
    start = time.perf_counter()
    post = ab.fit(
        table, step=step, keep_cleartext=True, seed=1, progressbar=False, **SETTINGS[step]
    )
    print(f"\n{name}, step={step}: sampled in {time.perf_counter() - start:.0f} s", flush=True)
    return post


def paper() -> None:
    for step in ("block", "swap"):
        post = sample("adult_5692_l4", step)
        within = ab.weiss(post)["p_value"].values
        between = ab.weiss(post, segments="chains")["p_value"].values
        z = np.concatenate([v.values.ravel() for v in ab.geweke(post, **GEWEKE_PAPER).values()])
        print(f"  Weiß, 5 pieces:       {summarize_tests(within)}")
        print(f"  Weiß, between chains: {summarize_tests(between)}")
        print(f"  Geweke, 5 blocks:     {summarize_tests(two_sided(z))}")
        print(f"  beyond 2 s.d.:        {np.nanmean(np.abs(z) > 2):.1%} (4.6% expected)")
        print(ab.diagnose(post).text)


def trap() -> None:
    def judge(what: str, report: DiagnosticReport, expected: str) -> None:
        print(report.text)
        agrees = "as it should be" if report.verdict == expected else f"SHOULD BE {expected}"
        print(f"==> {what}: {report.verdict}, {agrees}\n", flush=True)

    post = sample("adult_5692_l6", "block")
    judge("block sampler", ab.diagnose(post), "failed")
    groups = compat.groups(post.idata)
    for chain in range(post.n_chains):
        alone = {k: groups[k].isel(chain=[chain]) for k in ("posterior", "sample_stats")}
        judge(f"chain {chain} alone", ab.diagnose(compat.make_idata(alone)), "not assessed")
    judge("tempered sampler", ab.diagnose(sample("adult_5692_l6", "tempered")), "passed")


def main(*, short: bool = False) -> None:
    speed(*((2_000, 2_000) if short else (10_000, 10_000)))
    if short:
        return
    if not ANATOMY.is_dir():
        print(f"no tables in {ANATOMY}: paper and trap left out")
        return
    paper()
    trap()


if __name__ == "__main__":
    main()
