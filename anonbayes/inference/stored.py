"""What a posterior stores: draws and averages for beliefs, files, and the view in a notebook."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import xarray as xr
from scipy import sparse

from anonbayes import compat
from anonbayes.arrays import Draws, Floats, Ints, one_thread
from anonbayes.beliefs.editions import Editions
from anonbayes.beliefs.register import Register
from anonbayes.beliefs.victims import batch_slices
from anonbayes.errors import FileError, ModelError, nearest
from anonbayes.figures import SERIES, in_lines, is_narrow, legend_below, make_axes
from anonbayes.formats import Table
from anonbayes.inference.dirichlet import CORRECTION, WEIGHT, Prior, coords_of, resolve_prior
from anonbayes.inference.horizontal.cell_engine import HorizontalEngine
from anonbayes.inference.horizontal.tree import DirichletTree
from anonbayes.inference.run import Recorded, join, run_chains
from anonbayes.inference.vertical.crossfit import vertical_spread
from anonbayes.inference.vertical.group_layout import layout_of
from anonbayes.inference.weights import Evidenced, EvidenceWeights
from anonbayes.tables.readers import table_from_dataset, table_to_dataset
from anonbayes.tables.table import ReleasedTable

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from anonbayes.inference.posterior import Posterior

Attrs = Mapping[str, str | int]  # versions, seed and settings of a run
Labels = Mapping[str, Sequence[object] | Ints]  # by dimension
log = logging.getLogger("anonbayes")
WEIGHT_STREAM, FOLD_STREAM, CORRECTION_STREAM = 17, 18, 19
FAR = 30.0
"""Largest change of log lifts in a draw, because with two folds t has no moments."""
TABLE_GROUP = "released_table"
DRAWN_GROUPS = ("posterior", "sample_stats")
AVERAGES_GROUP = "averages"
EVIDENCE_GROUP = "evidence"
REDRAW_CHAINS, REDRAW_DRAWS = "redraw_chains", "redraw_draws"
"""Attributes of a file without draws, for the numbers of chains and draws."""

# -------------------------------------------------------------------------------------------------
# Draws from a closed form, which are rarely needed.


def labelled_draws(
    table: ReleasedTable,
    draws: Draws,
    stats: Draws,
    coords: Labels,
) -> dict[str, xr.Dataset]:
    """Build the groups ``posterior`` and ``sample_stats`` with the names and labels of a table."""
    secret = table.sensitive
    dims: dict[str, list[str]] = {f"pi_{secret}": [secret]}
    dims |= {f"pi_{name}": [secret, name] for name in table.attributes}
    corrected = [name for name in table.attributes if f"{CORRECTION}{name}" in draws]
    dims |= {f"{CORRECTION}{name}": [secret, name] for name in corrected}
    dims |= {key: ["row"] for key in draws if key.startswith(("cleartext", "assignment"))}
    content = {"posterior": draws, "sample_stats": stats}
    return compat.make_groups(content, coords=coords, dims=dims)


def known_groups(
    table: ReleasedTable,
    prior: Prior,
    weights: EvidenceWeights | None,
    coords: Labels,
) -> dict[str, xr.Dataset]:
    """Build the groups of the prior's weights, and of the attributes' weights if there are any."""
    secret = table.sensitive
    constant = xr.Dataset(
        {"alpha": ((secret,), np.asarray(prior.alpha))}
        | {f"beta_{name}": ((secret, name), np.asarray(beta)) for name, beta in prior.beta.items()},
        coords={k: v for k, v in coords.items() if k != "row"},
    )
    evidence = {} if weights is None else {EVIDENCE_GROUP: weights.to_dataset()}
    return {"constant_data": constant} | evidence


@dataclass(frozen=True, eq=False)
class DrawnLater(Mapping[str, xr.Dataset]):
    """Groups of an exact posterior, whose draws are made when they are first needed.

    Attributes
    ----------
    table, taken, attrs
        As in `redraw`.
    size : tuple of int
        Number of chains, and of draws per chain.
    coords : mapping
        Labels of the draws.
    """

    table: ReleasedTable
    taken: Evidenced
    attrs: Attrs
    size: tuple[int, int]
    coords: Labels

    def first(self, n: int) -> xr.Dataset:
        """Return the first chains that together hold `n` draws, or all of them."""
        chains, draws = self.size
        return self._made(min(chains, -(-n // draws)), min(n, draws))["posterior"]

    def relabelled(self, labels: Labels) -> DrawnLater:
        """Return the same draws with other labels."""
        return replace(self, coords={**self.coords, **labels})

    @cached_property
    def _known(self) -> dict[str, xr.Dataset]:
        return known_groups(self.table, self.taken.prior, self.taken.weights, self.coords)

    @cached_property
    def _all(self) -> dict[str, xr.Dataset]:
        return self._made(*self.size)

    def _made(self, chains: int, draws: int) -> dict[str, xr.Dataset]:
        found, stats, _ = redraw(
            self.table, self.taken, self.attrs, None, chains=chains, draws=draws
        )
        return labelled_draws(self.table, found, stats, self.coords)

    def __getitem__(self, name: str) -> xr.Dataset:
        return (self._all if name in DRAWN_GROUPS else self._known)[name]

    def __iter__(self) -> Iterator[str]:
        return iter((*DRAWN_GROUPS, *self._known))

    def __len__(self) -> int:
        return len(DRAWN_GROUPS) + len(self._known)


# -------------------------------------------------------------------------------------------------
# What beliefs need.


class KeptDraws:
    """Draws, averages and closed forms of a `Posterior`, as beliefs about people need them."""

    table: ReleasedTable
    prior: Prior
    groups: Mapping[str, xr.Dataset]
    attrs: Attrs
    method: str
    register: Register | None
    editions: Editions | None

    @property
    def population(self) -> ReleasedTable:
        """The table behind the population: the release, plus the register if there is one."""
        return self.table if self.register is None else self.register.population

    @cached_property
    def trees(self) -> Mapping[str, DirichletTree]:
        """Closed-form posterior of each attribute; only for the exact method."""
        if self.method != "exact":
            raise ModelError(f"Closed forms exist only for method='exact', not {self.method!r}.")
        return {
            name: DirichletTree(
                column.evidence, self.population.counts[name], self.prior.beta[name]
            )
            for name, column in self.population.columns.items()
        }

    @property
    def simulated(self) -> bool:
        """Whether beliefs come from draws, and so have a Monte-Carlo error."""
        return self.method not in ("exact", "crossfit")

    @cached_property
    def means(self) -> list[npt.NDArray[np.float64]]:
        """Mean of each attribute's distribution, ``(S, K_a)``, if it needs no draws."""
        if self.method == "exact":
            return [self.trees[name].mean for name in self.table.attributes]
        if self.method != "crossfit":
            raise ModelError(f"With method={self.method!r}, means must be computed from draws.")
        return lift_parts(self.table, self.groups[AVERAGES_GROUP], "mean")

    @property
    def draws(self) -> xr.Dataset:
        """The draws as a Dataset whose first dimensions are chain and draw."""
        return self.groups["posterior"]

    def few_draws(self, most: int) -> dict[str, Floats]:
        """Return at most `most` draws of each variable, from all chains; if exact, the first."""
        exact = self.method == "exact"
        draws = self.groups.first(most) if isinstance(self.groups, DrawnLater) else self.draws
        total = draws.sizes["chain"] * draws.sizes["draw"]
        n = min(most, total)
        places = np.arange(n) if exact else np.linspace(0, total - 1, n).round().astype(int)
        return {
            str(name): values.to_numpy().reshape(total, *values.shape[2:])[places]
            for name, values in draws.data_vars.items()
        }

    @property
    def one_draw(self) -> xr.Dataset:
        """A single draw of every variable, for its names and labels."""
        if isinstance(self.groups, DrawnLater):
            return self.groups.first(1)
        return self.draws.isel(chain=[0], draw=[0])

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        if isinstance(self.groups, DrawnLater):
            return self.groups.size[0]
        return int(self.draws.sizes["chain"])

    @property
    def n_draws(self) -> int:
        """Draws per chain."""
        if isinstance(self.groups, DrawnLater):
            return self.groups.size[1]
        return int(self.draws.sizes["draw"])

    @cached_property
    def secret_mean(self) -> npt.NDArray[np.float64]:
        """``E[pi_S]``, in closed form if sensitive values are known."""
        if self.table.secrets_known:
            weight = self.prior.alpha + self.population.secret_counts
            return weight / weight.sum()
        mean = self.draws[f"pi_{self.table.sensitive}"].mean(("chain", "draw"))
        return np.asarray(mean.to_numpy())

    @cached_property
    def ownership(self) -> list[sparse.csr_array]:
        """For vertical tables, ``P(item belongs to sensitive value s)``, ``(N, S)``, by batch.

        Each batch averages conditional probabilities over a stretch of one chain (Rao-Blackwell,
        MODEL 1.4).
        """
        if self.table.scheme != "vertical":
            raise ModelError("Ownership is only hidden in vertical tables.")
        if self.editions is not None and self.editions.joint is not None:
            return [self.editions.joint.owned]
        layout = layout_of(self.table)
        if self.register is not None and self.register.corrects:
            kept, eta = self.groups[AVERAGES_GROUP], self.register.eta
            assert eta is not None
            lifts = kept["left_out_lifts"].to_numpy().reshape(-1, layout.n_cells)
            fold = kept["fold"].to_numpy().ravel().astype(np.int64)
            weights = np.repeat(eta, layout.n_secrets * layout.sizes)
            return [self.register.told.ownership(layout, fold)(lifts * weights)]
        blocks = self.groups[AVERAGES_GROUP]["ownership"].to_numpy()
        chains, n_blocks = blocks.shape[:2]
        return [
            layout.ownership(blocks[chain, cut].mean(axis=0, dtype=float))
            for chain, cut in batch_slices(chains, n_blocks)
        ]

    def batch_means(self, name: str, cuts: Sequence[tuple[int, slice]]) -> Floats:
        """``E[pi_<name>]`` by batch, ``(batches, S, K)``; from ``E[pi | counts]`` if stored."""
        averaged = self.averaged(f"mean_{name}", cuts)
        if averaged is not None:
            return averaged.reshape(len(cuts), len(self.secret_mean), -1)
        draws = self.draws[f"pi_{name}"].to_numpy()
        return np.stack([draws[chain, cut].mean(axis=0) for chain, cut in cuts])

    def averaged(self, key: str, cuts: Sequence[tuple[int, slice]]) -> Floats | None:
        """Average over batches of what the engine accumulated for beliefs, one line per batch.

        None if only draws of ``pi`` are stored; keys are those of `HorizontalEngine.averages`.
        """
        content = self.groups.get(AVERAGES_GROUP)
        if content is None or key not in content:
            return None
        blocks = content[key].to_numpy()
        share = blocks.shape[1] / self.n_draws
        ends = [(c, int(cut.start * share), math.ceil(cut.stop * share)) for c, cut in cuts]
        return np.stack([blocks[c, a : max(a + 1, b)].mean(axis=0) for c, a, b in ends])


