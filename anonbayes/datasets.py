"""Tables to learn and to test with.

==================  ==========  =====  ==========================================================
name                kind        rows   what it is
==================  ==========  =====  ==========================================================
``table1``          cleartext   8      Nat, ZIP, Dis: the patients of the Groups paper, Table I(a)
``table1_recoded``  horizontal  8      Table I(b): local recoding with k = l = 2, whose learner and
                                       attacker beliefs are known by enumeration
``table1_anatomy``  vertical    8      Table I(c): Anatomy with l = 2
``island``          horizontal  101    trait, guilty: the island problem and the database search;
                                       parameters ``n`` and ``tested``
``clinic``          cleartext   3000   age, sex, zip, marital_status, profession, diagnosis: a
                                       made-up clinic with rare and common diagnoses that depend
                                       on all other columns
``clinic_global``   horizontal  3000   the clinic, globally recoded: k = 4, l = 3, up to 5 % of the
                                       rows suppressed
``clinic_local``    horizontal  3000   the clinic, locally recoded: k = 4, l = 3
``clinic_anatomy``  vertical    3000   the clinic, anatomized: l = 3
``adult``           cleartext   30162  nine columns of the UCI Adult census extract, sensitive
                                       occupation; the only one that is not in the package
==================  ==========  =====  ==========================================================

Cleartext tables are data frames, the others `ReleasedTable`. Rows of the clinic's recoded tables
are in the order of ``clinic``, so an evaluator can score them; a real publisher would shuffle them.
Nothing here uses the network but `download`, which ``load("adult")`` calls when the table is not in
the cache yet, unless told ``download=False``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd

from anonbayes.errors import AnonbayesError, nearest
from anonbayes.hierarchies import Hierarchy
from anonbayes.release.adult import download_adult
from anonbayes.release.collection import DATASETS, Island, clinic_hierarchies, island

__all__ = ["Island", "available", "download", "hierarchies", "island", "load"]


def available() -> pd.DataFrame:
    """List the tables: kind, rows, sensitive column, columns, and what each is for.

    Examples
    --------
    >>> available().loc["clinic", ["kind", "sensitive"]].tolist()
    ['cleartext', 'diagnosis']
    """
    listing = {
        name: {
            "kind": d.kind,
            "rows": d.rows,
            "sensitive": d.sensitive,
            "columns": ", ".join(d.columns),
            "about": d.about,
        }
        for name, d in DATASETS.items()
    }
    return pd.DataFrame.from_dict(listing, orient="index").rename_axis("name")


def load(name: str, **parameters: Any) -> Any:
    """Load a table by name.

    Parameters
    ----------
    name : str
        One of `available`.
    **parameters
        ``n`` and ``tested`` of ``"island"``; ``download`` of ``"adult"``.

    Returns
    -------
    pandas.DataFrame or ReleasedTable
        A frame for cleartext tables.

    Examples
    --------
    >>> load("table1_recoded")
    ReleasedTable(horizontal, 8 rows, 4 groups, k=2, l=2, sensitive='Dis', ...)
    >>> load("table1").iloc[0].tolist()
    ['M', '45501', 'Heart']
    """
    if name not in DATASETS:
        raise AnonbayesError(f"There is no dataset {name!r}. {nearest(name, DATASETS)}")
    allowed = {"island": ("n", "tested"), "adult": ("download",)}.get(name, ())
    for parameter in parameters:
        if parameter not in allowed:
            known = ", ".join(allowed) or "none"
            raise AnonbayesError(f"Dataset {name!r} has no parameter {parameter!r} ({known}).")
    return DATASETS[name].read(**parameters)


def hierarchies(name: str) -> dict[str, Hierarchy]:
    """Hierarchies of a dataset's quasi-identifiers, for `anonymize.recode` and the readers.

    Examples
    --------
    >>> hierarchies("clinic")["zip"].depth
    4
    """
    if name != "clinic":
        raise AnonbayesError(f"There are hierarchies for 'clinic' only, not for {name!r}.")
    return clinic_hierarchies()


def download(name: str = "adult", *, source: str | Path | None = None) -> Path:
    """Fetch a table that is not part of the package, and store it in the cache.

    Parameters
    ----------
    name : {"adult"}
        Which table.
    source : str or path, optional
        Mirror's address, or local copy, of the wheel ``fairness-0.1.8-py3-none-any.whl``.

    Returns
    -------
    pathlib.Path
        The stored file. Wheel and table are compared with known SHA-256 digests.
    """
    if name != "adult":
        raise AnonbayesError(f"Only 'adult' is downloaded; {name!r} needs no network.")
    return download_adult(source)
