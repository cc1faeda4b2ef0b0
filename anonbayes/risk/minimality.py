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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy.special import gammaln, stdtrit

from anonbayes.arrays import Floats, Ints, Mask, read_whole
from anonbayes.errors import AnonbayesError, AnonymizationError, TableError
from anonbayes.formats import plain, share
from anonbayes.inference.fit import fit
from anonbayes.io.files import write_text
from anonbayes.risk.people import read_truth
from anonbayes.tables.groups import distinct_rows
from anonbayes.tables.table import ReleasedTable

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

    def to_dict(self) -> dict[str, object]:
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
    exceeds it (Student's t over 20 batches, 5% over all comparisons together). A value that no
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
    codes, weight = kinds.worlds(table) if listing else _drawn(table, draws, seed, progressbar)
    made = (_attempt(anonymize, _frame(table, one)) for one in codes)
    holds = np.array([one is not None and _equal(shown, _shown(one)) for one in made])
    batches = 1 if listing else BATCHES
    tried = _Tried(codes, weight, np.arange(len(codes)) * batches // len(codes), holds)
    total, kept = len(codes), int(holds.sum())
    if kept < (1 if listing else FEWEST):
        enough = 100 * math.ceil(1.2 * FEWEST * total / kept / 100) if kept else None
        raise AnonbayesError(
            f"{kept:,} of {total:,} cleartexts that fit the cells give this release, and "
            f"{FEWEST} are needed: what the anonymizer's choice gives away cannot be computed this "
            "way. Tight cells, suppressed rows and local recoding make large tables nearly "
            "impossible to hit; "
            + (f"take draws={enough:,}." if enough else "ask about a part of the table.")
        )
    cells = _cells(table, kinds, tried, exact=listing)
    people = _people(table, tried, cleartext, exact=listing)
    value = {"acceptance": float(weight[holds].sum() / weight.sum()), "kept": float(kept)}
    value |= _counts(cells, people, exact=listing)
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


def _attempt(
    anonymize: Callable[[pd.DataFrame], ReleasedTable], frame: pd.DataFrame
) -> ReleasedTable | None:
    """Return the release, or None where there is none."""
    try:
        return anonymize(frame)
    except (AnonymizationError, TableError):  # out of reach, or a constant secret
        return None


def _shown(table: ReleasedTable) -> list[npt.NDArray[np.object_]]:
    """What the rows show, column by column, as a reader sees it."""
    return [
        np.array([str(label) for label in column.evidence.labels], dtype=object)[column.codes]
        for column in table.columns.values()
    ]


def _equal(one: list[npt.NDArray[np.object_]], two: list[npt.NDArray[np.object_]]) -> bool:
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

    def worlds(self, table: ReleasedTable) -> tuple[Ints, Floats]:
        """List them all with their probability: Dirichlet-multinomial counts by secret."""
        places = [np.flatnonzero(self.kind == i) for i in range(len(self.cells))]
        options = [
            [*itertools.combinations_with_replacement(itertools.product(*map(list, cells)), len(p))]
            for cells, p in zip(self.cells, places, strict=True)
        ]
        sizes = [len(table.domains[name]) for name in table.attributes]
        codes, log_p = [], []
        for world in itertools.product(*options):
            rows = np.empty((len(self.kind), len(sizes)), dtype=np.int64)
            log_ways = 0.0  # in which rows of a kind can be dealt out
            for place, own in zip(places, world, strict=True):
                rows[place] = own
                log_ways += math.lgamma(len(own) + 1)
                log_ways -= sum(math.lgamma(own.count(r) + 1) for r in set(own))
            for a, size in enumerate(sizes):
                counts = np.bincount(table.secret_codes * size + rows[:, a])
                log_ways += gammaln(1.0 + counts).sum()
            codes.append(rows)
            log_p.append(log_ways)
        weight = np.exp(np.array(log_p) - max(log_p))
        return np.stack(codes), weight / weight.sum()


def _drawn(
    table: ReleasedTable, draws: int, seed: int | None, progressbar: bool
) -> tuple[Ints, Floats]:
    """Draw cleartexts from the posterior with independent evidence."""
    post = fit(
        table, evidence="independent", alpha=1.0, beta=1.0, draws=draws, chains=1,
        thin=1 if table.is_nested else THIN, keep_cleartext=True, seed=seed,
        progressbar=progressbar,
    )  # fmt: skip
    codes = [post.draws[f"cleartext_{name}"].to_numpy()[0] for name in table.attributes]
    return np.stack(codes, axis=-1).astype(np.int64), np.ones(draws)


# -- beliefs before and after ---------------------------------------------------------------------


class _Tried(NamedTuple):
    """Cleartexts ``(worlds, rows, attributes)``: weight, batch, and whether they give the release.

    `sums` add weights up by batch, first of all cleartexts and then of those that give the release.
    """

    codes: Ints
    weight: Floats
    batch: Ints
    holds: Mask

    def sums(self, key: Ints, size: int) -> Floats:
        """Weight by batch and key of the rows, ``(2, batches, size)``; a key of -1 is left out."""
        n = int(self.batch[-1]) + 1
        at = np.where(key >= 0, self.batch[:, None] * size + key, n * size).ravel()
        weights = (np.repeat(w, key.shape[1]) for w in (self.weight, self.weight * self.holds))
        sums = [np.bincount(at, w, minlength=n * size + 1)[:-1].reshape(n, size) for w in weights]
        return np.stack(sums)


def _cells(table: ReleasedTable, kinds: _Kinds, tried: _Tried, *, exact: bool) -> pd.DataFrame:
    """Beliefs about the values of cells that leave more than one open."""
    rows = np.bincount(kinds.kind)
    mass = tried.sums(np.zeros((len(tried.codes), 1), dtype=np.int64), 1)
    lines = []
    for a, name in enumerate(table.attributes):
        size = len(table.domains[name])
        by_kind = tried.sums(kinds.kind * size + tried.codes[:, :, a], len(rows) * size)
        for i, cells in enumerate(kinds.cells):
            if len(cells[a]) > 1:
                own = by_kind[:, :, i * size + cells[a]]
                lines.append((i, name, *_differ(own, mass * rows[i])))
    bound = _bound(sum(len(line[2]) for line in lines), exact)
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


def _people(
    table: ReleasedTable, tried: _Tried, cleartext: pd.DataFrame | None, *, exact: bool
) -> pd.DataFrame:
    """Attacker's belief in everybody's true secret, before and after."""
    if cleartext is None:
        columns = ["before", "after", "error", "likelier"]
        return pd.DataFrame(
            {c: pd.Series(dtype=bool if c == "likelier" else float) for c in columns}
        )
    truth, size = read_truth(table, cleartext), len(table.secret.domain)
    records, place = np.unique(_key(truth.victims.whole_records()[1]), return_inverse=True)
    key = _key(tried.codes)
    at = np.minimum(np.searchsorted(records, key), len(records) - 1)
    at = np.where(records[at] == key, at * size + table.secret_codes, -1)
    by = tried.sums(at, len(records) * size)
    by = by.reshape(*by.shape[:2], len(records), size)
    record, secret = np.ravel(place)[truth.victims.inverse], truth.secret.astype(np.int64)
    own, every = by[:, :, record, secret], by[:, :, record].sum(axis=-1)
    before, after, error = _differ(own, every)
    if not exact:  # too few batches with the record tell neither a belief nor its error
        known = (every[1] > 0).sum(axis=0) >= BATCHES / 2
        before, after, error = (np.where(known, x, np.nan) for x in (before, after, error))
    likelier = after - before > _bound(len(record), exact) * error + SMALL
    return pd.DataFrame(
        {"before": before, "after": after, "error": error, "likelier": likelier},
        index=cleartext.index,
    )


def _key(codes: Ints) -> Ints:
    """A number for each record; two records share one with a chance of 2^-64."""
    factors = np.random.default_rng(1).integers(1, 2**62, codes.shape[-1])
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
