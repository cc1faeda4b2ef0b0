"""Evidence weights: how much each attribute may count, learned from the release alone (MODEL 1.9).

The product model counts information shared by dependent attributes more than once. Weighted
evidence keeps its features, ``log lam_a(y | s) = log pi_a|s(y) - log m_a(y)``, and gives each
attribute one weight,

    L(s | y) = log pi_S(s) + sum_a eta_a log lam_a(y_a | s),    p(s | y) = softmax(L).

Weights of one are the product model; a weight of zero ignores an attribute. The features of a row
are computed from all other rows or, if cells cross, from the rows of other groups (`cell_lifts`),
so that no row contributes to its own prediction. The weights then maximise a held-out score: a
conditional logit with one coefficient per attribute, computed from distinct records. The same score
shows, without any cleartext, whether the weights are worthwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import xarray as xr
from scipy.special import ndtr, ndtri

from anonbayes.arrays import Floats, Ints
from anonbayes.errors import ModelError, one_of
from anonbayes.formats import weight_in_words
from anonbayes.inference.cell_lifts import CellLifts, has_crossing_sets, lift_cells
from anonbayes.inference.corrections import Corrections, Fold, learn_corrections
from anonbayes.inference.dirichlet import Prior, PriorLike, resolve_prior
from anonbayes.inference.features import (
    FLAT,
    Features,
    cell_groups,
    covariance_of_means,
    pooled_beta,
)
from anonbayes.inference.vertical.crossfit import CANDIDATES as VERTICAL_CANDIDATES
from anonbayes.inference.vertical.crossfit import CrossFit, cross_fit
from anonbayes.inference.vertical.group_layout import layout_of
from anonbayes.inference.weight_kernels import (
    CENTRE,
    SPREAD,
    derivatives,
    fold_error,
    left_out_scores,
    log_scores,
    maximise,
    maximise_alone,
    total_scores,
    unsettled,
)
from anonbayes.tables.table import ReleasedTable

if TYPE_CHECKING:
    from distributed import Client

__all__ = [
    "EVIDENCE",
    "EvidenceWeights",
    "Evidenced",
    "choose_evidence",
    "fit_weights",
]

EVIDENCE = ("auto", "independent", "weighted")
CANDIDATES = ("margin", "independent", "weighted")
LEAST_ROWS = 100
"""Least number of rows for comparing scores; smaller tables use independent evidence."""
LEAST_GROUPS = 20
"""Least number of groups of a vertical table for the same."""
CHAIN_ROWS = 100_000
"""Rows of an Anatomy release above which chains for independent evidence take CPU minutes."""
WORTH_CHAINS = 0.001
"""Nats per row by which independent evidence must then be better, besides the standard error."""
SWEEPS = 40
LEAST_UNIT, MATCHES, ROUGH = 0.1, 2, 0.1
FOLDS = 20
"""Number of parts of the rows, each left out once to estimate the error of the weights."""
PARTS = ("eta", "precision", "gradient", "unit", "error", "kappa", "alone", "added")


@dataclass(frozen=True, eq=False)
class EvidenceWeights:
    """How much each attribute counts, and how the kinds of evidence score on held-out rows.

    Returned by `fit_weights`. Near its mode the posterior of the weights is a normal distribution
    truncated at zero, ``exp(g'(x - eta) - (x - eta)' H (x - eta) / 2)`` for ``x >= 0``.

    Attributes
    ----------
    names : tuple of str
        Names of the attributes.
    eta : numpy.ndarray
        Exponents of the lifts, at the mode.
    precision, gradient : numpy.ndarray
        ``H`` and ``g`` at the mode; the gradient is zero unless a weight is held at zero.
    unit : numpy.ndarray
        What ``eta`` would be for each attribute if it repeated nothing that others say: pooling and
        hidden values make lifts flatter than the population's, noise makes them steeper.
    error : numpy.ndarray
        Standard error of ``eta / unit`` over repeated releases.
    kappa : numpy.ndarray
        Prior rows that each attribute takes from the population; NaN if it is not pooled.
    alone, added : numpy.ndarray
        Held-out log score (nats per row) that an attribute gains alone at full weight, and that it
        adds to the others with the weights.
    telling : numpy.ndarray
        Whether the attribute's cells differ between secrets at all.
    candidates : tuple of str
        The kinds of evidence that were scored.
    corrections : Corrections or None
        Corrections of single values, if they improve the prediction of held-out rows.
    score, score_covariance : numpy.ndarray
        Held-out log score per row of each candidate, and the covariance of these averages, in which
        rows with the same cells count as one observation.
    n_rows : int
        Number of rows scored.
    """

    names: tuple[str, ...]
    eta: Floats
    precision: Floats
    gradient: Floats
    unit: Floats
    error: Floats
    kappa: Floats
    alone: Floats
    added: Floats
    telling: npt.NDArray[np.bool_]
    candidates: tuple[str, ...]
    score: Floats
    score_covariance: Floats
    n_rows: int
    corrections: Corrections | None = None

    @cached_property
    def covariance(self) -> Floats:
        """Laplace covariance, before truncation at zero."""
        return np.asarray(np.linalg.inv(self.precision))

    @cached_property
    def standard_error(self) -> Floats:
        """Standard deviation of each exponent, after truncation at zero."""
        centre = self.eta + self.covariance @ self.gradient
        sd = np.sqrt(np.diag(self.covariance))
        low = -centre / sd
        # Mean and variance of a normal variable above `low`, by the inverse Mills ratio.
        tail = np.maximum(ndtr(-low), np.finfo(float).tiny)
        mills = np.exp(-0.5 * low**2) / np.sqrt(2 * np.pi) / tail
        far = low > 8.0  # there the tail is exponential
        variance = np.where(far, 1.0 / np.maximum(low, 1.0) ** 2, 1.0 + low * mills - mills**2)
        return np.asarray(sd * np.sqrt(np.maximum(variance, 0.0)))

    def draw(self, draws: int, rng: np.random.Generator) -> Floats:
        """Draw independently from the truncated Laplace posterior, shape ``(draws, A)``."""
        factor = np.linalg.cholesky(self.covariance)
        centre = self.eta + self.covariance @ self.gradient
        out = centre + rng.standard_normal((draws, len(self.eta))) @ factor.T
        if (out >= 0).all():
            return np.asarray(out)
        # Gibbs sweeps from the mode, for all draws in parallel: each weight is a truncated normal.
        out = np.tile(self.eta, (draws, 1))
        diagonal = np.diag(self.precision)
        for _ in range(SWEEPS):
            for a, weight in enumerate(diagonal):
                away = (out - centre) @ self.precision[a] - weight * (out[:, a] - centre[a])
                mean, sd = centre[a] - away / weight, 1.0 / np.sqrt(weight)
                # P(Z > z) = u P(Z > low), worked in the upper tail.
                tail = ndtr(mean / sd) * rng.uniform(size=draws)
                out[:, a] = np.maximum(mean - sd * ndtri(np.maximum(tail, 1e-300)), 0.0)
        return np.asarray(out)

    # -- which evidence --------------------------------------------------------------------

    def difference(self, one: str, other: str) -> tuple[float, float]:
        """Held-out log score per row of one candidate minus another, and its standard error."""
        i, j = self.candidates.index(one), self.candidates.index(other)
        c = self.score_covariance
        return (
            float(self.score[i] - self.score[j]),
            float(np.sqrt(max(c[i, i] + c[j, j] - 2 * c[i, j], 0.0))),
        )

    @property
    def preferred(self) -> str:
        """``"weighted"`` if it is better by more than the standard error, or saves much time."""
        gain, error = self.difference("weighted", "independent")
        enough = self.n_rows >= LEAST_ROWS and self.telling.sum() > 1
        better = gain > error and gain > FLAT
        return "weighted" if enough and (better or self._spares_chains) else "independent"

    @property
    def _spares_chains(self) -> bool:
        """Whether an Anatomy release is so large that a near tie goes to what needs no chains."""
        gain, error = self.difference("weighted", "independent")
        large = "random_worlds" in self.candidates and self.n_rows >= CHAIN_ROWS
        return large and gain >= -max(error, WORTH_CHAINS)

    @property
    def reason(self) -> str:
        """The reason for `preferred`, in a sentence."""
        gain, error = self.difference("weighted", "independent")
        if self.n_rows < LEAST_ROWS:
            verdict = f"{self.n_rows} rows are too few to tell"
        elif self.telling.sum() < 2:
            verdict = "with fewer than two informative attributes, nothing can be counted twice"
        elif self.preferred == "weighted" and gain > error and gain > FLAT:
            verdict = "better by more than its standard error"
        elif self.preferred == "weighted":
            verdict = "as good or nearly so, and needs no chains, which take long on so many rows"
        elif gain > 0:
            verdict = "not better by more than its standard error"
        else:
            verdict = "no better"
        single = ""
        if self.corrections is not None:
            single = f" ({self.corrections.gain:+.4f} by corrections of single values)"
        return (
            f"on held-out rows, weighted evidence scores {gain:+.4f} (s.e. {error:.4f}) nats per "
            f"row relative to independent evidence{single}: {verdict}"
        )

    # -- keeping them ----------------------------------------------------------------------

    def to_dataset(self) -> xr.Dataset:
        """Return everything as labelled arrays, for netCDF."""
        one, two = ("attribute",), ("attribute", "attribute_")
        known = self.corrections or Corrections((), 0.0, 0.0)
        return xr.Dataset(
            {name: (two if name == "precision" else one, getattr(self, name)) for name in PARTS}
            | {
                "telling": (one, self.telling.astype(np.int8)),
                "score": (("evidence",), self.score),
                "score_covariance": (("evidence", "evidence_"), self.score_covariance),
            }
            | {
                f"correction_{name}": (("secret", f"value_{name}"), values)
                for name, values in zip(self.names, known.values, strict=False)
            },
            coords={"attribute": list(self.names), "evidence": list(self.candidates)},
            attrs={"n_rows": self.n_rows, "variance": known.variance, "gain": known.gain},
        )

    @classmethod
    def from_dataset(cls, found: xr.Dataset) -> EvidenceWeights:
        """Restore the result of `to_dataset`."""
        arrays = {name: found[name].to_numpy() for name in PARTS}
        names = tuple(map(str, found["attribute"].to_numpy()))
        corrections = None
        if found.attrs.get("variance", 0.0) > 0:
            values = tuple(found[f"correction_{name}"].to_numpy() for name in names)
            corrections = Corrections(values, found.attrs["variance"], found.attrs["gain"])
        return cls(
            names=names,
            corrections=corrections,
            telling=found["telling"].to_numpy().astype(bool),
            candidates=tuple(map(str, found["evidence"].to_numpy())),
            score=found["score"].to_numpy(),
            score_covariance=found["score_covariance"].to_numpy(),
            n_rows=int(found.attrs["n_rows"]),
            **arrays,
        )

    # -- views -----------------------------------------------------------------------------

    @property
    def weights(self) -> pd.DataFrame:
        """One row per attribute: weight, standard error, gains in score, and meaning."""
        weight = self.eta / self.unit
        words = [
            weight_in_words(*one) for one in zip(weight, self.error, self.telling, strict=True)
        ]
        return pd.DataFrame(
            {
                "weight": weight,
                "se": self.error,
                "exponent": self.eta,
                "alone": self.alone,
                "added": self.added,
                "kappa": self.kappa,
                "meaning": words,
            },
            index=pd.Index(self.names, name="attribute"),
        )

    @property
    def scores(self) -> pd.DataFrame:
        """Held-out log score per row of each candidate, best first."""
        order = np.argsort(-self.score, kind="stable")
        best = self.candidates[order[0]]
        differences = [self.difference(self.candidates[i], best) for i in order]
        return pd.DataFrame(
            {
                "log_score": self.score[order],
                "difference": [d for d, _ in differences],
                "se": [e for _, e in differences],
            },
            index=pd.Index([self.candidates[i] for i in order], name="evidence"),
        )


def fit_weights(
    table: ReleasedTable,
    prior: Prior,
    *,
    plain: Prior | None = None,
    kappa: Floats | None = None,
    lifts: CellLifts | None = None,
    errors: bool = True,
    variance: float | None = None,
) -> EvidenceWeights:
    """Learn the weights of a horizontal table from its released rows (MODEL 1.9).

    Parameters
    ----------
    table : ReleasedTable
        What was released.
    prior : Prior
        Prior of weighted evidence, unless `lifts` are given.
    plain : Prior, optional
        Prior of independent evidence, if different.
    kappa : numpy.ndarray, optional
        Pooling returned by `pooled_beta` with the prior, to be stored with the weights.
    lifts : CellLifts, optional
        Cross-fitted features of weighted evidence, with their own pooling.
    errors : bool
        Whether to compute units and errors of the weights, which takes longer; else one and NaN.
    variance : float, optional
        ``tau^2`` of corrections, 0 for none, if known; their gain is then not computed.

    Returns
    -------
    EvidenceWeights
        The score of `independent` is the exact leave-one-out prediction of each row's secret. For
        `weighted`, the weights are also those estimated from the other rows, to first order. If
        cells cross, both predict from the rows of other groups, and `CellLifts.inside` is added.

    Examples
    --------
    >>> import anonbayes as ab
        >>> from anonbayes.inference.dirichlet import resolve_prior
        >>> table = ab.datasets.load("table1_recoded")
        >>> found = fit_weights(table, resolve_prior(table))
        >>> found.preferred
        'independent'
    """
    if lifts is None:
        features = Features.of(table, prior)
        rival = features if plain is None else Features.of(table, plain)
    else:
        features, rival = lifts.features, lifts.independent(table, plain or prior)
    eta, precision, gradient = maximise(features)
    size = len(eta)
    free = (eta > 0) | (gradient >= 0)
    covariance = np.zeros((size, size))
    covariance[np.ix_(free, free)] = np.linalg.inv(precision[np.ix_(free, free)])
    columns = np.stack(
        [
            log_scores(np.zeros(size), features),
            log_scores(np.ones(size), rival),
            left_out_scores(eta, covariance, features),
        ]
    )
    looked = errors or variance is None
    parts = _without_folds(table, prior, features, lifts) if looked else []
    learned, folds = None, []
    if variance is None:
        folds = [Fold(part.cell, features.rows - part.rows) for part in parts]
        folds = folds if lifts is None else lifts.folds()
    if folds or variance:
        codes = features.codes if lifts is None else lifts.codes
        learned = learn_corrections(table, features, codes, eta, folds, variance=variance)
    if learned is not None:
        columns[2] += learned[1]
    if lifts is not None:  # questions are about values, so what happens inside cells counts too
        columns[1:] += lifts.inside[:, lifts.record]
    n = features.rows.sum()
    kappa = kappa if lifts is None else lifts.kappa
    score = columns @ features.rows / n
    group = cell_groups(features.codes) if lifts is None else lifts.cluster[lifts.record]
    alone, added = np.zeros(size), np.zeros(size)
    whole = float(log_scores(eta, features) @ features.rows) / n
    telling = features.telling
    # Without an attribute the others move to the optimum of the same parabola.
    counted = np.flatnonzero(telling & (eta > 0))
    moved = eta - covariance[counted] / np.diag(covariance)[counted, None] * eta[counted, None]
    moved[np.arange(len(counted)), counted] = 0.0
    added[counted] = whole - _mean_scores(np.maximum(moved, 0.0), features)
    for a in np.flatnonzero(telling):
        lone = features.alone(int(a))
        alone[a] = float(log_scores(np.ones(1), lone) @ lone.rows) / n - score[0]
    unit, error = np.ones(size), np.full(size, np.nan)
    if errors:
        unit, error = _relative(table, prior, features, lifts, eta, precision, parts)
    found = EvidenceWeights(
        names=tuple(table.attributes),
        eta=eta,
        precision=precision,
        gradient=gradient,
        unit=unit,
        error=error,
        kappa=np.full(size, np.nan) if kappa is None else np.asarray(kappa, dtype=float),
        alone=alone,
        added=added,
        telling=telling,
        candidates=CANDIDATES,
        score=score,
        score_covariance=covariance_of_means(columns, features.rows, group),
        n_rows=round(n),
    )
    known = (eta > 0) & np.isfinite(error)  # otherwise the posterior's, given the lifts
    own = np.where(known, error, found.standard_error / unit) if errors else error
    return replace(found, error=own, corrections=None if learned is None else learned[0])


def _mean_scores(etas: Floats, features: Features) -> Floats:
    """Mean log score of a row under each of several weights."""
    n = features.rows.sum()
    if len(features.likelihood):
        return np.array([log_scores(eta, features) @ features.rows for eta in etas]) / n
    return np.asarray(total_scores(np.ascontiguousarray(etas), features) / n)


def _without_folds(
    table: ReleasedTable, prior: Prior, features: Features, lifts: CellLifts | None
) -> list[Features]:
    """Features without each fold; empty if they could be obtained only by sampling."""
    if lifts is not None:
        return list(lifts.without_folds())
    nested = all(column.evidence.is_nested for column in table.columns.values())
    if not (nested and table.secrets_known):
        return []
    return list(features.without_folds(table, prior, FOLDS))


def _relative(
    table: ReleasedTable,
    prior: Prior,
    features: Features,
    lifts: CellLifts | None,
    eta: Floats,
    precision: Floats,
    parts: list[Features],
) -> tuple[Floats, Floats]:
    """`EvidenceWeights.unit`, and the jackknife error of the weights; NaN if not nested.

    Alone, an attribute repeats nothing. Cells that cross were also cut by the values of the others,
    so their weights are those that simulated tables need for the same exponents: half-way between
    simulations from pooled lifts, which are too flat, and from rough ones; the difference is added
    to the error.
    """
    size = len(eta)
    doubt = np.zeros(size)
    if lifts is not None:
        both = []
        for pooling in (1.0, ROUGH):
            weights = np.minimum(eta, 1.0)
            for _ in range(MATCHES):
                found = [
                    maximise(one)[0] for one in lifts.simulated(table, prior, weights, pooling)
                ]
                weights = weights * eta / np.maximum(np.mean(found, axis=0), LEAST_UNIT)
            both.append(weights)
        weights, doubt = np.mean(both, axis=0), np.abs(both[0] - both[1]) / 2
        unit = np.where(weights > 0, eta / np.where(weights > 0, weights, 1.0), 1.0)
    else:
        unit = np.array([maximise(features.alone(a))[0][0] for a in range(size)])
    unit = np.maximum(unit, LEAST_UNIT)
    if not parts:
        return unit, np.full(size, np.nan)
    moved, free = [], eta > 0
    prior_part = unsettled(precision, SPREAD) / unit
    own = np.tile(unit, (len(parts), 1))
    if lifts is None:
        own = np.maximum([maximise_alone(parts, a) for a in range(size)], LEAST_UNIT).T
    for part, of_part in zip(parts, own, strict=True):
        gradient, observed = np.empty(size), np.empty((size, size))
        derivatives(eta, part, gradient, np.empty((size, size)), observed)
        step = np.zeros(size)
        curve = (observed + np.eye(size) / SPREAD**2)[np.ix_(free, free)]
        step[free] = np.linalg.solve(curve, (gradient - (eta - CENTRE) / SPREAD**2)[free])
        moved.append((eta + step) / of_part)
    return unit, np.sqrt(fold_error(np.array(moved)) ** 2 + doubt**2 + prior_part**2)


class Evidenced(NamedTuple):
    """Evidence and prior of a fit.

    Attributes
    ----------
    evidence : {"independent", "weighted"}
        Kind of evidence.
    prior : Prior
        The corresponding prior.
    weights : EvidenceWeights or None
        Estimated weights and scores; None if they were not computed.
    pooled : bool
        Whether the prior shrinks rare secrets to the population.
    crossfit : CrossFit or None
        For a vertical table, the beliefs that belong to the weights.
    lifts : CellLifts or None
        For a horizontal table, the lifts that belong to the weights, unless the prior is given.
    """

    evidence: str
    prior: Prior
    weights: EvidenceWeights | None = None
    pooled: bool = False
    crossfit: CrossFit | None = None
    lifts: CellLifts | None = None

    def features(self, table: ReleasedTable) -> Features:
        """Return the features of the records for which the weights were estimated."""
        return Features.of(table, self.prior) if self.lifts is None else self.lifts.features

    def cells(self, table: ReleasedTable) -> Ints:
        """Return the cells of the records of `features`, numbered as in the table."""
        return self.features(table).codes if self.lifts is None else self.lifts.codes

    def scaled(self, table: ReleasedTable, alpha: float, beta: float) -> Evidenced:
        """Return the same with prior weights, and pooling, multiplied by two factors."""
        prior = Prior(
            self.prior.alpha * alpha, {name: w * beta for name, w in self.prior.beta.items()}
        )
        if self.weights is None or (self.crossfit is None and self.lifts is None):
            return self._replace(prior=prior)
        if self.crossfit is not None:
            found = self.crossfit.pooled_more(layout_of(table), beta)
            eta = replace(self.weights, eta=found.weights, kappa=found.pooling)
            return self._replace(prior=prior, weights=eta, crossfit=found)
        assert self.lifts is not None
        lifts = lift_cells(table, prior, rounds=self.lifts.rounds, kappa=self.lifts.kappa * beta)
        mode, precision, gradient = maximise(lifts.features)
        eta = replace(
            self.weights, eta=mode, precision=precision, gradient=gradient, kappa=lifts.kappa
        )
        return self._replace(prior=prior, weights=eta, lifts=lifts)


def choose_evidence(
    table: ReleasedTable,
    *,
    evidence: str = "auto",
    alpha: PriorLike = 1.0,
    beta: PriorLike | None = None,
    errors: bool = True,
    variance: float | None = None,
    client: Client | None = None,
) -> Evidenced:
    """Choose evidence and prior of a fit.

    Parameters
    ----------
    table : ReleasedTable
        What was released.
    evidence : {"auto", "independent", "weighted"}
        ``"auto"`` chooses weighted evidence if its held-out score is better by more than the
        standard error. For an Anatomy release of 100,000 rows or more, it also does so if weighted
        evidence is worse by less than the standard error or 0.001 nats, because independent
        evidence needs chains.
    alpha, beta
        Prior weights; see `resolve_prior`. ``beta="pooled"`` gives ``kappa_a m_a``. By default
        independent evidence has weights of one, as in Groups, and weighted evidence is pooled; if
        cells cross, lifts are pooled one by one (`lift_cells`).
    errors, variance : bool, float
        Whether to compute errors of the weights of a horizontal table, and the known ``tau^2`` of
        corrections; see `fit_weights`.
    client : distributed.Client, optional
        Cluster on which a vertical table is cross-fitted.

    Examples
    --------
    >>> import anonbayes as ab
    >>> choose_evidence(ab.datasets.load("table1_recoded")).evidence
    'independent'
    """
    one_of("evidence", evidence, EVIDENCE)
    if isinstance(beta, str) and beta != "pooled":
        raise ModelError(f"beta={beta!r} must be numbers or 'pooled'.")
    pool = isinstance(beta, str)
    plain = resolve_prior(table, alpha=alpha, beta=1.0 if beta is None or pool else beta)
    if table.scheme == "vertical":
        prior = _pooled_items(table, plain) if pool else plain
        return _vertical_evidence(table, evidence, prior, pool, client)
    free = pool or beta is None
    if evidence == "independent" and not pool:
        return Evidenced("independent", plain)
    kappa, pooled = None, plain
    if free:
        betas, kappa = pooled_beta(table, plain)
        pooled = Prior(plain.alpha, betas)
    own = pooled if pool else plain
    if evidence == "independent":
        return Evidenced("independent", own, None, pool)
    lifts = lift_cells(table, plain) if free and has_crossing_sets(table) else None
    weights = fit_weights(
        table, pooled, plain=own, kappa=kappa, lifts=lifts, errors=errors, variance=variance
    )
    chosen = weights.preferred if evidence == "auto" else "weighted"
    if chosen == "independent":
        return Evidenced(chosen, own, weights, pool)
    return Evidenced(chosen, pooled, weights, free, lifts=lifts)


def _vertical_evidence(
    table: ReleasedTable, evidence: str, prior: Prior, pooled: bool, client: Client | None
) -> Evidenced:
    """Cross-fit weights and beliefs of a vertical table, if asked for and possible."""
    layout = layout_of(table)
    small = table.n_rows < LEAST_ROWS or layout.n_groups < LEAST_GROUPS or not table.attributes
    if evidence == "independent" or (evidence == "auto" and small):
        return Evidenced("independent", prior, None, pooled)
    beta = layout.flatten([prior.beta[name] for name in table.attributes])
    here = client is None
    found = (
        crossfit_of(table, beta.tobytes()) if here else cross_fit(layout, beta=beta, client=client)
    )
    weights = crossfit_weights(table, found)
    chosen = weights.preferred if evidence == "auto" else "weighted"
    return Evidenced(chosen, prior, weights, pooled, found if chosen == "weighted" else None)


@lru_cache(maxsize=1)
def crossfit_of(table: ReleasedTable, beta: bytes) -> CrossFit:
    """`cross_fit` a vertical table; the last result is cached, for a model and its steps."""
    return cross_fit(layout_of(table), beta=np.frombuffer(beta))


def crossfit_weights(table: ReleasedTable, found: CrossFit) -> EvidenceWeights:
    """Convert the weights and scores of a cross-fit to the form used for all tables."""
    n, scores = table.n_rows, found.group_scores
    lifts = layout_of(table).split(found.left_out_lifts)
    return EvidenceWeights(
        names=tuple(table.attributes),
        eta=found.weights,
        precision=found.precision,
        gradient=found.gradient,
        unit=found.unit,
        error=found.error,
        kappa=found.pooling,
        alone=found.alone / n,
        added=found.added / n,
        telling=np.array([bool(np.ptp(lift) > FLAT) for lift in lifts]),
        candidates=VERTICAL_CANDIDATES,
        score=scores.sum(axis=0) / n,
        score_covariance=np.atleast_2d(np.cov(scores.T)) * len(scores) / n**2,
        n_rows=n,
    )


def _pooled_items(table: ReleasedTable, prior: Prior) -> Prior:
    """Prior of a vertical table from the items' own distribution, with the weight of ones."""
    betas = {}
    for name, column in table.columns.items():
        count = 1.0 + table.tally(column.codes, len(column.evidence)) @ column.evidence.matrix
        betas[name] = np.tile(len(count) * count / count.sum(), (len(table.secret.domain), 1))
    return Prior(prior.alpha, betas)
