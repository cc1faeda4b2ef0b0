"""Reports follow the channel's probabilities, from the seeded and from the secure source.

Chi-square tests at level 1e-6 each: a correct channel fails one run in a million (the seeded
ones never, once they pass), a wrong probability in the third digit fails at these sizes.
"""

import tracemalloc

import numpy as np
import pytest
from scipy import stats

import anonbayes as ab
from anonbayes.channels.randomness import (
    SecureSource,
    draw_bits,
    generator,
    often,
    randomness,
    seldom,
)

LEVEL = 1e-6
N = 400_000
SEEDS = [20261116, None]


def chi_square(observed, expected):
    """P-value after cells that cannot occur have been checked to be empty."""
    assert (observed[expected == 0] == 0).all()
    keep = expected > 0
    return stats.chisquare(observed[keep], expected[keep]).pvalue if keep.sum() > 1 else 1.0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "make",
    [
        lambda d: ab.RandomizedResponse(d, 1.0),
        lambda d: ab.RandomizedResponse(d, 0.0),
        lambda d: ab.UtilityOptimizedRR(d, 0.7, sensitive=["a", "c"]),
        lambda d: ab.UtilityOptimizedRR(d, 0.7, sensitive=[]),
        lambda d: ab.UtilityOptimizedRR(d, 2.0, sensitive=["b"]),
    ],
    ids=["RR", "RR0", "uRR", "uRR-none", "uRR-one"],
)
def test_responses_follow_the_matrix(make, seed):
    domain = ab.Domain("x", list("abcde"))
    channel = make(domain)
    q = channel.matrix()
    np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=1e-14)
    for code, value in enumerate(domain):
        reports = channel.release([value] * (N // 5), seed=seed)
        observed = np.bincount(domain.encode(reports), minlength=5)
        assert chi_square(observed, q[code] * (N // 5)) > LEVEL


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    "make",
    [
        lambda d: ab.UnaryEncoding(d, 0.6, 0.3),
        lambda d: ab.UnaryEncoding(d, 1.0, 0.02),
        lambda d: ab.UnaryEncoding(d, 0.9, 0.75),
        lambda d: ab.RAPPOR(d, 1.0),
        lambda d: ab.UtilityOptimizedRAPPOR(d, 1.0, sensitive=["a", "c"]),
        lambda d: ab.UtilityOptimizedRAPPOR(d, 1.0, sensitive=[]),
        # Probabilities in one power of two (thinned) and in several (merged), one of them zero.
        lambda d: ab.BitChannel(d, [0.9, 0.8, 0.5, 0.7], [0.45, 0.3, 0.03, 0.0]),
    ],
    ids=["UE", "UE-sure", "UE-raised", "RAPPOR", "uRAP", "uRAP-none", "mixed"],
)
def test_whole_bit_reports_follow_the_matrix(make, seed):
    domain = ab.Domain("x", list("abcd"))
    channel = make(domain)
    q = channel.matrix()
    np.testing.assert_allclose(q.sum(axis=1), 1.0, rtol=1e-13)
    place = 2 ** np.arange(3, -1, -1)
    for code, value in enumerate(domain):
        dense = channel.release([value] * (N // 4), seed=seed).to_dense()
        observed = np.bincount(dense @ place, minlength=16)
        assert chi_square(observed, q[code] * (N // 4)) > LEVEL


def test_many_bits_keep_their_marginals_across_chunks(monkeypatch):
    monkeypatch.setattr("anonbayes.channels.randomness.CHUNK", 5000)
    domain = ab.Domain("x", range(300))
    channel = ab.RAPPOR(domain, 6.0)
    codes = np.arange(30_000) % 300
    reports = channel.release(codes, seed=3)
    assert len(reports) == 30_000
    expected = 100 * channel.hit + 29_900 * channel.miss
    variance = 100 * channel.hit * (1 - channel.hit) + 29_900 * channel.miss * (1 - channel.miss)
    z = (reports.counts() - expected) / np.sqrt(variance)
    assert stats.chi2.sf(z @ z, 300) > LEVEL
    # The ones of each report ascend and lie in the domain: the checked constructor accepts them.
    assert ab.BitReports(reports.indptr, reports.indices, 300) == reports


def test_own_bit_is_found_in_every_report_when_it_is_sure():
    domain = ab.Domain("x", range(50))
    codes = np.random.default_rng(1).integers(0, 50, 2000)
    reports = ab.UnaryEncoding(domain, 1.0, 0.1).release(codes, seed=4)
    assert reports.to_dense()[np.arange(2000), codes].all()


def test_a_seed_repeats_and_the_secure_source_does_not():
    channel = ab.RAPPOR(ab.Domain("x", range(40)), 1.0)
    values = list(range(40)) * 5
    assert channel.release(values, seed=5) == channel.release(values, seed=5)
    assert channel.release(values, seed=5) != channel.release(values, seed=6)
    assert channel.release(values) != channel.release(values)


@pytest.mark.parametrize(
    "make_seed",
    [
        lambda: 7,
        lambda: np.int64(7),
        lambda: [7],
        lambda: np.random.SeedSequence(7),
        lambda: np.random.default_rng(7),
        lambda: np.random.PCG64(7),
    ],
    ids=["int", "int64", "list", "SeedSequence", "Generator", "BitGenerator"],
)
def test_people_noise_and_columns_of_one_seed_are_independent(make_seed):
    """Correlations stay below 4.5 standard errors; a shared stream gives 0.5 or more."""
    n = 20_000
    people = (np.random.default_rng(make_seed()).random(n) < 0.5).astype(int)
    lies = {}
    for column in ("smokes", "drinks"):
        channel = ab.RandomizedResponse(ab.Domain(column, [0, 1]), 1.0)
        lies[column] = channel.release(people, seed=make_seed()) != people
        again = channel.release(people, seed=make_seed()) != people
        assert (again == lies[column]).all()
        one = channel.reporter(seed=make_seed())
        lies[f"{column}, one by one"] = np.array([one(x) for x in people]) != people
    every = np.corrcoef([people, *lies.values()])
    assert np.abs(every[np.triu_indices(5, 1)]).max() < 4.5 / np.sqrt(n)


def test_posterior_draws_of_two_columns_are_independent():
    """Functions of both columns' draws would be wrong otherwise."""
    draws = []
    for column in ("smokes", "drinks"):
        channel = ab.RandomizedResponse(ab.Domain(column, [0, 1]), 1.0)
        settings = {"alpha": 1.0, "draws": 400, "chains": 2, "seed": 7}
        made = channel.estimate([0] * 60 + [1] * 40, method="bayes", **settings).draws
        draws.append(made.values[:, :, 0].ravel())
    # About 250 of 800 draws are independent.
    assert abs(np.corrcoef(draws)[0, 1]) < 0.3


@pytest.mark.parametrize(
    "new, old",
    [
        (
            lambda d: ab.UtilityOptimizedRR(d, 1.0, sensitive=["a"]),
            [
                lambda d: ab.UtilityOptimizedRR(d, ["a"], 1.0),
                lambda d: ab.UtilityOptimizedRR(d, ["a"], epsilon=1.0),
            ],
        ),
        (
            lambda d: ab.UtilityOptimizedRAPPOR(d, 1.0, sensitive=["a"], theta=0.4),
            [
                lambda d: ab.UtilityOptimizedRAPPOR(d, ["a"], 1.0, 0.4),
                lambda d: ab.UtilityOptimizedRAPPOR(d, ["a"], epsilon=1.0, theta=0.4),
            ],
        ),
        (
            lambda d: ab.UtilityOptimizedRAPPOR.optimal(d, 1.0, sensitive=["a"]),
            [lambda d: ab.UtilityOptimizedRAPPOR.optimal(d, ["a"], 1.0)],
        ),
        (lambda d: ab.RAPPOR(d, 1.0, theta=0.4), [lambda d: ab.RAPPOR(d, 1.0, 0.4)]),
        (
            lambda d: ab.LocalHashing(domain=d, epsilon=1.0, g=2),
            [lambda d: ab.LocalHashing(d, 2, 1.0), lambda d: ab.LocalHashing(d, 2, epsilon=1.0)],
        ),
    ],
    ids=["uRR", "uRAP", "uRAP, optimal", "RAPPOR", "hashing"],
)
def test_domain_and_epsilon_come_first_and_the_former_order_warns(new, old):
    domain = ab.Domain("x", "abc")
    made = new(domain)
    for former in old:
        with pytest.warns(FutureWarning, match="domain, epsilon"):
            same = former(domain)
        assert same.epsilon == made.epsilon
        np.testing.assert_array_equal([same.hit, same.miss], [made.hit, made.miss])


def test_wrong_numbers_of_arguments_are_refused_as_ever():
    domain = ab.Domain("x", "abc")
    with pytest.raises(TypeError):
        ab.LocalHashing(domain, 2, 1.0, 5)
    with pytest.raises(TypeError):
        ab.RAPPOR(domain, 1.0, 0.4, theta=0.4)


def test_no_seed_never_touches_numpys_generator(monkeypatch):
    def forbidden(*args, **kwargs):
        raise AssertionError("a release without a seed must draw from the operating system")

    monkeypatch.setattr(np.random, "default_rng", forbidden)
    channel = ab.RandomizedResponse(ab.Domain("x", ["a", "b"]), 1.0)
    assert len(channel.release(["a"] * 10)) == 10
    assert len(ab.RAPPOR(channel.domain, 1.0).release(["a"] * 10)) == 10


@pytest.mark.parametrize("seed", [7, [7], np.random.SeedSequence(7)], ids=["int", "list", "seq"])
def test_no_kind_of_seed_couples_people_with_their_noise(seed):
    assert generator(seed).random() != np.random.default_rng(seed).random()
    assert generator(seed).random() == generator(seed).random()


def test_secure_integers_have_no_remainder_bias(monkeypatch):
    # Words of the last incomplete run must be drawn again: feed only such words first.
    source = SecureSource()
    words = iter([np.full(3, 2**64 - 1, dtype=np.uint64), np.array([7, 8, 9], dtype=np.uint64)])
    monkeypatch.setattr(source, "bits", lambda size: next(words))
    assert source.integers(10, 13, 3).tolist() == [11, 12, 10]


def test_secure_uniforms_are_uniform():
    draws = SecureSource().random(N)
    assert draws.min() >= 0 and draws.max() < 1
    assert stats.kstest(draws, "uniform").pvalue > LEVEL
    assert isinstance(randomness(None), SecureSource)


PROBABILITIES = [1e-3, 0.03, 0.1, 0.2, 1 / 3, 0.5, 97.3 / 256, 0.75, 0.999]


class EvenUniforms:
    """Source whose uniforms are an even grid, in an order of their own."""

    def random(self, size):
        return np.random.default_rng(3).permutation((np.arange(size) + 0.5) / size)


@pytest.mark.parametrize("probability", PROBABILITIES)
def test_gaps_have_the_exact_geometric_probabilities(probability):
    """Even uniforms: only their grid is left as error."""
    total = int(1e5 / probability)
    places = seldom(total, probability, EvenUniforms())
    drawn = int(total * probability + 4 * np.sqrt(total * probability)) + 16
    gaps = np.diff(np.r_[-1, places]) - 1
    exact = probability * (1 - probability) ** np.arange(60)
    observed = np.bincount(gaps, minlength=60)[:60]
    # Gaps of the uniforms behind the last place are not seen: a random part of the grid.
    hidden = drawn - len(places)
    slack = 2 + 5 * np.sqrt(hidden * exact * (1 - exact)) + 1e-9 * drawn
    assert (np.abs(observed - len(places) * exact) <= slack).all()


def test_often_is_exact_to_the_last_word():
    """All first bytes once, with tails below and above the rest of the limit."""

    class Words:
        def __init__(self, tails):
            self.parts = [bytes(range(256)), tails]

        def bytes(self, length):
            part = self.parts.pop(0)
            return (part * (length // len(part) + 1))[:length] if length else b""

    p = 77.25 / 256
    low, high = (np.array([x], dtype=np.uint64).tobytes() for x in (1, 2**64 - 1))
    below = often(256, np.array([p]), Words(low))
    above = often(256, np.array([p]), Words(high))
    assert below.sum() == 78 and above.sum() == 77  # byte 77 is decided by its tail


@pytest.mark.parametrize("probability", PROBABILITIES)
def test_seldom_are_independent_bits(probability):
    """Their number, and the correlation of neighbouring bits, from the secure source."""
    total = int(min(4e6, N / probability))
    found = seldom(total, probability, SecureSource())
    assert found[0] >= 0 and found[-1] < total and (np.diff(found) > 0).all()
    variance = probability * (1 - probability)
    z_number = (len(found) - total * probability) / np.sqrt(total * variance)
    # sum of (x_i - p)(x_(i+1) - p), the ends of the row aside.
    both = int((np.diff(found) == 1).sum())
    product = both - 2 * probability * len(found) + total * probability**2
    z_pair = product / np.sqrt(total * variance**2)
    assert stats.chi2.sf(z_number**2 + z_pair**2, 2) > LEVEL


@pytest.mark.parametrize("n, size, epsilon", [(40_000, 8000, 6.0), (60_000, 1000, 1.0)])
def test_memory_follows_the_ones(n, size, epsilon):
    """Beside the reports themselves there is a fixed amount, far below a byte for each bit."""
    channel = ab.UnaryEncoding.optimal(ab.Domain("x", range(size)), epsilon)
    codes = np.arange(n) % size
    channel.release_codes(codes[:10])
    tracemalloc.start()
    try:
        reports = channel.release_codes(codes)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    stored = reports.indices.nbytes + reports.indptr.nbytes
    assert peak < 1.02 * stored + 8e6
    assert peak < 0.8 * n * size


def test_more_ones_than_expected_find_room(monkeypatch):
    """The array of the reports grows when chance exceeds its six standard errors."""

    class Generous:
        """Every gap zero, every own bit raised."""

        def bytes(self, length):
            return bytes(length)

        def random(self, size):
            return np.zeros(size)

    monkeypatch.setattr("anonbayes.channels.randomness.CHUNK", 64)
    channel = ab.UnaryEncoding(ab.Domain("x", range(20)), 0.6, 0.3)
    codes = np.arange(500) % 20
    reports = draw_bits(codes, channel.hit, channel.miss, Generous())
    assert reports.to_dense().all()


def test_seldom_reach_the_end_and_never_pass_it():
    rng = np.random.default_rng(0)
    hits = np.zeros(7)
    for _ in range(20_000):
        hits[seldom(7, 0.3, rng)] += 1
    assert chi_square(np.r_[hits, 7 * 20_000 - hits.sum()], 20_000 * np.r_[[0.3] * 7, 4.9]) > LEVEL
    assert seldom(5, 1e-300, rng).size == 0
    assert seldom(0, 0.5, rng).size == 0
