"""Every sampler of vertical tables against the enumeration of all cleartext tables."""

import numpy as np
import pytest
from vertical_reference import batch_error, enumerate_tables, small_layout, uneven_prior
from vertical_run import run_vertical

from anonbayes.inference.vertical.chain import STEPS

LADDER = {"temperatures": 3, "hottest": 0.3}


@pytest.mark.parametrize("step", STEPS)
def test_means_and_ownership(step):
    layout = small_layout()
    beta = uneven_prior(layout)
    truth = enumerate_tables(layout, beta)
    settings = {"ladder": LADDER} if step == "tempered" else {}
    if step == "subblock":
        settings["sub_block"] = 2
    run = run_vertical(
        layout,
        beta=beta,
        step=step,
        draws=6000,
        tune=200,
        seed=12,
        **settings,
    )  # fmt: skip
    pi = np.concatenate([p.reshape(len(p), -1) for p in run.pi], axis=1)
    assert np.all(np.abs(pi.mean(axis=0) - truth.pi_mean) < 4 * batch_error(pi))

    owned = np.zeros((run.n_draws, layout.n_rows, layout.n_secrets))
    rows = np.arange(run.n_draws)[:, None]
    owned[rows, run.assignment, layout.secrets] = 1.0
    error = batch_error(owned) + 1e-12
    assert np.all(np.abs(owned.mean(axis=0) - truth.ownership) < 4 * error)
    # Averaged conditional probabilities estimate the same with no larger error.
    smooth = layout.ownership(run.ownership).toarray()
    assert np.all(np.abs(smooth - truth.ownership) < 4 * error)


def test_secret_parameters_are_conjugate():
    layout = small_layout()
    alpha = np.array([0.5, 1.0, 2.0])
    run = run_vertical(layout, alpha=alpha, step="block", draws=3000, tune=0, seed=3)
    shape = alpha + layout.secret_counts
    assert np.all(
        np.abs(run.pi_secret.mean(axis=0) - shape / shape.sum()) < 4 * batch_error(run.pi_secret)
    )
