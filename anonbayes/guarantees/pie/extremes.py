"""What a channel's probabilities have in common, and how far apart they can be.

Two sums over all reports decide much of what follows:

* ``sum_y min_x Q(y|x)``: with this probability a report is noise that any value might have sent.
  The rest, ``theta``, is the share of mutual information that can get through (Doeblin);
* ``sum_y max_x Q(y|x)``: the factor by which a report can improve one guess (maximal leakage).

For bit channels both follow in ``O(K log K)`` from one sort, without listing ``2^K`` reports.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Floats
from anonbayes.channels.base import Channel
from anonbayes.channels.hashing import LocalHashing
from anonbayes.channels.pure import PureChannel
from anonbayes.channels.response import RandomizedResponse, UtilityOptimizedRR
from anonbayes.channels.unary import BitChannel
from anonbayes.guarantees.ldp import largest_ratio

__all__ = ["Symbols", "common_mass", "contraction", "ldp_budget", "total_maximum"]


@dataclass(frozen=True)
class Symbols:
    """Randomized response on ``size`` symbols: all that bounds need to know of such a channel.

    Plain randomized response has as many symbols as there are values; local hashing has ``g``.

    Attributes
    ----------
    size, n_values : int
        Number of symbols, and of values in the domain.
    epsilon : float
        Budget.
    silent : float or None
        Probability of a hash function that says nothing, all others being one-to-one; None when
        hash functions merge values.
    """

    size: int
    n_values: int
    epsilon: float
    silent: float | None = 0.0

    @classmethod
    def of(cls, channel: Channel) -> Symbols | None:
        """Read a channel; None when it is of another kind."""
        size = len(channel.domain)
        if isinstance(channel, RandomizedResponse):
            return cls(size, size, channel.epsilon)
        if isinstance(channel, LocalHashing):
            silent = 1.0 / channel.g if channel.is_invertible else None
            return cls(channel.g, size, channel.epsilon, silent)
        return None

    @property
    def _total(self) -> float:
        return 1.0 + (self.size - 1) * math.exp(-self.epsilon)

    @property
    def own(self) -> float:
        """Probability of the true symbol."""
        return 1.0 / self._total

    @property
    def noise(self) -> float:
        """Probability of each other symbol."""
        return math.exp(-self.epsilon) / self._total

    @property
    def theta(self) -> float:
        """Difference of the two, ``(e-1)/(size+e-1)``."""
        return -math.expm1(-self.epsilon) / self._total

    def used(self, n_users: int) -> int:
        """Different symbols that so many users can hold at most."""
        return min(n_users, self.n_values, self.size)


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
    if (symbols := Symbols.of(channel)) is not None:
        return symbols.theta
    return float(np.clip(1.0 - common_mass(channel), 0.0, 1.0))


def common_mass(channel: Channel) -> float:
    """``sum_y min_x Q(y|x)``."""
    if len(channel.domain) == 1:
        return 1.0
    if isinstance(channel, BitChannel):
        raised, lowered = _factors(channel)
        # The smallest factor belongs to a bit that is not raised, if there is one.
        return _sum_by_bit(1.0 - channel.miss, lowered, np.argsort(lowered), float(raised.min()))
    if isinstance(channel, UtilityOptimizedRR):
        return float(channel.miss.sum())
    return float(channel.matrix().min(axis=0).sum())


def total_maximum(channel: Channel) -> float:
    """``sum_y max_x Q(y|x)``."""
    if len(channel.domain) == 1:
        return 1.0
    if isinstance(channel, BitChannel):
        raised, lowered = _factors(channel)
        decoy = channel.miss > 0
        # A bit that only its own value raises is raised in reports of that value alone.
        quiet = _sum_by_bit(
            channel.miss[decoy],
            raised[decoy],
            np.argsort(-raised[decoy]),
            float(lowered.max()),
        )
        return quiet + float(channel.hit[~decoy].sum())
    if isinstance(channel, UtilityOptimizedRR):
        return float(np.maximum(channel.hit, channel.miss).sum())
    return float(channel.matrix().max(axis=0).sum())


def _factors(channel: BitChannel) -> tuple[Floats, Floats]:
    """``Q(y|x)`` over the probability of ``y`` as noise, by whether the bit of x is raised."""
    with np.errstate(divide="ignore", invalid="ignore"):
        raised = np.where(channel.miss > 0, channel.hit / channel.miss, np.inf)
    return raised, (1.0 - channel.hit) / (1.0 - channel.miss)


def _sum_by_bit(
    chance: Floats, factor: Floats, order: npt.NDArray[np.int64], otherwise: float
) -> float:
    """Mean, over independent bits, of the factor of the first bit in `order` that shows."""
    shows = chance[order]
    not_before = np.concatenate([[1.0], np.cumprod(1.0 - shows)])
    mean = float((not_before[:-1] * shows) @ factor[order])
    return mean + (float(not_before[-1]) * otherwise if not_before[-1] > 0 else 0.0)


def ldp_budget(channel: Channel) -> float:
    """Budget of plain local differential privacy; infinite when some report excludes a value.

    `Channel.epsilon` may be the budget of a weaker notion, such as that of sensitive values only.
    """
    if isinstance(channel, PureChannel):
        return largest_ratio(*channel.log_ratios())
    return channel.epsilon
