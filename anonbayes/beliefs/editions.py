"""Several releases about the same people, and what they reveal together (MODEL 1.10).

A person's secret must be consistent with all of them. For small releases, all possible worlds are
enumerated (`worlds`). Vertical tables of the same people are analysed jointly (`joint_groups`).
Horizontal releases linked by a key become one release whose cells are the intersections; without a
key, the links are expected numbers. Releases of different kinds are combined person by person,
using the factor ``p_A / p_L`` by which each changes the learner's belief.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy import sparse

from anonbayes.arrays import Floats, Ints
from anonbayes.beliefs.attacker import added_by
from anonbayes.beliefs.index import IndexedRecords, RecordIndex, records_of
from anonbayes.beliefs.learner import learner_weights, mean_shares
from anonbayes.beliefs.victims import Victims, by_secret, same_values
from anonbayes.beliefs.worlds import Worlds, list_worlds
from anonbayes.domains import Domain, plain
from anonbayes.errors import TableError, one_of
from anonbayes.formats import count
from anonbayes.inference.vertical.group_layout import VerticalLayout, layout_of
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


TINY = 1e-30
LEAST_LINK = 1e-9
"""Least share of the people of one release assumed missing from another."""
SCALINGS, SETTLED = 500, 1e-6
"""Most rounds of scaling expected links, and the relative change of a margin that ends them."""
MOST_PAIRS = 50_000_000
"""Most pairs of records for linking horizontal releases; more are combined one by one."""

People = str | Sequence[Sequence[Hashable]]


@dataclass(frozen=True, eq=False)
class Editions:
    """Further releases about the people of a table. Made by ``fit([first, second, ...])``.

    The factors of the releases in `apart` are multiplied, except for those in `linked`.
    """

    apart: tuple[Posterior, ...]  # releases that are combined person by person
    joint: Joint | None  # secrets of the first release's items given all vertical releases
    words: str  # what the attacker has, and how it was used
    worlds: Worlds | None = None  # all possible worlds of small releases; replaces the rest
    linked: IndexedRecords | None = None  # expected rows by what horizontal releases show


def join_editions(posts: Sequence[Posterior], people: People) -> Posterior:
    """Posterior of the first of several releases, with what the others add for its attacker.

    People are matched as in `person_codes`. If the first release is horizontal and linked to the
    others by keys, its cells are replaced by the intersections (`merge_by_key`).
    """
    first, *others = posts
    for number, post in enumerate(others, start=2):
        if post.table.sensitive != first.table.sensitive:
            raise TableError(
                f"The sensitive column is {first.table.sensitive!r} in release 1 but "
                f"{post.table.sensitive!r} in release {number}; give both the same name."
            )
    keys = None if isinstance(people, str) else person_codes([p.table for p in posts], people)
    vertical = [post for post in posts if post.table.scheme == "vertical"]
    joint = linked = None
    if len(vertical) > 1 or first.table.scheme == "vertical":
        joint = _joint(posts, keys)
    worlds = list_worlds(posts, keys)
    apart = [post for post in others if post.table.scheme == "horizontal"]
    if first.table.scheme == "horizontal" and apart and worlds is None:
        linked = link_rows(first, apart)
    words = _words(posts, joint, keys, worlds, linked)
    if first.table.scheme == "vertical":
        apart = []
    elif vertical:
        apart.append(replace(vertical[0], editions=Editions((), joint, words)))
        joint = None
    return replace(first, editions=Editions(tuple(apart), joint, words, worlds, linked))


def _joint(posts: Sequence[Posterior], keys: Sequence[Ints] | None) -> Joint:
    """Analyse vertical releases jointly; horizontal ones contribute item by item."""
    vertical = [e for e, post in enumerate(posts) if post.table.scheme == "vertical"]
    tables = [posts[e].table for e in vertical]
    codes = person_codes(tables, "records") if keys is None else [keys[e] for e in vertical]
    known = list(dict.fromkeys(v for table in tables for v in table.secret.domain.labels))
    place = {label: code for code, label in enumerate(known)}
    number = np.zeros(max(int(code.max()) for code in codes) + 1)
    for code in codes:
        number[np.unique(code)] += 1
    editions = []
    for e, code in zip(vertical, codes, strict=True):
        post, layout = posts[e], layout_of(posts[e].table)
        secrets = np.array([place[label] for label in post.table.secret.domain.labels])
        told = weights_by_values(post, layout)
        told **= np.repeat(1.0 / number[code], np.diff(layout.arrays.links))  # each person once
        for other, of_other in enumerate(posts if e == 0 else ()):
            if of_other.table.scheme == "horizontal":
                if keys is None:
                    weights = added_by(of_other, post.table, _items_as_victims(layout))
                    told *= _on_links(layout, weights, _items_as_victims(layout).inverse)
                else:
                    shown = _secrets_by_key(posts, keys, other)
                    told *= _on_links(layout, shown, np.arange(layout.n_rows))
        layout = VerticalLayout(  # with the codes of the secrets of all releases
            layout.items, secrets[layout.secrets], layout.offsets, layout.sizes, len(known)
        )
        editions.append(Edition(layout, code, told))
    return join_groups(editions, labels=known)[0].narrowed(len(tables[0].secret.domain))


def _secrets_by_key(posts: Sequence[Posterior], keys: Sequence[Ints], number: int) -> Floats:
    """Secrets that a horizontal release shows for the items of the first, an Anatomy: 0 or 1."""
    first, other = posts[0].table, posts[number].table
    place = np.full(max(int(code.max()) for code in keys) + 1, -1)
    place[keys[number]] = np.arange(len(keys[number]))
    row = place[keys[0]]
    shown = other.secret.evidence.matrix.toarray()[other.secret.codes[row]]
    out = np.where(row[:, None] < 0, 1.0, by_secret(shown, other, first))
    group = np.zeros((first.n_groups, out.shape[1]), dtype=bool)
    group[first.group_codes, first.secret_codes] = True
    wrong = np.flatnonzero(~(out * group[first.group_codes]).any(axis=1))
    if len(wrong):
        line = int(wrong[0])
        shown, group_of = other.secret.labels()[row[line]], first.group_codes[line]
        raise TableError(
            f"Row {line} of release 1 and row {row[line]} of release {number + 1} have the same "
            f"key, but there {first.sensitive!r} is {shown!r}, which is not among the values of "
            f"group {plain(first.group_labels[group_of])!r} of release 1 "
            f"({count(len(wrong), 'such row')})."
        )
    for name in set(first.columns) & set(other.columns):
        column = first.columns[name]
        own = Column(column.evidence, column.codes)
        _intersected(own, other.columns[name], row, number + 1)  # raises an error if none fits
    return out


def weights_by_values(post: Posterior, layout: VerticalLayout) -> Floats:
    """Probability of each linked secret given an item's values: the learner's weights.

    Cross-fitted groups use what was learned from the other folds (MODEL 1.9).
    """
    if post.method != "crossfit":
        victims = _items_as_victims(layout)
        return _on_links(layout, learner_weights(post, victims)[0], victims.inverse)
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
    inverse, first, _ = distinct_rows(list(layout.items.T))
    distinct = Victims.of_records(layout.items[first], layout.sizes)
    return replace(distinct, inverse=inverse, index=pd.RangeIndex(layout.n_rows))


def _on_links(layout: VerticalLayout, weights: Floats, inverse: Ints) -> Floats:
    """Weights by secret on the links of every item, at most one; `inverse` is the item's line."""
    side = link_sides(layout)
    item = np.repeat(inverse, np.diff(side.links))
    values = np.maximum(weights[item, side.columns], TINY)
    return values / link_tops(side, values)


