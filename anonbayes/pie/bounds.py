"""Bounds on the information about identity, the error they leave, and the budget for an error."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.arrays import read_number, read_numbers, read_whole
from anonbayes.channels.base import Channel, Symbols, check_channel
from anonbayes.errors import AnonbayesError, ChannelError, one_of
from anonbayes.figures import SERIES, legend_below, make_axes, plain_log_axis
from anonbayes.notions.ldp import check_epsilon, check_matrix
from anonbayes.pie.information import LOG2E, Number, divergence_terms, excess

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# -------------------------------------------------------------------------------------------------
# Upper bounds on what a report reveals about its sender, whatever the adversary knows (PIE 4).

KINDS = ("best", "exact", "theorem", "general")


def bound(channel: Channel, n_users: int, t: int = 1, *, kind: str = "best") -> float:
    """Return bits ``alpha`` with ``I(U;Y) <= alpha`` for all ``p_UX``: (U, alpha)-PIE privacy.

    Parameters
    ----------
    channel : Channel
        What each user's device runs.
    n_users : int
        Number of users known to the adversary.
    t : int
        Number of reports per user, possibly about correlated values (PIE Theorems 12 and 14).
    kind : {"best", "exact", "theorem", "general"}
        * ``"best"``: the supremum if it has a closed form, which it has for randomized response and
          invertible local hashing; otherwise the smaller of the theorem and the general bound;
        * ``"exact"``: the supremum itself for one report (ours). Without a closed form, this is the
          capacity of the channel, if its matrix can be stored and there are at least as many users
          as values;
        * ``"theorem"``: ``theta min(log2 n, log2 K)`` with the channel's `contraction` (PIE
          Theorems 11 and 13);
        * ``"general"``: from the LDP budget alone (PIE Prop. 10).

    Returns
    -------
    float
        The bound in bits; never more than ``log2 n``.

    Examples
    --------
    >>> import anonbayes as ab
    >>> channel = ab.RandomizedResponse(ab.IntegerDomain(10_500_393), epsilon=1.0)
    >>> [f"{ab.pie.bound(channel, 1_370_637, kind=kind):.3g}"
    ...  for kind in ("general", "theorem", "best")]
    ['1.44', '3.34e-06', '1.37e-07']
    """
    one_of("kind", kind, KINDS)
    check_channel(channel)
    n, reports = read_whole("n_users", n_users, least=1), read_whole("t", t, least=1)
    return min(reports * _one_report(channel, channel.symbols(), n, kind), math.log2(n))


def _one_report(channel: Channel, symbols: Symbols | None, n: int, kind: str) -> float:
    """Bits of one report; for randomized response and local hashing, from the symbols alone."""
    size = len(channel.domain)
    if kind == "theorem":
        theta = contraction(channel) if symbols is None else symbols.theta
        return theta * min(math.log2(n), math.log2(size))
    if kind == "general":
        epsilon = channel.ldp_budget() if symbols is None else symbols.epsilon
        return min(epsilon * LOG2E, epsilon * epsilon * LOG2E, math.log2(size))
    if symbols is not None and symbols.silent is not None:
        return (1.0 - symbols.silent) * _supremum(symbols, symbols.used(n))
    if kind == "best":
        return min(_one_report(channel, symbols, n, other) for other in ("theorem", "general"))
    if symbols is not None:
        raise ChannelError(
            "The exact supremum of local hashing is only known for invertible hash functions "
            "(LocalHashing.invertible); use kind='theorem'."
        )
    if n < size:
        raise ChannelError(
            f"The exact supremum of {channel!r} is only known for at least {size} users, one per "
            f"value, but there are {n}. Use kind='theorem'."
        )
    return capacity(channel.matrix())


def _supremum(symbols: Symbols, k: int) -> float:
    """Supremum for randomized response with ``k = min(n, K)`` symbols in use (MODEL 4).

    By convexity it is best if every user has one value for certain, by symmetry if all are equally
    likely, and more values give more. Divergence from the mean report avoids cancellation.
    """
    mean = symbols.noise + symbols.theta / k
    above, below = symbols.theta * (k - 1) / (k * mean), -symbols.theta / (k * mean)
    return float(LOG2E * mean * (excess(above) + (k - 1) * excess(below)))


def capacity(
    matrix: npt.ArrayLike, *, tolerance: float = 1e-10, iterations: int = 100_000
) -> float:
    """Capacity of a channel in bits, by Blahut and Arimoto's algorithm.

    Stops when the certified gap between the lower and the upper bound is below `tolerance`, and
    returns the upper bound, so that guarantees hold.

    Examples
    --------
    >>> round(capacity([[0.75, 0.25], [0.25, 0.75]]), 6)
    0.188722
    """
    q, gap = check_matrix(matrix), read_number("tolerance", tolerance)
    p = np.full(len(q), 1.0 / len(q))
    for _ in range(read_whole("iterations", iterations, least=1)):
        gain = divergence_terms(q, p @ q).sum(axis=1)
        upper, lower = float(gain.max()), float(p @ gain)
        if upper - lower < gap:
            return upper
        p = p * np.exp2(gain - upper)
        p /= p.sum()
    raise ChannelError(
        f"The capacity lies between {lower:.9g} and {upper:.9g} bits, but was not determined to "
        f"within {gap:g} in {iterations} iterations."
    )


def contraction(channel: Channel) -> float:
    """Largest share ``theta`` of the information that gets through: ``I(U;Y) <= theta I(U;X)``.

    ``theta = 1 - sum_y min_x Q(y|x)``. For randomized response it is ``(e-1)/(K+e-1)``, for local
    hashing ``(e-1)/(g+e-1)``: PIE's loss parameter (Theorems 11 and 13). For every other channel
    the same argument holds if the part of a report that does not depend on the value is treated as
    noise; this extension is ours.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("x", "abc")
    >>> round(ab.pie.contraction(ab.RandomizedResponse(domain, 1.0)), 6)
    0.364175
    >>> round(ab.pie.contraction(ab.UnaryEncoding.optimal(domain, 1.0)), 6)
    0.2932
    """
    if (symbols := check_channel(channel).symbols()) is not None:
        return symbols.theta
    return float(np.clip(1.0 - channel.common_mass(), 0.0, 1.0))


# -------------------------------------------------------------------------------------------------
# From bits to the error of a re-identification attack, and back (PIE Prop. 7, Cor. 8).

Prior = float | npt.ArrayLike


def bayes_error(
    alpha_bits: float | Number,
    n_users: int | npt.ArrayLike | None = None,
    *,
    prior: Prior | None = None,
) -> float:
    """Lower bound on the error of identifying the sender of a report with this much information.

    ``1 + (alpha+1)/log2(max_u p_U(u))``, for equally likely users ``1 - (alpha+1)/log2 n`` (PIE
    (9), (10)); 0 if that is negative.

    Parameters
    ----------
    alpha_bits : float
        ``I(U;Y)`` in bits, or a bound on it.
    n_users : int or array-like, optional
        Number of equally likely users. An array is taken as `prior`.
    prior : float or array-like, optional
        Instead, the probability of each user before the report, or only the largest of them.

    Examples
    --------
    Five income classes and 10^8 users: without any channel, there are at most ``log2 5`` bits.

    >>> round(bayes_error(np.log2(5), 10**8), 3)
    0.875
    >>> round(bayes_error(np.log2(5), prior=0.01), 3)
    0.5
    """
    alpha = read_number("alpha_bits", alpha_bits)
    if not alpha >= 0:
        raise AnonbayesError(f"alpha_bits={alpha_bits!r} must not be negative.")
    top = _largest_prior(n_users, prior)
    if top >= 1:
        return 0.0
    return float(max(0.0, 1.0 + (alpha + 1.0) / np.log2(top)))


def information_for(
    error: float, n_users: int | npt.ArrayLike | None = None, *, prior: Prior | None = None
) -> float:
    """Bits that a report may reveal such that nobody identifies its sender with less than `error`.

    The inverse of `bayes_error`; negative if no number of bits guarantees the error.

    Examples
    --------
    >>> round(information_for(0.8, 10**6), 3), round(information_for(0.5, 10**6), 3)
    (2.986, 8.966)
    """
    wanted = read_number("error", error)
    if not 0 <= wanted <= 1:
        raise AnonbayesError(f"error={error!r} must be a probability.")
    return float(-(1.0 - wanted) * np.log2(_largest_prior(n_users, prior)) - 1.0)


def _largest_prior(n_users: int | npt.ArrayLike | None, prior: Prior | None) -> float:
    """Probability of the likeliest user before any report."""
    if (n_users is None) == (prior is None):
        raise AnonbayesError("Give either n_users (for equally likely users) or prior.")
    if prior is None and read_numbers("n_users", n_users).ndim == 0:
        return 1.0 / read_whole("n_users", n_users, least=1)
    given = read_numbers("prior", n_users if prior is None else prior)
    if given.ndim == 0:
        if not 0 < given <= 1:
            raise AnonbayesError(f"prior={prior!r} is not the probability of the likeliest user.")
        return float(given)
    if given.ndim != 1 or not (given >= 0).all() or abs(given.sum() - 1.0) > 1e-6:
        raise AnonbayesError(f"The prior must be a distribution; it sums to {given.sum():.9g}.")
    return float(given.max())


# -------------------------------------------------------------------------------------------------
# A worst-case complement of PIE, which the paper leaves open. Ours.
#
# Mutual information is an average: a few senders may be identified with certainty although the mean
# is small. The maximal leakage ``log2 sum_y max_u Q(y|u)`` is the factor, in bits, by which a
# report can improve the adversary's chance of identifying its sender with one guess. Without Fano's
# inequality,
#
#     Bayes error >= 1 - 2^leakage max_u p(u),
#
# with equality for equally likely users. A stronger requirement is a bound for *every* report: no
# report of an eps-LDP channel raises the probability of a user from ``p`` above
# ``p e / (p e + 1 - p)``.


@dataclass(frozen=True)
class WorstCase:
    """Guarantees of a channel against a single guess (ours).

    Attributes
    ----------
    bits : float
        Maximal leakage of all reports of a user.
    error : float
        Lower bound on the adversary's error, on average over reports.
    error_of_every_report : float
        The same for every single report, even the worst.
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
    """Compute guarantees against a single guess, on average and for every report. Ours.

    Parameters
    ----------
    channel : Channel
        What each user's device runs.
    n_users : int
        Number of equally likely users. With `prior`, only their number.
    t : int
        Number of reports per user.
    prior : float or array-like, optional
        Probability of the users before any report, or of the likeliest one.

    Examples
    --------
    Where PIE's Theorem 11 and Fano's inequality guarantee an error of 0.92, the true error is 0.97,
    and no report identifies its sender with a probability above 0.2:

    >>> import anonbayes as ab
    >>> channel = ab.RandomizedResponse(ab.IntegerDomain(10_500_393), epsilon=12.72)
    >>> worst = ab.pie.worst_case(channel, 1_370_637)
    >>> round(worst.error, 3), round(worst.error_of_every_report, 3)
    (0.969, 0.804)
    """
    check_channel(channel)
    top = _largest_prior(n_users if prior is None else None, prior)
    if n_users is not None:
        people = read_whole("n_users", n_users, least=1)
    else:
        people = int(np.size(prior)) if np.ndim(prior) else len(channel.domain)  # type: ignore[arg-type]
    symbols = channel.symbols()
    if symbols is None:
        once = float(np.log2(channel.total_maximum()))
    else:
        # k own + (size - k) noise = 1 + (k - 1) theta, for k users with one value each.
        gain = (1.0 - (symbols.silent or 0.0)) * (symbols.used(people) - 1) * symbols.theta
        once = float(np.log1p(gain) * LOG2E)
    bits = min(read_whole("t", t, least=1) * once, math.log2(people))
    odds = np.log(top) - np.log1p(-top) if top < 1 else np.inf
    certainty = 1.0 / (1.0 + np.exp(-(odds + t * channel.ldp_budget())))
    return WorstCase(bits, float(max(0.0, 1.0 - np.exp2(bits) * top)), float(1.0 - certainty))


