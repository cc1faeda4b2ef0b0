"""Several releases about the same people, against brute force over all cleartexts."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.special import gammaln

import anonbayes as ab
from anonbayes.beliefs.editions import person_codes
from anonbayes.errors import AnonbayesError, ModelError, TableError
from anonbayes.inference.vertical import joint_groups as module
from anonbayes.inference.vertical.group_layout import VerticalLayout
from anonbayes.inference.vertical.joint_groups import Edition, join_groups


def layout(groups: list[list[int]], n_secrets: int) -> VerticalLayout:
    """Groups of secrets; all items look alike."""
    sizes = [len(g) for g in groups]
    secrets = [s for g in groups for s in g]
    items = np.zeros((len(secrets), 1), dtype=int)
    return VerticalLayout(items, secrets, np.cumsum([0, *sizes]), [1], n_secrets)


def edition(groups, persons, n_secrets, rng=None):
    found = layout(groups, n_secrets)
    told = np.ones(found.n_links) if rng is None else rng.uniform(0.2, 1.0, found.n_links)
    return Edition(found, np.array(persons), told)


def worlds_of(one: Edition):
    """Every way to hand a table's secrets to its items, with its weight."""
    table = one.layout
    weight = table.ownership(one.told).toarray()
    parts = [
        set(itertools.permutations(table.secrets[a:b].tolist()))
        for a, b in itertools.pairwise(table.offsets)
    ]
    for choice in itertools.product(*parts):
        held = np.concatenate([np.array(c) for c in choice])
        yield held, float(np.prod(weight[np.arange(len(held)), held]))


def brute_force(first: Edition, second: Edition) -> np.ndarray:
    """Beliefs about the first table's items: all pairs of worlds in which people agree.

    People of one record are matched in every possible way; who is in one table only is free.
    """
    out = np.zeros((first.layout.n_rows, first.layout.n_secrets))
    codes = sorted(set(first.person.tolist()) & set(second.person.tolist()) - {-1})
    mine = [np.flatnonzero(first.person == c) for c in codes]
    theirs = [np.flatnonzero(second.person == c) for c in codes]
    for a, weight_a in worlds_of(first):
        for b, weight_b in worlds_of(second):
            ways = 1
            for i, j in zip(mine, theirs, strict=True):
                ways *= sum((a[i] == b[list(p)]).all() for p in itertools.permutations(j))
            if ways:
                out[np.arange(len(a)), a] += weight_a * weight_b * ways
    return out / out.sum(axis=1, keepdims=True)


def random_editions(rng, *, n_secrets=4):
    """Two editions of the same eight people whose groups have pairwise different secrets."""
    truth = np.repeat(np.arange(n_secrets), 2)
    both = []
    for _ in range(2):
        while True:
            order = rng.permutation(8)
            groups = order.reshape(4, 2)
            if all(len(set(truth[g])) == 2 for g in groups):
                break
        listed = [sorted(truth[g].tolist()) for g in groups]
        both.append(edition(listed, groups.ravel(), n_secrets, rng))
    return both


@pytest.mark.parametrize("seed", range(4))
def test_small_tables_are_summed_over_completely(seed):
    first, second = random_editions(np.random.default_rng(seed))
    found = join_groups([first, second])[0]
    assert found.exact
    np.testing.assert_allclose(found.owned.toarray(), brute_force(first, second), atol=1e-12)


def test_messages_are_exact_where_groups_form_no_circle(monkeypatch):
    monkeypatch.setattr(module, "MOST_PEOPLE", 0)
    monkeypatch.setattr(module, "SETTLED", 1e-12)
    rng = np.random.default_rng(5)
    first = edition([[0, 1, 2], [0, 2, 3]], [0, 1, 2, 3, 4, 5], 4, rng)
    second = edition([[0, 1, 3], [2, 2]], [0, 9, 5, 1, 8], 4, rng)
    found = join_groups([first, second])[0]
    assert not found.exact
    np.testing.assert_allclose(found.owned.toarray(), brute_force(first, second), atol=1e-8)


def test_people_who_share_a_record_are_matched_in_every_way(monkeypatch):
    """A tree of factors: the two people with record 0 stand in different groups of both tables."""
    monkeypatch.setattr(module, "SETTLED", 1e-12)
    rng = np.random.default_rng(6)
    first = edition([[0, 1], [1, 2]], [0, 5, 0, 6], 3, rng)
    second = edition([[0, 2], [0, 1]], [0, 7, 0, 8], 3, rng)
    found = join_groups([first, second])[0]
    assert not found.exact
    assert found.linked == 0
    np.testing.assert_allclose(found.owned.toarray(), brute_force(first, second), atol=1e-8)


def test_messages_are_close_where_groups_form_circles(monkeypatch):
    """Mean distance of beliefs over 30 pairs of tables; measured 0.02, the limit is twice that."""
    monkeypatch.setattr(module, "MOST_PEOPLE", 0)
    distances = []
    for seed in range(30):
        both = random_editions(np.random.default_rng(seed))
        found = join_groups(both)[0].owned.toarray()
        distances.append(np.abs(found - brute_force(*both)).sum(axis=1).mean() / 2)
    assert np.mean(distances) < 0.04


