"""The exact draw of a group: who owns what, given the parameters (MODEL 1.4).

A group of ``n`` rows has ``n!`` cleartext orders ``sigma``, each with probability proportional to
``prod_l w(l, sigma(l))``. The subset recursion ``F(mask) = sum_m F(mask - m) w(|mask|, m)`` sums
over them in ``O(n 2^n)`` steps; tracing it backwards draws an order, and combining it with the
backward recursion gives every ``P(slot l gets item m)``. Equal tuples and equal sensitive values
need no special treatment: each distinct cleartext group is the image of the same number of orders.

Groups of more than `MAX_BLOCK` rows are cut at random into blocks, which are redrawn exactly given
the rest of the group. This leaves the same distribution invariant, at a cost linear in the rows.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from anonbayes.arrays import Floats, Ints
from anonbayes.inference.vertical.group_layout import Arrays

MAX_BLOCK = 12
"""Largest group drawn as a whole; ``2**12`` subsets still fit into the processor's cache."""

SUB_BLOCK = 6
"""Rows per piece of a group that is too large; 5 to 7 rows gain most per operation."""

SAFE_LOG = 600.0
"""Products of weights down to ``exp(-SAFE_LOG)`` stay inside the floating-point range."""

LEAST_LOG = -50.0
"""Log of the least scaled weight; smaller ones are raised to it. Twelve do not underflow."""

BETHE_ROUNDS = 500
TINY = 1e-280
SCALINGS, ORDERS = 20, 50
"""Rounds of scaling before orders of a large group are drawn, and the number of orders."""


class Lattice(NamedTuple):
    """All subsets of `block` elements in counting order, and the steps that lead to them.

    For each of the `size[mask]` members of subset ``mask`` in turn, `before` is the subset without
    it and `place` the position of its weight, ``(size - 1) * block + member``. Subsets of the first
    ``n`` elements come first, so one lattice serves every group size.
    """

    block: int
    size: NDArray[np.uint8]
    before: NDArray[np.uint32]
    place: NDArray[np.uint32]


@lru_cache(maxsize=16)
def lattice(block: int) -> Lattice:
    """Build the subset lattice for groups of at most `block` rows."""
    masks = np.arange(1 << block)
    bits = (masks[:, None] >> np.arange(block)) & 1
    size = bits.sum(axis=1)
    mask, member = np.nonzero(bits)
    return Lattice(
        block,
        size.astype(np.uint8),
        (mask ^ (1 << member)).astype(np.uint32),
        ((size[mask] - 1) * block + member).astype(np.uint32),
    )


@njit(cache=True, nogil=True, forceinline=True)
def is_safe(value: Floats, n_attributes: int) -> bool:
    """Whether a product of one value per attribute cannot underflow; values are <= 1."""
    smallest = 1.0
    for v in value:
        if v < smallest:
            smallest = v
    return smallest > 0.0 and -n_attributes * np.log(smallest) < SAFE_LOG


@njit(cache=True, nogil=True)
def log_weight(arrays: Arrays, value: Floats, slot: int, item: int) -> float:
    """Return ``log w(slot, item) = sum_a log value``, such as the log-likelihood of the pairing."""
    cells, strides = arrays.cells, arrays.strides
    s = arrays.secrets[slot]
    total = 0.0
    for a in range(len(strides)):
        total += np.log(value[cells[item, a] + s * strides[a]])
    return total


@njit(cache=True, nogil=True, forceinline=True)
def fill_weights(
    arrays: Arrays, value: Floats, slots: Ints, items: Ints, n: int, safe: bool, weight: Floats
) -> None:
    """Fill in ``weight[l, m] = prod_a value``, with each row scaled to a maximum of one.

    Scaling changes no probability. Unless `safe`, logs are summed and the weights are balanced.
    """
    cells, strides, secrets = arrays.cells, arrays.strides, arrays.secrets
    if not safe:
        for x in range(n):
            for m in range(n):
                weight[x, m] = log_weight(arrays, value, slots[x], items[m])
        balance(weight, n)
        return
    for x in range(n):
        s = secrets[slots[x]]
        top = 0.0
        for m in range(n):
            i = items[m]
            product = 1.0
            for a in range(len(strides)):
                product *= value[cells[i, a] + s * strides[a]]
            weight[x, m] = product
            top = max(top, product)
        for m in range(n):
            weight[x, m] /= top


