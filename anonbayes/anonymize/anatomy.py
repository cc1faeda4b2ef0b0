"""Anatomy: publish quasi-identifiers and secrets in two tables that are linked only by groups."""

from __future__ import annotations

import heapq
import logging
from collections.abc import Iterable
from typing import Literal, overload

import numpy as np
import pandas as pd

from anonbayes.anonymize.cleartext import Cleartext, check_privacy
from anonbayes.arrays import Ints, read_generator
from anonbayes.channels.randomness import SecureSource, Source
from anonbayes.domains import DomainsByColumn, code_dtype
from anonbayes.errors import AnonymizationError, TableError, one_of
from anonbayes.io.text import pandas_frame
from anonbayes.tables.evidence import Column, Evidence
from anonbayes.tables.table import ReleasedTable

Seed = int | np.random.Generator | None

RESIDUE = ("assign", "report", "error")
_log = logging.getLogger(__name__)


@overload
def anatomy(
    df: pd.DataFrame,
    sensitive: str,
    l: int,  # noqa: E741
    seed: Seed = ...,
    *,
    residue: str = ...,
    group: str = ...,
    quasi_identifiers: Iterable[str] | None = ...,
    domains: DomainsByColumn | None = ...,
    return_truth: Literal[False] = ...,
) -> ReleasedTable: ...
@overload
def anatomy(
    df: pd.DataFrame,
    sensitive: str,
    l: int,  # noqa: E741
    seed: Seed = ...,
    *,
    residue: str = ...,
    group: str = ...,
    quasi_identifiers: Iterable[str] | None = ...,
    domains: DomainsByColumn | None = ...,
    return_truth: Literal[True],
) -> tuple[ReleasedTable, pd.DataFrame]: ...
def anatomy(
    df: pd.DataFrame,
    sensitive: str,
    l: int,  # noqa: E741
    seed: Seed = None,
    *,
    residue: str = "assign",
    group: str = "group",
    quasi_identifiers: Iterable[str] | None = None,
    domains: DomainsByColumn | None = None,
    return_truth: bool = False,
) -> ReleasedTable | tuple[ReleasedTable, pd.DataFrame]:
    """Group rows with `l` different sensitive values each, and hide who has which.

    The algorithm of Xiao & Tao (VLDB 2006): rows are bucketed by sensitive value; each group takes
    a random row from each of the `l` largest buckets, until fewer than `l` buckets are left. Each
    of these then has at most one row. These residual rows join random groups that lack their value.

    Parameters
    ----------
    df : pandas.DataFrame
        Cleartext, one row per person.
    sensitive : str
        Sensitive column.
    l : int
        Least size of a group, whose sensitive values are all different.
    seed : int, numpy.random.Generator or None
        Seed; None uses the operating system's secure random source, as a publisher should.
    residue : {"assign", "report", "error"}
        Whether residual rows join other groups, are left out of the release (and logged, and
        marked in the truth), or cause an error.
    group : str
        Name of the group column in the release.
    quasi_identifiers : iterable of str, optional
        Columns to publish in addition to the sensitive one; by default all others.
    domains : mapping, optional
        Domain, or list of values, by column; by default the values that occur.
    return_truth : bool
        Whether to also return where each row went; for an evaluator, never for publication.

    Returns
    -------
    ReleasedTable
        A vertical table. The items of a group are in random order, its secrets in domain order.
    pandas.DataFrame
        Only with ``return_truth=True``: for each row of `df` its ``group``, its ``item`` (line of
        the quasi-identifier table) and its ``slot`` (line of the sensitive table), or -1 if the row
        was left out.

    Raises
    ------
    AnonymizationError
        If a value is more frequent than ``n / l`` (the eligibility condition); the message names
        the value and the largest possible l.

    Examples
    --------
    >>> import anonbayes as ab
    >>> df = ab.datasets.load("table1")
    >>> table, truth = ab.anonymize.anatomy(df, "Dis", l=2, seed=1, return_truth=True)
    >>> table.group_sizes.tolist(), table.l
    ([2, 2, 2, 2], 2)
    >>> table.to_frame()["Nat"][truth["item"]].tolist() == df["Nat"].tolist()
    True
    """
    one_of("residue", residue, RESIDUE)
    if not isinstance(sensitive, str):
        raise TableError(
            f"sensitive={sensitive!r}: Anatomy hides a single column; name one and leave out the "
            "others with quasi_identifiers=[...], or use mondrian or recode."
        )
    df = pandas_frame(df)
    cleartext = Cleartext.of(df, sensitive, quasi_identifiers=quasi_identifiers, domains=domains)
    if not isinstance(group, str) or not group or group in (*cleartext.domains, sensitive):
        raise TableError(
            f"group={group!r} must be a text that is not the name of a column; choose another."
        )
    _, l = check_privacy(cleartext, 1, l)  # noqa: E741
    _check_eligible(cleartext, l)
    settled = None if seed is None else read_generator(seed, error=AnonymizationError)
    source: Source = settled or SecureSource()
    values, group_of_slot, left = _compose(cleartext.secret_counts, l, source)
    if len(left) and residue == "error":
        shown = ", ".join(repr(cleartext.sensitive.values[v]) for v in left)
        raise AnonymizationError(
            f"{len(left)} rows do not fill a group of {l} (secrets {shown}); use residue='assign' "
            "to add them to other groups or residue='report' to leave them out."
        )
    if len(left) and residue == "assign":
        chosen = _hosts(values, group_of_slot, left, source)
        values, group_of_slot = np.append(values, left), np.append(group_of_slot, chosen)
    elif len(left):
        _log.warning("anatomy left %d of %d rows out of the release", len(left), cleartext.n_rows)
    table, truth = _publish(cleartext, values, group_of_slot, source, group)
    truth.index = df.index
    return (table, truth) if return_truth else table


