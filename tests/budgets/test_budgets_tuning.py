"""Budgets from counts, bounds, reports and posteriors."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import anonbayes as ab
from anonbayes.budgets.first_group import (
    count_quantile,
    exact_lower_counts,
    lower_counts,
    predictive_quantile,
)

DOMAIN = ab.Domain("place", ["clinic", "park", "station", "home"])
INF = float("inf")


def test_golden_budgets(golden):
    case = golden["oneid_eps"]
    ours = ab.budgets.reidentification_budget(case["c"], case["n"], case["gamma"])
    assert ours == pytest.approx([float(e) for e in case["eps"]], rel=1e-12)


def test_golden_lower_limit(golden):
    case = golden["oneid_alg1"]
    support = ab.SupportCounts(np.array([case["t"]]), case["n0"])
    a, b = np.array([case["a"]]), np.array([case["b"]])
    assert lower_counts(support, case["n"], a, b, case["alpha"]) == pytest.approx(case["c_low"])
    rate = lower_counts(support, 1, np.ones(1), np.zeros(1), case["alpha"])
    assert rate == pytest.approx(case["r_low"], rel=1e-12)


def test_exact_lower_limit_is_that_of_scipy():
    support, one = ab.SupportCounts(np.array([300]), 1000), np.ones(1)
    rate = stats.binomtest(300, 1000).proportion_ci(0.95, "exact").low
    ours = exact_lower_counts(support, 10_000, 0.5 * one, 0.01 * one, 0.025)
    assert ours == pytest.approx([10_000 * (rate - 0.01) / 0.49])


def test_the_budget_inverts_the_bound_on_the_posterior():
    """At that budget the bound (16) of the proof is gamma/n exactly."""
    n, gamma = 1000, 7.0
    counts = np.arange(1, 143)
    e = np.exp(ab.budgets.reidentification_budget(counts, n, gamma))
    finite = np.isfinite(e)
    assert finite.sum() == 142  # n/gamma = 142.9
    assert e / (e * counts + n - counts) == pytest.approx(np.full(142, gamma / n))
    assert ab.budgets.reidentification_budget([143, 1000], n, gamma).tolist() == [INF, INF]


def test_the_ends_of_gamma():
    assert ab.budgets.worst_case(DOMAIN, 50, 1).epsilon.tolist() == [0.0] * 4
    assert ab.budgets.worst_case(DOMAIN, 50, 50).epsilon == pytest.approx(np.log(50))
    # The sender is one holder, and that is enough when any report may name its sender.
    assert ab.budgets.from_prior(DOMAIN, 50, 50, 1).epsilon.tolist() == [INF] * 4


def test_worst_case_with_the_holder_is_a_little_larger():
    plain = ab.budgets.worst_case(DOMAIN, 1000, 10).epsilon
    holder = ab.budgets.from_prior(DOMAIN, 1000, 10, 1).epsilon
    assert plain == pytest.approx(np.log(10))
    assert holder == pytest.approx(np.log(10 * 999 / 990))
    assert (holder > plain).all()


def test_prior_in_every_form_and_never_more_than_the_counts_allow():
    by_value = {"station": 300, "park": 20}
    expected = [np.log(10), np.log(10 * 980 / 800), INF, np.log(10)]
    array = [0, 20, 300, 0]
    for form in (by_value, pd.Series(by_value), array):
        tuned = ab.budgets.from_prior(DOMAIN, 1000, 10, form)
        assert tuned.epsilon == pytest.approx(expected)
    counts = np.array([3, 20, 900, 77])
    assert not tuned.exceeded(counts).any()
    exact = ab.budgets.from_counts(DOMAIN, 10, counts)
    assert (exact.epsilon >= tuned.epsilon).all() and not exact.exceeded(counts).any()
    assert tuned.exceeded([3, 19, 901, 77]).tolist() == [False, True, False, False]
    assert exact.n == 1000 and exact.bound == 0.01


def test_sensitive_values_are_capped_by_every_rule():
    channel = ab.RAPPOR(DOMAIN, 1.0)
    reports = channel.release(["clinic"] * 300, seed=1)
    settings = {"sensitive": ["clinic"], "cap": 0.5}
    for tuned in (
        ab.budgets.worst_case(DOMAIN, 300, 10, **settings),
        ab.budgets.from_prior(DOMAIN, 300, 10, {"clinic": 300}, **settings),
        ab.budgets.from_counts(DOMAIN, 10, {"clinic": 300}, **settings),
        ab.budgets.from_confidence(DOMAIN, 300, 10, reports, channel, **settings),
        ab.budgets.from_posterior(DOMAIN, 300, 10, reports, channel, **settings),
    ):
        assert tuned.epsilon[0] == 0.5 and (tuned.epsilon[1:] > np.log(9.5) - 1e-2).all()
        assert tuned.sensitive.tolist() == [True, False, False, False]


def test_sensitive_values_may_be_given_as_a_mask():
    mask = np.array([True, False, False, True])
    named = ab.budgets.worst_case(DOMAIN, 100, 10, sensitive=["clinic", "home"])
    masked = ab.budgets.worst_case(DOMAIN, 100, 10, sensitive=mask)
    assert masked.epsilon.tolist() == named.epsilon.tolist()
    with pytest.raises(ab.AnonbayesError):  # too short for a mask, and no values either
        ab.budgets.worst_case(DOMAIN, 100, 10, sensitive=mask[:3])


def test_only_simultaneous_limits_keep_the_bound_of_thousands_of_values():
    """Among thousands of rare values Wilson's limit is often too high; the others are not."""
    rng = np.random.default_rng(9)
    size, n = 3000, 20_000
    domain = ab.Domain("x", range(size))
    counts = rng.multinomial(n, (w := 1 / np.arange(5, size + 5)) / w.sum())
    channel = ab.InputDiscriminativeUE.optimal(domain, np.log(100))
    support = channel.simulate(rng.multivariate_hypergeometric(counts, n // 10), seed=rng)
    settings = (domain, n, 100, support, channel)
    exceeded = [
        int(tuned.exceeded(counts).sum())
        for tuned in (
            ab.budgets.from_confidence(*settings, coverage="pointwise"),
            ab.budgets.from_confidence(*settings),
            ab.budgets.from_posterior(*settings),
        )
    ]
    assert exceeded[0] > 20 and exceeded[1:] == [0, 0]


def test_renderings():
    tuned = ab.budgets.from_prior(DOMAIN, 1000, 10, {"station": 300}, sensitive=["clinic"])
    assert "1 infinite, 1 capped, bound 10/1000" in repr(tuned)
    assert tuned.to_series()["station"] == INF and len(tuned) == 4
    assert "station" in tuned._repr_html_()
    channel = ab.InputDiscriminativeUE.optimal(DOMAIN, tuned)
    assert channel.satisfies(ab.OneID(tuned)).holds and "1 infinite" in repr(channel.notion)
    with pytest.raises(ab.AnonbayesError, match="tuned for"):
        ab.InputDiscriminativeUE.optimal(ab.Domain("other", range(4)), tuned)


def test_confidence_is_the_worst_case_without_evidence_and_grows_with_it():
    channel = ab.InputDiscriminativeUE.optimal(DOMAIN, 3.0)
    few, many = (
        ab.SupportCounts(np.array(n0 * channel.support([0, 0.1, 0.9, 0]), dtype=int), n0)
        for n0 in (100, 10_000)
    )
    n = 100_000
    less, more = (
        ab.budgets.from_confidence(DOMAIN, n, 20, support, channel) for support in (few, many)
    )
    # A twentieth of gamma is set aside for limits that are wrong.
    assert less.epsilon[[0, 3]] == pytest.approx(np.log(20 - 0.05 * 19))
    assert (less.at_least <= more.at_least).all() and more.at_least[1] > 0.07 * n
    stricter = ab.budgets.from_confidence(DOMAIN, n, 20, many, channel, alpha=1e-6)
    assert (stricter.at_least <= more.at_least).all() and stricter.at_least[1] < more.at_least[1]


def brute_quantile(t, n0, a, b, n, alpha, first, total):
    """By SciPy's distributions, over every single count."""
    counts = np.arange(n + 1)
    log_p = stats.betabinom.logpmf(counts, n, first, total - first)
    log_p = log_p + stats.binom.logpmf(t, n0, b + (a - b) * counts / n)
    mass = np.exp(log_p - log_p.max())
    below = np.cumsum(mass) / mass.sum()
    return int(np.argmax(below > alpha))


@pytest.mark.parametrize("weight", [1.0, 20.0])
@pytest.mark.parametrize("n", [60, 30_000])
def test_posterior_quantile_equals_enumeration(n, weight):
    n0, alpha, size = n // 3, 0.05, 40
    t = np.linspace(0, n0, size).astype(int)
    hit, miss = np.linspace(0.5, 0.9, size), np.linspace(0.01, 0.3, size)
    ours = count_quantile(ab.SupportCounts(t, n0), n, hit, miss, alpha, weight)
    for i in range(0, size, 3):
        exact = brute_quantile(t[i], n0, hit[i], miss[i], n, alpha, weight / size, weight)
        # Counts above 4096 are taken in steps of their 512th part, from below.
        assert exact * (1 - 1.5 / 512) - 1e-9 <= ours[i] <= exact + (exact > 4096) * exact / 512


def test_bounds_are_exceeded_no_more_often_than_promised():
    """The share of values with fewer users than counted on, over populations from the prior."""
    rng = np.random.default_rng(4)
    size, n, n0, alpha = 30, 3000, 600, 0.1
    domain = ab.Domain("x", range(size))
    channel = ab.InputDiscriminativeUE.optimal(domain, np.log(20))
    held = wilson = ours = 0
    each = {"coverage": "pointwise"}
    for _ in range(150):
        counts = rng.multinomial(n, rng.dirichlet(np.full(size, 1 / size)))
        first = rng.multivariate_hypergeometric(counts, n0)
        support = channel.simulate(first, seed=rng)
        settings = (domain, n, 20, support, channel, alpha)
        present = counts > 0
        held += size
        wilson += int((ab.budgets.from_confidence(*settings, **each).at_least > counts).sum())
        ours += int((ab.budgets.from_posterior(*settings, **each).at_least > counts).sum())
        assert not (ab.budgets.from_posterior(*settings, **each).exceeded(counts) & ~present).any()
    error = np.sqrt(alpha * (1 - alpha) / held)
    assert ours / held <= alpha + 3 * error
    assert wilson / held <= alpha / 2 + 3 * error
    assert ours < wilson  # most values are empty, and the prior knows it
    assert wilson > 0


def test_a_larger_alpha_exceeds_more():
    """So that the test above can fail: quantiles in the middle of the posterior are too high."""
    rng = np.random.default_rng(5)
    one, n, n0 = np.ones(2), 1000, 100
    above = 0
    for _ in range(400):
        share = rng.beta(0.5, 0.5)
        first = rng.binomial(n0, share)
        count = first + rng.binomial(n - n0, share)
        support = ab.SupportCounts(np.array([first, n0 - first]), n0)
        above += int(count_quantile(support, n, one, 0 * one, 0.5)[0] > count)
    assert 0.3 < above / 400 < 0.6


def test_predictive_quantile_equals_simulation():
    rng = np.random.default_rng(6)
    shares = rng.beta(2, 30, (300, 1))
    quantile = predictive_quantile(shares, 500, 0.1)[0]
    drawn = rng.binomial(500, shares, size=(300, 2000))
    below, at = (drawn < quantile).mean(), (drawn <= quantile).mean()
    assert below <= 0.1 + 0.002 and at > 0.1 - 0.002


@pytest.mark.parametrize("name", ["Nat", "Dis"])
def test_from_a_posterior_of_a_table(name):
    """Shares are those of the population, summed over the sensitive values; new people are n."""
    post = ab.fit(ab.datasets.load("table1_recoded"), draws=250, seed=1, progressbar=False)
    domain, secret = post.table.domains[name], post.draws["pi_Dis"].to_numpy().reshape(-1, 5)
    shares = secret
    if name == "Nat":
        given = post.draws["pi_Nat"].transpose("chain", "draw", "Dis", "Nat").to_numpy()
        shares = np.einsum("ds,dsk->dk", secret, given.reshape(-1, 5, len(domain)))
    tuned = ab.budgets.from_posterior(domain, 1000, 4, post, coverage="pointwise")
    for k, at_least in enumerate(tuned.at_least):
        below, reached = (
            stats.binom.cdf(count, 1000, shares[:, k]).mean() for count in (at_least - 1, at_least)
        )
        assert below <= 0.05 < reached
    kept = ab.budgets.from_posterior(domain, 1000, 4, post)
    assert kept.level == pytest.approx(0.05 * 3 / 1000)
    assert (kept.at_least <= tuned.at_least).all()
    with pytest.raises(ab.AnonbayesError, match="not an attribute"):
        ab.budgets.from_posterior(ab.Domain("age", range(3)), 1000, 4, post)


def test_from_an_estimate_with_draws():
    channel = ab.RandomizedResponse(DOMAIN, 3.0)
    reports = channel.release(["station"] * 900 + ["park"] * 100, seed=1)
    estimate = channel.estimate(reports, method="bayes", draws=200, tune=50, chains=2, seed=1)
    tuned = ab.budgets.from_posterior(DOMAIN, 10_000, 50, estimate)
    assert tuned.at_least[2] > 8000 and 300 < tuned.at_least[1] < 1200
    assert (tuned.at_least < estimate.p * 10_000).all()
    with pytest.raises(ab.AnonbayesError, match="method='bayes'"):
        ab.budgets.from_posterior(DOMAIN, 10_000, 50, channel.estimate(reports, method="empirical"))


def test_from_a_survey():
    survey = {"station": 90, "park": 10}
    tuned = ab.budgets.from_posterior(DOMAIN, 10_000, 50, survey)
    share = np.array(survey["station"]) / 100
    assert 0.75 * 10_000 < tuned.at_least[2] < share * 10_000
    assert tuned.at_least[[0, 3]].tolist() == [0.0, 0.0]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda b, c: b.worst_case(DOMAIN, 100, 0.5), "gamma=0.5 must be between 1"),
        (lambda b, c: b.worst_case(DOMAIN, 100, 101), "gamma=101 must be between 1"),
        (lambda b, c: b.worst_case(DOMAIN, 0, 1), "n=0 must be a whole"),
        (lambda b, c: b.worst_case(DOMAIN, "10", 1), "n='10' must be a whole"),
        (lambda b, c: b.worst_case(DOMAIN, 10.5, 1), "n=10.5 must be a whole"),
        (lambda b, c: b.worst_case(DOMAIN, 10, "2"), "gamma='2' must be a number"),
        (
            lambda b, c: b.from_counts(DOMAIN, 2, [0.5, 0.5, 1, 0]),
            "'clinic' is 0.5, but must be an integer",
        ),
        (lambda b, c: b.reidentification_budget(["a"], 10, 2), "counts must be numbers"),
        (lambda b, c: b.reidentification_budget([11], 10, 2), "between 0 and n=10"),
        (lambda b, c: b.worst_case(DOMAIN, 100, 5, cap=-1), "cap=-1"),
        (lambda b, c: b.worst_case(DOMAIN, 100, 5, sensitive=["moon"]), "'moon' is not"),
        (lambda b, c: b.from_prior(DOMAIN, 100, 5, {"park": 200}), "at_least of 'park' is 200"),
        (lambda b, c: b.from_prior(DOMAIN, 100, 5, [1, -1, 0, 0]), "at_least of 'park' is -1"),
        (
            lambda b, c: b.from_prior(DOMAIN, 100, 5, {"park": "many"}),
            "'park'='many'",
        ),
        (lambda b, c: b.worst_case(DOMAIN, 100, 5, sensitive=None), "sensitive=None is not a list"),
        (lambda b, c: b.from_counts(DOMAIN, 5, [0, 0, 0, 0]), "sum to 0"),
        (lambda b, c: b.from_confidence(DOMAIN, 100, 5, c[1], c[0], 0.0), "alpha=0.0"),
        (lambda b, c: b.from_confidence(DOMAIN, 2, 2, c[1], c[0]), "3 reports of a first group"),
        (
            lambda b, c: b.from_confidence(ab.Domain("z", range(4)), 100, 5, c[1], c[0]),
            "The channel is for",
        ),
        (
            lambda b, c: b.from_confidence(
                DOMAIN, 100, 5, ab.SupportCounts(np.array([9, 0, 0, 0]), 5), c[0]
            ),
            "impossible for 5 reports",
        ),
        (lambda b, c: b.from_posterior(DOMAIN, 100, 5, c[1], c[0], weight=0), "weight=0"),
        (lambda b, c: b.from_posterior(DOMAIN, 100, 5, {"park": 0.5}), "The counts sum to 0.5"),
    ],
)
def test_bad_input_is_named(call, words):
    channel = ab.RAPPOR(DOMAIN, 1.0)
    with pytest.raises(ab.AnonbayesError, match=words):
        call(ab.budgets, (channel, channel.release(["park"] * 3, seed=1)))


def test_counts_by_value_are_compared_with_their_own_budgets():
    tuned = ab.budgets.from_prior(ab.Domain("x", ["a", "b"]), 100, 10, {"a": 5})
    by_frequency = pd.Series({"b": 96, "a": 4})  # as value_counts gives them
    assert tuned.exceeded(by_frequency).tolist() == [True, False]
    assert tuned.exceeded({"b": 96}).tolist() == [False, False]
