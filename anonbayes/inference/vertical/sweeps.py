"""Sweeps over the groups of a vertical table, which redraw who owns what (MODEL 1.4).

Given the parameters, the target of a group is ``f(g | pi) = prod_l w(l, sigma(l))`` with
``w(l, m) = prod_a pi_a|s_l(r_ma)``:

* block: an exact draw by the recursion of `block`;
* swap, Groups V-B: exchange the items of two slots; symmetric;
* permutation, Groups V-B: a uniformly random order of the group; symmetric;
* sequential, Groups Appendix B: fill the slots one after another from the remaining items. The
  distribution depends on the order in which slots are filled, so the draw is only a proposal, which
  the ratio of the normalisers, ``nu(g | pi) / nu(g^h | pi)``, makes exact. Every proposal uses a
  new order.

With ``pi`` integrated out, the posterior of an assignment is proportional to ``exp(E)``, where
``E = sum lgamma(beta + delta)``; the target at inverse temperature ``lambda`` is ``exp(lambda E)``.
Given the other rows, a group with distinct sensitive values has a product form with weights
``w(l, m) = prod_a (beta + delta_a(s_l, r_ma))^lambda``, where the counts exclude the group's own
rows, so the exact draw applies (collapsed). With repeated values, the same draw is a proposal that
`block_log_target` corrects.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.special import gammaln

from anonbayes.arrays import Floats, Ints, starts_of
from anonbayes.inference.vertical.block import (
    TINY,
    Lattice,
    draw_order,
    fill_weights,
    is_safe,
    marginal_space,
    order_marginals,
    shuffle,
    sum_orders,
    widest_group,
)
from anonbayes.inference.vertical.group_layout import Arrays, VerticalLayout

# -------------------------------------------------------------------------------------------------
# Exact draws given the parameters.


@njit(cache=True, nogil=True, forceinline=True)
def cut_group(
    lo: int, hi: int, block: int, sub_block: int, slots: Ints, rng: np.random.Generator
) -> int:
    """List the slots of a group; return the size of the pieces to redraw.

    Groups larger than `block` are shuffled, so that successive pieces form a random partition.
    """
    n = hi - lo
    for x in range(n):
        slots[x] = lo + x
    if n <= block:
        return n
    shuffle(slots, n, rng)
    return sub_block


@njit(cache=True, nogil=True, forceinline=True)
def weigh_orders(
    arrays: Arrays, lattice: Lattice, value: Floats, slots: Ints, items: Ints, n: int, safe: bool,
    weight: Floats, flat: Floats, forward: Floats,
) -> None:  # fmt: skip
    """Run the recursion of a piece, balanced if it underflows; `flat` is the flat `weight`."""
    fill_weights(arrays, value, slots, items, n, safe, weight)
    if not sum_orders(lattice, flat, n, forward) > TINY:
        fill_weights(arrays, value, slots, items, n, False, weight)
        sum_orders(lattice, flat, n, forward)


@njit(cache=True, nogil=True)
def block_sweep(
    arrays: Arrays,
    lattice: Lattice,
    value: Floats,
    assignment: Ints,
    block: int,
    sub_block: int,
    draw: bool,
    owner: Floats,
    rng: np.random.Generator,
) -> int:
    """Redraw every group exactly, or in pieces above `block` rows; return how many slots moved.

    `value` holds the parameters, which must be positive. Adds ``P(item belongs to value | pi)`` to
    `owner` unless it has length zero; with ``draw=False``, nothing else changes.
    """
    offsets = arrays.offsets
    slots = np.empty(widest_group(offsets), dtype=np.int64)
    space = marginal_space(lattice.block, 0)
    items, order, weight, flat = space.items, space.slots, space.weight, space.flat
    forward, backward = space.forward, space.backward
    marginal, flat_marginal = space.marginal, space.flat_marginal
    safe = is_safe(value, len(arrays.strides))
    moved = 0
    for g in range(len(offsets) - 1):
        lo, hi = offsets[g], offsets[g + 1]
        piece = cut_group(lo, hi, block, sub_block, slots, rng)
        for first in range(0, hi - lo, piece):
            n = min(piece, hi - lo - first)
            part = slots[first : first + n]
            for x in range(n):
                items[x] = assignment[part[x]]
            weigh_orders(arrays, lattice, value, part, items, n, safe, weight, flat, forward)
            if len(owner):
                order_marginals(lattice, flat, n, forward, backward, flat_marginal)
                add_ownership(arrays, part, items, n, marginal, owner)
            if draw:
                draw_order(weight, n, forward, order, rng)
                for x in range(n):
                    moved += order[x] != x
                    assignment[part[x]] = items[order[x]]
    return moved


@njit(cache=True, nogil=True, forceinline=True)
def add_ownership(
    arrays: Arrays, slots: Ints, items: Ints, n: int, marginal: Floats, owner: Floats
) -> None:
    """Add ``P(slot l gets item m)`` to the ownership of item ``m`` by the slot's value."""
    links, ranks = arrays.links, arrays.ranks
    for x in range(n):
        rank = ranks[slots[x]]
        for m in range(n):
            owner[links[items[m]] + rank] += marginal[x, m]


