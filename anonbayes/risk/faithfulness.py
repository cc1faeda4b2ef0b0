"""How much of the cleartext's lesson a release keeps: ``RF = 1 - TV(p_I, p_L)``.

Groups Definition 2 and (21). The distance runs over all secrets and records, usually far too many
to list; it is then estimated from draws of ``p_I``. Where they can be listed, it is exact.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numba import njit

from anonbayes.arrays import Floats, Ints
from anonbayes.inference.beliefs.batches import batch_slices
from anonbayes.risk.ideal import Ideal
from anonbayes.risk.replicates import replicate_error, replicate_weights

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior

__all__ = ["Faithfulness", "faithfulness"]

MOST_CELLS = 1_000_000
MOST_AVERAGED_CELLS = 20_000
MOST_DRAWS = 2000


@dataclass(frozen=True)
class Faithfulness:
    """Total variation between what the cleartext and what the release teach.

    Attributes
    ----------
    tv : float
        ``TV(p_I, p_L)``: a sum when `samples` is 0; else the average of ``(1 - p_L/p_I)+`` over
        draws of ``p_I``, whose expectation is the same and whose terms lie between 0 and 1.
    tv_error : float
        Its standard error: of the draws of ``p_I`` and of the posterior's draws.
    etv, etv_error : float
        Groups (21), the average of ``|1 - p_L/p_I| / 2`` over the same draws, and its error. Half
        of the distance lies where ``p_L > p_I``, where draws of ``p_I`` seldom fall; so it is
        mostly too small, and now and then far too large. Equal to `tv` where that is exact.
    samples : int
        Number of draws of ``p_I``; 0 when all secrets and records were listed.
    """

    tv: float
    tv_error: float
    etv: float
    etv_error: float
    samples: int

    @property
    def rf(self) -> float:
        """Relative faithfulness ``1 - TV``."""
        return 1.0 - self.tv


def faithfulness(
    post: Posterior, best: Ideal, *, samples: int = 20_000, seed: int | np.random.Generator | None
) -> Faithfulness:
    """Compare learner and ideal.

    Parameters
    ----------
    post : Posterior
        What the release teaches.
    best : Ideal
        What the cleartext teaches.
    samples : int
        Draws of ``p_I`` where the records are too many to be listed.
    seed : int, Generator or None
        Of these draws.
    """
    sizes = [len(best.table.secret.domain), *(m.shape[1] for m in best.means)]
    cells = math.prod(sizes)
    product = post.table.scheme == "horizontal" and post.table.secrets_known
    listed = cells <= (MOST_CELLS if product else MOST_AVERAGED_CELLS)
    if listed:
        grid = np.indices(sizes).reshape(len(sizes), -1)
        secret, codes = grid[0], np.ascontiguousarray(grid[1:].T)
    else:
        secret, codes = _draw(best, samples, np.random.default_rng(seed))
    p_ideal = _product(best.secret_mean, best.means, secret, codes)
    p_learner, batches = _learner(post, secret, codes)

    def distances(p: Floats) -> Floats:
        """Terms of TV and of ETV."""
        ratio = p / p_ideal
        return np.stack([np.maximum(1.0 - ratio, 0.0), np.abs(1.0 - ratio) / 2.0])

    def both(p: Floats) -> Floats:
        terms = distances(p)
        return np.asarray(terms @ p_ideal if listed else terms.mean(axis=1))

    value = both(p_learner)
    variance = np.zeros(2)
    if not listed:
        variance += distances(p_learner).var(axis=1, ddof=1) / len(secret)
    if batches is not None and len(batches) > 1:
        weights = replicate_weights(len(batches), post.n_chains)
        replicates = np.stack([both(w @ batches) for w in weights])
        variance += replicate_error(replicates, len(batches), post.n_chains) ** 2
    error = np.sqrt(variance)
    drawn = 0 if listed else len(secret)
    return Faithfulness(float(value[0]), float(error[0]), float(value[1]), float(error[1]), drawn)


def _draw(best: Ideal, samples: int, rng: np.random.Generator) -> tuple[Ints, Ints]:
    """Independent draws of ``p_I``: the secret, then every attribute given the secret."""
    secret = np.sort(rng.choice(len(best.secret_mean), size=samples, p=best.secret_mean))
    codes = np.empty((samples, len(best.means)), dtype=np.int64)
    edges = np.searchsorted(secret, np.arange(len(best.secret_mean) + 1))
    for a, mean in enumerate(best.means):
        for s, (start, stop) in enumerate(itertools.pairwise(edges)):
            codes[start:stop, a] = rng.choice(mean.shape[1], size=stop - start, p=mean[s])
    return secret, codes


def _product(secret_mean: Floats, means: tuple[Floats, ...], secret: Ints, codes: Ints) -> Floats:
    out = secret_mean[secret]
    for a, mean in enumerate(means):
        out = out * mean[secret, codes[:, a]]
    return out


def _learner(post: Posterior, secret: Ints, codes: Ints) -> tuple[Floats, Floats | None]:
    """``p_L(s, r)`` of the cells, and the same from batches of draws unless exact."""
    names = post.table.attributes
    if post.method == "exact":
        means = tuple(post.trees[name].mean for name in names)
        return _product(post.secret_mean, means, secret, codes), None
    cuts = batch_slices(post.n_chains, post.n_draws)
    draws = [post.draws[f"pi_{name}"].to_numpy() for name in names]
    if post.table.scheme == "horizontal" and post.table.secrets_known:
        # Given t* the pi_a are independent (MODEL 1.2): the mean of the product is a product.
        parts = [tuple(d[c, cut].mean(axis=0) for d in draws) for c, cut in cuts]
        batches = np.stack([_product(post.secret_mean, m, secret, codes) for m in parts])
        means = tuple(d.mean(axis=(0, 1)) for d in draws)
        return _product(post.secret_mean, means, secret, codes), batches
    of_secret = post.draws[f"pi_{post.table.sensitive}"].to_numpy()
    step = max(1, post.n_chains * post.n_draws // MOST_DRAWS)
    start = np.concatenate([[0], np.cumsum([d.shape[-1] for d in draws])[:-1]]).astype(np.int64)
    batches = np.zeros((len(cuts), len(secret)))
    for b, (c, cut) in enumerate(cuts):
        chosen = range(cut.start, cut.stop, step)
        for t in chosen:
            stacked = np.concatenate([d[c, t] for d in draws], axis=1)
            _add_joint(secret, codes, start, stacked, of_secret[c, t], batches[b])
        batches[b] /= len(chosen)
    return batches.mean(axis=0), batches


@njit(cache=True, nogil=True)
def _add_joint(secret, codes, start, pi, of_secret, total):  # type: ignore[no-untyped-def]
    """Add ``f(s_i, r_i | pi)`` of one draw."""
    for i in range(len(secret)):
        s = secret[i]
        p = of_secret[s]
        for a in range(codes.shape[1]):
            p *= pi[s, start[a] + codes[i, a]]
        total[i] += p
