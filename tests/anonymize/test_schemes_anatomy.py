"""Anatomy."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from schemes_support import DOMAINS, frames, random_frame

import anonbayes as ab
from anonbayes.anonymize import anatomy
from anonbayes.errors import AnonbayesError, AnonymizationError, TableError


def _largest_l(df):
    return len(df) // df["ill"].value_counts().max()


@settings(max_examples=60)
@given(df=frames(secrets="abcdef"), seed=st.integers(0, 99), wanted=st.integers(1, 5))
def test_groups_are_diverse_and_nothing_is_lost(df, seed, wanted):
    l = min(wanted, _largest_l(df))  # noqa: E741
    table, truth = anatomy(df, "ill", l, seed, domains=DOMAINS, return_truth=True)
    qit, secrets = table.to_frames()
    for _, values in secrets.groupby("group")["ill"]:
        assert len(values) == values.nunique() >= l
    assert qit["group"].tolist() == secrets["group"].tolist()
    # residue: fewer than l rows are added to groups of l
    assert 0 <= (table.group_sizes - l).sum() < l
    # the truth links every row to its own values, in one group
    pd.testing.assert_frame_equal(
        qit.iloc[truth["item"], :3].reset_index(drop=True), df[["age", "zip", "job"]],
        check_dtype=False,
    )  # fmt: skip
    assert secrets["ill"].iloc[truth["slot"]].tolist() == df["ill"].tolist()
    assert qit["group"].iloc[truth["item"]].tolist() == truth["group"].tolist()
    assert secrets["group"].iloc[truth["slot"]].tolist() == truth["group"].tolist()
    assert sorted(truth["item"]) == sorted(truth["slot"]) == list(range(len(df)))


def test_reads_back_from_its_two_parts():
    df = random_frame(200, 3)
    table = anatomy(df, "ill", 2, seed=4)
    qit, secrets = table.to_frames()
    back = ab.ReleasedTable.vertical(
        qit, secrets, group="group", sensitive="ill", domains=dict(table.domains)
    )
    assert back == table


def test_residue_assigned_reported_or_refused(caplog):
    df = pd.DataFrame({"x": range(7), "ill": list("aabbccd")}, index=list("tuvwxyz"))
    table, truth = anatomy(df, "ill", 2, seed=0, return_truth=True)
    assert table.group_sizes.tolist().count(3) == 1
    assert truth.index.tolist() == list("tuvwxyz")

    table, truth = anatomy(df, "ill", 2, seed=0, residue="report", return_truth=True)
    assert "left 1 of 7 rows out" in caplog.text
    assert table.n_rows == 6
    left = truth[truth["group"] < 0]
    assert len(left) == 1
    assert (left == -1).all(axis=None)
    published = table.to_frames()[0]["x"].tolist()
    assert sorted([*published, df.loc[left.index[0], "x"]]) == list(range(7))

    with pytest.raises(
        AnonymizationError, match=r"1 rows do not fill a group of 2.*residue='assign'"
    ):
        anatomy(df, "ill", 2, seed=0, residue="error")
    with pytest.raises(AnonbayesError, match="residue='drop'"):
        anatomy(df, "ill", 2, residue="drop")


def test_ineligible_tables_name_the_value_and_the_largest_l():
    df = pd.DataFrame({"x": range(10), "ill": list("aaaabbbccd")})
    with pytest.raises(
        AnonymizationError, match=r"'a' is the sensitive value of 4 of 10 rows.*largest .* l is 2"
    ):
        anatomy(df, "ill", 3)
    assert anatomy(df, "ill", 2).l == 2
    with pytest.raises(AnonymizationError, match=r"l=5.*4 distinct values"):
        anatomy(df, "ill", 5)


def test_seed_decides_everything_and_none_draws_afresh():
    df = random_frame(200, 6)
    assert anatomy(df, "ill", 2, seed=1) == anatomy(df, "ill", 2, seed=1)
    assert anatomy(df, "ill", 2, seed=1) == anatomy(df, "ill", 2, np.random.default_rng(1))
    assert anatomy(df, "ill", 2, seed=1) != anatomy(df, "ill", 2, seed=2)
    assert anatomy(df, "ill", 2) != anatomy(df, "ill", 2)
    with pytest.raises(AnonymizationError, match="seed='today'"):
        anatomy(df, "ill", 2, seed="today")


@pytest.mark.parametrize("seed", [None, 11])
def test_the_link_is_broken_inside_groups(seed):
    """Line j of one part shows the owner of line j of the other with probability 1/2."""
    df = pd.DataFrame({"x": np.arange(6000) // 2, "ill": np.tile(["a", "b"], 3000)})
    table, truth = anatomy(df, "ill", 2, seed, return_truth=True)
    hit = np.mean(truth["item"] == truth["slot"])
    # Both rows of a group hit or miss together: 3000 fair coins, five standard errors.
    assert abs(hit - 0.5) < 5 * 0.5 / np.sqrt(3000)
    # Rows that are neighbours in the input are no more likely to share a group than others.
    together = np.mean(truth["group"].to_numpy()[0::2] == truth["group"].to_numpy()[1::2])
    assert together < 5 / np.sqrt(3000)
    assert table.n_groups == 3000


def test_every_row_of_a_value_is_equally_likely_to_be_residue():
    """Seven rows, one left over: each of the three values' rows, in proportion to the draw."""
    df = pd.DataFrame({"x": range(5), "ill": list("aabbc")})
    left = Counter()
    draws = 300
    for seed in range(draws):
        _, truth = anatomy(df, "ill", 2, seed, residue="report", return_truth=True)
        left[int(np.argmax(truth["group"] < 0))] += 1
    # within a value, both rows are left over equally often: binomial, five standard errors
    for first, second in ((0, 1), (2, 3)):
        n = left[first] + left[second]
        assert abs(left[first] - n / 2) < 5 * np.sqrt(n) / 2
    assert sum(left.values()) == draws


def test_group_column_must_be_a_new_name():
    df = random_frame(30, 1)
    for name in ("age", "ill", "", None):
        with pytest.raises(TableError, match="group="):
            anatomy(df, "ill", 2, group=name)
    assert anatomy(df, "ill", 2, group="cell").group_name == "cell"


def test_whole_columns_can_stay_unpublished():
    table = anatomy(random_frame(60, 2), "ill", 2, seed=1, quasi_identifiers=["zip"])
    assert table.attributes == ("zip",)
