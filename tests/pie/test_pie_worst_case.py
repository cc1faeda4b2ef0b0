"""The worst-case companion: the best guess on average, and the most telling report."""

import numpy as np
import pytest

import anonbayes as ab


def response(size, epsilon):
    return ab.RandomizedResponse(ab.IntegerDomain(size), epsilon)


def random_joint(rng, n, k):
    joint = rng.dirichlet(np.full(k, 0.2), size=n) * rng.dirichlet(np.full(n, 2.0))[:, None]
    return joint / joint.sum()


def leakage(joint, q):
    """Maximal leakage by its definition, ``log2 sum_y max_u Q(y|u)``."""
    users = joint.sum(axis=1, keepdims=True)
    return np.log2((joint / users @ q).max(axis=0).sum())


@pytest.mark.parametrize("n, k", [(4, 4), (3, 6), (9, 5)])
def test_leakage_is_reached_and_not_exceeded(n, k):
    rng = np.random.default_rng(1)
    for channel in (response(k, 1.2), ab.LocalHashing.invertible(k, 1.2)):
        top = ab.pie.worst_case(channel, n).bits
        used = min(n, k)
        best = np.zeros((used, k))
        best[np.arange(used), np.arange(used)] = 1 / used
        assert leakage(best, channel.matrix()) == pytest.approx(top, rel=1e-9)
        for _ in range(100):
            assert leakage(random_joint(rng, n, k), channel.matrix()) <= top + 1e-12


def test_error_is_attained_by_the_best_guess_and_holds_for_every_report():
    n, k, epsilon = 6, 6, 1.7
    channel = response(k, epsilon)
    joint = np.eye(n) / n
    reports = joint @ channel.matrix()
    worst = ab.pie.worst_case(channel, n)
    assert 1 - reports.max(axis=0).sum() == pytest.approx(worst.error, rel=1e-12)
    posterior = reports / reports.sum(axis=0)
    assert worst.error_of_every_report == pytest.approx(1 - posterior.max(), rel=1e-12)
    rng = np.random.default_rng(3)
    for _ in range(200):
        joint = random_joint(rng, n, k)
        reports = joint @ channel.matrix()
        worst = ab.pie.worst_case(channel, prior=joint.sum(axis=1))
        assert worst.error <= 1 - reports.max(axis=0).sum() + 1e-12
        assert worst.error_of_every_report <= 1 - (reports / reports.sum(axis=0)).max() + 1e-12


def test_leakage_of_two_reports_adds_up():
    channel = response(3, 1.0)
    both = np.kron(channel.matrix(), channel.matrix())
    rng = np.random.default_rng(4)
    top = ab.pie.worst_case(channel, 30, t=2).bits
    assert max(leakage(random_joint(rng, 30, 9), both) for _ in range(100)) <= top
    assert leakage(np.eye(9) / 9, both) == pytest.approx(top, rel=1e-12)


def test_bits_of_other_channels():
    channel = ab.UnaryEncoding.optimal(ab.Domain("x", range(6)), 1.0)
    bits = ab.pie.worst_case(channel, 6).bits
    assert bits == pytest.approx(np.log2(channel.matrix().max(axis=0).sum()), rel=1e-12)
    assert bits <= np.log2(np.e)
    assert ab.pie.worst_case(response(4, 60.0), 4).bits == pytest.approx(2.0)
