"""A mixture model for records, and the number of people in the population who share them.

A record has probability ``p(x) = sum_c w_c prod_a theta_ca(x_a)`` (MODEL 1.10). The classes model
dependence between attributes, which a single product cannot express. The weights of the ``C``
classes have the prior ``Dir(alpha / C)``, which approximates a Dirichlet process. With
``theta_ca ~ Dir(kappa_a m_a)`` and ``m_a ~ Dir(gamma_a / L_a)``, classes are shrunk towards the
overall distribution ``m_a``, more strongly the larger ``kappa_a`` is; ``m_a`` and ``kappa_a`` are
both learned. If the domain is not given, the number of values missing from the sample is also
learned, and these values are treated as one. The more values occur only once, the more are missing.

For numbers, ranges are repeatedly halved instead (a Pólya tree): the two halves of each range have
such a prior, with one ``kappa`` for each depth. Classes can then differ in their ages, for example,
and still be smooth, which is impossible with a single Dirichlet prior. Ragged classes overestimate
the probabilities of the sampled rows and therefore find too few unique people.

Released cells enter through their likelihood vectors: ``theta_ca(y) = sum_k theta_ca(k) E_y(k) /
max_k E_y(k)``. A person shares a cell to the extent that their value explains it: somebody whose
value makes the cell half as likely as the best value does counts as half a person.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit
from scipy import sparse

from anonbayes.arrays import Floats, Ints
from anonbayes.inference.dirichlet import log_gamma_draw
from anonbayes.tables.evidence import Evidence

POOLING_MEAN, POOLING_SD = math.log(3.0), 1.5
"""Prior of ``log kappa``; its mean grows by twice the logarithm of the depth in a tree."""
SMALL = 1e-250
"""Products below this are recomputed in logarithms."""


class SampleRecords(NamedTuple):
    """Distinct records of a sample as plain arrays.

    Cells are numbered consecutively over all attributes, and so are values.
    """

    cells: Ints
    """Cell of each attribute, one line per distinct record."""
    path: npt.NDArray[np.int32]
    """As `cells`, with attributes of few cells first; lines are sorted, so that neighbours share
    the product over their first cells."""
    rows: Ints
    """Rows of the sample that have the record."""
    mass: Floats
    """How much these rows count in the likelihood: their number, or their share of the weights."""
    cell_start: Ints
    """Start of the values of each cell, and the end of the last."""
    cell_values: Ints
    """Values that each cell allows."""
    cell_evidence: Floats
    """Likelihood of the cell given each of these values, relative to the best value."""
    value_start: Ints
    """Start of the values of each attribute, and the end of the last."""
    slot_start: Ints
    """Start of the parts of each split, and the end of the last; parents come before children."""
    slot_first: Ints
    """First value of each part."""
    slot_last: Ints
    """End of the values of each part."""
    pool: Ints
    """Pool of each split; splits of the same pool share ``kappa`` and ``gamma``."""
    pool_mean: Floats
    """Prior mean of ``log kappa`` of each pool."""
    pool_open: npt.NDArray[np.bool_]
    """Whether the last part of each pool's splits stands for values missing from the sample."""
    way_start: Ints
    """Start of the path down the splits to each cell, and the end of the last."""
    way_slots: Ints
    """Parts that contain the value of each cell. Empty for attributes with cells of several
    values; splits with a single part are omitted."""
    way_splits: Ints
    """Split that each of these parts belongs to."""


class Splits(NamedTuple):
    """How the values of an attribute are divided, parents before children."""

    parts: list[list[tuple[int, int]]]
    """First value and end of each part, for each split."""
    depth: list[int]
    """Depth of each split; for numbers, depth 0 separates seen from unseen values."""


