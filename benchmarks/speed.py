"""How fast it is: time and memory of every stage as one size after the other grows.

Each line is a table of its own in a process of its own: made up, built, fitted, assessed, reported.
Seconds are those of the processor, so other work on the machine stretches them little; memory is
the largest resident size of a stage beyond the imports. What is measured is kept in `speed.json`,
from which ``docs/speed.md`` is written (`page`).
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
KEPT, PAGE = HERE / "speed.json", HERE.parent / "docs" / "speed.md"
STAGES = ("build", "fit", "assess", "report")
USUAL = {"rows": 10_000, "attributes": 5, "secrets": 14, "group size": 4, "categories": 8}
AXES: dict[str, dict[str, tuple[int, ...]]] = {
    "horizontal": {
        "rows": (1_000, 10_000, 100_000, 1_000_000, 10_000_000),
        "attributes": (2, 10, 50, 200),
        "secrets": (2, 30, 100, 300, 1_000),
        "categories": (2, 8, 32),
    },
    "vertical": {
        "rows": (1_000, 10_000, 100_000, 1_000_000, 10_000_000),
        "attributes": (2, 10, 50, 200),
        "secrets": (4, 30, 100, 300, 1_000),
        "group size": (2, 6, 8, 12),
        "categories": (2, 8, 32),
    },
}
SHORT: dict[str, dict[str, tuple[int, ...]]] = {
    "horizontal": {"rows": (400,)},
    "vertical": {"rows": (400,)},
}
GOAL = 1.15
TABLES = {
    "commands": ["", "CPU seconds", "MB"],
    "peers": ["", "other tool", "here"],
}
"""Tables of other benchmarks that the page shows, and their heads."""


def made_up(size: dict[str, int], seed: int = 1) -> tuple[pd.DataFrame, Any]:
    """Cleartext whose attributes lean on the secret, and groups in which no secret stands twice."""
    rng = np.random.default_rng(seed)
    width, values, k = size["group size"], size["secrets"], size["categories"]
    groups = size["rows"] // width
    # A start and steps that do not come round: distinct inside a group.
    secret = (rng.integers(values, size=(groups, 1)) + np.arange(width)) % values
    secret = secret.ravel()
    labels = np.array([f"v{i:02d}" for i in range(k)], dtype=object)
    people = {}
    for a in range(size["attributes"]):
        lean = 0.15 + 0.7 * ((secret * (a + 3)) % values) / values
        people[f"a{a}"] = pd.Categorical.from_codes(rng.binomial(k - 1, lean), labels)
    names = np.array([f"job {i}" for i in range(values)], dtype=object)
    frame = pd.DataFrame(people).assign(job=pd.Categorical.from_codes(secret, names))
    return frame, np.repeat(np.arange(groups), width)


def build(scheme: str, people: pd.DataFrame, group: np.ndarray, seed: int = 2) -> Any:
    """Function that makes the released table; what comes before it is not its business."""
    import anonbayes as ab

    names = [name for name in people if name != "job"]
    if scheme == "vertical":
        order = np.lexsort((np.random.default_rng(seed).random(len(group)), group))
        qit = people[names].take(order).reset_index(drop=True).assign(g=group)
        st = pd.DataFrame({"g": group, "job": people["job"]})
        return lambda: ab.ReleasedTable.vertical(qit, st, group="g", sensitive="job")
    pairs, domains = {}, {}
    for name in names:  # neighbours are one cell
        labels = list(people[name].cat.categories)
        cells = [f"{{{', '.join(labels[i : i + 2])}}}" for i in range(0, len(labels), 2)]
        codes = people[name].cat.codes.to_numpy() // 2
        pairs[name], domains[name] = pd.Categorical.from_codes(codes, cells), labels
    shown = pd.DataFrame(pairs).assign(job=people["job"])
    return lambda: ab.ReleasedTable.horizontal(shown, "job", domains=domains)


@contextmanager
def measured(found: dict[str, dict[str, float]], stage: str, base: float) -> Iterator[None]:
    """Processor seconds of a stage, and its largest resident size beyond `base` in MB."""
    Path("/proc/self/clear_refs").write_text("5")  # forget the largest size so far
    began = time.process_time()
    yield
    spent = time.process_time() - began
    found[stage] = {"seconds": spent, "MB": resident("VmHWM") - base}


def resident(line: str) -> float:
    """A size of this process in MB, from the system."""
    text = Path("/proc/self/status").read_text().split(f"{line}:")[1]
    return float(text.split()[0]) / 1024


def child(scheme: str, size: dict[str, int]) -> dict[str, dict[str, float]]:
    """All stages of one table, after a small one that compiles and imports what there is."""
    import anonbayes as ab

    found: dict[str, dict[str, float]] = {}
    small = USUAL | {"rows": 800}
    with tempfile.TemporaryDirectory(prefix="anonbayes-speed-") as folder:
        for now in (small, size)[size["rows"] < 500 :]:
            people, group = made_up(now)
            make = build(scheme, people, group)
            base = resident("VmRSS")
            with measured(found, "build", base):
                table = make()
            with measured(found, "fit", base):
                post = ab.fit(table, chains=2, seed=1, progressbar=False)
            with measured(found, "assess", base):
                counted, weights = people, None
                if now["rows"] > 10**6:
                    counted, weights = ab.count_records(people, progressbar=False), "rows"
                risk = post.assess(counted, weights=weights)
            with measured(found, "report", base):
                ab.report(post, risk, Path(folder) / "report.html")
    return found | {"distinct": {"records": len(risk.truth.victims.codes)}}


def run(scheme: str, size: dict[str, int]) -> dict[str, dict[str, float]]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "benchmarks.speed", scheme, json.dumps(size)],
        capture_output=True, text=True, cwd=HERE.parent,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"{scheme} {size}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def exponent(sizes: list[int], values: list[float]) -> float:
    """Exponent of growth between the two largest sizes."""
    low, high = (max(value, 1e-3) for value in values[-2:])
    return float(np.log(high / low) / np.log(sizes[-1] / sizes[-2]))


def machine() -> str:
    """The processor, as the system calls it."""
    text = Path("/proc/cpuinfo").read_text()
    model = text.split("model name")[1].split(":")[1].split("\n")[0].strip()
    return f"{model}, {text.count('processor	')} cores, Python {platform.python_version()}"


def lines(found: list[dict[str, Any]]) -> Iterator[tuple[str, str, str, list[dict[str, Any]]]]:
    """What was measured, axis by axis."""
    for scheme in AXES:
        for axis in AXES[scheme]:
            part = [one for one in found if (one["scheme"], one["axis"]) == (scheme, axis)]
            if part:
                head = "| " + " | ".join([axis, "distinct records", *STAGES, "MB"]) + " |"
                yield scheme, axis, head, part


def table(axis: str, head: str, part: list[dict[str, Any]]) -> str:
    """A Markdown table of one axis: CPU seconds by stage, peak memory, exponents."""
    out = [head, "|" + "---|" * (3 + len(STAGES))]
    for one in part:
        stages = one["stages"]
        peak = max(stages[stage]["MB"] for stage in STAGES)
        seconds = " | ".join(f"{stages[stage]['seconds']:.2f}" for stage in STAGES)
        out.append(
            f"| {one['at']:,} | {stages['distinct']['records']:,} | {seconds} | {peak:.0f} |"
        )
    if len(part) > 1:
        at = [one["at"] for one in part]
        grown = [
            f"{exponent(at, [one['stages'][s]['seconds'] for one in part]):.2f}" for s in STAGES
        ]
        out.append(f"| *exponent* | | {' | '.join(grown)} | |")
    return "\n".join(out)


def page(kept: dict[str, Any]) -> str:
    """The page of the documentation, from what is kept."""
    text = [kept["before"].strip().replace("@MACHINE@", kept["machine"])]
    after = kept["after"].strip()
    for name, head in TABLES.items():
        rows = [head, ["---"] * len(head), *kept[name]]
        after = after.replace(f"@{name.upper()}@", "\n".join(f"| {' | '.join(r)} |" for r in rows))
    for scheme, axis, head, part in lines(kept["found"]):
        text += [f"## {scheme.capitalize()} tables: {axis}", table(axis, head, part)]
        text += [kept["causes"][f"{scheme} {axis}"]] if f"{scheme} {axis}" in kept["causes"] else []
    return "\n\n".join([*text, after]) + "\n"


def keep(name: str, value: Any) -> None:
    """Store what was measured, and write the page with it."""
    kept = json.loads(KEPT.read_text()) | {name: value, "machine": machine()}
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")
    PAGE.write_text(page(kept))


def main(*, short: bool = False, largest: float = 1e6, widest: float = 1e3, only: str = "") -> None:
    """Print one table per axis; the full form keeps them and writes the page."""
    found = []
    for scheme, axes in (SHORT if short else AXES).items():
        for axis, sizes in axes.items():
            if only and only not in f"{scheme} {axis}":
                continue
            for at in sizes:
                size = USUAL | {axis: at}
                if size["rows"] > largest or (axis != "rows" and at > widest):
                    continue
                found.append(
                    {"scheme": scheme, "axis": axis, "at": at, "stages": run(scheme, size)}
                )
                print(f"{scheme}, {at:,} {axis}", flush=True)
    for scheme, axis, head, part in lines(found):
        print(f"\n{scheme}\n{table(axis, head, part)}")
    if not short:
        kept = json.loads(KEPT.read_text())
        again = {(one["scheme"], one["axis"], one["at"]) for one in found}
        old = [one for one in kept["found"] if (one["scheme"], one["axis"], one["at"]) not in again]
        keep("found", sorted([*old, *found], key=lambda one: one["at"]))


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[2].startswith("{"):
        print(json.dumps(child(sys.argv[1], json.loads(sys.argv[2]))))
    else:
        parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
        parser.add_argument("--largest", type=float, default=1e6, help="rows at most")
        parser.add_argument("--only", default="", help="part of 'scheme axis'")
        parser.add_argument("--widest", type=float, default=1e3, help="attributes, secrets at most")
        told = parser.parse_args()
        main(largest=told.largest, widest=told.widest, only=told.only)
