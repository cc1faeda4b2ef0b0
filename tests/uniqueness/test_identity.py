"""People who share a record: against sums, simulation, NUTS, and a population that is known."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import anonbayes as ab
from anonbayes.errors import AnonbayesError
from anonbayes.uniqueness.mixture import POOLING_MEAN, POOLING_SD, QUADRATURE, match_probability

QUIET = {"progressbar": False}


@pytest.mark.parametrize("rows", [1, 2, 3, 17, 60])
@pytest.mark.parametrize("p", [1e-12, 1e-4, 0.01, 0.3, 0.999])
@pytest.mark.parametrize("others", [0, 1, 40, 2000])
def test_match_probability_is_the_sum_over_all_numbers_of_others(rows, p, others):
    k = np.arange(others + 1)
    want = (stats.binom.pmf(k, others, p) / (rows + k)).sum()
    assert match_probability(rows, float(others), p, *QUADRATURE) == pytest.approx(want, rel=3e-5)


def classes_of(rng, n):
    """Records of a population with three classes, in which attributes depend on each other."""
    kind = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    sizes = (12, 9, 7, 5)
    theta = [rng.dirichlet(np.full(k, 0.5), 3) for k in sizes]
    return pd.DataFrame(
        {
            f"x{a}": np.array([rng.choice(k, p=theta[a][c]) for c in kind])
            for a, k in enumerate(sizes)
        }
    )


def truth_of(population, places):
    people = population.groupby(list(population.columns), sort=False)[population.columns[0]]
    shared = people.transform("size").to_numpy()[places]
    sample = population.iloc[places]
    own = sample.groupby(list(sample.columns), sort=False)[sample.columns[0]]
    return shared, own.transform("size").to_numpy()


def test_intervals_cover_the_numbers_of_known_populations():
    """Ten samples: 90 % intervals that cover fewer than 7 would be off (P = 1.3 %)."""
    covered = {"unique_in_population": 0, "population_uniques": 0, "matches": 0, "marketer": 0}
    errors = []
    for seed in range(10):
        rng = np.random.default_rng(seed)
        population = classes_of(rng, 4000)
        places = rng.choice(4000, 400, replace=False)
        shared, own = truth_of(population, places)
        who = ab.identity(
            population.iloc[places], population=4000, draws=200, chains=2, seed=seed, **QUIET
        )
        alone = population.groupby(list(population.columns)).size()
        truth = {
            "unique_in_population": (shared == 1).sum(),
            "population_uniques": (alone == 1).sum(),
            "matches": (1 / shared).sum(),
            "marketer": (1 / shared).mean(),
        }
        for name in covered:
            line = who.summary.loc[name]
            covered[name] += line["low"] <= truth[name] <= line["high"]
        errors.append(who.summary.loc["matches", "estimate"] / truth["matches"] - 1)
        assert (who.rows["sample_frequency"].to_numpy() == own).all()
    assert min(covered.values()) >= 7, covered
    assert abs(np.mean(errors)) < 0.05


def prior_mixtures(rng, n, margins):
    """Mixtures of three products drawn from the prior, in plain NumPy."""
    concentration = rng.gamma(1.0, 1.0, n)
    stick = rng.beta(1.0, np.maximum(concentration, 1e-9)[:, None], (n, 2))
    weights = np.stack([stick[:, 0], (1 - stick[:, 0]) * stick[:, 1]], axis=1)
    weights = np.column_stack([weights, 1 - weights.sum(axis=1)])
    thetas = []
    for margin in margins:
        kappa = np.exp(rng.normal(POOLING_MEAN, POOLING_SD, n))
        draws = rng.gamma(kappa[:, None, None] * margin, 1.0, (n, 3, len(margin))) + 1e-300
        thetas.append(draws / draws.sum(axis=2, keepdims=True))
    return weights, thetas


def test_gibbs_agrees_with_importance_sampling():
    """Share of each record in the population, from 400,000 draws of the prior."""
    frame = pd.DataFrame({"x": list("aaabbbba"), "y": list("uuvwwwvu")})
    margins = [(np.array([4, 4]) + 0.5) / 9, (np.array([3, 2, 3]) + 0.5) / 9.5]
    weights, (x, y) = prior_mixtures(np.random.default_rng(1), 400_000, margins)
    cells = np.einsum("nc,nci,ncj->nij", weights, x, y)
    rows = frame.apply(lambda r: ("ab".index(r["x"]), "uvw".index(r["y"])), axis=1)
    likelihood = np.prod([cells[:, i, j] for i, j in rows], axis=0)
    likelihood /= likelihood.sum()
    want = np.array([(likelihood * cells[:, i, j]).sum() for i, j in rows])
    spread = [
        np.sum(likelihood**2 * (cells[:, i, j] - w) ** 2)
        for (i, j), w in zip(rows, want, strict=True)
    ]
    who = ab.identity(frame, population=1008, classes=3, draws=8000, chains=2, seed=1, **QUIET)
    share = (who.rows["people"] - who.rows["sample_frequency"]).to_numpy() / 1000
    # sweeps are correlated: at least one in twenty counts
    error = np.sqrt(np.array(spread) + 0.01 / (2 * 8000 / 20))
    assert (np.abs(share - want) < 4 * error).all(), (share, want, error)


def test_the_pymc_model_has_the_same_likelihood():
    frame = pd.DataFrame({"x": list("aaabb"), "y": list("uuvwv")})
    model = ab.identity_model(frame, classes=2)
    start = model.initial_point()
    for name in ("x", "y"):  # uniform in both classes
        start[f"theta_{name}_simplex__"] = 0 * start[f"theta_{name}_simplex__"]
    assert model.compile_logp(vars=model.potentials)(start) == pytest.approx(5 * np.log(1 / 6))


def test_sets_of_one_value_are_values():
    """A release whose cells are single values gives what its cleartext gives, to the last bit."""
    frame = ab.datasets.load("clinic").head(300)[["age", "sex", "zip", "diagnosis"]].astype(str)
    table = ab.ReleasedTable.horizontal(frame, sensitive="diagnosis")
    names = ["age", "sex", "zip"]
    one = ab.identity(table, population=6000, draws=50, seed=1, **QUIET)
    domains = {name: list(table.columns[name].domain.values) for name in names}
    two = ab.identity(frame[names], population=6000, draws=50, seed=1, domains=domains, **QUIET)
    assert one.summary["estimate"].sub(two.summary["estimate"]).abs().max() < 40
    assert np.corrcoef(one.rows["people"], two.rows["people"])[0, 1] > 0.95


def test_coarse_cells_have_more_people():
    clinic = ab.datasets.load("clinic").drop(columns="diagnosis")
    clear = ab.identity(clinic, population=30_000, draws=60, seed=1, **QUIET)
    release = ab.datasets.load("clinic_local")
    coarse = ab.identity(release, population=30_000, draws=60, seed=1, **QUIET)
    assert coarse.summary.loc["unique_in_population", "estimate"] == 0
    assert coarse.summary.loc["k_map", "low"] >= release.k
    assert coarse.summary.loc["bits", "high"] < clear.summary.loc["bits", "low"]
    assert "population_uniques" not in coarse.summary.index


def test_a_sample_of_everybody_is_the_population():
    frame = pd.DataFrame({"x": list("aabbbc"), "y": list("uuvvvw")})
    who = ab.identity(frame, population=6, draws=20, seed=1, **QUIET)
    line = who.summary["estimate"]
    assert line["unique_in_population"] == line["population_uniques"] == 1
    assert line["matches"] == pytest.approx(3)
    assert line["bits"] == pytest.approx((6 * np.log2(6) - 2 * 1 - 3 * np.log2(3)) / 6)
    assert who.rows["match"].tolist() == pytest.approx([1 / 2] * 2 + [1 / 3] * 3 + [1])


def test_weights_are_numbers_of_people():
    """Half of a population sampled ten times as thinly: weights undo it, ignoring them does not."""
    rng = np.random.default_rng(5)
    population = pd.DataFrame(
        {"x": rng.choice(30, 20_000), "town": np.repeat(["large", "small"], 10_000)}
    )
    population.loc[population["town"] == "large", "x"] = rng.choice(3, 10_000)
    thin = population.query("town == 'large'").sample(100, random_state=1).assign(w=100.0)
    dense = population.query("town == 'small'").sample(1000, random_state=1).assign(w=10.0)
    sample = pd.concat([thin, dense])
    who = ab.identity(sample, weights="w", draws=200, seed=1, **QUIET)
    assert who.population == 20_000
    expected = sample[["x", "town"]].merge(
        population.value_counts().rename("people").reset_index(), on=["x", "town"]
    )["people"]
    large = (sample["town"] == "large").to_numpy()
    ratio = who.rows["people"].to_numpy()[large].mean() / expected.to_numpy()[large].mean()
    assert ratio == pytest.approx(1, abs=0.12)


def test_households_are_at_risk_when_a_member_is():
    frame = pd.DataFrame({"x": list("abcdabcc"), "home": [1, 1, 1, 2, 2, 3, 3, 4]})
    who = ab.identity(frame, population=80, household="home", draws=50, seed=1, **QUIET)
    match = who.rows["match"].to_numpy()
    for home, row in zip(frame["home"], who.rows["household_match"], strict=True):
        members = match[(frame["home"] == home).to_numpy()]
        assert row == pytest.approx(1 - np.prod(1 - members))
    assert who.attributes == ("x",)


def test_contributions_tell_what_makes_a_row_unique():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"rare": rng.choice(200, 400), "common": rng.choice(2, 400)})
    who = ab.identity(frame, population=2000, draws=50, seed=1, **QUIET)
    gains = who.contributions()
    assert (gains["rare"] > gains["common"]).all() and len(gains) == 10


def test_same_seed_same_numbers_and_copies():
    frame = ab.datasets.load("clinic").head(200)[["age", "sex", "zip"]]
    runs = [ab.identity(frame, population=4000, draws=40, seed=7, cores=c, **QUIET) for c in (1, 2)]
    pd.testing.assert_frame_equal(runs[0].summary, runs[1].summary)
    pd.testing.assert_frame_equal(runs[0].rows, pickle.loads(pickle.dumps(runs[1])).rows)
    assert "4,000 people" in str(copy.deepcopy(runs[0])) and "<table" in runs[0]._repr_html_()
    assert ab.diagnose(runs[0].idata).table is not None


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"attributes": ["x"]}, "population="),
        ({"population": 2, "attributes": ["x"]}, "smaller than the sample"),
        ({"population": 10.5, "attributes": ["x"]}, "whole number"),
        ({"weights": "w", "attributes": ["x"]}, "row 1"),
        ({"weights": "v"}, "'v'"),
        ({"population": 9, "attributes": ["z"]}, "'z'"),
        ({"population": 9, "attributes": []}, "at least one"),
        ({"population": 9, "attributes": ["gap"]}, "row 2"),
        ({"population": 9, "attributes": ["x"], "classes": 1}, "classes"),
        ({"population": 9, "attributes": ["x"], "probability": 1.0}, "probability"),
    ],
)
def test_bad_input_is_named(settings, words):
    frame = pd.DataFrame({"x": list("abc"), "w": [1.0, 0.0, 2.0], "gap": ["u", "v", None]})
    with pytest.raises(AnonbayesError, match=words):
        ab.identity(frame, **settings, **QUIET)


def test_constant_columns_and_all_different_rows():
    frame = pd.DataFrame({"x": ["a"] * 50, "y": range(50)})
    who = ab.identity(frame, population=500, draws=30, seed=1, **QUIET)
    assert who.summary.loc["sample_uniques", "estimate"] == 50
    assert 0 <= who.summary.loc["unique_in_population", "low"] <= 50
