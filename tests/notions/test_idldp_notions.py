"""OneID and MinID notions and their audits, against brute force over values and reports."""

import itertools

import numpy as np
import pandas as pd
import pytest

import anonbayes as ab

DOMAIN = ab.Domain("x", list("abcd"))
INF = float("inf")
BUDGETS = {
    "finite": [0.5, 1.0, 2.0, 4.0],
    "one infinite": [0.5, 1.0, 2.0, INF],
    "mostly infinite": [1.0, INF, INF, INF],
    "all infinite": [INF] * 4,
}
CHANNELS = {
    "OUE": ab.UnaryEncoding.optimal(DOMAIN, 0.5),
    "RR": ab.RandomizedResponse(DOMAIN, 0.7),
    "uRAP": ab.UtilityOptimizedRAPPOR(DOMAIN, 1.0, sensitive=["a"]),
    "oneid": ab.InputDiscriminativeUE.optimal(DOMAIN, BUDGETS["finite"]),
    "minid": ab.InputDiscriminativeUE.optimal(DOMAIN, BUDGETS["finite"], "minid"),
    "oneid-inf": ab.InputDiscriminativeUE.optimal(DOMAIN, BUDGETS["one infinite"]),
    "bits": ab.InputDiscriminativeUE(DOMAIN, [0.9, 0.8, 0.5, 1.0], [0.5, 0.45, 0.03, 0.2]),
    "proof": ab.InputDiscriminativeUE(DOMAIN, [0.9, 0.8, 0.5, 1.0], [0.5, 0.45, 0.0, 0.0]),
}


def audit_matrix(notion, domain, q, reports):
    return ab.MatrixChannel(domain, q, list(reports)).satisfies(notion)


def worst_excess(q, epsilon, smaller):
    worst = -np.inf
    for x, z in itertools.permutations(range(len(q)), 2):
        limit = min(epsilon[x], epsilon[z]) if smaller else epsilon[x]
        for y in range(q.shape[1]):
            if q[x, y] > 0 and np.isfinite(limit):
                ratio = np.inf if q[z, y] == 0 else np.log(q[x, y] / q[z, y])
                worst = max(worst, ratio - limit)
    return worst


@pytest.mark.parametrize("notion", [ab.OneID, ab.MinID])
@pytest.mark.parametrize("budgets", BUDGETS)
@pytest.mark.parametrize("name", CHANNELS)
def test_audit_equals_brute_force(name, budgets, notion):
    channel, epsilon = CHANNELS[name], BUDGETS[budgets]
    q = channel.matrix()
    excess = worst_excess(q, epsilon, notion is ab.MinID)
    audit = channel.satisfies(notion(epsilon))
    assert audit.holds == (excess <= 1e-9)
    assert audit_matrix(notion(epsilon), DOMAIN, q, range(q.shape[1])).holds == audit.holds
    if np.isfinite(excess):
        assert np.log(audit.worst_ratio / audit.limit) == pytest.approx(excess, abs=1e-9)
    for found in (audit, audit_matrix(notion(epsilon), DOMAIN, q, range(q.shape[1]))):
        if found.holds:
            continue
        x, z = DOMAIN.index(found.witness.value), DOMAIN.index(found.witness.other)
        limit = min(epsilon[x], epsilon[z]) if notion is ab.MinID else epsilon[x]
        assert found.limit == pytest.approx(np.exp(limit))
        with np.errstate(divide="ignore"):
            ratios = q[x][q[x] > 0] / q[z][q[x] > 0]
        assert found.worst_ratio == pytest.approx(ratios.max())


def test_the_limit_of_an_infinite_ratio_is_that_of_the_smaller_budget():
    """A proving report of a value with a large budget, against one with a small budget."""
    budgets = [4.0, 0.5, 0.5, 0.5]
    channel = ab.BitChannel(DOMAIN, [0.9, 0.6, 0.6, 0.6], [0.0, 0.4, 0.4, 0.4])
    for notion, limit in ((ab.MinID(budgets), 0.5), (ab.OneID(budgets), 4.0)):
        q = channel.matrix()
        for audit in (
            channel.satisfies(notion),
            audit_matrix(notion, DOMAIN, q, range(q.shape[1])),
        ):
            assert not audit and audit.worst_ratio == np.inf and audit.witness.value == "a"
            assert audit.limit == pytest.approx(np.exp(limit))


