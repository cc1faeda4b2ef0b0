"""Other tools on the same releases and the same people: pycanon, anonymeter, ARX's tables.

* pycanon reads k, l and t off a release, and so do we: the same numbers, and how long each takes.
  It holds NumPy and pandas back, so it comes with an extra of its own, `peers`; without it its
  lines say so.
* anonymeter's inference attack guesses the secret of each person from the release; the attacker
  here states a belief. `right` is the share of right guesses. A guess is no belief, so anonymeter
  is given the best that anybody could make of it: its own share of right guesses as probability of
  the guess, the rest spread evenly. It knows records, so people are shown to it as the release
  would show them, and an Anatomy is given as every pairing of an item with a value of its group.
  It wants NumPy 1 and lives in an environment of its own, whose interpreter
  ``ANONYMETER_PYTHON`` names; without that its lines say so.
* ARX is in no registry that pip, npm or Debian's tools reach (PyPI's pyARXaaS only talks to a
  server), and was not run. Tables that it made lie
  in the shared data: the same people are recoded here with the same k, l and suppression limit, and
  the losses (mean share of a domain that a cell covers, suppressed rows count in full) compared.

Seconds are those of the processor.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import anonbayes as ab
from anonbayes.inference.weights import crossfit_of
from anonbayes.risk.syntactic import privacy_models
from benchmarks.evidence import adult, losses
from benchmarks.speed import keep

Row = tuple[str, str, str] | None
"""What was asked, the other tool's answer and ours; None where the other tool was not run."""
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
ATTACK = """
import sys, time
import pandas as pd
from anonymeter.evaluators import InferenceEvaluator
people, shown = (pd.read_csv(name, dtype=str) for name in sys.argv[1:3])
secret = sys.argv[3]
for most in (100, len(people)):  # the first compiles
    began = time.process_time()
    attack = InferenceEvaluator(
        ori=people.head(most), syn=shown, aux_cols=[c for c in shown if c != secret],
        secret=secret, n_attacks=most, regression=False,
    )
    attack.evaluate(n_jobs=1)
rate = attack._n_success / attack._n_attacks_ori
print(rate, time.process_time() - began)
"""


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.process_time()
    found = work()
    return time.process_time() - began, found


def syntactic(name: str, table: ab.ReleasedTable) -> Row:
    """Print k, l, t by pycanon and by the release's own counts."""
    if importlib.util.find_spec("pycanon") is None:
        print(f"{name:32}pycanon not run: pip install 'anonbayes[peers]' on Python 3.11")
        return None
    from pycanon import anonymity

    frame, secret = table.to_frame().astype(str), table.sensitive
    names = [c for c in frame if c != secret]
    theirs, found = timed(
        lambda: {
            "k": anonymity.k_anonymity(frame, names),
            "l": anonymity.l_diversity(frame, names, [secret]),
            "t": anonymity.t_closeness(frame, names, [secret]),
        }
    )

    def here() -> tuple[int, int, float]:
        again = ab.ReleasedTable.horizontal(table.to_frame(), secret, domains=table.domains)
        return again.k, again.l, privacy_models(again)["t"]

    ours, own = timed(here)
    assert (found["k"], found["l"]) == own[:2], (found, own)
    assert abs(found["t"] - own[2]) < 1e-6, (found, own)
    print(
        f"{name:32}k {own[0]:>4}  l {own[1]:>3}  t {own[2]:.4f}   pycanon {theirs:6.2f} s, "
        f"here {ours:5.2f} s ({theirs / ours:.0f}x)"
    )
    return f"k, l, t of {name}", f"pycanon {theirs:.3f} s", f"{ours:.3f} s"


