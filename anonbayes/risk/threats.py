"""Threats to people under a belief, pair by pair, and how good the beliefs are.

With the cleartext, beliefs can be scored (MODEL 1.9). `right` is the share of people whose most
likely answer is true, with ties broken at random. The log loss is the mean of
``-log max(p(truth), 1e-4)``, the Brier score the mean of ``sum_c (p(c) - 1[c is true])^2``. The
calibration error is the gap between the belief in the best guess and how often it is right, in
bins of a tenth, averaged over people.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from numba import njit

from anonbayes.arrays import Floats, Ints
from anonbayes.domains import Domain
from anonbayes.errors import AnonbayesError
from anonbayes.formats import count, number, share

BELIEFS = {"L": "learner", "A": "attacker", "RW": "random_worlds", "I": "ideal"}
"""Letters of the beliefs in the names of measures and columns."""


# -------------------------------------------------------------------------------------------------
# What an attacker gains: by default the exact secret, or any of several harmful values.


@dataclass(frozen=True, eq=False)
class Gain:
    """Decision problem of whoever wants to know a secret (Groups Sec. IV, with any gain).

    Someone with the belief q takes the action a with the largest ``sum_s matrix[a, s] q(s)``;
    without a matrix, actions are guesses. ``target[s]`` is the action that harms a victim with
    secret s, the one of the largest gain, or -1. A row is threatened if that action is taken, and
    its threat level is the action's expected gain. Beliefs are scored on which ``answer`` is true.
    """

    matrix: Floats | None
    target: npt.NDArray[np.int64]
    acts: tuple[object, ...]
    text: str
    answer: Ints | None = None

    def expected(self, belief: Floats) -> Floats:
        """Expected gain of every action under beliefs ``(..., S)``, rounded alike in any shape."""
        if self.matrix is None:
            return belief
        out = np.zeros((*belief.shape[:-1], len(self.matrix)))
        for s, gains in enumerate(self.matrix.T):
            out += belief[..., s, None] * gains
        return out


def read_gain(
    domain: Domain,
    *,
    harm: Iterable[object] | None = None,
    gain: pd.DataFrame | npt.ArrayLike | None = None,
) -> Gain:
    """Build the decision problem from a set of harmful values or a matrix of gains."""
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
                f"harm= must contain at least one and not all of the {size} values of "
                f"{domain.name!r}; it contains {len(codes)}."
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
    acts: tuple[object, ...]
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
            f"gain= must have at least two actions as rows and the {len(domain)} values of "
            f"{domain.name!r} as columns, but has shape {matrix.shape}."
        )
    if not np.isfinite(matrix).all() or (matrix < 0).any():
        raise AnonbayesError("gain= must be finite and at least 0.")
    target = np.where(matrix.max(axis=0) > 0, matrix.argmax(axis=0), -1)
    mark = zlib.crc32(repr((acts, matrix.tolist())).encode())
    text = (
        f"the best of {len(acts)} actions against the victim, by {domain.name} (gains {mark:08x})"
    )
    return Gain(matrix, target, acts, text)


# -------------------------------------------------------------------------------------------------
# Threats pair by pair (MODEL 1.6, Groups Definition 1), and what beliefs are scored by (MODEL 1.9).
#
# Beliefs are arrays ``(records, S)``; rows are counted through distinct (record, secret) pairs.

TIE = 1e-9
"""Relative difference below which expected gains count as equal."""


@dataclass(frozen=True, eq=False)
class PairThreats:
    """Threat under one belief q, and how good the belief is, by pair.

    `truth` is the probability of the true answer, `stated` that of the most likely one, and `right`
    the probability that the latter is true (ties are broken at random).
    """

    level: Floats  # q(s); NaN where no harm is possible
    threatened: Floats  # probability that the row is: 1, 0, or one over the tied actions
    secret: Floats  # probability of the exact secret
    truth: Floats
    stated: Floats
    right: Floats
    brier: Floats  # sum_c (q(c) - 1[c is true])^2


Threats = dict[str, PairThreats]
"""Threats by letter of the belief; see `BELIEFS`."""


def pair_threats(belief: Floats, record: Ints, secret: Ints, gain: Gain) -> PairThreats:
    """Compute the threats of pairs of a record and a secret."""
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
    """Probability that the wanted column is largest, with ties broken at random; and its value."""
    least = value.max(axis=1) * (1.0 - TIE)
    ties = (value >= least[:, None]).sum(axis=1)
    level = np.where(wanted >= 0, value[record, wanted], np.nan)
    with np.errstate(invalid="ignore"):
        return np.where(level >= least[record], 1.0 / ties[record], 0.0), level


def joined(parts: list[Threats], order: Ints) -> Threats:
    """Put the threats of several blocks together, in the order of all pairs."""
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
    """Threats by pair under reweighted batches of the draws.

    Empty if everything is exact (no batches), or if there are too few draws (a single batch).
    """

    threats: tuple[Threats, ...]
    n_batches: int
    n_chains: int

    def error(self, values: Floats) -> Floats:
        """Standard error of a statistic from its replicates."""
        return replicate_error(values, self.n_batches, self.n_chains)

    @property
    def otherwise(self) -> float:
        """Standard error if there are no replicates: zero if exact, else NaN."""
        return 0.0 if self.n_batches == 0 else np.nan


EXACT = Replicates((), 0, 1)
"""Where nothing is simulated."""


def weighted_quantiles(values: Floats, weight: Floats, at: tuple[float, ...]) -> list[float]:
    """Smallest values with at least the share `at` of the weight at or below them."""
    if not len(values):
        return [np.nan] * len(at)
    order = np.argsort(values)
    cumulated = np.cumsum(weight[order])
    wanted = np.asarray(at) * cumulated[-1] * (1 - 1e-12)
    place = np.minimum(np.searchsorted(cumulated, wanted), len(values) - 1)
    return [float(v) for v in values[order][place]]


def weighted_skewness(values: Floats, weight: Floats) -> float:
    """Third standardised moment, the gamma of the paper's Figures 2 and 3; NaN if all are equal."""
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
# Shares of threatened rows, quantiles and maxima are not averages over draws, and they jump where
# two guesses are nearly tied. So batches of draws get random weights (Dirichlet, as in Rubin 1981),
# and everything is computed again: beliefs then vary as much as in another run of the sampler. If
# chains disagree, the batches of one chain are not independent; so whole chains are reweighted as
# well, and the larger error is used.

