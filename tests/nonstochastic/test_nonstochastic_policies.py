"""Optimal policies on boxes: the worked values, both metrics, answers, renderings."""

import math

import numpy as np
import pytest
from scipy import ndimage

import anonbayes as ab
from anonbayes.errors import AnonbayesError

ns = ab.nonstochastic
SQUARE = ns.Box.cube(-2, 2, 2)


def ellipse(x):
    return x[..., 0] ** 2 + 2 * x[..., 1] ** 2


# -- worked values ---------------------------------------------------------------------------


def test_mean_of_two_numbers():
    """Quantize Ex. IV.1 and Figure 1."""
    policy = ns.optimal_policy(ns.LinearQuery.mean(2), SQUARE, gamma=2)
    assert policy.method == "exact"
    np.testing.assert_allclose(policy.levels, [-1.5, -0.5, 0.5, 1.5], atol=1e-12)
    np.testing.assert_allclose(policy.edges, [-2, -1, 0, 1, 2], atol=1e-12)
    np.testing.assert_allclose(np.exp(policy.conditional_log_measures), [2, 6, 6, 2], rtol=1e-12)
    assert policy.smallest_region.measure == pytest.approx(2, rel=1e-12)
    assert policy.leakage == pytest.approx(math.log(8), rel=1e-12)
    assert policy.maximin_information == pytest.approx(math.log(4), rel=1e-12)
    assert policy.quality == pytest.approx(2)
    assert policy.adversary_error == pytest.approx(math.sqrt(2), rel=1e-9)
    assert policy.adversary_error_bound == pytest.approx(math.sqrt(2 / math.pi), rel=1e-12)


@pytest.mark.parametrize("gamma", [0.2, 0.5, 0.51, 0.99, 1.0, 1.3, 2.0, 3.7, 10.0])
def test_mean_of_two_numbers_at_any_quality(gamma):
    """Figure 3: q = ceil(2 gamma), L0 = log(q^2/2), radius 4 sqrt 2 / q."""
    policy = ns.optimal_policy([0.5, 0.5], SQUARE, gamma)
    q = math.ceil(2 * gamma)
    assert len(policy.regions) == q
    assert policy.maximin_information == pytest.approx(math.log(q))
    assert policy.leakage == pytest.approx(math.log(q * q / 2) if q >= 2 else 0, abs=1e-12)
    assert policy.adversary_error == pytest.approx(4 * math.sqrt(2) / max(q, 2), rel=1e-9)
    assert policy.adversary_error >= policy.adversary_error_bound
    assert policy.quality >= gamma * (1 - 1e-12)


def test_nonlinear_query():
    """Quantize Ex. IV.1 and Figure 2, x1^2 + 2 x2^2."""
    policy = ns.optimal_policy(ellipse, SQUARE, gamma=2)
    np.testing.assert_allclose(policy.levels, np.arange(12) + 0.5, atol=1e-9)
    assert policy.smallest_region.measure == pytest.approx(0.0667972, abs=5e-8)
    assert policy.leakage == pytest.approx(5.4786828, abs=5e-8)
    assert policy.maximin_information == pytest.approx(math.log(12))
    # The smallest region is the four corners of the square: tiny, and yet far apart, so the
    # adversary is most precise in the innermost ellipse.
    assert policy.balls[-1].radius == pytest.approx(2 * math.sqrt(2), rel=1e-9)
    assert not policy.balls[-1].consistent
    assert policy.balls[0].radius == pytest.approx(1, rel=1e-5)
    assert policy.balls[0].consistent
    assert policy.adversary_error == pytest.approx(1, rel=1e-5)


def test_level_sets_of_the_paper_are_not_all_connected():
    """x1^2 + 2 x2^2 on the square: whole rings to 4, two arcs to 8, four corners beyond."""
    x = np.linspace(-2, 2, 801)
    bins = np.floor(x[:, None] ** 2 + 2 * x**2)
    parts = [ndimage.label(bins == low, structure=np.ones((3, 3)))[1] for low in range(12)]
    assert parts == [1, 1, 1, 1, 1, 2, 2, 2, 2, 4, 4, 4]


