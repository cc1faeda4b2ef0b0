"""Odd inputs for everything that takes some: readers, functions, commands, scenarios.

    python -m tests.fuzz --minutes 10 --seed 1
    python -m tests.fuzz --seed 1 --case api:317     # one case again, with its traceback

Every case starts from something that works and changes a little of it. It may give a result or an
error of ours; any other error is foreign, and a bug. A case depends on the seed and its number
only. The short form is `tests/test_fuzz.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import decimal
import io
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.fuzz_kernels import WATCHED, idle_kernels, kernels  # isort: skip  before any kernel

import anonbayes as ab
from anonbayes.errors import AnonbayesError

ROOT = Path(__file__).parents[1]
DATA = ROOT / "data"
OUTCOMES = ("result", "our error", "foreign error", "slow")


class Slow(BaseException):
    """A case has taken longer than it may."""


@dataclass(frozen=True)
class Foreign:
    """A case that ended in an error that is not ours."""

    case: str
    what: str
    error: str
    where: str


# -- odd things -----------------------------------------------------------------------------------

TEXTS = ["", " ", "*", "{", "}", "{}", "[1, 2)", "a" * 300, "-1", "nan", "inf", "1e999", "\x00", "ü",
         "\u202e", "'", '"', "<b>", "0-0", "9-1", "@none", "=", "a=", "a,b", ";", "True", "None",
         "../x", "\N{GREEK SMALL LETTER EPSILON}", "1,5", "0x10", "٣", "nonsense"]  # fmt: skip
NUMBERS = [None, True, False, -1, 0, 1, 2, 3, 2.5, -0.0, 1e-300, 1e-12, 700, 1e300, float("nan"),
           float("inf"), float("-inf"), 10**30, "1", "x", "", b"1", [], [1], {}, 1j,
           decimal.Decimal("NaN"), decimal.Decimal("sNaN"), np.float64(3), np.array([1.0]),
           np.array(2), pd.NA, pd.NaT, pd.Timestamp(2020, 1, 1)]  # fmt: skip
ARRAYS = [None, 3, -1.5, "abc", b"ab", [], [[]], [[], []], [[1], [1, 2]], ["a", "b"], [None, 1],
          [float("nan"), 1.0], [float("inf"), 0.0], [-1, 2, 3], [0, 0, 0], [1e308, 1e308],
          [10**30, 1], [True, False], [1 + 2j, 0], [object()], {}, {"a": 1}, {1, 2},
          np.zeros((0, 3)), np.zeros((3, 0)), np.zeros((2, 2, 2)), np.ones(3), np.array(1.0),
          np.array(["x"], dtype=object), np.array([1, 2], dtype="m8[s]"),
          pd.Series(["x", None]), pd.Series([], dtype=float), pd.DataFrame({"a": [1]}),
          [decimal.Decimal("sNaN"), 1], ["a", 1, (2, 3)], [["a"], ["b"]], [[1, 2], [3, 4]]]  # fmt: skip


def odd(value: Any, rng: random.Random) -> Any:
    """Something in place of a value, of about its kind or not at all."""
    if rng.random() < 0.1:
        return rng.choice([*NUMBERS, *ARRAYS, *TEXTS])
    if isinstance(value, pd.DataFrame):
        return odd_frame(value, rng)
    if isinstance(value, str):
        return rng.choice([*TEXTS, None, 3, [value], value.upper(), value + " "])
    if isinstance(value, bool | int | float) or value is None:
        return rng.choice(NUMBERS)
    if isinstance(value, dict) and value and rng.random() < 0.6:
        changed = dict(value)
        key = rng.choice(list(changed))
        if rng.random() < 0.3:
            changed[rng.choice([*TEXTS, 3, None])] = changed.pop(key)
        else:
            changed[key] = odd(changed[key], rng)
        return changed
    if isinstance(value, list) and value and rng.random() < 0.6:
        changed = list(value)
        changed[rng.randrange(len(changed))] = odd(rng.choice(value), rng)
        return changed
    if isinstance(value, np.ndarray) and value.size and rng.random() < 0.6:
        changed = value.astype(float if value.dtype.kind in "iufb" else object).copy()
        with contextlib.suppress(TypeError, ValueError):
            changed.flat[rng.randrange(changed.size)] = rng.choice(NUMBERS)
        return changed
    return rng.choice(ARRAYS)


def odd_frame(frame: pd.DataFrame, rng: random.Random) -> Any:
    """A data frame with something wrong in it."""
    changed = frame.copy()
    kind = rng.randrange(9)
    if kind == 0:
        return changed.iloc[:0]
    if kind == 1:
        return changed.drop(columns=rng.choice(list(frame.columns)))
    if kind == 2:
        return changed.rename(
            columns={rng.choice(list(frame.columns)): rng.choice([3, None, "", "x"])}
        )
    if kind == 3:
        return pd.concat([changed, changed[[rng.choice(list(frame.columns))]]], axis=1)
    if kind == 4:
        changed.index = [rng.choice([0, "a"]) for _ in range(len(changed))]
        return changed
    if kind == 5:
        return changed.to_dict("list")
    if kind == 6:
        return rng.choice([None, 3, "frame", [], changed.iloc[:, 0], changed.to_numpy()])
    column = rng.randrange(frame.shape[1])
    cells = changed.iloc[:, column].to_numpy(dtype=object, copy=True)
    for _ in range(rng.choice([1, 1, 3])):
        cell = rng.choice([*NUMBERS, *TEXTS, (1, 2), frozenset({"a"}), pd.Interval(0, 5)])
        cells[rng.randrange(len(cells))] = None
        for row in range(len(cells)):
            if rng.random() < 0.3:
                cells[row] = cell
    changed.isetitem(column, pd.Series(cells, index=changed.index, dtype=object))
    return changed


def odd_bytes(content: bytes, rng: random.Random) -> bytes:
    """A damaged or strange file."""
    kind = rng.randrange(8)
    if kind == 0:
        return content[: rng.randrange(len(content) + 1)]
    if kind == 1:
        return rng.choice(
            [b"", b"\n", b"\xff\xfe\x00", b"PK\x03\x04", b"PAR1", b"\x00" * 50, b";;;"]
        )
    if kind == 2:
        return content.decode("utf-8", "replace").encode(rng.choice(["utf-16", "latin-1", "utf-8-sig"]),
                                                         "replace")  # fmt: skip
    lines = content.split(b"\n")
    if kind == 3:
        i = rng.randrange(len(lines))
        lines[i] = rng.choice(
            [b"", b";", lines[i] + b";x", lines[i].replace(b";", b",", 1), lines[0]]
        )
        return b"\n".join(lines)
    if kind == 4:
        rng.shuffle(lines)
        return b"\n".join(lines)
    changed = bytearray(content)
    for _ in range(rng.choice([1, 3, 20])):
        if not changed:
            break
        i = rng.randrange(len(changed))
        what = rng.choice(TEXTS).encode("utf-8", "replace") or b"\x00"
        changed[i : i + rng.choice([0, 1, len(what)])] = what
    return bytes(changed)


# -- readers --------------------------------------------------------------------------------------


@cache
def small_posterior() -> ab.Posterior:
    return ab.fit(ab.datasets.load("table1_recoded"), draws=20, tune=5, chains=2, seed=1,
                  progressbar=False)  # fmt: skip


@cache
def exact_posterior() -> ab.Posterior:
    frame = pd.DataFrame(
        {"age": ["20-29", "20-29", "30-39", "35"], "ill": ["flu", "gout", "flu", "flu"]}
    )
    table = ab.ReleasedTable.horizontal(frame, "ill", domains={"age": range(20, 40)})
    return ab.fit(table, draws=20, chains=2, seed=1, progressbar=False)


@cache
def stored(kind: str) -> bytes:
    """Content of a good file of a kind."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "file"
        if kind == "netcdf":
            exact_posterior().to_netcdf(file)
        elif kind == "parquet":
            clinic().to_parquet(file)
        return file.read_bytes()


