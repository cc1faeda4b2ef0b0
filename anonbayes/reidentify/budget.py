"""Results of attacks; the budget attack on bit reports: carried out, expected, and worst case."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

from anonbayes.arrays import Floats, Ints
from anonbayes.channels.randomness import generator
from anonbayes.channels.reports import BitReports
from anonbayes.channels.unary import BitChannel
from anonbayes.domains import Domain
from anonbayes.errors import AnonbayesError
from anonbayes.notions.ldp import sensitive_mask
from anonbayes.notions.selective import budget_array, value_array

# -------------------------------------------------------------------------------------------------
# The users as an attacker sees them: who has which value.


@dataclass(frozen=True, eq=False)
class Population:
    """All users with their true values, sorted by value when needed."""

    domain: Domain
    codes: Ints

    @classmethod
    def of(cls, domain: Domain, values: Iterable[object]) -> Population:
        """Read the users' true values."""
        codes = domain.encode(values).astype(np.int64)
        if len(codes) == 0:
            raise AnonbayesError("There are no users to identify.")
        return cls(domain, codes)

    def __len__(self) -> int:
        return len(self.codes)

    @cached_property
    def counts(self) -> Ints:
        """Number of users with each value."""
        return np.bincount(self.codes, minlength=len(self.domain)).astype(np.int64)

    @cached_property
    def _by_value(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.codes, kind="stable")
        return order, np.concatenate([[0], np.cumsum(self.counts)])

    def holder(self, value: Ints, place: Ints) -> Ints:
        """Return the user at a position among those with a value."""
        order, start = self._by_value
        return order[start[value] + place]


# -------------------------------------------------------------------------------------------------
# The result of an attack, and how often it was right.


@dataclass(frozen=True, eq=False)
class Attack:
    """An attacker's answer to each report.

    Attributes
    ----------
    method : str
        The attack.
    guess : ndarray of int
        The user identified as sender of each report.
    senders : ndarray of int
        The true senders.
    success : ndarray of float
        Probability that the right user is identified. An attacker picks one of several equally
        likely users at random; averaging these probabilities, instead of counting lucky guesses,
        makes rates of one in a million measurable.
    """

    method: str
    guess: Ints = field(repr=False)
    senders: Ints = field(repr=False)
    success: Floats = field(repr=False)

    def __len__(self) -> int:
        return len(self.guess)


@dataclass(frozen=True)
class Rate:
    """Share of reports whose sender was identified.

    Attributes
    ----------
    share : float
        The re-identification rate.
    n : int
        Number of reports.
    standard_error : float
        Standard error of the rate, over reports.
    bound : float or None
        The largest accepted rate, ``gamma/n``.
    """

    share: float
    n: int
    standard_error: float
    bound: float | None = None

    def __str__(self) -> str:
        text = f"{self.share:.4g} +- {self.standard_error:.1g} of {self.n} reports"
        return text if self.bound is None else f"{text} (at most {self.bound:.4g} accepted)"