@pytest.mark.parametrize("n", [2, 3, 7, 20])
def test_heights(n):
    """Quantize Ex. IV.2: ceil(75 gamma) bins, radius 150 sqrt(n(n-1))/q while it fits the box."""
    policy = ns.optimal_policy(ns.LinearQuery.mean(n), ns.Box.cube(100, 250, n), gamma=0.28)
    assert len(policy.regions) == 21
    assert policy.balls[0].radius == pytest.approx(150 * math.sqrt(n * (n - 1)) / 21, rel=1e-9)
    assert policy.balls[-1].radius == pytest.approx(policy.balls[0].radius)
    assert policy.adversary_error == pytest.approx(policy.balls[0].radius)
    # The corner simplex has volume side^n / n!.
    side = n * 150 / 21
    logs = policy.conditional_log_measures
    assert logs[0] == pytest.approx(n * math.log(side) - math.lgamma(n + 1), rel=1e-10)


def test_volumes_beyond_the_largest_float_do_no_harm():
    n = 200
    box = ns.Box.cube(100, 250, n)
    policy = ns.optimal_policy(ns.LinearQuery.mean(n), box, gamma=0.05)
    assert box.volume == math.inf
    assert np.isinf(policy.summary()["measure"]).any()
    assert ns.privacy(policy) == pytest.approx(1 / policy.leakage)
    assert policy.answer(np.full(n, 171.0)) == pytest.approx(175, abs=1 / 0.05)
    assert len(policy.regions) == 4
    uneven = ns.LinearQuery(np.linspace(1, 2, 12))
    assert math.isnan(ns.optimal_policy(uneven, ns.Box.cube(0, 1, 12), gamma=0.2).adversary_error)


def test_heights_guarantee_ten_centimetres_up_to_21_75():
    box, mean = ns.Box.cube(100, 250, 2), ns.LinearQuery.mean(2)
    assert ns.optimal_policy(mean, box, gamma=21 / 75).adversary_error > 10
    assert ns.optimal_policy(mean, box, gamma=21.1 / 75).adversary_error < 10


def test_rounding_does_not_add_a_bin():
    for q in range(1, 200):
        policy = ns.optimal_policy([1.0], ns.Box(0.0, 0.7), gamma=2 * q / 0.7)
        assert len(policy.regions) == q


# -- the two metrics ---------------------------------------------------------------------------


def test_leakage_metric_widens_the_outer_bins():
    """Mean of two numbers, 2 gamma not whole: outer bins of width w = 2/gamma, area 2 w^2."""
    for gamma in (1.6, 1.75, 1.9):
        uniform = ns.optimal_policy([0.5, 0.5], SQUARE, gamma)
        best = ns.optimal_policy([0.5, 0.5], SQUARE, gamma, metric="leakage")
        assert best.quality >= gamma * (1 - 1e-8)
        assert best.leakage == pytest.approx(math.log(16 / (2 * (2 / gamma) ** 2)), abs=1e-6)
        assert best.leakage < uniform.leakage - 0.05


def test_leakage_metric_agrees_when_the_bins_are_tight():
    uniform = ns.optimal_policy(ellipse, SQUARE, 2)
    best = ns.optimal_policy(ellipse, SQUARE, 2, metric="leakage")
    assert best.leakage == pytest.approx(uniform.leakage, abs=1e-5)


def test_leakage_metric_beats_random_edges():
    gamma, box = 0.9, ns.Box.cube(0, 2, 2)

    def product(x):
        return x[..., 0] * x[..., 1]

    best = ns.optimal_policy(product, box, gamma, metric="leakage")
    rng = np.random.default_rng(3)
    tried = 0
    while tried < 25:
        edges = np.sort(np.concatenate([[0.0, 4.0], rng.uniform(0, 4, rng.integers(1, 4))]))
        if np.diff(edges).max() <= 2 / gamma:
            tried += 1
            assert ns.quantized_query(product, box, edges).leakage >= best.leakage - 1e-4


def test_one_dimension_with_a_query_that_turns():
    box = ns.Box(0, 2 * math.pi)
    policy = ns.optimal_policy(lambda x: np.cos(x[..., 0]), box, gamma=2)
    assert policy.method == "contours" and len(policy.regions) == 2
    np.testing.assert_allclose(np.exp(policy.conditional_log_measures), math.pi, rtol=1e-7)


def test_a_constant_query_gives_nothing_away():
    policy = ns.optimal_policy([0.0, 0.0], SQUARE, gamma=3)
    assert policy.leakage == policy.maximin_information == 0
    assert policy.quality == math.inf
    assert policy.answer([1.0, 1.0]) == 0


