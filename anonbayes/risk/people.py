"""The evaluator's cleartext, encoded in the domains of the release, as distinct records."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import sparse

from anonbayes.arrays import Ints
from anonbayes.beliefs.victims import Victims, group_codes
from anonbayes.domains import Domain, factorize, object_array, plain
from anonbayes.errors import DomainError, TableError, at_once, nearest
from anonbayes.io.text import pandas_frame, row_name
from anonbayes.tables.build import JOIN, check_column, check_frame, multiplicities
from anonbayes.tables.evidence import Column, Evidence
from anonbayes.tables.groups import distinct_rows, tally
from anonbayes.tables.table import ReleasedTable

Knowledge = Callable[[Domain, Ints], tuple[Ints, sparse.csr_array] | None]


@dataclass(frozen=True, eq=False)
class Truth:
    """Cleartext rows, reduced to distinct (record, secret) pairs.

    `codes` are the values of every row, ``(N, A)``; ``victims.inverse`` is the record of each row
    and `pair` its pair; `weights` is the number of people of each row and `group` their known group
    in a vertical release; `knowledge` is as in `exact_victims`.
    """

    codes: Ints
    secret: Ints
    victims: Victims
    pair_record: Ints
    pair_secret: Ints
    pair_count: Ints
    pair: Ints
    weights: Ints | None = None
    group: Ints | None = None
    knowledge: Knowledge | None = None

    @property
    def n_rows(self) -> int:
        """Number of people."""
        return int(self.pair_count.sum())

    def part(self, rows: Ints, table: ReleasedTable) -> Truth:
        """Return the rows at these positions, each for one person."""
        assert self.victims.index is not None
        group = None if self.group is None else self.group[rows]
        index = self.victims.index[rows]
        codes, secret = self.codes[rows], self.secret[rows]
        return _truth(table, index, codes, secret, None, group, self.knowledge)

    def name_pair(self, pair: int) -> str:
        """Return the label of a pair's first row, for messages."""
        assert self.victims.index is not None
        return repr(plain(self.victims.index[int(np.argmax(self.pair == pair))]))


def read_truth(
    table: ReleasedTable,
    cleartext: pd.DataFrame,
    *,
    weights: str | None = None,
    group: str | None = None,
    knowledge: Knowledge | None = None,
) -> Truth:
    """Encode a cleartext frame in the domains of a released table."""
    cleartext = pandas_frame(cleartext)
    check_frame(cleartext, "The cleartext table")
    truth_columns(table, cleartext.columns)
    people = None
    if weights is not None:
        check_column(cleartext, weights, "weights")
        people = multiplicities(cleartext, weights)
    frame = _with_joined(table, cleartext)
    domains = [*(table.domains[name] for name in table.attributes), table.secret.domain]
    *codes, secret = _columns(frame, domains, "cleartext", people)
    known = None
    if group is not None:
        check_column(cleartext, group, "group")
        known = group_codes(table, cleartext[group], len(cleartext), cleartext.index)
    whole = np.stack(codes, axis=1)
    return _truth(table, cleartext.index, whole, secret, people, known, knowledge)


def _truth(
    table: ReleasedTable,
    index: pd.Index,
    codes: Ints,
    secret: Ints,
    people: Ints | None,
    group: Ints | None = None,
    knowledge: Knowledge | None = None,
) -> Truth:
    victims = exact_victims(list(codes.T), table, index=index, group=group, knowledge=knowledge)
    pair, first, _ = distinct_rows([victims.inverse, secret])
    count = tally(pair, people, len(first))
    records = victims.inverse[first]
    return Truth(
        codes, secret, victims, records, secret[first], count, pair, people, group, knowledge
    )


def truth_columns(table: ReleasedTable, names: Iterable[str]) -> list[str]:
    """Names of the cleartext columns used: the attributes of a release, then its secret.

    A secret made of several columns may be one column or its parts.
    """
    known, secret = list(names), [table.sensitive]
    if table.sensitive not in known and set(table.sensitive.split(JOIN)) <= set(known):
        secret = table.sensitive.split(JOIN)
    wanted = [*table.attributes, *secret]
    check_all_known(wanted, known)
    return wanted


def check_all_known(wanted: Iterable[str], known: Collection[str]) -> None:
    """Raise a `TableError` that names all columns missing in the cleartext."""
    lacking = [name for name in wanted if name not in known]
    if len(lacking) == 1:
        _check_known(lacking[0], known, "cleartext")
    if lacking:
        raise TableError(
            f"The cleartext lacks {len(lacking)} columns of the released table: "
            f"{', '.join(map(repr, lacking))}. It has: {', '.join(map(repr, known))}."
        )


def read_attributes(
    table: ReleasedTable,
    frame: pd.DataFrame,
    *,
    what: str = "cleartext",
    people: Ints | None = None,
) -> list[Ints]:
    """Return the value codes of a frame's columns, one array per attribute of the table."""
    frame = pandas_frame(frame)
    check_frame(frame, f"The {what} table")
    return _columns(frame, [table.domains[name] for name in table.attributes], what, people)


