"""Exact and sampled engines agree on tables of real size: our clinic, and Adult if it is here."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import anonbayes as ab
from anonbayes import compat

DATA = Path(__file__).parents[2] / "data"


def clinic(request, drop=()):
    table = ab.read_arx(
        DATA / "clinic_k4_l3_local.csv",
        sensitive="diagnosis",
        hierarchies=DATA / "clinic_hierarchies",
        drop=drop,
    )
    return table, pd.read_csv(DATA / "clinic.csv", sep=";", dtype={"zip": str})


def adult(request, drop=()):
    folder = request.getfixturevalue("shared_data")
    table = ab.read_arx(
        folder / "arx" / "adult_5692_k4_l4_local.csv",
        sensitive="occupation",
        hierarchies=folder / "hierarchies",
        drop=drop,
    )
    return table, pd.read_csv(folder / "adult_5692.csv", sep=";")


@pytest.mark.parametrize(
    ("load", "drop"),
    [(clinic, ["age"]), (adult, ["age", "native-country"])],
    ids=["clinic", "adult"],
)
def test_gibbs_on_counts_agrees_with_the_closed_form(load, drop, request):
    """Every entry of pi whose chain has 200 effective draws or more, within 5 standard errors."""
    table, _ = load(request, drop)
    exact = ab.fit(table, evidence="independent", draws=2, seed=1, progressbar=False)
    assert exact.method == "exact"
    gibbs = ab.fit(
        table,
        evidence="independent",
        method="gibbs",
        step="counts",
        draws=1500,
        tune=300,
        seed=2,
        progressbar=False,
    )
    compared = 0
    for name in table.attributes:
        draws = gibbs.draws[f"pi_{name}"]
        error = compat.mcse({"x": draws})["x"].to_numpy()
        enough = compat.ess({"x": draws})["x"].to_numpy() > 200
        off = np.abs(draws.mean(("chain", "draw")).to_numpy() - exact.trees[name].mean)
        assert (off[enough] < 5 * error[enough]).all(), name
        compared += int(enough.sum())
    assert compared > 300


@pytest.mark.parametrize("load", [clinic, adult], ids=["clinic", "adult"])
def test_beliefs_of_both_engines_agree(load, request):
    """Attacker and learner of 50 people, within 6 standard errors of the sampled ones."""
    table, people = load(request)
    people = people.iloc[:50]
    exact = ab.fit(table, evidence="independent", draws=2, seed=1, progressbar=False)
    sampled = ab.fit(
        table,
        evidence="independent",
        method="gibbs",
        step="tree",
        draws=1000,
        seed=2,
        progressbar=False,
    )
    for ask in ("attacker", "learner"):
        truth, found = getattr(exact, ask)(people), getattr(sampled, ask)(people)
        assert (truth.attrs["mcse"].to_numpy() == 0).all()
        off = np.abs(found - truth).to_numpy()
        # 20 batches: |t| > 6 has probability 9e-6 for each of 700 entries.
        assert (off < 6 * found.attrs["mcse"].to_numpy() + 1e-9).all(), ask
