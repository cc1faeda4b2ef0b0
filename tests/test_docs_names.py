"""Names of ours that texts mention exist: modules, functions, files, in prose as in docstrings."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path

import pytest

import anonbayes

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "anonbayes"
DOTTED = re.compile(r"(?<![\w./@-])(?:anonbayes|ab)((?:\.[A-Za-z_]\w*)+)")
# Spelled like names, but files or placeholders.
FILES = {"css", "toml", "csv", "py", "json", "html", "md", "nc"}
# A file or folder of ours: `tables/readers.py`, `inference/vertical`.
PLACE = re.compile(r"`((?:[a-z_]+/)+[a-z_]*(?:\.py)?)`")
ROOMS = {p.name for base in (ROOT, PACKAGE) for p in base.iterdir() if p.is_dir()}
ROOMS |= {"commands", "guarantees", "release"}  # earlier ones

# Folders that appear when something is run.
MADE = {"benchmarks/out", "docs/_build/html"}


def texts() -> dict[str, str]:
    """All texts of the project that people read, by file."""
    found = {}
    for pattern in ("*.md", "docs/*.md", "models/*", "notebooks/*.py", "benchmarks/*", "data/*.md"):
        for file in ROOT.glob(pattern):
            if file.suffix in (".md", ".py", ".toml"):
                found[str(file.relative_to(ROOT))] = file.read_text(encoding="utf-8")
    for file in PACKAGE.rglob("*.py"):
        found[str(file.relative_to(ROOT))] = file.read_text(encoding="utf-8")
    for file in (ROOT / "notebooks").glob("*.ipynb"):
        cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
        found[str(file.relative_to(ROOT))] = "\n".join("".join(c["source"]) for c in cells)
    return found


TEXTS = texts()


def resolves(name: str) -> bool:
    """Whether a dotted name below the package leads to something."""
    thing: object = anonbayes
    path = "anonbayes"
    for part in name.split("."):
        path += f".{part}"
        try:
            thing = getattr(thing, part)
        except AttributeError:
            try:
                thing = importlib.import_module(path)
            except ModuleNotFoundError:
                # Fields of a dataclass have no place on the class.
                return part in getattr(thing, "__dataclass_fields__", {})
    return True


def dotted(text: str) -> set[str]:
    found = {match[1:] for match in DOTTED.findall(text)}
    return {name for name in found if name.rpartition(".")[2] not in FILES}


@pytest.mark.parametrize("file", sorted(TEXTS))
def test_dotted_names_exist(file):
    wrong = sorted(name for name in dotted(TEXTS[file]) if not resolves(name))
    assert not wrong


@pytest.mark.parametrize("file", sorted(name for name in TEXTS if name.endswith((".md", ".py"))))
def test_places_exist(file):
    wrong = set()
    for place in PLACE.findall(TEXTS[file]):
        if place.partition("/")[0] not in ROOMS:
            continue
        paths = [base / place for base in (ROOT, PACKAGE, (ROOT / file).parent)]
        if not any(p.exists() or p.with_suffix(".py").exists() for p in paths):
            wrong.add(place)
    assert not wrong - MADE


def test_wrong_names_are_noticed():
    text = "`ab.fit`, anonbayes.tables.table, anonbayes.nowhere, ab.Domain.absent, ab.css"
    assert dotted(text) == {"fit", "tables.table", "nowhere", "Domain.absent"}
    assert [n for n in sorted(dotted(text)) if not resolves(n)] == ["Domain.absent", "nowhere"]
    assert PLACE.findall("`tables/readers.py` `inference/` `a.py`") == [
        "tables/readers.py",
        "inference/",
    ]
