"""Soak: fit, assess, report, diagnose and files on small tables in a loop, watching for growth.

After a warm-up, resident memory, open files, threads, entries of the temporary directory and open
figures must not grow with the rounds. Memory is judged by the slope of a robust line through the
rounds (Theil-Sen, whose 95% interval comes with it): the interval must reach down to `LIMIT` bytes
per round, and the counts must end where they began. Twenty-four hours:
``python -m benchmarks.soak --hours 24``.
"""

from __future__ import annotations

import argparse
import gc
import os
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import theilslopes

SHORT_SECONDS = 8.0
LIMIT = 2_000.0
"""Bytes per round that count as none: 24 hours at a round per second would make 170 MB of them."""
WARM = 0.3
"""Share of the rounds after which caches are full."""


@dataclass
class Watch:
    """What the process holds after each round."""

    memory: list[float] = field(default_factory=list)
    counts: list[dict[str, int]] = field(default_factory=list)

    def look(self, scratch: Path) -> None:
        """Add a line."""
        from matplotlib import pyplot as plt

        gc.collect()
        text = Path("/proc/self/statm").read_text().split()
        self.memory.append(float(text[1]) * os.sysconf("SC_PAGE_SIZE"))
        self.counts.append(
            {
                "open files": len(os.listdir("/proc/self/fd")),
                "threads": threading.active_count(),
                "temporary files": len(list(scratch.rglob("*"))),
                "figures": len(plt.get_fignums()),
            }
        )

    def slope(self) -> tuple[float, float, float]:
        """Bytes per round after the warm-up, with the ends of the 95% interval."""
        kept = np.array(self.memory[int(WARM * len(self.memory)) :])
        found = theilslopes(kept, np.arange(len(kept)), alpha=0.95)
        return float(found[0]), float(found[2]), float(found[3])

    def grown(self) -> dict[str, tuple[int, int]]:
        """Counts that are larger at the end than after the warm-up."""
        before = self.counts[int(WARM * len(self.counts))]
        after = self.counts[-1]
        return {k: (before[k], after[k]) for k in before if after[k] > before[k]}


def table(kind: str, rng: np.random.Generator):  # type: ignore[no-untyped-def]
    """A small table that was never seen before, and its cleartext."""
    import anonbayes as ab

    n = 48
    people = pd.DataFrame(
        {
            "age": rng.integers(20, 40, n).astype(str),
            "sex": rng.choice(["f", "m"], n),
            "ill": rng.choice(["flu", "cold", "asthma"], n),
        }
    )
    if kind == "horizontal":
        decade = people["age"].str[0]
        released = people.assign(age=decade + "0-" + decade + "9")
        crossing = rng.random(n) < 0.3
        released.loc[crossing & (people["age"].astype(int) < 35), "age"] = "25-34"
        released.loc[people["age"].astype(int) < 25, "age"] = "20-29"
        released.loc[people["age"].astype(int) >= 35, "age"] = "30-39"
        domains = {"age": range(20, 40), "sex": ["f", "m"]}
        return ab.ReleasedTable.horizontal(released, "ill", domains=domains), people
    group = np.repeat(np.arange(n // 3), 3)
    qit, st = people[["age", "sex"]].assign(g=group), people[["ill"]].assign(g=group)
    return ab.ReleasedTable.vertical(qit, st, group="g", sensitive="ill"), people


def one_round(number: int, scratch: Path) -> None:
    """Everything a user does, on a table of either kind, with files written and read."""
    import anonbayes as ab
    from anonbayes.io.files import save_figure

    rng = np.random.default_rng(number)
    released, people = table(("horizontal", "vertical")[number % 2], rng)
    run = scratch / "run"
    settings = {"draws": 60, "tune": 30, "chains": 2, "seed": number, "progressbar": False}
    post = ab.fit(released, resume=run, **settings)
    for file in sorted(run.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    run.rmdir()
    file = post.to_netcdf(scratch / "post.nc")
    back = ab.Posterior.from_netcdf(file)
    risk = back.assess(people)
    judged = ab.diagnose(back)
    if number % 3 == 0:  # takes longer than all the rest
        ab.report(back, risk, scratch / "report.html", diagnostics=judged)
    risk.to_json(scratch / "risk.json", rows=True)
    save_figure(scratch / "plot.png", risk.plot_beliefs().figure)


def soak(seconds: float, *, least: int = 12) -> Watch:
    """Go round for so many seconds, and at least so many times."""
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        before, tempfile.tempdir = tempfile.tempdir, folder
        try:
            end = time.monotonic() + seconds
            while time.monotonic() < end or len(watch.memory) < least:
                one_round(len(watch.memory), Path(folder))
                watch.look(Path(folder))
        finally:
            tempfile.tempdir = before
    return watch


def main(*, short: bool = False, seconds: float | None = None) -> None:
    """Print how memory and counts went."""
    if seconds is None:
        seconds = SHORT_SECONDS if short else 24 * 3600.0
    watch = soak(seconds)
    memory = np.array(watch.memory) / 1e6
    marks = np.unique(np.linspace(0, len(memory) - 1, 9).astype(int))
    print(f"{'round':>8s}{'memory, MB':>12s}" + "".join(f"{k:>17s}" for k in watch.counts[0]))
    for i in marks:
        line = "".join(f"{v:>17d}" for v in watch.counts[i].values())
        print(f"{i:>8d}{memory[i]:>12.1f}{line}")
    middle, low, high = watch.slope()
    print(
        f"memory after the warm-up: {middle:+,.0f} bytes per round, 95% interval "
        f"[{low:+,.0f}, {high:+,.0f}]; no growth within {LIMIT:,.0f}: "
        f"{'kept' if low <= LIMIT else 'MISSED'}"
    )
    grown = watch.grown()
    print(f"counts that grew: {grown if grown else 'none'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak")
    parser.add_argument("--hours", type=float, default=24.0)
    main(seconds=parser.parse_args().hours * 3600)