def clinic(n: int):
    people = ab.datasets.load("clinic").iloc[:n].reset_index(drop=True)
    tables, keys = [], []
    for seed in (1, 2):
        table, where = ab.anonymize.anatomy(people, "diagnosis", l=3, seed=seed, return_truth=True)
        key = np.empty(n, dtype=int)
        key[where["item"].to_numpy()] = np.arange(n)
        tables.append(table)
        keys.append(key)
    return people, tables, keys


def test_two_anatomies_give_away_what_neither_does():
    people, tables, keys = clinic(600)
    alone = ab.fit(tables[0], seed=1, progressbar=False)
    post = ab.fit(tables, people=keys, seed=1, progressbar=False)
    risk, before = post.assess(people), alone.assess(people)
    right = risk.scores["right"]
    # Intersecting groups person by person, as random worlds do, is much weaker.
    secrets = np.array([tables[0].secret.domain.index(v) for v in people["diagnosis"]])
    inside = np.ones((len(people), len(tables[0].secret.domain)), dtype=bool)
    for table, key in zip(tables, keys, strict=True):
        held = np.zeros((table.n_groups, inside.shape[1]), dtype=bool)
        held[table.group_codes, table.secret_codes] = True
        inside[key] &= held[table.group_codes]
    assert inside[np.arange(len(people)), secrets].all()
    worlds = post.editions.joint.worlds.toarray()
    assert ((worlds > 0) == inside[keys[0]]).all()
    gain = right["attacker"] - before.scores["right"]["attacker"]
    assert gain > 5 * before.scores["right_se"]["attacker"]
    assert right["attacker"] > right["random_worlds"] > before.scores["right"]["random_worlds"]
    assert risk.scores.loc["attacker", "ece"] < 0.05
    assert "more release" in risk.remarks[-1]


def test_without_keys_equal_records_are_matched():
    people, tables, keys = clinic(300)
    codes = person_codes(tables, "records")
    record = people.drop(columns="diagnosis").apply(tuple, axis=1)
    for code, key in zip(codes, keys, strict=True):
        same = pd.DataFrame({"code": code, "record": record.to_numpy()[key]})
        assert (same.groupby("code")["record"].nunique() == 1).all()
    assert len(set(codes[0])) == record.nunique()
    post = ab.fit(tables, seed=1, progressbar=False)
    shared = record.map(record.value_counts())
    assert post.editions.joint.linked == pytest.approx((shared == 1).mean())
    belief = post.attacker(people.drop(columns="diagnosis"))
    np.testing.assert_allclose(belief.sum(axis=1), 1)


def test_a_horizontal_release_adds_its_own_say():
    """Where the other release shows everybody in clear, nothing is left to guess."""
    people = ab.datasets.load("table1")
    clear = ab.ReleasedTable.horizontal(people, "Dis", domains=dict(domains_of(people)))
    recoded = ab.datasets.load("table1_recoded")
    settings = {"seed": 1, "progressbar": False, "draws": 50}
    alone = ab.fit(recoded, **settings).attacker(people.drop(columns="Dis"))
    both = ab.fit([recoded, clear], **settings).attacker(people.drop(columns="Dis"))
    truth = [both.columns.get_loc(v) for v in people["Dis"]]
    np.testing.assert_allclose(both.to_numpy()[np.arange(8), truth], 1, atol=1e-12)
    assert alone.to_numpy()[np.arange(8), truth].max() < 0.6


def domains_of(people):
    table = ab.datasets.load("table1_recoded")
    return {name: table.domains[name].values for name in (*table.attributes, "Dis")}


CELLS = {"lo": [0, 1], "hi": [2, 3], "any": [0, 1, 2, 3], "0": [0], "3": [3]}
SPELLED = {"lo": "0-1", "hi": "2-3", "any": "0-3", "0": "0", "3": "3"}


