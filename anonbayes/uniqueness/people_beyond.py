"""People of the population who share a record, draw by draw of the mixture.

Given the parameters, the ``M - n`` people outside the sample are independent draws from ``p``, or
from ``p`` given their stratum (MODEL 1.10); the rest is counting. The number of unique people among
them, however, is inferred from the sampling design: unique people were sampled like everybody else,
so the sample's share of unique people estimates that of the population. Simulating the others from
the mixture would be overconfident, because a mixture does not capture dependence that the sample is
too small to reveal.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numba import njit

from anonbayes.arrays import Draws, Floats, Ints
from anonbayes.inference.run import ChainState
from anonbayes.uniqueness.gibbs import sweep
from anonbayes.uniqueness.mixture import SampleRecords, draw_theta, margins, part_counts

CAUTION = 0.7
"""Common uncertainty of all rates, relative to that left by shared records alone; see `doubt`."""
QUADRATURE = np.polynomial.legendre.leggauss(32)
SHOWN = 20
"""Number of records whose numbers of people are stored for `diagnose`."""
MOST_AT_FIRST = 50_000
"""Most records that chains begin with; the others join in the last fifth of tuning."""
FOUNDER_ROWS, FIRST_SD = 3.0, 0.3
"""Rows in a new class, all like its founder, and standard deviation of the first ``log kappa``."""
DRAWN = (
    "unique_in_population",
    "matches_of_uniques",
    "matches",
    "fewest_people",
    "log_people",
    "population_uniques",
)
"""Quantities that `look_ahead` draws."""


class Beyond(NamedTuple):
    """People of the population who are not in the sample."""

    of_record: Ints
    """Number of those who might have each record: all, or those in its stratum."""
    attribute: int
    """Position of the attribute that is the stratum, or -1 without strata."""
    of_value: Ints
    """People in each stratum; without strata, a single number for everybody."""
    stratum: Ints
    """Index of each record's stratum in `of_value`."""
    seen: Floats
    """Size of the sample in each stratum: rows, or their share of the weights."""


