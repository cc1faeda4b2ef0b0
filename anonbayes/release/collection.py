"""The tables that come with the package, and how each is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from anonbayes.domains import Domain
from anonbayes.errors import AnonbayesError
from anonbayes.hierarchies import Hierarchy
from anonbayes.release.adult import load_adult
from anonbayes.release.readers import read_anatomy, read_arx
from anonbayes.release.schemes.cleartext import whole_number
from anonbayes.release.table import ReleasedTable
from anonbayes.textfiles import read_csv_text

__all__ = ["DATASETS", "Dataset", "Island", "data_folder", "island"]

CLINIC_ATTRIBUTES = ("age", "sex", "zip", "marital_status", "profession")


def data_folder() -> Path:
    """Directory of the package's own tables, in an installed package or in a checkout."""
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "_data", package.parent / "data"):
        if (folder / "clinic.csv").is_file():
            return folder
    raise AnonbayesError(
        f"The package's tables are neither in {str(package / '_data')!r} nor in "
        f"{str(package.parent / 'data')!r}; reinstall the package."
    )


@dataclass(frozen=True)
class Dataset:
    """An entry of the collection.

    Parameters
    ----------
    kind : {"cleartext", "horizontal", "vertical"}
        A data frame in clear, or a released table of that scheme.
    sensitive : str
        Sensitive column.
    rows : int
        Number of rows (of the default, where there are parameters).
    columns : tuple of str
        Columns.
    about : str
        What it is, and what for.
    read : callable
        Reads it.
    """

    kind: str
    sensitive: str
    rows: int
    columns: tuple[str, ...]
    about: str
    read: Callable[..., Any]


# -- Table I of the Groups paper --------------------------------------------------------------


def table1_domains() -> dict[str, Domain]:
    """Domains of Table I: four nationalities, 22 ZIP codes, five diseases (MODEL 1.7)."""
    codes = [f"{area}{digit}" for area in ("4550", "5550") for digit in range(10)]
    zips = [*codes, "66601", "77701"]
    return {
        "Nat": Domain("Nat", ["M", "J", "C", "I"]),
        "ZIP": Domain("ZIP", zips, Hierarchy.from_prefix(zips, width=[1, 4])),
        "Dis": Domain("Dis", ["Heart", "Flu", "Stomach", "HIV", "Diabetes"]),
    }


def _table1() -> pd.DataFrame:
    return read_csv_text(data_folder() / "table1.csv")


def _table1_recoded() -> ReleasedTable:
    frame = read_csv_text(data_folder() / "table1_recoded.csv")
    return ReleasedTable.horizontal(frame, "Dis", domains=table1_domains())


def _table1_anatomy() -> ReleasedTable:
    folder = data_folder()
    return read_anatomy(
        folder / "table1_qit.csv",
        folder / "table1_st.csv",
        sensitive="Dis",
        group="GID",
        domains=table1_domains(),
    )


# -- the island problem -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Island:
    """The island problem as a released table.

    Parameters
    ----------
    table : ReleasedTable
        Attribute ``trait``, sensitive ``guilty``: the culprit's row (1, 1), `tested` innocents
        without the trait (0, 0), and innocents of whom nothing is known (``*``, 0).
    beta : numpy.ndarray
        Dirichlet parameters of the trait by guilt, shape (2, 2): an innocent has the trait with
        probability p, known almost exactly.
    guilt : float
        Probability that an islander with the trait is guilty, ``1 / (1 + (n - 1 - tested) p)``.
    """

    table: ReleasedTable
    beta: npt.NDArray[np.float64]
    guilt: float


