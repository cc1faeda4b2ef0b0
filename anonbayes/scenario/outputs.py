"""The result of a scenario, and the files written for it."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anonbayes import __version__
from anonbayes.errors import AnonbayesError
from anonbayes.figures import apart
from anonbayes.formats import plain, records
from anonbayes.io.files import (
    Plot,
    locked,
    mend,
    needs_mending,
    save_plot,
    write_frame,
    write_text,
    write_together,
)
from anonbayes.scenario.keys import AnyPath, Section, key

if TYPE_CHECKING:
    import pandas as pd

    from anonbayes.notions.ldp import Audit
    from anonbayes.risk.measures import Limit
    from anonbayes.scenario.load import Scenario


class Outputs(Section):
    """Where results go, and which are written."""

    directory: AnyPath | None = key(
        "Directory for the results; by default out/NAME next to the file.", None
    )
    netcdf: bool = key("Write the posterior as netCDF, for ArviZ.", True)
    plots: bool = key("Write plots as PNG.", True)
    tables: bool = key("Write tables as CSV.", True)


class AnyScenario(Section):
    """Keys that every kind of scenario has."""

    question: str = key("The question to answer, in words.")
    seed: int | None = key("Seed that makes the run reproducible.", None, ge=0)
    outputs: Outputs = key("Where results go.", Outputs)


# -------------------------------------------------------------------------------------------------
# The result of a scenario: numbers, tables, limits, and files to be written.


def compare_limits(
    limits: Any, found: Mapping[str, float], measures: Mapping[str, str]
) -> tuple[Limit, ...]:
    """Compare the limits ``max_...`` and ``min_...`` of a section with the measures.

    A missing measure exceeds its limit, because it could not be computed.
    """
    from anonbayes.risk.measures import Limit

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
    """Answer to a scenario's question: text, numbers with stable names, tables, limits.

    `fields` and `details` are further parts of the JSON, as plain types; `answer` has the
    underlying objects, for programs. `netcdf` and `files` are functions of the path to write to.
    """

    text: str
    measures: Mapping[str, float]
    tables: Mapping[str, pd.DataFrame] = field(default_factory=dict)
    limits: tuple[Limit, ...] = ()
    fields: Mapping[str, object] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    answer: Any = None
    netcdf: Callable[[Path], object] | None = None
    plots: Mapping[str, Plot] = field(default_factory=dict)
    files: Mapping[str, Callable[[Path], object]] = field(default_factory=dict)

    @property
    def exceeded(self) -> bool:
        """Whether any limit is exceeded."""
        return any(limit.exceeded for limit in self.limits)


def audit_record(audit: Audit) -> dict[str, object]:
    """Return the result of an audit for JSON."""
    value, other, report = audit.witness or (None, None, None)
    return {
        "notion": str(audit.notion),
        "holds": audit.holds,
        "epsilon": math.log(audit.worst_ratio) if audit.worst_ratio > 0 else 0.0,
        "worst_ratio": audit.worst_ratio,
        "limit": audit.limit,
        "value": None if value is None else str(value),
        "other": None if other is None else str(other),
        "report": None if report is None else str(report),
    }


BAYES = "Drawing shares from their posterior (slower the first time, while code is compiled)"

SAID: set[str] = set()
"""Lines that the terminal has been shown, and need not be shown again in a later stage."""


@contextlib.contextmanager
def stage(what: str, *, shown: bool = True, bars: bool = False) -> Iterator[None]:
    """Show on a terminal what is being done, as a line if it shows its own progress bars."""
    if not (shown and sys.stderr.isatty()):
        yield
        return
    screen = announce(f"{what} ..." if bars else "")

    def say(line: str) -> None:
        if line not in SAID:
            screen.print(line)
        SAID.add(line)

    with contextlib.nullcontext() if bars else screen.status(f"{what} ..."):
        with told_of_compiling(say):
            yield


def announce(line: str) -> Any:
    """Print a line on a terminal to show that something is happening; returns the screen."""
    from rich.console import Console

    screen = Console(stderr=True)
    if line and sys.stderr.isatty():
        screen.print(line, style="dim")
    return screen


@contextlib.contextmanager
def told_of_compiling(say: Callable[[str], object]) -> Iterator[None]:
    """Say once when Numba compiles something, because the very first run takes a minute longer."""
    from numba.core import event

    class Told(event.Listener):
        told = False

        def on_start(self, event: object) -> None:
            if not self.told:
                say("Compiling for this machine, once; this run takes a little longer.")
            self.told = True

        def on_end(self, event: object) -> None:
            """Do nothing."""

    with event.install_listener("numba:compile", Told()):
        yield


# -------------------------------------------------------------------------------------------------
# The content of result.json, which `anonbayes assess` calls risk.json; see docs/risk-json.md.

FORMAT = 1
PACKAGES = ("pymc", "arviz", "numpy", "pandas", "numba")


def content_of(
    scenario: Scenario, result: Result, *, command: str | None = None
) -> dict[str, object]:
    """Return the content of a result file; names of fields are stable within a format."""
    return {
        "format": FORMAT,
        **({} if command is None else {"command": command}),
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
        **result.fields,
    }


def as_json(content: Mapping[str, Any]) -> str:
    """Return the JSON text of a result; each of the possibly many ``rows`` has its own line."""
    rest = {name: value for name, value in content.items() if name != "rows"}
    head = json.dumps(rest, indent=2, ensure_ascii=False, allow_nan=False)
    if "rows" not in content:
        return head
    rows = ",\n".join(
        f"    {json.dumps(row, allow_nan=False, separators=(',', ':'))}" for row in content["rows"]
    )
    start = head.removesuffix("\n}")
    return f'{start},\n  "rows": [\n{rows}\n  ]\n}}'


# -------------------------------------------------------------------------------------------------
# Writing results: completely or not at all, and never over an earlier run unless asked to.

RESULT, DRAWS = "result.json", "posterior.nc"


@dataclass(frozen=True)
class Place:
    """Directory for the results of a run; with `force`, those of an earlier run may be replaced.

    The JSON file `seal` is written last: if it exists, the other files belong to it. `shared` lists
    the run's files in a directory with other files; by default all files belong to the run.
    """

    directory: Path
    force: bool = False
    seal: str = RESULT
    shared: tuple[str, ...] = ()

    def check(self) -> None:
        """Raise `AnonbayesError` unless results may be written to the directory."""
        if needs_mending(self.directory):
            with locked(self.directory):
                mend(self.directory)
        place = repr(str(self.directory))
        if self.directory.exists() and not self.directory.is_dir():
            raise AnonbayesError(f"{place} is a file; give a directory for the results.")
        present = [] if not self.directory.exists() else list(self.directory.iterdir())
        if self.shared:
            present = [file for file in present if file.name in self.shared]
        elif present and not (self.directory / self.seal).is_file():
            raise AnonbayesError(
                f"{place} contains files that are not results of a run; choose another directory."
            )
        if present and not self.force:
            named = f" ({', '.join(sorted(file.name for file in present))})" if self.shared else ""
            raise AnonbayesError(
                f"{place} contains an earlier run{named}; choose another directory with --out, or "
                "replace it with --force."
            )

    @contextlib.contextmanager
    def claimed(self) -> Iterator[None]:
        """Lock out other runs (`FileError`), and clean up after one that was killed."""
        with locked(self.directory):
            mend(self.directory)
            self.check()  # another run may have ended in the meantime
            yield

    def write(self, content: Mapping[str, object], result: Result, wanted: Outputs) -> list[Path]:
        """Write the requested files; return them in the order in which to read them."""
        writers: dict[str, Callable[[Path], object]] = dict(result.files)
        writers[self.seal] = partial(write_text, text=as_json(content) + "\n")
        if wanted.tables:
            for name, frame in result.tables.items():
                writers[f"{name}.csv"] = partial(write_frame, frame=frame, sep=";")
        if wanted.plots:
            for name, plot in result.plots.items():
                writers[f"{name}.png"] = partial(_draw, plot)
        if wanted.netcdf and result.netcdf is not None:
            writers[DRAWS] = result.netcdf
        names = list(writers)
        writers[self.seal] = writers.pop(self.seal)
        with stage("Writing the report and other files"):
            write_together(self.directory, writers, replaces=self.shared or None)
        return [self.directory / name for name in names]


def _draw(plot: Plot, file: Path) -> None:
    with apart():
        save_plot(file, plot())
