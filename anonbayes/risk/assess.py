"""Compute the threats to the people of a table from the beliefs about each record."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.arrays import Floats, Ints, one_thread, read_whole
from anonbayes.beliefs.attacker import attacker_weights, candidate_rows, worlds_apart
from anonbayes.beliefs.belief import normalise
from anonbayes.beliefs.learner import learner_weights
from anonbayes.beliefs.register import different_margins
from anonbayes.beliefs.victims import BATCHES, Victims
from anonbayes.cluster import check_client, run_tasks, slots
from anonbayes.errors import AnonbayesError, TableError
from anonbayes.formats import count
from anonbayes.io.text import pandas_frame
from anonbayes.nonstochastic.relations import GroupLeakage, table_leakage
from anonbayes.risk.assessment import WEIGHT, RiskAssessment, weight_name
from anonbayes.risk.faithfulness import faithfulness, ideal_of
from anonbayes.risk.measures import Evaluation, evaluate
from anonbayes.risk.people import Knowledge, Truth, check_same_secrets, read_truth, truth_columns
from anonbayes.risk.threats import (
    Gain,
    PairThreats,
    Replicates,
    ScoreSums,
    Threats,
    joined,
    matched,
    pair_threats,
    read_gain,
    replicate_weights,
    score,
    weighted_sum,
)
from anonbayes.tables.build import count_records

if TYPE_CHECKING:
    from distributed import Client

    from anonbayes.inference.posterior import Posterior
    from anonbayes.tables.table import ReleasedTable


# -------------------------------------------------------------------------------------------------
# Threats to every row of the cleartext, and the same under reweighted batches of the draws.

MOST_BYTES = 3e8
"""Largest array of beliefs by batch held in memory at a time."""

BLOCKS_PER_SLOT = 2
"""Blocks per task slot of a cluster, to balance blocks that take longer."""


@dataclass(frozen=True, eq=False)
class RecordThreats:
    """Threats by pair; the attacker's action and the number of matching rows by record."""

    threats: Threats
    act: Ints
    candidates: Ints


