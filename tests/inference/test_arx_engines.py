"""Exact and sampled engines agree on a real ARX table."""

import numpy as np

import anonbayes as ab
from anonbayes import compat


def test_gibbs_on_counts_agrees_with_the_closed_form(shared_data):
    """Every entry of pi whose chain has 200 effective draws or more, within 5 standard errors."""
    table = ab.read_arx(
        shared_data / "arx" / "adult_5692_k4_l4_local.csv",
        sensitive="occupation",
        hierarchies=shared_data / "hierarchies",
        drop=["age", "native-country"],
    )
    exact = ab.fit(table, draws=2, seed=1, progressbar=False)
    assert exact.method == "exact"
    gibbs = ab.fit(
        table, method="gibbs", step="counts", draws=1500, tune=300, seed=2, progressbar=False
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


def test_beliefs_of_both_engines_agree(shared_data):
    """Attacker and learner of 50 people, within 5 standard errors of the sampled ones."""
    import pandas as pd

    arx = shared_data / "arx" / "adult_5692_k6_l6_global_s0.csv"
    table = ab.read_arx(arx, sensitive="occupation", hierarchies=shared_data / "hierarchies")
    people = pd.read_csv(shared_data / "adult_5692.csv", sep=";").iloc[:50]
    exact = ab.fit(table, draws=2, seed=1, progressbar=False)
    sampled = ab.fit(table, method="gibbs", step="tree", draws=1000, seed=2, progressbar=False)
    for ask in ("attacker", "learner"):
        truth, found = getattr(exact, ask)(people), getattr(sampled, ask)(people)
        assert (truth.attrs["mcse"].to_numpy() == 0).all()
        off = np.abs(found - truth).to_numpy()
        # 20 batches: |t| > 6 has probability 9e-6 for each of 700 entries.
        assert (off < 6 * found.attrs["mcse"].to_numpy() + 1e-9).all(), ask
