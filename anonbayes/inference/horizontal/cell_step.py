"""PyMC step method for the distributions of a horizontal table."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pymc as pm
from pymc.step_methods.compound import Competence, StepMethodState
from pymc.step_methods.state import dataclass_state

from anonbayes.compat.chain_step import ChainStep
from anonbayes.errors import ModelError, nearest
from anonbayes.inference.dirichlet import (
    PriorLike,
    from_unconstrained,
    to_unconstrained,
)
from anonbayes.inference.dirichlet_step import check_concentration
from anonbayes.inference.horizontal.cell_engine import HiddenRows, Record, sweeps
from anonbayes.inference.horizontal.cell_layout import HorizontalLayout
from anonbayes.inference.horizontal.latent_rows import LatentRows
from anonbayes.inference.horizontal.urns import Scratch, Urns
from anonbayes.inference.run import rows_to_keep
from anonbayes.inference.weights import choose_evidence
from anonbayes.tables.table import ReleasedTable

__all__ = ["HorizontalStep"]


@dataclass_state
class HorizontalStepState(StepMethodState):
    """State of a `HorizontalStep`: its variables, its generator, and that of the hidden rows."""

    row_rng: Any


class HorizontalStep(ChainStep):
    """Gibbs step for the distributions of a horizontal table, on counts (MODEL 1.2).

    One call draws the hidden values behind the released cells, as counts, and then all
    ``pi_<attribute>`` (and ``pi_<sensitive>``, if among `vars`) given these. Cells that fit into a
    tree are integrated out; see `HorizontalLayout`. The cost does not depend on the number of rows.

    Parameters
    ----------
    vars : variable or list of variables, optional
        The distributions to update, by default all ``pi_...`` of the table. A distribution left
        out keeps its value and can be given to another step. The prior of those updated must be the
        Dirichlet that `alpha` and `beta` describe, and nothing but the released table may depend
        on them.
    table : ReleasedTable
        The horizontal table of the model.
    alpha, beta, evidence : float, array, mapping or callable; str
        What the model was built with; with weighted evidence the weights are left to other steps.
    collapse : bool
        Whether to integrate out cells that fit into a tree.
    keep_cleartext : bool or array of int
        Rows whose hidden values are drawn along: all (True), none, or those listed. They are
        recorded as the sampling statistics ``cleartext_<attribute>``, codes of the domain with one
        entry per row, in the smallest integer type. Asking for them does not change the draws of
        the distributions.
    model : pymc.Model, optional
        By default the model of the context.
    rng : int or Generator, optional
        PyMC sets it for each chain.

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
        keep_cleartext: bool | npt.ArrayLike = False,
        model: pm.Model | None = None,
        rng: Any = None,
        blocked: bool = True,
        initial_point: Any = None,
        compile_kwargs: Any = None,
    ) -> None:
        model = pm.modelcontext(model)
        self.layout = HorizontalLayout.of(table, collapse=collapse)
        taken = choose_evidence(table, evidence=evidence, alpha=alpha, beta=beta)
        self.prior = taken.prior
        self.alpha = np.array(self.prior.alpha)  # writable, as in `CellEngine`: compiled once
        self.beta = self.layout.flatten(self.prior.beta)
        self.urns = Urns.of(table, self.layout, self.beta)
        self.secret = f"pi_{table.sensitive}"
        wanted = [self.secret, *(f"pi_{name}" for name in table.attributes)]
        for name in wanted:
            if name not in model:
                raise ModelError(
                    f"The model has no variable {name!r}, which the table needs. "
                    f"{nearest(name, model.named_vars)}"
                )
        self.value_names = {}
        self.transformed = {}
        for name in wanted:
            rv = model[name]
            if rv not in model.rvs_to_values:
                raise ModelError(f"{name!r} is not a free random variable of the model.")
            self.value_names[name] = model.rvs_to_values[rv].name
            self.transformed[name] = model.rvs_to_transforms[rv] is not None
        values = [model.rvs_to_values[model[name]] for name in wanted]
        given = list(vars) if isinstance(vars, list | tuple) else [vars]
        chosen = values if vars is None else [model.rvs_to_values.get(v, v) for v in given]
        strange = [v.name for v in chosen if v not in values]
        if strange:
            raise ModelError(
                f"{strange[0]!r} is not a distribution of the table; this step updates {wanted}."
            )
        self.vars = chosen
        self.updated = {name for name in wanted if self.value_names[name] in _names(chosen)}
        # Rows can be drawn without the distributions only where all of these are drawn after them.
        whole = self.updated == set(wanted)
        self.latent_rows = LatentRows.of(self.layout, self.prior.alpha, self.beta, wanted=whole)
        for name in self.updated - {self.secret}:
            check_concentration(model[name], self.prior.beta[name.removeprefix("pi_")], "beta")
        if self.secret in self.updated:
            check_concentration(model[self.secret], self.prior.alpha, "alpha")
        self.rows = None
        rows = rows_to_keep(table, keep_cleartext)
        if rows is not None:
            self.rows = HiddenRows.of(table, self.layout, rows)
            shape = [len(rows)]
            record = {name: (dtype, shape) for name, dtype in self.rows.dtypes.items()}
            self.stats_dtypes_shapes = self.stats_dtypes_shapes | record  # type: ignore[misc]
            # PyMC's traces in memory look at the type only; NumPy lets a type carry a shape.
            self.stats_dtypes = [
                {name: np.dtype((d, tuple(s))) for name, (d, s) in self.stats_dtypes_shapes.items()}
            ]
        self.rng = pm.util.get_random_generator(rng)
        self.begin_chain()

    def begin_chain(self) -> None:
        """Give the hidden rows a generator of their own."""
        self.row_rng = self.rng.spawn(1)[0]

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Never assigned on its own: the step must be told its table."""
        return Competence.INCOMPATIBLE

    def step(self, point: Any) -> tuple[Any, list[dict[str, Any]]]:
        """Draw the distributions once."""
        pi_secret = self._read(point, self.secret)
        blocks = {name: self._read(point, f"pi_{name}") for name in self.layout.names}
        pi = self.layout.flatten(blocks)
        kept = Record.of(1, self.layout, self.urns)
        sweeps(
            1,
            pi_secret.copy(),
            pi,
            self.alpha,
            self.beta,
            self.layout.arrays,
            self.urns,
            self.latent_rows,
            Scratch.of(self.layout, self.urns),
            kept,
            False,
            self.rng,
        )
        drawn = {self.secret: kept.secret[0]}
        drawn |= {f"pi_{name}": block for name, block in self.layout.split(kept.pi[0]).items()}
        new = dict(point)
        for name in self.updated:
            new[self.value_names[name]] = (
                to_unconstrained(drawn[name]) if self.transformed[name] else drawn[name]
            )
        stats: dict[str, Any] = {"log_likelihood": float(kept.log_likelihood[0])}
        if self.rows is not None:
            stats |= self._hidden_rows(new)
        return new, [stats]

    def _hidden_rows(self, point: Any) -> dict[str, npt.NDArray[Any]]:
        assert self.rows is not None
        pi = self.layout.flatten(
            {name: self._read(point, f"pi_{name}") for name in self.layout.names}
        )
        drawn = self.rows.draw(self._read(point, self.secret)[None], pi[None], self.row_rng)
        return {name: codes[0] for name, codes in drawn.items()}

    def _read(self, point: Any, name: str) -> npt.NDArray[np.float64]:
        value = np.asarray(point[self.value_names[name]], dtype=float)
        return from_unconstrained(value) if self.transformed[name] else value


def _names(variables: list[Any]) -> set[str]:
    return {v.name for v in variables}
