"""Cells of attributes with small prior weights, drawn with the distributions integrated out.

If prior weights are far below one, a draw of ``pi`` is almost certain of the values that rows were
last given, and a sampler that alternates between ``pi`` and counts never leaves them. With ``pi``
integrated out, values are drawn from a Polya urn (MODEL 1.4): the rows of a cell are distributed
over its values by a Dirichlet-multinomial with weights ``beta`` plus the values of all other rows.
Cells are redrawn one by one, and connected cells together in random order, each given those before
it; such a block is accepted by the Metropolis rule. With the weights ``A_b`` of a cell's values
when it is drawn, target over proposal is ``prod_b Gamma(A_b + n_b) / Gamma(A_b)``.

The urn also gives ``P(R_j = k | all other rows)``, which beliefs need, without the noise of ``pi``.
For small sets of connected cells this is computed by enumeration: a sampler never visits a value of
weight 1e-8, although two beliefs may differ in nothing else.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.sparse.csgraph import connected_components

from anonbayes.arrays import Floats, Ints, Mask, starts_of
from anonbayes.inference.dirichlet import log_gamma_draw
from anonbayes.inference.horizontal.cell_layout import CellArrays, HorizontalLayout, is_flat
from anonbayes.tables.evidence import Evidence
from anonbayes.tables.table import ReleasedTable

SMALL = 0.05
"""Prior weights below this make the plain sampler mix slowly; above, it is more efficient."""
MOST_LISTED = 20_000
"""Enumerate at most this many distributions of the rows of connected cells."""
MOST_CELLS = 64
"""Largest number of cells redrawn together."""
MOST_ROWS = 32
"""Number of rows of a report (soft evidence) redrawn at a time, one by one."""
FEW_ROWS = 8
"""Draw up to this many rows of a set one by one, and more by gamma variables."""


class Urns(NamedTuple):
    """Attributes whose cells are drawn from an urn, and these cells.

    The cells of urn u are ``cells[first[u]:first[u + 1]]``: those that allow several values and are
    informative. Value k of urn u is allowed by ``value_cells[value_pointer[v]:value_pointer[v +
    1]]`` (positions in `cells`) with ``v = value_first[u] + k``.
    """

    attribute: Ints  # one urn each
    of_attribute: Ints  # urn of every attribute of the layout; -1 for none
    first: Ints
    cells: Ints
    hard: Mask  # whether a cell is a set
    rows: Ints  # rows of each cell by sensitive value
    fixed: Floats  # rows in clear, at the positions of the flat distributions
    value_first: Ints
    value_pointer: Ints
    value_cells: Ints
    entry: Ints  # position of the attribute's first cell in the layout's values
    entry_first: Ints  # start of the averages over the values of its cells

    @classmethod
    def of(cls, table: ReleasedTable, layout: HorizontalLayout, beta: Floats) -> Urns:
        """Find attributes that have small weights and cells that must be drawn."""
        d, n_secrets = layout.arrays, layout.n_secrets
        first_cell = np.searchsorted(d.attribute, np.arange(len(d.sizes) + 1))
        chosen: list[int] = [
            a
            for a in range(len(d.sizes))
            if table.secrets_known
            and (d.cell_node[first_cell[a] : first_cell[a + 1]] < 0).any()
            and beta[d.start[a] : d.start[a + 1]].min() < SMALL
        ]
        of_attribute = np.full(len(d.sizes), -1)
        of_attribute[chosen] = np.arange(len(chosen))
        cells: list[Ints] = []
        rows: list[Ints] = []
        pointer: list[Ints] = [np.zeros(1, dtype=np.int64)]
        inside: list[Ints] = []
        fixed = np.zeros(layout.length)
        for a in chosen:
            name = layout.names[a]
            evidence = table.columns[name].evidence
            own = np.flatnonzero((evidence.sizes > 1) & ~is_flat(evidence))
            counts = table.counts[name].toarray()
            single = np.flatnonzero(evidence.sizes == 1)
            value = evidence.matrix.indices[evidence.matrix.indptr[single]]
            block = fixed[d.start[a] : d.start[a + 1]].reshape(n_secrets, -1)
            np.add.at(block.T, value, counts[single])
            by_value = evidence.matrix[own].tocsc()
            inside.append(by_value.indices + sum(map(len, cells)))
            pointer.append(by_value.indptr[1:] + pointer[-1][-1])
            cells.append(own + first_cell[a])
            rows.append(counts[own])
        sizes = d.sizes[chosen]
        joined = np.concatenate([np.zeros(0, dtype=np.int64), *cells])
        hard = [np.ptp(d.likelihood[d.pointer[c] : d.pointer[c + 1]]) == 0.0 for c in joined]
        entry = d.pointer[first_cell]
        return cls(
            attribute=np.array(chosen, dtype=np.int64),
            of_attribute=of_attribute.astype(np.int64),
            first=starts_of(list(map(len, cells))),
            cells=joined.astype(np.int64),
            hard=np.array(hard, dtype=bool),
            rows=np.concatenate([np.zeros((0, n_secrets)), *rows]).astype(np.int64),
            fixed=fixed,
            value_first=starts_of(sizes),
            value_pointer=np.concatenate(pointer).astype(np.int64),
            value_cells=np.concatenate([np.zeros(0), *inside]).astype(np.int64),
            entry=entry[chosen].astype(np.int64),
            entry_first=starts_of(n_secrets * np.diff(entry)[chosen]),
        )


class Scratch(NamedTuple):
    """Working arrays of the kernels."""

    x: Floats  # rows of each cell by value, as the layout's values
    before: Floats  # copy of x before a block is redrawn
    held: Floats  # rows by value, of all cells currently in the urn
    share: Floats  # weights by value, for a draw
    order: Ints  # cells that have rows
    block: Ints  # cells of a block
    mark: Ints  # whether a cell is in the block

    @classmethod
    def of(cls, layout: HorizontalLayout, urns: Urns) -> Scratch:
        """Allocate working arrays for the urns of a layout."""
        entries, values = len(layout.arrays.values), int(layout.arrays.sizes.max())
        if not len(urns.attribute):
            entries = values = 0
        n = len(urns.cells)
        return cls(
            np.zeros(entries),
            np.zeros(entries),
            np.zeros(values),
            np.zeros(values),
            np.zeros(n, dtype=np.int64),
            np.zeros(MOST_CELLS, dtype=np.int64),
            np.zeros(n, dtype=np.int64),
        )


# -- kernels ----------------------------------------------------------------------------------
#
# `d` is a layout's `CellArrays`; `weights` are the prior weights of one attribute given one
# sensitive value, by value.


@njit(cache=True, nogil=True)
def draw_urn(
    u: int,
    s: int,
    rows: Ints,
    fixed: Floats,
    pi: Floats,
    weights: Floats,
    d: CellArrays,
    urns: Urns,
    work: Scratch,
    rng: np.random.Generator,
) -> int:
    """Draw the values of all rows of one urn into ``work.x``; return how many cells have rows.

    `fixed` are rows in clear, `weights` prior weights, both by value. If `pi` is empty, cells are
    filled one after another from the urn, as a start.
    """
    n = int(np.int64(0))  # with a literal, `_block` and what it calls would be compiled twice
    work.held[:] = 0.0
    for k in range(len(weights)):
        work.held[k] = fixed[k]
    for c in range(urns.first[u], urns.first[u + 1]):
        if rows[c] > 0:
            # Insert at a random position: all orders are equally likely.
            place = rng.integers(0, n + 1)
            work.order[n] = work.order[place]
            work.order[place] = c
            n += 1
    for j in range(n):
        c = work.order[j]
        if len(pi) > 0:
            _from_population(urns.cells[c], rows[c], pi, d, work, rng)
        else:
            cell = urns.cells[c]
            for i in range(d.pointer[cell], d.pointer[cell + 1]):
                work.x[i] = 0.0
            _draw(c, rows[c], weights, d, urns, work, rng)
    for j in range(n):
        c = work.order[j]
        _take_out(c, _movable(c, rows, urns), weights, d, urns, work, rng)
        _draw(c, _movable(c, rows, urns), weights, d, urns, work, rng)
    redrawn = 0
    while n > 1 and redrawn < n:
        redrawn += _block(u, n, rows, weights, d, urns, work, rng)
    return n


@njit(cache=True, nogil=True)
def _movable(c: int, rows: Ints, urns: Urns) -> int:
    """Number of rows of a cell redrawn together: all of a set, some of a report."""
    return rows[c] if urns.hard[c] else min(rows[c], MOST_ROWS)


@njit(cache=True, nogil=True)
def _from_population(
    cell: int, n: int, pi: Floats, d: CellArrays, work: Scratch, rng: np.random.Generator
) -> None:
    """Distribute n rows of a cell over its values given ``pi``, and add them to the urn."""
    lo, hi = d.pointer[cell], d.pointer[cell + 1]
    total = 0.0
    for i in range(lo, hi):
        total += pi[d.values[i]] * d.likelihood[i]
    left = n
    for i in range(lo, hi):
        w = pi[d.values[i]] * d.likelihood[i]
        if total <= 0.0:  # everything underflows: treat the remaining values alike
            x = rng.binomial(left, 1.0 / (hi - i))
        else:
            x = left if w >= total or i == hi - 1 else rng.binomial(left, w / total)
            total -= w
        work.x[i] = x
        work.held[d.values[i]] += x
        left -= x


@njit(cache=True, nogil=True)
def _take_out(
    c: int,
    n: int,
    weights: Floats,
    d: CellArrays,
    urns: Urns,
    work: Scratch,
    rng: np.random.Generator,
) -> float:
    """Remove n rows of a cell from the urn; return the log of the weight they had in it.

    All rows of a set, or random rows of a report; they are removed in reverse order of insertion.
    """
    cell = urns.cells[c]
    lo, hi = d.pointer[cell], d.pointer[cell + 1]
    if urns.hard[c]:
        for i in range(lo, hi):
            work.held[d.values[i]] -= work.x[i]
            work.x[i] = 0.0
        return _set_weight(cell, n, weights, d, work)
    log_weight, inside = 0.0, 0.0
    for i in range(lo, hi):
        inside += work.x[i]
    for r in range(n):
        place = rng.random() * (inside - r)
        i = lo
        while place >= work.x[i] and i < hi - 1:
            place -= work.x[i]
            i += 1
        work.x[i] -= 1.0
        work.held[d.values[i]] -= 1.0
        log_weight += math.log(_mass(cell, weights, d, work))
    return log_weight


@njit(cache=True, nogil=True)
def _mass(cell: int, weights: Floats, d: CellArrays, work: Scratch) -> float:
    """Weight of one more row of a cell."""
    total = 0.0
    for i in range(d.pointer[cell], d.pointer[cell + 1]):
        total += (weights[d.values[i]] + work.held[d.values[i]]) * d.likelihood[i]
    return total


@njit(cache=True, nogil=True)
def _set_weight(cell: int, n: int, weights: Floats, d: CellArrays, work: Scratch) -> float:
    """``log Gamma(A + n) / Gamma(A)``, plus log likelihood, of n undrawn rows of a set."""
    likelihood = d.likelihood[d.pointer[cell]]
    total = _mass(cell, weights, d, work) / likelihood
    return math.lgamma(total + n) - math.lgamma(total) + n * math.log(likelihood)


@njit(cache=True, nogil=True)
def _draw(
    c: int,
    n: int,
    weights: Floats,
    d: CellArrays,
    urns: Urns,
    work: Scratch,
    rng: np.random.Generator,
) -> float:
    """Draw n rows of a cell given all others into the urn; return the log of their weight."""
    cell = urns.cells[c]
    lo, hi = d.pointer[cell], d.pointer[cell + 1]
    if not urns.hard[c] or n <= FEW_ROWS:
        log_weight = 0.0
        for _ in range(n):
            total = _mass(cell, weights, d, work)
            log_weight += math.log(total)
            left = rng.random() * total
            i = lo
            while i < hi - 1:
                k = d.values[i]
                left -= (weights[k] + work.held[k]) * d.likelihood[i]
                if left < 0.0:
                    break
                i += 1
            work.x[i] += 1.0
            work.held[d.values[i]] += 1.0
        return log_weight
    log_weight = _set_weight(cell, n, weights, d, work)
    top = -np.inf
    for i in range(lo, hi):
        k = d.values[i]
        work.share[k] = log_gamma_draw(weights[k] + work.held[k], rng)
        top = max(top, work.share[k])
    total = 0.0
    for i in range(lo, hi):
        work.share[d.values[i]] = math.exp(work.share[d.values[i]] - top)
        total += work.share[d.values[i]]
    left = n
    for i in range(lo, hi):
        w = work.share[d.values[i]]
        x = left if w >= total or i == hi - 1 else rng.binomial(left, w / total)
        total -= w
        work.x[i] += x
        work.held[d.values[i]] += x
        left -= x
    return log_weight


@njit(cache=True, nogil=True)
def _block(
    u: int,
    n: int,
    rows: Ints,
    weights: Floats,
    d: CellArrays,
    urns: Urns,
    work: Scratch,
    rng: np.random.Generator,
) -> int:
    """Redraw connected cells together; return how many. `n` cells of ``work.order`` have rows."""
    sizes = 1
    while 2 ** (sizes + 1) <= min(n, MOST_CELLS):
        sizes += 1
    wanted = min(2 ** (1 + rng.integers(0, sizes)), n)
    if n <= MOST_CELLS and rng.integers(0, 2) == 0:
        wanted = n
    size = _connected(u, n, wanted, rows, d, urns, work, rng)
    old = new = 0.0
    for b in range(size - 1, -1, -1):
        c = work.block[b]
        cell = urns.cells[c]
        for i in range(d.pointer[cell], d.pointer[cell + 1]):
            work.before[i] = work.x[i]
        old += _take_out(c, _movable(c, rows, urns), weights, d, urns, work, rng)
    for b in range(size):
        c = work.block[b]
        new += _draw(c, _movable(c, rows, urns), weights, d, urns, work, rng)
    if math.log(rng.random()) >= new - old:
        for b in range(size):
            cell = urns.cells[work.block[b]]
            for i in range(d.pointer[cell], d.pointer[cell + 1]):
                work.held[d.values[i]] += work.before[i] - work.x[i]
                work.x[i] = work.before[i]
    return size


@njit(cache=True, nogil=True)
def _connected(
    u: int,
    n: int,
    wanted: int,
    rows: Ints,
    d: CellArrays,
    urns: Urns,
    work: Scratch,
    rng: np.random.Generator,
) -> int:
    """Choose cells connected by common values, in random order; return how many.

    The choice depends only on the cells, not on the values of their rows.
    """
    if wanted == n:
        for b in range(n):
            i = rng.integers(0, b + 1)
            work.block[b] = work.block[i]
            work.block[i] = work.order[b]
        return n
    work.block[0] = work.order[rng.integers(0, n)]
    work.mark[work.block[0]] = 1
    size = 1
    for _ in range(4 * wanted):
        if size == wanted:
            break
        cell = urns.cells[work.block[rng.integers(0, size)]]
        k = d.values[rng.integers(d.pointer[cell], d.pointer[cell + 1])]
        v = urns.value_first[u] + k
        c = urns.value_cells[rng.integers(urns.value_pointer[v], urns.value_pointer[v + 1])]
        if rows[c] > 0 and work.mark[c] == 0:
            work.mark[c] = 1
            work.block[size] = c
            size += 1
    for b in range(size):
        work.mark[work.block[b]] = 0
    return size


@njit(cache=True, nogil=True)
def record_urn(
    n: int,
    rows: Ints,
    weights: Floats,
    d: CellArrays,
    urns: Urns,
    work: Scratch,
    entry: int,
    fit: Floats,
) -> None:
    """Add ``P(R_j = k | all other rows)`` of a row of each cell to `fit`, which begins at `entry`.

    A row of cell y has value k with probability proportional to ``E_y(k) (beta_k + m_k - [it has
    k])``, averaged here over the rows of the cell; `n` cells of ``work.order`` have rows.
    """
    for j in range(n):
        c = work.order[j]
        cell = urns.cells[c]
        lo, hi = d.pointer[cell], d.pointer[cell + 1]
        if urns.hard[c]:
            prior = others = 0.0  # separate, or integers would swamp tiny weights
            for i in range(lo, hi):
                prior += weights[d.values[i]]
                others += work.held[d.values[i]]
            for i in range(lo, hi):
                at = weights[d.values[i]] + (work.held[d.values[i]] - work.x[i] / rows[c])
                fit[i - entry] += at / (prior + (others - 1.0))
            continue
        whole, inverse = _mass(cell, weights, d, work), 0.0
        for i in range(lo, hi):
            if work.x[i] > 0.0:
                inverse += work.x[i] / rows[c] / (whole - d.likelihood[i])
        for i in range(lo, hi):
            at = (weights[d.values[i]] + work.held[d.values[i]]) * inverse
            if work.x[i] > 0.0:
                at -= work.x[i] / rows[c] / (whole - d.likelihood[i])
            fit[i - entry] += at * d.likelihood[i]


# -- few rows: enumeration --------------------------------------------------------------------


def listed_rows(
    evidence: Evidence, counts: Ints, fixed: Floats | Ints, weights: Floats
) -> tuple[Floats, Mask]:
    """``P(R_j = k | t*)`` for one secret by enumeration, by evidence entry; also where it applies.

    Cells that share no value, directly or through others, are independent given the secret.
    `counts` are zero for cells that need not be drawn; `fixed` are rows in clear by value.
    """
    matrix = evidence.matrix
    fit, known = np.zeros(matrix.nnz), np.zeros(matrix.nnz, dtype=bool)
    drawn = np.flatnonzero(counts)
    if not len(drawn):
        return fit, known
    used = matrix[drawn]
    _, part = connected_components(used @ used.T, directed=False)
    for p in range(int(part.max()) + 1):
        cells = drawn[part == p]
        ways = 1
        for c in cells:
            ways *= math.comb(int(counts[c] + evidence.sizes[c]) - 1, int(counts[c]))
            if ways > MOST_LISTED:
                break
        if ways > MOST_LISTED:
            continue
        entries = np.concatenate(
            [np.arange(matrix.indptr[c], matrix.indptr[c + 1]) for c in cells]
        ).astype(np.int64)
        rows = counts[cells].astype(np.int64)
        total = _list(
            rows,
            starts_of(evidence.sizes[cells]),
            matrix.indices[entries].astype(np.int64),
            np.log(matrix.data[entries]),
            weights + fixed,
        )
        fit[entries] = total / np.repeat(rows, evidence.sizes[cells])
        known[entries] = True
    return fit, known


@njit(cache=True, nogil=True)
def _list(rows: Ints, pointer: Ints, values: Ints, log_likelihood: Floats, base: Floats) -> Floats:
    """Mean number of rows of each entry over all distributions of the rows of cells, weighted."""
    n, size = len(rows), len(values)
    x = np.zeros(size)
    for c in range(n):
        x[pointer[c]] = rows[c]
    held = np.zeros(len(base))
    total, mass, top = np.zeros(size), 0.0, -np.inf
    c = 0
    while c < n:
        held[:] = 0.0
        log_weight = 0.0
        for i in range(size):
            held[values[i]] += x[i]
            log_weight += x[i] * log_likelihood[i] - math.lgamma(x[i] + 1.0)
        for i in range(size):
            k = values[i]
            if held[k] > 0.0:
                log_weight += math.lgamma(base[k] + held[k]) - math.lgamma(base[k])
                held[k] = 0.0
        if log_weight > top:
            scale = math.exp(top - log_weight)
            total *= scale
            mass *= scale
            top = log_weight
        weight = math.exp(log_weight - top)
        mass += weight
        for i in range(size):
            total[i] += weight * x[i]
        # Next composition of the first cell that has one; earlier cells start over.
        c = 0
        while c < n:
            lo, hi = pointer[c], pointer[c + 1]
            i = lo
            while i < hi and x[i] == 0.0:
                i += 1
            if i < hi - 1:
                moved = x[i]
                x[i] = 0.0
                x[lo] = moved - 1.0
                x[i + 1] += 1.0
                break
            last = x[hi - 1]
            x[hi - 1] = 0.0
            x[lo] = last
            c += 1
    return total / mass
