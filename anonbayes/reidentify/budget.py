"""The budget attack: name a holder of the raised value with the largest budget (OneID Sec. V)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Floats, Ints
from anonbayes.channels.randomness import draw_bits
from anonbayes.channels.reports import BitReports
from anonbayes.channels.unary import BitChannel
from anonbayes.domains import Domain
from anonbayes.errors import AnonbayesError
from anonbayes.notions.idldp import budget_array, chosen_mask
from anonbayes.reidentify.bayes import best_pools
from anonbayes.reidentify.result import Attack, Population, check_senders, raises_open

__all__ = ["SimulatedAttack", "budget_attack", "simulate_budget_attack"]
# Bits are drawn in blocks of at least this many expected ones per user, most telling ones first:
# then hardly anybody needs another block. And raised bits held at a time.
ONES_PER_BLOCK = 30.0
CHUNK = 10_000_000


def budget_attack(
    domain: Domain,
    reports: BitReports,
    values: Iterable[object],
    budgets: Any,
    *,
    senders: npt.ArrayLike | None = None,
    seed: int | np.random.Generator | None = None,
) -> Attack:
    """Attack bit reports through their raised bits.

    Among the raised bits of values that somebody holds, the attacker takes those with the largest
    budget (the least noise) and names one of their holders at random; if there are none, any user.

    Parameters
    ----------
    domain : Domain
        The values.
    reports : BitReports
        The reports.
    values : iterable
        True value of each user; the attacker knows them all (the maximum-knowledge attacker).
    budgets : Budgets, array-like, mapping or pandas.Series
        Budget of each value.
    senders : array-like of int, optional
        The user who sent each report; by default user ``i`` sent report ``i``.
    seed : int, numpy.random.Generator or None
        Of the choice among holders.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("place", ["clinic", "park", "pier"])
    >>> users = ["clinic", "park", "park", "pier"]
    >>> reports = ab.BitReports.from_dense([[1, 1, 0], [0, 1, 0], [0, 0, 0], [1, 0, 1]])
    >>> attack = ab.reidentify.budget_attack(domain, reports, users, [1.0, 2.0, 2.0], seed=1)
    >>> attack.success.tolist(), int(attack.guess[3])
    ([0.0, 0.5, 0.25, 1.0], 3)
    >>> ab.reidentify.rate(attack).share
    0.4375
    """
    users = Population.of(domain, values)
    epsilon = budget_array(budgets, domain)
    if reports.size != len(domain):
        raise AnonbayesError(f"The reports have {reports.size} bits, {domain!r}.")
    sent = check_senders(senders, len(reports), len(users))
    rng = np.random.default_rng(seed)
    found = _pools(reports, epsilon, users.counts, users.codes[sent], rng)
    return _attack(users, found, sent, rng)


@dataclass(frozen=True, eq=False)
class SimulatedAttack(Attack):
    """An attack on reports that were never written down.

    Attributes
    ----------
    outlier : ndarray of bool
        Senders with a unique value whose report raised a non-sensitive bit (OneID Fig. 6).
    """

    outlier: npt.NDArray[np.bool_] = field(kw_only=True, repr=False)


def simulate_budget_attack(
    channel: BitChannel,
    values: Iterable[object],
    budgets: Any,
    *,
    sensitive: Iterable[object] = (),
    senders: npt.ArrayLike | None = None,
    seed: int | np.random.Generator | None = None,
) -> SimulatedAttack:
    """Release reports and attack them, drawing only the bits that decide the attack.

    The result has the distribution of ``budget_attack(channel.release(values), ...)``. Bits are
    drawn in blocks of falling budget, and only for users whose report has no deciding bit yet.

    Parameters
    ----------
    channel : BitChannel
        What the users' devices run.
    values : iterable
        True value of each user.
    budgets
        As in `budget_attack`.
    sensitive : iterable
        The sensitive values, or their mask, for telling outliers.
    senders : array-like of int, optional
        Simulate the reports of these users only; all by default.
    seed : int, numpy.random.Generator or None
        Of the reports and of the attacker's choices.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("x", range(50))
    >>> tuned = ab.budgets.worst_case(domain, n=500, gamma=10)
    >>> channel = ab.InputDiscriminativeUE.optimal(domain, tuned)
    >>> values = [i % 50 for i in range(500)]
    >>> attack = ab.reidentify.simulate_budget_attack(channel, values, tuned, seed=1)
    >>> ab.reidentify.rate(attack, bound=tuned.bound).within_bound
    True
    """
    users = Population.of(channel.domain, values)
    epsilon = budget_array(budgets, channel.domain)
    is_open = ~chosen_mask(channel.domain, sensitive)
    sent = (
        np.arange(len(users))
        if senders is None
        else check_senders(senders, len(np.asarray(senders)), len(users))
    )
    rng = np.random.default_rng(seed)
    found = np.zeros((len(sent), 4), dtype=np.int64)
    opened = np.zeros(len(sent), dtype=bool)
    blocks = list(_blocks(epsilon, channel.miss))
    for number, columns in enumerate(blocks):
        later = any(is_open[rest].any() for rest in blocks[number:])
        waiting = np.flatnonzero((found[:, 0] == 0) | (~opened & later))
        for rows in _pieces(waiting, float(channel.miss[columns].sum())):
            own = users.codes[sent[rows]]
            reports, mine = _draw_columns(channel, columns, own, rng)
            opened[rows] |= raises_open(reports, np.append(is_open[columns], False))
            counts = np.append(users.counts[columns], 0)
            part = _pools(reports, np.append(epsilon[columns], 0.0), counts, mine, rng)
            part[:, 2] = columns[np.minimum(part[:, 2], len(columns) - 1)]
            undecided = found[rows, 0] == 0
            found[rows[undecided]] = part[undecided]
    attack = _attack(users, found, sent, rng)
    unique = users.counts[users.codes[sent]] == 1
    return SimulatedAttack(
        attack.method, attack.guess, attack.senders, attack.success, outlier=unique & opened
    )


def _pools(
    reports: BitReports, epsilon: Floats, counts: Ints, own: Ints, rng: np.random.Generator
) -> Ints:
    out = np.zeros((len(reports), 4), dtype=np.int64)
    uniform = rng.random(len(reports))
    best_pools(reports.indptr, reports.indices, epsilon, counts, own, uniform, out)
    return out


def _attack(users: Population, found: Ints, sent: Ints, rng: np.random.Generator) -> Attack:
    """Name the picked user; any user at all where no raised value has a holder."""
    size, inside, value, place = found.T
    lost = size == 0
    guess = np.where(lost, rng.integers(0, len(users), len(found)), 0)
    guess[~lost] = users.holder(value[~lost], place[~lost])
    success = np.where(lost, 1.0 / len(users), inside / np.maximum(size, 1))
    return Attack("budget", guess, sent, success)


def _blocks(epsilon: Floats, miss: Floats) -> Iterator[Ints]:
    """Columns in order of falling budget, in blocks; equal budgets stay together."""
    order = np.argsort(-epsilon, kind="stable")
    falling = epsilon[order]
    ends = np.flatnonzero(np.append(falling[1:] != falling[:-1], True)) + 1
    ones = np.cumsum(miss[order])
    start = 0
    while start < len(order):
        before = ones[start - 1] if start else 0.0
        enough = ends[(ones[ends - 1] >= before + ONES_PER_BLOCK) & (ends > start)]
        end = int(enough[0]) if len(enough) else len(order)
        yield order[start:end]
        start = end


def _pieces(rows: Ints, ones: float) -> Iterator[Ints]:
    step = max(1, int(CHUNK / (1.0 + ones)))
    return (rows[i : i + step] for i in range(0, len(rows), step))


def _draw_columns(
    channel: BitChannel, columns: Ints, own: Ints, rng: np.random.Generator
) -> tuple[BitReports, Ints]:
    """Draw these columns of the users' reports; a last, silent one stands for all other values."""
    place = np.full(len(channel.domain), len(columns), dtype=np.int64)
    place[columns] = np.arange(len(columns))
    mine = place[own]
    hit, miss = (np.append(p[columns], 0.0) for p in (channel.hit, channel.miss))
    return draw_bits(mine, hit, miss, rng), mine
