"""Volumes, balls and polytopes against closed forms, simulation and general optimizers."""

import math

import numpy as np
import pytest
from scipy import optimize
from scipy.spatial import ConvexHull

import anonbayes as ab
from anonbayes.errors import AnonbayesError
from anonbayes.nonstochastic.geometry import (
    as_query,
    corner_radius,
    log_slab_measures,
    outlines,
    query_range,
    region_volumes,
    slab_corners,
)

ns = ab.nonstochastic
SQUARE = ns.Box.cube(-2, 2, 2)


def ellipse(x):
    return x[..., 0] ** 2 + 2 * x[..., 1] ** 2


# -- balls ---------------------------------------------------------------------------------


@pytest.mark.parametrize("dimension", [1, 2, 3, 5, 8])
def test_smallest_ball_agrees_with_a_convex_program(dimension):
    rng = np.random.default_rng(dimension)
    points = rng.normal(size=(60, dimension)) * rng.uniform(0.5, 3, dimension)
    centre, radius = ns.smallest_enclosing_ball(points)
    distances = np.linalg.norm(points - centre, axis=1)
    assert distances.max() <= radius * (1 + 1e-12)

    # min t subject to |p - c|^2 <= t, an independent route to the same optimum.
    found = optimize.minimize(
        lambda z: z[-1],
        np.append(points.mean(axis=0), distances.max() ** 2 * 2),
        jac=lambda z: np.append(np.zeros(dimension), 1.0),
        constraints={
            "type": "ineq",
            "fun": lambda z: z[-1] - ((points - z[:-1]) ** 2).sum(axis=1),
            "jac": lambda z: np.hstack([2 * (points - z[:-1]), np.ones((60, 1))]),
        },
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-14},
    )
    assert radius == pytest.approx(math.sqrt(found.fun), rel=1e-6)


@pytest.mark.parametrize(
    ("points", "radius"),
    [
        ([[3.0, 4.0]], 0.0),
        ([[0.0, 0.0], [0.0, 0.0], [2.0, 0.0]], 1.0),
        ([[0, 0], [1, 0], [2, 0], [5, 0]], 2.5),
        ([[0, 0], [1, 0], [1, 1], [0, 1]], math.sqrt(0.5)),  # cocircular
        (np.vstack([np.zeros(3), np.eye(3)]), math.sqrt(2 / 3)),
    ],
)
def test_degenerate_point_sets_have_their_ball(points, radius):
    assert ns.smallest_enclosing_ball(points)[1] == pytest.approx(radius, abs=1e-12)


# -- linear queries --------------------------------------------------------------------------


def test_slab_volumes_are_the_irwin_hall_distribution():
    """Volume of {sum of n uniforms <= t}, textbook alternating sum, in a shifted and scaled box."""
    n, edges = 5, np.linspace(0, 5, 8)
    box = ns.Box.cube(10, 12, n)
    query = ns.LinearQuery([0.5] * n, offset=-5 * n)

    def below(t):
        terms = [(-1) ** k * math.comb(n, k) * (t - k) ** n for k in range(math.floor(t) + 1)]
        return sum(terms) / math.factorial(n)

    wanted = np.diff([below(t) for t in edges]) * 2**n
    np.testing.assert_allclose(np.exp(log_slab_measures(query, box, edges)), wanted, rtol=1e-10)


def test_slab_volumes_with_mixed_weights_agree_with_contours_and_simulation():
    query = ns.LinearQuery([1.0, -0.3, 0.0], offset=0.25)
    box = ns.Box([0, -1, 2], [2, 1, 3])
    edges = np.linspace(*query.range(box), 6)
    exact = np.exp(log_slab_measures(query, box, edges))
    assert exact.sum() == pytest.approx(box.volume, rel=1e-13)
    flat = ns.Box(box.lower[:2], box.upper[:2])
    plane = ns.LinearQuery(query.weights[:2], query.offset)
    contours, _ = region_volumes(plane, edges[1:-1], flat)
    np.testing.assert_allclose(exact, contours, atol=1e-9)
    n = 200_000
    points = box.at(np.random.default_rng(1).random((n, 3)))
    share = np.histogram(query(points), edges)[0] / n
    error = np.sqrt(share * (1 - share) / n) * box.volume
    assert np.all(np.abs(share * box.volume - exact) < 4.5 * error)


def test_volumes_far_below_the_smallest_float_keep_their_logarithm():
    n, q = 200, 75
    box, query = ns.Box.cube(100, 250, n), ns.LinearQuery.mean(n)
    logs = log_slab_measures(query, box, np.linspace(100, 250, q + 1))
    # The corner simplex {sum of (x - 100) <= n 150/q}: side^n / n! as long as it fits the box.
    wide = log_slab_measures(query, box, np.array([100, 100 + 150 / n, 250.0]))[0]
    assert wide == pytest.approx(n * math.log(150) - math.lgamma(n + 1), rel=1e-10)
    assert logs[0] == pytest.approx(logs[-1], rel=1e-9)
    total = np.logaddexp.reduce(logs)
    assert total == pytest.approx(box.log_measure, rel=1e-12)


def test_slab_corners_span_the_slab():
    query, box = ns.LinearQuery([1.0, 2.0, -1.5]), ns.Box([0, 0, 0], [1, 2, 1])
    edges = np.linspace(*query.range(box), 5)
    volumes = np.exp(log_slab_measures(query, box, edges))
    for low, high, volume in zip(edges, edges[1:], volumes, strict=False):
        assert ConvexHull(slab_corners(query, box, low, high)).volume == pytest.approx(volume)


