"""Bad input: errors that name the value, or a defined result."""

import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import anonbayes as ab
from anonbayes.errors import ChannelError, MisfitWarning

DOMAIN = ab.Domain("x", list("abc"))
MAKERS = [
    lambda e: ab.RandomizedResponse(DOMAIN, e),
    lambda e: ab.UtilityOptimizedRR(DOMAIN, e, sensitive=["a"]),
    lambda e: ab.RAPPOR(DOMAIN, e),
    lambda e: ab.UnaryEncoding.optimal(DOMAIN, e),
    lambda e: ab.UtilityOptimizedRAPPOR(DOMAIN, e, sensitive=["a"]),
    lambda e: ab.UtilityOptimizedRAPPOR.optimal(DOMAIN, e, sensitive=["a"]),
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("epsilon", [-1.0, float("nan"), float("inf"), "1.0x", None])
def test_impossible_budgets(make, epsilon):
    with pytest.raises(ab.AnonbayesError, match="epsilon="):
        make(epsilon)


@pytest.mark.parametrize("make", MAKERS)
def test_a_zero_budget_is_legal_and_tells_nothing(make):
    channel = make(0.0)
    reports = channel.release(["a", "b", "c"], seed=1)
    assert len(reports) == 3
    assert channel.satisfies(ab.LDP(0.0)).holds


def test_a_domain_of_one_value():
    single = ab.Domain("x", ["a"])
    for channel in (
        ab.RandomizedResponse(single, 1.0),
        ab.UtilityOptimizedRR(single, 1.0, sensitive=[]),
        ab.RAPPOR(single, 1.0),
        ab.UtilityOptimizedRAPPOR(single, 1.0, sensitive=["a"]),
    ):
        reports = channel.release(["a"] * 4, seed=1)
        np.testing.assert_allclose(channel.estimate(reports).p, [1.0])
        draws = channel.estimate(reports, method="bayes", draws=3, tune=1, chains=1).draws
        np.testing.assert_allclose(draws, 1.0)
    assert ab.RandomizedResponse(single, 1.0).worst_case_loss(10) == pytest.approx(0.0)


@pytest.mark.parametrize("odd", [["a"], Decimal("sNaN")])
def test_labels_and_reports_that_cannot_be_hashed(odd):
    with pytest.raises(ab.AnonbayesError, match="cannot be the label of a cell"):
        ab.Generalization(DOMAIN, ["a", "a", odd])
    channel = ab.MatrixChannel(DOMAIN, {v: {"y": 0.5, "n": 0.5} for v in "abc"})
    with pytest.raises(ChannelError, match=r"Report 1: .* is not one of the channel's reports"):
        channel.estimate(["y", odd])


@pytest.mark.parametrize("kind", [ab.UtilityOptimizedRR, ab.UtilityOptimizedRAPPOR])
def test_sensitive_values_outside_the_domain(kind):
    with pytest.raises(ab.AnonbayesError, match="'z' is not a value of domain 'x'"):
        kind(DOMAIN, 1.0, sensitive=["a", "z"])
    with pytest.raises(ab.AnonbayesError, match="sensitive"):
        kind(DOMAIN, 1.0, sensitive="abc")


def test_values_and_reports_outside_the_domain():
    channel = ab.RandomizedResponse(DOMAIN, 1.0)
    with pytest.raises(ab.AnonbayesError, match="row 1: 'z' is not in the domain"):
        channel.release(["a", "z"])
    with pytest.raises(ab.AnonbayesError, match=r"cannot produce one of the reports.*row 2: 'q'"):
        channel.estimate(["a", "b", "q"])
    with pytest.raises(ab.AnonbayesError, match="one text"):
        channel.release("abc")
    with pytest.raises(ab.AnonbayesError, match="row 0: nan"):
        channel.release(np.array([np.nan]))
    assert len(channel.release([])) == 0


def test_bit_reports_that_the_channel_cannot_produce():
    channel = ab.UtilityOptimizedRAPPOR(DOMAIN, 1.0, sensitive=["a"])
    with pytest.raises(ab.AnonbayesError, match="report 1: it raises the bits of both 'b' and 'c'"):
        channel.estimate([[1, 0, 0], [1, 1, 1]], method="mle")
    with pytest.raises(ab.AnonbayesError, match="produces 3 bits, but the reports have 2"):
        channel.estimate([[1, 0]])
    with pytest.raises(ab.AnonbayesError, match="Report 0, bit 1 is"):
        channel.estimate([[1, 2, 0]])
    with pytest.raises(ab.AnonbayesError, match=r"shape \(3,\)"):
        channel.estimate([1, 0, 0])
    assert len(channel.release([])) == 0


def test_reports_of_probability_zero():
    sure = ab.UnaryEncoding(DOMAIN, 1.0, 0.25)
    blind = ab.UtilityOptimizedRR(DOMAIN, 0.0, sensitive=["a"])
    for method in ("mle", "em", "bayes"):
        with pytest.raises(ab.AnonbayesError, match="zero"):
            sure.estimate([[0, 1, 0], [0, 0, 0]], method=method)
    with pytest.raises(ab.AnonbayesError, match="zero"):
        blind.estimate(["b"], method="bayes")


def test_malformed_sparse_reports():
    with pytest.raises(ab.AnonbayesError, match="must start with 0"):
        ab.BitReports([1, 2], [0], 3)
    with pytest.raises(ab.AnonbayesError, match="number of ones"):
        ab.BitReports([0, 3], [0], 3)
    with pytest.raises(ab.AnonbayesError, match="Report 1 raises bit 5, but reports have 3"):
        ab.BitReports([0, 1, 2], [0, 5], 3)
    with pytest.raises(ab.AnonbayesError, match="report 1 must be distinct and ascend"):
        ab.BitReports([0, 1, 3, 4], [2, 1, 1, 0], 3)
    fine = ab.BitReports([0, 0, 2, 2, 3], [1, 2, 0], 3)
    assert fine[1].tolist() == [1, 2] and fine[-1].tolist() == [0] and len(fine[0]) == 0
    with pytest.raises(IndexError, match="no report 4"):
        fine[4]
    assert ab.BitReports.from_dense(fine.to_dense()) == fine
    np.testing.assert_array_equal(fine.to_csr().toarray(), fine.to_dense())


@pytest.mark.parametrize(
    "hit, miss, message",
    [
        ([0.5, 0.5], 0.1, "one for each of the 3 values"),
        (1.2, 0.1, "hit of 'a' is"),
        (0.5, -0.1, "miss of 'a' is"),
        (0.5, float("nan"), "miss of 'a' is"),
        ([0.5, 0.2, 0.5], 0.3, "bit of 'b'"),
        (1.0, 1.0, "nor 1"),
    ],
)
def test_impossible_bit_probabilities(hit, miss, message):
    with pytest.raises(ab.AnonbayesError, match=message):
        ab.BitChannel(DOMAIN, hit, miss)


@pytest.mark.parametrize("theta", [0.0, 1.0, -1, 2, float("nan")])
def test_impossible_theta(theta):
    with pytest.raises(ab.AnonbayesError, match="theta="):
        ab.RAPPOR(DOMAIN, 1.0, theta=theta)


def test_estimates_show_themselves():
    channel = ab.RandomizedResponse(DOMAIN, 1.0)
    estimate = channel.estimate(["a", "b", "c", "a"])
    assert list(estimate.to_series().index) == ["a", "b", "c"]
    assert list(estimate.summary().columns) == ["p", "lower", "upper"]
    assert "mle estimate of x from 4 reports" in estimate._repr_html_()
    planted = ab.RandomizedResponse(ab.Domain("<script>", ["<i>", "b"]), 1.0)
    page = planted.estimate(planted.release(["b"] * 9, seed=1))._repr_html_()
    assert "<script>" not in page and "<i>" not in page
    assert repr(channel) == "RandomizedResponse('x', 3 values, epsilon=1)"


@pytest.mark.parametrize("seed", ["1", 1.5, -1])
def test_seeds_that_are_none_are_refused(seed):
    channel = ab.RandomizedResponse(ab.Domain("x", "ab"), 1.0)
    for draw in (channel.release, lambda v, seed: channel.simulate([3, 4], seed=seed)):
        with pytest.raises(ChannelError, match="seed="):
            draw(["a"], seed=seed)


def test_a_table_of_values_is_refused():
    channel = ab.RandomizedResponse(ab.Domain("x", "ab"), 1.0)
    with pytest.raises(ChannelError, match=r"one column.*\(1, 2\)"):
        channel.release(np.array([["a", "b"]], dtype=object))


def test_labelled_shares_are_taken_by_their_labels():
    domain = ab.Domain("x", ["a", "b", "c"])
    channel = ab.UtilityOptimizedRR(domain, 1.0, sensitive=["a"])
    plain = np.array([0.1, 0.2, 0.7])
    reports = ["a", "b", "c", "c"]
    for p in (pd.Series({"c": 0.7, "b": 0.2, "a": 0.1}), {"c": 0.7, "a": 0.1, "b": 0.2}):
        assert channel.expected_loss(p, 10) == channel.expected_loss(plain, 10)
        np.testing.assert_array_equal(channel.apply(p), channel.apply(plain))
        assert channel.log_likelihood(p, reports) == channel.log_likelihood(plain, reports)
        np.testing.assert_array_equal(
            channel.estimate(reports, method="em", iterations=3, start=p).p,
            channel.estimate(reports, method="em", iterations=3, start=plain).p,
        )
    with pytest.raises(ab.errors.DomainError, match="each value of 'x' exactly once"):
        channel.expected_loss({"a": 1.0}, 10)
    with pytest.raises(ab.errors.DomainError, match="'z'"):
        channel.apply(pd.Series({"a": 0.5, "b": 0.2, "z": 0.3}))
    with pytest.raises(ChannelError, match="numbers"):
        channel.expected_loss(["p", "q", "r"], 10)


def test_labelled_knowledge_of_tags_is_taken_by_its_labels():
    places = ab.Domain("place", ["clinic", "park", "mall", "<home>"])
    common = ab.UtilityOptimizedRR(places, epsilon=2.0, sensitive=["clinic", "<home>"])
    channel = ab.Personalized(common, tags=["<home>"])
    reports = ["<home>"] * 5 + ["park"] * 3 + ["clinic"] * 4
    found = [
        channel.estimate(reports, method="mle", knowledge={"<home>": known}).p
        for known in ([0.5, 0.2, 0.3], pd.Series({"mall": 0.3, "clinic": 0.5, "park": 0.2}))
    ]
    np.testing.assert_array_equal(*found)


def test_reports_that_a_channel_made_cannot_be_changed():
    """Compiled code relies on positions that were right when they were drawn."""
    bits = ab.UnaryEncoding(ab.Domain("x", list("abc")), 0.5, 0.4).release(list("abcabc"), seed=1)
    for array in (bits.indices, bits.indptr, bits[0]):
        with pytest.raises(ValueError, match="read-only"):
            array[:] = 9


# -------------------------------------------------------------------------------------------------
# Nothing reaches compiled code without bounds that hold.


@pytest.mark.parametrize("codes", [[-1], [5], [-7, 2], [2.5], ["a"], None, [[0, 1]]])
@pytest.mark.parametrize(
    "make",
    [
        lambda domain: ab.RandomizedResponse(domain, 1.0),
        lambda domain: ab.UnaryEncoding.optimal(domain, 1.0),
        lambda domain: ab.SubsetSelection(domain, 1.0),
        lambda domain: ab.HadamardResponse(domain, 1.0),
        lambda domain: ab.LocalHashing(domain, 1.0),
    ],
)
def test_codes_outside_the_domain_are_refused(make, codes):
    """A code of -1 used to make a report whose count wrote beyond the end of an array."""
    channel = make(ab.Domain("x", "abcde"))
    with pytest.raises(ab.AnonbayesError, match=r"(?i)codes"):
        channel.release_codes(codes, seed=1)
    if isinstance(channel, ab.BitChannel):
        with pytest.raises(ab.AnonbayesError, match=r"(?i)codes"):
            channel.collect(codes, seed=1)


def test_bits_that_nobody_raises_are_impossible():
    channel = ab.BitChannel(ab.Domain("x", "abc"), [0.5, 0.0, 1.0], [0.5, 0.0, 0.0])
    reports = ab.BitReports.from_dense([[1, 0, 0], [1, 1, 0]])
    for method in ("mle", "bayes"):
        with pytest.raises(ab.AnonbayesError, match=r"report 1.*'b', which nobody raises"):
            channel.estimate(reports, method=method)


@pytest.mark.parametrize("epsilon", [0.0, 5e-324, 1e-300, 1e-9, 744.0, 746.0, 1e300])
@pytest.mark.parametrize(
    "make",
    [
        lambda domain, e: ab.RAPPOR(domain, e, theta=1e-300),
        lambda domain, e: ab.UtilityOptimizedRR(domain, e, sensitive=["a"]),
        lambda domain, e: ab.UtilityOptimizedRAPPOR.optimal(domain, e, sensitive=["a", "b"]),
        lambda domain, e: ab.SubsetSelection(domain, e),
        lambda domain, e: ab.Duchi(ab.BinnedDomain("x", 0, 1, 5), e),
        lambda domain, e: ab.Piecewise(ab.BinnedDomain("x", 0, 1, 5), e),
    ],
)
def test_extreme_budgets_give_distributions_or_our_errors(make, epsilon):
    """No infinite or missing number, no division by zero, whatever the budget."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", MisfitWarning)
        try:
            channel = make(ab.Domain("x", "abcde"), epsilon)
            values = [0.1, 0.5, 0.9] if channel.domain.labels[0].startswith("[") else list("ace")
            reports = channel.release(values, seed=1)
        except ab.AnonbayesError:
            return
        for method in channel.methods:
            short = {"draws": 6, "tune": 4, "chains": 2, "seed": 1} if method == "bayes" else {}
            try:
                p = channel.estimate(reports, method=method, **short).p
            except ab.AnonbayesError:
                continue
            assert np.isfinite(p).all(), method


ODD = [None, object(), "abc", "", b"x", [], [[1], [1, 2]], ["a"], float("nan"), 10**400, 1e308, {}]


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: repr(odd)[:12])
def test_odd_arguments_give_our_errors(odd):
    domain = ab.Domain("x", "abc")
    channel = ab.UnaryEncoding.optimal(domain, 1.0)
    numbers = [1.0, 2.0, 3.5, 4.0]
    for ask in (
        lambda: ab.pie.SystemEntropy(odd, 1, 1, 1, 1, 1),
        lambda: ab.pie.DetCurve(odd, odd, odd),
        lambda: ab.pie.system_entropy(odd, numbers),
        lambda: ab.pie.system_entropy(numbers, odd),
        lambda: ab.pie.system_entropy(numbers, numbers[:3], k=odd),
        lambda: ab.pie.det_curve(odd, numbers),
        lambda: ab.pie.convergence(numbers, odd),
        lambda: ab.pie.convergence(numbers, numbers, users=odd),
        lambda: ab.pie.capacity(odd),
        lambda: ab.pie.bound(odd, 10),
        lambda: ab.pie.bound(channel, 10, odd),
        lambda: ab.pie.contraction(odd),
        lambda: ab.pie.choose(odd, 10, 0.5),
        lambda: ab.pie.bounds_by_budget(channel, 10, odd),
        lambda: ab.pie.release_information(odd),
        lambda: ab.reidentify.expected_budget_attack(odd, [1, 2, 3], 1.0),
        lambda: ab.reidentify.worst_report(odd, [1, 2, 3]),
        lambda: ab.budgets.combine(odd),
        lambda: ab.shuffled(odd, 10),
        lambda: ab.OneID(odd).epsilon(domain),
        lambda: channel.estimate(np.eye(3), method="em", iterations=odd),
        lambda: channel.estimate(np.eye(3), method="em", tolerance=odd),
        lambda: channel.estimate(np.eye(3), method="em", start=odd),
        lambda: channel.estimate(np.eye(3), method="threshold", alpha=odd),
        lambda: channel.simulate(odd),
        lambda: ab.Attributes(odd, 1.0),
        lambda: ab.PaddedSets(domain, 1.0, length=2).release(odd),
        lambda: ab.choose_channel(domain, 1.0, 10, sensitive=odd),
        lambda: ab.nonstochastic.Relation.from_pairs(odd, odd),
    ):
        try:
            ask()
        except ab.AnonbayesError:
            pass
