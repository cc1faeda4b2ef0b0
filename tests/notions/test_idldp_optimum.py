"""The optimum of input-discriminative unary encoding, against other solvers and exact sums."""

from decimal import Decimal, getcontext

import numpy as np
import pytest
from scipy import optimize

import anonbayes as ab
from anonbayes.channels.discriminative import objective, optimum
from anonbayes.channels.unary import best_theta
from anonbayes.errors import ChannelError

NOTIONS = ("oneid", "minid")


def pair_budget(notion, first, second):
    return first if notion == "oneid" else min(first, second)


def general_solver(epsilon, sizes, notion, seed, starts=12):
    """Best value that SLSQP finds in the coordinates of the paper, from random feasible starts."""
    t, rng = len(epsilon), np.random.default_rng(seed)
    limit = np.array([[pair_budget(notion, e, f) for f in epsilon] for e in epsilon])

    def slack(z):
        a, b = z[:t], z[t:]
        return (limit - np.log(a[:, None] * (1 - b[None]) / (b[:, None] * (1 - a[None])))).ravel()

    best = np.inf
    for _ in range(starts):
        keep = rng.uniform(0.2, 0.8, t)
        # Nearly equal probabilities satisfy every constraint.
        keep = keep.mean() + 0.05 * epsilon.min() * (keep - keep.mean())
        start = np.concatenate([keep, keep * np.exp(-0.2 * epsilon.min() * rng.uniform(0.5, 1, t))])
        found = optimize.minimize(
            lambda z: objective(z[:t], z[t:], sizes) / 100,
            start,
            method="SLSQP",
            bounds=[(1e-6, 1 - 1e-6)] * (2 * t),
            constraints={"type": "ineq", "fun": slack},
            options={"maxiter": 500, "ftol": 1e-12},
        )
        if slack(found.x).min() > -1e-7 and (found.x[:t] > found.x[t:]).all():
            best = min(best, objective(found.x[:t], found.x[t:], sizes))
    return best


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # SLSQP steps out of the domain of the log
@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize("seed", range(6))
def test_no_general_solver_does_better(notion, seed):
    rng = np.random.default_rng(100 + seed)
    t = int(rng.integers(1, 4))
    epsilon, sizes = np.sort(rng.uniform(0.3, 4.0, t)), rng.integers(1, 30, t)
    ours = optimum(epsilon, sizes, notion=notion).value
    theirs = general_solver(epsilon, sizes, notion, seed)
    assert np.isfinite(theirs)
    assert ours <= theirs * (1 + 1e-6)
    assert ours == pytest.approx(theirs, rel=2e-3)


@pytest.mark.parametrize("notion", NOTIONS)
def test_nearby_feasible_points_are_worse(notion):
    """Moves in the convex coordinates that keep every constraint never gain."""
    rng = np.random.default_rng(5)
    epsilon, sizes = np.array([0.5, 1.0, 2.0, 5.0]), np.array([3, 1, 20, 7])
    best = optimum(epsilon, sizes, notion=notion)
    u = np.log(best.a / best.b)
    w = np.log((1 - best.b) / (1 - best.a))
    limit = np.array([[pair_budget(notion, e, f) for f in epsilon] for e in epsilon])
    tried = 0
    for _ in range(4000):
        scale = 10.0 ** rng.uniform(-4, -0.5)
        near_u, near_w = u + scale * rng.normal(size=4), w + scale * rng.normal(size=4)
        excess = (near_u[:, None] + near_w[None] - limit).max()
        near_u, near_w = near_u - max(excess, 0) / 2, near_w - max(excess, 0) / 2
        if min(near_u.min(), near_w.min()) <= 0:
            continue
        tried += 1
        b = np.expm1(near_w) / np.expm1(near_u + near_w)
        assert objective(np.exp(near_u) * b, b, sizes) >= best.value * (1 - 1e-10)
    assert tried > 1000


@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize(
    "epsilon",
    [
        [1.0, 4.6],
        [1e-5, 1e-4],
        [0.01, 3.0, 40.0],
        [2.0, 60.0, np.inf],
        [30.0, 45.0],
        [37.0, 300.0, 800.0, np.inf],
        list(np.linspace(0.1, 9.0, 57)),
        [40.3],
        [3.4e-07, 11.3, 0.17, 4.5e-07, 3.7e-07],  # here rounding alone breaks a constraint
    ],
)
def test_constraints_hold_in_exact_arithmetic(notion, epsilon):
    """Every pair, on the stored numbers, with 60 digits."""
    getcontext().prec = 60
    sizes = np.arange(1, len(epsilon) + 1)
    a, b, _ = optimum(epsilon, sizes, notion=notion)
    keep, raised = [Decimal(float(v)) for v in a], [Decimal(float(v)) for v in b]
    for i, first in enumerate(epsilon):
        for j, second in enumerate(epsilon):
            budget = pair_budget(notion, first, second)
            if np.isfinite(budget) and (i != j or sizes[i] > 1):
                limit = Decimal(budget).exp()
                assert keep[i] * (1 - raised[j]) <= limit * raised[i] * (1 - keep[j])


