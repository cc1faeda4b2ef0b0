"""What is known about one or more victims."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pandas as pd
from scipy import sparse

from anonbayes.arrays import Floats, Ints, Mask
from anonbayes.domains import Domain, is_missing, weights_by_value
from anonbayes.errors import AnonbayesError, CellError, TableError, nearest
from anonbayes.io.text import pandas_frame
from anonbayes.tables.build import check_frame
from anonbayes.tables.cells import CellParser
from anonbayes.tables.groups import distinct_rows
from anonbayes.tables.table import ReleasedTable

BATCHES = 20
"""Number of batches of successive draws for the jackknife standard error of beliefs, which so
accounts for autocorrelation within batches."""


def batch_slices(n_chains: int, n_draws: int, wanted: int = BATCHES) -> list[tuple[int, slice]]:
    """Divide ``(chain, draw)`` into about `wanted` batches of whole draws."""
    per_chain = max(1, min(n_draws, -(-wanted // n_chains)))
    edges = np.linspace(0, n_draws, per_chain + 1).round().astype(int)
    return [
        (chain, slice(int(a), int(b)))
        for chain in range(n_chains)
        for a, b in itertools.pairwise(edges)
    ]


def standard_error(batches: Floats, n_chains: int) -> Floats:
    """Jackknife standard error of a belief; NaN for a single batch.

    `batches` are unnormalised beliefs on a common scale, ordered by chain. If the release almost
    rules out what is known, the belief may depend on a few draws, which the jackknife reveals. If
    chains disagree, all batches of a chain are alike, and the error is computed from chains.
    """
    n = len(batches)
    if n < 2:
        return np.full(batches.shape[1:], np.nan)
    error = _jackknife(batches)
    if n_chains > 1 and n % n_chains == 0:
        chains = batches.reshape(n_chains, -1, *batches.shape[1:]).mean(axis=1)
        error = np.maximum(error, _jackknife(chains))
    return error


def _jackknife(parts: Floats) -> Floats:
    """Standard error of the normalised sum of parts (first axis)."""
    # The largest of equal totals is one, so sums of the others keep their digits.
    top = np.max(parts, axis=(0, -1), keepdims=True)
    scaled = parts / np.where(top > 0, top, 1.0)
    rest = np.empty_like(scaled)
    for left_out in range(len(parts)):
        rest[left_out] = scaled[:left_out].sum(axis=0) + scaled[left_out + 1 :].sum(axis=0)
    rest /= np.maximum(rest.sum(axis=-1, keepdims=True), np.finfo(float).tiny)
    return np.asarray(np.sqrt(len(parts) - 1) * rest.std(axis=0))


@dataclass(frozen=True, eq=False)
class Victims:
    """Distinct victims, each with a weight vector over the values of every attribute.

    `weights` holds the distinct pieces of knowledge, ``P(knowledge | value)``: a known value has a
    single one, an unknown value only ones. In a vertical table a victim's `group` may be known.
    """

    codes: Ints  # rows of `weights`, (victims, attributes)
    weights: tuple[sparse.csr_array, ...]
    inverse: Ints  # distinct victim of each victim asked about
    index: pd.Index | None  # labels of the victims asked about; None for a single one
    group: Ints | None = None  # code by distinct victim, -1 where unknown

    def __len__(self) -> int:
        return len(self.codes)

    @classmethod
    def of_records(cls, codes: Ints, sizes: Iterable[int]) -> Victims:
        """Victims whose values are all known, by their codes in domains of these sizes."""
        exact = tuple(sparse.csr_array(sparse.eye_array(size, format="csr")) for size in sizes)
        return cls(codes, exact, np.arange(len(codes)), None)

    def shares(self, pi: Sequence[Floats]) -> list[Floats]:
        """``P(knowledge | s)`` by attribute, ``(victims, S)``, under given distributions."""
        each = zip(self.weights, pi, self.codes.T, strict=True)
        return [(weight @ of_secret.T)[code] for weight, of_secret, code in each]

    def some(self, chosen: Mask) -> Victims:
        """Select some of the distinct victims."""
        codes = self.codes[chosen]
        return Victims(codes, self.weights, np.arange(len(codes)), None)

    def whole_records(self) -> tuple[Mask, Ints]:
        """Mask of the victims whose values are all known, and the codes of these values."""
        whole = np.ones(len(self), dtype=bool)
        values = np.zeros((len(self), len(self.weights)), dtype=np.int64)
        for a, weight in enumerate(self.weights):
            code = self.codes[:, a]
            whole &= np.diff(weight.indptr)[code] == 1
            values[:, a] = weight.indices[np.minimum(weight.indptr[code], len(weight.indices) - 1)]
        return whole, values


def read_victims(
    table: ReleasedTable,
    victim: Mapping[str, Any] | pd.Series | pd.DataFrame,
    *,
    group: object = None,
) -> Victims:
    """Read one victim (a mapping, or a row of a frame) or many (a frame).

    Each attribute has a value, a set of values, any cell that `CellParser` reads (including labels
    of the hierarchy), or ``{value: weight}``; a missing attribute is unknown. Unknown columns are
    an error, except for the sensitive one. `group` in a vertical table: a label, one per victim, or
    the name of a column.
    """
    victim = pandas_frame(victim)
    if isinstance(victim, pd.DataFrame):
        check_frame(victim, "The frame of victims")
        if isinstance(group, str) and group in victim.columns:
            victim, group = victim.drop(columns=group), victim[group]
        columns: dict[str, list[object]] = {str(c): victim[c].tolist() for c in victim.columns}
        index, size = victim.index, len(victim)
    elif isinstance(victim, Mapping | pd.Series):
        columns = {str(name): [cell] for name, cell in victim.items()}
        if isinstance(victim, pd.Series):
            columns.pop(table.sensitive, None)
        index, size = None, 1
    else:
        raise TableError(
            "A victim must be a mapping {attribute: value} or a data frame, not "
            f"{type(victim).__name__}."
        )
    for name in columns:
        if name not in table.columns and not (name == table.sensitive and index is not None):
            raise TableError(
                f"The victim has {name!r}, which is not an attribute of the table. "
                f"{nearest(name, table.attributes)}"
            )
    codes, weights = [], []
    for name in table.attributes:
        code, weight = _knowledge(table, name, columns.get(name), size, index)
        codes.append(code)
        weights.append(weight)
    known = None if group is None else group_codes(table, group, size, index)
    inverse, first, _ = distinct_rows(codes if known is None else [*codes, known])
    return Victims(
        np.stack(codes, axis=1)[first],
        tuple(weights),
        inverse,
        index,
        None if known is None else known[first],
    )


def in_terms_of(victims: Victims, table: ReleasedTable, other: ReleasedTable) -> Victims:
    """Express victims in the values of another table; attributes it lacks are unknown."""
    codes, weights = [], []
    for name in other.attributes:
        domain = other.domains[name]
        if name not in table.columns:
            codes.append(np.zeros(len(victims), dtype=np.int64))
            weights.append(sparse.csr_array(np.ones((1, len(domain)))))
            continue
        a = table.attributes.index(name)
        codes.append(victims.codes[:, a])
        weights.append(
            sparse.csr_array(victims.weights[a] @ same_values(table.domains[name], domain))
        )
    return Victims(np.stack(codes, axis=1), tuple(weights), victims.inverse, victims.index)


def same_values(one: Domain, two: Domain) -> sparse.csr_array:
    """Matrix ``(K_one, K_two)`` with ones where domains have the same value, of whatever type."""
    place = {label: k for k, label in enumerate(two.labels)}
    pairs = [(k, place[label]) for k, label in enumerate(one.labels) if label in place]
    rows, columns = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    shape = (len(one), len(two))
    return sparse.csr_array((np.ones(len(pairs)), (rows, columns)), shape=shape)


def by_secret(weights: Floats, one: ReleasedTable, two: ReleasedTable) -> Floats:
    """Reorder columns by the secrets of another table; secrets that one lacks have weight 0."""
    return np.asarray(weights @ same_values(one.secret.domain, two.secret.domain))


def group_codes(table: ReleasedTable, group: object, size: int, index: pd.Index | None) -> Ints:
    """Codes of the groups that victims are known to be in, -1 where missing.

    `group` is one label for all, or one per victim; `index` labels the victims in messages.
    """
    if table.scheme != "vertical":
        raise TableError(
            "group= applies to vertical tables only; in a horizontal table the victim's values "
            "determine the group."
        )
    labels = [group] * size
    if isinstance(group, pd.Series | pd.Index | np.ndarray | list | tuple):
        labels = list(group)
        if len(labels) != size:
            raise TableError(f"group= has {len(labels)} entries for {size} victims.")
    place = dict(zip(table.group_labels.tolist(), range(table.n_groups), strict=True))
    spelled = {str(label): code for label, code in place.items()}
    if len(spelled) < len(place):  # 1 and "1" are two groups
        spelled = {}
    out = np.empty(size, dtype=np.int64)
    for row, label in enumerate(labels):
        code = -1 if is_missing(label) else place.get(label)
        if code is None and isinstance(label, str):  # groups read from text files are numbers
            code = spelled.get(label)
        if code is None:
            who = "" if index is None else f" of victim {index[row]!r}"
            raise TableError(f"The table has no group {label!r}{who}. {nearest(label, place)}")
        out[row] = code
    return out


def _knowledge(
    table: ReleasedTable, name: str, cells: list[object] | None, size: int, index: pd.Index | None
) -> tuple[Ints, sparse.csr_array]:
    """Code of each victim's knowledge about one attribute, and the distinct weight vectors."""
    domain = table.domains[name]
    if cells is None:
        return np.zeros(size, dtype=np.int64), sparse.csr_array(np.ones((1, len(domain))))
    parser = CellParser(domain, missing="unknown")
    position: dict[object, int] = {}
    pieces: list[tuple[Ints, Floats]] = []
    codes = np.empty(size, dtype=np.int64)
    for i, cell in enumerate(cells):
        key = _key(cell)
        if key not in position:
            position[key] = len(pieces)
            pieces.append(_parse(parser, cell, None if index is None else index[i]))
        codes[i] = position[key]
    members, data = zip(*pieces, strict=True)
    indptr = np.cumsum([0, *map(len, members)])
    shape = (len(pieces), len(domain))
    parts = (np.concatenate(data), np.concatenate(members), indptr)
    return codes, sparse.csr_array(parts, shape=shape)


