"""Gibbs sampling of generalized cells and reports: kernels and engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numba import njit

from anonbayes.arrays import Draws, Floats, Ints, SmallCodes
from anonbayes.domains import code_dtype
from anonbayes.errors import FileError
from anonbayes.inference.dirichlet import Prior, dirichlet_rows, draw_forest
from anonbayes.inference.horizontal.cell_layout import CellArrays, HorizontalLayout, is_flat
from anonbayes.inference.horizontal.latent_rows import LatentRows, pick, redraw_rows
from anonbayes.inference.horizontal.tree import DirichletTree
from anonbayes.inference.horizontal.urns import (
    SMALL,
    Scratch,
    Urns,
    draw_urn,
    listed_rows,
    record_urn,
)
from anonbayes.inference.run import ChainState
from anonbayes.tables.evidence import Evidence
from anonbayes.tables.table import ReleasedTable

# -------------------------------------------------------------------------------------------------
# Numba kernels of the horizontal Gibbs sampler, with plain arrays as input and output.
#
# A sweep first draws how many rows of each crossing (cell, sensitive value) have which true value,
# a multinomial, and then the distributions given these counts and the cells of the tree, a
# Dirichlet tree (MODEL 1.2 and 1.3). Its cost depends on the number of distinct cells, not of rows.
#
# For attributes with small prior weights, the values of the rows are drawn with the distributions
# integrated out (`urns`); so are latent secrets with small weights (`latent_rows`).
#
# `d` is a `CellArrays`, which describes the layout of flat vectors.


class Record(NamedTuple):
    """Output of sweeps, one line per sweep; `fit` accumulates averages of urns (`record_urn`)."""

    secret: Floats
    pi: Floats
    log_likelihood: Floats
    fit: Floats

    @classmethod
    def of(cls, n: int, layout: HorizontalLayout, urns: Urns) -> Record:
        """Allocate arrays for n sweeps."""
        return cls(
            np.empty((n, layout.n_secrets)),
            np.empty((n, layout.length)),
            np.empty(n),
            np.zeros(urns.entry_first[-1]),
        )


@njit(cache=True, nogil=True)
def _allocate(
    pi: Floats, d: CellArrays, cell: int, s: int, n: int, counts: Floats, rng: np.random.Generator
) -> None:
    """Distribute n rows of a cell over its values: a multinomial by successive binomials."""
    a = d.attribute[cell]
    where = d.start[a] + s * d.sizes[a]
    lo, hi = d.pointer[cell], d.pointer[cell + 1]
    total = 0.0
    for i in range(lo, hi):
        total += pi[where + d.values[i]] * d.likelihood[i]
    left = n
    for i in range(lo, hi - 1):
        if left == 0:
            return
        w = pi[where + d.values[i]] * d.likelihood[i]
        x = left if w >= total else rng.binomial(left, w / total)
        counts[where + d.values[i]] += x
        left -= x
        total -= w
    counts[where + d.values[hi - 1]] += left


@njit(cache=True, nogil=True)
def cell_probabilities(pi: Floats, d: CellArrays, n_secrets: int) -> Floats:
    """``P(cell | s) = sum_k pi_a|s(k) E_cell(k)`` of every cell, shape ``(cells, S)``."""
    out = np.zeros((len(d.attribute), n_secrets))
    for cell in range(len(d.attribute)):
        a = d.attribute[cell]
        for s in range(n_secrets):
            where = d.start[a] + s * d.sizes[a]
            for i in range(d.pointer[cell], d.pointer[cell + 1]):
                out[cell, s] += pi[where + d.values[i]] * d.likelihood[i]
    return out


@njit(cache=True, nogil=True)
def _secret_weights(
    log_secret: Floats, log_cell: Floats, likelihood: Floats, cells: Ints, weight: Floats
) -> float:
    """Weights of a record's sensitive values, at most 1; return the log of their scale.

    Computed in logarithms, because the product over many attributes underflows.
    """
    top = -np.inf
    for s in range(len(weight)):
        weight[s] = log_secret[s] + np.log(likelihood[s])
        for a in range(len(cells)):
            weight[s] += log_cell[cells[a], s]
        top = max(top, weight[s])
    for s in range(len(weight)):
        # A record impossible under this draw leaves only its own report as evidence.
        weight[s] = np.exp(weight[s] - top) if top > -np.inf else likelihood[s]
    return top


@njit(cache=True, nogil=True)
def _draw_secrets(
    pi_secret: Floats,
    log_cell: Floats,
    d: CellArrays,
    secret_counts: Floats,
    rng: np.random.Generator,
) -> Ints:
    """Draw the latent sensitive values; return the number of rows per (cell, s).

    One multinomial distributes the rows of equal records over the sensitive values.
    """
    n_secrets = len(pi_secret)
    rows = np.zeros((len(d.attribute), n_secrets), dtype=np.int64)
    weight, log_secret = np.zeros(n_secrets), np.log(pi_secret)
    for r in range(len(d.record_count)):
        likelihood = d.secret_likelihood[d.record_secret[r]]
        _secret_weights(log_secret, log_cell, likelihood, d.record_cells[r], weight)
        total = weight.sum()
        left = d.record_count[r]
        for s in range(n_secrets):
            if left == 0:
                break
            last = s == n_secrets - 1 or weight[s] >= total
            x = left if last else rng.binomial(left, weight[s] / total)
            total -= weight[s]
            left -= x
            secret_counts[s] += x
            for a in range(d.record_cells.shape[1]):
                rows[d.record_cells[r, a], s] += x
    return rows


@njit(cache=True, nogil=True)
def draw_distributions(
    beta: Floats,
    counts: Floats,
    own: Floats,
    d: CellArrays,
    n_secrets: int,
    out: Floats,
    rng: np.random.Generator,
) -> None:
    """Draw ``pi_a|s`` of all attributes: Dirichlet trees with leaf weights ``beta + counts``.

    A node's weight is that of its values plus the rows whose cell lies in it. Parents come before
    their children, so weights are summed from the last node to the first.
    """
    n_nodes = len(d.node_parent)
    weight, total, g = np.empty(n_nodes), np.empty(n_nodes), np.empty(n_nodes)
    for s in range(n_secrets):
        weight[:] = own[s]
        for a in range(len(d.sizes)):
            where = d.start[a] + s * d.sizes[a]
            for k in range(d.sizes[a]):
                weight[d.leaf_node[d.first_leaf[a] + k]] += beta[where + k] + counts[where + k]
        for v in range(n_nodes - 1, -1, -1):
            if d.node_parent[v] >= 0:
                weight[d.node_parent[v]] += weight[v]
        draw_forest(d.node_parent, weight, total, g, rng)
        for a in range(len(d.sizes)):
            where = d.start[a] + s * d.sizes[a]
            for k in range(d.sizes[a]):
                out[where + k] = g[d.leaf_node[d.first_leaf[a] + k]]


@njit(cache=True, nogil=True)
def log_likelihood(pi_secret: Floats, pi: Floats, d: CellArrays) -> float:
    """``log f(t* | pi)`` of MODEL 1.2, up to a constant."""
    n_secrets = len(pi_secret)
    probability = cell_probabilities(pi, d, n_secrets)
    out = 0.0
    for s in range(n_secrets):
        if d.secret_base[s] > 0.0:
            out += d.secret_base[s] * np.log(pi_secret[s])
    for t in range(d.crossing.shape[0]):
        out += d.crossing[t, 2] * np.log(probability[d.crossing[t, 0], d.crossing[t, 1]])
    if len(d.record_count) > 0:
        weight, log_secret, log_cell = np.zeros(n_secrets), np.log(pi_secret), np.log(probability)
        for r in range(len(d.record_count)):
            likelihood = d.secret_likelihood[d.record_secret[r]]
            top = _secret_weights(log_secret, log_cell, likelihood, d.record_cells[r], weight)
            out += d.record_count[r] * (top + np.log(weight.sum()))
        return out
    # A node v of the tree has the sum of its values' probabilities.
    mass = np.zeros(len(d.node_parent))
    for s in range(n_secrets):
        mass[:] = 0.0
        for a in range(len(d.sizes)):
            where = d.start[a] + s * d.sizes[a]
            for k in range(d.sizes[a]):
                mass[d.leaf_node[d.first_leaf[a] + k]] += pi[where + k]
        for v in range(len(mass) - 1, -1, -1):
            p = d.node_parent[v]
            if p >= 0:
                mass[p] += mass[v]
                if d.own[s, v] > 0.0:
                    out += d.own[s, v] * np.log(mass[v])
    return out


@njit(cache=True, nogil=True)
def independent_draws(
    pi_secret: Floats,
    pi: Floats,
    alpha: Floats,
    beta: Floats,
    d: CellArrays,
    kept: Record,
    rng: np.random.Generator,
) -> None:
    """`sweeps` for a table in which only distributions are drawn; gives the same numbers.

    Separate, because the kernels that draw rows take half a minute to compile.
    """
    n_secrets = len(pi_secret)
    counts, secret = np.zeros(len(pi)), (alpha + d.secret_base).reshape(1, n_secrets)
    for t in range(len(kept.secret)):
        draw_distributions(beta, counts, d.own, d, n_secrets, pi, rng)
        dirichlet_rows(secret, pi_secret.reshape(1, n_secrets), rng)
        kept.secret[t] = pi_secret
        kept.pi[t] = pi
        kept.log_likelihood[t] = log_likelihood(pi_secret, pi, d)


@njit(cache=True, nogil=True)
def sweeps(
    n: int,
    pi_secret: Floats,
    pi: Floats,
    alpha: Floats,
    beta: Floats,
    d: CellArrays,
    urns: Urns,
    latent_rows: LatentRows,
    work: Scratch,
    kept: Record,
    first: bool,
    rng: np.random.Generator,
) -> None:
    """Run n sweeps from ``(pi_secret, pi)``, in place, and record every one in `kept`.

    `pi` and `beta` are flat, as in `CellArrays`. The `first` sweep of a chain starts from the data:
    urns are filled independently of `pi`.
    """
    n_secrets = len(pi_secret)
    latent = len(d.record_count) > 0
    nothing = np.zeros(0)
    for t in range(n):
        counts = np.zeros(len(pi))
        own, secret_counts = d.own, d.secret_base.copy()
        if len(latent_rows.record) > 0:
            probability = cell_probabilities(pi, d, n_secrets)
            own, secret_counts = redraw_rows(pi_secret, pi, probability, latent_rows, d, first, rng)
        elif latent:
            log_cell = np.log(cell_probabilities(pi, d, n_secrets))
            if first:
                log_cell[:] = 0.0
            shown = _draw_secrets(pi_secret, log_cell, d, secret_counts, rng)
            own = np.zeros_like(d.own)
            for cell in range(shown.shape[0]):
                for s in range(n_secrets):
                    if shown[cell, s] == 0:
                        continue
                    if d.cell_node[cell] >= 0:
                        own[s, d.cell_node[cell]] += shown[cell, s]
                    else:
                        _allocate(pi, d, cell, s, shown[cell, s], counts, rng)
        else:
            for i in range(d.crossing.shape[0]):
                cell, s, rows_here = d.crossing[i]
                if urns.of_attribute[d.attribute[cell]] < 0:
                    _allocate(pi, d, cell, s, rows_here, counts, rng)
        for u in range(len(urns.attribute)):
            a = urns.attribute[u]
            size = d.sizes[a]
            width = (urns.entry_first[u + 1] - urns.entry_first[u]) // n_secrets
            for s in range(n_secrets):
                here = slice(d.start[a] + s * size, d.start[a] + (s + 1) * size)
                where = nothing if first else pi[here]
                filled = draw_urn(
                    u, s, urns.rows[:, s], urns.fixed[here], where, beta[here], d, urns, work, rng
                )
                start = urns.entry_first[u] + s * width
                record_urn(
                    filled,
                    urns.rows[:, s],
                    beta[here],
                    d,
                    urns,
                    work,
                    urns.entry[u],
                    kept.fit[start : start + width],
                )
                for j in range(filled):
                    cell = urns.cells[work.order[j]]
                    if d.cell_node[cell] < 0:
                        for i in range(d.pointer[cell], d.pointer[cell + 1]):
                            counts[d.start[a] + s * size + d.values[i]] += work.x[i]
        draw_distributions(beta, counts, own, d, n_secrets, pi, rng)
        dirichlet_rows(
            (alpha + secret_counts).reshape(1, n_secrets), pi_secret.reshape(1, n_secrets), rng
        )
        kept.secret[t] = pi_secret
        kept.pi[t] = pi
        kept.log_likelihood[t] = log_likelihood(pi_secret, pi, d)


# -------------------------------------------------------------------------------------------------
# The hidden values of single rows of a horizontal table, drawn for given distributions.


@dataclass(frozen=True, eq=False)
class HiddenRows:
    """Rows whose hidden values are drawn, independently given the distributions (MODEL 1.4).

    `dtypes` maps each name, ``cleartext_<attribute>``, to the smallest integer type. The sensitive
    value is included if it was released through a channel.
    """

    layout: HorizontalLayout
    dtypes: dict[str, np.dtype[Any]]
    cells: Ints  # of the rows, (rows, attributes)
    secret: Ints  # sensitive values, -1 where latent
    secret_cells: Ints  # sensitive cells

    @classmethod
    def of(cls, table: ReleasedTable, layout: HorizontalLayout, rows: Ints) -> HiddenRows:
        """Collect the released cells of the rows."""
        arrays = layout.arrays
        first = np.searchsorted(arrays.attribute, np.arange(len(layout.names)))
        cells = [column.codes[rows].astype(np.int64) for column in table.columns.values()]
        sizes = dict(zip(layout.names, arrays.sizes, strict=True))
        if table.secrets_known:
            secret = table.secret_codes[rows].astype(np.int64)
        else:
            secret = np.full(len(rows), -1, dtype=np.int64)
            sizes[table.sensitive] = layout.n_secrets
        return cls(
            layout=layout,
            dtypes={f"cleartext_{k}": code_dtype(int(n)) for k, n in sizes.items()},
            cells=np.stack(cells, axis=1) + first,
            secret=secret,
            secret_cells=table.secret.codes[rows].astype(np.int64),
        )

    def draw(self, pi_secret: Floats, pi: Floats, rng: np.random.Generator) -> Draws:
        """Codes ``(draws, rows)`` of the rows' values given ``(draws, S)`` and flat ``pi``."""
        widest = max(self.dtypes.values(), key=lambda dtype: dtype.itemsize)
        # One column more than attributes: the sensitive value.
        codes = np.empty((len(pi), len(self.layout.names) + 1, len(self.secret)), dtype=widest)
        _draw(
            pi_secret,
            pi,
            self.layout.arrays,
            self.cells,
            self.secret,
            self.secret_cells,
            codes,
            rng,
        )
        return {name: codes[:, a].astype(d) for a, (name, d) in enumerate(self.dtypes.items())}


