"""Numeric kernels over the sparse rows of a mixture likelihood: plain arrays in and out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

__all__ = ["allocate", "count", "count_columns", "expectation", "mixture"]


@njit(cache=True)
def count(codes: Any, size: int) -> Any:
    """Count each code below `size`; narrow integer types are not widened first."""
    out = np.zeros(size, dtype=np.int64)
    for i in range(len(codes)):
        out[codes[i]] += 1
    return out


@njit(cache=True)
def count_columns(matrix: Any) -> Any:
    """Sum each column of a matrix of zeros and ones in bytes."""
    n, size = matrix.shape
    out = np.zeros(size, dtype=np.int64)
    # A byte holds the sum of 255 rows, and many bytes are added at once.
    part = np.empty(size, dtype=np.uint8)
    for start in range(0, n, 255):
        part[:] = 0
        for i in range(start, min(start + 255, n)):
            for j in range(size):
                part[j] += matrix[i, j]
        for j in range(size):
            out[j] += part[j]
    return out


@njit(cache=True)
def mixture(base: float, weighted: Any, floor: Any, indptr: Any, indices: Any) -> Any:
    """Probability of each row, ``floor[r] * base + sum of weighted over its entries``."""
    out = np.empty(len(floor))
    for r in range(len(floor)):
        total = floor[r] * base
        for j in range(indptr[r], indptr[r + 1]):
            total += weighted[indices[j]]
        out[r] = total
    return out


@njit(cache=True)
def expectation(
    base: float, weighted: Any, weights: Any, floor: Any, indptr: Any, indices: Any, pull: Any
) -> Any:
    """One pass of EM: log-likelihood, and what each column and the floor pull towards them.

    ``pull[k]`` becomes ``sum of weights[r] / P(r)`` over the rows that hold ``k``; the second
    result is ``sum of weights[r] * floor[r] / P(r)``.
    """
    log_likelihood = 0.0
    floor_pull = 0.0
    pull[:] = 0.0
    for r in range(len(floor)):
        weight = weights[r]
        if weight == 0.0:
            continue
        start, stop = indptr[r], indptr[r + 1]
        total = floor[r] * base
        for j in range(start, stop):
            total += weighted[indices[j]]
        if total <= 0.0:
            log_likelihood = -np.inf
            continue
        log_likelihood += weight * np.log(total)
        share = weight / total
        floor_pull += floor[r] * share
        for j in range(start, stop):
            pull[indices[j]] += share
    return log_likelihood, floor_pull


@njit(cache=True)
def allocate(
    rng: Any,
    base: float,
    weighted: Any,
    weights: Any,
    floor: Any,
    indptr: Any,
    indices: Any,
    counts: Any,
) -> int:
    """Draw which entry each report stems from; `counts` gets those per column.

    Returns how many reports stem from the floor, which says nothing about the column.
    """
    noise = 0
    for r in range(len(floor)):
        left = weights[r]
        if left == 0:
            continue
        start, stop = indptr[r], indptr[r + 1]
        total = floor[r] * base
        for j in range(start, stop):
            total += weighted[indices[j]]
        if left == 1:
            rest = rng.random() * total - floor[r] * base
            if rest < 0.0 or start == stop:
                noise += 1
                continue
            j = start
            rest -= weighted[indices[j]]
            while rest >= 0.0 and j + 1 < stop:
                j += 1
                rest -= weighted[indices[j]]
            counts[indices[j]] += 1
            continue
        if floor[r] > 0.0:
            drawn = rng.binomial(left, min(1.0, floor[r] * base / total))
            noise += drawn
            left -= drawn
            total -= floor[r] * base
        for j in range(start, stop):
            if left == 0:
                break
            share = 1.0 if j + 1 == stop else min(1.0, max(0.0, weighted[indices[j]] / total))
            drawn = rng.binomial(left, share)
            counts[indices[j]] += drawn
            left -= drawn
            total -= weighted[indices[j]]
        noise += left
    return noise
