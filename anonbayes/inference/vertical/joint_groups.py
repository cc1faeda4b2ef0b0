"""Several vertical tables of the same people, analysed jointly (MODEL 1.10).

Every group publishes the secrets of its people. Each person is in one group of every table, and the
groups of different tables overlap. This resembles a code with one parity check per group, and is
likewise decoded by belief propagation. A group sends to each of its people which secrets remain,
given the messages about the others (exactly, by the subset recursion of `block`); people pass these
messages on to their groups in the other tables. If tables have no keys, equal records are matched:
people with the same record are permuted between the tables, and the same recursion sums over their
permutations.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy import sparse

from anonbayes.arrays import Floats, Ints, starts_of
from anonbayes.errors import TableError
from anonbayes.inference.vertical.block import (
    MAX_BLOCK,
    Lattice,
    group_marginals,
    lattice,
    marginal_space,
    widest_group,
)
from anonbayes.inference.vertical.group_layout import Arrays, Threads, VerticalLayout

ROUNDS, SETTLED, DAMPING = 100, 1e-4, 0.5
"""Most rounds of messages, the change that ends them, and the damping of messages."""

SWEEPS = 150
"""Sweeps over the pieces of a group too large for the recursion."""

MOST_ALIKE = 64
"""With more people per record than this, summing over who is whom hardly helps."""

TINY = 1e-30


@dataclass(frozen=True, eq=False)
class Joint:
    """Beliefs about the items of a vertical table, from several vertical tables."""

    owned: sparse.csr_array  # P(item belongs to secret), (N, S)
    worlds: sparse.csr_array  # the same from intersecting the secrets of groups (random worlds)
    linked: float  # share of items with a single counterpart in every other release
    rounds: int  # number of rounds of messages
    change: float  # largest change of a belief in the last round

    def narrowed(self, size: int) -> Joint:
        """The same with only the first `size` secrets, when no others are possible."""
        return replace(self, owned=self.owned[:, :size], worlds=self.worlds[:, :size])


class Edition(NamedTuple):
    """One of several vertical tables: its layout, who its items are, and evidence from values.

    Items with the same code in `person` may be the same person; -1 is somebody only in this table.
    `told` has a weight for each link, ``(item, secret of its group)``.
    """

    layout: VerticalLayout
    person: Ints
    told: Floats


class LinkSide(NamedTuple):
    """An edition for the kernels: the start of each item's links, and the secret of every link."""

    links: Ints
    columns: Ints


class _Match(NamedTuple):
    """People or records that two editions share: their items in each, as pointers and items."""

    one: int
    two: int
    pointer_one: Ints
    item_one: Ints
    pointer_two: Ints
    item_two: Ints

    def pieces(self, number: int) -> list[_Match]:
        """Split the people into parts, which threads may process at the same time."""
        cuts = np.unique(np.linspace(0, len(self.pointer_one) - 1, number + 1).astype(int))
        return [
            self._replace(
                pointer_one=self.pointer_one[a : b + 1], pointer_two=self.pointer_two[a : b + 1]
            )
            for a, b in itertools.pairwise(cuts.tolist())
        ]


def join_groups(editions: Sequence[Edition], *, labels: Sequence[str] | None = None) -> list[Joint]:
    """Beliefs about the items of vertical tables of the same people; `labels` are for messages."""
    sides = [link_sides(edition.layout) for edition in editions]
    matches = list(_matches(editions))
    worlds = _intersections(editions, sides, labels)
    found = _propagate(editions, sides, matches)
    return [
        Joint(
            edition.layout.ownership(_shares(edition.layout, belief)),
            edition.layout.ownership(_shares(edition.layout, world)),
            _linked(editions, e),
            found.rounds,
            found.change,
        )
        for e, (edition, belief, world) in enumerate(
            zip(editions, found.beliefs, worlds, strict=True)
        )
    ]


class _Found(NamedTuple):
    """Beliefs on the links of every edition, and how they were found."""

    beliefs: list[Floats]
    rounds: int
    change: float


def link_sides(layout: VerticalLayout) -> LinkSide:
    """Links of a layout in the form that the kernels read."""
    columns = layout.ownership(np.zeros(layout.n_links)).indices
    return LinkSide(layout.arrays.links, np.asarray(columns, dtype=np.int64))