@njit(cache=True, nogil=True)
def _draw(
    pi_secret: Floats,
    flat: Floats,
    d: CellArrays,
    cells: Ints,
    known: Ints,
    secret_cells: Ints,
    codes: SmallCodes,
    rng: np.random.Generator,
) -> None:
    n_secrets, n_attributes = pi_secret.shape[1], cells.shape[1]
    weight = np.empty(n_secrets)
    for t in range(len(flat)):
        pi = flat[t]
        probability = cell_probabilities(pi, d, n_secrets)
        log_secret, log_cell = np.log(pi_secret[t]), np.log(probability)
        for j in range(cells.shape[0]):
            s = known[j]
            if s < 0:
                likelihood = d.secret_likelihood[secret_cells[j]]
                _secret_weights(log_secret, log_cell, likelihood, cells[j], weight)
                s = pick(weight, rng)
                codes[t, n_attributes, j] = s
            for a in range(n_attributes):
                c = cells[j, a]
                where = d.start[a] + s * d.sizes[a]
                u = rng.random() * probability[c, s]
                i = d.pointer[c]
                while i < d.pointer[c + 1] - 1:
                    w = pi[where + d.values[i]] * d.likelihood[i]
                    if u < w:
                        break
                    u -= w
                    i += 1
                codes[t, a, j] = d.values[i]


