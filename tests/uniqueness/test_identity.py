"""People who share a record: against sums, simulation, NUTS, and a population that is known."""

from __future__ import annotations

import copy
import dataclasses
import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import anonbayes as ab
from anonbayes import compat
from anonbayes.errors import AnonbayesError
from anonbayes.reporting.sections import standing_out
from anonbayes.uniqueness.gibbs import (
    count_tables,
    log_pooling,
    log_sizes,
    log_whole,
    reseat,
)
from anonbayes.uniqueness.mixture import POOLING_MEAN, POOLING_SD, draw_theta, splits_of
from anonbayes.uniqueness.people_beyond import (
    QUADRATURE,
    MixtureEngine,
    look_ahead,
    match_probability,
)
from anonbayes.uniqueness.sample import beyond_sample, minimal_uniques, read_sample
from anonbayes.uniqueness.split_merge import split_or_merge

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
            population.iloc[places],
            population=4000,
            draws=60,
            chains=1,
            classes=15,
            seed=seed,
            **QUIET,
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


def test_unique_people_outside_the_sample_are_a_share_of_those_in_it():
    """With nobody else to share a record, those outside are a beta-binomial number by stratum."""
    frame = pd.DataFrame({"x": [f"v{i}" for i in range(40)] + ["common"] * 60})
    sample = read_sample(
        frame, weights=None, attributes=None, household=None, strata=None, domains=None
    )
    beyond = beyond_sample(sample, 1100, weighted=False, strata=None)
    once = sample.records.rows == 1
    log_p = np.where(once, -800.0, -0.5)
    rng, out = np.random.default_rng(1), np.zeros(6)
    drawn = []
    for _ in range(4000):
        sums, people = np.zeros((5, len(once))), np.empty(len(once))
        look_ahead(log_p, sample.records, beyond, *QUADRATURE, sums, people, out, rng)
        assert people.min() >= 1 and (people[once] == 1).all()
        assert out[0] == 40
        drawn.append(out[5] - 40)
    want = stats.betabinom(1000, 40.5, 60.5)
    assert abs(np.mean(drawn) - want.mean()) < 4 * want.std() / np.sqrt(4000)
    assert np.std(drawn) == pytest.approx(want.std(), rel=0.06)


def dirichlet(rng, shapes):
    """Dirichlet draws along the last axis, by gammas whose small shapes do not underflow."""
    logs = np.log(rng.gamma(shapes + 1.0)) - rng.exponential(size=shapes.shape) / shapes
    draws = np.exp(logs - logs.max(axis=-1, keepdims=True))
    return draws / draws.sum(axis=-1, keepdims=True)


def prior_mixtures(rng, n, lengths):
    """Mixtures of three products drawn from the prior, in plain NumPy."""
    concentration = rng.gamma(1.0, 1.0, n)
    weights = dirichlet(rng, np.tile(np.maximum(concentration, 1e-9)[:, None] / 3, (1, 3)))
    thetas = []
    for length in lengths:
        kappa = np.exp(rng.normal(POOLING_MEAN, POOLING_SD, n))
        gamma = np.abs(rng.standard_cauchy(n))
        margin = dirichlet(rng, np.tile(gamma[:, None] / length, (1, length)))
        shapes = np.maximum(kappa[:, None] * margin, 1e-12)
        thetas.append(dirichlet(rng, np.tile(shapes[:, None, :], (1, 3, 1))))
    return weights, thetas


def test_gibbs_agrees_with_importance_sampling():
    """Share of each record in the population, from 400,000 draws of the prior."""
    frame = pd.DataFrame({"x": list("aaabbbba"), "y": list("uuvwwwvu")})
    weights, (x, y) = prior_mixtures(np.random.default_rng(1), 400_000, (2, 3))
    cells = np.einsum("nc,nci,ncj->nij", weights, x, y)
    rows = frame.apply(lambda r: ("ab".index(r["x"]), "uvw".index(r["y"])), axis=1)
    likelihood = np.prod([cells[:, i, j] for i, j in rows], axis=0)
    likelihood /= likelihood.sum()
    want = np.array([(likelihood * cells[:, i, j]).sum() for i, j in rows])
    spread = [
        np.sum(likelihood**2 * (cells[:, i, j] - w) ** 2)
        for (i, j), w in zip(rows, want, strict=True)
    ]
    settings = {"classes": 3, "draws": 1500, "chains": 2, "seed": 1}
    who = ab.identity(frame, population=1008, domains={"x": "ab", "y": "uvw"}, **settings, **QUIET)
    share = (who.rows["people"] - who.rows["sample_frequency"]).to_numpy() / 1000
    # draws are 20 sweeps apart and hardly correlated
    error = np.sqrt(np.array(spread) + 0.01 / (2 * 1500 / 2))
    assert (np.abs(share - want) < 4 * error).all(), (share, want, error)


