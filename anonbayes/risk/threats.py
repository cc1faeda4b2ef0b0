"""Threats of every row of the cleartext, and the same under other weights of the draws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anonbayes.arrays import Floats, Ints
from anonbayes.cluster import run_tasks, slots
from anonbayes.errors import TableError
from anonbayes.inference.beliefs.attacker import (
    attacker_weights,
    candidate_rows,
    random_world_weights,
)
from anonbayes.inference.beliefs.batches import BATCHES
from anonbayes.inference.beliefs.belief import normalise
from anonbayes.inference.beliefs.learner import learner_weights
from anonbayes.inference.beliefs.victims import Victims
from anonbayes.risk.gains import Gain
from anonbayes.risk.measures import PairThreats, Threats, pair_threats
from anonbayes.risk.replicates import (
    matched,
    replicate_error,
    replicate_weights,
    weighted_sum,
)
from anonbayes.risk.truth import Truth

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior

__all__ = ["Found", "Replicates", "threats_of"]

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