REPLICATES = 24


def _chains(n_batches: int, n_chains: int) -> int:
    """Number of chains that can be reweighted as a whole; 0 if batches are chains already."""
    return n_chains if 1 < n_chains < n_batches and n_batches % n_chains == 0 else 0


def replicate_weights(n_batches: int, n_chains: int, replicates: int = REPLICATES) -> Floats:
    """Weights of the batches, one line per replicate: first by batches, then by chains.

    They are the same in every call, so that measures computed in pieces fit together.
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
    """Standard error from the values of a statistic under the `replicate_weights`."""
    chains = _chains(n_batches, n_chains)
    half = len(values) // 2 if chains else len(values)
    error = _spread(values[:half], n_batches)
    return np.fmax(error, _spread(values[half:], chains)) if chains else error


def matched(one: Floats, two: Floats, n_chains: int) -> tuple[Floats, Floats]:
    """Merge neighbouring batches of the same chains until both sets have equally many."""
    n = n_chains * math.gcd(len(one) // n_chains, len(two) // n_chains)
    merged = [b.reshape(n, -1, *b.shape[1:]).mean(axis=1) for b in (one, two)]
    return merged[0], merged[1]


def weighted_sum(weights: Floats, batches: Floats) -> Floats:
    """``sum_b weights[b] * batches[b]``, rounded independently of the array's shape.

    In a matrix product, rounding depends on the number of columns.
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
    """Spread of the replicates, corrected for Dirichlet weights by (n-1)/(n+1)."""
    with np.errstate(invalid="ignore"):
        spread = values.std(axis=0, ddof=1) * np.sqrt((n + 1) / (n - 1))
    return np.where((values == values[0]).all(axis=0), 0.0, spread)  # no rounding error if exact


# -------------------------------------------------------------------------------------------------
# Scores against the truth, and whether stated certainty is reliable.

