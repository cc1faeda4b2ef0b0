"""The exact posterior of nested cells: a Dirichlet tree (MODEL 1.3).

If any two cells of an attribute are nested or disjoint, the posterior of its distribution given a
sensitive value factorises over the tree of the cells: each node splits its probability among its
children with an independent Dirichlet. Means and independent draws follow in closed
form; no Markov chain is involved.

All arrays in this module have the sensitive value as an axis of size S.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from scipy import sparse
from scipy.special import gammaln

from anonbayes.arrays import Floats, Ints
from anonbayes.errors import ModelError
from anonbayes.inference.dirichlet import draw_trees
from anonbayes.tables.evidence import Evidence


@dataclass(frozen=True, eq=False)
class CellTree:
    """Tree of the cells of one attribute. Node 0 is the root, the whole domain."""

    parent: Ints  # of each node, -1 for the root; parents come before their children
    depth: Ints  # distance of each node from the root
    leaf_node: Ints  # node of each domain value
    cell_node: Ints  # node of each released cell

    @classmethod
    def of(cls, evidence: Evidence) -> CellTree:
        """Return the tree of the cells, built once; an error names two crossing cells."""
        if evidence not in _KNOWN:
            _KNOWN[evidence] = cls._built(evidence)
        return _KNOWN[evidence]

    @classmethod
    def _built(cls, evidence: Evidence) -> CellTree:
        if not evidence.is_nested:
            raise ModelError(not_nested_message(evidence))
        size = len(evidence.domain)
        owner = np.zeros(size, dtype=np.int64)
        parent = [-1]
        cell_node = np.full(len(evidence), -1, dtype=np.int64)
        for cell in np.argsort(-evidence.sizes, kind="stable"):
            members = evidence.members(cell)
            if len(members) == size:
                cell_node[cell] = 0
            elif len(members) > 1:
                cell_node[cell] = len(parent)
                parent.append(int(owner[members[0]]))
                owner[members] = cell_node[cell]
        # The root of a domain with one value is its only leaf.
        leaf_node = np.arange(size) + len(parent) if size > 1 else np.zeros(1, dtype=np.int64)
        parents = np.concatenate([parent, owner]) if size > 1 else np.asarray(parent)
        single = evidence.sizes == 1
        cell_node[single] = leaf_node[[int(evidence.members(c)[0]) for c in np.flatnonzero(single)]]
        depth = np.zeros(len(parents), dtype=np.int64)
        for node in range(1, len(parents)):
            depth[node] = depth[parents[node]] + 1
        return cls(parents.astype(np.int64), depth, leaf_node.astype(np.int64), cell_node)

    @property
    def n_nodes(self) -> int:
        """Number of nodes, root and leaves included."""
        return len(self.parent)

    @cached_property
    def layers(self) -> tuple[Ints, ...]:
        """Nodes by depth, the root's children first."""
        return tuple(np.flatnonzero(self.depth == d) for d in range(1, int(self.depth.max()) + 1))

    def sum_children(self, values: Floats) -> Floats:
        """Sum over each node's children, along the last axis."""
        out = np.zeros_like(values)
        add_at(out, self.parent[1:], values[..., 1:])
        return out

    def accumulate_up(self, own: Floats) -> Floats:
        """Add the values of all nodes below to each node, along the last axis."""
        total = own.copy()
        for layer in reversed(self.layers):
            add_at(total, self.parent[layer], total[..., layer])
        return total

    def accumulate_down(self, own: Floats) -> Floats:
        """Add the values of all nodes above to each node, along the last axis."""
        total = own.copy()
        for layer in self.layers:
            total[..., layer] += total[..., self.parent[layer]]
        return total


_KNOWN: WeakKeyDictionary[Evidence, CellTree] = WeakKeyDictionary()


def add_at(total: Floats, where: Ints, values: Floats) -> None:
    """Add values at positions along the last axis, in place; positions may repeat."""
    np.add.at(total.T, where, values.T)