def _matches(editions: Sequence[Edition]) -> Iterator[_Match]:
    """Pair the people of each release with the last earlier release that contains them."""
    size = max(int(e.person.max(initial=-1)) for e in editions) + 1
    last = np.full(size, -1)
    for two, edition in enumerate(editions):
        there = np.zeros(size, dtype=bool)
        there[edition.person[edition.person >= 0]] = True
        for one in range(two):
            shared = np.flatnonzero(there & (last == one))
            if len(shared):
                yield _Match(one, two, *_items(editions[one], shared), *_items(edition, shared))
        last[there] = two


def _items(edition: Edition, people: Ints) -> tuple[Ints, Ints]:
    order = np.argsort(edition.person, kind="stable")
    codes = edition.person[order]
    start, stop = (np.searchsorted(codes, people, side=side) for side in ("left", "right"))
    pointer = starts_of(stop - start)
    return pointer, order[np.arange(pointer[-1]) + np.repeat(start - pointer[:-1], stop - start)]


def _linked(editions: Sequence[Edition], which: int) -> float:
    """Share of the items of an edition that have a single counterpart in each of the others."""
    own = editions[which].person
    single = own >= 0
    for edition in editions:
        known = edition.person[edition.person >= 0]
        single &= np.bincount(known, minlength=int(own.max(initial=0)) + 1)[own] == 1
    return float(single.mean())


def _shares(layout: VerticalLayout, values: Floats) -> Floats:
    links = layout.arrays.links
    return values / np.repeat(np.add.reduceat(values, links[:-1]), np.diff(links))


def _intersections(
    editions: Sequence[Edition], sides: list[LinkSide], labels: Sequence[str] | None
) -> list[Floats]:
    """Random worlds of every edition, multiplied by those of counterparts in all other editions.

    A group lists frequent secrets more often by chance, so the share of a secret in a counterpart's
    group is divided by its overall share.
    """
    shares = [_shares(e.layout, _slots(e.layout)) for e in editions]
    size = max(int(e.person.max(initial=-1)) for e in editions) + 1
    everybody = np.arange(size)
    lists = [_items(edition, everybody) for edition in editions]
    out = [share.copy() for share in shares]
    for e, edition in enumerate(editions):
        everywhere = np.bincount(edition.layout.secrets, minlength=edition.layout.n_secrets)
        shares[e] /= everywhere[sides[e].columns] / edition.layout.n_rows
    for one in range(len(editions)):
        for two in range(len(editions)):
            if one != two:
                average(*lists[one], *lists[two], sides[one], sides[two], shares[two], out[one])
    for e, (edition, values) in enumerate(zip(editions, out, strict=True)):
        lost = np.flatnonzero(np.add.reduceat(values, edition.layout.arrays.links[:-1]) <= 0)
        if len(lost):
            links = slice(*sides[e].links[lost[0] : lost[0] + 2])
            listed = [labels[s] for s in sides[e].columns[links]] if labels else "its secrets"
            raise TableError(
                f"Row {int(lost[0])} of vertical release {e + 1} is in a group of {listed}; "
                "its counterpart in another release is in a group without any of them "
                f"({len(lost):,} rows like this). These are not the same people, or not the same "
                "secrets: check the keys, and that values are spelled alike."
            )
    return out


def _slots(layout: VerticalLayout) -> Floats:
    """For each link, the number of slots in its group that have its secret."""
    arrays, sizes = layout.arrays, layout.group_sizes
    first = np.repeat(arrays.links[layout.offsets[:-1]], sizes)  # links of each group's first item
    count = np.bincount(first + arrays.ranks, minlength=layout.n_links).astype(float)
    own = np.arange(layout.n_links) - np.repeat(arrays.links[:-1], np.diff(arrays.links))
    begin = np.repeat(arrays.links[layout.offsets[:-1]][layout.groups], np.diff(arrays.links))
    return count[begin + own]


