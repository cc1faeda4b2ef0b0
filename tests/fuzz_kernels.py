"""Odd tables and reports for everything that compiled code works on.

    NUMBA_DISABLE_JIT=1 python -m tests.fuzz --area kernels --cases 60    # kernels as plain Python
    NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=/tmp/checked python -m tests.fuzz --area kernels

Compiled code reads past its arrays without a word. Both commands turn that into an `IndexError`,
which is foreign: the first in a moment, the second as compiled (which takes minutes once).
Everything here is valid on its face, only small, degenerate or extreme.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import anonbayes as ab
from anonbayes.channels.registry import MECHANISMS

EPSILONS = (0.0, 1e-12, 1e-3, 1.0, 20.0, 700.0)
WEIGHTS = (1e-8, 1e-3, 0.3, 1.0, 1e6)
STEPS = ("auto", "block", "collapsed", "tempered", "swap", "permute", "sequential", "subblock")
SHORT: dict[str, Any] = {"draws": 3, "tune": 2, "chains": 2, "cores": 1, "progressbar": False}


def people(rng: random.Random, most: int = 9) -> tuple[pd.DataFrame, dict[str, list[int]]]:
    """Cleartext of a few people, and its domains."""
    rows = rng.randint(1, most)
    sizes = {f"x{a}": rng.choice([1, 2, 3, 7]) for a in range(rng.randint(1, 3))}
    frame = pd.DataFrame({k: [rng.randrange(n) for _ in range(rows)] for k, n in sizes.items()})
    frame["s"] = [rng.choice("pqr"[: rng.choice([1, 2, 3])]) for _ in range(rows)]
    return frame, {k: list(range(n)) for k, n in sizes.items()}


def wide(rng: random.Random, value: int, domain: list[int]) -> Any:
    """A released cell that holds the value."""
    kind = rng.randrange(4)
    if kind == 0:
        return "*"
    if kind == 1:
        return {value, rng.choice(domain)}
    return {*rng.sample(domain, rng.randint(1, len(domain))), value} if kind == 2 else value


def ask(post: ab.Posterior, clear: pd.DataFrame) -> None:
    """Everything that is asked of a posterior."""
    known = clear.drop(columns="s")
    post.attacker(known)
    post.random_worlds(known)
    for kind in ("predictive", "conditional"):
        post.learner(known, kind=kind)
    post.assess(clear, samples=20)
    ab.diagnose(post)


def horizontal(rng: random.Random) -> None:
    """A table of cells, perhaps with secrets behind a channel."""
    clear, domains = people(rng)
    released = clear.astype(object)
    for name, domain in domains.items():
        released[name] = [wide(rng, value, domain) for value in clear[name]]
    options: dict[str, Any] = {}
    if rng.random() < 0.4:
        channel = ab.RandomizedResponse(ab.Domain("s", list("pqr")), rng.choice(EPSILONS))
        released["s"] = channel.release(clear["s"], seed=1)
        options["channels"] = {"s": channel}
    table = ab.ReleasedTable.horizontal(released, "s", domains=domains, **options)
    method = rng.choice(["auto", "auto", "gibbs"])
    step = rng.choice([None, "counts"]) if method == "gibbs" else None
    post = ab.fit(
        table, beta=rng.choice(WEIGHTS), alpha=rng.choice(WEIGHTS), method=method, step=step,
        evidence=rng.choice(["independent", "independent", "weighted"]), seed=rng.randrange(99),
        keep_cleartext=rng.random() < 0.3, **SHORT,
    )  # fmt: skip
    ask(post, clear)


def vertical(rng: random.Random) -> None:
    """An Anatomy with groups of one to six rows, secrets repeated or not."""
    clear, _ = people(rng)
    group = sorted(rng.randrange(3) for _ in range(len(clear)))
    qit = clear.drop(columns="s").assign(g=group)
    table = ab.ReleasedTable.vertical(
        qit, pd.DataFrame({"g": group, "s": clear["s"]}), group="g", sensitive="s"
    )
    if rng.random() < 0.2:
        post = ab.fit(table, evidence="weighted", seed=1, draws=3, chains=2, progressbar=False)
    else:
        step = rng.choice(STEPS)
        ladder = {"temperatures": 3} if step == "tempered" else {}
        post = ab.fit(
            table, step=step, beta=rng.choice(WEIGHTS), seed=rng.randrange(99),
            keep_cleartext=rng.random() < 0.3, **SHORT, **ladder,
        )  # fmt: skip
    ask(post, clear)


def reports(rng: random.Random) -> None:
    """Reports of a mechanism at an extreme budget, estimated in every way."""
    domain = ab.Domain("v", list("abcdefg"[: rng.choice([1, 2, 3, 7])]))
    kind = MECHANISMS[rng.choice(sorted(MECHANISMS))]
    options: dict[str, Any] = {}
    if "sensitive" in kind.needs:
        options["sensitive"] = rng.sample(list(domain.values), rng.randint(1, len(domain)))
    if "budgets" in kind.needs:
        options["budgets"] = [rng.choice(EPSILONS) for _ in domain.values]
    if "matrix" in kind.needs:
        weights = {x: [rng.choice([0.0, 1e-12, 1.0]) + 1e-15 for _ in "yn"] for x in domain.values}
        options["matrix"] = {
            x: dict(zip("yn", (w / sum(row) for w in row), strict=True))
            for x, row in weights.items()
        }
    if "shares" in kind.needs:
        drawn = [rng.choice([1e-9, 0.5, 1.0]) for _ in domain.values]
        options["shares"] = [share / sum(drawn) for share in drawn]
    if "length" in kind.needs:
        options["length"] = rng.choice([1, 2, 9])
    epsilon = rng.choice(EPSILONS) if kind.takes_epsilon else None
    channel = kind.make(domain, epsilon, **options)
    values: list[Any] = [rng.choice(domain.values) for _ in range(rng.choice([1, 3, 20]))]
    if kind.sets:
        values = [rng.sample(list(domain.values), rng.randint(0, len(domain))) for _ in values]
    sent = channel.release(values, seed=rng.randrange(99))
    settings = {"draws": 5, "chains": 1, "seed": 1} if rng.random() < 0.5 else {}
    method = rng.choice(["empirical", "threshold", "mle", "em", "bayes", "shrinkage"])
    channel.estimate(sent, method=method, **(settings if method == "bayes" else {}))
    if kind.sets:
        return
    channel.log_likelihood(np.full(len(domain), 1 / len(domain)), sent)
    channel.evidence(sent)


def chains(rng: random.Random) -> None:
    """Draws with few categories, short, constant or sticky."""
    made = np.random.default_rng(rng.randrange(10**6))
    shape = (rng.choice([1, 2, 4]), rng.choice([1, 2, 11, 40]), rng.choice([1, 3]))
    draws = made.integers(0, rng.choice([1, 2, 9]), shape)
    ab.weiss(draws, segments=rng.choice([2, 5, "chains"]), method=rng.choice(
        ["weiss", "hangartner", "billingsley", "dar1_bootstrap", "markov_bootstrap"]
    ))  # fmt: skip
    ab.geweke(draws.astype(float), method=rng.choice(["ar", "batch", "naive"]))
    ab.diagnose(draws)


def attacks(rng: random.Random) -> None:
    """Matchers, information and uniqueness on next to nothing."""
    clear, _ = people(rng)
    which = rng.randrange(4)
    if which == 0:
        traces = [[rng.choice("abc") for _ in range(rng.randint(1, 4))] for _ in range(3)]
        ab.reidentify.markov_attack(traces, training=traces[::-1], senders=[0, 1, 2])
    elif which == 1:
        scores = [[rng.choice([0.0, 1.0, rng.random()]) for _ in range(n)] for n in (3, 5)]
        ab.pie.system_entropy(*scores, k=rng.choice([1, 2, 9]))
    elif which == 2:
        ab.identity(clear.drop(columns="s"), population=rng.choice([len(clear), 10**6]), draws=3,
                    tune=2, chains=1, classes=rng.choice([1, 4]), seed=1,
                    progressbar=False)  # fmt: skip
    else:
        ab.anonymize.mondrian(clear, "s", k=rng.choice([1, 2, 5]), l=rng.choice([1, 2]))


WORKS: tuple[Callable[[random.Random], None], ...] = (
    horizontal, horizontal, vertical, vertical, reports, reports, chains, attacks,
)  # fmt: skip


def kernels(rng: random.Random, desk: Path) -> Callable[[], Any]:
    """One of the above."""
    work = rng.choice(WORKS)
    return lambda: work(rng)