def _key(cell: object) -> object:
    if isinstance(cell, Mapping):
        return ("weights", frozenset(cell.items()))
    if is_missing(cell):
        return ("missing",)
    try:
        hash(cell)
    except TypeError:
        members = (
            np.ravel(cell) if isinstance(cell, np.ndarray) else list(cast(Iterable[object], cell))
        )
        try:
            return ("set", frozenset(np.ravel(np.asarray(members, dtype=object)).tolist()))
        except (TypeError, ValueError):  # nested lists, which the parser refuses with an error
            return ("odd", repr(members))
    return (type(cell).__name__, cell)


def _parse(parser: CellParser, cell: object, row: object) -> tuple[Ints, Floats]:
    if not isinstance(cell, Mapping):
        members = parser.parse(cell, row=row)
        return members, np.ones(len(members))
    name = parser.domain.name
    weight = np.zeros(len(parser.domain))
    for value, w in cell.items():
        try:
            number = float(w)
        except (TypeError, ValueError):
            raise CellError(
                f"Column {name!r}: the weight of {value!r} is {w!r}, which is not a number."
            ) from None
        if not np.isfinite(number) or number < 0:
            raise CellError(
                f"Column {name!r}: the weight of {value!r} must be at least 0, not {w!r}."
            )
        weight[parser.parse(value, row=row)] += number
    members = np.flatnonzero(weight)
    if not len(members):
        raise CellError(f"Column {name!r}: all weights of the victim's values are zero.")
    return members, weight[members]


def secret_weights(
    table: ReleasedTable, secret: Mapping[Any, float] | set[Any] | frozenset[Any] | None
) -> Floats | None:
    """Weights of the sensitive values, from further knowledge about a victim's secret.

    The knowledge is the set of possible values, or ``{value: weight}``, where omitted values have
    weight 1 (``{"HIV": 0}`` means not HIV).
    """
    if secret is None:
        return None
    domain = table.secret.domain
    if isinstance(secret, Mapping):
        out = weights_by_value(secret, domain, what="secret=")
    elif isinstance(secret, set | frozenset | list | tuple):
        out = np.zeros(len(domain))
        for value in secret:
            out[domain.index(value)] = 1.0
    else:
        raise AnonbayesError(
            f"secret= must be a mapping {{value: weight}} or a set of values, got {secret!r}."
        )
    if not np.isfinite(out).all() or (out < 0).any() or not out.any():
        raise AnonbayesError("secret= needs weights of at least 0, of which one is above 0.")
    return out
