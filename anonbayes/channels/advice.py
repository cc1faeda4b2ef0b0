"""Which mechanism to choose: all that satisfy the guarantee, most accurate first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy.typing as npt

from anonbayes.arrays import read_whole
from anonbayes.channels.pure import PureChannel
from anonbayes.channels.registry import MECHANISMS
from anonbayes.domains import Domain
from anonbayes.errors import ChannelError
from anonbayes.notions.ldp import LDP, Notion
from anonbayes.notions.uldp import ULDP

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

__all__ = ["Advice", "choose_channel"]


@dataclass(frozen=True)
class Advice:
    """Mechanisms that satisfy a guarantee, most accurate first.

    Attributes
    ----------
    notion : Notion
        The guarantee; every channel was audited for it.
    n : int
        Number of reports.
    norm : str
        Of the loss.
    channels : mapping of str to Channel
        By name of the mechanism, best first.
    losses : tuple of float
        Expected loss of each channel's empirical estimate: its maximum over all distributions,
        unless a distribution was given.
    """

    notion: Notion
    n: int
    norm: str
    channels: Mapping[str, PureChannel]
    losses: tuple[float, ...]

    @property
    def best(self) -> PureChannel:
        """The channel with the smallest loss."""
        return next(iter(self.channels.values()))

    @property
    def table(self) -> pd.DataFrame:
        """One row per mechanism: expected loss, its ratio to the best one, and what is sent."""
        import pandas as pd

        return pd.DataFrame(
            {
                "loss": self.losses,
                "times_best": [loss / self.losses[0] for loss in self.losses],
                "report": [MECHANISMS[name].title for name in self.channels],
            },
            index=pd.Index(list(self.channels), name="mechanism"),
        )

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Expected losses on a logarithmic scale, labelled with multiples of the smallest."""
        from anonbayes.figures import SERIES, make_axes, plain_log_axis

        ax = make_axes(ax, 6.0, 1.2 + 0.3 * len(self.losses))
        names = [name.replace("_", " ") for name in self.channels]
        ax.plot(self.losses, names, "o", color=SERIES[0])
        for name, loss in zip(names, self.losses, strict=True):
            ax.annotate(f"×{loss / self.losses[0]:.3g}", (loss, name), xytext=(7, 0),
                        textcoords="offset points", va="center", fontsize=8)  # fmt: skip
        ax.invert_yaxis()
        ax.margins(x=0.12)
        ax.grid(axis="y", alpha=0.3)
        kind = "squared" if self.norm == "l2" else "absolute"
        ax.set(xlabel=f"Expected sum of {kind} errors, {self.n:,} reports")
        ax.set_title("Mechanisms that satisfy the guarantee")
        plain_log_axis(ax)
        return ax


def choose_channel(
    domain: Domain,
    epsilon: float,
    n: int,
    *,
    sensitive: Iterable[Any] | None = None,
    p: npt.ArrayLike | None = None,
    norm: str = "l2",
) -> Advice:
    """Compare all mechanisms that satisfy a guarantee by their expected errors.

    Parameters
    ----------
    domain : Domain
        The values.
    epsilon : float
        Budget, positive.
    n : int
        Number of reports.
    sensitive : iterable, optional
        The values to protect. If given, the guarantee is ULDP; otherwise it is LDP.
    p : array-like, mapping or pandas.Series, optional
        Expected distribution; without it, mechanisms are compared by their worst cases.
    norm : {"l1", "l2"}
        ``sum |p_hat - p|`` or ``sum (p_hat - p)^2``.

    Returns
    -------
    Advice
        Audited channels and their expected losses, best first.

    Examples
    --------
    >>> import anonbayes as ab
    >>> domain = ab.Domain("region", range(100))
    >>> advice = ab.choose_channel(domain, epsilon=1.0, n=10_000)
    >>> list(advice.channels)[0], advice.table["times_best"].round(2).tolist()[-1]
    ('subset_selection', 9.61)
    >>> list(ab.choose_channel(domain, 1.0, 10_000, sensitive=range(5)).channels)[0]
    'utility_optimized_rr'
    """
    read_whole("n", n, least=1, error=ChannelError)
    chosen = None if sensitive is None else list(sensitive)
    notion: Notion = LDP(epsilon) if chosen is None else ULDP(chosen, epsilon)
    rows = []
    for name, mechanism in MECHANISMS.items():
        options = {} if chosen is None else {"sensitive": chosen}
        if mechanism.numeric or not set(mechanism.needs) <= options.keys():
            continue
        needed = {option: options[option] for option in mechanism.needs}
        channel = mechanism.make(domain, epsilon, **needed)
        if not channel.satisfies(notion).holds:
            continue
        if p is None:
            loss = channel.worst_case_loss(n, norm=norm)
        else:
            loss = channel.expected_loss(p, n, norm=norm)
        rows.append((loss, name, channel))
    rows.sort(key=lambda row: row[0])
    return Advice(
        notion,
        int(n),
        norm,
        {name: channel for _, name, channel in rows},
        tuple(loss for loss, _, _ in rows),
    )
