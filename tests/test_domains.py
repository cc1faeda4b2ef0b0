"""Domains: order, identity, codes, and which texts become numbers."""

import pickle

import numpy as np
import pandas as pd
import pytest

from anonbayes import Domain, Hierarchy
from anonbayes.domains import (
    code_dtype,
    date_place,
    is_missing,
    number_of,
    numbers_of,
    object_array,
    sorted_values,
)
from anonbayes.errors import AnonbayesError, DomainError


def test_order_is_kept_and_codes_are_positions():
    nat = Domain("Nat", ["M", "J", "C"])
    assert nat.values == ("M", "J", "C")
    assert [nat.index(v) for v in nat] == [0, 1, 2]
    assert nat.decode([2, 0]).tolist() == ["C", "M"]


def test_equal_domains_hash_alike_and_names_count():
    assert Domain("a", [1, 2]) == Domain("a", (1.0, np.int8(2)))
    assert hash(Domain("a", [1, 2])) == hash(Domain("a", [1, 2]))
    assert Domain("a", [1, 2]) != Domain("b", [1, 2])
    assert Domain("a", [1, 2]) != Domain("a", [2, 1])
    assert Domain("a", [1]) != [1]


def test_a_domain_cannot_be_changed():
    domain = Domain("a", [1, 2])
    with pytest.raises(AttributeError):
        domain.values = (3,)
    with pytest.raises(ValueError, match="read-only"):
        domain.numbers[0] = 7


def test_pickle_keeps_everything():
    tree = Hierarchy.from_intervals(range(4), 2)
    again = pickle.loads(pickle.dumps(Domain("a", range(4), tree)))
    assert again == Domain("a", range(4)) and again.hierarchy == tree and again.find(3) == 3


@pytest.mark.parametrize(
    ("values", "part"),
    [
        ([], "empty"),
        (["a", "b", "a"], "'a' more than once"),
        ([1, 1.0], "1 more than once"),
        ([1, "1"], "look the same"),
        ([1, True], "Booleans"),
        (["a", None], "missing"),
        (["a", np.nan], "missing"),
        ([pd.NaT], "missing"),
        ([np.datetime64("NaT", "ns")], "missing"),
        ([["a"]], "not hashable"),
        (5, "give a list"),
        ([10**400], "too large"),
    ],
)
def test_bad_values_are_named(values, part):
    with pytest.raises(DomainError, match=part):
        Domain("col", values)


@pytest.mark.parametrize("name", ["", None, 3])
def test_a_domain_needs_a_name(name):
    with pytest.raises(DomainError, match="name"):
        Domain(name, ["a"])


def test_a_text_is_an_iterable_of_its_characters():
    assert Domain("x", "ab").values == ("a", "b")


def test_a_set_of_values_is_sorted():
    assert Domain("a", {"c", "a", "b"}).values == ("a", "b", "c")


def test_numbers_are_kept():
    domain = Domain("x", [np.float64(2.5), np.int64(1), 3.0])
    assert domain.values == (2.5, 1, 3) and domain.is_numeric
    assert domain.numbers.tolist() == [2.5, 1.0, 3.0]
    assert domain.labels == ("2.5", "1", "3")


@pytest.mark.parametrize("values", [["a", 1], [True, False], [(1, 2)]])
def test_not_numeric(values):
    domain = Domain("x", values)
    assert not domain.is_numeric
    with pytest.raises(DomainError, match="not numeric"):
        _ = domain.numbers


@pytest.mark.parametrize(
    ("value", "code"),
    [
        (1, 1), (1.0, 1), (np.uint8(1), 1), ("1", 1), (True, None), ("01", None),
        ("1.0", 1), (np.nan, None), (None, None), ([1], None), (np.array([1]), None), (7, None),
    ],
)  # fmt: skip
def test_find_in_numbers(value, code):
    assert Domain("x", [0, 1, 2]).find(value) == code
    assert (value in Domain("x", [0, 1, 2])) is (code is not None)


def test_find_in_texts_and_truth_values():
    codes = Domain("x", ["1", "02", "nan"])
    assert (codes.find(1), codes.find(2), codes.find("02")) == (0, None, 1)
    assert codes.find(float("nan")) is None
    truth = Domain("x", [False, True])
    assert (truth.find(True), truth.find(np.bool_(False)), truth.find("True")) == (1, 0, 1)
    assert truth.find(1) is None


