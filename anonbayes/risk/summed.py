"""Threats to more people than one machine can hold: measures from sums (MODEL 1.6).

An attacker's belief about a person depends on all rows that show the same record, in any part. So
workers sum up what their part of the release says about each record, count the people in their
part, and send both to the *bucket* to which the record belongs. A bucket thus has everything about
its people and returns sums, which the client adds up. The number of buckets depends only on the
data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import sparse

from anonbayes.arrays import Floats, Ints, read_whole, starts_of
from anonbayes.beliefs.belief import normalise
from anonbayes.beliefs.register import RecordBelief, Register, different_margins
from anonbayes.beliefs.victims import Victims
from anonbayes.cluster import Tasks, check_client, reachable
from anonbayes.domains import Domain
from anonbayes.errors import ModelError, TableError
from anonbayes.inference.dirichlet import Prior
from anonbayes.inference.features import Features, cell_logs
from anonbayes.inference.weight_kernels import Sums, information, newton, weighted_joint
from anonbayes.io.text import pandas_frame
from anonbayes.risk.faithfulness import Faithfulness, Ideal, distance
from anonbayes.risk.measures import QUANTILES, Evaluation, evaluate
from anonbayes.risk.people import compare_secrets, read_truth, truth_columns
from anonbayes.risk.threats import (
    BELIEFS,
    EXACT,
    Gain,
    Scores,
    ScoreSums,
    Threats,
    pair_threats,
    read_gain,
    score,
    weighted_quantiles,
)
from anonbayes.tables.build import is_dask
from anonbayes.tables.counting import count_part, parts_of
from anonbayes.tables.evidence import Evidence
from anonbayes.tables.groups import distinct_rows
from anonbayes.tables.sources import Counted, count_frame, find_files, place_key
from anonbayes.tables.table import ReleasedTable, only_domains

if TYPE_CHECKING:
    from anonbayes.inference.vertical.parts import Items, PartsFit

BUCKET_BYTES = 2.5e8
"""Approximate size of the weights of the records in a bucket."""
WEIGHT = " people "
"""Name of the column with numbers of people, chosen to clash with no column of a table."""
KEY_BITS = 40
"""Trailing bits of a relative threat that are ignored at first; they make up 0.02 % of it."""


@dataclass(frozen=True, eq=False, repr=False)
class PartsAssessment:
    """Measures of threat and utility from sums over people; returned by `PartsFit.assess`.

    Attributes
    ----------
    summary, standard_errors : pandas.Series
        As in `RiskAssessment`.
    belief_scores : Scores
        Scores of the beliefs.
    faithfulness : Faithfulness
        Distance between the learner and the ideal learner.
    gain : Gain
        What counts as a threat.
    records : int
        Number of distinct records of people.
    buckets : int
        Number of buckets that held them.
    remarks : tuple of str
        What a reader should know before using the numbers.
    """

    summary: pd.Series
    standard_errors: pd.Series
    belief_scores: Scores
    faithfulness: Faithfulness
    gain: Gain
    records: int
    buckets: int
    remarks: tuple[str, ...] = ()

    @property
    def scores(self) -> pd.DataFrame:
        """Scores of each belief, as `RiskAssessment.scores`."""
        return self.belief_scores.table

    @property
    def score_differences(self) -> pd.DataFrame:
        """Differences of scores, as `RiskAssessment.score_differences`."""
        return self.belief_scores.differences

    @property
    def calibration(self) -> pd.DataFrame:
        """Stated against observed certainty, as `RiskAssessment.calibration`."""
        return self.belief_scores.calibration

    def __repr__(self) -> str:
        s = self.summary
        return (
            f"PartsAssessment({int(s['rows']):,} people, GT_A={s['GT_A']:.4f}, "
            f"GT_L={s['GT_L']:.4f}, RF={s['RF']:.4f}, max_Ti={s['max_Ti']:.4g})"
        )


# -------------------------------------------------------------------------------------------------
# Sums over people, and the measures computed from them.


class ThreatSums(NamedTuple):
    """Sums over people from which measures are computed; `joined` adds those of two buckets."""

    threatened: Floats  # people, by belief in the order of `BELIEFS`
    secret: Floats  # probabilities of their secrets, in the same order
    scores: ScoreSums
    powers: Floats  # sums of powers 0 to 3 of log2 Ti, over people threatened by the attacker
    doubled: Floats  # number of these with Ti of 2 or more
    largest: Floats  # largest Ti of these, and largest belief of the attacker in the truth

    @classmethod
    def of(cls, threats: Threats, people: Ints) -> ThreatSums:
        """Sum over pairs, each weighted by its number of people."""
        each = [threats[letter] for letter in BELIEFS]
        ratio, weight = _hit(threats, people)
        logs = np.log2(ratio)
        return cls(
            np.array([p.threatened @ people for p in each]),
            np.array([p.secret @ people for p in each]),
            ScoreSums.of(threats, people),
            np.array([weight @ logs**power for power in range(4)]),
            weight[ratio >= 2.0].sum(),
            np.array([ratio.max(initial=-np.inf), threats["A"].truth.max(initial=-np.inf)]),
        )

    def joined(self, other: ThreatSums) -> ThreatSums:
        """Add the sums over other people."""
        scores = ScoreSums(*(a + b for a, b in zip(self.scores, other.scores, strict=True)))
        return ThreatSums(
            self.threatened + other.threatened,
            self.secret + other.secret,
            scores,
            self.powers + other.powers,
            self.doubled + other.doubled,
            np.maximum(self.largest, other.largest),
        )


def _hit(threats: Threats, people: Ints) -> tuple[Floats, Floats]:
    """Ti of the pairs that the attacker threatens, and the number of people of each."""
    hit = threats["A"].threatened > 0
    weight = (threats["A"].threatened * people)[hit]
    return (threats["A"].level[hit] / threats["L"].level[hit]), weight


class _Summed(Evaluation):
    """`Evaluation` from sums instead of pairs."""

    def __init__(
        self, sums: ThreatSums, quantiles: list[float], found: Faithfulness, baseline: float
    ) -> None:
        super().__init__({}, np.zeros(0, dtype=np.int64), found, baseline)
        self.__dict__["sums"] = sums
        self.__dict__["n"] = round(sums.scores.n)
        self.__dict__["quantiles"] = dict(zip(QUANTILES, quantiles, strict=True))

    sums: ThreatSums

    def guessed(self, belief: str) -> float:
        return float(self.sums.threatened[_place(belief)]) / self.n

    def log_loss(self, belief: str) -> float:
        return float(self.sums.scores.terms[_place(belief), 1]) / self.n

    def absolute_error(self, belief: str) -> float:
        return 2.0 * (self.n - float(self.sums.secret[_place(belief)]))

    def calibration_error(self, belief: str) -> float:
        return self.sums.scores.of_bins(_place(belief)).error

    @property
    def threatened(self) -> float:
        return float(self.sums.powers[0])

    @property
    def largest_ratio(self) -> float:
        return float(self.sums.largest[0]) if self.threatened else np.nan

    @property
    def surest(self) -> float:
        return float(self.sums.largest[1])

    def at_least(self, factor: float) -> float:
        assert factor == 2.0, "the sum that was made"
        return float(self.sums.doubled) / self.n

    @property
    def skewness(self) -> float:
        if not self.threatened:
            return np.nan
        one, two, three = self.sums.powers[1:] / self.sums.powers[0]
        spread = two - one**2
        if spread <= 1e-12 * two:
            return np.nan
        return float((three - 3.0 * one * two + 2.0 * one**3) / spread**1.5)


def _place(belief: str) -> int:
    return [*BELIEFS].index(belief)


# -------------------------------------------------------------------------------------------------
# Tasks; all of them share a `_Question`.


class _Question(NamedTuple):
    fit: PartsFit
    skeleton: ReleasedTable  # the domains
    gain: Gain
    told: RecordBelief | None  # what a register adds


class _People(NamedTuple):
    """People of a part as distinct pairs of a record and a secret, with numbers of people."""

    codes: Ints
    secret: Ints
    people: Ints


class _Bucket(NamedTuple):
    """Records of people in a bucket, and what all rows of the release say about them."""

    codes: Ints
    owned: Floats
    worlds: Floats
    record: Ints  # of each pair
    secret: Ints
    people: Ints


def _items(question: _Question, number: int) -> Items:
    return question.fit.items_of_part(number, question.told)


def _people(question: _Question, counted: Counted, name: Callable[[int, int], str]) -> _People:
    frame = counted.labelled(name).assign(**{WEIGHT: counted.rows})
    if not len(frame):
        empty = np.zeros((0, len(question.skeleton.attributes)), dtype=np.int64)
        return _People(empty, empty[:, 0], empty[:, 0]) if empty.shape[1] else _People(*[empty] * 3)
    truth = read_truth(question.skeleton, frame, weights=WEIGHT)
    assert truth.weights is not None
    return _People(truth.codes, truth.secret, truth.weights)


def _people_of_file(question: _Question, part: Any) -> _People:
    return _people(question, count_part(part), part.files.place)


def _people_of_frame(question: _Question, frame: pd.DataFrame, number: int) -> _People:
    frame = frame[truth_columns(question.skeleton, frame.columns)].reset_index(drop=True)
    counted = count_frame(frame, place_key(number, 0, len(frame)))
    return _people(question, counted, lambda part, row: f"{row} of part {part}")


def _size(_: Any, held: Items | _People) -> int:
    return len(held.codes)


def _totals(question: _Question, people: _People) -> list[Ints]:
    """Count the people of a part by secret, and by value and secret of each attribute."""
    size = len(question.skeleton.secret.domain)
    out = [np.bincount(people.secret, people.people, size)]
    for name, codes in zip(question.skeleton.attributes, people.codes.T, strict=True):
        values = len(question.skeleton.domains[name])
        keys = codes * size + people.secret
        out.append(np.bincount(keys, people.people, values * size).reshape(values, size))
    return out


def _chosen(_: Any, held: Items | _People, bucket: int, buckets: int) -> Items | _People:
    """Select the records that belong to a bucket."""
    key = np.zeros(len(held.codes), dtype=np.uint64)
    for column in held.codes.T:
        key = (key + column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        key ^= key >> np.uint64(29)
    inside = key % np.uint64(buckets) == bucket
    return type(held)(*(part[inside] for part in held))


def _bucket(_: Any, items: list[Items], people: list[_People]) -> _Bucket:
    codes, secret, count = (np.concatenate(part) for part in zip(*people, strict=True))
    shown = np.concatenate([part.codes for part in items])
    inverse, first, _ = distinct_rows([*np.concatenate([codes, shown]).T])
    record, size = inverse[: len(codes)], int(inverse[: len(codes)].max(initial=-1)) + 1
    place = inverse[len(codes) :]
    of_people = np.flatnonzero(place < size)  # records of people come first
    each = csr_of(place[of_people], of_people, (size, len(shown)))
    pair, first_pair, _ = distinct_rows([record, secret])
    return _Bucket(
        np.concatenate([codes, shown])[first[:size]],
        each @ np.concatenate([part.owned for part in items]),
        each @ np.concatenate([part.worlds for part in items]),
        record[first_pair],
        secret[first_pair],
        np.bincount(pair, count, len(first_pair)).astype(np.int64),
    )


def csr_of(rows: Ints, columns: Ints, shape: tuple[int, int]) -> sparse.csr_array:
    """Matrix of ones that adds up rows of another matrix."""
    return sparse.csr_array((np.ones(len(rows)), (rows, columns)), shape=shape)


def _lost(_: Any, bucket: _Bucket) -> tuple[int, int]:
    """Number of records, and number of people who match no row of the release."""
    lost = bucket.worlds[bucket.record, bucket.secret] <= 0
    return len(bucket.codes), int(bucket.people[lost].sum())


def _counted(register: Register) -> _People:
    counts = register.records.secrets
    record, secret = np.nonzero(counts)
    return _People(register.codes[record], secret, counts[record, secret].astype(np.int64))


def _registered(_: Any, bucket: _Bucket, register: _People) -> int:
    """People of a bucket who are also in the register, with the same values and secret."""
    codes = np.concatenate([register.codes, bucket.codes[bucket.record]])
    pair, _, _ = distinct_rows([*codes.T, np.concatenate([register.secret, bucket.secret])])
    known = len(register.codes)
    return int(bucket.people @ np.isin(pair[known:], pair[:known]))


def _same_people(_: Any, people: _People) -> _People:
    return people


def _information(_: Any, bucket: _Bucket, features: Features, eta: Floats) -> Sums:
    """Derivatives of the log scores of the people in a bucket; `features` has the counts."""
    start = features.codes[0]
    codes = np.ascontiguousarray(bucket.codes[bucket.record] + start)
    rows = bucket.people.astype(np.float64)
    return information(eta, features._replace(codes=codes, rows=rows, secret=bucket.secret))


def _threats(question: _Question, bucket: _Bucket, best: Ideal) -> Threats:
    fit, attributes = question.fit, question.skeleton.attributes
    sizes = [len(question.skeleton.domains[name]) for name in attributes]
    victims, told = Victims.of_records(bucket.codes, sizes), question.told
    learner = _learned(fit, victims).relative()[0] if told is None else told.belief(bucket.codes)
    beliefs = {
        "A": bucket.owned,
        "L": learner,
        "RW": bucket.worlds,
        "I": best.weights(victims),
    }
    return {
        letter: pair_threats(normalise(weights), bucket.record, bucket.secret, question.gain)
        for letter, weights in beliefs.items()
    }


def _learned(fit: PartsFit, victims: Victims) -> Any:
    """``p_L(s, r)`` from the population and the weights learned from the release."""
    means = [frame.to_numpy() for frame in fit.population.values()]
    weights = fit.weights["exponent"].to_numpy()
    return weighted_joint(fit.secret_shares.to_numpy(), victims.shares(means), weights)


class _Measured(NamedTuple):
    sums: ThreatSums
    ratio: Floats  # Ti of the pairs that the attacker threatens
    weight: Floats


def _measured(question: _Question, bucket: _Bucket, best: Ideal) -> _Measured:
    threats = _threats(question, bucket, best)
    return _Measured(ThreatSums.of(threats, bucket.people), *_hit(threats, bucket.people))


def _sums(_: Any, measured: _Measured) -> ThreatSums:
    return measured.sums


def _keys(_: Any, measured: _Measured) -> tuple[Ints, Floats]:
    """Sorted leading bits of the relative threats, and the number of people with each."""
    return _added(measured.ratio.view(np.int64) >> KEY_BITS, measured.weight)


def _within(_: Any, measured: _Measured, keys: Ints) -> tuple[Floats, Floats]:
    """Relative threats with these leading bits, and the number of people with each."""
    inside = np.isin(measured.ratio.view(np.int64) >> KEY_BITS, keys)
    return _added(measured.ratio[inside], measured.weight[inside])


def _added(values: Any, weight: Floats) -> tuple[Any, Floats]:
    distinct, place = np.unique(values, return_inverse=True)
    return distinct, np.bincount(place.ravel(), weight, len(distinct)).astype(np.float64)


# -------------------------------------------------------------------------------------------------
# The client.


def assess_parts(
    fit: PartsFit,
    people: Any,
    *,
    client: Any,
    harm: Iterable[object] | None = None,
    gain: Any = None,
    samples: int = 20_000,
    seed: int | np.random.Generator | None = 0,
    sep: str = ";",
) -> PartsAssessment:
    """See `PartsFit.assess`."""
    check_client(client)
    if fit.parts is None:
        raise ModelError("This fit does not know where its parts are; make it with fit_parts.")
    samples = read_whole("samples", samples, least=2)
    *attributes, secret = (Domain(name, values) for name, values in fit.parts.plan.domains.items())
    problem = read_gain(secret, harm=harm, gain=gain)
    skeleton = only_domains(attributes, secret)
    register, counts = fit.register, fit.parts.counts
    told = register.told if register is not None and register.corrects else None
    question = _Question(replace(fit, register=None), skeleton, problem, told)
    with Tasks(client, question, label="assess") as tasks:
        rows = [tasks.hold(f"part {i}", _items, i) for i in range(len(fit.parts.paths))]
        everybody = _read_people(tasks, client, skeleton, people, sep)
        totals: list[Ints] = [
            np.sum(part, axis=0)
            for part in zip(*tasks.ask("totals", _totals, [(p,) for p in everybody]), strict=True)
        ]
        shown = totals[0].astype(np.int64)
        if not shown.sum():
            raise TableError("There are no people to assess.")
        released = np.rint(fit.secret_shares * (fit.n_rows + len(secret)) - 1.0)
        released = released.to_numpy().astype(np.int64)
        remarks = [compare_secrets(secret, shown, fit.n_rows, released)]
        held = _share_out(tasks, rows, everybody, len(secret))
        known = tasks.ask("records", _lost, [(bucket,) for bucket in held])
        if lost := sum(people for _, people in known):
            raise TableError(
                f"{lost} rows of the cleartext match no row of the release with their sensitive "
                "value. This is not a release of this cleartext: check that both contain the same "
                "people and spell values alike."
            )
        if register is not None:
            inside = _all_registered(tasks, held, _counted(register))
            remarks += [register.words, register.linkage(float(shown.sum()), float(inside))]
            remarks += different_margins(skeleton, register.people, counts)
        best = _ideal(tasks, skeleton, totals, held)
        measured = [
            tasks.hold(f"measures {i}", _measured, bucket, best) for i, bucket in enumerate(held)
        ]
        each = tasks.ask("sums", _sums, [(one,) for one in measured])
        sums: ThreatSums = reduce(ThreatSums.joined, each)
        quantiles = _quantiles(tasks, measured)
    found = distance(best, lambda victims: (_learned(fit, victims), []), samples=samples, seed=seed)
    blind = np.tile(released / fit.n_rows, (1, 1))
    same = np.zeros(len(secret), dtype=np.int64)
    guess = pair_threats(blind, same, np.arange(len(secret)), problem).threatened
    baseline = float(guess @ shown) / int(shown.sum())
    summary, errors = evaluate(_Summed(sums, quantiles, found, baseline), EXACT)
    return PartsAssessment(
        summary=summary,
        standard_errors=errors,
        belief_scores=score(sums.scores),
        faithfulness=found,
        gain=problem,
        records=sum(records for records, _ in known),
        buckets=len(held),
        remarks=tuple(remark for remark in remarks if remark is not None),
    )


def _read_people(
    tasks: Tasks, client: Any, skeleton: ReleasedTable, people: Any, sep: str
) -> list[Any]:
    """Count the people of every part on the workers that read them."""
    people = pandas_frame(people) if hasattr(people, "columns") else people
    if isinstance(people, pd.DataFrame):
        return [tasks.hold("people 0", _people_of_frame, people, 0)]
    if is_dask(people):
        names = truth_columns(skeleton, people.columns)
        with reachable("assess"):
            frames = client.compute(list(people[names].to_delayed()))
        return [
            tasks.hold(f"people {i}", _people_of_frame, part, i) for i, part in enumerate(frames)
        ]
    files = find_files(people, sep=sep)
    chosen = replace(files, names=tuple(truth_columns(skeleton, files.names)))
    parts = parts_of(chosen)
    return [tasks.hold(f"people {i}", _people_of_file, part) for i, part in enumerate(parts)]


def _all_registered(tasks: Tasks, held: Sequence[Any], people: _People) -> int:
    """People in the cleartext who are also in the register, each bucket with its own."""
    register, n = tasks.hold("register", _same_people, people), len(held)
    own = [
        register if n == 1 else tasks.hold(f"register for bucket {b}", _chosen, register, b, n)
        for b in range(n)
    ]
    return sum(tasks.ask("registered", _registered, [*zip(held, own, strict=True)]))


def _share_out(tasks: Tasks, rows: Sequence[Any], people: Sequence[Any], secrets: int) -> list[Any]:
    """Make buckets on the workers, each with its records from every part."""
    records = sum(tasks.ask("sizes", _size, [(part,) for part in (*rows, *people)]))
    buckets = max(1, round(records * secrets * 16 / BUCKET_BYTES))

    def pieces(kind: str, parts: Sequence[Any], bucket: int) -> list[Any]:
        if buckets == 1:
            return list(parts)
        return [
            tasks.hold(f"{kind} {i} for bucket {bucket}", _chosen, part, bucket, buckets)
            for i, part in enumerate(parts)
        ]

    return [
        tasks.hold(f"bucket {b}", _bucket, pieces("rows", rows, b), pieces("people", people, b))
        for b in range(buckets)
    ]


def _ideal(tasks: Tasks, skeleton: ReleasedTable, totals: list[Ints], held: Sequence[Any]) -> Ideal:
    """Compute `ideal_of` the people: counts in closed form, weights from rounds of sums."""
    shown, *counts = totals
    size, step = len(shown), np.zeros(len(shown))
    prior = Prior(
        np.ones(size), {n: np.ones((size, len(skeleton.domains[n]))) for n in skeleton.attributes}
    )
    logs = [
        cell_logs(Evidence.exact(skeleton.domains[name]), count.astype(float), prior.beta[name])
        for name, count in zip(skeleton.attributes, counts, strict=True)
    ]
    seen = shown > 0
    step[seen] = np.log1p(-1.0 / (1.0 + shown[seen]))
    features = Features(
        np.log(1.0 + shown),
        step,
        np.concatenate([one.cell for one in logs]),
        np.concatenate([one.step for one in logs]),
        starts_of([len(one.cell) for one in logs])[None, :-1],  # added to the codes of records
        np.zeros(0),
        np.zeros(0, dtype=np.int64),
        np.empty((0, size)),
    )

    def sums(eta: Floats) -> Sums:
        found: list[Sums] = tasks.ask(
            f"weights {next(number)}", _information, [(one, features, eta) for one in held]
        )
        return tuple(sum(part) for part in zip(*found, strict=True))  # type: ignore[return-value]

    number = iter(range(10**6))
    eta = newton(len(counts), sums)[0]
    means = tuple(
        (own := prior.beta[name] + count.T) / own.sum(axis=1, keepdims=True)
        for name, count in zip(skeleton.attributes, counts, strict=True)
    )
    share = prior.alpha + shown
    return Ideal(skeleton, prior, share / share.sum(), means, eta)


def _quantiles(tasks: Tasks, measured: Sequence[Any]) -> list[float]:
    """Quantiles of Ti among threatened people: first located by interval, then computed."""
    keys, weight = _of_all(tasks.ask("where", _keys, [(one,) for one in measured]))
    if not len(keys):
        return [np.nan] * len(QUANTILES)
    # Floating-point numbers of the same sign are ordered like their bits.
    place = weighted_quantiles(np.arange(len(keys), dtype=float), weight, QUANTILES)
    near = np.unique(np.array(place, dtype=np.int64))
    asked = [(one, keys[near]) for one in measured]
    values, inside = _of_all(tasks.ask("there", _within, asked))
    # Intervals without a quantile are represented by a single value each.
    apart = ~np.isin(np.arange(len(keys)), near)
    rough = (keys[apart] << KEY_BITS).view(np.float64)
    values, inside = np.append(values, rough), np.append(inside, weight[apart])
    return weighted_quantiles(values, inside, QUANTILES)


def _of_all(found: Sequence[tuple[Any, Floats]]) -> tuple[Any, Floats]:
    return _added(*(np.concatenate(part) for part in zip(*found, strict=True)))
