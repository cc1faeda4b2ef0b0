"""Small vertical tables solved by writing down every compatible cleartext table."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from anonbayes.inference.vertical.group_layout import VerticalLayout


def small_layout() -> VerticalLayout:
    """Three groups: repeated sensitive values, repeated tuples, and neither."""
    return VerticalLayout(
        items=[[0, 0], [1, 2], [1, 2], [0, 1], [1, 1], [0, 2], [1, 0]],
        secrets=[0, 0, 1, 0, 1, 2, 1],
        offsets=[0, 3, 6, 7],
        sizes=[2, 3],
        n_secrets=3,
    )


def uneven_prior(layout: VerticalLayout) -> np.ndarray:
    """Flat prior with a different entry in every cell."""
    return np.linspace(0.4, 2.0, layout.n_cells)


@dataclass
class Enumeration:
    """All assignments of a table with their collapsed posterior."""

    assignments: np.ndarray
    probability: np.ndarray
    pi_mean: np.ndarray
    ownership: np.ndarray


def enumerate_tables(layout: VerticalLayout, beta: np.ndarray, power: float = 1.0) -> Enumeration:
    """Write down every assignment; independent of the package's kernels."""
    groups = [
        list(itertools.permutations(range(lo, hi)))
        for lo, hi in itertools.pairwise(layout.offsets.tolist())
    ]
    assignments = np.array([sum(g, ()) for g in itertools.product(*groups)])
    n_cells = layout.n_cells
    counts = np.zeros((len(assignments), n_cells))
    for a, k in enumerate(layout.sizes):
        codes = layout.items[assignments, a] + layout.secrets * k + layout.starts[a]
        for row, cells in zip(counts, codes, strict=True):
            np.add.at(row, cells, 1)
    log_p = power * gammaln(beta + counts).sum(axis=1)
    probability = np.exp(log_p - log_p.max())
    probability /= probability.sum()
    shape = beta + counts
    mean = np.concatenate(
        [(x / x.sum(axis=-1, keepdims=True)).reshape(len(x), -1) for x in layout.split(shape)],
        axis=1,
    )
    ownership = np.zeros((layout.n_rows, layout.n_secrets))
    for p, assignment in zip(probability, assignments, strict=True):
        ownership[assignment, layout.secrets] += p
    return Enumeration(assignments, probability, probability @ mean, ownership)


def batch_error(series: np.ndarray, batches: int = 40) -> np.ndarray:
    """Monte Carlo standard error of the mean over the first axis, by batch means."""
    length = len(series) // batches
    means = series[: batches * length].reshape(batches, length, *series.shape[1:]).mean(axis=1)
    return means.std(axis=0, ddof=1) / np.sqrt(batches)
