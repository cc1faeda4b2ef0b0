"""Dirichlet draws, priors, and their Gibbs step."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
import numpy.typing as npt
import pandas as pd
from numba import njit

from anonbayes.arrays import Floats, Ints, starts_of
from anonbayes.domains import Domain, in_domain_order, weights_by_value
from anonbayes.errors import ModelError, nearest
from anonbayes.formats import label_of
from anonbayes.inference.vertical.group_layout import VerticalLayout
from anonbayes.tables.table import ReleasedTable

# -------------------------------------------------------------------------------------------------
# Numba kernels that draw Dirichlet vectors and Dirichlet trees. Plain arrays in and out.


@njit(cache=True, nogil=True)
def log_gamma_draw(a, rng):  # type: ignore[no-untyped-def]
    """Logarithm of a gamma variable of shape a, safe for shapes far below one.

    A gamma variable of shape a < 1 is one of shape a + 1 times U^(1/a); in logarithms, nothing
    underflows.
    """
    if a < 1.0:
        return np.log(rng.standard_gamma(a + 1.0)) - rng.standard_exponential() / a
    return np.log(rng.standard_gamma(a))


@njit(cache=True, nogil=True)
def dirichlet_rows(weights, out, rng):  # type: ignore[no-untyped-def]
    """Draw one Dirichlet vector per row of `weights` into `out`.

    Computed in logarithms, so that small weights do not all underflow.
    """
    for i in range(weights.shape[0]):
        top = -np.inf
        for k in range(weights.shape[1]):
            g = log_gamma_draw(weights[i, k], rng)
            out[i, k] = g
            top = max(top, g)
        total = 0.0
        for k in range(weights.shape[1]):
            out[i, k] = np.exp(out[i, k] - top)
            total += out[i, k]
        for k in range(weights.shape[1]):
            out[i, k] /= total


@njit(cache=True, nogil=True)
def draw_forest(parent, weight, total, g, rng):  # type: ignore[no-untyped-def]
    """Draw the probabilities of all nodes of Dirichlet trees into `g`, given their weights.

    Roots have parent -1; parents come before their children. A node's share is its gamma variable
    over the sum of its siblings'. `total` is scratch space.
    """
    total[:] = -np.inf
    for v in range(len(parent)):
        if parent[v] >= 0:
            g[v] = log_gamma_draw(weight[v], rng)
            total[parent[v]] = max(total[parent[v]], g[v])
    for v in range(len(parent)):
        if parent[v] >= 0:
            g[v] = np.exp(g[v] - total[parent[v]])
    total[:] = 0.0
    for v in range(len(parent)):
        if parent[v] >= 0:
            total[parent[v]] += g[v]
    for v in range(len(parent)):
        g[v] = g[v] * g[parent[v]] / total[parent[v]] if parent[v] >= 0 else 1.0


@njit(cache=True, nogil=True)
def draw_trees(parent, weight, leaf_node, out, rng):  # type: ignore[no-untyped-def]
    """Draw ``out[draw, s, k]`` from trees of one shape with weights ``weight[s, node]``."""
    g, total = np.empty(len(parent)), np.empty(len(parent))
    for d in range(out.shape[0]):
        for s in range(weight.shape[0]):
            draw_forest(parent, weight[s], total, g, rng)
            for k in range(len(leaf_node)):
                out[d, s, k] = g[leaf_node[k]]


# -------------------------------------------------------------------------------------------------
# PyMC's unconstrained coordinates of a simplex, in NumPy, for step methods that draw simplices.


def to_unconstrained(p: Floats) -> Floats:
    """Centred log ratios without the last one: PyMC's ``SimplexTransform.forward``."""
    log_p = np.log(np.maximum(p, np.finfo(float).tiny))
    return log_p[..., :-1] - log_p.mean(axis=-1, keepdims=True)