FLOOR = 1e-4
"""Least probability in the log loss: being sure of something false costs 9.2 nats."""
N_BINS = 10
TOLERANCE = 0.03
"""Up to this calibration error a belief counts as reliable, however many people there are."""
SCORES = ("right", "log_loss", "brier", "ece")
DIFFERENCES = (("A", "RW"), ("A", "L"), ("L", "RW"), ("A", "I"), ("L", "I"))
Z = 1.959963984540054
ROUNDING = 1e-13
"""A variance that is a smaller part of the squares is none."""


def log_loss(truth: Floats) -> Floats:
    """Log loss of each person, from the probability of the truth."""
    return np.asarray(-np.log(np.maximum(truth, FLOOR)))


@dataclass(frozen=True, eq=False)
class _Bins:
    """One belief, binned by the belief in its best guess: sums over people in each bin."""

    people: Floats
    stated: Floats
    right: Floats
    variance: Floats  # of `right` if the belief is calibrated

    @classmethod
    def of(cls, pairs: PairThreats, people: Ints) -> _Bins:
        place = _place(pairs)

        def total(values: Floats) -> Floats:
            return np.bincount(place, values * people, N_BINS).astype(np.float64)

        return cls(
            total(np.ones(len(place))),
            total(pairs.stated),
            total(pairs.right),
            total(pairs.stated * np.maximum(1.0 - pairs.stated, 0.0)),  # rounding
        )

    @property
    def error(self) -> float:
        """Mean gap between stated and observed certainty."""
        return float(np.abs(self.stated - self.right).sum() / self.people.sum())

    @property
    def error_by_chance(self) -> tuple[float, float]:
        """Mean and standard deviation of the error of a calibrated belief with these statements.

        The gap of a bin is then approximately normal around zero, and its absolute value
        half-normal.
        """
        n = self.people.sum()
        mean = np.sqrt(2 / np.pi) * np.sqrt(self.variance).sum() / n
        return float(mean), float(np.sqrt((1 - 2 / np.pi) * self.variance.sum()) / n)


def _place(pairs: PairThreats) -> Ints:
    """Bin of each pair; a belief of exactly 0.6 is in the bin that begins there, if it rounds."""
    # A batch of draws that knows nobody like a person has no belief (NaN), and no error then.
    stated = np.nan_to_num(pairs.stated)
    return np.minimum(np.floor(N_BINS * stated + 1e-9), N_BINS - 1).astype(np.int64)


def calibration_error(pairs: PairThreats, people: Ints) -> float:
    """Mean gap between the belief in the best guess and how often it is right (ECE)."""
    return _Bins.of(pairs, people).error


def mean_scores(pairs: PairThreats, people: Ints) -> Floats:
    """Mean of every score of `SCORES` over people."""
    n = people.sum()
    means = [float(v @ people) / n for v in (pairs.right, log_loss(pairs.truth), pairs.brier)]
    return np.array([*means, calibration_error(pairs, people)])


