"""Released tables in non-stochastic terms: what membership in a group says about a secret.

For a person known to be in group ``i``, the conditional range of the sensitive value is the set of
values that the group publishes. A group with one value reveals it, however large the group: the
homogeneity attack, and the reason why k-anonymity alone is not private (Quantize Sec. V).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.arrays import Codes
from anonbayes.errors import TableError
from anonbayes.nonstochastic import ranges
from anonbayes.nonstochastic.ranges import write_json
from anonbayes.nonstochastic.relations import Relation

__all__ = [
    "GroupLeakage",
    "SupportsGroups",
    "group_leakage",
    "homogeneous_release",
    "table_leakage",
    "table_relation",
]


class SupportsGroups(Protocol):
    """What is needed of a released table."""

    @property
    def group_codes(self) -> Any:
        """Group of each row, -1 for a suppressed row."""

    @property
    def secret_codes(self) -> Any:
        """Code of the sensitive value of each row."""

    @property
    def weights(self) -> Any:
        """Number of rows that each line stands for, or None."""

    @property
    def sensitive(self) -> str:
        """Name of the sensitive attribute."""

    @property
    def domains(self) -> Any:
        """Domain of each attribute by name."""


def table_relation(
    group_codes: npt.ArrayLike,
    secret_codes: npt.ArrayLike,
    n_secrets: int,
    *,
    measure: npt.ArrayLike | None = None,
) -> Relation:
    """Relation of a person's sensitive value with the group the person is in.

    Suppressed rows (group -1) tell nothing about the group of their owner; together they form one
    more group, whose owners can have any value of the domain.

    Parameters
    ----------
    group_codes, secret_codes : array_like of int
        Group and sensitive value of each row.
    n_secrets : int
        Size of the sensitive domain.
    measure : array_like of float, optional
        Size of each sensitive value: 1 by default; the width of each bin for a binned number; 0
        for a number published as it is.

    Examples
    --------
    >>> table_relation([0, 0, 1, 1], [0, 1, 2, 2], n_secrets=3)
    Relation(3 secrets, 2 releases, 3 pairs, 2 components)
    """
    groups, secrets = _codes(group_codes, secret_codes, n_secrets)
    suppressed = groups < 0
    n_groups = int(groups.max(initial=-1)) + 1
    x, y = secrets[~suppressed], groups[~suppressed]
    if suppressed.any():
        x = np.concatenate([x, np.arange(n_secrets)])
        y = np.concatenate([y, np.full(n_secrets, n_groups)])
        n_groups += 1
    return Relation.from_pairs(x, y, shape=(n_secrets, n_groups), measure=measure)


@dataclass(frozen=True, eq=False)
class GroupLeakage:
    """What a released table says about the sensitive values of the people in it.

    Attributes
    ----------
    relation : Relation
        Sensitive values and groups.
    groups : DataFrame
        One row per group: ``size``, ``n_values`` (the conditional range), ``disarray`` (its
        log-size), ``leakage``, ``homogeneous``.
    n_secrets : int
        Size of the sensitive domain, the range before the release.
    domain_log_measure : float
        Its log-size ``h0``.
    """

    relation: Relation
    groups: pd.DataFrame
    n_secrets: int
    domain_log_measure: float

    @property
    def leakage(self) -> float:
        """Largest leakage of a group, ``L0`` against the whole domain, in nats."""
        return float(self.groups["leakage"].max())

    @property
    def relative_disarray(self) -> float:
        """Smallest log-size of a conditional range, ``d0``."""
        return float(self.groups["disarray"].min())

    @property
    def maximin_information(self) -> float:
        """Maximin information between sensitive value and group, in nats."""
        return ranges.maximin_information(self.relation)

    @property
    def homogeneous(self) -> pd.DataFrame:
        """Groups with a single sensitive value: everyone in them is exposed."""
        return self.groups[self.groups["homogeneous"]]

    @property
    def exposed(self) -> int:
        """Number of rows in homogeneous groups."""
        return int(self.homogeneous["size"].sum())

    @property
    def k(self) -> int:
        """Size of the smallest group: the table is k-anonymous."""
        return int(self.groups["size"].min())

    @property
    def is_private(self) -> bool:
        """Whether no group reveals the sensitive value of its members."""
        return not bool(self.groups["homogeneous"].any())

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the finding and the groups as JSON text; write it to `path` if given."""
        content = {
            "text": self.text,
            "is_private": self.is_private,
            "k": self.k,
            "exposed": self.exposed,
            "leakage": self.leakage,
            "relative_disarray": self.relative_disarray,
            "maximin_information": self.maximin_information,
            "groups": self.groups.reset_index(),
        }
        return write_json(content, path)

    def _repr_html_(self) -> str:
        shown = self.groups.sort_values("leakage", ascending=False, kind="stable")
        return f"<p>{escape(self.text)}</p>{shown.to_html(max_rows=20)}"

    @property
    def text(self) -> str:
        """The finding in one sentence."""
        attacked = self.homogeneous
        if attacked.empty:
            smallest = int(self.groups["n_values"].min())
            return (
                f"No group reveals a sensitive value: at least {smallest} of {self.n_secrets} "
                f"values remain possible for everyone (leakage {self.leakage:.4g} nats)."
            )
        return (
            f"{len(attacked)} of {len(self.groups)} groups are homogeneous: the table is "
            f"{self.k}-anonymous, yet it reveals the sensitive value of {self.exposed} rows "
            f"(leakage {self.leakage:.4g} nats)."
        )


