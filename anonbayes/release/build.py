"""From data frames to the parts of a `ReleasedTable`, with every check on the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.domains import Domain
from anonbayes.errors import TableError, nearest
from anonbayes.release.columns import Column, encode_column, pick
from anonbayes.release.evidence import Evidence
from anonbayes.textfiles import check_names

__all__ = ["check_frame", "distinct_rows", "horizontal_parts", "vertical_parts"]

JOIN = " & "


def check_frame(frame: pd.DataFrame, what: str = "The table") -> None:
    """Raise `TableError` unless the frame has rows, and columns with distinct text names."""
    if not isinstance(frame, pd.DataFrame):
        raise TableError(f"{what} must be a pandas DataFrame, got {type(frame).__name__}.")
    for name in frame.columns:
        if not isinstance(name, str):
            raise TableError(f"{what}: column name {name!r} is not text; rename it.")
    check_names(list(frame.columns), what)
    if frame.empty:
        raise TableError(f"{what} is empty ({len(frame)} rows, {frame.shape[1]} columns).")


def check_column(frame: pd.DataFrame, name: str, role: str) -> None:
    """Raise `TableError` unless the frame has the column."""
    if name not in frame.columns:
        raise TableError(
            f"The {role} column {name!r} is not in the table. {nearest(name, frame.columns)}"
        )


def check_known(mapping: Mapping[str, Any] | None, names: Iterable[str], argument: str) -> None:
    """Raise `TableError` when a mapping by column names a column that is not there."""
    known = list(names)
    for name in mapping or ():
        if name not in known:
            raise TableError(
                f"{argument} names {name!r}, which is no column of the table. "
                f"{nearest(name, known)}"
            )


def horizontal_parts(
    frame: pd.DataFrame,
    *,
    sensitive: str | Iterable[str],
    domains: Mapping[str, Any] | None,
    hierarchies: Mapping[str, Any] | None,
    group: str | None,
    channels: Mapping[str, Any] | None,
    missing: str | Mapping[str, str],
    missing_label: Any,
) -> dict[str, Any]:
    """Fields of a horizontal `ReleasedTable`."""
    check_frame(frame)
    frame, secret_name = _join_sensitive(frame, sensitive, domains)
    if group is not None:
        check_column(frame, group, "group")
        if group == secret_name:
            raise TableError(f"Column {group!r} cannot be both the group and sensitive.")
    attributes = [c for c in frame.columns if c not in (secret_name, group)]
    if not attributes:
        raise TableError(
            f"The table has no nonsensitive column beside {secret_name!r}: there is nothing by "
            "which a row could be recognised."
        )
    for argument, mapping in (
        ("domains", domains),
        ("hierarchies", hierarchies),
        ("channels", channels),
        ("missing", missing if isinstance(missing, Mapping) else None),
    ):
        check_known(mapping, frame.columns, argument)

    def column(name: str) -> Column:
        return encode_column(
            frame[name],
            name=name,
            domain=pick(domains, name),
            hierarchy=pick(hierarchies, name),
            channel=pick(channels, name),
            missing=missing if isinstance(missing, str) else missing.get(name, "error"),
            missing_label=missing_label,
        )

    secret = column(secret_name)
    _check_secret(secret, secret_name)
    columns = {name: column(name) for name in attributes}
    codes, labels = (
        _derived_groups([c.codes for c in columns.values()])
        if group is None
        else _given_groups(frame[group], group)
    )
    return {
        "scheme": "horizontal",
        "sensitive": secret_name,
        "columns": columns,
        "secret": secret,
        "group_codes": codes,
        "group_labels": labels,
        "group_name": group,
    }


def vertical_parts(
    qit: pd.DataFrame,
    st: pd.DataFrame,
    *,
    group: str,
    sensitive: str,
    domains: Mapping[str, Any] | None,
    count: str | None,
    missing: str | Mapping[str, str],
    missing_label: Any,
) -> dict[str, Any]:
    """Fields of a vertical `ReleasedTable`: both parts sorted by group."""
    check_frame(qit, "The quasi-identifier table")
    check_frame(st, "The sensitive table")
    check_column(qit, group, "group")
    check_column(st, group, "group")
    check_column(st, sensitive, "sensitive")
    if sensitive in qit.columns:
        raise TableError(
            f"The quasi-identifier table contains the sensitive column {sensitive!r}: the link "
            "that Anatomy hides would be public. Drop it there, or use ReleasedTable.horizontal."
        )
    if count is not None:
        st = _expand(st, group, sensitive, count)
    extra = [c for c in st.columns if c not in (group, sensitive, count)]
    if extra:
        raise TableError(
            f"The sensitive table has further columns {extra}; only {group!r} and {sensitive!r} "
            "are used (name a column of multiplicities with count=)."
        )
    attributes = [c for c in qit.columns if c != group]
    if not attributes:
        raise TableError("The quasi-identifier table has no column beside the group.")
    check_known(domains, [*attributes, sensitive], "domains")
    item_groups, slot_groups, labels = _matched_groups(qit[group], st[group], group)
    items = np.argsort(item_groups, kind="stable")
    slots = np.argsort(slot_groups, kind="stable")

    def column(frame: pd.DataFrame, name: str) -> Column:
        policy = missing if isinstance(missing, str) else missing.get(name, "error")
        if policy == "unknown":
            raise TableError(
                f"Column {name!r}: missing='unknown' is not possible in a vertical table, whose "
                "values are published in clear; use missing='category'."
            )
        return encode_column(
            frame[name],
            name=name,
            domain=pick(domains, name),
            missing=policy,
            missing_label=missing_label,
        )

    secret = column(st, sensitive)
    _check_secret(secret, sensitive)
    columns = {name: _in_clear(column(qit, name), name) for name in attributes}
    return {
        "scheme": "vertical",
        "sensitive": sensitive,
        "columns": {name: c.take(items) for name, c in columns.items()},
        "secret": _in_clear(secret, sensitive).take(slots),
        "group_codes": slot_groups[slots],
        "group_labels": labels,
        "group_name": group,
    }


# -- sensitive columns ------------------------------------------------------------------------


def _join_sensitive(
    frame: pd.DataFrame, sensitive: str | Iterable[str], domains: Mapping[str, Any] | None
) -> tuple[pd.DataFrame, str]:
    """Replace several sensitive columns by one of tuples."""
    names = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    if not names:
        raise TableError("Name at least one sensitive column.")
    for name in names:
        check_column(frame, name, "sensitive")
    if len(names) == 1:
        return frame, names[0]
    if len(set(names)) < len(names):
        raise TableError(f"A sensitive column is named twice: {names}.")
    for name in names:
        gaps = frame[name].isna()
        if gaps.any():
            raise TableError(
                f"Column {name!r}, row {frame.index[gaps.to_numpy().argmax()]}: a missing value "
                "cannot be joined with other sensitive columns; give it a category first."
            )
    joined = JOIN.join(names)
    pairs = pd.MultiIndex.from_frame(frame[names]).to_flat_index()
    rest = frame.drop(columns=names)
    if joined in rest.columns:
        raise TableError(f"Joining {names} needs the name {joined!r}, which is a column already.")
    return rest.assign(**{joined: pd.Series(pairs, index=frame.index, dtype=object)}), joined


def _check_secret(secret: Column, name: str) -> None:
    if len(secret.domain) < 2:
        raise TableError(
            f"The sensitive column {name!r} is constant ({secret.domain.values[0]!r}): everyone's "
            f"secret is known already. If other values are possible, list them in "
            f"domains={{{name!r}: [...]}}."
        )


def _in_clear(column: Column, name: str) -> Column:
    """Column whose cells are the domain values themselves, or an error naming a wider cell."""
    wide = np.flatnonzero(column.evidence.sizes > 1)
    if len(wide):
        raise TableError(
            f"Column {name!r}: cell {column.evidence.labels[wide[0]]!r} stands for "
            f"{column.evidence.sizes[wide[0]]} values, but a vertical table publishes values in "
            "clear. Use ReleasedTable.horizontal for generalized tables."
        )
    domain_codes = column.evidence.matrix.indices[column.codes]
    exact = Evidence.exact(column.domain)
    return Column(exact, domain_codes.astype(np.min_scalar_type(len(exact) - 1)))


# -- groups -----------------------------------------------------------------------------------


def distinct_rows(
    columns: Sequence[npt.NDArray[Any]],
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Distinct rows of several code columns.

    Returns
    -------
    inverse, first, count
        For each row its distinct row, numbered by first appearance; the first row of each; and
        how often it occurs.

    Examples
    --------
    >>> import numpy as np
    >>> inverse, first, count = distinct_rows([np.array([1, 0, 1]), np.array([2, 2, 2])])
    >>> inverse.tolist(), first.tolist(), count.tolist()
    ([0, 1, 0], [0, 1], [2, 1])
    """
    key = np.zeros(len(columns[0]), dtype=np.int64)
    size = 1
    for column in columns:
        radix = int(column.max(initial=0)) + 1
        if size > 2**62 // radix:  # the mixed-radix number would overflow: compress it first
            key, distinct = pd.factorize(key)
            size = len(distinct)
        key = key * radix + column
        size *= radix
    inverse, distinct = pd.factorize(key)
    count = np.bincount(inverse, minlength=len(distinct))
    first = np.empty(len(distinct), dtype=np.int64)
    first[inverse[::-1]] = np.arange(len(inverse))[::-1]
    return inverse, first, count


