"""PSE by nearest neighbours, its convergence, and DET curves."""

import numpy as np
import pytest
from scipy import special, stats

import anonbayes as ab
from anonbayes.errors import AnonbayesError
from anonbayes.pie.system_entropy import log_ratios


def plain_log_ratios(first, second, k):
    """Log ratio at each point from counts and farthest distances in its radius, by all pairs."""
    out = []
    for i, x in enumerate(first):
        own = np.sort(np.abs(np.delete(first, i) - x))
        other = np.sort(np.abs(second - x))
        radius = max(own[k - 1], other[k - 1])
        own, other = own[own <= radius], other[other <= radius]
        if own[-1] == 0 or other[-1] == 0:  # an atom: shares within the same radius
            ratio = np.log(len(own)) - np.log(len(other))
        else:
            ratio = special.digamma(len(own)) - special.digamma(len(other))
            ratio += np.log(other[-1] / own[-1])
        out.append(ratio + np.log(len(second) / (len(first) - 1)))
    return np.array(out)


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("digits", [None, 1, 0])
def test_walk_agrees_with_all_pairs(k, digits):
    rng = np.random.default_rng(k)
    first, second = np.sort(rng.normal(0.5, 1, 60)), np.sort(rng.normal(0, 1, 80))
    if digits is not None:
        first, second = first.round(digits), second.round(digits)
    plain = plain_log_ratios(first, second, k)
    np.testing.assert_allclose(log_ratios(first, second, k), plain, atol=1e-12)


