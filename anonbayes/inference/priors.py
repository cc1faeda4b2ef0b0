"""Dirichlet priors: background knowledge as positive weights of the right shape."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.domains import Domain, in_domain_order, weights_by_value
from anonbayes.errors import ModelError, nearest
from anonbayes.release.table import ReleasedTable

__all__ = ["Prior", "PriorLike", "resolve_prior"]

Weights = npt.NDArray[np.float64]
PriorLike = float | npt.ArrayLike | Mapping[Any, Any] | Callable[..., npt.ArrayLike]


@dataclass(frozen=True, eq=False)
class Prior:
    """Hyperparameters of the model, in the shapes in which the model uses them.

    Parameters
    ----------
    alpha : numpy.ndarray
        Weights of the sensitive values, shape ``(S,)``.
    beta : dict of str to numpy.ndarray
        Per attribute the weights of its values given each sensitive value, shape ``(S, K)``.
    """

    alpha: Weights
    beta: Mapping[str, Weights]

    @property
    def fingerprint(self) -> str:
        """Digest of the weights."""
        digest = hashlib.sha256(np.ascontiguousarray(self.alpha).tobytes())
        for name, weights in self.beta.items():
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(weights).tobytes())
        return digest.hexdigest()[:16]


def resolve_prior(table: ReleasedTable, *, alpha: PriorLike = 1.0, beta: PriorLike = 1.0) -> Prior:
    """Bring the prior into shape, or say which shape was expected.

    Parameters
    ----------
    table : ReleasedTable
        The table to be analysed.
    alpha : float, array, mapping or callable
        Dirichlet weights of the sensitive values: one number for all, one per value (array of
        shape ``(S,)``, or ``{value: weight}`` where values left out weigh 1), or a function of
        the sensitive domain.
    beta : float, array, mapping or callable
        Dirichlet weights of the nonsensitive values: one number for all attributes, or per
        attribute ``{name: ...}`` (attributes left out weigh 1) a number, a vector of shape
        ``(K,)`` for all sensitive values, an array of shape ``(S, K)``, a mapping
        ``{value: weight}``, or a function of ``(domain, sensitive_domain)``. A function given
        instead of the mapping is called for every attribute. Labels of a pandas Series (values) or
        DataFrame (sensitive values by values) say which weight is whose.

    Examples
    --------
    >>> import anonbayes as ab
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"Nat": ["M", "J"], "Dis": ["Heart", "Flu"]})
    >>> table = ab.ReleasedTable.horizontal(frame, "Dis")
    >>> resolve_prior(table, alpha={"Flu": 5}, beta={"Nat": [1, 3]}).beta["Nat"].tolist()
    [[1.0, 3.0], [1.0, 3.0]]
    """
    secret = table.secret.domain
    weights: Any = alpha(secret) if callable(alpha) else alpha
    what = f"alpha (sensitive {secret.name!r})"
    resolved = _shape(weights, (len(secret),), secret, secret, what)
    if isinstance(beta, Mapping):
        for name in beta:
            if name not in table.columns:
                raise ModelError(
                    f"beta names {name!r}, which is no nonsensitive attribute. "
                    f"{nearest(name, table.attributes)}"
                )
    betas = {}
    for name in table.attributes:
        domain = table.domains[name]
        weights = beta.get(name, 1.0) if isinstance(beta, Mapping) else beta
        if callable(weights):
            weights = weights(domain, secret)
        betas[name] = _shape(weights, (len(secret), len(domain)), domain, secret, f"beta[{name!r}]")
    return Prior(resolved, betas)


def _by_label(labelled: Any, domain: Domain, secret: Domain, what: str) -> Any:
    """Labelled weights in the order of the domains; without labels, as they stand."""
    for axis, own in enumerate([domain] if labelled.ndim == 1 else [secret, domain]):
        order = in_domain_order(labelled.axes[axis], own, what=what)
        labelled = labelled.take(order, axis=axis)
    return labelled.to_numpy()


def _shape(
    weights: Any, shape: tuple[int, ...], domain: Domain, secret: Domain, what: str
) -> Weights:
    if isinstance(weights, pd.Series | pd.DataFrame):
        weights = _by_label(weights, domain, secret, what)
    if isinstance(weights, Mapping):
        weights = weights_by_value(weights, domain, what=what)
    try:
        array = np.asarray(weights, dtype=float)
    except (TypeError, ValueError):
        raise ModelError(f"{what} must be numbers, got {weights!r}.") from None
    if array.shape not in {(), shape[-1:], shape}:
        expected = " or ".join(str(s) for s in dict.fromkeys(((), shape[-1:], shape)))
        raise ModelError(
            f"{what} has shape {array.shape}; expected {expected}, where the last axis is the "
            f"domain of {domain.name!r} ({len(domain)} values)."
        )
    out = np.array(np.broadcast_to(array, shape))
    bad = np.argwhere(~(np.isfinite(out) & (out > 0)))
    if len(bad):
        place = tuple(int(i) for i in bad[0])
        raise ModelError(
            f"{what} must be positive and finite (a proper Dirichlet prior), got "
            f"{out[place]!r} for {domain.values[place[-1]]!r}. Use a small positive weight for "
            "values that you hold nearly impossible, or leave them out of the domain."
        )
    out.setflags(write=False)
    return out
