"""Names and draws of scalar quantities, and summaries of many tests."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from anonbayes import compat
from anonbayes.errors import AnonbayesError, nearest
from anonbayes.estimation.closed_forms import Estimate

# -------------------------------------------------------------------------------------------------
# Flat names for the entries of labelled arrays, as ArviZ writes them: ``pi_Age[Flu, 20-29]``.


def flat_labels(name: str, array: xr.DataArray, skip: tuple[str, ...] = ()) -> list[str]:
    """Return one name per entry of `array`, in C order, leaving out the dimensions in `skip`."""
    dims = [dim for dim in array.dims if dim not in skip]
    if not dims:
        return [name]
    labels = [
        array[dim].values if dim in array.coords else np.arange(array.sizes[dim]) for dim in dims
    ]
    return [f"{name}[{', '.join(map(str, entry))}]" for entry in itertools.product(*labels)]


WORDS = {"pi_": "Share", "weight_": "Weight", "correction_": "Correction"}
"""What the variables of a model are, by the beginning of their names."""

# -------------------------------------------------------------------------------------------------
# Scalar quantities by name: ranking by concern, and their draws.


def idata_of(post: Any) -> Any:
    """Return what contains the draws: the groups of a Posterior, an ArviZ object, or `post` itself.

    The groups of a Posterior are used directly, because its ArviZ object would have to be built.
    """
    if isinstance(post, Estimate):
        if post.draws is None:
            raise AnonbayesError(
                f"An estimate with method={post.method!r} has no draws to diagnose; use 'bayes'."
            )
        return post.draws.rename("p")
    own = getattr(post, "groups", None)
    return own if isinstance(own, Mapping) else getattr(post, "idata", post)


def rank_quantities(table: pd.DataFrame) -> list[str]:
    """Return the quantities that are broken or could be tested, most worrying first.

    See `DiagnosticReport.worst`.
    """
    broken = table["status"].isin(["not finite", "stuck"])
    sound = table[~broken]
    rankings = [
        _ranking(sound, [("r_hat", -1.0)], [("geweke_z", -1.0)]),
        _ranking(
            sound, [("weiss_between_p", 1.0), ("chain_share", -1.0)], [("weiss_within_p", 1.0)]
        ),
    ]
    longest = max(map(len, rankings))
    turns = [r[i] for i in range(longest) for r in rankings if i < len(r)]
    return [*map(str, table.index[broken]), *turns]


def _ranking(table: pd.DataFrame, *choices: list[tuple[str, float]]) -> list[str]:
    """Sort by the first list of (column, sign) keys whose columns have numbers."""
    for keys in choices:
        first = keys[0][0]
        if first in table and table[first].notna().any():
            rows = table[table[first].notna()]
            signed = [sign * rows[column].abs().to_numpy() for column, sign in keys]
            return [str(rows.index[i]) for i in np.lexsort(signed[::-1])]
    return []


def draws_of(post: object, quantity: str) -> np.ndarray:
    """Return the draws (chain, draw) of a quantity by its name in the report's table."""
    _, variable, place = _find(post, quantity)
    ordered = variable.transpose(*compat.SAMPLE_DIMS, ...)
    return ordered.values.reshape(*ordered.shape[:2], -1)[..., place]


def in_words(post: object, quantity: str) -> str:
    """Return what a quantity of a model of this package is; another's name stays as it is.

    Examples
    --------
    >>> import anonbayes as ab
    >>> table = ab.datasets.load("table1_recoded")
    >>> post = ab.fit(table, draws=10, tune=5, seed=1, progressbar=False)
    >>> in_words(post, "pi_Nat[Flu, J]")
    'Share of Nat = J among Dis = Flu'
    """
    name, variable, place = _find(post, quantity)
    dims = [dim for dim in variable.dims if dim not in compat.SAMPLE_DIMS]
    for prefix, word in WORDS.items():
        column = name.removeprefix(prefix)
        if column == name or len(dims) > 2 or (dims and dims[-1] != column):
            continue
        at = np.unravel_index(place, [variable.sizes[dim] for dim in dims])
        last, *given = [
            f"{dim} = {variable[dim].values[i]}" for dim, i in zip(dims, at, strict=True)
        ][::-1] or [column]
        return f"{word} of {last}" + "".join(f" among {other}" for other in given)
    return quantity


def _find(post: object, quantity: str) -> tuple[str, xr.DataArray, int]:
    """Return the variable that contains a quantity, with its name and the place of the entry."""
    groups = compat.groups(idata_of(post))
    known: list[str] = []
    for group in ("posterior", "sample_stats"):
        for name, variable in groups[group].data_vars.items() if group in groups else ():
            if not set(compat.SAMPLE_DIMS) <= set(variable.dims):
                continue
            labels = flat_labels(str(name), variable, compat.SAMPLE_DIMS)
            if quantity in labels:
                return str(name), variable, labels.index(quantity)
            known += labels
    raise AnonbayesError(f"quantity={quantity!r} is not in the draws. {nearest(quantity, known)}")


# -------------------------------------------------------------------------------------------------
# Thousands of tests at once: the share below the level, Benjamini-Hochberg, the worst by name.


def adjust_p_values(p_values: np.ndarray) -> np.ndarray:
    """Return Benjamini-Hochberg adjusted p-values; NaN (no test) stays NaN and is not counted.

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
    from scipy.stats import false_discovery_control  # slow to import

    p = np.asarray(p_values, dtype=float)
    adjusted = np.full(p.shape, np.nan)
    tested = ~np.isnan(p)
    if tested.any():
        adjusted[tested] = false_discovery_control(p[tested])
    return adjusted


@dataclass(frozen=True)
class TestSummary:
    """Summary of a family of tests.

    Attributes
    ----------
    n_tests : int
        Number of tests that could be made.
    n_undefined : int
        Number of entries without a test: constant, a single category, or missing draws.
    level : float
        Level of each single test, which is also the expected share below it.
    share_below : float
        Share of p-values below the level.
    n_rejected : int
        Number of tests that Benjamini-Hochberg rejects at the level.
    worst : tuple of (name, p-value)
        The smallest p-values, in ascending order.
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
    p_values: np.ndarray, names: Sequence[str] | None = None, *, level: float = 0.05, worst: int = 5
) -> TestSummary:
    """Summarise many p-values of the same kind.

    Parameters
    ----------
    p_values : array
        P-values of any shape; NaN if there was no test.
    names : sequence of str, optional
        One name per p-value in C order.
    level : float, default 0.05
        Level of a single test and of the false discovery rate.
    worst : int, default 5
        Number of the smallest p-values to name.

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
        raise AnonbayesError(f"level={level!r} must be between 0 and 1.")
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
