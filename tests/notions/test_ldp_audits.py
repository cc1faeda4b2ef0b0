"""Audits against brute force over every pair of values and every report."""

import itertools

import numpy as np
import pytest

import anonbayes as ab
from anonbayes.notions.ldp import Bound, Notion

DOMAIN = ab.Domain("x", list("abcd"))
CHANNELS = {
    "RR": ab.RandomizedResponse(DOMAIN, 1.0),
    "uRR": ab.UtilityOptimizedRR(DOMAIN, 0.5, sensitive=["b", "d"]),
    "uRR-none": ab.UtilityOptimizedRR(DOMAIN, 0.5, sensitive=[]),
    "OUE": ab.UnaryEncoding.optimal(DOMAIN, 0.8),
    "RAPPOR": ab.RAPPOR(DOMAIN, 1.0, theta=0.4),
    "uRAP": ab.UtilityOptimizedRAPPOR(DOMAIN, 1.0, sensitive=["a", "c"]),
    "mixed": ab.BitChannel(DOMAIN, [0.9, 0.8, 0.5, 0.6], [0.5, 0.45, 0.03, 0.2]),
    "half-sure": ab.BitChannel(DOMAIN, [0.9, 0.8, 0.5, 1.0], [0.5, 0.45, 0.03, 0.2]),
}


def audit_matrix(notion, domain, q, reports):
    return ab.MatrixChannel(domain, q, list(reports)).satisfies(notion)


class MinOfTwo(Notion):
    """A notion with two bounds, as MinID-LDP has."""

    def __init__(self, budgets):
        self.budgets = np.asarray(budgets, dtype=float)

    def bounds(self, domain):
        zero = np.zeros(len(domain))
        return [Bound(self.budgets, zero), Bound(zero, self.budgets)]


NOTIONS = {
    "LDP": (ab.LDP(0.9), lambda x, z: 0.9),
    "OSLDP": (ab.OSLDP(["a", "c"], 1.0), lambda x, z: 1.0 if x in (0, 2) else np.inf),
    "MinID": (
        MinOfTwo([0.5, 1.0, 4.0, np.inf]),
        lambda x, z: min([0.5, 1.0, 4.0, np.inf][x], [0.5, 1.0, 4.0, np.inf][z]),
    ),
}


def brute_force(q, limit):
    """Largest excess of a log ratio over its limit."""
    worst = -np.inf
    for x, z in itertools.permutations(range(len(q)), 2):
        for y in range(q.shape[1]):
            if q[x, y] > 0 and np.isfinite(limit(x, z)):
                ratio = np.inf if q[z, y] == 0 else np.log(q[x, y] / q[z, y])
                worst = max(worst, ratio - limit(x, z))
    return worst


@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize("name", CHANNELS)
def test_audit_finds_the_worst_pair(name, notion):
    channel, (asked, limit) = CHANNELS[name], NOTIONS[notion]
    q = channel.matrix()
    excess = brute_force(q, limit)
    by_structure = channel.satisfies(asked)
    by_matrix = audit_matrix(asked, DOMAIN, q, [str(i) for i in range(q.shape[1])])
    for audit in (by_structure, by_matrix):
        assert audit.holds == (excess <= 1e-9)
        assert np.log(audit.worst_ratio) - np.log(audit.limit) == pytest.approx(excess, abs=1e-9)
        x, z = DOMAIN.index(audit.witness.value), DOMAIN.index(audit.witness.other)
        with np.errstate(divide="ignore"):
            ratios = q[x][q[x] > 0] / q[z][q[x] > 0]
        assert ratios.max() == pytest.approx(audit.worst_ratio)


@pytest.mark.parametrize("sensitive", [[], ["a"], ["a", "c"], ["b", "d"], list("abcd")])
@pytest.mark.parametrize("name", CHANNELS)
def test_uldp_audit_by_structure_and_by_matrix_agree(name, sensitive):
    channel, notion = CHANNELS[name], ab.ULDP(sensitive, 1.0)
    q = channel.matrix()
    by_matrix = audit_matrix(notion, DOMAIN, q, [str(i) for i in range(q.shape[1])])
    by_structure = channel.satisfies(notion)
    assert by_structure.holds == by_matrix.holds
    assert by_structure.worst_ratio == pytest.approx(by_matrix.worst_ratio)