def group_leakage(
    group_codes: npt.ArrayLike,
    secret_codes: npt.ArrayLike,
    n_secrets: int,
    *,
    measure: npt.ArrayLike | None = None,
    names: Sequence[Any] | None = None,
    weights: npt.ArrayLike | None = None,
) -> GroupLeakage:
    """Conditional range of the sensitive value in each group, and the homogeneity attack.

    Parameters are those of `table_relation`; `names` are labels of the sensitive values, `weights`
    the numbers of rows that the given pairs stand for.

    Examples
    --------
    >>> found = group_leakage([0, 0, 1, 1, 1], [0, 1, 2, 2, 2], n_secrets=4)
    >>> found.homogeneous[["size", "n_values"]].values.tolist(), found.exposed
    ([[3, 1]], 3)
    >>> print(found.text)
    1 of 2 groups are homogeneous: the table is 2-anonymous, yet it reveals the sensitive value \
of 3 rows (leakage 1.386 nats).
    """
    groups, secrets = _codes(group_codes, secret_codes, n_secrets)
    published = groups >= 0
    if not published.any():
        raise TableError("Every row is suppressed; there is no group to look at.")
    relation = table_relation(groups[published], secrets[published], n_secrets, measure=measure)
    whole = Relation(np.ones((n_secrets, 1)), measure=relation.measure).log_measure
    counts = np.diff(relation.matrix.tocsc().indptr)[relation.range_y]
    rows = np.ones(len(groups)) if weights is None else np.asarray(weights, dtype=np.float64)
    sizes = np.bincount(groups[published], rows[published]).astype(np.int64)[relation.range_y]
    disarray = relation.conditional_log_measures
    # Values of size zero (published numbers of a continuous range) leave nothing of the range.
    leak = np.full(len(disarray), math.inf)
    known = np.isfinite(disarray)
    leak[known] = whole - disarray[known]
    frame = pd.DataFrame(
        {
            "size": sizes,
            "n_values": counts,
            "disarray": disarray,
            "leakage": leak,
            "homogeneous": counts == 1,
        },
        index=pd.Index(relation.range_y, name="group"),
    )
    if names is not None:
        first = relation.matrix.tocsc()
        only = [
            names[first.indices[first.indptr[g]]] if single else None
            for g, single in zip(relation.range_y, counts == 1, strict=True)
        ]
        frame["revealed"] = pd.Series(only, index=frame.index, dtype=object)
    return GroupLeakage(relation, frame, n_secrets, whole)


def table_leakage(table: SupportsGroups, *, measure: npt.ArrayLike | None = None) -> GroupLeakage:
    """`group_leakage` of a released table.

    Parameters
    ----------
    table : ReleasedTable
        Its groups, sensitive values and sensitive domain are read.
    measure : array_like of float, optional
        Size of each value of the sensitive domain; 1 by default.
    """
    domain = table.domains[table.sensitive]
    return group_leakage(
        table.group_codes,
        table.secret_codes,
        len(domain),
        measure=measure,
        names=list(domain),
        weights=table.weights,
    )


def homogeneous_release(k: int, levels: int) -> Relation:
    """Build a k-anonymous report that reveals its secret: Quantize Prop. V.1 on a grid.

    The secret is the sensitive value of `k` people, a point of ``[0, 1]^k`` seen on a grid of
    `levels` cells per person. The report hides the k people behind one another, as k-anonymity
    asks, and publishes their common value when all k agree, nothing when they do not. Each common
    value leaves one cell of volume ``levels^-k``, so as the grid gets finer ``d0`` falls to minus
    infinity, and leakage and maximin information rise without bound: k-anonymity guarantees
    nothing.

    Examples
    --------
    >>> import anonbayes as ab
    >>> for levels in (4, 16, 64):
    ...     report = homogeneous_release(2, levels)
    ...     print(round(ab.nonstochastic.leakage(report), 4), report.n_components)
    2.7726 5
    5.5452 17
    8.3178 65
    """
    if k < 2 or levels < 2:
        raise TableError(f"The example needs k >= 2 and levels >= 2, got k={k}, levels={levels}.")
    if levels**k > 10**7:
        raise TableError(f"levels**k = {levels**k} cells are too many; take fewer than 10^7.")
    people = np.indices((levels,) * k).reshape(k, -1)
    agree = (people == people[0]).all(axis=0)
    report = np.where(agree, people[0], levels)
    cells = np.full(report.size, float(levels) ** -k)
    return Relation.from_pairs(np.arange(report.size), report, measure=cells)


def _codes(
    group_codes: npt.ArrayLike, secret_codes: npt.ArrayLike, n_secrets: int
) -> tuple[Codes, Codes]:
    groups = np.asarray(group_codes, dtype=np.intp)
    secrets = np.asarray(secret_codes, dtype=np.intp)
    if groups.ndim != 1 or groups.shape != secrets.shape or groups.size == 0:
        raise TableError(
            f"Group codes have shape {groups.shape}, secret codes {secrets.shape}; give one of "
            "each per row."
        )
    outside = (secrets < 0) | (secrets >= n_secrets)
    if outside.any():
        row = int(np.argmax(outside))
        raise TableError(
            f"Row {row}: secret code {secrets[row]} is outside 0..{n_secrets - 1}; codes are "
            "positions in the sensitive domain."
        )
    if groups.min() < -1:
        row = int(np.argmin(groups))
        raise TableError(f"Row {row}: group code {groups[row]}; use -1 for a suppressed row.")
    return groups, secrets
