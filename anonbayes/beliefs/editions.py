"""Several releases about the same people: what they say together (MODEL 1.10).

A person's secret must fit all of them. Vertical tables of the same people are read together
(`joint_groups`). Horizontal releases enter person by person, by what each adds to the learner's
belief, ``p_A / p_L``; linked by a key they are one release whose cells are the intersections, and
two small ones are linked in every way that fits.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import sparse

from anonbayes.arrays import Floats, Ints
from anonbayes.beliefs.attacker import told_by
from anonbayes.beliefs.learner import learner_weights
from anonbayes.beliefs.victims import Victims
from anonbayes.domains import Domain, plain
from anonbayes.errors import TableError, one_of
from anonbayes.inference.vertical.group_engine import layout_of
from anonbayes.inference.vertical.group_layout import VerticalLayout
from anonbayes.inference.vertical.joint_groups import (
    Edition,
    Joint,
    join_groups,
    link_sides,
    link_tops,
)
from anonbayes.tables.evidence import Column, Evidence
from anonbayes.tables.groups import derived_groups, distinct_rows
from anonbayes.tables.table import ReleasedTable

if TYPE_CHECKING:
    from anonbayes.inference.posterior import Posterior

__all__ = [
    "Editions",
    "People",
    "all_matchings",
    "join_editions",
    "join_matched",
    "merge_by_key",
    "padded",
    "person_codes",
]

TINY = 1e-30
MOST_MATCHED_ROWS, MOST_MATCHINGS = 24, 500
"""Horizontal releases whose rows can be matched in more ways are heard apart."""

People = str | Sequence[Sequence[Hashable]]


@dataclass(frozen=True, eq=False)
class Editions:
    """Further releases about the people of a table. Made by ``fit([first, second, ...])``.

    Attributes
    ----------
    apart : tuple of Posterior
        Releases that inform about a person independently of the first: what they add is multiplied.
    joint : Joint or None
        What all vertical releases say together about the items of the first, if it is vertical.
    words : str
        What the attacker holds, in one sentence.
    matched : tuple of pairs
        Of small horizontal releases every way to match their rows: its probability, and the
        posterior of the rows so linked. Nothing else is asked then.
    """

    apart: tuple[Posterior, ...]
    joint: Joint | None
    words: str
    matched: tuple[tuple[float, Posterior], ...] = ()


def join_editions(posts: Sequence[Posterior], people: People) -> Posterior:
    """Posterior of the first of several releases, with what the others add to its attacker.

    Parameters
    ----------
    posts : sequence of Posterior
        One for each release.
    people : {"records"} or sequence of sequences
        How people are matched; see `person_codes`. Horizontal releases that are linked by keys are
        merged before they are fitted (`merge_by_key`).
    """
    first, *others = posts
    for number, post in enumerate(others, start=2):
        if post.table.sensitive != first.table.sensitive:
            raise TableError(
                f"The sensitive column is {first.table.sensitive!r} in release 1 but "
                f"{post.table.sensitive!r} in release {number}; give both the same name."
            )
    vertical = [post for post in posts if post.table.scheme == "vertical"]
    horizontal = [post for post in others if post.table.scheme == "horizontal"]
    joint = None
    if len(vertical) > 1 or first.table.scheme == "vertical":
        told = horizontal if first.table.scheme == "vertical" else []
        joint = _joint(vertical, people, told)
    words = _words(posts, joint, people)
    if first.table.scheme == "vertical":
        return replace(first, editions=Editions((), joint, words))
    if vertical:
        horizontal.append(replace(vertical[0], editions=Editions((), joint, words)))
    return replace(first, editions=Editions(tuple(horizontal), None, words))


def _joint(posts: Sequence[Posterior], people: People, apart: Sequence[Posterior]) -> Joint:
    """What vertical releases say together; `apart` are horizontal ones, heard item by item."""
    codes = person_codes([post.table for post in posts], people)
    known = list(dict.fromkeys(v for post in posts for v in post.table.secret.domain.labels))
    place = {label: code for code, label in enumerate(known)}
    number = np.zeros(max(int(code.max()) for code in codes) + 1)
    for code in codes:
        number[np.unique(code)] += 1
    editions = []
    for post, code in zip(posts, codes, strict=True):
        layout = layout_of(post.table)
        secrets = np.array([place[label] for label in post.table.secret.domain.labels])
        told = told_by_values(post, layout)
        told **= np.repeat(1.0 / number[code], np.diff(layout.arrays.links))  # each person once
        if post is posts[0]:
            for other in apart:
                told *= _on_links(layout, told_by(other, post.table, _items_as_victims(layout)))
        layout = replace_secrets(layout, secrets[layout.secrets], len(known))
        editions.append(Edition(layout, code, told))
    return join_groups(editions, labels=known)[0].narrowed(len(posts[0].table.secret.domain))


def told_by_values(post: Posterior, layout: VerticalLayout) -> Floats:
    """What an item's values tell about its secret, on the links: the learner's weights.

    Cross-fitted groups are judged by what the other folds teach (MODEL 1.9).
    """
    if post.method != "crossfit":
        return _on_links(layout, learner_weights(post, _items_as_victims(layout), "predictive")[0])
    kept, eta = post.groups["averages"], post.eta
    assert eta is not None
    fold = kept["fold"].to_numpy().ravel().astype(np.int64)[layout.groups]
    lifts = kept["left_out_lifts"].to_numpy().reshape(-1, layout.n_cells)
    side = link_sides(layout)
    item = np.repeat(np.arange(layout.n_rows), np.diff(side.links))
    score = np.log(post.secret_mean)[side.columns]
    for a, part in enumerate(layout.split(lifts)):
        score += eta[a] * part[fold[item], side.columns, layout.items[item, a]]
    return np.exp(score - link_tops(side, score))


def _items_as_victims(layout: VerticalLayout) -> Victims:
    exact = tuple(sparse.csr_array(sparse.eye_array(k, format="csr")) for k in layout.sizes)
    inverse, first, _ = distinct_rows(list(layout.items.T))
    return Victims(layout.items[first], exact, inverse, pd.RangeIndex(layout.n_rows))


def _on_links(layout: VerticalLayout, weights: Floats) -> Floats:
    """Weights of distinct items and secrets on the links of every item, at most one."""
    side = link_sides(layout)
    inverse = _items_as_victims(layout).inverse
    item = np.repeat(inverse, np.diff(side.links))
    values = np.maximum(weights[item, side.columns], TINY)
    return values / link_tops(side, values)


def replace_secrets(layout: VerticalLayout, secrets: Ints, size: int) -> VerticalLayout:
    """The same table with other codes of its secrets, in which links may stand elsewhere."""
    return VerticalLayout(layout.items, secrets, layout.offsets, layout.sizes, size)


def _words(posts: Sequence[Posterior], joint: Joint | None, people: People) -> str:
    n = len(posts) - 1
    text = f"The attacker also holds {n} more release{'s' if n > 1 else ''} about the same people."
    if joint is None:
        return text
    by = "records" if isinstance(people, str) else "keys"
    text += f" Rows are matched by their {by}; {joint.linked:.0%} have a single counterpart."
    if joint.change > 0.05:
        text += (
            " For some people, beliefs from all releases together did not converge; see the limits."
        )
    return text


# -- small horizontal releases, matched in every way ----------------------------------------------


def all_matchings(tables: Sequence[ReleasedTable]) -> list[Ints] | None:
    """Every way to match the rows of two horizontal releases of the same people.

    Rows match if they show the same secret and have a value in common in each shared attribute.
    None where there are more than `MOST_MATCHINGS`, or the releases differ in kind or in people.

    Examples
    --------
    >>> frame = pd.DataFrame({"age": ["20-24", "20-29", "25-29"], "ill": ["flu", "flu", "cold"]})
    >>> table = ReleasedTable.horizontal(frame, "ill", domains={"age": range(20, 30)})
    >>> [rows.tolist() for rows in all_matchings([table, table])]
    [[0, 1, 2], [1, 0, 2]]
    """
    if len(tables) != 2 or any(
        t.scheme != "horizontal" or t.weights is not None or not t.secrets_known for t in tables
    ):
        return None
    one, two = tables
    if one.n_lines != two.n_lines or one.n_lines > MOST_MATCHED_ROWS:
        return None
    fits = one.secret.labels().astype(str)[:, None] == two.secret.labels().astype(str)
    for name in set(one.columns) & set(two.columns):
        own, other = one.columns[name], two.columns[name]
        theirs = other.evidence.matrix @ _in_terms_of(own.domain, other.domain)
        meet = (own.evidence.matrix @ theirs.T).toarray() > 0
        fits &= meet[np.ix_(own.codes, other.codes)]
    found: list[tuple[int, ...]] = [()]
    for row in range(one.n_lines):
        free = np.flatnonzero(fits[row]).tolist()
        found = [(*start, j) for start in found for j in free if j not in start]
        if len(found) > MOST_MATCHINGS:
            return None
    return [np.array(rows) for rows in found] or None


def join_matched(joined: Posterior, ways: Sequence[Posterior]) -> Posterior:
    """Posterior of two small releases from those of every way to match their rows.

    A way is as probable as the cells that it makes: the evidence of its closed form (MODEL 1.2).
    """
    log = np.array([sum(t.log_evidence.sum() for t in post.trees.values()) for post in ways])
    share = np.exp(log - log.max())
    pairs = tuple(zip((share / share.sum()).tolist(), ways, strict=True))
    assert joined.editions is not None
    words = f"{joined.editions.words} Their rows were matched in all {len(ways):,} ways that fit."
    return replace(joined, editions=Editions((), None, words, pairs))


# -- who is who -----------------------------------------------------------------------------------


def person_codes(tables: Sequence[ReleasedTable], people: People) -> list[Ints]:
    """Code of the person, or of the record, of every line of several tables.

    Parameters
    ----------
    tables : sequence of ReleasedTable
        The tables.
    people : {"records", "rows"} or sequence of sequences
        ``"records"``: lines that agree in all attributes the tables share may be the same person.
        ``"rows"``: line by line, the same person. Otherwise the key of each line, table by table,
        in the order of ``table.to_frame()``.

    Examples
    --------
    >>> import anonbayes as ab
    >>> table = ab.datasets.load("table1_anatomy")
    >>> [codes.tolist() for codes in person_codes([table, table], [range(8), range(7, -1, -1)])]
    [[0, 1, 2, 3, 4, 5, 6, 7], [7, 6, 5, 4, 3, 2, 1, 0]]
    """
    if isinstance(people, str):
        one_of("people", people, ("records", "rows"))
        if people == "records":
            return _record_codes(tables)
        if any(table.scheme == "vertical" for table in tables):
            raise TableError(
                "people='rows' needs horizontal releases, because the rows of a vertical one are "
                "sorted by group. Give the key of every row instead."
            )
        people = [range(table.n_lines) for table in tables]
    keys = [pd.Index(list(one), tupleize_cols=False) for one in people]
    if len(keys) != len(tables):
        raise TableError(
            f"people= has keys for {len(keys)} releases, but there are {len(tables)} releases."
        )
    for number, (key, table) in enumerate(zip(keys, tables, strict=True), start=1):
        if len(key) != table.n_lines:
            raise TableError(
                f"Release {number} has {table.n_lines:,} rows, but people= has {len(key):,} keys "
                "for it."
            )
        if key.hasnans or key.has_duplicates:
            row = int(np.argmax(key.isna() | key.duplicated()))
            raise TableError(
                f"Release {number}, row {row}: the key {plain(key[row])!r} is missing or repeats "
                "an earlier row's. A key identifies one person; to match equal records, use "
                "people='records'."
            )
    known = keys[0]
    for key in keys[1:]:
        known = known.union(key, sort=False)
    codes = [known.get_indexer(key).astype(np.int64) for key in keys]
    for number, (key, code) in enumerate(zip(keys[1:], codes[1:], strict=True), start=2):
        if not np.isin(code, codes[0]).any():
            raise TableError(
                f"Releases 1 and {number} have no person in common: keys of the first look like "
                f"{plain(keys[0][0])!r}, keys of the other like {plain(key[0])!r}."
            )
    return codes


def _record_codes(tables: Sequence[ReleasedTable]) -> list[Ints]:
    first = tables[0]
    shared = [name for name in first.attributes if all(name in t.columns for t in tables)]
    if not shared:
        raise TableError(
            "The releases share no attribute by which their rows could be matched; give the key of "
            "every row with people=[keys of the first, keys of the second, ...]."
        )
    columns = []
    for name in shared:
        values = pd.Index(np.concatenate([np.array(t.domains[name].labels) for t in tables]))
        place, _ = pd.factorize(values)
        cuts = np.cumsum([0, *(len(t.domains[name]) for t in tables)])
        parts = [
            place[cut : cut + len(t.domains[name])][t.columns[name].codes]
            for cut, t in zip(cuts, tables, strict=False)
        ]
        columns.append(np.concatenate(parts))
    codes = distinct_rows(columns)[0]
    return np.split(codes, np.cumsum([t.n_lines for t in tables])[:-1])


def merge_by_key(tables: Sequence[ReleasedTable], people: People) -> ReleasedTable:
    """One horizontal table from several whose rows are linked: its cells are intersections.

    The first table must be horizontal and says who is in the result. Of a vertical table the values
    in clear count; its secrets are known from the first.

    Examples
    --------
    >>> frame = pd.DataFrame({"age": ["20-24", "25-29"], "ill": ["flu", "cold"]})
    >>> first = ReleasedTable.horizontal(frame, "ill", domains={"age": range(20, 30)})
    >>> frame = pd.DataFrame({"age": ["28-31", "24-27"], "ill": ["cold", "flu"]})
    >>> second = ReleasedTable.horizontal(frame, "ill", domains={"age": range(20, 32)})
    >>> merge_by_key([first, second], [["a", "b"], ["b", "a"]]).to_frame()["age"].tolist()
    [24, (28, 29)]
    """
    first = tables[0]
    if first.scheme != "horizontal" or any(t.weights is not None for t in tables):
        raise TableError(
            "When releases are linked by a key, the first must be horizontal and have one line "
            "per row."
        )
    codes = person_codes(tables, people)
    columns = dict(first.columns)
    for number, (table, code) in enumerate(zip(tables[1:], codes[1:], strict=True), start=2):
        place = np.full(max(int(c.max()) for c in codes) + 1, -1)
        place[code] = np.arange(len(code))
        row = place[codes[0]]
        if table.scheme == "horizontal" and table.sensitive == first.sensitive:
            _check_secrets(first, table, row, number)
        for name, column in table.columns.items():
            own = columns.get(name) or Column(_anything(column.domain), np.zeros(len(row), int))
            columns[name] = _intersected(own, column, row, number)
    groups, labels = derived_groups([c.codes for c in columns.values()], first.group_codes < 0)
    return ReleasedTable("horizontal", first.sensitive, columns, first.secret, groups, labels, None)


def padded(tables: Sequence[ReleasedTable]) -> ReleasedTable:
    """The first table with the attributes that only the others have, as suppressed cells.

    Questions about a person may then mention what only another release shows. A vertical table,
    which shows values in clear, stays as it is.
    """
    first = tables[0]
    if first.scheme == "vertical":
        return first
    columns = dict(first.columns)
    for table in tables[1:]:
        for name, column in table.columns.items():
            if name not in columns:
                shown = np.zeros(first.n_lines, dtype=np.int64)
                columns[name] = Column(_anything(column.domain), shown)
    return replace(first, columns=columns)


def _anything(domain: Domain) -> Evidence:
    whole = np.arange(len(domain))
    return Evidence.from_members(domain, [whole], ["*"])


def _check_secrets(first: ReleasedTable, table: ReleasedTable, row: Ints, number: int) -> None:
    one, two = (t.secret.labels().astype(str) for t in (first, table))
    wrong = np.flatnonzero((row >= 0) & (one != two[row]))
    if len(wrong):
        raise TableError(
            f"Row {wrong[0]} of release 1 and row {row[wrong[0]]} of release {number} have the "
            f"same key, but {first.sensitive!r} is {str(one[wrong[0]])!r} in one and "
            f"{str(two[row[wrong[0]]])!r} in the other ({len(wrong):,} such rows)."
        )


def _in_terms_of(domain: Domain, other: Domain) -> sparse.csr_array:
    """Which value of a domain is which of another, shape ``(len(other), len(domain))``."""
    known = {str(value): k for k, value in enumerate(other.values)}
    values = np.array([known.get(str(value), -1) for value in domain.values])
    there = np.flatnonzero(values >= 0)
    shape = (len(other), len(domain))
    return sparse.csr_array((np.ones(len(there)), (values[there], there)), shape=shape)


def _intersected(own: Column, other: Column, row: Ints, number: int) -> Column:
    """Cells of a column times those of its counterpart, where there is one."""
    domain = own.domain
    to_own = _in_terms_of(domain, other.domain)
    theirs = sparse.vstack([other.evidence.matrix @ to_own, np.ones((1, len(domain)))])
    code = np.where(row < 0, len(other.evidence), other.codes[row])
    inverse, first, _ = distinct_rows([own.codes.astype(np.int64), code])
    cells = own.evidence.matrix[own.codes[first]].multiply(theirs.tocsr()[code[first]])
    cells = sparse.csr_array(cells)
    cells.eliminate_zeros()
    empty = np.flatnonzero(np.diff(cells.indptr) == 0)
    if len(empty):
        line = int(first[empty[0]])
        raise TableError(
            f"Column {domain.name!r}: row {line} of release 1 shows {own.labels()[line]!r}, and "
            f"row {row[line]} of release {number}, which has the same key, shows "
            f"{other.labels()[row[line]]!r}; no value fits both."
        )
    cells.sort_indices()
    if own.evidence.is_hard and other.evidence.is_hard:
        return _set_column(domain, cells, inverse)
    return Column(Evidence(domain, tuple(range(cells.shape[0])), cells), inverse)


def _set_column(domain: Domain, cells: sparse.csr_array, inverse: Ints) -> Column:
    """Column of sets of values; equal sets are one cell."""
    sets = [tuple(part.tolist()) for part in np.split(cells.indices, cells.indptr[1:-1])]
    place = {members: i for i, members in enumerate(dict.fromkeys(sets))}
    labels: list[Any] = []
    for members in place:
        shown = tuple(domain.values[k] for k in members)
        labels.append("*" if len(shown) == len(domain) else shown if len(shown) > 1 else shown[0])
    evidence = Evidence.from_members(domain, list(place), labels)
    return Column(evidence, np.array([place[s] for s in sets])[inverse])
