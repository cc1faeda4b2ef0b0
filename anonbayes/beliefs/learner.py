"""The learner's belief: what the table says about the population, and so about anyone in it.

This is ``p_L(s, r | t*) = E[f(s, r | pi) | t*]``, conditioned on r (Groups (5), (9)), or
alternatively ``E[f(s | r, pi) | t*]`` (Groups (6)).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from scipy import sparse

from anonbayes.arrays import SMALL, Floats, Ints, Scaled, starts_of
from anonbayes.beliefs.index import add_scaled
from anonbayes.beliefs.victims import Victims, batch_slices
from anonbayes.errors import one_of
from anonbayes.inference.dirichlet import CORRECTION, WEIGHT
from anonbayes.inference.weight_kernels import record_tilts, weighted_joint

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior

KINDS = ("predictive", "conditional")
LEAST_FIT = 1e-200
"""Least probability of a compatible value in every draw."""

MOST_DRAWS = 2000
DRAWN_NUMBERS = 2_000_000
"""Probabilities of draws that are processed together."""


def learner_weights(
    post: Posterior, victims: Victims, kind: str = "predictive"
) -> tuple[Floats, Floats | None]:
    """``p_L(s, knowledge)`` of each distinct victim on its own scale, and the same by batches.

    ``"predictive"``: the joint prediction (Groups (9)); ``"conditional"``: the average of
    conditional probabilities (Groups (6)). Batches are None if the result is exact.
    """
    if post.register is not None and post.register.corrects:
        return post.register.learner(victims), None
    worlds = None if post.editions is None else post.editions.worlds
    if worlds is not None and kind == "predictive":
        return worlds.learner(victims)[:, : len(post.secret_mean)], None
    joint, parts = learner_joint(post, victims, kind)
    weights, *batches = joint.relative(*parts)
    return weights, np.stack(batches) if batches else None


def learner_joint(
    post: Posterior, victims: Victims, kind: str = "predictive"
) -> tuple[Scaled, list[Scaled]]:
    """`learner_weights` of all victims on a common scale; no batches if exact."""
    one_of("kind", kind, KINDS)
    if kind == "predictive" and not post.simulated:
        return _joint(post, victims, post.means), []
    if kind == "predictive" and post.table.scheme == "horizontal" and post.table.secrets_known:
        return _factorised(post, victims)
    return _averaged(post, victims, conditional=kind == "conditional")


def mean_shares(post: Posterior) -> list[Floats]:
    """Mean of each attribute's distribution, ``(S, K_a)``; from draws if necessary."""
    if not post.simulated:
        return post.means
    cuts = [(chain, slice(0, post.n_draws)) for chain in range(post.n_chains)]
    return [post.batch_means(name, cuts).mean(axis=0) for name in post.table.attributes]


def _joint(post: Posterior, victims: Victims, means: list[Floats]) -> Scaled:
    """``p_L(s, what is known)`` from the means of the distributions."""
    share = post.secret_mean
    tilt = record_tilts(post.corrections, share, means, victims.weights, victims.codes)
    return weighted_joint(share, victims.shares(means), post.eta, tilt)


def _factorised(post: Posterior, victims: Victims) -> tuple[Scaled, list[Scaled]]:
    """Known secrets of a horizontal table: given t*, the ``pi_a`` are independent (MODEL 1.2).

    So the expectation of their product is the product of their means.
    """
    cuts = batch_slices(post.n_chains, post.n_draws)
    sizes = np.array([cut.stop - cut.start for _, cut in cuts], dtype=float)
    by_batch = [post.batch_means(name, cuts) for name in post.table.attributes]
    whole = [np.average(means, axis=0, weights=sizes) for means in by_batch]
    parts = [_joint(post, victims, [means[b] for means in by_batch]) for b in range(len(cuts))]
    return _joint(post, victims, whole), parts


def _averaged(
    post: Posterior, victims: Victims, *, conditional: bool
) -> tuple[Scaled, list[Scaled]]:
    """Average over draws, batch by batch."""
    secret = post.draws[f"pi_{post.table.sensitive}"].to_numpy()
    draws = [post.draws[f"pi_{name}"].to_numpy() for name in post.table.attributes]
    eta, corrections = eta_draws(post), correction_draws(post)

    if eta is None and not conditional:
        batches = _products(post, victims, secret, draws)
        total = reduce(Scaled.plus, batches)
        return Scaled(total.number / len(batches), total.power), batches

    def of_draw(at: tuple[int, int]) -> Scaled:
        # Tiny prior weights can leave a value without any probability in a draw.
        means = [pi[at] for pi in draws]
        known = [np.maximum(k, LEAST_FIT) for k in victims.shares(means)]
        tilt = record_tilts(corrections(at), secret[at], means, victims.weights, victims.codes)
        joint = weighted_joint(secret[at], known, None if eta is None else eta[at], tilt)
        if conditional:
            number = joint.relative()[0]
            number = number / number.sum(axis=1, keepdims=True)
            joint = Scaled(number, np.zeros(number.shape, dtype=np.int64))
        return joint

    batches = batch_averages(post, MOST_DRAWS, of_draw)
    total = reduce(Scaled.plus, batches)
    return Scaled(total.number / len(batches), total.power), batches


