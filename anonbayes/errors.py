"""Exceptions and warnings. Messages name the column, row and value, and say what to do."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from typing import TypeVar

Name = TypeVar("Name")
Made = TypeVar("Made")
MOST_PROBLEMS = 10


class AnonbayesError(ValueError):
    """Base class of all errors that the package raises on purpose.

    It derives from `ValueError`, so code that catches bad values keeps working.
    """


class DomainError(AnonbayesError):
    """A domain or hierarchy is malformed, or a value lies outside its domain."""


class CellError(AnonbayesError):
    """A released cell cannot be read as a set of domain values."""


class TableError(AnonbayesError):
    """A released or cleartext table is malformed as a whole."""


class AnonymizationError(AnonbayesError):
    """A release with the requested properties does not exist, or none was found."""


class ChannelError(AnonbayesError):
    """A channel's parameters or its reports are invalid."""


class ModelError(AnonbayesError):
    """A prior, an engine, or a sampler setting does not fit the table."""


class FileError(AnonbayesError, OSError):
    """A file is damaged, in use by another run, or cannot be written.

    It also derives from `OSError`, so code that handles failing disks keeps working.
    """


class ClusterError(AnonbayesError):
    """Work on a Dask cluster failed because of the cluster, not because of the data."""


class ConvergenceWarning(UserWarning):
    """The chains disagree, so the results depend on where they started."""


class MisfitWarning(UserWarning):
    """The reports are very unlikely under the channel as it was described."""


class PopulationWarning(UserWarning):
    """The people in a register are not distributed like those in the release."""


def nearest(text: object, known: Iterable[object], n: int = 3) -> str:
    """Return a sentence that suggests valid names, to end an error about `text`."""
    names = [str(k) for k in known]
    folded = {name.casefold(): name for name in reversed(names[:50_000])}
    close = difflib.get_close_matches(str(text)[:60].casefold(), folded, n=n, cutoff=0.5)
    if close:
        quoted = [repr(folded[c]) for c in close]
        return f"Did you mean {' or '.join(filter(None, (', '.join(quoted[:-1]), quoted[-1])))}?"
    shown = ", ".join(repr(k) for k in names[:6])
    return f"Choose from {shown}{', ...' if len(names) > 6 else ''}."


def at_once(names: Iterable[Name], make: Callable[[Name], Made]) -> dict[Name, Made]:
    """Call `make` for every name, and report everything that is wrong in a single error.

    The error has the type of the first problem, a line for each of the first `MOST_PROBLEMS`, and
    the number of the others.
    """
    made: dict[Name, Made] = {}
    problems: list[AnonbayesError] = []
    for name in names:
        try:
            made[name] = make(name)
        except AnonbayesError as error:
            problems.append(error)
    if len(problems) == 1:
        raise problems[0]
    if problems:
        lines = [str(problem) for problem in problems[:MOST_PROBLEMS]]
        more = len(problems) - len(lines)
        lines += [f"... and similar problems in {more} more."] if more else []
        raise type(problems[0])("\n".join(lines))
    return made


def one_of(argument: str, value: object, allowed: Iterable[str]) -> None:
    """Raise `AnonbayesError` unless `value` is one of the `allowed` settings of `argument`."""
    options = list(allowed)
    if not isinstance(value, str) or value not in options:
        listed = ", ".join(repr(a) for a in options)
        raise AnonbayesError(f"{argument}={value!r} is not valid; choose one of {listed}.")
