"""A mixture of products for records, and the people of the population who share them.

A record has probability ``p(x) = sum_c w_c prod_a theta_ca(x_a)`` (MODEL 1.10): classes make
attributes depend on each other, which products alone cannot. The weights are a truncated
stick; ``theta_ca ~ Dir(kappa_a m_a)`` and ``m_a ~ Dir(gamma_a / L_a)``: classes borrow from the
whole, the more the larger ``kappa_a``; how much, and the whole itself, are learned. Where the
domain is not given, so is the number of values that the sample has missed, which stand together as
one: the more values occur once, the more are missed.

Numbers are halved again and again instead (a Pólya tree): each half of each range has such a prior,
with a ``kappa`` for each depth. Classes may then differ in their ages without being ragged, as
single Dirichlets would have to be; ragged classes find the rows that were sampled too likely, and
unique people too few.

A Gibbs sweep draws a class for each row, splits the counts of coarse cells among their values, and
draws ``kappa``, ``m`` (with numbers of tables as in a Chinese restaurant), ``theta`` and ``w``; its
cost is distinct records times classes, whatever the number of rows.
Released cells enter by their likelihood vectors, as everywhere: ``theta_ca(y) = sum_k theta_ca(k)
E_y(k)``.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit
from scipy import sparse

from anonbayes.arrays import Floats, Ints
from anonbayes.tables.evidence import Evidence

POOLING_MEAN, POOLING_SD = math.log(10.0), 1.5
"""Prior of ``log kappa``; its mean grows by twice the logarithm of the depth in a tree."""
MOST_MISSED = 1e6
"""Most values that a sample may have missed; the logarithm of their number has an even prior."""
SMALL = 1e-250
"""Products below this are taken again by logarithms."""


class SampleRecords(NamedTuple):
    """Distinct records of a sample as plain arrays.

    Cells of all attributes are numbered in a row, and so are their values.
    """

    cells: Ints
    """Cell of each attribute, one line per distinct record."""
    path: npt.NDArray[np.int32]
    """The same, attributes with few cells first; lines are in order, so that neighbours share
    the product of their first cells."""
    rows: Ints
    """Rows of the sample that have the record."""
    mass: Floats
    """What these rows count in the likelihood: their number, or their share of the weights."""
    cell_start: Ints
    """Where the values of each cell begin, and the end of the last."""
    cell_values: Ints
    """Values that each cell allows."""
    cell_evidence: Floats
    """Likelihood of the cell given each of these values."""
    value_start: Ints
    """Where the values of each attribute begin, and the end of the last."""
    slot_start: Ints
    """Where the parts of each split begin, and the end of the last; parents before children."""
    slot_first: Ints
    """First value of each part."""
    slot_last: Ints
    """End of its values."""
    pool: Ints
    """Splits of the same pool share ``kappa`` and ``gamma``."""
    pool_mean: Floats
    """Prior mean of ``log kappa`` of each pool."""
    pool_open: npt.NDArray[np.bool_]
    """Whether the last part of its splits stands for values that the sample has missed."""


class Splits(NamedTuple):
    """How the values of an attribute are divided, parents before children."""

    parts: list[list[tuple[int, int]]]
    """First value and end of each part, split by split."""
    depth: list[int]
    """Depth of each split; 0 is that between seen and unseen values of a number."""


def splits_of(size: int, *, missed: bool, ordered: bool) -> Splits:
    """Divide `size` values; one more stands for all that the sample has `missed`.

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
    """Places of the attributes, those with few cells first."""
    return sorted(range(len(evidence)), key=lambda a: len(evidence[a]))


def record_arrays(
    evidence: list[Evidence],
    missed: list[bool],
    ordered: list[bool],
    cells: Ints,
    rows: Ints,
    mass: Floats,
) -> SampleRecords:
    """Number the cells and values of all attributes in a row; missed values come last in each."""
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
    return SampleRecords(
        cells=cells,
        path=path,
        rows=np.ascontiguousarray(rows, dtype=np.int64),
        mass=np.ascontiguousarray(mass, dtype=np.float64),
        cell_start=start,
        cell_values=values,
        cell_evidence=matrix.data.astype(np.float64),
        value_start=value_start.astype(np.int64),
        slot_start=np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64),
        slot_first=np.ascontiguousarray(first_last[:, 0]),
        slot_last=np.ascontiguousarray(first_last[:, 1]),
        pool=np.array(pool, dtype=np.int64),
        pool_mean=np.array(means),
        pool_open=np.array(opens),
    )


def margins(records: SampleRecords) -> Floats:
    """Share of each part in its split, none of them zero; coarse cells count for all values."""
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
    parts = 0.1 + _part_counts(counts[None, :], records)[0]
    totals = np.add.reduceat(parts, records.slot_start[:-1])
    return parts / np.repeat(totals, np.diff(records.slot_start))


