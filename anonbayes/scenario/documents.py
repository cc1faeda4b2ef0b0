"""Writes what is derived from the declared keys: the JSON schema and the README of the scenarios.

``python -m anonbayes.scenario.documents models`` brings both up to date.
"""

from __future__ import annotations

import json
import sys
from importlib import resources
from pathlib import Path

from anonbayes.files import write_text
from anonbayes.scenario.kinds import KINDS
from anonbayes.scenario.load import load
from anonbayes.scenario.schema import describe_keys, json_schema

__all__ = ["readme", "schema", "write_documents"]


def schema() -> str:
    """Text of ``scenario.schema.json``."""
    return json.dumps(json_schema(KINDS), indent=2, ensure_ascii=False) + "\n"


def readme(folder: Path) -> str:
    """Text of the README beside the scenarios of a folder."""
    template = resources.files("anonbayes.scenario").joinpath("README.template.md")
    lines = [
        f"| `{file.name}` | {load(file).settings.question} |"
        for file in sorted(folder.glob("*.toml"))
    ]
    text = template.read_text(encoding="utf-8").replace("@MODELS@", "\n".join(lines))
    return text.replace("@KEYS@\n", describe_keys(KINDS))


def write_documents(folder: Path) -> None:
    """Write both files into the folder of the scenarios."""
    write_text(folder / "scenario.schema.json", schema())
    write_text(folder / "README.md", readme(folder))


if __name__ == "__main__":
    write_documents(Path(sys.argv[1]))