def test_seats_are_drawn_from_all_ways_to_put_rows_into_classes():
    """Four rows in two classes: 16 ways with ``theta`` integrated out."""
    people = {"x": [1, 2, 2, 5], "y": list("uvvu")}
    sample = read_sample(
        pd.DataFrame(people), weights=None, attributes=["x", "y"], household=None, strata=None,
        domains={"x": range(1, 7), "y": "uv"},
    )  # fmt: skip
    records, rng = sample.records, np.random.default_rng(1)
    shares = np.array([0.7, 0.3])
    kappa = np.linspace(0.6, 2.0, len(records.pool_mean))
    margin = np.full(len(records.slot_first), 0.5)
    rows = np.repeat(np.arange(len(records.rows)), records.rows)
    mass = (records.mass / records.rows)[rows]
    value = records.cell_values[records.cell_start[records.cells[rows]]]
    inside = [((a <= value) & (value < b)).any(axis=1)
              for a, b in zip(records.slot_first, records.slot_last, strict=True)]  # fmt: skip
    want = {}
    for seats in itertools.product(range(2), repeat=len(rows)):
        of_class = np.array(seats) == np.arange(2)[:, None]
        logs = np.log(shares[list(seats)]).sum()
        for i, pool in enumerate(records.pool):
            first, last = records.slot_start[i : i + 2]
            counts = of_class @ (np.array(inside[first:last]) * mass).T
            logs += log_pooling(counts, margin[first:last], kappa[pool])
        want[seats] = np.exp(logs)
    n_cells, n_drawn = len(records.cell_start) - 1, 20_000
    rows_in, mass_in = np.zeros((n_cells, 2), dtype=np.int64), np.zeros((n_cells, 2))
    for row, one in zip(rows, mass, strict=True):
        rows_in[records.cells[row], 0] += 1
        mass_in[records.cells[row], 0] += one
    seats, in_class = np.zeros(len(rows), dtype=np.int32), np.array([mass.sum(), 0.0])
    drawn = dict.fromkeys(want, 0)
    for _ in range(n_drawn):
        reseat(
            shares, np.ones((n_cells, 2)), records, 9, margin, kappa, in_class, rows_in, mass_in,
            seats, rng,
        )  # fmt: skip
        drawn[tuple(seats.tolist())] += 1
    for row in range(2):
        assert in_class[row] == pytest.approx(mass[seats == row].sum(), abs=1e-9)
        assert (rows_in[:, row].sum(), mass_in[:, row].sum()) == pytest.approx(
            (2 * (seats == row).sum(), 2 * in_class[row])
        )
    for seats, share in want.items():
        share /= sum(want.values())
        error = np.sqrt(share * (1 - share) / (n_drawn / 4))  # neighbours are correlated
        assert abs(drawn[seats] / n_drawn - share) < 4.5 * error, (seats, drawn[seats], share)


