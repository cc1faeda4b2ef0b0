"""Bounds against the budget (PIE Figure 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.channels.base import Channel
from anonbayes.guarantees.pie.choose import family_bits
from anonbayes.guarantees.pie.errors import bayes_error

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["bounds_by_budget", "plot_bounds"]

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
    if ax is None:
        from anonbayes.compat.figures import OwnFigure

        ax = OwnFigure(figsize=(5.2, 3.8)).subplots()
    for kind, style in zip(LABELS, ("--", "-", ":"), strict=True):
        if kind in frame:
            ax.plot(frame.index, frame[kind], style, label=LABELS[kind])
    ax.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="bits about the sender (at most)")
    ax.grid(alpha=0.3)
    ax.legend()
    return ax