@njit(cache=True, nogil=True)
def balance(weight: Floats, n: int) -> None:
    """Turn log weights, in place, into weights whose permanent does not underflow.

    This is Sinkhorn's alternating scaling in the log domain; near a doubly stochastic matrix, the
    permanent is at least about ``n!/n^n`` (van der Waerden).
    """
    for _ in range(10_000):
        for m in range(n):
            top = weight[0, m]
            for x in range(1, n):
                top = max(top, weight[x, m])
            total = 0.0
            for x in range(n):
                total += np.exp(weight[x, m] - top)
            shift = top + np.log(total)
            for x in range(n):
                weight[x, m] -= shift
        worst = 0.0
        for x in range(n):
            top = weight[x, 0]
            for m in range(1, n):
                top = max(top, weight[x, m])
            total = 0.0
            for m in range(n):
                total += np.exp(weight[x, m] - top)
            shift = top + np.log(total)
            worst = max(worst, abs(shift))
            for m in range(n):
                weight[x, m] -= shift
        if worst < 0.5 / n:
            break
    for x in range(n):
        for m in range(n):
            weight[x, m] = np.exp(weight[x, m])


@njit(cache=True, nogil=True, forceinline=True)
def sum_orders(lattice: Lattice, weight: Floats, n: int, forward: Floats) -> float:
    """Run the subset recursion; return the sum over all orders (the permanent).

    `weight` is flat, with rows of length ``lattice.block``.
    """
    size, before, place = lattice.size, lattice.before, lattice.place
    forward[0] = 1.0
    e = np.uint64(0)
    for mask in range(1, 1 << n):
        total = 0.0
        for _ in range(size[mask]):
            total += forward[before[e]] * weight[place[e]]
            e += np.uint64(1)
        forward[mask] = total
    return forward[(1 << n) - 1]


@njit(cache=True, nogil=True, forceinline=True)
def draw_order(
    weight: Floats, n: int, forward: Floats, order: Ints, rng: np.random.Generator
) -> None:
    """Draw ``order[l]``, the position of the item that slot ``l`` gets, by tracing back."""
    mask = (1 << n) - 1
    for x in range(n - 1, -1, -1):
        target = rng.random() * forward[mask]
        chosen = -1
        for m in range(n):
            if mask >> m & 1:
                mass = forward[mask ^ (1 << m)] * weight[x, m]
                if mass > 0.0:
                    chosen = m
                    target -= mass
                    if target < 0.0:
                        break
        order[x] = chosen
        mask ^= 1 << chosen


@njit(cache=True, nogil=True, forceinline=True)
def order_marginals(
    lattice: Lattice, weight: Floats, n: int, forward: Floats, backward: Floats, marginal: Floats
) -> None:
    """Set ``marginal[l * block + m] = P(slot l gets item m)`` by recursion in both directions."""
    size, before, place = lattice.size, lattice.before, lattice.place
    full = (1 << n) - 1
    backward[:full] = 0.0
    backward[full] = 1.0 / forward[full]
    marginal[: n * lattice.block] = 0.0
    e = np.uint64(n * (1 << (n - 1)))
    for mask in range(full, 0, -1):
        ahead = backward[mask]
        for _ in range(size[mask]):
            e -= np.uint64(1)
            step = weight[place[e]] * ahead
            backward[before[e]] += step
            marginal[place[e]] += forward[before[e]] * step


class Space(NamedTuple):
    """Working arrays for the marginals of one group at a time; see `group_marginals`."""

    weight: Floats
    marginal: Floats
    flat: Floats
    flat_marginal: Floats
    forward: Floats
    backward: Floats
    right: Floats
    left: Floats
    slots: Ints
    items: Ints


@njit(cache=True, nogil=True)
def marginal_space(block: int, widest: int) -> Space:
    """Make working arrays for groups of up to `widest` rows; those up to `block` use the recursion.

    If no group is larger than `block`, `flat` is a flat view of `weight`, and likewise for the
    marginals.
    """
    side = max(block, widest)
    weight, marginal = np.empty((side, side)), np.empty((side, side))
    alone = side > block
    return Space(
        weight,
        marginal,
        np.empty(block * block) if alone else weight.reshape(side * side),
        np.empty(block * block) if alone else marginal.reshape(side * side),
        np.empty(1 << block),
        np.empty(1 << block),
        np.empty((side, side)),
        np.empty((side, side)),
        np.empty(side, dtype=np.int64),
        np.empty(side, dtype=np.int64),
    )


