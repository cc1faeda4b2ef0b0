"""A mixture of products for records, and the people of the population who share them.

A record has probability ``p(x) = sum_c w_c prod_a theta_ca(x_a)`` (MODEL 1.10): classes make
attributes depend on each other, which products alone cannot. The weights are a truncated
stick, ``theta_ca ~ Dir(kappa_a m_a)`` with the sample's margin ``m_a``: classes borrow from the
whole, the more the larger ``kappa_a``, which is learnt. A Gibbs sweep draws a class for each
distinct record, splits the counts of coarse cells among their values, and draws ``w``, ``kappa``
and ``theta``; its cost is distinct records times classes, whatever the number of rows.

Given the parameters, the ``M - n`` people outside the sample are independent draws of ``p``.
Released cells enter by their likelihood vectors, as everywhere: ``theta_ca(y) = sum_k
theta_ca(k) E_y(k)``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from scipy import sparse

from anonbayes.arrays import Floats, Ints
from anonbayes.inference.run import ChainState, Draws
from anonbayes.tables.evidence import Evidence

POOLING_MEAN, POOLING_SD = math.log(10.0), 1.5
"""Prior of ``log kappa``."""
QUADRATURE = np.polynomial.legendre.leggauss(32)
SYNTHETIC = 1000
"""Made-up records per draw, by which people who stand out beyond the sample are counted."""


class SampleRecords(NamedTuple):
    """Distinct records of a sample as plain arrays.

    Cells of all attributes are numbered in a row, and so are their values.
    """

    cells: Ints
    """Cell of each attribute, one line per distinct record."""
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
    keys: Ints
    """Sorted fingerprints of the records, or nothing where cells are coarse."""


def record_arrays(evidence: list[Evidence], cells: Ints, rows: Ints, mass: Floats) -> SampleRecords:
    """Number the cells and values of all attributes in a row."""
    n_cells = np.array([len(e) for e in evidence])
    offsets = np.concatenate([[0], np.cumsum(n_cells)[:-1]])
    value_start = np.concatenate([[0], np.cumsum([len(e.domain) for e in evidence])])
    matrix = sparse.csr_array(sparse.block_diag([e.matrix for e in evidence], format="csr"))
    cells = np.ascontiguousarray(cells + offsets, dtype=np.int64)
    start, values = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
    plain = bool((np.diff(start) == 1).all())
    keys = np.sort(fingerprints(values[start[cells]])) if plain else np.empty(0, np.int64)
    return SampleRecords(
        cells,
        np.ascontiguousarray(rows, dtype=np.int64),
        np.ascontiguousarray(mass, dtype=np.float64),
        start,
        values,
        matrix.data.astype(np.float64),
        value_start.astype(np.int64),
        keys,
    )


def margins(records: SampleRecords) -> Floats:
    """Share of each value by attribute, none of them zero; coarse cells count for all values."""
    cell_mass = np.bincount(
        records.cells.ravel(),
        weights=np.repeat(records.mass, records.cells.shape[1]),
        minlength=len(records.cell_start) - 1,
    )
    sizes = np.diff(records.cell_start)
    evidence = records.cell_evidence / np.repeat(
        np.add.reduceat(records.cell_evidence, records.cell_start[:-1]), sizes
    )
    counts = 0.5 + np.bincount(
        records.cell_values,
        weights=np.repeat(cell_mass, sizes) * evidence,
        minlength=records.value_start[-1],
    )
    totals = np.add.reduceat(counts, records.value_start[:-1])
    return counts / np.repeat(totals, np.diff(records.value_start))


def fingerprints(values: Ints) -> Ints:
    """Hash each line of values to 64 bits."""
    return _fingerprints(np.ascontiguousarray(values, dtype=np.int64))


@njit(cache=True, nogil=True)
def _fingerprint(values: Ints) -> int:
    mixed = np.uint64(0x9E3779B97F4A7C15)
    for value in values:
        mixed ^= np.uint64(value) + np.uint64(0x632BE59BD9B4E019)
        mixed *= np.uint64(0xFF51AFD7ED558CCD)
        mixed ^= mixed >> np.uint64(32)
    return np.int64(mixed >> np.uint64(1))  # type: ignore[return-value]


@njit(cache=True, nogil=True)
def _fingerprints(values: Ints) -> Ints:
    out = np.empty(len(values), dtype=np.int64)
    for i in range(len(values)):
        out[i] = _fingerprint(values[i])
    return out


@njit(cache=True, nogil=True)
def _log_gamma_draw(shape: float, rng: np.random.Generator) -> float:
    """Logarithm of a gamma variable; small shapes do not underflow."""
    if shape >= 0.5:
        return np.log(rng.standard_gamma(shape))
    # -Exponential is the logarithm of a uniform variable that is never zero
    return np.log(rng.standard_gamma(shape + 1.0)) - rng.standard_exponential() / shape


@njit(cache=True, nogil=True)
def cell_logs(theta: Floats, records: SampleRecords) -> Floats:
    """Logarithm of the probability of each cell in each class, cells by classes."""
    n_classes = theta.shape[0]
    n_cells = len(records.cell_start) - 1
    out = np.empty((n_cells, n_classes))
    for g in range(n_cells):
        for c in range(n_classes):
            total = 0.0
            for i in range(records.cell_start[g], records.cell_start[g + 1]):
                total += theta[c, records.cell_values[i]] * records.cell_evidence[i]
            out[g, c] = np.log(total) if total > 0.0 else -1e300
    return out


@njit(cache=True, nogil=True)
def log_probabilities(log_weights: Floats, logs: Floats, cells: Ints, out: Floats) -> None:
    """Logarithm of ``p`` of each record."""
    n_classes = len(log_weights)
    work = np.empty(n_classes)
    for d in range(len(cells)):
        work[:] = log_weights
        for a in range(cells.shape[1]):
            g = cells[d, a]
            for c in range(n_classes):
                work[c] += logs[g, c]
        top = work.max()
        total = 0.0
        for c in range(n_classes):
            total += np.exp(work[c] - top)
        out[d] = top + np.log(total)


@njit(cache=True, nogil=True)
def _allocate(
    log_weights: Floats,
    logs: Floats,
    records: SampleRecords,
    in_class: Floats,
    rows_in: Ints,
    mass_in: Floats,
    out: Floats,
    rng: np.random.Generator,
) -> float:
    """Draw the class of every row; count rows and mass by class and cell.

    `out` gets the logarithm of ``p`` of each record; the log-likelihood is returned.
    """
    n_classes = len(log_weights)
    n_attributes = records.cells.shape[1]
    work = np.empty(n_classes)
    likelihood = 0.0
    in_class[:] = 0.0
    rows_in[:] = 0
    mass_in[:] = 0.0
    for d in range(len(records.cells)):
        work[:] = log_weights
        for a in range(n_attributes):
            g = records.cells[d, a]
            for c in range(n_classes):
                work[c] += logs[g, c]
        top = work.max()
        total = 0.0
        for c in range(n_classes):
            total += np.exp(work[c] - top)
            work[c] = total
        out[d] = top + np.log(total)
        likelihood += records.mass[d] * out[d]
        each = records.mass[d] / records.rows[d]
        for _ in range(records.rows[d]):
            place: Any = np.searchsorted(work, rng.random() * total, side="right")
            chosen = min(place, n_classes - 1)
            in_class[chosen] += each
            for a in range(n_attributes):
                rows_in[records.cells[d, a], chosen] += 1
                mass_in[records.cells[d, a], chosen] += each
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
def _draw_theta(
    counts: Floats,
    value_start: Ints,
    margin: Floats,
    kappa: Floats,
    theta: Floats,
    rng: np.random.Generator,
) -> None:
    for a in range(len(value_start) - 1):
        first, last = value_start[a], value_start[a + 1]
        for c in range(theta.shape[0]):
            top = -np.inf
            for v in range(first, last):
                theta[c, v] = _log_gamma_draw(kappa[a] * margin[v] + counts[c, v], rng)
                top = max(top, theta[c, v])
            total = 0.0
            for v in range(first, last):
                theta[c, v] = np.exp(theta[c, v] - top)
                total += theta[c, v]
            for v in range(first, last):
                theta[c, v] /= total


@njit(cache=True, nogil=True)
def log_pooling(counts: Floats, margin: Floats, kappa: float) -> float:
    """Log density of ``log kappa`` given the counts of all classes, up to a constant.

    ``theta`` is integrated out; the prior of ``log kappa`` is normal.
    """
    total = -0.5 * ((np.log(kappa) - POOLING_MEAN) / POOLING_SD) ** 2
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
def _draw_pooling(
    counts: Floats, value_start: Ints, margin: Floats, kappa: Floats, rng: np.random.Generator
) -> None:
    """Make a Metropolis step for each attribute's ``log kappa``."""
    for a in range(len(kappa)):
        first, last = value_start[a], value_start[a + 1]
        own, shares = counts[:, first:last], margin[first:last]
        proposed = kappa[a] * np.exp(0.5 * rng.standard_normal())
        ratio = log_pooling(own, shares, proposed) - log_pooling(own, shares, kappa[a])
        if rng.standard_exponential() > -ratio:
            kappa[a] = proposed


