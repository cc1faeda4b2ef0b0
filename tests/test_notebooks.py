"""Notebooks run in their short form, and the stored outputs belong to the stored code."""

import ast
import json
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytest

FOLDER = Path(__file__).parents[1] / "notebooks"
SCRIPTS = sorted(FOLDER.glob("[!_]*.py"))
NAMES = (
    "calibrated_attackers",
    "choosing_a_release",
    "convergence_in_practice",
    "first_steps",
    "horizontal_and_vertical",
    "ldp_surveys",
    "who_is_the_attacker",
    "who_stands_out",
    "your_own_pymc_model",
)
PARAMETERS = ' tags=["parameters"]'
LARGEST = 1_500_000


def pieces(script: Path) -> list[tuple[str, str]]:
    """Heads (what follows the marker) and bodies of the cells of a script in the percent format."""
    found = script.read_text(encoding="utf-8").split("\n# %%")[1:]
    return [(head, body.strip()) for head, _, body in (p.partition("\n") for p in found)]


def code_cells(script: Path) -> list[tuple[str, str]]:
    return [(head, body) for head, body in pieces(script) if not head.startswith(" [markdown]")]


def run(code: str, script: Path, names: dict[str, Any]) -> None:
    """Run a cell as a notebook does, its last expression rendered included."""
    tree = ast.parse(code)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, str(script), "exec"), names)
    if last is not None:
        shown = eval(compile(ast.Expression(last.value), str(script), "eval"), names)
        getattr(shown, "_repr_html_", shown.__repr__)()


def test_all_are_there():
    assert tuple(script.stem for script in SCRIPTS) == NAMES


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_the_notebook_runs(script, capsys):
    names: dict[str, Any] = {"__name__": script.stem}
    try:
        for head, code in code_cells(script):
            run(code, script, names)
            if head == PARAMETERS:
                assert names["short"] is False, "stored in full"
                names["short"] = True
    finally:
        plt.close("all")
    assert names.get("short") is True, "no cell with the tag parameters"
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_it_ends_with_what_to_conclude(script):
    head, last = pieces(script)[-1]
    headings = [line for line in last.split("\n") if line.startswith("# ##")]
    assert head == " [markdown]" and headings[-1] == "# ## What to conclude"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_the_stored_outputs_belong_to_the_code(script):
    stored = json.loads(script.with_suffix(".ipynb").read_text(encoding="utf-8"))
    code = [c for c in stored["cells"] if c["cell_type"] == "code"]
    assert ["".join(c["source"]).strip() for c in code] == [body for _, body in code_cells(script)]
    assert [c["execution_count"] for c in code] == list(range(1, len(code) + 1)), "from the top"
    outputs = [out for c in code for out in c["outputs"]]
    kinds = {out["output_type"] for out in outputs}
    assert "error" not in kinds and "display_data" in kinds
    assert not [out for out in outputs if out.get("name") == "stderr"], "warnings, progress bars"
    text = [c for c in stored["cells"] if c["cell_type"] == "markdown"]
    prose = [body for head, body in pieces(script) if head.startswith(" [markdown]")]
    assert ["".join(c["source"]).strip() for c in text] == [plain(body) for body in prose]


def plain(comment: str) -> str:
    """Markdown without the marks of the comment that holds it."""
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in comment.split("\n"))


def test_together_they_stay_small():
    assert sum(script.with_suffix(".ipynb").stat().st_size for script in SCRIPTS) < LARGEST
