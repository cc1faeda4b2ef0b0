"""Released tables: conditional ranges of groups, homogeneity, Proposition V.1."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import anonbayes as ab
from anonbayes.errors import TableError

ns = ab.nonstochastic


def stand_in():
    """A 3-anonymous table with one homogeneous group and one suppressed row."""
    return SimpleNamespace(
        sensitive="diagnosis",
        domains={"diagnosis": ab.Domain("diagnosis", ["flu", "HIV", "cold", "gout"])},
        group_codes=np.array([0, 0, 0, 1, 1, 1, 1, -1]),
        secret_codes=np.array([0, 2, 2, 1, 1, 1, 1, 3]),
        weights=None,
    )


def test_homogeneity_attack_on_a_k_anonymous_table():
    found = ns.table_leakage(stand_in())
    assert found.k == 3 and not found.is_private
    assert found.groups["n_values"].tolist() == [2, 1]
    assert found.groups["revealed"].tolist() == [None, "HIV"]
    assert found.exposed == 4
    assert found.leakage == pytest.approx(math.log(4))
    assert found.relative_disarray == 0
    assert found.groups["leakage"].tolist() == pytest.approx([math.log(2), math.log(4)])
    assert found.maximin_information == pytest.approx(math.log(2))
    assert "3-anonymous, yet it reveals the sensitive value of 4 rows" in found.text
    content = json.loads(found.to_json())
    assert content["groups"][1]["revealed"] == "HIV" and content["exposed"] == 4
    assert found.text in found._repr_html_()


def test_a_released_table_reads_like_its_codes():
    frame = pd.DataFrame(
        {"zip": ["455**"] * 3 + ["766**"] * 2, "diagnosis": ["flu", "flu", "HIV", "gout", "gout"]}
    )
    codes = ["45501", "45502", "76601"]
    table = ab.ReleasedTable.horizontal(
        frame, "diagnosis", hierarchies={"zip": ab.Hierarchy.from_prefix(codes)}
    )
    found = ns.table_leakage(table)
    assert found.exposed == 2 and found.homogeneous["revealed"].tolist() == ["gout"]
    assert found.leakage == pytest.approx(math.log(3))


def test_a_diverse_table_keeps_its_secrets():
    found = ns.group_leakage([0, 0, 0, 1, 1], [0, 1, 2, 0, 3], n_secrets=5)
    assert found.is_private and found.exposed == 0
    assert found.leakage == pytest.approx(math.log(5 / 2))
    assert "at least 2 of 5 values remain possible" in found.text


def test_published_numbers_of_a_continuous_range_have_measure_zero():
    found = ns.group_leakage([0, 0, 1], [0, 1, 2], n_secrets=3, measure=np.zeros(3))
    assert found.leakage == math.inf
    assert found.relative_disarray == -math.inf
    assert json.loads(found.to_json())["relative_disarray"] == "-inf"


def test_binned_numbers_count_with_their_width():
    found = ns.group_leakage([0, 0, 1], [0, 1, 2], n_secrets=3, measure=[10, 10, 30])
    assert found.groups["leakage"].tolist() == pytest.approx([math.log(50 / 20), math.log(50 / 30)])


def test_suppressed_rows_can_have_any_value():
    relation = ns.table_relation([0, 0, -1], [0, 0, 2], n_secrets=4)
    assert relation.secrets_given(1).tolist() == [0, 1, 2, 3]
    assert ns.entropy(relation) == pytest.approx(math.log(4))


def test_group_numbers_need_not_be_consecutive():
    found = ns.group_leakage([7, 7, 3], [0, 1, 1], n_secrets=2)
    assert found.groups.index.tolist() == [3, 7]
    assert found.groups["size"].tolist() == [1, 2]


@pytest.mark.parametrize("k", [2, 3])
def test_proposition_v1_leakage_of_a_k_anonymous_report_has_no_bound(k):
    """d0 = -k log m and I* = log(m + 1) on a grid of m values: to -infinity and infinity."""
    for levels in (2, 8, 32):
        report = ns.homogeneous_release(k, levels)
        assert ns.entropy(report) == pytest.approx(0, abs=1e-12)
        assert ns.relative_disarray(report) == pytest.approx(-k * math.log(levels))
        assert ns.leakage(report) == pytest.approx(k * math.log(levels))
        assert ns.maximin_information(report) == pytest.approx(math.log(levels + 1))
        # A report says the same of all k people: swapping them changes nothing.
        swapped = np.arange(levels**k).reshape((levels,) * k).swapaxes(0, 1).ravel()
        assert np.array_equal(report.matrix.indices, report.matrix.indices[swapped])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ns.group_leakage([0, 1], [0], 2), "one of each per row"),
        (lambda: ns.group_leakage([0, 1], [0, 2], 2), "Row 1: secret code 2"),
        (lambda: ns.group_leakage([0, -2], [0, 1], 2), "Row 1: group code -2"),
        (lambda: ns.group_leakage([-1, -1], [0, 1], 2), "Every row is suppressed"),
        (lambda: ns.homogeneous_release(1, 3), "k >= 2"),
        (lambda: ns.homogeneous_release(9, 30), "too many"),
    ],
)
def test_bad_tables_say_what_is_wrong(call, words):
    with pytest.raises(TableError, match=words):
        call()
