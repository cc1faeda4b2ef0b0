"""Sorting inside groups whose rows stand together: in time that grows with the rows, not faster.

Groups are small, so a sort of all rows would spend most of its time on an order that is known.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from anonbayes.arrays import Ints

__all__ = ["distinct_inside", "order_inside"]

SMALL = 32
"""Groups up to this size are sorted by insertion."""


@njit(cache=True, nogil=True)
def order_inside(keys: NDArray[np.float64], offsets: Ints) -> Ints:
    """Rows of each group in ascending order of their keys; equal keys stay in order.

    Parameters
    ----------
    keys : array, shape (N,)
        One number per row.
    offsets : array of int, shape (G + 1,)
        Group ``g`` is made of the rows ``offsets[g]`` to ``offsets[g + 1] - 1``.

    Examples
    --------
    >>> order_inside(np.array([0.3, 0.1, 0.2, 0.9]), np.array([0, 3, 4])).tolist()
    [1, 2, 0, 3]
    """
    order = np.arange(len(keys))
    for g in range(len(offsets) - 1):
        start, stop = offsets[g], offsets[g + 1]
        if stop - start > SMALL:
            order[start:stop] = start + np.argsort(keys[start:stop], kind="mergesort")
            continue
        for i in range(start + 1, stop):
            j = i
            while j > start and keys[order[j - 1]] > keys[i]:
                order[j] = order[j - 1]
                j -= 1
            order[j] = i
    return order


@njit(cache=True, nogil=True)
def distinct_inside(values: Ints, offsets: Ints, size: int) -> tuple[Ints, Ints, Ints]:
    """Distinct values of each group, ascending.

    Parameters
    ----------
    values : array of int, shape (N,)
        One code per row, less than `size`.
    offsets : array of int, shape (G + 1,)
        As in `order_inside`.
    size : int
        Number of codes.

    Returns
    -------
    distinct, first, ranks : arrays of int
        The values, group after group; where those of each group begin, with the end last; and for
        each row the place of its value among those of its group.

    Examples
    --------
    >>> found = distinct_inside(np.array([5, 2, 5, 1]), np.array([0, 3, 4]), 6)
    >>> [part.tolist() for part in found]
    [[2, 5, 1], [0, 2, 3], [1, 0, 1, 0]]
    """
    n = len(values)
    distinct = np.empty(n, dtype=np.int64)
    first = np.zeros(len(offsets), dtype=np.int64)
    ranks = np.empty(n, dtype=np.int64)
    group_of = np.full(size, -1, dtype=np.int64)
    rank_of = np.empty(size, dtype=np.int64)
    stop = 0
    for g in range(len(offsets) - 1):
        start = stop
        for row in range(offsets[g], offsets[g + 1]):
            value = values[row]
            if group_of[value] == g:
                continue
            group_of[value] = g
            j = stop
            while j > start and distinct[j - 1] > value:
                distinct[j] = distinct[j - 1]
                j -= 1
            distinct[j] = value
            stop += 1
        for j in range(start, stop):
            rank_of[distinct[j]] = j - start
        for row in range(offsets[g], offsets[g + 1]):
            ranks[row] = rank_of[values[row]]
        first[g + 1] = stop
    return distinct[:stop].copy(), first, ranks
