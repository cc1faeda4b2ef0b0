"""Measures on finite relations against enumeration, and their inequalities on random relations."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import anonbayes as ab
from anonbayes.errors import AnonbayesError, ChannelError

ns = ab.nonstochastic


@st.composite
def relations(draw, max_x=7, max_y=7):
    n_x, n_y = draw(st.integers(1, max_x)), draw(st.integers(1, max_y))
    cells = draw(st.lists(st.booleans(), min_size=n_x * n_y, max_size=n_x * n_y))
    matrix = np.array(cells).reshape(n_x, n_y)
    matrix[draw(st.integers(0, n_x - 1)), draw(st.integers(0, n_y - 1))] = True
    return matrix


def taxicab_components(matrix):
    """Components of the pairs themselves, by flooding: Definition II.2 to the letter."""
    left = set(zip(*np.nonzero(matrix), strict=True))
    count = 0
    while left:
        count += 1
        frontier = [left.pop()]
        while frontier:
            x, y = frontier.pop()
            reached = {p for p in left if p[0] == x or p[1] == y}
            left -= reached
            frontier.extend(reached)
    return count


@given(relations())
def test_measures_are_sizes_of_conditional_ranges(matrix):
    ranges = [set(np.flatnonzero(column)) for column in matrix.T if column.any()]
    whole = set().union(*ranges)
    sizes = [len(r) for r in ranges]
    assert ns.entropy(matrix) == pytest.approx(math.log(len(whole)))
    assert ns.conditional_entropy(matrix) == pytest.approx(math.log(max(sizes)))
    assert ns.relative_disarray(matrix) == pytest.approx(math.log(min(sizes)))
    assert ns.information(matrix) == pytest.approx(math.log(len(whole) / max(sizes)))
    assert ns.leakage(matrix) == pytest.approx(math.log(len(whole) / min(sizes)))
    assert ns.maximin_information(matrix) == pytest.approx(math.log(taxicab_components(matrix)))


@given(relations())
def test_maximin_information_is_symmetric_and_not_above_leakage(matrix):
    relation = ns.Relation(matrix)
    assert relation.n_components == ns.Relation(matrix.T).n_components
    # A component holds at least one whole conditional range, and components are disjoint.
    assert ns.maximin_information(relation) <= ns.leakage(relation) + 1e-12


@given(relations(), st.data())
def test_post_processing_never_lowers_privacy(matrix, data):
    """Quantize Thm. III.1, for both measures of privacy, with sizes other than one too."""
    n_x, n_y = matrix.shape
    sizes = data.draw(st.lists(st.floats(0.1, 10), min_size=n_x, max_size=n_x))
    target = data.draw(st.lists(st.integers(0, n_y - 1), min_size=n_y, max_size=n_y))
    before = ns.Relation(matrix, measure=sizes)
    after = ns.Relation(matrix @ np.eye(n_y)[target], measure=sizes)
    for measure in ("leakage", "maximin"):
        gained = ns.privacy(after, measure=measure) - ns.privacy(before, measure=measure)
        assert math.isnan(gained) or gained >= -1e-9
    assert ns.leakage(after) <= ns.leakage(before) + 1e-12


@given(relations(), relations())
def test_data_processing_of_taxicab_information(first, second):
    """``I*(X;Z) <= min(I*(X;Y), I*(Y;Z))`` when Z depends on X through Y only."""
    n_y = min(first.shape[1], second.shape[0])
    x_y, y_z = first[:, :n_y].copy(), second[:n_y].copy()
    x_y[0, 0] = y_z[0, 0] = True
    x_y[:, ~y_z.any(axis=1)] = False  # every y that occurs leads to some z, and the reverse
    y_z[~x_y.any(axis=0)] = False
    if not x_y.any():
        return
    x_z = x_y.astype(int) @ y_z.astype(int)
    through = ns.maximin_information(x_z)
    assert through <= ns.maximin_information(x_y) + 1e-12
    assert through <= ns.maximin_information(y_z) + 1e-12


def test_example_of_a_mechanism_that_shows_half_of_the_secrets():
    """Quantize Ex. II.1 on a grid: information is bounded, leakage is not."""
    leaks = []
    for n in (10, 100, 1000):
        answers = ["high" if i >= n / 2 else i for i in range(n)]
        relation = ns.Relation.from_function(answers, measure=np.full(n, 1 / n))
        assert ns.entropy(relation) == pytest.approx(0)
        assert ns.conditional_entropy(relation) == pytest.approx(math.log(1 / 2))
        assert ns.maximin_information(relation) == pytest.approx(math.log(n / 2 + 1))
        leaks.append(ns.leakage(relation))
    np.testing.assert_allclose(leaks, np.log([10, 100, 1000]))


def test_a_range_of_measure_zero_leaks_everything():
    relation = ns.Relation.from_function(["a", "b"], measure=[1.0, 0.0])
    assert ns.relative_disarray(relation) == -math.inf
    assert ns.leakage(relation) == math.inf
    assert ns.privacy(relation) == 0


def test_unrelated_variables_leak_nothing():
    unrelated = np.ones((4, 3))
    assert ns.leakage(unrelated) == ns.maximin_information(unrelated) == 0
    assert ns.transmission(unrelated) == pytest.approx(0)
    assert ns.privacy(unrelated) == ns.privacy(unrelated, measure="maximin") == math.inf
    assert ns.transmission(np.eye(5)) == pytest.approx(math.log(5))


@given(relations())
def test_transmission_counts_pairs_and_is_symmetric(matrix):
    n_x, n_y = matrix.any(axis=1).sum(), matrix.any(axis=0).sum()
    assert ns.transmission(matrix) == pytest.approx(math.log(n_x * n_y / matrix.sum()))
    assert ns.transmission(matrix) == pytest.approx(ns.transmission(matrix.T))


def test_impossible_secrets_and_releases_do_not_count():
    matrix = np.zeros((5, 4))
    matrix[1, 2] = matrix[3, 2] = 1
    assert ns.entropy(matrix) == pytest.approx(math.log(2))
    assert ns.maximin_information(matrix) == 0


def test_a_large_sparse_relation_is_no_trouble():
    n = 300_000
    relation = ns.Relation.from_pairs(np.arange(n), np.arange(n) // 3)
    assert relation.n_components == n // 3
    assert ns.leakage(relation) == pytest.approx(math.log(n / 3))
    assert ns.leakage(sparse.identity(n)) == pytest.approx(math.log(n))


@settings(max_examples=20)
@given(st.integers(1, 12), st.floats(0.1, 5))
def test_error_bound_is_the_radius_of_a_ball_of_that_volume(n, radius):
    volume = math.pi ** (n / 2) / math.gamma(n / 2 + 1) * radius**n
    assert ns.adversary_error_bound(math.log(volume), dimension=n) == pytest.approx(radius)


def test_error_bounds_of_the_mechanism_that_shows_half_of_the_secrets():
    """Quantize Ex. II.1: d_max = 1/4 attains Thm. II.1, and d_min = 0 Thm. II.2."""
    relation = ns.Relation.from_function([0, 1, 1], measure=[0.0, 0.25, 0.25])
    bound = ns.adversary_error_bound(relation, dimension=1, release="largest")
    assert bound == pytest.approx(1 / 4)
    assert ns.adversary_error_bound(relation, dimension=1) == 0


def test_quality_is_one_over_the_largest_euclidean_error():
    true = np.array([[0.0, 0.0], [1.0, 1.0]])
    assert ns.quality(true + np.array([0.3, 0.4]), true=true) == pytest.approx(2)
    assert ns.quality(true, true=true) == math.inf


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ns.Relation(np.zeros((2, 2))), "no possible pair"),
        (lambda: ns.Relation(np.eye(2), measure=[1, -1]), r"measure\[1\]"),
        (lambda: ns.Relation(np.eye(2), measure=[1]), "2 secrets"),
        (lambda: ns.Relation("text"), "matrix of possible pairs"),
        (lambda: ns.Relation.from_pairs([0], [0, 1]), "equal length"),
        (lambda: ns.Relation.from_pairs([5], [0], shape=(2, 2)), "do not fit shape"),
        (lambda: ns.Relation([[1, 0], [math.nan, 1]]), "Row 1 of the relation holds NaN"),
        (lambda: ns.Relation([[1, 0], [1]]), "matrix of possible pairs"),
        (lambda: ns.leakage([]), "no possible pair"),
        (lambda: ns.privacy(np.eye(2), measure="bits"), "'leakage', 'maximin'"),
        (lambda: ns.quality([1.0]), "true answers"),
        (lambda: ns.quality([1.0], true=[1.0, 2.0]), "one released answer per true one"),
        (lambda: ns.adversary_error_bound(0.0), "dimension="),
        (lambda: ns.adversary_error_bound(0.0, dimension=0), "dimension=0 must be a whole"),
        (lambda: ns.adversary_error_bound(0.0, dimension=1, release="x"), "release='x'"),
    ],
)
def test_bad_input_says_what_is_wrong(call, words):
    with pytest.raises(AnonbayesError, match=words):
        call()
    assert issubclass(ChannelError, AnonbayesError)
