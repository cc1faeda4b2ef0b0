"""The PyMC models of horizontal and vertical tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pymc.step_methods import STEP_METHODS
from pymc.step_methods.compound import BlockedStep, Competence

from anonbayes.arrays import Floats, Ints
from anonbayes.errors import ModelError
from anonbayes.inference.corrections import cell_shares
from anonbayes.inference.dirichlet import (
    ASSIGNMENT,
    CORRECTION,
    WEIGHT,
    Prior,
    PriorLike,
    coords_of,
)
from anonbayes.inference.features import Features
from anonbayes.inference.vertical.crossfit import WEIGHT_PRIOR, CrossFit
from anonbayes.inference.vertical.group_layout import VerticalLayout, layout_of
from anonbayes.inference.weight_kernels import CENTRE, SPREAD, dense_features
from anonbayes.inference.weights import Evidenced, choose_evidence
from anonbayes.inference.workflow import OTHERS, cell_rates, counted
from anonbayes.tables.evidence import Evidence
from anonbayes.tables.table import ReleasedTable

MOST_NUMBERS = 50_000_000
"""Largest number of features for which a model fits into memory."""


# -------------------------------------------------------------------------------------------------
# The Dirichlet-categorical model of a released table, as a PyMC model.


def build_model(
    table: ReleasedTable,
    alpha: PriorLike = 1.0,
    beta: PriorLike | None = None,
    *,
    evidence: str = "auto",
    name: str = "",
) -> pm.Model:
    """Build the PyMC model of a released table.

    The population is ``pi_<sensitive> ~ Dir(alpha)`` and, for each attribute and each sensitive
    value, ``pi_<attribute> ~ Dir(beta)``. For a horizontal table the hidden values are summed out
    (MODEL 1.2), so every sampler of PyMC can be used, and you can extend the model with variables
    of your own. For a vertical table the hidden links are the integer variable ``assignment``,
    which needs one of the step methods in `anonbayes.steps`.

    Parameters
    ----------
    table : ReleasedTable
        What was released.
    alpha, beta : float, array, mapping or callable
        Dirichlet weights; see `resolve_prior`. The default of `beta` is 1 for independent evidence
        and ``"pooled"`` for weighted evidence.
    evidence : {"auto", "independent", "weighted"}
        As in `fit`. Weighted evidence adds positive variables ``weight_<attribute>``, if there are
        corrections also ``correction_<attribute>`` with the chosen ``tau``, and the likelihood of
        the secrets given the features of the released cells (MODEL 1.9).
    name : str
        Prefix of the variables, as in `pymc.Model`. Prefixes allow several tables with the same
        columns in one model: build their models inside ``with pm.Model():``, and give each step
        the model of its table, as in ``HorizontalStep(table=north, model=model_of_north)``.

    Returns
    -------
    pymc.Model
        Its coordinates are named after the attributes and labelled with their values.

    Examples
    --------
    >>> import anonbayes as ab
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"Nat": ["{M, J}", "J"], "Dis": ["Heart", "Flu"]})
    >>> model = ab.build_model(ab.ReleasedTable.horizontal(frame, "Dis"))
    >>> [v.name for v in model.free_RVs], model.coords["Nat"]
    (['pi_Dis', 'pi_Nat'], ('J', 'M'))
    """
    taken = choose_evidence(table, evidence=evidence, alpha=alpha, beta=beta)
    return model_of(table, taken, name=name)


def model_of(table: ReleasedTable, taken: Evidenced, *, name: str = "") -> pm.Model:
    """Build the model for settled evidence and prior; see `build_model`."""
    prior = taken.prior
    slash = next((column for column in table.domains if "/" in column), None)
    if slash is not None:
        raise ModelError(f"Column {slash!r}: PyMC does not allow slashes in names; rename it.")
    if table.scheme == "vertical":
        layout = layout_of(table)
        return vertical_model(
            layout,
            alpha=prior.alpha,
            beta=layout.flatten([prior.beta[name] for name in table.attributes]),
            attributes=table.attributes,
            sensitive=table.sensitive,
            coords=coords_of(table),
            name=name,
            crossfit=taken.crossfit,
        )
    model = _horizontal_model(table, prior, name)
    if taken.evidence == "weighted":
        features = taken.features(table)
        tilts = _correction_variables(model, table, taken)
        add_weights(model, features, table.attributes, sensitive=table.sensitive, tilts=tilts)
    return model


def _horizontal_model(table: ReleasedTable, prior: Prior, prefix: str) -> pm.Model:
    secret = table.sensitive
    coords: dict[str, Sequence[object]] = dict(coords_of(table))
    with pm.Model(coords=coords, name=prefix) as model:
        pi_secret = pm.Dirichlet(f"pi_{secret}", prior.alpha, dims=secret)
        pis = {
            name: pm.Dirichlet(f"pi_{name}", prior.beta[name], dims=(secret, name))
            for name in table.attributes
        }
        if table.secrets_known:
            _known_secrets(model, table, pi_secret, pis)
        else:
            _latent_secrets(model, table, pi_secret, pis)
    return model


def _known_secrets(model: pm.Model, table: ReleasedTable, pi_secret: Any, pis: Any) -> None:
    """Add the counts ``n[y, s]`` of each attribute given the number of rows with each secret."""
    secret = table.sensitive
    rows = pm.Multinomial(
        f"released_{secret}",
        # Python integers would get the smallest integer type, and their log gamma float32.
        n=np.int64(table.n_rows),
        p=pi_secret,
        observed=table.secret_counts.astype(np.int64),
        dims=secret,
    )
    for name, pi in pis.items():
        cells = counted(table, name)
        dim = model.name_for(cells.dim)
        model.add_coord(dim, cells.labels)
        pm.Multinomial(
            f"released_{name}",
            n=rows,
            p=pt.dot(pi, cells.matrix.T),
            observed=cells.counts,
            dims=(secret, dim),
        )


def _latent_secrets(model: pm.Model, table: ReleasedTable, pi_secret: Any, pis: Any) -> None:
    """Add the counts of the distinct records, with the sensitive value summed out."""
    records = table.records
    secret = table.secret
    reports = cell_rates(secret.evidence, table.tally(secret.codes, len(secret.evidence)))
    joint = pi_secret[None, :] * _matrix(secret.evidence, reports.rate)[records.secret]
    for a, (name, column) in enumerate(table.columns.items()):
        rates = cell_rates(column.evidence, table.tally(column.codes, len(column.evidence)))
        probability = pt.dot(_matrix(column.evidence, rates.rate), pis[name].T)
        joint = joint * probability[records.codes[:, a]]
    record = model.name_for("record")
    model.add_coord(record, [*(str(i) for i in range(len(records.count))), OTHERS])
    pm.Multinomial(
        "released_records",
        n=np.int64(table.n_rows),
        p=_with_others(joint.sum(axis=1)),
        observed=np.append(records.count, 0).astype(np.int64),
        dims=record,
    )


def _matrix(evidence: Evidence, rate: Floats) -> Floats:
    return np.asarray(evidence.matrix.toarray() * rate[:, None])


def _with_others(probability: Any) -> Any:
    """Append the total probability of all cells that the table does not show."""
    rest = pt.maximum(1.0 - probability.sum(axis=-1, keepdims=True), 0.0)
    return pt.concatenate([probability, rest], axis=-1)


# -------------------------------------------------------------------------------------------------
# The vertical table as a PyMC model: Dirichlet distributions, the hidden assignment, their link.

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
    crossfit: CrossFit | None = None,
) -> pm.Model:
    """Build the PyMC model of a vertical release (Groups II, III; MODEL 1.4).

    The hidden ``assignment`` is the item that each row of the sensitive table owns, a priori
    uniform over the permutations inside groups; it is sampled with `anonbayes.steps`. A `crossfit`
    replaces ``pi_<attribute>`` by ``weight_<attribute>``, on lifts that each group's fold leaves
    (MODEL 1.9).
    """
    alpha_, beta_ = layout.check_prior(alpha, beta)
    names = list(attributes or (f"attribute_{a}" for a in range(layout.n_attributes)))
    labels: dict[str, Sequence[object] | Ints] = {sensitive: np.arange(layout.n_secrets)}
    labels |= {name: np.arange(k) for name, k in zip(names, layout.sizes, strict=True)}
    labels |= dict(coords or {})
    dtype = np.min_scalar_type(-layout.n_rows)
    guard_assignments()
    with pm.Model(coords=labels, name=name) as model:
        row = model.name_for(ROW)  # tables in one model may have different numbers of rows
        model.add_coord(row, np.arange(layout.n_rows))
        pi_secret = pm.Dirichlet(
            f"pi_{sensitive}", a=alpha_, dims=sensitive, default_transform=None
        )
        pi = [
            pm.Dirichlet(f"pi_{name}", a=prior, dims=(sensitive, name), default_transform=None)
            for name, prior in zip(names, layout.split(beta_), strict=True)
            if crossfit is None
        ]
        secrets = pm.Categorical(
            f"released_{sensitive}", p=pi_secret, observed=layout.secrets.astype(np.int64), dims=row
        )
        assignment = pm.CustomDist(
            ASSIGNMENT,
            layout.groups,
            dist=_random_assignment(dtype),
            logp=_inside_group(layout),
            signature="(r)->(r)",
            # Not `initval`, which PyMC cannot copy, as `pm.do` and `pm.observe` would.
            support_point=lambda rv, size, groups: pt.arange(layout.n_rows, dtype=str(dtype)),
            dims=row,
            class_name=HIDDEN,
        )
        owned = _in_range(assignment, layout)
        if crossfit is not None:
            _add_link(layout, crossfit, names, owned, sensitive=sensitive, dims=row)
            return model
        owner = secrets[pt.argsort(owned)]  # secret that each item owns
        for a, (name, p) in enumerate(zip(names, pi, strict=True)):
            pm.CustomDist(
                f"released_{name}",
                p,
                owner,
                dist=_random_values,
                logp=_value_logp,
                signature="(s,k),(r)->(r)",
                observed=layout.items[:, a].astype(np.int64),
                dims=row,
                class_name="ReleasedValues",
            )
    return model


def _value_logp(value: Any, p: Any, owner: Any) -> Any:
    """Log probability of each row's value given its secret, without an ``n x K`` array."""
    inside = (value >= 0) & (value < p.shape[1])
    return pt.switch(inside, pt.log(p[owner, pt.clip(value, 0, p.shape[1] - 1)]), -np.inf)


