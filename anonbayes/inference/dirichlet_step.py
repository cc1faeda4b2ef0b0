"""PyMC steps for Dirichlet variables with known counts, and for those of a horizontal table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np
import pymc as pm
from numpy.typing import ArrayLike, NDArray
from pymc.model import modelcontext
from pymc.pytensorf import constant_fold
from pymc.step_methods.compound import Competence, StepMethodState
from pymc.step_methods.state import dataclass_state
from pymc.util import get_random_generator, get_value_vars_from_user_vars

from anonbayes.arrays import Floats, starts_of
from anonbayes.compat.chain_step import ChainStep
from anonbayes.errors import ModelError, nearest
from anonbayes.inference.dirichlet import (
    PriorLike,
    draw_simplexes,
    from_unconstrained,
    to_unconstrained,
)
from anonbayes.inference.horizontal.cell_engine import HorizontalEngine
from anonbayes.inference.run import rows_to_keep
from anonbayes.inference.weights import choose_evidence
from anonbayes.tables.table import ReleasedTable

Counts = Callable[[dict[str, NDArray]], Sequence[ArrayLike]] | str | Sequence[ArrayLike]


@dataclass_state
class DirichletStepState(StepMethodState):
    """State of a `DirichletStep`: its variables and its random generator."""


class DirichletStep(ChainStep):
    """Conjugate step that draws Dirichlet variables from ``Dir(concentration + counts)``.

    Parameters
    ----------
    vars : list of Dirichlet variables
        Variables declared with ``default_transform=None``; simplexes along the last axis.
    counts : callable, name of a variable, or arrays
        What to add to the concentrations: a function of the point that returns one array per
        variable, the name of a variable that holds the counts (for a single Dirichlet), or one
        array per variable if the counts are constant.
    concentration : list of array, optional
        Prior concentrations, one per variable; by default read from the model, where they must be
        constant.

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
            raise ModelError(
                f"concentration= has {len(priors)} entries for {len(names)} variables."
            )
        shapes = [model.initial_point()[n].shape for n in names]
        self._names, self._shapes = names, shapes
        self._prior = np.concatenate(
            [
                np.broadcast_to(np.asarray(a, dtype=float), shape).ravel()
                for a, shape in zip(priors, shapes, strict=True)
            ]
        )
        lengths = np.concatenate([np.repeat(s[-1], int(np.prod(s[:-1]))) for s in shapes])
        self._bounds = starts_of(lengths)
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
    """Return the concentration of a Dirichlet variable if it is constant; else raise an error."""
    op = variable.owner.op
    if op.name != "dirichlet" and type(op).__name__ != "DirichletRV":
        raise ModelError(f"{variable.name} is not a Dirichlet variable.")
    (folded,) = constant_fold([op.dist_params(variable.owner)[0]], raise_not_constant=False)
    if not isinstance(folded, np.ndarray):
        raise ModelError(
            f"The concentration of {variable.name} depends on other variables, but a conjugate "
            "step needs a constant one (pass concentration=...)."
        )
    return folded


def check_concentration(variable: Any, weights: NDArray, what: str) -> None:
    """Raise `ModelError` unless a Dirichlet variable of the model has these prior weights."""
    found = fixed_concentration(variable)
    if not np.allclose(found, weights, rtol=1e-6, atol=0.0):
        raise ModelError(
            f"The prior weights of {variable.name} in the model differ from {what}= of the step. "
            "Give the step the alpha= and beta= that the model was built with."
        )


def named_variable(name: str, model: Any) -> Any:
    """Return the variable of a model with this name, which a table needs."""
    if name not in model:
        raise ModelError(
            f"The model has no variable {name!r}, which the table needs. "
            f"{nearest(name, model.named_vars)}"
        )
    return model[name]


@dataclass_state
class HorizontalStepState(StepMethodState):
    """State of a `HorizontalStep`: its variables, its generator, and that of the hidden rows."""

    row_rng: Any