def _words(
    posts: Sequence[Posterior],
    joint: Joint | None,
    keys: Sequence[Ints] | None,
    worlds: Worlds | None,
    linked: IndexedRecords | None,
) -> str:
    n = len(posts) - 1
    text = f"The attacker also has {n} more release{'s' if n > 1 else ''} about the same people."
    if worlds is not None:
        ways = f"{worlds.matchings:,.0f} way{'s' if worlds.matchings > 1 else ''} to match people"
        return f"{text} All possible worlds were enumerated ({ways}), so this is exact."
    if joint is not None:
        by = "records" if keys is None else "keys"
        text += f" Rows are matched by their {by}; {joint.linked:.0%} have a single counterpart."
        if joint.change > 0.05:
            text += (
                " For some people, beliefs from all releases together did not converge; see the "
                "limits."
            )
    if linked is not None:
        text += " Which rows belong to the same person was estimated, for each sensitive value."
    schemes = [post.table.scheme for post in posts]
    if keys is None and (len(set(schemes)) > 1 or (schemes[0] == "horizontal" and linked is None)):
        text += (
            " Each release was combined as if the others said nothing about who is who; "
            "together they may reveal more."
        )
    return text


# -- horizontal releases without a key: expected links --------------------------------------------


def link_rows(first: Posterior, others: Sequence[Posterior]) -> IndexedRecords | None:
    """Expected number of rows by what all releases show about them, and by secret.

    Rows of two releases with cells y and z and the same secret s belong to the same person with
    odds ``pi_s(y and z) / (pi_s(y) pi_s(z))``, and every row has at most one counterpart. The
    expected numbers of links between cells have these odds and the margins of the releases; they
    are computed by alternate scaling (Sinkhorn). As many people as possible are identified. None if
    there are too many pairs.
    """
    rows, table, means = records_of(first.table), first.table, mean_shares(first)
    for other in others:
        there, columns = records_of(other.table), []
        for name, domain in zip(table.attributes, table.domains.values(), strict=False):
            cells, codes = np.ones((1, len(domain))), np.zeros(len(there.index.codes), dtype=int)
            if name in other.table.columns:
                a = other.table.attributes.index(name)
                cells = there.evidence[a] @ same_values(other.table.domains[name], domain)
                codes = there.index.codes[:, a]
            columns.append((sparse.csr_array(cells), codes))
        counts = by_secret(there.secrets, other.table, table)
        if len(rows.secrets) * len(counts) > MOST_PAIRS:
            return None
        rows = _link(rows, columns, counts, means, first)
    return rows


