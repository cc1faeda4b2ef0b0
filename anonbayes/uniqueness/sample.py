"""A sample of people as distinct records, and the population from which it was drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.arrays import Floats, Ints
from anonbayes.domains import Domain, factorize, gaps
from anonbayes.errors import AnonbayesError, TableError, nearest
from anonbayes.io.text import pandas_frame
from anonbayes.tables.evidence import Evidence
from anonbayes.tables.groups import distinct_rows
from anonbayes.tables.table import ReleasedTable
from anonbayes.uniqueness.mixture import (
    SampleRecords,
    attributes_in_order,
    record_arrays,
)
from anonbayes.uniqueness.people_beyond import Beyond

__all__ = ["Sample", "beyond_sample", "minimal_uniques", "read_sample"]

FEWEST_NUMBERS = 6
"""Fewest values for a column of numbers to be treated as a scale."""
MOST_PEOPLE = 10**15
"""Largest population; all smaller whole numbers are exact as floats."""
MOST_SETS = 50_000
"""Most sets of attributes that are searched for those that single out a row."""


@dataclass(frozen=True, eq=False)
class Sample:
    """A sample as distinct records, with the names of its rows.

    Attributes
    ----------
    attributes : tuple of str
        Attributes that form a record.
    evidence : list of Evidence
        Cells of each attribute.
    missed : list of bool
        Whether each attribute may have values that are missing from the sample.
    ordered : list of bool
        Whether the values of each attribute are numbers or otherwise ordered.
    records : SampleRecords
        Distinct records.
    line_of_row : ndarray
        Record of each row.
    mass : ndarray
        Sampling weight of each row; 1 without weights.
    size : int
        Number of rows.
    index : pandas.Index
        Names of the rows.
    """

    attributes: tuple[str, ...]
    evidence: list[Evidence]
    missed: list[bool]
    ordered: list[bool]
    records: SampleRecords
    line_of_row: Ints
    mass: Floats
    size: int
    index: pd.Index


def read_sample(
    data: pd.DataFrame | ReleasedTable,
    *,
    weights: str | None,
    attributes: Sequence[str] | None,
    household: str | None,
    strata: str | None,
    domains: Mapping[str, Sequence[Any]] | None,
) -> Sample:
    """Read a data frame or a release; all values of the stratum must occur in the sample."""
    data = pandas_frame(data)
    if isinstance(data, ReleasedTable):
        given = {"weights": weights, "household": household, "strata": strata, "domains": domains}
        if named := [name for name, value in given.items() if value is not None]:
            raise AnonbayesError(
                f"{named[0]}= is for data frames; a release is taken as it was published."
            )
        names = _chosen(attributes, list(data.columns))
        columns = [data.columns[name] for name in names]
        evidence = [c.evidence for c in columns]
        codes = [c.codes.astype(np.int64) for c in columns]
        rows_of = np.ones(len(codes[0])) if data.weights is None else data.weights.astype(float)
        mass_of, index = rows_of, pd.Index(range(len(rows_of)))
        missed = [False] * len(names)
    else:
        names, evidence, codes = _read_frame(data, attributes, weights, household, strata, domains)
        rows_of, index = np.ones(len(data)), data.index
        mass_of = _read_weights(data, weights)
        missed = [name not in (domains or {}) and name != strata for name in names]
    n = int(rows_of.sum())
    line_of_row, first, _ = distinct_rows(codes)
    lines = np.stack([code[first] for code in codes], axis=1)
    order = np.lexsort(lines[:, attributes_in_order(evidence)[::-1]].T)
    lines, line_of_row = lines[order], np.argsort(order)[line_of_row]
    mass = np.bincount(line_of_row, weights=mass_of)
    effective = float(n) if weights is None else mass_of.sum() ** 2 / (mass_of**2).sum()
    rows = np.bincount(line_of_row, weights=rows_of).astype(np.int64)
    ordered = [_is_ordered(e.domain, m) for e, m in zip(evidence, missed, strict=True)]
    records = record_arrays(evidence, missed, ordered, lines, rows, mass * effective / mass.sum())
    return Sample(
        tuple(map(str, names)), evidence, missed, ordered, records, line_of_row, mass_of, n, index
    )


def _is_ordered(domain: Domain, missed: bool) -> bool:
    """Whether the values are increasing numbers, and enough of them for a tree.

    Numbers with gaps where the sample has missed some, such as incomes, are treated as names.
    """
    numbers = _numbers(domain.values)
    if numbers is None or len(domain) < FEWEST_NUMBERS:
        return False
    gaps = np.diff(numbers)
    return bool((gaps > 0).all() and not (missed and np.ptp(gaps) > 1e-9 * gaps.max()))


def _numbers(values: Sequence[Any]) -> Floats | None:
    """Return the values as numbers, parsing text; None if any of them is not a number."""
    if any(isinstance(value, bool | np.bool_) for value in values):
        return None
    try:
        numbers = np.array([float(value) for value in values])
    except (TypeError, ValueError):
        return None
    return numbers if np.isfinite(numbers).all() else None


def _in_order(values: list[Any]) -> list[Any]:
    """Sort numbers that fill at least half of an evenly spaced scale, and add those missed."""
    numbers = _numbers(values)
    if numbers is None or len(values) < FEWEST_NUMBERS or len(set(numbers)) < len(numbers):
        return values
    rising = np.sort(numbers)
    low, step = rising[0], np.diff(rising).min()
    place = (numbers - low) / step
    size = round(place.max()) + 1
    if size > 2 * len(values) or np.abs(place - np.round(place)).max() > 1e-6:
        return values
    scale: list[Any] = (low + step * np.arange(size)).tolist()
    for i, value in zip(np.round(place).astype(int), values, strict=True):
        scale[i] = value
    return scale


def _read_frame(
    frame: pd.DataFrame,
    attributes: Sequence[str] | None,
    weights: str | None,
    household: str | None,
    strata: str | None,
    domains: Mapping[str, Sequence[Any]] | None,
) -> tuple[tuple[str, ...], list[Evidence], list[Ints]]:
    if not isinstance(frame, pd.DataFrame):
        raise TableError(f"Expected a data frame or a ReleasedTable, got {type(frame).__name__}.")
    if not len(frame):
        raise TableError("The table has no rows.")
    others = (weights, household)
    for other in (*others, strata, *(domains or {})):
        if other is not None and other not in frame:
            raise TableError(f"There is no column {other!r}. {nearest(other, frame.columns)}")
    names = _chosen(attributes, [c for c in frame.columns if c not in others])
    if household is not None:
        _refuse_gaps(frame[household], household)
    if strata is not None and strata not in names:
        names = (*names, strata)
    evidence, codes = [], []
    for name in names:
        column = frame[name]
        _refuse_gaps(column, name)
        code, values = factorize(column, where=f"Column {name!r}")
        known = (domains or {}).get(name)
        domain = Domain(str(name), _in_order(values) if known is None else known)
        members = [np.array([place]) for place in domain.encode(values)]
        evidence.append(Evidence.from_members(domain, members, values))
        codes.append(np.asarray(code, dtype=np.int64))
    return names, evidence, codes


def _refuse_gaps(column: pd.Series, name: str) -> None:
    missing = gaps(column, where=f"Column {name!r}")
    if missing.any():
        raise TableError(
            f"Column {name!r}: row {int(missing.argmax())} (from 0) has no value; drop such "
            'rows or give them a value of their own, as `frame.fillna("unknown")` does.'
        )


def _chosen(attributes: Sequence[str] | None, known: Sequence[str]) -> tuple[str, ...]:
    if attributes is None:
        chosen = tuple(known)
    else:
        chosen = (attributes,) if isinstance(attributes, str) else tuple(attributes)
        for name in chosen:
            if name not in known:
                raise TableError(f"There is no attribute {name!r}. {nearest(name, known)}")
    if not chosen:
        raise TableError("A record needs at least one attribute.")
    if len(set(chosen)) < len(chosen):
        raise TableError(f"An attribute is named twice in {list(chosen)}.")
    return chosen


def _read_weights(frame: pd.DataFrame, weights: str | None) -> Floats:
    if weights is None:
        return np.ones(len(frame))
    values = pd.to_numeric(frame[weights], errors="coerce").to_numpy(dtype=float)
    bad = ~((values > 0) & (values <= MOST_PEOPLE))
    if bad.any():
        place = int(bad.argmax())
        raise TableError(
            f"Column {weights!r}: row {place} (from 0) has {frame[weights].tolist()[place]!r}; a "
            "weight is the number of people that a row stands for; it must be above 0 "
            f"and at most {MOST_PEOPLE:,}."
        )
    return values


# -------------------------------------------------------------------------------------------------
# The population.


def beyond_sample(
    sample: Sample,
    population: int | Mapping[Any, int] | None,
    *,
    weighted: bool,
    strata: str | None,
) -> Beyond:
    """Count the people who are not in the sample, in total or by stratum."""
    if strata is not None:
        return _beyond_strata(sample, population, strata)
    if isinstance(population, Mapping):
        raise AnonbayesError("population= by stratum requires strata=, the column of strata.")
    if population is None:
        if not weighted:
            raise AnonbayesError(
                "Give population=, the number of people including those in the sample, or "
                "weights=, the column of sampling weights."
            )
        population = max(round(min(sample.mass.sum(), 2.0 * MOST_PEOPLE)), 1)
    size = _whole(population, "population")
    if size < sample.size:
        raise AnonbayesError(
            f"A population of {size:,} is smaller than the sample of {sample.size:,} rows"
            + (" (the sum of the weights)." if weighted else ".")
        )
    others = size - sample.size
    records = sample.records
    return Beyond(
        np.full(len(records.rows), others),
        -1,
        np.array([others]),
        np.zeros(len(records.rows), dtype=np.int64),
        np.array([records.mass.sum()]),
    )


def _beyond_strata(sample: Sample, population: Any, strata: str) -> Beyond:
    a = sample.attributes.index(str(strata))
    domain, records = sample.evidence[a].domain, sample.records
    if not isinstance(population, Mapping):
        raise AnonbayesError(
            f"strata={strata!r} requires all sizes of strata: population={{value: people}} "
            f"with the values {', '.join(map(repr, domain.values[:5]))}"
            f"{', ...' if len(domain) > 5 else ''}."
        )
    value = records.cell_values[records.cell_start[records.cells[:, a]]] - records.value_start[a]
    rows = np.bincount(value, weights=records.rows, minlength=len(domain)).astype(np.int64)
    if unknown := [stratum for stratum in population if stratum not in domain.values]:
        raise AnonbayesError(
            f"population: nobody in the sample belongs to stratum {unknown[0]!r}, so nothing can "
            f"be learned about it; leave it out, or merge it with another in column {strata!r}."
        )
    others = np.zeros(len(domain), dtype=np.int64)
    for place, stratum in enumerate(domain.values):
        if stratum not in population:
            raise AnonbayesError(f"population: the size of stratum {stratum!r} is missing.")
        size = _whole(population[stratum], f"population of stratum {stratum!r}")
        if size < rows[place]:
            raise AnonbayesError(
                f"population: {size:,} people in stratum {stratum!r} are fewer than its "
                f"{rows[place]:,} rows."
            )
        others[place] = size - rows[place]
    seen = np.bincount(value, weights=records.mass, minlength=len(domain)).astype(np.float64)
    return Beyond(others[value], a, others, value.astype(np.int64), seen)


def _whole(number: Any, what: str) -> int:
    try:
        if not isinstance(number, bool) and int(number) == number and 1 <= number <= MOST_PEOPLE:
            return int(number)
    except (TypeError, ValueError, OverflowError):
        pass
    raise AnonbayesError(
        f"{what} must be a whole number of people, at most {MOST_PEOPLE:,}, got {number!r}."
    )


# -------------------------------------------------------------------------------------------------
# Sets of attributes that single out a row of the sample (SUDA).


def minimal_uniques(cells: Ints, rows: Ints, largest: int) -> tuple[Ints, Ints, Floats, Floats]:
    """Count each record's minimal sample uniques.

    A record is unique on a set of attributes if no other row has the same cells there; the set is
    minimal if the record is unique on none of its proper subsets. Since uniqueness on a set implies
    uniqueness on every larger one, only the subsets with one attribute fewer need to be checked.

    Parameters
    ----------
    cells : ndarray
        Cells, one line per distinct record.
    rows : ndarray
        Number of rows of each record; a record with several rows is unique on no set.
    largest : int
        Size of the largest sets examined.

    Returns
    -------
    smallest, sets, score, of_attribute
        Size of the smallest set (0 if there is none up to `largest`), number of sets, sum of their
        scores, and the same sum over the sets that contain each attribute. As in SUDA, a set of
        ``k`` of the ``A`` attributes scores ``prod_{i=k}^{largest} (A - i)``, omitting factors
        below 1, so that small sets count more.
    """
    n, n_attributes = cells.shape
    smallest, sets = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=np.int64)
    score, of_attribute = np.zeros(n), np.zeros((n, n_attributes))
    codes = [np.asarray(pd.factorize(cells[:, a])[0], dtype=np.int64) for a in range(n_attributes)]
    keys: dict[tuple[int, ...], Ints] = {(): np.zeros(n, dtype=np.int64)}
    alone: dict[tuple[int, ...], npt.NDArray[np.bool_]] = {(): np.full(n, rows.sum() == 1)}
    for size in range(1, largest + 1):
        worth = float(np.prod([max(n_attributes - i, 1) for i in range(size, largest + 1)]))
        new_keys, new_alone = {}, {}
        for chosen in combinations(range(n_attributes), size):
            key = keys[chosen[:-1]] * (codes[chosen[-1]].max() + 1) + codes[chosen[-1]]
            key = np.asarray(pd.factorize(key)[0], dtype=np.int64)
            unique = np.bincount(key, weights=rows)[key] == 1
            smaller = np.zeros(n, dtype=bool)
            for left_out in range(size):
                smaller |= alone[chosen[:left_out] + chosen[left_out + 1 :]]
            minimal = unique & ~smaller
            smallest[minimal & (smallest == 0)] = size
            sets += minimal
            score[minimal] += worth
            for a in chosen:
                of_attribute[minimal, a] += worth
            new_keys[chosen], new_alone[chosen] = key, unique
        keys, alone = new_keys, new_alone
    return smallest, sets, score, of_attribute
