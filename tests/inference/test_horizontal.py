"""Sampled posteriors of horizontal tables against enumeration, and against each other."""

import pickle

import numpy as np
import pymc as pm
import pytest
from enumeration import enumerate_posterior
from scipy import stats
from tables import ALL, PRIOR, crossing, latent, nested

import anonbayes as ab
from anonbayes import compat
from anonbayes.inference.dirichlet import Prior, resolve_prior
from anonbayes.inference.horizontal.cell_engine import HorizontalEngine, Record, sweeps
from anonbayes.inference.horizontal.cell_layout import HorizontalLayout
from anonbayes.inference.horizontal.urns import Scratch


def mcse(post):
    return {k: compat.mcse({k: post.draws[k]})[k].to_numpy() for k in post.draws}


@pytest.mark.parametrize("name", ["crossing", "soft", "latent", "nested"])
@pytest.mark.parametrize("step", ["tree", "counts"])
def test_gibbs_equals_enumeration(name, step):
    table = ALL[name]()
    truth = enumerate_posterior(table, resolve_prior(table, **PRIOR))
    post = ab.fit(
        table, **PRIOR, method="gibbs", step=step, draws=6000, tune=200, seed=11, progressbar=False
    )
    error = mcse(post)
    for attribute, expected in {**truth.pi, table.sensitive: truth.pi_secret}.items():
        key = f"pi_{attribute}"
        z = (post.draws[key].mean(("chain", "draw")).to_numpy() - expected) / error[key]
        assert np.abs(z).max() < 4.0, (attribute, z)


@pytest.mark.parametrize("name", ["crossing", "soft", "latent"])
def test_hidden_rows_equal_enumeration(name):
    """Draws of the hidden values, row by row."""
    table = ALL[name]()
    truth = enumerate_posterior(table, resolve_prior(table))
    post = ab.fit(table, draws=4000, tune=200, seed=5, keep_cleartext=True, progressbar=False)
    assert_rows(post.draws, table, truth)


@pytest.mark.parametrize("name", ["crossing", "soft", "latent"])
def test_hidden_rows_of_the_step_by_hand_equal_enumeration(name):
    table = ALL[name]()
    truth = enumerate_posterior(table, resolve_prior(table))
    with ab.build_model(table):
        step = ab.steps.HorizontalStep(table=table, keep_cleartext=True)
        idata = by_hand(step, draws=4000, tune=100, random_seed=8)
    assert_rows(idata.sample_stats, table, truth)


def test_asking_the_step_for_hidden_rows_changes_no_other_draw():
    table = ALL["latent"]()
    with ab.build_model(table):
        runs = [
            by_hand(
                ab.steps.HorizontalStep(table=table, keep_cleartext=keep),
                draws=20,
                tune=0,
                random_seed=3,
            )
            for keep in (False, [1], [0, 1])
        ]
    for name in runs[0].posterior:
        for run in runs[1:]:
            np.testing.assert_array_equal(run.posterior[name], runs[0].posterior[name])
    some = runs[1].sample_stats[f"cleartext_{table.attributes[0]}"]
    assert some.shape == (2, 20, 1) and some.dtype == np.uint8
    assert f"cleartext_{table.sensitive}" in runs[1].sample_stats  # latent in this table
    assert not any(name.startswith("cleartext_") for name in runs[0].sample_stats)


def test_hidden_rows_stand_beside_other_steps():
    """The statistics are found among those of the model's other samplers."""
    table = crossing()
    with ab.build_model(table):
        pm.Normal("own")
        step = ab.steps.HorizontalStep(table=table, keep_cleartext=[0])
        idata = by_hand(step, draws=50, tune=50, random_seed=4)
    first = table.attributes[0]
    kept = [v for k, v in idata.sample_stats.items() if k.endswith(f"cleartext_{first}")]
    assert len(kept) == 1 and kept[0].shape == (2, 50, 1)
    assert "own" in idata.posterior


def test_the_step_refuses_rows_that_are_not_there():
    table = crossing()
    with ab.build_model(table), pytest.raises(ab.AnonbayesError, match="names row 99"):
        ab.steps.HorizontalStep(table=table, keep_cleartext=[99])


def test_the_step_continues_from_its_stored_state():
    table = crossing()
    with ab.build_model(table) as model:
        first, second = (
            ab.steps.HorizontalStep(table=table, keep_cleartext=True, rng=seed) for seed in (1, 2)
        )
    point, _ = first.step(model.initial_point())
    second.sampling_state = pickle.loads(pickle.dumps(first.sampling_state))
    (there, [a]), (here, [b]) = first.step(point), second.step(point)
    for name in there:
        np.testing.assert_array_equal(there[name], here[name])
    for name in a:
        np.testing.assert_array_equal(a[name], b[name])


def by_hand(step, **settings):
    return pm.sample(
        step=step,
        chains=2,
        cores=1,
        progressbar=False,
        compute_convergence_checks=False,
        compile_kwargs={"mode": "FAST_COMPILE"},
        **settings,
    )


def assert_rows(draws, table, truth):
    """Shares of the drawn values of every row within 4.2 standard errors of the truth."""
    axes = tuple(range(truth.rows.ndim))
    for a, attribute in enumerate(table.attributes):
        expected = truth.rows.sum(axis=tuple(x for x in axes[1:] if x != a + 2))
        drawn = draws[f"cleartext_{attribute}"]
        for k in range(expected.shape[1]):
            hit = (drawn == k).astype(float)
            share = hit.mean(("chain", "draw")).to_numpy()
            error = compat.mcse({"hit": hit})["hit"].to_numpy()
            certain = (expected[:, k] < 1e-12) | (expected[:, k] > 1 - 1e-12)
            np.testing.assert_allclose(share[certain], expected[certain, k], atol=1e-12)
            z = (share - expected[:, k])[~certain] / error[~certain]
            assert np.abs(z).max(initial=0.0) < 4.2


