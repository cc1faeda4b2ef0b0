"""The learner: what the table says about the population, and so about anyone in it.

``p_L(s, r | t*) = E[f(s, r | pi) | t*]``, conditioned on r (Groups (5), (9)); or, as another
number, ``E[f(s | r, pi) | t*]`` (Groups (6)).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from anonbayes.arrays import Floats
from anonbayes.beliefs.victims import Victims, batch_slices
from anonbayes.errors import one_of

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior

__all__ = ["KINDS", "learner_weights"]
KINDS = ("predictive", "conditional")
MOST_DRAWS = 2000


def learner_weights(
    post: Posterior, victims: Victims, kind: str = "predictive"
) -> tuple[Floats, Floats | None]:
    """``p_L(s, what is known)`` of each distinct victim, not normalised over s.

    Parameters
    ----------
    post : Posterior
        The posterior.
    victims : Victims
        What is known about whom.
    kind : {"predictive", "conditional"}
        Groups (9), the joint prediction conditioned on what is known; or Groups (6), the average
        of the conditional probabilities (normalised already).

    Returns
    -------
    weights : numpy.ndarray
        Shape ``(victims, S)``.
    batches : numpy.ndarray or None
        The same from batches of the draws; None when exact.
    """
    one_of("kind", kind, KINDS)
    if kind == "predictive" and post.method == "exact":
        weights = np.tile(post.secret_mean, (len(victims), 1))
        for a, name in enumerate(post.table.attributes):
            known = victims.weights[a] @ post.trees[name].mean.T
            weights *= known[victims.codes[:, a]]
        return weights, None
    if kind == "predictive" and post.table.scheme == "horizontal" and post.table.secrets_known:
        return _factorised(post, victims)
    return _averaged(post, victims, conditional=kind == "conditional")


def _factorised(post: Posterior, victims: Victims) -> tuple[Floats, Floats]:
    """Known secrets of a horizontal table: given t* the ``pi_a`` are independent (MODEL 1.2).

    So the expectation of their product is the product of their means.
    """
    cuts = batch_slices(post.n_chains, post.n_draws)
    sizes = np.array([cut.stop - cut.start for _, cut in cuts], dtype=float)
    start = np.tile(post.secret_mean, (len(victims), 1))
    weights, batches = start.copy(), np.tile(start, (len(cuts), 1, 1))
    for a, name in enumerate(post.table.attributes):
        draws = post.draws[f"pi_{name}"].to_numpy()
        means = np.stack([draws[chain, cut].mean(axis=0) for chain, cut in cuts])
        code = victims.codes[:, a]
        weights *= (victims.weights[a] @ np.average(means, axis=0, weights=sizes).T)[code]
        for b, mean in enumerate(means):
            batches[b] *= (victims.weights[a] @ mean.T)[code]
    return weights, batches


def _averaged(post: Posterior, victims: Victims, *, conditional: bool) -> tuple[Floats, Floats]:
    """Average over draws, batch by batch."""
    table = post.table
    secret = post.draws[f"pi_{table.sensitive}"].to_numpy()
    draws = [post.draws[f"pi_{name}"].to_numpy() for name in table.attributes]
    step = max(1, post.n_chains * post.n_draws // MOST_DRAWS)
    batches = []
    for chain, cut in batch_slices(post.n_chains, post.n_draws):
        total = np.zeros((len(victims), len(table.secret.domain)))
        chosen = range(cut.start, cut.stop, step)
        for t in chosen:
            known = [w @ d[chain, t].T for w, d in zip(victims.weights, draws, strict=True)]
            start = np.concatenate([[0], np.cumsum([len(k) for k in known])[:-1]])
            _add(
                victims.codes,
                start.astype(np.int64),
                np.concatenate(known),
                secret[chain, t],
                conditional,
                total,
            )
        batches.append(total / len(chosen))
    return np.mean(batches, axis=0), np.stack(batches)


@njit(cache=True, nogil=True)
def _add(codes, start, known, secret, conditional, total):  # type: ignore[no-untyped-def]
    """Add ``pi_S(s) prod_a P(known_a | s)`` of one draw, divided by its sum if conditional."""
    n_secrets = len(secret)
    product = np.empty(n_secrets)
    for v in range(codes.shape[0]):
        product[:] = secret
        for a in range(codes.shape[1]):
            row = start[a] + codes[v, a]
            for s in range(n_secrets):
                product[s] *= known[row, s]
        norm = product.sum() if conditional else 1.0
        if norm > 0.0:  # else the draw knows nobody like that, and has no say
            for s in range(n_secrets):
                total[v, s] += product[s] / norm
