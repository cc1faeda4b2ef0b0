"""Every public result survives pickle and copy, shows itself, and cannot be changed by accident.

What is public is found: the classes in the public namespaces, and whatever their functions, methods
and properties say they return. A new one that is not made here fails.
"""

import copy
import dataclasses
import importlib
import inspect
import math
import pickle
import pkgutil
import re

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import anonbayes as ab
from anonbayes.channels.numbers import MeanEstimate
from anonbayes.inference.vertical.parts import PartsFit
from anonbayes.risk.summed import PartsAssessment

ROOMS = (ab, ab.budgets, ab.pie, ab.reidentify, ab.nonstochastic, ab.anonymize, ab.datasets)
INPUTS = {
    # What people make themselves; mechanisms, notions and domains have tests of their own.
    "Channel", "Notion", "Domain", "IntegerDomain", "Hierarchy", "AnonbayesError", "Dataset",
    # Parts of results that are looked at through them.
    "Bound", "Codes", "DirichletTree", "Model", "Naming", "Ratios", "Records",
    "ReportEvidence", "Symbols", "PersonalChannel", "ErrorBound",
    "Scaled", "Attributes", "PaddedSets", "Items",
}  # fmt: skip
DOMAIN = ab.Domain("x", list("abc"))
RESPONSE = ab.RandomizedResponse(DOMAIN, 1.0)
BITS = ab.RAPPOR(DOMAIN, 1.0)
VALUES = ["a", "b", "a", "c", "a", "a"]
JOINT = np.array([[0.2, 0.05, 0.05], [0.1, 0.3, 0.3]])
SQUARE = ab.nonstochastic.Box.cube(-2, 2, 2)


def fitted():
    return ab.fit(ab.datasets.load("table1_recoded"), draws=20, seed=1, progressbar=False)


def assessed():
    return fitted().assess(ab.datasets.load("table1"))


def summed():
    risk = assessed()
    scores, gain = risk.belief_scores, risk.gain
    return PartsAssessment(
        risk.summary, risk.standard_errors, scores, risk.faithfulness, gain, records=8, buckets=1
    )


def loaded(name):
    return ab.datasets.load(name)


def recoded():
    people = loaded("table1")[["ZIP", "Dis"]]
    hierarchy = ab.Hierarchy.from_prefix(sorted(people["ZIP"].unique()), 1)
    return ab.anonymize.recode(people, "Dis", {"ZIP": hierarchy}, k=2, return_recoding=True)[1]


def scores():
    rng = np.random.default_rng(1)
    return rng.normal(1, 1, 40), rng.normal(0, 1, 90)