# -------------------------------------------------------------------------------------------------
# Engine of horizontal tables: independent draws when cells are nested, a Gibbs sampler if not.

BLOCK = 50
"""Number of recorded sweeps that are averaged together."""


class HorizontalEngine:
    """Draws ``pi`` of a horizontal table, and hidden values of `rows` as ``cleartext_<attribute>``.

    With `collapse`, cells that form a tree are integrated out.
    """

    n_generators = 2  # the second draws hidden rows, so that asking for them does not change pi
    grows: tuple[str, ...] = ("blocks",)

    def __init__(
        self,
        table: ReleasedTable,
        prior: Prior,
        *,
        collapse: bool = True,
        rows: npt.NDArray[np.int64] | None = None,
        all_drawn: bool = True,
    ) -> None:
        self.table = table
        self.layout = HorizontalLayout.of(table, collapse=collapse)
        self.alpha = np.array(prior.alpha)
        self.beta = self.layout.flatten(prior.beta)
        self.urns = Urns.of(table, self.layout, self.beta)
        # Rows can be drawn without the distributions only if all of these are drawn after them.
        self.latent_rows = LatentRows.of(self.layout, self.alpha, self.beta, wanted=all_drawn)
        self.rows = None if rows is None else HiddenRows.of(table, self.layout, rows)

    def start(self, generators: list[np.random.Generator]) -> Draws:
        """Draw an overdispersed start from the prior, and fill urns from the data.

        Latent secrets start from their own reports: many attributes drawn from the prior would
        outvote the report, and equal records would keep each other in a random place.
        """
        layout, rng = self.layout, generators[0]
        pi_secret = np.empty((1, layout.n_secrets))
        dirichlet_rows(self.alpha[None, :], pi_secret, rng)
        pi = np.empty(layout.length)
        nothing = np.zeros_like(layout.arrays.own)
        draw_distributions(
            self.beta, np.zeros(layout.length), nothing, layout.arrays, layout.n_secrets, pi, rng
        )
        live = {"pi_secret": pi_secret[0], "pi": pi}
        if len(self.urns.attribute) or layout.is_latent:
            self.sweep(live, 1, rng, first=True)
        width = int(self.urns.entry_first[-1])
        return live | {"sum": np.zeros(width), "n": np.zeros(1), "blocks": np.zeros((0, width))}

    def sweep(
        self, live: Draws, n: int, rng: np.random.Generator, *, first: bool = False
    ) -> Record:
        """Make n sweeps from the distributions in `live`, which are updated in place."""
        kept = Record.of(n, self.layout, self.urns)
        if self.layout.is_exact:
            independent_draws(
                live["pi_secret"], live["pi"], self.alpha, self.beta, self.layout.arrays, kept, rng
            )
            return kept
        sweeps(
            n,
            live["pi_secret"],
            live["pi"],
            self.alpha,
            self.beta,
            self.layout.arrays,
            self.urns,
            self.latent_rows,
            Scratch.of(self.layout, self.urns),
            kept,
            first,
            rng,
        )
        return kept

    def advance(self, state: ChainState, n: int, *, tuning: bool) -> tuple[Draws, Draws]:
        """Make n sweeps."""
        layout, live = self.layout, state.live
        parts, left = [], n
        while left:
            most = left if tuning else min(left, BLOCK - int(live["n"][0]))
            parts.append(self.sweep(live, most, state.generators[0]))
            left -= most
            if not tuning:
                self._add(live, parts[-1], most)
        secret, flat, log = (np.concatenate([p[i] for p in parts]) for i in range(3))
        draws = {f"pi_{self.table.sensitive}": secret}
        draws |= {f"pi_{name}": block for name, block in layout.split(flat).items()}
        if self.rows is not None and not tuning:
            draws |= self.rows.draw(secret, flat, state.generators[1])
        return draws, {"log_likelihood": log}

    def _add(self, live: Draws, kept: Record, n: int) -> None:
        """Add to the averages of the current block, and start a new block when it is full."""
        live["sum"] += kept.fit
        live["n"] += n
        if live["n"][0] == BLOCK:
            live["blocks"] = np.concatenate([live["blocks"], live["sum"][None] / BLOCK])
            live["sum"][:] = 0.0
            live["n"][:] = 0.0

    def pack(self, live: Draws) -> Draws:
        """Return the state, which already is a dictionary of arrays."""
        return live

    def unpack(self, arrays: Draws, generators: list[np.random.Generator]) -> Draws:
        """Return the state that `pack` stored, after checking the shapes, which kernels do not."""
        width = int(self.urns.entry_first[-1])
        shapes = {
            "pi_secret": (self.layout.n_secrets,),
            "pi": (self.layout.length,),
            "sum": (width,),
            "n": (1,),
            "blocks": (len(arrays.get("blocks", ())), width),
        }
        for name, shape in shapes.items():
            array = arrays.get(name, np.zeros(0))
            if array.shape != shape or array.dtype != np.float64 or not (array >= 0).all():
                raise FileError(
                    f"The saved state of the chain is damaged: {name!r} is not an array of shape "
                    f"{shape} of non-negative numbers. Start the run again with another path."
                )
        return arrays

    def averages(self, live: Draws) -> Draws:
        """Rao-Blackwell means for attributes with small weights, one line per block of sweeps.

        ``mean_<attribute>`` is ``E[pi]``, by sensitive value and value; ``fit_<attribute>`` is
        ``P(R_j = k | t*)`` of a row, by sensitive value and entry of the evidence matrix.
        Everything else about a horizontal table follows from the draws of ``pi``.
        """
        if self.layout.is_latent or self.table.is_nested:
            return {}
        blocks = live["blocks"] if len(live["blocks"]) else live["sum"][None] / max(live["n"][0], 1)
        out = {}
        for name, beta in self.layout.split(self.beta).items():
            if beta.min() >= SMALL:
                continue
            u = int(self.urns.of_attribute[self.layout.names.index(name)])
            evidence = self.table.columns[name].evidence
            if u < 0:  # nested cells: closed form
                tree = DirichletTree(evidence, self.table.counts[name], beta)
                mean, fit = tree.mean[None], tree.entry_probabilities()[None]
            else:
                here = slice(*self.urns.entry_first[u : u + 2])
                fit = blocks[:, here].reshape(len(blocks), len(beta), -1)
                mean, fit = self._means(name, evidence, beta, fit.copy())
            for key, value in (("mean", mean), ("fit", fit)):
                lines = value.reshape(len(value), -1)
                out[f"{key}_{name}"] = np.repeat(lines, len(blocks) // len(value), axis=0)
        return out

    def _means(
        self, name: str, evidence: Evidence, beta: Floats, fit: Floats
    ) -> tuple[Floats, Floats]:
        """``E[pi]`` and ``P(R_j = k)`` of one attribute, by block and sensitive value."""
        counts = self.table.counts[name].toarray().T
        flat, single = is_flat(evidence), evidence.sizes == 1
        values, cell = evidence.matrix.indices, np.repeat(np.arange(len(evidence)), evidence.sizes)
        mean = np.empty((len(fit), *beta.shape))
        for s, rows in enumerate(counts):
            fixed = np.bincount(values[single[cell]], weights=rows[single], minlength=beta.shape[1])
            drawn: Ints = np.where(single | flat, 0, rows)
            exact, listed = listed_rows(evidence, drawn, fixed, beta[s])
            fit[:, s, listed] = exact[listed]
            fit[:, s, single[cell]] = 1.0
            for block, line in enumerate(fit[:, s]):
                shown = np.where(flat, 0, rows)[cell] * line
                weight = beta[s] + np.bincount(values, weights=shown, minlength=beta.shape[1])
                mean[block, s] = weight / weight.sum()
            fit[:, s, flat[cell]] = mean[:, s, values[flat[cell]]]
        return mean, fit