# -------------------------------------------------------------------------------------------------
# Combining chains, and redrawing from closed forms.


def stack_chains(
    recorded: list[Recorded], draws: int, interrupted: bool
) -> tuple[Draws, Draws, Draws]:
    """Stack chains, cut to the shortest one if the run was interrupted."""
    length = min(draws, *(r.n for r in recorded)) if interrupted else draws
    if length == 0:
        raise KeyboardInterrupt
    if interrupted:
        log.warning("fit: interrupted, keeping the %d draws that all chains have.", length)
    out = []
    for kind in ("draws", "stats"):
        chains = [join(getattr(r, kind), length) for r in recorded]
        out.append({k: np.stack([c[k] for c in chains]) for k in chains[0]})
    blocks = [r.averages for r in recorded]
    averages = {}
    for key in blocks[0]:
        shortest = min(len(b[key]) for b in blocks)
        averages[key] = np.stack([b[key][:shortest] for b in blocks])
    return out[0], out[1], averages


def weight_draws(table: ReleasedTable, taken: Evidenced, draws: Draws, entropy: int) -> Draws:
    """Draw weights and corrections from their own random streams, so that draws of ``pi`` stay."""
    if taken.evidence != "weighted" or taken.weights is None:
        return {}
    chains, n = draws[f"pi_{table.sensitive}"].shape[:2]
    rng = np.random.default_rng(np.random.SeedSequence([entropy, WEIGHT_STREAM]))
    drawn = taken.weights.draw(chains * n, rng).reshape(chains, n, -1)
    names = taken.weights.names
    out: Draws = {f"{WEIGHT}{name}": drawn[..., a] for a, name in enumerate(names)}
    if taken.weights.corrections is not None:
        rng = np.random.default_rng(np.random.SeedSequence([entropy, CORRECTION_STREAM]))
        values = taken.weights.corrections.draw(table, (chains, n), rng)
        out |= {f"{CORRECTION}{name}": c for name, c in zip(names, values, strict=False)}
    return out


