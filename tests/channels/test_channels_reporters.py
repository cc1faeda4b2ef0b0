"""One user at a time: the reporters draw what the channels say, and never twice the same.

Chi-square tests at level 1e-6 each, as for `release`: a correct reporter that draws from the secure
source fails one run in a million.
"""

import subprocess
import sys
import warnings
from fractions import Fraction

import cloudpickle
import numpy as np
import pytest
from scipy import stats

import anonbayes as ab
from anonbayes.channels.randomness import limit, noise_rows, stream
from anonbayes.estimation.closed_forms import variances

LEVEL = 1e-6
N = 15_000
SEEDS = [20261116, None]
LETTERS = ab.Domain("x", list("abcd"))

RESPONSES = {
    "RR": ab.RandomizedResponse(LETTERS, 1.0),
    "RR0": ab.RandomizedResponse(LETTERS, 0.0),
    "uRR": ab.UtilityOptimizedRR(LETTERS, 0.7, sensitive=["a", "c"]),
    "uRR-none": ab.UtilityOptimizedRR(LETTERS, 0.7, sensitive=[]),
    "uRR-one": ab.UtilityOptimizedRR(LETTERS, 2.0, sensitive=["b"]),
}
BITS = {
    "UE": ab.UnaryEncoding(LETTERS, 0.6, 0.3),
    "UE-sure": ab.UnaryEncoding(LETTERS, 1.0, 0.02),
    "uRAP": ab.UtilityOptimizedRAPPOR(LETTERS, 1.0, sensitive=["a", "c"]),
    "uRAP-none": ab.UtilityOptimizedRAPPOR(LETTERS, 1.0, sensitive=[]),
    "mixed": ab.BitChannel(LETTERS, [0.9, 0.8, 0.5, 0.7], [0.45, 0.3, 0.03, 0.0]),
}


class Script:
    """Source that plays back given bytes."""

    def __init__(self, *parts):
        self.parts = list(parts)

    def bytes(self, length):
        part = self.parts.pop(0)
        assert len(part) == length
        return part


def follows(observed, expected):
    """P-value after cells that cannot occur have been checked to be empty; rare cells are one."""
    assert (observed[expected == 0] == 0).all()
    rare = expected < 5
    seen = np.append(observed[~rare], observed[rare].sum())
    foreseen = np.append(expected[~rare], expected[rare].sum())
    keep = foreseen > 0
    return stats.chisquare(seen[keep], foreseen[keep]).pvalue if keep.sum() > 1 else 1.0


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("channel", RESPONSES.values(), ids=RESPONSES)
def test_single_responses_follow_the_matrix(channel, seed):
    report, q = channel.reporter(seed=seed), channel.matrix()
    for code, value in enumerate(LETTERS):
        observed = np.bincount(LETTERS.encode([report(value) for _ in range(N)]), minlength=4)
        assert follows(observed, q[code] * N) > LEVEL


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("channel", BITS.values(), ids=BITS)
def test_single_bit_reports_follow_the_matrix(channel, seed):
    report, q = channel.reporter(seed=seed), channel.matrix()
    for code, value in enumerate(LETTERS):
        dense = channel.read([report(value) for _ in range(N)]).to_dense()
        observed = np.bincount(dense @ [8, 4, 2, 1], minlength=16)
        assert follows(observed, q[code] * N) > LEVEL


@pytest.mark.parametrize("seed", SEEDS)
def test_single_hash_reports_follow_the_matrix(seed):
    channel = ab.LocalHashing(3, 1.0, g=3)
    report, q = channel.reporter(seed=seed), channel.matrix()
    for value in range(3):
        triples = np.array([report(value) for _ in range(N)])
        observed = np.bincount(triples @ [9, 3, 1], minlength=27)
        assert follows(observed, q[value] * N) > LEVEL


