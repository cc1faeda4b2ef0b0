"""From reports to support counts: all that the empirical estimator and tuned budgets need."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from anonbayes.channels.pure import PureChannel
from anonbayes.channels.randomness import generator
from anonbayes.channels.reports import SupportCounts
from anonbayes.channels.unary import BitChannel
from anonbayes.errors import ChannelError

__all__ = ["collect_support", "support_of"]

# Raised bits held at a time while reports are drawn only to be counted.
CHUNK = 20_000_000


def support_of(channel: PureChannel, reports: Any) -> SupportCounts:
    """Support counts of reports; given `SupportCounts` are checked and returned."""
    if not isinstance(reports, SupportCounts):
        return SupportCounts(channel.counts(reports), channel.n_reports(reports))
    if len(reports.counts) != len(channel.domain):
        raise ChannelError(
            f"{channel!r} supports {len(channel.domain)} values, there are "
            f"{len(reports.counts)} support counts."
        )
    return reports


def collect_support(
    channel: BitChannel, codes: npt.NDArray[np.integer[Any]], *, seed: Any = None
) -> SupportCounts:
    """Release every user's report and keep the counts only, in bounded memory.

    Examples
    --------
    >>> import anonbayes as ab
    >>> channel = ab.UnaryEncoding(ab.Domain("x", range(3)), 1.0, 0.0)
    >>> collect_support(channel, np.array([0, 2, 2])).counts.tolist()
    [1, 0, 2]
    """
    source = None if seed is None else generator(seed)
    step = max(1, int(CHUNK / (1.0 + float(channel.miss.sum()))))
    total = np.zeros(len(channel.domain), dtype=np.int64)
    for start in range(0, len(codes), step):
        total += channel.release_codes(codes[start : start + step], seed=source).counts()
    return SupportCounts(total, len(codes))
