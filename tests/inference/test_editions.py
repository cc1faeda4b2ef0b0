"""Several releases about the same people, against brute force over all cleartexts."""

from __future__ import annotations

import itertools
from dataclasses import replace

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


def test_messages_are_exact_where_groups_form_no_circle(monkeypatch):
    monkeypatch.setattr(module, "SETTLED", 1e-12)
    rng = np.random.default_rng(5)
    first = edition([[0, 1, 2], [0, 2, 3]], [0, 1, 2, 3, 4, 5], 4, rng)
    second = edition([[0, 1, 3], [2, 2]], [0, 9, 5, 1, 8], 4, rng)
    found = join_groups([first, second])[0]
    np.testing.assert_allclose(found.owned.toarray(), brute_force(first, second), atol=1e-8)


def test_people_who_share_a_record_are_matched_in_every_way(monkeypatch):
    """A tree of factors: the two people with record 0 stand in different groups of both tables."""
    monkeypatch.setattr(module, "SETTLED", 1e-12)
    rng = np.random.default_rng(6)
    first = edition([[0, 1], [1, 2]], [0, 5, 0, 6], 3, rng)
    second = edition([[0, 2], [0, 1]], [0, 7, 0, 8], 3, rng)
    found = join_groups([first, second])[0]
    assert found.linked == 0
    np.testing.assert_allclose(found.owned.toarray(), brute_force(first, second), atol=1e-8)


def test_messages_are_close_where_groups_form_circles():
    """Mean distance of beliefs over 30 pairs of tables; measured 0.02, the limit is twice that."""
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


VALUES, SECRETS = range(3), range(2)
CELLS = {"lo": (0, 1), "hi": (1, 2), "any": (0, 1, 2), "0": (0,), "1": (1,), "2": (2,)}
SPELLED = {"lo": "0-1", "hi": "1-2", "any": "0-2", "0": "0", "1": "1", "2": "2"}


def release(rows, groups=None):
    """Rows of (cell, secret); with groups an Anatomy, whose secrets are shuffled in each."""
    cells, secrets = zip(*rows, strict=True)
    domains = {"x": VALUES, "s": [*map(str, SECRETS)]}
    if groups is None:
        frame = pd.DataFrame({"x": [SPELLED[c] for c in cells], "s": [*map(str, secrets)]})
        return ab.ReleasedTable.horizontal(frame, "s", domains=domains)
    qit = pd.DataFrame({"x": [int(c) for c in cells], "g": groups})
    st = pd.DataFrame({"g": groups, "s": [*map(str, secrets)]})
    return ab.ReleasedTable.vertical(qit, st, group="g", sensitive="s", domains=domains)


def is_true(people, rows, groups):
    """Whether a release is one of these people (value, secret), in its order."""
    if any(x not in CELLS[cell] for (x, _), (cell, _) in zip(people, rows, strict=True)):
        return False
    if groups is None:
        return all(s == shown for (_, s), (_, shown) in zip(people, rows, strict=True))
    own = sorted((g, s) for g, (_, s) in zip(groups, people, strict=True))
    return own == sorted((g, s) for g, (_, s) in zip(groups, rows, strict=True))


def all_cleartexts(one, two, keys=None):
    """Expected rows of the first release and predictions, by value and secret, by listing.

    Every cleartext of everybody, times every way in which the rows of the second release are those
    of people of the first; as few people as possible are in the second release only.
    """
    (rows, groups), (others, their_groups) = one, two
    for extra in range(len(others) + 1):
        total = [np.zeros((3, 2)) for _ in range(3)]
        everybody = range(len(rows) + extra)
        who = [p for p in itertools.permutations(everybody, len(others))
               if set(range(len(rows), len(rows) + extra)) <= set(p)]  # fmt: skip
        # New people are told apart by their rows only: count each way once.
        who = [p for p in who if [i for i in p if i >= len(rows)] == sorted(
            i for i in p if i >= len(rows))]  # fmt: skip
        if keys is not None:
            who = [p for p in who if all(
                (keys[0][i] if i < len(rows) else None) == (k if k in keys[0] else None)
                for i, k in zip(p, keys[1], strict=True))]  # fmt: skip
        options = [[(x, s) for x in CELLS[c] for s in SECRETS] for c, _ in rows]
        options += [[*itertools.product(VALUES, SECRETS)]] * extra
        for people in itertools.product(*options):
            if not is_true(people[: len(rows)], rows, groups):
                continue
            ways = sum(is_true([people[i] for i in p], others, their_groups) for p in who)
            if not ways:
                continue
            x, s = np.array(people).T
            alpha, beta = np.bincount(s, minlength=2) + 1.0, np.ones((2, 3))
            np.add.at(beta, (s, x), 1.0)
            log = gammaln(alpha).sum() + (gammaln(beta).sum(1) - gammaln(beta.sum(1))).sum()
            weight, first = ways * np.exp(log), slice(0, len(rows))
            np.add.at(total[0], (x[first], s[first]), weight)
            np.add.at(total[1], (x[first], s[first]), ways)
            share = beta / beta.sum(axis=1, keepdims=True) * (alpha / alpha.sum())[:, None]
            total[2] += weight * share.T
        if total[0].any():
            return total
    raise AssertionError("no world")