def splits_of(size: int, *, missed: bool, ordered: bool) -> Splits:
    """Divide `size` values; if `missed`, one more stands for all values missing from the sample.

    Examples
    --------
    >>> splits_of(3, missed=True, ordered=False).parts
    [[(0, 1), (1, 2), (2, 3), (3, 4)]]
    >>> splits_of(4, missed=True, ordered=True).parts
    [[(0, 4), (4, 5)], [(0, 2), (2, 4)], [(0, 1), (1, 2)], [(2, 3), (3, 4)]]
    """
    if not ordered:
        return Splits([[(v, v + 1) for v in range(size + missed)]], [1])
    parts, depths = [], []
    if missed:
        parts.append([(0, size), (size, size + 1)])
        depths.append(0)
    level, depth = [(0, size)], 1
    while level:
        halves = [[(a, (a + b) // 2), ((a + b) // 2, b)] for a, b in level if b - a > 1]
        parts += halves
        depths += [depth] * len(halves)
        level, depth = [part for two in halves for part in two], depth + 1
    return Splits(parts, depths) if parts else Splits([[(0, 1)]], [1])


def attributes_in_order(evidence: list[Evidence]) -> list[int]:
    """Positions of the attributes, those with few cells first."""
    return sorted(range(len(evidence)), key=lambda a: len(evidence[a]))


def record_arrays(
    evidence: list[Evidence],
    missed: list[bool],
    ordered: list[bool],
    cells: Ints,
    rows: Ints,
    mass: Floats,
) -> SampleRecords:
    """Number cells and values over all attributes; missed values come last in each attribute."""
    n_cells = np.array([len(e) for e in evidence])
    offsets = np.concatenate([[0], np.cumsum(n_cells)[:-1]])
    lengths = [len(e.domain) + more for e, more in zip(evidence, missed, strict=True)]
    value_start = np.concatenate([[0], np.cumsum(lengths)])
    blocks = [
        sparse.csr_array((e.matrix.data, e.matrix.indices, e.matrix.indptr), shape=(len(e), length))
        for e, length in zip(evidence, lengths, strict=True)
    ]
    matrix = sparse.csr_array(sparse.block_diag(blocks, format="csr"))
    cells = np.ascontiguousarray(cells + offsets, dtype=np.int64)
    path = np.ascontiguousarray(cells[:, attributes_in_order(evidence)], dtype=np.int32)
    start, values = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
    best = np.maximum.reduceat(matrix.data.astype(np.float64), start[:-1])
    parts: list[tuple[int, int]] = []
    sizes: list[int] = []
    pool: list[int] = []
    means: list[float] = []
    opens: list[bool] = []
    for e, more, is_ordered, first in zip(evidence, missed, ordered, value_start, strict=False):
        splits = splits_of(len(e.domain), missed=more, ordered=is_ordered)
        numbers = {depth: len(means) + i for i, depth in enumerate(sorted(set(splits.depth)))}
        opens += [more and depth == min(numbers) for depth in sorted(numbers)]
        means += [POOLING_MEAN + 2.0 * math.log(max(depth, 1)) for depth in sorted(numbers)]
        pool += [numbers[depth] for depth in splits.depth]
        sizes += [len(split) for split in splits.parts]
        parts += [(first + a, first + b) for split in splits.parts for a, b in split]
    first_last = np.array(parts, dtype=np.int64)
    slot_start = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    single = [len(e.domain) > 0 and e.matrix.nnz == len(e) for e in evidence]
    way_start, way_slots, way_splits = _ways(
        first_last, slot_start, values[start[:-1]], np.repeat(single, n_cells)
    )
    return SampleRecords(
        cells=cells,
        path=path,
        rows=np.ascontiguousarray(rows, dtype=np.int64),
        mass=np.ascontiguousarray(mass, dtype=np.float64),
        cell_start=start,
        cell_values=values,
        cell_evidence=matrix.data / np.repeat(best, np.diff(start)),
        value_start=value_start.astype(np.int64),
        slot_start=slot_start,
        slot_first=np.ascontiguousarray(first_last[:, 0]),
        slot_last=np.ascontiguousarray(first_last[:, 1]),
        pool=np.array(pool, dtype=np.int64),
        pool_mean=np.array(means),
        pool_open=np.array(opens),
        way_start=way_start,
        way_slots=way_slots,
        way_splits=way_splits,
    )


def _ways(
    first_last: Ints, slot_start: Ints, value_of_cell: Ints, single: npt.NDArray[np.bool_]
) -> tuple[Ints, Ints, Ints]:
    """Find the parts that contain the values of `single` cells, and the splits of these parts."""
    lengths = first_last[:, 1] - first_last[:, 0]
    split = np.repeat(np.arange(len(slot_start) - 1), np.diff(slot_start))
    lengths = np.where(np.diff(slot_start)[split] > 1, lengths, 0)
    slot = np.repeat(np.arange(len(lengths)), lengths)
    within = np.arange(len(slot)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    value = first_last[slot, 0] + within
    slot = slot[np.argsort(value, kind="stable")]
    often = np.bincount(value, minlength=first_last[:, 1].max())
    begin = np.cumsum(often) - often
    steps = np.where(single, often[value_of_cell], 0)
    place = np.repeat(begin[value_of_cell] - np.cumsum(steps) + steps, steps)
    slots = slot[place + np.arange(steps.sum())]
    return np.concatenate([[0], np.cumsum(steps)]), slots, split[slots]


def margins(records: SampleRecords) -> Floats:
    """Share of each part in its split, never zero; coarse cells count towards all their values."""
    cell_mass = np.bincount(
        records.cells.ravel(),
        weights=np.repeat(records.mass, records.cells.shape[1]),
        minlength=len(records.cell_start) - 1,
    )
    sizes = np.diff(records.cell_start)
    evidence = records.cell_evidence / np.repeat(
        np.add.reduceat(records.cell_evidence, records.cell_start[:-1]), sizes
    )
    counts = np.bincount(
        records.cell_values,
        weights=np.repeat(cell_mass, sizes) * evidence,
        minlength=records.value_start[-1],
    )
    parts = 0.1 + part_counts(counts[None, :], records)[0]
    totals = np.add.reduceat(parts, records.slot_start[:-1])
    return parts / np.repeat(totals, np.diff(records.slot_start))


@njit(cache=True, nogil=True)
def part_counts(counts: Floats, records: SampleRecords) -> Floats:
    """Mass of every part of every split, from that of the values; one line per class."""
    n_classes, n_values = counts.shape
    sums = np.zeros((n_classes, n_values + 1))
    for c in range(n_classes):
        for v in range(n_values):
            sums[c, v + 1] = sums[c, v] + counts[c, v]
    out = np.empty((n_classes, len(records.slot_first)))
    for s in range(len(records.slot_first)):
        first, last = records.slot_first[s], records.slot_last[s]
        for c in range(n_classes):
            # single values are exact; sums of weights might be off by rounding
            mass = counts[c, first] if last == first + 1 else sums[c, last] - sums[c, first]
            out[c, s] = mass if mass > 1e-9 else 0.0
    return out


@njit(cache=True, nogil=True)
def cell_shares(theta: Floats, records: SampleRecords) -> Floats:
    """Probability of each cell in each class, cells by classes."""
    n_classes = theta.shape[0]
    n_cells = len(records.cell_start) - 1
    out = np.zeros((n_cells, n_classes))
    for g in range(n_cells):
        for i in range(records.cell_start[g], records.cell_start[g + 1]):
            value, likely = records.cell_values[i], records.cell_evidence[i]
            for c in range(n_classes):
                out[g, c] += theta[c, value] * likely
    return out


@njit(cache=True, nogil=True)
def sum_up(products: Floats, shares: Floats, path: npt.NDArray[np.int32], sums: Floats) -> float:
    """Fill `sums` with cumulative sums of the last line of `products`; return the log of the total.

    The values in `sums` may lack a factor common to all classes.
    """
    n_classes = len(sums)
    last = products[len(path)]
    total = 0.0
    for c in range(n_classes):
        total += last[c]
        sums[c] = total
    if total > SMALL:
        return np.log(total)
    for c in range(n_classes):
        sums[c] = np.log(products[0, c]) if products[0, c] > 0.0 else -1e300
        for a in range(len(path)):
            share = shares[path[a], c]
            sums[c] += np.log(share) if share > 0.0 else -1e300
    top = sums.max()
    total = 0.0
    for c in range(n_classes):
        total += np.exp(sums[c] - top)
        sums[c] = total
    return top + np.log(total)


@njit(cache=True, nogil=True)
def multiply(products: Floats, shares: Floats, path: npt.NDArray[np.int32], known: int) -> None:
    """Fill in weight times shares of the first cells, line by line; the first `known` are kept."""
    for a in range(known, len(path)):
        row = shares[path[a]]
        for c in range(len(row)):
            products[a + 1, c] = products[a, c] * row[c]


@njit(cache=True, nogil=True)
def log_probabilities(
    weights: Floats, shares: Floats, path: npt.NDArray[np.int32], out: Floats
) -> None:
    """Logarithm of ``p`` of each record."""
    products, sums = np.empty((path.shape[1] + 1, len(weights))), np.empty(len(weights))
    products[0] = weights
    for d in range(len(path)):
        multiply(products, shares, path[d], 0)
        out[d] = sum_up(products, shares, path[d], sums)


@njit(cache=True, nogil=True)
def dirichlet(shapes: Floats, out: Floats, rng: np.random.Generator) -> None:
    """Draw shares; in logarithms if all shapes are so small that gammas might underflow."""
    if shapes.max() > 0.1:
        for v in range(len(shapes)):
            out[v] = rng.standard_gamma(shapes[v])
    else:
        for v in range(len(shapes)):
            out[v] = log_gamma_draw(shapes[v], rng)
        out[:] = np.exp(out - out.max())
    total = out.sum()
    for v in range(len(shapes)):
        out[v] = max(out[v] / total, 1e-300)


@njit(cache=True, nogil=True)
def draw_theta(
    counts: Floats,
    records: SampleRecords,
    margin: Floats,
    kappa: Floats,
    kept: npt.NDArray[np.bool_],
    theta: Floats,
    rng: np.random.Generator,
) -> None:
    """Draw the share of every value in each class from the counts of parts, parents first.

    Classes in `kept` are left unchanged.
    """
    widest = 0
    for i in range(len(records.pool)):
        widest = max(widest, records.slot_start[i + 1] - records.slot_start[i])
    shapes, drawn = np.empty(widest), np.empty(widest)
    for c in range(theta.shape[0]):
        if kept[c]:
            continue
        theta[c] = 1.0
        for i in range(len(records.pool)):
            first, size = records.slot_start[i], records.slot_start[i + 1] - records.slot_start[i]
            weight = kappa[records.pool[i]]
            for s in range(size):
                shapes[s] = weight * margin[first + s] + counts[c, first + s]
            dirichlet(shapes[:size], drawn[:size], rng)
            for s in range(size):
                for v in range(records.slot_first[first + s], records.slot_last[first + s]):
                    theta[c, v] *= drawn[s]
