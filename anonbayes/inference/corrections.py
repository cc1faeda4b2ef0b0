"""Corrections of weighted evidence for single values (MODEL 1.9).

One weight per attribute cannot express that a single value says more, or less, given the other
attributes. The score therefore has a second part, which is shrunk towards zero,

    L(s | y) = log pi_S(s) + sum_a eta_a log lam_a(y_a | s) + sum_a c_a(y_a, s),

where ``c_a(y, s)`` is the mean of ``c_a(k, s) ~ N(0, tau^2)`` over the values k of the cell,
weighted by their marginal. With ``tau = 0`` this is weighted evidence without corrections; with
``eta = 0`` it would be a multinomial logistic regression. ``tau`` is the value with the best score
on folds that were left out when lifts and corrections were learned; if no value beats ``tau = 0``
by more than the standard error, there are no corrections.

Given the mode of the weights, corrections are drawn from a normal distribution at their mode. Its
curvature is taken at the shares of the secrets: along each direction in which cells can be
distinguished it is ``n (diag(pi_S) - pi_S pi_S') + I / tau^2``.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag

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
"""Candidate values of ``tau^2``."""
MOST_PARAMETERS, MOST_NUMBERS = 1500, 20_000_000
"""Without corrections: tables with more values (or cells) over all attributes, or with more records
times secrets. Beyond the second limit no draws are made, and corrections count as known."""
IN_CACHE = 50_000
"""Numbers drawn together."""
AT_ONCE = 4_000_000
"""Numbers of the folds that are processed together."""
STEPS, INNER, STEEP, ROUGHLY = 30, 60, 1e-2, 0.1
"""Most Newton steps, and conjugate gradients in each; slope, in standard deviations, at which a
mode counts as found; share of the slope that a step may leave."""


class Corrections(NamedTuple):
    """Terms added to the scores for single values.

    Attributes
    ----------
    values : tuple of numpy.ndarray
        ``c_a(k, s)`` of each attribute, shape ``(S, K_a)``.
    variance : float
        ``tau^2``.
    gain : float
        Improvement of the held-out log score by them, in nats per row.
    """

    values: tuple[Floats, ...]
    variance: float
    gain: float

    def draw(
        self, table: ReleasedTable, size: tuple[int, int], rng: np.random.Generator
    ) -> list[Floats]:
        """Draw corrections, ``(chains, draws, S, K_a)`` per attribute; none if that is too many."""
        whole = np.concatenate(self.values, axis=1)
        if size[0] * size[1] * whole.size > MOST_NUMBERS:
            return []
        seen = _directions(table)
        share = table.secret_counts / table.secret_counts.sum()
        steep, turn = np.linalg.eigh(np.diag(share) - np.outer(share, share))
        narrow = 1.0 / np.sqrt(1.0 + self.variance * np.outer(np.maximum(steep, 0.0), seen.stretch))
        # Along the eigenvectors of secrets (rows) and cells; all other directions are the prior's.
        turn *= np.sqrt(self.variance)
        n, (secrets, width) = size[0] * size[1], whole.shape
        ends = np.cumsum([0, *(values.shape[1] for values in self.values)])
        out = [np.empty((n, *values.shape)) for values in self.values]
        step = max(1, IN_CACHE // whole.size)
        for some in (slice(i, min(i + step, n)) for i in range(0, n, step)):
            drawn = rng.standard_normal((some.stop - some.start, secrets, width))
            along = (drawn.reshape(-1, width) @ seen.spread.T).reshape(*drawn.shape[:2], -1)
            along *= narrow - 1.0
            drawn += (along.reshape(-1, along.shape[-1]) @ seen.spread).reshape(drawn.shape)
            drawn = whole + turn @ drawn
            for values, (first, last) in zip(out, itertools.pairwise(ends), strict=True):
                values[some] = drawn[..., first:last]
        return [values.reshape(*size, *values.shape[1:]) for values in out]


class Fold(NamedTuple):
    """Log lifts of all cells learned without a fold, and the fold's number of rows per record."""

    cell: Floats
    held: Floats


def cell_shares(table: ReleasedTable) -> list[sparse.csr_array]:
    """Distribution ``m(k) E_y(k) / m(y)`` of the values behind each cell, by attribute."""
    out = []
    for column in table.columns.values():
        rows = table.tally(column.codes, len(column.evidence)).astype(np.float64)
        marginal = marginal_of(column.evidence, rows)
        inside = column.evidence.matrix.multiply(marginal[None, :]).tocsr()
        out.append(sparse.csr_array(inside.multiply(1.0 / inside.sum(axis=1)[:, None])))
    return out