@njit(cache=True, nogil=True)
def _part_counts(counts: Floats, records: SampleRecords) -> Floats:
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
def _log_gamma_draw(shape: float, rng: np.random.Generator) -> float:
    """Logarithm of a gamma variable; small shapes do not underflow."""
    if shape >= 0.5:
        return np.log(rng.standard_gamma(shape))
    # -Exponential is the logarithm of a uniform variable that is never zero
    return np.log(rng.standard_gamma(shape + 1.0)) - rng.standard_exponential() / shape


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
def _sum_up(products: Floats, shares: Floats, path: npt.NDArray[np.int32], sums: Floats) -> float:
    """Sum the last line of `products` over classes, step by step; return the log of the whole.

    `sums` is up to a factor that is common to all classes.
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
def _multiply(products: Floats, shares: Floats, path: npt.NDArray[np.int32], known: int) -> None:
    """Fill in weight times shares of the first cells, one line per cell; `known` ones stay."""
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
        _multiply(products, shares, path[d], 0)
        out[d] = _sum_up(products, shares, path[d], sums)


@njit(cache=True, nogil=True)
def _allocate(
    weights: Floats,
    shares: Floats,
    records: SampleRecords,
    in_class: Floats,
    rows_in: Ints,
    mass_in: Floats,
    out: Floats,
    rng: np.random.Generator,
) -> float:
    """Draw the class of every row; count rows and mass by cell and class.

    `out` gets the logarithm of ``p`` of each record; the log-likelihood is returned.
    """
    n_classes, path = len(weights), records.path
    n_attributes = path.shape[1]
    products, sums = np.empty((n_attributes + 1, n_classes)), np.empty(n_classes)
    products[0] = weights
    likelihood = 0.0
    in_class[:] = 0.0
    rows_in[:] = 0
    mass_in[:] = 0.0
    for d in range(len(path)):
        known = 0
        if d > 0:
            while known < n_attributes and path[d, known] == path[d - 1, known]:
                known += 1
        _multiply(products, shares, path[d], known)
        out[d] = _sum_up(products, shares, path[d], sums)
        total = sums[n_classes - 1]
        likelihood += records.mass[d] * out[d]
        left = records.rows[d]
        each = records.mass[d] / left
        below, c = 0.0, 0
        while left > 0:
            if records.rows[d] <= 8:  # one by one
                taken = 1
                place: Any = np.searchsorted(sums, rng.random() * total, side="right")
                c = min(place, n_classes - 1)
            else:  # class by class
                own, rest = sums[c] - below, total - below
                taken = left
                if c < n_classes - 1 and own < rest:
                    taken = rng.binomial(left, max(own / rest, 0.0))
                below = sums[c]
            if taken > 0:
                in_class[c] += each * taken
                for a in range(n_attributes):
                    rows_in[path[d, a], c] += taken
                    if each != 1.0:
                        mass_in[path[d, a], c] += (each - 1.0) * taken
            left -= taken
            c += 1
    mass_in += rows_in
    return likelihood


@njit(cache=True, nogil=True)
def _split_cells(
    theta: Floats, records: SampleRecords, rows_in: Ints, mass_in: Floats, rng: np.random.Generator
) -> Floats:
    """Mass of every value in every class; rows of coarse cells are drawn among their values."""
    n_classes, n_values = theta.shape
    counts = np.zeros((n_classes, n_values))
    for g in range(len(records.cell_start) - 1):
        first, last = records.cell_start[g], records.cell_start[g + 1]
        for c in range(n_classes):
            rows = rows_in[g, c]
            if rows == 0:
                continue
            if last - first == 1:
                counts[c, records.cell_values[first]] += mass_in[g, c]
                continue
            each = mass_in[g, c] / rows
            left = 0.0
            for i in range(first, last):
                left += theta[c, records.cell_values[i]] * records.cell_evidence[i]
            for i in range(first, last):
                value = records.cell_values[i]
                share = theta[c, value] * records.cell_evidence[i]
                if i == last - 1 or left <= share:
                    taken = rows
                else:
                    taken = rng.binomial(rows, share / left)
                counts[c, value] += each * taken
                rows -= taken
                left -= share
                if rows == 0:
                    break
    return counts


@njit(cache=True, nogil=True)
def _dirichlet(shapes: Floats, out: Floats, rng: np.random.Generator) -> None:
    """Draw shares; by logarithms where all shapes are so small that gammas might vanish."""
    if shapes.max() > 0.1:
        for v in range(len(shapes)):
            out[v] = rng.standard_gamma(shapes[v])
    else:
        for v in range(len(shapes)):
            out[v] = _log_gamma_draw(shapes[v], rng)
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
    """Draw each class's share of every value, from the counts of parts; parents come first.

    Classes that are `kept` stay as they are.
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
            _dirichlet(shapes[:size], drawn[:size], rng)
            for s in range(size):
                for v in range(records.slot_first[first + s], records.slot_last[first + s]):
                    theta[c, v] *= drawn[s]