def test_single_hash_reports_of_a_large_family_estimate_the_truth():
    channel = ab.LocalHashing(50, 2.0, g=4)
    report = channel.reporter(seed=3)
    reports = [report(value) for value in [7] * 6000 + [9] * 4000]
    found = channel.estimate(reports, method="empirical")
    shares, bits = np.array([0.6, 0.4]), (channel.hit[:2], channel.miss[:2])
    error = np.sqrt(variances(shares, 10_000, *bits, sampled=False))
    assert (np.abs(found.p[[7, 9]] - [0.6, 0.4]) < 4.5 * error).all()


def test_noise_is_exact_at_the_limit():
    # All first bytes, in one row each; the one that ties is settled by the 56 bits that follow.
    p = 0.3
    head, rest = divmod(limit(p), 2**56)
    heads = np.tile(np.arange(256, dtype=np.uint8), 32).tobytes()
    for tail, raised in ((rest - 1, head + 1), (rest, head)):
        ties = np.full(32, tail << 8, dtype=np.uint64).tobytes()
        rows = noise_rows(np.array([p]), Script(heads, ties))
        drawn = [next(rows) for _ in range(256)]
        assert drawn == [b"\1"] * raised + [b"\0"] * (256 - raised)
    assert 0 <= Fraction(p) - Fraction(limit(p), 2**64) < Fraction(1, 2**64)


def test_words_of_the_incomplete_last_run_are_drawn_again(monkeypatch):
    channel = ab.RandomizedResponse(ab.Domain("x", range(3)), 1.0)
    top = 2**64 - 1  # 2^64 leaves a rest of 1 when divided by 3
    script = np.array([top, top, 4] + [0] * 509, dtype=np.uint64).tobytes()
    monkeypatch.setattr(channel, "_source", lambda *_: Script(script))
    assert channel.reporter()(0) == 1


def test_a_seed_repeats_and_the_secure_source_does_not():
    channel = ab.RAPPOR(ab.Domain("x", range(40)), 1.0)

    def some(seed):
        report = channel.reporter(seed=seed)
        return [report(value) for value in range(40)]

    assert some(5) == some(5) != some(6)
    assert some(None) != some(None)


@pytest.mark.parametrize(
    "make",
    [
        lambda d: ab.RandomizedResponse(d, 1.0),
        lambda d: ab.UnaryEncoding.optimal(d, 1.0),
        lambda d: ab.LocalHashing(d, 1.0, g=3),
    ],
)
def test_values_are_found_as_everywhere(make):
    report = make(ab.Domain("x", [0, 1, 2])).reporter(seed=1)
    for same in (2, 2.0, "2", np.int64(2)):
        report(same)
    for other in (True, np.True_, 3, -1, "a", None, [1], float("nan")):
        with pytest.raises(ab.errors.DomainError, match="x"):
            report(other)


def test_mixed_and_integer_domains():
    mixed = ab.RandomizedResponse(ab.Domain("x", [True, "a", 5]), 50.0).reporter(seed=1)
    assert [mixed(v) for v in (True, "a", 5)] == [True, "a", 5]
    with pytest.raises(ab.errors.DomainError):
        mixed(1)
    huge = ab.LocalHashing(10_500_393, g=10_500_421, epsilon=40.0)
    report = huge.reporter(seed=2)
    assert huge.counts([report(77)] * 3, values=[77]).tolist() == [3]
    with pytest.raises(ab.errors.DomainError):
        report(-1)


def test_personal_and_deterministic_channels():
    places = ab.Domain("place", ["clinic", "park", "mall", "<home>"])
    common = ab.UtilityOptimizedRR(places, epsilon=30.0, sensitive=["clinic", "<home>"])
    device = ab.Personalized(common, tags=["<home>"]).device({"park": "<home>"})
    report = device.reporter(seed=1)
    assert [report(v) for v in ("park", "mall", "clinic")] == ["<home>", "mall", "clinic"]
    with pytest.raises(ab.errors.DomainError):
        report("<home>")
    coarse = ab.UniformQuantizer(0, 10, bins=2)
    assert coarse.reporter()(7) == coarse.release([7])[0]