@pytest.mark.parametrize("budgets", ["finite", "one infinite", "mostly infinite"])
@pytest.mark.parametrize("notion", ["oneid", "minid"])
def test_optimal_channels_use_their_budgets_up(budgets, notion):
    """They hold, and with budgets a thousandth smaller they do not."""
    epsilon = np.array(BUDGETS[budgets])
    channel = ab.InputDiscriminativeUE.optimal(DOMAIN, epsilon, notion)
    assert channel.satisfies(channel.notion).holds
    assert not channel.satisfies(type(channel.notion)(epsilon * 0.999)).holds
    for i in np.flatnonzero(np.isfinite(epsilon)):
        less = epsilon.copy()
        less[i] *= 0.999
        if notion == "oneid":  # each single budget binds
            assert not channel.satisfies(ab.OneID(less)).holds


def test_minid_implies_oneid_but_not_the_other_way():
    budgets = BUDGETS["finite"]
    assert CHANNELS["minid"].satisfies(ab.OneID(budgets)).holds
    assert not CHANNELS["oneid"].satisfies(ab.MinID(budgets)).holds


def test_high_low_is_a_oneid_with_infinite_budgets():
    for name in CHANNELS:
        for epsilon in (0.4, 1.0):
            high_low = CHANNELS[name].satisfies(ab.HLLDP(["a"], epsilon))
            oneid = CHANNELS[name].satisfies(ab.OneID([epsilon, INF, INF, INF]))
            assert high_low.holds == oneid.holds


def test_composition_adds_budgets_on_the_product_channel():
    """OneID Prop. 2, on the matrix of two independent releases."""
    first, second = CHANNELS["oneid"], CHANNELS["oneid-inf"]
    q = np.einsum("xy,xz->xyz", first.matrix(), second.matrix()).reshape(4, -1)
    total = first.notion + second.notion
    assert audit_matrix(total, DOMAIN, q, range(q.shape[1])).holds
    less = np.array(BUDGETS["finite"]) + BUDGETS["one infinite"]
    assert not audit_matrix(ab.OneID(0.9 * less), DOMAIN, q, range(q.shape[1])).holds
    by_value = ab.OneID(dict(zip("abcd", range(1, 5), strict=True)))
    assert (by_value + by_value).epsilon(DOMAIN).tolist() == [2, 4, 6, 8]
    with pytest.raises(ab.AnonbayesError, match="same values"):
        by_value + ab.OneID({"a": 1.0})


def test_budgets_in_every_form():
    by_value = {"d": 4.0, "a": 1.0, "b": 2.0, "c": INF}
    expected = [1.0, 2.0, INF, 4.0]
    for form in (by_value, pd.Series(by_value), expected, np.array(expected)):
        assert ab.OneID(form).epsilon(DOMAIN).tolist() == expected
        assert "1 infinite" in repr(ab.OneID(form))
    assert ab.MinID(2).epsilon(DOMAIN).tolist() == [2.0] * 4
    greek = ab.Domain("letter", ["epsilon", "domain"])
    odd = pd.Series({"epsilon": 1.0, "domain": 3.0})
    assert ab.OneID(odd).epsilon(greek).tolist() == [1.0, 3.0]
    assert (ab.OneID(odd) + ab.OneID(odd)).epsilon(greek).tolist() == [2.0, 6.0]


@pytest.mark.parametrize(
    ("budgets", "words"),
    [
        ({"a": 1.0, "b": 1.0, "c": 1.0}, "no entry for 'd'"),
        ({"a": 1.0, "e": 1.0}, "'e' is not a value"),
        ([1.0, 2.0], "shape"),
        ([1.0, -2.0, 1.0, 1.0], "budget of 'b' is"),
        ([1.0, np.nan, 1.0, 1.0], "budget of 'b' is"),
        ("much", "must be numbers"),
    ],
)
def test_wrong_budgets_are_named(budgets, words):
    with pytest.raises(ab.AnonbayesError, match=words):
        CHANNELS["OUE"].satisfies(ab.OneID(budgets))


def test_audit_of_a_large_domain():
    domain = ab.Domain("x", range(70_557))
    budgets = np.where(np.arange(70_557) < 9_459, 1.0, np.log(100))
    channel = ab.InputDiscriminativeUE.optimal(domain, budgets)
    assert channel.satisfies(ab.OneID(budgets)).holds
    budgets[9_458] = 0.99
    refused = channel.satisfies(ab.OneID(budgets))
    assert not refused.holds and refused.witness.value == 9_458