@cache
def clinic() -> pd.DataFrame:
    return pd.read_csv(DATA / "clinic_k4_l3_local.csv", sep=";", dtype=str).head(40)


@cache
def head(name: str, lines: int) -> bytes:
    return b"\n".join((DATA / name).read_bytes().split(b"\n")[: lines + 1]) + b"\n"


def readers(rng: random.Random, desk: Path) -> Callable[[], Any]:
    """A file with something wrong, and what reads it."""
    options: dict[str, Any] = {"sep": rng.choice([";"] * 12 + [",", "", ";;", "€", None, "\\", 3])}
    if rng.random() < 0.2:
        options["missing"] = rng.choice(
            ["unknown", "category", "nonsense", {"age": "unknown"}, None, 3]
        )
    kind = rng.choice(
        ["arx", "arx", "anatomy", "hierarchy", "records", "parquet", "netcdf", "scenario"]
    )
    file = desk / f"file.{kind}"
    if kind == "arx":
        file.write_bytes(odd_bytes(head("clinic_k4_l3_local.csv", 12), rng))
        engine = rng.choice(["auto", "pandas", "pandas", "duckdb"])
        return lambda: ab.read_arx(file, sensitive=rng.choice(["diagnosis", "zip", "none"]),
                                   hierarchies=DATA / "clinic_hierarchies", engine=engine,
                                   progressbar=False, **options)  # fmt: skip
    if kind == "anatomy":
        parts = [head("table1_qit.csv", 8), head("table1_st.csv", 8)]
        which = rng.randrange(2)
        parts[which] = odd_bytes(parts[which], rng)
        other = desk / "st.csv"
        file.write_bytes(parts[0])
        other.write_bytes(parts[1])
        return lambda: ab.read_anatomy(file, other, sensitive="Dis", group="GID", progressbar=False,
                                       count=rng.choice([None, None, "Dis", "x"]), **options)  # fmt: skip
    if kind == "hierarchy":
        name = rng.choice(["age", "zip", "sex"])
        file.write_bytes(odd_bytes((DATA / "clinic_hierarchies" / f"{name}.csv").read_bytes(), rng))
        return lambda: ab.Hierarchy.from_csv(file, sep=options["sep"])
    if kind == "records":
        file.write_bytes(odd_bytes(head("clinic.csv", 12), rng))
        return lambda: ab.count_records(file, sep=options["sep"], progressbar=False,
                                        engine=rng.choice(["pandas", "duckdb"]))  # fmt: skip
    if kind == "parquet":
        file = desk / "file.parquet"
        file.write_bytes(odd_bytes(stored("parquet"), rng))
        return lambda: ab.ReleasedTable.from_parquet(file, "diagnosis", progressbar=False,
                                                     hierarchies=ab.datasets.hierarchies("clinic"))  # fmt: skip
    if kind == "netcdf":
        file.write_bytes(odd_bytes(stored("netcdf"), rng))
        return lambda: ab.Posterior.from_netcdf(file)
    from anonbayes.scenario.load import load

    model = rng.choice(sorted((ROOT / "models").glob("*.toml")))
    file.write_bytes(odd_bytes(model.read_bytes(), rng))
    return lambda: load(file)