def _propagate(editions: Sequence[Edition], sides: list[LinkSide], matches: list[_Match]) -> _Found:
    """Belief propagation between groups and matched people."""
    lattices = [lattice(min(MAX_BLOCK, int(e.layout.group_sizes.max()))) for e in editions]
    widths = (max(np.diff(m.pointer_one).max(), np.diff(m.pointer_two).max()) for m in matches)
    steps = lattice(min(MAX_BLOCK, int(max(widths, default=1))))
    ones = [np.ones(e.layout.n_links) for e in editions]
    by_group = list(ones)
    before, after = list(ones), list(ones)  # messages of matches with earlier and later editions
    beliefs = [e.told for e in editions]
    unused = np.random.default_rng(0)  # no group is cut into pieces there
    change, turn = np.inf, 0
    threads = Threads(os.cpu_count() or 1)
    parts = [(m, m.pieces(2 * threads.n)) for m in matches]

    def hear(
        pieces: list[_Match], of_one: Floats, to_one: Floats, of_two: Floats, to_two: Floats
    ) -> None:
        def work(i: int) -> None:
            one, two = sides[pieces[i].one], sides[pieces[i].two]
            match_people(
                pieces[i], MOST_ALIKE, steps, one, of_one, to_one, two, of_two, to_two, unused
            )

        threads.run(work, range(len(pieces)))

    for turn in range(1, ROUNDS + 1):
        change = 0.0
        for e, edition in enumerate(editions):
            known = np.maximum(edition.told * before[e] * after[e], TINY)
            known = np.maximum(known / link_tops(sides[e], known), TINY)
            owner = np.zeros(edition.layout.n_links)
            rng = np.random.default_rng((e, turn))
            share_out(edition.layout.arrays, lattices[e], np.log(known), owner, SWEEPS, rng)
            new = owner / known
            new = np.maximum(new / link_tops(sides[e], new), TINY)
            by_group[e] = by_group[e] ** DAMPING * new ** (1 - DAMPING)
            belief = _shares(edition.layout, known * by_group[e])
            change = max(change, float(np.abs(belief - beliefs[e]).max()))
            beliefs[e] = belief
        before, after = [o.copy() for o in ones], [o.copy() for o in ones]
        told = [e.told * g for e, g in zip(editions, by_group, strict=True)]
        # A match receives from a release everything but its own messages: those of earlier matches
        # on the way forward, those of later ones on the way back.
        for m, pieces in parts:
            hear(pieces, told[m.one] * before[m.one], after[m.one], told[m.two], before[m.two])
        for m, pieces in reversed(parts):
            if m.two < len(editions) - 1:  # the last has received all messages
                later = told[m.two] * after[m.two]
                hear(pieces, told[m.one] * before[m.one], after[m.one], later, before[m.two])
        if change < SETTLED:
            break
    return _Found(beliefs, turn, change)


def link_tops(side: LinkSide, values: Floats) -> Floats:
    """Largest value of each item over its links."""
    return np.repeat(np.maximum.reduceat(values, side.links[:-1]), np.diff(side.links))


@njit(cache=True, nogil=True)
def share_out(
    arrays: Arrays,
    lattice: Lattice,
    score: Floats,
    owner: Floats,
    sweeps: int,
    rng: np.random.Generator,
) -> None:
    """Add ``P(item belongs to secret)`` of every group, given log weights of the links."""
    offsets, links, ranks = arrays.offsets, arrays.links, arrays.ranks
    space = marginal_space(lattice.block, widest_group(offsets))
    for g in range(len(offsets) - 1):
        lo = offsets[g]
        n = offsets[g + 1] - lo
        for x in range(n):
            for m in range(n):
                space.weight[x, m] = score[links[lo + m] + ranks[lo + x]]
        group_marginals(lattice, space, n, sweeps, rng)
        for x in range(n):
            for m in range(n):
                owner[links[lo + m] + ranks[lo + x]] += space.marginal[x, m]


@njit(cache=True, nogil=True)
def average(
    pointer_one: Ints, item_one: Ints, pointer_two: Ints, item_two: Ints,
    one: LinkSide, two: LinkSide, source: Floats, target: Floats,
) -> None:  # fmt: skip
    """Multiply `target` by the average of `source` over the counterparts of each item."""
    for p in range(len(pointer_one) - 1):
        n = pointer_two[p + 1] - pointer_two[p]
        if n == 0:
            continue
        for x in range(pointer_one[p], pointer_one[p + 1]):
            i = item_one[x]
            for link in range(one.links[i], one.links[i + 1]):
                total = 0.0
                for y in range(pointer_two[p], pointer_two[p + 1]):
                    j = item_two[y]
                    for other in range(two.links[j], two.links[j + 1]):
                        if two.columns[other] == one.columns[link]:
                            total += source[other]
                target[link] *= total / n


