"""Downcoding: what a release reveals because its anonymizer hid no more than necessary.

Cells taken at face value show which values are possible. Someone who knows the anonymizer knows
more: of the cleartexts that match the cells, only those count from which it produces exactly this
release (Cohen 2022; for secrets Wong et al. 2007). For small tables, all these cleartexts are
enumerated; for others, cleartexts are drawn from the posterior of Groups and anonymized again.
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
    "acceptance": "share of the compatible cleartexts that give exactly this release",
    "kept": "cleartexts on which the results are based",
    "cells": "released cells that leave more than one value open",
    "cells_changed": "of these, cells about which the anonymizer's choice reveals more",
    "cells_narrowed": "cells in which it rules values out",
    "cells_revealed": "cells in which it leaves a single value",
    "people_known": "people whose record occurs in enough cleartexts to compute a belief",
    "people_likelier": "people whose true secret becomes likelier to an attacker",
    "people_revealed": "people whose secret becomes certain",
    "belief_before": "attacker's mean belief in the true secret, cells taken at face value",
    "belief_after": "the same, knowing the anonymizer",
}
"""Rows of `Downcoding.summary` and what they count."""
BATCHES = 20
FEWEST = 100
"""Least number of draws that must reproduce the release: five for each batch."""
SMALL = 1e-9
THIN = 10


@dataclass(frozen=True, eq=False)
class Downcoding:
    """What the anonymizer's choice reveals. Returned by `downcoding`.

    Attributes
    ----------
    summary : pandas.DataFrame
        One line per measure, with its ``value`` and ``meaning``.
    cells : pandas.DataFrame
        One line per kind of row (equal cells, equal secret) and attribute that leaves more than
        one value open: ``rows``; ``possible`` and ``left``, the numbers of values before and after
        (the latter only if cleartexts were enumerated); ``shift``, the total variation between the
        two beliefs; ``changed``.
    people : pandas.DataFrame
        One line per person of the cleartext: the attacker's belief in the true secret ``before``
        and ``after``, the ``error`` of their difference, and ``likelier``. Missing if too few draws
        contain the person's record; empty without a cleartext.
    method : {"enumeration", "sampling"}
        How it was computed.
    """

    summary: pd.DataFrame
    cells: pd.DataFrame = field(repr=False)
    people: pd.DataFrame = field(repr=False)
    method: str

    @property
    def text(self) -> str:
        """The findings in plain words."""
        value = self.summary["value"]
        words = (
            f"Knowing the anonymizer reveals more about {value['cells_changed']:,.0f} of "
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
                f" The true secret becomes likelier for {value['people_likelier']:,.0f} of the "
                f"{value['people_known']:,.0f} people for whom this can be computed; their mean "
                f"belief is {share(value['belief_before'])} before and "
                f"{share(value['belief_after'])} after."
            )
        return words

    def to_dict(self) -> dict[str, object]:
        """Return the summary as plain types, without data of single people."""
        return {"method": self.method, "measures": plain(self.summary["value"].to_dict())}

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the summary as JSON, and write it to `path` if one is given."""
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
    """Compute what a release reveals to somebody who knows how it was made.

    Parameters
    ----------
    table : ReleasedTable
        A generalized table that shows sensitive values in clear.
    anonymize : callable
        Deterministic function that makes the release from a frame in clear, such as
        ``lambda df: ab.anonymize.recode(df, "ill", trees, k=5)``.
    cleartext : pandas.DataFrame, optional
        The people of the table, in the order of its rows, to see whose secret becomes likelier.
    draws : int, default 2000
        Number of cleartexts to draw and anonymize again.
    listed : int, default 2000
        Largest number of compatible cleartexts to enumerate, which is exact, instead of drawing.
    seed : int, optional
        Makes the draws reproducible.
    progressbar : bool
        Whether to show a progress bar while drawing.

    Returns
    -------
    Downcoding
        With ``.summary``, ``.cells``, ``.people``, ``.text`` and ``.to_json()``.

    Raises
    ------
    AnonbayesError
        If fewer than 100 of the drawn cleartexts give the release, which is too few.

    Notes
    -----
    Cleartexts are weighted as in Groups with independent evidence and ``alpha = beta = 1``. Beliefs
    from drawn cleartexts have a simulation error; a belief counts as changed if the difference
    exceeds it (Student's t over 20 batches, 5% for all comparisons together). A value that no
    accepted draw has is only shown to be unlikely; it is ruled out for certain only by enumeration.

    References
    ----------
    .. [1] A. Cohen (2022). Attacks on deidentification's defenses. USENIX Security.
    .. [2] R. C.-W. Wong, A. W.-C. Fu, K. Wang, J. Pei (2007). Minimality attack in privacy
       preserving data publishing. VLDB.

    Examples
    --------
    Two rows show the cell "south", which means a, b or c. Had both been in "coast" (a or b), or
    both in c, the release would have shown that. So one of them is in c, which is as likely as a
    and b
    together:

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
                "anonymize(cleartext) does not give this release: pass the anonymizer and settings "
                "that made it, and the people in the order of its rows."
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
            f"Only {kept:,} of {total:,} cleartexts that match the cells give this release, but "
            f"{FEWEST} are needed. For large tables with tight cells, suppressed rows or local "
            "recoding, that is nearly impossible to reach; "
            + (f"use draws={enough:,}." if enough else "try a part of the table.")
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
    """Return the release, or None if there is none."""
    try:
        return anonymize(frame)
    except (AnonymizationError, TableError):  # no release, or a constant secret
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
    """Build a cleartext from the codes of its rows' values."""
    columns = {
        name: [table.domains[name].values[c] for c in codes[:, a].tolist()]
        for a, name in enumerate(table.attributes)
    }
    values = table.secret.domain.values
    return pd.DataFrame(columns | {table.sensitive: [values[s] for s in table.secret_codes]})


