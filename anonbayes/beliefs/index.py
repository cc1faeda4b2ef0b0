"""Index of released records, to find those compatible with what is known about a victim.

Distinct combinations of cells are stored as a trie with one level per attribute. A search visits
only branches whose cells are compatible, so its cost depends on the number of compatible records,
not of all records.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numba import njit
from scipy import sparse

from anonbayes.arrays import FAR, SMALL, Floats, Ints, Scaled, starts_of
from anonbayes.beliefs.victims import Victims
from anonbayes.tables.groups import distinct_rows
from anonbayes.tables.table import ReleasedTable


class Trie(NamedTuple):
    """Arrays of the trie; a node's children are adjacent and end where the next node's begin."""

    cell: Ints  # of each node
    child: Ints  # first child of each node above the last level
    record: Ints  # of each node of the last level
    n_top: int  # nodes of the first level, which come first


class Compatibility(NamedTuple):
    """Cells compatible with each piece of knowledge about an attribute.

    Those of knowledge v are ``cell[pointer[v]:pointer[v + 1]]``.
    """

    pointer: Ints
    cell: Ints

    @property
    def knowledge(self) -> Ints:
        """Piece of knowledge of each compatible pair."""
        return np.repeat(np.arange(len(self.pointer) - 1), np.diff(self.pointer))


@dataclass(frozen=True, eq=False)
class RecordIndex:
    """Trie over the distinct records of a table."""

    codes: Ints  # cells of the distinct records, (records, attributes)
    order: Ints  # attributes in the order of the trie's levels
    trie: Trie

    @classmethod
    def of(cls, codes: Ints, n_cells: Ints) -> RecordIndex:
        """Index distinct records; attributes with many cells come first and exclude most."""
        order = np.argsort(-np.asarray(n_cells), kind="stable").astype(np.int64)
        rows = np.lexsort(codes[:, order[::-1]].T)
        ordered = codes[rows][:, order]
        new = np.zeros(len(codes), dtype=bool)
        new[0] = True
        cells, children, starts, offset = [], [], [], 0
        for level in range(len(order)):
            new[1:] |= ordered[1:, level] != ordered[:-1, level]
            starts.append(np.flatnonzero(new))
        for level, start in enumerate(starts):
            cells.append(ordered[start, level])
            offset += len(start)
            if level + 1 < len(starts):
                children.append(np.searchsorted(starts[level + 1], start) + offset)
        children.append(np.array([offset]))
        child = np.concatenate(children).astype(np.int64)
        return cls(codes, order, Trie(np.concatenate(cells), child, rows, len(starts[0])))


@dataclass(frozen=True, eq=False)
class IndexedRecords:
    """Distinct combinations of cells of a table, with an index and the rows of each."""

    evidence: tuple[sparse.csr_array, ...]  # cells of each attribute
    index: RecordIndex  # the distinct combinations
    lines: sparse.csr_array  # rows that each line adds to each combination
    secrets: Floats  # rows by combination and sensitive value, where these are shown
    _matches: WeakKeyDictionary[Victims, tuple[Compatibility, ...]] = field(
        default_factory=WeakKeyDictionary
    )

    @classmethod
    def of(cls, table: ReleasedTable, *, grouped: bool = False) -> IndexedRecords:
        """Index the lines of a table; with `grouped`, the group is one more attribute."""
        columns, n = table.columns.values(), table.n_lines
        shown = [c.codes for c in columns]
        evidence = tuple(c.evidence.matrix for c in columns)
        if grouped:
            shown.append(table.group_codes)
            evidence = (*evidence, sparse.csr_array(sparse.eye_array(table.n_groups, format="csr")))
        inverse, first, _ = distinct_rows(shown)
        codes = np.stack([c[first].astype(np.int64) for c in shown], axis=1)
        weight = np.ones(n) if table.weights is None else table.weights.astype(np.float64)
        lines = sparse.csr_array((weight, (inverse, np.arange(n))), shape=(len(codes), n))
        secrets = np.empty((len(codes), 0))
        if table.secrets_known:
            size = len(table.secret.domain)
            ones = (np.ones(n), (np.arange(n), table.secret_codes))
            secrets = (lines @ sparse.csr_array(ones, shape=(n, size))).toarray()
        index = RecordIndex.of(codes, np.array([m.shape[0] for m in evidence]))
        return cls(evidence, index, lines, secrets)

    @property
    def counts(self) -> Floats:
        """Number of rows of each combination."""
        return np.asarray(self.lines.sum(axis=1))

    def gather(self, per_line: Floats | sparse.csr_array) -> Floats:
        """Sum values ``(lines, S)``, weighted by rows, over the lines of each combination."""
        total = self.lines @ per_line
        return np.asarray(total.toarray() if sparse.issparse(total) else total)

    def match(self, victims: Victims) -> tuple[Compatibility, ...]:
        """Find the cells of each attribute that are compatible with each piece of knowledge."""
        if victims not in self._matches:
            self._matches[victims] = tuple(
                _compatible(weight, cells)
                for weight, cells in zip(victims.weights, self.evidence, strict=True)
            )
        return self._matches[victims]

    def item_fits(self, victims: Victims) -> list[Floats]:
        """How well cells fit the knowledge, ``sum_k w_v(k) E_y(k)``, by compatible pair."""
        return [
            pair_values(weight, cells, pairs)[:, None]
            for weight, cells, pairs in zip(
                victims.weights, self.evidence, self.match(victims), strict=True
            )
        ]

    def add_up(
        self, victims: Victims, per_record: Floats, fit: list[Floats] | None = None
    ) -> tuple[Scaled, Ints]:
        """Sum over the compatible records of ``per_record[record, s] prod_a fit_a[v, cell, s]``.

        `fit` holds, by compatible pair, ``P(knowledge v | row has the cell and secret s)``, with S
        columns or one; by default `item_fits`. Returns sums ``(victims, S)`` and numbers of
        records.
        """
        fit, compatible, index = fit or self.item_fits(victims), self.match(victims), self.index
        width = max(f.shape[1] for f in fit)
        table = np.concatenate([np.broadcast_to(f, (len(f), width)) for f in fit])
        knowledge = _Knowledge(
            victims.codes,
            np.concatenate([c.pointer for c in compatible]),
            np.concatenate([c.cell for c in compatible]),
            starts_of([len(c.pointer) for c in compatible]),
            starts_of([len(c.cell) for c in compatible]),
            starts_of([int(cells.max()) + 1 for cells in index.codes.T]),
        )
        size = (len(victims), per_record.shape[1])
        powers, records = np.zeros(size, dtype=np.int64), np.zeros(len(victims), dtype=np.int64)
        sums = _Sums(np.zeros(size), powers, records)
        _walk(
            knowledge,
            index.order,
            index.trie,
            np.ascontiguousarray(table),
            np.ascontiguousarray(per_record),
            sums,
        )
        return Scaled(sums.weights, sums.power), sums.records


_KEPT = "_indexed_records"
"""Attribute that stores a table's index; equal tables may number lines differently."""


