"""The cleartext table as codes, after every check that a scheme needs."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.domains import Domain, code_dtype
from anonbayes.errors import AnonymizationError, DomainError, TableError, nearest
from anonbayes.hierarchies import Hierarchy
from anonbayes.release.build import check_column, check_frame, check_known
from anonbayes.release.columns import IDENTIFIER_SIZE
from anonbayes.release.readers import read_hierarchies

__all__ = ["Cleartext", "Trees", "check_privacy", "whole_number"]

# Hierarchies or their files by column, or a directory of such files.
Trees = str | Path | Mapping[str, Hierarchy | str | Path]


@dataclass(frozen=True, eq=False)
class Cleartext:
    """Codes of the quasi-identifiers and of the sensitive column of a frame.

    Parameters
    ----------
    domains : dict of str to Domain
        Domain of each quasi-identifier, with its hierarchy where one was given.
    codes : list of numpy.ndarray
        Domain code of each row, one array per quasi-identifier.
    sensitive : Domain
        Domain of the sensitive column.
    secret : numpy.ndarray
        Code of each row's sensitive value.
    """

    domains: dict[str, Domain]
    codes: list[npt.NDArray[Any]]
    sensitive: Domain
    secret: npt.NDArray[Any]

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.secret)

    @property
    def secret_counts(self) -> npt.NDArray[np.int64]:
        """Number of rows of each sensitive value."""
        return np.bincount(self.secret, minlength=len(self.sensitive))

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        sensitive: str,
        *,
        quasi_identifiers: Iterable[str] | None = None,
        domains: Mapping[str, Domain | Iterable[Any]] | None = None,
        hierarchies: Trees | None = None,
    ) -> Cleartext:
        """Encode a frame.

        Columns that are neither sensitive nor among `quasi_identifiers` are left out of the
        release. A hierarchy's leaves are the domain of a column for which none is given, the
        sensitive one included.
        """
        check_frame(frame, "The cleartext table")
        if not isinstance(sensitive, str):
            raise TableError(
                f"sensitive={sensitive!r} must be the name of one column; join several columns "
                "into one of tuples first."
            )
        check_column(frame, sensitive, "sensitive")
        names = _quasi_identifiers(frame, sensitive, quasi_identifiers)
        trees = read_hierarchies(hierarchies, frame.columns) or {}
        check_known(domains, frame.columns, "domains")
        check_known(trees, frame.columns, "hierarchies")
        for name in (*names, sensitive):
            _check_filled(frame[name], name)

        given = domains or {}
        secret_domain = _domain(
            sensitive, frame[sensitive], given.get(sensitive), trees.get(sensitive), discrete=True
        )
        secret = _encode(frame[sensitive], secret_domain)
        if not (secret != secret[0]).any():
            raise TableError(
                f"The sensitive column {sensitive!r} is constant "
                f"({secret_domain.values[secret[0]]!r}): no grouping can hide it."
            )
        known = {
            name: _domain(name, frame[name], given.get(name), trees.get(name)) for name in names
        }
        codes = [_encode(frame[name], domain) for name, domain in known.items()]
        return cls(known, codes, secret_domain, secret)


def check_privacy(cleartext: Cleartext, k: int, l: int) -> tuple[int, int]:  # noqa: E741
    """Return k and l as plain ints, after checking that the table as a whole satisfies them."""
    k, l = whole_number("k", k), whole_number("l", l)  # noqa: E741
    if k > cleartext.n_rows:
        raise AnonymizationError(
            f"k={k} is not possible: the table has only {cleartext.n_rows} rows."
        )
    distinct = int((cleartext.secret_counts > 0).sum())
    if l > distinct:
        raise AnonymizationError(
            f"l={l} is not possible: column {cleartext.sensitive.name!r} has {distinct} distinct "
            f"values, so l can be at most {distinct}."
        )
    return k, l


def whole_number(name: str, value: Any, least: int = 1) -> int:
    """Return `value` as an int, or raise an error naming the argument."""
    try:
        number = operator.index(value)
    except TypeError:
        number = least - 1
    if number < least or isinstance(value, bool | np.bool_):
        raise AnonymizationError(f"{name}={value!r} must be a whole number of at least {least}.")
    return number


def _quasi_identifiers(
    frame: pd.DataFrame, sensitive: str, names: Iterable[str] | None
) -> list[str]:
    if isinstance(names, str):
        raise TableError(f"quasi_identifiers={names!r} must be a list of column names.")
    chosen = [c for c in frame.columns if c != sensitive] if names is None else list(names)
    for name in chosen:
        check_column(frame, name, "quasi-identifying")
    if len(set(chosen)) < len(chosen):
        raise TableError(f"quasi_identifiers names a column twice: {chosen}.")
    if sensitive in chosen:
        raise TableError(f"Column {sensitive!r} cannot be both sensitive and a quasi-identifier.")
    if not chosen:
        raise TableError(
            f"There is no quasi-identifier beside the sensitive column {sensitive!r}: nothing to "
            "anonymize."
        )
    return chosen


def _check_filled(series: pd.Series, name: str) -> None:
    gaps = series.isna().to_numpy()
    if gaps.any():
        raise TableError(
            f"Column {name!r}, row {series.index[int(gaps.argmax())]}: the value is missing "
            f"({int(gaps.sum())} rows). Give missing values a category of their own "
            f"(frame[{name!r}].fillna('unknown')) or drop these rows."
        )


def _domain(
    name: str,
    series: pd.Series,
    given: Domain | Iterable[Any] | None,
    hierarchy: Hierarchy | None,
    *,
    discrete: bool = False,
) -> Domain:
    """Domain of a column; many distinct numbers are fine unless it has to be `discrete`."""
    if isinstance(given, str):
        raise DomainError(f"The domain of {name!r} is the text {given!r}; give a list of values.")
    if isinstance(given, Domain):
        return Domain(name, given.values, given.hierarchy if hierarchy is None else hierarchy)
    if given is not None:
        return Domain(name, given, hierarchy)
    if hierarchy is not None:
        return Domain(name, hierarchy.leaves, hierarchy)
    try:
        domain = Domain.infer(name, series)
    except TypeError as error:  # pandas cannot hash the cells
        raise DomainError(f"Column {name!r} holds values that are not hashable: {error}.") from None
    scale = domain.is_numeric and not discrete
    if not scale and len(domain) > max(IDENTIFIER_SIZE, len(series) / 2):
        advice = "Bin it" if discrete else "Leave it out with quasi_identifiers=[...]"
        raise TableError(
            f"Column {name!r} has {len(domain):,} distinct values in {len(series):,} rows, like an "
            f"identifier. {advice}, or say that it is meant with domains={{{name!r}: [...]}}."
        )
    return domain


def _encode(series: pd.Series, domain: Domain) -> npt.NDArray[Any]:
    """Codes of a column; the text of a value stands for the value, as in released cells."""
    inverse, distinct = pd.factorize(series)
    lookup = np.empty(len(distinct), dtype=code_dtype(len(domain)))
    for i, value in enumerate(distinct):
        code = domain.find(value)
        if code is None:
            code = domain.by_label.get(str(value))
        if code is None:
            row = series.index[int(np.argmax(inverse == i))]
            raise DomainError(
                f"Column {domain.name!r}, row {row}: {value!r} is not in the domain. "
                f"{nearest(value, domain.labels)}"
            )
        lookup[i] = code
    return lookup[inverse]