MADE = {
    "Posterior": fitted,
    "PartsFit": lambda: PartsFit(
        pd.DataFrame({"weight": [0.5]}), pd.Series([1.0]), {}, pd.Series([-1.0]), 4, 2, 3, 8, 8
    ),
    "PartsAssessment": summed,
    "ReleasedTable": lambda: loaded("table1_recoded"),
    "RiskAssessment": assessed,
    "Comparison": lambda: ab.compare({"one": assessed(), "two": assessed()}),
    "Recommendation": lambda: ab.compare({"one": assessed(), "two": assessed()}).recommend(),
    "Actor": lambda: ab.Actor.neighbour("Nat"),
    "Attackers": lambda: ab.attackers(
        loaded("table1_recoded"), loaded("table1"), post=fitted(), progressbar=False
    ),
    "Shuffled": lambda: ab.shuffled(RESPONSE, 1000, delta=1e-6),
    "AttributeReports": lambda: ab.Attributes([DOMAIN, ab.Domain("y", list("de"))], 1.0).release(
        pd.DataFrame({"x": VALUES, "y": list("dedede")}), seed=1
    ),
    "Ranks": lambda: ab.sbc(loaded("table1_recoded"), simulations=10, draws=10, seed=1),
    "Sensitivity": lambda: ab.sensitivity(
        loaded("table1_recoded"), loaded("table1"), factors=(2.0,)
    ),
    "PredictiveCheck": lambda: fitted().check(draws=5),
    "DiagnosticReport": lambda: ab.diagnose(fitted()),
    "Ideal": lambda: ab.ideal(loaded("table1"), sensitive="Dis"),
    "Identity": lambda: ab.identity(
        loaded("table1")[["Nat", "ZIP"]],
        population=100,
        draws=10,
        tune=10,
        chains=2,
        seed=1,
        progressbar=False,
    ),
    "Membership": lambda: ab.membership(
        loaded("table1_recoded"), loaded("table1"), register=loaded("table1")[:4], folds=2
    ),
    "Downcoding": lambda: ab.downcoding(
        loaded("table1_recoded"), lambda frame: loaded("table1_recoded"), draws=100
    ),
    "ReidentificationRisk": lambda: assessed().reidentification,
    "Answer": lambda: assessed().wp29()[0],
    "Limit": lambda: ab.check_limits(assessed(), max_threatened=0.5)[0],
    "Advice": lambda: ab.choose_channel(DOMAIN, 1.0, 1000),
    "Estimate": lambda: RESPONSE.estimate(RESPONSE.release(VALUES * 9, seed=1)),
    "MeanEstimate": lambda: MeanEstimate(0.5, (0.4, 0.6), 0.95, 0.05, 100),
    "Audit": lambda: RESPONSE.satisfies(ab.LDP(1.0)),
    "BitReports": lambda: BITS.release(VALUES, seed=1),
    "SupportCounts": lambda: ab.SupportCounts([3, 1, 2], n=6),
    "HashReports": lambda: ab.LocalHashing(DOMAIN, 1.0, g=3).release(VALUES, seed=1),
    "Island": lambda: ab.datasets.island(11, 0.1),
    "Pass": lambda: recoded().passes[0],
    "Recoding": recoded,
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
    """Results by name: public classes, and those that public things return."""
    known = {}
    for info in pkgutil.walk_packages(ab.__path__, "anonbayes."):
        if info.name.endswith("__main__"):
            continue
        module = importlib.import_module(info.name)
        known |= {
            name: thing
            for name, thing in vars(module).items()
            if inspect.isclass(thing) and thing.__module__ == info.name and name[0] != "_"
        }
    found = {}

    def returned(thing):
        try:
            words = re.findall(r"\w+", str(inspect.signature(thing).return_annotation))
        except (TypeError, ValueError):
            return
        found.update({word: known[word] for word in words if word in known})

    for room in ROOMS:
        for name in room.__all__:
            thing = getattr(room, name)
            if not inspect.isclass(thing):
                returned(thing)
                continue
            found[thing.__name__] = thing
            for key, member in inspect.getmembers(thing):
                if not key.startswith("_"):
                    returned(getattr(member, "fget", None) or getattr(member, "func", member))
    mechanisms = tuple(known[name] for name in ("Channel", "Notion", "Domain"))
    return {
        name: thing
        for name, thing in found.items()
        if name not in INPUTS
        and not issubclass(thing, mechanisms)
        and not name.endswith("Likelihood")
    }


def same(one, other):
    """Whether two results hold the same, field by field."""
    if dataclasses.is_dataclass(one):
        fields = [field.name for field in dataclasses.fields(one)]
        return type(one) is type(other) and all(
            same(getattr(one, name), getattr(other, name)) for name in fields
        )
    if isinstance(one, ab.BitReports):
        return all(same(getattr(one, k), getattr(other, k)) for k in ("indptr", "indices", "size"))
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
    assert dataclasses.is_dataclass(result) or name == "BitReports"  # which has slots of its own
    assert repr(result) == repr(MADE[name]())  # nothing in it depends on where it is stored
    for again in (pickle.loads(pickle.dumps(result)), copy.deepcopy(result), copy.copy(result)):
        assert same(result, again) and same(again, result)
    if name == "BitReports":
        return
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
