"""Threats of every row of the cleartext, and the same under other weights of the draws."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from anonbayes.errors import TableError
from anonbayes.inference.beliefs.attacker import attacker_weights, random_world_weights
from anonbayes.inference.beliefs.batches import BATCHES
from anonbayes.inference.beliefs.belief import normalise
from anonbayes.inference.beliefs.learner import learner_weights
from anonbayes.inference.beliefs.victims import Victims
from anonbayes.risk.gains import Gain
from anonbayes.risk.measures import PairThreats, Threats, pair_threats
from anonbayes.risk.replicates import matched, replicate_error, replicate_weights
from anonbayes.risk.truth import Truth

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior

__all__ = ["Found", "Replicates", "threats_of"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
MOST_BYTES = 3e8
"""Largest array of beliefs by batches that is held at a time."""


@dataclass(frozen=True, eq=False)
class Found:
    """Threats per pair, and the attacker's act per record."""

    threats: Threats
    act: Ints


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


def threats_of(post: Posterior, truth: Truth, gain: Gain, kind: str) -> tuple[Found, Replicates]:
    """Threats of every pair, a block of records at a time so that batches fit into memory."""
    victims, size = truth.victims, len(post.table.secret.domain)
    block = len(victims)
    if post.method != "exact":
        block = max(1, int(MOST_BYTES / (8 * BATCHES * size)))
    parts: list[tuple[Ints, Found, Replicates]] = []
    for start in range(0, len(victims), block):
        inside = slice(start, min(start + block, len(victims)))
        pairs = np.flatnonzero(
            (truth.pair_record >= inside.start) & (truth.pair_record < inside.stop)
        )
        part = replace(victims, codes=victims.codes[inside])
        parts.append((pairs, *_block(post, truth, part, pairs, inside.start, gain, kind)))
    if len(parts) == 1:
        return parts[0][1], parts[0][2]
    order = np.argsort(np.concatenate([p for p, _, _ in parts]))
    act = np.concatenate([found.act for _, found, _ in parts])
    whole = Found(_joined([found.threats for _, found, _ in parts], order), act)
    first = parts[0][2]
    joined = tuple(
        _joined([r.threats[i] for _, _, r in parts], order) for i in range(len(first.threats))
    )
    return whole, replace(first, threats=joined)


def _joined(parts: list[Threats], order: Ints) -> Threats:
    def join(kind: str) -> PairThreats:
        return PairThreats(
            *(
                np.concatenate([getattr(getattr(p, kind), field) for p in parts])[order]
                for field in ("level", "threatened", "error")
            )
        )

    return Threats(join("attacker"), join("learner"), join("random_worlds"))


def _block(
    post: Posterior, truth: Truth, victims: Victims, pairs: Ints, start: int, gain: Gain, kind: str
) -> tuple[Found, Replicates]:
    record, secret = truth.pair_record[pairs] - start, truth.pair_secret[pairs]
    worlds, _ = random_world_weights(post.table, victims)
    lost = np.flatnonzero(worlds[record, secret] <= 0)
    if len(lost):
        _refuse(truth, pairs[lost], worlds[record[lost[0]]])
    attacker, attacker_batches, _ = attacker_weights(post, victims)
    learner, learner_batches = learner_weights(post, victims, kind)

    def threats(weights: Floats) -> PairThreats:
        return pair_threats(normalise(weights), record, secret, gain)

    random_worlds = threats(worlds)
    belief = normalise(attacker)
    found = Found(
        Threats(pair_threats(belief, record, secret, gain), threats(learner), random_worlds),
        gain.expected(belief).argmax(axis=1),
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
            threats(np.tensordot(w, one, axes=1)),
            threats(np.tensordot(w, two, axes=1)),
            random_worlds,
        )
        for w in replicate_weights(n, post.n_chains)
    )
    return found, Replicates(replicates, n, post.n_chains)


def _refuse(truth: Truth, lost: Ints, worlds: Floats) -> None:
    rows = int(truth.pair_count[lost].sum())
    what = "with its sensitive value" if worlds.sum() > 0 else "whatever its sensitive value"
    raise TableError(
        f"Row {truth.name_pair(int(lost[0]))} of the cleartext fits no row of the release ({what}; "
        f"{rows} rows like this). The release is not one of this cleartext: check that both have "
        "the same people and the same spelling of values."
    )
