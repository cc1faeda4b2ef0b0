"""Local hashing: its family, its estimators, its losses."""

import numpy as np
import pytest

import anonbayes as ab
from anonbayes.channels import hashing
from anonbayes.channels.hashing import MERSENNE
from anonbayes.errors import ChannelError, DomainError
from anonbayes.estimation import kernels
from anonbayes.estimation.closed_forms import variances


def loss_of(channel, p, n):
    """Expected squared error of a value with this share among the users."""
    return variances(p, n, channel.hit[0], channel.miss[0], sampled=False)


def test_large_products_agree_with_python_integers():
    rng = np.random.default_rng(1)
    a, b, x = (rng.integers(0, MERSENNE, 2000) for _ in range(3))
    a[:2], b[:2], x[:2] = MERSENNE - 1, [MERSENNE - 1, 0], MERSENNE - 1
    for g in (2, 1000, 2_000_000_000):
        exact = [(int(i) * int(k) + int(j)) % MERSENNE % g for i, j, k in zip(a, b, x, strict=True)]
        assert hashing.hash_pairs(a, b, x, MERSENNE, g).tolist() == exact


@pytest.mark.parametrize("number", [561, 25_326_001, 3_215_031_751, 2_152_302_898_747])
def test_pseudoprimes_are_not_taken_for_primes(number):
    assert not hashing.is_prime(number)


def test_collisions_of_the_invertible_family_are_exact():
    channel = ab.LocalHashing(5, g=7, epsilon=1.0)
    every = channel.all_reports()
    hashes = (np.arange(5)[:, None] * every.a + every.b) % 7
    for x in range(4):
        assert np.mean(hashes[x] == hashes[x + 1]) == pytest.approx(1 / 7, rel=1e-14)
    # Without a = 0, as textbooks have it, values would never collide and counts be biased.
    used = every.a > 0
    assert not (hashes[0] == hashes[1])[used].any()


def test_matrix_gives_hit_and_miss():
    channel = ab.LocalHashing(5, g=7, epsilon=1.3)
    q, every = channel.matrix(), channel.all_reports()
    np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=1e-12)
    supports = (np.arange(5)[:, None] * every.a + every.b) % 7 == every.y
    support = q @ supports.T
    np.testing.assert_allclose(np.diag(support), channel.hit, rtol=1e-12)
    off = support[~np.eye(5, dtype=bool)]
    np.testing.assert_allclose(off, channel.miss[0], rtol=1e-12)
    assert np.log(q.max(axis=0) / q.min(axis=0)).max() == pytest.approx(1.3, rel=1e-12)
    assert channel.satisfies(ab.LDP(1.3)) and not channel.satisfies(ab.LDP(1.29))


def test_collision_probability_by_counting():
    for prime, g in ((7, 3), (11, 4), (13, 13)):
        residues = np.arange(prime) % g
        expected = np.mean(residues[:, None] == residues)
        assert hashing.collision_probability(prime, g) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize("g", [11, 4])
def test_counts_agree_with_a_plain_loop(g):
    channel = ab.LocalHashing(ab.Domain("x", "abcdefghi"), g=g, epsilon=1.0)
    reports = channel.release(list("abcdefghi") * 20, seed=5)
    plain = np.zeros(9, dtype=int)
    for a, b, y in zip(reports.a, reports.b, reports.y, strict=True):
        for x in range(9):
            plain[x] += ((int(a) * x + int(b)) % channel.prime) % g == y
    assert channel.counts(reports).tolist() == plain.tolist()
    assert channel.counts(reports, values=["i", "a"]).tolist() == [plain[8], plain[0]]
    assert channel.likelihood(reports).n == 180


@pytest.mark.parametrize("g", [13, 3])
def test_likelihood_is_the_product_over_reports(g):
    channel = ab.LocalHashing(6, g=g, epsilon=1.5)
    reports = channel.release(np.arange(6).repeat(30), seed=2)
    p = np.random.default_rng(0).dirichlet(np.ones(6))
    evidence = channel.evidence(reports)
    direct = np.log(evidence.matrix.toarray()[evidence.codes] @ p).sum()
    assert channel.log_likelihood(p, reports) == pytest.approx(direct, rel=1e-12)


