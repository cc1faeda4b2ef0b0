"""From cells per row to a `ReleasedTable`, without a detour through text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.domains import Domain, code_dtype
from anonbayes.errors import CellError
from anonbayes.release.build import distinct_rows
from anonbayes.release.cells import CellParser
from anonbayes.release.columns import Column
from anonbayes.release.evidence import Evidence
from anonbayes.release.schemes.cleartext import Cleartext
from anonbayes.release.table import ReleasedTable

__all__ = ["cell_column", "horizontal_table", "set_label", "whole_label"]

Codes = npt.NDArray[Any]


def cell_column(
    domain: Domain,
    ids: Codes,
    members: Callable[[int], Codes],
    label: Callable[[int, Codes], Any],
) -> Column:
    """Column from a cell number per row, what each number contains and how it is spelled.

    Cells are numbered in order of appearance and equal cells share a number, as if the column had
    been read from a file; a cell of a single value shows that value.
    """
    inverse, distinct = pd.factorize(ids)
    position: dict[bytes, int] = {}
    kept: list[Codes] = []
    labels: list[Any] = []
    lookup = np.empty(len(distinct), dtype=np.int64)
    for i, cell in enumerate(distinct):
        codes = np.sort(np.asarray(members(int(cell)), dtype=np.int64))
        key = codes.tobytes()
        if key not in position:
            position[key] = len(kept)
            kept.append(codes)
            labels.append(domain.values[codes[0]] if len(codes) == 1 else label(int(cell), codes))
        lookup[i] = position[key]
    evidence = Evidence.from_members(domain, kept, labels)
    return Column(evidence, lookup.astype(code_dtype(len(kept)))[inverse])


def horizontal_table(cleartext: Cleartext, columns: dict[str, Column]) -> ReleasedTable:
    """Horizontal table in the row order of the cleartext; equal cells form the groups."""
    secret = cell_column(
        cleartext.sensitive, cleartext.secret, lambda code: np.array([code]), lambda code, _: code
    )
    groups, first, _ = distinct_rows([c.codes for c in columns.values()])
    return ReleasedTable(
        scheme="horizontal",
        sensitive=cleartext.sensitive.name,
        columns=columns,
        secret=secret,
        group_codes=groups.astype(np.int32),
        group_labels=pd.RangeIndex(len(first), name="group"),
    )


def whole_label(domain: Domain) -> Any:
    """How a cell that allows every value is spelled: a star, unless a star means something else."""
    tree = domain.hierarchy
    taken = "*" in domain.by_label or (
        tree is not None and "*" in tree and len(tree.positions("*")) < len(tree.leaves)
    )
    return tuple(domain.values) if taken else "*"


def set_label(parser: CellParser, codes: Sequence[int] | Codes) -> Any:
    """Text ``{a, b}`` for a set of values, or a tuple where the text would be ambiguous."""
    text = "{" + ", ".join(parser.domain.labels[c] for c in codes) + "}"
    try:
        if np.array_equal(parser.parse(text), codes):
            return text
    except CellError:
        pass  # a value has a comma or a brace of its own; the tuple below is unambiguous
    return tuple(parser.domain.values[c] for c in codes)