def test_lists_of_single_reports_are_read_like_bulk_reports():
    response = RESPONSES["uRR"]
    report = response.reporter(seed=4)
    one_by_one = [report(v) for v in "abcd" * 50]
    bulk = np.array(one_by_one, dtype=object)
    for method in ("empirical", "threshold", "mle"):
        np.testing.assert_array_equal(
            response.estimate(one_by_one, method=method).p, response.estimate(bulk, method=method).p
        )
    bits = BITS["mixed"]
    report = bits.reporter(seed=4)
    rows = [report(v) for v in "abcd" * 200]
    dense = np.array([list(row) for row in rows])
    np.testing.assert_array_equal(bits.counts(rows), dense.sum(axis=0))
    assert bits.read(rows) == bits.read(dense)
    hashing = ab.LocalHashing(5, 1.0, g=4)
    reports = hashing.release([0, 1, 2, 3, 4] * 20, seed=5)
    triples = [reports[i] for i in range(len(reports))]
    np.testing.assert_array_equal(hashing.counts(triples), hashing.counts(reports))


@pytest.mark.parametrize(
    ("channel", "reports", "words"),
    [
        (RESPONSES["RR"], ["a", "z"], "row 1: 'z'"),
        (RESPONSES["RR"], ["a", ["a"]], "hashable"),
        (BITS["UE"], [b"\0\0\0\0", b"\0\0"], "Report 1 must be 4 bytes"),
        (BITS["UE"], [b"\0\0\0\0", "abcd"], "Report 1 must be 4 bytes"),
        (BITS["UE"], [b"\0\0\0\x07"], "Report 0, bit 3 is 7"),
        (ab.LocalHashing(3, 1.0, g=3), [(0, 1, 2), (0, 1)], "Report 1 must be a triple"),
        (ab.LocalHashing(3, 1.0, g=3), [(0, 1, 3)], "y = 3 must lie in"),
        (ab.LocalHashing(3, 1.0, g=3), [(0, 1, 0.5)], "whole numbers"),
        (ab.LocalHashing(3, 1.0, g=3), [], "no reports"),
    ],
)
def test_lists_of_bad_reports_are_refused(channel, reports, words):
    with pytest.raises((ab.errors.ChannelError, ab.errors.DomainError), match=words):
        channel.estimate(reports)


def test_truth_values_among_numbers_are_refused_in_lists_too():
    channel = ab.RandomizedResponse(ab.Domain("x", [0, 1]), 1.0)
    with pytest.raises(ab.errors.AnonbayesError, match="Booleans"):
        channel.estimate([0, 1, True])


FORK = """
import os
import anonbayes as ab
report = ab.RAPPOR(ab.Domain("x", range(64)), 1.0).reporter()
answer = ab.RandomizedResponse(ab.Domain("x", range(10**6)), 1.0).reporter()
report(0), answer(0)  # more is drawn ahead than is used
read, write = os.pipe()
child = os.fork()
seen = repr([report(3), answer(3), report(5), answer(5)]).encode()
if child == 0:
    os.write(write, seen)
    os._exit(0)
os.waitpid(child, 0)
assert os.read(read, 10_000) != seen, "parent and child drew the same"
"""


@pytest.mark.skipif(sys.platform == "win32", reason="no fork on Windows")
def test_a_forked_child_does_not_repeat_its_parent():
    done = subprocess.run([sys.executable, "-c", FORK], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_numbers_drawn_ahead_are_not_copied_to_other_processes():
    report = RESPONSES["RR"].reporter()
    report("a")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of pickling itertools
        with pytest.raises(TypeError, match=r"copied to another process|cannot pickle"):
            cloudpickle.dumps(report)


def test_a_stream_draws_only_when_it_is_used_up():
    calls = []
    items = stream(lambda: calls.append(1) or [len(calls)] * 3)
    assert not calls
    assert [next(items) for _ in range(7)] == [1, 1, 1, 2, 2, 2, 3]
