"""Several answers about one secret, and the agent who keeps account of them."""

import json
import math

import numpy as np
import pytest

import anonbayes as ab
from anonbayes.errors import AnonbayesError

ns = ab.nonstochastic
SQUARE = ns.Box.cube(-2, 2, 2)


def ellipse(x):
    return x[..., 0] ** 2 + 2 * x[..., 1] ** 2


def test_mean_and_difference_cut_the_square_into_small_squares():
    mean = ns.optimal_policy([0.5, 0.5], SQUARE, gamma=2)
    difference = ns.optimal_policy([0.5, -0.5], SQUARE, gamma=2)
    both = ns.joint([mean, difference])
    # Bins of width 1 in both diagonals: squares of area 2, halved along the sides of the box.
    areas = np.exp(both.conditional_log_measures)
    assert both.method == "exact"
    assert sorted(areas.round(9).tolist()) == [1.0] * 8 + [2.0] * 4
    assert both.leakage == pytest.approx(math.log(16))
    assert both.maximin_information == pytest.approx(math.log(12))
    assert both.adversary_error == pytest.approx(1)
    assert ns.adversary_error_bound(both) == pytest.approx(math.sqrt(1 / math.pi))
    assert both.summary()["measure"].sum() == pytest.approx(16)
    assert json.loads(both.to_json())["leakage"] == pytest.approx(both.leakage)
    assert "12 combinations" in both._repr_html_()


def test_polytopes_agree_with_quadrature_of_the_same_queries():
    weights = [[0.5, 0.5], [1.0, -0.25]]
    exact = ns.joint([ns.optimal_policy(w, SQUARE, gamma=1.3) for w in weights])
    queries = [lambda x, w=w: x @ np.array(w) for w in weights]
    numeric = ns.joint([ns.optimal_policy(q, SQUARE, gamma=1.3) for q in queries])
    assert exact.method == "exact" and numeric.method == "quadrature"
    assert exact.bins.tolist() == numeric.bins.tolist()
    np.testing.assert_allclose(
        np.exp(exact.conditional_log_measures), np.exp(numeric.conditional_log_measures), atol=1e-8
    )
    np.testing.assert_allclose(exact.radii, numeric.radii, rtol=1e-6)


def test_joint_volumes_in_four_dimensions_agree_with_simulation():
    box = ns.Box.cube(0, 1, 4)
    policies = [ns.optimal_policy(w, box, gamma=4) for w in ([0.25] * 4, [0.5, 0.5, -0.5, -0.5])]
    both = ns.joint(policies)
    volumes = np.exp(both.conditional_log_measures)
    assert both.method == "exact" and volumes.sum() == pytest.approx(1)
    n = 100_000
    points = box.at(np.random.default_rng(0).random((n, 4)))
    answers = np.stack([policy.answer(points) for policy in policies], axis=1)
    for combination, volume in zip(both.answers, volumes, strict=True):
        share = np.mean(np.all(np.isclose(answers, combination), axis=1))
        assert abs(share - volume) < 5 * math.sqrt(volume / n)


def test_rare_combinations_in_high_dimensions_are_not_overlooked():
    """The corner where all eight coordinates are small is met by no line, but it exists."""
    n = 8
    box = ns.Box.cube(0, 1, n)
    policies = [
        ns.optimal_policy([1 / n] * n, box, gamma=20),
        ns.optimal_policy([1.0] + [0.0] * (n - 1), box, gamma=4),
    ]
    both = ns.joint(policies, n_lines=256)
    assert both.n_components == 20
    assert np.isinf(both.errors).any()
    assert np.isfinite(both.leakage)
    assert both.leakage >= policies[0].leakage  # more answers, more leakage


def test_a_finer_answer_to_the_same_query_dominates():
    coarse, fine = (ns.optimal_policy(ellipse, SQUARE, gamma) for gamma in (1, 2))
    both = ns.joint([coarse, fine])
    assert both.n_components == len(fine.regions)
    assert both.leakage == pytest.approx(fine.leakage, abs=1e-7)


def test_joint_leakage_is_never_below_a_single_one():
    rng = np.random.default_rng(5)
    policies = [ns.optimal_policy(rng.normal(size=2), SQUARE, gamma=0.8) for _ in range(3)]
    amounts = [ns.joint(policies[: i + 1]).leakage for i in range(3)]
    assert amounts == sorted(amounts)
    assert max(p.leakage for p in policies) <= amounts[-1] + 1e-9


def test_one_dimension():
    box = ns.Box(0, 1)
    halves = ns.optimal_policy([1.0], box, gamma=4)
    thirds = ns.optimal_policy([-1.0], box, gamma=6)
    both = ns.joint([halves, thirds])
    np.testing.assert_allclose(
        np.exp(both.conditional_log_measures), [1 / 6, 1 / 3, 1 / 3, 1 / 6], rtol=1e-9
    )
    np.testing.assert_allclose(both.radii, [1 / 12, 1 / 6, 1 / 6, 1 / 12], rtol=1e-9)


def test_agent_answers_with_its_guarantee_and_keeps_account():
    agent = ns.TrustedAgent([0.3, 1.1], SQUARE)
    assert agent.leakage == 0 and agent.joint is None
    first = agent.answer([0.5, 0.5], gamma=2)
    assert float(first) == 0.5
    assert abs(first.value - 0.7) <= first.largest_error == pytest.approx(0.5)
    assert first.leakage == first.joint_leakage == pytest.approx(math.log(8))
    second = agent.answer(ellipse, gamma=1)
    assert second.joint_leakage > max(first.leakage, second.leakage)
    again = agent.answer([0.5, 0.5], gamma=2)
    assert again.value == first.value
    assert again.joint_leakage == pytest.approx(second.joint_leakage)
    assert len(agent.policies) == 2


def test_agent_refuses_whatever_the_secret_is():
    for secret in ([0.3, 1.1], [-2, -2]):
        agent = ns.TrustedAgent(secret, SQUARE, budget=2.2)
        agent.answer([0.5, 0.5], gamma=2)
        with pytest.raises(AnonbayesError, match=r"2\.773 nats, more than the budget of 2\.2"):
            agent.answer([0.5, -0.5], gamma=2)
        assert len(agent.policies) == 1 and agent.leakage == pytest.approx(math.log(8))
        assert "0.3" not in repr(agent) and "1.1" not in repr(agent)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ns.joint([]), "at least one policy"),
        (
            lambda: ns.joint(
                [
                    ns.optimal_policy([1.0], ns.Box(0, 1), 1),
                    ns.optimal_policy([1.0], ns.Box(0, 2), 1),
                ]
            ),
            "Policy 1",
        ),
        (lambda: ns.TrustedAgent([3, 0], SQUARE), "one point of the box"),
        (lambda: ns.TrustedAgent([0, 0], SQUARE, budget=-1), "budget=-1"),
    ],
)
def test_bad_joint_use_says_what_is_wrong(call, words):
    with pytest.raises(AnonbayesError, match=words):
        call()