def _check_eligible(cleartext: Cleartext, l: int) -> None:  # noqa: E741
    counts = cleartext.secret_counts
    top = int(counts.argmax())
    if counts[top] * l > cleartext.n_rows:
        raise AnonymizationError(
            f"l={l} is not possible: {cleartext.sensitive.values[top]!r} is the sensitive value of "
            f"{counts[top]} of {cleartext.n_rows} rows, more than 1/{l} of them. The largest "
            f"possible l is {cleartext.n_rows // int(counts[top])}."
        )


def _compose(counts: Ints, l: int, source: Source) -> tuple[Ints, Ints, Ints]:  # noqa: E741
    """Compute the sensitive value and group of each slot, and the values of the residual rows.

    Only counts matter here; `_publish` draws which row of a value goes where.
    """
    n_groups = int(counts.sum()) // l
    ties = iter(source.random(len(counts) + n_groups * l).tolist())
    # Equally large buckets are chosen in random order.
    heap = [(-int(n), next(ties), v) for v, n in enumerate(counts) if n]
    heapq.heapify(heap)
    values: list[int] = []
    while len(heap) >= l:
        taken = [heapq.heappop(heap) for _ in range(l)]
        values.extend(v for _, _, v in taken)
        for n, _, v in taken:
            if n < -1:
                heapq.heappush(heap, (n + 1, next(ties), v))
    left = np.array([v for n, _, v in heap for _ in range(-n)], dtype=np.int64)
    slots = np.array(values, dtype=np.int64)
    return slots, np.arange(len(slots)) // l, left


def _hosts(values: Ints, groups: Ints, left: Ints, source: Source) -> Ints:
    """Draw a group for each residual value from the groups that lack the value."""
    n_groups = int(groups.max()) + 1
    hosts = np.empty(len(left), dtype=np.int64)
    for i, value in enumerate(left):
        free = np.setdiff1d(np.arange(n_groups), groups[values == value])
        hosts[i] = free[source.integers(0, len(free), 1)[0]]
    return hosts


def _publish(
    cleartext: Cleartext, values: Ints, groups: Ints, source: Source, name: str
) -> tuple[ReleasedTable, pd.DataFrame]:
    """Fill the slots with random rows of their values, then break the links inside the groups."""
    slots = np.lexsort((values, groups))
    values, groups = values[slots], groups[slots]
    # The i-th slot of a value takes the i-th row of that value in a random order of the rows.
    rows = np.lexsort((source.random(cleartext.n_rows), cleartext.secret))
    start = np.concatenate([[0], np.cumsum(cleartext.secret_counts)])
    by_value = np.argsort(values, kind="stable")
    rank = np.empty(len(values), dtype=np.int64)
    rank[by_value] = np.arange(len(values)) - np.searchsorted(values[by_value], values[by_value])
    row_of_slot = rows[start[values] + rank]
    slot_of_item = np.lexsort((source.random(len(values)), groups))
    row_of_item = row_of_slot[slot_of_item]

    truth = np.full((cleartext.n_rows, 3), -1, dtype=np.int64)
    truth[row_of_slot, 0] = groups
    truth[row_of_item, 1] = np.arange(len(values))
    truth[row_of_slot, 2] = np.arange(len(values))
    table = ReleasedTable(
        scheme="vertical",
        sensitive=cleartext.sensitive.name,
        columns={
            attribute: Column(Evidence.exact(domain), codes[row_of_item])
            for (attribute, domain), codes in zip(
                cleartext.domains.items(), cleartext.codes, strict=True
            )
        },
        secret=Column(
            Evidence.exact(cleartext.sensitive), values.astype(code_dtype(len(cleartext.sensitive)))
        ),
        group_codes=groups.astype(np.int32),
        group_labels=pd.RangeIndex(int(groups.max()) + 1, name=name),
        group_name=name,
    )
    return table, pd.DataFrame(truth, columns=["group", "item", "slot"])
