"""Support counts: how many of ``n`` reports support each value.

They are all that the empirical estimator, its intervals and the tuning of budgets need. Of bit
channels they can be drawn without drawing any report, at a cost that does not grow with ``n``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from anonbayes.channels.pure import PureChannel
from anonbayes.channels.unary import BitChannel
from anonbayes.errors import ChannelError

__all__ = ["Support", "collect_support", "draw_support", "support_of"]

# Raised bits held at a time while reports are drawn only to be counted.
CHUNK = 20_000_000


class Support(NamedTuple):
    """Number of supporting reports of each value, and number of reports."""

    counts: npt.NDArray[np.int64]
    n: int


def support_of(channel: PureChannel, reports: Any) -> Support:
    """Support counts of reports; a `Support` is checked and returned as it is."""
    if not isinstance(reports, Support):
        return Support(channel.counts(reports), channel.n_reports(reports))
    counts = np.asarray(reports.counts, dtype=np.int64)
    if counts.shape != (len(channel.domain),):
        raise ChannelError(
            f"{channel!r} supports {len(channel.domain)} values, the counts have shape "
            f"{counts.shape}."
        )
    if len(counts) and not 0 <= int(counts.min()) <= int(counts.max()) <= reports.n:
        raise ChannelError(
            f"Support counts from {counts.min()} to {counts.max()} do not fit {reports.n} reports."
        )
    return Support(counts, int(reports.n))


def draw_support(
    channel: BitChannel, counts: npt.ArrayLike, *, seed: int | np.random.Generator | None = None
) -> Support:
    """Support counts of users of whom ``counts[x]`` hold value ``x``, drawn bit by bit.

    Bit ``x`` is raised by ``Binomial(c, a) + Binomial(n - c, b)`` users, independently of the
    other bits: the same distribution as releasing ``n`` reports and counting them. For
    simulations; a device releases with the channel itself.

    Examples
    --------
    >>> import anonbayes as ab
    >>> channel = ab.UnaryEncoding.optimal(ab.Domain("x", ["a", "b"]), epsilon=1.0)
    >>> draw_support(channel, [900, 100], seed=1).counts.tolist()
    [469, 283]
    """
    held = np.asarray(counts)
    if held.shape != (len(channel.domain),) or (held < 0).any():
        raise ChannelError(f"Give how many users hold each of the {len(channel.domain)} values.")
    rng = np.random.default_rng(seed)
    n = int(held.sum())
    raised = rng.binomial(held, channel.hit) + rng.binomial(n - held, channel.miss)
    return Support(raised.astype(np.int64), n)


def collect_support(
    channel: BitChannel, codes: npt.NDArray[np.integer[Any]], *, seed: Any = None
) -> Support:
    """Release every user's report and keep the counts only, in bounded memory."""
    source = None if seed is None else np.random.default_rng(seed)
    step = max(1, int(CHUNK / (1.0 + float(channel.miss.sum()))))
    total = np.zeros(len(channel.domain), dtype=np.int64)
    for start in range(0, len(codes), step):
        total += channel.release_codes(codes[start : start + step], seed=source).counts()
    return Support(total, len(codes))
