"""A horizontal table as plain arrays, as the kernels read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from anonbayes.arrays import Floats, Ints, starts_of
from anonbayes.errors import ModelError
from anonbayes.inference.horizontal.tree import CellTree
from anonbayes.tables.evidence import Evidence
from anonbayes.tables.table import ReleasedTable


class CellArrays(NamedTuple):
    """Arrays for the kernels; cells are numbered consecutively over all attributes.

    Distributions are flat: ``pi_a|s(k)`` is at ``start[a] + s * sizes[a] + k``. Cell c has the
    values ``values[pointer[c]:pointer[c + 1]]`` with likelihoods ``likelihood[...]``.
    """

    sizes: Ints  # of each attribute's domain
    start: Ints  # where an attribute's block begins in a flat vector
    attribute: Ints  # of each distinct cell
    pointer: Ints
    values: Ints
    likelihood: Floats
    node_start: Ints  # first node (root) of each attribute's tree
    node_parent: Ints  # of each node of all trees
    leaf_node: Ints  # value k of attribute a is leaf_node[first_leaf[a] + k]
    first_leaf: Ints
    cell_node: Ints  # node of each cell; -1 for cells that cross the tree and are drawn
    own: Floats  # rows whose cell is that node, (S, nodes); zero where secrets are latent
    crossing: Ints  # columns cell, s, n: rows whose cell crosses the tree
    secret_base: Floats  # rows per sensitive value; zero where it is latent
    record_cells: Ints  # of the distinct records; empty where secrets are known, as below
    record_secret: Ints
    record_count: Ints
    secret_likelihood: Floats  # E_z(s) of the sensitive cells


Arrays = CellArrays  # old name, still referred to by compiled code in Numba's cache


@dataclass(frozen=True, eq=False)
class HorizontalLayout:
    """A horizontal table as arrays, with the sufficient statistics of MODEL 1.2.

    Cells that form a tree are integrated out exactly (MODEL 1.3); only cells that cross it, and
    reports of randomized channels, are drawn. If all cells are nested, none are drawn.
    """

    names: tuple[str, ...]
    n_secrets: int
    arrays: CellArrays

    @property
    def is_latent(self) -> bool:
        """Whether sensitive values were released through a channel."""
        return len(self.arrays.record_count) > 0

    @property
    def is_exact(self) -> bool:
        """Whether every cell is integrated out, so that only distributions are drawn."""
        return not self.is_latent and len(self.arrays.crossing) == 0

    @property
    def length(self) -> int:
        """Length of a flat vector of distributions."""
        return int(self.arrays.start[-1])

    @classmethod
    def of(cls, table: ReleasedTable, *, collapse: bool = True) -> HorizontalLayout:
        """Collect the arrays; without `collapse`, every cell of several values is drawn."""
        if table.scheme != "horizontal":
            raise ModelError("A vertical table has no horizontal layout; use layout_of(table).")
        n_secrets = len(table.secret.domain)
        evidence = [c.evidence for c in table.columns.values()]
        sizes = np.array([len(e.domain) for e in evidence], dtype=np.int64)
        first_cell = starts_of([len(e) for e in evidence])
        weights = [table.tally(c.codes, len(c.evidence)) for c in table.columns.values()]
        trees = [_tree(e, w if collapse else None) for e, w in zip(evidence, weights, strict=True)]
        node_start = starts_of([tree.n_nodes for tree, _ in trees])
        cell_node = np.concatenate(
            [
                np.where(nodes >= 0, nodes + first, -1)
                for (_, nodes), first in zip(trees, node_start[:-1], strict=True)
            ]
        )
        own = np.zeros((n_secrets, node_start[-1]))
        secret_base = np.zeros(n_secrets)
        crossing = np.zeros((0, 3), dtype=np.int64)
        records = (
            np.zeros((0, len(evidence)), dtype=np.int64),
            np.zeros(0, dtype=np.int64),
            np.zeros(0, dtype=np.int64),
            np.zeros((0, n_secrets)),
        )
        if table.secrets_known:
            secret_base += table.secret_counts
            triplets = np.concatenate(
                [
                    _triplets(table.counts[name], first)
                    for name, first in zip(table.columns, first_cell[:-1], strict=True)
                ]
            )
            inside = cell_node[triplets[:, 0]] >= 0
            np.add.at(
                own, (triplets[inside, 1], cell_node[triplets[inside, 0]]), triplets[inside, 2]
            )
            crossing = triplets[~inside]
        else:
            r = table.records
            records = (
                r.codes + first_cell[:-1],
                r.secret,
                r.count.astype(np.int64),
                table.secret.evidence.matrix.toarray(),
            )
        arrays = CellArrays(
            sizes=sizes,
            start=starts_of(sizes * n_secrets),
            attribute=np.repeat(np.arange(len(evidence)), np.diff(first_cell)),
            pointer=starts_of(np.concatenate([e.sizes for e in evidence])),
            values=np.concatenate([e.matrix.indices for e in evidence]).astype(np.int64),
            likelihood=np.concatenate([e.matrix.data for e in evidence]),
            node_start=node_start,
            node_parent=np.concatenate(
                [
                    np.where(tree.parent >= 0, tree.parent + first, -1)
                    for (tree, _), first in zip(trees, node_start[:-1], strict=True)
                ]
            ),
            leaf_node=np.concatenate(
                [
                    tree.leaf_node + first
                    for (tree, _), first in zip(trees, node_start[:-1], strict=True)
                ]
            ),
            first_leaf=starts_of(sizes),
            cell_node=cell_node,
            own=own,
            crossing=crossing,
            secret_base=secret_base,
            record_cells=records[0],
            record_secret=records[1],
            record_count=records[2],
            secret_likelihood=records[3],
        )
        # Arrays of all tables have the same types and order, so that kernels are compiled once.
        plain = CellArrays._make(np.array(field, order="C") for field in arrays)
        return cls(table.attributes, n_secrets, plain)

    def flatten(self, blocks: Mapping[str, Floats]) -> Floats:
        """Join arrays of shape ``(S, K_a)`` into one flat vector."""
        return np.concatenate([np.ravel(blocks[name]) for name in self.names])

    def split(self, flat: Floats) -> dict[str, Floats]:
        """Split flat vectors (last axis) into arrays of shape ``(..., S, K_a)``."""
        start, sizes = self.arrays.start, self.arrays.sizes
        return {
            name: flat[..., start[a] : start[a + 1]].reshape(
                *flat.shape[:-1], self.n_secrets, int(sizes[a])
            )
            for a, name in enumerate(self.names)
        }


def _triplets(counts: npt.ArrayLike, first: int) -> Ints:
    coo = counts.tocoo()  # type: ignore[union-attr]
    return np.stack([coo.row.astype(np.int64) + first, coo.col, coo.data], axis=1).astype(np.int64)


def _tree(evidence: Evidence, weight: Ints | None) -> tuple[CellTree, Ints]:
    """Tree of as many cells as possible, and the node of each cell (-1: crosses the tree).

    Cells are added greedily, those with most rows first. Uninformative cells belong to the root,
    single values to their leaf.
    """
    size = len(evidence.domain)
    flat = is_flat(evidence)
    single = evidence.sizes == 1
    hard = np.array([np.ptp(_row(evidence, c)) == 0.0 for c in range(len(evidence))], dtype=bool)
    taken = single | flat
    if weight is not None:
        candidates = [c for c in np.argsort(-weight, kind="stable") if hard[c] and not taken[c]]
        taken[_laminar(evidence, candidates)] = True
    chosen = np.flatnonzero(taken)
    tree = CellTree.of(
        Evidence.from_members(
            evidence.domain,
            [evidence.members(c) for c in chosen],
            [evidence.labels[c] for c in chosen],
        )
    )
    nodes = np.full(len(evidence), -1, dtype=np.int64)
    nodes[chosen] = tree.cell_node
    assert (nodes[flat] == 0).all() or size == 1
    return tree, nodes


def _row(evidence: Evidence, cell: int) -> Floats:
    matrix = evidence.matrix
    return matrix.data[matrix.indptr[cell] : matrix.indptr[cell + 1]]


def _laminar(evidence: Evidence, candidates: list[int]) -> Ints:
    """Greedily choose cells of which any two are nested or disjoint."""
    if not candidates:
        return np.zeros(0, dtype=np.int64)
    order = np.asarray(candidates)
    member = evidence.matrix[order].copy()
    member.data = np.ones_like(member.data)
    common = (member @ member.T).tocsr()
    size = evidence.sizes[order]
    blocked = np.zeros(len(order), dtype=bool)
    chosen = []
    for i in range(len(order)):
        if blocked[i]:
            continue
        chosen.append(order[i])
        row = slice(common.indptr[i], common.indptr[i + 1])
        other, shared = common.indices[row], common.data[row]
        blocked[other[shared < np.minimum(size[i], size[other])]] = True
    return np.asarray(chosen)


def is_flat(evidence: Evidence) -> npt.NDArray[np.bool_]:
    """Mask of the uninformative cells: equally likely under every value of the domain."""
    matrix = evidence.matrix
    low = np.minimum.reduceat(matrix.data, matrix.indptr[:-1])
    high = np.maximum.reduceat(matrix.data, matrix.indptr[:-1])
    return (evidence.sizes == len(evidence.domain)) & (low == high)