def _products(
    post: Posterior, victims: Victims, secret: Floats, draws: Sequence[Floats]
) -> list[Scaled]:
    """Average of ``pi_S(s) prod_a P(what is known | s)`` over draws, batch by batch.

    Nothing is kept of a draw but what pieces of knowledge it makes likely: people come after.
    """
    known = sparse.csr_array(sparse.block_diag(victims.weights, format="csr"))
    codes = victims.codes + starts_of([w.shape[0] for w in victims.weights])[:-1]
    step, out = max(1, post.n_chains * post.n_draws // MOST_DRAWS), []
    size = secret.shape[-1]
    at_once = max(1, DRAWN_NUMBERS // (max(known.shape) * size))
    for chain, cut in batch_slices(post.n_chains, post.n_draws):
        number = np.zeros((len(codes), size))
        total = Scaled(number, np.zeros(number.shape, dtype=np.int64))
        chosen = range(cut.start, cut.stop, step)
        for first in range(0, len(chosen), at_once):
            some = chosen[first : first + at_once]
            pi = np.concatenate([of[chain, some] for of in draws], axis=-1)
            likely = known @ np.ascontiguousarray(pi.transpose(2, 0, 1)).reshape(pi.shape[2], -1)
            likely = np.maximum(likely, LEAST_FIT).reshape(-1, len(some), size)
            for i, t in enumerate(some):
                _add_products(codes, np.ascontiguousarray(likely[:, i]), secret[chain, t], *total)
        out.append(Scaled(number / len(chosen), total.power))
    return out


@njit(cache=True, nogil=True)
def _add_products(codes: Ints, known: Floats, share: Floats, number: Floats, power: Ints) -> None:
    """Add ``share(s) prod_a known[code_a, s]`` of every victim to `Scaled` sums."""
    n_secrets = len(share)
    product, below = np.empty(n_secrets), np.zeros(n_secrets, dtype=np.int64)
    for v in range(len(codes)):
        least, scaled = 1.0, False
        for s in range(n_secrets):
            product[s] = share[s]
        for a in range(codes.shape[1]):
            row = codes[v, a]
            for s in range(n_secrets):
                product[s] *= known[row, s]
                least = min(least, product[s])
            if least < SMALL:
                least, scaled = 1.0, True
                for s in range(n_secrets):
                    while 0.0 < product[s] < SMALL:
                        product[s] /= SMALL
                        below[s] -= 1
        if not scaled:
            for s in range(n_secrets):
                if power[v, s] == 0:
                    number[v, s] += product[s]
                else:
                    add_scaled(number, power, (v, s), product[s], 0)
        else:
            for s in range(n_secrets):
                add_scaled(number, power, (v, s), product[s], below[s])
                below[s] = 0


def batch_averages(
    post: Posterior, most: int, of_draw: Callable[[tuple[int, int]], Scaled]
) -> list[Scaled]:
    """Average over draws, batch by batch; of more than `most` draws, use evenly spaced ones."""
    step = max(1, post.n_chains * post.n_draws // most)
    out = []
    for chain, cut in batch_slices(post.n_chains, post.n_draws):
        chosen = range(cut.start, cut.stop, step)
        total = reduce(Scaled.plus, (of_draw((chain, t)) for t in chosen))
        out.append(Scaled(total.number / len(chosen), total.power))
    return out


def eta_draws(post: Posterior) -> Floats | None:
    """Draws of the weights, ``(chains, draws, A)``; None with independent evidence."""
    if post.eta is None:
        return None
    names = [f"{WEIGHT}{name}" for name in post.table.attributes]
    return np.stack([post.draws[name].to_numpy() for name in names], axis=-1)


def correction_draws(post: Posterior) -> Callable[[tuple[int, int]], Sequence[Floats] | None]:
    """Corrections of single values in a draw, or those at the mode if there are no draws."""
    names = [f"{CORRECTION}{name}" for name in post.table.attributes]
    if post.corrections is None or not all(name in post.draws for name in names):
        return lambda _: post.corrections
    drawn = [post.draws[name].to_numpy() for name in names]
    return lambda at: [values[at] for values in drawn]