def _random_values(p: Any, owner: Any, size: Any) -> Any:
    """Draw values by inversion of the stacked cumulative distributions."""
    below = pt.cumsum(p, axis=1) + pt.arange(p.shape[0])[:, None]
    u = owner + pm.Uniform.dist(0.0, 1.0, size=owner.shape)
    code = pt.searchsorted(below.ravel(), u, side="right") - owner * p.shape[1]
    return pt.clip(code, 0, p.shape[1] - 1).astype("int64")


def _inside_group(layout: VerticalLayout) -> Any:
    def logp(value: Any, groups: Any) -> Any:
        inside = pt.eq(pt.as_tensor_variable(layout.groups)[_in_range(value, layout)], groups)
        permuted = pt.all(pt.eq(pt.sort(value), np.arange(layout.n_rows)))
        return pt.switch(inside & permuted, np.float64(0.0), np.float64(-np.inf))

    return logp


def _in_range(rows: Any, layout: VerticalLayout) -> Any:
    """Clip to existing rows: PyTensor's Numba mode reads beyond the end of an array."""
    return pt.clip(rows, 0, layout.n_rows - 1)


def _random_assignment(dtype: np.dtype[Any]) -> Any:
    def dist(groups: Any, size: Any) -> Any:
        keys = groups + pm.Uniform.dist(0.0, 1.0, size=groups.shape)  # sorts by group
        return pt.argsort(keys).astype(str(dtype))

    return dist