def test_closed_form_maximum_likelihood_agrees_with_em():
    channel = ab.LocalHashing.invertible(6, 2.0)
    assert channel.g == 7
    reports = channel.release(np.arange(6).repeat([300, 200, 100, 50, 10, 0]), seed=3)
    closed = channel.estimate(reports, method="mle")
    climbed = channel.estimate(reports, method="mle", tolerance=1e-9)
    assert closed.gap < 1e-6
    np.testing.assert_allclose(closed.p, climbed.p, atol=1e-4)


@pytest.mark.parametrize("g", [2, 4, 101])
def test_empirical_estimate_is_unbiased_with_the_stated_loss(g):
    channel = ab.LocalHashing(100, g=g, epsilon=1.0)
    n, values = 2000, np.array([0, 1, 99])
    held = np.repeat([0, 1, 50], [1000, 500, 500])
    rng, runs = np.random.default_rng(7), 400
    estimates = np.array(
        [
            channel.estimate(channel.release(held, seed=rng), method="empirical", values=values).p
            for _ in range(runs)
        ]
    )
    share = np.array([0.5, 0.25, 0.0])
    loss = loss_of(channel, share, n)
    assert (np.abs(estimates.mean(axis=0) - share) < 4 * np.sqrt(loss / runs)).all()
    squared = (estimates - share) ** 2
    assert (np.abs(squared.mean(axis=0) - loss) < 4 * squared.std(axis=0) / np.sqrt(runs)).all()


def test_losses_are_those_of_the_reference(golden):
    response = golden["pie_l2"]["RR_K10_eps1_n1000"]
    hashed = golden["pie_l2"]["GLH_K_any_eps1_n1000_p.3"]
    channel = ab.RandomizedResponse(ab.Domain("x", range(10)), 1.0)
    assert loss_of(channel, 0.3, 1000) == pytest.approx(response["p=.3"], rel=1e-12)
    assert loss_of(channel, 0.0, 1000) == pytest.approx(response["p=0"], rel=1e-12)
    for g in (2, 4):
        channel = ab.LocalHashing(10, 1.0, g=g)
        assert loss_of(channel, 0.3, 1000) == pytest.approx(hashed[f"g={g}"], rel=1e-12)


def test_losses_are_those_of_the_paper():
    """PIE Props. 15 and 16, term by term."""
    p, e, n = np.array([0.5, 0.3, 0.2, 0.0]), np.e, 100
    response = ab.RandomizedResponse(ab.Domain("x", range(4)), 1.0)
    paper = (4 + e - 2) / (n * (e - 1) ** 2) + p * (4 - 2) / (n * (e - 1))
    assert response.expected_loss(p, n, sampled=False) == pytest.approx(paper.sum(), rel=1e-12)
    g = 3
    hashed = ab.LocalHashing(4, 1.0, g=g)
    paper = (g + e - 1) ** 2 / (n * (e - 1) ** 2 * (g - 1))
    paper = paper + p * (g**2 - 2 * g - e + 1) / (n * (e - 1) * (g - 1))
    assert hashed.expected_loss(p, n, sampled=False) == pytest.approx(paper.sum(), rel=1e-12)


def test_loss_falls_with_g_to_its_limit_at_fixed_theta():
    """PIE Theorem 17; at a fixed epsilon it does not fall."""
    g = np.unique(np.logspace(0.5, 9.3, 60).astype(int))
    for theta in (0.05, 0.5, 0.9):
        channels = [ab.LocalHashing(2, np.log1p(theta * k / (1 - theta)), g=int(k)) for k in g]
        loss = np.array([loss_of(channel, 0.01, 1000) for channel in channels])
        limit = 0.01 * (1 - theta) / (1000 * theta)
        assert (np.diff(loss) < 0).all() and (loss > limit).all()
        assert loss[-1] == pytest.approx(limit, rel=1e-5)
    fixed = [float(loss_of(ab.LocalHashing(2, 3.0, g=int(k)), 0.01, 1000)) for k in g]
    assert fixed[-1] > min(fixed)
    assert abs(g[int(np.argmin(fixed))] - (np.exp(3.0) + 1)) < 8  # Wang et al.: e^eps + 1