def test_exact_draws_have_the_closed_form_means():
    table = nested()
    post = ab.fit(table, **PRIOR, draws=5000, seed=3, progressbar=False)
    assert post.method == "exact"
    for name, tree in post.trees.items():
        draws = post.draws[f"pi_{name}"].to_numpy().reshape(20_000, *tree.mean.shape)
        z = (draws.mean(axis=0) - tree.mean) / (draws.std(axis=0) / np.sqrt(20_000))
        assert np.abs(z).max() < 4.2


def test_nested_cells_leave_nothing_to_draw():
    assert len(HorizontalLayout.of(nested()).arrays.crossing) == 0
    assert len(HorizontalLayout.of(nested(), collapse=False).arrays.crossing) > 0


def test_the_tree_takes_the_cells_of_most_rows():
    """Of the crossing cells {M, J}, {J, C}, {C, M} only the most frequent fits into the tree."""
    table = crossing()
    layout = HorizontalLayout.of(table)
    cells = table.columns["nat"].evidence.labels
    drawn = {cells[c] for c in layout.arrays.crossing[:, 0]}
    assert drawn == {"{J, C}", "{C, M}"}


def test_log_likelihood_does_not_depend_on_the_bookkeeping():
    """Cells in the tree and cells that cross it add up to the likelihood of MODEL 1.2."""
    from anonbayes.inference.horizontal.cell_engine import log_likelihood

    table = crossing()
    rng = np.random.default_rng(2)
    pi_secret = rng.dirichlet(np.ones(2))
    blocks = {n: rng.dirichlet(np.ones(len(table.domains[n])), 2) for n in table.attributes}
    expected = table.secret_counts @ np.log(pi_secret)
    for name, column in table.columns.items():
        probability = column.evidence.matrix.toarray() @ blocks[name].T
        expected += (table.counts[name].toarray() * np.log(probability)).sum()
    for collapse in (True, False):
        layout = HorizontalLayout.of(table, collapse=collapse)
        found = log_likelihood(pi_secret, layout.flatten(blocks), layout.arrays)
        assert found == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize(("make", "step"), [(crossing, "counts"), (latent, "tree")])
def test_simulation_based_calibration(make, step):
    """Ranks of the true parameters among posterior draws are uniform (Talts et al. 2018).

    Tables are drawn from the prior through the same cells; 200 replications, 31 draws each kept far
    apart, chi-square with 8 bins, level 0.001.
    """
    template = make()
    rng = np.random.default_rng(17)
    prior = resolve_prior(template)
    settings = {"draws": 31, "thin": 6, "tune": 30, "chains": 1, "progressbar": False}
    ranks = []
    for _ in range(200):
        table, truth = _simulate(template, prior, rng)
        seed = int(rng.integers(2**31))
        post = ab.fit(table, step=step, seed=seed, **settings)
        drawn = post.draws["pi_nat"].to_numpy()[0, :, 0, 0]
        ranks.append(int((drawn < truth[0, 0]).sum()))
    observed = np.bincount(np.asarray(ranks) // 4, minlength=8)
    assert stats.chisquare(observed).pvalue > 0.001


def _simulate(template, prior: Prior, rng):
    """A table with the template's masking: each row keeps the pattern of its cells at random."""
    import pandas as pd

    nat = list(template.domains["nat"].values)
    size = len(nat)
    secret_values = template.secret.domain.values
    pi_secret = rng.dirichlet(prior.alpha)
    pi_nat = np.stack([rng.dirichlet(b) for b in prior.beta["nat"]])
    rows = []
    for _ in range(12):
        s = rng.choice(2, p=pi_secret)
        k = rng.choice(size, p=pi_nat[s])
        # Coarsening at random: each value is shown as itself or as a pair with its neighbour,
        # by a coin that does not look at the other value of the pair.
        other = (k + 1) % size if rng.random() < 0.5 else (k - 1) % size
        cell = nat[k] if rng.random() < 0.4 else frozenset({nat[k], nat[other]})
        report = s
        if not template.secrets_known and rng.random() > 0.75:
            report = 1 - s
        rows.append({"nat": cell, "ill": secret_values[report]})
    frame = pd.DataFrame(rows)
    domains = {"nat": nat}
    if template.secrets_known:
        table = ab.ReleasedTable.horizontal(frame, "ill", domains=domains | {"ill": secret_values})
    else:
        from tables import Response

        table = ab.ReleasedTable.horizontal(
            frame, "ill", domains=domains, channels={"ill": Response(secret_values, 0.75)}
        )
    return table, pi_nat


def test_independent_draws_are_those_of_sweeps_that_have_nothing_else_to_draw():
    table = ab.datasets.load("clinic_local")
    engine = HorizontalEngine(table, resolve_prior(table))
    d = engine.layout.arrays
    found = []
    for short in (True, False):
        rng = np.random.default_rng(1)
        live = engine.start([rng])
        if short:
            found.append(engine.sweep(live, 5, rng))
            continue
        kept = Record.of(5, engine.layout, engine.urns)
        sweeps(
            5, live["pi_secret"], live["pi"], engine.alpha, engine.beta, d, engine.urns,
            engine.latent_rows, Scratch.of(engine.layout, engine.urns), kept, False, rng,
        )  # fmt: skip
        found.append(kept)
    for one, other in zip(*found, strict=True):
        assert np.array_equal(one, other)
