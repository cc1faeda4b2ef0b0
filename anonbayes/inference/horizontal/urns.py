"""Cells of attributes with small prior weights, drawn with the distributions summed out.

Where weights are far below one, a draw of ``pi`` is all but certain of the values that rows were
given last, and a sampler that goes back and forth between ``pi`` and counts never leaves them.
With ``pi`` integrated out the values are drawn from an urn (MODEL 1.4): the rows of a cell share
its values by a Dirichlet-multinomial whose weights are ``beta`` plus the values of all other rows.
Cells are redrawn one by one, and connected cells together, in a random order, each given those
before it; such a block is accepted by the Metropolis rule. With the weights ``A_b`` of a cell's
values when its turn comes, target over proposal is ``prod_b Gamma(A_b + n_b) / Gamma(A_b)``.

The urn also gives what beliefs need without the noise of ``pi``: ``P(R_j = k | all other rows)``.
Cells that hang together and have few rows are not sampled for it but listed, since a sampler never
sees a value of weight 1e-8, and yet two beliefs may differ in nothing else.
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
"""Weights below this make the plain sampler sticky; above it, that one tells more per second."""
MOST_LISTED = 20_000
"""Most ways to share out the rows of connected cells that are listed one by one."""
MOST_CELLS = 64
"""Most cells that are redrawn together."""
MOST_ROWS = 32
"""Rows of a report (soft evidence) that are redrawn at a time, one by one."""
FEW_ROWS = 8
"""Rows of a set that are drawn one by one; more are shared by gamma variables."""


class Urns(NamedTuple):
    """The attributes whose cells are drawn from an urn, and these cells.

    Cells of urn u are ``cells[first[u]:first[u + 1]]``: all that allow several values and say
    something. Value k of urn u is allowed by ``value_cells[value_pointer[v]:value_pointer[v + 1]]``
    (places in `cells`) with ``v = value_first[u] + k``.
    """

    attribute: Ints  # one urn each
    of_attribute: Ints  # urn of every attribute of the layout; -1 for none
    first: Ints
    cells: Ints
    hard: Mask  # whether a cell is a set
    rows: Ints  # rows of each cell by sensitive value
    fixed: Floats  # rows in clear, in the places of the flat distributions
    value_first: Ints
    value_pointer: Ints
    value_cells: Ints
    entry: Ints  # place of the attribute's first cell in the layout's values
    entry_first: Ints  # where the averages over the values of its cells begin

    @classmethod
    def of(cls, table: ReleasedTable, layout: HorizontalLayout, beta: Floats) -> Urns:
        """Find the attributes with cells that must be drawn and weights that are small."""
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
    """Space that the kernels work in."""

    x: Floats  # rows of each cell by value, as the layout's values
    before: Floats  # what they were before a block
    held: Floats  # rows by value, of all cells that are in the urn now
    share: Floats  # by value, for a draw
    order: Ints  # cells that have rows
    block: Ints  # those of a block
    mark: Ints  # which are in it

    @classmethod
    def of(cls, layout: HorizontalLayout, urns: Urns) -> Scratch:
        """Make room for the urns of a layout."""
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

    By value there are rows in clear (`fixed`), `pi` and prior `weights`. Where `pi` has no entry,
    the cells are filled one after the other from the urn: a start.
    """
    n = int(np.int64(0))  # a literal would have `_block` and what it calls compiled twice
    work.held[:] = 0.0
    for k in range(len(weights)):
        work.held[k] = fixed[k]
    for c in range(urns.first[u], urns.first[u + 1]):
        if rows[c] > 0:
            # A random place among those so far: all orders are equally likely.
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
    """Rows of a cell that are drawn again together: all of a set, some of a report."""
    return rows[c] if urns.hard[c] else min(rows[c], MOST_ROWS)


@njit(cache=True, nogil=True)
def _from_population(
    cell: int, n: int, pi: Floats, d: CellArrays, work: Scratch, rng: np.random.Generator
) -> None:
    """Share n rows of a cell among its values given ``pi``, and put them into the urn."""
    lo, hi = d.pointer[cell], d.pointer[cell + 1]
    total = 0.0
    for i in range(lo, hi):
        total += pi[d.values[i]] * d.likelihood[i]
    left = n
    for i in range(lo, hi):
        w = pi[d.values[i]] * d.likelihood[i]
        if total <= 0.0:  # all underflow: the values left are alike
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
    """Take n rows of a cell out of the urn; return the log of the weight they had in it.

    All rows of a set, or rows of a report chosen at random; what comes out last went in first.
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
    """What a further row of a cell weighs."""
    total = 0.0
    for i in range(d.pointer[cell], d.pointer[cell + 1]):
        total += (weights[d.values[i]] + work.held[d.values[i]]) * d.likelihood[i]
    return total


@njit(cache=True, nogil=True)
def _set_weight(cell: int, n: int, weights: Floats, d: CellArrays, work: Scratch) -> float:
    """``log Gamma(A + n) / Gamma(A)``, and the likelihood, of n rows of a set yet to be drawn."""
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
    """Put n rows of a cell into the urn, drawn given all others; return the log of its weight."""
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
    """Choose cells that hang together by common values, in a random order; return how many.

    The choice depends on the cells only, not on the values of their rows.
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

    A row of cell y is at k with probability proportional to ``E_y(k) (beta_k + m_k - [it is at
    k])``, averaged here over the rows of the cell; n cells of ``work.order`` have rows.
    """
    for j in range(n):
        c = work.order[j]
        cell = urns.cells[c]
        lo, hi = d.pointer[cell], d.pointer[cell + 1]
        if urns.hard[c]:
            prior = others = 0.0  # apart, so that tiny weights survive beside whole numbers
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


# -- few rows: every way to share them out ----------------------------------------------------


def listed_rows(
    evidence: Evidence, counts: Ints, fixed: Floats | Ints, weights: Floats
) -> tuple[Floats, Mask]:
    """``P(R_j = k | t*)`` by entry of the evidence matrix for one secret, by listing; and where.

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
    """Mean rows of each entry over all ways to share out the rows of cells, by their weights."""
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
        # The next composition of the first cell that has one; those before it begin again.
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
