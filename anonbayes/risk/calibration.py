"""How good beliefs are: scores against the truth, and whether stated certainty can be believed.

Whoever holds the cleartext can score a belief (MODEL 1.9). `right` is the share of people whose
most likely answer is true, ties broken at random. The log loss is the mean of
``-log max(p(truth), 1e-4)``, the Brier score the mean of ``sum_c (p(c) - 1[c is true])^2``. The
calibration error is the gap between the belief in the best guess and how often it is right, in
bins of a tenth, averaged over people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from anonbayes.arrays import Floats, Ints
from anonbayes.formats import count, number, share
from anonbayes.risk.threats import BELIEFS, PairThreats, Replicates, Threats

__all__ = ["Caution", "Scores", "calibration_error", "log_loss", "mean_scores", "score"]
FLOOR = 1e-4
"""Smallest probability that the log loss sees: to be sure of something false costs 9.2 nats."""
N_BINS = 10
TOLERANCE = 0.03
"""Up to this calibration error a belief is not doubted, however many people there are."""
SCORES = ("right", "log_loss", "brier", "ece")
DIFFERENCES = (("A", "RW"), ("A", "L"), ("L", "RW"), ("A", "I"), ("L", "I"))
Z = 1.959963984540054


def log_loss(truth: Floats) -> Floats:
    """Log loss of each person, from the probability of the truth.

    Examples
    --------
    >>> log_loss(np.array([1.0, 0.5, 0.0])).round(3).tolist()
    [-0.0, 0.693, 9.21]
    """
    return np.asarray(-np.log(np.maximum(truth, FLOOR)))


@dataclass(frozen=True, eq=False)
class _Bins:
    """Pairs of one belief by how sure it is of its best guess."""

    bin: Ints
    people: Floats
    stated: Floats
    right: Floats
    chance: Floats

    @classmethod
    def of(cls, pairs: PairThreats, people: Ints) -> _Bins:
        # A belief of exactly 0.6 belongs to the bin that begins there, whatever its last digit.
        # A batch of draws that knows nobody like a person has no belief (NaN), and no error then.
        stated = np.nan_to_num(pairs.stated)
        place = np.minimum(np.floor(N_BINS * stated + 1e-9), N_BINS - 1).astype(np.int64)

        def total(values: Floats) -> Floats:
            return np.bincount(place, values * people, N_BINS).astype(np.float64)

        return cls(
            place,
            total(np.ones(len(place))),
            total(pairs.stated),
            total(pairs.right),
            np.sqrt(total(pairs.stated * np.maximum(1.0 - pairs.stated, 0.0))),  # beliefs round
        )

    @property
    def error(self) -> float:
        """Mean gap between stated and observed."""
        return float(np.abs(self.stated - self.right).sum() / self.people.sum())

    @property
    def error_by_chance(self) -> tuple[float, float]:
        """Mean and standard deviation of the error of a calibrated belief with these statements.

        The gap of a bin is then about normal around zero, and its size half-normal.
        """
        n = self.people.sum()
        mean = np.sqrt(2 / np.pi) * self.chance.sum() / n
        return float(mean), float(np.sqrt((1 - 2 / np.pi) * (self.chance**2).sum()) / n)


def calibration_error(pairs: PairThreats, people: Ints) -> float:
    """Mean gap between the belief in the best guess and how often it is right (ECE)."""
    return _Bins.of(pairs, people).error


def mean_scores(pairs: PairThreats, people: Ints) -> Floats:
    """Mean of every score of `SCORES` over people."""
    n = people.sum()
    means = [float(v @ people) / n for v in (pairs.right, log_loss(pairs.truth), pairs.brier)]
    return np.array([*means, calibration_error(pairs, people)])


def _terms(pairs: PairThreats, people: Ints) -> Floats:
    """What each pair contributes to every score, shape ``(scores, pairs)``.

    The gap of a bin keeps its sign when a few people more or less are looked at, so the error is
    an average of signed gaps.
    """
    bins = _Bins.of(pairs, people)
    sign = np.sign(bins.stated - bins.right)[bins.bin]
    gaps = sign * (pairs.stated - pairs.right)
    return np.stack([pairs.right, log_loss(pairs.truth), pairs.brier, gaps])


def _sampling_error(terms: Floats, people: Ints) -> Floats:
    """Standard error of averages over people, who are taken as a sample of people like them."""
    n = float(people.sum())
    if n < 2:
        return np.full(len(terms), np.nan)
    mean = terms @ people / n
    return np.asarray(np.sqrt(((terms - mean[:, None]) ** 2) @ people / (n - 1) / n))


@dataclass(frozen=True)
class Caution:
    """What stated probabilities of one belief are worth.

    Attributes
    ----------
    belief : str
        Letter of the belief.
    excess : float
        Mean stated belief in the best guess less the share of best guesses that are right.
    text : str
        The same in words.
    """

    belief: str
    excess: float
    text: str


@dataclass(frozen=True, eq=False)
class Scores:
    """Scores of all beliefs of an assessment.

    Attributes
    ----------
    table : pandas.DataFrame
        Lines ``learner, attacker, random_worlds, ideal``; columns ``right, log_loss, brier, ece``,
        their standard errors ``*_se`` (over people, and of simulation where draws were averaged),
        ``stated`` (mean belief in the best guess) and ``ece_chance, ece_chance_sd``: mean and
        standard deviation of the calibration error that a calibrated belief would show by chance.
    differences : pandas.DataFrame
        Lines such as ``attacker - random_worlds``; scores and standard errors of the differences,
        person by person. A negative difference of log loss, Brier score or calibration error means
        that the first belief is the better one.
    calibration : pandas.DataFrame
        One line per belief and bin of certainty: ``stated`` and ``observed``, the mean belief in
        the best guess and the share that is right; ``people``; the 95 % interval ``low, high`` of
        the share (Wilson).
    """

    table: pd.DataFrame
    differences: pd.DataFrame
    calibration: pd.DataFrame

    @cached_property
    def cautions(self) -> Mapping[str, Caution]:
        """Beliefs whose stated probabilities are not to be taken at their word, by letter."""
        out = {}
        for letter in ("A", "L"):
            line = _numbers(self.table, BELIEFS[letter])
            by_chance = line["ece_chance"] + 2 * line["ece_chance_sd"]
            if line["ece"] <= max(TOLERANCE, by_chance):
                continue
            excess = line["stated"] - line["right"]
            how = "surer than right" if excess > 0 else "less sure than right"
            if abs(excess) < line["ece"] / 2:
                how = "too sure about some people and not sure enough about others"
            out[letter] = Caution(
                letter,
                excess,
                f"The {BELIEFS[letter]} is {how}: on average {share(line['stated'])} sure of the "
                f"best guess, which is true for {share(line['right'])} of the people "
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
        """What follows from `below_random_worlds`, in words; empty where it is not so."""
        if not self.below_random_worlds:
            return ""
        line = _numbers(self.differences, "attacker - random_worlds")
        return (
            "The attacker's beliefs score below those of somebody to whom all compatible tables "
            f"are equally likely (log loss worse by {number(line['log_loss'], 2)} "
            f"± {number(line['log_loss_se'], 2)} nats): they are too sure of false values. "
            "Relative threats are ratios of such beliefs and cannot be relied on."
        )

    def worst_bin(self, letter: str) -> str:
        """The bin in which stated and observed certainty differ for most people, as a sentence."""
        worst = max(
            self.bins(BELIEFS[letter]), key=lambda b: b["people"] * abs(b["stated"] - b["observed"])
        )
        who = BELIEFS[letter].replace("_", " ")
        people = count(worst["people"], "person", "people")
        return (
            f"Of {people} about whom the {who} was {100 * worst['from']:.0f}–"
            f"{100 * worst['to']:.0f}% sure, the best guess was right for "
            f"{share(worst['observed'])}."
        )

    def bins(self, belief: str) -> list[dict[str, float]]:
        """Lines of `calibration` of one belief as plain numbers, with the bin's ends."""
        lines = self.calibration.loc[belief]
        bins = pd.IntervalIndex(lines.index.tolist())
        ends = pd.DataFrame({"from": bins.left, "to": bins.right}, index=lines.index)
        return [
            {str(k): float(v) for k, v in line.items()}
            for line in ends.join(lines).to_dict("records")
        ]