def island(n: int = 101, p: float = 0.01, *, tested: int = 0) -> Island:
    """Island problem with n islanders, a trait of frequency p, and tested innocents (MODEL 1.7).

    With ``case = island(n, p)``, the attacker's belief in guilt after
    ``ab.fit(case.table, beta=case.beta)`` is ``case.guilt``.

    Examples
    --------
    >>> island(101, 0.01).guilt
    0.5
    """
    n = whole_number("n", n, least=2)
    tested = whole_number("tested", tested, least=0)
    if tested > n - 1:
        raise AnonbayesError(f"tested={tested}, but there are only {n - 1} innocents.")
    if not 0.0 < p < 1.0:
        raise AnonbayesError(f"p={p!r} must lie strictly between 0 and 1.")
    unknown = n - 1 - tested
    frame = pd.DataFrame(
        {
            "trait": pd.Series([1, *[0] * tested, *["*"] * unknown], dtype=object),
            "guilty": [1, *[0] * (n - 1)],
        }
    )
    table = ReleasedTable.horizontal(frame, "guilty", domains={"trait": [0, 1], "guilty": [0, 1]})
    strength = 1e9 * n  # so that the tested innocents do not move p
    beta = np.array([[strength * (1 - p), strength * p], [1.0, 1.0]])
    return Island(table, beta, 1 / (1 + unknown * p))


def _island(n: int = 101, tested: int = 0) -> ReleasedTable:
    return island(n, tested=tested).table


# -- the made-up clinic -----------------------------------------------------------------------


def clinic_hierarchies() -> dict[str, Hierarchy]:
    """Hierarchies of the clinic's quasi-identifiers."""
    folder = data_folder() / "clinic_hierarchies"
    return {name: Hierarchy.from_csv(folder / f"{name}.csv") for name in CLINIC_ATTRIBUTES}


def _clinic() -> pd.DataFrame:
    frame = read_csv_text(data_folder() / "clinic.csv")
    return frame.assign(age=frame["age"].astype(int))


def _clinic_recoded(variant: str) -> ReleasedTable:
    return read_arx(
        data_folder() / f"clinic_k4_l3_{variant}.csv",
        sensitive="diagnosis",
        hierarchies=clinic_hierarchies(),
    )


def _clinic_anatomy() -> ReleasedTable:
    folder = data_folder()
    return read_anatomy(
        folder / "clinic_l3_qit.csv",
        folder / "clinic_l3_st.csv",
        sensitive="diagnosis",
        group="group",
        domains={name: tree.leaves for name, tree in clinic_hierarchies().items()},
    )


_TABLE1 = ("Nat", "ZIP", "Dis")
_CLINIC = (*CLINIC_ATTRIBUTES, "diagnosis")

DATASETS = {
    "table1": Dataset(
        "cleartext", "Dis", 8, _TABLE1, "eight patients of the Groups paper, Table I(a)", _table1
    ),
    "table1_recoded": Dataset(
        "horizontal",
        "Dis",
        8,
        _TABLE1,
        "Table I(b): locally recoded, k = l = 2; its posterior is known by enumeration",
        _table1_recoded,
    ),
    "table1_anatomy": Dataset(
        "vertical", "Dis", 8, _TABLE1, "Table I(c): anatomized, l = 2", _table1_anatomy
    ),
    "island": Dataset(
        "horizontal",
        "guilty",
        101,
        ("trait", "guilty"),
        "island problem; n=101 and tested=0 can be changed; see also datasets.island",
        _island,
    ),
    "clinic": Dataset(
        "cleartext", "diagnosis", 3000, _CLINIC, "made-up clinic, for examples and reports", _clinic
    ),
    "clinic_global": Dataset(
        "horizontal",
        "diagnosis",
        3000,
        _CLINIC,
        "clinic, globally recoded, k = 4, l = 3, up to 5 % suppressed",
        lambda: _clinic_recoded("global"),
    ),
    "clinic_local": Dataset(
        "horizontal",
        "diagnosis",
        3000,
        _CLINIC,
        "clinic, locally recoded, k = 4, l = 3, nothing suppressed",
        lambda: _clinic_recoded("local"),
    ),
    "clinic_anatomy": Dataset(
        "vertical", "diagnosis", 3000, _CLINIC, "clinic, anatomized, l = 3", _clinic_anatomy
    ),
    "adult": Dataset(
        "cleartext",
        "occupation",
        30162,
        (
            "sex",
            "age",
            "race",
            "marital-status",
            "education",
            "native-country",
            "workclass",
            "occupation",
            "salary-class",
        ),
        "UCI Adult census extract; downloaded once (14 MB), then read from the cache",
        load_adult,
    ),
}
