"""Downcoding: by hand, by listing every cleartext here, and by drawing."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter, defaultdict

import numpy as np
import pandas as pd
import pytest

import anonbayes as ab
from anonbayes.errors import AnonbayesError, TableError

TREE = ab.Hierarchy.from_levels(
    {
        "a": ["coast", "south", "*"],
        "b": ["coast", "south", "*"],
        "c": ["c", "south", "*"],
        "d": ["d", "d", "*"],
    }
)


def recode(frame, **settings):
    return ab.anonymize.recode(frame, "ill", {"home": TREE}, k=2, **settings)


def people(homes, secrets):
    return pd.DataFrame({"home": list(homes), "ill": list(secrets)})


def test_one_of_two_must_live_in_c():
    """Both in a or b would have been "coast", both in c in clear: 4 of 9 cleartexts are left."""
    clear = people("acdd", "pqpq")
    found = ab.downcoding(recode(clear), recode, cleartext=clear)
    assert found.method == "enumeration"
    value = found.summary["value"]
    assert value["acceptance"] == pytest.approx(4 / 9) and value["kept"] == 4
    # c has 1/3 before and 1/2 after, a and b 1/3 and 1/4
    assert found.cells["shift"].tolist() == pytest.approx([1 / 6, 1 / 6])
    assert value[["cells", "cells_changed", "cells_narrowed"]].tolist() == [2, 2, 0]
    # Who lives in c has either secret; the other one does not change that.
    assert found.people["before"].tolist() == pytest.approx([0.5, 0.5, 0.5, 0.5])
    assert found.people["after"].tolist() == pytest.approx([0.5, 0.5, 0.5, 0.5])
    assert "2 of 2 cells" in found.text and "44.4%" in found.text
    assert json.loads(found.to_json())["measures"]["cells_changed"] == 2


def test_a_value_can_be_revealed():
    """Two of three people are one of a, b and one c... where a is the only neighbour of c."""
    tree = ab.Hierarchy.from_levels(
        {
            "a": ["ab", "abc", "*"],
            "b": ["ab", "abc", "*"],
            "c": ["c", "abc", "*"],
            "d": ["d"] * 2 + ["*"],
        }
    )

    def anonymize(frame):
        """Show c wherever somebody else of the cell is there, and hide a lonely c only."""
        n_c = int((frame["home"] == "c").sum())
        cells = ["abc" if n_c == 1 and h in "abc" else h for h in frame["home"]]
        shown = pd.DataFrame({"home": cells, "ill": frame["ill"]})
        return ab.ReleasedTable.horizontal(shown, "ill", hierarchies={"home": tree})

    clear = people("cdd", "pqp")
    found = ab.downcoding(anonymize(clear), anonymize, cleartext=clear)
    value = found.summary["value"]
    assert value[["cells_narrowed", "cells_revealed"]].tolist() == [1, 1]
    assert found.cells[["possible", "left"]].to_numpy().tolist() == [[3, 1]]


def listed(clear, possible, holds):
    """Beliefs of an attacker before and after, from all cleartexts, one by one.

    Nothing of the package is used: `holds` says which cleartexts give the release.
    """
    sums = [defaultdict(float), defaultdict(float)]
    mass = [0.0, 0.0]
    secrets = clear["ill"].tolist()
    for world in itertools.product(*possible):
        weight = 1.0
        for s in set(secrets):  # Dirichlet(1) prior over the four homes of each secret
            own = Counter(h for h, t in zip(world, secrets, strict=True) if t == s)
            weight *= math.prod(math.factorial(c) for c in own.values())
        for i in range(1 + holds(world, secrets)):
            mass[i] += weight
            for h, s in zip(world, secrets, strict=True):
                sums[i][h, s] += weight
    belief = [
        [
            both[h, s] / sum(both[h, t] for t in set(secrets))
            for h, s in zip(clear["home"], secrets, strict=True)
        ]
        for both in sums
    ]
    return mass[1] / mass[0], belief


def finer_fails(world, secrets):
    """Whether coast and c hide too little of a group of five, with k = 2 and l = 2."""

    def kept(cells):
        groups = defaultdict(list)
        for cell, s in zip(cells, secrets, strict=True):
            groups[cell].append(s)
        return all(len(g) >= 2 and len(set(g)) >= 2 for g in groups.values())

    coast = ["coast" if h in "ab" else h for h in world]
    return not kept(coast) and not kept(world)


CLEAR = people("abccadd", "pqrrpqp")
WORLDS = [*["abc"] * 5, "d", "d"]


def diverse(frame):
    return recode(frame, l=2)


def test_all_cleartexts_listed_here_say_the_same():
    """Rows of a kind are alike for the package; here each is counted by itself."""
    table = diverse(CLEAR)
    assert set(table.to_frame()["home"]) == {"south", "d"}
    found = ab.downcoding(table, diverse, cleartext=CLEAR)
    acceptance, (before, after) = listed(CLEAR, WORLDS, finer_fails)
    assert found.method == "enumeration"
    assert found.summary.loc["acceptance", "value"] == pytest.approx(acceptance)
    assert found.people["before"].tolist() == pytest.approx(before)
    assert found.people["after"].tolist() == pytest.approx(after)
    up = np.array(after) > np.array(before) + 1e-9
    assert found.people["likelier"].tolist() == up.tolist() and 0 < up.sum() < 7
    assert found.summary.loc["people_likelier", "value"] == up.sum()


def test_draws_agree_with_the_list():
    """The same table by draws: within four of the stated standard errors."""
    table = diverse(CLEAR)
    found = ab.downcoding(table, diverse, cleartext=CLEAR, listed=0, draws=300, seed=3)
    acceptance, (before, after) = listed(CLEAR, WORLDS, finer_fails)
    value = found.summary["value"]
    assert found.method == "sampling" and np.isnan(value["cells_narrowed"])
    error = math.sqrt(acceptance * (1 - acceptance) / 300)
    assert abs(value["acceptance"] - acceptance) < 4 * error
    gap = (found.people["after"] - found.people["before"]) - (np.array(after) - np.array(before))
    assert (gap.abs() < 4 * found.people["error"] + 1e-9).all()
    assert (found.people["error"][:5] > 0).all() and (found.people["error"] < 0.1).all()
    assert "rules values out" not in found.text


def test_mondrian_too():
    """Strict cuts at 3 of 6: of the ages in a tight cell both ends are there."""
    clear = pd.DataFrame({"age": [1, 2, 4, 6, 7, 7], "ill": list("pqrpqr")})

    def cut(frame):
        return ab.anonymize.mondrian(frame, "ill", 3, domains={"age": range(1, 8)})

    assert cut(clear).to_frame()["age"].tolist() == ["1-4"] * 3 + ["6-7"] * 3
    found = ab.downcoding(cut(clear), cut, cleartext=clear)
    young = [w for w in itertools.product(range(1, 5), repeat=3) if {1, 4} <= set(w)]
    old = [w for w in itertools.product((6, 7), repeat=3) if {6, 7} <= set(w)]
    # Secrets differ within a cell, and ages are drawn by secret: (young, old) of a secret are two
    # different values, so every cleartext weighs the same.
    assert found.summary.loc["acceptance", "value"] == pytest.approx(
        len(young) * len(old) / (4**3 * 2**3)
    )
    share = np.mean([w[0] == 1 for w in young])
    shift = 0.5 * (2 * abs(share - 0.25) + 2 * abs((0.5 - share) - 0.25))
    assert found.cells["shift"].tolist() == pytest.approx([shift] * 3 + [0.0] * 3)
    assert found.cells["changed"].tolist() == [True] * 3 + [False] * 3


def test_what_cannot_be_computed_is_refused():
    clear = people("acdd" * 3, "pqpq" * 3)
    table = recode(clear)
    with pytest.raises(AnonbayesError, match="0 of 100"):
        ab.downcoding(table, lambda frame: recode(frame, l=2).reduced(), listed=0, draws=100)
    with pytest.raises(AnonbayesError, match="does not give this release"):
        ab.downcoding(table, lambda frame: ab.anonymize.recode(
            frame, "ill", {"home": TREE}, k=4), cleartext=clear)  # fmt: skip
    anatomy = ab.anonymize.anatomy(clear, "ill", 2, seed=1)
    with pytest.raises(TableError, match="horizontal"):
        ab.downcoding(anatomy, recode)
    with pytest.raises(AnonbayesError, match="draws"):
        ab.downcoding(table, recode, draws=3)
