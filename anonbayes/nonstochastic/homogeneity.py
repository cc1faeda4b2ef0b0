"""Released tables in non-stochastic terms: what membership in a group says about a secret.

For a person known to be in group ``i``, the conditional range of the sensitive value is the set of
values that the group publishes. A group with one value reveals it, however large the group: the
homogeneity attack, and the reason why k-anonymity alone is not private (Quantize Sec. V).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.errors import TableError
from anonbayes.nonstochastic.relations import Relation, maximin_information
from anonbayes.tables.table import ReleasedTable

__all__ = ["GroupLeakage", "homogeneous_release", "table_leakage"]


@dataclass(frozen=True, eq=False)
class GroupLeakage:
    """What a released table says about the sensitive values of the people in it.

    Attributes
    ----------
    relation : Relation
        Sensitive values and groups.
    groups : DataFrame
        One row per group: ``size``, ``n_values`` (the conditional range), ``disarray`` (its
        log-size), ``leakage``, ``homogeneous``, ``revealed`` (the value of a homogeneous group).
    n_secrets : int
        Size of the sensitive domain, the range before the release.
    """

    relation: Relation
    groups: pd.DataFrame
    n_secrets: int

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
        return maximin_information(self.relation)

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
        return self.homogeneous.empty

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

    def to_dict(self) -> dict[str, Any]:
        """Return the finding in plain types, the groups as a list of records."""
        groups = self.groups.reset_index().astype(object).to_dict(orient="records")
        names = ["text", "is_private", "k", "exposed", "leakage", "relative_disarray"]
        plain = {name: getattr(self, name) for name in [*names, "maximin_information"]}
        return {**plain, "groups": groups}

    def _repr_html_(self) -> str:
        shown = self.groups.sort_values("leakage", ascending=False, kind="stable")
        return f"<p>{escape(self.text)}</p>{shown.to_html(max_rows=20)}"


def table_leakage(table: ReleasedTable, *, measure: npt.ArrayLike | None = None) -> GroupLeakage:
    """Conditional range of the sensitive value in each group, and the homogeneity attack.

    Suppressed rows tell nothing about the group of their owner and are left out.

    Parameters
    ----------
    table : ReleasedTable
        Its groups, sensitive values and sensitive domain are read.
    measure : array_like of float, optional
        Size of each value of the sensitive domain: 1 by default; the width of each bin for a
        binned number; 0 for a number published as it is.

    Examples
    --------
    >>> import anonbayes as ab
    >>> frame = pd.DataFrame({"ward": list("aabbb"), "ill": ["flu", "cold", "HIV", "HIV", "HIV"]})
    >>> said = ab.nonstochastic.table_leakage(ab.ReleasedTable.horizontal(frame, "ill"))
    >>> said.homogeneous[["size", "n_values", "revealed"]].values.tolist(), said.exposed
    ([[3, 1, 'HIV']], 3)
    >>> print(said.text)
    1 of 2 groups are homogeneous: the table is 2-anonymous, yet it reveals the sensitive value \
of 3 rows (leakage 1.099 nats).
    """
    domain = table.domains[table.sensitive]
    published = table.group_codes >= 0
    if not published.any():
        raise TableError("Every row is suppressed; there is no group to look at.")
    groups, secrets = table.group_codes[published], table.secret_codes[published]
    relation = Relation.from_pairs(
        secrets, groups, shape=(len(domain), int(groups.max()) + 1), measure=measure
    )
    by_group = relation.matrix.tocsc()
    numbers = relation.range_y
    n_values = np.diff(by_group.indptr)[numbers]
    weights = None if table.weights is None else np.asarray(table.weights, dtype=float)[published]
    sizes = np.bincount(groups, weights).astype(np.int64)[numbers]
    with np.errstate(divide="ignore"):
        whole = float(np.log(relation.measure.sum()))
    disarray = relation.conditional_log_measures
    # Values of size zero (published numbers of a continuous range) leave nothing of the range.
    leaked = np.full(len(disarray), math.inf)
    known = np.isfinite(disarray)
    leaked[known] = whole - disarray[known]
    values = list(domain)
    first = by_group.indices[by_group.indptr[numbers]]
    single = n_values == 1
    only = [values[code] if one else None for code, one in zip(first, single, strict=True)]
    index = pd.Index(numbers, name="group")
    frame = pd.DataFrame(
        {
            "size": sizes,
            "n_values": n_values,
            "disarray": disarray,
            "leakage": leaked,
            "homogeneous": single,
            "revealed": pd.Series(only, index=index, dtype=object),
        },
        index=index,
    )
    return GroupLeakage(relation, frame, len(domain))


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