# -- functions ------------------------------------------------------------------------------------


@cache
def calls() -> list[tuple[str, Callable[..., Any], dict[str, Any]]]:
    """Functions with arguments that work; those that `fixed` does not hold are changed."""
    domain = ab.Domain("place", ["park", "home", "clinic", "work"])
    frame = pd.DataFrame(
        {
            "age": ["20-24", "20-24", "25", "[25, 30)", "*", "22"],
            "sex": ["f", "*", "m", "{f, m}", "f", "m"],
            "ill": ["flu", "cold", "flu", "gout", "cold", "flu"],
        }
    )
    people = pd.DataFrame(
        {"age": [20, 21, 25, 26, 28, 22], "sex": list("ffmmfm"), "ill": frame["ill"]}
    )
    qit = pd.DataFrame({"age": [20, 31, 42, 53], "g": [1, 1, 2, 2]})
    st = pd.DataFrame({"g": [1, 1, 2, 2], "ill": ["flu", "cold", "flu", "gout"]})
    domains = {"age": list(range(20, 30)), "sex": ["f", "m"]}
    trees = {
        "age": ab.Hierarchy.from_intervals(range(20, 30), 5),
        "sex": ab.Hierarchy(["f", "m"], [["*", "*"]]),
    }
    joint = np.array([[0.2, 0.05, 0.05], [0.1, 0.3, 0.3]])
    rr, bits = ab.RandomizedResponse(domain, 1.0), ab.RAPPOR(domain, 1.0)
    urr = ab.UtilityOptimizedRR(domain, 1.0, sensitive=["clinic"])
    hashing = ab.LocalHashing(domain, g=3, epsilon=1.0)
    values = ["park", "home", "clinic", "home", "work", "home"]
    ones = rr.release(values, seed=1).tolist()
    chains = np.random.default_rng(1).integers(0, 3, size=(2, 60))
    box, relation = ab.nonstochastic.Box([0, 0], [1, 2]), np.array([[1, 1, 0], [0, 1, 1]])
    exact = exact_posterior()
    out: list[tuple[str, Callable[..., Any], dict[str, Any]]] = [
        ("Domain", ab.Domain, {"name": "x", "values": ["a", "b"]}),
        ("Domain.infer", ab.Domain.infer, {"name": "x", "values": [1, 2, 2]}),
        ("Domain.encode", domain.encode, {"values": values}),
        ("Domain.decode", domain.decode, {"codes": [0, 1, 3]}),
        ("IntegerDomain", ab.IntegerDomain, {"size": 5, "name": "x"}),
        ("Hierarchy", ab.Hierarchy, {"leaves": ["f", "m"], "levels": [["*", "*"]]}),
        ("Hierarchy.from_levels", ab.Hierarchy.from_levels, {"levels": {"a": ["x", "*"], "b": ["x", "*"]}}),
        ("Hierarchy.from_prefix", ab.Hierarchy.from_prefix, {"codes": ["111", "112"], "width": 1}),
        ("Hierarchy.from_intervals", ab.Hierarchy.from_intervals, {"values": [1, 2, 3], "width": 2, "origin": 0}),
        ("horizontal", ab.ReleasedTable.horizontal,
         {"frame": frame, "sensitive": "ill", "domains": domains, "missing": "error", "group": None}),
        ("horizontal, trees", ab.ReleasedTable.horizontal,
         {"frame": frame, "sensitive": "ill", "hierarchies": trees, "missing": {"age": "unknown"}}),
        ("horizontal, channels", ab.ReleasedTable.horizontal,
         {"frame": pd.DataFrame({"place": ones, "ill": frame["ill"]}), "sensitive": "ill",
          "channels": {"place": rr}}),
        ("vertical", ab.ReleasedTable.vertical, {"qit": qit, "st": st, "group": "g", "sensitive": "ill"}),
        ("mondrian", ab.anonymize.mondrian, {"df": people, "sensitive": "ill", "k": 2, "l": 1, "cells": "tight"}),
        ("recode", ab.anonymize.recode,
         {"df": people, "sensitive": "ill", "hierarchies": trees, "k": 2, "l": 1, "suppression": 0.2}),
        ("anatomy", ab.anonymize.anatomy, {"df": people, "sensitive": "ill", "l": 2, "seed": 1, "residue": "assign"}),
        ("island", ab.datasets.island, {"n": 11, "p": 0.1, "tested": 2}),
        ("load", ab.datasets.load, {"name": "table1"}),
        ("LDP", ab.LDP, {"epsilon": 1.0}),
        ("ULDP", ab.ULDP, {"sensitive": ["clinic"], "epsilon": 1.0}),
        ("OneID", ab.OneID, {"budgets": {"park": 1.0, "home": 2.0}}),
        ("post_process", lambda **k: ab.post_process(ab.ULDP(["a"], 1.0), **k),
         {"kernel": np.eye(2), "protected_in": [True, False], "protected_out": [True, False]}),
        ("RandomizedResponse", lambda **k: ab.RandomizedResponse(domain, **k), {"epsilon": 1.0}),
        ("RAPPOR", lambda **k: ab.RAPPOR(domain, **k), {"epsilon": 1.0, "theta": 0.5}),
        ("UnaryEncoding", lambda **k: ab.UnaryEncoding(domain, **k), {"p": 0.6, "q": 0.3}),
        ("UtilityOptimizedRR", lambda **k: ab.UtilityOptimizedRR(domain, **k), {"sensitive": ["clinic"], "epsilon": 1.0}),
        ("LocalHashing", ab.LocalHashing, {"domain": 9, "g": 3, "epsilon": 1.0}),
        ("InputDiscriminativeUE", lambda **k: ab.InputDiscriminativeUE(domain, **k),
         {"a": [0.5] * 4, "b": [0.3, 0.2, 0.1, 0.3]}),
        ("Generalization", lambda **k: ab.Generalization(domain, **k), {"cells": ["out", "in", "in", "in"]}),
        ("UniformQuantizer", ab.UniformQuantizer, {"lower": 0, "upper": 1, "bins": 4}),
        ("Personalized", lambda **k: ab.Personalized(ab.UtilityOptimizedRR(domain, 1.0, sensitive=["home", "work"]), **k), {"tags": ["home", "work"]}),
        ("SupportCounts", ab.SupportCounts, {"counts": np.array([3, 4, 1, 0]), "n": 8}),
        ("BitReports", ab.BitReports, {"indptr": [0, 1, 3], "indices": [2, 0, 1], "size": 4}),
    ]  # fmt: skip
    for name, channel in (("rr", rr), ("bits", bits), ("urr", urr), ("hashing", hashing)):
        reports = channel.release(values, seed=1)
        reports = reports.tolist() if isinstance(reports, np.ndarray) else reports
        out += [
            (f"{name}.release", channel.release, {"values": values, "seed": 1}),
            (f"{name}.estimate", channel.estimate, {"reports": reports, "method": "mle"}),
            (f"{name}.estimate, empirical", channel.estimate, {"reports": reports, "method": "empirical", "level": 0.9}),
            (f"{name}.estimate, bayes", channel.estimate,
             {"reports": reports, "method": "bayes", "seed": 1, "draws": 20, "tune": 10, "chains": 2}),
            (f"{name}.evidence", channel.evidence, {"reports": reports}),
            (f"{name}.counts", channel.counts, {"reports": reports}),
            (f"{name}.expected_loss", channel.expected_loss, {"p": [0.25] * 4, "n": 100, "norm": "l2"}),
            (f"{name}.worst_case_loss", channel.worst_case_loss, {"n": 100, "norm": "l2"}),
            (f"{name}.log_likelihood", channel.log_likelihood, {"p": [0.25] * 4, "reports": reports}),
            (f"{name}.reporter", lambda channel=channel, **k: channel.reporter(seed=k["seed"])(k["value"]),
             {"value": "home", "seed": 1}),
        ]  # fmt: skip
        if channel is not hashing:
            out.append((f"{name}.apply", channel.apply, {"p": [0.25, 0.25, 0.25, 0.25]}))
    budgets, pie, certain = ab.budgets, ab.pie, ab.nonstochastic
    out += [
        ("budgets.worst_case", lambda **k: budgets.worst_case(domain, **k), {"n": 100, "gamma": 5.0, "sensitive": [], "cap": 1.0}),
        ("budgets.from_counts", lambda **k: budgets.from_counts(domain, **k), {"gamma": 2.0, "counts": [50, 30, 15, 5]}),
        ("budgets.from_prior", lambda **k: budgets.from_prior(domain, **k), {"n": 100, "gamma": 5.0, "at_least": [40, 30, 0, 2]}),
        ("budgets.from_confidence", lambda **k: budgets.from_confidence(domain, channel=bits, **k),
         {"n": 100, "gamma": 5.0, "reports": bits.release(values, seed=1), "alpha": 0.05, "coverage": "simultaneous"}),
        ("budgets.from_posterior", lambda **k: budgets.from_posterior(domain, channel=bits, **k),
         {"n": 100, "gamma": 5.0, "evidence": bits.release(values, seed=1), "alpha": 0.05, "weight": 1.0}),
        ("budgets.collect", lambda **k: budgets.collect(domain, **k),
         {"values": values * 20, "gamma": 20.0, "first": 0.3, "rule": "confidence", "seed": 1}),
        ("budgets.reidentification_budget", budgets.reidentification_budget, {"counts": [1, 5], "n": 100, "gamma": 5.0}),
        ("pie.bound", lambda **k: pie.bound(rr, **k), {"n_users": 100, "t": 1, "kind": "theorem"}),
        ("pie.worst_case", lambda **k: pie.worst_case(rr, **k), {"n_users": 100, "t": 1, "prior": None}),
        ("pie.choose", lambda **k: pie.choose(rr, **k), {"n_users": 100, "target_error": 0.5, "t": 1, "kind": "theorem"}),
        ("pie.bounds_by_budget", lambda **k: pie.bounds_by_budget(rr, **k), {"n_users": 100, "epsilons": [0.5, 1.0]}),
        ("pie.information", pie.information, {"p_ux": joint, "channel": np.eye(3)}),
        ("pie.mutual_information", pie.mutual_information, {"joint": joint}),
        ("pie.capacity", pie.capacity, {"matrix": np.eye(3), "tolerance": 1e-6}),
        ("pie.bayes_error", pie.bayes_error, {"alpha_bits": 1.0, "n_users": 100}),
        ("pie.information_for", pie.information_for, {"error": 0.5, "n_users": 100}),
        ("pie.system_entropy", pie.system_entropy, {"genuine": [1.0, 2.0, 3.0], "impostor": [0.1, 0.5, 0.7, 1.5], "k": 1}),
        ("pie.det_curve", pie.det_curve, {"genuine": [1.0, 2.0], "impostor": [0.1, 1.5]}),
        ("pie.convergence", pie.convergence,
         {"genuine": [1.0, 2.0, 3.0, 2.5], "impostor": [0.1, 0.5, 0.7, 1.5], "repeats": 2, "k": 1, "seed": 1}),
        ("markov_attack", ab.reidentify.markov_attack,
         {"traces": [["a", "b"], ["b"]], "training": [["a"], ["b", "c"]], "senders": [0, 1], "floor": 1e-6, "impostors": 1}),
        ("budget_attack", lambda **k: ab.reidentify.budget_attack(domain, bits.release(values, seed=1), **k),
         {"values": values, "budgets": [1.0, 2.0, 1.0, 2.0], "senders": list(range(6)), "seed": 1}),
        ("expected_budget_attack", lambda **k: ab.reidentify.expected_budget_attack(bits, **k),
         {"counts": [5, 1, 0, 3], "budgets": [1.0, 2.0, 1.0, 2.0], "sensitive": []}),
        ("rate", ab.reidentify.rate, {"attack": [1, 2, 0], "truth": [1, 2, 2], "where": None, "bound": 0.5}),
        ("synthetic_traces", ab.reidentify.synthetic_traces,
         {"n_users": 3, "n_events": 4, "n_places": 5, "favourites": 2, "wander": 0.2, "seed": 1}),
        ("adversary_error_bound", certain.adversary_error_bound, {"pair": relation, "dimension": 1, "release": "smallest"}),
        ("quality", certain.quality, {"release": [1.0, 2.0], "true": [1.0, 3.0]}),
        ("tradeoff", lambda **k: certain.tradeoff(box=box, **k), {"query": [0.5, 0.5], "gammas": [0.5, 1.0]}),
        ("Box", certain.Box, {"lower": [0, 0], "upper": [1, 1]}),
        ("LinearQuery", certain.LinearQuery, {"weights": [0.5, 0.5], "offset": 0.0}),
        ("Relation", certain.Relation, {"matrix": relation, "measure": [1.0, 2.0]}),
        ("leakage", certain.leakage, {"pair": relation}),
        ("transmission", certain.transmission, {"relation": relation}),
        ("optimal_policy", lambda **k: certain.optimal_policy(box=box, **k), {"query": [0.5, 0.5], "gamma": 0.7, "metric": "maximin"}),
        ("quantized_query", lambda **k: certain.quantized_query(box=box, **k), {"query": [0.5, 0.5], "edges": [0.0, 0.5, 1.5]}),
        ("smallest_enclosing_ball", certain.smallest_enclosing_ball, {"points": [[0, 0], [1, 1], [2, 0]]}),
        ("geweke", ab.geweke, {"data": {"x": chains.astype(float)}, "first": 0.1, "last": 0.5, "method": "ar"}),
        ("weiss", ab.weiss, {"data": {"x": chains}, "segments": 3, "method": "weiss"}),
        ("fit", lambda **k: ab.fit(exact.table, progressbar=False, **k),
         {"alpha": 1.0, "beta": 1.0, "method": "auto", "step": None, "chains": 2, "seed": 1}),
        ("attacker", exact.attacker, {"victim": {"age": 35}}),
        ("learner", exact.learner, {"victim": {"age": 35}, "kind": "predictive"}),
        ("random_worlds", exact.random_worlds, {"victim": pd.DataFrame({"age": [21, 35]})}),
        ("assess", lambda **k: exact.assess(**k).summary,
         {"cleartext": pd.DataFrame({"age": [21, 22, 33, 35], "ill": ["flu", "gout", "flu", "flu"]}),
          "harm": ["gout"], "kind": "predictive", "samples": 100}),
        ("ideal", ab.ideal, {"cleartext": people, "sensitive": "ill", "domains": domains, "alpha": 1.0}),
        ("check_limits", lambda **k: ab.check_limits(small_risk(), **k), {"max_relative_threat": 2.0}),
    ]  # fmt: skip
    return out


