"""Traces: what users did, one event after the other; and how they become counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from anonbayes.arrays import Ints
from anonbayes.errors import AnonbayesError

__all__ = ["Traces", "read_traces", "synthetic_traces"]


class Traces:
    """Events of many traces end to end.

    Attributes
    ----------
    events : ndarray of int
        All events, trace after trace.
    starts : ndarray of int, shape (traces + 1,)
        Trace ``i`` is ``events[starts[i]:starts[i + 1]]``.
    """

    def __init__(self, events: Ints, starts: Ints) -> None:
        self.events, self.starts = events, starts

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def lengths(self) -> Ints:
        """Number of events of each trace."""
        return np.diff(self.starts)

    @property
    def owner(self) -> Ints:
        """Trace of each event."""
        return np.repeat(np.arange(len(self)), self.lengths)


def read_traces(*groups: Sequence[Any]) -> list[Traces]:
    """Traces of several groups, with the same code for the same event.

    Parameters
    ----------
    *groups : sequence of sequences
        Each a list of traces (or a matrix, one trace per row) of numbers or texts.

    Examples
    --------
    >>> sent, known = read_traces([["home", "work"]], [["work", "home", "bar"]])
    >>> sent.events.tolist(), known.events.tolist()
    ([0, 1], [1, 0, 2])
    """
    flat, sizes = [], []
    for number, group in enumerate(groups):
        rows = [np.asarray(trace) for trace in group]
        bad = [i for i, row in enumerate(rows) if row.ndim != 1 or len(row) == 0]
        if not rows or bad:
            which = f"trace {bad[0]} of group {number} is no list of events" if bad else "no traces"
            raise AnonbayesError(f"Traces are lists of at least one event each: {which}.")
        sizes.append(np.array([len(row) for row in rows]))
        flat.append(np.concatenate(rows))
    if any(part.dtype.kind == "f" and np.isnan(part).any() for part in flat):
        raise AnonbayesError("A trace contains a missing event (NaN).")
    kinds = {part.dtype.kind in "iufb" for part in flat}
    if len(kinds) > 1:
        raise AnonbayesError("Some traces hold numbers, others texts; they would never match.")
    codes, _ = pd.factorize(np.concatenate(flat))
    out, first = [], 0
    for size in sizes:
        starts = np.concatenate([[0], np.cumsum(size)])
        out.append(Traces(codes[first : first + starts[-1]].astype(np.int64), starts))
        first += int(starts[-1])
    return out


def synthetic_traces(
    n_users: int,
    n_events: int,
    n_places: int,
    *,
    favourites: int = 6,
    wander: float = 0.2,
    seed: int | np.random.Generator | None = 0,
) -> Ints:
    """Made-up traces of users who each have habits: a matrix, users by events.

    A user moves among a few favourite places, drawn by popularity (place ``i`` in proportion to
    ``1/(i+1)``), each visited again and again with her own preference; with probability `wander`
    she goes to any place, by popularity.

    Examples
    --------
    >>> synthetic_traces(2, 5, 1000, seed=1).shape
    (2, 5)
    """
    if min(n_users, n_events, n_places, favourites) < 1 or not 0 <= wander <= 1:
        raise AnonbayesError(
            "Give at least one user, event, place and favourite, and a probability to wander."
        )
    rng = np.random.default_rng(seed)
    ladder = np.cumsum(1.0 / np.arange(1, n_places + 1))
    ladder /= ladder[-1]

    def popular(*shape: int) -> Ints:
        return np.searchsorted(ladder, rng.random(shape)).clip(0, n_places - 1)

    own = popular(n_users, favourites)
    taste = np.cumsum(rng.dirichlet(np.ones(favourites), n_users), axis=1)
    draw = rng.random((n_users, n_events, 1))
    place = (draw > taste[:, None, :-1]).sum(axis=2)
    visits = np.take_along_axis(own, place, axis=1)
    return np.where(rng.random(visits.shape) < wander, popular(*visits.shape), visits)
