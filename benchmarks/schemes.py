"""Making releases: time by scheme and size; the lattice search against looking at every node."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable
from typing import Any

import pandas as pd

import anonbayes as ab

K, L, SUPPRESSION = 4, 3, 0.05


def main(*, short: bool = False) -> None:
    """Print both tables."""
    clinic, trees = ab.datasets.load("clinic"), ab.datasets.hierarchies("clinic")
    ab.anonymize.mondrian(clinic, "diagnosis", K)  # compile before the clock runs
    print(f"Clinic, resampled; k = {K}, l = {L}, at most {SUPPRESSION:.0%} suppressed")
    print(by_scheme(clinic, trees, sizes=(3_000, 30_000) if short else (3_000, 30_000, 300_000)))
    print("\nOptimal levels of the clinic: the search against pandas.groupby on every node")
    print(against_exhaustive(clinic, trees, repeat=1 if short else 5))


def by_scheme(
    clinic: pd.DataFrame, trees: dict[str, ab.Hierarchy], sizes: tuple[int, ...]
) -> pd.DataFrame:
    schemes: dict[str, Callable[[pd.DataFrame], ab.ReleasedTable]] = {
        "mondrian, strict": lambda df: ab.anonymize.mondrian(df, "diagnosis", K, L),
        "mondrian, relaxed": lambda df: ab.anonymize.mondrian(df, "diagnosis", K, L, strict=False),
        "mondrian, hierarchies": lambda df: ab.anonymize.mondrian(
            df, "diagnosis", K, L, hierarchies=trees
        ),
        "recode, global": lambda df: ab.anonymize.recode(
            df, "diagnosis", trees, K, L, suppression=SUPPRESSION
        ),
        "recode, local": lambda df: ab.anonymize.recode(df, "diagnosis", trees, K, L, local=True),
        "anatomy": lambda df: ab.anonymize.anatomy(df, "diagnosis", L, seed=1),
    }
    lines = []
    for rows, (name, scheme) in itertools.product(sizes, schemes.items()):
        df = clinic if rows == len(clinic) else clinic.sample(rows, replace=True, random_state=1)
        seconds, table = _timed(lambda scheme=scheme, df=df: scheme(df))
        lines.append(
            {
                "rows": rows,
                "scheme": name,
                "seconds": round(seconds, 3),
                "groups": table.n_groups,
                "average group": round(table.group_sizes.mean(), 1),
                "suppressed": table.n_suppressed,
            }
        )
    return pd.DataFrame(lines).set_index(["rows", "scheme"])


def against_exhaustive(
    clinic: pd.DataFrame, trees: dict[str, ab.Hierarchy], repeat: int
) -> pd.DataFrame:
    """Time of the search and of counting every node's suppressed rows with pandas."""
    runs = [
        _timed(
            lambda: ab.anonymize.recode(
                clinic, "diagnosis", trees, K, L, suppression=SUPPRESSION, return_recoding=True
            )
        )
        for _ in range(repeat)
    ]
    ours, (_, how) = min(runs, key=lambda run: run[0])
    theirs, feasible = _timed(lambda: _every_node(clinic, trees))
    assert tuple(how.levels.values()) in feasible
    return pd.DataFrame(
        {
            "seconds": [round(ours, 3), round(theirs, 3)],
            "nodes looked at": [how.passes[0].checked, how.passes[0].nodes],
            "ratio": [1.0, round(theirs / ours, 1)],
        },
        index=["anonymize.recode", "pandas.groupby, every node"],
    )


def _every_node(clinic: pd.DataFrame, trees: dict[str, ab.Hierarchy]) -> set[tuple[int, ...]]:
    limit = math.floor(SUPPRESSION * len(clinic))
    shown = {
        name: [
            clinic[name].map({leaf: tree.label(i, h) for i, leaf in enumerate(tree.leaves)})
            for h in range(tree.depth)
        ]
        for name, tree in trees.items()
    }
    feasible = set()
    for node in itertools.product(*(range(tree.depth) for tree in trees.values())):
        cells = [shown[name][h] for name, h in zip(trees, node, strict=True)]
        groups = clinic["diagnosis"].groupby(cells).agg(["size", "nunique"])
        bad = groups[(groups["size"] < K) | (groups["nunique"] < L)]
        if bad["size"].sum() <= limit:
            feasible.add(node)
    return feasible


def _timed(run: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = run()
    return time.perf_counter() - start, result
