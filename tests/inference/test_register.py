"""Registers: what somebody learns who also knows other people in clear (MODEL 1.10)."""

from __future__ import annotations

import itertools
import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln

import anonbayes as ab
from anonbayes.beliefs.register import (
    RecordBelief,
    RecordLift,
    join_register,
    read_register,
)
from anonbayes.errors import AnonbayesError, ModelError, PopulationWarning, TableError
from anonbayes.inference.vertical.group_layout import VerticalLayout

RELEASE = pd.DataFrame({"x": ["{a, b}"] * 4 + ["c"] * 2, "s": list("ppqqpq")})
OTHERS = pd.DataFrame({"x": list("aaabbbc"), "s": list("pppqqqp")})


def released() -> ab.ReleasedTable:
    return ab.ReleasedTable.horizontal(RELEASE, "s", domains={"x": list("abc")})


def test_independent_evidence_adds_the_register_to_the_counts():
    """Of the two values of a cell, one has (1 + people with it) / (2 + people with either)."""
    post = ab.fit(released(), register=OTHERS, evidence="independent", seed=1, progressbar=False)
    a, b = (1 + 3) / (2 + 3), 1 / (2 + 3)  # shares of value a among p and q
    assert post.attacker({"x": "a"})["p"] == pytest.approx(2 * a / (2 * a + 2 * b), rel=1e-12)
    assert post.random_worlds({"x": "a"})["p"] == 0.5
    assert post.population.n_rows == len(RELEASE) + len(OTHERS)
    assert post.table.n_rows == len(RELEASE)


def test_a_register_is_not_in_the_table():
    """The value that only the register has belongs to no row of the release."""
    frame = RELEASE[RELEASE["x"] != "c"]
    table = ab.ReleasedTable.horizontal(frame, "s", domains={"x": list("abc")})
    post = ab.fit(table, register=OTHERS, seed=1, progressbar=False)
    with pytest.raises(TableError):
        post.attacker({"x": "c"})


def population(rng: np.random.Generator) -> pd.DataFrame:
    """Two attributes that tell the secret only together, and the people of each kind."""
    cells = pd.MultiIndex.from_product([range(4), range(3), list("pqr")], names=["x", "y", "s"])
    share = rng.dirichlet(np.ones(len(cells)))
    return pd.DataFrame({"people": np.rint(share * 1e7).astype(int) + 1}, index=cells).reset_index()


def test_a_large_register_gives_the_attack_of_who_knows_the_population():
    """``p_A(s | r) ~ sum_g n_gs p(r, s) / p(y_g, s)`` with the true population, by hand."""
    rng = np.random.default_rng(3)
    truth = population(rng)
    people = truth.loc[rng.choice(len(truth), 2000, p=truth["people"] / truth["people"].sum())]
    frame = pd.DataFrame(
        {
            "x": np.where(people["x"] < 2, "{0, 1}", "{2, 3}"),
            "y": np.where(people["y"] < 1, "0", "{1, 2}"),
            "s": people["s"].to_numpy(),
        }
    )
    table = ab.ReleasedTable.horizontal(frame, "s", domains={"x": range(4), "y": range(3)})
    other = ab.ReleasedTable.horizontal(
        truth, "s", domains={"x": range(4), "y": range(3), "s": list("pqr")}, weights="people"
    )
    other = read_register(table, other)
    post = ab.fit(table, register=other, evidence="weighted", seed=1, progressbar=False)
    share = truth.set_index(["x", "y", "s"])["people"]
    for x in range(4):
        for y in range(3):
            xs = [0, 1] if x < 2 else [2, 3]
            ys = [0] if y < 1 else [1, 2]
            cells = frame["x"].eq(str(set(xs))) & frame["y"].eq("0" if y < 1 else "{1, 2}")
            rows = frame.loc[cells, "s"].value_counts()
            odds = {
                s: rows.get(s, 0) * share[x, y, s] / sum(share[i, j, s] for i in xs for j in ys)
                for s in "pqr"
            }
            exact = pd.Series(odds) / sum(odds.values())
            belief = post.attacker({"x": x, "y": y})
            np.testing.assert_allclose(belief[list("pqr")], exact, atol=0.005)
            prior = pd.Series({s: share[x, y, s] for s in "pqr"})
            learner = post.learner({"x": x, "y": y})
            np.testing.assert_allclose(learner[list("pqr")], prior / prior.sum(), atol=0.005)
    # Of whom only x is known, the register's people with that x stand for the records.
    partly = post.learner({"x": 1})
    known = {s: sum(share[1, j, s] for j in range(3)) for s in "pqr"}
    exact = pd.Series(known) / sum(known.values())
    np.testing.assert_allclose(partly[list("pqr")], exact, atol=0.005)
    odds = dict.fromkeys("pqr", 0.0)
    for ys, cell in (([0], "0"), ([1, 2], "{1, 2}")):
        rows = frame.loc[frame["x"].eq("{0, 1}") & frame["y"].eq(cell), "s"].value_counts()
        for s in "pqr":
            inside = sum(share[1, j, s] for j in ys)
            odds[s] += rows.get(s, 0) * inside / sum(share[i, j, s] for i in (0, 1) for j in ys)
    attacker = post.attacker({"x": 1})
    exact = pd.Series(odds) / sum(odds.values())
    np.testing.assert_allclose(attacker[list("pqr")], exact, atol=0.005)


