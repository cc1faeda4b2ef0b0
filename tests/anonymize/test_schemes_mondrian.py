"""Mondrian."""

import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schemes_support import (
    AGES,
    DOMAINS,
    TREES,
    assert_covers,
    assert_private,
    frames,
    random_frame,
    read_back,
)

import anonbayes as ab
from anonbayes.anonymize import mondrian
from anonbayes.errors import AnonbayesError, AnonymizationError
from anonbayes.tables.cells import CellParser

WAYS = [
    {"strict": strict, "cells": cells, **source}
    for strict, cells, source in itertools.product(
        (True, False),
        ("tight", "region"),
        ({"domains": DOMAINS}, {"hierarchies": TREES}, {"hierarchies": {"zip": TREES["zip"]}}),
    )
]


@pytest.mark.parametrize("way", WAYS, ids=str)
@settings(max_examples=15)
@given(df=frames(), k=st.integers(1, 5), l=st.integers(1, 2))
def test_release_is_private_covers_and_reads_back(way, df, k, l):  # noqa: E741
    if k > len(df):
        with pytest.raises(AnonymizationError, match=f"only {len(df)} rows"):
            mondrian(df, "ill", k, l, **way)
        return
    table = mondrian(df, "ill", k, l, **way)
    assert_private(table, k, l)
    assert_covers(table, df)
    assert read_back(table) == table


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize(("k", "l"), [(2, 1), (5, 3), (20, 5)])
def test_larger_release_is_private(strict, k, l):  # noqa: E741
    df = random_frame(500, seed=k)
    table = mondrian(df, "ill", k, l, strict=strict)
    assert table.n_groups > 3
    assert_private(table, k, l)


@settings(max_examples=25)
@given(df=frames(max_rows=30), k=st.integers(1, 4), l=st.integers(1, 2))
def test_no_group_can_be_cut_any_further(df, k, l):  # noqa: E741
    """Strict: try every cut of every group by brute force (LeFevre et al., minimality)."""
    k = min(k, len(df))
    table = mondrian(df, "ill", k, l, domains=DOMAINS)
    for _, part in df.groupby(table.group_codes):
        for name, order in DOMAINS.items():
            place = part[name].map(order.index)
            for cut in range(len(order) - 1):
                sides = [part[place <= cut], part[place > cut]]
                assert not all(len(s) >= k and s["ill"].nunique() >= l for s in sides), name


@settings(max_examples=25)
@given(df=frames(max_rows=30), k=st.integers(1, 4))
def test_strict_regions_are_disjoint_and_cover_the_domain(df, k):
    table = mondrian(df, "ill", min(k, len(df)), domains=DOMAINS, cells="region")
    inside = np.zeros((table.n_groups, len(AGES), 6, 4), dtype=int)
    for g in range(table.n_groups):
        row = int(np.argmax(table.group_codes == g))
        members = [c.evidence.members(c.codes[row]) for c in table.columns.values()]
        inside[(g, *np.ix_(*members))] = 1
    assert (inside.sum(axis=0) == 1).all()