def crossfit_draws(
    table: ReleasedTable,
    taken: Evidenced,
    lifts: Iterable[tuple[Floats, Floats]],
    size: tuple[int, int],
    entropy: int,
) -> Draws:
    """Independent draws of a cross-fitted posterior.

    Weights are normal around their mode. Log lifts have the spread found by leaving out one fold
    after another, with Student's t for F folds; a population is the marginal times its lifts.
    `lifts` holds, by attribute, the mean ``(S, K)`` and the spread ``(folds + 1, S, K)``.
    """
    rng = np.random.default_rng(np.random.SeedSequence(entropy))
    secret = taken.prior.alpha + table.secret_counts
    drawn: Draws = {f"pi_{table.sensitive}": rng.dirichlet(secret, size=size)}
    stream = np.random.default_rng(np.random.SeedSequence([entropy, FOLD_STREAM]))
    together: Floats | None = None
    for name, (mean, spread) in zip(table.attributes, lifts, strict=True):
        if together is None:  # folds change all attributes at once, and their spread is estimated
            folds = len(spread) - 1
            heavy = np.sqrt((folds - 1) / stream.chisquare(folds - 1, size))
            together = stream.standard_normal((*size, folds)) * heavy[..., None]
        pi = stream.standard_normal((*size, *mean.shape))
        pi *= spread[-1]
        pi += np.tensordot(together, spread[:-1], axes=1)
        np.exp(np.clip(pi, -FAR, FAR, out=pi), out=pi)
        pi *= mean
        pi /= pi.sum(axis=-1, keepdims=True)
        drawn[f"pi_{name}"] = pi
    return drawn | weight_draws(table, taken, drawn, entropy)


