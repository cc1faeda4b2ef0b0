"""Named attackers: what each knows decides what each finds out."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest

import anonbayes as ab
from anonbayes.errors import AnonbayesError

FIT = {"seed": 1, "draws": 20, "progressbar": False}


@pytest.fixture(scope="module")
def clinic():
    return ab.datasets.load("clinic_local"), ab.datasets.load("clinic").iloc[:400]


@pytest.fixture(scope="module")
def post(clinic):
    return ab.fit(clinic[0], **FIT)


def test_a_stranger_is_the_attacker_of_assess(clinic, post):
    table, people = clinic
    found = ab.attackers(table, people, post=post, **FIT)
    pd.testing.assert_frame_equal(found.risks["stranger"].rows, post.assess(people).rows)


def test_what_is_not_known_is_summed_over(clinic, post):
    table, people = clinic
    some = table.attributes[:2]
    found = ab.attackers(table, people, [ab.Actor.neighbour(*some)], post=post, **FIT)
    rows = found.risks["neighbour"].rows
    belief = post.attacker(people[list(some)])
    secret = [belief.columns.get_loc(v) for v in people[table.sensitive]]
    np.testing.assert_allclose(
        rows["p_A"], belief.to_numpy()[np.arange(len(people)), secret], rtol=1e-9
    )
    learned = post.learner(people[list(some)]).to_numpy()[np.arange(len(people)), secret]
    np.testing.assert_allclose(rows["p_L"], learned, rtol=1e-9)


def test_coarse_knowledge_is_a_set_of_values(clinic, post):
    table, people = clinic
    tree = table.domains["age"].hierarchy
    coarse = ab.Actor("coarse", coarse={"age": 1})
    labels = {age: int(age) // 7 for age in table.domains["age"].values}
    own = ab.Actor("own", coarse={"age": labels})
    found = ab.attackers(table, people, [coarse, own], post=post, **FIT)
    known = people[list(table.attributes)].astype({"age": object}).iloc[:20]
    spelled = dict(zip(map(str, tree.leaves), tree.levels[0], strict=True))
    by_level = known.assign(age=[spelled[str(age)] for age in known["age"]])
    by_label = known.assign(
        age=[{a for a, k in labels.items() if k == labels[age]} for age in known["age"]]
    )
    for name, victims in (("coarse", by_level), ("own", by_label)):
        belief = post.attacker(victims)
        secret = [belief.columns.get_loc(v) for v in people[table.sensitive].iloc[:20]]
        expected = belief.to_numpy()[np.arange(20), secret]
        np.testing.assert_allclose(found.risks[name].rows["p_A"].iloc[:20], expected, rtol=1e-9)


def test_noise_takes_away_as_much_as_its_budget_says(clinic, post):
    table, people = clinic
    domain = table.domains["sex"]
    actors = [
        ab.Actor(f"{e}", noisy={"sex": ab.RandomizedResponse(domain, e)}) for e in (1e-9, 50.0)
    ]
    actors += [ab.Actor.neighbour(*(a for a in table.attributes if a != "sex"))]
    found = ab.attackers(table, people, [*actors, ab.Actor.stranger()], post=post, **FIT)
    level = {name: risk.rows["p_A"] for name, risk in found.risks.items()}
    np.testing.assert_allclose(level["50.0"], level["stranger"], rtol=1e-9)
    np.testing.assert_allclose(level["1e-09"], level["neighbour"], rtol=1e-6)


def test_insiders_collectors_and_register_holders():
    people = ab.datasets.load("clinic").iloc[:300].reset_index(drop=True)
    table, where = ab.anonymize.anatomy(people, "diagnosis", l=3, seed=1, return_truth=True)
    other = ab.anonymize.anatomy(people, "diagnosis", l=3, seed=2)
    inside = people.assign(group=where["group"].to_numpy())
    who = [ab.Actor.stranger(), ab.Actor.insider("group"), ab.Actor.collector(other)]
    found = ab.attackers(table, inside, who, **FIT)
    right = found.table["right"]
    expected = ab.fit(table, **FIT).assess(inside, group="group")
    pd.testing.assert_frame_equal(found.risks["insider"].rows, expected.rows)
    assert right["collector"] > right["stranger"] + 3 * found.table["right_se"]["stranger"]
    everybody = ab.datasets.load("clinic")
    domains = {name: sorted(everybody[name].unique()) for name in everybody}
    recoded = ab.anonymize.mondrian(people, "diagnosis", k=5, domains=domains)
    held = ab.Actor.register_holder(everybody.iloc[300:900])
    with_register = ab.fit(recoded, register=held.register, **FIT).assess(people)
    found = ab.attackers(recoded, people, [held], **FIT)
    pd.testing.assert_frame_equal(found.risks["register holder"].rows, with_register.rows)


def test_a_prior_of_ones_own(clinic):
    table, people = clinic
    own = ab.Actor("convinced", alpha=50.0)
    settings = FIT | {"evidence": "independent"}
    found = ab.attackers(table, people, [own], **settings)
    expected = ab.fit(table, alpha=50.0, **settings).assess(people)
    pd.testing.assert_frame_equal(found.risks["convinced"].rows, expected.rows)


def test_what_is_shown(clinic, post):
    table, people = clinic
    actor = ab.Actor("<b>", knows=("sex",), about="x & y")
    found = ab.attackers(table, people, [ab.Actor.stranger(), actor], post=post, **FIT)
    assert "<b>&lt;b&gt;</b>" in found._repr_html_()
    assert json.loads(json.dumps(found.to_dict()))[0]["attacker"] == found.table.index[0]
    assert pickle.loads(pickle.dumps(found)).table.equals(found.table)
    assert len(found.plot().get_yticklabels()) == 2
    assert repr(found).count("guessed right") == 2


@pytest.mark.parametrize(
    ("actor", "words"),
    [
        (ab.Actor.neighbour("agee"), ["'agee'", "'age'"]),
        (ab.Actor("x", coarse={"age": 9}), ["level 9", "'age'", "0 to"]),
        (ab.Actor("x", coarse={"sex": {"f": "any"}}), ["no label for", "'sex'"]),
    ],
)
def test_bad_knowledge_is_named(clinic, post, actor, words):
    with pytest.raises(AnonbayesError) as error:
        ab.attackers(*clinic, [actor], post=post, **FIT)
    assert all(word in str(error.value) for word in words)


def test_names_are_told_apart(clinic, post):
    with pytest.raises(AnonbayesError, match="Two attackers are called 'stranger'"):
        ab.attackers(*clinic, [ab.Actor.stranger()] * 2, post=post, **FIT)
    for nothing in ((), (["age", "sex"],)):
        with pytest.raises(AnonbayesError, match="Name the attributes that the neighbour knows"):
            ab.Actor.neighbour(*nothing)
    with pytest.raises(AnonbayesError, match="at least one"):
        ab.attackers(*clinic, [], post=post, **FIT)
