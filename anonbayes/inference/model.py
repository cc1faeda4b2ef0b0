"""The Dirichlet-categorical model of a released table, as a PyMC model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from anonbayes.errors import ModelError
from anonbayes.inference.priors import Prior, PriorLike, resolve_prior
from anonbayes.inference.vertical.engine import layout_of
from anonbayes.inference.vertical.model import ASSIGNMENT, vertical_model
from anonbayes.release.table import ReleasedTable

__all__ = ["build_model", "coords_of"]

RESERVED = ("chain", "draw", "row", "cell", "record", "alpha")
PREFIXES = ("pi_", "beta_", "cleartext_")


def build_model(
    table: ReleasedTable, alpha: PriorLike = 1.0, beta: PriorLike = 1.0, *, name: str = ""
) -> pm.Model:
    """PyMC model of a released table.

    The population is ``pi_<sensitive> ~ Dir(alpha)`` and, for each attribute and each sensitive
    value, ``pi_<attribute> ~ Dir(beta)``. For a horizontal table the hidden values are summed out
    (MODEL 1.2), so that every sampler of PyMC works on the model as it is, and users can extend it
    with variables of their own. For a vertical table the hidden links are the integer variable
    ``assignment``, to be updated by one of `anonbayes.steps`.

    Parameters
    ----------
    table : ReleasedTable
        What was released.
    alpha, beta : float, array, mapping or callable
        Dirichlet weights; see `resolve_prior`.
    name : str
        Prefix of the variables, as in `pymc.Model`. With one each, several tables that share
        columns fit into one model: build them inside ``with pm.Model():``, and give each step the
        model of its table, ``HorizontalStep(table=north, model=model_of_north)``.

    Returns
    -------
    pymc.Model
        With coordinates named after the attributes and labelled by their values.

    Examples
    --------
    >>> import anonbayes as ab
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"Nat": ["{M, J}", "J"], "Dis": ["Heart", "Flu"]})
    >>> model = ab.build_model(ab.ReleasedTable.horizontal(frame, "Dis"))
    >>> [v.name for v in model.free_RVs], model.coords["Nat"]
    (['pi_Dis', 'pi_Nat'], ('J', 'M'))
    """
    prior = resolve_prior(table, alpha=alpha, beta=beta)
    slash = next((column for column in table.domains if "/" in column), None)
    if slash is not None:
        raise ModelError(f"Column {slash!r}: PyMC allows no slash in names; rename it.")
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
        )
    return _horizontal_model(table, prior, name)


def coords_of(table: ReleasedTable) -> dict[str, tuple[str, ...]]:
    """Coordinates of the model: each attribute's values as labels.

    Examples
    --------
    >>> import anonbayes as ab
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"Nat": ["M", "J"], "Dis": ["Heart", "Flu"]})
    >>> coords_of(ab.ReleasedTable.horizontal(frame, "Dis"))["Dis"]
    ('Flu', 'Heart')
    """
    reserved = (*RESERVED, ASSIGNMENT) if table.scheme == "vertical" else RESERVED
    for name in table.domains:
        if name in reserved:
            raise ModelError(
                f"Column {name!r} has a name that the draws use for themselves; rename it "
                f"(reserved: {', '.join(reserved)})."
            )
        for prefix in PREFIXES:
            if name.startswith(prefix) and name.removeprefix(prefix) in table.domains:
                raise ModelError(
                    f"Column {name!r} has the name of the draws that belong to column "
                    f"{name.removeprefix(prefix)!r}; rename it."
                )
    return {name: domain.labels for name, domain in table.domains.items()}


def _horizontal_model(table: ReleasedTable, prior: Prior, prefix: str) -> pm.Model:
    secret = table.sensitive
    coords: dict[str, Any] = dict(coords_of(table))
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
    """Likelihood through the counts ``n[y, s]`` of each attribute."""
    secret = table.sensitive
    pm.Multinomial(
        f"released_{secret}",
        n=table.n_rows,
        p=pi_secret,
        observed=table.secret_counts,
        dims=secret,
    )
    for name, column in table.columns.items():
        cells = f"{name}_cell"
        while cells in table.domains:
            cells += "_"
        cells = model.name_for(cells)
        model.add_coord(cells, [str(label) for label in column.evidence.labels])
        counts = pm.Data(
            f"released_{name}", table.counts[name].toarray().astype(float), dims=(cells, secret)
        )
        probability = pt.dot(pt.as_tensor(column.evidence.matrix.toarray()), pis[name].T)
        pm.Potential(f"evidence_{name}", (counts * pt.log(probability)).sum())


def _latent_secrets(model: pm.Model, table: ReleasedTable, pi_secret: Any, pis: Any) -> None:
    """Likelihood record by record, the sensitive value summed out."""
    records = table.records
    record = model.name_for("record")
    model.add_coord(record, np.arange(len(records.count)))
    count = pm.Data("released_records", records.count.astype(float), dims=record)
    log_joint = (
        pt.log(pi_secret)[None, :]
        + np.log(np.maximum(table.secret.evidence.matrix.toarray(), np.finfo(float).tiny))[
            records.secret
        ]
    )
    for a, (name, column) in enumerate(table.columns.items()):
        probability = pt.dot(pt.as_tensor(column.evidence.matrix.toarray()), pis[name].T)
        log_joint = log_joint + pt.log(probability)[records.codes[:, a]]
    pm.Potential("evidence_records", (count * pt.logsumexp(log_joint, axis=1)).sum())