@cache
def small_risk() -> ab.RiskAssessment:
    return small_posterior().assess(ab.datasets.load("table1"), samples=100)


def api(rng: random.Random, desk: Path) -> Callable[[], Any]:
    """A function with one or two arguments that are not what they should be."""
    name, function, good = rng.choice(calls())
    given = {key: copy.copy(value) for key, value in good.items()}
    for key in rng.sample(sorted(given), k=min(len(given), rng.choice([1, 1, 1, 2]))):
        given[key] = odd(given[key], rng)
    described.append(f"{name}({', '.join(f'{k}={shown(v)}' for k, v in given.items())})"[:600])
    return lambda: function(**given)


def shown(value: Any) -> str:
    """Representation, where there is one: pandas cannot show a frame with a signalling NaN."""
    try:
        return repr(value)
    except Exception as error:
        return f"<{type(value).__name__} whose repr raises {type(error).__name__}>"


described: list[str] = []
"""What the case under way calls."""


# -- commands -------------------------------------------------------------------------------------

TABLE1 = [
    "table1_recoded.csv",
    "--sensitive",
    "Dis",
    "--domain",
    "ZIP=45501,45502,55503,55504,66601,77701",
]
QUICK = ["--draws", "20", "--tune", "5", "--chains", "2", "--seed", "1"]
MECHANISM = ["--mechanism", "randomized_response", "--epsilon", "1", "--values", "a,b,c"]
SCENARIO = """
kind = "assessment"
question = "What do eight rows tell?"
seed = 1
release.dataset = "table1_recoded"
cleartext.dataset = "table1"
"""
WORDS = [text for text in TEXTS if "\0" not in text]  # no shell can pass that on
COMMANDS: list[list[str]] = [
    ["describe", *TABLE1, "--json"],
    ["describe", "table1_qit.csv", "--anatomy", "table1_st.csv", "--group", "GID", "--sensitive", "Dis"],
    ["assess", *TABLE1, "--cleartext", "table1.csv", "--out", "results", "--harm", "HIV",
     "--max-relative-threat", "5", *QUICK],
    ["compare", "one=table1_recoded.csv", "two=table1_qit.csv+table1_st.csv", "--group", "GID",
     "--cleartext", "table1.csv", "--sensitive", "Dis", "--domain", "ZIP=45501,45502,55503,55504,66601,77701",
     "--draws", "20", "--seed", "1"],
    ["anonymize", "table1.csv", "--sensitive", "Dis", "--out", "made.csv", "--scheme", "mondrian", "-k", "2", "-l", "2"],
    ["anonymize", "table1.csv", "--sensitive", "Dis", "--out", "made.csv", "--scheme", "anatomy", "-l", "2",
     "--anatomy", "st.csv"],
    ["channel", "describe", *MECHANISM],
    ["channel", "release", "people.csv", "--column", "v", "--out", "reports.csv", "--seed", "1", *MECHANISM],
    ["channel", "estimate", "sent.csv", "--column", "report", "--method", "mle", "--level", "0.9", *MECHANISM],
    ["pie", "bound", *MECHANISM, "--users", "100", "--reports", "2", "--target-error", "0.5"],
    ["budgets", "people.csv", "--column", "v", "--gamma", "2", "--rule", "worst_case"],
    ["quantize", "column", "numbers.csv", "--column", "x", "--lower", "0", "--upper", "10", "--bins", "5",
     "--out", "binned.csv"],
    ["quantize", "leakage", *TABLE1],
    ["datasets", "list"],
    ["datasets", "show", "table1"],
    ["init", "table1.csv", "--out", "new.toml"],
    ["run", "mine.toml", "--set", "model.draws=20", "--set", "outputs.plots=false"],
    ["diagnose", "draws.nc"],
]  # fmt: skip