def _link(
    rows: IndexedRecords,
    columns: Sequence[tuple[sparse.csr_array, Ints]],
    counts: Floats,
    means: Sequence[Floats],
    model: Posterior,
) -> IndexedRecords:
    """Link records with another release, given by its cells, their codes, and its rows."""
    own, n_one, n_two = rows.index.codes, len(rows.secrets), len(counts)
    fits = rows.secrets @ counts.T > 0
    for a, (cells, code) in enumerate(columns):
        meet = (rows.evidence[a] @ cells.T).toarray() > 0
        fits &= meet[np.ix_(own[:, a], code)]
    one, two = np.nonzero(fits)
    # Someone in only one release is linked to the last record of the other, which means nobody.
    one = np.concatenate([one, np.arange(n_one), np.full(n_two, n_one)])
    two = np.concatenate([two, np.full(n_one, n_two), np.arange(n_two)])
    share, log = model.secret_mean, np.zeros((len(one), counts.shape[1]))
    evidence, codes = [], []
    for a, (cells, code) in enumerate(columns):
        anything = np.ones((1, cells.shape[1]))
        mine, theirs = (
            sparse.csr_array(sparse.vstack([x, anything])) for x in (rows.evidence[a], cells)
        )
        x = np.append(own[:, a], mine.shape[0] - 1)[one]
        y = np.append(code, theirs.shape[0] - 1)[two]
        place, at, _ = distinct_rows([x, y])
        both = sparse.csr_array(mine[x[at]].multiply(theirs[y[at]]))
        weight = 1.0 if model.eta is None else model.eta[a]
        of_secret = np.log(np.maximum(both @ means[a].T, TINY))
        common = np.log(np.maximum(both @ (share @ means[a]), TINY))[:, None]
        log += (weight * of_secret + (1 - weight) * common)[place]
        evidence.append(both)
        codes.append(place)
    links = _scaled(one, two, log, rows.secrets, counts)
    kept = (one < n_one) & (links.sum(axis=1) > 0)
    index = RecordIndex.of(
        np.stack(codes, axis=1)[kept], np.array([both.shape[0] for both in evidence])
    )
    lines = sparse.csr_array(sparse.eye_array(int(kept.sum()), format="csr"))
    return IndexedRecords(tuple(evidence), index, lines, links[kept])


def _scaled(one: Ints, two: Ints, log: Floats, rows: Floats, others: Floats) -> Floats:
    """Numbers of links with given margins, ``exp(log)`` up to factors by record."""
    n = rows.sum(axis=0), others.sum(axis=0)
    missing = [np.maximum(n[1 - i] - n[i], 0.0) + LEAST_LINK * (n[0] + n[1]) for i in (0, 1)]
    margins = [np.vstack([x, lost]) for x, lost in zip((rows, others), missing, strict=True)]
    ends = [
        sparse.csr_array((np.ones(len(i)), (i, np.arange(len(i)))), shape=(len(m), len(i)))
        for i, m in zip((one, two), margins, strict=True)
    ]
    possible = (margins[0][one] > 0) & (margins[1][two] > 0)
    top = np.where(possible, log, -np.inf).max(axis=0, initial=-1e300)
    links = np.where(possible, np.exp(np.minimum(log - top, 0.0)), 0.0)
    links = np.where(possible, np.maximum(links, TINY), 0.0)
    for _ in range(SCALINGS):
        off = 0.0
        for end, at, margin in ((ends[1], two, margins[1]), (ends[0], one, margins[0])):
            total = end @ links
            factor = np.divide(margin, total, out=np.zeros_like(margin), where=total > 0)
            off = max(off, float(np.abs(np.log(factor[factor > 0])).max(initial=0.0)))
            links *= factor[at]
        if off < SETTLED:
            break
    return links