def test_classes_are_split_and_merged_as_often_as_all_ways_to_seat_rows_say():
    """Five rows in three classes: 243 ways, shares of values and of classes integrated out."""
    people = {"x": [1, 2, 2, 5, 6], "y": list("uvvuv")}
    sample = read_sample(
        pd.DataFrame(people), weights=None, attributes=None, household=None, strata=None,
        domains={"x": range(1, 7), "y": "uv"},
    )  # fmt: skip
    records, rng, concentration = sample.records, np.random.default_rng(1), 1.7
    kappa = np.linspace(0.6, 2.0, len(records.pool_mean))
    margin = np.full(len(records.slot_first), 0.5)
    rows = np.repeat(np.arange(len(records.rows)), records.rows)
    mass = (records.mass / records.rows)[rows]
    value = records.cell_values[records.cell_start[records.cells[rows]]]
    inside = [((a <= value) & (value < b)).any(axis=1)
              for a, b in zip(records.slot_first, records.slot_last, strict=True)]  # fmt: skip
    want = {}
    for seats in itertools.product(range(3), repeat=len(rows)):
        of_class = np.array(seats) == np.arange(3)[:, None]
        logs = log_sizes(of_class @ mass, concentration)
        for i, pool in enumerate(records.pool):
            first, last = records.slot_start[i : i + 2]
            counts = of_class @ (np.array(inside[first:last]) * mass).T
            logs += log_pooling(counts, margin[first:last], kappa[pool])
        want[seats] = np.exp(logs)
    n_cells, n_drawn = len(records.cell_start) - 1, 40_000
    rows_in, mass_in = np.zeros((n_cells, 3), dtype=np.int64), np.zeros((n_cells, 3))
    for row, one in zip(rows, mass, strict=True):
        rows_in[records.cells[row], 0] += 1
        mass_in[records.cells[row], 0] += one
    seats, in_class = np.zeros(len(rows), dtype=np.int32), np.array([mass.sum(), 0.0, 0.0])
    shares = np.ones((n_cells, 3))
    drawn = np.zeros(n_drawn, dtype=np.int64)
    for i in range(n_drawn):
        split_or_merge(
            records, shares, margin, kappa, concentration, in_class, rows_in, mass_in, seats, rng
        )
        drawn[i] = np.dot(seats, 3 ** np.arange(len(rows))[::-1])
    for c in range(3):
        assert in_class[c] == pytest.approx(mass[seats == c].sum(), abs=1e-9)
        assert (rows_in[:, c].sum(), mass_in[:, c].sum()) == pytest.approx(
            (2 * (seats == c).sum(), 2 * in_class[c])
        )
    chance = np.array(list(want.values()))
    chance /= chance.sum()
    share = np.bincount(drawn, minlength=243) / n_drawn
    error = np.sqrt(chance * (1 - chance) / (n_drawn / 30))  # neighbours are correlated
    assert (np.abs(share - chance) < 4.5 * error).all()
    apart = [len(set(seats)) for seats in want]
    for number in (1, 2, 3):
        of = np.array(apart) == number
        blocks = of[drawn].reshape(50, -1).mean(axis=1)
        assert abs(blocks.mean() - chance[of].sum()) < 4.5 * blocks.std() / np.sqrt(50)


def test_one_attribute_of_known_values_is_dirichlet():
    """With nothing but one column, the posterior mean of a share lies between two closed forms.

    Whatever the margin, ``kappa`` and the classes: all shares are shrunk from those of the sample
    towards each other, so a rare value gains and a common one loses, and their order stays.
    """
    frame = pd.DataFrame({"x": ["a"] * 60 + ["b"] * 30 + ["c"] * 10})
    who = ab.identity(
        frame, population=1100, domains={"x": "abc"}, draws=100, chains=2, seed=1, **QUIET
    )
    share = (who.rows["people"] - who.rows["sample_frequency"]).groupby(frame["x"]).first() / 1000
    assert share.sum() == pytest.approx(1, abs=1e-9)  # closed: nothing is left for others
    assert 1 / 3 < share["a"] < 0.62 and 0.09 < share["c"] < 1 / 3
    open_ = ab.identity(frame, population=1100, draws=100, chains=2, seed=1, **QUIET)
    left = (open_.rows["people"] - open_.rows["sample_frequency"]).groupby(frame["x"]).first()
    assert 0.9 < left.sum() / 1000 < 1  # open: a little is


@pytest.mark.parametrize(("rows", "weight"), [(1, 0.3), (5, 0.3), (40, 2.5), (300, 40.0)])
def test_tables_of_a_restaurant(rows, weight):
    """Mean and variance of a sum of independent coins."""
    chance = weight / (weight + np.arange(rows))
    rng = np.random.default_rng(rows)
    drawn = np.array([count_tables(rows, weight, rng) for _ in range(4000)])
    sd = np.sqrt((chance * (1 - chance)).sum())
    assert abs(drawn.mean() - chance.sum()) <= 4 * sd / np.sqrt(4000)
    assert drawn.std() == pytest.approx(sd, rel=0.08)


