"""Gibbs sampler of the mixture.

Each sweep has five steps:

1. Draw the class of every row given ``theta``, one distinct record at a time.
2. Draw the classes again, row by row, with ``theta`` integrated out. Classes then appear, vanish
   and change ten times as fast.
3. Split or merge whole classes (`split_merge`).
4. Divide the counts of coarse cells among their values.
5. Draw ``kappa``, ``m`` (through numbers of tables, as in a Chinese restaurant), ``theta``, ``w``.

The cost of a sweep is proportional to the number of distinct records times the number of classes.
In very large samples, step 2 skips records with many rows and most of the others, and step 3 is
omitted.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from anonbayes.arrays import Floats, Ints
from anonbayes.uniqueness.mixture import (
    POOLING_SD,
    SMALL,
    SampleRecords,
    cell_shares,
    dirichlet,
    draw_theta,
    multiply,
    part_counts,
    sum_up,
)
from anonbayes.uniqueness.split_merge import split_or_merge

MOST_MISSED = 1e6
"""Largest number of values that a sample may have missed, whose logarithm has a flat prior."""
FEW = 8
"""In large samples, records with at most this many rows are seated row by row."""
MOST_SEATED = 20_000
"""Largest sample in which all rows are seated one by one."""
MOST_RESEATED = 20_000
"""Approximate number of records per sweep whose rows are seated a second time."""


@njit(cache=True, nogil=True)
def _allocate(
    weights: Floats,
    shares: Floats,
    records: SampleRecords,
    few: int,
    in_class: Floats,
    rows_in: Ints,
    mass_in: Floats,
    seats: npt.NDArray[np.int32],
    out: Floats,
    rng: np.random.Generator,
) -> float:
    """Draw the class of every row, count rows and mass by cell; return the log-likelihood.

    Written to `seats`: the class of each row whose record has at most `few` rows. Written to `out`:
    ``log p`` of each record.
    """
    n_classes, path = len(weights), records.path
    n_attributes = path.shape[1]
    products, sums = np.empty((n_attributes + 1, n_classes)), np.empty(n_classes)
    products[0] = weights
    likelihood, seat = 0.0, 0
    in_class[:] = 0.0
    rows_in[:] = 0
    mass_in[:] = 0.0
    for d in range(len(path)):
        known = 0
        if d > 0:
            while known < n_attributes and path[d, known] == path[d - 1, known]:
                known += 1
        multiply(products, shares, path[d], known)
        out[d] = sum_up(products, shares, path[d], sums)
        total = sums[n_classes - 1]
        likelihood += records.mass[d] * out[d]
        left = records.rows[d]
        each = records.mass[d] / left
        below, c = 0.0, 0
        while left > 0:
            if records.rows[d] <= few:
                taken = 1
                place: Any = np.searchsorted(sums, rng.random() * total, side="right")
                c = min(place, n_classes - 1)
                seats[seat] = c
                seat += 1
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
def reseat(
    weights: Floats,
    shares: Floats,
    records: SampleRecords,
    few: int,
    margin: Floats,
    kappa: Floats,
    in_class: Floats,
    rows_in: Ints,
    mass_in: Floats,
    seats: npt.NDArray[np.int32],
    rng: np.random.Generator,
) -> None:
    """Draw the class of each row again, given those of all others; ``theta`` is integrated out.

    For attributes with coarse cells, ``theta`` is not integrated out; `shares` is used instead. The
    weight of a row determines how much it adds to a class, but does not sharpen the draw of its
    class.
    """
    n_classes = len(weights)
    mass_of = np.empty((len(margin), n_classes))
    whole = np.empty((len(records.pool), n_classes))
    for i in range(len(records.pool)):
        whole[i] = kappa[records.pool[i]]
        for s in range(records.slot_start[i], records.slot_start[i + 1]):
            mass_of[s] = kappa[records.pool[i]] * margin[s]
    for g in range(len(rows_in)):
        for q in range(records.way_start[g], records.way_start[g + 1]):
            mass_of[records.way_slots[q]] += mass_in[g]
            whole[records.way_splits[q]] += mass_in[g]
    inverse, chance, sums = 1.0 / whole, np.empty(n_classes), np.empty(n_classes)
    seat = 0
    step = 1 + len(records.rows) // MOST_RESEATED
    first = int(rng.random() * step)
    for d in range(len(records.rows)):
        if records.rows[d] > few:
            continue
        if d % step != first:
            seat += records.rows[d]
            continue
        path, mass = records.path[d], records.mass[d] / records.rows[d]
        for _ in range(records.rows[d]):
            old = seats[seat]
            _join(records, path, old, -mass, mass_of, whole, inverse)
            chance[:] = weights
            for g in path:
                if records.way_start[g] == records.way_start[g + 1]:
                    chance *= shares[g]
            _times_predictive(records, path, mass_of, inverse, chance)
            total = 0.0
            for c in range(n_classes):
                total += chance[c]
                sums[c] = total
            new = old
            if total > SMALL:  # which does not depend on the row's class
                place: Any = np.searchsorted(sums, rng.random() * total, side="right")
                new = min(place, n_classes - 1)
            _join(records, path, new, mass, mass_of, whole, inverse)
            if new != old:
                seats[seat] = new
                in_class[new] += mass
                in_class[old] -= mass
                if in_class[old] < 1e-9:
                    in_class[old] = 0.0
                for g in path:
                    rows_in[g, new] += 1
                    rows_in[g, old] -= 1
                    mass_in[g, new] += mass
                    mass_in[g, old] -= mass
            seat += 1


@njit(cache=True, nogil=True)
def _join(
    records: SampleRecords,
    path: npt.NDArray[np.int32],
    c: int,
    mass: float,
    mass_of: Floats,
    whole: Floats,
    inverse: Floats,
) -> None:
    """Add a row's mass to its parts in class `c`; negative mass removes the row."""
    for g in path:
        for q in range(records.way_start[g], records.way_start[g + 1]):
            s, i = records.way_slots[q], records.way_splits[q]
            mass_of[s, c] = max(mass_of[s, c] + mass, 1e-14)
            whole[i, c] = max(whole[i, c] + mass, 1e-14)
            inverse[i, c] = 1.0 / whole[i, c]


