"""Cross-fitted lifts of tables whose cells cross: what cells say about secrets (MODEL 1.9).

The prediction of a row's secret must use neither the row itself nor the rows generalized together
with it, because these share all its cells, so that their sampling noise would enter every attribute
at once. Rows are therefore divided into folds, with small groups kept together, and each
fold is scored with the lifts ``lam_a(k|s) = pi_a|s(k) / m_a(k)`` learned from the *other* folds.

A cell of several values says only that the true value is one of them. Soft EM, starting from the
marginal, distributes its rows over them. Each lift is then shrunk: with ``c`` expected rows of
value ``k`` among the ``n_s`` rows of secret ``s``,

    ``lam_a(k|s) = (kappa_a + c) / (kappa_a + n_s m_a(k))``,

the posterior mean of a lift with a gamma prior of mean 1 and shape ``kappa_a``. The number of EM
rounds decides how sharp the lifts become inside cells: run to convergence, EM mistakes noise, and
the way the cells were cut, for features of the population. It is chosen from the release itself:
neighbouring groups are merged, and the number of rounds is taken that best predicts which group
each row of the coarser table came from.

Nested cells and reports of a channel need none of this: the former have a posterior in closed form,
the latter a known likelihood.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy import sparse

from anonbayes.arrays import Floats, Ints
from anonbayes.inference.corrections import Fold
from anonbayes.inference.dirichlet import Prior
from anonbayes.inference.features import (
    Features,
    cell_groups,
    fixed_point,
    marginal_of,
    random_folds,
)
from anonbayes.inference.vertical.crossfit import POOLING_PRIOR
from anonbayes.inference.weight_kernels import CENTRE, SPREAD, lift_spread
from anonbayes.tables.table import ReleasedTable

__all__ = ["CellLifts", "has_crossing_sets", "lift_cells"]

ROUNDS = (1, 3, 10)
"""Candidate numbers of rounds of soft EM."""

POOLING = (0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Candidate shapes of the lifts' prior."""

FOLDS = 20
MOST_NUMBERS = 20_000_000
"""Most numbers stored for the lifts of one attribute over all folds; limits the folds."""

SEARCH_LINES = 8000
"""Most lines used to choose the pooling; more would not change it."""

SEARCH_GROUPS = 2000
"""Most groups merged to choose the number of rounds."""

SHARP = 30
"""Rounds of soft EM for the populations of simulated tables."""

SIMULATIONS, SIMULATED_LINES = 10, 20_000
"""Number of simulated tables that calibrate the weights, and lines of all of them."""

SWEEPS, STEPS = 2, 3
ROUGHLY = 1e-7
"""Change below which shares used only in scores count as converged."""
TINY = np.finfo(float).tiny


