"""The parser: each spelling of a cell, and values that look like another spelling."""

import numpy as np
import pandas as pd
import pytest

from anonbayes import Domain, Hierarchy
from anonbayes.errors import AnonbayesError, CellError
from anonbayes.tables.cells import CellParser, is_pattern, range_ends, split_set
from anonbayes.tables.evidence import Column, Evidence
from tests.work import counted_lines

AGE = CellParser(Domain("age", range(18, 66)))
NAT = CellParser(Domain("Nat", ["M", "J", "C", "I"]))


def values(parser, cell):
    return [parser.domain.values[c] for c in parser.parse(cell)]


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        (20, [20]),
        (20.0, [20]),
        (np.int16(20), [20]),
        ("20", [20]),
        (" 20 ", [20]),
        ("20.0", [20]),
        ("+20", [20]),
        ("020", [20]),
        ("20-22", [20, 21, 22]),
        ("20 - 22", [20, 21, 22]),
        ("20–22", [20, 21, 22]),
        ("20 to 22", [20, 21, 22]),
        ("20-20", [20]),
        ("-5-19", [18, 19]),
        ("[20, 22)", [20, 21]),
        ("(20, 22]", [21, 22]),
        ("(20, 22)", [21]),
        ("[20, 22]", [20, 21, 22]),
        ("[20,22[", [20, 21]),
        ("]20;22]", [21, 22]),
        ("[64, inf)", [64, 65]),
        ("(-∞, 19]", [18, 19]),
        (">=64", [64, 65]),
        ("≥ 64", [64, 65]),
        (">64", [65]),
        ("<19", [18]),
        ("≤19", [18, 19]),
        ("<= 19", [18, 19]),
        ("{20, 30, 40}", [20, 30, 40]),
        ("{20-22, >=65}", [20, 21, 22, 65]),
        ("{[20, 22), 30}", [20, 21, 30]),
        ("6*", list(range(60, 66))),
        ("6**", None),
        ({20, 30}, [20, 30]),
        (frozenset([20]), [20]),
        ([30, 20, 30], [20, 30]),
        ((20, "30"), [20, 30]),
        (range(20, 23), [20, 21, 22]),
        (np.array([20, 21]), [20, 21]),
        (np.array(20), [20]),
        (pd.Index([20]), [20]),
        (pd.Series([20, 21], index=[5, 5]), [20, 21]),
        (pd.Interval(20, 22, closed="left"), [20, 21]),
        (pd.Interval(20, 22), [21, 22]),
        ([pd.Interval(20, 22), 30], [21, 22, 30]),
        ("*", list(range(18, 66))),
    ],
    ids=str,
)
def test_numeric_domain(cell, expected):
    if expected is None:
        with pytest.raises(CellError):
            AGE.parse(cell)
    else:
        assert values(AGE, cell) == expected


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("J", ["J"]),
        (" J", ["J"]),
        ("{M, J}", ["M", "J"]),
        ("{J,M}", ["M", "J"]),
        ("{ 'J' , \"M\" }", ["M", "J"]),
        ("frozenset({'J', 'M'})", ["M", "J"]),
        ("{*}", ["M", "J", "C", "I"]),
        (["M", "*"], ["M", "J", "C", "I"]),
        (("M", "I"), ["M", "I"]),
        ("*", ["M", "J", "C", "I"]),
    ],
    ids=str,
)
def test_text_domain(cell, expected):
    assert values(NAT, cell) == expected


def test_values_win_over_every_other_reading():
    odd = ["20-29", "a, b", "a", "4550*", "*", "{x}", "[1, 2)", ">=50", "-3", "<=50K", "x}"]
    parser = CellParser(Domain("odd", odd))
    for value in odd:
        assert values(parser, value) == [value]
    assert values(parser, {"a, b", "*"}) == ["a, b", "*"]


def test_commas_inside_set_members():
    parser = CellParser(Domain("job", ["clerk", "nurse, senior", "nurse, junior"]))
    assert values(parser, "{nurse, senior, clerk}") == ["clerk", "nurse, senior"]
    assert values(parser, "{'nurse, junior', 'clerk'}") == ["clerk", "nurse, junior"]
    ambiguous = CellParser(Domain("x", ["a", "b", "a, b"]))
    with pytest.raises(CellError, match="in several ways"):
        ambiguous.parse("{a, b}")
    assert values(ambiguous, {"a, b"}) == ["a, b"]


def test_masks():
    zips = CellParser(Domain("zip", ["45501", "45502", "4551", "46000", "0100"]))
    assert values(zips, "455*") == ["45501", "45502", "4551"]  # one star: any ending
    assert values(zips, "455**") == ["45501", "45502"]  # more: so many characters
    assert values(zips, "0***") == ["0100"]
    with pytest.raises(CellError, match="contains no value"):
        zips.parse("45501*")
    with pytest.raises(CellError, match="not a value, label"):
        zips.parse("4*5")
    numbers = CellParser(Domain("zip", [45501, 45511]))
    assert values(numbers, "4550*") == [45501]


def test_negative_numbers_and_ranges():
    parser = CellParser(Domain("t", range(-5, 6)))
    assert values(parser, "-3") == [-3]
    assert values(parser, "-3--1") == [-3, -2, -1]
    assert values(parser, "-1-1") == [-1, 0, 1]
    assert values(parser, "(-2, -1]") == [-1]
    assert values(parser, "<-4") == [-5]


