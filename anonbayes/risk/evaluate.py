"""From a posterior and the cleartext to a `RiskAssessment`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.arrays import Floats, Ints
from anonbayes.cluster import check_client
from anonbayes.errors import AnonbayesError, TableError
from anonbayes.guarantees.nonstochastic import GroupLeakage, table_leakage
from anonbayes.inference.beliefs.belief import normalise
from anonbayes.release.engines import count_records
from anonbayes.risk.assessment import WEIGHT, RiskAssessment, weight_name
from anonbayes.risk.faithfulness import Faithfulness, faithfulness
from anonbayes.risk.gains import Gain, read_gain
from anonbayes.risk.ideal import ideal_of
from anonbayes.risk.measures import PairThreats, pair_threats, table_measures
from anonbayes.risk.threats import Found, Replicates, threats_of
from anonbayes.risk.truth import Truth, check_same_secrets, read_truth, truth_columns

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior
    from anonbayes.release.table import ReleasedTable

__all__ = ["assess"]


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
