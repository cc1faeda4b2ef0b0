"""Beliefs against enumeration: exact engines to rounding, sampled ones within their own error."""

import itertools

import numpy as np
import pandas as pd
import pytest
from enumeration import enumerate_posterior
from tables import ALL, PRIOR, crossing, latent, nested

import anonbayes as ab
from anonbayes.beliefs.victims import standard_error
from anonbayes.inference.dirichlet import resolve_prior


def fitted(table, **kwargs):
    return ab.fit(table, **PRIOR, draws=8000, tune=200, seed=21, progressbar=False, **kwargs)


def all_victims(table):
    values = [table.domains[n].values for n in table.attributes]
    return pd.DataFrame(list(itertools.product(*values)), columns=list(table.attributes))


def normal(weights):
    return weights / weights.sum(axis=-1, keepdims=True)


def reference(table):
    """p_A and p_L of every value combination, in the order of `all_victims`."""
    truth = enumerate_posterior(table, resolve_prior(table, **PRIOR))
    n_secrets = len(table.secret.domain)
    attacker = truth.rows.sum(axis=0).reshape(n_secrets, -1).T
    learner = truth.joint.reshape(n_secrets, -1).T
    return attacker, learner


@pytest.mark.parametrize("name", list(ALL))
def test_attacker_and_learner_equal_enumeration(name):
    table = ALL[name]()
    post = fitted(table)
    attacker, learner = reference(table)
    victims = all_victims(table)
    possible = attacker.sum(axis=1) > 0
    for belief, expected in (
        (post.attacker(victims[possible]), normal(attacker[possible])),
        (post.learner(victims), normal(learner)),
    ):
        error = belief.attrs["mcse"].to_numpy()
        if post.method == "exact":
            assert (error == 0).all()
            np.testing.assert_allclose(belief, expected, atol=1e-12)
        else:
            # 20 batches: |t| > 5 has probability 8e-5 per entry.
            off = np.abs(belief.to_numpy() - expected)
            assert (off < 5 * error + 1e-9).all(), (off / (error + 1e-9)).max()
            assert error.max() < 0.02


def test_partial_and_noisy_knowledge_sum_over_what_is_possible():
    """Knowing a set is knowing the sum of its members; weights are likelihoods (Groups (15))."""
    table = nested()
    post = fitted(table)
    attacker, learner = (w.reshape(4, 2, 2) for w in reference(table))  # age, sex, secret
    for victim, weight in (
        ({"age": "22-23"}, [[0, 0], [0, 0], [1, 1], [1, 1]]),
        ({"age": {20, 22}, "sex": "f"}, [[1, 0], [0, 0], [1, 0], [0, 0]]),
        ({"sex": {"f": 0.8, "m": 0.2}}, [[0.8, 0.2]] * 4),
        ({}, [[1, 1]] * 4),
    ):
        w = np.asarray(weight)[:, :, None]
        for belief, joint in ((post.attacker(victim), attacker), (post.learner(victim), learner)):
            np.testing.assert_allclose(belief, normal((w * joint).sum(axis=(0, 1))), atol=1e-12)


def test_conditional_learner_is_the_average_of_conditionals():
    """Groups (6): E[f(s | r, pi)] from the draws themselves, a different number from (9)."""
    table = nested()
    post = fitted(table)
    victim = {"age": 20, "sex": "f"}
    draws = post.draws
    joint = draws["pi_ill"] * draws["pi_age"].sel(age="20") * draws["pi_sex"].sel(sex="f")
    expected = (joint / joint.sum("ill")).mean(("chain", "draw"))
    belief = post.learner(victim, kind="conditional")
    error = belief.attrs["mcse"].to_numpy()
    assert (np.abs(belief.to_numpy() - expected.to_numpy()) < 5 * error).all()
    assert np.abs(belief - post.learner(victim)).max() > 5 * error.max()


def test_further_knowledge_of_the_secret():
    post = fitted(crossing())
    plain = post.attacker({"nat": "J"})
    half = post.attacker({"nat": "J"}, secret={"hiv": 0.5})
    assert half["hiv"] / half["flu"] == pytest.approx(0.5 * plain["hiv"] / plain["flu"])
    assert post.attacker({"nat": "J"}, secret={"flu"})["flu"] == 1.0