# -- who is who -----------------------------------------------------------------------------------


def person_codes(tables: Sequence[ReleasedTable], people: People) -> list[Ints]:
    """Code of the person, or of the record, of every line of several tables.

    With ``"records"``, lines of vertical tables that agree in all shared attributes may be the same
    person; with ``"rows"``, equal line numbers are; otherwise `people` has the key of each line of
    each ``table.to_frame()``.
    """
    if isinstance(people, str):
        one_of("people", people, ("records", "rows"))
        if people == "records":
            return _record_codes(tables) if tables else []
        if any(table.scheme == "vertical" for table in tables):
            raise TableError(
                "people='rows' needs horizontal releases, because those of a vertical release are "
                "sorted by group. Give the key of every row instead."
            )
        people = [range(table.n_lines) for table in tables]
    keys = [pd.Index(list(one), tupleize_cols=False) for one in people]
    if len(keys) != len(tables):
        raise TableError(f"people= has keys for {len(keys)} releases, but there are {len(tables)}.")
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
                "that of an earlier row. A key identifies one person; to match equal records, use "
                "people='records'."
            )
    known = keys[0]
    for key in keys[1:]:
        known = known.union(key, sort=False)
    codes = [known.get_indexer(key).astype(np.int64) for key in keys]
    for number, (key, code) in enumerate(zip(keys[1:], codes[1:], strict=True), start=2):
        if not np.isin(code, codes[0]).any():
            raise TableError(
                f"Releases 1 and {number} have no person in common: keys of release 1 look like "
                f"{plain(keys[0][0])!r}, those of release {number} like {plain(key[0])!r}."
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
    codes = np.split(distinct_rows(columns)[0], np.cumsum([t.n_lines for t in tables])[:-1])
    for number, code in enumerate(codes[1:], start=2):
        if not np.isin(code, codes[0]).any():
            rows = [{name: str(t.columns[name].labels()[0]) for name in shared}
                    for t in (first, tables[number - 1])]  # fmt: skip
            raise TableError(
                f"Releases 1 and {number} have no record in common: row 0 is {rows[0]} in the one "
                f"and {rows[1]} in the other. Check that values are spelled alike, or give keys."
            )
    return codes


def merge_by_key(tables: Sequence[ReleasedTable], people: People) -> ReleasedTable:
    """Merge horizontal tables whose rows are linked into one, whose cells are intersections.

    The first table must be horizontal; its people are those of the result. A vertical table
    contributes its values in clear; the secrets are known from the first.
    """
    first = tables[0]
    if first.scheme != "horizontal" or any(t.weights is not None for t in tables):
        raise TableError(
            "If releases are linked by a key, the first must be horizontal with one line per row; "
            "put a horizontal release first, or use table.expanded()."
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
    """Return the first table with the other tables' further attributes as suppressed cells.

    Questions about a person can then use what only another release shows. A vertical table is
    returned unchanged, because it shows values in clear.
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
            f"{str(two[row[wrong[0]]])!r} in the other ({count(len(wrong), 'such row')})."
        )


def _intersected(own: Column, other: Column, row: Ints, number: int) -> Column:
    """Multiply the cells of a column with those of their counterparts, where there are any."""
    domain = own.domain
    to_own = same_values(other.domain, domain)
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
    """Build a column of sets of values, in which equal sets are one cell."""
    sets = [tuple(part.tolist()) for part in np.split(cells.indices, cells.indptr[1:-1])]
    place = {members: i for i, members in enumerate(dict.fromkeys(sets))}
    labels: list[object] = []
    for members in place:
        shown = tuple(domain.values[k] for k in members)
        labels.append("*" if len(shown) == len(domain) else shown if len(shown) > 1 else shown[0])
    evidence = Evidence.from_members(domain, list(place), labels)
    return Column(evidence, np.array([place[s] for s in sets])[inverse])
