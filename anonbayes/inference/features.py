"""Features of released cells: what each cell says about each secret, without the row's own count.

These are ``log pi_a|s(y)`` of every distinct cell, computed from counts (MODEL 1.2, 1.3), and how
they change when one row is removed; and pooling, ``pi_a|s ~ Dir(kappa_a m_a)`` (MODEL 1.9).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import sparse
from scipy.special import gammaln

from anonbayes.errors import ModelError
from anonbayes.inference.dirichlet import Prior
from anonbayes.inference.horizontal.tree import CellTree, DirichletTree, add_at
from anonbayes.tables.evidence import Evidence
from anonbayes.tables.table import ReleasedTable

__all__ = [
    "FLAT",
    "CellLogs",
    "Features",
    "cell_groups",
    "cell_logs",
    "covariance_of_means",
    "fixed_point",
    "marginal_of",
    "pooled_beta",
    "random_folds",
]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

KAPPA_RANGE = (0.1, 1e5)
SEARCH = {"xatol": 0.05}
LARGE = 1000
"""Largest domain for which crossing cells are resolved jointly."""
FLAT = 1e-9
"""Features that differ less than this between secrets are considered equal."""


# -- distributions from counts ----------------------------------------------------------------


class CellLogs(NamedTuple):
    """What the cells of one attribute say about each secret.

    Attributes
    ----------
    mean : numpy.ndarray
        ``pi_a|s(k)``, shape ``(S, K)``.
    cell : numpy.ndarray
        ``log pi_a|s(y)``, shape ``(cells, S)``.
    step : numpy.ndarray
        Change of `cell` when a row with this cell and this secret is removed.
    """

    mean: Floats
    cell: Floats
    step: Floats


def cell_logs(evidence: Evidence, counts: Floats, beta: Floats) -> CellLogs:
    """Estimate the distributions behind counted cells, and the effect of removing one row.

    Nested cells have both in closed form (MODEL 1.3): removing a row subtracts it from all nodes
    between root and cell, which multiplies by ``(m(u) - 1) / (M(v) - 1)`` along the path. Where
    cells cross or are soft, ``pi`` solves ``(B + n) pi(k) = beta(k) + sum_y n(y) pi(k) E_y(k) /
    pi(y)``, whose solution for nested cells is the mean of the tree, and the effect of a row is
    its leverage.

    Parameters
    ----------
    evidence : Evidence
        The distinct cells.
    counts : numpy.ndarray
        Number of rows per cell and secret, shape ``(cells, S)``; need not be integers.
    beta : numpy.ndarray
        Prior weights, shape ``(S, K)``.

    Examples
    --------
    >>> from anonbayes import Domain
    >>> cells = Evidence.from_members(Domain("x", list("abc")), [[0, 1], [0]], ["ab", "a"])
    >>> logs = cell_logs(cells, np.array([[1.0], [1.0]]), np.ones((1, 3)))
    >>> np.exp(logs.cell).round(3).tolist()
    [[0.8], [0.533]]
    >>> np.exp(logs.cell + logs.step).round(3).tolist()  # 3 / 4, and 3 / 4 * 1 / 2
    [[0.75], [0.375]]
    """
    out = np.minimum(counts, 1.0)  # no more than the expected rows can be removed
    with np.errstate(divide="ignore", invalid="ignore"):
        if evidence.is_nested:
            tree = DirichletTree(evidence, sparse.csr_array(counts), beta)
            cell, mean = tree.cell_log_mean.T, tree.mean
            step = _path_steps(tree, out.T).T
        else:
            mean = fixed_point(evidence.matrix, counts, beta)
            cell = np.log(evidence.matrix @ mean.T)
            step = np.log1p(-out * _leverage(evidence.matrix, counts, beta, mean))
        step = np.where(counts > 0, step / np.where(counts > 0, out, 1.0), 0.0)
    return CellLogs(mean, np.ascontiguousarray(cell), np.ascontiguousarray(step))


def _path_steps(tree: DirichletTree, out: Floats) -> Floats:
    """Change of ``log E[pi(y)]`` when ``out[s, y]`` rows of cell y are removed."""
    shape = tree.tree
    total = shape.sum_children(tree.weight)
    change = np.zeros_like(out)
    node = shape.cell_node.copy()
    while (node > 0).any():
        above = shape.parent[node]
        moved = np.log1p(-out / tree.weight[:, node]) - np.log1p(-out / total[:, above])
        change += np.where(node > 0, moved, 0.0)
        node = np.where(node > 0, above, 0)
    return change


def fixed_point(
    cells: sparse.csr_array,
    counts: Floats,
    beta: Floats,
    start: Floats | None = None,
    exact: float = 1e-10,
) -> Floats:
    """Solve ``(B + n) pi = beta + expected counts``; unique, as the mode of Dir(beta + 1).

    Fixed-point rounds, with an extrapolated one after every two (SQUAREM) if it stays positive.
    """
    total = (beta.sum(axis=1) + counts.sum(axis=0))[:, None]
    turned = sparse.csr_array(cells.T)

    def round_of(pi: Floats) -> Floats:
        share = counts / np.maximum(cells @ pi.T, np.finfo(float).tiny)
        return np.asarray((beta + pi * (turned @ share).T) / total)

    pi = beta / beta.sum(axis=1, keepdims=True) if start is None else start
    for _ in range(200):
        one = round_of(pi)
        two = round_of(one)
        first, second = one - pi, two - 2.0 * one + pi
        bend = np.sqrt((second**2).sum(axis=1, keepdims=True))
        length = np.sqrt((first**2).sum(axis=1, keepdims=True))
        pace = np.where(bend > 0, np.maximum(length / np.where(bend > 0, bend, 1.0), 1.0), 1.0)
        ahead = pi + 2.0 * pace * first + pace**2 * second
        good = (ahead > 0).all(axis=1, keepdims=True)
        new = round_of(np.where(good, ahead, two))
        moved = np.abs(new - pi).max()
        pi = new
        if moved < exact:
            break
    return pi


def _leverage(cells: sparse.csr_array, counts: Floats, beta: Floats, mean: Floats) -> Floats:
    """Leverage ``u' V u`` of a row of each cell, ``u(k) = E_y(k) / pi(y)``, shape ``(cells, S)``.

    V is the inverse information on the simplex, from one factorisation per secret. For domains too
    large for that, rows are treated as if their hidden values were known.
    """
    from scipy.linalg import cho_factor, cho_solve  # which take long to load

    out = np.zeros_like(counts)
    size = cells.shape[1]
    for s in range(counts.shape[1]):
        seen = np.flatnonzero(counts[:, s])
        if not len(seen):
            continue
        pi = mean[s]
        u = cells[seen] / (cells[seen] @ pi)[:, None]
        if size > LARGE:
            total = beta[s].sum() + counts[:, s].sum()
            out[seen, s] = (sparse.csr_array(u).power(2) @ pi - 1.0) / total
            continue
        dense = np.asarray(u.toarray()) * pi  # in units of pi, where the prior contributes beta
        information = dense.T @ (dense * counts[seen, s][:, None])
        information[np.diag_indices(size)] += beta[s]
        factor = cho_factor(information)
        solved = cho_solve(factor, np.column_stack([dense.T, pi]))
        away = pi @ solved
        direct = np.einsum("yk,ky->y", dense, solved[:, :-1])
        out[seen, s] = direct - away[:-1] ** 2 / away[-1]
    return np.clip(out, 0.0, 1.0 - 1e-9)


def _expected_counts(
    evidence: Evidence, observed: Floats, likelihood: Floats, share: Floats, beta: Floats
) -> Floats:
    """Expected rows per cell and secret if secrets were released through a channel.

    They are estimated from the attribute's own table of cells and reported secrets, without the
    other attributes. That holds whether or not attributes depend on each other, and keeps a row
    from confirming itself through its other attributes.
    """
    counts = observed @ (likelihood * share / (likelihood @ share)[:, None])
    for _ in range(100):
        if evidence.is_nested:
            mean = DirichletTree(evidence, sparse.csr_array(counts), beta).mean
        else:
            mean = fixed_point(evidence.matrix, counts, beta)
        prior = (evidence.matrix @ mean.T) * share  # (cells, S)
        weight = prior @ likelihood.T
        new = prior * ((observed / np.where(weight > 0, weight, 1.0)) @ likelihood)
        moved = np.abs(new - counts).max(initial=0.0)
        counts = new
        if moved < 1e-6 * observed.sum():
            break
    return np.asarray(counts)


class _Counts(NamedTuple):
    """Rows per secret, and rows per cell and secret by attribute; expected counts if latent."""

    secret: Floats
    cells: dict[str, Floats]


def _counts(table: ReleasedTable, prior: Prior) -> _Counts:
    if table.secrets_known:
        cells = {name: n.toarray().astype(np.float64) for name, n in table.counts.items()}
        return _Counts(table.secret_counts.astype(np.float64), cells)
    likelihood = table.secret.evidence.matrix.toarray()
    reports = table.tally(table.secret.codes, len(likelihood)).astype(np.float64)
    share = prior.alpha / prior.alpha.sum()
    for _ in range(1000):
        secret = share * ((reports / (likelihood @ share)) @ likelihood)
        new = (prior.alpha + secret) / (prior.alpha.sum() + reports.sum())
        moved = np.abs(new - share).max()
        share = new
        if moved < 1e-9:
            break
    cells = {}
    for name, column in table.columns.items():
        size = (len(column.evidence), len(likelihood))
        keys = column.codes.astype(np.int64) * size[1] + table.secret.codes
        observed = table.tally(keys, size[0] * size[1]).reshape(size).astype(np.float64)
        cells[name] = _expected_counts(
            column.evidence, observed, likelihood, share, prior.beta[name]
        )
    return _Counts(np.asarray(secret), cells)


# -- pooling ----------------------------------------------------------------------------------


def pooled_beta(table: ReleasedTable, prior: Prior) -> tuple[dict[str, Floats], Floats]:
    """Estimate prior weights ``kappa_a m_a``, which shrink rare secrets to the population.

    ``m_a`` is the attribute's distribution over all secrets (MODEL 1.9). For nested cells,
    ``kappa_a`` maximises the marginal likelihood in closed form, with a weak prior against less
    than one row per value. For cells that cross or are soft, rows are first distributed over their
    values by ``m_a``, and the prior never outweighs the rows of an average secret: which cell a row
    shows then depends on its other attributes, and a sharper estimate would predict the cells
    better but the people behind them worse.

    Parameters
    ----------
    table : ReleasedTable
        A horizontal table.
    prior : Prior
        The prior before pooling: ``alpha``, and the weights used to estimate latent secrets.

    Returns
    -------
    beta : dict of str to numpy.ndarray
        Weights of shape ``(S, K)`` by attribute.
    kappa : numpy.ndarray
        Their sums, one per attribute.

    Examples
    --------
    >>> import anonbayes as ab
    >>> from anonbayes.inference.dirichlet import resolve_prior
    >>> table = ab.datasets.load("table1_recoded")
    >>> beta, kappa = pooled_beta(table, resolve_prior(table))
    >>> beta["Nat"].shape, bool((kappa > 0).all())
    ((5, 4), True)
    """
    if table.scheme != "horizontal":
        raise ModelError(
            "Cells of a vertical table are not linked to secrets, so pooled_beta does not apply."
        )
    counts = _counts(table, prior).cells
    size = len(table.secret.domain)
    betas, kappa = {}, np.empty(len(table.attributes))
    for a, (name, column) in enumerate(table.columns.items()):
        rows = counts[name]
        marginal = marginal_of(column.evidence, rows.sum(axis=1))[None]
        kappa[a] = _kappa(column.evidence, rows, marginal)
        betas[name] = np.tile(kappa[a] * marginal, (size, 1))
        if column.evidence.is_nested:
            betas[name] = _even_where_untold(column.evidence, rows, betas[name])
    return betas, kappa


def _even_where_untold(evidence: Evidence, rows: Floats, beta: Floats) -> Floats:
    """Adjust prior weights so that values never shown by a finer cell do not distinguish secrets.

    Such values share a cell with values that finer cells do show. The recoding makes the many rows
    of a common secret show these other values, which would leave the wide cell to whoever has a
    hidden value. The hidden values' share of the cell is therefore set to the marginal one for
    every secret.
    """
    tree = CellTree.of(evidence)
    own = np.zeros((len(beta), tree.n_nodes))
    own[:, tree.leaf_node] = beta
    mass = tree.accumulate_up(own[0])  # the same for all secrets
    seen = np.zeros(tree.n_nodes)
    add_at(seen, tree.cell_node, rows.sum(axis=1))
    told = tree.accumulate_up(seen) > 0
    add_at(own, tree.cell_node, rows.T)
    factor = np.ones_like(own)
    for layer in reversed(tree.layers):
        shown, hidden = layer[told[layer]], layer[~told[layer]]
        weight, share = np.zeros_like(own), np.zeros(tree.n_nodes)
        add_at(weight, tree.parent[shown], own[:, shown])
        add_at(share, tree.parent[shown], mass[shown])
        beside = tree.parent[hidden]
        hidden, beside = hidden[share[beside] > 0], beside[share[beside] > 0]
        factor[:, hidden] = weight[:, beside] / share[beside]
        own[:, hidden] = factor[:, hidden] * mass[hidden]
        add_at(own, tree.parent[layer], own[:, layer])
    whole = np.exp(tree.accumulate_down(np.log(factor)))
    return np.ascontiguousarray(beta * whole[:, tree.leaf_node])


def marginal_of(evidence: Evidence, rows: Floats) -> Floats:
    """Estimate the distribution behind the cells of all rows, with prior weights of one."""
    return cell_logs(evidence, rows[:, None], np.ones((1, len(evidence.domain)))).mean[0]


def _kappa(evidence: Evidence, rows: Floats, marginal: Floats) -> float:
    """Choose the weight of the common distribution; see `pooled_beta`."""
    size = rows.shape[1]
    low, high = np.log(KAPPA_RANGE)
    if evidence.is_nested:
        whole = DirichletTree(evidence, sparse.csr_array(rows), np.tile(marginal, (size, 1)))

        def loss(log_kappa: float) -> float:
            return -float(whole.log_evidence(np.exp(log_kappa)).sum())

    else:
        share = rows / (evidence.matrix @ marginal[0])[:, None]
        spread = (evidence.matrix.T @ share).T * marginal
        high = min(high, max(np.log(max(rows.sum() / size, 1.0)), low + 1.0))

        def loss(log_kappa: float) -> float:
            whole = np.exp(log_kappa)
            beta = np.maximum(whole * marginal, np.finfo(float).tiny)
            up = (gammaln(beta + spread) - gammaln(beta)).sum()
            return -float(up - (gammaln(whole + spread.sum(axis=1)) - gammaln(whole)).sum())

    if abs(loss(low) - loss(high)) < FLAT * max(rows.sum(), 1.0):  # the data say nothing
        return float(len(evidence.domain))

    def doubtful(log_kappa: float) -> float:
        """Keep rows of a single value from deciding how much secrets differ in other values."""
        return loss(log_kappa) + 0.5 * max(np.log(marginal.size) - log_kappa, 0.0) ** 2

    from scipy.optimize import minimize_scalar  # which takes long to load

    best = minimize_scalar(doubtful, bounds=(low, high), method="bounded", options=SEARCH)
    return float(np.exp(best.x))


def cell_groups(codes: Ints) -> Ints:
    """Number the groups of records with equal cells; return the group of each record."""
    key = np.zeros(len(codes), dtype=np.int64)
    for column in codes.T:
        key = np.unique(key * (int(column.max(initial=0)) + 1) + column, return_inverse=True)[1]
    return key.ravel()


def covariance_of_means(scores: Floats, rows: Floats, group: Ints) -> Floats:
    """Covariance of averages over rows, ``(scores, scores)``, where a group is one observation.

    Rows with the same cells share everything that is scored except their secret.

    Examples
    --------
    >>> scores, rows = np.array([[1.0, 3.0, 2.0]]), np.array([1.0, 1.0, 2.0])
    >>> covariance_of_means(scores, rows, np.array([0, 1, 2])).tolist()  # 3/2 (1 + 1 + 0) / 4^2
    [[0.1875]]
    """
    away = (scores - (scores @ rows / rows.sum())[:, None]) * rows
    by_group = np.stack([np.bincount(group, one) for one in away])
    seen = int(np.count_nonzero(np.bincount(group, rows)))
    few = seen / max(seen - 1, 1)
    return np.asarray(few * by_group @ by_group.T / rows.sum() ** 2)


def random_folds(rows: Floats, folds: int, rng: np.random.Generator) -> Floats:
    """Deal rows into folds at random; return counts ``(lines, folds)``.

    Examples
    --------
    >>> random_folds(np.array([5.0, 1.0]), 3, np.random.default_rng(0)).sum(axis=1).tolist()
    [5.0, 1.0]
    """
    shares = np.full(folds, 1.0 / folds)
    return np.asarray(rng.multinomial(np.round(rows).astype(np.int64), shares), dtype=np.float64)


# -- features ---------------------------------------------------------------------------------


class Features(NamedTuple):
    """Features of the distinct records, as the kernels read them.

    Cells are numbered consecutively over all attributes. For its own secret s, a record has the
    feature ``cell[y, s] + f step[y, s]``, where f is the row's share in the counts of s (1, or less
    if its secret is latent); for other secrets it has ``cell[y, s]``.

    Attributes
    ----------
    share, share_step : numpy.ndarray
        ``log pi_S`` up to a constant, and its change when a row is removed, shape ``(S,)``.
    cell, step : numpy.ndarray
        See `CellLogs`; attributes are stacked.
    codes : numpy.ndarray
        Cells of the distinct records, ``(records, attributes)``.
    rows : numpy.ndarray
        Number of rows of each record.
    secret : numpy.ndarray
        Secret of each record, or its row in `likelihood`.
    likelihood : numpy.ndarray
        ``E_z(s)`` of the reports of latent secrets; empty if secrets are known.
    """

    share: Floats
    share_step: Floats
    cell: Floats
    step: Floats
    codes: Ints
    rows: Floats
    secret: Ints
    likelihood: Floats

    @classmethod
    def of(cls, table: ReleasedTable, prior: Prior) -> Features:
        """Compute the features of a horizontal table under a prior."""
        if table.scheme != "horizontal":
            raise ModelError("Features of released cells exist only for horizontal tables.")
        counts = _counts(table, prior)
        logs = [
            cell_logs(column.evidence, counts.cells[name], prior.beta[name])
            for name, column in table.columns.items()
        ]
        start = np.concatenate([[0], np.cumsum([len(x.cell) for x in logs])[:-1]]).astype(np.int64)
        records = table.records
        size = len(table.secret.domain)
        latent = not table.secrets_known
        out = np.minimum(counts.secret, 1.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            step = np.log1p(-out / (prior.alpha + counts.secret)) / np.where(out > 0, out, 1.0)
        matrix = table.secret.evidence.matrix
        return cls(
            np.log(prior.alpha + counts.secret),
            np.where(out > 0, step, 0.0),
            np.concatenate([x.cell for x in logs]),
            np.concatenate([x.step for x in logs]),
            np.ascontiguousarray(records.codes + start),
            records.count.astype(np.float64),
            records.secret.copy() if latent else matrix.indices[records.secret].astype(np.int64),
            matrix.toarray() if latent else np.empty((0, size)),
        )

    @property
    def telling(self) -> npt.NDArray[np.bool_]:
        """Whether the cells of each attribute differ between secrets at all."""
        spread = np.ptp(self.cell, axis=1) > FLAT
        return np.array([spread[self.codes[:, a]].any() for a in range(self.codes.shape[1])])

    def alone(self, a: int) -> Features:
        """Return the features of one attribute, merging rows with equal cell and secret."""
        width = max(len(self.likelihood), len(self.share))
        keys, n = self.codes[:, a] * width + self.secret, len(self.cell) * width
        rows = np.bincount(keys, self.rows, minlength=n).astype(np.float64)
        seen = np.flatnonzero(rows)
        return self._replace(codes=(seen // width)[:, None], rows=rows[seen], secret=seen % width)

    def without_folds(self, table: ReleasedTable, prior: Prior, folds: int) -> list[Features]:
        """Return the features that remain when one fold after another is left out.

        For nested cells and known secrets, where counts give features in closed form.
        """
        size = len(self.share)
        taken = random_folds(self.rows, folds, np.random.default_rng(0)).T
        left = np.ascontiguousarray(self.rows - taken)  # avoids compiling kernels again
        cells, steps, start = [], [], 0
        for a, (name, column) in enumerate(table.columns.items()):
            n_cells = len(column.evidence)
            keys = (self.codes[:, a] - start) * size + self.secret
            rows = [np.bincount(keys, one, minlength=n_cells * size) for one in left]
            # The tree treats the secrets of each fold as additional secrets.
            logs = cell_logs(
                column.evidence,
                np.concatenate([one.reshape(n_cells, size) for one in rows], axis=1),
                np.tile(prior.beta[name], (folds, 1)),
            )
            cells.append(logs.cell.reshape(n_cells, folds, size))
            steps.append(logs.step.reshape(n_cells, folds, size))
            start += n_cells
        cell, step = (np.concatenate(x).transpose(1, 0, 2).copy() for x in (cells, steps))
        parts = zip(cell, step, left, strict=True)
        return [self._replace(cell=c, step=d, rows=rows) for c, d, rows in parts]
