"""PyMC step methods for vertical tables, to be used alone or mixed with others.

The block, swap, permutation, sequential and sub-block steps move the variable ``assignment`` given
the parameters; pair them with a `DirichletStep`. The collapsed and tempered steps integrate the
parameters out, move the assignment, and then draw the parameters given it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pymc.model import modelcontext
from pymc.step_methods.compound import StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator, get_value_vars_from_user_vars

from anonbayes.arrays import Floats, Ints
from anonbayes.compat.chain_step import ChainStep
from anonbayes.errors import ModelError, one_of
from anonbayes.inference.dirichlet import ASSIGNMENT, WEIGHT
from anonbayes.inference.dirichlet_step import (
    DirichletStep,
    check_concentration,
    fixed_concentration,
    named_variable,
)
from anonbayes.inference.vertical.block import MAX_BLOCK, SUB_BLOCK
from anonbayes.inference.vertical.chain import (
    STEPS,
    TINY,
    VerticalChain,
    layout_step,
    sweep_given_parameters,
)
from anonbayes.inference.vertical.group_layout import VerticalLayout, layout_of
from anonbayes.inference.weights import choose_evidence
from anonbayes.tables.table import ReleasedTable

Point = dict[str, NDArray]
Stats = list[dict[str, Any]]


@dataclass_state
class VerticalStepState(StepMethodState):
    """State of a step given the parameters: whether the chain has had its dispersed start."""

    started: bool


class VerticalStep(ChainStep):
    """Base class of the steps that move the assignment given the parameters.

    By default, variables are found by their names, ``assignment`` and ``pi_...``. Pairings are
    weighted by ``pi ** weight`` if `weights` are given (MODEL 1.9), or by fixed log `lifts`, each
    of shape ``(S, K_a)``, instead of `pi`. Chains that start from the same point cannot reveal that
    the posterior has several modes, so they `disperse`. For `block`, `sub_block` and `swaps`, see
    `sweep_given_parameters`.
    """

    kernel: ClassVar[str]
    default_tune_steps = 1000  # a dispersed start needs a warm-up
    _state_class = VerticalStepState
    stats_dtypes_shapes: ClassVar[dict[str, tuple[type, list[int]]]] = {
        "acceptance": (np.float64, []),
        "moved": (np.float64, []),
        "log_likelihood": (np.float64, []),
    }

    def __init__(
        self,
        vars: Any = None,
        *,
        layout: VerticalLayout,
        pi: Sequence[Any] | None = None,
        weights: Sequence[Any] | None = None,
        lifts: Sequence[ArrayLike] | None = None,
        disperse: bool = True,
        block: int = MAX_BLOCK,
        sub_block: int = SUB_BLOCK,
        swaps: float = 0.5,
        model: Any = None,
        rng: Any = None,
        initial_point: Any = None,
        compile_kwargs: Any = None,
        blocked: bool = True,
    ) -> None:
        model = modelcontext(model)
        self.vars = get_value_vars_from_user_vars([_assignment_variable(vars, model)], model)
        self.rng = get_random_generator(rng)
        self.layout, self.disperse = layout, disperse
        self._settings: dict[str, Any] = {"block": block, "sub_block": sub_block, "swaps": swaps}
        self._pi: list[str] = []
        self._lifts: Floats | None = None
        if lifts is None:
            self._pi = [v.name for v in _parameter_variables(layout, pi, model)]
        else:
            self._lifts = _fixed_lifts(layout, lifts)
        self._weights = None if weights is None else _Weights(layout, weights, model)
        self.started = False

    def begin_chain(self) -> None:
        """Make the next step begin with a dispersed start."""
        self.started = False

    def step(self, point: Point) -> tuple[Point, Stats]:
        """Move the assignment once."""
        name = self.vars[0].name
        if self.disperse and not self.started:
            assignment = self.layout.random_assignment(self.rng)
        else:
            assignment = point[name].astype(np.int64)
        if not self.started:
            self.layout.check_assignment(assignment)
            self.started = True
        log_pi = self._lifts
        if log_pi is None:
            log_pi = np.log(np.maximum(self.layout.flatten([point[p] for p in self._pi]), TINY))
        if self._weights is not None:
            log_pi = log_pi * self._weights(point)
        stats: dict[str, Any] = sweep_given_parameters(
            self.layout, self.kernel, log_pi, assignment, self.rng, **self._settings
        )
        stats["log_likelihood"] = float(self.layout.counts(assignment) @ log_pi)
        new = dict(point)
        new[name] = assignment.astype(point[name].dtype)
        return new, [stats]


class VerticalBlockStep(VerticalStep):
    """Redraw every group exactly given the parameters (random pieces if larger than `block`)."""

    name = "vertical_block"
    kernel = "block"


class VerticalSubBlockStep(VerticalStep):
    """Redraw random pieces of `sub_block` rows exactly; suits large groups, linear in the rows."""

    name = "vertical_subblock"
    kernel = "subblock"


class VerticalSwapStep(VerticalStep):
    """Propose to exchange two items, `swaps` times per row (Groups V-B)."""

    name = "vertical_swap"
    kernel = "swap"


class VerticalPermuteStep(VerticalStep):
    """Propose a uniformly random order of every group (Groups V-B)."""

    name = "vertical_permute"
    kernel = "permute"


class VerticalSequentialStep(VerticalStep):
    """Propose to refill every group sequentially, with a correction (Groups App. B)."""

    name = "vertical_sequential"
    kernel = "sequential"


@dataclass_state
class VerticalCollapsedState(StepMethodState):
    """State of a collapsed or tempered step: the chain, or None before its first step."""

    chain_state: dict[str, NDArray] | None
    tune: bool


class VerticalCollapsedStep(ChainStep):
    """Redraw every group with the parameters integrated out, then draw the parameters.

    Parameters
    ----------
    vars : list of variables, optional
        The assignment and the parameters of the attributes in the order of the layout; by default,
        they are found in the model by name.
    layout : VerticalLayout
        The released table.
    beta : array, optional
        Prior of the parameters, scalar or flat; by default, that of the model.
    disperse : bool
        Start every chain from a random order of each group instead of the initial point.
    **settings
        Settings of `VerticalChain`; for the tempered step, also ``ladder={...}`` for `Ladder`.
    """

    name = "vertical_collapsed"
    kernel: ClassVar[str] = "collapsed"
    default_tune_steps = 1000  # a dispersed start needs a warm-up, a ladder needs tuning
    _state_class = VerticalCollapsedState
    stats_dtypes_shapes: ClassVar[dict[str, tuple[type, list[int]]]] = {
        "acceptance": (np.float64, []),
        "moved": (np.float64, []),
        "energy": (np.float64, []),
    }

    def __init__(
        self,
        vars: Any = None,
        *,
        layout: VerticalLayout,
        beta: ArrayLike | None = None,
        disperse: bool = True,
        model: Any = None,
        rng: Any = None,
        initial_point: Any = None,
        compile_kwargs: Any = None,
        blocked: bool = True,
        **settings: Any,
    ) -> None:
        model = modelcontext(model)
        given = list(vars) if vars is not None else [None]
        assignment = _assignment_variable(given[0], model)
        pi = _parameter_variables(layout, given[1:] or None, model)
        self.vars = get_value_vars_from_user_vars([assignment, *pi], model)
        self.rng = get_random_generator(rng)
        self.layout, self.disperse = layout, disperse
        if beta is None:
            shapes = [(layout.n_secrets, int(k)) for k in layout.sizes]
            found = [
                np.broadcast_to(fixed_concentration(v), n) for v, n in zip(pi, shapes, strict=True)
            ]
            beta = layout.flatten(found)
        self._beta = layout.check_prior(1.0, beta)[1]
        for variable, weights in zip(pi, layout.split(self._beta), strict=True):
            check_concentration(variable, weights, "beta")
        self._settings = settings
        self._chain: VerticalChain | None = None
        self.tune = True

    # PyMC stores this attribute as the state; the chain is rebuilt from it.
    @property
    def chain_state(self) -> dict[str, NDArray] | None:
        """State of the chain; None before its first step."""
        return None if self._chain is None else self._chain.pack()

    @chain_state.setter
    def chain_state(self, state: dict[str, NDArray] | None) -> None:
        self._chain = None
        if state is not None:
            # Built with another generator, so that restoring does not advance that of the chain.
            self._chain = self._fresh_chain(np.random.default_rng(0))
            self._chain.unpack(state)
            self._chain.rng = self.rng

    def _fresh_chain(self, rng: np.random.Generator) -> VerticalChain:
        return VerticalChain(
            self.layout, beta=self._beta, step=self.kernel, rng=rng, **self._settings
        )

    def begin_chain(self) -> None:
        """Discard the previous chain."""
        self._chain = None
        self.tune = True

    def step(self, point: Point) -> tuple[Point, Stats]:
        """Move the assignment once and draw the parameters given it."""
        name, *pi_names = (v.name for v in self.vars)
        if self._chain is None:
            self._chain = self._fresh_chain(self.rng)
            if not self.disperse:
                self._chain.start_from(point[name])
        chain = self._chain
        stats: dict[str, Any] = chain.sweep(tune=self.tune)
        stats["energy"] = chain.energy
        new = dict(point)
        new[name] = chain.assignment.astype(point[name].dtype)
        for pi, drawn in zip(pi_names, self.layout.split(chain.draw_pi()), strict=True):
            new[pi] = drawn
        return new, [stats]


class VerticalTemperedStep(VerticalCollapsedStep):
    """Parallel tempering of the collapsed draw, for tables on which chains disagree."""

    name = "vertical_tempered"
    kernel = "tempered"
    stats_dtypes_shapes: ClassVar[dict[str, tuple[type, list[int]]]] = {
        **VerticalCollapsedStep.stats_dtypes_shapes,
        "exchange_rate": (np.float64, []),
        "round_trips": (np.int64, []),
    }


BY_NAME: dict[str, type[ChainStep]] = {
    s.kernel: s
    for s in (
        VerticalBlockStep,
        VerticalSubBlockStep,
        VerticalSwapStep,
        VerticalPermuteStep,
        VerticalSequentialStep,
        VerticalCollapsedStep,
        VerticalTemperedStep,
    )
}


class AssignmentCounts:
    """Counts ``delta`` of the assignment at a point, for `DirichletStep`."""

    def __init__(self, layout: VerticalLayout, name: str = ASSIGNMENT) -> None:
        self.layout, self.name = layout, name

    def __call__(self, point: Point) -> list[Ints]:
        """Return one array of shape ``(S, K_a)`` per attribute."""
        return self.layout.split(self.layout.counts(point[self.name].astype(np.int64)))


def vertical_steps(
    layout: VerticalLayout | ReleasedTable,
    *,
    model: Any = None,
    step: str = "auto",
    **settings: Any,
) -> list[Any]:
    """Return the steps that sample a `vertical_model`, ready for ``pm.sample(step=...)``.

    Parameters
    ----------
    layout
        The table from which the model was built, or its layout. With the table, variables are found
        by name; with a layout, they are the ``pi_...`` of the right shapes.
    step
        ``"auto"`` or one of `STEPS`.
    **settings
        Passed to the step of the assignment.

    Examples
    --------
    >>> import anonbayes as ab
    >>> table = ab.datasets.load("table1_anatomy")
    >>> with ab.build_model(table):
    ...     [step.name for step in vertical_steps(table, step="collapsed")]
    ['dirichlet', 'vertical_collapsed']
    """
    one_of("step", step, ("auto", *STEPS))
    model = modelcontext(model)
    if isinstance(layout, ReleasedTable):
        table, layout = layout, layout_of(layout)
        if table.attributes and f"{WEIGHT}{table.attributes[0]}" in model:
            return _weighted_steps(table, layout, model, step, settings)
        pi_secret = named_variable(f"pi_{table.sensitive}", model)
        pi = [named_variable(f"pi_{name}", model) for name in table.attributes]
    else:
        pi_secret, pi = _secret_variable(layout, model), None
    pi = _parameter_variables(layout, pi, model)
    assignment = _assignment_variable(None, model)
    step = layout_step(layout) if step == "auto" else step
    steps = [DirichletStep([pi_secret], counts=[layout.secret_counts], model=model)]
    if step in ("collapsed", "tempered"):
        steps.append(BY_NAME[step]([assignment, *pi], layout=layout, model=model, **settings))
        return steps
    steps.append(BY_NAME[step](assignment, layout=layout, pi=pi, model=model, **settings))
    counts = AssignmentCounts(layout, model.rvs_to_values[assignment].name)
    steps.append(DirichletStep(pi, counts=counts, model=model))
    return steps


def _weighted_steps(
    table: ReleasedTable, layout: VerticalLayout, model: Any, step: str, settings: dict[str, Any]
) -> list[Any]:
    """Steps of a model with weighted evidence; the weights are sampled by NUTS."""
    crossfit = choose_evidence(table, evidence="weighted").crossfit
    assert crossfit is not None
    apart, lifts = crossfit.features(layout)
    step = "block" if step == "auto" else step
    one_of("step", step, tuple(k for k, s in BY_NAME.items() if issubclass(s, VerticalStep)))
    weights = [named_variable(f"{WEIGHT}{name}", model) for name in table.attributes]
    pi_secret = named_variable(f"pi_{table.sensitive}", model)
    assignment = _assignment_variable(None, model)
    return [
        DirichletStep([pi_secret], counts=[layout.secret_counts], model=model),
        BY_NAME[step](
            assignment, layout=apart, lifts=lifts, weights=weights, model=model, **settings
        ),
    ]


def _fixed_lifts(layout: VerticalLayout, lifts: Sequence[ArrayLike]) -> Floats:
    shapes = [np.shape(lift) for lift in lifts]
    due = [(layout.n_secrets, int(k)) for k in layout.sizes]
    if shapes != due:
        raise ModelError(f"lifts have shapes {shapes}; the table needs {due}, one per attribute.")
    flat = layout.flatten(lifts)
    if not np.isfinite(flat).all():
        raise ModelError(
            "lifts must be logarithms of positive numbers, but one of them is not finite."
        )
    for part in layout.split(flat):
        part -= part.max(axis=0)  # a factor per category changes no probability
    return flat


class _Weights:
    """Evidence weights at a point, spread over the flat parameters of a layout."""

    def __init__(self, layout: VerticalLayout, weights: Sequence[Any], model: Any) -> None:
        if len(weights) != layout.n_attributes:
            raise ModelError(
                f"{len(weights)} weights for {layout.n_attributes} attributes; expected one each."
            )
        self._spread = np.repeat(np.arange(layout.n_attributes), layout.n_secrets * layout.sizes)
        self._values = np.ones(layout.n_attributes)
        self._places = [a for a, w in enumerate(weights) if hasattr(w, "owner")]
        for a, weight in enumerate(weights):
            if a not in self._places:
                self._values[a] = float(weight)
        variables = [weights[a] for a in self._places]
        self._names = [model.rvs_to_values[v].name for v in variables]
        # Values in the model may be transformed; untransformed weights are needed.
        self._of_values = (
            model.compile_fn(
                model.replace_rvs_by_values(variables),
                inputs=[model.rvs_to_values[v] for v in variables],
                point_fn=False,
            )
            if variables
            else None
        )

    def __call__(self, point: Point) -> Floats:
        values = self._values.copy()
        if self._of_values is not None:
            values[self._places] = self._of_values(*(point[name] for name in self._names))
        return values[self._spread]


def _assignment_variable(given: Any, model: Any) -> Any:
    if isinstance(given, list | tuple):
        (given,) = given
    if given is None:
        given = named_variable(ASSIGNMENT, model)
    return given


def _candidates(ndim: int, model: Any) -> list[Any]:
    """Variables that may be parameters of a table: untransformed ``pi_...``."""
    return [
        v
        for v in model.free_RVs
        if model.name_of(v.name).startswith("pi_")
        and v.ndim == ndim
        and model.rvs_to_transforms[v] is None
    ]


def _secret_variable(layout: VerticalLayout, model: Any) -> Any:
    point = model.initial_point()
    found = [v for v in _candidates(1, model) if point[v.name].shape == (layout.n_secrets,)]
    if len(found) != 1:
        raise ModelError(
            f"{len(found)} variables of the model could be the distribution of the "
            f"{layout.n_secrets} sensitive values: {[v.name for v in found]}. Give vertical_steps "
            "the table itself instead of its layout."
        )
    return found[0]


def _parameter_variables(
    layout: VerticalLayout, given: Sequence[Any] | None, model: Any
) -> list[Any]:
    due = [(layout.n_secrets, int(k)) for k in layout.sizes]
    found = list(given or _candidates(2, model))
    point = model.initial_point()
    shapes = [point[v.name].shape if v.name in point else None for v in found]
    if shapes != due:
        raise ModelError(
            f"The parameters have shapes {shapes}; the table needs {due}, one per attribute, "
            "declared with default_transform=None."
        )
    return found