# -------------------------------------------------------------------------------------------------
# Metropolis draws given the logs of the parameters. Each proposal has a function for its log
# acceptance ratio, which the sweeps call and from which tests build whole transition matrices.


@njit(cache=True, nogil=True, forceinline=True)
def pair_log_weight(arrays: Arrays, log_pi: Floats, slot: int, item: int) -> float:
    """``log w(slot, item) = sum_a log pi_a|s(r_a)``."""
    cells, strides = arrays.cells, arrays.strides
    s = arrays.secrets[slot]
    total = 0.0
    for a in range(len(strides)):
        total += log_pi[cells[item, a] + s * strides[a]]
    return total


@njit(cache=True, nogil=True, forceinline=True)
def swap_log_ratio(arrays: Arrays, log_pi: Floats, assignment: Ints, one: int, other: int) -> float:
    """Log acceptance ratio of exchanging the items of two slots."""
    cells, strides, secrets = arrays.cells, arrays.strides, arrays.secrets
    s, t = secrets[one], secrets[other]
    if s == t:
        return 0.0
    i, j = assignment[one], assignment[other]
    total = 0.0
    for a in range(len(strides)):
        ci, cj, k = cells[i, a], cells[j, a], strides[a]
        if ci != cj:
            total += log_pi[cj + s * k] + log_pi[ci + t * k]
            total -= log_pi[ci + s * k] + log_pi[cj + t * k]
    return total


@njit(cache=True, nogil=True, forceinline=True)
def order_log_ratio(
    arrays: Arrays, log_pi: Floats, assignment: Ints, lo: int, proposed: Ints, n: int
) -> float:
    """Log acceptance ratio of giving the items `proposed` to the slots from `lo` on."""
    total = 0.0
    for x in range(n):
        new, old = proposed[x], assignment[lo + x]
        if new != old:
            total += pair_log_weight(arrays, log_pi, lo + x, new)
            total -= pair_log_weight(arrays, log_pi, lo + x, old)
    return total


@njit(cache=True, nogil=True, forceinline=True)
def fill_slots(
    arrays: Arrays,
    log_pi: Floats,
    lo: int,
    filling: Ints,
    left: Ints,
    taken: Ints,
    n: int,
    logs: Floats,
    draw: bool,
    rng: np.random.Generator,
) -> float:
    """Fill slots in the order `filling` with the items `left`; return ``log nu(g | pi)``.

    ``nu`` is the product, over the slots as they are filled, of the weight of the remaining items.
    The density of the proposal is ``f(g | pi) / nu(g | pi)``, so the log acceptance ratio is
    ``log nu`` of the proposed group minus that of the old one. Without `draw`, each slot takes the
    last remaining item.
    """
    total = 0.0
    for x in range(n):
        rest, top, mass = n - x, -np.inf, 0.0
        for y in range(rest):
            logs[y] = pair_log_weight(arrays, log_pi, lo + filling[x], left[y])
            top = max(top, logs[y])
        for y in range(rest):
            logs[y] = np.exp(logs[y] - top)
            mass += logs[y]
        total += top + np.log(mass)
        chosen = rest - 1
        if draw:
            target = rng.random() * mass
            for y in range(rest):
                if logs[y] > 0.0:
                    chosen = y
                    target -= logs[y]
                    if target < 0.0:
                        break
        taken[filling[x]] = left[chosen]
        left[chosen] = left[rest - 1]
    return total


