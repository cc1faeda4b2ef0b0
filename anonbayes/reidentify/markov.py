"""Matching traces by Markov chains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from anonbayes.arrays import Floats, Ints, read_generator, read_number, read_share, read_whole
from anonbayes.channels.randomness import generator
from anonbayes.domains import gaps
from anonbayes.errors import AnonbayesError
from anonbayes.pie.system_entropy import DetCurve, SystemEntropy, det_curve, system_entropy
from anonbayes.reidentify.budget import Attack, Rate, check_senders

# -------------------------------------------------------------------------------------------------
# Traces: sequences of events of users, and their conversion to counts.


@dataclass(frozen=True, eq=False)
class Traces:
    """Concatenated events of traces; trace ``i`` is ``events[starts[i]:starts[i + 1]]``."""

    events: Ints
    starts: Ints

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


def read_traces(*groups: Sequence[object]) -> list[Traces]:
    """Traces of several groups of lists (or matrices, one trace per row), with common codes."""
    flat, sizes = [], []
    for number, group in enumerate(groups):
        rows = [_read_trace(trace) for trace in group] if _is_list(group) else []
        bad = [i for i, row in enumerate(rows) if row is None]
        if not rows or bad:
            which = (
                f"trace {bad[0]} of group {number} is not a list of events" if bad else "no traces"
            )
            raise AnonbayesError(f"Traces are lists of at least one event each: {which}.")
        known = [row for row in rows if row is not None]
        missing = [i for i, row in enumerate(known) if gaps(pd.Series(row), where="A trace").any()]
        if missing:
            raise AnonbayesError(f"Trace {missing[0]} of group {number} has a missing event.")
        sizes.append(np.array([len(row) for row in known]))
        try:
            flat.append(np.concatenate(known))
        except TypeError as error:
            raise AnonbayesError(f"Traces of group {number} mix kinds of events: {error}") from None
    if len({"n" if part.dtype.kind in "iufb" else part.dtype.kind for part in flat} - {"O"}) > 1:
        raise AnonbayesError("Some traces contain numbers and others texts, which never match.")
    codes, _ = pd.factorize(np.concatenate(flat))
    out, first = [], 0
    for size in sizes:
        starts = np.concatenate([[0], np.cumsum(size)])
        out.append(Traces(codes[first : first + starts[-1]].astype(np.int64), starts))
        first += int(starts[-1])
    return out


def _is_list(given: object) -> bool:
    return (
        isinstance(given, Sequence | np.ndarray | pd.Series)
        and not isinstance(given, str)
        and (not isinstance(given, np.ndarray) or given.ndim > 0)
    )


def _read_trace(trace: object) -> npt.NDArray[Any] | None:
    """Return the events of a trace; None if this is not a list of events."""
    if not _is_list(trace):
        return None
    try:
        row = np.asarray(trace)
    except ValueError:
        return None
    return row if row.ndim == 1 and len(row) else None


def synthetic_traces(
    n_users: int,
    n_events: int,
    n_places: int,
    *,
    favourites: int = 6,
    wander: float = 0.2,
    seed: int | np.random.Generator | None = 0,
) -> Ints:
    """Simulate traces of users with habits; returns a matrix, users by events.

    A user moves among a few favourite places, drawn by popularity (place ``i`` in proportion to
    ``1/(i+1)``), each visited repeatedly with her own preference; with probability `wander` she
    goes to any place, by popularity.

    Examples
    --------
    >>> synthetic_traces(2, 5, 1000, seed=1).shape
    (2, 5)
    """
    n_users = read_whole("n_users", n_users, least=1)
    n_events = read_whole("n_events", n_events, least=1)
    n_places = read_whole("n_places", n_places, least=1)
    favourites = read_whole("favourites", favourites, least=1)
    if n_users * max(n_events, favourites) * favourites > MOST_VISITS or n_places > MOST_VISITS:
        raise AnonbayesError(f"That is more than {MOST_VISITS:,} visits or places; give fewer.")
    if not 0 <= read_number("wander", wander) <= 1:
        raise AnonbayesError(f"wander={wander!r} must be a probability.")
    rng = read_generator(seed)
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


# -------------------------------------------------------------------------------------------------
# The Markov matcher, which finds the user whose habits explain a trace best (PIE Sec. 5.1).

# Number of scores held at a time.
BLOCK = 8_000_000
MOST_VISITS = 2_000_000_000
"""Most places that are examined or simulated when traces are drawn."""


@dataclass(frozen=True, eq=False)
class MarkovAttack(Attack):
    """An attack by scores: the user with the best score is named, those with the best few listed.

    Attributes
    ----------
    genuine : ndarray, shape (n,)
        Log-likelihood of each trace under its sender's model.
    impostor : ndarray, shape (n, m)
        The same under the models of `m` random other users.
    above, tied : ndarray of int, shape (n,)
        Number of users with a better score than the sender, and with the same (including her).
    n_users : int
        Number of users who may be the sender.
    """

    genuine: Floats = field(kw_only=True, repr=False)
    impostor: Floats = field(kw_only=True, repr=False)
    above: Ints = field(kw_only=True, repr=False)
    tied: Ints = field(kw_only=True, repr=False)
    n_users: int = field(kw_only=True)

    def top(self, k: int = 1) -> Rate:
        """Share of traces whose sender is among the `k` best scores; ties in random order.

        ``top(1)`` is the identification rate of the best-score rule.
        """
        if read_whole("k", k, least=1) > self.n_users:
            raise AnonbayesError(f"k={k!r} must be at most the number of users, {self.n_users}.")
        named = np.clip((k - self.above) / self.tied, 0.0, 1.0)
        return Rate(float(named.mean()), len(named), float(named.std() / np.sqrt(len(named))))

    def system_entropy(self, *, k: int = 1) -> SystemEntropy:
        """PSE of the scores, in bits, in the limit of many users; `k` neighbours.

        The scores of all traces are pooled. If the likelihoods of rare and common traces differ
        much, this loses information.
        """
        return system_entropy(self.genuine, self.impostor, k=k)

    def det_curve(self) -> DetCurve:
        """Detection error tradeoff of the scores."""
        return det_curve(self.genuine, self.impostor)


def markov_attack(
    traces: Sequence[object],
    training: Sequence[object],
    *,
    senders: npt.ArrayLike | None = None,
    floor: float = 1e-8,
    impostors: int = 100,
    seed: int | np.random.Generator | None = 0,
) -> MarkovAttack:
    """Identify the sender of each trace by users' transition habits.

    For each user, a visit distribution and a transition matrix are counted from her training trace;
    the score of a trace is its log-likelihood, the first event by visits, the others by
    transitions. Probabilities of zero become `floor`.

    Parameters
    ----------
    traces : sequence of sequences
        What was sent, possibly through a channel: one trace per row, numbers or texts.
    training : sequence of sequences
        What the adversary knows about each user. Other data of the same people make it a
        partial-knowledge attack, the same traces before the channel a maximum-knowledge attack.
    senders : array-like of int, optional
        Position in `training` of each trace's sender; by default the same position.
    floor : float
        Replaces probabilities of zero.
    impostors : int
        Number of impostor scores kept for each trace.
    seed : int, Generator or None
        Seed for ties and for the choice of impostors.

    Examples
    --------
    >>> import anonbayes as ab
    >>> habits = ab.reidentify.synthetic_traces(200, 60, 1000, seed=1)
    >>> attack = ab.reidentify.markov_attack(habits[:, 30:], habits[:, :30])
    >>> attack.top(1).share, attack.top(10).share
    (0.945, 0.995)
    """
    sent, known = read_traces(traces, training)
    n, n_users = len(sent), len(known)
    read_share("floor", floor, "a small probability")
    if n_users < 2:
        raise AnonbayesError("There is only one user; identification needs the traces of several.")
    right = check_senders(senders, n, n_users)
    counts, habits = _features(sent, known, floor)
    rng = generator(seed, "markov_attack")
    kept = min(read_whole("impostors", impostors, least=1), n_users - 1)
    genuine, impostor = np.empty(n), np.empty((n, kept))
    above, tied, guess = (np.empty(n, dtype=np.int64) for _ in range(3))
    base = sent.lengths * np.log(floor)
    step = max(1, BLOCK // n_users)
    for start in range(0, n, step):
        rows = slice(start, min(start + step, n))
        scores = (counts[rows] @ habits).toarray()
        owners = right[rows]
        place = np.arange(len(owners))
        own = scores[place, owners][:, None]
        # Sums of the same terms in another order may differ in the last digits.
        room = 1e-9 * np.maximum(1.0, np.abs(own))
        above[rows] = (scores > own + room).sum(axis=1)
        tied[rows] = (np.abs(scores - own) <= room).sum(axis=1)
        guess[rows] = _best(scores, rng)
        others = _others(owners, n_users, kept, rng)
        genuine[rows] = own[:, 0] + base[rows]
        impostor[rows] = np.take_along_axis(scores, others, axis=1) + base[rows, None]
    success = np.clip((1 - above) / tied, 0.0, 1.0)
    return MarkovAttack(
        "markov",
        guess,
        right,
        success,
        genuine=genuine,
        impostor=impostor,
        above=above,
        tied=tied,
        n_users=n_users,
    )


def _features(
    sent: Traces, known: Traces, floor: float
) -> tuple[sparse.csr_array, sparse.csr_array]:
    """Counts of each trace's steps, and how much each user's habits raise a step's score."""
    size = int(max(sent.events.max(), known.events.max())) + 1
    user, origin, target = _transitions(known)
    owners = np.concatenate([known.owner, user])
    done = np.concatenate([size * size + known.events, origin * size + target])
    names, place = np.unique(done, return_inverse=True)
    seen = sparse.csr_array(
        (np.ones(len(done)), (place, owners)), shape=(len(names), len(known))
    ).tocoo()
    step, who = (coordinate.astype(np.int64) for coordinate in seen.coords)
    # A visit is a share of the user's visits, a transition a share of those from its origin.
    parent = who * (size + 1) + np.minimum(names[step] // size, size)
    _, group = np.unique(parent, return_inverse=True)
    share = seen.data / np.bincount(group, weights=seen.data)[group]
    habits = sparse.csr_array((np.log(share) - np.log(floor), (step, who)), shape=seen.shape)
    trace, origin, target = _transitions(sent)
    begin = sent.starts[:-1]
    asked = np.concatenate([size * size + sent.events[begin], origin * size + target])
    rows = np.concatenate([np.arange(len(sent)), trace])
    place = np.searchsorted(names, asked).clip(0, len(names) - 1)
    met = names[place] == asked
    counts = sparse.csr_array(
        (np.ones(int(met.sum())), (rows[met], place[met])), shape=(len(sent), len(names))
    )
    return counts, habits


def _transitions(traces: Traces) -> tuple[Ints, Ints, Ints]:
    """Trace, origin and target of every step within a trace."""
    owner = traces.owner
    inside = np.flatnonzero(owner[1:] == owner[:-1])
    return owner[inside], traces.events[inside], traces.events[inside + 1]


def _best(scores: Floats, rng: np.random.Generator) -> Ints:
    """User with the best score in each row, at random if several have it."""
    guess = scores.argmax(axis=1)
    best = scores.max(axis=1, keepdims=True)
    candidates = scores >= best - 1e-9 * np.maximum(1.0, np.abs(best))
    shared = np.flatnonzero(candidates.sum(axis=1) > 1)
    draw = rng.random((len(shared), scores.shape[1]))
    guess[shared] = np.where(candidates[shared], draw, -1.0).argmax(axis=1)
    return guess


def _others(owners: Ints, n_users: int, kept: int, rng: np.random.Generator) -> Ints:
    """Random users other than the sender; if `kept` is all of them, each exactly once."""
    if kept == n_users - 1:
        draw = np.tile(np.arange(kept), (len(owners), 1))
    else:
        draw = rng.integers(0, n_users - 1, (len(owners), kept))
    draw[draw >= owners[:, None]] += 1
    return draw
