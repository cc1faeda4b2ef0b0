"""Measures of threat from plain arrays (MODEL 1.6, Groups Definition 1).

Beliefs are arrays ``(records, S)``; rows are counted through distinct (record, secret) pairs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from anonbayes.arrays import Floats, Ints
from anonbayes.risk.gains import Gain

__all__ = ["QUANTILES", "PairThreats", "Threats", "pair_threats", "table_measures"]

QUANTILES = (0.5, 0.75, 0.9, 0.95, 0.99)
TIE = 1e-9
"""Expected gains that differ by less than this share count as equal."""


@dataclass(frozen=True, eq=False)
class PairThreats:
    """Threat under one belief, pair by pair.

    Attributes
    ----------
    level : numpy.ndarray
        Threat level ``q(s)``; NaN where nothing is at stake.
    threatened : numpy.ndarray
        Probability that the row is threatened: 1, 0, or one over the number of acts that tie, since
        ties are broken at random.
    error : numpy.ndarray
        Absolute error ``sum_s' |1[s' = s] - q(s')|``.
    """

    level: Floats
    threatened: Floats
    error: Floats


def pair_threats(belief: Floats, record: Ints, secret: Ints, gain: Gain) -> PairThreats:
    """Threat level and whether the row is threatened, for pairs of a record and a secret.

    Examples
    --------
    >>> from anonbayes import Domain
    >>> from anonbayes.risk.gains import read_gain
    >>> guess = read_gain(Domain("Dis", ["Flu", "Heart", "HIV"]))
    >>> q = np.array([[0.4, 0.4, 0.2]])
    >>> found = pair_threats(q, np.array([0, 0]), np.array([0, 2]), guess)
    >>> found.threatened.tolist(), found.level.tolist(), found.error.round(6).tolist()
    ([0.5, 0.0], [0.4, 0.2], [1.2, 1.6])
    """
    value = gain.expected(belief)
    least = value.max(axis=1) * (1.0 - TIE)
    ties = (value >= least[:, None]).sum(axis=1)
    target = gain.target[secret]
    level = np.where(target >= 0, value[record, target], np.nan)
    with np.errstate(invalid="ignore"):
        threatened = np.where(level >= least[record], 1.0 / ties[record], 0.0)
    # A belief sums to one, so what is missing at s is what is too much elsewhere.
    return PairThreats(level, threatened, 2.0 * (1.0 - belief[record, secret]))


@dataclass(frozen=True, eq=False)
class Threats:
    """Threats under the three beliefs that a release gives rise to."""

    attacker: PairThreats
    learner: PairThreats
    random_worlds: PairThreats

    @property
    def ratio(self) -> Floats:
        """``Ti = p_A(s | r) / p_L(s | r)`` of every pair (Groups (16))."""
        return np.asarray(self.attacker.level / self.learner.level)


def table_measures(threats: Threats, count: Ints) -> Mapping[str, float]:
    """Measures of the whole table: counts, shares, quantiles of the relative threat.

    Parameters
    ----------
    threats : Threats
        Per distinct pair.
    count : numpy.ndarray
        Number of rows of each pair.
    """
    n = float(count.sum())
    kinds = {"A": threats.attacker, "L": threats.learner, "RW": threats.random_worlds}
    out = {f"GT_{name}": float(kind.threatened @ count) / n for name, kind in kinds.items()}
    out["RGT_A"] = max(0.0, out["GT_A"] - out["GT_L"])
    out |= {f"ABS_{name}": float(kind.error @ count) for name, kind in kinds.items()}
    hit = threats.attacker.threatened > 0
    ratio, weight = threats.ratio[hit], (threats.attacker.threatened * count)[hit]
    out["threatened"] = float(weight.sum())
    out["max_Ti"] = float(ratio.max(initial=-np.inf)) if hit.any() else np.nan
    out |= {
        f"Ti_q{round(100 * q)}": value
        for q, value in zip(QUANTILES, weighted_quantiles(ratio, weight, QUANTILES), strict=True)
    }
    out["doubled"] = float(weight[ratio >= 2.0].sum()) / n
    out["skewness"] = weighted_skewness(np.log2(ratio), weight)
    return out


def weighted_quantiles(values: Floats, weight: Floats, at: tuple[float, ...]) -> list[float]:
    """Smallest values with at least the share `at` of the weight at or below them.

    Examples
    --------
    >>> weighted_quantiles(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 2.0]), (0.25, 0.5, 1.0))
    [1.0, 2.0, 3.0]
    """
    if not len(values):
        return [np.nan] * len(at)
    order = np.argsort(values)
    cumulated = np.cumsum(weight[order])
    wanted = np.asarray(at) * cumulated[-1] * (1 - 1e-12)
    place = np.minimum(np.searchsorted(cumulated, wanted), len(values) - 1)
    return [float(v) for v in values[order][place]]


def weighted_skewness(values: Floats, weight: Floats) -> float:
    """Third standardised moment, the gamma of the paper's Figures 2 and 3; NaN if all are equal.

    Examples
    --------
    >>> round(weighted_skewness(np.array([0.0, 1.0]), np.array([3.0, 1.0])), 4)
    1.1547
    """
    if not len(values):
        return np.nan
    centred = values - np.average(values, weights=weight)
    spread = float(np.average(centred**2, weights=weight))
    if spread <= 1e-24:
        return np.nan
    return float(np.average(centred**3, weights=weight)) / spread**1.5
