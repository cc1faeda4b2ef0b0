"""Each layer imports only from those before it (CONTRIBUTING.md)."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "anonbayes"


def layers() -> dict[str, int]:
    """Level of each module or subpackage, read from the house rules themselves."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.split("## Layers")[1].split("## ")[0]
    spans = re.findall(r"`([^`]+)`", section)
    named = [span for span in spans if "/" not in span]
    return {name.strip(): i for i, span in enumerate(named) for name in span.split(",")}


LAYERS = layers()
LAYERS["steps"] = LAYERS["inference"]  # the short public name of the step methods
# Imports against the order, each inside a function: `Posterior.assess` is where people look for it.
EXCEPTIONS = {("inference/posterior.py", "risk")}


def imported(file: Path) -> set[str]:
    """First name below `anonbayes` of everything that a file imports, type checking included."""
    package = ["anonbayes", *file.relative_to(PACKAGE).parent.parts]
    found = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            start = ".".join([*base, node.module] if node.module else base)
            names = [f"{start}.{alias.name}" for alias in node.names]
        for name in names:
            parts = name.split(".")
            if parts[0] == "anonbayes" and len(parts) > 1:
                found.add(parts[1])
    return found


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def test_the_layers_are_listed():
    assert {"errors", "domains", "tables", "inference", "cli"} <= set(LAYERS)
    assert LAYERS["errors"] < LAYERS["domains"] < LAYERS["tables"] < LAYERS["cli"]
    assert modules()


@pytest.mark.parametrize("file", modules(), ids=lambda f: str(f.relative_to(PACKAGE)))
def test_imports_go_down(file):
    own = file.relative_to(PACKAGE).parts[0].removesuffix(".py")
    if own == "__init__":
        assert imported(file) == set(), "public names are loaded lazily, see __init__.pyi"
        return
    assert own in LAYERS, f"{own} is in no layer; add it to CONTRIBUTING.md"
    for name in imported(file):
        if name in LAYERS and (file.relative_to(PACKAGE).as_posix(), name) not in EXCEPTIONS:
            assert LAYERS[name] <= LAYERS[own], f"{own} imports {name} from a layer above it"


@pytest.mark.parametrize("file", modules(), ids=lambda f: str(f.relative_to(PACKAGE)))
def test_files_stay_small(file):
    assert len(file.read_text(encoding="utf-8").splitlines()) <= 700


def test_the_check_can_fail(tmp_path, monkeypatch):
    bad = PACKAGE / "errors.py"
    monkeypatch.setattr(Path, "read_text", lambda *_, **__: "from anonbayes.tables.table import X")
    assert imported(bad) == {"tables"}
    assert LAYERS["tables"] > LAYERS["errors"]
