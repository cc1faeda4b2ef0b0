"""Odd tables and reports for everything that compiled code works on.

    NUMBA_DISABLE_JIT=1 python -m tests.fuzz --area kernels --cases 100    # kernels as plain Python
    NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=/tmp/checked python -m tests.fuzz --area kernels

Compiled code reads past its arrays without a word. Both commands turn that into an `IndexError`,
which is foreign: the first in a moment, and it tells which kernels no case has reached; the second
as compiled (which takes minutes once). CI also runs all tests of one Python with the second
setting. Everything here is valid on its face, only small, degenerate or extreme.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import pkgutil
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numba
import numpy as np
import pandas as pd

WATCHED: dict[str, bool] = {}
"""Kernels by name, and whether they have run; filled where nothing is compiled."""


def _watch(function: Any = None, **_: Any) -> Any:
    """`numba.njit` that compiles nothing and notes which functions run."""
    if function is None:
        return _watch
    if not function.__module__.startswith("anonbayes."):
        return function
    name = f"{function.__module__}.{function.__name__}"
    WATCHED[name] = False

    @functools.wraps(function)
    def run(*arguments: Any, **settings: Any) -> Any:
        WATCHED[name] = True
        return function(*arguments, **settings)

    return run


if numba.config.DISABLE_JIT:
    numba.njit = _watch

import anonbayes as ab  # noqa: E402
from anonbayes.beliefs import worlds  # noqa: E402
from anonbayes.channels.registry import MECHANISMS  # noqa: E402
from anonbayes.diagnostics.weiss import METHODS  # noqa: E402
from anonbayes.errors import AnonbayesError  # noqa: E402
from anonbayes.estimation import bayes  # noqa: E402
from anonbayes.inference import weight_kernels, workflow  # noqa: E402
from anonbayes.inference.vertical import crossfit, joint_groups, lanes, left_out  # noqa: E402
from tests.strict_sparse import check_indices  # noqa: E402

check_indices()

EPSILONS = (0.0, 1e-12, 1e-3, 1.0, 20.0, 700.0, 730.0)
WEIGHTS = (1e-8, 1e-3, 0.3, 1.0, 1e6)
STEPS = ("auto", "block", "collapsed", "tempered", "swap", "permute", "sequential", "subblock")
SHORT: dict[str, Any] = {"draws": 3, "tune": 2, "chains": 2, "cores": 1, "progressbar": False}


def people(rng: random.Random, most: int = 9) -> tuple[pd.DataFrame, dict[str, list[Any]]]:
    """Cleartext of a few people, and its domains."""
    rows = rng.randint(1, most)
    sizes = {f"x{a}": rng.choice([1, 2, 3, 7]) for a in range(rng.randint(1, 3))}
    frame = pd.DataFrame({k: [rng.randrange(n) for _ in range(rows)] for k, n in sizes.items()})
    frame["s"] = [rng.choice("pqr"[: rng.choice([1, 2, 3])]) for _ in range(rows)]
    return frame, {k: list(range(n)) for k, n in sizes.items()} | {"s": list("pqr")}


def wide(rng: random.Random, value: int, domain: list[int], crossing: bool) -> Any:
    """A released cell that holds the value."""
    kind = rng.choice([0, 1, 2, 2, 3]) if crossing else 0
    if kind == 0:
        return "*" if rng.random() < 0.3 else value
    if kind == 1:
        return {value, rng.choice(domain)}
    return {*rng.sample(domain, rng.randint(1, len(domain))), value} if kind == 2 else value


def attempt(function: Callable[..., Any], *arguments: Any, **settings: Any) -> Any:
    """Result of a call, or None where it is refused: what comes after is tried all the same."""
    with contextlib.suppress(AnonbayesError):
        return function(*arguments, **settings)


def limit(module: Any, name: str, value: float) -> contextlib.AbstractContextManager[Any]:
    """Another limit of kernels, unless they are compiled: those are kept on disk."""
    return mock.patch.object(module, name, value) if WATCHED else contextlib.nullcontext()


def ask(post: ab.Posterior | None, clear: pd.DataFrame, rng: random.Random) -> None:
    """Everything that is asked of a posterior."""
    if post is None:
        return
    known = clear.drop(columns="s")
    attempt(post.attacker, known)
    attempt(post.random_worlds, known)
    attempt(post.learner, known, kind=rng.choice(["predictive", "conditional"]))
    attempt(post.assess, clear, samples=20)
    if post.method == "exact":
        next(iter(post.trees.values())).draw(2, np.random.default_rng(1))
    attempt(ab.diagnose, post)
    attempt(post.check, draws=2, seed=1)
    attempt(post.with_log_likelihood)


def horizontal(rng: random.Random) -> None:
    """A table of cells, perhaps with secrets behind a channel, or a register beside it."""
    clear, domains = people(rng, 14)
    released, crossing = clear.astype(object), rng.random() < 0.7
    for name in sorted(set(domains) - {"s"}):
        released[name] = [wide(rng, value, domains[name], crossing) for value in clear[name]]
    options: dict[str, Any] = {"domains": domains}
    if rng.random() < 0.3:
        channel = ab.RandomizedResponse(ab.Domain("s", domains.pop("s")), rng.choice(EPSILONS))
        released["s"] = channel.release(clear["s"], seed=1)
        options["channels"] = {"s": channel}
    table = ab.ReleasedTable.horizontal(released, "s", **options)
    method = rng.choice(["auto", "auto", "gibbs"])
    settings: dict[str, Any] = {
        "alpha": rng.choice(WEIGHTS),
        "beta": rng.choice([*WEIGHTS, None, None]),
        "method": method,
        "step": rng.choice([None, "counts"]) if method == "gibbs" else None,
        "evidence": rng.choice(["independent", "weighted"]),
        "seed": rng.randrange(99),
        "register": clear.iloc[: rng.randint(1, len(clear))] if rng.random() < 0.4 else None,
        "keep_cleartext": rng.random() < 0.3,
    }
    with limit(weight_kernels, "WIDE", rng.choice([0, weight_kernels.WIDE])):
        post = attempt(ab.fit, table, **settings, **SHORT)
    ask(post, clear, rng)


def vertical(rng: random.Random) -> None:
    """An Anatomy with groups of one to many rows, secrets repeated or not."""
    steps = rng.choice([["weighted"], [*STEPS]])
    clear, domains = people(rng, 20 if steps == ["weighted"] else 8)
    groups = rng.choice([1, 3, 12])
    group = sorted(rng.randrange(groups) for _ in range(len(clear)))
    qit = clear.drop(columns="s").assign(g=group)
    secrets = pd.DataFrame({"g": group, "s": clear["s"]})
    table = ab.ReleasedTable.vertical(qit, secrets, group="g", sensitive="s", domains=domains)
    for step in steps:
        ladder = {"temperatures": 3} if step == "tempered" else {}
        how = {"evidence": "weighted"} if step == "weighted" else {"step": step}
        # Larger groups are taken in pieces, or their orders are drawn; numbers too small for
        # products are rare.
        with (
            mock.patch.object(crossfit, "MAX_BLOCK", 4),
            limit(left_out, "SAFE_SCORE", rng.choice([0.0, left_out.SAFE_SCORE])),
            limit(lanes, "TINY", rng.choice([lanes.TINY, 1e6])),
        ):
            post = attempt(
                ab.fit, table, beta=rng.choice(WEIGHTS), seed=rng.randrange(99),
                keep_cleartext=rng.random() < 0.3 and step != "weighted", **SHORT, **ladder, **how,
            )  # fmt: skip
        if rng.random() < 1.5 / len(steps):
            with mock.patch.object(workflow, "MAX_BLOCK", 4):
                ask(post, clear, rng)


def editions(rng: random.Random) -> None:
    """Two Anatomies of the same people, of whom some may be in one only."""
    clear, domains = people(rng, 12)
    tables, keys = [], []
    for _ in range(2):
        rows = clear.sample(rng.randint(1, len(clear)), random_state=rng.randrange(99))
        group = sorted(rng.randrange(3) for _ in range(len(rows)))
        qit = rows.drop(columns="s").assign(g=group)
        secrets = pd.DataFrame({"g": group, "s": rows["s"].to_numpy()})
        tables.append(
            ab.ReleasedTable.vertical(qit, secrets, group="g", sensitive="s", domains=domains)
        )
        keys.append(rows.index.tolist())
    many = rng.choice([1, 64])
    with (
        mock.patch.object(worlds, "MOST_ROWS", rng.choice([0, 40])),
        mock.patch.object(joint_groups, "MOST_ALIKE", many),
        mock.patch.object(joint_groups, "ROUNDS", 3),
    ):
        who = rng.choice(["records", keys])
        post = attempt(ab.fit, tables, people=who, evidence="independent", seed=1, **SHORT)
    if post is not None:
        attempt(post.attacker, clear.drop(columns="s"))


def reports(rng: random.Random) -> None:
    """Reports of every mechanism at an extreme budget, estimated in every way."""
    domain = ab.Domain("v", range(rng.choice([1, 2, 3, 7])))
    values = [rng.choice(domain.values) for _ in range(rng.choice([1, 3, 20]))]
    budgets = [rng.choice(EPSILONS) for _ in domain.values]
    epsilon = rng.choice(EPSILONS)
    rows = [[rng.choice([0.0, 1e-12, 1.0]) + 1e-15 for _ in "yn"] for _ in domain.values]
    drawn = [rng.choice([1e-9, 0.5, 1.0]) for _ in domain.values]
    options = {
        "sensitive": rng.sample(domain.values, 1),
        "budgets": budgets,
        "matrix": {
            x: dict(zip("yn", (w / sum(row) for w in row), strict=True))
            for x, row in zip(domain.values, rows, strict=True)
        },
        "shares": [share / sum(drawn) for share in drawn],
        "length": rng.choice([1, 2, 9]),
    }
    for kind in MECHANISMS.values():
        given = {name: value for name, value in options.items() if name in kind.needs}
        held = [[value] for value in values] if kind.sets else values
        estimates(attempt(kind.make, domain, epsilon if kind.takes_epsilon else None, **given),
                  held, rng)  # fmt: skip
    # A prime number of hashes, so that hashes are undone.
    estimates(ab.LocalHashing(domain, g=11, epsilon=epsilon), values, rng)
    sent = ab.RAPPOR(domain, 1.0).release(values, seed=1)
    attempt(ab.reidentify.budget_attack, domain, sent, values=values, seed=1, budgets=budgets)


def estimates(channel: Any, values: list[Any], rng: random.Random) -> None:
    """Shares from the reports of a channel, if it could be made."""
    if channel is None:
        return
    sent = attempt(channel.release, values, seed=rng.randrange(99))
    report = attempt(channel.reporter, seed=1)
    one_by_one = [report(value) for value in values] if report else sent
    for name in ("counts", "evidence", "log_likelihood"):
        p = [np.full(len(channel.domain), 1 / len(channel.domain))][: name == "log_likelihood"]
        for given in (sent, one_by_one):
            if hasattr(channel, name):
                attempt(getattr(channel, name), *p, given)
    for method in ("empirical", "threshold", "mle", "em", "shrinkage"):
        attempt(channel.estimate, sent, method=method)
    # Beyond so many values draws go by another kernel.
    for most in (0, 3000):
        with mock.patch.object(bayes, "MOST_VALUES", most):
            attempt(channel.estimate, sent, method="bayes", draws=5, tune=3, chains=1, seed=1)
    attempt(ab.pie.worst_case, channel, n_users=5, t=2)


def chains(rng: random.Random) -> None:
    """Draws with few categories, short, constant or sticky."""
    made = np.random.default_rng(rng.randrange(10**6))
    shape = (rng.choice([1, 2, 4]), rng.choice([1, 2, 11, 40]), rng.choice([1, 3]))
    draws = made.integers(0, rng.choice([1, 2, 9]), shape)
    for method in METHODS:
        attempt(ab.weiss, draws, segments=rng.choice([2, 5, "chains"]), method=method,
                simulations=3)  # fmt: skip
    for method in ("ar", "ess"):
        attempt(ab.geweke, np.tile(draws, (1, 5, 1)).astype(float), method=method)
    attempt(ab.diagnose, draws)


def attacks(rng: random.Random) -> None:
    """Matchers, information and uniqueness on next to nothing."""
    clear, domains = people(rng)
    domains.pop("s")
    trees = {name: ab.Hierarchy.from_intervals(values, 2) for name, values in domains.items()}
    traces = [[rng.choice("abc") for _ in range(rng.randint(1, 4))] for _ in range(3)]
    attempt(ab.reidentify.markov_attack, traces, training=traces[::-1], senders=[0, 1, 2])
    scores = [[rng.choice([0.0, 1.0, rng.random()]) for _ in range(n)] for n in (3, 5)]
    attempt(ab.pie.system_entropy, *scores, k=rng.choice([1, 2, 9]))
    sample, known = clear.drop(columns="s"), {"population": rng.choice([len(clear), 50, 10**6])}
    if rng.random() < 0.5:
        sample["w"], known = [rng.choice([1.0, 1.5, 40.0]) for _ in clear["s"]], {"weights": "w"}
    who = attempt(
        ab.identity, sample, **known,
        draws=2, tune=2, chains=1, classes=rng.choice([2, 4]), seed=1, progressbar=False,
    )  # fmt: skip
    if who is not None:
        attempt(who.contributions)
    for hierarchies in (None, trees):
        attempt(ab.anonymize.mondrian, clear, "s", k=rng.choice([1, 2, 5]), l=rng.choice([1, 2]),
                cells=rng.choice(["tight", "region"]), hierarchies=hierarchies)  # fmt: skip


def idle_kernels() -> list[str]:
    """Kernels of the whole package that no case has reached."""
    for module in pkgutil.walk_packages(ab.__path__, "anonbayes."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    # What a ufunc is made of has no arrays, and is compiled all the same.
    ufuncs = {"anonbayes.pie.information._phi"}
    return sorted({name for name, has_run in WATCHED.items() if not has_run} - ufuncs)


WORKS = (*(horizontal,) * 6, *(vertical,) * 4, editions, editions, reports, chains, chains, attacks)


def kernels(rng: random.Random, desk: Path) -> Callable[[], Any]:
    """One of the above."""
    work = rng.choice(WORKS)
    return lambda: work(rng)
