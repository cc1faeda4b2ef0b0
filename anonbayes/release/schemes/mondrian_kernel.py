"""Mondrian's recursive cuts on plain arrays.

Values are *positions* on a line per attribute. Cells are ranges of positions: cuts of an ordered
attribute split a range in two, and the nodes of a hierarchy are ranges once its leaves are lined
up in tree order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit

__all__ = ["partition"]


@njit(cache=True)
def partition(
    position: npt.NDArray[np.int32],
    secret: npt.NDArray[np.int32],
    n_secrets: int,
    k: int,
    l: int,  # noqa: E741
    scale: npt.NDArray[np.float64],
    left: npt.NDArray[np.int32],
    right: npt.NDArray[np.int32],
    depth: npt.NDArray[np.int64],
    strict: bool,
) -> tuple[npt.NDArray[np.int32], Any, Any]:
    """Cut the rows into groups until no cut leaves k rows and l distinct secrets on each side.

    Parameters
    ----------
    position : array, shape (A, n)
        Position of each row on each attribute.
    secret : array, shape (n,)
        Sensitive value of each row, below `n_secrets`.
    scale : array, shape (A, K)
        Place of each position in [0, 1], for the width of ordered attributes.
    left, right : array, shape (A, H, K)
        First and last position of the cell that contains a position, on each level of a hierarchy.
    depth : array, shape (A,)
        Levels of each attribute's hierarchy; 0 for ordered attributes.
    strict : bool
        Whether equal positions of an ordered attribute stay together.

    Returns
    -------
    group : array, shape (n,)
        Group of each row.
    low, high : array, shape (G, A)
        Region of each group: what the cuts left of the whole domain.
    """
    n_attributes, n = position.shape
    most = n // k + 1
    rows = np.arange(n)
    spare = np.empty(n, dtype=rows.dtype)
    stamp = np.zeros(n_secrets, dtype=np.int64)
    clock = 0
    # Waiting parts hold at least k rows each and are disjoint, so there are never more than n / k.
    begin = np.empty(most, dtype=np.int64)
    end = np.empty(most, dtype=np.int64)
    low = np.empty((most, n_attributes), dtype=np.int32)
    high = np.empty((most, n_attributes), dtype=np.int32)
    begin[0], end[0] = 0, n
    for a in range(n_attributes):
        low[0, a] = 0
        high[0, a] = right.shape[2] - 1
    waiting = 1
    group = np.empty(n, dtype=np.int32)
    group_low = np.empty((most, n_attributes), dtype=np.int32)
    group_high = np.empty((most, n_attributes), dtype=np.int32)
    n_groups = 0
    width = np.empty(n_attributes)
    first = np.empty(n_attributes, dtype=np.int32)
    last = np.empty(n_attributes, dtype=np.int32)
    box_low = np.empty(n_attributes, dtype=np.int32)
    box_high = np.empty(n_attributes, dtype=np.int32)

    while waiting:
        waiting -= 1
        b, e = begin[waiting], end[waiting]
        for a in range(n_attributes):
            box_low[a] = low[waiting, a]
            box_high[a] = high[waiting, a]
            first[a] = last[a] = position[a, rows[b]]
            for i in range(b, e):
                first[a] = min(first[a], position[a, rows[i]])
                last[a] = max(last[a], position[a, rows[i]])
        for a in range(n_attributes):
            if depth[a]:
                h = _covering_level(left[a], depth[a], first[a], last[a])
                leaves = right[a, h, first[a]] - left[a, h, first[a]]
                width[a] = leaves / max(right[a, depth[a] - 1, 0], 1)
            else:
                width[a] = scale[a, last[a]] - scale[a, first[a]]
        cut = e - b < 2 * k
        while not cut:
            a = int(np.argmax(width))
            if width[a] <= 0.0 or first[a] == last[a]:
                break
            width[a] = -1.0  # tried
            _sort(rows, spare, b, e, position[a], first[a], last[a])
            if depth[a] == 0:
                i, clock = _middle(rows, b, e, position[a], secret, stamp, clock, k, l, strict)
                if i < 0:
                    continue
                below, above = position[a, rows[i - 1]], position[a, rows[i]]
                begin[waiting], end[waiting] = b, i
                begin[waiting + 1], end[waiting + 1] = i, e
                for c in range(n_attributes):
                    low[waiting, c] = low[waiting + 1, c] = box_low[c]
                    high[waiting, c] = high[waiting + 1, c] = box_high[c]
                high[waiting, a] = below
                low[waiting + 1, a] = min(above, below + 1)
                waiting += 2
                cut = True
            else:
                h = _covering_level(left[a], depth[a], first[a], last[a]) - 1
                cell = left[a, h]
                ok, clock = _children_hold(
                    rows, b, e, position[a], cell, secret, stamp, clock, k, l
                )
                if not ok:
                    continue
                i = b
                while i < e:
                    j = i
                    here = position[a, rows[i]]
                    while j < e and cell[position[a, rows[j]]] == cell[here]:
                        j += 1
                    begin[waiting], end[waiting] = i, j
                    for c in range(n_attributes):
                        low[waiting, c] = box_low[c]
                        high[waiting, c] = box_high[c]
                    low[waiting, a] = left[a, h, here]
                    high[waiting, a] = right[a, h, here]
                    waiting += 1
                    i = j
                cut = True
        if cut and e - b >= 2 * k:
            continue
        for i in range(b, e):
            group[rows[i]] = n_groups
        for a in range(n_attributes):
            group_low[n_groups, a] = box_low[a]
            group_high[n_groups, a] = box_high[a]
        n_groups += 1
    return group, group_low[:n_groups], group_high[:n_groups]


@njit(cache=True)
def _covering_level(left: Any, depth: int, first: int, last: int) -> int:
    """Lowest level on which two positions are in one cell."""
    h = 0
    while h < depth - 1 and left[h, first] != left[h, last]:
        h += 1
    return h


@njit(cache=True)
def _sort(rows: Any, spare: Any, b: int, e: int, position: Any, first: int, last: int) -> None:
    """Sort a part of the rows by position, keeping the order of ties."""
    span = last - first + 1
    if span > 4 * (e - b) + 64:
        part = rows[b:e].copy()
        rows[b:e] = part[np.argsort(position[part], kind="mergesort")]
        return
    start = np.zeros(span + 1, dtype=np.int64)
    for i in range(b, e):
        start[position[rows[i]] - first + 1] += 1
    for s in range(span):
        start[s + 1] += start[s]
    for i in range(b, e):
        s = position[rows[i]] - first
        spare[b + start[s]] = rows[i]
        start[s] += 1
    for i in range(b, e):
        rows[i] = spare[i]


@njit(cache=True)
def _middle(
    rows: Any,
    b: int,
    e: int,
    position: Any,
    secret: Any,
    stamp: Any,
    clock: int,
    k: int,
    l: int,  # noqa: E741
    strict: bool,
) -> tuple[int, int]:
    """Cut nearest to the middle that leaves k rows and l secrets on each side, or -1.

    Secrets only accumulate along the sorted rows, so the shortest head and the shortest tail with
    l of them bound all cuts that are allowed.
    """
    clock += 1
    seen, i = 0, b
    while seen < l and i < e:
        if stamp[secret[rows[i]]] != clock:
            stamp[secret[rows[i]]] = clock
            seen += 1
        i += 1
    least = max(i, b + k)
    clock += 1
    seen, i = 0, e
    while seen < l and i > b:
        i -= 1
        if stamp[secret[rows[i]]] != clock:
            stamp[secret[rows[i]]] = clock
            seen += 1
    most = min(i, e - k)
    half = b + (e - b) // 2
    for step in range(e - b):
        for i in (half - step, half + step):
            if least <= i <= most and not (strict and position[rows[i - 1]] == position[rows[i]]):
                return i, clock
    return -1, clock


@njit(cache=True)
def _children_hold(
    rows: Any,
    b: int,
    e: int,
    position: Any,
    cell: Any,
    secret: Any,
    stamp: Any,
    clock: int,
    k: int,
    l: int,  # noqa: E741
) -> tuple[bool, int]:
    """Whether each child that occurs in the sorted rows has k rows and l secrets."""
    i = b
    while i < e:
        clock += 1
        here, j, seen = cell[position[rows[i]]], i, 0
        while j < e and cell[position[rows[j]]] == here:
            if stamp[secret[rows[j]]] != clock:
                stamp[secret[rows[j]]] = clock
                seen += 1
            j += 1
        if j - i < k or seen < l:
            return False, clock
        i = j
    return True, clock