@pytest.mark.parametrize(("gamma", "missed"), [(0.7, 1), (5.0, 2)])
def test_tables_by_order_of_appearance_have_the_probability_of_all_their_labels(gamma, missed):
    """AAB is any of the sequences xxy of five or six values: summed up one by one."""
    size = 3 + missed
    want = 0.0
    for drawn in itertools.product(range(size), repeat=5):
        first = list(dict.fromkeys(drawn))
        if [first.index(x) for x in drawn] == [0, 0, 1, 2, 1]:
            chance, seen = 1.0, [gamma / size] * size
            for x in drawn:
                chance *= seen[x] / sum(seen)
                seen[x] += 1
            want += chance
    assert log_whole(np.array([2, 2, 1, 0]), gamma, float(missed)) == pytest.approx(np.log(want))


def test_numbers_are_halved_and_parts_add_up():
    """Shares of a tree: means of Beta variables, multiplied down to each value."""
    assert splits_of(5, missed=False, ordered=True).depth == [1, 2, 2, 3]
    frame = pd.DataFrame({"x": [1, 2, 2, 3, 5, 6, 6, 6, 4, 4]})
    sample = read_sample(
        frame, weights=None, attributes=None, household=None, strata=None,
        domains={"x": list(range(1, 7))},
    )  # fmt: skip
    records = sample.records
    rng = np.random.default_rng(3)
    margin = np.full(len(records.slot_first), 0.5)
    kappa = np.full(len(records.pool_mean), 4.0)
    counts = np.array([frame["x"].between(a + 1, b).sum() for a, b in zip(
        records.slot_first, records.slot_last, strict=True)], dtype=float)  # fmt: skip
    theta = np.empty((20_000, 6))
    none = np.zeros(20_000, dtype=bool)
    draw_theta(np.tile(counts, (20_000, 1)), records, margin, kappa, none, theta, rng)
    assert np.allclose(theta.sum(axis=1), 1)

    def half(own, other):
        return (2 + own) / (4 + own + other)

    left, right = half(4, 6), half(6, 4)  # 1 to 3 against 4 to 6
    want = [
        left * half(1, 3), left * half(3, 1) * half(2, 1), left * half(3, 1) * half(1, 2),
        right * half(2, 4), right * half(4, 2) * half(1, 3), right * half(4, 2) * half(3, 1),
    ]  # fmt: skip
    assert np.abs(theta.mean(axis=0) - want).max() < 4 * theta.std(axis=0).max() / np.sqrt(20_000)


def test_minimal_uniques_are_those_of_all_sets():
    """Against every set of attributes, looked at by itself."""
    rng = np.random.default_rng(2)
    cells = np.unique(rng.integers(0, 3, (25, 4)), axis=0)
    rows = rng.choice([1, 1, 2], len(cells))
    people = np.repeat(cells, rows, axis=0)
    smallest, sets, score, parts = minimal_uniques(cells, rows, 3)
    for d, cell in enumerate(cells):
        singled = [
            s
            for k in (1, 2, 3)
            for s in itertools.combinations(range(4), k)
            if (people[:, s] == cell[list(s)]).all(axis=1).sum() == 1
        ]
        minimal = [s for s in singled if not any(set(t) < set(s) for t in singled)]
        assert sets[d] == len(minimal)
        assert smallest[d] == min(map(len, minimal), default=0)
        worth = [{1: 3 * 2 * 1, 2: 2 * 1, 3: 1}[len(s)] for s in minimal]
        assert score[d] == sum(worth)
        for a in range(4):
            assert parts[d, a] == sum(w for s, w in zip(minimal, worth, strict=True) if a in s)


def test_the_pymc_model_has_the_same_likelihood():
    frame = pd.DataFrame({"x": list("aaabb"), "y": list("uuvwv")})
    model = ab.identity_model(frame, classes=2, domains={"x": "ab", "y": "uvw"})
    start = model.initial_point()
    for name in ("x", "y"):  # uniform in both classes
        start[f"theta_{name}_simplex__"] = 0 * start[f"theta_{name}_simplex__"]
    density = model.compile_logp(vars=model.potentials, mode="FAST_COMPILE")
    assert density(start) == pytest.approx(5 * np.log(1 / 6))