def _derived_groups(codes: Sequence[npt.NDArray[Any]]) -> tuple[npt.NDArray[np.int32], pd.Index]:
    inverse, first, _ = distinct_rows(codes)
    return inverse.astype(np.int32), pd.RangeIndex(len(first), name="group")


def _given_groups(series: pd.Series, name: str) -> tuple[npt.NDArray[np.int32], pd.Index]:
    gaps = series.isna().to_numpy()
    if gaps.any():
        raise TableError(
            f"Column {name!r}, row {series.index[gaps.argmax()]}: the group is missing."
        )
    codes, labels = pd.factorize(series, sort=True)
    return codes.astype(np.int32), pd.Index(labels, name=name)


def _matched_groups(
    items: pd.Series, slots: pd.Series, name: str
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], pd.Index]:
    """Group codes of both parts on one set of labels, after checking that their sizes agree."""
    item_codes, item_labels = _given_groups(items, name)
    slot_codes, slot_labels = _given_groups(slots, name)
    labels = item_labels.union(slot_labels).rename(name)
    item_codes = labels.get_indexer(item_labels)[item_codes].astype(np.int32)
    slot_codes = labels.get_indexer(slot_labels)[slot_codes].astype(np.int32)
    sizes = [np.bincount(c, minlength=len(labels)) for c in (item_codes, slot_codes)]
    wrong = np.flatnonzero(sizes[0] != sizes[1])
    if len(wrong):
        g = wrong[0]
        raise TableError(
            f"Group {labels[g]!r} has {sizes[0][g]} rows in the quasi-identifier table and "
            f"{sizes[1][g]} in the sensitive table ({len(wrong)} groups differ); both parts of a "
            "group must have the same number of rows."
        )
    return item_codes, slot_codes, labels


def _expand(st: pd.DataFrame, group: str, sensitive: str, count: str) -> pd.DataFrame:
    """One line per row from one line per group and value with a multiplicity."""
    check_column(st, count, "count")
    numbers = pd.to_numeric(st[count], errors="coerce")
    bad = (numbers.isna() | (numbers < 1) | (numbers % 1 != 0)).to_numpy()
    if bad.any():
        row = int(bad.argmax())
        raise TableError(
            f"Column {count!r}, row {st.index[row]}: {st[count].iloc[row]!r} is no whole number "
            "of at least 1."
        )
    rows = np.repeat(np.arange(len(st)), numbers.to_numpy(dtype=np.int64))
    return st[[group, sensitive]].iloc[rows].reset_index(drop=True)


def domain_of(name: str, series: pd.Series, domain: Domain | Iterable[Any] | None) -> Domain:
    """Domain of a cleartext column: the given one, or the values that the column shows."""
    if isinstance(domain, Domain):
        return domain
    return Domain.infer(name, series) if domain is None else Domain(name, domain)
