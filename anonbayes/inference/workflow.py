"""Groups for a Bayesian workflow: pointwise likelihood, prior, observed data and predictions.

Each becomes a group of ``post.idata`` that ArviZ can use. `cell_rates` is what predictions, here
and in `build_model`, need in addition to the likelihood.
"""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import xarray as xr
from numba import njit
from scipy.special import gammaln, log_ndtr, logsumexp

from anonbayes.arrays import Floats, Ints, read_whole
from anonbayes.errors import ModelError
from anonbayes.inference.cell_lifts import has_crossing_sets, lift_cells
from anonbayes.inference.corrections import cell_shares
from anonbayes.inference.dirichlet import CORRECTION, WEIGHT, coords_of
from anonbayes.inference.features import Features, cell_logs
from anonbayes.inference.vertical.block import (
    MAX_BLOCK,
    Lattice,
    Space,
    estimate_orders,
    group_marginals,
    lattice,
    marginal_space,
)
from anonbayes.inference.vertical.crossfit import WEIGHT_PRIOR
from anonbayes.inference.vertical.group_layout import layout_of
from anonbayes.inference.weight_kernels import CENTRE, SPREAD, dense_features
from anonbayes.inference.weights import choose_evidence
from anonbayes.tables.evidence import Evidence
from anonbayes.tables.table import ReleasedTable

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior


OTHERS = "(other cells)"
"""Label of the cells that a similar release could show but this one does not."""
NEGLIGIBLE = 5e-6
MOST_NUMBERS = 20_000_000
"""Largest number of values in a group of pointwise draws (160 MB)."""
LEAST_DRAWS = 100
CHUNK = 2_000_000
TINY = np.finfo(float).tiny


# -------------------------------------------------------------------------------------------------
# How values become cells.


class CellRates(NamedTuple):
    """How often a value that a cell contains is released as that cell."""

    rate: Floats  # c_y: a value k is released as y with probability c_y E_y(k)
    others: bool  # whether a value would sometimes show as a cell the table lacks


def cell_rates(evidence: Evidence, counts: Ints) -> CellRates:
    """Estimate the mechanism under which cells mean what the likelihood assumes.

    That a cell says no more than its members (MODEL 1.1) is coarsening at random (Gill, van der
    Laan, Robins 1997): the probability ``c_y`` of the cell does not depend on which member is true.
    It is 1 for reports and disjoint cells; for overlapping cells it is ``n_y / (n p(y))`` at the
    most likely distribution ``p``. It is a constant in the likelihood, but predictions need it.
    """
    covered = np.asarray(evidence.matrix.sum(axis=0)).ravel()
    if covered.max() <= 1.0 + NEGLIGIBLE:
        return CellRates(np.ones(len(evidence)), bool(covered.min() < 1.0 - NEGLIGIBLE))
    rows = np.asarray(counts, dtype=float)[:, None]
    weak = np.full((1, len(evidence.domain)), 1e-6)
    mean = cell_logs(evidence, rows, weak).mean[0]
    share = rows[:, 0] / max(rows.sum(), 1.0)
    rate = share / np.maximum(evidence.matrix @ mean, np.finfo(float).tiny)
    covered = evidence.matrix.T @ rate
    rate /= covered.max()
    return CellRates(rate, bool(covered.min() < covered.max() * (1.0 - NEGLIGIBLE)))


# -------------------------------------------------------------------------------------------------
# Pointwise likelihood, and the prior.