def _columns(
    frame: pd.DataFrame, domains: Iterable[Domain], what: str, people: Ints | None
) -> list[Ints]:
    """Encode several columns, and report all problems in one error."""
    named = {domain.name: domain for domain in domains}
    return list(at_once(named, lambda name: _column(frame, named[name], what, people)).values())


def clear_release(
    table: ReleasedTable, codes: list[Ints], secret: Ints, weights: Ints | None = None
) -> ReleasedTable:
    """Build a release that hides nothing, with the domains of another table."""
    return ReleasedTable(
        "horizontal",
        table.sensitive,
        {
            name: Column(Evidence.exact(table.domains[name]), code)
            for name, code in zip(table.attributes, codes, strict=True)
        },
        Column(Evidence.exact(table.secret.domain), secret),
        np.zeros(len(secret), dtype=np.int32),
        pd.RangeIndex(1),
        weights=weights,
    )


def exact_victims(
    codes: list[Ints],
    table: ReleasedTable,
    *,
    index: pd.Index | None = None,
    group: Ints | None = None,
    knowledge: Knowledge | None = None,
) -> Victims:
    """Build victims whose attributes are all known, from value codes.

    `knowledge` may replace the values: called with the domain and the codes of an attribute, it
    returns for each row a row of a matrix ``P(knowledge | value)``, or None.
    """
    known, weights = [], []
    for code, name in zip(codes, table.attributes, strict=True):
        other = None if knowledge is None else knowledge(table.domains[name], code)
        if other is not None:
            known.append(other[0])
            weights.append(other[1])
            continue
        shown = np.bincount(code, minlength=len(table.domains[name])) > 0
        values = np.flatnonzero(shown)
        known.append((np.cumsum(shown) - 1)[code])
        weights.append(
            sparse.csr_array(
                (np.ones(len(values)), values, np.arange(len(values) + 1)),
                shape=(len(values), len(table.domains[name])),
            )
        )
    inverse, first, _ = distinct_rows(known if group is None else [*known, group])
    of_record = None if group is None else group[first]
    return Victims(np.stack(known, axis=1)[first], tuple(weights), inverse, index, of_record)


def check_same_secrets(table: ReleasedTable, truth: Truth) -> str | None:
    """`compare_secrets` of a cleartext and its release."""
    shown = tally(truth.secret, truth.weights, len(table.secret.domain))
    released = table.secret_counts if table.secrets_known else None
    return compare_secrets(table.secret.domain, shown, table.n_rows, released)


def compare_secrets(domain: Domain, shown: Ints, n_rows: int, released: Ints | None) -> str | None:
    """Compare the sensitive values of a cleartext with those of a release, if known.

    They must agree if the tables have the same size; returns a remark if the sizes differ.
    """
    if shown.sum() != n_rows:
        return (
            f"The cleartext has {shown.sum():,} rows, the release {n_rows:,}: threats refer "
            "to the rows of the cleartext, and faithfulness to the cleartext as given."
        )
    if released is not None:
        wrong = np.flatnonzero(shown != released)
        if len(wrong):
            s = int(wrong[0])
            # Messages may end up in logs: they must not show values that the release does not.
            value = domain.values[s] if released[s] else "another value"
            raise TableError(
                f"This is not a release of this cleartext: {domain.name!r} is "
                f"{value!r} in {shown[s]} rows of the cleartext but in "
                f"{released[s]} of the release ({len(wrong)} values differ)."
            )
    return None


def _with_joined(table: ReleasedTable, frame: pd.DataFrame) -> pd.DataFrame:
    """Add the joined column if the table's secret is a tuple of several columns."""
    parts = table.sensitive.split(JOIN)
    if table.sensitive in frame.columns or not set(parts) <= set(frame.columns):
        return frame
    tuples = list(zip(*(frame[part].tolist() for part in parts), strict=True))
    return frame.assign(**{table.sensitive: pd.Series(object_array(tuples), index=frame.index)})


def _check_known(name: str, names: Collection[str], what: str) -> None:
    if name not in names:
        raise TableError(
            f"The {what} table has no column {name!r}, which the released table has. "
            f"{nearest(name, names)}"
        )


def _column(frame: pd.DataFrame, domain: Domain, what: str, people: Ints | None) -> Ints:
    """Encode a column; errors name the row by its label, unlike those of `Domain.encode`."""
    name = domain.name
    _check_known(name, frame.columns, what)
    series = frame[name]
    inverse, distinct = factorize(series, where=f"Column {name!r} of the {what} table")
    found: list[object] = [domain.find(value) for value in distinct]
    if None in found:
        bad = found.index(None)
        rows = np.flatnonzero(inverse == bad)
        n = len(rows) if people is None else int(people[rows].sum())
        # Messages may end up in logs: row and column are enough to look the value up.
        raise DomainError(
            f"Column {name!r} of the {what} table, {row_name(series.index, int(rows[0]))}: the "
            f"value is not in the released table's domain ({n} rows). Look it up: either the "
            "domain lacks it, or it is spelled differently."
        )
    return np.array(found, dtype=np.int64)[inverse]