class ScoreSums(NamedTuple):
    """Sums over people that scores need, so that those of parts of a table add up.

    Beliefs are in the order of `BELIEFS`. A person's contribution to the calibration error has the
    sign of the whole bin's gap, so it is summed bin by bin.
    """

    terms: Floats  # right, log loss and Brier score, (beliefs, 3)
    products: Floats  # of the same of two beliefs, (beliefs, beliefs, 3)
    bins: Floats  # as in `_Bins`, (beliefs, 4, N_BINS)
    gaps: Floats  # products of stated less right, (beliefs, N_BINS, beliefs, N_BINS)

    @classmethod
    def of(cls, threats: Threats, people: Ints) -> ScoreSums:
        """Sum over pairs, each weighted by its number of people."""
        pairs = [threats[letter] for letter in BELIEFS]
        terms = [[p.right, log_loss(p.truth), p.brier] for p in pairs]
        place, gap = [_place(p) for p in pairs], [p.stated - p.right for p in pairs]
        gaps = np.empty((len(pairs), N_BINS, len(pairs), N_BINS))
        for i in range(len(pairs)):
            for j in range(len(pairs)):
                both = np.bincount(
                    place[i] * N_BINS + place[j], gap[i] * gap[j] * people, N_BINS**2
                )
                gaps[i, :, j] = both.reshape(N_BINS, N_BINS)
        bins = [_Bins.of(p, people) for p in pairs]
        return cls(
            np.array([[one @ people for one in own] for own in terms]),
            np.array(
                [
                    [[(a * b) @ people for a, b in zip(one, two, strict=True)] for two in terms]
                    for one in terms
                ]
            ),
            np.array([[b.people, b.stated, b.right, b.variance] for b in bins]),
            gaps,
        )

    @property
    def n(self) -> float:
        """Number of people."""
        return float(self.bins[0, 0].sum())

    def of_bins(self, i: int) -> _Bins:
        """Bins of one belief."""
        return _Bins(*self.bins[i])

    def means(self, i: int) -> Floats:
        """Mean of every score of `SCORES` of one belief over people."""
        return np.array([*self.terms[i] / self.n, self.of_bins(i).error])

    def error(self, contrast: Floats) -> Floats:
        """Standard error of a contrast of the beliefs' scores.

        Scores are averages over people, who are taken as a sample of people like them.
        """
        n = self.n
        if n < 2:
            return np.full(len(SCORES), np.nan)
        gap = self.bins[:, 1] - self.bins[:, 2]
        signed = contrast[:, None] * np.sign(gap)
        mean = np.append(contrast @ self.terms, (signed * gap).sum()) / n
        square = np.append(
            np.einsum("i,j,ijk->k", contrast, contrast, self.products),
            np.einsum("ib,ibjc,jc->", signed, self.gaps, signed),
        )
        spread = square - n * mean**2
        spread[spread < ROUNDING * square] = 0.0  # all alike
        return np.asarray(np.sqrt(spread / (n - 1) / n))


@dataclass(frozen=True)
class Caution:
    """How reliable the stated probabilities of one belief are."""

    belief: str
    excess: float
    text: str


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of all beliefs: `RiskAssessment.scores`, `score_differences` and `calibration`."""

    table: pd.DataFrame
    differences: pd.DataFrame
    calibration: pd.DataFrame

    @cached_property
    def cautions(self) -> Mapping[str, Caution]:
        """Beliefs whose stated probabilities cannot be taken at face value, by letter."""
        out = {}
        for letter in ("A", "L"):
            line = _numbers(self.table, BELIEFS[letter])
            by_chance = line["ece_chance"] + 2 * line["ece_chance_sd"]
            if line["ece"] <= max(TOLERANCE, by_chance):
                continue
            excess = line["stated"] - line["right"]
            how = "overconfident" if excess > 0 else "underconfident"
            if abs(excess) < line["ece"] / 2:
                how = "too sure about some people and not sure enough about others"
            out[letter] = Caution(
                letter,
                excess,
                f"The {BELIEFS[letter]} is {how}: the mean belief in the best guess is "
                f"{share(line['stated'])}, but the guess is right for {share(line['right'])} "
                "of the people "
                f"(calibration error {number(100 * line['ece'], 2)} points).",
            )
        return out

    @property
    def below_random_worlds(self) -> bool:
        """Whether the attacker's log loss exceeds that of random worlds by two standard errors."""
        line = _numbers(self.differences, "attacker - random_worlds")
        error = line["log_loss_se"]
        return bool(line["log_loss"] > (0.0 if np.isnan(error) else 2 * error) + 1e-12)

    @property
    def below_text(self) -> str:
        """Consequence of `below_random_worlds`, in words; empty if it does not hold."""
        if not self.below_random_worlds:
            return ""
        line = _numbers(self.differences, "attacker - random_worlds")
        return (
            "The attacker's beliefs score worse than those of somebody to whom all compatible "
            f"tables are equally likely (log loss higher by {number(line['log_loss'], 2)} "
            f"± {number(line['log_loss_se'], 2)} nats): they are too sure of false values. "
            "Relative threats are ratios of such beliefs and therefore unreliable."
        )

    def worst_bin(self, letter: str) -> str:
        """Sentence about the bin where stated and observed certainty differ for most people."""
        worst = max(
            self.bins(BELIEFS[letter]), key=lambda b: b["people"] * abs(b["stated"] - b["observed"])
        )
        who = BELIEFS[letter].replace("_", " ")
        people = count(worst["people"], "person", "people")
        return (
            f"The largest difference: of {people} about whom the {who} was "
            f"{100 * worst['from']:.0f}–{100 * worst['to']:.0f}% sure (on average "
            f"{share(worst['stated'])}), the best guess was right for "
            f"{share(worst['observed'])} (95% interval {share(worst['low'])} to "
            f"{share(worst['high'])})."
        )

    def bins(self, belief: str) -> list[dict[str, float]]:
        """Rows of `calibration` for one belief as plain numbers, with the bin's ends."""
        lines = self.calibration.loc[belief]
        bins = pd.IntervalIndex(lines.index.tolist())
        ends = pd.DataFrame({"from": bins.left, "to": bins.right}, index=lines.index)
        return [
            {str(k): float(v) for k, v in line.items()}
            for line in ends.join(lines).to_dict("records")
        ]