def test_bins_that_no_secret_reaches_are_no_answers():
    """Quantize Ex. II.1: nothing lies between 1/2 and 1."""
    box = ns.Box(0, 1)
    policy = ns.optimal_policy(lambda x: np.where(x[..., 0] < 0.5, x[..., 0], 1.0), box, gamma=16)
    np.testing.assert_allclose(policy.levels, [1 / 16, 3 / 16, 5 / 16, 7 / 16, 15 / 16])
    assert policy.leakage == pytest.approx(math.log(8), abs=1e-3)
    assert ns.information(policy) == pytest.approx(math.log(2), abs=1e-3)
    np.testing.assert_allclose(
        policy.answer([[0.1], [0.49], [0.5], [0.9]]), [1 / 16, 7 / 16, 15 / 16, 15 / 16]
    )


@pytest.mark.parametrize("seed", range(4))
def test_no_region_is_enclosed_by_a_ball_smaller_than_itself(seed):
    """Theorem II.2 region by region, on random quadratic queries."""
    rng = np.random.default_rng(seed)
    form, shift = rng.normal(size=(2, 2)), rng.normal(size=2)

    def quadratic(x):
        return np.einsum("...i,ij,...j->...", x, form, x) + x @ shift

    policy = ns.optimal_policy(quadratic, SQUARE, gamma=0.7)
    for region, ball in zip(policy.regions, policy.balls, strict=True):
        bound = ns.adversary_error_bound(region.log_measure, dimension=2)
        assert bound <= ball.radius * (1 + 1e-9) <= math.sqrt(8) * (1 + 1e-8)
    assert policy.adversary_error_bound <= policy.adversary_error


# -- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", ["maximin", "leakage"])
def test_answers_keep_the_promised_quality(metric):
    gamma = 1.7
    policy = ns.optimal_policy(ellipse, SQUARE, gamma, metric=metric)
    points = SQUARE.at(np.random.default_rng(0).random((20_000, 2)))
    answers = policy.answer(points)
    assert np.abs(answers - ellipse(points)).max() <= 1 / gamma * (1 + 1e-8)
    shares = np.array([np.mean(answers == level) for level in policy.levels])
    volumes = np.exp(policy.conditional_log_measures) / 16
    assert np.all(np.abs(shares - volumes) < 4.5 * np.sqrt(volumes / 20_000))


def test_the_same_secret_always_gets_the_same_answer():
    policy = ns.optimal_policy([0.5, 0.5], SQUARE, gamma=2)
    assert {policy.answer([0.3, 1.1]) for _ in range(5)} == {0.5}
    assert policy.answer([-2, 0]) == -0.5  # on a border: the upper bin
    assert policy.answer([2, 2]) == 1.5  # the last bin is closed


# -- renderings --------------------------------------------------------------------------------


def test_renderings_agree_with_the_policy():
    policy = ns.optimal_policy(ellipse, SQUARE, gamma=1)
    assert policy.summary()["measure"].sum() == pytest.approx(16)
    assert "<table" in policy._repr_html_() and "6 answers" in repr(policy)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ns.optimal_policy(ellipse, SQUARE, 0), "gamma=0"),
        (lambda: ns.optimal_policy(ellipse, SQUARE, math.inf), "gamma=inf"),
        (lambda: ns.optimal_policy([0.5, 0.5], SQUARE, 1e12), "needs 2e[+]12 bins"),
        (lambda: ns.optimal_policy([0.5, 0.5], SQUARE, 1e5), "200,000 different answers"),
        (lambda: ns.optimal_policy(ellipse, SQUARE, 1e3), "6,000 different answers"),
        (lambda: ns.optimal_policy(ellipse, SQUARE, 1).answer("text"), "data must be numbers"),
        (lambda: ns.optimal_policy(ellipse, SQUARE, 1, metric="bits"), "'maximin', 'leakage'"),
        (lambda: ns.quantized_query(ellipse, SQUARE, [3, 2]), "ascending"),
        (lambda: ns.optimal_policy(ellipse, SQUARE, 1).answer([0, 3]), "Coordinate 1 .* is 3"),
        (lambda: ns.optimal_policy(ellipse, SQUARE, 1).answer([0]), "2 coordinates"),
        (lambda: ns.optimal_policy(ellipse, SQUARE, 1).answer([0, math.nan]), "Coordinate 1"),
    ],
)
def test_bad_policies_say_what_is_wrong(call, words):
    with pytest.raises(AnonbayesError, match=words):
        call()
