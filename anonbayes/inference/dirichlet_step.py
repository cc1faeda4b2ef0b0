"""The conjugate Gibbs step of Dirichlet parameters, for any model whose counts are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pymc.model import modelcontext
from pymc.pytensorf import constant_fold
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator, get_value_vars_from_user_vars

from anonbayes.compat.chain_step import ChainStep
from anonbayes.errors import ModelError
from anonbayes.inference.dirichlet import draw_simplexes

__all__ = ["Counts", "DirichletStep", "check_concentration", "fixed_concentration"]

Counts = Callable[[dict[str, NDArray]], Sequence[ArrayLike]] | str | Sequence[ArrayLike]


@dataclass_state
class DirichletStepState(StepMethodState):
    """State of a `DirichletStep`: its variables and its generator."""


class DirichletStep(ChainStep):
    """Draw Dirichlet variables from ``Dir(concentration + counts)``, all at once.

    Parameters
    ----------
    vars : list of Dirichlet variables
        Made with ``default_transform=None``; simplexes along the last axis.
    counts : callable, name of a variable, or arrays
        What is added to the concentrations: a function of the point that returns one array per
        variable, the name of a variable that holds the counts (one Dirichlet only), or arrays,
        one per variable, when the counts never change.
    concentration : list of array, optional
        Prior concentrations, one per variable; read off the model when they are constants.

    Examples
    --------
    >>> import pymc as pm
    >>> with pm.Model() as model:
    ...     p = pm.Dirichlet("p", a=[1.0, 1.0, 1.0], default_transform=None)
    ...     step = DirichletStep([p], counts=[[5, 0, 2]], rng=1)
    >>> point, _ = step.step(model.initial_point())
    >>> float(point["p"].sum().round(12))
    1.0
    """

    name = "dirichlet"
    _state_class = DirichletStepState

    def __init__(
        self,
        vars: Any = None,
        *,
        counts: Counts,
        concentration: Sequence[ArrayLike] | None = None,
        model: Any = None,
        rng: Any = None,
        initial_point: Any = None,
        compile_kwargs: Any = None,
        blocked: bool = True,
    ) -> None:
        model = modelcontext(model)
        self.vars = get_value_vars_from_user_vars(_as_list(vars), model)
        self.rng = get_random_generator(rng)
        names = [v.name for v in self.vars]
        variables = [model.values_to_rvs[v] for v in self.vars]
        for variable, value in zip(variables, self.vars, strict=True):
            if model.rvs_to_transforms[variable] is not None:
                raise ModelError(
                    f"{value.name} is sampled on a transformed scale; declare "
                    f"pm.Dirichlet({variable.name!r}, ..., default_transform=None)."
                )
        priors = concentration or [fixed_concentration(v) for v in variables]
        if len(priors) != len(names):
            raise ModelError(f"{len(priors)} concentrations for {len(names)} variables.")
        shapes = [model.initial_point()[n].shape for n in names]
        self._names, self._shapes = names, shapes
        self._prior = np.concatenate(
            [
                np.broadcast_to(np.asarray(a, dtype=float), shape).ravel()
                for a, shape in zip(priors, shapes, strict=True)
            ]
        )
        lengths = np.concatenate([np.repeat(s[-1], int(np.prod(s[:-1]))) for s in shapes])
        self._bounds = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self._cuts = np.cumsum([int(np.prod(s)) for s in shapes])[:-1]
        self._counts = counts

    def step(self, point: dict[str, NDArray]) -> tuple[dict[str, NDArray], list[dict[str, Any]]]:
        """Draw every variable given the counts at `point`."""
        counts: Any = self._counts
        if callable(counts):
            counts = counts(point)
        elif isinstance(counts, str):
            counts = [point[counts]]
        flat = np.concatenate([np.asarray(c, dtype=float).ravel() for c in counts])
        drawn = draw_simplexes(self._prior + flat, self._bounds, self.rng)
        new = dict(point)
        for name, shape, part in zip(
            self._names, self._shapes, np.split(drawn, self._cuts), strict=True
        ):
            new[name] = part.reshape(shape)
        return new, [{}]


def _as_list(variables: Any) -> list[Any]:
    return list(variables) if isinstance(variables, list | tuple) else [variables]


def fixed_concentration(variable: Any) -> NDArray:
    """Concentration of a Dirichlet variable, when the model fixes it."""
    op = variable.owner.op
    if op.name != "dirichlet" and type(op).__name__ != "DirichletRV":
        raise ModelError(f"{variable.name} is not a Dirichlet variable.")
    (folded,) = constant_fold([op.dist_params(variable.owner)[0]], raise_not_constant=False)
    if not isinstance(folded, np.ndarray):
        raise ModelError(
            f"The concentration of {variable.name} depends on other variables; a conjugate step "
            "needs it fixed (pass concentration=...)."
        )
    return folded


def check_concentration(variable: Any, weights: NDArray, what: str) -> None:
    """Raise `ModelError` unless a Dirichlet variable of the model has these prior weights."""
    found = fixed_concentration(variable)
    if not np.allclose(found, weights, rtol=1e-6, atol=0.0):
        raise ModelError(
            f"The model's {variable.name} has other prior weights than {what}= of the step. Give "
            "the step the alpha= and beta= that the model was built with."
        )