def threats_of(
    post: Posterior, truth: Truth, gain: Gain, kind: str, client: Client | None = None
) -> tuple[RecordThreats, Replicates]:
    """Threats of every pair, computed in blocks of records so that batches fit into memory.

    With a client, blocks are tasks on a Dask cluster. Records do not depend on their block.
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
    parts: list[tuple[RecordThreats, Replicates]] = answers  # type: ignore[assignment]
    if len(parts) == 1:
        return parts[0]
    order = np.argsort(np.concatenate([block.pairs for block in blocks]))
    whole = RecordThreats(
        joined([part.threats for part, _ in parts], order),
        np.concatenate([part.act for part, _ in parts]),
        np.concatenate([part.candidates for part, _ in parts]),
    )
    first = parts[0][1]
    again = tuple(
        joined([r.threats[i] for _, r in parts], order) for i in range(len(first.threats))
    )
    return whole, replace(first, threats=again)


@dataclass(frozen=True, eq=False)
class _Question:
    """Inputs shared by all blocks; of the victims, only the kinds of knowledge are used."""

    post: Posterior
    victims: Victims
    gain: Gain
    kind: str


@dataclass(frozen=True, eq=False)
class _Block:
    """Consecutive records, and the pairs that belong to them."""

    first: int
    codes: Ints
    group: Ints | None
    pairs: Ints
    record: Ints
    secret: Ints


@dataclass(frozen=True, eq=False)
class _Lost:
    """Pairs of a block that match no row; whether the first would match with another secret."""

    pairs: Ints
    otherwise: bool


def _blocks(question: _Question, truth: Truth, least: int) -> list[_Block]:
    """Divide the records into at least `least` blocks whose beliefs fit into memory."""
    post, codes = question.post, truth.victims.codes
    size = max(1, -(-len(codes) // least))
    if post.simulated:
        size = min(size, max(1, int(MOST_BYTES / (8 * BATCHES * len(post.table.secret.domain)))))
    blocks = []
    for first in range(0, len(codes), size):
        inside = codes[first : first + size]
        of_block = (truth.pair_record >= first) & (truth.pair_record < first + len(inside))
        pairs = np.flatnonzero(of_block)
        record = truth.pair_record[pairs] - first
        group = truth.victims.group
        known = None if group is None else group[first : first + size]
        blocks.append(_Block(first, inside, known, pairs, record, truth.pair_secret[pairs]))
    return blocks


def _answer(question: _Question, block: _Block) -> tuple[RecordThreats, Replicates] | _Lost:
    """Compute the threats of the pairs of a block."""
    post, gain = question.post, question.gain
    victims = replace(question.victims, codes=block.codes, group=block.group)
    record, secret = block.record, block.secret
    worlds, _ = worlds_apart(post, victims)
    lost = np.flatnonzero(worlds[record, secret] <= 0)
    if len(lost):
        return _Lost(lost, bool(worlds[record[lost[0]]].sum() > 0))
    attacker, attacker_batches, _ = attacker_weights(post, victims)
    learner, learner_batches = learner_weights(post, victims, question.kind)
    if not (learner.sum(axis=1) > 0).all():
        raise AnonbayesError(
            "The prior weights are so small that in no draw of the population anybody resembles "
            "some of the people in the table; use larger weights (alpha=, beta=) or more draws."
        )

    def threats(weights: Floats) -> PairThreats:
        return pair_threats(normalise(weights), record, secret, gain)

    whole = RecordThreats(
        {"A": threats(attacker), "L": threats(learner), "RW": threats(worlds)},
        gain.expected(normalise(attacker)).argmax(axis=1),
        candidate_rows(post.table, victims),
    )
    if attacker_batches is None and learner_batches is None:
        return whole, Replicates((), 0, post.n_chains)
    # If one of the two is exact, all its batches are equal.
    if attacker_batches is None:
        attacker_batches = np.broadcast_to(attacker, learner_batches.shape)  # type: ignore[union-attr]
    if learner_batches is None:
        learner_batches = np.broadcast_to(learner, attacker_batches.shape)
    one, two = matched(attacker_batches, learner_batches, post.n_chains)
    n = len(one)
    if n < 2:
        return whole, Replicates((), n, post.n_chains)
    replicates: tuple[Threats, ...] = tuple(
        {"A": threats(weighted_sum(w, one)), "L": threats(weighted_sum(w, two))}
        for w in replicate_weights(n, post.n_chains)
    )
    return whole, Replicates(replicates, n, post.n_chains)


def _refuse(truth: Truth, lost: list[tuple[_Block, _Lost]]) -> None:
    pairs = np.concatenate([block.pairs[how.pairs] for block, how in lost])
    block, how = min(lost, key=lambda part: int(part[0].pairs[part[1].pairs[0]]))
    row = truth.name_pair(int(block.pairs[how.pairs[0]]))
    rows = int(truth.pair_count[pairs].sum())
    what = "with its sensitive value" if how.otherwise else "whatever its sensitive value"
    raise TableError(
        f"Row {row} of the cleartext matches no row of the release ({what}; "
        f"{count(rows, 'such row')}). This is not a release of this cleartext: check that both "
        "contain the same people and spell values alike."
    )


# -------------------------------------------------------------------------------------------------
# From a posterior and the cleartext to a `RiskAssessment`.


@one_thread
def assess(
    post: Posterior,
    cleartext: pd.DataFrame,
    *,
    harm: Iterable[object] | None = None,
    gain: pd.DataFrame | npt.ArrayLike | None = None,
    kind: str = "predictive",
    samples: int = 20_000,
    seed: int | np.random.Generator | None = 0,
    weights: str | None = None,
    group: str | None = None,
    client: Client | None = None,
    truth: Truth | None = None,
    knowledge: Knowledge | None = None,
) -> RiskAssessment:
    """Implement `Posterior.assess`; `truth` can pass on a cleartext that is already encoded.

    `knowledge` defines what is known about people instead of their values; see `Actor`.
    """
    if client is not None:
        check_client(client)
    samples = read_whole("samples", samples, least=2)
    table = post.table
    problem = read_gain(table.secret.domain, harm=harm, gain=gain)
    cleartext = pandas_frame(cleartext)
    if hasattr(cleartext, "to_delayed"):  # a Dask dataframe
        if group is not None:
            raise AnonbayesError("group= needs a pandas DataFrame, not a Dask dataframe.")
        cleartext, weights = _counted(table, cleartext, weights, client)
    if truth is None:
        truth = read_truth(table, cleartext, weights=weights, group=group, knowledge=knowledge)
    remarks = [check_same_secrets(table, truth)]
    if post.register is not None:
        pairs = truth.pair_record, truth.pair_secret, truth.pair_count
        remarks += [post.register.words, post.register.remark(truth.victims, *pairs)]
        remarks += different_margins(table, post.register.people)
    if post.editions is not None:
        remarks.append(post.editions.words)
    best = ideal_of(post, truth)
    records, replicates = threats_of(post, truth, problem, kind, client)
    by_ideal = pair_threats(
        normalise(best.weights(truth.victims)), truth.pair_record, truth.pair_secret, problem
    )
    evaluation = Evaluation(
        records.threats | {"I": by_ideal},
        truth.pair_count,
        faithfulness(post, best, samples=samples, seed=seed),
        _baseline(post, truth, problem),
    )
    summary, standard_errors = evaluate(evaluation, replicates)
    return RiskAssessment(
        post=post,
        cleartext=cleartext,
        truth=truth,
        rows=_rows(truth, records, evaluation, replicates, problem, table),
        summary=summary,
        standard_errors=standard_errors,
        belief_scores=score(
            ScoreSums.of(evaluation.threats, truth.pair_count), truth.pair_count, replicates
        ),
        faithfulness=evaluation.faithfulness,
        leakage=_leakage(table),
        gain=problem,
        settings={
            "kind": kind,
            **({} if group is None else {"group": group}),
            "samples": samples,
            "seed": int(seed) if isinstance(seed, int | np.integer) else None,
        },
        remarks=tuple(remark for remark in remarks if remark is not None),
    )


def _counted(
    table: ReleasedTable, people: Any, weights: str | None, client: Client | None
) -> tuple[pd.DataFrame, str]:
    """Count the distinct people of a Dask dataframe where they are stored, by first appearance."""
    if weights is not None:
        raise TableError(
            "weights= cannot be combined with a Dask dataframe, whose rows are counted; give a "
            "pandas DataFrame of counted records instead."
        )
    columns = truth_columns(table, people.columns)
    name = weight_name(columns)
    counted = count_records(people, columns, weights=name, client=client, progressbar=False)
    return counted, name


def _baseline(post: Posterior, truth: Truth, gain: Gain) -> float:
    """Share of people guessed right from the frequencies of the secrets alone."""
    table, count = post.table, truth.pair_count
    known = table.secrets_known
    share = table.secret_counts / table.n_rows if known else post.secret_mean
    same = np.zeros(len(count), dtype=np.int64)
    blind = pair_threats(share[None, :], same, truth.pair_secret, gain)
    return float(blind.threatened @ count) / int(count.sum())


def _rows(
    truth: Truth,
    records: RecordThreats,
    evaluation: Evaluation,
    replicates: Replicates,
    gain: Gain,
    table: ReleasedTable,
) -> pd.DataFrame:
    """Build a table with one line per cleartext row, labelled like the cleartext."""
    pair, record = truth.pair, truth.victims.inverse
    acts = pd.Categorical.from_codes(records.act, pd.Index([str(a) for a in gain.acts]))
    columns: dict[str, object] = {
        "secret": table.secret.domain.decode(truth.secret),
        "guess": acts[record],
        "Ti": evaluation.ratio[pair],
    }
    beliefs = {k: evaluation.threats[k] for k in ("A", "L", "RW", "I")}
    columns |= {f"p_{k}": belief.level[pair] for k, belief in beliefs.items()}
    columns |= {f"threatened_{k}": belief.threatened[pair] for k, belief in beliefs.items()}
    columns["candidates"] = records.candidates[record]
    if truth.weights is not None:
        columns[WEIGHT] = truth.weights
    errors = _row_errors(evaluation, replicates)
    columns |= {name: error[pair] for name, error in errors.items()}
    return pd.DataFrame(columns, index=truth.victims.index, copy=False)


def _row_errors(evaluation: Evaluation, replicates: Replicates) -> dict[str, Floats]:
    if not replicates.threats:
        same = np.full(len(evaluation.people), replicates.otherwise)
        return dict.fromkeys(("se_Ti", "se_p_A", "se_p_L"), same)
    attacker, learner = (np.stack([r[k].level for r in replicates.threats]) for k in "AL")
    return {
        "se_Ti": replicates.error(attacker / learner),
        "se_p_A": replicates.error(attacker),
        "se_p_L": replicates.error(learner),
    }


def _leakage(table: ReleasedTable) -> GroupLeakage | None:
    """What group membership alone reveals; None without groups or with hidden secrets."""
    if not table.secrets_known or table.n_groups == 0:
        return None
    return table_leakage(table)
