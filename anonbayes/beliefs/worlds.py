"""Small releases about the same people: all worlds in which all of them are true (MODEL 1.10).

A world says who is who and, for Anatomy releases, who has which secret. Given a world, attributes
and secrets are independent, so its probability is proportional to the product over them of

    Z_as = E[ prod_j sum_k w_j(k) pi(k) ],    pi ~ Dir(beta_a^s),

over the people j with secret s, where ``w_j`` is the product of what the releases show about a
person: nested or crossing cells, values in clear, noise. Beliefs are ratios of such numbers, so
nothing is simulated. As many people as possible are identified with each other, and all ways to
match them are equally likely.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import softmax

from anonbayes.arrays import Floats, Ints
from anonbayes.beliefs.victims import Victims
from anonbayes.errors import TableError
from anonbayes.inference.dirichlet import Prior
from anonbayes.tables.table import ReleasedTable

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior


MOST_ROWS, MOST_STATES, MOST_WORLDS = 40, 5_000, 2_000
"""Most rows of all releases, and most different worlds on the way and in the end."""

OUTSIDE = -1


class TooManyError(Exception):
    """Too many worlds to enumerate."""


class Person(NamedTuple):
    """A person in a world, or a row of a release: secret, group, key, and what is shown.

    `group` is the group in the first release, or `OUTSIDE`; `key` is -1 if records are matched;
    `secret` is -1 in rows of an Anatomy; `shown` has the number of a weight vector per attribute.
    """

    secret: int
    group: int
    key: int
    shown: tuple[int, ...]


World = tuple[tuple[Person, int], ...]
"""Distinct people, with their numbers."""


def log_evidence(beta: Floats, weights: Floats, most: float = math.inf) -> float:
    """``log E[prod_j sum_k w_j(k) pi(k)]`` for ``pi ~ Dir(beta)``, by urns.

    Values are drawn one after another: the next is k with probability ``(beta_k + n_k) / (beta_0 +
    n)``, and ways to the same counts are added up. Values to which all weights are equal are
    merged. Raises `TooManyError` for more than `most` different counts.
    """
    distinct, place = np.unique(weights, axis=1, return_inverse=True)
    lumped = np.bincount(np.ravel(place), beta, minlength=distinct.shape[1]).astype(float)
    rows = distinct[np.lexsort(distinct.T)]
    rows = rows[np.argsort((rows > 0).sum(axis=1), kind="stable")]
    start = float(beta.sum())
    states = {(0,) * len(lumped): 1.0}
    for number, row in enumerate(rows):
        after: dict[tuple[int, ...], float] = defaultdict(float)
        options = [(int(k), float(row[k])) for k in np.flatnonzero(row)]
        for counts, mass in states.items():
            for k, weight in options:
                new = (*counts[:k], counts[k] + 1, *counts[k + 1 :])
                after[new] += mass * weight * (lumped[k] + counts[k]) / (start + number)
        if len(after) > most:
            raise TooManyError
        states = after
    total = sum(states.values())
    return math.log(total) if total > 0 else -math.inf


@dataclass(frozen=True, eq=False)
class _Weights:
    """Numbered weight vectors over the values of each attribute."""

    sizes: tuple[int, ...]
    vectors: list[list[Floats]]
    numbers: list[dict[bytes, int]] = field(default_factory=list)
    products: dict[tuple[int, int, int], int] = field(default_factory=dict)

    @classmethod
    def of(cls, sizes: Sequence[int]) -> _Weights:
        out = cls(tuple(sizes), [[] for _ in sizes], [{} for _ in sizes])
        for a, size in enumerate(sizes):
            out.number(a, np.ones(size))  # number 0: nothing is known
        return out

    def number(self, a: int, vector: Floats) -> int:
        """Return the number of a vector, adding it if it is new."""
        key = np.ascontiguousarray(vector, dtype=float).tobytes()
        if key not in self.numbers[a]:
            self.numbers[a][key] = len(self.vectors[a])
            self.vectors[a].append(np.asarray(vector, dtype=float))
        return self.numbers[a][key]

    def product(self, a: int, one: int, two: int) -> int | None:
        """Return the number of the product of two vectors, or None if no value remains."""
        key = (a, min(one, two), max(one, two))
        if key not in self.products:
            vector = self.vectors[a][one] * self.vectors[a][two]
            self.products[key] = self.number(a, vector) if vector.any() else -1
        return None if self.products[key] < 0 else self.products[key]

    def meet(self, one: tuple[int, ...], two: tuple[int, ...]) -> tuple[int, ...] | None:
        """Combine what two rows show about one person; None if they cannot be the same."""
        out = [self.product(a, x, y) for a, (x, y) in enumerate(zip(one, two, strict=True))]
        return None if None in out else tuple(out)  # type: ignore[arg-type]


@dataclass(frozen=True, eq=False)
class Worlds:
    """All worlds compatible with several releases, and their probabilities. See `list_worlds`."""

    prior: Prior  # for the values of all releases together
    worlds: tuple[World, ...]  # the people in each
    ways: Floats  # number of ways to match people and assign secrets that lead to each
    _weights: _Weights
    _known: dict[tuple[int, int, tuple[int, ...]], float] = field(default_factory=dict)

    @property
    def matchings(self) -> float:
        """Number of ways to match the people of the releases."""
        return float(self.ways.sum())

    @cached_property
    def share(self) -> Floats:
        """Probability of each world."""
        log = np.log(self.ways)
        for w, world in enumerate(self.worlds):
            counts = self._counts(world)
            log[w] += sum(_log_rising(a, n) for a, n in zip(self.prior.alpha, counts, strict=True))
            log[w] -= _log_rising(self.prior.alpha.sum(), counts.sum())
            for s in np.flatnonzero(counts).tolist():
                shown = _shown(world, s)
                log[w] += sum(self._log(a, s, x, MOST_STATES) for a, x in enumerate(shown))
        return np.asarray(softmax(log))

    def learner(self, victims: Victims) -> Floats:
        """``p_L(s, what is known)`` of the population."""
        out = np.zeros((len(victims), len(self.prior.alpha)))
        known = self._numbers(victims)
        for share, world in zip(self.share, self.worlds, strict=True):
            weight = self.prior.alpha + self._counts(world)
            for s in range(len(weight)):
                shown = _shown(world, s) or [()] * len(self._weights.sizes)
                before = [self._log(a, s, column) for a, column in enumerate(shown)]
                for v, numbers in enumerate(known):
                    log = sum(
                        self._log(a, s, (*column, numbers[a])) - before[a]
                        for a, column in enumerate(shown)
                    )
                    out[v, s] += share * weight[s] / weight.sum() * math.exp(log)
        return out

    def expected(self, victims: Victims, *, evenly: bool = False) -> tuple[Floats, Ints]:
        """Expected rows of the first release that are each victim's, by secret, and how many match.

        With `evenly`, as under random worlds, all cleartext tables are equally likely.
        """
        out = np.zeros((len(victims), len(self.prior.alpha)))
        fitting = np.zeros(len(victims), dtype=np.int64)
        known = self._numbers(victims)
        groups = np.full(len(victims), -1) if victims.group is None else victims.group
        share = self._even_share if evenly else self.share
        for w, world in enumerate(self.worlds):
            for v, numbers in enumerate(known):
                for person, count in world:
                    met = self._weights.meet(person.shown, numbers)
                    there = person.group != OUTSIDE and groups[v] in (-1, person.group)
                    if met is None or not there:
                        continue
                    fitting[v] += 1
                    if evenly:
                        fit = self._size(met) - self._size(person.shown)
                    else:
                        fit = self._fit(world, person, met)
                    out[v, person.secret] += share[w] * count * math.exp(fit)
        return out, fitting

    @cached_property
    def _even_share(self) -> Floats:
        """Share of the cleartext tables that belong to each world."""
        log = np.log(self.ways)
        log += [sum(n * self._size(person.shown) for person, n in world) for world in self.worlds]
        return np.asarray(softmax(log))

    def _size(self, shown: tuple[int, ...]) -> float:
        """Log of the number of records that a person may have."""
        return float(sum(math.log(self._weights.vectors[a][x].sum()) for a, x in enumerate(shown)))

    def _fit(self, world: World, person: Person, met: tuple[int, ...]) -> float:
        """``log P(a person of the world matches the knowledge | world)``."""
        log = 0.0
        for a, column in enumerate(_shown(world, person.secret)):
            if met[a] != person.shown[a]:
                rest = list(column)
                rest.remove(person.shown[a])
                log += self._log(a, person.secret, (*rest, met[a]))
                log -= self._log(a, person.secret, column)
        return log

    def _counts(self, world: World) -> Ints:
        counts = np.zeros(len(self.prior.alpha), dtype=np.int64)
        for person, number in world:
            counts[person.secret] += number
        return counts

    def _log(self, a: int, secret: int, shown: tuple[int, ...], most: float = math.inf) -> float:
        """`log_evidence` of the people with one secret, by what is shown of one attribute."""
        key = (a, secret, tuple(sorted(x for x in shown if x)))  # 0 excludes nothing
        if key not in self._known:
            beta = list(self.prior.beta.values())[a][secret]
            vectors = [self._weights.vectors[a][x] for x in key[2]]
            self._known[key] = log_evidence(beta, np.array(vectors), most) if vectors else 0.0
        return self._known[key]

    def _numbers(self, victims: Victims) -> list[tuple[int, ...]]:
        """Numbers of the weight vectors for what is known about each victim."""
        columns = []
        for a, size in enumerate(self._weights.sizes):
            if a >= len(victims.weights):
                columns.append([0] * len(victims))
                continue
            pieces = []
            for row in victims.weights[a].toarray():
                rest = 1.0 if (row == 1.0).all() else 0.0  # values only in other releases
                vector = np.append(row, np.full(size - len(row), rest))
                pieces.append(self._weights.number(a, vector))
            columns.append([pieces[code] for code in victims.codes[:, a]])
        return list(zip(*columns, strict=True))


def _shown(world: World, secret: int) -> list[tuple[int, ...]]:
    """What is shown about the people with a secret, by attribute."""
    people = [person.shown for person, n in world if person.secret == secret for _ in range(n)]
    return list(zip(*people, strict=True))


def _log_rising(start: float, number: float) -> float:
    return math.lgamma(start + number) - math.lgamma(start)


# -- enumeration ----------------------------------------------------------------------------------


def list_worlds(posts: Sequence[Posterior], keys: Sequence[Ints] | None) -> Worlds | None:
    """List all worlds in which several small releases are true; None if there are too many.

    `keys` identify the person of every line; if None, any matching rows may be the same person.
    """
    tables = [post.table for post in posts]
    if sum(table.n_rows for table in tables) > MOST_ROWS or any(
        not t.secrets_known or t.weights is not None or post.evidence != "independent"
        for t, post in zip(tables, posts, strict=True)
    ):
        return None
    secrets = list(dict.fromkeys(x for t in tables for x in t.secret.domain.labels))
    names = list(dict.fromkeys(name for t in tables for name in t.attributes))
    values = {
        name: list(
            dict.fromkeys(x for t in tables if name in t.columns for x in t.domains[name].labels)
        )
        for name in names
    }
    weights = _Weights.of([len(values[name]) for name in names])
    states: dict[World, float] = {(): 1.0}
    try:
        for e, table in enumerate(tables):
            key = np.full(table.n_rows, -1) if keys is None else keys[e]
            rows, stock = _rows(table, secrets, values, weights, key)
            fewest = max(0, len(rows) - sum(n for _, n in next(iter(states))))
            for new in range(fewest, len(rows) + 1):
                if found := _extend(states, rows, stock, weights, new, first=e == 0):
                    break
            else:
                raise TableError(
                    f"No cleartext fits release {e + 1} and those before it: the people or their "
                    "sensitive values differ. Check the keys, and that values are spelled alike."
                )
            states = found
        merged: dict[World, float] = defaultdict(float)
        for world, ways in states.items():
            people: Counter[Person] = Counter()
            for person, n in world:
                people[person._replace(key=-1)] += n
            merged[tuple(sorted(people.items()))] += ways
        if len(merged) > MOST_WORLDS:
            return None
        prior = _joint_prior(posts, secrets, values)
        listed = Worlds(prior, tuple(merged), np.array([*merged.values()]), weights)
        return listed if listed.share.size else None
    except TooManyError:
        return None


def _joint_prior(
    posts: Sequence[Posterior], secrets: list[str], values: dict[str, list[str]]
) -> Prior:
    """Prior of all secrets and values: that of the first release that has them."""
    alpha = np.ones(len(secrets))
    beta = {name: np.ones((len(secrets), len(known))) for name, known in values.items()}
    for post in reversed(posts):
        own = [secrets.index(x) for x in post.table.secret.domain.labels]
        alpha[own] = post.prior.alpha
        for name in post.table.attributes:
            at = [values[name].index(x) for x in post.table.domains[name].labels]
            beta[name][np.ix_(own, at)] = post.prior.beta[name]
    return Prior(alpha, beta)


def _rows(
    table: ReleasedTable,
    secrets: list[str],
    values: dict[str, list[str]],
    weights: _Weights,
    key: Ints,
) -> tuple[list[Person], dict[int, tuple[int, ...]]]:
    """Rows of a release by group, and the secrets available in the groups of an Anatomy."""
    shown = np.zeros((table.n_rows, len(values)), dtype=np.int64)
    for a, name in enumerate(values):
        if name in table.columns:
            column = table.columns[name]
            at = [values[name].index(x) for x in column.domain.labels]
            cells = np.zeros((len(column.evidence), len(values[name])))
            cells[:, at] = column.evidence.matrix.toarray()
            shown[:, a] = np.array([weights.number(a, cell) for cell in cells])[column.codes]
    place = np.array([secrets.index(x) for x in table.secret.domain.labels])
    secret, group, stock = place[table.secret_codes], np.zeros(table.n_rows, dtype=np.int64), {}
    if table.scheme == "vertical":
        counts = np.zeros((table.n_groups, len(secrets)), dtype=np.int64)
        np.add.at(counts, (table.group_codes, secret), 1)
        stock = {g: tuple(part) for g, part in enumerate(counts.tolist())}
        secret, group = np.full(table.n_rows, -1), table.group_codes.astype(np.int64)
    each = zip(secret.tolist(), group.tolist(), key.tolist(), shown.tolist(), strict=True)
    rows = [Person(s, g, k, tuple(x)) for s, g, k, x in each]
    return sorted(rows, key=lambda row: (row.group, row)), stock


class _State(NamedTuple):
    """People still to be matched, people matched, secrets left in a group, number of new people."""

    free: World
    taken: World
    stock: tuple[int, ...]
    new: int


def _extend(
    worlds: dict[World, float], rows: list[Person], stock: dict[int, tuple[int, ...]],
    weights: _Weights, most_new: int, *, first: bool,
) -> dict[World, float]:  # fmt: skip
    """Add a release to worlds row by row, with at most `most_new` new people."""
    states = {_State(world, (), (), 0): ways for world, ways in worlds.items()}
    group = None
    for row in rows:
        if stock and row.group != group:
            group = row.group
            states = {s._replace(stock=stock[group]): ways for s, ways in states.items()}
        after: dict[_State, float] = defaultdict(float)
        for state, ways in states.items():
            for state_after, more in _places(state, row, weights, most_new, first=first):
                after[state_after] += ways * more
        if len(after) > MOST_STATES:
            raise TooManyError
        states = after
    out: dict[World, float] = defaultdict(float)
    for state, ways in states.items():
        if not any(state.stock):
            out[_added(state.free, state.taken)] += ways
    return out


def _places(
    state: _State, row: Person, weights: _Weights, most_new: int, *, first: bool
) -> Iterator[tuple[_State, int]]:
    """Yield who may own a row, and in how many ways."""

    def owned(person: Person, free: World, new: int) -> _State:
        left = state.stock
        if row.secret < 0:
            left = (*left[: person.secret], left[person.secret] - 1, *left[person.secret + 1 :])
        return _State(free, _added(state.taken, ((person, 1),)), left, state.new + new)

    def possible(secret: int) -> bool:
        return state.stock[secret] > 0 if row.secret < 0 else row.secret == secret

    known = False
    for person, number in state.free:
        if row.key >= 0 and person.key == row.key:
            known = True
        if person.key != row.key or not possible(person.secret):
            continue
        met = weights.meet(person.shown, row.shown)
        if met is not None:
            free = tuple((p, n - (p == person)) for p, n in state.free if p != person or n > 1)
            yield owned(person._replace(shown=met), free, 0), number
    if not known and (first or row.key >= 0 or state.new < most_new):
        group = row.group if first else OUTSIDE
        for secret in range(len(state.stock)) if row.secret < 0 else (row.secret,):
            if possible(secret):
                yield owned(Person(secret, group, row.key, row.shown), state.free, 1), 1


def _added(one: World, two: World) -> World:
    people = Counter(dict(one))
    for person, n in two:
        people[person] += n
    return tuple(sorted(people.items()))