def records_of(table: ReleasedTable, *, grouped: bool = False) -> IndexedRecords:
    """Return the records of a table, indexed once and kept with it; optionally with groups."""
    kept: dict[bool, IndexedRecords] = vars(table).setdefault(_KEPT, {})
    if grouped not in kept:
        kept[grouped] = IndexedRecords.of(table, grouped=grouped)
    return kept[grouped]


def _compatible(weight: sparse.csr_array, cells: sparse.csr_array) -> Compatibility:
    common = sparse.csr_array(_pattern(weight) @ _pattern(cells).T)
    common.sort_indices()
    return Compatibility(common.indptr.astype(np.int64), common.indices.astype(np.int64))


def _pattern(matrix: sparse.csr_array) -> sparse.csr_array:
    pattern = sparse.csr_array(matrix, copy=True)
    pattern.data = np.ones_like(pattern.data)
    return pattern


def pair_values(weight: sparse.csr_array, cells: sparse.csr_array, pairs: Compatibility) -> Floats:
    """``sum_k weight[v, k] cells[y, k]`` for the compatible pairs (v, y), in their order."""
    product = sparse.csr_array(weight @ cells.T)
    product.sort_indices()
    if len(product.indices) == len(pairs.cell):
        return np.asarray(product.data)
    # Pairs whose common values all have weight zero are not stored in the product.
    return np.asarray(product[pairs.knowledge, pairs.cell]).ravel()


