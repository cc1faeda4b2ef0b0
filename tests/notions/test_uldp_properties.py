"""Composition, integration and post-processing, checked on the product channel itself."""

import numpy as np
import pytest

import anonbayes as ab
from anonbayes.notions.consequences import compose, integrate, post_process
from anonbayes.notions.ldp import matrix_ratios

DOMAIN = ab.Domain("x", list("abcd"))
SENSITIVE = ["a", "b"]


def audit_matrix(notion, domain, q, reports):
    return ab.MatrixChannel(domain, q, list(reports)).satisfies(notion)


def joint(first, second):
    """Matrix of two independent reports of the same value."""
    return (first[:, :, None] * second[:, None, :]).reshape(len(first), -1)


def labels(matrix):
    return [str(i) for i in range(matrix.shape[1])]


class SomeReports:
    """Some reports of a channel only: rows do not sum to one."""

    domain = DOMAIN

    def __init__(self, q):
        self.q = q

    def ratios(self, *, protected=False):
        return matrix_ratios(self.q, labels(self.q), protected=protected)


def test_sequential_composition_adds_budgets():
    """ULDP Prop. 1: sufficient on the product, and not with less."""
    one = ab.UtilityOptimizedRR(DOMAIN, 0.5, sensitive=SENSITIVE)
    two = ab.UtilityOptimizedRR(DOMAIN, 0.25, sensitive=SENSITIVE)
    both = joint(one.matrix(), two.matrix())
    guarantee = compose(ab.ULDP(SENSITIVE, 0.5), ab.ULDP(SENSITIVE, 0.25))
    assert guarantee == ab.ULDP(SENSITIVE, 0.75)
    assert audit_matrix(guarantee, DOMAIN, both, labels(both)).holds
    less = ab.ULDP(SENSITIVE, 0.74)
    assert not audit_matrix(less, DOMAIN, both, labels(both)).holds


def test_integration_with_ldp_data():
    """ULDP Prop. 12: protected reports of one collector joined with LDP reports of another."""
    optimized = ab.UtilityOptimizedRR(DOMAIN, 0.5, sensitive=SENSITIVE).matrix()[:, :2]
    plain = ab.RandomizedResponse(DOMAIN, 0.3).matrix()
    both = joint(optimized, plain)
    guarantee = integrate(ab.ULDP(SENSITIVE, 0.5), ab.LDP(0.3))
    assert guarantee.epsilon == pytest.approx(0.8)
    audit = guarantee.audit(SomeReports(both))
    assert audit.holds and audit.worst_ratio == pytest.approx(np.exp(0.8))


@pytest.mark.parametrize("seed", range(5))
def test_post_processing_that_preserves_types_keeps_uldp(seed):
    """ULDP Prop. 11, on random maps of each kind."""
    rng = np.random.default_rng(seed)
    before = ab.ULDP(SENSITIVE, 0.5)
    q = ab.UtilityOptimizedRR(DOMAIN, 0.5, sensitive=SENSITIVE).matrix()
    kernel = np.zeros((4, 5))
    kernel[:2, :2] = rng.dirichlet([1, 1], size=2)
    kernel[2, 2] = 1.0
    kernel[3, 3:] = rng.dirichlet([1, 1])
    after = post_process(before, kernel, [1, 1, 0, 0], [1, 1, 0, 0, 0])
    assert after == before
    assert audit_matrix(after, DOMAIN, q @ kernel, labels(q @ kernel)).holds


def test_post_processing_that_mixes_types_leaves_the_one_sided_guarantee():
    before = ab.ULDP(SENSITIVE, 0.5)
    q = ab.UtilityOptimizedRR(DOMAIN, 0.5, sensitive=SENSITIVE).matrix()
    mix = np.array([[1, 0, 0], [0, 1, 0], [0, 1, 0], [0, 0, 1]])
    after = post_process(before, mix, [1, 1, 0, 0], [1, 1, 0])
    assert after == ab.OSLDP(SENSITIVE, 0.5)
    assert audit_matrix(after, DOMAIN, q @ mix, labels(q @ mix)).holds
    merged = np.array([[1, 0], [1, 0], [0, 1], [0, 1]])
    assert post_process(before, merged, [1, 1, 0, 0], [1, 0]) == ab.OSLDP(SENSITIVE, 0.5)
    assert audit_matrix(after, DOMAIN, q @ merged, labels(q @ merged)).holds
    assert not audit_matrix(before, DOMAIN, q @ merged, labels(q @ merged)).holds


def test_what_does_not_fit_is_refused():
    with pytest.raises(ab.AnonbayesError, match="different sensitive sets"):
        ab.ULDP(["a"], 1.0) + ab.ULDP(["b"], 1.0)
    with pytest.raises(ab.AnonbayesError, match="use `integrate`"):
        compose(ab.ULDP(["a"], 1.0), ab.LDP(1.0))
    with pytest.raises(ab.AnonbayesError, match="at least one"):
        compose()
    with pytest.raises(ab.AnonbayesError, match="combines ULDP with LDP"):
        integrate(ab.LDP(1.0), ab.LDP(1.0))
    with pytest.raises(ab.AnonbayesError, match="must be a distribution"):
        post_process(ab.ULDP(["a"], 1.0), [[0.5], [0.4]], [1, 0], [1])
    with pytest.raises(ab.AnonbayesError, match=r"shape \(1, 1\)"):
        post_process(ab.ULDP(["a"], 1.0), [[1.0]], [1, 0], [1])
    with pytest.raises(ab.AnonbayesError, match="sensitive"):
        ab.ULDP("abc", 1.0)
    with pytest.raises(ab.AnonbayesError, match="'z' is not a value"):
        ab.RandomizedResponse(DOMAIN, 1.0).satisfies(ab.ULDP(["z"], 1.0))
    with pytest.raises(TypeError):
        ab.LDP(1.0) + ab.ULDP(["a"], 1.0)