@njit(cache=True, nogil=True, forceinline=True)
def accepts(ratio: float, rng: np.random.Generator) -> bool:
    """Metropolis' rule."""
    return ratio >= 0.0 or np.log(1.0 - rng.random()) < ratio


@njit(cache=True, nogil=True)
def swap_sweep(
    arrays: Arrays, log_pi: Floats, assignment: Ints, share: float, rng: np.random.Generator
) -> tuple[int, int]:
    """Propose ``max(1, round(share * n))`` swaps in every group; return (tried, accepted)."""
    offsets = arrays.offsets
    tried, accepted = 0, 0
    for g in range(len(offsets) - 1):
        lo, n = offsets[g], offsets[g + 1] - offsets[g]
        if n < 2:
            continue
        for _ in range(max(1, round(share * n))):
            x = int(rng.random() * n)
            y = int(rng.random() * (n - 1))
            one, other = lo + x, lo + y + (y >= x)
            tried += 1
            ratio = swap_log_ratio(arrays, log_pi, assignment, one, other)
            if accepts(ratio, rng):
                accepted += 1
                assignment[one], assignment[other] = assignment[other], assignment[one]
    return tried, accepted


@njit(cache=True, nogil=True)
def order_sweep(
    arrays: Arrays, log_pi: Floats, assignment: Ints, sequential: bool, rng: np.random.Generator
) -> tuple[int, int]:
    """Propose a new order of every group; return (tried, accepted).

    The order is uniformly random, or results from sequential filling.
    """
    offsets = arrays.offsets
    widest = widest_group(offsets)
    filling = np.empty(widest, dtype=np.int64)
    left, proposed, unused = np.empty_like(filling), np.empty_like(filling), np.empty_like(filling)
    logs = np.empty(widest)
    tried, accepted = 0, 0
    for g in range(len(offsets) - 1):
        lo, n = offsets[g], offsets[g + 1] - offsets[g]
        if n < 2:
            continue
        tried += 1
        for x in range(n):
            filling[x] = x
            left[x] = proposed[x] = assignment[lo + x]
        if sequential:
            shuffle(filling, n, rng)
            new = fill_slots(arrays, log_pi, lo, filling, left, proposed, n, logs, True, rng)
            for x in range(n):
                left[n - 1 - x] = assignment[lo + filling[x]]
            old = fill_slots(arrays, log_pi, lo, filling, left, unused, n, logs, False, rng)
            ratio = new - old
        else:
            shuffle(proposed, n, rng)
            ratio = order_log_ratio(arrays, log_pi, assignment, lo, proposed, n)
        if accepts(ratio, rng):
            accepted += 1
            for x in range(n):
                assignment[lo + x] = proposed[x]
    return tried, accepted


# -------------------------------------------------------------------------------------------------
# Draws with the parameters integrated out, at any temperature.

LARGEST_TABLE = 20_000_000
"""Largest table of powers (160 MB); larger ones are replaced by computing powers on demand."""


class Powers(NamedTuple):
    """Tables of ``((beta + n) / scale)^lambda`` for every possible count ``n`` of a cell.

    Cells with equal ``beta`` share a segment. If `table` is empty (too many distinct priors and
    rows), kernels compute the powers.
    """

    beta: Floats
    base: Ints
    table: Floats
    log_gamma: Floats
    scale: float
    power: float


