"""The best guess of a user's name, and how often it is right."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from anonbayes.arrays import Floats
from anonbayes.channels.unary import BitChannel
from anonbayes.domains import Domain
from anonbayes.errors import AnonbayesError
from anonbayes.estimation.likelihood import mixture
from anonbayes.notions.idldp import budget_array, chosen_mask, value_array
from anonbayes.reidentify.result import Attack, Population, check_senders

__all__ = [
    "ExpectedAttack",
    "WorstReport",
    "bayes_attack",
    "best_pools",
    "expected_budget_attack",
    "worst_report",
]


# -------------------------------------------------------------------------------------------------
# Loops over sparse bit reports: which users an attacker would name.


@njit(cache=True)
def best_pools(
    indptr: Any, indices: Any, key: Any, counts: Any, own: Any, uniform: Any, out: Any
) -> None:
    """For each report the users who hold a raised value with the largest `key`.

    Parameters
    ----------
    indptr, indices
        Raised bits of each report.
    key, counts
        Key and number of holders of each value; values without holders are passed over.
    own : array of int
        Value of each report's sender.
    uniform : array of float
        One number in [0, 1) per report, which picks a user from the pool.
    out : int array of shape (n, 4)
        Filled with the size of the pool (0 if no raised value has holders), whether the sender
        is in it, the picked value, and the picked user's place among its holders.
    """
    for i in range(len(indptr) - 1):
        best, size, inside = -1.0, 0, 0
        for j in range(indptr[i], indptr[i + 1]):
            k = indices[j]
            if counts[k] == 0 or key[k] < best:
                continue
            if key[k] > best:
                best, size, inside = key[k], 0, 0
            size += counts[k]
            if k == own[i]:
                inside = 1
        out[i, 0], out[i, 1] = size, inside
        left = int(uniform[i] * size)
        for j in range(indptr[i], indptr[i + 1]):
            k = indices[j]
            if size == 0 or counts[k] == 0 or key[k] < best:
                continue
            if left < counts[k]:
                out[i, 2], out[i, 3] = k, left
                break
            left -= counts[k]


# -------------------------------------------------------------------------------------------------
# The budget attack's success, computed instead of drawn.
#
# The attacker names a random holder of the raised values with the largest budget. For the sender's
# own value ``x`` that needs: no raised bit of a held value with a larger budget, bit ``x`` raised,
# and a guess among ``c(x) + S`` users, where ``S`` sums the counts of raised values with the same
# budget. Bits are independent, so
#
#     E[1/(c(x) + S)] = int_0^inf exp(-c(x) z) prod_i (1 - b_i + b_i exp(-c_i z)) dz
#
# is one integral for all values of a budget class, whatever their number.

# Gauss-Legendre nodes on panels that grow geometrically: integrands decay anywhere between
# exp(-z) and exp(-n z). Distinct (count, bit) pairs that are held at a time.
PANELS, NODES = 48, 16
CHUNK = 2000


@dataclass(frozen=True, eq=False)
class ExpectedAttack:
    """Expected success of the budget attack, value by value.

    Attributes
    ----------
    domain : Domain
        The values.
    counts : ndarray, shape (K,)
        Users who hold each value.
    success : ndarray, shape (K,)
        Probability that the report of a holder is traced to her.
    opened : ndarray, shape (K,)
        Probability that her report raises a non-sensitive bit.
    opened_success : ndarray, shape (K,)
        Probability of both.
    """

    domain: Domain
    counts: Floats = field(repr=False)
    success: Floats = field(repr=False)
    opened: Floats = field(repr=False)
    opened_success: Floats = field(repr=False)

    @property
    def rate(self) -> float:
        """Expected share of all users' reports whose sender is named (OneID Fig. 5)."""
        return float(self.counts @ self.success / self.counts.sum())

    @property
    def outlier_rate(self) -> float:
        """Expected share among senders with a unique value and an open bit (OneID Fig. 6).

        NaN where no value is held by one user only.
        """
        alone = self.counts == 1
        opened = float(self.opened[alone].sum())
        return float(self.opened_success[alone].sum()) / opened if opened > 0 else float("nan")