def rate(
    attack: Attack | npt.ArrayLike,
    truth: npt.ArrayLike | None = None,
    *,
    where: npt.ArrayLike | None = None,
    bound: float | None = None,
) -> Rate:
    """Re-identification rate: the share of reports whose sender is identified.

    Parameters
    ----------
    attack : Attack or array-like
        An attack, or the users named by any other attacker.
    truth : array-like, optional
        The true senders, if `attack` is an array of guesses.
    where : array-like of bool, optional
        Restricts the rate to some reports, for example those of outliers.

        OneID Theorem 1 bounds what any single report reveals, and so the rate over all users. It
        does not bound the rate over senders selected by their value, such as outliers: if a few
        values have most users, that rate can exceed ``gamma/n`` although no single report does,
        and no rule for the budgets prevents it. `expected_budget_attack` computes it for plausible
        counts; budgets tuned to a smaller ``gamma`` lower it.
    bound : float, optional
        The largest accepted rate, for example ``budgets.bound``.

    Examples
    --------
    >>> import anonbayes as ab
    >>> print(ab.reidentify.rate([3, 1, 2, 2], truth=[3, 1, 2, 0], bound=0.5))
    0.75 +- 0.2 of 4 reports (at most 0.5 accepted)
    """
    if isinstance(attack, Attack):
        if truth is not None:
            raise AnonbayesError("An Attack contains the true senders; leave out `truth`.")
        success = attack.success
    else:
        if truth is None:
            raise AnonbayesError("Give the true senders as truth=.")
        guesses, right = _array("attack", attack), _array("truth", truth)
        if guesses.shape != right.shape or guesses.ndim != 1:
            raise AnonbayesError(f"There are {guesses.shape} guesses for {right.shape} reports.")
        try:
            success = (guesses == right).astype(float)
        except (TypeError, ValueError, ArithmeticError) as odd:
            raise AnonbayesError(f"attack and truth must be plain values: {odd}.") from None
    if where is not None:
        mask = _array("where", where)
        if mask.dtype != bool or mask.shape != success.shape:
            raise AnonbayesError(f"`where` must be a mask of the {len(success)} reports.")
        success = success[mask]
    if len(success) == 0:
        raise AnonbayesError("There are no reports for which to compute the rate.")
    share = float(success.mean())
    error = float(success.std() / np.sqrt(len(success)))
    return Rate(share, len(success), error, bound)


def _array(argument: str, given: npt.ArrayLike) -> npt.NDArray[Any]:
    try:
        return np.asarray(given)
    except ValueError as error:
        raise AnonbayesError(f"{argument} must be a plain list: {error}.") from None


def check_senders(senders: npt.ArrayLike | None, n_reports: int, n_users: int) -> Ints:
    """Users who sent the reports: by default user ``i`` sent report ``i``."""
    if senders is None:
        if n_reports != n_users:
            raise AnonbayesError(
                f"There are {n_reports} reports of {n_users} users: give senders=, one for each."
            )
        return np.arange(n_users)
    sent = _array("senders", senders)
    known = sent.dtype.kind in "iu" and sent.shape == (n_reports,)
    if not known or (len(sent) and not 0 <= sent.min() <= sent.max() < n_users):
        raise AnonbayesError(
            f"senders must name one of the {n_users} users for each of the {n_reports} reports."
        )
    return sent.astype(np.int64)


# -------------------------------------------------------------------------------------------------
# The budget attack: guess a user with the raised value that has the largest budget (OneID Sec. V).


@njit(cache=True)
def best_pools(
    indptr: Ints, indices: Ints, key: Floats, counts: Ints, own: Ints, uniform: Floats, out: Ints
) -> None:
    """For each report (its raised bits), find the users with the raised value of the largest `key`.

    A row of `out` becomes: size of the pool (0 if nobody has a raised value), whether it contains
    the sender, who has the value `own`, the value that `uniform` picks, and the position among its
    users.
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


def budget_attack(
    domain: Domain,
    reports: BitReports,
    values: Iterable[object],
    budgets: object,
    *,
    senders: npt.ArrayLike | None = None,
    seed: int | np.random.Generator | None = None,
) -> Attack:
    """Attack bit reports through their raised bits.

    Among the raised bits of values that somebody has, the attacker takes those with the largest
    budget (the least noise) and names one of their users at random, or any user if there are none.

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
        Seed of the random choice among users.

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
    if not isinstance(reports, BitReports):
        raise AnonbayesError(f"reports must be BitReports, not {type(reports).__name__}.")
    if reports.size != len(domain):
        raise AnonbayesError(f"The reports have {reports.size} bits, but the domain is {domain!r}.")
    sent = check_senders(senders, len(reports), len(users))
    rng = generator(seed, "budget_attack", domain.name)
    named, uniform = np.zeros((len(reports), 4), dtype=np.int64), rng.random(len(reports))
    own, ones = users.codes[sent], (reports.indptr, reports.indices)
    best_pools(*ones, epsilon, users.counts, own, uniform, named)
    size, inside, value, place = named.T
    lost = size == 0  # nobody has a raised value: any user is named
    guess = np.where(lost, rng.integers(0, len(users), len(named)), 0)
    guess[~lost] = users.holder(value[~lost], place[~lost])
    success = np.where(lost, 1.0 / len(users), inside / np.maximum(size, 1))
    return Attack("budget", guess, sent, success)