@njit(cache=True, nogil=True)
def _times_predictive(
    records: SampleRecords,
    path: npt.NDArray[np.int32],
    mass_of: Floats,
    inverse: Floats,
    chance: Floats,
) -> None:
    """Multiply by the probability of a row in each class, given the other rows there."""
    for g in path:
        for q in range(records.way_start[g], records.way_start[g + 1]):
            part, one_of = mass_of[records.way_slots[q]], inverse[records.way_splits[q]]
            for c in range(len(chance)):
                chance[c] *= part[c] * one_of[c]


@njit(cache=True, nogil=True)
def _split_cells(
    theta: Floats, records: SampleRecords, rows_in: Ints, mass_in: Floats, rng: np.random.Generator
) -> Floats:
    """Compute the mass of every value in every class; draw the values of rows in coarse cells."""
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
def log_pooling(counts: Floats, margin: Floats, kappa: float) -> float:
    """Log-likelihood of ``kappa`` given the counts of a split in all classes, up to a constant.

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

    Guest ``i`` opens a table with probability ``weight / (weight + i - 1)``. Since this probability
    decreases, a geometric draw finds the next candidate, who is then accepted or rejected
    (thinning). This takes about as many steps as there are tables.
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
    """Log-likelihood of ``gamma`` and the number of missed values given the tables of a split.

    The labels of the sampled values carry no information: they could have been assigned in
    ``(k + missed)! / missed!`` ways.
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
    """Draw ``kappa``, ``gamma`` and the missed values of each pool by Metropolis, then the margins.

    The prior of ``gamma`` is half-Cauchy. Fractional counts (from weights) are rounded at random
    when tables are drawn.
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
            if missed[p] > 0.0:  # such a pool has a single split
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
            dirichlet(shapes, margin[a:b], rng)
    for s in range(len(margin)):
        margin[s] = max(margin[s], 1e-300)  # a share of exactly zero has no logarithm


@njit(cache=True, nogil=True)
def log_sizes(in_class: Floats, concentration: float) -> float:
    """Log-likelihood of the concentration given the sizes of the classes, up to a constant."""
    each = concentration / len(in_class)
    total = math.lgamma(concentration) - math.lgamma(concentration + in_class.sum())
    for size in in_class:
        if size > 0.0:
            total += math.lgamma(each + size) - math.lgamma(each)
    return total


@njit(cache=True, nogil=True)
def _draw_weights(
    in_class: Floats, concentration: float, weights: Floats, rng: np.random.Generator
) -> float:
    """Draw the concentration (prior: Gamma(1, 1)) by Metropolis, then the weights."""
    for _ in range(3):
        proposed = concentration * np.exp(rng.standard_normal())
        ratio = log_sizes(in_class, proposed) - log_sizes(in_class, concentration)
        ratio += concentration - proposed + np.log(proposed / concentration)
        if proposed > 1e-6 and rng.standard_exponential() > -ratio:
            concentration = proposed
    dirichlet(concentration / len(in_class) + in_class, weights, rng)
    return concentration


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

    ``kappa``, ``gamma``, missed values, margins and the shares of empty classes are drawn only if
    `pooling` is set.
    """
    shares = cell_shares(theta, records)
    in_class = np.empty(len(weights))
    rows_in = np.empty(shares.shape, dtype=np.int64)
    mass_in = np.empty(shares.shape)
    everybody = records.rows.sum() <= MOST_SEATED
    few = records.rows.max() if everybody else FEW
    seats = np.empty(records.rows[records.rows <= few].sum(), dtype=np.int32)
    likelihood = _allocate(
        weights, shares, records, few, in_class, rows_in, mass_in, seats, log_p, rng
    )
    empty = in_class == 0.0
    reseat(weights, shares, records, few, margin, kappa, in_class, rows_in, mass_in, seats, rng)
    if everybody and (records.mass == records.rows).all():
        split_or_merge(
            records, shares, margin, kappa, concentration, in_class, rows_in, mass_in, seats, rng
        )
    empty &= in_class == 0.0
    counts = _split_cells(theta, records, rows_in, mass_in, rng)
    parts = part_counts(counts, records)
    if pooling:
        _draw_pooling(parts, records, margin, kappa, gamma, missed, rng)
    kept = empty & (not pooling)
    draw_theta(parts, records, margin, kappa, kept, theta, rng)
    return likelihood, _draw_weights(in_class, concentration, weights, rng)
