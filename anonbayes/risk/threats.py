"""Threats to people under a belief: what an attacker gains, pair by pair, and with which error."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from numba import njit

from anonbayes.arrays import Floats, Ints
from anonbayes.domains import Domain
from anonbayes.errors import AnonbayesError

__all__ = [
    "BELIEFS",
    "Gain",
    "PairThreats",
    "Replicates",
    "Threats",
    "joined",
    "matched",
    "pair_threats",
    "read_gain",
    "replicate_error",
    "replicate_weights",
    "weighted_quantiles",
    "weighted_skewness",
    "weighted_sum",
]
BELIEFS = {"L": "learner", "A": "attacker", "RW": "random_worlds", "I": "ideal"}
"""Whose belief a letter in the name of a measure or of a column means."""


# -------------------------------------------------------------------------------------------------
# What an attacker gains: by default the secret itself; or any of several harmful values.


@dataclass(frozen=True, eq=False)
class Gain:
    """Decision problem of whoever wants to know a secret (Groups Sec. IV, with any gain).

    Whoever holds the belief q takes the act a with the largest ``sum_s matrix[a, s] q(s)``. The act
    that a victim with secret s has to fear is ``target[s]``, that of the largest gain. A row is
    threatened when its target is taken; its threat level is the expected gain of its target. With
    the identity matrix this is guessing, and the level is ``q(s)``.

    Parameters
    ----------
    matrix : numpy.ndarray or None
        Gains, shape ``(acts, S)``; None for the identity.
    target : numpy.ndarray
        Act that threatens each secret; -1 where nothing is at stake.
    acts : tuple
        Names of the acts.
    text : str
        What a threat means, in a few words.
    answer : numpy.ndarray or None
        Beliefs are scored by the question which of several answers is true; this is the answer
        that each secret gives. None where the question is the secret itself.
    """

    matrix: Floats | None
    target: npt.NDArray[np.int64]
    acts: tuple[Any, ...]
    text: str
    answer: Ints | None = None

    def expected(self, belief: Floats) -> Floats:
        """Expected gain of every act under beliefs ``(..., S)``.

        Summed one secret after the other: the product of matrices would round differently for
        different numbers of beliefs, and a row's threat must not depend on its neighbours.
        """
        if self.matrix is None:
            return belief
        out = np.zeros((*belief.shape[:-1], len(self.matrix)))
        for s, gains in enumerate(self.matrix.T):
            out += belief[..., s, None] * gains
        return out


def read_gain(
    domain: Domain,
    *,
    harm: Iterable[Any] | None = None,
    gain: pd.DataFrame | npt.ArrayLike | None = None,
) -> Gain:
    """Build the decision problem from a set of harmful values or a matrix of gains.

    Parameters
    ----------
    domain : Domain
        The sensitive values.
    harm : iterable, optional
        Values of which it is harmful that any is inferred: the question becomes whether the secret
        is one of them, and only rows of which it is true are at stake.
    gain : pandas.DataFrame or array, optional
        Gain of each act (rows) for each sensitive value (columns, in the domain's order or named),
        at least 0.

    Examples
    --------
    >>> gain = read_gain(Domain("Dis", ["Flu", "HIV", "Cancer"]), harm={"HIV", "Cancer"})
    >>> gain.expected(np.array([0.4, 0.35, 0.25])).round(2).tolist(), gain.target.tolist()
    ([0.6, 0.4], [-1, 0, 0])
    """
    size = len(domain)
    if harm is not None and gain is not None:
        raise AnonbayesError("Give harm= or gain=, not both.")
    if harm is not None:
        is_list = isinstance(harm, Iterable) and getattr(harm, "ndim", 1) > 0
        if isinstance(harm, str) or not is_list:
            raise AnonbayesError(f"harm={harm!r} must be a set of values, such as {{{harm!r}}}.")
        codes = sorted({domain.index(value) for value in harm})
        if not 0 < len(codes) < size:
            raise AnonbayesError(
                f"harm= must name some of the {size} values of {domain.name!r}, not "
                f"{len(codes)} of them."
            )
        harmful = np.zeros(size)
        harmful[codes] = 1.0
        words = ", ".join(str(domain.values[c]) for c in codes)
        return Gain(
            np.stack([harmful, 1.0 - harmful]),
            np.where(harmful > 0, 0, -1),
            ("harmful", "other"),
            f"{domain.name} is one of: {words}",
            np.where(harmful > 0, 0, 1),
        )
    if gain is not None:
        return _from_matrix(domain, gain)
    return Gain(None, np.arange(size), domain.values, f"the exact value of {domain.name}")


def _from_matrix(domain: Domain, gain: pd.DataFrame | npt.ArrayLike) -> Gain:
    acts: tuple[Any, ...]
    if isinstance(gain, pd.DataFrame):
        columns = {domain.index(column): column for column in gain.columns}
        missing = [v for i, v in enumerate(domain.values) if i not in columns]
        if missing:
            raise AnonbayesError(f"gain= has no column for {missing[0]!r} of {domain.name!r}.")
        acts = tuple(gain.index)
        gain = gain[[columns[i] for i in range(len(domain))]].to_numpy()
    else:
        acts = tuple(range(np.shape(gain)[0])) if np.ndim(gain) == 2 else ()
    matrix = np.asarray(gain, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] != len(domain) or len(matrix) < 2:
        raise AnonbayesError(
            f"gain= must have two or more acts as rows and the {len(domain)} values of "
            f"{domain.name!r} as columns, got shape {matrix.shape}."
        )
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        raise AnonbayesError("gain= must be finite and at least 0.")
    target = np.where(matrix.max(axis=0) > 0, matrix.argmax(axis=0), -1)
    mark = zlib.crc32(repr((acts, matrix.tolist())).encode())
    text = f"the best of {len(acts)} acts against the victim, by {domain.name} (gains {mark:08x})"
    return Gain(matrix, target, acts, text)


# -------------------------------------------------------------------------------------------------
# Threats pair by pair (MODEL 1.6, Groups Definition 1), and what beliefs are scored by (MODEL 1.9).
#
# Beliefs are arrays ``(records, S)``; rows are counted through distinct (record, secret) pairs.

TIE = 1e-9
"""Expected gains that differ by less than this share count as equal."""


@dataclass(frozen=True, eq=False)
class PairThreats:
    """Threat under one belief, and how good the belief is, pair by pair.

    Attributes
    ----------
    level : numpy.ndarray
        Threat level ``q(s)``; NaN where nothing is at stake.
    threatened : numpy.ndarray
        Probability that the row is threatened: 1, 0, or one over the number of acts that tie, since
        ties are broken at random.
    secret : numpy.ndarray
        Probability ``q(s)`` of the exact secret, whatever counts as a threat.
    truth : numpy.ndarray
        Probability of the true answer to the question that the belief is scored by.
    stated : numpy.ndarray
        Probability of the most likely answer: how sure the holder of the belief is.
    right : numpy.ndarray
        Probability that this answer is true: 1, 0, or one over the number of answers that tie.
    brier : numpy.ndarray
        ``sum_c (q(c) - 1[c is true])^2`` over the answers c.
    """

    level: Floats
    threatened: Floats
    secret: Floats
    truth: Floats
    stated: Floats
    right: Floats
    brier: Floats


Threats = dict[str, PairThreats]
"""Threats by the letter of the belief, see `BELIEFS`."""


def pair_threats(belief: Floats, record: Ints, secret: Ints, gain: Gain) -> PairThreats:
    """Threat level and whether the row is threatened, for pairs of a record and a secret.

    Examples
    --------
    >>> guess = read_gain(Domain("Dis", ["Flu", "Heart", "HIV"]))
    >>> q = np.array([[0.4, 0.4, 0.2]])
    >>> pairs = pair_threats(q, np.array([0, 0]), np.array([0, 2]), guess)
    >>> pairs.threatened.tolist(), pairs.level.tolist(), pairs.brier.round(6).tolist()
    ([0.5, 0.0], [0.4, 0.2], [0.56, 0.96])
    """
    value = gain.expected(belief)
    threatened, level = _best(value, record, gain.target[secret])
    if gain.matrix is None:
        answers, right, truth = value, threatened, level
    else:
        answers = belief if gain.answer is None else value
        right, truth = _best(
            answers, record, secret if gain.answer is None else gain.answer[secret]
        )
    squares = (answers**2).sum(axis=1)[record]
    return PairThreats(
        level,
        threatened,
        belief[record, secret],
        truth,
        answers.max(axis=1)[record],
        right,
        1.0 - 2.0 * truth + squares,
    )


def _best(value: Floats, record: Ints, wanted: Ints) -> tuple[Floats, Floats]:
    """Probability that the wanted column is the largest, ties broken at random; and its value."""
    least = value.max(axis=1) * (1.0 - TIE)
    ties = (value >= least[:, None]).sum(axis=1)
    level = np.where(wanted >= 0, value[record, wanted], np.nan)
    with np.errstate(invalid="ignore"):
        return np.where(level >= least[record], 1.0 / ties[record], 0.0), level


def joined(parts: list[Threats], order: Ints) -> Threats:
    """Put threats of several blocks of pairs together, in the order of all pairs."""
    return {
        letter: PairThreats(
            *(
                np.concatenate([getattr(part[letter], field.name) for part in parts])[order]
                for field in fields(PairThreats)
            )
        )
        for letter in parts[0]
    }


@dataclass(frozen=True, eq=False)
class Replicates:
    """Threats per pair under other weights of the draws.

    There are none when everything is exact (no batches), or with too few draws (a single batch).
    """

    threats: tuple[Threats, ...]
    n_batches: int
    n_chains: int

    def error(self, values: Floats) -> Floats:
        """Standard error from the replicates of a statistic."""
        return replicate_error(values, self.n_batches, self.n_chains)

    @property
    def otherwise(self) -> float:
        """Standard error of everything when there are no replicates."""
        return 0.0 if self.n_batches == 0 else np.nan


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


# -------------------------------------------------------------------------------------------------
# Monte-Carlo errors of anything computed from beliefs: the Bayesian bootstrap over batches.
#
# Shares of threatened rows, quantiles and maxima are no averages of draws, and they jump where two
# guesses are nearly tied. So batches of draws get random weights (Dirichlet, as in Rubin 1981), and
# everything is computed again: beliefs then move as much as another run of the sampler would move
# them. Where chains disagree, the batches of one chain are no independent pieces; so whole chains
# are weighted as well, and the larger error counts.

REPLICATES = 24


def _chains(n_batches: int, n_chains: int) -> int:
    """Chains that can be weighted as a whole; 0 when batches are chains already."""
    return n_chains if 1 < n_chains < n_batches and n_batches % n_chains == 0 else 0


def replicate_weights(n_batches: int, n_chains: int, replicates: int = REPLICATES) -> Floats:
    """Weights of the batches, one line per replicate: by batches, then by chains.

    They are the same at every call, so that measures computed piece by piece belong together.

    Examples
    --------
    >>> replicate_weights(4, 2, 3).shape, replicate_weights(4, 2, 3).sum(axis=1).round(9).tolist()
    ((6, 4), [1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
    """
    rng = np.random.default_rng(1981)
    parts = [rng.dirichlet(np.ones(n_batches), size=replicates)]
    if chains := _chains(n_batches, n_chains):
        each = n_batches // chains
        parts.append(
            np.repeat(rng.dirichlet(np.ones(chains), size=replicates), each, axis=1) / each
        )
    return np.concatenate(parts)


def replicate_error(values: Floats, n_batches: int, n_chains: int) -> Floats:
    """Standard error from the values of a statistic under the `replicate_weights`.

    Examples
    --------
    For an average it is near the usual standard error.

    >>> batches = np.random.default_rng(0).normal(size=20)
    >>> again = replicate_weights(20, 1, 1000) @ batches
    >>> ratio = replicate_error(again, 20, 1) / (batches.std(ddof=1) / np.sqrt(20))
    >>> bool(abs(ratio - 1) < 0.1)
    True
    """
    chains = _chains(n_batches, n_chains)
    half = len(values) // 2 if chains else len(values)
    error = _spread(values[:half], n_batches)
    return np.fmax(error, _spread(values[half:], chains)) if chains else error


def matched(one: Floats, two: Floats, n_chains: int) -> tuple[Floats, Floats]:
    """Merge neighbouring batches of the same chains until both sets have the same number.

    Examples
    --------
    >>> one, two = matched(np.arange(8.0), np.arange(4.0), 2)
    >>> one.tolist(), two.tolist()
    ([0.5, 2.5, 4.5, 6.5], [0.0, 1.0, 2.0, 3.0])
    """
    n = n_chains * math.gcd(len(one) // n_chains, len(two) // n_chains)
    merged = [b.reshape(n, -1, *b.shape[1:]).mean(axis=1) for b in (one, two)]
    return merged[0], merged[1]


def weighted_sum(weights: Floats, batches: Floats) -> Floats:
    """``sum_b weights[b] * batches[b]``, rounded alike in every place of the array.

    A product of matrices is not: its rounding depends on the number of columns.

    Examples
    --------
    >>> weighted_sum(np.array([0.5, 0.25]), np.array([[1.0, 2.0], [4.0, 0.0]])).tolist()
    [1.5, 1.0]
    """
    out = np.zeros(batches[0].size)
    _add_weighted(weights, np.ascontiguousarray(batches).reshape(len(batches), -1), out)
    return out.reshape(batches.shape[1:])


@njit(cache=True, nogil=True)
def _add_weighted(weights, batches, out):  # type: ignore[no-untyped-def]
    for b in range(len(weights)):
        for i in range(len(out)):
            out[i] += weights[b] * batches[b, i]


def _spread(values: Floats, n: int) -> Floats:
    """Spread of the replicates; n Dirichlet weights scatter less than n draws by (n-1)/(n+1)."""
    with np.errstate(invalid="ignore"):
        spread = values.std(axis=0, ddof=1) * np.sqrt((n + 1) / (n - 1))
    return np.where((values == values[0]).all(axis=0), 0.0, spread)  # no rounding where exact