# -------------------------------------------------------------------------------------------------
# The largest budget that keeps a wanted re-identification error.

# At this budget a report is true up to rounding, whatever the domain.
LARGEST = 80.0


@dataclass(frozen=True, eq=False)
class Choice(Number):
    """The largest budget that keeps a wanted re-identification error; as a number, the budget.

    Attributes
    ----------
    epsilon : float
        The budget.
    channel : Channel or None
        The channel with that budget; None if no channel is needed: once names are removed, values
        may be released as they are (PIE Sec. 3.3), and the budget is infinite.
    bits : float
        The bound on ``I(U;Y)``.
    error : float
        The re-identification error that it guarantees.
    """

    epsilon: float
    channel: Channel | None
    bits: float
    error: float

    def __float__(self) -> float:
        return self.epsilon


def choose(
    channel: Channel | Callable[[float], Channel],
    n_users: int,
    target_error: float,
    *,
    t: int = 1,
    kind: str = "best",
    prior: float | npt.ArrayLike | None = None,
) -> Choice:
    """Find the largest epsilon at which nobody identifies senders with less than `target_error`.

    Parameters
    ----------
    channel : Channel or callable
        A channel of the wanted kind with any budget, or a function from budget to channel. Unary
        encodings become the optimal ones; other parameters (such as ``theta``) become default.
    n_users : int
        Number of users.
    target_error : float
        The wanted error, below 1.
    t : int
        Number of reports per user.
    kind : {"best", "exact", "theorem", "general"}
        The bound to use; see `bound`.
    prior : float or array-like, optional
        Probability of the users before any report (or of the likeliest one); equal by default.

    Returns
    -------
    Choice
        The budget, with the channel, its bits, and the error that they guarantee.

    Examples
    --------
    >>> import anonbayes as ab
    >>> places = ab.IntegerDomain(10_500_393)
    >>> choice = ab.pie.choose(ab.RandomizedResponse(places, 1.0), 1_370_637, 0.92)
    >>> round(choice.epsilon, 2), round(choice.bits, 3), round(choice.error, 3)
    (12.91, 0.631, 0.92)
    >>> ab.pie.choose(ab.RandomizedResponse(ab.IntegerDomain(5), 1.0), 10**8, 0.8).channel is None
    True
    """
    one_of("kind", kind, KINDS)
    n, reports = read_whole("n_users", n_users, least=1), read_whole("t", t, least=1)
    family = channel if callable(channel) else check_channel(channel).with_epsilon
    likeliest = _largest_prior(n if prior is None else None, prior)
    allowed = information_for(target_error, prior=likeliest)
    if allowed < 0:
        best = bayes_error(0.0, prior=likeliest)
        raise AnonbayesError(
            f"target_error={target_error!r} cannot be guaranteed: even an uninformative report "
            f"only guarantees an error of {best:.4g} (PIE (10)); choose a smaller one."
        )

    size = len(channel.domain if isinstance(channel, Channel) else family(1.0).domain)
    in_clear = min(math.log2(n), reports * math.log2(size))
    if in_clear <= allowed:
        return Choice(float("inf"), None, in_clear, bayes_error(in_clear, prior=likeliest))

    def fits(epsilon: float) -> bool:
        return _family_bits(channel, epsilon, n, reports, kind) <= allowed

    low, high = 0.0, LARGEST
    if fits(high):
        low = high
    while high - low > 1e-12 * max(1.0, low):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    chosen = family(low)
    bits = bound(chosen, n, reports, kind=kind)
    return Choice(low, chosen, bits, bayes_error(bits, prior=likeliest))


