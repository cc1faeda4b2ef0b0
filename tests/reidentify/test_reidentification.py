"""Attacks on bit reports, against enumeration; Theorem 1 of OneID, kept and broken on purpose."""

import numpy as np
import pytest

import anonbayes as ab

DOMAIN = ab.Domain("x", list("abcde"))


def bayes_by_enumeration(channel, counts):
    """Largest posterior probability of a user for every possible report, and its probability."""
    q = channel.matrix()
    evidence = counts @ q
    possible = evidence > 0
    accuracy = q[counts > 0].max(axis=0)[possible] / evidence[possible]
    return accuracy, evidence[possible] / counts.sum()


def random_case(seed):
    rng = np.random.default_rng(seed)
    size = int(rng.integers(2, 7))
    n = int(rng.integers(20, 400))
    counts = rng.multinomial(n, rng.dirichlet(np.full(size, 0.5)))
    gamma = float(np.exp(rng.uniform(np.log(1.3), np.log(n / 2))))
    return ab.Domain("x", range(size)), counts, gamma


@pytest.mark.parametrize("notion", ["oneid", "minid"])
def test_theorem_1_on_many_populations_and_all_their_reports(notion):
    """OneID Theorem 1 and Prop. 4; the bound is met with equality by OneID's optimum."""
    met = 0
    for seed in range(120):
        domain, counts, gamma = random_case(seed)
        tuned = ab.budgets.from_counts(domain, gamma, counts)
        channel = ab.InputDiscriminativeUE.optimal(domain, tuned, notion, as_published=True)
        accuracy, _ = bayes_by_enumeration(channel, counts)
        assert accuracy.max() <= tuned.bound * (1 + 1e-9)
        worst = ab.reidentify.worst_report(channel, counts)
        assert worst.accuracy == pytest.approx(accuracy.max(), rel=1e-9)
        if notion == "oneid" and np.isfinite(tuned.epsilon[counts > 0]).any():
            assert accuracy.max() == pytest.approx(tuned.bound, rel=1e-6)
            met += 1
    assert met > 80 or notion == "minid"


def test_budgets_a_little_too_large_break_theorem_1():
    """Two per cent more than allowed on the rarest held value, and the attack notices."""
    broken = 0
    for seed in range(120):
        domain, counts, gamma = random_case(seed)
        tuned = ab.budgets.from_counts(domain, gamma, counts)
        exposed = (counts > 0) & np.isfinite(tuned.epsilon)
        if not exposed.any():
            continue
        x = np.flatnonzero(exposed)[np.argmin(counts[exposed])]
        budgets = tuned.epsilon.copy()
        budgets[x] *= 1.02
        channel = ab.InputDiscriminativeUE.optimal(domain, budgets, as_published=True)
        accuracy, _ = bayes_by_enumeration(channel, counts)
        assert accuracy.max() > tuned.bound * (1 + 1e-6)
        assert ab.reidentify.worst_report(channel, counts).accuracy > tuned.bound * (1 + 1e-6)
        broken += 1
    assert broken > 80


def test_theorem_1_for_channels_that_are_not_optimal():
    """Any bits with noise: the budgets that they use up give a gamma that bounds the attack."""
    rng = np.random.default_rng(3)
    for _ in range(200):
        counts = rng.multinomial(100, rng.dirichlet(np.ones(5)))
        b = rng.uniform(0.05, 0.5, 5)
        channel = ab.InputDiscriminativeUE(DOMAIN, b + (0.98 - b) * rng.uniform(0.05, 1, 5), b)
        own, other = channel.log_ratios()
        most = np.array([own[x] + np.delete(other, x).max() for x in range(5)])
        e, held = np.exp(most[counts > 0]), counts[counts > 0]
        gamma = (100 * e / (100 - held + held * e)).max()
        worst = ab.reidentify.worst_report(channel, counts).accuracy
        assert worst <= gamma / 100 * (1 + 1e-9)


def test_no_attack_is_right_more_often_than_the_best_guess():
    counts = np.array([1, 2, 5, 12, 80])
    values = np.repeat(DOMAIN.values, counts)
    tuned = ab.budgets.from_counts(DOMAIN, 5, counts)
    channel = ab.InputDiscriminativeUE.optimal(DOMAIN, tuned)
    senders = np.tile(np.arange(100), 300)
    reports = channel.release(values[senders], seed=1)
    simple = ab.reidentify.budget_attack(DOMAIN, reports, values, tuned, senders=senders, seed=3)
    accuracy, probability = bayes_by_enumeration(channel, counts)
    named = ab.reidentify.rate(simple, bound=tuned.bound)
    assert named.share <= accuracy @ probability + 3 * named.standard_error
    assert named.share <= tuned.bound
    # Counting lucky guesses gives the same rate, with more noise.
    counted = ab.reidentify.rate(simple.guess, senders)
    assert counted.share == pytest.approx(named.share, abs=4.5 * counted.standard_error)
    assert counted.standard_error > named.standard_error


