"""Beliefs as labelled probabilities, with Monte-Carlo errors and credible intervals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from anonbayes.arrays import Floats, Ints, read_whole
from anonbayes.beliefs.attacker import attacker_weights, draw_weights, matched, worlds_apart
from anonbayes.beliefs.learner import correction_draws, eta_draws, learner_weights
from anonbayes.beliefs.victims import Victims, read_victims, secret_weights, standard_error
from anonbayes.errors import AnonbayesError, ModelError, TableError, one_of
from anonbayes.inference.vertical.crossfit import left_out_ownership
from anonbayes.inference.vertical.group_layout import layout_of
from anonbayes.inference.weight_kernels import record_tilts, weighted_joint

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior
    from anonbayes.tables.table import ReleasedTable

TINY = np.finfo(float).tiny
Victim = Mapping[str, Any] | pd.Series | pd.DataFrame
Secret = Mapping[Any, float] | set[Any] | None


@dataclass(frozen=True, eq=False)
class MonteCarloErrors:
    """Standard errors of a belief, in its ``attrs["mcse"]`` and labelled like the belief.

    Wrapped, because pandas copies and compares ``attrs``, which fails for a DataFrame.
    """

    frame: pd.Series | pd.DataFrame

    def to_numpy(self) -> Floats:
        """Return the errors as an array."""
        return self.frame.to_numpy(dtype=np.float64)

    def max(self) -> float:
        """Return the largest error."""
        return float(self.to_numpy().max())

    def __deepcopy__(self, memo: dict[int, object]) -> MonteCarloErrors:
        return self  # pandas copies attrs in every operation


def learner_belief(
    post: Posterior, victim: Victim, *, kind: str = "predictive"
) -> pd.Series | pd.DataFrame:
    """Belief of a learner, who knows the population but not whether a person is in the table.

    Parameters
    ----------
    victim : mapping, pandas.Series or pandas.DataFrame
        What is known about one person (mapping or Series) or several (DataFrame):
        ``{attribute: value | set of values | {value: weight}}``; a missing attribute is unknown.
    kind : {"predictive", "conditional"}
        ``"predictive"``: Groups (9), ``p_L(s, r) / sum_s' p_L(s', r)``; ``"conditional"``: Groups
        (6), ``E[f(s | r, pi)]``.

    Returns
    -------
    pandas.Series or pandas.DataFrame
        Probability of each sensitive value (for several people, one row each).
        ``.attrs["mcse"]`` holds its Monte-Carlo standard error, zero where it is exact.

    Examples
    --------
    >>> import anonbayes as ab
    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> post.learner({"Nat": "M", "ZIP": "45501"}).round(2).to_dict()
    {'Heart': 0.33, 'Flu': 0.33, 'Stomach': 0.11, 'HIV': 0.11, 'Diabetes': 0.11}
    """
    victims = read_victims(post.table, victim)
    weights, batches = learner_weights(post, victims, kind)
    return _labelled(post.table, victims, weights, batches, None, "learner", post.n_chains)


def attacker_belief(
    post: Posterior, victim: Victim, *, secret: Secret = None, group: object = None
) -> pd.Series | pd.DataFrame:
    """Belief of an attacker, who knows that the victim is in the table (Groups (8), (15)).

    Parameters
    ----------
    victim : mapping, pandas.Series or pandas.DataFrame
        What is known about one victim or several, as in `learner`.
    secret : mapping or set, optional
        Further knowledge about the secret: the set of possible values, or ``{value: weight}``,
        where omitted values have weight 1.
    group : optional
        In a vertical table, the group that the victim is known to be in: one label for all, one
        per victim, or the column of the frame with the labels. By default, any group that fits.

    Returns
    -------
    pandas.Series or pandas.DataFrame
        As in `learner`.

    Examples
    --------
    >>> import anonbayes as ab
    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> post.attacker({"Nat": "M", "ZIP": "45501"}).round(2).to_dict()
    {'Heart': 0.58, 'Flu': 0.42, 'Stomach': 0.0, 'HIV': 0.0, 'Diabetes': 0.0}
    """
    victims = read_victims(post.table, victim, group=group)
    extra = secret_weights(post.table, secret)
    weights, batches, found = attacker_weights(post, victims)
    _check_found(victims, found)
    return _labelled(post.table, victims, weights, batches, extra, "attacker", post.n_chains)


def random_worlds_belief(
    post: Posterior, victim: Victim, *, secret: Secret = None, group: object = None
) -> pd.Series | pd.DataFrame:
    """Belief of an attacker for whom all compatible cleartext tables are equally likely.

    Parameters and result are those of `attacker`, but the result is always exact.

    Examples
    --------
    >>> import anonbayes as ab
    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> post.random_worlds({"Nat": "M", "ZIP": "45501"}).to_dict()
    {'Heart': 0.5, 'Flu': 0.5, 'Stomach': 0.0, 'HIV': 0.0, 'Diabetes': 0.0}
    """
    victims = read_victims(post.table, victim, group=group)
    extra = secret_weights(post.table, secret)
    weights, found = worlds_apart(post, victims)
    _check_found(victims, found)
    return _labelled(post.table, victims, weights, None, extra, "random worlds")


def belief_intervals(
    post: Posterior,
    victim: Victim,
    *,
    who: str = "attacker",
    probability: float = 0.9,
    draws: int = 200,
    group: object = None,
) -> pd.DataFrame:
    """Credible intervals of a belief, over the uncertainty about population and weights.

    Parameters
    ----------
    victim : mapping, pandas.Series or pandas.DataFrame
        What is known about one victim or several, as in `learner`.
    who : {"attacker", "learner"}
        Whose belief it is.
    probability : float
        Probability of the interval; equal tails.
    draws : int
        Number of posterior draws of population and weights to use.
    group : optional
        Group of the victim in a vertical table, as in `attacker`.

    Returns
    -------
    pandas.DataFrame
        Columns ``lower`` and ``upper``, indexed by sensitive value (for several victims, by victim
        and sensitive value).

    Examples
    --------
    >>> import anonbayes as ab
    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> post.intervals({"Nat": "M", "ZIP": "45501"}).loc["Heart"].between(0.0, 1.0).all()
    np.True_
    """
    one_of("who", who, ("attacker", "learner"))
    if not 0 < probability < 1:
        raise AnonbayesError(f"probability={probability!r} must lie strictly between 0 and 1.")
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
        who = "What"
        if victims.index is not None:
            rows = np.flatnonzero(np.isin(victims.inverse, lost))
            who = f"Victim {victims.index[rows[0]]!r} ({len(rows)} of {len(victims.inverse)}): what"
        raise TableError(
            f"{who} is known fits no row of the released table"
            f"{'' if victims.group is None else ' in that group'}, so the victim cannot be in it. "
            "Check the values, or use a set of values where you are unsure."
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
                "secret= rules out every sensitive value that is possible for the victim; give "
                "some of them a weight above 0."
            )
    belief = normalise(weights)
    error = np.zeros_like(belief)
    if batches is not None:
        error = standard_error(batches, n_chains)
    out = labelled(table, victims, belief, name)
    out.attrs["mcse"] = MonteCarloErrors(labelled(table, victims, error, "mcse"))
    return out


def labelled(
    table: ReleasedTable, victims: Victims, numbers: Floats, name: str
) -> pd.Series | pd.DataFrame:
    """Label the numbers of distinct victims, ``(victims, S)``, with the victims asked about."""
    asked = numbers[victims.inverse]
    if victims.index is None:
        return pd.Series(asked[0], index=_secrets(table), name=name)
    return pd.DataFrame(asked, index=victims.index, columns=_secrets(table))


def _secrets(table: ReleasedTable) -> pd.Index:
    return pd.Index(table.secret.domain.values, name=table.sensitive, tupleize_cols=False)


# -- draw by draw -------------------------------------------------------------------------------
#
# Beliefs average over draws. Here each draw of ``pi``, and of the weights if evidence is weighted,
# gives its own beliefs, whose quantiles form intervals.


def belief_draws(post: Posterior, victims: Victims, draws: int) -> Iterator[tuple[Floats, Floats]]:
    """Unnormalised beliefs of attacker and learner, ``(victims, S)`` each, under single draws.

    Uses at most `draws` of all draws, spread evenly over the chains.
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
    eta, corrections = eta_draws(post), correction_draws(post)
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
    """Probabilities of who owns what in a vertical table, under one draw of population and weights.

    Cross-fitted groups use the lifts learned from the other folds, shifted by the draw.
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
    # Units below one correct for noise in the lifts, which leaves the uncertainty unchanged.
    steep = np.minimum(post.evidence_weights.unit, 1.0)[attribute]

    register = post.register

    def by_release(score: Floats) -> sparse.csr_array:
        return layout.ownership(left_out_ownership(layout, fold, score))

    corrects = register is not None and register.corrects
    owned = register.told.ownership(layout, fold) if register and corrects else by_release

    def weighted(where: tuple[int, int]) -> sparse.csr_array:
        drawn = layout.flatten([p[where] for p in pi])
        moved = np.log(np.maximum(drawn, TINY) / np.maximum(centre, TINY))
        return owned((lifts + moved / steep) * eta[where][attribute])

    return weighted
