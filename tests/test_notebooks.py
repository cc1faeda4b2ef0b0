"""Notebooks run, and the stored outputs belong to the stored code."""

import json
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"
SCRIPTS = sorted(FOLDER.glob("*.py"))


def cells(script: Path) -> list[str]:
    """Code cells of a script in the percent format."""
    pieces = script.read_text(encoding="utf-8").split("\n# %%")[1:]
    return [p.split("\n", 1)[1].strip() for p in pieces if not p.startswith(" [markdown]")]


def test_there_are_notebooks():
    assert SCRIPTS


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_the_notebook_runs(script):
    names: dict[str, object] = {"__name__": script.stem}
    with warnings.catch_warnings():
        for code in cells(script):
            exec(compile(code, str(script), "exec"), names)
    plt.close("all")
    assert "risk" in names or len(names) > 5


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_the_stored_outputs_belong_to_the_code(script):
    stored = json.loads(script.with_suffix(".ipynb").read_text(encoding="utf-8"))
    code = [c for c in stored["cells"] if c["cell_type"] == "code"]
    assert ["".join(c["source"]).strip() for c in code] == cells(script)
    assert all(c["execution_count"] for c in code), "executed from top to bottom"
    kinds = {out["output_type"] for c in code for out in c["outputs"]}
    assert "error" not in kinds
    assert "display_data" in kinds or "execute_result" in kinds
