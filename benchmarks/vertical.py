"""Samplers of vertical tables: effective draws per second, and growth with the rows.

Peer: the paper's sampler in plain NumPy, on the same table in the same run. All start from one
state of a long collapsed chain, so that burn-in does not count; time is processor time. Goals:
block at least 5 x swap and at least 50 x the plain sampler, in the effective size of the
log-likelihood and of the worst parameter; a sweep linear in the rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from anonbayes.compat import ess
from anonbayes.inference.vertical.chain import VerticalChain
from anonbayes.inference.vertical.group_layout import VerticalLayout
from benchmarks._plain_numpy_sampler import plain_sampler
from benchmarks._vertical_data import load

TABLE = "adult_5692_l4"
Sampler = Callable[[int, int], tuple[np.ndarray, np.ndarray]]


def compiled(
    layout: VerticalLayout, step: str, start: np.ndarray, thin: int, **settings: float
) -> Sampler:
    """Sampler of the package; a draw is `thin` sweeps."""

    def run(seed: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
        chain = VerticalChain(layout, step=step, rng=np.random.default_rng(seed), **settings)
        chain.start_from(start)
        pi, log_likelihood = [], []
        for _ in range(draws):
            for _ in range(thin):
                chain.sweep()
            pi.append(chain.draw_pi())
            log_likelihood.append(chain.log_likelihood)
        return np.array(pi), np.array(log_likelihood)

    return run


def plain(layout: VerticalLayout, proposal: str, start: np.ndarray) -> Sampler:
    """Sampler of the paper, in NumPy."""

    def run(seed: int, draws: int) -> tuple[np.ndarray, np.ndarray]:
        return plain_sampler(layout, proposal=proposal, draws=draws, start=start, seed=seed)

    return run


def effective(layout: VerticalLayout, sampler: Sampler, draws: int) -> dict[str, float]:
    """Effective draws per second over four chains: log-likelihood, worst and median parameter."""
    sampler(0, 2)  # compile
    began = time.process_time()
    chains = [sampler(seed, draws) for seed in range(1, 5)]
    seconds = time.process_time() - began
    pi = np.stack([c[0] for c in chains])
    used = layout.secret_counts > 0
    parts = [p[..., used, :] for p in layout.split(pi)]
    sizes = np.concatenate([ess(p)["x"].to_numpy().ravel() for p in parts])
    likelihood = float(ess(np.stack([c[1] for c in chains]))["x"])
    return {
        "draws/s": 4 * draws / seconds,
        "log-likelihood": likelihood / seconds,
        "worst pi": float(sizes.min()) / seconds,
        "median pi": float(np.median(sizes)) / seconds,
    }


def speed(*, short: bool) -> None:
    layout = load(TABLE).layout
    warm = VerticalChain(layout, step="collapsed", rng=np.random.default_rng(0))
    for _ in range(200 if short else 2000):
        warm.sweep()
    start = warm.assignment.copy()
    scale = 0.03 if short else 1.0
    # Slow mixers get more sweeps per draw, so that the effective sizes can be told from zero.
    plan: dict[str, tuple[Sampler, int]] = {
        "block": (compiled(layout, "block", start, 1), int(2000 * scale)),
        "collapsed": (compiled(layout, "collapsed", start, 1), int(2000 * scale)),
        "sequential": (compiled(layout, "sequential", start, 2), int(1500 * scale)),
        "swap": (compiled(layout, "swap", start, 5), int(1500 * scale)),
        # The paper's sweep: one swap per group.
        "single swap": (compiled(layout, "swap", start, 5, swaps=0.0), int(1500 * scale)),
        "permute": (compiled(layout, "permute", start, 10), int(1500 * scale)),
        "plain swap": (plain(layout, "swap", start), int(300 * scale)),
        "plain permute": (plain(layout, "permute", start), int(300 * scale)),
    }
    print(f"{TABLE}: effective draws per second of processor time (bulk)")
    print(f"{'':15s}{'draws/s':>10s}{'log-lik.':>10s}{'worst pi':>10s}{'median pi':>11s}")
    found = {}
    for name, (sampler, draws) in plan.items():
        found[name] = effective(layout, sampler, draws)
        f = found[name]
        print(
            f"{name:15s}{f['draws/s']:10.1f}{f['log-likelihood']:10.2f}{f['worst pi']:10.2f}"
            f"{f['median pi']:11.1f}",
            flush=True,
        )
    for one, other, goal in (
        ("block", "swap", 5), ("block", "single swap", 5), ("block", "plain swap", 50),
        ("block", "plain permute", 50), ("collapsed", "block", 1),
    ):  # fmt: skip
        ratios = [found[one][k] / found[other][k] for k in ("log-likelihood", "worst pi")]
        print(
            f"{one} / {other}: {ratios[0]:.1f} x log-likelihood, {ratios[1]:.1f} x worst pi"
            f" (goal {goal})"
        )


def repeated(layout: VerticalLayout, times: int) -> VerticalLayout:
    """Return the table, its groups repeated."""
    n = layout.n_rows
    offsets = [layout.offsets[:-1] + t * n for t in range(times)]
    return VerticalLayout(
        np.tile(layout.items, (times, 1)),
        np.tile(layout.secrets, times),
        np.append(np.concatenate(offsets), n * times),
        layout.sizes,
        layout.n_secrets,
    )


def growth(*, short: bool) -> None:
    base = load(TABLE).layout
    print("\nmilliseconds of processor time per sweep, best of a few, against rows")
    print(f"{'rows':>10s}" + "".join(f"{s:>12s}" for s in ("block", "collapsed", "swap")))
    for times in (1, 4, 16) if short else (1, 4, 16, 64):
        layout = repeated(base, times)
        cells = [f"{layout.n_rows:>10,d}"]
        for step in ("block", "collapsed", "swap"):
            chain = VerticalChain(layout, step=step, rng=np.random.default_rng(1))
            best = np.inf
            for _ in range(max(5, 200 // times)):
                began = time.process_time()
                chain.sweep()
                best = min(best, time.process_time() - began)
            cells.append(f"{best * 1e3:12.2f}")
        print("".join(cells), flush=True)


def main(*, short: bool = False) -> None:
    """Print the speed table and the growth table."""
    speed(short=short)
    growth(short=short)


if __name__ == "__main__":
    main()