def test_threshold_keeps_popular_candidates_only():
    channel = ab.LocalHashing(1_000_003, g=1_000_003, epsilon=12.0)
    held = np.concatenate([np.full(5000, 17), np.arange(1000, 6000)])
    reports = channel.release(held, seed=4)
    estimate = channel.estimate(reports, method="threshold", values=[17, 500_000, 16])
    assert estimate.p[0] == pytest.approx(0.5, abs=4 * loss_of(channel, 0.5, 10_000) ** 0.5)
    assert (estimate.p[1:] == 0).all()
    raw = channel.estimate(reports, method="empirical", values=range(1000, 1200)).p
    kept = channel.estimate(reports, method="threshold", values=range(1000, 1200)).p
    limit = channel.significance_threshold(10_000)[0]
    assert ((kept > 0) == (raw > limit)).all()


def test_bayes_and_em_run_on_hash_reports():
    channel = ab.LocalHashing(ab.Domain("x", "abc"), g=2, epsilon=3.0)
    reports = channel.release(["a"] * 1500 + ["b"] * 400 + ["c"] * 100, seed=6)
    for estimate in (
        channel.estimate(reports, method="bayes", draws=200, chains=1, seed=1),
        channel.estimate(reports, method="mle"),
    ):
        assert estimate.interval is not None
        assert abs(estimate.p[0] - 0.75) < 0.1 and abs(estimate.p.sum() - 1) < 1e-9


def test_secure_source_is_used_without_a_seed():
    channel = ab.LocalHashing(10, g=11, epsilon=1.0)
    first, second = channel.release([1] * 50), channel.release([1] * 50)
    assert (first.a != second.a).any()


def test_integer_domain_reads_what_a_domain_would():
    places = ab.IntegerDomain(5)
    assert 4 in places and 5 not in places and True not in places
    assert places.find("3") == 3 and places.find("03") is None and places.find(2.0) == 2
    assert places.encode([1.0, "2"]).tolist() == [1, 2]
    assert (
        ab.LocalHashing(places, 1.0, g=7)
        .estimate(ab.HashReports([1] * 9, [0] * 9, [3] * 9))
        .to_series()
        .idxmax()
        == 3
    )
    with pytest.raises(DomainError, match="row 1"):
        places.encode(np.array([1, 5]))
    with pytest.raises(DomainError, match="size"):
        ab.IntegerDomain(0)


@pytest.mark.parametrize("g", [1, 2**31, 2.5])
def test_impossible_numbers_of_symbols(g):
    with pytest.raises(ChannelError, match="g="):
        ab.LocalHashing(10, 1.0, g=g)


def test_impossible_reports_are_named():
    channel = ab.LocalHashing(10, g=11, epsilon=1.0)
    with pytest.raises(ChannelError, match="Report 1: y = 11"):
        channel.counts(ab.HashReports([1, 1], [0, 0], [3, 11]))
    with pytest.raises(ChannelError, match=r"triple \(a, b, y\)"):
        channel.counts([1, 2])
    with pytest.raises(ChannelError, match="one a, b and y"):
        ab.HashReports([1], [0], [3, 4])
    with pytest.raises(ChannelError, match="candidates"):
        wide = ab.LocalHashing(10**9, g=1000, epsilon=1.0)
        wide.counts(wide.release([1] * 100, seed=1))


def test_constant_hash_functions_tell_of_all_values_or_none():
    a, b, y = np.array([3, 3, 0, 0]), np.array([1, 1, 4, 4]), np.array([0, 2, 4, 5])
    assert kernels.invert(a, b, y, 7).tolist() == [2, 5, -1, -2]  # 3 * 2 + 1 = 7, 3 * 5 + 1 = 16
