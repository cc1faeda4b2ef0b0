"""From data frames to the parts of a `ReleasedTable`, with every check on the way."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.domains import Domain, gaps, plain, sorted_values
from anonbayes.errors import TableError, nearest, one_of
from anonbayes.io.text import check_names
from anonbayes.tables.cells import MISSING_POLICIES
from anonbayes.tables.evidence import Column, Evidence, encode_column
from anonbayes.tables.groups import (
    derived_groups,
    distinct_rows,
    given_groups,
    matched_groups,
    rows_by_group,
    suppressed_rows,
)

__all__ = [
    "JOIN",
    "FrameLike",
    "check_frame",
    "distinct_rows",
    "horizontal_parts",
    "joined_column",
    "sensitive_names",
    "vertical_parts",
]
JOIN = " & "


class FrameLike:
    """Base of what may stand in for a data frame: ``columns``, ``frame[name]``, its size."""


def check_frame(frame: pd.DataFrame, what: str = "The table") -> None:
    """Raise `TableError` unless the frame has rows, and columns with distinct text names."""
    if not isinstance(frame, pd.DataFrame | FrameLike):
        raise TableError(f"{what} must be a pandas DataFrame, got {type(frame).__name__}.")
    check_names(list(frame.columns), what)
    if frame.empty:
        raise TableError(f"{what} is empty ({len(frame)} rows, {frame.shape[1]} columns).")


def check_column(frame: pd.DataFrame, name: str, role: str) -> None:
    """Raise `TableError` unless the frame has the column."""
    if not isinstance(name, str) or name not in frame.columns:
        raise TableError(
            f"The {role} column {name!r} is not in the table. {nearest(name, frame.columns)}"
        )


def check_known(mapping: Mapping[str, Any] | None, names: Iterable[str], argument: str) -> None:
    """Raise `TableError` when a mapping by column names a column that is not there."""
    known = list(dict.fromkeys(names))
    if mapping is not None and not isinstance(mapping, Mapping):
        raise TableError(
            f"{argument} must map column names to what belongs to them, got "
            f"{type(mapping).__name__}."
        )
    for name in mapping or ():
        if name not in known:
            raise TableError(
                f"{argument} names {name!r}, which is no column of the table. "
                f"{nearest(name, known)}"
            )


def multiplicities(frame: pd.DataFrame, name: str) -> npt.NDArray[np.int64]:
    """Whole numbers of at least 1 from a column, or a `TableError` that names the row."""
    gaps(frame[name], where=f"Column {name!r}")  # pandas trips over a signalling NaN
    column = pd.to_numeric(frame[name], errors="coerce")
    numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
    bad = ~((numbers >= 1) & (numbers == np.floor(numbers)) & (numbers < 2**53))
    if bad.any():
        row = int(bad.argmax())
        raise TableError(
            f"Column {name!r}, row {frame.index[row]}: {plain(frame[name].iloc[row])!r} is no "
            "whole number of at least 1."
        )
    return numbers.astype(np.int64)


def policy_of(missing: str | Mapping[str, str], name: str) -> str:
    """What a missing cell of a column means."""
    policy = missing.get(name, "error") if isinstance(missing, Mapping) else missing
    one_of("missing", policy, MISSING_POLICIES)
    return policy


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
    weights: str | npt.NDArray[np.int64] | None = None,
) -> dict[str, Any]:
    """Fields of a horizontal `ReleasedTable`."""
    check_frame(frame)
    numbers = None
    if isinstance(weights, np.ndarray):
        numbers = weights
    elif weights is not None:
        check_column(frame, weights, "weights")
        numbers = multiplicities(frame, weights)
        frame = frame.drop(columns=weights)
    n_rows = len(frame) if numbers is None else int(numbers.sum())
    secrets = sensitive_names(frame, sensitive)
    secret_name = JOIN.join(secrets)
    if group is not None:
        check_column(frame, group, "group")
        if group in secrets:
            raise TableError(f"Column {group!r} cannot be both the group and sensitive.")
    attributes = [c for c in frame.columns if c not in (*secrets, group)]
    if not attributes:
        raise TableError(
            f"The table has no nonsensitive column beside {secret_name!r}: there is nothing by "
            "which a row could be recognised."
        )
    if secret_name in attributes:
        raise TableError(
            f"Joining {secrets} needs the name {secret_name!r}, which is a column already."
        )
    known = [*attributes, *secrets, secret_name]
    check_known(domains, known, "domains")
    check_known(hierarchies, known, "hierarchies")
    check_known(channels, known, "channels")
    check_known(missing if isinstance(missing, Mapping) else None, known, "missing")

    def column(name: str) -> Column:
        return encode_column(
            frame[name],
            name=name,
            domain=(domains or {}).get(name),
            hierarchy=(hierarchies or {}).get(name),
            channel=(channels or {}).get(name),
            missing=policy_of(missing, name),
            missing_label=missing_label,
            n_rows=n_rows,
        )

    secret = column(secrets[0])
    if len(secrets) > 1:
        parts = [secret, *(column(name) for name in secrets[1:])]
        secret = joined_column(parts, secret_name, (domains or {}).get(secret_name))
    _check_secret(secret, secret_name)
    columns = {name: column(name) for name in attributes}
    hidden = suppressed_rows(
        frame, columns, [name for name in columns if policy_of(missing, name) == "unknown"]
    )
    codes, labels = (
        derived_groups([c.codes for c in columns.values()], hidden)
        if group is None
        else given_groups(frame[group], group, hidden)
    )
    return {
        "scheme": "horizontal",
        "sensitive": secret_name,
        "columns": columns,
        "secret": secret,
        "group_codes": codes,
        "group_labels": labels,
        "group_name": group,
        "weights": numbers,
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
    if group == sensitive:
        raise TableError(f"Column {group!r} cannot be both the group and sensitive.")
    if sensitive in qit.columns:
        raise TableError(
            f"The quasi-identifier table contains the sensitive column {sensitive!r}: the link "
            "that Anatomy hides would be public. Drop it there, or use ReleasedTable.horizontal."
        )
    if count is not None:
        st = _expand(st, group, sensitive, count, n_rows=len(qit))
    extra = [c for c in st.columns if c not in (group, sensitive)]
    if extra:
        raise TableError(
            f"The sensitive table has further columns {extra}; only {group!r} and {sensitive!r} "
            "are used (name a column of multiplicities with count=)."
        )
    attributes = [c for c in qit.columns if c != group]
    if not attributes:
        raise TableError("The quasi-identifier table has no column beside the group.")
    check_known(domains, [*attributes, sensitive], "domains")
    named = missing if isinstance(missing, Mapping) else None
    check_known(named, [*attributes, sensitive], "missing")
    item_groups, slot_groups, labels = matched_groups(qit[group], st[group], group)
    items, slots = (rows_by_group(codes, len(labels)) for codes in (item_groups, slot_groups))

    def column(frame: pd.DataFrame, name: str) -> Column:
        policy = policy_of(missing, name)
        if policy == "unknown":
            raise TableError(
                f"Column {name!r}: missing='unknown' is not possible in a vertical table, whose "
                "values are published in clear; use missing='category'."
            )
        encoded = encode_column(
            frame[name],
            name=name,
            domain=(domains or {}).get(name),
            missing=policy,
            missing_label=missing_label,
        )
        return _in_clear(encoded, "a vertical table publishes values in clear")

    secret = column(st, sensitive)
    _check_secret(secret, sensitive)
    return {
        "scheme": "vertical",
        "sensitive": sensitive,
        "columns": {name: column(qit, name).take(items) for name in attributes},
        "secret": secret.take(slots),
        "group_codes": slot_groups[slots],
        "group_labels": labels,
        "group_name": group,
    }


# -- sensitive columns ------------------------------------------------------------------------


def sensitive_names(frame: pd.DataFrame, sensitive: str | Iterable[str]) -> list[str]:
    """Names of the sensitive columns, after a check that the frame has them."""
    try:
        names = [sensitive] if isinstance(sensitive, str) else list(sensitive)
    except TypeError:
        raise TableError(f"sensitive={sensitive!r} must be the name of a column.") from None
    if not names:
        raise TableError("Name at least one sensitive column.")
    for name in names:
        check_column(frame, name, "sensitive")
    if len(set(names)) < len(names):
        raise TableError(f"A sensitive column is named twice: {names}.")
    return names


def joined_column(parts: Sequence[Column], name: str, domain: Any = None) -> Column:
    """One column of tuples from several; its domain are the combinations shown, or the given."""
    clear = [_in_clear(part, "columns that are joined must show values in clear") for part in parts]
    inverse, first, _ = distinct_rows([part.codes for part in clear])
    shown = [part.domain.decode(part.codes[first]).tolist() for part in clear]
    pairs = [tuple(plain(v) for v in pair) for pair in zip(*shown, strict=True)]
    if domain is None:
        known = Domain(name, sorted_values(pairs))
    else:
        known = Domain(name, domain.values if isinstance(domain, Domain) else domain)
    return Column(Evidence.exact(known), np.array([known.index(p) for p in pairs])[inverse])


def _check_secret(secret: Column, name: str) -> None:
    if len(secret.domain) < 2:
        raise TableError(
            f"The sensitive column {name!r} is constant ({secret.domain.values[0]!r}): everyone's "
            f"secret is known already. If other values are possible, list them in "
            f"domains={{{name!r}: [...]}}."
        )


def _in_clear(column: Column, reason: str) -> Column:
    """Column whose cells are the domain values themselves, or an error naming a wider cell."""
    evidence = column.evidence
    wide = np.flatnonzero(evidence.sizes > 1)
    if len(wide) or not evidence.is_hard:
        cell = int(wide[0]) if len(wide) else 0
        raise TableError(
            f"Column {column.domain.name!r}: cell {evidence.labels[cell]!r} stands for "
            f"{evidence.sizes[cell]} values, but {reason}. Use ReleasedTable.horizontal with one "
            "sensitive column for generalized tables."
        )
    return Column(Evidence.exact(column.domain), evidence.matrix.indices[column.codes])


def _expand(st: pd.DataFrame, group: str, sensitive: str, count: str, n_rows: int) -> pd.DataFrame:
    """One line per row from one line per group and value with a multiplicity."""
    check_column(st, count, "count")
    if count in (group, sensitive):
        raise TableError(f"Column {count!r} cannot hold the multiplicities as well.")
    numbers = multiplicities(st, count)
    if numbers.sum() != n_rows:
        raise TableError(
            f"The multiplicities in {count!r} add up to {numbers.sum():,} rows, but the "
            f"quasi-identifier table has {n_rows:,}."
        )
    rows = np.repeat(np.arange(len(st)), numbers)
    return st[[group, sensitive]].iloc[rows].reset_index(drop=True)
