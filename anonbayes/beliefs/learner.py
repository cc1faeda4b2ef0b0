"""The learner: what the table says about the population, and so about anyone in it.

``p_L(s, r | t*) = E[f(s, r | pi) | t*]``, conditioned on r (Groups (5), (9)); or, as another
number, ``E[f(s | r, pi) | t*]`` (Groups (6)).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from anonbayes.arrays import SMALL, Floats, Scaled
from anonbayes.beliefs.index import add_scaled
from anonbayes.beliefs.victims import Victims, batch_slices
from anonbayes.errors import one_of
from anonbayes.inference.dirichlet import WEIGHT
from anonbayes.inference.weights import weighted_joint

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior

__all__ = ["KINDS", "learner_joint", "learner_weights", "weight_draws"]
KINDS = ("predictive", "conditional")
LEAST_FIT = 1e-200
"""Probability that a compatible value keeps in every draw."""

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
        Shape ``(victims, S)``, each victim on a scale of its own.
    batches : numpy.ndarray or None
        The same from batches of the draws; None when exact.
    """
    if post.register is not None and post.register.corrects:
        return post.register.learner(victims), None
    if post.editions is not None and post.editions.matched:
        ways = post.editions.matched
        each = [share * learner_joint(way, victims, kind)[0].plain for share, way in ways]
        return np.asarray(np.sum(each, axis=0)), None
    joint, parts = learner_joint(post, victims, kind)
    weights, *batches = joint.relative(*parts)
    return weights, np.stack(batches) if batches else None


def learner_joint(
    post: Posterior, victims: Victims, kind: str = "predictive"
) -> tuple[Scaled, list[Scaled]]:
    """`learner_weights` of all victims on one scale; no batches when exact."""
    one_of("kind", kind, KINDS)
    if kind == "predictive" and not post.simulated:
        return _joint(post, victims, post.means), []
    if kind == "predictive" and post.table.scheme == "horizontal" and post.table.secrets_known:
        return _factorised(post, victims)
    return _averaged(post, victims, conditional=kind == "conditional")


def _joint(post: Posterior, victims: Victims, means: list[Floats]) -> Scaled:
    """``p_L(s, what is known)`` from the means of the distributions."""
    known = [
        (weight @ mean.T)[code]
        for weight, mean, code in zip(victims.weights, means, victims.codes.T, strict=True)
    ]
    return weighted_joint(post.secret_mean, known, post.eta)


def _factorised(post: Posterior, victims: Victims) -> tuple[Scaled, list[Scaled]]:
    """Known secrets of a horizontal table: given t* the ``pi_a`` are independent (MODEL 1.2).

    So the expectation of their product is the product of their means.
    """
    cuts = batch_slices(post.n_chains, post.n_draws)
    sizes = np.array([cut.stop - cut.start for _, cut in cuts], dtype=float)
    whole: list[Floats] = []
    parts: list[list[Floats]] = [[] for _ in cuts]
    for name in post.table.attributes:
        means = post.batch_means(name, cuts)
        whole.append(np.average(means, axis=0, weights=sizes))
        for part, mean in zip(parts, means, strict=True):
            part.append(mean)
    return _joint(post, victims, whole), [_joint(post, victims, p) for p in parts]


def _averaged(
    post: Posterior, victims: Victims, *, conditional: bool
) -> tuple[Scaled, list[Scaled]]:
    """Average over draws, batch by batch."""
    table = post.table
    secret = post.draws[f"pi_{table.sensitive}"].to_numpy()
    draws = [post.draws[f"pi_{name}"].to_numpy() for name in table.attributes]
    step = max(1, post.n_chains * post.n_draws // MOST_DRAWS)
    eta = weight_draws(post)
    size = (len(victims), len(table.secret.domain))
    batches: list[Scaled] = []
    for chain, cut in batch_slices(post.n_chains, post.n_draws):
        total = Scaled(np.zeros(size), np.zeros(size, dtype=np.int64))
        chosen = range(cut.start, cut.stop, step)
        for t in chosen:
            # Tiny prior weights leave values without any probability in a draw.
            known = [
                np.maximum(w @ d[chain, t].T, LEAST_FIT)
                for w, d in zip(victims.weights, draws, strict=True)
            ]
            start = np.concatenate([[0], np.cumsum([len(k) for k in known])[:-1]])
            if eta is not None:
                parts = [k[code] for k, code in zip(known, victims.codes.T, strict=True)]
                joint = weighted_joint(secret[chain, t], parts, eta[chain, t])
                if conditional:
                    plain = joint.relative()[0]
                    plain /= plain.sum(axis=1, keepdims=True)
                    joint = Scaled(plain, np.zeros(size, dtype=np.int64))
                total = total.plus(joint)
                continue
            _add(
                victims.codes,
                start.astype(np.int64),
                np.concatenate(known),
                secret[chain, t],
                conditional,
                total,
            )
        batches.append(Scaled(total.number / len(chosen), total.power))
    whole = batches[0]
    for batch in batches[1:]:
        whole = whole.plus(batch)
    return Scaled(whole.number / len(batches), whole.power), batches


def weight_draws(post: Posterior) -> Floats | None:
    """Draws of the weights, shape ``(chains, draws, A)``; None with independent evidence."""
    if post.eta is None:
        return None
    names = [f"{WEIGHT}{name}" for name in post.table.attributes]
    return np.stack([post.draws[name].to_numpy() for name in names], axis=-1)


@njit(cache=True, nogil=True)
def _add(codes, start, known, secret, conditional, total):  # type: ignore[no-untyped-def]
    """Add ``pi_S(s) prod_a P(known_a | s)`` of one draw, divided by its sum if conditional."""
    n_secrets = len(secret)
    product = np.empty(n_secrets)
    power = np.empty(n_secrets, dtype=np.int64)
    for v in range(codes.shape[0]):
        product[:] = secret
        power[:] = 0
        for a in range(codes.shape[1]):
            row = start[a] + codes[v, a]
            for s in range(n_secrets):
                product[s] *= known[row, s]
                while 0.0 < product[s] < SMALL:
                    product[s] /= SMALL
                    power[s] -= 1
        norm = 1.0
        if conditional:
            top = -(2**40)
            for s in range(n_secrets):
                if product[s] > 0.0:
                    top = max(top, power[s])
            for s in range(n_secrets):
                if product[s] > 0.0:  # a zero has no power worth looking at
                    product[s] *= SMALL ** min(top - power[s], 8)
                power[s] = 0
            norm = product.sum()
        if norm > 0.0:  # else the draw knows nobody like that, and has no say
            for s in range(n_secrets):
                add_scaled(total.number, total.power, (v, s), product[s] / norm, power[s])
