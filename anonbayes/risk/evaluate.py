"""From a posterior and the cleartext to a `RiskAssessment`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.errors import AnonbayesError, TableError
from anonbayes.guarantees.nonstochastic import GroupLeakage, table_leakage
from anonbayes.inference.beliefs.attacker import (
    attacker_weights,
    candidate_rows,
    random_world_weights,
)
from anonbayes.inference.beliefs.batches import BATCHES
from anonbayes.inference.beliefs.belief import normalise
from anonbayes.inference.beliefs.learner import learner_weights
from anonbayes.risk.assessment import RiskAssessment
from anonbayes.risk.faithfulness import Faithfulness, faithfulness
from anonbayes.risk.gains import Gain, read_gain
from anonbayes.risk.ideal import ideal_of
from anonbayes.risk.measures import PairThreats, Threats, pair_threats, table_measures
from anonbayes.risk.replicates import matched, replicate_error, replicate_weights
from anonbayes.risk.truth import Truth, check_same_secrets, read_truth

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior
    from anonbayes.release.table import ReleasedTable

__all__ = ["assess"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
MOST_BYTES = 3e8
"""Largest array of beliefs by batches that is held at a time."""


def assess(
    post: Posterior,
    cleartext: pd.DataFrame,
    *,
    harm: Iterable[Any] | None = None,
    gain: pd.DataFrame | npt.ArrayLike | None = None,
    kind: str = "predictive",
    samples: int = 20_000,
    seed: int | np.random.Generator | None = 0,
) -> RiskAssessment:
    """See `Posterior.assess`."""
    if samples < 2:
        raise AnonbayesError(f"samples={samples!r} must be at least 2.")
    table = post.table
    problem = read_gain(table.secret.domain, harm=harm, gain=gain)
    truth = read_truth(table, cleartext)
    remark = check_same_secrets(table, truth)
    best = ideal_of(table, truth, prior=post.prior)
    threats, replicates = _threats(post, truth, problem, kind)
    found = normalise(best.weights(truth.victims))
    by_ideal = pair_threats(found, truth.pair_record, truth.pair_secret, problem)
    candidates = candidate_rows(table, truth.victims)
    measures = dict(table_measures(threats.threats, truth.pair_count))
    errors = _errors(measures, replicates, truth.pair_count)
    close = faithfulness(post, best, samples=samples, seed=seed)
    summary, se = _summary(
        truth, measures, errors, close, _reference(post, truth, problem, by_ideal)
    )
    return RiskAssessment(
        post=post,
        cleartext=cleartext,
        rows=_rows(truth, threats, replicates, by_ideal, candidates, problem, table),
        summary=summary,
        standard_errors=se,
        faithfulness=close,
        leakage=_leakage(table),
        gain=problem,
        settings={
            "kind": kind,
            "samples": samples,
            "seed": seed if isinstance(seed, int) else None,
        },
        remarks=() if remark is None else (remark,),
    )


@dataclass(frozen=True, eq=False)
class _Found:
    """Threats per pair, and the attacker's act per record."""

    threats: Threats
    act: Ints


@dataclass(frozen=True, eq=False)
class _Replicates:
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


def _threats(post: Posterior, truth: Truth, gain: Gain, kind: str) -> tuple[_Found, _Replicates]:
    """Threats of every pair, a block of records at a time so that batches fit into memory."""
    victims, size = truth.victims, len(post.table.secret.domain)
    block = len(victims)
    if post.method != "exact":
        block = max(1, int(MOST_BYTES / (8 * BATCHES * size)))
    parts: list[tuple[Ints, _Found, _Replicates]] = []
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
    whole = _Found(_joined([found.threats for _, found, _ in parts], order), act)
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
    post: Posterior, truth: Truth, victims: Any, pairs: Ints, start: int, gain: Gain, kind: str
) -> tuple[_Found, _Replicates]:
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
    found = _Found(
        Threats(pair_threats(belief, record, secret, gain), threats(learner), random_worlds),
        gain.expected(belief).argmax(axis=1),
    )
    if attacker_batches is None and learner_batches is None:
        return found, _Replicates((), 0, post.n_chains)
    one = attacker[None] if attacker_batches is None else attacker_batches
    two = learner[None] if learner_batches is None else learner_batches
    if len(one) > 1 and len(two) > 1:
        one, two = matched(one, two, post.n_chains)
    n = max(len(one), len(two))
    if n < 2:
        return found, _Replicates((), n, post.n_chains)
    one, two = (np.broadcast_to(x, (n, *x.shape[1:])) for x in (one, two))
    replicates = tuple(
        Threats(
            threats(np.tensordot(w, one, axes=1)),
            threats(np.tensordot(w, two, axes=1)),
            random_worlds,
        )
        for w in replicate_weights(n, post.n_chains)
    )
    return found, _Replicates(replicates, n, post.n_chains)


def _refuse(truth: Truth, lost: Ints, worlds: Floats) -> None:
    rows = int(truth.pair_count[lost].sum())
    what = "with its sensitive value" if worlds.sum() > 0 else "whatever its sensitive value"
    raise TableError(
        f"Row {truth.name_pair(int(lost[0]))} of the cleartext fits no row of the release ({what}; "
        f"{rows} rows like this). The release is not one of this cleartext: check that both have "
        "the same people and the same spelling of values."
    )


def _errors(
    measures: Mapping[str, float], replicates: _Replicates, count: Ints
) -> dict[str, float]:
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
    found: _Found,
    replicates: _Replicates,
    by_ideal: PairThreats,
    candidates: Ints,
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
    columns["candidates"] = candidates[record]
    columns |= {name: e[pair] for name, e in _row_errors(replicates, len(t.ratio)).items()}
    return pd.DataFrame(columns, index=truth.victims.index)


def _row_errors(replicates: _Replicates, n_pairs: int) -> dict[str, Floats]:
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