def powers(layout: VerticalLayout, beta: Floats, power: float = 1.0) -> Powers:
    """Tabulate the collapsed weights of a table for the prior `beta`, a flat array."""
    kinds, kind = np.unique(beta, return_inverse=True)
    # A cell has at most as many rows as its sensitive value, and as its category.
    reach = np.concatenate(
        [
            np.minimum.outer(
                layout.secret_counts, np.bincount(layout.items[:, a], minlength=k)
            ).ravel()
            for a, k in enumerate(layout.sizes)
        ]
    )
    length = np.zeros(len(kinds), dtype=np.int64)
    np.maximum.at(length, kind, reach + 1)
    start = starts_of(length)
    scale = float((beta + reach).max())
    if start[-1] > LARGEST_TABLE:
        empty = np.empty(0)
        return Powers(beta, np.zeros(len(beta), dtype=np.int64), empty, empty, scale, power)
    argument = np.repeat(kinds, length) + np.arange(start[-1]) - np.repeat(start[:-1], length)
    return Powers(
        beta=beta,
        base=start[kind.ravel()],
        table=(argument / scale) ** power,
        log_gamma=gammaln(argument),
        scale=scale,
        power=float(power),
    )


def retempered(tables: Powers, power: float) -> Powers:
    """Return the same tables at another inverse temperature."""
    ratio = tables.power and power / tables.power
    return tables._replace(table=tables.table**ratio, power=float(power))


@njit(cache=True, nogil=True, forceinline=True)
def cell_value(tables: Powers, cell: int, count: int) -> float:
    """Return ``((beta + count) / scale)^lambda`` of a cell."""
    if len(tables.table):
        return tables.table[tables.base[cell] + count]
    return ((tables.beta[cell] + count) / tables.scale) ** tables.power


@njit(cache=True, nogil=True)
def collapsed_energy(tables: Powers, counts: Ints) -> float:
    """Return ``E = sum lgamma(beta + delta)``."""
    total = 0.0
    if len(tables.table):
        for c in range(len(counts)):
            total += tables.log_gamma[tables.base[c] + counts[c]]
    else:
        for c in range(len(counts)):
            total += math.lgamma(tables.beta[c] + counts[c])
    return total


@njit(cache=True, nogil=True, forceinline=True)
def shift_row(
    cells: Ints,
    strides: Ints,
    beta: Floats,
    base: Ints,
    table: Floats,
    scale: float,
    power: float,
    counts: Ints,
    value: Floats,
    secret: int,
    item: int,
    by: int,
) -> None:
    """Add (``by=1``) or remove (``by=-1``) one row in the counts and their values.

    Arrays are passed one by one and the call is inlined, because passing tuples of arrays in this
    innermost call would cost ten times as much as the work itself.
    """
    if len(table):
        for a in range(len(strides)):
            c = cells[item, a] + secret * strides[a]
            counts[c] += by
            value[c] = table[base[c] + counts[c]]
    else:
        for a in range(len(strides)):
            c = cells[item, a] + secret * strides[a]
            counts[c] += by
            value[c] = ((beta[c] + counts[c]) / scale) ** power


@njit(cache=True, nogil=True, forceinline=True)
def shift_rows(
    arrays: Arrays,
    tables: Powers,
    counts: Ints,
    value: Floats,
    slots: Ints,
    items: Ints,
    order: Ints,
    n: int,
    by: int,
) -> None:
    """Add (``by=1``) or remove (``by=-1``) the rows of a block in the counts."""
    cells, strides, secrets = arrays.cells, arrays.strides, arrays.secrets
    beta, base, table = tables.beta, tables.base, tables.table
    scale, power = tables.scale, tables.power
    for x in range(n):
        shift_row(
            cells, strides, beta, base, table, scale, power, counts, value,
            secrets[slots[x]], items[order[x]], by,
        )  # fmt: skip


