"""Randomized mechanisms by the names that scenario files give them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from anonbayes.channels.pure import PureChannel
from anonbayes.channels.response import RandomizedResponse, UtilityOptimizedRR
from anonbayes.channels.unary import RAPPOR, UnaryEncoding, UtilityOptimizedRAPPOR
from anonbayes.domains import Domain

__all__ = ["make_channel"]

ALL: dict[str, Callable[[Domain, float], Any]] = {
    "randomized_response": RandomizedResponse,
    "rappor": RAPPOR,
    "unary_encoding": UnaryEncoding.optimal,
}
SOME: dict[str, Callable[[Domain, Iterable[object], float], Any]] = {
    "utility_optimized_rr": UtilityOptimizedRR,
    "utility_optimized_rappor": UtilityOptimizedRAPPOR.optimal,
}


def make_channel(
    name: str, domain: Domain, epsilon: float, sensitive: Iterable[object] = ()
) -> PureChannel:
    """Return the channel of that name; `sensitive` is for those that protect some values only.

    Examples
    --------
    >>> make_channel("randomized_response", Domain("answer", ["yes", "no"]), 1.0).epsilon
    1.0
    """
    channel: PureChannel = (
        ALL[name](domain, epsilon) if name in ALL else SOME[name](domain, sensitive, epsilon)
    )
    return channel