def from_unconstrained(x: Floats) -> Floats:
    """Inverse of `to_unconstrained`."""
    full = np.concatenate([x, -x.sum(axis=-1, keepdims=True)], axis=-1)
    full = np.exp(full - full.max(axis=-1, keepdims=True))
    return full / full.sum(axis=-1, keepdims=True)


# -------------------------------------------------------------------------------------------------
# Dirichlet priors: background knowledge as positive weights, brought into the model's shapes.

Weights = npt.NDArray[np.float64]
PriorLike = float | npt.ArrayLike | Mapping[Any, Any] | Callable[..., npt.ArrayLike]


@dataclass(frozen=True, eq=False)
class Prior:
    """Dirichlet prior weights in the shapes that the model uses."""

    alpha: Weights  # of the sensitive values, (S,)
    beta: Mapping[str, Weights]  # of each attribute's values given each sensitive value, (S, K)

    @property
    def fingerprint(self) -> str:
        """Digest of the weights."""
        digest = hashlib.sha256(np.ascontiguousarray(self.alpha).tobytes())
        for name, weights in self.beta.items():
            digest.update(name.encode())
            digest.update(np.ascontiguousarray(weights).tobytes())
        return digest.hexdigest()[:16]


def resolve_prior(table: ReleasedTable, *, alpha: PriorLike = 1.0, beta: PriorLike = 1.0) -> Prior:
    """Bring prior weights into the shapes that the model uses, or say which shape was expected.

    Parameters
    ----------
    table : ReleasedTable
        The table that the prior is for.
    alpha : float, array, mapping or callable
        Dirichlet weights of the sensitive values: one number for all; one per value, as an array
        of shape ``(S,)`` or as ``{value: weight}`` (omitted values have weight 1); or a function
        of the sensitive domain that returns an array.
    beta : float, array, mapping or callable
        Dirichlet weights of the nonsensitive values: one number for all attributes, or
        ``{attribute: weights}`` (omitted attributes have weight 1). The weights of an attribute
        are a number; a vector of shape ``(K,)`` for all sensitive values; an array of shape
        ``(S, K)``; a mapping ``{value: weight}``; or a function of ``(domain, sensitive_domain)``.
        A function in place of the mapping is called for every attribute. The labels of a pandas
        Series (values) or DataFrame (sensitive values by values) are matched with the domains.

    Both also accept distributions elicited with PreliZ: ``pz.Dirichlet``, and ``pz.Beta`` for
    domains of two values.

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
    weights = alpha(secret) if _is_function(alpha) else alpha
    what = f"alpha (sensitive {secret.name!r})"
    resolved = _shape(weights, (len(secret),), secret, secret, what)
    if isinstance(beta, Mapping):
        for name in beta:
            if name not in table.columns:
                raise ModelError(
                    f"beta names {name!r}, which is not a nonsensitive attribute. "
                    f"{nearest(name, table.attributes)}"
                )
    betas = {}
    for name in table.attributes:
        domain = table.domains[name]
        weights = beta.get(name, 1.0) if isinstance(beta, Mapping) else beta
        if _is_function(weights):
            weights = weights(domain, secret)
        betas[name] = _shape(weights, (len(secret), len(domain)), domain, secret, f"beta[{name!r}]")
    return Prior(resolved, betas)


def _is_function(weights: object) -> TypeGuard[Callable[..., npt.ArrayLike]]:
    return callable(weights) and not _is_distribution(weights)


def _is_distribution(weights: object) -> bool:
    """Whether this is a PreliZ distribution, recognised by what all versions of PreliZ have."""
    return hasattr(weights, "params_names") or hasattr(weights, "param_names")


def _elicited(distribution: Any, what: str) -> Any:
    """Weights of a PreliZ distribution: a Dirichlet, or a Beta for two values."""
    name = type(distribution).__name__
    if name == "Dirichlet":
        return distribution.alpha
    if name == "Beta":
        return [distribution.alpha, distribution.beta]
    raise ModelError(
        f"{what} is a {name} distribution, but the prior must be a Dirichlet, or for two values a "
        "Beta. To see what a range of weights would change, use "
        f"ab.sensitivity(..., factors={name}(...))."
    )


def _by_label(labelled: Any, domain: Domain, secret: Domain, what: str) -> Any:
    """Sort labelled weights into the order of the domains; return others unchanged."""
    for axis, own in enumerate([domain] if labelled.ndim == 1 else [secret, domain]):
        values = dict(zip(_labels(own), own.values, strict=True))  # as draws are labelled
        named = [values.get(label, label) for label in labelled.axes[axis]]
        order = in_domain_order(named, own, what=what)
        labelled = labelled.take(order, axis=axis)
    return labelled.to_numpy()


def _shape(
    weights: Any, shape: tuple[int, ...], domain: Domain, secret: Domain, what: str
) -> Weights:
    if _is_distribution(weights):
        weights = _elicited(weights, what)
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
            f"{out[place]!r} for {domain.values[place[-1]]!r}. Give values that are nearly "
            "impossible a small positive weight, or leave them out of the domain."
        )
    out.setflags(write=False)
    return out


# -------------------------------------------------------------------------------------------------
# Conjugate draws of the parameters: independent Dirichlets, side by side in one flat array.


def simplex_bounds(layout: VerticalLayout) -> Ints:
    """Bounds of the simplexes ``pi_a|s`` in the flat parameter array of a layout."""
    return starts_of(np.repeat(layout.sizes, layout.n_secrets))


@njit(cache=True, nogil=True)
def draw_log_simplexes(
    shape: Floats, bounds: Ints, log_pi: Floats, rng: np.random.Generator
) -> None:
    """Draw ``Dir(shape)`` for each stretch between bounds, as logs, which do not underflow."""
    for r in range(len(bounds) - 1):
        top = -np.inf
        for c in range(bounds[r], bounds[r + 1]):
            log_pi[c] = log_gamma_draw(shape[c], rng)
            top = max(top, log_pi[c])
        mass = 0.0
        for c in range(bounds[r], bounds[r + 1]):
            mass += np.exp(log_pi[c] - top)
        shift = top + np.log(mass)
        for c in range(bounds[r], bounds[r + 1]):
            log_pi[c] -= shift


def draw_simplexes(shape: Floats, bounds: Ints, rng: np.random.Generator) -> Floats:
    """Draw ``Dir(shape)`` for each stretch between bounds; entries stay positive."""
    log_pi = np.empty(len(shape))
    draw_log_simplexes(shape, bounds, log_pi, rng)
    return np.maximum(np.exp(log_pi), np.finfo(float).tiny)


# -------------------------------------------------------------------------------------------------
# Names of the parameters.

RESERVED = ("chain", "draw", "row", "cell", "record", "alpha")
WEIGHT, CORRECTION = "weight_", "correction_"
PREFIXES = ("pi_", "beta_", "cleartext_", WEIGHT, CORRECTION)
ASSIGNMENT = "assignment"


def coords_of(table: ReleasedTable) -> dict[str, tuple[str, ...]]:
    """Return the model's coordinates, the labels of each attribute's values; check column names."""
    reserved = (*RESERVED, ASSIGNMENT) if table.scheme == "vertical" else RESERVED
    for name in table.domains:
        if name in reserved:
            raise ModelError(
                f"Column {name!r} has a name that is reserved for the draws; rename it "
                f"(reserved: {', '.join(reserved)})."
            )
        for prefix in PREFIXES:
            if name.startswith(prefix) and name.removeprefix(prefix) in table.domains:
                raise ModelError(
                    f"Column {name!r} has the name of the variable for column "
                    f"{name.removeprefix(prefix)!r}; rename it."
                )
    return {name: _labels(domain) for name, domain in table.domains.items()}


def _labels(domain: Domain) -> tuple[str, ...]:
    """Return the values as texts, those of joined columns side by side where that is unique."""
    joined = tuple(map(label_of, domain.values)) if isinstance(domain.values[0], tuple) else ()
    return joined if len(set(joined)) == len(domain) else domain.labels
