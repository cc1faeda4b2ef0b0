"""How fast the diagnostics are, what they see, and what they say about chains on the Adult tables.

*Power and false alarms*: chains made on purpose, some with a fault in one chain of four, others
good; the share of reports that fail or call for caution. The tables in "The mathematics" are these.

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
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy import stats

import anonbayes as ab
from anonbayes import compat
from anonbayes.diagnostics import GEWEKE_PAPER, DiagnosticReport, summarize_tests

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


@dataclass(frozen=True)
class Real:
    """Autoregressive quantities with a correlation between them, and a fault in the first chain."""

    rho: float = 0.0
    quantities: int = 20
    correlation: float = 0.0
    chains: int = 4
    draws: int = 1000
    shift: float = 0.0  # in s.d.
    spread: float = 1.0
    trend: float = 0.0  # from the first draw to the last, in s.d.
    start: float = 0.0  # of the first draw, in s.d.; it fades over a twentieth of the chain
    of: int | None = None  # quantities with the fault

    def __call__(self, rng: np.random.Generator) -> np.ndarray:
        """Draw (chain, draw, quantity)."""
        shape = (self.chains, self.draws, self.quantities)
        common = rng.normal(size=(*shape[:2], 1))
        x = np.sqrt(1 - self.correlation) * rng.normal(size=shape)
        x += np.sqrt(self.correlation) * common
        for t in range(1, self.draws):
            x[:, t] = self.rho * x[:, t - 1] + np.sqrt(1 - self.rho**2) * x[:, t]
        time = np.linspace(0.0, 1.0, self.draws)
        moved = self.shift + self.trend * time + self.start * np.exp(-20 * time)
        x[0, :, : self.of] = x[0, :, : self.of] * self.spread + moved[:, None]
        return x


@dataclass(frozen=True)
class Rows:
    """Rows that keep their value with a probability; the first chain has other shares in some."""

    stay: float = 0.0
    rows: int = 200
    values: int = 2
    chains: int = 4
    draws: int = 1000
    share: float | None = None  # of the first value in the first chain
    of: int = 20  # rows with the fault

    def __call__(self, rng: np.random.Generator) -> np.ndarray:
        """Draw (chain, draw, row)."""
        shape = (self.chains, self.draws, self.rows)
        fresh = rng.integers(0, self.values, size=shape, dtype=np.int8)
        if self.share is not None:
            fresh[0, :, : self.of] = rng.random((self.draws, self.of)) > self.share
        new = rng.random(shape) >= self.stay
        new[:, 0] = True
        source = np.maximum.accumulate(np.where(new, np.arange(self.draws)[:, None], 0), axis=1)
        return np.take_along_axis(fresh, source, axis=1)


FAULTS: dict[str, Chains] = {
    "off by 1/4 s.d. in all 20": Real(shift=0.25),
    "off by 1/2 s.d. in all 20": Real(shift=0.5),
    "off by 1/2 s.d. in all 20, autocorrelation 0.5": Real(0.5, shift=0.5),
    "off by 1/2 s.d. in all 20, autocorrelation 0.9": Real(0.9, shift=0.5),
    "off by 1/2 s.d. in one of 20": Real(shift=0.5, of=1),
    "twice as wide in all 20": Real(spread=2.0),
    "twice as wide, autocorrelation 0.9": Real(0.9, spread=2.0),
    "starts 2 s.d. off and comes back": Real(start=2.0),
    "starts 2 s.d. off, autocorrelation 0.5": Real(0.5, start=2.0),
    "drifts by 1 s.d.": Real(trend=1.0),
    "drifts by 1 s.d., autocorrelation 0.5": Real(0.5, trend=1.0),
    "0.6 for 0.5 in 20 of 200 rows": Rows(share=0.6),
    "0.8 for 0.5 in 20 of 200 rows": Rows(share=0.8),
    "0.8 for 0.5, rows stay with probability 0.5": Rows(0.5, share=0.8),
    "0.8 for 0.5, rows stay with probability 0.9": Rows(0.9, share=0.8),
    "0.8 for 0.5 in 1 of 200 rows": Rows(share=0.8, of=1),
}
"""What is wrong with one of four chains of 1,000 draws."""

KINDS: dict[str, Real | Rows] = {
    "1 quantity": Real(quantities=1),
    "5 quantities, correlation 0.95": Real(quantities=5, correlation=0.95),
    "20 quantities": Real(),
    "20 quantities, correlation 0.95": Real(correlation=0.95),
    "200 quantities": Real(quantities=200),
    "200 rows of 2 values": Rows(),
    "200 rows of 5 values": Rows(values=5),
    "5 rows of 2 values": Rows(rows=5),
}
FEW_KINDS = ("5 quantities, correlation 0.95", "20 quantities", "200 rows of 2 values")
SIZES = ((2, 1000), (8, 1000), (4, 200), (4, 5000))
"""Other numbers of chains and draws, at which some kinds of good chains are looked at too."""


def _shares(make: Chains, repeats: int) -> str:
    """Shares of reports that fail, that pass with caution, and that pass, with standard errors."""
    rng = np.random.default_rng(7)
    told = []
    for _ in range(repeats):
        report = ab.diagnose(make(rng))
        alarmed = any(check.status == "caution" for check in report.checks)
        told.append((not report.passed, report.passed and alarmed, report.passed and not alarmed))
    cells = []
    for share in np.mean(told, axis=0):
        # Where no report has it, the error is that of one in all of them.
        likely = np.clip(share, 1 / repeats, 1 - 1 / repeats) if repeats > 1 else 0.5
        cells.append(f"{share:.0%} ± {np.sqrt(likely * (1 - likely) / repeats):.1%}")
    return " | ".join(cells)


def power(repeats: int) -> None:
    print(f"\none of 4 chains x 1,000 draws is wrong, {repeats} times each: share of reports")
    print("| the chain | failed | passed, with caution | passed |\n|---|---|---|---|")
    for what, make in FAULTS.items():
        print(f"| {what} | {_shares(make, repeats)} |", flush=True)


def false_alarms(repeats: int) -> None:
    """Good chains; 200 quantities a quarter as often."""
    print(f"\ngood chains, {repeats} times each: share of reports")
    print("| chains | failed | passed, with caution | passed |\n|---|---|---|---|")
    usual = [(4, 1000, memory, what) for memory in (0.0, 0.5, 0.9) for what in KINDS]
    sizes = [(*size, memory, what) for size in SIZES for memory in (0.5, 0.9) for what in FEW_KINDS]
    for chains, draws, memory, what in [*usual, *sizes]:
        kind = KINDS[what]
        if isinstance(kind, Real):
            make: Chains = replace(kind, chains=chains, draws=draws, rho=memory)
            large, how = kind.quantities == 200, "autocorrelation"
        else:
            make = replace(kind, chains=chains, draws=draws, stay=memory)
            large, how = False, "stay with probability"
        told = _shares(make, max(repeats // 4, 1) if large else repeats)
        print(f"| {chains} x {draws:,}, {what}, {how} {memory:g} | {told} |", flush=True)


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
        print(f"  Geweke, 5 blocks:     {summarize_tests(2 * stats.norm.sf(np.abs(z)))}")
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
        power(1)
        return
    power(200)
    false_alarms(200)
    if not ANATOMY.is_dir():
        print(f"no tables in {ANATOMY}: paper and trap left out")
        return
    paper()
    trap()


if __name__ == "__main__":
    main()