def with_log_likelihood(
    post: Posterior, *, draws: int | None = None, of: Literal["release", "secret"] | None = None
) -> Posterior:
    """Add the groups ``log_likelihood`` and ``log_prior``, which `az.loo` and others need.

    The likelihood (MODEL 1.2) is given for every row of the release, so `az.loo` leaves out one
    row, and `az.compare` compares posteriors of the same table. For a vertical table it is given
    for every group, with ownership summed out; for groups of more than 12 rows it is estimated,
    with the standard error ``monte_carlo_error`` in the attributes of the group. With weighted
    evidence it is the likelihood of the secrets given the cells, ``secret`` instead of
    ``release``, with features computed from the other rows or, if cross-fitted, the other folds;
    ``az.loo`` then agrees with `scores`. To compare it with independent evidence use `scores`,
    not ``az.compare``, which would compare different quantities.

    Parameters
    ----------
    draws : int, optional
        Number of draws per chain to keep; by default all, if they fit into 20 million numbers.
    of : {"release", "secret"}, optional
        The likelihood that you expect: of whole rows (independent evidence), or of secrets given
        their records (weighted evidence); another one is refused. Without it, weighted evidence
        gives a warning that it cannot be compared with the likelihood of whole rows.

    Examples
    --------
    >>> import anonbayes as ab
    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> post.with_log_likelihood(draws=50).groups["log_likelihood"]["release"].shape
    (4, 50, 8)
    """
    table = post.table
    name = "secret" if post.evidence == "weighted" else "release"
    if of not in (None, name):
        raise ModelError(
            f"With {post.evidence} evidence there is no likelihood of={of!r}, only of {name!r}. "
            "To compare kinds of evidence, use post.scores, which holds out the same rows for both."
        )
    if of is None and name == "secret":
        warnings.warn(
            "With weighted evidence the likelihood is that of each secret given its record, not of "
            "the whole row: use az.compare only with other weighted fits, and post.scores to "
            "compare with independent evidence. with_log_likelihood(of='secret') gives no warning.",
            stacklevel=2,
        )
    vertical = table.scheme == "vertical"
    units = _work(table) if vertical else table.n_rows
    fitting = MOST_NUMBERS // (units * post.n_chains)
    if draws is None and fitting < min(post.n_draws, LEAST_DRAWS):
        raise ModelError(
            f"{units:,} rows and {post.n_chains} chains leave room for {fitting} draws each. "
            "Pass draws= if memory allows, or use a random part of the rows."
        )
    whole = thinned(post, min(post.n_draws, fitting) if draws is None else draws)
    dim = "group" if vertical else "row"
    values, error = _by_group(whole) if vertical else (_by_row(whole), 0.0)
    shape = (whole.n_chains, whole.n_draws)
    likelihood = xr.Dataset(
        {name: (("chain", "draw", dim), values.reshape(*shape, -1))},
        coords=_draw_coords(whole) | {dim: np.arange(values.shape[1])},
        attrs={"monte_carlo_error": error},
    )
    priors = {k: (("chain", "draw"), v.reshape(shape)) for k, v in _log_prior(whole).items()}
    added = {
        "log_likelihood": likelihood,
        "log_prior": xr.Dataset(priors, coords=_draw_coords(whole)),
    }
    return replace(whole, groups={**whole.groups, **added})


