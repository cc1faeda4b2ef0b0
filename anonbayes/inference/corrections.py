"""Corrections of weighted evidence, value by value (MODEL 1.9).

One weight per attribute cannot say that a single value tells more, or less, beside the others. So
the score has a second part, shrunk towards nothing,

    L(s | y) = log pi_S(s) + sum_a eta_a log lam_a(y_a | s) + sum_a c_a(y_a, s),

where ``c_a(y, s)`` is the mean of ``c_a(k, s) ~ N(0, tau^2)`` over the values k of the cell, by
their marginal. With ``tau = 0`` this is weighted evidence; with ``eta = 0`` it would be a
multinomial logistic regression. ``tau`` has the best score on folds of the rows that were left out
of lifts and corrections; where that is not better than no corrections by more than its standard
error, there are none.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from scipy import sparse
from scipy.linalg import block_diag
from scipy.optimize import minimize
from scipy.special import logsumexp

from anonbayes.arrays import Floats, Ints
from anonbayes.inference.features import Features, marginal_of
from anonbayes.tables.table import ReleasedTable

__all__ = ["Corrections", "Fold", "learn_corrections"]

VARIANCES = (0.01, 0.03, 0.1, 0.3)
"""Values of ``tau^2`` that are tried."""
MOST_PARAMETERS, MOST_NUMBERS = 1500, 20_000_000
"""Values (or cells) of all attributes, and records times secrets, beyond which nothing is done."""
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


class Fold(NamedTuple):
    """Log lifts of all cells without a fold's rows, and how many rows of each record it holds."""

    cell: Floats
    held: Floats


def _shares(table: ReleasedTable) -> list[sparse.csr_array]:
    """``m(k) E_y(k) / m(y)`` of the cells of each attribute."""
    out = []
    for column in table.columns.values():
        marginal = marginal_of(
            column.evidence, table.tally(column.codes, len(column.evidence)) * 1.0
        )
        inside = column.evidence.matrix.multiply(marginal[None, :]).tocsr()
        out.append(sparse.csr_array(inside.multiply(1.0 / inside.sum(axis=1)[:, None])))
    return out


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
    shares = _shares(table)
    ranks = sum(min(share.shape) for share in shares)
    if ranks > MOST_PARAMETERS or len(rows) * size > MOST_NUMBERS:
        return None
    # Only as many directions as there are cells, or values, can be told apart.
    halves = [np.linalg.svd(share.toarray(), full_matrices=False) for share in shares]
    basis = block_diag(*(u * d for u, d, _ in halves))
    spread = block_diag(*(v for _, _, v in halves))  # (ranks, values)
    cells = sparse.csr_array(
        (np.ones(codes.size), codes.ravel(), np.arange(0, codes.size + 1, codes.shape[1])),
        shape=(len(codes), len(basis)),
    )
    together = sparse.csr_array(cells.T.multiply(rows[None, :])) @ cells
    stretch, turn = np.linalg.eigh(basis.T @ (together @ basis))
    basis = basis @ turn

    common = np.exp(features.share - np.logaddexp.reduce(features.share))
    rival = _Ridge(
        codes, features.secret, basis, np.maximum(stretch, 0.0)[:, None] * (common * (1.0 - common))
    )
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
    if chosen is None or (variance is None and total <= _error_of_sum(gain, rows)):
        return None
    variance = chosen
    level = _level(features.share, eta, [features.cell[c] for c in features.codes.T])
    step = features.share_step[secret] + features.step[features.codes, secret[:, None]] @ eta
    level[np.arange(len(level)), secret] += step
    point = rival.maximise(level, rows, variance, nothing)
    found = (turn @ point).T @ spread
    ends = np.cumsum([share.shape[1] for share in shares])[:-1]
    values = tuple(np.ascontiguousarray(c) for c in np.split(found, ends, axis=1))
    return Corrections(values, variance, float(gain @ rows / rows.sum())), gain


def _error_of_sum(gain: Floats, rows: Floats) -> float:
    """Standard error of the sum over rows of what was gained, by records of several rows."""
    return float(np.sqrt(rows @ (gain - gain @ rows / rows.sum()) ** 2))


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
