"""The weakest noise that keeps a wanted re-identification error."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from anonbayes.channels.base import Channel
from anonbayes.channels.hashing import LocalHashing
from anonbayes.channels.response import RandomizedResponse, UtilityOptimizedRR
from anonbayes.channels.unary import RAPPOR, UnaryEncoding, UtilityOptimizedRAPPOR
from anonbayes.errors import AnonbayesError, ChannelError, one_of
from anonbayes.guarantees.pie.bounds import KINDS, bound, check_reports, check_users, symbols_bits
from anonbayes.guarantees.pie.errors import bayes_error, information_for, largest_prior
from anonbayes.guarantees.pie.extremes import Symbols

__all__ = ["Choice", "choose", "family_bits"]

# At this budget a report is true up to the last digit of a float, whatever the domain.
LARGEST = 80.0


class Choice(float):
    """The largest budget that keeps a wanted re-identification error.

    Attributes
    ----------
    channel : Channel or None
        The channel with that budget; None when none is needed: the values may be released as they
        are once names are removed (PIE Sec. 3.3), and the budget is infinite.
    bits : float
        The bound on ``I(U;Y)``.
    error : float
        The re-identification error that it guarantees.
    """

    channel: Channel | None
    bits: float
    error: float

    def __new__(cls, epsilon: float, channel: Channel | None, bits: float, error: float) -> Choice:
        """Make a float with attributes."""
        self = super().__new__(cls, epsilon)
        self.channel, self.bits, self.error = channel, bits, error
        return self

    @property
    def epsilon(self) -> float:
        """The budget."""
        return float(self)


def choose(
    channel: Channel | Callable[[float], Channel],
    n_users: int,
    target_error: float,
    *,
    t: int = 1,
    kind: str = "theorem",
    prior: float | npt.ArrayLike | None = None,
) -> Choice:
    """Largest epsilon for which nobody can name senders with an error below `target_error`.

    Parameters
    ----------
    channel : Channel or callable
        A channel of the wanted kind, of any budget; or a function from budget to channel. Unary
        encodings become the optimal ones, other parameters (such as ``theta``) their defaults.
    n_users : int
        Number of users.
    target_error : float
        The wanted error, below 1.
    t : int
        Reports of each user.
    kind : {"theorem", "exact", "general"}
        The bound to rely on, see `bound`.
    prior : float or array-like, optional
        Probability of the users before any report (or of the likeliest one); equal by default.

    Returns
    -------
    Choice
        The budget, a float, with the channel, its bits and the error they guarantee.

    Examples
    --------
    >>> import anonbayes as ab
    >>> places = ab.IntegerDomain(10_500_393)
    >>> found = ab.pie.choose(ab.RandomizedResponse(places, 1.0), 1_370_637, 0.92)
    >>> round(found.epsilon, 2), round(found.bits, 3), round(found.error, 3)
    (12.72, 0.631, 0.92)
    >>> ab.pie.choose(ab.RandomizedResponse(ab.IntegerDomain(5), 1.0), 10**8, 0.8).channel is None
    True
    """
    one_of("kind", kind, KINDS)
    n = check_users(n_users)
    family = _family(channel)
    likeliest = largest_prior(n if prior is None else None, prior)
    allowed = information_for(target_error, prior=likeliest)
    if allowed < 0:
        best = bayes_error(0.0, prior=likeliest)
        raise AnonbayesError(
            f"target_error={target_error!r}: even a report that says nothing guarantees an error "
            f"of {best:.4g} only (PIE (10)); aim lower."
        )

    size = len(channel.domain if isinstance(channel, Channel) else family(1.0).domain)
    in_clear = float(min(np.log2(n), t * np.log2(size)))
    if in_clear <= allowed:
        return Choice(float("inf"), None, in_clear, bayes_error(in_clear, prior=likeliest))

    def fits(epsilon: float) -> bool:
        return family_bits(channel, epsilon, n, t, kind) <= allowed

    low, high = 0.0, LARGEST
    if fits(high):
        low = high
    while high - low > 1e-12 * max(1.0, low):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    chosen = family(low)
    found = bound(chosen, n, t, kind=kind)
    return Choice(low, chosen, found, bayes_error(found, prior=likeliest))


def family_bits(
    channel: Channel | Callable[[float], Channel], epsilon: float, n: int, t: int, kind: str
) -> float:
    """`bound` of the channel of the same kind with another budget; it is made only if need be."""
    symbols = Symbols.of(channel) if isinstance(channel, Channel) else None
    if symbols is None:
        return bound(_family(channel)(epsilon), n, t, kind=kind)
    return min(
        check_reports(t) * symbols_bits(replace(symbols, epsilon=epsilon), n, kind),
        float(np.log2(n)),
    )


def _family(channel: Channel | Callable[[float], Channel]) -> Callable[[float], Channel]:
    """Return the channels of the same kind, by budget."""
    if isinstance(channel, RandomizedResponse | RAPPOR):
        kind, domain = type(channel), channel.domain
        return lambda epsilon: kind(domain, epsilon)
    if isinstance(channel, LocalHashing):
        hashed = channel
        return lambda epsilon: LocalHashing(hashed.domain, hashed.g, epsilon)
    if isinstance(channel, UnaryEncoding):
        bits = channel.domain
        return lambda epsilon: UnaryEncoding.optimal(bits, epsilon)
    if isinstance(channel, UtilityOptimizedRR | UtilityOptimizedRAPPOR):
        kind_u, own = type(channel), channel.domain
        sensitive = [own.values[i] for i in np.flatnonzero(channel.sensitive)]
        return lambda epsilon: kind_u(own, sensitive, epsilon)
    if isinstance(channel, Channel):
        raise ChannelError(
            f"{type(channel).__name__} has no budget of its own to choose; give a function from "
            "epsilon to channel."
        )
    return channel
