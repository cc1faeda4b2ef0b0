"""Simulation-based calibration of every vertical sampler on small tables.

Parameters are drawn from the prior, a cleartext table from the parameters, and the link inside
groups is forgotten. The rank of the truth among posterior draws is then uniform, for any quantity
of parameters and data; a sampler that is too narrow, too wide or off centre bends the histogram.
"""

import numpy as np
import pytest
from scipy import stats
from vertical_run import run_vertical

from anonbayes.inference.vertical.chain import STEPS
from anonbayes.inference.vertical.group_layout import VerticalLayout

SECRETS = np.array([0, 1, 1, 0, 1, 2, 0, 2])  # one repeated value in the first and last group
OFFSETS = np.array([0, 3, 6, 8])
SIZES, N_SECRETS, RANKS = (2, 3), 3, 16


def simulate(rng):
    pi = [rng.dirichlet(np.ones(k), size=N_SECRETS) for k in SIZES]
    items = np.stack([[rng.choice(len(p[0]), p=p[s]) for s in SECRETS] for p in pi], axis=1)
    layout = VerticalLayout(items, SECRETS, OFFSETS, SIZES, N_SECRETS)
    return pi, layout


@pytest.mark.parametrize("step", STEPS)
def test_ranks_are_uniform(step):
    rng = np.random.default_rng(2024)
    settings = {
        "tempered": {"ladder": {"temperatures": 3, "hottest": 0.4}},
        "subblock": {"sub_block": 2},
    }.get(step, {})
    thin = 4 if step in ("swap", "permute", "sequential", "subblock") else 2
    ranks: dict[str, list[int]] = {"pi": [], "energy": [], "log_likelihood": []}
    for _ in range(96):
        pi, layout = simulate(rng)
        run = run_vertical(
            layout, step=step, draws=RANKS - 1, tune=20, thin=thin, seed=rng,
            **settings,
        )  # fmt: skip
        truth = np.arange(layout.n_rows)
        log_pi = np.log(np.concatenate([p.reshape(len(p), -1) for p in run.pi], axis=1))
        counts = np.array([layout.counts(a.astype(int)) for a in run.assignment])
        pairs = {
            "pi": (pi[1][1, 0], run.pi[1][:, 1, 0]),
            "energy": (layout.energy(truth, np.ones(layout.n_cells)), run.energy),
            "log_likelihood": (
                layout.counts(truth) @ np.log(layout.flatten(pi)),
                (counts * log_pi).sum(axis=1),
            ),
        }
        for name, (true, drawn) in pairs.items():
            ties = int(np.isclose(drawn, true).sum())
            ranks[name].append(int((drawn < true - 1e-9).sum()) + rng.integers(ties + 1))
    for name, found in ranks.items():
        histogram = np.bincount(np.minimum(found, RANKS - 1) // 2, minlength=RANKS // 2)
        assert stats.chisquare(histogram).pvalue > 1e-3, (name, histogram)
