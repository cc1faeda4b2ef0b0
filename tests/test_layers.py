"""The floor plan: which module imports which, and what the modules are called.

Each module imports only from its own layer and those before it (CONTRIBUTING.md), and no chain of
imports leads back to where it started, wherever in a file the imports stand.
"""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "anonbayes"
LONGEST_FILE = 700

# What is against the rules today, and why. These lists may only shrink: an entry that is no longer
# needed fails the tests too.
Edge = tuple[str, str]
UPWARD: dict[Edge, str] = {
    ("inference.posterior", "risk.assess"): "`Posterior.assess` is where people look for it",
    ("inference.posterior", "diagnostics.predictive"): "`Posterior.check`, likewise",
    ("inference.vertical.parts", "risk.summed"): "`PartsFit.assess`, likewise",
}
CYCLES: dict[Edge, str] = {}
UPWARD_TYPES: dict[Edge, str] = {
    ("inference.posterior", "risk.assessment"): "`Posterior.assess` returns it",
    ("inference.posterior", "diagnostics.predictive"): "`Posterior.check` returns it",
    ("inference.vertical.parts", "risk.summed"): "`PartsFit.assess` returns it",
}
SAME_MODULE_NAME: set[str] = set()
SAME_CLASS_NAME: set[str] = set()


@dataclass(frozen=True)
class Import:
    """One import of a module of ours; `typing` when only type checkers follow it."""

    source: str
    target: str
    typing: bool


def layers(text: str) -> dict[str, int]:
    """Level of each module or subpackage, read from the rules of the house."""
    section = text.split("## Layers")[1].split("## ")[0]
    named = [span for span in re.findall(r"`([^`]+)`", section) if "/" not in span]
    return {name.strip(): i for i, span in enumerate(named) for name in span.split(",")}


def sources() -> dict[str, str]:
    """Text of each module by its name below the package; '' is the package itself."""
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = file.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = file.read_text(encoding="utf-8")
    return found


def imports(name: str, text: str, known: Iterable[str]) -> Iterator[Import]:
    """Imports of a module, those inside functions included."""
    tree = ast.parse(text)
    typing = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")
        for statement in node.body
        for inner in ast.walk(statement)
    }
    for node in ast.walk(tree):
        targets: list[str] = []
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{name}, line {node.lineno}: imports are absolute"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                targets.append(whole if whole.removeprefix("anonbayes.") in known else node.module)
        for target in targets:
            if target.startswith("anonbayes."):
                inner = target.removeprefix("anonbayes.")
                assert inner in known, f"{name} imports {target}, which is not there"
                yield Import(name, inner, id(node) in typing)


def circles(edges: Iterable[Edge]) -> list[list[str]]:
    """Sets of modules that reach each other (Tarjan), so that every import cycle lies in one."""
    graph: dict[str, set[str]] = defaultdict(set)
    for source, target in edges:
        graph[source].add(target)
    order: dict[str, int] = {}
    lowest: dict[str, int] = {}
    open_: list[str] = []
    found = []

    def visit(node: str) -> None:
        order[node] = lowest[node] = len(order)
        open_.append(node)
        for other in graph.get(node, ()):
            if other not in order:
                visit(other)
            if other in open_:
                lowest[node] = min(lowest[node], lowest[other])
        if lowest[node] == order[node]:
            start = open_.index(node)
            circle = open_[start:]
            del open_[start:]
            if len(circle) > 1 or node in graph[node]:
                found.append(sorted(circle))

    for node in sorted(graph):
        if node not in order:
            visit(node)
    return found


def against_the_order(edges: Iterable[Edge], level: dict[str, int]) -> set[Edge]:
    """Imports from a later layer."""

    def height(module: str) -> int:
        return level[module.partition(".")[0]]

    return {(source, target) for source, target in edges if height(target) > height(source)}


SOURCES = sources()
LAYERS = layers((ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
LAYERS["steps"] = LAYERS["inference"]  # the short public name of the step methods
IMPORTS = {i for name, text in SOURCES.items() for i in imports(name, text, SOURCES)}
RUNNING = {(i.source, i.target) for i in IMPORTS if not i.typing}
TYPES = {(i.source, i.target) for i in IMPORTS if i.typing}


def same(found: set, listed: Iterable) -> None:
    """Fail unless exactly the listed exceptions are found, and say which are not."""
    new, needless = found - set(listed), set(listed) - found
    assert not new, f"against the rules: {sorted(new)}"
    assert not needless, f"mended; remove from the exceptions above: {sorted(needless)}"


def test_every_module_is_in_a_layer():
    missing = {name.partition(".")[0] for name in SOURCES} - set(LAYERS) - {""}
    assert not missing, "add them to the layers in CONTRIBUTING.md"
    gone = set(LAYERS) - {name.partition(".")[0] for name in SOURCES} - {"steps"}
    assert not gone, "remove them from the layers in CONTRIBUTING.md"
    assert LAYERS["errors"] < LAYERS["domains"] < LAYERS["tables"] < LAYERS["risk"] < LAYERS["cli"]


def test_public_names_are_loaded_when_used():
    assert not [i for i in IMPORTS if i.source == ""], "list public names in __init__.pyi only"


def test_imports_go_down():
    same(against_the_order(RUNNING, LAYERS), UPWARD)


def test_types_come_from_below_too():
    same(against_the_order(TYPES, LAYERS), UPWARD_TYPES)


def test_no_import_leads_back():
    assert circles(RUNNING - set(CYCLES)) == []


def test_exceptions_are_needed():
    for edge in CYCLES:
        assert edge in RUNNING, f"{edge} is gone: remove it from CYCLES"
        others = RUNNING - (set(CYCLES) - {edge})
        assert circles(others), f"{edge} closes no cycle any more: remove it from CYCLES"


def test_files_stay_readable():
    long = {n: lines for n, t in SOURCES.items() if (lines := t.count("\n")) > LONGEST_FILE}
    assert not long


def test_a_module_name_means_one_thing():
    last = Counter(name.rpartition(".")[2] for name in SOURCES)
    same({name for name, times in last.items() if times > 1}, SAME_MODULE_NAME)


def test_a_class_name_means_one_thing():
    classes = Counter(
        node.name
        for text in SOURCES.values()
        for node in ast.parse(text).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    same({name for name, times in classes.items() if times > 1}, SAME_CLASS_NAME)


def test_the_checks_can_fail():
    known = {"a": "", "b": "", "b.c": ""}
    text = (
        "import anonbayes.a\ndef f():\n    from anonbayes import b\n    from anonbayes.b import c"
    )
    assert {i.target for i in imports("x", text, known)} == {"a", "b", "b.c"}
    assert not any(i.typing for i in imports("x", text, known))
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from anonbayes.a import A"
    assert [i.typing for i in imports("x", text, known)] == [True]
    with pytest.raises(AssertionError, match="absolute"):
        list(imports("x", "from . import y", known))
    with pytest.raises(AssertionError, match="not there"):
        list(imports("x", "import anonbayes.z", known))
    with pytest.raises(AssertionError, match="against the rules"):
        same({"new"}, set())
    with pytest.raises(AssertionError, match="mended"):
        same(set(), {"old"})

    assert circles([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")]) == [["a", "b", "c"]]
    assert circles([("a", "a")]) == [["a"]]
    assert circles([("a", "b"), ("a", "c"), ("b", "d"), ("c", "d")]) == []
    level = layers("## Layers\n`low`, see `tests/x.py` · `high, top`\n## Next")
    assert level == {"low": 0, "high": 1, "top": 1}
    assert against_the_order([("low.x", "top"), ("high", "low.x")], level) == {("low.x", "top")}