def test_sets_of_one_value_are_values():
    """A release whose cells are single values gives what its cleartext gives, to the last bit."""
    frame = ab.datasets.load("clinic").head(300)[["age", "sex", "zip", "diagnosis"]].astype(str)
    table = ab.ReleasedTable.horizontal(frame, sensitive="diagnosis")
    names = ["age", "sex", "zip"]
    settings = {"population": 6000, "draws": 20, "chains": 2, "seed": 1, **QUIET}
    one = ab.identity(table, **settings)
    domains = {name: list(table.columns[name].domain.values) for name in names}
    two = ab.identity(frame[names], domains=domains, **settings)
    assert one.summary["estimate"].sub(two.summary["estimate"]).abs().max() < 40
    assert np.corrcoef(one.rows["people"], two.rows["people"])[0, 1] > 0.95


def test_coarse_cells_have_more_people():
    clinic = ab.datasets.load("clinic").drop(columns="diagnosis")
    clear = ab.identity(clinic, population=30_000, draws=10, chains=2, seed=1, **QUIET)
    release = ab.datasets.load("clinic_local")
    coarse = ab.identity(release, population=30_000, draws=10, chains=2, seed=1, **QUIET)
    assert coarse.summary.loc["unique_in_population", "estimate"] == 0
    assert coarse.summary.loc["k_map", "low"] >= release.k
    assert coarse.summary.loc["bits", "high"] < clear.summary.loc["bits", "low"]
    assert "population_uniques" not in coarse.summary.index


def test_a_channel_lies_between_the_cleartext_and_no_column_at_all():
    """People share a report as far as their values explain it, by the budget."""
    clinic = ab.datasets.load("clinic")[["age", "sex", "profession", "diagnosis"]].head(300)
    domain = ab.Domain("profession", sorted(set(clinic["profession"])))
    settings = {"population": 6000, "draws": 40, "chains": 2, "seed": 1, **QUIET}

    def matches(data):
        return ab.identity(data, **settings).summary.loc["matches"]

    clear = matches(clinic.drop(columns="diagnosis"))
    without = matches(clinic[["age", "sex"]])
    assert clear["low"] > 1.5 * without["high"]
    found = {}
    for epsilon in (0.01, 1.5, 12.0):
        channel = ab.RandomizedResponse(domain, epsilon=epsilon)
        sent = clinic.assign(profession=channel.release(list(clinic["profession"]), seed=1))
        table = ab.ReleasedTable.horizontal(sent, "diagnosis", channels={"profession": channel})
        found[epsilon] = matches(table)
    # reports of a channel that tells nothing split rows of the sample, but nobody by his values
    assert found[12.0]["estimate"] == pytest.approx(clear["estimate"], rel=0.12)
    assert without["estimate"] * 0.8 < found[0.01]["estimate"] < without["estimate"] * 1.25
    assert found[0.01]["estimate"] < found[1.5]["estimate"] < found[12.0]["estimate"]


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
    who = ab.identity(sample, weights="w", draws=30, seed=1, **QUIET)
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
    who = ab.identity(frame, population=2000, draws=20, chains=2, seed=1, **QUIET)
    gains = who.contributions()
    assert (gains["rare"] > gains["common"]).all() and len(gains) == 10


def test_same_seed_same_numbers_and_copies():
    frame = ab.datasets.load("clinic").head(200)[["age", "sex", "zip"]]
    runs = [ab.identity(frame, population=4000, draws=10, seed=7, cores=c, **QUIET) for c in (1, 2)]
    pd.testing.assert_frame_equal(runs[0].summary, runs[1].summary)
    pd.testing.assert_frame_equal(runs[0].rows, pickle.loads(pickle.dumps(runs[1])).rows)
    assert "4,000 people" in str(copy.deepcopy(runs[0])) and "<table" in runs[0]._repr_html_()
    judged = ab.diagnose(runs[0])  # numbers that do not depend on the order of classes
    assert "classes_used" not in judged.table.index and "bits" in judged.table.index