NESTED = [("lo", 0), ("lo", 0), ("any", 1), ("1", 1)], None
CROSSING = [("hi", 0), ("lo", 1), ("any", 0), ("hi", 1)], None
FEWER = [("hi", 0), ("lo", 1), ("any", 1)], None
ANATOMY = [("0", 0), ("1", 1), ("1", 0), ("2", 1)], [0, 0, 1, 1]
REGROUPED = [("0", 0), ("2", 1), ("1", 0), ("1", 1)], [0, 0, 1, 1]
OVERLAP = [("1", 0), ("2", 1), ("2", 0)], [0, 0, 1]


@pytest.mark.parametrize(
    ("one", "two", "keys"),
    [
        (NESTED, NESTED, None),
        (NESTED, CROSSING, None),
        (CROSSING, FEWER, None),
        (FEWER, CROSSING, None),
        (CROSSING, ANATOMY, None),
        (ANATOMY, CROSSING, None),
        (ANATOMY, FEWER, None),
        (OVERLAP, NESTED, None),
        (ANATOMY, REGROUPED, None),
        (ANATOMY, OVERLAP, None),
        (ANATOMY, REGROUPED, [range(4), [0, 3, 1, 2]]),
        (ANATOMY, OVERLAP, [range(4), [2, 3, 7]]),
        (ANATOMY, NESTED, [range(4), [2, 0, 3, 1]]),
    ],
)
def test_small_releases_equal_all_cleartexts(one, two, keys):
    """Cells that nest and cross, Anatomies, both kinds, people in one release only, keys."""
    exact = all_cleartexts(one, two, keys)
    compare([one, two], exact, people="records" if keys is None else keys)


def compare(releases, exact, people):
    rows, evenly, known = exact
    tables = [release(*one) for one in releases]
    post = ab.fit(tables, people=people, seed=1, draws=20, chains=1, progressbar=False)
    assert post.editions.worlds is not None and "exact" in post.editions.words
    for x in np.flatnonzero(rows.sum(axis=1)).tolist():
        for belief, weights in (
            (post.attacker, rows), (post.random_worlds, evenly), (post.learner, known)
        ):  # fmt: skip
            np.testing.assert_allclose(belief({"x": x}), weights[x] / weights[x].sum(), atol=1e-12)
    total = rows.sum(axis=0)
    np.testing.assert_allclose(post.attacker({}), total / total.sum(), atol=1e-12)


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
    def anatomy(ills, sexes="fmfm"):
        qit = pd.DataFrame({"sex": list(sexes), "group": [0, 0, 1, 1]})
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
    strangers = [anatomy(list("abab"), sexes) for sexes in ("fmfm", "wxwx")]
    with pytest.raises(TableError, match=r"no record in common.*'f'.*'w'"):
        ab.fit(strangers, seed=1, progressbar=False, draws=20)
    with pytest.raises(TableError, match=r"Row 0 .* 'd', which is not .* group 0"):
        people = [range(4), [3, 2, 1, 0]]
        ab.fit([both[1], clear], people=people, seed=1, progressbar=False, draws=20)
    with pytest.raises(ModelError, match="at least two"):
        ab.fit([clear])
    with pytest.raises(ModelError, match="several releases"):
        ab.fit(clear, people=[range(4)])


def test_unlinked_releases_are_linked_in_expectation(monkeypatch):
    """Too many to list: nearer to all worlds than what each adds by itself.

    Measured over these 20 pairs: 0.015 off on average, against 0.059.
    """
    rng = np.random.default_rng(7)
    cells = [*CELLS]
    distance = {"linked": [], "apart": []}
    for _ in range(20):
        x, s = rng.integers(0, 3, 6), rng.permutation([0, 0, 0, 1, 1, 1])
        order = rng.permutation(6)
        tables = [
            release([(rng.choice([c for c in cells if x[i] in CELLS[c]]), s[i]) for i in who])
            for who in (range(6), order)
        ]
        settings = {"seed": 1, "draws": 200, "chains": 1, "progressbar": False}
        exact = ab.fit(tables, **settings)
        with monkeypatch.context() as patch:
            patch.setattr("anonbayes.beliefs.worlds.MOST_ROWS", 0)
            linked = ab.fit(tables, **settings)
        assert "estimated" in linked.editions.words and linked.editions.worlds is None
        apart = replace(linked, editions=replace(linked.editions, linked=None))
        victims = pd.DataFrame({"x": sorted(set(x.tolist()))})
        for name, post in (("linked", linked), ("apart", apart)):
            off = (post.attacker(victims) - exact.attacker(victims)).abs().to_numpy()
            distance[name].append(off.sum(axis=1).mean() / 2)
    gain = np.array(distance["apart"]) - distance["linked"]
    assert gain.mean() > 3 * gain.std(ddof=1) / np.sqrt(len(gain))


def test_intersections_prefer_rare_secrets():
    """Of two secrets that both groups list, the frequent one stands there by chance more often.

    The first group leaves s and t equally likely; the second lists t beside an s with the
    frequency of t, and s beside a t with that of s. So s has a weight of ``1 / q_s``.
    """
    groups = [[0, 1]] * 2 + [[1, 1]] * 2
    first, second = (edition(groups, range(8), 2) for _ in range(2))
    worlds = join_groups([first, second])[0].worlds.toarray()
    np.testing.assert_allclose(worlds[0], [0.75, 0.25], atol=1e-12)
