"""Writing results: one directory, complete or not at all, never over an earlier run unless told."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anonbayes import __version__
from anonbayes.errors import AnonbayesError
from anonbayes.scenario.result import Result, plain, records, save_plot

if TYPE_CHECKING:
    from anonbayes.scenario.load import Scenario

__all__ = ["FORMAT", "check_directory", "content_of", "write"]

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
    directory.parent.mkdir(parents=True, exist_ok=True)
    part = Path(
        tempfile.mkdtemp(prefix=f".{directory.name}.", suffix=".part", dir=directory.parent)
    )
    try:
        part.chmod(0o777 & ~_umask())
        names = _fill(part, scenario, result, scenario.settings.outputs)
        _replace(part, directory)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return [directory / name for name in names]


def _fill(part: Path, scenario: Scenario, result: Result, wanted: Any) -> list[str]:
    names = []

    def path(name: str) -> Path:
        names.append(name)
        return part / name

    for name, save in result.files.items():
        save(path(name))
    text = json.dumps(content_of(scenario, result), indent=2, ensure_ascii=False, allow_nan=False)
    path(RESULT).write_text(text + "\n", encoding="utf-8")
    for name, frame in result.tables.items():
        frame.to_csv(path(f"{name}.csv"), sep=";", lineterminator="\n")
    if wanted.plots:
        for name, plot in result.plots.items():
            save_plot(path(f"{name}.png"), plot())
    if wanted.netcdf and result.netcdf is not None:
        result.netcdf(path(DRAWS))
    return names


def _replace(part: Path, directory: Path) -> None:
    """Put the new directory in the place of the old one, which is kept until then."""
    if not directory.exists():
        os.rename(part, directory)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", suffix=".old", dir=directory.parent))
    os.rename(directory, old / "run")
    try:
        os.rename(part, directory)
    except OSError:
        os.rename(old / "run", directory)
        raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