def test_chains_are_judged_by_answers_and_fail_where_these_differ(monkeypatch):
    """Chains of one sample agree; those of other people, or one that is stuck, disagree."""
    whos = []
    for seed in (1, 2):
        people = classes_of(np.random.default_rng(seed), 300)
        whos.append(ab.identity(people, population=3000, draws=200, classes=15, seed=1, **QUIET))
    judged = ab.diagnose(whos[0])
    assert judged.passed, judged.text
    assert "population_uniques" in judged.table.index and "classes_used" not in judged.table.index
    chains = [compat.posterior_dataset(who.idata) for who in whos]
    names = ["unique_in_population", "population_uniques", "matches_of_uniques", "bits"]
    mixed = {k: np.concatenate([c[k].to_numpy()[:2] for c in chains]) for k in names}
    apart = ab.diagnose(dataclasses.replace(whos[0], idata=compat.make_idata({"posterior": mixed})))
    assert not apart.passed and "do not agree" in apart.text
    sweep = MixtureEngine.sweep

    def stuck(self, live, rng):
        known = {name: array.copy() for name, array in live.items()}
        found = sweep(self, live, rng)
        if known["n_swept"][0] >= 30:
            live |= {name: known[name] for name in ("theta", "weights", "kappa", "margin")}
        return found

    monkeypatch.setattr(MixtureEngine, "sweep", stuck)
    people = classes_of(np.random.default_rng(1), 300)
    one = ab.identity(people, population=3000, draws=200, classes=15, chains=1, seed=2, **QUIET)
    alone = compat.posterior_dataset(one.idata)
    mixed = {k: np.concatenate([chains[0][k].to_numpy()[:3], alone[k].to_numpy()]) for k in names}
    judged = ab.diagnose(
        dataclasses.replace(whos[0], idata=compat.make_idata({"posterior": mixed}))
    )
    assert not judged.passed and "do not agree" in judged.text


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"attributes": ["x"]}, "population="),
        ({"population": 2, "attributes": ["x"]}, "smaller than the sample"),
        ({"population": 10.5, "attributes": ["x"]}, "whole number"),
        ({"weights": "w", "attributes": ["x"]}, "row 1"),
        ({"weights": "v"}, "'v'"),
        ({"weights": "few", "attributes": ["x"]}, "sum of the weights"),
        ({"population": 9, "attributes": ["x"], "household": "gap"}, "'gap': row 2"),
        ({"population": 9, "attributes": ["z"]}, "'z'"),
        ({"population": 9, "attributes": []}, "at least one"),
        ({"population": 9, "attributes": ["gap"]}, "row 2"),
        ({"population": 9, "attributes": ["x"], "classes": 1}, "classes"),
        ({"population": 9, "attributes": ["x"], "probability": 1.0}, "probability"),
        ({"population": 10**16, "attributes": ["x"]}, "at most"),
        ({"weights": "gap", "attributes": ["x"]}, "'gap': row 0"),
    ],
)
def test_bad_input_is_named(settings, words):
    frame = pd.DataFrame({"x": list("abc"), "w": [1.0, 0.0, 2.0], "gap": ["u", "v", None]})
    frame["few"] = 0.1
    with pytest.raises(AnonbayesError, match=words):
        ab.identity(frame, **settings, **QUIET)


