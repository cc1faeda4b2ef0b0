"""Re-randomized Anatomies of the same people: what each edition adds.

Adult, 5,692 rows, secret = occupation (``../shared/data``; the clinic where it is absent). The
*intersection* of a person's groups, and *messages* between the groups, linked by a key or by equal
records; values of people tell nothing here. *With values*: the same with what the values tell
(``fit``), for two editions. *Certain*: one secret is left.
"""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd

import anonbayes as ab
from anonbayes.beliefs.editions import person_codes
from anonbayes.inference.vertical.group_layout import layout_of
from anonbayes.inference.vertical.joint_groups import Edition, join_groups

SHARED = Path(__file__).parents[2] / "shared" / "data" / "adult_5692.csv"


def scores(belief: np.ndarray, truth: np.ndarray) -> tuple[float, float, float, float]:
    """Share right (ties shared out), log loss, calibration error, share certain."""
    top = belief.max(axis=1)
    level = belief[np.arange(len(truth)), truth]
    ties = (belief >= top[:, None] - 1e-12).sum(axis=1)
    right = (level >= top - 1e-12) / ties
    bins = np.minimum((top * 10).astype(int), 9)
    gap = [abs((right - top)[bins == b].sum()) for b in range(10)]
    loss = -np.log(np.maximum(level, 1e-4)).mean()
    return right.mean(), loss, sum(gap) / len(truth), (top > 1 - 1e-9).mean()


def editions(people: pd.DataFrame, secret: str, l: int, n: int):  # noqa: E741
    tables, keys = [], []
    for seed in range(1, n + 1):
        table, where = ab.anonymize.anatomy(people, secret, l=l, seed=seed, return_truth=True)
        key = np.empty(len(people), dtype=int)
        key[where["item"].to_numpy()] = np.arange(len(people))
        tables.append(table)
        keys.append(key)
    return tables, keys


def main(*, short: bool = False) -> None:
    if SHARED.exists():
        people, secret = pd.read_csv(SHARED, sep=";", dtype=str), "occupation"
    else:
        people, secret = ab.datasets.load("clinic"), "diagnosis"
    settings = [(4, 2), (4, 3), (6, 2), (6, 3)] if SHARED.exists() else [(3, 2), (3, 3)]
    if short:
        people, settings = people.iloc[:800], settings[:1]
    print(f"{len(people):,} rows; secret: {secret}")
    print(f"{'editions':>8} {'l':>2} {'linked by':>9} {'belief':>12} {'right':>6} {'log loss':>8} "
          f"{'ECE':>6} {'certain':>7} {'CPU s':>6}")  # fmt: skip
    for l, n in settings:  # noqa: E741
        tables, keys = editions(people, secret, l, n)
        domain = tables[0].secret.domain
        truth = np.array([domain.index(v) for v in people[secret]])[keys[0]]
        for how, given in (("key", keys), ("records", "records")):
            codes = person_codes(tables, given)
            layouts = [layout_of(table) for table in tables]
            flat = [Edition(x, c, np.ones(x.n_links)) for x, c in zip(layouts, codes, strict=True)]
            start = time.process_time()
            joint = join_groups(flat)[0]
            took = time.process_time() - start
            lines = {"intersection": joint.worlds, "messages": joint.owned}
            if n == 2:
                lines["with values"] = ab.fit(
                    tables, people=given, seed=1, progressbar=False
                ).editions.joint.owned
            for name, owned in lines.items():
                shown = "".join(
                    f" {x:{w}.3f}"
                    for x, w in zip(scores(owned.toarray(), truth), (6, 8, 6, 7), strict=True)
                )
                print(f"{n:>8} {l:>2} {how:>9} {name:>12}{shown} {took:6.1f}")