def expected_budget_attack(
    channel: BitChannel, counts: Any, budgets: Any, *, sensitive: Any = ()
) -> ExpectedAttack:
    """Success of `budget_attack` in expectation over reports and guesses, without drawing any.

    Parameters
    ----------
    channel : BitChannel
        What the users' devices run.
    counts : mapping, pandas.Series or array-like
        How many users hold each value.
    budgets : Budgets, array-like, mapping or pandas.Series
        Budget of each value.
    sensitive : iterable
        The sensitive values, or their mask, for telling outliers.

    Examples
    --------
    Istanbul's size, in a tenth of a second; nobody there is unique:

    >>> import anonbayes as ab
    >>> domain = ab.Domain("place", range(70_557))
    >>> tuned = ab.budgets.worst_case(domain, n=330_159, gamma=100)
    >>> channel = ab.InputDiscriminativeUE.optimal(domain, tuned)
    >>> counts = [330_159 - 4 * 70_556] + [4] * 70_556
    >>> attack = ab.reidentify.expected_budget_attack(channel, counts, tuned)
    >>> round(attack.rate / tuned.bound, 3), attack.outlier_rate
    (0.505, nan)
    """
    held = value_array("counts", counts, channel.domain, default=0.0)
    if not ((held >= 0) & (held == np.round(held))).all() or not 1 <= held.sum() < np.inf:
        raise AnonbayesError("counts must be whole numbers of users, at least one in total.")
    epsilon = budget_array(budgets, channel.domain)
    is_open = ~chosen_mask(channel.domain, sensitive)
    hit, miss = channel.hit, channel.miss
    success = _success(hit, miss, held, epsilon)
    with np.errstate(divide="ignore"):
        silent = np.log1p(-miss)
        closed = np.exp(silent[is_open].sum()) * np.where(is_open, (1 - hit) / (1 - miss), 1.0)
    # Of a report without open bits, the other bits are what they always are.
    shut = np.where(is_open, 0.0, hit), np.where(is_open, 0.0, miss)
    closed_success = closed * _success(*shut, held, epsilon)
    return ExpectedAttack(
        channel.domain, held, success, 1.0 - closed, np.maximum(success - closed_success, 0.0)
    )


def _success(hit: Floats, miss: Floats, held: Floats, epsilon: Floats) -> Floats:
    """Probability that a holder of each value is named."""
    n = float(held.sum())
    success = np.zeros(len(held))
    order = np.argsort(-epsilon, kind="stable")
    order = order[held[order] > 0]
    quiet = np.log1p(-miss[order])
    # Log probability that no bit before a place is raised by somebody else's value.
    before = np.concatenate([[0.0], np.cumsum(quiet)])
    falling = epsilon[order]
    start = np.flatnonzero(np.append(True, falling[1:] != falling[:-1]))
    end = np.append(start[1:], len(order))
    alone = start[end - start == 1]
    x = order[alone]
    success[x] = np.exp(before[alone]) * hit[x] / held[x]
    for i, j in zip(start, end, strict=True):
        if j - i > 1:
            x = order[i:j]
            success[x] = np.exp(before[i]) * hit[x] * _share(held[x], miss[x], n)
    # Nothing raised that anybody holds: any user is named.
    others = before[-1] - np.log1p(-miss)
    return success + np.where(held > 0, np.exp(others) * (1 - hit) / n, 0.0)


def _share(held: Floats, miss: Floats, n: float) -> Floats:
    """``E[1/(c + S)]`` for each value of a class, ``S`` the raised counts of its other values."""
    z, weight = _nodes(n)
    pairs, place, number = np.unique(held + 1j * miss, return_inverse=True, return_counts=True)
    count, raised = pairs.real[:, None], pairs.imag[:, None]
    parts = [slice(k, k + CHUNK) for k in range(0, len(pairs), CHUNK)]
    total = np.zeros(len(z))
    for part in parts:
        total += number[part] @ np.log1p(raised[part] * np.expm1(-count[part] * z))
    found = np.empty(len(pairs))
    for part in parts:
        own = np.log1p(raised[part] * np.expm1(-count[part] * z))
        found[part] = np.exp(total - own - count[part] * z) @ weight
    return found[place.ravel()]


def _nodes(n: float) -> tuple[Floats, Floats]:
    """Nodes and weights of integrals over the positive numbers, with scales from 1/n to 1."""
    node, weight = _gauss()
    edges = np.concatenate([[0.0], np.geomspace(0.01 / n, 50.0, PANELS)])
    width = np.diff(edges)[:, None]
    return (edges[:-1, None] + width * (node + 1) / 2).ravel(), (width * weight / 2).ravel()


@cache
def _gauss() -> tuple[Floats, Floats]:
    return np.polynomial.legendre.leggauss(NODES)


# -------------------------------------------------------------------------------------------------
# The exact Bayes attack on bit reports, and the worst report of all.
#
# A report ``y`` comes from user ``u`` with probability ``Q(y|x_u) / sum_x c(x) Q(y|x)``. For bits
# ``Q(y|x) = B(y) w_x`` if bit ``x`` is raised, else ``B(y) z_x``, with ``w = a/b >= 1 >= z =
# (1-a)/(1-b)``; ``B`` cancels. So the likeliest senders hold a raised value, and the report that
# betrays a holder of ``x`` most raises bit ``x`` alone: no list of ``2^K`` reports is needed.

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