def anonymeter(people: pd.DataFrame, shown: pd.DataFrame, secret: str) -> tuple[float, float]:
    """Share of right guesses, and seconds, of anonymeter's inference attack on everybody."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [str(Path(folder, name)) for name in ("people.csv", "shown.csv")]
        for frame, path in zip((people, shown), paths, strict=True):
            frame.to_csv(path, index=False)
        done = subprocess.run(
            [os.environ["ANONYMETER_PYTHON"], "-W", "ignore", "-c", ATTACK, *paths, secret],
            capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]},
        )  # fmt: skip
    right, seconds = map(float, done.stdout.split()[-2:])
    return right, seconds


def attack(
    name: str, table: ab.ReleasedTable, people: pd.DataFrame, asked: pd.DataFrame,
    shown: pd.DataFrame, group: str | None = None,
) -> Row:  # fmt: skip
    """Print both attacks; `asked` are the people as anonymeter is shown them."""
    secret, values = table.sensitive, [str(v) for v in table.secret.domain.values]
    truth = people[secret].astype(str).map({v: i for i, v in enumerate(values)}).to_numpy()
    known = people[[*table.attributes, *([group] if group else [])]]

    def beliefs() -> np.ndarray:
        crossfit_of.cache_clear()
        post = ab.fit(table, seed=1, progressbar=False)
        return post.attacker(known, group=group).to_numpy()

    beliefs()  # compile before the clock runs
    seconds, belief = timed(beliefs)
    right = float((belief.argmax(axis=1) == truth).mean())
    own = losses(belief, truth).mean()
    print(f"{name:32}here        right {right:.3f}  log loss {own:.3f}  {seconds:6.2f} s")
    if "ANONYMETER_PYTHON" not in os.environ:
        print(f"{'':32}anonymeter  not run: set ANONYMETER_PYTHON")
        return None
    rate, theirs = anonymeter(asked, shown, secret)
    loss = -rate * np.log(rate) - (1 - rate) * np.log((1 - rate) / (len(values) - 1))
    print(
        f"{'':32}anonymeter  right {rate:.3f}  log loss {loss:.3f}  {theirs:6.2f} s "
        f"({theirs / seconds:.1f}x)"
    )
    return (
        f"secrets of {name}",
        f"anonymeter {rate:.3f} right, log loss {loss:.3f}, {theirs:.1f} s",
        f"{right:.3f}, {own:.3f}, {seconds:.1f} s",
    )


def pairings(table: ab.ReleasedTable) -> pd.DataFrame:
    """Every item of an Anatomy with every value of its group."""
    layout = ab.steps.layout_of(table)
    owned = layout.ownership(np.ones(layout.n_links)).tocoo()
    shown = {n: c.domain.decode(c.codes[owned.row]) for n, c in table.columns.items()}
    return pd.DataFrame(shown).assign(
        group=table.group_sizes.index.to_numpy()[layout.groups[owned.row]],
        **{table.sensitive: table.secret.domain.decode(owned.col)},
    )


def loss_of(table: ab.ReleasedTable) -> float:
    """Mean over cells of the share of the domain that a cell covers beyond one value."""
    shares = []
    for column in table.columns.values():
        size = np.asarray((column.evidence.matrix > 0).sum(axis=1)).ravel()[column.codes]
        shares.append(np.mean((size - 1) / (len(column.domain) - 1)))
    return float(np.mean(shares))


def against_arx(short: bool) -> Iterator[Row]:
    if not (SHARED / "arx").exists():
        print("ARX's tables are not here")
        yield None
        return
    people = pd.read_csv(SHARED / "adult_5692.csv", sep=";")
    names = ("k4_l4_global", "k4_l4_local", "k6_l6_global")[: 1 if short else 3]
    for name in names:
        path = SHARED / "arx" / f"adult_5692_{name}.csv"
        theirs = ab.read_arx(path, sensitive="occupation", hierarchies=SHARED / "hierarchies")
        k, how = int(name[1]), "local" if name.endswith("local") else "global"
        trees = {n: ab.Hierarchy.from_csv(SHARED / "hierarchies" / f"adult_hierarchy_{n}.csv")
                 for n in theirs.attributes}  # fmt: skip
        seconds, ours = timed(
            lambda trees=trees, k=k, how=how: ab.anonymize.recode(
                people, "occupation", trees, k, k, local=how == "local",
                suppression=0.0 if how == "local" else 0.05,
            )
        )  # fmt: skip
        print(
            f"adult {name:22}loss by ARX {loss_of(theirs):.4f} ({theirs.n_suppressed} suppressed), "
            f"here {loss_of(ours):.4f} ({ours.n_suppressed}), {seconds:.1f} s"
        )
        yield (
            f"loss of Adult, k = l = {k}, recoded {how}ly",
            f"ARX {loss_of(theirs):.4f} ({theirs.n_suppressed} suppressed)",
            f"{loss_of(ours):.4f} ({ours.n_suppressed}), {seconds:.1f} s",
        )


def main(*, short: bool = False) -> None:
    """Print three tables, and keep what they say if every tool was run."""
    people = ab.datasets.load("clinic")
    release = ab.datasets.load("clinic_global")
    print("k, l and t of a release")
    rows = [syntactic("the clinic, recoded globally", release)]
    if (SHARED / "arx").exists() and not short:
        table = ab.read_arx(
            SHARED / "arx" / "adult_5692_k6_l6_global_s0.csv", sensitive="occupation",
            hierarchies=SHARED / "hierarchies",
        )  # fmt: skip
        rows.append(syntactic("Adult, by ARX, k = l = 6", table))
    print("\nWhat an attacker who knows a person's attributes guesses")
    shown = release.to_frame().astype(str)
    rows.append(attack("the clinic, recoded globally", release, people, shown, shown))
    if not short:
        case = adult(4)
        if case is not None:
            names = [*case.table.attributes, "group", case.table.sensitive]
            asked, shown = (f[names].astype(str) for f in (case.people, pairings(case.table)))
            name = "Adult's Anatomy, l = 4"
            rows.append(attack(name, case.table, case.people, asked, shown, group="group"))
    print("\nTables that ARX made, and the same recoded here; ARX itself was not run")
    rows += against_arx(short)
    if not short and None not in rows:
        keep("peers", rows)