def lift_parts(
    table: ReleasedTable, kept: xr.Dataset, kind: str, pooling: Floats | None = None
) -> list[Floats]:
    """``mean`` or ``spread`` of a cross-fitted table, ``([folds + 1,] S, K_a)`` each.

    The spread of a vertical table needs its `pooling`.
    """
    if table.scheme == "vertical":
        layout = layout_of(table)
        if kind == "mean":
            return layout.split(kept["population"].to_numpy()[0, 0])
        assert pooling is not None
        lifts = kept["left_out_lifts"].to_numpy().reshape(-1, layout.n_cells)
        return vertical_spread(layout, lifts, pooling)
    shape = (-1,) * (kind == "spread") + (len(table.secret.domain),)
    return [
        kept[f"{kind}_{name}"].to_numpy().reshape(*shape, len(column.domain))
        for name, column in table.columns.items()
    ]


@one_thread
def redraw(
    table: ReleasedTable,
    taken: Evidenced,
    attrs: Attrs,
    kept: xr.Dataset | None,
    *,
    chains: int,
    draws: int,
) -> tuple[Draws, Draws, Draws]:
    """Make independent draws again, exactly as before; see `Posterior.to_netcdf`.

    `attrs` are those of the posterior; without `kept`, the lifts of a cross-fitted table, it is
    exact.
    """
    entropy = int(attrs["entropy"])
    if kept is not None:
        kappa = None if taken.weights is None else taken.weights.kappa
        kinds = (lift_parts(table, kept, kind, kappa) for kind in ("mean", "spread"))
        parts = zip(*kinds, strict=True)
        drawn = crossfit_draws(table, taken, parts, (chains, draws), entropy)
        return drawn, {}, {str(k): v.to_numpy() for k, v in kept.items()}
    recorded, _ = run_chains(
        HorizontalEngine(table, taken.prior, collapse=True, rows=None),
        draws=draws,
        tune=int(attrs["tune"]),
        thin=int(attrs["thin"]),
        seeds=np.random.SeedSequence(entropy).spawn(chains),
        cores=None,
        progressbar=False,
        label="exact",
    )
    posterior, stats, averages = stack_chains(recorded, draws, False)
    return posterior | weight_draws(table, taken, posterior, entropy), stats, averages


# -------------------------------------------------------------------------------------------------
# Files.


