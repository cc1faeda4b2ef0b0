"""Hierarchies: four constructors, and the check that they are trees over the domain."""

import numpy as np
import pytest

from anonbayes import Domain, Hierarchy
from anonbayes.errors import DomainError, TableError


def written(tmp_path, text):
    file = tmp_path / "tree.csv"
    file.write_text(text, encoding="utf-8")
    return file


def test_from_csv(tmp_path):
    tree = Hierarchy.from_csv(written(tmp_path, "20;20-21;*\n21;20-21;*\n30;30-31;*\n"))
    assert tree.leaves == (20, 21, 30)
    assert tree.members("20-21") == (20, 21)
    assert tree.members("*") == (20, 21, 30)
    assert tree.depth == 3
    assert tree == Hierarchy.from_levels({20: ["20-21"], 21: ["20-21"], 30: ["30-31"]})


def test_from_csv_keeps_codes_with_leading_zeros(tmp_path):
    assert Hierarchy.from_csv(written(tmp_path, "01;*\n02;*\n")).leaves == ("01", "02")


def test_from_csv_other_separator_bom_and_unicode(tmp_path):
    tree = Hierarchy.from_csv(written(tmp_path, "\ufeffZürich,CH\nÅrhus,DK\n"), sep=",")
    assert tree.members("CH") == ("Zürich",)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a;x;*\nb;x;+\n", "not a tree"),
        ("a;x;*\nb;;*\n", "empty cell in line 2, column 2"),
        ("a;x;*\nb;x\n", "line 2: 2 cells where 3"),
        ("a;x;*\na;x;*\n", "'a' more than once"),
        ("", "is empty"),
    ],
)
def test_bad_files_are_named(tmp_path, text, part):
    with pytest.raises((DomainError, TableError), match=part) as caught:
        Hierarchy.from_csv(written(tmp_path, text))
    assert "tree.csv" in str(caught.value)


def test_no_tree_names_both_leaves():
    with pytest.raises(DomainError, match=r"'a' and 'b' are both 'x' at level 1.*'p' and 'q'"):
        Hierarchy(["a", "b", "c"], [["x", "x", "y"], ["p", "q", "q"]])


def test_one_label_one_meaning():
    with pytest.raises(DomainError, match="'x' for two different sets"):
        Hierarchy(["a", "b", "c", "d"], [["x", "x", "c", "d"], ["y", "y", "x", "x"]])
    with pytest.raises(DomainError, match="both for a leaf"):
        Hierarchy(["a", "b"], [["a", "a"]])
    # A label may be repeated at the next level, and may be that of its single leaf.
    assert Hierarchy(["a", "b"], [["a", "b"], ["a", "b"]]).members("a") == ("a",)


def test_levels_of_different_length():
    tree = Hierarchy.from_levels({"a": ["ab", "abc"], "b": ["ab", "abc"], "c": ["abc"], "d": []})
    assert tree.members("abc") == ("a", "b", "c")
    assert tree.members("*") == ("a", "b", "c", "d")


def test_wrong_numbers_of_labels():
    with pytest.raises(DomainError, match="1 labels for 2 leaves"):
        Hierarchy(["a", "b"], [["x"]])
    with pytest.raises(DomainError, match="at least one leaf"):
        Hierarchy([], [])
    with pytest.raises(DomainError, match="at least one leaf"):
        Hierarchy.from_levels({})
    with pytest.raises(DomainError, match="as a list"):
        Hierarchy.from_levels({"a": "x"})


def test_from_prefix():
    tree = Hierarchy.from_prefix(["45501", "45502", "45601"])
    assert [tree.label(0, h) for h in range(tree.depth)] == [
        "45501", "4550*", "455**", "45***", "4****", "*",
    ]  # fmt: skip
    assert tree.members("455**") == ("45501", "45502")
    labels = [*Hierarchy.from_prefix(["45501", "45601"], width=2)]
    assert labels == ["455**", "456**", "4****", "*"]
    assert [*Hierarchy.from_prefix(["45501"], width=[np.int64(3)])] == ["45***", "*"]


@pytest.mark.parametrize("width", [0, -1, [], [2, 0], [1.5]])
def test_from_prefix_refuses_widths(width):
    with pytest.raises(DomainError, match="at least one character"):
        Hierarchy.from_prefix(["12", "13"], width=width)


def test_from_prefix_refuses_unequal_codes():
    with pytest.raises(DomainError, match="same length, got '1' and '123'"):
        Hierarchy.from_prefix(["1", "123"])


def test_from_intervals_nest():
    tree = Hierarchy.from_intervals(range(17, 40), 5, 10)
    assert tree.members("[20, 25)") == (20, 21, 22, 23, 24)
    assert tree.members("[15, 20)") == (17, 18, 19)
    assert tree.members("[30, 40)") == tuple(range(30, 40))
    with pytest.raises(DomainError, match="not a tree"):
        Hierarchy.from_intervals(range(20), 4, 6)


def test_interval_labels_of_large_and_decimal_numbers():
    tree = Hierarchy.from_intervals([1_000_000, 1_000_001, 1_000_002], 1)
    assert tree.members("[1000001, 1000002)") == (1_000_001,)
    tenths = Hierarchy.from_intervals([0.1, 0.2, 0.3, 0.35], 0.1)
    assert tenths.members("[0.3, 0.4)") == (0.3, 0.35)
    assert Hierarchy.from_intervals([-3, -1], 2).members("[-4, -2)") == (-3,)


@pytest.mark.parametrize(
    ("values", "width"), [([1, 2], 0), ([1, 2], -1), ([1, np.inf], 1), (["a"], 1), ([1], np.nan)]
)
def test_from_intervals_refuses(values, width):
    with pytest.raises(DomainError):
        Hierarchy.from_intervals(values, width)


def test_a_domain_must_be_covered():
    tree = Hierarchy.from_prefix(["11", "12"])
    assert Domain("x", ["12"], tree).hierarchy is tree  # fewer values are fine
    assert Domain("x", [11, 12], tree).hierarchy is tree  # so are numbers for texts
    with pytest.raises(DomainError, match=r"'x' does not list 1 .*'13'"):
        Domain("x", ["11", "13"], tree)


def test_another_leaf_below_the_root_only():
    tree = Hierarchy.from_prefix(["11", "12"]).with_leaf("missing")
    assert tree.members("1*") == ("11", "12")
    assert tree.members("*") == ("11", "12", "missing")
    assert Hierarchy(["a", "b"], []).with_leaf("c").members("*") == ("a", "b", "c")


def test_unknown_label_and_reprs():
    tree = Hierarchy.from_prefix(["11", "12"])
    with pytest.raises(DomainError, match=r"'1\*\*'.*Did you mean '1\*'"):
        tree.members("1**")
    assert repr(tree) == "Hierarchy(2 leaves, labels per level: 2, 1, 1)"
    assert "1*" in tree and "2*" not in tree
    assert hash(tree) == hash(Hierarchy.from_prefix(["11", "12"]))
    with pytest.raises(ValueError, match="read-only"):
        tree.codes[0, 0] = 5
