"""Structured forms (likelihood, evidence, apply) against the plain matrix."""

import tracemalloc

import numpy as np
import pytest

import anonbayes as ab

DOMAIN = ab.Domain("x", list("abcd"))
BITS = {
    "UE": ab.UnaryEncoding(DOMAIN, 0.6, 0.3),
    "UE-sure": ab.UnaryEncoding(DOMAIN, 1.0, 0.25),
    "RAPPOR": ab.RAPPOR(DOMAIN, 1.0, theta=0.4),
    "uRAP": ab.UtilityOptimizedRAPPOR(DOMAIN, 1.0, sensitive=["a", "c"]),
    "uRAP-none": ab.UtilityOptimizedRAPPOR(DOMAIN, 1.0, sensitive=[]),
    "uRAP-all": ab.UtilityOptimizedRAPPOR(DOMAIN, 1.0, sensitive=list("abcd")),
    "mixed": ab.BitChannel(DOMAIN, [0.9, 0.8, 0.5, 1.0], [0.5, 0.45, 0.03, 0.0]),
}
RESPONSES = {
    "RR": ab.RandomizedResponse(DOMAIN, 1.0),
    "uRR": ab.UtilityOptimizedRR(DOMAIN, 0.5, sensitive=["b", "d"]),
    "uRR-none": ab.UtilityOptimizedRR(DOMAIN, 0.5, sensitive=[]),
}
CHANNELS = BITS | RESPONSES
P = np.array([0.4, 0.3, 0.2, 0.1])


def drawn(channel, n=400):
    values = np.random.default_rng(8).choice(DOMAIN.values, size=n, p=P)
    return channel.release(values, seed=9)


def column_of_each(channel, reports):
    """Column of the matrix for each report."""
    if isinstance(reports, ab.BitReports):
        return reports.to_dense() @ (2 ** np.arange(3, -1, -1))
    return DOMAIN.encode(reports)


@pytest.mark.parametrize("name", CHANNELS)
def test_log_likelihood_is_that_of_the_matrix(name):
    channel = CHANNELS[name]
    reports = drawn(channel)
    probabilities = (P @ channel.matrix())[column_of_each(channel, reports)]
    assert channel.log_likelihood(P, reports) == pytest.approx(np.log(probabilities).sum(), 1e-12)


@pytest.mark.parametrize("name", CHANNELS)
def test_evidence_is_that_of_the_matrix(name):
    channel = CHANNELS[name]
    reports = drawn(channel)
    codes, labels, matrix = channel.evidence(reports)
    columns = column_of_each(channel, reports)
    assert codes.shape == (len(reports),) and codes.max() == len(labels) - 1
    assert matrix.shape == (len(labels), 4) and len(set(labels)) == len(labels)
    np.testing.assert_allclose(
        matrix.toarray()[codes], channel.matrix()[:, columns].T, rtol=1e-12, atol=1e-300
    )
    # Labels name the reports they stand for.
    first = [labels[c] for c in codes[:20]]
    if isinstance(reports, ab.BitReports):
        assert first == [tuple(DOMAIN.decode(ones)) for ones in reports][:20]
    else:
        assert first == reports[:20].tolist()


@pytest.mark.parametrize("name", CHANNELS)
def test_apply_is_that_of_the_matrix(name):
    channel = CHANNELS[name]
    q = channel.matrix()
    np.testing.assert_allclose(channel.apply(P), P @ q, rtol=1e-12)
    support = channel.all_reports().to_dense() if name in BITS else np.eye(4)
    np.testing.assert_allclose(channel.support(P), P @ q @ support, rtol=1e-12)


@pytest.mark.parametrize("name", CHANNELS)
def test_em_step_is_the_textbook_one(name):
    channel = CHANNELS[name]
    reports = drawn(channel)
    rows = channel.matrix()[:, column_of_each(channel, reports)].T
    joint = rows * P
    posterior = joint / joint.sum(axis=1, keepdims=True)
    updated, value, gap = channel.likelihood(reports).step(P)
    np.testing.assert_allclose(updated, posterior.mean(axis=0), rtol=1e-11)
    assert value == pytest.approx(np.log(joint.sum(axis=1)).sum(), rel=1e-12)
    gradient = (rows / joint.sum(axis=1, keepdims=True)).sum(axis=0)
    assert gap == pytest.approx(gradient.max() - len(reports), rel=1e-9, abs=1e-9)


def test_proven_reports_are_only_counted():
    channel = BITS["uRAP"]
    reports = drawn(channel, n=5000)
    likelihood = channel.likelihood(reports)
    proven = reports.to_dense()[:, [1, 3]].any(axis=1)
    assert len(likelihood.weights) == (~proven).sum() + 2
    assert likelihood.n == 5000


def test_large_domains_never_build_a_square():
    domain = ab.Domain("x", range(12_800))
    channel = ab.RandomizedResponse(domain, 6.0)
    with pytest.raises(ab.AnonbayesError, match="12800 x 12800 entries"):
        channel.matrix()
    with pytest.raises(ab.AnonbayesError, match="more than"):
        ab.RAPPOR(domain, 1.0).matrix()
    reports = channel.release(np.arange(12_800), seed=1)
    assert channel.estimate(reports).p.sum() == pytest.approx(1.0)
    # Likelihood vectors for a table are full: few of them, or none.
    assert channel.evidence(reports[:9]).matrix.shape == (9, 12_800)
    with pytest.raises(ab.AnonbayesError, match="too many"):
        channel.evidence(reports)
    bits = ab.RAPPOR(domain, 9.0).release(np.arange(5000), seed=1)
    with pytest.raises(ab.AnonbayesError, match="5000 distinct reports for 12800 values"):
        ab.RAPPOR(domain, 9.0).evidence(bits)


@pytest.mark.parametrize("kind", ["response", "bits"])
def test_a_million_reports_of_a_large_domain_take_little_memory(kind):
    """K = 12,800 and n = 10^6: far below a byte for each pair of values, or user and value."""
    domain, n = ab.Domain("x", range(12_800)), 10**6
    codes = np.arange(n) % 12_800
    channel = {
        "response": ab.UtilityOptimizedRR(domain, 6.0, sensitive=range(2432)),
        "bits": ab.UtilityOptimizedRAPPOR.optimal(domain, 9.0, sensitive=range(2432)),
    }[kind]
    uniform = np.full(12_800, 1 / 12_800)
    tracemalloc.start()
    try:
        reports = channel.release_codes(codes, seed=1)
        if kind == "response":
            reports = ab.SupportCounts(np.bincount(reports, minlength=12_800), n)
        for method in ("empirical", "threshold"):
            channel.estimate(reports, method=method)
        channel.estimate(reports, method="em", iterations=2)
        channel.support(uniform), channel.log_likelihood(uniform, reports)
        assert channel.satisfies(ab.ULDP(range(2432), channel.epsilon)).holds
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 12_800**2


def test_evidence_of_three_thousand_bits_keeps_its_ratios():
    """A report of so many bits is too improbable for a float; ratios are those of its bits."""
    channel = ab.UnaryEncoding.optimal(ab.Domain("x", range(3000)), 1.0)
    reports = channel.release([1, 2, 2999], seed=1)
    rows = channel.evidence(reports).matrix.toarray()
    ratio = channel.hit[0] / channel.miss[0] * (1 - channel.miss[0]) / (1 - channel.hit[0])
    for row, ones in zip(rows, reports, strict=True):
        raised = np.isin(np.arange(3000), ones)
        np.testing.assert_allclose(row[raised], row[~raised][0] * ratio, rtol=1e-12)
        assert np.ptp(row[~raised]) == 0