def cli(rng: random.Random, desk: Path) -> Callable[[], Any]:
    """A command with an option that is wrong, missing or too many."""
    furnish(desk)
    words = list(rng.choice(COMMANDS))
    start = 2 if words[0] in ("channel", "pie", "quantize", "datasets") else 1
    for _ in range(rng.choice([1, 1, 2])):
        if len(words) <= start:
            break
        i = rng.randrange(start, len(words))
        kind = rng.randrange(4)
        if kind == 0:
            del words[i]
        elif kind == 1:
            words[i] = rng.choice(WORDS)
        elif kind == 2 and not words[i].startswith("-"):
            words[i] = words[i] + rng.choice(WORDS)
        else:
            words[i:i] = rng.choice([["--json"], ["--force"], ["--sep", rng.choice(WORDS)], ["--seed", "-1"],
                                     ["--nonsense"], ["--help"], ["--missing", "unknown"]])  # fmt: skip
    if rng.random() < 0.15:
        file = rng.choice([f for f in desk.iterdir() if f.is_file()])
        file.write_bytes(odd_bytes(file.read_bytes(), rng))
    described.append(" ".join(map(repr, words)))
    return lambda: command(words, desk)


def furnish(desk: Path) -> None:
    """Put the files that the commands name into a folder."""
    for name in ("table1.csv", "table1_recoded.csv", "table1_qit.csv", "table1_st.csv"):
        shutil.copy(DATA / name, desk / name)
    (desk / "people.csv").write_text("v;w\n" + "a;1\nb;2\nc;3\n" * 4, encoding="utf-8")
    (desk / "sent.csv").write_text("report\n" + "a\nb\na\nc\n" * 5, encoding="utf-8")
    (desk / "numbers.csv").write_text("x;y\n1;a\n2.5;b\n9;c\n", encoding="utf-8")
    (desk / "draws.nc").write_bytes(stored("netcdf"))
    (desk / "mine.toml").write_text(SCENARIO, encoding="utf-8")


