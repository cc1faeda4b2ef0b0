"""The result of a scenario, and the files it leaves."""

from __future__ import annotations

import contextlib
import glob
import json
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from anonbayes import __version__
from anonbayes.errors import AnonbayesError
from anonbayes.figures import apart
from anonbayes.io.files import (
    explain,
    locked,
    make_folder,
    remove_leftovers,
    save_figure,
    write_frame,
    write_text,
)

if TYPE_CHECKING:
    from anonbayes.risk.limits import LimitCheck
    from anonbayes.scenario.load import Scenario

__all__ = [
    "FORMAT",
    "Limit",
    "Result",
    "check_directory",
    "claimed",
    "compare_limits",
    "content_of",
    "plain",
    "records",
    "save_plot",
    "write",
]


# -------------------------------------------------------------------------------------------------
# What a scenario found: numbers, tables, limits, and files to be written.


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


# -------------------------------------------------------------------------------------------------
# Writing results: one directory, complete or not at all, never over an earlier run unless told.

FORMAT = 1
RESULT, DRAWS = "result.json", "posterior.nc"
PACKAGES = ("pymc", "arviz", "numpy", "pandas")


def check_directory(directory: Path, *, force: bool) -> None:
    """Raise `AnonbayesError` unless results may be written to the directory.

    With `force`, the results of an earlier run may be replaced; anything else may not.
    """
    if not directory.exists():
        return
    if not directory.is_dir():
        raise AnonbayesError(f"{str(directory)!r} is a file; name a directory for the results.")
    if not any(directory.iterdir()):
        return
    if not (directory / RESULT).is_file():
        raise AnonbayesError(
            f"{str(directory)!r} holds files that no run has written; name another directory."
        )
    if not force:
        raise AnonbayesError(
            f"{str(directory)!r} holds an earlier run; name another directory with --out, or use "
            "--force to replace it."
        )


@contextlib.contextmanager
def claimed(directory: Path) -> Iterator[None]:
    """Keep other runs out of a directory of results, and tidy up after one that was killed.

    Raises
    ------
    FileError
        If another run is writing its results there.
    """
    with locked(directory):
        for old in directory.parent.glob(f".{glob.escape(directory.name)}.*.old"):
            if not directory.exists() and (old / "run").exists():
                os.rename(old / "run", directory)  # killed in the middle of `_replace`
            shutil.rmtree(old, ignore_errors=True)
        remove_leftovers(directory.parent, directory.name)
        yield


def content_of(scenario: Scenario, result: Result) -> dict[str, Any]:
    """Return the content of result.json; names of fields are stable within a format."""
    return {
        "format": FORMAT,
        "scenario": {
            "name": scenario.name,
            "kind": scenario.settings.kind,
            "question": scenario.settings.question,
            "content": plain(scenario.content),
        },
        "versions": {
            "anonbayes": __version__,
            **{name: metadata.version(name) for name in PACKAGES},
        },
        "text": result.text,
        "measures": plain(result.measures),
        "limits": [limit.to_dict() for limit in result.limits],
        "exceeded": result.exceeded,
        "tables": {name: records(frame) for name, frame in result.tables.items()},
        "details": plain(result.details),
    }


def write(
    scenario: Scenario, result: Result, directory: Path, *, force: bool = False
) -> list[Path]:
    """Write everything under a temporary name beside the directory, then rename.

    Returns
    -------
    list of Path
        The files, in the order in which a reader wants them.
    """
    check_directory(directory, force=force)
    make_folder(directory.parent)
    with _beside(directory, ".part") as part:
        names = _fill(part, directory, scenario, result)
        _replace(part, directory)
    return [directory / name for name in names]


@contextlib.contextmanager
def _beside(directory: Path, suffix: str) -> Iterator[Path]:
    """Make a temporary directory beside another; it is removed at the end."""
    try:
        made = tempfile.mkdtemp(prefix=f".{directory.name}.", suffix=suffix, dir=directory.parent)
    except OSError as error:
        raise explain(error, directory) from error
    try:
        os.chmod(made, 0o777 & ~_umask())
        yield Path(made)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _fill(part: Path, directory: Path, scenario: Scenario, result: Result) -> list[str]:
    """Write all files, and return their names; errors speak of the directory they are meant for."""
    wanted = scenario.settings.outputs
    text = json.dumps(content_of(scenario, result), indent=2, ensure_ascii=False, allow_nan=False)
    writers = dict(result.files)
    writers[RESULT] = lambda file: write_text(file, text + "\n")
    for name, frame in result.tables.items():
        writers[f"{name}.csv"] = partial(write_frame, frame=frame, sep=";")
    if wanted.plots:
        for name, plot in result.plots.items():
            writers[f"{name}.png"] = partial(_draw, plot)
    if wanted.netcdf and result.netcdf is not None:
        writers[DRAWS] = result.netcdf
    for name, write_one in writers.items():
        try:
            write_one(part / name)
        except OSError as error:
            raise explain(error, directory / name) from error
    return list(writers)


def _draw(plot: Callable[[], Any], file: Path) -> None:
    with apart():
        save_plot(file, plot())


def _replace(part: Path, directory: Path) -> None:
    """Put the new directory in the place of the old one, which is kept until then."""
    try:
        if not directory.exists():
            os.rename(part, directory)
            return
        with _beside(directory, ".old") as old:
            os.rename(directory, old / "run")
            try:
                os.rename(part, directory)
            except BaseException:
                os.rename(old / "run", directory)
                raise
    except OSError as error:
        raise explain(error, directory) from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
