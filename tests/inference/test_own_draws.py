"""Draws of a user's own model become a `Posterior`."""

from __future__ import annotations

import numpy as np
import pytest
from tables import crossing, nested

import anonbayes as ab
from anonbayes.errors import ModelError

QUIET = {"progressbar": False, "evidence": "independent"}


@pytest.mark.parametrize("make", [nested, crossing])
def test_draws_of_our_own_model_give_the_beliefs_of_the_fit(make):
    table = make()
    pm = pytest.importorskip("pymc")
    with ab.build_model(table, evidence="independent"):
        idata = pm.sample(
            2000,
            tune=100,
            chains=2,
            cores=1,
            step=ab.steps.HorizontalStep(table=table),
            random_seed=1,
            progressbar=False,
            compute_convergence_checks=False,
            compile_kwargs={"mode": "FAST_COMPILE"},
        )
    post = ab.Posterior.from_draws(table, idata)
    want = ab.fit(table, method="gibbs", draws=4000, chains=2, seed=1, **QUIET)
    known = {name: domain.values[0] for name, domain in table.domains.items()}
    del known[table.sensitive]
    for belief in ("learner", "attacker"):
        # A share's standard deviation is at most 0.5; at least 1,000 of 4,000 draws are worth one.
        gap = getattr(post, belief)(known) - getattr(want, belief)(known)
        assert np.abs(gap).max() < 4 * 0.5 * np.sqrt(1 / 1000 + 1 / 2000)


def test_vertical_ownership_follows_from_the_parameters():
    table = ab.datasets.load("table1_anatomy")
    post = ab.fit(table, method="gibbs", step="block", draws=3000, chains=2, seed=1, **QUIET)
    again = ab.Posterior.from_draws(table, post.idata, seed=5)
    for name, value in zip(("Nat", "ZIP"), ("M", "45501"), strict=True):
        gap = again.attacker({name: value}) - post.attacker({name: value})
        assert np.abs(gap).max() < 0.02
    assert again.method == "draws" and again.simulated


def test_a_file_keeps_them(tmp_path):
    table = nested()
    post = ab.fit(table, method="gibbs", draws=200, chains=2, seed=1, **QUIET)
    again = ab.Posterior.from_draws(table, post.idata)
    again.to_netcdf(tmp_path / "p.nc")
    back = ab.Posterior.from_netcdf(tmp_path / "p.nc")
    known = {name: table.domains[name].values[0] for name in table.attributes}
    assert (back.attacker(known) == again.attacker(known)).all()


def shortened(draws, name):
    """Draws with one value too few."""
    own = draws[name]
    return draws.drop_vars(name).assign({name: own.rename({own.dims[-1]: "x"})[..., :1]})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda draws, name: draws.drop_vars(name), "no variable"),
        (shortened, "shape"),
        (lambda draws, name: draws.assign({name: draws[name] * 2}), "add up"),
        (lambda draws, name: draws.assign({name: draws[name] * np.nan}), "not numbers"),
    ],
)
def test_bad_draws_are_named(change, words):
    table = nested()
    draws = ab.fit(table, method="gibbs", draws=20, chains=2, seed=1, **QUIET).draws
    name = f"pi_{table.attributes[0]}"
    bare = draws.drop_vars([c for c in draws.coords if c not in ("chain", "draw")])
    with pytest.raises(ModelError, match=words):
        ab.Posterior.from_draws(table, change(bare, name))