def command(words: list[str], desk: Path) -> int:
    """Run a command here; what its `main` turns into a message is an error of ours."""
    import typer

    from anonbayes.cli.app import app

    before = Path.cwd()
    os.chdir(desk)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            app(words, prog_name="anonbayes")
    except SystemExit as done:
        if done.code in (0, 3, None):
            return int(done.code or 0)
        raise AnonbayesError(f"exit code {done.code}") from None
    except OSError as error:
        if error.filename is None:
            raise
        raise AnonbayesError(f"{error.filename}: {error.strerror}") from None
    except typer.Exit as done:
        return done.exit_code
    finally:
        os.chdir(before)
    return 0


# -- scenarios ------------------------------------------------------------------------------------


def toml(content: dict[str, Any], above: str = "") -> Iterator[str]:
    """Lines of a TOML file."""

    def plain(value: Any) -> str:
        if isinstance(value, list):
            return f"[{', '.join(map(plain, value))}]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{json.dumps(k)} = {plain(v)}" for k, v in value.items()) + "}"
        if isinstance(value, float) and not np.isfinite(value):
            return str(value)
        return json.dumps(value)

    for key, value in content.items():
        if not isinstance(value, dict):
            yield f"{json.dumps(key)} = {plain(value)}"
    for key, value in content.items():
        if isinstance(value, dict):
            name = f"{above}.{json.dumps(key)}" if above else json.dumps(key)
            yield f"[{name}]"
            yield from toml(value, name)


