"""People of the population who share a record, draw by draw of the mixture.

Given the parameters, the ``M - n`` people outside the sample are independent draws of ``p``, or of
``p`` given their stratum (MODEL 1.10): the rest is counting.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numba import njit

from anonbayes.arrays import Floats, Ints
from anonbayes.inference.run import ChainState, Draws
from anonbayes.uniqueness.mixture import (
    POOLING_SD,
    SampleRecords,
    draw_theta,
    fingerprint,
    margins,
    running_sums,
    sweep,
)

QUADRATURE = np.polynomial.legendre.leggauss(32)
EVERY = 10
"""Draws between two populations that are made up."""
EXACT, SYNTHETIC = 100_000, 20_000
"""Most people outside the sample who are all made up, and how many are where there are more."""


class Beyond(NamedTuple):
    """People of the population who are not in the sample."""

    of_record: Ints
    """Those who might have each record: all, or those of its stratum."""
    attribute: int
    """Attribute that is the stratum, or -1."""
    of_value: Ints
    """People of each value of that attribute; of one stratum that is everything, where it is -1."""


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
def unique_probability(rows: int, others: float, p: float) -> float:
    """Probability that nobody else has the record of a row: ``(1 - p)^others``."""
    if rows > 1:
        return 0.0
    if p < 1.0:
        return np.exp(others * np.log1p(-p))
    return 1.0 if others == 0 else 0.0


@njit(cache=True, nogil=True)
def chances(log_p: Floats, rows: Ints, others: Ints, nodes: Floats, shares: Floats) -> Floats:
    """Probability of being unique and of a correct match, one line per record."""
    out = np.empty((len(rows), 2))
    for d in range(len(rows)):
        p = min(np.exp(log_p[d]), 1.0)
        out[d, 0] = unique_probability(rows[d], float(others[d]), p)
        out[d, 1] = match_probability(rows[d], float(others[d]), p, nodes, shares)
    return out


@njit(cache=True, nogil=True)
def _look_ahead(
    log_p: Floats,
    rows: Ints,
    others: Ints,
    nodes: Floats,
    shares: Floats,
    sums: Floats,
    out: Floats,
    rng: np.random.Generator,
) -> None:
    """Add each record's chances to the sums, and draw the numbers of the whole population.

    `sums`: unique, match, people, logarithm of ``p`` and its square. `out`: sample uniques that are
    unique in the population, correct matches among sample uniques, correct matches among all
    rows, fewest people who share a record, and the sum over rows of the logarithm of the people
    who share their record.
    """
    out[:] = 0.0
    out[3] = np.inf
    for d in range(len(log_p)):
        p = min(np.exp(log_p[d]), 1.0)
        sums[0, d] += unique_probability(rows[d], float(others[d]), p)
        sums[1, d] += match_probability(rows[d], float(others[d]), p, nodes, shares)
        sums[2, d] += rows[d] + others[d] * p
        sums[3, d] += log_p[d]
        sums[4, d] += log_p[d] ** 2
        drawn = rows[d] + rng.binomial(others[d], p)
        if rows[d] == 1:
            out[0] += drawn == 1
            out[1] += 1.0 / drawn
        out[2] += rows[d] / drawn
        out[3] = min(out[3], drawn)
        out[4] += rows[d] * np.log2(drawn)


@njit(cache=True, nogil=True)
def _make_up(
    theta: Floats,
    weights: Floats,
    records: SampleRecords,
    beyond: Beyond,
    most: int,
    rng: np.random.Generator,
) -> tuple[Ints, Floats]:
    """Make up people outside the sample; return fingerprints and the logarithm of ``p`` of each.

    At most `most` of each stratum; ``p`` is given the stratum, and not taken where all are made.
    """
    n_classes, n_attributes = theta.shape[0], len(records.value_start) - 1
    sums = np.empty_like(theta)
    for a in range(n_attributes):
        for c in range(n_classes):
            total = 0.0
            for v in range(records.value_start[a], records.value_start[a + 1]):
                total += theta[c, v]
                sums[c, v] = total
    size = 0
    for people in beyond.of_value:
        size += min(people, most)
    everybody = (beyond.of_value <= most).all()
    keys, log_p = np.empty(size, dtype=np.int64), np.zeros(size)
    values = np.empty(n_attributes, dtype=np.int64)
    shares, work = theta.T.copy(), np.empty(n_classes)
    made = 0
    for h in range(len(beyond.of_value)):
        of_stratum, stratum = weights.copy(), -1
        if beyond.attribute >= 0:
            stratum = records.value_start[beyond.attribute] + h
            of_stratum *= theta[:, stratum]
        running = np.cumsum(of_stratum)
        people = min(beyond.of_value[h], most)
        for _ in range(people):
            c = np.searchsorted(running, rng.random() * running[-1], side="right")
            c = min(c, n_classes - 1)
            for a in range(n_attributes):
                first, last = records.value_start[a], records.value_start[a + 1]
                if a == beyond.attribute:
                    values[a] = stratum
                    continue
                own = sums[c, first:last]
                place = np.searchsorted(own, rng.random() * own[-1], side="right")
                values[a] = first + min(place, last - first - 1)
            keys[made] = fingerprint(values)
            if not everybody:
                log_p[made] = running_sums(weights, shares, values, work)
                if stratum >= 0:
                    log_p[made] -= np.log(running[-1])
            made += 1
    return keys, log_p


@njit(cache=True, nogil=True)
def _unseen_uniques(keys: Ints, log_p: Floats, seen: Ints, beyond: Beyond, most: int) -> float:
    """Count people outside the sample who are alone; expect them where not all were made up."""
    total, first = 0.0, 0
    if (beyond.of_value <= most).all():
        ordered = np.sort(keys)
        for i in range(len(ordered)):
            if i > 0 and ordered[i] == ordered[i - 1]:
                continue
            if i + 1 < len(ordered) and ordered[i] == ordered[i + 1]:
                continue
            place = np.searchsorted(seen, ordered[i])
            total += place == len(seen) or seen[place] != ordered[i]
        return total
    for people in beyond.of_value:
        made = min(people, most)
        alone = 0.0
        for i in range(first, first + made):
            place = np.searchsorted(seen, keys[i])
            if place == len(seen) or seen[place] != keys[i]:
                alone += np.exp((people - 1) * np.log1p(-min(np.exp(log_p[i]), 1.0 - 1e-16)))
        total += people * alone / max(made, 1)
        first += made
    return total


@dataclass
class MixtureEngine:
    """Gibbs sampler of a mixture of products; an `Engine` of `anonbayes.inference.run`.

    Parameters
    ----------
    records : SampleRecords
        Distinct records of the sample.
    beyond : Beyond
        People of the population who are not in the sample.
    classes : int
        Length of the truncated stick.
    """

    records: SampleRecords
    beyond: Beyond
    classes: int

    n_generators = 2  # the second one draws what is beyond the sample
    grows: tuple[str, ...] = ()

    def start(self, generators: list[np.random.Generator]) -> Draws:
        """Draw classes from the prior around the sample's margins, so that chains begin apart."""
        rng, records = generators[0], self.records
        margin = margins(records)
        theta = np.empty((self.classes, records.value_start[-1]))
        kappa = np.exp(rng.normal(records.pool_mean, POOLING_SD))
        draw_theta(np.zeros((self.classes, len(margin))), records, margin, kappa, theta, rng)
        return {
            "theta": theta,
            "weights": np.full(self.classes, 1.0 / self.classes),
            "concentration": np.ones(1),
            "kappa": kappa,
            "gamma": np.ones_like(kappa),
            "margin": margin,
            "sums": np.zeros((5, len(records.cells))),
            "n_averaged": np.zeros(1),
        }

    def advance(self, state: ChainState, n: int, *, tuning: bool) -> tuple[Draws, Draws]:
        """Make n sweeps; every one counts towards the records' averages."""
        live, records, beyond = state.live, self.records, self.beyond
        rng, ahead = state.generators
        numbers, likelihood = np.zeros((n, 5)), np.empty(n)
        alone, used = np.full(n, np.nan), np.empty(n)
        log_p = np.empty(len(records.cells))
        for i in range(n):
            theta, weights = live["theta"].copy(), live["weights"].copy()
            likelihood[i], concentration = sweep(
                live["theta"],
                live["weights"],
                float(live["concentration"][0]),
                live["kappa"],
                live["gamma"],
                live["margin"],
                records,
                log_p,
                rng,
            )
            live["concentration"] = np.array([concentration])
            used[i] = 1.0 / (live["weights"] ** 2).sum()
            if tuning:
                continue
            log_p -= self.log_strata(theta, weights)
            _look_ahead(
                log_p, records.rows, beyond.of_record, *QUADRATURE, live["sums"], numbers[i], ahead
            )
            if len(records.keys) and live["n_averaged"][0] % EVERY == 0:
                alone[i] = numbers[i, 0] + self._unseen(theta, weights, ahead)
            live["n_averaged"] += 1
        draws = {
            "unique_in_population": numbers[:, 0],
            "matches_of_uniques": numbers[:, 1],
            "matches": numbers[:, 2],
            "fewest_people": numbers[:, 3],
            "log_people": numbers[:, 4],
            "population_uniques": alone,
            "classes_used": used,
        }
        return draws, {"log_likelihood": likelihood}

    def log_strata(self, theta: Floats, weights: Floats) -> Floats:
        """Logarithm of the probability of each record's stratum; 0 where there are no strata."""
        a, records = self.beyond.attribute, self.records
        if a < 0:
            return np.zeros(1)
        first, last = records.value_start[a], records.value_start[a + 1]
        value = records.cell_values[records.cell_start[records.cells[:, a]]] - first
        return np.log(weights @ theta[:, first:last])[value]

    def _unseen(self, theta: Floats, weights: Floats, rng: np.random.Generator) -> float:
        beyond = self.beyond
        most = EXACT if beyond.of_value.max() <= EXACT else SYNTHETIC
        keys, log_p = _make_up(theta, weights, self.records, beyond, most, rng)
        expected = _unseen_uniques(keys, log_p, self.records.keys, beyond, most)
        return expected if most == EXACT else float(rng.poisson(expected))

    def pack(self, live: Draws) -> Draws:
        """Return the state, which is a dictionary of arrays already."""
        return live

    def unpack(self, arrays: Draws, generators: list[np.random.Generator]) -> Draws:
        """Return the state that `pack` stored."""
        return arrays

    def averages(self, live: Draws) -> Draws:
        """Chances of each record, averaged over the draws, and the last parameters."""
        means = live["sums"] / max(float(live["n_averaged"][0]), 1.0)
        names = ("unique", "match", "people", "log_p", "log_p_squared")
        return dict(zip(names, means, strict=True)) | {
            "theta": live["theta"], "weights": live["weights"]
        }  # fmt: skip