class Stored(NamedTuple):
    """Contents of a file; `redrawn` has draws, statistics and averages if the file has none."""

    table: ReleasedTable
    taken: Evidenced
    content: Mapping[str, xr.Dataset]
    attrs: Attrs
    method: str
    step: str | None
    redrawn: tuple[Draws, Draws, Draws] | None


def read_stored(path: str | os.PathLike[str]) -> Stored:
    """Read a file written by `Posterior.to_netcdf`; see `Posterior.from_netcdf`."""
    content, attrs = compat.read_groups(path)
    if TABLE_GROUP not in content:
        raise ModelError(
            f"{str(path)!r} contains no released table; it was not written by Posterior.to_netcdf."
        )
    try:
        table = table_from_dataset(content.pop(TABLE_GROUP))
        constant = content["constant_data"]
        beta = {name: constant[f"beta_{name}"].to_numpy() for name in table.attributes}
        prior = resolve_prior(table, alpha=constant["alpha"].to_numpy(), beta=beta)
        redrawn = REDRAW_DRAWS in attrs and "posterior" not in content
        for name in () if redrawn else table.domains:
            content["posterior"][f"pi_{name}"]
        if table.scheme == "vertical":
            content[AVERAGES_GROUP]["ownership"]
            _check_folds(table, content[AVERAGES_GROUP])
        fingerprint, method, step = (attrs[k] for k in ("fingerprint", "method", "step"))
        weights = None
        if EVIDENCE_GROUP in content:
            weights = EvidenceWeights.from_dataset(content[EVIDENCE_GROUP])
            if not (np.isfinite(weights.eta) & (weights.eta >= 0)).all():
                raise ValueError("a weight of an attribute is not a number of at least 0")
        evidence = str(attrs.get("evidence", "independent"))
        if evidence == "weighted" and weights is None:
            raise KeyError(EVIDENCE_GROUP)
    except KeyError as error:
        raise FileError(
            f"{str(path)!r} is not a complete file of Posterior.to_netcdf: something is missing "
            f"({error}). {compat.REMAKE}"
        ) from None
    except (ValueError, TypeError, IndexError, AttributeError, ModelError) as error:
        raise FileError(
            f"The table in {str(path)!r} is damaged ({error}). {compat.REMAKE}"
        ) from error
    if table.fingerprint != fingerprint:
        raise FileError(
            f"{str(path)!r} contains draws of another table: they were made for the "
            f"fingerprint {fingerprint}, but its table has {table.fingerprint}."
        )
    taken = Evidenced(evidence, prior, weights, bool(attrs.get("pooled", 0)))
    drawn = None
    if redrawn:
        size = {"chains": int(attrs.pop(REDRAW_CHAINS)), "draws": int(attrs.pop(REDRAW_DRAWS))}
        drawn = redraw(table, taken, attrs, content.get(AVERAGES_GROUP), **size)
    return Stored(table, taken, content, attrs, str(method), str(step) or None, drawn)


def _check_folds(table: ReleasedTable, kept: xr.Dataset) -> None:
    """Refuse folds of groups for which there are no lifts: kernels take them for places."""
    if "fold" in kept:
        layout, fold = layout_of(table), kept["fold"].to_numpy()
        lifts = kept["left_out_lifts"].to_numpy().reshape(-1, layout.n_cells)
        known = fold.dtype.kind in "iu" and fold.size == layout.n_groups
        if not (known and 0 <= fold.min() <= fold.max() < len(lifts)):
            raise ValueError(f"its groups are not in {len(lifts)} folds")


def write_stored(post: Posterior, path: str | os.PathLike[str], *, draws: bool) -> str:
    """Write the file that `read_stored` reads; see `Posterior.to_netcdf`."""
    if post.register is not None:
        raise ModelError(
            "A posterior with a register cannot be written, because the file would contain the "
            "register's people. Keep the input files and fit again."
        )
    if post.editions is not None:
        raise ModelError(
            "A posterior of several releases cannot be written; keep the tables and fit again."
        )
    attrs = dict(post.attrs)
    whole = not (attrs.get("interrupted", 0) or attrs.get("thinned", 0))
    if not isinstance(post.groups, DrawnLater):
        whole &= not any("row" in variable.dims for variable in post.draws.data_vars.values())
    lifted = post.method == "crossfit"
    if not draws and whole and (post.method == "exact" or lifted):
        kept = ("constant_data", EVIDENCE_GROUP, *([AVERAGES_GROUP] if lifted else []))
        groups = {name: post.groups[name] for name in kept if name in post.groups}
        attrs |= {REDRAW_CHAINS: post.n_chains, REDRAW_DRAWS: post.n_draws}
    else:
        groups = dict(post.groups)
    groups[TABLE_GROUP] = table_to_dataset(post.table)
    return str(compat.write_groups(groups, path, attrs=attrs))


