"""Types of the arrays that kernels take and return, and numbers as users give them."""

from __future__ import annotations

from decimal import InvalidOperation
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from anonbayes.errors import AnonbayesError

__all__ = [
    "Codes",
    "Floats",
    "Ints",
    "Mask",
    "read_generator",
    "read_number",
    "read_numbers",
    "read_whole",
]

Floats = npt.NDArray[np.float64]
"""Probabilities, weights, logarithms."""

Ints = npt.NDArray[np.int64]
"""Counts, offsets, numbers of rows."""

Codes = npt.NDArray[np.intp]
"""Places of values in their domain."""

Mask = npt.NDArray[np.bool_]
"""Which of several are meant."""


def read_number(
    argument: str, value: Any, *, error: type[AnonbayesError] = AnonbayesError
) -> float:
    """Return a real number; raise `error` for texts, truth values, arrays and the like.

    Examples
    --------
    >>> read_number("epsilon", 1)
    1.0
    >>> read_number("epsilon", "1")
    Traceback (most recent call last):
    ...
    anonbayes.errors.AnonbayesError: epsilon='1' must be a number.
    """
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, Real) and not isinstance(value, bool | np.bool_):
        try:
            return float(value)
        except OverflowError:
            pass
    raise error(f"{argument}={value!r} must be a number.")


def read_whole(
    argument: str, value: Any, *, least: int = 0, error: type[AnonbayesError] = AnonbayesError
) -> int:
    """Return a whole number from `least` on; raise `error` for anything else.

    Examples
    --------
    >>> read_whole("n", 100, least=1)
    100
    >>> read_whole("n", 2.5)
    Traceback (most recent call last):
    ...
    anonbayes.errors.AnonbayesError: n=2.5 must be a whole number of at least 0.
    """
    if isinstance(value, Real) and not isinstance(value, bool | np.bool_):
        number: Any = value  # the abstract type has no comparison for type checkers
        try:
            if least <= number == int(number):
                return int(number)
        except (OverflowError, ValueError):
            pass
    raise error(f"{argument}={value!r} must be a whole number of at least {least}.")


def read_numbers(
    argument: str, values: Any, *, error: type[AnonbayesError] = AnonbayesError
) -> Floats:
    """Return numbers as an array of any shape; raise `error` for texts, gaps and ragged lists.

    Examples
    --------
    >>> read_numbers("counts", [3, 4]).tolist()
    [3.0, 4.0]
    >>> read_numbers("counts", ["3", None])
    Traceback (most recent call last):
    ...
    anonbayes.errors.AnonbayesError: counts must be numbers, not '3'.
    """
    try:
        array = np.asarray(values)
        if array.dtype.kind == "O":
            for item in array.flat:
                if not isinstance(item, Real):
                    raise error(f"{argument} must be numbers, not {item!r}.")
        elif array.dtype.kind not in "biuf":
            raise error(f"{argument} must be numbers, not {array.ravel()[:1].tolist()!r}.")
        return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError, InvalidOperation) as reason:
        if isinstance(reason, AnonbayesError):
            raise
        raise error(f"{argument} must be numbers in rows of one length: {reason}.") from None


def read_generator(
    seed: Any, *, error: type[AnonbayesError] = AnonbayesError
) -> np.random.Generator:
    """Return a generator from a seed: a whole number, a generator (itself), or None for chance.

    Examples
    --------
    >>> int(read_generator(1).integers(10))
    4
    """
    if seed is None or isinstance(seed, np.random.Generator | np.random.SeedSequence):
        return np.random.default_rng(seed)
    try:
        return np.random.default_rng(read_whole("seed", seed))
    except AnonbayesError:
        raise error(
            f"seed={seed!r} must be a whole number of at least 0, a Generator or None."
        ) from None
