"""Beliefs draw by draw: how uncertainty about population and weights carries over to them.

`Posterior.attacker` and `Posterior.learner` average over it. Here each draw of ``pi``, with its
draw of the weights where evidence is weighted, gives beliefs of its own; their quantiles are
intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from anonbayes.arrays import Floats
from anonbayes.beliefs.attacker import draw_weights, item_fits, matched
from anonbayes.beliefs.index import accumulate
from anonbayes.beliefs.learner import weight_draws
from anonbayes.beliefs.victims import Victims
from anonbayes.errors import ModelError
from anonbayes.inference.vertical.crossfit import left_out_ownership
from anonbayes.inference.vertical.group_engine import layout_of
from anonbayes.inference.weights import weighted_joint

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior

__all__ = ["belief_draws"]
TINY = np.finfo(float).tiny


def belief_draws(post: Posterior, victims: Victims, draws: int) -> Iterator[tuple[Floats, Floats]]:
    """Attacker and learner under single draws, spread evenly over all chains; not normalised.

    Parameters
    ----------
    post : Posterior
        The posterior.
    victims : Victims
        What is known about whom.
    draws : int
        Number of draws to use, at most all.

    Yields
    ------
    attacker, learner : numpy.ndarray
        Shape ``(victims, S)`` each.
    """
    table = post.table
    if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 2:
        raise ModelError(f"draws={draws!r} must be a whole number of at least 2.")
    if post.editions is not None:
        raise ModelError("Intervals are available for a single release only; fit it alone.")
    total = post.n_chains * post.n_draws
    places = np.unique(np.linspace(0, total - 1, min(draws, total)).round().astype(int))
    known = victims.weights, victims.codes.T
    victims, rows, compatible = matched(table, victims)
    share = post.draws[f"pi_{table.sensitive}"].to_numpy()
    pi = [post.draws[f"pi_{name}"].to_numpy() for name in table.attributes]
    eta = weight_draws(post)
    if table.scheme == "vertical":
        fit = item_fits(victims, rows, compatible)
        owned = _ownership_draws(post, pi, eta)
    for place in places:
        where = divmod(int(place), post.n_draws)
        weights = None if eta is None else eta[where]
        now = [p[where] for p in pi]
        if table.scheme == "vertical":
            each = rows.gather(owned(where))
            attacker = accumulate(victims, rows.index, compatible, fit, each)[0]
        else:
            attacker = draw_weights(table, victims, rows, compatible, share[where], now, weights)[0]
        parts = [(w @ p.T)[code] for w, p, code in zip(known[0], now, known[1], strict=True)]
        joint = weighted_joint(share[where], parts, weights)
        yield attacker.relative()[0], joint.relative()[0]


def _ownership_draws(
    post: Posterior, pi: list[Floats], eta: Floats | None
) -> Callable[[tuple[int, int]], sparse.csr_array]:
    """Who owns what in a vertical table, under one draw of population and weights.

    Cross-fitted groups are judged by the lifts that the other folds give, moved by the draw.
    """
    layout = layout_of(post.table)
    if eta is None or post.method != "crossfit":
        one = np.zeros(layout.n_groups, dtype=np.int64)

        def given(where: tuple[int, int]) -> sparse.csr_array:
            score = np.log(np.maximum(layout.flatten([p[where] for p in pi]), TINY))
            return layout.ownership(left_out_ownership(layout, one, score[None]))

        return given
    kept = post.groups["averages"]
    fold = kept["fold"].to_numpy().ravel().astype(np.int64)
    lifts = kept["left_out_lifts"].to_numpy().reshape(-1, layout.n_cells)
    centre = kept["population"].to_numpy().reshape(layout.n_cells)
    assert post.evidence_weights is not None
    # Units below one answer noise in the lifts; what they take off is not known any better.
    unit = np.minimum(post.evidence_weights.unit, 1.0)
    attribute = np.repeat(np.arange(layout.n_attributes), layout.n_secrets * layout.sizes)

    steep = unit[attribute]

    def alone(score: Floats) -> sparse.csr_array:
        return layout.ownership(left_out_ownership(layout, fold, score))

    known = post.register
    corrects = known is not None and known.corrects
    owned = known.ownership(layout, fold) if known is not None and corrects else alone

    def weighted(where: tuple[int, int]) -> sparse.csr_array:
        drawn = layout.flatten([p[where] for p in pi])
        moved = np.log(np.maximum(drawn, TINY) / np.maximum(centre, TINY))
        score = (lifts + moved / steep) * eta[where][attribute]
        return owned(score)

    return weighted
