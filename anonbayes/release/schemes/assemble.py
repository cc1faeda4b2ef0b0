"""From cells per row to a `ReleasedTable`, without a detour through text."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.domains import Domain, code_dtype
from anonbayes.release.build import distinct_rows
from anonbayes.release.columns import Column
from anonbayes.release.evidence import Evidence
from anonbayes.release.schemes.cleartext import Cleartext
from anonbayes.release.table import ReleasedTable

__all__ = ["cell_column", "horizontal_table", "set_labels", "spell_out_stars", "whole_label"]

Codes = npt.NDArray[Any]
_MISREAD = re.compile(r"[,{}]|^$")


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


def spell_out_stars(columns: dict[str, Column]) -> dict[str, Column]:
    """Columns in which no row shows a star everywhere, as only suppressed rows do.

    A group can be so wide that each of its cells is a whole domain; then the first column lists
    its values instead.
    """
    stars = [
        np.array(
            [
                size == len(column.domain) and isinstance(text, str) and text == "*"
                for size, text in zip(column.evidence.sizes, column.evidence.labels, strict=True)
            ]
        )
        for column in columns.values()
    ]
    shown = [star[c.codes] for star, c in zip(stars, columns.values(), strict=True)]
    if not np.logical_and.reduce(shown).any():
        return columns
    name, column = next(iter(columns.items()))
    labels = list(column.evidence.labels)
    labels[int(stars[0].argmax())] = set_labels(column.domain)(np.arange(len(column.domain)))
    return {**columns, name: Column(replace(column.evidence, labels=tuple(labels)), column.codes)}


def whole_label(domain: Domain) -> Any:
    """How a cell that allows every value is spelled: a star, unless a star means something else."""
    tree = domain.hierarchy
    taken = "*" in domain.by_label or (
        tree is not None and "*" in tree and len(tree.positions("*")) < len(tree.leaves)
    )
    return tuple(domain.values) if taken else "*"


def set_labels(domain: Domain) -> Callable[[Codes], Any]:
    """How sets of values are spelled: ``{a, b}``, or as tuples where the text could be misread.

    Examples
    --------
    >>> set_labels(Domain("x", ["a", "b", "c"]))(np.array([0, 2]))
    '{a, c}'
    >>> set_labels(Domain("x", ["a", "b, c", "d"]))(np.array([0, 1]))
    ('a', 'b, c')
    """
    if any(_MISREAD.search(label) or label != label.strip() for label in domain.labels):
        return lambda codes: tuple(domain.values[c] for c in codes)
    return lambda codes: "{" + ", ".join(domain.labels[c] for c in codes) + "}"