def published_posterior(post: Posterior) -> Posterior:
    """Return the posterior with placeholders for values that the release does not show.

    Reports use it, and files written from it do not reveal such values; see
    `ReleasedTable.published`.

    Examples
    --------
    >>> import anonbayes as ab
    >>> post = ab.fit(ab.datasets.load("table1_recoded"), draws=20, seed=1, progressbar=False)
    >>> [str(label) for label in post.published().draws["ZIP"].values[:2]]
    ['not shown 1', 'not shown 2']
    """
    table = post.table.published()
    if table is post.table:
        return post
    labels = {name: list(names) for name, names in coords_of(table).items()}
    groups: Mapping[str, xr.Dataset]
    if isinstance(post.groups, DrawnLater):
        groups = post.groups.relabelled(labels)
    else:
        groups = {
            key: group.assign_coords({k: v for k, v in labels.items() if k in group.coords})
            for key, group in post.groups.items()
        }
    attrs = {**post.attrs, "fingerprint": table.fingerprint}
    return replace(post, table=table, groups=groups, attrs=attrs)


# -------------------------------------------------------------------------------------------------
# Draws of a user's own model: checks, and what beliefs need in addition.


def own_draws(
    table: ReleasedTable, idata: Any, prior: Prior, seed: int | np.random.Generator | None
) -> tuple[dict[str, Floats], dict[str, npt.NDArray[np.float32]] | None]:
    """Return draws of the distributions, and for a vertical table the ownership given them."""
    given = compat.posterior_dataset(idata)
    shapes: dict[str, tuple[int, ...]] = {f"pi_{table.sensitive}": (len(prior.alpha),)}
    shapes.update({f"pi_{name}": weights.shape for name, weights in prior.beta.items()})
    draws = {name: checked_draws(given, name, shape) for name, shape in shapes.items()}
    if table.scheme != "vertical":
        return draws, None
    return draws, {"ownership": ownership_given(table, draws, seed)}


def checked_draws(given: xr.Dataset, name: str, shape: tuple[int, ...]) -> Floats:
    """Return the draws of a variable; check that they are distributions of the right size."""
    if name not in given:
        hint = nearest(name, [str(known) for known in given.data_vars])
        raise ModelError(f"The draws have no variable {name!r}. {hint}")
    draws = given[name].to_numpy()
    if draws.shape[2:] != shape or 0 in draws.shape:
        raise ModelError(
            f"{name!r} has the shape {draws.shape}; expected (chain, draw, "
            f"{', '.join(map(str, shape))})."
        )
    if not (np.isfinite(draws).all() and (draws >= 0).all()):
        raise ModelError(f"{name!r} has draws that are negative or not numbers.")
    if np.abs(draws.sum(axis=-1) - 1).max() > 1e-6:
        raise ModelError(f"{name!r} has draws that do not add up to one.")
    return np.asarray(draws, dtype=float)


def ownership_given(
    table: ReleasedTable, draws: Mapping[str, Floats], seed: int | np.random.Generator | None
) -> npt.NDArray[np.float32]:
    """Probabilities of who owns which values given each draw, averaged in up to 100 batches."""
    from anonbayes.inference.vertical.chain import sweep_given_parameters

    layout, rng = layout_of(table), np.random.default_rng(seed)
    pi = np.concatenate(
        [
            draws[f"pi_{name}"].reshape(*draws[f"pi_{name}"].shape[:2], -1)
            for name in table.attributes
        ],
        axis=2,
    )
    chains, n = pi.shape[:2]
    cuts = np.array_split(np.arange(n), min(n, 100))
    kept = np.empty((chains, len(cuts), layout.n_links), dtype=np.float32)
    for chain in range(chains):
        assignment = np.arange(layout.n_rows)
        for block, places in enumerate(cuts):
            owner = np.zeros(layout.n_links)
            for draw in places:
                logs = np.log(np.maximum(pi[chain, draw], np.finfo(float).tiny))
                sweep_given_parameters(layout, "block", logs, assignment, rng, owner=owner)
            kept[chain, block] = owner / len(places)
    return kept