def test_relaxed_groups_are_smaller_than_twice_k():
    """LeFevre et al., Theorem 2: a relaxed cut exists in every part of 2k rows that differ."""
    rng = np.random.default_rng(5)
    df = pd.DataFrame({"x": rng.permutation(200) // 3, "ill": ["a", "b"] * 100})
    sizes = mondrian(df, "ill", 5, strict=False).group_sizes
    assert sizes.max() < 10
    # Values that occur 40 times cannot be told apart by strict cuts.
    df["x"] = df["x"] // 14
    assert mondrian(df, "ill", 5, strict=True).group_sizes.max() >= 40


def test_widest_attribute_is_cut_first_at_the_median():
    df = pd.DataFrame(
        {"x": [0, 1, 2, 3, 4, 100], "y": [0, 10, 20, 30, 40, 50], "ill": list("ababab")}
    )
    table = mondrian(df, "ill", 3)  # both columns span their whole range; the first one wins
    assert table.to_frame()["x"].tolist() == ["0-2"] * 3 + ["3-100"] * 3
    assert table.to_frame()["y"].tolist() == ["0-20"] * 3 + ["30-50"] * 3


def test_l_moves_the_cut_away_from_the_median():
    df = pd.DataFrame({"x": range(8), "ill": list("aaaaabab")})
    table = mondrian(df, "ill", 1, 2)
    # Only the last three rows hold a second secret: the head needs rows 0-5, the tail 6-7.
    assert table.to_frame()["x"].tolist() == ["0-5"] * 6 + ["6-7"] * 2


def test_hierarchy_is_cut_into_its_children():
    df = pd.DataFrame({"zip": ["11", "12", "21", "22", "31", "31"], "ill": list("ababab")})
    table = mondrian(df, "ill", 2, 2, hierarchies={"zip": TREES["zip"]})
    assert table.to_frame()["zip"].tolist() == ["1*", "1*", "2*", "2*", "31", "31"]
    assert table.is_nested
    # A child with a single row forbids the cut, whatever the other children hold.
    assert mondrian(df.iloc[:5], "ill", 2, hierarchies={"zip": TREES["zip"]}).n_groups == 1


def test_tight_cells_lie_within_regions():
    df = random_frame(200, seed=2)
    for hierarchies in (None, TREES):
        tight = mondrian(df, "ill", 4, hierarchies=hierarchies)
        region = mondrian(df, "ill", 4, hierarchies=hierarchies, cells="region")
        assert np.array_equal(tight.group_codes, region.group_codes)
        for name, column in tight.columns.items():
            inner = column.evidence.matrix.toarray()[column.codes]
            outer = region.columns[name].evidence.matrix.toarray()[region.columns[name].codes]
            assert (inner <= outer).all()


@pytest.mark.parametrize(
    "values",
    [
        [-5, -3, -1, 0, 2, 4],
        [0.5, 1.25, 2.0, 1e-7, 3.5, 1e9],
        ["a", "b, c", "{d}", "*", " e", "f"],
        ["a-b", "1-2", "c*", ">3", "x", "y"],
        [7, "yes", 1.5, "z", "w", "v"],
        list(range(6)),
    ],
    ids=str,
)
@pytest.mark.parametrize("cells", ["tight", "region"])
def test_labels_parse_back_to_the_same_cell(values, cells):
    df = pd.DataFrame({"x": pd.Series(values * 2, dtype=object), "ill": ["a", "b", "c"] * 4})
    for k in (1, 3, 4, 6, 12):
        table = mondrian(df, "ill", k, domains={"x": values}, cells=cells)
        evidence = table.columns["x"].evidence
        parser = CellParser(evidence.domain)
        for i, label in enumerate(evidence.labels):
            assert np.array_equal(parser.parse(label), evidence.members(i)), label
        assert read_back(table) == table


def test_numbers_with_many_distinct_values():
    rng = np.random.default_rng(0)
    df = pd.DataFrame({"income": rng.normal(size=3000), "ill": rng.choice(list("abc"), 3000)})
    table = mondrian(df, "ill", 10, 2)
    assert table.k >= 10
    assert table.group_sizes.max() < 40
    rank = df["income"].rank().to_numpy()
    bounds = pd.DataFrame({"g": table.group_codes, "r": rank}).groupby("g")["r"].agg(["min", "max"])
    ordered = bounds.sort_values("min")
    assert (ordered["min"].to_numpy()[1:] > ordered["max"].to_numpy()[:-1]).all()


def test_unknown_setting():
    with pytest.raises(AnonbayesError, match="cells='loose'"):
        mondrian(random_frame(10, 1), "ill", 2, cells="loose")


def test_the_clinic_is_split_into_more_groups_than_by_recoding():
    people, recoded = ab.datasets.load("clinic"), ab.datasets.load("clinic_local")
    table = mondrian(people, "diagnosis", 4, 3)
    assert table.k >= 4 and table.l >= 3
    assert table.n_groups > recoded.n_groups
    again = ab.ReleasedTable.horizontal(table.to_frame(), "diagnosis", domains=table.domains)
    assert again == table


def test_adult_is_split_into_more_groups_than_global_recoding(shared_data):
    df = pd.read_csv(shared_data / "adult_30162.csv", sep=";")
    table = mondrian(df, "occupation", 4, 4)
    assert (table.k, table.l) == (4, 4)
    assert table.n_groups > 2000  # ARX's best global recoding has 274 groups
    assert (
        ab.ReleasedTable.horizontal(table.to_frame(), "occupation", domains=table.domains) == table
    )