def test_budget_attack_by_hand():
    users = ["a", "b", "b", "c", "d"]
    epsilon = [1.0, 2.0, 2.0, 9.0, 9.0]
    reports = ab.BitReports.from_dense(
        [
            [1, 0, 0, 0, 1],  # e has the largest budget but no holder: a is named, rightly
            [1, 1, 1, 0, 0],  # b and c tie: one of three users
            [0, 0, 1, 0, 0],  # c only: wrong
            [0, 0, 0, 0, 0],  # nothing: anyone
            [1, 1, 1, 1, 0],  # d wins, rightly
        ]
    )
    attack = ab.reidentify.budget_attack(DOMAIN, reports, users, epsilon, seed=1)
    assert attack.success == pytest.approx([1, 1 / 3, 0, 1 / 5, 1])
    assert attack.guess[[0, 2, 4]].tolist() == [0, 3, 4]
    named = {
        int(ab.reidentify.budget_attack(DOMAIN, reports, users, epsilon, seed=s).guess[1])
        for s in range(40)
    }
    assert named == {1, 2, 3}


def place_case(popular):
    size, gamma = 400, 20
    domain = ab.Domain("place", range(size))
    counts = np.concatenate([popular, np.full(100, 5), np.ones(size - 102, int)])
    sensitive = range(200, 260)
    tuned = ab.budgets.worst_case(domain, int(counts.sum()), gamma, sensitive=sensitive)
    channel = ab.InputDiscriminativeUE.optimal(domain, tuned)
    attack = ab.reidentify.expected_budget_attack(channel, counts, tuned, sensitive=sensitive)
    assert ab.reidentify.worst_report(channel, counts).accuracy <= tuned.bound * (1 + 1e-9)
    return domain, counts, sensitive, tuned, attack


def test_high_low_protection_betrays_outliers_and_tuned_budgets_do_not():
    """OneID Figs. 5 and 6 in small: a non-sensitive bit proves its value, and its only holder."""
    domain, counts, sensitive, tuned, attack = place_case([30, 10])
    assert attack.rate <= tuned.bound and attack.outlier_rate <= tuned.bound
    high_low = ab.UtilityOptimizedRAPPOR(domain, 1.0, sensitive=sensitive)
    infinite = np.where(np.isin(np.arange(len(domain)), sensitive), 1.0, np.inf)
    attack = ab.reidentify.expected_budget_attack(high_low, counts, infinite, sensitive=sensitive)
    assert attack.outlier_rate == pytest.approx(1.0)
    assert ab.reidentify.worst_report(high_low, counts) == ab.reidentify.WorstReport(1.0, 102, True)


def test_the_theorem_bounds_reports_not_groups_of_senders():
    """Whoever picks the senders by their value knows more than the report says.

    Where two values hold most users, an attacker who does not see them raised names one of few
    users, and outliers are among those: their own rate exceeds the bound that every single report
    keeps.
    """
    *_, tuned, attack = place_case([3000, 1000])
    assert attack.rate <= tuned.bound < 0.9 * attack.outlier_rate


def test_the_worst_report_may_be_the_silent_one():
    """Where everybody else's bit shows almost surely, silence betrays."""
    counts = np.array([2, 5, 5, 5, 5])
    quiet = ab.InputDiscriminativeUE(DOMAIN, [0.2, 0.99, 0.99, 0.99, 0.99], 0.19)
    worst = ab.reidentify.worst_report(quiet, counts)
    accuracy, _ = bayes_by_enumeration(quiet, counts)
    assert worst.accuracy == pytest.approx(accuracy.max()) and worst.value == "a"
    always = ab.InputDiscriminativeUE(DOMAIN, [0.2, 1.0, 1.0, 1.0, 1.0], [0.19, 0, 0, 0, 0])
    assert ab.reidentify.worst_report(always, counts).accuracy == pytest.approx(0.5)


def test_bad_input_is_named():
    reports = ab.BitReports.from_dense([[1, 0, 0, 0, 0]])
    for call, words in (
        (lambda: ab.reidentify.budget_attack(DOMAIN, reports, ["a", "b"], 1.0), "senders="),
        (
            lambda: ab.reidentify.budget_attack(DOMAIN, reports, ["a", "b"], 1.0, senders=[2]),
            "one of the 2 users",
        ),
        (
            lambda: ab.reidentify.budget_attack(ab.Domain("y", range(3)), reports, [1], 1.0),
            "5 bits",
        ),
        (lambda: ab.reidentify.budget_attack(DOMAIN, reports, [], 1.0), "no users"),
        (
            lambda: ab.reidentify.budget_attack(DOMAIN, reports, ["a"], 1.0, senders=["a"]),
            "must name one",
        ),
        (lambda: ab.reidentify.rate([1, 2]), "truth="),
        (lambda: ab.reidentify.rate([1, 2], [1]), "guesses for"),
        (lambda: ab.reidentify.rate([1, 2], [1, 2], where=[0, 1]), "mask"),
        (lambda: ab.reidentify.rate([1, 2], [1, 2], where=[False, False]), "no reports"),
        (
            lambda: ab.reidentify.worst_report(ab.RAPPOR(DOMAIN, 1.0), [0, 0, 0, 0, 0]),
            "at least one",
        ),
    ):
        with pytest.raises(ab.AnonbayesError, match=words):
            call()
