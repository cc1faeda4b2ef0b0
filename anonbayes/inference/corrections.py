"""Corrections of weighted evidence, value by value (MODEL 1.9).

One weight per attribute cannot say that a single value tells more, or less, beside the others. So
the score has a second part, shrunk towards nothing,

    L(s | y) = log pi_S(s) + sum_a eta_a log lam_a(y_a | s) + sum_a c_a(y_a, s),

where ``c_a(y, s)`` is the mean of ``c_a(k, s) ~ N(0, tau^2)`` over the values k of the cell, by
their marginal. With ``tau = 0`` this is weighted evidence; with ``eta = 0`` it would be a
multinomial logistic regression. ``tau`` has the best score on folds of the rows that were left out
of lifts and corrections; where that is not better than no corrections by more than its standard
error, there are none.

Draws are normal at the mode, given the weights at theirs, with the curvature at the shares of the
secrets: along each direction in which cells can be told apart, ``n (diag(pi_S) - pi_S pi_S') +
I / tau^2``.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy import sparse
from scipy.linalg import block_diag
from scipy.optimize import minimize
from scipy.special import logsumexp

from anonbayes.arrays import Floats, Ints
from anonbayes.inference.features import (
    Features,
    cell_groups,
    covariance_of_means,
    marginal_of,
)
from anonbayes.tables.table import ReleasedTable

__all__ = ["Corrections", "Fold", "cell_shares", "learn_corrections"]

VARIANCES = (0.01, 0.03, 0.1, 0.3)
"""Values of ``tau^2`` that are tried."""
MOST_PARAMETERS, MOST_NUMBERS = 1500, 20_000_000
"""Values (or cells) of all attributes, and records times secrets, beyond which nothing is done.
Draws of more numbers are not made, either: corrections are then taken as known."""
SEARCH = {"maxiter": 60, "ftol": 1e-7, "gtol": 1e-2}


class Corrections(NamedTuple):
    """What is added to the log lifts.

    Attributes
    ----------
    values : tuple of numpy.ndarray
        ``c_a(k, s)`` of each attribute, shape ``(S, K_a)``.
    variance : float
        ``tau^2``.
    gain : float
        By how much they improve the held-out log score, in nats per row.
    """

    values: tuple[Floats, ...]
    variance: float
    gain: float

    def draw(
        self, table: ReleasedTable, size: tuple[int, int], rng: np.random.Generator
    ) -> list[Floats]:
        """Draws of each attribute's corrections, ``(chains, draws, S, K_a)``; none if too many."""
        whole = np.concatenate(self.values, axis=1)
        if size[0] * size[1] * whole.size > MOST_NUMBERS:
            return []
        seen = _directions(table)
        share = table.secret_counts / table.secret_counts.sum()
        steep, turn = np.linalg.eigh(np.diag(share) - np.outer(share, share))
        narrow = 1.0 / np.sqrt(1.0 + self.variance * np.outer(np.maximum(steep, 0.0), seen.stretch))
        # Along the eigenvectors of the secrets (rows) and of the cells; the rest is the prior's.
        drawn = rng.standard_normal((*size, *whole.shape))
        drawn += ((narrow - 1.0) * (drawn @ seen.spread.T)) @ seen.spread
        drawn = whole + np.sqrt(self.variance) * (turn @ drawn)
        ends = np.cumsum([values.shape[1] for values in self.values])[:-1]
        return np.split(drawn, ends, axis=-1)


class Fold(NamedTuple):
    """Log lifts of all cells without a fold's rows, and how many rows of each record it holds."""

    cell: Floats
    held: Floats


def cell_shares(table: ReleasedTable) -> list[sparse.csr_array]:
    """``m(k) E_y(k) / m(y)`` of the cells of each attribute."""
    out = []
    for column in table.columns.values():
        rows = table.tally(column.codes, len(column.evidence)).astype(np.float64)
        marginal = marginal_of(column.evidence, rows)
        inside = column.evidence.matrix.multiply(marginal[None, :]).tocsr()
        out.append(sparse.csr_array(inside.multiply(1.0 / inside.sum(axis=1)[:, None])))
    return out


class _Directions(NamedTuple):
    """In which directions the cells of a table can be told apart: as many as cells, or values.

    `basis` has a row per cell, `spread` a column per value, and `stretch` is the sum over rows of
    the squares along each: the curvature is diagonal.
    """

    basis: Floats
    spread: Floats
    stretch: Floats


@lru_cache(maxsize=1)
def _directions(table: ReleasedTable) -> _Directions:
    halves = [np.linalg.svd(one.toarray(), full_matrices=False) for one in cell_shares(table)]
    basis = block_diag(*(u * d for u, d, _ in halves))
    start = np.cumsum([0, *(len(u) for u, _, _ in halves)])[:-1]
    codes, rows = table.records.codes + start, table.records.count
    cells = _indicators(codes, len(basis))
    together = sparse.csr_array(cells.T.multiply(rows[None, :])) @ cells
    stretch, turn = np.linalg.eigh(basis.T @ (together @ basis))
    spread = turn.T @ block_diag(*(v for _, _, v in halves))
    return _Directions(basis @ turn, spread, np.maximum(stretch, 0.0))


def _indicators(codes: Ints, n_cells: int) -> sparse.csr_array:
    ends = np.arange(0, codes.size + 1, codes.shape[1])
    return sparse.csr_array((np.ones(codes.size), codes.ravel(), ends), shape=(len(codes), n_cells))


