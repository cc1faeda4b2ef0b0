"""The ideal learner, who sees the cleartext: the yardstick of what a release keeps.

``p_I(s, r | t) = (alpha_s + gamma_s)/(alpha_0 + N) * prod_a (beta + delta)/(beta_0 + gamma_s)``:
Groups (19), (20) with several attributes (MODEL 1.5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from anonbayes.arrays import Floats
from anonbayes.domains import Domain
from anonbayes.errors import TableError
from anonbayes.inference.beliefs.belief import normalise
from anonbayes.inference.beliefs.victims import Victims, read_victims
from anonbayes.inference.priors import Prior, PriorLike, resolve_prior
from anonbayes.release.build import check_column, check_frame
from anonbayes.release.columns import Column
from anonbayes.release.evidence import Evidence
from anonbayes.release.table import ReleasedTable
from anonbayes.risk.truth import Truth, clear_release, read_truth

__all__ = ["Ideal", "ideal", "ideal_of"]


@dataclass(frozen=True, eq=False, repr=False)
class Ideal:
    """What can be learned of the population from the cleartext itself, in closed form.

    Attributes
    ----------
    table : ReleasedTable
        The cleartext as a release that hides nothing.
    prior : Prior
        Weights before it was seen.
    secret_mean : numpy.ndarray
        ``E[pi_S | t]``, shape ``(S,)``.
    means : tuple of numpy.ndarray
        ``E[pi_a | t]`` per attribute, shape ``(S, K)``.
    """

    table: ReleasedTable
    prior: Prior
    secret_mean: Floats
    means: tuple[Floats, ...]

    def belief(
        self, victim: Mapping[str, Any] | pd.Series | pd.DataFrame
    ) -> pd.Series | pd.DataFrame:
        """``p_I(s | r, t)`` of one victim or of a frame of victims.

        Victims are described as in `Posterior.learner`; the result is exact.
        """
        victims = read_victims(self.table, victim)
        found = normalise(self.weights(victims))[victims.inverse]
        values = pd.Index(
            self.table.secret.domain.values, name=self.table.sensitive, tupleize_cols=False
        )
        if victims.index is None:
            return pd.Series(found[0], index=values, name="ideal")
        return pd.DataFrame(found, index=victims.index, columns=values)

    def weights(self, victims: Victims) -> Floats:
        """``p_I(s, what is known)`` of each distinct victim, shape ``(victims, S)``."""
        out = np.tile(self.secret_mean, (len(victims), 1))
        for a, mean in enumerate(self.means):
            out *= (victims.weights[a] @ mean.T)[victims.codes[:, a]]
        return out

    def __repr__(self) -> str:
        return f"Ideal({self.table.n_rows:,} rows, sensitive={self.table.sensitive!r})"


def ideal(
    cleartext: pd.DataFrame,
    *,
    sensitive: str | None = None,
    table: ReleasedTable | None = None,
    domains: Mapping[str, Domain | Iterable[Any]] | None = None,
    alpha: PriorLike = 1.0,
    beta: PriorLike = 1.0,
    weights: str | None = None,
) -> Ideal:
    """Learn from the cleartext, as nobody but the evaluator can (Groups (19), (20)).

    Parameters
    ----------
    cleartext : pandas.DataFrame
        One row per person.
    sensitive : str, optional
        The sensitive column; needed unless `table` is given.
    table : ReleasedTable, optional
        A release of the cleartext, whose attributes and domains are used.
    domains : mapping, optional
        Possible values of a column, those seen by default. Not with `table`.
    alpha, beta
        Prior weights as in `fit`.
    weights : str, optional
        Column of the cleartext that says how many people a row stands for.

    Examples
    --------
    >>> import anonbayes as ab
    >>> best = ab.ideal(ab.datasets.load("table1"), sensitive="Dis")
    >>> best.belief({"Nat": "M", "ZIP": "45501"}).idxmax()
    'Heart'
    """
    if (sensitive is None) == (table is None):
        raise TableError("Name the sensitive column (sensitive=) or give a release (table=).")
    if table is None:
        check_frame(cleartext, "The cleartext table")
        assert sensitive is not None
        check_column(cleartext, sensitive, "sensitive")
        if weights is not None:
            check_column(cleartext, weights, "weights")
        shown = cleartext if weights is None else cleartext.drop(columns=weights)
        table = _shape(shown, sensitive, domains or {})
    elif domains is not None:
        raise TableError("domains= are those of table=; give only one of both.")
    return ideal_of(table, read_truth(table, cleartext, weights=weights), alpha=alpha, beta=beta)


def ideal_of(
    table: ReleasedTable,
    truth: Truth,
    *,
    prior: Prior | None = None,
    alpha: PriorLike = 1.0,
    beta: PriorLike = 1.0,
) -> Ideal:
    """`ideal` of a cleartext that has been encoded, with the prior of a posterior or a new one."""
    trivial = clear_release(table, list(truth.codes.T), truth.secret, truth.weights)
    known = resolve_prior(trivial, alpha=alpha, beta=beta) if prior is None else prior
    secret = known.alpha + trivial.secret_counts
    means = []
    for name in trivial.attributes:
        weight = known.beta[name] + trivial.counts[name].toarray().T
        means.append(weight / weight.sum(axis=1, keepdims=True))
    return Ideal(trivial, known, secret / secret.sum(), tuple(means))


def _shape(
    frame: pd.DataFrame, sensitive: str, domains: Mapping[str, Domain | Iterable[Any]]
) -> ReleasedTable:
    """One-row release that carries nothing but the domains of a cleartext frame."""

    def domain(name: str) -> Domain:
        given = domains.get(name)
        if given is None:
            return Domain.infer(name, frame[name])
        return given if isinstance(given, Domain) else Domain(name, given)

    one = np.zeros(1, dtype=np.int64)
    return ReleasedTable(
        "horizontal",
        sensitive,
        {c: Column(Evidence.exact(domain(c)), one) for c in frame.columns if c != sensitive},
        Column(Evidence.exact(domain(sensitive)), one),
        one.astype(np.int32),
        pd.RangeIndex(1),
    )
