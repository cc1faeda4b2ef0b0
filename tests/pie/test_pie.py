"""Personal information entropy: exact bits, bounds, errors, budgets."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse, stats

import anonbayes as ab
from anonbayes.errors import AnonbayesError, ChannelError
from anonbayes.pie.information import divergence_terms, excess

JOINT = np.array([[0.20, 0.05, 0.05], [0.10, 0.30, 0.30]])
# PIE Fig. 4: users and places of the check-ins.
N, K = 1_370_637, 10_500_393


def response(size, epsilon):
    return ab.RandomizedResponse(ab.IntegerDomain(size), epsilon)


def entropy(p):
    p = np.asarray(p).ravel()
    p = p[p > 0]
    return -(p * np.log2(p)).sum()


def plain_information(joint, q):
    """``H(Y) - H(Y|U)`` as in a textbook."""
    users = joint.sum(axis=1)
    rows = (joint / users[:, None]) @ q
    return entropy(users @ rows) - sum(w * entropy(r) for w, r in zip(users, rows, strict=True))


def random_joint(rng, n, k):
    kind = rng.integers(3)
    if kind == 0:
        return rng.dirichlet(np.full(n * k, 0.1)).reshape(n, k)
    if kind == 1:  # every user holds one value
        joint = np.zeros((n, k))
        joint[np.arange(n), rng.integers(0, k, n)] = rng.dirichlet(np.ones(n))
        return joint
    return rng.dirichlet(np.ones(n))[:, None] * rng.dirichlet(np.full(k, 0.3), size=n)


def test_reference_values(golden):
    case = golden["pie_joint"]
    channel = response(3, case["eps"])
    bits = ab.pie.information(JOINT, channel)
    assert bits == pytest.approx(case["I_UY"], rel=1e-12)
    assert bits.user_value == pytest.approx(case["I_UX"], rel=1e-12)
    assert ab.pie.contraction(channel) == pytest.approx(case["theta_RR"], rel=1e-12)
    assert ab.pie.contraction(channel) * bits.user_value == pytest.approx(case["thm11"], rel=1e-12)
    small = golden["pie_alpha"]["n5_K3_eps1"]
    assert ab.pie.bound(channel, 5, kind="theorem") == pytest.approx(small["thm11"], rel=1e-12)
    assert ab.pie.bound(channel, 5, kind="exact") == pytest.approx(small["exact"], rel=1e-12)
    assert ab.pie.bound(channel, 5) == ab.pie.bound(channel, 5, kind="exact")
    for error, bits_allowed in golden["pie_bayes_error_alpha_bits_n1e6"].items():
        allowed = ab.pie.information_for(float(error), 10**6)
        assert allowed == pytest.approx(bits_allowed, rel=1e-12)
        assert ab.pie.bayes_error(allowed, 10**6) == pytest.approx(float(error), rel=1e-12)


def test_reference_value_of_hashing_with_all_hash_functions(golden):
    case = golden["pie_joint"]
    channel = ab.LocalHashing(3, g=2, epsilon=1.0)
    functions = np.indices((2,) * 3).reshape(3, -1)
    q = np.concatenate(
        [np.where(functions == y, channel.own, channel.noise) for y in (0, 1)], axis=1
    )
    bits = ab.pie.information(JOINT, q / functions.shape[1])
    assert bits == pytest.approx(case["GLH_g2_all_hashes_I"], rel=1e-12)
    assert channel.theta * bits.user_value == pytest.approx(case["thm13"], rel=1e-12)


def test_figure_4():
    for epsilon, general, theorem in ((0.1, 0.014, 2.0e-7), (1.0, 1.4, 3.3e-6), (10.0, 14, 0.043)):
        channel = response(K, epsilon)
        assert ab.pie.bound(channel, N, kind="general") == pytest.approx(general, rel=0.04)
        assert ab.pie.bound(channel, N, kind="theorem") == pytest.approx(theorem, rel=0.025)
    assert ab.pie.bound(response(K, 1.0), N, kind="exact") == pytest.approx(1.374e-7, rel=1e-3)
    theorem = ab.pie.bound(response(K, 1.0), N, kind="theorem")
    assert theorem == pytest.approx(3.336e-6, rel=1e-3)


def test_errors_of_the_paper_in_bits():
    assert ab.pie.information_for(0.8, 10**6) == pytest.approx(2.986, abs=5e-4)
    assert ab.pie.information_for(0.5, 10**6) == pytest.approx(8.966, abs=5e-4)
    assert ab.pie.bayes_error(np.log2(5), 10**8) == pytest.approx(0.875, abs=5e-4)
    half = ab.pie.bayes_error(0.5 * np.log2(N), N)
    assert half == pytest.approx(0.4509, abs=5e-5)  # theta = 0.5 does not guarantee 0.5


@pytest.mark.parametrize("channel", [
    ab.RandomizedResponse(ab.Domain("x", range(4)), 1.2),
    ab.UtilityOptimizedRR(ab.Domain("x", range(4)), 1.2, sensitive=[0, 1]),
    ab.LocalHashing(4, g=5, epsilon=1.2),
    ab.UnaryEncoding.optimal(ab.Domain("x", range(4)), 1.2),
], ids=lambda c: type(c).__name__)  # fmt: skip
def test_sparse_formulas_agree_with_the_textbook(channel):
    rng = np.random.default_rng(3)
    for _ in range(20):
        joint = random_joint(rng, 6, 4)
        joint = joint[joint.sum(axis=1) > 0]
        bits = ab.pie.information(sparse.csr_array(joint), channel)
        q = channel.matrix()
        assert bits == pytest.approx(plain_information(joint, q), abs=1e-12)
        values = np.diag(joint.sum(axis=0))
        assert bits.value_report == pytest.approx(
            plain_information(values[values.sum(axis=1) > 0], q), abs=1e-12
        )
        assert bits <= min(bits.user_value, bits.value_report) + 1e-12  # Prop. 9


def test_theorems_11_and_13_hold_and_half_of_theta_does_not():
    rng = np.random.default_rng(11)
    bits, limits = [], []
    for i in range(2400):
        n, k = int(rng.integers(2, 8)), int(rng.integers(2, 7))
        epsilon = float(rng.uniform(0.05, 8))
        joint = random_joint(rng, n, k)
        channel = (
            response(k, epsilon)
            if i % 2
            else ab.LocalHashing.invertible(k, epsilon, at_least=int(rng.integers(2, 12)))
        )
        bits.append(ab.pie.information(joint, channel))
        limits.append(ab.pie.contraction(channel) * bits[-1].user_value)
    numbers = np.array(bits, dtype=float)
    assert (numbers <= np.array(limits) + 1e-12).all()
    assert np.mean(numbers > 0.5 * np.array(limits) + 1e-12) > 0.05


def test_theorem_13_holds_for_sampled_hash_functions():
    rng = np.random.default_rng(5)
    for _ in range(4):
        channel = ab.LocalHashing(6, g=3, epsilon=float(rng.uniform(0.5, 6)))
        bits = ab.pie.information(random_joint(rng, 5, 6), channel)
        assert 0 <= bits <= channel.theta * bits.user_value + 1e-12
        assert bits.standard_error < 0.1


def test_contraction_of_any_channel_bounds_random_joints():
    rng = np.random.default_rng(8)
    for _ in range(200):
        k = int(rng.integers(2, 6))
        domain = ab.Domain("x", range(k))
        miss = rng.uniform(0, 0.9, k) * (rng.random(k) < 0.8)
        bits = ab.BitChannel(domain, miss + (1 - miss) * rng.random(k), miss)
        theta = ab.pie.contraction(bits)
        assert theta == pytest.approx(1 - bits.matrix().min(axis=0).sum(), abs=1e-12)
        found = ab.pie.information(random_joint(rng, 5, k), bits)
        assert found <= theta * found.user_value + 1e-12
        total = bits.total_maximum()
        assert total == pytest.approx(bits.matrix().max(axis=0).sum(), rel=1e-12)


@pytest.mark.parametrize("n, k, epsilon", [(5, 3, 1.0), (3, 6, 2.0), (2, 9, 0.3), (7, 7, 4.0)])
def test_exact_supremum_is_reached_and_not_exceeded(n, k, epsilon):
    rng = np.random.default_rng(1)
    for channel in (response(k, epsilon), ab.LocalHashing.invertible(k, epsilon, at_least=10)):
        supremum = ab.pie.bound(channel, n, kind="exact")
        used = min(n, k)
        best = np.zeros((n, k))
        best[np.arange(used), np.arange(used)] = 1 / used
        assert ab.pie.information(best, channel) == pytest.approx(supremum, rel=1e-12)
        for _ in range(200):
            assert ab.pie.information(random_joint(rng, n, k), channel) <= supremum + 1e-12
        assert supremum == ab.pie.bound(channel, n) < ab.pie.bound(channel, n, kind="theorem")


def test_exact_supremum_of_other_channels_is_the_capacity():
    domain = ab.Domain("x", range(4))
    channel = response(4, 1.3)
    assert ab.pie.capacity(channel.matrix()) == pytest.approx(
        ab.pie.bound(channel, 4, kind="exact"), abs=1e-9
    )
    bits = ab.UnaryEncoding.optimal(domain, 1.3)
    assert ab.pie.bound(bits, 4, kind="exact") < ab.pie.bound(bits, 4)
    others = [ab.pie.bound(bits, 4, kind=kind) for kind in ("theorem", "general")]
    assert ab.pie.bound(bits, 4) == min(others)
    merging = ab.LocalHashing(4, 1.0, g=2)
    assert ab.pie.bound(merging, 9) == ab.pie.bound(merging, 9, kind="theorem")
    with pytest.raises(ChannelError, match="theorem"):
        ab.pie.bound(bits, 3, kind="exact")
    with pytest.raises(ChannelError, match="invertible"):
        ab.pie.bound(ab.LocalHashing(4, 1.0, g=2), 9, kind="exact")


def test_several_reports_compose():
    """Theorem 12: two reports on correlated values say at most twice the bound."""
    channel = response(3, 2.0)
    q = channel.matrix()
    rng = np.random.default_rng(2)
    both = np.kron(q, q)  # reports on (X1, X2)
    worst = 0.0
    for _ in range(300):
        joint = random_joint(rng, 6, 9)
        worst = max(worst, float(ab.pie.information(joint, both)))
    assert worst <= ab.pie.bound(channel, 6, t=2, kind="exact")
    assert worst > ab.pie.bound(channel, 6, t=1, kind="exact")
    assert ab.pie.bound(channel, 6, t=2) == pytest.approx(2 * ab.pie.bound(channel, 6))
    assert ab.pie.bound(channel, 6, t=50) == pytest.approx(np.log2(6))


def test_bayes_error_bounds_the_best_guess():
    rng = np.random.default_rng(4)
    for _ in range(300):
        joint = random_joint(rng, 40, 30)
        joint = joint[joint.sum(axis=1) > 0]
        channel = response(30, float(rng.uniform(0, 6)))
        bits = ab.pie.information(joint, channel)
        truth = 1 - (joint @ channel.matrix()).max(axis=0).sum()
        users = joint.sum(axis=1)
        assert ab.pie.bayes_error(bits, prior=users) <= truth + 1e-12
        even = joint / users[:, None] / len(users)
        bits = ab.pie.information(even, channel)
        truth = 1 - (even @ channel.matrix()).max(axis=0).sum()
        assert ab.pie.bayes_error(bits, len(users)) <= truth + 1e-9


@pytest.mark.parametrize("kind", ["best", "theorem", "exact", "general"])
@pytest.mark.parametrize("make", [
    lambda e: response(1000, e),
    lambda e: ab.LocalHashing.invertible(1000, e),
    lambda e: ab.UnaryEncoding.optimal(ab.Domain("x", range(5)), e),
], ids=["RR", "GLH", "OUE"])  # fmt: skip
def test_chosen_budget_meets_the_error_and_no_larger_one_does(make, kind):
    n = 100_000
    error = 0.9 if len(make(1.0).domain) > 5 else 0.93
    found = ab.pie.choose(make(1.0), n, error, kind=kind)
    assert found.channel is not None and found.channel.epsilon == pytest.approx(found.epsilon)
    assert found.error >= error - 1e-9
    larger = ab.pie.bound(make(found.epsilon * 1.001), n, kind=kind)
    assert ab.pie.bayes_error(larger, n) < error
    assert ab.pie.choose(make, n, error, kind=kind).epsilon == pytest.approx(found.epsilon)


def test_bounds_by_budget_are_the_bounds():
    channel = ab.LocalHashing.invertible(1000, 1.0)
    frame = ab.pie.bounds_by_budget(channel, 5000, [0.5, 3.0, 9.0], t=2)
    for epsilon in frame.index:
        made = ab.LocalHashing(1000, epsilon, g=channel.g)
        for kind in ("general", "theorem", "exact"):
            bits = ab.pie.bound(made, 5000, t=2, kind=kind)
            assert frame.loc[epsilon, kind] == pytest.approx(bits, rel=1e-12)
            assert frame.loc[epsilon, f"error_{kind}"] == ab.pie.bayes_error(bits, 5000)
    axes = ab.pie.plot_bounds(frame)
    assert axes.get_xlabel() == "Privacy budget epsilon" and len(axes.lines) == 3


def test_small_domains_need_no_channel_and_some_errors_are_out_of_reach():
    found = ab.pie.choose(response(5, 1.0), 10**8, 0.87)
    assert found.channel is None and np.isinf(found.epsilon) and found.error >= 0.87
    with pytest.raises(AnonbayesError, match="choose a smaller one"):
        ab.pie.choose(response(5, 1.0), 1000, 0.95)


def test_bad_input_is_named():
    with pytest.raises(AnonbayesError, match="sums to"):
        ab.pie.information([[0.5, 0.4]], response(2, 1.0))
    with pytest.raises(AnonbayesError, match="3 columns"):
        ab.pie.information(JOINT, response(2, 1.0))
    with pytest.raises(AnonbayesError, match="not a probability"):
        ab.pie.information([[1.5, -0.5]], response(2, 1.0))
    with pytest.raises(AnonbayesError, match="either n_users"):
        ab.pie.bayes_error(1.0)
    with pytest.raises(AnonbayesError, match="kind"):
        ab.pie.bound(response(2, 1.0), 10, kind="magic")
    for users in (0, 1.5, float("inf"), "many", "10", True, None):
        with pytest.raises(AnonbayesError, match="n_users"):
            ab.pie.bound(response(2, 1.0), users)
    for call, words in (
        (lambda: ab.pie.information([["a", "b"]], response(2, 1.0)), "p_ux must be numbers"),
        (lambda: ab.pie.information([[0.5], [0.2, 0.3]], response(2, 1.0)), "rows of equal length"),
        (lambda: ab.pie.information([], response(2, 1.0)), "must be a matrix"),
        (lambda: ab.pie.information([0.5, 0.5], response(2, 1.0)), "must be a matrix"),
        (lambda: ab.pie.information(JOINT, [[0.5, 0.5], [1, 0], [2, -1]]), "Row 2 of the channel"),
        (lambda: ab.pie.capacity([]), "one row per value"),
        (lambda: ab.pie.capacity([["x"]]), "must be numbers"),
        (lambda: ab.pie.capacity([[0.5, 0.5], [1.0]]), "rows of equal length"),
        (lambda: ab.pie.capacity([[np.nan, 1.0]]), "Row 0"),
        (lambda: ab.pie.capacity([0.5, 0.5]), "one row per value"),
        (lambda: ab.pie.bayes_error("1", 10), "alpha_bits='1' must be"),
        (lambda: ab.pie.bayes_error(1.0, prior="x"), "prior must be numbers"),
        (lambda: ab.pie.information_for(None, 10), "error=None must be"),
        (lambda: ab.pie.bounds_by_budget(response(2, 1.0), 5, ["a"]), "epsilons must be numbers"),
    ):
        with pytest.raises(AnonbayesError, match=words):
            call()
    with pytest.raises(ChannelError, match="no budget that could be changed"):
        domain = ab.Domain("x", range(4000))
        ab.pie.choose(ab.BitChannel(domain, 0.5, 0.2), 10**6, 0.6)


def test_columns_of_a_frame_belong_to_the_values_they_name():
    domain = ab.Domain("x", ["b", "a", "c"])
    channel = ab.UtilityOptimizedRR(domain, 1.0, sensitive=["b"])
    joint = pd.DataFrame([[0.20, 0.05, 0.05], [0.10, 0.30, 0.30]], columns=["a", "b", "c"])
    expected = ab.pie.information(joint[["b", "a", "c"]].to_numpy(), channel)
    assert float(ab.pie.information(joint, channel)) == float(expected)
    bare = joint[["b", "a", "c"]].set_axis(range(3), axis=1)
    assert float(ab.pie.information(bare, channel)) == float(expected)
    with pytest.raises(ab.AnonbayesError, match="each value of 'x' exactly once"):
        ab.pie.information(joint[["a", "b"]] / joint[["a", "b"]].sum().sum(), channel)


def test_divergences_keep_their_digits():
    assert excess([-1.0, 0.0, 1.0]) == pytest.approx([1.0, 0.0, 2 * np.log(2) - 1])
    assert excess(1e-12) == pytest.approx(5e-25)
    q, r = np.array([0.5, 0.5]), np.array([0.25, 0.75])
    assert divergence_terms(q, r).sum() == pytest.approx(stats.entropy(q, r, base=2))
