"""Beliefs as labelled probabilities, with their Monte-Carlo error, and draw by draw."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from anonbayes.arrays import Floats, Ints, read_whole
from anonbayes.beliefs.attacker import attacker_weights, draw_weights, matched, worlds_apart
from anonbayes.beliefs.learner import correction_draws, learner_weights, weight_draws
from anonbayes.beliefs.victims import Victims, read_victims, secret_weights, standard_error
from anonbayes.errors import AnonbayesError, ModelError, TableError, one_of
from anonbayes.inference.vertical.crossfit import left_out_ownership
from anonbayes.inference.vertical.group_layout import layout_of
from anonbayes.inference.weight_kernels import record_tilts, weighted_joint

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior
    from anonbayes.tables.table import ReleasedTable

__all__ = [
    "attacker_belief",
    "belief_draws",
    "belief_intervals",
    "learner_belief",
    "normalise",
    "random_worlds_belief",
]
TINY = np.finfo(float).tiny
Victim = Mapping[str, Any] | pd.Series | pd.DataFrame
Secret = Mapping[Any, float] | set[Any] | None


@dataclass(frozen=True, eq=False)
class MonteCarloErrors:
    """Standard errors of a belief in its ``attrs["mcse"]``, labelled like the belief itself.

    pandas copies and compares ``attrs``, which fails for a DataFrame.
    """

    frame: pd.Series | pd.DataFrame

    def to_numpy(self) -> Floats:
        """Return the errors as an array."""
        return self.frame.to_numpy(dtype=np.float64)

    def max(self) -> float:
        """Return the largest error of all."""
        return float(self.to_numpy().max())

    def __deepcopy__(self, memo: dict[int, object]) -> MonteCarloErrors:
        return self  # which every operation of pandas asks for


def learner_belief(post: Posterior, victim: Victim, *, kind: str) -> pd.Series | pd.DataFrame:
    """See `Posterior.learner`."""
    victims = read_victims(post.table, victim)
    weights, batches = learner_weights(post, victims, kind)
    return _labelled(post.table, victims, weights, batches, None, "learner", post.n_chains)


def attacker_belief(
    post: Posterior, victim: Victim, *, secret: Secret, group: Any = None
) -> pd.Series | pd.DataFrame:
    """See `Posterior.attacker`."""
    victims = read_victims(post.table, victim, group=group)
    extra = secret_weights(post.table, secret)
    weights, batches, found = attacker_weights(post, victims)
    _check_found(victims, found)
    return _labelled(post.table, victims, weights, batches, extra, "attacker", post.n_chains)


def random_worlds_belief(
    post: Posterior, victim: Victim, *, secret: Secret, group: Any = None
) -> pd.Series | pd.DataFrame:
    """See `Posterior.random_worlds`."""
    victims = read_victims(post.table, victim, group=group)
    extra = secret_weights(post.table, secret)
    weights, found = worlds_apart(post, victims)
    _check_found(victims, found)
    return _labelled(post.table, victims, weights, None, extra, "random worlds")


def belief_intervals(
    post: Posterior, victim: Victim, *, who: str, probability: float, draws: int, group: Any = None
) -> pd.DataFrame:
    """See `Posterior.intervals`."""
    one_of("who", who, ("attacker", "learner"))
    if not 0 < probability < 1:
        raise AnonbayesError(f"probability={probability!r} must lie between 0 and 1.")
    victims = read_victims(post.table, victim, group=group)
    pick = ("attacker", "learner").index(who)
    drawn = np.stack([normalise(d[pick]) for d in belief_draws(post, victims, draws)])
    tail = (1 - probability) / 2
    ends = np.nanquantile(drawn, (tail, 1 - tail), axis=0)[:, victims.inverse]
    labels = values = _secrets(post.table)
    if victims.index is not None:
        labels = pd.MultiIndex.from_product([victims.index, values])
    return pd.DataFrame({"lower": ends[0].ravel(), "upper": ends[1].ravel()}, index=labels)


def normalise(weights: Floats) -> Floats:
    """Divide by the sum over the last axis; NaN where nothing has any weight."""
    with np.errstate(invalid="ignore"):
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _check_found(victims: Victims, found: Ints) -> None:
    lost = np.flatnonzero(found == 0)
    if len(lost):
        who = ""
        if victims.index is not None:
            rows = np.flatnonzero(np.isin(victims.inverse, lost))
            who = f"Victim {victims.index[rows[0]]!r} ({len(rows)} of {len(victims.inverse)}): "
        raise TableError(
            f"{who}what is known fits no row of the released table"
            f"{'' if victims.group is None else ' in that group'}, so the victim cannot be in it. "
            "Check the values, or give a set of values where you are unsure."
        )


def _labelled(
    table: ReleasedTable,
    victims: Victims,
    weights: Floats,
    batches: Floats | None,
    extra: Floats | None,
    name: str,
    n_chains: int = 1,
) -> pd.Series | pd.DataFrame:
    """Probabilities by sensitive value, with ``attrs["mcse"]`` of the same shape."""
    if extra is not None:
        weights = weights * extra
        batches = None if batches is None else batches * extra
        if (weights.sum(axis=1) <= 0).any():
            raise TableError(
                "secret= rules out every sensitive value that is possible for the victim."
            )
    belief = normalise(weights)[victims.inverse]
    error = np.zeros_like(belief)
    if batches is not None:
        error = standard_error(batches, n_chains)[victims.inverse]

    def labelled(numbers: Floats, title: str) -> pd.Series | pd.DataFrame:
        if victims.index is None:
            return pd.Series(numbers[0], index=_secrets(table), name=title)
        return pd.DataFrame(numbers, index=victims.index, columns=_secrets(table))

    out = labelled(belief, name)
    out.attrs["mcse"] = MonteCarloErrors(labelled(error, "mcse"))
    return out


def _secrets(table: ReleasedTable) -> pd.Index:
    return pd.Index(table.secret.domain.values, name=table.sensitive, tupleize_cols=False)


# -- draw by draw -------------------------------------------------------------------------------
#
# Beliefs average over draws. Here each draw of ``pi``, with its draw of the weights where evidence
# is weighted, gives beliefs of its own; their quantiles are intervals.


def belief_draws(post: Posterior, victims: Victims, draws: int) -> Iterator[tuple[Floats, Floats]]:
    """Unnormalised attacker and learner, ``(victims, S)`` each, under single draws.

    At most `draws` of all draws are taken, spread evenly over the chains.
    """
    table = post.table
    read_whole("draws", draws, least=2, error=ModelError)
    if post.editions is not None:
        raise ModelError("Intervals are available for a single release only; fit it alone.")
    total = post.n_chains * post.n_draws
    places = np.unique(np.linspace(0, total - 1, min(draws, total)).round().astype(int))
    asked = victims
    victims, rows = matched(table, asked)
    share = post.draws[f"pi_{table.sensitive}"].to_numpy()
    pi = [post.draws[f"pi_{name}"].to_numpy() for name in table.attributes]
    eta, corrections = weight_draws(post), correction_draws(post)
    owned = _ownership_draws(post, pi, eta) if table.scheme == "vertical" else None
    fit = rows.item_fits(victims)
    for place in places:
        where = divmod(int(place), post.n_draws)
        weights = None if eta is None else eta[where]
        now, single = [p[where] for p in pi], corrections(where)
        if owned is not None:
            attacker = rows.add_up(victims, rows.gather(owned(where)), fit)[0]
        else:
            attacker = draw_weights(table, victims, rows, share[where], now, weights, single)[0]
        tilt = record_tilts(single, share[where], now, asked.weights, asked.codes)
        joint = weighted_joint(share[where], asked.shares(now), weights, tilt)
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
    attribute = np.repeat(np.arange(layout.n_attributes), layout.n_secrets * layout.sizes)
    # Units below one answer noise in the lifts; what they take off is not known any better.
    steep = np.minimum(post.evidence_weights.unit, 1.0)[attribute]

    register = post.register

    def by_release(score: Floats) -> sparse.csr_array:
        return layout.ownership(left_out_ownership(layout, fold, score))

    corrects = register is not None and register.corrects
    owned = register.ownership(layout, fold) if register and corrects else by_release

    def weighted(where: tuple[int, int]) -> sparse.csr_array:
        drawn = layout.flatten([p[where] for p in pi])
        moved = np.log(np.maximum(drawn, TINY) / np.maximum(centre, TINY))
        return owned((lifts + moved / steep) * eta[where][attribute])

    return weighted
