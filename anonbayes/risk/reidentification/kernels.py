"""Loops over sparse bit reports: which users an attacker would name."""

from __future__ import annotations

from typing import Any

from numba import njit

__all__ = ["best_pools"]


@njit(cache=True)
def best_pools(
    indptr: Any, indices: Any, key: Any, counts: Any, own: Any, uniform: Any, out: Any
) -> None:
    """For each report the users who hold a raised value with the largest `key`.

    Parameters
    ----------
    indptr, indices
        Raised bits of each report.
    key, counts
        Key and number of holders of each value; values without holders are passed over.
    own : array of int
        Value of each report's sender.
    uniform : array of float
        One number in [0, 1) per report, which picks a user from the pool.
    out : int array of shape (n, 4)
        Filled with the size of the pool (0 if no raised value has holders), whether the sender
        is in it, the picked value, and the picked user's place among its holders.
    """
    for i in range(len(indptr) - 1):
        best, size, inside = -1.0, 0, 0
        for j in range(indptr[i], indptr[i + 1]):
            k = indices[j]
            if counts[k] == 0 or key[k] < best:
                continue
            if key[k] > best:
                best, size, inside = key[k], 0, 0
            size += counts[k]
            if k == own[i]:
                inside = 1
        out[i, 0], out[i, 1] = size, inside
        left = int(uniform[i] * size)
        for j in range(indptr[i], indptr[i + 1]):
            k = indices[j]
            if size == 0 or counts[k] == 0 or key[k] < best:
                continue
            if left < counts[k]:
                out[i, 2], out[i, 3] = k, left
                break
            left -= counts[k]
