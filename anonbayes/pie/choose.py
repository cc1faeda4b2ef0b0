"""From information to error, and the channel that guarantees one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.channels.base import Channel
from anonbayes.errors import AnonbayesError, one_of
from anonbayes.figures import make_axes
from anonbayes.pie.bounds import (
    KINDS,
    bayes_error,
    bound,
    check_reports,
    check_users,
    information_for,
    largest_prior,
    symbols_bits,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Choice", "bounds_by_budget", "choose", "family_bits", "plot_bounds"]


# -------------------------------------------------------------------------------------------------
# The weakest noise that keeps a wanted re-identification error.

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
    symbols = channel.symbols() if isinstance(channel, Channel) else None
    if symbols is None:
        return bound(_family(channel)(epsilon), n, t, kind=kind)
    return min(
        check_reports(t) * symbols_bits(replace(symbols, epsilon=epsilon), n, kind),
        float(np.log2(n)),
    )


def _family(channel: Channel | Callable[[float], Channel]) -> Callable[[float], Channel]:
    """Return the channels of the same kind, by budget."""
    return channel.with_epsilon if isinstance(channel, Channel) else channel


# -------------------------------------------------------------------------------------------------
# Bounds against the budget (PIE Figure 4).

LABELS = {
    "general": "any LDP channel (Prop. 10)",
    "theorem": "this channel (theorem)",
    "exact": "supremum (ours)",
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
        Of the wanted kind, of any budget (see `choose`).
    n_users : int
        Number of users.
    epsilons : array-like
        Budgets.
    t : int
        Reports of each user.
    kinds : tuple of str
        Bounds, see `bound`.

    Examples
    --------
    >>> import anonbayes as ab
    >>> channel = ab.RandomizedResponse(ab.IntegerDomain(10_500_393), 1.0)
    >>> frame = ab.pie.bounds_by_budget(channel, 1_370_637, [0.1, 1, 10])
    >>> [f"{bits:.2g}" for bits in frame["general"]], [f"{bits:.2g}" for bits in frame["theorem"]]
    (['0.014', '1.4', '14'], ['2e-07', '3.3e-06', '0.043'])
    """
    budgets = np.asarray(epsilons, dtype=float)
    rows = {
        kind: [family_bits(channel, epsilon, n_users, t, kind) for epsilon in budgets]
        for kind in kinds
    }
    frame = pd.DataFrame(rows, index=pd.Index(budgets, name="epsilon"))
    for kind in kinds:
        frame[f"error_{kind}"] = [bayes_error(bits, n_users) for bits in frame[kind]]
    return frame


def plot_bounds(frame: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """Plot what `bounds_by_budget` returned, bits against budget."""
    ax = make_axes(ax, 5.2, 3.8)
    for kind, style in zip(LABELS, ("--", "-", ":"), strict=True):
        if kind in frame:
            ax.plot(frame.index, frame[kind], style, label=LABELS[kind])
    ax.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="bits about the sender (at most)")
    ax.grid(alpha=0.3)
    ax.legend()
    return ax
