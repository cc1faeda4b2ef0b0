"""Reference values of the channels; their origin stands in the file."""

import json
from pathlib import Path

import numpy as np
import pytest

import anonbayes as ab

HERE = Path(__file__).resolve()
GOLDEN = json.loads((HERE.parents[1] / "golden" / "reference.json").read_text())


@pytest.fixture(scope="module")
def small():
    case = GOLDEN["uldp_small"]
    domain = ab.Domain("x", range(5))
    return case, (
        ab.UtilityOptimizedRR(domain, case["eps"], sensitive=case["sensitive"]),
        ab.UtilityOptimizedRAPPOR(domain, case["eps"], sensitive=case["sensitive"]),
    )


@pytest.mark.parametrize("norm", ["l1", "l2"])
def test_expected_losses_of_the_small_case(small, norm):
    case, (urr, urap) = small
    for name, channel in (("uRR", urr), ("uRAP", urap)):
        loss = channel.expected_loss(case["p"], case["n"], norm=norm)
        assert loss == pytest.approx(case[f"{name}_{norm}"], rel=1e-12)


def test_probabilities_of_the_small_case(small):
    case, (_, urap) = small
    assert urap.theta == pytest.approx(case["theta"], rel=1e-14)
    np.testing.assert_allclose(urap.hit, [case["theta"]] * 2 + [1 - case["d2"]] * 3, rtol=1e-13)
    np.testing.assert_allclose(urap.miss, [case["d1"]] * 2 + [0] * 3, rtol=1e-13)


def test_threshold_of_the_small_case(small):
    case, (urr, urap) = small
    limits = [c.significance_threshold(case["n"]) for c in (urr, urap)]
    assert limits[0][0] == pytest.approx(case["threshold_T_sensitive"], rel=1e-12)
    for limit in limits:
        assert (limit[:2] > 0).all() and (limit[2:] == 0).all()


def test_worst_cases_at_the_size_of_the_census():
    case = GOLDEN["uldp_census_size"]
    k_s, k = case["K_S"], case["K_S"] + case["K_N"]
    domain = ab.Domain("x", range(k))
    urr = ab.UtilityOptimizedRR(domain, case["eps"], sensitive=range(k_s))
    urap = ab.UtilityOptimizedRAPPOR(domain, case["eps"], sensitive=range(k_s))
    assert urr.worst_case_loss(case["n"], norm="l1") == pytest.approx(case["eq12"], rel=1e-12)
    assert urap.worst_case_loss(case["n"], norm="l1") == pytest.approx(case["eq17"], rel=1e-12)
    low = ab.UtilityOptimizedRR(domain, np.log(400), sensitive=range(k_s))
    eq14 = GOLDEN["uldp_census_size_ln400"]["eq14"]
    assert low.worst_case_loss(case["n"], norm="l1") == pytest.approx(eq14, rel=1e-12)


def test_maximum_likelihood_by_water_filling():
    case = GOLDEN["uRR_mle"]
    channel = ab.UtilityOptimizedRR(
        ab.Domain("x", range(4)), case["eps"], sensitive=case["sensitive"]
    )
    reports = np.repeat(np.arange(4), np.rint(np.array(case["h"]) * 100).astype(int))
    estimate = channel.estimate(reports, method="mle")
    np.testing.assert_allclose(estimate.p, case["p"], rtol=1e-12, atol=1e-15)
    assert abs(estimate.gap) < 1e-10


def test_squared_error_of_randomized_response_per_value():
    case = GOLDEN["pie_l2"]["RR_K10_eps1_n1000"]
    channel = ab.RandomizedResponse(ab.Domain("x", range(10)), 1.0)
    # The reference is per value and for fixed users; take differences of whole losses.
    loss = {
        held: channel.expected_loss(np.array(held), 1000, sampled=False)
        for held in ((1.0, *[0.0] * 9), (0.7, 0.3, *[0.0] * 8), (0.3, 0.7, *[0.0] * 8))
    }
    zero, third = case["p=0"], case["p=.3"]
    per_unit = (third - zero) / 0.3
    for held, value in loss.items():
        assert value == pytest.approx(10 * zero + per_unit * sum(held), rel=1e-12)


def test_best_theta():
    case = GOLDEN["urap_theta"]
    domain = ab.Domain("x", range(case["K_S"] + 1))
    classic = ab.UtilityOptimizedRAPPOR(domain, case["eps"], sensitive=range(case["K_S"]))
    best = ab.UtilityOptimizedRAPPOR.optimal(domain, case["eps"], sensitive=range(case["K_S"]))
    on_the_rest = np.r_[np.zeros(case["K_S"]), 1.0]
    assert best.theta == pytest.approx(case["theta_star"], rel=1e-12)
    assert best.expected_loss(on_the_rest, 1) == pytest.approx(case["F_star"], rel=1e-12)
    assert classic.expected_loss(on_the_rest, 1) == pytest.approx(case["F_classic"], rel=1e-12)
