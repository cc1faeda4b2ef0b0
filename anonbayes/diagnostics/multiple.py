"""Thousands of tests at once: the share below the level, Benjamini-Hochberg, the worst by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from ..errors import AnonbayesError


def adjust_p_values(p_values: np.ndarray) -> np.ndarray:
    """Return Benjamini-Hochberg adjusted p-values; NaN (no test) stays NaN and does not count.

    Rejecting where the adjusted value is below 0.05 keeps the expected share of false rejections
    among all rejections below 0.05, for independent or positively dependent tests.

    References
    ----------
    .. [1] Y. Benjamini, Y. Hochberg (1995). Controlling the false discovery rate: a practical and
       powerful approach to multiple testing. JRSS B 57, 289-300.

    Examples
    --------
    >>> adjust_p_values(np.array([0.01, 0.5, np.nan, 0.02]))
    array([0.03, 0.5 ,  nan, 0.03])
    """
    p = np.asarray(p_values, dtype=float)
    adjusted = np.full(p.shape, np.nan)
    tested = ~np.isnan(p)
    if tested.any():
        adjusted[tested] = stats.false_discovery_control(p[tested])
    return adjusted


def two_sided(z: np.ndarray) -> np.ndarray:
    """Return the two-sided normal p-values of z scores.

    Examples
    --------
    >>> two_sided(np.array([0.0, 1.96, -np.inf])).round(3)
    array([1.  , 0.05, 0.  ])
    """
    return 2.0 * stats.norm.sf(np.abs(z))


@dataclass(frozen=True)
class TestSummary:
    """What a family of tests says as a whole.

    Attributes
    ----------
    n_tests : int
        Tests that could be made.
    n_undefined : int
        Entries without a test: constant, one category, or missing draws.
    level : float
        Level of each single test, which is also the share expected below it.
    share_below : float
        Share of p-values below the level.
    n_rejected : int
        Tests that Benjamini-Hochberg rejects at the level.
    worst : tuple of (name, p-value)
        Smallest p-values first.
    """

    n_tests: int
    n_undefined: int
    level: float
    share_below: float
    n_rejected: int
    worst: tuple[tuple[str, float], ...]

    __test__ = False  # pytest collects classes called Test...

    def __str__(self) -> str:
        if self.n_tests == 0:
            return f"no tests ({self.n_undefined:,} undefined)"
        undefined = f"; {self.n_undefined:,} undefined" if self.n_undefined else ""
        return (
            f"{self.share_below:.1%} of {self.n_tests:,} p-values below {self.level:g} "
            f"({self.level:.0%} expected), {self.n_rejected:,} rejected by "
            f"Benjamini-Hochberg{undefined}"
        )


def summarize_tests(
    p_values: np.ndarray,
    names: Sequence[str] | None = None,
    *,
    level: float = 0.05,
    worst: int = 5,
) -> TestSummary:
    """Summarise many p-values of one kind.

    Parameters
    ----------
    p_values : array
        Any shape; NaN where there was no test.
    names : sequence of str, optional
        One name per p-value in C order.
    level : float, default 0.05
        Level of a single test and of the false discovery rate.
    worst : int, default 5
        How many of the smallest p-values to name.

    Examples
    --------
    >>> p = np.random.default_rng(0).uniform(size=1000)
    >>> p[7] = 1e-9
    >>> summary = summarize_tests(p)
    >>> print(summary)
    4.6% of 1,000 p-values below 0.05 (5% expected), 1 rejected by Benjamini-Hochberg
    >>> summary.worst[0]
    ('7', 1e-09)
    """
    p = np.asarray(p_values, dtype=float).reshape(-1)
    if not 0 < level < 1:
        raise AnonbayesError(f"level={level!r} is not between 0 and 1.")
    if names is not None and len(names) != p.size:
        raise AnonbayesError(f"names has {len(names)} entries for {p.size} p-values.")
    if ((p < 0) | (p > 1)).any():
        raise AnonbayesError(f"p_values: {p[(p < 0) | (p > 1)][0]!r} is not a probability.")
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")][:worst]
    return TestSummary(
        n_tests=tested.size,
        n_undefined=p.size - tested.size,
        level=level,
        share_below=float((p[tested] < level).mean()) if tested.size else float("nan"),
        n_rejected=int((adjust_p_values(p)[tested] <= level).sum()),
        worst=tuple((names[i] if names is not None else str(i), float(p[i])) for i in order),
    )
