"""Conjugate draws of the parameters: independent Dirichlets, side by side in one flat array."""

from __future__ import annotations

import numpy as np
from numba import njit

from anonbayes.arrays import Floats, Ints
from anonbayes.inference.dirichlet import log_gamma_draw

from .layout import VerticalLayout


def simplex_bounds(layout: VerticalLayout) -> Ints:
    """Bounds of the simplexes ``pi_a|s`` in the flat parameter array of a layout."""
    lengths = np.repeat(layout.sizes, layout.n_secrets)
    return np.concatenate([[0], np.cumsum(lengths)])


@njit(cache=True, nogil=True)
def draw_log_simplexes(
    shape: Floats, bounds: Ints, log_pi: Floats, rng: np.random.Generator
) -> None:
    """Draw ``Dir(shape)`` for each stretch between bounds, as logs, which do not underflow."""
    for r in range(len(bounds) - 1):
        top = -np.inf
        for c in range(bounds[r], bounds[r + 1]):
            log_pi[c] = log_gamma_draw(shape[c], rng)
            top = max(top, log_pi[c])
        mass = 0.0
        for c in range(bounds[r], bounds[r + 1]):
            mass += np.exp(log_pi[c] - top)
        shift = top + np.log(mass)
        for c in range(bounds[r], bounds[r + 1]):
            log_pi[c] -= shift


def draw_simplexes(shape: Floats, bounds: Ints, rng: np.random.Generator) -> Floats:
    """Draw ``Dir(shape)`` for each stretch between bounds; entries stay positive.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> pi = draw_simplexes(np.array([1.0, 2.0, 1e-3, 1e-3]), np.array([0, 2, 4]), rng)
    >>> bool(np.allclose(np.add.reduceat(pi, [0, 2]), 1)), bool((pi > 0).all())
    (True, True)
    """
    log_pi = np.empty(len(shape))
    draw_log_simplexes(shape, bounds, log_pi, rng)
    return np.maximum(np.exp(log_pi), np.finfo(float).tiny)