@njit(cache=True, nogil=True)
def _draw_weights(
    in_class: Floats, concentration: float, log_weights: Floats, rng: np.random.Generator
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
        log_weights[c] = left + one - both
        left += other - both
        rate -= other - both
    log_weights[n_classes - 1] = left
    return max(rng.standard_gamma(float(n_classes)) / rate, 1e-6)


@njit(cache=True, nogil=True)
def sweep(
    theta: Floats,
    log_weights: Floats,
    concentration: float,
    kappa: Floats,
    margin: Floats,
    records: SampleRecords,
    log_p: Floats,
    rng: np.random.Generator,
) -> tuple[float, float]:
    """Make a Gibbs sweep in place; return the log-likelihood before it and the concentration."""
    logs = cell_logs(theta, records)
    in_class = np.empty(len(log_weights))
    rows_in = np.empty(logs.shape, dtype=np.int64)
    mass_in = np.empty(logs.shape)
    likelihood = _allocate(log_weights, logs, records, in_class, rows_in, mass_in, log_p, rng)
    counts = _split_cells(theta, records, rows_in, mass_in, rng)
    _draw_pooling(counts, records.value_start, margin, kappa, rng)
    _draw_theta(counts, records.value_start, margin, kappa, theta, rng)
    return likelihood, _draw_weights(in_class, concentration, log_weights, rng)


@njit(cache=True, nogil=True)
def match_probability(rows: int, others: float, p: float, nodes: Floats, shares: Floats) -> float:
    """Expected ``1/(rows + B)`` with ``B ~ Binomial(others, p)``.

    It is the integral of ``t^(rows-1) (1 - p + p t)^others`` over [0, 1]: in closed form for one
    row, by Gauss-Legendre quadrature for few, by its expansion for many.
    """
    mean = rows + others * p
    if rows == 1:
        expected = (others + 1.0) * p
        if expected < 1e-12:
            return 1.0
        return -np.expm1((others + 1.0) * np.log1p(-p)) / expected if p < 1.0 else 1.0 / mean
    if mean > 40.0:
        spread = others * p * (1.0 - p) / mean**2
        return (1.0 + spread + (3.0 * spread - (1.0 - 2.0 * p) / mean) * spread) / mean
    total = 0.0
    for i in range(len(nodes)):
        t = 0.5 * (nodes[i] + 1.0)
        total += (
            0.5 * shares[i] * np.exp((rows - 1) * np.log(t) + others * np.log1p(-p * (1.0 - t)))
        )
    return total


@njit(cache=True, nogil=True)
def _look_ahead(
    log_p: Floats,
    records: SampleRecords,
    others: int,
    nodes: Floats,
    shares: Floats,
    unique: Floats,
    match: Floats,
    people: Floats,
    out: Floats,
    rng: np.random.Generator,
) -> None:
    """Add each record's chances to the sums, and draw the numbers of the whole population.

    `out`: sample uniques that are unique in the population, correct matches among sample
    uniques, correct matches among all rows, fewest people who share a record, and the sum over
    rows of the logarithm of the people who share their record.
    """
    out[:] = 0.0
    out[3] = np.inf
    for d in range(len(log_p)):
        p = min(np.exp(log_p[d]), 1.0)
        rows = records.rows[d]
        if rows == 1:
            unique[d] += np.exp(others * np.log1p(-p)) if p < 1.0 else (1.0 if others == 0 else 0.0)
        match[d] += match_probability(rows, float(others), p, nodes, shares)
        people[d] += rows + others * p
        drawn = rows + rng.binomial(others, p)
        if rows == 1:
            out[0] += drawn == 1
            out[1] += 1.0 / drawn
        out[2] += rows / drawn
        out[3] = min(out[3], drawn)
        out[4] += rows * np.log2(drawn)


@njit(cache=True, nogil=True)
def _unseen_uniques(
    theta: Floats,
    log_weights: Floats,
    records: SampleRecords,
    others: int,
    synthetic: int,
    rng: np.random.Generator,
) -> float:
    """Expected number of people outside the sample who are alone with their record."""
    n_classes, n_attributes = theta.shape[0], len(records.value_start) - 1
    weights = np.cumsum(np.exp(log_weights))
    values = np.empty(n_attributes, dtype=np.int64)
    work = np.empty(n_classes)
    total = 0.0
    for _ in range(synthetic):
        c = min(np.searchsorted(weights, rng.random() * weights[-1], side="right"), n_classes - 1)
        for a in range(n_attributes):
            v, last = records.value_start[a], records.value_start[a + 1] - 1
            left = rng.random()
            while v < last and left >= theta[c, v]:
                left -= theta[c, v]
                v += 1
            values[a] = v
        key = _fingerprint(values)
        place = np.searchsorted(records.keys, key)
        if place < len(records.keys) and records.keys[place] == key:
            continue
        p = 0.0
        for k in range(n_classes):
            work[k] = log_weights[k]
            for a in range(n_attributes):
                work[k] += np.log(theta[k, values[a]] + 1e-300)
            p += np.exp(work[k])
        total += np.exp((others - 1) * np.log1p(-min(p, 1.0 - 1e-16)))
    return others * total / synthetic


@dataclass
class MixtureEngine:
    """Gibbs sampler of a mixture of products; an `Engine` of `anonbayes.inference.run`.

    Parameters
    ----------
    records : SampleRecords
        Distinct records of the sample.
    others : int
        People of the population who are not in the sample.
    classes : int
        Length of the truncated stick.
    margin : array of float
        Share of each value in the whole sample, attribute by attribute, none of them zero.
    """

    records: SampleRecords
    others: int
    classes: int
    margin: Floats

    n_generators = 2  # the second one draws what is beyond the sample
    grows: tuple[str, ...] = ()

    def start(self, generators: list[np.random.Generator]) -> Draws:
        """Scatter the records over the classes, so that chains begin apart."""
        rng, records = generators[0], self.records
        theta = np.empty((self.classes, len(self.margin)))
        kappa = np.exp(rng.normal(POOLING_MEAN, POOLING_SD, len(records.value_start) - 1))
        nothing = np.zeros_like(theta)
        _draw_theta(nothing, records.value_start, self.margin, kappa, theta, rng)
        log_weights = np.full(self.classes, -np.log(self.classes))
        size = len(records.cells)
        return {
            "theta": theta,
            "log_weights": log_weights,
            "concentration": np.ones(1),
            "kappa": kappa,
            "unique": np.zeros(size),
            "match": np.zeros(size),
            "people": np.zeros(size),
            "log_p": np.zeros(size),
            "n_averaged": np.zeros(1),
        }

    def advance(self, state: ChainState, n: int, *, tuning: bool) -> tuple[Draws, Draws]:
        """Make n sweeps; every one counts towards the records' averages."""
        live, records = state.live, self.records
        rng, beyond = state.generators
        numbers, likelihood = np.zeros((n, 5)), np.empty(n)
        unseen, used = np.full(n, np.nan), np.empty(n)
        log_p = np.empty(len(records.cells))
        nodes, shares = QUADRATURE
        for i in range(n):
            theta, log_weights = live["theta"].copy(), live["log_weights"].copy()
            likelihood[i], concentration = sweep(
                live["theta"],
                live["log_weights"],
                float(live["concentration"][0]),
                live["kappa"],
                self.margin,
                records,
                log_p,
                rng,
            )
            live["concentration"] = np.array([concentration])
            used[i] = 1.0 / np.exp(2.0 * live["log_weights"]).sum()
            if tuning:
                continue
            _look_ahead(
                log_p, records, self.others, nodes, shares,
                live["unique"], live["match"], live["people"], numbers[i], beyond,
            )  # fmt: skip
            live["log_p"] += np.exp(log_p)
            live["n_averaged"] += 1
            if len(records.keys) and self.others:
                expected = _unseen_uniques(
                    theta, log_weights, records, self.others, SYNTHETIC, beyond
                )
                unseen[i] = beyond.poisson(expected)
            elif self.others == 0:
                unseen[i] = 0.0
        draws = {
            "unique_in_population": numbers[:, 0],
            "matches_of_uniques": numbers[:, 1],
            "matches": numbers[:, 2],
            "fewest_people": numbers[:, 3],
            "log_people": numbers[:, 4],
            "population_uniques": numbers[:, 0] + unseen,
            "classes_used": used,
        }
        return draws, {"log_likelihood": likelihood}

    def pack(self, live: Draws) -> Draws:
        """Return the state, which is a dictionary of arrays already."""
        return live

    def unpack(self, arrays: Draws, generators: list[np.random.Generator]) -> Draws:
        """Return the state that `pack` stored."""
        return arrays

    def averages(self, live: Draws) -> Draws:
        """Chances of each record, averaged over the draws, and the last parameters."""
        n = max(float(live["n_averaged"][0]), 1.0)
        names = {"unique": "unique", "match": "match", "people": "people", "log_p": "share"}
        return {new: live[old] / n for old, new in names.items()} | {
            "theta": live["theta"], "log_weights": live["log_weights"]
        }  # fmt: skip
