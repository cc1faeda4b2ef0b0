"""Latent secrets with small prior weights, drawn with the distributions integrated out.

If prior weights are far below one, people with the same values almost surely have the same secret,
and a sampler that alternates between distributions and rows moves them together or not at all. With
``pi`` integrated out (MODEL 1.4), a row has secret s and a value or cell of each attribute with
probability proportional to

    E_z(s) (alpha_s + n_s) prod_a E_y(k) m(k) / m(root),

where n_s counts the other rows, and ``m(k) / m(root)`` is the product of shares on the path from
the root of the attribute's cell tree, given the other rows (MODEL 1.3). A block of rows is removed
and put back in random order, each row given those before it, and the move is accepted by the
Metropolis rule. Proposals use the prior weights, which keep equal rows together, or powers of them,
which separate them.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from anonbayes.arrays import Floats, Ints
from anonbayes.inference.horizontal.cell_layout import CellArrays, HorizontalLayout

__all__ = ["LatentRows", "redraw_rows"]

SMALL = 0.5
"""Prior weights below this make the plain sampler mix slowly."""
POWERS = (1.0, 0.5, 0.1)
"""Powers of the prior weights used in proposals."""
MOST_ROWS = 256
"""Largest number of rows in a block."""
LEAST_MOVED, MOST_MOVED = 64, 4096
"""Rows moved in a sweep: as many as there are, within these limits."""


class LatentRows(NamedTuple):
    """Rows of a table whose secrets are redrawn in blocks.

    Row j is in group ``group[line, j]``, whose rows are ``rows[first[g]:first[g + 1]]``: those with
    the same cell (one line per attribute), or with all cells the same (the last line).
    """

    record: Ints  # of each row; empty where no blocks are needed
    alpha: Floats  # by power: prior weights of the secrets
    beta: Floats  # by power: those of the nodes of all cell trees, by secret
    group: Ints
    first: Ints
    rows: Ints

    @classmethod
    def of(
        cls, layout: HorizontalLayout, alpha: Floats, beta: Floats, *, wanted: bool = True
    ) -> LatentRows:
        """Collect the rows, if secrets are latent, weights small and blocks `wanted`."""
        d, n_secrets = layout.arrays, layout.n_secrets
        record = np.zeros(0, dtype=np.int64)
        if wanted and layout.is_latent and min(alpha.min(), beta.min()) < SMALL:
            record = np.repeat(np.arange(len(d.record_count)), d.record_count)
        weight = np.zeros((len(POWERS), n_secrets, len(d.node_parent)))
        for b, power in enumerate(POWERS):
            for a, size in enumerate(d.sizes):
                values = beta[d.start[a] : d.start[a + 1]].reshape(n_secrets, size)
                leaves = d.leaf_node[d.first_leaf[a] : d.first_leaf[a + 1]]
                np.add.at(weight[b].T, leaves, _lifted(values, power).T)
            for v in range(len(d.node_parent) - 1, -1, -1):
                if d.node_parent[v] >= 0:
                    weight[b, :, d.node_parent[v]] += weight[b, :, v]
        cells = d.record_cells[record]
        whole = np.unique(cells, axis=0, return_inverse=True)[1].reshape(-1)
        group = np.concatenate([cells.T, whole[None] + len(d.attribute)])
        order = np.argsort(group, axis=None, kind="stable")
        ends = np.cumsum(np.bincount(group.ravel(), minlength=len(d.attribute)))
        return cls(
            record=record.astype(np.int64),
            alpha=np.stack([_lifted(alpha, power) for power in POWERS]),
            beta=weight,
            group=np.array(group, dtype=np.int64, order="C"),  # compiled once
            first=np.concatenate([[0], ends]).astype(np.int64),
            rows=(order % max(len(record), 1)).astype(np.int64),
        )


def _lifted(weights: Floats, power: float) -> Floats:
    return np.where(weights < 1.0, weights**power, weights)


class _State(NamedTuple):
    """Current values of all rows; `own` and `inside` count rows in a node and below, by secret."""

    secret: Ints
    entry: Ints  # by row and attribute: place in the layout's `values`; -1 for cells of the tree
    secret_counts: Floats
    own: Floats
    inside: Floats


@njit(cache=True, nogil=True)
def _path(v: int, s: int, weight: Floats, d: CellArrays, now: _State) -> float:
    """Log-probability that a further row lies at node v."""
    out = 0.0
    while d.node_parent[v] >= 0:
        p = d.node_parent[v]
        # Rows and weights are added separately, so that tiny weights are not lost beside integers.
        siblings = weight[s, p] + (now.inside[s, p] - now.own[s, p])
        out += math.log((weight[s, v] + now.inside[s, v]) / siblings)
        v = p
    return out


@njit(cache=True, nogil=True)
def _leaf(a: int, i: int, d: CellArrays) -> int:
    return d.leaf_node[d.first_leaf[a] + d.values[i]]


@njit(cache=True, nogil=True)
def _put(j: int, n: float, rows: LatentRows, d: CellArrays, now: _State) -> None:
    """Add row j to the counts, or remove it with ``n = -1``."""
    s = now.secret[j]
    now.secret_counts[s] += n
    for a in range(len(d.sizes)):
        v = d.cell_node[d.record_cells[rows.record[j], a]]
        if now.entry[j, a] >= 0:
            v = _leaf(a, now.entry[j, a], d)
        now.own[s, v] += n
        while v >= 0:
            now.inside[s, v] += n
            v = d.node_parent[v]


@njit(cache=True, nogil=True)
def _chosen(j: int, b: int, rows: LatentRows, d: CellArrays, now: _State) -> float:
    """Log weight of the current state of row j, with weights of power b."""
    s, record = now.secret[j], rows.record[j]
    likelihood = d.secret_likelihood[d.record_secret[record], s]
    out = math.log((rows.alpha[b, s] + now.secret_counts[s]) * likelihood)
    for a in range(len(d.sizes)):
        i = now.entry[j, a]
        if i < 0:
            out += _path(d.cell_node[d.record_cells[record, a]], s, rows.beta[b], d, now)
        else:
            out += math.log(d.likelihood[i]) + _path(_leaf(a, i, d), s, rows.beta[b], d, now)
    return out


@njit(cache=True, nogil=True)
def _total(j: int, b: int, rows: LatentRows, d: CellArrays, now: _State, weight: Floats) -> float:
    """Log weight of all states of row j; `weight` gets those of its secrets, at most 1."""
    record = rows.record[j]
    likelihood = d.secret_likelihood[d.record_secret[record]]
    top = -np.inf
    for s in range(len(weight)):
        weight[s] = -np.inf
        if likelihood[s] == 0.0:
            continue
        weight[s] = math.log((rows.alpha[b, s] + now.secret_counts[s]) * likelihood[s])
        for a in range(len(d.sizes)):
            cell = d.record_cells[record, a]
            if d.cell_node[cell] >= 0:
                weight[s] += _path(d.cell_node[cell], s, rows.beta[b], d, now)
                continue
            inside = 0.0
            for i in range(d.pointer[cell], d.pointer[cell + 1]):
                inside += d.likelihood[i] * math.exp(_path(_leaf(a, i, d), s, rows.beta[b], d, now))
            weight[s] += math.log(inside)
        top = max(top, weight[s])
    total = 0.0
    for s in range(len(weight)):
        weight[s] = math.exp(weight[s] - top)
        total += weight[s]
    return top + math.log(total)


@njit(cache=True, nogil=True)
def pick(weight: Floats, rng: np.random.Generator) -> int:
    """Draw a place by its weight."""
    left, place = rng.random() * weight.sum(), 0
    while place < len(weight) - 1 and left >= weight[place]:
        left -= weight[place]
        place += 1
    while weight[place] == 0.0:  # rounding
        place -= 1
    return place


@njit(cache=True, nogil=True)
def _draw_row(
    j: int,
    b: int,
    rows: LatentRows,
    d: CellArrays,
    now: _State,
    weight: Floats,
    rng: np.random.Generator,
) -> None:
    """Draw secret and hidden values of row j; `weight` comes from `_total`."""
    s = pick(weight, rng)
    now.secret[j] = s
    for a in range(len(d.sizes)):
        cell = d.record_cells[rows.record[j], a]
        if d.cell_node[cell] >= 0:
            continue
        total = 0.0
        for last in range(2):  # first sum the weights, then select
            left = rng.random() * total
            for i in range(d.pointer[cell], d.pointer[cell + 1]):
                w = d.likelihood[i] * math.exp(_path(_leaf(a, i, d), s, rows.beta[b], d, now))
                if last == 0:
                    total += w
                    continue
                now.entry[j, a] = i
                left -= w
                if left < 0.0:
                    break


@njit(cache=True, nogil=True)
def _choose(
    rows: LatentRows, order: Ints, block: Ints, mark: Ints, rng: np.random.Generator
) -> int:
    """Choose a block in random order, based only on the released table; return its size."""
    n, size = len(rows.record), 0
    if rng.integers(0, 3) == 0:
        size = n
        if n > 64 or rng.integers(0, 2) == 0:
            size = min(int(2 ** rng.integers(0, 7)), n)
        for i in range(size):
            k = rng.integers(i, n)
            order[i], order[k] = order[k], order[i]
            block[i] = order[i]
        return size
    line = rng.integers(0, rows.group.shape[0])
    for _ in range(rng.integers(1, 4)):
        g = rows.group[line, rng.integers(0, n)]
        lo, hi = rows.first[g], rows.first[g + 1]
        skip = rng.integers(0, hi - lo)  # part of a large group
        for i in range(hi - lo):
            j = rows.rows[lo + (i + skip) % (hi - lo)]
            if size < len(block) and mark[j] == 0:
                mark[j] = 1
                block[size] = j
                size += 1
    for i in range(size):
        mark[block[i]] = 0
        k = rng.integers(0, i + 1)
        block[i], block[k] = block[k], block[i]
    return size


@njit(cache=True, nogil=True)
def redraw_rows(
    pi_secret: Floats,
    pi: Floats,
    probability: Floats,
    rows: LatentRows,
    d: CellArrays,
    first: bool,
    rng: np.random.Generator,
) -> tuple[Floats, Floats]:
    """Draw all rows given the distributions, then blocks of rows with these integrated out.

    `probability` is that of each cell by secret. The `first` time, all rows are drawn from their
    reports alone. Returns the rows at each node of the cell trees, with hidden values at their
    leaves, and the rows by secret.
    """
    n, n_secrets, n_attributes = len(rows.record), len(pi_secret), len(d.sizes)
    nodes = len(d.node_parent)
    now = _State(
        np.zeros(n, dtype=np.int64),
        np.full((n, n_attributes), -1),
        np.zeros(n_secrets),
        np.zeros((n_secrets, nodes)),
        np.zeros((n_secrets, nodes)),
    )
    weight = np.zeros(n_secrets)
    if first:
        for j in range(n):
            weight[:] = d.secret_likelihood[d.record_secret[rows.record[j]]]
            _draw_row(j, len(POWERS) - 1, rows, d, now, weight, rng)
            _put(j, 1.0, rows, d, now)
    else:
        _given_distributions(pi_secret, pi, probability, rows, d, now, weight, rng)
    order, mark = np.arange(n), np.zeros(n, dtype=np.int64)
    block = np.zeros(min(n, MOST_ROWS), dtype=np.int64)
    before, before_entry = np.zeros_like(block), np.zeros((len(block), n_attributes), np.int64)
    left = max(LEAST_MOVED, min(n, MOST_MOVED))
    while left > 0:
        b = rng.integers(0, len(POWERS))
        size = _choose(rows, order, block, mark, rng)
        left -= size
        gain = 0.0
        for i in range(size - 1, -1, -1):
            j = block[i]
            before[i], before_entry[i] = now.secret[j], now.entry[j]
            _put(j, -1.0, rows, d, now)
            gain -= _total(j, b, rows, d, now, weight)
            if b > 0:
                gain -= _chosen(j, 0, rows, d, now) - _chosen(j, b, rows, d, now)
        for i in range(size):
            j = block[i]
            gain += _total(j, b, rows, d, now, weight)
            _draw_row(j, b, rows, d, now, weight, rng)
            if b > 0:
                gain += _chosen(j, 0, rows, d, now) - _chosen(j, b, rows, d, now)
            _put(j, 1.0, rows, d, now)
        if math.log(1.0 - rng.random()) >= gain:
            for i in range(size):
                j = block[i]
                _put(j, -1.0, rows, d, now)
                now.secret[j], now.entry[j] = before[i], before_entry[i]
                _put(j, 1.0, rows, d, now)
    return now.own, now.secret_counts


@njit(cache=True, nogil=True)
def _given_distributions(
    pi_secret: Floats,
    pi: Floats,
    probability: Floats,
    rows: LatentRows,
    d: CellArrays,
    now: _State,
    weight: Floats,
    rng: np.random.Generator,
) -> None:
    """Draw secrets and hidden values given the distributions, which make rows independent."""
    n_secrets = len(pi_secret)
    for j in range(len(rows.record)):
        record = rows.record[j]
        top = -np.inf
        for s in range(n_secrets):
            weight[s] = np.log(pi_secret[s] * d.secret_likelihood[d.record_secret[record], s])
            for a in range(len(d.sizes)):
                weight[s] += np.log(probability[d.record_cells[record, a], s])
            top = max(top, weight[s])
        for s in range(n_secrets):
            # Every row is possible under some secret: the one it had when `pi` was drawn.
            weight[s] = math.exp(weight[s] - top) if top > -np.inf else 1.0
        s = pick(weight, rng)
        now.secret[j] = s
        for a in range(len(d.sizes)):
            cell = d.record_cells[record, a]
            if d.cell_node[cell] >= 0:
                continue
            left = rng.random() * probability[cell, s]
            for i in range(d.pointer[cell], d.pointer[cell + 1]):
                w = pi[d.start[a] + s * d.sizes[a] + d.values[i]] * d.likelihood[i]
                if w > 0.0 or now.entry[j, a] < 0:
                    now.entry[j, a] = i
                left -= w
                if left < 0.0:
                    break
        _put(j, 1.0, rows, d, now)
