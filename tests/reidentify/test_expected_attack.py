"""The budget attack's expected success, against enumeration, closed forms and simulation."""

import numpy as np
import pytest

import anonbayes as ab


def by_enumeration(channel, counts, epsilon, sensitive):
    """Success and open-bit probability of a holder of each value, over all reports."""
    q = channel.matrix()
    bits = channel.all_reports().to_dense().astype(bool)
    n = counts.sum()
    opened = bits[:, ~sensitive].any(axis=1)
    success = np.zeros((len(counts), len(bits)))
    for y, row in enumerate(bits):
        raised = np.flatnonzero(row & (counts > 0))
        if len(raised) == 0:
            success[:, y] = np.where(counts > 0, 1 / n, 0)
            continue
        best = raised[epsilon[raised] == epsilon[raised].max()]
        success[best, y] = 1 / counts[best].sum()
    return (q * success).sum(axis=1), q @ opened, (q * success) @ opened


@pytest.mark.parametrize("seed", range(30))
def test_equals_enumeration(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 8))
    domain = ab.Domain("x", range(size))
    counts = rng.choice([0, 1, 1, 2, 5, 40], size)
    counts[0] += 1
    epsilon = rng.choice([1.0, 2.0, 3.0, np.inf], size)
    sensitive = rng.random(size) < 0.4
    b = rng.uniform(0.0, 0.4, size) * (rng.random(size) < 0.8)
    a = b + (1 - b) * rng.uniform(0.1, 1.0, size)
    channel = ab.InputDiscriminativeUE(domain, a, b)
    success, opened, both = by_enumeration(channel, counts, epsilon, sensitive)
    found = ab.reidentify.expected_budget_attack(channel, counts, epsilon, sensitive=sensitive)
    held = counts > 0
    assert found.success[held] == pytest.approx(success[held], rel=1e-10)
    assert found.opened == pytest.approx(opened, abs=1e-12)
    assert found.opened_success[held] == pytest.approx(both[held], abs=1e-12)
    assert found.rate == pytest.approx(counts @ success / counts.sum())
    alone = counts == 1
    if opened[alone].sum() > 0:
        assert found.outlier_rate == pytest.approx(both[alone].sum() / opened[alone].sum())
    else:
        assert np.isnan(found.outlier_rate)


@pytest.mark.parametrize("number", [2, 300, 200_000])
@pytest.mark.parametrize("b", [1e-4, 0.005, 0.4])
def test_the_crowd_of_unique_values_has_a_closed_form(number, b):
    """Everybody's bit is raised for sure, others' with b: the sender is one of those raised.

    ``E[1/(1 + Binomial(m - 1, b))] = (1 - (1-b)^m)/(m b)``.
    """
    channel = ab.InputDiscriminativeUE(ab.Domain("x", range(number)), [1.0] * number, [b] * number)
    ours = ab.reidentify.expected_budget_attack(channel, np.ones(number, int), np.ones(number))
    closed = -np.expm1(number * np.log1p(-b)) / (number * b)
    assert ours.success == pytest.approx(np.full(number, closed), rel=1e-10)


def test_equals_the_attack_on_released_reports_of_a_larger_population():
    rng = np.random.default_rng(3)
    size = 2000
    domain = ab.Domain("x", range(size))
    counts = rng.multinomial(8000, (w := 1 / np.arange(3, size + 3)) / w.sum())
    sensitive = rng.random(size) < 0.1
    popular = np.where(counts > 80, counts // 2, 0)
    tuned = ab.budgets.from_prior(domain, 8000, 50, popular, sensitive=sensitive)
    channel = ab.InputDiscriminativeUE.optimal(domain, tuned)
    values = np.repeat(np.arange(size), counts)
    senders = np.tile(np.arange(8000), 5)
    reports = channel.release(values[senders], seed=4)
    drawn = ab.reidentify.budget_attack(domain, reports, values, tuned, senders=senders, seed=5)
    opened = np.concatenate([[0], np.cumsum(~sensitive[reports.indices])])[reports.indptr]
    outlier = (counts[values[senders]] == 1) & (np.diff(opened) > 0)
    exact = ab.reidentify.expected_budget_attack(channel, counts, tuned, sensitive=sensitive)
    for where, share in ((None, exact.rate), (outlier, exact.outlier_rate)):
        found = ab.reidentify.rate(drawn, where=where)
        assert found.share == pytest.approx(share, abs=4.5 * found.standard_error)
        assert found.standard_error < 0.1 * share


def test_bad_input_is_named():
    channel = ab.RAPPOR(ab.Domain("x", range(3)), 1.0)
    for counts in ([0, 0, 0], [1.5, 1, 1], [-1, 2, 3]):
        with pytest.raises(ab.AnonbayesError, match="whole numbers of users"):
            ab.reidentify.expected_budget_attack(channel, counts, 1.0)


def test_a_smaller_gamma_hides_outliers_where_the_bound_does_not():
    """Where popular values hold most users outliers exceed gamma/n; their rate falls with gamma."""
    size = 3000
    domain = ab.Domain("x", range(size))
    counts = np.concatenate([np.full(20, 500), np.ones(size - 20, int)])
    n = int(counts.sum())
    rates = {}
    for gamma in (50.0, 12.0):
        tuned = ab.budgets.worst_case(domain, n, gamma)
        channel = ab.InputDiscriminativeUE.optimal(domain, tuned)
        assert ab.reidentify.worst_report(channel, counts).accuracy <= tuned.bound * (1 + 1e-9)
        found = ab.reidentify.expected_budget_attack(channel, counts, tuned)
        assert found.rate <= tuned.bound
        rates[gamma] = found.outlier_rate
    assert rates[50.0] > 1.2 * 50 / n
    assert rates[12.0] < 50 / n
    assert rates[12.0] / rates[50.0] < 12 / 50