def test_random_worlds_counts_worlds():
    """Every compatible cleartext table equally likely: count them."""
    table = crossing()
    attacker = np.zeros((3, 2))
    cells = [set(table.columns["nat"].evidence.members(c)) for c in table.columns["nat"].codes]
    worlds = list(itertools.product(*cells))
    for world in worlds:
        for k, s in zip(world, table.secret_codes, strict=True):
            attacker[k, s] += 1 / len(worlds)
    belief = fitted(table).random_worlds(pd.DataFrame({"nat": table.domains["nat"].values}))
    np.testing.assert_allclose(belief, normal(attacker), atol=1e-12)


def test_random_worlds_of_a_latent_secret_sums_to_one():
    belief = fitted(latent()).random_worlds({"nat": "M"})
    assert belief.sum() == pytest.approx(1.0)
    assert belief["hiv"] > 0


def test_vertical_attacker_equals_enumeration():
    """All orders of two groups, weighted by the Dirichlet-multinomial of their counts."""
    from scipy.special import gammaln

    qit = pd.DataFrame({"nat": ["M", "J", "J", "M", "C", "M"], "g": [1, 1, 1, 2, 2, 2]})
    st = pd.DataFrame({"g": [1, 1, 1, 2, 2, 2], "ill": ["a", "b", "b", "a", "b", "c"]})
    table = ab.ReleasedTable.vertical(qit, st, group="g", sensitive="ill")
    items, slots = table.columns["nat"].codes.astype(int), table.secret_codes.astype(int)
    attacker, learner, total = np.zeros((3, 3)), np.zeros((3, 3)), 0.0
    for one in itertools.permutations(range(3)):
        for two in itertools.permutations(range(3, 6)):
            delta = np.ones((3, 3))
            np.add.at(delta, (slots, items[[*one, *two]]), 1)
            weight = np.exp(gammaln(delta).sum() - gammaln(delta.sum(axis=1)).sum())
            total += weight
            np.add.at(attacker, (items[[*one, *two]], slots), weight)
            mean = delta / delta.sum(axis=1, keepdims=True)
            learner += weight * ((1 + table.secret_counts)[:, None] * mean).T
    victims = pd.DataFrame({"nat": table.domains["nat"].values})
    for step in ("block", "collapsed", "tempered", "swap"):
        post = ab.fit(table, step=step, draws=3000, tune=100, seed=9, progressbar=False)
        for belief, expected in (
            (post.attacker(victims), attacker),
            (post.learner(victims), learner),
        ):
            error = belief.attrs["mcse"].to_numpy()
            off = np.abs(belief.to_numpy() - normal(expected))
            assert (off < 5 * error + 1e-6).all(), (step, off, error)


def test_knowledge_that_fits_nobody_is_an_error():
    table = ab.ReleasedTable.horizontal(
        pd.DataFrame({"nat": ["M", "J"], "ill": ["flu", "hiv"]}),
        "ill",
        domains={"nat": ["M", "J", "C"]},
    )
    post = ab.fit(table, seed=1, draws=5, progressbar=False)
    with pytest.raises(ab.AnonbayesError, match="fits no row"):
        post.attacker({"nat": "C"})
    with pytest.raises(ab.AnonbayesError, match="Victim 1 "):
        post.attacker(pd.DataFrame({"nat": ["M", "C"]}))
    with pytest.raises(ab.AnonbayesError, match=r"'nationality'.*not an attribute.*'nat'"):
        post.attacker({"nationality": "M"})
    with pytest.raises(ab.AnonbayesError, match="rules out every"):
        post.attacker({"nat": "M"}, secret={"hiv"})
    with pytest.raises(ab.AnonbayesError, match=r"kind='other'.*predictive"):
        post.learner({"nat": "M"}, kind="other")
    with pytest.raises(ab.AnonbayesError, match=r"weight of 'M' must be at least 0"):
        post.attacker({"nat": {"M": -1}})


def test_many_victims_equal_one_by_one():
    post = fitted(crossing())
    victims = pd.DataFrame(
        {"nat": ["M", "J", "M", None], "sex": ["f", "m", "f", "m"]}, index=list("wxyz")
    )
    many = post.attacker(victims)
    for label, row in victims.iterrows():
        known = {k: v for k, v in row.items() if v is not None}
        np.testing.assert_allclose(many.loc[label], post.attacker(known), atol=1e-12)


def test_beliefs_of_many_print_copy_and_join():
    """pandas copies and compares attrs when it shortens a wide frame for printing."""
    values = [f"v{i}" for i in range(40)]
    frame = pd.DataFrame({"nat": ["M", "J"] * 20, "ill": values})
    post = ab.fit(ab.ReleasedTable.horizontal(frame, "ill"), seed=1, draws=5, progressbar=False)
    belief = post.attacker(frame[["nat"]])
    assert "40 rows x 40 columns" in repr(belief)
    assert pd.concat([belief, belief]).shape == (80, 40)
    assert belief.copy().attrs["mcse"].to_numpy().shape == (40, 40)