class _Directions(NamedTuple):
    """Directions in which the cells of a table differ: at most as many as cells, or as values.

    `basis` has a row per cell, `spread` a column per value, and `stretch` is the sum of squares
    over rows along each direction. In this basis the curvature is diagonal.
    """

    basis: Floats
    spread: Floats
    stretch: Floats


def _directions(table: ReleasedTable) -> _Directions:
    """Return the directions of a table; those of the last table are cached by identity.

    Equal tables may number their cells differently, or have cells that no row shows.
    """
    for known, directions in _LAST:
        if known is table:
            return directions
    directions = _directions_of(table)
    _LAST[:] = [(table, directions)]
    return directions


def _directions_of(table: ReleasedTable) -> _Directions:
    halves = [np.linalg.svd(one.toarray(), full_matrices=False) for one in cell_shares(table)]
    basis = block_diag(*(u * d for u, d, _ in halves))
    start = np.cumsum([0, *(len(u) for u, _, _ in halves)])[:-1]
    codes, rows = table.records.codes + start, table.records.count
    cells = _indicators(codes, len(basis))
    together = sparse.csr_array(cells.T.multiply(rows[None, :])) @ cells
    stretch, turn = np.linalg.eigh(basis.T @ (together @ basis))
    spread = turn.T @ block_diag(*(v for _, _, v in halves))
    return _Directions(basis @ turn, spread, np.maximum(stretch, 0.0))


_LAST: list[tuple[ReleasedTable, _Directions]] = []


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
    """Learn corrections from the released rows, and how much each held-out record gains by them.

    Returns None unless held-out rows are predicted better by more than the gain's standard error.

    Parameters
    ----------
    table : ReleasedTable
        A horizontal table with sensitive values in clear.
    features : Features
        Features of its records, computed without the row itself.
    codes : numpy.ndarray
        Cells of the records, numbered as in the table.
    eta : numpy.ndarray
        Weights of the attributes.
    folds : list of Fold
        Held-out parts of the rows, with the lifts learned from the others.
    variance : float, optional
        ``tau^2``, if it need not be chosen.
    """
    size, rows, secret = len(features.share), features.rows, features.secret
    shapes = [(len(c.evidence), len(c.domain)) for c in table.columns.values()]
    ranks = sum(min(shape) for shape in shapes)
    if ranks > MOST_PARAMETERS or len(rows) * size > MOST_NUMBERS:
        return None
    basis, spread, stretch = _directions(table)
    common = np.exp(features.share - np.logaddexp.reduce(features.share))
    curve = stretch[:, None] * (common * (1.0 - common))
    gain = np.zeros(len(rows))
    if variance is None:
        found = _search(features, codes, eta, folds, basis, curve)
        if found is None:
            return None
        variance, gain = found
    level = _level(features.share, eta, [features.cell[c] for c in features.codes.T])
    step = features.share_step[secret] + features.step[features.codes, secret[:, None]] @ eta
    level[np.arange(len(level)), secret] += step
    count = np.zeros_like(level)
    count[np.arange(len(level)), secret] = rows
    cells = _indicators(codes, len(basis))
    ridge = _Ridge(cells, sparse.csr_array(cells.T), basis, curve[:, None], variance)
    point = ridge.maximise(level[:, None], count[:, None], np.zeros((len(stretch), 1, size)))
    ends = np.cumsum([width for _, width in shapes])[:-1]
    values = np.split(point[:, 0].T @ spread, ends, axis=1)
    mean = float(gain @ rows / rows.sum())
    return Corrections(tuple(map(np.ascontiguousarray, values)), variance, mean), gain