@njit(cache=True, nogil=True)
def block_log_target(
    arrays: Arrays,
    tables: Powers,
    counts: Ints,
    value: Floats,
    slots: Ints,
    items: Ints,
    order: Ints,
    n: int,
) -> float:
    """Return ``lambda * log p(order | other rows)`` of a block that the counts exclude.

    Rows are added one by one, which gives a product of rising factorials; counts are restored.
    """
    cells, strides, secrets = arrays.cells, arrays.strides, arrays.secrets
    beta, base, table = tables.beta, tables.base, tables.table
    scale, power = tables.scale, tables.power
    total = 0.0
    for x in range(n):
        i, s = items[order[x]], secrets[slots[x]]
        for a in range(len(strides)):
            total += np.log(value[cells[i, a] + s * strides[a]])
        shift_row(
            cells, strides, beta, base, table, scale, power, counts, value, s, i, 1
        )  # fmt: skip
    shift_rows(arrays, tables, counts, value, slots, items, order, n, -1)
    return total


@njit(cache=True, nogil=True, forceinline=True)
def log_proposal(weight: Floats, order: Ints, n: int) -> float:
    """Return the log of the product-form density of an order, up to the permanent."""
    total = 0.0
    for x in range(n):
        total += np.log(weight[x, order[x]])
    return total


@njit(cache=True, nogil=True, forceinline=True)
def has_repeats(arrays: Arrays, slots: Ints, n: int) -> bool:
    """Whether two slots of a block have the same sensitive value."""
    for x in range(n):
        for y in range(x):
            if arrays.secrets[slots[x]] == arrays.secrets[slots[y]]:
                return True
    return False


@njit(cache=True, nogil=True)
def collapsed_sweep(
    arrays: Arrays,
    lattice: Lattice,
    tables: Powers,
    counts: Ints,
    assignment: Ints,
    block: int,
    sub_block: int,
    owner: Floats,
    rng: np.random.Generator,
) -> tuple[int, int, int]:
    """Redraw every group given the other rows; `counts` and `assignment` change in place.

    Blocks with repeated values add their new state to `owner`; others add the product form, which
    is exact for them. Returns the number of slots whose item changed, of blocks that needed the
    Metropolis correction, and of those that were accepted.
    """
    offsets = arrays.offsets
    slots = np.empty(widest_group(offsets), dtype=np.int64)
    space = marginal_space(lattice.block, 0)
    items, order, weight, flat = space.items, space.slots, space.weight, space.flat
    forward, backward = space.forward, space.backward
    marginal, flat_marginal = space.marginal, space.flat_marginal
    stay = np.arange(lattice.block)
    value = np.empty(len(counts))
    for c in range(len(counts)):
        value[c] = cell_value(tables, c, counts[c])
    floor = np.empty(1)
    floor[0] = (tables.beta.min() / tables.scale) ** tables.power
    safe = is_safe(floor, len(arrays.strides))
    moved, corrected, accepted = 0, 0, 0
    for g in range(len(offsets) - 1):
        lo, hi = offsets[g], offsets[g + 1]
        piece = cut_group(lo, hi, block, sub_block, slots, rng)
        for first in range(0, hi - lo, piece):
            n = min(piece, hi - lo - first)
            part = slots[first : first + n]
            for x in range(n):
                items[x] = assignment[part[x]]
            shift_rows(arrays, tables, counts, value, part, items, stay, n, -1)
            weigh_orders(arrays, lattice, value, part, items, n, safe, weight, flat, forward)
            draw_order(weight, n, forward, order, rng)
            exact = not (arrays.repeats[g] and has_repeats(arrays, part, n))
            if not exact:
                corrected += 1
                ratio = log_proposal(weight, stay, n) - log_proposal(weight, order, n)
                ratio += block_log_target(arrays, tables, counts, value, part, items, order, n)
                ratio -= block_log_target(arrays, tables, counts, value, part, items, stay, n)
                if np.log(1.0 - rng.random()) < ratio:
                    accepted += 1
                else:
                    order[:n] = stay[:n]
            shift_rows(arrays, tables, counts, value, part, items, order, n, 1)
            for x in range(n):
                moved += order[x] != x
                assignment[part[x]] = items[order[x]]
            if len(owner) and exact:
                order_marginals(lattice, flat, n, forward, backward, flat_marginal)
                add_ownership(arrays, part, items, n, marginal, owner)
            elif len(owner):
                for x in range(n):
                    owner[arrays.links[items[order[x]]] + arrays.ranks[part[x]]] += 1.0
    return moved, corrected, accepted
