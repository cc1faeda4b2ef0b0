"""PIE of released tables: cases that can be counted by hand, and channels."""

import numpy as np
import pandas as pd
import pytest

import anonbayes as ab
from anonbayes.errors import AnonbayesError


def fitted(table, **settings):
    return ab.fit(table, draws=50, chains=2, seed=1, progressbar=False, **settings)


# Reports on the sensitive value that say nothing leave the nonsensitive cells alone to speak.
MUTE = ab.RandomizedResponse(ab.Domain("ill", ["flu", "cold"]), 0.0)


def horizontal(frame, **settings):
    channels = {"ill": MUTE} | settings.pop("channels", {})
    return ab.ReleasedTable.horizontal(frame, "ill", channels=channels, **settings)


def test_groups_of_k_hide_among_k():
    cells = [f"{3 * (i // 3)}-{3 * (i // 3) + 2}" for i in range(12)]
    frame = pd.DataFrame({"age": cells, "ill": "flu"})
    table = horizontal(frame, domains={"age": range(12)})
    said = ab.pie.release_information(fitted(table))
    np.testing.assert_allclose(said.bits, np.log2(12 / 3), rtol=1e-12)
    np.testing.assert_allclose(said.error, 1 - 1 / 3, rtol=1e-12)
    assert said.summary["crowd"] == pytest.approx(3) and float(said) == pytest.approx(2)
    assert "3 people" in str(said) and "crowd" in said._repr_html_()


def test_clear_values_name_everybody_and_suppressed_ones_nobody():
    clear = pd.DataFrame({"age": [*range(8)], "ill": "flu"})
    said = ab.pie.release_information(fitted(horizontal(clear)))
    np.testing.assert_allclose(said.bits, 3.0, rtol=1e-12)
    np.testing.assert_allclose(said.error, 0.0, atol=1e-12)
    hidden = horizontal(clear.assign(age="*"), domains={"age": range(8)})
    said = ab.pie.release_information(fitted(hidden))
    np.testing.assert_allclose(said.bits, 0.0, atol=1e-12)
    np.testing.assert_allclose(said.error, 1 - 1 / 8, rtol=1e-12)


def test_twins_cannot_be_told_apart_in_clear_either():
    frame = pd.DataFrame({"age": [1, 1, 2, 2], "ill": ["flu"] * 4})
    said = ab.pie.release_information(fitted(horizontal(frame)))
    np.testing.assert_allclose(said.bits, 1.0, rtol=1e-12)
    np.testing.assert_allclose(said.error, 0.5, rtol=1e-12)


def test_a_telling_secret_adds_bits():
    """All ages are hidden, yet the sensitive value speaks of them."""
    rng = np.random.default_rng(2)
    shown = pd.DataFrame({"sex": np.repeat(["f", "m"], 300), "ill": np.repeat(["a", "b"], 300)})
    hidden = shown.iloc[rng.permutation(600)[:100]].assign(sex="*")
    frame = pd.concat([shown, hidden])
    said = ab.pie.release_information(fitted(ab.ReleasedTable.horizontal(frame, "ill")), records=50)
    silent = ab.pie.release_information(fitted(horizontal(frame.assign(ill="flu"))), records=50)
    assert said.summary["bits"] > silent.summary["bits"] + 0.05


def test_local_channels_agree_with_the_information_of_their_reports():
    domain = ab.Domain("place", range(12))
    channel = ab.RandomizedResponse(domain, 3.0)
    held = np.repeat(np.arange(12), 50)
    frame = pd.DataFrame({"place": channel.release(held, seed=3), "ill": "flu"})
    post = fitted(horizontal(frame, channels={"place": channel}))
    said = ab.pie.release_information(post, draws=60, records=200)
    joint = np.zeros((600, 12))
    joint[np.arange(600), held] = 1 / 600
    truth = ab.pie.information(joint, channel)
    assert said.summary["bits_low"] - 0.05 < truth < said.summary["bits_high"] + 0.05
    best = 1 - (joint @ channel.matrix()).max(axis=0).sum()
    assert said.summary["error"] == pytest.approx(best, abs=0.002)
    assert said.summary["error_bound"] <= best
    axes = said.plot(label="RR")
    assert axes.get_xlabel().startswith("Bits")


def test_anatomy_hides_among_the_group():
    people = pd.DataFrame({"age": range(12), "gid": np.arange(12) // 3})
    secrets = pd.DataFrame({"gid": np.arange(12) // 3, "ill": ["a", "b", "c"] * 4})
    table = ab.ReleasedTable.vertical(people, secrets, group="gid", sensitive="ill")
    said = ab.pie.release_information(fitted(table))
    # Ages are all different, so nothing links an age to an illness.
    assert said.summary["bits"] == pytest.approx(2.0, abs=0.1)
    assert said.summary["error"] == pytest.approx(2 / 3, abs=0.1)
    assert (said.bits > 2.0 - 1e-6).all() and said.scheme == "vertical"
    alike = ab.ReleasedTable.vertical(people.assign(age=30), secrets, group="gid", sensitive="ill")
    said = ab.pie.release_information(fitted(alike))
    np.testing.assert_allclose(said.bits, 0.0, atol=1e-6)


def test_numbers_of_draws_are_checked():
    frame = pd.DataFrame({"age": [1, 2], "ill": ["flu"] * 2})
    with pytest.raises(AnonbayesError, match="records=0"):
        ab.pie.release_information(fitted(horizontal(frame)), records=0)