# -------------------------------------------------------------------------------------------------
# The budget attack's success, computed instead of simulated.
#
# The attacker names a random user with the raised values of the largest budget. The sender, with
# the value ``x``, is found if no bit of a value with users and a larger budget is raised, bit ``x``
# is raised, and the guess among ``c(x) + S`` users is right, where ``S`` is the sum of the counts
# of other raised values with the same budget. Bits are independent, so
#
#     E[1/(c(x) + S)] = int_0^inf exp(-c(x) z) prod_i (1 - b_i + b_i exp(-c_i z)) dz
#
# is one integral for all values of a budget class, whatever their number.

# Gauss-Legendre nodes on panels that grow geometrically: integrands decay anywhere between
# exp(-z) and exp(-n z). Distinct (count, bit) pairs that are held at a time.
PANELS, NODES = 48, 16
PAIRS = 2000


@dataclass(frozen=True, eq=False)
class ExpectedAttack:
    """Expected success of the budget attack, value by value.

    Attributes
    ----------
    domain : Domain
        The values.
    counts : ndarray, shape (K,)
        Number of users with each value.
    success : ndarray, shape (K,)
        Probability that the report of a user with this value is traced to her.
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
        """Expected share of all reports whose sender is identified (OneID Fig. 5)."""
        return float(self.counts @ self.success / self.counts.sum())

    @property
    def outlier_rate(self) -> float:
        """Expected share among senders with a unique value and an open bit (OneID Fig. 6).

        NaN if no value has a single user.
        """
        alone = self.counts == 1
        opened = float(self.opened[alone].sum())
        return float(self.opened_success[alone].sum()) / opened if opened > 0 else float("nan")


def expected_budget_attack(
    channel: BitChannel, counts: object, budgets: object, *, sensitive: Iterable[object] = ()
) -> ExpectedAttack:
    """Success of `budget_attack` in expectation over reports and guesses, without drawing any.

    Parameters
    ----------
    channel : BitChannel
        What the users' devices run.
    counts : mapping, pandas.Series or array-like
        Number of users with each value.
    budgets : Budgets, array-like, mapping or pandas.Series
        Budget of each value.
    sensitive : iterable
        The sensitive values, or a mask, to define outliers.

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
    held = _read_counts(counts, _bits_of(channel).domain)
    epsilon = budget_array(budgets, channel.domain)
    is_open = ~sensitive_mask(channel.domain, sensitive)
    hit, miss = channel.hit, channel.miss
    success = _success(hit, miss, held, epsilon)
    with np.errstate(divide="ignore"):
        silent = np.log1p(-miss)
        closed = np.exp(silent[is_open].sum()) * np.where(is_open, (1 - hit) / (1 - miss), 1.0)
    # In reports without non-sensitive bits, the other bits have their usual distribution.
    shut = np.where(is_open, 0.0, hit), np.where(is_open, 0.0, miss)
    closed_success = closed * _success(*shut, held, epsilon)
    return ExpectedAttack(
        channel.domain, held, success, 1.0 - closed, np.maximum(success - closed_success, 0.0)
    )


def _success(hit: Floats, miss: Floats, held: Floats, epsilon: Floats) -> Floats:
    """Probability that a user with each value is identified."""
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
    # No bit of a value with users is raised: any user is named.
    others = before[-1] - np.log1p(-miss)
    return success + np.where(held > 0, np.exp(others) * (1 - hit) / n, 0.0)