def _family_bits(
    channel: Channel | Callable[[float], Channel], epsilon: float, n: int, t: int, kind: str
) -> float:
    """`bound` of a channel of the same kind with another budget, constructed only if necessary."""
    if not isinstance(channel, Channel):
        return bound(channel(epsilon), n, t, kind=kind)
    if (symbols := channel.symbols()) is None:
        return bound(channel.with_epsilon(epsilon), n, t, kind=kind)
    once = _one_report(channel, replace(symbols, epsilon=epsilon), n, kind)
    return min(t * once, math.log2(n))


# -------------------------------------------------------------------------------------------------
# Bounds by budget (PIE Figure 4).

LABELS = {
    "general": "any LDP channel",
    "theorem": "this channel, theorem",
    "exact": "this channel, supremum",
}


def bounds_by_budget(
    channel: Channel,
    n_users: int,
    epsilons: npt.ArrayLike,
    *,
    t: int = 1,
    kinds: tuple[str, ...] = ("general", "theorem", "exact"),
) -> pd.DataFrame:
    """Bounds in bits at several budgets, and the Bayes error that each guarantees.

    Parameters
    ----------
    channel : Channel
        A channel of the wanted kind with any budget (see `choose`).
    n_users : int
        Number of users.
    epsilons : array-like
        Budgets.
    t : int
        Number of reports per user.
    kinds : tuple of str
        Kinds of bounds; see `bound`.

    Examples
    --------
    >>> import anonbayes as ab
    >>> channel = ab.RandomizedResponse(ab.IntegerDomain(10_500_393), 1.0)
    >>> frame = ab.pie.bounds_by_budget(channel, 1_370_637, [0.1, 1, 10])
    >>> [f"{bits:.2g}" for bits in frame["general"]], [f"{bits:.2g}" for bits in frame["theorem"]]
    (['0.014', '1.4', '14'], ['2e-07', '3.3e-06', '0.043'])
    """
    for kind in kinds:
        one_of("kinds", kind, KINDS)
    budgets = [check_epsilon(number) for number in read_numbers("epsilons", epsilons).ravel()]
    n, reports = read_whole("n_users", n_users, least=1), read_whole("t", t, least=1)
    rows = {
        kind: [_family_bits(channel, epsilon, n, reports, kind) for epsilon in budgets]
        for kind in kinds
    }
    frame = pd.DataFrame(rows, index=pd.Index(budgets, name="epsilon"))
    for kind in kinds:
        frame[f"error_{kind}"] = [bayes_error(bits, n) for bits in frame[kind]]
    return frame


def plot_bounds(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Plot the result of `bounds_by_budget`, bits against budget."""
    ax = make_axes(ax, 5.4, 4.0)
    for kind, style, colour in zip(LABELS, ("--", "-", ":"), SERIES[:3], strict=True):
        if kind in frame:
            ax.plot(frame.index, frame[kind], style, color=colour, label=LABELS[kind])
    ax.set(xlabel="Privacy budget epsilon", ylabel="Bits about the sender, at most")
    ax.set_title("What a report can reveal about its sender")
    plain_log_axis(ax, "xy")
    legend_below(ax, 3)
    return ax
