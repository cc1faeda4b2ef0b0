"""Threats to the people of a table, from beliefs about each record."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.arrays import Floats, Ints
from anonbayes.beliefs.attacker import attacker_weights, candidate_rows, random_world_weights
from anonbayes.beliefs.belief import normalise
from anonbayes.beliefs.learner import learner_weights
from anonbayes.beliefs.victims import BATCHES, Victims
from anonbayes.cluster import check_client, run_tasks, slots
from anonbayes.errors import AnonbayesError, TableError
from anonbayes.nonstochastic import GroupLeakage, table_leakage
from anonbayes.risk.assessment import WEIGHT, RiskAssessment, weight_name
from anonbayes.risk.faithfulness import Faithfulness, faithfulness, ideal_of
from anonbayes.risk.measures import (
    Gain,
    PairThreats,
    Threats,
    matched,
    pair_threats,
    read_gain,
    replicate_error,
    replicate_weights,
    table_measures,
    weighted_sum,
)
from anonbayes.risk.people import Truth, check_same_secrets, read_truth, truth_columns
from anonbayes.tables.sources import count_records

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior
    from anonbayes.tables.table import ReleasedTable

__all__ = ["Found", "Replicates", "assess", "threats_of"]


# -------------------------------------------------------------------------------------------------
# Threats of every row of the cleartext, and the same under other weights of the draws.

MOST_BYTES = 3e8
"""Largest array of beliefs by batches that is held at a time."""

BLOCKS_PER_SLOT = 2
"""Blocks per task that a cluster runs at a time: some take longer than others."""


@dataclass(frozen=True, eq=False)
class Found:
    """Threats per pair; per record the attacker's act and the released rows it could own."""

    threats: Threats
    act: Ints
    candidates: Ints


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


def threats_of(
    post: Posterior, truth: Truth, gain: Gain, kind: str, client: Any = None
) -> tuple[Found, Replicates]:
    """Threats of every pair, a block of records at a time so that batches fit into memory.

    With a client the blocks are tasks of a Dask cluster. What is found of a record does not depend
    on the others in its block, to the last bit.
    """
    shared = _Question(post, truth.victims, gain, kind)
    blocks = _blocks(shared, truth, 1 if client is None else BLOCKS_PER_SLOT * slots(client))
    if client is None:
        answers = [_answer(shared, block) for block in blocks]
    else:
        named = {f"records {b.first} to {b.first + len(b.codes) - 1}": b for b in blocks}
        answers = list(run_tasks(client, shared, _answer, named, label="assess").values())
    lost = [(b, a) for b, a in zip(blocks, answers, strict=True) if isinstance(a, _Lost)]
    if lost:
        _refuse(truth, lost)
    parts: list[tuple[Found, Replicates]] = answers  # type: ignore[assignment]
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate([block.pairs for block in blocks]))
    whole = Found(
        _joined([found.threats for found, _ in parts], order),
        np.concatenate([found.act for found, _ in parts]),
        np.concatenate([found.candidates for found, _ in parts]),
    )
    first = parts[0][1]
    joined = tuple(
        _joined([r.threats[i] for _, r in parts], order) for i in range(len(first.threats))
    )
    return whole, replace(first, threats=joined)


@dataclass(frozen=True, eq=False)
class _Question:
    """What is the same for all blocks; of the victims only the kinds of knowledge are used."""

    post: Posterior
    victims: Victims
    gain: Gain
    kind: str


@dataclass(frozen=True, eq=False)
class _Block:
    """Successive records, and the pairs that belong to them."""

    first: int
    codes: Ints
    pairs: Ints
    record: Ints
    secret: Ints


@dataclass(frozen=True, eq=False)
class _Lost:
    """Pairs of a block that fit no row of the release; whether the first does with any secret."""

    pairs: Ints
    otherwise: bool


