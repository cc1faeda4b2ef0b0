"""The collapsed draw: groups redrawn with the parameters integrated out, at any temperature.

With ``pi`` integrated out the posterior of an assignment is proportional to ``exp(E)``,
``E = sum lgamma(beta + delta)`` (MODEL 1.4); the target at inverse temperature ``lambda`` is
``exp(lambda E)``. Given the other rows, a group whose sensitive values differ pairwise has a
product form with weights ``w(l, m) = prod_a (beta + delta_a(s_l, r_ma))^lambda``, the group's own
rows taken out of the counts, so the exact draw of `block` applies. With repeated values the same
draw is a proposal and `block_log_target` corrects it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from scipy.special import gammaln

from anonbayes.arrays import Floats, Ints
from anonbayes.inference.vertical.block import (
    Lattice,
    add_ownership,
    cut_group,
    draw_order,
    fill_weights,
    is_safe,
    order_marginals,
    sum_orders,
    widest_group,
)
from anonbayes.inference.vertical.group_layout import Arrays, VerticalLayout

LARGEST_TABLE = 20_000_000
"""Numbers kept per table of powers (160 MB); beyond it powers are computed when needed."""


class Powers(NamedTuple):
    """Tables of ``((beta + n) / scale)^lambda`` for every count ``n`` a cell can reach.

    Cells of equal ``beta`` share a segment, so the default prior needs one short table. An empty
    `table` (too many distinct priors on too many rows) asks the kernels to compute the powers.
    """

    beta: Floats
    base: Ints
    table: Floats
    log_gamma: Floats
    scale: float
    power: float


def powers(layout: VerticalLayout, beta: Floats, power: float = 1.0) -> Powers:
    """Tabulate the collapsed weights of a table under the flat prior `beta`.

    Examples
    --------
    >>> layout = VerticalLayout([[0], [1]], [0, 1], [0, 2], [2], 2)
    >>> powers(layout, np.ones(4)).table * 2.0
    array([1., 2.])
    """
    kinds, kind = np.unique(beta, return_inverse=True)
    # A cell cannot count more rows than have its sensitive value, nor than have its category.
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
    start = np.concatenate([[0], np.cumsum(length)])
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
    """Add (``by=1``) or take out (``by=-1``) one row from the counts and their values.

    The arrays are passed one by one and the call is inlined: handing over tuples of arrays here,
    in the innermost call, would cost ten times the work itself.
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
    """Add (``by=1``) or take out (``by=-1``) the rows of a block from the counts."""
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
    """Return ``lambda * log p(order | other rows)`` of a block whose rows are out of the counts.

    Rows enter one by one, so the probability is a product of rising factorials; the counts are
    left as they were found.
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
    """Tell whether two slots of a block have the same sensitive value."""
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

    Ownership is added to `owner` from the product form, so only where it is exact: blocks with
    repeated values add their new state instead.

    Returns
    -------
    moved, corrected, accepted
        Slots whose item changed; blocks that needed the Metropolis correction, and how many of
        those passed it.
    """
    offsets = arrays.offsets
    size = lattice.block
    slots = np.empty(widest_group(offsets), dtype=np.int64)
    items = np.empty(size, dtype=np.int64)
    order = np.empty(size, dtype=np.int64)
    stay = np.arange(size)
    flat = np.empty(size * size)
    weight = flat.reshape(size, size)
    flat_marginal = np.empty(size * size)
    marginal = flat_marginal.reshape(size, size)
    forward = np.empty(1 << size)
    backward = np.empty(1 << size)
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
            fill_weights(arrays, value, part, items, n, safe, weight)
            if not sum_orders(lattice, flat, n, forward) > 1e-280:
                fill_weights(arrays, value, part, items, n, False, weight)
                sum_orders(lattice, flat, n, forward)
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
