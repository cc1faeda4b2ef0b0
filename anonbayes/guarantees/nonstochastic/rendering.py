"""Results as JSON that every reader accepts."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from anonbayes.files import write_text

__all__ = ["write_json"]


def write_json(content: dict[str, Any], path: str | Path | None = None) -> str:
    """Return `content` as JSON text; write it to `path` if given.

    Tables become lists of records. JSON has no infinity: infinite numbers become the texts "inf"
    and "-inf", missing ones null.

    Examples
    --------
    >>> print(write_json({"leakage": math.inf, "radius": math.nan, "k": np.int64(3)}))
    {
      "leakage": "inf",
      "radius": null,
      "k": 3
    }
    """
    text = json.dumps(_plain(content), indent=2, allow_nan=False)
    if path is not None:
        write_text(path, text + "\n")
    return text


def _plain(item: Any) -> Any:
    if isinstance(item, dict):
        return {str(key): _plain(value) for key, value in item.items()}
    if isinstance(item, pd.DataFrame):
        return _plain(item.astype(object).to_dict(orient="records"))
    if isinstance(item, list | tuple | np.ndarray):
        return [_plain(value) for value in item]
    if isinstance(item, np.generic):
        item = item.item()
    if item is pd.NA or (isinstance(item, float) and math.isnan(item)):
        return None
    if isinstance(item, float) and math.isinf(item):
        return "inf" if item > 0 else "-inf"
    return item