@pytest.mark.parametrize(
    "channel",
    [
        ab.UtilityOptimizedRR(DOMAIN, 0.7, sensitive=["a", "c"]),
        ab.UtilityOptimizedRAPPOR(DOMAIN, 0.7, sensitive=["a", "c"]),
        ab.UtilityOptimizedRAPPOR.optimal(DOMAIN, 0.7, sensitive=["a", "c"]),
    ],
    ids=["uRR", "uRAP", "uRAP-best"],
)
def test_utility_optimized_channels_are_exactly_as_private_as_they_say(channel):
    """ULDP Props. 2, 3 and 13; any smaller budget is refused."""
    assert channel.satisfies(ab.ULDP(["a", "c"], 0.7)).holds
    assert channel.satisfies(ab.OSLDP(["a", "c"], 0.7)).holds
    refused = channel.satisfies(ab.ULDP(["a", "c"], 0.699))
    assert not refused and refused.worst_ratio == pytest.approx(np.exp(0.7))
    assert refused.witness.value in ("a", "c")
    assert not channel.satisfies(ab.LDP(50.0))
    exposed = channel.satisfies(ab.ULDP(["a", "b"], 0.7))
    assert not exposed and "proves the sensitive value 'b'" in exposed.reason


def test_the_empty_and_the_full_sensitive_set():
    for kind in (ab.UtilityOptimizedRR, ab.UtilityOptimizedRAPPOR):
        everything = kind(DOMAIN, 1.2, sensitive=DOMAIN.values)
        assert everything.satisfies(ab.LDP(1.2)) and not everything.satisfies(ab.LDP(1.19))
        nothing = kind(DOMAIN, 1.2, sensitive=[])
        assert nothing.satisfies(ab.ULDP([], 0.0)) and not nothing.satisfies(ab.LDP(9.0))


def test_audits_of_large_domains_are_fast_enough_to_be_exact():
    domain = ab.Domain("x", range(50_000))
    channel = ab.RAPPOR(domain, 1.0)
    audit = channel.satisfies(ab.LDP(1.0))
    assert audit.holds and audit.worst_ratio == pytest.approx(np.e)


def test_one_value_has_no_pair():
    single = ab.Domain("x", ["only"])
    for channel in (ab.RandomizedResponse(single, 0.1), ab.RAPPOR(single, 0.1)):
        audit = channel.satisfies(ab.LDP(0.0))
        assert audit.holds and audit.witness is None


@pytest.mark.parametrize("epsilon", [-0.1, np.nan, np.inf, "much", None])
def test_budgets_must_be_finite_and_not_negative(epsilon):
    with pytest.raises(ab.AnonbayesError, match="epsilon="):
        ab.LDP(epsilon)
    with pytest.raises(ab.AnonbayesError, match="epsilon="):
        ab.ULDP(["a"], epsilon)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (
            [[0.5, np.nan], [0.5, 0.5]],
            "row of 'yes' .* nan in column 1, which is not a probability",
        ),
        ([[0.5, 0.5], [1.5, -0.5]], "row of 'no' .* column 0"),
        ([[0.5, 0.5], [0.5, 0.4]], "row of 'no' .* sums to 0.9"),
        ([[0.5, 0.5]], "one row per value, 2 for 'answer'"),
        ([1.0, 0.0], "one row per value, 2 for 'answer'"),
    ],
)
def test_what_is_no_channel_is_not_audited(matrix, message):
    yes_no = ab.Domain("answer", ["yes", "no"])
    for notion in (ab.LDP(1.0), ab.ULDP(["yes"], 1.0), ab.OneID(1.0)):
        with pytest.raises(ab.AnonbayesError, match=message):
            audit_matrix(notion, yes_no, matrix, ["y", "n"])


def test_what_is_no_notion_is_refused():
    with pytest.raises(ab.AnonbayesError, match="not a notion of privacy"):
        ab.RandomizedResponse(DOMAIN, 1.0).satisfies(1.0)


def test_notions_of_one_kind_compose():
    budgets = {"a": 1.0, "b": 2.0, "c": np.inf, "d": 0.5}
    twice = ab.compose(ab.OneID(budgets), ab.OneID(budgets))
    assert twice.epsilon(DOMAIN).tolist() == [2.0, 4.0, np.inf, 1.0]
    assert ab.compose(ab.MinID(1.0), ab.MinID(0.5)).epsilon(DOMAIN).tolist() == [1.5] * 4
    assert ab.compose(ab.OSLDP(["a"], 1.0), ab.OSLDP(["a"], 0.5)) == ab.OSLDP(["a"], 1.5)
    for pair in ((ab.OneID(1.0), ab.MinID(1.0)), (ab.ULDP(["a"], 1.0), ab.LDP(1.0)), (1.0, 2.0)):
        with pytest.raises(ab.AnonbayesError, match="cannot be composed"):
            ab.compose(*pair)


def test_an_audit_explains_itself():
    text = str(ab.RandomizedResponse(DOMAIN, 1.0).satisfies(ab.LDP(0.5)))
    assert text.startswith("LDP(epsilon=0.5): violated. The report 'a' is 2.718 times as likely")
    assert "factor of 1.649" in text
    assert "holds" in str(ab.RandomizedResponse(DOMAIN, 1.0).satisfies(ab.LDP(1.5)))
