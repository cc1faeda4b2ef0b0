"""Beliefs as labelled probabilities, with their Monte-Carlo error."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.arrays import Floats
from anonbayes.beliefs.attacker import attacker_weights, worlds_apart
from anonbayes.beliefs.draws import belief_draws
from anonbayes.beliefs.learner import learner_weights
from anonbayes.beliefs.victims import Victims, read_victims, secret_weights, standard_error
from anonbayes.errors import AnonbayesError, TableError, one_of

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior
    from anonbayes.tables.table import ReleasedTable

__all__ = [
    "attacker_belief",
    "belief_intervals",
    "learner_belief",
    "normalise",
    "random_worlds_belief",
]
Victim = Mapping[str, Any] | pd.Series | pd.DataFrame
Secret = Mapping[Any, float] | set[Any] | None


@dataclass(frozen=True, eq=False)
class MonteCarloErrors:
    """Standard errors of a belief, stored in its ``attrs["mcse"]``.

    pandas copies and compares ``attrs``, which fails for a DataFrame.

    Attributes
    ----------
    frame : pandas.Series or pandas.DataFrame
        The errors, labelled like the belief itself.

    Examples
    --------
    >>> errors = MonteCarloErrors(pd.Series([0.01, 0.02]))
    >>> errors.max(), errors.to_numpy().tolist()
    (0.02, [0.01, 0.02])
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
    values = pd.Index(
        post.table.secret.domain.values, name=post.table.sensitive, tupleize_cols=False
    )
    labels = values
    if victims.index is not None:
        labels = pd.MultiIndex.from_product([victims.index, values])
    return pd.DataFrame({"lower": ends[0].ravel(), "upper": ends[1].ravel()}, index=labels)


def normalise(weights: Floats) -> Floats:
    """Divide by the sum over the last axis; NaN where nothing has any weight.

    Examples
    --------
    >>> normalise(np.array([[1.0, 3.0]])).tolist()
    [[0.25, 0.75]]
    """
    with np.errstate(invalid="ignore"):
        return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


def _check_found(victims: Victims, found: npt.NDArray[np.int64]) -> None:
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
        error = standard_error(normalise(batches), n_chains)[victims.inverse]
    values = pd.Index(table.secret.domain.values, name=table.sensitive, tupleize_cols=False)
    if victims.index is None:
        out: pd.Series | pd.DataFrame = pd.Series(belief[0], index=values, name=name)
        out.attrs["mcse"] = MonteCarloErrors(pd.Series(error[0], index=values, name="mcse"))
        return out
    out = pd.DataFrame(belief, index=victims.index, columns=values)
    out.attrs["mcse"] = MonteCarloErrors(pd.DataFrame(error, index=victims.index, columns=values))
    return out