def test_a_small_register_of_noise_changes_nothing():
    """Secrets that do not depend on anything: no correction is clearly better."""
    table = ab.datasets.load("clinic_local")
    rng = np.random.default_rng(5)
    people = ab.datasets.load("clinic")
    noise = people.sample(200, random_state=1).assign(
        diagnosis=rng.choice(people["diagnosis"].to_numpy(), 200)
    )
    alone = ab.fit(table, evidence="weighted", seed=1, progressbar=False)
    post = ab.fit(table, register=noise, evidence="weighted", seed=1, progressbar=False)
    assert post.register is not None and post.register.lifts == ()
    who = people.head(50)[list(table.attributes)]
    np.testing.assert_allclose(post.learner(who), alone.learner(who), rtol=1e-9)


def test_an_anatomy_s_prior_counts_the_register():
    """Against all ways to share out the secrets, with Dir(1 + people of the register)."""
    frame = pd.DataFrame({"x": list("abcaab"), "s": list("pqpqpq"), "g": list("112233")})
    table = ab.ReleasedTable.vertical(
        frame[["x", "g"]], frame[["s", "g"]], group="g", sensitive="s", domains={"x": list("abc")}
    )
    post = ab.fit(table, register=OTHERS, draws=4000, seed=1, progressbar=False)
    counts = 1.0 + pd.crosstab(OTHERS["s"], OTHERS["x"]).to_numpy()
    x = np.array([0, 1, 2, 0, 0, 1])
    owned = np.zeros((3, 2))  # by value and secret
    for swaps in itertools.product([False, True], repeat=3):
        secret = np.concatenate([[1, 0] if swap else [0, 1] for swap in swaps])
        beta = counts.copy()
        np.add.at(beta, (secret, x), 1.0)
        weight = np.exp((gammaln(beta).sum(axis=1) - gammaln(beta.sum(axis=1))).sum())
        np.add.at(owned, (x, secret), weight)
    for value, exact in zip("abc", owned / owned.sum(axis=1, keepdims=True), strict=True):
        found = post.attacker({"x": value})
        error = found.attrs["mcse"].max()
        assert 0 < error < 0.02
        assert np.abs(found.to_numpy() - exact).max() < 5 * error
    assert post.register.before.alpha.tolist() == [1.0, 1.0]


def test_what_a_register_tells_of_records_joins_the_evidence_of_a_group():
    """Against all orders of one group: ``prod_l exp(score) ratio(r_l, s_l)``, in two folds."""
    rng = np.random.default_rng(4)
    items = np.array([[0, 1], [1, 0], [0, 1], [1, 1], [0, 0]])
    layout = VerticalLayout(items, [0, 1, 2, 1, 0], [0, 3, 5], [2, 2], 3)
    score, ratio = rng.normal(size=(2, layout.n_cells)), rng.uniform(0.2, 3, (4, 3))
    lift = RecordLift((0, 1), np.arange(4), ratio, 1.0, 1.0, 0.1)
    told = RecordBelief(np.ones(3), (np.ones((3, 2)), np.ones((3, 2))), None, (lift,))
    owned = told.ownership(layout, np.array([0, 1]))(score).toarray()
    for g, (first, last) in enumerate([(0, 3), (3, 5)]):
        own = np.array([0, 1, 2, 1, 0])[first:last]
        tables = [part[g] for part in layout.split(score)]
        expected = np.zeros((last - first, 3))
        for order in itertools.permutations(own):
            weight = 1.0
            for (x, y), s in zip(items[first:last], order, strict=True):
                weight *= np.exp(tables[0][s, x] + tables[1][s, y]) * ratio[2 * x + y, s]
            for row, s in enumerate(order):
                expected[row, s] += weight
        expected /= expected.sum(axis=1, keepdims=True)
        np.testing.assert_allclose(owned[first:last], expected, atol=1e-12)


