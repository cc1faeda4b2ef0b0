"""Reports as an observed part of any PyMC model."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pymc as pm
import pytensor.sparse as sparse_ops
import pytensor.tensor as pt
from scipy import sparse

from anonbayes.channels.base import Channel, usable
from anonbayes.errors import ModelError
from anonbayes.estimation.likelihood import MatrixLikelihood, MixtureLikelihood


def Released(name: str, channel: Channel, p: object, *, observed: Any, **kwargs: Any) -> Any:
    """Likelihood of reports given the distribution `p` of the true values, inside a PyMC model.

    Parameters
    ----------
    name : str
        Name in the model.
    channel : Channel
        The channel that made the reports.
    p : tensor variable or array, shape (K,)
        Distribution of the true values, in domain order: any expression of the model.
    observed
        The reports, as `Channel.release` returned them.
    **kwargs
        For channels whose reports are counted (randomized response, `MatrixChannel`): passed to
        `pymc.Multinomial`, for example ``dims``.

    Returns
    -------
    TensorVariable
        For these channels the observed counts, a `pymc.Multinomial`, so that posterior predictive
        checks work; for other channels a `pymc.Potential`. Both depend on sufficient statistics
        only: on distinct reports, not on users.

    Examples
    --------
    >>> import anonbayes as ab
    >>> import pymc as pm
    >>> channel = ab.RandomizedResponse(ab.Domain("answer", ["yes", "no"]), epsilon=1.0)
    >>> reports = channel.release(["yes"] * 30 + ["no"] * 70, seed=1)
    >>> with pm.Model() as model:
    ...     p = pm.Dirichlet("p", [1.0, 1.0])
    ...     _ = ab.Released("reports", channel, p, observed=reports)
    >>> [rv.name for rv in model.observed_RVs]
    ['reports']
    """
    pm.modelcontext(None)
    if not isinstance(channel, Channel):
        raise ModelError(
            f"Released({name!r}): {type(channel).__name__} is not a channel; the order is name, "
            "channel, p. For PaddedSets, pass its .channel."
        )
    likelihood = usable(channel.likelihood(observed))
    vector = pt.as_tensor_variable(p)
    if vector.ndim != 1:
        raise ModelError(
            f"Released({name!r}): p must be a vector of {len(channel.domain)} probabilities, but "
            f"has {vector.ndim} dimensions."
        )
    if vector.type.shape[0] not in (None, len(channel.domain)):
        raise ModelError(
            f"Released({name!r}): p has {vector.type.shape[0]} entries, but the channel's domain "
            f"{channel.domain.name!r} has {len(channel.domain)} values."
        )
    if isinstance(likelihood, MatrixLikelihood):
        return pm.Multinomial(
            name,
            n=likelihood.n,
            p=pt.dot(likelihood.rows, vector),
            observed=likelihood.weights,
            **kwargs,
        )
    if likelihood.is_diagonal and likelihood.floor_is_flat:
        rates = likelihood.floor + likelihood.gain * vector
        return pm.Multinomial(name, n=likelihood.n, p=rates, observed=likelihood.weights, **kwargs)
    if kwargs:
        raise ModelError(
            f"Released({name!r}): {sorted(kwargs)} cannot be used with {type(channel).__name__}, "
            "whose reports enter the model as a potential."
        )
    return pm.Potential(name, log_likelihood(likelihood, vector))


def log_likelihood(likelihood: MixtureLikelihood, p: Any) -> Any:
    """Log-likelihood of a symbolic distribution `p`, with gradient."""
    seen = np.flatnonzero(likelihood.weights)
    lengths = np.diff(likelihood.indptr)[seen]
    rows = np.repeat(np.arange(len(seen)), lengths)
    kept = np.repeat(likelihood.weights > 0, np.diff(likelihood.indptr))
    columns = likelihood.indices[kept].astype(np.int32)
    own: npt.NDArray[np.float64] = likelihood.gain[columns]
    matrix = sparse.csc_matrix((own, (rows, columns)), shape=(len(seen), likelihood.size))
    inner = sparse_ops.structured_dot(matrix, p[:, None])[:, 0]
    total = likelihood.floor[seen] * pt.dot(likelihood.tilt, p) + inner
    weights = likelihood.weights[seen].astype(float)
    constant = float(weights @ likelihood.log_scale[seen])
    return pt.dot(weights, pt.log(total)) + constant