TOML_VALUES: list[Any] = [True, -1, 0, 1, 3, 2.5, 1e300, float("nan"), float("inf"), 2**63 - 1, "", "x", "*", "../..",
                          [], [1], ["a"], [[1]], {}, {"a": 1}, "clinic", "table1", "assessment"]  # fmt: skip


def scenarios(rng: random.Random, desk: Path) -> Callable[[], Any]:
    """A scenario with keys that are wrong, missing or too many; loaded and prepared."""
    from anonbayes.scenario.load import load, prepare

    small = [
        "island",
        "clinic_2anonymous",
        "mixed_table",
        "uldp_survey",
        "quantized_average",
        "clinic_anatomy",
    ]
    name = rng.choice(
        [*small, "oneid_checkins", "pie_traces", "choose_k_l", "personalized_locations"]
    )
    content = tomllib.loads((ROOT / "models" / f"{name}.toml").read_text(encoding="utf-8"))
    for _ in range(rng.choice([1, 1, 2, 4])):
        place = content
        while True:
            inner = [v for v in place.values() if isinstance(v, dict)]
            if not inner or rng.random() < 0.3:
                break
            place = rng.choice(inner)
        keys = list(place)
        key = rng.choice(keys) if keys else "x"
        kind = rng.randrange(4)
        if kind == 0:
            place.pop(key, None)
        elif kind == 1:
            names = ["nonsense", "seed", "dataset", "", "draws"]
            place[rng.choice(names)] = copy.deepcopy(rng.choice(TOML_VALUES))
        elif kind == 2 and keys:
            place[key + "s"] = place.pop(key)
        else:
            place[key] = copy.deepcopy(rng.choice(TOML_VALUES))
    file = desk / "mine.toml"
    file.write_text("\n".join(toml(content)) + "\n", encoding="utf-8")
    described.append(file.read_text(encoding="utf-8"))

    def work() -> object:
        loaded = load(file)
        return prepare(loaded) if name in small else loaded

    return work


