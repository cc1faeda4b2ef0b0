"""Writing results: one directory, complete or not at all, never over an earlier run unless told."""

from __future__ import annotations

import contextlib
import glob
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anonbayes import __version__
from anonbayes.errors import AnonbayesError
from anonbayes.files import explain, make_folder, remove_leftovers, write_frame, write_text
from anonbayes.locks import locked
from anonbayes.scenario.result import Result, plain, records, save_plot

if TYPE_CHECKING:
    from anonbayes.scenario.load import Scenario

__all__ = ["FORMAT", "check_directory", "claimed", "content_of", "write"]

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