def not_nested_message(evidence: Evidence) -> str:
    """Explain why the exact posterior does not apply to these cells."""
    name = evidence.domain.name
    if not evidence.is_hard:
        return (
            f"Column {name!r} was released through a randomized channel, so its posterior has no "
            "closed form; use method='gibbs'."
        )
    assert evidence.overlap is not None
    one, two = (evidence.labels[i] for i in evidence.overlap)
    return (
        f"The cells of column {name!r} are not nested: {one!r} and {two!r} overlap. The exact "
        "posterior needs nested or disjoint cells; use method='gibbs'."
    )


class DirichletTree:
    """Posterior of ``pi_a|s`` for every sensitive value s, in closed form.

    Requires nested cells; ``counts[y, s]`` are numbers of rows, `beta` prior weights ``(S, K)``.
    """

    def __init__(self, evidence: Evidence, counts: sparse.csr_array, beta: Floats) -> None:
        self.evidence = evidence
        self.tree = CellTree.of(evidence)
        own = np.zeros((beta.shape[0], self.tree.n_nodes))
        own[:, self.tree.leaf_node] += beta
        self.prior_weight: Floats = self.tree.accumulate_up(own)
        add_at(own, self.tree.cell_node, counts.toarray().T)
        self.weight: Floats = self.tree.accumulate_up(own)
        """m(v): prior weight of the values in v plus rows whose cell lies in v, (S, nodes)."""

    @cached_property
    def _total(self) -> Floats:
        """Sum of the weights of a node's children, the total of its Dirichlet."""
        return self.tree.sum_children(self.weight)

    @cached_property
    def _log_split(self) -> Floats:
        out = np.zeros_like(self.weight)
        parents = self.tree.parent[1:]
        out[:, 1:] = np.log(self.weight[:, 1:]) - np.log(self._total[:, parents])
        return out

    @cached_property
    def node_log_mean(self) -> Floats:
        """``log E[pi(v)]`` of every node, shape ``(S, nodes)``."""
        return self.tree.accumulate_down(self._log_split)

    @cached_property
    def mean(self) -> Floats:
        """``E[pi(k)]``, shape ``(S, K)``."""
        return np.exp(self.node_log_mean[:, self.tree.leaf_node])

    def entry_probabilities(self) -> Floats:
        """``P(R_j = k | cell y, s) = E[pi(k) / pi(y)]`` of the evidence's entries, by secret."""
        leaf = self.node_log_mean[:, self.tree.leaf_node[self.evidence.matrix.indices]]
        cell = np.repeat(self.cell_log_mean, self.evidence.sizes, axis=1)
        return np.exp(np.minimum(leaf - cell, 0.0))

    @cached_property
    def cell_log_mean(self) -> Floats:
        """``log E[pi(y)]`` of every released cell, shape ``(S, cells)``."""
        return self.node_log_mean[:, self.tree.cell_node]

    def draw(self, draws: int, rng: np.random.Generator) -> Floats:
        """Independent draws of ``pi_a``, shape ``(draws, S, K)``: one Dirichlet per node."""
        out = np.empty((draws, *self.mean.shape))
        draw_trees(self.tree.parent, self.weight, self.tree.leaf_node, out, rng)
        return out

    @cached_property
    def _splits(self) -> tuple[Floats, Floats, Floats, Ints]:
        """Prior weight, rows, sign and secret of all nodes and sums of children that have rows.

        Where there are no rows, posterior and prior cancel in the marginal likelihood.
        """
        inner = np.unique(self.tree.parent[1:])
        before, after = (
            np.concatenate([weight[:, 1:], self.tree.sum_children(weight)[:, inner]], axis=1)
            for weight in (self.prior_weight, self.weight)
        )
        secret, place = np.nonzero(after > before)
        sign = np.where(place < self.tree.n_nodes - 1, 1.0, -1.0)
        prior = before[secret, place]
        return prior, after[secret, place] - prior, sign, secret

    def log_evidence(self, factor: float = 1.0) -> Floats:
        """Log marginal likelihood of the released cells per sensitive value, shape ``(S,)``.

        Each split contributes its normalising constant under the posterior divided by that under
        the prior, whose weights are multiplied by `factor`.
        """
        prior, rows, sign, secret = self._splits
        each = sign * (gammaln(factor * prior + rows) - gammaln(factor * prior))
        return np.asarray(np.bincount(secret, each, minlength=len(self.weight)), dtype=float)