@pytest.mark.parametrize(
    ("one", "two"),
    [(["lo", "lo", "any", "hi"], ["any", "any", "0", "hi"]),
     (["any", "hi", "any", "lo"], ["3", "any", "any", "lo"])],
)  # fmt: skip
def test_small_releases_without_keys_are_matched_in_every_way(one, two):
    """Against all cleartexts of the first, times the ways in which the second is one of them."""
    secrets = [np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])]
    tables = [
        ab.ReleasedTable.horizontal(
            pd.DataFrame({"x": [SPELLED[c] for c in shown], "s": [*map(str, s)]}),
            "s", domains={"x": range(4)},
        )
        for shown, s in zip([one, two], secrets, strict=True)
    ]  # fmt: skip
    rows, known = np.zeros((4, 2)), np.zeros((4, 2))
    for x in itertools.product(*(CELLS[c] for c in one)):
        ways = sum(
            all(x[i] in CELLS[two[j]] and secrets[0][i] == secrets[1][j] for i, j in enumerate(p))
            for p in itertools.permutations(range(4))
        )
        beta = np.ones((2, 4))
        np.add.at(beta, (secrets[0], x), 1.0)
        weight = ways * np.exp((gammaln(beta).sum(axis=1) - gammaln(beta.sum(axis=1))).sum())
        np.add.at(rows, (x, secrets[0]), weight)
        known += weight * (beta / beta.sum(axis=1, keepdims=True)).T
    post = ab.fit(tables, seed=1, progressbar=False)
    alone = ab.fit(tables[0], seed=1, progressbar=False)
    moved = 0.0
    for x in np.flatnonzero(rows.sum(axis=1)).tolist():
        exact = known[x] / known[x].sum()
        np.testing.assert_allclose(post.learner({"x": x}), exact, atol=1e-12)
        exact = rows[x] / rows[x].sum()
        np.testing.assert_allclose(post.attacker({"x": x}), exact, atol=1e-12)
        moved = max(moved, float(np.abs(alone.attacker({"x": x}) - exact).max()))
    assert moved > 0.05 and "in all" in post.editions.words
    assert post.random_worlds({"x": 3}).sum() == pytest.approx(1.0)


def test_releases_linked_by_key_are_intersected():
    ages = {"age": range(20, 40)}
    first = ab.ReleasedTable.horizontal(
        pd.DataFrame({"age": ["20-29", "20-29", "30-39"], "ill": ["a", "b", "a"]}),
        "ill", domains=ages,
    )  # fmt: skip
    second = ab.ReleasedTable.horizontal(
        pd.DataFrame({"age": ["25-34", "25-34"], "sex": ["f", "m"], "ill": ["a", "b"]}),
        "ill", domains=ages | {"sex": ["f", "m"]},
    )  # fmt: skip
    post = ab.fit([first, second], people=[["x", "y", "z"], ["z", "y"]], seed=1, progressbar=False)
    assert post.table.to_frame()["age"].tolist() == [
        tuple(range(20, 30)), tuple(range(25, 30)), tuple(range(30, 35)),
    ]  # fmt: skip
    assert post.table.to_frame()["sex"].tolist() == ["*", "m", "f"]
    same = ab.fit([first, first], people="rows", seed=1, progressbar=False)
    assert same.table == first
    with pytest.raises(TableError, match="sorted by group"):
        ab.fit([first, ab.datasets.load("table1_anatomy")], people="rows", progressbar=False)


def test_attributes_of_another_release_may_be_known():
    first = ab.ReleasedTable.horizontal(
        pd.DataFrame({"age": ["1-4"] * 4, "ill": list("abab")}), "ill", domains={"age": range(1, 5)}
    )
    second = ab.ReleasedTable.horizontal(
        pd.DataFrame({"sex": list("ffmm"), "ill": list("aabb")}), "ill"
    )
    post = ab.fit([first, second], seed=1, progressbar=False)
    assert post.attacker({"age": 1, "sex": "f"})["a"] == pytest.approx(1)
    assert post.attacker({"age": 1})["a"] == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ([range(5), range(8)], ["Release 1", "8 rows", "5 keys"]),
        ([[0] * 8, range(8)], ["Release 1, row 1", "0"]),
        ([range(8), range(10, 18)], ["no person in common", "10"]),
        ([range(8)], ["keys for 1", "2"]),
        ("names", ["'names'"]),
    ],
)
def test_bad_keys_are_named(keys, words):
    table = ab.datasets.load("table1_anatomy")
    with pytest.raises(AnonbayesError) as error:
        ab.fit([table, table], people=keys, seed=1, progressbar=False)
    assert all(word in str(error.value) for word in words)


def test_contradictions_are_named():
    def anatomy(ills):
        qit = pd.DataFrame({"sex": list("fmfm"), "group": [0, 0, 1, 1]})
        st = pd.DataFrame({"group": [0, 0, 1, 1], "ill": ills})
        return ab.ReleasedTable.vertical(qit, st, group="group", sensitive="ill")

    both = [anatomy(list("abcd")), anatomy(list("abab"))]
    with pytest.raises(TableError, match=r"Row 2 of vertical release 1 .*'c', 'd'"):
        ab.fit(both, people=[range(4)] * 2, seed=1, progressbar=False, draws=20)
    clear = ab.ReleasedTable.horizontal(
        pd.DataFrame({"sex": list("fmfm"), "ill": list("aacd")}), "ill"
    )
    other = ab.ReleasedTable.horizontal(
        pd.DataFrame({"sex": list("fmfm"), "ill": list("abcd")}), "ill"
    )
    with pytest.raises(TableError, match=r"Row 1 of release 1 .* 'a' .* 'b'"):
        ab.fit([clear, other], people=[range(4)] * 2, seed=1, progressbar=False)
    with pytest.raises(ModelError, match="two or more"):
        ab.fit([clear])
    with pytest.raises(ModelError, match="several releases"):
        ab.fit(clear, people=[range(4)])
