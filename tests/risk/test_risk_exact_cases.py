"""Cases whose answer is known: Table I, the island, the 250-fold threat, t* = t, a planted leak."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import risk_reference as reference

import anonbayes as ab

CLEAR = ab.datasets.load("table1")
PEOPLE = [((nat, zip_), dis) for nat, zip_, dis in CLEAR.itertuples(index=False)]


def domains_of(table):
    return [list(table.domains[name]) for name in table.attributes], list(table.secret.domain)


@pytest.fixture(scope="module")
def recoded():
    table = ab.datasets.load("table1_recoded")
    domains, secrets = domains_of(table)
    rows = [
        (
            [
                {domains[a][k] for k in column.evidence.members(int(column.codes[j]))}
                for a, column in enumerate(table.columns.values())
            ],
            secrets[int(table.secret_codes[j])],
        )
        for j in range(table.n_rows)
    ]
    beliefs = reference.horizontal(rows, domains, secrets)
    post = ab.fit(table, draws=3000, seed=11, progressbar=False)
    return post.assess(CLEAR), beliefs, domains, secrets


def test_the_reference_gives_the_known_values_of_table_1b(recoded):
    """MODEL 1.7, found there by enumeration of all 6.4e5 tables."""
    _, (attacker, learner), _, _ = recoded
    p_a = reference.normalised(attacker(("M", "45501")))
    assert p_a == pytest.approx(
        {"Heart": 7 / 12, "Flu": 5 / 12, "Stomach": 0, "HIV": 0, "Diabetes": 0}, abs=1e-12
    )
    p_l = reference.normalised(learner(("M", "45501")))
    known = {"Heart": 0.3298, "Flu": 0.3289, "Stomach": 0.1138, "HIV": 0.1138, "Diabetes": 0.1138}
    assert p_l == pytest.approx(known, abs=5e-5)


def test_table_1b_row_by_row(recoded):
    risk, (attacker, learner), domains, secrets = recoded
    best = reference.ideal(PEOPLE, domains, secrets)
    for (record, s), row in zip(PEOPLE, risk.rows.itertuples(), strict=True):
        p_a = reference.normalised(attacker(record))[s]
        p_l = reference.normalised(learner(record))[s]
        assert row.secret == s
        assert abs(row.p_A - p_a) < 5 * row.se_p_A
        assert abs(row.p_L - p_l) < 5 * row.se_p_L
        assert abs(row.Ti - p_a / p_l) < 5 * row.se_Ti
        assert 0 < row.se_p_A < 0.01 and 0 < row.se_p_L < 0.01
        assert row.p_RW == pytest.approx(0.5)
        assert row.p_I == pytest.approx(reference.normalised(best(record))[s])
        assert row.candidates == 2


def test_table_1b_as_a_whole(recoded):
    risk, (attacker, learner), domains, secrets = recoded
    best = reference.ideal(PEOPLE, domains, secrets)
    s, se = risk.summary, risk.standard_errors
    for who, belief in (("A", attacker), ("L", learner)):
        settled = 0
        for (record, secret), row in zip(PEOPLE, risk.rows.itertuples(), strict=True):
            exact = reference.normalised(belief(record))
            second, first = sorted(exact.values())[-2:]
            # Closer guesses (HIV and Diabetes are tied for the attacker) may go either way.
            if first - second > 5 * np.sqrt(2) * getattr(row, f"se_p_{who}"):
                assert getattr(row, f"threatened_{who}") == (exact[secret] == first)
                settled += 1
        assert settled >= 4
        assert s[f"GT_{who}"] == pytest.approx(risk.rows[f"threatened_{who}"].mean())
    assert s["GT_RW"] == 0.5
    assert s["ideal"] == reference.share_right(best, PEOPLE)
    assert s["baseline"] == 3 / 8
    exact = reference.total_variation(best, learner, domains)
    assert risk.faithfulness.samples == 0
    assert abs(s["RF"] - (1 - exact)) < 5 * se["RF"]
    assert abs(s["ETV"] - exact) < 5 * se["ETV"]
    error = sum(2 * (1 - reference.normalised(attacker(r))[d]) for r, d in PEOPLE)
    assert abs(s["ABS_A"] - error) < 5 * se["ABS_A"]
    assert s["ABS_RW"] == pytest.approx(8.0)


def test_table_1c_anatomy():
    table = ab.datasets.load("table1_anatomy")
    domains, secrets = domains_of(table)
    qit, st = table.to_frames()
    groups = [
        (
            list(part[["Nat", "ZIP"]].itertuples(index=False, name=None)),
            st.loc[st["GID"] == gid, "Dis"].tolist(),
        )
        for gid, part in qit.groupby("GID")
    ]
    attacker, learner = reference.vertical(groups, domains, secrets)
    risk = ab.fit(table, draws=2000, seed=3, progressbar=False).assess(CLEAR)
    best = reference.ideal(PEOPLE, domains, secrets)
    for (record, s), row in zip(PEOPLE, risk.rows.itertuples(), strict=True):
        # The average of conditional probabilities can be exact: then only rounding is left.
        assert abs(row.p_A - reference.normalised(attacker(record))[s]) < 5 * row.se_p_A + 1e-6
        assert abs(row.p_L - reference.normalised(learner(record))[s]) < 5 * row.se_p_L + 1e-6
        assert row.p_RW == pytest.approx(0.5)
    assert risk.summary["GT_RW"] == 0.5
    exact = reference.total_variation(best, learner, domains)
    assert abs(risk.summary["RF"] - (1 - exact)) < 5 * risk.standard_errors["RF"] + 1e-6


@pytest.mark.parametrize(("n", "p", "tested"), [(101, 0.01, 0), (101, 0.01, 60), (12, 0.3, 5)])
def test_island_and_database_search(n, p, tested):
    """``1 / (1 + (N - 1 - k) p)`` (MODEL 1.7); the learner is told nothing by being an islander."""
    case = ab.datasets.island(n, p, tested=tested)
    post = ab.fit(case.table, beta={"trait": case.beta}, draws=10, seed=1, progressbar=False)
    people = pd.DataFrame({"trait": [1] + [0] * (n - 1), "guilty": [1] + [0] * (n - 1)})
    risk = post.assess(people)
    culprit = risk.rows.iloc[0]
    assert culprit["p_A"] == pytest.approx(1 / (1 + (n - 1 - tested) * p), rel=1e-6)
    # Learner: 2 of N + 2 are guilty a priori, whose trait has mean (1 + 1) / (2 + 1).
    guilty, innocent = 2 / (n + 2) * 2 / 3, n / (n + 2) * p
    assert culprit["p_L"] == pytest.approx(guilty / (guilty + innocent), rel=1e-6)
    assert culprit["Ti"] == pytest.approx(culprit["p_A"] / culprit["p_L"])
    assert (risk.standard_errors == 0).all()


def test_the_250_fold_threat():
    """A secret of one person in a million, released in clear (Groups Remark 5, (22))."""
    n, size = 1_000_000, 1000
    place = np.arange(n) % (size - 1)
    place[0] = size - 1
    people = pd.DataFrame(
        {
            "place": pd.Categorical.from_codes(place, range(size)),
            "secret": pd.Categorical.from_codes((np.arange(n) > 0).astype(int), ["rare", "usual"]),
        }
    )
    table = ab.ReleasedTable.horizontal(people, "secret")
    risk = ab.fit(table, draws=2, chains=1, seed=1, progressbar=False).assess(people)
    rare, usual = 2 / (n + 2) * 2 / (size + 1), n / (n + 2) * 1 / (size + n - 1)
    victim = risk.rows.loc[0]
    assert victim["p_A"] == 1.0
    assert victim["p_L"] == pytest.approx(rare / (rare + usual), rel=1e-9)
    assert victim["p_L"] == pytest.approx(0.004, abs=5e-5)
    assert victim["Ti"] == pytest.approx(250, abs=2)
    assert risk.threatened.index[0] == 0
    assert risk.summary["max_Ti"] == victim["Ti"]


def test_release_in_clear():
    """t* = t: the learner is ideal, the attacker counts the rows that look like the victim."""
    people = ab.datasets.load("clinic").drop(columns=["zip", "age"])
    table = ab.ReleasedTable.horizontal(people, "diagnosis")
    risk = ab.fit(table, draws=2, seed=1, progressbar=False).assess(people)
    s = risk.summary
    assert s["RF"] == pytest.approx(1.0, abs=1e-12)
    assert s["ETV"] == pytest.approx(0.0, abs=1e-12)
    assert s["GT_L"] == s["ideal"]
    names = list(table.attributes)
    joint = people.groupby([*names, "diagnosis"])["sex"].transform("size")
    alike = people.groupby(names)["sex"].transform("size")
    np.testing.assert_allclose(risk.rows["p_A"], joint / alike)
    np.testing.assert_allclose(risk.rows["p_RW"], joint / alike)
    np.testing.assert_array_equal(risk.rows["candidates"], alike)
    # Naming the most frequent value, or one of those tied at random, is right so many times.
    most = people.groupby([*names, "diagnosis"]).size().groupby(level=names).max()
    assert s["GT_A"] == pytest.approx(most.sum() / len(people))


def test_planted_leak():
    """A homogeneous group: everyone is found with belief one, and nobody else is."""
    rng = np.random.default_rng(5)
    n, cities, width = 2000, 40, 4
    city = rng.integers(0, cities - width, size=n)
    secret = np.where(rng.random(n) < 0.3, "cold", "flu").astype(object)
    secret[rng.choice(n, 12, replace=False)] = "HIV"
    leak = rng.choice(np.flatnonzero(secret == "flu"), 5, replace=False)
    city[leak], secret[leak] = cities - 1 - np.arange(5) % width, "HIV"
    people = pd.DataFrame({"city": city, "secret": secret}, index=[f"p{i}" for i in range(n)])
    bands = people.assign(city=[f"{c - c % width}-{c - c % width + width - 1}" for c in city])
    table = ab.ReleasedTable.horizontal(bands, "secret", domains={"city": range(cities)})
    risk = ab.fit(table, draws=2, seed=1, progressbar=False).assess(people)

    # Disjoint bands: E[pi(k)] = (width + rows in the band) / (cities + rows) / width.
    n_s = people["secret"].value_counts()
    band = people["city"] // width
    in_band = pd.crosstab(band, people["secret"])
    weight = {
        s: (1 + n_s[s]) / (3 + n) * (width + in_band[s]) / (cities + n_s[s]) / width
        for s in n_s.index
    }
    joint = pd.DataFrame(weight)
    p_l = joint.div(joint.sum(axis=1), axis=0)
    expected = 1 / p_l.loc[cities // width - 1, "HIV"]
    victims = set(people.index[leak])
    top = risk.threatened.head(5)
    assert set(top.index) == victims
    assert top["p_A"].tolist() == [1.0] * 5
    np.testing.assert_allclose(top["Ti"], expected, rtol=1e-10)
    assert set(risk.threatened.index[risk.threatened["Ti"] > 0.99 * expected]) == victims
    assert risk.homogeneous_groups["size"].tolist() == [5]
    assert risk.homogeneous_groups["revealed"].tolist() == ["HIV"]
    lookup = [p_l.loc[b, s] for b, s in zip(band, people["secret"], strict=True)]
    np.testing.assert_allclose(risk.rows["p_L"], lookup)
    share = in_band.div(in_band.sum(axis=1), axis=0)
    lookup = [share.loc[b, s] for b, s in zip(band, people["secret"], strict=True)]
    np.testing.assert_allclose(risk.rows["p_A"], lookup)


def test_clinic():
    """What depends on the cleartext only, and on the order of the rows, counted with pandas."""
    people, table = ab.datasets.load("clinic"), ab.datasets.load("clinic_local")
    risk = ab.fit(table, evidence="independent", draws=2, seed=1, progressbar=False).assess(
        people, samples=2000
    )
    assert risk.summary["baseline"] == people["diagnosis"].value_counts().max() / len(people)
    assert (risk.rows["candidates"] >= table.group_sizes.to_numpy()[table.group_codes]).all()
    # The ideal learner is naive Bayes with a uniform prior on the table in clear.
    secrets = sorted(people["diagnosis"].unique())
    n_s = people["diagnosis"].value_counts()[secrets]
    logs = np.tile(np.log(1 + n_s.to_numpy()), (len(people), 1))
    for name in table.attributes:
        cross = pd.crosstab(people[name], people["diagnosis"])[secrets]
        size = len(table.domains[name])
        logs += np.log((1 + cross) / (size + n_s)).loc[people[name]].to_numpy()
    right = np.array(secrets)[logs.argmax(axis=1)] == people["diagnosis"]
    assert risk.summary["ideal"] == pytest.approx(right.mean(), abs=1e-12)


def test_adult(shared_data):
    """The figure that depends on the cleartext only agrees with the paper's 0.3534."""
    people = pd.read_csv(shared_data / "adult_5692.csv", sep=";")
    table = ab.read_arx(
        shared_data / "arx" / "adult_5692_k4_l4_local.csv",
        sensitive="occupation",
        hierarchies=shared_data / "hierarchies",
    )
    risk = ab.fit(table, evidence="independent", draws=2, seed=1, progressbar=False).assess(
        people, samples=2000
    )
    assert risk.summary["ideal"] == pytest.approx(0.353, abs=0.002)
    assert risk.summary["baseline"] == pytest.approx(774 / 5692)
    # ARX keeps the order of the rows: everybody's own row must be among the candidates.
    assert (risk.rows["candidates"] >= table.group_sizes.to_numpy()[table.group_codes]).all()
