"""Downcoding: what a release gives away because its anonymizer hid no more than it had to.

Cells at face value say which values are possible. Who knows the anonymizer knows more: among the
cleartexts that fit the cells, only those count from which it makes just this release (Cohen 2022;
Wong et al. 2007 for secrets). Small tables are answered by listing all of these cleartexts, others
by drawing cleartexts from the posterior of Groups and anonymizing each of them again.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import gammaln, stdtrit

from anonbayes.arrays import Floats, Ints, read_whole
from anonbayes.beliefs.register import whole_records
from anonbayes.errors import AnonbayesError, AnonymizationError, TableError
from anonbayes.formats import plain, share
from anonbayes.inference.fit import fit
from anonbayes.io.files import write_text
from anonbayes.risk.people import read_truth
from anonbayes.tables.groups import distinct_rows
from anonbayes.tables.table import ReleasedTable

__all__ = ["Downcoding", "downcoding"]

MEASURES: Mapping[str, str] = {
    "acceptance": "share of the compatible cleartexts from which just this release is made",
    "kept": "cleartexts that it rests on",
    "cells": "released cells that leave more than one value open",
    "cells_changed": "of these, cells about which the anonymizer's choice tells more",
    "cells_narrowed": "cells in which it rules values out",
    "cells_revealed": "cells of which it leaves a single value",
    "people_known": "people whose belief could be computed: enough cleartexts have their record",
    "people_likelier": "people whose true secret becomes likelier to an attacker",
    "people_revealed": "people whose secret becomes certain by it",
    "belief_before": "attacker's mean belief in the true secret, cells at face value",
    "belief_after": "the same, knowing the anonymizer",
}
"""Lines of `Downcoding.summary` and what they count."""
BATCHES = 20
FEWEST = 100
"""Draws that must reproduce the release: five for each batch."""
SMALL = 1e-9
THIN = 10


@dataclass(frozen=True, eq=False)
class Downcoding:
    """What the anonymizer's choice gives away. Made by `downcoding`.

    Attributes
    ----------
    summary : pandas.DataFrame
        One line per measure (see `MEASURES`) with its ``value`` and ``meaning``.
    cells : pandas.DataFrame
        A line per kind of rows (equal cells, equal secret) and attribute that leaves more than one
        value open: ``rows``, ``possible`` and ``left`` (values before, and values that remain,
        which is known where cleartexts were listed), ``shift`` (total variation between the two
        beliefs), ``changed``.
    people : pandas.DataFrame
        A line per person of the cleartext: attacker's belief in the true secret ``before`` and
        ``after``, ``error`` of their difference, ``likelier``; missing where too few draws have
        the person's record; no lines without a cleartext.
    method : {"enumeration", "sampling"}
        How it was computed.
    """

    summary: pd.DataFrame
    cells: pd.DataFrame = field(repr=False)
    people: pd.DataFrame = field(repr=False)
    method: str

    @property
    def text(self) -> str:
        """The finding in plain words."""
        value = self.summary["value"]
        words = (
            f"Knowing the anonymizer tells more about {value['cells_changed']:,.0f} of "
            f"{value['cells']:,.0f} cells that are not in clear"
        )
        if self.method == "enumeration":
            words += (
                f", rules values out in {value['cells_narrowed']:,.0f} and leaves one value in "
                f"{value['cells_revealed']:,.0f}"
            )
        words += f" ({share(value['acceptance'])} of the compatible cleartexts give this release)."
        if len(self.people):
            words += (
                f" The true secret becomes likelier for {value['people_likelier']:,.0f} of "
                f"{value['people_known']:,.0f} people for whom it is known: "
                f"{share(value['belief_before'])} before, {share(value['belief_after'])} after on "
                "average over them."
            )
        return words

    def to_dict(self) -> dict[str, Any]:
        """Return the summary in plain types; nothing about single people."""
        return {"method": self.method, "measures": plain(self.summary["value"].to_dict())}

    def to_json(self, path: str | Path | None = None) -> str:
        """Return, and write where a path is given, the summary."""
        text = json.dumps(self.to_dict(), indent=1)
        if path is not None:
            write_text(Path(path), text + "\n")
        return text

    def __str__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.text)}</p>" + self.summary.to_html(na_rep="")


def downcoding(
    table: ReleasedTable,
    anonymize: Callable[[pd.DataFrame], ReleasedTable],
    *,
    cleartext: pd.DataFrame | None = None,
    draws: int = 2000,
    listed: int = 2000,
    seed: int | None = 0,
    progressbar: bool = False,
) -> Downcoding:
    """Find what a release gives away to somebody who knows how it was made.

    Parameters
    ----------
    table : ReleasedTable
        A generalized table whose sensitive values are shown.
    anonymize : callable
        Makes the release from a frame in clear, the same one every time; such as
        ``lambda df: ab.anonymize.recode(df, "ill", trees, k=5)``.
    cleartext : pandas.DataFrame, optional
        The people of the table, in the order of its rows, to see whose secret becomes likelier.
    draws : int, default 2000
        Cleartexts that are drawn and anonymized again.
    listed : int, default 2000
        Up to so many compatible cleartexts are listed, which is exact, instead of drawn.
    seed : int, optional
        Makes the draws reproducible.
    progressbar : bool
        Whether to show one while drawing.

    Returns
    -------
    Downcoding
        ``.summary``, ``.cells``, ``.people``, ``.text``, ``.to_json()``.

    Raises
    ------
    AnonbayesError
        When fewer than 100 drawn cleartexts give the release: then it cannot be computed this way.

    Notes
    -----
    Cleartexts weigh as in Groups with independent evidence and ``alpha = beta = 1``. Beliefs of
    drawn cleartexts carry an error of simulation; a belief has changed where the difference
    exceeds it (Student's t over 20 batches, 5 % over all comparisons together). A value that no
    kept draw has is only seen to be unlikely; it is ruled out where cleartexts were listed.

    References
    ----------
    .. [1] A. Cohen (2022). Attacks on deidentification's defenses. USENIX Security.
    .. [2] R. C.-W. Wong, A. W.-C. Fu, K. Wang, J. Pei (2007). Minimality attack in privacy
       preserving data publishing. VLDB.

    Examples
    --------
    Of two rows in the cell "south", a, b or c, both in "coast", a or b, would have been shown as
    such, and both in c likewise. So one of them is in c, which is as likely as a and b together:

    >>> import anonbayes as ab
    >>> tree = ab.Hierarchy.from_levels({
    ...     "a": ["coast", "south", "*"], "b": ["coast", "south", "*"], "c": ["c", "south", "*"],
    ...     "d": ["d", "d", "*"]})
    >>> people = pd.DataFrame({"home": list("acdd"), "ill": ["flu", "cold", "flu", "cold"]})
    >>> recode = lambda df: ab.anonymize.recode(df, "ill", {"home": tree}, k=2)
    >>> found = ab.downcoding(recode(people), recode, cleartext=people)
    >>> found.cells[["possible", "left", "changed"]].to_numpy().tolist()
    [[3, 3, True], [3, 3, True]]
    >>> round(float(found.summary.loc["acceptance", "value"]), 4)  # 4 of 9
    0.4444
    """
    draws, listed = read_whole("draws", draws, least=FEWEST), read_whole("listed", listed, least=0)
    kinds = _Kinds.of(table)
    shown = _shown(table)
    if cleartext is not None:
        again = _attempt(anonymize, cleartext[[*table.attributes, table.sensitive]])
        if again is None or not _equal(shown, _shown(again)):
            raise AnonbayesError(
                "anonymize(cleartext) is not the release: give the anonymizer, its settings and "
                "the people, in the order of the rows, that made it."
            )
    listing = kinds.n_worlds() <= listed
    worlds = kinds.worlds() if listing else _drawn(table, draws, seed, progressbar)
    sums = _Sums.of(table, kinds, cleartext, batches=1 if listing else BATCHES)
    total = kept = mass = kept_mass = 0.0
    weights = _weights(table, worlds) if listing else None
    for d, codes in enumerate(worlds.codes):
        weight = 1.0 if weights is None else weights[d]
        again = _attempt(anonymize, _frame(table, codes))
        holds = again is not None and _equal(shown, _shown(again))
        sums.add(0 if listing else d * BATCHES // len(worlds.codes), codes, weight, holds)
        total, kept = total + 1, kept + holds
        mass, kept_mass = mass + weight, kept_mass + weight * holds
    if kept < (1 if listing else FEWEST):
        enough = 100 * math.ceil(1.2 * FEWEST * total / kept / 100) if kept else None
        raise AnonbayesError(
            f"{kept:,.0f} of {total:,.0f} cleartexts that fit the cells give this release, and "
            f"{FEWEST} are needed: what the anonymizer's choice gives away cannot be computed this "
            "way. Tight cells, suppressed rows and local recoding make large tables nearly "
            "impossible to hit; "
            + (f"take draws={enough:,}." if enough else "ask about a part of the table.")
        )
    cells = sums.cells(table, kinds, exact=listing)
    people = sums.people(exact=listing)
    value = {"acceptance": kept_mass / mass, "kept": kept} | _counts(cells, people, exact=listing)
    summary = pd.DataFrame(
        {"value": [value[name] for name in MEASURES], "meaning": list(MEASURES.values())},
        index=list(MEASURES),
    )
    return Downcoding(summary, cells, people, "enumeration" if listing else "sampling")


def _counts(cells: pd.DataFrame, people: pd.DataFrame, *, exact: bool) -> dict[str, float]:
    rows = cells["rows"]
    sure = people["after"] > 1 - SMALL
    return {
        "cells": float(rows.sum()),
        "cells_changed": float(rows[cells["changed"]].sum()),
        "cells_narrowed": float(rows[cells["left"] < cells["possible"]].sum()) if exact else np.nan,
        "cells_revealed": float(rows[cells["left"] == 1].sum()) if exact else np.nan,
        "people_known": float(people["after"].notna().sum()),
        "people_likelier": float(people["likelier"].sum()),
        "people_revealed": float((sure & (people["before"] <= 1 - SMALL)).sum()),
        "belief_before": float(people["before"].mean()),
        "belief_after": float(people["after"].mean()),
    }


# -- anonymizing again ----------------------------------------------------------------------------


def _attempt(anonymize: Callable[[pd.DataFrame], ReleasedTable], frame: Any) -> Any:
    """Return the release, or None where there is none."""
    try:
        return anonymize(frame)
    except (AnonymizationError, TableError):  # out of reach, or a constant secret
        return None


def _shown(table: ReleasedTable) -> list[Any]:
    """What the rows show, column by column, as a reader sees it."""
    return [
        np.array([str(label) for label in column.evidence.labels], dtype=object)[column.codes]
        for column in table.columns.values()
    ]


def _equal(one: list[Any], two: list[Any]) -> bool:
    return len(one) == len(two) and all(
        len(a) == len(b) and bool((a == b).all()) for a, b in zip(one, two, strict=True)
    )


def _frame(table: ReleasedTable, codes: Ints) -> pd.DataFrame:
    """A cleartext from the codes of its rows' values."""
    columns = {
        name: [table.domains[name].values[c] for c in codes[:, a].tolist()]
        for a, name in enumerate(table.attributes)
    }
    values = table.secret.domain.values
    return pd.DataFrame(columns | {table.sensitive: [values[s] for s in table.secret_codes]})


# -- cleartexts -----------------------------------------------------------------------------------


class _Worlds(NamedTuple):
    """Cleartexts, ``(worlds, rows, attributes)``, and in how many ways each can be dealt out."""

    codes: Ints
    ways: Floats


@dataclass(frozen=True, eq=False)
class _Kinds:
    """Rows with equal cells and equal secrets, which are exchangeable.

    `kind` is that of each row; `cells` the possible codes of each kind and attribute.
    """

    kind: Ints
    cells: list[list[Ints]]

    @classmethod
    def of(cls, table: ReleasedTable) -> _Kinds:
        if table.scheme != "horizontal" or not table.secrets_known or table.weights is not None:
            raise TableError(
                "downcoding needs a horizontal table, row by row, whose sensitive values are shown."
            )
        for name, column in table.columns.items():
            if (column.evidence.matrix.data != 1.0).any():
                raise TableError(f"Column {name!r} was released at random; cells must be sets.")
        columns = list(table.columns.values())
        kind, first, _ = distinct_rows([*(c.codes for c in columns), table.secret_codes])
        members = [
            np.split(c.evidence.matrix.indices, c.evidence.matrix.indptr[1:-1]) for c in columns
        ]
        cells = [
            [own[c.codes[row]] for own, c in zip(members, columns, strict=True)] for row in first
        ]
        return cls(kind, cells)

    def n_worlds(self) -> float:
        """Cleartexts that fit the cells, rows of a kind being alike."""
        sizes = np.bincount(self.kind)
        boxes = [math.prod(len(c) for c in cells) for cells in self.cells]
        return math.prod(
            math.comb(b + int(m) - 1, int(m)) for b, m in zip(boxes, sizes, strict=True)
        )

    def worlds(self) -> _Worlds:
        """List them all."""
        places = [np.flatnonzero(self.kind == i) for i in range(len(self.cells))]
        options = [
            [*itertools.combinations_with_replacement(itertools.product(*map(list, cells)), len(p))]
            for cells, p in zip(self.cells, places, strict=True)
        ]
        codes, ways = [], []
        for world in itertools.product(*options):
            rows = np.empty((len(self.kind), len(self.cells[0])), dtype=np.int64)
            log_ways = 0.0
            for place, own in zip(places, world, strict=True):
                rows[place] = own
                log_ways += math.lgamma(len(own) + 1)
                log_ways -= sum(math.lgamma(own.count(r) + 1) for r in set(own))
            codes.append(rows)
            ways.append(math.exp(log_ways))
        return _Worlds(np.stack(codes), np.array(ways))


def _weights(table: ReleasedTable, worlds: _Worlds) -> Floats:
    """Probability of listed cleartexts: Dirichlet-multinomial counts by secret and attribute."""
    log_p = np.log(worlds.ways)
    secrets = len(table.secret.domain)
    for a, name in enumerate(table.attributes):
        size = len(table.domains[name])
        for d, codes in enumerate(worlds.codes):
            counts = np.bincount(table.secret_codes * size + codes[:, a], minlength=secrets * size)
            log_p[d] += gammaln(1.0 + counts).sum()
    weight = np.exp(log_p - log_p.max())
    return np.asarray(weight / weight.sum())


def _drawn(table: ReleasedTable, draws: int, seed: int | None, progressbar: bool) -> _Worlds:
    """Draw cleartexts from the posterior with independent evidence."""
    post = fit(
        table, evidence="independent", alpha=1.0, beta=1.0, draws=draws, chains=1,
        thin=1 if table.is_nested else THIN, keep_cleartext=True, seed=seed,
        progressbar=progressbar,
    )  # fmt: skip
    codes = [post.draws[f"cleartext_{name}"].to_numpy()[0] for name in table.attributes]
    return _Worlds(np.stack(codes, axis=-1).astype(np.int64), np.ones(draws))


# -- beliefs before and after ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Sums:
    """Sums over cleartexts, by batch, first of all and then of those that give the release.

    `values`: per attribute, people of each kind with each value; `secrets`: rows with the record of
    a person of the cleartext, by secret; `mass`: of the cleartexts.
    """

    table: ReleasedTable
    kinds: _Kinds
    mass: Floats
    values: list[Floats]
    secrets: Floats
    records: Ints
    truth: tuple[Ints, Ints, pd.Index]

    @classmethod
    def of(
        cls, table: ReleasedTable, kinds: _Kinds, cleartext: pd.DataFrame | None, *, batches: int
    ) -> _Sums:
        n = len(kinds.cells)
        sizes = [len(table.domains[name]) for name in table.attributes]
        keys, record = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        secret, index = record, pd.Index([])
        if cleartext is not None:
            people = read_truth(table, cleartext)
            keys, place = np.unique(_key(whole_records(people.victims)[1]), return_inverse=True)
            record = np.ravel(place)[people.victims.inverse]
            secret, index = people.secret.astype(np.int64), cleartext.index
        return cls(
            table, kinds, np.zeros((2, batches)), [np.zeros((2, batches, n * k)) for k in sizes],
            np.zeros((2, batches, len(keys) * len(table.secret.domain))), keys,
            (record, secret, index),
        )  # fmt: skip

    def add(self, batch: int, codes: Ints, weight: float, holds: bool) -> None:
        """Count one cleartext."""
        which = slice(0, 2 if holds else 1)
        self.mass[which, batch] += weight
        for a, sums in enumerate(self.values):
            size = sums.shape[2] // len(self.kinds.cells)
            at = np.bincount(self.kinds.kind * size + codes[:, a], minlength=sums.shape[2])
            sums[which, batch] += weight * at
        if len(self.records):
            key = _key(codes)
            place = np.minimum(np.searchsorted(self.records, key), len(self.records) - 1)
            known = self.records[place] == key
            at = place[known] * len(self.table.secret.domain) + self.table.secret_codes[known]
            self.secrets[which, batch] += weight * np.bincount(at, minlength=self.secrets.shape[2])

    def cells(self, table: ReleasedTable, kinds: _Kinds, *, exact: bool) -> pd.DataFrame:
        """Beliefs about the values of cells that leave more than one open."""
        rows = np.bincount(kinds.kind)
        lines = [*self._cell_lines(rows)]
        tests = sum(len(line[4]) for line in lines)
        bound = _bound(tests, exact)
        found = [
            (
                i, name, rows[i], len(before), (after > 0).sum() if exact else np.nan,
                0.5 * np.abs(after - before).sum(),
                bool((np.abs(after - before) > bound * error + SMALL).any()),
            )
            for i, name, before, after, error in lines
        ]  # fmt: skip
        columns = ["kind", "attribute", "rows", "possible", "left", "shift", "changed"]
        return pd.DataFrame(found, columns=columns).astype({"changed": bool})

    def _cell_lines(self, rows: Ints) -> Iterator[tuple[int, str, Floats, Floats, Floats]]:
        for a, (name, sums) in enumerate(zip(self.table.attributes, self.values, strict=True)):
            by_kind = sums.reshape(2, sums.shape[1], len(rows), -1)
            for i, cells in enumerate(self.kinds.cells):
                if len(cells[a]) > 1:
                    own = by_kind[:, :, i, :][:, :, cells[a]]
                    yield (i, name, *_differ(own, self.mass[:, :, None] * rows[i]))

    def people(self, *, exact: bool) -> pd.DataFrame:
        """Attacker's belief in everybody's true secret, before and after."""
        record, secret, index = self.truth
        by = self.secrets.reshape(2, self.secrets.shape[1], -1, len(self.table.secret.domain))
        own, every = by[:, :, record, secret], by[:, :, record].sum(axis=-1)
        before, after, error = _differ(own, every)
        bound = _bound(len(record), exact)
        if not exact:  # too few batches with the record tell neither a belief nor its error
            known = (every[1] > 0).sum(axis=0) >= BATCHES / 2
            before, after, error = (np.where(known, x, np.nan) for x in (before, after, error))
        likelier = after - before > bound * error + SMALL
        return pd.DataFrame(
            {"before": before, "after": after, "error": error, "likelier": likelier}, index=index
        )


def _key(codes: Ints) -> Ints:
    """A number for each record; two records share one with a chance of 2^-64."""
    factors = np.random.default_rng(1).integers(1, 2**62, codes.shape[1])
    return np.asarray(codes @ factors)


def _bound(tests: int, exact: bool) -> float:
    """Standard errors beyond which a difference is no chance, over so many comparisons."""
    return 0.0 if exact else -float(stdtrit(BATCHES - 1, 0.025 / max(tests, 1)))


def _differ(part: Floats, whole: Floats) -> tuple[Floats, Floats, Floats]:
    """Ratio before and after over all batches, and the standard error of their difference.

    The error is the jackknife's: each batch is left out in turn.
    """
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = part.sum(axis=1) / whole.sum(axis=1)
        n = part.shape[1]
        if n == 1:
            return ratio[0], ratio[1], np.zeros_like(ratio[0])
        out = (part.sum(axis=1, keepdims=True) - part) / (whole.sum(axis=1, keepdims=True) - whole)
        gaps = out[1] - out[0]
        error = np.sqrt((n - 1) / n * ((gaps - gaps.mean(axis=0)) ** 2).sum(axis=0))
    return ratio[0], ratio[1], error