def _numbers(frame: pd.DataFrame, label: str) -> dict[str, float]:
    """One line of a frame as plain numbers."""
    return dict(
        zip(map(str, frame.columns), frame.loc[label].to_numpy(float).tolist(), strict=True)
    )


def score(threats: Threats, people: Ints, replicates: Replicates) -> Scores:
    """Score all beliefs.

    Parameters
    ----------
    threats : mapping of str to PairThreats
        Per belief, pair by pair; all letters of `BELIEFS`.
    people : numpy.ndarray
        Number of people of each pair.
    replicates : Replicates
        The same under other weights of the draws, for the part that simulation adds to the errors.

    Examples
    --------
    >>> import anonbayes as ab
    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> post.assess(ab.datasets.load("table1")).scores["log_loss"].round(3).to_dict()
    {'learner': 1.161, 'attacker': 0.643, 'random_worlds': 0.693, 'ideal': 0.76}
    """
    letters = list(BELIEFS)
    terms = {letter: _terms(threats[letter], people) for letter in letters}
    means = np.stack([mean_scores(threats[letter], people) for letter in letters])
    again = np.stack(
        [
            np.stack([mean_scores(r.get(k, threats[k]), people) for k in letters])
            for r in replicates.threats
        ]
        or [means]
    )

    def simulation(values: Floats, drawn: bool) -> Floats:
        if replicates.threats:
            return replicates.error(values)
        return np.full(len(SCORES), replicates.otherwise if drawn else 0.0)

    lines, differences = {}, {}
    for i, letter in enumerate(letters):
        error = np.hypot(
            _sampling_error(terms[letter], people), simulation(again[:, i], letter in "AL")
        )
        lines[BELIEFS[letter]] = _line(means[i], error) | _certainty(threats[letter], people)
    for one, two in DIFFERENCES:
        i, j = letters.index(one), letters.index(two)
        error = np.hypot(
            _sampling_error(terms[one] - terms[two], people),
            simulation(again[:, i] - again[:, j], drawn=True),
        )
        differences[f"{BELIEFS[one]} - {BELIEFS[two]}"] = _line(means[i] - means[j], error)
    return Scores(
        pd.DataFrame.from_dict(lines, orient="index").rename_axis("belief"),
        pd.DataFrame.from_dict(differences, orient="index").rename_axis("difference"),
        pd.concat({BELIEFS[k]: _bin_table(threats[k], people) for k in letters}, names=["belief"]),
    )


def _line(values: Floats, errors: Floats) -> dict[str, float]:
    named = dict(zip(SCORES, values.tolist(), strict=True))
    return named | {f"{k}_se": e for k, e in zip(SCORES, errors.tolist(), strict=True)}


def _certainty(pairs: PairThreats, people: Ints) -> dict[str, float]:
    mean, sd = _Bins.of(pairs, people).error_by_chance
    stated = float(pairs.stated @ people) / float(people.sum())
    return {"stated": stated, "ece_chance": mean, "ece_chance_sd": sd}


def _bin_table(pairs: PairThreats, people: Ints) -> pd.DataFrame:
    bins = _Bins.of(pairs, people)
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