class HorizontalStep(ChainStep):
    """Gibbs step for the distributions of a horizontal table, on counts (MODEL 1.2).

    Each call draws the hidden values behind the released cells, as counts, and then all
    ``pi_<attribute>`` (and ``pi_<sensitive>`` if it is among `vars`) given these counts. Cells that
    form a tree are integrated out. The cost does not depend on the number of rows.

    Parameters
    ----------
    vars : variable or list of variables, optional
        The distributions to update, by default all ``pi_...`` of the table. Other distributions
        keep their values and can be given to another step. The prior of the updated ones must be
        the Dirichlet that `alpha` and `beta` describe, and nothing but the released table may
        depend on them.
    table : ReleasedTable
        The horizontal table of the model.
    alpha, beta, evidence : float, array, mapping or callable; str
        As the model was built; with weighted evidence, the weights need another step.
    collapse : bool
        Whether to integrate out cells that form a tree.
    keep_cleartext : bool or array of int
        Rows whose hidden values are also drawn: all (True), none (False), or those listed. They are
        recorded as sampling statistics ``cleartext_<attribute>``: codes of the domain, one entry
        per row, in the smallest integer type. This does not change the draws of the distributions.
    model : pymc.Model, optional
        By default the model of the current context.
    rng : int or Generator, optional
        Random generator or its seed; PyMC sets it for each chain.

    Examples
    --------
    >>> import anonbayes as ab
    >>> import pandas as pd
    >>> import pymc as pm
    >>> frame = pd.DataFrame({"Nat": ["{M, J}", "{J, C}"], "Dis": ["Heart", "Flu"]})
    >>> table = ab.ReleasedTable.horizontal(frame, "Dis")
    >>> with ab.build_model(table):
    ...     step = ab.steps.HorizontalStep(table=table, keep_cleartext=True)
    ...     idata = pm.sample(
    ...         20, tune=0, chains=2, step=step, random_seed=1, progressbar=False, cores=1,
    ...         compute_convergence_checks=False)
    >>> idata.posterior["pi_Nat"].shape
    (2, 20, 2, 3)
    >>> first = idata.sample_stats["cleartext_Nat"][:, :, 0]  # "C", "J", "M" are 0, 1, 2
    >>> sorted(set(first.to_numpy().ravel().tolist()))
    [1, 2]
    """

    name = "horizontal"
    default_blocked = True
    _state_class = HorizontalStepState
    stats_dtypes_shapes: ClassVar[dict[str, Any]] = {"log_likelihood": (np.float64, [])}

    def __init__(
        self,
        vars: Any = None,
        *,
        table: ReleasedTable,
        alpha: PriorLike = 1.0,
        beta: PriorLike | None = None,
        evidence: str = "auto",
        collapse: bool = True,
        keep_cleartext: bool | ArrayLike = False,
        model: pm.Model | None = None,
        rng: Any = None,
        blocked: bool = True,
        initial_point: Any = None,
        compile_kwargs: Any = None,
    ) -> None:
        model = modelcontext(model)
        taken = choose_evidence(table, evidence=evidence, alpha=alpha, beta=beta)
        self.secret = f"pi_{table.sensitive}"
        wanted = [self.secret, *(f"pi_{name}" for name in table.attributes)]
        self.value_names = {}
        self.transformed = {}
        for name in wanted:
            rv = named_variable(name, model)
            if rv not in model.rvs_to_values:
                raise ModelError(f"{name!r} is not a free random variable of the model.")
            self.value_names[name] = model.rvs_to_values[rv].name
            self.transformed[name] = model.rvs_to_transforms[rv] is not None
        values = [model.rvs_to_values[model[name]] for name in wanted]
        given = _as_list(vars)
        chosen = values if vars is None else [model.rvs_to_values.get(v, v) for v in given]
        strange = [v.name for v in chosen if v not in values]
        if strange:
            raise ModelError(
                f"{strange[0]!r} is not a distribution of the table; this step updates {wanted}."
            )
        self.vars = chosen
        self.updated = {
            name for name in wanted if self.value_names[name] in {v.name for v in chosen}
        }
        rows = rows_to_keep(table, keep_cleartext)
        self.engine = HorizontalEngine(
            table, taken.prior, collapse=collapse, rows=rows, all_drawn=self.updated == set(wanted)
        )
        self.layout = self.engine.layout
        for name in self.updated - {self.secret}:
            check_concentration(model[name], taken.prior.beta[name.removeprefix("pi_")], "beta")
        if self.secret in self.updated:
            check_concentration(model[self.secret], taken.prior.alpha, "alpha")
        if self.engine.rows is not None:
            shape = [len(self.engine.rows.secret)]
            record = {name: (dtype, shape) for name, dtype in self.engine.rows.dtypes.items()}
            self.stats_dtypes_shapes = self.stats_dtypes_shapes | record  # type: ignore[misc]
            # PyMC's in-memory traces only look at the type, and a NumPy type can carry a shape.
            self.stats_dtypes = [
                {name: np.dtype((d, tuple(s))) for name, (d, s) in self.stats_dtypes_shapes.items()}
            ]
        self.rng = get_random_generator(rng)
        self.begin_chain()

    def begin_chain(self) -> None:
        """Give the hidden rows their own generator."""
        self.row_rng = self.rng.spawn(1)[0]

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Never assigned automatically, because the step needs its table."""
        return Competence.INCOMPATIBLE

    def step(self, point: Any) -> tuple[Any, list[dict[str, Any]]]:
        """Draw the distributions once; also return the statistics."""
        pi_secret, pi = self._flat(point)
        kept = self.engine.sweep({"pi_secret": pi_secret, "pi": pi}, 1, self.rng)
        drawn = {self.secret: kept.secret[0]}
        drawn |= {f"pi_{name}": block for name, block in self.layout.split(kept.pi[0]).items()}
        new = dict(point)
        for name in self.updated:
            new[self.value_names[name]] = (
                to_unconstrained(drawn[name]) if self.transformed[name] else drawn[name]
            )
        stats: dict[str, Any] = {"log_likelihood": float(kept.log_likelihood[0])}
        if self.engine.rows is not None:
            pi_secret, pi = self._flat(new)
            hidden = self.engine.rows.draw(pi_secret[None], pi[None], self.row_rng)
            stats |= {name: codes[0] for name, codes in hidden.items()}
        return new, [stats]

    def _flat(self, point: Any) -> tuple[Floats, Floats]:
        """Return copies of the distributions at a point, in the layout's order."""
        blocks = {name: self._read(point, f"pi_{name}") for name in self.layout.names}
        return self._read(point, self.secret).copy(), self.layout.flatten(blocks)

    def _read(self, point: Any, name: str) -> Floats:
        value = np.asarray(point[self.value_names[name]], dtype=float)
        return from_unconstrained(value) if self.transformed[name] else value