@pytest.mark.parametrize("kind", [str, float])
def test_values_that_all_differ_are_of_many_that_the_sample_has_missed(kind):
    """Of 1,000 people with values of their own, or one for two, or for ten, a fifth is asked."""
    rng, found = np.random.default_rng(1), []
    numbers = np.exp(3 * rng.normal(size=1000))  # no even steps
    for shared in (1, 2, 10):
        values = np.repeat(numbers[: 1000 // shared], shared)
        sample = pd.DataFrame({"x": [kind(v) for v in rng.choice(values, 200, replace=False)]})
        sample["x"] = sample["x"].map(lambda v: f"id {v}") if kind is str else sample["x"]
        who = ab.identity(sample, population=1000, draws=30, chains=2, seed=1, **QUIET)
        found.append(who.summary.loc["matches", "estimate"])
    # 200, 100 and 20 matches are true; twins are told from others by 20 pairs in the sample only
    assert found[0] > 150 and 60 < found[1] < 140 and 16 < found[2] < 30


def test_constant_columns_and_all_different_rows():
    frame = pd.DataFrame({"x": ["a"] * 50, "y": range(50)})
    who = ab.identity(frame, population=500, draws=30, seed=1, **QUIET)
    assert who.summary.loc["sample_uniques", "estimate"] == 50
    assert 0 <= who.summary.loc["unique_in_population", "low"] <= 50


def test_strata_may_be_sampled_as_densely_as_one_likes():
    """Everybody of a small stratum is in the sample, a tenth of the large one."""
    rng = np.random.default_rng(4)
    town = np.repeat(["small", "large"], [500, 5000])
    x = np.where(town == "small", rng.choice(40, 5500), rng.choice(25, 5500) + 30)
    population = pd.DataFrame({"x": x, "town": town})
    dense = population[:500]
    thin = population[500:].sample(500, random_state=1)
    sample = pd.concat([dense, thin])
    who = ab.identity(
        sample, population={"small": 500, "large": 5000}, strata="town", draws=60, seed=1, **QUIET
    )
    assert who.population == 5500
    shared = population.groupby(["x", "town"]).size()
    people = shared.loc[list(zip(sample["x"], sample["town"], strict=True))].to_numpy()
    estimate = who.rows["people"].to_numpy()
    # everybody is known
    assert estimate[:500] == pytest.approx(who.rows["sample_frequency"].to_numpy()[:500])
    # 200 people each; without strata it would be 4500 / 50 + 20 = 110
    assert estimate[500:].mean() == pytest.approx(people[500:].mean(), rel=0.1)
    line = who.summary.loc["population_uniques"]
    assert line["low"] <= (shared == 1).sum() <= line["high"]
    gains = who.contributions([0, 1])
    assert gains.abs().max().max() <= 1 and list(gains) == ["x", "town"]
    for wrong, words in (
        (5500, "'small'"), ({"small": 500}, "'large'"), ({"small": 400, "large": 9000}, "fewer"),
        ({"small": 500, "large": 5000, "tiny": 3}, "'tiny'"),
    ):  # fmt: skip
        with pytest.raises(AnonbayesError, match=words):
            ab.identity(sample, population=wrong, strata="town", **QUIET)


def test_intervals_of_rows_are_those_of_a_known_population():
    """The chance given the true share lies in a row's interval nine times in ten, or nearly."""
    rng = np.random.default_rng(8)
    theta = rng.dirichlet(np.full(60, 0.8))
    sample = pd.DataFrame({"x": [f"v{i}" for i in rng.choice(60, 300, p=theta)]})
    who = ab.identity(sample, population=3000, draws=100, chains=2, seed=1, **QUIET)
    one = who.rows.drop_duplicates().assign(x=sample["x"])
    share = theta[one["x"].str[1:].astype(int)]
    right = [match_probability(f, 2700.0, p, *QUADRATURE)
             for f, p in zip(one["sample_frequency"], share, strict=True)]  # fmt: skip
    inside = (one["match_low"] <= right) & (right <= one["match_high"])
    assert inside.mean() > 0.9 - 3 * np.sqrt(0.9 * 0.1 / len(one))
    assert (who.rows["unique_low"] <= who.rows["unique"]).all()
    assert (who.rows["unique"] <= who.rows["unique_high"]).all()


def test_tables_of_more_cells_than_can_be_counted():
    """Forty columns of ten values have 10^40 cells; records of 300 columns underflow a product."""
    rng = np.random.default_rng(3)
    wide = pd.DataFrame(rng.choice(list("abcdefghij"), (60, 300))).rename(columns=str)
    for n in (40, 300):
        who = ab.identity(
            wide.iloc[:, :n], population=10**9, draws=2, tune=3, chains=1, seed=1, **QUIET
        )
        assert who.summary.loc["unique_in_population", "estimate"] == 60
    with pytest.raises(AnonbayesError, match="largest"):
        who.minimal_uniques()


def test_pie_is_asked_of_the_same_posterior():
    frame = pd.DataFrame({"x": list("aabbbc"), "y": list("uuvvvw")})
    said = ab.pie.release_information(
        ab.identity(frame, population=6, draws=20, seed=1, **QUIET)
    ).summary
    assert said["bits"] == pytest.approx((6 * np.log2(6) - 2 * 1 - 3 * np.log2(3)) / 6)
    assert said["possible_bits"] == pytest.approx(np.log2(6)) and said["error"] == pytest.approx(
        0.5
    )


def test_the_report_shows_people_as_whole_numbers_in_the_order_of_the_summary():
    frame = pd.DataFrame({"x": range(30), "y": ["u", "v"] * 15})
    found = {
        name: ab.identity(data, population=10**6, draws=5, chains=1, seed=1, **QUIET)
        for name, data in (("release", frame[["y"]]), ("cleartext", frame))
    }
    lines = standing_out(found).rows
    assert [line[0] for line in lines] == found["cleartext"].summary["meaning"].tolist()
    assert not any("e+" in cell or "0.00 " in cell for line in lines for cell in line[1:])
    assert lines[0][1:] == ["0", "30"]