class _Knowledge(NamedTuple):
    """Knowledge about all victims, with the attributes concatenated."""

    victims: Ints  # piece of knowledge of each victim and attribute
    pointer: Ints  # with `cell`, as in `Compatibility`
    cell: Ints
    knowledge_start: Ints  # start of each attribute's pointers
    pair_start: Ints  # start of its compatible pairs
    cell_start: Ints  # start of its cells


class _Sums(NamedTuple):
    """Sums computed by the walk: `Scaled` weights ``(victims, S)``, and records per victim."""

    weights: Floats
    power: Ints
    records: Ints


@njit(cache=True, nogil=True)
def _walk(
    knowledge: _Knowledge, order: Ints, trie: Trie, fit: Floats, secrets: Floats, sums: _Sums
) -> None:
    """Walk the trie for every victim; `slot` is the pair of a cell, or -1."""
    depth = len(order)
    n_secrets = secrets.shape[1]
    width = fit.shape[1]
    slot = np.full(knowledge.cell_start[-1], -1, dtype=np.int64)
    product = np.ones((depth + 1, width))
    power = np.zeros((depth + 1, width), dtype=np.int64)
    node = np.zeros(depth + 1, dtype=np.int64)
    stop = np.zeros(depth + 1, dtype=np.int64)
    for v in range(len(knowledge.victims)):
        _mark(knowledge, v, slot, True)
        level = 0
        node[0], stop[0] = 0, trie.n_top
        while level >= 0:
            if node[level] == stop[level]:
                level -= 1
                continue
            n = node[level]
            node[level] += 1
            pair = slot[knowledge.cell_start[order[level]] + trie.cell[n]]
            if pair < 0:
                continue
            alive = False
            for s in range(width):
                here = product[level, s] * fit[pair, s]
                alive |= here > 0.0
                power[level + 1, s] = power[level, s]
                while 0.0 < here < SMALL:
                    here /= SMALL
                    power[level + 1, s] -= 1
                product[level + 1, s] = here
            if not alive:
                continue
            if level == depth - 1:
                record = trie.record[n - (len(trie.cell) - len(trie.record))]
                sums.records[v] += 1
                for s in range(n_secrets):
                    column = s if width > 1 else 0
                    add_scaled(
                        sums.weights,
                        sums.power,
                        (v, s),
                        secrets[record, s] * product[depth, column],
                        power[depth, column],
                    )
            else:
                level += 1
                node[level] = trie.child[n]
                stop[level] = trie.child[n + 1]
        _mark(knowledge, v, slot, False)


@njit(cache=True, nogil=True)
def add_scaled(
    number: Floats, power: Ints, place: tuple[int, int], value: float, of_value: int
) -> None:
    """Add ``value * 2**(FAR * of_value)`` to one place of `Scaled` sums."""
    if value == 0.0:
        return
    ahead = of_value - power[place]
    if number[place] == 0.0:
        number[place] = value
        power[place] = of_value
    elif ahead == 0:
        number[place] += value
    elif ahead > 0:
        number[place] = value + number[place] * 2.0 ** (-FAR * min(ahead, 8))
        power[place] = of_value
    else:
        number[place] += value * 2.0 ** (FAR * max(ahead, -8))


@njit(cache=True, nogil=True)
def _mark(knowledge: _Knowledge, v: int, slot: Ints, here: bool) -> None:
    """Set (or clear) the slots of the cells that are compatible with the knowledge of a victim."""
    for a in range(knowledge.victims.shape[1]):
        where = knowledge.knowledge_start[a] + knowledge.victims[v, a]
        first = knowledge.cell_start[a]
        for i in range(knowledge.pointer[where], knowledge.pointer[where + 1]):
            pair = knowledge.pair_start[a] + i
            c = knowledge.cell[pair]
            if c < knowledge.cell_start[a + 1] - first:
                slot[first + c] = pair if here else -1