def _blocks(question: _Question, truth: Truth, least: int) -> list[_Block]:
    """Cut the records into `least` blocks or more, so that the beliefs of each fit into memory."""
    post, codes = question.post, truth.victims.codes
    size = max(1, -(-len(codes) // least))
    if post.method != "exact":
        size = min(size, max(1, int(MOST_BYTES / (8 * BATCHES * len(post.table.secret.domain)))))
    blocks = []
    for first in range(0, len(codes), size):
        inside = codes[first : first + size]
        of_block = (truth.pair_record >= first) & (truth.pair_record < first + len(inside))
        pairs = np.flatnonzero(of_block)
        record = truth.pair_record[pairs] - first
        blocks.append(_Block(first, inside, pairs, record, truth.pair_secret[pairs]))
    return blocks


def _joined(parts: list[Threats], order: Ints) -> Threats:
    def join(kind: str) -> PairThreats:
        return PairThreats(
            *(
                np.concatenate([getattr(getattr(p, kind), field) for p in parts])[order]
                for field in ("level", "threatened", "error")
            )
        )

    return Threats(join("attacker"), join("learner"), join("random_worlds"))


def _answer(question: _Question, block: _Block) -> tuple[Found, Replicates] | _Lost:
    """Threats of the pairs of a block."""
    post, gain = question.post, question.gain
    victims = replace(question.victims, codes=block.codes)
    record, secret = block.record, block.secret
    worlds, _ = random_world_weights(post.table, victims)
    lost = np.flatnonzero(worlds[record, secret] <= 0)
    if len(lost):
        return _Lost(lost, bool(worlds[record[lost[0]]].sum() > 0))
    attacker, attacker_batches, _ = attacker_weights(post, victims)
    learner, learner_batches = learner_weights(post, victims, question.kind)

    def threats(weights: Floats) -> PairThreats:
        return pair_threats(normalise(weights), record, secret, gain)

    random_worlds = threats(worlds)
    belief = normalise(attacker)
    found = Found(
        Threats(pair_threats(belief, record, secret, gain), threats(learner), random_worlds),
        gain.expected(belief).argmax(axis=1),
        candidate_rows(post.table, victims),
    )
    if attacker_batches is None and learner_batches is None:
        return found, Replicates((), 0, post.n_chains)
    # Where one of the two is exact, its batches are all the same.
    if attacker_batches is None:
        attacker_batches = np.broadcast_to(attacker, learner_batches.shape)  # type: ignore[union-attr]
    if learner_batches is None:
        learner_batches = np.broadcast_to(learner, attacker_batches.shape)
    one, two = matched(attacker_batches, learner_batches, post.n_chains)
    n = len(one)
    if n < 2:
        return found, Replicates((), n, post.n_chains)
    replicates = tuple(
        Threats(
            threats(weighted_sum(w, one)),
            threats(weighted_sum(w, two)),
            random_worlds,
        )
        for w in replicate_weights(n, post.n_chains)
    )
    return found, Replicates(replicates, n, post.n_chains)


def _refuse(truth: Truth, lost: list[tuple[_Block, _Lost]]) -> None:
    pairs = np.concatenate([block.pairs[how.pairs] for block, how in lost])
    block, how = min(lost, key=lambda part: int(part[0].pairs[part[1].pairs[0]]))
    row = truth.name_pair(int(block.pairs[how.pairs[0]]))
    rows = int(truth.pair_count[pairs].sum())
    what = "with its sensitive value" if how.otherwise else "whatever its sensitive value"
    raise TableError(
        f"Row {row} of the cleartext fits no row of the release ({what}; {rows} rows like this). "
        "The release is not one of this cleartext: check that both have the same people and the "
        "same spelling of values."
    )


# -------------------------------------------------------------------------------------------------
# From a posterior and the cleartext to a `RiskAssessment`.


def assess(
    post: Posterior,
    cleartext: pd.DataFrame,
    *,
    harm: Iterable[Any] | None = None,
    gain: pd.DataFrame | npt.ArrayLike | None = None,
    kind: str = "predictive",
    samples: int = 20_000,
    seed: int | np.random.Generator | None = 0,
    weights: str | None = None,
    client: Any = None,
) -> RiskAssessment:
    """See `Posterior.assess`."""
    if client is not None:
        check_client(client)
    if not isinstance(samples, int | np.integer) or samples < 2:
        raise AnonbayesError(f"samples={samples!r} must be a whole number of at least 2.")
    table = post.table
    problem = read_gain(table.secret.domain, harm=harm, gain=gain)
    if hasattr(cleartext, "to_delayed"):  # a Dask dataframe
        cleartext, weights = _counted(table, cleartext, weights, client)
    truth = read_truth(table, cleartext, weights=weights)
    remark = check_same_secrets(table, truth)
    best = ideal_of(table, truth, prior=post.prior)
    threats, replicates = threats_of(post, truth, problem, kind, client)
    found = normalise(best.weights(truth.victims))
    by_ideal = pair_threats(found, truth.pair_record, truth.pair_secret, problem)
    measures = dict(table_measures(threats.threats, truth.pair_count))
    errors = _errors(measures, replicates, truth.pair_count)
    close = faithfulness(post, best, samples=samples, seed=seed)
    summary, se = _summary(
        truth, measures, errors, close, _reference(post, truth, problem, by_ideal)
    )
    return RiskAssessment(
        post=post,
        cleartext=cleartext,
        rows=_rows(truth, threats, replicates, by_ideal, problem, table),
        summary=summary,
        standard_errors=se,
        faithfulness=close,
        leakage=_leakage(table),
        gain=problem,
        settings={
            "kind": kind,
            "samples": samples,
            "seed": int(seed) if isinstance(seed, int | np.integer) else None,
        },
        remarks=() if remark is None else (remark,),
    )


def _counted(
    table: ReleasedTable, people: Any, weights: str | None, client: Any
) -> tuple[pd.DataFrame, str]:
    """Distinct people of a Dask dataframe in order of appearance, counted where they are stored."""
    if weights is not None:
        raise TableError(
            "The rows of a Dask dataframe are counted by themselves; give weights= with a pandas "
            "DataFrame of counted records."
        )
    columns = truth_columns(table, people.columns)
    name = weight_name(columns)
    found = count_records(people, columns, weights=name, client=client, progressbar=False)
    return found, name


def _errors(measures: Mapping[str, float], replicates: Replicates, count: Ints) -> dict[str, float]:
    if not replicates.threats:
        return dict.fromkeys(measures, replicates.otherwise)
    again = [table_measures(t, count) for t in replicates.threats]
    values = np.array([[found[name] for name in measures] for found in again])
    return dict(zip(measures, replicates.error(values).tolist(), strict=True))


def _reference(
    post: Posterior, truth: Truth, gain: Gain, by_ideal: PairThreats
) -> dict[str, float]:
    """Baseline: the frequencies of the secrets alone; ideal: the cleartext's own lesson."""
    table, count = post.table, truth.pair_count
    if table.secrets_known:
        share = table.secret_counts / table.n_rows
    else:
        share = post.secret_mean
    same = np.zeros(len(count), dtype=np.int64)
    blind = pair_threats(share[None, :], same, truth.pair_secret, gain)
    n = count.sum()
    return {
        "baseline": float(blind.threatened @ count) / n,
        "ideal": float(by_ideal.threatened @ count) / n,
    }


def _summary(
    truth: Truth,
    measures: Mapping[str, float],
    errors: Mapping[str, float],
    close: Faithfulness,
    reference: Mapping[str, float],
) -> tuple[pd.Series, pd.Series]:
    value = {**measures, "RF": close.rf, "ETV": close.etv, **reference, "rows": truth.n_rows}
    error = {**errors, "RF": close.tv_error, "ETV": close.etv_error}
    names = list(ORDER)
    return (
        pd.Series([float(value[k]) for k in names], index=names, name="measure"),
        pd.Series([float(error.get(k, 0.0)) for k in names], index=names, name="standard error"),
    )


ORDER = (
    "GT_A", "GT_L", "GT_RW", "RGT_A", "RF", "ETV", "ABS_A", "ABS_L", "ABS_RW", "baseline", "ideal",
    "max_Ti", "Ti_q50", "Ti_q75", "Ti_q90", "Ti_q95", "Ti_q99", "doubled", "skewness", "threatened",
    "rows",
)  # fmt: skip


def _rows(
    truth: Truth,
    found: Found,
    replicates: Replicates,
    by_ideal: PairThreats,
    gain: Gain,
    table: ReleasedTable,
) -> pd.DataFrame:
    """One line per cleartext row, under the labels of the cleartext."""
    t, pair, record = found.threats, truth.pair, truth.victims.inverse
    acts = pd.Categorical.from_codes(found.act, pd.Index([str(a) for a in gain.acts]))
    columns: dict[str, Any] = {
        "secret": table.secret.domain.decode(truth.secret),
        "guess": acts[record],
        "Ti": t.ratio[pair],
    }
    kinds = {"A": t.attacker, "L": t.learner, "RW": t.random_worlds, "I": by_ideal}
    columns |= {f"p_{name}": kind.level[pair] for name, kind in kinds.items()}
    columns |= {f"threatened_{name}": kind.threatened[pair] for name, kind in kinds.items()}
    columns["candidates"] = found.candidates[record]
    if truth.weights is not None:
        columns[WEIGHT] = truth.weights
    columns |= {name: e[pair] for name, e in _row_errors(replicates, len(t.ratio)).items()}
    return pd.DataFrame(columns, index=truth.victims.index, copy=False)


def _row_errors(replicates: Replicates, n_pairs: int) -> dict[str, Floats]:
    if not replicates.threats:
        same = np.full(n_pairs, replicates.otherwise)
        return dict.fromkeys(("se_Ti", "se_p_A", "se_p_L"), same)
    return {
        "se_Ti": replicates.error(np.stack([r.ratio for r in replicates.threats])),
        "se_p_A": replicates.error(np.stack([r.attacker.level for r in replicates.threats])),
        "se_p_L": replicates.error(np.stack([r.learner.level for r in replicates.threats])),
    }


def _leakage(table: ReleasedTable) -> GroupLeakage | None:
    """What group membership alone reveals; None without groups or with hidden secrets."""
    if not table.secrets_known or table.n_groups == 0:
        return None
    return table_leakage(table)