@njit(cache=True, nogil=True)
def group_marginals(
    lattice: Lattice, space: Space, n: int, sweeps: int, rng: np.random.Generator
) -> float:
    """Turn a group's log weights into ``P(slot l gets item m)``; return the log permanent.

    ``space.weight[l, m]`` is overwritten and ``space.marginal`` is set. Groups larger than the
    lattice use `piecewise_marginals` (the permanent is then NaN) or, with ``sweeps=0``,
    `bethe_marginals`.
    """
    weight, shift = space.weight, 0.0
    for x in range(n):
        top = weight[x, :n].max()
        shift += top
        for m in range(n):
            weight[x, m] -= top
    for m in range(n):
        top = weight[:n, m].max()
        shift += top
        for x in range(n):
            weight[x, m] = np.exp(max(weight[x, m] - top, LEAST_LOG))
    if n <= lattice.block:
        return shift + np.log(_exact_marginals(lattice, space, n))
    if sweeps == 0:
        return shift + bethe_marginals(weight, n, space.right, space.left, space.marginal)
    piecewise_marginals(lattice, space, n, sweeps, rng)
    return np.nan


@njit(cache=True, nogil=True, forceinline=True)
def _exact_marginals(lattice: Lattice, space: Space, n: int) -> float:
    """Set the marginals of a small group from its weights; return the permanent."""
    weight, flat, size = space.weight, space.flat, lattice.block
    for x in range(n):
        for m in range(n):
            flat[x * size + m] = weight[x, m]
    total = sum_orders(lattice, flat, n, space.forward)
    if total > TINY:
        order_marginals(lattice, flat, n, space.forward, space.backward, space.flat_marginal)
        for x in range(n):
            for m in range(n):
                space.marginal[x, m] = space.flat_marginal[x * size + m]
    return total