@pytest.mark.parametrize("shift", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("k", [1, 5])
def test_divergence_of_normals(shift, k):
    rng = np.random.default_rng(7)
    bits = ab.pie.system_entropy(rng.normal(shift, 1, 20_000), rng.normal(0, 1, 200_000), k=k)
    truth = shift**2 / 2 * np.log2(np.e)
    assert abs(bits - truth) < 4 * bits.standard_error + 0.01
    assert bits.standard_error < 0.07
    distances = ab.pie.system_entropy(-rng.normal(shift, 1, 20_000), -rng.normal(0, 1, 200_000))
    assert abs(distances - truth) < 4 * distances.standard_error + 0.01


def test_large_divergences_are_underestimated_and_it_shows():
    rng = np.random.default_rng(3)
    bits = ab.pie.system_entropy(rng.normal(3, 1, 1000), rng.normal(0, 1, 1000))
    truth = 4.5 * np.log2(np.e)
    assert bits < truth - bits.standard_error
    assert bits.beyond > 0.15 and "too small" in str(bits)
    curve = ab.pie.convergence(rng.normal(3, 1, 20_000), rng.normal(0, 1, (20_000, 20)))
    assert (np.diff(curve["bits"]) > -0.2).all()
    assert abs(curve["bits"].iloc[-1] - truth) < abs(curve["bits"].iloc[0] - truth)


@pytest.mark.parametrize("users", [False, True])
def test_standard_errors_hold_what_they_promise(users):
    """Impostors count too: errors from genuine scores alone held the truth in 65 to 90 %."""
    rng = np.random.default_rng(11)
    truth, runs, held = 0.5 * np.log2(np.e), 200, 0
    for seed in range(runs):
        # Half of what is seen of a user is hers, in genuine and in impostor scores alike.
        own = rng.normal(0, 0.7, 300) if users else 0.0
        noise = np.sqrt(1 - 0.49) if users else 1.0
        genuine = own + 1 + noise * rng.normal(0, 1, 300)
        impostor = np.transpose(own + noise * rng.normal(0, 1, (4, 300)))
        bits = ab.pie.system_entropy(genuine, impostor, seed=seed)
        held += abs(bits - truth) <= 2 * bits.standard_error
    assert 0.9 <= held / runs + 1.96 * np.sqrt(0.95 * 0.05 / runs)
    assert held / runs > 0.91


def test_scores_that_do_not_meet_give_no_bits():
    """They used to give 0.0 +- 0.0 bits."""
    rng = np.random.default_rng(2)
    for genuine, impostor in (
        (np.ones(50), np.zeros(500)),
        (rng.normal(40, 1, 100), rng.normal(0, 1, 1000)),
        (np.repeat([1.0, 3.0], 20), np.repeat([0.0, 2.0], 90)),
    ):
        with pytest.raises(AnonbayesError, match=r"genuine.*impostor"):
            ab.pie.system_entropy(genuine, impostor)
        assert ab.pie.det_curve(genuine, impostor).frr.min() == 0.0


def test_discrete_scores_give_the_divergence_of_their_frequencies():
    rng = np.random.default_rng(4)
    support = np.arange(11)
    p, q = stats.binom.pmf(support, 10, 0.5), stats.binom.pmf(support, 10, 0.3)
    bits = ab.pie.system_entropy(rng.binomial(10, 0.5, 20_000), rng.binomial(10, 0.3, 200_000))
    assert abs(bits - (p * np.log2(p / q)).sum()) < 4 * bits.standard_error
    same = ab.pie.system_entropy(np.zeros(100), np.zeros(1000))
    assert same == pytest.approx(0.0, abs=1e-12)


def test_atoms_beside_a_continuous_part():
    rng = np.random.default_rng(5)

    def mixed(weight, n):
        return np.where(rng.random(n) < weight, 0.0, rng.uniform(1, 2, n))

    bits = ab.pie.system_entropy(mixed(0.6, 20_000), mixed(0.2, 200_000))
    truth = 0.6 * np.log2(3) + 0.4 * np.log2(0.5)
    assert abs(bits - truth) < 4 * bits.standard_error


def test_likelihood_scores_say_all_there_is():
    """PIE Prop. 4: with the likelihood as score, PSE reaches I(U;Y), which Theorem 11 bounds."""
    size, n = 50, 4000
    channel = ab.RandomizedResponse(ab.IntegerDomain(size), 3.0)
    held = np.arange(n) % size
    joint = np.zeros((n, size))
    joint[np.arange(n), held] = 1 / n
    bits = ab.pie.information(joint, channel)
    reports = channel.release_codes(held, seed=2)
    attack = ab.reidentify.markov_attack(reports[:, None], held[:, None])
    found = attack.system_entropy()
    assert abs(found - bits) < 4 * found.standard_error
    assert found < ab.pie.bound(channel, n) + 4 * found.standard_error
    assert bits < ab.pie.bound(channel, n, kind="exact") + 1e-12


def test_rates_by_counting():
    rng = np.random.default_rng(6)
    genuine, impostor = rng.integers(2, 12, 200) / 4, rng.integers(0, 9, 500) / 4
    curve = ab.pie.det_curve(genuine, impostor)
    for t, far, frr in curve.to_frame().itertuples(index=False):
        assert far == np.mean(impostor >= t) and frr == np.mean(genuine < t)
    assert (np.diff(curve.far) <= 0).all() and (np.diff(curve.frr) > 0).all()
    mirrored = ab.pie.det_curve(-genuine, -impostor, similarity=False)
    np.testing.assert_allclose(mirrored.far, curve.far)


def test_equal_error_rate_of_normals():
    rng = np.random.default_rng(8)
    curve = ab.pie.det_curve(rng.normal(2, 1, 50_000), rng.normal(0, 1, 100_000))
    truth = stats.norm.cdf(-1)
    assert curve.equal_error_rate == pytest.approx(truth, abs=4 * np.sqrt(truth / 50_000))
    perfect = ab.pie.det_curve([2.0, 3.0], [0.0, 1.0])
    assert perfect.equal_error_rate == 0.0
    assert ab.pie.det_curve([0.0, 0.5], [1.0, 2.0]).equal_error_rate > 0.5


def test_plots_are_drawn_with_labels():
    rng = np.random.default_rng(9)
    genuine, impostor = rng.normal(2, 1, 3000), rng.normal(0, 1, (3000, 3))
    axes = ab.pie.det_curve(genuine, impostor).plot(label="matcher")
    assert axes.get_xlabel() == "False acceptance rate" and axes.get_xscale() == "log"
    assert "equal error rate" in axes.get_legend().get_texts()[0].get_text()
    assert 100 < len(axes.lines[0].get_xdata()) <= 600
    axes = ab.pie.plot_convergence(ab.pie.convergence(genuine, impostor, users=[500, 3000]))
    assert axes.get_ylabel() == "System entropy, PSE (bits)"


def test_bad_scores_are_named():
    with pytest.raises(AnonbayesError, match="genuine score 1 is -inf"):
        ab.pie.system_entropy([1.0, -np.inf, 2.0], [1.0, 2.0])
    three = [1.0, 2.0, 3.0]
    for call, words in (
        (lambda: ab.pie.det_curve([1.0], []), "no impostor scores"),
        (lambda: ab.pie.det_curve(["a"], [1.0]), "genuine scores must be numbers"),
        (lambda: ab.pie.det_curve([[1.0], [1.0, 2.0]], [1.0]), "rows of equal length"),
        (lambda: ab.pie.system_entropy(three, three, k=3), "k=3"),
        (lambda: ab.pie.system_entropy(three, three, k="1"), "k='1'"),
        (lambda: ab.pie.system_entropy(three, None), "impostor scores? "),
        (lambda: ab.pie.convergence(three, three, users=[7]), "users="),
        (lambda: ab.pie.convergence(three, three, users=["a"]), "users must be numbers"),
        (lambda: ab.pie.convergence(three, three, users=[]), "users="),
        (lambda: ab.pie.convergence(three, three, repeats=0), "repeats=0"),
        (lambda: ab.pie.convergence(three, ["x"]), "impostor scores must be numbers"),
    ):
        with pytest.raises(AnonbayesError, match=words):
            call()
