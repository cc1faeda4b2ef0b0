"""Several attributes: joint shares against exact enumeration, and both designs by simulation."""

import itertools

import numpy as np
import pytest

import anonbayes as ab
from anonbayes.channels.several import _products, _scores

SEX, REGION = ab.Domain("sex", "fm"), ab.Domain("region", "abc")
JOINT = np.array([[0.3, 0.1, 0.1], [0.05, 0.25, 0.2]])


@pytest.mark.parametrize("mechanism", ["randomized_response", "unary_encoding"])
def test_products_of_scores_have_the_joint_shares_as_their_mean(mechanism):
    """All pairs of reports, each weighted with its exact probability: no simulation."""
    survey = ab.Attributes([SEX, REGION], 2.0, how="split", mechanism=mechanism)
    one, two = survey.channels.values()
    q1, q2 = one.matrix(), two.matrix()
    total = np.zeros((2, 3))
    kinds = (_all(one), _all(two))
    for (y, first), (z, second) in itertools.product(*map(enumerate, kinds)):
        chance = q1[:, y] @ JOINT @ q2[:, z]
        rows, columns = one.supported(first).toarray()[0], two.supported(second).toarray()[0]
        both = np.outer(rows, columns)
        total += chance * _products(both, rows, columns, 1, _scores(one), _scores(two))
    np.testing.assert_allclose(total, JOINT, atol=1e-12)


def _all(channel):
    if isinstance(channel, ab.RandomizedResponse):
        return [[value] for value in channel.domain]
    every = channel.all_reports().to_dense()
    return [every[[i]] for i in range(len(every))]


def _people(rng, n):
    cell = rng.choice(6, n, p=JOINT.ravel())
    return {"sex": SEX.decode(cell // 3), "region": REGION.decode(cell % 3)}


@pytest.mark.parametrize("mechanism", ["randomized_response", "unary_encoding"])
def test_joint_shares_are_unbiased_and_their_limits_cover(mechanism):
    survey = ab.Attributes([SEX, REGION], 3.0, how="split", mechanism=mechanism)
    rng, runs = np.random.default_rng(5), 200
    ends = [
        survey.joint(survey.release(_people(rng, 500), seed=rng), "sex", "region")
        for _ in range(runs)
    ]
    shares, truth = np.array([end.p for end in ends]), JOINT.ravel()
    assert (np.abs(shares.mean(axis=0) - truth) < 4.5 * shares.std(axis=0) / np.sqrt(runs)).all()
    covered = [(end.interval[:, 0] <= truth) & (truth <= end.interval[:, 1]) for end in ends]
    assert abs(np.mean(covered) - 0.95) < 4 * np.sqrt(0.95 * 0.05 / runs)
    near = survey.joint(
        survey.release(_people(rng, 50), seed=1), "sex", "region", method="norm_sub"
    )
    assert near.p.sum() == pytest.approx(1.0) and near.p.min() >= 0
    assert near.domain.values[1] == ("f", "b")


def test_budgets_and_who_was_asked():
    domains = [ab.Domain(f"a{i}", range(5)) for i in range(4)]
    split = ab.Attributes(domains, 2.0, how="split")
    sample = ab.Attributes(domains, 2.0)
    assert split.ldp_budget() == pytest.approx(2.0) and sample.ldp_budget() == pytest.approx(2.0)
    people = {f"a{i}": np.full(8000, i) for i in range(4)}
    sent = sample.release(people, seed=1)
    counts = np.bincount(sent.asked, minlength=4)
    assert [len(sent.reports[f"a{i}"]) for i in range(4)] == counts.tolist()
    assert (np.abs(counts - 2000) < 4.5 * np.sqrt(8000 * 3 / 16)).all()
    sampled, divided = sample.estimate(sent), split.estimate(split.release(people, seed=1))
    assert all(sampled[f"a{i}"].p.argmax() == i for i in range(4))
    # A quarter of the people with the whole budget: nearer than all of them with a quarter.
    worst = sample.channels["a0"].worst_case_loss(2000), split.channels["a0"].worst_case_loss(8000)
    assert worst[0] < worst[1] and set(divided) == set(sampled)


def test_what_it_cannot_do_is_named():
    sample = ab.Attributes([SEX, REGION], 1.0)
    sent = sample.release({"sex": ["f"], "region": ["a"]}, seed=1)
    with pytest.raises(ab.AnonbayesError, match="split"):
        sample.joint(sent, "sex", "region")
    with pytest.raises(ab.AnonbayesError, match="'region'"):
        sample.release({"sex": ["f"]})
    with pytest.raises(ab.AnonbayesError, match=r"\[1, 2\]"):
        sample.release({"sex": ["f"], "region": ["a", "b"]})
