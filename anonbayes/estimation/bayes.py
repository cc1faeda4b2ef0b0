"""Bayesian estimation: Gibbs sampling on the counts behind the reports."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Floats, read_generator, read_whole
from anonbayes.errors import ModelError
from anonbayes.estimation.likelihood import MixtureLikelihood

__all__ = ["check_prior", "sample"]
MAX_THIN = 50


class Draws(NamedTuple):
    """Posterior draws of shape (chains, draws, K), and how far apart in sweeps they are."""

    p: Floats
    thin: int


def sample(
    likelihood: MixtureLikelihood,
    *,
    alpha: npt.ArrayLike = 1.0,
    draws: int = 1000,
    tune: int = 500,
    chains: int = 4,
    thin: int | None = None,
    seed: Any = None,
) -> Draws:
    """Draw from the posterior of the distribution under a Dirichlet prior.

    One sweep draws the counts of true values behind the reports given ``p``, then
    ``p ~ Dirichlet(alpha + counts)`` (MODEL 1.2 and 2). A report that stems from a flat noise
    floor says nothing of ``p`` and is left out of the counts, which makes the chain shorter of
    memory than one that guesses a value for it. Chains start from independent prior draws.

    Parameters
    ----------
    likelihood : MixtureLikelihood
        The reports.
    alpha : float or array-like of shape (K,)
        Parameters of the Dirichlet prior.
    draws, tune, chains : int
        Kept draws per chain, sweeps before the first (in kept draws), and number of chains.
    thin : int, optional
        Sweeps per kept draw. By default about half the reciprocal of the share of reports that
        tell their value, at most 50: noisier channels have longer memory.
    seed : int, numpy.random.Generator or None
        Source of the draws.
    """
    prior = check_prior(alpha, likelihood.size)
    for name, number in (
        ("draws", draws),
        ("chains", chains),
        ("thin", 1 if thin is None else thin),
    ):
        read_whole(name, number, least=1, error=ModelError)
    read_whole("tune", tune, error=ModelError)
    out = np.empty((chains, draws, likelihood.size))
    generators = read_generator(seed, error=ModelError).spawn(chains)
    steps = thin
    for chain, rng in enumerate(generators):
        p = dirichlet(prior, rng)
        for draw in range(-tune, draws):
            for _ in range(steps or 1):
                p = dirichlet(prior + likelihood.allocate(p, rng), rng)
            if draw >= 0:
                out[chain, draw] = p
            elif steps is None and draw == -(tune // 2) - 1:
                steps = _default_thin(likelihood, p)
        steps = steps or 1
    return Draws(out, steps or 1)


def _default_thin(likelihood: MixtureLikelihood, p: Floats) -> int:
    """About half the reciprocal of the share of reports that tell their value under `p`."""
    total = likelihood.probabilities(p)
    noise = likelihood.floor * float(likelihood.tilt @ p)
    telling = float(likelihood.weights @ (1 - noise / total)) / likelihood.n
    return int(np.clip(np.ceil(0.5 / max(telling, 1e-12)), 1, MAX_THIN))


def dirichlet(alpha: Floats, rng: np.random.Generator) -> Floats:
    """Draw from a Dirichlet distribution; tiny parameters do not end in zeros only."""
    gammas = rng.standard_gamma(alpha)
    total = gammas.sum()
    if total > 0:
        return gammas / total
    # All gammas underflowed: draw on the log scale, Gamma(a) = Gamma(a + 1) U^(1/a).
    logs = np.log(rng.standard_gamma(alpha + 1)) + np.log(rng.random(len(alpha))) / alpha
    weights = np.exp(logs - logs.max())
    return weights / weights.sum()


def check_prior(alpha: npt.ArrayLike, size: int) -> Floats:
    """Return the prior parameters as an array of that size; raise `ModelError` for others."""
    array = np.asarray(alpha, dtype=float)
    if array.ndim == 0:
        array = np.full(size, float(array))
    if array.shape != (size,):
        raise ModelError(
            f"alpha must be one number or one for each of the {size} values, got {array.shape}."
        )
    if not (np.isfinite(array) & (array > 0)).all():
        bad = int(np.flatnonzero(~(np.isfinite(array) & (array > 0)))[0])
        raise ModelError(f"alpha[{bad}] = {array[bad]!r} must be positive and finite.")
    return array
