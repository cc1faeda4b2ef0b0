"""How fast the diagnostics are, what they see, and what they say about chains on the Adult tables.

*Power*: chains made on purpose, good ones and ones with a fault in one chain of four; the share of
reports that fail or call for caution. The table in "The mathematics" is this one.

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
Chains = Callable[[np.random.Generator], np.ndarray]
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


def _slow(rng: np.random.Generator, shape: tuple[int, int, int], rho: float) -> np.ndarray:
    x = rng.normal(size=shape)
    for t in range(1, shape[1]):
        x[:, t] = rho * x[:, t - 1] + np.sqrt(1 - rho**2) * x[:, t]
    return x


def _real(rho: float, *, shift: float = 0.0, spread: float = 1.0, of: int = 20) -> Chains:
    def make(rng: np.random.Generator) -> np.ndarray:
        x = _slow(rng, (4, 1000, 20), rho)
        x[0, :, :of] = x[0, :, :of] * spread + shift
        return x

    return make


def _rows(stay: float, *, share: float = 0.5, of: int = 20) -> Chains:
    def make(rng: np.random.Generator) -> np.ndarray:
        limit = np.full((4, 1, 200), 0.5)
        limit[0, :, :of] = share
        shape = (4, 1000, 200)
        fresh = (rng.random(shape) < limit).astype("int8")
        new = rng.random(shape) >= stay
        new[:, 0] = True
        source = np.maximum.accumulate(np.where(new, np.arange(1000)[:, None], 0), axis=1)
        return np.take_along_axis(fresh, source, axis=1)

    return make


CASES: dict[str, Chains] = {
    "good, 20 quantities, independent draws": _real(0.0),
    "good, autocorrelation 0.5": _real(0.5),
    "good, autocorrelation 0.9": _real(0.9),
    "one chain off by 1/4 s.d. in all 20": _real(0.0, shift=0.25),
    "one chain off by 1/2 s.d. in all 20": _real(0.0, shift=0.5),
    "the same, autocorrelation 0.5": _real(0.5, shift=0.5),
    "the same, autocorrelation 0.9": _real(0.9, shift=0.5),
    "one chain off by 1/2 s.d. in one of 20": _real(0.0, shift=0.5, of=1),
    "one chain twice as wide in all 20": _real(0.0, spread=2.0),
    "twice as wide, autocorrelation 0.9": _real(0.9, spread=2.0),
    "good, 200 rows of two values": _rows(0.0),
    "good, rows stay with probability 0.9": _rows(0.9),
    "one chain 0.6 for 0.5 in 20 of 200 rows": _rows(0.0, share=0.6),
    "one chain 0.8 for 0.5 in 20 of 200 rows": _rows(0.0, share=0.8),
    "the same, rows stay with probability 0.5": _rows(0.5, share=0.8),
    "one chain 0.8 for 0.5 in 1 of 200 rows": _rows(0.0, share=0.8, of=1),
}


def power(repeats: int) -> None:
    print(f"\n4 chains x 1,000 draws, {repeats} times each: share of reports")
    print("| chains | failed | passed, with caution | passed |\n|---|---|---|---|")
    for what, make in CASES.items():
        rng = np.random.default_rng(7)
        told = []
        for _ in range(repeats):
            report = ab.diagnose(make(rng))
            alarmed = any(check.status == "caution" for check in report.checks)
            told.append(
                (not report.passed, report.passed and alarmed, report.passed and not alarmed)
            )
        print(
            f"| {what} | {' | '.join(f'{share:.0%}' for share in np.mean(told, axis=0))} |",
            flush=True,
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
    power(1 if short else 200)
    if short:
        return
    if not ANATOMY.is_dir():
        print(f"no tables in {ANATOMY}: paper and trap left out")
        return
    paper()
    trap()


if __name__ == "__main__":
    main()
