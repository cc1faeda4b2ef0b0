"""Synthetic populations of the sizes of ULDP's two data sets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

import anonbayes as ab


class Population(NamedTuple):
    """Distribution over a domain, its sensitive values, and the number of users."""

    name: str
    domain: ab.Domain
    p: np.ndarray
    sensitive: np.ndarray
    n: int


def places() -> Population:
    """A city of 25 x 25 regions: a few busy centres; 15 of the busy regions hold hospitals."""
    rng = np.random.default_rng(625)
    grid = np.stack(np.meshgrid(np.arange(25), np.arange(25)), axis=-1).reshape(-1, 2)
    weight = np.full(625, 2e-4)
    for _ in range(12):
        centre, width = rng.uniform(3, 21, 2), rng.uniform(0.7, 2.5)
        distance = ((grid - centre) ** 2).sum(axis=1)
        weight += rng.gamma(1.0) * np.exp(-distance / (2 * width**2))
    p = weight / weight.sum()
    hospitals = rng.choice(np.argsort(-p)[:200], 15, replace=False)
    return Population("places", ab.Domain("region", range(625)), p, np.sort(hospitals), 179_527)


def census(extra: int = 0) -> Population:
    """Age, income, marital status, sex (400 cells, 76 sensitive), and `extra` yes/no questions."""
    rng = np.random.default_rng(400)
    sizes = [8, 5, 5, 2] + [2] * extra
    p = np.zeros(int(np.prod(sizes)))
    for share in rng.dirichlet(np.full(6, 2.0)):
        cell = np.ones(1)
        for i, size in enumerate(sizes):
            marginal = rng.dirichlet(np.full(size, 0.4)) if i < 4 else rng.dirichlet([9.0, 1.0])
            cell = np.outer(cell, marginal).ravel()
        p += share * cell
    first = rng.choice(400, 76, replace=False)
    per_cell = 2**extra
    sensitive = (np.sort(first)[:, None] * per_cell + np.arange(per_cell)).ravel()
    n = 240_000 if extra else 1_229_143
    domain = ab.Domain("cell", range(len(p)))
    return Population("census", domain, 0.999 * p / p.sum() + 0.001 / len(p), sensitive, n)