@njit(cache=True, nogil=True)
def piecewise_marginals(
    lattice: Lattice, space: Space, n: int, sweeps: int, rng: np.random.Generator
) -> None:
    """Marginals of a large group, averaged over exact redraws of random pieces of it.

    A third as many sweeps come first and are discarded. Not draws are averaged but exact
    probabilities given the other pieces (Rao-Blackwell).
    """
    weight, marginal, size = space.weight, space.marginal, lattice.block
    slots, items, flat = space.slots, space.items, space.flat
    square, piece = flat.reshape(size, size), min(size, SUB_BLOCK)
    order = np.empty(size, dtype=np.int64)
    held = np.empty(size, dtype=np.int64)
    marginal[:n, :n] = 0.0
    for x in range(n):
        slots[x] = items[x] = x
    shuffle(items, n, rng)
    for sweep in range(-(sweeps // 3), sweeps):
        shuffle(slots, n, rng)
        for first in range(0, n, piece):
            width = min(piece, n - first)
            for x in range(width):
                held[x] = items[slots[first + x]]
            for x in range(width):
                top = 0.0
                for m in range(width):
                    square[x, m] = weight[slots[first + x], held[m]]
                    top = max(top, square[x, m])
                for m in range(width):
                    square[x, m] /= top
            sum_orders(lattice, flat, width, space.forward)
            if sweep >= 0:
                order_marginals(
                    lattice, flat, width, space.forward, space.backward, space.flat_marginal
                )
                for x in range(width):
                    for m in range(width):
                        p = space.flat_marginal[x * size + m] / sweeps
                        marginal[slots[first + x], held[m]] += p
            draw_order(square, width, space.forward, order, rng)
            for x in range(width):
                items[slots[first + x]] = held[order[x]]


@njit(cache=True, nogil=True)
def bethe_marginals(weight: Floats, n: int, right: Floats, left: Floats, marginal: Floats) -> float:
    """Marginals and log permanent of a large group by belief propagation along its pairings.

    The iteration always converges to the stationary point of Bethe's free energy (Vontobel 2013).
    This is a lower bound of the permanent, and its gradient with respect to the log weights are the
    marginals. Both are exact if all orders are equally likely or one is certain; in between, the
    marginals are overconfident. `weight` is overwritten; `right` and `left` hold the messages.
    """
    for x in range(n):
        for m in range(n):
            weight[x, m] = np.sqrt(weight[x, m])
            left[x, m] = 1.0
    for _ in range(BETHE_ROUNDS):
        moved = 0.0
        # Sum over all but one from both sides, because differences would suffer cancellation.
        for x in range(n):
            total = 0.0
            for m in range(n):
                right[x, m] = total
                total += weight[x, m] * left[x, m]
            total = 0.0
            for m in range(n - 1, -1, -1):
                right[x, m] = weight[x, m] / max(right[x, m] + total, TINY)
                total += weight[x, m] * left[x, m]
        for m in range(n):
            total = 0.0
            for x in range(n):
                marginal[x, m] = total
                total += weight[x, m] * right[x, m]
            total = 0.0
            for x in range(n - 1, -1, -1):
                new = weight[x, m] / max(marginal[x, m] + total, TINY)
                total += weight[x, m] * right[x, m]
                odds, old = right[x, m] * new, right[x, m] * left[x, m]
                moved = max(moved, abs(odds / (1.0 + odds) - old / (1.0 + old)))
                left[x, m] = new
        if moved < 1e-10:
            break
    value = 0.0
    for x in range(n):
        row, column = 0.0, 0.0
        for m in range(n):
            row += weight[x, m] * left[x, m]
            column += weight[m, x] * right[m, x]
            odds = right[x, m] * left[x, m]
            marginal[x, m] = odds / (1.0 + odds)
            value -= np.log1p(odds)
        value += np.log(row) + np.log(column)
    return value


@njit(cache=True, nogil=True)
def estimate_orders(space: Space, n: int, rng: np.random.Generator) -> tuple[float, float]:
    """Estimate the log permanent of a large group; return it with its standard error.

    Rows and columns of ``exp(space.weight)``, which is overwritten, are scaled to sums near one.
    Slots then choose among the remaining items in random order. The products of the remaining
    weights average to the permanent (sequential importance sampling).
    """
    weight, slots, items = space.weight, space.slots, space.items
    shift = 0.0
    for x in range(n):
        top = weight[x, :n].max()
        shift += top
        for m in range(n):
            weight[x, m] = np.exp(max(weight[x, m] - top, LEAST_LOG))
    for _ in range(SCALINGS):
        for m in range(n):
            total = weight[:n, m].sum()
            shift += np.log(total)
            weight[:n, m] /= total
        for x in range(n):
            total = weight[x, :n].sum()
            shift += np.log(total)
            weight[x, :n] /= total
    found = np.zeros(ORDERS)
    for x in range(n):
        slots[x] = x
    for i in range(ORDERS):
        shuffle(slots, n, rng)
        for m in range(n):
            items[m] = m
        for last in range(n - 1, -1, -1):
            row = weight[slots[last]]
            total = 0.0
            for m in range(last + 1):
                total += row[items[m]]
            found[i] += np.log(max(total, TINY))
            target, chosen = rng.random() * total, last
            for m in range(last):
                target -= row[items[m]]
                if target < 0.0:
                    chosen = m
                    break
            items[chosen] = items[last]
    top = found.max()
    found = np.exp(found - top)
    return shift + top + np.log(found.mean()), found.std() / found.mean() / np.sqrt(ORDERS)


@njit(cache=True, nogil=True, forceinline=True)
def shuffle(numbers: Ints, n: int, rng: np.random.Generator) -> None:
    """Put the first `n` numbers into a uniformly random order."""
    for x in range(n - 1, 0, -1):
        y = int(rng.random() * (x + 1))
        numbers[x], numbers[y] = numbers[y], numbers[x]


@njit(cache=True, nogil=True, forceinline=True)
def widest_group(offsets: Ints) -> int:
    """Number of rows of the largest group."""
    widest = 0
    for g in range(len(offsets) - 1):
        widest = max(widest, offsets[g + 1] - offsets[g])
    return widest


@njit(cache=True, nogil=True)
def owned_counts(arrays: Arrays, owner: Floats, n_cells: int) -> Floats:
    """Expected counts from ownership probabilities, flat."""
    counts = np.zeros(n_cells)
    cells, strides, secrets = arrays.cells, arrays.strides, arrays.secrets
    offsets, links, ranks = arrays.offsets, arrays.links, arrays.ranks
    for g in range(len(offsets) - 1):
        for x in range(offsets[g], offsets[g + 1]):
            first = True
            for y in range(offsets[g], x):
                first = first and ranks[y] != ranks[x]
            if not first:
                continue  # slots with equal values share one entry
            for m in range(offsets[g], offsets[g + 1]):
                p = owner[links[m] + ranks[x]]
                for a in range(len(strides)):
                    counts[cells[m, a] + secrets[x] * strides[a]] += p
    return counts
