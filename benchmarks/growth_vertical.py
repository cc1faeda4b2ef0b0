"""Growth with the rows of an Anatomy table, 10^4 to 10^7: time and peak memory of each stage.

Every size runs in a process of its own, which makes the table up, builds the released table, makes
one sweep, fits a few draws and assesses the release. Memory is the largest resident size of a stage
beyond what the imports take. Goals: time and memory of every stage grow linearly (slope of the
logarithms at most 1.1 over the sizes at which the rows outweigh what does not depend on them).
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd

OUT = Path(__file__).parent / "out"
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
SHORT = (10_000, 100_000)
STAGES = ("build", "sweep", "fit", "assess")
GOAL = 1.1
GROUP, VALUES = 4, 14
WIDTHS = {"age": 74, "education": 16, "marital": 7, "race": 5, "sex": 2}
DRAWS, TUNE = 4, 4


def made_up(n: int, seed: int = 1) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Quasi-identifiers, sensitive values and cleartext: groups of four with distinct secrets."""
    rng = np.random.default_rng(seed)
    groups = n // GROUP
    # Four distinct values per group: a start, and steps that do not come round.
    secret = rng.integers(VALUES, size=(groups, 1)) + np.arange(GROUP) * 3
    secret = (secret % VALUES).astype(np.int8).ravel()
    names = np.array([f"job {i}" for i in range(VALUES)], dtype=object)
    people = pd.DataFrame()
    for name, width in WIDTHS.items():
        # Each secret prefers its own part of the attribute's values.
        code = (rng.binomial(width - 1, 0.2 + 0.04 * secret) + rng.integers(2, size=n)) % width
        labels = np.array([f"{name} {i}" for i in range(width)], dtype=object)
        people[name] = pd.Categorical.from_codes(code, categories=labels)
    number = np.repeat(np.arange(groups, dtype=np.int32), GROUP)
    st = pd.DataFrame({"group": number, "job": pd.Categorical.from_codes(secret, names)})
    shuffled = rng.permuted(np.arange(n).reshape(groups, GROUP), axis=1).ravel()
    qit = people.take(shuffled).reset_index(drop=True).assign(group=number)
    return qit, st, people.assign(job=st["job"])


@contextmanager
def measured(found: dict[str, dict[str, float]], stage: str) -> Iterator[None]:
    """Time of a stage, and its largest resident size in bytes."""
    Path("/proc/self/clear_refs").write_text("5")  # forget the largest size so far
    began = time.perf_counter(), time.process_time()
    yield
    found[stage] = {
        "seconds": time.perf_counter() - began[0],
        "processor": time.process_time() - began[1],
        "bytes": resident("VmHWM"),
    }


def resident(line: str) -> float:
    """A size of this process in bytes, from the system."""
    text = Path("/proc/self/status").read_text().split(f"{line}:")[1]
    return float(text.split()[0]) * 1024


def child(n: int) -> dict[str, dict[str, float]]:
    """All stages for one size."""
    import anonbayes as ab
    from anonbayes.inference.dirichlet import resolve_prior
    from anonbayes.inference.vertical.group_engine import VerticalEngine

    def build(size: int) -> tuple[ab.ReleasedTable, pd.DataFrame]:
        qit, st, people = made_up(size)
        return ab.ReleasedTable.vertical(qit, st, group="group", sensitive="job"), people

    settings = {"draws": DRAWS, "tune": TUNE, "chains": 1, "seed": 1, "progressbar": False}
    small, people = build(400)
    ab.fit(small, **settings).assess(people)  # compiles, and imports all there is
    found: dict[str, dict[str, float]] = {"base": {"bytes": resident("VmRSS")}}
    qit, st, people = made_up(n)
    with measured(found, "build"):
        table = ab.ReleasedTable.vertical(qit, st, group="group", sensitive="job")
    del qit, st
    engine = VerticalEngine(table, resolve_prior(table, alpha=1.0, beta=1.0), step="collapsed")
    live = engine.start([np.random.default_rng(1)])
    live.chain.sweep()
    with measured(found, "sweep"):
        live.chain.sweep()
    del engine, live
    with measured(found, "fit"):
        post = ab.fit(table, step="collapsed", **settings)
    with measured(found, "assess"):
        post.assess(people)
    return found


def run(n: int) -> dict[str, dict[str, float]]:
    """Measure one size in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.growth_vertical", str(n)],
        capture_output=True, text=True, cwd=Path(__file__).parents[1],
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{n:,} rows: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def slope(sizes: list[int], values: list[float]) -> float:
    """Exponent of growth between the two largest sizes."""
    return float(np.diff(np.log(values[-2:]))[0] / np.diff(np.log(sizes[-2:]))[0])


def main(*, short: bool = False) -> None:
    """Print the table, the slopes, and save the plot."""
    sizes = list(SHORT if short else SIZES)
    print("processor seconds / peak bytes per row beyond the imports")
    print(f"{'rows':>12s}" + "".join(f"{stage:>18s}" for stage in STAGES), flush=True)
    found = {}
    for n in sizes:
        found[n] = run(n)
        base = found[n]["base"]["bytes"]
        cells = [
            f"{found[n][s]['processor']:9.3f} {(found[n][s]['bytes'] - base) / n:8.0f}"
            for s in STAGES
        ]
        print(f"{n:>12,d}" + "".join(cells), flush=True)
    for stage in STAGES:
        seconds = slope(sizes, [found[n][stage]["processor"] for n in sizes])
        size = slope(sizes, [found[n][stage]["bytes"] for n in sizes])
        verdict = "kept" if max(seconds, size) <= GOAL else "missed"
        print(f"{stage}: time grows with exponent {seconds:.2f}, memory with {size:.2f}"
              f" (goal {GOAL}: {verdict})")  # fmt: skip
    plot(sizes, found)


def plot(sizes: list[int], found: dict[int, dict[str, dict[str, float]]]) -> None:
    """Save the curves, on logarithmic scales, beside lines of slope 1."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots(1, 2)
    for ax, key, label, unit in (
        (axes[0], "processor", "processor seconds", 1.0),
        (axes[1], "bytes", "peak memory, MB", 1e-6),
    ):
        for stage in STAGES:
            values = [found[n][stage][key] * unit for n in sizes]
            ax.loglog(sizes, values, "o-", label=stage)
        ax.set(xlabel="rows", ylabel=label)
        line = values[-1] / sizes[-1] * np.array(sizes)
        ax.loglog(sizes, line, ":", color="gray", label="slope 1")
        ax.legend(frameon=False)
    OUT.mkdir(exist_ok=True)
    figure.savefig(OUT / "growth_vertical.png", dpi=120)
    print(OUT / "growth_vertical.png")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(child(int(sys.argv[1]))))
    else:
        main()
