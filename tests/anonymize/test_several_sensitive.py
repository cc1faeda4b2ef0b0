"""Several sensitive columns: each of them is diverse in every group, not only their combination."""

import numpy as np
import pandas as pd
import pytest

import anonbayes as ab
from anonbayes.errors import AnonymizationError, TableError


def people(n=200, seed=3):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 60, n),
            "sex": rng.choice(["f", "m"], n),
            "ill": rng.choice(["flu", "cold", "gout", "hiv"], n, p=[0.7, 0.1, 0.1, 0.1]),
            "drug": rng.choice(["x", "y", "z"], n, p=[0.8, 0.1, 0.1]),
        }
    )


TREES = {
    "age": ab.Hierarchy.from_intervals(range(20, 60), 5, 10, 20),
    "sex": ab.Hierarchy(["f", "m"], []),
}
SCHEMES = {
    "mondrian": lambda frame, least: ab.anonymize.mondrian(frame, ["ill", "drug"], k=4, l=least),
    "mondrian along trees": lambda frame, least: ab.anonymize.mondrian(
        frame, ["ill", "drug"], k=4, l=least, hierarchies=TREES
    ),
    "recode": lambda frame, least: ab.anonymize.recode(
        frame, ["ill", "drug"], TREES, k=4, l=least, suppression=0.3
    ),
}


@pytest.mark.parametrize("least", [2, 3])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_each_column_is_diverse(scheme, least):
    frame = people()
    table = SCHEMES[scheme](frame, least)
    assert table.sensitive == "ill & drug"
    shown = frame.assign(group=table.group_codes).query("group >= 0")
    assert shown["group"].nunique() > 1
    for name in ("ill", "drug"):
        assert shown.groupby("group")[name].nunique().min() >= least
    pairs = table.to_frame()["ill & drug"].tolist()
    assert pairs == list(zip(frame["ill"], frame["drug"], strict=True))


def test_one_of_several_is_the_same_as_one():
    frame = people().drop(columns="drug")
    one, two = (ab.anonymize.mondrian(frame, s, k=4, l=2) for s in ("ill", ["ill"]))
    assert one == two


def test_what_is_not_possible_is_said():
    with pytest.raises(AnonymizationError, match=r"'drug' has 3 distinct values.*at most 3"):
        ab.anonymize.mondrian(people(), ["ill", "drug"], k=4, l=4)
    with pytest.raises(TableError, match="Anatomy hides a single column"):
        ab.anonymize.anatomy(people(), ["ill", "drug"], l=2)
    with pytest.raises(TableError, match="'drug' cannot be both"):
        ab.anonymize.mondrian(people(), ["ill", "drug"], k=4, quasi_identifiers=["age", "drug"])
    with pytest.raises(TableError, match="'drug' is constant"):
        ab.anonymize.mondrian(people().assign(drug="x"), ["ill", "drug"], k=4)
