"""Measures of threat and usefulness, and what they mean in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from numba import njit

from anonbayes.arrays import Floats, Ints
from anonbayes.domains import Domain
from anonbayes.errors import AnonbayesError

if TYPE_CHECKING:
    from anonbayes.risk.assessment import RiskAssessment

__all__ = [
    "EXPLANATIONS",
    "QUANTILES",
    "Gain",
    "PairThreats",
    "Threats",
    "matched",
    "pair_threats",
    "read_gain",
    "replicate_error",
    "replicate_weights",
    "table_measures",
    "verdict",
    "weighted_sum",
]


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


# -------------------------------------------------------------------------------------------------
# Measures of threat from plain arrays (MODEL 1.6, Groups Definition 1).
#
# Beliefs are arrays ``(records, S)``; rows are counted through distinct (record, secret) pairs.

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
    >>> from anonbayes.risk.measures import read_gain
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
    """

    matrix: Floats | None
    target: npt.NDArray[np.int64]
    acts: tuple[Any, ...]
    text: str

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
    >>> found = read_gain(Domain("Dis", ["Flu", "HIV", "Cancer"]), harm={"HIV", "Cancer"})
    >>> found.expected(np.array([0.4, 0.35, 0.25])).round(2).tolist(), found.target.tolist()
    ([0.6, 0.4], [-1, 0, 0])
    """
    size = len(domain)
    if harm is not None and gain is not None:
        raise AnonbayesError("Give harm= or gain=, not both.")
    if harm is not None:
        if isinstance(harm, str) or not isinstance(harm, Iterable):
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
    return Gain(matrix, target, acts, f"the best act against the victim, by {domain.name}")


# -------------------------------------------------------------------------------------------------
# Measures in words: one sentence for each, and the verdict on a release.

EXPLANATIONS = {
    "GT_A": "Share of the people whose secret an attacker guesses right who knows that they are "
    "in the table.",
    "GT_L": "Share of the people whose secret is guessed right by somebody who only learned about "
    "the population.",
    "GT_RW": "Share guessed right by an attacker to whom all compatible tables are equally likely.",
    "RGT_A": "How much more often the attacker is right than the learner: what being in the table "
    "costs.",
    "RF": "Relative faithfulness: 1 if the release teaches as much about the population as the "
    "cleartext, 0 if nothing of it.",
    "ETV": "Empirical total variation between what cleartext and release teach (Groups (21)).",
    "ABS_A": "Sum over people and values of the error of the attacker's probabilities.",
    "ABS_L": "The same for the learner.",
    "ABS_RW": "The same for random worlds.",
    "baseline": "Share guessed right by always naming the most frequent value.",
    "ideal": "Share guessed right from a model of the population learned from the cleartext.",
    "max_Ti": "Largest relative threat: how many times likelier the attacker deems a secret he "
    "guesses right than the learner does.",
    "Ti_q50": "Half of the threatened people have a relative threat of at most this.",
    "Ti_q75": "Three quarters of the threatened people have a relative threat of at most this.",
    "Ti_q90": "90 % of the threatened people have a relative threat of at most this.",
    "Ti_q95": "95 % of the threatened people have a relative threat of at most this.",
    "Ti_q99": "99 % of the threatened people have a relative threat of at most this.",
    "doubled": "Share of the people who are threatened with a relative threat of 2 or more.",
    "skewness": "Skewness of log2 of the relative threat: positive if few are threatened much more "
    "than the rest.",
    "threatened": "Number of people whose secret the attacker guesses right.",
    "rows": "Number of people in the cleartext.",
}


def verdict(risk: RiskAssessment) -> str:
    """Two or three sentences that a person without statistics can act on."""
    s = risk.summary
    n = int(s["rows"])
    parts = [
        f"An attacker who knows that somebody is in the table guesses {risk.gain.text} right for "
        f"{s['GT_A']:.1%} of {n:,} people; somebody who only learned about the population, for "
        f"{s['GT_L']:.1%}."
    ]
    if np.isfinite(s["max_Ti"]) and s["threatened"] > 0:
        parts.append(
            f"The attacker is at most {s['max_Ti']:.3g} times as certain as the learner, and twice "
            f"as certain or more about {round(s['doubled'] * n):,} of them."
        )
    if risk.leakage is not None and not risk.leakage.is_private:
        parts.append(
            f"{risk.leakage.exposed:,} people are in groups that show one sensitive value only."
        )
    parts.append(
        f"What the release teaches about the population is {s['RF']:.0%} faithful to the cleartext."
    )
    return " ".join(parts)
