"""Suprema and bounds of the information about identity, and the error they leave."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import optimize, sparse

from anonbayes.channels.base import Channel, Symbols
from anonbayes.errors import AnonbayesError, ChannelError, one_of
from anonbayes.pie.information import conditional, read_joint
from anonbayes.pie.divergence import LOG2E, divergence_terms, excess

__all__ = [
    "KINDS",
    "WorstCase",
    "bayes_error",
    "bound",
    "check_users",
    "contraction",
    "information_for",
    "largest_prior",
    "renyi_bound",
    "renyi_information",
    "worst_case",
]


# -------------------------------------------------------------------------------------------------
# What a channel's probabilities have in common, and how far apart they can be.
#
# Two sums over all reports decide much of what follows:
#
# * ``sum_y min_x Q(y|x)``: with this probability a report is noise that any value might have sent.
#   The rest, ``theta``, is the share of mutual information that can get through (Doeblin);
# * ``sum_y max_x Q(y|x)``: the factor by which a report can improve one guess (maximal leakage).
#
# For bit channels both follow in ``O(K log K)`` from one sort, without listing ``2^K`` reports.


def contraction(channel: Channel) -> float:
    """Share ``theta`` of the mutual information that can get through: ``I(U;Y) <= theta I(U;X)``.

    ``theta = 1 - sum_y min_x Q(y|x)``. For randomized response it is ``(e-1)/(K+e-1)``, for local
    hashing ``(e-1)/(g+e-1)``: PIE's loss parameter (Theorems 11 and 13). For every other channel
    the same argument holds, with the part of a report that does not depend on the value as its
    noise; that extension is ours.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("x", "abc")
    >>> round(ab.pie.contraction(ab.RandomizedResponse(domain, 1.0)), 6)
    0.364175
    >>> round(ab.pie.contraction(ab.UnaryEncoding.optimal(domain, 1.0)), 6)
    0.2932
    """
    if (symbols := channel.symbols()) is not None:
        return symbols.theta
    return float(np.clip(1.0 - channel.common_mass(), 0.0, 1.0))


# -------------------------------------------------------------------------------------------------
# A worst-case companion of PIE, which the paper leaves open. Ours.
#
# Mutual information is an average: few senders may be named with certainty while the mean is small.
# Its Rényi relatives look at the tail. Sibson's information of order ``a``,
#
#     I_a(U;Y) = a/(a-1) log2 sum_y ( sum_u p(u) Q(y|u)^a )^(1/a),
#
# is the mutual information at ``a = 1``, grows with ``a``, and at ``a = inf`` becomes ``log2 sum_y
# max_u Q(y|u)``, the maximal leakage: the factor, in bits, by which a report can improve the
# adversary's chance to name its sender in one guess. It needs no Fano inequality,
#
#     Bayes error >= 1 - 2^I_inf max_u p(u),
#
# and for equally likely users it is attained. Harder still is to ask for *every* report: from no
# report of an eps-LDP channel does the probability of a user rise from ``p`` above
# ``p e / (p e + 1 - p)``.


def renyi_information(
    p_ux: npt.ArrayLike | sparse.sparray, channel: Channel | npt.ArrayLike, order: float = np.inf
) -> float:
    """Sibson's information of the given order between user and report, in bits. Ours.

    For channels whose matrix can be written down (or given as `channel`).

    Examples
    --------
    >>> import anonbayes as ab
    >>> joint = [[0.20, 0.05, 0.05], [0.10, 0.30, 0.30]]
    >>> channel = ab.RandomizedResponse(ab.Domain("x", "abc"), 1.0)
    >>> [round(ab.pie.renyi_information(joint, channel, a), 4) for a in (1.001, 2, np.inf)]
    [0.0246, 0.0495, 0.2519]
    """
    _check_order(order)
    q = channel.matrix() if isinstance(channel, Channel) else np.asarray(channel, dtype=float)
    joint = read_joint(p_ux)
    if joint.shape[1] != len(q):
        raise AnonbayesError(f"p_ux has {joint.shape[1]} columns, the channel {len(q)} values.")
    users, given = conditional(joint)
    reports = given @ q
    if np.isinf(order):
        return float(np.log2(reports.max(axis=0).sum()))
    # Scaled by the largest probability of each report, so that high powers do not vanish.
    top = reports.max(axis=0)
    ratio = np.divide(reports, top, out=np.zeros_like(reports), where=top > 0)
    norm = top * (users @ ratio**order) ** (1 / order)
    return float(order / (order - 1) * np.log2(norm.sum()))


def renyi_bound(channel: Channel, n_users: int, t: int = 1, *, order: float = np.inf) -> float:
    """Bits that Sibson's information of the given order cannot exceed, whatever is known. Ours.

    For randomized response and invertible local hashing it is the supremum itself; it is reached
    when ``min(n, K)`` users hold one value each. For other channels it is the maximal leakage,
    which no order exceeds.

    Parameters
    ----------
    channel : Channel
        What each user's device runs.
    n_users : int
        Number of users.
    t : int
        Reports of each user; for ``order=inf`` only, where they add up.
    order : float
        Above 1; infinite for maximal leakage. Order 1 is `bound` with ``kind="exact"``.

    Examples
    --------
    >>> import anonbayes as ab
    >>> channel = ab.RandomizedResponse(ab.IntegerDomain(10_500_393), epsilon=1.0)
    >>> [f"{ab.pie.renyi_bound(channel, 1_370_637, order=a):.2e}" for a in (2, np.inf)]
    ['4.06e-07', '2.92e-01']
    """
    if order == 1:
        return bound(channel, n_users, t, kind="exact")
    _check_order(order)
    n = check_users(n_users)
    if check_reports(t) > 1 and not np.isinf(order):
        raise ChannelError("Reports add up for order=inf only; use it, or t=1.")
    symbols = channel.symbols()
    once = np.log2(channel.total_maximum()) if symbols is None else _symbols(symbols, n, order)
    return float(min(t * once, np.log2(n)))


def _symbols(symbols: Symbols, n: int, order: float) -> float:
    """Supremum over ``p_UX``: the sum over reports is concave in ``p_U``, hence uniform."""
    k = symbols.used(n)
    silent = symbols.silent or 0.0
    spread, noise = symbols.theta, symbols.noise
    if np.isinf(order):
        # k own + (size - k) noise = 1 + (k - 1) theta
        return float(np.log1p((1 - silent) * (k - 1) * spread) / np.log(2))
    # k ( mean of q^a )^(1/a) - (own + (k-1) noise), over symbols in use; the rest cancels to 1.
    ratio = 1.0 + spread / noise if noise > 0 else np.inf
    if np.isinf(ratio):
        return float(np.log2(k))
    log_power = np.logaddexp(order * np.log(ratio), np.log(k - 1) if k > 1 else -np.inf)
    used = k * noise * np.expm1((log_power - np.log(k)) / order)
    surplus = used - spread
    return float(order / (order - 1) * np.log1p((1 - silent) * surplus) / np.log(2))


@dataclass(frozen=True)
class WorstCase:
    """What a channel guarantees against one guess (ours).

    Attributes
    ----------
    bits : float
        Maximal leakage of all reports of a user.
    error : float
        The adversary's error, on average over reports, is at least this.
    error_of_every_report : float
        The same for every single report, however unlucky its sender.
    """

    bits: float
    error: float
    error_of_every_report: float


def worst_case(
    channel: Channel,
    n_users: int | None = None,
    t: int = 1,
    *,
    prior: float | npt.ArrayLike | None = None,
) -> WorstCase:
    """Guarantees against one guess: on average over reports, and for every report. Ours.

    Parameters
    ----------
    channel : Channel
        What each user's device runs.
    n_users : int
        Number of equally likely users. With `prior`, only how many users there are.
    t : int
        Reports of each user.
    prior : float or array-like, optional
        Probability of the users before any report, or of the likeliest one.

    Examples
    --------
    Where PIE's Theorem 11 and Fano guarantee an error of 0.92, the error is 0.97 in truth,
    and from no report can its sender be named with a probability above 0.2:

    >>> import anonbayes as ab
    >>> channel = ab.RandomizedResponse(ab.IntegerDomain(10_500_393), epsilon=12.72)
    >>> found = ab.pie.worst_case(channel, 1_370_637)
    >>> round(found.error, 3), round(found.error_of_every_report, 3)
    (0.969, 0.804)
    """
    top = largest_prior(n_users if prior is None else None, prior)
    people = n_users
    if people is None:
        people = len(prior) if np.ndim(prior) else len(channel.domain)  # type: ignore[arg-type]
    bits = renyi_bound(channel, people, t)
    odds = np.log(top) - np.log1p(-top) if top < 1 else np.inf
    certainty = 1.0 / (1.0 + np.exp(-(odds + t * channel.ldp_budget())))
    return WorstCase(bits, float(max(0.0, 1.0 - np.exp2(bits) * top)), float(1.0 - certainty))


def _check_order(order: float) -> None:
    if not order > 1:
        raise AnonbayesError(f"order={order!r} must be above 1 (1 itself is mutual information).")


# -------------------------------------------------------------------------------------------------
# From bits to the error of whoever tries to re-identify, and back (PIE Prop. 7, Cor. 8).

Prior = float | npt.ArrayLike


def bayes_error(
    alpha_bits: float,
    n_users: int | npt.ArrayLike | None = None,
    *,
    prior: Prior | None = None,
    sharp: bool = False,
) -> float:
    """Smallest error with which anybody can name the sender of a report that says so much.

    ``1 + (alpha+1)/log2(max_u p_U(u))``, for equally likely users ``1 - (alpha+1)/log2 n`` (PIE
    (9), (10)); 0 when that is negative.

    Parameters
    ----------
    alpha_bits : float
        ``I(U;Y)`` in bits, or a bound on it.
    n_users : int or array-like, optional
        Number of equally likely users. An array is taken as `prior`.
    prior : float or array-like, optional
        Instead, the probability of each user before the report, or just the largest of them.
    sharp : bool
        Use Fano's inequality as it is, ``h(beta) + beta log2(n-1) >= log2 n - alpha``, which is
        stronger; for equally likely users. PIE uses the simpler form.

    Examples
    --------
    Five income classes and 10^8 users: without any channel, bits are at most ``log2 5``.

    >>> round(bayes_error(np.log2(5), 10**8), 3)
    0.875
    >>> round(bayes_error(np.log2(5), prior=0.01), 3)
    0.5
    """
    alpha = _check_bits(alpha_bits)
    top = largest_prior(n_users, prior)
    if sharp:
        if n_users is None or np.ndim(n_users):
            raise AnonbayesError("sharp=True is for equally likely users; give n_users alone.")
        return _sharp_error(alpha, check_users(int(np.asarray(n_users))))
    if top >= 1:
        return 0.0
    return float(max(0.0, 1.0 + (alpha + 1.0) / np.log2(top)))


def information_for(
    error: float,
    n_users: int | npt.ArrayLike | None = None,
    *,
    prior: Prior | None = None,
) -> float:
    """Bits that a report may say so that nobody names its sender with an error below `error`.

    The inverse of `bayes_error`; negative when no number of bits guarantees the error.

    Examples
    --------
    >>> round(information_for(0.8, 10**6), 3), round(information_for(0.5, 10**6), 3)
    (2.986, 8.966)
    """
    if not 0 <= error <= 1:
        raise AnonbayesError(f"error={error!r} is not a probability.")
    return float(-(1.0 - error) * np.log2(largest_prior(n_users, prior)) - 1.0)


def largest_prior(n_users: int | npt.ArrayLike | None, prior: Prior | None) -> float:
    """Probability of the likeliest user before any report."""
    if (n_users is None) == (prior is None):
        raise AnonbayesError("Give either n_users (equally likely) or prior.")
    given = np.asarray(n_users if prior is None else prior, dtype=float)
    if prior is None and given.ndim == 0:
        return 1.0 / check_users(float(given))
    if given.ndim == 0:
        if not 0 < given <= 1:
            raise AnonbayesError(f"prior={prior!r} is not the probability of the likeliest user.")
        return float(given)
    if given.ndim != 1 or not (given >= 0).all() or abs(given.sum() - 1.0) > 1e-6:
        raise AnonbayesError(f"The prior must be a distribution; it sums to {given.sum():.9g}.")
    return float(given.max())


def _check_bits(bits: float) -> float:
    if not bits >= 0:
        raise AnonbayesError(f"alpha_bits={bits!r} must not be negative.")
    return float(bits)


def _sharp_error(alpha: float, n: int) -> float:
    def room(beta: float) -> float:
        entropy = -sum(x * np.log2(x) for x in (beta, 1 - beta) if x > 0)
        return float(entropy + beta * np.log2(n - 1) + alpha - np.log2(n))

    if n == 1 or alpha >= np.log2(n):
        return 0.0
    return float(optimize.brentq(room, 0.0, 1.0 - 1.0 / n, xtol=1e-14)) if alpha else 1 - 1 / n


# -------------------------------------------------------------------------------------------------
# Upper bounds on what a report says about who sent it, whatever the adversary knows (PIE 4).

KINDS = ("theorem", "exact", "general")


def bound(channel: Channel, n_users: int, t: int = 1, *, kind: str = "theorem") -> float:
    """Bits ``alpha`` with ``I(U;Y) <= alpha`` for all ``p_UX``: (U, alpha)-PIE privacy.

    Parameters
    ----------
    channel : Channel
        What each user's device runs.
    n_users : int
        Number of users, known to the adversary.
    t : int
        Reports of each user, possibly about correlated values (PIE Theorems 12 and 14).
    kind : {"theorem", "exact", "general"}
        * ``"theorem"``: ``theta min(log2 n, log2 K)`` with the channel's `contraction` (PIE
          Theorems 11 and 13);
        * ``"exact"``: the supremum itself for one report (ours). In closed form for randomized
          response and invertible local hashing; for other channels whose matrix can be written
          down, and at least as many users as values, the channel's capacity;
        * ``"general"``: from the LDP budget alone (PIE Prop. 10).

    Returns
    -------
    float
        Bits; never more than ``log2 n``.

    Examples
    --------
    >>> import anonbayes as ab
    >>> channel = ab.RandomizedResponse(ab.IntegerDomain(10_500_393), epsilon=1.0)
    >>> [f"{ab.pie.bound(channel, 1_370_637, kind=kind):.3g}"
    ...  for kind in ("general", "theorem", "exact")]
    ['1.44', '3.34e-06', '1.37e-07']
    """
    one_of("kind", kind, KINDS)
    n = check_users(n_users)
    reports = check_reports(t)
    symbols = channel.symbols()
    once = _channel_bits(channel, n, kind) if symbols is None else symbols_bits(symbols, n, kind)
    return min(reports * once, float(np.log2(n)))


def check_users(n_users: float) -> int:
    """Return the number of users; raise `AnonbayesError` unless it is a whole number from 1."""
    if not _is_whole(n_users):
        raise AnonbayesError(f"n_users={n_users!r}: give a whole number of users from 1.")
    return int(n_users)


def check_reports(t: int) -> int:
    """Return the number of reports; raise `AnonbayesError` unless it is a whole number from 1."""
    if not _is_whole(t):
        raise AnonbayesError(f"t={t!r} reports: give a whole number from 1.")
    return int(t)


def _is_whole(number: Any) -> bool:
    if not isinstance(number, Real):
        return False
    value = float(number)
    return 1 <= value < np.inf and value == int(value)


def symbols_bits(symbols: Symbols, n: int, kind: str) -> float:
    """Bits of one report of randomized response or local hashing."""
    if kind == "theorem":
        return symbols.theta * min(float(np.log2(n)), float(np.log2(symbols.n_values)))
    if kind == "general":
        return _general(symbols.epsilon, symbols.n_values)
    if symbols.silent is None:
        raise ChannelError(
            "The exact supremum of local hashing is known for invertible hash functions only "
            "(LocalHashing.invertible); use kind='theorem'."
        )
    return (1.0 - symbols.silent) * _supremum(symbols, symbols.used(n))


def _channel_bits(channel: Channel, n: int, kind: str) -> float:
    size = len(channel.domain)
    if kind == "theorem":
        return contraction(channel) * min(float(np.log2(n)), float(np.log2(size)))
    if kind == "general":
        return _general(channel.ldp_budget(), size)
    if n < size:
        raise ChannelError(
            f"The exact supremum of {channel!r} is known for at least {size} users, one per "
            f"value; there are {n}. Use kind='theorem'."
        )
    return capacity(channel.matrix())


def _general(epsilon: float, size: int) -> float:
    return min(epsilon * LOG2E, epsilon**2 * LOG2E, float(np.log2(size)))


def _supremum(symbols: Symbols, k: int) -> float:
    """Supremum for randomized response with ``k = min(n, K)`` symbols in use (MODEL 4).

    By convexity every user best holds one value for certain, by symmetry all are equally likely,
    and more values say more. Written as a divergence from the mean report, which keeps its
    digits: ``a (phi(c1/a - 1) + (k-1) phi(c2/a - 1))``.
    """
    mean = symbols.noise + symbols.theta / k
    above, below = symbols.theta * (k - 1) / (k * mean), -symbols.theta / (k * mean)
    return float(LOG2E * mean * (excess(above) + (k - 1) * excess(below)))


def capacity(
    matrix: npt.ArrayLike, *, tolerance: float = 1e-10, iterations: int = 100_000
) -> float:
    """Capacity of a channel in bits, by Blahut and Arimoto's algorithm.

    Stops when the certified gap between its lower and upper bound is below `tolerance`; returns
    the upper bound, so that what is guaranteed holds.

    Examples
    --------
    >>> round(capacity([[0.75, 0.25], [0.25, 0.75]]), 6)
    0.188722
    """
    q = np.asarray(matrix, dtype=float)
    p = np.full(len(q), 1.0 / len(q))
    for _ in range(iterations):
        gain = divergence_terms(q, p @ q).sum(axis=1)
        upper, lower = float(gain.max()), float(p @ gain)
        if upper - lower < tolerance:
            return upper
        p = p * np.exp2(gain - upper)
        p /= p.sum()
    raise ChannelError(
        f"The capacity lies between {lower:.9g} and {upper:.9g} bits; it was not found to "
        f"{tolerance:g} in {iterations} iterations."
    )