AREAS: dict[str, Callable[[random.Random, Path], Callable[[], Any]]] = {
    "readers": readers,
    "api": api,
    "cli": cli,
    "scenarios": scenarios,
    "kernels": kernels,
}
TURNS = {"readers": 4, "api": 12, "cli": 1, "scenarios": 4, "kernels": 1}
"""Cases of each area in a round: what takes long comes seldom."""


# -- running --------------------------------------------------------------------------------------


def run_case(area: str, number: int, seed: int, *, seconds: int = 0) -> tuple[str, Foreign | None]:
    """Outcome of a case. With `seconds`, one that takes longer is called slow."""
    rng = random.Random(f"{seed}:{area}:{number}")
    described.clear()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        work = AREAS[area](rng, Path(folder))
        if seconds:
            signal.signal(signal.SIGALRM, _too_slow)
            signal.alarm(seconds)
        try:
            work()
        except AnonbayesError:
            return "our error", None
        except (KeyboardInterrupt, GeneratorExit):
            raise
        except Slow:
            return "slow", Foreign(f"{area}:{number}", "\n".join(described), "slow", "")
        except BaseException as error:
            last = [
                f for f in traceback.extract_tb(error.__traceback__) if "anonbayes" in f.filename
            ]
            where = (
                f"{Path(last[-1].filename).relative_to(ROOT)}:{last[-1].lineno}" if last else "?"
            )
            text = f"{type(error).__name__}: {error}"
            return "foreign error", Foreign(
                f"{area}:{number}", "\n".join(described), text[:300], where
            )
        finally:
            if seconds:
                signal.alarm(0)
    return "result", None


def _too_slow(*_: object) -> None:
    raise Slow


def main() -> int:
    """Run cases until the time is over, and count how they ended."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz", description=__doc__.splitlines()[0]
    )
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--area", choices=AREAS, action="append", help="only these")
    parser.add_argument("--case", help="AREA:NUMBER, to see one again")
    parser.add_argument("--cases", type=int, default=10**9, help="most cases of each area")
    parser.add_argument("--rounds", type=int, default=10**6, help="most rounds through the areas")
    parser.add_argument("--seconds", type=int, default=60, help="a case that takes longer is slow")
    told = parser.parse_args()
    if told.case:
        area, _, number = told.case.partition(":")
        rng = random.Random(f"{told.seed}:{area}:{number}")
        with tempfile.TemporaryDirectory() as folder:
            work = AREAS[area](rng, Path(folder))
            print("\n".join(described))
            print(work())
        return 0
    counts: dict[str, Counter[str]] = {area: Counter() for area in told.area or AREAS}
    places: dict[tuple[str, str], list[Foreign]] = {}
    end = time.monotonic() + 60 * told.minutes
    last = {area: min(TURNS[area] * told.rounds, told.cases) for area in counts}
    numbers = dict.fromkeys(counts, 0)
    while time.monotonic() < end and any(numbers[area] < last[area] for area in counts):
        for area in counts:
            for number in range(numbers[area], min(numbers[area] + TURNS[area], last[area])):
                outcome, foreign = run_case(area, number, told.seed, seconds=told.seconds)
                counts[area][outcome] += 1
                numbers[area] += 1
                if foreign:
                    kind = foreign.error.partition(":")[0]
                    places.setdefault((kind, foreign.where), []).append(foreign)
                if time.monotonic() > end:
                    break
    if WATCHED and "kernels" in counts:
        idle = idle_kernels()
        print(f"{len(WATCHED) - len(idle)} of {len(WATCHED)} kernels have run; idle: {idle}")
    total = sum(numbers.values())
    print(f"{total:,} inputs, seed {told.seed}")
    print(pd.DataFrame(counts).T.reindex(columns=list(OUTCOMES)).fillna(0).astype(int).to_string())
    for (kind, where), found in sorted(places.items(), key=lambda item: -len(item[1])):
        first = found[0]
        print(
            f"\n{len(found)} x {kind} at {where}, first in {first.case}\n  {first.error}\n  {first.what}"
        )
    return bool(places)


if __name__ == "__main__":
    sys.exit(main())
