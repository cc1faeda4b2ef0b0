"""A worst-case companion of PIE, which the paper leaves open. Ours.

Mutual information is an average: few senders may be named with certainty while the mean is small.
Its Rényi relatives look at the tail. Sibson's information of order ``a``,

    I_a(U;Y) = a/(a-1) log2 sum_y ( sum_u p(u) Q(y|u)^a )^(1/a),

is the mutual information at ``a = 1``, grows with ``a``, and at ``a = inf`` becomes
``log2 sum_y max_u Q(y|u)``, the maximal leakage: the factor, in bits, by which a report can improve
the adversary's chance to name its sender in one guess. It needs no Fano inequality,

    Bayes error >= 1 - 2^I_inf max_u p(u),

and for equally likely users it is attained. Harder still is to ask for *every* report: from no
report of an eps-LDP channel does the probability of a user rise from ``p`` above
``p e / (p e + 1 - p)``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import sparse

from anonbayes.channels.base import Channel
from anonbayes.errors import AnonbayesError, ChannelError
from anonbayes.guarantees.pie.bounds import bound, check_reports, check_users
from anonbayes.guarantees.pie.errors import largest_prior
from anonbayes.guarantees.pie.extremes import Symbols, ldp_budget, total_maximum
from anonbayes.guarantees.pie.information import conditional, read_joint

__all__ = ["WorstCase", "renyi_bound", "renyi_information", "worst_case"]


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
    symbols = Symbols.of(channel)
    once = np.log2(total_maximum(channel)) if symbols is None else _symbols(symbols, n, order)
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
    certainty = 1.0 / (1.0 + np.exp(-(odds + t * ldp_budget(channel))))
    return WorstCase(bits, float(max(0.0, 1.0 - np.exp2(bits) * top)), float(1.0 - certainty))


def _check_order(order: float) -> None:
    if not order > 1:
        raise AnonbayesError(f"order={order!r} must be above 1 (1 itself is mutual information).")