def _work(table: ReleasedTable) -> int:
    """Number of groups of a vertical table, where those whose orders are sampled count as many."""
    sizes = layout_of(table).group_sizes
    return int(np.where(sizes > MAX_BLOCK, sizes**2 // 4, 1).sum())


def thinned(post: Posterior, draws: int) -> Posterior:
    """Return a posterior with this many draws per chain, evenly spaced."""
    draws = read_whole("draws", draws, least=1)
    if draws >= post.n_draws:
        return post
    places = np.linspace(0, post.n_draws - 1, draws).round().astype(int)
    groups = {
        name: content.isel(draw=places) if content.sizes.get("draw") == post.n_draws else content
        for name, content in post.groups.items()
    }
    return replace(post, groups=groups, attrs={**post.attrs, "thinned": 1})


def _draw_coords(post: Posterior) -> dict[str, object]:
    return {dim: post.draws[dim].to_numpy() for dim in ("chain", "draw")}


def _flat(post: Posterior, name: str) -> Floats:
    """Draws of a variable, with chains concatenated."""
    values = post.draws[name].to_numpy()
    return np.asarray(values.reshape(-1, *values.shape[2:]), dtype=float)


def _chunks(n: int, width: int) -> Iterator[slice]:
    step = max(1, CHUNK // max(width, 1))
    return (slice(first, min(first + step, n)) for first in range(0, n, step))


def _by_row(post: Posterior) -> Floats:
    """Log likelihood of every row given each draw, shape ``(draws, rows)``."""
    table, records = post.table, post.table.records
    lines = np.arange(table.n_lines)
    if table.weights is not None:
        lines = np.repeat(lines, table.weights)
    each = records.inverse[lines]
    total = post.n_chains * post.n_draws
    size = len(table.secret.domain)
    out = np.empty((total, len(each)))
    if post.evidence == "weighted":
        features, codes, each = _weighted_rows(post, each)
        x = np.empty((len(features.rows), len(table.attributes) + 1, size))
        dense_features(features, x)
        eta = np.column_stack(
            [np.ones(total), *(_flat(post, f"{WEIGHT}{name}") for name in table.attributes)]
        )
        shares = [] if post.corrections is None else cell_shares(table)
        for cut in _chunks(total, x.size):
            score = np.einsum("da,ras->drs", eta[cut], x)
            start = 0
            for a, (name, share) in enumerate(zip(table.attributes, shares, strict=False)):
                tilt = np.tensordot(_corrections(post, name)[cut], share.toarray(), axes=(2, 1))
                score += tilt.transpose(0, 2, 1)[:, codes[:, a] - start]
                start += share.shape[0]
            score -= logsumexp(score, axis=2, keepdims=True)
            out[cut] = _own_secret(score, features.secret, features.likelihood)[:, each]
        return out
    log_secret = np.log(np.maximum(_flat(post, f"pi_{table.sensitive}"), TINY))
    matrix = table.secret.evidence.matrix
    known = table.secrets_known
    own = matrix.indices[records.secret] if known else records.secret
    likelihood = np.empty((0, size)) if known else matrix.toarray()
    pis = {name: _flat(post, f"pi_{name}") for name in table.attributes}
    for cut in _chunks(total, len(records.count) * size):
        score = np.repeat(log_secret[cut, None, :], len(records.count), axis=1)
        for a, (name, column) in enumerate(table.columns.items()):
            pi = pis[name][cut]
            cells = column.evidence.matrix @ pi.reshape(-1, pi.shape[2]).T
            cells = cells.reshape(-1, *pi.shape[:2]).transpose(1, 0, 2)
            score += np.log(np.maximum(cells, TINY))[:, records.codes[:, a]]
        out[cut] = _own_secret(score, own, likelihood)[:, each]
    return out


def _corrections(post: Posterior, name: str) -> Floats:
    """Draws of an attribute's corrections, or the known ones repeated."""
    if f"{CORRECTION}{name}" in post.draws:
        return _flat(post, f"{CORRECTION}{name}")
    assert post.corrections is not None
    known = post.corrections[post.table.attributes.index(name)]
    return np.broadcast_to(known, (post.n_chains * post.n_draws, *known.shape))


def _weighted_rows(post: Posterior, record: Ints) -> tuple[Features, Ints, Ints]:
    """Features for which the weights were estimated, their cells, and the line of each row in them.

    If cells cross, a record has a line in each fold, to which its rows are assigned in turn.
    """
    if not (post.pooled and has_crossing_sets(post.table)):
        features = Features.of(post.table, post.prior)
        return features, features.codes, record
    lifts = lift_cells(post.table, post.prior)
    order = np.argsort(lifts.record, kind="stable")
    out = np.empty_like(record)
    out[np.argsort(record, kind="stable")] = np.repeat(
        order, lifts.features.rows[order].astype(np.int64)
    )
    return lifts.features, lifts.codes, out


def _own_secret(score: Floats, secret: Ints, likelihood: Floats) -> Floats:
    """Score of the secret that each record shows, or of its report with the secret summed out."""
    if not len(likelihood):
        return np.asarray(score[:, np.arange(len(secret)), secret])
    with np.errstate(divide="ignore"):
        return np.asarray(logsumexp(score + np.log(likelihood)[secret], axis=2))


def _by_group(post: Posterior) -> tuple[Floats, float]:
    """Log likelihood of every group of a vertical table, with ownership summed out.

    For groups too large for that it is estimated, with the same random numbers for every draw; the
    largest standard error is also returned.
    """
    table = post.table
    layout = layout_of(table)
    total = post.n_chains * post.n_draws
    widest = int(layout.group_sizes.max())
    steps = lattice(min(widest, MAX_BLOCK))
    space = marginal_space(steps.block, widest)
    out, error = np.empty((total, layout.n_groups)), 0.0
    orders = gammaln(layout.group_sizes + 1.0)
    weighted = post.evidence == "weighted"
    if weighted:
        prior = post.prior
        crossfit = choose_evidence(
            table, evidence="weighted", alpha=prior.alpha, beta=dict(prior.beta)
        ).crossfit
        assert crossfit is not None
        apart, lifts = crossfit.features(layout)
        own = [lift.T[apart.items[:, a]] for a, lift in enumerate(lifts)]
        eta = [_flat(post, f"{WEIGHT}{name}") for name in table.attributes]
        share = np.log(crossfit.secret_shares)
    else:
        secret = np.log(np.maximum(_flat(post, f"pi_{table.sensitive}"), TINY))
        pis = [_flat(post, f"pi_{name}") for name in table.attributes]
    for d in range(total):
        score = np.zeros((layout.n_rows, layout.n_secrets))
        if weighted:
            score += share + sum(weight[d] * lift for weight, lift in zip(eta, own, strict=True))
            score -= logsumexp(score, axis=1, keepdims=True)
        else:
            for a, pi in enumerate(pis):
                score += np.log(np.maximum(pi[d], TINY)).T[layout.items[:, a]]
        rng = np.random.default_rng(0)
        found = _sum_orders(score, layout.secrets, layout.offsets, steps, space, rng, out[d])
        error = max(error, found)
        if not weighted:
            out[d] += np.add.reduceat(secret[d][layout.secrets], layout.offsets[:-1])
    return out - orders, error


@njit(cache=True, nogil=True)
def _sum_orders(
    score: Floats,
    secrets: Ints,
    offsets: Ints,
    steps: Lattice,
    space: Space,
    rng: np.random.Generator,
    out: Floats,
) -> float:
    """``log sum_sigma prod_l exp(score[sigma(l), s_l])`` of every group; the largest error."""
    worst = 0.0
    for g in range(len(offsets) - 1):
        first, n = offsets[g], offsets[g + 1] - offsets[g]
        for x in range(n):
            for m in range(n):
                space.weight[x, m] = score[first + m, secrets[first + x]]
        if n > steps.block:
            out[g], error = estimate_orders(space, n, rng)
            worst = max(worst, error)
        else:
            out[g] = group_marginals(steps, space, n, 1, rng)
    return worst


def _log_prior(post: Posterior) -> dict[str, Floats]:
    """Log density of each variable under its prior, given each draw."""
    if post.evidence == "weighted":  # these data only change what is known about the weights
        vertical = post.table.scheme == "vertical"
        mean, spread = WEIGHT_PRIOR if vertical else (CENTRE, SPREAD)
        z = {
            name: (_flat(post, f"{WEIGHT}{name}") - mean) / spread for name in post.table.attributes
        }
        norm = 0.5 * np.log(2 * np.pi) + np.log(spread) + log_ndtr(mean / spread)
        out = {f"{WEIGHT}{name}": -0.5 * value**2 - norm for name, value in z.items()}
        single = None if post.evidence_weights is None else post.evidence_weights.corrections
        for name in z:
            if single is not None and f"{CORRECTION}{name}" in post.draws:
                c = _flat(post, f"{CORRECTION}{name}")
                width = np.log(2 * np.pi * single.variance)
                density = -0.5 * (c**2 / single.variance + width).sum(axis=(1, 2))
                out[f"{CORRECTION}{name}"] = density
        return out
    priors = {post.table.sensitive: post.prior.alpha, **post.prior.beta}
    out = {}
    for name, weight in priors.items():
        log_pi = np.log(np.maximum(_flat(post, f"pi_{name}"), TINY))
        density = ((weight - 1) * log_pi).sum(axis=-1)
        density = density + gammaln(weight.sum(axis=-1)) - gammaln(weight).sum(axis=-1)
        out[f"pi_{name}"] = density if density.ndim == 1 else density.sum(axis=-1)
    return out


# -------------------------------------------------------------------------------------------------
# Observed data, and what the model would have predicted.


class CellCounts(NamedTuple):
    """Cells of an attribute as counted by `build_model`."""

    dim: str  # name of their dimension
    labels: list[str]  # the cells; those that the table does not show are last, as one
    matrix: Floats  # probability that a value is released as each cell, (cells, K)
    counts: Ints  # number of rows by secret, (S, cells)


def counted(table: ReleasedTable, name: str) -> CellCounts:
    """Count the cells of an attribute by secret."""
    evidence = table.columns[name].evidence
    counts = table.counts[name].toarray().T.astype(np.int64)
    rates = cell_rates(evidence, counts.sum(axis=0))
    matrix = evidence.matrix.toarray() * rates.rate[:, None]
    labels = [str(label) for label in evidence.labels]
    if rates.others:
        matrix = np.vstack([matrix, np.maximum(1.0 - matrix.sum(axis=0), 0.0)])
        counts = np.pad(counts, ((0, 0), (0, 1)))
        labels.append(_unlike(OTHERS, labels))
    return CellCounts(_unlike(f"{name}_cell", table.domains), labels, matrix, counts)


def _unlike(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name


def observed_data(table: ReleasedTable) -> xr.Dataset:
    """Return the release in the form and with the names of `build_model`'s variables.

    These are counts of cells by secret, or of reports; for a vertical table, the codes of each row.
    """
    secret = table.sensitive
    if table.scheme == "vertical":
        layout = layout_of(table)
        rows: dict[str, Any] = {f"released_{secret}": ("row", layout.secrets)}
        for a, name in enumerate(table.attributes):
            rows[f"released_{name}"] = ("row", layout.items[:, a])
        return xr.Dataset(rows, coords={"row": np.arange(layout.n_rows)})
    if not table.secrets_known:
        labels = [str(label) for label in table.secret.evidence.labels]
        counts = table.tally(table.secret.codes, len(labels))
        reports = f"{secret}_cell"
        return xr.Dataset({f"released_{secret}": (reports, counts)}, coords={reports: labels})
    content: dict[str, Any] = {f"released_{secret}": (secret, table.secret_counts)}
    coords: dict[str, Any] = {secret: list(coords_of(table)[secret])}
    for name in table.attributes:
        cells = counted(table, name)
        content[f"released_{name}"] = ((secret, cells.dim), cells.counts)
        coords[cells.dim] = cells.labels
    return xr.Dataset(content, coords=coords)


def with_predictive(
    post: Posterior, *, draws: int = 100, seed: int | np.random.Generator | None = 0
) -> Posterior:
    """Add the group ``posterior_predictive``: releases predicted by this posterior.

    They have the names and form of ``observed_data`` and of `build_model`: the number of rows with
    each cell, by secret; for a vertical table, the codes of each row.

    Parameters
    ----------
    draws : int
        Number of draws per chain from which to predict.
    seed : int, Generator or None
        Seed of the predictions.

    Examples
    --------
    >>> import anonbayes as ab
    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> cells = post.with_predictive(draws=25).groups["posterior_predictive"]["released_Nat"]
    >>> cells.shape, bool((cells.sum(("Dis", "Nat_cell")) == 8).all())
    ((4, 25, 5, 5), True)
    """
    observed = observed_data(post.table)
    chosen = thinned(post, draws)
    rng = np.random.default_rng(seed)
    shape = (chosen.n_chains, chosen.n_draws)
    drawn = _predicted(chosen, rng)
    predictive = xr.Dataset(
        {
            name: (
                ("chain", "draw", *observed[name].dims),
                values.reshape(*shape, *values.shape[1:]),
            )
            for name, values in drawn.items()
        },
        coords={**_draw_coords(chosen), **observed.coords},
    )
    return replace(post, groups={**post.groups, "posterior_predictive": predictive})


def _predicted(post: Posterior, rng: np.random.Generator) -> Mapping[str, Ints]:
    """Draw a release for each posterior draw, with the names of `observed_data`."""
    table = post.table
    pi_secret = _flat(post, f"pi_{table.sensitive}")
    pis = {name: _flat(post, f"pi_{name}") for name in table.attributes}
    if table.scheme == "vertical":
        layout = layout_of(table)
        drawn = {
            f"released_{name}": np.empty((len(pi_secret), layout.n_rows), dtype=np.int64)
            for name in table.domains
        }
        for d, share in enumerate(pi_secret):
            secrets = rng.choice(len(share), size=layout.n_rows, p=share / share.sum())
            drawn[f"released_{table.sensitive}"][d] = secrets
            owner = secrets[layout.random_assignment(rng)]
            for name, pi in pis.items():
                drawn[f"released_{name}"][d] = draw_codes(pi[d], owner, rng)
        return drawn
    if not table.secrets_known:
        evidence = table.secret.evidence
        rates = cell_rates(evidence, table.tally(table.secret.codes, len(evidence))).rate
        p = pi_secret @ (evidence.matrix.toarray() * rates[:, None]).T
        return {f"released_{table.sensitive}": rng.multinomial(table.n_rows, _normal(p))}
    rows = rng.multinomial(table.n_rows, _normal(pi_secret))
    out = {f"released_{table.sensitive}": rows}
    for name, pi in pis.items():
        p = pi @ counted(table, name).matrix.T
        out[f"released_{name}"] = rng.multinomial(rows, _normal(p))
    return out


def _normal(p: Floats) -> Floats:
    return np.asarray(p / p.sum(axis=-1, keepdims=True))


def draw_codes(p: Floats, line: Ints, rng: np.random.Generator) -> Ints:
    """Draw a code from the distribution in row ``line[j]`` of `p`, for every j."""
    below = np.cumsum(p, axis=-1)
    drawn = rng.random(np.shape(line)) * below[line, -1]
    out = np.empty(np.shape(line), dtype=np.int64)
    for s in range(len(below)):
        out[line == s] = np.searchsorted(below[s], drawn[line == s], side="right")
    return np.asarray(np.minimum(out, below.shape[1] - 1))
