"""The Markov matcher against a plain computation, and what it finds."""

import itertools

import numpy as np
import pytest

import anonbayes as ab
from anonbayes.errors import AnonbayesError


def plain_score(trace, known, floor):
    """Log-likelihood of a trace as the paper describes it."""
    visits = [known.count(x) / len(known) for x in trace[:1]]
    for a, b in itertools.pairwise(trace):
        leaving = [y for x, y in itertools.pairwise(known) if x == a]
        visits.append(leaving.count(b) / len(leaving) if leaving else 0.0)
    return sum(np.log(p if p > 0 else floor) for p in visits)


def test_scores_agree_with_a_plain_computation():
    rng = np.random.default_rng(0)
    training = [rng.integers(0, 4, rng.integers(1, 12)).tolist() for _ in range(9)]
    traces = [rng.integers(0, 5, rng.integers(1, 6)).tolist() for _ in range(7)]
    senders = rng.integers(0, 9, 7)
    attack = ab.reidentify.markov_attack(traces, training, senders=senders, floor=1e-6)
    table = np.array([[plain_score(t, k, 1e-6) for k in training] for t in traces])
    own = table[np.arange(7), senders]
    np.testing.assert_allclose(attack.genuine, own, rtol=1e-12)
    for row in range(7):
        others = np.delete(table[row], senders[row])
        np.testing.assert_allclose(np.sort(attack.impostor[row]), np.sort(others), rtol=1e-12)
    close = np.isclose(table, own[:, None], rtol=1e-12)
    assert (attack.tied == close.sum(axis=1)).all()
    assert (attack.above == ((table > own[:, None]) & ~close).sum(axis=1)).all()
    best = table.max(axis=1)
    np.testing.assert_allclose(table[np.arange(7), attack.guess], best, rtol=1e-12)


def test_more_events_and_more_knowledge_identify_better():
    habits = ab.reidentify.synthetic_traces(1500, 120, 3000, seed=3)
    bits, rates = [], []
    for events in (1, 3, 10, 40):
        attack = ab.reidentify.markov_attack(habits[:, 60 : 60 + events], habits[:, :60])
        bits.append(float(attack.system_entropy()))
        rates.append(attack.top(1).share)
        top = [attack.top(k).share for k in (1, 5, 50, 1500)]
        assert (np.diff(top) >= 0).all() and top[-1] == 1.0
    assert (np.diff(bits) > 0).all() and (np.diff(rates) > 0).all()
    sent = habits[:, 60:63]
    partial = ab.reidentify.markov_attack(sent, habits[:, :60])
    maximum = ab.reidentify.markov_attack(sent, habits[:, 60:])
    assert maximum.top(1).share > partial.top(1).share + 0.1


def test_entropy_of_noisy_traces_lies_below_the_bound_and_rises_with_events():
    n, places = 3000, 200
    habits = ab.reidentify.synthetic_traces(n, 40, places, wander=0.0, favourites=2, seed=1)
    channel = ab.RandomizedResponse(ab.IntegerDomain(places), 5.0)
    noisy = channel.release_codes(habits[:, :8].ravel(), seed=2).reshape(n, 8)
    found = []
    for events in (1, 2, 4, 8):
        attack = ab.reidentify.markov_attack(noisy[:, :events], habits)
        bits = attack.system_entropy(k=5)
        limit = ab.pie.bound(channel, n, t=events)
        assert bits < limit + 4 * bits.standard_error
        assert 1 - attack.top(1).share >= ab.pie.bayes_error(limit, n)
        found.append(float(bits))
    assert (np.diff(found) > 0).all()


def test_twins_share_the_guess():
    training = [[0, 1, 0, 1]] * 10
    attack = ab.reidentify.markov_attack(training, training)
    assert attack.top(1).share == pytest.approx(0.1) and attack.top(5).share == pytest.approx(0.5)
    assert ab.reidentify.rate(attack).share == pytest.approx(0.1)
    assert len(set(attack.guess.tolist())) > 1


def test_texts_and_ragged_traces():
    training = [["home", "work", "home"], ["gym", "bar"], ["home", "bar", "home", "bar"]]
    attack = ab.reidentify.markov_attack([["gym"], ["home", "bar"]], training, senders=[1, 2])
    assert attack.guess.tolist() == [1, 2]


def test_impostors_are_others():
    rng = np.random.default_rng(1)
    training = rng.integers(0, 50, (300, 20))
    attack = ab.reidentify.markov_attack(training, training, impostors=20)
    assert attack.impostor.shape == (300, 20)
    assert (attack.impostor < attack.genuine[:, None]).all()


@pytest.mark.parametrize(
    "change, words",
    [
        ({"floor": 0.0}, "floor"),
        ({"senders": [0, 5]}, "one of the 2 users"),
        ({"senders": [0]}, "each of the 2 reports"),
        ({"training": [[1, 2]]}, "only one user"),
        ({"traces": [[1], []]}, "trace 1 of group 0"),
        ({"traces": [["a"], ["b"]]}, "numbers and others texts"),
        ({"traces": [[1.0], [np.nan]]}, "Trace 1 of group 0 has a missing event"),
        ({"training": [["a", "b"], ["b", None]], "traces": [["a"], ["b"]]}, "Trace 1 of group 1"),
        ({"traces": ["home", "work"]}, "trace 0 of group 0 is not a list"),
        ({"traces": [[[1], [2, 3]], [1]]}, "trace 0 of group 0 is not a list"),
        ({"traces": 7}, "no traces"),
        ({"impostors": 0}, "impostors=0"),
    ],
)
def test_bad_traces_are_named(change, words):
    settings = {"traces": [[1], [2]], "training": [[1, 2], [2, 3]]} | change
    with pytest.raises(AnonbayesError, match=words):
        ab.reidentify.markov_attack(settings.pop("traces"), settings.pop("training"), **settings)
    with pytest.raises(AnonbayesError, match="k=9"):
        ab.reidentify.markov_attack([[1], [2]], [[1], [2]]).top(9)