def test_a_category_beside_numbers_is_in_no_range():
    parser = CellParser(Domain("age", [20, 25, 30, "missing"]))
    assert values(parser, "20-25") == [20, 25]
    assert values(parser, ">=25") == [25, 30]
    assert values(parser, "[20, inf)") == [20, 25, 30]
    assert values(parser, pd.Interval(20, 30)) == [25, 30]
    assert values(parser, "{20-25, missing}") == [20, 25, "missing"]
    assert values(parser, "*") == [20, 25, 30, "missing"]


def test_hierarchy_labels_come_before_patterns():
    tree = Hierarchy.from_levels({20: ["20-29"], 25: ["20-29"], 29: ["x*"], 31: ["x*"]})
    parser = CellParser(Domain("age", [20, 25, 29, 31], tree))
    assert values(parser, "20-29") == [20, 25]  # 29 is not below that label
    assert values(parser, "x*") == [29, 31]
    assert values(parser, "{20-29, 31}") == [20, 25, 31]
    fewer = CellParser(Domain("age", [20, 31], tree))
    assert values(fewer, "20-29") == [20]


@pytest.mark.parametrize("cell", [None, np.nan, pd.NA, pd.NaT, "", "  ", "\t\n"], ids=repr)
def test_missing_is_never_silent(cell):
    with pytest.raises(CellError, match=r"row 3: .*missing='unknown'"):
        NAT.parse(cell, row=3)
    unknown = CellParser(NAT.domain, missing="unknown")
    assert len(unknown.parse(cell)) == 4
    category = CellParser(Domain("Nat", ["M", "?"]), missing="category", missing_label="?")
    assert values(category, cell) == ["?"]


def test_empty_text_can_be_a_value():
    assert values(CellParser(Domain("x", ["", "a"])), "") == [""]


def test_missing_member_and_unknown_policy():
    with pytest.raises(CellError, match="contains a missing value"):
        NAT.parse(["M", None])
    with pytest.raises(AnonbayesError, match="'error', 'unknown', 'category'"):
        CellParser(NAT.domain, missing="drop")


@pytest.mark.parametrize(
    ("cell", "part"),
    [
        ("X", "'X' is not a value"),
        ("Jj", "Did you mean 'J'"),
        ("{M, X}", "contains 'X', which is not a value"),
        ("{}", "contains no value of the domain"),
        ([], "contains no value of the domain"),
        ("{M, }", "contains ''"),
        (["M", 3], "contains 3"),
        ([["M"]], r"contains \['M'\]"),
        ("20-29", "has no numbers"),
        (pd.Interval(0, 1), "has no numbers"),
        (3.5, "3.5 is not a value"),
        (b"M", "b'M' is not a value"),
        (object, "is not a value"),
        ({"M": 1}, "is not a value"),
    ],
    ids=repr,
)
def test_errors_say_what_is_wrong(cell, part):
    with pytest.raises(CellError, match=part) as caught:
        NAT.parse(cell, row="r7")
    assert str(caught.value).startswith("Column 'Nat', row r7: cell ")


@pytest.mark.parametrize(
    ("cell", "part"),
    [
        ("30-20", "lower end above its upper end"),
        ("[30, 20)", "lower end above its upper end"),
        ("2020-01", "lower end above its upper end"),
        ("70-80", r"contains no value of the domain \(48 values, from 18 to 65\)"),
        ("[20, 20)", "contains no value"),
        ("{20-29, 90-99}", "contains '90-99', which is not a value"),
        (pd.Interval(pd.Timestamp(2020, 1, 1), pd.Timestamp(2021, 1, 1)), "interval of times"),
        (pd.Interval(pd.Timedelta(1, "D"), pd.Timedelta(2, "D")), "interval of times"),
        (True, "True is not a value"),
    ],
    ids=str,
)
def test_numeric_errors(cell, part):
    with pytest.raises(CellError, match=part):
        AGE.parse(cell)


def test_large_sets_and_long_cells_take_work_in_proportion():
    parser = CellParser(Domain("x", [f"v{i}, w" for i in range(4000)]))
    parser.parse("{v0, w}")  # prepares itself
    steps = []
    for size in (1000, 2000, 4000):
        text = "{" + ", ".join(parser.domain.labels[:size]) + "}"
        with counted_lines() as lines:
            assert len(parser.parse(text)) == size
        steps.append(lines.count)
    assert steps[2] - steps[1] < 3 * (steps[1] - steps[0])  # 2 times, if proportional
    with pytest.raises(CellError):
        AGE.parse("1" * 100_000 + "x")
    with pytest.raises(CellError) as caught:
        AGE.parse("{" + "18, " * 20_000 + "x}")
    assert len(str(caught.value)) < 500


def test_patterns_by_sight():
    assert is_pattern("4*") and is_pattern("{a}") and is_pattern("1-2") and is_pattern("(1, 2]")
    assert not any(map(is_pattern, ["a-b", ">50K", "Never-married", "[a, b]", "x", "", "1"]))
    assert split_set("{a}") == ["a"] and split_set("a") == [] and split_set("{}") == []


def test_ends_of_ranges():
    assert range_ends("20-29") == ("20", "29", True, True) and range_ends(">=50") is None
    assert range_ends("[24.4, 25.6)") == ("24.4", "25.6", True, False)


def test_values_that_cells_show():
    age = Domain("age", [20, 22, 24, 97])
    cells = Evidence.from_members(age, [[0, 1, 2], [3]], ["20-24", "90+"])
    assert cells.shown.tolist() == [True, False, True, False]
    hidden = Column(cells, np.array([0, 1])).published().domain.values
    assert hidden == (20, "not shown 1", 24, "not shown 2")