class CellLifts(NamedTuple):
    """Lifts of a horizontal table.

    Attributes
    ----------
    features : Features
        Features of every line (a distinct record in a fold), from the rows of the other folds.
    record : numpy.ndarray
        Record of each line.
    rounds : int
        Number of EM rounds.
    kappa : numpy.ndarray
        Pooling of each attribute.
    mean : list of numpy.ndarray
        ``pi_a|s(k)`` from all rows, one array ``(S, K)`` per attribute.
    spread : list of numpy.ndarray
        Uncertainty of the log lifts, ``(folds + 1, S, K)`` per attribute; see `lift_spread`.
    problem : _Problem
        The data they were learned from.
    inside : numpy.ndarray
        How much better independent and weighted evidence distinguish the rows of merged groups
        than group sizes alone do, by record, in nats of log score.
    cluster : numpy.ndarray
        Merged group of each record; its rows are scored together.
    """

    features: Features
    record: Ints
    rounds: int
    kappa: Floats
    mean: list[Floats]
    spread: list[Floats]
    problem: _Problem
    inside: Floats
    cluster: Ints

    def without_folds(self) -> Iterator[Features]:
        """Yield the features that remain when one fold after another is left out.

        To first order, removing a fold changes the log lifts of all other folds as it changes their
        mean.
        """
        lines, found, parts = self.problem.lines, self.features, self._by_fold()
        for fold in range(lines.n_folds):
            moved = [part + part[fold] - part.mean(axis=0) for part in parts]
            yield found._replace(
                cell=np.concatenate([m.reshape(-1, m.shape[-1]) for m in moved]),
                rows=np.where(lines.fold == fold, 0.0, found.rows),
            )

    @property
    def codes(self) -> Ints:
        """Cells of every line, numbered consecutively over all attributes."""
        sizes = [attribute.cells.shape[0] for attribute in self.problem.attributes]
        start = np.cumsum([0, *sizes])[:-1]
        return np.ascontiguousarray(self.problem.codes[self.record] + start)

    def _by_fold(self) -> list[Floats]:
        """Log lifts of each attribute, ``(folds, cells, S)``."""
        folds, cell = self.problem.lines.n_folds, self.features.cell
        ends = np.cumsum([0, *(a.cells.shape[0] * folds for a in self.problem.attributes)])
        return [cell[i:j].reshape(folds, -1, cell.shape[1]) for i, j in itertools.pairwise(ends)]

    def independent(self, table: ReleasedTable, prior: Prior) -> Features:
        """Return features of independent evidence, also learned from the other folds."""
        problem, logs = self.problem, []
        size, folds = len(problem.share), problem.lines.n_folds
        for attribute, beta in zip(problem.attributes, prior.beta.values(), strict=True):
            left, whole = attribute.counts[:, :-size], attribute.counts[:, -size:]
            pi = np.tile(fixed_point(attribute.cells, whole, beta, exact=ROUGHLY), (folds, 1))
            again = np.tile(beta, (folds, 1))
            pi = fixed_point(attribute.cells, left, again, start=pi, exact=ROUGHLY)
            logs.append(np.log(attribute.cells @ pi.T).reshape(left.shape[0], folds, size))
        return _features(problem, logs, table, prior)

    def folds(self) -> list[Fold]:
        """Return every fold together with the lifts learned from the others."""
        lines = self.problem.lines
        return [
            Fold(np.concatenate(logs), np.where(lines.fold == fold, lines.rows, 0.0))
            for fold, logs in enumerate(zip(*self._by_fold(), strict=True))
        ]

    def simulated(
        self, table: ReleasedTable, prior: Prior, weights: Floats, pooling: float
    ) -> Iterator[Features]:
        """Yield features of simulated tables: the same cells, secrets drawn with given weights.

        The lifts used to draw secrets come from fully converged EM, with `pooling` times the
        pooling used here; from each simulated table, lifts are learned again in the same way as
        here.
        """
        problem, size = self.problem, len(self.problem.share)
        lines = problem.lines
        codes = problem.codes[lines.record]
        level = np.tile(np.log(np.maximum(problem.share, TINY)), (len(codes), 1))
        for a, attribute in enumerate(problem.attributes):
            whole = attribute._replace(
                counts=attribute.counts[:, -size:], chance=attribute.chance[:, -size:]
            )
            lift = whole.lifts(whole.expected((SHARP,))[0], pooling * self.kappa[a])
            level += weights[a] * whole.cell_logs(lift)[codes[:, a]]
        chance = np.exp(level - level.max(axis=1, keepdims=True))
        chance /= chance.sum(axis=1, keepdims=True)
        rng = np.random.default_rng(0)
        for _ in range(int(np.clip(SIMULATED_LINES // max(len(codes), 1), 2, SIMULATIONS))):
            rows = rng.multinomial(np.round(lines.rows).astype(np.int64), chance)
            line, secret = np.nonzero(rows)
            again = _Lines(line, lines.fold[line], rows[line, secret].astype(float), lines.n_folds)
            attributes = [
                _Attribute.of(
                    one.cells,
                    one.marginal,
                    _columns(again.left(codes[line, a], one.cells.shape[0], secret, size)),
                )
                for a, one in enumerate(problem.attributes)
            ]
            drawn = _Problem(attributes, codes[line], again, secret, rows.sum(axis=0) / rows.sum())
            drawn = drawn._replace(lines=again._replace(record=np.arange(len(line))))
            logs = [
                one.cell_logs(one.lifts(one.expected((self.rounds,))[0], kappa)[:, :-size])
                for one, kappa in zip(attributes, self.kappa, strict=True)
            ]
            logs = [cell.reshape(len(cell), -1, size) for cell in logs]
            yield _features(drawn, logs, table, prior)


class _Attribute(NamedTuple):
    """One attribute: its cells, and the rows outside each fold in columns ``(fold, s)``.

    The last block of columns counts all rows.
    """

    cells: sparse.csr_array
    inside: sparse.csr_array
    marginal: Floats
    counts: Floats
    chance: Floats

    @classmethod
    def of(cls, cells: sparse.csr_array, marginal: Floats, counts: Floats) -> _Attribute:
        """Prepare ``m(k) E_y(k)`` and ``n_s m(k)``, the rows per value under the marginal."""
        inside = sparse.csr_array(cells.multiply(marginal[None, :]))
        return cls(cells, inside, marginal, counts, marginal[:, None] * counts.sum(axis=0))

    def expected(self, rounds: tuple[int, ...]) -> list[Floats]:
        """Expected rows per value after each number of EM rounds, starting from the marginal."""
        inside = self.inside
        turned = sparse.csr_array(inside.T)
        pooling, chance = POOLING_PRIOR[0], self.chance
        lift = np.ones((len(self.marginal), self.counts.shape[1]))
        found = []
        for turn in range(1, max(rounds) + 1):
            share = self.counts / np.maximum(inside @ lift, TINY)
            rows = lift * (turned @ share)
            if turn in rounds:
                found.append(rows)
            lift = (pooling + rows) / (pooling + chance)
        return found

    def lifts(self, expected: Floats, kappa: float) -> Floats:
        """Pooled lifts of the first columns; they average to one under the marginal."""
        lift = (kappa + expected) / (kappa + self.chance[:, : expected.shape[1]])
        return np.asarray(lift / (self.marginal @ lift))

    def cell_logs(self, lifts: Floats, cells: sparse.csr_array | None = None) -> Floats:
        """Log lifts of the attribute's cells, or of other `cells`, in the same columns."""
        inside = self.inside
        if cells is not None:
            inside = sparse.csr_array(cells.multiply(self.marginal[None, :]))
        known = np.asarray(inside.sum(axis=1)).ravel()
        return np.log(np.maximum(inside @ lifts / known[:, None], TINY))


class _Lines(NamedTuple):
    """Distinct records, divided into folds."""

    record: Ints
    fold: Ints
    rows: Floats
    n_folds: int

    def left(self, cell: Ints, n_cells: int, secret: Ints, n_secrets: int) -> Floats:
        """Rows per cell and secret outside each fold; the last block counts all rows."""
        keys = (self.fold * n_cells + cell) * n_secrets + secret
        own = np.bincount(keys, self.rows, minlength=self.n_folds * n_cells * n_secrets)
        own = own.reshape(self.n_folds, n_cells, n_secrets)
        whole = own.sum(axis=0)
        return np.concatenate([whole - own, whole[None]])


class _Problem(NamedTuple):
    """Attributes and lines of a table, with what is needed to score predictions."""

    attributes: list[_Attribute]
    codes: Ints
    lines: _Lines
    secret: Ints
    share: Floats


def has_crossing_sets(table: ReleasedTable) -> bool:
    """Whether sensitive values are in clear and some cells are sets that cross."""
    cells = [column.evidence for column in table.columns.values()]
    sets = all((e.matrix.data == 1.0).all() for e in cells)
    return table.secrets_known and sets and not all(e.is_nested for e in cells)


def lift_cells(
    table: ReleasedTable,
    prior: Prior,
    *,
    rounds: int | None = None,
    kappa: Floats | None = None,
) -> CellLifts:
    """Learn the lifts of a horizontal table from the release alone.

    Parameters
    ----------
    table : ReleasedTable
        A horizontal table with sensitive values in clear.
    prior : Prior
        Prior, of which only ``alpha`` is used.
    rounds, kappa : optional
        Number of EM rounds and pooling of each attribute, if they need not be chosen.

    Examples
    --------
    >>> import anonbayes as ab
    >>> from anonbayes.inference.dirichlet import resolve_prior
    >>> table = ab.datasets.load("table1_recoded")
    >>> lifts = lift_cells(table, resolve_prior(table))
    >>> [mean.shape for mean in lifts.mean], lifts.rounds
    ([(5, 4), (5, 22)], 1)
    """
    problem = _problem(table)
    inside, cluster = np.zeros((2, len(problem.codes))), cell_groups(problem.codes)
    if rounds is None:
        rounds, inside, cluster = _choose_rounds(problem, table, prior)
    expected = [a.expected((rounds,))[0] for a in problem.attributes]
    kappa = _search(problem, expected)[0] if kappa is None else kappa
    logs, means, spreads = [], [], []
    size = len(problem.share)
    for attribute, rows, pooling in zip(problem.attributes, expected, kappa, strict=True):
        lift = attribute.lifts(rows, pooling)
        cell = attribute.cell_logs(lift[:, :-size])
        logs.append(cell.reshape(len(cell), -1, size))
        means.append(np.ascontiguousarray((attribute.marginal[:, None] * lift[:, -size:]).T))
        by_fold = np.log(lift[:, :-size]).T.reshape(-1, size, len(lift))
        spreads.append(lift_spread(by_fold, pooling, attribute.chance[:, -size:].T))
    return CellLifts(
        _features(problem, logs, table, prior), problem.lines.record, rounds, kappa, means, spreads,
        problem, inside, cluster,
    )  # fmt: skip


def _features(
    problem: _Problem, logs: list[Floats], table: ReleasedTable, prior: Prior
) -> Features:
    """Number cells by fold, so that the features of all folds form one set."""
    lines, size = problem.lines, len(problem.share)
    secret_rows = problem.share * table.n_rows
    stacked, codes, start = [], np.empty((len(lines.record), len(logs)), dtype=np.int64), 0
    for a, cell in enumerate(logs):
        n_cells, folds = cell.shape[:2]
        stacked.append(cell.transpose(1, 0, 2).reshape(-1, size))
        codes[:, a] = start + lines.fold * n_cells + problem.codes[lines.record, a]
        start += n_cells * folds
    whole = np.concatenate(stacked) if stacked else np.empty((0, size))
    out = np.minimum(secret_rows, 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.log1p(-out / (prior.alpha + secret_rows)) / np.where(out > 0, out, 1.0)
    return Features(
        np.log(prior.alpha + secret_rows),
        np.where(out > 0, step, 0.0),
        whole,
        np.zeros_like(whole),
        codes,
        lines.rows,
        problem.secret[lines.record],
        np.empty((0, size)),
    )


# -- folds ------------------------------------------------------------------------------------


def _deal(group: Ints, count: Floats, n_folds: int, rng: np.random.Generator) -> _Lines:
    """Deal rows into folds, by groups unless a group has more rows than there are folds."""
    total = np.bincount(group, count)
    start = rng.permutation(np.arange(len(total)) % n_folds)
    small = total[group] <= n_folds
    record = [np.flatnonzero(small)]
    fold = [start[group[small]]]
    rows = [count[small]]
    large = np.flatnonzero(~small)
    if len(large):
        part = random_folds(count[large], n_folds, rng)
        at, where = np.nonzero(part)
        record.append(large[at])
        fold.append(where)
        rows.append(part[at, where])
    return _Lines(np.concatenate(record), np.concatenate(fold), np.concatenate(rows), n_folds)


def _problem(table: ReleasedTable) -> _Problem:
    records, size = table.records, len(table.secret.domain)
    count = records.count.astype(np.float64)
    widest = max((len(c.evidence) + len(c.domain) for c in table.columns.values()), default=1)
    n_folds = int(np.clip(MOST_NUMBERS // (size * widest), 5, FOLDS))
    codes = np.ascontiguousarray(records.codes, dtype=np.int64)
    lines = _deal(cell_groups(codes), count, n_folds, np.random.default_rng(0))
    secret = table.secret.evidence.matrix.indices[records.secret].astype(np.int64)
    attributes = []
    for a, column in enumerate(table.columns.values()):
        cells = len(column.evidence)
        rows = lines.left(codes[lines.record, a], cells, secret[lines.record], size)
        marginal = marginal_of(column.evidence, rows[-1].sum(axis=1))
        attributes.append(_Attribute.of(column.evidence.matrix, marginal, _columns(rows)))
    share = np.bincount(secret, count, minlength=size) / count.sum()
    return _Problem(attributes, codes, lines, secret, share)


def _columns(rows: Floats) -> Floats:
    """Put the blocks of folds side by side, with a line per cell."""
    return np.ascontiguousarray(rows.transpose(1, 0, 2).reshape(rows.shape[1], -1))


# -- pooling ----------------------------------------------------------------------------------


def _search(problem: _Problem, expected: list[Floats]) -> tuple[Floats, Floats]:
    """Choose pooling and weight attribute by attribute, by the held-out log score."""
    lines, size = problem.lines, len(problem.share)
    some = np.arange(len(lines.record))
    if len(some) > SEARCH_LINES:
        some = np.sort(np.random.default_rng(0).choice(some, SEARCH_LINES, replace=False))
    fold, rows = lines.fold[some], lines.rows[some]
    record = lines.record[some]
    secret = problem.secret[record]
    n = len(problem.attributes)
    mean, spread = CENTRE, SPREAD
    kappa, eta = np.full(n, POOLING_PRIOR[0]), np.full(n, mean)

    def feature(a: int, pooling: float) -> Floats:
        attribute = problem.attributes[a]
        lift = attribute.lifts(expected[a][:, :-size], pooling)
        cell = attribute.cell_logs(lift).reshape(attribute.cells.shape[0], -1, size)
        return cell[problem.codes[record, a], fold]

    used = [feature(a, kappa[a]) for a in range(n)]
    base = np.log(np.maximum(problem.share, TINY)) + sum(
        (mean * x for x in used), np.zeros((len(some), size))
    )
    for _ in range(SWEEPS):
        for a in range(n):
            base -= eta[a] * used[a]
            best = (-np.inf, kappa[a], eta[a], used[a])
            for pooling in POOLING:
                x = feature(a, pooling)
                value, weight = _best_weight(base, x, rows, secret, eta[a], mean, spread)
                value -= 0.5 * (np.log(pooling / POOLING_PRIOR[0]) / POOLING_PRIOR[1]) ** 2
                if value > best[0]:
                    best = (value, pooling, weight, x)
            _, kappa[a], eta[a], used[a] = best
            base += eta[a] * used[a]
    return kappa, eta


@njit(cache=True, nogil=True)
def _best_weight(base, x, rows, secret, start, mean, spread):  # type: ignore[no-untyped-def]
    """Find the weight of one attribute given the others by Newton's method, and its score."""
    n_secrets = base.shape[1]
    eta, value = start, -np.inf
    for step in range(STEPS + 1):
        now, slope, bend = 0.0, 0.0, 0.0
        for i in range(len(rows)):
            top = -np.inf
            for s in range(n_secrets):
                top = max(top, base[i, s] + eta * x[i, s])
            total, first, second = 0.0, 0.0, 0.0
            for s in range(n_secrets):
                e = np.exp(base[i, s] + eta * x[i, s] - top)
                total += e
                first += e * x[i, s]
                second += e * x[i, s] * x[i, s]
            first /= total
            z = secret[i]
            now += rows[i] * (base[i, z] + eta * x[i, z] - top - np.log(total))
            slope += rows[i] * (x[i, z] - first)
            bend += rows[i] * (second / total - first * first)
        away = (eta - mean) / spread
        value = now - 0.5 * away * away
        if step == STEPS:
            break
        eta = max(0.0, eta + (slope - away / spread) / (bend + 1.0 / spread**2))
    return value, eta


# -- number of EM rounds ----------------------------------------------------------------------


def _choose_rounds(
    problem: _Problem, table: ReleasedTable, prior: Prior
) -> tuple[int, Floats, Ints]:
    """Choose the number of EM rounds that best distinguishes the members of merged groups.

    Also returns `CellLifts.inside` and `CellLifts.cluster`.
    """
    nothing, group = np.zeros((2, len(problem.codes))), cell_groups(problem.codes)
    if all((np.diff(a.cells.indptr) == 1).all() for a in problem.attributes):
        return ROUNDS[0], nothing, group  # every cell is a value
    n_groups = int(group.max(initial=-1)) + 1
    count = table.records.count.astype(np.float64)
    if n_groups < 4:
        return ROUNDS[0], nothing, group
    keep, cluster = np.ones(len(group), dtype=bool), group + n_groups
    if n_groups > SEARCH_GROUPS:
        taken = np.zeros(n_groups, dtype=bool)
        taken[np.random.default_rng(0).choice(n_groups, SEARCH_GROUPS, replace=False)] = True
        keep = taken[group]
        group, count = np.unique(group[keep], return_inverse=True)[1].ravel(), count[keep]
        codes, secret = problem.codes[keep], problem.secret[keep]
        n_groups = SEARCH_GROUPS
    else:
        codes, secret = problem.codes, problem.secret
    first = np.unique(group, return_index=True)[1]
    cells = codes[first]
    pair = _pairs(problem, cells)
    coarse, unions = _joined(problem, cells, pair, group, secret, count)
    size = len(problem.share)
    rows = np.bincount(group * size + secret, count, minlength=n_groups * size)
    rows = rows.reshape(n_groups, size)
    joint = np.zeros((int(pair.max()) + 1, size))
    np.add.at(joint, pair, rows)
    expected = [a.expected(ROUNDS) for a in coarse.attributes]

    def gains(lifts: list[Floats], eta: Floats) -> Floats:
        """Log score relative to the shares of the merged groups, by group and secret."""
        inside = np.zeros((n_groups, size))
        for a, (attribute, lift) in enumerate(zip(coarse.attributes, lifts, strict=True)):
            fine = attribute.cell_logs(lift, problem.attributes[a].cells)[cells[:, a]]
            inside += eta[a] * (fine - attribute.cell_logs(lift)[unions[a][pair]])
        alone = joint[pair] / joint[pair].sum(axis=1, keepdims=True)
        belief = alone * np.exp(inside - inside.max(axis=1, keepdims=True))
        belief /= belief.sum(axis=1, keepdims=True)
        seen = rows > 0
        gain = np.zeros_like(belief)
        gain[seen] = np.log(np.maximum(belief[seen], TINY) / alone[seen])
        return gain

    found = []
    for t in range(len(ROUNDS)):
        kappa, eta = _search(coarse, [e[t] for e in expected])
        parts = zip(coarse.attributes, expected, kappa, strict=True)
        found.append(gains([a.lifts(e[t], k)[:, -size:] for a, e, k in parts], eta))
    best = int(np.argmax([(rows * gain).sum() for gain in found]))
    plain = []
    for attribute, beta in zip(coarse.attributes, prior.beta.values(), strict=True):
        pi = fixed_point(attribute.cells, attribute.counts[:, -size:], beta)
        plain.append(pi.T / np.maximum(attribute.marginal, TINY)[:, None])
    both = np.stack([gains(plain, np.ones(len(plain))), found[best]])
    mean = (both * rows).sum(axis=(1, 2)) / rows.sum()
    inside = np.repeat(mean[:, None], len(keep), axis=1)  # for groups that were not scored
    inside[:, keep] = both[:, group, secret]
    cluster[keep] = pair[group]
    return ROUNDS[best], inside, cluster


def _pairs(problem: _Problem, cells: Ints) -> Ints:
    """Merge neighbouring groups: halve them along the widest attribute down to two or three.

    The position of a group is taken from the marginal's distribution function.
    """
    place = np.empty(cells.shape)
    for a, attribute in enumerate(problem.attributes):
        level = np.cumsum(attribute.marginal)
        mass = np.maximum(attribute.cells @ attribute.marginal, TINY)
        place[:, a] = (attribute.inside @ level / mass)[cells[:, a]]
    out = np.empty(len(cells), dtype=np.int64)
    waiting, number = [np.arange(len(cells))], 0
    while waiting:
        some = waiting.pop()
        if len(some) <= 3:
            out[some] = number
            number += 1
            continue
        order = some[np.argsort(place[some, np.ptp(place[some], axis=0).argmax()], kind="stable")]
        half = max(2, len(order) // 2 // 2 * 2)
        waiting += [order[:half], order[half:]]
    return out


def _joined(
    problem: _Problem, cells: Ints, pair: Ints, group: Ints, secret: Ints, count: Floats
) -> tuple[_Problem, list[Ints]]:
    """Return the table with neighbouring groups merged, and the cell of each pair by attribute."""
    n_pairs, size = int(pair.max()) + 1, len(problem.share)
    member = sparse.csr_array(
        (np.ones(len(pair)), (pair, np.arange(len(pair)))), shape=(n_pairs, len(pair))
    )
    keys, at = np.unique(pair[group] * size + secret, return_inverse=True)
    together = np.bincount(at.ravel(), count).astype(np.float64)
    of_pair, of_secret = np.divmod(keys, size)
    lines = _deal(
        of_pair, together, min(problem.lines.n_folds, FOLDS // 2), np.random.default_rng(0)
    )
    attributes, unions = [], []
    for a, attribute in enumerate(problem.attributes):
        union = sparse.csr_array(member @ attribute.cells[cells[:, a]])
        union.data = np.minimum(union.data, 1.0)
        union.sort_indices()
        ends = zip(union.indptr[:-1], union.indptr[1:], strict=True)
        label = [union.indices[i:j].tobytes() for i, j in ends]
        numbers = {text: i for i, text in enumerate(dict.fromkeys(label))}
        code = np.array([numbers[text] for text in label], dtype=np.int64)
        first = np.unique(code, return_index=True)[1]
        rows = lines.left(code[of_pair[lines.record]], len(first), of_secret[lines.record], size)
        matrix = sparse.csr_array(union[first])
        marginal = _marginal(matrix, rows[-1].sum(axis=1))
        attributes.append(_Attribute.of(matrix, marginal, _columns(rows)))
        unions.append(code)
    codes = np.column_stack([u[of_pair] for u in unions])
    return _Problem(attributes, codes, lines, of_secret, problem.share), unions


def _marginal(cells: sparse.csr_array, rows: Floats) -> Floats:
    """Estimate the distribution behind the cells of all rows, by EM with prior weights of one."""
    share = np.full(cells.shape[1], 1.0 / cells.shape[1])
    turned = sparse.csr_array(cells.T)
    for _ in range(100):
        share = 1.0 + share * (turned @ (rows / np.maximum(cells @ share, TINY)))
        share /= share.sum()
    return np.asarray(share)
