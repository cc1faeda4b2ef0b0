"""From a column of released cells to codes and evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.domains import Domain, code_dtype, numbers_of, sorted_values
from anonbayes.errors import CellError, DomainError, TableError
from anonbayes.hierarchies import Hierarchy
from anonbayes.release.cells import CellParser, is_missing, is_pattern
from anonbayes.release.evidence import Evidence

__all__ = ["Column", "encode_column"]

IDENTIFIER_SIZE = 1000


@dataclass(frozen=True, eq=False)
class Column:
    """One released column: the cell of each row, and the evidence of each distinct cell.

    Parameters
    ----------
    evidence : Evidence
        The distinct cells.
    codes : numpy.ndarray
        For each row the position of its cell in `evidence`, in a small unsigned type.
    """

    evidence: Evidence
    codes: npt.NDArray[Any]

    @property
    def domain(self) -> Domain:
        """Domain of the attribute."""
        return self.evidence.domain

    def take(self, rows: npt.NDArray[np.integer[Any]]) -> Column:
        """Return the column with other rows, and the same cells."""
        return Column(self.evidence, self.codes[rows])

    def labels(self) -> npt.NDArray[Any]:
        """What was released, row by row."""
        texts = np.empty(len(self.evidence), dtype=object)
        texts[:] = self.evidence.labels
        return texts[self.codes]


def encode_column(
    series: pd.Series,
    *,
    name: str,
    domain: Domain | Iterable[Any] | None = None,
    hierarchy: Hierarchy | None = None,
    channel: Any = None,
    missing: str = "error",
    missing_label: Any = "missing",
) -> Column:
    """Read a column of cells; equal cells share a code even when they are spelled differently.

    Parameters
    ----------
    series : pandas.Series
        The released cells.
    name : str
        The attribute.
    domain, hierarchy : optional
        What the cells are sets of. Without either, the domain is what the column shows: its
        values and the members of its sets.
    channel : Channel, optional
        The randomized mechanism whose reports the column holds.
    missing, missing_label : optional
        See `CellParser`.

    Examples
    --------
    >>> column = encode_column(pd.Series(["{M, J}", "{J, M}", "*", "J"]), name="Nat")
    >>> column.codes.tolist(), column.domain.values
    ([0, 0, 0, 1], ('J', 'M'))
    """
    if channel is not None:
        return _through_channel(series, name, channel)
    inverse, distinct = _factorize(series)
    known = _domain(name, distinct, domain, hierarchy, missing, missing_label, n_rows=len(series))
    parser = CellParser(known, missing=missing, missing_label=missing_label)
    position: dict[bytes, int] = {}
    members, labels = [], []
    lookup = np.empty(len(distinct), dtype=np.int64)
    for i, cell in enumerate(distinct):
        try:
            codes = parser.parse(cell)
        except CellError:
            row = series.index[int(np.argmax(inverse == i))]
            parser.parse(cell, row=row)  # the same error, with its row
            raise
        key = codes.astype(np.int32).tobytes()
        if key not in position:
            position[key] = len(members)
            members.append(codes)
            labels.append(_label(cell, known, codes, missing))
        lookup[i] = position[key]
    evidence = Evidence.from_members(known, members, labels)
    return Column(evidence, lookup.astype(code_dtype(len(members)))[inverse])


def _through_channel(series: pd.Series, name: str, channel: Any) -> Column:
    codes, labels, matrix = channel.evidence(series.to_numpy())
    domain = Domain(name, channel.domain.values, channel.domain.hierarchy)
    return Column(
        Evidence(domain, tuple(labels), matrix),
        np.asarray(codes).astype(code_dtype(len(labels))),
    )


def _factorize(series: pd.Series) -> tuple[npt.NDArray[np.int64], list[Any]]:
    """Codes and distinct cells, in order of appearance; unhashable cells count as sets."""
    try:
        inverse, distinct = pd.factorize(series, use_na_sentinel=False)
    except TypeError:
        frozen = [_hashable(cell) for cell in series]
        cells = np.empty(len(frozen), dtype=object)
        cells[:] = frozen
        inverse, distinct = pd.factorize(cells, use_na_sentinel=False)
    return inverse, list(distinct)


def _hashable(cell: Any) -> Any:
    try:
        hash(cell)
    except TypeError:
        return frozenset(np.ravel(cell).tolist() if isinstance(cell, np.ndarray) else cell)
    return cell


def _label(cell: Any, domain: Domain, codes: npt.NDArray[np.int64], missing: str) -> Any:
    """What `to_frame` shows: the value itself for single values, else what was released."""
    if len(codes) == 1:
        return domain.values[codes[0]]
    if is_missing(cell) and missing == "unknown":
        return "*"
    return cell


def _domain(
    name: str,
    distinct: list[Any],
    domain: Domain | Iterable[Any] | None,
    hierarchy: Hierarchy | None,
    missing: str,
    missing_label: Any,
    n_rows: int,
) -> Domain:
    if isinstance(domain, Domain):
        known = domain if domain.name == name else Domain(name, domain.values, domain.hierarchy)
        if hierarchy is not None and known.hierarchy is None:
            known = known.with_hierarchy(hierarchy)
    elif domain is not None:
        if isinstance(domain, str):
            raise DomainError(
                f"The domain of column {name!r} is the text {domain!r}; give a list of values."
            )
        known = Domain(name, domain, hierarchy)
    elif hierarchy is not None:
        known = Domain(name, hierarchy.leaves, hierarchy)
    else:
        return _infer(name, distinct, missing, missing_label, n_rows)
    if missing == "category" and missing_label not in known and any(map(is_missing, distinct)):
        # A hierarchy cannot place the new category, so it stays below the root only.
        return Domain(name, [*known.values, missing_label])
    return known


def _infer(name: str, distinct: list[Any], missing: str, missing_label: Any, n_rows: int) -> Domain:
    """Domain of the values that a column shows by themselves or as members of its sets."""
    seen: dict[Any, None] = {}
    declared = False
    for cell in distinct:
        if is_missing(cell):
            declared = missing == "category"
        elif isinstance(cell, pd.Interval) or (isinstance(cell, str) and _needs_domain(cell)):
            raise DomainError(
                f"Column {name!r}: cell {str(cell)!r} stands for several values, and the column's "
                f"domain is not given. Pass domains={{{name!r}: [...]}} or a hierarchy for "
                f"{name!r}. (To treat {str(cell)!r} as a plain category, list it in the domain.)"
            )
        else:
            seen.update(dict.fromkeys(_atoms(cell)))
    if not seen:
        raise DomainError(
            f"Column {name!r} shows no value at all; pass domains={{{name!r}: [...]}}."
        )
    if len(seen) > IDENTIFIER_SIZE and len(seen) > n_rows / 2:
        raise TableError(
            f"Column {name!r} has {len(seen):,} distinct values in {n_rows:,} rows, like an "
            f"identifier. Leave it out, or say that it is meant with domains={{{name!r}: [...]}}."
        )
    values = list(seen)
    values = numbers_of(values) or values
    domain = Domain(name, sorted_values([*dict.fromkeys(values)]))
    return Domain(name, [*domain.values, missing_label]) if declared else domain


def _needs_domain(text: str) -> bool:
    stripped = text.strip()
    return stripped != "*" and not stripped.startswith("{") and is_pattern(stripped)


def _atoms(cell: Any) -> list[Any]:
    if isinstance(cell, str):
        stripped = cell.strip()
        if stripped == "*":
            return []
        if is_pattern(stripped):  # only sets come here
            return [part.strip() for part in stripped[1:-1].split(",") if part.strip()]
        return [stripped]
    if isinstance(cell, tuple | frozenset):
        return [_plain_number(v) for v in cell]
    return [_plain_number(cell)]


def _plain_number(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def pick(mapping: Mapping[str, Any] | None, name: str) -> Any:
    """Entry of an optional mapping, or None."""
    return None if mapping is None else mapping.get(name)