@pytest.mark.parametrize(
    "epsilon, least, published",
    [([0.5, 3.0], 9.06, 19.68), ([1.0, 4.0], 3.57, 5.51), ([1.0, 2.0, 3.0], 5.61, 6.33)],
)
def test_values_alone_with_their_budget_are_not_limited_against_themselves(
    epsilon, least, published
):
    domain = ab.Domain("x", range(len(epsilon)))
    channel = ab.InputDiscriminativeUE.optimal(domain, epsilon)
    ones = np.ones(len(epsilon))
    assert objective(channel.a, channel.b, ones) == pytest.approx(least, abs=0.006)
    assert channel.satisfies(ab.OneID(epsilon)).holds
    paper = ab.InputDiscriminativeUE.optimal(domain, epsilon, as_published=True)
    assert objective(paper.a, paper.b, ones) == pytest.approx(published, abs=0.006)
    # No random channel that passes the audit loses less.
    rng = np.random.default_rng(1)
    passed = 0
    for _ in range(4000):
        w = rng.uniform(0.01, 2.0, len(epsilon))
        others = np.array([np.delete(w, i).max() for i in range(len(epsilon))])
        u = np.array(epsilon) - others
        if u.min() <= 0.01:
            continue
        b = np.expm1(w) / np.expm1(u + w)
        passed += 1
        assert objective(np.exp(u) * b, b, ones) >= objective(channel.a, channel.b, ones) - 1e-9
    assert passed > 100


@pytest.mark.parametrize("notion", NOTIONS)
@pytest.mark.parametrize("classes", [1, 2, 50, 4000])
@pytest.mark.parametrize("infinite", [False, True])
def test_never_worse_than_plain_unary_encoding_and_deterministic(notion, classes, infinite):
    rng = np.random.default_rng(classes)
    epsilon, sizes = 0.2 + rng.exponential(2.0, classes), rng.integers(1, 50, classes)
    if infinite:
        epsilon, sizes = np.append(epsilon, np.inf), np.append(sizes, 3)
    best = optimum(epsilon, sizes, notion=notion)
    smallest = float(epsilon.min())
    domain = ab.Domain("x", ["one"])
    for plain in (ab.UnaryEncoding.optimal(domain, smallest), ab.RAPPOR(domain, smallest)):
        same = objective(np.full(len(sizes), plain.hit), np.full(len(sizes), plain.miss), sizes)
        assert best.value <= same * (1 + 1e-12)
    again = optimum(epsilon, sizes, notion=notion)
    assert np.array_equal(best.a, again.a) and np.array_equal(best.b, again.b)


def test_oneid_gains_over_minid_and_equals_it_for_one_class():
    one, two = (optimum([1.5], [9], notion=notion) for notion in NOTIONS)
    assert one.value == pytest.approx(two.value, rel=1e-9)
    spread = [optimum([0.5, 4.0], [5, 50], notion=notion).value for notion in NOTIONS]
    assert spread[0] < 0.5 * spread[1]


def test_one_class_in_closed_form():
    """F = 3 + 2 sqrt 3 for two values and epsilon = ln 3."""
    assert optimum([np.log(3)], [2]).value == pytest.approx(3 + 2 * np.sqrt(3), rel=1e-12)


def test_high_low_budgets_give_the_best_utility_optimized_rappor():
    """Its theta has a closed form (MODEL 2), found without this solver."""
    epsilon, sensitive, size = 1.3, 12, 40
    domain = ab.Domain("x", range(size))
    budgets = np.where(np.arange(size) < sensitive, epsilon, np.inf)
    ours = ab.InputDiscriminativeUE.optimal(domain, budgets)
    theirs = ab.UtilityOptimizedRAPPOR(
        domain, epsilon, sensitive=range(sensitive), theta=best_theta(sensitive, epsilon)
    )
    assert ours.a == pytest.approx(theirs.hit, abs=1e-7)
    assert ours.b == pytest.approx(theirs.miss, abs=1e-7)
    assert ours.satisfies(ab.HLLDP(range(sensitive), epsilon)).holds


def test_no_protection_at_all():
    a, b, value = optimum([np.inf], [10])
    assert a.tolist() == [1.0] and b.tolist() == [0.0] and value == 0.0


def test_golden_values(golden):
    case = golden["idue"]
    best = optimum([1.0, np.log(100)], case["m"])
    assert best.value == pytest.approx(case["OneID"], rel=1e-11)
    assert best.a == pytest.approx(case["a"], abs=1e-6)
    assert best.b == pytest.approx(case["b"], abs=1e-6)
    other = optimum([1.0, np.log(100)], case["m"], notion="minid")
    assert other.value == pytest.approx(case["MinID"], rel=1e-10)


@pytest.mark.parametrize(
    ("epsilon", "sizes", "words"),
    [
        ([0.0, 1.0], [1, 1], "carries information"),
        ([np.nan], [1], "carries information"),
        ([1.0], [0], "leave out empty classes"),
        ([1.0, 2.0], [1], "one of each"),
        ([], [], "one of each"),
        ([1e-17], [5], "double precision"),
    ],
)
def test_bad_input_is_named(epsilon, sizes, words):
    with pytest.raises(ChannelError, match=words):
        optimum(epsilon, sizes)
    with pytest.raises(ab.AnonbayesError, match="'oneid', 'minid'"):
        optimum([1.0], [1], notion="both")


def test_a_budget_without_noise_has_no_root_to_find():
    """One value alone with a budget of 700: its own noise underflows."""
    channel = ab.InputDiscriminativeUE.optimal(ab.Domain("x", ["a"]), [700.0])
    assert np.isfinite([channel.hit, channel.miss]).all() and channel.hit[0] > channel.miss[0]