def learn_corrections(
    table: ReleasedTable,
    features: Features,
    codes: Ints,
    eta: Floats,
    folds: list[Fold],
    *,
    variance: float | None = None,
) -> tuple[Corrections, Floats] | None:
    """Learn corrections from released rows, and what they gain for each record held out.

    None if held-out rows are not predicted better by more than the standard error of the gain.

    Parameters
    ----------
    table : ReleasedTable
        A horizontal table whose secrets are known.
    features : Features
        Of its records, each row's own taken out.
    codes : numpy.ndarray
        Cells of the records, numbered as in the table.
    eta : numpy.ndarray
        Weights of the attributes.
    folds : list of Fold
        Parts of the rows, and what the others say.
    variance : float, optional
        ``tau^2``, where it need not be looked for.
    """
    size, rows, secret = len(features.share), features.rows, features.secret
    shapes = [(len(c.evidence), len(c.domain)) for c in table.columns.values()]
    ranks = sum(min(shape) for shape in shapes)
    if ranks > MOST_PARAMETERS or len(rows) * size > MOST_NUMBERS:
        return None
    basis, spread, stretch = _directions(table)
    cells = _indicators(codes, len(basis))
    common = np.exp(features.share - np.logaddexp.reduce(features.share))
    rival = _Ridge(codes, secret, basis, stretch[:, None] * (common * (1.0 - common)))
    nothing = np.zeros((len(stretch), size))
    points = [nothing] * len(folds)
    levels = [_level(features.share, eta, [fold.cell[c] for c in codes.T]) for fold in folds]
    before = [_own_scores(level, secret) for level in levels]
    best: tuple[float, float | None, Floats] = (0.0, variance, np.zeros(len(rows)))
    before_it = -np.inf
    for tried in VARIANCES if variance is None else ():
        gain = np.zeros(len(rows))
        for f, fold in enumerate(folds):
            points[f] = rival.maximise(levels[f], rows - fold.held, tried, points[f])
            after = _own_scores(levels[f] + cells @ (basis @ points[f]), secret)
            gain += fold.held * (after - before[f])
        if gain.sum() > best[0]:
            best = (float(gain.sum()), tried, gain / rows)
        if gain.sum() < before_it:  # beyond the best one, scores only fall
            break
        before_it = float(gain.sum())
    total, chosen, gain = best
    if chosen is None:
        return None
    if variance is None:
        error = rows.sum() * np.sqrt(
            covariance_of_means(gain[None], rows, cell_groups(codes))[0, 0]
        )
        if total <= error:
            return None
    variance = chosen
    level = _level(features.share, eta, [features.cell[c] for c in features.codes.T])
    step = features.share_step[secret] + features.step[features.codes, secret[:, None]] @ eta
    level[np.arange(len(level)), secret] += step
    point = rival.maximise(level, rows, variance, nothing)
    ends = np.cumsum([width for _, width in shapes])[:-1]
    values = tuple(np.ascontiguousarray(c) for c in np.split(point.T @ spread, ends, axis=1))
    return Corrections(values, variance, float(gain @ rows / rows.sum())), gain


def _level(share: Floats, eta: Floats, logs: list[Floats]) -> Floats:
    """``log pi_S(s) + sum_a eta_a log lam_a`` of every record."""
    return share + sum(
        (weight * x for weight, x in zip(eta, logs, strict=True)), np.zeros((len(logs[0]), 1))
    )


def _own_scores(level: Floats, secret: Ints) -> Floats:
    """Log probability of each record's own secret."""
    return np.asarray(level[np.arange(len(level)), secret] - logsumexp(level, axis=1))


class _Ridge(NamedTuple):
    """Penalised logit of corrections beside a given level, in the eigenvectors of its curvature.

    With the records' shares in place of their beliefs, the curvature of the score is `curve` along
    the columns of `basis`: in its units a few steps of L-BFGS are enough.
    """

    codes: Ints
    secret: Ints
    basis: Floats
    curve: Floats

    def maximise(self, level: Floats, rows: Floats, variance: float, start: Floats) -> Floats:
        """Mode of the corrections along the columns of `basis`."""
        unit = 1.0 / np.sqrt(self.curve + 1.0 / variance)
        slope = np.empty((len(self.basis), level.shape[1]))

        def loss(x: Floats) -> tuple[float, Floats]:
            point = unit * x.reshape(unit.shape)
            tilt = self.basis @ point
            value = _score_slope(level, self.codes, self.secret, rows, tilt, slope)
            value -= 0.5 * float((point**2).sum()) / variance
            return -value, -(unit * (self.basis.T @ slope - point / variance)).ravel()

        best = minimize(loss, (start / unit).ravel(), jac=True, method="L-BFGS-B", options=SEARCH)
        return np.asarray(unit * best.x.reshape(unit.shape))


@njit(cache=True, nogil=True)
def _score_slope(level, codes, secret, rows, tilt, slope):  # type: ignore[no-untyped-def]
    """Log score of all rows, and its slope by cell and secret."""
    n_secrets = level.shape[1]
    p = np.empty(n_secrets)
    slope[:] = 0.0
    value = 0.0
    for r in range(len(rows)):
        if rows[r] == 0.0:
            continue
        top = -np.inf
        for s in range(n_secrets):
            p[s] = level[r, s]
            for a in range(codes.shape[1]):
                p[s] += tilt[codes[r, a], s]
            top = max(top, p[s])
        own, total = p[secret[r]] - top, 0.0
        for s in range(n_secrets):
            p[s] = np.exp(p[s] - top)
            total += p[s]
        value += rows[r] * (own - np.log(total))
        for s in range(n_secrets):
            pull = rows[r] * ((1.0 if s == secret[r] else 0.0) - p[s] / total)
            for a in range(codes.shape[1]):
                slope[codes[r, a], s] += pull
    return value
