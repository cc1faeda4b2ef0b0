"""Weighted evidence as part of a PyMC model: ``weight_<attribute>``, and secrets given the cells.

The features of the records, each row's own taken out, are data; the weights are positive variables,
and the secrets follow ``softmax(L)`` of MODEL 1.9. NUTS draws what `fit_weights` approximates by a
normal distribution at the mode.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor.tensor as pt

from anonbayes.errors import ModelError
from anonbayes.inference.dirichlet import WEIGHT
from anonbayes.inference.features import Features
from anonbayes.inference.vertical.crossfit import WEIGHT_PRIOR, CrossFit
from anonbayes.inference.vertical.group_layout import VerticalLayout
from anonbayes.inference.weight_kernels import dense_features
from anonbayes.inference.weights import CENTRE, SPREAD

__all__ = ["add_link", "add_weights"]

MOST_NUMBERS = 50_000_000


def add_weights(
    model: pm.Model, features: Features, names: tuple[str, ...], *, sensitive: str
) -> list[Any]:
    """Add the weights of a horizontal table and the likelihood of its secrets to a model.

    A record that many rows show is one line of a multinomial with as many trials, all of which
    fall on its secret: that many categorical variables, at the price of one.

    Parameters
    ----------
    model : pymc.Model
        To which they are added.
    features : Features
        Of the table's records.
    names : tuple of str
        Attributes.
    sensitive : str
        Name of the secret.

    Returns
    -------
    list
        The weights, one positive variable per attribute.
    """
    shape = (len(features.rows), len(names) + 1, len(features.share))
    if np.prod(shape, dtype=float) > MOST_NUMBERS:
        raise ModelError(
            f"{shape[0]:,} distinct records by {shape[1]} features by {shape[2]} secrets are too "
            "many for a PyMC model; fit(evidence='weighted') needs none of it."
        )
    x: npt.NDArray[np.float64] = np.empty(shape)
    dense_features(features, x)
    with model:
        weights = _weights(names, CENTRE, SPREAD)
        logits = pt.as_tensor(x[:, 0])
        for a, weight in enumerate(weights):
            logits = logits + weight * pt.as_tensor(x[:, a + 1])
        probability = pt.special.softmax(logits, axis=1)
        if len(features.likelihood):
            likelihood = features.likelihood / max(1.0, features.likelihood.sum(axis=0).max())
            reported = pt.dot(probability, pt.as_tensor(likelihood.T))
            rest = pt.maximum(1.0 - reported.sum(axis=1, keepdims=True), 0.0)
            probability = pt.concatenate([reported, rest], axis=1)  # reports that nobody sent
        rows = features.rows.astype(np.int64)
        width = len(features.likelihood) + 1 if len(features.likelihood) else shape[2]
        observed = np.zeros((shape[0], width), dtype=np.int64)
        observed[np.arange(shape[0]), features.secret] = rows
        pm.Multinomial(f"secrets_{sensitive}", n=rows, p=probability, observed=observed)
    return weights


def add_link(
    layout: VerticalLayout,
    crossfit: CrossFit,
    names: Sequence[str],
    assignment: Any,
    *,
    sensitive: str,
    dims: str,
) -> list[Any]:
    """Add the weights of a vertical table, and the likelihood of who owns what given them.

    The lifts that the other folds gave are data (`CrossFit.features`), the pooling is kept. Summed
    over the assignments this is the likelihood that `cross_fit` maximises.

    Parameters
    ----------
    layout : VerticalLayout
        The table.
    crossfit : CrossFit
        What `cross_fit` made of it.
    names : sequence of str
        Attributes.
    assignment : tensor
        Row of the items that each slot owns.
    sensitive : str
        Name of the secret.
    dims : str
        Dimension of the rows.

    Returns
    -------
    list
        The weights, one positive variable per attribute.
    """
    if layout.n_rows * layout.n_secrets > MOST_NUMBERS:
        raise ModelError(
            f"{layout.n_rows:,} rows by {layout.n_secrets} secrets are too many for a PyMC model; "
            "fit(evidence='weighted') needs none of it."
        )
    weights = _weights(names, *WEIGHT_PRIOR)
    apart, lifts = crossfit.features(layout)
    # Scores of the distinct categories first: rows only look them up.
    logits = pt.as_tensor(np.log(crossfit.secret_shares)[None, :])
    for a, (weight, lift) in enumerate(zip(weights, lifts, strict=True)):
        logits = logits + (weight * pt.as_tensor(lift.T))[apart.items[:, a]]
    pm.Categorical(
        f"secrets_{sensitive}",
        logit_p=logits[assignment],
        observed=layout.secrets.astype(np.int64),
        dims=dims,
    )
    return weights


def _weights(names: Sequence[str], mean: float, spread: float) -> list[Any]:
    return [
        pm.TruncatedNormal(f"{WEIGHT}{name}", mu=mean, sigma=spread, lower=0.0) for name in names
    ]
