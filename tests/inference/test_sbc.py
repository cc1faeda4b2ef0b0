"""Simulation-based calibration of `fit`, in short, and that it notices what it is for."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tables import crossing, latent, nested, soft

import anonbayes as ab
from anonbayes.errors import AnonbayesError, ModelError
from anonbayes.inference import sbc as room

CHAIN = {"tune": 30, "thin": 5}
TABLES = {
    "nested": (nested, {}),
    "crossing": (crossing, CHAIN),
    "channel": (soft, CHAIN),
    "latent": (latent, CHAIN),
    "vertical": (lambda: ab.datasets.load("table1_anatomy"), {"step": "block", **CHAIN}),
}


@pytest.mark.parametrize("kind", TABLES)
def test_ranks_are_uniform(kind):
    make, settings = TABLES[kind]
    ranks = ab.sbc(make(), simulations=150, draws=39, seed=5, **settings)
    # One in a thousand over all quantities, as in the other simulations.
    assert len(ranks.table) == 150
    assert (ranks.p_values > 1e-3 / len(ranks.p_values)).all(), ranks.p_values


@pytest.mark.parametrize("kind", ["nested", "crossing", "vertical"])
def test_ranks_of_weights_are_uniform(kind):
    people = ab.datasets.load("clinic").head(500)
    keep = people["diagnosis"].isin(people["diagnosis"].value_counts().index[:3])
    people = people[keep][["age" if kind == "crossing" else "marital_status", "sex", "diagnosis"]]
    if kind == "nested":
        table = ab.ReleasedTable.horizontal(people, "diagnosis")
    elif kind == "crossing":
        table = ab.anonymize.mondrian(people, "diagnosis", k=10)
    else:
        table = ab.anonymize.anatomy(people, "diagnosis", l=2, seed=1)
    ranks = ab.sbc(table, evidence="weighted", simulations=100, seed=5)
    assert list(ranks.table) == [f"weight_{name}" for name in table.attributes]
    assert (ranks.p_values > 1e-3 / len(ranks.p_values)).all(), ranks.p_values


def test_draws_under_another_prior_are_noticed(monkeypatch):
    """The posterior of Dir(4) is too narrow for truths from Dir(1)."""
    right = room.fit

    def wrong(table, *, alpha, beta, **settings):
        return right(table, alpha=alpha, beta={k: 4 * v for k, v in beta.items()}, **settings)

    monkeypatch.setattr(room, "fit", wrong)
    ranks = ab.sbc(nested(), simulations=150, draws=39, seed=5)
    assert not ranks.passed
    axes = ranks.plot()
    assert axes.get_title() in ("pi_age", "pi_sex")
    assert sum(bar.get_height() for bar in axes.patches[-10:]) == 150


def test_what_cannot_be_simulated():
    with pytest.raises(ModelError, match="needs sensitive values in clear"):
        ab.sbc(latent(), evidence="weighted")
    with pytest.raises(AnonbayesError, match="simulations"):
        ab.sbc(nested(), simulations=0)


def test_every_value_is_released_somehow():
    """Chances of the completed cells add up to one, and are what the likelihood says."""
    frame = pd.DataFrame({"x": ["{1, 2}", "1", "{1, 2}", "*"], "s": list("aabb")})
    table = ab.ReleasedTable.horizontal(frame, "s", domains={"x": [1, 2, 3]})
    for case in (table, crossing(), soft()):
        for name in case.attributes:
            release = room._Release.of(case, name)
            np.testing.assert_allclose(release.chance.sum(axis=1), 1.0)
            seen = release.evidence.matrix.toarray()
            ratio = np.where(seen > 0, release.chance.T / np.where(seen > 0, seen, 1), np.nan)
            spread = np.nanmax(ratio, axis=1) - np.nanmin(ratio, axis=1)
            assert (spread < 1e-9).all()  # one rate per cell: coarsening at random
