"""Results of budgets, PIE, attacks and quantization are frozen, and survive pickle and copy."""

import copy
import dataclasses
import inspect
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import anonbayes as ab

ROOMS = (ab.budgets, ab.pie, ab.reidentify, ab.nonstochastic)
DOMAIN = ab.Domain("x", list("abc"))
RESPONSE = ab.RandomizedResponse(DOMAIN, 1.0)
BITS = ab.RAPPOR(DOMAIN, 1.0)
VALUES = ["a", "b", "a", "c", "a", "a"]
JOINT = np.array([[0.2, 0.05, 0.05], [0.1, 0.3, 0.3]])
SQUARE = ab.nonstochastic.Box.cube(-2, 2, 2)


def fitted():
    return ab.fit(ab.datasets.load("table1_recoded"), draws=20, seed=1, progressbar=False)


def scores():
    rng = np.random.default_rng(1)
    return rng.normal(1, 1, 40), rng.normal(0, 1, 90)


MADE = {
    "Budgets": lambda: ab.budgets.from_counts(DOMAIN, 2, [5, 3, 2]),
    "Collection": lambda: ab.budgets.collect(DOMAIN, VALUES * 20, 2, seed=1),
    "Choice": lambda: ab.pie.choose(RESPONSE, 10**6, 0.9),
    "DetCurve": lambda: ab.pie.det_curve(*scores()),
    "Information": lambda: ab.pie.information(JOINT, RESPONSE),
    "ReleaseInformation": lambda: ab.pie.release_information(fitted(), draws=3, records=3),
    "SystemEntropy": lambda: ab.pie.system_entropy(*scores()),
    "WorstCase": lambda: ab.pie.worst_case(RESPONSE, 100),
    "Attack": lambda: ab.reidentify.budget_attack(
        DOMAIN, BITS.release(VALUES, seed=1), VALUES, [1.0, 2.0, 1.0], seed=1
    ),
    "ExpectedAttack": lambda: ab.reidentify.expected_budget_attack(BITS, [3, 1, 2], 1.0),
    "MarkovAttack": lambda: ab.reidentify.markov_attack([[1, 2], [2]], [[1, 2], [2, 3]]),
    "Rate": lambda: ab.reidentify.rate([1, 2], truth=[1, 0]),
    "WorstReport": lambda: ab.reidentify.worst_report(BITS, [3, 1, 2]),
    "Ball": lambda: ab.nonstochastic.optimal_policy([0.5, 0.5], SQUARE, 2).balls[0],
    "Box": lambda: SQUARE,
    "GroupLeakage": lambda: ab.nonstochastic.table_leakage(ab.datasets.load("table1_recoded")),
    "LinearQuery": lambda: ab.nonstochastic.LinearQuery.mean(2),
    "Policy": lambda: ab.nonstochastic.optimal_policy([0.5, 0.5], SQUARE, 2),
    "Region": lambda: ab.nonstochastic.optimal_policy([0.5, 0.5], SQUARE, 2).smallest_region,
    "Relation": lambda: ab.nonstochastic.Relation([[1, 0], [1, 1]]),
}


def public_types():
    found = {}
    for room in ROOMS:
        for name in room.__all__:
            if inspect.isclass(thing := getattr(room, name)):
                found[name] = thing
    return found


def same(one, other):
    """Whether two results hold the same, field by field."""
    if dataclasses.is_dataclass(one):
        fields = [field.name for field in dataclasses.fields(one)]
        return type(one) is type(other) and all(
            same(getattr(one, name), getattr(other, name)) for name in fields
        )
    if isinstance(one, tuple | list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, pd.DataFrame):
        return one.equals(other)
    if sparse.issparse(one):
        return (one != other).nnz == 0
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")
    if isinstance(one, float) and math.isnan(one):
        return math.isnan(other)
    return repr(one) == repr(other)


def test_every_public_type_is_here():
    assert set(public_types()) == set(MADE)


@pytest.mark.parametrize("name", MADE)
def test_results_survive_pickling_and_copying(name):
    result = MADE[name]()
    assert type(result) is public_types()[name]
    assert dataclasses.is_dataclass(result)
    assert repr(result) == repr(MADE[name]())  # nothing in it depends on where it is stored
    for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result), copy.copy(result)):
        assert same(result, again) and same(again, result)
    field = dataclasses.fields(result)[0].name
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(result, field, None)


def test_the_comparison_can_fail():
    one, other = (ab.budgets.from_counts(DOMAIN, gamma, [5, 3, 2]) for gamma in (2, 3))
    assert not same(one, other)


@pytest.mark.parametrize("name", ["Choice", "Information", "ReleaseInformation", "SystemEntropy"])
def test_numbers_can_be_used_as_such(name):
    result = MADE[name]()
    number = float(result)
    assert result == number and hash(result) == hash(number) and result == MADE[name]()
    assert number - 1 < result < number + 1 and number <= result and result >= number
    assert not result > number and not result != number
    assert result + 1 == 1 + result == number + 1
    assert result - 1 == number - 1 and 1 - result == 1 - number
    assert 2 * result == result * 2 == 2 * number
    assert result / 2 == number / 2 and 2 / result == 2 / number
    assert abs(-result) == abs(number) and round(result, 2) == round(number, 2)
    assert f"{result:.3f}" == f"{number:.3f}" and f"{result}" == str(result)
    assert result == pytest.approx(number) and sum([result, result]) == 2 * number
    np.testing.assert_array_equal(np.asarray([result, result], dtype=float), [number, number])
    np.testing.assert_array_equal(np.ones(2) * result, np.full(2, number))
    with pytest.raises(TypeError):
        _ = result < "text"