# -------------------------------------------------------------------------------------------------
# Keeps PyMC from choosing its own sampler for the assignment.

HIDDEN = "HiddenAssignment"
"""Name of the assignment's distribution."""


class AssignmentGuard(BlockedStep):
    """Step that PyMC picks for an assignment without one: raises an error that says what to do.

    PyMC would choose Metropolis on integers, which never proposes a permutation, so that the chains
    would not move.
    """

    name = "assignment_guard"

    @staticmethod
    def competence(var: Any, has_grad: bool) -> Competence:
        """Ideal for assignments, incompatible with everything else."""
        hidden = getattr(var.owner.op, "_print_name", ("",))[0] == HIDDEN
        return Competence.IDEAL if hidden else Competence.INCOMPATIBLE

    def __new__(cls, vars: Any, **kwargs: Any) -> AssignmentGuard:  # type: ignore[misc]
        """Raise an error that names the step to use."""
        raise ModelError(
            f"The hidden {', '.join(v.name for v in vars)} of a vertical table needs its own step "
            "method: pm.sample(step=ab.steps.vertical_steps(table))."
        )


def guard_assignments() -> None:
    """Register the guard with the step methods from which PyMC chooses."""
    if AssignmentGuard not in STEP_METHODS:
        STEP_METHODS.append(AssignmentGuard)


