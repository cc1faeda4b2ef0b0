"""Scalar quantities by name: their order of concern, and their draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from .. import compat
from ..errors import AnonbayesError, nearest
from ._labels import flat_labels


def idata_of(post: Any) -> Any:
    """Return the ArviZ object of a Posterior, or the object itself."""
    return getattr(post, "idata", post)


def rank_quantities(table: pd.DataFrame) -> list[str]:
    """Return the quantities that are broken or were tested, the most worrying first.

    Broken ones lead; then real ones by R-hat (one chain: Geweke's z) and categorical ones by Weiß
    p-value and share of variation between chains take turns.
    """
    broken = table["status"].isin(["not finite", "stuck"])
    sound = table[~broken]
    rankings = [
        _ranking(sound, [("r_hat", -1.0)], [("geweke_z", -1.0)]),
        _ranking(
            sound,
            [("weiss_between_p", 1.0), ("chain_share", -1.0)],
            [("weiss_within_p", 1.0)],
        ),
    ]
    longest = max(map(len, rankings))
    turns = [r[i] for i in range(longest) for r in rankings if i < len(r)]
    return [*map(str, table.index[broken]), *turns]


def _ranking(table: pd.DataFrame, *choices: list[tuple[str, float]]) -> list[str]:
    """Sort by the first choice of (column, sign) keys that holds numbers."""
    for keys in choices:
        first = keys[0][0]
        if first in table and table[first].notna().any():
            rows = table[table[first].notna()]
            signed = [sign * rows[column].abs().to_numpy() for column, sign in keys]
            return [str(rows.index[i]) for i in np.lexsort(signed[::-1])]
    return []


def draws_of(post: Any, quantity: str) -> np.ndarray:
    """Return the draws (chain, draw) of a quantity by its flat name, as in the report's table.

    Examples
    --------
    >>> draws_of(np.arange(24.0).reshape(2, 4, 3), "x[2]")
    array([[ 2.,  5.,  8., 11.],
           [14., 17., 20., 23.]])
    """
    groups = compat.groups(idata_of(post))
    known: list[str] = []
    for group in ("posterior", "sample_stats"):
        for name, variable in groups[group].data_vars.items() if group in groups else ():
            if not set(compat.SAMPLE_DIMS) <= set(variable.dims):
                continue
            labels = flat_labels(str(name), variable, compat.SAMPLE_DIMS)
            if quantity in labels:
                ordered = variable.transpose(*compat.SAMPLE_DIMS, ...)
                flat = ordered.values.reshape(*ordered.shape[:2], -1)
                return flat[..., labels.index(quantity)]
            known += labels
    raise AnonbayesError(f"quantity={quantity!r} is not in the draws. {nearest(quantity, known)}")
