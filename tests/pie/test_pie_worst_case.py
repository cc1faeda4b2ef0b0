"""The worst-case companion: maximal leakage and Sibson's information."""

import numpy as np
import pytest

import anonbayes as ab
from anonbayes.errors import AnonbayesError, ChannelError


def response(size, epsilon):
    return ab.RandomizedResponse(ab.IntegerDomain(size), epsilon)


def random_joint(rng, n, k):
    joint = rng.dirichlet(np.full(k, 0.2), size=n) * rng.dirichlet(np.full(n, 2.0))[:, None]
    return joint / joint.sum()


def test_orders_run_from_mutual_information_to_maximal_leakage():
    rng = np.random.default_rng(0)
    channel = response(5, 1.5)
    for _ in range(50):
        joint = random_joint(rng, 7, 5)
        orders = (1.000001, 1.5, 3, 50, 5000, np.inf)
        bits = [ab.pie.renyi_information(joint, channel, a) for a in orders]
        assert bits[0] == pytest.approx(ab.pie.information(joint, channel), abs=1e-5)
        assert (np.diff(bits) >= -1e-12).all()
        assert bits[-2] == pytest.approx(bits[-1], abs=2e-3)


@pytest.mark.parametrize("order", [1.3, 2.0, 7.0, np.inf])
@pytest.mark.parametrize("n, k", [(4, 4), (3, 6), (9, 5)])
def test_supremum_is_reached_and_not_exceeded(order, n, k):
    rng = np.random.default_rng(1)
    for channel in (response(k, 1.2), ab.LocalHashing.invertible(k, 1.2)):
        top = ab.pie.renyi_bound(channel, n, order=order)
        used = min(n, k)
        best = np.zeros((n, k))
        best[np.arange(used), np.arange(used)] = 1 / used
        assert ab.pie.renyi_information(best, channel, order) == pytest.approx(top, rel=1e-9)
        for _ in range(100):
            found = ab.pie.renyi_information(random_joint(rng, n, k), channel, order)
            assert found <= top + 1e-12


def test_order_one_is_the_exact_bound():
    channel = response(8, 2.0)
    exact = ab.pie.bound(channel, 5, kind="exact")
    assert ab.pie.renyi_bound(channel, 5, order=1) == exact
    assert ab.pie.renyi_bound(channel, 5, order=1 + 1e-7) == pytest.approx(exact, rel=1e-5)


def test_error_is_attained_by_the_best_guess_and_holds_for_every_report():
    n, k, epsilon = 6, 6, 1.7
    channel = response(k, epsilon)
    joint = np.eye(n) / n
    reports = joint @ channel.matrix()
    found = ab.pie.worst_case(channel, n)
    assert 1 - reports.max(axis=0).sum() == pytest.approx(found.error, rel=1e-12)
    posterior = reports / reports.sum(axis=0)
    assert found.error_of_every_report == pytest.approx(1 - posterior.max(), rel=1e-12)
    rng = np.random.default_rng(3)
    for _ in range(200):
        joint = random_joint(rng, n, k)
        reports = joint @ channel.matrix()
        found = ab.pie.worst_case(channel, n, prior=joint.sum(axis=1))
        assert found.error <= 1 - reports.max(axis=0).sum() + 1e-12
        assert found.error_of_every_report <= 1 - (reports / reports.sum(axis=0)).max() + 1e-12


def test_leakage_of_two_reports_adds_up():
    channel = response(3, 1.0)
    both = np.kron(channel.matrix(), channel.matrix())
    rng = np.random.default_rng(4)
    top = ab.pie.renyi_bound(channel, 30, t=2)
    worst = max(ab.pie.renyi_information(random_joint(rng, 30, 9), both) for _ in range(100))
    assert worst <= top
    assert ab.pie.renyi_information(np.eye(9) / 9, both) == pytest.approx(top, rel=1e-12)
    with pytest.raises(ChannelError, match="order=inf"):
        ab.pie.renyi_bound(channel, 30, t=2, order=2)


def test_bits_of_other_channels():
    channel = ab.UnaryEncoding.optimal(ab.Domain("x", range(6)), 1.0)
    q = channel.matrix()
    assert ab.pie.renyi_bound(channel, 6) == pytest.approx(np.log2(q.max(axis=0).sum()), rel=1e-12)
    assert ab.pie.renyi_bound(channel, 6) <= np.log2(np.e)
    assert ab.pie.renyi_bound(response(4, 60.0), 4) == pytest.approx(2.0)


def test_bad_orders():
    with pytest.raises(AnonbayesError, match="order"):
        ab.pie.renyi_information(np.eye(2) / 2, response(2, 1.0), 0.5)