# -------------------------------------------------------------------------------------------------
# In a notebook.


def plot_weights(post: Posterior, *, ax: Axes | None = None) -> Axes:
    """Plot how much each attribute says alone, and how much it adds to the others.

    In nats per row of held-out log score. If the second bar of an attribute is much shorter, it
    mostly repeats the others. Empty if independent evidence was asked for.

    Examples
    --------
    >>> import anonbayes as ab
    >>> post = ab.fit(ab.datasets.load("table1_recoded"), seed=1, progressbar=False)
    >>> [label.get_text() for label in post.plot_weights().get_yticklabels()]
    ['ZIP', 'Nat']
    """
    frame = post.weights.iloc[::-1]
    ax = make_axes(ax, 5.6, 1.2 + 0.42 * len(frame))
    place = np.arange(len(frame))
    ax.barh(place + 0.2, frame["alone"], height=0.38, color="0.75", label="alone")
    ax.barh(place - 0.2, frame["added"], height=0.38, color=SERIES[0], label="beside the others")
    ax.set_yticks(place, in_lines(frame.index))
    ax.axvline(0.0, color="black", linewidth=0.8)
    ax.set(
        xlabel="Gain in held-out log score\n(nats per row)",
        title=f"What each attribute says about {post.table.sensitive}",
    )
    ax.locator_params(axis="x", nbins=3 if is_narrow(ax) else 6)
    legend_below(ax)
    return ax


METHODS = {
    "exact": "exact (closed form)",
    "gibbs": "Gibbs sampling",
    "nuts": "NUTS",
    "crossfit": "cross-fitting",
    "draws": "draws of a model of your own",
}
LEFT = '<td style="text-align:left;padding:1px 8px">'
BAR = (
    '<div style="background:#0072B2;height:0.7em;width:{:.0f}px;display:inline-block"></div> {:.2f}'
)


def shown(post: Posterior) -> str:
    """Return method, evidence, weights and diagnostics at a glance, as HTML."""
    table = post.table
    asked = post.evidence_weights is None
    reason = "every attribute counts in full, as asked for" if asked else post.evidence_reason
    facts = [
        ["released", f"{table.n_rows:,} rows, {table.scheme}; secret: {table.sensitive}"],
        ["method", METHODS.get(post.method, post.method) + (f", {post.step}" if post.step else "")],
        ["draws", f"{post.n_chains} chains of {post.n_draws:,}"],
        ["chains", _agreement(post)],
        ["evidence", f"{post.evidence}: {reason}"],
    ]
    told = ""
    if post.evidence_weights is not None:
        weights = "".join(
            f"<tr>{LEFT}{escape(str(name))}</td>"
            f"{LEFT}{BAR.format(90 * min(weight, 1.5), weight)}</td>"
            f"{LEFT}± {error:.2f}</td>{LEFT}{escape(str(meaning))}</td></tr>"
            for name, weight, error, meaning in post.weights[
                ["weight", "se", "meaning"]
            ].itertuples()
        )
        told = (
            f"<table><tbody><tr>{LEFT}<b>attribute</b></td>{LEFT}<b>weight</b></td>"
            f"{LEFT}<b>s.e.</b></td><td></td></tr>{weights}</tbody></table>"
        )
    return f"<div>{Table(['', ''], facts, 'Posterior', frozenset({1})).to_html()}{told}</div>"


def _agreement(post: Posterior) -> str:
    """Say whether the chains agree by their log density; `diagnose` checks everything."""
    if not post.simulated:
        return "independent draws, for which there is nothing to converge"
    stats = post.groups.get("sample_stats", xr.Dataset())
    key = next((k for k in ("energy", "log_likelihood") if k in stats), None)
    if key is None or post.n_chains < 2 or post.n_draws < 4:
        return "not compared; see ab.diagnose(post)"
    level = stats[key].to_numpy()
    if np.ptp(level) <= 1e-9 * np.abs(level).max():  # an Anatomy of constant attributes
        return "agree (the log density is the same in every draw); see ab.diagnose(post)"
    rhat = float(compat.rhat({"level": level})["level"])
    words = "agree" if rhat < 1.01 else ("nearly agree" if rhat < 1.1 else "disagree")
    return f"{words} (R-hat of the log density {rhat:.3f}); see ab.diagnose(post)"