# -- cleartexts -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Kinds:
    """Kinds of rows (equal cells and equal secrets), whose rows are exchangeable.

    `kind` is the kind of each row; `cells` the possible codes by kind and attribute.
    """

    kind: Ints
    cells: list[list[Ints]]

    @classmethod
    def of(cls, table: ReleasedTable) -> _Kinds:
        if table.scheme != "horizontal" or not table.secrets_known or table.weights is not None:
            raise TableError(
                "downcoding needs a horizontal table with one line per row and sensitive values in "
                "clear."
            )
        for name, column in table.columns.items():
            if (column.evidence.matrix.data != 1.0).any():
                raise TableError(
                    f"Column {name!r} is randomized; downcoding needs cells that are sets."
                )
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
        """Number of cleartexts that match the cells, not counting permutations within a kind."""
        sizes = np.bincount(self.kind)
        boxes = [math.prod(len(c) for c in cells) for cells in self.cells]
        return math.prod(
            math.comb(b + int(m) - 1, int(m)) for b, m in zip(boxes, sizes, strict=True)
        )

    def worlds(self, table: ReleasedTable) -> tuple[Ints, Floats]:
        """List them all with their probabilities, from Dirichlet-multinomial counts by secret."""
        places = [np.flatnonzero(self.kind == i) for i in range(len(self.cells))]
        options = [
            [*itertools.combinations_with_replacement(itertools.product(*map(list, cells)), len(p))]
            for cells, p in zip(self.cells, places, strict=True)
        ]
        sizes = [len(table.domains[name]) for name in table.attributes]
        codes, log_p = [], []
        for world in itertools.product(*options):
            rows = np.empty((len(self.kind), len(sizes)), dtype=np.int64)
            log_ways = 0.0  # to distribute values over the rows of a kind
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

    `sums` adds up weights by batch, for all cleartexts and for those that give the release.
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
    """The attacker's belief in everybody's true secret, before and after."""
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
    if not exact:  # beliefs and errors need enough batches with the record
        known = (every[1] > 0).sum(axis=0) >= BATCHES / 2
        before, after, error = (np.where(known, x, np.nan) for x in (before, after, error))
    likelier = after - before > _bound(len(record), exact) * error + SMALL
    return pd.DataFrame(
        {"before": before, "after": after, "error": error, "likelier": likelier},
        index=cleartext.index,
    )


def _key(codes: Ints) -> Ints:
    """A number for each record; two records collide with a probability of 2^-64."""
    factors = np.random.default_rng(1).integers(1, 2**62, codes.shape[-1])
    return np.asarray(codes @ factors)


def _bound(tests: int, exact: bool) -> float:
    """Standard errors beyond which a difference is significant, given the number of `tests`."""
    return 0.0 if exact else -float(stdtrit(BATCHES - 1, 0.025 / max(tests, 1)))


def _differ(part: Floats, whole: Floats) -> tuple[Floats, Floats, Floats]:
    """Ratio before and after over all batches, and the jackknife error of their difference."""
    with np.errstate(invalid="ignore", divide="ignore"):
        ratio = part.sum(axis=1) / whole.sum(axis=1)
        n = part.shape[1]
        if n == 1:
            return ratio[0], ratio[1], np.zeros_like(ratio[0])
        out = (part.sum(axis=1, keepdims=True) - part) / (whole.sum(axis=1, keepdims=True) - whole)
        gaps = out[1] - out[0]
        error = np.sqrt((n - 1) / n * ((gaps - gaps.mean(axis=0)) ** 2).sum(axis=0))
    return ratio[0], ratio[1], error