def test_a_row_of_a_frame_is_a_victim():
    table = nested()
    post = ab.fit(table, seed=1, draws=10, chains=1, progressbar=False)
    people = pd.DataFrame({"age": [20, 22], "sex": ["f", "m"], "ill": ["flu", "hiv"]}, index=[7, 9])
    expected = post.attacker({"age": 22, "sex": "m"})
    pd.testing.assert_series_equal(post.attacker(people.loc[9]), expected)


def test_weights_of_the_secret_must_be_numbers():
    post = ab.fit(nested(), seed=1, draws=10, chains=1, progressbar=False)
    with pytest.raises(ab.AnonbayesError, match="weight of 'flu' is 'x', which is not a number"):
        post.attacker({"age": 20}, secret={"flu": "x"})


@pytest.mark.parametrize("make", [crossing, latent])
def test_weights_so_small_that_probabilities_vanish(make):
    """Cells of zero probability under a secret that never shows them are no division by zero."""
    table = make()
    post = ab.fit(table, beta=1e-4, seed=1, draws=300, chains=1, tune=50, progressbar=False)
    for victim in all_victims(table).to_dict("records"):
        for belief in (
            post.attacker(victim), post.learner(victim), post.learner(victim, kind="conditional")
        ):  # fmt: skip
            assert belief.sum() == pytest.approx(1.0)


class FromElsewhere:
    """A frame of another library: columns that Arrow can read, and nothing of pandas."""

    def __init__(self, frame):
        import pyarrow

        self._table = pyarrow.Table.from_pandas(frame, preserve_index=False)

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def test_frames_of_other_libraries_serve_wherever_people_are_given():
    pytest.importorskip("pyarrow")
    clear = ab.datasets.load("clinic").head(60)[["sex", "marital_status", "diagnosis"]]
    table = ab.ReleasedTable.horizontal(FromElsewhere(clear), "diagnosis")
    assert table == ab.ReleasedTable.horizontal(clear, "diagnosis")
    post = ab.fit(table, evidence="independent", seed=1)
    for ask in (post.attacker, post.learner, post.random_worlds):
        pd.testing.assert_frame_equal(ask(FromElsewhere(clear)), ask(clear))
    assert post.assess(FromElsewhere(clear)).summary.equals(post.assess(clear).summary)
    assert ab.anonymize.anatomy(FromElsewhere(clear), "diagnosis", 2, seed=1) == (
        ab.anonymize.anatomy(clear, "diagnosis", 2, seed=1)
    )
    ideal = [ab.ideal(c, sensitive="diagnosis").belief(c) for c in (clear, FromElsewhere(clear))]
    pd.testing.assert_frame_equal(*ideal)
    register = ab.fit(table, register=FromElsewhere(clear.tail(20)), evidence="independent", seed=1)
    assert register.register.people.n_rows == 20
    short = {"draws": 20, "tune": 10, "chains": 1, "classes": 3, "seed": 1, "progressbar": False}
    who = [ab.identity(c, population=500, **short).rows for c in (clear, FromElsewhere(clear))]
    pd.testing.assert_frame_equal(*who)


@pytest.mark.parametrize(("between", "low", "high"), [(3.0, 0.95, 1.05), (0.0, 1.0, 1.25)])
def test_errors_of_averages_are_those_of_chains_that_disagree(between, low, high):
    """Root mean square of the stated error, over the spread that the average really has.

    Four chains of ten batches with errors of 1; 4,000 times, so the ratio has an error of about
    0.02. Where chains agree, the larger of two estimates of the same is taken, hence up to 1.25.
    """
    rng = np.random.default_rng(3)
    places = between * rng.normal(size=(4, 1, 4000))
    away = 0.01 * (places + rng.normal(size=(4, 10, 4000))).reshape(40, 4000)
    batches = np.stack([0.5 + away, 0.5 - away], axis=-1)  # beliefs in two secrets
    truth = 0.01 * np.sqrt(between**2 / 4 + 1 / 40)
    stated = np.sqrt((standard_error(batches, 4) ** 2).mean())
    assert low < stated / truth < high
    spread = away.mean(axis=0).std()
    assert abs(spread / truth - 1) < 0.05