def test_find_dates_of_either_library():
    dates = Domain("d", pd.to_datetime(["2020-01-01", "2020-02-01"]))
    assert dates.find(np.datetime64("2020-02-01", "ns")) == 1
    assert dates.find(np.datetime64("2020-02-01")) == 1


def test_index_names_the_nearest():
    with pytest.raises(DomainError, match=r"'Japn'.*'Nat'.*'Japan'"):
        Domain("Nat", ["Japan", "China"]).index("Japn")


def test_encode_uses_small_codes_and_names_row():
    domain = Domain("x", range(300))
    codes = domain.encode(pd.Series([299, 0, 299], index=[7, 7, 7]))
    assert codes.tolist() == [299, 0, 299] and codes.dtype == np.uint16
    assert Domain("x", ["a"]).encode([]).tolist() == []
    with pytest.raises(DomainError, match="'x', row 2: 'zz'"):
        Domain("x", ["a", "b"]).encode(["a", "b", "zz"])
    with pytest.raises(DomainError, match="row 1"):
        Domain("x", ["a", "b"]).encode(["a", None])
    with pytest.raises(DomainError, match="not hashable"):
        Domain("x", ["a", "b"]).encode([["a"]])


def test_encode_decode_are_inverse_for_tuples():
    pairs = [("a", 1), ("b", 2), ("a", 2)]
    domain = Domain("pair", pairs)
    assert domain.decode(domain.encode(pairs)).tolist() == pairs


def test_infer_sorts_and_drops_missing():
    assert Domain.infer("x", ["b", None, "a", "b", ""]).values == ("a", "b")
    assert Domain.infer("x", [3, 1, np.nan]).values == (1, 3)
    assert Domain.infer("x", pd.array([3, 1, None], dtype="Int64")).values == (1, 3)
    assert Domain.infer("x", pd.Series(["b", None, "a"], dtype="string")).values == ("a", "b")
    assert Domain.infer("x", pd.Series([True, False])).values == (False, True)


def test_infer_keeps_categories():
    sizes = pd.Series(pd.Categorical(["L", "S"], categories=["S", "M", "L"], ordered=True))
    assert Domain.infer("size", sizes).values == ("S", "M", "L")


@pytest.mark.parametrize(
    "values", [[True, 1], [0, False, 3], [1.0, True], [1, "1"]], ids=lambda v: str(v)
)
def test_infer_refuses_types_that_look_alike(values):
    with pytest.raises(DomainError, match="one type"):
        Domain.infer("x", pd.Series(values, dtype=object))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", 0), ("17", 17), ("-3", -3), ("2.50", 2.5), ("3.0", 3), ("0.1", 0.1),
        ("007", None), ("1e3", None), ("+1", None), ("-0", None), ("1_000", None), ("", None),
        ("٣", None), ("inf", None), ("nan", None), ("9" * 40, None), (17, None), (" 1", None),
    ],
)  # fmt: skip
def test_usual_spelling_of_numbers(text, number):
    assert number_of(text) == number


def test_texts_become_numbers_only_without_loss():
    assert numbers_of(["1", "2.5"]) == [1, 2.5]
    assert numbers_of(["1.1", "1.10"]) is None  # versions, not numbers
    assert numbers_of([]) is None
    assert numbers_of([1, 2]) is None


def test_sorting_mixed_types_is_stable_over_runs():
    assert sorted_values(["b", 2, "a", 1.5]) == [1.5, 2, "a", "b"]


def test_small_helpers():
    assert code_dtype(1) == np.uint8 and code_dtype(65_537) == np.uint32
    assert object_array([[1, 2], (3,)]).shape == (2,)
    assert [*map(is_missing, (float("nan"), " ", pd.NA, {1, 2}))] == [True, True, True, False]
    assert [*map(date_place, ("1970-01-02", "02.01.1970", "1970-13-01"))] == [86400, 86400, None]


def test_errors_are_value_errors():
    assert issubclass(DomainError, AnonbayesError) and issubclass(AnonbayesError, ValueError)