def _numbers(frame: pd.DataFrame, label: str) -> dict[str, float]:
    """One row of a frame as plain numbers."""
    return dict(
        zip(map(str, frame.columns), frame.loc[label].to_numpy(float).tolist(), strict=True)
    )


def score(sums: ScoreSums, people: Ints | None = None, replicates: Replicates = EXACT) -> Scores:
    """Score all beliefs; replicates are of pairs that stand for numbers of `people`."""
    letters, one = list(BELIEFS), np.eye(len(BELIEFS))
    means = np.stack([sums.means(i) for i in range(len(letters))])
    again = means[None]
    if replicates.threats:
        assert people is not None
        again = np.stack(
            [
                np.stack([mean_scores(r[k], people) if k in r else m
                          for k, m in zip(letters, means, strict=True)])
                for r in replicates.threats
            ]
        )  # fmt: skip

    def simulation(values: Floats, drawn: bool) -> Floats:
        if replicates.threats:
            return replicates.error(values)
        return np.full(len(SCORES), replicates.otherwise if drawn else 0.0)

    lines, differences, tables = {}, {}, {}
    for i, letter in enumerate(letters):
        name, bins = BELIEFS[letter], sums.of_bins(i)
        error = np.hypot(sums.error(one[i]), simulation(again[:, i], letter in "AL"))
        mean, sd = bins.error_by_chance
        lines[name] = _line(means[i], error) | {
            "stated": float(bins.stated.sum()) / sums.n, "ece_chance": mean, "ece_chance_sd": sd,
        }  # fmt: skip
        tables[name] = _bin_table(bins)
    for first, second in DIFFERENCES:
        i, j = letters.index(first), letters.index(second)
        error = np.hypot(
            sums.error(one[i] - one[j]), simulation(again[:, i] - again[:, j], drawn=True)
        )
        differences[f"{BELIEFS[first]} - {BELIEFS[second]}"] = _line(means[i] - means[j], error)
    return Scores(
        pd.DataFrame.from_dict(lines, orient="index").rename_axis("belief"),
        pd.DataFrame.from_dict(differences, orient="index").rename_axis("difference"),
        pd.concat(tables, names=["belief"]),
    )


def _line(values: Floats, errors: Floats) -> dict[str, float]:
    named = dict(zip(SCORES, values.tolist(), strict=True))
    return named | {f"{k}_se": e for k, e in zip(SCORES, errors.tolist(), strict=True)}


def _bin_table(bins: _Bins) -> pd.DataFrame:
    shown = bins.people > 0
    n, stated, right = bins.people[shown], bins.stated[shown], bins.right[shown]
    observed = right / n
    middle = (observed + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z / (1 + Z**2 / n) * np.sqrt(observed * (1 - observed) / n + Z**2 / (4 * n**2))
    edges = np.linspace(0.0, 1.0, N_BINS + 1).round(12)
    return pd.DataFrame(
        {
            "stated": stated / n,
            "observed": observed,
            "people": n.astype(np.int64),
            "low": np.clip(middle - half, 0.0, 1.0),
            "high": np.clip(middle + half, 0.0, 1.0),
        },
        index=pd.IntervalIndex.from_breaks(edges, closed="left", name="bin")[shown],
    )