@njit(cache=True, nogil=True)
def log_pooling(counts: Floats, margin: Floats, kappa: float) -> float:
    """Log-likelihood of ``kappa`` given a split's counts in all classes, up to a constant.

    ``theta`` is integrated out.
    """
    total = 0.0
    for c in range(counts.shape[0]):
        size = 0.0
        for v in range(counts.shape[1]):
            if counts[c, v] > 0.0:
                size += counts[c, v]
                weight = kappa * margin[v]
                total += math.lgamma(weight + counts[c, v]) - math.lgamma(weight)
        if size > 0.0:
            total += math.lgamma(kappa) - math.lgamma(kappa + size)
    return total


@njit(cache=True, nogil=True)
def count_tables(rows: int, weight: float, rng: np.random.Generator) -> int:
    """Draw how many tables `rows` guests take in a Chinese restaurant of concentration `weight`.

    Guest ``i`` opens one with probability ``weight / (weight + i - 1)``. The chance only falls, so
    the next guest who might is found by a geometric gap, and then asked again: about as many
    steps as tables.
    """
    if rows <= 0:
        return 0
    tables, i = 1, 1
    while True:
        chance = weight / (weight + i)  # of guest i + 1
        if chance < 1e-15:
            return tables
        gap = 1
        if chance < 1.0:
            steps = np.floor(-rng.standard_exponential() / np.log1p(-chance))
            if steps >= rows - i:
                return tables
            gap += int(steps)
        i += gap
        if i > rows:
            return tables
        if rng.random() * chance < weight / (weight + i - 1):
            tables += 1


@njit(cache=True, nogil=True)
def log_whole(tables: Ints, gamma: float, missed: float) -> float:
    """Log-likelihood of ``gamma`` and of the number of missed values given a split's tables.

    Which of all values the sample has says nothing: there are ``(k + missed)! / missed!`` ways.
    """
    known = len(tables) - (missed > 0.0)
    each = gamma / (known + missed)
    total = math.lgamma(gamma) - math.lgamma(gamma + tables.sum())
    if missed > 0.0:
        total += math.lgamma(known + missed + 1.0) - math.lgamma(missed + 1.0)
    for count in tables:
        if count > 0:
            total += math.lgamma(each + count) - math.lgamma(each)
    return total


@njit(cache=True, nogil=True)
def _draw_pooling(
    counts: Floats,
    records: SampleRecords,
    margin: Floats,
    kappa: Floats,
    gamma: Floats,
    missed: Floats,
    rng: np.random.Generator,
) -> None:
    """Draw ``kappa``, ``gamma`` and missed values of each pool by Metropolis, and the margins.

    The prior of ``gamma`` is half a Cauchy distribution. Counts that are no whole numbers (weights)
    are rounded at random for the tables.
    """
    tables = np.zeros(len(margin), dtype=np.int64)
    last_split = 0
    for p in range(len(kappa)):
        first_split = last_split
        while last_split < len(records.pool) and records.pool[last_split] == p:
            last_split += 1
        proposed = kappa[p] * np.exp(0.5 * rng.standard_normal())
        ratio = 0.5 * ((np.log(kappa[p]) - records.pool_mean[p]) / POOLING_SD) ** 2
        ratio -= 0.5 * ((np.log(proposed) - records.pool_mean[p]) / POOLING_SD) ** 2
        for i in range(first_split, last_split):
            a, b = records.slot_start[i], records.slot_start[i + 1]
            ratio += log_pooling(counts[:, a:b], margin[a:b], proposed)
            ratio -= log_pooling(counts[:, a:b], margin[a:b], kappa[p])
        if rng.standard_exponential() > -ratio:
            kappa[p] = proposed
        for s in range(records.slot_start[first_split], records.slot_start[last_split]):
            for c in range(len(counts)):
                if counts[c, s] > 0.0:
                    rows = int(np.floor(counts[c, s] + rng.random()))
                    tables[s] += count_tables(rows, kappa[p] * margin[s], rng)
        for _ in range(3):
            proposed = gamma[p] * np.exp(rng.standard_normal())
            ratio = np.log(proposed * (1.0 + gamma[p] ** 2) / gamma[p] / (1.0 + proposed**2))
            for i in range(first_split, last_split):
                own = tables[records.slot_start[i] : records.slot_start[i + 1]]
                ratio += log_whole(own, proposed, missed[p])
                ratio -= log_whole(own, gamma[p], missed[p])
            if rng.standard_exponential() > -ratio:
                gamma[p] = proposed
            if missed[p] > 0.0:  # of a single split
                proposed = missed[p] * np.exp(2.0 * rng.standard_normal())
                own = tables[records.slot_start[first_split] : records.slot_start[last_split]]
                ratio = log_whole(own, gamma[p], proposed) - log_whole(own, gamma[p], missed[p])
                if 1.0 <= proposed <= MOST_MISSED and rng.standard_exponential() > -ratio:
                    missed[p] = proposed
        for i in range(first_split, last_split):
            a, b = records.slot_start[i], records.slot_start[i + 1]
            shapes = tables[a:b] + gamma[p] / (b - a - (missed[p] > 0.0) + missed[p])
            if missed[p] > 0.0:
                shapes[b - a - 1] *= missed[p]
            _dirichlet(shapes, margin[a:b], rng)
    for s in range(len(margin)):
        margin[s] = max(margin[s], 1e-300)  # a share of exactly zero has no logarithm


