"""The sampler of Groups V in plain Python and NumPy: the peer of the benchmark, nothing more.

Gibbs over parameters and groups; a group is moved by one Metropolis iteration with the swap or the
random permutation as its proposal, as the paper describes. It is written as one would write
it from the paper: arrays of probabilities, a loop over groups, no tricks.
"""

from __future__ import annotations

import numpy as np

from anonbayes.inference.vertical.group_layout import VerticalLayout


def plain_sampler(
    layout: VerticalLayout, *, proposal: str, draws: int, start: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the draws of the parameters (flat) and the log-likelihoods."""
    rng = np.random.default_rng(seed)
    items, secrets = layout.items, layout.secrets
    attributes = np.arange(layout.n_attributes)
    table = items[start]  # nonsensitive tuple of each row
    kept, log_likelihood = [], []
    for _ in range(draws):
        pi = []
        for a, k in enumerate(layout.sizes):
            counts = np.zeros((layout.n_secrets, k))
            np.add.at(counts, (secrets, table[:, a]), 1)
            pi.append(np.array([rng.dirichlet(1.0 + row) for row in counts]))
        for g in range(layout.n_groups):
            lo, hi = layout.offsets[g], layout.offsets[g + 1]
            rows = table[lo:hi]
            if proposal == "swap":
                i, j = rng.choice(hi - lo, size=2, replace=False)
                order = np.arange(hi - lo)
                order[i], order[j] = j, i
            else:
                order = rng.permutation(hi - lo)
            new = rows[order]
            s = secrets[lo:hi]
            log_ratio = sum(
                np.log(pi[a][s, new[:, a]] / pi[a][s, rows[:, a]]).sum() for a in attributes
            )
            if np.log(rng.random()) < log_ratio:
                table[lo:hi] = new
        kept.append(np.concatenate([p.ravel() for p in pi]))
        log_likelihood.append(sum(np.log(pi[a][secrets, table[:, a]]).sum() for a in attributes))
    return np.array(kept), np.array(log_likelihood)
