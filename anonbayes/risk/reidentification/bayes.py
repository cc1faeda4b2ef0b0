"""The exact Bayes attack on bit reports, and the worst report of all.

A report ``y`` comes from user ``u`` with probability ``Q(y|x_u) / sum_x c(x) Q(y|x)``. For bits
``Q(y|x) = B(y) w_x`` if bit ``x`` is raised, else ``B(y) z_x``, with ``w = a/b >= 1 >= z =
(1-a)/(1-b)``; ``B`` cancels. So the likeliest senders hold a raised value, and the report that
betrays a holder of ``x`` most raises bit ``x`` alone: no list of ``2^K`` reports is needed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Floats
from anonbayes.channels.unary import BitChannel
from anonbayes.errors import AnonbayesError
from anonbayes.estimation.kernels import mixture
from anonbayes.guarantees.idldp import value_array
from anonbayes.risk.reidentification.kernels import best_pools
from anonbayes.risk.reidentification.population import Population
from anonbayes.risk.reidentification.result import Attack, check_senders

__all__ = ["WorstReport", "bayes_attack", "worst_report"]


# Likelihoods that differ by less are rounded values of the same number.
SAME = 1e-11


class WorstReport(NamedTuple):
    """The report that betrays its sender most.

    Attributes
    ----------
    accuracy : float
        Probability with which the Bayes attacker names its sender.
    value : object
        The value of the users who are then the likeliest senders.
    raised : bool
        Whether the report raises the bit of that value (and no other), or none at all.
    """

    accuracy: float
    value: Any
    raised: bool


def worst_report(channel: BitChannel, counts: Any) -> WorstReport:
    """Largest probability, over all reports, of naming the sender (OneID Theorem 1).

    Parameters
    ----------
    channel : BitChannel
        What the users' devices run.
    counts : mapping, pandas.Series or array-like
        How many users hold each value.

    Examples
    --------
    With budgets tuned to the counts the bound ``gamma/n`` is met exactly:

    >>> import anonbayes as ab
    >>> domain = ab.Domain("place", ["clinic", "park", "pier"])
    >>> tuned = ab.budgets.from_counts(domain, 4, [1, 19, 80])
    >>> channel = ab.InputDiscriminativeUE.optimal(domain, tuned)
    >>> worst = ab.reidentify.worst_report(channel, [1, 19, 80])
    >>> round(worst.accuracy, 9), tuned.bound
    (0.04, 0.04)
    """
    held = value_array("counts", counts, channel.domain, default=0.0)
    if not (held >= 0).all() or not 1 <= held.sum() < np.inf:
        raise AnonbayesError("counts must be numbers of users, at least one in total.")
    raised, lowered = _ratios(channel)
    silent = float(held @ lowered)
    with np.errstate(divide="ignore", invalid="ignore"):
        alone = 1.0 / (held + (silent - held * lowered) / raised)
        nothing = lowered / silent if silent > 0 else np.zeros(len(held))
    alone[(held == 0) | (channel.hit == 0)] = 0.0
    nothing[held == 0] = 0.0
    best = np.maximum(alone, nothing)
    x = int(np.argmax(best))
    return WorstReport(float(best[x]), channel.domain.values[x], bool(alone[x] >= nothing[x]))


def bayes_attack(
    channel: BitChannel,
    reports: Any,
    values: Iterable[object],
    *,
    senders: npt.ArrayLike | None = None,
    seed: int | np.random.Generator | None = None,
) -> Attack:
    """Name the likeliest sender of each bit report: no attack is right more often.

    Parameters
    ----------
    channel : BitChannel
        What the users' devices run.
    reports : BitReports or array-like
        The reports.
    values : iterable
        True value of each user, all known to the attacker.
    senders : array-like of int, optional
        The user who sent each report; by default user ``i`` sent report ``i``.
    seed : int, numpy.random.Generator or None
        Of the choice among equally likely users.

    Returns
    -------
    Attack
        ``confidence`` is the posterior probability of the named user.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("place", ["clinic", "park", "pier"])
    >>> channel = ab.InputDiscriminativeUE(domain, 0.5, [0.25, 0.25, 0.0])
    >>> reports = ab.BitReports.from_dense([[1, 0, 0], [0, 0, 1], [0, 0, 0]])
    >>> attack = ab.reidentify.bayes_attack(channel, reports, ["clinic", "pier", "pier"], seed=1)
    >>> attack.confidence.round(3), attack.success.tolist()
    (array([0.667, 0.5  , 0.4  ]), [1.0, 0.5, 0.0])
    """
    users = Population.of(channel.domain, values)
    bits = channel.read(reports)
    sent = check_senders(senders, len(bits), len(users))
    rng = np.random.default_rng(seed)
    own = users.codes[sent]
    raised, lowered = _ratios(channel)
    held = users.counts

    out = np.zeros((len(bits), 4), dtype=np.int64)
    uniform = rng.random(len(bits))
    best_pools(bits.indptr, bits.indices, _rounded(raised), held, own, uniform, out)
    size, inside, value, place = out.T

    # Reports that raise no held value: the holders whose silence is the least surprising.
    quiet = np.where(held > 0, lowered, -1.0)
    quiet_best = float(quiet.max())
    quiet_pool = quiet >= quiet_best * (1 - SAME)
    quiet_size = int(held[quiet_pool].sum())
    lost = size == 0
    order = np.flatnonzero(quiet_pool[users.codes])
    guess = order[(uniform * quiet_size).astype(np.int64)]
    guess[~lost] = users.holder(value[~lost], place[~lost])
    success = np.where(lost, quiet_pool[own] / quiet_size, inside / np.maximum(size, 1))

    proof = np.isposinf(raised)
    extra = held * (np.where(proof, 0.0, raised) - np.where(proof, 0.0, lowered))
    total = mixture(float(held @ lowered), extra, np.ones(len(bits)), bits.indptr, bits.indices)
    likelihood = np.where(lost, quiet_best, raised[value])
    with np.errstate(invalid="ignore", divide="ignore"):
        confidence = likelihood / total
    proven = ~lost & proof[value]
    confidence[proven] = 1.0 / held[value[proven]]
    return Attack("bayes", guess, sent, success, confidence)


def _ratios(channel: BitChannel) -> tuple[Floats, Floats]:
    """``a/b`` and ``(1-a)/(1-b)``; a bit that nobody raises tells nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        raised = np.where(channel.hit > 0, channel.hit / channel.miss, 1.0)
    return raised, (1.0 - channel.hit) / (1.0 - channel.miss)


def _rounded(ratio: Floats) -> Floats:
    """Equal numbers for ratios that differ by rounding only."""
    finite = np.isfinite(ratio)
    out = ratio.copy()
    logs = np.log(ratio[finite])
    order = np.argsort(logs, kind="stable")
    steps = np.concatenate([[0], np.cumsum(np.diff(logs[order]) > SAME)]) if len(logs) else logs
    ranks = np.empty(len(logs))
    ranks[order] = steps
    out[finite] = ranks
    return out
