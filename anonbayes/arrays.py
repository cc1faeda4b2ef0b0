"""Array types used by the kernels, and checks of numeric arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import InvalidOperation
from functools import cache, wraps
from numbers import Real
from typing import Any, NamedTuple, ParamSpec, TypeVar

import numpy as np
import numpy.typing as npt

from anonbayes.errors import AnonbayesError

Floats = npt.NDArray[np.float64]
"""Probabilities, weights, logarithms."""

Ints = npt.NDArray[np.int64]
"""Counts, offsets, numbers of rows."""

Codes = npt.NDArray[np.intp]
"""Codes: positions of values in their domain."""

SmallCodes = npt.NDArray[np.integer]
"""Codes of many rows, in the smallest integer type that fits."""

Draws = dict[str, npt.NDArray[Any]]
"""Arrays of numbers by the name of a variable."""

Mask = npt.NDArray[np.bool_]
"""Boolean mask."""

P = ParamSpec("P")
R = TypeVar("R")

FAR = 300
"""Numbers that get too small are rescaled by this many binary digits."""

SMALL = 2.0**-FAR


class Scaled(NamedTuple):
    """Products of many probabilities, ``number * 2**(FAR * power)``, even if too small for a float.

    Scaling by powers of two is exact: where nothing underflows, `number` is the plain product to
    the last bit.
    """

    number: Floats
    power: Ints

    @classmethod
    def product(cls, first: Floats, factors: Iterable[Floats]) -> Scaled:
        """Multiply arrays that all have the shape of the first."""
        number, power = np.array(first, dtype=np.float64), np.zeros(first.shape, dtype=np.int64)
        for factor in factors:
            number *= factor
            while (small := (number < SMALL) & (number > 0)).any():
                number[small] /= SMALL
                power[small] -= 1
        return cls(number, power)

    @property
    def plain(self) -> Floats:
        """The product as floats; what is too small for a float becomes zero."""
        return np.asarray(np.ldexp(self.number, FAR * self.power))

    def plus(self, other: Scaled) -> Scaled:
        """Add elementwise."""
        if not (self.power.any() or other.power.any()):
            return Scaled(self.number + other.number, self.power)
        least = np.iinfo(np.int64).min // (2 * FAR)
        one, two = (np.where(x.number > 0, x.power, least) for x in (self, other))
        top = np.maximum(one, two)
        top = np.where(top == least, 0, top)
        return Scaled(_moved(self.number, one - top) + _moved(other.number, two - top), top)

    def relative(self, *others: Scaled) -> list[Floats]:
        """Return this and the others as plain floats on a common scale per record.

        The last axis holds what is compared, the axis before it the records. Each record is
        rescaled so that its largest number is the one in `number`; positive numbers stay positive.
        """
        each = (self, *others)
        if not any(x.power.any() for x in each):
            return [x.number for x in each]
        least = np.iinfo(np.int64).min // (2 * FAR)
        powers = [np.where(x.number > 0, x.power, least) for x in each]
        tops = [p.max(axis=-1, keepdims=True) for p in powers]
        top = np.max([t.reshape(-1, *t.shape[-2:]).max(axis=0) for t in tops], axis=0)
        return [
            np.where(x.number > 0, np.maximum(_moved(x.number, p - top), 5e-324), 0.0)
            for x, p in zip(each, powers, strict=True)
        ]

    def over(self, other: Scaled) -> Floats:
        """Divide elementwise; the ratio is a plain float."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            return np.asarray(_moved(self.number / other.number, self.power - other.power))


def starts_of(sizes: npt.ArrayLike) -> Ints:
    """Start of each of several consecutive parts of the given sizes, followed by the end."""
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _moved(number: Floats, power: Ints) -> Floats:
    """``number * 2**(FAR * power)``, which may underflow to zero or overflow to infinity."""
    with np.errstate(over="ignore"):
        return np.asarray(np.ldexp(number, FAR * np.clip(power, -8, 8)))


def one_thread(function: Callable[P, R]) -> Callable[P, R]:
    """Run matrix products in a single thread while `function` runs.

    Our matrices are small: with more threads, most of the time is spent waiting.
    """

    @wraps(function)
    def alone(*args: P.args, **kwargs: P.kwargs) -> R:
        with _libraries().limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return alone


@cache
def _libraries() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def read_number(
    argument: str, value: object, *, error: type[AnonbayesError] = AnonbayesError
) -> float:
    """Return a real number; raise `error` for text, Booleans, arrays and the like."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if isinstance(value, Real) and not isinstance(value, bool | np.bool_):
        try:
            return float(value)
        except OverflowError:
            pass
    raise error(f"{argument}={value!r} must be a number.")


HUGE = 2**62
"""Larger integers do not fit into arrays."""

MOST_CHAINS = 200
"""More chains do not help to judge convergence, and each has its own burn-in."""


def read_chains(value: object, *, error: type[AnonbayesError] = AnonbayesError) -> int:
    """Return a number of chains; raise `error` unless it is a sensible one."""
    chains = read_whole("chains", value, least=1, error=error)
    if chains > MOST_CHAINS:
        raise error(
            f"chains={value!r} is too many (at most {MOST_CHAINS}); ask for more draws= instead."
        )
    return chains


def read_whole(
    argument: str,
    value: object,
    *,
    least: int = 0,
    most: int | None = None,
    error: type[AnonbayesError] = AnonbayesError,
) -> int:
    """Return an integer from `least` to `most`; raise `error` for anything else.

    Without `most`, integers that do not fit into 64 bits are refused.
    """
    if isinstance(value, Real) and not isinstance(value, bool | np.bool_):
        number: Any = value  # the abstract type has no comparison for type checkers
        try:
            if least <= number == int(number) and number <= (HUGE if most is None else most):
                return int(number)
        except (OverflowError, TypeError, ValueError):
            pass
    above = "" if most is None else f" and at most {most:,}"
    if isinstance(value, int) and abs(value) > HUGE:
        shown, above = f"a number of {value.bit_length()} bits", f" and at most {most or HUGE:,}"
    else:
        shown = repr(value)
    raise error(f"{argument}={shown} must be a whole number of at least {least}{above}.")


def read_share(
    argument: str, value: Any, what: str, *, error: type[AnonbayesError] = AnonbayesError
) -> float:
    """Return a number strictly between 0 and 1; the error says `what` it is."""
    number = read_number(argument, value, error=error)
    if not 0 < number < 1:
        raise error(
            f"{argument}={value!r} must lie strictly between 0 and 1, because it is {what}."
        )
    return number


def read_numbers(
    argument: str, values: object, *, error: type[AnonbayesError] = AnonbayesError
) -> Floats:
    """Return numbers as an array of any shape; raise `error` for text, gaps and ragged lists."""
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
        raise error(f"{argument} must be numbers in rows of equal length: {reason}.") from None


def read_generator(
    seed: object, *, error: type[AnonbayesError] = AnonbayesError
) -> np.random.Generator:
    """Return a generator for a seed: an integer, a generator (returned as is), or None (random)."""
    if seed is None or isinstance(seed, np.random.Generator | np.random.SeedSequence):
        return np.random.default_rng(seed)
    try:
        return np.random.default_rng(read_whole("seed", seed, most=2**1024))
    except AnonbayesError:
        raise error(
            f"seed={seed!r} must be a whole number of at least 0, a Generator or None."
        ) from None
