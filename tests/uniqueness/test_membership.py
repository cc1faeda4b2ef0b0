"""Membership: enumeration of small populations, brute force, and people whose answer is known."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter, defaultdict

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats

import anonbayes as ab
from anonbayes.errors import AnonbayesError, CellError, TableError
from anonbayes.uniqueness.membership import RecordTree, expected_share, smallest_groups


def rising(weights, counts):
    """Probability of a sequence with these counts under a Dirichlet prior (Polya's urn)."""
    top = math.prod(math.prod(w + i for i in range(counts[k])) for k, w in enumerate(weights))
    return top / math.prod(sum(weights) + i for i in range(sum(counts.values())))


@pytest.mark.parametrize("cells", [("a", "b", "c"), ("ab", "ab", "c")])
def test_every_small_population_agrees(cells):
    """All populations of 5 people, 2 of them in the table, and registers of 2 others.

    The victim is any of the 5; what is seen of the table is a count for each of `cells`.
    """
    n, outside, others = 2, 3, 2
    weights = [1.2, 0.5, 2.3]
    seen = defaultdict(lambda: np.zeros((3, 2)))
    for world in itertools.product(range(3), repeat=n + outside + others):
        chance = rising(weights, Counter(world))
        release = tuple(sorted(cells[k] for k in world[:n]))
        register = tuple(sorted(world[n + outside :]))
        for k in world[:n]:
            seen[release, register][k, 0] += chance
        for k in world[n : n + outside]:
            seen[release, register][k, 1] += chance
    groups = sorted(set(cells))
    of = np.array([groups.index(c) for c in cells])
    foretold = np.bincount(of, np.array(weights) / 4)
    for (release, register), mass in seen.items():
        rows = np.array([release.count(g) for g in groups], dtype=float)
        people = np.bincount(of[list(register)], minlength=len(groups)).astype(float)
        # The last group takes the place of everybody who is in none.
        p = expected_share(foretold, rows, people, shape=4 * foretold)
        for k in np.flatnonzero(mass.sum(axis=1)):
            stated = rows[of[k]] / (rows[of[k]] + outside * p[of[k]])
            # E[n_r] is the group's rows times r's share of it, which E[X_r] has as well.
            assert stated == pytest.approx(mass[k, 0] / mass[k].sum(), abs=1e-12)


def test_the_share_of_a_group_is_that_of_its_gamma_posterior():
    foretold, rows, people = np.array([0.01, 0.99]), np.array([3.0, 40.0]), np.array([5.0, 200.0])
    shape = np.array([0.7, 9.0])
    grid = np.linspace(1e-6, 0.2, 400_001)
    density = stats.gamma.pdf(grid, 0.7, scale=0.01 / 0.7) * stats.poisson.pmf(3, 43 * grid)
    density *= stats.poisson.pmf(5, 205 * grid)
    exact = (grid * density).sum() / density.sum()
    assert expected_share(foretold, rows, people, shape=shape)[0] == pytest.approx(exact, rel=1e-4)


def test_how_far_the_tree_is_trusted_is_learned():
    """Groups that differ from what is foretold by a known factor; the counts are Poisson."""
    rng = np.random.default_rng(5)
    foretold = rng.dirichlet(np.ones(400))
    for shape, tolerance in ((0.5, 0.35), (50.0, 0.35)):
        p = foretold * rng.gamma(shape, 1 / shape, 400)
        rows, people = rng.poisson(500 * p).astype(float), rng.poisson(5000 * p).astype(float)
        learned = expected_share(foretold, rows, people)
        known = (shape + rows + people) / (shape / foretold + rows.sum() + people.sum())
        loss = [np.abs(x - p).sum() for x in (learned, known, foretold, people / 5000)]
        # As good as whoever knows the shape, within some of what the worse rival loses.
        assert loss[0] - loss[1] < tolerance * (max(loss[2:]) - loss[1])


def test_the_tree_is_a_distribution_and_sums_over_cells():
    rng = np.random.default_rng(2)
    sizes = np.array([3, 4, 2])
    every = np.array(list(itertools.product(*map(range, sizes))))
    first = rng.integers(0, 3, 900)
    codes = np.stack([first, (first + rng.integers(0, 2, 900)) % 4, first % 2], axis=1)
    tree = RecordTree.of(codes, np.ones(900), sizes)
    single = tuple(sparse.csr_array(np.eye(k)) for k in sizes)
    p = tree.share(every)
    np.testing.assert_allclose(tree.mass(every, single), p)
    assert p.sum() == pytest.approx(1)
    shares = np.array([(codes == r).all(axis=1).mean() for r in every])
    assert 0.5 * np.abs(p - shares).sum() < 0.05  # dependence is there; the product has 0.6
    wide = tuple(sparse.csr_array(np.vstack([np.eye(k), np.ones(k)])) for k in sizes)
    cells = np.array([[3, 1, 2], [0, 4, 2], [2, 4, 1]])
    inside = [
        [all(c == k or c == size for c, k, size in zip(cell, r, sizes, strict=True)) for r in every]
        for cell in cells
    ]
    np.testing.assert_allclose(tree.mass(cells, wide), np.array(inside) @ p, rtol=1e-12)


@pytest.fixture(scope="module")
def clinic():
    return ab.datasets.load("clinic")


@pytest.fixture(scope="module")
def local(clinic):
    trees = ab.datasets.hierarchies("clinic")
    return ab.anonymize.recode(clinic[:800], "diagnosis", trees, k=5, local=True)


def test_everybody_is_in_the_smallest_group_that_covers_them(clinic, local):
    """Local recoding: groups of different passes overlap, yet nobody is in a larger one."""
    frame = local.to_frame()
    codes = np.stack(
        [[local.domains[n].index(v) for v in clinic[n][:800]] for n in local.attributes], axis=1
    )
    place = smallest_groups(local, codes)
    shown = frame.groupby(list(local.attributes), sort=False).ngroup()
    assert (pd.Series(place).groupby(shown).nunique() == 1).all()
    assert len(set(place)) == frame[list(local.attributes)].drop_duplicates().shape[0]


@pytest.fixture(scope="module")
def found(clinic):
    table = ab.anonymize.anatomy(clinic[:1000], "diagnosis", 3, seed=1)
    return ab.membership(table, clinic[:1000], register=clinic[1000:], folds=5)


def test_measures_are_those_of_the_rows(found):
    rows = found.rows
    inside, outside = (rows.loc[rows["member"] == m, "probability"] for m in (True, False))
    pairs = inside.to_numpy()[:, None] - outside.to_numpy()
    area = (pairs > 0).mean() + 0.5 * (pairs == 0).mean()
    summary = found.summary["estimate"]
    assert summary["auc"] == pytest.approx(area, abs=1e-12)
    ordered = np.sort(outside)
    assert ordered[-21] < ordered[-20]  # 20 of 2,000 are 1 %: everybody above the 21st is named
    assert summary["tpr_at_1_percent"] == pytest.approx((inside > ordered[-21]).mean(), abs=1e-12)
    assert found.roc.iloc[-1][["fpr", "tpr"]].tolist() == [1, 1]
    stated = rows["fitting"] / (rows["fitting"] + rows["expected"])
    pd.testing.assert_series_equal(rows["probability"], stated, check_names=False)
    line = found.summary.loc["auc"]
    n = (len(inside), len(outside))
    hanley = math.sqrt(area * (1 - area) / min(n))  # an upper bound of the standard error
    assert 0 < line["high"] - line["low"] < 2 * 1.96 * hanley


def test_what_is_stated_is_true_as_often(found):
    """Of 3,000 people of a clinic 1,000 are in an Anatomy; bins keep to their intervals."""
    table = found.calibration
    assert table["people"].sum() == pytest.approx(3000) and len(table) >= 8
    off = np.abs(table["stated"] - table["observed"]) * np.sqrt(table["people"])
    off /= np.sqrt(table["stated"] * (1 - table["stated"]) + 1e-4)
    assert (off < 3.5).all(), table
    assert found.summary.loc["auc", "low"] > 0.85
    assert abs(found.summary.loc["auc_without_table", "estimate"] - 0.5) < 0.05
    loss = found.summary["estimate"]
    assert loss["log_loss"] < loss["log_loss_without_table"] - 0.1


def test_larger_populations_make_members_less_sure(clinic, found):
    table = found._table
    more = ab.membership(table, clinic[:1000], register=clinic[1000:], population=101_000, folds=5)
    odds = [r.rows["probability"] / (1 - r.rows["probability"]) for r in (found, more)]
    positive = found.rows["fitting"] > 0
    np.testing.assert_allclose(odds[0][positive], 50 * odds[1][positive], rtol=1e-9)
    assert more.calibration["people"].sum() == pytest.approx(101_000)
    one = clinic.iloc[3].drop("diagnosis").to_dict()
    alone = more.probability(one)
    assert alone.iloc[0] == more.probability(clinic[:10]).iloc[3]


def test_coarse_groups_tell_little(clinic, local):
    found = ab.membership(local, clinic[:800], register=clinic[800:], folds=3)
    assert found.summary.loc["auc", "estimate"] < 0.65
    assert found.remarks == () and "register of 2,200" in found.reference
    assert math.isfinite(found.summary.loc["tpr_at_0_1_percent", "estimate"])
    few = ab.membership(local, clinic[:800], register=clinic[800:1200], folds=3)
    assert math.isnan(few.summary.loc["tpr_at_0_1_percent", "estimate"])
    assert json.loads(few.to_json())["measures"]["tpr_at_0_1_percent"]["estimate"] is None
    assert "<p>" in few._repr_html_()
    ax = few.plot_roc()
    ax.figure.canvas.draw()
    assert ax.get_xscale() == "log"
    assert not ax.get_legend().get_window_extent().overlaps(ax.get_window_extent())


def test_the_population_may_be_learned_from_the_table_alone(clinic):
    values = {n: sorted(set(clinic[n])) for n in clinic.columns}
    table = ab.anonymize.anatomy(clinic[:300], "diagnosis", 3, seed=1, domains=values)
    who = ab.identity(table, population=3000, draws=10, chains=1, seed=1, progressbar=False)
    found = ab.membership(table, clinic[:300], register=clinic[300:], reference=who)
    shares = who.rows["sample_frequency"] / who.rows["people"]
    by_record = clinic[:300][list(table.attributes)].apply(tuple, axis=1)
    qit = table.to_frames()[0][list(table.attributes)].apply(tuple, axis=1)
    expected = by_record.map(dict(zip(qit, shares, strict=True)))
    np.testing.assert_allclose(found.rows["probability"][:300], expected, rtol=1e-9)
    assert found.reference == "the table alone"
    with pytest.raises(AnonbayesError, match="same table"):
        other = ab.anonymize.anatomy(clinic[:400], "diagnosis", 3, seed=1, domains=values)
        ab.membership(other, clinic[:400], register=clinic[400:], reference=who)


def test_bad_input_is_named(clinic, local):
    people, others = clinic[:800], clinic[800:1000]

    def fails(error, *parts, table=local, cleartext=people, register=others, **more):
        with pytest.raises(error) as caught:
            ab.membership(table, cleartext, register=register, **more)
        assert all(part in str(caught.value) for part in parts), caught.value

    fails(TableError, "register", "'zip'", register=others.drop(columns="zip"))
    fails(TableError, "register", "no rows", register=others[:0])
    fails(
        TableError, "row 812", register=others.assign(age=others["age"].where(others.index != 812))
    )
    fails(CellError, "'age'", "430", register=others.assign(age=430))
    fails(AnonbayesError, "800", population=800)
    fails(AnonbayesError, "parts", register=others[:4])
    fails(AnonbayesError, "probability", probability=2)
    values = {n: sorted(set(clinic[n])) for n in clinic.columns}
    table = ab.anonymize.anatomy(people, "diagnosis", 3, seed=1, domains=values)
    fails(TableError, "row 900", "person of the table", table=table, cleartext=clinic[900:910])
    channel = ab.RandomizedResponse(local.domains["sex"], 1.0)
    noisy = people[["sex", "diagnosis"]].assign(sex=channel.release(people["sex"], seed=1))
    noisy = ab.ReleasedTable.horizontal(noisy, "diagnosis", channels={"sex": channel})
    fails(TableError, "'sex'", "randomized", table=noisy)


def test_a_register_with_the_people_themselves_is_pointed_out(clinic, found):
    linked = ab.membership(found._table, clinic[:1000], register=clinic, folds=2)
    assert any("look" in remark and "register" in remark for remark in linked.remarks)
    assert found.remarks == ()


def test_rows_in_larger_groups_than_needed_are_pointed_out(clinic):
    relaxed = ab.anonymize.mondrian(
        clinic[:800], "diagnosis", 5, strict=False, domains={"zip": sorted(set(clinic["zip"]))}
    )
    found = ab.membership(relaxed, clinic[:800], register=clinic[800:], folds=2)
    assert any("smallest group" in remark for remark in found.remarks)


@pytest.mark.parametrize(
    ("name", "least", "most"), [("anatomy", 0.86, 0.89), ("k4_l4_local", 0.53, 0.56)]
)
def test_adult_is_told_apart_as_measured(shared_data, name, least, most):
    """The 5,692 rows of the table against the 24,470 others; calibrated within 1 point."""
    everybody = pd.read_csv(shared_data / "adult_30162.csv", sep=";", dtype=str)
    rows = np.loadtxt(shared_data / "adult_5692_rows.txt", dtype=int)
    arx = shared_data / "arx" / "adult_5692_k4_l4_local.csv"
    table = ab.read_arx(arx, sensitive="occupation", hierarchies=shared_data / "hierarchies")
    if name == "anatomy":
        domains = {n: table.domains[n] for n in table.attributes}
        parts = [shared_data / "anatomy" / f"adult_5692_l4_{p}.csv" for p in ("qit", "st")]
        table = ab.read_anatomy(*parts, sensitive="occupation", group="group", domains=domains)
    found = ab.membership(table, everybody.iloc[rows], register=everybody.drop(index=rows), folds=2)
    assert least < found.summary.loc["auc", "estimate"] < most
    assert found.summary.loc["calibration_error", "estimate"] < 0.01
