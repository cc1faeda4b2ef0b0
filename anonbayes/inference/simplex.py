"""PyMC's unconstrained coordinates of a simplex, in NumPy, for step methods that draw simplices."""

from __future__ import annotations

import numpy as np

from anonbayes.arrays import Floats

__all__ = ["from_unconstrained", "to_unconstrained"]


def to_unconstrained(p: Floats) -> Floats:
    """Centred log ratios without the last one: PyMC's ``SimplexTransform.forward``.

    Examples
    --------
    >>> to_unconstrained(np.array([0.5, 0.25, 0.25])).round(3).tolist()
    [0.462, -0.231]
    """
    log_p = np.log(np.maximum(p, np.finfo(float).tiny))
    return log_p[..., :-1] - log_p.mean(axis=-1, keepdims=True)


def from_unconstrained(x: Floats) -> Floats:
    """Inverse of `to_unconstrained`.

    Examples
    --------
    >>> from_unconstrained(to_unconstrained(np.array([0.5, 0.25, 0.25]))).round(6).tolist()
    [0.5, 0.25, 0.25]
    """
    full = np.concatenate([x, -x.sum(axis=-1, keepdims=True)], axis=-1)
    full = np.exp(full - full.max(axis=-1, keepdims=True))
    return full / full.sum(axis=-1, keepdims=True)
