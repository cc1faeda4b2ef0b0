"""Run notebooks and store what they show: ``python -m notebooks [name ...] [--short]``.

A notebook is a script in the percent format; the ``.ipynb`` beside it is made from it, by this
module only. Nothing is stored when a cell fails, warns, or shows a path of this machine.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import jupytext
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

FOLDER = Path(__file__).parent
SECONDS = 600
"""Longest time that a cell may take."""
FACT = "PyTensor could not link to a BLAS installation"
"""Warning about this machine, which is none about the notebook."""


def scripts(names: list[str]) -> list[Path]:
    """Scripts of the notebooks with these names; of all without any."""
    known = {path.stem: path for path in sorted(FOLDER.glob("[!_]*.py"))}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"There is no notebook {unknown[0]!r}; there are {', '.join(known)}.")
    return [known[name] for name in names or known]


def executed(script: Path, *, short: bool) -> Any:
    """Notebook of a script, run from top to bottom in a fresh kernel."""
    notebook = jupytext.read(script)
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number:02d}"  # random ids would change with every run
        if short and "parameters" in cell.metadata.get("tags", ()):
            cell.source += "\nshort = True"
    os.environ["PYTHONWARNINGS"] = f"ignore:{FACT}"
    where = {"metadata": {"path": str(FOLDER)}}
    client = NotebookClient(
        notebook, timeout=SECONDS, kernel_name="python3", resources=where, record_timing=False
    )
    try:
        client.execute()
    except CellExecutionError as error:
        raise SystemExit(f"{script.stem} fails.\n{error}") from None
    notebook.metadata.pop("language_info", None)  # of the Python that happened to run it
    return notebook


def complaints(notebook: Any) -> list[str]:
    """What a reader should not see in the outputs: warnings, and paths of this machine."""
    found = []
    private = [str(FOLDER.parent), str(Path.home()), sys.prefix]
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            if output.get("name") == "stderr":
                found.append(f"{cell.id} writes to stderr: {output.text.strip()[-300:]}")
            shown = output.get("text", "") + str(
                {k: v for k, v in output.get("data", {}).items() if k.startswith("text/")}
            )
            found += [f"{cell.id} shows the path {p}" for p in private if p in shown]
    return found


def main() -> None:
    """Run the notebooks that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m notebooks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help="all by default")
    parser.add_argument("--short", action="store_true", help="the short form, which is not stored")
    arguments = parser.parse_args()
    failed = False
    for script in scripts(arguments.names):
        began = time.perf_counter()
        notebook = executed(script, short=arguments.short)
        for complaint in (found := complaints(notebook)):
            print(f"{script.stem}: {complaint}", file=sys.stderr)
        failed = failed or bool(found)
        target = script.with_suffix(".ipynb")
        if not found and not arguments.short:
            jupytext.write(notebook, target)
        size = f", {target.stat().st_size / 1e3:.0f} kB" if target.exists() else ""
        print(f"{script.stem}: {time.perf_counter() - began:.0f} s{size}", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