def _share(held: Floats, miss: Floats, n: float) -> Floats:
    """``E[1/(c + S)]`` for each value of a class, ``S`` the raised counts of its other values."""
    z, weight = _nodes(n)
    pairs, place, number = np.unique(
        np.stack([held, miss], axis=1), axis=0, return_inverse=True, return_counts=True
    )
    count, raised = pairs[:, :1], pairs[:, 1:]
    parts = [slice(k, k + PAIRS) for k in range(0, len(pairs), PAIRS)]
    total = np.zeros(len(z))
    for part in parts:
        total += number[part] @ np.log1p(raised[part] * np.expm1(-count[part] * z))
    share = np.empty(len(pairs))
    for part in parts:
        own = np.log1p(raised[part] * np.expm1(-count[part] * z))
        share[part] = np.exp(total - own - count[part] * z) @ weight
    return share[place.ravel()]


def _nodes(n: float) -> tuple[Floats, Floats]:
    """Nodes and weights of integrals over the positive numbers, with scales from 1/n to 1."""
    node, weight = np.polynomial.legendre.leggauss(NODES)
    edges = np.concatenate([[0.0], np.geomspace(0.01 / n, 50.0, PANELS)])
    width = np.diff(edges)[:, None]
    return (edges[:-1, None] + width * (node + 1) / 2).ravel(), (width * weight / 2).ravel()


# -------------------------------------------------------------------------------------------------
# The worst report of all, against someone who knows everybody's value.
#
# A report ``y`` comes from user ``u`` with probability ``Q(y|x_u) / sum_x c(x) Q(y|x)``. For bits
# ``Q(y|x) = B(y) w_x`` if bit ``x`` is raised, else ``B(y) z_x``, with ``w = a/b >= 1 >= z =
# (1-a)/(1-b)``; ``B`` cancels. So the likeliest senders have a raised value, and the report that
# reveals most about a user with ``x`` raises only bit ``x``: ``2^K`` reports need not be listed.


@dataclass(frozen=True)
class WorstReport:
    """The report that reveals most about its sender.

    Attributes
    ----------
    accuracy : float
        Probability with which the Bayes attacker identifies its sender.
    value : object
        The value of the likeliest senders of that report.
    raised : bool
        Whether the report raises the bit of that value (and no other), or none at all.
    """

    accuracy: float
    value: object
    raised: bool


def worst_report(channel: BitChannel, counts: object) -> WorstReport:
    """Largest probability, over all reports, of identifying the sender (OneID Theorem 1).

    Parameters
    ----------
    channel : BitChannel
        What the users' devices run.
    counts : mapping, pandas.Series or array-like
        Number of users with each value.

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
    held = _read_counts(counts, _bits_of(channel).domain)
    with np.errstate(divide="ignore", invalid="ignore"):
        # A bit that is never raised reveals nothing.
        raised = np.where(channel.hit > 0, channel.hit / channel.miss, 1.0)
    lowered = (1.0 - channel.hit) / (1.0 - channel.miss)
    silent = float(held @ lowered)
    with np.errstate(divide="ignore", invalid="ignore"):
        alone = 1.0 / (held + (silent - held * lowered) / raised)
        nothing = lowered / silent if silent > 0 else np.zeros(len(held))
    alone[(held == 0) | (channel.hit == 0)] = 0.0
    nothing[held == 0] = 0.0
    best = np.maximum(alone, nothing)
    x = int(np.argmax(best))
    return WorstReport(float(best[x]), channel.domain.values[x], bool(alone[x] >= nothing[x]))


def _bits_of(channel: BitChannel) -> BitChannel:
    if not isinstance(channel, BitChannel):
        raise AnonbayesError(f"This attack needs a BitChannel, not a {type(channel).__name__}.")
    return channel


def _read_counts(counts: object, domain: Domain) -> Floats:
    held = value_array("counts", counts, domain, default=0.0)
    if not ((held >= 0) & (held == np.round(held))).all() or not 1 <= held.sum() < np.inf:
        raise AnonbayesError("counts must be whole numbers of users, at least one in total.")
    return held