@njit(cache=True, nogil=True)
def _log_stick(own: float, after: float, concentration: float) -> float:
    """Log-likelihood of `own` mass in a class and `after` in those behind it; stick integrated."""
    return (
        math.lgamma(1.0 + own)
        + math.lgamma(concentration + after)
        - math.lgamma(1.0 + concentration + own + after)
    )


@njit(cache=True, nogil=True)
def _swap_neighbours(
    in_class: Floats,
    concentration: float,
    counts: Floats,
    theta: Floats,
    rng: np.random.Generator,
) -> None:
    """Exchange the places of neighbouring classes on the stick, by Metropolis steps.

    Large classes would stay behind small ones for long otherwise. All else is exchangeable.
    """
    n_classes = len(in_class)
    place = np.arange(n_classes)
    after = in_class[n_classes - 1]
    for c in range(n_classes - 2, -1, -1):
        one, two = in_class[c], in_class[c + 1]
        behind = max(after - two, 0.0)
        ratio = _log_stick(two, one + behind, concentration)
        ratio -= _log_stick(one, two + behind, concentration)
        if c + 1 < n_classes - 1:
            ratio += _log_stick(one, behind, concentration)
            ratio -= _log_stick(two, behind, concentration)
        if rng.standard_exponential() > -ratio:
            in_class[c], in_class[c + 1] = two, one
            place[c], place[c + 1] = place[c + 1], place[c]
        after += in_class[c]
    counts[:] = counts[place].copy()
    theta[:] = theta[place].copy()


@njit(cache=True, nogil=True)
def _draw_weights(
    in_class: Floats, concentration: float, weights: Floats, rng: np.random.Generator
) -> float:
    """Draw the stick and return its next concentration, whose prior is Gamma(1, 1)."""
    n_classes = len(in_class)
    after = in_class.sum()
    left = 0.0
    rate = 1.0
    for c in range(n_classes - 1):
        after -= in_class[c]
        one = _log_gamma_draw(1.0 + in_class[c], rng)
        other = _log_gamma_draw(concentration + max(after, 0.0), rng)
        both = np.logaddexp(one, other)
        weights[c] = np.exp(left + one - both)
        left += other - both
        rate -= other - both
    weights[n_classes - 1] = np.exp(left)
    return max(rng.standard_gamma(float(n_classes)) / rate, 1e-6)


@njit(cache=True, nogil=True)
def sweep(
    theta: Floats,
    weights: Floats,
    concentration: float,
    kappa: Floats,
    gamma: Floats,
    missed: Floats,
    margin: Floats,
    pooling: bool,
    records: SampleRecords,
    log_p: Floats,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Make a Gibbs sweep in place; return the log-likelihood before it and the concentration.

    ``kappa``, ``gamma``, missed values and margins are drawn where `pooling` is set; classes
    without rows, which wait for some, are drawn in one of four sweeps.
    """
    shares = cell_shares(theta, records)
    in_class = np.empty(len(weights))
    rows_in = np.empty(shares.shape, dtype=np.int64)
    mass_in = np.empty(shares.shape)
    likelihood = _allocate(weights, shares, records, in_class, rows_in, mass_in, log_p, rng)
    counts = _split_cells(theta, records, rows_in, mass_in, rng)
    parts = _part_counts(counts, records)
    _swap_neighbours(in_class, concentration, parts, theta, rng)
    if pooling:
        _draw_pooling(parts, records, margin, kappa, gamma, missed, rng)
    kept = (in_class == 0.0) & (rng.random(len(weights)) > 0.25)
    draw_theta(parts, records, margin, kappa, kept, theta, rng)
    return likelihood, _draw_weights(in_class, concentration, weights, rng)