def _search(
    features: Features,
    codes: Ints,
    eta: Floats,
    folds: list[Fold],
    basis: Floats,
    curve: Floats,
) -> tuple[float, Floats] | None:
    """Choose ``tau^2`` by the held-out score; also return what each record gains by it.

    Rows with the same cells have the same prediction, so only their counts by secret matter.
    """
    size, rows, group = len(features.share), features.rows, cell_groups(codes)
    first = np.unique(group, return_index=True)[1]
    place = group * size + features.secret
    cells = _indicators(codes[first], len(basis))
    turned = sparse.csr_array(cells.T)

    def by_group(of_records: Floats) -> Floats:
        rows = np.bincount(place, of_records, minlength=len(first) * size)
        return np.asarray(rows, dtype=float).reshape(-1, size)

    total = by_group(rows)
    at_once = int(np.clip(AT_ONCE // total.size, 1, max(len(folds), 1)))
    parts = []
    for start in range(0, len(folds), at_once):
        some = folds[start : start + at_once]
        level = np.stack(
            [_level(features.share, eta, [f.cell[c] for c in codes[first].T]) for f in some], axis=1
        )
        held = np.stack([by_group(f.held) for f in some], axis=1)
        parts.append((level, held, _log_beliefs(level)))
    middle = sum(level.sum(axis=1, keepdims=True) for level, _, _ in parts) / max(len(folds), 1)
    common = np.zeros((len(curve), 1, size))
    points: list[Floats] = []
    best, chosen, of_best, last = 0.0, None, np.zeros_like(total), -np.inf
    for tried in VARIANCES if folds else ():
        ridge = _Ridge(cells, turned, basis, curve[:, None], tried)
        if not points:  # start near the mode of all rows
            common = ridge.maximise(middle, total[:, None], common)
            points = [np.repeat(common, held.shape[1], axis=1) for _, held, _ in parts]
        gain = np.zeros_like(total)
        for i, (level, held, before) in enumerate(parts):
            points[i] = ridge.maximise(level, total[:, None] - held, points[i])
            gain += (held * (_log_beliefs(level + ridge.tilt(points[i])) - before)).sum(axis=1)
        if gain.sum() > best:
            best, chosen, of_best = float(gain.sum()), tried, gain
        if gain.sum() < last:  # past the best value, scores only fall
            break
        last = float(gain.sum())
    each = (of_best / np.where(total > 0, total, 1.0)).ravel()[place]
    error = rows.sum() * np.sqrt(covariance_of_means(each[None], rows, group)[0, 0])
    return None if chosen is None or best <= error else (chosen, each)


def _level(share: Floats, eta: Floats, logs: list[Floats]) -> Floats:
    """``log pi_S(s) + sum_a eta_a log lam_a`` of every record."""
    return share + sum(
        (weight * x for weight, x in zip(eta, logs, strict=True)), np.zeros((len(logs[0]), 1))
    )


def _log_beliefs(level: Floats) -> Floats:
    """Log probability of each secret."""
    away = level - level.max(axis=-1, keepdims=True)
    return np.asarray(away - np.log(np.exp(away).sum(axis=-1, keepdims=True)))


class _Ridge(NamedTuple):
    """Penalised multinomial logit of the corrections, for several folds at once.

    Arrays are ``(records or parameters, folds, S)``. With the shares of the secrets in place of
    each record's probabilities, the curvature of the score is `curve` along the columns of `basis`;
    scaled by it, a few conjugate gradients solve a Newton step.
    """

    cells: sparse.csr_array
    turned: sparse.csr_array
    basis: Floats
    curve: Floats
    variance: float

    def tilt(self, point: Floats) -> Floats:
        """Corrections of the records."""
        flat = self.cells @ (self.basis @ point.reshape(len(point), -1))
        return flat.reshape(-1, *point.shape[1:])

    def slope(self, pull: Floats) -> Floats:
        """Transpose of `tilt`."""
        flat = self.basis.T @ (self.turned @ pull.reshape(len(pull), -1))
        return flat.reshape(-1, *pull.shape[1:])

    def maximise(self, level: Floats, count: Floats, start: Floats) -> Floats:
        """Mode of the corrections along the columns of `basis`."""
        unit = 1.0 / (self.curve + 1.0 / self.variance)
        rows = count.sum(axis=-1, keepdims=True)
        point, step, value = start, np.zeros_like(start), np.full(start.shape[1], -np.inf)
        for _ in range(STEPS):
            while True:  # a step that overshoots is halved
                ahead = point + step
                logs = _log_beliefs(level + self.tilt(ahead))
                new = (count * logs).sum(axis=(0, 2))
                new -= 0.5 * (ahead**2).sum(axis=(0, 2)) / self.variance
                worse = new < value - 1e-10 * np.abs(value)
                if not worse.any():
                    break
                step = np.where(worse[:, None], step / 2, step)
            point, value = ahead, new
            belief = np.exp(logs)
            slope = self.slope(count - rows * belief) - point / self.variance
            if np.abs(np.sqrt(unit) * slope).max(initial=0.0) < STEEP:
                break
            step = self._newton(belief, rows, slope, unit)
        return point

    def _newton(self, belief: Floats, rows: Floats, slope: Floats, unit: Floats) -> Floats:
        """Solve for Newton's step by conjugate gradients in the units of `curve`."""
        step, left = np.zeros_like(slope), slope
        along = ahead = unit * left
        size = first = (left * ahead).sum(axis=(0, 2))
        for _ in range(INNER):
            tilt = self.tilt(along)
            tilt -= (belief * tilt).sum(axis=-1, keepdims=True)
            bent = self.slope(rows * belief * tilt) + along / self.variance
            curved = (along * bent).sum(axis=(0, 2))
            pace = (size / np.where(curved > 0, curved, 1.0))[:, None]
            step, left = step + pace * along, left - pace * bent
            ahead = unit * left
            before, size = size, (left * ahead).sum(axis=(0, 2))
            if (size <= ROUGHLY**2 * first).all():
                break
            along = ahead + (size / np.where(before > 0, before, 1.0))[:, None] * along
        return step
