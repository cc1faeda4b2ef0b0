"""Pages of the API reference: one per public name, as listed in ``anonbayes/__init__.pyi``.

A name that is added to the list appears here by itself, among the names of its layer.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import anonbayes

if TYPE_CHECKING:
    from sphinx.application import Sphinx
    from sphinx.config import Config

# Citations such as "OneID Alg. 1" do not end the first sentence of a docstring.
ABBREVIATIONS = ("Alg.", "App.", "Prop.", "Sec.", "Thm.")
STUB = Path(anonbayes.__file__).with_suffix(".pyi")
IMPORT = re.compile(r"^from \.(\S*) import (\w+) as \w+$", re.MULTILINE)
# Heading, and the layers or modules whose names it covers.
GROUPS = {
    "Released tables": ("domains", "hierarchies", "tables", "anonymize", "datasets"),
    "What can be learned": ("inference", "beliefs", "steps"),
    "Who is threatened": ("risk", "reidentify", "uniqueness"),
    "Can it be trusted": ("diagnostics",),
    "Reports and limits": ("reporting",),
    "Channels": ("channels", "estimation"),
    "Guarantees, budgets and information": ("notions", "budgets", "pie", "nonstochastic"),
    "Other names": (),
}


def public_names() -> dict[str, list[str]]:
    """Public names by heading."""
    groups: dict[str, list[str]] = {heading: [] for heading in GROUPS}
    for module, name in IMPORT.findall(STUB.read_text(encoding="utf-8")):
        layer = module.partition(".")[0] or name
        heading = next((h for h, layers in GROUPS.items() if layer in layers), "Other names")
        groups[heading].append(name)
    return {
        heading: sorted(names, key=lambda n: (n.lower(), n))
        for heading, names in groups.items()
        if names
    }


def is_module(name: str) -> bool:
    """Whether a public name is a module."""
    return isinstance(getattr(anonbayes, name), ModuleType)


def title(text: str, mark: str) -> str:
    """Heading in reStructuredText."""
    return f"{text}\n{mark * len(text)}\n\n"


def listing(names: list[str]) -> str:
    """Table of names, each linked to a page of its own."""
    lines = "".join(f"   {name}\n" for name in names)
    return f".. autosummary::\n   :toctree:\n   :nosignatures:\n\n{lines}\n"


def module_page(name: str) -> str:
    """Page of a public module: its docstring, and what it offers."""
    module = getattr(anonbayes, name)
    return (
        title(f"anonbayes.{name}", "=")
        + f".. module:: anonbayes.{name}\n\n"
        + (inspect.getdoc(module) or "")
        + f"\n\n.. currentmodule:: anonbayes.{name}\n\n"
        + listing(list(module.__all__))
    )


def index() -> str:
    """Page with all public names."""
    parts = [
        title("Python reference", "="),
        "Everything that ``import anonbayes as ab`` offers. Names are loaded when first used.\n\n",
        ".. module:: anonbayes\n\n.. currentmodule:: anonbayes\n\n",
    ]
    for heading, names in public_names().items():
        modules = [n for n in names if is_module(n)]
        parts.append(title(heading, "-"))
        if others := [n for n in names if n not in modules]:
            parts.append(listing(others))
        if modules:
            lines = "".join(f"   {name}\n" for name in modules)
            pages = "".join(f"   anonbayes.{name}\n" for name in modules)
            parts.append(f".. autosummary::\n   :nosignatures:\n\n{lines}\n")
            parts.append(f".. toctree::\n   :hidden:\n\n{pages}\n")
    return "".join(parts)


def write(app: Sphinx, config: Config) -> None:
    """Write the pages, leaving those that are up to date untouched and none that is not needed."""
    folder = Path(app.srcdir) / "api"
    folder.mkdir(exist_ok=True)
    pages = {"index": index()}
    documented = set()  # pages that autosummary writes
    for name in (n for names in public_names().values() for n in names):
        documented.add(f"anonbayes.{name}")
        if is_module(name):
            module = getattr(anonbayes, name)
            pages[f"anonbayes.{name}"] = module_page(name)
            documented |= {f"anonbayes.{name}.{member}" for member in module.__all__}
            # Autodoc imports by path, and knows modules that live deeper by their public one so.
            sys.modules.setdefault(f"anonbayes.{name}", module)
    for file in folder.glob("*.rst"):
        if file.stem not in documented | pages.keys():
            file.unlink()
    for name, text in pages.items():
        file = folder / f"{name}.rst"
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            file.write_text(text, encoding="utf-8")
    # Named one by one: pages that are new since the last build are not known to Sphinx yet.
    config.autosummary_generate = [f"api/{name}.rst" for name in pages]


def setup(app: Sphinx) -> dict[str, bool]:
    """Write the pages before autosummary looks for them."""
    from sphinx.ext import autosummary

    autosummary.WELL_KNOWN_ABBREVIATIONS += ABBREVIATIONS
    app.connect("config-inited", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
