"""Global and local recoding along hierarchies."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, overload

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.anonymize.cleartext import (
    Cleartext,
    Levels,
    Trees,
    cell_column,
    check_privacy,
    horizontal_table,
)
from anonbayes.anonymize.lattice import LOSSES, BestNode, Groups, Node, NodeCheck, Search, make_loss
from anonbayes.arrays import Floats, Ints, SmallCodes, read_number
from anonbayes.domains import DomainsByColumn
from anonbayes.errors import AnonymizationError, DomainError, one_of
from anonbayes.tables.evidence import Column
from anonbayes.tables.groups import distinct_rows, numbered_rows
from anonbayes.tables.readers import set_apart
from anonbayes.tables.table import ReleasedTable

# -------------------------------------------------------------------------------------------------
# What would be possible: the error message of an infeasible recoding.


def what_is_possible(records: RecordSet, k: int, l: int, limit: int) -> str:  # noqa: E741
    """Say which k and l the coarsest informative levels reach.

    By monotonicity, only the nodes one step below the top of the lattice matter.
    """
    top = [len(level) - 1 for level in records.levels]
    best_k = best_l = 0
    fewest = records.n_rows
    for a, height in enumerate(top):
        if height == 0:
            continue
        node = [*top[:a], height - 1, *top[a + 1 :]]
        _, rows, secrets = records.group(node)
        best_k = max(best_k, _largest(rows, np.where(secrets >= l, rows, 0), limit))
        best_l = max(best_l, _largest(rows, np.where(rows >= k, secrets, 0), limit))
        fewest = min(fewest, int(rows[(rows < k) | (secrets < l)].sum()))
    reach = [
        f"with l={l}, k can be at most {best_k}" if best_k else f"l={l} is out of reach for any k",
        f"with k={k}, l can be at most {best_l}" if best_l else f"k={k} is out of reach for any l",
    ]
    if fewest < records.n_rows:
        reach.append(
            f"with both, suppression must be at least {fewest}/{records.n_rows} = "
            f"{np.ceil(1e4 * fewest / records.n_rows) / 1e4:g}"
        )
    return (
        f"No levels below '*' in every column satisfy k={k} and l={l} with at most {limit} "
        f"suppressed rows: {'; '.join(reach)}. Lower k or l, allow more suppression, leave "
        "out columns, or add levels to the hierarchies."
    )


def _largest(rows: Floats, score: npt.NDArray[np.generic], limit: int) -> int:
    """Return the largest score to require of groups such that at most `limit` rows fail."""
    order = np.argsort(score, kind="stable")
    values = np.asarray(score)[order]
    # below[i]: rows in groups that score less than the i-th group
    total = np.concatenate([[0.0], np.cumsum(rows[order])])
    below = total[np.searchsorted(values, values, side="left")]
    feasible = values[below <= limit]
    return int(feasible.max(initial=0))


# -------------------------------------------------------------------------------------------------
# Distinct cleartext records, and the groups they form on given levels.

DENSE = 20_000_000


@dataclass(frozen=True, eq=False)
class RecordSet:
    """Distinct rows (quasi-identifiers and secret) with their multiplicities."""

    codes: list[Ints]  # of each record, one array per attribute
    secrets: list[Ints]  # one array per sensitive column
    weights: Floats  # rows of each record
    levels: Sequence[Levels]
    n_secrets: tuple[int, ...]  # sizes of the sensitive domains

    @classmethod
    def of(cls, cleartext: Cleartext, levels: Sequence[Levels]) -> tuple[RecordSet, Ints]:
        """Return the records of a cleartext table, and the record of each of its rows."""
        inverse, first, count = distinct_rows([*cleartext.codes, cleartext.secret])
        records = cls(
            [c[first].astype(np.int64) for c in cleartext.codes],
            [c.codes[first].astype(np.int64) for c in cleartext.secrets.values()],
            count.astype(np.float64),
            levels,
            tuple(len(c.domain) for c in cleartext.secrets.values()),
        )
        return records, inverse

    @property
    def n_rows(self) -> int:
        """Number of rows that the records represent."""
        return int(self.weights.sum())

    def take(self, rows: Ints) -> RecordSet:
        """Return a selection of the records."""
        return RecordSet(
            [c[rows] for c in self.codes],
            [s[rows] for s in self.secrets],
            self.weights[rows],
            self.levels,
            self.n_secrets,
        )

    def group(self, node: Sequence[int]) -> tuple[Ints, Floats, Ints]:
        """Return the group of each record on these levels, and each group's rows and secrets.

        With several sensitive columns, the one with the fewest distinct values counts.
        """
        cells = zip(self.levels, self.codes, node, strict=True)
        group, n_groups = numbered_rows([level.cells[h][codes] for level, codes, h in cells])
        rows: Floats = np.bincount(group, weights=self.weights, minlength=n_groups).astype(float)
        distinct_secrets = [
            _distinct(group, secret, n_groups, size)
            for secret, size in zip(self.secrets, self.n_secrets, strict=True)
        ]
        return group, rows, np.minimum.reduce(distinct_secrets)

    def groups(self, node: Sequence[int], k: int, l: int) -> Groups:  # noqa: E741
        """Group the records on these levels, and mark groups that satisfy k and distinct l."""
        group, rows, secrets = self.group(node)
        kept = (rows >= k) & (secrets >= l)
        return Groups(rows, kept, np.where(kept[group], 0.0, self.weights))


def _distinct(group: Ints, secret: Ints, n_groups: int, n_secrets: int) -> Ints:
    """Number of distinct secrets of each group."""
    pair = group * n_secrets + secret
    if n_groups * n_secrets <= DENSE:
        seen = np.zeros(n_groups * n_secrets, dtype=bool)
        seen[pair] = True
        return seen.reshape(n_groups, n_secrets).sum(axis=1, dtype=np.int64)
    return np.bincount(np.unique(pair) // n_secrets, minlength=n_groups)


# -------------------------------------------------------------------------------------------------
# One search, or several in sequence: global and local recoding as plans.

# Result of each search, with the records that it recodes.
Plan = list[tuple[BestNode, Ints]]

# A local recoding may leave up to half of the rows to later passes at first, and must place at
# least a twentieth of the rest in each, as in ARX's published local tables.
FIRST_PASS = 0.5
LATER_PASSES = 0.95


@dataclass(frozen=True)
class Pass:
    """One search over the lattice.

    Attributes
    ----------
    levels : dict of str to int
        Level of each attribute, counted as in its hierarchy.
    rows : int
        Number of rows recoded to these levels.
    loss : float
        Loss over the rows given to the search, where those left over count as suppressed.
    checked, nodes : int
        Number of nodes checked, and of nodes in the lattice.
    """

    levels: dict[str, int]
    rows: int
    loss: float
    checked: int
    nodes: int


@dataclass(frozen=True)
class Recoding:
    """How a table was recoded.

    Attributes
    ----------
    passes : tuple of Pass
        One for global recoding, one or more for local recoding.
    loss : float
        Loss of the whole release.
    loss_name : str
        Kind of loss.
    suppressed : int
        Number of suppressed rows.
    """

    passes: tuple[Pass, ...]
    loss: float
    loss_name: str
    suppressed: int

    @property
    def levels(self) -> dict[str, int]:
        """Levels of the first pass; for global recoding, those of the whole table."""
        return self.passes[0].levels

    def to_frame(self) -> pd.DataFrame:
        """Return a table with one line per pass: levels, rows, loss, nodes."""
        return pd.DataFrame(
            [
                {**p.levels, "rows": p.rows, "loss": p.loss, "checked": p.checked, "nodes": p.nodes}
                for p in self.passes
            ]
        ).rename_axis(index="pass")


class Recoder:
    """Searches over all records, or over those left by earlier searches."""

    def __init__(self, records: RecordSet, k: int, l: int, loss: str, limit: int) -> None:  # noqa: E741
        self.records, self.k, self.l, self.loss, self.limit = records, k, l, loss, limit

    def _search(self, chosen: Ints, limit: int) -> BestNode | None:
        part = self.records.take(chosen)
        loss = make_loss(self.loss, part.levels, part.codes, part.weights)

        def check(node: Node) -> NodeCheck:
            groups = part.groups(node, self.k, self.l)
            value, above = loss.at(node, groups)
            return NodeCheck(groups.suppressed, value, above, lambda: loss.below(node, groups))

        return Search(loss.floor(), check, limit).run()

    def _kept(self, best: BestNode, chosen: Ints) -> tuple[Ints, Ints]:
        dropped = self.records.take(chosen).groups(best.node, self.k, self.l).dropped > 0
        return chosen[~dropped], chosen[dropped]

    def global_plan(self) -> Plan:
        """Search once, over all records."""
        everyone = np.arange(len(self.records.weights))
        best = self._search(everyone, self.limit)
        if best is None:
            raise AnonymizationError(what_is_possible(self.records, self.k, self.l, self.limit))
        return [(best, self._kept(best, everyone)[0])]

    def local_plan(self) -> Plan:
        """Search again over the remaining records until none is left or none can be placed.

        The first search may leave over more rows than the global one; they count as suppressed in
        its loss, which is still no larger than the global loss, and recoding them later only
        decreases it.
        """
        plan: Plan = []
        rest = np.arange(len(self.records.weights))
        while len(rest):
            rows = int(self.records.weights[rest].sum())
            share = LATER_PASSES if plan else FIRST_PASS
            most = max(math.floor(share * rows), 0 if plan else self.limit)
            best = self._search(rest, min(most, rows - 1))
            if best is None:
                break
            placed, rest = self._kept(best, rest)
            plan.append((best, placed))
        # If too many rows are left over, undo passes until the rest fits in with their rows.
        while plan and self.records.weights[rest].sum() > self.limit:
            rest = np.sort(np.concatenate([rest, plan.pop()[1]]))
            best = self._search(rest, self.limit)
            if best is not None:
                placed, rest = self._kept(best, rest)
                plan.append((best, placed))
        return plan or self.global_plan()

    def describe(self, best: BestNode, rows: Ints, names: Sequence[str]) -> Pass:
        """Return levels, rows and loss of one search."""
        shape = [len(level) for level in self.records.levels]
        numbers = [v.numbers[h] for v, h in zip(self.records.levels, best.node, strict=True)]
        return Pass(
            dict(zip(names, numbers, strict=True)),
            int(self.records.weights[rows].sum()),
            best.check.loss,
            best.checked,
            math.prod(shape),
        )

    def heights(self, plan: Plan) -> list[Ints]:
        """Return the level of each record, by attribute; the top for records left over."""
        heights = [np.full(len(self.records.weights), len(v) - 1) for v in self.records.levels]
        for best, rows in plan:
            for height, level in zip(heights, best.node, strict=True):
                height[rows] = level
        return heights

    def loss_of(self, plan: Plan, group_sizes: Floats) -> float:
        """Compute the loss of the whole release."""
        r = self.records
        return make_loss(self.loss, r.levels, r.codes, r.weights).mixed(
            self.heights(plan), group_sizes
        )


# -------------------------------------------------------------------------------------------------
# Global and local recoding: every attribute is shown on a level of its hierarchy.

LARGEST_LATTICE = 5_000_000


@overload
def recode(
    df: pd.DataFrame,
    sensitive: str | Iterable[str],
    hierarchies: Trees,
    k: int,
    l: int = ...,  # noqa: E741
    *,
    suppression: float = ...,
    local: bool = ...,
    loss: str = ...,
    quasi_identifiers: Iterable[str] | None = ...,
    domains: DomainsByColumn | None = ...,
    return_recoding: Literal[False] = ...,
) -> ReleasedTable: ...
@overload
def recode(
    df: pd.DataFrame,
    sensitive: str | Iterable[str],
    hierarchies: Trees,
    k: int,
    l: int = ...,  # noqa: E741
    *,
    suppression: float = ...,
    local: bool = ...,
    loss: str = ...,
    quasi_identifiers: Iterable[str] | None = ...,
    domains: DomainsByColumn | None = ...,
    return_recoding: Literal[True],
) -> tuple[ReleasedTable, Recoding]: ...
def recode(
    df: pd.DataFrame,
    sensitive: str | Iterable[str],
    hierarchies: Trees,
    k: int,
    l: int = 1,  # noqa: E741
    *,
    suppression: float = 0.0,
    local: bool = False,
    loss: str = "loss",
    quasi_identifiers: Iterable[str] | None = None,
    domains: DomainsByColumn | None = None,
    return_recoding: bool = False,
) -> ReleasedTable | tuple[ReleasedTable, Recoding]:
    """Generalize each attribute to a level of its hierarchy, with the least possible loss.

    Groups smaller than `k` or with fewer than `l` distinct sensitive values are suppressed: their
    rows show ``*`` in every quasi-identifier and keep their sensitive value. Global recoding uses
    one level per attribute for all rows and is optimal: no other levels have a smaller loss. Local
    recoding then recodes the rows that would be suppressed at other levels, until there is no
    further gain. Each pass is optimal for its rows and the sequence is greedy; the loss is never
    larger than with global recoding.

    Parameters
    ----------
    df : pandas.DataFrame
        Cleartext, one row per person.
    sensitive : str or several str
        Sensitive column, released unchanged; if several, each has `l` values in every group.
    hierarchies : mapping or path
        Hierarchy (or its ARX file) of each quasi-identifier, or a directory of such files.
    k : int
        Least size of a group.
    l : int
        Least number of distinct sensitive values of a group (distinct l-diversity).
    suppression : float
        Largest share of rows that the release may suppress.
    local : bool
        Whether to recode suppressed rows again.
    loss : {"loss", "mean_loss", "entropy", "precision", "discernibility"}
        What to minimise. ``"loss"`` is ARX's *Loss* with default settings: the share of an
        attribute's domain that a cell covers, scaled so that values in clear lose 0 and ``*`` loses
        1, averaged over rows, and combined over attributes by ``prod(1 + loss_a)^(1/A) - 1``.
        ``"mean_loss"`` uses the arithmetic mean over attributes. ``"entropy"`` is the number of
        bits hidden, relative to hiding everything; ``"precision"`` the height in the hierarchy.
        ``"discernibility"`` is ARX's *Discernability*: for each row the number of rows in its
        group, or of all rows if it is suppressed.
    quasi_identifiers : iterable of str, optional
        Columns to recode; by default all others. The rest is not released.
    domains : mapping, optional
        Domain, or list of values, by column; by default the leaves of the hierarchy.
    return_recoding : bool
        Whether to also return the levels, the loss and the search.

    Returns
    -------
    ReleasedTable
        A horizontal table with rows in the order of `df`; suppressed rows belong to no group.
    Recoding
        Only with ``return_recoding=True``.

    Raises
    ------
    AnonymizationError
        If no levels satisfy k, l and the limit; the message says what is possible. A release
        that shows nothing at all does not count.

    Notes
    -----
    The search is exact because violations of k and of distinct l are monotone (see `lattice`). Ties
    are resolved by fewer suppressed rows, then lower levels, then the order of columns, so the
    result is deterministic.

    Examples
    --------
    >>> import pandas as pd
    >>> import anonbayes as ab
    >>> df = pd.DataFrame({"zip": ["11", "12", "21", "22"], "ill": ["flu", "cold", "flu", "cold"]})
    >>> tree = {"zip": ab.Hierarchy.from_prefix(["11", "12", "21", "22"])}
    >>> ab.anonymize.recode(df, "ill", tree, k=2, l=2).to_frame()["zip"].tolist()
    ['1*', '1*', '2*', '2*']
    """
    one_of("loss", loss, LOSSES)
    share = read_number("suppression", suppression, error=AnonymizationError)
    if not 0.0 <= share <= 1.0:
        raise AnonymizationError(f"suppression={share!r} must be a share of rows, from 0 to 1.")
    cleartext = Cleartext.of(
        df, sensitive, quasi_identifiers=quasi_identifiers, domains=domains, hierarchies=hierarchies
    )
    k, l = check_privacy(cleartext, k, l)  # noqa: E741
    for domain in cleartext.domains.values():
        if "*" in domain.by_label:
            raise DomainError(
                f"Column {domain.name!r} contains the value '*', which marks suppressed rows; "
                "rename it."
            )
    levels = [Levels.of(domain) for domain in cleartext.domains.values()]
    _check_size(cleartext, levels)
    records, record_of = RecordSet.of(cleartext, levels)
    recoder = Recoder(records, k, l, loss, math.floor(share * cleartext.n_rows + 1e-9))
    plan = recoder.local_plan() if local else recoder.global_plan()
    table = set_apart(_release(cleartext, levels, recoder.heights(plan), record_of))
    if not return_recoding:
        return table
    names = list(cleartext.domains)
    passes = tuple(recoder.describe(best, rows, names) for best, rows in plan)
    total = recoder.loss_of(plan, table.group_sizes.to_numpy(dtype=float))
    return table, Recoding(passes, total, loss, table.n_suppressed)


def _release(
    cleartext: Cleartext, levels: Sequence[Levels], heights: Sequence[Ints], record_of: Ints
) -> ReleasedTable:
    """Table whose rows show the cells on their record's levels."""
    columns = [
        _column(level, height[record_of], codes)
        for level, height, codes in zip(levels, heights, cleartext.codes, strict=True)
    ]
    return horizontal_table(cleartext, dict(zip(cleartext.domains, columns, strict=True)))


def _column(level: Levels, height: Ints, codes: SmallCodes) -> Column:
    width = len(level.domain)
    return cell_column(
        level.domain,
        height * width + level.cells[height, codes],
        lambda cell: level.members(*divmod(cell, width)),
        lambda cell, members: level.label(cell // width, members),
    )


def _check_size(cleartext: Cleartext, levels: Sequence[Levels]) -> None:
    nodes = math.prod(len(level) for level in levels)
    if nodes > LARGEST_LATTICE:
        shape = ", ".join(f"{n}: {len(v)}" for n, v in zip(cleartext.domains, levels, strict=True))
        raise AnonymizationError(
            f"The lattice has {nodes:,} nodes (levels of {shape}), but at most {LARGEST_LATTICE:,} "
            "can be searched. Use hierarchies with fewer levels, or leave out columns."
        )