@njit(cache=True, nogil=True)
def match_probability(rows: int, others: float, p: float, nodes: Floats, shares: Floats) -> float:
    """Expected ``1/(rows + B)`` with ``B ~ Binomial(others, p)``.

    This is the integral of ``t^(rows-1) (1 - p + p t)^others`` over [0, 1], computed in closed form
    for one row, by Gauss-Legendre quadrature for a few, and by an expansion for many.
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
    return _nobody(others, p) if rows == 1 else 0.0


@njit(cache=True, nogil=True)
def _nobody(others: float, p: float) -> float:
    if p < 1.0:
        return np.exp(others * np.log1p(-p))
    return 1.0 if others == 0 else 0.0


@njit(cache=True, nogil=True)
def _draw_others(others: int, p: float, nobody: float, rng: np.random.Generator) -> int:
    """Draw a binomial number; small ones by inversion, starting at `nobody`, the chance of none."""
    if others * p > 20.0 or p > 0.5:
        return rng.binomial(others, p)
    left, mass, odds, k = rng.random(), nobody, p / (1.0 - p), 0
    while left > mass and k < others and k < 200:
        left -= mass
        mass *= odds * (others - k) / (k + 1)
        k += 1
    return k


@njit(cache=True, nogil=True)
def chances(log_p: Floats, rows: Ints, others: Ints, nodes: Floats, shares: Floats) -> Floats:
    """Probabilities of being unique and of a correct match, one line per record."""
    out = np.empty((len(rows), 2))
    for d in range(len(rows)):
        p = min(np.exp(log_p[d]), 1.0)
        out[d, 0] = unique_probability(rows[d], float(others[d]), p)
        out[d, 1] = match_probability(rows[d], float(others[d]), p, nodes, shares)
    return out


@njit(cache=True, nogil=True)
def look_ahead(
    log_p: Floats,
    records: SampleRecords,
    beyond: Beyond,
    nodes: Floats,
    shares: Floats,
    sums: Floats,
    people: Floats,
    out: Floats,
    rng: np.random.Generator,
) -> None:
    """Add the probabilities of each record to `sums`, and draw counts for the whole population.

    `sums` has lines for unique, match, people, ``log p`` and its square. `people` receives the
    drawn number of people who share each record. `out` receives six numbers (`DRAWN`): sample
    uniques that are unique in the population, correct matches among sample uniques, correct matches
    among all rows, the fewest people who share a record, the sum over rows of the logarithm (base
    2) of the number of people who share their record, and unique people in the whole population. If
    ``u`` of the ``n`` people sampled from a stratum are unique, the share of unique people among
    those not sampled is drawn from ``Beta(u + 1/2, n - u + 1/2)``.
    """
    out[:] = 0.0
    out[3] = np.inf
    rows, others = records.rows, beyond.of_record
    alone = np.zeros(len(beyond.of_value))
    for d in range(len(log_p)):
        p = min(np.exp(log_p[d]), 1.0)
        nobody = _nobody(float(others[d]), p)
        if rows[d] == 1:
            sums[0, d] += nobody
        sums[1, d] += match_probability(rows[d], float(others[d]), p, nodes, shares)
        sums[2, d] += rows[d] + others[d] * p
        sums[3, d] += log_p[d]
        sums[4, d] += log_p[d] ** 2
        drawn = rows[d] + _draw_others(others[d], p, nobody, rng)
        people[d] = drawn
        if rows[d] == 1:
            out[1] += 1.0 / drawn
            if drawn == 1:
                out[0] += 1.0
                alone[beyond.stratum[d]] += records.mass[d]
        out[2] += rows[d] / drawn
        out[3] = min(out[3], drawn)
        out[4] += rows[d] * np.log2(drawn)
    out[5] = out[0]
    for h in range(len(alone)):
        if beyond.of_value[h] > 0:
            rest = max(beyond.seen[h] - alone[h], 0.0)
            out[5] += rng.binomial(beyond.of_value[h], rng.beta(alone[h] + 0.5, rest + 0.5))


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
        Largest number of classes of the mixture.
    tune : int
        Sweeps before the first draw; if there are very many records, the first four fifths use only
        some of them.
    per_draw : int
        Sweeps per draw.
    """

    records: SampleRecords
    beyond: Beyond
    classes: int
    tune: int
    per_draw: int

    n_generators = 2  # the second draws the people outside the sample
    grows: tuple[str, ...] = ()

    @cached_property
    def part(self) -> SampleRecords:
        """Random part of the records, used at first if there are very many."""
        n = len(self.records.cells)
        some = np.sort(np.random.default_rng(n).permutation(n)[:MOST_AT_FIRST])
        own = {
            name: getattr(self.records, name)[some] for name in ("cells", "path", "rows", "mass")
        }
        return self.records._replace(**own)

    @cached_property
    def doubt(self) -> float:
        """Standard deviation of the logarithm of a factor common to all rates.

        Dependence that a small sample cannot reveal makes people more alike than any fitted mixture
        suggests. Only rows that share a record are informative about this, so the uncertainty is
        larger the fewer of them there are. It is zero for a single attribute, which has nothing to
        depend on.
        """
        if self.records.cells.shape[1] == 1:
            return 0.0
        shared = self.records.mass[self.records.rows > 1].sum()
        return float(CAUTION / np.sqrt(1.0 + shared))

    @cached_property
    def shown(self) -> Ints:
        """Some common and some rare records, whose numbers of people are stored in each draw."""
        by_rows = np.argsort(-self.records.rows, kind="stable")
        return by_rows[np.linspace(0, len(by_rows) - 1, min(SHOWN, len(by_rows))).astype(np.int64)]

    def start(self, generators: list[np.random.Generator]) -> Draws:
        """Found each class on a random row, so that chains start dispersed.

        They also start with too many classes, since classes merge much faster than they split.
        """
        rng, records = generators[0], self.records
        margin = margins(records)
        theta = np.empty((self.classes, records.value_start[-1]))
        kappa = np.exp(rng.normal(records.pool_mean, FIRST_SD))
        founders = rng.choice(len(records.rows), self.classes, p=records.mass / records.mass.sum())
        counts = np.zeros_like(theta)
        for c, cells in enumerate(records.cells[founders]):
            first = records.cell_start[cells]
            single = records.cell_start[cells + 1] == first + 1
            counts[c, records.cell_values[first[single]]] = FOUNDER_ROWS
        draw_theta(
            part_counts(counts, records), records, margin, kappa,
            np.zeros(self.classes, dtype=bool), theta, rng,
        )  # fmt: skip
        return {
            "theta": theta,
            "weights": np.full(self.classes, 1.0 / self.classes),
            "concentration": np.ones(1),
            "kappa": kappa,
            "gamma": np.ones_like(kappa),
            "missed": np.where(records.pool_open, 10.0, 0.0),
            "margin": margin,
            "sums": np.zeros((5, len(records.cells))),
            "n_swept": np.zeros(1, dtype=np.int64),
            "n_averaged": np.zeros(1),
        }

    def advance(self, state: ChainState, n: int, *, tuning: bool) -> tuple[Draws, Draws]:
        """Make `n` tuning sweeps, or `n` draws of `per_draw` sweeps each."""
        live, ahead = state.live, state.generators[1]
        numbers, likelihood, used = np.zeros((n, len(DRAWN))), np.empty(n), np.empty(n)
        people = np.empty(len(self.records.rows))
        shown = np.empty((n, len(self.shown)))
        for i in range(n):
            for _ in range(1 if tuning else self.per_draw):
                theta, weights = live["theta"].copy(), live["weights"].copy()
                likelihood[i], log_p = self.sweep(live, state.generators[0])
            used[i] = 1.0 / (live["weights"] ** 2).sum()
            if not tuning:
                log_p -= self.log_strata(theta, weights)
                log_p += self.doubt * ahead.standard_normal() - 0.5 * self.doubt**2
                look_ahead(
                    log_p, self.records, self.beyond, *QUADRATURE, live["sums"], people,
                    numbers[i], ahead,
                )  # fmt: skip
                shown[i] = people[self.shown]
                live["n_averaged"] += 1
        draws = dict(zip(DRAWN, numbers.T, strict=True))
        draws |= {"classes_used": used, "people": shown}
        return draws, {"log_likelihood": likelihood}

    def sweep(self, live: Draws, rng: np.random.Generator) -> tuple[float, Floats]:
        """Make one sweep; return the log-likelihood and ``log p`` of the records before it."""
        swept = int(live["n_swept"][0])
        at_first = 5 * swept < 4 * self.tune and len(self.records.cells) > MOST_AT_FIRST
        records = self.part if at_first else self.records
        log_p = np.empty(len(records.cells))
        likelihood, concentration = sweep(
            live["theta"],
            live["weights"],
            float(live["concentration"][0]),
            live["kappa"],
            live["gamma"],
            live["missed"],
            live["margin"],
            swept % 4 == 0,
            records,
            log_p,
            rng,
        )
        live["concentration"] = np.array([concentration])
        live["n_swept"] += 1
        return likelihood, log_p

    def log_strata(self, theta: Floats, weights: Floats) -> Floats:
        """Logarithm of the probability of each record's stratum; 0 where there are no strata."""
        a, records = self.beyond.attribute, self.records
        if a < 0:
            return np.zeros(1)
        first, last = records.value_start[a], records.value_start[a + 1]
        value = records.cell_values[records.cell_start[records.cells[:, a]]] - first
        return np.log(weights @ theta[:, first:last])[value]

    def pack(self, live: Draws) -> Draws:
        """Return the state, which is a dictionary of arrays already."""
        return live

    def unpack(self, arrays: Draws, generators: list[np.random.Generator]) -> Draws:
        """Return the state that `pack` stored."""
        return arrays

    def averages(self, live: Draws) -> Draws:
        """Probabilities of each record averaged over the draws, and the last parameters."""
        means = live["sums"] / max(float(live["n_averaged"][0]), 1.0)
        names = ("unique", "match", "people", "log_p", "log_p_squared")
        return dict(zip(names, means, strict=True)) | {
            "theta": live["theta"], "weights": live["weights"]
        }  # fmt: skip