@pytest.mark.parametrize("n", [1, 2, 3, 6])
def test_closed_form_of_the_corner_ball_agrees_with_its_corners(n):
    box, query = ns.Box.cube(0, 1, n), ns.LinearQuery.mean(n)
    corners = slab_corners(query, box, 0.0, 0.5 / n)
    radius, centre = corner_radius(query, box, 0.5 / n)
    centre_found, radius_found = ns.smallest_enclosing_ball(corners)
    assert radius == pytest.approx(radius_found)
    np.testing.assert_allclose(centre, centre_found, atol=1e-12)
    assert corner_radius(query, box, 1.5 / n) is None  # sticks out of the box


# -- other queries ---------------------------------------------------------------------------


def test_areas_between_ellipses_have_six_digits():
    volumes, errors = region_volumes(ellipse, np.arange(1.0, 12.0), SQUARE)
    np.testing.assert_allclose(volumes[:4], math.pi / math.sqrt(2), atol=1e-6)
    assert volumes.sum() == pytest.approx(16, abs=1e-9)
    assert np.all(np.abs(volumes[:4] - math.pi / math.sqrt(2)) <= 3 * errors[:4])

    # The four corners beyond x1^2 + 2 x2^2 = 11, by one-dimensional calculus.
    def primitive(x):
        return (x * math.sqrt(11 - x * x) + 11 * math.asin(x / math.sqrt(11))) / math.sqrt(8)

    corner = 2 * (2 - math.sqrt(3)) - (primitive(2) - primitive(math.sqrt(3)))
    assert volumes[-1] == pytest.approx(4 * corner, abs=1e-8)


@pytest.mark.parametrize("depth", [1e-2, 1e-3])
def test_tiny_corners_are_not_overlooked(depth):
    """Beyond 12 - depth: four right triangles with legs depth/4 and depth/8, but for curvature."""
    policy = ns.quantized_query(ellipse, SQUARE, [0, 12 - depth, 12])
    assert policy.regions[1].measure == pytest.approx(4 * depth**2 / 64, rel=max(depth, 2e-3))


def test_lengths_on_a_line_at_jumps_and_plateaus():
    """Quantize Ex. II.1: half of the numbers shown; the jump is found to a step of the grid."""

    def shown_or_hidden(x):
        return np.where(x[..., 0] < 0.5, x[..., 0], 1.0)

    volumes, errors = region_volumes(shown_or_hidden, np.arange(1, 8) / 8, ns.Box(0, 1))
    np.testing.assert_allclose(volumes, [1 / 8] * 4 + [0] * 3 + [1 / 2], atol=1e-4)
    assert (volumes[4:7] == 0).all() and (errors < 1e-4).all()


def test_areas_do_not_depend_on_the_order_of_the_coordinates():
    """Islands, folds and thin caps: the two directions meet them in very different ways."""

    def waves(x):
        return np.sin(5 * x[..., 0]) * np.cos(3 * x[..., 1]) + 0.3 * x[..., 0]

    edges = np.linspace(-0.95, 0.95, 5)
    one, error = region_volumes(waves, edges, SQUARE)
    other, _ = region_volumes(lambda x: waves(x[..., ::-1]), edges, SQUARE)
    np.testing.assert_allclose(one, other, atol=1e-9)
    assert np.all(np.abs(one - one[::-1]) <= 2 * error)  # waves(-x1, x2) = -waves(x1, x2)
    assert error.max() < 1e-3


def test_balls_around_regions_between_ellipses():
    """Outermost points: the x1-axis while it reaches them, then the sides, then the corners."""
    regions = outlines(ellipse, np.arange(1.0, 12.0), SQUARE)
    outer = np.arange(1.0, 13.0)
    wanted = np.where(outer <= 4, np.sqrt(outer), np.sqrt(4 + (outer - 4) / 2))
    radii = [ns.smallest_enclosing_ball(region.points)[1] for region in regions]
    np.testing.assert_allclose(radii, wanted, rtol=1e-5)


@pytest.mark.parametrize(
    ("query", "box", "wanted"),
    [
        (ellipse, SQUARE, (0, 12)),
        (lambda x: np.sin(3 * x[..., 0]), ns.Box(0.1, 2.9), (-1, 1)),
        (lambda x: ((x - 0.3) ** 2).sum(axis=-1), ns.Box.cube(0, 1, 2), (0, 2 * 0.49)),
        (ns.LinearQuery([1, -2], offset=1), ns.Box([0, 0], [1, 3]), (-5, 2)),
    ],
)
def test_range_of_a_query_is_found(query, box, wanted):
    assert query_range(query, box) == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ns.Box([0, 1], [1]), "equal length"),
        (lambda: ns.Box([0, 1], [1, 1]), "Coordinate 1"),
        (lambda: ns.Box(0, math.inf), "finite"),
        (lambda: ns.Box("a", 1), "must be numbers"),
        (lambda: ns.LinearQuery([math.nan]), "finite weights"),
        (lambda: as_query(ellipse, ns.Box.cube(0, 1, 3)), "one or two coordinates"),
        (
            lambda: log_slab_measures(
                ns.LinearQuery(np.arange(1, 21)), ns.Box.cube(0, 1, 20), np.array([0, 1, 210.0])
            ),
            "20 coordinates have different weights",
        ),
        (lambda: as_query([1, 2, 3], SQUARE), "3 weights"),
        (lambda: as_query(lambda x: x, SQUARE), "last axis"),
        (lambda: as_query(lambda x: x[..., 0] * np.nan, SQUARE), "not finite"),
        (lambda: ns.smallest_enclosing_ball(np.zeros((0, 2))), "at least one finite point"),
    ],
)
def test_bad_geometry_says_what_is_wrong(call, words):
    with pytest.raises(AnonbayesError, match=words):
        call()