@njit(cache=True, nogil=True)
def match_people(
    match: _Match, most_alike: int, lattice: Lattice, one: LinkSide, told_one: Floats,
    to_one: Floats, two: LinkSide, told_two: Floats, to_two: Floats, rng: np.random.Generator,
) -> None:  # fmt: skip
    """Set the messages from the counterparts of each item, summed over who may be whom.

    A permutation of ``n`` people with one record has the weight ``prod_i W[i, sigma(i)]``, where
    ``W[i, j] = sum_s told_one(i, s) told_two(j, s)`` is the probability that they agree. People
    in one release only are matched with somebody about whom nothing is known.
    """
    pointer_one, item_one = match.pointer_one, match.item_one
    pointer_two, item_two = match.pointer_two, match.item_two
    widest = 1
    for p in range(len(pointer_one) - 1):
        n = max(pointer_one[p + 1] - pointer_one[p], pointer_two[p + 1] - pointer_two[p])
        widest = max(widest, min(n, most_alike))
    space = marginal_space(lattice.block, widest)
    agree = np.empty((widest, widest))
    room = np.empty(max(one.columns.max(), two.columns.max()) + 1)
    for p in range(len(pointer_one) - 1):
        a, b = pointer_one[p], pointer_two[p]
        n_one, n_two = pointer_one[p + 1] - a, pointer_two[p + 1] - b
        n = max(n_one, n_two)
        if n > most_alike:
            own, other = item_one[a : a + n_one], item_two[b : b + n_two]
            _hear_all(own, other, one, to_one, two, told_two, room)
            _hear_all(other, own, two, to_two, one, told_one, room)
            continue
        for x in range(n):
            for y in range(n):
                total = 0.0
                if x >= n_one or y >= n_two:
                    total = 1.0
                else:
                    i, j = item_one[a + x], item_two[b + y]
                    for k in range(one.links[i], one.links[i + 1]):
                        for m in range(two.links[j], two.links[j + 1]):
                            if one.columns[k] == two.columns[m]:
                                total += told_one[k] * told_two[m]
                agree[x, y] = max(total, TINY)
                space.weight[x, y] = np.log(agree[x, y])
        if n == 1:
            space.marginal[0, 0] = agree[0, 0]
        else:
            group_marginals(lattice, space, n, 0, rng)
        for x in range(n):
            for y in range(n):
                agree[x, y] = space.marginal[x, y] / agree[x, y]
        _hear(n_one, n_two, n, agree, False, item_one[a:], item_two[b:], one, to_one, two, told_two)
        _hear(n_two, n_one, n, agree, True, item_two[b:], item_one[a:], two, to_two, one, told_one)


@njit(cache=True, nogil=True)
def _hear(
    n_own: int, n_other: int, n: int, part: Floats, turned: bool, own: Ints, other: Ints,
    mine: LinkSide, to: Floats, theirs: LinkSide, told: Floats,
) -> None:  # fmt: skip
    """Messages that each item of one side receives; the largest value of an item is one."""
    for x in range(n_own):
        i = own[x]
        top = 0.0
        for k in range(mine.links[i], mine.links[i + 1]):
            to[k] = 0.0
            for y in range(n):
                share = part[y, x] if turned else part[x, y]
                if y >= n_other:
                    to[k] += share
                    continue
                for m in range(theirs.links[other[y]], theirs.links[other[y] + 1]):
                    if theirs.columns[m] == mine.columns[k]:
                        to[k] += share * told[m]
            top = max(top, to[k])
        for k in range(mine.links[i], mine.links[i + 1]):
            to[k] = to[k] / top if top > 0.0 else 1.0


@njit(cache=True, nogil=True)
def _hear_all(
    own: Ints, other: Ints, mine: LinkSide, to: Floats, theirs: LinkSide, told: Floats, room: Floats
) -> None:
    """Messages from very many counterparts: their average, regardless of who is whom."""
    room[:] = 0.0
    for j in other:
        for m in range(theirs.links[j], theirs.links[j + 1]):
            room[theirs.columns[m]] += told[m]
    for i in own:
        top = 0.0
        for k in range(mine.links[i], mine.links[i + 1]):
            to[k] = room[mine.columns[k]]
            top = max(top, to[k])
        for k in range(mine.links[i], mine.links[i + 1]):
            to[k] = to[k] / top if top > 0.0 else 1.0
