"""The vertical table as a PyMC model: named Dirichlets, the hidden assignment, their link."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike

from .guard import HIDDEN, guard_assignments
from .layout import VerticalLayout

ASSIGNMENT = "assignment"
ROW = "row"


def vertical_model(
    layout: VerticalLayout,
    *,
    alpha: ArrayLike = 1.0,
    beta: ArrayLike = 1.0,
    attributes: Sequence[str] | None = None,
    sensitive: str = "sensitive",
    coords: Mapping[str, Sequence[Any]] | None = None,
    name: str = "",
) -> pm.Model:
    """Build the PyMC model of a vertical release (Groups II, III; MODEL 1.4).

    The model has ``pi_<sensitive>``, ``pi_<attribute>`` given the sensitive value, the released
    sensitive values, and the hidden ``assignment``: item of the quasi-identifier table that
    each row of the sensitive table owns, a priori uniform over the permutations inside groups.
    The assignment is discrete and constrained: sample it with the steps of `vertical.steps`.

    Parameters
    ----------
    layout
        The released table.
    alpha, beta
        Dirichlet priors: scalars, or ``(S,)`` and the flat layout of the parameters.
    attributes, sensitive
        Names used for variables and dims.
    coords
        Labels of the categories by name; codes by default.
    name
        Prefix of the variables, as in `pymc.Model`.

    Examples
    --------
    >>> layout = VerticalLayout([[0], [1], [1], [0]], [0, 1, 0, 1], [0, 2, 4], [2], 2)
    >>> model = vertical_model(layout, attributes=["sex"], sensitive="disease")
    >>> [v.name for v in model.free_RVs]
    ['pi_disease', 'pi_sex', 'assignment']
    """
    alpha_, beta_ = layout.check_prior(alpha, beta)
    names = list(attributes or (f"attribute_{a}" for a in range(layout.n_attributes)))
    labels: dict[str, Any] = {sensitive: np.arange(layout.n_secrets)}
    labels |= {name: np.arange(k) for name, k in zip(names, layout.sizes, strict=True)}
    labels |= dict(coords or {})
    dtype = np.min_scalar_type(-layout.n_rows)
    guard_assignments()
    with pm.Model(coords=labels, name=name) as model:
        row = model.name_for(ROW)  # several tables in one model need not have as many rows
        model.add_coord(row, np.arange(layout.n_rows))
        pi_secret = pm.Dirichlet(
            f"pi_{sensitive}", a=alpha_, dims=sensitive, default_transform=None
        )
        pi = [
            pm.Dirichlet(f"pi_{name}", a=prior, dims=(sensitive, name), default_transform=None)
            for name, prior in zip(names, layout.split(beta_), strict=True)
        ]
        pm.Categorical(f"{sensitive}_released", p=pi_secret, observed=layout.secrets, dims=row)
        assignment = pm.CustomDist(
            ASSIGNMENT,
            layout.groups,
            logp=_inside_group(layout),
            random=_random_assignment(layout),
            # Not `initval`, which PyMC cannot copy: `pm.do`, `pm.observe` and log likelihoods do.
            support_point=lambda rv, size, groups: pt.arange(layout.n_rows, dtype=str(dtype)),
            dtype=str(dtype),
            dims=row,
            class_name=HIDDEN,
        )
        owned = pt.as_tensor_variable(layout.items)[_in_range(assignment, layout)]
        pm.Potential(
            "link",
            pt.sum([pt.log(p[layout.secrets, owned[:, a]]).sum() for a, p in enumerate(pi)]),
        )
    return model


def _inside_group(layout: VerticalLayout) -> Any:
    def logp(value: Any, groups: Any) -> Any:
        inside = pt.eq(pt.as_tensor_variable(layout.groups)[_in_range(value, layout)], groups)
        permuted = pt.all(pt.eq(pt.sort(value), np.arange(layout.n_rows)))
        return pt.switch(inside & permuted, np.float64(0.0), np.float64(-np.inf))

    return logp


def _in_range(rows: Any, layout: VerticalLayout) -> Any:
    """Rows that exist: PyTensor's Numba mode reads whatever lies beyond an array."""
    return pt.clip(rows, 0, layout.n_rows - 1)


def _random_assignment(layout: VerticalLayout) -> Any:
    def random(groups: Any, rng: np.random.Generator, size: Any = None) -> Any:
        return layout.random_assignment(rng)

    return random
