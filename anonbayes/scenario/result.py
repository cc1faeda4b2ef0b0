"""What a scenario found: numbers, tables, limits, and files to be written."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from anonbayes.files import save_figure

if TYPE_CHECKING:
    from anonbayes.reporting.limits import LimitCheck

__all__ = ["Limit", "Result", "compare_limits", "plain", "records", "save_plot"]


@dataclass(frozen=True)
class Limit:
    """A limit of the scenario and what was found; `LimitCheck` is the same for threats.

    Attributes
    ----------
    name : str
        The key in ``[limits]``.
    measure : str
        The measure that is compared.
    limit, found : float
        What is acceptable, and what is the case.
    least : bool
        Whether the limit is the smallest acceptable value rather than the largest.

    Examples
    --------
    >>> Limit("max_error", "error", 0.1, found=0.2).text
    'error is 0.2 and exceeds the limit of 0.1.'
    >>> Limit("require_convergence", "converged", 1, found=0, least=True).text
    'The chains have not converged.'
    >>> Limit("min_error", "error", 0.1, found=0.2, least=True).exceeded
    False
    """

    name: str
    measure: str
    limit: float
    found: float
    least: bool = False

    @property
    def exceeded(self) -> bool:
        """Whether the limit is not kept; what could not be found (NaN) keeps it."""
        return self.found < self.limit if self.least else self.found > self.limit

    @property
    def text(self) -> str:
        """The comparison in a sentence."""
        if self.measure == "converged":
            return f"The chains have {'not ' if self.exceeded else ''}converged."
        verb = "keeps" if not self.exceeded else "misses" if self.least else "exceeds"
        return f"{self.measure} is {self.found:.4g} and {verb} the limit of {self.limit:g}."

    def to_dict(self) -> dict[str, Any]:
        """Return plain types with stable names."""
        return {
            "name": self.name,
            "measure": self.measure,
            "limit": plain(self.limit),
            "found": plain(self.found),
            "exceeded": self.exceeded,
        }


def compare_limits(
    limits: Any, found: Mapping[str, float], measures: Mapping[str, str]
) -> tuple[Limit, ...]:
    """Compare a section of limits with what was found.

    Parameters
    ----------
    limits : section
        Its keys begin with ``max_`` or ``min_``; None means no limit.
    found : mapping of str to float
        The measures; one that is missing could not be found.
    measures : mapping of str to str
        Name of the measure that each key limits.
    """
    given = {name: getattr(limits, name) for name in measures}
    return tuple(
        Limit(
            name,
            measures[name],
            limit,
            found.get(measures[name], math.nan),
            least=name.startswith("min_"),
        )
        for name, limit in given.items()
        if limit is not None
    )


@dataclass(frozen=True, kw_only=True)
class Result:
    """Answer to a scenario's question.

    Attributes
    ----------
    text : str
        The finding in plain words.
    measures : mapping of str to float
        Numbers by name; the names are stable.
    tables : mapping of str to pandas.DataFrame
        Written as CSV, and part of the JSON.
    limits : tuple of Limit or LimitCheck
        What was acceptable.
    details : mapping
        Further content of the JSON, in plain types.
    netcdf : callable, optional
        Writes the draws to a path.
    plots : mapping of str to callable
        Each returns matplotlib axes.
    files : mapping of str to callable
        Further files by name; each is called with the path to write to.
    """

    text: str
    measures: Mapping[str, float]
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    limits: tuple[Limit | LimitCheck, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)
    netcdf: Callable[[Path], object] | None = None
    plots: Mapping[str, Callable[[], Any]] = field(default_factory=dict)
    files: Mapping[str, Callable[[Path], object]] = field(default_factory=dict)

    @property
    def exceeded(self) -> bool:
        """Whether any limit is not kept."""
        return any(limit.exceeded for limit in self.limits)


def plain(value: Any) -> Any:
    """Return a value that JSON knows: neither NaN nor infinity nor NumPy's numbers.

    Examples
    --------
    >>> import numpy as np
    >>> plain({"a": np.float64(0.5), "b": [float("inf"), np.int64(2)]})
    {'a': 0.5, 'b': [None, 2]}
    """
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if isinstance(value, str | int | bool | None) else str(value)


def records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the lines of a frame, its index included, for JSON."""
    lines: list[dict[str, Any]] = frame.reset_index().to_dict("records")  # type: ignore[assignment]
    return [plain(line) for line in lines]


def save_plot(path: Path, axes: Any) -> None:
    """Write the figure of axes, or of an array of axes, as PNG."""
    first = axes.flat[0] if hasattr(axes, "flat") else axes
    save_figure(path, first.figure, dpi=150)
