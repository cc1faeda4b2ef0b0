"""The uniform quantizer as a channel."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anonbayes as ab
from anonbayes.errors import AnonbayesError, ChannelError

ns = ab.nonstochastic
AGES = ab.Domain("age", range(0, 100))


def test_worked_bins_and_levels():
    quantizer = ab.UniformQuantizer.optimal(-2, 2, gamma=2)
    assert quantizer.bins == 4
    assert quantizer.levels.tolist() == [-1.5, -0.5, 0.5, 1.5]
    assert quantizer.release([-2, -1, -0.001, 0, 0.999, 1, 2]).tolist() == [
        -1.5, -0.5, -0.5, 0.5, 0.5, 1.5, 1.5,
    ]  # fmt: skip
    # ceil(75 gamma) for heights in [100, 250]; 75 * 0.28 is a hair above 21 in floats.
    for gamma, bins in ((0.01, 1), (0.28, 21), (0.281, 22), (0.3, 23), (1.0, 75)):
        assert ab.UniformQuantizer.optimal(100, 250, gamma).bins == bins


@given(st.floats(-100, 100), st.floats(0.1, 1000), st.floats(0.01, 5), st.data())
def test_errors_never_exceed_the_promise(lower, span, gamma, data):
    quantizer = ab.UniformQuantizer.optimal(lower, lower + span, gamma)
    values = np.array(data.draw(st.lists(st.floats(quantizer.lower, quantizer.upper), min_size=1)))
    reports = quantizer.release(values)
    assert np.abs(reports - values).max() <= (1 + 1e-8) / gamma
    assert quantizer.quality >= gamma * (1 - 1e-8)
    assert np.array_equal(quantizer.release(reports), reports)
    inside = [
        value in cell for value, cell in zip(values, quantizer.intervals(reports), strict=True)
    ]
    assert all(inside)


def test_evidence_is_membership():
    quantizer = ab.UniformQuantizer(0, 99, 4, domain=AGES)
    values = np.arange(100)
    codes, labels, matrix = quantizer.evidence(quantizer.release(values))
    assert labels == quantizer.levels.tolist()
    dense = matrix.toarray()
    for value, code in zip(values, codes, strict=True):
        wanted = quantizer.release(values) == labels[code]
        assert np.array_equal(dense[code] == 1, wanted)
        assert dense[code, value] == 1
    assert set(np.unique(dense)) == {0, 1}
    np.testing.assert_array_equal(dense.T, quantizer.matrix())
    np.testing.assert_array_equal(quantizer.matrix().sum(axis=1), 1)


def test_evidence_lists_distinct_reports_in_order_of_appearance():
    quantizer = ab.UniformQuantizer(0, 100, 10, domain=AGES)
    codes, labels, matrix = quantizer.evidence([95, 5, 95, 45])
    assert codes.tolist() == [0, 1, 0, 2] and labels == [95, 5, 45]
    assert matrix.shape == (3, 100)


def test_estimates_spread_each_bin_evenly_and_match_the_counts():
    quantizer = ab.UniformQuantizer(0, 100, 4, domain=AGES)
    reports = quantizer.release(np.repeat([10, 30, 60, 90], [40, 30, 20, 10]))
    p = quantizer.estimate(reports, method="mle").p
    np.testing.assert_allclose(p, np.repeat([0.4, 0.3, 0.2, 0.1], 25) / 25, atol=1e-6)
    posterior = quantizer.estimate(
        reports, method="bayes", alpha=1.0, draws=400, tune=100, chains=2, seed=1
    ).p
    # Dirichlet(1, ..., 1) on 100 values: mean of a bin (count + 25)/(100 + 100); its draws are
    # independent given the counts, standard error below 0.002.
    np.testing.assert_allclose(
        posterior.reshape(4, 25).sum(axis=1), [65 / 200, 55 / 200, 45 / 200, 35 / 200], atol=0.01
    )


def test_without_a_domain_the_values_are_the_bins():
    quantizer = ab.UniformQuantizer(0, 10, 5)
    assert quantizer.domain.numbers.tolist() == [1, 3, 5, 7, 9]
    np.testing.assert_array_equal(quantizer.matrix(), np.eye(5))
    digits = ab.UniformQuantizer(0, 10, 5, domain=ab.Domain("digit", range(10)))
    assert digits.matrix().shape == (10, 5)


def test_no_local_differential_privacy_but_bounded_information():
    quantizer = ab.UniformQuantizer(0, 100, 10, domain=AGES)
    audit = quantizer.satisfies(ab.LDP(5.0))
    assert not audit.holds and audit.worst_ratio == math.inf
    low, high = audit.witness.value, audit.witness.other
    assert quantizer.release([low])[0] != quantizer.release([high])[0]
    assert quantizer.epsilon == math.inf
    assert not quantizer.satisfies(ab.ULDP([3], 5.0)).holds
    # One bin tells nothing at all.
    assert ab.UniformQuantizer(0, 100, 1, domain=AGES).satisfies(ab.LDP(0.0)).holds
    assert ab.UniformQuantizer(0, 100, 1, domain=AGES).epsilon == 0


def test_the_measures_read_a_quantizer_like_a_relation():
    quantizer = ab.UniformQuantizer(0, 100, 10, domain=AGES)
    relation = ns.Relation(quantizer.matrix())
    assert ns.leakage(quantizer) == pytest.approx(math.log(10))
    assert ns.leakage(quantizer) == pytest.approx(ns.leakage(relation))
    assert ns.maximin_information(quantizer) == pytest.approx(ns.maximin_information(relation))
    assert ns.quality(quantizer) == pytest.approx(0.2)
    assert ns.adversary_error_bound(quantizer) == pytest.approx(5)


def test_intervals_are_cells_of_a_table():
    quantizer = ab.UniformQuantizer(0, 30, 3)
    cells = quantizer.intervals(quantizer.release([0, 9.9, 10, 30]))
    assert [str(c) for c in cells] == ["[0.0, 10.0)", "[0.0, 10.0)", "[10.0, 20.0)", "[20.0, 30.0]"]
    assert all(isinstance(c, pd.Interval) for c in cells)


def test_a_binned_column_means_the_same_in_a_table_however_it_is_written():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {"age": rng.integers(18, 78, 60), "diagnosis": rng.choice(["flu", "cold"], 60)}
    )
    ages = ab.Domain("age", range(18, 79))
    quantizer = ab.UniformQuantizer(18, 78, 6, domain=ages)
    reports = quantizer.release(frame["age"])
    by_channel = ab.ReleasedTable.horizontal(
        frame.assign(age=reports), "diagnosis", channels={"age": quantizer}
    )
    by_cell = ab.ReleasedTable.horizontal(
        frame.assign(age=quantizer.intervals(reports)), "diagnosis", domains={"age": ages}
    )
    assert by_channel.is_nested and by_channel.n_groups == by_cell.n_groups == 6
    for table in (by_channel, by_cell):
        column = table.columns["age"]
        allowed = column.evidence.matrix.toarray()[column.codes]
        assert np.array_equal(allowed > 0, quantizer.release(ages.numbers) == reports[:, None])
    assert ns.table_leakage(by_channel).groups.equals(ns.table_leakage(by_cell).groups)


def test_a_domain_may_leave_bins_empty():
    quantizer = ab.UniformQuantizer(0, 10, 5, domain=ab.Domain("x", [9, 1, 0]))
    assert quantizer.matrix().tolist() == [[1, 0], [0, 1], [0, 1]]
    assert quantizer.evidence([1.0, 9.0]).labels == [1, 9]


def test_a_million_values_need_no_loop():
    values = np.random.default_rng(0).uniform(0, 100, 1_000_000)
    quantizer = ab.UniformQuantizer(0, 100, 1000, domain=ab.Domain("x", np.arange(0, 100, 0.01)))
    codes, labels, matrix = quantizer.evidence(quantizer.release(values))
    assert len(codes) == 1_000_000 and len(labels) == 1000 and matrix.nnz == 10_000


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ab.UniformQuantizer(1, 1, 2), "lower below upper"),
        (lambda: ab.UniformQuantizer(0, math.inf, 2), "finite"),
        (lambda: ab.UniformQuantizer(0, 1, 0), "bins=0"),
        (lambda: ab.UniformQuantizer(0, 1, 2.5), "bins=2.5"),
        (lambda: ab.UniformQuantizer.optimal(0, 1, -1), "gamma=-1"),
        (lambda: ab.UniformQuantizer.optimal(0, 1, 1e12), "needs 5e[+]11 bins"),
        (lambda: ab.UniformQuantizer(0, 50, 5, domain=AGES), r"domain 'age'\[51\] = 51"),
        (lambda: ab.UniformQuantizer(0, 1, 2, domain=ab.Domain("s", ["a"])), "not numeric"),
        (lambda: ab.UniformQuantizer(0, 1, 2).release([0.5, 3]), r"values\[1\] = 3"),
        (lambda: ab.UniformQuantizer(0, 1, 2).release([0.5, math.nan]), r"values\[1\] = nan"),
        (lambda: ab.UniformQuantizer(0, 1, 2).release(["x"]), "list of numbers"),
        (lambda: ab.UniformQuantizer(0, 1, 2).release([[0.5]]), "list of numbers"),
        (lambda: ab.UniformQuantizer(0, 10, 2).evidence([2.5, 4.0]), "Report 1 is 4, .* 2.5"),
        (
            lambda: ab.UniformQuantizer(0, 10, 5, domain=ab.Domain("x", [1, 9])).evidence([5]),
            r"no value of domain 'x' lies in its bin \[4, 6\)",
        ),
        (lambda: ab.UniformQuantizer(0, 10, 5).expected_loss([1], 5), "no unbiased estimator"),
    ],
)
def test_bad_quantizers_say_what_is_wrong(call, words):
    with pytest.raises(AnonbayesError, match=words):
        call()
    assert issubclass(ChannelError, AnonbayesError)
