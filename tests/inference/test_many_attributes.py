"""Products of many small probabilities: beliefs agree with sums of logarithms."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp, softmax

import anonbayes as ab
from anonbayes.arrays import Scaled
from anonbayes.beliefs.victims import standard_error

ATTRIBUTES, VALUES, ROWS = 130, 1000, 12
NAMES = [f"c{i}" for i in range(ATTRIBUTES)]
DOMAINS = dict.fromkeys(NAMES, range(VALUES))
FEW = {"draws": 4, "tune": 2, "chains": 2, "seed": 1, "progressbar": False}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(rng.integers(0, VALUES, (ROWS, ATTRIBUTES)), columns=NAMES)
    return frame.assign(s=list("ppppppqqqqqq"))


def log_means(people, secret):
    """``log E[pi_a|s(k)]`` of tables in clear, summed over a person's attributes."""
    inside = people[people["s"] == secret]
    counts = (people[NAMES].to_numpy()[:, None] == inside[NAMES].to_numpy()).sum(axis=1)
    return np.log((1 + counts) / (VALUES + len(inside))).sum(axis=1) + np.log(1 + len(inside))


def test_clear_table_against_sums_of_logarithms(people):
    table = ab.ReleasedTable.horizontal(people, "s", domains=DOMAINS)
    post = ab.fit(table, evidence="independent", **FEW)
    want = softmax(np.column_stack([log_means(people, s) for s in "pq"]), axis=1)
    np.testing.assert_allclose(post.learner(people[NAMES]), want, rtol=1e-8)
    found = post.assess(people).summary
    assert found[["GT_L", "GT_A"]].tolist() == [1.0, 1.0]
    assert found["RF"] == pytest.approx(1.0)  # the release is the cleartext
    assert np.isfinite(found.drop("skewness")).all()  # all relative threats are one


def test_hidden_rows_against_sums_of_logarithms(people):
    hidden = people.astype(object)
    hidden.iloc[[0, 6], :-1] = "*"  # whose fits multiply to 1e-390
    table = ab.ReleasedTable.horizontal(hidden, "s", domains=DOMAINS)
    post = ab.fit(table, evidence="independent", **FEW)
    rest, victim = people.drop([0, 6]), people[NAMES].iloc[[0]]
    logs = []
    for s in "pq":
        inside = rest.loc[rest["s"] == s, NAMES].to_numpy()
        counts = (victim.to_numpy() == inside).sum(axis=0)
        logs.append(np.log((1 + counts) / (VALUES + len(inside))).sum())
    assert max(logs) < -850  # exp of it is zero
    np.testing.assert_allclose(post.attacker(victim).iloc[0], softmax(logs), rtol=1e-8)
    np.testing.assert_allclose(post.random_worlds(victim).iloc[0], [0.5, 0.5])
    assert post.assess(people).summary["rows"] == ROWS  # nobody is called impossible


def test_latent_secrets_follow_the_rows_they_copy(people):
    """A copy of a row of q is q, however many attributes say so."""
    secret = ab.Domain("s", ["p", "q"])
    channel = ab.RandomizedResponse(secret, 6.0)
    copies = pd.concat([people] * 4, ignore_index=True)  # so that secrets have a profile
    table = ab.ReleasedTable.horizontal(copies, "s", domains=DOMAINS, channels={"s": channel})
    for evidence in ("independent", "weighted"):
        post = ab.fit(table, evidence=evidence, **FEW | {"tune": 20})
        belief = post.attacker(people[NAMES])
        assert (belief.idxmax(axis=1) == people["s"]).all()
        assert (post.learner(people[NAMES]).idxmax(axis=1) == people["s"]).all()


def test_scaled_sums_and_ratios_against_logarithms():
    rng = np.random.default_rng(5)
    logs = rng.uniform(-60, 0, size=(2, 90, 7, 3))
    logs[0, :, 2, 1] = -np.inf
    one, two = (Scaled.product(np.exp(x[0]), np.exp(x[1:])) for x in logs)
    total = logs.sum(axis=1)
    both = logsumexp(total, axis=0)
    np.testing.assert_allclose(np.log(two.over(one))[:, 0], (total[1] - total[0])[:, 0], rtol=1e-9)
    relative = one.plus(two).relative()[0]
    want = np.exp(both - both.max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        relative / relative.max(axis=1, keepdims=True), want, rtol=1e-8, atol=1e-300
    )


def test_errors_of_beliefs_see_chains_that_disagree():
    """Chains in different places: their means are what varies, not the batches within them."""
    means = np.array([0.1, 0.2, 0.8, 0.9])
    first = np.repeat(means, 5)
    batches = np.column_stack([first, 1.0 - first])  # beliefs in two secrets
    assert standard_error(batches, 4) == pytest.approx(means.std(ddof=1) / 2)
    first = 0.5 + 0.01 * np.random.default_rng(1).normal(size=(20, 4000))
    usual = np.median(standard_error(np.stack([first, 1.0 - first], axis=-1), 4))
    assert usual == pytest.approx(0.01 / np.sqrt(20), rel=0.2)  # and costs little where they agree
