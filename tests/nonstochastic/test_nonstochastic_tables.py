"""Released tables: conditional ranges of groups, homogeneity, Proposition V.1."""

import math

import numpy as np
import pandas as pd
import pytest

import anonbayes as ab

ns = ab.nonstochastic


def table_of(groups, secrets, values, **settings):
    """A table whose rows with the same letter form a group, over the given sensitive values."""
    frame = pd.DataFrame({"ward": list(groups), "ill": [values[code] for code in secrets]})
    return ab.ReleasedTable.horizontal(frame, "ill", domains={"ill": values}, **settings)


def test_homogeneity_attack_on_a_k_anonymous_table():
    values = ["flu", "HIV", "cold", "gout"]
    said = ns.table_leakage(table_of("aaabbbb", [0, 2, 2, 1, 1, 1, 1], values))
    assert said.k == 3 and not said.is_private
    assert said.groups["n_values"].tolist() == [2, 1]
    assert said.groups["revealed"].tolist() == [None, "HIV"]
    assert said.exposed == 4
    assert said.leakage == pytest.approx(math.log(4))
    assert said.relative_disarray == 0
    assert said.groups["leakage"].tolist() == pytest.approx([math.log(2), math.log(4)])
    assert said.maximin_information == pytest.approx(math.log(2))
    assert "3-anonymous, yet it reveals the sensitive value of 4 rows" in said.text
    content = said.to_dict()
    assert content["groups"][1]["revealed"] == "HIV" and content["exposed"] == 4
    assert said.text in said._repr_html_()


def test_groups_of_cells_and_their_weights():
    frame = pd.DataFrame(
        {"zip": ["455**"] * 3 + ["766**"] * 2, "diagnosis": ["flu", "flu", "HIV", "gout", "gout"]}
    )
    tree = {"zip": ab.Hierarchy.from_prefix(["45501", "45502", "76601"])}
    said = ns.table_leakage(ab.ReleasedTable.horizontal(frame, "diagnosis", hierarchies=tree))
    assert said.exposed == 2 and said.homogeneous["revealed"].tolist() == ["gout"]
    assert said.leakage == pytest.approx(math.log(3))


def test_a_diverse_table_keeps_its_secrets():
    said = ns.table_leakage(table_of("aaabb", [0, 1, 2, 0, 3], list("vwxyz")))
    assert said.is_private and said.exposed == 0
    assert said.leakage == pytest.approx(math.log(5 / 2))
    assert "at least 2 of 5 values remain possible" in said.text


def test_published_numbers_of_a_continuous_range_have_measure_zero():
    said = ns.table_leakage(table_of("aab", [0, 1, 2], [1.5, 2.5, 7.0]), measure=np.zeros(3))
    assert said.leakage == math.inf
    assert said.relative_disarray == -math.inf


def test_binned_numbers_count_with_their_width():
    said = ns.table_leakage(table_of("aab", [0, 1, 2], list("xyz")), measure=[10, 10, 30])
    assert said.groups["leakage"].tolist() == pytest.approx([math.log(50 / 20), math.log(50 / 30)])


def test_suppressed_rows_are_in_no_group():
    frame = pd.DataFrame({"ward": ["a", "a", "*"], "ill": ["flu", "flu", "HIV"]})
    table = ab.ReleasedTable.horizontal(frame, "ill", domains={"ward": ["a", "b"]})
    said = ns.table_leakage(table)
    assert said.groups["size"].sum() == 3 - int((table.group_codes < 0).sum())


def homogeneous_release(k, levels):
    """Quantize Prop. V.1 on a grid: the common value of k people when they agree, else nothing."""
    people = np.indices((levels,) * k).reshape(k, -1)
    report = np.where((people == people[0]).all(axis=0), people[0], levels)
    return ns.Relation.from_function(
        report.tolist(), measure=np.full(report.size, float(levels) ** -k)
    )


@pytest.mark.parametrize("k", [2, 3])
def test_proposition_v1_leakage_of_a_k_anonymous_report_has_no_bound(k):
    """d0 = -k log m and I* = log(m + 1) on a grid of m values: to -infinity and infinity."""
    for levels in (2, 8, 32):
        report = homogeneous_release(k, levels)
        assert ns.entropy(report) == pytest.approx(0, abs=1e-12)
        assert ns.relative_disarray(report) == pytest.approx(-k * math.log(levels))
        assert ns.leakage(report) == pytest.approx(k * math.log(levels))
        assert ns.maximin_information(report) == pytest.approx(math.log(levels + 1))
        # A report says the same of all k people: swapping them changes nothing.
        swapped = np.arange(levels**k).reshape((levels,) * k).swapaxes(0, 1).ravel()
        assert np.array_equal(report.matrix.indices, report.matrix.indices[swapped])
