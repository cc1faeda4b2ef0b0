r"""Lists of values on the command line: ``a,b,c``, ``0-99``, or ``@file``."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from anonbayes.errors import AnonbayesError

__all__ = ["parse_domains", "parse_number", "parse_values"]

RANGE = re.compile(r"(-?\d+)-(-?\d+)")


def parse_values(text: str, *, option: str = "--values") -> Sequence[str | int]:
    """Return the values that a text lists.

    Parameters
    ----------
    text : str
        Values between commas; two whole numbers with a hyphen between them, both included; or the
        name of a UTF-8 file with one value per line after an ``@``.
    option : str
        Whose text it is, for messages.

    Examples
    --------
    >>> parse_values("flu, cold"), parse_values("18-20")
    (['flu', 'cold'], range(18, 21))
    """
    if text.startswith("@"):
        values = _lines(Path(text[1:]), option)
    elif found := RANGE.fullmatch(text.strip()):
        low, high = int(found[1]), int(found[2])
        if low > high:
            raise AnonbayesError(f"{option} {text!r}: the first number is larger than the second.")
        return range(low, high + 1)
    else:
        values = [value.strip() for value in text.split(",")]
    if "" in values:
        raise AnonbayesError(f"{option} {text!r} has an empty value.")
    seen: set[str] = set()
    for value in values:
        if value in seen:
            raise AnonbayesError(f"{option} {text!r} has {value!r} twice.")
        seen.add(value)
    return values


def parse_domains(texts: Iterable[str] | None) -> dict[str, Sequence[str | int]] | None:
    """Return the values of columns, each given as ``column=values``.

    Examples
    --------
    >>> parse_domains(["sex=f,m", "age=18-99"])
    {'sex': ['f', 'm'], 'age': range(18, 100)}
    """
    if not texts:
        return None
    out = {}
    for text in texts:
        name, equals, values = text.partition("=")
        if not equals or not name:
            raise AnonbayesError(
                f"--domain {text!r} must be column=values, such as sex=f,m or age=18-99."
            )
        out[name] = parse_values(values, option=f"--domain {name}")
    return out


def parse_number(text: str) -> float | None:
    """Return the number that a text spells, in whatever way, or None; NaN is no number.

    Examples
    --------
    >>> parse_number("1e3"), parse_number("inf"), parse_number("many")
    (1000.0, inf, None)
    """
    try:
        number = float(text)
    except ValueError:
        return None
    return None if math.isnan(number) else number


def _lines(file: Path, option: str) -> list[str]:
    try:
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise AnonbayesError(f"{option} @{file} cannot be read: {error}.") from None
    return [line.strip() for line in text.splitlines() if line.strip()]