# -------------------------------------------------------------------------------------------------
# Weighted evidence (MODEL 1.9): the features of the records, computed without the row itself, are
# data, the weights are positive variables, and secrets follow softmax(L). NUTS samples what
# `fit_weights` approximates by a normal distribution at the mode. Here corrections of single values
# are sampled jointly with the weights, there given the weights: the two can partly replace each
# other.


def add_weights(
    model: pm.Model,
    features: Features,
    names: Sequence[str],
    *,
    sensitive: str,
    tilts: Sequence[Any] = (),
) -> list[Any]:
    """Add the weights of a horizontal table and the likelihood of its secrets to a model.

    A record shown by many rows is one line of a multinomial. `tilts` are the corrections added to
    the scores, an array ``(records, S)`` each. Returns the weights.
    """
    shape = (len(features.rows), len(names) + 1, len(features.share))
    if np.prod(shape, dtype=float) > MOST_NUMBERS:
        raise ModelError(
            f"{shape[0]:,} distinct records, {shape[1]} features and {shape[2]} sensitive values "
            "are too many for a PyMC model; use fit(evidence='weighted') instead."
        )
    x: Floats = np.empty(shape)
    dense_features(features, x)
    with model:
        weights = _weight_variables(names, CENTRE, SPREAD)
        logits = pt.as_tensor(x[:, 0])
        for a, weight in enumerate(weights):
            logits = logits + weight * pt.as_tensor(x[:, a + 1])
        for tilt in tilts:
            logits = logits + tilt
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


def _correction_variables(model: pm.Model, table: ReleasedTable, taken: Evidenced) -> list[Any]:
    """Add corrections of each attribute's values, averaged over the cells that records show."""
    if taken.weights is None or taken.weights.corrections is None:
        return []
    codes = taken.cells(table)
    sd, tilts, start = np.sqrt(taken.weights.corrections.variance), [], 0
    with model:
        for a, (name, shares) in enumerate(zip(table.attributes, cell_shares(table), strict=True)):
            single = pm.Normal(f"{CORRECTION}{name}", 0.0, sd, dims=(table.sensitive, name))
            tilts.append(pt.dot(shares.toarray(), single.T)[codes[:, a] - start])
            start += shares.shape[0]
    return tilts


def _add_link(
    layout: VerticalLayout,
    crossfit: CrossFit,
    names: Sequence[str],
    assignment: Any,
    *,
    sensitive: str,
    dims: str,
) -> list[Any]:
    """Add the weights of a vertical table, and the likelihood of the assignment given them.

    The lifts learned from the other folds are data; pooling is fixed. Summed over assignments, this
    is the likelihood that `cross_fit` maximises.
    """
    if layout.n_rows * layout.n_secrets > MOST_NUMBERS:
        raise ModelError(
            f"{layout.n_rows:,} rows and {layout.n_secrets} sensitive values are too many for a "
            "PyMC model; use fit(evidence='weighted') instead."
        )
    weights = _weight_variables(names, *WEIGHT_PRIOR)
    apart, lifts = crossfit.features(layout)
    # Scores of the distinct categories are computed once; rows look them up.
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


def _weight_variables(names: Sequence[str], mean: float, spread: float) -> list[Any]:
    return [
        pm.TruncatedNormal(f"{WEIGHT}{name}", mu=mean, sigma=spread, lower=0.0) for name in names
    ]