def test_a_register_makes_the_attack_on_adult_s_anatomy_stronger(shared_data):
    everybody = pd.read_csv(shared_data / "adult_30162.csv", sep=";", dtype=str)
    rows = np.loadtxt(shared_data / "adult_5692_rows.txt", dtype=int)
    folder = shared_data / "anatomy"
    files = [folder / f"adult_5692_l4_{part}.csv" for part in ("qit", "st", "truth")]
    values = {name: sorted(everybody[name].unique()) for name in everybody if name != "occupation"}
    table = ab.read_anatomy(*files[:2], group="group", sensitive="occupation", domains=values)
    truth = pd.read_csv(files[2], sep=";", dtype=str)
    register = everybody.drop(index=rows)
    post = ab.fit(table, register=register, seed=1, progressbar=False)
    scores = post.assess(truth, group="group").scores.loc["attacker"]
    alone = replace(post, register=None).assess(truth, group="group").scores.loc["attacker"]
    assert alone["log_loss"] == pytest.approx(0.975, abs=0.01)
    assert scores["log_loss"] < 0.90 and scores["right"] > alone["right"] + 0.02
    assert scores["ece"] < 0.03
    inside = post.intervals({n: truth[n][0] for n in values}, draws=20)
    belief = post.attacker({n: truth[n][0] for n in values})
    assert (inside["lower"] <= belief + 0.01).all() and (belief - 0.01 <= inside["upper"]).all()


def test_bad_registers_are_refused_with_column_and_value():
    table = released()
    with pytest.raises(TableError, match="'s'"):
        read_register(table, OTHERS.drop(columns="s"))
    with pytest.raises(TableError, match="'z'"):
        read_register(table, OTHERS.assign(z=1))
    with pytest.raises(AnonbayesError, match="'d'"):
        read_register(table, OTHERS.replace("a", "d"))
    with pytest.raises(TableError, match="not a single value"):
        read_register(table, OTHERS.replace("a", "{a, b}"))
    with pytest.raises(TableError, match="no rows"):
        read_register(table, OTHERS.iloc[:0])
    with pytest.raises(TableError, match="'Nat' is missing"):
        read_register(ab.datasets.load("table1_anatomy"), OTHERS)


def test_another_population_is_pointed_out():
    table = released().reduced()
    other = pd.concat([OTHERS[OTHERS["s"] == "p"]] * 50)
    with pytest.warns(PopulationWarning, match="'s'"):
        read_register(table, other)


def test_the_cells_of_the_release_keep_their_numbers():
    table = released()
    whole = join_register(table, read_register(table, OTHERS))
    one, two = table.columns["x"].evidence, whole.columns["x"].evidence
    assert two.labels[: len(one)] == one.labels
    assert (two.matrix[: len(one)] != one.matrix).nnz == 0
    assert whole.counts["x"].sum() == len(RELEASE) + len(OTHERS)


def test_the_people_of_a_register_are_not_written(tmp_path):
    post = ab.fit(released(), register=OTHERS, seed=1, progressbar=False)
    with pytest.raises(ModelError, match="register"):
        post.to_netcdf(tmp_path / "posterior.nc")
    again = pickle.loads(pickle.dumps(post))
    assert again.attacker({"x": "a"}).equals(post.attacker({"x": "a"}))


@pytest.mark.parametrize(
    ("name", "right", "log_loss"),
    [("adult_5692_k4_l4_local", 0.355, 1.73), ("adult_5692_k6_l6_global_s0", 0.33, 1.86)],
)
def test_adult_with_a_register_of_everybody_else(shared_data, name, right, log_loss):
    """Figures of MODEL 1.10, and stated certainty that is kept (ECE within two of its chance)."""
    everybody = pd.read_csv(shared_data / "adult_30162.csv", sep=";", dtype=str)
    rows = np.loadtxt(shared_data / "adult_5692_rows.txt", dtype=int)
    table = ab.read_arx(
        shared_data / "arx" / f"{name}.csv",
        sensitive="occupation",
        hierarchies=shared_data / "hierarchies",
    )
    post = ab.fit(table, register=everybody.drop(index=rows), seed=1, progressbar=False)
    scores = post.assess(everybody.iloc[rows]).scores.loc["attacker"]
    assert scores["right"] >= right
    assert scores["log_loss"] <= log_loss
    assert scores["ece"] <= scores["ece_chance"] + 2 * scores["ece_chance_sd"]


def test_people_in_the_register_are_linked_not_guessed():
    table, people = ab.datasets.load("clinic_local"), ab.datasets.load("clinic")
    post = ab.fit(table, register=people.sample(2000, random_state=1), seed=1, progressbar=False)
    remarks = post.assess(people).remarks
    assert any("2,000 other people" in remark for remark in remarks)
    assert any("linkage" in remark for remark in remarks)
