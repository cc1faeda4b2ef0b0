"""Beliefs draw by draw: how far the uncertainty of population and weights carries into them.

`Posterior.attacker` and `Posterior.learner` average it out. Here each draw of ``pi``, with its draw
of the weights where evidence is weighted, gives beliefs of its own; their quantiles are intervals.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from anonbayes.arrays import Floats
from anonbayes.beliefs.attacker import draw_weights
from anonbayes.beliefs.index import records_of
from anonbayes.beliefs.learner import weight_draws
from anonbayes.beliefs.victims import Victims
from anonbayes.errors import ModelError
from anonbayes.inference.weights import weighted_joint

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior

__all__ = ["belief_draws"]


def belief_draws(post: Posterior, victims: Victims, draws: int) -> Iterator[tuple[Floats, Floats]]:
    """Attacker and learner under single draws, evenly chosen from all chains; not normalised.

    Parameters
    ----------
    post : Posterior
        Of a horizontal table.
    victims : Victims
        What is known about whom.
    draws : int
        How many draws to take, at most all.

    Yields
    ------
    attacker, learner : numpy.ndarray
        Shape ``(victims, S)`` each.
    """
    table = post.table
    if table.scheme != "horizontal":
        raise ModelError("Beliefs draw by draw need a horizontal table.")
    if isinstance(draws, bool) or not isinstance(draws, int | np.integer) or draws < 2:
        raise ModelError(f"draws={draws!r} must be a whole number of at least 2.")
    total = post.n_chains * post.n_draws
    places = np.unique(np.linspace(0, total - 1, min(draws, total)).round().astype(int))
    rows = records_of(table)
    compatible = rows.match(victims)
    share = post.draws[f"pi_{table.sensitive}"].to_numpy()
    pi = [post.draws[f"pi_{name}"].to_numpy() for name in table.attributes]
    eta = weight_draws(post)
    for place in places:
        where = divmod(int(place), post.n_draws)
        weights = None if eta is None else eta[where]
        now = [p[where] for p in pi]
        attacker = draw_weights(table, victims, rows, compatible, share[where], now, weights)[0]
        known = [
            (w @ p.T)[code]
            for w, p, code in zip(victims.weights, now, victims.codes.T, strict=True)
        ]
        yield attacker, weighted_joint(share[where], known, weights)
