"""Advice against the losses of each channel by itself."""

import json
import pickle

import numpy as np
import pytest
from typer.testing import CliRunner

import anonbayes as ab
from anonbayes.channels.registry import MECHANISMS


@pytest.mark.parametrize("epsilon, size, best", [(1.0, 100, "subset_selection"), (6.0, 8, None)])
def test_the_best_comes_first(epsilon, size, best):
    domain = ab.Domain("x", range(size))
    advice = ab.choose_channel(domain, epsilon, 1000)
    expected = {
        "randomized_response": ab.RandomizedResponse(domain, epsilon),
        "rappor": ab.RAPPOR(domain, epsilon),
        "unary_encoding": ab.UnaryEncoding.optimal(domain, epsilon),
        "local_hashing": ab.LocalHashing(domain, epsilon),
        "subset_selection": ab.SubsetSelection(domain, epsilon),
        "hadamard_response": ab.HadamardResponse(domain, epsilon),
        "longitudinal_rappor": ab.LongitudinalUE.rappor(domain, epsilon),
        "longitudinal_osue": ab.LongitudinalUE(domain, epsilon),
    }
    assert set(advice.channels) == set(expected)
    assert list(advice.losses) == sorted(advice.losses)
    for name, loss in zip(advice.channels, advice.losses, strict=True):
        assert loss == pytest.approx(expected[name].worst_case_loss(1000))
    assert best is None or next(iter(advice.channels)) == best
    if epsilon == 6.0:  # a set of one value is randomized response
        assert advice.losses[0] == pytest.approx(
            expected["randomized_response"].worst_case_loss(1000)
        )


def test_sensitive_values_ask_for_uldp():
    domain, p = ab.Domain("x", range(50)), np.full(50, 0.02)
    advice = ab.choose_channel(domain, 0.5, 2000, sensitive=[1, 2], p=p, norm="l1")
    known = {n for n, m in MECHANISMS.items() if set(m.needs) <= {"sensitive"} and not m.numeric}
    assert known == set(advice.channels)
    assert advice.notion == ab.ULDP([1, 2], 0.5)
    assert all(channel.satisfies(advice.notion).holds for channel in advice.channels.values())
    assert advice.best.sensitive is not None
    assert advice.losses[0] == pytest.approx(advice.best.expected_loss(p, 2000, norm="l1"))
    again = pickle.loads(pickle.dumps(advice))
    assert again.losses == advice.losses and list(again.channels) == list(advice.channels)
    assert len(advice.plot().get_yticklabels()) == len(advice.losses)
    with pytest.raises(ab.AnonbayesError, match="n='10'"):
        ab.choose_channel(domain, 0.5, "10")


def test_the_command_prints_the_same():
    from anonbayes.cli.app import app

    arguments = ["channel", "advise", "--values", "0-99", "--epsilon", "1", "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    advice = ab.choose_channel(ab.Domain("x", range(100)), 1.0, 10_000)
    assert [row["mechanism"] for row in found["mechanisms"]] == list(advice.channels)
    assert found["mechanisms"][0]["loss"] == pytest.approx(advice.losses[0])
